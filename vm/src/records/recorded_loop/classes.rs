//! How often the value of a node changes: never, by the same amount from iteration to iteration, or in any way.

use crate::bytecode::isa::{Op, Reg};
use crate::derivation::graph::{Graph, Node, NodeId};
use crate::preparation::loop_detection::Loop;
use crate::preparation::stretch::{IntSource, RealSource};

/// How often the value of a node changes.
pub(super) struct Classes {
    /// For each node, whether it is the same in every iteration.
    pub(super) unchanged: Vec<bool>,
    pub(super) inductions: Vec<Induction>,
}

/// An integer register that an iteration changes by an unchanged amount.
pub(super) struct Induction {
    /// Its value at the iteration's start.
    pub(super) start: NodeId,
    /// What leads from its value at the end back to that, in order.
    pub(super) steps_back: Vec<(Op, NodeId)>,
}

impl Classes {
    pub(super) fn new(source: &Loop, graph: &Graph, primal_len: usize) -> Classes {
        let mut unchanged = vec![false; graph.len()];
        for (id, node) in graph.iter() {
            unchanged[id.index()] = match node {
                Node::Real(_) | Node::Int(_) => true,
                // What is no input of the loop is an adjoint.
                Node::RealInput(n) => match source.iteration.real_inputs.get(n as usize) {
                    Some(&RealSource::Register(reg)) => !source.iteration.ends.contains_key(&Reg::real(reg)),
                    // Arrays don't change.
                    Some(RealSource::Element { index, .. }) => unchanged[index.index()],
                    None => false,
                },
                Node::IntInput(n) => match source.iteration.int_inputs[n as usize] {
                    IntSource::Register(reg) => !source.iteration.ends.contains_key(&Reg::int(reg)),
                    IntSource::Element { index, .. } => unchanged[index.index()],
                    IntSource::Load => false,
                },
                Node::Op(op, _) => !op.info().traps && graph.args(id).all(|arg| unchanged[arg.index()]),
            };
        }
        let start_values = graph.iter().take(primal_len).filter_map(|(start, node)| match node {
            Node::IntInput(n) => match source.iteration.int_inputs[n as usize] {
                IntSource::Register(reg) => Some((start, *source.iteration.ends.get(&Reg::int(reg))?)),
                IntSource::Element { .. } | IntSource::Load => None,
            },
            _ => None,
        });
        let inductions = start_values
            .filter_map(|(start, end)| {
                let steps_back = steps_back(graph, &unchanged, start, end)?;
                Some(Induction { start, steps_back })
            })
            .collect();
        Classes { unchanged, inductions }
    }

    /// For each node, whether it is an integer that changes by the same amount from iteration to iteration.
    pub(super) fn linear(&self, graph: &Graph) -> Vec<bool> {
        let mut linear = vec![false; graph.len()];
        for (id, node) in graph.iter() {
            let all = |linear: &[bool]| graph.args(id).all(|arg| linear[arg.index()]);
            linear[id.index()] = self.unchanged[id.index()]
                || self.is_induction(id)
                || match node {
                    Node::Op(Op::IAdd | Op::ISub | Op::INeg, _) => all(&linear),
                    Node::Op(Op::IMul, [a, b, _]) => {
                        let unchanged = self.unchanged[a.index()] || self.unchanged[b.index()];
                        unchanged && all(&linear)
                    }
                    _ => false,
                };
        }
        linear
    }

    pub(super) fn is_induction(&self, id: NodeId) -> bool {
        self.inductions.iter().any(|induction| induction.start == id)
    }
}

/// What undoes an iteration's change of a register, if it only adds and subtracts unchanged amounts.
pub(crate) fn steps_back(graph: &Graph, unchanged: &[bool], start: NodeId, end: NodeId) -> Option<Vec<(Op, NodeId)>> {
    let mut steps = Vec::new();
    let mut at = end;
    while at != start {
        let Node::Op(op, [a, b, _]) = graph.node(at) else { return None };
        let (before, step) = match op {
            Op::IAdd if unchanged[a.index()] => (b, (Op::ISub, a)),
            Op::IAdd if unchanged[b.index()] => (a, (Op::ISub, b)),
            Op::ISub if unchanged[b.index()] => (a, (Op::IAdd, b)),
            _ => return None,
        };
        steps.push(step);
        at = before;
    }
    Some(steps)
}
