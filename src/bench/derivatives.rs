//! What derivatives that aren't gradients cost, as multiples of what they are taken of: the function's value, its
//! gradient, or the same derivative in another way.
//!
//! Times are those of runs by the engine's own clock, without the conversion of arguments and results; of sparse
//! matrices, and of what they are compared with, those of whole calls.

use super::Selection;
use super::cases::{Tier, Unsound, near, neural_args, particles_args, ramp, reals, rosenbrock_args};
use super::measure::{Effort, medians};
use super::report::{Head, align, ratio, time};
use dualvm::{CallOptions, Error, Function, Module, SparseMatrix, Stats, Value};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;
use std::time::{Duration, Instant};

/// What `--suite` takes.
pub(crate) const NAME: &str = "derivatives";

/// A loop of a thousand operations on 250 elements, and one of its derivatives. With respect to an array that a loop
/// reads, the gradient in the program isn't written out in place: it opens a tape.
const NESTED: &str = "\
def body (xs : Array Real) : Real = loop y = 0.5 for i < length xs do y + xs[i] * sin y
def slope (xs : Array Real) : Real = sum (grad body xs)
";

/// A long loop, and the same in pieces.
const LOOPS: &str = "\
def step ((x, v) : (Real, Real)) : (Real, Real) = (x + 0.001 * v, v - 0.001 * (x + 0.1 * v * v))
def steps (n : Int) (s : (Real, Real)) : (Real, Real) = loop s = s for _ < n do step s
def plain (s : (Real, Real)) : Real = fst (loop s = s for _ < 100 do steps 100 s)
def pieces (s : (Real, Real)) : Real = fst (loop s = s for _ < 100 do checkpoint (steps 100) s)
";

/// What is left of an equation on a square grid, at each of its points.
const GRID: &str = "\
def at (u : Array Real) (n : Int) (i : Int) (j : Int) : Real =
  if i < 0 || j < 0 || i >= n || j >= n then 0.0 else u[i * n + j]
def residual (n : Int) (u : Array Real) : Array Real =
  [| let i = k / n in let j = k % n in
     4 * u[k] - at u n (i - 1) j - at u n (i + 1) j - at u n i (j - 1) - at u n i (j + 1) + 0.1 * exp u[k]
     for k < n * n |]
";

/// Points along a side of the grid, and variables of the function whose Hessian is sparse.
const GRID_SIDE: usize = 300;
const LONG: usize = 100_000;

/// A computation that is timed.
#[derive(Clone, Copy, Debug)]
enum Run {
    Value,
    Gradient,
    Jvp,
    Hvp,
    /// So many products with the Hessian.
    Hvps(u32),
    Hessian,
    /// Whole calls.
    GradientCall,
    JvpCall,
    HessianSparsity,
    /// With a sparsity that is known.
    SparseHessian,
    JacobianSparsity,
    /// The same.
    SparseJacobian,
}

/// A row of the report: what is computed of which function, beside what it is a multiple of.
struct Case {
    name: &'static str,
    function: &'static str,
    run: Run,
    base: &'static str,
    base_function: &'static str,
    base_run: Run,
    /// The project's target for the ratio.
    target: f64,
}

/// A case of whole calls.
const fn sparse(name: &'static str, function: &'static str, run: Run, target: f64) -> Case {
    let (base, base_run) = match run {
        Run::JacobianSparsity | Run::SparseJacobian => ("jvp", Run::JvpCall),
        _ => ("gradient", Run::GradientCall),
    };
    Case { name, function, run, base, base_function: function, base_run, target }
}

/// An example or the program above, with arguments and a direction.
struct Subject {
    module: &'static str,
    source: &'static str,
    args: fn() -> Vec<Value>,
    cases: &'static [Case],
}

const fn forward(name: &'static str, function: &'static str, target: f64) -> Case {
    Case { name, function, run: Run::Jvp, base: "value", base_function: function, base_run: Run::Value, target }
}

const fn second(name: &'static str, function: &'static str) -> Case {
    let base_run = Run::Gradient;
    Case { name, function, run: Run::Hvp, base: "gradient", base_function: function, base_run, target: 3.0 }
}

/// Variables of the function whose Hessian is a matrix.
const SIDE: usize = 200;

const SUBJECTS: [Subject; 8] = [
    Subject {
        module: "rosenbrock",
        source: include_str!("../../examples/rosenbrock.dual"),
        args: rosenbrock_args,
        cases: &[forward("rosenbrock jvp", "rosenbrock", 2.5), second("rosenbrock hvp", "rosenbrock")],
    },
    Subject {
        module: "particles",
        source: include_str!("../../examples/particles.dual"),
        args: particles_args,
        cases: &[forward("particles jvp", "particles", 2.5), second("particles hvp", "particles")],
    },
    Subject {
        module: "neural",
        source: include_str!("../../examples/neural.dual"),
        args: neural_args,
        cases: &[forward("neural jvp", "neural", 3.0), second("neural hvp", "neural")],
    },
    Subject {
        module: "rosenbrock",
        source: include_str!("../../examples/rosenbrock.dual"),
        args: || vec![ramp(SIDE, -1.0, 0.01).as_slice().into()],
        cases: &[Case {
            name: "rosenbrock Hessian",
            function: "rosenbrock",
            run: Run::Hessian,
            base: "200 hvps",
            base_function: "rosenbrock",
            base_run: Run::Hvps(SIDE as u32),
            target: 1.0,
        }],
    },
    Subject {
        module: "nested",
        source: NESTED,
        args: || vec![ramp(250, 0.01, 0.0001).as_slice().into()],
        cases: &[Case {
            name: "reverse over reverse",
            function: "slope",
            run: Run::Gradient,
            base: "reverse",
            base_function: "body",
            base_run: Run::Gradient,
            target: 5.0,
        }],
    },
    Subject {
        module: "loops",
        source: LOOPS,
        args: || vec![Value::Tuple(vec![1.0.into(), 0.5.into()])],
        cases: &[Case {
            name: "checkpoints",
            function: "pieces",
            run: Run::Gradient,
            base: "without",
            base_function: "plain",
            base_run: Run::Gradient,
            target: 2.0,
        }],
    },
    Subject {
        module: "rosenbrock",
        source: include_str!("../../examples/rosenbrock.dual"),
        args: || vec![ramp(LONG, -1.0, 0.00002).as_slice().into()],
        cases: &[
            sparse("tridiagonal pattern", "rosenbrock", Run::HessianSparsity, 60.0),
            sparse("tridiagonal Hessian", "rosenbrock", Run::SparseHessian, 12.0),
        ],
    },
    Subject {
        module: "grid",
        source: GRID,
        args: || vec![(GRID_SIDE as i64).into(), ramp(GRID_SIDE * GRID_SIDE, -1.0, 0.00002).as_slice().into()],
        cases: &[
            sparse("five-point pattern", "residual", Run::JacobianSparsity, 60.0),
            // Eight colours at most, and three products.
            sparse("five-point Jacobian", "residual", Run::SparseJacobian, 11.0),
        ],
    },
];

/// The results of the suite.
pub(crate) struct Report {
    head: Head,
    rows: Vec<Row>,
}

/// A case on a tier. Times are medians in nanoseconds.
struct Row {
    case: &'static Case,
    tier: Tier,
    base: f64,
    derivative: f64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.derivative / self.base
    }
}

/// Rounds in a run of the suite on so many tiers.
pub(crate) fn rounds(only: &Selection, tiers: usize) -> usize {
    tiers * only.count(names())
}

/// The names of the cases.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SUBJECTS.iter().flat_map(|subject| subject.cases).map(|case| case.name)
}

/// Checks and measures cases. `round` hears of each, with its name. An error comes with the case's name.
pub(crate) fn run(
    only: &Selection,
    tiers: &[Tier],
    effort: &Effort,
    mut round: impl FnMut(&'static str),
) -> Result<Report, (&'static str, Unsound)> {
    let mut rows = Vec::new();
    for subject in &SUBJECTS {
        for case in subject.cases.iter().filter(|case| only.has(case.name)) {
            for &tier in tiers {
                rows.push(row(subject, case, tier, effort).map_err(|error| (case.name, error))?);
                round(case.name);
            }
        }
    }
    Ok(Report { head: Head { suite: NAME, tiers: tiers.to_vec(), rounds: effort.rounds }, rows })
}

fn row(subject: &Subject, case: &'static Case, tier: Tier, effort: &Effort) -> Result<Row, Unsound> {
    let module = Module::from_source(&tier.engine(), subject.module, subject.source)?;
    let (function, base) = (module.function(case.function)?, module.function(case.base_function)?);
    let args = (subject.args)();
    check(case.run, &function, &base, &args)?;
    let measured = [(&base, case.base_run), (&function, case.run)];
    let time = |&(function, run): &(&Function, Run), times| repeat(function, run, &args, times);
    let found = medians(&measured, effort, time, || ())?;
    Ok(Row { case, tier, base: found[0], derivative: found[1] })
}

/// Compares derivatives with others, which are computed in another way.
fn check(run: Run, function: &Function, base: &Function, args: &[Value]) -> Result<(), Unsound> {
    let direction = direction(args);
    if let Run::JacobianSparsity | Run::SparseJacobian = run {
        let found = function.sparse_jacobian(args, &function.jacobian_sparsity(args)?)?.matrix;
        let along: Vec<f64> = direction.iter().flat_map(|part| reals(std::slice::from_ref(part))).collect();
        return near("product", &reals(&[function.jvp(args, &direction)?.1]), &product(&found, &along));
    }
    let gradient = reals(&function.value_and_grad(args)?.1);
    match run {
        Run::Value | Run::Hvps(_) => Ok(()),
        Run::HessianSparsity | Run::SparseHessian => {
            let found = function.sparse_hessian(args, &function.hessian_sparsity(args)?)?;
            near("gradient", &gradient, &reals(&found.gradient))?;
            let expected = reals(&function.hvp(args, &direction)?.2);
            near("product", &expected, &product(&found.matrix, &reals(&direction)))
        }
        // A function and the same with checkpoints; or a derivative, which is that of the base by the jvp.
        Run::Gradient | Run::GradientCall if function.call(args)? == base.call(args)? => {
            near("gradient", &reals(&base.value_and_grad(args)?.1), &gradient)
        }
        Run::Gradient | Run::GradientCall => {
            near("second derivative", &reals(&base.hvp(args, &ones(args))?.2), &gradient)
        }
        Run::Jvp | Run::JvpCall => {
            let along: Vec<f64> = reals(&direction);
            let expected = gradient.iter().zip(&along).map(|(by, along)| by * along).sum();
            near("directional derivative", &[expected], &reals(&[function.jvp(args, &direction)?.1]))
        }
        Run::Hvp => {
            // A Hessian is symmetric.
            let (along, ones) = (reals(&direction), ones(args));
            let (_, found, product) = function.hvp(args, &direction)?;
            near("gradient", &gradient, &reals(&found))?;
            let other = reals(&function.hvp(args, &ones)?.2);
            let expected = along.iter().zip(&other).map(|(along, other)| along * other).sum();
            near("sum of the product", &[expected], &[reals(&product).iter().sum()])
        }
        Run::Hessian => {
            let rows = function.hessian(args)?.rows;
            let product = reals(&function.hvp(args, &ones(args))?.2);
            let sums: Vec<f64> = rows.iter().map(|row| reals(row).iter().sum()).collect();
            near("sum of a row", &product, &sums)
        }
        Run::JacobianSparsity | Run::SparseJacobian => unreachable!("the value of this function is no real"),
    }
}

/// The product of a matrix and a vector.
fn product(matrix: &SparseMatrix, vector: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; matrix.pattern().rows()];
    matrix.entries().for_each(|(row, column, value)| sums[row] += value * vector[column]);
    sums
}

/// Tangents of these arguments, all of them different; integers have none.
fn direction(args: &[Value]) -> Vec<Value> {
    let mut n = 0;
    let mut next = || {
        n += 1;
        (0.37 * f64::from(n)).cos()
    };
    args.iter().map(|arg| with_reals(arg, &mut next)).collect()
}

/// Tangents that are 1.
fn ones(args: &[Value]) -> Vec<Value> {
    args.iter().map(|arg| with_reals(arg, &mut || 1.0)).collect()
}

/// A value of the same shape.
fn with_reals(value: &Value, next: &mut impl FnMut() -> f64) -> Value {
    match value {
        Value::Real(_) => Value::Real(next()),
        Value::Reals(xs) => Value::Reals(xs.iter().map(|_| next()).collect()),
        Value::Tuple(parts) => Value::Tuple(parts.iter().map(|part| with_reals(part, next)).collect()),
        Value::Array(parts) => Value::Array(parts.iter().map(|part| with_reals(part, next)).collect()),
        _ => Value::Null,
    }
}

/// How long a number of runs take together.
fn repeat(function: &Function, run: Run, args: &[Value], times: u64) -> Result<Duration, Error> {
    let (options, direction) = (CallOptions::default(), direction(args));
    let jacobian = matches!(run, Run::SparseJacobian).then(|| function.jacobian_sparsity(args)).transpose()?;
    let hessian = matches!(run, Run::SparseHessian).then(|| function.hessian_sparsity(args)).transpose()?;
    let once = || -> Result<Duration, Error> {
        let spent = |stats: &Stats| stats.forward + stats.sweep;
        let began = Instant::now();
        Ok(match run {
            Run::Value => spent(&function.call_with(args, &options)?.1),
            Run::Gradient => spent(&function.value_and_grad_with(args, &options)?.stats),
            Run::Jvp => spent(&function.jvp_with(args, &direction, &options)?.stats),
            Run::Hvp => spent(&function.hvp_with(args, &direction, &options)?.stats),
            Run::Hvps(count) => spent(&function.hvp_with(args, &direction, &options)?.stats) * count,
            Run::Hessian => spent(&function.hessian_with(args, &options)?.stats),
            Run::GradientCall => function.value_and_grad(args).map(|_| began.elapsed())?,
            Run::JvpCall => function.jvp(args, &direction).map(|_| began.elapsed())?,
            Run::HessianSparsity => function.hessian_sparsity(args).map(|_| began.elapsed())?,
            Run::JacobianSparsity => function.jacobian_sparsity(args).map(|_| began.elapsed())?,
            Run::SparseHessian => {
                let sparsity = hessian.as_ref().expect("it was found");
                function.sparse_hessian(args, sparsity).map(|_| began.elapsed())?
            }
            Run::SparseJacobian => {
                let sparsity = jacobian.as_ref().expect("it was found");
                function.sparse_jacobian(args, sparsity).map(|_| began.elapsed())?
            }
        })
    };
    (0..times).map(|_| once()).sum()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}; times are those of runs, and of calls for sparse matrices", self.head)?;
        let heads = ["case", "tier", "time", "over", "time", "ratio", "target"];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let Row { case, tier, base, derivative } = row;
            lines.push(vec![
                case.name.to_owned(),
                tier.name().to_owned(),
                time(*derivative),
                case.base.to_owned(),
                time(*base),
                ratio(row.ratio()),
                ratio(case.target),
            ]);
        }
        align(f, &lines)
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.head.serialize_with(&self.rows, serializer)
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Row", 7)?;
        row.serialize_field("case", self.case.name)?;
        row.serialize_field("tier", self.tier.name())?;
        row.serialize_field("over", self.case.base)?;
        row.serialize_field("base_ns", &self.base)?;
        row.serialize_field("derivative_ns", &self.derivative)?;
        row.serialize_field("ratio", &self.ratio())?;
        row.serialize_field("target", &self.case.target)?;
        row.end()
    }
}
