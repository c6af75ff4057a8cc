//! Dataflow graphs of scalar instructions: the form in which straight-line code is analysed and differentiated.
//!
//! A graph is a list of nodes in which arguments come before results. Equal nodes are one node, and instructions on
//! constants are evaluated as they are added. [`Term`] lets derivative rules be written as formulas; [`partials`] is
//! the expansion of the rules in the instruction table. Nothing here knows of registers, tapes or functions.

use crate::bytecode::isa::{Bank, Op, Role, Scalar, evaluate, for_each_instruction};
use crate::math;
use std::cell::RefCell;
use std::collections::HashMap;
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

/// A node's position in its graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct NodeId(u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A value in straight-line code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Node {
    /// The n-th real that comes from outside.
    RealInput(u32),
    /// The n-th integer that comes from outside.
    IntInput(u32),
    /// A real constant, by its bits.
    Real(u64),
    /// An integer constant.
    Int(i64),
    /// An instruction's result. Unused arguments repeat the first.
    Op(Op, [NodeId; 3]),
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    index: HashMap<Node, NodeId>,
}

impl Graph {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, id: NodeId) -> Node {
        self.nodes[id.index()]
    }

    /// All nodes with their positions, arguments before results.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (NodeId, Node)> + ExactSizeIterator + '_ {
        self.nodes.iter().enumerate().map(|(i, &node)| (NodeId(i as u32), node))
    }

    /// The arguments of a node.
    pub(crate) fn args(&self, id: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        let (args, count) = match self.node(id) {
            Node::Op(op, args) => (args, op.info().operands.len() - 1),
            _ => ([id; 3], 0),
        };
        args.into_iter().take(count)
    }

    /// The node that is equal to `node`, which is added if there is none.
    pub(crate) fn add(&mut self, node: Node) -> NodeId {
        if let Some(&id) = self.index.get(&node) {
            return id;
        }
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(node);
        self.index.insert(node, id);
        id
    }

    pub(crate) fn real(&mut self, value: f64) -> NodeId {
        self.add(Node::Real(value.to_bits()))
    }

    /// The value of a constant node.
    pub(crate) fn constant(&self, id: NodeId) -> Option<Scalar> {
        match self.node(id) {
            Node::Real(bits) => Some(Scalar::Real(f64::from_bits(bits))),
            Node::Int(value) => Some(Scalar::Int(value)),
            _ => None,
        }
    }

    /// An instruction on nodes; a constant if all its arguments are, and a strong product with 1 is the other factor.
    pub(crate) fn op(&mut self, op: Op, args: &[NodeId]) -> NodeId {
        if let (Op::StrongMul, &[a, b]) = (op, args) {
            let one = Node::Real(1f64.to_bits());
            if self.node(a) == one {
                return b;
            } else if self.node(b) == one {
                return a;
            }
        }
        let constants: Option<Vec<Scalar>> = args.iter().map(|&arg| self.constant(arg)).collect();
        if let Some(value) = constants.and_then(|args| evaluate(op, &args)) {
            return self.add(match value {
                Scalar::Real(x) => Node::Real(x.to_bits()),
                Scalar::Int(n) => Node::Int(n),
            });
        }
        let at = |i: usize| *args.get(i).unwrap_or(&args[0]);
        self.add(Node::Op(op, [at(0), at(1), at(2)]))
    }
}

/// The bank that a node's value belongs to.
pub(crate) fn bank_of(node: Node) -> Bank {
    match node {
        Node::RealInput(_) | Node::Real(_) => Bank::Real,
        Node::IntInput(_) | Node::Int(_) => Bank::Int,
        Node::Op(op, _) => match op.info().operands[0].role {
            Role::Def(bank) => bank,
            _ => Bank::Real,
        },
    }
}

/// Which arguments of a scalar instruction are reals.
pub(crate) fn real_arguments(op: Op) -> impl Iterator<Item = bool> {
    op.info().operands[1..].iter().map(|operand| operand.role == Role::Use(Bank::Real))
}

/// The derivative of a result with respect to one argument: a linear map that derived code applies to a tangent or
/// to an adjoint alike.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Partial<'g> {
    /// `t`
    Pass,
    /// `-t`
    Negate,
    /// `p · t`, as a strong product.
    Scale(Term<'g>),
    /// `t` if the condition is not 0, else 0.
    KeepIf(Term<'g>),
    /// `t` if the condition is 0, else 0.
    KeepUnless(Term<'g>),
}

impl Partial<'_> {
    /// Applies the map to `t`. `None` is a zero that is known now.
    pub(crate) fn apply(self, graph: &RefCell<Graph>, t: NodeId) -> Option<NodeId> {
        let mut graph = graph.borrow_mut();
        Some(match self {
            Partial::Pass => t,
            Partial::Negate => graph.op(Op::Neg, &[t]),
            Partial::Scale(p) => match graph.constant(p.id) {
                Some(Scalar::Real(0.0)) => return None,
                Some(Scalar::Real(1.0)) => t,
                Some(Scalar::Real(-1.0)) => graph.op(Op::Neg, &[t]),
                Some(Scalar::Real(x)) if x.is_finite() => graph.op(Op::Mul, &[t, p.id]),
                _ => graph.op(Op::StrongMul, &[t, p.id]),
            },
            Partial::KeepIf(c) => {
                let zero = graph.real(0.0);
                graph.op(Op::Select, &[c.id, t, zero])
            }
            Partial::KeepUnless(c) => {
                let zero = graph.real(0.0);
                graph.op(Op::Select, &[c.id, zero, t])
            }
        })
    }
}

/// A node that can be written in formulas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term<'g> {
    graph: &'g RefCell<Graph>,
    id: NodeId,
}

/// What a formula may combine with a term: another term or a constant.
pub(crate) trait IntoTerm<'g> {
    fn into_term(self, graph: &'g RefCell<Graph>) -> Term<'g>;
}
impl<'g> IntoTerm<'g> for Term<'g> {
    fn into_term(self, _: &'g RefCell<Graph>) -> Term<'g> {
        self
    }
}
impl<'g> IntoTerm<'g> for f64 {
    fn into_term(self, graph: &'g RefCell<Graph>) -> Term<'g> {
        Term { graph, id: graph.borrow_mut().real(self) }
    }
}
impl<'g> IntoTerm<'g> for i64 {
    fn into_term(self, graph: &'g RefCell<Graph>) -> Term<'g> {
        Term { graph, id: graph.borrow_mut().add(Node::Int(self)) }
    }
}

impl<'g> Term<'g> {
    pub(crate) fn new(graph: &'g RefCell<Graph>, id: NodeId) -> Self {
        Term { graph, id }
    }

    fn apply(self, op: Op, args: &[NodeId]) -> Self {
        Term { graph: self.graph, id: self.graph.borrow_mut().op(op, args) }
    }

    /// `n - 1`. For the smallest integer it is `n + 1` and not the largest, which is what a difference that wraps
    /// gives: a power with that exponent is on the same side of 1, and `n + 1` is odd, as `n - 1` is. Nothing else of a
    /// power with so large an exponent is left in a real.
    fn before(self) -> Term<'g> {
        let is_smallest = self.ieq(i64::MIN);
        self.isub(1).iadd(is_smallest.ishl(1))
    }

    /// `n + 1` for the order of a derivative, and `n` for what is no order because it is negative: -1 is followed by
    /// nothing either. After the largest integer comes the smallest, which is no order.
    fn order_after(self) -> Term<'g> {
        self.iadd(self.ilt(0).ieq(0))
    }

    /// This term, but 0 where `other` is 0.
    fn zero_where(self, other: Term<'g>) -> Self {
        let is_zero = other.eq(0.0);
        let zero = 0.0.into_term(self.graph);
        self.apply(Op::Select, &[is_zero.id, zero.id, self.id])
    }
}

/// The real arguments of an instruction's node that aren't constants, each with the partial derivative; nothing for a
/// passive instruction or another node. New nodes go to the graph.
pub(crate) fn rules(graph: &RefCell<Graph>, id: NodeId) -> Vec<(NodeId, Partial<'_>)> {
    let Node::Op(op, _) = graph.borrow().node(id) else { return Vec::new() };
    let args: Vec<NodeId> = graph.borrow().args(id).collect();
    let terms: Vec<Term> = args.iter().map(|&arg| Term::new(graph, arg)).collect();
    let partials = partials(op, &terms, Term::new(graph, id));
    let reals = args.into_iter().zip(real_arguments(op)).filter(|(_, real)| *real).map(|(arg, _)| arg);
    reals.zip(partials).filter(|(arg, _)| graph.borrow().constant(*arg).is_none()).collect()
}

/// One method per scalar instruction, on the first argument.
macro_rules! define_term_methods {
    (
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            ($first:ident : $fbank:ident $(, $arg:ident : $bank:ident)*) -> $rbank:ident $($try:ident)? $body:block
            $(diff |$r:ident| [$($partial:expr),+])? $(passive)? $(@ $mark:ident)* ; )* }
        structural $structural:tt
    ) => {
        #[allow(dead_code, reason = "rules use some of the instructions, and any of them may be needed by the next")]
        #[allow(clippy::should_implement_trait, reason = "named as in the table; the operators are implemented too")]
        impl<'g> Term<'g> {
            $( fn $smnem(self, $($arg: impl IntoTerm<'g>),*) -> Term<'g> {
                let args = [self.id, $($arg.into_term(self.graph).id),*];
                self.apply(Op::$sname, &args)
            } )*
        }
    };
}
for_each_instruction!(define_term_methods);

macro_rules! term_operator {
    ($trait:ident, $method:ident, $op:ident) => {
        impl<'g, T: IntoTerm<'g>> std::ops::$trait<T> for Term<'g> {
            type Output = Term<'g>;
            fn $method(self, other: T) -> Term<'g> {
                let other = other.into_term(self.graph);
                self.apply(Op::$op, &[self.id, other.id])
            }
        }
        impl<'g> std::ops::$trait<Term<'g>> for f64 {
            type Output = Term<'g>;
            fn $method(self, other: Term<'g>) -> Term<'g> {
                let this = self.into_term(other.graph);
                other.apply(Op::$op, &[this.id, other.id])
            }
        }
    };
}
term_operator!(Add, add, Add);
term_operator!(Sub, sub, Sub);
term_operator!(Mul, mul, Mul);
term_operator!(Div, div, Div);

impl<'g> std::ops::Neg for Term<'g> {
    type Output = Term<'g>;
    fn neg(self) -> Term<'g> {
        self.apply(Op::Neg, &[self.id])
    }
}

/// Binds an instruction's arguments to the names that its rule uses.
macro_rules! bind_arguments {
    (($($arg:ident : $bank:ident),+), $args:ident) => {
        let [$($arg),+] = *$args else { return Vec::new() };
        $( let _ = $arg; )+
    };
}

/// Expands the derivative rules of the table.
macro_rules! define_partials {
    (
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            $args:tt -> $rbank:ident $($try:ident)? $body:block
            $(diff |$r:ident| [$($partial:expr),+])? $(passive)? $(@ $mark:ident)* ; )* }
        structural $structural:tt
    ) => {
        /// The partial derivatives of an instruction with respect to its real arguments, in order; none for a passive
        /// one. New nodes go to the terms' graph.
        pub(crate) fn partials<'g>(op: Op, args: &[Term<'g>], result: Term<'g>) -> Vec<Partial<'g>> {
            use Partial::{KeepIf, KeepUnless, Negate, Pass, Scale};
            match op {
                $( $( Op::$sname => {
                    bind_arguments!($args, args);
                    let $r = result;
                    vec![$($partial),+]
                } )? )*
                _ => Vec::new(),
            }
        }
    };
}
for_each_instruction!(define_partials);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_one_partial_per_real_argument() {
        for &op in Op::ALL.iter().filter(|op| op.info().differentiable) {
            let graph = RefCell::new(Graph::default());
            let banks: Vec<Bank> = op.info().operands[1..]
                .iter()
                .map(|operand| match operand.role {
                    Role::Use(bank) => bank,
                    role => panic!("{op:?} has a scalar operand of role {role:?}"),
                })
                .collect();
            let args: Vec<Term> = banks
                .iter()
                .enumerate()
                .map(|(i, bank)| {
                    let node = if *bank == Bank::Real { Node::RealInput(i as u32) } else { Node::IntInput(i as u32) };
                    Term::new(&graph, graph.borrow_mut().add(node))
                })
                .collect();
            let ids: Vec<NodeId> = args.iter().map(|arg| arg.id).collect();
            let result = Term::new(&graph, graph.borrow_mut().op(op, &ids));
            let reals = banks.iter().filter(|&&bank| bank == Bank::Real).count();
            assert_eq!(partials(op, &args, result).len(), reals, "{op:?}");
        }
    }

    #[test]
    fn constants_are_folded_and_equal_nodes_shared() {
        let mut graph = Graph::default();
        let two = graph.real(2.0);
        let four = graph.op(Op::Mul, &[two, two]);
        assert_eq!(graph.constant(four), Some(Scalar::Real(4.0)));
        let x = graph.add(Node::RealInput(0));
        assert_eq!(graph.op(Op::Sin, &[x]), graph.op(Op::Sin, &[x]));
    }
}
