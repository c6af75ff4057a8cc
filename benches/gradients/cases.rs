//! The measured programs: each example with its arguments, its hand-written counterpart and what is known of it. The
//! command `dualvm bench` and the Criterion benchmark both measure what stands here.
//!
//! Arguments and results cross the host's border in every call, as they do in use; how much of a call is the run itself
//! is measured too. Cases are made for an engine: whatever its configuration says about how code runs is measured.

use super::hand;
use dualvm::{CallFrame, CallOptions, Config, Engine, Error, FlatFunction, FlatValue, Function, HostType, Jit, Module};
use dualvm::{Stats, TypedFunction, Value};
use std::cell::RefCell;
use std::fmt;
use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Which code of dualvm runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tier {
    /// Everything is interpreted.
    Interpreter,
    /// What runs often is compiled, as in an engine by default. The warm-up is often enough.
    Native,
    /// Everything is compiled before it runs.
    AlwaysNative,
}

impl Tier {
    /// As reports have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tier::Interpreter => "interpreter",
            Tier::Native => "native",
            Tier::AlwaysNative => "always native",
        }
    }

    /// An engine on which code runs so, on one thread.
    pub(crate) fn engine(self) -> Engine {
        self.engine_of(1)
    }

    /// An engine on which code runs so, on a number of threads; 0 stands for one per core.
    pub(crate) fn engine_of(self, threads: usize) -> Engine {
        let mut config = Config::default();
        config.threads = threads;
        config.jit = match self {
            Tier::Interpreter => Jit::Off,
            Tier::Native => Jit::Auto,
            Tier::AlwaysNative => Jit::Always,
        };
        Engine::new(config)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Programs that are measured together.
pub(crate) struct Suite {
    /// What `--suite` takes.
    pub(crate) name: &'static str,
    /// In the order of the report.
    pub(crate) cases: &'static [Maker],
}

/// What makes a case for an engine.
pub(crate) struct Maker {
    /// The name of the case.
    pub(crate) name: &'static str,
    pub(crate) make: fn(&Engine) -> Case,
}

/// Cases by the functions that make them, which are called as they are.
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        &[$(Maker { name: stringify!($name), make: $name }),+]
    };
}

/// All suites.
pub(crate) const SUITES: [Suite; 3] = [
    // The programs of table 1 of Smeding and Vákár (2024), with its arguments. Where the program there is about lists,
    // the same with arrays stands before it.
    Suite {
        name: "table1",
        cases: cases![
            mult,
            mult_typed,
            mult_flat,
            dotprod,
            dotprod_list,
            summatvec,
            summatvec_list,
            rotate_vec_by_quat,
            neural,
            particles,
        ],
    },
    // Programs of numbers and arrays.
    Suite { name: "core", cases: cases![mult, dotprod, summatvec, rosenbrock, newton, newton_sweep, spring] },
    // Programs that show what the code of a run is worth: long loops, branches, large data, and the smallest call.
    Suite {
        name: "native",
        cases: cases![
            particles,
            rotations,
            neural,
            dotprod_1e6,
            summatvec_1e6,
            dotprod_list_1e5,
            branchy,
            newton,
            mult_typed,
            mult_flat,
        ],
    },
];

/// A program with arguments.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    function: Function,
    args: Vec<Value>,
    border: Border,
    /// Operations on reals in the primal, by the text of the program: `+ - * /`, negation (of what isn't a number
    /// in the text), powers, `min`, `max` and elementary functions count one each; comparisons, loads and operations on
    /// integers don't count.
    pub(crate) ops: u64,
    /// How many numbers it goes through, where time per element says more than time.
    pub(crate) elements: Option<u64>,
    /// Time of value and gradient in nanoseconds in table 1 of Smeding and Vákár (2024), on their machine.
    pub(crate) paper_gradient_ns: Option<f64>,
    hand: Hand,
}

/// How arguments and results cross the border.
enum Border {
    /// As values.
    Values,
    /// As two reals.
    Typed(TypedFunction<(f64, f64), f64>),
    /// As two reals in a row, with memory that is kept from call to call.
    Flat(FlatFunction, Box<RefCell<CallFrame>>),
}

/// What is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Measure {
    Primal,
    Gradient,
    /// The part of a call that runs code: without the conversion of arguments and results.
    PrimalRun,
    /// The same of value and gradient: forward run and sweeps.
    GradientRun,
    HandPrimal,
    HandGradient,
}

impl Measure {
    /// Those that are the same in every tier.
    pub(crate) const BY_HAND: [Measure; 2] = [Measure::HandPrimal, Measure::HandGradient];

    /// Those that a tier has of its own.
    pub(crate) const OF_A_TIER: [Measure; 4] =
        [Measure::Primal, Measure::Gradient, Measure::PrimalRun, Measure::GradientRun];
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Measure::Primal => "primal",
            Measure::Gradient => "gradient",
            Measure::PrimalRun => "primal_run",
            Measure::GradientRun => "gradient_run",
            Measure::HandPrimal => "hand_primal",
            Measure::HandGradient => "hand_gradient",
        })
    }
}

/// All reals of a result, and all derivatives, in the order of the arguments; for a Jacobian row by row.
#[derive(Debug)]
struct Answer {
    value: Vec<f64>,
    derivatives: Vec<f64>,
}

/// Runs something a number of times.
type Timed = Box<dyn Fn(u64) -> Duration>;

/// The program in Rust.
struct Hand {
    primal: Timed,
    gradient: Timed,
    answer: Answer,
}

impl Hand {
    /// `answer` takes what `primal` and `gradient` return.
    fn new<D: 'static, P: 'static, G: 'static>(
        data: D,
        primal: impl Fn(&D) -> P + 'static,
        gradient: impl Fn(&D) -> G + 'static,
        answer: fn(P, G) -> Answer,
    ) -> Hand {
        let answer = answer(primal(&data), gradient(&data));
        let data = Rc::new(data);
        Hand { primal: timed(Rc::clone(&data), primal), gradient: timed(data, gradient), answer }
    }
}

fn timed<D: 'static, R>(data: Rc<D>, run: impl Fn(&D) -> R + 'static) -> Timed {
    Box::new(move |times| {
        let began = Instant::now();
        for _ in 0..times {
            black_box(run(black_box(&data)));
        }
        began.elapsed()
    })
}

/// Why a case can't be measured.
#[derive(Debug)]
pub(crate) enum Unsound {
    /// A call gave no result.
    Call(Error),
    /// dualvm and the hand-written program disagree.
    Differs { what: &'static str, index: usize, expected: f64, found: f64 },
    /// Results have different sizes.
    Count { what: &'static str, expected: usize, found: usize },
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsound::Call(error) => write!(f, "{error}"),
            Unsound::Differs { what, index, expected, found } => {
                write!(f, "{what} {index}: by hand {expected}, found {found}")
            }
            Unsound::Count { what, expected, found } => write!(f, "{what}: by hand {expected} reals, found {found}"),
        }
    }
}

impl From<Error> for Unsound {
    fn from(error: Error) -> Self {
        Unsound::Call(error)
    }
}

impl Case {
    /// Compiles an example, in which the function is called like the case.
    fn new(engine: &Engine, name: &'static str, source: &str, args: Vec<Value>, ops: u64, hand: Hand) -> Case {
        let module = Module::from_source(engine, name, source).expect("the examples compile");
        let function = module.function(name).expect("an example defines the function that it is measured by");
        Case { name, function, args, border: Border::Values, ops, elements: None, paper_gradient_ns: None, hand }
    }

    /// Pieces of native code that there are by now.
    pub(crate) fn compiled(&self) -> usize {
        self.function.compiled().len()
    }

    /// Compares value and gradient with the hand-written ones; gives what the gradient used.
    pub(crate) fn check(&self) -> Result<Stats, Unsound> {
        let expected = &self.hand.answer;
        near("value", &expected.value, &reals(&[self.function.call(&self.args)?]))?;
        match &self.border {
            Border::Values => {}
            Border::Typed(typed) => {
                let (value, (x_adj, y_adj)) = typed.value_and_grad(self.pair())?;
                near("value of the typed call", &expected.value, &[typed.call(self.pair())?])?;
                near("value of the typed recording run", &expected.value, &[value])?;
                near("derivative of the typed call", &expected.derivatives, &[x_adj, y_adj])?;
            }
            Border::Flat(flat, frame) => {
                let frame = &mut frame.borrow_mut();
                near("value of the flat call", &expected.value, &[self.flat_value(flat, frame)?])?;
                let (value, derivatives) = self.flat_gradient(flat, frame)?;
                near("value of the flat recording run", &expected.value, &[value])?;
                near("derivative of the flat call", &expected.derivatives, &derivatives)?;
            }
        }
        let (value, derivatives, stats) = if self.is_scalar() {
            let result = self.function.value_and_grad_with(&self.args, &CallOptions::default())?;
            (vec![result.value], reals(&result.gradient), result.stats)
        } else {
            let result = self.function.jacobian_with(&self.args, &CallOptions::default())?;
            (reals(&[result.value]), reals(&result.rows.concat()), result.stats)
        };
        near("value of the recording run", &expected.value, &value)?;
        near("derivative", &expected.derivatives, &derivatives)?;
        Ok(stats)
    }

    /// The arguments of a call without values.
    fn pair(&self) -> (f64, f64) {
        match self.args[..] {
            [Value::Real(x), Value::Real(y)] => (x, y),
            _ => unreachable!("a case without values has two reals"),
        }
    }

    fn flat_value(&self, flat: &FlatFunction, frame: &mut CallFrame) -> Result<f64, Error> {
        let (x, y) = black_box(self.pair());
        let results = flat.call(frame, &[x.into(), y.into()])?;
        Ok(results.get(0).and_then(FlatValue::as_real).expect("the program returns a real"))
    }

    fn flat_gradient(&self, flat: &FlatFunction, frame: &mut CallFrame) -> Result<(f64, [f64; 2]), Error> {
        let (x, y) = black_box(self.pair());
        let (value, gradient) = flat.value_and_grad(frame, &[x.into(), y.into()])?;
        Ok((value, gradient.reals().try_into().expect("the program takes two reals")))
    }

    /// Whether the derivative is a gradient; if not, it is a Jacobian.
    fn is_scalar(&self) -> bool {
        self.function.interface().result == HostType::Real
    }

    /// How long a number of runs takes together.
    pub(crate) fn time(&self, measure: Measure, times: u64) -> Result<Duration, Error> {
        match (measure, &self.border) {
            (Measure::Primal, Border::Values) => repeat(times, || self.function.call(black_box(&self.args))),
            (Measure::Gradient, Border::Values) if self.is_scalar() => {
                repeat(times, || self.function.value_and_grad(black_box(&self.args)))
            }
            (Measure::Gradient, Border::Values) => repeat(times, || self.function.jacobian(black_box(&self.args))),
            (Measure::Primal, Border::Typed(typed)) => repeat(times, || typed.call(black_box(self.pair()))),
            (Measure::Gradient, Border::Typed(typed)) => repeat(times, || typed.value_and_grad(black_box(self.pair()))),
            (Measure::Primal, Border::Flat(flat, frame)) => {
                let frame = &mut frame.borrow_mut();
                repeat(times, || self.flat_value(flat, frame))
            }
            (Measure::Gradient, Border::Flat(flat, frame)) => {
                let frame = &mut frame.borrow_mut();
                repeat(times, || self.flat_gradient(flat, frame))
            }
            (Measure::PrimalRun | Measure::GradientRun, _) => {
                let mut sum = Duration::ZERO;
                for _ in 0..times {
                    let stats = self.stats(measure == Measure::GradientRun)?;
                    sum += stats.forward + stats.sweep;
                }
                Ok(sum)
            }
            (Measure::HandPrimal, _) => Ok((self.hand.primal)(times)),
            (Measure::HandGradient, _) => Ok((self.hand.gradient)(times)),
        }
    }

    /// Runs once; gives what the run used.
    fn stats(&self, gradient: bool) -> Result<Stats, Error> {
        let options = CallOptions::default();
        Ok(match (gradient, &self.border) {
            (false, Border::Values) => self.function.call_with(&self.args, &options)?.1,
            (true, Border::Values) if self.is_scalar() => {
                self.function.value_and_grad_with(&self.args, &options)?.stats
            }
            (true, Border::Values) => self.function.jacobian_with(&self.args, &options)?.stats,
            (false, Border::Typed(typed)) => typed.call_with(self.pair(), &options)?.1,
            (true, Border::Typed(typed)) => typed.value_and_grad_with(self.pair(), &options)?.2,
            (_, Border::Flat(flat, frame)) => {
                let frame = &mut frame.borrow_mut();
                frame.set_timed(true);
                let ran = if gradient {
                    self.flat_gradient(flat, frame).map(|_| ())
                } else {
                    self.flat_value(flat, frame).map(|_| ())
                };
                frame.set_timed(false);
                ran?;
                frame.stats().expect("the call has succeeded")
            }
        })
    }
}

fn repeat<T>(times: u64, mut run: impl FnMut() -> Result<T, Error>) -> Result<Duration, Error> {
    let began = Instant::now();
    for _ in 0..times {
        black_box(run()?);
    }
    Ok(began.elapsed())
}

/// Relative difference that is no error.
pub(crate) const TOLERANCE: f64 = 1e-9;

/// Numbers below this are compared as if they were this large: a derivative that is 0 comes out as rounding errors.
pub(crate) const SMALL: f64 = 1e-3;

pub(crate) fn near(what: &'static str, expected: &[f64], found: &[f64]) -> Result<(), Unsound> {
    if expected.len() != found.len() {
        return Err(Unsound::Count { what, expected: expected.len(), found: found.len() });
    }
    let is_near = |x: f64, y: f64| (x - y).abs() <= TOLERANCE * x.abs().max(SMALL);
    match expected.iter().zip(found).position(|(&x, &y)| !is_near(x, y)) {
        Some(index) => Err(Unsound::Differs { what, index, expected: expected[index], found: found[index] }),
        None => Ok(()),
    }
}

/// All reals in values, in order.
pub(crate) fn reals(values: &[Value]) -> Vec<f64> {
    fn collect(value: &Value, all: &mut Vec<f64>) {
        match value {
            Value::Real(x) => all.push(*x),
            Value::Reals(xs) => all.extend(xs),
            Value::Tuple(parts) | Value::Array(parts) => parts.iter().for_each(|part| collect(part, all)),
            Value::Record(fields) => fields.iter().for_each(|(_, part)| collect(part, all)),
            Value::Variant(_, payload) => collect(payload, all),
            _ => {}
        }
    }
    let mut all = Vec::new();
    values.iter().for_each(|value| collect(value, &mut all));
    all
}

/// Numbers `start, start + step, …`.
pub(crate) fn ramp(n: usize, start: f64, step: f64) -> Vec<f64> {
    (0..n).map(|i| start + step * i as f64).collect()
}

fn rows(matrix: &[Vec<f64>]) -> Value {
    Value::Array(matrix.iter().map(|row| row.as_slice().into()).collect())
}

fn mult(engine: &Engine) -> Case {
    let hand = Hand::new(
        [3.0, 4.0],
        |&[x, y]| hand::mult(x, y),
        |&[x, y]| hand::mult_grad(x, y),
        |value, (_, adjs)| Answer { value: vec![value], derivatives: adjs.to_vec() },
    );
    let case =
        Case::new(engine, "mult", include_str!("../../examples/mult.dual"), vec![3.0.into(), 4.0.into()], 1, hand);
    Case { paper_gradient_ns: Some(330.0), ..case }
}

/// The same, called with two numbers in place of values.
fn mult_typed(engine: &Engine) -> Case {
    let case = mult(engine);
    let typed = case.function.typed().expect("the program takes two reals and returns one");
    Case { name: "mult_typed", border: Border::Typed(typed), ..case }
}

/// The same, called with two numbers in a row and with memory of its own.
fn mult_flat(engine: &Engine) -> Case {
    let case = mult(engine);
    let flat = case.function.flat().expect("reals are flat");
    Case { name: "mult_flat", border: Border::Flat(flat, Box::new(RefCell::new(CallFrame::new()))), ..case }
}

/// Elements of the vectors of the dot product, and variables of the Rosenbrock function.
const ELEMENTS: usize = 10_000;

fn dotprod(engine: &Engine) -> Case {
    dotprod_of(engine, "dotprod", ELEMENTS)
}

fn dotprod_list(engine: &Engine) -> Case {
    dotprod_of(engine, "dotprod_list", ELEMENTS)
}

/// Arrays that no cache holds.
fn dotprod_1e6(engine: &Engine) -> Case {
    Case { name: "dotprod_1e6", paper_gradient_ns: None, ..dotprod_of(engine, "dotprod", 1_000_000) }
}

/// Lists that no inner cache holds.
fn dotprod_list_1e5(engine: &Engine) -> Case {
    Case { name: "dotprod_list_1e5", paper_gradient_ns: None, ..dotprod_of(engine, "dotprod_list", 100_000) }
}

fn dotprod_of(engine: &Engine, name: &'static str, elements: usize) -> Case {
    let (a, b) = (ramp(elements, 1.0, 1.0), ramp(elements, 3.0, 2.0));
    let args = vec![a.as_slice().into(), b.as_slice().into()];
    let hand = Hand::new(
        (a, b),
        |(a, b)| hand::dotprod(a, b),
        |(a, b)| hand::dotprod_grad(a, b),
        |value, (_, adjs)| Answer { value: vec![value], derivatives: adjs.concat() },
    );
    // A product and a sum for each element. The paper gives a time per element.
    let case = Case::new(engine, name, include_str!("../../examples/dotprod.dual"), args, 2 * elements as u64, hand);
    Case { elements: Some(elements as u64), paper_gradient_ns: Some(950.0 * elements as f64), ..case }
}

/// Rows and columns of the matrix.
const SIDE: usize = 100;

fn summatvec(engine: &Engine) -> Case {
    summatvec_of(engine, "summatvec", SIDE)
}

fn summatvec_list(engine: &Engine) -> Case {
    summatvec_of(engine, "summatvec_list", SIDE)
}

/// A matrix that no cache holds.
fn summatvec_1e6(engine: &Engine) -> Case {
    Case { name: "summatvec_1e6", paper_gradient_ns: None, ..summatvec_of(engine, "summatvec", 1000) }
}

fn summatvec_of(engine: &Engine, name: &'static str, side: usize) -> Case {
    let m: Vec<Vec<f64>> = (0..side).map(|i| ramp(side, (side * i + 1) as f64, 1.0)).collect();
    let v = ramp(side, 3.0, 2.0);
    let args = vec![rows(&m), v.as_slice().into()];
    let hand = Hand::new(
        (m, v),
        |(m, v)| hand::summatvec(m, v),
        |(m, v)| hand::summatvec_grad(m, v),
        |value, (_, m_adj, v_adj)| Answer { value: vec![value], derivatives: [m_adj.concat(), v_adj].concat() },
    );
    // For each row a dot product, and its sum with the others. The paper gives a time per element of the matrix.
    let ops = side * (2 * side + 1);
    let case = Case::new(engine, name, include_str!("../../examples/summatvec.dual"), args, ops as u64, hand);
    let elements = side * side;
    Case { elements: Some(elements as u64), paper_gradient_ns: Some(590.0 * elements as f64), ..case }
}

fn rosenbrock_point() -> Vec<f64> {
    (0..ELEMENTS).map(|i| (i as f64 * 0.7).sin()).collect()
}

/// The arguments of the case of this name; here and below.
pub(crate) fn rosenbrock_args() -> Vec<Value> {
    vec![rosenbrock_point().as_slice().into()]
}

fn rosenbrock(engine: &Engine) -> Case {
    let (x, args) = (rosenbrock_point(), rosenbrock_args());
    let hand = Hand::new(
        x,
        |x| hand::rosenbrock(x),
        |x| hand::rosenbrock_grad(x),
        |value, (_, adj)| Answer { value: vec![value], derivatives: adj },
    );
    // For each pair of neighbours three powers, two differences, a product and two sums.
    let ops = 8 * (ELEMENTS as u64 - 1);
    Case::new(engine, "rosenbrock", include_str!("../../examples/rosenbrock.dual"), args, ops, hand)
}

fn newton(engine: &Engine) -> Case {
    let (a, x0) = (2.0, 1e6);
    let steps = hand::newton_steps(a, x0);
    let hand = Hand::new(
        [a, x0],
        |&[a, x0]| hand::newton(a, x0),
        |&[a, x0]| hand::newton_grad(a, x0),
        |value, (_, adjs)| Answer { value: vec![value], derivatives: adjs.to_vec() },
    );
    // Five for each step; three for each test, and one test more than there are steps.
    let ops = 5 * steps + 3 * (steps + 1);
    Case::new(engine, "newton", include_str!("../../examples/newton.dual"), vec![a.into(), x0.into()], ops, hand)
}

fn newton_sweep(engine: &Engine) -> Case {
    let (numbers, x0) = (ramp(1000, 2.0, 0.25), 1.0);
    let steps: u64 = numbers.iter().map(|&a| hand::newton_steps(a, x0)).sum();
    // As for one root, and a sum for each.
    let ops = 5 * steps + 3 * (steps + numbers.len() as u64) + numbers.len() as u64;
    let args = vec![numbers.as_slice().into(), x0.into()];
    let hand = Hand::new(
        (numbers, x0),
        |(numbers, x0)| hand::newton_sweep(numbers, *x0),
        |(numbers, x0)| hand::newton_sweep_grad(numbers, *x0),
        |value, (_, adjs, x_adj)| Answer { value: vec![value], derivatives: [adjs, vec![x_adj]].concat() },
    );
    Case::new(engine, "newton_sweep", include_str!("../../examples/newton_sweep.dual"), args, ops, hand)
}

fn branchy(engine: &Engine) -> Case {
    const STEPS: usize = 10_000;
    let start = [1.5, 0.2, 0.3, 0.105];
    let args = [Value::Int(STEPS as i64)].into_iter().chain(start.map(Value::Real)).collect();
    let hand = Hand::new(
        (STEPS, start),
        |&(n, start)| hand::branchy(n, start),
        |&(n, start)| hand::branchy_grad(n, start),
        |value, (_, adjs)| Answer { value: vec![value], derivatives: adjs.to_vec() },
    );
    // In a step a sum for the threshold, at times a difference, and two or three for x: about four.
    Case::new(engine, "branchy", include_str!("../../examples/branchy.dual"), args, 4 * STEPS as u64, hand)
}

fn rotations(engine: &Engine) -> Case {
    const STEPS: usize = 10_000;
    let (v, q) = ([1.0, 2.0, 3.0], [0.1, 0.5, 0.7, 0.5]);
    let tuple = |parts: &[f64]| Value::Tuple(parts.iter().copied().map(Value::Real).collect());
    let args = vec![Value::Int(STEPS as i64), tuple(&v), tuple(&q)];
    let hand = Hand::new(
        (STEPS, v, q),
        |&(n, v, q)| hand::rotations(n, v, q),
        |&(n, v, q)| hand::rotations_jacobian(n, v, q),
        |value, (_, rows)| Answer { value: value.to_vec(), derivatives: rows.concat() },
    );
    let ops = ROTATION_OPS * STEPS as u64;
    Case::new(engine, "rotations", include_str!("../../examples/rotations.dual"), args, ops, hand)
}

/// The position of a particle, or its velocity.
fn pair(x: f64, y: f64) -> Value {
    Value::Tuple(vec![Value::Real(x), Value::Real(y)])
}

fn spring(engine: &Engine) -> Case {
    const STEPS: usize = 4000;
    let args = vec![Value::Int(STEPS as i64), pair(0.5, 0.1), pair(1.0, 1.0)];
    let hand = Hand::new(
        (STEPS, [0.5, 0.1, 1.0, 1.0]),
        |&(n, start)| hand::spring(n, start),
        |&(n, start)| hand::spring_grad(n, start),
        |value, (_, adjs)| Answer { value: vec![value], derivatives: adjs.to_vec() },
    );
    // In a step, for each of two coordinates: 1 / mass, four for the acceleration, four for the two updates.
    let ops = 18 * STEPS as u64 + 1;
    Case::new(engine, "spring", include_str!("../../examples/spring.dual"), args, ops, hand)
}

/// Two dot products of five, a cross product of nine, three scalings of three, two sums of three; four for factors.
const ROTATION_OPS: u64 = 2 * 5 + 9 + 3 * 3 + 2 * 3 + 4;

fn rotate_vec_by_quat(engine: &Engine) -> Case {
    let (v, q) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]);
    let tuple = |parts: &[f64]| Value::Tuple(parts.iter().copied().map(Value::Real).collect());
    let args = vec![tuple(&v), tuple(&q)];
    let hand = Hand::new(
        (v, q),
        |&(v, q)| hand::rotate_vec_by_quat(v, q),
        |&(v, q)| hand::rotate_vec_by_quat_jacobian(v, q),
        |value, (_, rows)| Answer { value: value.to_vec(), derivatives: rows.concat() },
    );
    let source = include_str!("../../examples/rotate_vec_by_quat.dual");
    let case = Case::new(engine, "rotate_vec_by_quat", source, args, ROTATION_OPS, hand);
    Case { paper_gradient_ns: Some(5_620.0), ..case }
}

/// Inputs of the network, and outputs of its layers.
const LAYERS: [usize; 3] = [50, 100, 50];

fn network() -> (Vec<hand::Layer>, Vec<f64>) {
    let vector = |n: usize| (0..n).map(|i| (0.41 * i as f64).sin()).collect::<Vec<f64>>();
    let row = |i: usize, n: usize| (0..n).map(|j| ((i + j) as f64).sin()).collect();
    let layer = |(&n, &outputs): (&usize, &usize)| ((0..outputs).map(|i| row(i, n)).collect(), vector(outputs));
    (LAYERS.iter().zip(&LAYERS[1..]).map(layer).collect(), vector(LAYERS[0]))
}

pub(crate) fn neural_args() -> Vec<Value> {
    let (layers, x) = network();
    let value = |(w, b): &hand::Layer| Value::Tuple(vec![rows(w), b.as_slice().into()]);
    vec![Value::Array(layers.iter().map(value).collect()), x.as_slice().into()]
}

fn neural(engine: &Engine) -> Case {
    let ((layers, x), args) = (network(), neural_args());
    let hand = Hand::new(
        (layers, x),
        |(layers, x)| hand::neural(layers, x),
        |(layers, x)| hand::neural_grad(layers, x),
        |value, (_, adjs, x_adj)| {
            let parts = adjs.into_iter().flat_map(|(w, b)| [w.concat(), b]).chain([x_adj]);
            Answer { value: vec![value], derivatives: parts.flatten().collect() }
        },
    );
    // For each output of a layer a dot product and the bias; the rectifier only compares. For each output of the last:
    // a maximum (the first starts it), a difference, a power of e, a sum, a quotient, and the sum of all.
    let [a, b, c] = LAYERS;
    let ops = b * (2 * a + 1) + c * (2 * b + 1) + 6 * c - 1;
    let case = Case::new(engine, "neural", include_str!("../../examples/neural.dual"), args, ops as u64, hand);
    Case { paper_gradient_ns: Some(2_400_000.0), ..case }
}

/// Steps of each particle.
const STEPS: usize = 1000;

fn particles_at_start() -> Vec<hand::State> {
    [0.5, 1.0, 1.5, 2.0].map(|x| [x, 0.1, 1.0, 1.0]).to_vec()
}

pub(crate) fn particles_args() -> Vec<Value> {
    let value = |&[x, y, vx, vy]: &hand::State| Value::Tuple(vec![pair(x, y), pair(vx, vy)]);
    vec![Value::Int(STEPS as i64), Value::Array(particles_at_start().iter().map(value).collect())]
}

fn particles(engine: &Engine) -> Case {
    let (starts, args) = (particles_at_start(), particles_args());
    // A product and a sum for each particle. In a step: 1 / mass, eight for the acceleration, eight for the updates.
    let ops = starts.len() * (17 * STEPS + 2);
    let hand = Hand::new(
        (STEPS, starts),
        |(n, starts)| hand::particles(*n, starts),
        |(n, starts)| hand::particles_grad(*n, starts),
        |value, (_, adjs)| Answer { value: vec![value], derivatives: adjs.concat() },
    );
    let case = Case::new(engine, "particles", include_str!("../../examples/particles.dual"), args, ops as u64, hand);
    Case { paper_gradient_ns: Some(7_600_000.0), ..case }
}
