//! A function's code as mutations see it: operands unpacked, instructions put in and taken out with all targets kept.

use super::Mutator;
use dualvm_vm::isa::{Bank, Inst, Op, Operand, Reg, Role};
use dualvm_vm::module::{Body, Function, ValueType};
use std::collections::BTreeSet;
use std::ops::Range;

/// Whether the instruction names other instructions.
pub(super) fn has_targets(op: Op) -> bool {
    op.info().operands.iter().any(|operand| matches!(operand.role, Role::Target | Role::Targets))
}

/// Whether the instruction is one of a group of a fork and its tasks.
pub(super) fn is_of_group(op: Op) -> bool {
    matches!(op, Op::Fork | Op::Task)
}

/// The registers among operands.
pub(super) fn regs_mut(operands: &mut [Operand]) -> Vec<&mut Reg> {
    let mut all = Vec::new();
    for operand in operands {
        match operand {
            Operand::Def(reg) | Operand::Use(reg) => all.push(reg),
            Operand::Uses(list) | Operand::Defs(list) => all.extend(list),
            _ => {}
        }
    }
    all
}

/// The registers that an instruction reads and those that it writes.
pub(super) fn reads_and_writes(body: &Body, inst: &Inst) -> (Vec<Reg>, Vec<Reg>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for operand in body.operands(inst).unwrap_or_default() {
        match operand {
            Operand::Use(reg) => reads.push(reg),
            Operand::Uses(list) => reads.extend(list),
            Operand::Def(reg) => writes.push(reg),
            Operand::Defs(list) => writes.extend(list),
            _ => {}
        }
    }
    (reads, writes)
}

/// Writes an instruction anew.
pub(super) fn set(body: &mut Body, at: usize, op: Op, operands: &[Operand]) -> Option<()> {
    body.code[at] = body.pack(op, operands).ok()?;
    Some(())
}

/// Changes the operands of an instruction.
pub(super) fn edit(body: &mut Body, at: usize, change: impl FnOnce(&mut Vec<Operand>) -> Option<()>) -> Option<()> {
    let inst = body.code[at];
    let mut operands = body.operands(&inst)?;
    change(&mut operands)?;
    set(body, at, inst.op, &operands)
}

/// Changes all targets. Code with lists that can't be read stays as it is.
pub(super) fn for_each_target(body: &mut Body, mut change: impl FnMut(&mut u32)) {
    for at in 0..body.code.len() {
        if has_targets(body.code[at].op) {
            let _ = edit(body, at, |operands| {
                for operand in operands {
                    match operand {
                        Operand::Target(target) => change(target),
                        Operand::Targets(list) => list.iter_mut().for_each(&mut change),
                        _ => {}
                    }
                }
                Some(())
            });
        }
    }
}

/// Puts instructions in place of others. All targets keep their instructions; what led into the range leads to its
/// beginning, and what led to its beginning leads to the new instructions if `enter`, else behind them. The targets of
/// the new instructions are as they will stand in the end.
pub(super) fn splice(body: &mut Body, range: Range<usize>, new: &[Inst], enter: bool) {
    let shift = |at: usize| match at {
        _ if at < range.start => at,
        _ if at == range.start && (enter || !range.is_empty()) => at,
        _ if at >= range.end => at - range.len() + new.len(),
        _ => range.start,
    };
    for_each_target(body, |target| *target = shift(*target as usize) as u32);
    body.locations.iter_mut().for_each(|location| location.inst = shift(location.inst as usize) as u32);
    body.code.splice(range.clone(), new.iter().copied());
    let len = body.code.len() as u32;
    body.locations.retain(|location| location.inst < len);
    body.locations.dedup_by_key(|location| location.inst);
}

/// A jump to an instruction.
pub(super) fn jump(body: &mut Body, target: usize) -> Inst {
    pack(body, Op::Jump, &[Operand::Target(target as u32)])
}

/// An instruction whose operands are known to fit.
pub(super) fn pack(body: &mut Body, op: Op, operands: &[Operand]) -> Inst {
    body.pack(op, operands).expect("the operands have the roles that the table declares")
}

/// A new integer register.
pub(super) fn new_int(body: &mut Body) -> Reg {
    body.ints += 1;
    Reg::int((body.ints - 1) as u16)
}

/// A new register of a type.
pub(super) fn new_reg(body: &mut Body, ty: ValueType) -> Reg {
    match ty {
        ValueType::Real => {
            body.reals += 1;
            Reg::real((body.reals - 1) as u16)
        }
        ValueType::Int => new_int(body),
        ValueType::Ref(id) => {
            body.refs.push(id);
            Reg::reference((body.refs.len() - 1) as u16)
        }
    }
}

/// The type of a register, if there is one.
pub(super) fn type_of(body: &Body, reg: Reg) -> Option<ValueType> {
    match reg.bank {
        Bank::Real => Some(ValueType::Real),
        Bank::Int => Some(ValueType::Int),
        Bank::Ref => body.refs.get(usize::from(reg.index)).map(|&id| ValueType::Ref(id)),
    }
}

/// The registers of a type.
pub(super) fn regs_of(body: &Body, ty: ValueType) -> Vec<Reg> {
    let index = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    match ty {
        ValueType::Real => (0..index(body.reals as usize)).map(Reg::real).collect(),
        ValueType::Int => (0..index(body.ints as usize)).map(Reg::int).collect(),
        ValueType::Ref(id) => {
            let of_type = body.refs.iter().enumerate().filter(|(_, ty)| **ty == id);
            of_type.map(|(n, _)| Reg::reference(index(n))).collect()
        }
    }
}

/// The basic blocks of a body.
pub(super) fn blocks(body: &Body) -> Vec<Range<usize>> {
    let len = body.code.len();
    let mut starts = BTreeSet::from([0]);
    for (at, inst) in body.code.iter().enumerate() {
        if inst.op.is_terminator() {
            starts.insert(at + 1);
        }
        for operand in body.operands(inst).unwrap_or_default() {
            match operand {
                Operand::Target(target) => _ = starts.insert(target as usize),
                Operand::Targets(list) => starts.extend(list.iter().map(|&target| target as usize)),
                _ => {}
            }
        }
    }
    starts.retain(|&start| start < len);
    let ends = starts.iter().copied().skip(1).chain([len]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

/// The registers that certainly hold something before an instruction, of those that are easy to tell: parameters, and
/// what is written in the first block and in the instruction's own.
pub(super) fn assigned_before(function: &Function, at: usize) -> Vec<Reg> {
    let body = &function.body;
    let mut regs = function.param_regs();
    let blocks = blocks(body);
    let own = blocks.iter().find(|block| block.contains(&at)).map_or(0..0, |block| block.start..at);
    let first = blocks.first().map_or(0..0, |block| block.start..block.end.min(at));
    for at in first.chain(own) {
        regs.extend(reads_and_writes(body, &body.code[at]).1);
    }
    regs.sort_unstable();
    regs.dedup();
    regs
}

impl Mutator<'_> {
    /// A register of this type that may be read before an instruction, if one is easily found.
    pub(super) fn readable(&mut self, function: usize, at: usize, ty: ValueType) -> Option<Reg> {
        let function = &self.def.functions[function];
        let mut regs = assigned_before(function, at);
        regs.retain(|&reg| type_of(&function.body, reg) == Some(ty));
        self.pick(&regs)
    }

    /// A basic block of a function, which may grow.
    pub(super) fn block(&mut self) -> Option<(usize, Range<usize>)> {
        let (function, _) = self.gap()?;
        let blocks = blocks(&self.def.functions[function].body);
        Some((function, self.pick(&blocks)?))
    }

    /// Some instructions in a row, none of which is a terminator or belongs to a fork.
    pub(super) fn straight(&mut self, most: usize) -> Option<(usize, Range<usize>)> {
        let (function, block) = self.block()?;
        let code = &self.def.functions[function].body.code;
        let is_straight = |at: &usize| !code[*at].op.is_terminator() && !is_of_group(code[*at].op);
        let starts: Vec<usize> = block.clone().filter(is_straight).collect();
        let start = self.pick(&starts)?;
        let code = &self.def.functions[function].body.code;
        let is_straight = |at: &usize| !code[*at].op.is_terminator() && !is_of_group(code[*at].op);
        let longest = (start..block.end).take(most).take_while(is_straight).count();
        Some((function, start..start + self.dice.usize(1..=longest)))
    }
}
