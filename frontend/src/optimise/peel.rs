//! Loop peeling: where an innermost loop over a range asks whether it is in its first round, that round is done once
//! before the others, and none of them asks.
//!
//! `[| if i == 0 then x[0] else x[i] * y[i - 1] for i < n |]` pushes `x[0]` if `0 < n`, and then `x[i] * y[i - 1]` for
//! `i` from 1: a loop of one block, in which `y` is read along with the index. What is evaluated, and in which order,
//! stays the same.
//!
//! A test compares the index, or the one next to it, with where the range begins: `i > 0`, `i - 1 < 0`, `i != from`.
//! So its outcome is known in the first round, and in all others. A test with one outcome in all rounds vanishes
//! without a copy. What is bound in a test is bound where it was, because what the test chooses may read it.

use super::{copies, keep_bindings};
use crate::arena::Table;
use crate::core::{
    Atom, Body, Comparison, Expr, ExprId, ExprKind, Function, Iteration, Loop, Origin, Range, TypeLists, Var,
};
use crate::hash::HashMap;
use crate::limits::{Count, Meter};
use crate::list::List;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;
use std::cmp::Ordering;

/// A round of at most so many nodes is copied.
const COPIED_NODES_MAX: usize = 128;

/// Peels the loops of a function; whether there were any.
pub(super) fn peel(function: &mut Function, lists: &mut TypeLists, meter: &Meter) -> bool {
    // Children before parents, in the order of evaluation.
    let mut order = function.node_ids(meter);
    order.reverse();
    if !meter.go_on() {
        return false;
    }
    let mut starts = Table::filled(0, function.body.exprs.len());
    let mut repeats = Table::filled(false, function.body.exprs.len());
    let mut any = false;
    for (at, &expr) in order.iter().enumerate() {
        let (mut start, mut has_loops) = (at, false);
        function.body.exprs[expr].for_each_child(|child| {
            start = start.min(starts[child]);
            has_loops |= repeats[child];
        });
        let kind = &function.body.exprs[expr].kind;
        let is_loop = matches!(kind, ExprKind::Loop(_) | ExprKind::Collect(..) | ExprKind::Repeat(_));
        (starts[expr], repeats[expr]) = (start, has_loops || is_loop);
        let Some((range, body)) = rounds(kind).filter(|&(_, body)| !repeats[body]) else { continue };
        // The body comes last of a loop's children.
        let nodes = &order[starts[body]..at];
        if nodes.len() > COPIED_NODES_MAX || !meter.steps(nodes.len()) {
            continue;
        }
        let Some(outcomes) = Outcomes::of(&function.body, range, nodes) else { continue };
        any = true;
        let mut peeler = Peeler { body: &mut function.body, lists, meter, nodes, outcomes };
        match peeler.outcomes.differ {
            true => peeler.peel(expr),
            false => peeler.decide(nodes, |[first, rest]| first.filter(|_| first == rest)),
        }
    }
    any
}

/// The range and the body of a loop over a range of which no round was taken out.
fn rounds(kind: &ExprKind) -> Option<(Range, ExprId)> {
    match kind {
        ExprKind::Loop(repeat) => match repeat.iteration {
            Iteration::Range(range) => Some((range, repeat.body)),
            Iteration::While(_) => None,
        },
        ExprKind::Collect(_, collect) if collect.first.is_none() => Some((collect.range, collect.body)),
        _ => None,
    }
}

/// What is known of a condition in the first round, and in all others.
type Outcome = [Option<bool>; 2];

/// What is known of the conditions in a loop's body.
struct Outcomes {
    known: HashMap<ExprId, Outcome>,
    /// Whether some of them are known in all rounds but the first, which is another case.
    differ: bool,
}

impl Outcomes {
    /// The outcomes of the conditions in a body whose nodes are given in the order of evaluation, if a branch depends
    /// on one that is known.
    fn of(body: &Body, range: Range, nodes: &[ExprId]) -> Option<Outcomes> {
        let from = match body.exprs[range.from].kind {
            ExprKind::Int(i64::MAX) => return None,
            ExprKind::Int(from) => Atom::Int(from),
            ExprKind::Var(var) => Atom::Var(var),
            _ => return None,
        };
        let mut values = HashMap::default();
        for &node in nodes {
            if let ExprKind::Block(bindings, _) = &body.exprs[node].kind {
                values.extend(bindings.iter().filter(|binding| binding.vars.len() == 1).map(|b| (b.vars[0], b.value)));
            }
        }
        let rounds = Rounds { body, index: range.index, from, values };
        let mut known: HashMap<ExprId, Outcome> = HashMap::default();
        let (mut decides, mut differ) = (false, false);
        for &node in nodes {
            let of = |expr: &ExprId| known.get(expr).copied().unwrap_or_default();
            let kind = &body.exprs[node].kind;
            let outcome = match kind {
                ExprKind::Compare(comparison, pair) => rounds.compare(*comparison, *pair).unwrap_or_default(),
                ExprKind::Var(var) => rounds.values.get(var).map(of).unwrap_or_default(),
                ExprKind::Not(operand) => of(operand).map(|outcome| outcome.map(|holds| !holds)),
                ExprKind::Block(_, value) => of(value),
                ExprKind::And([first, second]) => chosen(of(first), of(second), [Some(false); 2]),
                ExprKind::Or([first, second]) => chosen(of(first), [Some(true); 2], of(second)),
                ExprKind::If([cond, then, other]) => chosen(of(cond), of(then), of(other)),
                _ => continue,
            };
            if let ExprKind::If([cond, ..]) | ExprKind::And([cond, _]) | ExprKind::Or([cond, _]) = kind
                && let [Some(first), Some(rest)] = of(cond)
            {
                decides = true;
                differ |= first != rest;
            }
            if outcome != [None, None] {
                known.insert(node, outcome);
            }
        }
        decides.then_some(Outcomes { known, differ })
    }
}

/// What is known of a choice.
fn chosen(cond: Outcome, then: Outcome, other: Outcome) -> Outcome {
    std::array::from_fn(|at| cond[at].and_then(|holds| if holds { then[at] } else { other[at] }))
}

/// The rounds of a loop.
struct Rounds<'r> {
    body: &'r Body,
    index: Var,
    from: Atom,
    /// The values of variables that are bound in the body.
    values: HashMap<Var, ExprId>,
}

impl Rounds<'_> {
    /// The outcome of a comparison.
    fn compare(&self, comparison: Comparison, [left, right]: [ExprId; 2]) -> Option<Outcome> {
        let flipped = self.shift(left).is_none();
        let (index, other) = if flipped { (right, left) } else { (left, right) };
        let shift = self.shift(index)?;
        // The index in the first round, and what it is compared with.
        let (first, bound) = match (self.from, &self.body.exprs[other].kind) {
            (Atom::Int(from), ExprKind::Int(bound)) => (from.checked_add(shift)?, *bound),
            (Atom::Var(from), ExprKind::Var(bound)) if from == *bound && shift == 0 => (0, 0),
            _ => return None,
        };
        let holds = |ordering: Ordering| comparison.holds(if flipped { ordering.reverse() } else { ordering });
        let later = match first.cmp(&bound) {
            // Equal in the second round, and then greater.
            Ordering::Less if first.checked_add(1) == Some(bound) => {
                let second = holds(Ordering::Equal);
                (second == holds(Ordering::Greater)).then_some(second)
            }
            Ordering::Less => None,
            Ordering::Equal | Ordering::Greater => Some(holds(Ordering::Greater)),
        };
        Some([Some(holds(first.cmp(&bound))), later])
    }

    /// Where an expression's value is computed: past bindings, and what a variable of the body is bound to.
    fn evaluated(&self, mut expr: ExprId) -> ExprId {
        loop {
            expr = match &self.body.exprs[expr].kind {
                ExprKind::Block(_, value) => *value,
                ExprKind::Var(var) if let Some(&value) = self.values.get(var) => value,
                _ => return expr,
            };
        }
    }

    /// What an expression adds to the index: at most 1, so that it can't overflow where there is a round.
    fn shift(&self, expr: ExprId) -> Option<i64> {
        let is_index = |expr: ExprId| matches!(self.body.exprs[expr].kind, ExprKind::Var(var) if var == self.index);
        let constant = |expr: ExprId| match self.body.exprs[expr].kind {
            ExprKind::Int(value) => Some(value),
            _ => None,
        };
        match &self.body.exprs[self.evaluated(expr)].kind {
            ExprKind::Var(var) => (*var == self.index).then_some(0),
            ExprKind::Scalar(Op::IAdd, args) if is_index(args[0]) => constant(args[1]).filter(|&shift| shift <= 1),
            ExprKind::Scalar(Op::IAdd, args) if is_index(args[1]) => constant(args[0]).filter(|&shift| shift <= 1),
            ExprKind::Scalar(Op::ISub, args) if is_index(args[0]) => {
                constant(args[1])?.checked_neg().filter(|&shift| shift <= 1)
            }
            _ => None,
        }
    }
}

struct Peeler<'p> {
    body: &'p mut Body,
    lists: &'p mut TypeLists,
    meter: &'p Meter,
    /// The nodes of the loop's body in the order of evaluation.
    nodes: &'p [ExprId],
    outcomes: Outcomes,
}

impl Peeler<'_> {
    /// Takes the first round out of a loop.
    fn peel(&mut self, expr: ExprId) {
        self.meter.nodes(Count::Code, self.nodes.len());
        match self.body.exprs[expr].kind.clone() {
            ExprKind::Collect(array, mut collect) => {
                let from = self.start(collect.range);
                collect.first = Some(self.first(HashMap::from_iter([(collect.range.index, from)])));
                self.body.exprs[expr].kind = ExprKind::Collect(array, collect);
            }
            ExprKind::Loop(repeat) => self.peel_loop(expr, *repeat),
            _ => unreachable!("only loops are peeled"),
        }
        self.decide(self.nodes, |[_, rest]| rest);
    }

    /// `if from < to then loop … = first round for i in from + 1 .. to do … else init`
    fn peel_loop(&mut self, expr: ExprId, repeat: Loop) {
        let Expr { types, origin, .. } = self.body.exprs[expr];
        let Iteration::Range(range) = repeat.iteration else { unreachable!("only ranges have first rounds") };
        let (mut bindings, mut init, mut to) = (Vec::new(), Vec::new(), Vec::new());
        self.body.name_values(repeat.init, self.lists, &mut bindings, &mut init);
        self.body.name_values(range.to, self.lists, &mut bindings, &mut to);
        let from = self.start(range);
        let mut atoms: HashMap<Var, Atom> = repeat.vars.iter().copied().zip(init.iter().copied()).collect();
        atoms.insert(range.index, from);
        let first = self.first(atoms);
        let next = match from {
            Atom::Int(from) => self.body.atom(Atom::Int(from + 1), origin, self.lists),
            _ => {
                let args = [from, Atom::Int(1)].map(|atom| self.body.atom(atom, origin, self.lists));
                self.make(ExprKind::Scalar(Op::IAdd, List::from(args)), origin)
            }
        };
        let ends = [from, to[0], to[0]].map(|atom| self.body.atom(atom, origin, self.lists));
        let iteration = Iteration::Range(Range { index: range.index, from: next, to: ends[2] });
        let rest = ExprKind::Loop(Box::new(Loop { init: first, iteration, ..repeat }));
        let rest = self.body.exprs.push(Expr { kind: rest, types, origin });
        let init = init.into_iter().map(|atom| self.body.atom(atom, origin, self.lists)).collect();
        let none = self.body.exprs.push(Expr { kind: ExprKind::Values(init), types, origin });
        let any = self.make(ExprKind::Compare(Comparison::Less, [ends[0], ends[1]]), origin);
        let value = self.body.exprs.push(Expr { kind: ExprKind::If([any, rest, none]), types, origin });
        self.body.exprs[expr].kind = ExprKind::Block(bindings.into(), value);
    }

    fn make(&mut self, kind: ExprKind, origin: Origin) -> ExprId {
        self.body.exprs.push(Expr { kind, types: self.lists.intern(&[ValueType::Int]), origin })
    }

    /// The first index.
    fn start(&self, range: Range) -> Atom {
        match self.body.exprs[range.from].kind {
            ExprKind::Int(from) => Atom::Int(from),
            ExprKind::Var(var) => Atom::Var(var),
            _ => unreachable!("the outcomes are known by where the range begins"),
        }
    }

    /// The first round, with atoms in the place of what is new in each.
    fn first(&mut self, atoms: HashMap<Var, Atom>) -> ExprId {
        let copies = copies::copy(self.body, self.nodes, &atoms);
        self.decide(&copies, |[first, _]| first);
        *copies.last().expect("an expression has nodes")
    }

    /// Puts what is known of the conditions into a copy of the body, and drops what is not evaluated. What conditions
    /// bind stays.
    fn decide(&mut self, copies: &[ExprId], side: impl Fn(Outcome) -> Option<bool>) {
        for (node, &copy) in self.nodes.iter().zip(copies) {
            // Conditions are told by the nodes that they were copied from.
            let of = |old: ExprId| self.outcomes.known.get(&old).and_then(|&outcome| side(outcome));
            let choice = match self.body.exprs[*node].kind {
                ExprKind::If([cond, ..]) | ExprKind::And([cond, _]) | ExprKind::Or([cond, _]) => of(cond),
                _ => None,
            };
            let Expr { ref kind, types, origin } = self.body.exprs[copy];
            let outcome = |holds: bool| Expr { kind: ExprKind::Int(holds.into()), types, origin };
            let (dropped, value) = match (kind, choice, of(*node)) {
                (&ExprKind::If([cond, then, _]), Some(true), _) => (cond, then),
                (&ExprKind::If([cond, _, other]), Some(false), _) => (cond, other),
                (&ExprKind::And([cond, second]), Some(true), _) => (cond, second),
                (&ExprKind::Or([cond, second]), Some(false), _) => (cond, second),
                (&ExprKind::And([cond, _]) | &ExprKind::Or([cond, _]), Some(holds), _) => {
                    (cond, self.body.exprs.push(outcome(holds)))
                }
                (ExprKind::Compare(..) | ExprKind::Var(_) | ExprKind::Not(_), _, Some(holds)) => {
                    let known = self.body.exprs.push(outcome(holds));
                    let condition = self.body.exprs[copy].clone();
                    (self.body.exprs.push(condition), known)
                }
                _ => continue,
            };
            self.body.exprs[copy].kind = ExprKind::Block(Box::default(), value);
            keep_bindings(self.body, dropped, copy);
        }
    }
}
