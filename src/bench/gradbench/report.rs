//! What a run of the suite found: as JSON through serde, as a table through `Display`.

use super::super::THREADS;
use super::super::cases::Tier;
use super::super::report::{align, conditions, names, ratio, time};
use super::NAME;
use crate::gradbench::Tape;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;

/// The results of the suite.
pub(crate) struct Report {
    pub(super) tiers: Vec<Tier>,
    pub(super) rows: Vec<Row>,
}

/// An eval in a size. Times are medians in nanoseconds.
pub(super) struct Row {
    pub(super) eval: &'static str,
    pub(super) size: &'static str,
    pub(super) ops: u64,
    /// Samples that each median is of.
    pub(super) rounds: usize,
    pub(super) hand: Times,
    pub(super) tiers: Vec<TierResult>,
}

#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) primal: f64,
    pub(super) derivative: f64,
}

pub(super) struct TierResult {
    pub(super) tier: Tier,
    pub(super) times: Times,
    /// What a derivative writes.
    pub(super) tape: Tape,
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("Report", 3)?;
        report.serialize_field("suite", NAME)?;
        report.serialize_field("tiers", &names(&self.tiers))?;
        let results = self.rows.iter().flat_map(|row| row.tiers.iter().map(move |tier| Flat { row, tier }));
        report.serialize_field("results", &results.collect::<Vec<_>>())?;
        report.end()
    }
}

/// An eval in a size and a tier, as JSON has it.
struct Flat<'a> {
    row: &'a Row,
    tier: &'a TierResult,
}

impl Serialize for Flat<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Flat { row, tier } = self;
        let mut flat = serializer.serialize_struct("Row", 12)?;
        flat.serialize_field("case", row.eval)?;
        flat.serialize_field("size", row.size)?;
        flat.serialize_field("tier", tier.tier.name())?;
        flat.serialize_field("threads", &THREADS)?;
        flat.serialize_field("rounds", &row.rounds)?;
        flat.serialize_field("primal_ns", &tier.times.primal)?;
        flat.serialize_field("derivative_ns", &tier.times.derivative)?;
        flat.serialize_field("hand_primal_ns", &row.hand.primal)?;
        flat.serialize_field("hand_derivative_ns", &row.hand.derivative)?;
        flat.serialize_field("tape_bytes", &tier.tape.bytes)?;
        flat.serialize_field("records", &tier.tape.records)?;
        flat.serialize_field("ops", &row.ops)?;
        flat.end()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds = self.rows.iter().map(|row| row.rounds);
        let (least, most) = (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0));
        writeln!(f, "suite {NAME}: {}, medians of {least} to {most} rounds", conditions(&self.tiers))?;
        writeln!(f, "\nwhole calls; / hand are ratios to the hand-written primal")?;
        align(f, &self.lines())?;
        // The mean of one is that one.
        let mut evals = self.rows.iter().map(|row| row.eval).filter(|&eval| eval != WANTS_FORWARD_MODE);
        let first = evals.next();
        if evals.any(|eval| Some(eval) != first) { self.means(f) } else { Ok(()) }
    }
}

/// Its derivative is a Jacobian of some 28 columns in forward mode, which no gradient compares with.
const WANTS_FORWARD_MODE: &str = "ht";

impl Report {
    /// Lines with a group of columns by hand and one for each tier; the first two are heads.
    fn lines(&self) -> Vec<Vec<String>> {
        let mut groups = vec!["", "", "by hand", "", ""];
        let mut heads = vec!["eval", "size", "primal", "derivative", "/ primal"];
        for tier in &self.tiers {
            groups.extend([tier.name(), "", "", ""]);
            heads.extend(["primal", "/ hand", "derivative", "/ hand"]);
        }
        groups.extend(["tape", ""]);
        heads.extend(["records", "bytes/op"]);
        let mut lines = [groups, heads].map(|line| line.into_iter().map(str::to_owned).collect()).to_vec();
        for Row { eval, size, ops, hand, tiers, .. } in &self.rows {
            let mut line: Vec<String> = vec![(*eval).to_owned(), (*size).to_owned(), time(hand.primal)];
            line.extend([time(hand.derivative), ratio(hand.derivative / hand.primal)]);
            for Times { primal, derivative } in tiers.iter().map(|tier| tier.times) {
                line.extend([time(primal), ratio(primal / hand.primal)]);
                line.extend([time(derivative), ratio(derivative / hand.primal)]);
            }
            // Records are the same in all tiers.
            let Tape { records, bytes } = tiers[0].tape;
            line.extend([records.to_string(), format!("{:.1}", bytes as f64 / *ops as f64)]);
            lines.push(line);
        }
        lines
    }

    /// Geometric means of the ratios, for each size.
    fn means(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without = match self.rows.iter().any(|row| row.eval == WANTS_FORWARD_MODE) {
            true => format!(", without {WANTS_FORWARD_MODE}, which wants forward mode"),
            false => String::new(),
        };
        writeln!(f, "\ngeometric means of the ratios{without}")?;
        let heads = self.tiers.iter().flat_map(|tier| [tier.name(), ""]);
        let mut lines = vec![["size", "by hand"].into_iter().chain(heads).map(str::to_owned).collect::<Vec<_>>()];
        let mut sizes: Vec<&str> = self.rows.iter().map(|row| row.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes.into_iter().rev() {
            let rows = self.rows.iter().filter(|row| row.size == size && row.eval != WANTS_FORWARD_MODE);
            let rows: Vec<&Row> = rows.collect();
            let mean = |part: &dyn Fn(&Row) -> f64| {
                let sum: f64 = rows.iter().map(|row| (part(row) / row.hand.primal).ln()).sum();
                ratio((sum / rows.len() as f64).exp())
            };
            let mut line = vec![size.to_owned(), mean(&|row| row.hand.derivative)];
            for n in 0..self.tiers.len() {
                line.push(format!("primal {}", mean(&|row| row.tiers[n].times.primal)));
                line.push(format!("derivative {}", mean(&|row| row.tiers[n].times.derivative)));
            }
            lines.push(line);
        }
        align(f, &lines)
    }
}
