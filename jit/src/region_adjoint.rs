//! The adjoint of a region as native code: the adjoints of its registers stay in machine registers.
//!
//! Strong products are written as plain ones, as in [`crate::lenient`]. The test for NaN comes before anything that a
//! block adds to memory and before any register changes; if it fails, the block and the rest of the region are left to
//! the interpreter. Blocks that append ranges of arrays add to memory before they compute; in these, strong products
//! are written as such, and nothing is tested.

mod liveness;
mod loops;
mod nests;
mod pairs;

use self::liveness::Liveness;
use crate::adjoint_pairs::rounds_together;
use crate::emit::{Emit, UNALIGNED};
use crate::lenient::{Leniency, branch_on_nan, moved};
use crate::segment::Registers;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{Block, BlockCall, InstBuilder, JumpTableData, MemFlagsData, Value};
use cranelift_frontend::Variable;
use dualvm_vm::isa::{Bank, Reg};
use dualvm_vm::native::layout::{PART_LINK, STRIP_BYTES};
use dualvm_vm::native::{
    BlockAdjoint, BuilderAdjoint, COPIED_MAX, Edge, Inst, PushedTo, REGION_DONE, REGION_STOPPED, RegionCode, RegionRun,
    RoundsLeft, Stream, WayBack,
};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

/// Another number than those that say how far the code is: the interpreter has to go on.
const REGION_UNDONE: u64 = 2;

/// Whether rounds of a block are written out: it is a loop of its own.
fn is_grouped(number: usize, block: &BlockAdjoint) -> bool {
    let alone = |edge: &Edge| edge.from == Some(number as u16) && edge.numbers().bytes() == 0;
    let small = rounds_together(&block.code) > 1 && !block.copies() && !block.extends();
    block.rounds.is_some() && small && matches!(&*block.again, [edge] if alone(edge))
}

/// Whether all that a block does with builders is to push to one, once.
fn is_pushing_only(block: &BlockAdjoint) -> bool {
    matches!(&*block.builders, [BuilderAdjoint::Push { .. }])
}

/// Whether a step of a block with a builder reads a register.
fn step_reads(block: &BlockAdjoint, register: u16) -> bool {
    block.builders.iter().any(|step| {
        let PushedTo { first, left } = step.builder();
        let reads_those = !matches!(step, BuilderAdjoint::Begin(_)) && [first, left].contains(&register);
        reads_those || matches!(step, BuilderAdjoint::Finish { first, .. } if *first == register)
    })
}

/// Whether a block's adjoint writes where the array begins that a builder became, which is in this register.
fn renames(block: &BlockAdjoint, register: u16) -> bool {
    let writes = |step: &BuilderAdjoint| match step {
        BuilderAdjoint::Finish { builder, .. } | BuilderAdjoint::Begin(builder) => builder.first == register,
        BuilderAdjoint::Push { .. } | BuilderAdjoint::Extend { .. } => false,
    };
    block.builders.iter().any(writes)
}

/// How often each block is written out.
pub(crate) fn rounds_written(code: &RegionCode) -> Vec<u64> {
    let alone = |(n, block)| if is_grouped(n, block) { rounds_together(&block.code) as u64 + 1 } else { 1 };
    let mut written: Vec<u64> = code.blocks.iter().enumerate().map(alone).collect();
    for (number, more) in nests::lanes_written(code) {
        written[number] += more;
    }
    written
}

/// How a block is written: its results are what it adds to elements and leaves to others.
fn leniency(code: &RegionCode, block: &BlockAdjoint) -> Leniency {
    let contributions = block.elements.iter().map(|element| element.contribution);
    let results = contributions.chain(block.moves.iter().filter_map(moved));
    // Nothing may be left to the interpreter once something has been added.
    let write = if block.extends() { Leniency::strict } else { Leniency::new };
    write(code.reals, &block.code, results)
}

/// Writes the function: see [`dualvm_vm::native::RegionFn`].
pub(crate) fn write(emit: &mut Emit<'_>, code: &RegionCode) {
    let entry = emit.b.create_block();
    emit.b.append_block_params_for_function_params(entry);
    emit.enter(entry);
    let run = emit.b.block_params(entry)[0];
    let mut field = |offset: usize| emit.load(I64, run, offset as i32);
    let adjoints = field(offset_of!(RegionRun, adjoints));
    let (at, start) = (field(offset_of!(RegionRun, at)), field(offset_of!(RegionRun, start)));
    let budget = field(offset_of!(RegionRun, budget));
    let [at, start, budget] = [at, start, budget].map(|value| emit.variable(value));
    let lasting_reals: Vec<Variable> = (0..code.lasting_reals).map(|_| emit.b.declare_var(F64)).collect();
    let lasting_ints: Vec<Variable> = (0..code.lasting_ints).map(|_| emit.b.declare_var(I64)).collect();
    let blocks: Vec<Block> = code.blocks.iter().map(|_| emit.b.create_block()).collect();
    let starts: Vec<Block> = code.blocks.iter().map(|_| emit.b.create_block()).collect();
    let leave = emit.cold_block();
    let number = emit.b.append_block_param(leave, I64);
    let exits = code.blocks.iter().map(|_| None).collect();
    let (done, stopped) = (emit.b.create_block(), emit.cold_block());
    let lenient: Vec<Leniency> = code.blocks.iter().map(|block| leniency(code, block)).collect();
    let arrays = told_bases(code).into_iter().map(|base| (base, emit.b.declare_var(I64))).collect();
    let mut writer = Writer {
        emit,
        code,
        live: Liveness::new(code),
        lenient: &lenient,
        blocks,
        starts,
        lasting_reals,
        lasting_ints,
        arrays,
        at,
        start,
        budget,
        run,
        adjoints,
        exits,
        leave,
        stopped,
        done,
    };
    writer.begin();
    for (number, block) in code.blocks.iter().enumerate() {
        writer.block(number, block);
    }
    for block in 0..code.blocks.len() {
        writer.exit(block);
    }
    let done = writer.done;
    writer.emit.enter(done);
    writer.contribute();
    writer.put_trail();
    writer.put_changed();
    writer.end(REGION_DONE);
    writer.emit.enter(leave);
    writer.emit.store(number, run, offset_of!(RegionRun, block) as i32);
    writer.put_trail();
    writer.put_bases();
    writer.end(REGION_UNDONE);
    writer.emit.enter(stopped);
    writer.end(REGION_STOPPED);
}

/// The registers that last and say where arrays have their adjoints. Nothing writes them but the trail.
fn told_bases(code: &RegionCode) -> BTreeSet<u16> {
    let of_elements = code.blocks.iter().flat_map(|block| &block.elements).map(|element| element.base);
    let of_puts = code.blocks.iter().flat_map(|block| &block.puts).map(|put| put.base);
    let bases = of_elements.chain(of_puts).filter(|&base| usize::from(base) < code.lasting_ints);
    let bases: BTreeSet<u16> = bases.collect();
    let insts = code.blocks.iter().flat_map(|block| block.code.iter().chain(&block.moves));
    let mut written = insts.filter_map(Inst::pure_result).filter(|reg| reg.bank == Bank::Int).map(|reg| reg.index);
    debug_assert!(!written.any(|register| bases.contains(&register)), "a base is written by a block's adjoint");
    bases
}

/// What is known of a region before its code is written, for the estimate of what that costs.
pub(crate) struct Outline<'c> {
    code: &'c RegionCode,
    live: Liveness,
    bases: BTreeSet<u16>,
}

impl Outline<'_> {
    pub(crate) fn new(code: &RegionCode) -> Outline<'_> {
        Outline { code, live: Liveness::new(code), bases: told_bases(code) }
    }

    /// How many registers are live where the adjoint of a block begins.
    pub(crate) fn live(&self, block: usize) -> usize {
        self.live.at(block).len()
    }

    /// Whether a block's adjoint may be left to the interpreter.
    pub(crate) fn may_leave(&self, block: usize) -> bool {
        !leniency(self.code, &self.code.blocks[block]).tests.is_empty()
    }

    /// Of how many arrays it is found along an edge where their adjoints begin.
    pub(crate) fn bases_told(&self, edge: &Edge) -> usize {
        edge.ints.iter().filter(|register| self.bases.contains(register)).count()
    }
}

/// What the rounds of a loop don't change.
struct Hoisted {
    /// For each base, where the adjoints of the array begin; 0 if it is constant.
    arrays: BTreeMap<u16, Value>,
    /// What the rounds compute from what they don't change, and which instructions do that.
    known: Registers,
    unchanged: Vec<bool>,
    /// What the rounds have pushed to, by the register of the first slot: where the elements' adjoints begin.
    pushed: BTreeMap<u16, Value>,
}

/// Where a round stands in the trail.
#[derive(Clone, Copy)]
enum Trailing<'g> {
    /// Where the trail ends and where its part begins, before the round.
    Single([Value; 2]),
    /// As one of several that are written out.
    Group(Group<'g>),
}

/// Rounds that are written out one after the other.
#[derive(Clone, Copy)]
struct Group<'g> {
    /// Where the trail ends and how many rounds are left, before all of them.
    at: Value,
    left: Value,
    /// How many of them have run.
    done: i64,
    /// How many elements are left before all of them of what they have pushed to, by the register that says so.
    pushed: &'g BTreeMap<u16, Value>,
}

struct Writer<'w, 'a> {
    emit: &'w mut Emit<'a>,
    code: &'w RegionCode,
    /// How each block is written.
    lenient: &'w [Leniency],
    blocks: Vec<Block>,
    /// For each block, where the code goes on that leads to what comes before it, or before the loop whose head it is.
    starts: Vec<Block>,
    lasting_reals: Vec<Variable>,
    lasting_ints: Vec<Variable>,
    /// For each base that the trail tells, where the adjoints of the array begin; 0 if it is constant.
    arrays: BTreeMap<u16, Variable>,
    at: Variable,
    start: Variable,
    budget: Variable,
    /// Where the [`RegionRun`] is.
    run: Value,
    adjoints: Value,
    live: Liveness,
    /// For each block, where the code leaves it to the interpreter, if it does.
    exits: Vec<Option<Block>>,
    /// Where it leaves when registers are back in the frame; takes the block to go on with.
    leave: Block,
    /// Where it leaves when the sweep is to stop.
    stopped: Block,
    done: Block,
}

impl Writer<'_, '_> {
    /// The variable of a register that lasts.
    fn lasting(&self, reg: Reg) -> Variable {
        let n = usize::from(reg.index);
        if reg.bank == Bank::Real { self.lasting_reals[n] } else { self.lasting_ints[n] }
    }

    /// Leaves before a block, which the interpreter is to go on with.
    fn leave(&mut self, block: usize) {
        let exit = match self.exits[block] {
            Some(exit) => exit,
            None => *self.exits[block].insert(self.emit.cold_block()),
        };
        self.emit.b.ins().jump(exit, &[]);
    }

    /// What is live where a block begins goes back to the frame, with the places of adjoints for bases.
    fn exit(&mut self, block: usize) {
        let Some(exit) = self.exits[block] else { return };
        self.emit.enter(exit);
        let [reals, ints] = [offset_of!(RegionRun, reals), offset_of!(RegionRun, ints)]
            .map(|offset| self.emit.load(I64, self.run, offset as i32));
        for reg in self.live.at(block).to_vec() {
            let variable = if self.is_told(reg) { self.arrays[&reg.index] } else { self.lasting(reg) };
            let value = self.emit.b.use_var(variable);
            let frame = if reg.bank == Bank::Real { reals } else { ints };
            self.emit.store(value, frame, 8 * i32::from(reg.index));
        }
        let number = self.emit.int(block as i64);
        self.emit.b.ins().jump(self.leave, &[number.into()]);
    }

    /// Begins at the region's end.
    fn begin(&mut self) {
        let run = self.run;
        let (none, zero) = (self.emit.b.ins().f64const(0.0), self.emit.int(0));
        let outputs = self.emit.load(I64, run, offset_of!(RegionRun, outputs) as i32);
        for n in 0..self.lasting_reals.len() {
            let output = self.code.outputs.iter().position(|&register| usize::from(register) == n);
            let value = output.map_or(none, |output| self.emit.load(F64, outputs, 8 * output as i32));
            self.emit.b.def_var(self.lasting_reals[n], value);
        }
        for n in 0..self.lasting_ints.len() {
            self.emit.b.def_var(self.lasting_ints[n], zero);
        }
        for &array in self.arrays.values() {
            self.emit.b.def_var(array, zero);
        }
        if let Some(pushed) = self.code.pushed {
            for (n, register) in [pushed.first, pushed.left].into_iter().enumerate() {
                let value = self.emit.load(I64, run, (offset_of!(RegionRun, pushed) + 8 * n) as i32);
                self.emit.b.def_var(self.lasting_ints[usize::from(register)], value);
            }
        }
        self.edges(&self.code.exits, false);
    }

    /// Adds the contributions to the inputs, one after the other: two of them may be one slot.
    fn contribute(&mut self) {
        let slots = self.emit.load(I64, self.run, offset_of!(RegionRun, slots) as i32);
        for (n, &register) in self.code.contributions.iter().enumerate() {
            let slot = self.emit.b.ins().uload32(UNALIGNED, slots, 4 * n as i32);
            let contribution = self.emit.b.use_var(self.lasting_reals[usize::from(register)]);
            self.emit.add_to_slot(self.adjoints, slot, contribution);
        }
    }

    /// Puts into the frame what is known of builders whose elements the region has replaced.
    fn put_changed(&mut self) {
        if self.code.changed.is_empty() {
            return;
        }
        let ints = self.emit.load(I64, self.run, offset_of!(RegionRun, ints) as i32);
        for changed in &self.code.changed {
            for register in [changed.before, changed.first, changed.len] {
                let value = self.emit.b.use_var(self.lasting_ints[usize::from(register)]);
                self.emit.store(value, ints, 8 * i32::from(register));
            }
        }
    }

    /// Says how far the trail has been gone back.
    fn put_trail(&mut self) {
        let (at, start) = (self.emit.b.use_var(self.at), self.emit.b.use_var(self.start));
        self.emit.store(at, self.run, offset_of!(RegionRun, at) as i32);
        self.emit.store(start, self.run, offset_of!(RegionRun, start) as i32);
    }

    /// Puts first slots into the frame's bases, where the places of adjoints are; 0 for constant arrays. For one of
    /// another task it is the slot that the trail stands for. What isn't live may hold anything, before and after.
    fn put_bases(&mut self) {
        let ints = self.emit.load(I64, self.run, offset_of!(RegionRun, ints) as i32);
        for &base in self.arrays.keys() {
            let place = 8 * i32::from(base);
            let array = self.emit.load(I64, ints, place);
            let offset = self.emit.b.ins().isub(array, self.adjoints);
            let slot = self.emit.b.ins().ushr_imm_u(offset, 3);
            let slot = self.emit.select(array, slot, array);
            self.emit.store(slot, ints, place);
        }
    }

    fn end(&mut self, status: u64) {
        let status = self.emit.int(status as i64);
        self.emit.b.ins().return_(&[status]);
    }

    /// Goes back by so many bytes of the trail. Returns where they stand; the trail's end is not moved yet.
    fn back(&mut self, bytes: usize) -> Value {
        let at = self.end_of_part();
        self.emit.b.ins().iadd_imm_s(at, -(bytes as i64))
    }

    /// Where the trail ends: in the part before this one if this one is empty.
    fn end_of_part(&mut self) -> Value {
        let (at, start) = (self.emit.b.use_var(self.at), self.emit.b.use_var(self.start));
        let empty = self.emit.b.ins().icmp(IntCC::Equal, at, start);
        let (before, ready) = (self.emit.cold_block(), self.emit.b.create_block());
        self.emit.branch(empty, before, &[], ready, &[]);
        // The part before it ends with a strip, to whose end a link leads.
        self.emit.enter(before);
        let end = self.emit.b.ins().load(I64, UNALIGNED, start, PART_LINK);
        let end = self.emit.b.ins().iadd_imm_s(end, -(STRIP_BYTES as i64));
        let len = self.emit.b.ins().uload32(UNALIGNED, end, 0);
        let negative = self.emit.b.ins().ineg(len);
        let padding = self.emit.b.ins().band_imm_s(negative, 3);
        let end = self.emit.b.ins().isub(end, padding);
        let begin = self.emit.b.ins().isub(end, len);
        self.emit.b.def_var(self.at, end);
        self.emit.b.def_var(self.start, begin);
        self.emit.b.ins().jump(ready, &[]);
        self.emit.enter(ready);
        self.emit.b.use_var(self.at)
    }

    /// Goes back over the copy of an array of this length, if there is one.
    fn back_over_copy(&mut self, len: Value) {
        let (copied, done) = (self.emit.b.create_block(), self.emit.b.create_block());
        let long = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, len, COPIED_MAX as i64);
        self.emit.branch(long, done, &[], copied, &[]);
        self.emit.enter(copied);
        let at = self.end_of_part();
        // A cell and the elements.
        let bytes = self.emit.b.ins().ishl_imm_u(len, 3);
        let bytes = self.emit.b.ins().iadd_imm_s(bytes, 8);
        let at = self.emit.b.ins().isub(at, bytes);
        self.emit.b.def_var(self.at, at);
        self.emit.b.ins().jump(done, &[]);
        self.emit.enter(done);
    }

    fn block(&mut self, number: usize, block: &BlockAdjoint) {
        self.emit.b.switch_to_block(self.blocks[number]);
        if let Some(nest) = nests::nest(self.code, number) {
            let single = self.emit.b.create_block();
            self.rounds_together(number, &nest, single);
            self.emit.enter(single);
        }
        if is_grouped(number, block) {
            self.loop_of_one_block(number, block);
        } else {
            self.single(number, block, None);
            match block.rounds {
                Some(rounds) => {
                    let left = self.count_round(rounds);
                    let again = self.emit.b.create_block();
                    self.emit.branch(left, again, &[], self.starts[number], &[]);
                    self.emit.enter(again);
                    self.edges(&block.again, true);
                }
                None => _ = self.emit.b.ins().jump(self.starts[number], &[]),
            }
        }
        self.emit.b.switch_to_block(self.starts[number]);
        match &block.way_back {
            Some(way) => self.way_back(way, &block.before),
            None => self.edges(&block.before, false),
        }
    }

    /// Goes back from behind a loop, into it or past it.
    fn way_back(&mut self, way: &WayBack, edges: &[Edge]) {
        let mut found = Registers::new(0, self.code.ints);
        for inst in &way.code {
            inst.for_each_reg(&Stream::default(), |reg, def| {
                if !def && self.lasts(reg) {
                    let n = usize::from(reg.index);
                    found.ints[n] = Some(self.emit.b.use_var(self.lasting_ints[n]));
                }
            });
        }
        let mut registers = found.clone();
        for inst in &way.code {
            registers.run(self.emit, inst, false);
        }
        self.set_lasting(&registers, &found);
        let entered = self.emit.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, registers.int(way.rounds), 0);
        let (from_loop, past) = (self.emit.b.create_block(), self.emit.b.create_block());
        self.emit.branch(entered, from_loop, &[], past, &[]);
        let from = usize::from(way.edge);
        for (block, edge) in [(from_loop, from), (past, 1 - from)] {
            self.emit.enter(block);
            self.edge(&edges[edge], false);
        }
    }

    /// Writes the adjoint of a block, once.
    fn single(&mut self, number: usize, block: &BlockAdjoint, hoisted: Option<&Hoisted>) {
        let before = [self.at, self.start].map(|variable| self.emit.b.use_var(variable));
        let bytes = block.saved.bytes();
        let from = if bytes > 0 { self.back(bytes) } else { self.emit.b.use_var(self.at) };
        self.round(number, block, (from, 0), Trailing::Single(before), hoisted);
    }

    /// Goes on at `to` after rounds of a loop, unless the sweep is to stop.
    fn spend(&mut self, rounds: i64, to: Block) {
        let left = self.emit.b.use_var(self.budget);
        let left = self.emit.b.ins().iadd_imm_s(left, -rounds);
        self.emit.b.def_var(self.budget, left);
        let more = self.emit.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, left, 1);
        let poll = self.emit.cold_block();
        self.emit.branch(more, to, &[], poll, &[]);
        self.emit.enter(poll);
        let budget = self.emit.poll_region(self.run);
        self.emit.b.def_var(self.budget, budget);
        self.emit.branch(budget, to, &[], self.stopped, &[]);
    }

    /// How many rounds are left after one.
    fn count_round(&mut self, rounds: RoundsLeft) -> Value {
        let variable = self.lasting_ints[usize::from(rounds.register)];
        let left = self.emit.b.use_var(variable);
        if rounds.stepped {
            return left;
        }
        let left = self.emit.b.ins().iadd_imm_s(left, -1);
        self.emit.b.def_var(variable, left);
        left
    }

    /// Where the trail ends and how many rounds are left after so many rounds of a group.
    fn after(&mut self, (at, left): (Value, Value), done: i64, bytes: i64) -> (Value, Value) {
        let at = self.emit.plus(at, -done * bytes);
        (at, self.emit.b.ins().iadd_imm_s(left, -done))
    }

    /// Whether a register lasts from block to block.
    fn lasts(&self, reg: Reg) -> bool {
        let count = if reg.bank == Bank::Real { self.code.lasting_reals } else { self.code.lasting_ints };
        usize::from(reg.index) < count
    }

    /// What a block finds that it or another one reads.
    fn registers(&mut self, block: usize) -> Registers {
        let mut registers = Registers::new(self.code.reals, self.code.ints);
        self.fetch_lasting(&mut registers, block);
        registers
    }

    fn fetch_lasting(&mut self, registers: &mut Registers, block: usize) {
        for &reg in self.live.at(block) {
            // Where an array has its adjoints takes a machine register already.
            if self.is_told(reg) && !step_reads(&self.code.blocks[block], reg.index) {
                continue;
            }
            let n = usize::from(reg.index);
            let (variable, registers) = match reg.bank {
                Bank::Real => (self.lasting_reals[n], &mut registers.reals),
                _ => (self.lasting_ints[n], &mut registers.ints),
            };
            registers[n] = Some(self.emit.b.use_var(variable));
        }
    }

    /// Leaves the block for the interpreter, as a round found it.
    fn leave_to_interpreter(&mut self, number: usize, block: &BlockAdjoint, trailing: Trailing<'_>) {
        match trailing {
            Trailing::Single([at, start]) => {
                self.emit.b.def_var(self.at, at);
                self.emit.b.def_var(self.start, start);
            }
            Trailing::Group(Group { at, left, done, .. }) => {
                let (at, left) = self.after((at, left), done, block.saved.bytes() as i64);
                self.emit.b.def_var(self.at, at);
                let rounds = block.rounds.expect("a group is of rounds");
                self.emit.b.def_var(self.lasting_ints[usize::from(rounds.register)], left);
            }
        }
        self.leave(number);
    }

    /// What lasts goes on as registers hold it, where that is something else than before.
    fn set_lasting(&mut self, registers: &Registers, before: &Registers) {
        let reals = self.lasting_reals.iter().zip(registers.reals.iter().zip(&before.reals));
        let ints = self.lasting_ints.iter().zip(registers.ints.iter().zip(&before.ints));
        for (&variable, (&value, &before)) in reals.chain(ints) {
            if let Some(value) = value.filter(|_| value != before) {
                self.emit.b.def_var(variable, value);
            }
        }
    }

    /// Writes what a block's adjoint computes. What the block has saved stands at so many bytes from an address.
    fn round(
        &mut self,
        number: usize,
        block: &BlockAdjoint,
        from: (Value, i64),
        trailing: Trailing<'_>,
        hoisted: Option<&Hoisted>,
    ) {
        let mut registers = match hoisted {
            Some(hoisted) => {
                let mut registers = hoisted.known.clone();
                self.fetch_lasting(&mut registers, number);
                registers
            }
            None => self.registers(number),
        };
        let [real, int] = block.saved_at.map(usize::from);
        let (place, offset) = (from.0, from.1 as i32);
        for n in 0..block.saved.reals {
            let value = self.emit.b.ins().load(F64, UNALIGNED, place, offset + block.saved.real(n) as i32);
            registers.reals[real + n] = Some(value);
        }
        for n in 0..block.saved.ints {
            let value = self.emit.b.ins().load(I64, UNALIGNED, place, offset + block.saved.int(n) as i32);
            registers.ints[int + n] = Some(value);
        }
        let lasting = registers.clone();
        if block.copies() {
            self.emit.b.def_var(self.at, place);
        }
        let lenient = &self.lenient[number];
        let is_known = |n: usize| hoisted.is_some_and(|hoisted| hoisted.unchanged[n]);
        registers.run_some(self.emit, (&block.code, 0..block.before_steps), lenient, is_known);
        let mut arrays = hoisted.map_or_else(BTreeMap::new, |hoisted| hoisted.arrays.clone());
        // Where arrays begin that builders became in the block, for what is before it.
        let mut renamed = BTreeMap::new();
        for step in &block.builders {
            self.builder(step, &mut registers, trailing, hoisted);
            let first = step.builder().first;
            if renames(block, first) && self.arrays.contains_key(&first) {
                let array = self.array(registers.int(first));
                renamed.insert(first, array);
            }
        }
        arrays.extend(renamed.iter().map(|(&first, &array)| (first, array)));
        let places = self.take_puts(block, &mut registers, &arrays);
        registers.run_some(self.emit, (&block.code, block.before_steps..block.code.len()), lenient, is_known);
        if !lenient.tests.is_empty() {
            let tests: Vec<Value> = lenient.tests.iter().map(|&n| registers.real(n)).collect();
            let failed = self.emit.cold_block();
            branch_on_nan(self.emit, &tests, failed);
            let here = self.emit.b.current_block().expect("a block is being written");
            self.emit.enter(failed);
            self.leave_to_interpreter(number, block, trailing);
            self.emit.b.switch_to_block(here);
        }
        if matches!(trailing, Trailing::Single(_)) && !block.copies() {
            self.emit.b.def_var(self.at, place);
        }
        if !places.is_empty() {
            let none = self.emit.b.ins().f64const(0.0);
            places.into_iter().for_each(|place| self.emit.store(none, place, 0));
        }
        for (first, array) in renamed {
            self.emit.b.def_var(self.arrays[&first], array);
        }
        self.elements(block, &registers, arrays);
        for inst in &block.moves {
            registers.run(self.emit, inst, false);
        }
        self.set_lasting(&registers, &lasting);
    }

    /// Goes back over what a block did with a builder.
    fn builder(
        &mut self,
        step: &BuilderAdjoint,
        registers: &mut Registers,
        trailing: Trailing<'_>,
        hoisted: Option<&Hoisted>,
    ) {
        if let BuilderAdjoint::Push { builder, adjoints } = step
            && let Trailing::Group(Group { done, pushed, .. }) = trailing
            && let Some(&first) = hoisted.and_then(|hoisted| hoisted.pushed.get(&builder.first))
        {
            // All places are found from the one before the group, so that they don't depend on each other.
            let (left, count) = (pushed[&builder.left], adjoints.len() as i64);
            let before = -(done + 1) * count;
            let offset = self.emit.b.ins().ishl_imm_u(left, 3);
            let address = self.emit.b.ins().iadd(first, offset);
            for (n, &register) in (before..).zip(adjoints.iter().rev()) {
                registers.reals[usize::from(register)] = Some(self.emit.load(F64, address, 8 * n as i32));
            }
            registers.ints[usize::from(builder.left)] = Some(self.emit.b.ins().iadd_imm_s(left, before));
            return;
        }
        match step {
            BuilderAdjoint::Finish { builder, first, len, copied } => {
                if *copied {
                    self.back_over_copy(registers.int(*len));
                }
                for (to, from) in [(builder.first, *first), (builder.left, *len)] {
                    registers.ints[usize::from(to)] = Some(registers.int(from));
                }
            }
            BuilderAdjoint::Push { builder, adjoints } => self.pushed_adjoints(*builder, adjoints, registers),
            BuilderAdjoint::Extend { builder, base, from, count } => {
                self.extended(*builder, (*base, *from, *count), registers);
            }
            BuilderAdjoint::Begin(builder) => registers.ints[usize::from(builder.first)] = Some(self.emit.int(0)),
        }
    }

    /// Loads the adjoints of what a block has pushed, the last one first.
    fn pushed_adjoints(&mut self, builder: PushedTo, adjoint_registers: &[u16], registers: &mut Registers) {
        let count = adjoint_registers.len() as i64;
        let before = self.emit.b.ins().iadd_imm_s(registers.int(builder.left), -count);
        registers.ints[usize::from(builder.left)] = Some(before);
        let pushed = registers.int(builder.first);
        let slot = self.emit.b.ins().iadd(pushed, before);
        let adjoints = self.adjoints;
        let address = self.emit.adjoints_at(adjoints, slot);
        // What was pushed may be constant. Then the constants' adjoint is read in its place, and not used.
        for (n, &register) in adjoint_registers.iter().rev().enumerate() {
            let place = self.emit.b.ins().iadd_imm_s(address, 8 * n as i64);
            let place = self.emit.select(pushed, place, adjoints);
            let adjoint = self.emit.load(F64, place, 0);
            let none = self.emit.b.ins().f64const(0.0);
            registers.reals[usize::from(register)] = Some(self.emit.select(pushed, adjoint, none));
        }
    }

    /// Adds the adjoints of a range of an array that was appended to those of the array.
    fn extended(&mut self, builder: PushedTo, (base, from, count): (u16, u16, u16), registers: &mut Registers) {
        let count = registers.int(count);
        let before = self.emit.b.ins().isub(registers.int(builder.left), count);
        registers.ints[usize::from(builder.left)] = Some(before);
        let first = registers.int(builder.first);
        let array = match self.arrays.get(&base) {
            Some(&array) => self.emit.b.use_var(array),
            None => self.array(registers.int(base)),
        };
        let none = self.emit.int(0);
        let some = self.emit.b.ins().icmp(IntCC::SignedGreaterThan, count, none);
        let known = [first, array].map(|value| self.emit.is_nonzero(value));
        let [add, head, done] = [(); 3].map(|()| self.emit.b.create_block());
        self.emit.branch_if_all(&[some, known[0], known[1]], add, done);

        self.emit.enter(add);
        let slot = self.emit.b.ins().iadd(first, before);
        let adjoints = self.adjoints;
        let from_place = self.emit.adjoints_at(adjoints, slot);
        let to_place = self.emit.adjoints_at(array, registers.int(from));
        let bytes = self.emit.b.ins().ishl_imm_u(count, 3);
        let budget = self.emit.b.use_var(self.budget);
        let spent = self.emit.b.ins().ushr_imm_u(count, 4);
        let budget = self.emit.b.ins().isub(budget, spent);
        self.emit.b.def_var(self.budget, budget);
        let offset = self.emit.variable(none);
        self.emit.b.ins().jump(head, &[]);

        self.emit.b.switch_to_block(head);
        let at = self.emit.b.use_var(offset);
        let [from, to] = [from_place, to_place].map(|place| self.emit.b.ins().iadd(place, at));
        let [adjoint, sum] = [from, to].map(|place| self.emit.load(F64, place, 0));
        let sum = self.emit.b.ins().fadd(sum, adjoint);
        self.emit.store(sum, to, 0);
        let next = self.emit.b.ins().iadd_imm_s(at, 8);
        self.emit.b.def_var(offset, next);
        let more = self.emit.b.ins().icmp(IntCC::UnsignedLessThan, next, bytes);
        self.emit.branch(more, head, &[], done, &[]);
        self.emit.b.seal_block(head);
        self.emit.enter(done);
    }

    /// Loads the adjoints of elements that a block has put, the last one first. Returns where they are: 0 is to stand
    /// there before anything is added. Two of them may be one.
    fn take_puts(
        &mut self,
        block: &BlockAdjoint,
        registers: &mut Registers,
        // Where the adjoints of arrays begin of which the trail hasn't told it.
        arrays: &BTreeMap<u16, Value>,
    ) -> Vec<Value> {
        let mut places: Vec<Value> = Vec::with_capacity(block.puts.len());
        for put in &block.puts {
            let known = arrays.get(&put.base).copied();
            let array = known.unwrap_or_else(|| self.emit.b.use_var(self.arrays[&put.base]));
            let place = self.emit.adjoints_at(array, registers.int(put.index));
            let mut adjoint = self.emit.load(F64, place, 0);
            for &later in &places {
                let none = self.emit.b.ins().f64const(0.0);
                let same = self.emit.b.ins().icmp(IntCC::Equal, place, later);
                adjoint = self.emit.select(same, none, adjoint);
            }
            registers.reals[usize::from(put.adjoint)] = Some(adjoint);
            places.push(place);
        }
        places
    }

    /// Adds a block's contributions to elements.
    fn elements(
        &mut self,
        block: &BlockAdjoint,
        registers: &Registers,
        // For each base, where the adjoints of the array begin.
        mut arrays: BTreeMap<u16, Value>,
    ) {
        for of_array in block.elements.chunk_by(|a, b| a.base == b.base) {
            let base = of_array[0].base;
            let told = self.arrays.get(&base).map(|&array| self.emit.b.use_var(array));
            let start = match arrays.get(&base).copied().or(told) {
                Some(known) => known,
                None => {
                    let found = self.array(registers.int(base));
                    arrays.insert(base, found);
                    found
                }
            };
            let added: Vec<(Value, Value)> = of_array
                .iter()
                .map(|element| (registers.int(element.index), registers.real(element.contribution)))
                .collect();
            self.emit.add_to_elements(start, &added);
        }
    }

    /// Whether a register may be read where an edge has been gone back along.
    fn is_read_along(&self, edge: &Edge, reg: Reg) -> bool {
        let Some(from) = edge.from.map(usize::from) else { return false };
        let skipped = edge.leaves && self.code.blocks[from].guard.is_some();
        skipped || self.live.at(from).binary_search(&reg).is_ok()
    }

    /// Finds where the adjoints of an array begin whose base the trail has told.
    fn find_array(&mut self, base: u16) {
        let first = self.emit.b.use_var(self.lasting_ints[usize::from(base)]);
        let array = self.array(first);
        self.emit.b.def_var(self.arrays[&base], array);
    }

    /// Whether a register is a base that the trail tells.
    fn is_told(&self, reg: Reg) -> bool {
        reg.bank == Bank::Int && self.arrays.contains_key(&reg.index)
    }

    /// Where the adjoints of an array begin.
    fn array(&mut self, base: Value) -> Value {
        let (others, ready) = (self.emit.cold_block(), self.emit.b.create_block());
        let first = self.emit.b.append_block_param(ready, I64);
        let foreign = self.emit.is_negative(base);
        self.emit.branch(foreign, others, &[], ready, &[base.into()]);
        self.emit.enter(others);
        let place = self.emit.b.ins().bnot(base);
        let offset = self.emit.b.ins().ishl_imm_u(place, 3);
        let foreign = self.emit.load(I64, self.run, offset_of!(RegionRun, foreign) as i32);
        let address = self.emit.b.ins().iadd(foreign, offset);
        let slot = self.emit.load(I64, address, 0);
        self.emit.b.ins().jump(ready, &[slot.into()]);
        self.emit.enter(ready);
        self.emit.adjoints_from(self.adjoints, first)
    }

    /// Goes back along one of these edges. `again`: they lead back to the head of a loop, so rounds are counted.
    fn edges(&mut self, edges: &[Edge], again: bool) {
        if let [edge] = edges {
            return self.edge(edge, again);
        }
        let at = self.back(1);
        self.emit.b.def_var(self.at, at);
        let number = self.emit.b.ins().uload8(I32, UNALIGNED, at, 0);
        let blocks: Vec<Block> = edges.iter().map(|_| self.emit.b.create_block()).collect();
        if let [first, second] = blocks[..] {
            self.emit.branch(number, second, &[], first, &[]);
        } else {
            let pool = &mut self.emit.b.func.dfg.value_lists;
            let targets: Vec<BlockCall> = blocks.iter().map(|&block| BlockCall::new(block, [], pool)).collect();
            let default = BlockCall::new(blocks[0], [], pool);
            let table = self.emit.b.create_jump_table(JumpTableData::new(default, &targets));
            self.emit.b.ins().br_table(number, table);
        }
        for (edge, block) in edges.iter().zip(blocks) {
            self.emit.enter(block);
            self.edge(edge, again);
        }
    }

    /// Skips the rounds of the loop that a block is, if nothing flows back into them.
    fn guard(&mut self, number: usize) {
        let block = &self.code.blocks[number];
        let (Some(guard), Some(rounds)) = (&block.guard, block.rounds) else { return };
        let mut any = None;
        for &adjoint in &guard.adjoints {
            let adjoint = self.emit.b.use_var(self.lasting_reals[usize::from(adjoint)]);
            let bits = self.emit.b.ins().bitcast(I64, MemFlagsData::new(), adjoint);
            any = Some(any.map_or(bits, |any| self.emit.b.ins().bor(any, bits)));
        }
        let Some(any) = any else { return };
        // Zeros of either sign.
        let magnitude = self.emit.b.ins().ishl_imm_u(any, 1);
        let idle = self.emit.is_zero(magnitude);
        let (skip, run) = (self.emit.b.create_block(), self.emit.b.create_block());
        let (at, start) = (self.emit.b.use_var(self.at), self.emit.b.use_var(self.start));
        let rounds = self.emit.b.use_var(self.lasting_ints[usize::from(rounds.register)]);
        if guard.bytes == 0 {
            self.emit.branch(idle, self.starts[number], &[], run, &[]);
            self.emit.enter(run);
            return;
        }
        let bytes = self.emit.b.ins().imul_imm_s(rounds, guard.bytes as i64);
        let here = self.emit.b.ins().isub(at, start);
        let all = self.emit.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, bytes, here);
        let both = self.emit.b.ins().band(idle, all);
        self.emit.branch(both, skip, &[], run, &[]);
        self.emit.enter(skip);
        let at = self.emit.b.ins().isub(at, bytes);
        self.emit.b.def_var(self.at, at);
        self.emit.b.ins().jump(self.starts[number], &[]);
        self.emit.enter(run);
    }

    fn edge(&mut self, edge: &Edge, again: bool) {
        let numbers = edge.numbers();
        if numbers.bytes() > 0 {
            let from = self.back(numbers.bytes());
            self.emit.b.def_var(self.at, from);
            for (n, &register) in edge.reals.iter().enumerate() {
                let value = self.emit.b.ins().load(F64, UNALIGNED, from, numbers.real(n) as i32);
                self.emit.b.def_var(self.lasting_reals[usize::from(register)], value);
            }
            for (n, &register) in edge.ints.iter().enumerate() {
                let value = self.emit.b.ins().load(I64, UNALIGNED, from, numbers.int(n) as i32);
                self.emit.b.def_var(self.lasting_ints[usize::from(register)], value);
            }
            for &register in &edge.ints {
                if self.arrays.contains_key(&register) && self.is_read_along(edge, Reg::int(register)) {
                    self.find_array(register);
                }
            }
        }
        let Some(from) = edge.from else {
            self.emit.b.ins().jump(self.done, &[]);
            return;
        };
        let to = self.blocks[usize::from(from)];
        if edge.leaves {
            self.guard(usize::from(from));
        }
        if again {
            self.spend(1, to);
        } else {
            self.emit.b.ins().jump(to, &[]);
        }
    }
}
