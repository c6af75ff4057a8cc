//! Jacobians and Hessians most of whose entries are zero take few products, and have the bits of many.

mod support;

use dualvm::flat::LeafKind;
use dualvm::{CallOptions, Config, Engine, Function, HostFunction, JacobianMode, Jit, Limits, Module, Stats, Value};
use support::dice::Dice;
use support::flatten;

fn module(jit: Jit, threads: usize, source: &str) -> Module {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, threads);
    Module::from_source(&Engine::new(config), "test.dual", source).unwrap_or_else(|error| panic!("{source}\n{error}"))
}

/// All NaN are one value.
fn bits(values: &[Value]) -> Vec<u64> {
    flatten(values).iter().map(|x| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }).collect()
}

/// A tangent or a cotangent of the shape of some values, with 1 in one place.
fn unit(values: &[Value], place: usize, has_reals: impl Fn(usize) -> bool) -> Vec<Value> {
    fn walk(value: &Value, at: &mut usize, place: usize) -> Value {
        let mut next = || {
            *at += 1;
            if *at == place + 1 { 1.0 } else { 0.0 }
        };
        match value {
            Value::Real(_) => Value::Real(next()),
            Value::Reals(xs) => Value::Reals(xs.iter().map(|_| next()).collect()),
            Value::Tuple(parts) => Value::Tuple(parts.iter().map(|part| walk(part, at, place)).collect()),
            Value::Array(parts) => Value::Array(parts.iter().map(|part| walk(part, at, place)).collect()),
            _ => Value::Null,
        }
    }
    let mut at = 0;
    let one = |(n, value)| if has_reals(n) { walk(value, &mut at, place) } else { Value::Null };
    values.iter().enumerate().map(one).collect()
}

/// Compares whole matrices with lines that are computed alone. Returns what the matrices took and one line did.
fn compare(function: &Function, args: &[Value], what: &str) -> [[Stats; 2]; 2] {
    let (options, inputs) = (CallOptions::default(), function.places_of_reals(args).len());
    let (value, stats) = function.call_with(args, &options).unwrap();
    if function.interface().result.is_real() {
        let found = function.hessian_with(args, &options).unwrap();
        assert_eq!((found.rows.len(), bits(&[found.value.into()])), (inputs, bits(&[value])));
        let mut alone = stats;
        for (axis, row) in found.rows.iter().enumerate() {
            let one = function.hvp_with(args, &unit(args, axis, |n| function.is_wrt(n)), &options).unwrap();
            assert_eq!(bits(row), bits(&one.product), "{what}: column {axis} of the Hessian");
            assert_eq!(bits(&found.gradient), bits(&one.gradient));
            alone = one.stats;
        }
        return [[found.stats, alone]; 2];
    }
    let by_rows = function.jacobian_by(JacobianMode::Reverse, args, &options).unwrap();
    let by_columns = function.jacobian_by(JacobianMode::Forward, args, &options).unwrap();
    for found in [&by_rows.value, &by_columns.value] {
        assert_eq!(bits(std::slice::from_ref(found)), bits(std::slice::from_ref(&value)));
    }
    let [mut row_stats, mut column_stats] = [stats; 2];
    let results = std::slice::from_ref(&value);
    for (n, row) in by_rows.rows.iter().enumerate() {
        let one = function.vjp_with(args, &unit(results, n, |_| true)[0], &options).unwrap();
        assert_eq!(bits(row), bits(&one.gradient), "{what}: row {n}");
        row_stats = one.stats;
    }
    let columns: Vec<Vec<u64>> = by_columns.rows.iter().map(|row| bits(row)).collect();
    for axis in 0..inputs {
        let one = function.jvp_with(args, &unit(args, axis, |n| function.is_wrt(n)), &options).unwrap();
        let column: Vec<u64> = columns.iter().map(|row| row[axis]).collect();
        assert_eq!(column, bits(&[one.tangent]), "{what}: column {axis}");
        column_stats = one.stats;
    }
    [[by_rows.stats, row_stats], [by_columns.stats, column_stats]]
}

/// Functions whose lines have few entries.
const STRUCTURED: &str = r"
    def chain (x : Array Real) (a : Real) : Real =
      loop s = 0.0 for i < length x - 1 do s + 100 * (x[i + 1] - x[i] ^ 2) ^ 2 + (1 - x[i]) ^ 2
    def blocks (x : Array Real) (a : Real) : Real =
      sum [| (let k = 4 * i in sin (x[k] * x[k + 1]) + exp (x[k + 2] - x[k + 3]) * x[k]) for i < length x / 4 |]
    def branches (x : Array Real) (a : Real) : Real =
      sum [| (if x[i] > 0 then x[i] ^ 3 * x[(i + 7) % length x] else max x[i] (x[i] * x[i])) for i < length x |]
    def singular (x : Array Real) (a : Real) : Real =
      sum [| (if i % 5 == 0 then sqrt (x[i] * 0) + x[i] / 0 else x[i] * x[(i + 1 - 2 * (i % 2)) % length x])
             for i < length x |]
    def in_tasks (x : Array Real) (a : Real) : Real =
      sum (pmap (\i -> let y = x[i] in y * y * sin x[(i + 1) % length x]) (range 0 (length x)))
    def in_cells (x : Array Real) (a : Real) : Real =
      let pairs = zip_with (\a b -> (a, b)) (to_list x) (append (tail (to_list x)) [a]) in
      fold (\s (a, b) -> s + a * b * b) 0.0 pairs
    def stencil (x : Array Real) (a : Real) : Array Real =
      [| (if i == 0 || i == length x - 1 then x[i] else x[i - 1] - 2 * x[i] + x[i + 1] * x[i]) for i < length x |]
    def parts (x : Array Real) (a : Real) : (Array Real, Real, Array (Real, Real)) =
      ([| sin y for y in x |], x[0], [| (x[i], x[i] * x[i + 1]) for i < length x / 2 |])
    def poles (x : Array Real) (a : Real) : Array Real =
      [| (if i % 3 == 0 then sqrt (x[i] * 0) else if i % 3 == 1 then log (x[i] * 0) * x[i] else 1 / x[i])
         for i < length x |]
    def long_terms (x : Array Real) (a : Real) : Real =
      sum [| (loop s = 0.0 for k < 30 do s + x[i] * x[i] * x[(i + 1) % length x] / (1 + to_real k)) for i < length x |]
    def long_rows (x : Array Real) (a : Real) : Array Real =
      [| (loop s = 0.0 for k < 30 do s + x[i] * x[i] * x[(i + 1) % length x] / (1 + to_real k)) for i < length x |]
    def rows_in_tasks (x : Array Real) (a : Real) : Array (Array Real) =
      pmap (\i -> [| big x[i] * x[(i + 1) % length x], big x[i], x[i] |]) (range 0 (length x))
    def lists_in_tasks (x : Array Real) (a : Real) : List (List Real) =
      pmap (\i -> [big x[i] * x[(i + 1) % length x], x[i]]) (to_list (range 0 (length x)))
    def big (x : Real) : Real = loop s = x for i < 50 do sin (s * s + 0.1 * to_real i) + s * 0.5
    def nothing (x : Array Real) (a : Real) : Array Real = [| to_real i for i < length x |]";

/// The same, with many entries in a line, or few lines.
const DENSE: &str = r"
    def square_of_sum (x : Array Real) (a : Real) : Real = (sum x) ^ 2 * a
    def arrow (x : Array Real) (a : Real) : Real = sum [| y * y * x[0] for y in x |]
    def last (x : Array Real) (a : Real) : Real = let s = sum x in s * x[length x - 1]
    def softmax_of (x : Array Real) (a : Real) : Array Real = let s = sum (map exp x) in [| exp y / s for y in x |]
    def zero_here (x : Array Real) (a : Real) : Real = let s = sum x in sum [| (x[i] - x[i]) * s for i < length x |]
    def looks_sparse (x : Array Real) (a : Real) : Real =
      let s = sum [| x[i] for i in 6 .. length x |] in s * s + x[0] * x[1]
    def nested (x : Array Real) (a : Real) : Real =
      let g = grad (\y -> sum [| u * u * u for u in y |]) x in sum [| g[i] * x[i] for i < length x |]";

fn args(count: usize) -> Vec<Value> {
    vec![Value::Reals((0..count).map(|n| (1.7 * n as f64).sin()).collect()), Value::Real(0.75)]
}

fn definitions(source: &str) -> Vec<String> {
    let lines = source.lines().filter_map(|line| line.trim().strip_prefix("def "));
    let lines = lines.filter(|line| line.contains("(x : Array Real)"));
    lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn lines_of_sparse_matrices_share_products_and_have_the_bits_that_they_have_alone() {
    for (jit, threads) in [(Jit::Off, 1), (Jit::Always, 1), (Jit::Always, 3)] {
        let module = module(jit, threads, STRUCTURED);
        for name in definitions(STRUCTURED) {
            let function = module.function(&name).unwrap();
            for count in [63, 64, 160] {
                for wrt in [&["x"][..], &["x", "a"]] {
                    for [whole, line] in compare(&function.wrt(wrt).unwrap(), &args(count), &name) {
                        let products = whole.instructions / line.instructions.max(1);
                        // Lines that are looked at, one more run, and a few products.
                        assert!(count < 160 || products < 24, "{name} of {count}: {products} times a line");
                    }
                }
            }
        }
    }
}

#[test]
fn lines_of_other_matrices_are_computed_one_by_one() {
    for jit in [Jit::Off, Jit::Always] {
        let module = module(jit, 1, DENSE);
        for name in definitions(DENSE) {
            let function = module.function(&name).unwrap();
            for count in [65, 80] {
                compare(&function, &args(count), &name);
            }
        }
    }
}

#[test]
fn where_there_is_no_memory_to_look_at_a_run_lines_are_computed_one_by_one() {
    for jit in [Jit::Off, Jit::Always] {
        let module = module(jit, 1, STRUCTURED);
        for name in ["long_terms", "long_rows"] {
            let function = module.function(name).unwrap();
            let args = args(200);
            let run = |tape_bytes| {
                let mut options = CallOptions::default();
                options.limits = Some(Limits { tape_bytes, ..Limits::default() });
                let rows = match function.interface().result.is_real() {
                    true => function.hessian_with(&args, &options).map(|found| (found.rows, found.stats)),
                    false => function.jacobian_with(&args, &options).map(|found| (found.rows, found.stats)),
                };
                rows.unwrap()
            };
            let (rows, stats) = run(1 << 30);
            // What a region writes, and not what its segments would.
            let (alone, alone_stats) = run(256 << 10);
            assert!(alone_stats.instructions > 4 * stats.instructions, "{name}: {alone_stats:?}, {stats:?}");
            let all = |rows: &[Vec<Value>]| rows.iter().flat_map(|row| bits(row)).collect::<Vec<_>>();
            assert!(all(&rows) == all(&alone), "{name}");
        }
    }
}

/// What takes long in `rows` is no work of sweeps.
const HEAVY: &str = r"
    def heavy (n : Int) : Int = loop k = 1 for i < n do (k * 31 + i) % 65521
    def rows (x : Array Real) : Array Real = let k = heavy 20000 in [| x[i] * x[i] * to_real k for i < length x |]
    def slow_rows (x : Array Real) : Array Real =
      [| (loop s = x[i] for k < 100 do sin (s * s)) for i < length x |]";

#[test]
fn a_look_at_rows_is_two_more_runs_where_sweeps_take_longer() {
    for jit in [Jit::Off, Jit::Always] {
        let module = module(jit, 1, HEAVY);
        let args = &args(100)[..1];
        for (name, times) in [("rows", 2), ("slow_rows", 40)] {
            let function = module.function(name).unwrap();
            let value = function.call(args).unwrap();
            let one = function.vjp_with(args, &value, &CallOptions::default()).unwrap().stats.instructions;
            // Three runs, or one with a hundred sweeps.
            let found = function.jacobian(args).unwrap().stats.instructions;
            assert!(found < times * one, "{name}: {found} instructions, {one} for a row");
        }
    }
}

#[test]
fn functions_of_the_hosts_are_called_once_for_all_rows() {
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = calls.clone();
    let mut config = Config::default();
    config.threads = 1;
    let tick = HostFunction::flat(&[LeafKind::Int], &[LeafKind::Int], move |call| {
        call.give(seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) as i64)
    });
    config.linker.define("tick", tick);
    let source = "
        import host \"tick\" as tick : Int -> Int
        def f (x : Array Real) : Array Real =
          let k = tick 0 in if k > 0 then [| 1.0 for i < length x |]
          else [| (loop s = v for i < 50 do sin s * v) for v in x |]";
    let f = Module::from_source(&Engine::new(config), "test.dual", source).unwrap().function("f").unwrap();
    let found = f.jacobian(&args(100)[..1]).unwrap();
    assert_eq!((found.rows.len(), calls.load(std::sync::atomic::Ordering::Relaxed)), (100, 1));
}

/// A term of the elements in some places of an array, with what matters where it is singular.
fn term(dice: &mut Dice, depth: u32) -> String {
    let places = ["i", "(i + 1) % n", "(i * 3 + 2) % n", "(i + 9) % n", "n - 1 - i"];
    if depth == 0 || dice.usize(0..5) == 0 {
        return match dice.usize(0..6) {
            0 => format!("{:.1}", dice.usize(0..7) as f64 - 3.0),
            _ => format!("x[{}]", places[dice.usize(0..places.len())]),
        };
    }
    let mut sub = || term(dice, depth - 1);
    let (a, b) = (sub(), sub());
    match dice.usize(0..10) {
        0 | 1 => format!("({a} * {b})"),
        2 => format!("({a} + {b})"),
        3 => format!("({a} - {b})"),
        4 => format!("({a} / {b})"),
        5 => format!("sin ({a})"),
        6 => format!("sqrt ({a})"),
        7 => format!("max ({a}) ({b})"),
        8 => format!("(if {a} < {b} then {a} else {b} * {b})"),
        _ => format!("(let t = {a} in t * t * {b})"),
    }
}

#[test]
fn random_terms_share_products_and_have_their_bits() {
    let (mut shared, mut matrices) = (0, 0);
    for seed in 0..40 {
        let mut dice = Dice::with_seed(seed);
        let (a, b) = (term(&mut dice, 3), term(&mut dice, 3));
        let source = format!(
            "def f (x : Array Real) (k : Real) : Real = let n = length x in sum [| {a} for i < n |]
             def g (x : Array Real) (k : Real) : Array Real = let n = length x in [| {a} + {b} for i < n |]"
        );
        let jit = if seed % 2 == 0 { Jit::Off } else { Jit::Always };
        let module = module(jit, 1, &source);
        for name in ["f", "g"] {
            let mut xs: Vec<f64> = (0..128).map(|n| (1.7 * f64::from(n)).sin()).collect();
            (xs[3], xs[11]) = (0.0, -0.0);
            let args = [Value::Reals(xs), Value::Real(1.0)];
            let function = module.function(name).unwrap().wrt(&["x"]).unwrap();
            for [whole, line] in compare(&function, &args, &format!("seed {seed}, {name}:\n{source}")) {
                shared += u32::from(whole.instructions < 64 * line.instructions);
                matrices += 1;
            }
        }
    }
    assert!(shared > matrices / 2, "{shared} of {matrices} in few products");
}
