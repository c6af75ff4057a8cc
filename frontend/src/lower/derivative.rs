//! Derivatives of calls.

use super::Lowerer;
use super::assign::Target;
use crate::arena::Id;
use crate::core::{Derivative, ExprId, Operator};
use dualvm_vm::isa::{Op, Operand};

impl Lowerer<'_> {
    /// Lowers an operator whose results go to `targets`.
    pub(super) fn derivative(&mut self, expr: ExprId, derivative: &Derivative, targets: &[Target]) {
        let parts: Vec<ExprId> = derivative.parts().collect();
        let args = self.arguments(&parts);
        let results = targets.iter().map(|target| target.reg).collect();
        let op = match derivative.operator {
            Operator::Jvp => Op::Jvp,
            Operator::Vjp => Op::Vjp,
        };
        let func = Operand::Func(derivative.function.index() as u32);
        let captures = Operand::Count(derivative.captures.len() as u16);
        self.emit(expr, op, &[func, captures, Operand::Uses(args), Operand::Defs(results)]);
    }
}
