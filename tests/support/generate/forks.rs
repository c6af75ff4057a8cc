//! Forks and parallel maps: tasks that share values, forks of what other tasks returned, and forks in forks.
//!
//! The functions of tasks are those that calls have. The functions of parallel maps are written here: loops from the
//! range's start to its end that read arrays of others, by slices, as a whole or at scattered places.

use super::{Dice, Signature, Types, Writer};
use dualvm_vm::builder::IntReg;
use dualvm_vm::isa::{Op, Operand, Reg};
use dualvm_vm::module::{FuncId, ValueType};

/// A task to be: its function, and its arguments.
type Call = (usize, Vec<Reg>);

/// Signatures of so many functions for parallel maps: start and end of a range, arrays and other values, the counter.
pub(super) fn ranges(count: usize, types: &Types, dice: &mut Dice) -> Vec<Signature> {
    use ValueType::{Int, Real, Ref};
    let (reals, ints) = (Ref(types.reals), Ref(types.ints));
    let results = [reals, reals, reals, ints, Ref(types.pairs), Ref(types.rows)];
    let others = [Real, Real, reals, ints, Ref(types.pair), Ref(types.list), Ref(types.closures[0])];
    let mut all = Vec::new();
    for _ in 0..count {
        let mut params = vec![Int, Int, reals, ints, Real];
        params.extend((0..dice.usize(0..3)).map(|_| dice.pick(&others)));
        params.push(Int);
        all.push(Signature { params, results: vec![dice.pick(&results)] });
    }
    all
}

impl Writer<'_> {
    /// A statement that runs tasks, if the function may call others.
    pub(super) fn parallel(&mut self) {
        match self.dice.u32(..10) {
            _ if !self.may_call => self.scalar(),
            0..5 => {
                self.fork(&[]);
            }
            5..7 => self.chain_of_forks(),
            _ => self.parallel_map(),
        }
    }

    /// Forks that each take what the one before returned.
    fn chain_of_forks(&mut self) {
        let mut recent = Vec::new();
        for _ in 0..self.dice.usize(2..5) {
            if !recent.is_empty() {
                self.note("fork after a fork");
            }
            recent = self.fork(&recent);
            for _ in 0..self.dice.usize(0..3) {
                self.straight();
            }
        }
    }

    /// Runs one to five tasks, of which some call others. They take `recent` registers where they can; returns the
    /// registers of the results.
    fn fork(&mut self, recent: &[Reg]) -> Vec<Reg> {
        let (less, none) = (self.less(), self.out.int_const(0).into());
        let mut calls: Vec<Call> = Vec::new();
        for n in 0..self.dice.usize(1..6) {
            // Two that call others are enough for trees that grow exponentially.
            let counter = if n < 2 && self.one_in(2) { less } else { none };
            calls.push(self.task(recent, counter));
        }
        self.emit_fork(&calls)
    }

    /// A fork of which one task may call others, so that forks are in each other as deep as the counter says.
    pub(super) fn lopsided_fork(&mut self) {
        let (less, none) = (self.less(), self.out.int_const(0).into());
        let count = self.dice.usize(1..4);
        let long = self.dice.usize(..count);
        let calls: Vec<Call> = (0..count).map(|n| self.task(&[], if n == long { less } else { none })).collect();
        self.note("lopsided fork");
        self.emit_fork(&calls);
    }

    fn task(&mut self, recent: &[Reg], counter: Reg) -> Call {
        let signatures = self.signatures;
        let chains = self.types.chains;
        let takes_chains = |signature: &Signature| {
            signature.params.iter().chain(&signature.results).any(|&ty| chains.iter().any(|kind| kind.ty() == ty))
        };
        let able: Vec<usize> = (0..signatures.len()).filter(|&func| !takes_chains(&signatures[func])).collect();
        let func = self.dice.pick(&able);
        let params = &signatures[func].params;
        let mut args = Vec::new();
        for &ty in &params[..params.len() - 1] {
            let fitting: Vec<Reg> = recent.iter().copied().filter(|&reg| self.holds(reg, ty)).collect();
            args.push(if !fitting.is_empty() && self.one_in(2) { self.dice.pick(&fitting) } else { self.from(ty) });
        }
        args.push(counter);
        (func, args)
    }

    /// Whether a register is assigned and of this type.
    fn holds(&self, reg: Reg, ty: ValueType) -> bool {
        let of_type = match ty {
            ValueType::Ref(id) => self.ref_types.contains(&(id, reg)),
            _ => ty.bank() == reg.bank,
        };
        of_type && self.assigned.contains(reg)
    }

    /// Writes a fork whose results go to registers that the verifier accepts: different ones, and none that a later
    /// task takes.
    fn emit_fork(&mut self, calls: &[Call]) -> Vec<Reg> {
        let signatures = self.signatures;
        let mut results: Vec<Vec<Reg>> = Vec::new();
        for (n, (func, _)) in calls.iter().enumerate() {
            let taken = calls[n + 1..].iter().flat_map(|(_, args)| args).chain(results.iter().flatten());
            let guarded: Vec<Reg> = taken.copied().filter(|&reg| self.protected.insert(reg)).collect();
            results.push(self.result_registers(&signatures[*func].results));
            guarded.iter().for_each(|&reg| self.protected.remove(reg));
        }
        self.note(if self.index == 0 { "fork" } else { "fork in another function" });
        let tasks: Vec<(FuncId, &[Reg], &[Reg])> = calls
            .iter()
            .zip(&results)
            .map(|((func, args), results)| (FuncId(*func as u32), &args[..], &results[..]))
            .collect();
        self.out.fork(&tasks);
        let results = results.concat();
        self.assigned.extend(results.iter().copied());
        results
    }

    fn parallel_map(&mut self) {
        let which = self.dice.usize(..self.ranges.len());
        let Signature { params, results } = &self.ranges[which];
        let mut args = self.list(&params[2..params.len() - 1]);
        let count = self.out.new_int();
        let few = self.map_count(count, args[0]);
        args.push(if few && !self.one_in(3) { self.less() } else { self.out.int_const(0).into() });
        let dst = self.to(results[0]);
        let func = (self.signatures.len() + which) as u32;
        self.note("parallel map");
        let operands = [Operand::Def(dst), Operand::Func(func), Operand::Use(count.into()), Operand::Uses(args)];
        self.out.emit(Op::ParallelMap, &operands);
        self.wrote(dst);
    }

    /// Writes a count; says whether it is small.
    fn map_count(&mut self, count: IntReg, array: Reg) -> bool {
        let dst = Operand::Def(count.into());
        let (n, what) = match self.dice.u32(..20) {
            0..8 => (self.dice.i64(0..6), "parallel map of few elements"),
            8..11 => (self.dice.i64(6..40), "parallel map of some elements"),
            11 => (self.dice.i64(250..600), "parallel map of many elements"),
            12..18 if self.traps => (self.dice.i64(-3..0), "parallel map of fewer elements than none"),
            _ => {
                self.out.emit(Op::Len, &[dst, Operand::Use(array)]);
                self.note("parallel map along an array");
                return false;
            }
        };
        self.out.emit(Op::IConst, &[dst, Operand::Int(n)]);
        self.note(what);
        n < 6
    }

    /// Writes the function of a parallel map.
    pub(super) fn write_range(&mut self, params: &[ValueType]) {
        self.parameters(params);
        let [low, high, array, table] = [0, 1, 2, 3].map(|n| self.out.param(n));
        self.protected.extend([low, high, array, table]);
        self.registers();
        for _ in 0..self.dice.usize(0..4) {
            self.straight();
        }
        if self.one_in(2) {
            self.fork_in_range();
        }
        if self.one_in(4) {
            self.self_loop(1);
        }
        let ValueType::Ref(result) = self.results[0] else { panic!("a parallel map's function returns an array") };
        if self.one_in(12) {
            // Of a length that has nothing to do with the range's.
            let array = if result == self.types.reals { array } else { self.from(ValueType::Ref(result)) };
            self.note("range that returns any array");
            return self.out.ret(&[array]);
        }
        let element = self.element_of(result);
        let builder: Reg = self.out.new_ref(self.builder_of(element)).into();
        let (size, capacity) = (self.out.new_int(), self.out.new_int());
        self.out.emit_regs(Op::ISub, &[size.into(), high, low]);
        self.out.emit_regs(Op::IAdd, &[capacity.into(), size.into(), size.into()]);
        if self.traps && self.one_in(6) {
            // Full after half of a range, or of a longer one.
            self.out.emit_regs(Op::IShr, &[capacity.into(), capacity.into(), size.into()]);
        }
        self.out.emit(Op::Build, &[Operand::Def(builder), Operand::Use(capacity.into())]);
        let done = self.out.new_label();
        let (len, cond, zero) = (self.out.new_int(), self.out.new_int(), self.out.int_const(0));
        self.out.emit(Op::Len, &[Operand::Def(len.into()), Operand::Use(array)]);
        self.out.emit_regs(Op::ILt, &[cond.into(), zero.into(), len.into()]);
        let some = self.out.new_label();
        self.out.branch(cond, some, done);
        self.out.bind(some);
        if self.one_in(2) {
            self.sum_of_elements(array, len);
        }
        self.elements_of_range(Range { low, high, array, len, table }, builder, element);
        self.out.bind(done);
        let dst = self.out.new_ref(result).into();
        self.out.emit(Op::Finish, &[Operand::Def(dst), Operand::Use(builder)]);
        self.out.ret(&[dst]);
    }

    /// A fork or a call, if the counter isn't used up.
    fn fork_in_range(&mut self) {
        let (cond, zero) = (self.out.new_int(), self.out.int_const(0));
        let (more, leaf) = (self.out.new_label(), self.out.new_label());
        self.out.emit_regs(Op::ILt, &[cond.into(), zero.into(), self.counter]);
        self.out.branch(cond, more, leaf);
        self.out.bind(more);
        let before = self.assigned.clone();
        if self.one_in(3) {
            self.call();
        } else {
            self.note("fork in a parallel map");
            self.fork(&[]);
        }
        self.out.bind(leaf);
        self.assigned = before;
    }

    /// A loop over an array of others, forwards, backwards or in strides, that adds its elements up.
    fn sum_of_elements(&mut self, array: Reg, len: IntReg) {
        let (index, end, step) = (self.out.new_int(), self.out.new_int(), self.dice.i64(1..4));
        let (one, stride) = (self.out.int_const(1), self.out.int_const(step));
        let backwards = self.one_in(2);
        if backwards {
            self.out.emit_regs(Op::ISub, &[index.into(), len.into(), one.into()]);
        } else {
            self.out.emit(Op::IConst, &[Operand::Def(index.into()), Operand::Int(0)]);
        }
        // Long arrays are read in part.
        let most = self.out.int_const(60);
        self.out.emit_regs(Op::IMin, &[end.into(), len.into(), most.into()]);
        let bound = self.out.new_int();
        self.out.emit_regs(Op::ISub, &[bound.into(), len.into(), end.into()]);
        let (acc, x, factor) = (self.to(ValueType::Real), self.out.new_real(), self.from(ValueType::Real));
        self.out.mov(acc, factor);
        self.wrote(acc);
        let (head, exit, cond) = (self.out.new_label(), self.out.new_label(), self.out.new_int());
        self.note("range that reads an array of others in a loop");
        self.out.bind(head);
        self.out.emit_regs(Op::Elem, &[x.into(), array, index.into()]);
        self.out.emit_regs(Op::Fma, &[acc, x.into(), factor, acc]);
        self.out.emit_regs(Op::Sin, &[acc, acc]);
        if backwards {
            self.out.emit_regs(Op::ISub, &[index.into(), index.into(), stride.into()]);
            self.out.emit_regs(Op::ILe, &[cond.into(), bound.into(), index.into()]);
        } else {
            self.out.emit_regs(Op::IAdd, &[index.into(), index.into(), stride.into()]);
            self.out.emit_regs(Op::ILt, &[cond.into(), index.into(), end.into()]);
        }
        self.out.branch(cond, head, exit);
        self.out.bind(exit);
    }

    /// The loop over a range's numbers, which pushes one or two elements for each.
    fn elements_of_range(&mut self, range: Range, builder: Reg, element: ValueType) {
        let (index, one) = (self.out.new_int(), self.out.int_const(1));
        let mask = self.out.int_const(0xff);
        self.out.mov(index, range.low);
        self.adopt(ValueType::Int, index.into());
        self.protected.insert(index.into());
        self.assigned.insert(index.into());
        let table_len = self.out.new_int();
        self.out.emit(Op::Len, &[Operand::Def(table_len.into()), Operand::Use(range.table)]);
        let (head, exit, cond) = (self.out.new_label(), self.out.new_label(), self.out.new_int());
        let tabled = self.one_in(3);
        if tabled {
            let zero = self.out.int_const(0);
            self.out.emit_regs(Op::ILt, &[cond.into(), zero.into(), table_len.into()]);
            self.out.branch(cond, head, exit);
        }
        self.note("loop over a range");
        self.out.bind(head);
        let (x, at) = (self.to(ValueType::Real), self.out.new_int());
        if tabled {
            self.note("range that reads at places of a table");
            self.out.emit_regs(Op::IRem, &[at.into(), index.into(), table_len.into()]);
            self.out.emit_regs(Op::IElem, &[at.into(), range.table, at.into()]);
            self.out.emit_regs(Op::IAnd, &[at.into(), at.into(), mask.into()]);
            self.out.emit_regs(Op::IRem, &[at.into(), at.into(), range.len.into()]);
        } else if self.traps && self.one_in(3) {
            self.note("range that may read outside of an array");
            self.out.mov(at, index);
        } else {
            self.note("range that reads an array at its numbers");
            self.out.emit_regs(Op::IRem, &[at.into(), index.into(), range.len.into()]);
        }
        self.out.emit_regs(Op::Elem, &[x, range.array, at.into()]);
        self.wrote(x);
        let count = self.dice.usize(0..6);
        for _ in 0..self.granted(count) {
            self.straight();
        }
        let push = [Op::Push, Op::IPush, Op::PPush][element.bank() as usize];
        for _ in 0..self.dice.usize(1..3) {
            let value = self.from(element);
            self.out.emit(push, &[Operand::Use(builder), Operand::Use(value)]);
        }
        self.out.emit_regs(Op::IAdd, &[index.into(), index.into(), one.into()]);
        self.out.emit_regs(Op::ILt, &[cond.into(), index.into(), range.high]);
        self.out.branch(cond, head, exit);
        self.out.bind(exit);
    }
}

/// The numbers that a task of a parallel map has, and what it reads.
struct Range {
    low: Reg,
    high: Reg,
    array: Reg,
    len: IntReg,
    table: Reg,
}
