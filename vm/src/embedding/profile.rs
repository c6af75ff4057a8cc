//! What a recorded run has written to its tapes, by loops and functions of the program, and how long its sweep takes.

use crate::bytecode::module::FuncId;
use crate::code::Inst;
use crate::embedding::engine::Stats;
use crate::embedding::explain::{FunctionExplanation, LoopRanges, Place};
use crate::preparation::flow::FlowGraph;
use crate::records::Kind;
use crate::running::meter::Watch;
use crate::running::program::Program;
use crate::sweep::usage::{Usage, Usages};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// What a recorded run has written to its tapes: see [`crate::engine::Function::profile`].
///
/// Bytes of all sites add up to [`Stats::tape_bytes`], records to [`Stats::records`] and [`Stats::imports`] together.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Profile {
    /// What the run used. The sweep took longer than it does without being timed.
    pub stats: Stats,
    /// What has written records, or taken time in the sweep: that with the most bytes first; of those that have as
    /// many, that whose sweep took longest.
    pub sites: Vec<SiteUsage>,
}

/// What has written records, and how many.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct SiteUsage {
    /// What has written them.
    pub site: Site,
    /// How many records there are.
    pub records: u64,
    /// Their bytes.
    pub tape_bytes: u64,
    /// The time of their sweep.
    pub sweep: Duration,
}

/// What writes records.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Site {
    /// A loop, as a whole or in its rounds: what is in no smaller loop, or recorded together with those in it.
    Loop {
        /// The name of the function.
        function: String,
        /// Where it goes back, as in [`crate::explain::LoopExplanation`].
        place: Place,
    },
    /// What is in no loop of a function.
    Function {
        /// The name of the function.
        function: String,
        /// Where its code begins.
        place: Place,
    },
    /// Arrays made of reals that don't stand side by side on the tape, wherever that is.
    Arrays,
    /// What tasks take over from the tapes of others, wherever that is.
    Imports,
    /// Forks, which have no records: what their sweep takes besides that of their tasks' records.
    Forks,
    /// Gradients that depend on what is recorded around them, and checkpoints: what they keep to run again. The sweep
    /// is what it takes to run them again; records of that count where they belong, by their time only.
    Reruns,
}

/// What is known of a function.
struct Known {
    explanation: FunctionExplanation,
    ranges: LoopRanges,
}

/// A site by numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Code(FuncId, Option<usize>),
    Arrays,
    Imports,
    Forks,
    Reruns,
}

impl Profile {
    pub(crate) fn of(program: &Program, usages: Usages, stats: Stats) -> Profile {
        let mut known: HashMap<FuncId, Known> = HashMap::new();
        // Where what writes records of a number stands.
        let mut places: HashMap<u32, (FuncId, u32)> = HashMap::new();
        for (func, stream) in program.recorded() {
            for (inst, &origin) in stream.code.iter().zip(&stream.origin) {
                let number = match *inst {
                    Inst::SegmentEnd { site } => stream.segments[site].number(),
                    Inst::LoopBegin { site } => stream.loops[site].number(),
                    Inst::RegionBegin { site } => stream.regions[site].number(),
                    _ => continue,
                };
                if usages.contains_key(&number) {
                    places.insert(number, (func, origin));
                }
            }
        }
        let mut sums: BTreeMap<Key, Usage> = BTreeMap::new();
        for (number, usage) in usages {
            let key = match Kind::of(number) {
                Kind::Segment(_) | Kind::Loop(_) | Kind::Region(_) => {
                    let (func, inst) = places[&number];
                    let of = known.entry(func).or_insert_with(|| Known::of(program, func));
                    Key::Code(func, of.ranges.innermost(inst))
                }
                Kind::Pack => Key::Arrays,
                Kind::Import | Kind::ImportRange | Kind::LoopImport | Kind::LoopScatter => Key::Imports,
                Kind::Rerun => Key::Reruns,
                _ => Key::Forks,
            };
            let sum = sums.entry(key).or_default();
            sum.records += usage.records;
            sum.bytes += usage.bytes;
            sum.sweep += usage.sweep;
        }
        let site = |key: Key| match key {
            Key::Code(func, number) => {
                let FunctionExplanation { name, place, loops, .. } = &known[&func].explanation;
                let function = name.clone();
                match number.zip(loops.as_ref()) {
                    Some((number, loops)) => Site::Loop { function, place: loops[number].place.clone() },
                    None => Site::Function { function, place: place.clone() },
                }
            }
            Key::Arrays => Site::Arrays,
            Key::Imports => Site::Imports,
            Key::Forks => Site::Forks,
            Key::Reruns => Site::Reruns,
        };
        let usage =
            |(key, Usage { records, bytes, sweep })| SiteUsage { site: site(key), records, tape_bytes: bytes, sweep };
        let mut sites: Vec<SiteUsage> = sums.into_iter().map(usage).collect();
        sites.sort_by_key(|usage| std::cmp::Reverse((usage.tape_bytes, usage.sweep)));
        Profile { stats, sites }
    }
}

impl Known {
    fn of(program: &Program, func: FuncId) -> Known {
        let body = &program.def.functions[func.index()].body;
        let flow = FlowGraph::of_recording(body, &Watch::none()).expect("nobody stops it");
        let (explanation, ranges) = FunctionExplanation::of(&program.def, func, &flow);
        Known { explanation, ranges }
    }
}
