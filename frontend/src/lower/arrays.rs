//! Arrays: literals, comprehensions, and elements that are structs.

use super::Lowerer;
use super::assign::Target;
use super::constants::Constant;
use super::registers::Held;
use crate::core::{ArrayType, Collect, ExprId, ExprKind};
use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::{TypeDef, ValueType};

/// Longer literals are built piece by piece.
const PACKED_MAX: usize = 1_000;

impl Lowerer<'_> {
    /// The values of an element that is kept in a struct.
    pub(super) fn element_fields(&mut self, expr: ExprId, array: ArrayType, pair: [ExprId; 2], targets: &[Target]) {
        let args = self.arguments(&pair);
        let object = self.registers.allocate(array.element, &mut self.out);
        self.emit_regs(expr, Op::PElem, object, &args);
        for (field, target) in (0u16..).zip(targets) {
            let op = match target.ty.bank() {
                Bank::Real => Op::Field,
                Bank::Int => Op::IField,
                Bank::Ref => Op::PField,
            };
            self.emit(expr, op, &[Operand::Def(target.reg), Operand::Use(object), Operand::Field(field)]);
        }
        self.registers.free(object, array.element);
    }

    /// An element as the array holds it.
    fn element(&mut self, array: ArrayType, expr: ExprId) -> Held {
        if array.boxed.is_none() {
            return self.value(expr);
        }
        let fields = self.values(expr);
        let fields = self.consume(fields);
        let object = self.registers.allocate(array.element, &mut self.out);
        self.emit(expr, Op::StructNew, &[Operand::Def(object), Operand::Uses(fields)]);
        Held::Temp(object, array.element)
    }

    pub(super) fn pack(&mut self, expr: ExprId, array: ArrayType, parts: &[ExprId], dst: Option<Reg>) -> Reg {
        if parts.len() > PACKED_MAX {
            let room = self.constant(expr, Constant::int(parts.len() as i64));
            let builder = self.build(expr, array, room);
            for &part in parts {
                self.push(array, builder, part);
            }
            return self.finish(expr, builder, dst);
        }
        let elements = parts.iter().map(|&part| self.element(array, part)).collect();
        let elements = self.consume(elements);
        let dst = self.destination(expr, dst);
        self.emit(expr, Op::Pack, &[Operand::Def(dst), Operand::Uses(elements)]);
        dst
    }

    pub(super) fn collect(&mut self, expr: ExprId, array: ArrayType, collect: &Collect, dst: Option<Reg>) -> Reg {
        if self.flow.loop_depth == 0 {
            self.hoist_constants(&[expr]);
        }
        let range = collect.range;
        let from = self.value(range.from);
        let to = self.value(range.to);
        let room = self.room(expr, range.from, range.to, [from, to]);
        let builder = self.build(expr, array, room);
        let rest = |lowerer: &mut Self, from| {
            lowerer.repeat_between(expr, range.index, [from, to], |lowerer| {
                lowerer.push(array, builder, collect.body);
            });
            lowerer.end_loop(expr);
        };
        match collect.first {
            None => rest(self, from),
            Some(first) => {
                let (any, none) = (self.out.new_label(), self.out.new_label());
                let ends = [from, to].map(|end| self.registers.reg(end));
                self.branch_less(expr, ends, any, none);
                self.in_branch(any, |lowerer| {
                    lowerer.push(array, builder, first);
                    let second = lowerer.next_index(range.from, from);
                    rest(lowerer, second);
                });
                self.bind(none);
            }
        }
        self.finish(expr, builder, dst)
    }

    /// How many elements a range has, at least 0.
    fn room(&mut self, place: ExprId, from: ExprId, to: ExprId, ends: [Held; 2]) -> Held {
        let [first, last] = ends.map(|end| self.registers.reg(end));
        let from_zero = matches!(self.kind(from), ExprKind::Int(0));
        let is_length = matches!(self.kind(to), ExprKind::Length(_));
        let room = self.registers.allocate(ValueType::Int, &mut self.out);
        if !from_zero {
            self.emit_regs(place, Op::ISub, room, &[last, first]);
        }
        let count = if from_zero { last } else { room };
        if from_zero && is_length {
            self.registers.free(room, ValueType::Int);
            return Held::Constant(last);
        }
        let zero = self.constant(place, Constant::int(0));
        let args = [count, self.registers.reg(zero)];
        self.registers.release(zero);
        self.emit_regs(place, Op::IMax, room, &args);
        Held::Temp(room, ValueType::Int)
    }

    /// The index after one that isn't the greatest integer.
    fn next_index(&mut self, index: ExprId, held: Held) -> Held {
        if let &ExprKind::Int(index_value) = self.kind(index) {
            return self.constant(index, Constant::int(index_value + 1));
        }
        let one = self.constant(index, Constant::int(1));
        let args = [held, one].map(|operand| self.registers.reg(operand));
        let next = self.registers.allocate(ValueType::Int, &mut self.out);
        self.emit_regs(index, Op::IAdd, next, &args);
        self.registers.release(one);
        self.registers.release(held);
        Held::Temp(next, ValueType::Int)
    }

    fn build(&mut self, place: ExprId, array: ArrayType, room: Held) -> Held {
        let ty = ValueType::Ref(self.module.intern_type(TypeDef::Builder(array.element)));
        let room = self.consume(vec![room]);
        let builder = self.registers.allocate(ty, &mut self.out);
        self.emit_regs(place, Op::Build, builder, &room);
        Held::Temp(builder, ty)
    }

    fn push(&mut self, array: ArrayType, builder: Held, part: ExprId) {
        let element = self.element(array, part);
        let op = match array.element.bank() {
            Bank::Real => Op::Push,
            Bank::Int => Op::IPush,
            Bank::Ref => Op::PPush,
        };
        let operands = [Operand::Use(self.registers.reg(builder)), Operand::Use(self.registers.reg(element))];
        self.emit(part, op, &operands);
        self.registers.release(element);
    }

    fn finish(&mut self, expr: ExprId, builder: Held, dst: Option<Reg>) -> Reg {
        let dst = self.destination(expr, dst);
        let builder = self.consume(vec![builder]);
        self.emit_regs(expr, Op::Finish, dst, &builder);
        dst
    }
}
