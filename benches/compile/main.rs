//! From source text to bytecode, with Criterion: programs of many small definitions, each of which has lambdas for
//! functions of the prelude, and the examples.
//!
//! `cargo bench --bench compile` prints the time of a compilation, and of the former how many definitions that is in a
//! second. The time should be in proportion to their number. Last comes a program of a line that imports such a
//! program, from its text and from bytecode: the latter is compiled and verified once, and linked with the line.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dualvm::frontend::compile;
use dualvm::{CompileOptions, Engine, MemoryImporter, Module};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

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

fn linking(criterion: &mut Criterion) {
    let text = "import library\ndef f (xs : List Real) (k : Real) : Real = library.f7 xs k + library.f1999 xs k";
    let (engine, library) = (Engine::default(), definitions(2_000));
    let module = Module::from_source(&engine, "library.dual", &library).unwrap_or_else(|error| panic!("{error}"));
    let mut files = [MemoryImporter::default(), MemoryImporter::default()];
    files[0].insert("library", library);
    files[1].insert_bytecode("library", module.library());
    let mut group = criterion.benchmark_group("import");
    group.sample_size(10);
    for (name, files) in ["text", "bytecode"].into_iter().zip(files) {
        let options = CompileOptions::default().importing(Arc::new(files));
        group.bench_function(BenchmarkId::new(name, 2_000), |bencher| {
            bencher.iter(|| {
                let module = Module::from_source_with(&engine, "line.dual", text, &options);
                module.unwrap_or_else(|error| panic!("{error}"))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, compiling, linking);
criterion_main!(benches);
