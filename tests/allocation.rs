//! The second and later gradient calls of a function allocate nothing from the system but the result: everything else
//! is kept by the engine. So it is in the interpreter, and in native code: compiling allocates, but what the first call
//! has compiled is never compiled again. An allocator that counts stands in for the system's.

use dualvm::{CallFrame, CallOptions, Config, Engine, FlatValue, Function, Jit, Matrix, Module, Value};
use serde::de::DeserializeSeed;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

thread_local! {
    /// Allocations of this thread: tests run side by side.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator as it comes.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: promised by the caller.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `run` asks the system for memory, and what it returns.
fn count<T>(run: impl FnOnce() -> T) -> (u64, T) {
    let before = COUNT.get();
    let result = run();
    (COUNT.get() - before, result)
}

/// Calls more than a warm-up needs, so that a growing buffer shows.
const CALLS: usize = 4;

/// Runs something several times and compares the allocations of all runs but the first with those of its result.
#[track_caller]
fn assert_only_the_result_is_allocated<T: Clone>(name: &str, mut run: impl FnMut() -> T) {
    let result = run();
    let (expected, copy) = count(|| result.clone());
    drop(copy);
    for call in 2..=CALLS {
        let (found, _) = count(&mut run);
        assert_eq!(found, expected, "{name}: allocations of call {call}, and of its result");
    }
}

/// Engines that compile nothing, or all that a call runs in the first one.
fn engines() -> [Engine; 2] {
    [Jit::Off, Jit::Always].map(|jit| {
        let mut config = Config::default();
        config.jit = jit;
        Engine::new(config)
    })
}

fn example(engine: &Engine, file: &str, function: &str) -> Function {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(file).with_extension("dual");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let module = Module::from_source(engine, file, &text).unwrap_or_else(|error| panic!("{error}"));
    module.function(function).unwrap_or_else(|error| panic!("{error}"))
}

fn arguments(function: &Function, json: &str) -> Vec<Value> {
    let mut json = serde_json::Deserializer::from_str(json);
    function.arguments_seed().deserialize(&mut json).unwrap_or_else(|error| panic!("{}: {error}", function.name()))
}

/// Every example with arguments. Those that are long enough use more memory than one slab.
const EXAMPLES: [(&str, &str, &str); 16] = [
    ("mult", "mult", "[3, 4]"),
    ("dotprod", "dotprod", "[LONG, LONG]"),
    ("dotprod", "dotprod_list", "[LONG, LONG]"),
    ("summatvec", "summatvec", "[[[1, 2], [3, 4]], [3, 5]]"),
    ("summatvec", "summatvec_list", "[[[1, 2], [3, 4]], [3, 5]]"),
    ("rosenbrock", "rosenbrock", "[LONG]"),
    ("newton", "newton", "[2, 1000000]"),
    ("spring", "spring", "[2000, [0.5, 0.1], [1, 1]]"),
    ("particles", "particles", "[1000, [[[0.5, 0.1], [1, 1]], [[1, 0.1], [1, 1]]]]"),
    ("neural", "neural", "[[[[[0.5, -0.2], [0.1, 0.3]], [0.1, 0.2]], [[[0.7, 0.4]], [-0.3]]], [1, 2]]"),
    ("logistic", "logistic", "[[0.1, -0.2], 0.5, [[[1, 2], true], [[-1, 0.5], false], [[30, -20], true]]]"),
    (
        "expression",
        "expression",
        r#"[{"Mul": [{"Leaf": 3}, {"Add": [{"Leaf": 4}, {"Apply": ["Sin", {"Leaf": 1}]}]}]}]"#,
    ),
    ("newton_sweep", "newton_sweep", "[[2, 3, 4], 1]"),
    ("branchy", "branchy", "[5000, 1.5, 0.2, 0.3, 0.105]"),
    ("rotations", "rotations", "[5000, [1, 2, 3], [0.1, 0.5, 0.7, 0.5]]"),
    ("rotate_vec_by_quat", "rotate_vec_by_quat", "[[1, 2, 3], [4, 5, 6, 7]]"),
];

/// More than fits into the slabs that a run starts with, and into any object that is not large.
const LONG: usize = 20_000;

fn with_long(json: &str) -> String {
    let long: Vec<String> = (0..LONG).map(|n| format!("{}", (n % 7) as f64 - 2.5)).collect();
    json.replace("LONG", &format!("[{}]", long.join(",")))
}

#[test]
fn only_the_gradient_is_allocated() {
    let cases = EXAMPLES.into_iter().flat_map(|case| engines().map(|engine| (case, engine)));
    for ((file, name, json), engine) in cases {
        let function = example(&engine, file, name);
        let args = arguments(&function, &with_long(json));
        let options = CallOptions::default();
        assert_only_the_result_is_allocated(name, || function.call(&args).expect("examples run"));
        if function.interface().result == dualvm::HostType::Real {
            assert_only_the_result_is_allocated(name, || {
                function.value_and_grad_with(&args, &options).expect("examples run")
            });
        }
    }
}

#[test]
fn functions_of_an_engine_share_what_it_keeps() {
    for engine in engines() {
        let functions = EXAMPLES.map(|(file, name, json)| {
            let function = example(&engine, file, name);
            let args = arguments(&function, &with_long(json));
            (function, args)
        });
        let run_all = || functions.iter().map(|(f, args)| f.call(args).expect("examples run")).collect::<Vec<Value>>();
        assert_only_the_result_is_allocated("all", run_all);
    }
}

#[test]
fn typed_scalars_allocate_nothing() {
    engines().iter().for_each(assert_typed_scalars_allocate_nothing);
}

fn assert_typed_scalars_allocate_nothing(engine: &Engine) {
    let mult = example(engine, "mult", "mult").typed::<(f64, f64), f64>().expect("its types");
    let newton = example(engine, "newton", "newton").typed::<(f64, f64), f64>().expect("its types");
    type Pair = (f64, f64);
    let spring = example(engine, "spring", "spring").typed::<(i64, Pair, Pair), f64>().expect("its types");
    let rotate = example(engine, "rotate_vec_by_quat", "rotate_vec_by_quat");
    let rotate = rotate.typed::<([f64; 3], [f64; 4]), [f64; 3]>().expect("its types");
    let run = || {
        let products = (mult.call((3.0, 4.0)).expect("runs"), mult.value_and_grad((3.0, 4.0)).expect("runs"));
        let root = newton.value_and_grad((2.0, 1e6)).expect("runs");
        let end = spring.value_and_grad((2000, (0.5, 0.1), (1.0, 1.0))).expect("runs");
        (products, root, end, rotate.call(([1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0])).expect("runs"))
    };
    // A copy of these results takes no memory.
    assert_only_the_result_is_allocated("scalars", run);
}

#[test]
fn typed_arrays_allocate_their_gradient_once_or_not_at_all() {
    let xs: Vec<f64> = (0..LONG).map(|n| n as f64).collect();
    let cases = ["dotprod", "dotprod_list"].into_iter().flat_map(|name| engines().map(|engine| (name, engine)));
    for (name, engine) in cases {
        let dot = example(&engine, "dotprod", name).typed::<(&[f64], &[f64]), f64>().expect("its types");
        assert_only_the_result_is_allocated(name, || dot.call((&xs, &xs)).expect("runs"));
        assert_only_the_result_is_allocated(name, || dot.value_and_grad((&xs, &xs)).expect("runs"));
        let mut gradient = (Vec::new(), Vec::new());
        assert_only_the_result_is_allocated(name, || dot.value_and_grad_into((&xs, &xs), &mut gradient).expect("runs"));
        assert_eq!(gradient, (xs.clone(), xs.clone()));
        let (mut by_xs, mut by_ys) = (vec![0.0; LONG], vec![0.0; LONG]);
        assert_nothing_is_allocated(name, || {
            dot.value_and_grad_into_slices((&xs, &xs), [&mut by_xs, &mut by_ys]).expect("runs");
        });
        assert_eq!((by_xs, by_ys), gradient);
    }
}

const TYPED: &str = "
    def total (ps : Array (Real, (Real, Int))) (m : Array (Array Real)) (ns : List Int) : Real =
      let each i = let (x, (y, n)) = ps[i] in x * y * to_real n in
      (loop sum = 0.0 for i < length ps do sum + each i)
        + (loop total = to_real (length ns) for i < length m do total + sum m[i])
    def doubled (ps : Array (Real, (Real, Int))) (m : Array (Array Real)) (ns : List Int) =
      ([| let (x, (y, n)) = p in (y, (x, n)) for p in ps |], [| [| 2 * x for x in xs |] for xs in m |], ns)";

type Point = (f64, (f64, i64));

#[test]
fn typed_arrays_of_any_elements_allocate_their_results_only() {
    let points: Vec<Point> = (0..LONG).map(|n| (n as f64, (0.5, 2))).collect();
    let (elements, ns) = (vec![1.5; LONG], vec![3; LONG]);
    let m = Matrix::new(&elements, [LONG / 100, 100]).expect("rows of 100");
    let rows: Vec<&[f64]> = elements.chunks(100).collect();
    for engine in engines() {
        let module = Module::from_source(&engine, "typed.dual", TYPED).unwrap_or_else(|error| panic!("{error}"));
        let total = module.function("total").unwrap_or_else(|error| panic!("{error}"));
        let doubled = module.function("doubled").unwrap_or_else(|error| panic!("{error}"));
        type Args<'a> = (&'a [Point], Matrix<'a>, &'a [i64]);
        type Results = (Vec<Point>, Vec<Vec<f64>>, Vec<i64>);
        let shaped = total.typed::<Args<'_>, f64>().expect("its types");
        let nested = total.typed::<(&[Point], &[&[f64]], &[i64]), f64>().expect("its types");
        let doubled = doubled.typed::<Args<'_>, Results>().expect("its types");
        assert_only_the_result_is_allocated("call", || shaped.call((&points, m, &ns)).expect("runs"));
        assert_only_the_result_is_allocated("results", || doubled.call((&points, m, &ns)).expect("runs"));
        let gradient = || shaped.value_and_grad((&points, m, &ns)).expect("runs");
        assert_only_the_result_is_allocated("gradient", gradient);
        let gradient = || nested.value_and_grad((&points, &rows, &ns)).expect("runs");
        assert_only_the_result_is_allocated("nested gradient", gradient);

        let mut gradient = (Vec::new(), Vec::new(), ());
        assert_nothing_is_allocated("gradient over an earlier one", || {
            nested.value_and_grad_into((&points, &rows, &ns), &mut gradient).expect("runs");
        });
        let (mut by_points, mut by_m) = (vec![0.0; 2 * LONG], vec![0.0; LONG]);
        assert_nothing_is_allocated("gradient in slices", || {
            let slices = [&mut by_points[..], &mut by_m, &mut []];
            shaped.value_and_grad_into_slices((&points, m, &ns), slices).expect("runs");
        });
        assert_eq!((by_points[7], by_m[5], gradient.0[3].1.0, gradient.1[2][1]), (6.0, 1.0, 6.0, 1.0));
    }
}

/// Runs something several times: all runs but the first allocate nothing.
#[track_caller]
fn assert_nothing_is_allocated(name: &str, mut run: impl FnMut()) {
    run();
    for call in 2..=CALLS {
        assert_eq!(count(&mut run).0, 0, "{name}: allocations of call {call}");
    }
}

#[test]
fn flat_calls_allocate_nothing() {
    let xs: Vec<f64> = (0..LONG).map(|n| n as f64).collect();
    let ns: Vec<i64> = (0..LONG as i64).collect();
    for engine in engines() {
        let mut frame = CallFrame::new();
        let scalars: [(&str, &str, &[FlatValue<'_>]); 4] = [
            ("mult", "mult", &[FlatValue::Real(3.0), FlatValue::Real(4.0)]),
            ("newton", "newton", &[FlatValue::Real(2.0), FlatValue::Real(1e6)]),
            ("dotprod", "dotprod", &[FlatValue::Reals(&xs), FlatValue::Reals(&xs)]),
            ("dotprod", "dotprod_list", &[FlatValue::Reals(&xs), FlatValue::Reals(&xs)]),
        ];
        for (file, name, args) in scalars {
            let function = example(&engine, file, name).flat().expect("it is flat");
            assert_nothing_is_allocated(name, || {
                let results = function.call(&mut frame, args).expect("runs");
                assert!(results.get(0).is_some());
                let (_, gradient) = function.value_and_grad(&mut frame, args).expect("runs");
                assert_eq!(gradient.iter().len(), args.len());
                assert!(frame.stats().is_some());
            });
        }
        let text = "def f (xs : Array Real) (ns : List Int) =
                      ([| 2 * x for x in xs |], map (\\n -> n + 1) ns, [sum xs])";
        let module = Module::from_source(&engine, "f.dual", text).unwrap_or_else(|error| panic!("{error}"));
        let f = module.function("f").and_then(|f| f.flat()).expect("it is flat");
        assert_nothing_is_allocated("vjp", || {
            let cotangents = [FlatValue::Reals(&xs), FlatValue::Null, FlatValue::Reals(&[1.0])];
            let (results, gradient) = f.vjp(&mut frame, &[(&xs).into(), (&ns).into()], &cotangents).expect("runs");
            assert_eq!(results.get(1).and_then(FlatValue::as_ints).map(|ns| ns[LONG - 1]), Some(LONG as i64));
            assert_eq!(gradient.reals()[3], 2.0 * xs[3] + 1.0);
        });
    }
}
