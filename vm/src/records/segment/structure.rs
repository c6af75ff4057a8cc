//! Which derivatives of a segment can be other than zero.

use super::SegmentAdjoint;
use crate::derivation::dependence::{InputSet, dependences};
use crate::derivation::piece::Piece;

/// What a segment's outputs depend on, and which of its inputs meet in a way that isn't linear. Inputs go by their
/// places in a record.
///
/// It holds for all values: an entry that is left out is zero by the rules of the instruction table, whatever branch or
/// `select` is taken.
#[derive(Debug)]
pub(crate) struct SegmentStructure {
    /// For each output that has a slot, in order, the inputs with a partial derivative.
    pub(crate) outputs: Box<[Box<[u32]>]>,
    /// Pairs of inputs, the lesser first, by both of which an output can have a second derivative. An input may make a
    /// pair with itself.
    pub(crate) pairs: Box<[[u32; 2]]>,
}

impl SegmentStructure {
    /// The structure of the segment that is this piece, with components if it is code at a depth. `derived` is its
    /// adjoint, `record` what became of that.
    ///
    /// A second derivative is what the adjoint of one input has by the other one.
    pub(crate) fn new(piece: &Piece, derived: &Piece, record: &SegmentAdjoint) -> Self {
        let mut places = vec![None; piece.reals as usize];
        for (place, &input) in record.inputs.iter().enumerate() {
            places[input as usize] = Some(place as u32);
        }
        // The adjoint's inputs that are adjoints come behind those of the piece.
        let places_of = |set: &InputSet| -> Box<[u32]> {
            let inputs = set.iter().take_while(|&input| input < places.len());
            inputs.filter_map(|input| places[input]).collect()
        };
        let primal = dependences(&piece.graph);
        let slots = piece.outputs.iter().zip(&record.sets).filter(|(_, set)| set.is_some());
        let outputs = slots.map(|(output, _)| places_of(&primal[output.index()])).collect();
        let second = dependences(&derived.graph);
        let mut pairs = Vec::new();
        for (place, &input) in record.inputs.iter().enumerate() {
            let contribution = derived.outputs[input as usize];
            let others = places_of(&second[contribution.index()]);
            pairs.extend(others.iter().map(|&other| [other.min(place as u32), other.max(place as u32)]));
        }
        pairs.sort_unstable();
        pairs.dedup();
        SegmentStructure { outputs, pairs: pairs.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::isa::Op;
    use crate::derivation::adjoint::adjoint;
    use crate::derivation::graph::{Node, NodeId};

    /// The structure of what `build` makes of so many inputs.
    fn structure(reals: u32, build: impl FnOnce(&mut Piece, &[NodeId]) -> Vec<NodeId>) -> SegmentStructure {
        let mut piece = Piece { reals, ..Piece::default() };
        let inputs: Vec<NodeId> = (0..reals).map(|n| piece.graph.add(Node::RealInput(n))).collect();
        piece.outputs = build(&mut piece, &inputs);
        let derived = adjoint(&piece);
        let record = SegmentAdjoint::of(&piece, &derived, reals);
        SegmentStructure::new(&piece, &derived, &record)
    }

    #[test]
    fn pairs_are_inputs_that_meet_in_a_product_or_behind_a_function() {
        let found = structure(5, |piece, x| {
            let graph = &mut piece.graph;
            let product = graph.op(Op::Mul, &[x[0], x[1]]);
            let sum = graph.op(Op::Add, &[product, x[2]]);
            let shifted = graph.op(Op::Sub, &[x[3], x[4]]);
            let mut outputs = vec![sum, graph.op(Op::Sin, &[shifted])];
            outputs.sort_unstable();
            outputs
        });
        assert_eq!(found.outputs, [Box::from([0, 1, 2]), Box::from([3, 4])].into());
        assert_eq!(found.pairs, [[0, 1], [3, 3], [3, 4], [4, 4]].into());
    }

    #[test]
    fn what_is_linear_piece_by_piece_makes_no_pairs() {
        let found = structure(3, |piece, x| {
            let graph = &mut piece.graph;
            let size = graph.op(Op::Abs, &[x[0]]);
            let less = graph.op(Op::Lt, &[x[1], size]);
            let chosen = graph.op(Op::Select, &[less, x[1], size]);
            let floor = graph.op(Op::Floor, &[x[2]]);
            vec![graph.op(Op::Mul, &[chosen, floor])]
        });
        assert_eq!((found.outputs, found.pairs), ([Box::from([0, 1])].into(), [].into()));
    }

    #[test]
    fn a_quotient_is_linear_in_its_dividend() {
        let found = structure(2, |piece, x| vec![piece.graph.op(Op::Div, &[x[0], x[1]])]);
        assert_eq!(found.pairs, [[0, 1], [1, 1]].into());
    }
}
