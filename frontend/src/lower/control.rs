//! Conditions as control flow, branches, and what is in tail position.

use super::Lowerer;
use super::assign::Target;
use super::constants::Constant;
use crate::arena::Id;
use crate::core::{ExprId, ExprKind};
use dualvm_vm::builder::Label;
use dualvm_vm::isa::{Op, Operand, Reg};
use std::collections::HashSet;

/// What is known of control flow at the next instruction.
#[derive(Debug)]
pub(super) struct Flow {
    /// Whether control can get here.
    pub(super) reachable: bool,
    /// How many loops are around.
    pub(super) loop_depth: u32,
    /// Where a self tail call continues.
    pub(super) self_loop: Option<Label>,
    jumped_to: HashSet<Label>,
}

impl Default for Flow {
    fn default() -> Self {
        Flow { reachable: true, loop_depth: 0, self_loop: None, jumped_to: HashSet::new() }
    }
}

impl Lowerer<'_> {
    pub(super) fn bind(&mut self, label: Label) {
        self.out.bind(label);
        self.flow.reachable |= self.flow.jumped_to.contains(&label);
    }

    pub(super) fn jump(&mut self, target: Label) {
        if self.flow.reachable {
            self.flow.jumped_to.insert(target);
            self.out.jump(target);
            self.flow.reachable = false;
        }
    }

    pub(super) fn branch(&mut self, place: ExprId, cond: Reg, then: Label, other: Label) {
        if self.flow.reachable {
            self.flow.jumped_to.extend([then, other]);
            self.set_place(place);
            self.out.branch(dualvm_vm::builder::IntReg(cond.index), then, other);
            self.flow.reachable = false;
        }
    }

    /// Evaluates a condition and continues at one label or the other.
    pub(super) fn branch_on(&mut self, cond: ExprId, then: Label, other: Label) {
        crate::stack::grown(|| self.branch_on_here(cond, then, other));
    }

    fn branch_on_here(&mut self, cond: ExprId, then: Label, other: Label) {
        match self.kind(cond) {
            ExprKind::Int(value) => self.jump(if *value != 0 { then } else { other }),
            ExprKind::Not(operand) => self.branch_on(*operand, other, then),
            ExprKind::And([first, second]) => {
                let both = self.out.new_label();
                self.branch_on(*first, both, other);
                self.in_branch(both, |lowerer| lowerer.branch_on(*second, then, other));
            }
            ExprKind::Or([first, second]) => {
                let neither = self.out.new_label();
                self.branch_on(*first, then, neither);
                self.in_branch(neither, |lowerer| lowerer.branch_on(*second, then, other));
            }
            ExprKind::If([inner, yes, no]) => {
                let (if_yes, if_no) = (self.out.new_label(), self.out.new_label());
                self.branch_on(*inner, if_yes, if_no);
                self.in_branch(if_yes, |lowerer| lowerer.branch_on(*yes, then, other));
                self.in_branch(if_no, |lowerer| lowerer.branch_on(*no, then, other));
            }
            ExprKind::Block(bindings, value) => {
                self.bindings(bindings);
                self.branch_on(*value, then, other);
            }
            _ => {
                let held = self.value(cond);
                let reg = self.registers.reg(held);
                self.registers.release(held);
                self.branch(cond, reg, then, other);
            }
        }
    }

    /// Lowers code that only runs when control comes by a label.
    fn in_branch(&mut self, label: Label, lower: impl FnOnce(&mut Self)) {
        let mark = self.constants.mark();
        self.bind(label);
        lower(self);
        self.constants.back_to(mark);
    }

    /// `if`: `lower` is called for each branch, and control joins after them.
    pub(super) fn conditional(&mut self, [cond, then, other]: [ExprId; 3], lower: impl Fn(&mut Self, ExprId)) {
        let (if_true, if_false, end) = (self.out.new_label(), self.out.new_label(), self.out.new_label());
        self.branch_on(cond, if_true, if_false);
        self.in_branch(if_true, |lowerer| {
            lower(lowerer, then);
            lowerer.jump(end);
        });
        self.in_branch(if_false, |lowerer| lower(lowerer, other));
        self.bind(end);
    }

    /// A logical expression as a number.
    pub(super) fn truth(&mut self, expr: ExprId, dst: Reg) {
        if let ExprKind::Not(operand) = self.kind(expr) {
            let held = self.value(*operand);
            let one = self.constant(expr, Constant::int(1));
            let args = self.consume(vec![held, one]);
            return self.emit_regs(expr, Op::IXor, dst, &args);
        }
        let (if_true, if_false, end) = (self.out.new_label(), self.out.new_label(), self.out.new_label());
        self.branch_on(expr, if_true, if_false);
        self.bind(if_true);
        self.load_constant(expr, dst, Constant::int(1));
        self.jump(end);
        self.bind(if_false);
        self.load_constant(expr, dst, Constant::int(0));
        self.bind(end);
    }

    /// Lowers an expression whose values are the function's results.
    pub(super) fn tail(&mut self, expr: ExprId) {
        crate::stack::grown(|| self.tail_here(expr));
    }

    fn tail_here(&mut self, expr: ExprId) {
        match self.kind(expr) {
            ExprKind::Values(parts) if parts.len() == 1 => self.tail(parts[0]),
            ExprKind::Block(bindings, value) => {
                self.bindings(bindings);
                self.tail(*value);
            }
            ExprKind::If([cond, then, other]) => {
                let (if_true, if_false) = (self.out.new_label(), self.out.new_label());
                self.branch_on(*cond, if_true, if_false);
                self.in_branch(if_true, |lowerer| lowerer.tail(*then));
                self.in_branch(if_false, |lowerer| lowerer.tail(*other));
            }
            ExprKind::Call(callee, args) => match self.flow.self_loop {
                Some(head) if *callee == self.function.id => {
                    let params = self.function.params.iter().enumerate();
                    let targets: Vec<Target> = params
                        .map(|(i, &var)| {
                            let ty = self.function.body.vars[var];
                            Target { reg: self.out.param(i), ty, owner: Some(var) }
                        })
                        .collect();
                    self.assign(args, &targets);
                    self.jump(head);
                }
                _ => {
                    let args = self.arguments(args);
                    let func = Operand::Func(callee.index() as u32);
                    self.emit(expr, Op::TailCall, &[func, Operand::Uses(args)]);
                }
            },
            _ => {
                let held = self.values(expr);
                let results = self.consume(held);
                self.emit(expr, Op::Ret, &[Operand::Uses(results)]);
            }
        }
    }

    /// Whether a call in tail position is a call of the function itself.
    pub(super) fn has_self_tail_call(&self, root: ExprId) -> bool {
        let mut pending = vec![root];
        while let Some(expr) = pending.pop() {
            match self.kind(expr) {
                ExprKind::Call(callee, _) if *callee == self.function.id => return true,
                ExprKind::Values(parts) if parts.len() == 1 => pending.push(parts[0]),
                ExprKind::Block(_, value) => pending.push(*value),
                ExprKind::If([_, then, other]) => pending.extend([*then, *other]),
                _ => {}
            }
        }
        false
    }
}
