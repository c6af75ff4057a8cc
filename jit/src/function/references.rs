//! References in machine registers.
//!
//! A reference stands in its cell of the frame from the instruction that writes it, where the heap's evacuation finds
//! and changes it. What was loaded from there, or stored, is good until objects may move, and is held in a variable
//! until then: over blocks, round loops, and over allocations, which move objects on their rare way only and fetch
//! there again what is read later on.
//!
//! Which registers are held where a block begins is found out before code is written. It is never relied on: where a
//! block leads to another, what that takes for held and isn't is loaded.

use super::graph::Graph;
use super::heap::words_of;
use super::liveness::{Liveness, STEPS_MAX};
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
    /// The registers that are held where each block begins, and what is read later on; `None` if finding it out takes
    /// too long, and then references are held in a block and over no allocation.
    over_blocks: Option<(Vec<BitSet>, Liveness<'e>)>,
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
        let mut leaves = Leaves { forgets: false, held: BitSet::new(stream.refs) };
        for at in graph.positions(number) {
            let inst = &stream.code[at.index()];
            inst.for_each_reg(stream, |reg, def| {
                if reg.bank == Bank::Ref && !def {
                    reads.insert(reg.index.into());
                    leaves.held.insert(reg.index.into());
                }
            });
            if forgets(stream, inst) {
                leaves.forgets = true;
                leaves.held.clear();
            }
            inst.for_each_reg(stream, |reg, def| {
                if reg.bank == Bank::Ref && def {
                    leaves.held.insert(reg.index.into());
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

    let mut after = vec![Vec::new(); blocks];
    for (number, before) in graph.before.iter().enumerate() {
        before.iter().for_each(|&earlier| after[earlier].push(number));
    }
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

/// What a block makes of the registers that are held.
struct Leaves {
    /// Whether those that were held before aren't any more.
    forgets: bool,
    held: BitSet,
}

impl Leaves {
    fn after(&self, before: &BitSet) -> BitSet {
        let mut held = self.held.clone();
        if !self.forgets {
            held.add_all(before);
        }
        held
    }
}

impl<'e> References<'e> {
    pub(super) fn new(emit: &mut Emit<'_>, stream: &'e Stream, graph: &'e Graph) -> Self {
        let over_blocks = if stream.refs > 0 {
            Liveness::new(stream, graph, Bank::Ref, forgets)
                .and_then(|live| Some((held_at_starts(stream, graph, &live)?, live)))
        } else {
            None
        };
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
            over_blocks,
        }
    }

    /// Begins a block.
    pub(super) fn enter(&mut self, block: usize) {
        match &self.over_blocks {
            Some((held, _)) => self.held.clone_from(&held[block]),
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
        let Some((held, _)) = &self.over_blocks else { return Vec::new() };
        let mut missing = held[block].clone();
        missing.remove_all(&self.held);
        missing.iter().map(|register| register as u16).collect()
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
        self.emit.store(value, self.bases.refs, cell(index));
        self.define_reference(index, value);
        self.known.write(register, from);
    }

    /// After this, references are loaded again: their objects may have moved.
    pub(super) fn forget_references(&mut self) {
        self.references.held.clear();
    }

    /// The same where that is so on a rare way only: what is read later on stays held, and is to be fetched there
    /// again ([`Function::fetch_references`]).
    pub(super) fn forget_references_rarely(&mut self) {
        let References { held, over_blocks, .. } = &mut self.references;
        let mut kept = BitSet::new(self.stream.refs);
        if let Some((_, live)) = over_blocks {
            let is_live = |&register: &usize| live.is_live(self.at, self.at, register as u16);
            held.iter().filter(is_live).take(FETCHED_MAX).for_each(|register| kept.insert(register));
        }
        *held = kept;
    }

    /// Loads all that is held from the frame, where objects have moved.
    pub(super) fn fetch_references(&mut self) {
        for register in self.references.held().iter() {
            self.fetch_reference(register as u16);
        }
    }

    /// Loads what isn't held, but is where a block begins to which control goes from here.
    pub(super) fn hold_for(&mut self, target: Position) {
        for register in self.references.missing(self.graph.number(target)) {
            self.fetch_reference(register);
        }
    }
}
