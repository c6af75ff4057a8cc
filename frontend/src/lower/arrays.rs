//! Arrays: literals, comprehensions, and elements that are structs.

use super::Lowerer;
use super::assign::Target;
use super::constants::Constant;
use super::registers::Held;
use crate::core::{ArrayType, Binding, Collect, ExprId, ExprKind, Layout, Range, Var};
use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::{TypeDef, ValueType};

/// Longer literals are built piece by piece.
const PACKED_MAX: usize = 1_000;

/// The most room that `build` never refuses: while recording, elements may take twice their room, and 2⁴⁸ is refused.
/// No memory is that large, so it reaches a limit.
pub(super) const ROOM_MAX: i64 = (1 << 47) - 1;
// So many elements can be multiplied by what each of them takes.
const _: () = assert!(ROOM_MAX.checked_mul(u16::MAX as i64).is_some());

/// The instruction that reads what an array holds.
pub(super) fn load(bank: Bank) -> Op {
    match bank {
        Bank::Real => Op::Elem,
        Bank::Int => Op::IElem,
        Bank::Ref => Op::PElem,
    }
}

impl Lowerer<'_, '_> {
    /// The values of an element that takes several, or a struct. There is a target for each that is wanted.
    pub(super) fn element_parts(
        &mut self,
        expr: ExprId,
        array: ArrayType,
        [object, index]: [ExprId; 2],
        targets: &[Option<Target>],
    ) {
        let object = self.value(object);
        let index = self.value(index);
        let args = [object, index].map(|held| self.registers.reg(held));
        match array.layout {
            Layout::Row(width) => {
                let place = self.registers.allocate(ValueType::Int, &mut self.out);
                let [array_reg, index_reg] = args.map(Operand::Use);
                let operands = [Operand::Def(place), array_reg, index_reg, Operand::Int(i64::from(width))];
                self.emit(expr, Op::Row, &operands);
                let at = self.registers.allocate(ValueType::Int, &mut self.out);
                for (part, target) in (0..).zip(targets) {
                    let Some(target) = target else { continue };
                    let from = if part == 0 { place } else { at };
                    if part > 0 {
                        let part = self.constant(expr, Constant::int(part));
                        let step = self.registers.reg(part);
                        self.emit_regs(expr, Op::IAdd, at, &[place, step]);
                        self.registers.release(part);
                    }
                    self.emit_regs(expr, load(target.ty.bank()), target.reg, &[args[0], from]);
                }
                [place, at].into_iter().for_each(|reg| self.registers.free(reg, ValueType::Int));
            }
            Layout::Struct => {
                let object = self.registers.allocate(array.holds, &mut self.out);
                self.emit_regs(expr, Op::PElem, object, &args);
                for (field, target) in (0u16..).zip(targets) {
                    let Some(target) = target else { continue };
                    let op = match target.ty.bank() {
                        Bank::Real => Op::Field,
                        Bank::Int => Op::IField,
                        Bank::Ref => Op::PField,
                    };
                    self.emit(expr, op, &[Operand::Def(target.reg), Operand::Use(object), Operand::Field(field)]);
                }
                self.registers.free(object, array.holds);
            }
        }
        [object, index].into_iter().for_each(|held| self.registers.release(held));
    }

    /// Binds variables to the values of an element that has several, and reads only those that are used. Says whether
    /// the binding is such a one.
    pub(super) fn bind_element(&mut self, binding: &Binding) -> bool {
        let (array, pair) = match self.kind(binding.value) {
            ExprKind::Element(array, pair, _) if !array.is_plain() => (*array, *pair),
            _ => return false,
        };
        if !self.step(binding.value) {
            return false;
        }
        let types = self.types(binding.value);
        let wanted = |lowerer: &mut Self, (&var, &ty): (&Var, &ValueType)| {
            (!lowerer.live.is_unused(var)).then(|| lowerer.fresh_target(ty))
        };
        let targets: Vec<Option<Target>> = binding.vars.iter().zip(types).map(|pair| wanted(self, pair)).collect();
        self.element_parts(binding.value, array, pair, &targets);
        for (&var, target) in binding.vars.iter().zip(targets) {
            if let Some(target) = target {
                self.adopt(var, Held::Temp(target.reg, target.ty), binding.value);
            }
        }
        true
    }

    /// The length of an array of rows.
    pub(super) fn length_in_rows(&mut self, expr: ExprId, width: u16, array: ExprId, dst: Option<Reg>) -> Reg {
        let args = self.arguments(&[array]);
        let dst = self.destination(expr, dst);
        self.emit_regs(expr, Op::Len, dst, &args);
        let width = self.constant(expr, Constant::int(width.into()));
        let by = self.registers.reg(width);
        self.emit_regs(expr, Op::IDiv, dst, &[dst, by]);
        self.registers.release(width);
        dst
    }

    /// An element as the array holds it.
    pub(super) fn element(&mut self, array: ArrayType, expr: ExprId) -> Vec<Held> {
        if array.is_plain() {
            return vec![self.value(expr)];
        }
        let fields = self.values(expr);
        if array.layout != Layout::Struct {
            return fields;
        }
        let fields = self.consume(fields);
        let object = self.registers.allocate(array.holds, &mut self.out);
        self.emit(expr, Op::StructNew, &[Operand::Def(object), Operand::Uses(fields)]);
        vec![Held::Temp(object, array.holds)]
    }

    pub(super) fn pack(&mut self, expr: ExprId, array: ArrayType, parts: &[ExprId], dst: Option<Reg>) -> Reg {
        let len = parts.len() * usize::from(array.width());
        // An array that is built may be part of a region.
        if len == 0 || len > PACKED_MAX {
            let room = self.constant(expr, Constant::int(len as i64));
            let builder = self.build(expr, array, room);
            for &part in parts {
                self.push(array, builder, part);
            }
            return self.finish(expr, builder, dst);
        }
        let elements = parts.iter().flat_map(|&part| self.element(array, part)).collect();
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
        let room = self.cells(expr, range, room, array.width());
        let builder = self.build(expr, array, room);
        if let Some(source) = self.copied(array, collect) {
            self.copy_range((expr, collect.body), (array, builder), source, [from, to]);
            return self.finish(expr, builder, dst);
        }
        let rest = |lowerer: &mut Self, from| {
            lowerer.repeat_between(expr, (range.index, collect.body), [from, to], |lowerer| {
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
        let is_length = matches!(self.kind(to), ExprKind::Length(..));
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

    /// How much room so many elements take. More than there can be stay as many, so that the trap tells them.
    pub(super) fn cells(&mut self, place: ExprId, range: Range, count: Held, width: u16) -> Held {
        self.cells_of(place, self.may_have_no_room(range, width), count, width)
    }

    /// How much room any number of elements takes, at least 0.
    pub(super) fn many_cells(&mut self, place: ExprId, count: Held, width: u16) -> Held {
        self.cells_of(place, true, count, width)
    }

    pub(super) fn cells_of(&mut self, place: ExprId, may_be_too_many: bool, count: Held, width: u16) -> Held {
        if width == 1 {
            return count;
        }
        let elements = self.registers.reg(count);
        let by = self.constant(place, Constant::int(width.into()));
        let by_reg = self.registers.reg(by);
        let cells = self.registers.allocate(ValueType::Int, &mut self.out);
        self.emit_regs(place, Op::IMul, cells, &[elements, by_reg]);
        if may_be_too_many {
            let most = self.constant(place, Constant::int(ROOM_MAX));
            let most_reg = self.registers.reg(most);
            let beyond = self.registers.allocate(ValueType::Int, &mut self.out);
            self.emit_regs(place, Op::IMin, cells, &[cells, most_reg]);
            self.emit_regs(place, Op::ILt, beyond, &[most_reg, elements]);
            self.emit_regs(place, Op::ISelect, cells, &[beyond, elements, cells]);
            self.registers.free(beyond, ValueType::Int);
            self.registers.release(most);
        }
        [by, count].into_iter().for_each(|held| self.registers.release(held));
        Held::Temp(cells, ValueType::Int)
    }

    /// Whether a range may have more elements of a width than any array has room for. Where it ends at the length of an
    /// array with elements at least as wide, it can't.
    pub(super) fn may_have_no_room(&self, range: Range, width: u16) -> bool {
        let from_zero = matches!(self.kind(range.from), ExprKind::Int(0));
        let is_length = matches!(self.kind(range.to), ExprKind::Length(array, _) if array.width() >= width);
        width > 1 && !(from_zero && is_length)
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

    pub(super) fn build(&mut self, place: ExprId, array: ArrayType, room: Held) -> Held {
        let ty = ValueType::Ref(self.module.intern_type(TypeDef::Builder(array.holds)));
        let room = self.consume(vec![room]);
        let builder = self.registers.allocate(ty, &mut self.out);
        self.emit_regs(place, Op::Build, builder, &room);
        Held::Temp(builder, ty)
    }

    pub(super) fn push(&mut self, array: ArrayType, builder: Held, part: ExprId) {
        let element = self.element(array, part);
        let op = match array.holds.bank() {
            Bank::Real => Op::Push,
            Bank::Int => Op::IPush,
            Bank::Ref => Op::PPush,
        };
        for &value in &element {
            let operands = [Operand::Use(self.registers.reg(builder)), Operand::Use(self.registers.reg(value))];
            self.emit(part, op, &operands);
        }
        element.into_iter().for_each(|value| self.registers.release(value));
    }

    pub(super) fn finish(&mut self, expr: ExprId, builder: Held, dst: Option<Reg>) -> Reg {
        let dst = self.destination(expr, dst);
        let builder = self.consume(vec![builder]);
        self.emit_regs(expr, Op::Finish, dst, &builder);
        dst
    }
}
