//! Derivatives of calls.

use super::Lowerer;
use super::assign::Target;
use crate::arena::Id;
use crate::core::{Derivative, ExprId, Operator};
use dualvm_vm::isa::{Op, Operand};

impl Lowerer<'_, '_> {
    /// Lowers an operator whose results go to `targets`.
    pub(super) fn derivative(&mut self, expr: ExprId, derivative: &Derivative, targets: &[Target]) {
        let parts: Vec<ExprId> = derivative.parts().collect();
        let args = self.arguments(&parts);
        let results = targets.iter().map(|target| target.reg).collect();
        let func = Operand::Func(derivative.function.index() as u32);
        let captures = Operand::Count(derivative.captures.len() as u16);
        let (args, results) = (Operand::Uses(args), Operand::Defs(results));
        match derivative.operator {
            Operator::Jvp => self.emit(expr, Op::Jvp, &[func, captures, args, results]),
            Operator::Vjp => self.emit(expr, Op::Vjp, &[func, captures, args, results]),
            Operator::Checkpoint => self.emit(expr, Op::Checkpoint, &[func, args, results]),
            Operator::Primal => self.emit(expr, Op::Primal, &[func, captures, args, results]),
            Operator::CustomVjp => self.emit(expr, Op::CustomVjp, &[func, captures, args, results]),
            Operator::CustomJvp => self.emit(expr, Op::CustomJvp, &[func, captures, args, results]),
        }
    }
}
