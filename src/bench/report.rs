//! What a run of a suite found: as JSON through serde, as tables through `Display`.

use super::THREADS;
use super::cases::{Case, Tier};
use dualvm::Stats;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;

/// What the results of a suite begin with.
pub(super) struct Head {
    pub(super) suite: &'static str,
    /// Which code of dualvm ran.
    pub(super) tiers: Vec<Tier>,
    /// Samples that each median is of.
    pub(super) rounds: usize,
}

impl Head {
    /// The report as JSON has it.
    pub(super) fn serialize_with<S: Serializer>(
        &self,
        results: &impl Serialize,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("Report", 4)?;
        report.serialize_field("suite", self.suite)?;
        report.serialize_field("tiers", &names(&self.tiers))?;
        report.serialize_field("rounds", &self.rounds)?;
        report.serialize_field("results", results)?;
        report.end()
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "suite {}: {}, medians of {} rounds", self.suite, conditions(&self.tiers), self.rounds)
    }
}

/// What ran, on how many threads.
pub(super) fn conditions(tiers: &[Tier]) -> String {
    let threads = if THREADS == 1 { "1 thread".to_owned() } else { format!("{THREADS} threads") };
    format!("{}, {threads}", names(tiers).join(", "))
}

/// The results of a suite.
pub(crate) struct Report {
    pub(super) head: Head,
    pub(super) rows: Vec<Row>,
}

/// Medians of primal and gradient in nanoseconds for one run.
#[derive(Clone, Copy)]
struct Times {
    primal: f64,
    gradient: f64,
}

/// The results of a case.
pub(crate) struct Row {
    case: &'static str,
    ops: u64,
    elements: Option<u64>,
    hand: Times,
    paper_gradient_ns: Option<f64>,
    tiers: Vec<TierResult>,
}

/// The results of a case in one tier.
struct TierResult {
    tier: Tier,
    /// Whole calls.
    call: Times,
    /// The parts of calls that run code.
    run: Times,
    tape_bytes: u64,
    records: u64,
    slots: u64,
    /// Pieces of native code that the module has after the measurements.
    compiled: usize,
}

impl Row {
    /// `cases` and `stats`, those of the gradient, are by tier. The medians are those by hand, then those of each tier,
    /// in the order of `Measure`.
    pub(crate) fn new(tiers: &[Tier], cases: &[Case], stats: &[Stats], medians: &[f64]) -> Row {
        let times = |pair: &[f64]| Times { primal: pair[0], gradient: pair[1] };
        let of_tier = |(((&tier, case), stats), medians): (((&Tier, &Case), &Stats), &[f64])| TierResult {
            tier,
            call: times(&medians[..2]),
            run: times(&medians[2..]),
            tape_bytes: stats.tape_bytes,
            records: stats.records,
            slots: stats.slots,
            compiled: case.compiled(),
        };
        let Case { name, ops, elements, paper_gradient_ns, .. } = cases[0];
        Row {
            case: name,
            ops,
            elements,
            hand: times(&medians[..2]),
            paper_gradient_ns,
            tiers: tiers.iter().zip(cases).zip(stats).zip(medians[2..].chunks(4)).map(of_tier).collect(),
        }
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let results = self.rows.iter().flat_map(|row| row.tiers.iter().map(move |tier| Flat { row, tier }));
        self.head.serialize_with(&results.collect::<Vec<_>>(), serializer)
    }
}

pub(super) fn names(tiers: &[Tier]) -> Vec<&'static str> {
    tiers.iter().map(|tier| tier.name()).collect()
}

/// A case in a tier, as JSON has it.
struct Flat<'a> {
    row: &'a Row,
    tier: &'a TierResult,
}

impl Serialize for Flat<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Flat { row, tier } = self;
        let mut flat = serializer.serialize_struct("Row", 16)?;
        flat.serialize_field("case", row.case)?;
        flat.serialize_field("tier", tier.tier.name())?;
        flat.serialize_field("threads", &THREADS)?;
        flat.serialize_field("primal_ns", &tier.call.primal)?;
        flat.serialize_field("gradient_ns", &tier.call.gradient)?;
        flat.serialize_field("primal_run_ns", &tier.run.primal)?;
        flat.serialize_field("gradient_run_ns", &tier.run.gradient)?;
        flat.serialize_field("hand_primal_ns", &row.hand.primal)?;
        flat.serialize_field("hand_gradient_ns", &row.hand.gradient)?;
        flat.serialize_field("tape_bytes", &tier.tape_bytes)?;
        flat.serialize_field("records", &tier.records)?;
        flat.serialize_field("slots", &tier.slots)?;
        flat.serialize_field("ops", &row.ops)?;
        flat.serialize_field("elements", &row.elements)?;
        flat.serialize_field("compiled", &tier.compiled)?;
        flat.serialize_field("paper_gradient_ns", &row.paper_gradient_ns)?;
        flat.end()
    }
}

const PAPER: &str = "\
paper: value and gradient in table 1 of Smeding and Vákár (2024), on another machine and one thread; their times per
element are multiplied by the number of elements in the first table.";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.head)?;
        writeln!(f, "\nwhole calls; / hand and / primal are ratios of times")?;
        self.calls(f)?;
        writeln!(f, "\nwithout the conversion of arguments and results")?;
        let lines = self.times(|tier| tier.run);
        align(f, &lines)?;
        if self.rows.iter().any(|row| row.elements.is_some()) {
            writeln!(f, "\nvalue and gradient, per element")?;
            self.per_element(f)?;
        }
        if self.is_in_the_paper() { writeln!(f, "\n{PAPER}") } else { Ok(()) }
    }
}

impl Report {
    /// Whether any case stands in the paper.
    fn is_in_the_paper(&self) -> bool {
        self.rows.iter().any(|row| row.paper_gradient_ns.is_some())
    }

    /// Lines with a group of columns by hand and one for each tier; the first two are heads.
    fn times(&self, part: impl Fn(&TierResult) -> Times) -> Vec<Vec<String>> {
        let mut groups = vec!["", "by hand", ""];
        let mut heads = vec!["case", "primal", "gradient"];
        for tier in &self.head.tiers {
            groups.extend([tier.name(), "", "", "", ""]);
            heads.extend(["primal", "/ hand", "gradient", "/ hand", "/ primal"]);
        }
        let mut lines = [groups, heads].map(|line| line.into_iter().map(str::to_owned).collect()).to_vec();
        for Row { case, hand, tiers, .. } in &self.rows {
            let mut line: Vec<String> = vec![(*case).to_owned(), time(hand.primal), time(hand.gradient)];
            for Times { primal, gradient } in tiers.iter().map(&part) {
                line.extend([time(primal), ratio(primal / hand.primal)]);
                line.extend([time(gradient), ratio(gradient / hand.gradient), ratio(gradient / primal)]);
            }
            lines.push(line);
        }
        lines
    }

    fn calls(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.times(|tier| tier.call);
        lines[0].push("tape".to_owned());
        lines[1].push("bytes/op".to_owned());
        for (line, row) in lines[2..].iter_mut().zip(&self.rows) {
            // Records are the same in all tiers.
            line.push(format!("{:.1}", row.tiers[0].tape_bytes as f64 / row.ops as f64));
        }
        if self.is_in_the_paper() {
            lines[0].push("paper".to_owned());
            lines[1].push("gradient".to_owned());
            for (line, row) in lines[2..].iter_mut().zip(&self.rows) {
                line.push(row.paper_gradient_ns.map_or_else(|| "-".to_owned(), time));
            }
        }
        align(f, &lines)
    }

    fn per_element(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["case", "elements", "by hand"].into_iter().chain(names(&self.head.tiers)).chain(["paper"]);
        let mut lines = vec![heads.map(str::to_owned).collect::<Vec<_>>()];
        for row in &self.rows {
            let Some(elements) = row.elements else { continue };
            let each = |ns: f64| format!("{:.2} ns", ns / elements as f64);
            let mut line = vec![row.case.to_owned(), elements.to_string(), each(row.hand.gradient)];
            line.extend(row.tiers.iter().map(|tier| each(tier.call.gradient)));
            line.push(row.paper_gradient_ns.map_or_else(|| "-".to_owned(), each));
            lines.push(line);
        }
        align(f, &lines)
    }
}

/// Writes lines of cells; the first column stands left, the others right.
pub(super) fn align(f: &mut fmt::Formatter<'_>, lines: &[Vec<String>]) -> fmt::Result {
    let width = |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    for cells in lines {
        let mut line = format!("{:<1$}", cells[0], widths[0]);
        for (cell, width) in cells.iter().zip(&widths).skip(1) {
            line += &format!("  {cell:>width$}");
        }
        writeln!(f, "{}", line.trim_end())?;
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

/// Two digits or more.
pub(super) fn ratio(x: f64) -> String {
    if x >= 99.5 { format!("{x:.0}") } else { format!("{x:.1}") }
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
