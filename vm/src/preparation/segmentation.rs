//! Cutting a block into segments: maximal runs of real arithmetic that are recorded as one.
//!
//! A segment covers a range of instructions of one basic block. Its *body* are the scalar instructions with a real
//! result and the copies of reals in that range; everything else in it is *transparent*: integer work, comparisons,
//! loads, allocation. While a segment runs, primals are computed as always and words stand still; at its end one record
//! is written and the outputs get their words. Hence the invariant that the cut keeps: between the first use of a
//! register by a segment and the segment's end, nothing outside of the segment's body reads or writes a word that the
//! segment changes, and nothing but the body writes a real register that it has touched.
//!
//! Where to cut depends on the code alone, never on what runs it: the order of sums in the sweep follows from it.

use crate::bytecode::isa::{Bank, Op, Role};
use crate::bytecode::module::Body;
use crate::derivation::graph::{Graph, Node, NodeId};
use crate::preparation::flow::{Block, FlowGraph};
use crate::preparation::liveness::{RegSet, step_back};
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use std::collections::{BTreeSet, HashMap};

/// A segment has at most this many instructions in its body.
const BODY_MAX: usize = 256;
/// A segment has at most this many real inputs, and so has an iteration of a loop that is recorded as one, so that a
/// record's site holds a set of them in a word.
pub(crate) const INPUTS_MAX: usize = 64;

/// A segment of a block, before its adjoint is derived.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    /// The instructions that it covers.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// What its body computes.
    pub(crate) graph: Graph,
    /// The register that each real input of the graph comes from.
    pub(crate) real_inputs: Vec<u16>,
    /// The register that each integer input of the graph comes from.
    pub(crate) int_inputs: Vec<u16>,
    /// For each real register that the body writes, in order, the node that it holds at the end; only registers that
    /// are live there.
    pub(crate) outputs: Vec<(u16, NodeId)>,
    /// Where the body writes registers: instruction, register, node.
    pub(crate) writes: Vec<(u32, u16, NodeId)>,
    /// Loops around it whose rounds are counted, the outermost first: an instruction that tells where the loop is, and
    /// the register that counts, which is an input. None where nobody asks.
    pub(crate) loops: Vec<(u32, u16)>,
}

/// Registers of a bank with one definition in the whole function, a constant: they have the same value wherever they
/// are read. The values are given as bits; the first registers of the bank are parameters.
///
/// # Errors
/// What the watch says.
pub(crate) fn constant_registers(
    body: &Body,
    flow: &FlowGraph,
    bank: Bank,
    params: usize,
    watch: &Watch<'_>,
) -> Result<HashMap<u16, u64>, TrapKind> {
    let (len, op) = if bank == Bank::Real { (body.reals, Op::Const) } else { (body.ints, Op::IConst) };
    let mut definitions = vec![0u32; len as usize];
    definitions[..params].fill(1);
    let reached = || flow.blocks().iter().flat_map(|block| &body.code[block.start as usize..block.end as usize]);
    for inst in reached() {
        watch.tick(2)?;
        body.for_each_reg(inst, |reg, def| {
            if def && reg.bank == bank {
                definitions[usize::from(reg.index)] += 1;
            }
        });
    }
    let constants = reached().filter(|inst| inst.op == op && definitions[usize::from(inst.a)] == 1);
    Ok(constants.map(|inst| (inst.a, inst.imm)).collect())
}

/// Cuts a block. `live_out` is what is live at its end; `None` is everything, everywhere.
///
/// # Errors
/// What the watch says.
pub(crate) fn cut(
    body: &Body,
    block: Block,
    live_out: Option<&RegSet>,
    constants: &HashMap<u16, u64>,
    watch: &Watch<'_>,
) -> Result<Vec<Segment>, TrapKind> {
    let mut cutter = Cutter { body, constants, open: None, done: Vec::new() };
    for at in block.start..block.end {
        watch.tick(16)?;
        cutter.step(at);
    }
    cutter.close(block.end);
    let mut segments = cutter.done;
    keep_live(body, block, live_out, &mut segments, watch)?;
    Ok(segments)
}

/// Keeps of each segment of a block the outputs that are live at its end. `live_out` is what is live at the end of the
/// block; `None` is everything, everywhere.
///
/// # Errors
/// What the watch says.
pub(crate) fn keep_live(
    body: &Body,
    block: Block,
    live_out: Option<&RegSet>,
    segments: &mut [Segment],
    watch: &Watch<'_>,
) -> Result<(), TrapKind> {
    let Some(mut live) = live_out.cloned() else { return Ok(()) };
    let mut pending = segments.iter_mut().rev().peekable();
    for at in (block.start..block.end).rev() {
        if let Some(segment) = pending.next_if(|segment| segment.end == at + 1) {
            segment.outputs.retain(|(reg, _)| live.contains(*reg));
        }
        watch.tick(2)?;
        step_back(body, Bank::Real, &body.code[at as usize], &mut live);
    }
    Ok(())
}

/// A segment that may still grow.
#[derive(Default)]
struct Open {
    segment: Segment,
    body_len: usize,
    /// The node that each touched real register holds.
    current: HashMap<u16, NodeId>,
    /// Real registers that the body has written.
    written: BTreeSet<u16>,
    /// Integer registers that the body has read.
    int_inputs: HashMap<u16, NodeId>,
}

struct Cutter<'a> {
    body: &'a Body,
    constants: &'a HashMap<u16, u64>,
    open: Option<Open>,
    done: Vec<Segment>,
}

impl Cutter<'_> {
    fn step(&mut self, at: u32) {
        let inst = self.body.code[at as usize];
        let real_result = matches!(inst.op.info().operands.first().map(|o| o.role), Some(Role::Def(Bank::Real)));
        if inst.op.is_scalar() && real_result && !inst.op.makes_constant() {
            self.scalar(at);
        } else if inst.op == Op::Mov && self.open.is_some() {
            self.copy(at);
        } else {
            if self.disturbs(at) {
                self.close(at);
            }
            if let Some(open) = &mut self.open {
                open.segment.end = at + 1;
            }
        }
    }

    /// Whether an instruction outside of the body would break the open segment's invariant.
    fn disturbs(&self, at: u32) -> bool {
        let Some(open) = &self.open else { return false };
        let inst = &self.body.code[at as usize];
        let calls = inst.op.calls();
        if calls || inst.op.is_terminator() {
            return true;
        }
        let reads_primal_only = inst.op.is_scalar();
        let mut disturbs = false;
        self.body.for_each_reg(inst, |reg, def| {
            disturbs |= match (reg.bank, def) {
                (Bank::Real, true) => open.current.contains_key(&reg.index),
                (Bank::Real, false) => !reads_primal_only && open.written.contains(&reg.index),
                (Bank::Int, true) => open.int_inputs.contains_key(&reg.index),
                _ => false,
            }
        });
        disturbs
    }

    fn scalar(&mut self, at: u32) {
        let inst = self.body.code[at as usize];
        if self.is_full(3) {
            self.close(at);
        }
        let mut args = Vec::with_capacity(3);
        self.body.for_each_reg(&inst, |reg, def| {
            if !def {
                args.push(reg);
            }
        });
        let args: Vec<NodeId> = args
            .into_iter()
            .map(|reg| if reg.bank == Bank::Real { self.real(at, reg.index) } else { self.int(at, reg.index) })
            .collect();
        let open = self.open_at(at);
        let node = open.segment.graph.op(inst.op, &args);
        open.body_len += 1;
        open.write(at, inst.a, node);
    }

    fn copy(&mut self, at: u32) {
        let inst = self.body.code[at as usize];
        if self.is_full(1) {
            // A copy on its own moves the word.
            return self.close(at);
        }
        let node = self.real(at, inst.b);
        let open = self.open_at(at);
        open.body_len += 1;
        open.write(at, inst.a, node);
    }

    /// Whether the open segment has no room for an instruction with so many inputs.
    fn is_full(&self, inputs: usize) -> bool {
        self.open
            .as_ref()
            .is_some_and(|open| open.body_len >= BODY_MAX || open.segment.real_inputs.len() + inputs > INPUTS_MAX)
    }

    fn open_at(&mut self, at: u32) -> &mut Open {
        self.open.get_or_insert_with(|| Open {
            segment: Segment { start: at, end: at, ..Segment::default() },
            ..Open::default()
        })
    }

    /// The node that a real register holds.
    fn real(&mut self, at: u32, reg: u16) -> NodeId {
        let constant = self.constants.get(&reg).copied();
        let open = self.open_at(at);
        if let Some(&node) = open.current.get(&reg) {
            return node;
        }
        let node = match constant {
            Some(bits) => open.segment.graph.add(Node::Real(bits)),
            None => {
                open.segment.real_inputs.push(reg);
                open.segment.graph.add(Node::RealInput(open.segment.real_inputs.len() as u32 - 1))
            }
        };
        open.current.insert(reg, node);
        node
    }

    /// The node that an integer register holds.
    fn int(&mut self, at: u32, reg: u16) -> NodeId {
        let open = self.open_at(at);
        let inputs = &mut open.segment.int_inputs;
        let graph = &mut open.segment.graph;
        *open.int_inputs.entry(reg).or_insert_with(|| {
            inputs.push(reg);
            graph.add(Node::IntInput(inputs.len() as u32 - 1))
        })
    }

    fn close(&mut self, at: u32) {
        let Some(open) = self.open.take() else { return };
        let mut segment = open.segment;
        segment.end = at;
        segment.outputs = open.written.iter().map(|reg| (*reg, open.current[reg])).collect();
        self.done.push(segment);
    }
}

impl Open {
    fn write(&mut self, at: u32, reg: u16, node: NodeId) {
        self.current.insert(reg, node);
        self.written.insert(reg);
        self.segment.writes.push((at, reg, node));
        self.segment.end = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preparation::liveness::live_out;
    use crate::preparation::rename::rename_loads;

    /// Start, end and output registers of the segments of a function on (real, real, array, int) with `code`.
    fn segments_of(code: &str) -> Vec<(u32, u32, Vec<u16>)> {
        let source = format!(
            "type t0 = array real\nfunc f0 \"f\" (real, real, t0, int) -> (real)\n regs 8 real, 4 int, t0, t0\n{{\n{code}\n}}"
        );
        let def = crate::bytecode::text::parse(&source, "test.dvs").expect("the code is well-formed");
        let mut body = def.functions[0].body.clone();
        let (watch, unstopped) = (Watch::none(), "nobody stops it");
        let flow = FlowGraph::of(&body, &watch).expect(unstopped);
        rename_loads(&mut body, flow.blocks(), &watch).expect(unstopped);
        let live = live_out(&body, Bank::Real, &flow, &watch).expect(unstopped).expect("the function is small");
        let constants = constant_registers(&body, &flow, Bank::Real, 2, &watch).expect(unstopped);
        let cut = flow
            .blocks()
            .iter()
            .zip(&live)
            .flat_map(|(&block, live)| cut(&body, block, Some(live), &constants, &watch).expect(unstopped));
        cut.map(|segment| {
            let outputs = segment.outputs.iter().map(|(reg, _)| *reg).collect();
            (segment.start, segment.end, outputs)
        })
        .collect()
    }

    #[test]
    fn a_segment_ends_before_a_fork_and_gives_what_its_tasks_take() {
        let found = segments_of(
            "sin r2, r0\n cos r3, r1\n exp r4, r3\n fork 2\n task f0 (r0, r4, p0, i0) -> (r4)
             task f0 (r2, r1, p0, i0) -> (r5)\n mul r4, r4, r5\n ret (r4)",
        );
        assert_eq!(found, [(0, 3, vec![2, 4]), (6, 7, vec![4])]);
    }

    #[test]
    fn a_segment_ends_before_a_parallel_map() {
        let found = segments_of("sin r2, r0\n cos r3, r1\n pmap p1, f0, i0 (r3)\n mul r2, r2, r1\n ret (r2)");
        assert_eq!(found, [(0, 2, vec![2, 3]), (3, 4, vec![2])]);
    }

    #[test]
    fn a_loaded_value_that_a_task_takes_keeps_its_register() {
        let found = segments_of(
            "elem r2, p0, i0\n sin r3, r2\n fork 1\n task f0 (r2, r3, p0, i0) -> (r4)\n elem r2, p0, i0
             mul r4, r4, r2\n ret (r4)",
        );
        assert_eq!(found, [(1, 2, vec![3]), (5, 6, vec![4])]);
    }
}
