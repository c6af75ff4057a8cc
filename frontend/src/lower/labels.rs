//! Labels of the core: join points, repetitions and the jumps to them.
//!
//! A label's parameters have registers of their own from before the first jump until the code behind the label has
//! ended; a jump assigns them all at once.

use super::Lowerer;
use super::assign::Target;
use super::registers::Held;
use crate::core::{ExprId, Extend, Join, Label, Repeat};
use dualvm_vm::builder;
use dualvm_vm::isa::{Op, Operand};
use dualvm_vm::module::{TypeDef, ValueType};

impl Lowerer<'_, '_> {
    /// Goes to the parameters' registers of a label, then to the label.
    pub(super) fn jump_to(&mut self, label: Label, args: &[ExprId]) {
        let (place, targets) = self.flow.places[&label].clone();
        self.assign(args, &targets);
        self.jump(place);
    }

    pub(super) fn jump_unless_next(&mut self, end: builder::Label, is_next: bool) {
        if !is_next {
            self.jump(end);
        }
    }

    /// Lowers a join point: `lower` is called for the value and for what comes after each label, and must not let
    /// control run from one into the next.
    pub(super) fn join(&mut self, join: &Join, lower: impl Fn(&mut Self, ExprId)) {
        let mut places = Vec::with_capacity(join.bodies.len());
        for labelled in &join.bodies {
            let place = self.out.new_label();
            let params = labelled.params.iter();
            let targets: Vec<Target> = params.map(|&var| self.fresh_target(self.function.body.vars[var])).collect();
            self.flow.places.insert(labelled.label, (place, targets.clone()));
            places.push((place, targets));
        }
        lower(self, join.value);
        for (labelled, (place, targets)) in join.bodies.iter().zip(places) {
            for (&var, target) in labelled.params.iter().zip(&targets) {
                if self.live.is_unused(var) {
                    self.registers.free(target.reg, target.ty);
                } else {
                    self.registers.define(var, target.reg, false);
                }
            }
            self.in_branch(place, |lowerer| lower(lowerer, labelled.body));
        }
    }

    /// Lowers a repetition. The first values of its parameters stay where they are if nobody else needs them there.
    pub(super) fn repeat_label(&mut self, expr: ExprId, repeat: &Repeat, lower: impl FnOnce(&mut Self)) {
        if self.flow.loop_depth == 0 {
            self.hoist_constants(&[expr]);
        }
        let held: Vec<Held> = self.values(repeat.init);
        let mut targets = Vec::with_capacity(held.len());
        for (&var, held) in repeat.params.iter().zip(held) {
            let ty = self.function.body.vars[var];
            let reg = match self.registers.take(held) {
                Some(reg) => reg,
                None => {
                    let reg = self.registers.allocate(ty, &mut self.out);
                    self.emit_mov(repeat.init, reg, self.registers.reg(held));
                    self.registers.release(held);
                    reg
                }
            };
            targets.push(Target { reg, ty, owner: Some(var) });
        }
        for (&var, target) in repeat.params.iter().zip(&targets) {
            self.registers.define(var, target.reg, true);
        }
        let head = self.out.new_label();
        self.flow.places.insert(repeat.label, (head, targets.clone()));
        self.in_loop(head, lower);
        for (&var, target) in repeat.params.iter().zip(&targets) {
            self.registers.detach(var);
            self.registers.free(target.reg, target.ty);
        }
        self.end_loop(expr);
    }

    /// Lowers a repetition that appends objects to a chain as it goes along.
    pub(super) fn repeat_building(&mut self, expr: ExprId, repeat: &Repeat, target: Target) {
        let ValueType::Ref(variant) = target.ty else { unreachable!("what is built is an object") };
        let ty = ValueType::Ref(self.module.intern_type(TypeDef::Chain(variant)));
        let chain = self.registers.allocate(ty, &mut self.out);
        self.emit_regs(expr, Op::ChainNew, chain, &[]);
        self.flow.chains.insert(repeat.label, chain);
        // What is in the target now may be read until the end.
        let tail = self.fresh_target(target.ty);
        self.repeat_label(expr, repeat, |lowerer| lowerer.write(repeat.body, &[tail]));
        self.emit_regs(expr, Op::ChainFinish, target.reg, &[chain, tail.reg]);
        self.registers.free(tail.reg, tail.ty);
        self.registers.free(chain, ty);
    }

    /// Appends objects to the chain of a repetition, and goes back to it.
    pub(super) fn extend(&mut self, expr: ExprId, extend: &Extend) {
        let chain = self.flow.chains[&extend.label];
        for cell in &extend.cells {
            let fields = self.arguments(&cell.fields);
            let operands = [Operand::Def(chain), Operand::Use(chain), Operand::Tag(cell.tag), Operand::Uses(fields)];
            self.emit(expr, Op::ChainPush, &operands);
        }
        self.jump_to(extend.label, &extend.args);
    }
}
