//! What a loop's record holds: once and per iteration, as nodes and in registers.

use super::classes::Classes;
use super::interface::Interface;
use crate::bytecode::isa::{Bank, Reg};
use crate::derivation::graph::{Graph, Node, NodeId, bank_of};
use crate::derivation::plan::Plan;
use crate::preparation::loop_detection::{IntSource, Loop, RealSource};

/// What a record holds, as nodes.
pub(super) struct Saved {
    pub(super) once_reals: Vec<NodeId>,
    /// Induction registers first.
    pub(super) once_ints: Vec<NodeId>,
    pub(super) entry_reals: Vec<NodeId>,
    pub(super) entry_ints: Vec<NodeId>,
    /// Nodes that the derived code computes or loads.
    pub(super) needed: Vec<bool>,
}

impl Saved {
    pub(super) fn new(graph: &Graph, primal_len: usize, interface: &Interface, classes: &Classes) -> Saved {
        let contributions = interface.inputs.iter().map(|input| input.contribution);
        let elements = interface.elements.iter().flat_map(|element| [element.contribution, element.index]);
        let results: Vec<NodeId> = contributions.chain(elements).collect();
        let free = |id: NodeId| classes.unchanged[id.index()] || classes.is_induction(id);
        let mut needed = Plan::new(graph, primal_len, &results, &free).needed;
        let mut results = results;
        for induction in classes.inductions.iter().filter(|induction| needed[induction.start.index()]) {
            results.extend(induction.steps_back.iter().map(|&(_, step)| step));
        }
        let plan = Plan::new(graph, primal_len, &results, &free);
        needed = plan.needed;
        let (mut once_reals, mut invariant_ints) = (Vec::new(), Vec::new());
        for (id, node) in graph.iter().take(primal_len) {
            if needed[id.index()] && classes.unchanged[id.index()] {
                match node {
                    Node::RealInput(_) => once_reals.push(id),
                    Node::IntInput(_) => invariant_ints.push(id),
                    _ => {}
                }
            }
        }
        let inductions = classes.inductions.iter().map(|induction| induction.start);
        let once_ints = inductions.filter(|start| needed[start.index()]).chain(invariant_ints).collect();
        Saved { once_reals, once_ints, entry_reals: plan.saved_reals, entry_ints: plan.saved_ints, needed }
    }

    /// The registers of all that. Copies go to the registers from `free_reals` and `free_ints` on.
    pub(super) fn registers(&self, source: &Loop, graph: &Graph, free_reals: u16, free_ints: u16) -> SavedRegisters {
        let mut finder = RegisterFinder { source, graph, copies: Vec::new(), free_reals, free_ints };
        let entry_reals = self.entry_reals.iter().map(|&id| finder.at_end(id)).collect();
        let entry_ints = self.entry_ints.iter().map(|&id| finder.at_end(id)).collect();
        let base =
            |&id: &NodeId| input_register(source, graph.node(id)).expect("only registers' values are saved once");
        SavedRegisters {
            once_reals: self.once_reals.iter().map(base).collect(),
            once_ints: self.once_ints.iter().map(base).collect(),
            entry_reals,
            entry_ints,
            copies: finder.copies,
        }
    }
}

/// Where what is saved stands: once when the loop ends, the entries when an iteration does.
pub(super) struct SavedRegisters {
    pub(super) once_reals: Box<[u16]>,
    pub(super) once_ints: Box<[u16]>,
    pub(super) entry_reals: Box<[u16]>,
    pub(super) entry_ints: Box<[u16]>,
    /// What comes before an iteration overwrites what is saved of it.
    pub(super) copies: Vec<LoopCopy>,
}

/// The register that a node is the value of at the iteration's start, if it is one's.
fn input_register(source: &Loop, node: Node) -> Option<u16> {
    match node {
        Node::RealInput(n) => match source.real_inputs[n as usize] {
            RealSource::Register(reg) => Some(reg),
            RealSource::Element { .. } => None,
        },
        Node::IntInput(n) => match source.int_inputs[n as usize] {
            IntSource::Register(reg) => Some(reg),
            IntSource::Load => None,
        },
        _ => None,
    }
}

/// Finds the registers of values when an iteration ends.
struct RegisterFinder<'a> {
    source: &'a Loop,
    graph: &'a Graph,
    copies: Vec<LoopCopy>,
    free_reals: u16,
    free_ints: u16,
}

impl RegisterFinder<'_> {
    fn at_end(&mut self, id: NodeId) -> u16 {
        let node = self.graph.node(id);
        let bank = bank_of(node);
        if let Some((reg, _)) = self.source.ends.iter().find(|(reg, end)| reg.bank == bank && **end == id) {
            return reg.index;
        }
        let (reg, born) = match input_register(self.source, node) {
            Some(index) => (Reg { bank, index }, None),
            None => {
                let write = self.source.writes.iter().find(|write| write.node == id && write.reg.bank == bank);
                let write = write.expect("a saved value was computed or loaded");
                (write.reg, Some(write.at))
            }
        };
        let overwrites = |at: u32| born.is_none_or(|born| at > born);
        let overwritten =
            self.source.writes.iter().find(|write| write.reg == reg && write.node != id && overwrites(write.at));
        overwritten.map_or(reg.index, |write| {
            let free = if bank == Bank::Real { &mut self.free_reals } else { &mut self.free_ints };
            let to = *free;
            *free += 1;
            self.copies.push(LoopCopy { before: write.at, bank, from: reg.index, to });
            to
        })
    }
}

/// A value that is saved but overwritten before its iteration ends: it is copied first.
#[derive(Debug)]
pub(crate) struct LoopCopy {
    /// The position in the path of the instruction that overwrites it.
    pub(crate) before: u32,
    pub(crate) bank: Bank,
    pub(crate) from: u16,
    pub(crate) to: u16,
}
