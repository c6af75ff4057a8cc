//! Arrays that are changed in place: builders that begin with the elements of an array, whose elements are read and
//! replaced in lines, branches and loops, with calls and forks between, that get ranges of arrays, and that grow.

use super::{Style, Writer};
use dualvm_vm::builder::IntReg;
use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::{TypeId, ValueType};

/// A builder that only the statement in writing knows. It has an element at least.
struct Thawed {
    reg: Reg,
    array: TypeId,
    element: ValueType,
    /// The number of its elements.
    count: IntReg,
}

impl Writer<'_> {
    /// A statement about such arrays.
    pub(super) fn in_place(&mut self, depth: u32) {
        match self.dice.u32(..5) {
            0 | 1 => self.updates_in_a_line(),
            2 if depth < 3 => self.updates_in_a_loop(),
            _ if depth < 3 => self.updates_along(),
            _ => self.updates_in_a_line(),
        }
    }

    /// Updates without a branch between them.
    pub(super) fn updates_in_a_line(&mut self) {
        let thawed = self.thaw();
        self.note("updates in a line");
        for _ in 0..self.dice.usize(1..7) {
            self.update(&thawed, None);
            if self.one_in(3) {
                self.between_updates();
            }
        }
        self.freeze(thawed);
    }

    /// Updates in a loop of several blocks.
    fn updates_in_a_loop(&mut self) {
        let thawed = self.thaw();
        let (index, one, cond) = (self.out.new_int(), self.out.int_const(1), self.out.new_int());
        let count = if self.one_in(12) { self.dice.i64(100..300) } else { self.dice.i64(1..8) };
        self.out.emit(Op::IConst, &[Operand::Def(index.into()), Operand::Int(0)]);
        let limit = self.out.int_const(count);
        let (head, exit) = (self.out.new_label(), self.out.new_label());
        self.note("updates in a loop");
        self.out.bind(head);
        for _ in 0..self.dice.usize(1..4) {
            self.update(&thawed, Some(index));
            if count < 4 && self.one_in(4) {
                self.between_updates();
            }
        }
        if self.one_in(3) {
            self.note("update in a branch");
            let (chosen, then, next) = (self.condition(), self.out.new_label(), self.out.new_label());
            self.out.branch(IntReg(chosen.index), then, next);
            self.out.bind(then);
            let before = self.assigned.clone();
            self.update(&thawed, Some(index));
            self.out.bind(next);
            self.assigned = before;
        }
        self.out.emit_regs(Op::IAdd, &[index.into(), index.into(), one.into()]);
        self.out.emit_regs(Op::ILt, &[cond.into(), index.into(), limit.into()]);
        self.out.branch(cond, head, exit);
        self.out.bind(exit);
        self.freeze(thawed);
    }

    /// A loop of one block along an array and the builder that began with it, or with several of them.
    fn updates_along(&mut self) {
        use ValueType::{Int, Real, Ref};
        let element = if self.one_in(4) { Int } else { Real };
        let array = if element == Int { self.types.ints } else { self.types.reals };
        let src = self.from(Ref(array));
        let guarded = self.protected.insert(src);
        let (thawed, other) = (self.thaw_all(src, array), self.one_in(3).then(|| self.thaw_all(src, array)));
        // Room for what each round pushes.
        let pushes = self.one_in(3);
        if pushes {
            self.out.emit_regs(Op::Reserve, &[thawed.reg, thawed.reg, thawed.count.into()]);
        }
        let constants = [0, 1, 2].map(|n| self.out.int_const(n));
        let [zero, one, two] = constants;
        let (index, limit, cond) = (self.out.new_int(), self.out.new_int(), self.out.new_int());
        // So many rounds as there are elements in the array, or as many less as are looked ahead.
        let ahead = self.dice.i64(0..3);
        self.out.emit(Op::Len, &[Operand::Def(limit.into()), Operand::Use(src)]);
        self.out.emit_regs(Op::ISub, &[limit.into(), limit.into(), constants[ahead as usize].into()]);
        self.out.emit(Op::IConst, &[Operand::Def(index.into()), Operand::Int(0)]);
        let (head, exit) = (self.out.new_label(), self.out.new_label());
        self.out.emit_regs(Op::ILt, &[cond.into(), zero.into(), limit.into()]);
        self.out.branch(cond, head, exit);
        let before = self.assigned.clone();
        self.out.bind(head);
        self.note("updates along an array");
        let elem = [Op::Elem, Op::IElem][element.bank() as usize];
        let get = [Op::Get, Op::IGet][element.bank() as usize];
        let put = [Op::Put, Op::IPut][element.bank() as usize];
        for _ in 0..self.dice.usize(1..6) {
            let near = self.out.new_int();
            // The builder has an element more, in front of those of the array.
            let by = [zero, one, two][self.dice.usize(..=(ahead as usize).min(2))];
            self.out.emit_regs(Op::IAdd, &[near.into(), index.into(), by.into()]);
            let at: Reg = if self.one_in(2) { near.into() } else { index.into() };
            let reg = match &other {
                Some(other) if self.one_in(3) => other.reg,
                _ => thawed.reg,
            };
            match self.dice.u8(..6) {
                0 => {
                    let dst = self.to(element);
                    self.out.emit_regs(elem, &[dst, src, at]);
                    self.wrote(dst);
                }
                1 | 2 => {
                    let dst = self.to(element);
                    self.out.emit_regs(get, &[dst, reg, at]);
                    self.wrote(dst);
                }
                3 => {
                    let value = self.from(element);
                    self.out.emit_regs(put, &[reg, at, value]);
                }
                4 => self.update(&thawed, Some(index)),
                _ => self.scalar(),
            }
        }
        if pushes {
            let value = self.from(element);
            let push = [Op::Push, Op::IPush][element.bank() as usize];
            self.note("push beside updates");
            self.out.emit_regs(push, &[thawed.reg, value]);
        }
        self.out.emit_regs(Op::IAdd, &[index.into(), index.into(), one.into()]);
        self.out.emit_regs(Op::ILt, &[cond.into(), index.into(), limit.into()]);
        self.out.branch(cond, head, exit);
        self.out.bind(exit);
        self.assigned = before;
        if guarded {
            self.protected.remove(src);
        }
        self.freeze(thawed);
        if let Some(other) = other {
            self.freeze(other);
        }
    }

    /// A builder with the elements of an array, or some of them.
    fn thaw(&mut self) -> Thawed {
        let types = self.types;
        let ids = [types.reals, types.reals, types.reals, types.ints, types.pairs, types.rows, types.handlers];
        let array = self.dice.pick(&ids);
        let src = self.from(ValueType::Ref(array));
        self.thaw_all(src, array)
    }

    fn thaw_all(&mut self, src: Reg, array: TypeId) -> Thawed {
        let element = self.element_of(array);
        let guarded = self.protected.insert(src);
        let first = self.from(element);
        let reg = self.out.new_ref(self.builder_of(element)).into();
        let (count, one) = (self.out.new_int(), self.out.int_const(1));
        self.out.emit(Op::Len, &[Operand::Def(count.into()), Operand::Use(src)]);
        self.out.emit_regs(Op::IAdd, &[count.into(), count.into(), one.into()]);
        self.out.emit(Op::Build, &[Operand::Def(reg), Operand::Use(count.into())]);
        let push = [Op::Push, Op::IPush, Op::PPush][element.bank() as usize];
        self.out.emit_regs(push, &[reg, first]);
        let thawed = Thawed { reg, array, element, count };
        let (zero, len) = (self.out.int_const(0), self.out.new_int());
        self.out.emit_regs(Op::ISub, &[len.into(), count.into(), one.into()]);
        self.note("builder with the elements of an array");
        self.out.emit_regs(Op::Extend, &[reg, src, zero.into(), len.into()]);
        if guarded {
            self.protected.remove(src);
        }
        thawed
    }

    /// An index that a builder has.
    fn index_in(&mut self, thawed: &Thawed, round: Option<IntReg>) -> Reg {
        if self.traps && self.one_in(12) {
            self.note("update that may trap");
            return self.from(ValueType::Int);
        }
        let index = self.out.new_int();
        let from = match round {
            Some(round) if self.one_in(2) => round.into(),
            _ => self.from(ValueType::Int),
        };
        let mask = self.out.int_const(0xff);
        self.out.emit_regs(Op::IAnd, &[index.into(), from, mask.into()]);
        self.out.emit_regs(Op::IRem, &[index.into(), index.into(), thawed.count.into()]);
        index.into()
    }

    /// Reads, replaces, or appends elements.
    fn update(&mut self, thawed: &Thawed, round: Option<IntReg>) {
        let Thawed { reg, element, .. } = *thawed;
        let bank = element.bank() as usize;
        let (get, put) = ([Op::Get, Op::IGet, Op::PGet][bank], [Op::Put, Op::IPut, Op::PPut][bank]);
        match self.dice.u8(..10) {
            0..3 => {
                let at = self.index_in(thawed, round);
                let dst = self.to(element);
                self.note("element of a builder");
                self.out.emit_regs(get, &[dst, reg, at]);
                self.wrote(dst);
                if element == ValueType::Ref(self.types.pair) {
                    let to = self.to(ValueType::Real);
                    self.out.emit(Op::Field, &[Operand::Def(to), Operand::Use(dst), Operand::Field(0)]);
                    self.wrote(to);
                }
            }
            3..6 => {
                let value = self.from(element);
                // Making the index may write to any register.
                let guarded = self.protected.insert(value);
                let at = self.index_in(thawed, round);
                if guarded {
                    self.protected.remove(value);
                }
                let mut name = reg;
                if self.one_in(6) {
                    name = self.out.new_ref(self.builder_of(element)).into();
                    self.out.mov(name, reg);
                    self.note("put by another name");
                }
                self.note("put");
                self.out.emit_regs(put, &[name, at, value]);
            }
            6 => {
                let [i, j] = [(); 2].map(|()| self.index_in(thawed, round));
                let [a, b] = [(); 2].map(|()| self.out.new_reg(element));
                self.note("elements change places");
                self.out.emit_regs(get, &[a, reg, i]);
                self.out.emit_regs(get, &[b, reg, j]);
                self.out.emit_regs(put, &[reg, i, b]);
                self.out.emit_regs(put, &[reg, j, a]);
            }
            7 => self.grow(thawed),
            _ => self.append_range(thawed),
        }
    }

    /// Makes room and appends an element.
    fn grow(&mut self, thawed: &Thawed) {
        let Thawed { reg, element, count, .. } = *thawed;
        let value = self.from(element);
        let more = if self.traps && self.one_in(10) { self.dice.i64(-1..2) } else { self.dice.i64(1..4) };
        let (more, one) = (self.out.int_const(more), self.out.int_const(1));
        let before: Reg = self.out.new_ref(self.builder_of(element)).into();
        let stale = self.traps && self.one_in(6);
        if stale {
            self.out.mov(before, reg);
        }
        self.note("builder that grows");
        self.out.emit_regs(Op::Reserve, &[reg, reg, more.into()]);
        let push = [Op::Push, Op::IPush, Op::PPush][element.bank() as usize];
        // By its old name it is finished, if it had no room.
        self.out.emit_regs(push, &[if stale { before } else { reg }, value]);
        self.out.emit_regs(Op::IAdd, &[count.into(), count.into(), one.into()]);
    }

    /// Makes room and appends a part of an array.
    fn append_range(&mut self, thawed: &Thawed) {
        let Thawed { reg, array, count, .. } = *thawed;
        let src = self.from(ValueType::Ref(array));
        let guarded = self.protected.insert(src);
        let [from, to, more] = [(); 3].map(|()| self.out.new_int());
        let len = self.out.new_int();
        self.out.emit(Op::Len, &[Operand::Def(len.into()), Operand::Use(src)]);
        let (skipped, wanted) = (self.out.int_const(self.dice.i64(0..3)), self.out.int_const(self.dice.i64(0..5)));
        self.out.emit_regs(Op::IMin, &[from.into(), skipped.into(), len.into()]);
        self.out.emit_regs(Op::IAdd, &[to.into(), from.into(), wanted.into()]);
        self.out.emit_regs(Op::IMin, &[to.into(), to.into(), len.into()]);
        if self.traps && self.one_in(6) {
            self.note("range that may trap");
            let (any, end) = (self.from(ValueType::Int), if self.one_in(2) { from } else { to });
            self.out.mov(end, any);
        }
        self.out.emit_regs(Op::ISub, &[more.into(), to.into(), from.into()]);
        if !(self.traps && self.one_in(6)) {
            // A range that is none traps where it is asked for.
            let zero = self.out.int_const(0);
            self.out.emit_regs(Op::IMax, &[more.into(), more.into(), zero.into()]);
            let most = self.out.int_const(0xff);
            self.out.emit_regs(Op::IMin, &[more.into(), more.into(), most.into()]);
            self.out.emit_regs(Op::Reserve, &[reg, reg, more.into()]);
        }
        self.note("range of an array");
        self.out.emit_regs(Op::Extend, &[reg, src, from.into(), to.into()]);
        self.out.emit_regs(Op::IAdd, &[count.into(), count.into(), more.into()]);
        if guarded {
            self.protected.remove(src);
        }
    }

    /// What may come between two updates: what allocates, and what runs other functions or tasks.
    fn between_updates(&mut self) {
        match self.dice.u32(..8) {
            0 if self.may_call => {
                self.note("call between updates");
                self.call();
            }
            1..4 if self.may_call && self.style == Style::Parallel => {
                self.note("tasks between updates");
                self.parallel();
            }
            4 => {
                self.make(ValueType::Ref(self.types.pair));
            }
            _ if self.style == Style::Wasteful => self.waste(),
            _ => self.scalar(),
        }
    }

    /// Finishes a builder, or forgets it, or uses it although it is finished.
    fn freeze(&mut self, thawed: Thawed) {
        let Thawed { reg, array, element, .. } = thawed;
        if self.one_in(10) {
            return self.note("builder without an end");
        }
        let dst = self.to(ValueType::Ref(array));
        self.out.emit(Op::Finish, &[Operand::Def(dst), Operand::Use(reg)]);
        self.wrote(dst);
        if self.traps && self.one_in(8) {
            self.note("builder used after its end");
            let value = self.from(element);
            let zero = self.out.int_const(0).into();
            let bank = element.bank() as usize;
            match self.dice.u8(..4) {
                0 => self.out.emit_regs(Op::Reserve, &[reg, reg, zero]),
                1 => self.out.emit_regs(Op::Extend, &[reg, dst, zero, zero]),
                2 => self.out.emit_regs([Op::Put, Op::IPut, Op::PPut][bank], &[reg, zero, value]),
                _ => {
                    let to = self.to(element);
                    self.out.emit_regs([Op::Get, Op::IGet, Op::PGet][bank], &[to, reg, zero]);
                    self.wrote(to);
                }
            }
        }
        if element.bank() == Bank::Real && self.one_in(2) {
            self.load_from_array();
        }
    }
}
