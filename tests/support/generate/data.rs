//! Objects: structs, variants, arrays, lists, and closures that are kept in them.

use super::{TABLE, VARIANT, Writer};
use dualvm_vm::builder::IntReg;
use dualvm_vm::isa::{Op, Operand, Reg};
use dualvm_vm::module::ValueType;

impl Writer<'_> {
    /// A statement about objects; says whether control reaches its end.
    pub(super) fn objects(&mut self, depth: u32) -> bool {
        match self.dice.u32(..15) {
            0 | 1 => self.load_from_struct(),
            2 => self.load_from_variant(),
            3 | 4 if depth < 3 => return self.match_variant(depth),
            5 | 6 => self.kept_closure(),
            7 => self.load_from_array(),
            8 if depth < 3 => self.build_list(),
            9 if depth < 3 => self.walk_list(),
            10 => self.rows(),
            11..14 => self.chains(depth),
            _ => {
                let types = self.types;
                let ids =
                    [types.outer, types.variant, types.list, types.links, types.rows, types.handlers, types.holder];
                let id = self.dice.pick(&ids);
                self.make(ValueType::Ref(id));
            }
        }
        true
    }

    /// A switch on a variant's tag whose arms read the payload.
    fn match_variant(&mut self, depth: u32) -> bool {
        use ValueType::{Int, Ref};
        let types = self.types;
        let src = self.from(Ref(types.variant));
        let tag = self.to(Int);
        self.out.emit(Op::VariantTag, &[Operand::Def(tag), Operand::Use(src)]);
        self.wrote(tag);
        let labels: Vec<_> = VARIANT.iter().map(|_| self.out.new_label()).collect();
        self.note("switch on a tag");
        // The last case by way of the default.
        self.out.switch(IntReg(tag.index), &labels[..3], labels[3]);
        let guarded = self.protected.insert(src);
        let goes_on = self.arms_that(&labels, depth, |writer, arm| {
            let case = if writer.traps && writer.one_in(10) { writer.dice.usize(..3) } else { arm };
            writer.payloads(src, case);
        });
        if guarded {
            self.protected.remove(src);
        }
        goes_on
    }

    /// Reads all fields of a case of a variant.
    fn payloads(&mut self, src: Reg, case: usize) {
        for (n, &field) in VARIANT[case].fields(self.types.pair, self.types.reals).iter().enumerate() {
            let op = [Op::Payload, Op::IPayload, Op::PPayload][field.bank() as usize];
            let dst = self.to(field);
            let (tag, field) = (Operand::Tag(case as u16), Operand::Field(n as u16));
            self.out.emit(op, &[Operand::Def(dst), Operand::Use(src), tag, field]);
            self.wrote(dst);
        }
    }

    /// A closure out of a struct, a variant or an array, for others to call.
    fn kept_closure(&mut self) {
        use ValueType::{Int, Real, Ref};
        let types = self.types;
        let first = Ref(types.closures[0]);
        let dst = self.to(first);
        match self.dice.u8(..3) {
            0 => {
                let src = self.from(Ref(types.closure_box));
                self.note("closure out of a struct");
                self.out.emit(Op::PField, &[Operand::Def(dst), Operand::Use(src), Operand::Field(1)]);
            }
            1 => {
                let fields = [first, Real];
                let src = self.object(types.holder, Op::VariantNew, Some(Operand::Tag(1)), &fields);
                self.note("closure out of a variant");
                let field = [Operand::Tag(1), Operand::Field(0)];
                self.out.emit(Op::PPayload, &[&[Operand::Def(dst), Operand::Use(src)], &field[..]].concat());
            }
            _ => {
                let len = self.dice.usize(1..5);
                let src = self.object(types.handlers, Op::Pack, None, &vec![first; len]);
                let (index, len) = (self.out.new_int(), self.out.int_const(len as i64));
                let wanted = self.from(Int);
                self.out.emit_regs(Op::IRem, &[index.into(), wanted, len.into()]);
                self.out.emit_regs(Op::IMul, &[index.into(), index.into(), index.into()]);
                self.out.emit_regs(Op::IRem, &[index.into(), index.into(), len.into()]);
                self.note("closure out of an array");
                self.out.emit_regs(Op::PElem, &[dst, src, index.into()]);
            }
        }
        self.wrote(dst);
        if self.may_call {
            self.call_closure(dst, 0);
        }
    }

    /// Puts some cells in front of a list.
    fn build_list(&mut self) {
        use ValueType::{Int, Real};
        let ty = ValueType::Ref(self.types.list);
        let list = self.out.new_ref(self.types.list).into();
        let tail = self.from(ty);
        self.out.mov(list, tail);
        self.adopt(ty, list);
        self.wrote(list);
        let (index, one, cond) = (self.out.new_int(), self.out.int_const(1), self.out.new_int());
        let count = if self.one_in(20) { self.dice.i64(100..300) } else { self.dice.i64(1..8) };
        self.out.emit(Op::IConst, &[Operand::Def(index.into()), Operand::Int(0)]);
        let limit = self.out.int_const(count);
        let (head, exit) = (self.out.new_label(), self.out.new_label());
        self.note("list made in a loop");
        self.out.bind(head);
        self.scalar();
        let (x, n) = (self.from(Real), self.from(Int));
        let fields = Operand::Uses(vec![x, n, list]);
        self.out.emit(Op::VariantNew, &[Operand::Def(list), Operand::Tag(1), fields]);
        self.out.emit_regs(Op::IAdd, &[index.into(), index.into(), one.into()]);
        self.out.emit_regs(Op::ILt, &[cond.into(), index.into(), limit.into()]);
        self.out.branch(cond, head, exit);
        self.out.bind(exit);
    }

    /// Goes along a list: a loop whose end depends on data.
    pub(super) fn walk_list(&mut self) {
        use ValueType::{Int, Real, Ref};
        let ty = Ref(self.types.list);
        let list: Reg = self.out.new_ref(self.types.list).into();
        let from = self.from(ty);
        self.out.mov(list, from);
        let (tag, acc) = (self.out.new_int(), self.to(Real));
        let start = self.from(Real);
        self.out.mov(acc, start);
        self.wrote(acc);
        let [head, cell, exit] = [(); 3].map(|()| self.out.new_label());
        self.note("walk along a list");
        self.out.bind(head);
        self.out.emit(Op::VariantTag, &[Operand::Def(tag.into()), Operand::Use(list)]);
        self.out.branch(tag, cell, exit);
        self.out.bind(cell);
        let before = self.assigned.clone();
        let guarded = self.protected.insert(acc);
        let x = self.to(Real);
        let field = |dst, n| [Operand::Def(dst), Operand::Use(list), Operand::Tag(1), Operand::Field(n)];
        self.out.emit(Op::Payload, &field(x, 0));
        self.wrote(x);
        let n = self.to(Int);
        self.out.emit(Op::IPayload, &field(n, 1));
        self.wrote(n);
        self.scalar();
        let factor = self.from(Real);
        let op = self.dice.pick(&[Op::Fma, Op::Add]);
        let args = if op == Op::Fma { vec![acc, x, factor, acc] } else { vec![acc, acc, x] };
        self.out.emit_regs(op, &args);
        self.out.emit_regs(Op::Sin, &[acc, acc]);
        self.out.emit(Op::PPayload, &field(list, 2));
        self.out.jump(head);
        self.out.bind(exit);
        if guarded {
            self.protected.remove(acc);
        }
        self.assigned = before;
    }

    /// An element of an array of arrays.
    fn rows(&mut self) {
        use ValueType::{Real, Ref};
        let types = self.types;
        let row = self.object(types.reals, Op::Pack, None, &[Real, Real]);
        let rows = self.object(types.rows, Op::Pack, None, &[Ref(types.reals)]);
        let zero = self.out.int_const(0);
        let dst = self.to(Ref(types.reals));
        self.note("array of arrays");
        self.out.emit_regs(Op::PElem, &[dst, rows, zero.into()]);
        self.wrote(dst);
        // A read of the inner array that is known to be there.
        let (one, to) = (self.out.int_const(1), self.to(Real));
        let row = if dst == row { self.object(types.reals, Op::Pack, None, &[Real, Real]) } else { row };
        self.out.emit_regs(Op::Elem, &[to, row, one.into()]);
        self.wrote(to);
    }

    pub(super) fn load_from_struct(&mut self) {
        let (pair, outer) = (ValueType::Ref(self.types.pair), ValueType::Ref(self.types.outer));
        if self.one_in(4) {
            return self.load_from_table();
        }
        if self.one_in(3) {
            let src = self.from(outer);
            let dst = self.to(pair);
            self.out.emit(Op::PField, &[Operand::Def(dst), Operand::Use(src), Operand::Field(0)]);
            self.wrote(dst);
            let dst = self.to(ValueType::Real);
            self.out.emit(Op::Field, &[Operand::Def(dst), Operand::Use(src), Operand::Field(1)]);
            self.wrote(dst);
            return;
        }
        let src = self.from(pair);
        let (op, ty, field) = match self.dice.u8(..3) {
            0 => (Op::Field, ValueType::Real, 0),
            1 => (Op::IField, ValueType::Int, 1),
            _ => (Op::Field, ValueType::Real, 2),
        };
        let dst = self.to(ty);
        self.out.emit(op, &[Operand::Def(dst), Operand::Use(src), Operand::Field(field)]);
        self.wrote(dst);
    }

    /// Reads a field of a shaped struct.
    fn load_from_table(&mut self) {
        let src = self.from(ValueType::Ref(self.types.table));
        let field = self.dice.usize(..TABLE.len());
        let ty = TABLE[field].of(self.types.reals);
        let op = [Op::Field, Op::IField, Op::PField][ty.bank() as usize];
        let dst = self.to(ty);
        self.note("field of a shaped struct");
        self.out.emit(op, &[Operand::Def(dst), Operand::Use(src), Operand::Field(field as u16)]);
        self.wrote(dst);
    }

    /// Reads all fields of a variant, after a look at its tag or, seldom, without.
    pub(super) fn load_from_variant(&mut self) {
        use ValueType::{Int, Ref};
        let src = self.from(Ref(self.types.variant));
        let tag = self.dice.u16(..3);
        let end = self.out.new_label();
        let before = self.assigned.clone();
        if !(self.traps && self.one_in(10)) {
            let (found, expected) = (self.to(Int), self.out.int_const(i64::from(tag)));
            self.out.emit(Op::VariantTag, &[Operand::Def(found), Operand::Use(src)]);
            let cond = self.out.new_int();
            self.out.emit_regs(Op::IEq, &[cond.into(), found, expected.into()]);
            let same = self.out.new_label();
            self.out.branch(cond, same, end);
            self.out.bind(same);
        }
        self.note("payload");
        let guarded = self.protected.insert(src);
        self.payloads(src, usize::from(tag));
        if guarded {
            self.protected.remove(src);
        }
        self.out.bind(end);
        self.assigned = before;
    }

    pub(super) fn load_from_array(&mut self) {
        use ValueType::{Int, Real, Ref};
        let types = self.types;
        let (array, element, op) = match self.dice.u8(..5) {
            0 => (types.ints, Int, Op::IElem),
            1 => (types.pairs, Ref(types.pair), Op::PElem),
            _ => (types.reals, Real, Op::Elem),
        };
        let src = self.from(Ref(array));
        let (index, len, zero) = (self.out.new_int(), self.out.new_int(), self.out.int_const(0));
        self.out.emit(Op::Len, &[Operand::Def(len.into()), Operand::Use(src)]);
        let wanted = self.from(Int);
        let end = self.out.new_label();
        let before = self.assigned.clone();
        // Of a row some element.
        let width = if self.one_in(3) { self.dice.i64(1..4) } else { 1 };
        if width > 1 {
            let by = self.out.int_const(width);
            self.out.emit_regs(Op::IDiv, &[len.into(), len.into(), by.into()]);
        }
        if self.traps && self.one_in(10) {
            self.out.mov(index, wanted);
        } else {
            let (some, cond, mask) = (self.out.new_label(), self.out.new_int(), self.out.int_const(7));
            self.out.emit_regs(Op::ILt, &[cond.into(), zero.into(), len.into()]);
            self.out.branch(cond, some, end);
            self.out.bind(some);
            self.out.emit_regs(Op::IAnd, &[index.into(), wanted, mask.into()]);
            self.out.emit_regs(Op::IRem, &[index.into(), index.into(), len.into()]);
        }
        if width > 1 {
            self.note("row");
            let row = [Operand::Def(index.into()), Operand::Use(src), Operand::Use(index.into()), Operand::Int(width)];
            self.out.emit(Op::Row, &row);
            let part = self.out.int_const(self.dice.i64(0..width));
            self.out.emit_regs(Op::IAdd, &[index.into(), index.into(), part.into()]);
        }
        let dst = self.to(element);
        self.out.emit_regs(op, &[dst, src, index.into()]);
        self.wrote(dst);
        self.out.bind(end);
        self.assigned = before;
    }
}
