//! Strong products that are written as plain ones.
//!
//! The two differ only where the plain one is NaN, and a NaN goes on to a result unless nobody asks for it. So one test
//! of the results, before any of them is used, finds out whether it mattered; then what was computed is left to the
//! interpreter. That saves a branch per product.

use crate::deferred::rarely_read;
use crate::emit::Emit;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::types::I32;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use dualvm_vm::isa::{Bank, Op, Reg};
use dualvm_vm::native::{Inst, Pure, ScalarInst, Stream};
use std::collections::BTreeMap;

/// An instruction of derived code.
pub(crate) fn pure(inst: &Inst) -> Pure {
    inst.pure().expect("derived code is pure")
}

/// The real register that a move reads, if an instruction of derived code is one.
pub(crate) fn moved(inst: &Inst) -> Option<u16> {
    match pure(inst) {
        Pure::PrimalMov { src, .. } => Some(src.0),
        _ => None,
    }
}

/// For each instruction, whether it is a strong product whose NaN would show in the results, and which may be written
/// as a plain product therefore. A NaN shows if everything between it and the results hands NaN on, or leaves it out
/// altogether as a selection does.
pub(crate) fn lenient_products(registers: usize, code: &[Inst]) -> Vec<bool> {
    let mut shows = vec![true; registers];
    let mut lenient = vec![false; code.len()];
    for (inst, lenient) in code.iter().zip(&mut lenient).rev() {
        let (result, hands_on, strong): (Reg, _, _) = match pure(inst) {
            Pure::PrimalMov { dst, .. } => (dst.into(), true, false),
            Pure::Scalar(inst) => (inst.dst, hands_nan_on(inst.op), inst.op == Op::StrongMul),
            Pure::PrimalConst { dst, .. } | Pure::KeptElem { dst, .. } => (dst.into(), false, false),
            Pure::IMov { .. } | Pure::IConst { .. } | Pure::KeptObject { .. } | Pure::KeptIElem { .. } => continue,
        };
        // What the register held before is another value.
        let result_shows = result.bank == Bank::Real && std::mem::replace(&mut shows[usize::from(result.index)], true);
        inst.for_each_reg(&Stream::default(), |reg, def| {
            if reg.bank == Bank::Real && !def {
                shows[usize::from(reg.index)] &= hands_on && result_shows;
            }
        });
        *lenient = strong && result_shows;
    }
    lenient
}

/// Whether NaN in an operand makes the result NaN, or is not asked for. Nothing is wrong with an instruction that is
/// not listed here but that its operands' products are strong ones.
fn hands_nan_on(op: Op) -> bool {
    op == Op::StrongMul || is_strict(op) || matches!(op, Op::Select | Op::Min | Op::Max)
}

/// Whether NaN in any operand makes the result NaN.
fn is_strict(op: Op) -> bool {
    matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Neg | Op::Sqrt | Op::Fma)
}

/// How a piece of derived code is written.
pub(crate) struct Leniency {
    /// For each instruction, whether it is a strong product that is written as a plain one.
    pub(crate) products: Vec<bool>,
    /// The real registers that are tested after the code.
    pub(crate) tests: Vec<u16>,
    /// For each instruction, whether it is written only where the slope is that rarely reads its result.
    pub(crate) deferred: Vec<bool>,
}

impl Leniency {
    /// Of code with so many real registers and these results.
    pub(crate) fn new(registers: usize, code: &[Inst], results: impl IntoIterator<Item = u16>) -> Leniency {
        let results: Vec<u16> = results.into_iter().collect();
        let products = lenient_products(registers, code);
        let tests = to_test(code, &products, results.iter().copied());
        Leniency { products, tests, deferred: rarely_read(registers, code, &results) }
    }

    /// The same without lenient products, so that nothing has to be tested.
    pub(crate) fn strict(registers: usize, code: &[Inst], results: impl IntoIterator<Item = u16>) -> Leniency {
        let results: Vec<u16> = results.into_iter().collect();
        let products = vec![false; code.len()];
        Leniency { products, tests: Vec::new(), deferred: rarely_read(registers, code, &results) }
    }
}

/// Those of the results, real registers that hold them after the code, that have to be tested: if a lenient product
/// gave NaN and that shows in any result, then in one of these. One that others are computed from with strict
/// instructions is not tested beside them, nor is what no lenient product is in.
fn to_test(code: &[Inst], lenient: &[bool], results: impl IntoIterator<Item = u16>) -> Vec<u16> {
    let mut values = Values::default();
    for (inst, &lenient) in code.iter().zip(lenient) {
        values.follow(pure(inst), lenient);
    }
    let mut registers: BTreeMap<usize, u16> = BTreeMap::new();
    for register in results {
        if let Some(&value) = values.held.get(&register) {
            registers.insert(value, register);
        }
    }
    // From the last to the first: what a value is computed from comes before it.
    let mut shown = vec![false; values.all.len()];
    let mut tested = Vec::new();
    for (n, value) in values.all.iter().enumerate().rev() {
        if !shown[n]
            && value.doubtful
            && let Some(&register) = registers.get(&n)
        {
            shown[n] = true;
            tested.push(register);
        }
        if shown[n] {
            value.strict_in.iter().for_each(|&operand| shown[operand] = true);
        }
    }
    tested
}

/// The real values of a piece of code. Two that are NaN at the same points are one, such as a product with a constant
/// and its other factor.
#[derive(Default)]
struct Values {
    all: Vec<RealValue>,
    /// Which one each register holds.
    held: BTreeMap<u16, usize>,
}

#[derive(Default)]
struct RealValue {
    /// Whether a lenient product is in it that may be NaN where the strong one isn't.
    doubtful: bool,
    /// A constant that is finite and not zero.
    is_factor: bool,
    /// The values whose NaN makes it NaN.
    strict_in: Vec<usize>,
}

impl Values {
    /// What a register holds; if it was not computed here, a value that nothing is known of.
    fn held(&mut self, register: u16) -> usize {
        match self.held.get(&register) {
            Some(&value) => value,
            None => self.hold(register, RealValue::default()),
        }
    }

    fn hold(&mut self, register: u16, value: RealValue) -> usize {
        let number = self.all.len();
        self.all.push(value);
        self.held.insert(register, number);
        number
    }

    fn follow(&mut self, inst: Pure, lenient: bool) {
        match inst {
            Pure::PrimalMov { dst, src } => {
                let value = self.held(src.0);
                self.held.insert(dst.0, value);
            }
            Pure::PrimalConst { dst, value } => {
                let value = f64::from_bits(value);
                let is_factor = value.is_finite() && value != 0.0;
                self.hold(dst.0, RealValue { is_factor, ..RealValue::default() });
            }
            Pure::KeptElem { dst, .. } => _ = self.hold(dst.0, RealValue::default()),
            Pure::Scalar(inst) if inst.dst.bank == Bank::Real => self.scalar(&inst, lenient),
            Pure::Scalar(_)
            | Pure::IMov { .. }
            | Pure::IConst { .. }
            | Pure::KeptObject { .. }
            | Pure::KeptIElem { .. } => {}
        }
    }

    fn scalar(&mut self, inst: &ScalarInst, lenient: bool) {
        let reals = inst.args().iter().filter(|reg| reg.bank == Bank::Real).map(|reg| reg.index);
        let operands: Vec<usize> = reals.map(|register| self.held(register)).collect();
        let is_product = inst.op == Op::Mul || lenient;
        let same = match operands[..] {
            [operand] if inst.op == Op::Neg => Some(operand),
            [a, b] if is_product => match [a, b].map(|operand| self.all[operand].is_factor) {
                [false, true] => Some(a),
                [true, false] => Some(b),
                _ => None,
            },
            _ => None,
        };
        if let Some(value) = same {
            self.held.insert(inst.dst.index, value);
            return;
        }
        let doubtful = lenient || operands.iter().any(|&operand| self.all[operand].doubtful);
        let strict_in = if is_product || is_strict(inst.op) { operands } else { Vec::new() };
        self.hold(inst.dst.index, RealValue { doubtful, is_factor: false, strict_in });
    }
}

/// Goes to a block if one of the values is NaN.
pub(crate) fn branch_on_nan(emit: &mut Emit<'_>, values: &[Value], target: Block) {
    // One comparison finds a NaN in either of two.
    for pair in values.chunks(2) {
        let nan = is_nan_in(emit, pair);
        emit.branch_away(nan, target);
    }
}

/// Goes to a block if there is NaN in one of the vectors.
pub(crate) fn branch_on_nan_in_vectors(emit: &mut Emit<'_>, vectors: &[Value], target: Block) {
    let masks: Vec<Value> = vectors.chunks(2).map(|pair| is_nan_in(emit, pair)).collect();
    if let Some(mask) = masks.into_iter().reduce(|mask, other| emit.b.ins().bor(mask, other)) {
        let any = emit.b.ins().vhigh_bits(I32, mask);
        emit.branch_away(any, target);
    }
}

/// Whether one of a value or two is NaN; for vectors by lane.
fn is_nan_in(emit: &mut Emit<'_>, values: &[Value]) -> Value {
    emit.b.ins().fcmp(FloatCC::Unordered, values[0], values[values.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use dualvm_vm::native::{IntReg, RealReg};

    fn strong_mul(dst: u16, a: u16, b: u16) -> Inst {
        Inst::StrongMul { dst: RealReg(dst), a: RealReg(a), b: RealReg(b) }
    }

    fn constant(dst: u16, value: f64) -> Inst {
        Inst::PrimalConst { dst: RealReg(dst), value: value.to_bits() }
    }

    /// Which of the results of code with eight registers are tested.
    fn tested(code: &[Inst], results: &[u16]) -> Vec<u16> {
        let mut tests = Leniency::new(8, code, results.iter().copied()).tests;
        tests.sort_unstable();
        tests
    }

    #[test]
    fn what_no_product_is_in_is_not_tested() {
        let sum = Inst::Add { dst: RealReg(3), a: RealReg(0), b: RealReg(1) };
        assert_eq!(tested(&[strong_mul(2, 0, 1), sum], &[0, 2, 3]), [2]);
        assert_eq!(tested(&[sum], &[0, 3]), [0; 0]);
    }

    #[test]
    fn a_factor_is_not_tested_beside_its_products() {
        // Each of the two may be NaN alone.
        let code = [strong_mul(2, 0, 1), strong_mul(3, 2, 0), strong_mul(4, 2, 1)];
        assert_eq!(tested(&code, &[2, 3, 4]), [3, 4]);
        assert_eq!(tested(&code, &[2]), [2]);
    }

    #[test]
    fn a_multiple_is_tested_with_what_it_is_a_multiple_of() {
        let twice = |factor| [strong_mul(2, 0, 1), constant(3, factor), strong_mul(4, 2, 3), strong_mul(5, 2, 0)];
        assert_eq!(tested(&twice(2.0), &[2, 4, 5]), [5]);
        // These are NaN where the other factor is infinite, or zero.
        assert_eq!(tested(&twice(0.0), &[2, 4, 5]), [4, 5]);
        assert_eq!(tested(&twice(f64::INFINITY), &[2, 4, 5]), [4, 5]);
        let negative = Inst::Neg { dst: RealReg(4), a: RealReg(2) };
        assert_eq!(tested(&[strong_mul(2, 0, 1), negative], &[4]), [4]);
        assert_eq!(tested(&[strong_mul(2, 0, 1), negative, strong_mul(5, 4, 0)], &[2, 4, 5]), [5]);
    }

    #[test]
    fn a_selection_hides_what_it_leaves_out() {
        let selection = Inst::Select { dst: RealReg(3), c: IntReg(0), a: RealReg(2), b: RealReg(0) };
        assert_eq!(tested(&[strong_mul(2, 0, 1), selection], &[2, 3]), [2, 3]);
        assert_eq!(tested(&[strong_mul(2, 0, 1), selection], &[3]), [3]);
    }

    #[test]
    fn a_register_that_is_written_again_is_another_value() {
        let code = [strong_mul(2, 0, 1), strong_mul(3, 2, 0), strong_mul(2, 0, 0)];
        assert_eq!(tested(&code, &[2, 3]), [2, 3]);
    }
}
