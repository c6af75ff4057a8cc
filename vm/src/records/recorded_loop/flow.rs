//! Which reals an iteration's results depend on, and which of these results matter.

use crate::derivation::dependence::{InputSet, dependences};
use crate::derivation::graph::NodeId;
use crate::preparation::loop_detection::Loop;
use crate::preparation::stretch::RealSource;

/// The results of an iteration that matter, and what they depend on.
pub(super) struct Flow {
    /// For each register of the state whether what is useful after the loop can depend on it.
    pub(super) used: Vec<bool>,
    /// What the used registers hold when an iteration ends, in the state's order; then what is pushed.
    pub(super) nodes: Vec<NodeId>,
    /// The real inputs that each of these depends on in one iteration, without passive ones.
    pub(super) sets: Vec<InputSet>,
    /// For each real input, the register of the state that it is the start value of.
    pub(super) carried: Vec<Option<usize>>,
}

impl Flow {
    /// The nodes that depend on something.
    pub(super) fn active(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().zip(&self.sets).filter(|(_, set)| !set.is_empty()).map(|(&node, _)| node)
    }

    pub(super) fn new(source: &Loop) -> Flow {
        let dependence = dependences(&source.iteration.graph);
        let carried: Vec<Option<usize>> = source
            .iteration
            .real_inputs
            .iter()
            .map(|&input| source.state.iter().position(|state| input == RealSource::Register(state.reg)))
            .collect();
        let mut used: Vec<bool> = source.state.iter().map(|state| state.useful_after).collect();
        let useful = source.state.iter().filter(|state| state.useful_after).map(|state| state.node);
        let mut work: Vec<NodeId> = useful.chain(source.push().map(|push| push.node)).collect();
        while let Some(node) = work.pop() {
            for before in dependence[node.index()].iter().filter_map(|input| carried[input]) {
                if !used[before] {
                    used[before] = true;
                    work.push(source.state[before].node);
                }
            }
        }
        let held = source.state.iter().zip(&used).filter(|(_, used)| **used).map(|(state, _)| state.node);
        let nodes: Vec<NodeId> = held.chain(source.push().map(|push| push.node)).collect();
        let active =
            |node: &NodeId| dependence[node.index()].iter().filter(|&n| !source.iteration.passive[n]).collect();
        let sets = nodes.iter().map(active).collect();
        Flow { used, nodes, sets, carried }
    }
}
