//! References in machine registers.
//!
//! Each has a cell in the frame, where the heap's evacuation finds and changes it. What was loaded from there, or
//! written, is good until objects may move, and is held in a variable until then: over blocks, round loops, and over
//! allocations, which move objects on their rare way only and fetch there again what is read later on.
//!
//! What is written waits in its variable for the first instruction that may move objects, or looks at the frame itself:
//! many references, as a list's rests in a loop over it, have been followed by others by then, or are read no more. Of
//! the latter the cell has an older reference. It is *stale*, and is cleared where others are stored, so that it keeps
//! nothing alive. On the rare way of an allocation all of this is done, too, and is still to be done on the other way.
//!
//! Which registers are held, which wait, and whose cells are stale where a block begins is found out before code is
//! written. It is never relied on: where a block leads to another, what that takes for held and isn't is loaded, and
//! what waits here and not there is stored. To clear the cell of a register that isn't read is right, whatever it has.

use super::graph::Graph;
use super::heap::words_of;
use super::liveness::{Liveness, STEPS_MAX};
use super::tight::TightLoop;
use super::{Function, cell};
use crate::bit_set::BitSet;
use crate::emit::Emit;
use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::types::I64;
use cranelift_frontend::Variable;
use dualvm_vm::isa::Bank;
use dualvm_vm::native::layout::{ARRAY_HEADER, LARGE_WORDS};
use dualvm_vm::native::{Form, Inst, Position, RefReg, Stream};
use std::collections::BTreeMap;

/// No more references than this are fetched again where an allocation has moved objects.
const FETCHED_MAX: usize = 8;

/// What a loop reads is loaded before it only if that takes no more loads on all ways in together.
const LOADED_MAX: usize = 64;

/// The references of a function.
pub(super) struct References<'e> {
    /// What the registers hold, for those that are held.
    variables: Vec<Variable>,
    /// Where arrays of numbers would have to begin for their elements to stand behind their headers, for the registers
    /// whose elements are read. It is found where a register gets its array, and not in each round of a loop that reads
    /// one.
    bases: Vec<Option<Variable>>,
    held: BitSet,
    /// The registers that wait. All of them are held.
    waiting: BitSet,
    /// Those that are read no more and whose cells have older references.
    stale: BitSet,
    /// `None` if finding it out takes too long. Then references are held in a block and over no allocation, and don't
    /// wait.
    over_blocks: Option<OverBlocks<'e>>,
}

/// What is found out of references before code is written.
struct OverBlocks<'e> {
    /// The registers that are held where each block begins, those that wait there, and those with stale cells.
    held: Vec<BitSet>,
    waiting: Vec<BitSet>,
    stale: Vec<BitSet>,
    /// What is read later on before all references are loaded again.
    soon: Liveness<'e>,
    /// What is read later on.
    live: Liveness<'e>,
}

impl<'e> OverBlocks<'e> {
    fn new(stream: &'e Stream, graph: &'e Graph, tight: &BTreeMap<Position, TightLoop>) -> Option<Self> {
        let soon = Liveness::new(stream, graph, Bank::Ref, forgets)?;
        let live = Liveness::new(stream, graph, Bank::Ref, |_, _| false)?;
        let held = held_at_starts(stream, graph, &soon)?;
        let outdated = outdated_at_starts(stream, graph)?;
        let (mut waiting, mut stale) = (outdated.clone(), outdated);
        for (number, block) in graph.blocks.iter().enumerate() {
            // In a tight loop no reference changes, so none waits.
            if tight.contains_key(&block.start) {
                waiting[number].clear();
            }
            waiting[number].keep_all(&held[number]);
            waiting[number].keep_all(live.at_start(number));
            stale[number].remove_all(live.at_start(number));
        }
        Some(OverBlocks { held, waiting, stale, soon, live })
    }
}

/// Whether all that waits is stored before an instruction: whether it may move objects, but on the rare way of an
/// allocation, or code that it runs looks at the frame.
fn stores(stream: &Stream, inst: &Inst) -> bool {
    match inst.form() {
        Form::New { .. } | Form::Pack { .. } | Form::ChainPush { .. } => forgets(stream, inst),
        // What a frame is left with nobody finds.
        Form::Ret { .. } | Form::TailCall { .. } | Form::TailCallClosure { .. } | Form::Trap { .. } => false,
        Form::Pure(_)
        | Form::Mov { .. }
        | Form::PMov { .. }
        | Form::Const { .. }
        | Form::Passive { .. }
        | Form::PSelect { .. }
        | Form::Jump { .. }
        | Form::Branch { .. }
        | Form::CheckedJump { .. }
        | Form::CheckedBranch { .. }
        | Form::BackJump { .. }
        | Form::BackBranch { .. }
        | Form::Switch { .. }
        | Form::Field { .. }
        | Form::PrimalField { .. }
        | Form::PrimalPayload { .. }
        | Form::IField { .. }
        | Form::PField { .. }
        | Form::Payload { .. }
        | Form::IPayload { .. }
        | Form::PPayload { .. }
        | Form::FieldPart { .. }
        | Form::VariantTag { .. }
        | Form::Len { .. }
        | Form::Elem { .. }
        | Form::PrimalElem { .. }
        | Form::IElem { .. }
        | Form::PElem { .. }
        | Form::Row { .. }
        | Form::SameLen { .. }
        | Form::SameShape { .. }
        | Form::Push { .. }
        | Form::PrimalPush { .. }
        | Form::IPush { .. }
        | Form::PPush { .. }
        | Form::Get { .. }
        | Form::PrimalGet { .. }
        | Form::IGet { .. }
        | Form::PGet { .. }
        | Form::Put { .. }
        | Form::PrimalPut { .. }
        | Form::IPut { .. }
        | Form::PPut { .. }
        | Form::Finish { .. }
        | Form::ChainNew { .. }
        | Form::ChainFinish { .. }
        | Form::SegmentEnd { .. } => false,
        _ => true,
    }
}

/// Whether all references are loaded again after an instruction.
fn forgets(stream: &Stream, inst: &Inst) -> bool {
    let in_line = match *inst {
        Inst::New { site, .. } | Inst::ChainPush { site, .. } => words_of(&stream.objects[site].uses) <= LARGE_WORDS,
        Inst::Pack { site, .. } => {
            let uses = &stream.objects[site].uses;
            ARRAY_HEADER + uses.reals.len() + uses.ints.len() + uses.refs.len() <= LARGE_WORDS
        }
        Inst::Reserve { .. } => true,
        _ => false,
    };
    inst.moves_objects() && !in_line
}

/// The array of numbers of which an instruction reads an element.
fn read_elements(inst: &Inst) -> Option<RefReg> {
    match inst.form() {
        Form::Elem { array, .. } | Form::PrimalElem { array, .. } | Form::IElem { array, .. } => Some(array),
        _ => None,
    }
}

/// The registers that are held where each block begins: forward dataflow. A register is held if it is on all ways to
/// the block and read later on. What a loop reads is held at its head if it is on all ways back, and loaded before.
/// `None` if that takes too many steps.
fn held_at_starts(stream: &Stream, graph: &Graph, live: &Liveness<'_>) -> Option<Vec<BitSet>> {
    let words = stream.refs.div_ceil(64);
    let blocks = graph.blocks.len();
    let mut steps = 0;
    let mut read = Vec::with_capacity(blocks);
    let mut left = Vec::with_capacity(blocks);
    for number in 0..blocks {
        let mut reads = BitSet::new(stream.refs);
        let mut leaves = Leaves::new(stream);
        for at in graph.positions(number) {
            let inst = &stream.code[at.index()];
            inst.for_each_reg(stream, |reg, def| {
                if reg.bank == Bank::Ref && !def {
                    reads.insert(reg.index.into());
                    leaves.registers.insert(reg.index.into());
                }
            });
            if forgets(stream, inst) {
                leaves.clear();
            }
            inst.for_each_reg(stream, |reg, def| {
                if reg.bank == Bank::Ref && def {
                    leaves.registers.insert(reg.index.into());
                }
            });
        }
        read.push(reads);
        left.push(leaves);
    }
    // What the loop reads that a block is the head of.
    let mut of_loops: BTreeMap<usize, BitSet> = BTreeMap::new();
    for head in 0..blocks {
        if let Some(&last) = graph.before[head].iter().filter(|&&number| number >= head).max() {
            let mut reads = BitSet::new(stream.refs);
            read[head..=last].iter().for_each(|block| _ = reads.add_all(block));
            let ways_in = graph.before[head].iter().filter(|&&number| number < head).count();
            if ways_in * reads.iter().count() <= LOADED_MAX {
                of_loops.insert(head, reads);
            }
            steps += words * (last - head);
            if steps > STEPS_MAX {
                return None;
            }
        }
    }

    let after = graph.after();
    let mut held: Vec<BitSet> = (0..blocks).map(|number| live.at_start(number).clone()).collect();
    let mut work: Vec<usize> = (0..blocks).rev().collect();
    let mut queued = vec![true; blocks];
    while let Some(number) = work.pop() {
        queued[number] = false;
        let mut here = held[number].clone();
        let mut of_loop = of_loops.get(&number).cloned();
        if let Some(of_loop) = &mut of_loop {
            of_loop.keep_all(&here);
        }
        // Control comes to the first block from outside.
        if number == 0 {
            here.clear();
        }
        for &earlier in &graph.before[number] {
            let out = left[earlier].after(&held[earlier]);
            here.keep_all(&out);
            if let Some(of_loop) = of_loop.as_mut().filter(|_| earlier >= number) {
                of_loop.keep_all(&out);
            }
        }
        if let Some(of_loop) = &of_loop {
            here.add_all(of_loop);
        }
        steps += words * (1 + graph.before[number].len() + after[number].len());
        if steps > STEPS_MAX {
            return None;
        }
        if here != held[number] {
            held[number] = here;
            for &later in &after[number] {
                if !std::mem::replace(&mut queued[later], true) {
                    work.push(later);
                }
            }
        }
    }
    Some(held)
}

/// The registers whose cells may be outdated where each block begins, because they were written since references were
/// stored: forward dataflow. `None` if that takes too many steps.
fn outdated_at_starts(stream: &Stream, graph: &Graph) -> Option<Vec<BitSet>> {
    let words = stream.refs.div_ceil(64);
    let blocks = graph.blocks.len();
    let after = graph.after();
    let mut left = Vec::with_capacity(blocks);
    for number in 0..blocks {
        let mut leaves = Leaves::new(stream);
        for at in graph.positions(number) {
            let inst = &stream.code[at.index()];
            if stores(stream, inst) {
                leaves.clear();
            }
            // If the register alone holds the chain, its cell isn't written when that is finished.
            if let Form::ChainFinish { chain, .. } = inst.form() {
                leaves.registers.insert(chain.index());
            }
            inst.for_each_reg(stream, |reg, def| {
                if reg.bank == Bank::Ref && def {
                    leaves.registers.insert(reg.index.into());
                }
            });
        }
        left.push(leaves);
    }
    let mut outdated = vec![BitSet::new(stream.refs); blocks];
    let mut work: Vec<usize> = (0..blocks).rev().collect();
    let mut queued = vec![true; blocks];
    let mut steps = 0;
    while let Some(number) = work.pop() {
        queued[number] = false;
        let out = left[number].after(&outdated[number]);
        for &later in &after[number] {
            if outdated[later].add_all(&out) && !std::mem::replace(&mut queued[later], true) {
                work.push(later);
            }
        }
        steps += words * (1 + after[number].len());
        if steps > STEPS_MAX {
            return None;
        }
    }
    Some(outdated)
}

/// What a block makes of a set of registers: those that are held, or those with outdated cells.
struct Leaves {
    /// Whether those that were in it before aren't any more.
    clears: bool,
    registers: BitSet,
}

impl Leaves {
    fn new(stream: &Stream) -> Leaves {
        Leaves { clears: false, registers: BitSet::new(stream.refs) }
    }

    fn clear(&mut self) {
        self.clears = true;
        self.registers.clear();
    }

    fn after(&self, before: &BitSet) -> BitSet {
        let mut registers = self.registers.clone();
        if !self.clears {
            registers.add_all(before);
        }
        registers
    }
}

impl<'e> References<'e> {
    pub(super) fn new(
        emit: &mut Emit<'_>,
        stream: &'e Stream,
        graph: &'e Graph,
        tight: &BTreeMap<Position, TightLoop>,
    ) -> Self {
        let over_blocks = if stream.refs > 0 { OverBlocks::new(stream, graph, tight) } else { None };
        let mut bases = vec![None; stream.refs];
        for inst in &stream.code {
            if let Some(array) = read_elements(inst) {
                bases[array.index()].get_or_insert_with(|| emit.b.declare_var(I64));
            }
        }
        References {
            variables: (0..stream.refs).map(|_| emit.b.declare_var(I64)).collect(),
            bases,
            held: BitSet::new(stream.refs),
            waiting: BitSet::new(stream.refs),
            stale: BitSet::new(stream.refs),
            over_blocks,
        }
    }

    /// What is read later on of references, if that has been found out.
    pub(super) fn liveness(&mut self) -> Option<&mut Liveness<'e>> {
        self.over_blocks.as_mut().map(|over_blocks| &mut over_blocks.live)
    }

    /// Begins a block.
    pub(super) fn enter(&mut self, block: usize) {
        match &self.over_blocks {
            Some(OverBlocks { held, waiting, stale, .. }) => {
                self.held.clone_from(&held[block]);
                self.waiting.clone_from(&waiting[block]);
                self.stale.clone_from(&stale[block]);
            }
            None => self.held.clear(),
        }
    }

    /// The registers that are held where code is written now.
    pub(super) fn held(&self) -> BitSet {
        self.held.clone()
    }

    /// Goes on where other registers are held.
    pub(super) fn resume(&mut self, held: BitSet) {
        self.held = held;
    }

    /// Notes that a register is held again, whose variable has been written on all ways to here.
    pub(super) fn recall(&mut self, register: u16) {
        self.held.insert(register.into());
    }

    /// The registers that aren't held here but where a block begins.
    fn missing(&self, block: usize) -> Vec<u16> {
        let Some(OverBlocks { held, .. }) = &self.over_blocks else { return Vec::new() };
        let mut missing = held[block].clone();
        missing.remove_all(&self.held);
        missing.iter().map(|register| register as u16).collect()
    }

    /// Notes that a register is read no more, whatever its cell has.
    pub(super) fn retire(&mut self, register: u16) {
        self.waiting.remove(register.into());
        self.stale.insert(register.into());
    }

    /// The registers that wait here, but not where a block begins from which they are read. They wait no more.
    fn take_due(&mut self, block: usize) -> Vec<usize> {
        let Some(OverBlocks { waiting, live, .. }) = &self.over_blocks else { return Vec::new() };
        let mut due = self.waiting.clone();
        due.remove_all(&waiting[block]);
        due.keep_all(live.at_start(block));
        self.waiting.remove_all(&due);
        due.iter().collect()
    }
}

impl Function<'_, '_> {
    pub(super) fn reference(&mut self, register: u16) -> Value {
        let index = usize::from(register);
        if !self.references.held.contains(index) {
            self.fetch_reference(register);
        }
        self.emit.b.use_var(self.references.variables[index])
    }

    fn fetch_reference(&mut self, register: u16) {
        let index = usize::from(register);
        let value = self.emit.load(I64, self.bases.refs, cell(index));
        self.define_reference(index, value);
    }

    /// Notes what a register holds.
    fn define_reference(&mut self, index: usize, value: Value) {
        self.emit.b.def_var(self.references.variables[index], value);
        self.references.held.insert(index);
        if let Some(variable) = self.references.bases[index] {
            // What isn't an array, or isn't read, has a base that nobody asks for.
            let base = self.emit.base_of(value);
            self.emit.b.def_var(variable, base);
        }
    }

    /// Where the array in a register would have to begin for its elements to stand behind its header; elements of it
    /// are read.
    pub(super) fn base_of_elements(&mut self, register: u16) -> Value {
        self.reference(register);
        let variable = self.references.bases[usize::from(register)].expect("elements of the array are read");
        self.emit.b.use_var(variable)
    }

    pub(super) fn set_reference(&mut self, register: u16, value: Value) {
        self.copy_reference(register, value, None);
    }

    /// The same; it may be what another register holds.
    pub(super) fn copy_reference(&mut self, register: u16, value: Value, from: Option<u16>) {
        let index = usize::from(register);
        self.define_reference(index, value);
        self.known.write(register, from);
        if self.references.over_blocks.is_some() {
            self.references.waiting.insert(index);
            self.references.stale.remove(index);
        } else {
            self.store_reference(index);
        }
    }

    fn store_reference(&mut self, index: usize) {
        let value = self.emit.b.use_var(self.references.variables[index]);
        self.emit.store(value, self.bases.refs, cell(index));
    }

    /// Clears the cells of registers.
    fn clear_cells(&mut self, registers: &[usize]) {
        if !registers.is_empty() {
            let nothing = self.emit.int(0);
            registers.iter().for_each(|&register| self.emit.store(nothing, self.bases.refs, cell(register)));
        }
    }

    /// Stores what waits, and clears what is stale, if the instruction here needs that.
    pub(super) fn store_references(&mut self, inst: &Inst) {
        if !stores(self.stream, inst) {
            return;
        }
        // What a call is given is handed over.
        let from = if inst.calls() { Position(self.at.0 + 1) } else { self.at };
        let live = self.settle(from);
        live.into_iter().for_each(|register| self.store_reference(register));
        let stale: Vec<usize> = self.references.stale.iter().collect();
        self.clear_cells(&stale);
        self.references.waiting.clear();
        self.references.stale.clear();
    }

    /// The registers that wait and are read from a position on. The others are stale.
    fn settle(&mut self, from: Position) -> Vec<usize> {
        let References { waiting, stale, over_blocks: Some(over_blocks), .. } = &mut self.references else {
            return Vec::new();
        };
        let is_live = |&register: &usize| over_blocks.live.is_live(self.at, from, register as u16);
        let (live, dead): (Vec<usize>, Vec<usize>) = waiting.iter().partition(is_live);
        for register in dead {
            waiting.remove(register);
            stale.insert(register);
        }
        live
    }

    /// After this, references are loaded again: their objects may have moved.
    pub(super) fn forget_references(&mut self) {
        debug_assert_eq!(self.references.waiting.iter().next(), None, "what waits has been stored");
        self.references.held.clear();
    }

    /// Begins what moves objects on a rare way only, from the instruction here on. What is read later on stays held, if
    /// it isn't too much; more than that is stored. What is left to be stored on the rare way is returned
    /// ([`Function::store_rarely`]); all that is held is to be fetched again there ([`Function::fetch_references`]).
    pub(super) fn forget_references_rarely(&mut self) -> RareStores {
        let mut live = self.settle(self.at);
        let surplus = live.split_off(live.len().min(FETCHED_MAX));
        let References { held, stale, over_blocks, .. } = &mut self.references;
        let mut kept = BitSet::new(self.stream.refs);
        live.iter().for_each(|&register| kept.insert(register));
        if let Some(over_blocks) = over_blocks {
            let is_read = |&register: &usize| over_blocks.soon.is_live(self.at, self.at, register as u16);
            let others = FETCHED_MAX - live.len();
            held.iter().filter(is_read).take(others).for_each(|register| kept.insert(register));
        }
        *held = kept;
        let stale = stale.iter().collect();
        for register in surplus {
            self.references.waiting.remove(register);
            self.store_reference(register);
        }
        RareStores { live, stale }
    }

    /// Stores on the rare way what waits, and clears what is stale.
    pub(super) fn store_rarely(&mut self, stores: &RareStores) {
        stores.live.iter().for_each(|&register| self.store_reference(register));
        self.clear_cells(&stores.stale);
    }

    /// Loads all that is held from the frame, where objects have moved.
    pub(super) fn fetch_references(&mut self) {
        for register in self.references.held().iter() {
            self.fetch_reference(register as u16);
        }
    }

    /// Stores what waits here, but not where a block begins to which control goes from here, and loads what isn't held,
    /// but is there.
    pub(super) fn hold_for(&mut self, target: Position) {
        let block = self.graph.number(target);
        for register in self.references.take_due(block) {
            self.store_reference(register);
        }
        for register in self.references.missing(block) {
            self.fetch_reference(register);
        }
    }
}

/// What is to be stored where an allocation moves objects: what waits, and what is stale.
#[must_use]
pub(super) struct RareStores {
    live: Vec<usize>,
    stale: Vec<usize>,
}

impl RareStores {
    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty() && self.stale.is_empty()
    }
}
