//! The adjoint of a segment as code, and what a record saves for it.
//!
//! What is computed is the derivation's: the adjoint of a straight-line piece. What is saved is the plan's. Here both
//! get registers.

use crate::bytecode::isa::Bank;
use crate::derivation::adjoint::{contributions, seeds_by_output};
use crate::derivation::assembler::{Assembler, StraightCode};
use crate::derivation::dependence::{InputSet, dependences};
use crate::derivation::graph::{Node, NodeId};
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
    /// Takes registers for the adjoint of a piece with components of `real_inputs` reals, whose outputs are computed.
    /// If a real has a contribution, all of its components are inputs of the record, side by side.
    pub(crate) fn of(piece: &Piece, derived: &Piece, real_inputs: u32) -> Self {
        SegmentAdjoint::saving(piece, derived, real_inputs, &[])
    }

    /// The same of records that hold all inputs, whether the adjoint reads them or not.
    pub(crate) fn saving_inputs(piece: &Piece, derived: &Piece, real_inputs: u32) -> Self {
        let is_input = |node: Node| matches!(node, Node::RealInput(_) | Node::IntInput(_));
        let inputs: Vec<NodeId> = piece.graph.iter().filter(|&(_, node)| is_input(node)).map(|(id, _)| id).collect();
        SegmentAdjoint::saving(piece, derived, real_inputs, &inputs)
    }

    /// [`SegmentAdjoint::of`], whose records hold these nodes in any case.
    fn saving(piece: &Piece, derived: &Piece, real_inputs: u32, saved: &[NodeId]) -> Self {
        // Only inputs with a contribution are part of a record.
        let (mut with_contribution, mut seen) = (Vec::new(), vec![None; real_inputs as usize]);
        for (input, _) in contributions(piece, derived) {
            let number = &mut seen[(input % real_inputs) as usize];
            if number.is_none() {
                *number = Some(with_contribution.len());
                with_contribution.push(input % real_inputs);
            }
        }
        let components_of = |input: u32| (input..piece.reals).step_by(real_inputs as usize);
        let inputs: Vec<u32> = with_contribution.iter().flat_map(|&input| components_of(input)).collect();
        let contributions: Vec<NodeId> = inputs.iter().map(|&input| derived.outputs[input as usize]).collect();
        let dependence = dependences(&piece.graph);
        let renumbered = |output: &NodeId| {
            let set = &dependence[output.index()];
            let numbers = set.iter().filter_map(|input| seen[input % real_inputs as usize]);
            (!set.is_empty()).then(|| numbers.collect())
        };
        let sets: Vec<Option<InputSet>> = piece.outputs.iter().map(renumbered).collect();

        let wanted = [&contributions, saved].concat();
        let plan = Plan::new(&derived.graph, piece.graph.len(), &wanted, &|_| false);
        let mut assembler = Assembler::new(&derived.graph, 0, 0);
        plan.saved_reals.iter().for_each(|&id| _ = assembler.place(id));
        // A slot that no contribution comes from has its register all the same.
        let seeds = seeds_by_output(piece, derived);
        for (seed, _) in seeds.iter().zip(&sets).filter(|(_, set)| set.is_some()) {
            match seed {
                Some(id) => _ = assembler.place(*id),
                None => _ = assembler.fresh(Bank::Real),
            }
        }
        plan.saved_ints.iter().for_each(|&id| _ = assembler.place(id));
        let mut code = Vec::new();
        let mut kept = vec![false; derived.graph.len()];
        contributions.iter().for_each(|id| kept[id.index()] = true);
        assembler.compute_all(&plan.needed, &kept, &mut code);
        let contributions = contributions.iter().map(|&id| assembler.register(id)).collect();
        let code = StraightCode { code, reals: assembler.reals, ints: assembler.ints };
        let slots = sets.iter().flatten().count() as u32;
        let Plan { saved_reals, saved_ints, .. } = plan;
        SegmentAdjoint { inputs, saved_reals, saved_ints, sets, slots, code, contributions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::isa::Op;
    use crate::derivation::adjoint::adjoint;

    #[test]
    fn a_piece_of_many_inputs_has_an_adjoint() {
        let mut piece = Piece { reals: 100, ..Piece::default() };
        let inputs: Vec<NodeId> = (0..100).map(|n| piece.graph.add(Node::RealInput(n))).collect();
        let squares: Vec<NodeId> = inputs.iter().map(|&x| piece.graph.op(Op::Mul, &[x, x])).collect();
        let sum = squares.iter().copied().reduce(|a, b| piece.graph.op(Op::Add, &[a, b])).expect("there are some");
        let zero = piece.graph.real(0.0);
        let nothing = piece.graph.op(Op::Mul, &[inputs[3], zero]);
        piece.outputs = vec![squares[99], sum, piece.graph.op(Op::Floor, &[sum]), nothing];
        let adjoint = SegmentAdjoint::of(&piece, &adjoint(&piece), piece.reals);
        assert_eq!(adjoint.inputs, (0..100).collect::<Vec<u32>>());
        assert_eq!((adjoint.saved_reals.len(), adjoint.slots, adjoint.contributions.len()), (100, 3, 100));
        let sets = [Some([99].into_iter().collect()), Some((0..100).collect()), None, Some([3].into_iter().collect())];
        assert_eq!(adjoint.sets, sets);
    }
}
