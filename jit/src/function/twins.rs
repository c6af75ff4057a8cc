//! Registers that a tight loop carries from round to round as vectors of two.
//!
//! Sums of tangents in several directions are computed in pairs ([`super::superwords`]). A sum that a loop carries
//! would be taken out of its vector at the end of each round, and put into one again in the next. So two such registers
//! are *twins*: besides the variables that they have, one has both. Where that has been written last, it is what is
//! read, and what nobody reads of the others takes no code: numbers are taken out of the vector where they are wanted
//! alone, and where the loop is left.

use super::Function;
use super::tight::TightLoop;
use crate::vectors::MACHINE_HAS_VECTORS;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::Variable;
use dualvm_vm::isa::Bank;
use dualvm_vm::native::{Inst, Position};
use std::collections::HashSet;

/// So many registers of a loop are looked at: each may be one of two twins.
const CARRIED_MAX: usize = 64;

/// Two real registers that are one vector, too.
#[derive(Debug)]
struct Twins {
    registers: [u16; 2],
    vector: Variable,
    /// Whether the vector has what the registers hold.
    is_current: bool,
    /// Whether the vector is read: if it isn't, nobody puts it together.
    is_read: bool,
}

/// The twins of the loop that is being written.
#[derive(Default, Debug)]
pub(super) struct AllTwins {
    all: Vec<Twins>,
    /// The blocks through which it is left, and where they lead.
    ways_out: Vec<(Block, Position)>,
}

impl AllTwins {
    /// There are none in another loop.
    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    /// Which there are.
    pub(super) fn pairs(&self) -> impl Iterator<Item = [u16; 2]> {
        self.all.iter().map(|twins| twins.registers)
    }

    fn current(&self, registers: [u16; 2]) -> Option<&Twins> {
        self.all.iter().find(|twins| twins.registers == registers && twins.is_current)
    }

    /// Whether two registers are twins, and there is a vector of what they hold.
    pub(super) fn have_vector(&self, registers: [u16; 2]) -> bool {
        self.current(registers).is_some()
    }

    /// Notes that the vector of two registers is read, if there is one.
    pub(super) fn read_vector(&mut self, registers: [u16; 2]) {
        for twins in self.all.iter_mut().filter(|twins| twins.registers == registers) {
            twins.is_read |= twins.is_current;
        }
    }

    /// Something is written to a register alone.
    pub(super) fn part(&mut self, register: u16) {
        for twins in self.all.iter_mut().filter(|twins| twins.registers.contains(&register)) {
            twins.is_current = false;
        }
    }

    /// Those whose vectors are read, and have what they hold.
    fn together(&self) -> impl Iterator<Item = &Twins> {
        self.all.iter().filter(|twins| twins.is_current && twins.is_read)
    }
}

impl Function<'_, '_> {
    /// Before a tight loop of one block: any two of the reals that it carries which it writes one after the other may
    /// be twins.
    pub(super) fn begin_twins(&mut self, tight: &TightLoop) {
        let code = &self.stream.code[tight.body()];
        if !MACHINE_HAS_VECTORS || !code.iter().any(|inst| matches!(inst, Inst::StrongMul { .. })) {
            return;
        }
        let (mut carried, mut written) = (HashSet::new(), HashSet::new());
        let mut in_order = Vec::new();
        for inst in code {
            inst.for_each_reg(self.stream, |reg, def| {
                if reg.bank == Bank::Real && !def && !written.contains(&reg.index) {
                    carried.insert(reg.index);
                }
            });
            inst.for_each_reg(self.stream, |reg, def| {
                if reg.bank == Bank::Real && def && written.insert(reg.index) {
                    in_order.push(reg.index);
                }
            });
        }
        let written: Vec<u16> =
            in_order.into_iter().filter(|register| carried.contains(register)).take(CARRIED_MAX).collect();
        let values: Vec<Value> = written.iter().map(|&register| self.real(register)).collect();
        for (pair, values) in written.windows(2).zip(values.windows(2)) {
            let vector = self.emit.vector([values[0], values[1]]);
            let vector = self.emit.variable(vector);
            self.twins.all.push(Twins { registers: [pair[0], pair[1]], vector, is_current: true, is_read: false });
        }
    }

    /// The vector of what two registers hold, if they are twins.
    pub(super) fn vector_of_twins(&mut self, registers: [u16; 2]) -> Option<Value> {
        self.twins.read_vector(registers);
        let vector = self.twins.current(registers)?.vector;
        Some(self.emit.b.use_var(vector))
    }

    /// The vector that has what a register holds, and in which lane, if one is read anyway.
    pub(super) fn lane_of_twins(&mut self, register: u16) -> Option<(Value, u8)> {
        let twins = self.twins.together().find(|twins| twins.registers.contains(&register))?;
        let (vector, lane) = (twins.vector, u8::from(twins.registers[1] == register));
        Some((self.emit.b.use_var(vector), lane))
    }

    /// Notes that a vector has what twins hold, which is written to both registers, too.
    pub(super) fn set_twins(&mut self, registers: [u16; 2], vector: Value) {
        for twins in self.twins.all.iter_mut().filter(|twins| twins.registers == registers) {
            self.emit.b.def_var(twins.vector, vector);
            twins.is_current = true;
        }
    }

    /// The twins that have a vector of which one is among some registers.
    pub(super) fn twins_among(&self, registers: &[u16]) -> Vec<[u16; 2]> {
        let is_among = |twins: &&Twins| twins.registers.iter().any(|register| registers.contains(register));
        self.twins.all.iter().filter(|twins| twins.is_current).filter(is_among).map(|twins| twins.registers).collect()
    }

    /// Puts what twins hold into their vector.
    pub(super) fn put_together(&mut self, registers: [u16; 2]) {
        let values = registers.map(|register| self.real(register));
        let vector = self.emit.vector(values);
        self.set_twins(registers, vector);
    }

    /// At the end of a round, vectors that are read have what their registers hold. Others won't any more.
    pub(super) fn end_round(&mut self) {
        self.twins.all.retain(|twins| twins.is_current || twins.is_read);
        let apart: Vec<[u16; 2]> =
            self.twins.all.iter().filter(|twins| !twins.is_current).map(|twins| twins.registers).collect();
        apart.into_iter().for_each(|registers| self.put_together(registers));
    }

    /// Where a loop is left, its registers are taken out of vectors, so that nobody reads what they were in each round.
    pub(super) fn take_apart(&mut self) {
        let twins: Vec<(Variable, [u16; 2])> =
            self.twins.together().map(|twins| (twins.vector, twins.registers)).collect();
        for (vector, registers) in twins {
            let vector = self.emit.b.use_var(vector);
            for (lane, register) in (0..).zip(registers) {
                let value = self.emit.b.ins().extractlane(vector, lane);
                self.emit.b.def_var(self.reals[usize::from(register)], value);
            }
        }
    }

    /// The block through which a loop is left, if registers are taken out of vectors on the way.
    pub(super) fn way_out(&mut self, target: Position) -> Option<Block> {
        self.twins.together().next()?;
        let block = self.emit.b.create_block();
        self.twins.ways_out.push((block, target));
        Some(block)
    }

    /// Writes the blocks through which a loop is left, once all that leads there is written.
    pub(super) fn ways_out(&mut self) {
        for (block, target) in std::mem::take(&mut self.twins.ways_out) {
            self.emit.enter(block);
            self.take_apart();
            self.emit.b.ins().jump(self.blocks[&target], &[]);
        }
    }
}
