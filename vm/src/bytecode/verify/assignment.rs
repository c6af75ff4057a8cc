//! The rule on assignment: no path reads a register that it has not written.
//!
//! A forward dataflow problem over basic blocks: a register is *unassigned* at the start of a block if some path from
//! the function's start gets there without writing it. A read that no write precedes in its block is an error if its
//! register is unassigned there. Most registers are only read in the block that writes them and never come into it; the
//! others are numbered densely and followed 64 at a time, so that memory is two words per block. A sweep in reverse
//! postorder sees a loop-free function once, and needs one sweep more per nesting of loops; the number of steps is
//! limited because irreducible control flow can need one per block.

use super::{Fault, Report, Rule, limits};
use crate::bytecode::isa::Reg;
use crate::bytecode::module::{Body, Function};
use crate::preparation::flow::FlowGraph;
use crate::running::meter::Watch;

/// Checks a function in which registers, lists and targets are in range and the last instruction is a terminator.
pub(super) fn check(function: &Function, report: &mut Report) {
    let flow = FlowGraph::of(&function.body, &Watch::none()).expect("verifying has no limit of time");
    let facts = Facts::new(function, &flow);
    let order = Order::new(&flow);
    let least_steps = facts.registers.len().div_ceil(64) as u64 * order.sweep_steps();
    if report.flow_steps + least_steps > limits::FLOW_STEPS_MAX {
        return fail_limit(report);
    }
    let mut unassigned = vec![0u64; flow.blocks().len()];
    let mut written = unassigned.clone();
    let mut errors = Vec::new();
    let (mut reads, mut writes) = (&facts.reads[..], &facts.writes[..]);
    for first in (0..facts.registers.len() as u32).step_by(64) {
        let in_chunk = |register: u32| register - first < 64;
        let chunk_reads = split(&mut reads, |read| in_chunk(read.register));
        let chunk_writes = split(&mut writes, |write| in_chunk(write.register));
        written.fill(0);
        for write in chunk_writes {
            written[write.block as usize] |= 1 << (write.register - first);
        }
        unassigned.fill(0);
        let count = facts.registers.len() as u32 - first;
        unassigned[0] = if count < 64 { (1 << count) - 1 } else { u64::MAX };
        if !propagate(&order, &written, &mut unassigned, &mut report.flow_steps) {
            return fail_limit(report);
        }
        let bad = |read: &&Read| unassigned[read.block as usize] >> (read.register - first) & 1 == 1;
        errors.extend(chunk_reads.iter().filter(bad).map(|read| (read.register, read.inst)));
    }
    // One error for each register, where it is read first.
    errors.sort_unstable();
    errors.dedup_by_key(|error| error.0);
    errors.sort_unstable_by_key(|error| error.1);
    for (register, inst) in errors {
        let reg = facts.registers[register as usize];
        let expected = format!("a write to {reg} on every path to here");
        report.fail_at(inst as usize, Fault::new(Rule::Assignment, expected, "a path without one"));
    }
}

fn fail_limit(report: &mut Report) {
    let expected = format!("at most {} steps to check assignment in the module", limits::FLOW_STEPS_MAX);
    report.fail(Rule::FlowLimit, expected, "more".into());
}

/// Takes the entries for which `belongs` holds off the front of a sorted slice.
fn split<'a, T>(slice: &mut &'a [T], belongs: impl Fn(&T) -> bool) -> &'a [T] {
    let (front, rest) = slice.split_at(slice.partition_point(belongs));
    *slice = rest;
    front
}

/// Carries the bits of unassigned registers along all edges until nothing changes. False if the budget runs out.
fn propagate(order: &Order<'_>, written: &[u64], unassigned: &mut [u64], steps: &mut u64) -> bool {
    let mut changed = true;
    while changed {
        *steps += order.sweep_steps();
        if *steps > limits::FLOW_STEPS_MAX {
            return false;
        }
        changed = false;
        for &block in order.flow.order() {
            let out = unassigned[block as usize] & !written[block as usize];
            for &successor in order.flow.successors(block as usize) {
                let into = &mut unassigned[successor as usize];
                // An edge to a block that comes later is followed in this sweep, and needs no other.
                changed |= out & !*into != 0 && order.rank[successor as usize] <= order.rank[block as usize];
                *into |= out;
            }
        }
    }
    true
}

/// The order of sweeps over the blocks.
struct Order<'a> {
    flow: &'a FlowGraph,
    /// The place of each block in it.
    rank: Vec<u32>,
}

impl<'a> Order<'a> {
    fn new(flow: &'a FlowGraph) -> Self {
        let mut rank = vec![0; flow.blocks().len()];
        for (at, &block) in (0..).zip(flow.order()) {
            rank[block as usize] = at;
        }
        Order { flow, rank }
    }

    /// What one sweep over all blocks counts.
    fn sweep_steps(&self) -> u64 {
        (self.flow.blocks().len() + self.flow.edge_count()) as u64
    }
}

/// A read that no write precedes in its block. Registers are numbers in [`Facts::registers`].
struct Read {
    register: u32,
    block: u32,
    inst: u32,
}

/// A block that writes a register.
struct Write {
    register: u32,
    block: u32,
}

/// What blocks do to the registers that they don't keep to themselves.
#[derive(Default)]
struct Facts {
    /// The registers with an entry in `reads`, parameters excepted.
    registers: Vec<Reg>,
    /// Sorted by register.
    reads: Vec<Read>,
    /// Sorted by register.
    writes: Vec<Write>,
}

impl Facts {
    fn new(function: &Function, flow: &FlowGraph) -> Facts {
        let banks = Banks::new(function);
        let mut facts = Facts::default();
        let mut numbers = vec![u32::MAX; banks.len()];
        // One more than the last block that did it, for each register.
        let (mut read_in, mut written_in) = (vec![0u32; banks.len()], vec![0u32; banks.len()]);
        for block in 0..flow.blocks().len() as u32 {
            banks.for_each_access(flow, block, |index, reg, inst| match inst {
                Some(inst) if written_in[index] <= block && read_in[index] <= block => {
                    read_in[index] = block + 1;
                    if numbers[index] == u32::MAX {
                        numbers[index] = facts.registers.len() as u32;
                        facts.registers.push(reg);
                    }
                    facts.reads.push(Read { register: numbers[index], block, inst });
                }
                Some(_) => {}
                None => written_in[index] = block + 1,
            });
        }
        written_in.fill(0);
        for block in 0..flow.blocks().len() as u32 {
            banks.for_each_access(flow, block, |index, _, inst| {
                if inst.is_none() && numbers[index] != u32::MAX && written_in[index] <= block {
                    written_in[index] = block + 1;
                    facts.writes.push(Write { register: numbers[index], block });
                }
            });
        }
        facts.reads.sort_by_key(|read| read.register);
        facts.writes.sort_by_key(|write| write.register);
        facts
    }
}

/// All registers of a function in one numbering, without those that hold parameters.
struct Banks<'a> {
    body: &'a Body,
    /// How many registers of each bank hold parameters.
    params: [usize; 3],
    /// Where each bank starts in the numbering.
    starts: [usize; 4],
}

impl<'a> Banks<'a> {
    fn new(function: &'a Function) -> Self {
        let body = &function.body;
        let mut params = [0; 3];
        for ty in &function.params {
            params[ty.bank() as usize] += 1;
        }
        let (reals, ints) = (body.reals as usize, body.ints as usize);
        Banks { body, params, starts: [0, reals, reals + ints, reals + ints + body.refs.len()] }
    }

    fn len(&self) -> usize {
        self.starts[3]
    }

    /// Visits a block's reads, with their instruction, and writes, without one, in the order of execution.
    fn for_each_access(&self, flow: &FlowGraph, block: u32, mut visit: impl FnMut(usize, Reg, Option<u32>)) {
        let mut visit = |reg: Reg, inst| {
            let index = usize::from(reg.index);
            if index >= self.params[reg.bank as usize] {
                visit(self.starts[reg.bank as usize] + index, reg, inst);
            }
        };
        let range = flow.blocks()[block as usize];
        for at in range.start..range.end {
            let inst = &self.body.code[at as usize];
            self.body.shown(inst).iter().for_each(|&reg| visit(reg, Some(at)));
            for written in [false, true] {
                self.body.for_each_reg(inst, |reg, def| {
                    if def == written {
                        visit(reg, (!written).then_some(at));
                    }
                });
            }
        }
    }
}
