//! Loops. The condition is tested once before the first iteration and then at the end of each, if it is small;
//! variables keep their registers, and the body computes their next values straight into them. Loads that don't change
//! are done between the first test and the first iteration.

use super::Lowerer;
use super::assign::Target;
use super::constants::Constant;
use super::registers::Held;
use crate::core::{Binding, ExprId, ExprKind, Function, Iteration, Loop, Range, Var};
use crate::liveness::is_copied;
use dualvm_vm::builder::Label;
use dualvm_vm::isa::{Op, Reg};
use dualvm_vm::module::ValueType;

impl<'l> Lowerer<'l, '_> {
    /// Lowers a loop whose variables end in `targets`.
    pub(super) fn repeat(&mut self, expr: ExprId, repeat: &Loop, targets: &[Target]) {
        let mut repeated: Vec<ExprId> = match repeat.iteration {
            Iteration::While(cond) => vec![cond, repeat.body],
            Iteration::Range(range) => vec![range.from, range.to, repeat.body],
        };
        repeated.extend(self.entry_bindings(repeat.body).iter().map(|binding| binding.value));
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
            Iteration::While(cond) => self.repeat_while(cond, repeat.body, &next),
            Iteration::Range(range) => self.repeat_range(expr, range, repeat.body, &next),
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

    fn repeat_while(&mut self, cond: ExprId, body: ExprId, targets: &[Target]) {
        let (head, exit) = (self.out.new_label(), self.out.new_label());
        if is_copied(&self.function.body, cond) {
            let mark = self.enter(body, head, |lowerer, inside| lowerer.branch_on(cond, inside, exit));
            self.in_loop(head, |lowerer| {
                lowerer.write(body, targets);
                lowerer.branch_on(cond, head, exit);
            });
            self.constants.back_to(mark);
        } else {
            let inside = self.out.new_label();
            self.in_loop(head, |lowerer| {
                lowerer.branch_on(cond, inside, exit);
                lowerer.bind(inside);
                lowerer.write(body, targets);
                lowerer.jump(head);
            });
        }
        self.bind(exit);
    }

    /// Leads into a loop by a branch, which `branch` writes for the label to go on at, and does what is only done
    /// there. Gives the mark to go back to where the loop is left.
    fn enter(&mut self, body: ExprId, head: Label, branch: impl FnOnce(&mut Self, Label)) -> usize {
        let entry = self.entry_bindings(body);
        let inside = if entry.is_empty() { head } else { self.out.new_label() };
        branch(self, inside);
        let mark = self.constants.mark();
        if !entry.is_empty() {
            self.bind(inside);
            self.bindings(entry);
        }
        mark
    }

    /// The first bindings of a loop's body, which are computed where it is entered.
    fn entry_bindings(&self, body: ExprId) -> &'l [Binding] {
        let function: &'l Function = self.function;
        match &function.body.exprs[body].kind {
            ExprKind::Block(bindings, _) => &bindings[..self.live.entry_count(body)],
            _ => &[],
        }
    }

    fn repeat_range(&mut self, place: ExprId, range: Range, body: ExprId, targets: &[Target]) {
        let index = self.fresh_target(ValueType::Int);
        self.write(range.from, &[index]);
        let to = self.value(range.to);
        let write = |lowerer: &mut Self| lowerer.write(body, targets);
        self.repeat_from(place, (range.index, body), index.reg, to, write);
    }

    /// Computes a loop's body, which `lower` does, for each index between two values.
    pub(super) fn repeat_between(
        &mut self,
        place: ExprId,
        (var, body): (Var, ExprId),
        [from, to]: [Held; 2],
        lower: impl FnOnce(&mut Self),
    ) {
        let index = self.registers.allocate(ValueType::Int, &mut self.out);
        self.emit_mov(place, index, self.registers.reg(from));
        self.registers.release(from);
        self.repeat_from(place, (var, body), index, to, lower);
    }

    fn repeat_from(
        &mut self,
        place: ExprId,
        (var, body): (Var, ExprId),
        index: Reg,
        to: Held,
        lower: impl FnOnce(&mut Self),
    ) {
        let bound = self.registers.reg(to);
        let one = self.constant(place, Constant::int(1));
        let step = self.registers.reg(one);
        let (head, exit) = (self.out.new_label(), self.out.new_label());
        let mark = self.enter(body, head, |lowerer, inside| lowerer.branch_less(place, [index, bound], inside, exit));
        self.registers.define(var, index, true);
        self.in_loop(head, |lowerer| {
            lower(lowerer);
            lowerer.emit_regs(place, Op::IAdd, index, &[index, step]);
            lowerer.branch_less(place, [index, bound], head, exit);
        });
        self.constants.back_to(mark);
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
