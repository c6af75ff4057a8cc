//! Flat calls: value, gradient and products with cotangents are those of calls with values, to the last bit, in every
//! example that is flat, interpreted and compiled; what doesn't fit is refused with its place; limits and traps are
//! those of other calls; and a frame may be used by anything, one after the other.

#[path = "support/flat_calls.rs"]
mod flat_calls;
mod support;

use dualvm::flat::{CotangentError, LeafKind};
use dualvm::vm::engine::RunError;
use dualvm::{CallFrame, CallOptions, CancelHandle, Config, Engine, ErrorKind, FlatFunction, FlatValue, Jit, Limits};
use dualvm::{Function, Module, Value};
use flat_calls::{argument, assert_alike, limits};
use std::path::Path;
use std::time::Duration;
use support::{assert_close, same};

fn engines() -> Vec<Engine> {
    let engine = |(jit, threads)| {
        let mut config = Config::default();
        (config.jit, config.threads) = (jit, threads);
        Engine::new(config)
    };
    [(Jit::Off, 1), (Jit::Always, 1), (Jit::Off, 3), (Jit::Always, 3)].into_iter().map(engine).collect()
}

fn module(engine: &Engine, text: &str) -> Module {
    Module::from_source(engine, "test.dual", text).unwrap_or_else(|error| panic!("{error}"))
}

fn flat(text: &str, name: &str) -> FlatFunction {
    flat_on(&Engine::default(), text, name)
}

fn flat_on(engine: &Engine, text: &str, name: &str) -> FlatFunction {
    let function = module(engine, text).function(name).unwrap_or_else(|error| panic!("{error}"));
    function.flat().unwrap_or_else(|error| panic!("{error}"))
}

/// Functions that search for a minimum. For fewer points than unknowns the Hessian there is singular, and what the
/// solution of its system gives, times a matrix that is 0 in the same directions, is rounding.
const SEARCHES: [&str; 2] = ["fitted_pose", "camera_pose"];

#[test]
fn flat_calls_of_the_examples_are_calls_with_values() {
    let engines = engines();
    let mut frames: Vec<CallFrame> = engines.iter().map(|_| CallFrame::new()).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut files: Vec<_> =
        std::fs::read_dir(root).expect("there are examples").map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut count = 0;
    for path in files {
        let bytes = std::fs::read(&path).expect("examples can be read");
        for (engine, frame) in engines.iter().zip(&mut frames) {
            let module =
                Module::load(engine, &path.to_string_lossy(), &bytes).unwrap_or_else(|error| panic!("{error}"));
            let is_compared = |function: &Function| function.flat().is_ok() && !SEARCHES.contains(&function.name());
            for function in module.functions().filter(is_compared) {
                count += 1;
                for variant in 0..6 {
                    let params = &function.interface().params;
                    let mut next = 0;
                    let args: Vec<Value> = params.iter().map(|(_, ty)| argument(ty, variant, &mut next)).collect();
                    assert_alike(&function, frame, &args, &limits());
                }
            }
        }
    }
    assert!(count / engines.len() > 40, "{count} functions on {} engines", engines.len());
}

/// Every kind of leaf, in parameters and results, alone and in parts.
const SHAPES: &str = "
    alias Body = { mass : Real, at : (Real, Real), on : Bool }
    def body (b : Body) (k : Real) : Body =
      let (x, y) = b.at in { mass = k * b.mass, at = (y * k, x * b.mass), on = not b.on }
    def arrays (xs : Array Real) (ns : Array Int) (bs : Array Bool) =
      ([| x * x for x in xs |], [| 2 * n for n in ns |], [| not b for b in bs |], sum xs)
    def lists (xs : List Real) (ns : List Int) (bs : List Bool) =
      (map (\\x -> x * sum xs) xs, map (\\n -> n + 1) ns, map not bs, length xs)
    def mixed (n : Int) (p : (Real, (Array Real, Bool))) (xs : List Real) =
      let (k, (ys, on)) = p in ((n + 1, if on then k else 2.0), ys, (map (\\x -> k * x) xs, xs), sum ys)
    def matrices (m : Matrix Real) (n : Matrix Int) (k : Real) =
      ([| k * m[i, j] for i < rows m, j < columns m |], transpose n, sum (elements m), m)
    def tensors (t : Tensor3 Real) (p : (Matrix (Real, Real), { flags : Matrix Bool })) =
      (t, p, sum [| x * x for x in elements t |])
    def inner (m : Matrix Real) (n : Int) : Real = sum [| x * x for x in elements m |] + to_real n
    def twice (x : Real) (xs : Array Real) = (x, x, xs, xs)
    def constants (x : Real) (y : Real) = (1.5, x, [| 2.0, 3.0 |], [4.0])
    def unused (x : Real) (y : Real) (xs : Array Real) : Real = x * 3
    def nothing (x : Real) : Int = 7
    def unit (x : Real) = ()
    def none : Real = 2.5
    def tasks (xs : Array Real) (k : Real) = (pmap (\\x -> sin (k * x)) xs, par (k * k, sum xs))
    def pieces (x : Real) =
      let (a, b) = [| x * to_real i for i < 3 |] |*| [| sin x, x * x |] in (a, b, [x, 1.0, x])";

fn shapes(engine: &Engine) -> Module {
    module(engine, SHAPES)
}

#[test]
fn flat_calls_with_every_kind_of_leaf_are_calls_with_values() {
    for engine in engines() {
        let mut frame = CallFrame::new();
        for function in shapes(&engine).functions() {
            let params = &function.interface().params;
            for variant in 0..8 {
                let mut next = 0;
                let args: Vec<Value> = params.iter().map(|(_, ty)| argument(ty, variant, &mut next)).collect();
                assert_alike(&function, &mut frame, &args, &limits());
            }
        }
    }
}

#[test]
fn derivatives_by_some_parameters_only_are_those_of_calls_with_values() {
    for engine in engines() {
        let (mut frame, module) = (CallFrame::new(), shapes(&engine));
        for (name, params) in [("arrays", &["xs"][..]), ("mixed", &["p"]), ("inner", &["m"]), ("unused", &["y", "xs"])]
        {
            let function = module.function(name).and_then(|function| function.wrt(params));
            let function = function.unwrap_or_else(|error| panic!("{error}"));
            for variant in 0..4 {
                let mut next = 0;
                let args: Vec<Value> =
                    function.interface().params.iter().map(|(_, ty)| argument(ty, variant, &mut next)).collect();
                assert_alike(&function, &mut frame, &args, &limits());
            }
        }
    }
}

#[test]
fn tangents_that_do_not_fit_are_refused_with_their_place() {
    let text = "def f (xs : Array Real) (n : Int) (p : (Real, Real)) : Real = let (x, y) = p in x * y * xs[n]";
    let f = flat(text, "f");
    let (mut frame, xs) = (CallFrame::new(), [1.0, 2.0]);
    let args = [FlatValue::from(&xs), 1.into(), 3.0.into(), 4.0.into()];
    let refused = |tangents: &[FlatValue<'_>], frame: &mut CallFrame| {
        let jvp = f.jvp(frame, &args, tangents).map(|_| ()).unwrap_err().to_string();
        let hvp = f.hvp(frame, &args, tangents).map(|_| ()).unwrap_err().to_string();
        assert_eq!(jvp, hvp);
        assert!(frame.results().is_none() && frame.tangents().is_none() && frame.product().is_none());
        jvp
    };
    let (one, null) = (FlatValue::Real(1.0), FlatValue::Null);
    let expected = "expected 4 tangents (xs, n, p.0, p.1), found 1";
    assert_eq!(refused(&[one], &mut frame), expected);
    let found = refused(&[FlatValue::from(&[1.0]), null, one, one], &mut frame);
    assert_eq!(found, "tangent of xs: expected 2 reals, found 1 real");
    let found = refused(&[FlatValue::from(&xs), one, one, one], &mut frame);
    assert_eq!(found, "tangent of n: expected null, because it is discrete, found a real (1.0)");
    let found = refused(&[FlatValue::from(&xs), null, one, null], &mut frame);
    assert_eq!(found, "tangent of p.1: expected a real, found null");
    let wrong = f.jvp(&mut frame, &args[..3], &[one]).map(|_| ()).unwrap_err();
    assert!(matches!(wrong, RunError::Argument(_)));

    let (value, _, product) =
        f.hvp(&mut frame, &args, &[FlatValue::from(&[0.0, 1.0]), null, one, FlatValue::Real(0.0)]).unwrap();
    assert_eq!((value, product.reals()), (24.0, &[0.0, 4.0, 4.0, 5.0][..]));
    let constant = flat_wrt(text, "f", &["xs"]);
    let found = constant.jvp(&mut frame, &args, &[FlatValue::from(&xs), null, one, null]).map(|_| ()).unwrap_err();
    assert_eq!(found.to_string(), "tangent of p.0: expected null, because it is constant, found a real (1.0)");
}

fn flat_wrt(text: &str, name: &str, params: &[&str]) -> FlatFunction {
    let function = module(&Engine::default(), text).function(name).and_then(|function| function.wrt(params));
    function.and_then(|function| function.flat()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn numbers_that_are_not_finite_pass_unchanged() {
    let text = "def f (x : Real) (xs : Array Real) = (x * 2, xs, x / (x - x))
                def g (x : Real) (y : Real) : Real = x / y + 0 * y";
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 5e-324, f64::MAX];
    for engine in engines() {
        let (module, mut frame) = (module(&engine, text), CallFrame::new());
        for &x in &odd {
            let function = module.function("f").unwrap();
            assert_alike(&function, &mut frame, &[x.into(), odd.to_vec().into()], &limits());
            for &y in &odd {
                assert_alike(&module.function("g").unwrap(), &mut frame, &[x.into(), y.into()], &limits());
            }
        }
        let f = module.function("f").unwrap().flat().unwrap();
        // Cotangents, too. What does not depend on them is not touched by them.
        let args = [FlatValue::Real(3.0), (&odd).into()];
        let cotangents = [FlatValue::Real(f64::INFINITY), (&odd).into(), FlatValue::Real(0.0)];
        let (_, gradient) = f.vjp(&mut frame, &args, &cotangents).unwrap();
        assert_eq!(gradient.get(0), Some(FlatValue::Real(f64::INFINITY)));
        let by_xs = gradient.get(1).and_then(FlatValue::as_reals).unwrap();
        assert!(by_xs.iter().zip(&odd).all(|(&found, &expected)| found == expected || same(found, expected)));
    }
}

#[test]
fn the_signature_says_what_a_call_takes_and_gives() {
    let function = shapes(&Engine::default()).function("mixed").unwrap();
    let mixed = function.flat().unwrap();
    let described = |leaves: &[dualvm::flat::Leaf]| {
        let leaf = |leaf: &dualvm::flat::Leaf| (mixed.place(leaf), leaf.kind(), leaf.parameter());
        leaves.iter().map(leaf).collect::<Vec<_>>()
    };
    let place = |name: &str, kind, parameter| (name.to_owned(), kind, parameter);
    assert_eq!(
        described(mixed.params()),
        [
            place("n", LeafKind::Int, Some(0)),
            place("p.0", LeafKind::Real, Some(1)),
            place("p.1.0", LeafKind::Reals, Some(1)),
            place("p.1.1", LeafKind::Bool, Some(1)),
            place("xs", LeafKind::Reals, Some(2)),
        ]
    );
    assert_eq!(
        described(mixed.results()),
        [
            place("result.0.0", LeafKind::Int, None),
            place("result.0.1", LeafKind::Real, None),
            place("result.1", LeafKind::Reals, None),
            place("result.2.0", LeafKind::Reals, None),
            place("result.2.1", LeafKind::Reals, None),
            place("result.3", LeafKind::Real, None),
        ]
    );
    let body = shapes(&Engine::default()).function("body").unwrap().flat().unwrap();
    let places: Vec<String> = body.params().iter().map(|leaf| body.place(leaf)).collect();
    assert_eq!(places, ["b.at.0", "b.at.1", "b.mass", "b.on", "k"], "by name, as in the type");
}

#[test]
fn what_is_not_flat_is_refused_with_its_place() {
    let text = "type Shape = Dot | Circle Real
        def rows (m : Array (Array Real)) : Int = length m
        def pairs (k : Real) (p : (Int, { at : Array (Real, Int) })) : Real = k
        def shapes (n : Int) (s : Shape) : Real = 1
        def nested (x : Real) = (x, [[x]])";
    let module = module(&Engine::default(), text);
    for (name, place, found) in [
        ("rows", "parameter m", "Array (Array Real)"),
        ("pairs", "parameter p.1.at", "Array (Real, Int)"),
        ("shapes", "parameter s", "Shape"),
        ("nested", "result.1", "List (List Real)"),
    ] {
        let error = module.function(name).unwrap().flat().unwrap_err();
        let ErrorKind::NotFlat(not) = error.kind() else { panic!("{error}") };
        assert_eq!((not.function(), not.place(), not.found().to_string().as_str()), (name, place, found));
        let expected = format!(
            "{place} of `{name}` is not flat: expected Real, Int, Bool, an array or a list of one of these, an array \
             of tuples of one of these, a matrix or a tensor of what an array may be of, or a tuple or a record of \
             such, found {found}"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused_with_their_place() {
    let mixed = flat_on(&Engine::default(), SHAPES, "mixed");
    let arrays = flat_on(&Engine::default(), SHAPES, "arrays");
    let mut frame = CallFrame::new();
    let good = [2.into(), 3.0.into(), (&[1.0]).into(), true.into(), (&[4.0, 5.0]).into()];
    let mut refused = |function: &FlatFunction, args: &[FlatValue<'_>]| {
        let error = function.call(&mut frame, args).map(|_| ()).unwrap_err();
        assert!(matches!(error, RunError::Argument(_)), "{error}");
        assert_eq!(function.record(&mut frame, args).map(|_| ()).unwrap_err(), error);
        assert!(frame.results().is_none() && frame.recorded().is_none() && frame.gradient().is_none());
        error.to_string()
    };
    assert_eq!(
        refused(&mixed, &good[..4]),
        "expected 5 arguments (n : Int, p.0 : Real, p.1.0 : Array Real, p.1.1 : Bool, xs : List Real), found 4"
    );
    for (n, wrong, message) in [
        (0, FlatValue::Real(2.0), "argument n: expected Int, found a real (2.0)"),
        (1, FlatValue::Int(3), "argument p.0: expected Real, found an integer (3)"),
        (1, FlatValue::Reals(&[3.0]), "argument p.0: expected Real, found 1 real"),
        (2, FlatValue::Ints(&[1, 2]), "argument p.1.0: expected Array Real, found 2 integers"),
        (3, FlatValue::Int(2), "argument p.1.1: expected Bool, found an integer (2)"),
        (3, FlatValue::Int(-1), "argument p.1.1: expected Bool, found an integer (-1)"),
        (4, FlatValue::Real(1.0), "argument xs: expected List Real, found a real (1.0)"),
        (4, FlatValue::Null, "argument xs: expected List Real, found null"),
    ] {
        let mut args = good;
        args[n] = wrong;
        assert_eq!(refused(&mixed, &args), message);
    }
    assert_eq!(
        refused(&arrays, &[(&[1.0]).into(), (&[1]).into(), (&[0, 1, 7]).into()]),
        "argument bs[2]: expected Bool, found an integer (7)"
    );
    assert!(mixed.call(&mut frame, &good).is_ok());
}

#[test]
fn cotangents_that_do_not_fit_are_refused_and_the_run_stays() {
    let mixed = flat_on(&Engine::default(), SHAPES, "mixed");
    let args = [2.into(), 3.0.into(), (&[1.0]).into(), true.into(), (&[4.0, 5.0]).into()];
    let mut frame = CallFrame::new();
    let mut recorded = mixed.record(&mut frame, &args).unwrap();
    let good = [FlatValue::Null, 1.0.into(), (&[1.0]).into(), (&[1.0, 1.0]).into(), (&[0.5, 0.5]).into(), 2.0.into()];
    let mut refused = |cotangents: &[FlatValue<'_>]| match recorded.pullback(cotangents).map(|_| ()).unwrap_err() {
        RunError::Cotangent(error) => error,
        other => panic!("{other}"),
    };
    let error = refused(&good[..5]);
    assert!(matches!(&error, CotangentError::Count { expected, found: 5 } if expected.len() == 6));
    let places = "result.0.0, result.0.1, result.1, result.2.0, result.2.1, result.3";
    assert_eq!(error.to_string(), format!("expected 6 cotangents ({places}), found 5"));
    for (n, wrong, message) in [
        (0, FlatValue::Int(1), "cotangent of result.0.0: expected null, because it is discrete, found an integer (1)"),
        (0, FlatValue::Real(1.0), "cotangent of result.0.0: expected null, because it is discrete, found a real (1.0)"),
        (1, FlatValue::Null, "cotangent of result.0.1: expected a real, found null"),
        (2, FlatValue::Real(1.0), "cotangent of result.1: expected reals, found a real (1.0)"),
        (2, FlatValue::Reals(&[1.0, 2.0]), "cotangent of result.1: expected 1 real, found 2"),
        (3, FlatValue::Reals(&[]), "cotangent of result.2.0: expected 2 reals, found 0"),
        (4, FlatValue::Ints(&[1, 2]), "cotangent of result.2.1: expected reals, found 2 integers"),
    ] {
        let mut cotangents = good;
        cotangents[n] = wrong;
        assert_eq!(refused(&cotangents).to_string(), message);
    }
    let gradient = recorded.pullback(&good).unwrap();
    let found: Vec<FlatValue<'_>> = gradient.iter().collect();
    // k: 1, and Σ x of the list; ys: itself and the sum, twice; xs: k and itself.
    let by_xs = [3.5, 3.5];
    let expected = [FlatValue::Null, 10.0.into(), (&[3.0]).into(), FlatValue::Null, (&by_xs).into()];
    assert_eq!(found, expected);
    assert_eq!(gradient.reals(), [10.0, 3.0, 3.5, 3.5]);
    let error = mixed.vjp(&mut frame, &args, &[]).map(|_| ()).unwrap_err();
    assert!(matches!(error, RunError::Cotangent(CotangentError::Count { found: 0, .. })));
    let error = mixed.value_and_grad(&mut frame, &args).map(|_| ()).unwrap_err();
    assert!(matches!(error, RunError::NotScalar { .. }));
}

#[test]
fn what_nothing_depends_on_has_the_derivative_zero() {
    for engine in engines() {
        let mut frame = CallFrame::new();
        let unused = flat_on(&engine, SHAPES, "unused");
        let (value, gradient) =
            unused.value_and_grad(&mut frame, &[2.0.into(), 5.0.into(), (&[1.0, 2.0]).into()]).unwrap();
        assert_eq!((value, gradient.reals()), (6.0, &[3.0, 0.0, 0.0, 0.0][..]));
        let constants = flat_on(&engine, SHAPES, "constants");
        let cotangents = [9.0.into(), FlatValue::Real(0.0), (&[1.0, 1.0]).into(), (&[1.0]).into()];
        let (_, gradient) = constants.vjp(&mut frame, &[2.0.into(), 5.0.into()], &cotangents).unwrap();
        assert_eq!(gradient.reals(), [0.0, 0.0]);
        let nothing = flat_on(&engine, SHAPES, "nothing");
        let (results, gradient) = nothing.vjp(&mut frame, &[2.0.into()], &[FlatValue::Null]).unwrap();
        assert_eq!((results.get(0), gradient.get(0)), (Some(FlatValue::Int(7)), Some(FlatValue::Real(0.0))));
        assert_eq!((results.get(1), gradient.get(1)), (None, None));
        let none = flat_on(&engine, SHAPES, "none");
        let (value, gradient) = none.value_and_grad(&mut frame, &[]).unwrap();
        assert_eq!((value, gradient.reals(), gradient.iter().len()), (2.5, &[][..], 0));
    }
}

#[test]
fn cotangents_of_one_slot_add_up() {
    for engine in engines() {
        let (twice, mut frame) = (flat_on(&engine, SHAPES, "twice"), CallFrame::new());
        let args = [3.0.into(), (&[1.0, 2.0]).into()];
        let cotangents = [0.25.into(), 4.0.into(), (&[1.0, 2.0]).into(), (&[10.0, 20.0]).into()];
        let (_, gradient) = twice.vjp(&mut frame, &args, &cotangents).unwrap();
        assert_eq!(gradient.reals(), [4.25, 11.0, 22.0]);
    }
}

#[test]
fn a_run_is_pulled_back_as_often_as_one_likes() {
    let f = flat("def f (x : Real) (y : Real) = (x * y, sin x)", "f");
    let mut frame = CallFrame::new();
    let mut recorded = f.record(&mut frame, &[2.0.into(), 5.0.into()]).unwrap();
    for w in [1.0, 0.0, -3.5] {
        let gradient = recorded.pullback(&[w.into(), 2.0.into()]).unwrap();
        assert_close(gradient.reals()[0], 5.0 * w + 2.0 * 2f64.cos(), 1e-15);
        assert_eq!(gradient.reals()[1], 2.0 * w);
    }
    // And later, by whoever has the frame.
    assert_eq!(frame.results().unwrap().get(0), Some(FlatValue::Real(10.0)));
    assert_eq!(frame.gradient().unwrap().reals()[1], -7.0);
    let gradient = frame.recorded().unwrap().pullback(&[1.0.into(), 0.0.into()]).map(|by| by.reals().to_vec());
    assert_eq!(gradient.unwrap(), [5.0, 2.0]);
    f.call(&mut frame, &[2.0.into(), 5.0.into()]).unwrap();
    assert!(frame.results().is_some() && frame.recorded().is_none() && frame.gradient().is_none());
}

#[test]
fn traps_and_limits_are_those_of_other_calls() {
    let text = "def at (xs : Array Real) (n : Int) : Real = 2 * xs[n]
        def power (n : Int) (x : Real) : Real = loop y = 1.0 for i < n do y * x
        def deep (n : Int) (x : Real) : Real = if n == 0 then x else x + deep (n - 1) x
        def long (n : Int) (x : Real) : Real = let xs = [| x * to_real i for i < n |] in sum xs";
    for engine in engines() {
        let (module, mut frame) = (module(&engine, text), CallFrame::new());
        let function = |name: &str| module.function(name).unwrap();
        assert_alike(&function("at"), &mut frame, &[vec![1.0].into(), Value::Int(1)], &limits());
        for (name, n) in [("power", 1000), ("deep", 500), ("long", 3000)] {
            let args = [Value::Int(n), Value::Real(1.01)];
            let used = function(name).value_and_grad_with(&args, &CallOptions::default()).unwrap().stats;
            for fuel in [0, 1, used.instructions - 1, used.instructions] {
                assert_alike(&function(name), &mut frame, &args, &Limits { fuel, ..Limits::default() });
            }
            for depth in [0, 1, 400, 501] {
                assert_alike(&function(name), &mut frame, &args, &Limits { depth, ..Limits::default() });
            }
            for bytes in [0, 1000, used.allocated_bytes.saturating_sub(1), used.allocated_bytes, 1 << 20] {
                assert_alike(&function(name), &mut frame, &args, &Limits { allocated_bytes: bytes, ..limits() });
                assert_alike(&function(name), &mut frame, &args, &Limits { live_bytes: bytes, ..limits() });
                assert_alike(&function(name), &mut frame, &args, &Limits { tape_bytes: bytes, ..limits() });
            }
        }
        // What a run records for later has a copy of a long array, other runs have none.
        let (at, xs) = (function("at"), vec![1.0; 100_000]);
        let (values, args) = ([xs.clone().into(), Value::Int(1)], [(&xs).into(), 1.into()]);
        for (live_bytes, fits, fits_twice) in [(100, false, false), (400_000, true, false), (10_000_000, true, true)] {
            let options = CallOptions::with_limits(Limits { live_bytes, ..limits() });
            *frame.options_mut() = options.clone();
            assert_eq!(at.call_with(&values, &options).is_ok(), fits, "{live_bytes}");
            assert_eq!(at.flat().unwrap().call(&mut frame, &args).is_ok(), fits, "{live_bytes}");
            assert_eq!(at.flat().unwrap().record(&mut frame, &args).is_ok(), fits_twice, "{live_bytes}");
            *frame.options_mut() = options.copying_arguments();
            assert_eq!(at.flat().unwrap().call(&mut frame, &args).is_ok(), fits_twice, "{live_bytes}");
        }
    }
}

#[test]
fn the_clock_and_other_threads_stop_flat_calls() {
    let text = "def forever (x : Real) : Real = loop y = x while y < 1e300 do (y + x) / 2
        def f (x : Real) : Real = x * x";
    let (forever, f) = (flat(text, "forever"), flat(text, "f"));
    let limits = Limits { deadline: Some(Duration::from_millis(20)), ..Limits::default() };
    let mut frame = CallFrame::with_options(CallOptions::with_limits(limits));
    let error = forever.value_and_grad(&mut frame, &[1.0.into()]).map(|_| ()).unwrap_err();
    assert!(dualvm::Error::from(error).is_limit());
    // The time begins anew with each call, pullbacks included.
    assert!(f.record(&mut frame, &[3.0.into()]).is_ok());
    std::thread::sleep(Duration::from_millis(40));
    assert!(frame.recorded().unwrap().pullback(&[1.0.into()]).is_ok());

    let handle = CancelHandle::new();
    *frame.options_mut() = CallOptions::default().cancelled_by(&handle);
    let error = std::thread::scope(|scope| {
        let run = scope.spawn(|| forever.call(&mut frame, &[1.0.into()]).map(|_| ()).unwrap_err());
        handle.cancel();
        run.join().expect("runs don't panic")
    });
    assert!(dualvm::Error::from(error).is_cancelled());
    assert!(f.call(&mut frame, &[3.0.into()]).is_err());
    *frame.options_mut() = CallOptions::default();
    assert!(f.call(&mut frame, &[3.0.into()]).is_ok());
}

#[test]
fn pullbacks_draw_on_the_fuel_of_their_run() {
    let f = flat("def f (x : Real) : Real = loop y = x for i < 100 do sin (y * x)", "f");
    let mut frame = CallFrame::new();
    let mut recorded = f.record(&mut frame, &[0.5.into()]).unwrap();
    let forward = recorded.stats().instructions;
    recorded.pullback(&[1.0.into()]).unwrap();
    let once = recorded.stats().instructions;
    *frame.options_mut() = CallOptions::with_limits(Limits { fuel: 2 * once - forward, ..Limits::default() });
    let mut recorded = f.record(&mut frame, &[0.5.into()]).unwrap();
    let by = recorded.pullback(&[1.0.into()]).unwrap().reals().to_vec();
    assert_eq!(recorded.pullback(&[1.0.into()]).unwrap().reals(), by);
    let error = recorded.pullback(&[1.0.into()]).map(|_| ()).unwrap_err();
    assert!(matches!(&error, RunError::Trap(trap) if trap.to_string().starts_with("out of fuel")), "{error}");
    assert!(frame.results().is_some() && frame.gradient().is_none());
}

#[test]
fn a_frame_is_good_for_functions_of_any_signature_and_engine() {
    let engines = engines();
    let modules: Vec<Module> = engines.iter().map(shapes).collect();
    let mut frame = CallFrame::new();
    for variant in 0..3 {
        for name in ["twice", "arrays", "lists", "constants", "tasks", "body", "pieces", "none", "unit"] {
            for module in &modules {
                let function = module.function(name).unwrap();
                let params = &function.interface().params;
                let mut next = 0;
                let args: Vec<Value> = params.iter().map(|(_, ty)| argument(ty, variant, &mut next)).collect();
                assert_alike(&function, &mut frame, &args, &limits());
            }
        }
    }
    drop(modules);
    drop(engines);
    assert!(frame.results().is_some(), "a frame keeps what it needs");
    frame.clear();
    assert!(frame.results().is_none() && frame.stats().is_none() && frame.recorded().is_none());
}

#[test]
fn a_frame_gives_back_what_it_holds() {
    let engine = Engine::default();
    let long = flat_on(&engine, "def long (xs : Array Real) = [| x * x for x in xs |]", "long");
    let xs = vec![1.5; 100_000];
    let mut frame = CallFrame::new();
    long.record(&mut frame, &[(&xs).into()]).unwrap();
    let held = engine.kept_bytes();
    frame.clear();
    let kept = engine.kept_bytes();
    assert!(kept > held + 1_000_000, "{held} and {kept}");
    // The next call has no more memory than there is.
    long.record(&mut frame, &[(&xs).into()]).unwrap();
    drop(frame);
    assert_eq!(engine.kept_bytes(), kept);
}

#[test]
fn frames_of_many_threads_share_functions() {
    for engine in engines() {
        let f = flat_on(&engine, "def f (x : Real) (xs : Array Real) : Real = sum (pmap (* x) xs)", "f");
        let xs = [1.0, 2.0, 3.0];
        std::thread::scope(|scope| {
            for n in 0..4 {
                let f = &f;
                scope.spawn(move || {
                    let mut frame = CallFrame::new();
                    for k in 0..200 {
                        let x = f64::from(n * k);
                        let (value, gradient) = f.value_and_grad(&mut frame, &[x.into(), (&xs).into()]).unwrap();
                        assert_eq!((value, gradient.reals()), (6.0 * x, &[6.0, x, x, x][..]));
                    }
                });
            }
        });
        // And one goes from thread to thread.
        let mut frame = CallFrame::new();
        f.record(&mut frame, &[2.0.into(), (&xs).into()]).unwrap();
        let moved =
            std::thread::spawn(move || frame.recorded().unwrap().pullback(&[1.0.into()]).map(|by| by.reals().to_vec()));
        assert_eq!(moved.join().unwrap().unwrap(), [6.0, 2.0, 2.0, 2.0]);
    }
}

#[test]
fn times_are_told_if_asked_for() {
    let f = flat("def f (x : Real) : Real = loop y = x for i < 100 do sin (y * x)", "f");
    let mut frame = CallFrame::new();
    f.value_and_grad(&mut frame, &[0.5.into()]).unwrap();
    let stats = frame.stats().unwrap();
    assert_eq!((stats.forward, stats.sweep), (Duration::ZERO, Duration::ZERO));
    frame.set_timed(true);
    f.value_and_grad(&mut frame, &[0.5.into()]).unwrap();
    let stats = frame.stats().unwrap();
    assert!(stats.forward > Duration::ZERO && stats.sweep > Duration::ZERO);
}

#[test]
fn a_slice_may_be_several_arguments() {
    for engine in engines() {
        let f = flat_on(&engine, "def f (xs : Array Real) (ys : Array Real) = (xs[0] * ys[1], ys)", "f");
        let (xs, mut frame) = ([3.0, 5.0], CallFrame::new());
        let (results, gradient) =
            f.vjp(&mut frame, &[(&xs).into(), (&xs).into()], &[2.0.into(), (&xs).into()]).unwrap();
        assert_eq!(results.get(1), Some(FlatValue::Reals(&xs)));
        assert_eq!(gradient.get(0), Some(FlatValue::Reals(&[10.0, 0.0])));
        assert_eq!(gradient.get(1), Some(FlatValue::Reals(&[3.0, 11.0])));
    }
}

#[test]
fn cotangents_of_zero_and_of_what_is_no_number_go_where_they_belong() {
    for engine in engines() {
        let (f, mut frame) = (flat_on(&engine, "def f (x : Real) (y : Real) = (x * x, y / 0)", "f"), CallFrame::new());
        let mut recorded = f.record(&mut frame, &[3.0.into(), 1.0.into()]).unwrap();
        let mut pulled = |w: f64, v: f64| recorded.pullback(&[w.into(), v.into()]).unwrap().reals().to_vec();
        assert_eq!(pulled(0.0, 0.0), [0.0, 0.0], "a cotangent of zero pulls nothing back, not even through 1 / 0");
        assert_eq!(pulled(-0.5, 0.0), [-3.0, 0.0]);
        assert_eq!(pulled(0.0, 1.0), [0.0, f64::INFINITY]);
        assert_eq!(pulled(f64::NEG_INFINITY, 0.0), [f64::NEG_INFINITY, 0.0]);
        let by = pulled(f64::NAN, 0.0);
        assert!(by[0].is_nan() && by[1] == 0.0, "{by:?}");
    }
}

#[test]
fn a_cancelled_pullback_leaves_results_and_a_frame_that_is_good() {
    let text = "def one (x : Real) : Real = loop y = x for i < 300000 do sin (y + x)
        def many (x : Real) : Real = let xs = pmap (\\k -> one (x * k)) [| to_real k for k < 16 |] in sum xs";
    for engine in engines() {
        let (many, mut frame) = (flat_on(&engine, text, "many"), CallFrame::new());
        many.record(&mut frame, &[0.5.into()]).unwrap();
        let expected = frame.recorded().unwrap().pullback(&[1.0.into()]).unwrap().reals().to_vec();
        let handle = CancelHandle::new();
        *frame.options_mut() = CallOptions::default().cancelled_by(&handle);
        let mut recorded = many.record(&mut frame, &[0.5.into()]).unwrap();
        handle.cancel();
        let error = recorded.pullback(&[1.0.into()]).map(|_| ()).unwrap_err();
        assert!(dualvm::Error::from(error).is_cancelled());
        assert!(frame.results().is_some() && frame.gradient().is_none());
        *frame.options_mut() = CallOptions::default();
        assert!(frame.recorded().is_none(), "the options of a recorded run are those of its pullbacks");
        many.record(&mut frame, &[0.5.into()]).unwrap();
        assert_eq!(frame.recorded().unwrap().pullback(&[1.0.into()]).unwrap().reals(), expected);
    }
}
