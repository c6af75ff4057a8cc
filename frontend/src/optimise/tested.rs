//! What has been tested isn't tested again: behind `if i < n then m[i] else error ..` it is known that `i < n`. Several
//! elements of a matrix that a round reads and replaces have a row and a column in common, and so tests.

use super::arrays::is_trap;
use crate::core::{Body, Comparison, ExprId, ExprKind, Field, Function, Iteration, Var};
use crate::hash::HashSet;
use crate::limits::Meter;

/// What is left to do, the next on top.
enum Next {
    Expr(ExprId),
    /// The condition of a choice, or the first of two conditions, has been looked at.
    Rest(ExprId),
    /// The second of two conditions has been.
    Both(ExprId),
    /// A condition holds from here on.
    Holds(ExprId),
    /// What is evaluated only sometimes begins.
    Begin,
    /// It ends, and with it what was found out there.
    End,
}

/// Drops tests of a function that are known to hold.
pub(super) fn drop_known(function: &mut Function, meter: &Meter) {
    let body = &mut function.body;
    let mut facts = Facts::default();
    let (mut pending, mut begun) = (vec![Next::Expr(function.root)], Vec::new());
    while let Some(next) = pending.pop() {
        match next {
            Next::Begin => begun.push(facts.known.len()),
            Next::End => facts.forget(begun.pop().expect("it has begun")),
            Next::Holds(cond) => facts.learn(body, cond),
            Next::Expr(expr) => {
                if !meter.step(body.exprs[expr].origin.span) {
                    return;
                }
                push_parts(body, expr, &mut pending);
            }
            Next::Rest(expr) => match body.exprs[expr].kind {
                ExprKind::If([cond, rest, _]) | ExprKind::And([cond, rest]) if facts.hold(body, cond) => {
                    body.exprs[expr].kind = body.exprs[rest].kind.clone();
                    pending.push(Next::Expr(expr));
                }
                _ => push_rest(body, expr, &mut pending),
            },
            Next::Both(expr) => {
                if let ExprKind::And([first, second]) = body.exprs[expr].kind
                    && facts.hold(body, second)
                {
                    body.exprs[expr].kind = body.exprs[first].kind.clone();
                }
            }
        }
    }
}

/// A condition that is known by what it reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Fact {
    Var(Var),
    Compare(Comparison, [Side; 2]),
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    Var(Var),
    Int(i64),
    /// The size of an array of several dimensions.
    Size(Field, Var),
}

impl Fact {
    fn of(body: &Body, cond: ExprId) -> Option<Fact> {
        let mut cond = &body.exprs[cond].kind;
        while let ExprKind::Block(bindings, value) = cond
            && bindings.is_empty()
        {
            cond = &body.exprs[*value].kind;
        }
        let side = |expr: ExprId| match body.exprs[expr].kind {
            ExprKind::Var(var) => Some(Side::Var(var)),
            ExprKind::Int(value) => Some(Side::Int(value)),
            ExprKind::Payload(field, object) if field.is_of_shape() => match body.exprs[object].kind {
                ExprKind::Var(var) => Some(Side::Size(field, var)),
                _ => None,
            },
            _ => None,
        };
        match *cond {
            ExprKind::Var(var) => Some(Fact::Var(var)),
            ExprKind::Compare(how, [a, b]) => Some(Fact::Compare(how, [side(a)?, side(b)?])),
            _ => None,
        }
    }
}

/// What is known where control is.
#[derive(Default)]
struct Facts {
    holds: HashSet<Fact>,
    /// The same, in the order in which that was found out.
    known: Vec<Fact>,
}

impl Facts {
    /// Adds what is true if a condition is.
    fn learn(&mut self, body: &Body, cond: ExprId) {
        let mut parts = vec![cond];
        while let Some(part) = parts.pop() {
            match body.exprs[part].kind {
                ExprKind::And(pair) => parts.extend(pair),
                ExprKind::Block(_, value) => parts.push(value),
                _ => {
                    let new = Fact::of(body, part).filter(|&fact| self.holds.insert(fact));
                    self.known.extend(new);
                }
            }
        }
    }

    /// Forgets all but the first ones.
    fn forget(&mut self, count: usize) {
        for fact in self.known.drain(count..) {
            self.holds.remove(&fact);
        }
    }

    /// Whether a condition is known to hold.
    fn hold(&self, body: &Body, cond: ExprId) -> bool {
        Fact::of(body, cond).is_some_and(|fact| self.holds.contains(&fact))
    }
}

/// Adds the parts of an expression, in the order of evaluation; of a choice its condition.
fn push_parts(body: &Body, expr: ExprId, pending: &mut Vec<Next>) {
    let start = pending.len();
    let mut always = Vec::new();
    let mut sometimes = Vec::new();
    match &body.exprs[expr].kind {
        &ExprKind::If([cond, ..]) | &ExprKind::And([cond, _]) => {
            pending.extend([Next::Expr(cond), Next::Rest(expr)]);
        }
        &ExprKind::Or([first, second]) => {
            always.push(first);
            sometimes.push(second);
        }
        ExprKind::Loop(found) => {
            always.push(found.init);
            match found.iteration {
                Iteration::Range(range) => always.extend([range.from, range.to]),
                Iteration::While(cond) => sometimes.push(cond),
            }
            sometimes.push(found.body);
        }
        ExprKind::Collect(_, collect) => {
            always.extend([collect.range.from, collect.range.to]);
            sometimes.extend(collect.first.into_iter().chain([collect.body]));
        }
        ExprKind::Switch(switch) => {
            always.push(switch.object);
            sometimes.extend(switch.arms.iter().map(|arm| arm.1).chain(switch.default));
        }
        ExprKind::Join(join) => sometimes.extend(join.parts()),
        ExprKind::Repeat(repeat) => {
            always.push(repeat.init);
            sometimes.push(repeat.body);
        }
        _ => body.exprs[expr].for_each_child(|child| always.push(child)),
    }
    pending.extend(always.into_iter().map(Next::Expr));
    pending.extend(sometimes.into_iter().flat_map(|part| [Next::Begin, Next::Expr(part), Next::End]));
    pending[start..].reverse();
}

/// Adds what is left of a choice, or of two conditions.
fn push_rest(body: &Body, expr: ExprId, pending: &mut Vec<Next>) {
    let start = pending.len();
    match body.exprs[expr].kind {
        ExprKind::If([cond, then, other]) => {
            pending.extend([Next::Begin, Next::Holds(cond), Next::Expr(then), Next::End]);
            pending.extend([Next::Begin, Next::Expr(other), Next::End]);
            // Where it doesn't hold, nothing comes after it.
            pending.extend(is_trap(body, other).then_some(Next::Holds(cond)));
        }
        ExprKind::And([first, second]) => {
            pending.extend([Next::Begin, Next::Holds(first), Next::Expr(second), Next::End, Next::Both(expr)]);
        }
        _ => {}
    }
    pending[start..].reverse();
}
