//! A function's stream as native code.
//!
//! Reals, their words and integers are variables, which Cranelift keeps in machine registers. References stand in the
//! frame, where the heap's evacuation finds and changes them; what was loaded of one is used again until something may
//! allocate. Fuel is a variable, too, and goes back to the context before every call and at the end.
//!
//! A call hands its arguments over in the first cells above the bases: for reals and integers those are the caller's
//! own bases, because nothing of the caller stands there, for references they are above the caller's frame.

mod ahead;
mod builders;
mod calls;
mod chains;
mod constants;
mod deep;
mod graph;
mod heap;
mod known;
mod late;
mod liveness;
mod loops;
mod pairs;
mod records;
mod references;
mod regions;
mod rows;
mod stretches;
mod superwords;
mod texts;
mod tight;
mod twins;

use ahead::Ahead;
use builders::LastPush;
pub(crate) use constants::Constants;
use graph::Graph;
use known::Known;
use late::LateLoads;
use liveness::Liveness;
use loops::OpenLoop;
use references::References;
use rows::Rows;
pub(crate) use stretches::{Stretch, stretch};
use tight::{GroupRound, TightLoop};
use twins::AllTwins;

use crate::emit::{Emit, TRUSTED};
use crate::shared::function_signature;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{
    Block, InstBuilder, JumpTableData, SigRef, StackSlot, StackSlotData, StackSlotKind, Type, Value,
};
use cranelift_frontend::Variable;
use dualvm_vm::isa::{Bank, Op};
use dualvm_vm::native::helpers::Helper;
use dualvm_vm::native::layout;
use dualvm_vm::native::{Form, FunctionRequest, Inst, IntReg, Position, Pure, RegList, ScalarInst, Stream, SwitchSite};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

/// Room for a native frame per instruction: values that don't fit into registers are spilled.
const FRAME_BYTES_PER_INSTRUCTION: usize = 64;
/// So many entries of lists take as much as an instruction: a real and its word are two values.
const ENTRIES_PER_INSTRUCTION: usize = 4;

/// The room on the stack that a function's code makes sure of before it takes it. What hands over many registers counts
/// as several instructions. Code that turns out to take more must not be run.
pub(crate) fn frame_bytes(stream: &Stream) -> usize {
    let len = |list: &RegList| list.reals.len() + list.ints.len() + list.refs.len();
    let both = |uses: &RegList, defs: &RegList| len(uses) + len(defs);
    let calls: usize = stream.calls.iter().map(|site| both(&site.uses, &site.defs)).sum();
    let tasks: usize = stream.forks.iter().flat_map(|site| &site.tasks).map(|task| both(&task.uses, &task.defs)).sum();
    let maps: usize = stream.maps.iter().map(|site| len(&site.uses)).sum();
    let objects: usize = stream.objects.iter().map(|site| len(&site.uses)).sum();
    let texts: usize = stream.texts.iter().map(|site| len(&site.uses)).sum();
    let size = stream.code.len() + (calls + tasks + maps + objects + texts) / ENTRIES_PER_INSTRUCTION;
    FRAME_BYTES_PER_INSTRUCTION * size + stretches::cells_bytes(stream) + 1024
}

/// Writes the function.
pub(crate) fn write(emit: &mut Emit<'_>, request: &FunctionRequest<'_>) {
    let graph = Graph::new(request.stream);
    Function::new(emit, request, &graph).write();
}

/// The parts of a stream, which is one of code at a depth, of which several rounds are written out, and how many.
pub(crate) fn counted_loops(stream: &Stream, constants: &Constants, depth: u32) -> Vec<(RangeInclusive<usize>, u64)> {
    let graph = Graph::new(stream);
    let found = tight::loops(stream, &starts(&graph.blocks), constants, depth);
    let ahead = ahead::find(stream, &graph, constants, &found, depth);
    let written = |(start, tight): (_, &TightLoop)| {
        let together = if ahead.contains_key(start) { ahead::ROUNDS_WRITTEN } else { 0 };
        let rounds = tight.rounds_written().unwrap_or(1) + together;
        (rounds > 1).then(|| (tight.range(), rounds))
    };
    found.iter().filter_map(written).collect()
}

struct Function<'e, 'a> {
    emit: &'e mut Emit<'a>,
    request: FunctionRequest<'e>,
    stream: &'e Stream,
    reals: Vec<Variable>,
    words: Vec<Variable>,
    ints: Vec<Variable>,
    fuel: Variable,
    /// What numbers of fuel were counted from, and how much less they are.
    fuel_counted: BTreeMap<Value, (Value, i64)>,
    late: LateLoads,
    /// The registers that hold chains which no other one holds, with the words of their cells.
    own_chains: BTreeMap<u16, usize>,
    references: References<'e>,
    known: Known,
    /// What is known where blocks begin, by number of the block.
    known_at: BTreeMap<usize, Known>,
    /// The integer registers that are places in rows of arrays.
    rows: Rows,
    /// Loops in which no reference changes and nothing allocates, by the position of their head.
    tight: BTreeMap<Position, TightLoop>,
    /// Those among them whose sums are found for several rounds of the loop around.
    ahead: BTreeMap<Position, (Ahead, Option<ahead::Found>)>,
    /// The one that is being written.
    inside: Option<TightLoop>,
    /// The registers that it carries as vectors.
    twins: AllTwins,
    /// The round of a counted loop that is written, if it is one of several that run without tests.
    group: Option<GroupRound>,
    constants: Constants,
    graph: &'e Graph,
    /// The blocks that stream positions begin.
    blocks: BTreeMap<Position, Block>,
    context: Value,
    bases: Bases,
    remaining: Value,
    /// Where a run leaves that has to stop: function and position go to a backtrace there. Takes the position; fuel
    /// stands in the context.
    unwind: Block,
    callee: SigRef,
    open_loop: OpenLoop,
    /// Where the interpreter finds registers that computes a stretch of arithmetic, once there is one.
    stretch_cells: Option<StackSlot>,
    /// Within a block.
    last_push: Option<LastPush>,
    /// Of reals. Found out for the first stretch, if that doesn't take too long.
    liveness: Option<Option<Liveness<'e>>>,
    /// The stream position of the instruction that is written.
    at: Position,
}

/// The first registers of a frame in each bank.
#[derive(Clone, Copy)]
struct Bases {
    reals: Value,
    words: Value,
    ints: Value,
    refs: Value,
}

/// The positions to which later instructions lead, with the last one that does.
fn last_ways_back(stream: &Stream) -> BTreeMap<Position, Position> {
    let mut last = BTreeMap::new();
    for (at, inst) in (0..).map(Position).zip(&stream.code) {
        inst.for_each_target(stream, |target| {
            if target <= at {
                last.insert(target, at);
            }
        });
    }
    last
}

/// The head of the outermost loop around the head of an inner one.
///
/// Code that begins at the inner one alone would make it the head of all these loops: they would have one way in, and
/// the register allocator, which goes by how deep loops are nested, would take the inner one's rounds for as rare as
/// the outer ones'. An edge to the outermost head, even one that is never taken, leaves the nest as it is.
fn outermost_head(stream: &Stream, blocks: &[Range<Position>], entry: Position) -> Option<Position> {
    let mut outermost = entry;
    for block in blocks.iter().filter(|block| block.start >= entry) {
        for inst in &stream.code[block.start.index()..block.end.index()] {
            inst.for_each_target(stream, |target| outermost = outermost.min(target));
        }
    }
    (outermost < entry).then_some(outermost)
}

impl<'e, 'a> Function<'e, 'a> {
    fn new(emit: &'e mut Emit<'a>, request: &FunctionRequest<'e>, graph: &'e Graph) -> Self {
        let stream = request.stream;
        let entry = emit.b.create_block();
        emit.b.append_block_params_for_function_params(entry);
        emit.enter(entry);
        let params: Vec<Value> = emit.b.block_params(entry).to_vec();
        let mut declare = |count: usize, ty: Type| (0..count).map(|_| emit.b.declare_var(ty)).collect::<Vec<_>>();
        let reals = declare(stream.reals, F64);
        let words = declare(if request.mode.is_recording() { stream.reals } else { 0 }, I64);
        let ints = declare(stream.ints, I64);
        let fuel = emit.b.declare_var(I64);
        let constants = Constants::new(stream);
        let depth = request.mode.depth();
        let tight = tight::loops(stream, &starts(&graph.blocks), &constants, depth);
        let ahead = ahead::find(stream, graph, &constants, &tight, depth);
        let ahead = ahead.into_iter().map(|(start, ahead)| (start, (ahead, None))).collect();
        let mut references = References::new(emit, stream, graph, &tight);
        let own_chains = references.liveness().map(|live| chains::own_chains(stream, live)).unwrap_or_default();
        let blocks = graph.blocks.iter().map(|block| (block.start, emit.b.create_block())).collect();
        let unwind = emit.cold_block();
        emit.b.append_block_param(unwind, I32);
        let callee = emit.b.import_signature(function_signature());
        let open_loop = OpenLoop::new(&mut emit.b);
        Function {
            emit,
            request: *request,
            stream,
            reals,
            words,
            ints,
            fuel,
            fuel_counted: BTreeMap::new(),
            late: LateLoads::new(stream.reals),
            own_chains,
            references,
            known: Known::default(),
            known_at: BTreeMap::new(),
            rows: Rows::default(),
            tight,
            ahead,
            constants,
            inside: None,
            twins: AllTwins::default(),
            group: None,
            graph,
            blocks,
            context: params[0],
            bases: Bases { reals: params[1], words: params[2], ints: params[3], refs: params[4] },
            remaining: params[5],
            unwind,
            callee,
            open_loop,
            stretch_cells: None,
            last_push: None,
            liveness: None,
            at: Position::default(),
        }
    }

    fn write(mut self) {
        self.prologue();
        let last_ways_back = last_ways_back(self.stream);
        let mut open: BTreeSet<(Position, Position)> = BTreeSet::new();
        for (number, block) in self.graph.blocks.iter().enumerate() {
            self.at = block.start;
            self.emit.b.switch_to_block(self.blocks[&block.start]);
            let tight = self.tight.get(&block.start).map(|tight| tight.end());
            match last_ways_back.get(&block.start) {
                // The ways back to the head of a tight loop lead to a block of its own.
                Some(&last) if tight.is_none_or(|end| end < last) => _ = open.insert((last, block.start)),
                _ => self.emit.b.seal_block(self.blocks[&block.start]),
            }
            self.enter_block(number);
            self.insts(block.start, block.end);
            if !self.stream.code[self.at.index()].ends_block() {
                self.load_late();
                self.lead_to(&self.stream.code[self.at.index()], block.end);
                self.emit.b.ins().jump(self.blocks[&block.end], &[]);
            }
            self.seal_tight(block.end);
            while let Some((_, head)) = open.first().copied().filter(|&(last, _)| last < block.end) {
                open.pop_first();
                self.emit.b.seal_block(self.blocks[&head]);
            }
        }
        self.unwind();
    }

    /// Makes room, fetches the arguments (or, at a loop, all registers), goes to the first instruction.
    fn prologue(&mut self) {
        let stream = self.stream;
        let own_frame = frame_bytes(stream) as i64;
        let sp = self.emit.b.ins().get_stack_pointer(I64);
        let lowest = self.emit.b.ins().iadd_imm_s(sp, -own_frame);
        let limit = self.emit.load(I64, self.context, layout::NATIVE_LIMIT);
        let refs_end = self.emit.b.ins().iadd_imm_s(self.bases.refs, 8 * stream.refs as i64);
        let mut cramped = self.emit.b.ins().icmp(IntCC::UnsignedLessThan, lowest, limit);
        if stream.refs > 0 {
            let room = self.emit.load(I64, self.context, layout::REFS_END);
            let too_many = self.emit.b.ins().icmp(IntCC::UnsignedGreaterThan, refs_end, room);
            cramped = self.emit.b.ins().bor(cramped, too_many);
        }
        let (grow, fail, body) = (self.emit.cold_block(), self.emit.cold_block(), self.emit.b.create_block());
        self.emit.branch(cramped, grow, &[], body, &[]);
        self.emit.enter(grow);
        let status = self.emit.value_of(Helper::Grow, &[self.context, refs_end, lowest]);
        self.emit.branch(status, fail, &[], body, &[]);
        // There was no room for this frame: the place is the caller's.
        self.emit.enter(fail);
        let stopped = self.emit.int(1);
        self.emit.b.ins().return_(&[stopped]);

        self.emit.enter(body);
        let all = self.request.entry.is_some();
        let (reals, ints) = if all { (stream.reals, stream.ints) } else { (stream.real_params, stream.int_params) };
        for n in 0..reals {
            let value = self.emit.load(F64, self.bases.reals, cell(n));
            self.emit.b.def_var(self.reals[n], value);
            if self.request.mode.is_recording() {
                let word = self.emit.load(I64, self.bases.words, cell(n));
                self.emit.b.def_var(self.words[n], word);
            }
        }
        for n in 0..ints {
            let value = self.emit.load(I64, self.bases.ints, cell(n));
            self.emit.b.def_var(self.ints[n], value);
        }
        if let Some(entry) = self.request.entry {
            if stream.regions.iter().any(|site| site.code.contains(&entry)) {
                self.fetch_open_region();
            } else if !stream.loops.is_empty() {
                self.fetch_open_loop();
            }
        }
        if !all && stream.ref_params < stream.refs {
            let null = self.emit.int(0);
            for n in stream.ref_params..stream.refs {
                self.emit.store(null, self.bases.refs, cell(n));
            }
        }
        self.fetch_fuel();
        self.begin_ahead();
        if let Some(entry) = self.request.entry {
            self.fetch_own_chains(entry);
        }
        let entry = self.request.entry.unwrap_or_default();
        self.hold_for(entry);
        let first = self.blocks[&entry];
        match self.request.entry.and_then(|entry| outermost_head(stream, &self.graph.blocks, entry)) {
            Some(head) => {
                self.hold_for(head);
                let never = self.emit.is_zero(self.context);
                self.emit.branch(never, self.blocks[&head], &[], first, &[]);
            }
            None => _ = self.emit.b.ins().jump(first, &[]),
        }
    }

    /// The block through which a run leaves that has to stop.
    fn unwind(&mut self) {
        self.emit.enter(self.unwind);
        let position = self.emit.b.block_params(self.unwind)[0];
        let func = self.emit.b.ins().iconst(I32, i64::from(self.request.func.0));
        self.emit.call(Helper::Unwind, &[self.context, func, position]);
        let stopped = self.emit.int(1);
        self.emit.b.ins().return_(&[stopped]);
    }

    fn fetch_fuel(&mut self) {
        let fuel = self.emit.load(I64, self.context, layout::FUEL);
        self.emit.b.def_var(self.fuel, fuel);
    }

    fn put_fuel(&mut self) {
        let fuel = self.emit.b.use_var(self.fuel);
        self.emit.store(fuel, self.context, layout::FUEL);
    }

    /// Counts a stretch of code that leads on: fuel may be less than nothing until it is looked at.
    fn count(&mut self, cost: u32) {
        if cost > 0 {
            let fuel = self.emit.b.use_var(self.fuel);
            // What no one reads of the numbers in between takes no code.
            let (from, counted) = self.fuel_counted.get(&fuel).copied().unwrap_or((fuel, 0));
            let cost = counted + i64::from(cost);
            let left = self.emit.b.ins().iadd_imm_s(from, -cost);
            self.fuel_counted.insert(left, (from, cost));
            self.emit.b.def_var(self.fuel, left);
        }
    }

    /// Charges for a stretch of code that ends with a call, a return or going round.
    fn charge(&mut self, cost: u32) {
        self.count(cost);
        self.refill_if_spent();
    }

    /// Asks for more fuel if more has been counted than there was.
    fn refill_if_spent(&mut self) {
        let left = self.emit.b.use_var(self.fuel);
        let spent = self.emit.is_negative(left);
        let (refill, next) = (self.emit.cold_block(), self.emit.b.create_block());
        self.emit.branch(spent, refill, &[], next, &[]);
        self.emit.enter(refill);
        self.put_fuel();
        let status = self.emit.call_cold(Helper::Refill, &[self.context]);
        self.stop_if(status);
        self.fetch_fuel();
        self.emit.b.ins().jump(next, &[]);
        self.emit.enter(next);
    }

    /// Leaves if a status is not 0. Fuel stands in the context.
    fn stop_if(&mut self, status: Value) {
        let position = self.emit.b.ins().iconst(I32, i64::from(self.at.0));
        let next = self.emit.next_block();
        self.emit.branch(status, self.unwind, &[position.into()], next, &[]);
        self.emit.enter(next);
    }

    /// Stops if a condition holds; `note` calls what says why.
    fn trap_if(&mut self, condition: Value, note: impl FnOnce(&mut Self)) {
        let trap = self.emit.cold_block();
        let next = self.emit.next_block();
        self.emit.branch(condition, trap, &[], next, &[]);
        self.emit.enter(trap);
        // Before anything is called, so that no register lives across it but for this.
        self.put_fuel();
        note(self);
        self.stop();
        self.emit.enter(next);
    }

    /// Stops here, for a reason that has been noted. Fuel stands in the context.
    fn stop(&mut self) {
        let position = self.emit.b.ins().iconst(I32, i64::from(self.at.0));
        self.emit.b.ins().jump(self.unwind, &[position.into()]);
    }

    // Registers.

    fn real(&mut self, register: u16) -> Value {
        match self.constants.real(register) {
            Some(constant) => self.emit.b.ins().f64const(constant),
            None => {
                self.load_if_late(register);
                match self.lane_of_twins(register) {
                    Some((vector, lane)) => self.emit.b.ins().extractlane(vector, lane),
                    None => self.emit.b.use_var(self.reals[usize::from(register)]),
                }
            }
        }
    }

    fn set_real(&mut self, register: u16, value: Value) {
        self.late.forget(register);
        self.twins.part(register);
        self.emit.b.def_var(self.reals[usize::from(register)], value);
    }

    fn word(&mut self, register: u16) -> Value {
        self.emit.b.use_var(self.words[usize::from(register)])
    }

    /// Only while recording.
    fn set_word(&mut self, register: u16, value: Value) {
        self.emit.b.def_var(self.words[usize::from(register)], value);
    }

    fn set_constant(&mut self, register: u16) {
        if self.request.mode.is_recording() {
            let constant = self.emit.int(0);
            self.set_word(register, constant);
        }
    }

    fn int(&mut self, register: u16) -> Value {
        match self.constants.int(register) {
            Some(constant) => self.emit.int(constant),
            None => self.emit.b.use_var(self.ints[usize::from(register)]),
        }
    }

    fn set_int(&mut self, register: u16, value: Value) {
        self.known.write_int(register);
        self.emit.b.def_var(self.ints[usize::from(register)], value);
    }

    fn operand(&mut self, bank: Bank, register: u16) -> Value {
        match bank {
            Bank::Real => self.real(register),
            Bank::Int => self.int(register),
            Bank::Ref => self.reference(register),
        }
    }

    fn inst(&mut self, inst: &Inst) {
        let stream = self.stream;
        self.follow_rows(inst);
        let form = inst.form();
        if !late::may_wait(&form) {
            self.load_late();
            if !builders::pushes(&form) {
                self.last_push = None;
            }
        }
        self.store_references(inst);
        if inst.ends_block() {
            self.end_round();
            inst.for_each_target(stream, |target| self.lead_to(inst, target));
        }
        match form {
            Form::Pure(pure) => self.pure(pure),
            Form::Mov { dst, src } => {
                let value = self.real(src.0);
                self.set_real(dst.0, value);
                if self.request.mode.is_recording() {
                    let word = self.word(src.0);
                    self.set_word(dst.0, word);
                }
            }
            Form::PMov { dst, src } => {
                let value = self.reference(src.0);
                self.copy_reference(dst.0, value, Some(src.0));
            }
            Form::Const { dst, value } => {
                let value = self.emit.b.ins().f64const(f64::from_bits(value));
                self.set_real(dst.0, value);
                self.set_constant(dst.0);
            }
            Form::Passive { dst } => self.set_constant(dst.0),
            Form::PSelect { dst, c, a, b } => {
                let condition = self.int(c.0);
                let (a, b) = (self.reference(a.0), self.reference(b.0));
                let value = self.emit.select(condition, a, b);
                self.set_reference(dst.0, value);
            }

            Form::SegmentEnd { site } => self.segment_end(&stream.segments[site]),
            Form::LoopBegin { site } => self.loop_begin(&stream.loops[site]),
            Form::LoopStep { cond, site } => self.loop_step(cond, &stream.loops[site]),
            Form::LoopEnd { site } => self.loop_end(site),
            Form::Check { .. } => unreachable!("programs whose instructions are looked at are interpreted"),
            Form::RegionBegin { site } => self.region_begin(&stream.regions[site]),
            Form::RegionRound { dst, before } => {
                let rounds = self.int(before.0);
                let rounds = self.emit.b.ins().iadd_imm_s(rounds, 1);
                self.set_int(dst.0, rounds);
            }
            Form::RegionSave { site } => self.region_save(&stream.saves[site]),
            Form::ArrayBase { dst, array } => self.array_base(dst, array),
            Form::FieldSlot { dst, object, word } => self.field_slot(dst, object, word),
            Form::ArrayCell { dst, array } => self.array_cell(dst, array),
            Form::ArrayCopy { dst, array } => self.array_copy(dst, array),
            Form::RegionFinish { dst, builder, first, len, active } => {
                self.region_finish((dst, builder), first, len, active);
            }
            Form::BuilderPack { before, builder } => {
                let slot = self.slots_of(Helper::BuilderPack, builder);
                self.set_int(before.0, slot);
            }
            Form::BuilderSlots { first, len, builder } => {
                let slot = self.slots_of(Helper::BuilderSlots, builder);
                self.set_int(first.0, slot);
                let builder = self.reference(builder.0);
                let count = self.emit.load(I64, builder, cell(layout::LEN));
                self.set_int(len.0, count);
            }
            Form::RegionEnd { site } => self.region_end(site),

            Form::Jump { target, cost } => {
                self.count(cost);
                let target = self.target(target);
                self.emit.b.ins().jump(target, &[]);
            }
            Form::CheckedJump { target, cost } | Form::BackJump { target, cost } => {
                self.charge(cost);
                let target = self.target(target);
                self.emit.b.ins().jump(target, &[]);
            }
            Form::Branch { cond, then, other, cost } => {
                self.count(cost);
                self.branch(cond, then, other);
            }
            Form::CheckedBranch { cond, then, other, cost } | Form::BackBranch { cond, then, other, cost } => {
                self.charge(cost);
                self.branch(cond, then, other);
            }
            Form::Switch { index, site } => self.switch(index, &stream.switches[site]),
            Form::Call { site } => self.call(&stream.calls[site], None),
            Form::CallClosure { callee, site } => self.call(&stream.calls[site], Some(callee)),
            Form::TailCall { site } => self.tail_call(&stream.calls[site], None),
            Form::TailCallClosure { callee, site } => self.tail_call(&stream.calls[site], Some(callee)),
            Form::Ret { site } => {
                let site = &stream.calls[site];
                self.charge(site.cost);
                self.hand_over(&site.uses, self.bases);
                self.put_fuel();
                let returned = self.emit.int(0);
                self.emit.b.ins().return_(&[returned]);
            }
            Form::Fork { site } => self.fork(site),
            Form::ParallelMap { dst, count, site } => self.parallel_map(dst, count, site),
            Form::PDetach { dst, src } => {
                let object = self.reference(src.0);
                self.detach(dst, object);
            }
            Form::Operate { site } => self.operate(site),
            Form::Trap { message } => {
                self.put_fuel();
                let number = self.emit.int(i64::from(message));
                self.emit.call(Helper::TrapMessage, &[self.context, number]);
                self.stop();
            }

            Form::TrapWith { site } => self.trap_with(site),
            Form::Trace { site } => self.trace(site),

            Form::New { dst, site } => self.object(dst.0, &stream.objects[site]),
            Form::NewDeep { dst, site } => self.new_deep(dst, &stream.objects[site]),
            Form::PackDeep { dst, site } => self.pack_deep(dst, &stream.objects[site]),
            Form::ChainPushDeep { dst, chain, site } => self.chain_push_deep(dst, chain, &stream.objects[site]),
            Form::FieldPart { dst, object, depth, primal, word } => self.field_part(dst, object, depth, primal, word),
            Form::ElemPart { dst, array, index, part } => self.element_part(dst, array, index, part),
            Form::PushPart { builder, value, part } => self.push_part(builder, value, part),
            Form::Field { dst, object, primal, word } => self.real_field(dst, object, primal, word),
            Form::PrimalField { dst, object, primal } => self.primal_field(dst, object, primal),
            Form::IField { dst, object, at } => {
                let value = self.plain_field(object, at);
                self.set_int(dst.0, value);
            }
            Form::PField { dst, object, at } => {
                let value = self.plain_field(object, at);
                self.set_reference(dst.0, value);
            }
            Form::Payload { dst, object, tag, primal, word } => {
                self.check_tag(object.0, tag);
                self.real_field(dst, object, primal, word);
            }
            Form::PrimalPayload { dst, object, tag, primal } => {
                self.check_tag(object.0, tag);
                self.primal_field(dst, object, primal);
            }
            Form::IPayload { dst, object, tag, at } => {
                self.check_tag(object.0, tag);
                let value = self.plain_field(object, at);
                self.set_int(dst.0, value);
            }
            Form::PPayload { dst, object, tag, at } => {
                self.check_tag(object.0, tag);
                let value = self.plain_field(object, at);
                self.set_reference(dst.0, value);
            }
            Form::VariantTag { dst, object, tags } => {
                let variant = self.reference(object.0);
                let tag = self.emit.b.ins().uload32(TRUSTED, variant, 4);
                self.set_int(dst.0, tag);
                self.known.set_tag_register(dst, object, tags);
            }
            Form::Len { dst, array } => {
                let len = self.len(array.0);
                self.set_int(dst.0, len);
            }
            Form::SameLen { array, other } => self.same_length(array, other),
            Form::SameShape { object, other, at, count } => self.same_shape([object, other], at..at + count),
            Form::Elem { dst, array, index } => self.real_element(dst, array, index),
            Form::PrimalElem { dst, array, index } => self.primal_element(dst, array, index),
            Form::IElem { dst, array, index } => {
                let value = self.plain_element(Bank::Int, array, index);
                self.set_int(dst.0, value);
            }
            Form::PElem { dst, array, index } => {
                let value = self.plain_element(Bank::Ref, array, index);
                self.set_reference(dst.0, value);
            }
            Form::Row { dst, array, index, width } => self.row(dst, array, index, width),
            Form::Pack { dst, site } => self.pack(dst.0, &stream.objects[site]),
            Form::Build { dst, capacity, element, words, depth } => {
                let capacity = self.int(capacity.0);
                let constants = [element as i64, i64::from(words), i64::from(depth)];
                let [element, words, depth] = constants.map(|value| self.emit.int(value));
                let roots = self.roots();
                let params = [self.context, capacity, element, words, depth, roots];
                let builder = self.emit.value_of(Helper::Build, &params);
                self.stop_if_null(builder);
                self.forget_references();
                self.set_reference(dst.0, builder);
            }
            Form::Push { builder, value } => self.push_real(builder, value, true),
            Form::PrimalPush { builder, value } => self.push_real(builder, value, false),
            Form::IPush { builder, value } => self.push_int(builder, value),
            Form::PPush { builder, value } => self.push_reference(builder, value),
            Form::Finish { dst, builder } => {
                let array = self.reference(builder.0);
                let status = self.emit.value_of(Helper::Finish, &[self.context, array]);
                self.trap_if(status, |_| ());
                self.set_reference(dst.0, array);
            }
            Form::Extend { builder, array, from, to, words } => self.extend((builder, array), (from, to), words),
            Form::Get { dst, builder, index } => self.get_real(dst, builder, index, true),
            Form::PrimalGet { dst, builder, index } => self.get_real(dst, builder, index, false),
            Form::GetPart { dst, builder, index, part } => self.get_part(dst, builder, index, part),
            Form::IGet { dst, builder, index } => {
                let value = self.plain_get(builder, index);
                self.set_int(dst.0, value);
            }
            Form::PGet { dst, builder, index } => {
                let value = self.plain_get(builder, index);
                self.set_reference(dst.0, value);
            }
            Form::Put { builder, index, value } => self.put_real(builder, index, value, true),
            Form::PrimalPut { builder, index, value } => self.put_real(builder, index, value, false),
            Form::PutPart { builder, index, value, part } => self.put_part(builder, index, value, part),
            Form::IPut { builder, index, value } => self.put_int(builder, index, value),
            Form::PPut { builder, index, value } => self.put_reference(builder, index, value),
            Form::Reserve { dst, builder, count } => self.reserve(dst, builder, count),
            Form::ChainNew { dst } => {
                let empty = self.emit.int(0);
                self.set_reference(dst.0, empty);
            }
            Form::ChainPush { dst, chain, site } => self.chain_push(dst, chain, &stream.objects[site]),
            Form::ChainFinish { dst, chain, tail } => self.chain_finish(dst, chain, tail),
        }
        if inst.ends_block() {
            self.ways_out();
        }
    }

    /// Makes ready what a block expects to which control goes from the instruction here.
    fn lead_to(&mut self, inst: &Inst, block: Position) {
        self.hold_for(block);
        self.hand_on(inst, block);
    }

    fn branch(&mut self, condition: IntReg, then: Position, other: Position) {
        let condition = self.int(condition.0);
        let (then, other) = (self.target(then), self.target(other));
        self.emit.branch(condition, then, &[], other, &[]);
    }

    fn pure(&mut self, inst: Pure) {
        match inst {
            Pure::PrimalMov { dst, src } => {
                let value = self.real(src.0);
                self.set_real(dst.0, value);
            }
            Pure::PrimalConst { dst, value } => {
                let value = self.emit.b.ins().f64const(f64::from_bits(value));
                self.set_real(dst.0, value);
            }
            Pure::IMov { dst, src } => {
                let value = self.int(src.0);
                self.set_int(dst.0, value);
            }
            Pure::IConst { dst, value } => {
                let value = self.emit.int(value);
                self.set_int(dst.0, value);
            }
            Pure::KeptObject { dst, cell } => {
                let cell = self.int(cell.0);
                let object = self.emit.kept_object(cell);
                self.set_int(dst.0, object);
            }
            Pure::KeptElem { dst, object, index } => {
                let (object, index) = (self.int(object.0), self.int(index.0));
                let element = self.emit.kept_element(F64, object, index);
                self.set_real(dst.0, element);
            }
            Pure::KeptIElem { dst, object, index } => {
                let (object, index) = (self.int(object.0), self.int(index.0));
                let element = self.emit.kept_element(I64, object, index);
                self.set_int(dst.0, element);
            }
            Pure::Scalar(inst) => self.scalar(&inst),
        }
    }

    fn scalar(&mut self, inst: &ScalarInst) {
        let args: Vec<Value> = inst.args().iter().map(|reg| self.operand(reg.bank, reg.index)).collect();
        let real = inst.dst.bank == Bank::Real;
        let divisor = inst.args().get(1).and_then(|divisor| self.constants.int(divisor.index));
        let result = if matches!(inst.op, Op::IDiv | Op::IRem)
            && let Some(divisor @ 1..) = divisor
        {
            self.emit.divide(inst.op, args[0], (args[1], Some(divisor)))
        } else if inst.op.info().traps {
            self.trapping_scalar(inst.op, &args, if real { F64 } else { I64 })
        } else {
            self.emit.scalar(inst.op, &args)
        };
        if real { self.set_real(inst.dst.index, result) } else { self.set_int(inst.dst.index, result) }
    }

    /// A scalar instruction that may trap. Where this file knows when it does, the instruction's function is called
    /// only to say why, so that nothing has to be kept in memory over the call; else it computes the result, too.
    fn trapping_scalar(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        match op {
            Op::IDiv | Op::IRem => self.division(op, args[0], args[1]),
            Op::ToInt => {
                const BOUND: f64 = 9_223_372_036_854_775_808.0;
                let (low, high) = (self.emit.b.ins().f64const(-BOUND), self.emit.b.ins().f64const(BOUND));
                let above = self.emit.b.ins().fcmp(FloatCC::GreaterThanOrEqual, args[0], low);
                let below = self.emit.b.ins().fcmp(FloatCC::LessThan, args[0], high);
                let inside = self.emit.b.ins().band(above, below);
                let outside = self.emit.is_zero(inside);
                self.trap_if(outside, |this| {
                    this.trapping_function(op, args);
                });
                self.emit.b.ins().fcvt_to_sint_sat(I64, args[0])
            }
            _ => {
                let (status, place) = self.trapping_function(op, args);
                self.trap_if(status, |_| ());
                self.emit.load(ty, place, 0)
            }
        }
    }

    /// Calls the function of a scalar instruction that may trap: status, and where the result is.
    fn trapping_function(&mut self, op: Op, args: &[Value]) -> (Value, Value) {
        let slot = self.emit.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3));
        let place = self.emit.b.ins().stack_addr(I64, slot, 0);
        let mut all = vec![self.context, place];
        all.extend_from_slice(args);
        (self.emit.call_scalar(op, &all), place)
    }

    /// Integer division. A divisor of 0 or -1 is a case of its own: there the machine's instruction may trap.
    fn division(&mut self, op: Op, a: Value, b: Value) -> Value {
        let done = self.emit.b.create_block();
        let result = self.emit.b.append_block_param(done, I64);
        if op == Op::IRem {
            self.emit.remainder_nearby([a, b], done);
        }
        let shifted = self.emit.b.ins().iadd_imm_s(b, 1);
        let rare = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, shifted, 2);
        let slow = self.emit.cold_block();
        self.emit.branch_away(rare, slow);
        let value = match op {
            Op::IDiv => self.emit.b.ins().sdiv(a, b),
            _ => self.emit.b.ins().srem(a, b),
        };
        self.emit.b.ins().jump(done, &[value.into()]);
        self.emit.enter(slow);
        let zero = self.emit.is_zero(b);
        let least = self.emit.b.ins().icmp_imm_s(IntCC::Equal, a, i64::MIN);
        let traps = self.emit.b.ins().bor(zero, least);
        self.trap_if(traps, |this| {
            this.trapping_function(op, &[a, b]);
        });
        let value = match op {
            Op::IDiv => self.emit.b.ins().ineg(a),
            _ => self.emit.int(0),
        };
        self.emit.b.ins().jump(done, &[value.into()]);
        self.emit.enter(done);
        result
    }

    fn switch(&mut self, index: IntReg, site: &SwitchSite) {
        self.charge(site.cost);
        let index = self.int(index.0);
        let default = self.blocks[&site.default];
        let in_list = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, index, site.targets.len() as i64);
        let table = self.emit.b.create_block();
        self.emit.branch(in_list, table, &[], default, &[]);
        self.emit.enter(table);
        let index = self.emit.b.ins().ireduce(I32, index);
        let pool = &mut self.emit.b.func.dfg.value_lists;
        let targets: Vec<_> = site
            .targets
            .iter()
            .map(|target| cranelift_codegen::ir::BlockCall::new(self.blocks[target], [], pool))
            .collect();
        let default = cranelift_codegen::ir::BlockCall::new(default, [], pool);
        let table = self.emit.b.create_jump_table(JumpTableData::new(default, &targets));
        self.emit.b.ins().br_table(index, table);
    }
}

/// Where blocks begin.
fn starts(blocks: &[Range<Position>]) -> BTreeSet<Position> {
    blocks.iter().map(|block| block.start).collect()
}

/// The offset of a cell of 8 bytes.
fn cell(n: usize) -> i32 {
    8 * n as i32
}
