//! Batches: the outcomes are those of single calls, to the last bit and in order, on any number of threads and whatever
//! the items fork; an item that fails is alone with that; limits are those of each item, and end and cancellation those
//! of all; batches in batches, in jobs of the pool and from many threads at once end; what doesn't fit is refused.

use dualvm::vm::engine::RunError;
use dualvm::{
    CallFrame, CallOptions, CancelHandle, Column, ColumnError, ColumnMut, Config, Engine, Error, FlatFunction,
    FlatValue, Function, Jit, Limits, Listener, Module, Value,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Traps for some items; loops for different times.
const UNEVEN: &str = "
    def uneven (xs : Array Real) (n : Int) : Real =
      loop s = xs[n % 7] for i < 50 * (n % 11) do s + sin (s * xs[i % 3]) * to_real n";

/// Forks, and traps in the right half of some items.
const FORKS: &str = "
    def part (xs : Array Real) (n : Int) : Real =
      if n % 5 == 4 then xs[1000] else loop s = 1.0 for x in xs do s + cos (s * x) / to_real (n + 1)
    def halves (xs : Array Real) (n : Int) : Real =
      let (a, b) = part xs n |*| part xs (n + 1) in a * b";

fn engine(jit: Jit, threads: usize) -> Engine {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, threads);
    Engine::new(config)
}

fn function(engine: &Engine, text: &str, name: &str) -> Function {
    let module = Module::from_source(engine, "test.dual", text).unwrap_or_else(|error| panic!("{error}"));
    module.function(name).unwrap_or_else(|error| panic!("{error}"))
}

fn engines() -> impl Iterator<Item = Engine> {
    [(Jit::Off, 1), (Jit::Off, 2), (Jit::Always, 2), (Jit::Off, 5), (Jit::Auto, 5)]
        .into_iter()
        .map(|(jit, threads)| engine(jit, threads))
}

/// Arrays of 5 or 7 numbers, so that some items read beyond them.
fn items(count: usize) -> Vec<Vec<Value>> {
    let item = |n: usize| {
        let xs: Vec<f64> = (0..5 + 2 * (n % 2)).map(|k| ((n * 31 + k * 17) % 101) as f64 / 50.0 - 1.0).collect();
        vec![xs.into(), Value::Int(n as i64)]
    };
    (0..count).map(item).collect()
}

/// Outcomes as text, to the last bit.
fn shown<T: std::fmt::Debug, E: std::fmt::Display>(outcomes: &[Result<T, E>]) -> Vec<String> {
    let shown = |outcome: &Result<T, E>| match outcome {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("error: {error}"),
    };
    outcomes.iter().map(shown).collect()
}

#[test]
fn outcomes_are_those_of_single_calls_in_order() {
    for (text, name) in [(UNEVEN, "uneven"), (FORKS, "halves")] {
        let alone = function(&engine(Jit::Off, 1), text, name);
        for count in [0, 1, 3, 400] {
            let items = items(count);
            let expected = items.iter().map(|args| alone.value_and_grad(args)).collect::<Vec<_>>();
            let values = items.iter().map(|args| alone.call(args)).collect::<Vec<_>>();
            assert!(count < 400 || expected.iter().filter(|outcome| outcome.is_err()).count() > 20, "some items trap");
            for engine in engines() {
                let function = function(&engine, text, name);
                assert_eq!(shown(&function.batch().call(&items)), shown(&values));
                assert_eq!(shown(&function.batch().value_and_grad(&items)), shown(&expected));
                let typed = function.typed::<(&[f64], i64), f64>().unwrap_or_else(|error| panic!("{error}"));
                let args = items.iter().map(|args| match &args[..] {
                    [Value::Reals(xs), Value::Int(n)] => (&xs[..], *n),
                    _ => unreachable!("as they were made"),
                });
                let gradients = typed.batch().value_and_grad(args.clone());
                let gradients = gradients
                    .into_iter()
                    .map(|outcome| outcome.map(|(value, (by_xs, ()))| (value, vec![Value::Reals(by_xs), Value::Null])));
                assert_eq!(shown(&gradients.collect::<Vec<_>>()), shown(&expected));
                let called = typed.batch().call(args.clone()).into_iter().map(|outcome| outcome.map(Value::Real));
                assert_eq!(shown(&called.collect::<Vec<_>>()), shown(&values));
                let own = typed.batch().call(args).len();
                assert_eq!(own, count);
            }
        }
    }
}

#[test]
fn products_are_those_of_single_calls() {
    let text = "def f (xs : Array Real) (n : Int) : Real = loop s = 1.0 for x in xs do s * x + xs[n]";
    for engine in engines() {
        let f = function(&engine, text, "f");
        let typed = f.typed::<(&[f64], i64), f64>().unwrap();
        let xs: Vec<[f64; 3]> = (0..100).map(|n| [n as f64, 0.5, -1.0 / (n as f64 + 1.0)]).collect();
        let items = || xs.iter().enumerate().map(|(n, xs)| (&xs[..], (n % 4) as i64));
        let moved = [1.0, -2.0, 0.25];

        let expected: Vec<_> = items().map(|args| typed.jvp(args, (&moved, ()))).collect();
        assert_eq!(shown(&typed.batch().jvp(items().map(|args| (args, (&moved[..], ()))))), shown(&expected));
        let expected: Vec<_> = items().map(|args| typed.vjp(args, &3.0)).collect();
        assert_eq!(shown(&typed.batch().vjp(items().map(|args| (args, 3.0)))), shown(&expected));
        let expected: Vec<_> = items().map(|args| typed.hvp(args, (&moved, ()))).collect();
        assert_eq!(shown(&typed.batch().hvp(items().map(|args| (args, (&moved[..], ()))))), shown(&expected));

        let values = || items().map(|(xs, n)| [Value::Reals(xs.to_vec()), Value::Int(n)]);
        let tangents = [Value::Reals(moved.to_vec()), Value::Null];
        let expected: Vec<_> = values().map(|args| f.jvp(&args, &tangents)).collect();
        assert_eq!(shown(&f.batch().jvp(values().map(|args| (args, &tangents)))), shown(&expected));
        let expected: Vec<_> = values().map(|args| f.vjp(&args, &3.0.into())).collect();
        assert_eq!(shown(&f.batch().vjp(values().map(|args| (args, 3.0.into())))), shown(&expected));
        let expected: Vec<_> = values().map(|args| f.hvp(&args, &tangents)).collect();
        assert_eq!(shown(&f.batch().hvp(values().map(|args| (args, &tangents)))), shown(&expected));
        let expected: Vec<_> = values().map(|args| f.value_and_grad(&args)).collect();
        let as_types = f.batch().value_and_grad_as::<(Vec<f64>, ())>(items());
        let as_types = as_types
            .into_iter()
            .map(|outcome| outcome.map(|(value, (by_xs, ()))| (value, vec![Value::Reals(by_xs), Value::Null])));
        assert_eq!(shown(&as_types.collect::<Vec<_>>()), shown(&expected));
    }
}

fn flat(engine: &Engine, text: &str, name: &str) -> FlatFunction {
    function(engine, text, name).flat().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn columns_are_single_flat_calls() {
    let text = "def scaled (xs : Array Real) (k : Real) (n : Int) =
                  ([| (k + xs[n]) * x for x in xs |], n + 1, sum xs)";
    const ITEMS: usize = 300;
    let xs: Vec<f64> = (0..3 * ITEMS).map(|n| (n as f64).sin()).collect();
    let ks: Vec<f64> = (0..ITEMS).map(|n| n as f64).collect();
    // Every 4 items one that isn't there.
    let ns: Vec<i64> = (0..ITEMS as i64).map(|n| n % 4).collect();
    let args = [Column::from(&xs), Column::from(&ks), Column::from(&ns)];
    // A matrix with a row for each item: x₀, x₁, x₂, k.
    let rows: Vec<f64> = (0..ITEMS).flat_map(|n| [xs[3 * n], xs[3 * n + 1], xs[3 * n + 2], ks[n]]).collect();
    let in_rows = [
        Column::StridedReals { reals: &rows, stride: 4, len: 3 },
        Column::StridedReals { reals: &rows[3..], stride: 4, len: 1 },
        Column::StridedInts { ints: &ns, stride: 1, len: 1 },
    ];
    let cotangents = [Column::Same((&[1.0, 2.0, 3.0]).into()), Column::Same(FlatValue::Null), Column::from(&ks)];
    let tangents = [Column::from(&xs), Column::Same(0.5.into()), Column::Same(FlatValue::Null)];
    for engine in engines() {
        let scaled = flat(&engine, text, "scaled");
        for args in [args, in_rows] {
            let (mut ys, mut counts, mut sums) = (vec![f64::NAN; 3 * ITEMS], vec![-1; ITEMS], vec![f64::NAN; ITEMS]);
            let mut results = [ColumnMut::Reals(&mut ys), ColumnMut::Ints(&mut counts), ColumnMut::Reals(&mut sums)];
            let (mut gradient, mut moved) = (vec![f64::NAN; 4 * ITEMS], vec![f64::NAN; 4 * ITEMS]);
            let batch = scaled.batch();
            let failed = batch.vjp(ITEMS, &args, &cotangents, &mut results, &mut gradient).unwrap();
            let again = batch.jvp(ITEMS, &args, &tangents, (), &mut moved).unwrap();
            assert_eq!(shown::<(), _>(&failed.iter().map(Err).collect::<Vec<_>>()).len(), ITEMS / 4);
            assert_eq!(
                failed.iter().map(|failed| failed.item).collect::<Vec<_>>(),
                (3..ITEMS).step_by(4).collect::<Vec<_>>()
            );
            assert!(failed.iter().all(|failed| matches!(failed.error, RunError::Trap(_))));
            assert_eq!(again.len(), failed.len());

            let mut frame = CallFrame::new();
            for n in 0..ITEMS {
                let x = &xs[3 * n..][..3];
                let given = [x.into(), ks[n].into(), ns[n].into()];
                let w = [(&[1.0, 2.0, 3.0]).into(), FlatValue::Null, ks[n].into()];
                let (by_row, moved_row) = (&gradient[4 * n..][..4], &moved[4 * n..][..4]);
                let Ok((found, derivatives)) = scaled.vjp(&mut frame, &given, &w) else {
                    assert!(ys[3 * n].is_nan() && counts[n] == -1 && sums[n].is_nan());
                    assert!(by_row.iter().chain(moved_row).all(|x| x.is_nan()));
                    continue;
                };
                let found: Vec<FlatValue> = found.iter().collect();
                assert_eq!(found, [(&ys[3 * n..][..3]).into(), counts[n].into(), sums[n].into()]);
                assert_eq!(by_row, derivatives.reals());
                let (_, tangents) = scaled.jvp(&mut frame, &given, &[x.into(), 0.5.into(), FlatValue::Null]).unwrap();
                assert_eq!(tangents.get(0), Some((&moved_row[..3]).into()));
                assert_eq!(tangents.get(2), Some(moved_row[3].into()));
            }
        }
    }
}

#[test]
fn values_gradients_and_products_in_columns() {
    let text = "def f (x : Real) (k : Real) (n : Int) : Real = k * x ^ 3 + to_real n";
    let xs = [1.0, 2.0, 3.0];
    for engine in engines() {
        let f = function(&engine, text, "f").wrt(&["x"]).unwrap().flat().unwrap();
        let args = [Column::from(&xs), Column::Same(2.0.into()), Column::Ints(&[0, 1, 2])];
        let (mut values, mut by_x) = ([0.0; 3], [0.0; 3]);
        let mut gradient = [ColumnMut::Reals(&mut by_x), ColumnMut::Null, ColumnMut::Null];
        assert!(f.batch().value_and_grad(3, &args, &mut values, &mut gradient).unwrap().is_empty());
        assert_eq!((values, by_x), ([2.0, 17.0, 56.0], [6.0, 24.0, 54.0]));

        let (mut values, mut by_x, mut product) = ([0.0; 3], [0.0; 3], [0.0; 3]);
        let tangents = [Column::Same(1.0.into()), Column::Same(FlatValue::Null), Column::Same(FlatValue::Null)];
        assert!(f.batch().hvp(3, &args, &tangents, &mut values, &mut by_x, &mut product).unwrap().is_empty());
        assert_eq!((values, by_x, product), ([2.0, 17.0, 56.0], [6.0, 24.0, 54.0], [12.0, 24.0, 36.0]));

        assert!(
            f.batch()
                .value_and_grad(0, &[Column::Reals(&[]), args[1], Column::Ints(&[])], &mut [0.0; 0], ())
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let engine = engine(Jit::Off, 2);
    let f = flat(&engine, "def f (xs : Array Real) (k : Real) = ([| k * x for x in xs |], length xs)", "f");
    let refused = |args: &[Column<'_>], results: &mut [ColumnMut<'_>]| {
        f.batch().call(2, args, results).map(|failed| failed.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let (xs, ks) = (Column::Reals(&[1.0, 2.0, 3.0, 4.0]), Column::Reals(&[1.0, 2.0]));
    let message = |args: &[Column<'_>]| refused(args, &mut [ColumnMut::Null, ColumnMut::Null]).unwrap_err().to_string();
    assert_eq!(message(&[xs]), "arguments: expected 2 columns (xs, k), found 1");
    assert_eq!(message(&[xs, xs]), "arguments, column of k: expected 2 reals, one for each item, found 4 reals");
    assert_eq!(
        message(&[Column::Reals(&[1.0; 3]), ks]),
        "arguments, column of xs: expected equally many reals for each of 2 items, found 3 reals"
    );
    assert_eq!(
        message(&[xs, Column::Ints(&[1, 2])]),
        "arguments, column of k: expected 2 reals, one for each item, found 2 integers"
    );
    assert_eq!(message(&[xs, Column::Same(3i64.into())]), "argument k: expected Real, found an integer (3)");
    let beyond = Column::StridedReals { reals: &[1.0; 4], stride: 3, len: 2 };
    assert_eq!(
        message(&[beyond, ks]),
        "arguments, column of xs: expected equally many reals for each of 2 items, \
         found 2 of each 3 of 4 reals"
    );
    let overflowing = Column::StridedReals { reals: &[1.0; 4], stride: usize::MAX, len: 2 };
    assert!(matches!(refused(&[overflowing, ks], &mut []), Err(RunError::Column(_))));

    let (mut places, mut count) = ([0.0; 4], [0; 2]);
    let mut two = [ColumnMut::Reals(&mut places), ColumnMut::Reals(&mut [])];
    let error = refused(&[xs, ks], &mut two).unwrap_err().to_string();
    assert_eq!(error, "results, column of result.1: expected 2 integers, one for each item, found 0 places for reals");
    let error = refused(&[xs, ks], &mut [ColumnMut::Null]).unwrap_err().to_string();
    assert_eq!(error, "results: expected 2 columns (result.0, result.1), found 1");
    // Where an item gives another number than there are places for, it alone has failed.
    let mut short = [ColumnMut::Reals(&mut places[..2]), ColumnMut::Ints(&mut count)];
    let failed = refused(&[xs, ks], &mut short).unwrap();
    assert_eq!(failed[0], "item 0: result.0: 2 numbers for 1 place");
    assert_eq!((failed.len(), places, count), (2, [0.0; 4], [0; 2]));
    let failed = f.batch().call(2, &[xs, ks], &mut [0.0; 2]).unwrap();
    assert_eq!(failed[1].to_string(), "item 1: a row: 2 numbers for 1 place");
    assert!(matches!(failed[1].error, RunError::Column(ColumnError::Item { .. })));

    let error = f.batch().value_and_grad(2, &[xs, ks], &mut [0.0; 2], ()).unwrap_err();
    assert!(matches!(error, RunError::NotScalar { .. }));
    let g = flat(&engine, "def g (x : Real) : Real = x", "g");
    let error = g.batch().value_and_grad(2, &[ks], &mut [0.0; 3], ()).unwrap_err();
    assert_eq!(error.to_string(), "values: expected 2 reals, one for each item, found 3 places");
    let error = g.batch().value_and_grad(2, &[ks], &mut [0.0; 2], &mut [0.0; 3]).unwrap_err();
    assert_eq!(error.to_string(), "gradient: expected rows of 1 place for 2 items, found 3 places");
    // How long derivatives are is known before anything runs.
    let error = g.batch().value_and_grad(2, &[ks], None::<&mut [f64]>, Some(&mut [0.0; 4])).unwrap_err();
    assert_eq!(error.to_string(), "gradient: expected rows of 1 place for 2 items, found 4 places");
    let h = flat(&engine, "def h (xs : Array Real) (n : Int) (k : Real) : Real = k * xs[n]", "h");
    let args = [xs, Column::Same(1i64.into()), ks];
    let error = h.batch().value_and_grad(2, &args, (), &mut [0.0; 4]).unwrap_err();
    assert_eq!(error.to_string(), "gradient: expected rows of 3 places for 2 items, found 4 places");
    let mut by_xs = [0.0; 2];
    let mut columns = [ColumnMut::Reals(&mut by_xs), ColumnMut::Null, ColumnMut::Null];
    let error = h.batch().value_and_grad(2, &args, (), &mut columns).unwrap_err();
    assert_eq!(
        error.to_string(),
        "gradient, column of xs: expected 4 reals, 2 for each item, found 2 places for reals"
    );
    assert!(h.batch().value_and_grad(2, &args, (), &mut [0.0; 6]).unwrap().is_empty());
    let error = f.batch().vjp(2, &[xs, ks], &[ks, ks], (), ()).unwrap_err();
    assert_eq!(error.to_string(), "cotangents, column of result.1: expected null for all items, found 2 reals");
}

#[test]
fn limits_are_those_of_each_item() {
    let text = "def count (n : Int) : Int = loop i = 0 while i < n do i + 1";
    for threads in [1, 3] {
        let count = function(&engine(Jit::Off, threads), text, "count");
        let limits = Limits { fuel: 40_000, ..Limits::default() };
        let items = (0..100).map(|n| [Value::Int(if n % 10 == 9 { 100_000 } else { 1000 })]);
        let outcomes = count.batch_with(&CallOptions::with_limits(limits)).call(items);
        for (n, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome.as_ref().err().is_some_and(Error::is_limit), n % 10 == 9);
        }
    }
}

#[test]
fn the_end_of_a_batch_is_that_of_all_items() {
    let text = "def count (n : Real) : Real = loop x = 0.0 while x < n do x + 1";
    for threads in [1, 2] {
        let count = function(&engine(Jit::Off, threads), text, "count");
        let began = Instant::now();
        let options = CallOptions::default().ending_at(began + Duration::from_millis(60));
        let items = (0..1000).map(|n| [Value::Real(if n < 5 { 10.0 } else { 1e100 })]);
        let outcomes = count.batch_with(&options).call(items);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert!(outcomes[0].is_ok());
        assert!(outcomes[5..].iter().all(|outcome| outcome.as_ref().is_err_and(Error::is_limit)));
        // A single call, too, and one that begins after the end.
        let options = CallOptions::default().ending_at(Instant::now() + Duration::from_millis(20));
        assert!(count.call_with(&[1e100.into()], &options).unwrap_err().is_limit());
        let late = count.batch_with(&options).call([[1.0.into()]]);
        assert!(late[0].as_ref().unwrap_err().is_limit());
        assert_eq!(count.call(&[3.0.into()]).unwrap(), 3.0.into());
    }
}

#[test]
fn cancelling_ends_what_is_left() {
    let text = "def count (n : Real) : Real = loop x = 0.0 while x < n do x + 1";
    for threads in [1, 2] {
        let count = function(&engine(Jit::Off, threads), text, "count").typed::<(f64,), f64>().unwrap();
        let handle = CancelHandle::new();
        let options = CallOptions::default().cancelled_by(&handle);
        let outcomes = std::thread::scope(|scope| {
            let batch = scope.spawn(|| count.batch_with(&options).call((0..1000).map(|_| (1e100,))));
            std::thread::sleep(Duration::from_millis(20));
            handle.cancel();
            batch.join().unwrap()
        });
        assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(Error::is_cancelled)));
        let flat = count.batch_with(&options).call([(1.0,)]);
        assert!(flat[0].as_ref().unwrap_err().is_cancelled());
    }
}

#[test]
fn batches_in_each_other_and_from_everywhere_end() {
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let mut config = Config::default();
    config.pool = Some(pool.clone());
    let other = engine(Jit::Off, 2);
    let engine = Engine::new(config);
    let halves = function(&engine, FORKS, "halves");
    let elsewhere = function(&other, FORKS, "halves");
    let items = items(40);
    let expected = shown(&halves.batch().call(&items));
    let check = || {
        // In an item, with its options, without them, and on the threads of another engine.
        let nested = halves.batch().map(0..6, |halves, n, options| {
            let inner = match n % 3 {
                0 => halves.batch_with(options).call(&items),
                1 => halves.batch().call(&items),
                _ => elsewhere.batch().call(&items),
            };
            assert_eq!(shown(&inner), expected);
            halves.call_with(&items[0], options)
        });
        assert!(nested.iter().all(Result::is_ok));
    };
    check();
    pool.install(check);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                check();
                // Single calls that fork, beside them.
                assert!(halves.value_and_grad(&items[0]).is_ok());
            });
        }
    });
}

#[test]
fn traces_come_in_the_order_of_the_items() {
    let text = "def f (n : Int) : Int = trace \"item {n}\" (loop i = 0 while i < 1000 * (20 - n) do i + 1)";
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = lines.clone();
    let listener = Listener::new(move |line| heard.lock().unwrap().push(line.text.to_owned()));
    let f = function(&engine(Jit::Off, 3), text, "f");
    let outcomes = f.batch_with(&CallOptions::default().traced_to(&listener)).call((0..20).map(|n| [Value::Int(n)]));
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(*lines.lock().unwrap(), (0..20).map(|n| format!("item {n}")).collect::<Vec<_>>());
}

#[test]
fn items_run_on_several_threads_and_stay_on_them() {
    let halves = function(&engine(Jit::Off, 2), FORKS, "halves");
    let items = items(64);
    let inside = AtomicUsize::new(0);
    let threads = Mutex::new(std::collections::HashSet::new());
    halves.batch().map(&items, |halves, args, options| {
        // A thread in the middle of an item takes up no other one, though the item forks.
        thread_local!(static BUSY: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
        assert!(!BUSY.replace(true));
        inside.fetch_add(1, Ordering::Relaxed);
        threads.lock().unwrap().insert(std::thread::current().id());
        // Long enough that the other thread wakes up.
        std::thread::sleep(Duration::from_millis(1));
        let outcome = halves.call_with(args, options);
        BUSY.set(false);
        outcome
    });
    assert_eq!(inside.into_inner(), 64);
    assert_eq!(threads.into_inner().unwrap().len(), 2);
}

/// A thread that waits in an item takes up no other item, on top of the first: not even where the item makes calls
/// without its options, of a function that forks on threads of another engine.
#[test]
fn no_item_begins_in_the_middle_of_another() {
    let outer = function(&engine(Jit::Off, 2), "def f (n : Int) : Int = n", "f");
    let halves = function(&engine(Jit::Off, 2), FORKS, "halves");
    let args = items(1).remove(0);
    let value = halves.call(&args).unwrap();
    let again = AtomicUsize::new(0);
    let outcomes = outer.batch().map(0..10_000, |_, _, _| {
        thread_local!(static BUSY: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
        if BUSY.replace(true) {
            again.fetch_add(1, Ordering::Relaxed);
        }
        let found = (halves.call(&args), halves.batch().call([&args, &args]));
        BUSY.set(false);
        let (one, two) = found;
        assert!(two.iter().chain([&one]).all(|outcome| outcome.as_ref().unwrap() == &value));
        Ok(())
    });
    assert_eq!(again.into_inner(), 0);
    assert!(outcomes.iter().all(Result::is_ok));
}

#[test]
fn a_panic_of_the_hosts_goes_on_in_the_host() {
    for threads in [1, 2] {
        let f = function(&engine(Jit::Off, threads), "def f (n : Int) : Int = n", "f");
        let batch = || {
            f.batch().map(0..100, |f, n, options| {
                assert!(n != 50, "the host's own");
                f.call_with(&[Value::Int(n)], options)
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(batch)).is_err());
        assert_eq!(f.batch().call([[Value::Int(3)]])[0].as_ref().unwrap(), &Value::Int(3));
    }
}

#[test]
fn a_number_that_is_not_finite_is_told_with_its_place() {
    let mut config = Config::default();
    (config.trap_nan, config.threads) = (true, 2);
    let f = function(&Engine::new(config), "def f (xs : Array Real) : Real = log xs[1]", "f");
    let outcomes = f.batch().call([[vec![1.0, 1.0].into()], [vec![1.0, 0.0].into()]]);
    assert!(outcomes[0].is_ok());
    assert!(outcomes[1].as_ref().unwrap_err().to_string().contains("xs[1]"), "{:?}", outcomes[1]);
}
