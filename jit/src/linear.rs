//! What is known of the integers of a round: sums of what registers hold when it begins.

use crate::emit::Emit;
use crate::segment::Registers;
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::isa::{Bank, Op};
use dualvm_vm::native::{Pure, ScalarInst};
use std::collections::BTreeMap;

/// Sums of more registers are not followed.
const TERMS_MAX: usize = 4;

/// A sum of registers, each times a number, and a number. It is computed modulo 2⁶⁴, as it is by the machine.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Linear {
    terms: BTreeMap<u16, i64>,
    constant: i64,
}

impl Linear {
    fn register(register: u16) -> Linear {
        Linear { terms: BTreeMap::from([(register, 1)]), constant: 0 }
    }

    fn constant(constant: i64) -> Linear {
        Linear { terms: BTreeMap::new(), constant }
    }

    /// The sum with so many times another one, if it has few terms.
    fn plus(mut self, times: i64, other: &Linear) -> Option<Linear> {
        self.constant = self.constant.wrapping_add(times.wrapping_mul(other.constant));
        for (&register, &factor) in &other.terms {
            let sum = self.terms.entry(register).or_default();
            *sum = sum.wrapping_add(times.wrapping_mul(factor));
        }
        self.terms.retain(|_, factor| *factor != 0);
        (self.terms.len() <= TERMS_MAX).then_some(self)
    }

    /// How much it is above another one, if that has few terms.
    pub(crate) fn minus(&self, other: &Linear) -> Option<Linear> {
        self.clone().plus(-1, other)
    }

    /// Its value, where registers are as they are when a round begins.
    pub(crate) fn value(&self, emit: &mut Emit<'_>, registers: &Registers) -> Value {
        let mut sum = None;
        for (&register, &factor) in &self.terms {
            let term = emit.b.ins().imul_imm_s(registers.int(register), factor);
            sum = Some(sum.map_or(term, |sum| emit.b.ins().iadd(sum, term)));
        }
        match sum {
            Some(sum) => emit.plus(sum, self.constant),
            None => emit.int(self.constant),
        }
    }

    /// By how much it is above what a register holds when the round begins, if that is a number.
    pub(crate) fn above(&self, register: u16) -> Option<i64> {
        let rest = self.minus(&Linear::register(register))?;
        rest.terms.is_empty().then_some(rest.constant)
    }

    /// By how much it changes from one round to the next, if that is a number. `steps` says that of the registers that
    /// rounds change.
    pub(crate) fn change(&self, steps: &BTreeMap<u16, Option<i64>>) -> Option<i64> {
        self.terms.iter().try_fold(0i64, |sum, (register, factor)| {
            let step = steps.get(register).copied().unwrap_or(Some(0))?;
            Some(sum.wrapping_add(factor.wrapping_mul(step)))
        })
    }
}

/// The integer registers of a round, as far as it has been followed.
pub(crate) struct Linears<F> {
    /// Whether a register holds something that is known when a round begins, if no instruction has written it.
    begins: F,
    written: BTreeMap<u16, Option<Linear>>,
}

impl<F: Fn(u16) -> bool> Linears<F> {
    pub(crate) fn new(begins: F) -> Self {
        Linears { begins, written: BTreeMap::new() }
    }

    /// What a register holds now.
    pub(crate) fn of(&self, register: u16) -> Option<Linear> {
        match self.written.get(&register) {
            Some(found) => found.clone(),
            None => (self.begins)(register).then(|| Linear::register(register)),
        }
    }

    /// Goes on by an instruction. `known`: its result is the same in all rounds, and has its register for itself.
    pub(crate) fn follow(&mut self, inst: Pure, known: bool) {
        let (dst, found) = match inst {
            Pure::IConst { dst, value } => (dst.0, Some(Linear::constant(value))),
            Pure::IMov { dst, src } => (dst.0, self.of(src.0)),
            Pure::KeptObject { dst, .. } | Pure::KeptIElem { dst, .. } => (dst.0, None),
            Pure::Scalar(inst) if inst.dst.bank == Bank::Int => (inst.dst.index, self.scalar(&inst)),
            Pure::Scalar(_) | Pure::PrimalConst { .. } | Pure::PrimalMov { .. } | Pure::KeptElem { .. } => return,
        };
        let found = found.or_else(|| known.then(|| Linear::register(dst)));
        self.written.insert(dst, found);
    }

    fn scalar(&self, inst: &ScalarInst) -> Option<Linear> {
        let operand = |n: usize| match inst.args().get(n) {
            Some(reg) if reg.bank == Bank::Int => self.of(reg.index),
            _ => None,
        };
        match inst.op {
            Op::IAdd => operand(0)?.plus(1, &operand(1)?),
            Op::ISub => operand(0)?.plus(-1, &operand(1)?),
            Op::INeg => Linear::constant(0).plus(-1, &operand(0)?),
            Op::IMul => {
                let (a, b) = (operand(0)?, operand(1)?);
                match (a.terms.is_empty(), b.terms.is_empty()) {
                    (true, _) => Linear::constant(0).plus(a.constant, &b),
                    (_, true) => Linear::constant(0).plus(b.constant, &a),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dualvm_vm::native::{Inst, IntReg};

    const MANY: u16 = 100;

    /// What a register holds after some code, at whose beginning all but one of this number are known.
    fn after(code: &[Inst], unknown: u16, register: u16) -> Option<Linear> {
        let mut linears = Linears::new(|register| register != unknown);
        code.iter().for_each(|inst| linears.follow(inst.pure().unwrap(), false));
        linears.of(register)
    }

    fn iadd(dst: u16, a: u16, b: u16) -> Inst {
        Inst::IAdd { dst: IntReg(dst), a: IntReg(a), b: IntReg(b) }
    }

    fn isub(dst: u16, a: u16, b: u16) -> Inst {
        Inst::ISub { dst: IntReg(dst), a: IntReg(a), b: IntReg(b) }
    }

    fn imul(dst: u16, a: u16, b: u16) -> Inst {
        Inst::IMul { dst: IntReg(dst), a: IntReg(a), b: IntReg(b) }
    }

    fn iconst(dst: u16, value: i64) -> Inst {
        Inst::IConst { dst: IntReg(dst), value }
    }

    #[test]
    fn a_step_is_what_is_added_to_a_register_itself() {
        let code = [iconst(1, 3), isub(0, 0, 1), iadd(0, 0, 2), isub(0, 0, 2)];
        assert_eq!(after(&code, MANY, 0).unwrap().above(0), Some(-3));
        assert_eq!(after(&code[..3], MANY, 0).unwrap().above(0), None);
        assert_eq!(after(&code, 2, 0), None);
    }

    #[test]
    fn an_index_changes_by_its_registers_steps() {
        // 4 * r0 - r1 + r2
        let code = [iconst(3, 4), imul(4, 3, 0), isub(4, 4, 1), iadd(4, 4, 2)];
        let index = after(&code, MANY, 4).unwrap();
        let steps = |list: &[(u16, Option<i64>)]| index.change(&list.iter().copied().collect());
        assert_eq!(steps(&[]), Some(0));
        assert_eq!(steps(&[(0, Some(-1)), (1, Some(-3))]), Some(-1));
        assert_eq!(steps(&[(0, Some(-1)), (2, None)]), None);
        assert_eq!(after(&[imul(4, 0, 1)], MANY, 4), None);
    }

    #[test]
    fn sums_are_modulo_two_to_the_64_and_have_few_terms() {
        let code = [iconst(1, i64::MIN), iadd(2, 0, 1), iadd(2, 2, 1)];
        assert_eq!(after(&code, MANY, 2).unwrap().above(0), Some(0));
        let code: Vec<Inst> = (0..TERMS_MAX as u16 + 1).map(|n| iadd(20, if n == 0 { 0 } else { 20 }, n + 1)).collect();
        assert!(after(&code[..TERMS_MAX - 1], MANY, 20).is_some());
        assert_eq!(after(&code, MANY, 20), None);
    }
}
