//! Graphs as text: infix, with the parentheses that the operators' precedence asks for and no others.

use super::Formula;
use crate::bytecode::isa::Op;
use crate::derivation::graph::{Graph, Node, NodeId};

/// How tightly an expression holds together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Choice,
    Comparison,
    Sum,
    Product,
    Sign,
    Power,
    Atom,
}

/// Writes nodes of a graph.
pub(super) struct Writer<'g> {
    graph: &'g Graph,
    reals: Vec<String>,
    ints: Vec<String>,
    /// How often a node is needed.
    uses: Vec<usize>,
    /// What a node will be called.
    called: Vec<Option<String>>,
    /// Whether its line is there.
    defined: Vec<bool>,
    /// Names that were made up.
    made: usize,
    lines: Vec<Formula>,
}

impl<'g> Writer<'g> {
    /// Inputs have these names.
    pub(super) fn new(graph: &'g Graph, reals: Vec<String>, ints: Vec<String>) -> Self {
        let len = graph.len();
        let (uses, called, defined) = (vec![0; len], vec![None; len], vec![false; len]);
        Writer { graph, reals, ints, uses, called, defined, made: 0, lines: Vec::new() }
    }

    /// Counts how often nodes are needed by these and by each other.
    pub(super) fn count(&mut self, targets: impl Iterator<Item = NodeId>) {
        targets.for_each(|id| self.uses[id.index()] += 1);
        for (id, _) in self.graph.iter().rev() {
            if self.uses[id.index()] > 0 {
                self.graph.args(id).for_each(|arg| self.uses[arg.index()] += 1);
            }
        }
    }

    /// Gives nodes that are results these names, the first one that each is given.
    pub(super) fn call(&mut self, targets: &[(NodeId, String)]) {
        for (id, name) in targets {
            if matches!(self.graph.node(*id), Node::Op(..)) {
                self.called[id.index()].get_or_insert_with(|| name.clone());
            }
        }
    }

    /// A line for each of these, in the order of the graph, and before it for what it needs that has a name.
    pub(super) fn definitions(&mut self, targets: &[(NodeId, String)]) -> Vec<Formula> {
        let mut ordered: Vec<&(NodeId, String)> = targets.iter().collect();
        ordered.sort_by_key(|(id, _)| *id);
        for (id, name) in ordered {
            if self.called[id.index()].as_ref() == Some(name) {
                self.define(*id);
            } else {
                self.require(*id);
                let value = self.written(*id, Level::Choice);
                self.lines.push(Formula { name: name.clone(), adds: false, value });
            }
        }
        std::mem::take(&mut self.lines)
    }

    /// The same of contributions.
    pub(super) fn contributions(&mut self, targets: &[(NodeId, String)]) -> Vec<Formula> {
        for (id, name) in targets {
            self.require(*id);
            let value = self.written(*id, Level::Choice);
            self.lines.push(Formula { name: name.clone(), adds: true, value });
        }
        std::mem::take(&mut self.lines)
    }

    /// Writes the line of a node that has a name, if it isn't there.
    fn define(&mut self, id: NodeId) {
        if !std::mem::replace(&mut self.defined[id.index()], true) {
            self.graph.args(id).for_each(|arg| self.require(arg));
            let name = self.called[id.index()].clone().unwrap_or_else(|| {
                self.made += 1;
                format!("t{}", self.made)
            });
            let value = self.expression(id).0;
            self.called[id.index()] = Some(name.clone());
            self.lines.push(Formula { name, adds: false, value });
        }
    }

    /// Writes the lines that an expression for this node refers to.
    fn require(&mut self, id: NodeId) {
        if self.has_name(id) {
            self.define(id);
        } else {
            self.graph.args(id).for_each(|arg| self.require(arg));
        }
    }

    /// Whether it is a result, or worth a name: what is needed more than once and not just a sign.
    fn has_name(&self, id: NodeId) -> bool {
        match self.graph.node(id) {
            Node::Op(op, _) => {
                self.called[id.index()].is_some() || self.uses[id.index()] > 1 && !matches!(op, Op::Neg | Op::INeg)
            }
            _ => false,
        }
    }

    /// A node where an expression of this level or a tighter one may stand.
    fn written(&self, id: NodeId, least: Level) -> String {
        let (text, level) = match self.graph.node(id) {
            Node::Op(..) if self.defined[id.index()] => match &self.called[id.index()] {
                Some(name) => (name.clone(), Level::Atom),
                None => unreachable!("what has a line has a name"),
            },
            _ => self.expression(id),
        };
        if level < least { format!("({text})") } else { text }
    }

    fn expression(&self, id: NodeId) -> (String, Level) {
        let of_number = |text: String| {
            let level = if text.starts_with('-') { Level::Sign } else { Level::Atom };
            (text, level)
        };
        let op = match self.graph.node(id) {
            Node::RealInput(n) => return (self.reals[n as usize].clone(), Level::Atom),
            Node::IntInput(n) => return (self.ints[n as usize].clone(), Level::Atom),
            Node::Real(bits) => return of_number(format!("{:?}", f64::from_bits(bits))),
            Node::Int(n) => return of_number(n.to_string()),
            Node::Op(op, _) => op,
        };
        let args: Vec<NodeId> = self.graph.args(id).collect();
        // Operations of one level are grouped from the left, and never regrouped.
        let infix = |sign: &str, level: Level, (left, right): (Level, Level)| {
            (format!("{} {sign} {}", self.written(args[0], left), self.written(args[1], right)), level)
        };
        match op {
            Op::Add | Op::IAdd => infix("+", Level::Sum, (Level::Sum, Level::Product)),
            Op::Sub | Op::ISub => infix("-", Level::Sum, (Level::Sum, Level::Product)),
            Op::Mul | Op::IMul => infix("*", Level::Product, (Level::Product, Level::Sign)),
            Op::StrongMul => infix("·", Level::Product, (Level::Product, Level::Sign)),
            Op::Div => infix("/", Level::Product, (Level::Product, Level::Sign)),
            Op::Pow | Op::Powi => infix("^", Level::Power, (Level::Atom, Level::Atom)),
            Op::Eq | Op::IEq => infix("==", Level::Comparison, (Level::Sum, Level::Sum)),
            Op::Ne | Op::INe => infix("!=", Level::Comparison, (Level::Sum, Level::Sum)),
            Op::Lt | Op::ILt => infix("<", Level::Comparison, (Level::Sum, Level::Sum)),
            Op::Le | Op::ILe => infix("<=", Level::Comparison, (Level::Sum, Level::Sum)),
            Op::Neg | Op::INeg => (format!("-{}", self.written(args[0], Level::Power)), Level::Sign),
            Op::Select | Op::ISelect => {
                let [condition, then, otherwise] = [0, 1, 2].map(|n| self.written(args[n], Level::Comparison));
                (format!("if {condition} then {then} else {otherwise}"), Level::Choice)
            }
            _ => {
                let args: Vec<String> = args.iter().map(|&arg| self.written(arg, Level::Choice)).collect();
                (format!("{}({})", op.info().mnemonic, args.join(", ")), Level::Atom)
            }
        }
    }
}
