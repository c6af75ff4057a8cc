//! Value and gradient of the example programs, beside the same by hand in Rust.
//!
//! `cargo bench --bench gradients` prints four figures per program: `primal` and `gradient` in dualvm, `hand_primal`
//! and `hand_gradient` in Rust. Arguments and results cross the host's border in every iteration, as they do in use.

#[expect(dead_code, reason = "some of the programs wait for examples of theirs")]
mod hand;

use criterion::{Criterion, criterion_group, criterion_main};
use dualvm::{Engine, Function, Module, Value};
use std::hint::black_box;

/// The function of an example that bears the example's name.
fn example(name: &str) -> Function {
    let file = format!("examples/{name}.dual");
    let text = std::fs::read_to_string(&file).expect("the examples are part of the repository");
    let module = Module::from_source(&Engine::default(), &file, &text).expect("the examples compile");
    module.function(name).expect("an example defines the function that it is named for")
}

/// Measures a program and its hand-written counterpart. The values are compared first.
fn compare<G>(c: &mut Criterion, name: &str, args: &[Value], primal: impl Fn() -> f64, gradient: impl Fn() -> G) {
    let function = example(name);
    let (value, _) = function.value_and_grad(args).expect("the examples run");
    let expected = primal();
    assert!((value - expected).abs() <= 1e-9 * expected.abs(), "{name}: {value} is not {expected}");

    let mut group = c.benchmark_group(name);
    group.bench_function("primal", |b| b.iter(|| function.call(black_box(args)).expect("the examples run")));
    group
        .bench_function("gradient", |b| b.iter(|| function.value_and_grad(black_box(args)).expect("the examples run")));
    group.bench_function("hand_primal", |b| b.iter(&primal));
    group.bench_function("hand_gradient", |b| b.iter(&gradient));
    group.finish();
}

fn ramp(n: usize, step: f64, start: f64) -> Vec<f64> {
    (0..n).map(|i| start + step * i as f64).collect()
}

fn pair(x: f64, y: f64) -> Value {
    Value::Tuple(vec![Value::Real(x), Value::Real(y)])
}

fn programs(c: &mut Criterion) {
    compare(
        c,
        "mult",
        &[3.0.into(), 4.0.into()],
        || hand::mult(black_box(3.0), black_box(4.0)),
        || hand::mult_grad(black_box(3.0), black_box(4.0)),
    );

    let (a, b) = (ramp(10_000, 1.0, 1.0), ramp(10_000, 2.0, 3.0));
    compare(
        c,
        "dotprod",
        &[a.as_slice().into(), b.as_slice().into()],
        || hand::dotprod(black_box(&a), black_box(&b)),
        || hand::dotprod_grad(black_box(&a), black_box(&b)),
    );

    let m: Vec<Vec<f64>> = (0..100).map(|i| ramp(100, 1.0, 100.0 * f64::from(i) + 1.0)).collect();
    let v = ramp(100, 2.0, 3.0);
    let rows = Value::Array(m.iter().map(|row| row.as_slice().into()).collect());
    compare(
        c,
        "summatvec",
        &[rows, v.as_slice().into()],
        || hand::summatvec(black_box(&m), black_box(&v)),
        || hand::summatvec_grad(black_box(&m), black_box(&v)),
    );

    let x: Vec<f64> = (0..10_000).map(|i| (f64::from(i) * 0.7).sin()).collect();
    compare(
        c,
        "rosenbrock",
        &[x.as_slice().into()],
        || hand::rosenbrock(black_box(&x)),
        || hand::rosenbrock_grad(black_box(&x)),
    );

    compare(
        c,
        "newton",
        &[2.0.into(), 1e6.into()],
        || hand::newton(black_box(2.0), black_box(1e6)),
        || hand::newton_grad(black_box(2.0), black_box(1e6)),
    );

    let start = [0.5, 0.1, 1.0, 1.0];
    compare(
        c,
        "spring",
        &[4000_i64.into(), pair(0.5, 0.1), pair(1.0, 1.0)],
        || hand::spring(black_box(4000), black_box(start)),
        || hand::spring_grad(black_box(4000), black_box(start)),
    );
}

criterion_group!(benches, programs);
criterion_main!(benches);
