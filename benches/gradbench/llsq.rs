//! `llsq` by hand.

use super::{Dice, HandWritten, Output};
use serde_json::{Value as Json, json};

pub(crate) struct Llsq {
    x: Vec<f64>,
    n: usize,
}

impl Llsq {
    pub(crate) fn new(coefficients: usize, n: usize) -> Llsq {
        Llsq { x: Dice::new(31_337).vector(coefficients), n }
    }

    fn t(&self, i: usize) -> f64 {
        -1.0 + 2.0 * i as f64 / (self.n - 1) as f64
    }

    /// The sign of t minus the polynomial at t.
    fn residual(&self, t: f64) -> f64 {
        let mut rest = if t == 0.0 { 0.0 } else { t.signum() };
        let mut power = 1.0;
        for x in &self.x {
            rest -= x * power;
            power *= t;
        }
        rest
    }
}

impl HandWritten for Llsq {
    fn input(&self) -> Json {
        json!({ "x": self.x, "n": self.n })
    }

    /// For each point three for t, three for each coefficient, a power and a sum; at the end a quotient.
    fn ops(&self) -> u64 {
        (self.n * (3 * self.x.len() + 5) + 1) as u64
    }

    fn primal(&self) -> Output {
        let mut sum = 0.0;
        for i in 0..self.n {
            let residual = self.residual(self.t(i));
            sum += residual * residual;
        }
        Output::One(sum / 2.0)
    }

    fn derivative(&self) -> Output {
        let mut adj = vec![0.0; self.x.len()];
        for i in 0..self.n {
            let t = self.t(i);
            let mut power = -self.residual(t);
            for adj in &mut adj {
                *adj += power;
                power *= t;
            }
        }
        Output::Many(adj)
    }
}
