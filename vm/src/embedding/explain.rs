//! What becomes of the loops and the calls of a function when a run is recorded, and why.
//!
//! The reasons come from where the decisions are made: the function is prepared once more, as for a recording run, and
//! what was decided of its loops is kept. Nothing of it is kept in other runs.

mod display;

pub use crate::preparation::refusal::Refusal;
pub use display::WithSources;

use crate::bytecode::isa::{Inst as Bytecode, Op, Operand};
use crate::bytecode::module::{Body, DebugInfo, FuncId, ModuleDef, SourcePlace};
use crate::code::{Inst, Stream};
use crate::preparation::flow::FlowGraph;
use crate::preparation::prepare_with_notes;
use crate::preparation::refusal::{Decision, LoopNote};
use crate::preparation::region_detection;
use crate::running::meter::Watch;
use std::collections::{BTreeSet, VecDeque};

/// The loops and calls of a function and of all functions that it reaches, as compiled: what the compiler has fused,
/// unrolled, copied into its caller or removed is not there.
///
/// `Display` writes a line for each; [`Explanation::with_sources`] adds the source lines.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The function, then those that it reaches.
    pub functions: Vec<FunctionExplanation>,
}

/// What becomes of a function's loops and calls.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct FunctionExplanation {
    /// The function.
    pub func: FuncId,
    /// Its name.
    pub name: String,
    /// Where its code begins.
    pub place: Place,
    /// The loops, each after those that it is a part of; `None` if there is too much code to look for them.
    pub loops: Option<Vec<LoopExplanation>>,
    /// The calls, in the order of the code.
    pub calls: Vec<CallExplanation>,
    /// The arrays that are copied to change elements of them, in the order of the code; none if there is too much code
    /// to look for loops.
    pub copies: Vec<CopyExplanation>,
}

/// A place in a function.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Place {
    /// The instruction, by its number in the bytecode.
    pub inst: u32,
    /// Where that is in the source, if the module says; of code of the language's own, where the program calls it.
    pub source: Option<SourcePlace>,
}

/// What becomes of a loop.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct LoopExplanation {
    /// Where it goes back: of a loop with a condition, that is the condition.
    pub place: Place,
    /// The smallest loop around it, by its number in the function.
    pub parent: Option<usize>,
    /// How it is recorded.
    pub recording: Recording,
}

/// How a loop is recorded.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Recording {
    /// One record for all rounds of straight-line code.
    Straight,
    /// One record for all rounds, with the loops and branches in it: it is a region.
    Region,
    /// It is part of the region that the loop of this number is.
    InRegion(usize),
    /// It writes nothing: it computes no real that a derivative goes through.
    Nothing,
    /// Each round writes records of its own.
    Rounds(Obstacle),
}

/// Why a loop is not recorded as one.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Obstacle {
    /// The reason.
    pub refusal: Refusal,
    /// The instruction that is in the way, if it is a single one.
    pub place: Option<Place>,
    /// The call that it is, by its number in the function.
    pub call: Option<usize>,
    /// What else the loop holds that is in the way, once for each reason.
    pub more: Vec<Obstacle>,
}

/// A call that the compiled function makes.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct CallExplanation {
    /// Where it is.
    pub place: Place,
    /// What kind it is.
    pub kind: CallKind,
    /// The function, unless it is known at run time only.
    pub callee: Option<String>,
    /// The smallest loop around it, by its number in the function.
    pub parent: Option<usize>,
    /// Why the compiler has not copied the function here, if it is known, as what follows "which": bytecode doesn't
    /// tell.
    pub reason: Option<String>,
}

/// A copy of an array that is made to change elements of it. An array that is changed in place has none, but for one
/// where the loop that changes it is entered; that one is told if it is in a loop itself.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CopyExplanation {
    /// Where it is.
    pub place: Place,
    /// The smallest loop around it, by its number in the function: it is made in each of its rounds.
    pub parent: Option<usize>,
    /// Whether it is then changed in place, by a loop that it is made for.
    pub before_loop: bool,
    /// Why it is made, if it is known, as what follows "because": bytecode doesn't tell.
    pub reason: Option<String>,
    /// What is in the way of changing the array in place, if that is a single place.
    pub cause: Option<SourcePlace>,
}

/// A kind of call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CallKind {
    /// A call of a function.
    Function,
    /// A call of a function value.
    Value,
    /// A task, or the tasks of a parallel map.
    Task,
    /// A call of which a derivative is taken in the program.
    Derivative,
}

impl Place {
    pub(crate) fn of(debug: &DebugInfo, body: &Body, inst: u32) -> Place {
        Place { inst, source: body.location(inst).map(|location| debug.own_place(location)) }
    }
}

impl Explanation {
    /// Linear in the code, but for what deriving adjoints takes.
    pub(crate) fn of(def: &ModuleDef, func: FuncId) -> Explanation {
        let mut functions: Vec<FunctionExplanation> = Vec::new();
        let mut known = vec![false; def.functions.len()];
        known[func.index()] = true;
        let mut waiting = VecDeque::from([func]);
        while let Some(func) = waiting.pop_front() {
            let body = &def.functions[func.index()].body;
            let flow = FlowGraph::of_recording(body, &Watch::none()).expect("nobody stops it");
            for block in flow.blocks() {
                for inst in &body.code[block.start as usize..block.end as usize] {
                    let named = named_function(body, inst);
                    waiting.extend(named.filter(|named| !std::mem::replace(&mut known[named.index()], true)));
                }
            }
            functions.push(FunctionExplanation::of(def, func, &flow).0);
        }
        Explanation { functions }
    }

    /// Gives instructions other numbers.
    pub(crate) fn renumber(&mut self, number: impl Fn(FuncId, u32) -> u32) {
        for FunctionExplanation { func, place, loops, calls, copies, .. } in &mut self.functions {
            let renumber = |place: &mut Place| place.inst = number(*func, place.inst);
            renumber(place);
            calls.iter_mut().for_each(|call| renumber(&mut call.place));
            copies.iter_mut().for_each(|copy| renumber(&mut copy.place));
            for explained in loops.iter_mut().flatten() {
                renumber(&mut explained.place);
                if let Recording::Rounds(obstacle) = &mut explained.recording {
                    let all = obstacle
                        .place
                        .iter_mut()
                        .chain(obstacle.more.iter_mut().filter_map(|more| more.place.as_mut()));
                    all.for_each(renumber);
                }
            }
        }
    }
}

/// The function that an instruction names.
fn named_function(body: &Body, inst: &Bytecode) -> Option<FuncId> {
    if !inst.op.names_function() {
        return None;
    }
    body.operands(inst)?.into_iter().find_map(|operand| match operand {
        Operand::Func(func) => Some(FuncId(func)),
        _ => None,
    })
}

/// Where instructions are: for each loop the ranges of its blocks. Inner loops come after outer ones.
#[derive(Debug, Default)]
pub(crate) struct LoopRanges(Vec<Vec<(u32, u32)>>);

impl LoopRanges {
    fn new(notes: &[LoopNote], flow: &FlowGraph) -> LoopRanges {
        let range = |&block: &usize| (flow.blocks()[block].start, flow.blocks()[block].end);
        LoopRanges(notes.iter().map(|note| note.found.blocks.iter().map(range).collect()).collect())
    }

    /// Whether an instruction is in a loop.
    fn contains(&self, number: usize, inst: u32) -> bool {
        let ranges = &self.0[number];
        let after = ranges.partition_point(|&(start, _)| start <= inst);
        after.checked_sub(1).is_some_and(|at| inst < ranges[at].1)
    }

    /// The smallest loop around an instruction.
    pub(crate) fn innermost(&self, inst: u32) -> Option<usize> {
        (0..self.0.len()).rev().find(|&number| self.contains(number, inst))
    }
}

impl FunctionExplanation {
    /// What becomes of a function's loops and calls, and where these loops are.
    pub(crate) fn of(def: &ModuleDef, func: FuncId, flow: &FlowGraph) -> (FunctionExplanation, LoopRanges) {
        let function = &def.functions[func.index()];
        let body = &function.body;
        let (prepared, notes) = prepare_with_notes(def, function);
        let ranges = notes.loops.as_ref().map(|notes| LoopRanges::new(notes, flow)).unwrap_or_default();
        let calls = calls(def, body, flow, &ranges);
        let copies = if notes.loops.is_some() { Copies::of(def, body, flow, &ranges) } else { Copies::default() };
        let loops = notes.loops.map(|notes| {
            let puts = &copies.puts;
            let loops = Loops { def, body, flow, notes: &notes, ranges: &ranges, calls: &calls, puts };
            let busy = loops.busy(&prepared.stream);
            (0..notes.len()).map(|number| loops.explain(number, &busy)).collect()
        });
        let name = function.name.clone();
        let (place, copies) = (Place::of(&def.debug, body, 0), copies.found);
        (FunctionExplanation { func, name, place, loops, calls, copies }, ranges)
    }
}

/// The copies of arrays that a function makes to change elements of them.
#[derive(Default)]
struct Copies {
    found: Vec<CopyExplanation>,
    /// The instructions that change elements of arrays that were just copied, in order.
    puts: Vec<u32>,
}

impl Copies {
    fn of(def: &ModuleDef, body: &Body, flow: &FlowGraph, ranges: &LoopRanges) -> Copies {
        let mut copies = Copies::default();
        for block in flow.blocks() {
            // The builders that are begun in the block.
            let mut begun = BTreeSet::new();
            for at in block.start..block.end {
                let inst = &body.code[at as usize];
                match inst.op {
                    Op::Build => _ = begun.insert(inst.a),
                    Op::Extend if begun.remove(&inst.a) => copies.add(def, body, at, ranges),
                    _ => {}
                }
            }
        }
        copies.puts.sort_unstable();
        copies
    }

    /// Adds a copy of a whole array if that is changed: at once, or by a loop.
    fn add(&mut self, def: &ModuleDef, body: &Body, at: u32, ranges: &LoopRanges) {
        let copy = &body.code[at as usize];
        let parent = ranges.innermost(at);
        let following = (at + 1..).zip(&body.code[at as usize + 1..]);
        let until_finished = following.take_while(|(_, inst)| inst.op != Op::Finish || inst.b != copy.a);
        let puts = until_finished.filter(|(_, inst)| inst.op.is_put() && inst.a == copy.a);
        let known = self.puts.len();
        self.puts.extend(puts.map(|(put, _)| put).filter(|&put| ranges.innermost(put) == parent));
        let before_loop = self.puts.len() == known;
        if before_loop && parent.is_none() {
            return;
        }
        let place = Place::of(&def.debug, body, at);
        self.found.push(CopyExplanation { place, parent, before_loop, reason: None, cause: None });
    }
}

/// The calls that a function makes.
fn calls(def: &ModuleDef, body: &Body, flow: &FlowGraph, ranges: &LoopRanges) -> Vec<CallExplanation> {
    let mut calls = Vec::new();
    for at in flow.blocks().iter().flat_map(|block| block.start..block.end) {
        let inst = &body.code[at as usize];
        let kind = match inst.op {
            Op::Call | Op::TailCall | Op::Checkpoint | Op::Primal | Op::Once => CallKind::Function,
            Op::CallClosure | Op::TailCallClosure => CallKind::Value,
            Op::Task | Op::ParallelMap => CallKind::Task,
            Op::Jvp | Op::Vjp | Op::CustomVjp | Op::CustomJvp => CallKind::Derivative,
            _ => continue,
        };
        let callee = named_function(body, inst).map(|func| def.functions[func.index()].name.clone());
        let (place, parent) = (Place::of(&def.debug, body, at), ranges.innermost(at));
        calls.push(CallExplanation { place, kind, callee, parent, reason: None });
    }
    calls
}

/// What is known of a function's loops.
struct Loops<'a> {
    def: &'a ModuleDef,
    body: &'a Body,
    flow: &'a FlowGraph,
    notes: &'a [LoopNote],
    ranges: &'a LoopRanges,
    calls: &'a [CallExplanation],
    /// The instructions that change elements of arrays that were just copied.
    puts: &'a [u32],
}

impl Loops<'_> {
    /// Instructions where records may be written, or that call what may write some.
    fn busy(&self, stream: &Stream) -> Vec<u32> {
        let records = stream.code.iter().zip(&stream.origin).filter(|(inst, _)| match **inst {
            Inst::SegmentEnd { site } => stream.segments[site].id != u32::MAX,
            Inst::LoopBegin { site } => stream.loops[site].id != u32::MAX,
            Inst::RegionBegin { site } => stream.regions[site].id != u32::MAX,
            _ => false,
        });
        // Loops that are recorded as one say for themselves whether they write anything.
        let by_rounds = |at: u32| {
            let around = self.ranges.innermost(at).map(|number| self.notes[number].decision);
            around.is_none_or(|decision| matches!(decision, Decision::Refused(_)))
        };
        let others = self.flow.blocks().iter().flat_map(|block| block.start..block.end).filter(|&at| {
            let op = self.body.code[at as usize].op;
            (op.calls() || matches!(op, Op::Pack | Op::Push | Op::Put | Op::Extend)) && by_rounds(at)
        });
        records.map(|(_, &origin)| origin).chain(others).collect()
    }

    fn explain(&self, number: usize, busy: &[u32]) -> LoopExplanation {
        let LoopNote { found, decision } = &self.notes[number];
        let latch = found.latches.iter().max().expect("a loop goes back");
        let place = Place::of(&self.def.debug, self.body, self.flow.blocks()[*latch].end - 1);
        let region = |mut number: usize| {
            while self.notes[number].decision == Decision::Inside {
                number = self.notes[number].found.parent.expect("what is inside has a loop around it");
            }
            number
        };
        let writes = |number: usize| busy.iter().any(|&at| self.ranges.contains(number, at));
        let recording = match *decision {
            _ if !writes(region(number)) => Recording::Nothing,
            Decision::Straight => Recording::Straight,
            Decision::Region => Recording::Region,
            Decision::Inside => Recording::InRegion(region(number)),
            Decision::Refused(refusal) => Recording::Rounds(self.obstacles(number, refusal)),
        };
        LoopExplanation { place, parent: found.parent, recording }
    }

    /// Why a loop is refused. It may hold several things that are in the way, of which the first one was found.
    fn obstacles(&self, number: usize, refusal: Refusal) -> Obstacle {
        let held = match refusal {
            // What copies an array leaves it several names, too.
            Refusal::Holds { .. } | Refusal::BuilderUnknown { .. } => self.held(number),
            _ => Vec::new(),
        };
        let mut all = held.into_iter().map(|held| self.obstacle(held));
        let first = all.next().unwrap_or_else(|| self.obstacle(refusal));
        Obstacle { more: all.collect(), ..first }
    }

    /// What a loop holds that no region does: the first instruction for each reason, calls before others.
    fn held(&self, number: usize) -> Vec<Refusal> {
        let blocks = self.notes[number].found.blocks.iter().map(|&block| self.flow.blocks()[block]);
        let code = blocks.flat_map(|block| block.start..block.end);
        let mut held: Vec<Refusal> = Vec::new();
        let is_in_the_way = |at: u32| {
            // Where an array is copied to be changed, the copy is what is in the way.
            !region_detection::may_hold(self.body.code[at as usize].op) && self.puts.binary_search(&at).is_err()
        };
        for at in code.filter(|&at| is_in_the_way(at)) {
            let refusal = Refusal::holds(self.def, self.body, at);
            if !held.iter().any(|known| known.to_string() == refusal.to_string()) {
                held.push(refusal);
            }
        }
        let op = |refusal: &Refusal| self.body.code[refusal.inst().expect("it is one") as usize].op;
        if held.iter().any(|refusal| op(refusal).is_put()) {
            // That it is read, too, is no reason of its own.
            held.retain(|refusal| op(refusal) != Op::PGet);
        }
        held.sort_by_key(|refusal| !op(refusal).calls());
        held
    }

    fn obstacle(&self, refusal: Refusal) -> Obstacle {
        let more = Vec::new();
        let Some(inst) = refusal.inst() else { return Obstacle { refusal, place: None, call: None, more } };
        // The tasks of a fork stand behind it.
        let at = inst + u32::from(self.body.code[inst as usize].op == Op::Fork);
        let call = self.calls.iter().position(|call| call.place.inst == at);
        Obstacle { refusal, place: Some(Place::of(&self.def.debug, self.body, inst)), call, more }
    }
}
