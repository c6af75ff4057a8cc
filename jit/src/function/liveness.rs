//! Which registers of a bank are read later on: what nobody reads needn't be tested, or fetched again.

use super::graph::Graph;
use crate::bit_set::BitSet;
use dualvm_vm::isa::{Bank, Reg};
use dualvm_vm::native::{Inst, Position, Stream};
use std::collections::HashMap;

/// If finding it out takes more steps, nothing is found out. A step looks at an instruction, at a register that it
/// names, or at 64 registers of a set. So many take some milliseconds.
pub(super) const STEPS_MAX: usize = 1 << 20;

/// The live registers of a stream, of one bank: backward dataflow over its blocks.
pub(super) struct Liveness<'e> {
    stream: &'e Stream,
    graph: &'e Graph,
    bank: Bank,
    /// Whether registers are written anew after an instruction before they are read.
    ends: fn(&Stream, &Inst) -> bool,
    /// The registers that are live where a block begins, and where it ends.
    live_in: Vec<BitSet>,
    live_out: Vec<BitSet>,
    /// Those of the block that was asked about last.
    uses: Option<Uses>,
}

/// Where a block reads registers and where it writes them.
struct Uses {
    /// The number of the block.
    block: usize,
    /// For each register, in order; `true` if it is read.
    of: HashMap<u16, Vec<(Position, bool)>>,
    /// The instructions after which all registers are written anew.
    ends: Vec<Position>,
}

impl<'e> Liveness<'e> {
    /// `None` if it would take too many steps.
    pub(super) fn new(
        stream: &'e Stream,
        graph: &'e Graph,
        bank: Bank,
        ends: fn(&Stream, &Inst) -> bool,
    ) -> Option<Self> {
        let registers = match bank {
            Bank::Real => stream.reals,
            Bank::Int => stream.ints,
            Bank::Ref => stream.refs,
        };
        let blocks = graph.blocks.len();
        let words = registers.div_ceil(64);
        if blocks.saturating_mul(words) > STEPS_MAX {
            return None;
        }
        let mut live_in = vec![BitSet::new(registers); blocks];
        let mut live_out = live_in.clone();
        let mut work: Vec<usize> = (0..blocks).collect();
        let mut queued = vec![true; blocks];
        let mut steps = 0;
        while let Some(number) = work.pop() {
            queued[number] = false;
            let mut live = live_out[number].clone();
            steps += words * (1 + graph.before[number].len());
            for at in graph.positions(number).rev() {
                if steps > STEPS_MAX {
                    return None;
                }
                steps += 1;
                let inst = &stream.code[at.index()];
                inst.for_each_reg(stream, |reg, def| {
                    steps += 1;
                    if reg.bank == bank && def {
                        live.remove(reg.index.into());
                    }
                });
                if ends(stream, inst) {
                    live.clear();
                }
                inst.for_each_reg(stream, |reg, def| {
                    if reg.bank == bank && !def {
                        live.insert(reg.index.into());
                    }
                });
            }
            for &earlier in &graph.before[number] {
                if live_out[earlier].add_all(&live) && !std::mem::replace(&mut queued[earlier], true) {
                    work.push(earlier);
                }
            }
            live_in[number] = live;
        }
        Some(Liveness { stream, graph, bank, ends, live_in, live_out, uses: None })
    }

    /// The registers that are live where a block begins.
    pub(super) fn at_start(&self, block: usize) -> &BitSet {
        &self.live_in[block]
    }

    /// Whether what a register holds at a position, before the instruction there, is read from there on. `at` may be
    /// the end of a block, which `inside` is a position in.
    pub(super) fn is_live(&mut self, inside: Position, at: Position, register: u16) -> bool {
        let number = self.graph.number(inside);
        if self.uses.as_ref().is_none_or(|uses| uses.block != number) {
            self.uses = Some(self.uses(number));
        }
        let Some(Uses { of, ends, .. }) = &self.uses else { return true };
        let next = of.get(&register).and_then(|uses| uses.get(uses.partition_point(|&(place, _)| place < at)));
        let end = ends.get(ends.partition_point(|&place| place < at));
        match (next, end) {
            (Some(&(place, is_read)), end) if end.is_none_or(|&end| place <= end) => is_read,
            (_, Some(_)) => false,
            (_, None) => self.live_out[number].contains(register.into()),
        }
    }

    fn uses(&self, block: usize) -> Uses {
        let mut of: HashMap<u16, Vec<(Position, bool)>> = HashMap::new();
        let mut ends = Vec::new();
        for at in self.graph.positions(block) {
            let inst = &self.stream.code[at.index()];
            for defs in [false, true] {
                inst.for_each_reg(self.stream, |Reg { bank, index }, def| {
                    if bank == self.bank && def == defs {
                        of.entry(index).or_default().push((at, !def));
                    }
                });
            }
            if (self.ends)(self.stream, inst) {
                ends.push(at);
            }
        }
        Uses { block, of, ends }
    }
}
