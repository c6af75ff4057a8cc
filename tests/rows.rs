//! Arrays of tuples of numbers, which hold rows: what programs compute with them is what they compute with the parts in
//! arrays of their own, at every border, interpreted and compiled.

mod support;

use dualvm::flat::LeafKind;
use dualvm::vm::trap::TrapKind;
use dualvm::{CallFrame, CallOptions, Config, Engine, ErrorKind, FlatValue, Function, Jit, Module, Value};
use support::flatten;

fn modules(text: &str) -> [Module; 2] {
    [Jit::Off, Jit::Always].map(|jit| {
        let mut config = Config::default();
        (config.jit, config.threads) = (jit, 1);
        Module::from_source(&Engine::new(config), "rows.dual", text).unwrap_or_else(|error| panic!("{error}"))
    })
}

fn json(text: &str, function: &Function) -> Vec<Value> {
    use serde::de::DeserializeSeed;
    let mut json = serde_json::Deserializer::from_str(text);
    function.arguments_seed().deserialize(&mut json).unwrap_or_else(|error| panic!("{}: {error}", function.name()))
}

const PROGRAM: &str = "
    alias Vec2 = (Real, Real)
    def norms (xs : Array Vec2) : Array Real = [| sqrt (a * a + b * b) for (a, b) in xs |]
    def swapped (xs : Array Vec2) : Array Vec2 = map (\\(a, b) -> (b * 2, a)) xs
    def total (xs : Array Vec2) : Real = sum (norms (swapped xs))
    def total_apart (xs : Array Real) (ys : Array Real) : Real =
      sum [| sqrt (2 * ys[i] * (2 * ys[i]) + xs[i] * xs[i]) for i < length xs |]
    def at (xs : Array Vec2) (i : Int) : Vec2 = xs[i]
    def seconds (xs : Array (Int, Bool)) : Array Bool = map snd xs
    def count (xs : Array (Real, (Real, Real))) : Int = length xs
    def same (xs : Array Vec2) (ys : Array Vec2) : Bool = xs == ys
    def filled (n : Int) (from : Int) : Array Vec2 = [| (to_real i, 2) for i in from .. n |]
    def recorded (n : Int) (x : Real) : Real =
      let xs = [| (x, x * to_real i) for i < n |] in loop s = 0.0 for (a, b) in xs do s + a * b * fst xs[0]
    def literal (x : Real) : Array (Real, { y : Real, z : Real }) =
      [| (x, { y = 1, z = x }), (3, { y = x * x, z = 4 }) |]
    def in_parallel (n : Int) (x : Real) : Array Vec2 = pbuild n (\\i -> (x * to_real i, x + to_real i))
    def steps (xs : Array Vec2) : Real =
      let ys = loop ys = xs for _ < 3 do [| let (a, b) = ys[i] in (a * b, a - snd ys[0]) for i < length ys |] in
      let (s, _) = loop (s, t) = (0.0, 1.0) for (a, b) in ys do (s + a * t, t * b) in s
    def walk (next : Array (Int, Int)) : (Int, Int) = loop (i, j) = (0, 1) for _ < 5 do (snd next[i], fst next[j])
    def swap_walk (next : Array (Int, Int)) : (Int, Int) = loop (i, j) = (0, 1) for _ < 5 do next[i]
    def one_of (xs : Array Vec2) (k : Int) : Real = loop s = 0.0 for i < k do s + fst xs[i] * snd xs[0]
";

/// What a call gives and its instructions are the same in both engines.
fn call(modules: &[Module], name: &str, args: &str) -> Result<Value, String> {
    let outcomes: Vec<_> = modules
        .iter()
        .map(|module| {
            let function = module.function(name).unwrap();
            let called = function.call_with(&json(args, &function), &CallOptions::default());
            called.map(|(value, stats)| (value, stats.instructions)).map_err(|error| match error.kind() {
                ErrorKind::Trap(trap) => trap.kind.to_string(),
                other => panic!("{name}: {other:?}"),
            })
        })
        .collect();
    assert_eq!(format!("{:?}", outcomes[0]), format!("{:?}", outcomes[1]), "{name} {args}");
    outcomes.into_iter().next().unwrap().map(|(value, _)| value)
}

#[test]
fn values_are_those_of_tuples() {
    let modules = modules(PROGRAM);
    for (name, args, expected) in [
        ("norms", "[[[3, 4], [5, 12]]]", "[5.0, 13.0]"),
        ("norms", "[[]]", "[]"),
        ("swapped", "[[[3, 4], [1, 2]]]", "[(8.0, 3.0), (4.0, 1.0)]"),
        ("at", "[[[3, 4], [1, 2]], 1]", "(1.0, 2.0)"),
        ("seconds", "[[[1, true], [2, false], [3, true]]]", "[true, false, true]"),
        ("count", "[[[1, [2, 3]], [4, [5, 6]]]]", "2"),
        ("count", "[[]]", "0"),
        ("same", "[[[1, 2], [3, 4]], [[1, 2], [3, 4]]]", "true"),
        ("same", "[[[1, 2], [3, 4]], [[1, 2], [3, 5]]]", "false"),
        ("same", "[[[1, 2], [3, 4]], [[1, 2]]]", "false"),
        ("same", "[[], []]", "true"),
        ("filled", "[2, 0]", "[(0.0, 2.0), (1.0, 2.0)]"),
        ("filled", "[0, 0]", "[]"),
        ("filled", "[-7, 0]", "[]"),
        ("filled", "[1, -1]", "[(-1.0, 2.0), (0.0, 2.0)]"),
        ("literal", "[2]", "[(2.0, { y = 1.0, z = 2.0 }), (3.0, { y = 4.0, z = 4.0 })]"),
        ("in_parallel", "[3, 2]", "[(0.0, 2.0), (2.0, 3.0), (4.0, 4.0)]"),
        ("in_parallel", "[-1, 2]", "[]"),
        // The index and the parts of its row stand in the same registers.
        ("walk", "[[[1, 2], [0, 1], [2, 0]]]", "(2, 0)"),
        ("swap_walk", "[[[1, 2], [2, 0], [0, 1]]]", "(2, 0)"),
    ] {
        assert_eq!(call(&modules, name, args).map(|value| value.to_string()), Ok(expected.to_owned()), "{name} {args}");
    }
}

#[test]
fn indices_count_rows() {
    let modules = modules(PROGRAM);
    let pairs = "[[3, 4], [1, 2]]";
    for index in ["2", "-1", "4", "1099511627776", "4611686018427387904", "9223372036854775807", "-9223372036854775808"]
    {
        let expected = format!("index {index} is out of bounds of an array of length 2");
        assert_eq!(call(&modules, "at", &format!("[{pairs}, {index}]")), Err(expected));
    }
    assert_eq!(call(&modules, "at", "[[], 0]"), Err("index 0 is out of bounds of an array of length 0".into()));
    // In a loop whose rounds run in groups.
    for (k, expected) in [(0, Ok("0.0")), (5, Ok("30.0")), (6, Err(5)), (50, Err(5))] {
        let pairs = "[[1, 2], [2, 3], [3, 4], [4, 5], [5, 6]]";
        let expected = expected
            .map(str::to_owned)
            .map_err(|index| format!("index {index} is out of bounds of an array of length 5"));
        let found = call(&modules, "one_of", &format!("[{pairs}, {k}]")).map(|value| value.to_string());
        assert_eq!(found, expected, "{k}");
    }
    // More than there can be, also where the product with the width wraps.
    for n in ["4611686018427387904", "9223372036854775807", "281474976710656"] {
        let expected = format!("an array of length {n} can't be built");
        assert_eq!(call(&modules, "filled", &format!("[{n}, 0]")), Err(expected));
    }
    for n in ["281474976710655", "140737488355328", "140737488355327", "70368744177664"] {
        let found = call(&modules, "filled", &format!("[{n}, 0]"));
        assert_eq!(found, Err("the limit on live memory was reached".to_owned()));
    }
    // While recording, elements may take twice the room.
    for module in &modules {
        for (n, message) in [
            ("140737488355328", "an array of length 140737488355328 can't be built"),
            ("140737488355327", "the limit on live memory was reached"),
        ] {
            let function = module.function("recorded").unwrap();
            let failed = function.value_and_grad_with(&json(&format!("[{n}, 2]"), &function), &CallOptions::default());
            let failed = failed.unwrap_err();
            let ErrorKind::Trap(trap) = failed.kind() else { panic!("{n}: {failed}") };
            assert_eq!(trap.kind.to_string(), message);
        }
    }
}

#[test]
fn room_that_can_not_be_is_looked_for_where_there_may_be_too_many() {
    let text = "
        alias Vec2 = (Real, Real)
        def halves (xs : Array Vec2) : Array Vec2 = [| (a / 2, b / 2) for (a, b) in xs |]
        def tables (n : Int) (x : Real) : Array (Array Vec2) = [| [| (x, to_real j) for j < i |] for i < n |]
        def wide (xs : Array Vec2) : Array (Real, Vec2) = [| (1, x) for x in xs |]
    ";
    let module = &modules(text)[0];
    let assembly = module.to_assembly();
    let functions: Vec<&str> = assembly.split("\nfunc ").skip(1).collect();
    let bounds = functions.iter().map(|text| text.matches(", 140737488355327").count());
    let before_loops = |text: &&str| text.find("140737488355327") < text.find("\nL");
    assert_eq!(bounds.collect::<Vec<_>>(), [0, 1, 1], "{assembly}");
    assert!(functions.iter().all(before_loops), "{assembly}");
}

#[test]
fn gradients_are_those_of_the_parts() {
    let modules = modules(PROGRAM);
    let gradient = |module: &Module, name: &str, args: &str| {
        let function = module.function(name).unwrap();
        let gradient = function.value_and_grad_with(&json(args, &function), &CallOptions::default()).unwrap();
        (gradient.value, gradient.gradient)
    };
    for args in [("[[[3, 4], [1, 2]]]", "[[3, 1], [4, 2]]"), ("[[]]", "[[], []]"), ("[[[0, 0]]]", "[[0], [0]]")] {
        for module in &modules {
            let (value, rows) = gradient(module, "total", args.0);
            let (expected, apart) = gradient(module, "total_apart", args.1);
            assert_eq!(value.to_bits(), expected.to_bits());
            let [xs, ys] = [0, 1].map(|part| flatten(&apart[part..=part]));
            let pairs: Vec<f64> = xs.into_iter().zip(ys).flat_map(|(x, y)| [x, y]).collect();
            let bits = |xs: &[f64]| xs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&flatten(&rows)), bits(&pairs), "{args:?}");
        }
    }
    // Rows that are read again as whole arrays and at a fixed place, and made in a loop, against central differences.
    let points = [0.5, -1.25, 2.0, 0.75, -0.3, 1.5];
    let text = |points: &[f64]| format!("[{:?}]", points.chunks(2).collect::<Vec<_>>());
    let value = |points: &[f64]| gradient(&modules[0], "steps", &text(points)).0;
    let (_, found) = gradient(&modules[1], "steps", &text(&points));
    let (_, interpreted) = gradient(&modules[0], "steps", &text(&points));
    assert_eq!(format!("{found:?}"), format!("{interpreted:?}"));
    for (n, by) in flatten(&found).into_iter().enumerate() {
        let moved = |by: f64| {
            let mut moved = points;
            moved[n] += by;
            value(&moved)
        };
        let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
        assert!((by - expected).abs() <= 1e-6 * (1.0 + expected.abs()), "{n}: {by} and {expected}");
    }
}

#[test]
fn loops_over_rows_are_one_record() {
    for module in modules(PROGRAM) {
        let function = module.function("total").unwrap();
        let args = [Value::Array((0..100).map(|n| Value::Tuple(vec![f64::from(n).into(), 1.5.into()])).collect())];
        let (stats, allocated) = {
            let gradient = function.value_and_grad_with(&args, &CallOptions::default()).unwrap();
            (gradient.stats.records, gradient.stats.allocated_bytes)
        };
        assert_eq!(stats, 1);
        // The array itself, and little else: no object per element.
        assert!(allocated < 100 * 2 * 8 + 1000, "{allocated}");
    }
}

#[test]
fn rows_cross_the_border_as_slices() {
    for module in modules(PROGRAM) {
        let swapped = module.function("swapped").unwrap().flat().unwrap();
        let (params, results) = (swapped.params(), swapped.results());
        assert_eq!((params[0].kind(), params[0].width()), (LeafKind::Reals, 2));
        assert_eq!((results[0].kind(), results[0].width()), (LeafKind::Reals, 2));
        let mut frame = CallFrame::new();
        let mut recorded = swapped.record(&mut frame, &[(&[1.0, 2.0, 3.0, 4.0]).into()]).unwrap();
        assert_eq!(recorded.results().get(0), Some(FlatValue::Reals(&[4.0, 1.0, 8.0, 3.0])));
        let gradient = recorded.pullback(&[(&[1.0, 10.0, 100.0, 1000.0]).into()]).unwrap();
        assert_eq!(gradient.reals(), [10.0, 2.0, 1000.0, 200.0]);
        let error = swapped.call(&mut frame, &[(&[1.0, 2.0, 3.0]).into()]).unwrap_err();
        let expected = "argument xs: expected Array (Real, Real), found 3 reals, 2 to an element";
        assert_eq!(error.to_string(), expected);

        let typed = module.function("total").unwrap().typed::<(&[[f64; 2]],), f64>().unwrap();
        let (value, (gradient,)) = typed.value_and_grad((&[[3.0, 0.0], [0.0, 0.5]],)).unwrap();
        assert_eq!((value, gradient), (4.0, vec![[1.0, 0.0], [0.0, 2.0]]));
        let typed = module.function("swapped").unwrap().typed::<(Vec<(f64, f64)>,), Vec<[f64; 2]>>().unwrap();
        assert_eq!(typed.call((vec![(3.0, 1.0), (0.5, 2.0)],)).unwrap(), [[2.0, 3.0], [4.0, 0.5]]);

        let error = module.function("seconds").unwrap().flat().unwrap_err();
        let ErrorKind::NotFlat(mixed) = error.kind() else { panic!("{error}") };
        assert_eq!(mixed.place(), "parameter xs");
    }
}

/// `row` at the bytecode's edges: rows that don't fill the array, and a width of 1.
#[test]
fn a_row_that_is_cut_short_is_none() {
    for (len, width, rows) in [(7, 3, 2), (6, 3, 2), (2, 3, 0), (0, 1, 0), (4, 1, 4), (5, 65_535, 0)] {
        let text = format!(
            "type t0 = array real
            func \"f\" (t0, int) -> (int)
                export (xs : Array Real @t0, i : Int) -> Int
                regs 2 int, t0
                {{
                row i1, p0, i0, {width}
                ret (i1) }}"
        );
        for jit in [Jit::Off, Jit::Always] {
            let mut config = Config::default();
            config.jit = jit;
            let module = Module::from_assembly(&Engine::new(config), "row.dvs", &text).unwrap();
            let function = module.function("f").unwrap();
            for index in -1..=rows {
                let outcome = function.call(&[vec![0.5; len].into(), Value::Int(index)]);
                if (0..rows).contains(&index) {
                    assert_eq!(outcome.unwrap(), Value::Int(index * width));
                    continue;
                }
                let error = outcome.unwrap_err();
                let ErrorKind::Trap(trap) = error.kind() else { panic!("{error}") };
                assert_eq!(trap.kind, TrapKind::IndexOutOfBounds { index, len: rows as u64 });
            }
        }
    }
}
