//! The adjoint of a segment as bytecode.
//!
//! From a straight-line piece, [`derive_adjoint`] makes bytecode that maps saved primals and the outputs' adjoints to
//! the inputs' contributions. What is computed is the derivation's, what is saved the plan's; here it is written down
//! as instructions on registers.

use crate::bytecode::isa::{Bank, Inst, Op};
use crate::derivation::adjoint::Adjoints;
use crate::derivation::dependence::{InputSet, dependences};
use crate::derivation::graph::{Graph, Node, NodeId, bank_of};
use crate::derivation::piece::Piece;
use crate::derivation::plan::Plan;

/// Straight-line code on a frame of its own. Real registers begin with the saved reals, then the output adjoints;
/// integer registers begin with the saved integers.
#[derive(Debug, Default)]
pub struct StraightCode {
    /// Scalar instructions, `const` and `iconst`.
    pub code: Vec<Inst>,
    /// How many real registers there are.
    pub reals: usize,
    /// How many integer registers there are.
    pub ints: usize,
}

/// What the tape and the sweep need to know of a segment.
#[derive(Debug)]
pub(crate) struct Adjoint {
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

/// Derives the adjoint of a piece. Outputs that depend on no input through a differentiable path take part in nothing.
pub(crate) fn derive_adjoint(piece: Piece) -> Adjoint {
    let Piece { graph, reals, outputs, .. } = piece;
    let dependence = dependences(&graph);
    let sets: Vec<InputSet> = outputs.iter().map(|id| dependence[id.index()].clone()).collect();
    let Adjoints { graph, of, seeds } = Adjoints::new(graph, reals, &outputs, &sets);

    // Only inputs with a contribution are part of a record.
    let mut inputs = Vec::new();
    let mut contributions = Vec::new();
    let mut numbers = vec![None; reals as usize];
    for ((_, node), adjoint) in graph.iter().zip(&of) {
        if let (Node::RealInput(n), Some(adjoint)) = (node, *adjoint) {
            numbers[n as usize] = Some(inputs.len());
            inputs.push(n);
            contributions.push(adjoint);
        }
    }
    let renumber = |set: &InputSet| set.iter().filter_map(|input| numbers[input]).collect();
    let sets = sets.iter().map(|set| (!set.is_empty()).then(|| renumber(set))).collect();

    let plan = Plan::new(&graph, of.len(), &contributions, &|_| false);
    let mut assembler = Assembler::new(&graph, &plan, &seeds);
    for (id, _) in graph.iter() {
        assembler.node(id);
    }
    let contributions = contributions.iter().map(|id| assembler.registers[id.index()]).collect();
    let (code, slots) = (assembler.code, seeds.len() as u32);
    Adjoint { inputs, saved_reals: plan.saved_reals, saved_ints: plan.saved_ints, sets, slots, code, contributions }
}

/// Turns nodes into instructions.
struct Assembler<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    code: StraightCode,
    registers: Vec<u16>,
}

impl<'a> Assembler<'a> {
    /// `seeds` are the output adjoints.
    fn new(graph: &'a Graph, plan: &'a Plan, seeds: &[NodeId]) -> Self {
        let mut registers = vec![u16::MAX; graph.len()];
        for (register, id) in plan.saved_reals.iter().chain(seeds).enumerate() {
            registers[id.index()] = register as u16;
        }
        for (register, id) in plan.saved_ints.iter().enumerate() {
            registers[id.index()] = register as u16;
        }
        let reals = plan.saved_reals.len() + seeds.len();
        let code = StraightCode { code: Vec::new(), reals, ints: plan.saved_ints.len() };
        Assembler { graph, plan, code, registers }
    }

    fn fresh(&mut self, bank: Bank) -> u16 {
        let count = if bank == Bank::Real { &mut self.code.reals } else { &mut self.code.ints };
        *count += 1;
        (*count - 1) as u16
    }

    fn node(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        if !self.plan.needed[id.index()] || self.registers[id.index()] != u16::MAX {
            return;
        }
        let dst = self.fresh(bank_of(node));
        let args: Vec<u16> = self.graph.args(id).map(|arg| self.registers[arg.index()]).collect();
        let at = |i: usize| args.get(i).copied().unwrap_or(0);
        let inst = match node {
            Node::Real(bits) => Inst { op: Op::Const, a: dst, b: 0, c: 0, imm: bits },
            Node::Int(value) => Inst { op: Op::IConst, a: dst, b: 0, c: 0, imm: value as u64 },
            Node::Op(op, _) => Inst { op, a: dst, b: at(0), c: at(1), imm: u64::from(at(2)) },
            Node::RealInput(_) | Node::IntInput(_) => return,
        };
        self.registers[id.index()] = dst;
        self.code.code.push(inst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_many_inputs_has_an_adjoint() {
        let mut piece = Piece { reals: 100, ..Piece::default() };
        let inputs: Vec<NodeId> = (0..100).map(|n| piece.graph.add(Node::RealInput(n))).collect();
        let squares: Vec<NodeId> = inputs.iter().map(|&x| piece.graph.op(Op::Mul, &[x, x])).collect();
        let sum = squares.iter().copied().reduce(|a, b| piece.graph.op(Op::Add, &[a, b])).expect("there are some");
        let zero = piece.graph.real(0.0);
        let nothing = piece.graph.op(Op::Mul, &[inputs[3], zero]);
        piece.outputs = vec![squares[99], sum, piece.graph.op(Op::Floor, &[sum]), nothing];
        let adjoint = derive_adjoint(piece);
        assert_eq!(adjoint.inputs, (0..100).collect::<Vec<u32>>());
        assert_eq!((adjoint.saved_reals.len(), adjoint.slots, adjoint.contributions.len()), (100, 3, 100));
        let sets = [Some([99].into_iter().collect()), Some((0..100).collect()), None, Some([3].into_iter().collect())];
        assert_eq!(adjoint.sets, sets);
    }
}
