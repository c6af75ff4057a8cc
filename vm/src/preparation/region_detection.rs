//! Finding the regions of a function: loops that are recorded as one with all that is in them, inner loops and
//! branches.
//!
//! A region is a loop ([`super::nesting`]) whose blocks hold scalar instructions, copies, constants, loads from arrays
//! and other objects, and what makes arrays, of elements and of ranges of others, or changes them in place, nothing
//! else: nothing in it calls or reads a word. It has one way in, and may have several ways out. A builder of reals to
//! which it appends is begun before it and finished after it, of which there may be one, or both happens inside. So it
//! is with those whose elements it reads and replaces, of which there may be several. What is larger than a record may
//! be is not a region, but loops inside of it may be. A loop of straight-line code is none: it is recorded as such
//! ([`super::loop_detection`]), which is cheaper.
//!
//! Which loops qualify depends on the code alone, because the order of sums in the sweep follows from it.

mod builders;

use super::builder_names::BuilderNames;
use super::flow::{FlowGraph, PUTS_MAX, Predecessors};
use super::handed_on::HandedOn;
use super::liveness::{self, RegSet};
use super::loop_detection::{Loop, live_before};
use super::nesting::{self, Dominators, Natural};
use super::refusal::{Decision, LoopNote, Notes, Refusal};
use super::stretch::{Arrays, BuilderStep, Constants, FieldRead, MadeArray, Stretch, Walk};
use crate::bytecode::isa::{Bank, Inst, Op, Reg};
use crate::bytecode::module::{Body, ModuleDef, TypeDef, ValueType};
use crate::records::region::{ChangedArray, ChangedBuilder};
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use builders::Builders;
use std::collections::{BTreeMap, BTreeSet};

/// A region has at most so many blocks, so that a byte tells which of its edges control has taken.
const BLOCKS_MAX: usize = 200;
/// A region has at most so many instructions.
const INSTRUCTIONS_MAX: usize = 1024;
/// A region has at most so many scalar instructions with a real result.
const REAL_OPS_MAX: usize = 512;
/// A function with a region has at most so many registers of a bank: the region takes some more. An instruction takes
/// at most four of them: two for a builder that it begins, two to tell where the array is that it reads, one for what
/// its block copies before each register that it writes, four where it finishes a builder. Loops take their counters.
const REGISTERS_MAX: usize = u16::MAX as usize - 6 * INSTRUCTIONS_MAX;
/// A block that is taken for one that does nothing but to trap has fewer instructions besides.
const TRAPPING_MAX: usize = 16;
/// Loops nest to at most this depth in a region.
const DEPTH_MAX: usize = 8;

/// A loop of a region. The first one is the region's own.
#[derive(Debug)]
pub(crate) struct RegionLoop {
    /// Its head, by its number in the region.
    pub(crate) head: usize,
    /// The blocks that lead back to the head, by their numbers in the region.
    pub(crate) latches: Vec<usize>,
    /// The loop around it.
    pub(crate) parent: Option<usize>,
    /// Whether each block of the region is a part of it.
    pub(crate) blocks: Vec<bool>,
    /// The registers that it writes.
    pub(crate) writes: BTreeSet<Reg>,
}

/// A block of a region: a basic block, or several one after the other between which control leads nowhere else but to
/// traps, such as those that test indices.
#[derive(Debug)]
pub(crate) struct RegionBlock {
    /// The basic blocks, by their numbers in the flow graph.
    pub(crate) parts: Vec<usize>,
    pub(crate) stretch: Stretch,
    /// The smallest loop that it is a part of.
    pub(crate) inside: usize,
    /// Whether it is run once in each round of that loop.
    pub(crate) steady: bool,
    /// The blocks of the region that lead to it, by their numbers in the region, each once, but for the head of a loop,
    /// where they are those from outside of the loop.
    pub(crate) before: Vec<usize>,
    /// Real registers that are useful when it ends.
    pub(crate) useful: RegSet,
    /// The head of the idle loop that it is a part of, by its number in the region; see [`Region::leave_out`].
    pub(crate) idle: Option<usize>,
    /// The branch that it ends with, if it does.
    pub(crate) branch: Option<RegionBranch>,
}

/// How a block goes on: with one block if an integer is not 0, with another one if it is. Both by their numbers in the
/// region; none is outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionBranch {
    /// The integer register.
    pub(crate) cond: u16,
    pub(crate) then: Option<usize>,
    pub(crate) other: Option<usize>,
}

/// A region.
#[derive(Debug)]
pub(crate) struct Region {
    /// In the order of the code.
    pub(crate) blocks: Vec<RegionBlock>,
    pub(crate) loops: Vec<RegionLoop>,
    /// The edges that lead out of it: a block by its number in the region, and where it leads to.
    pub(crate) exits: Vec<(usize, u32)>,
    /// Where it leads to nothing but a trap. What it has recorded until then nobody asks for, so such edges are none
    /// that lead out of it.
    pub(crate) traps: BTreeSet<u32>,
    pub(crate) arrays: Arrays,
    /// The first integer register that nothing uses.
    pub(crate) free_int: u16,
    /// Real registers that hold something when the region begins that is read later.
    pub(crate) live_before: RegSet,
    /// Reference registers that hold something when the region begins that is read in it.
    pub(crate) refs_before: Vec<u16>,
    /// Real registers that are written, and may be read after the region.
    pub(crate) live_after: Vec<u16>,
    /// How references come about: the register that is written, and one that it comes from.
    pub(crate) ref_flow: Vec<(u16, u16)>,
}

impl Region {
    /// Where the region begins: its number among the blocks.
    pub(crate) fn head(&self) -> usize {
        self.loops[0].head
    }

    /// The loops around a block, the region's own first.
    pub(crate) fn loops_around(&self, block: usize) -> Vec<usize> {
        let mut chain: Vec<usize> =
            std::iter::successors(Some(self.blocks[block].inside), |&number| self.loops[number].parent).collect();
        chain.reverse();
        chain
    }

    /// The loops that an edge between blocks leads out of, the inner ones first. `None` is outside of the region.
    pub(crate) fn loops_left(&self, from: usize, to: Option<usize>) -> Vec<usize> {
        let mut left = self.loops_around(from);
        left.retain(|&number| to.is_none_or(|to| !self.loops[number].blocks[to]));
        left.reverse();
        left
    }

    /// Leaves out the inner loops of which nothing flows back, as `is_idle` says of each of their blocks: from where
    /// such a loop is left, the sweep goes on where it was entered. What is left of it are blocks of the loop around
    /// it, of which the sweep knows its head alone.
    pub(crate) fn leave_out(&mut self, is_idle: &[bool]) {
        let mut number = 1;
        while number < self.loops.len() {
            let found = &self.loops[number];
            if found.blocks.iter().zip(is_idle).any(|(&inside, &is_idle)| inside && !is_idle) {
                number += 1;
                continue;
            }
            let head = found.head;
            let inside = found.blocks.clone();
            let parent = found.parent.expect("it is an inner loop");
            // Inner loops come after those around them.
            let mut kept = Vec::new();
            for (at, found) in std::mem::take(&mut self.loops).into_iter().enumerate() {
                if !inside[found.head] {
                    kept.push((at, found));
                }
            }
            let new_number = |old: usize| kept.iter().position(|&(at, _)| at == old).expect("it is kept");
            let parents: Vec<Option<usize>> = kept.iter().map(|(_, found)| found.parent.map(new_number)).collect();
            for (number, block) in self.blocks.iter_mut().enumerate() {
                if inside[number] {
                    (block.idle, block.inside, block.steady) = (Some(head), parent, false);
                }
                block.inside = new_number(block.inside);
            }
            self.loops = kept.into_iter().map(|(_, found)| found).collect();
            self.loops.iter_mut().zip(parents).for_each(|(found, parent)| found.parent = parent);
        }
        let place = |block: usize| self.blocks[block].idle.unwrap_or(block);
        let places = |list: &[usize]| {
            let mut seen = BTreeSet::new();
            list.iter().map(|&block| place(block)).filter(|&block| seen.insert(block)).collect::<Vec<usize>>()
        };
        let befores: Vec<Vec<usize>> = self.blocks.iter().map(|block| places(&block.before)).collect();
        let latches: Vec<Vec<usize>> = self.loops.iter().map(|found| places(&found.latches)).collect();
        let mut seen = BTreeSet::new();
        let exits = self.exits.iter().map(|&(from, to)| (place(from), to)).filter(|&exit| seen.insert(exit)).collect();
        self.exits = exits;
        self.blocks.iter_mut().zip(befores).for_each(|(block, before)| block.before = before);
        self.loops.iter_mut().zip(latches).for_each(|(found, latches)| found.latches = latches);
    }

    /// As what the sweep knows a block: the head of the idle loop that it is a part of, or itself.
    pub(crate) fn known_as(&self, block: usize) -> usize {
        self.blocks[block].idle.unwrap_or(block)
    }

    /// Whether an integer register is one of the program's, and not one that says where an array is.
    pub(crate) fn is_of_program(&self, register: u16) -> bool {
        usize::from(register) + self.arrays.registers() < usize::from(self.free_int)
    }

    /// The loop of which a block is the head, if it is one's.
    pub(crate) fn loop_at(&self, head: usize) -> Option<usize> {
        self.loops.iter().position(|found| found.head == head)
    }
}

/// What is known of a function whose regions are looked for.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) module: &'a ModuleDef,
    pub(crate) body: &'a Body,
    pub(crate) flow: &'a FlowGraph,
    /// Real registers that are live at the end of each block.
    pub(crate) live: &'a [RegSet],
    /// Real registers that are useful there.
    pub(crate) useful: &'a [RegSet],
    /// Real registers that may be active at the beginning of each block.
    pub(crate) active: &'a [RegSet],
    pub(crate) constants: &'a Constants<'a>,
}

/// The regions of a function, in the order of their heads. `loops` are those that are recorded as such if they are in
/// no region. Why the others are none is kept if there are notes.
///
/// # Errors
/// What the watch says.
pub(crate) fn find(
    facts: Facts<'_>,
    loops: &[Loop],
    notes: Option<&mut Notes>,
    watch: &Watch<'_>,
) -> Result<Vec<Region>, TrapKind> {
    let before = facts.flow.predecessors();
    let Some((nest, dominators)) = nesting::loops(facts.flow, &before, watch)? else { return Ok(Vec::new()) };
    let mut found: Vec<(usize, Region)> = Vec::new();
    // Outer loops come first.
    let mut decisions: Vec<Decision> = Vec::with_capacity(nest.len());
    let mut finder = Finder {
        facts,
        before: &before,
        nest: &nest,
        dominators: &dominators,
        live_refs: None,
        names: None,
        goes_round_otherwise: None,
    };
    for (number, natural) in nest.iter().enumerate() {
        let decision = if natural.parent.is_some_and(|parent| decisions[parent].takes_all()) {
            Decision::Inside
        } else if is_recorded_loop(facts.flow, natural, loops) {
            Decision::Straight
        } else {
            match finder.region(number, watch)? {
                Ok(region) => {
                    found.push((natural.head, region));
                    Decision::Region
                }
                Err(refusal) => Decision::Refused(refusal),
            }
        };
        decisions.push(decision);
    }
    found.sort_by_key(|(head, _)| *head);
    if let Some(notes) = notes {
        let loops = nest.into_iter().zip(decisions).map(|(found, decision)| LoopNote { found, decision });
        notes.loops = Some(loops.collect());
    }
    Ok(found.into_iter().map(|(_, region)| region).collect())
}

/// Whether a loop is recorded as one of straight-line code.
pub(super) fn is_recorded_loop(flow: &FlowGraph, found: &Natural, loops: &[Loop]) -> bool {
    found.blocks.iter().any(|&block| {
        let start = flow.blocks()[block].start;
        let recorded = loops.binary_search_by_key(&start, |recorded| recorded.start);
        recorded.is_ok_and(|at| loops[at].path.len() == found.blocks.len())
    })
}

/// Whether a region may hold such an instruction.
pub(crate) fn may_hold(op: Op) -> bool {
    match op {
        Op::Mov | Op::IMov | Op::PMov | Op::Const | Op::IConst | Op::PSelect => true,
        Op::Len | Op::Elem | Op::IElem | Op::PElem | Op::Row | Op::SameLen | Op::SameShape | Op::Trace => true,
        Op::Build | Op::Push | Op::IPush | Op::PPush | Op::Extend | Op::Finish => true,
        Op::Get | Op::IGet | Op::Put | Op::IPut => true,
        Op::Field | Op::IField | Op::PField => true,
        Op::VariantTag | Op::Payload | Op::IPayload | Op::PPayload => true,
        Op::Jump | Op::Branch | Op::Switch => true,
        op => op.is_scalar(),
    }
}

/// Blocks that become one.
#[derive(Default)]
struct Chain {
    parts: Vec<usize>,
    /// How many elements they put into arrays that are changed.
    puts: usize,
    appends: bool,
    finishes: bool,
}

impl Chain {
    fn add(&mut self, block: usize, code: &[Inst]) {
        self.parts.push(block);
        for inst in code {
            match inst.op {
                Op::Put => self.puts += 1,
                Op::Push | Op::Extend => self.appends = true,
                Op::Finish => self.finishes = true,
                _ => {}
            }
        }
    }

    /// Whether another block may follow. The adjoint of a block takes the adjoints of what it has appended, then those
    /// of what it has put, before it adds to those of what it has read. So nothing may put or read an element behind
    /// where that could be the same one.
    fn may_go_on(&self, code: &[Inst]) -> bool {
        let holds = |op| code.iter().any(|inst| inst.op == op);
        let puts = code.iter().filter(|inst| inst.op == Op::Put).count();
        let changes = self.puts > 0 || self.appends;
        let finishes = self.finishes || changes && holds(Op::Finish);
        let reads_it = changes && holds(Op::Get) || finishes && holds(Op::Elem);
        let changes_it = self.appends && puts > 0;
        !reads_it && !changes_it && self.puts + puts <= PUTS_MAX
    }
}

struct Finder<'a> {
    facts: Facts<'a>,
    before: &'a Predecessors,
    nest: &'a [Natural],
    dominators: &'a Dominators,
    /// Reference registers that are live at the end of each block, once somebody has asked; `None` in it is all.
    live_refs: Option<Option<Vec<RegSet>>>,
    /// Which registers may hold one builder, once somebody has asked; `None` in it is that nobody knows.
    names: Option<Option<BuilderNames>>,
    /// Whether control goes round anywhere in a way that is no loop, once somebody has asked.
    goes_round_otherwise: Option<bool>,
}

impl Finder<'_> {
    /// The region that a loop is, or why it is none.
    fn region(&mut self, number: usize, watch: &Watch<'_>) -> Result<Result<Region, Refusal>, TrapKind> {
        let Facts { body, flow, live, useful, .. } = self.facts;
        let found = &self.nest[number];
        if found.blocks.len() > BLOCKS_MAX {
            return Ok(Err(Refusal::Blocks { max: BLOCKS_MAX }));
        }
        let mut builders = match self.builders(found, watch)? {
            Ok(builders) => builders,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if body.reals.max(body.ints) as usize > REGISTERS_MAX {
            return Ok(Err(Refusal::Registers { max: REGISTERS_MAX }));
        }
        if self.is_irreducible(found) {
            return Ok(Err(Refusal::Irreducible));
        }
        watch.tick(INSTRUCTIONS_MAX + found.blocks.len() * (1 + body.reals as usize / 16))?;
        let refs_before = self.refs_before(found);
        if let Err(refusal) = self.name(number, &mut builders, &refs_before, watch)? {
            return Ok(Err(refusal));
        }
        let arrays = self.arrays(found, &builders);
        let free_int = (body.ints as usize + arrays.registers()) as u16;
        let chains = self.chains(found);
        let firsts: Vec<usize> = chains.iter().map(|parts| parts[0]).collect();
        let places: BTreeMap<usize, usize> =
            chains.iter().enumerate().flat_map(|(own, parts)| parts.iter().map(move |&part| (part, own))).collect();
        let place = |block: usize| places.get(&block).copied();
        let Some(loops) = self.loops((number, chains.len()), &place) else {
            return Ok(Err(Refusal::Depth { max: DEPTH_MAX }));
        };
        let mut blocks = Vec::new();
        // What there is behind each block.
        let mut handed_on: Vec<HandedOn> = Vec::new();
        for (own, parts) in chains.into_iter().enumerate() {
            let [block, last] = [parts.first(), parts.last()].map(|part| *part.expect("it has a part"));
            let inside = loops.iter().rposition(|found| found.blocks[own]).expect("the region's own has all");
            let mut before: Vec<usize> =
                self.before.of(block).iter().filter_map(|&from| place(from as usize)).collect();
            let started = loops.iter().find(|found| found.head == own);
            if let Some(started) = started {
                before.retain(|&from| !started.blocks[from]);
            }
            let handed = match before[..] {
                [from] if started.is_none() && from < own => handed_on[from].clone(),
                _ => HandedOn::default(),
            };
            watch.tick(16 * handed.len())?;
            let stretch = match self.stretch(&parts, &arrays, &handed) {
                Ok(stretch) => stretch,
                Err(inst) => return Ok(Err(Refusal::ElementBehindFinish { inst })),
            };
            handed_on.push(handed.behind(&stretch));
            let mut latches = loops[inside].latches.iter();
            let steady = latches.all(|&latch| self.dominators.dominates(block, firsts[latch]));
            let useful = useful[last].clone();
            let branch = self.branch(last, &place);
            blocks.push(RegionBlock { parts, stretch, inside, steady, before, useful, idle: None, branch });
        }
        if blocks.iter().map(|block| block.stretch.real_ops).sum::<usize>() > REAL_OPS_MAX {
            return Ok(Err(Refusal::RealOps { max: REAL_OPS_MAX }));
        }
        let (mut exits, mut traps) = (Vec::new(), BTreeSet::new());
        for &block in &found.blocks {
            let own = place(block).expect("it is one of them");
            for to in flow.successors(block).iter().map(|&to| to as usize).filter(|&to| place(to).is_none()) {
                let start = flow.blocks()[to].start;
                watch.tick(1)?;
                if self.only_traps(to) {
                    traps.insert(start);
                } else {
                    exits.push((own, start));
                }
            }
        }
        if exits.is_empty() {
            return Ok(Err(Refusal::NoExit));
        }
        if exits.len() > usize::from(u8::MAX) {
            return Ok(Err(Refusal::Exits { max: usize::from(u8::MAX) }));
        }
        let mut region = Region {
            blocks,
            loops,
            exits,
            traps,
            arrays,
            free_int,
            live_before: live_before(body, Bank::Real, flow.blocks()[found.head], &live[found.head]),
            refs_before,
            live_after: Vec::new(),
            ref_flow: self.ref_flow(found, &builders),
        };
        for number in 0..region.loops.len() {
            let inside = region.blocks.iter().zip(&region.loops[number].blocks).filter(|(_, inside)| **inside);
            let writes = inside.flat_map(|(block, _)| block.stretch.ends.keys().copied()).collect();
            region.loops[number].writes = writes;
        }
        let mut after: Vec<RegSet> = Vec::new();
        for to in self.blocks_after(found) {
            watch.tick(self.code(to).len() + body.reals as usize / 16)?;
            after.push(live_before(body, Bank::Real, flow.blocks()[to], &live[to]));
        }
        let written = region.loops[0].writes.iter().filter(|reg| reg.bank == Bank::Real).map(|reg| reg.index);
        region.live_after = written.filter(|&reg| after.iter().any(|live| live.contains(reg))).collect();
        let steps = || region.blocks.iter().flat_map(|block| &block.stretch.builder_steps);
        let appends = steps().any(|step| matches!(step, BuilderStep::Push | BuilderStep::Extend(_)));
        let makes = appends || builders.uses.values().any(|uses| uses.is_finished);
        Ok(if makes || !region.live_after.is_empty() { Ok(region) } else { Err(Refusal::NothingRead) })
    }

    /// Whether what a register holds is an array of reals, or becomes one.
    fn holds_reals(&self, reference: u16) -> bool {
        let Facts { body, module, .. } = self.facts;
        let ty = &module.types[body.refs[usize::from(reference)].index()];
        matches!(ty, TypeDef::Array(ValueType::Real) | TypeDef::Builder(ValueType::Real))
    }

    /// The blocks that a loop leads to.
    fn blocks_after(&self, found: &Natural) -> BTreeSet<usize> {
        let targets = found.blocks.iter().flat_map(|&block| self.facts.flow.successors(block));
        targets.map(|&to| to as usize).filter(|to| found.blocks.binary_search(to).is_err()).collect()
    }

    /// Finds the reference registers that are live at the end of each block, unless that was done.
    fn find_live_refs(&mut self, watch: &Watch<'_>) -> Result<(), TrapKind> {
        if self.live_refs.is_none() {
            let Facts { body, flow, .. } = self.facts;
            self.live_refs = Some(liveness::live_out(body, Bank::Ref, flow, watch)?);
        }
        Ok(())
    }

    /// Whether control goes round anywhere in the function in a way that is no loop, which nobody would know to be
    /// around one.
    fn goes_round_otherwise(&mut self, watch: &Watch<'_>) -> Result<bool, TrapKind> {
        if let Some(known) = self.goes_round_otherwise {
            return Ok(known);
        }
        let Facts { flow, .. } = self.facts;
        watch.tick(flow.edge_count())?;
        let mut blocks = 0..flow.blocks().len();
        let found = blocks.any(|from| {
            let mut after = flow.successors(from).iter().map(|&to| to as usize);
            after.any(|to| self.dominators.is_irreducible(from, to))
        });
        self.goes_round_otherwise = Some(found);
        Ok(found)
    }

    /// Whether control goes round in the loop in a way that is no loop.
    fn is_irreducible(&self, found: &Natural) -> bool {
        found.blocks.iter().any(|&from| {
            let inside = self.facts.flow.successors(from).iter().map(|&to| to as usize);
            let mut inside = inside.filter(|to| found.blocks.binary_search(to).is_ok());
            inside.any(|to| self.dominators.is_irreducible(from, to))
        })
    }

    /// The branch that a block ends with.
    fn branch(&self, block: usize, place: &dyn Fn(usize) -> Option<usize>) -> Option<RegionBranch> {
        let inst = self.code(block).last().filter(|inst| inst.op == Op::Branch)?;
        let blocks = self.facts.flow.blocks();
        let to = |start: u32| blocks.binary_search_by_key(&start, |block| block.start).ok().and_then(place);
        Some(RegionBranch { cond: inst.a, then: to(inst.low()), other: to(inst.high()) })
    }

    /// Whether a block does nothing but to compute integers, and traps.
    fn only_traps(&self, block: usize) -> bool {
        let Some((last, before)) = self.code(block).split_last() else { return false };
        let computes = |inst: &Inst| inst.op == Op::IMov || inst.op == Op::IConst || inst.op.is_scalar();
        matches!(last.op, Op::Trap | Op::TrapWith) && before.len() < TRAPPING_MAX && before.iter().all(computes)
    }

    fn code(&self, block: usize) -> &[Inst] {
        let block = self.facts.flow.blocks()[block];
        &self.facts.body.code[block.start as usize..block.end as usize]
    }

    /// The blocks of a loop, each with those that it goes on with if it doesn't trap and that nothing else leads to.
    fn chains(&self, found: &Natural) -> Vec<Vec<usize>> {
        let next: BTreeMap<usize, usize> =
            found.blocks.iter().filter_map(|&block| Some((block, self.goes_on_with(found, block)?))).collect();
        let behind: BTreeSet<usize> = next.values().copied().collect();
        let mut chains = Vec::new();
        let mut waiting: BTreeSet<usize> =
            found.blocks.iter().copied().filter(|block| !behind.contains(block)).collect();
        while let Some(first) = waiting.pop_first() {
            let mut chain = Chain::default();
            chain.add(first, self.code(first));
            while let Some(&block) = next.get(chain.parts.last().expect("it begins with one")) {
                if !chain.may_go_on(self.code(block)) {
                    waiting.insert(block);
                    break;
                }
                chain.add(block, self.code(block));
            }
            chains.push(chain.parts);
        }
        chains.sort_unstable();
        chains
    }

    /// The only block that control goes on with from another one unless it traps, if it comes there only from it. It
    /// stands behind that, so that in the region's code, too, control leads back where it does in the function's, and
    /// looks at fuel.
    fn goes_on_with(&self, found: &Natural, block: usize) -> Option<usize> {
        let inside = |to: usize| found.blocks.binary_search(&to).is_ok();
        let last = self.code(block).last()?;
        if !matches!(last.op, Op::Branch | Op::Jump) {
            return None;
        }
        let mut only = None;
        for &to in self.facts.flow.successors(block) {
            let to = to as usize;
            if !inside(to) && self.only_traps(to) || only == Some(to) {
                continue;
            }
            if only.replace(to).is_some() {
                return None;
            }
        }
        only.filter(|&to| to > block && inside(to) && self.before.of(to).len() == 1)
    }

    /// What blocks compute, one behind the other, or the instruction that is none of a stretch.
    fn stretch(&self, parts: &[usize], arrays: &Arrays, handed: &HandedOn) -> Result<Stretch, u32> {
        let Facts { body, flow, active, constants, .. } = self.facts;
        let code = parts.iter().flat_map(|&part| flow.blocks()[part].start..flow.blocks()[part].end);
        Walk::new(body, constants, Some(&active[parts[0]]), Some(arrays)).behind(handed).run(code)
    }

    /// Registers for the first slots of arrays.
    fn arrays(&self, found: &Natural, builders: &Builders) -> Arrays {
        let code = || found.blocks.iter().flat_map(|&block| self.code(block));
        let read = |op| code().filter(move |inst| inst.op == op).map(|inst| inst.b);
        let arrays: BTreeSet<u16> = read(Op::Elem).collect();
        debug_assert!(arrays.iter().all(|&array| self.holds_reals(array)));
        let finished: BTreeSet<u16> = code().filter(|inst| inst.op == Op::Finish).map(|inst| inst.a).collect();
        let of_ints: BTreeSet<u16> = read(Op::IElem).filter(|array| !finished.contains(array)).collect();
        let mut free = self.facts.body.ints as u16..;
        let mut fresh = || free.next().expect("the function has few registers");
        let cells = arrays.iter().chain(&of_ints).map(|&array| (array, fresh())).collect();
        let named = || builders.names.iter().map(|(group, &name)| (&builders.uses[group], name));
        let changed = || named().filter(|(uses, _)| uses.changed.is_some());
        let names: BTreeMap<u32, u16> =
            builders.insts.iter().filter_map(|(&at, group)| Some((at, *builders.names.get(group)?))).collect();
        let inst = |at: u32| (at, &self.facts.body.code[at as usize]);
        let extensions = || names.keys().map(|&at| inst(at)).filter(|(_, inst)| inst.op == Op::Extend);
        let copied = extensions().map(|(_, inst)| inst.b);
        let based: BTreeSet<u16> = arrays.into_iter().chain(copied).chain(changed().map(|(_, name)| name)).collect();
        let bases = based.into_iter().map(|array| (array, fresh())).collect();
        let made: BTreeSet<u16> = named().filter(|(uses, _)| !uses.begun.is_empty()).map(|(_, name)| name).collect();
        let made = made.into_iter().map(|name| (name, MadeArray { first: fresh(), len: fresh() })).collect();
        let from_before = changed().filter(|(uses, _)| uses.begun.is_empty());
        let changed = from_before.map(|(uses, builder)| {
            let (before, first, len) = (fresh(), fresh(), fresh());
            let registers = ChangedArray { before, first, len };
            (builder, ChangedBuilder { builder, registers, is_put: uses.is_put })
        });
        let changed = changed.collect();
        let counts = extensions().map(|(at, _)| (at, fresh())).collect();
        let numbered = found.blocks.iter().flat_map(|&block| {
            let block = self.facts.flow.blocks()[block];
            (block.start..block.end).map(inst)
        });
        let reads = numbered.filter(|(_, inst)| matches!(inst.op, Op::Field | Op::Payload));
        let fields = reads.map(|(at, inst)| (at, FieldRead { object: inst.b, slot: fresh() })).collect();
        Arrays { bases, cells, made, changed, counts, names, fields }
    }

    /// The loop and those inside of it, of a region of so many blocks; `None` if they nest too deeply.
    fn loops(
        &self,
        (number, count): (usize, usize),
        place: &dyn Fn(usize) -> Option<usize>,
    ) -> Option<Vec<RegionLoop>> {
        let mut numbers = vec![number];
        for (inner, found) in self.nest.iter().enumerate().skip(number + 1) {
            if found.parent.is_some_and(|parent| numbers.contains(&parent)) {
                numbers.push(inner);
            }
        }
        let mut loops: Vec<RegionLoop> = Vec::new();
        for &inner in &numbers {
            let found = &self.nest[inner];
            let inside = |block: &usize| place(*block).expect("an inner loop's blocks are in the outer one");
            let mut blocks = vec![false; count];
            found.blocks.iter().for_each(|block| blocks[inside(block)] = true);
            loops.push(RegionLoop {
                head: inside(&found.head),
                latches: found.latches.iter().map(inside).collect(),
                parent: found.parent.and_then(|parent| numbers.iter().position(|&known| known == parent)),
                blocks,
                writes: BTreeSet::new(),
            });
        }
        let depth = |mut at: usize| {
            let mut depth = 1;
            while let Some(parent) = loops[at].parent {
                (at, depth) = (parent, depth + 1);
            }
            depth
        };
        (0..loops.len()).all(|at| depth(at) <= DEPTH_MAX).then_some(loops)
    }

    /// Reference registers that are read in the loop before they are written in it, on some way from its head.
    fn refs_before(&self, found: &Natural) -> Vec<u16> {
        let body = self.facts.body;
        // Per block: what is read first, what is written.
        let summaries: Vec<(BTreeSet<u16>, BTreeSet<u16>)> = found
            .blocks
            .iter()
            .map(|&block| {
                let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
                for inst in self.code(block) {
                    body.for_each_reg(inst, |reg, def| {
                        if reg.bank == Bank::Ref && !def && !written.contains(&reg.index) {
                            read.insert(reg.index);
                        }
                    });
                    body.for_each_reg(inst, |reg, def| {
                        if reg.bank == Bank::Ref && def {
                            written.insert(reg.index);
                        }
                    });
                }
                (read, written)
            })
            .collect();
        let mut wanted: Vec<BTreeSet<u16>> = summaries.iter().map(|(read, _)| read.clone()).collect();
        loop {
            let mut changed = false;
            for (own, &block) in found.blocks.iter().enumerate().rev() {
                for &to in self.facts.flow.successors(block) {
                    let Ok(to) = found.blocks.binary_search(&(to as usize)) else { continue };
                    let more: Vec<u16> = wanted[to].difference(&summaries[own].1).copied().collect();
                    let len = wanted[own].len();
                    wanted[own].extend(more);
                    changed |= wanted[own].len() != len;
                }
            }
            if !changed {
                break;
            }
        }
        let head = found.blocks.binary_search(&found.head).expect("the head is one of the blocks");
        wanted[head].iter().copied().collect()
    }

    /// How references come about in the loop. Builders of reals go by their names there.
    fn ref_flow(&self, found: &Natural, builders: &Builders) -> Vec<(u16, u16)> {
        let mut flow = Vec::new();
        let name = |at: u32| builders.names.get(builders.insts.get(&at)?).copied();
        for at in found.blocks.iter().map(|&block| self.facts.flow.blocks()[block]).flat_map(|it| it.start..it.end) {
            let inst = self.facts.body.code[at as usize];
            match inst.op {
                Op::Finish => flow.push((inst.a, name(at).unwrap_or(inst.b))),
                Op::PMov if builders.insts.contains_key(&at) => {
                    // What is appended to one of them the other one has, too.
                    let both = [(inst.a, inst.b), (inst.b, inst.a)];
                    flow.extend(both.into_iter().filter(|_| name(at).is_none()));
                }
                Op::Extend => flow.push((name(at).unwrap_or(inst.a), inst.b)),
                Op::PElem | Op::PField | Op::PPayload | Op::PMov | Op::PPush => flow.push((inst.a, inst.b)),
                Op::PSelect => {
                    let [to, _, a, b] = inst.narrow();
                    flow.extend([(to, a), (to, b)]);
                }
                _ => {}
            }
        }
        flow
    }
}
