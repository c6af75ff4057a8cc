//! Data types and closures: choices by tag, payloads, and the operands of calls.

use super::Lowerer;
use super::constants::Constant;
use crate::core::{ExprId, Field, Switch};
use crate::hash::HashMap;
use dualvm_vm::builder::{IntReg, Label};
use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::{TypeDef, ValueType};

/// A choice by tag is a table if its type has no more tags than this and [`TABLE_PER_ARM`] for each arm.
const TABLE_MIN: usize = 16;
const TABLE_PER_ARM: usize = 8;

impl Lowerer<'_, '_> {
    /// Whether the only value of an expression is an array of several dimensions.
    pub(super) fn is_shaped(&self, expr: ExprId) -> bool {
        match self.type_of(expr) {
            ValueType::Ref(ty) => matches!(self.module.type_def(ty), TypeDef::Shaped(_)),
            _ => false,
        }
    }

    pub(super) fn payload(&mut self, place: ExprId, dst: Reg, object: Reg, field: Field) {
        if field.is_of_shape() {
            let op = if dst.bank == Bank::Int { Op::IField } else { Op::PField };
            return self.emit(place, op, &[Operand::Def(dst), Operand::Use(object), Operand::Field(field.index)]);
        }
        let op = match dst.bank {
            Bank::Real => Op::Payload,
            Bank::Int => Op::IPayload,
            Bank::Ref => Op::PPayload,
        };
        let operands = [Operand::Def(dst), Operand::Use(object), Operand::Tag(field.tag), Operand::Field(field.index)];
        self.emit(place, op, &operands);
    }

    /// The registers of a function value and of its arguments, to be read by the next instruction.
    pub(super) fn closure_operands(&mut self, callee: ExprId, args: &[ExprId]) -> (Reg, Vec<Reg>) {
        let callee = self.value(callee);
        let mut held = vec![callee];
        held.extend(args.iter().flat_map(|&arg| self.values(arg)));
        let mut regs = self.consume(held);
        (regs.remove(0), regs)
    }

    /// Lowers a choice: `lower` is called for each arm; control joins after them if it gets to their ends.
    pub(super) fn switch(&mut self, place: ExprId, switch: &Switch, joins: bool, lower: impl Fn(&mut Self, ExprId)) {
        let object = self.arguments(&[switch.object])[0];
        match (&*switch.arms, switch.default) {
            (&[(_, only)], None) | ([], Some(only)) => return lower(self, only),
            _ => {}
        }
        let tag = self.registers.allocate(ValueType::Int, &mut self.out);
        self.emit_regs(place, Op::VariantTag, tag, &[object]);
        let labels: Vec<Label> = switch.arms.iter().map(|_| self.out.new_label()).collect();
        let default = self.out.new_label();
        let end = self.out.new_label();
        let mut of_tag = HashMap::with_capacity_and_hasher(labels.len(), Default::default());
        for (&(arm, _), &label) in switch.arms.iter().zip(&labels) {
            of_tag.insert(arm, label);
        }
        let of_tag = |tag: u16| of_tag.get(&tag).copied().unwrap_or(default);
        if switch.tags == 2 {
            self.branch(place, tag, of_tag(1), of_tag(0));
        } else if usize::from(switch.tags) > TABLE_MIN + TABLE_PER_ARM * labels.len() {
            let mut tags: Vec<u16> = switch.arms.iter().map(|arm| arm.0).collect();
            tags.sort_unstable();
            self.search_tag(place, tag, &tags, &of_tag, default);
        } else {
            // The last tag without a default is what is left.
            let last = if switch.default.is_some() { default } else { of_tag(switch.tags - 1) };
            let counted = if switch.default.is_some() { switch.tags } else { switch.tags - 1 };
            let targets: Vec<Label> = (0..counted).map(of_tag).collect();
            self.switch_on(place, IntReg(tag.index), &targets, last);
        }
        self.registers.free(tag, ValueType::Int);
        let arms = switch.arms.iter().map(|arm| arm.1).zip(labels).chain(switch.default.map(|arm| (arm, default)));
        let mut arms = arms.peekable();
        while let Some((arm, label)) = arms.next() {
            let is_last = arms.peek().is_none();
            self.in_branch(label, |lowerer| {
                lower(lowerer, arm);
                if joins && !is_last {
                    lowerer.jump(end);
                }
            });
        }
        self.bind(end);
    }

    /// Goes to a tag's label by comparisons: a table for all tags would be mostly empty.
    fn search_tag(&mut self, place: ExprId, tag: Reg, tags: &[u16], of_tag: &impl Fn(u16) -> Label, default: Label) {
        let (op, compared, yes, no) = match *tags {
            [] => return self.jump(default),
            [only] => (Op::IEq, only, of_tag(only), default),
            _ => (Op::ILt, tags[tags.len() / 2], self.out.new_label(), self.out.new_label()),
        };
        let constant = self.constant(place, Constant::int(i64::from(compared)));
        let cond = self.registers.allocate(ValueType::Int, &mut self.out);
        self.emit_regs(place, op, cond, &[tag, self.registers.reg(constant)]);
        self.registers.free(cond, ValueType::Int);
        self.registers.release(constant);
        self.branch(place, cond, yes, no);
        if let Some((low, high)) = (tags.len() > 1).then(|| tags.split_at(tags.len() / 2)) {
            self.in_branch(yes, |lowerer| lowerer.search_tag(place, tag, low, of_tag, default));
            self.in_branch(no, |lowerer| lowerer.search_tag(place, tag, high, of_tag, default));
        }
    }
}
