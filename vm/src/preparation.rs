//! From verified bytecode to the streams that the interpreter runs: one for primal runs, one for recording runs.
//!
//! A stream is what a function's start reaches of its code, with operands resolved: register lists split by bank, field
//! numbers turned into offsets, jump targets into stream positions, and the fuel of a stretch of code put on the
//! instruction that ends it. The recording stream also holds the segment ends, and loops that are recorded as one as
//! their paths, each on its own ([`crate::preparation::loop_detection`]). Regions stand there with what they
//! save ([`crate::preparation::region_detection`]). Both are made on first use and belong to the module.

mod activity;
mod builder_names;
mod checks;
mod emitter;
pub(crate) mod flow;
mod handed_on;
pub(crate) mod liveness;
pub(crate) mod loop_detection;
mod nesting;
pub(crate) mod pressure;
pub(crate) mod refusal;
pub(crate) mod region_detection;
mod rename;
pub(crate) mod segmentation;
pub(crate) mod stretch;

use crate::bytecode::isa::Bank;
use crate::bytecode::module::{Function, ModuleDef};
use crate::code::{Mode, Position, Stream};
use crate::records::recorded_loop::LoopCode;
use crate::records::region::{RegionCode, RegionPlan};
use crate::records::segment::{SegmentCode, SegmentStructure};
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use checks::Checked;
use emitter::{Emitter, PlannedRegion};
use flow::{Block, FlowGraph};
use refusal::Notes;
use region_detection::Facts;
use segmentation::Segment;
use std::collections::HashSet;

/// What deriving a block of a region takes, in the units of [`Watch::tick`].
const REGION_WORK: usize = 1 << 12;

/// What a record of a recording run stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grain {
    /// As much as can be: a region, a loop, or a segment.
    Region,
    /// A segment, of which is known which of its derivatives can be other than zero. Records say then what depends on
    /// what, without a look at what they have saved ([`crate::sparsity`]).
    Segment,
    /// An instruction, with all that it has read. What it has computed is looked at ([`checks`]).
    Instruction,
}

/// A stream with the records that it writes.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// Records go by their numbers in the lists below.
    pub(crate) stream: Stream,
    pub(crate) segments: Vec<SegmentCode>,
    /// Those of the segments, if records are as fine as these.
    pub(crate) structures: Vec<SegmentStructure>,
    /// Where the instructions are looked at that the segments are, if records are as fine as these.
    pub(crate) checks: Vec<Position>,
    pub(crate) loops: Vec<LoopCode>,
    pub(crate) regions: Vec<RegionCode>,
}

/// Makes the stream of a function for runs in a mode.
///
/// # Errors
/// What the watch says.
pub(crate) fn prepare(
    module: &ModuleDef,
    function: &Function,
    (mode, grain): (Mode, Grain),
    watch: &Watch<'_>,
) -> Result<Prepared, TrapKind> {
    match (mode.depth(), mode.is_recording(), grain) {
        (_, _, Grain::Instruction) => by_instructions(module, function, mode, watch),
        (0, false, _) => primal(module, function, watch),
        (0, true, Grain::Region) => recording(module, function, None, watch),
        _ => by_segments(module, function, (mode, grain), watch),
    }
}

/// Makes the stream of a function for recording runs, and says what has become of its loops.
pub(crate) fn prepare_with_notes(module: &ModuleDef, function: &Function) -> (Prepared, Notes) {
    let mut notes = Notes::default();
    let prepared = recording(module, function, Some(&mut notes), &Watch::none()).expect("nobody stops it");
    (prepared, notes)
}

fn primal(module: &ModuleDef, function: &Function, watch: &Watch<'_>) -> Result<Prepared, TrapKind> {
    let flow = FlowGraph::of(&function.body, watch)?;
    Emitter::new(module, function, (Mode::PRIMAL, Grain::Region), watch).run(&flow, Vec::new(), Vec::new(), Vec::new())
}

/// Code with components is cut as that of recording runs is, so that a component is computed alike in both.
fn by_segments(
    module: &ModuleDef,
    function: &Function,
    code: (Mode, Grain),
    watch: &Watch<'_>,
) -> Result<Prepared, TrapKind> {
    let StraightLine { function, flow, segments } = straight_line(function, watch)?;
    Emitter::new(module, &function, code, watch).run(&flow, segments, Vec::new(), Vec::new())
}

fn by_instructions(
    module: &ModuleDef,
    function: &Function,
    mode: Mode,
    watch: &Watch<'_>,
) -> Result<Prepared, TrapKind> {
    let Checked { function, flow, segments, checks } = checks::checked(function, watch)?;
    let counted = checks.counted(&flow);
    let emitter = Emitter::new(module, &function, (mode, Grain::Instruction), watch).with_checks(checks);
    let mut prepared = emitter.run(&flow, segments, Vec::new(), Vec::new())?;
    prepared.stream.counted = counted;
    Ok(prepared)
}

/// A function cut into segments as if no loop was recorded as one.
pub(crate) struct StraightLine {
    /// With the registers that the cut has added.
    pub(crate) function: Function,
    pub(crate) flow: FlowGraph,
    pub(crate) segments: Vec<Segment>,
}

/// Cuts all that a function's start reaches.
///
/// # Errors
/// What the watch says.
pub(crate) fn straight_line(function: &Function, watch: &Watch<'_>) -> Result<StraightLine, TrapKind> {
    let mut function = function.clone();
    let flow = FlowGraph::of_recording(&function.body, watch)?;
    rename::rename_loads(&mut function.body, flow.blocks(), watch)?;
    let body = &function.body;
    let params = function.params.iter().filter(|ty| ty.bank() == Bank::Real).count();
    let constants = segmentation::constant_registers(body, &flow, Bank::Real, params, watch)?;
    let live = liveness::live_out(body, Bank::Real, &flow, watch)?;
    let mut segments = Vec::new();
    for (index, &block) in flow.blocks().iter().enumerate() {
        let live = live.as_ref().map(|live| &live[index]);
        segments.extend(segmentation::cut(body, block, live, &constants, watch)?);
    }
    Ok(StraightLine { function, flow, segments })
}

fn recording(
    module: &ModuleDef,
    function: &Function,
    mut notes: Option<&mut Notes>,
    watch: &Watch<'_>,
) -> Result<Prepared, TrapKind> {
    let mut function = function.clone();
    let flow = FlowGraph::of_recording(&function.body, watch)?;
    rename::rename_loads(&mut function.body, flow.blocks(), watch)?;
    let body = &function.body;
    let params_of = |bank| function.params.iter().filter(|ty| ty.bank() == bank).count();
    let constants_of = |bank| segmentation::constant_registers(body, &flow, bank, params_of(bank), watch);
    let constants = constants_of(Bank::Real)?;
    let live = liveness::live_out(body, Bank::Real, &flow, watch)?;
    let active = activity::active_in(body, params_of(Bank::Real), &flow, watch)?;
    let constants_of_loops = stretch::Constants { reals: &constants, ints: &constants_of(Bank::Int)? };
    let useful = liveness::useful_out(body, &flow, watch)?;
    let sets = [live.as_deref(), useful.as_deref(), active.as_deref()];
    let mut loops = loop_detection::find(body, &flow, sets, &constants_of_loops, watch)?;
    let mut regions = Vec::new();
    if let (Some(live), Some(active)) = (&live, &active) {
        let useful = useful.as_deref().unwrap_or(live);
        let facts = Facts { module, body, flow: &flow, live, useful, active, constants: &constants_of_loops };
        for mut region in region_detection::find(facts, &loops, notes.as_deref_mut(), watch)? {
            watch.tick(REGION_WORK * region.blocks.len())?;
            match (RegionPlan::new(&mut region, body.reals as u16, watch)?, &mut notes) {
                (Ok(plan), _) => regions.push(PlannedRegion { region, plan }),
                (Err(refusal), Some(notes)) => notes.refuse(&region, refusal),
                (Err(_), None) => {}
            }
        }
    } else if let Some(notes) = &mut notes {
        notes.refuse_all(&flow, watch)?;
    }
    let inside: HashSet<usize> = regions.iter().flat_map(PlannedRegion::blocks).collect();
    loops.retain(|found| !inside.contains(&flow.block_at(found.start)));
    if let Some(notes) = notes {
        notes.keep_straight(|found| region_detection::is_recorded_loop(&flow, found, &loops));
    }
    let is_loop = |block: &Block| loops.binary_search_by_key(&block.start, |found| found.start).is_ok();
    let mut segments = Vec::new();
    for (index, &block) in flow.blocks().iter().enumerate().filter(|(n, block)| !is_loop(block) && !inside.contains(n))
    {
        let live = live.as_ref().map(|live| &live[index]);
        segments.extend(segmentation::cut(body, block, live, &constants, watch)?);
    }
    Emitter::new(module, &function, (Mode::RECORDING, Grain::Region), watch).run(&flow, segments, loops, regions)
}
