//! Small branches without branching: both sides are computed and one is selected.
//!
//! The recorder cuts its segments at branches, and a loop's body is recorded at once only if it is a single segment.
//! The derivative of the side that is not selected is multiplied by zero, which is zero by the zero rule.

use super::Lowerer;
use super::assign::Target;
use crate::core::{ExprId, ExprKind};
use dualvm_vm::isa::{Bank, Op};

/// How many instructions that are not needed may be executed on each side.
const WASTED_MAX: usize = 3;
/// How many values may be selected; beyond that a branch is cheaper than the selections.
const VALUES_MAX: usize = 3;

impl Lowerer<'_> {
    /// Whether an `if` is better computed on both sides.
    pub(super) fn is_selection(&self, expr: ExprId) -> bool {
        let ExprKind::If([cond, then, other]) = self.kind(expr) else { return false };
        let count = self.types(expr).len();
        let is_plain = matches!(self.kind(*cond), ExprKind::Compare(..) | ExprKind::Var(_));
        is_plain && (1..=VALUES_MAX).contains(&count) && self.is_cheap(*then) && self.is_cheap(*other)
    }

    /// Whether an expression is a few instructions that can't trap and cost no more than a branch.
    fn is_cheap(&self, expr: ExprId) -> bool {
        let mut instructions = 0;
        let mut pending = vec![expr];
        while let Some(expr) = pending.pop() {
            match self.kind(expr) {
                ExprKind::Var(_) | ExprKind::Real(_) | ExprKind::Int(_) | ExprKind::Values(_) => {}
                ExprKind::Scalar(op, _) if is_cheap_op(*op) => instructions += 1,
                _ => return false,
            }
            if instructions > WASTED_MAX || pending.len() > 4 * VALUES_MAX {
                return false;
            }
            self.function.body.exprs[expr].for_each_child(|child| pending.push(child));
        }
        true
    }

    /// Lowers such an `if`.
    pub(super) fn select(&mut self, expr: ExprId, [cond, then, other]: [ExprId; 3], targets: &[Target]) {
        let cond = self.value(cond);
        let (yes, no) = (self.values(then), self.values(other));
        let test = self.registers.reg(cond);
        let sides = yes.iter().zip(&no).map(|(&yes, &no)| [self.registers.reg(yes), self.registers.reg(no)]);
        let sides: Vec<_> = sides.collect();
        self.write_selected(expr, test, &sides, targets);
        [cond].into_iter().chain(yes).chain(no).for_each(|held| self.registers.release(held));
    }
}

/// The instruction that selects values of a bank.
pub(super) fn select_op(bank: Bank) -> Op {
    match bank {
        Bank::Real => Op::Select,
        Bank::Int => Op::ISelect,
        Bank::Ref => Op::PSelect,
    }
}

fn is_cheap_op(op: Op) -> bool {
    use Op::{Abs, Add, IAdd, IMax, IMin, IMul, INeg, ISub, Max, Min, Mul, Neg, Select, Sign, Sub, ToReal};
    matches!(
        op,
        Abs | Add | IAdd | IMax | IMin | IMul | INeg | ISub | Max | Min | Mul | Neg | Select | Sign | Sub | ToReal
    )
}
