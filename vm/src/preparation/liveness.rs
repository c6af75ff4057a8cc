//! Which registers of a bank are live at the ends of a function's blocks, and which reals are useful there.
//!
//! Used to decide which results of a segment anyone reads, and whether a builder outlives a loop. A live real is
//! *useful* if a derivative may flow back to it: not if it is only compared, rounded or detached, nor if all that is
//! made of it is (Hascoët, Naumann and Pascual 2005, "To be recorded" analysis in reverse-mode automatic
//! differentiation). Backward dataflow over bit sets; see [`WORK_MAX`] for its bound.

use crate::bytecode::isa::{Bank, Inst, Op};
use crate::bytecode::module::Body;
use crate::preparation::flow::{Block, FlowGraph};
use crate::running::meter::Watch;
use crate::trap::TrapKind;

/// Above this many bits of live sets, edges between blocks, or steps, every register counts as live everywhere:
/// segments then have outputs that nobody reads, which costs tape, not correctness. The bounds keep hostile functions
/// from taking gigabytes or minutes. A step looks at an instruction or at 64 registers.
const WORK_MAX: u64 = 1 << 28;
const EDGES_MAX: usize = 1 << 22;
const STEPS_MAX: u64 = 1 << 26;

/// A set of registers.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RegSet(Vec<u64>);

impl RegSet {
    pub(crate) fn new(len: u32) -> Self {
        RegSet(vec![0; len.div_ceil(64) as usize])
    }

    pub(crate) fn contains(&self, reg: u16) -> bool {
        self.0[usize::from(reg) / 64] >> (reg % 64) & 1 == 1
    }

    pub(crate) fn insert(&mut self, reg: u16) {
        self.0[usize::from(reg) / 64] |= 1 << (reg % 64);
    }

    pub(crate) fn remove(&mut self, reg: u16) {
        self.0[usize::from(reg) / 64] &= !(1 << (reg % 64));
    }

    /// The registers of both sets.
    pub(crate) fn and(&self, other: &RegSet) -> RegSet {
        RegSet(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    /// Adds the registers of another set; says whether that made a difference.
    pub(crate) fn union(&mut self, other: &RegSet) -> bool {
        let mut changed = 0;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            changed |= b & !*a;
            *a |= b;
        }
        changed != 0
    }
}

/// What dataflow over sets of registers may take.
pub(super) struct Effort {
    steps: u64,
    /// Words of a set.
    words: u64,
}

impl Effort {
    /// `None` if it would be too much from the beginning.
    pub(super) fn new(registers: u32, flow: &FlowGraph) -> Option<Effort> {
        let bits = flow.blocks().len() as u64 * u64::from(registers);
        let words = u64::from(registers / 64) + 1;
        (bits <= WORK_MAX && flow.edge_count() <= EDGES_MAX).then_some(Effort { steps: 0, words })
    }

    /// Looks at so many instructions and hands a set on to so many blocks. Says whether there is enough left for it.
    ///
    /// # Errors
    /// What the watch says.
    pub(super) fn spend(&mut self, instructions: u32, blocks: usize, watch: &Watch<'_>) -> Result<bool, TrapKind> {
        let looked_at = u64::from(instructions) + self.words * (1 + blocks as u64);
        watch.tick(looked_at as usize)?;
        self.steps += looked_at;
        Ok(self.steps <= STEPS_MAX)
    }
}

/// Steps a set of live registers of a bank backwards over one instruction.
pub(crate) fn step_back(body: &Body, bank: Bank, inst: &Inst, live: &mut RegSet) {
    body.for_each_reg(inst, |reg, def| {
        if reg.bank == bank && def {
            live.remove(reg.index);
        }
    });
    body.for_each_reg(inst, |reg, def| {
        if reg.bank == bank && !def {
            live.insert(reg.index);
        }
    });
}

/// Steps a set of useful real registers backwards over one instruction.
fn step_useful_back(body: &Body, inst: &Inst, useful: &mut RegSet) {
    let is_pure = inst.op == Op::Mov || inst.op.is_scalar();
    let hands_on = inst.op == Op::Mov || inst.op.info().differentiable;
    let mut wanted = !is_pure;
    body.for_each_reg(inst, |reg, def| {
        if reg.bank == Bank::Real && def {
            wanted |= hands_on && useful.contains(reg.index);
            useful.remove(reg.index);
        }
    });
    if wanted {
        body.for_each_reg(inst, |reg, def| {
            if reg.bank == Bank::Real && !def {
                useful.insert(reg.index);
            }
        });
    }
}

/// The registers of a bank that are live at the end of each block, or `None` if that takes too many steps: then all
/// count as live.
///
/// # Errors
/// What the watch says.
pub(crate) fn live_out(
    body: &Body,
    bank: Bank,
    flow: &FlowGraph,
    watch: &Watch<'_>,
) -> Result<Option<Vec<RegSet>>, TrapKind> {
    let registers = match bank {
        Bank::Real => body.reals,
        Bank::Int => body.ints,
        Bank::Ref => body.refs.len() as u32,
    };
    backwards(body, registers, flow, |inst, live| step_back(body, bank, inst, live), watch)
}

/// The real registers that are useful at the end of each block, or `None` if that takes too many steps: then all that
/// are live are.
///
/// # Errors
/// What the watch says.
pub(crate) fn useful_out(body: &Body, flow: &FlowGraph, watch: &Watch<'_>) -> Result<Option<Vec<RegSet>>, TrapKind> {
    backwards(body, body.reals, flow, |inst, useful| step_useful_back(body, inst, useful), watch)
}

/// The sets of registers at the end of each block, where `step` leads backwards over an instruction. `None` if that
/// takes too many steps.
fn backwards(
    body: &Body,
    registers: u32,
    flow: &FlowGraph,
    step: impl Fn(&Inst, &mut RegSet),
    watch: &Watch<'_>,
) -> Result<Option<Vec<RegSet>>, TrapKind> {
    let blocks = flow.blocks();
    let Some(mut effort) = Effort::new(registers, flow) else { return Ok(None) };
    let predecessors = flow.predecessors();
    let mut out = vec![RegSet::new(registers); blocks.len()];
    let mut queued = vec![true; blocks.len()];
    let mut work: Vec<usize> = flow.order().iter().map(|&block| block as usize).collect();
    while let Some(index) = work.pop() {
        queued[index] = false;
        let mut set = out[index].clone();
        let Block { start, end } = blocks[index];
        let before = predecessors.of(index);
        if !effort.spend(end - start, before.len(), watch)? {
            return Ok(None);
        }
        for inst in body.code[start as usize..end as usize].iter().rev() {
            step(inst, &mut set);
        }
        for &before in before {
            let before = before as usize;
            if out[before].union(&set) && !queued[before] {
                queued[before] = true;
                work.push(before);
            }
        }
    }
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preparation::loop_detection::tests::body_of;

    /// The useful registers at the end of the block that ends with the first jump.
    fn useful_at_the_first_jump(code: &str) -> Vec<u16> {
        let (body, flow) = body_of(code);
        let (body, watch) = (&body, Watch::none());
        let useful = useful_out(body, &flow, &watch).expect("nobody stops it").expect("it is little work");
        let jump = body.code.iter().position(|inst| inst.op == Op::Jump).expect("there is a jump");
        let block = flow.blocks().iter().position(|block| block.end as usize == jump + 1).expect("it ends a block");
        (0..8).filter(|&reg| useful[block].contains(reg)).collect()
    }

    #[test]
    fn what_is_compared_rounded_or_detached_is_not_useful() {
        let code = "mov r2, r0\n mov r3, r1\n mov r4, r0\n jump on\n on:\n lt i1, r2, r1\n floor r5, r3\n detach r6, r4
            add r5, r5, r6\n add r5, r5, r1\n ret (r5)";
        assert_eq!(useful_at_the_first_jump(code), [1]);
    }

    #[test]
    fn what_a_loop_only_compares_is_not_useful_though_it_carries_it() {
        let loop_with = |after: &str| {
            let code = format!(
                "const r2, 1\n iconst i1, 0\n jump body\n body:\n mul r2, r2, r0\n lt i2, r2, r1\n iadd i1, i1, i2
                 branch i2, body, done\n done:\n {after}"
            );
            useful_at_the_first_jump(&code)
        };
        assert_eq!(loop_with("ret (r1)"), [1]);
        assert_eq!(loop_with("ret (r2)"), [0, 2]);
        assert_eq!(loop_with("call f0 (r2, r1, p0, i0) -> (r3)\n ret (r3)"), [0, 1, 2]);
    }
}
