//! The adjoint of a segment as code, and what a record saves for it.
//!
//! What is computed is the derivation's: the adjoint of a straight-line piece. What is saved is the plan's. Here both
//! get registers.

use crate::derivation::adjoint::{adjoint, contributions, seeds};
use crate::derivation::assembler::{Assembler, StraightCode};
use crate::derivation::dependence::{InputSet, dependences};
use crate::derivation::graph::NodeId;
use crate::derivation::piece::Piece;
use crate::derivation::plan::Plan;

/// What the tape and the sweep need to know of a segment.
#[derive(Debug)]
pub(crate) struct SegmentAdjoint {
    /// The segment's real inputs that receive a contribution, by their numbers in the graph.
    pub(crate) inputs: Vec<u32>,
    /// Real nodes of the primal graph that a record saves, in order.
    pub(crate) saved_reals: Vec<NodeId>,
    /// Integer nodes that a record saves, in order.
    pub(crate) saved_ints: Vec<NodeId>,
    /// For each output that has a slot: the set of `inputs` that it depends on. The set is empty, and the slot never
    /// used, if all partials on the way turned out to be zero. `None` is an output that depends on no input.
    pub(crate) sets: Vec<Option<InputSet>>,
    /// How many outputs have a slot, in order.
    pub(crate) slots: u32,
    /// The derived code.
    pub(crate) code: StraightCode,
    /// The register of each input's contribution.
    pub(crate) contributions: Vec<u16>,
}

impl SegmentAdjoint {
    /// Derives the adjoint of a piece, of which the segment's body consists.
    pub(crate) fn new(piece: &Piece) -> Self {
        let derived = adjoint(piece);
        // Only inputs with a contribution are part of a record.
        let (inputs, contributions): (Vec<u32>, Vec<NodeId>) = contributions(piece, &derived).into_iter().unzip();
        let mut numbers = vec![None; piece.reals as usize];
        inputs.iter().enumerate().for_each(|(number, &input)| numbers[input as usize] = Some(number));
        let dependence = dependences(&piece.graph);
        let renumbered = |output: &NodeId| {
            let set = &dependence[output.index()];
            (!set.is_empty()).then(|| set.iter().filter_map(|input| numbers[input]).collect())
        };
        let sets = piece.outputs.iter().map(renumbered).collect();

        let plan = Plan::new(&derived.graph, piece.graph.len(), &contributions, &|_| false);
        let seeds = seeds(piece, &derived);
        let mut assembler = Assembler::new(&derived.graph, 0, 0);
        let given = plan.saved_reals.iter().chain(&seeds).chain(&plan.saved_ints);
        given.for_each(|&id| _ = assembler.place(id));
        let mut code = Vec::new();
        for (id, _) in derived.graph.iter().filter(|(id, _)| plan.needed[id.index()]) {
            assembler.compute(id, &mut code);
        }
        let contributions = contributions.iter().map(|&id| assembler.register(id)).collect();
        let code = StraightCode { code, reals: assembler.reals, ints: assembler.ints };
        let (saved_reals, saved_ints, slots) = (plan.saved_reals, plan.saved_ints, seeds.len() as u32);
        SegmentAdjoint { inputs, saved_reals, saved_ints, sets, slots, code, contributions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::isa::Op;
    use crate::derivation::graph::Node;

    #[test]
    fn a_piece_of_many_inputs_has_an_adjoint() {
        let mut piece = Piece { reals: 100, ..Piece::default() };
        let inputs: Vec<NodeId> = (0..100).map(|n| piece.graph.add(Node::RealInput(n))).collect();
        let squares: Vec<NodeId> = inputs.iter().map(|&x| piece.graph.op(Op::Mul, &[x, x])).collect();
        let sum = squares.iter().copied().reduce(|a, b| piece.graph.op(Op::Add, &[a, b])).expect("there are some");
        let zero = piece.graph.real(0.0);
        let nothing = piece.graph.op(Op::Mul, &[inputs[3], zero]);
        piece.outputs = vec![squares[99], sum, piece.graph.op(Op::Floor, &[sum]), nothing];
        let adjoint = SegmentAdjoint::new(&piece);
        assert_eq!(adjoint.inputs, (0..100).collect::<Vec<u32>>());
        assert_eq!((adjoint.saved_reals.len(), adjoint.slots, adjoint.contributions.len()), (100, 3, 100));
        let sets = [Some([99].into_iter().collect()), Some((0..100).collect()), None, Some([3].into_iter().collect())];
        assert_eq!(adjoint.sets, sets);
    }
}
