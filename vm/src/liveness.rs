//! Basic blocks of a function, and which real registers are live at their ends.
//!
//! Used to decide which results of a segment anyone reads. Backward dataflow over bit sets; see [`WORK_MAX`] for its
//! bound.

use crate::isa::{Bank, Inst, Op};
use crate::module::Body;

/// A basic block: the range of its instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

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

/// The instructions that a control instruction may continue at.
pub(crate) fn successors(body: &Body, at: u32) -> Vec<u32> {
    let inst = &body.code[at as usize];
    match inst.op {
        Op::Jump => vec![inst.low()],
        Op::Branch => vec![inst.low(), inst.high()],
        Op::Switch => {
            let start = inst.low() as usize;
            let mut targets = body.targets[start..start + usize::from(inst.b)].to_vec();
            targets.push(inst.high());
            targets
        }
        op if op.is_terminator() => Vec::new(),
        _ => vec![at + 1],
    }
}

/// Cuts a verified function into basic blocks.
pub(crate) fn blocks(body: &Body) -> Vec<Block> {
    let len = body.code.len() as u32;
    let mut leader = vec![false; body.code.len() + 1];
    leader[0] = true;
    for at in 0..len {
        if body.code[at as usize].op.is_terminator() {
            leader[at as usize + 1] = true;
            successors(body, at).into_iter().for_each(|target| leader[target as usize] = true);
        }
    }
    let starts: Vec<u32> = (0..len).filter(|&at| leader[at as usize]).collect();
    let ends = starts.iter().skip(1).copied().chain([len]);
    starts.iter().zip(ends).map(|(&start, end)| Block { start, end }).collect()
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

/// The real registers that are live at the end of each block, or `None` if that takes too long: then all count as live.
pub(crate) fn live_out(body: &Body, blocks: &[Block]) -> Option<Vec<RegSet>> {
    if blocks.len() as u64 * u64::from(body.reals) > WORK_MAX {
        return None;
    }
    let mut block_at = vec![0u32; body.code.len()];
    for (index, block) in blocks.iter().enumerate() {
        block_at[block.start as usize] = index as u32;
    }
    let mut predecessors = vec![Vec::new(); blocks.len()];
    let mut edges = 0;
    for (index, block) in blocks.iter().enumerate() {
        let next = successors(body, block.end - 1);
        edges += next.len();
        if edges > EDGES_MAX {
            return None;
        }
        next.into_iter().for_each(|target| predecessors[block_at[target as usize] as usize].push(index));
    }
    let words = u64::from(body.reals / 64) + 1;
    let mut steps = 0;
    let mut live_out = vec![RegSet::new(body.reals); blocks.len()];
    let mut queued = vec![true; blocks.len()];
    let mut work: Vec<usize> = (0..blocks.len()).collect();
    while let Some(index) = work.pop() {
        queued[index] = false;
        let mut live = live_out[index].clone();
        let Block { start, end } = blocks[index];
        steps += u64::from(end - start) + words * (1 + predecessors[index].len() as u64);
        if steps > STEPS_MAX {
            return None;
        }
        for inst in body.code[start as usize..end as usize].iter().rev() {
            step_back(body, inst, &mut live);
        }
        for &before in &predecessors[index] {
            if live_out[before].union(&live) && !queued[before] {
                queued[before] = true;
                work.push(before);
            }
        }
    }
    Some(live_out)
}
