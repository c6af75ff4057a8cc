//! Sums of several rounds of an outer loop at a time ([`crate::wide`]).
//!
//! In a loop whose rounds each go through an inner one that reads arrays and sums up, what the inner loops of the next
//! eight rounds compute is found together, when the first of them begins. It stands in memory then, and each round
//! takes its own in place of running its inner loop. Nobody notices: an inner loop writes nothing but registers,
//! arrays don't change, all elements are inside, and each round is charged for when it comes. What is never asked for
//! was only work.
//!
//! Registers that the inner loop reads are the same in all of the rounds, or are found from the outer loop's index.
//! That is known if they are written where each round comes past on its way to the inner loop, from constants, the
//! index, and what the outer loop doesn't change. The inner loop may ask whether indices are less than sizes, and trap
//! if they aren't: they go on evenly, so it is asked of the first ones and the last ones.

use super::Function;
use super::constants::Constants;
use super::graph::Graph;
use super::liveness::Liveness;
use super::tight::TightLoop;
use crate::emit::UNALIGNED;
use crate::scalar;
use crate::vectors::{MACHINE_HAS_VECTORS, Way};
use crate::wide::{InRounds, LANES, NO_STEP, OneWay, SAME, Shape, Shapes, Step, Wide, WideInt, WideReal, WideStep};
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::types::{F64, I8, I64};
use cranelift_codegen::ir::{InstBuilder, StackSlot, StackSlotData, StackSlotKind, Value};
use cranelift_frontend::Variable;
use dualvm_vm::isa::{Bank, Op, Reg};
use dualvm_vm::native::layout::ARRAY_HEADER;
use dualvm_vm::native::{Form, Inst, IntReg, Position, Pure, RefReg, Stream};
use std::collections::{BTreeMap, BTreeSet};

/// Inner loops of fewer rounds run one by one: what has to be asked first would take as long.
const ROUNDS_MIN: i64 = 6;
/// So do those of more: all of them run before anybody asks for how long that takes.
const ROUNDS_MAX: i64 = 1 << 16;
/// Inner loops of more instructions do: sums would not stay in registers.
const INSTS_MAX: usize = 24;
/// In a function, so many of them at most: each takes a millisecond to compile.
const LOOPS_MAX: usize = 4;
/// Where an outer loop had no sums to find, they aren't looked for in so many more.
const LOOPS_WAITED: i64 = 64;
/// Outer loops of more blocks are not looked at.
const BLOCKS_MAX: usize = 32;
/// As so many rounds the code counts that finds sums ahead.
pub(super) const ROUNDS_WRITTEN: u64 = 8;
/// What leads to a trap does so in so many instructions.
const TRAPPING_MAX: usize = 16;
/// By so much at most an index goes on from one round or lane to the next; so nothing wraps.
const STRIDE_MAX: i64 = 1 << 31;

/// By how much an integer goes on from one round of the outer loop to the next: so many times what a register holds,
/// which the loop doesn't change, or 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stride {
    times: i64,
    register: Option<u16>,
}

const NO_STRIDE: Stride = Stride { times: 0, register: None };

/// What a round of an inner loop does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Inst(Inst),
    /// Traps unless an integer register holds what is true, or what is false.
    Check {
        condition: u16,
        holds: bool,
    },
}

/// What the rounds of a loop do that is left where it ends only, unless it traps, and the fuel that a round takes
/// besides that at its end.
fn round(stream: &Stream, start: Position, end: Position) -> Option<(Vec<Act>, u32)> {
    let (mut acts, mut cost, mut at) = (Vec::new(), 0, start);
    while at != end {
        let inst = stream.code[at.index()];
        at = match inst {
            Inst::Jump { target, cost: more } if target > at && target <= end => {
                cost += more;
                target
            }
            Inst::Branch { cond, then, other, cost: more } => {
                cost += more;
                let holds = traps(stream, other);
                acts.push(Act::Check { condition: cond.0, holds });
                let (on, trap) = if holds { (then, other) } else { (other, then) };
                (traps(stream, trap) && on > at && on <= end).then_some(on)?
            }
            _ if inst.ends_block() => return None,
            _ => {
                acts.push(Act::Inst(inst));
                at.next()
            }
        };
        if acts.len() > INSTS_MAX {
            return None;
        }
    }
    Some((acts, cost))
}

/// Whether code leads to a trap, whatever happens.
fn traps(stream: &Stream, mut at: Position) -> bool {
    for _ in 0..TRAPPING_MAX {
        at = match stream.code[at.index()] {
            Inst::Trap { .. } | Inst::TrapWith { .. } => return true,
            Inst::Jump { target, .. } => target,
            inst if inst.ends_block() => return false,
            _ => at.next(),
        };
    }
    false
}

/// What an inner loop does with which the next rounds' can be done.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    /// The outer loop's index and bound, and its head.
    index: u16,
    bound: u16,
    head: Position,
    /// The blocks from which control comes into the outer loop.
    ways_in: Vec<usize>,
    inner: Counter,
    /// The rounds of the inner loop.
    round: Vec<Act>,
    /// What the inner loop reads as it finds it.
    reads: Vec<Reg>,
    /// Integers among these that differ from round to round of the outer one.
    strides: BTreeMap<u16, Stride>,
    way: Way,
    /// The sums.
    sums: Vec<u16>,
}

/// Bytes of a sum in all lanes.
const SUM_BYTES: usize = LANES * size_of::<f64>();

/// What is known of it in the code that is being written.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// Where the sums stand; behind them the outer index of the first round that they are of, and of how many rounds
    /// they are. Less than 0: for so many more outer loops nobody looks for any, because there were none to find.
    slot: StackSlot,
    /// How far into the slot that is.
    index_at: i32,
    count_at: i32,
    /// Whether control has come to the inner loop by the outer one's head, if it may come otherwise.
    fresh: Option<Variable>,
}

/// A loop that counts up by one.
#[derive(Clone, Copy, Debug)]
struct Counter {
    index: u16,
    bound: u16,
    condition: u16,
    exit: Position,
    cost: u32,
}

impl Counter {
    /// Of a loop with this head, of whose code this is the end.
    fn new(stream: &Stream, constants: &Constants, code: &[Inst], head: Position) -> Option<Counter> {
        let &Inst::BackBranch { cond, then, other, cost } = code.last()? else { return None };
        if then != head || other == head {
            return None;
        }
        let writes = |inst: &Inst, register: IntReg| {
            let mut found = false;
            inst.for_each_reg(stream, |reg, def| found |= def && reg == register.into());
            found
        };
        let test = code.iter().rposition(|inst| writes(inst, cond))?;
        let Inst::ILt { a: index, b: bound, .. } = code[test] else { return None };
        let step = code[..test].iter().rposition(|inst| writes(inst, index))?;
        let Inst::IAdd { a, b, .. } = code[step] else { return None };
        let by = if a == index { b } else { a };
        let by_one = (a == index || b == index) && constants.int(by.0) == Some(1);
        // Nothing else happens to them.
        let others = code.iter().enumerate().filter(|&(at, _)| at != step);
        let stays = !others.into_iter().any(|(_, inst)| writes(inst, index) || writes(inst, bound));
        let counter = Counter { index: index.0, bound: bound.0, condition: cond.0, exit: other, cost };
        (by_one && stays).then_some(counter)
    }
}

/// A stretch of code from where control goes back to up to the last place from which it does.
#[derive(Clone, Copy)]
struct Back {
    head: Position,
    last: Position,
    /// Whether it is the only place.
    is_only: bool,
}

/// The loops around others, which are asked for in order.
struct Outer {
    /// Those that begin later, the next one last.
    later: Vec<Back>,
    /// Those that have begun and haven't ended, the innermost one last.
    open: Vec<Back>,
}

impl Outer {
    fn new(stream: &Stream) -> Outer {
        let mut found: BTreeMap<Position, Back> = BTreeMap::new();
        for (at, inst) in (0..).map(Position).zip(&stream.code) {
            inst.for_each_target(stream, |head| {
                if head <= at {
                    let back = Back { head, last: at, is_only: true };
                    let again = |known: &mut Back| *known = Back { is_only: false, ..back };
                    found.entry(head).and_modify(again).or_insert(back);
                }
            });
        }
        Outer { later: found.into_values().rev().collect(), open: Vec::new() }
    }

    /// Head and end of the innermost loop around another one, which begins behind those that were asked for before.
    fn around(&mut self, start: Position, end: Position) -> Option<(Position, Position)> {
        while let Some(next) = self.later.pop_if(|next| next.head < start) {
            self.ended(next.head);
            self.open.push(next);
        }
        self.ended(start);
        self.open.last().filter(|around| around.is_only && around.last > end).map(|around| (around.head, around.last))
    }

    /// Drops those that have ended before here.
    fn ended(&mut self, here: Position) {
        while self.open.pop_if(|open| open.last < here).is_some() {}
    }
}

/// The tight loops whose sums can be found for several rounds of the loop around, by their heads.
pub(super) fn find(
    stream: &Stream,
    graph: &Graph,
    constants: &Constants,
    tight: &BTreeMap<Position, TightLoop>,
    depth: u32,
) -> BTreeMap<Position, Ahead> {
    if !MACHINE_HAS_VECTORS || depth > 0 {
        return BTreeMap::new();
    }
    let mut outer = Outer::new(stream);
    let mut live = None;
    let mut found = BTreeMap::new();
    for (&start, tight) in tight {
        let Some((head, last)) = outer.around(start, tight.end()) else { continue };
        let Some((acts, cost)) = round(stream, start, tight.end()) else { continue };
        let finder = Finder { stream, graph, constants, acts, cost, start, end: tight.end() };
        let Some((ahead, written)) = finder.find(head, last) else { continue };
        let live = live.get_or_insert_with(|| {
            let of = |bank| Liveness::new(stream, graph, bank, |_, _| false);
            of(Bank::Real).zip(of(Bank::Int))
        });
        let Some((reals, ints)) = live else { continue };
        // Of what the inner loop leaves in registers nothing is read but what is known here.
        let exit = graph.number(ahead.inner.exit);
        let known = |reg: &Reg| match reg.bank {
            Bank::Real => ahead.sums.contains(&reg.index) || !reals.at_start(exit).contains(reg.index.into()),
            _ => {
                let Counter { index, condition, .. } = ahead.inner;
                [index, condition].contains(&reg.index) || !ints.at_start(exit).contains(reg.index.into())
            }
        };
        if written.iter().all(known) {
            found.insert(start, ahead);
        }
        if found.len() == LOOPS_MAX {
            break;
        }
    }
    found
}

struct Finder<'f> {
    stream: &'f Stream,
    graph: &'f Graph,
    constants: &'f Constants,
    /// What the inner loop's rounds do, and what they cost besides the end.
    acts: Vec<Act>,
    cost: u32,
    start: Position,
    end: Position,
}

impl Finder<'_> {
    /// With the registers that the inner loop writes.
    fn find(&self, head: Position, last: Position) -> Option<(Ahead, BTreeSet<Reg>)> {
        let code: Vec<Inst> = self.insts().copied().chain([self.stream.code[self.end.index()]]).collect();
        let mut inner = Counter::new(self.stream, self.constants, &code, self.start)?;
        inner.cost = inner.cost.checked_add(self.cost)?;
        let blocks = self.blocks(head, last)?;
        let latch = self.graph.number(last);
        let latch_code = &self.stream.code[self.graph.blocks[latch].start.index()..=last.index()];
        let Counter { index, bound, .. } = Counter::new(self.stream, self.constants, latch_code, head)?;

        let mut written: BTreeMap<Reg, usize> = BTreeMap::new();
        for &number in &blocks {
            for at in self.graph.positions(number) {
                self.stream.code[at.index()].for_each_reg(self.stream, |reg, def| {
                    *written.entry(reg).or_default() += usize::from(def);
                });
            }
        }
        let changes = |reg: Reg| written.get(&reg).is_some_and(|&count| count > 0);
        let counts = written.get(&Reg::int(index)) == Some(&1) && !changes(Reg::int(bound));
        if !counts || changes(Reg::int(inner.bound)) {
            return None;
        }
        let before = self.path(head)?;
        let found = Strides::new(self, index, &changes).along(&before);
        let number = self.graph.number(head);
        let ways_in = self.graph.before[number].iter().copied().filter(|from| !blocks.contains(from)).collect();
        let (reads, sums, strides) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (round, way) = (self.acts.clone(), Way::Forwards);
        let mut ahead = Ahead { index, bound, head, ways_in, inner, round, reads, strides, way, sums };
        let written = self.lanes(&mut ahead, &found, &changes)?;
        Some((ahead, written))
    }

    /// What the inner loop's rounds do, but for the tests.
    fn insts(&self) -> impl Iterator<Item = &Inst> {
        self.acts.iter().filter_map(|act| match act {
            Act::Inst(inst) => Some(inst),
            Act::Check { .. } => None,
        })
    }

    /// The blocks of a loop, by number.
    fn blocks(&self, head: Position, last: Position) -> Option<BTreeSet<usize>> {
        let head = self.graph.number(head);
        let mut found = BTreeSet::from([head]);
        let mut waiting = vec![self.graph.number(last)];
        while let Some(number) = waiting.pop() {
            if found.insert(number) {
                waiting.extend(&self.graph.before[number]);
            }
            if found.len() > BLOCKS_MAX {
                return None;
            }
        }
        found.contains(&self.graph.number(self.start)).then_some(found)
    }

    /// The blocks through which each round of the outer loop comes to the inner one, in order.
    fn path(&self, head: Position) -> Option<Vec<usize>> {
        let (head, inner) = (self.graph.number(head), self.graph.number(self.start));
        let mut path = Vec::new();
        let mut number = inner;
        let latch = self.graph.number(self.end);
        while number != head {
            let mut before = self.graph.before[number].iter().copied().filter(|&from| from != latch);
            number = before.next().filter(|_| before.next().is_none())?;
            if path.len() > BLOCKS_MAX {
                return None;
            }
            path.push(number);
        }
        path.reverse();
        Some(path)
    }

    /// Finds out what the rounds of the inner loop do in the lanes. Returns the registers that they write.
    fn lanes(&self, ahead: &mut Ahead, strides: &Strides<'_>, changes: &impl Fn(Reg) -> bool) -> Option<BTreeSet<Reg>> {
        let all_defs: BTreeSet<Reg> = self.insts().flat_map(|inst| self.registers(inst, true)).collect();
        let mut shapes = Shapes::default();
        let mut known = BTreeSet::new();
        for act in &self.acts {
            let (reads, defs) = match act {
                Act::Inst(inst) => (self.registers(inst, false), self.registers(inst, true)),
                &Act::Check { condition, .. } => (vec![Reg::int(condition)], Vec::new()),
            };
            for reg in reads.into_iter().filter(|&reg| known.insert(reg)) {
                if reg.bank != Bank::Ref {
                    ahead.reads.push(reg);
                }
                match reg.bank {
                    Bank::Ref if changes(reg) => return None,
                    Bank::Ref => {}
                    Bank::Real => {
                        if !strides.is_same(reg) {
                            return None;
                        }
                        let is_sum = all_defs.contains(&reg);
                        shapes.set(reg, Shape::Real(is_sum));
                        ahead.sums.extend(is_sum.then_some(reg.index));
                    }
                    Bank::Int if all_defs.contains(&reg) => {
                        if reg.index != ahead.inner.index || strides.of(reg.index) != Some(NO_STRIDE) {
                            return None;
                        }
                        shapes.set(reg, Shape::Int { step: NO_STEP, in_rounds: InRounds::Evenly });
                    }
                    Bank::Int => {
                        let stride = strides.of(reg.index)?;
                        let step = match stride {
                            Stride { times, register: None } => Step::By(times),
                            _ => Step::Evenly,
                        };
                        shapes.set(reg, Shape::Int { step, in_rounds: InRounds::Same });
                        if stride != NO_STRIDE {
                            ahead.strides.insert(reg.index, stride);
                        }
                    }
                }
            }
            known.extend(defs);
        }
        let (mut way, mut any) = (OneWay::default(), false);
        // The registers that hold whether one integer that goes on evenly is less than another one, or as much at most.
        let mut less = BTreeSet::new();
        for act in &self.acts {
            let inst = match act {
                Act::Inst(inst) => inst,
                Act::Check { condition, .. } => {
                    (less.contains(condition) || shapes.of(Reg::int(*condition)) == SAME).then_some(())?;
                    continue;
                }
            };
            for reg in self.registers(inst, true).into_iter().filter(|reg| reg.bank == Bank::Int) {
                less.remove(&reg.index);
            }
            match inst.form() {
                Form::Pure(Pure::Scalar(inst)) => {
                    if inst.op.info().traps || scalar::is_long(inst.op) || inst.op == Op::StrongMul {
                        return None;
                    }
                    // An index has to be found by itself.
                    let of_reals = inst.args().iter().any(|reg| reg.bank == Bank::Real);
                    if inst.dst.bank == Bank::Int && of_reals {
                        return None;
                    }
                    let goes_on = |&reg: &Reg| {
                        matches!(shapes.of(reg), Shape::Int { in_rounds: InRounds::Same | InRounds::Evenly, .. })
                    };
                    if matches!(inst.op, Op::ILt | Op::ILe) && inst.args().iter().all(goes_on) {
                        less.insert(inst.dst.index);
                    }
                    shapes.scalar(&inst)?;
                }
                Form::Pure(Pure::PrimalMov { dst, src }) => shapes.copy(dst.into(), src.into()),
                Form::Pure(Pure::IMov { dst, src }) => shapes.copy(dst.into(), src.into()),
                Form::Pure(Pure::PrimalConst { dst, .. }) => shapes.set(dst.into(), Shape::Real(false)),
                Form::Pure(Pure::IConst { dst, .. }) => shapes.set(dst.into(), SAME),
                Form::PrimalElem { dst, index, .. } => {
                    let Shape::Int { step, in_rounds: InRounds::Same | InRounds::Evenly } = shapes.of(index.into())
                    else {
                        return None;
                    };
                    // What doesn't stand side by side is loaded lane by lane, whichever way others go.
                    way.is(step);
                    any |= step != NO_STEP;
                    shapes.load(dst.into(), index.into())?;
                }
                _ => return None,
            }
        }
        ahead.way = way.found().unwrap_or(Way::Forwards);
        // What is summed up differs in the lanes.
        let vary = ahead.sums.iter().all(|&sum| shapes.of(Reg::real(sum)) == Shape::Real(true));
        (any && vary && !ahead.sums.is_empty()).then_some(all_defs)
    }

    /// What an instruction reads, or writes.
    fn registers(&self, inst: &Inst, defs: bool) -> Vec<Reg> {
        let mut found = Vec::new();
        inst.for_each_reg(self.stream, |reg, def| found.extend((def == defs).then_some(reg)));
        found
    }
}

/// By how much registers go on from one round of the outer loop to the next, as far as a round has been followed.
struct Strides<'s> {
    finder: &'s Finder<'s>,
    changes: &'s dyn Fn(Reg) -> bool,
    /// `None`: nothing is known. Of reals: whether it is the same.
    written: BTreeMap<Reg, Option<Stride>>,
    index: u16,
}

impl<'s> Strides<'s> {
    fn new(finder: &'s Finder<'s>, index: u16, changes: &'s dyn Fn(Reg) -> bool) -> Strides<'s> {
        Strides { finder, changes, written: BTreeMap::new(), index }
    }

    fn stride(&self, reg: Reg) -> Option<Stride> {
        match self.written.get(&reg) {
            Some(&found) => found,
            None if reg == Reg::int(self.index) => Some(Stride { times: 1, register: None }),
            None => self.keeps(reg).then_some(NO_STRIDE),
        }
    }

    /// Whether the outer loop leaves a register alone, or writes it what it always holds.
    fn keeps(&self, reg: Reg) -> bool {
        let constants = self.finder.constants;
        !(self.changes)(reg)
            || match reg.bank {
                Bank::Real => constants.real(reg.index).is_some(),
                Bank::Int => constants.int(reg.index).is_some(),
                Bank::Ref => false,
            }
    }

    fn of(&self, register: u16) -> Option<Stride> {
        self.stride(Reg::int(register))
    }

    fn is_same(&self, reg: Reg) -> bool {
        self.stride(reg) == Some(NO_STRIDE)
    }

    fn along(mut self, blocks: &[usize]) -> Strides<'s> {
        let stream = self.finder.stream;
        for &number in blocks {
            for at in self.finder.graph.positions(number) {
                let inst = &stream.code[at.index()];
                let found = match inst.form() {
                    Form::Pure(Pure::Scalar(inst)) => self.scalar(inst.op, inst.args()),
                    Form::Pure(Pure::IMov { src, .. }) => self.of(src.0),
                    Form::Pure(Pure::PrimalMov { src, .. }) | Form::Mov { src, .. } => self.stride(src.into()),
                    Form::Pure(Pure::IConst { .. } | Pure::PrimalConst { .. }) | Form::Const { .. } => Some(NO_STRIDE),
                    _ => None,
                };
                for reg in self.finder.registers(inst, true) {
                    self.written.insert(reg, found);
                }
            }
        }
        self
    }

    fn scalar(&self, op: Op, args: &[Reg]) -> Option<Stride> {
        let constant = |reg: Reg| self.finder.constants.int(reg.index);
        match (op, args) {
            (Op::IAdd | Op::ISub, &[a, b]) => {
                let [a, b] = [self.stride(a)?, self.stride(b)?];
                let sign = if op == Op::IAdd { 1 } else { -1 };
                if a.register == b.register || a == NO_STRIDE || b == NO_STRIDE {
                    let times = a.times.checked_add(b.times.checked_mul(sign)?)?;
                    let register = a.register.or(b.register).filter(|_| times != 0);
                    return Some(Stride { times, register });
                }
                None
            }
            (Op::IMul, &[a, b]) => match (self.stride(a)?, self.stride(b)?) {
                (NO_STRIDE, NO_STRIDE) => Some(NO_STRIDE),
                (Stride { times, register: None }, NO_STRIDE) => self.times(times, b, constant(b)),
                (NO_STRIDE, Stride { times, register: None }) => self.times(times, a, constant(a)),
                _ => None,
            },
            _ => args.iter().all(|&reg| self.is_same(reg)).then_some(NO_STRIDE),
        }
    }

    /// So many times a register.
    fn times(&self, times: i64, reg: Reg, constant: Option<i64>) -> Option<Stride> {
        match constant {
            Some(constant) => Some(Stride { times: times.checked_mul(constant)?, register: None }),
            // It is read where the inner loop begins.
            None => (!(self.changes)(reg)).then_some(Stride { times, register: Some(reg.index) }),
        }
    }
}

impl Function<'_, '_> {
    /// Makes room for the sums that are found ahead: there are none yet. At the function's beginning.
    pub(super) fn begin_ahead(&mut self) {
        let entry = self.request.entry;
        let mut all = std::mem::take(&mut self.ahead);
        for (&start, (ahead, found)) in &mut all {
            let index_at = (ahead.sums.len() * SUM_BYTES) as i32;
            let count_at = index_at + size_of::<u64>() as i32;
            let bytes = count_at as u32 + size_of::<u64>() as u32;
            let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
            let slot = self.emit.b.create_sized_stack_slot(slot);
            let none = self.emit.int(0);
            let fresh = (entry == Some(start)).then(|| self.emit.variable(none));
            // Of no rounds no index is one, but those who watch memory see that it is asked.
            self.emit.b.ins().stack_store(I64, none, slot, index_at);
            self.emit.b.ins().stack_store(I64, none, slot, count_at);
            *found = Some(Found { slot, index_at, count_at, fresh });
        }
        self.ahead = all;
    }

    /// Notes that a block is entered: whether from here on rounds of an outer loop are others than before.
    pub(super) fn note_outer_loops(&mut self, number: usize) {
        for (ahead, found) in self.ahead.values() {
            let Some(found) = found else { continue };
            if ahead.ways_in.contains(&number) {
                // No sums are of this loop's rounds, or one loop less is to wait for.
                let count = self.emit.b.ins().stack_load(I64, I64, found.slot, found.count_at);
                let next = self.emit.b.ins().iadd_imm_s(count, 1);
                let none = self.emit.b.ins().iconst(I64, 0);
                let next = self.emit.b.ins().smin(next, none);
                self.emit.b.ins().stack_store(I64, next, found.slot, found.count_at);
            }
            if let Some(variable) = found.fresh.filter(|_| ahead.head == self.at) {
                let fresh = self.emit.b.ins().iconst(I64, 1);
                self.emit.b.def_var(variable, fresh);
            }
        }
    }

    /// Before a tight loop: takes the sums if they have been found, finds them for some rounds if it can, and goes past
    /// the loop then. Goes on in a block where it is run.
    pub(super) fn take_ahead(&mut self) {
        let Some((ahead, Some(found))) = self.ahead.get(&self.at).cloned() else { return };
        let end = self.tight[&self.at].end();
        let (held, known) = (self.references.held(), self.known.clone());
        let Counter { index, bound, condition, exit, cost } = ahead.inner;
        let [ready, take, look, probe, failed, single] = [(); 6].map(|()| self.emit.b.create_block());
        let count = self.emit.b.ins().stack_load(I64, I64, found.slot, found.count_at);
        let waits = self.emit.is_negative(count);
        self.emit.branch(waits, single, &[], ready, &[]);

        self.emit.enter(ready);
        let outer = self.int(ahead.index);
        let first = self.emit.b.ins().stack_load(I64, I64, found.slot, found.index_at);
        let lane = self.emit.b.ins().isub(outer, first);
        let is_there = self.emit.b.ins().icmp(IntCC::UnsignedLessThan, lane, count);
        self.emit.branch(is_there, take, &[], look, &[]);

        self.emit.enter(look);
        if let Some(fresh) = found.fresh {
            let fresh = self.emit.b.use_var(fresh);
            let next = self.emit.b.create_block();
            self.emit.branch(fresh, next, &[], single, &[]);
            self.emit.enter(next);
        }
        let outer_bound = self.int(ahead.bound);
        let left = self.emit.b.ins().isub(outer_bound, outer);
        let rounds = self.rounds_of(&ahead.inner);
        let from_least = self.emit.b.ins().iadd_imm_s(rounds, -ROUNDS_MIN);
        let (inner_index, inner_bound) = (self.int(index), self.int(bound));
        let room = [
            // The difference may have wrapped.
            self.emit.b.ins().icmp(IntCC::SignedLessThan, inner_index, inner_bound),
            self.emit.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, left, LANES as i64),
            self.emit.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, from_least, ROUNDS_MAX - ROUNDS_MIN),
        ];
        self.emit.branch_if_all(&room, probe, failed);

        self.emit.enter(probe);
        let mut wide = self.wide_ahead(&ahead);
        let inside = self.are_inside(&wide, &ahead.round, rounds);
        let fill = self.emit.b.create_block();
        self.emit.branch_if_all_hold(inside, fill, failed);

        self.emit.enter(fill);
        self.fill_ahead(&ahead, &mut wide, rounds, found);
        self.emit.b.ins().stack_store(I64, outer, found.slot, found.index_at);
        let lanes = self.emit.int(LANES as i64);
        self.emit.b.ins().stack_store(I64, lanes, found.slot, found.count_at);
        self.emit.b.ins().jump(take, &[]);

        // The last rounds of a loop may be too few, but not the first ones.
        self.emit.enter(failed);
        let later = self.emit.int(-LOOPS_WAITED);
        let none = self.emit.is_zero(count);
        let count = self.emit.select(none, later, count);
        self.emit.b.ins().stack_store(I64, count, found.slot, found.count_at);
        self.emit.b.ins().jump(single, &[]);

        self.emit.enter(take);
        let fuel = self.emit.b.use_var(self.fuel);
        let rounds = self.rounds_of(&ahead.inner);
        let costs = self.emit.b.ins().imul_imm_s(rounds, i64::from(cost));
        let left = self.emit.b.ins().isub(fuel, costs);
        self.emit.b.def_var(self.fuel, left);
        // Where a round of the loop would run out of fuel.
        let at = std::mem::replace(&mut self.at, end);
        self.refill_if_spent();
        self.at = at;
        let first = self.emit.b.ins().stack_load(I64, I64, found.slot, found.index_at);
        let lane = self.emit.b.ins().isub(outer, first);
        let lane = match ahead.way {
            Way::Forwards => lane,
            // The lanes of each vector are the other way round.
            Way::Backwards => self.emit.b.ins().bxor_imm_u(lane, 1),
        };
        let place = self.emit.b.ins().stack_addr(I64, found.slot, 0);
        let offset = self.emit.b.ins().ishl_imm_u(lane, 3);
        let place = self.emit.b.ins().iadd(place, offset);
        for (n, &sum) in ahead.sums.iter().enumerate() {
            let value = self.emit.b.ins().load(F64, UNALIGNED, place, (n * SUM_BYTES) as i32);
            self.set_real(sum, value);
        }
        let last = self.int(bound);
        self.set_int(index, last);
        let no = self.emit.int(0);
        self.set_int(condition, no);
        self.hold_for(exit);
        let exit = self.blocks[&exit];
        self.emit.b.ins().jump(exit, &[]);

        self.references.resume(held);
        self.known = known;
        self.emit.enter(single);
    }

    /// How many rounds a loop has that begins here.
    fn rounds_of(&mut self, counter: &Counter) -> Value {
        let (bound, index) = (self.int(counter.bound), self.int(counter.index));
        self.emit.b.ins().isub(bound, index)
    }

    /// What the inner loop finds in the lanes, but for its sums.
    fn wide_ahead(&mut self, ahead: &Ahead) -> Wide {
        let mut wide = Wide::new(ahead.way);
        for &reg in &ahead.reads {
            match reg.bank {
                Bank::Real => {
                    let value = self.real(reg.index);
                    wide.set_real(reg.index, WideReal::Same(value));
                }
                _ => {
                    let first = self.int(reg.index);
                    let step = match ahead.strides.get(&reg.index) {
                        None => WideStep::By(0),
                        Some(&Stride { times, register: None }) => WideStep::By(times),
                        Some(&Stride { times, register: Some(register) }) => {
                            let value = self.int(register);
                            WideStep::Each(self.emit.b.ins().imul_imm_s(value, times))
                        }
                    };
                    wide.set_int(reg.index, first, step);
                }
            }
        }
        wide
    }

    /// What has to hold for all elements to be inside that the lanes read, and for all tests to go well.
    fn are_inside(&mut self, wide: &Wide, round: &[Act], rounds: Value) -> Vec<Value> {
        /// What is asked of a round, in all lanes.
        enum Ask {
            Inside(RefReg, WideInt),
            Compare(IntCC, [WideInt; 2]),
            True(Value, bool),
        }
        // Of the first round and of the second one; integers go on evenly.
        let mut probe = wide.clone();
        let mut asked = [const { Vec::new() }; 2];
        for asked in &mut asked {
            let mut compares = BTreeMap::new();
            for act in round {
                match *act {
                    Act::Inst(Inst::PrimalElem { array, index, .. }) => {
                        asked.push(Ask::Inside(array, probe.int(index.0)));
                    }
                    Act::Inst(inst) => {
                        let compared = match inst {
                            Inst::ILt { dst, a, b } => Some((dst, IntCC::SignedLessThan, [a, b])),
                            Inst::ILe { dst, a, b } => Some((dst, IntCC::SignedLessThanOrEqual, [a, b])),
                            _ => None,
                        };
                        if let Some(dst) = inst.pure_result().filter(|reg| reg.bank == Bank::Int) {
                            compares.remove(&dst.index);
                        }
                        if let Some((dst, how, operands)) = compared {
                            compares.insert(dst.0, (how, operands.map(|operand| probe.int(operand.0))));
                        }
                        probe.count(self.emit, &inst);
                    }
                    Act::Check { condition, holds } => asked.push(match compares.get(&condition) {
                        Some(&(how, operands)) => Ask::Compare(if holds { how } else { how.complement() }, operands),
                        None => Ask::True(probe.int(condition).first, holds),
                    }),
                }
            }
        }
        let [first, second] = asked;
        let mut inside = Vec::new();
        let last_round = self.emit.b.ins().iadd_imm_s(rounds, -1);
        for both in first.into_iter().zip(second) {
            match both {
                (Ask::Inside(array, first), Ask::Inside(_, second)) => {
                    let len = self.len(array.0);
                    for corner in self.corners([first, second], last_round, &mut inside) {
                        inside.push(self.emit.b.ins().icmp(IntCC::UnsignedLessThan, corner, len));
                    }
                }
                (Ask::Compare(how, [a, b]), Ask::Compare(_, [next_a, next_b])) => {
                    let corners = [[a, next_a], [b, next_b]].map(|both| {
                        // Far from where integers wrap.
                        let shifted = self.emit.b.ins().iadd_imm_s(both[0].first, 1 << 62);
                        inside.push(self.emit.is_nonnegative(shifted));
                        self.corners(both, last_round, &mut inside)
                    });
                    let [a, b] = corners;
                    for (a, b) in a.into_iter().zip(b) {
                        inside.push(self.emit.b.ins().icmp(how, a, b));
                    }
                }
                (Ask::True(value, holds), _) => {
                    let as_asked = if holds { self.emit.is_nonzero(value) } else { self.emit.is_zero(value) };
                    inside.push(as_asked);
                }
                _ => unreachable!("both rounds are asked the same"),
            }
        }
        inside
    }

    /// What an integer is in the first round and the last one of the first lane and the last one, by what it is in the
    /// first lane's first round and second one. Adds what has to hold for all others to be between them.
    fn corners(&mut self, [first, second]: [WideInt; 2], last_round: Value, conditions: &mut Vec<Value>) -> [Value; 4] {
        let mut is_small = |this: &mut Self, stride| {
            let shifted = this.emit.b.ins().iadd_imm_s(stride, STRIDE_MAX);
            conditions.push(this.emit.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, shifted, 2 * STRIDE_MAX));
        };
        let by = self.emit.b.ins().isub(second.first, first.first);
        is_small(self, by);
        match first.step {
            WideStep::Each(step) => is_small(self, step),
            WideStep::By(step) if (-STRIDE_MAX..STRIDE_MAX).contains(&step) => {}
            // Such lanes may wrap: never together.
            WideStep::By(_) => conditions.push(self.emit.b.ins().iconst(I8, 0)),
        }
        let all = self.emit.b.ins().imul(by, last_round);
        let last = self.emit.b.ins().iadd(first.first, all);
        match first.step {
            WideStep::By(0) => [first.first, last, first.first, last],
            step => {
                let lanes = step.times(self.emit, LANES as i64 - 1);
                let [a, b] = [first.first, last].map(|index| self.emit.b.ins().iadd(index, lanes));
                [first.first, last, a, b]
            }
        }
    }

    /// Writes the rounds of the inner loop in all lanes. The sums go to memory.
    fn fill_ahead(&mut self, ahead: &Ahead, wide: &mut Wide, rounds: Value, found: Found) {
        let index = wide.int(ahead.inner.index).first;
        let [index, counter] = [index, rounds].map(|value| self.emit.variable(value));
        let mut sums = Vec::new();
        for &sum in &ahead.sums {
            let value = wide.real(sum);
            sums.push((sum, Wide::vectors(self.emit, value).map(|vector| self.emit.variable(vector))));
        }
        let head = self.emit.b.create_block();
        self.emit.b.ins().jump(head, &[]);
        self.emit.b.switch_to_block(head);
        for &(sum, variables) in &sums {
            let vectors = variables.map(|variable| self.emit.b.use_var(variable));
            wide.set_real(sum, WideReal::Vectors(vectors));
        }
        let value = self.emit.b.use_var(index);
        wide.set_same(ahead.inner.index, value);
        for act in &ahead.round {
            match *act {
                Act::Inst(Inst::PrimalElem { dst, array, index }) => {
                    let base = self.elements_base(Bank::Real, array);
                    let value = wide.load(self.emit, base, wide.int(index.0), ARRAY_HEADER as i64);
                    wide.set_real(dst.0, value);
                }
                Act::Inst(inst) => wide.run(self.emit, inst.pure().expect("the loop only reads and computes")),
                // It has been asked before.
                Act::Check { .. } => {}
            }
        }
        for &(sum, variables) in &sums {
            let value = wide.real(sum);
            for (variable, vector) in variables.into_iter().zip(Wide::vectors(self.emit, value)) {
                self.emit.b.def_var(variable, vector);
            }
        }
        self.emit.b.def_var(index, wide.int(ahead.inner.index).first);
        let more = self.emit.b.use_var(counter);
        let more = self.emit.b.ins().iadd_imm_s(more, -1);
        self.emit.b.def_var(counter, more);
        let done = self.emit.b.create_block();
        self.emit.branch(more, head, &[], done, &[]);
        self.emit.b.seal_block(head);
        self.emit.enter(done);
        let place = self.emit.b.ins().stack_addr(I64, found.slot, 0);
        for (n, (_, variables)) in sums.into_iter().enumerate() {
            for (m, variable) in variables.into_iter().enumerate() {
                let vector = self.emit.b.use_var(variable);
                let at = n * SUM_BYTES + m * size_of::<[f64; 2]>();
                self.emit.b.ins().store(UNALIGNED, vector, place, at as i32);
            }
        }
    }
}
