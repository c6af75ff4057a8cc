//! The rule on assignment: no path reads a register that it has not written.
//!
//! A forward dataflow problem over basic blocks: a register is *unassigned* at the start of a block if some path from
//! the function's start gets there without writing it. A read that no write precedes in its block is an error if its
//! register is unassigned there. Most registers are only read in the block that writes them and never come into it; the
//! others are numbered densely and followed 64 at a time, so that memory is two words per block. A sweep in reverse
//! postorder sees a loop-free function once, and needs one sweep more per nesting of loops; the number of steps is
//! limited because irreducible control flow can need one per block.

use super::{Fault, Report, Rule, limits};
use crate::isa::{Inst, Operand, Reg, Role};
use crate::module::{Body, Function};

/// Checks a function in which registers, lists and targets are in range and the last instruction is a terminator.
pub(super) fn check(function: &Function, report: &mut Report) {
    let graph = Graph::new(&function.body);
    let facts = Facts::new(function, &graph);
    let least_steps = facts.registers.len().div_ceil(64) as u64 * graph.sweep_steps();
    if report.flow_steps + least_steps > limits::FLOW_STEPS_MAX {
        return fail_limit(report);
    }
    let mut unassigned = vec![0u64; graph.len()];
    let mut written = vec![0u64; graph.len()];
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
        if !propagate(&graph, &written, &mut unassigned, &mut report.flow_steps) {
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
fn propagate(graph: &Graph, written: &[u64], unassigned: &mut [u64], steps: &mut u64) -> bool {
    let mut changed = true;
    while changed {
        *steps += graph.sweep_steps();
        if *steps > limits::FLOW_STEPS_MAX {
            return false;
        }
        changed = false;
        for block in 0..graph.len() {
            let out = unassigned[block] & !written[block];
            for &successor in graph.successors(block) {
                let into = &mut unassigned[successor as usize];
                // An edge to a later block is followed in this sweep, and needs no other.
                changed |= out & !*into != 0 && successor as usize <= block;
                *into |= out;
            }
        }
    }
    true
}

/// The basic blocks that can be reached, in reverse postorder, and the edges between them.
struct Graph {
    /// First instruction and the one after the last.
    blocks: Vec<(u32, u32)>,
    /// Where each block's successors start in `successors`; one more entry ends the last.
    starts: Vec<u32>,
    successors: Vec<u32>,
}

impl Graph {
    fn len(&self) -> usize {
        self.blocks.len()
    }

    /// What one sweep over all blocks counts.
    fn sweep_steps(&self) -> u64 {
        (self.len() + self.successors.len()) as u64
    }

    fn successors(&self, block: usize) -> &[u32] {
        &self.successors[self.starts[block] as usize..self.starts[block + 1] as usize]
    }

    fn new(body: &Body) -> Graph {
        let leaders = leaders(body);
        let postorder = postorder(body, &leaders);
        let mut position = vec![u32::MAX; body.code.len()];
        for (at, &start) in postorder.iter().rev().enumerate() {
            position[start as usize] = at as u32;
        }
        let mut graph = Graph { blocks: Vec::new(), starts: vec![0], successors: Vec::new() };
        let mut successors = Vec::new();
        for &start in postorder.iter().rev() {
            let end = block_end(start, body, &leaders);
            block_successors(end, body, &mut successors);
            graph.blocks.push((start, end));
            graph.successors.extend(successors.iter().map(|&successor| position[successor as usize]));
            graph.starts.push(graph.successors.len() as u32);
        }
        graph
    }
}

/// For each instruction, whether it starts a basic block.
fn leaders(body: &Body) -> Vec<bool> {
    let mut leaders = vec![false; body.code.len() + 1];
    leaders[0] = true;
    let mut targets = Vec::new();
    for (at, inst) in body.code.iter().enumerate() {
        if inst.op.is_terminator() || has_targets(inst) {
            leaders[at + 1] = true;
            targets.clear();
            push_targets(inst, body, &mut targets);
            for &target in &targets {
                leaders[target as usize] = true;
            }
        }
    }
    leaders
}

fn has_targets(inst: &Inst) -> bool {
    inst.op.info().operands.iter().any(|operand| matches!(operand.role, Role::Target | Role::Targets))
}

fn push_targets(inst: &Inst, body: &Body, out: &mut Vec<u32>) {
    for operand in operands(inst, body) {
        match operand {
            Operand::Target(target) => out.push(target),
            Operand::Targets(list) => out.extend_from_slice(&list),
            _ => {}
        }
    }
}

fn operands(inst: &Inst, body: &Body) -> Vec<Operand> {
    body.operands(inst).expect("lists were found to be inside the pools")
}

fn block_end(start: u32, body: &Body, leaders: &[bool]) -> u32 {
    let mut end = start + 1;
    while !leaders[end as usize] && (end as usize) < body.code.len() {
        end += 1;
    }
    end
}

/// The first instructions of the blocks after the block that ends before `end`, each once.
fn block_successors(end: u32, body: &Body, out: &mut Vec<u32>) {
    out.clear();
    let last = &body.code[end as usize - 1];
    push_targets(last, body, out);
    if !last.op.is_terminator() {
        out.push(end);
    }
    out.sort_unstable();
    out.dedup();
}

/// The starts of all blocks that can be reached, each after its successors in a depth-first search.
fn postorder(body: &Body, leaders: &[bool]) -> Vec<u32> {
    let mut seen = vec![false; body.code.len()];
    let mut postorder = Vec::new();
    // A block on the path, and its successors still to be visited: the tail of `pending` from an index on.
    let mut path = Vec::new();
    let mut pending: Vec<u32> = Vec::new();
    let mut successors = Vec::new();
    let mut next = Some(0);
    loop {
        if let Some(start) = next {
            seen[start as usize] = true;
            path.push((start, pending.len()));
            block_successors(block_end(start, body, leaders), body, &mut successors);
            pending.extend(successors.iter().filter(|&&successor| !seen[successor as usize]));
        }
        let Some(&(start, base)) = path.last() else { return postorder };
        next = None;
        while next.is_none() && pending.len() > base {
            next = pending.pop().filter(|&successor| !seen[successor as usize]);
        }
        if next.is_none() {
            path.pop();
            postorder.push(start);
        }
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
    fn new(function: &Function, graph: &Graph) -> Facts {
        let banks = Banks::new(function);
        let mut facts = Facts::default();
        let mut numbers = vec![u32::MAX; banks.len()];
        // One more than the last block that did it, for each register.
        let (mut read_in, mut written_in) = (vec![0u32; banks.len()], vec![0u32; banks.len()]);
        for block in 0..graph.len() as u32 {
            banks.for_each_access(graph, block, |index, reg, inst| match inst {
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
        for block in 0..graph.len() as u32 {
            banks.for_each_access(graph, block, |index, _, inst| {
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
    fn for_each_access(&self, graph: &Graph, block: u32, mut visit: impl FnMut(usize, Reg, Option<u32>)) {
        let mut visit = |reg: Reg, inst| {
            let index = usize::from(reg.index);
            if index >= self.params[reg.bank as usize] {
                visit(self.starts[reg.bank as usize] + index, reg, inst);
            }
        };
        let (start, end) = graph.blocks[block as usize];
        for at in start..end {
            let operands = operands(&self.body.code[at as usize], self.body);
            for operand in &operands {
                match operand {
                    Operand::Use(reg) => visit(*reg, Some(at)),
                    Operand::Uses(list) => list.iter().for_each(|&reg| visit(reg, Some(at))),
                    _ => {}
                }
            }
            for operand in &operands {
                match operand {
                    Operand::Def(reg) => visit(*reg, None),
                    Operand::Defs(list) => list.iter().for_each(|&reg| visit(reg, None)),
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Op;

    /// Code of jumps and branches on `i0`.
    fn body(code: &[(Op, &[u32])]) -> Body {
        let mut body = Body { ints: 1, ..Body::default() };
        for (op, targets) in code {
            let mut operands: Vec<Operand> = targets.iter().map(|&target| Operand::Target(target)).collect();
            match op {
                Op::Branch => operands.insert(0, Operand::Use(Reg::int(0))),
                Op::Ret => operands.push(Operand::Uses(vec![])),
                _ => {}
            }
            body.push(*op, &operands).expect("the operands have the table's roles");
        }
        body
    }

    #[test]
    fn blocks_come_before_their_successors_but_for_loops() {
        let body =
            body(&[(Op::Branch, &[1, 3]), (Op::Jump, &[3]), (Op::Ret, &[]), (Op::Branch, &[0, 4]), (Op::Ret, &[])]);
        let graph = Graph::new(&body);
        let starts: Vec<u32> = graph.blocks.iter().map(|block| block.0).collect();
        assert_eq!(starts, [0, 1, 3, 4], "instruction 2 can't be reached");
        let forward = |block: usize| graph.successors(block).iter().all(|&successor| successor as usize > block);
        assert!((0..2).all(forward));
        assert_eq!(graph.successors(2), [0, 3]);
    }
}
