//! What a loop's record holds: once and per iteration, as nodes and in registers.

use super::classes::Classes;
use super::interface::Interface;
use crate::bytecode::isa::Bank;
use crate::derivation::graph::{Graph, Node, NodeId, bank_of};
use crate::derivation::plan::Plan;
use crate::memory::kept::CHUNK;
use crate::preparation::loop_detection::Loop;
use crate::preparation::segmentation::INPUTS_MAX;
use crate::preparation::stretch::{EndRegisters, IntSource, Stretch, StretchCopy};

// A loop keeps no more arrays than it may have inputs, and whoever completes its record keeps them all at once.
const _: () = assert!(INPUTS_MAX <= CHUNK, "the cells of a record fit into a chunk");

/// What a record holds, as nodes.
pub(super) struct Saved {
    pub(super) once_reals: Vec<NodeId>,
    /// Induction registers first.
    pub(super) once_ints: Vec<NodeId>,
    pub(super) entry_reals: Vec<NodeId>,
    pub(super) entry_ints: Vec<NodeId>,
    /// Elements that are loaded again, in order.
    pub(super) loaded: Vec<LoadedElement>,
    /// The reference registers of their arrays.
    pub(super) kept: Vec<u16>,
    /// Nodes that the derived code computes or loads.
    pub(super) needed: Vec<bool>,
}

/// An element that is loaded again.
pub(super) struct LoadedElement {
    pub(super) node: NodeId,
    /// Which of the kept arrays it is of.
    pub(super) array: usize,
    pub(super) index: NodeId,
}

impl Saved {
    pub(super) fn new(
        source: &Loop,
        graph: &Graph,
        primal_len: usize,
        interface: &Interface,
        classes: &Classes,
    ) -> Saved {
        let contributions = interface.inputs.iter().map(|input| input.contribution);
        let elements = interface.elements.iter().flat_map(|element| [element.contribution, element.index]);
        let results: Vec<NodeId> = contributions.chain(elements).collect();
        let free = |id: NodeId| classes.unchanged[id.index()] || classes.is_induction(id);
        // What is loaded again keeps its array alive: that is worth it if the loop goes through that. Elements that it
        // looks up here and there would be waited for twice, once in the forward run and once in the sweep.
        let linear = classes.linear(graph);
        let Stretch { real_inputs, int_inputs, .. } = &source.iteration;
        let looked_up = int_inputs.iter().filter(|source| matches!(source, IntSource::Element { .. })).count();
        let has_few = real_inputs.len() + looked_up <= INPUTS_MAX;
        let element = |id: NodeId| {
            let node = graph.node(id);
            let is_element = id.index() < primal_len && (has_few || bank_of(node) == Bank::Real);
            let element = if is_element { source.iteration.element(node) } else { None };
            element.filter(|(_, index)| linear[index.index()])
        };
        let loads = |id: NodeId| element(id).map(|(_, index)| std::slice::from_ref(index));
        let mut needed = Plan::with_loads(graph, primal_len, &results, &free, &loads).needed;
        let mut results = results;
        for induction in classes.inductions.iter().filter(|induction| needed[induction.start.index()]) {
            results.extend(induction.steps_back.iter().map(|&(_, step)| step));
        }
        let plan = Plan::with_loads(graph, primal_len, &results, &free, &loads);
        needed = plan.needed;
        let (mut kept, mut loaded) = (Vec::new(), Vec::new());
        for &node in plan.loaded.iter().rev() {
            let (register, &index) = element(node).expect("it can be loaded");
            let array = kept.iter().position(|&known| known == register).unwrap_or_else(|| {
                kept.push(register);
                kept.len() - 1
            });
            loaded.push(LoadedElement { node, array, index });
        }
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
        Saved {
            once_reals,
            once_ints,
            entry_reals: plan.saved_reals,
            entry_ints: plan.saved_ints,
            loaded,
            kept,
            needed,
        }
    }

    /// The registers of all that. Copies go to the registers from `free_reals` and `free_ints` on.
    pub(super) fn registers(&self, source: &Loop, graph: &Graph, free_reals: u16, free_ints: u16) -> SavedRegisters {
        let iteration = &source.iteration;
        let mut finder = EndRegisters { stretch: iteration, graph, copies: Vec::new(), free_reals, free_ints };
        let entry_reals = self.entry_reals.iter().map(|&id| finder.of(id)).collect();
        let entry_ints = self.entry_ints.iter().map(|&id| finder.of(id)).collect();
        // Registers that the loop doesn't change, but for induction registers, whose last values count, and elements
        // that it loads again and again, which are where they end up.
        let mut once = |&id: &NodeId| match iteration.input_register(graph.node(id)) {
            Some(register) => register.index,
            None => finder.of(id),
        };
        SavedRegisters {
            once_reals: self.once_reals.iter().map(&mut once).collect(),
            once_ints: self.once_ints.iter().map(&mut once).collect(),
            kept: self.kept.clone().into(),
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
    pub(super) kept: Box<[u16]>,
    pub(super) entry_reals: Box<[u16]>,
    pub(super) entry_ints: Box<[u16]>,
    /// What comes before an iteration overwrites what is saved of it.
    pub(super) copies: Vec<StretchCopy>,
}
