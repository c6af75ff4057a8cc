//! The benchmark that is part of the program: value and gradient of example programs, beside the same by hand in Rust.
//!
//! The examples are embedded, so that it runs wherever the program does. What is measured is in `cases`, how in
//! `measure`, how it is shown in `report`; the command's flags are with the other commands.

#[path = "../benches/gradients/cases.rs"]
mod cases;
pub(crate) mod derivatives;
pub(crate) mod gradbench;
#[path = "../benches/gradients/hand.rs"]
mod hand;
pub(crate) mod latency;
mod measure;
pub(crate) mod parallel;
mod report;
pub(crate) mod tiering;

pub(crate) use cases::{SUITES, Suite, Tier, Unsound};
pub(crate) use measure::Effort;
pub(crate) use report::Report;

use cases::{Case, Maker, Measure};

/// How many threads a call uses.
const THREADS: u64 = 1;

/// A case that can't be measured.
#[derive(Debug)]
pub(crate) struct BenchError {
    pub(crate) case: &'static str,
    pub(crate) cause: Unsound,
}

/// Which cases of a suite are measured.
pub(crate) struct Selection(Vec<String>);

impl Selection {
    /// Those of these names; all, if there is none.
    pub(crate) fn new(names: Vec<String>) -> Selection {
        Selection(names)
    }

    fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    fn has(&self, case: &str) -> bool {
        self.is_all() || self.0.iter().any(|name| name == case)
    }

    /// How many of these cases are measured.
    fn count(&self, cases: impl IntoIterator<Item = &'static str>) -> usize {
        cases.into_iter().filter(|case| self.has(case)).count()
    }
}

/// Checks and measures cases of a suite, one after the other, each on all tiers side by side. `round` hears of each
/// round, with the name of the case; there are [`rounds`] of them.
pub(crate) fn run(
    suite: &'static Suite,
    only: &Selection,
    tiers: &[Tier],
    effort: &Effort,
    mut round: impl FnMut(&'static str),
) -> Result<Report, BenchError> {
    let engines: Vec<_> = tiers.iter().map(|tier| tier.engine()).collect();
    let mut rows = Vec::new();
    for &Maker { name, make } in suite.cases.iter().filter(|maker| only.has(maker.name)) {
        let cases: Vec<Case> = engines.iter().map(make).collect();
        debug_assert_eq!(cases[0].name, name, "a case is made by the function of its name");
        let failed = |cause| BenchError { case: name, cause };
        let stats = cases.iter().map(Case::check).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        // By hand it is the same whatever runs beside it.
        let by_hand = Measure::BY_HAND.map(|measure| (&cases[0], measure));
        let measured = cases.iter().flat_map(|case| Measure::OF_A_TIER.map(|measure| (case, measure)));
        let measured: Vec<(&Case, Measure)> = by_hand.into_iter().chain(measured).collect();
        let time = |&(case, measure): &(&Case, Measure), times| case.time(measure, times);
        let medians = measure::medians(&measured, effort, time, || round(name));
        let medians = medians.map_err(|error| failed(error.into()))?;
        rows.push(report::Row::new(tiers, &cases, &stats, &medians));
    }
    let head = report::Head { suite: suite.name, tiers: tiers.to_vec(), rounds: effort.rounds };
    Ok(Report { head, rows })
}

/// The names of a suite's cases.
pub(crate) fn names(suite: &Suite) -> impl Iterator<Item = &'static str> {
    suite.cases.iter().map(|maker| maker.name)
}

/// Rounds in a run of a suite.
pub(crate) fn rounds(suite: &Suite, only: &Selection, effort: &Effort) -> usize {
    only.count(names(suite)) * effort.rounds
}
