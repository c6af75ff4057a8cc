//! Where random choices come from: a seed, or bytes that a fuzzer mutates.

use fastrand::Rng;
use std::ops::{Bound, RangeBounds};

/// A source of choices.
pub(crate) struct Dice {
    bytes: Vec<u8>,
    at: usize,
    /// What is drawn when the bytes are used up.
    rng: Rng,
}

/// A number in a range, for one integer type.
macro_rules! draw {
    ($($name:ident),*) => { $(
        pub(crate) fn $name(&mut self, range: impl RangeBounds<$name>) -> $name {
            let low = match range.start_bound() {
                Bound::Included(&n) => i128::from(n as i64),
                Bound::Excluded(&n) => i128::from(n as i64) + 1,
                Bound::Unbounded => $name::MIN as i128,
            };
            let high = match range.end_bound() {
                Bound::Included(&n) => i128::from(n as i64) + 1,
                Bound::Excluded(&n) => i128::from(n as i64),
                Bound::Unbounded => $name::MAX as i128 + 1,
            };
            (low + i128::from(self.below(high - low))) as $name
        }
    )* };
}

impl Dice {
    pub(crate) fn with_seed(seed: u64) -> Self {
        Dice { bytes: Vec::new(), at: 0, rng: Rng::with_seed(seed) }
    }

    /// Choices are read off the bytes, a byte for each small one, so that a change of one byte changes one choice. When
    /// they are used up, the rest is a random sequence that depends on all of them: a fuzzer begins with few bytes, and
    /// would otherwise see the same ends of programs again and again.
    pub(crate) fn with_bytes(bytes: &[u8]) -> Self {
        Dice { bytes: bytes.to_vec(), at: 0, rng: Rng::with_seed(number(bytes)) }
    }

    /// A number of 64 bits, of which those that tell `span` values apart are random.
    fn raw(&mut self, span: i128) -> u64 {
        if self.at >= self.bytes.len() {
            return self.rng.u64(..);
        }
        let wanted = if span <= 0x100 {
            1
        } else if span <= 0x1_0000 {
            2
        } else {
            8
        };
        let mut value = 0;
        for _ in 0..wanted {
            value = value << 8 | u64::from(self.bytes.get(self.at).copied().unwrap_or(0));
            self.at += 1;
        }
        value
    }

    fn below(&mut self, span: i128) -> u64 {
        assert!(span > 0, "a choice from nothing");
        let raw = self.raw(span);
        (i128::from(raw) % span) as u64
    }

    draw!(u8, u16, u32, usize, i64);

    pub(crate) fn bool(&mut self) -> bool {
        self.below(2) == 1
    }

    /// One chance in `n`.
    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        self.below(i128::from(n)) == 0
    }

    /// A number in [0, 1).
    pub(crate) fn f64(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1u64 << 53) as f64
    }

    /// Choices for other dice.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.u8(..)).collect()
    }

    /// One of these.
    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.usize(..from.len())].clone()
    }
}

/// A number that depends on all bytes (Fowler, Noll and Vo).
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
