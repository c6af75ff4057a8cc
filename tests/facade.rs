//! The library as a host uses it: values, the host's own types, limits, threads.

use dualvm::{
    CallOptions, CancelHandle, CompileLimits, CompileOptions, Config, Engine, Error, ErrorKind, FileKind, Function,
    Limit, Limits, Module, TrapKind, Value, read_def_with,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const RECORD: &str = include_str!("data/record.dvs");

fn assembled(name: &str) -> Function {
    let module = Module::from_assembly(&Engine::default(), "record.dvs", RECORD).unwrap();
    module.function(name).unwrap()
}

fn compiled(text: &str) -> Function {
    let module = Module::from_source(&Engine::default(), "test.dual", text).unwrap();
    module.functions().last().unwrap()
}

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone)]
struct Model {
    rate: f64,
    count: i64,
    on: bool,
    w: [f64; 2],
}

const MODEL: Model = Model { rate: 2.0, count: 3, on: true, w: [3.0, 4.0] };

#[test]
fn struct_is_argument_and_gradient() {
    let weighted = assembled("weighted");
    let (value, (model, xs)): (f64, (Model, Vec<f64>)) =
        weighted.value_and_grad_as(&(MODEL, [5.0, 6.0].as_slice())).unwrap();
    assert_eq!(value, 26.0);
    assert_eq!(model, Model { rate: 3.0, count: 0, on: false, w: [2.0, 5.0] });
    assert_eq!(xs, [4.0, 0.0]);
}

#[test]
fn discrete_parts_of_gradient_may_be_none_or_unit() {
    #[derive(Deserialize, PartialEq, Debug)]
    struct Gradient {
        rate: f32,
        count: Option<i64>,
        on: (),
        w: (f64, f64),
    }
    let (_, (model, _)): (f64, (Gradient, Vec<f64>)) =
        assembled("weighted").value_and_grad_as(&(MODEL, vec![5.0])).unwrap();
    assert_eq!(model, Gradient { rate: 3.0, count: None, on: (), w: (2.0, 5.0) });
}

#[test]
fn arguments_and_gradient_go_by_name_in_structs_and_maps() {
    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct All {
        xs: Vec<f64>,
        m: Model,
    }
    let all = All { xs: vec![5.0], m: MODEL };
    let (_, gradient): (f64, All) = assembled("weighted").value_and_grad_as(&all).unwrap();
    assert_eq!(gradient.xs, [4.0]);
    assert_eq!(gradient.m.rate, 3.0);

    let mult = compiled("def mult (x : Real) (y : Real) : Real = x * y");
    let (_, gradient): (f64, BTreeMap<String, f64>) =
        mult.value_and_grad_as(&BTreeMap::from([("y", 4.0), ("x", 3.0)])).unwrap();
    assert_eq!(gradient, BTreeMap::from([("x".to_owned(), 4.0), ("y".to_owned(), 3.0)]));
}

#[test]
fn structs_are_tuples_by_position() {
    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Point {
        x: f64,
        y: f64,
    }
    let norm = compiled("def norm (p : (Real, Real)) : Real = let (x, y) = p in x * x + y * y");
    let (value, (gradient,)): (f64, (Point,)) = norm.value_and_grad_as(&(Point { x: 3.0, y: 4.0 },)).unwrap();
    assert_eq!((value, gradient), (25.0, Point { x: 6.0, y: 8.0 }));
}

#[test]
fn results_become_tuples_arrays_and_json() {
    let echo = assembled("echo");
    #[derive(Serialize)]
    struct Flags {
        count: u8,
        rate: f32,
        on: bool,
    }
    let args = (Flags { count: 7, rate: 0.5, on: true }, vec![(1.5, 2), (2.5, 3)]);
    let out: (f64, u32, bool, Vec<(f64, i8)>) = echo.call_as(&args).unwrap();
    assert_eq!(out, (0.5, 7, true, vec![(1.5, 2), (2.5, 3)]));

    let json = serde_json::json!([{ "on": false, "rate": 1, "count": -1 }, []]);
    let out: serde_json::Value = echo.call_as(&json).unwrap();
    assert_eq!(out, serde_json::json!([1.0, -1, false, []]));
}

#[test]
fn places_are_named_when_arguments_dont_fit() {
    let echo = assembled("echo");
    let message = |args: serde_json::Value| echo.call_as::<serde_json::Value>(&args).unwrap_err().to_string();
    let model = serde_json::json!({ "rate": 1, "count": 2, "on": true });
    let cases = [
        (serde_json::json!([model, [[1, 2], [1, 2.5]]]), "argument points[1].1: expected Int, found a real (2.5)"),
        (serde_json::json!([model, [[1]]]), "argument points[0]: expected (Real, Int), found 1 parts"),
        (
            serde_json::json!([{ "rate": "x", "count": 2, "on": true }, []]),
            "argument m.rate: expected Real, found a string",
        ),
        (
            serde_json::json!([{ "rate": 1, "count": 2 }, []]),
            "argument m: expected { rate : Real, count : Int, on : Bool }, found no field `on`",
        ),
        (
            serde_json::json!([{ "rate": 1, "count": 2, "on": true, "off": 1 }, []]),
            "argument m: expected { rate : Real, count : Int, on : Bool }, found a field `off`",
        ),
        (
            serde_json::json!({ "m": model, "pts": [] }),
            "arguments: expected a field for each parameter (m, points), found a field `pts`",
        ),
        (
            serde_json::json!([model]),
            "expected 2 arguments (m : { rate : Real, count : Int, on : Bool }, points : Array (Real, Int)), found 1",
        ),
    ];
    for (args, expected) in cases {
        assert_eq!(message(args), expected);
    }
    let error = echo.call_as::<f64>(&1.0).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Serialize { .. }));
    assert!(error.to_string().contains("one argument `x` is the tuple `(x,)`"), "{error}");
}

#[test]
fn places_are_named_when_results_dont_fit() {
    let echo = assembled("echo");
    #[derive(Serialize)]
    struct Flags {
        rate: f64,
        count: i64,
        on: bool,
    }
    let args = (Flags { rate: 0.5, count: 300, on: true }, [(1.0, 2)]);
    let error = echo.call_as::<(f64, u8, bool, Vec<(f64, i64)>)>(&args).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Deserialize { place, .. } if place == ".1"), "{error}");
    let error = echo.call_as::<(f64, i64, bool, Vec<(f64, bool)>)>(&args).unwrap_err();
    assert!(error.to_string().starts_with("result at 3[0].1: "), "{error}");
    let error = echo.call_as::<(f64, i64)>(&args).unwrap_err();
    assert_eq!(error.to_string(), "result: there are 2 parts more than the host's type has");
}

#[test]
fn large_integers_are_no_reals_and_no_ints() {
    let mult = compiled("def mult (x : Real) (y : Real) : Real = x * y");
    assert_eq!(mult.call_as::<f64>(&(1_u64 << 53, 1)).unwrap(), 9007199254740992.0);
    assert!(mult.call_as::<f64>(&((1_i64 << 53) + 1, 1)).is_err());
    assert!(mult.call_as::<f64>(&(u64::MAX, 1)).is_err());
}

/// The engine, the module and the function of a failed call still work.
#[track_caller]
fn still_good(function: &Function, args: &[Value], value: f64) {
    assert_eq!(function.call(args).unwrap(), Value::Real(value));
}

#[test]
fn every_failure_leaves_the_engine_usable() {
    let f = compiled(
        "def f (xs : Array Real) (n : Int) : Real = loop acc = 0.0 for i < n do acc + xs[i - i / 2 * 2] * xs[0]",
    );
    let good = [vec![2.0, 3.0].into(), Value::Int(2)];
    still_good(&f, &good, 10.0);

    let args = |n: i64| [Value::Reals(vec![2.0]), Value::Int(n)];
    let error = f.value_and_grad(&args(2)).unwrap_err();
    assert!(matches!(&error.trap().unwrap().kind, TrapKind::IndexOutOfBounds { index: 1, len: 1 }));
    still_good(&f, &good, 10.0);

    assert!(matches!(f.call(&[Value::Null]).unwrap_err().kind(), ErrorKind::Argument(_)));
    still_good(&f, &good, 10.0);

    let tight: [(Limits, Limit); 3] = [
        (Limits { fuel: 1000, ..Limits::default() }, Limit::Fuel),
        (Limits { tape_bytes: 100_000, ..Limits::default() }, Limit::TapeBytes),
        (Limits { deadline: Some(Duration::ZERO), ..Limits::default() }, Limit::Deadline),
    ];
    for (limits, expected) in tight {
        let long = [vec![2.0, 3.0].into(), Value::Int(1_000_000)];
        let error = f.value_and_grad_with(&long, &CallOptions::with_limits(limits)).unwrap_err();
        assert!(error.is_limit() && error.is_trap() && !error.is_cancelled());
        assert_eq!(error.trap().unwrap().kind, TrapKind::Limit(expected));
        still_good(&f, &good, 10.0);
    }
}

#[test]
fn depth_is_limited_by_the_engine_or_the_call() {
    let mut config = Config::default();
    config.limits.depth = 100;
    let text = "def sum (n : Int) : Real = if n == 0 then 0.0 else 1.0 + sum (n - 1)";
    let module = Module::from_source(&Engine::new(config), "sum.dual", text).unwrap();
    let sum = module.function("sum").unwrap();
    assert_eq!(sum.call_as::<f64>(&(50,)).unwrap(), 50.0);
    let error = sum.call_as::<f64>(&(1000,)).unwrap_err();
    assert_eq!(error.trap().unwrap().kind, TrapKind::Limit(Limit::Depth));
    let options = CallOptions::with_limits(Limits::default());
    assert_eq!(sum.call_as_with::<f64>(&(100_000,), &options).unwrap().0, 100_000.0);
}

#[test]
fn another_thread_cancels_a_run() {
    let f = compiled("def f (x : Real) : Real = loop y = x while y < 1e300 do (y + x) / 2");
    for gradient in [false, true] {
        let handle = CancelHandle::new();
        let options = CallOptions::default().cancelled_by(&handle);
        let began = Instant::now();
        let error = std::thread::scope(|scope| {
            let run = scope.spawn(|| match gradient {
                false => f.call_with(&[1.0.into()], &options).unwrap_err(),
                true => f.value_and_grad_with(&[1.0.into()], &options).unwrap_err(),
            });
            std::thread::sleep(Duration::from_millis(30));
            handle.cancel();
            run.join().unwrap()
        });
        assert!(error.is_cancelled() && !error.is_limit());
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(f.call_as::<f64>(&(1e301,)).unwrap(), 1e301);
}

#[test]
fn compiling_has_limits_and_can_be_cancelled() {
    let (engine, text) = (Engine::default(), "def f (x : Real) : Real = x * x");
    let options = CompileOptions::with_limits(CompileLimits::untrusted());
    let module = Module::from_source_with(&engine, "f.dual", text, &options).unwrap();
    assert_eq!(module.def(), Module::from_source(&engine, "f.dual", text).unwrap().def());

    let limits = CompileLimits { syntax_nodes: 5, ..CompileLimits::default() };
    let options = CompileOptions::with_limits(limits);
    let handle = CancelHandle::new();
    handle.cancel();
    let cancelled = CompileOptions::default().cancelled_by(&handle);
    let load = |options| Module::load_with(&engine, "f.dual", text.as_bytes(), options).unwrap_err();
    let from_source = |options| Module::from_source_with(&engine, "f.dual", text, options).unwrap_err();
    let read = |options| read_def_with("f.dual", text.as_bytes(), options).unwrap_err();
    for error in [load(&options), from_source(&options), read(&options)] {
        assert!(error.is_limit() && !error.is_cancelled() && !error.is_trap(), "{error}");
        assert!(error.to_string().contains("f.dual:1:"), "{error}");
    }
    for error in [load(&cancelled), from_source(&cancelled), read(&cancelled)] {
        assert!(error.is_cancelled() && !error.is_limit() && !error.is_trap(), "{error}");
    }
    let wrong = Module::from_source(&engine, "f.dual", "def f = y").unwrap_err();
    assert!(!wrong.is_limit() && !wrong.is_cancelled());
}

#[test]
fn four_threads_share_one_function() {
    let f = compiled("def f (x : Real) (n : Int) : Real = loop acc = 0.0 for i < n do acc + sin (x * acc + x)");
    let expected: Vec<(f64, (f64, ()))> =
        (0..4).map(|t| f.value_and_grad_as(&(f64::from(t) * 0.1, 2000)).unwrap()).collect();
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for (t, expected) in (0..4).zip(&expected) {
            let (f, barrier) = (&f, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..50 {
                    let found: (f64, (f64, ())) = f.value_and_grad_as(&(f64::from(t) * 0.1, 2000)).unwrap();
                    assert_eq!(found.0.to_bits(), expected.0.to_bits());
                    assert_eq!(found.1.0.to_bits(), expected.1.0.to_bits());
                    if round % 10 == 3 {
                        let limits = Limits { fuel: 100, ..Limits::default() };
                        let options = CallOptions::with_limits(limits);
                        assert!(f.call_with(&[1.0.into(), Value::Int(2000)], &options).unwrap_err().is_limit());
                    }
                }
            });
        }
    });
}

#[test]
fn gradient_of_what_is_not_one_real_is_refused() {
    let f = compiled("def f (x : Real) = (x, x)");
    let error = f.value_and_grad(&[1.0.into()]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotScalar { .. }));
    let expected = "`f` returns (Real, Real); a gradient needs a function that returns one Real \
                    (define one that picks or sums a part of the result)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn unknown_and_private_functions_are_told_apart() {
    let module = Module::from_assembly(&Engine::default(), "record.dvs", RECORD).unwrap();
    let message = |name: &str| module.function(name).unwrap_err().to_string();
    assert_eq!(message("wieghted"), "there is no function `wieghted`; did you mean `weighted`?");
    assert_eq!(message("zzz"), "there is no function `zzz`");
    assert_eq!(message("hidden"), "function `hidden` can't be called by a host: it is not exported");
}

#[test]
fn modules_of_all_kinds_are_loaded_by_content() {
    let engine = Engine::default();
    let binary = Module::from_assembly(&engine, "record.dvs", RECORD).unwrap().to_binary().unwrap();
    let source = "-- comment\ndef f (x : Real) = x";
    for name in ["a.dual", "a.dvs", "a.dvbc", "a", ""] {
        assert_eq!(Module::load(&engine, name, RECORD.as_bytes()).unwrap().functions().count(), 2, "{name}");
        assert_eq!(Module::load(&engine, name, &binary).unwrap().functions().count(), 2, "{name}");
        assert_eq!(Module::load(&engine, name, source.as_bytes()).unwrap().functions().count(), 1, "{name}");
    }
    assert_eq!(FileKind::detect("a.dual", b"type t0 = array real"), FileKind::Assembly);
    assert_eq!(FileKind::detect("a.dvs", b"fnuc f0"), FileKind::Assembly);
    assert_eq!(FileKind::detect("a.dvbc", b"\xff\xfe"), FileKind::Binary);
    assert_eq!(FileKind::detect("a.txt", b"; only a comment"), FileKind::Source);
}

#[test]
fn assembly_round_trips() {
    let engine = Engine::default();
    let module = Module::from_assembly(&engine, "record.dvs", RECORD).unwrap();
    let again = Module::from_assembly(&engine, "record.dvs", &module.to_assembly()).unwrap();
    assert_eq!(again.def(), module.def());
    let again = Module::from_binary(&engine, &module.to_binary().unwrap()).unwrap();
    assert_eq!(again.def(), module.def());
}

#[test]
fn errors_are_small_and_their_debug_is_readable() {
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    let error = Module::from_source(&Engine::default(), "f.dual", "def f (x : Real) = sqr x").unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
}

const DATA: &str = include_str!("data/data.dual");

fn data_function(name: &str) -> Function {
    Module::from_source(&Engine::default(), "data.dual", DATA).unwrap().function(name).unwrap()
}

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone)]
enum Shape {
    Circle(f64),
    Rect { width: f64, height: f64 },
    Nil,
}

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone)]
enum Expr {
    Num(f64),
    Add(Box<Expr>, Box<Expr>),
    Neg { inner: Box<Expr> },
    Times(i64, Box<Expr>),
}

/// `x + 3 · -y`, or of its shape.
fn expression(x: f64, n: i64, y: f64) -> Expr {
    let inner = Box::new(Expr::Num(y));
    Expr::Add(Box::new(Expr::Num(x)), Box::new(Expr::Times(n, Box::new(Expr::Neg { inner }))))
}

#[test]
fn recursive_enum_is_argument_result_and_gradient() {
    let (value, (gradient,)): (f64, (Expr,)) =
        data_function("eval").value_and_grad_as(&(expression(2.0, 3, -1.0),)).unwrap();
    assert_eq!((value, gradient), (1.0, expression(4.0, 0, 6.0)));
    let negated: Expr = data_function("negate_all").call_as(&(expression(2.0, 3, -1.0),)).unwrap();
    assert_eq!(negated, expression(-2.0, 3, 1.0));
}

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone)]
struct Point {
    at: f64,
    mass: i64,
}

#[test]
fn lists_records_and_tuples_are_arguments_results_and_gradients() {
    let shapes = vec![Shape::Circle(1.0), Shape::Nil, Shape::Rect { width: 5.0, height: 2.0 }];
    let (value, (gradient,)): (f64, (Vec<Shape>,)) = data_function("total").value_and_grad_as(&(&shapes,)).unwrap();
    let expected = vec![Shape::Circle(6.0), Shape::Nil, Shape::Rect { width: 2.0, height: 5.0 }];
    assert_eq!((value, gradient), (13.0, expected));

    let points = vec![Point { at: 1.0, mass: 2 }, Point { at: -0.5, mass: 1 }];
    let (_, (gradient,)): (f64, (Vec<Point>,)) = data_function("energy").value_and_grad_as(&(&points,)).unwrap();
    assert_eq!(gradient, [Point { at: 2.0, mass: 0 }, Point { at: -1.0, mass: 0 }]);

    type Nested = ((f64, i64), (f64, (f64, bool)));
    let p: Nested = ((2.0, 7), (3.0, (5.0, true)));
    let (value, (gradient,)): (f64, (Nested,)) = data_function("nested").value_and_grad_as(&(p,)).unwrap();
    assert_eq!((value, gradient), (30.0, ((15.0, 0), (10.0, (6.0, false)))));

    type All = (Vec<Shape>, Vec<Point>, ((f64, i64), f64), Vec<f64>);
    let all: All = (shapes, points, ((1.0, 2), 3.0), vec![0.5, 1.5]);
    let echoed: All = data_function("echo").call_as(&all).unwrap();
    assert_eq!(echoed, all);
    let json = serde_json::to_value(&all).unwrap();
    assert_eq!(data_function("echo").call_as::<serde_json::Value>(&json).unwrap(), json);
}

#[test]
fn enums_that_dont_fit_are_refused_with_their_place() {
    #[derive(Serialize, Deserialize, Debug)]
    enum Other {
        Circle { radius: f64 },
        Rect(f64, f64),
        Square(f64),
        Nil(f64),
    }
    let total = data_function("total");
    let message = |shape: Other| total.call_as::<f64>(&([shape],)).unwrap_err().to_string();
    let cases = [
        (Other::Circle { radius: 1.0 }, "argument shapes[0].0: expected Real, found a struct"),
        (Other::Rect(1.0, 2.0), "argument shapes[0]: `Rect` takes { width : Real, height : Real }, found a sequence"),
        (Other::Square(1.0), "argument shapes[0]: no constructor `Square` in `Shape`; it has Circle, Rect, Nil"),
        (Other::Nil(1.0), "argument shapes[0]: `Nil` takes (), found a real (1.0)"),
    ];
    for (shape, expected) in cases {
        assert_eq!(message(shape), expected);
    }
    let echo = |shape: Shape| {
        let args = ([shape], [Point { at: 0.0, mass: 0 }], ((1.0, 2), 3.0), [0.5]);
        type Out = (Vec<Other>, Vec<Point>, ((f64, i64), f64), Vec<f64>);
        data_function("echo").call_as::<Out>(&args).unwrap_err().to_string()
    };
    assert!(echo(Shape::Circle(1.0)).starts_with("result at 0[0].0: "), "{}", echo(Shape::Circle(1.0)));
    assert!(echo(Shape::Nil).starts_with("result at 0[0]: "), "{}", echo(Shape::Nil));
}

#[test]
fn deep_enums_cross_up_to_the_bound() {
    const STEPS: usize = dualvm::vm::value::VALUE_DEPTH_MAX;
    let chain =
        |negations: usize, x: f64| (0..negations).fold(Expr::Num(x), |inner, _| Expr::Neg { inner: Box::new(inner) });
    let (eval, negate_all) = (data_function("eval"), data_function("negate_all"));
    let deep = chain(STEPS - 1, 2.0);
    assert!(negate_all.call_as::<Expr>(&(&deep,)).unwrap() == chain(STEPS - 1, -2.0));
    let (value, (gradient,)): (f64, (Expr,)) = eval.value_and_grad_as(&(&deep,)).unwrap();
    assert!(value == -4.0 && gradient == chain(STEPS - 1, -4.0));
    let error = eval.call_as::<f64>(&(chain(STEPS, 2.0),)).unwrap_err();
    assert_eq!(error.to_string(), "argument e: expected at most 640 levels of nesting, found more");
    let text = "type Expr = Num Real | Neg Expr
        def deep (n : Int) : Expr = loop e = Num 1 for i < n do Neg e";
    let error = compiled(text).call_as::<Expr>(&(1000,)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ResultDepth { .. }), "{error}");
}

#[test]
fn functions_with_functions_in_their_types_say_why_they_cant_be_called() {
    let module = Module::from_source(&Engine::default(), "data.dual", DATA).unwrap();
    let error = module.function("apply").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unexported(unexported) if unexported.name == "apply"));
    let expected = "`apply` takes a function (`f : Real -> Real`), which can't cross the border between host and program; \
                    its type is `(Real -> Real) -> Real -> Real`";
    assert_eq!(error.to_string(), expected);
}
