//! The evals in hand-written Rust: primal and derivative, each as one would write it, and inputs like the suite's own.
//!
//! Inputs are made by a small generator with a fixed seed, in the spirit of the suite's, so that they are the same
//! everywhere and nothing has to be stored. Each eval is a file beside its program in dualvm's language; `ht` is in
//! two.

pub(crate) mod ba;
pub(crate) mod det;
pub(crate) mod gmm;
pub(crate) mod ht;
pub(crate) mod ht_matrix;
pub(crate) mod kmeans;
pub(crate) mod llsq;
pub(crate) mod lse;
pub(crate) mod lstm;
pub(crate) mod ode;

use serde_json::Value as Json;

/// An eval with an input.
pub(crate) trait HandWritten {
    /// The input as the suite sends it.
    fn input(&self) -> Json;

    /// Operations on reals in the primal, by the text of the program in dualvm's language: `+ - * /`, negation, powers,
    /// `min`, `max` and elementary functions count one each; comparisons, loads and operations on integers don't count.
    fn ops(&self) -> u64;

    fn primal(&self) -> Output;

    /// What the suite asks for as gradient or Jacobian; of `kmeans` the gradient with respect to the centroids.
    fn derivative(&self) -> Output;

    /// What of the reals of a primal or derivative the suite looks at.
    fn shown(&self, all: Vec<f64>) -> Vec<f64> {
        all
    }
}

/// All reals of a result, in the suite's order.
#[derive(Debug)]
pub(crate) enum Output {
    One(f64),
    Many(Vec<f64>),
}

impl Output {
    pub(crate) fn into_reals(self) -> Vec<f64> {
        match self {
            Output::One(x) => vec![x],
            Output::Many(xs) => xs,
        }
    }
}

/// Pseudo-random numbers (SplitMix64: Steele, Lea and Flood 2014).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// From 0 to below 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From -1 to below 1.
    pub(crate) fn symmetric(&mut self) -> f64 {
        2.0 * self.uniform() - 1.0
    }

    /// From 0 to below `n`.
    pub(crate) fn index(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }

    pub(crate) fn vector(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.uniform()).collect()
    }

    pub(crate) fn matrix(&mut self, rows: usize, cols: usize) -> Vec<Vec<f64>> {
        (0..rows).map(|_| self.vector(cols)).collect()
    }

    pub(crate) fn symmetric_matrix(&mut self, rows: usize, cols: usize) -> Vec<Vec<f64>> {
        (0..rows).map(|_| (0..cols).map(|_| self.symmetric()).collect()).collect()
    }
}

/// The logarithm of a sum of exponentials, and the derivatives of it.
pub(crate) fn logsumexp(x: &[f64]) -> (f64, Vec<f64>) {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut adj: Vec<f64> = x.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = adj.iter().sum();
    adj.iter_mut().for_each(|x| *x /= sum);
    (max + sum.ln(), adj)
}
