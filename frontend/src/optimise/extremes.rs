//! The least and the greatest of what the rounds of a loop give are found by their index.
//!
//! `loop m = m0 for i in from .. to do max m e` looks for the round whose `e` is the greatest, on numbers without
//! derivatives, and then computes the `e` of that round once more:
//!
//! ```text
//! let (best, _) = loop (best, d) = (to, detach m0) for i in from .. to do
//!   if e > d or e != e then (i, detach e) else (best, d) in
//! if best == to then m0 else e where i is best
//! ```
//!
//! That is the same number, to the last bit, and the same derivative, of one round in place of all of them: nothing of
//! the others is recorded or swept, and nobody computes tangents of them. Without derivatives it is one round more.
//! Where the number is NaN, the derivative belongs to the last round that is NaN; the instruction gives it to whatever
//! comes after.

use super::copies;
use crate::core::{
    Atom, Binding, Body, Comparison, Expr, ExprId, ExprKind, Function, Iteration, Loop, Origin, Range, TypeList,
    TypeLists, Var,
};
use crate::hash::HashMap;
use crate::limits::{Count, Meter};
use crate::list::List;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;

/// A round of at most so many nodes is written twice.
const COPIED_NODES_MAX: usize = 256;

/// Looks for indices in a function's loops, from the inner ones to those around them.
pub(super) fn find_by_index(function: &mut Function, lists: &mut TypeLists, meter: &Meter) {
    for expr in function.node_ids(meter).into_iter().rev() {
        let Some((repeat, range)) = fold_over_range(&function.body, expr) else { continue };
        // In the order of evaluation, as loops inside have left them.
        let nodes = function.body.nodes_of(repeat.body).take(COPIED_NODES_MAX + 1).map(|(node, _)| node);
        let mut nodes: Vec<ExprId> = nodes.collect();
        nodes.reverse();
        if !meter.steps(nodes.len()) {
            return;
        }
        let Some(extreme) = Extreme::of(&function.body, &repeat, &nodes) else { continue };
        meter.nodes(Count::Code, nodes.len());
        Finder { body: &mut function.body, lists, origin: Origin::default() }.write(expr, range, &nodes, extreme);
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
    /// Whether a round has no branches and no loops.
    is_straight: bool,
    repeat: Loop,
}

impl Extreme {
    /// `None` if a round does something else, or something that can't be done twice.
    fn of(body: &Body, repeat: &Loop, nodes: &[ExprId]) -> Option<Extreme> {
        if nodes.len() > COPIED_NODES_MAX || !nodes.iter().all(|&node| may_be_repeated(&body.exprs[node].kind)) {
            return None;
        }
        let carried = repeat.vars[0];
        let is_carried = |expr: ExprId| matches!(body.exprs[expr].kind, ExprKind::Var(var) if var == carried);
        if reads(body, nodes, carried) != 1 {
            return None;
        }
        let node = result(body, nodes, repeat.body)?;
        let ExprKind::Scalar(op @ (Op::Min | Op::Max), args) = &body.exprs[node].kind else { return None };
        let is_first = is_carried(args[1]);
        let candidate = if is_first { args[0] } else { args[1] };
        let is_straight = !nodes.iter().any(|&node| is_control(&body.exprs[node].kind));
        let found = Extreme { node, op: *op, candidate, is_first, is_straight, repeat: repeat.clone() };
        (is_first || is_carried(args[0])).then_some(found)
    }
}

/// The node that computes a round's value, if nothing else in the round reads that.
fn result(body: &Body, nodes: &[ExprId], mut expr: ExprId) -> Option<ExprId> {
    let mut bound: HashMap<Var, ExprId> = HashMap::default();
    loop {
        expr = match &body.exprs[expr].kind {
            ExprKind::Block(bindings, value) => {
                let single = bindings.iter().filter(|binding| binding.vars.len() == 1);
                bound.extend(single.map(|binding| (binding.vars[0], binding.value)));
                *value
            }
            ExprKind::Var(var) if let Some(value) = bound.remove(var) => {
                (reads(body, nodes, *var) == 1).then_some(value)?
            }
            _ => return Some(expr),
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

fn is_control(kind: &ExprKind) -> bool {
    matches!(kind, ExprKind::Loop(_) | ExprKind::If(_) | ExprKind::Switch(_) | ExprKind::And(_) | ExprKind::Or(_))
}

struct Finder<'f> {
    body: &'f mut Body,
    lists: &'f mut TypeLists,
    origin: Origin,
}

impl Finder<'_> {
    fn write(mut self, expr: ExprId, range: Range, nodes: &[ExprId], extreme: Extreme) {
        let Extreme { node, op, candidate, is_first, is_straight, repeat } = extreme;
        self.origin = self.body.exprs[expr].origin;
        let mut bindings = Vec::new();
        let [init, from, to] = [repeat.init, range.from, range.to].map(|part| {
            let mut atoms = Vec::new();
            self.body.name_values(part, self.lists, &mut bindings, &mut atoms);
            atoms[0]
        });
        // Of a round, what it compares.
        self.body.exprs[node].kind = ExprKind::Block(Box::default(), candidate);
        let best = self.body.vars.push(ValueType::Int);
        let atoms = HashMap::from_iter([(range.index, Atom::Var(best))]);
        let copies = copies::copy(self.body, nodes, &atoms);
        let of_best = *copies.last().expect("an expression has nodes");

        // The loop.
        let [best_so_far, value_so_far] = [ValueType::Int, ValueType::Real].map(|ty| self.body.vars.push(ty));
        let value = self.body.vars.push(ValueType::Real);
        let (new, old) = ((range.index, value), (best_so_far, value_so_far));
        let (operands, choices) =
            if is_first { ([value, value_so_far], [old, new]) } else { ([value_so_far, value], [new, old]) };
        let next = self.choose(op, operands, is_straight, choices);
        let binding = Binding { vars: List::from([value]), value: repeat.body };
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
    }

    /// The first index and value if the instruction gives its second operand, else the second ones. What has no
    /// branches gets none.
    fn choose(&mut self, op: Op, operands: [Var; 2], is_straight: bool, choices: [(Var, Var); 2]) -> ExprId {
        let [beats, is_nan] = self.second_is_taken(op, operands);
        let [new, old] = choices.map(|(index, value)| [self.atom(Atom::Var(index)), self.detached(value)]);
        if !is_straight {
            let is_taken = self.int(ExprKind::Or([beats, is_nan]));
            let [new, old] = [new, old].map(|choice| self.both(ExprKind::Values(List::from(choice))));
            return self.both(ExprKind::If([is_taken, new, old]));
        }
        let taken = self.body.vars.push(ValueType::Int);
        let value = self.int(ExprKind::Scalar(Op::IOr, List::from([beats, is_nan])));
        let [first, second] = [taken; 2].map(|taken| self.atom(Atom::Var(taken)));
        let index = self.int(ExprKind::Scalar(Op::ISelect, List::from([first, new[0], old[0]])));
        let real = self.real(ExprKind::Scalar(Op::Select, List::from([second, new[1], old[1]])));
        let next = self.both(ExprKind::Values(List::from([index, real])));
        let binding = Binding { vars: List::from([taken]), value };
        self.both(ExprKind::Block([binding].into(), next))
    }

    /// Whether the instruction gives its second operand: one of these holds.
    fn second_is_taken(&mut self, op: Op, [first, second]: [Var; 2]) -> [ExprId; 2] {
        let comparison = if op == Op::Min { Comparison::Less } else { Comparison::Greater };
        let beats = [second, first].map(|var| self.atom(Atom::Var(var)));
        let is_nan = [second, second].map(|var| self.atom(Atom::Var(var)));
        [(comparison, beats), (Comparison::NotEqual, is_nan)]
            .map(|(comparison, pair)| self.int(ExprKind::Compare(comparison, pair)))
    }

    fn detached(&mut self, var: Var) -> ExprId {
        let real = self.atom(Atom::Var(var));
        self.real(ExprKind::Scalar(Op::Detach, List::from([real])))
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
