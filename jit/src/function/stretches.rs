//! Arithmetic with many strong products, such as tangents, in which these are written as plain ones.
//!
//! A branch for each product would cost more than the products. Where NaN in a product shows in what a stretch of
//! arithmetic gives ([`crate::lenient`]), the results are tested once, at the end; if one is NaN, the interpreter
//! computes the stretch. Numbers that were loaded late are loaded again for that, so that they needn't be kept.

use super::late::may_wait;
use super::liveness::Liveness;
use super::superwords::{Found, Pairs, Written};
use super::{Function, cell};
use crate::lenient::{Leniency, branch_on_nan, branch_on_nan_in_vectors, pure};
use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value};
use dualvm_vm::isa::{Bank, Op, Reg};
use dualvm_vm::native::helpers::Helper;
use dualvm_vm::native::{Inst, Position, Pure, Stream};
use std::collections::{BTreeSet, HashSet};

/// A stretch has at least so many products that become plain ones, so many for each test, and one in so many
/// instructions.
const PRODUCTS_MIN: usize = 3;
const PRODUCTS_PER_TEST: usize = 2;
const INSTRUCTIONS_PER_PRODUCT: usize = 8;
/// A stretch is cut after so many instructions.
const LEN_MAX: usize = 512;

/// Arithmetic and what stands between its instructions: loads and their indices, which are written where they stand,
/// while the arithmetic waits for the end. Arithmetic that may trap is not part of it, so that makes no difference.
pub(crate) struct Stretch {
    /// How many instructions it is.
    pub(crate) len: usize,
    /// Which of them are the arithmetic that waits.
    pub(crate) waits: Vec<bool>,
    /// These instructions, and how they are written.
    pub(crate) arithmetic: Vec<Inst>,
    pub(crate) leniency: Leniency,
    /// The real registers that they write and that are read later.
    live: Vec<u16>,
    /// The real registers in which they leave numbers for later that depend on products which become plain ones.
    doubtful: Vec<u16>,
    /// Which of all instructions are to be computed again for these, where one is NaN.
    again: Vec<bool>,
    /// The registers that those read as the stretch finds them.
    inputs: Vec<Reg>,
}

impl Stretch {
    /// How many numbers are stored and loaded where a product is NaN.
    pub(crate) fn moved(&self) -> usize {
        self.inputs.len() + self.doubtful.len()
    }
}

/// The stretch that code begins with, if tests at its end are fewer than those of its products; or else how many
/// instructions it is before which there is none. `is_live` says whether a real register is read after so many
/// instructions.
pub(crate) fn stretch(
    stream: &Stream,
    code: &[Inst],
    mut is_live: impl FnMut(usize, u16) -> bool,
) -> Result<Stretch, usize> {
    let is_product = |inst: &&Inst| matches!(inst, Inst::StrongMul { .. });
    // Most code has none.
    let first = code.iter().position(|inst| is_product(&inst)).unwrap_or(code.len());
    if first > 0 {
        return Err(first);
    }
    let mut waiting = Waiting::default();
    let waits: Vec<bool> = code.iter().take(LEN_MAX).map_while(|inst| waiting.add(stream, inst)).collect();
    let len = waits.len();
    if code[..len].iter().filter(is_product).count() < PRODUCTS_MIN {
        return Err(len);
    }
    let arithmetic: Vec<Inst> = code.iter().zip(&waits).filter_map(|(inst, &waits)| waits.then_some(*inst)).collect();
    let written = waiting.writes.iter().filter(|reg| reg.bank == Bank::Real).map(|reg| reg.index);
    let mut results: Vec<u16> = written.filter(|&register| is_live(len, register)).collect();
    results.sort_unstable();
    let leniency = Leniency::new(stream.reals, &arithmetic, results.iter().copied());
    let products = leniency.products.iter().filter(|&&lenient| lenient).count();
    let least = [PRODUCTS_MIN, PRODUCTS_PER_TEST * leniency.tests.len(), arithmetic.len() / INSTRUCTIONS_PER_PRODUCT];
    if least.iter().any(|&least| products < least) {
        return Err(len);
    }
    let doubtful = doubtful(stream, &arithmetic, &leniency.products);
    let live = results.clone();
    results.retain(|register| doubtful.contains(register));

    let mut wanted: BTreeSet<Reg> = results.iter().map(|&register| Reg::real(register)).collect();
    let mut again = vec![false; len];
    for n in (0..len).rev().filter(|&n| waits[n]) {
        code[n].for_each_reg(stream, |reg, def| again[n] |= def && wanted.remove(&reg));
        if again[n] {
            code[n].for_each_reg(stream, |reg, def| _ = !def && wanted.insert(reg));
        }
    }
    let inputs = wanted.into_iter().collect();
    Ok(Stretch { len, waits, arithmetic, leniency, live, doubtful: results, again, inputs })
}

/// The real registers that hold something in the end that depends on a lenient product.
fn doubtful(stream: &Stream, arithmetic: &[Inst], lenient: &[bool]) -> HashSet<u16> {
    let mut doubtful = HashSet::new();
    for (inst, &lenient) in arithmetic.iter().zip(lenient) {
        let mut is_doubtful = lenient;
        inst.for_each_reg(stream, |reg, def| {
            if reg.bank == Bank::Real && !def {
                is_doubtful |= doubtful.contains(&reg.index);
            }
        });
        inst.for_each_reg(stream, |reg, def| {
            if reg.bank == Bank::Real && def {
                if is_doubtful {
                    doubtful.insert(reg.index)
                } else {
                    doubtful.remove(&reg.index)
                };
            }
        });
    }
    doubtful
}

/// Whether an instruction is one that may wait: it computes something and can't trap.
fn is_arithmetic(inst: &Inst) -> bool {
    match inst.pure() {
        Some(Pure::Scalar(scalar)) => !scalar.op.info().traps,
        Some(Pure::PrimalMov { .. } | Pure::PrimalConst { .. } | Pure::IMov { .. } | Pure::IConst { .. }) => true,
        Some(Pure::KeptObject { .. } | Pure::KeptElem { .. } | Pure::KeptIElem { .. }) | None => false,
    }
}

/// What arithmetic that waits reads as it finds it, and writes.
#[derive(Default)]
struct Waiting {
    reads: HashSet<Reg>,
    writes: HashSet<Reg>,
}

impl Waiting {
    /// Adds an instruction to a stretch and says whether it waits. `None` if the stretch ends before it.
    fn add(&mut self, stream: &Stream, inst: &Inst) -> Option<bool> {
        let (mut reads, mut writes) = (Vec::new(), None);
        inst.for_each_reg(stream, |reg, def| if def { writes = Some(reg) } else { reads.push(reg) });
        let depends = reads.iter().any(|reg| self.writes.contains(reg));
        if is_arithmetic(inst) && (depends || writes.is_some_and(|reg| reg.bank == Bank::Real)) {
            self.reads.extend(reads.into_iter().filter(|reg| !self.writes.contains(reg)));
            self.writes.extend(writes);
            return Some(true);
        }
        // What is written where it stands finds its registers, and leaves those that are still to be read or written.
        let disturbs = writes.is_some_and(|reg| self.reads.contains(&reg) || self.writes.contains(&reg));
        (may_wait(&inst.form()) && !depends && !disturbs).then_some(false)
    }
}

/// The room on the stack that stretches of a function take, if it has any: registers as the interpreter finds them, and
/// a bit for each instruction of a stretch, set for those that it is to compute.
pub(super) fn cells_bytes(stream: &Stream) -> usize {
    let has_products = stream.code.iter().any(|inst| matches!(inst, Inst::StrongMul { .. }));
    if has_products { 8 * (stream.reals + stream.ints + LEN_MAX.div_ceil(64)) } else { 0 }
}

/// A number that arithmetic finds in a register.
#[derive(Clone, Copy)]
enum Input {
    Held(Value),
    Constant(f64),
    /// In a vector.
    Lane(Value, u8),
    /// Not loaded yet: address and offset.
    Late(Value, i32),
}

impl Function<'_, '_> {
    /// Writes the instructions of a part of a block.
    pub(super) fn insts(&mut self, start: Position, end: Position) {
        let mut rest = &self.stream.code[start.index()..end.index()];
        let mut next = start;
        while !rest.is_empty() {
            let first = next;
            let stretch = stretch(self.stream, rest, |len, register| {
                let liveness = || Liveness::new(self.stream, self.graph, Bank::Real, |_, _| false);
                match self.liveness.get_or_insert_with(liveness) {
                    Some(liveness) => liveness.is_live(first, Position(first.0 + len as u32), register),
                    None => true,
                }
            });
            let (code, after) = rest.split_at(stretch.as_ref().map_or_else(|&len| len, |stretch| stretch.len));
            (rest, next) = (after, Position(first.0 + code.len() as u32));
            for (n, (at, inst)) in first.to(next).zip(code).enumerate() {
                self.at = at;
                match &stretch {
                    Ok(stretch) if stretch.waits[n] => self.follow_rows(inst),
                    _ => self.inst(inst),
                }
            }
            if let Ok(stretch) = stretch {
                self.arithmetic(first, &stretch);
            }
        }
    }

    /// Writes the arithmetic of a stretch with plain products, and what is to be done if one of them is NaN.
    fn arithmetic(&mut self, first: Position, stretch: &Stretch) {
        let Stretch { arithmetic, leniency, inputs, .. } = stretch;
        let found = Found { late: &self.late, twins: &self.twins };
        let pairs = Pairs::new((arithmetic, &leniency.products), &stretch.live, &self.constants, found);
        // Registers that are read in a vector anyway are taken out of it where they are read alone.
        let vectors = pairs.iter().flat_map(|pairs| pairs.vectors_read());
        vectors.for_each(|registers| self.twins.read_vector(registers));
        let inputs: Vec<(Reg, Input)> = inputs.iter().map(|&reg| (reg, self.input(reg))).collect();
        let mut written = Written::default();
        for (n, (inst, &lenient)) in arithmetic.iter().zip(&leniency.products).enumerate() {
            let pure = pure(inst);
            let paired = pairs.as_ref().and_then(|pairs| self.paired(pairs, &mut written, n));
            match (pure, paired) {
                (Pure::Scalar(scalar), Some(value)) => self.set_real(scalar.dst.index, value),
                (Pure::Scalar(scalar), None) if lenient => {
                    let args: Vec<Value> = scalar.args().iter().map(|reg| self.real(reg.index)).collect();
                    let product = self.emit.scalar(Op::Mul, &args);
                    self.set_real(scalar.dst.index, product);
                }
                _ => self.pure(pure),
            }
            if let (Some(result), Some(_)) = (inst.pure_result().filter(|reg| reg.bank == Bank::Real), &pairs) {
                let value = self.real(result.index);
                written.result(n, value);
            }
        }
        if let Some(pairs) = &pairs {
            self.pair_twins(pairs, &written);
        }
        if leniency.tests.is_empty() {
            return;
        }
        let [vectors, numbers] = self.tested(pairs.as_ref(), &written, &leniency.tests);
        let (exact, done) = (self.emit.cold_block(), self.emit.next_block());
        branch_on_nan_in_vectors(self.emit, &vectors, exact);
        branch_on_nan(self.emit, &numbers, exact);
        self.emit.b.ins().jump(done, &[]);
        self.emit.enter(exact);
        let cells = self.cells();
        for (reg, input) in inputs {
            let value = match input {
                Input::Held(value) => value,
                Input::Constant(number) => self.emit.b.ins().f64const(number),
                Input::Lane(vector, lane) => self.emit.b.ins().extractlane(vector, lane),
                Input::Late(place, at) => self.emit.load(F64, place, at),
            };
            self.emit.store(value, cells, self.offset(reg));
        }
        self.compute(first, stretch, cells);
        let twins = self.twins_among(&stretch.doubtful);
        for &register in &stretch.doubtful {
            let value = self.emit.load(F64, cells, self.offset(Reg::real(register)));
            self.set_real(register, value);
        }
        twins.into_iter().for_each(|registers| self.put_together(registers));
        self.emit.b.ins().jump(done, &[]);
        self.emit.enter(done);
    }

    /// What arithmetic finds in a register.
    fn input(&mut self, reg: Reg) -> Input {
        if reg.bank == Bank::Real {
            if let Some(number) = self.constants.real(reg.index) {
                return Input::Constant(number);
            }
            if let Some((place, at)) = self.late.place(reg.index) {
                return Input::Late(place, at);
            }
            if let Some((vector, lane)) = self.lane_of_twins(reg.index) {
                return Input::Lane(vector, lane);
            }
        }
        Input::Held(self.operand(reg.bank, reg.index))
    }

    /// Where the interpreter finds registers, and a bit for each instruction.
    fn cells(&mut self) -> Value {
        let slot = match self.stretch_cells {
            Some(slot) => slot,
            None => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, cells_bytes(self.stream) as u32, 3);
                *self.stretch_cells.insert(self.emit.b.create_sized_stack_slot(data))
            }
        };
        self.emit.b.ins().stack_addr(I64, slot, 0)
    }

    /// Where a register stands among the cells.
    fn offset(&self, reg: Reg) -> i32 {
        let before = if reg.bank == Bank::Real { 0 } else { self.stream.reals };
        cell(before + usize::from(reg.index))
    }

    /// Has the interpreter compute what is doubtful of a stretch in the given cells.
    fn compute(&mut self, first: Position, stretch: &Stretch, cells: Value) {
        let [reals, ints] = [0, self.stream.reals].map(cell);
        let bits = cell(self.stream.reals + self.stream.ints);
        for (n, again) in (0..).zip(stretch.again.chunks(64)) {
            let word = again.iter().rev().fold(0, |word, &again| word << 1 | u64::from(again));
            let word = self.emit.int(word as i64);
            self.emit.store(word, cells, bits + cell(n));
        }
        let [reals, ints, bits] = [reals, ints, bits].map(|at| self.emit.b.ins().iadd_imm_s(cells, i64::from(at)));
        let numbers = [self.request.func.0, first.0, stretch.len as u32];
        let [func, first, count] = numbers.map(|number| self.emit.b.ins().iconst(I32, i64::from(number)));
        self.emit.call_cold(Helper::Compute, &[self.context, reals, ints, func, first, count, bits]);
    }
}
