//! Numbers that look random and are the same for a seed, on every machine: SplitMix64 (Steele, Lea and Flood 2014).

/// A sequence of numbers.
pub(super) struct Random(u64);

impl Random {
    /// The sequence of a seed for one purpose: what one of them takes changes no other.
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        let mut mixed = Random(seed ^ purpose.wrapping_mul(0xd134_2543_de82_ef95));
        Random(mixed.bits())
    }

    /// A sequence of its own.
    pub(super) fn split(&mut self) -> Random {
        Random(self.bits())
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to 1.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From -1 up to 1.
    pub(super) fn signed(&mut self) -> f64 {
        2.0 * self.unit() - 1.0
    }

    /// From 0.5 up to 1.5, or its negative: nothing that it is a factor of is lost.
    pub(super) fn factor(&mut self) -> f64 {
        let sign = if self.bits() & 1 == 0 { 1.0 } else { -1.0 };
        sign * (0.5 + self.unit())
    }

    /// So many different numbers below `count`, in order (Knuth, volume 2, algorithm 3.4.2S).
    pub(super) fn sample(&mut self, wanted: usize, count: usize) -> Vec<usize> {
        let mut chosen = Vec::with_capacity(wanted.min(count));
        for n in 0..count {
            let (left, needed) = ((count - n) as f64, (wanted.min(count) - chosen.len()) as f64);
            if self.unit() * left < needed {
                chosen.push(n);
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_of_the_size_asked_for_and_in_order() {
        for (wanted, count) in [(0, 5), (3, 3), (7, 3), (200, 100_000)] {
            let sample = Random::new(1, 2).sample(wanted, count);
            assert_eq!(sample.len(), wanted.min(count));
            assert!(sample.windows(2).all(|pair| pair[0] < pair[1]) && sample.iter().all(|&n| n < count));
        }
        assert_ne!(Random::new(1, 2).sample(5, 1000), Random::new(2, 2).sample(5, 1000));
    }
}
