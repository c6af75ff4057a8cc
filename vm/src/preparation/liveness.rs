//! Which real registers are live at the ends of a function's blocks.
//!
//! Used to decide which results of a segment anyone reads. Backward dataflow over bit sets; see [`WORK_MAX`] for its
//! bound.

use crate::bytecode::isa::{Bank, Inst};
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
    fn new(len: u32) -> Self {
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

    /// Adds the registers of another set; says whether that made a difference.
    fn union(&mut self, other: &RegSet) -> bool {
        let mut changed = 0;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            changed |= b & !*a;
            *a |= b;
        }
        changed != 0
    }
}

/// Steps a live set backwards over one instruction.
pub(crate) fn step_back(body: &Body, inst: &Inst, live: &mut RegSet) {
    body.for_each_reg(inst, |reg, def| {
        if reg.bank == Bank::Real && def {
            live.remove(reg.index);
        }
    });
    body.for_each_reg(inst, |reg, def| {
        if reg.bank == Bank::Real && !def {
            live.insert(reg.index);
        }
    });
}

/// The real registers that are live at the end of each block, or `None` if that takes too many steps: then all count as
/// live.
///
/// # Errors
/// What the watch says.
pub(crate) fn live_out(body: &Body, flow: &FlowGraph, watch: &Watch<'_>) -> Result<Option<Vec<RegSet>>, TrapKind> {
    let blocks = flow.blocks();
    if blocks.len() as u64 * u64::from(body.reals) > WORK_MAX || flow.edge_count() > EDGES_MAX {
        return Ok(None);
    }
    let predecessors = flow.predecessors();
    let words = u64::from(body.reals / 64) + 1;
    let mut steps = 0;
    let mut live_out = vec![RegSet::new(body.reals); blocks.len()];
    let mut queued = vec![true; blocks.len()];
    let mut work: Vec<usize> = flow.order().iter().map(|&block| block as usize).collect();
    while let Some(index) = work.pop() {
        queued[index] = false;
        let mut live = live_out[index].clone();
        let Block { start, end } = blocks[index];
        let before = predecessors.of(index);
        let looked_at = u64::from(end - start) + words * (1 + before.len() as u64);
        watch.tick(looked_at as usize)?;
        steps += looked_at;
        if steps > STEPS_MAX {
            return Ok(None);
        }
        for inst in body.code[start as usize..end as usize].iter().rev() {
            step_back(body, inst, &mut live);
        }
        for &before in before {
            let before = before as usize;
            if live_out[before].union(&live) && !queued[before] {
                queued[before] = true;
                work.push(before);
            }
        }
    }
    Ok(Some(live_out))
}
