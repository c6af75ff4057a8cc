//! Programs that call functions of the host's, on engines that must agree, and a function with derivatives of all
//! orders.

use dualvm::flat::LeafKind;
use dualvm::{Config, Engine, Error, Function, HostFunction, Jit, Linker, Module, Trap, TrapKind, Value};

const ENGINES: [(Jit, usize); 4] = [(Jit::Off, 1), (Jit::Always, 1), (Jit::Off, 3), (Jit::Always, 3)];

pub(crate) fn engine(linker: &Linker, jit: Jit, threads: usize) -> Engine {
    let mut config = Config::default();
    (config.jit, config.threads, config.linker) = (jit, threads, linker.clone());
    Engine::new(config)
}

pub(crate) fn module(text: &str, linker: &Linker, jit: Jit, threads: usize) -> Module {
    Module::from_source(&engine(linker, jit, threads), "t.dual", text).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn main_of(text: &str, linker: &Linker, jit: Jit, threads: usize) -> Function {
    module(text, linker, jit, threads).function("main").unwrap_or_else(|error| panic!("{error}"))
}

/// The same of all engines, whatever is asked.
#[track_caller]
pub(crate) fn agreed<T: PartialEq + std::fmt::Debug>(text: &str, linker: &Linker, ask: impl Fn(&Function) -> T) -> T {
    let found = ENGINES.map(|(jit, threads)| ask(&main_of(text, linker, jit, threads)));
    for (other, engine) in found.iter().zip(ENGINES) {
        assert_eq!(*other, found[0], "{engine:?}");
    }
    let [first, ..] = found;
    first
}

#[track_caller]
pub(crate) fn trap_of<T: std::fmt::Debug>(result: Result<T, Error>) -> Trap {
    result.unwrap_err().trap().expect("the program traps").clone()
}

/// The reals of values, in order.
pub(crate) fn flat(values: &[Value]) -> Vec<f64> {
    let mut found = Vec::new();
    for value in values {
        match value {
            Value::Real(x) => found.push(*x),
            Value::Reals(xs) => found.extend(xs),
            Value::Array(items) | Value::Tuple(items) => found.extend(flat(items)),
            Value::Null | Value::Bool(_) | Value::Int(_) => {}
            other => panic!("it is flat: {other:?}"),
        }
    }
    found
}

/// A sum of products, each of a derivative of the sine at the first variable, of this order, and of other variables.
type Waves = Vec<(u32, Vec<usize>)>;

/// The value of such a sum.
fn waves(sum: &Waves, vars: &[f64]) -> f64 {
    let wave = |n: u32, x: f64| match n % 4 {
        0 => x.sin(),
        1 => x.cos(),
        2 => -x.sin(),
        _ => -x.cos(),
    };
    sum.iter().map(|(n, factors)| factors.iter().fold(wave(*n, vars[0]), |product, &at| product * vars[at])).sum()
}

/// The partial derivatives of such a sum, one for each of so many variables.
fn partials(sum: &Waves, vars: usize) -> Vec<Waves> {
    let by_first = sum.iter().map(|(n, factors)| (n + 1, factors.clone())).collect();
    let by_others = (1..vars).map(|var| {
        let terms = sum.iter().flat_map(|(n, factors)| {
            let places = (0..factors.len()).filter(|&place| factors[place] == var);
            places.map(|place| {
                let mut rest = factors.clone();
                rest.remove(place);
                (*n, rest)
            })
        });
        terms.collect()
    });
    std::iter::once(by_first).chain(by_others).collect()
}

/// Which derivatives a function of the host's gives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given {
    Vjps,
    Jvps,
    Both,
}

/// Such sums of so many variables as a function of the host's, with derivatives up to an order. Variables and sums are
/// of a form: reals, sequences of them, or tensors; then the sums are those of the elements with the same number.
fn wave_sums(form: &'static [LeafKind], sums: Vec<Waves>, vars: usize, order: u32, given: Given) -> HostFunction {
    let by: Vec<Vec<Waves>> = sums.iter().map(|sum| partials(sum, vars)).collect();
    let count = sums.len();
    let value = HostFunction::flat(&form.repeat(vars), &form.repeat(count), move |call| {
        let elements = (0..vars).map(|var| call.args()[(var + 1) * form.len() - 1]);
        if form == [LeafKind::Real] {
            let vars: Vec<f64> = elements.map(|x| x.as_real().expect("all are reals")).collect();
            return sums.iter().try_for_each(|sum| call.give(waves(sum, &vars)));
        }
        let vars: Vec<&[f64]> = elements.map(|xs| xs.as_reals().expect("all are of reals")).collect();
        sums.iter().try_for_each(|sum| {
            if form[0] == LeafKind::Shape {
                call.give(call.ints(0))?;
            }
            call.give_reals(vars[0].len(), |to| {
                for (n, to) in to.iter_mut().enumerate() {
                    *to = waves(sum, &vars.iter().map(|xs| xs[n]).collect::<Vec<_>>());
                }
            })
        })
    });
    if order == 0 {
        return value;
    }
    let times = |terms: &Waves, var: usize| -> Waves {
        let product = |(n, factors): &(u32, Vec<usize>)| (*n, factors.iter().copied().chain([var]).collect());
        terms.iter().map(product).collect()
    };
    let mut function = value;
    if !matches!(given, Given::Jvps) {
        let of_var = |var: usize| (0..count).flat_map(|sum| times(&by[sum][var], vars + sum)).collect();
        let vjp = wave_sums(form, (0..vars).map(of_var).collect(), vars + count, order - 1, given);
        function = function.with_vjp(vjp).expect("it is of this type");
    }
    if !matches!(given, Given::Vjps) {
        let of_sum = |sum: usize| (0..vars).flat_map(|var| times(&by[sum][var], vars + var)).collect();
        let jvp = wave_sums(form, (0..count).map(of_sum).collect(), 2 * vars, order - 1, given);
        function = function.with_jvp(jvp).expect("it is of this type");
    }
    function
}

/// The sine, as a function of the host's; of what isn't a real, that of each element.
pub(crate) fn sine(form: &'static [LeafKind], order: u32, given: Given) -> HostFunction {
    wave_sums(form, vec![vec![(0, Vec::new())]], 1, order, given)
}

/// Compares derivatives of a function `f : Real -> Real`, nested in all mixes of modes, with those of another one: the
/// former is `hosted`, by the host's function "wave" of this form, the latter the program's `own`. Only so many orders.
#[track_caller]
pub(crate) fn assert_derivatives(form: &'static [LeafKind], hosted: &str, own: &str, orders: u32) {
    let programs = [
        (1, "deriv (\\u -> f (u * u) * u) x"),
        (2, "deriv (\\u -> deriv (\\v -> v * f (u * v)) u) x"),
        (1, "grad (\\u -> u * f (u + x)) x"),
        (2, "grad (\\u -> grad (\\v -> f (u * v) * v) u) x"),
        (2, "grad (\\u -> deriv (\\v -> f (u * v) * u) x) x"),
        (2, "deriv (\\u -> grad (\\v -> f (u * v) * u) x) x"),
        (3, "deriv (\\u -> grad (\\v -> deriv (\\w -> f (u * v + w)) v) x) x"),
        (3, "grad (\\u -> grad (\\v -> grad (\\w -> f (u * v * w)) v) u) x"),
    ];
    for (order, program) in programs.into_iter().filter(|(order, _)| *order <= orders) {
        let text = |f: &str| {
            format!(
                "{f}
                def deriv (g : Real -> Real) (x : Real) : Real = let (_, t) = jvp g x 1.0 in t
                def main (x : Real) : Real = {program}"
            )
        };
        let (hosted, own) = (text(hosted), text(own));
        let args = [Value::Real(0.8)];
        let gradient = |main: &Function| {
            let (value, gradient) = main.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
            [value, flat(&gradient)[0]]
        };
        let product = |main: &Function| {
            let found = main.hvp(&args, &[Value::Real(1.5)]).unwrap_or_else(|error| panic!("{error}"));
            flat(&found.2)[0]
        };
        let of_own = main_of(&own, &Linker::new(), Jit::Off, 1);
        let ([value, by], product_of_own) = (gradient(&of_own), product(&of_own));
        for given in [Given::Vjps, Given::Jvps, Given::Both] {
            let mut linker = Linker::new();
            linker.define("wave", sine(form, order + 2, given));
            let found = agreed(&hosted, &linker, gradient);
            let near = |found: f64, expected: f64| (found - expected).abs() < 1e-11 * expected.abs().max(1.0);
            assert!(near(found[0], value) && near(found[1], by), "{program}, {given:?}: {found:?}, not {value}, {by}");
            let found = agreed(&hosted, &linker, product);
            assert!(near(found, product_of_own), "{program}, {given:?}: {found}, not {product_of_own}");
            // One order less is one too few.
            linker.define("wave", sine(form, order + 1, given));
            let trap = agreed(&hosted, &linker, |main| trap_of(main.hvp(&args, &[Value::Real(1.5)])).kind);
            assert_eq!(trap, TrapKind::HostDerivative { function: "wave".into(), order: order + 2 }, "{program}");
        }
    }
}
