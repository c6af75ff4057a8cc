//! What only the rare way of a slope reads is computed there.
//!
//! The slope of `tanh` or `sigmoid` is found from the result, which a record has saved; but for a few results it needs
//! the operand, too, which derived code computes from other things, mostly: `w x + b`, for two multiplications that are
//! not for this. Such code isn't written where it stands but on the way that needs it.

use crate::emit::Emit;
use crate::lenient::pure;
use crate::scalar::is_slope;
use crate::segment::value_of;
use cranelift_codegen::ir::Value;
use dualvm_vm::isa::{Bank, Reg};
use dualvm_vm::native::{Inst, Pure, Stream};
use std::collections::{BTreeMap, BTreeSet};

/// The register that an instruction rarely reads, if there is one.
fn rarely(inst: &Inst) -> Option<Reg> {
    match pure(inst) {
        Pure::Scalar(inst) if is_slope(inst.op) => Some(inst.args()[0]),
        _ => None,
    }
}

/// For each instruction of derived code with so many real registers, whether its result is a real that is read once,
/// and there rarely: by a slope, or by another instruction of that kind. As each is read once, what is written on rare
/// ways is no more than what isn't written elsewhere. The results, registers, are read after the code.
pub(crate) fn rarely_read(registers: usize, code: &[Inst], results: &[u16]) -> Vec<bool> {
    /// How a register is read further on, before it is written.
    #[derive(Clone, Copy, PartialEq)]
    enum Read {
        No,
        Rarely,
        Yes,
    }
    if !code.iter().any(|inst| rarely(inst).is_some()) {
        return vec![false; code.len()];
    }
    let mut read = vec![Read::No; registers];
    for &register in results {
        read[usize::from(register)] = Read::Yes;
    }
    let mut rare = vec![false; code.len()];
    for (inst, rare) in code.iter().zip(&mut rare).rev() {
        let result = inst.pure_result().expect("derived code touches registers only");
        if result.bank == Bank::Real {
            *rare = std::mem::replace(&mut read[usize::from(result.index)], Read::No) == Read::Rarely;
        }
        let rarely = rarely(inst);
        inst.for_each_reg(&Stream::default(), |reg, def| {
            if reg.bank == Bank::Real && !def {
                let read = &mut read[usize::from(reg.index)];
                *read = if *read == Read::No && (*rare || rarely == Some(reg)) { Read::Rarely } else { Read::Yes };
            }
        });
    }
    rare
}

/// What an instruction that isn't written yet reads.
#[derive(Clone, Copy)]
enum Operand {
    Written(Value),
    /// The result of the instruction with this number among those that aren't.
    Deferred(usize),
}

/// Instructions that aren't written where they stand, with what their operands were there.
#[derive(Clone, Default)]
pub(crate) struct Deferred {
    insts: Vec<(Inst, Vec<(Reg, Operand)>)>,
    /// Which of them a real register is the result of.
    results: BTreeMap<u16, usize>,
}

impl Deferred {
    /// Adds an instruction. `written` gives the values of registers that have one.
    pub(crate) fn push(&mut self, inst: Inst, written: impl Fn(Reg) -> Option<Value>) {
        let mut operands = Vec::new();
        inst.for_each_reg(&Stream::default(), |reg, def| {
            if !def {
                let deferred = self.result(reg).map(Operand::Deferred);
                let operand = deferred.or_else(|| written(reg).map(Operand::Written));
                operands.push((reg, operand.expect("derived code assigns before it reads")));
            }
        });
        let result = inst.pure_result().expect("derived code touches registers only");
        self.results.insert(result.index, self.insts.len());
        self.insts.push((inst, operands));
    }

    /// The number of the instruction of which a register is the result, if that isn't written yet.
    pub(crate) fn result(&self, reg: Reg) -> Option<usize> {
        if reg.bank == Bank::Real { self.results.get(&reg.index).copied() } else { None }
    }

    /// A register has a result that is written.
    pub(crate) fn forget(&mut self, reg: Reg) {
        if reg.bank == Bank::Real {
            self.results.remove(&reg.index);
        }
    }

    /// Writes an instruction, and what it needs of the others. Returns its result.
    pub(crate) fn write(&self, emit: &mut Emit<'_>, number: usize) -> Value {
        let (mut needed, mut waiting) = (BTreeSet::new(), vec![number]);
        while let Some(number) = waiting.pop() {
            if needed.insert(number) {
                waiting.extend(self.insts[number].1.iter().filter_map(|(_, operand)| match operand {
                    Operand::Deferred(number) => Some(*number),
                    Operand::Written(_) => None,
                }));
            }
        }
        // What an instruction reads comes before it.
        let mut results = BTreeMap::new();
        for number in needed {
            let (inst, operands) = &self.insts[number];
            let operand = |_: &mut Emit<'_>, reg: Reg| {
                let (_, operand) = operands.iter().find(|(operand, _)| *operand == reg).expect("it is read");
                match operand {
                    Operand::Written(value) => *value,
                    Operand::Deferred(number) => results[number],
                }
            };
            let result = value_of(emit, inst, false, operand);
            results.insert(number, result);
        }
        results[&number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dualvm_vm::native::RealReg;

    fn slope(dst: u16, a: u16, t: u16) -> Inst {
        Inst::TanhSlope { dst: RealReg(dst), a: RealReg(a), t: RealReg(t) }
    }

    fn product(dst: u16, a: u16, b: u16) -> Inst {
        Inst::Mul { dst: RealReg(dst), a: RealReg(a), b: RealReg(b) }
    }

    /// Which instructions of code with eight registers are rarely read, where the last one holds the result.
    fn rare(code: &[Inst]) -> Vec<bool> {
        rarely_read(8, code, &[7])
    }

    #[test]
    fn what_an_operand_is_computed_from_goes_with_it() {
        let code = [product(2, 0, 1), product(3, 2, 0), slope(7, 3, 1)];
        assert_eq!(rare(&code), [true, true, false]);
    }

    #[test]
    fn what_is_read_elsewhere_stays() {
        assert_eq!(rare(&[product(2, 0, 1), product(3, 2, 2), slope(7, 3, 1)]), [false, true, false]);
        assert_eq!(rare(&[product(2, 0, 1), slope(3, 2, 1), product(7, 2, 3)]), [false; 3]);
        assert_eq!(rare(&[product(2, 0, 1), slope(3, 2, 1), slope(7, 2, 3)]), [false; 3]);
        assert_eq!(rare(&[product(7, 0, 1), slope(3, 7, 1)]), [false; 2]);
        assert_eq!(rarely_read(8, &[product(2, 0, 1), slope(7, 2, 1)], &[2, 7]), [false; 2]);
        assert_eq!(rare(&[product(2, 0, 1), slope(7, 2, 2)]), [false; 2]);
    }

    #[test]
    fn a_slope_may_be_an_operand_of_another() {
        let code = [product(2, 0, 1), slope(3, 2, 1), slope(7, 3, 1)];
        assert_eq!(rare(&code), [true, true, false]);
    }

    #[test]
    fn a_register_that_is_written_again_is_another_value() {
        let code = [product(2, 0, 1), slope(7, 2, 1), product(2, 7, 1), product(7, 2, 2)];
        assert_eq!(rare(&code), [true, false, false, false]);
        // What is never read is written all the same: nothing says that it would be read rarely.
        assert_eq!(rare(&[product(2, 0, 1)]), [false]);
    }
}
