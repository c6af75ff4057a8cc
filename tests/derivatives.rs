//! Derivatives at the border beyond the gradient: products with Jacobians and Hessians, and whole ones, for values of
//! all shapes. Each against differences and against each other, on all engines. Random programs have them in
//! `random_operators.rs`, by real arguments and arrays.

mod support;

use dualvm::{
    CallOptions, CancelHandle, Config, Engine, Error, ErrorKind, Function, JacobianMode, Jit, Limit, Limits, Module,
    Stats, TrapKind, Value,
};
use std::time::Duration;
use support::flatten;

fn module(jit: Jit, threads: usize, source: &str) -> Module {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, threads);
    Module::from_source(&Engine::new(config), "test.dual", source).unwrap_or_else(|error| panic!("{error}"))
}

fn function(source: &str, name: &str) -> Function {
    module(Jit::Off, 1, source).function(name).unwrap()
}

/// Every kind of argument and result; loops, recursion and tasks.
const SHAPES: &str = "
    type Shape = Circle Real | Square { side : Real, at : (Real, Int) } | Nothing
    type Tree = Leaf | Node Tree Real Tree
    def area (shape : Shape) : Real =
      match shape with
      | Circle r -> 3 * r * r
      | Square { side, at } -> side ^ 2 * sin (fst at)
      | Nothing -> 0
    def total (t : Tree) : Real =
      match t with Leaf -> 1 | Node l x r -> let (a, b) = total l |*| total r in a * x * x + cos b * x
    def scaled (t : Tree) (k : Real) : Tree =
      match t with Leaf -> Leaf | Node l x r -> Node (scaled l (k * x)) (x * k) (scaled r (k + x))
    def all (a : Real) (n : Int) (xs : Array Real) (ys : List Real) (p : { q : (Real, Bool), m : Array (Real, Int) })
            (shapes : List Shape) (tree : Tree) (rows : Array (Array Real)) =
      let squares = loop s = a for x in xs do s * cos x + x * x in
      let (q, b) = p.q in
      let m = loop s = q for e in p.m do let (x, k) = e in s + x ^ k * s in
      let (t, r) = total tree |*| sum (pmap (\\row -> sum row * a) rows) in
      { sum = squares * to_real n, squares = [| x * m for x in xs |], list = map (\\y -> (y * q, n)) ys
      , areas = map area shapes, tree = scaled tree a
      , rest = (t * r, b, [t, squares, 2.0], [| (x, x * m) for x in xs |]) }
    def one (a : Real) (n : Int) (xs : Array Real) (ys : List Real) (p : { q : (Real, Bool), m : Array (Real, Int) })
            (shapes : List Shape) (tree : Tree) (rows : Array (Array Real)) : Real =
      let squares = loop s = a for x in xs do s * cos x + x * x in
      let (q, b) = p.q in
      let m = loop s = q for e in p.m do let (x, k) = e in s + x ^ k * s in
      let (t, r) = total tree |*| sum (pmap (\\row -> sum row * a * q) rows) in
      squares * m * to_real n + t * r + squares * fold (+) 0.0 (map area shapes) * fold (*) 1.0 ys";

fn variant(name: &str, parts: Vec<Value>) -> Value {
    Value::variant(name, Value::Tuple(parts))
}

/// Records are in the order of their types, as in derivatives.
fn arguments() -> Vec<Value> {
    let node = |l: Value, x: f64, r: Value| variant("Node", vec![l, x.into(), r]);
    let leaf = || variant("Leaf", vec![]);
    let record = |parts: Vec<(&str, Value)>| {
        Value::Record(parts.into_iter().map(|(name, part)| (name.to_owned(), part)).collect())
    };
    let pair = |x: f64, n: i64| Value::Tuple(vec![x.into(), n.into()]);
    let square = Value::variant("Square", record(vec![("side", 1.25.into()), ("at", pair(0.5, 1))]));
    vec![
        0.75.into(),
        2i64.into(),
        vec![0.5, -1.25, 0.3].into(),
        vec![1.5, 0.25].into(),
        record(vec![
            ("m", Value::Array(vec![pair(0.4, 2), pair(-0.6, 3)])),
            ("q", Value::Tuple(vec![0.8.into(), true.into()])),
        ]),
        Value::Array(vec![variant("Circle", vec![0.7.into()]), variant("Nothing", vec![]), square]),
        node(node(leaf(), 0.9, leaf()), -0.4, node(leaf(), 1.1, leaf())),
        Value::Array(vec![vec![0.2, 0.6].into(), vec![].into(), vec![-0.5].into()]),
    ]
}

/// A value of this shape with other reals, and null for what is discrete unless `discrete` is to stay.
fn with_reals(value: &Value, reals: &mut impl Iterator<Item = f64>, discrete: bool) -> Value {
    let mut part = |value: &Value| with_reals(value, reals, discrete);
    match value {
        Value::Tuple(parts) => Value::Tuple(parts.iter().map(part).collect()),
        Value::Array(parts) => Value::Array(parts.iter().map(part).collect()),
        Value::Record(parts) => Value::Record(parts.iter().map(|(name, value)| (name.clone(), part(value))).collect()),
        Value::Variant(name, payload) => Value::variant(name.as_str(), part(payload)),
        Value::Real(_) => reals.next().unwrap().into(),
        Value::Reals(xs) => Value::Reals(xs.iter().map(|_| reals.next().unwrap()).collect()),
        other if discrete => other.clone(),
        _ => Value::Null,
    }
}

fn all_with_reals(values: &[Value], reals: &[f64], discrete: bool) -> Vec<Value> {
    let mut reals = reals.iter().copied();
    let values = values.iter().map(|value| with_reals(value, &mut reals, discrete)).collect();
    assert_eq!(reals.next(), None);
    values
}

/// Moderate numbers.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| rng.f64() * 2.0 - 1.0).collect()
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[track_caller]
fn near(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (n, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{n}: {a} is not {b}");
    }
}

fn reals(value: &Value) -> Vec<f64> {
    flatten(std::slice::from_ref(value))
}

/// All derivatives of a function at its arguments with what the calls have used, as text with the bits of reals.
fn everything(function: &Function, args: &[Value]) -> String {
    let options = CallOptions::default();
    let (_, gradient) = function.vjp(args, &cotangent(function, args)).unwrap();
    let tangents = all_with_reals(args, &numbers(flatten(args).len(), 1), false);
    let jvp = function.jvp_with(args, &tangents, &options).unwrap();
    let vjp = function.vjp_with(args, &cotangent(function, args), &options).unwrap();
    assert_eq!(gradient, vjp.gradient);
    let mut all =
        vec![([jvp.value, jvp.tangent].to_vec(), jvp.stats), ([vec![vjp.value], vjp.gradient].concat(), vjp.stats)];
    for mode in [JacobianMode::Forward, JacobianMode::Reverse, JacobianMode::Auto] {
        let found = function.jacobian_by(mode, args, &options).unwrap();
        all.push(([vec![found.value], found.rows.concat()].concat(), found.stats));
    }
    if function.interface().result == dualvm::HostType::Real {
        let hvp = function.hvp_with(args, &tangents, &options).unwrap();
        all.push(([vec![hvp.value.into()], hvp.gradient, hvp.product].concat(), hvp.stats));
        let found = function.hessian_with(args, &options).unwrap();
        all.push(([vec![found.value.into()], found.gradient, found.rows.concat()].concat(), found.stats));
    }
    let shown = |(values, stats): &(Vec<Value>, Stats)| {
        let bits: Vec<u64> = flatten(values).iter().map(|x| x.to_bits()).collect();
        let Stats { instructions, records, slots, allocated_bytes, .. } = stats;
        format!("{values:?}\n{bits:x?}\n{instructions} {records} {slots} {allocated_bytes}\n")
    };
    all.iter().map(shown).collect()
}

fn cotangent(function: &Function, args: &[Value]) -> Value {
    let value = function.call(args).unwrap();
    let numbers = numbers(reals(&value).len(), 2);
    with_reals(&value, &mut numbers.into_iter(), false)
}

#[test]
fn all_engines_agree_to_the_last_bit_and_instruction() {
    for name in ["all", "one"] {
        let expected = everything(&function(SHAPES, name), &arguments());
        for (jit, threads) in [(Jit::Off, 3), (Jit::Always, 1), (Jit::Always, 3), (Jit::Auto, 3)] {
            let found = everything(&module(jit, threads, SHAPES).function(name).unwrap(), &arguments());
            assert_eq!(found, expected, "{name}, {threads} threads");
        }
    }
}

#[test]
fn tangents_are_near_differences_and_forward_is_the_transpose_of_reverse() {
    for name in ["all", "one"] {
        let (f, args) = (function(SHAPES, name), arguments());
        let at = flatten(&args);
        let direction = numbers(at.len(), 3);
        let (value, tangent) = f.jvp(&args, &all_with_reals(&args, &direction, false)).unwrap();
        assert_eq!(value, f.call(&args).unwrap());
        let moved = |step: f64| {
            let at: Vec<f64> = at.iter().zip(&direction).map(|(x, v)| x + step * v).collect();
            reals(&f.call(&all_with_reals(&args, &at, true)).unwrap())
        };
        let h = 1e-6;
        let slope: Vec<f64> = moved(h).iter().zip(moved(-h)).map(|(a, b)| (a - b) / (2.0 * h)).collect();
        near(&reals(&tangent), &slope, 1e-7);

        // Discrete parts of tangents are not looked at; those of the result are null.
        let mut directions = direction.iter().copied();
        let same: Vec<Value> = args.iter().map(|arg| with_reals(arg, &mut directions, true)).collect();
        assert_eq!(f.jvp(&args, &same).unwrap().1, tangent);
        assert_eq!(tangent, with_reals(&value, &mut reals(&tangent).into_iter(), false));

        let cotangent = cotangent(&f, &args);
        let (again, gradient) = f.vjp(&args, &cotangent).unwrap();
        assert_eq!(again, value);
        assert_eq!(gradient, all_with_reals(&args, &flatten(&gradient), false));
        let (forward, reverse) = (inner(&reals(&cotangent), &reals(&tangent)), inner(&flatten(&gradient), &direction));
        assert!((forward - reverse).abs() < 1e-12 * (1.0 + forward.abs()), "{forward} is not {reverse}");

        let by = |mode| f.jacobian_by(mode, &args, &CallOptions::default()).unwrap();
        let (columns, rows) = (by(JacobianMode::Forward), by(JacobianMode::Reverse));
        assert_eq!((&columns.value, &rows.value), (&value, &value));
        assert_eq!(columns.rows.len(), reals(&value).len());
        near(&flatten(&columns.rows.concat()), &flatten(&rows.rows.concat()), 1e-12);
        let product: Vec<f64> = rows.rows.iter().map(|row| inner(&flatten(row), &direction)).collect();
        near(&reals(&tangent), &product, 1e-12);
    }
}

#[test]
fn products_of_the_hessian_are_near_differences_of_gradients_and_its_columns() {
    let (f, args) = (function(SHAPES, "one"), arguments());
    let at = flatten(&args);
    let direction = numbers(at.len(), 4);
    let (value, gradient, product) = f.hvp(&args, &all_with_reals(&args, &direction, false)).unwrap();
    let (expected, expected_gradient) = f.value_and_grad(&args).unwrap();
    assert_eq!(value.to_bits(), expected.to_bits());
    near(&flatten(&gradient), &flatten(&expected_gradient), 1e-14);
    assert_eq!(product, all_with_reals(&args, &flatten(&product), false));
    let moved = |step: f64| {
        let at: Vec<f64> = at.iter().zip(&direction).map(|(x, v)| x + step * v).collect();
        flatten(&f.value_and_grad(&all_with_reals(&args, &at, true)).unwrap().1)
    };
    let h = 1e-6;
    let slope: Vec<f64> = moved(h).iter().zip(moved(-h)).map(|(a, b)| (a - b) / (2.0 * h)).collect();
    near(&flatten(&product), &slope, 1e-7);

    let hessian = f.hessian(&args).unwrap();
    assert_eq!((hessian.value, hessian.gradient), (value, gradient));
    let rows: Vec<Vec<f64>> = hessian.rows.iter().map(|row| flatten(row)).collect();
    assert_eq!(rows.len(), at.len());
    for (i, row) in rows.iter().enumerate() {
        let column: Vec<f64> = rows.iter().map(|row| row[i]).collect();
        near(row, &column, 1e-12);
        let axis: Vec<f64> = (0..at.len()).map(|n| if n == i { 1.0 } else { 0.0 }).collect();
        let (_, _, product) = f.hvp(&args, &all_with_reals(&args, &axis, false)).unwrap();
        assert_eq!(flatten(&product), *row);
    }
    let along: Vec<f64> = rows.iter().map(|row| inner(row, &direction)).collect();
    near(&flatten(&product), &along, 1e-12);
}

#[test]
fn derivatives_are_with_respect_to_what_was_chosen() {
    let (f, args) = (function(SHAPES, "one"), arguments());
    let chosen = f.wrt(&["xs", "tree"]).unwrap();
    let direction = numbers(flatten(&args).len(), 5);
    let mut tangents = all_with_reals(&args, &direction, false);
    let mut zero_elsewhere = tangents.clone();
    for n in [0, 1, 3, 4, 5, 7] {
        tangents[n] = Value::Null;
        let zeros = vec![0.0; reals(&args[n]).len()];
        zero_elsewhere[n] = all_with_reals(&args[n..=n], &zeros, false).remove(0);
    }
    assert_eq!(chosen.jvp(&args, &tangents).unwrap(), f.jvp(&args, &zero_elsewhere).unwrap());
    let null_elsewhere = |mut gradient: Vec<Value>| {
        [0, 1, 3, 4, 5, 7].iter().for_each(|&n| gradient[n] = Value::Null);
        gradient
    };
    let (value, gradient, product) = f.hvp(&args, &zero_elsewhere).unwrap();
    let expected = (value, null_elsewhere(gradient), null_elsewhere(product));
    assert_eq!(chosen.hvp(&args, &tangents).unwrap(), expected);
    let (_, gradient) = chosen.vjp(&args, &3.0.into()).unwrap();
    assert_eq!(gradient, null_elsewhere(f.vjp(&args, &3.0.into()).unwrap().1));
    let hessian = chosen.hessian(&args).unwrap();
    assert_eq!(hessian.rows.len(), 6);
    let all = f.hessian(&args).unwrap();
    // Before the three of xs there is only a.
    for n in 0..3 {
        assert_eq!(hessian.rows[n], null_elsewhere(all.rows[1 + n].clone()));
    }
    let columns = chosen.jacobian_by(JacobianMode::Forward, &args, &CallOptions::default()).unwrap();
    let rows = chosen.jacobian(&args).unwrap();
    near(&flatten(&columns.rows.concat()), &flatten(&rows.rows.concat()), 1e-12);
    assert_eq!(columns.rows[0][0], Value::Null);

    let none = f.wrt::<&str>(&[]).unwrap();
    let nulls = vec![Value::Null; args.len()];
    assert_eq!(none.jvp(&args, &nulls).unwrap(), (f.call(&args).unwrap(), Value::Real(0.0)));
    assert_eq!(none.hvp(&args, &nulls).unwrap(), (value, nulls.clone(), nulls.clone()));
    assert!(none.hessian(&args).unwrap().rows.is_empty());
    let error = chosen.jvp(&args, &zero_elsewhere).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tangent of a: expected null, because derivatives are not with respect to it, found a real (0.0)"
    );
}

#[test]
fn degenerate_functions_have_derivatives_too() {
    let source = "
        def discrete (n : Int) (b : Bool) = (n + 1, [b])
        def nothing (u : ()) = ()
        def constant (x : Real) : Real = 7
        def constants (xs : Array Real) = (2.0, [1.0, 3.0], xs)
        def unused (x : Real) (y : Real) (ys : List Real) : Real = y * y
        def same (xs : Array Real) = (xs, xs, [xs, xs])
        def squared (xs : Array Real) : Real = let ps = (xs, xs) in sum (zip_with (*) (fst ps) (snd ps))
        def sums (xs : List Real) = (sum xs, map (\\x -> x * x) xs)
        def log_of (x : Real) : Real = x * log x
        def cube_slope (x : Real) : Real = grad (\\y -> y * y * y) x
        def ints (ns : Array Int) (x : Real) = ([| n * 2 for n in ns |], x * to_real ns[0])";
    let of = |name: &str| function(source, name);
    let (n, b, null) = (Value::Int(2), Value::Bool(true), Value::Null);

    let discrete = (
        Value::Tuple(vec![Value::Int(3), Value::Array(vec![b.clone()])]),
        Value::Tuple(vec![null.clone(), Value::Array(vec![null.clone()])]),
    );
    assert_eq!(of("discrete").jvp(&[n.clone(), b.clone()], &[null.clone(), b.clone()]).unwrap(), discrete);
    let (value, gradient) = of("discrete").vjp(&[n.clone(), b], &null).unwrap();
    assert_eq!((value, gradient), (discrete.0, vec![null.clone(), null.clone()]));
    assert_eq!(of("nothing").jvp(&[Value::UNIT], std::slice::from_ref(&null)).unwrap(), (Value::UNIT, Value::UNIT));
    assert_eq!(of("nothing").vjp(&[Value::UNIT], &Value::UNIT).unwrap(), (Value::UNIT, vec![Value::UNIT]));

    assert_eq!(of("constant").jvp(&[2.0.into()], &[5.0.into()]).unwrap(), (7.0.into(), 0.0.into()));
    assert_eq!(of("constant").hvp(&[2.0.into()], &[5.0.into()]).unwrap(), (7.0, vec![0.0.into()], vec![0.0.into()]));
    assert_eq!(of("constant").hessian(&[2.0.into()]).unwrap().rows, [[0.0.into()]]);
    for xs in [vec![], vec![4.0]] {
        for mode in [JacobianMode::Forward, JacobianMode::Reverse, JacobianMode::Auto] {
            let jacobian = of("constants").jacobian_by(mode, &[xs.clone().into()], &CallOptions::default()).unwrap();
            let row = |x: f64| vec![Value::Reals(xs.iter().map(|_| x).collect())];
            let mut rows = vec![row(0.0); 3];
            rows.extend(xs.iter().map(|_| row(1.0)));
            assert_eq!(jacobian.rows, rows, "{mode:?}");
        }
    }
    let args = [1.0.into(), 3.0.into(), vec![].into()];
    let (value, gradient, product) = of("unused").hvp(&args, &[9.0.into(), 2.0.into(), null.clone()]).unwrap();
    assert_eq!((value, gradient), (9.0, vec![0.0.into(), 6.0.into(), vec![].into()]));
    assert_eq!(product, [0.0.into(), 4.0.into(), vec![].into()]);

    let xs = || Value::Reals(vec![1.0, 2.0]);
    let tangent = Value::Reals(vec![3.0, 4.0]);
    let four = |xs: &Value| Value::Tuple(vec![xs.clone(), xs.clone(), Value::Array(vec![xs.clone(), xs.clone()])]);
    assert_eq!(of("same").jvp(&[xs()], std::slice::from_ref(&tangent)).unwrap(), (four(&xs()), four(&tangent)));
    assert_eq!(of("same").vjp(&[xs()], &four(&tangent)).unwrap().1, [Value::Reals(vec![12.0, 16.0])]);
    let (_, gradient, product) = of("squared").hvp(&[xs()], std::slice::from_ref(&tangent)).unwrap();
    assert_eq!((gradient, product), (vec![vec![2.0, 4.0].into()], vec![vec![6.0, 8.0].into()]));

    // A list may be long, and integers stand for reals that they are.
    let long: Vec<f64> = (0..200_000).map(f64::from).collect();
    let (_, tangent) = of("sums").jvp(&[long.clone().into()], &[vec![1.0; long.len()].into()]).unwrap();
    let Value::Tuple(parts) = &tangent else { panic!("{}", tangent.kind()) };
    assert_eq!(parts[0], Value::Real(long.len() as f64));
    assert_eq!(parts[1].as_reals().unwrap()[199_999], 2.0 * 199_999.0);
    assert_eq!(of("log_of").jvp(&[Value::Int(1)], &[Value::Int(2)]).unwrap(), (0.0.into(), 2.0.into()));

    // Infinities and NaN are numbers as any others.
    let (value, tangent) = of("log_of").jvp(&[f64::INFINITY.into()], &[f64::NAN.into()]).unwrap();
    assert_eq!(value, f64::INFINITY.into());
    assert!(tangent.as_real().unwrap().is_nan());
    let (_, gradient) = of("log_of").vjp(&[1.0.into()], &f64::NEG_INFINITY.into()).unwrap();
    assert_eq!(gradient, [f64::NEG_INFINITY.into()]);

    // A derivative in the program: the border's are of one order more.
    let (value, gradient, product) = of("cube_slope").hvp(&[2.0.into()], &[1.0.into()]).unwrap();
    assert_eq!((value, gradient, product), (12.0, vec![12.0.into()], vec![6.0.into()]));

    let ns = Value::Array(vec![Value::Int(3), Value::Int(4)]);
    let nulls = Value::Array(vec![null.clone(), null.clone()]);
    let (_, tangent) = of("ints").jvp(&[ns.clone(), 1.0.into()], &[null.clone(), 2.0.into()]).unwrap();
    assert_eq!(tangent, Value::Tuple(vec![nulls.clone(), 6.0.into()]));
    let cotangent = Value::Tuple(vec![null, 1.0.into()]);
    assert_eq!(of("ints").vjp(&[ns, 1.0.into()], &cotangent).unwrap().1, [nulls, 3.0.into()]);
}

#[test]
fn tasks_of_one_run_leave_nothing_to_the_next() {
    // Executions that have ended leave rests of their slabs of tape to others.
    let source = "
        def tree (n : Int) (x : Real) : Real =
          if n == 0 then x * x else let (a, b) = tree (n - 1) (x * 1.01) |*| tree (n - 1) (sin x) in a * b + x
        def f (xs : Array Real) : Real = sum [| tree 9 x for x in xs |]";
    let args = [Value::Reals(vec![0.3, 0.6, 0.9])];
    let expected = function(source, "f").hessian(&args).unwrap();
    for jit in [Jit::Off, Jit::Always] {
        let f = module(jit, 3, source).function("f").unwrap();
        for _ in 0..5 {
            let found = f.hessian(&args).unwrap();
            assert_eq!((found.value, &found.rows), (expected.value, &expected.rows));
            let by = |mode| f.jacobian_by(mode, &args, &CallOptions::default()).unwrap().rows.concat();
            near(&flatten(&by(JacobianMode::Forward)), &flatten(&by(JacobianMode::Reverse)), 1e-10);
        }
    }
}

type Operation = (&'static str, fn(&Function, &CallOptions) -> Result<Stats, Error>);

const LOOP: &str = "
    def spin (xs : Array Real) : Real = loop s = 0.0 for x in xs do sum [s, x * x * s, x]";

const OPERATIONS: [Operation; 7] = [
    ("spin", |f, options| Ok(f.jvp_with(&[ones()], &[ones()], options)?.stats)),
    ("spin", |f, options| Ok(f.vjp_with(&[ones()], &1.0.into(), options)?.stats)),
    ("spin", |f, options| Ok(f.hvp_with(&[ones()], &[ones()], options)?.stats)),
    ("spin", |f, options| Ok(f.hessian_with(&[ones()], options)?.stats)),
    ("spin", |f, options| Ok(f.jacobian_by(JacobianMode::Forward, &[ones()], options)?.stats)),
    ("spin", |f, options| Ok(f.jacobian_by(JacobianMode::Auto, &[ones()], options)?.stats)),
    ("spin", |f, options| Ok(f.jacobian_by(JacobianMode::Reverse, &[ones()], options)?.stats)),
];

fn ones() -> Value {
    Value::Reals(vec![1.0; 20])
}

#[test]
fn limits_are_for_the_whole_of_a_call() {
    for jit in [Jit::Off, Jit::Always] {
        for (n, (name, run)) in OPERATIONS.into_iter().enumerate() {
            let f = module(jit, 1, LOOP).function(name).unwrap();
            let used = run(&f, &CallOptions::default()).unwrap();
            let stopped_by = |limits: Limits| match run(&f, &CallOptions::with_limits(limits)) {
                Ok(again) => {
                    assert_eq!(again.instructions, used.instructions);
                    None
                }
                Err(error) => match error.trap().map(|trap| &trap.kind) {
                    Some(TrapKind::Limit(limit)) => Some(*limit),
                    _ => panic!("{error}"),
                },
            };
            let fuel = |fuel| Limits { fuel, ..Limits::default() };
            assert_eq!(stopped_by(fuel(used.instructions)), None, "{n}");
            assert_eq!(stopped_by(fuel(used.instructions - 1)), Some(Limit::Fuel), "{n}");
            let allocated = |allocated_bytes| Limits { allocated_bytes, ..Limits::default() };
            assert_eq!(stopped_by(allocated(used.allocated_bytes)), None, "{n}");
            assert_eq!(stopped_by(allocated(used.allocated_bytes - 1)), Some(Limit::AllocatedBytes), "{n}");
            let tape = Limits { tape_bytes: 16, ..Limits::default() };
            assert_eq!(stopped_by(tape), (used.records > 0).then_some(Limit::TapeBytes), "{n}");
            assert_eq!(stopped_by(Limits { live_bytes: 8, ..Limits::default() }), Some(Limit::LiveBytes), "{n}");
            let time = Limits { deadline: Some(Duration::ZERO), ..Limits::default() };
            assert_eq!(stopped_by(time), Some(Limit::Deadline), "{n}");
            let handle = CancelHandle::new();
            handle.cancel();
            assert!(run(&f, &CallOptions::default().cancelled_by(&handle)).unwrap_err().is_cancelled(), "{n}");
            assert!(run(&f, &CallOptions::default()).is_ok(), "{n}");
        }
    }
}

#[test]
fn the_fewer_of_rows_and_columns_are_computed() {
    let source = "def wide (x : Real) = [| x ^ n for n < 8 |]
                  def pair (x : Real) = (x, x * x)
                  def tall (xs : Array Real) = (sum xs, 1.0)
                  def narrow (xs : Array Real) = [| sum xs |]";
    let stats = |name: &str, mode| {
        let f = function(source, name);
        let arg = if f.interface().params[0].0 == "x" { Value::Real(2.0) } else { ones() };
        let found = f.jacobian_by(mode, &[arg], &CallOptions::default()).unwrap();
        (found.rows, found.stats.records, found.stats.instructions)
    };
    use JacobianMode::{Auto, Forward, Reverse};
    for (name, mode) in [("pair", Forward), ("tall", Reverse), ("narrow", Reverse)] {
        assert_eq!(stats(name, Auto), stats(name, mode), "{name}");
    }
    // Only the run tells how many rows there are.
    let (auto, forward, reverse) = (stats("wide", Auto), stats("wide", Forward), stats("wide", Reverse));
    assert_eq!((auto.0, forward.1), (forward.0, 0));
    assert!(auto.1 > 0 && auto.2 > forward.2 && reverse.1 == auto.1);
}

#[test]
fn what_has_another_shape_is_an_error_with_its_place() {
    let source = "
        type Shape = Circle Real | Square { side : Real }
        def f (x : Real) (n : Int) (ps : Array { a : Real, b : Int }) (shape : Shape) (xs : List Real) =
          (x, [| p.a for p in ps |], shape)";
    let f = function(source, "f");
    let record = |a: Value, b: Value| Value::Record(vec![("a".to_owned(), a), ("b".to_owned(), b)]);
    let circle = |x: f64| variant("Circle", vec![x.into()]);
    let args = [
        1.0.into(),
        2i64.into(),
        Value::Array(vec![record(1.0.into(), 2i64.into())]),
        circle(1.0),
        vec![1.0, 2.0].into(),
    ];
    let null = || Value::Null;
    let tangents =
        [1.0.into(), null(), Value::Array(vec![record(1.0.into(), null())]), circle(2.0), vec![1.0, 2.0].into()];
    assert!(f.jvp(&args, &tangents).is_ok());
    let message = |at: usize, tangent: Value| {
        let mut tangents = tangents.clone();
        tangents[at] = tangent;
        let error = f.jvp(&args, &tangents).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Tangent(_)), "{error}");
        error.to_string()
    };
    let square = Value::variant("Square", Value::Record(vec![("side".to_owned(), 1.0.into())]));
    for (at, tangent, expected) in [
        (0, null(), "x: expected Real, found null"),
        (0, true.into(), "x: expected Real, found a boolean (true)"),
        (1, 1.0.into(), "n: expected null, because it is discrete, found a real (1.0)"),
        (2, null(), "ps: expected 1 element, found null"),
        (2, Value::Array(vec![]), "ps: expected 1 element, found 0"),
        (2, vec![1.0].into(), "ps: expected 1 element, found reals"),
        (2, Value::Array(vec![record(true.into(), null())]), "ps[0].a: expected Real, found a boolean (true)"),
        (2, Value::Array(vec![Value::UNIT]), "ps[0]: expected { a : Real, b : Int }, found unit"),
        (3, square, "shape: expected constructor `Circle`, found constructor `Square`"),
        (3, variant("Circle", vec![null()]), "shape.0: expected Real, found null"),
        (4, vec![1.0].into(), "xs: expected 2 reals, found 1"),
        (4, Value::Array(vec![1.0.into(), null()]), "xs[1]: expected Real, found null"),
        (4, Value::UNIT, "xs: expected 2 reals, found unit"),
    ] {
        assert_eq!(message(at, tangent), format!("tangent of {expected}"));
    }
    let error = f.jvp(&args, &tangents[..2]).unwrap_err();
    assert_eq!(error.to_string(), "expected 5 tangents (x, n, ps, shape, xs), found 2");
    let error = f.vjp(&args, &Value::Tuple(vec![1.0.into(), vec![].into(), circle(1.0)])).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cotangent(_)));
    assert_eq!(error.to_string(), "cotangent of result.1: expected 1 real, found 0");
    // Arguments come first, and are judged as ever.
    let error = f.jvp(&[], &tangents).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Argument(_)), "{error}");
    for error in [f.hvp(&args, &tangents).unwrap_err(), f.hessian(&args).unwrap_err()] {
        assert!(matches!(error.kind(), ErrorKind::NotScalar { .. }), "{error}");
    }
}

#[test]
fn traps_name_the_program_s_functions_and_nothing_else() {
    let source =
        "def pick (xs : Array Real) (i : Int) : Real = xs[i]\ndef f (xs : Array Real) : Real =\n  2 * pick xs 5";
    let xs = || [vec![1.0].into()];
    for jit in [Jit::Off, Jit::Always] {
        let f = module(jit, 1, source).function("f").unwrap();
        let expected = f.call(&xs()).unwrap_err().to_string();
        assert!(expected.contains("\n  in f at test.dual:"), "{expected}");
        let errors = [
            f.jvp(&xs(), &xs()).unwrap_err(),
            f.vjp(&xs(), &1.0.into()).unwrap_err(),
            f.hvp(&xs(), &xs()).unwrap_err(),
            f.hessian(&xs()).unwrap_err(),
            f.jacobian_by(JacobianMode::Forward, &xs(), &CallOptions::default()).unwrap_err(),
        ];
        errors.iter().for_each(|error| assert_eq!(error.to_string(), expected));
    }
}

#[test]
fn second_derivatives_are_those_of_the_gradient_whatever_a_rule_says() {
    // A rule that isn't linear, and one that is nobody's derivative: the order of the two modes matters.
    let source = "def clip (x : Real) : Real = custom_vjp (\\x -> x) (\\_ c -> max (-1) (min 1 c)) x
         def f (x : Real) (y : Real) : Real =
           clip (x * y) ^ 2 + custom_vjp (\\(x, y) -> x * y) (\\(x, y) c -> (c * y, 3 * c * x)) (x, y)
         def inside (x : Real) (y : Real) = (grad (\\(x, y) -> f x y) (x, y), hvp (\\(x, y) -> f x y) (x, y) (1.0, 0.5))";
    for jit in [Jit::Off, Jit::Always] {
        let module = module(jit, 1, source);
        let args = [3.0.into(), 5.0.into()];
        let expected = reals(&module.function("inside").unwrap().call(&args).unwrap());
        let (_, gradient, product) = module.function("f").unwrap().hvp(&args, &[1.0.into(), 0.5.into()]).unwrap();
        assert_eq!([flatten(&gradient), flatten(&product)].concat(), expected);
        let (_, gradient) = module.function("f").unwrap().value_and_grad(&args).unwrap();
        assert_eq!(flatten(&gradient), expected[..2]);
    }
}

#[test]
fn large_matrices_are_refused_before_they_are_made() {
    let source = "def each (xs : Array Real) : Array Real = map sin xs
                  def all (xs : Array Real) : Real = sum (map sin xs)";
    let module = module(Jit::Off, 1, source);
    let args = [Value::Reals(vec![0.5; 4000])];
    let limits = Limits { live_bytes: 64 << 20, ..Limits::default() };
    let options = CallOptions::with_limits(limits);
    let each = module.function("each").unwrap();
    for mode in [JacobianMode::Forward, JacobianMode::Reverse] {
        assert!(each.jacobian_by(mode, &args, &options).is_err_and(|error| error.is_limit()));
    }
    assert!(module.function("all").unwrap().hessian_with(&args, &options).is_err_and(|error| error.is_limit()));
    assert!(module.function("all").unwrap().jacobian_by(JacobianMode::Reverse, &args, &options).is_ok());
}

#[test]
fn of_two_traps_in_a_parallel_sweep_one_is_shown_with_its_own_backtrace() {
    let source = "def pulled (k : Int) (x : Real) : Real =
           custom_vjp (\\x -> x) (\\x c -> grad (\\y ->
             if k == 3 then error \"three\"
             else if k == 7 then error \"seven\"
             else c * y) x) x
         def many (x : Real) : Real = sum (pbuild 300 (\\i -> pulled (i % 13) (x * to_real i)))";
    let stopped = |threads| {
        let error = module(Jit::Auto, threads, source).function("many").unwrap().value_and_grad(&[1.0.into()]);
        error.unwrap_err().to_string()
    };
    let alone = stopped(1);
    assert!(alone.contains("seven") && alone.contains("4:"), "{alone}");
    for _ in 0..20 {
        assert_eq!(stopped(3), alone);
    }
}

#[test]
fn columns_side_by_side_have_the_bits_of_each_alone() {
    let source = "
        def f (x : Real) (ys : Array Real) (n : Int) : (Real, Array Real) =
          let zs = [| loop z = y for i < n do z + sin (x * z) for y in ys |] in (sum zs / x, zs)
        def rec (ys : Array Real) (x : Real) (n : Int) : List Real =
          if n == 0 then [sum ys] else x :: rec [| y * x for y in ys |] (exp (x / 3)) (n - 1)";
    for (name, args) in [
        ("f", vec![Value::Real(0.7), Value::Reals(vec![0.1, -2.0, 3.5, 0.0, 1.5]), Value::Int(3)]),
        ("f", vec![Value::Real(0.7), Value::Reals(vec![]), Value::Int(3)]),
        ("rec", vec![Value::Reals(vec![0.3, -1.0]), Value::Real(0.7), Value::Int(2)]),
    ] {
        let of = function(source, name);
        let jacobian = of.jacobian_by(JacobianMode::Forward, &args, &CallOptions::default()).unwrap();
        let columns = flatten(&args).len();
        for column in 0..columns {
            let mut at = 0;
            let axis: Vec<Value> = args.iter().map(|arg| unit(arg, column, &mut at)).collect();
            let (value, tangent) = of.jvp(&args, &axis).unwrap();
            assert_eq!(value, jacobian.value);
            let found: Vec<u64> = jacobian.rows.iter().map(|row| flatten(row)[column].to_bits()).collect();
            let alone: Vec<u64> = reals(&tangent).iter().map(|x| x.to_bits()).collect();
            assert_eq!(found, alone, "{name}, column {column}");
        }
    }
}

#[test]
fn directions_side_by_side_have_the_bits_of_each_alone() {
    // Written as code, constants that lead to reals, and the operator, which forks keep.
    let source = "
        def f (x : Real) (ys : Array Real) (n : Int) : (Real, Array Real) =
          let zs = [| loop z = y for i < n do z + sin (x * z) for y in ys |] in (sum zs / x, zs)
        def kept (data : { ks : Array Real, rows : Array (Array Real) }) (x : Real) =
          (data, x, [| x * k for k in data.ks |], data.rows[1])
        def forked (ks : List Real) (x : Real) = let (a, b) = par (x * sum ks, sin x) in (ks, a * b, 7)";
    let reals = |xs: &[f64]| Value::Reals(xs.to_vec());
    let data = Value::Record(vec![
        ("ks".to_owned(), reals(&[0.5, f64::NAN, 2.0])),
        ("rows".to_owned(), Value::Array(vec![reals(&[]), reals(&[1.5, f64::INFINITY])])),
    ]);
    for (name, args, wrt) in [
        ("f", vec![0.7.into(), reals(&[0.1, -2.0, 3.5]), Value::Int(3)], &["x", "ys", "n"][..]),
        ("f", vec![0.7.into(), reals(&[0.1, -2.0, 3.5]), Value::Int(3)], &["ys"]),
        ("f", vec![0.7.into(), reals(&[]), Value::Int(3)], &["x", "ys", "n"]),
        ("kept", vec![data.clone(), 0.7.into()], &["x"]),
        ("kept", vec![data, 0.7.into()], &["data"]),
        ("forked", vec![reals(&[0.5, -1.5]), 0.7.into()], &["x"]),
        ("forked", vec![reals(&[0.5, -1.5]), 0.7.into()], &["ks", "x"]),
    ] {
        for jit in [Jit::Off, Jit::Always] {
            let of = module(jit, 1, source).function(name).unwrap().wrt(wrt).unwrap();
            let mut seed = 0.3;
            let mut direction = || -> Vec<Value> {
                let mut tangent = |n: usize| {
                    if of.is_wrt(n) { random_tangent(&args[n], &mut seed) } else { Value::Null }
                };
                (0..args.len()).map(&mut tangent).collect()
            };
            let directions: Vec<Vec<Value>> = (0..6).map(|_| direction()).collect();
            for count in 0..=directions.len() {
                let (value, tangents) = of.jvps(&args, &directions[..count]).unwrap();
                let bits = |value: &Value| flatten(std::slice::from_ref(value)).iter().map(|x| x.to_bits()).collect();
                let found: Vec<Vec<u64>> = tangents.iter().map(bits).collect();
                let alone = |tangents: &Vec<Value>| bits(&of.jvp(&args, tangents).unwrap().1);
                let expected: Vec<Vec<u64>> = directions[..count].iter().map(alone).collect();
                assert_eq!(found, expected, "{name} {wrt:?} {jit:?}, {count} directions");
                let in_a_row: Vec<Vec<f64>> = directions.iter().map(|tangents| flatten(tangents)).collect();
                let (same, tangents) = of.jvps_of_reals(&args, &in_a_row[..count]).unwrap();
                let found: Vec<Vec<u64>> =
                    tangents.iter().map(|reals| reals.iter().map(|x| x.to_bits()).collect()).collect();
                assert_eq!(found, expected, "{name} {wrt:?} {jit:?}, {count} directions in a row");
                assert_eq!(bits(&value) as Vec<u64>, bits(&same));
                assert_eq!(bits(&value) as Vec<u64>, bits(&of.call(&args).unwrap()));
            }
        }
    }
}

/// A tangent of the shape of a value, of reals that follow from the seed.
fn random_tangent(value: &Value, seed: &mut f64) -> Value {
    let mut next = || {
        *seed = 3.9 * *seed * (1.0 - *seed);
        *seed - 0.5
    };
    match value {
        Value::Real(_) => Value::Real(next()),
        Value::Reals(xs) => Value::Reals(xs.iter().map(|_| next()).collect()),
        Value::Array(parts) => Value::Array(parts.iter().map(|part| random_tangent(part, seed)).collect()),
        Value::Record(parts) => {
            Value::Record(parts.iter().map(|(name, part)| (name.clone(), random_tangent(part, seed))).collect())
        }
        _ => Value::Null,
    }
}

#[test]
fn directions_of_the_wrong_shape_are_refused_and_limits_are_for_all() {
    let of = function("def f (x : Real) (ys : Array Real) : Real = x * sum ys", "f");
    let args = [2.0.into(), Value::Reals(vec![1.0, 3.0])];
    let right = vec![1.0.into(), Value::Reals(vec![0.0, 1.0])];
    for wrong in [vec![1.0.into()], vec![1.0.into(), Value::Reals(vec![1.0])]] {
        let error = of.jvps(&args, &[right.clone(), right.clone(), wrong]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Tangent(_)), "{error}");
    }
    for wrong in [vec![], vec![1.0, 0.0], vec![1.0; 4]] {
        let error = of.jvps_of_reals(&args, &[vec![1.0; 3], wrong.clone()]).unwrap_err();
        let expected = format!("tangent of direction 1: expected 3 reals, found {}", wrong.len());
        assert!(matches!(error.kind(), ErrorKind::Tangent(_)) && error.to_string().contains(&expected), "{error}");
    }
    let error = of.jvps_of_reals(&args[..1], &[[1.0; 3]]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Argument(_)), "{error}");
    let once = of.jvps_with(&args, &[&right[..]], &CallOptions::default()).unwrap().stats.instructions;
    let many = vec![&right[..]; 40];
    let mut options = CallOptions::default();
    options.limits = Some(Limits { fuel: 3 * once, ..Limits::default() });
    let error = of.jvps_with(&args, &many, &options).unwrap_err();
    assert!(error.is_limit(), "{error}");
    let error = of.jvps_of_reals_with(&args, &[[1.0; 3]; 40], &options).unwrap_err();
    assert!(error.is_limit(), "{error}");
}

#[test]
fn tangents_for_the_host_have_no_negative_zeros() {
    let source = "
        def k (n : Int) (x : Real) : Real = if n <= 0 then x else if k (n - 1) x > 9.0 then 1.0 else -x
        def main (n : Int) (x : Real) : Real = k n x
        def same (xs : Array Real) = (xs, [| -x for x in xs |])";
    let tangent = function(source, "main").jvp(&[Value::Int(3), 0.5.into()], &[Value::Null, 0.0.into()]).unwrap().1;
    let of_arrays = function(source, "same").jvp(&[Value::Reals(vec![1.0])], &[Value::Reals(vec![-0.0])]).unwrap().1;
    for real in [reals(&tangent), reals(&of_arrays)].concat() {
        assert_eq!(real.to_bits(), 0);
    }
}

/// A tangent that is 1 for one of the reals, which are counted.
fn unit(value: &Value, axis: usize, at: &mut usize) -> Value {
    let mut next = || {
        *at += 1;
        if *at == axis + 1 { 1.0 } else { 0.0 }
    };
    match value {
        Value::Real(_) => Value::Real(next()),
        Value::Reals(xs) => Value::Reals(xs.iter().map(|_| next()).collect()),
        _ => Value::Null,
    }
}
