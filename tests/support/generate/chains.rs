//! Chains: lists that are made from the front to the back, by pushes in straight lines, branches and loops, with calls
//! and forks between them; chains that are handed to other functions, that nobody finishes, or that stay empty.
//!
//! A register that others may find holds a chain that isn't finished, unless another register held the same one: then
//! a program may trap.

use super::{Style, Types, Writer};
use dualvm_vm::builder::IntReg;
use dualvm_vm::isa::{Op, Operand, Reg};
use dualvm_vm::module::{TypeId, ValueType};

/// A type of chains.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    chain: TypeId,
    /// What its objects are.
    pub(super) of: TypeId,
}

impl Kind {
    pub(super) fn new(chain: TypeId, of: TypeId) -> Self {
        Kind { chain, of }
    }

    pub(super) fn ty(self) -> ValueType {
        ValueType::Ref(self.chain)
    }
}

/// The cases of [`Types::links`] that have fields, without the last one, which is a link in each.
pub(super) fn cells_of_links(pair: TypeId, reals: TypeId, links: TypeId) -> [Vec<ValueType>; 3] {
    use ValueType::{Real, Ref};
    [vec![Ref(pair), Real], vec![], vec![Ref(reals), Ref(links)]]
}

/// What an object of a chain may be: its tag, and its fields without the last one.
fn cells(types: &Types, kind: Kind) -> Vec<(u16, Vec<ValueType>)> {
    if kind.of == types.list {
        return vec![(1, vec![ValueType::Real, ValueType::Int])];
    }
    (1..).zip(cells_of_links(types.pair, types.reals, types.links)).collect()
}

impl Writer<'_> {
    /// A statement about chains.
    pub(super) fn chains(&mut self, depth: u32) {
        let kind = self.dice.pick(&self.types.chains);
        match self.dice.u32(..10) {
            0..3 => self.chain_in_a_line(kind),
            3..6 if depth < 3 => self.chain_in_a_loop(kind),
            6 => self.push_to_any_chain(kind),
            7 => {
                let chain = self.from(kind.ty());
                if !self.protected.contains(chain) {
                    self.note("end of any chain");
                    self.finish_chain(kind, chain);
                    self.out.emit(Op::ChainNew, &[Operand::Def(chain)]);
                }
            }
            8 => {
                self.make(kind.ty());
            }
            _ => self.walk_links(),
        }
    }

    /// Appends to a chain that was made before, perhaps by its caller. Its name may be another one afterwards.
    pub(super) fn push_to_any_chain(&mut self, kind: Kind) {
        let (chain, dst) = (self.from(kind.ty()), self.to(kind.ty()));
        self.note("push to any chain");
        self.push_to_chain(kind, chain, dst);
        self.wrote(dst);
    }

    /// A new chain in a register, perhaps of some objects already.
    pub(super) fn make_chain(&mut self, kind: Kind) -> Reg {
        let dst = self.to(kind.ty());
        self.out.emit(Op::ChainNew, &[Operand::Def(dst)]);
        for _ in 0..self.dice.usize(0..3) {
            self.push_to_chain(kind, dst, dst);
        }
        self.wrote(dst)
    }

    /// Pushes in a line, with anything between them.
    fn chain_in_a_line(&mut self, kind: Kind) {
        let chain = self.own_chain(kind);
        let count = self.dice.usize(0..5);
        for _ in 0..count {
            self.between_pushes();
            if self.one_in(6) {
                // The same chain by another name, unless it is empty.
                let other = self.own_register(kind);
                self.out.mov(other, chain);
                self.note("push by another name");
                self.push_to_chain(kind, other, other);
            } else {
                self.push_to_chain(kind, chain, chain);
            }
        }
        self.note(if count == 0 { "empty chain" } else { "chain in a line" });
        self.end_of_chain(kind, chain);
    }

    /// What may come between two pushes: what allocates, and what runs other functions or tasks.
    fn between_pushes(&mut self) {
        match self.dice.u32(..8) {
            0 if self.may_call => {
                self.note("call between pushes");
                self.call();
            }
            1..4 if self.may_call && self.style == Style::Parallel => {
                self.note("tasks between pushes");
                self.parallel();
            }
            4 => {
                let types = self.types;
                let id = self.dice.pick(&[types.pair, types.list, types.links, types.reals]);
                self.make(ValueType::Ref(id));
            }
            _ if self.style == Style::Wasteful => self.waste(),
            _ => self.scalar(),
        }
    }

    /// Pushes in a loop, of which some may be left out.
    fn chain_in_a_loop(&mut self, kind: Kind) {
        let chain = self.own_chain(kind);
        let (index, one, cond) = (self.out.new_int(), self.out.int_const(1), self.out.new_int());
        let count = if self.one_in(12) { self.dice.i64(100..300) } else { self.dice.i64(1..8) };
        self.out.emit(Op::IConst, &[Operand::Def(index.into()), Operand::Int(0)]);
        let limit = self.out.int_const(count);
        let (head, exit) = (self.out.new_label(), self.out.new_label());
        self.note("chain in a loop");
        self.out.bind(head);
        for _ in 0..self.dice.usize(1..3) {
            self.scalar();
        }
        if self.style == Style::Wasteful && self.one_in(2) {
            self.waste();
        }
        if count < 4 && self.may_call && self.one_in(3) {
            self.note("call between pushes");
            self.call();
        }
        if self.one_in(3) {
            self.note("push in a branch");
            let (chosen, then, next) = (self.condition(), self.out.new_label(), self.out.new_label());
            self.out.branch(IntReg(chosen.index), then, next);
            self.out.bind(then);
            let before = self.assigned.clone();
            self.push_to_chain(kind, chain, chain);
            self.out.bind(next);
            self.assigned = before;
        }
        if self.one_in(4) {
            // Perhaps nothing was pushed.
            self.scalar();
        } else {
            self.push_to_chain(kind, chain, chain);
        }
        self.out.emit_regs(Op::IAdd, &[index.into(), index.into(), one.into()]);
        self.out.emit_regs(Op::ILt, &[cond.into(), index.into(), limit.into()]);
        self.out.branch(cond, head, exit);
        self.out.bind(exit);
        self.end_of_chain(kind, chain);
    }

    /// A register that only the statement in writing knows.
    fn own_register(&mut self, kind: Kind) -> Reg {
        self.out.new_reg(kind.ty())
    }

    /// An empty chain in such a register.
    pub(super) fn own_chain(&mut self, kind: Kind) -> Reg {
        let chain = self.own_register(kind);
        self.out.emit(Op::ChainNew, &[Operand::Def(chain)]);
        chain
    }

    /// Appends an object of some case.
    pub(super) fn push_to_chain(&mut self, kind: Kind, chain: Reg, dst: Reg) {
        let (tag, fields) = self.dice.pick(&cells(self.types, kind));
        // Making a field may write to any register, but for those that are protected.
        let guarded = self.protected.insert(chain);
        let fields = self.list(&fields);
        if guarded {
            self.protected.remove(chain);
        }
        let operands = [Operand::Def(dst), Operand::Use(chain), Operand::Tag(tag), Operand::Uses(fields)];
        self.out.emit(Op::ChainPush, &operands);
    }

    fn finish_chain(&mut self, kind: Kind, chain: Reg) {
        let guarded = self.protected.insert(chain);
        let tail = self.from(ValueType::Ref(kind.of));
        if guarded {
            self.protected.remove(chain);
        }
        let dst = self.to(ValueType::Ref(kind.of));
        self.out.emit_regs(Op::ChainFinish, &[dst, chain, tail]);
        self.wrote(dst);
    }

    /// Finishes a chain, or forgets it, or uses it although it is finished.
    pub(super) fn end_of_chain(&mut self, kind: Kind, chain: Reg) {
        if self.one_in(8) {
            return self.note("chain without an end");
        }
        self.finish_chain(kind, chain);
        if self.traps && self.one_in(4) {
            self.note("chain used after its end");
            match self.dice.bool() {
                true => self.finish_chain(kind, chain),
                false => self.push_to_chain(kind, chain, chain),
            }
        }
        if self.one_in(2) {
            match kind.of == self.types.list {
                true => self.walk_list(),
                false => self.walk_links(),
            }
        }
    }

    /// Goes along what a chain of links has become, and adds up the numbers in it.
    fn walk_links(&mut self) {
        use ValueType::{Real, Ref};
        let types = self.types;
        let link: Reg = self.out.new_ref(types.links).into();
        let from = self.from(Ref(types.links));
        self.out.mov(link, from);
        let (acc, start) = (self.to(Real), self.from(Real));
        self.out.mov(acc, start);
        self.wrote(acc);
        let [head, number, plain, numbers, exit] = [(); 5].map(|()| self.out.new_label());
        let (tag, x) = (self.out.new_int(), self.out.new_real());
        let pair = self.out.new_ref(types.pair);
        let (reals, len) = (self.out.new_ref(types.reals), self.out.new_int());
        let field = |dst: Reg, tag, n| [Operand::Def(dst), Operand::Use(link), Operand::Tag(tag), Operand::Field(n)];
        self.note("walk along links");
        self.out.bind(head);
        self.out.emit(Op::VariantTag, &[Operand::Def(tag.into()), Operand::Use(link)]);
        self.out.switch(tag, &[exit, number, plain], numbers);
        self.out.bind(number);
        self.out.emit(Op::PPayload, &field(pair.into(), 1, 0));
        self.out.emit(Op::Field, &[Operand::Def(x.into()), Operand::Use(pair.into()), Operand::Field(2)]);
        self.out.emit_regs(Op::Add, &[acc, acc, x.into()]);
        self.out.emit(Op::Payload, &field(x.into(), 1, 1));
        self.out.emit_regs(Op::Fma, &[acc, acc, x.into(), x.into()]);
        self.out.emit_regs(Op::Sin, &[acc, acc]);
        self.out.emit(Op::PPayload, &field(link, 1, 2));
        self.out.jump(head);
        self.out.bind(plain);
        self.out.emit_regs(Op::Neg, &[acc, acc]);
        self.out.emit(Op::PPayload, &field(link, 2, 0));
        self.out.jump(head);
        self.out.bind(numbers);
        self.out.emit(Op::PPayload, &field(reals.into(), 3, 0));
        self.out.emit(Op::Len, &[Operand::Def(len.into()), Operand::Use(reals.into())]);
        self.out.emit_regs(Op::ToReal, &[x.into(), len.into()]);
        self.out.emit_regs(Op::Add, &[acc, acc, x.into()]);
        let next = self.dice.u16(1..3);
        self.out.emit(Op::PPayload, &field(link, 3, next));
        self.out.jump(head);
        self.out.bind(exit);
    }
}
