//! Conditions as control flow, branches, and what is in tail position.

use super::Lowerer;
use super::assign::Target;
use super::constants::Constant;
use crate::arena::Id;
use crate::core::{self, ExprId, ExprKind};
use crate::hash::{HashMap, HashSet};
use dualvm_vm::builder::{IntReg, Label};
use dualvm_vm::isa::{Op, Operand, Reg};

/// What is known of control flow at the next instruction.
#[derive(Debug)]
pub(super) struct Flow {
    /// Whether control can get here.
    pub(super) reachable: bool,
    /// How many loops are around.
    pub(super) loop_depth: u32,
    jumped_to: HashSet<Label>,
    /// Where the labels of the core are.
    pub(super) places: HashMap<core::Label, (Label, Vec<Target>)>,
    /// The chains of the repetitions that build.
    pub(super) chains: HashMap<core::Label, Reg>,
}

impl Default for Flow {
    fn default() -> Self {
        let (places, chains) = (HashMap::default(), HashMap::default());
        Flow { reachable: true, loop_depth: 0, jumped_to: HashSet::default(), places, chains }
    }
}

impl Lowerer<'_, '_> {
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
            self.out.branch(IntReg(cond.index), then, other);
            self.flow.reachable = false;
        }
    }

    pub(super) fn switch_on(&mut self, place: ExprId, index: IntReg, targets: &[Label], default: Label) {
        if self.flow.reachable {
            self.flow.jumped_to.extend(targets.iter().copied().chain([default]));
            self.set_place(place);
            self.out.switch(index, targets, default);
            self.flow.reachable = false;
        }
    }

    /// Evaluates a condition and continues at one label or the other.
    pub(super) fn branch_on(&mut self, cond: ExprId, then: Label, other: Label) {
        if self.step(cond) {
            crate::stack::grown(|| self.branch_on_here(cond, then, other));
        }
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
    pub(super) fn in_branch(&mut self, label: Label, lower: impl FnOnce(&mut Self)) {
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
        if self.step(expr) {
            crate::stack::grown(|| self.tail_here(expr));
        }
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
            ExprKind::Call(callee, args) => {
                let args = self.arguments(args);
                let func = Operand::Func(callee.index() as u32);
                self.emit(expr, Op::TailCall, &[func, Operand::Uses(args)]);
            }
            ExprKind::CallClosure(callee, args) => {
                let (callee, args) = self.closure_operands(*callee, args);
                self.emit(expr, Op::TailCallClosure, &[Operand::Use(callee), Operand::Uses(args)]);
            }
            ExprKind::Switch(switch) => self.switch(expr, switch, false, |lowerer, arm| lowerer.tail(arm)),
            ExprKind::Join(join) => self.join(join, |lowerer, part| lowerer.tail(part)),
            ExprKind::Repeat(repeat) if !repeat.builds => {
                self.repeat_label(expr, repeat, |lowerer| lowerer.tail(repeat.body));
            }
            ExprKind::Jump(label, args) => self.jump_to(*label, args),
            ExprKind::Trap(_) => self.write(expr, &[]),
            _ => {
                let held = self.values(expr);
                let results = self.consume(held);
                self.emit(expr, Op::Ret, &[Operand::Uses(results)]);
            }
        }
    }
}
