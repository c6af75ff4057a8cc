//! Mutations of the flow of control: targets, blocks, code that nothing reaches, and loops.

use super::Mutator;
use super::code::{blocks, edit, has_targets, jump, new_int, pack, splice};
use dualvm_vm::isa::{Inst, Op, Operand, Reg};
use dualvm_vm::module::Body;
use std::ops::Range;

impl Mutator<'_> {
    /// An integer register that may be read before an instruction.
    fn condition(&mut self, function: usize, at: usize) -> Option<Reg> {
        self.readable(function, at, dualvm_vm::module::ValueType::Int)
    }

    /// A place in the code of a function to jump to, as the program stands.
    fn target(&mut self, function: usize, at: usize) -> u32 {
        let body = &self.def.functions[function].body;
        let len = body.code.len() as u32;
        match self.dice.u8(..16) {
            0..8 => {
                let blocks = blocks(body);
                self.pick(&blocks).map_or(0, |block| block.start as u32)
            }
            8..10 => at as u32 + 1,
            10 | 11 => at as u32,
            12 => 0,
            13 => self.dice.pick(&[len, len.wrapping_sub(1), u32::MAX, 1 << 31]),
            _ => self.dice.u32(..len.max(1)),
        }
    }
}

/// Takes a place of an instruction that can be followed by another one: the gap after it is in its block.
fn inner_gap(this: &mut Mutator<'_>) -> Option<(usize, usize)> {
    let (function, range) = this.straight(1)?;
    Some((function, range.end))
}

/// A jump, an arm of a branch or of a switch leads somewhere else.
pub(super) fn another_target(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| has_targets(inst.op))?;
    let target = this.target(function, at);
    let dice = &mut *this.dice;
    edit(&mut this.def.functions[function].body, at, |operands| {
        let mut targets: Vec<&mut u32> = Vec::new();
        for operand in operands {
            match operand {
                Operand::Target(target) => targets.push(target),
                Operand::Targets(list) => targets.extend(list),
                _ => {}
            }
        }
        let which = dice.usize(..targets.len());
        *targets[which] = target;
        Some(())
    })
}

pub(super) fn branch_from_jump(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| inst.op == Op::Jump)?;
    let (cond, other) = (this.condition(function, at)?, this.target(function, at));
    let body = &mut this.def.functions[function].body;
    let same = body.code[at].low();
    let (then, other) = if this.dice.bool() { (same, other) } else { (other, same) };
    body.code[at] = pack(body, Op::Branch, &[Operand::Use(cond), Operand::Target(then), Operand::Target(other)]);
    Some(())
}

pub(super) fn jump_from_branch(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| inst.op == Op::Branch)?;
    let body = &mut this.def.functions[function].body;
    let inst = body.code[at];
    let target = if this.dice.bool() { inst.low() } else { inst.high() };
    body.code[at] = jump(body, target as usize);
    Some(())
}

/// A branch becomes a switch, on the same condition, with its arms as some of the targets.
pub(super) fn switch_from_branch(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| inst.op == Op::Branch)?;
    let inst = this.def.functions[function].body.code[at];
    let count = if this.dice.one_in(6) { this.dice.usize(100..400) } else { this.dice.usize(..6) };
    let other = this.target(function, at);
    let choices = [inst.low(), inst.high(), inst.low(), inst.high(), other];
    let targets = (0..count).map(|_| this.dice.pick(&choices)).collect();
    let body = &mut this.def.functions[function].body;
    let operands = [Operand::Use(Reg::int(inst.a)), Operand::Targets(targets), Operand::Target(inst.high())];
    body.code[at] = pack(body, Op::Switch, &operands);
    Some(())
}

pub(super) fn block_cut(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = inner_gap(this)?;
    let body = &mut this.def.functions[function].body;
    let inst = jump(body, at + 1);
    splice(body, at..at, &[inst], this.dice.bool());
    Some(())
}

/// The instructions of a block, and a jump to what follows it if it doesn't end in a terminator.
fn closed(body: &mut Body, block: &Range<usize>) -> Vec<Inst> {
    let mut code = body.code[block.clone()].to_vec();
    if !code.last().is_some_and(|inst| inst.op.is_terminator()) {
        code.push(jump(body, block.end));
    }
    code
}

/// A copy of a block stands at the end; one of the ways to the block leads to the copy. That changes no result.
pub(super) fn block_copied(this: &mut Mutator<'_>) -> Option<()> {
    let (function, block) = this.block()?;
    let body = &mut this.def.functions[function].body;
    let copy = closed(body, &block);
    let at = body.code.len();
    body.code.extend(copy);
    let first = Operand::Target(block.start as u32);
    let ways: Vec<usize> = {
        let body = &this.def.functions[function].body;
        let leads_there = |inst: &Inst| body.operands(inst).is_some_and(|operands| operands.contains(&first));
        (0..at).filter(|&at| leads_there(&body.code[at])).collect()
    };
    let way = this.pick(&ways)?;
    edit(&mut this.def.functions[function].body, way, |operands| {
        let target = operands.iter_mut().find(|operand| **operand == first);
        *target? = Operand::Target(at as u32);
        Some(())
    })
}

/// A block stands at the end, and where it was is a jump to it. That changes no result.
pub(super) fn block_moved(this: &mut Mutator<'_>) -> Option<()> {
    let (function, block) = this.block()?;
    let body = &mut this.def.functions[function].body;
    let moved = closed(body, &block);
    let at = body.code.len();
    body.code.extend(moved);
    let there = jump(body, at + 1 - block.len());
    splice(body, block, &[there], true);
    Some(())
}

/// A block is left out: where it was is a jump to what follows it, or back to the start.
pub(super) fn block_left_out(this: &mut Mutator<'_>) -> Option<()> {
    let (function, block) = this.block()?;
    let body = &mut this.def.functions[function].body;
    let next = if block.end < body.code.len() { block.start + 1 } else { 0 };
    let inst = jump(body, next);
    splice(body, block, &[inst], true);
    Some(())
}

/// Some instructions of a function, to be put elsewhere in it.
fn some_code(this: &mut Mutator<'_>, function: usize) -> Vec<Inst> {
    let code = &this.def.functions[function].body.code;
    let start = this.dice.usize(..code.len());
    let end = (start + this.dice.usize(1..8)).min(code.len());
    let is_plain = |inst: &&Inst| !matches!(inst.op, Op::Fork | Op::Task);
    code[start..end].iter().take_while(is_plain).copied().collect()
}

/// After a terminator stands code that nothing leads to, and that leads anywhere.
pub(super) fn dead_code(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| inst.op.is_terminator())?;
    let mut dead = some_code(this, function);
    let target = this.target(function, at);
    let body = &mut this.def.functions[function].body;
    let at = at + 1;
    // As what was there before stands behind it.
    let target = if target as usize >= at { target as usize + dead.len() + 1 } else { target as usize };
    dead.push(jump(body, target));
    splice(body, at..at, &dead, false);
    Some(())
}

/// Code that a jump leads around.
pub(super) fn code_jumped_over(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = inner_gap(this)?;
    let over = some_code(this, function);
    let body = &mut this.def.functions[function].body;
    let mut new = vec![jump(body, at + 1 + over.len())];
    new.extend(over);
    splice(body, at..at, &new, this.dice.bool());
    Some(())
}

/// An integer constant in a register.
fn constant(body: &mut Body, reg: Reg, value: i64) -> Inst {
    pack(body, Op::IConst, &[Operand::Def(reg), Operand::Int(value)])
}

/// Registers for a loop that counts down to zero, and what stands before it and at its end.
struct Counter {
    before: Vec<Inst>,
    step: Vec<Inst>,
    cond: Reg,
}

impl Counter {
    fn new(body: &mut Body, rounds: i64) -> Counter {
        let [left, one, zero, cond] = std::array::from_fn(|_| new_int(body));
        let before = [(left, rounds), (one, 1), (zero, 0)].map(|(reg, value)| constant(body, reg, value)).to_vec();
        let (of_left, of_zero) = (Operand::Use(left), Operand::Use(zero));
        let step = vec![
            pack(body, Op::ISub, &[Operand::Def(left), of_left.clone(), Operand::Use(one)]),
            pack(body, Op::ILt, &[Operand::Def(cond), of_zero, of_left]),
        ];
        Counter { before, step, cond }
    }

    fn branch(&self, body: &mut Body, head: usize, after: usize) -> Inst {
        let targets = [head, after].map(|target| Operand::Target(target as u32));
        let [head, after] = targets;
        pack(body, Op::Branch, &[Operand::Use(self.cond), head, after])
    }
}

fn rounds(this: &mut Mutator<'_>) -> i64 {
    if this.dice.one_in(12) { this.dice.i64(100..2_000) } else { this.dice.i64(0..12) }
}

/// Instructions in a row become the body of a loop of one block, which is recorded as one if they allow it.
pub(super) fn loop_around(this: &mut Mutator<'_>) -> Option<()> {
    let (function, range) = this.straight(24)?;
    let rounds = rounds(this);
    let body = &mut this.def.functions[function].body;
    let counter = Counter::new(body, rounds);
    let head = range.start + counter.before.len();
    let mut new = counter.before.clone();
    new.extend_from_slice(&body.code[range.clone()]);
    new.extend_from_slice(&counter.step);
    new.push(counter.branch(body, head, range.start + new.len() + 1));
    splice(body, range, &new, true);
    Some(())
}

/// A branch back to any block, or forth, that is taken a few times in a call of the function.
pub(super) fn way_back(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = inner_gap(this)?;
    let rounds = rounds(this);
    let target = this.target(function, at) as usize;
    let body = &mut this.def.functions[function].body;
    let counter = Counter::new(body, rounds);
    let before = counter.before.len();
    // In front of everything, so that jumps to the first instruction don't count anew.
    splice(body, 0..0, &counter.before, false);
    let at = at + before;
    let target = target.saturating_add(before);
    let target = if target >= at { target.saturating_add(3) } else { target };
    let mut new = counter.step.clone();
    new.push(counter.branch(body, target, at + 3));
    splice(body, at..at, &new, this.dice.bool());
    Some(())
}
