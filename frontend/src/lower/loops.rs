//! Loops. The condition is tested once before the first iteration and then at the end of each; variables keep their
//! registers, and the body computes their next values straight into them.

use super::Lowerer;
use super::assign::Target;
use super::constants::Constant;
use super::registers::Held;
use crate::core::{ExprId, ExprKind, Iteration, Loop, Range, Var};
use dualvm_vm::builder::Label;
use dualvm_vm::isa::{Op, Reg};
use dualvm_vm::module::ValueType;

/// A condition of more nodes than this is not written twice.
const COPIED_CONDITION_MAX: usize = 64;

impl Lowerer<'_, '_> {
    /// Lowers a loop whose variables end in `targets`.
    pub(super) fn repeat(&mut self, expr: ExprId, repeat: &Loop, targets: &[Target]) {
        let repeated: Vec<ExprId> = match repeat.iteration {
            Iteration::While(cond) => vec![cond, repeat.body],
            Iteration::Range(range) => vec![range.from, range.to, repeat.body],
        };
        if self.flow.loop_depth == 0 {
            self.hoist_constants(&[expr]);
        }
        // The variables live where their last values are wanted, unless what is there now is read meanwhile.
        let homes: Vec<Target> = targets
            .iter()
            .map(|&target| {
                let is_read = |owner| repeated.iter().any(|&part| self.live.is_used_in(owner, part));
                if target.owner.is_some_and(is_read) { self.fresh_target(target.ty) } else { target }
            })
            .collect();
        self.write(repeat.init, &homes);
        let mut next = homes.clone();
        for (&var, home) in repeat.vars.iter().zip(&mut next) {
            self.registers.define(var, home.reg, true);
            home.owner = Some(var);
        }
        match repeat.iteration {
            Iteration::While(cond) => self.repeat_while(cond, |lowerer| lowerer.write(repeat.body, &next)),
            Iteration::Range(range) => self.repeat_range(expr, range, |lowerer| lowerer.write(repeat.body, &next)),
        }
        repeat.vars.iter().for_each(|&var| self.registers.detach(var));
        self.end_loop(expr);
        for (home, target) in homes.iter().zip(targets) {
            if home.reg != target.reg {
                self.emit_mov(expr, target.reg, home.reg);
                self.registers.free(home.reg, home.ty);
            }
        }
    }

    fn repeat_while(&mut self, cond: ExprId, body: impl FnOnce(&mut Self)) {
        let (head, exit) = (self.out.new_label(), self.out.new_label());
        if self.can_be_copied(cond) {
            self.branch_on(cond, head, exit);
            self.in_loop(head, |lowerer| {
                body(lowerer);
                lowerer.branch_on(cond, head, exit);
            });
        } else {
            let inside = self.out.new_label();
            self.in_loop(head, |lowerer| {
                lowerer.branch_on(cond, inside, exit);
                lowerer.bind(inside);
                body(lowerer);
                lowerer.jump(head);
            });
        }
        self.bind(exit);
    }

    /// Whether a condition is small and free of loops, whose copies could multiply.
    fn can_be_copied(&self, cond: ExprId) -> bool {
        let mut pending = vec![cond];
        let mut seen = 0;
        while let Some(expr) = pending.pop() {
            seen += 1;
            let repeats = matches!(self.kind(expr), ExprKind::Loop(_) | ExprKind::Collect(..) | ExprKind::Repeat(_));
            if seen > COPIED_CONDITION_MAX || repeats {
                return false;
            }
            self.function.body.exprs[expr].for_each_child(|child| pending.push(child));
        }
        true
    }

    fn repeat_range(&mut self, place: ExprId, range: Range, body: impl FnOnce(&mut Self)) {
        let index = self.fresh_target(ValueType::Int);
        self.write(range.from, &[index]);
        let to = self.value(range.to);
        self.repeat_from(place, range.index, index.reg, to, body);
    }

    /// Runs `body` for each index between two values.
    pub(super) fn repeat_between(
        &mut self,
        place: ExprId,
        var: Var,
        [from, to]: [Held; 2],
        body: impl FnOnce(&mut Self),
    ) {
        let index = self.registers.allocate(ValueType::Int, &mut self.out);
        self.emit_mov(place, index, self.registers.reg(from));
        self.registers.release(from);
        self.repeat_from(place, var, index, to, body);
    }

    fn repeat_from(&mut self, place: ExprId, var: Var, index: Reg, to: Held, body: impl FnOnce(&mut Self)) {
        let bound = self.registers.reg(to);
        let one = self.constant(place, Constant::int(1));
        let step = self.registers.reg(one);
        let (head, exit) = (self.out.new_label(), self.out.new_label());
        self.branch_less(place, [index, bound], head, exit);
        self.registers.define(var, index, true);
        self.in_loop(head, |lowerer| {
            body(lowerer);
            lowerer.emit_regs(place, Op::IAdd, index, &[index, step]);
            lowerer.branch_less(place, [index, bound], head, exit);
        });
        self.bind(exit);
        self.registers.detach(var);
        self.registers.free(index, ValueType::Int);
        self.registers.release(one);
        self.registers.release(to);
    }

    /// Continues at one label if the first integer is less than the second one, or else at the other.
    pub(super) fn branch_less(&mut self, place: ExprId, operands: [Reg; 2], less: Label, other: Label) {
        let cond = self.registers.allocate(ValueType::Int, &mut self.out);
        self.emit_regs(place, Op::ILt, cond, &operands);
        self.branch(place, cond, less, other);
        self.registers.free(cond, ValueType::Int);
    }

    pub(super) fn in_loop(&mut self, head: Label, lower: impl FnOnce(&mut Self)) {
        let mark = self.constants.mark();
        self.bind(head);
        self.flow.loop_depth += 1;
        lower(self);
        self.flow.loop_depth -= 1;
        self.constants.back_to(mark);
    }

    /// Frees the variables that no iteration reads any more.
    pub(super) fn end_loop(&mut self, expr: ExprId) {
        let dying = self.live.dying_in(expr).to_vec();
        dying.into_iter().for_each(|var| self.registers.end(var));
    }
}
