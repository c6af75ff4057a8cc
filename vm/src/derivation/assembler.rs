//! From a graph's nodes to instructions on registers.

use crate::bytecode::isa::Bank;
use crate::code::{Inst, IntReg, RealReg};
use crate::derivation::graph::{Graph, Node, NodeId, bank_of};

/// Straight-line code on a frame of its own. Real registers begin with the saved reals, then the output adjoints;
/// integer registers begin with the saved integers.
#[derive(PartialEq, Eq, Hash, Debug, Default)]
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

/// Gives nodes registers and writes the instructions that compute them. Registers have 16 bits: who may need more looks
/// at how many were taken, and throws away what was written.
pub(crate) struct Assembler<'a> {
    graph: &'a Graph,
    registers: Vec<u16>,
    /// Registers that nothing needs any more.
    free_reals: Vec<u16>,
    free_ints: Vec<u16>,
    /// How many registers there are of each bank.
    pub(crate) reals: usize,
    pub(crate) ints: usize,
}

impl<'a> Assembler<'a> {
    /// A frame whose first registers are the caller's.
    pub(crate) fn new(graph: &'a Graph, reals: usize, ints: usize) -> Self {
        let registers = vec![NOWHERE; graph.len()];
        Assembler { graph, registers, free_reals: Vec::new(), free_ints: Vec::new(), reals, ints }
    }

    /// A register that nothing else uses.
    pub(crate) fn fresh(&mut self, bank: Bank) -> u16 {
        let (free, count) = match bank {
            Bank::Real => (&mut self.free_reals, &mut self.reals),
            _ => (&mut self.free_ints, &mut self.ints),
        };
        if let Some(register) = free.pop() {
            return register;
        }
        *count += 1;
        (*count - 1) as u16
    }

    /// Gives a node a register. Returns the instruction that loads it there, as an element of an array that is told by
    /// the registers of its address and of the index.
    pub(crate) fn load(&mut self, id: NodeId, (object, index): (u16, u16)) -> Inst {
        let (register, object, index) = (self.place(id), IntReg(object), IntReg(index));
        match bank_of(self.graph.node(id)) {
            Bank::Real => Inst::KeptElem { dst: RealReg(register), object, index },
            _ => Inst::KeptIElem { dst: IntReg(register), object, index },
        }
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

    /// Whether a node has been placed or computed.
    pub(crate) fn is_placed(&self, id: NodeId) -> bool {
        self.registers[id.index()] != NOWHERE
    }

    /// Computes the nodes that are `needed`, whose arguments are, and that have no registers yet. Registers of nodes
    /// that are for others only, and not `kept`, are used again after the last of these.
    pub(crate) fn compute_all(&mut self, needed: &[bool], kept: &[bool], code: &mut Vec<Inst>) {
        let graph = self.graph;
        let mut last_use: Vec<Option<NodeId>> = vec![None; graph.len()];
        for (id, _) in graph.iter().filter(|(id, _)| needed[id.index()]) {
            graph.args(id).for_each(|arg| last_use[arg.index()] = Some(id));
        }
        let placed: Vec<bool> = self.registers.iter().map(|&register| register != NOWHERE).collect();
        for (id, _) in graph.iter().filter(|(id, _)| needed[id.index()] && !placed[id.index()]) {
            self.compute(id, code);
            for arg in graph.args(id) {
                let at = arg.index();
                if last_use[at] == Some(id) && !placed[at] && !kept[at] {
                    last_use[at] = None;
                    match bank_of(graph.node(arg)) {
                        Bank::Real => self.free_reals.push(self.registers[at]),
                        _ => self.free_ints.push(self.registers[at]),
                    }
                }
            }
        }
    }

    /// Computes a node, whose arguments have registers, unless it is in one.
    pub(crate) fn compute(&mut self, id: NodeId, code: &mut Vec<Inst>) {
        if self.is_placed(id) {
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
