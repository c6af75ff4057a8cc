//! Integers in a survey: the ranges of indices, which elements they run through, and what conditions tell of counts.

use super::super::facts::Count;
use super::{BRANCHES_MAX, Index, Nonempty, Walker, unwrapped};
use crate::core::{Comparison, ExprId, ExprKind, Range, Var};
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;

/// So many conditions joined by `&&` are looked at.
const CONDITIONS_MAX: usize = 16;

/// A range that an index runs through.
#[derive(Clone, Copy)]
pub(super) struct Indices {
    /// The first one, if that is known.
    pub(super) from: Option<i64>,
    /// Whether all of them are at least 0.
    pub(super) are_natural: bool,
    pub(super) to: Option<Count>,
    /// The end, as so much less than a count.
    pub(super) before: Option<(Count, i64)>,
}

/// The elements that are read in the iterations of a loop.
#[derive(Clone, Copy)]
pub(super) struct Elements {
    /// The loop's index, and what is added to it.
    pub(super) index: Var,
    pub(super) shift: i64,
    /// The first element that is read, and whether the last one is the array's.
    pub(super) from: i64,
    pub(super) is_to_end: bool,
}

impl Walker<'_> {
    /// The count that an integer is, once it was walked.
    pub(super) fn count(&mut self, expr: ExprId) -> Option<Count> {
        match &self.body.exprs[unwrapped(self.body, expr)].kind {
            ExprKind::Int(value) => Some(self.facts.constant(*value)),
            ExprKind::Var(var) if self.body.vars[*var] == ValueType::Int => Some(self.facts.of_var(*var)),
            ExprKind::Length(_, array) => self.var(*array).map(|array| self.facts.of_var(array)),
            // The length of an array that isn't made any more.
            ExprKind::Scalar(Op::IMax, args) => self.at_least_zero(args).and_then(|count| self.count(count)),
            _ => None,
        }
    }

    /// What is the larger one of these, if one of them is 0.
    fn at_least_zero(&self, args: &[ExprId]) -> Option<ExprId> {
        let is_zero = |expr: ExprId| matches!(self.body.exprs[expr].kind, ExprKind::Int(0));
        match *args {
            [count, zero] | [zero, count] if is_zero(zero) => Some(count),
            _ => None,
        }
    }

    /// Whether an integer can't be below 0.
    pub(super) fn counts(&self, expr: ExprId) -> bool {
        match &self.body.exprs[unwrapped(self.body, expr)].kind {
            ExprKind::Int(value) => *value >= 0,
            ExprKind::Var(var) => self.is_length[*var],
            ExprKind::Length(..) => true,
            ExprKind::Scalar(Op::IMax, args) => self.at_least_zero(args).is_some(),
            _ => false,
        }
    }

    /// Whether a range begins at 0 or above: an index of such a range, or the one after it, is no less.
    pub(super) fn begins_natural(&self, from: ExprId) -> bool {
        let of_index = || {
            let (var, by) = self.shifted(from)?;
            let is_index = self.ranges[var].is_some_and(|indices| indices.are_natural) && (0..=1).contains(&by);
            Some(is_index || by == 0 && self.facts.is_natural(var))
        };
        self.counts(from) || of_index() == Some(true)
    }

    /// Walks the ends of a range, and notes what its index is.
    pub(super) fn range(&mut self, range: Range) {
        self.expr(range.from);
        let from = match self.body.exprs[range.from].kind {
            ExprKind::Int(from) => Some(from),
            _ => None,
        };
        let end = from.filter(|&from| from >= 0).map(|_| range.to);
        let outer = std::mem::replace(&mut self.end_of_range, end);
        self.expr(range.to);
        self.end_of_range = outer;
        self.define(&[range.index]);
        let (to, before) = (self.count(range.to), self.before(range.to));
        let are_natural = self.begins_natural(range.from);
        self.ranges[range.index] = Some(Indices { from, are_natural, to, before });
    }

    /// Walks the first element of an array, which is made before the loop over the others.
    pub(super) fn first(&mut self, first: ExprId, range: Range) {
        let indices = self.ranges[range.index].take();
        let count = indices.filter(|indices| indices.from == Some(0)).and_then(|indices| indices.to);
        let nonempty = count.map(|count| Nonempty { count, is_above: true, traps: 0 });
        self.branch(nonempty, |walker| walker.expr(first));
        self.ranges[range.index] =
            indices.map(|indices| Indices { from: indices.from.map(|from| from + 1), ..indices });
    }

    /// Notes what follows from a condition's being true, or being false.
    pub(super) fn assume(&mut self, cond: ExprId, holds: bool) {
        let mut pending = vec![(cond, holds)];
        for _ in 0..CONDITIONS_MAX {
            let Some((cond, holds)) = pending.pop() else { return };
            match (&self.body.exprs[cond].kind, holds) {
                (ExprKind::Not(operand), _) => pending.push((*operand, !holds)),
                (ExprKind::Block(_, value), _) => pending.push((*value, holds)),
                (ExprKind::And(pair), true) | (ExprKind::Or(pair), false) => {
                    pending.extend(pair.iter().map(|&part| (part, holds)));
                }
                (ExprKind::Compare(Comparison::Equal, [a, b]), true)
                | (ExprKind::Compare(Comparison::NotEqual, [a, b]), false) => {
                    let (a, b) = (self.count(*a), self.count(*b));
                    if let (Some(a), Some(b)) = (a, b) {
                        self.facts.join(a, b);
                    }
                }
                (ExprKind::Compare(Comparison::LessEqual, [zero, var]), true)
                | (ExprKind::Compare(Comparison::Less, [var, zero]), false) => {
                    if let (ExprKind::Int(0..), &ExprKind::Var(var)) =
                        (&self.body.exprs[*zero].kind, &self.body.exprs[*var].kind)
                    {
                        self.facts.add_natural(var);
                    }
                }
                _ => {}
            }
        }
    }

    /// The count whose being 0 a condition tells, whether that count can't be below 0, and what the condition is then.
    pub(super) fn emptiness(&mut self, cond: ExprId) -> Option<(Count, bool, bool)> {
        let (mut cond, mut if_empty) = (cond, true);
        for _ in 0..CONDITIONS_MAX {
            match &self.body.exprs[cond].kind {
                ExprKind::Not(operand) => (cond, if_empty) = (*operand, !if_empty),
                ExprKind::Block(_, value) => cond = *value,
                ExprKind::Compare(comparison @ (Comparison::Equal | Comparison::NotEqual), [count, zero]) => {
                    let is_zero = matches!(self.body.exprs[*zero].kind, ExprKind::Int(0));
                    let known = self.count(*count).filter(|_| is_zero)?;
                    return Some((known, self.counts(*count), if_empty == (*comparison == Comparison::Equal)));
                }
                ExprKind::Compare(Comparison::Less, [zero, count]) => {
                    let is_zero = matches!(self.body.exprs[*zero].kind, ExprKind::Int(0));
                    let known = self.count(*count).filter(|_| is_zero)?;
                    return Some((known, true, !if_empty));
                }
                _ => return None,
            }
        }
        None
    }

    /// Whether an index is at least 0 and less than a count.
    pub(super) fn is_within(&self, index: ExprId, count: Count) -> bool {
        match self.body.exprs[index].kind {
            ExprKind::Int(index @ 0..) if self.facts.value(count).is_some_and(|value| index < value) => true,
            ExprKind::Int(0) => self.branches.iter().rev().take(BRANCHES_MAX).any(|branch| {
                branch.nonempty.is_some_and(|nonempty| nonempty.is_above && self.facts.are_equal(nonempty.count, count))
            }),
            _ => self.elements(index, count).is_some(),
        }
    }

    /// Which of so many elements an index runs through, if all that it runs through are there.
    pub(super) fn elements(&self, index: ExprId, count: Count) -> Option<Elements> {
        let (index, shift) = self.shifted(index)?;
        let Indices { from, to, before, .. } = self.ranges[index]?;
        let from = from?.checked_add(shift).filter(|&from| from >= 0)?;
        let mut ends = to.map(|to| (to, 0)).into_iter().chain(before);
        let (_, less) = ends.find(|&(end, less)| shift <= less && self.facts.are_equal(end, count))?;
        Some(Elements { index, shift, from, is_to_end: shift == less })
    }

    /// The variable that an integer is, with a constant added.
    pub(super) fn shifted(&self, expr: ExprId) -> Option<(Var, i64)> {
        let constant = |expr: ExprId| match self.body.exprs[expr].kind {
            ExprKind::Int(value) => Some(value),
            _ => None,
        };
        match &self.body.exprs[unwrapped(self.body, expr)].kind {
            &ExprKind::Var(var) => Some(self.shifts[var].unwrap_or((var, 0))),
            ExprKind::Scalar(Op::IAdd, args) => match constant(args[1]) {
                Some(by) => Some((self.var(args[0])?, by)),
                None => Some((self.var(args[1])?, constant(args[0])?)),
            },
            ExprKind::Scalar(Op::ISub, args) => Some((self.var(args[0])?, constant(args[1])?.checked_neg()?)),
            _ => None,
        }
    }

    /// The place in a row that an index is, if it is a multiple of a width and something below that.
    pub(super) fn in_row(&self, index: ExprId) -> Option<Index> {
        let ExprKind::Scalar(Op::IAdd, parts) = &self.body.exprs[unwrapped(self.body, index)].kind else { return None };
        [[parts[0], parts[1]], [parts[1], parts[0]]].into_iter().find_map(|[row, place]| {
            let (at, 0) = self.shifted(place)? else { return None };
            let range = self.ranges[at].filter(|range| range.are_natural)?;
            let to = range.to?;
            let row = match self.body.exprs[row].kind {
                ExprKind::Var(var) => self.values[var]?,
                _ => row,
            };
            let ExprKind::Scalar(Op::IMul, factors) = &self.body.exprs[unwrapped(self.body, row)].kind else {
                return None;
            };
            let widths = factors.iter().filter_map(|&factor| self.var(factor));
            let width = { widths }.find(|&width| self.facts.are_equal(to, self.facts.of_var(width)))?;
            Some(Index::InRow { width, at })
        })
    }

    /// The count that an integer is less than, and by how much. The count isn't below 0, so that nothing wraps around.
    pub(super) fn before(&mut self, expr: ExprId) -> Option<(Count, i64)> {
        let value = match self.body.exprs[expr].kind {
            ExprKind::Var(var) => self.values[var]?,
            _ => expr,
        };
        let ExprKind::Scalar(Op::ISub, args) = &self.body.exprs[unwrapped(self.body, value)].kind else { return None };
        let ExprKind::Int(less @ 1..) = self.body.exprs[args[1]].kind else { return None };
        let count = self.count(args[0]).filter(|_| self.counts(args[0]))?;
        Some((count, less))
    }
}
