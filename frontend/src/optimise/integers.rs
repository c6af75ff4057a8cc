//! Arithmetic of indices: sums of integers are put together so that what changes least is added first, and leaves
//! loops; half of a number that is even is a shift.
//!
//! Integers wrap around, so sums can be taken in any order. Sums of reals can't, and stay as they are written.
//!
//! An index into the part of a matrix below its diagonal, `j * (2 * d - j - 1) / 2 + i - j - 1`, takes seven operations
//! in the loop over `j` as it is written. Here it becomes `(i - 1) + (j * (2 * d - 1 - j) >> 1) - j`, which takes five:
//! `i - 1` and `2 * d - 1` are computed outside.

use super::is_pure_node;
use crate::arena::{Id, Table};
use crate::core::{Atom, Body, Expr, ExprId, ExprKind, Function, Iteration, Origin, TypeList, TypeLists, Var};
use crate::hash::HashMap;
use crate::limits::Meter;
use crate::list::List;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Sums of more terms stay as they are.
const TERMS_MAX: usize = 32;
/// So much of a term is compared with other terms, and of a number whether it is even.
const NODES_MAX: u32 = 24;

/// Simplifies a function's arithmetic of integers.
pub(super) fn simplify(function: &mut Function, lists: &mut TypeLists, meter: &Meter) {
    let vars = function.body.vars.len();
    let mut finder = Finder {
        body: &mut function.body,
        meter,
        levels: Table::filled(0, vars),
        values: Table::filled(None, vars),
        sums: Vec::new(),
    };
    finder.expr(function.root, 0);
    let sums = finder.sums;
    // A sum that differs from another one by a number only is computed once.
    let mut constants: HashMap<Vec<u64>, Option<i64>> = HashMap::default();
    let mut keys = Vec::with_capacity(sums.len());
    for sum in &sums {
        if !meter.steps(1 + sum.terms.len()) {
            return;
        }
        let key = key(&function.body, sum);
        let constant = constants.entry(key.clone()).or_insert(Some(sum.constant));
        *constant = constant.filter(|&constant| constant == sum.constant);
        keys.push(key);
    }
    for (sum, key) in sums.into_iter().zip(keys) {
        if !meter.steps(1 + sum.terms.len()) {
            return;
        }
        let is_shared = constants[&key].is_none();
        let Expr { types, origin, .. } = function.body.exprs[sum.expr];
        rewrite(&mut Writer { body: &mut function.body, lists, types, origin }, sum, is_shared);
    }
}

/// What is known of an expression: the loops that it is inside of by its variables, and whether it may be computed
/// earlier or later.
#[derive(Clone, Copy)]
struct Found {
    level: usize,
    pure: bool,
    /// Whether something may be bound in it, which what comes later may read.
    binds: bool,
}

/// A number that is added, or subtracted.
#[derive(Clone, Copy)]
struct Term {
    expr: ExprId,
    negative: bool,
    found: Found,
}

/// A sum of integers that is no part of another one.
struct Sum {
    expr: ExprId,
    /// How many loops are around it.
    depth: usize,
    /// In the order of evaluation.
    terms: Vec<Term>,
    constant: i64,
    /// How many operations it takes as it is written, and how many of these in the innermost loop.
    operations: usize,
    inner: usize,
}

struct Finder<'f> {
    body: &'f mut Body,
    meter: &'f Meter,
    /// How many loops are around a variable's binding.
    levels: Table<Var, usize>,
    /// What a variable is bound to, if that is a single value.
    values: Table<Var, Option<ExprId>>,
    /// Inner ones first.
    sums: Vec<Sum>,
}

impl Finder<'_> {
    /// Walks an expression in so many loops; once the compilation is stopped, nothing is found.
    fn expr(&mut self, expr: ExprId, depth: usize) -> Found {
        if !self.meter.step(self.body.exprs[expr].origin.span) {
            self.sums.clear();
            return Found { level: depth, pure: false, binds: true };
        }
        crate::stack::grown(|| self.expr_here(expr, depth))
    }

    fn expr_here(&mut self, expr: ExprId, depth: usize) -> Found {
        let stays = Found { level: depth, pure: false, binds: true };
        match self.body.exprs[expr].kind.clone() {
            ExprKind::Var(var) => Found { level: self.levels[var], pure: true, binds: false },
            ExprKind::Block(bindings, value) => {
                for binding in bindings {
                    let found = self.expr(binding.value, depth);
                    let level = if found.pure { found.level } else { depth };
                    self.define(&binding.vars, level);
                    if let [var] = binding.vars[..] {
                        self.values[var] = Some(binding.value);
                    }
                }
                self.expr(value, depth);
                stays
            }
            ExprKind::Loop(repeat) => {
                self.expr(repeat.init, depth);
                self.define(&repeat.vars, depth + 1);
                match repeat.iteration {
                    Iteration::While(cond) => _ = self.expr(cond, depth + 1),
                    Iteration::Range(range) => {
                        [range.from, range.to].into_iter().for_each(|bound| _ = self.expr(bound, depth));
                        self.define(&[range.index], depth + 1);
                    }
                }
                self.expr(repeat.body, depth + 1);
                stays
            }
            ExprKind::Collect(_, collect) => {
                let once = [collect.range.from, collect.range.to].into_iter().chain(collect.first);
                once.for_each(|part| _ = self.expr(part, depth));
                self.define(&[collect.range.index], depth + 1);
                self.expr(collect.body, depth + 1);
                stays
            }
            ExprKind::Repeat(repeat) => {
                self.expr(repeat.init, depth);
                self.define(&repeat.params, depth + 1);
                self.expr(repeat.body, depth + 1);
                stays
            }
            ExprKind::Join(join) => {
                self.expr(join.value, depth);
                for labelled in &join.bodies {
                    self.define(&labelled.params, depth);
                    self.expr(labelled.body, depth);
                }
                stays
            }
            ExprKind::Scalar(Op::IAdd | Op::ISub | Op::INeg, _) => self.sum(expr, depth),
            kind => {
                let mut children: SmallVec<[ExprId; 3]> = SmallVec::new();
                self.body.exprs[expr].for_each_child(|child| children.push(child));
                let (mut level, mut binds) = (0, false);
                let mut pure = is_pure_node(self.body, &kind)
                    && !matches!(kind, ExprKind::And(_) | ExprKind::Or(_) | ExprKind::If(_) | ExprKind::Not(_));
                for child in children {
                    let found = self.expr(child, depth);
                    level = level.max(found.level);
                    pure &= found.pure;
                    binds |= found.binds;
                }
                self.halve(expr);
                self.decide(expr);
                Found { level: if pure { level } else { depth }, pure, binds }
            }
        }
    }

    fn define(&mut self, vars: &[Var], level: usize) {
        vars.iter().for_each(|&var| self.levels[var] = level);
    }

    fn sum(&mut self, expr: ExprId, depth: usize) -> Found {
        let mut sum = Sum { expr, depth, terms: Vec::new(), constant: 0, operations: 0, inner: 0 };
        let level = self.gather(expr, false, &mut sum);
        let pure = sum.terms.iter().all(|term| term.found.pure);
        let binds = sum.terms.iter().any(|term| term.found.binds);
        // A variable that one term binds may be another one.
        if sum.terms.len() <= TERMS_MAX && !binds {
            self.sums.push(sum);
        }
        Found { level, pure, binds }
    }

    /// Takes a sum apart. Returns in how many loops it is by its variables.
    fn gather(&mut self, expr: ExprId, negative: bool, sum: &mut Sum) -> usize {
        let level = match self.body.exprs[expr].kind.clone() {
            ExprKind::Int(value) => {
                let value = if negative { value.wrapping_neg() } else { value };
                sum.constant = sum.constant.wrapping_add(value);
                return 0;
            }
            ExprKind::Scalar(op @ (Op::IAdd | Op::ISub | Op::INeg), args) => {
                // The first operand of a sum or a difference is what it is there.
                let signs = [negative ^ (op == Op::INeg), negative ^ (op == Op::ISub)];
                let parts = args.iter().zip(signs);
                crate::stack::grown(|| parts.map(|(&arg, negative)| self.gather(arg, negative, sum)).max().unwrap_or(0))
            }
            _ => {
                let found = self.expr(expr, sum.depth);
                sum.terms.push(Term { expr, negative, found });
                return found.level;
            }
        };
        sum.operations += 1;
        sum.inner += usize::from(level == sum.depth);
        level
    }

    /// Half of an even number is a shift.
    fn halve(&mut self, expr: ExprId) {
        let ExprKind::Scalar(Op::IDiv, args) = &self.body.exprs[expr].kind else { return };
        let [number, divisor] = args[..] else { return };
        let is_half = matches!(self.body.exprs[divisor].kind, ExprKind::Int(2));
        if is_half && self.parity(number, &mut { NODES_MAX }).is_some_and(|parity| parity.is_even()) {
            self.body.exprs[divisor].kind = ExprKind::Int(1);
            self.body.exprs[expr].kind = ExprKind::Scalar(Op::IShr, List::from([number, divisor]));
        }
    }

    /// A comparison of an integer with itself has one outcome, and a choice by it one way.
    fn decide(&mut self, expr: ExprId) {
        match self.body.exprs[expr].kind {
            ExprKind::Compare(comparison, [a, b]) if self.are_same(a, b) => {
                self.body.exprs[expr].kind = ExprKind::Int(comparison.holds(Ordering::Equal).into());
            }
            ExprKind::If([cond, then, other]) if let ExprKind::Int(holds) = self.body.exprs[cond].kind => {
                let chosen = if holds != 0 { then } else { other };
                let Expr { ref kind, types, origin } = self.body.exprs[chosen];
                self.body.exprs[expr] = match kind {
                    // What traps is looked for as such, and does so where it stands.
                    ExprKind::Trap(text) => Expr { kind: ExprKind::Trap(text.clone()), types, origin },
                    _ => Expr { kind: ExprKind::Block(Box::default(), chosen), ..self.body.exprs[expr] },
                };
            }
            _ => {}
        }
    }

    /// Whether two expressions are the same integer, or the length of the same array.
    fn are_same(&self, a: ExprId, b: ExprId) -> bool {
        match [a, b].map(|expr| &self.body.exprs[expr].kind) {
            [ExprKind::Var(a), ExprKind::Var(b)] => a == b && self.body.vars[*a] == ValueType::Int,
            [&ExprKind::Length(of, a), &ExprKind::Length(other, b)] if of == other => {
                matches!([a, b].map(|expr| &self.body.exprs[expr].kind), [ExprKind::Var(a), ExprKind::Var(b)] if a == b)
            }
            _ => false,
        }
    }

    /// Whether a number is even, as far as that is known by looking at so many nodes.
    fn parity(&self, expr: ExprId, nodes: &mut u32) -> Option<Parity> {
        *nodes = nodes.checked_sub(1)?;
        match &self.body.exprs[expr].kind {
            ExprKind::Int(value) => Some(Parity { one: value & 1 != 0, vars: SmallVec::new() }),
            ExprKind::Var(var) => {
                let value = self.values[*var].and_then(|value| self.parity(value, nodes));
                Some(value.unwrap_or_else(|| Parity { one: false, vars: SmallVec::from_slice(&[*var]) }))
            }
            ExprKind::Scalar(Op::INeg, args) => self.parity(args[0], nodes),
            ExprKind::Scalar(Op::IAdd | Op::ISub, args) => {
                Some(self.parity(args[0], nodes)?.plus(&self.parity(args[1], nodes)?))
            }
            ExprKind::Scalar(Op::IMul, args) => {
                let [a, b] = [args[0], args[1]].map(|arg| self.parity(arg, nodes));
                if [&a, &b].into_iter().flatten().any(Parity::is_even) {
                    return Some(Parity::default());
                }
                let (a, b) = (a?, b?);
                match () {
                    // One of two that differ by an odd number is even.
                    () if a.plus(&b).is_odd() => Some(Parity::default()),
                    () if a.is_odd() || a == b => Some(b),
                    () if b.is_odd() => Some(a),
                    () => None,
                }
            }
            _ => None,
        }
    }
}

/// Whether a number is odd, as a sum modulo 2: 0 and of no variables by default, which is even.
#[derive(Clone, Default, PartialEq)]
struct Parity {
    one: bool,
    /// In order.
    vars: SmallVec<[Var; 4]>,
}

impl Parity {
    fn is_even(&self) -> bool {
        !self.one && self.vars.is_empty()
    }

    fn is_odd(&self) -> bool {
        self.one && self.vars.is_empty()
    }

    fn plus(&self, other: &Parity) -> Parity {
        let only = |these: &Parity, those: &Parity| {
            these.vars.iter().copied().filter(|var| !those.vars.contains(var)).collect::<SmallVec<[Var; 4]>>()
        };
        let mut vars = only(self, other);
        vars.extend(only(other, self));
        vars.sort_unstable();
        Parity { one: self.one ^ other.one, vars }
    }
}

/// What a sum has besides its number: the same for sums that differ by that only.
fn key(body: &Body, sum: &Sum) -> Vec<u64> {
    let mut terms: Vec<Vec<u64>> = Vec::with_capacity(sum.terms.len());
    for term in &sum.terms {
        let mut words = vec![u64::from(term.negative)];
        // Terms that can't be told apart in a few steps are of their own.
        if !shape(body, term.expr, &mut { NODES_MAX }, &mut words) {
            words = vec![u64::MAX, term.expr.index() as u64];
        }
        terms.push(words);
    }
    terms.sort_unstable();
    terms.concat()
}

/// Writes down what an expression is; `false` if it is more than so many nodes, or something else than arithmetic.
fn shape(body: &Body, expr: ExprId, nodes: &mut u32, words: &mut Vec<u64>) -> bool {
    let Some(left) = nodes.checked_sub(1) else { return false };
    *nodes = left;
    match &body.exprs[expr].kind {
        ExprKind::Int(value) => words.extend([1, *value as u64]),
        ExprKind::Var(var) => words.extend([2, var.index() as u64]),
        ExprKind::Scalar(op, args) => {
            words.extend([3, u64::from(op.code())]);
            return args.iter().all(|&arg| shape(body, arg, nodes, words));
        }
        ExprKind::Length(_, array) => {
            words.push(4);
            return shape(body, *array, nodes, words);
        }
        _ => return false,
    }
    true
}

struct Writer<'w> {
    body: &'w mut Body,
    lists: &'w mut TypeLists,
    types: TypeList,
    origin: Origin,
}

impl Writer<'_> {
    fn scalar(&mut self, op: Op, args: impl Into<List<ExprId>>) -> ExprId {
        let kind = ExprKind::Scalar(op, args.into());
        self.body.exprs.push(Expr { kind, types: self.types, origin: self.origin })
    }

    /// Adds a term to what there is.
    fn plus(&mut self, all: Option<Term>, term: Term) -> Term {
        let Some(all) = all else { return term };
        let (one, other) = (all.found, term.found);
        let found = Found { level: one.level.max(other.level), pure: one.pure && other.pure, binds: false };
        let (op, args) = match (all.negative, term.negative) {
            (false, false) | (true, true) => (Op::IAdd, [all.expr, term.expr]),
            (false, true) => (Op::ISub, [all.expr, term.expr]),
            (true, false) if all.found.pure || term.found.pure => (Op::ISub, [term.expr, all.expr]),
            // Both are evaluated where they are.
            (true, false) => (Op::IAdd, [self.scalar(Op::INeg, [all.expr]), term.expr]),
        };
        Term { expr: self.scalar(op, args), negative: all.negative && term.negative, found }
    }

    fn constant(&mut self, value: i64) -> Term {
        let size = Atom::Int(value.wrapping_abs());
        let expr = self.body.atom(size, self.origin, self.lists);
        Term { expr, negative: value < 0, found: Found { level: 0, pure: true, binds: false } }
    }
}

/// Puts a sum together anew, if it takes fewer operations in the innermost loop then, or as many there and fewer in
/// all.
fn rewrite(writer: &mut Writer<'_>, sum: Sum, is_shared: bool) {
    let Sum { expr, depth, mut terms, constant, operations, inner } = sum;
    // What can't be moved is last, in its order.
    terms.sort_by_key(|term| if term.found.pure { term.found.level } else { depth });
    let Some(&first) = terms.first() else {
        writer.body.exprs[expr].kind = ExprKind::Int(constant);
        return;
    };
    let lowest = first.found.level;
    // The number is added where it is added least often; sums that only differ by it share the rest.
    let joins_first = constant != 0 && lowest < depth && !is_shared;
    let last = usize::from(constant != 0 && !joins_first);
    let negated = usize::from(terms.iter().all(|term| term.negative) && constant <= 0);
    let total = terms.len() - 1 + usize::from(constant != 0) + negated;
    let inside = terms.iter().filter(|term| term.found.level == depth).count();
    let in_loop = (inside - usize::from(lowest == depth)) + if inside > 0 { last + negated } else { 0 };
    if (in_loop, total) >= (inner, operations) {
        return;
    }
    let mut all = None;
    let mut waiting = (constant != 0).then_some(constant);
    for term in terms {
        if joins_first
            && term.found.level > lowest
            && let Some(constant) = waiting.take()
        {
            let constant = writer.constant(constant);
            all = Some(writer.plus(all, constant));
        }
        all = Some(writer.plus(all, term));
    }
    if let Some(constant) = waiting {
        let constant = writer.constant(constant);
        all = Some(writer.plus(all, constant));
    }
    let all = all.expect("there are terms");
    let value = if all.negative { writer.scalar(Op::INeg, [all.expr]) } else { all.expr };
    writer.body.exprs[expr].kind = writer.body.exprs[value].kind.clone();
}
