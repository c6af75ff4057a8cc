//! Code in which every instruction with a real result is a segment of its own, and is looked at when it has been
//! executed: for runs that look for numbers that aren't finite.
//!
//! The record of such a segment holds all that the instruction has read, so that a tape of these is a trace of the run:
//! from a slot to the record that gives it, to the slots of its operands, and so on. Two things are added to a function
//! so that this is true. An instruction that writes a register which it reads is given a copy of it. And the rounds of
//! each loop are counted, in registers of their own.

use super::flow::{Block, FlowGraph};
use super::liveness;
use super::nesting;
use super::segmentation::{self, Segment};
use crate::bytecode::isa::{Bank, Reg, Role};
use crate::bytecode::module::{Body, Function};
use crate::code::{CheckedOperand, CountedBlock, CountedLoop};
use crate::derivation::graph::{Graph, Node, NodeId};
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use std::collections::HashMap;

/// Registers of a bank that a function may have. One that has more, or nearly, has no counters.
const REGISTERS_MAX: usize = 1 << 16;
/// Loops around an instruction whose rounds are told: the innermost ones.
const LOOPS_MAX: usize = 8;

/// A function that is ready to be looked at.
pub(super) struct Checked {
    /// With the registers that were added.
    pub(super) function: Function,
    pub(super) flow: FlowGraph,
    pub(super) segments: Vec<Segment>,
    pub(super) checks: Checks,
}

/// What else the emitter is to write.
#[derive(Default)]
pub(super) struct Checks {
    /// For instructions that would write what they read: the register. They read a copy.
    copied: HashMap<u32, u16>,
    /// The register of the copy.
    pub(super) copy: u16,
    counters: Vec<Counter>,
    /// For each block the counters of the loops around it, the outermost first.
    around: Vec<Box<[u32]>>,
    /// For each block the counters of the loops that it leads into.
    before: HashMap<usize, Vec<u16>>,
    /// The register that holds 1 where it is needed.
    pub(super) one: u16,
    /// The constants of the function.
    constants: HashMap<u16, u64>,
}

/// What counts the rounds of a loop.
struct Counter {
    head: usize,
    /// The instruction that tells where the loop is.
    inst: u32,
    register: u16,
}

impl Checks {
    /// The register that is copied before an instruction.
    pub(super) fn copied(&self, inst: u32) -> Option<u16> {
        self.copied.get(&inst).copied()
    }

    /// All counters, which begin before their first rounds.
    pub(super) fn counters(&self) -> impl Iterator<Item = u16> + '_ {
        self.counters.iter().map(|counter| counter.register)
    }

    /// The counter of the loop that begins with a block.
    pub(super) fn counter_of(&self, head: usize) -> Option<u16> {
        self.counters.iter().find(|counter| counter.head == head).map(|counter| counter.register)
    }

    /// The counters of loops that control may enter when it leaves a block.
    pub(super) fn entered_from(&self, block: usize) -> &[u16] {
        self.before.get(&block).map_or(&[], |counters| counters)
    }

    fn loops_around(&self, block: usize) -> impl Iterator<Item = &Counter> {
        let around: &[u32] = self.around.get(block).map_or(&[], |around| around);
        around[around.len().saturating_sub(LOOPS_MAX)..].iter().map(|&counter| &self.counters[counter as usize])
    }

    /// The loops around each block that is in any.
    pub(super) fn counted(&self, flow: &FlowGraph) -> Box<[CountedBlock]> {
        let blocks = flow.blocks().iter().enumerate();
        let counted = blocks.map(|(index, block)| {
            let loops = self.loops_around(index).map(|&Counter { inst, register, .. }| CountedLoop {
                head: inst,
                rounds: register,
                input: 0,
            });
            CountedBlock { block: block.start..block.end, loops: loops.collect() }
        });
        counted.filter(|counted| !counted.loops.is_empty()).collect()
    }

    /// What the instruction of a segment reads, and the loops around it.
    pub(super) fn site(&self, body: &Body, segment: &Segment) -> (Box<[CheckedOperand]>, Box<[CountedLoop]>) {
        let position = |list: &[u16], register: u16| list.iter().position(|&known| known == register);
        let mut operands = Vec::with_capacity(3);
        body.for_each_reg(&body.code[segment.start as usize], |register, def| {
            if !def {
                let constant = self.constants.get(&register.index).filter(|_| register.bank == Bank::Real);
                let inputs = if register.bank == Bank::Real { &segment.real_inputs } else { &segment.int_inputs };
                let input = position(inputs, register.index).map(|input| input as u32);
                operands.push(CheckedOperand { register, input, constant: constant.copied().unwrap_or(0) });
            }
        });
        let loops = segment.loops.iter().map(|&(head, rounds)| {
            let input = position(&segment.int_inputs, rounds).expect("counters are inputs") as u32;
            CountedLoop { head, rounds, input }
        });
        (operands.into(), loops.collect())
    }
}

/// Makes a function ready.
///
/// # Errors
/// What the watch says.
pub(super) fn checked(function: &Function, watch: &Watch<'_>) -> Result<Checked, TrapKind> {
    let mut function = function.clone();
    let flow = FlowGraph::of(&function.body, watch)?;
    let mut checks = Checks::default();
    count_rounds(&mut function.body, &flow, &mut checks, watch)?;
    // What is copied is read all the same.
    let original = function.body.clone();
    copy_operands(&mut function.body, &flow, &mut checks, watch)?;
    let body = &function.body;
    let params = function.params.iter().filter(|ty| ty.bank() == Bank::Real).count();
    checks.constants = segmentation::constant_registers(body, &flow, Bank::Real, params, watch)?;
    let live = liveness::live_out(&original, Bank::Real, &flow, watch)?;
    let mut segments = Vec::new();
    for (index, &block) in flow.blocks().iter().enumerate() {
        let first = segments.len();
        for at in (block.start..block.end).filter(|&at| is_checked(body, at)) {
            watch.tick(16)?;
            segments.push(segment(body, at, index, &checks));
        }
        let live = live.as_ref().map(|live| &live[index]);
        segmentation::keep_live(&original, block, live, &mut segments[first..], watch)?;
    }
    Ok(Checked { function, flow, segments, checks })
}

/// Whether an instruction computes a real out of reals.
fn is_checked(body: &Body, at: u32) -> bool {
    let op = body.code[at as usize].op;
    let real_result = op.info().operands.first().is_some_and(|operand| operand.role == Role::Def(Bank::Real));
    op.is_scalar() && real_result && !op.makes_constant()
}

/// Gives instructions that write what they read a copy.
fn copy_operands(body: &mut Body, flow: &FlowGraph, checks: &mut Checks, watch: &Watch<'_>) -> Result<(), TrapKind> {
    checks.copy = body.reals as u16;
    if body.reals as usize + 1 >= REGISTERS_MAX {
        // Too many to be differentiated anyway.
        return Err(TrapKind::TooLargeToDerive { order: 1 });
    }
    body.reals += 1;
    let copy = checks.copy;
    for &Block { start, end } in flow.blocks() {
        for at in start..end {
            watch.tick(2)?;
            if !is_checked(body, at) {
                continue;
            }
            let inst = &mut body.code[at as usize];
            let (written, mut found) = (Reg::real(inst.a), false);
            Body::rename_regs(inst, |register, def| {
                let renamed = !def && register == written;
                found |= renamed;
                if renamed { copy } else { register.index }
            });
            if found {
                checks.copied.insert(at, written.index);
            }
        }
    }
    Ok(())
}

/// Finds the loops and gives each a register.
fn count_rounds(body: &mut Body, flow: &FlowGraph, checks: &mut Checks, watch: &Watch<'_>) -> Result<(), TrapKind> {
    let before = flow.predecessors();
    let Some((loops, _)) = nesting::loops(flow, &before, watch)? else { return Ok(()) };
    if loops.is_empty() || body.ints as usize + loops.len() + 1 >= REGISTERS_MAX {
        return Ok(());
    }
    let mut around = vec![Vec::new(); flow.blocks().len()];
    for (number, found) in loops.iter().enumerate() {
        let register = (body.ints as usize + number) as u16;
        // Control comes back from where the loop's own code ends.
        let latch = found.latches.iter().map(|&latch| flow.blocks()[latch].end - 1).max().unwrap_or(0);
        checks.counters.push(Counter { head: found.head, inst: latch, register });
        for &block in &found.blocks {
            watch.tick(1)?;
            around[block].push(number as u32);
        }
        for &block in before.of(found.head) {
            if found.blocks.binary_search(&(block as usize)).is_err() {
                checks.before.entry(block as usize).or_default().push(register);
            }
        }
    }
    checks.around = around.into_iter().map(Vec::into_boxed_slice).collect();
    checks.one = (body.ints as usize + loops.len()) as u16;
    body.ints += loops.len() as u32 + 1;
    Ok(())
}

/// The segment that an instruction of a block is.
fn segment(body: &Body, at: u32, block: usize, checks: &Checks) -> Segment {
    let inst = body.code[at as usize];
    let mut segment = Segment { start: at, end: at + 1, ..Segment::default() };
    let mut args: Vec<NodeId> = Vec::with_capacity(3);
    body.for_each_reg(&inst, |register, def| {
        if !def {
            args.push(match register.bank {
                Bank::Real => match checks.constants.get(&register.index) {
                    Some(&bits) => segment.graph.add(Node::Real(bits)),
                    None => input(&mut segment.graph, &mut segment.real_inputs, register.index, Node::RealInput),
                },
                _ => input(&mut segment.graph, &mut segment.int_inputs, register.index, Node::IntInput),
            });
        }
    });
    let node = segment.graph.op(inst.op, &args);
    for counter in checks.loops_around(block) {
        input(&mut segment.graph, &mut segment.int_inputs, counter.register, Node::IntInput);
        segment.loops.push((counter.inst, counter.register));
    }
    segment.writes.push((at, inst.a, node));
    segment.outputs.push((inst.a, node));
    segment
}

/// The node of a register that is read.
fn input(graph: &mut Graph, inputs: &mut Vec<u16>, register: u16, node: fn(u32) -> Node) -> NodeId {
    let number = inputs.iter().position(|&known| known == register).unwrap_or_else(|| {
        inputs.push(register);
        inputs.len() - 1
    });
    graph.add(node(number as u32))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::code::{Inst, Mode, Stream};
    use crate::preparation::{Grain, prepare};
    use crate::running::meter::Watch;

    /// The stream of a loop that adds up square roots and writes what it reads.
    fn stream(mode: Mode, grain: Grain) -> Stream {
        let source = "func f0 \"f\" (real, int) -> (real)\n regs 2 real, 3 int\n{\n iconst i1, 1\n sqrt r1, r0
            head:\n add r1, r1, r0\n sqrt r0, r0\n isub i0, i0, i1\n branch i0, head, done\n done:\n ret (r1)\n}";
        let def = crate::bytecode::text::parse(source, "test.dvs").expect("the code is well-formed");
        let prepared = prepare(&def, &def.functions[0], (mode, grain), &Watch::none());
        prepared.expect("nobody stops it").stream
    }

    #[test]
    fn every_real_is_looked_at_where_that_is_asked_for_and_nowhere_else() {
        for depth in 0..2 {
            for mode in [Mode::PRIMAL, Mode::RECORDING].map(|mode| mode.at_depth(depth)) {
                let count =
                    |stream: &Stream| stream.code.iter().filter(|inst| matches!(inst, Inst::Check { .. })).count();
                assert_eq!(count(&stream(mode, Grain::Instruction)), 3, "{mode:?}");
                for grain in [Grain::Region, Grain::Segment] {
                    let plain = stream(mode, grain);
                    assert_eq!((count(&plain), plain.checks.is_empty(), plain.ints), (0, true, plain.ints));
                }
            }
        }
    }

    #[test]
    fn a_check_reads_what_its_instruction_has_read_and_not_what_it_has_written() {
        let stream = stream(Mode::RECORDING, Grain::Instruction);
        assert_eq!(stream.checks.iter().count(), 3);
        for site in &stream.checks {
            assert!(site.operands.iter().all(|operand| operand.register != site.result), "{site:?}");
            let record = site.record.as_ref().expect("all of them are read");
            let saved = site.operands.iter().filter(|operand| operand.input.is_some()).count();
            let inputs = record.saved_reals.iter().filter(|&&input| input != u32::MAX).count();
            assert_eq!((inputs, record.saved_ints.len()), (saved, site.loops.len()));
        }
        let rounds: Vec<usize> = stream.checks.iter().map(|site| site.loops.len()).collect();
        assert_eq!(rounds, [0, 1, 1]);
    }
}
