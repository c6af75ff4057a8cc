//! Comparisons whose outcome is known: of constants, and of what the loops around run over. In `for i in a .. b` the
//! index is at least `a` and less than `b`.

use super::{Number, Operation, Sharer};
use crate::core::Comparison;
use dualvm_vm::isa::Op;

/// What an index runs over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// It is at least this.
    pub(super) from: Number,
    /// It is less than this.
    pub(super) to: Number,
}

impl Sharer<'_> {
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
            if index.to == b || self.or_zero(index.to) == Some(b) {
                return Some(true);
            }
            if index.from == b {
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
            if index.to == a {
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
