//! Straight-line pieces of code: what derivatives are taken of, and what they are.
//!
//! A piece is a graph with numbered inputs and outputs. [`tangent`](crate::derivation::tangent::tangent) and
//! [`adjoint`](crate::derivation::adjoint::adjoint) map pieces to pieces, so they can be composed in any order and to
//! any depth. Their inputs have roles (tangents, adjoints of outputs), but a role is nothing but a range of numbers:
//! to the next derivative all real inputs are alike.

#[cfg(test)]
use crate::bytecode::isa::{Scalar, evaluate};
use crate::derivation::graph::{Graph, Node, NodeId};

/// Real outputs as functions of numbered inputs.
#[derive(Clone, Default, Debug)]
pub(crate) struct Piece {
    pub(crate) graph: Graph,
    /// How many real inputs there are. One that nothing reads may have no node.
    pub(crate) reals: u32,
    /// How many integer inputs there are. They carry no derivatives, so derived pieces have the same.
    pub(crate) ints: u32,
    /// Real nodes; one may be there more than once, or be an input.
    pub(crate) outputs: Vec<NodeId>,
}

impl Piece {
    /// For each node, whether an output needs it.
    pub(crate) fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.graph.len()];
        self.outputs.iter().for_each(|id| live[id.index()] = true);
        for (id, _) in self.graph.iter().rev() {
            if live[id.index()] {
                self.graph.args(id).for_each(|arg| live[arg.index()] = true);
            }
        }
        live
    }

    /// Adds the live nodes of another piece to this one's graph, where equal ones are one. Its n-th real input is
    /// `input(n)` here, its integer inputs have the same numbers. Returns the nodes of its outputs.
    pub(crate) fn adopt(&mut self, other: &Piece, input: impl Fn(u32) -> u32) -> Vec<NodeId> {
        let live = other.live();
        let mut here: Vec<Option<NodeId>> = vec![None; other.graph.len()];
        for (id, node) in other.graph.iter().filter(|(id, _)| live[id.index()]) {
            here[id.index()] = Some(match node {
                Node::RealInput(n) => self.graph.add(Node::RealInput(input(n))),
                Node::Op(op, _) => {
                    let args = other.graph.args(id).map(|arg| here[arg.index()].expect("arguments are live, too"));
                    self.graph.op(op, &args.collect::<Vec<_>>())
                }
                constant_or_int => self.graph.add(constant_or_int),
            });
        }
        other.outputs.iter().map(|id| here[id.index()].expect("outputs are live")).collect()
    }
}

#[cfg(test)]
impl Piece {
    /// The outputs, by the primal semantics of the instruction table. `None` if an instruction that they need traps.
    pub(crate) fn evaluate(&self, reals: &[f64], ints: &[i64]) -> Option<Vec<f64>> {
        let values = self.values(&self.live(), reals, ints)?;
        let output = |id: &NodeId| match values[id.index()] {
            Scalar::Real(x) => x,
            Scalar::Int(_) => panic!("outputs are reals"),
        };
        Some(self.outputs.iter().map(output).collect())
    }

    /// The values of some nodes, which include their arguments; 0 stands for the others.
    pub(crate) fn values(&self, nodes: &[bool], reals: &[f64], ints: &[i64]) -> Option<Vec<Scalar>> {
        assert_eq!((reals.len(), ints.len()), (self.reals as usize, self.ints as usize), "one value for each input");
        let mut values = vec![Scalar::Int(0); self.graph.len()];
        for (id, node) in self.graph.iter().filter(|(id, _)| nodes[id.index()]) {
            values[id.index()] = match node {
                Node::RealInput(n) => Scalar::Real(reals[n as usize]),
                Node::IntInput(n) => Scalar::Int(ints[n as usize]),
                Node::Real(bits) => Scalar::Real(f64::from_bits(bits)),
                Node::Int(n) => Scalar::Int(n),
                Node::Op(op, _) => {
                    let args: Vec<Scalar> = self.graph.args(id).map(|arg| values[arg.index()]).collect();
                    evaluate(op, &args)?
                }
            };
        }
        Some(values)
    }
}
