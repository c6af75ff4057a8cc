//! Minima and maxima over the rounds of a loop, which are found by their index: values and derivatives are those of a
//! fold, to the last bit, and nothing of the rounds that lose is recorded.

use dualvm::{CallOptions, Config, Engine, Jit, Listener, Module, Value};
use std::sync::{Arc, Mutex};

fn module(text: &str, jit: Jit) -> Module {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, 1);
    Module::from_source(&Engine::new(config), "extremes.dual", text).unwrap_or_else(|error| panic!("{error}"))
}

fn reals(values: &[f64]) -> Value {
    Value::Reals(values.to_vec())
}

/// The bits of all reals in a value, but one for all NaNs.
fn bits(value: &Value) -> Vec<u64> {
    let of = |x: &f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
    match value {
        Value::Real(x) => vec![of(x)],
        Value::Reals(xs) => xs.iter().map(of).collect(),
        Value::Tuple(parts) | Value::Array(parts) => parts.iter().flat_map(bits).collect(),
        other => panic!("{other:?}"),
    }
}

/// What each of these is the same function as, on an array: a fold over a list, whose rounds nobody looks through.
const FOLDS: [(&str, &str); 9] = [
    ("maximum xs", "fold max (head ys) (tail ys)"),
    ("minimum xs", "fold min (head ys) (tail ys)"),
    ("loop m = 0.5 for x in xs do max m x", "fold max 0.5 ys"),
    ("loop m = 0.5 for x in xs do min x m", "fold (\\m y -> min y m) 0.5 ys"),
    ("maximum (map (\\x -> x * sin x) xs)", "let zs = map (\\y -> y * sin y) ys in fold max (head zs) (tail zs)"),
    // The first value has a derivative, too.
    ("loop m = 3 * xs[0] for x in xs do max (x ^ 2) m", "fold (\\m y -> max (y ^ 2) m) (3 * head ys) ys"),
    // Branches, and a loop.
    (
        "loop m = xs[0] for x in xs do min m (if x > 0.0 then x * x else exp x)",
        "fold (\\m y -> min m (if y > 0.0 then y * y else exp y)) (head ys) ys",
    ),
    (
        "loop m = 10.0 for x in xs do min m (loop s = 0.0 for y in xs do s + (x - y) ^ 2)",
        "fold (\\m x -> min m (fold (\\s y -> s + (x - y) ^ 2) 0.0 ys)) 10.0 ys",
    ),
    // A minimum of maxima.
    (
        "loop m = 10.0 for x in xs do min m (loop n = -1.0 for y in xs do max n (x * y))",
        "fold (\\m x -> min m (fold (\\n y -> max n (x * y)) (-1.0) ys)) 10.0 ys",
    ),
];

const ARGUMENTS: [&[f64]; 10] = [
    &[1.0],
    &[2.0, 1.0],
    &[1.0, 3.0, 2.0, 3.0, 1.0],
    &[-0.0, 0.0, -0.0],
    &[0.0, -0.0],
    &[f64::NAN, 1.0, 2.0],
    &[1.0, f64::NAN, 2.0],
    &[1.0, 2.0, f64::NAN],
    &[f64::INFINITY, f64::NEG_INFINITY, 1.0],
    &[0.3, -1.2, 2.5, 0.7, -0.1, 2.5, 1.9, -3.3, 0.4, 1.1, 0.6],
];

fn program() -> String {
    let one = |(n, (by_index, fold)): (usize, &(&str, &str))| {
        format!(
            "def f{n} (xs : Array Real) : Real = {by_index}
             def g{n} (xs : Array Real) : Real = let ys = to_list xs in {fold}
             def tangent_f{n} (xs : Array Real) : (Real, Real) = jvp f{n} xs (map cos xs)
             def tangent_g{n} (xs : Array Real) : (Real, Real) = jvp g{n} xs (map cos xs)
             def product_f{n} (xs : Array Real) : Array Real = hvp f{n} xs (map cos xs)
             def product_g{n} (xs : Array Real) : Array Real = hvp g{n} xs (map cos xs)\n"
        )
    };
    FOLDS.iter().enumerate().map(one).collect()
}

#[test]
fn values_and_derivatives_are_those_of_a_fold() {
    let text = program();
    for jit in [Jit::Off, Jit::Always] {
        let module = module(&text, jit);
        let function = |name: String| module.function(&name).expect("it is defined");
        for (n, (by_index, _)) in FOLDS.iter().enumerate() {
            for xs in ARGUMENTS {
                let args = [reals(xs)];
                let found = |name: &str| {
                    let (value, gradient) = function(format!("{name}{n}")).value_and_grad(&args).expect("it is real");
                    (bits(&Value::Real(value)), bits(&gradient[0]))
                };
                let [f, g] = ["f", "g"].map(found);
                assert_eq!(f.0, g.0, "{by_index} of {xs:?}, {jit:?}");
                if f.0 == bits(&Value::Real(f64::NAN)) {
                    continue;
                }
                assert_eq!(f.1, g.1, "gradient of {by_index} of {xs:?}, {jit:?}");
                for derivative in ["tangent", "product"] {
                    let of = |name: &str| {
                        let value = function(format!("{derivative}_{name}{n}")).call(&args).expect("it ends");
                        bits(&value)
                    };
                    assert_eq!(of("f"), of("g"), "{derivative} of {by_index} of {xs:?}, {jit:?}");
                }
            }
        }
    }
}

#[test]
fn the_derivative_of_nan_belongs_to_the_last_one() {
    let module = module(&program(), Jit::Auto);
    // The last number stands left of what was found so far, so the first one that is NaN beats all that come.
    for (name, expected) in [("f0", [0.0, 0.0, 1.0, 0.0]), ("f1", [0.0, 0.0, 1.0, 0.0]), ("f3", [0.0, 1.0, 0.0, 0.0])] {
        let f = module.function(name).expect("it is defined");
        let (value, gradient) = f.value_and_grad(&[reals(&[1.0, f64::NAN, f64::NAN, 2.0])]).expect("it is real");
        assert!(value.is_nan());
        assert_eq!(gradient, [reals(&expected)], "{name}");
    }
}

#[test]
fn a_round_that_wins_is_computed_once_more_at_each_depth() {
    // Of nested extremes only the best rounds are computed again, or each loop would double what is in it.
    let nested = |depth: usize| {
        let mut value = "(loop s = 0.0 for i < 1000 do s + x * to_real i)".to_owned();
        (0..depth).for_each(|_| value = format!("(loop m = -1.0 for y in xs do max m (y * {value}))"));
        let text = format!("def f (x : Real) (xs : Array Real) : Real = {value}");
        let f = module(&text, Jit::Off).function("f").expect("it is defined");
        f.value_and_grad_with(&[Value::Real(0.5), reals(&[1.0])], &CallOptions::default()).expect("it is real")
    };
    let [plain, nested] = [nested(0), nested(3)];
    assert_eq!((nested.value, &nested.gradient[0]), (plain.value, &plain.gradient[0]));
    let (plain, nested) = (plain.stats.instructions, nested.stats.instructions);
    assert!(nested < 5 * plain, "{nested} instructions, {plain} without the extremes");
}

#[test]
fn no_element_means_the_first_value() {
    let module = module("def f (a : Real) (xs : Array Real) : Real = loop m = a * a for x in xs do max m x", Jit::Auto);
    let f = module.function("f").expect("it is defined");
    let (value, gradient) = f.value_and_grad(&[Value::Real(3.0), reals(&[])]).expect("it is real");
    assert_eq!((value, &gradient[..]), (9.0, &[Value::Real(6.0), reals(&[])][..]));
}

const NEAREST: &str = "
    def distance (a : Array Real) (b : Array Real) : Real = loop d = 0.0 for i < length a do d + (a[i] - b[i]) ^ 2
    def cost (points : Array (Array Real)) (centres : Array (Array Real)) : Real =
      sum (map (\\p -> minimum (map (distance p) centres)) points)";

/// Points of three numbers.
fn points(n: usize) -> Value {
    Value::Array((0..n).map(|i| reals(&[0, 1, 2].map(|j| ((7 * i + 5 * j) % 11) as f64 / 11.0))).collect())
}

#[test]
fn what_loses_is_not_recorded() {
    for jit in [Jit::Off, Jit::Always] {
        let module = module(NEAREST, jit);
        let cost = module.function("cost").expect("it is defined");
        let [few, many] = [5, 50].map(|centres| {
            let args = [points(100), points(centres)];
            cost.value_and_grad_with(&args, &CallOptions::default()).expect("it is real").stats.tape_bytes
        });
        // But for the centres, which a record refers to or holds.
        assert!(many < few + 100 * 8, "{few} bytes with 5 centres, {many} with 50");
    }
}

#[test]
fn what_is_only_compared_is_not_recorded() {
    // The index is looked for in the program; the distances that lose are compared and nothing else.
    let text = NEAREST.replace(
        "minimum (map (distance p) centres)",
        "let (best, _) = loop (best, d) = (0, distance p centres[0]) for i < length centres do
           (let e = distance p centres[i] in if e < d then (i, e) else (best, d)) in
         distance p centres[best]",
    );
    let [by_hand, found] = [&text[..], NEAREST].map(|text| module(text, Jit::Always).function("cost").expect("it is"));
    let args = [points(40), points(30)];
    let [by_hand, found] =
        [by_hand, found].map(|cost| cost.value_and_grad_with(&args, &CallOptions::default()).expect("it is real"));
    assert_eq!(by_hand.value.to_bits(), found.value.to_bits());
    assert_eq!(by_hand.gradient, found.gradient);
    let (by_hand, found) = (by_hand.stats.tape_bytes, found.stats.tape_bytes);
    assert!(by_hand < 2 * found, "{by_hand} bytes by hand, {found} found");
}

#[test]
fn rounds_that_somebody_could_count_run_once() {
    // A trace is heard once for each round, and what a round reads otherwise stays a minimum.
    let text = "
        def traced (xs : Array Real) : Real =
          loop m = 0.0 for i < length xs do trace \"round {i}\" (max m xs[i])
        def read (xs : Array Real) : Real =
          loop m = 10.0 for x in xs do
            let n = min m x in
            if n < 0.0 then error \"found {n}\" else n";
    let module = module(text, Jit::Off);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = lines.clone();
    let listener = Listener::new(move |line| heard.lock().expect("nobody panics").push(line.text.to_owned()));
    let traced = module.function("traced").expect("it is defined");
    let options = CallOptions::default().traced_to(&listener);
    traced.value_and_grad_with(&[reals(&[1.0, 2.0, 0.5])], &options).expect("it ends");
    assert_eq!(*lines.lock().expect("nobody panics"), ["round 0", "round 1", "round 2"]);
    let read = module.function("read").expect("it is defined");
    assert_eq!(read.call(&[reals(&[3.0, 2.0, 4.0])]).expect("it ends"), Value::Real(2.0));
    let error = read.call(&[reals(&[3.0, -2.0, 4.0, -1.0])]).expect_err("it traps");
    assert!(error.to_string().contains("found -2"), "{error}");
}
