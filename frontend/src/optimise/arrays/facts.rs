//! What is known of counts: which lengths and integers are equal, as far as loops up to them can tell, and which
//! integers are at least 0.
//!
//! Two counts are in one class if they are equal once those below 0 are taken for 0: so is an array's length, and the
//! count that it was built with. Facts that a condition tells end with the code that it guards.

use crate::arena::Id;
use crate::core::Var;
use crate::hash::HashMap;

/// Of what is known to be at least 0, so much is looked at.
const NATURAL_MAX: usize = 32;

/// A count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Count(usize);

/// Classes of equal counts.
#[derive(Debug)]
pub(super) struct Facts {
    /// Another count of the same class, nearer to the one that stands for the class, which has itself.
    near: Vec<usize>,
    /// How many counts there are in the class that one stands for.
    sizes: Vec<usize>,
    /// What all in the class are that one stands for, if it is known.
    values: Vec<Option<i64>>,
    constants: HashMap<i64, Count>,
    /// The counts that stood for a class until another one did for both, in order, and whether what all are was only
    /// known of that class.
    joined: Vec<(usize, bool)>,
    /// The integers that are known to be natural numbers, at least 0.
    natural: Vec<Var>,
}

/// How much is known at a place.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    joined: usize,
    natural: usize,
}

impl Facts {
    /// Nothing is known of the variables of a function.
    pub(super) fn new(vars: usize) -> Self {
        Facts {
            near: (0..vars).collect(),
            sizes: vec![1; vars],
            values: vec![None; vars],
            constants: HashMap::default(),
            joined: Vec::new(),
            natural: Vec::new(),
        }
    }

    /// An integer, or the length of an array, that a variable holds.
    pub(super) fn of_var(&self, var: Var) -> Count {
        Count(var.index())
    }

    /// A constant.
    pub(super) fn constant(&mut self, value: i64) -> Count {
        // Counts below 0 are no different from 0.
        let value = value.max(0);
        if let Some(&known) = self.constants.get(&value) {
            return known;
        }
        let count = Count(self.near.len());
        self.near.push(count.0);
        self.sizes.push(1);
        self.values.push(Some(value));
        self.constants.insert(value, count);
        count
    }

    fn class(&self, count: Count) -> usize {
        let mut at = count.0;
        while self.near[at] != at {
            at = self.near[at];
        }
        at
    }

    /// Whether two counts are known to be equal.
    pub(super) fn are_equal(&self, a: Count, b: Count) -> bool {
        self.class(a) == self.class(b)
    }

    /// Notes that two counts are equal. The smaller class goes into the larger one, so that no way is long.
    pub(super) fn join(&mut self, a: Count, b: Count) {
        let (mut small, mut large) = (self.class(a), self.class(b));
        if small == large {
            return;
        }
        if self.sizes[small] > self.sizes[large] {
            (small, large) = (large, small);
        }
        self.near[small] = large;
        self.sizes[large] += self.sizes[small];
        let tells = self.values[large].is_none() && self.values[small].is_some();
        if tells {
            self.values[large] = self.values[small];
        }
        self.joined.push((small, tells));
    }

    /// What a count is, if that is known.
    pub(super) fn value(&self, count: Count) -> Option<i64> {
        self.values[self.class(count)]
    }

    /// Notes that an integer is at least 0.
    pub(super) fn add_natural(&mut self, var: Var) {
        self.natural.push(var);
    }

    /// Whether an integer is known to be at least 0.
    pub(super) fn is_natural(&self, var: Var) -> bool {
        self.natural.iter().rev().take(NATURAL_MAX).any(|&known| known == var)
    }

    /// How much is known.
    pub(super) fn mark(&self) -> Mark {
        Mark { joined: self.joined.len(), natural: self.natural.len() }
    }

    /// Forgets what was noted after a mark.
    pub(super) fn back_to(&mut self, mark: Mark) {
        self.natural.truncate(mark.natural);
        for (small, tells) in self.joined.drain(mark.joined..).rev() {
            let large = self.near[small];
            self.sizes[large] -= self.sizes[small];
            if tells {
                self.values[large] = None;
            }
            self.near[small] = small;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_forgotten() {
        let mut facts = Facts::new(4);
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| facts.of_var(Var::from_index(at)));
        facts.join(a, b);
        let mark = facts.mark();
        facts.join(c, d);
        facts.join(d, a);
        facts.add_natural(Var::from_index(3));
        let three = facts.constant(3);
        facts.join(three, a);
        assert_eq!([b, d].map(|count| facts.value(count)), [Some(3); 2]);
        assert!(facts.are_equal(b, c) && facts.is_natural(Var::from_index(3)));
        facts.back_to(mark);
        assert!(!facts.is_natural(Var::from_index(3)));
        assert_eq!([a, d, three].map(|count| facts.value(count)), [None, None, Some(3)]);
        assert!(facts.are_equal(a, b) && !facts.are_equal(b, c) && !facts.are_equal(c, d));
        let (none, less) = (facts.constant(0), facts.constant(-3));
        assert!(none == less && facts.constant(1) != none);
    }
}
