//! How many registers of a function are live where, for estimates of what compiling it costs.
//!
//! A register is live in a block if it is read there, or later, before it is written. Those that live from one block to
//! another are followed 64 at a time, so that memory is a few words per block whatever the number of registers; the
//! number of steps is bounded. References don't count: native code keeps them in the frame.

use crate::bytecode::isa::{Bank, Reg};
use crate::bytecode::module::Body;
use crate::preparation::flow::{Block, FlowGraph};
use crate::running::meter::Watch;

/// What is live in a basic block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BlockPressure {
    /// The block's first instruction in the function's bytecode.
    pub start: u32,
    /// How many instructions it has.
    pub instructions: u32,
    /// Real registers that are live when the block begins.
    pub live_reals: u32,
    /// Integer registers that are live when the block begins.
    pub live_ints: u32,
    /// An upper bound of the real registers that are live, added up over the block's instructions.
    pub real_instructions: u64,
    /// The same for integer registers.
    pub int_instructions: u64,
}

/// The pressure in each block that the function's start reaches, in the order of the code. `None` if finding it out
/// takes more than `steps_max` steps; each looks at an edge or a loop for 64 registers.
pub(crate) fn pressure(body: &Body, steps_max: u64) -> Option<Vec<BlockPressure>> {
    let flow = FlowGraph::of(body, &Watch::none()).ok()?;
    let begin =
        |&Block { start, end }: &Block| BlockPressure { start, instructions: end - start, ..Default::default() };
    let mut found: Vec<BlockPressure> = flow.blocks().iter().map(begin).collect();
    let mut steps = steps_max;
    for bank in [Bank::Real, Bank::Int] {
        let facts = Facts::new(body, &flow, bank);
        for chunk in 0..facts.registers.div_ceil(64) {
            let live = live_in(&flow, &facts, chunk, &mut steps)?;
            for (block, pressure) in found.iter_mut().enumerate() {
                let after = flow.successors(block).iter().fold(0, |all, &next| all | live[next as usize]);
                let lasting = u64::from((live[block] | after).count_ones());
                let instructions = u64::from(pressure.instructions);
                pressure.add(bank, live[block].count_ones(), lasting * instructions);
            }
        }
        for (pressure, local) in found.iter_mut().zip(facts.local) {
            pressure.add(bank, 0, local);
        }
    }
    Some(found)
}

impl BlockPressure {
    fn add(&mut self, bank: Bank, live: u32, instructions: u64) {
        if bank == Bank::Real {
            self.live_reals += live;
            self.real_instructions += instructions;
        } else {
            self.live_ints += live;
            self.int_instructions += instructions;
        }
    }
}

/// What the blocks do to the registers of a bank.
struct Facts {
    /// How many registers some block reads before it writes them. They are numbered from 0.
    registers: u32,
    /// Reads that no write precedes in their block: register and block, by register.
    reads: Vec<(u32, u32)>,
    /// Which blocks write such a register, by register.
    writes: Vec<(u32, u32)>,
    /// For each block, live registers added up over its instructions, from those only that it writes and reads itself.
    local: Vec<u64>,
}

impl Facts {
    fn new(body: &Body, flow: &FlowGraph, bank: Bank) -> Facts {
        let registers = if bank == Bank::Real { body.reals } else { body.ints } as usize;
        // One more than the last block that read or wrote the register; the instruction that wrote it there, and the
        // last one that has read that value.
        let (mut read_in, mut written_in) = (vec![0u32; registers], vec![0u32; registers]);
        let mut value = vec![(0u32, 0u32); registers];
        let mut numbers = vec![u32::MAX; registers];
        let mut facts = Facts { registers: 0, reads: Vec::new(), writes: Vec::new(), local: Vec::new() };
        let mut writes: Vec<(Reg, u32)> = Vec::new();
        for (block, range) in (0..).zip(flow.blocks()) {
            let mut local = 0;
            for at in range.start..range.end {
                let inst = &body.code[at as usize];
                body.for_each_reg(inst, |reg, def| {
                    let index = usize::from(reg.index);
                    if def || reg.bank != bank {
                        return;
                    }
                    if written_in[index] == block + 1 {
                        let (_, last) = &mut value[index];
                        local += u64::from(at - *last);
                        *last = at;
                    } else if std::mem::replace(&mut read_in[index], block + 1) != block + 1 {
                        if numbers[index] == u32::MAX {
                            numbers[index] = facts.registers;
                            facts.registers += 1;
                        }
                        facts.reads.push((numbers[index], block));
                    }
                });
                body.for_each_reg(inst, |reg, def| {
                    let index = usize::from(reg.index);
                    if def && reg.bank == bank {
                        if std::mem::replace(&mut written_in[index], block + 1) != block + 1 {
                            writes.push((reg, block));
                        }
                        value[index] = (at, at);
                    }
                });
            }
            facts.local.push(local);
        }
        let number = |&(reg, block): &(Reg, u32)| (numbers[usize::from(reg.index)], block);
        facts.writes = writes.iter().map(number).filter(|&(register, _)| register != u32::MAX).collect();
        facts.reads.sort_unstable();
        facts.writes.sort_unstable();
        facts
    }
}

/// Which of 64 registers are live when each block begins.
fn live_in(flow: &FlowGraph, facts: &Facts, chunk: u32, steps: &mut u64) -> Option<Vec<u64>> {
    let count = flow.blocks().len();
    let (mut live, mut written) = (vec![0u64; count], vec![0u64; count]);
    let of_chunk = |all: &[(u32, u32)], sets: &mut [u64]| {
        let start = all.partition_point(|&(register, _)| register < 64 * chunk);
        let entries = all[start..].iter().take_while(|&&(register, _)| register / 64 == chunk);
        entries.for_each(|&(register, block)| sets[block as usize] |= 1 << (register % 64));
    };
    of_chunk(&facts.reads, &mut live);
    of_chunk(&facts.writes, &mut written);
    let mut changed = true;
    while changed {
        *steps = steps.checked_sub((count + flow.edge_count()) as u64)?;
        changed = false;
        for &block in flow.order().iter().rev() {
            let block = block as usize;
            let after = flow.successors(block).iter().fold(0, |all, &next| all | live[next as usize]);
            let before = live[block] | after & !written[block];
            changed |= std::mem::replace(&mut live[block], before) != before;
        }
    }
    Some(live)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressure_of(code: &str) -> Vec<BlockPressure> {
        let source = format!("func f0 \"f\" (real, int) -> (real)\n regs 8 real, 8 int\n{{\n{code}\n}}");
        let def = crate::bytecode::text::parse(&source, "test.dvs").expect("the code is well-formed");
        pressure(&def.functions[0].body, 1 << 20).expect("the function is small")
    }

    #[test]
    fn what_is_read_later_is_live() {
        let found = pressure_of(
            "sin r1, r0\n iconst i1, 1\n jump head\nhead:\n add r1, r1, r0\n isub i0, i0, i1\n branch i0, head, done
             done:\n ret (r1)",
        );
        let live: Vec<(u32, u32, u32)> =
            found.iter().map(|block| (block.start, block.live_reals, block.live_ints)).collect();
        assert_eq!(live, [(0, 1, 1), (3, 2, 2), (6, 1, 0)]);
    }

    #[test]
    fn values_that_stay_in_their_block_count_from_write_to_read() {
        let found = pressure_of("sin r1, r0\n sin r2, r0\n sin r3, r0\n add r1, r1, r2\n add r1, r1, r3\n ret (r1)");
        // r0 for all 6; r1 for 3 instructions, then for 1 and 1; r2 for 2; r3 for 2.
        assert_eq!((found[0].live_reals, found[0].real_instructions), (1, 15));
    }

    #[test]
    fn instructions_that_no_path_reaches_count_for_nothing() {
        let found = pressure_of("ret (r0)\n dead:\n add r0, r0, r1\n branch i0, dead, dead");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].live_reals, found[0].live_ints), (1, 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "it is about a thousand blocks")]
    fn too_many_steps_are_refused() {
        let code: String = (0..1000).map(|n| format!("branch i0, b{n}, b{n}\nb{n}:\n")).collect();
        let source = format!("func f0 \"f\" (int) -> ()\n regs 1 int\n{{\n{code} ret ()\n}}");
        let def = crate::bytecode::text::parse(&source, "test.dvs").expect("the code is well-formed");
        assert!(pressure(&def.functions[0].body, 100).is_none());
        assert!(pressure(&def.functions[0].body, 100_000).is_some());
    }
}
