//! From a graph's nodes to instructions on registers.

use crate::bytecode::isa::Bank;
use crate::code::{Inst, IntReg, RealReg};
use crate::derivation::graph::{Graph, Node, NodeId, bank_of};

/// Straight-line code on a frame of its own. Real registers begin with the saved reals, then the output adjoints;
/// integer registers begin with the saved integers.
#[derive(Debug, Default)]
pub struct StraightCode {
    /// Pure instructions.
    pub code: Vec<Inst>,
    /// How many real registers there are.
    pub reals: usize,
    /// How many integer registers there are.
    pub ints: usize,
}

/// Stands for a node that has no register yet.
const NOWHERE: u16 = u16::MAX;

/// Gives nodes registers, each one of its own, and writes the instructions that compute them.
pub(crate) struct Assembler<'a> {
    graph: &'a Graph,
    registers: Vec<u16>,
    /// How many registers there are of each bank.
    pub(crate) reals: usize,
    pub(crate) ints: usize,
}

impl<'a> Assembler<'a> {
    /// A frame whose first registers are the caller's.
    pub(crate) fn new(graph: &'a Graph, reals: usize, ints: usize) -> Self {
        Assembler { graph, registers: vec![NOWHERE; graph.len()], reals, ints }
    }

    /// A register that nothing else uses.
    pub(crate) fn fresh(&mut self, bank: Bank) -> u16 {
        let count = if bank == Bank::Real { &mut self.reals } else { &mut self.ints };
        *count += 1;
        (*count - 1) as u16
    }

    /// A node is in a register before the code begins.
    pub(crate) fn place_at(&mut self, id: NodeId, register: u16) {
        self.registers[id.index()] = register;
    }

    /// The same, in a fresh one, which is returned.
    pub(crate) fn place(&mut self, id: NodeId) -> u16 {
        let register = self.fresh(bank_of(self.graph.node(id)));
        self.place_at(id, register);
        register
    }

    /// The register of a node that has been placed or computed.
    pub(crate) fn register(&self, id: NodeId) -> u16 {
        self.registers[id.index()]
    }

    /// Computes a node, whose arguments have registers, unless it is in one.
    pub(crate) fn compute(&mut self, id: NodeId, code: &mut Vec<Inst>) {
        if self.registers[id.index()] != NOWHERE {
            return;
        }
        let dst = self.place(id);
        code.push(match self.graph.node(id) {
            Node::Real(value) => Inst::PrimalConst { dst: RealReg(dst), value },
            Node::Int(value) => Inst::IConst { dst: IntReg(dst), value },
            Node::Op(op, _) => {
                let (mut args, mut count) = ([0; 3], 0);
                for arg in self.graph.args(id) {
                    args[count] = self.registers[arg.index()];
                    count += 1;
                }
                Inst::scalar(op, dst, &args[..count]).expect("nodes are scalar instructions with their arguments")
            }
            node => unreachable!("an input is saved if it is needed, found {node:?}"),
        });
    }
}
