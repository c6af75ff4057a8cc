//! Value and gradient of the example programs, beside the same by hand in Rust, with Criterion's statistics and its
//! comparison with the run before. `dualvm bench` measures the same programs and makes a table of them.
//!
//! `cargo bench --bench gradients` prints ten figures per program. Groups `interpreter` and `native` have four each:
//! `primal` and `gradient`, and of the same without the conversion of values `primal_run` and `gradient_run`. Group
//! `hand` has `hand_primal` and `hand_gradient`, in Rust.

#[expect(dead_code, reason = "the command's report shows more of a case")]
mod cases;
mod hand;

use cases::{Case, Measure, SUITES, Tier};
use criterion::{Criterion, criterion_group, criterion_main};

const TIERS: [Tier; 2] = [Tier::Interpreter, Tier::Native];

fn programs(c: &mut Criterion) {
    let engines = TIERS.map(Tier::engine);
    let mut done = Vec::new();
    for maker in SUITES.iter().flat_map(|suite| suite.cases) {
        if done.contains(&maker.name) {
            continue;
        }
        done.push(maker.name);
        let cases = engines.each_ref().map(maker.make);
        for (case, tier) in cases.iter().zip(TIERS) {
            if let Err(unsound) = case.check() {
                panic!("{}, {tier}: {unsound}", case.name);
            }
            group(c, case, tier.name(), &Measure::OF_A_TIER);
        }
        group(c, &cases[0], "hand", &Measure::BY_HAND);
    }
}

fn group(c: &mut Criterion, case: &Case, name: &str, measures: &[Measure]) {
    let mut group = c.benchmark_group(format!("{}/{name}", case.name));
    for &measure in measures {
        let time = |times| case.time(measure, times).expect("the examples run");
        group.bench_function(measure.to_string(), |b| b.iter_custom(time));
    }
    group.finish();
}

criterion_group!(benches, programs);
criterion_main!(benches);
