//! The adjoint of a straight-line graph, as straight-line code.
//!
//! From a graph with real inputs and outputs, [`derive_adjoint`] makes bytecode that maps saved primals and the
//! outputs' adjoints to the inputs' contributions (Smeding and Vákár 2024, section 5, applied to a whole segment at
//! once and defunctionalised as in section 10.2). The rules are the instruction table's. What to save and what to
//! compute again is decided here: results of costly instructions are saved, others are computed again when
//! everything that they need is at hand, and saved when not.

use crate::bytecode::isa::{Bank, Op, Role};
use crate::derivation::assembler::{Assembler, StraightCode};
use crate::derivation::graph::{Graph, Node, NodeId, Term, partials};
use std::cell::RefCell;

/// What the tape and the sweep need to know of a segment.
#[derive(Debug)]
pub(crate) struct Adjoint {
    /// The segment's real inputs that receive a contribution, by their numbers in the graph.
    pub(crate) inputs: Vec<u32>,
    /// Real nodes of the primal graph that a record saves, in order.
    pub(crate) saved_reals: Vec<NodeId>,
    /// Integer nodes that a record saves, in order.
    pub(crate) saved_ints: Vec<NodeId>,
    /// For each output that has a slot: the set of `inputs` that it depends on, as a bit mask. The set is empty, and
    /// the slot never used, if all partials on the way turned out to be zero. `None` is an output that depends on no
    /// input.
    pub(crate) masks: Vec<Option<u64>>,
    /// How many outputs have a slot, in order.
    pub(crate) slots: u32,
    /// The derived code.
    pub(crate) code: StraightCode,
    /// The register of each input's contribution.
    pub(crate) contributions: Vec<u16>,
}

/// A segment has at most this many real inputs, so that a set of them fits in a word.
pub(crate) const INPUTS_MAX: usize = 64;

/// Derives the adjoint of `outputs` with respect to the real inputs of `graph`. Outputs that depend on no input through
/// a differentiable path have an empty mask; they take part in nothing else.
pub(crate) fn derive_adjoint(graph: Graph, outputs: &[NodeId]) -> Adjoint {
    let primal_len = graph.len();
    let dependence = dependences(&graph);
    let output_masks: Vec<u64> = outputs.iter().map(|id| dependence[id.index()]).collect();

    let graph = RefCell::new(graph);
    let (adjoints, slots) = accumulate(&graph, outputs, &output_masks, primal_len);
    let graph = graph.into_inner();

    // Only inputs with a contribution are part of a record.
    let mut inputs = Vec::new();
    let mut contributions = Vec::new();
    let mut renumber = [0u64; INPUTS_MAX];
    for (id, node) in graph.iter().take(primal_len) {
        if let (Node::RealInput(n), Some(adjoint)) = (node, adjoints[id.index()]) {
            renumber[n as usize] = 1 << inputs.len();
            inputs.push(n);
            contributions.push(adjoint);
        }
    }
    let masks = output_masks
        .iter()
        .map(|&mask| {
            (mask != 0).then(|| (0..INPUTS_MAX).filter(|n| mask >> n & 1 == 1).fold(0, |set, n| set | renumber[n]))
        })
        .collect();

    let plan = Plan::new(&graph, primal_len, &contributions, &|_| false);
    let first_adjoint = plan.saved_reals.len();
    let mut assembler = Assembler::new(&graph, first_adjoint + slots as usize, plan.saved_ints.len());
    for saved in [&plan.saved_reals, &plan.saved_ints] {
        saved.iter().enumerate().for_each(|(register, &id)| assembler.place_at(id, register as u16));
    }
    let mut code = Vec::new();
    for (id, node) in graph.iter() {
        if let Node::OutputAdjoint(n) = node {
            assembler.place_at(id, (first_adjoint + n as usize) as u16);
        } else if plan.needed[id.index()] {
            assembler.compute(id, &mut code);
        }
    }
    let contributions = contributions.iter().map(|&id| assembler.register(id)).collect();
    let code = StraightCode { code, reals: assembler.reals, ints: assembler.ints };
    Adjoint { inputs, saved_reals: plan.saved_reals, saved_ints: plan.saved_ints, masks, slots, code, contributions }
}

/// For each node, the real inputs that it depends on through partial derivatives.
pub(crate) fn dependences(graph: &Graph) -> Vec<u64> {
    let mut sets = vec![0u64; graph.len()];
    for (id, node) in graph.iter() {
        sets[id.index()] = match node {
            Node::RealInput(n) => 1 << n,
            Node::Op(op, _) if op.info().differentiable => graph
                .args(id)
                .zip(real_arguments(op))
                .filter(|(_, real)| *real)
                .fold(0, |set, (arg, _)| set | sets[arg.index()]),
            _ => 0,
        };
    }
    sets
}

/// Which arguments of a scalar instruction are reals.
fn real_arguments(op: Op) -> impl Iterator<Item = bool> {
    op.info().operands[1..].iter().map(|operand| operand.role == Role::Use(Bank::Real))
}

/// Walks the primal nodes backwards and adds up the adjoint of each. The first contribution is taken as it is, the
/// others are added in the order of the walk. Returns the adjoints of the primal nodes, and how many outputs have one:
/// those with a mask.
pub(crate) fn accumulate(
    graph: &RefCell<Graph>,
    outputs: &[NodeId],
    masks: &[u64],
    primal_len: usize,
) -> (Vec<Option<NodeId>>, u32) {
    let mut slots = 0;
    let mut adjoints: Vec<Option<NodeId>> = vec![None; primal_len];
    let contribute = |adjoints: &mut Vec<Option<NodeId>>, to: NodeId, value: NodeId| {
        let sum = match adjoints[to.index()] {
            Some(sum) => graph.borrow_mut().op(Op::Add, &[sum, value]),
            None => value,
        };
        adjoints[to.index()] = Some(sum);
    };
    for (&output, &mask) in outputs.iter().zip(masks) {
        if mask != 0 {
            let adjoint = graph.borrow_mut().add(Node::OutputAdjoint(slots));
            slots += 1;
            contribute(&mut adjoints, output, adjoint);
        }
    }
    let primal: Vec<(NodeId, Node)> = graph.borrow().iter().take(primal_len).collect();
    for &(id, node) in primal.iter().rev() {
        let (Node::Op(op, _), Some(adjoint)) = (node, adjoints[id.index()]) else { continue };
        let args: Vec<NodeId> = graph.borrow().args(id).collect();
        let terms: Vec<Term> = args.iter().map(|&arg| Term::new(graph, arg)).collect();
        let rules = partials(op, &terms, Term::new(graph, id));
        let reals = args.iter().zip(real_arguments(op)).filter(|(_, real)| *real).map(|(&arg, _)| arg);
        for (arg, partial) in reals.zip(rules) {
            if graph.borrow().constant(arg).is_none()
                && let Some(value) = partial.apply(graph, adjoint)
            {
                contribute(&mut adjoints, arg, value);
            }
        }
    }
    (adjoints, slots)
}

/// Which primal nodes are saved and which nodes the derived code computes.
pub(crate) struct Plan {
    pub(crate) saved_reals: Vec<NodeId>,
    pub(crate) saved_ints: Vec<NodeId>,
    pub(crate) needed: Vec<bool>,
}

impl Plan {
    /// `results` is what the derived code is for. Primal nodes that are `free` are at hand without being saved.
    pub(crate) fn new(graph: &Graph, primal_len: usize, results: &[NodeId], free: &dyn Fn(NodeId) -> bool) -> Plan {
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
                Node::Op(op, _) => {
                    let cheap = !op.info().costly && !op.info().traps;
                    cheap && graph.args(id).all(|arg| available[arg.index()])
                }
                _ => false,
            };
            saved[at] = needed[at] && !recomputable;
            available[at] = saved[at] || recomputable;
        }
        // What the recomputed nodes read, in turn.
        for (id, _) in graph.iter().take(primal_len).rev() {
            if needed[id.index()] && !saved[id.index()] {
                graph.args(id).for_each(|arg| needed[arg.index()] = true);
            }
        }
        let (mut saved_reals, mut saved_ints) = (Vec::new(), Vec::new());
        for (id, node) in graph.iter().take(primal_len).filter(|(id, _)| saved[id.index()]) {
            match bank_of(node) {
                Bank::Real => saved_reals.push(id),
                _ => saved_ints.push(id),
            }
        }
        Plan { saved_reals, saved_ints, needed }
    }
}

/// The bank that a node's value belongs to.
pub(crate) fn bank_of(node: Node) -> Bank {
    match node {
        Node::RealInput(_) | Node::OutputAdjoint(_) | Node::Real(_) => Bank::Real,
        Node::IntInput(_) | Node::Int(_) => Bank::Int,
        Node::Op(op, _) => match op.info().operands[0].role {
            Role::Def(bank) => bank,
            _ => Bank::Real,
        },
    }
}
