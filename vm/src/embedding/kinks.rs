//! Where a run was near a point at which a derivative changes.

use crate::bytecode::module::SourcePlace;
use crate::embedding::engine::Stats;
use crate::running::kinks::KinkTable;
use crate::running::program::Program;
use std::fmt;

/// Relative distance within which operands count as near: some thousand times the precision of a real.
pub const KINK_EPSILON: f64 = 1e-9;

/// Where a run was near a point at which a derivative changes, or where the result jumps: see
/// [`crate::engine::Function::kinks`].
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Kinks {
    /// What the run used.
    pub stats: Stats,
    /// The instructions that were near, in the order of places.
    pub sites: Vec<Kink>,
}

/// An instruction that was executed near a tie of its operands, or near a jump.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Kink {
    /// The instruction's mnemonic: `min`, `max`, `abs`, `sign`, `floor`, `ceil`, `round`, `trunc`, `to_int`, or a
    /// comparison: `eq`, `ne`, `lt`, `le`.
    pub operation: &'static str,
    /// The name of the function that it is in.
    pub function: String,
    /// Where that is in the source, if the module says; of code of the language's own, where the program calls it.
    pub place: Option<SourcePlace>,
    /// How many times.
    pub count: u64,
    /// The least distance: of the operands from each other, or of the operand from the jump.
    pub nearest: f64,
}

impl Kinks {
    pub(crate) fn new(program: &Program, table: KinkTable, stats: Stats) -> Self {
        let mut sites: Vec<Kink> = Vec::new();
        for ((func, inst), met) in table.into_met() {
            let function = &program.def.functions[func.index()];
            let place = function.body.location(inst).map(|location| program.def.debug.own_place(location));
            let (operation, function) = (met.op.info().mnemonic, function.name.clone());
            // What stands in the text once may have become several instructions.
            let known = |site: &&mut Kink| place.is_some() && site.place == place && site.operation == operation;
            match sites.iter_mut().find(known) {
                Some(site) => {
                    site.count += met.count;
                    site.nearest = site.nearest.min(met.nearest);
                }
                None => sites.push(Kink { operation, function, place, count: met.count, nearest: met.nearest }),
            }
        }
        sites.sort_by(|a, b| a.place.cmp(&b.place));
        Kinks { stats, sites }
    }
}

impl fmt::Display for Kinks {
    /// A line for each place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.sites.len() == 1 { "" } else { "s" };
        write!(f, "kinks: {} place{plural} near a point where a derivative changes", self.sites.len())?;
        let place = |site: &Kink| match &site.place {
            Some(place) => place.to_string(),
            None => format!("in {}", site.function),
        };
        let places: Vec<String> = self.sites.iter().map(place).collect();
        let width = places.iter().map(|place| place.chars().count()).max().unwrap_or(0);
        for (site, place) in self.sites.iter().zip(places) {
            let Kink { operation, count, nearest, .. } = site;
            let times = if *count == 1 { "time" } else { "times" };
            write!(f, "\n  {place:width$}  {operation:<6}  {count} {times}, nearest {nearest:?}")?;
        }
        Ok(())
    }
}
