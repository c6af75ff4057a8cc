//! Arithmetic with many strong products, such as tangents, in which these are written as plain ones.
//!
//! A branch for each product would cost more than the products. Where NaN in a product shows in what a stretch of
//! arithmetic gives ([`crate::lenient`]), the results are tested once, at the end; if one is NaN, what depends on
//! products is computed once more, exactly, from what it was computed from. Numbers that were loaded late are loaded
//! again for that, so that they needn't be kept.

use super::Function;
use crate::lenient::{Leniency, branch_on_nan, pure};
use cranelift_codegen::ir::types::F64;
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::isa::{Bank, Op};
use dualvm_vm::native::{Inst, Position, Pure, ScalarInst};
use std::collections::{BTreeMap, HashMap};

/// A stretch has at least so many products that become plain ones, so many for each test, and one in so many
/// instructions: what depends on products is written twice.
const PRODUCTS_MIN: usize = 3;
const PRODUCTS_PER_TEST: usize = 2;
const INSTRUCTIONS_PER_PRODUCT: usize = 8;
/// A stretch is cut after so many instructions.
const LEN_MAX: usize = 512;

/// What depends on products that were written as plain ones, as it has to be computed if one is NaN.
#[derive(Default)]
struct Doubtful {
    steps: Vec<Step>,
    /// Where numbers stand that were loaded in the stretch: address and offset.
    loaded: HashMap<Value, (Value, i32)>,
    /// What registers hold that were written in the stretch, and whether that is doubtful.
    registers: BTreeMap<u16, (Value, bool)>,
}

/// A scalar instruction with its operands and its result.
struct Step {
    op: Op,
    args: Vec<Value>,
    result: Value,
}

/// Whether an instruction may stand in a stretch.
fn is_arithmetic(inst: &Inst) -> bool {
    match inst.pure() {
        Some(Pure::Scalar(scalar)) => !scalar.op.info().traps,
        Some(Pure::PrimalMov { .. } | Pure::PrimalConst { .. } | Pure::IMov { .. } | Pure::IConst { .. }) => true,
        Some(Pure::KeptObject { .. } | Pure::KeptElem { .. }) | None => false,
    }
}

impl Function<'_, '_> {
    /// Writes the instructions of a part of a block.
    pub(super) fn insts(&mut self, start: Position, end: Position) {
        let code = &self.stream.code[..end.index()];
        let mut at = start;
        while at < end {
            let len = code[at.index()..].iter().take(LEN_MAX).take_while(|inst| is_arithmetic(inst)).count();
            let stretch = &code[at.index()..at.index() + len.max(1)];
            match self.leniency(stretch) {
                Some(leniency) => self.stretch(at, stretch, &leniency),
                None => {
                    for (at, inst) in at.to(end).zip(stretch) {
                        self.at = at;
                        self.inst(inst);
                    }
                }
            }
            at = Position(at.0 + stretch.len() as u32);
        }
    }

    /// How a stretch is written, if tests at its end are fewer than those of its products.
    fn leniency(&self, stretch: &[Inst]) -> Option<Leniency> {
        let is_product = |inst: &&Inst| matches!(inst, Inst::StrongMul { .. });
        if stretch.iter().filter(is_product).count() < PRODUCTS_MIN {
            return None;
        }
        let results = stretch.iter().filter_map(|inst| match pure(inst) {
            Pure::PrimalMov { dst, .. } => Some(dst.0),
            Pure::Scalar(ScalarInst { dst, .. }) if dst.bank == Bank::Real => Some(dst.index),
            _ => None,
        });
        let leniency = Leniency::new(self.stream.reals, stretch, results);
        let products = leniency.products.iter().filter(|&&lenient| lenient).count();
        let least = [PRODUCTS_MIN, PRODUCTS_PER_TEST * leniency.tests.len(), stretch.len() / INSTRUCTIONS_PER_PRODUCT];
        least.iter().all(|&least| products >= least).then_some(leniency)
    }

    /// Writes arithmetic with plain products, and what is to be done if one of them is NaN.
    fn stretch(&mut self, start: Position, stretch: &[Inst], leniency: &Leniency) {
        let mut doubtful = Doubtful::default();
        for ((n, inst), &lenient) in stretch.iter().enumerate().zip(&leniency.products) {
            self.at = Position(start.0 + n as u32);
            match pure(inst) {
                Pure::Scalar(scalar) if scalar.dst.bank == Bank::Real => self.step(&mut doubtful, &scalar, lenient),
                Pure::PrimalMov { dst, src } => {
                    let held = self.held(&mut doubtful, src.0);
                    self.set_real(dst.0, held.0);
                    doubtful.registers.insert(dst.0, held);
                }
                Pure::PrimalConst { dst, .. } => {
                    self.inst(inst);
                    doubtful.registers.remove(&dst.0);
                }
                _ => self.inst(inst),
            }
        }
        if leniency.tests.is_empty() {
            return;
        }
        let tests: Vec<Value> = leniency.tests.iter().map(|&register| self.held(&mut doubtful, register).0).collect();
        let (exact, done) = (self.emit.cold_block(), self.emit.next_block());
        branch_on_nan(self.emit, &tests, exact);
        self.emit.b.ins().jump(done, &[]);
        self.emit.enter(exact);
        self.compute_exactly(doubtful);
        self.emit.b.ins().jump(done, &[]);
        self.emit.enter(done);
    }

    /// What a register holds, and whether that is doubtful. It is the very value that was written: Cranelift's
    /// variables give other names of it.
    fn held(&mut self, doubtful: &mut Doubtful, register: u16) -> (Value, bool) {
        if let Some(&held) = doubtful.registers.get(&register) {
            return held;
        }
        let place = self.late.place(register);
        let held = (self.real(register), false);
        if let Some(place) = place {
            doubtful.loaded.insert(held.0, place);
            doubtful.registers.insert(register, held);
        }
        held
    }

    fn step(&mut self, doubtful: &mut Doubtful, inst: &ScalarInst, lenient: bool) {
        let mut args = Vec::with_capacity(3);
        let mut is_doubtful = lenient;
        for reg in inst.args() {
            args.push(match reg.bank {
                Bank::Real => {
                    let (value, from_doubtful) = self.held(doubtful, reg.index);
                    is_doubtful |= from_doubtful;
                    value
                }
                bank => self.operand(bank, reg.index),
            });
        }
        let result = self.emit.scalar(if lenient { Op::Mul } else { inst.op }, &args);
        self.set_real(inst.dst.index, result);
        doubtful.registers.insert(inst.dst.index, (result, is_doubtful));
        if is_doubtful {
            doubtful.steps.push(Step { op: inst.op, args, result });
        }
    }

    /// Computes what is doubtful with strong products.
    fn compute_exactly(&mut self, doubtful: Doubtful) {
        let Doubtful { steps, loaded, registers } = doubtful;
        let mut exact: HashMap<Value, Value> = HashMap::new();
        for Step { op, mut args, result } in steps {
            for arg in &mut args {
                if let Some(&(place, at)) = loaded.get(arg) {
                    exact.entry(*arg).or_insert_with(|| self.emit.load(F64, place, at));
                }
                *arg = exact.get(arg).copied().unwrap_or(*arg);
            }
            let value = match op {
                Op::StrongMul => self.emit.strong_mul_without_branch(args[0], args[1]),
                op => self.emit.scalar(op, &args),
            };
            exact.insert(result, value);
        }
        for (register, (value, is_doubtful)) in registers {
            if is_doubtful && let Some(&value) = exact.get(&value) {
                self.set_real(register, value);
            }
        }
    }
}
