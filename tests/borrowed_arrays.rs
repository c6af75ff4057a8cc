//! Long arrays of arguments are read where the host has them, and nothing can tell: a recorded run copies its
//! arguments, because it is swept when the call has ended, and what the others compute of theirs are the same values
//! and gradients, to the last bit. What is left of a call doesn't refer to them.

mod support;

use dualvm::vm::engine::Stats;
use dualvm::{CallFrame, CallOptions, Config, Engine, FlatFunction, FlatValue, Function, Jit, Limits, Module, Value};
use support::same;

/// As many numbers as are borrowed, and more than a vector or a group of rounds has.
const LENGTHS: [usize; 4] = [31, 32, 100, 3000];

fn engines() -> Vec<Engine> {
    let engine = |(jit, threads)| {
        let mut config = Config::default();
        (config.jit, config.threads) = (jit, threads);
        Engine::new(config)
    };
    [(Jit::Off, 1), (Jit::Always, 1), (Jit::Always, 3)].into_iter().map(engine).collect()
}

fn functions(engine: &Engine, text: &str) -> Module {
    Module::from_source(engine, "test.dual", text).unwrap_or_else(|error| panic!("{error}"))
}

fn flat(module: &Module, name: &str) -> FlatFunction {
    let function = module.function(name).unwrap_or_else(|error| panic!("{error}"));
    function.flat().unwrap_or_else(|error| panic!("{error}"))
}

fn numbers(len: usize, factor: f64) -> Vec<f64> {
    (0..len).map(|n| 1.5 + (factor * n as f64).sin()).collect()
}

/// Indices of as many elements, in another order.
fn places(len: usize) -> Vec<i64> {
    (0..len as i64).map(|n| (n * 7 + 3) % len as i64).collect()
}

/// Functions of two arrays of reals and one of indices whose value is a real: what reads arrays, hands them on, keeps
/// them in objects, copies them, and makes so much garbage that objects move.
const REALS: &str = r"
    type Box = Empty | Full (Array Real) (Array Int)

    def dot (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real = sum [| xs[i] * ys[i] for i < length xs |]
    def gather (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      loop s = 0.0 for n in ns do s + xs[n] * ys[n] * s / 100
    def branches (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      loop s = 0.0 for i < length xs do
        let x = xs[i] in if x > ys[ns[i]] then s + x * x else loop t = s for j < 3 do t * 0.5 + ys[i] * x
    def captured (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      let at = \n -> xs[n] * ys[ns[n]] in sum (map at ns)
    def in_objects (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      let boxes = [Full xs ns, Empty, Full ys ns] in
      let read = \b -> (match b with Empty -> 1.0 | Full zs ms -> zs[ms[1]] * zs[0]) in
      fold (\s b -> s * read b) 1.0 boxes
    def in_arrays (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      let rows = [| xs, ys, xs |] in sum [| sum (map sin row) * row[ns[0]] for row in rows |]
    def slices (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      let part = xs[1 .. 20] in dot part ys[3 .. 22] ns + sum (concat [| xs, part, ys |])
    def sorted (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      let zs = sort xs in sum [| zs[i] * ys[i] for i < length zs |]
    def changed (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      let zs = loop zs = xs for n in ns do { zs with [n] = zs[n] * ys[n] + 1 } in dot zs xs ns
    def garbage (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      let keep = (xs, [| ys, xs |], \n -> ys[n]) in
      let (zs, rows, f) = keep in
      loop s = 0.0 for i < 40 do
        let made = [| z * to_real i for z in zs for k < 60 |] in
        s + made[i] + sum rows[i % 2] + f ns[i % length ns]
    def tasks (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      let part = \k -> loop s = 0.0 for i < length xs do s + xs[i] * sin (ys[ns[i]] * to_real k) in
      let parts = pmap part [| 0, 1, 2, 3 |] in sum parts
    def differentiated (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      let g = grad (\zs -> sum (map (\z -> z * z * z) zs) * zs[ns[0]]) xs in sum [| g[i] * ys[i] for i < length g |]
    def forward (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      let (_, d) = jvp (\zs -> sum [| zs[i] * zs[i] * ys[i] for i < length zs |]) xs ys in d
    def saved (xs : Array Real) (ys : Array Real) (ns : Array Int) : Real =
      checkpoint (\(us, vs) -> dot us vs ns * us[0]) (xs, ys)
";

/// The same with arrays of reals as results, some of them arguments.
const ARRAYS: &str = r"
    def first (xs : Array Real) (ys : Array Real) (ns : Array Int) : Array Real = xs
    def scaled (xs : Array Real) (ys : Array Real) (ns : Array Int) : Array Real = [| 2 * x for x in xs |]
    def either (xs : Array Real) (ys : Array Real) (ns : Array Int) : Array Real = if xs[0] > 0 then ys else xs
    def both (xs : Array Real) (ys : Array Real) (ns : Array Int) : (Array Real, Array Int, Array Real) = (ys, ns, ys)
";

fn names(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix("def "))
        .filter_map(|line| line.split(' ').next())
        .collect()
}

fn bits(xs: &[f64]) -> Vec<u64> {
    xs.iter().map(|x| x.to_bits()).collect()
}

/// Everything but times and what is allocated, of which a run that copies has more.
fn counts(stats: &Stats) -> [u64; 5] {
    [stats.instructions, stats.records, stats.slots, stats.tape_bytes, stats.imports]
}

/// The cotangents of the results in a frame, of each as many as it has reals.
fn weights(frame: &CallFrame) -> Vec<Vec<f64>> {
    let of = |value: FlatValue<'_>| match value {
        FlatValue::Real(_) => vec![1.0],
        FlatValue::Reals(xs) => numbers(xs.len(), 0.3),
        _ => Vec::new(),
    };
    frame.results().expect("the call has succeeded").iter().map(of).collect()
}

/// The same as they are handed over.
fn cotangents<'w>(frame: &CallFrame, weights: &'w [Vec<f64>]) -> Vec<FlatValue<'w>> {
    let of = |(value, weights): (FlatValue<'_>, &'w Vec<f64>)| match value {
        FlatValue::Real(_) => FlatValue::Real(weights[0]),
        FlatValue::Reals(_) => FlatValue::Reals(weights),
        _ => FlatValue::Null,
    };
    frame.results().expect("the call has succeeded").iter().zip(weights).map(of).collect()
}

#[test]
fn what_is_borrowed_gives_what_copies_give() {
    let text = REALS.to_owned() + ARRAYS;
    let mut answers: Vec<Vec<u64>> = Vec::new();
    for engine in engines() {
        let module = functions(&engine, &text);
        let mut found = Vec::new();
        for (name, len) in names(&text).into_iter().flat_map(|name| LENGTHS.map(|len| (name, len))) {
            let f = flat(&module, name);
            let (xs, ys, ns) = (numbers(len, 0.7), numbers(len, 1.3), places(len));
            let args = [FlatValue::Reals(&xs), FlatValue::Reals(&ys), FlatValue::Ints(&ns)];
            let mut copied = CallFrame::new();
            f.record(&mut copied, &args).unwrap_or_else(|error| panic!("{name}: {error}"));
            let weights = weights(&copied);
            let cotangents = cotangents(&copied, &weights);
            let expected = copied.recorded().expect("it was recorded").pullback(&cotangents).map(|by| bits(by.reals()));
            let expected = expected.unwrap_or_else(|error| panic!("{name}: {error}"));

            let mut frame = CallFrame::new();
            let (_, gradient) = f.vjp(&mut frame, &args, &cotangents).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(bits(gradient.reals()), expected, "{name} of {len}");
            assert!(frame.recorded().is_none(), "{name}: the arguments may be gone");
            let (one, other) = (frame.stats().unwrap(), copied.stats().unwrap());
            assert_eq!(counts(&one), counts(&other), "{name} of {len}");
            // A result that is an argument has been copied.
            if len >= 32 && REALS.contains(name) {
                assert_eq!(other.allocated_bytes - one.allocated_bytes, 3 * 8 * len as u64, "{name} of {len}");
            }
            let results = |frame: &CallFrame| -> Vec<u64> {
                let of = |value: FlatValue<'_>| match value {
                    FlatValue::Real(x) => vec![x.to_bits()],
                    FlatValue::Reals(xs) => bits(xs),
                    FlatValue::Ints(ns) => ns.iter().map(|&n| n as u64).collect(),
                    _ => Vec::new(),
                };
                frame.results().expect("the call has succeeded").iter().flat_map(of).collect()
            };
            assert_eq!(results(&frame), results(&copied), "{name} of {len}");
            f.call(&mut frame, &args).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(results(&frame), results(&copied), "{name} of {len}");
            found.push([results(&copied), expected].concat());
        }
        answers.push(found.concat());
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "all engines find the same");
}

#[test]
fn nothing_that_is_left_of_a_call_is_the_hosts() {
    for engine in engines() {
        let module = functions(&engine, ARRAYS);
        let (first, both) = (flat(&module, "first"), flat(&module, "both"));
        let mut frame = CallFrame::new();
        let (ones, twos, ns) = (vec![1.0; 500], vec![2.0; 500], vec![7; 500]);
        let mut args = (ones, twos, ns);
        let of = |(xs, ys, ns): &(Vec<f64>, Vec<f64>, Vec<i64>)| -> [FlatValue<'static>; 3] {
            // SAFETY: for the test alone: the vectors live until they are written to below.
            unsafe {
                [
                    FlatValue::Reals(std::slice::from_raw_parts(xs.as_ptr(), xs.len())),
                    FlatValue::Reals(std::slice::from_raw_parts(ys.as_ptr(), ys.len())),
                    FlatValue::Ints(std::slice::from_raw_parts(ns.as_ptr(), ns.len())),
                ]
            }
        };
        let spoil = |args: &mut (Vec<f64>, Vec<f64>, Vec<i64>)| {
            args.0.fill(f64::NAN);
            args.1.fill(f64::NAN);
            args.2.fill(-1);
        };
        let renew = |args: &mut (Vec<f64>, Vec<f64>, Vec<i64>)| {
            args.0.fill(1.0);
            args.1.fill(2.0);
            args.2.fill(7);
        };
        both.call(&mut frame, &of(&args)).unwrap();
        spoil(&mut args);
        let expected = [FlatValue::Reals(&[2.0; 500]), FlatValue::Ints(&[7; 500]), FlatValue::Reals(&[2.0; 500])];
        assert_eq!(frame.results().unwrap().iter().collect::<Vec<_>>(), expected);

        renew(&mut args);
        let weights = [FlatValue::Reals(&[3.0; 500])];
        first.vjp(&mut frame, &of(&args), &weights).unwrap();
        spoil(&mut args);
        assert_eq!(frame.results().unwrap().get(0), Some(FlatValue::Reals(&[1.0; 500])));
        assert_eq!(&frame.gradient().unwrap().reals()[..500], &[3.0; 500]);

        renew(&mut args);
        let moved = [FlatValue::Reals(&[5.0; 500]), FlatValue::Reals(&[6.0; 500]), FlatValue::Null];
        first.jvp(&mut frame, &of(&args), &moved).unwrap();
        spoil(&mut args);
        assert_eq!(frame.results().unwrap().get(0), Some(FlatValue::Reals(&[1.0; 500])));
        assert_eq!(frame.tangents().unwrap().iter().next(), Some(FlatValue::Reals(&[5.0; 500])));

        renew(&mut args);
        first.record(&mut frame, &of(&args)).unwrap();
        spoil(&mut args);
        let mut recorded = frame.recorded().unwrap();
        assert_eq!(recorded.pullback(&weights).unwrap().reals()[..500], [3.0; 500]);
        assert_eq!(frame.results().unwrap().get(0), Some(FlatValue::Reals(&[1.0; 500])));
    }
}

/// What is borrowed takes no memory of the run's, in calls with values, too, and in gradients.
#[test]
fn what_is_borrowed_takes_no_memory() {
    const LEN: usize = 100_000;
    let limits = Limits { live_bytes: 1 << 20, allocated_bytes: 100_000, ..Limits::default() };
    let options = CallOptions::with_limits(limits);
    for engine in engines() {
        let module = functions(&engine, REALS);
        let dot = module.function("dot").unwrap();
        let (xs, ys, ns) = (numbers(LEN, 0.7), numbers(LEN, 1.3), places(LEN));
        let expected: f64 = xs.iter().zip(&ys).map(|(x, y)| x * y).sum();
        let typed = dot.typed::<(&[f64], &[f64], &[i64]), f64>().unwrap();
        let (value, stats) = typed.call_with((&xs, &ys, &ns), &options).unwrap();
        assert!(same(value, expected) && stats.allocated_bytes < 1000, "{stats:?}");
        let args: Vec<Value> = vec![xs.as_slice().into(), ys.as_slice().into(), Value::Array(vec![Value::Int(0); 1])];
        let found = dot.value_and_grad_with(&args, &options).unwrap();
        assert!(same(found.value, expected) && found.stats.allocated_bytes < 1000, "{:?}", found.stats);
        assert_eq!(found.gradient[0], Value::Reals(ys));
    }
}

/// Rows of a matrix and of arrays of arrays.
#[test]
fn rows_are_borrowed_each_by_itself() {
    let text = "def product (rows : Array (Array Real)) (v : Array Real) : Array Real =
          [| sum [| row[i] * v[i] for i < length v |] for row in rows |]
        def norm (m : Matrix Real) (v : Array Real) : Real = sum [| m[i, j] * v[j] for i < rows m, j < columns m |]";
    for engine in engines() {
        let module = functions(&engine, text);
        let find = |name: &str| -> Function { module.function(name).unwrap() };
        let (a, v) = (numbers(40 * 50, 0.1), numbers(50, 0.9));
        let rows: Vec<&[f64]> = a.chunks(50).collect();
        let expected: Vec<f64> = rows.iter().map(|row| row.iter().zip(&v).map(|(a, x)| a * x).sum()).collect();
        let product = find("product").typed::<(&[&[f64]], &[f64]), Vec<f64>>().unwrap();
        let (found, stats) = product.call_with((&rows, &v), &CallOptions::default()).unwrap();
        assert_eq!(found, expected);
        // The headers of 41 arrays, and what refers to 40 of them; and the result.
        assert_eq!(stats.allocated_bytes, 41 * 32 + 2 * (32 + 40 * 8));
        let norm = find("norm").typed::<(dualvm::Matrix<'_, f64>, &[f64]), f64>().unwrap();
        let matrix = dualvm::Matrix::new(&a, [40, 50]).unwrap();
        let (_, (by_m, by_v)) = norm.value_and_grad((matrix, &v)).unwrap();
        assert_eq!(by_m, v.repeat(40));
        let columns: Vec<f64> = (0..50).map(|j| rows.iter().rev().map(|row| row[j]).sum()).collect();
        assert!(by_v.iter().zip(&columns).all(|(a, b)| (a - b).abs() < 1e-12 * b.abs()), "{by_v:?} {columns:?}");
    }
}

/// For hosts that can't keep others from writing to arguments.
#[test]
fn a_host_may_ask_for_copies() {
    let xs = numbers(1000, 0.7);
    for engine in engines() {
        let module = functions(&engine, ARRAYS);
        let options = CallOptions::default().copying_arguments();
        let args: Vec<Value> = vec![xs.as_slice().into(), xs.as_slice().into(), Value::Array(vec![Value::Int(0)])];
        let scaled = module.function("scaled").unwrap();
        let allocated = |options: &CallOptions| {
            let by_value = scaled.call_with(&args, options).unwrap().1.allocated_bytes;
            let typed = scaled.typed::<(&[f64], &[f64], &[i64]), Vec<f64>>().unwrap();
            let by_type = typed.call_with((&xs, &xs, &[0]), options).unwrap().1.allocated_bytes;
            let mut frame = CallFrame::with_options(options.clone());
            let flat_args = [FlatValue::Reals(&xs), FlatValue::Reals(&xs), FlatValue::Ints(&[0])];
            scaled.flat().unwrap().call(&mut frame, &flat_args).unwrap();
            let tangents = [args[0].clone(), args[1].clone(), Value::Null];
            let moved = scaled.jvp_with(&args, &tangents, options).unwrap().stats.allocated_bytes;
            [by_value, by_type, frame.stats().unwrap().allocated_bytes, moved]
        };
        let (copied, borrowed) = (allocated(&options), allocated(&CallOptions::default()));
        assert_eq!(copied.map(|bytes| bytes - 2 * 8000), borrowed);
    }
}
