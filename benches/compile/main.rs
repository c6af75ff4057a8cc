//! From source text to bytecode, with Criterion: programs of many small definitions, each of which has lambdas for
//! functions of the prelude, and the examples.
//!
//! `cargo bench --bench compile` prints the time of a compilation, and of the former how many definitions that is in a
//! second. The time should be in proportion to their number.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dualvm::frontend::compile;
use std::fmt::Write;
use std::path::Path;

/// So many definitions that each fold what they map.
fn definitions(count: usize) -> String {
    let mut text = String::new();
    for i in 0..count {
        let init = i % 7;
        writeln!(
            text,
            "def f{i} (xs : List Real) (k : Real) : Real = \
             fold (\\a x -> a + x * k) {init}.0 (map (\\x -> x * {i}.0 + k) xs)"
        )
        .expect("writing to a string succeeds");
    }
    text
}

fn compiling(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compile");
    group.sample_size(10);
    for count in [2_000, 20_000] {
        let text = definitions(count);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_with_input(BenchmarkId::new("definitions", count), &text, |bencher, text| {
            bencher.iter(|| compile("definitions.dual", text).unwrap_or_else(|errors| panic!("{errors}")));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("compile");
    for name in ["rosenbrock", "hidden_markov", "lstm"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/{name}.dual"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_with_input(BenchmarkId::new("example", name), &text, |bencher, text| {
            bencher.iter(|| compile(name, text).unwrap_or_else(|errors| panic!("{errors}")));
        });
    }
    group.finish();
}

criterion_group!(benches, compiling);
criterion_main!(benches);
