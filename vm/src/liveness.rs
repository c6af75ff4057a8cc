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

/// Above this many bits of live sets, every register counts as live everywhere: segments then have outputs that
/// nobody reads, which costs tape, not correctness. The bound keeps hostile functions from taking gigabytes.
const WORK_MAX: u64 = 1 << 28;

/// A set of registers.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RegSet(Vec<u64>);

impl RegSet {
    fn new(len: u32, full: bool) -> Self {
        RegSet(vec![if full { u64::MAX } else { 0 }; len.div_ceil(64) as usize])
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

    fn union(&mut self, other: &RegSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
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

/// The real registers that are live at the end of each block.
pub(crate) fn live_out(body: &Body, blocks: &[Block]) -> Vec<RegSet> {
    if blocks.len() as u64 * u64::from(body.reals) > WORK_MAX {
        return vec![RegSet::new(body.reals, true); blocks.len()];
    }
    let mut block_at = vec![0u32; body.code.len()];
    for (index, block) in blocks.iter().enumerate() {
        block_at[block.start as usize] = index as u32;
    }
    let mut predecessors = vec![Vec::new(); blocks.len()];
    for (index, block) in blocks.iter().enumerate() {
        for next in successors(body, block.end - 1) {
            predecessors[block_at[next as usize] as usize].push(index);
        }
    }
    let mut live_out = vec![RegSet::new(body.reals, false); blocks.len()];
    let mut queued = vec![true; blocks.len()];
    let mut work: Vec<usize> = (0..blocks.len()).collect();
    while let Some(index) = work.pop() {
        queued[index] = false;
        let mut live = live_out[index].clone();
        let Block { start, end } = blocks[index];
        for inst in body.code[start as usize..end as usize].iter().rev() {
            step_back(body, inst, &mut live);
        }
        for &before in &predecessors[index] {
            let known = live_out[before].clone();
            live_out[before].union(&live);
            if live_out[before] != known && !queued[before] {
                queued[before] = true;
                work.push(before);
            }
        }
    }
    live_out
}
