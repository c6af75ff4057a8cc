//! What an instruction that looks for numbers that aren't finite knows of the one before it.

use super::{InSite, Sites, Stream};
use crate::bytecode::isa::{Bank, Op, Reg};
use std::ops::Range;

/// An operand of an instruction that is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckedOperand {
    /// The register, the lowest one of a real's components.
    pub register: Reg,
    /// Its number among the real or the integer inputs of the segment that the instruction is; `None` if it is a
    /// constant of the function.
    pub input: Option<u32>,
    /// The bits of a constant.
    pub constant: u64,
}

/// A loop around an instruction, and the register that counts its rounds, from 0 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountedLoop {
    /// An instruction of the bytecode that tells where the loop is.
    pub head: u32,
    /// The integer register.
    pub rounds: u16,
    /// Its number among the integer inputs of the segment, where it stands for one.
    pub input: u32,
}

/// A range of the bytecode, and the loops around it, the outermost first.
#[derive(Clone, Debug)]
pub struct CountedBlock {
    /// Its instructions.
    pub block: Range<u32>,
    /// The loops.
    pub loops: Box<[CountedLoop]>,
}

/// What of an instruction stands where in the record of the segment that it is.
#[derive(Clone, Debug)]
pub struct CheckedRecord {
    /// For each real that is saved, its number among the segment's real inputs, components counted.
    pub saved_reals: Box<[u32]>,
    /// For each integer that is saved, its number among the integer inputs.
    pub saved_ints: Box<[u32]>,
    /// For each slot, the number of the real input, components counted.
    pub slots: Box<[u32]>,
    /// For each slot that it gives, the component of the result.
    pub components: Box<[u32]>,
    /// How many real inputs there are, components not counted.
    pub real_inputs: u32,
}

/// An instruction that is looked at when it has been executed.
#[derive(Debug)]
pub struct CheckSite {
    /// What it computes.
    pub op: Op,
    /// Its place in the bytecode.
    pub inst: u32,
    /// What it reads, in order. It doesn't write these registers.
    pub operands: Box<[CheckedOperand]>,
    /// The register that it writes, the lowest one of a real's components.
    pub result: Reg,
    /// How many components the result has: 1 if nobody reads the others, 0 if it is an integer.
    pub parts: u32,
    /// How many components operands have.
    pub operand_parts: u32,
    /// The loops around it, the outermost first.
    pub loops: Box<[CountedLoop]>,
    /// The record, if there is one in a recording run.
    pub record: Option<CheckedRecord>,
}

impl InSite for CheckSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.checks
    }

    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool)) {
        for operand in &self.operands {
            let parts = if operand.register.bank == Bank::Real { self.operand_parts as u16 } else { 1 };
            for part in 0..parts {
                visit(Reg { index: operand.register.index + part, ..operand.register }, false);
            }
        }
        for part in 0..self.parts as u16 {
            visit(Reg { index: self.result.index + part, ..self.result }, false);
        }
        self.loops.iter().for_each(|counted| visit(Reg::int(counted.rounds), false));
    }
}
