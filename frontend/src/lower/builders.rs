//! Steps of making an array, and arrays with another element.

use super::Lowerer;
use super::assign::Target;
use super::constants::Constant;
use super::registers::Held;
use crate::core::{ArrayType, Collect, ExprId, ExprKind, Inside, Layout, Step};
use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::ValueType;

impl Lowerer<'_, '_> {
    /// A step that has one value.
    pub(super) fn building(&mut self, expr: ExprId, array: ArrayType, step: Step, parts: &[ExprId]) -> Held {
        match (step, parts) {
            (Step::Begin, &[count]) => {
                let room = self.value(count);
                let room = self.many_cells(expr, room, array.width());
                self.build(expr, array, room)
            }
            (Step::Reserve, &[builder, count]) => {
                let builder = self.value(builder);
                let count = self.value(count);
                let count = self.many_cells(expr, count, array.width());
                let operands = self.consume(vec![builder, count]);
                let ty = self.type_of(expr);
                let dst = self.registers.allocate(ty, &mut self.out);
                self.emit_regs(expr, Op::Reserve, dst, &operands);
                Held::Temp(dst, ty)
            }
            (Step::Push, &[builder, element]) => {
                let builder = self.value(builder);
                self.push(array, builder, element);
                builder
            }
            (Step::Extend, &[builder, source]) => {
                let builder = self.value(builder);
                let source = self.value(source);
                self.extend_with(expr, builder, source);
                self.registers.release(source);
                builder
            }
            (Step::Put, &[builder, index, element, ..]) => {
                let builder = self.value(builder);
                self.put(expr, array, builder, [index, element], parts.get(3).copied());
                builder
            }
            (Step::Finish, &[builder]) => {
                let builder = self.value(builder);
                Held::Temp(self.finish(expr, builder, None), self.type_of(expr))
            }
            _ => unreachable!("each step has its operands"),
        }
    }

    /// The values of an element of a builder.
    pub(super) fn get(&mut self, expr: ExprId, array: ArrayType, parts: &[ExprId], targets: &[Target]) {
        let builder = self.value(parts[0]);
        let index = self.value(parts[1]);
        let bounds = parts.get(2).map(|&bounds| self.value(bounds));
        let place = self.place(expr, array, index, bounds);
        let from = self.registers.reg(builder);
        match array.layout {
            Layout::Row(_) => {
                for (part, target) in (0..).zip(targets) {
                    self.at_part(expr, place, part, |lowerer, at| {
                        lowerer.emit_regs(expr, get_op(target.ty.bank()), target.reg, &[from, at]);
                    });
                }
            }
            Layout::Struct => {
                let object = self.registers.allocate(array.holds, &mut self.out);
                let at = self.registers.reg(place);
                self.emit_regs(expr, Op::PGet, object, &[from, at]);
                for (field, target) in (0u16..).zip(targets) {
                    let operands = [Operand::Def(target.reg), Operand::Use(object), Operand::Field(field)];
                    self.emit(expr, field_op(target.ty.bank()), &operands);
                }
                self.registers.free(object, array.holds);
            }
        }
        [place, builder].into_iter().chain(bounds).for_each(|held| self.registers.release(held));
    }

    /// Changes an element of a builder. An element of several values has its bounds checked by an array as long.
    fn put(
        &mut self,
        expr: ExprId,
        array: ArrayType,
        builder: Held,
        [index, element]: [ExprId; 2],
        bounds: Option<ExprId>,
    ) {
        let index = self.value(index);
        let values = self.element(array, element);
        let bounds = bounds.map(|bounds| self.value(bounds));
        self.put_values(expr, array, builder, (index, bounds), values);
        bounds.into_iter().for_each(|held| self.registers.release(held));
    }

    fn put_values(
        &mut self,
        expr: ExprId,
        array: ArrayType,
        builder: Held,
        (index, bounds): (Held, Option<Held>),
        values: Vec<Held>,
    ) {
        let place = self.place(expr, array, index, bounds);
        let into = self.registers.reg(builder);
        for (part, &value) in (0..).zip(&values) {
            let value = self.registers.reg(value);
            self.at_part(expr, place, part, |lowerer, at| {
                let op = match array.holds.bank() {
                    Bank::Real => Op::Put,
                    Bank::Int => Op::IPut,
                    Bank::Ref => Op::PPut,
                };
                let operands = [Operand::Use(into), Operand::Use(at), Operand::Use(value)];
                lowerer.emit(expr, op, &operands);
            });
        }
        values.into_iter().chain([place]).for_each(|held| self.registers.release(held));
    }

    /// Where an element begins in an array or a builder.
    fn place(&mut self, expr: ExprId, array: ArrayType, index: Held, bounds: Option<Held>) -> Held {
        let (Some(bounds), Layout::Row(width @ 2..)) = (bounds, array.layout) else { return index };
        let [bounds_reg, index_reg] = [bounds, index].map(|held| self.registers.reg(held));
        let place = self.registers.allocate(ValueType::Int, &mut self.out);
        let width = Operand::Int(i64::from(width));
        self.emit(expr, Op::Row, &[Operand::Def(place), Operand::Use(bounds_reg), Operand::Use(index_reg), width]);
        self.registers.release(index);
        Held::Temp(place, ValueType::Int)
    }

    /// Does something with the place of a part of an element.
    fn at_part(&mut self, expr: ExprId, place: Held, part: i64, act: impl FnOnce(&mut Self, Reg)) {
        let first = self.registers.reg(place);
        if part == 0 {
            return act(self, first);
        }
        let at = self.registers.allocate(ValueType::Int, &mut self.out);
        let part = self.constant(expr, Constant::int(part));
        let step = self.registers.reg(part);
        self.emit_regs(expr, Op::IAdd, at, &[first, step]);
        self.registers.release(part);
        act(self, at);
        self.registers.free(at, ValueType::Int);
    }

    /// Appends a whole array.
    fn extend_with(&mut self, expr: ExprId, builder: Held, source: Held) {
        let [into, from] = [builder, source].map(|held| self.registers.reg(held));
        let length = self.registers.allocate(ValueType::Int, &mut self.out);
        self.emit_regs(expr, Op::Len, length, &[from]);
        let zero = self.constant(expr, Constant::int(0));
        let operands = [into, from, self.registers.reg(zero), length].map(Operand::Use);
        self.emit(expr, Op::Extend, &operands);
        self.registers.release(zero);
        self.registers.free(length, ValueType::Int);
    }

    /// The array of which a comprehension is a part, and whether all its indices are known to be there. In loops it
    /// stays one that loads and pushes, which may be part of what they are recorded with.
    pub(super) fn copied(&self, array: ArrayType, collect: &Collect) -> Option<(ExprId, bool)> {
        let &ExprKind::Element(of, [source, index], inside) = self.kind(collect.body) else { return None };
        let is_index = matches!(self.kind(index), ExprKind::Var(var) if *var == collect.range.index);
        let is_array = matches!(self.kind(source), ExprKind::Var(_));
        let is_copied = self.flow.loop_depth == 0 && collect.first.is_none() && is_index && is_array && of == array;
        is_copied.then_some((source, inside != Inside::Unknown))
    }

    /// Appends the elements of an array from one to another, if there are any, for a comprehension with this element.
    pub(super) fn copy_range(
        &mut self,
        (expr, element): (ExprId, ExprId),
        (array, builder): (ArrayType, Held),
        (source, is_inside): (ExprId, bool),
        [from, to]: [Held; 2],
    ) {
        let source = self.value(source);
        let (some, end) = (self.out.new_label(), self.out.new_label());
        let ends = [from, to].map(|end| self.registers.reg(end));
        self.branch_less(expr, ends, some, end);
        self.in_branch(some, |lowerer| {
            if !is_inside {
                lowerer.check_range(element, (array, source), ends);
            }
            let ends = [from, to].map(|end| lowerer.many_cells(expr, end, array.width()));
            let all = [builder, source, ends[0], ends[1]].map(|held| Operand::Use(lowerer.registers.reg(held)));
            lowerer.emit(expr, Op::Extend, &all);
            ends.into_iter().for_each(|held| lowerer.registers.release(held));
        });
        self.bind(end);
        self.registers.release(source);
    }

    /// Traps as the load of the first element does that isn't in an array, of those from one to another.
    fn check_range(&mut self, element: ExprId, (array, source): (ArrayType, Held), [from, to]: [Reg; 2]) {
        let source = self.registers.reg(source);
        let [below, outside, at] = [(); 3].map(|()| self.registers.allocate(ValueType::Int, &mut self.out));
        let [zero, width] = [0, array.width().into()].map(|n| self.constant(element, Constant::int(n)));
        self.emit_regs(element, Op::Len, at, &[source]);
        if array.width() > 1 {
            self.emit_regs(element, Op::IDiv, at, &[at, self.registers.reg(width)]);
        }
        self.emit_regs(element, Op::ILt, below, &[from, self.registers.reg(zero)]);
        self.emit_regs(element, Op::ILt, outside, &[at, to]);
        self.emit_regs(element, Op::IOr, outside, &[below, outside]);
        let (fails, inside) = (self.out.new_label(), self.out.new_label());
        self.branch(element, outside, fails, inside);
        self.in_branch(fails, |lowerer| {
            lowerer.emit_regs(element, Op::IMax, at, &[from, at]);
            lowerer.emit_regs(element, Op::ISelect, at, &[below, from, at]);
            let [array_reg, index] = [source, at].map(Operand::Use);
            let width = Operand::Int(array.width().into());
            lowerer.emit(element, Op::Row, &[Operand::Def(at), array_reg, index, width]);
        });
        self.bind(inside);
        [zero, width].into_iter().for_each(|held| self.registers.release(held));
        [below, outside, at].into_iter().for_each(|reg| self.registers.free(reg, ValueType::Int));
    }

    /// A copy of an array with other elements in it, as many as the expression has in a row.
    pub(super) fn replaced(&mut self, expr: ExprId, dst: Option<Reg>) -> Reg {
        let mut changes = Vec::new();
        let (mut source, mut array) = (expr, None);
        while let &ExprKind::Replace(ty, [from, index, element]) = self.kind(source) {
            changes.push((source, [index, element]));
            (source, array) = (from, Some(ty));
        }
        let array = array.expect("the caller has looked");
        let from = self.value(source);
        let length = self.registers.allocate(ValueType::Int, &mut self.out);
        let from_reg = self.registers.reg(from);
        self.emit_regs(expr, Op::Len, length, &[from_reg]);
        let builder = self.build(expr, array, Held::Temp(length, ValueType::Int));
        self.extend_with(expr, builder, from);
        for (place, [index, element]) in changes.into_iter().rev() {
            // The array itself is there to check the bounds.
            let index = self.value(index);
            let values = self.element(array, element);
            self.put_values(place, array, builder, (index, Some(from)), values);
        }
        self.registers.release(from);
        self.finish(expr, builder, dst)
    }
}

/// The instruction that reads what a builder holds.
fn get_op(bank: Bank) -> Op {
    match bank {
        Bank::Real => Op::Get,
        Bank::Int => Op::IGet,
        Bank::Ref => Op::PGet,
    }
}

fn field_op(bank: Bank) -> Op {
    match bank {
        Bank::Real => Op::Field,
        Bank::Int => Op::IField,
        Bank::Ref => Op::PField,
    }
}
