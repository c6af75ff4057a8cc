//! Finding the loops that are recorded as one, and what an iteration of each computes.
//!
//! Such a loop is a cycle of basic blocks with one way out: blocks that lead to each other by jumps, up to a block that
//! ends in a branch back to the first of them or out. A rotated loop is one block; a loop with its test at the head is
//! its body followed by a copy of the head. The *path* is the blocks of an iteration in order. It may hold scalar
//! instructions, copies, constants, loads from arrays, and one push of a real to a builder, nothing else: then no
//! iteration allocates, calls, or touches a word that the loop doesn't give anew when it ends.
//!
//! Which loops qualify depends on the code alone, because the order of sums in the sweep follows from it.

use crate::bytecode::isa::{Bank, Inst, Op};
use crate::bytecode::module::Body;
use crate::derivation::graph::NodeId;
use crate::preparation::flow::{Block, FlowGraph};
use crate::preparation::liveness::{RegSet, step_back};
use crate::preparation::segmentation::INPUTS_MAX;
use crate::preparation::stretch::{Constants, Push, Stretch, Walk};
use crate::running::meter::Watch;
use crate::trap::TrapKind;

/// A path has at most this many blocks.
const BLOCKS_MAX: usize = 16;
/// A path has at most this many instructions, which bounds the registers that its record takes.
const PATH_MAX: usize = 512;
/// A path has at most this many scalar instructions with a real result.
const REAL_OPS_MAX: usize = 256;

/// A real register that the loop writes and someone reads later, in the next iteration or after the loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) reg: u16,
    /// What it holds when an iteration ends.
    pub(crate) node: NodeId,
    /// Whether it is read after the loop.
    pub(crate) live_after: bool,
    /// Whether a derivative may flow back to it from there.
    pub(crate) useful_after: bool,
}

/// A loop that is recorded as one.
#[derive(Debug)]
pub(crate) struct Loop {
    /// Where it is entered.
    pub(crate) start: u32,
    /// The blocks of an iteration in order; the last one ends in the branch.
    pub(crate) path: Vec<Block>,
    /// Where it leads to.
    pub(crate) exit: u32,
    /// Whether it goes on while the branch's condition is not 0, or while it is 0.
    pub(crate) while_true: bool,
    /// What an iteration computes; at most one push is among it.
    pub(crate) iteration: Stretch,
    /// Real registers in order.
    pub(crate) state: Vec<State>,
}

impl Loop {
    /// What each iteration appends to a builder.
    pub(crate) fn push(&self) -> Option<Push> {
        self.iteration.pushes.first().copied()
    }
}

/// The loops of a function. `live` are the registers that are live at the end of each block, `useful` those that are
/// useful there, `active` those that may be active at its beginning; `None` is everything.
///
/// # Errors
/// What the watch says.
pub(crate) fn find(
    body: &Body,
    flow: &FlowGraph,
    [live, useful, active]: [Option<&[RegSet]>; 3],
    constants: &Constants<'_>,
    watch: &Watch<'_>,
) -> Result<Vec<Loop>, TrapKind> {
    let mut loops = Vec::new();
    for (index, &block) in flow.blocks().iter().enumerate() {
        watch.tick(BLOCKS_MAX)?;
        let Some(cycle) = cycle(body, flow, block) else { continue };
        // A path has few instructions, but what it shows and liveness look at may be more, and at all registers.
        let after = [cycle.path[0].start, cycle.exit].map(|start| flow.blocks()[flow.block_at(start)]);
        let instructions: u32 = cycle.path.iter().chain(&after).map(|block| block.end - block.start).sum();
        watch.tick(8 * PATH_MAX + instructions as usize + body.reals as usize / 16)?;
        let walk = Walk::new(body, constants, active.map(|active| &active[index]), None);
        let path = cycle.path.iter().flat_map(|block| block.start..block.end);
        let Some(iteration) = walk.run(path).ok().filter(qualifies) else { continue };
        let live_at = |target: u32| {
            let index = flow.block_at(target);
            live.map(|live| live_before(body, Bank::Real, flow.blocks()[index], &live[index]))
        };
        let (again, after) = (live_at(block.start), live_at(cycle.exit));
        let useful_after = useful.map(|useful| &useful[flow.block_at(cycle.path[cycle.path.len() - 1].start)]);
        let contains = |live: &Option<RegSet>, reg| live.as_ref().is_none_or(|live| live.contains(reg));
        let mut state = Vec::new();
        for (&reg, &node) in iteration.ends.iter().filter(|(reg, _)| reg.bank == Bank::Real) {
            let live_after = contains(&after, reg.index);
            if live_after || contains(&again, reg.index) {
                let useful_after = live_after && useful_after.is_none_or(|useful| useful.contains(reg.index));
                state.push(State { reg: reg.index, node, live_after, useful_after });
            }
        }
        if !state.is_empty() || !iteration.pushes.is_empty() {
            let Cycle { path, exit, while_true } = cycle;
            loops.push(Loop { start: block.start, path, exit, while_true, iteration, state });
        }
    }
    Ok(loops)
}

/// Whether an iteration is one that a record can hold. Pushes to two registers could be to one builder.
fn qualifies(iteration: &Stretch) -> bool {
    iteration.real_inputs.len() <= INPUTS_MAX && iteration.real_ops <= REAL_OPS_MAX && iteration.pushes.len() <= 1
}

/// The registers of a bank that are live before a block, from those that are after it.
pub(crate) fn live_before(body: &Body, bank: Bank, block: Block, live_after: &RegSet) -> RegSet {
    let mut live = live_after.clone();
    for inst in body.code[block.start as usize..block.end as usize].iter().rev() {
        step_back(body, bank, inst, &mut live);
    }
    live
}

struct Cycle {
    path: Vec<Block>,
    exit: u32,
    while_true: bool,
}

/// The cycle of blocks that begins with `first`.
fn cycle(body: &Body, flow: &FlowGraph, first: Block) -> Option<Cycle> {
    let mut path = vec![first];
    while path.len() <= BLOCKS_MAX {
        let block = path[path.len() - 1];
        let last: &Inst = &body.code[block.end as usize - 1];
        let next = match last.op {
            Op::Jump => last.low(),
            Op::Branch => {
                let (then, other) = (last.low(), last.high());
                let len: usize = path.iter().map(|block| body.computing(block.start..block.end)).sum();
                if (then == first.start) == (other == first.start) || len > PATH_MAX {
                    return None;
                }
                let while_true = then == first.start;
                return Some(Cycle { path, exit: if while_true { other } else { then }, while_true });
            }
            op if op.is_terminator() => return None,
            _ => block.end,
        };
        path.push(flow.blocks()[flow.block_at(next)]);
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::preparation::activity::active_in;
    use crate::preparation::liveness::{live_out, useful_out};
    use crate::preparation::segmentation::constant_registers;

    /// A function of two reals, an array and an integer with this code, and how control flows in it.
    pub(crate) fn body_of(code: &str) -> (Body, FlowGraph) {
        let source = format!(
            "type t0 = array real\ntype t1 = array int\nfunc f0 \"f\" (real, real, t0, int) -> (real)
             regs 8 real, 8 int, t0, t1\n{{\n{code}\n}}"
        );
        let mut def = crate::bytecode::text::parse(&source, "test.dvs").expect("the code is well-formed");
        let body = def.functions.remove(0).body;
        let flow = FlowGraph::of(&body, &Watch::none()).expect("nobody stops it");
        (body, flow)
    }

    /// The loops of a function with `code`.
    pub(crate) fn loops_of(code: &str) -> Vec<Loop> {
        let (body, flow) = body_of(code);
        let (body, watch) = (&body, Watch::none());
        let live = live_out(body, Bank::Real, &flow, &watch).expect("nobody stops it");
        let constants = |bank, params| constant_registers(body, &flow, bank, params, &watch).expect("nobody stops it");
        let (reals, ints) = (constants(Bank::Real, 2), constants(Bank::Int, 1));
        let active = active_in(body, 2, &flow, &watch).expect("nobody stops it");
        let useful = useful_out(body, &flow, &watch).expect("nobody stops it");
        let sets = [live.as_deref(), useful.as_deref(), active.as_deref()];
        find(body, &flow, sets, &Constants { reals: &reals, ints: &ints }, &watch).expect("nobody stops it")
    }

    /// A loop with its test at the end, with this body.
    pub(crate) fn rotated(body: &str) -> String {
        format!(
            "iconst i1, 0\n iconst i2, 1\n jump body\n body:\n {body}\n iadd i1, i1, i2\n ilt i3, i1, i0
             branch i3, body, done\n done:\n ret (r0)"
        )
    }

    #[test]
    fn a_block_that_leads_to_itself_is_a_loop() {
        let found = loops_of(&rotated("elem r2, p0, i1\n fma r0, r2, r1, r0"));
        assert_eq!((found.len(), found[0].start, found[0].path.len(), found[0].exit), (1, 3, 1, 8));
        let state: Vec<(u16, bool)> = found[0].state.iter().map(|state| (state.reg, state.live_after)).collect();
        assert_eq!(state, [(0, true)]);
        assert_eq!(found[0].iteration.real_inputs.len(), 3);
    }

    #[test]
    fn a_body_and_its_test_at_the_head_are_a_loop() {
        let found = loops_of(
            "iconst i1, 0\n iconst i2, 1\n test:\n ilt i3, i1, i0\n branch i3, body, done\n body:\n sin r0, r0\n jump on
             on:\n iadd i1, i1, i2\n jump test\n done:\n ret (r0)",
        );
        assert_eq!(found.len(), 1);
        let starts: Vec<u32> = found[0].path.iter().map(|block| block.start).collect();
        assert_eq!((starts, found[0].exit, found[0].while_true), (vec![4, 6, 2], 8, true));
    }

    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes, and there is no unsafe code in what it tests")]
    fn what_allocates_or_has_two_ways_is_no_loop() {
        let none = |code: &str| assert!(loops_of(code).is_empty(), "{code}");
        none(&rotated("pack p1 (r0, r1)\n sin r0, r0"));
        none(&rotated("pmov p1, p0\n sin r0, r0"));
        none(&rotated("call f0 (r0, r1, p0, i1) -> (r0)"));
        none(&rotated("fork 2\n task f0 (r0, r1, p0, i1) -> (r0)\n task f0 (r0, r1, p0, i1) -> (r1)"));
        none(&rotated("sin r0, r0\n pmap p1, f0, i0 (r0)"));
        none(&rotated("branch i1, one, other\n one:\n sin r0, r0\n jump on\n other:\n cos r0, r0\n jump on\n on:"));
        none(&rotated("iadd i4, i1, i2"));
        none("jump again\n again:\n sin r0, r0\n jump again");
        none("jump again\n again:\n sin r0, r0\n branch i0, again, again");
    }

    #[test]
    #[cfg_attr(miri, ignore = "it is about hundreds of instructions")]
    fn what_is_too_long_is_no_loop() {
        let none = |code: &str| assert!(loops_of(&rotated(code)).is_empty());
        none(&"sin r0, r0\n".repeat(REAL_OPS_MAX + 1));
        none(&"iadd i4, i1, i2\n".repeat(PATH_MAX));
    }

    #[test]
    fn what_is_only_compared_after_a_loop_is_not_useful_there() {
        let code = rotated("elem r2, p0, i1\n fma r0, r2, r1, r0\n mul r1, r1, r2");
        let found = loops_of(&code.replace("ret (r0)", "lt i1, r0, r1\n to_real r0, i1\n mul r0, r0, r1\n ret (r0)"));
        let state: Vec<(u16, [bool; 2])> =
            found[0].state.iter().map(|state| (state.reg, [state.live_after, state.useful_after])).collect();
        assert_eq!(state, [(0, [true, false]), (1, [true, true])]);
    }

    #[test]
    fn equal_loads_are_one_input() {
        let found = loops_of(&rotated("elem r2, p0, i1\n elem r3, p0, i1\n fma r0, r2, r3, r0"));
        assert_eq!(found[0].iteration.real_inputs.len(), 2);
    }
}
