//! Arguments that are bound to a function are those of its calls, to the last bit, whatever is called and how: alone or
//! with others, in front, in the middle, behind.

#[path = "../src/bench/tiering/data.rs"]
mod data;
#[path = "../src/bench/tiering/programs.rs"]
mod programs;
mod support;

use dualvm::{
    CallFrame, CallOptions, Config, Engine, ErrorKind, FlatValue, Function, JacobianMode, Jit, KINK_EPSILON, Limits,
    Module, Value,
};
use programs::PROGRAMS;
use serde::de::DeserializeSeed;
use support::flatten;

fn engine(jit: Jit, threads: usize) -> Engine {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, threads);
    Engine::new(config)
}

fn module(engine: &Engine, source: &str) -> Module {
    Module::from_source(engine, "test.dual", source).unwrap_or_else(|error| panic!("{error}"))
}

fn bits(values: &[Value]) -> Vec<u64> {
    flatten(values).iter().map(|x| x.to_bits()).collect()
}

fn names(function: &Function) -> Vec<String> {
    function.interface().params.iter().map(|(name, _)| name.clone()).collect()
}

/// The function with some of its arguments, and the others; and the whole function with derivatives by these.
fn bind(function: &Function, args: &[Value], is_bound: impl Fn(usize) -> bool) -> (Function, Vec<Value>, Function) {
    let (mut bound, mut left, mut by) = (function.clone(), Vec::new(), Vec::new());
    let mut numbered: Vec<(usize, String)> = names(function).into_iter().enumerate().collect();
    // In an order that isn't that of the parameters.
    numbered.rotate_left(args.len() / 2);
    for (n, name) in &numbered {
        if is_bound(*n) {
            bound = bound.bind(name, &args[*n]).unwrap();
        }
    }
    for (n, name) in names(function).into_iter().enumerate() {
        if !is_bound(n) {
            left.push(args[n].clone());
            by.push(name);
        }
    }
    assert_eq!(names(&bound), by);
    (bound, left, function.wrt(&by).unwrap())
}

/// Entries of the parameters that are left.
fn of_left(entries: &[Value], is_bound: impl Fn(usize) -> bool) -> Vec<Value> {
    entries.iter().enumerate().filter(|&(n, _)| !is_bound(n)).map(|(_, entry)| entry.clone()).collect()
}

#[test]
fn each_argument_of_real_programs_can_be_bound() {
    for program in PROGRAMS {
        for jit in [Jit::Off, Jit::Always] {
            let engine = engine(jit, 1);
            let function = module(&engine, program.source).function(program.function).unwrap();
            let size = &program.sizes[0];
            let args = (size.args)();
            let args = &mut serde_json::Deserializer::from_str(&args);
            let args = function.arguments_seed().deserialize(args).unwrap();
            for n in 0..args.len() {
                for others in [false, true] {
                    let is_bound = |parameter: usize| (parameter == n) != others;
                    let (bound, left, whole) = bind(&function, &args, is_bound);
                    let options = CallOptions::default();
                    let expected = whole.value_and_grad_with(&args, &options).unwrap();
                    let found = bound.value_and_grad_with(&left, &options).unwrap();
                    let what = format!("{}, {}, with {n} bound, or all others: {others}", program.name, size.label);
                    assert_eq!(found.value.to_bits(), expected.value.to_bits(), "{what}");
                    assert_eq!(bits(&found.gradient), bits(&of_left(&expected.gradient, is_bound)), "{what}");
                    let [found, expected] = [found.stats, expected.stats];
                    let counts = |stats: &dualvm::Stats| (stats.instructions, stats.records, stats.slots);
                    assert_eq!(counts(&found), counts(&expected), "{what}");
                    assert!(found.allocated_bytes <= expected.allocated_bytes, "{what}");
                }
            }
        }
    }
}

/// Functions of everything that there is, whose values are a real and several; in some, reals come of discrete parts
/// only, objects are shared, made anew, moved and handed to tasks.
const SHAPES: &str = r"
    type Shape = Circle Real | Square { side : Real } | Group (List Shape)
    def area (shape : Shape) : Real = match shape with
      Circle r -> 3 * r * r | Square { side } -> side * side | Group shapes -> sum (map area shapes)
    def f (a : Real) (xs : Array Real) (ys : List Real) (p : (Real, Int)) (shape : Shape) (rows : List (Array Real))
          (m : Matrix Real) (points : Array (Real, Real)) (unit : ()) (ns : Array Int) (on : Bool) : Real =
      let (q, n) = p in
      let moved = [| (x * a, y + q) for (x, y) in points |] in
      (if on then a * sum xs * q * to_real n else sum ys)
        + sum ys * area shape * sum (map sum rows) * sum [| m[i, j] * xs[ns[0]] for i < rows_of m for j < 2 |]
        + sum [| x * y * xs[ns[1]] for (x, y) in moved |]
    def rows_of (m : Matrix Real) : Int = let (rows, _) = shape m in rows
    def several (a : Real) (xs : Array Real) (ys : List Real) (p : (Real, Int)) (shape : Shape)
          (rows : List (Array Real)) (m : Matrix Real) (points : Array (Real, Real)) (unit : ()) (ns : Array Int)
          (on : Bool) : (Real, Array Real, Array (Real, Real), Matrix Real, List (Array Real)) =
      (f a xs ys p shape rows m points unit ns on, xs, points, m, rows)
    def inner (a : Real) (xs : Array Real) (ys : List Real) (p : (Real, Int)) (shape : Shape) (rows : List (Array Real))
          (m : Matrix Real) (points : Array (Real, Real)) (unit : ()) (ns : Array Int) (on : Bool) : Real =
      let g = grad (\zs -> f a zs ys p shape rows m points unit ns on) xs in
      let tasks = pmap (\k -> f (a + to_real k) xs ys p shape rows m points unit ns on) [0, 1, 2] in
      let moving = jvp (\b -> f b xs ys p shape rows m points unit ns on) a 1.0 in
      let (_, dot) = moving in
      dot_of g xs + sum tasks + dot
    def dot_of (xs : Array Real) (ys : Array Real) : Real = sum (zip_with (*) xs ys)
    def garbage (a : Real) (xs : Array Real) (ys : List Real) (p : (Real, Int)) (shape : Shape)
          (rows : List (Array Real)) (m : Matrix Real) (points : Array (Real, Real)) (unit : ()) (ns : Array Int)
          (on : Bool) : Real =
      let step = \(kept, shape, total) k ->
        let more = map (\y -> y * a) (append kept ys) in
        (if k % 7 == 0 then ys else more, Group [shape, Circle a], total + sum more / to_real (1 + length more)) in
      let (kept, last, total) = fold step (ys, shape, 0.0) (range 0 400) in
      total + sum kept + area (match last with Group (_ :: circle :: []) -> circle | _ -> shape)
        + f a xs ys p shape rows m points unit ns on";

fn shapes() -> Vec<Value> {
    let real = Value::Real;
    let pair = |x: f64, y: f64| Value::Tuple(vec![real(x), real(y)]);
    let circle = |r| Value::variant("Circle", Value::Tuple(vec![real(r)]));
    let square = Value::variant("Square", Value::Record(vec![("side".into(), real(0.75))]));
    vec![
        real(1.25),
        // Long enough to be borrowed.
        Value::Reals((0..40).map(|n| 0.1 * f64::from(n) - 1.0).collect()),
        Value::Reals(vec![0.25, 3.0]),
        Value::Tuple(vec![real(-1.5), Value::Int(2)]),
        Value::variant("Group", Value::Tuple(vec![Value::Array(vec![circle(0.5), square])])),
        Value::Array(vec![Value::Reals(vec![1.0, 2.0]), Value::Reals(vec![]), Value::Reals(vec![0.5])]),
        Value::Array(vec![Value::Reals(vec![1.0, -2.0]), Value::Reals(vec![0.5, 0.25]), Value::Reals(vec![3.0, 1.5])]),
        Value::Array(vec![pair(1.0, 2.0), pair(-0.5, 0.125), pair(3.0, 0.0)]),
        Value::UNIT,
        Value::Array(vec![Value::Int(7), Value::Int(2)]),
        Value::Bool(true),
    ]
}

/// Sets of parameters that are bound: each one, all but each one, some in turns, all and none.
fn sets(params: usize) -> Vec<u32> {
    let all = (1 << params) - 1;
    let single = (0..params).flat_map(|n| [1 << n, all & !(1 << n)]);
    single.chain([0b0101_0101_0101, 0b1010_1010_1010, 0b0000_0111_1100].map(|set| set & all)).chain([0, all]).collect()
}

/// A number for each real that derivatives are with respect to.
fn directions(function: &Function, args: &[Value], count: usize) -> Vec<Vec<f64>> {
    let reals = function.places_of_reals(args).len();
    (0..count).map(|k| (0..reals).map(|n| ((n * 3 + k * 5) as f64).sin()).collect()).collect()
}

/// Compares all that can be asked of a function with values.
fn compare(function: &Function, args: &[Value], set: u32) {
    let is_bound = |n: usize| set >> n & 1 == 1;
    let (bound, left, whole) = bind(function, args, is_bound);
    let what = format!("{} with {set:b} bound", function.name());

    let value = whole.call(args).unwrap();
    assert_eq!(bound.call(&left).unwrap(), value, "{what}");
    if bits(&left).is_empty() {
        return;
    }
    for count in [1, 6] {
        let directions = directions(&whole, args, count);
        let expected = whole.jvps_of_reals(args, &directions).unwrap();
        assert_eq!(bound.jvps_of_reals(&left, &directions).unwrap(), expected, "{what}");
    }
    let (_, expected) = whole.vjp(args, &value).unwrap();
    let (_, gradient) = bound.vjp(&left, &value).unwrap();
    assert_eq!(gradient, of_left(&expected, is_bound), "{what}");
    for mode in [JacobianMode::Forward, JacobianMode::Reverse] {
        let options = CallOptions::default();
        let expected = whole.jacobian_by(mode, args, &options).unwrap();
        let found = bound.jacobian_by(mode, &left, &options).unwrap();
        assert_eq!(found.value, expected.value, "{what}");
        let rows: Vec<_> = expected.rows.iter().map(|row| of_left(row, is_bound)).collect();
        assert_eq!(found.rows, rows, "{what}");
    }
    if whole.interface().result.is_real() {
        let tangents = of_left(&gradient_as_tangent(&whole, args), is_bound);
        let expected = whole.hvp(args, &gradient_as_tangent(&whole, args)).unwrap();
        let (value, gradient, product) = bound.hvp(&left, &tangents).unwrap();
        assert_eq!(value.to_bits(), expected.0.to_bits(), "{what}");
        assert_eq!(gradient, of_left(&expected.1, is_bound), "{what}");
        assert_eq!(product, of_left(&expected.2, is_bound), "{what}");
        let [found, expected] = [(&bound, &*left), (&whole, args)].map(|(function, args)| {
            let options = CallOptions::default();
            let kinks = function.kinks(args, KINK_EPSILON, &options).unwrap();
            let records = function.profile(args, &options).unwrap().stats.records;
            (kinks.sites.len(), records)
        });
        assert_eq!(found, expected, "{what}");
    }
}

/// The function's gradient, which has the shape of a tangent.
fn gradient_as_tangent(function: &Function, args: &[Value]) -> Vec<Value> {
    function.value_and_grad(args).unwrap().1
}

#[test]
fn arguments_of_any_shape_can_be_bound_in_any_order() {
    let args = shapes();
    // What the engines share isn't asked of each of them.
    for (jit, threads, every) in [(Jit::Off, 1, 1), (Jit::Always, 1, 5), (Jit::Always, 3, 7)] {
        let module = module(&engine(jit, threads), SHAPES);
        for name in ["f", "several", "inner", "garbage"] {
            let function = module.function(name).unwrap();
            sets(args.len()).into_iter().step_by(every).for_each(|set| compare(&function, &args, set));
        }
    }
}

#[test]
fn tangents_of_what_is_bound_are_zeros_where_an_operator_looks_at_them() {
    let args = shapes();
    let mut config = Config::default();
    (config.jit, config.threads) = (Jit::Off, 1);
    // What is looked at has no code for tangents: the operator runs.
    let module = module(&Engine::new(config.trapping_nan(true)), SHAPES);
    for name in ["f", "several", "inner"] {
        let function = module.function(name).unwrap();
        sets(args.len()).into_iter().step_by(2).for_each(|set| compare(&function, &args, set));
    }
}

/// A handle of an engine whose operators look at tangents of constants.
fn looked_at(source: &str, name: &str) -> Function {
    let mut config = Config::default();
    (config.jit, config.threads) = (Jit::Off, 1);
    module(&Engine::new(config.trapping_nan(true)), source).function(name).unwrap()
}

#[test]
fn tangents_of_what_is_bound_are_within_the_limits_of_the_call() {
    let source = "def f (a : Real) (ps : Array (Real, Int)) : Real = a * sum [| x for (x, _) in ps |]";
    let pair = Value::Tuple(vec![Value::Real(1.0), Value::Int(1)]);
    let bound = looked_at(source, "f").bind("ps", &Value::Array(vec![pair; 20_000])).unwrap();
    let direction = [vec![1.0]];
    let run = |options: &CallOptions| bound.jvps_of_reals_with(&[Value::Real(2.0)], &direction, options);
    assert_eq!(run(&CallOptions::default()).unwrap().tangents, [[20_000.0]]);
    let mut options = CallOptions::default();
    options.limits = Some(Limits { live_bytes: 500_000, ..Limits::default() });
    let error = run(&options).unwrap_err();
    assert!(error.is_trap() && error.to_string().contains("live"), "{error}");
    let mut options = CallOptions::default();
    let cancel = dualvm::CancelHandle::new();
    cancel.cancel();
    options.cancel = Some(cancel);
    assert!(run(&options).unwrap_err().is_trap());
}

#[test]
fn what_is_bound_may_nest_as_deep_as_arguments() {
    let source = "
        type T = L (Matrix Real) | N T
        def d (t : T) : Real = match t with L m -> 1.0 + sum m | N t -> d t
        def f (a : Real) (t : T) : Real = a * d t";
    // Sequences without elements aren't looked into.
    for empty in [Value::Array(vec![]), Value::Reals(vec![])] {
        let leaf = Value::variant("L", Value::Tuple(vec![empty]));
        let t = (0..639).fold(leaf, |t, _| Value::variant("N", Value::Tuple(vec![t])));
        let bound = looked_at(source, "f").bind("t", &t).unwrap();
        assert_eq!(bound.jvps_of_reals(&[Value::Real(2.0)], &[[1.0]]).unwrap().1, [[1.0]]);
        assert_eq!(bound.value_and_grad(&[Value::Real(2.0)]).unwrap(), (2.0, vec![Value::Real(1.0)]));
    }
}

#[test]
fn objects_that_are_bound_outlive_evacuations_and_what_was_called_before() {
    let args = shapes();
    let engine = engine(Jit::Always, 3);
    let function = module(&engine, SHAPES).function("garbage").unwrap();
    let mut options = CallOptions::default();
    options.limits = Some(Limits { live_bytes: 400_000, ..Limits::default() });
    let is_bound = |n: usize| n != 0;
    let (bound, left, whole) = bind(&function, &args, is_bound);
    let expected = whole.value_and_grad(&args).unwrap();
    for _ in 0..10 {
        let found = bound.value_and_grad_with(&left, &options).unwrap();
        assert_eq!((found.value, &found.gradient), (expected.0, &of_left(&expected.1, is_bound)));
        // Memory that others use in between.
        whole.value_and_grad(&args).unwrap();
    }
    let threads: Vec<_> = (0..4).map(|_| (bound.clone(), left.clone())).collect();
    drop(bound);
    std::thread::scope(|scope| {
        for (bound, left) in threads {
            let expected = expected.0;
            scope.spawn(move || (0..10).for_each(|_| assert_eq!(bound.value_and_grad(&left).unwrap().0, expected)));
        }
    });
}

const FLAT: &str = "
    def loss (a : Real) (points : Array (Array Real)) (theta : Array Real) (unit : ()) (k : Real)
        : (Real, Array Real) =
      (k * a * sum [| (let t = theta[n] in t * t * sum points[n]) for n < length theta |], theta)
    def total (n : Int) (words : List (List Real)) (xs : Array Real) : Real =
      to_real n * sum xs * sum (map sum words)";

#[test]
fn what_is_left_may_be_flat_or_have_types_of_rust() {
    let points = Value::Array(vec![Value::Reals(vec![1.0, 2.0]), Value::Reals(vec![4.0])]);
    for (jit, threads) in [(Jit::Off, 1), (Jit::Always, 1), (Jit::Always, 3)] {
        let engine = engine(jit, threads);
        let loss = module(&engine, FLAT).function("loss").unwrap();
        assert!(loss.flat().is_err());
        let loss = loss.bind("points", &points).unwrap();
        assert_eq!(
            loss.signature(),
            "loss : (a : Real, theta : Array Real, unit : (), k : Real) -> (Real, Array Real)"
        );
        let (flat, mut frame) = (loss.flat().unwrap(), CallFrame::new());
        let args = [FlatValue::Real(2.0), FlatValue::Reals(&[3.0, 5.0]), FlatValue::Real(10.0)];
        let weights = [FlatValue::Real(1.0), FlatValue::Reals(&[0.0, 0.0])];
        for _ in 0..3 {
            assert_eq!(flat.call(&mut frame, &args).unwrap().get(0), Some(FlatValue::Real(20.0 * (27.0 + 100.0))));
            let (_, gradient) = flat.vjp(&mut frame, &args, &weights).unwrap();
            assert_eq!(gradient.reals(), [1270.0, 20.0 * 18.0, 20.0 * 40.0, 254.0]);
        }
        // A recorded run is swept when everything else is gone.
        flat.record(&mut frame, &args).unwrap();
        drop((loss, flat));
        let mut recorded = frame.recorded().unwrap();
        let gradient = recorded.pullback(&weights).unwrap();
        assert_eq!(gradient.reals(), [1270.0, 20.0 * 18.0, 20.0 * 40.0, 254.0]);

        let total = module(&engine, FLAT).function("total").unwrap();
        let words = Value::Array(vec![Value::Reals(vec![1.0, 2.0]), Value::Reals(vec![4.0])]);
        let total = total.bind("words", &words).unwrap();
        let typed = total.typed::<(i64, &[f64]), f64>().unwrap();
        let xs = vec![0.5; 64];
        assert_eq!(typed.call((3, &xs)).unwrap(), 3.0 * 32.0 * 7.0);
        assert_eq!(typed.value_and_grad((3, &xs)).unwrap().1.1, vec![21.0; 64]);
        let (_, moved) = typed.jvp((3, &xs), ((), &[1.0; 64])).unwrap();
        assert_eq!(moved, 21.0 * 64.0);
        let items: Vec<(i64, &[f64])> = (0..20).map(|n| (n, &*xs)).collect();
        let batch = typed.batch().call(items);
        for (n, found) in batch.into_iter().enumerate() {
            assert_eq!(found.unwrap(), n as f64 * 32.0 * 7.0);
        }
        // With nothing left to give.
        let none = total.bind("n", &Value::Int(1)).unwrap().bind("xs", &Value::Reals(xs)).unwrap();
        assert_eq!(none.typed::<(), f64>().unwrap().call(()).unwrap(), 32.0 * 7.0);
        assert_eq!(none.value_and_grad(&[]).unwrap(), (32.0 * 7.0, vec![]));
    }
}

#[test]
fn derivatives_are_with_respect_to_what_is_left_of_what_they_were() {
    let source = "def f (x : Real) (y : Real) (z : Real) : Real = x * y * z";
    let f = module(&engine(Jit::Auto, 1), source).function("f").unwrap();
    let real = Value::Real;
    let by_y = f.wrt(&["y"]).unwrap().bind("x", &real(2.0)).unwrap();
    assert_eq!(by_y.value_and_grad(&[real(3.0), real(5.0)]).unwrap(), (30.0, vec![real(10.0), Value::Null]));
    let by_nothing = by_y.bind("y", &real(3.0)).unwrap();
    assert_eq!(by_nothing.value_and_grad(&[real(5.0)]).unwrap(), (30.0, vec![Value::Null]));
    let by_z = by_nothing.wrt(&["z"]).unwrap();
    assert_eq!(by_z.value_and_grad(&[real(5.0)]).unwrap(), (30.0, vec![real(6.0)]));
    // The function that arguments were bound to is as it was.
    assert_eq!(f.value_and_grad(&[1.0, 2.0, 3.0].map(real)).unwrap().1, [6.0, 3.0, 2.0].map(real));
}

#[test]
fn what_cannot_be_bound_is_refused_with_its_place() {
    let source = "def f (x : Real) (ps : Array (Real, Int)) : Real = x * sum [| y for (y, _) in ps |]";
    let f = module(&engine(Jit::Auto, 1), source).function("f").unwrap();
    let refused = |function: &Function, name: &str, value: Value| function.bind(name, &value).unwrap_err();

    let error = refused(&f, "z", Value::Real(1.0));
    assert!(matches!(error.kind(), ErrorKind::NoSuchParameter(_)));
    assert_eq!(error.to_string(), "`f` has no parameter `z`; it has x, ps");
    let error = refused(&f, "ps", Value::Array(vec![Value::Tuple(vec![Value::Real(1.0), Value::Bool(true)])]));
    assert_eq!(error.to_string(), "argument ps[0].1: expected Int, found a boolean (true)");
    let bound = f.bind("x", &Value::Int(2)).unwrap();
    assert_eq!(refused(&bound, "x", Value::Real(1.0)).to_string(), "`f` has no parameter `x`; it has ps");
    assert_eq!(bound.bind_as("y", &1.0).unwrap_err().to_string(), "`f` has no parameter `y`; it has ps");
    let error = bound.bind_as("ps", &[(1.0, "two")]).unwrap_err();
    assert!(error.to_string().starts_with("argument ps[0].1: expected Int"), "{error}");
    assert_eq!(bound.bind_as("ps", &[(1.0, 2)]).unwrap().call(&[]).unwrap(), Value::Real(2.0));
    // Errors of calls are about what is left.
    let error = bound.call(&[Value::Real(1.0), Value::Real(2.0)]).unwrap_err();
    assert_eq!(error.to_string(), "expected 1 argument (ps : Array (Real, Int)), found 2");

    let mut config = Config::default();
    config.limits.live_bytes = 1_000_000;
    let f = module(&Engine::new(config), source).function("f").unwrap();
    let pair = Value::Tuple(vec![Value::Real(1.0), Value::Int(1)]);
    let error = refused(&f, "ps", Value::Array(vec![pair; 100_000]));
    assert!(error.is_trap() && error.to_string().contains("live"), "{error}");
}
