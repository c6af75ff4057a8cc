//! What a record saves and what its adjoint computes again.
//!
//! This is no part of a derivation: a graph in which derived nodes stand behind primal ones is given, however it came
//! about. Results of costly instructions are saved, others are computed again when everything that they need is at
//! hand, and saved when not.

use crate::bytecode::isa::{Bank, Op};
use crate::derivation::graph::{Graph, Node, NodeId, bank_of};

/// Which primal nodes are saved and which nodes the derived code computes.
pub(crate) struct Plan {
    pub(crate) saved_reals: Vec<NodeId>,
    pub(crate) saved_ints: Vec<NodeId>,
    /// Reals that are loaded again, the last one first.
    pub(crate) loaded: Vec<NodeId>,
    pub(crate) needed: Vec<bool>,
}

impl Plan {
    /// `results` is what the derived code is for. Primal nodes that are `free` are at hand without being saved.
    pub(crate) fn new(graph: &Graph, primal_len: usize, results: &[NodeId], free: &dyn Fn(NodeId) -> bool) -> Plan {
        Plan::with_loads(graph, primal_len, results, free, &|_| None)
    }

    /// The same, where there are reals that can be loaded again if the nodes that `loads` names for them are at hand.
    pub(crate) fn with_loads<'l>(
        graph: &Graph,
        primal_len: usize,
        results: &[NodeId],
        free: &dyn Fn(NodeId) -> bool,
        loads: &dyn Fn(NodeId) -> Option<&'l [NodeId]>,
    ) -> Plan {
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
                Node::Op(..) => is_cheap(graph, id) && graph.args(id).all(|arg| available[arg.index()]),
                _ => loads(id).is_some_and(|args| args.iter().all(|arg| available[arg.index()])),
            };
            saved[at] = needed[at] && !recomputable;
            available[at] = saved[at] || recomputable;
        }
        let mut loaded = Vec::new();
        // What the recomputed nodes read, in turn.
        for (id, _) in graph.iter().take(primal_len).rev() {
            if needed[id.index()] && !saved[id.index()] {
                graph.args(id).for_each(|arg| needed[arg.index()] = true);
                if let Some(args) = loads(id).filter(|_| !free(id)) {
                    args.iter().for_each(|arg| needed[arg.index()] = true);
                    loaded.push(id);
                }
            }
        }
        let (mut saved_reals, mut saved_ints) = (Vec::new(), Vec::new());
        for (id, node) in graph.iter().take(primal_len).filter(|(id, _)| saved[id.index()]) {
            match bank_of(node) {
                Bank::Real => saved_reals.push(id),
                _ => saved_ints.push(id),
            }
        }
        Plan { saved_reals, saved_ints, loaded, needed }
    }
}

/// Whether a node is an instruction that is computed again rather than saved.
pub(crate) fn is_cheap(graph: &Graph, id: NodeId) -> bool {
    let Node::Op(op, _) = graph.node(id) else { return false };
    !op.info().costly && !op.info().traps || divides_by_constant(graph, id) || goes_round(graph, id)
}

/// Whether a node is a division of integers that can't trap. In native code it is mostly a shift, so that computing it
/// again is cheaper than saving a number.
fn divides_by_constant(graph: &Graph, id: NodeId) -> bool {
    let divisor = || graph.args(id).nth(1).map(|arg| graph.node(arg));
    matches!(graph.node(id), Node::Op(Op::IDiv | Op::IRem, _)) && matches!(divisor(), Some(Node::Int(1..)))
}

/// Whether a node is the remainder of a sum, as `(i + 1) % n` is, by which indices go round. In native code such a one
/// takes mostly no division. It can't trap where it hasn't before.
fn goes_round(graph: &Graph, id: NodeId) -> bool {
    let dividend = || graph.args(id).next().map(|arg| graph.node(arg));
    matches!(graph.node(id), Node::Op(Op::IRem, _)) && matches!(dividend(), Some(Node::Op(Op::IAdd | Op::ISub, _)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::isa::{Scalar, evaluate};
    use crate::derivation::components::{adjoint_with_components, with_components};
    use crate::derivation::piece::Piece;
    use crate::derivation::random_pieces::{Sample, regular, seeds};
    use fastrand::Rng;

    /// A derived piece's outputs, found from what is saved of the primal piece and the inputs of the derived one.
    fn outputs_from_saved(primal: &Piece, derived: &Piece, plan: &Plan, reals: &[f64], ints: &[i64]) -> Vec<f64> {
        let len = primal.graph.len();
        let known = primal.values(&vec![true; len], &reals[..primal.reals as usize], ints).expect("nothing traps");
        let mut values: Vec<Option<Scalar>> = vec![None; derived.graph.len()];
        for id in plan.saved_reals.iter().chain(&plan.saved_ints) {
            values[id.index()] = Some(known[id.index()]);
        }
        for (id, node) in derived.graph.iter().filter(|(id, _)| plan.needed[id.index()]) {
            if values[id.index()].is_some() {
                continue;
            }
            let value = match node {
                Node::RealInput(n) if id.index() >= len => Scalar::Real(reals[n as usize]),
                Node::RealInput(_) | Node::IntInput(_) => panic!("{node:?} is needed and not saved"),
                Node::Real(bits) => Scalar::Real(f64::from_bits(bits)),
                Node::Int(n) => Scalar::Int(n),
                Node::Op(op, _) => {
                    let at_hand = |arg: NodeId| values[arg.index()].expect("arguments are saved or computed");
                    let args: Vec<Scalar> = derived.graph.args(id).map(at_hand).collect();
                    evaluate(op, &args).expect("nothing traps")
                }
            };
            values[id.index()] = Some(value);
        }
        let real = |id: &NodeId| match values[id.index()] {
            Some(Scalar::Real(x)) => x,
            found => panic!("outputs are reals that are computed, found {found:?}"),
        };
        derived.outputs.iter().map(real).collect()
    }

    #[test]
    fn what_is_saved_is_enough_for_adjoints_of_any_depth() {
        for seed in seeds(300) {
            let mut rng = Rng::with_seed(seed);
            let Sample { piece, reals, ints, .. } = regular(&mut rng, 10);
            for depth in 0..=2 {
                let (primal, derived) = (with_components(&piece, depth), adjoint_with_components(&piece, depth));
                let more: Vec<f64> = (reals.len()..derived.reals as usize).map(|_| rng.f64() - 0.5).collect();
                let reals = [&reals[..], &more].concat();
                let plan = Plan::new(&derived.graph, primal.graph.len(), &derived.outputs, &|_| false);
                let found = outputs_from_saved(&primal, &derived, &plan, &reals, &ints);
                let expected = derived.evaluate(&reals, &ints).expect("nothing traps");
                let bits = |list: &[f64]| list.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&found), bits(&expected), "seed {seed}, depth {depth}: {piece:?}");
            }
        }
    }

    #[test]
    fn cheap_results_are_computed_again_and_costly_ones_saved() {
        let mut piece = Piece { reals: 2, ..Piece::default() };
        let [x, y] = [0, 1].map(|n| piece.graph.add(Node::RealInput(n)));
        let sum = piece.graph.op(Op::Add, &[x, y]);
        let exp = piece.graph.op(Op::Exp, &[sum]);
        let product = piece.graph.op(Op::Mul, &[sum, exp]);
        piece.outputs = vec![piece.graph.op(Op::Mul, &[product, x])];
        let derived = crate::derivation::adjoint::adjoint(&piece);
        let plan = Plan::new(&derived.graph, piece.graph.len(), &derived.outputs, &|_| false);
        assert_eq!((plan.saved_reals, plan.saved_ints.len()), (vec![x, sum, exp], 0));
    }
}
