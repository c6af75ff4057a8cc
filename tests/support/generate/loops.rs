//! Loops: of several blocks, and of one block as the frontend makes them.

use super::chains::Kind;
use super::{Style, Writer};
use dualvm_vm::builder::IntReg;
use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::ValueType;

/// What ends a loop.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// A constant number of rounds.
    Constant(i64),
    /// A number that the program computes.
    Computed,
    /// The length of the first of the loop's arrays, less this.
    Length(i64),
    /// Half of its length.
    Half,
    /// A comparison of reals, after at most a number of rounds.
    Data,
}

/// An array that a loop reads.
struct Source {
    array: Reg,
    element: ValueType,
    len: IntReg,
    last: IntReg,
    /// How far beyond the index an element certainly is, if the loop goes along this array; `stride` elements a round.
    reach: Option<(i64, i64)>,
}

/// A loop that is being written.
struct Loop {
    index: IntReg,
    sources: Vec<Source>,
    /// A builder with its elements.
    builder: Option<(Reg, ValueType)>,
    /// A chain that every round appends to.
    chain: Option<(Reg, Kind)>,
    rounds_are_few: bool,
    /// Integer constants that were made before the loop.
    constants: Vec<(i64, IntReg)>,
}

impl Writer<'_> {
    /// A loop of one block that tests at its foot, after a test that guards it.
    pub(super) fn self_loop(&mut self, depth: u32) {
        use ValueType::{Int, Real, Ref};
        let types = self.types;
        let mut end = match self.dice.u32(..10) {
            0..3 => End::Constant(if self.one_in(3) { self.dice.i64(10..60) } else { self.dice.i64(0..6) }),
            3 => End::Computed,
            4..6 => End::Length(0),
            6 => End::Length(self.dice.i64(1..3)),
            7 => End::Half,
            _ => End::Data,
        };
        // In a task as well, if there are any: its part of the tape begins anywhere.
        let parallel = self.style == Style::Parallel;
        if *self.long_loops > 0 && depth == 0 && (self.index == 0 || parallel) && self.one_in(2) {
            *self.long_loops -= 1;
            end = End::Constant(if parallel { self.dice.i64(1_000..3_000) } else { self.dice.i64(2_000..8_000) });
            self.note("loop of thousands of rounds");
        }
        let long = matches!(end, End::Constant(1_000..));
        let along = matches!(end, End::Length(_) | End::Half);
        let reach = match end {
            End::Length(less) => (less, 1),
            End::Half => (1, 2),
            _ => (0, 0),
        };
        let mut sources = Vec::new();
        let count = if along { 1 + self.dice.usize(0..2) } else { self.dice.usize(0..3) };
        for n in 0..count {
            let id = self.dice.pick(&[types.reals, types.reals, types.reals, types.ints, types.pairs]);
            // One that the loop doesn't go along must not be empty, since it is read at remainders.
            let of_loop = along && n == 0;
            let array = if of_loop { self.from(Ref(id)) } else { self.some_elements(Ref(id)) };
            self.protected.insert(array);
            let (len, last, one) = (self.out.new_int(), self.out.new_int(), self.out.int_const(1));
            self.out.emit(Op::Len, &[Operand::Def(len.into()), Operand::Use(array)]);
            self.out.emit_regs(Op::ISub, &[last.into(), len.into(), one.into()]);
            sources.push(Source { array, element: self.element_of(id), len, last, reach: of_loop.then_some(reach) });
        }
        let limit = self.rounds(end, sources.first());
        let builder = self.one_in(4).then(|| {
            let element = self.dice.pick(&[Real, Real, Real, Int, Ref(types.pair), Ref(types.reals)]);
            let reg = self.out.new_ref(self.builder_of(element)).into();
            let capacity = self.out.new_int();
            let zero = self.out.int_const(0);
            self.out.emit_regs(Op::IMax, &[capacity.into(), limit.into(), zero.into()]);
            // A body without a guard runs once.
            let one = self.out.int_const(1);
            self.out.emit_regs(Op::IMax, &[capacity.into(), capacity.into(), one.into()]);
            if self.traps && self.one_in(4) {
                self.out.emit_regs(Op::ISub, &[capacity.into(), capacity.into(), one.into()]);
            }
            self.out.emit(Op::Build, &[Operand::Def(reg), Operand::Use(capacity.into())]);
            (reg, element)
        });
        let chain = self.one_in(5).then(|| {
            let kind = self.dice.pick(&types.chains);
            (self.own_chain(kind), kind)
        });
        // As the frontend does; else each round makes them again.
        let hoisted: &[i64] = if self.one_in(4) { &[] } else { &[0, 1, 2, 3, 0xff] };
        let constants = hoisted.iter().map(|&n| (n, self.out.int_const(n))).collect();
        let (index, step) = (self.out.new_int(), self.out.int_const(1));
        self.out.emit(Op::IConst, &[Operand::Def(index.into()), Operand::Int(0)]);
        let cond = self.out.new_int();
        let (head, exit) = (self.out.new_label(), self.out.new_label());
        let guarded = along || self.one_in(2);
        if guarded {
            self.out.emit_regs(Op::ILt, &[cond.into(), index.into(), limit.into()]);
            self.out.branch(cond, head, exit);
        }
        let before = self.assigned.clone();
        self.note("loop of one block");
        match end {
            _ if depth > 0 => self.note("nested loop of one block"),
            End::Data => self.note("loop until data say so"),
            End::Computed => self.note("loop of a computed number of rounds"),
            End::Length(_) | End::Half => self.note("loop along an array"),
            End::Constant(_) => {}
        }
        self.out.bind(head);
        self.regs[Bank::Int as usize].push(index.into());
        self.protected.insert(index.into());
        self.assigned.insert(index.into());
        let rounds_are_few = matches!(end, End::Constant(..4)) && depth == 0;
        let this = Loop { index, sources, builder, chain, rounds_are_few, constants };
        let size = if long { self.dice.usize(2..8) } else { self.dice.usize(1..14) };
        for _ in 0..self.granted(size) {
            self.in_loop(&this);
        }
        if let Some((reg, element)) = this.builder {
            let value = self.from(element);
            let push = [Op::Push, Op::IPush, Op::PPush][element.bank() as usize];
            self.note("builder in a loop");
            self.out.emit(push, &[Operand::Use(reg), Operand::Use(value)]);
        }
        if let Some((chain, kind)) = this.chain {
            self.note("chain in a loop of one block");
            self.push_to_chain(kind, chain, chain);
        }
        self.foot(&this, end, limit, step, cond);
        self.out.branch(cond, head, exit);
        self.out.bind(exit);
        self.regs[Bank::Int as usize].retain(|&reg| reg != index.into());
        if guarded {
            self.assigned = before;
        }
        self.assigned.remove(index.into());
        for source in &this.sources {
            self.protected.remove(source.array);
        }
        if let Some((reg, element)) = this.builder {
            let array = match element {
                Real => types.reals,
                Int => types.ints,
                Ref(id) if id == types.pair => types.pairs,
                Ref(_) => types.rows,
            };
            let dst = self.to(Ref(array));
            self.out.emit(Op::Finish, &[Operand::Def(dst), Operand::Use(reg)]);
            self.wrote(dst);
        }
        if let Some((chain, kind)) = this.chain {
            self.end_of_chain(kind, chain);
        }
    }

    /// An array of at least one element.
    fn some_elements(&mut self, array: ValueType) -> Reg {
        let ValueType::Ref(id) = array else { panic!("{array:?} is no array") };
        let len = self.dice.usize(1..9);
        let elements = self.list(&vec![self.element_of(id); len]);
        let dst = self.to(array);
        self.out.emit(Op::Pack, &[Operand::Def(dst), Operand::Uses(elements)]);
        self.wrote(dst)
    }

    /// A register with the number of rounds.
    fn rounds(&mut self, end: End, first: Option<&Source>) -> IntReg {
        let limit = self.out.new_int();
        match (end, first) {
            (End::Constant(n), _) => self.out.emit(Op::IConst, &[Operand::Def(limit.into()), Operand::Int(n)]),
            (End::Length(less), Some(source)) => {
                let less = self.out.int_const(less);
                self.out.emit_regs(Op::ISub, &[limit.into(), source.len.into(), less.into()]);
            }
            (End::Half, Some(source)) => {
                let one = self.out.int_const(1);
                self.out.emit_regs(Op::IShr, &[limit.into(), source.len.into(), one.into()]);
            }
            (End::Data, _) => {
                let n = self.dice.i64(1..30);
                self.out.emit(Op::IConst, &[Operand::Def(limit.into()), Operand::Int(n)]);
            }
            _ => {
                let (wanted, mask) =
                    if self.one_in(2) { (self.rounded(), 15) } else { (self.from(ValueType::Int), 15) };
                let mask = self.out.int_const(mask);
                self.out.emit_regs(Op::IAnd, &[limit.into(), wanted, mask.into()]);
            }
        }
        limit
    }

    /// The test at the foot of a loop.
    fn foot(&mut self, this: &Loop, end: End, limit: IntReg, step: IntReg, cond: IntReg) {
        let index = this.index.into();
        self.out.emit_regs(Op::IAdd, &[index, index, step.into()]);
        self.out.emit_regs(Op::ILt, &[cond.into(), index, limit.into()]);
        if end == End::Data {
            let (a, b) = (self.from(ValueType::Real), self.from(ValueType::Real));
            let goes_on = self.out.new_int();
            let op = self.dice.pick(&[Op::Lt, Op::Le, Op::Ne]);
            self.out.emit_regs(op, &[goes_on.into(), a, b]);
            self.out.emit_regs(Op::IAnd, &[cond.into(), cond.into(), goes_on.into()]);
        }
    }

    /// A statement of a loop's only block.
    fn in_loop(&mut self, this: &Loop) {
        match self.dice.u32(..100) {
            0..30 if !this.sources.is_empty() => {
                let which = self.dice.usize(..this.sources.len());
                self.load_in_loop(this, &this.sources[which]);
            }
            0..50 => self.scalar(),
            50..58 => self.mov(),
            58..66 => self.swap(),
            66..74 => self.shift(),
            74..82 => self.selection(),
            82..88 => {
                self.note("object made in a loop");
                let types = self.types;
                let ids = [types.pair, types.outer, types.reals, types.list].map(ValueType::Ref);
                let ty = if self.one_in(8) { self.dice.pick(&types.chains).ty() } else { self.dice.pick(&ids) };
                self.make(ty);
            }
            88..92 => {
                self.make(ValueType::Real);
            }
            92..95 if self.may_call && this.rounds_are_few => {
                self.note("call in a loop of one block");
                self.call();
            }
            95..97 if self.style == Style::Wasteful => self.waste(),
            97..100 if self.traps => {
                // Trips in the round whose number is a constant.
                let (k, divisor, dst) = (self.dice.i64(0..20), self.out.new_int(), self.to(ValueType::Int));
                let k = self.out.int_const(k);
                self.out.emit_regs(Op::ISub, &[divisor.into(), this.index.into(), k.into()]);
                self.note("division in a loop that may trap");
                self.out.emit_regs(Op::IDiv, &[dst, this.index.into(), divisor.into()]);
                self.wrote(dst);
            }
            _ => {
                // What the index says, as a real.
                let dst = self.to(ValueType::Real);
                self.out.emit_regs(Op::ToReal, &[dst, this.index.into()]);
                self.out.emit_regs(Op::Sin, &[dst, dst]);
                self.wrote(dst);
            }
        }
    }

    /// Reads an element: at the index, beside it, counted from the end, at a multiple, at a remainder or at random.
    fn load_in_loop(&mut self, this: &Loop, source: &Source) {
        let (index, i) = (self.out.new_int(), this.index.into());
        let at: Reg = match source.reach {
            _ if self.traps && self.one_in(6) => {
                self.note("load in a loop that may trap");
                if self.one_in(2) { i } else { self.from(ValueType::Int) }
            }
            Some((_, 2)) => {
                self.note("load at twice the index");
                if self.one_in(2) {
                    self.note("row in a loop");
                    let row =
                        [Operand::Def(index.into()), Operand::Use(source.array), Operand::Use(i), Operand::Int(2)];
                    self.out.emit(Op::Row, &row);
                } else {
                    self.out.emit_regs(Op::IAdd, &[index.into(), i, i]);
                }
                if self.one_in(2) {
                    let one = self.constant(this, 1);
                    self.out.emit_regs(Op::IAdd, &[index.into(), index.into(), one.into()]);
                }
                index.into()
            }
            Some((reach, _)) if !self.one_in(4) => {
                self.note("load at an affine index");
                match self.dice.u8(..3) {
                    0 => i,
                    1 => {
                        let offset = self.dice.i64(0..=reach);
                        let offset = self.constant(this, offset);
                        self.out.emit_regs(Op::IAdd, &[index.into(), i, offset.into()]);
                        index.into()
                    }
                    _ => {
                        self.out.emit_regs(Op::ISub, &[index.into(), source.last.into(), i]);
                        index.into()
                    }
                }
            }
            _ => {
                self.note("load at a computed index");
                let from = if self.one_in(2) { i } else { self.from(ValueType::Int) };
                let mask = self.constant(this, 0xff);
                self.out.emit_regs(Op::IAnd, &[index.into(), from, mask.into()]);
                if self.one_in(3) {
                    self.out.emit_regs(Op::IMul, &[index.into(), index.into(), i]);
                }
                self.out.emit_regs(Op::IRem, &[index.into(), index.into(), source.len.into()]);
                index.into()
            }
        };
        let op = [Op::Elem, Op::IElem, Op::PElem][source.element.bank() as usize];
        let dst = self.to(source.element);
        self.out.emit_regs(op, &[dst, source.array, at]);
        self.wrote(dst);
        if let ValueType::Ref(_) = source.element {
            let to = self.to(ValueType::Real);
            self.out.emit(Op::Field, &[Operand::Def(to), Operand::Use(dst), Operand::Field(0)]);
            self.wrote(to);
        }
    }

    fn constant(&mut self, this: &Loop, n: i64) -> IntReg {
        let found = this.constants.iter().find(|(of, _)| *of == n).map(|(_, reg)| *reg);
        found.unwrap_or_else(|| self.out.int_const(n))
    }

    /// Reals that each take the value of the next.
    fn shift(&mut self) {
        let len = self.dice.usize(2..5);
        let regs: Vec<Reg> = (0..len).map(|_| self.from(ValueType::Real)).collect();
        self.note("shift register");
        for pair in regs.windows(2) {
            if !self.protected.contains(pair[0]) {
                self.out.mov(pair[0], pair[1]);
            }
        }
    }

    /// A choice between two reals by a comparison of others, as small branches become.
    fn selection(&mut self) {
        let cond = self.condition();
        let (a, b) = (self.from(ValueType::Real), self.from(ValueType::Real));
        let dst = self.to(ValueType::Real);
        self.note("selection in a loop");
        self.out.emit_regs(Op::Select, &[dst, cond, a, b]);
        self.wrote(dst);
    }

    /// A counted loop, with the test before or after the body.
    pub(super) fn repeat(&mut self, depth: u32) -> bool {
        let (index, limit) = (self.out.new_int(), self.out.new_int());
        let (one, cond) = (self.out.int_const(1), self.out.new_int());
        self.out.emit(Op::IConst, &[Operand::Def(index.into()), Operand::Int(0)]);
        let limit_value = self.dice.i64(0..4);
        self.out.emit(Op::IConst, &[Operand::Def(limit.into()), Operand::Int(limit_value)]);
        let (head, body, exit) = (self.out.new_label(), self.out.new_label(), self.out.new_label());
        let foot = self.one_in(3);
        self.note(if foot {
            "loop of several blocks, test at the foot"
        } else {
            "loop of several blocks, test at the head"
        });
        self.out.bind(head);
        if !foot {
            self.out.emit_regs(Op::ILt, &[cond.into(), index.into(), limit.into()]);
            self.out.branch(cond, body, exit);
            self.out.bind(body);
        }
        let before = self.assigned.clone();
        // The index may be read in the body.
        self.regs[Bank::Int as usize].push(index.into());
        self.protected.insert(index.into());
        self.assigned.insert(index.into());
        if depth > 0 {
            self.note("nested loop");
        }
        let size = self.dice.usize(1..7);
        let falls = self.statements(size, depth + 1);
        self.regs[Bank::Int as usize].retain(|&reg| reg != index.into());
        self.assigned.remove(index.into());
        if falls {
            self.out.emit_regs(Op::IAdd, &[index.into(), index.into(), one.into()]);
            if foot {
                self.out.emit_regs(Op::ILt, &[cond.into(), index.into(), limit.into()]);
                self.out.branch(cond, head, exit);
            } else {
                self.out.jump(head);
            }
        }
        if foot && !falls {
            return false;
        }
        self.out.bind(exit);
        if !foot {
            self.assigned = before;
        }
        true
    }
}
