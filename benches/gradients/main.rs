//! Value and gradient of the example programs, beside the same by hand in Rust, with Criterion's statistics and its
//! comparison with the run before. `dualvm bench` measures the same programs and makes a table of them.
//!
//! `cargo bench --bench gradients` prints six figures per program: `primal` and `gradient` in dualvm, `primal_run` and
//! `gradient_run` of the same without the conversion of values, `hand_primal` and `hand_gradient` in Rust.

#[expect(dead_code, reason = "the command's report shows more of a case")]
mod cases;
mod hand;

use cases::{Measure, SUITES};
use criterion::{Criterion, criterion_group, criterion_main};
use dualvm::Engine;

fn programs(c: &mut Criterion) {
    let engine = Engine::default();
    let mut measured = Vec::new();
    for case in SUITES.iter().flat_map(|suite| (suite.cases)(&engine)) {
        if measured.contains(&case.name) {
            continue;
        }
        measured.push(case.name);
        if let Err(unsound) = case.check() {
            panic!("{}: {unsound}", case.name);
        }
        let mut group = c.benchmark_group(case.name);
        for measure in Measure::ALL {
            let time = |times| case.time(measure, times).expect("the examples run");
            group.bench_function(measure.to_string(), |b| b.iter_custom(time));
        }
        group.finish();
    }
}

criterion_group!(benches, programs);
criterion_main!(benches);
