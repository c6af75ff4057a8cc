//! What a record saves and what its adjoint computes again.
//!
//! This is no part of a derivation: a graph in which derived nodes stand behind primal ones is given, however it came
//! about. Results of costly instructions are saved, others are computed again when everything that they need is at
//! hand, and saved when not.

use crate::bytecode::isa::Bank;
use crate::derivation::graph::{Graph, Node, NodeId, bank_of};

/// Which primal nodes are saved and which nodes the derived code computes.
pub(crate) struct Plan {
    pub(crate) saved_reals: Vec<NodeId>,
    pub(crate) saved_ints: Vec<NodeId>,
    pub(crate) needed: Vec<bool>,
}

impl Plan {
    /// `results` is what the derived code is for. Primal nodes that are `free` are at hand without being saved.
    pub(crate) fn new(graph: &Graph, primal_len: usize, results: &[NodeId], free: &dyn Fn(NodeId) -> bool) -> Plan {
        let mut needed = vec![false; graph.len()];
        for id in results {
            needed[id.index()] = true;
        }
        // What the derived nodes read directly.
        for (id, _) in graph.iter().rev() {
            if needed[id.index()] && id.index() >= primal_len {
                graph.args(id).for_each(|arg| needed[arg.index()] = true);
            }
        }
        let mut saved = vec![false; primal_len];
        let mut available = vec![false; primal_len];
        for (id, node) in graph.iter().take(primal_len) {
            let at = id.index();
            let recomputable = match node {
                Node::Real(_) | Node::Int(_) => true,
                _ if free(id) => true,
                Node::Op(op, _) => {
                    let cheap = !op.info().costly && !op.info().traps;
                    cheap && graph.args(id).all(|arg| available[arg.index()])
                }
                _ => false,
            };
            saved[at] = needed[at] && !recomputable;
            available[at] = saved[at] || recomputable;
        }
        // What the recomputed nodes read, in turn.
        for (id, _) in graph.iter().take(primal_len).rev() {
            if needed[id.index()] && !saved[id.index()] {
                graph.args(id).for_each(|arg| needed[arg.index()] = true);
            }
        }
        let (mut saved_reals, mut saved_ints) = (Vec::new(), Vec::new());
        for (id, node) in graph.iter().take(primal_len).filter(|(id, _)| saved[id.index()]) {
            match bank_of(node) {
                Bank::Real => saved_reals.push(id),
                _ => saved_ints.push(id),
            }
        }
        Plan { saved_reals, saved_ints, needed }
    }
}
