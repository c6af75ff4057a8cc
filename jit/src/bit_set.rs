//! Sets of small numbers, for dataflow.

/// A set of numbers below a bound, a bit each.
#[derive(Clone, PartialEq)]
pub(crate) struct BitSet(Vec<u64>);

impl BitSet {
    /// The empty set of numbers below `len`.
    pub(crate) fn new(len: usize) -> BitSet {
        BitSet(vec![0; len.div_ceil(64)])
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 != 0
    }

    pub(crate) fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    pub(crate) fn remove(&mut self, number: usize) {
        self.0[number / 64] &= !(1 << (number % 64));
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Adds what is in another set; says whether that made a difference.
    pub(crate) fn add_all(&mut self, other: &BitSet) -> bool {
        let mut added = 0;
        for (own, &other) in self.0.iter_mut().zip(&other.0) {
            added |= other & !*own;
            *own |= other;
        }
        added != 0
    }

    pub(crate) fn remove_all(&mut self, other: &BitSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= !other);
    }

    /// Removes what is not in another set.
    pub(crate) fn keep_all(&mut self, other: &BitSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= other);
    }

    /// What is in it, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(n, &word)| {
            let rest = |&word: &u64| Some(word & (word - 1)).filter(|&rest| rest != 0);
            let words = std::iter::successors(Some(word).filter(|&word| word != 0), rest);
            words.map(move |word| 64 * n + word.trailing_zeros() as usize)
        })
    }
}
