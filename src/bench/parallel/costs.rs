//! What tasks cost: time for a fork, time as programs grow, time of a parallel map on one thread, and memory of sweeps
//! where all tasks read the same array. Measured in native code, unless the interpreter is all that is asked for.

use super::{DEEP_FORK, Job, Part, Plan, SHARED_ARRAY, Scale, TREE_SUM, Unsound, deep, medians, shared, wave};
use crate::bench::cases::Tier;
use dualvm::{Engine, Value};

/// How many costs are timed, each in as many rounds.
pub(super) const TIMED: usize = 4;

const SOURCE: &str = include_str!("../../../benches/parallel/costs.dual");

/// A figure.
pub(super) struct Cost {
    pub(super) name: &'static str,
    pub(super) threads: usize,
    pub(super) figure: f64,
    pub(super) unit: Unit,
    /// What it should not be larger than.
    pub(super) target: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Nanoseconds,
    /// Of two times.
    Ratio,
    /// Arrays of adjoints that are in memory at one time.
    Arrays,
}

/// The tier in which costs are measured.
pub(super) fn tier(plan: &Plan) -> Tier {
    plan.tiers.iter().copied().find(|&tier| tier != Tier::Interpreter).unwrap_or(Tier::Interpreter)
}

/// Measures all costs on all numbers of threads.
pub(super) fn measure(plan: &Plan, round: &mut impl FnMut(&'static str)) -> Result<Vec<Cost>, (&'static str, Unsound)> {
    let engines = plan.engines(tier(plan));
    let mut costs = Vec::new();
    fork_join(plan, &engines, &mut costs, || round("fork_join")).map_err(|error| ("fork_join", error))?;
    type Sized = fn(Scale, i64) -> Vec<Value>;
    let doubled: [(&str, &str, Sized); 2] = [("deep_fork", DEEP_FORK, deep), ("shared_array", SHARED_ARRAY, shared)];
    for (name, source, args) in doubled {
        let args = [1, 2].map(|times| args(plan.scale, times));
        let both = |engine| args.each_ref().map(|args| Job::new(engine, source, name, args));
        let jobs: Vec<Job<'_>> = engines.iter().flat_map(both).collect();
        let measured: Vec<(&Job<'_>, Part)> = jobs.iter().map(|job| (job, Part::Gradient)).collect();
        let times = medians(&measured, &plan.effort, || round(name)).map_err(|error| (name, error.into()))?;
        let cost = if name == "deep_fork" { "deep_fork_doubled" } else { "shared_array_doubled" };
        costs.extend(plan.threads.iter().zip(times.chunks(2)).map(|(&threads, times)| Cost {
            name: cost,
            threads,
            figure: times[1] / times[0],
            unit: Unit::Ratio,
            target: Some(2.2),
        }));
    }
    map(plan, &engines, &mut costs, || round("map")).map_err(|error| ("map", error))?;
    adjoints(plan, &engines, &mut costs)?;
    Ok(costs)
}

/// The time of a fork with its join, forward and in the sweep: of a tree whose tasks know their arguments only, and of
/// one whose leaves are elements of an array.
fn fork_join(plan: &Plan, engines: &[Engine], costs: &mut Vec<Cost>, mut round: impl FnMut()) -> Result<(), Unsound> {
    let depth = plan.scale.of(16, 8);
    let forks = (1u64 << depth) - 1;
    let trees = [
        ("fork_join", SOURCE, "halves", vec![Value::Real(1.5), Value::Int(depth as i64)], Some(500.0)),
        ("fork_join_import", TREE_SUM, "tree_sum", vec![Value::Reals(vec![1.5; 1 << depth])], None),
    ];
    for (name, source, entry, args, target) in trees {
        let jobs: Vec<Job<'_>> = engines.iter().map(|engine| Job::new(engine, source, entry, &args)).collect();
        let measured: Vec<(&Job<'_>, Part)> = jobs.iter().map(|job| (job, Part::Gradient)).collect();
        let times = medians(&measured, &plan.effort, &mut round)?;
        costs.extend(plan.threads.iter().zip(times).map(|(&threads, time)| Cost {
            name,
            threads,
            figure: time / forks as f64,
            unit: Unit::Nanoseconds,
            target,
        }));
    }
    Ok(())
}

/// A parallel map by the same without tasks.
fn map(plan: &Plan, engines: &[Engine], costs: &mut Vec<Cost>, round: impl FnMut()) -> Result<(), Unsound> {
    let args = [wave(plan.scale.of(1_000_000, 10_000))];
    let sequential = Job::new(&tier(plan).engine(), SOURCE, "mapped_sequential", &args);
    let parallel = engines.iter().map(|engine| Job::new(engine, SOURCE, "mapped", &args));
    let jobs: Vec<Job<'_>> = std::iter::once(sequential).chain(parallel).collect();
    let measured: Vec<(&Job<'_>, Part)> = jobs.iter().map(|job| (job, Part::Gradient)).collect();
    let times = medians(&measured, &plan.effort, round)?;
    costs.extend(plan.threads.iter().zip(&times[1..]).map(|(&threads, time)| Cost {
        name: "map_by_sequential",
        threads,
        figure: time / times[0],
        unit: Unit::Ratio,
        target: (threads == 1).then_some(1.3),
    }));
    Ok(())
}

/// How many arrays of adjoints there are at a time where every sample reads all parameters.
fn adjoints(plan: &Plan, engines: &[Engine], costs: &mut Vec<Cost>) -> Result<(), (&'static str, Unsound)> {
    let (samples, params) = plan.scale.of((10_000, 100_000), (300, 2_000));
    let args = [Value::Int(samples), wave(params)];
    for name in ["whole_map", "whole_tree"] {
        for (engine, &threads) in engines.iter().zip(&plan.threads) {
            let answer = Job::new(engine, SOURCE, name, &args).answer().map_err(|error| (name, error.into()))?;
            costs.push(Cost {
                name: if name == "whole_map" { "adjoints_of_map" } else { "adjoints_of_tree" },
                threads,
                figure: answer.stats.sweep_peak_bytes as f64 / (8 * params) as f64,
                unit: Unit::Arrays,
                target: (threads <= 2).then_some(32.0),
            });
        }
    }
    Ok(())
}
