//! The benchmark that is part of the program: value and gradient of example programs, beside the same by hand in Rust.
//!
//! The examples are embedded, so that it runs wherever the program does. What is measured is in `cases`, how in
//! `measure`, how it is shown in `report`; the command's flags are with the other commands.

#[path = "../benches/gradients/cases.rs"]
mod cases;
#[path = "../benches/gradients/hand.rs"]
mod hand;
pub(crate) mod latency;
mod measure;
mod report;

pub(crate) use cases::{SUITES, Suite, Unsound};
pub(crate) use measure::Effort;
pub(crate) use report::Report;

use dualvm::Engine;

/// Which code of dualvm ran: reports carry it, so that one engine may be compared with another.
const TIER: &str = "interpreter";

/// How many threads a call uses.
const THREADS: u64 = 1;

/// A case that can't be measured.
#[derive(Debug)]
pub(crate) struct BenchError {
    pub(crate) case: &'static str,
    pub(crate) cause: Unsound,
}

/// Checks and measures the cases of a suite on an engine, one after the other. `round` hears of each round, with the
/// name of the case; there are [`rounds`] of them.
pub(crate) fn run(
    suite: &'static Suite,
    engine: &Engine,
    effort: &Effort,
    mut round: impl FnMut(&'static str),
) -> Result<Report, BenchError> {
    let cases = (suite.cases)(engine);
    let measured = cases.iter().map(|case| {
        let failed = |cause| BenchError { case: case.name, cause };
        let stats = case.check().map_err(failed)?;
        let medians = measure::medians(case, effort, || round(case.name)).map_err(|error| failed(error.into()))?;
        Ok(report::Row::new(case, TIER, &stats, medians))
    });
    Ok(Report { suite: suite.name, tier: TIER, rounds: effort.rounds, rows: measured.collect::<Result<_, _>>()? })
}

/// Rounds in a run of a suite.
pub(crate) fn rounds(suite: &Suite, engine: &Engine, effort: &Effort) -> usize {
    (suite.cases)(engine).len() * effort.rounds
}
