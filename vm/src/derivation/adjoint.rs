//! The adjoint of straight-line code, as straight-line code: the transpose of its derivative.
//!
//! The primal nodes are walked backwards, and each hands its adjoint on to its arguments by the rules of the
//! instruction table (Smeding and Vákár 2024, section 5, applied to a whole piece at once and defunctionalised as in
//! section 10.2). What comes out is made of the same instructions as what went in, and the adjoints that it begins with
//! are inputs like any other. So it has a tangent and an adjoint in turn: the closure that Pearlmutter and Siskind
//! (2008, section 1) ask for, without tags for variables, because inputs are numbers and a new one is a number that was
//! free (their section 4).
//!
//! Here is nothing about records: [`crate::derivation::plan`] says what is saved, [`crate::records`] makes the adjoints
//! of segments and of iterations into code.

use crate::bytecode::isa::Op;
use crate::derivation::dependence::dependences;
use crate::derivation::graph::{Node, NodeId, rules};
use crate::derivation::piece::Piece;
use std::cell::RefCell;

/// The adjoint of a piece: from (`x`, `y_adj`) to `x_adj`, where the inputs `y_adj` come behind the piece's own. The
/// nodes of the piece come first and keep their positions.
///
/// The primal nodes are walked backwards. The first contribution to a node's adjoint is taken as it is, the others are
/// added in the order of the walk. An output that depends on nothing takes no part: its adjoint is an input without a
/// node. What is known to be zero is the constant 0; see [`contributions`].
pub(crate) fn adjoint(piece: &Piece) -> Piece {
    let sets = dependences(&piece.graph);
    let graph = RefCell::new(piece.graph.clone());
    let mut adjoints: Vec<Option<NodeId>> = vec![None; piece.graph.len()];
    let contribute = |adjoints: &mut Vec<Option<NodeId>>, to: NodeId, value: NodeId| {
        let sum = match adjoints[to.index()] {
            Some(sum) => graph.borrow_mut().op(Op::Add, &[sum, value]),
            None => value,
        };
        adjoints[to.index()] = Some(sum);
    };
    for (n, &output) in piece.outputs.iter().enumerate().filter(|(_, output)| !sets[output.index()].is_empty()) {
        let seed = graph.borrow_mut().add(Node::RealInput(piece.reals + n as u32));
        contribute(&mut adjoints, output, seed);
    }
    for (id, _) in piece.graph.iter().rev() {
        let Some(adjoint) = adjoints[id.index()] else { continue };
        for (arg, partial) in rules(&graph, id) {
            if let Some(value) = partial.apply(&graph, adjoint) {
                contribute(&mut adjoints, arg, value);
            }
        }
    }
    let mut graph = graph.into_inner();
    debug_assert!(adjoints.iter().flatten().all(|&id| graph.constant(id).is_none()), "all come from output adjoints");
    let mut outputs = vec![graph.real(0.0); piece.reals as usize];
    for ((_, node), adjoint) in piece.graph.iter().zip(adjoints) {
        if let (Node::RealInput(n), Some(adjoint)) = (node, adjoint) {
            outputs[n as usize] = adjoint;
        }
    }
    Piece { graph, reals: piece.reals + piece.outputs.len() as u32, ints: piece.ints, outputs }
}

/// The nodes of `y_adj` in the adjoint of a piece, in order: one for each output that depends on an input.
pub(crate) fn seeds(primal: &Piece, adjoint: &Piece) -> Vec<NodeId> {
    let derived = adjoint.graph.iter().skip(primal.graph.len());
    derived.filter(|(_, node)| matches!(node, Node::RealInput(_))).map(|(id, _)| id).collect()
}

/// For each output of a piece, the node of its adjoint in the adjoint of the piece, if anything comes from there.
pub(crate) fn seeds_by_output(primal: &Piece, adjoint: &Piece) -> Vec<Option<NodeId>> {
    let mut seeds = vec![None; primal.outputs.len()];
    for (id, node) in adjoint.graph.iter().skip(primal.graph.len()) {
        if let Node::RealInput(n) = node {
            seeds[(n - primal.reals) as usize] = Some(id);
        }
    }
    seeds
}

/// The real inputs of a piece that have a contribution in its adjoint, each with its own, in the order of their nodes.
/// The others have the constant 0, and a contribution is never a constant, because the output adjoints are none.
pub(crate) fn contributions(primal: &Piece, adjoint: &Piece) -> Vec<(u32, NodeId)> {
    let inputs = primal.graph.iter().filter_map(|(_, node)| match node {
        Node::RealInput(n) => Some((n, adjoint.outputs[n as usize])),
        _ => None,
    });
    inputs.filter(|&(_, contribution)| adjoint.graph.constant(contribution).is_none()).collect()
}
