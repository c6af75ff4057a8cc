//! The tangent of straight-line code, as straight-line code: its derivative in a direction that is an input.

use crate::bytecode::isa::Op;
use crate::derivation::graph::{Node, NodeId, rules};
use crate::derivation::piece::Piece;
use std::cell::RefCell;

/// The tangent of a piece: from (`x`, `x_tan`) to (`y`, `y_tan`). A node's tangent is the sum over its arguments, in
/// their order, of partial times tangent, by the rules that the adjoint has.
///
/// The tangents come behind the piece's own inputs and outputs. So where this was done d times, a real has 2ᵈ
/// components, indexed by the sets S of the d infinitesimals as bit masks, the first one's bit the lowest, and
/// component S of the n-th of N inputs is input S · N + n; outputs likewise. That is why `y` is there beside `y_tan`.
/// The nodes of the piece come first and keep their positions: component S has the same bits at every depth that has
/// it. A tangent that is known to be zero is the constant 0.
pub(crate) fn tangent(piece: &Piece) -> Piece {
    let live = piece.live();
    let graph = RefCell::new(piece.graph.clone());
    let mut tangents: Vec<Option<NodeId>> = vec![None; piece.graph.len()];
    for (id, node) in piece.graph.iter().filter(|(id, _)| live[id.index()]) {
        tangents[id.index()] = match node {
            Node::RealInput(n) => Some(graph.borrow_mut().add(Node::RealInput(piece.reals + n))),
            // What has no tangent has no use for partials.
            _ if piece.graph.args(id).all(|arg| tangents[arg.index()].is_none()) => None,
            _ => {
                let rules = rules(&graph, id).into_iter();
                let terms = rules.filter_map(|(arg, partial)| partial.apply(&graph, tangents[arg.index()]?));
                terms.reduce(|sum, term| graph.borrow_mut().op(Op::Add, &[sum, term]))
            }
        };
    }
    let mut graph = graph.into_inner();
    let zero = graph.real(0.0);
    let mut outputs = piece.outputs.clone();
    outputs.extend(piece.outputs.iter().map(|id| tangents[id.index()].unwrap_or(zero)));
    Piece { graph, reals: 2 * piece.reals, ints: piece.ints, outputs }
}
