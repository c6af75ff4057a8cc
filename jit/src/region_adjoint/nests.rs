//! Rounds of a loop that all but consist of an inner one, several at a time ([`crate::wide`]).
//!
//! The outer loop takes the adjoint of what a round has pushed and hands it to the inner loop, which adds to elements:
//!
//! ```text
//! behind:  takes adjoints; goes back into the inner loop, or past it
//! inner:   …
//! head:    goes back behind the inner loop of the round before, if there is one
//! ```
//!
//! Eight rounds take their adjoints first, and then go through the inner loop together. Each element gets what it gets
//! one by one, in the same order, if the arrays are apart and no lane adds in one round to what another one adds to in
//! another; that is found out where they begin. So is that adjoints are neither zero, as then a lane alone would skip
//! the inner loop, nor infinite or NaN, so that strong products are plain ones.

use super::{Writer, is_grouped};
use crate::emit::UNALIGNED;
use crate::lenient::pure;
use crate::linear::Linears;
use crate::segment::Registers;
use crate::vectors::{MACHINE_HAS_VECTORS, Way};
use crate::wide::{InRounds, LANES, NO_STEP, OneWay, SAME, Shape, Shapes, Step, Wide, WideReal, WideStep};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, I8, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use dualvm_vm::isa::{Bank, Reg};
use dualvm_vm::native::layout::ARRAY_HEADER;
use dualvm_vm::native::{BlockAdjoint, BuilderAdjoint, Edge, Inst, Pure, PushedTo, RegionCode, Stream};
use std::collections::{BTreeMap, BTreeSet};

/// Inner loops of fewer rounds are gone through one by one: what has to be asked first would take as long.
const ROUNDS_MIN: i64 = 6;
/// So are those of more: nobody asks whether the sweep is to go on before all of them are done.
const ROUNDS_MAX: i64 = 1 << 13;
/// Inner loops whose rounds have more instructions are: adjoints would not stay in registers.
const INSTS_MAX: usize = 24;

/// Such a loop.
pub(super) struct Nest {
    /// The blocks, by number; the block behind the inner loop has its own.
    head: usize,
    inner: usize,
    /// Which way the lanes go along arrays.
    way: Way,
    /// The registers that last, that the inner loop reads, and that differ from lane to lane; integers by how much.
    reals: BTreeSet<u16>,
    steps: BTreeMap<u16, i64>,
}

/// What an instruction reads, or writes.
fn registers(inst: &Inst, defs: bool) -> Vec<Reg> {
    let mut found = Vec::new();
    inst.for_each_reg(&Stream::default(), |reg, def| found.extend((def == defs).then_some(reg)));
    found
}

/// Whether a register lasts from block to block.
fn lasts(code: &RegionCode, reg: Reg) -> bool {
    usize::from(reg.index) < if reg.bank == Bank::Real { code.lasting_reals } else { code.lasting_ints }
}

/// The inner loop and the head of the loop whose rounds begin with this block, in the order of the sweep, if they do
/// nothing else.
fn inner_and_head(code: &RegionCode, number: usize) -> Option<[usize; 2]> {
    let behind = &code.blocks[number];
    let way_back = behind.way_back.as_ref()?;
    let [first, second] = &behind.before[..] else { return None };
    let (entered, past) = if way_back.edge == 0 { (first, second) } else { (second, first) };
    let [inner, head] = [usize::from(entered.from?), usize::from(past.from?)];
    let leads = |edge: &Edge, to: usize| edge.from == Some(to as u16) && edge.numbers().bytes() == 0;
    let [inner_block, head_block] = [&code.blocks[inner], &code.blocks[head]];
    let is_plain = |block: &BlockAdjoint| block.puts.is_empty() && !block.copies();
    let fits_behind = is_plain(behind) && behind.elements.is_empty() && behind.rounds.is_none();
    let pushes = match &behind.builders[..] {
        [BuilderAdjoint::Push { adjoints, .. }] => !adjoints.iter().any(|&register| lasts(code, Reg::real(register))),
        _ => false,
    };
    let adds = &inner_block.elements;
    let fits_inner = is_grouped(inner, inner_block)
        && is_plain(inner_block)
        && inner_block.builders.is_empty()
        && inner_block.saved.bytes() == 0
        && inner_block.moves.is_empty()
        && inner_block.code.len() <= INSTS_MAX
        && !adds.is_empty()
        && matches!(&inner_block.before[..], [edge] if leads(edge, head))
        && inner_block.way_back.is_none()
        && inner_block.rounds.is_some_and(|rounds| rounds.register == way_back.rounds)
        && inner_block.guard.as_ref().is_some_and(|guard| guard.bytes == 0);
    let fits_head = is_plain(head_block)
        && head_block.builders.is_empty()
        && head_block.elements.is_empty()
        && head_block.saved.bytes() == 0
        && head_block.way_back.is_none()
        && head_block.rounds.is_some()
        && matches!(&head_block.again[..], [edge] if leads(edge, number));
    let fits = MACHINE_HAS_VECTORS && head != inner && fits_behind && pushes && fits_inner && fits_head;
    (fits && leads(entered, inner) && leads(past, head)).then_some([inner, head])
}

/// The loop whose rounds begin with this block, in the order of the sweep, if it is one for several rounds at a time.
pub(super) fn nest(code: &RegionCode, number: usize) -> Option<Nest> {
    let [inner, head] = inner_and_head(code, number)?;
    let [behind, inner_block, head_block] = [number, inner, head].map(|block| &code.blocks[block]);
    let way_back = behind.way_back.as_ref()?;
    let around = [&behind.code, &behind.moves, &way_back.code, &head_block.code, &head_block.moves];
    let written_inside: BTreeSet<Reg> =
        inner_block.code.iter().filter_map(Inst::pure_result).filter(|&reg| lasts(code, reg)).collect();
    // What the inner loop leaves in its registers nobody reads: it is written anew before that.
    let mut written = BTreeSet::new();
    for inst in around.into_iter().flatten() {
        let reads = registers(inst, false);
        if reads.iter().any(|reg| written_inside.contains(reg) && !written.contains(reg)) {
            return None;
        }
        written.extend(inst.pure_result());
    }
    let [real, int] = behind.saved_at.map(usize::from);
    let loaded = (real..real + behind.saved.reals).map(|n| Reg::real(n as u16));
    let loaded: Vec<Reg> = loaded.chain((int..int + behind.saved.ints).map(|n| Reg::int(n as u16))).collect();
    if written_inside.iter().any(|reg| reg.bank == Bank::Real) || loaded.iter().any(|&reg| lasts(code, reg)) {
        return None;
    }

    // By how much integers change from one round of the outer loop to the next.
    let counters = behind.builders.iter().map(|step| step.builder().left);
    let counter = head_block.rounds.filter(|rounds| !rounds.stepped).map(|rounds| rounds.register);
    let unknown: BTreeSet<Reg> =
        counters.chain(counter).map(Reg::int).chain(loaded).chain(written_inside.iter().copied()).collect();
    let mut linears = Linears::new(|register| !unknown.contains(&Reg::int(register)));
    let follow = |linears: &mut Linears<_>, code: &[Inst]| {
        code.iter().for_each(|inst| linears.follow(pure(inst), false));
    };
    [&behind.code, &behind.moves, &way_back.code].into_iter().for_each(|code| follow(&mut linears, code));
    let inside: BTreeSet<Reg> = inner_block.code.iter().flat_map(|inst| registers(inst, false)).collect();
    let adds = inner_block.elements.iter();
    let added = adds.flat_map(|element| [Reg::int(element.index), Reg::real(element.contribution)]);
    let read: BTreeSet<Reg> = inside.into_iter().chain(added).filter(|&reg| lasts(code, reg)).collect();
    let at_inner: BTreeMap<u16, _> = read
        .iter()
        .chain([&Reg::int(way_back.rounds)])
        .filter(|reg| reg.bank == Bank::Int)
        .map(|reg| (reg.index, linears.of(reg.index)))
        .collect();
    [&head_block.code, &head_block.moves].into_iter().for_each(|code| follow(&mut linears, code));
    let steps: BTreeMap<u16, Option<i64>> = written
        .iter()
        .filter(|reg| reg.bank == Bank::Int && lasts(code, **reg))
        .map(|reg| (reg.index, linears.of(reg.index).and_then(|found| found.above(reg.index))))
        .collect();
    let step = |register: u16| at_inner.get(&register)?.as_ref()?.change(&steps);
    if step(way_back.rounds) != Some(0) {
        return None;
    }

    // What the inner loop finds in the lanes.
    let mut shapes = Shapes::default();
    let mut inner_linears = Linears::new(|_| true);
    inner_block.code.iter().for_each(|inst| inner_linears.follow(pure(inst), false));
    let mut found = Nest { head, inner, way: Way::Backwards, reals: BTreeSet::new(), steps: BTreeMap::new() };
    for &reg in &read {
        if reg.bank == Bank::Real {
            let varies = written.contains(&reg);
            shapes.set(reg, Shape::Real(varies));
            found.reals.extend(varies.then_some(reg.index));
        } else if written_inside.contains(&reg) {
            let goes_on_evenly = inner_linears.of(reg.index).and_then(|found| found.above(reg.index)).is_some();
            let in_rounds = if goes_on_evenly { InRounds::Evenly } else { InRounds::Anyhow };
            // The same in all lanes, as it is where they begin.
            if step(reg.index) != Some(0) {
                return None;
            }
            shapes.set(reg, Shape::Int { step: NO_STEP, in_rounds });
        } else {
            match step(reg.index) {
                Some(step) => {
                    shapes.set(reg, Shape::Int { step: Step::By(step), in_rounds: InRounds::Same });
                    found.steps.extend((step != 0).then_some((reg.index, step)));
                }
                None => shapes.set(reg, Shape::Unknown),
            }
        }
    }
    found.way = way_of_rounds(code, inner_block, shapes)?;
    Some(found)
}

/// Which way the lanes go along arrays in the rounds of the inner loop, if these can be written as vectors, and add to
/// elements which go on evenly. The shapes are those of registers where a round begins.
fn way_of_rounds(code: &RegionCode, inner: &BlockAdjoint, mut shapes: Shapes) -> Option<Way> {
    let mut way = OneWay::default();
    for inst in &inner.code {
        match pure(inst) {
            Pure::Scalar(inst) => shapes.scalar(&inst)?,
            Pure::PrimalMov { dst, src } => shapes.copy(dst.into(), src.into()),
            Pure::IMov { dst, src } => shapes.copy(dst.into(), src.into()),
            Pure::PrimalConst { dst, .. } => shapes.set(dst.into(), Shape::Real(false)),
            Pure::IConst { dst, .. } => shapes.set(dst.into(), SAME),
            Pure::KeptObject { dst, cell } => {
                (shapes.of(cell.into()) == SAME).then_some(())?;
                shapes.set(dst.into(), SAME);
            }
            Pure::KeptElem { dst, object, index } => {
                (shapes.of(object.into()) == SAME && is_in_order(&shapes, index.into(), &mut way)).then_some(())?;
                shapes.load(dst.into(), index.into())?;
            }
            Pure::KeptIElem { dst, object, index } => {
                (shapes.of(object.into()) == SAME).then_some(())?;
                shapes.load(dst.into(), index.into())?;
            }
        }
    }
    let bases: BTreeSet<u16> = inner.elements.iter().map(|element| element.base).collect();
    let told = super::told_bases(code);
    let one_by_one = inner.elements.iter().all(|element| {
        let index = Reg::int(element.index);
        let evenly = matches!(shapes.of(index), Shape::Int { in_rounds: InRounds::Same | InRounds::Evenly, .. });
        evenly && told.contains(&element.base) && is_in_order(&shapes, index, &mut way)
    });
    way.found().filter(|_| one_by_one && bases.len() == inner.elements.len())
}

/// Whether the elements of this index are one in all lanes, or stand side by side.
fn is_in_order(shapes: &Shapes, index: Reg, way: &mut OneWay) -> bool {
    shapes.step(index).is_some_and(|step| step == NO_STEP || way.is(step))
}

/// How often each block of a region is written for several rounds at a time.
pub(super) fn lanes_written(code: &RegionCode) -> BTreeMap<usize, u64> {
    let mut written = BTreeMap::new();
    for number in 0..code.blocks.len() {
        if let Some(Nest { head, inner, .. }) = nest(code, number) {
            // Twice for where elements are, and then in vectors, all lanes of which are added.
            written.extend([(number, LANES as u64), (head, LANES as u64), (inner, 2 + LANES as u64 / 2)]);
        }
    }
    written
}

impl Writer<'_, '_> {
    /// Writes the rounds of a loop that go together, from where the block behind its inner loop begins. Goes on with
    /// `single` where there aren't enough, or where they can't.
    pub(super) fn rounds_together(&mut self, number: usize, nest: &Nest, single: Block) {
        let code = self.code;
        let (behind, inner, head) = (&code.blocks[number], &code.blocks[nest.inner], &code.blocks[nest.head]);
        let way_back = behind.way_back.as_ref().expect("it is asked for the way into the inner loop");
        let [BuilderAdjoint::Push { builder, adjoints: taken }] = &behind.builders[..] else {
            unreachable!("it pushes")
        };
        let rounds = head.rounds.expect("a loop counts its rounds");

        // Whether there are enough rounds.
        let left = self.emit.b.use_var(self.lasting_ints[usize::from(rounds.register)]);
        let first = self.emit.b.use_var(self.lasting_ints[usize::from(builder.first)]);
        let mut room = vec![self.emit.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, left, LANES as i64)];
        room.push(self.emit.is_nonzero(first));
        room.extend(self.room_in_part(LANES as i64 * behind.saved.bytes() as i64));
        let enough = self.emit.b.create_block();
        self.emit.branch_if_all(&room, enough, single);
        self.emit.enter(enough);

        let before = self.registers(number);
        let mut registers = before.clone();
        let mut lanes = vec![self.take_lane(number, nest, 0, &mut registers)];
        let inner_rounds = lanes[0].int(way_back.rounds);
        let from_least = self.emit.b.ins().iadd_imm_s(inner_rounds, -ROUNDS_MIN);
        let fit = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, from_least, ROUNDS_MAX - ROUNDS_MIN);
        let take = self.emit.b.create_block();
        self.emit.branch(fit, take, &[], single, &[]);
        self.emit.enter(take);
        for lane in 1..LANES {
            lanes.push(self.take_lane(number, nest, lane, &mut registers));
        }
        let guard = inner.guard.as_ref().expect("the inner loop is skipped where nothing flows back");
        let mut wide = self.wide(nest, &lanes, guard.adjoints.as_ref());
        let factors: Vec<Value> =
            guard.adjoints.iter().map(|&adjoint| Wide::is_factor(self.emit, wide.real(adjoint))).collect();
        let begin = self.emit.b.create_block();
        self.emit.branch_if_all_hold(factors, begin, single);
        self.emit.enter(begin);

        // What doesn't change in the inner loop is computed before it.
        let unchanged = self.unchanged(inner);
        for (inst, _) in inner.code.iter().zip(&unchanged).filter(|(_, unchanged)| **unchanged) {
            self.run_wide(&mut wide, inst);
        }
        let (starts, apart) = self.places(nest, (&wide, &unchanged), inner_rounds, ((*builder, taken.len()), &before));
        let go = self.emit.b.create_block();
        self.emit.branch_if_all_hold(apart, go, single);
        self.emit.enter(go);
        let changed = self.run_lanes(nest, (&mut wide, &unchanged), &starts, inner_rounds);

        // As the last of the rounds leaves it.
        let mut after = registers;
        let taken = (LANES * taken.len()) as i64;
        after.ints[usize::from(builder.left)] = Some(self.emit.b.ins().iadd_imm_s(before.int(builder.left), -taken));
        for register in changed {
            after.ints[usize::from(register)] = before.ints[usize::from(register)];
        }
        self.set_lasting(&after, &before);
        let at = self.emit.b.use_var(self.at);
        let at = self.emit.plus(at, -((LANES * behind.saved.bytes()) as i64));
        self.emit.b.def_var(self.at, at);
        let variable = self.lasting_ints[usize::from(rounds.register)];
        let mut left = self.emit.b.use_var(variable);
        if !rounds.stepped {
            left = self.emit.b.ins().iadd_imm_s(left, -(LANES as i64));
            self.emit.b.def_var(variable, left);
        }
        let budget = self.emit.b.use_var(self.budget);
        let spent = self.emit.b.ins().imul_imm_s(inner_rounds, LANES as i64);
        let budget = self.emit.b.ins().isub(budget, spent);
        self.emit.b.def_var(self.budget, budget);
        let again = self.emit.b.create_block();
        self.emit.branch(left, again, &[], self.starts[nest.head], &[]);
        self.emit.enter(again);
        self.spend(LANES as i64, self.blocks[number]);
    }

    /// Writes the inner loop in all lanes, so many rounds, where what doesn't change in it is known, and the arrays to
    /// which it adds begin here. Returns the integers that it leaves as it does after its last round.
    fn run_lanes(
        &mut self,
        nest: &Nest,
        (wide, unchanged): (&mut Wide, &[bool]),
        starts: &[Value],
        rounds: Value,
    ) -> BTreeSet<u16> {
        let inner = &self.code.blocks[nest.inner];
        let counter = inner.rounds.expect("a loop counts its rounds").register;
        let results = inner.code.iter().filter_map(Inst::pure_result);
        let mut changed: BTreeSet<u16> =
            results.filter(|&reg| reg.bank == Bank::Int && self.lasts(reg)).map(|reg| reg.index).collect();
        for &register in &changed {
            self.emit.b.def_var(self.lasting_ints[usize::from(register)], wide.int(register).first);
        }
        let left = self.emit.variable(rounds);
        let head = self.emit.b.create_block();
        self.emit.b.ins().jump(head, &[]);

        self.emit.b.switch_to_block(head);
        for &register in &changed {
            let value = self.emit.b.use_var(self.lasting_ints[usize::from(register)]);
            wide.set_same(register, value);
        }
        for (inst, _) in inner.code.iter().zip(unchanged).filter(|(_, unchanged)| !**unchanged) {
            self.run_wide(wide, inst);
        }
        for (element, &start) in inner.elements.iter().zip(starts) {
            let (add, done) = (self.emit.b.create_block(), self.emit.b.create_block());
            // A constant array has no adjoints.
            self.emit.branch(start, add, &[], done, &[]);
            self.emit.enter(add);
            wide.add(self.emit, start, wide.int(element.index), wide.real(element.contribution));
            self.emit.b.ins().jump(done, &[]);
            self.emit.enter(done);
        }
        for &register in &changed {
            self.emit.b.def_var(self.lasting_ints[usize::from(register)], wide.int(register).first);
        }
        let more = self.emit.b.use_var(left);
        let more = self.emit.b.ins().iadd_imm_s(more, -1);
        self.emit.b.def_var(left, more);
        let done = self.emit.b.create_block();
        self.emit.branch(more, head, &[], done, &[]);
        self.emit.b.seal_block(head);
        self.emit.enter(done);
        if changed.insert(counter) && self.lasts(Reg::int(counter)) {
            let none = self.emit.int(0);
            self.emit.b.def_var(self.lasting_ints[usize::from(counter)], none);
        }
        changed
    }

    /// Writes a round of the outer loop but for its inner one, as one of several whose number this is. Returns what the
    /// inner loop finds.
    fn take_lane(&mut self, number: usize, nest: &Nest, lane: usize, registers: &mut Registers) -> Registers {
        let code = self.code;
        let (behind, head) = (&code.blocks[number], &code.blocks[nest.head]);
        let [real, int] = behind.saved_at.map(usize::from);
        let [BuilderAdjoint::Push { builder: pushed, adjoints: taken }] = &behind.builders[..] else {
            unreachable!("it pushes")
        };
        let at = self.emit.b.use_var(self.at);
        let from = -(((lane + 1) * behind.saved.bytes()) as i32);
        for n in 0..behind.saved.reals {
            let offset = from + behind.saved.real(n) as i32;
            registers.reals[real + n] = Some(self.emit.b.ins().load(F64, UNALIGNED, at, offset));
        }
        for n in 0..behind.saved.ints {
            let offset = from + behind.saved.int(n) as i32;
            registers.ints[int + n] = Some(self.emit.b.ins().load(I64, UNALIGNED, at, offset));
        }
        let (first, left) = (registers.int(pushed.first), registers.int(pushed.left));
        let place = self.emit.b.ins().iadd(first, left);
        let adjoints = self.adjoints;
        let place = self.emit.adjoints_at(adjoints, place);
        // All are found from where the first lane's begin.
        let count = taken.len() as i64;
        for (n, &register) in (1..).zip(taken.iter()) {
            let before = -(lane as i64 * count + n);
            registers.reals[usize::from(register)] = Some(self.emit.load(F64, place, 8 * before as i32));
        }
        let way_back = behind.way_back.iter().flat_map(|way| &way.code);
        for inst in behind.code.iter().chain(&behind.moves).chain(way_back) {
            registers.run(self.emit, inst, false);
        }
        let found = registers.clone();
        for inst in head.code.iter().chain(&head.moves) {
            registers.run(self.emit, inst, false);
        }
        found
    }

    /// What the inner loop finds in the lanes.
    fn wide(&mut self, nest: &Nest, lanes: &[Registers], factors: &[u16]) -> Wide {
        let mut wide = Wide::new(nest.way);
        for (n, value) in (0..).zip(&lanes[0].reals) {
            let Some(first) = *value else { continue };
            let value = match nest.reals.contains(&n) {
                true => wide.of_lanes(self.emit, &std::array::from_fn(|lane| lanes[lane].real(n))),
                false => WideReal::Same(first),
            };
            match factors.contains(&n) {
                true => wide.set_factor(n, value),
                false => wide.set_real(n, value),
            }
        }
        for (n, value) in (0..).zip(&lanes[0].ints) {
            if let Some(first) = *value {
                wide.set_int(n, first, WideStep::By(nest.steps.get(&n).copied().unwrap_or(0)));
            }
        }
        wide
    }

    fn run_wide(&mut self, wide: &mut Wide, inst: &Inst) {
        match pure(inst) {
            Pure::KeptObject { dst, cell } => {
                let object = self.emit.kept_object(wide.int(cell.0).first);
                wide.set_same(dst.0, object);
            }
            Pure::KeptElem { dst, object, index } => {
                let (object, index) = (wide.int(object.0).first, wide.int(index.0));
                let value = wide.load(self.emit, object, index, ARRAY_HEADER as i64);
                wide.set_real(dst.0, value);
            }
            Pure::KeptIElem { dst, object, index } => {
                let element = self.emit.kept_element(I64, wide.int(object.0).first, wide.int(index.0).first);
                wide.set_same(dst.0, element);
            }
            pure => wide.run(self.emit, pure),
        }
    }

    /// Where the arrays begin that the inner loop adds to, for each of its elements, and what has to hold for the lanes
    /// to go together: nothing that one of them adds to is added to, or taken, out of order.
    fn places(
        &mut self,
        nest: &Nest,
        (wide, unchanged): (&Wide, &[bool]),
        rounds: Value,
        ((pushed, taken), before): ((PushedTo, usize), &Registers),
    ) -> (Vec<Value>, Vec<Value>) {
        const BYTES: i64 = size_of::<f64>() as i64;
        let inner = &self.code.blocks[nest.inner];
        // Indices in the first round and in the second one.
        let mut probe = wide.clone();
        let mut indices = [const { Vec::new() }; 2];
        for indices in &mut indices {
            for (inst, _) in inner.code.iter().zip(unchanged).filter(|(_, unchanged)| !**unchanged) {
                probe.count(self.emit, inst);
            }
            indices.extend(inner.elements.iter().map(|element| probe.known(element.index)));
        }
        let [first, second] = indices;
        let (mut starts, mut conditions, mut extents) = (Vec::new(), Vec::new(), Vec::new());
        let last_round = self.emit.b.ins().iadd_imm_s(rounds, -1);
        for (element, both) in inner.elements.iter().zip(first.into_iter().zip(second)) {
            let start = self.emit.b.use_var(self.arrays[&element.base]);
            starts.push(start);
            let (Some(first), Some(second)) = both else {
                conditions.push(self.emit.b.ins().iconst(I8, 0));
                continue;
            };
            let constant = self.emit.is_zero(start);
            let by = self.emit.b.ins().isub(second.first, first.first);
            // No other round of any lane adds to it; or all rounds of the lane do, and no other lane.
            let in_order = match first.step {
                WideStep::By(0) => self.emit.is_nonzero(by),
                _ => {
                    let shifted = self.emit.plus(by, LANES as i64 - 1);
                    let bound = 2 * (LANES as i64 - 1);
                    let far = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, shifted, bound);
                    let still = self.emit.is_zero(by);
                    self.emit.b.ins().bor(far, still)
                }
            };
            conditions.push(self.emit.b.ins().bor(in_order, constant));
            let all = self.emit.b.ins().imul(by, last_round);
            let last = self.emit.b.ins().iadd(first.first, all);
            let lanes = first.step.times(self.emit, LANES as i64 - 1);
            let none = self.emit.int(0);
            let (down, up) = (self.emit.b.ins().smin(lanes, none), self.emit.b.ins().smax(lanes, none));
            let low = self.emit.b.ins().smin(first.first, last);
            let high = self.emit.b.ins().smax(first.first, last);
            let [low, high] = [(low, down), (high, up)].map(|(index, by)| {
                let index = self.emit.b.ins().iadd(index, by);
                let offset = self.emit.b.ins().imul_imm_s(index, BYTES);
                self.emit.b.ins().iadd(start, offset)
            });
            extents.push((low, high, Some(constant)));
        }
        let slot = self.emit.b.ins().iadd(before.int(pushed.first), before.int(pushed.left));
        let adjoints = self.adjoints;
        let end = self.emit.adjoints_at(adjoints, slot);
        let [low, high] = [-((LANES * taken) as i64) * BYTES, -BYTES].map(|by| self.emit.b.ins().iadd_imm_s(end, by));
        extents.push((low, high, None));
        for (n, &(low, high, constant)) in extents.iter().enumerate() {
            for &(other_low, other_high, other_constant) in &extents[n + 1..] {
                let below = self.emit.b.ins().icmp(IntCC::UnsignedLessThan, high, other_low);
                let above = self.emit.b.ins().icmp(IntCC::UnsignedLessThan, other_high, low);
                let mut apart = self.emit.b.ins().bor(below, above);
                for constant in constant.into_iter().chain(other_constant) {
                    apart = self.emit.b.ins().bor(apart, constant);
                }
                conditions.push(apart);
            }
        }
        (starts, conditions)
    }
}
