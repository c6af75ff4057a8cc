//! What a run of the suite found: as JSON through serde, as tables through `Display`.

use super::costs::{self, Cost, Unit};
use super::{NAME, Plan, Row, Times};
use crate::bench::report::{align, names, time};
use dualvm::Stats;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;

/// The results of the suite.
pub(crate) struct Report<'a> {
    pub(super) plan: &'a Plan,
    pub(super) rows: Vec<Row>,
    pub(super) costs: Vec<Cost>,
}

/// How many threads a program can keep busy.
fn work_by_span(stats: &Stats) -> f64 {
    stats.instructions as f64 / stats.span.max(1) as f64
}

impl Serialize for Report<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("Report", 7)?;
        report.serialize_field("suite", NAME)?;
        report.serialize_field("tiers", &names(&self.plan.tiers))?;
        report.serialize_field("threads", &self.plan.threads)?;
        report.serialize_field("rounds", &self.plan.effort.rounds)?;
        let flat = |row| self.plan.threads.iter().enumerate().map(move |(n, &threads)| Flat { row, threads, n });
        report.serialize_field("results", &self.rows.iter().flat_map(flat).collect::<Vec<_>>())?;
        report.serialize_field("costs_tier", costs::tier(self.plan).name())?;
        report.serialize_field("costs", &self.costs)?;
        report.end()
    }
}

/// A program in a tier on a number of threads, as JSON has it.
struct Flat<'a> {
    row: &'a Row,
    threads: usize,
    n: usize,
}

impl Serialize for Flat<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Row { case, tier, sequential, parallel } = self.row;
        let (times, stats) = &parallel[self.n];
        let mut flat = serializer.serialize_struct("Row", 15)?;
        flat.serialize_field("case", case)?;
        flat.serialize_field("tier", tier.name())?;
        flat.serialize_field("threads", &self.threads)?;
        flat.serialize_field("sequential_forward_ns", &sequential.forward)?;
        flat.serialize_field("sequential_gradient_ns", &sequential.gradient)?;
        flat.serialize_field("forward_ns", &times.forward)?;
        flat.serialize_field("gradient_ns", &times.gradient)?;
        flat.serialize_field("forward_speed_up", &(sequential.forward / times.forward))?;
        flat.serialize_field("gradient_speed_up", &(sequential.gradient / times.gradient))?;
        flat.serialize_field("tasks", &stats.tasks)?;
        flat.serialize_field("imports", &stats.imports)?;
        flat.serialize_field("work", &stats.instructions)?;
        flat.serialize_field("span", &stats.span)?;
        flat.serialize_field("work_by_span", &work_by_span(stats))?;
        flat.serialize_field("sweep_peak_bytes", &stats.sweep_peak_bytes)?;
        flat.end()
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Ratio => "ratio",
            Unit::Arrays => "arrays",
        }
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut cost = serializer.serialize_struct("Cost", 5)?;
        cost.serialize_field("cost", self.name)?;
        cost.serialize_field("threads", &self.threads)?;
        cost.serialize_field("figure", &self.figure)?;
        cost.serialize_field("unit", self.unit.name())?;
        cost.serialize_field("target", &self.target)?;
        cost.end()
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads: Vec<String> = self.plan.threads.iter().map(usize::to_string).collect();
        let tiers = names(&self.plan.tiers).join(", ");
        let rounds = self.plan.effort.rounds;
        writeln!(f, "suite {NAME}: {tiers}, threads {}, medians of {rounds} rounds", threads.join(", "))?;
        writeln!(f, "\ngradient: forward run and sweep; speed-up: against the same without tasks, \"-\" threads")?;
        self.times(f)?;
        writeln!(f, "\ntasks; work / span: how many threads the gradient can keep busy; peak: of adjoints, in bytes")?;
        self.counts(f)?;
        if self.costs.is_empty() {
            return Ok(());
        }
        writeln!(f, "\ncosts ({})", costs::tier(self.plan))?;
        self.costs(f)
    }
}

impl Report<'_> {
    fn times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["case", "tier", "threads", "forward", "speed-up", "gradient", "speed-up", "overhead"];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        for Row { case, tier, sequential, parallel } in &self.rows {
            let line = |threads: String, times: &Times, ups: [String; 3]| {
                let [forward_up, gradient_up, overhead] = ups;
                let (forward, gradient) = (time(times.forward), time(times.gradient));
                let name = [(*case).to_owned(), tier.to_string(), threads];
                name.into_iter().chain([forward, forward_up, gradient, gradient_up, overhead]).collect()
            };
            lines.push(line("-".to_owned(), sequential, [String::new(), String::new(), String::new()]));
            for (&threads, (times, _)) in self.plan.threads.iter().zip(parallel) {
                let up = |without: f64, with: f64| format!("{:.2}", without / with);
                let overhead = 100.0 * (times.gradient / sequential.gradient - 1.0);
                let overhead = if threads == 1 { format!("{overhead:+.1} %") } else { String::new() };
                let ups = [up(sequential.forward, times.forward), up(sequential.gradient, times.gradient), overhead];
                lines.push(line(threads.to_string(), times, ups));
            }
        }
        align(f, &lines)
    }

    fn counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut heads = ["case", "tasks", "imports", "work / span"].map(str::to_owned).to_vec();
        heads.extend(self.plan.threads.iter().map(|threads| format!("peak on {threads}")));
        let mut lines = vec![heads];
        // They are the same in all tiers.
        for row in self.rows.iter().filter(|row| row.tier == self.plan.tiers[0]) {
            let stats = &row.parallel[0].1;
            let mut line = vec![row.case.to_owned(), stats.tasks.to_string(), stats.imports.to_string()];
            line.push(format!("{:.1}", work_by_span(stats)));
            line.extend(row.parallel.iter().map(|(_, stats)| stats.sweep_peak_bytes.to_string()));
            lines.push(line);
        }
        align(f, &lines)
    }

    fn costs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![["", "threads", "found", "target"].map(str::to_owned).to_vec()];
        for cost in &self.costs {
            let found = match cost.unit {
                Unit::Nanoseconds => time(cost.figure),
                Unit::Ratio => format!("{:.2}", cost.figure),
                Unit::Arrays => format!("{:.1}", cost.figure),
            };
            let target = cost.target.map_or_else(String::new, |target| format!("<= {target}"));
            lines.push(vec![meaning(cost.name).to_owned(), cost.threads.to_string(), found, target]);
        }
        align(f, &lines)
    }
}

/// What the table says for a cost.
fn meaning(cost: &str) -> &str {
    match cost {
        "fork_join" => "a fork of two tiny tasks and its join, forward and sweep",
        "fork_join_import" => "the same, each leaf imports an element of an array",
        "deep_fork_doubled" => "deep_fork, twice the depth: ratio of times",
        "shared_array_doubled" => "shared_array, twice the tasks: ratio of times",
        "map_by_sequential" => "a parallel map with 20 operations each, by the same map without tasks",
        "adjoints_of_map" => "arrays of adjoints at a time: parallel map, all samples read all parameters",
        "adjoints_of_tree" => "arrays of adjoints at a time: the same as a tree of forks",
        other => other,
    }
}
