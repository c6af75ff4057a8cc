//! Comparisons whose outcome is known: of constants, and of what the loops around run over. In `for i in a .. b` the
//! index is at least `a` and less than `b`. Where `a == b` was asked before, as products of matrices do of their sizes,
//! what is known of the one is known of the other.

use super::{Change, Number, Operation, Sharer};
use crate::core::Comparison;
use dualvm_vm::isa::Op;

/// No more integers are known to be equal to others at a time: ways from one to the next are gone.
const EQUAL_MAX: usize = 32;

/// What an index runs over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// It is at least this.
    pub(super) from: Number,
    /// It is less than this.
    pub(super) to: Number,
}

impl Sharer<'_> {
    /// A condition holds from here on.
    pub(super) fn note_holds(&mut self, condition: Number) {
        let Some(&pair) = self.compared.get(&condition) else { return };
        let [a, b] = pair.map(|number| self.stands_for(number));
        if a != b && self.equal.len() < EQUAL_MAX {
            self.equal.insert(a, b);
            self.changes.push(Change::Equal(a));
        }
    }

    /// One of the integers that are known to be equal to this one: the same for all of them.
    fn stands_for(&self, mut number: Number) -> Number {
        while let Some(&next) = self.equal.get(&number) {
            number = next;
        }
        number
    }

    fn are_equal(&self, a: Number, b: Number) -> bool {
        a == b || !self.equal.is_empty() && self.stands_for(a) == self.stands_for(b)
    }

    /// The outcome of a comparison of integers, if it is known.
    pub(super) fn known(&self, comparison: Comparison, [a, b]: [Number; 2]) -> Option<bool> {
        if let (Some(a), Some(b)) = (self.constants.get(&a), self.constants.get(&b)) {
            return Some(comparison.holds(a.cmp(b)));
        }
        match comparison {
            Comparison::Less => self.is_less(a, b),
            Comparison::Greater => self.is_less(b, a),
            Comparison::LessEqual => self.is_less(b, a).map(|less| !less),
            Comparison::GreaterEqual => self.is_less(a, b).map(|less| !less),
            // Reals aren't equal to themselves if they are NaN.
            Comparison::Equal | Comparison::NotEqual if a != b && self.are_equal(a, b) => {
                Some(comparison == Comparison::Equal)
            }
            Comparison::Equal | Comparison::NotEqual => {
                let differ = self.is_less(a, b) == Some(true) || self.is_less(b, a) == Some(true);
                differ.then_some(comparison == Comparison::NotEqual)
            }
        }
    }

    /// What the number or 0 is, whichever is greater, if that is computed: so many rows or columns a matrix has. It is
    /// the number itself where an index is less than that.
    fn or_zero(&self, number: Number) -> Option<Number> {
        let zero = self.numbers.get(&Operation::Int(0))?;
        self.numbers.get(&Operation::Scalar(Op::IMax, [Some(number), Some(*zero), None])).copied()
    }

    /// Whether the first number is less than the second one.
    fn is_less(&self, a: Number, b: Number) -> Option<bool> {
        let constant = |number| self.constants.get(&number).copied();
        if let Some(index) = self.bounds.get(&a) {
            let to_or_zero = self.or_zero(index.to);
            if self.are_equal(index.to, b) || to_or_zero.is_some_and(|to| self.are_equal(to, b)) {
                return Some(true);
            }
            if self.are_equal(index.from, b) {
                return Some(false);
            }
            if let (Some(from), Some(b)) = (constant(index.from), constant(b))
                && from >= b
            {
                return Some(false);
            }
            if let (Some(to), Some(b)) = (constant(index.to), constant(b))
                && to <= b
            {
                return Some(true);
            }
        }
        if let Some(index) = self.bounds.get(&b) {
            if self.are_equal(index.to, a) {
                return Some(false);
            }
            if let (Some(a), Some(from)) = (constant(a), constant(index.from))
                && a < from
            {
                return Some(true);
            }
            if let (Some(a), Some(to)) = (constant(a), constant(index.to))
                && a >= to - 1
            {
                return Some(false);
            }
        }
        None
    }
}
