//! Mutations of single instructions and of instructions in a row.

use super::code::{edit, has_targets, is_of_group, reads_and_writes, regs_mut, regs_of, splice, type_of};
use super::{Dice, INSTRUCTIONS_MAX, Mutator};
use dualvm_vm::isa::{Bank, Op, Operand, Reg, Role};
use dualvm_vm::module::ValueType;

/// Integers at which something may change.
const INTS: [i64; 24] = [
    0,
    1,
    -1,
    2,
    3,
    4,
    7,
    8,
    16,
    63,
    64,
    65,
    255,
    256,
    257,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    1 << 32,
    (1 << 53) + 1,
    -(1 << 31),
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
];

/// Reals at which something may change, as bits: two of them are NaN, one with the sign set and a payload.
const REALS: [u64; 18] = [
    0,
    1 << 63,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x3fe0_0000_0000_0000,
    0x4000_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff8_0000_0000_1234,
    1,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x3ff0_0000_0000_0001,
    0x43e0_0000_0000_0000,
    0xc3e0_0000_0000_0000,
    0x3fb9_9999_9999_999a,
];

/// A place with registers among its operands, one of these, and whether it is written.
fn some_register(this: &mut Mutator<'_>) -> Option<(usize, usize, usize, Reg, bool)> {
    let (function, at) = this.place_of(|function, inst| {
        let (reads, writes) = reads_and_writes(&function.body, inst);
        !reads.is_empty() || !writes.is_empty()
    })?;
    let body = &this.def.functions[function].body;
    let mut all = Vec::new();
    for operand in body.operands(&body.code[at])? {
        match operand {
            Operand::Def(reg) => all.push((reg, true)),
            Operand::Use(reg) => all.push((reg, false)),
            Operand::Defs(list) => all.extend(list.into_iter().map(|reg| (reg, true))),
            Operand::Uses(list) => all.extend(list.into_iter().map(|reg| (reg, false))),
            _ => {}
        }
    }
    let which = this.dice.usize(..all.len());
    let (reg, written) = all[which];
    Some((function, at, which, reg, written))
}

fn set_register(this: &mut Mutator<'_>, function: usize, at: usize, which: usize, reg: Reg) -> Option<()> {
    edit(&mut this.def.functions[function].body, at, |operands| {
        *regs_mut(operands).swap_remove(which) = reg;
        Some(())
    })
}

/// An operand becomes another register of its type.
pub(super) fn another_register(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at, which, reg, written) = some_register(this)?;
    let ty = type_of(&this.def.functions[function].body, reg)?;
    let other = if written || this.dice.one_in(4) {
        let all = regs_of(&this.def.functions[function].body, ty);
        this.pick(&all)?
    } else {
        this.readable(function, at, ty)?
    };
    set_register(this, function, at, which, other)
}

/// An operand becomes any register of any bank, or one that isn't there.
pub(super) fn any_register(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at, which, reg, _) = some_register(this)?;
    let body = &this.def.functions[function].body;
    let bank = if this.dice.one_in(3) { this.dice.pick(&[Bank::Real, Bank::Int, Bank::Ref]) } else { reg.bank };
    let count = [body.reals, body.ints, body.refs.len() as u32][bank as usize].min(0xffff) as u16;
    let index = match this.dice.u8(..4) {
        0 => count,
        1 => this.dice.pick(&[count.wrapping_sub(1), 0, 255, 256, 64_999, 0xffff]),
        _ => this.dice.u16(..count.max(1)),
    };
    set_register(this, function, at, which, Reg { bank, index })
}

/// Two operands of one instruction change places.
pub(super) fn operands_swapped(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at, ..) = some_register(this)?;
    let body = &this.def.functions[function].body;
    let (reads, writes) = reads_and_writes(body, &body.code[at]);
    let count = reads.len() + writes.len();
    let (a, b) = (this.dice.usize(..count), this.dice.usize(..count));
    edit(&mut this.def.functions[function].body, at, |operands| {
        let mut regs = regs_mut(operands);
        let (first, second) = (*regs[a], *regs[b]);
        (*regs[a], *regs[b]) = (second, first);
        (first != second).then_some(())
    })
}

/// A list of registers loses an entry, or gets one twice.
pub(super) fn list_changed(this: &mut Mutator<'_>) -> Option<()> {
    let has_list = |op: Op| op.info().operands.iter().any(|o| matches!(o.role, Role::Uses | Role::Defs));
    let (function, at) = this.place_of(|_, inst| has_list(inst.op))?;
    let body = &mut this.def.functions[function].body;
    let dice = &mut *this.dice;
    edit(body, at, |operands| {
        let mut lists: Vec<&mut Vec<Reg>> = operands
            .iter_mut()
            .filter_map(|operand| match operand {
                Operand::Uses(list) | Operand::Defs(list) if !list.is_empty() => Some(list),
                _ => None,
            })
            .collect();
        if lists.is_empty() {
            return None;
        }
        let which = dice.usize(..lists.len());
        let list = &mut *lists[which];
        let entry = dice.usize(..list.len());
        if dice.bool() {
            list.remove(entry);
        } else {
            list.insert(dice.usize(..=list.len()), list[entry]);
        }
        Some(())
    })
}

/// A register becomes another one of its type throughout a function.
pub(super) fn registers_merged(this: &mut Mutator<'_>) -> Option<()> {
    let (function, _, _, reg, _) = some_register(this)?;
    let body = &this.def.functions[function].body;
    let all = regs_of(body, type_of(body, reg)?);
    let other = this.pick(&all).filter(|&other| other != reg)?;
    let body = &mut this.def.functions[function].body;
    for at in 0..body.code.len() {
        let (reads, writes) = reads_and_writes(body, &body.code[at]);
        if reads.contains(&reg) || writes.contains(&reg) {
            let _ = edit(body, at, |operands| {
                regs_mut(operands).into_iter().filter(|found| **found == reg).for_each(|found| *found = other);
                Some(())
            });
        }
    }
    Some(())
}

/// An opcode becomes another one with operands of the same roles.
pub(super) fn opcode_alike(this: &mut Mutator<'_>) -> Option<()> {
    let roles = |op: Op| op.info().operands.iter().map(|operand| operand.role).collect::<Vec<_>>();
    let alike = |op: Op| -> Vec<Op> {
        let roles_of_op = roles(op);
        Op::ALL.iter().copied().filter(|&other| other != op && roles(other) == roles_of_op).collect()
    };
    let (function, at) = this.place()?;
    let others = alike(this.def.functions[function].body.code[at].op);
    let op = this.pick(&others)?;
    this.def.functions[function].body.code[at].op = op;
    Some(())
}

/// An opcode becomes any other one; its operands are what the bits happen to say.
pub(super) fn any_opcode(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place()?;
    this.def.functions[function].body.code[at].op = this.dice.pick(Op::ALL);
    Some(())
}

/// A constant, a field, a tag, a count or the number of a message, a template or an import becomes another one.
pub(super) fn another_immediate(this: &mut Mutator<'_>) -> Option<()> {
    let is_immediate = |role| {
        let is_number = matches!(role, Role::Real | Role::Int | Role::Field | Role::Tag | Role::Count);
        is_number || matches!(role, Role::Message | Role::Template | Role::Import)
    };
    let has_one = |op: Op| op.info().operands.iter().any(|operand| is_immediate(operand.role));
    let (function, at) = this.place_of(|_, inst| has_one(inst.op))?;
    let body = &mut this.def.functions[function].body;
    let dice = &mut *this.dice;
    let near = |dice: &mut Dice, n: u16| match dice.u8(..4) {
        0 => dice.pick(&[0, 254, 255, 256, 0xffff]),
        1 => n.wrapping_sub(1),
        2 => n.wrapping_add(1),
        _ => dice.u16(..4),
    };
    edit(body, at, |operands| {
        for operand in operands {
            match operand {
                Operand::Field(n) | Operand::Tag(n) | Operand::Count(n) => *n = near(dice, *n),
                Operand::Message(n) | Operand::Template(n) | Operand::Import(n) => *n = near(dice, *n as u16).into(),
                Operand::Real(x) => *x = f64::from_bits(dice.pick(&REALS)),
                Operand::Int(n) if dice.bool() => *n = n.wrapping_add(dice.i64(-2..=2)),
                Operand::Int(n) => *n = dice.pick(&INTS),
                _ => {}
            }
        }
        Some(())
    })
}

/// Bits change where they stand, whatever they mean.
pub(super) fn bits_flipped(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place()?;
    let bit = this.dice.u32(..112);
    let inst = &mut this.def.functions[function].body.code[at];
    match bit {
        0..16 => inst.a ^= 1 << bit,
        16..32 => inst.b ^= 1 << (bit - 16),
        32..48 => inst.c ^= 1 << (bit - 32),
        _ => inst.imm ^= 1 << (bit - 48),
    }
    Some(())
}

/// Some instructions in a row.
fn a_few(this: &mut Mutator<'_>) -> Option<(usize, std::ops::Range<usize>)> {
    if this.dice.one_in(8) {
        // Whatever they are.
        let (function, at) = this.place()?;
        let len = this.def.functions[function].body.code.len();
        return Some((function, at..(at + this.dice.usize(1..4)).min(len)));
    }
    this.straight(4)
}

pub(super) fn deleted(this: &mut Mutator<'_>) -> Option<()> {
    let (function, range) = a_few(this)?;
    splice(&mut this.def.functions[function].body, range, &[], true);
    Some(())
}

/// Instructions stand a second time, in a place of the same function.
pub(super) fn copied(this: &mut Mutator<'_>) -> Option<()> {
    let (function, range) = a_few(this)?;
    let body = &mut this.def.functions[function].body;
    if body.code.len() >= INSTRUCTIONS_MAX {
        return None;
    }
    let copy = body.code[range.clone()].to_vec();
    let to = if this.dice.bool() { range.end } else { this.dice.usize(..=body.code.len()) };
    splice(body, to..to, &copy, this.dice.bool());
    Some(())
}

pub(super) fn swapped(this: &mut Mutator<'_>) -> Option<()> {
    let (function, a) = this.place()?;
    let body = &mut this.def.functions[function].body;
    let b = if this.dice.bool() { a + 1 } else { this.dice.usize(..body.code.len()) };
    (b < body.code.len()).then(|| body.code.swap(a, b))
}

pub(super) fn moved(this: &mut Mutator<'_>) -> Option<()> {
    let (function, range) = a_few(this)?;
    let body = &mut this.def.functions[function].body;
    let moved = body.code[range.clone()].to_vec();
    splice(body, range.clone(), &[], true);
    let near = range.start.saturating_sub(4)..=(range.start + 4).min(body.code.len());
    let to = if this.dice.bool() { this.dice.usize(near) } else { this.dice.usize(..=body.code.len()) };
    splice(body, to..to, &moved, this.dice.bool());
    Some(())
}

/// Instructions of another function or another module, with operands that are there.
pub(super) fn spliced(this: &mut Mutator<'_>) -> Option<()> {
    let donor = if this.dice.bool() { this.def.clone() } else { this.bases.fixed(this.dice).clone() };
    let from = &donor.functions[this.dice.usize(..donor.functions.len())];
    let (function, to) = this.gap()?;
    let start = this.dice.usize(..from.body.code.len());
    let end = (start + this.dice.usize(1..12)).min(from.body.code.len());
    let mut new = Vec::new();
    for inst in &from.body.code[start..end] {
        if (has_targets(inst.op) || is_of_group(inst.op)) && !this.dice.one_in(8) {
            break;
        }
        let mut operands = from.body.operands(inst)?;
        let reads = reads_and_writes(&from.body, inst).0;
        for reg in regs_mut(&mut operands) {
            let ty = match type_of(&from.body, *reg)? {
                ValueType::Ref(id) => {
                    let wanted = donor.types.get(id.index())?;
                    let types = &this.def.types;
                    let id = types.iter().position(|ty| ty == wanted)?;
                    ValueType::Ref(dualvm_vm::module::TypeId(id as u32))
                }
                other => other,
            };
            let all = regs_of(&this.def.functions[function].body, ty);
            let found = if reads.contains(reg) { this.readable(function, to, ty) } else { this.pick(&all) };
            *reg = found.or_else(|| this.pick(&all))?;
        }
        let count = |n: usize| n.max(1) as u32;
        let counts = (count(this.def.functions.len()), count(this.def.messages.len()), count(this.def.templates.len()));
        let body = &mut this.def.functions[function].body;
        for operand in &mut operands {
            match operand {
                Operand::Func(func) => *func %= counts.0,
                Operand::Message(message) => *message %= counts.1,
                Operand::Template(template) => *template %= counts.2,
                Operand::Import(import) => *import %= count(this.def.imports.len()),
                Operand::Target(target) => *target %= body.code.len() as u32,
                Operand::Targets(list) => list.iter_mut().for_each(|target| *target %= body.code.len() as u32),
                _ => {}
            }
        }
        new.push(body.pack(inst.op, &operands).ok()?);
    }
    splice(&mut this.def.functions[function].body, to..to, &new, this.dice.bool());
    (!new.is_empty()).then_some(())
}
