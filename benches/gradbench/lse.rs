//! `lse` by hand.

use super::{Dice, HandWritten, Output, logsumexp};
use serde_json::{Value as Json, json};

pub(crate) struct Lse {
    x: Vec<f64>,
}

impl Lse {
    pub(crate) fn new(n: usize) -> Lse {
        Lse { x: Dice::new(31_337).vector(n) }
    }
}

impl HandWritten for Lse {
    fn input(&self) -> Json {
        json!({ "x": self.x })
    }

    /// For each element a maximum, but for the first, a difference, an exponential and a sum; at the end a logarithm
    /// and a sum.
    fn ops(&self) -> u64 {
        4 * self.x.len() as u64 + 1
    }

    fn primal(&self) -> Output {
        let max = self.x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for x in &self.x {
            sum += (x - max).exp();
        }
        Output::One(sum.ln() + max)
    }

    fn derivative(&self) -> Output {
        Output::Many(logsumexp(&self.x).1)
    }
}
