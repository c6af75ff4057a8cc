//! The least and the greatest of what the rounds of a loop give are found by their index.
//!
//! `loop m = m0 for i in from .. to do max m e` looks for the round whose `e` is the greatest, on numbers without
//! derivatives, and then computes the `e` of that round once more:
//!
//! ```text
//! let (best, _) = loop (best, d) = (to, detach m0) for i in from .. to do
//!   let v = detach e in (if v > d or v != v then i else best, max d v) in
//! if best == to then m0 else e where i is best
//! ```
//!
//! That is the same number, to the last bit, and the derivative of one round in place of all of them: nothing of the
//! others is recorded or swept, and nobody computes tangents of them. A round takes four more instructions, which need
//! no derivatives. Derivatives are the same but for how records group what they sum. Where the number is NaN, the
//! derivative belongs to the last round that is NaN, or for `max e m` to the first; the instruction gives it to
//! whatever comes after.
//!
//! Loops inside of `e` are looked at where the best round is computed. Among those that are compared, a minimum of
//! maxima does what it did: to find each of these by an index would compute their best rounds for nothing, twice for
//! each loop around.

use super::copies;
use crate::core::{
    Atom, Binding, Body, Comparison, Expr, ExprId, ExprKind, Function, Iteration, Loop, Origin, Range, TypeList,
    TypeLists, Var,
};
use crate::hash::{HashMap, HashSet};
use crate::limits::{Count, Meter};
use crate::list::List;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;

/// A round of at most so many nodes is written twice.
const COPIED_NODES_MAX: usize = 256;

/// The nodes that are written around the two rounds.
const SEARCH_NODES: usize = 32;

/// In a round that is written once more, loops are looked at so deep: each level writes what is inside once more.
const NESTED_MAX: usize = 3;

/// Looks for indices in a function's loops, from the outer ones to those inside.
pub(super) fn find_by_index(function: &mut Function, lists: &mut TypeLists, meter: &Meter) {
    let mut pending: Vec<(ExprId, usize)> = function.node_ids(meter).into_iter().map(|expr| (expr, 0)).collect();
    let mut compared: HashSet<ExprId> = HashSet::default();
    let mut at = 0;
    while let Some(&(expr, depth)) = pending.get(at) {
        at += 1;
        let Some((repeat, range)) = fold_over_range(&function.body, expr) else { continue };
        if compared.contains(&expr) {
            continue;
        }
        let Some((extreme, nodes)) = Extreme::of(&function.body, &repeat, meter) else { continue };
        meter.nodes(Count::Code, SEARCH_NODES + nodes.len());
        compared.extend(&nodes);
        let copied = Finder { body: &mut function.body, lists, origin: Origin::default() }.write(
            expr,
            (&repeat, range),
            &nodes,
            &extreme,
        );
        // In the order of evaluation, a loop comes after those in it.
        if depth < NESTED_MAX {
            pending.extend(copied.into_iter().rev().map(|expr| (expr, depth + 1)));
        }
    }
}

/// A loop over a range that carries a single real.
fn fold_over_range(body: &Body, expr: ExprId) -> Option<(Loop, Range)> {
    let ExprKind::Loop(repeat) = &body.exprs[expr].kind else { return None };
    match (&repeat.vars[..], repeat.iteration) {
        (&[var], Iteration::Range(range)) if body.vars[var] == ValueType::Real => Some(((**repeat).clone(), range)),
        _ => None,
    }
}

/// What the rounds of a loop do.
struct Extreme {
    /// The minimum or maximum.
    node: ExprId,
    op: Op,
    /// Of what it is one, beside what the rounds before have found.
    candidate: ExprId,
    /// Whether that stands on the left, so that it is taken where both are equal.
    is_first: bool,
}

impl Extreme {
    /// With the nodes of a round in the order of evaluation; `None` if a round does something else, or something that
    /// can't be done twice.
    fn of(body: &Body, repeat: &Loop, meter: &Meter) -> Option<(Extreme, Vec<ExprId>)> {
        let (node, mut passed) = result(body, repeat.body);
        let ExprKind::Scalar(op @ (Op::Min | Op::Max), args) = &body.exprs[node].kind else { return None };
        let carried = repeat.vars[0];
        let is_carried = |expr: ExprId| matches!(body.exprs[expr].kind, ExprKind::Var(var) if var == carried);
        let is_first = is_carried(args[1]);
        if !is_first && !is_carried(args[0]) {
            return None;
        }
        let mut nodes: Vec<ExprId> =
            body.nodes_of(repeat.body).take(COPIED_NODES_MAX + 1).map(|(node, _)| node).collect();
        nodes.reverse();
        if nodes.len() > COPIED_NODES_MAX || !nodes.iter().all(|&node| may_be_repeated(&body.exprs[node].kind)) {
            return None;
        }
        passed.push(carried);
        if !meter.steps(nodes.len() * passed.len()) {
            return None;
        }
        if passed.into_iter().any(|var| reads(body, &nodes, var) != 1) {
            return None;
        }
        let candidate = if is_first { args[0] } else { args[1] };
        Some((Extreme { node, op: *op, candidate, is_first }, nodes))
    }
}

/// The node that computes an expression's value, and the variables that hand it on.
fn result(body: &Body, mut expr: ExprId) -> (ExprId, Vec<Var>) {
    let mut bound: HashMap<Var, ExprId> = HashMap::default();
    let mut passed = Vec::new();
    loop {
        expr = match &body.exprs[expr].kind {
            ExprKind::Block(bindings, value) => {
                let single = bindings.iter().filter(|binding| binding.vars.len() == 1);
                bound.extend(single.map(|binding| (binding.vars[0], binding.value)));
                *value
            }
            ExprKind::Var(var) if let Some(value) = bound.remove(var) => {
                passed.push(*var);
                value
            }
            _ => return (expr, passed),
        };
    }
}

/// How often a variable is read.
fn reads(body: &Body, nodes: &[ExprId], var: Var) -> usize {
    nodes.iter().filter(|&&node| matches!(body.exprs[node].kind, ExprKind::Var(read) if read == var)).count()
}

/// Whether a node that was evaluated gives the same if it is evaluated again, and nobody can tell that it was. What it
/// could have trapped at, or gone on for ever with, it didn't.
fn may_be_repeated(kind: &ExprKind) -> bool {
    use ExprKind::*;
    match kind {
        Var(_) | Real(_) | Int(_) | Values(_) | Scalar(..) | Compare(..) | And(_) | Or(_) | Not(_) | If(_) => true,
        Block(..) | Loop(_) | Switch(_) | Constant { .. } | Length(..) | Element(..) | Payload(..) | Detach(_) => true,
        // It wasn't reached, or there would be no value.
        Trap(_) => true,
        Call(..) | CallClosure(..) | CallImport(..) | Derivative(_) | Fork(_) | ParallelMap(..) | Trace(_) => false,
        Collect(..) | Pack(..) | Replace(..) | Builder(..) | Construct(..) | Closure(..) | Extend(_) => false,
        Join(_) | Repeat(_) | Jump(..) => false,
    }
}

struct Finder<'f> {
    body: &'f mut Body,
    lists: &'f mut TypeLists,
    origin: Origin,
}

impl Finder<'_> {
    /// Writes both rounds, and gives the nodes of the second one.
    fn write(
        mut self,
        expr: ExprId,
        (repeat, range): (&Loop, Range),
        nodes: &[ExprId],
        extreme: &Extreme,
    ) -> Vec<ExprId> {
        self.origin = self.body.exprs[expr].origin;
        let mut bindings = Vec::new();
        let [init, from, to] = [repeat.init, range.from, range.to].map(|part| {
            let mut atoms = Vec::new();
            self.body.name_values(part, self.lists, &mut bindings, &mut atoms);
            atoms[0]
        });
        // Of a round, what it compares.
        self.body.exprs[extreme.node].kind = ExprKind::Block(Box::default(), extreme.candidate);
        let best = self.body.vars.push(ValueType::Int);
        let atoms = HashMap::from_iter([(range.index, Atom::Var(best))]);
        let copied = copies::copy(self.body, nodes, &atoms);
        let of_best = *copied.last().expect("an expression has nodes");

        // The loop.
        let [best_so_far, value_so_far] = [ValueType::Int, ValueType::Real].map(|ty| self.body.vars.push(ty));
        let value = self.body.vars.push(ValueType::Real);
        let (new, old) = ((range.index, value), (best_so_far, value_so_far));
        let next = self.next(extreme.op, if extreme.is_first { [new, old] } else { [old, new] });
        let found = self.real(ExprKind::Scalar(Op::Detach, List::from([repeat.body])));
        let binding = Binding { vars: List::from([value]), value: found };
        let round = self.both(ExprKind::Block([binding].into(), next));
        let (none, first) = (self.atom(to), self.atom(init));
        let first = self.real(ExprKind::Scalar(Op::Detach, List::from([first])));
        let start = self.both(ExprKind::Values(List::from([none, first])));
        let [from, end] = [from, to].map(|atom| self.atom(atom));
        let found = Loop {
            vars: List::from([best_so_far, value_so_far]),
            init: start,
            iteration: Iteration::Range(Range { index: range.index, from, to: end }),
            body: round,
        };
        let found = self.both(ExprKind::Loop(Box::new(found)));
        let unread = self.body.vars.push(ValueType::Real);
        bindings.push(Binding { vars: List::from([best, unread]), value: found });

        // What it has found.
        let pair = [Atom::Var(best), to].map(|atom| self.atom(atom));
        let is_none = self.int(ExprKind::Compare(Comparison::Equal, pair));
        let init = self.atom(init);
        let value = self.real(ExprKind::If([is_none, init, of_best]));
        self.body.exprs[expr].kind = ExprKind::Block(bindings.into(), value);
        copied
    }

    /// The index and the value that the instruction gives of two: the second one if it beats the first or is NaN.
    fn next(&mut self, op: Op, [first, second]: [(Var, Var); 2]) -> ExprId {
        let comparison = if op == Op::Min { Comparison::Less } else { Comparison::Greater };
        let taken = [(comparison, [second.1, first.1]), (Comparison::NotEqual, [second.1; 2])].map(|(by, pair)| {
            let pair = pair.map(|var| self.atom(Atom::Var(var)));
            self.int(ExprKind::Compare(by, pair))
        });
        let taken = self.int(ExprKind::Scalar(Op::IOr, List::from(taken)));
        let [first_index, second_index] = [first.0, second.0].map(|var| self.atom(Atom::Var(var)));
        let index = self.int(ExprKind::Scalar(Op::ISelect, List::from([taken, second_index, first_index])));
        let values = [first.1, second.1].map(|var| self.atom(Atom::Var(var)));
        let value = self.real(ExprKind::Scalar(op, List::from(values)));
        self.both(ExprKind::Values(List::from([index, value])))
    }

    fn both(&mut self, kind: ExprKind) -> ExprId {
        let types = self.lists.intern(&[ValueType::Int, ValueType::Real]);
        self.make(kind, types)
    }

    fn atom(&mut self, atom: Atom) -> ExprId {
        self.body.atom(atom, self.origin, self.lists)
    }

    fn int(&mut self, kind: ExprKind) -> ExprId {
        let types = self.lists.intern(&[ValueType::Int]);
        self.make(kind, types)
    }

    fn real(&mut self, kind: ExprKind) -> ExprId {
        let types = self.lists.intern(&[ValueType::Real]);
        self.make(kind, types)
    }

    fn make(&mut self, kind: ExprKind, types: TypeList) -> ExprId {
        self.body.exprs.push(Expr { kind, types, origin: self.origin })
    }
}
