//! Which real registers are read later on: what nobody reads needn't be tested.

use crate::bit_set::BitSet;
use dualvm_vm::isa::Bank;
use dualvm_vm::native::{Position, Stream};
use std::collections::HashMap;
use std::ops::Range;

/// If finding it out takes more steps, all registers count as live. A step looks at an instruction, at a register that
/// it names, or at 64 registers of a set. So many take some milliseconds.
const STEPS_MAX: usize = 1 << 20;

/// The live real registers of a stream: backward dataflow over its blocks.
pub(super) struct Liveness {
    blocks: Vec<Range<Position>>,
    /// The registers that are live where a block ends; none, if all count as live.
    live_out: Vec<BitSet>,
    /// Those of the block that was asked about last.
    uses: Option<Uses>,
}

/// Where a block reads real registers and where it writes them.
struct Uses {
    /// The number of the block.
    block: usize,
    /// For each register, in order; `true` if it is read.
    of: HashMap<u16, Vec<(Position, bool)>>,
}

impl Liveness {
    pub(super) fn new(stream: &Stream) -> Liveness {
        let blocks = stream.blocks();
        let words = stream.reals.div_ceil(64);
        if blocks.len().saturating_mul(words) > STEPS_MAX {
            return Liveness { blocks, live_out: Vec::new(), uses: None };
        }
        let numbers: HashMap<Position, usize> =
            blocks.iter().enumerate().map(|(number, block)| (block.start, number)).collect();
        let mut before = vec![Vec::new(); blocks.len()];
        for (number, block) in blocks.iter().enumerate() {
            let code = &stream.code[block.start.index()..block.end.index()];
            for inst in code {
                inst.for_each_target(stream, |target| before[numbers[&target]].push(number));
            }
            if code.last().is_some_and(|last| !last.ends_block()) {
                before[number + 1].push(number);
            }
        }
        let mut live_out = vec![BitSet::new(stream.reals); blocks.len()];
        let mut work: Vec<usize> = (0..blocks.len()).collect();
        let mut queued = vec![true; blocks.len()];
        let mut steps = 0;
        while let Some(number) = work.pop() {
            queued[number] = false;
            let mut live = live_out[number].clone();
            let block = &blocks[number];
            steps += words * (1 + before[number].len());
            for inst in stream.code[block.start.index()..block.end.index()].iter().rev() {
                if steps > STEPS_MAX {
                    return Liveness { blocks, live_out: Vec::new(), uses: None };
                }
                steps += 1;
                for defs in [true, false] {
                    inst.for_each_reg(stream, |reg, def| {
                        steps += 1;
                        match (reg.bank, def) {
                            (Bank::Real, true) if defs => live.remove(reg.index.into()),
                            (Bank::Real, false) if !defs => live.insert(reg.index.into()),
                            _ => {}
                        }
                    });
                }
            }
            for &earlier in &before[number] {
                if live_out[earlier].add_all(&live) && !std::mem::replace(&mut queued[earlier], true) {
                    work.push(earlier);
                }
            }
        }
        Liveness { blocks, live_out, uses: None }
    }

    /// Whether what a register holds at a position, before the instruction there, is read from there on. `at` may be
    /// the end of a block, which `block` is a position in.
    pub(super) fn is_live(&mut self, stream: &Stream, block: Position, at: Position, register: u16) -> bool {
        if self.live_out.is_empty() {
            return true;
        }
        let number = self.blocks.partition_point(|range| range.start <= block) - 1;
        if self.uses.as_ref().is_none_or(|uses| uses.block != number) {
            let mut of: HashMap<u16, Vec<(Position, bool)>> = HashMap::new();
            let Range { start, end } = self.blocks[number].clone();
            for (at, inst) in start.to(end).zip(&stream.code[start.index()..]) {
                for defs in [false, true] {
                    inst.for_each_reg(stream, |reg, def| {
                        if reg.bank == Bank::Real && def == defs {
                            of.entry(reg.index).or_default().push((at, !def));
                        }
                    });
                }
            }
            self.uses = Some(Uses { block: number, of });
        }
        let uses = self.uses.as_ref().and_then(|uses| uses.of.get(&register));
        let next = uses.and_then(|uses| uses.get(uses.partition_point(|&(place, _)| place < at)));
        next.map_or_else(|| self.live_out[number].contains(register.into()), |&(_, is_read)| is_read)
    }
}
