//! Code that is written: a function's new code, with what stands in the place of operators, or a new function's.

use crate::bytecode::isa::{Bank, Inst, Op, Operand, Reg, Role};
use crate::bytecode::module::{Body, Location, TypeId, ValueType};
use crate::bytecode::verify::limits;
use std::collections::HashMap;

/// An operator stays what it is: its function isn't what is written in place, or would take too much.
#[derive(Debug)]
pub(super) struct Declined;

/// What [`Writer::mark`] remembers.
pub(super) struct Mark {
    reals: u32,
    ints: u32,
    refs: usize,
    code: usize,
    regs: usize,
    targets: usize,
    locations: usize,
    constants: usize,
}

/// Code with targets that are still missing.
pub(super) struct Writer {
    pub(super) body: Body,
    /// Constants that the new code reads: bank, bits, and the register that the function's start is to give them. A
    /// register with one definition in the whole function is a constant to all that looks at the code later.
    constants: Vec<(Bank, u64, u16)>,
    found: HashMap<(Bank, u64), u16>,
    /// Targets of the old code in the list of all targets.
    old_targets: usize,
    /// For each old instruction, where it is now; one more entry is the end.
    moved: Vec<u32>,
    /// The new instructions with targets that count old instructions.
    old: Vec<u32>,
    /// The old instruction that the next ones are from, and those of the instructions that there are.
    origin: u32,
    origins: Vec<u32>,
    /// Registers for what is written in place of an operator. All operators use the same ones, so that frames, which
    /// recursion has many of, grow by those of the largest.
    scratch: HashMap<Scratch, Pool>,
    /// The most registers that a bank may have.
    most: [usize; 3],
}

/// What a register may hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Scratch {
    Real,
    Int,
    Ref(TypeId),
    /// A real, or an integer, until the next instruction of the function.
    Temporary(Bank),
}

impl Scratch {
    fn bank(self) -> Bank {
        match self {
            Scratch::Real => Bank::Real,
            Scratch::Int => Bank::Int,
            Scratch::Ref(_) => Bank::Ref,
            Scratch::Temporary(bank) => bank,
        }
    }
}

/// Registers, the first of which are taken.
#[derive(Default)]
struct Pool {
    registers: Vec<u16>,
    taken: usize,
}

/// A bank of a function gets no more registers than this besides those that it had.
const ADDED_MAX: usize = 512;
/// A bank of a new function has no more registers than this.
const FUNCTION_REGISTERS_MAX: usize = 2048;

impl Writer {
    /// Begins a function over: its registers and lists, but no code.
    pub(super) fn over(body: &Body) -> Writer {
        let mut body = body.clone();
        body.code.clear();
        body.locations.clear();
        let most = [body.reals as usize, body.ints as usize, body.refs.len()].map(|registers| registers + ADDED_MAX);
        Writer::with(body, most)
    }

    /// Begins a new function, whose parameters take these registers.
    pub(super) fn of_params(params: &[Reg], types: &[ValueType]) -> Writer {
        let mut body = Body::default();
        for (reg, ty) in params.iter().zip(types) {
            match *ty {
                ValueType::Real => body.reals = u32::from(reg.index) + 1,
                ValueType::Int => body.ints = u32::from(reg.index) + 1,
                ValueType::Ref(id) => body.refs.push(id),
            }
        }
        Writer::with(body, [FUNCTION_REGISTERS_MAX; 3])
    }

    fn with(body: Body, most: [usize; 3]) -> Writer {
        Writer {
            constants: Vec::new(),
            found: HashMap::new(),
            old_targets: body.targets.len(),
            moved: Vec::new(),
            old: Vec::new(),
            origin: 0,
            origins: Vec::new(),
            scratch: HashMap::new(),
            most,
            body,
        }
    }

    /// The number of the next instruction.
    pub(super) fn here(&self) -> u32 {
        self.body.code.len() as u32
    }

    /// From here on stands what comes from the next old instruction, of those that are kept or replaced.
    pub(super) fn begin_old(&mut self) {
        self.set_origin(self.moved.len() as u32);
        self.moved.push(self.here());
    }

    /// From here on instructions come from this one.
    pub(super) fn set_origin(&mut self, inst: u32) {
        self.origins.resize(self.body.code.len(), self.origin);
        self.origin = inst;
    }

    /// Begins what comes from one instruction of the function that is differentiated: temporaries of the last one are
    /// free.
    pub(super) fn begin_inst(&mut self) {
        for bank in [Bank::Real, Bank::Int] {
            self.scratch.entry(Scratch::Temporary(bank)).or_default().taken = 0;
        }
    }

    /// A register that nothing else has until [`Writer::begin_inst`].
    pub(super) fn temporary(&mut self, bank: Bank) -> Result<u16, Declined> {
        self.take(Scratch::Temporary(bank))
    }

    /// An instruction as it was.
    pub(super) fn keep(&mut self, inst: Inst) {
        if inst.op.has_targets() {
            self.old.push(self.here());
        }
        self.body.code.push(inst);
    }

    /// From here on instructions come from this place.
    pub(super) fn set_location(&mut self, location: Option<Location>) {
        let Some(location) = location else { return };
        let here = Location { inst: self.here(), ..location };
        match self.body.locations.last_mut() {
            Some(last) if (last.place, last.call) == (here.place, here.call) => {}
            Some(last) if last.inst == here.inst => *last = here,
            _ => self.body.locations.push(here),
        }
    }

    /// Begins what is written in place of the next operator: what was written before has no registers any more.
    pub(super) fn begin_site(&mut self) {
        self.scratch.values_mut().for_each(|pool| pool.taken = 0);
    }

    /// A register that nothing else has at this operator.
    pub(super) fn real(&mut self) -> Result<u16, Declined> {
        self.take(Scratch::Real)
    }

    /// A register that nothing else has at this operator.
    pub(super) fn int(&mut self) -> Result<u16, Declined> {
        self.take(Scratch::Int)
    }

    /// A register that nothing else has at this operator.
    pub(super) fn reference(&mut self, ty: TypeId) -> Result<u16, Declined> {
        self.take(Scratch::Ref(ty))
    }

    fn take(&mut self, kind: Scratch) -> Result<u16, Declined> {
        let pool = self.scratch.entry(kind).or_default();
        pool.taken += 1;
        if let Some(&register) = pool.registers.get(pool.taken - 1) {
            return Ok(register);
        }
        let register = self.add(kind)?;
        self.scratch.entry(kind).or_default().registers.push(register);
        Ok(register)
    }

    /// A register that the function hasn't had yet.
    fn add(&mut self, kind: Scratch) -> Result<u16, Declined> {
        let body = &mut self.body;
        let bank = kind.bank();
        let index = match bank {
            Bank::Real => body.reals as usize,
            Bank::Int => body.ints as usize,
            Bank::Ref => body.refs.len(),
        };
        if index >= limits::REGISTERS_MAX as usize || index >= self.most[bank as usize] {
            return Err(Declined);
        }
        match kind {
            Scratch::Ref(ty) => body.refs.push(ty),
            _ if bank == Bank::Real => body.reals += 1,
            _ => body.ints += 1,
        }
        u16::try_from(index).map_err(|_| Declined)
    }

    /// The register of a constant.
    pub(super) fn constant(&mut self, bank: Bank, bits: u64) -> Result<u16, Declined> {
        if let Some(&register) = self.found.get(&(bank, bits)) {
            return Ok(register);
        }
        let register = self.add(if bank == Bank::Real { Scratch::Real } else { Scratch::Int })?;
        self.constants.push((bank, bits, register));
        self.found.insert((bank, bits), register);
        Ok(register)
    }

    /// Appends an instruction.
    pub(super) fn emit(&mut self, op: Op, operands: &[Operand]) -> Result<(), Declined> {
        self.body.push(op, operands).map(|_| ()).map_err(|_| Declined)
    }

    /// Appends an instruction all of whose operands are registers, the one that it writes first.
    pub(super) fn scalar(&mut self, op: Op, dst: u16, args: &[Reg]) -> Result<(), Declined> {
        let bank = match op.info().operands[0].role {
            Role::Def(bank) => bank,
            _ => return Err(Declined),
        };
        let mut operands = vec![Operand::Def(Reg { bank, index: dst })];
        operands.extend(args.iter().map(|&reg| Operand::Use(reg)));
        self.emit(op, &operands)
    }

    /// `place` becomes where a row of this width begins in an array.
    pub(super) fn row(&mut self, place: Reg, array: Reg, index: Reg, width: u64) -> Result<(), Declined> {
        let operands = [Operand::Def(place), Operand::Use(array), Operand::Use(index), Operand::Int(width as i64)];
        self.emit(Op::Row, &operands)
    }

    /// Copies registers to others of their banks, all at once. A real may be brought to a form without -0.0.
    pub(super) fn copy(&mut self, copies: &[Copy]) -> Result<(), Declined> {
        let is_read_later =
            copies.iter().enumerate().any(|(n, copy)| copies[n + 1..].iter().any(|c| c.from == copy.to));
        if !is_read_later {
            return copies.iter().try_for_each(|copy| self.copy_one(copy));
        }
        let mut between = Vec::with_capacity(copies.len());
        for copy in copies {
            let index = match copy.to.bank {
                Bank::Ref => self.reference(self.body.refs[usize::from(copy.to.index)])?,
                bank => self.temporary(bank)?,
            };
            let to = Reg { index, ..copy.to };
            self.copy_one(&Copy { to, ..*copy })?;
            between.push(Copy { to: copy.to, from: to, normalised: false });
        }
        between.iter().try_for_each(|copy| self.copy_one(copy))
    }

    fn copy_one(&mut self, copy: &Copy) -> Result<(), Declined> {
        let Copy { to, from, normalised } = *copy;
        if normalised {
            let zero = Reg::real(self.constant(Bank::Real, 0)?);
            return self.scalar(Op::Add, to.index, &[from, zero]);
        }
        if to == from {
            return Ok(());
        }
        let op = match to.bank {
            Bank::Real => Op::Mov,
            Bank::Int => Op::IMov,
            Bank::Ref => Op::PMov,
        };
        self.scalar(op, to.index, &[from])
    }

    /// Makes an array of as many reals, or objects, as another one has: what `element` writes, for an index.
    pub(super) fn array_like(
        &mut self,
        array: Reg,
        ty: TypeId,
        builder: TypeId,
        element: impl FnOnce(&mut Writer, Reg) -> Result<Reg, Declined>,
    ) -> Result<Reg, Declined> {
        let len = Reg::int(self.int()?);
        self.emit(Op::Len, &[Operand::Def(len), Operand::Use(array)])?;
        self.array_of(len, ty, builder, element)
    }

    /// Makes an array of so many reals, or objects: what `element` writes, for an index.
    pub(super) fn array_of(
        &mut self,
        len: Reg,
        ty: TypeId,
        builder: TypeId,
        element: impl FnOnce(&mut Writer, Reg) -> Result<Reg, Declined>,
    ) -> Result<Reg, Declined> {
        let (builder, made) = (Reg::reference(self.reference(builder)?), Reg::reference(self.reference(ty)?));
        self.emit(Op::Build, &[Operand::Def(builder), Operand::Use(len)])?;
        self.for_each_index(len, |writer, at| {
            let element = element(writer, at)?;
            let push = if element.bank == Bank::Ref { Op::PPush } else { Op::Push };
            writer.emit(push, &[Operand::Use(builder), Operand::Use(element)])
        })?;
        self.emit(Op::Finish, &[Operand::Def(made), Operand::Use(builder)])?;
        Ok(made)
    }

    /// A loop over the indices below a length.
    pub(super) fn for_each_index(
        &mut self,
        len: Reg,
        round: impl FnOnce(&mut Writer, Reg) -> Result<(), Declined>,
    ) -> Result<(), Declined> {
        let first = Reg::int(self.constant(Bank::Int, 0)?);
        let step = Reg::int(self.constant(Bank::Int, 1)?);
        let [at, more] = [self.int()?, self.int()?].map(Reg::int);
        self.scalar(Op::IMov, at.index, &[first])?;
        self.scalar(Op::ILt, more.index, &[at, len])?;
        let before = self.here();
        let branch = |then, other| [Operand::Use(more), Operand::Target(then), Operand::Target(other)];
        self.emit(Op::Branch, &branch(before + 1, 0))?;
        round(self, at)?;
        self.scalar(Op::IAdd, at.index, &[at, step])?;
        self.scalar(Op::ILt, more.index, &[at, len])?;
        let end = self.here() + 1;
        self.emit(Op::Branch, &branch(before + 1, end))?;
        self.body.code[before as usize].imm = u64::from(before + 1) | u64::from(end) << 32;
        Ok(())
    }

    /// Where the function stands now.
    pub(super) fn mark(&self) -> Mark {
        let body = &self.body;
        Mark {
            reals: body.reals,
            ints: body.ints,
            refs: body.refs.len(),
            code: body.code.len(),
            regs: body.regs.len(),
            targets: body.targets.len(),
            locations: body.locations.len(),
            constants: self.constants.len(),
        }
    }

    /// Takes back what was written since then.
    pub(super) fn back_to(&mut self, mark: &Mark) {
        let body = &mut self.body;
        (body.reals, body.ints) = (mark.reals, mark.ints);
        body.refs.truncate(mark.refs);
        body.code.truncate(mark.code);
        body.regs.truncate(mark.regs);
        body.targets.truncate(mark.targets);
        body.locations.truncate(mark.locations);
        self.origins.truncate(mark.code);
        for (bank, bits, _) in self.constants.drain(mark.constants..) {
            self.found.remove(&(bank, bits));
        }
        for (kind, pool) in &mut self.scratch {
            let there = match kind.bank() {
                Bank::Real => mark.reals as usize,
                Bank::Int => mark.ints as usize,
                Bank::Ref => mark.refs,
            };
            pool.registers.retain(|&register| usize::from(register) < there);
        }
        self.begin_site();
    }

    /// Replaces an instruction's own targets, but not those in a list.
    pub(super) fn retarget(inst: &mut Inst, new: impl Fn(u32) -> u32) {
        match inst.op {
            Op::Jump => inst.imm = u64::from(new(inst.low())),
            Op::Branch => inst.imm = u64::from(new(inst.low())) | u64::from(new(inst.high())) << 32,
            Op::Switch => inst.imm = u64::from(inst.low()) | u64::from(new(inst.high())) << 32,
            op => debug_assert!(!op.has_targets(), "{op:?} leads somewhere"),
        }
    }

    /// The function, with its constants at the start, and for each instruction the number of the old one that it is
    /// from.
    pub(super) fn finish(mut self) -> Result<(Body, Vec<u32>), Declined> {
        self.set_origin(0);
        self.moved.push(self.here());
        let body = &mut self.body;
        for &at in &self.old {
            let moved = |target: u32| self.moved[target as usize];
            Writer::retarget(&mut body.code[at as usize], moved);
        }
        for target in &mut body.targets[..self.old_targets] {
            // What no instruction refers to may be anything.
            *target = self.moved.get(*target as usize).copied().unwrap_or(0);
        }
        let code = std::mem::take(&mut body.code);
        for &(bank, bits, index) in &self.constants {
            let (op, value) = match bank {
                Bank::Real => (Op::Const, Operand::Real(f64::from_bits(bits))),
                _ => (Op::IConst, Operand::Int(bits as i64)),
            };
            body.push(op, &[Operand::Def(Reg { bank, index }), value]).map_err(|_| Declined)?;
        }
        let before = body.code.len() as u32;
        body.code.extend(code);
        for inst in &mut body.code[before as usize..] {
            Writer::retarget(inst, |target| target + before);
        }
        body.targets.iter_mut().for_each(|target| *target = target.saturating_add(before));
        // The first place is also that of the constants.
        body.locations.iter_mut().filter(|location| location.inst > 0).for_each(|location| location.inst += before);
        if body.code.len() > limits::INSTRUCTIONS_MAX {
            return Err(Declined);
        }
        let mut origins = vec![0; before as usize];
        origins.extend(self.origins);
        Ok((self.body, origins))
    }
}

/// A register that is to get what another one holds.
#[derive(Clone, Copy)]
pub(super) struct Copy {
    pub(super) to: Reg,
    pub(super) from: Reg,
    /// Whether -0.0 becomes 0.0, as in all tangents and cotangents that an operator gives.
    pub(super) normalised: bool,
}

impl Copy {
    pub(super) fn value(to: Reg, from: Reg) -> Self {
        Copy { to, from, normalised: false }
    }

    pub(super) fn derivative(to: Reg, from: Reg) -> Self {
        Copy { to, from, normalised: to.bank == Bank::Real }
    }
}
