//! How long batches take on one thread and on two, with Criterion.
//!
//! `cargo bench --bench batch` runs 10,000 items, whose gradients take some 10 µs each, and 1,000,000 that take some 50
//! ns each. `alone` is a loop of single calls. What two threads gain is `typed/1` by `typed/2`: 2 at most.

use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use dualvm::{CallFrame, Column, Config, Engine, FlatFunction, Jit, Module, TypedFunction};
use std::hint::black_box;
use std::time::Duration;

const PROGRAM: &str = "
    def long (xs : Array Real) (k : Real) : Real =
      loop sum = 0.0 for i < 300 do sum + sin (k * xs[i % length xs])
    def short (xs : Array Real) (k : Real) : Real = k * xs[0] + xs[1]";

/// Reals in the array of an item.
const WIDTH: usize = 16;

fn handles(threads: usize, name: &str) -> (TypedFunction<(&'static [f64], f64), f64>, FlatFunction) {
    let mut config = Config::default();
    (config.threads, config.jit) = (threads, Jit::Always);
    let module = Module::from_source(&Engine::new(config), "batch.dual", PROGRAM).expect("the program has no errors");
    let function = module.function(name).expect("the program has the function");
    (function.typed().expect("these are its types"), function.flat().expect("it is flat"))
}

fn batches(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, items: usize) {
    let xs: Vec<f64> = (0..WIDTH * items).map(|n| (n % 17) as f64 * 0.1).collect();
    let xs: &'static [f64] = xs.leak();
    let args = || xs.chunks(WIDTH).map(|xs| (xs, 1.5));
    let (typed, flat) = handles(1, name);
    let mut frame = CallFrame::new();
    group.bench_function("alone/typed", |b| b.iter(|| args().map(|args| typed.value_and_grad(args)).for_each(drop)));
    group.bench_function("alone/flat", |b| {
        b.iter(|| {
            for (xs, k) in args() {
                flat.value_and_grad(&mut frame, &[xs.into(), k.into()]).expect("it runs");
            }
        });
    });
    for threads in [1, 2] {
        let (typed, flat) = handles(threads, name);
        group
            .bench_function(format!("typed/{threads}"), |b| b.iter(|| typed.batch().value_and_grad(black_box(args()))));
        let (mut values, mut gradient) = (vec![0.0; items], vec![0.0; (WIDTH + 1) * items]);
        let columns = [Column::Reals(xs), Column::Same(1.5.into())];
        group.bench_function(format!("flat/{threads}"), |b| {
            b.iter(|| flat.batch().value_and_grad(items, black_box(&columns), &mut values, &mut gradient));
        });
    }
}

fn all(c: &mut Criterion) {
    for (name, items) in [("long", 10_000), ("short", 1_000_000)] {
        let mut group = c.benchmark_group(format!("{name}/{items}"));
        group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
        batches(&mut group, name, items);
    }
}

criterion_group!(benches, all);
criterion_main!(benches);
