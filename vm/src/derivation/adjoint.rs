//! The adjoint of straight-line code, as straight-line code: the transpose of its derivative.
//!
//! The primal nodes are walked backwards, and each hands its adjoint on to its arguments by the rules of the
//! instruction table (Smeding and Vákár 2024, section 5, applied to a whole piece at once and defunctionalised as in
//! section 10.2). What comes out is made of the same instructions as what went in, and the adjoints that it begins with
//! are inputs like any other. So it has a tangent and an adjoint in turn: the closure that Pearlmutter and Siskind
//! (2008, section 1) ask for, without tags for variables, because inputs are numbers and a new one is a number that was
//! free (their section 4).
//!
//! Here is nothing about records: [`crate::derivation::plan`] says what is saved.

use crate::bytecode::isa::Op;
use crate::derivation::dependence::{InputSet, dependences};
use crate::derivation::graph::{Graph, Node, NodeId, rules};
use crate::derivation::piece::Piece;
use std::cell::RefCell;

/// The adjoint of a piece: from (`x`, `y_adj`) to `x_adj`, where the inputs `y_adj` come behind the piece's own. The
/// nodes of the piece come first and keep their positions.
pub(crate) fn adjoint(piece: &Piece) -> Piece {
    let sets = dependences(&piece.graph);
    let sets: Vec<InputSet> = piece.outputs.iter().map(|id| sets[id.index()].clone()).collect();
    let Adjoints { mut graph, of, .. } = Adjoints::new(piece.graph.clone(), piece.reals, &piece.outputs, &sets);
    let mut outputs = vec![graph.real(0.0); piece.reals as usize];
    for ((_, node), adjoint) in graph.iter().zip(of) {
        if let (Node::RealInput(n), Some(adjoint)) = (node, adjoint) {
            outputs[n as usize] = adjoint;
        }
    }
    Piece { graph, reals: piece.reals + piece.outputs.len() as u32, ints: piece.ints, outputs }
}

/// The pullback of a piece with its value: from (`x`, `y_adj`) to (`y`, `x_adj`).
#[cfg_attr(not(test), expect(dead_code, reason = "derived and tested; no code is replaced by its derivative yet"))]
pub(crate) fn vjp(piece: &Piece) -> Piece {
    let mut vjp = adjoint(piece);
    vjp.outputs.splice(..0, piece.outputs.iter().copied());
    vjp
}

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
