//! What a run of a suite found: as JSON through serde, as a table through `Display`.

use super::THREADS;
use super::cases::{Case, Measure};
use dualvm::Stats;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;

/// The results of a suite.
pub(crate) struct Report {
    pub(crate) suite: &'static str,
    /// Which code of dualvm ran.
    pub(crate) tier: &'static str,
    /// Samples that each median is of.
    pub(crate) rounds: usize,
    pub(crate) rows: Vec<Row>,
}

/// The results of a case. Times are medians in nanoseconds for one run.
pub(crate) struct Row {
    case: &'static str,
    tier: &'static str,
    primal_ns: f64,
    gradient_ns: f64,
    primal_run_ns: f64,
    gradient_run_ns: f64,
    hand_primal_ns: f64,
    hand_gradient_ns: f64,
    paper_gradient_ns: Option<f64>,
    tape_bytes: u64,
    records: u64,
    slots: u64,
    ops: u64,
}

impl Row {
    /// `stats` are those of the gradient; the medians stand in the order of `Measure::ALL`.
    pub(crate) fn new(case: &Case, tier: &'static str, stats: &Stats, medians: [f64; Measure::ALL.len()]) -> Row {
        let [primal_ns, gradient_ns, primal_run_ns, gradient_run_ns, hand_primal_ns, hand_gradient_ns] = medians;
        Row {
            case: case.name,
            tier,
            primal_ns,
            gradient_ns,
            primal_run_ns,
            gradient_run_ns,
            hand_primal_ns,
            hand_gradient_ns,
            paper_gradient_ns: case.paper_gradient_ns,
            tape_bytes: stats.tape_bytes,
            records: stats.records,
            slots: stats.slots,
            ops: case.ops,
        }
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("Report", 4)?;
        report.serialize_field("suite", self.suite)?;
        report.serialize_field("tier", self.tier)?;
        report.serialize_field("rounds", &self.rounds)?;
        report.serialize_field("results", &self.rows)?;
        report.end()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Row", 14)?;
        row.serialize_field("case", self.case)?;
        row.serialize_field("tier", self.tier)?;
        row.serialize_field("threads", &THREADS)?;
        row.serialize_field("primal_ns", &self.primal_ns)?;
        row.serialize_field("gradient_ns", &self.gradient_ns)?;
        row.serialize_field("primal_run_ns", &self.primal_run_ns)?;
        row.serialize_field("gradient_run_ns", &self.gradient_run_ns)?;
        row.serialize_field("hand_primal_ns", &self.hand_primal_ns)?;
        row.serialize_field("hand_gradient_ns", &self.hand_gradient_ns)?;
        row.serialize_field("tape_bytes", &self.tape_bytes)?;
        row.serialize_field("records", &self.records)?;
        row.serialize_field("slots", &self.slots)?;
        row.serialize_field("ops", &self.ops)?;
        row.serialize_field("paper_gradient_ns", &self.paper_gradient_ns)?;
        row.end()
    }
}

/// The last column is left out where no case stands in the paper.
const HEADS: [&str; 11] = [
    "case",
    "primal",
    "gradient",
    "primal run",
    "gradient run",
    "hand primal",
    "hand gradient",
    "gradient/primal",
    "gradient/hand",
    "bytes/op",
    "paper",
];

const PAPER: &str = "\
paper: value and gradient in table 1 of Smeding and Vákár (2024), on another machine and one thread; their times per
element are multiplied by the number of elements.";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = if THREADS == 1 { "1 thread".to_owned() } else { format!("{THREADS} threads") };
        writeln!(f, "suite {}: {}, {threads}, medians of {} rounds", self.suite, self.tier, self.rounds)?;
        let with_paper = self.rows.iter().any(|row| row.paper_gradient_ns.is_some());
        let columns = if with_paper { HEADS.len() } else { HEADS.len() - 1 };
        let mut lines = vec![HEADS.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        let lines: Vec<&[String]> = lines.iter().map(|cells| &cells[..columns]).collect();
        align(f, &lines)?;
        if with_paper { writeln!(f, "\n{PAPER}") } else { Ok(()) }
    }
}

impl Row {
    fn cells(&self) -> [String; HEADS.len()] {
        [
            self.case.to_owned(),
            time(self.primal_ns),
            time(self.gradient_ns),
            time(self.primal_run_ns),
            time(self.gradient_run_ns),
            time(self.hand_primal_ns),
            time(self.hand_gradient_ns),
            format!("{:.2}", self.gradient_ns / self.primal_ns),
            format!("{:.1}", self.gradient_ns / self.hand_gradient_ns),
            format!("{:.1}", self.tape_bytes as f64 / self.ops as f64),
            self.paper_gradient_ns.map_or_else(|| "-".to_owned(), time),
        ]
    }
}

/// Writes lines of cells; the first column stands left, the others right.
pub(super) fn align(f: &mut fmt::Formatter<'_>, lines: &[&[String]]) -> fmt::Result {
    let width = |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    for cells in lines {
        write!(f, "{:<1$}", cells[0], widths[0])?;
        for (cell, width) in cells.iter().zip(&widths).skip(1) {
            write!(f, "  {cell:>width$}")?;
        }
        writeln!(f)?;
    }
    Ok(())
}

/// Three digits and a unit.
pub(super) fn time(ns: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
    // Rounded to three digits first: 999.9 ns are 1.00 µs.
    let (unit, size) = *UNITS.iter().find(|(_, size)| ns >= 0.9995 * size).unwrap_or(&UNITS[3]);
    let x = ns / size;
    let decimals = match x {
        _ if x >= 99.95 => 0,
        _ if x >= 9.995 => 1,
        _ => 2,
    };
    format!("{x:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_have_three_digits() {
        let shown = [0.25, 9.999, 99.99, 999.4, 999.9, 1234.5, 7.6e6, 2e9, 1e12].map(time);
        let expected = ["0.25 ns", "10.0 ns", "100 ns", "999 ns", "1.00 µs", "1.23 µs", "7.60 ms", "2.00 s", "1000 s"];
        assert_eq!(shown, expected);
    }
}
