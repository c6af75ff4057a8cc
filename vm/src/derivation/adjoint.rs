//! The adjoint of a straight-line graph: the transpose of its derivative.
//!
//! The primal nodes are walked backwards, and each hands its adjoint on to its arguments by the rules of the
//! instruction table (Smeding and Vákár 2024, section 5, applied to a whole graph at once and defunctionalised as in
//! section 10.2). The adjoints that it begins with are inputs like any other.
//!
//! Here is nothing about records: [`crate::derivation::plan`] says what is saved.

use crate::bytecode::isa::Op;
use crate::derivation::dependence::InputSet;
use crate::derivation::graph::{Graph, Node, NodeId, rules};
use std::cell::RefCell;

/// A graph with the adjoints of its nodes.
pub(crate) struct Adjoints {
    /// What was added stands behind the nodes that were there before.
    pub(crate) graph: Graph,
    /// For each node that was there before, its adjoint. `None` is a zero that is known.
    pub(crate) of: Vec<Option<NodeId>>,
    /// The inputs that are the adjoints of outputs, of those that depend on something.
    pub(crate) seeds: Vec<NodeId>,
}

impl Adjoints {
    /// Walks the nodes backwards and adds up the adjoint of each. The first contribution is taken as it is, the others
    /// are added in the order of the walk. `reals` is how many real inputs there are: the adjoint of the n-th output is
    /// the n-th input behind them. `sets` says what each output depends on; what depends on nothing takes no part.
    pub(crate) fn new(graph: Graph, reals: u32, outputs: &[NodeId], sets: &[InputSet]) -> Adjoints {
        let primal_len = graph.len();
        let graph = RefCell::new(graph);
        let mut of: Vec<Option<NodeId>> = vec![None; primal_len];
        let contribute = |of: &mut Vec<Option<NodeId>>, to: NodeId, value: NodeId| {
            let sum = match of[to.index()] {
                Some(sum) => graph.borrow_mut().op(Op::Add, &[sum, value]),
                None => value,
            };
            of[to.index()] = Some(sum);
        };
        let mut seeds = Vec::new();
        for (n, (&output, _)) in outputs.iter().zip(sets).enumerate().filter(|(_, (_, set))| !set.is_empty()) {
            let seed = graph.borrow_mut().add(Node::RealInput(reals + n as u32));
            seeds.push(seed);
            contribute(&mut of, output, seed);
        }
        let primal: Vec<NodeId> = graph.borrow().iter().take(primal_len).map(|(id, _)| id).collect();
        for id in primal.into_iter().rev() {
            let Some(adjoint) = of[id.index()] else { continue };
            for (arg, partial) in rules(&graph, id) {
                if let Some(value) = partial.apply(&graph, adjoint) {
                    contribute(&mut of, arg, value);
                }
            }
        }
        Adjoints { graph: graph.into_inner(), of, seeds }
    }
}
