//! Statements: arithmetic, moves, branches and loops of several blocks.

use super::registers::RegSet;
use super::{Style, Writer};
use dualvm_vm::builder::{IntReg, Label};
use dualvm_vm::isa::{Bank, Op, Operand, Reg, Role};
use dualvm_vm::module::ValueType;

impl Writer<'_> {
    // Statements.

    /// Writes statements; says whether control reaches their end.
    pub(super) fn statements(&mut self, count: usize, depth: u32) -> bool {
        (0..self.granted(count)).all(|_| self.statement(depth))
    }

    /// A statement that stays in its block.
    pub(super) fn straight(&mut self) {
        match self.dice.u32(..103) {
            102.. => self.updates_in_a_line(),
            100.. => {
                let kind = self.dice.pick(&self.types.chains);
                self.push_to_any_chain(kind);
            }
            0..60 => self.scalar(),
            60..80 => self.mov(),
            80..85 => self.swap(),
            85..90 => {
                self.make(ValueType::Real);
            }
            90..95 => {
                let pair = ValueType::Ref(self.types.pair);
                let reg = self.from(pair);
                let dst = self.to(ValueType::Real);
                self.out.emit(Op::Field, &[Operand::Def(dst), Operand::Use(reg), Operand::Field(2)]);
                self.wrote(dst);
            }
            _ => {
                self.make(ValueType::Ref(self.types.reals));
            }
        }
    }

    /// Allocates 16 KB and forgets them.
    pub(super) fn waste(&mut self) {
        let capacity = self.out.int_const(2000);
        let dst = self.out.new_ref(self.builder_of(ValueType::Int));
        self.out.emit(Op::Build, &[Operand::Def(dst.into()), Operand::Use(capacity.into())]);
    }

    pub(super) fn statement(&mut self, depth: u32) -> bool {
        if self.style == Style::Wasteful && self.one_in(3) {
            self.waste();
        }
        if let Some(line) = &mut self.line {
            *line += 1;
            self.out.at(*line, self.dice.u32(1..80));
        }
        let loops = if self.style == Style::Loops { 40 } else { 3 };
        let objects = if self.style == Style::Data { 60 } else { 6 };
        let forks = if self.style == Style::Parallel { 40 } else { 0 };
        let updates = if matches!(self.style, Style::Loops | Style::Wild | Style::Data) { 14 } else { 5 };
        match self.dice.u32(..100 + loops + objects + forks + updates) {
            n if n >= 100 + loops + objects + forks => self.in_place(depth),
            n if n >= 100 + loops + objects => self.parallel(),
            100.. if depth < 3 && self.dice.u32(..loops + objects) < loops => self.self_loop(depth),
            100.. => return self.objects(depth),
            0..40 => self.scalar(),
            40..46 => self.mov(),
            46..50 => self.swap(),
            50..54 => {
                let ty = if self.one_in(3) { ValueType::Int } else { ValueType::Real };
                self.make(ty);
            }
            54..60 if depth < 3 => return self.conditional(depth),
            60..67 if depth < 2 => return self.repeat(depth),
            67..70 if depth < 3 => return self.switch(depth),
            70..78 if self.may_call => self.call(),
            78..82 => self.load_from_struct(),
            82..86 => self.load_from_variant(),
            86..91 => self.load_from_array(),
            91..93 => self.ask_for_constant(),
            93..95 => self.pselect(),
            95 => {
                let next = self.out.new_label();
                self.out.jump(next);
                self.out.bind(next);
            }
            96 if depth > 0 && self.one_in(2) => {
                self.leave();
                return false;
            }
            97 if depth > 0 && self.traps && self.one_in(4) => {
                self.out.trap(self.message);
                return false;
            }
            _ => self.scalar(),
        }
        true
    }

    /// An integer division that doesn't trap: by a number from 1 to 8.
    fn division(&mut self) {
        let [mask, one] = [7, 1].map(|n| self.out.int_const(n));
        let (a, b) = (self.from(ValueType::Int), self.from(ValueType::Int));
        let divisor = self.out.new_int();
        self.out.emit_regs(Op::IAnd, &[divisor.into(), b, mask.into()]);
        self.out.emit_regs(Op::IAdd, &[divisor.into(), divisor.into(), one.into()]);
        let op = self.dice.pick(&[Op::IDiv, Op::IRem]);
        let dst = self.to(ValueType::Int);
        self.note("division");
        self.out.emit_regs(op, &[dst, a, divisor.into()]);
        self.wrote(dst);
    }

    /// The integer part of ten times the hyperbolic tangent of a real, or 0 if that is NaN.
    pub(super) fn rounded(&mut self) -> Reg {
        let x = self.from(ValueType::Real);
        let (t, ten, zero) = (self.out.new_real(), self.out.real_const(10.0), self.out.real_const(0.0));
        self.out.emit_regs(Op::Tanh, &[t.into(), x]);
        self.out.emit_regs(Op::Mul, &[t.into(), t.into(), ten.into()]);
        let cond = self.out.new_int();
        self.out.emit_regs(Op::Eq, &[cond.into(), t.into(), t.into()]);
        self.out.emit_regs(Op::Select, &[t.into(), cond.into(), t.into(), zero.into()]);
        let dst = self.to(ValueType::Int);
        self.note("to_int");
        self.out.emit_regs(Op::ToInt, &[dst, t.into()]);
        self.wrote(dst)
    }

    pub(super) fn scalar(&mut self) {
        if self.one_in(30) {
            return self.division();
        }
        if self.one_in(60) {
            self.rounded();
            return;
        }
        const COMMON: [Op; 12] = [
            Op::Add,
            Op::Add,
            Op::Sub,
            Op::Mul,
            Op::Mul,
            Op::Mul,
            Op::Neg,
            Op::Select,
            Op::Sin,
            Op::Max,
            Op::Lt,
            Op::Fma,
        ];
        // What is detached has no derivative, so there should be little of it.
        let is_usual = |op: &Op| op.is_scalar() && *op != Op::Detach;
        let scalars: Vec<Op> = Op::ALL.iter().copied().filter(is_usual).collect();
        let mut op = if self.one_in(2) {
            COMMON[self.dice.usize(..COMMON.len())]
        } else {
            scalars[self.dice.usize(..scalars.len())]
        };
        if op == Op::Abs && self.out.position().is_multiple_of(8) {
            op = Op::Detach;
        }
        if self.traps && self.one_in(50) {
            op = self.dice.pick(&[Op::IDiv, Op::IRem, Op::ToInt]);
        } else if op.info().traps && !(self.traps && self.one_in(3)) {
            op = Op::IAdd;
        }
        if op.info().traps {
            self.note("scalar that may trap");
        }
        let roles: Vec<Role> = op.info().operands.iter().map(|operand| operand.role).collect();
        let mut args = Vec::new();
        for &role in &roles[1..] {
            match role {
                Role::Use(Bank::Int) => args.push(self.from(ValueType::Int)),
                Role::Use(_) if self.one_in(6) && args.first().is_some_and(|arg: &Reg| arg.bank == Bank::Real) => {
                    args.push(args[0]);
                }
                Role::Use(_) => args.push(self.from(ValueType::Real)),
                role => panic!("{op:?} has a scalar operand of role {role:?}"),
            }
        }
        let dst = match roles[0] {
            Role::Def(Bank::Int) => self.to(ValueType::Int),
            _ => self.to(ValueType::Real),
        };
        self.out.emit_regs(op, &[&[dst], &args[..]].concat());
        self.wrote(dst);
        let taming = if self.traps { 12 } else { 3 };
        if dst.bank == Bank::Real && self.one_in(taming) {
            let op = [Op::Sin, Op::Tanh, Op::Atan][self.dice.usize(..3)];
            let to = self.to(ValueType::Real);
            self.out.emit_regs(op, &[to, dst]);
            self.wrote(to);
        }
    }

    pub(super) fn mov(&mut self) {
        let ty =
            [ValueType::Real, ValueType::Real, ValueType::Int, ValueType::Ref(self.types.reals)][self.dice.usize(..4)];
        let src = self.from(ty);
        let dst = self.to(ty);
        self.out.mov(dst, src);
        self.wrote(dst);
    }

    /// `a, b = b, a` by way of a third register.
    pub(super) fn swap(&mut self) {
        let [a, b] = [(); 2].map(|()| {
            loop {
                let reg = self.from(ValueType::Real);
                if !self.protected.contains(reg) {
                    break reg;
                }
                let to = self.to(ValueType::Real);
                self.out.mov(to, reg);
                self.wrote(to);
            }
        });
        let third = self.to(ValueType::Real);
        self.out.mov(third, a);
        self.out.mov(a, b);
        self.out.mov(b, third);
        self.wrote(third);
    }

    pub(super) fn pselect(&mut self) {
        let id = [self.types.reals, self.types.pair, self.types.variant][self.dice.usize(..3)];
        let ty = ValueType::Ref(id);
        let (c, a, b) = (self.from(ValueType::Int), self.from(ty), self.from(ty));
        let dst = self.to(ty);
        self.out.emit_regs(Op::PSelect, &[dst, c, a, b]);
        self.wrote(dst);
    }

    /// An integer to branch on.
    pub(super) fn condition(&mut self) -> Reg {
        if self.one_in(3) {
            return self.from(ValueType::Int);
        }
        let op = [Op::Lt, Op::Le, Op::Eq, Op::Ne][self.dice.usize(..4)];
        let (a, b) = (self.from(ValueType::Real), self.from(ValueType::Real));
        let dst = self.to(ValueType::Int);
        self.out.emit_regs(op, &[dst, a, b]);
        self.wrote(dst)
    }

    pub(super) fn conditional(&mut self, depth: u32) -> bool {
        self.note("branch");
        let cond = self.condition();
        let (then, other) = (self.out.new_label(), self.out.new_label());
        self.out.branch(IntReg(cond.index), then, other);
        self.arms(&[then, other], depth)
    }

    pub(super) fn switch(&mut self, depth: u32) -> bool {
        let index = self.from(ValueType::Int);
        let arms = self.dice.usize(1..4);
        let labels: Vec<_> = (0..arms).map(|_| self.out.new_label()).collect();
        let many = self.one_in(5);
        let count = if many { self.dice.usize(10..60) } else { self.dice.usize(0..4) };
        let targets: Vec<_> = (0..count).map(|_| self.dice.pick(&labels)).collect();
        let default = self.dice.pick(&labels);
        self.note(if many { "switch with many targets" } else { "switch" });
        self.out.switch(IntReg(index.index), &targets, default);
        self.arms(&labels, depth)
    }

    /// Binds each label to statements of its own; all meet after the last.
    fn arms(&mut self, labels: &[Label], depth: u32) -> bool {
        self.arms_that(labels, depth, |_, _| {})
    }

    /// Arms that each begin with something.
    pub(super) fn arms_that(&mut self, labels: &[Label], depth: u32, mut begin: impl FnMut(&mut Self, usize)) -> bool {
        let before = self.assigned.clone();
        let end = self.out.new_label();
        let mut after: Option<RegSet> = None;
        for (n, &label) in labels.iter().enumerate() {
            self.out.bind(label);
            self.assigned = before.clone();
            begin(self, n);
            let size = self.dice.usize(0..5);
            if self.statements(size, depth + 1) {
                self.out.jump(end);
                match &mut after {
                    Some(after) => after.intersect(&self.assigned),
                    None => after = Some(self.assigned.clone()),
                }
            }
        }
        self.out.bind(end);
        match after {
            Some(after) => {
                self.assigned = after;
                true
            }
            None => {
                // A label needs an instruction to stand on.
                self.out.trap(self.message);
                false
            }
        }
    }
}
