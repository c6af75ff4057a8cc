//! `gmm` by hand.

use super::{Dice, HandWritten, Output, logsumexp};
use serde_json::{Value as Json, json};
use std::f64::consts::{LN_2, PI};

pub(crate) struct Gmm {
    x: Vec<Vec<f64>>,
    alpha: Vec<f64>,
    mu: Vec<Vec<f64>>,
    q: Vec<Vec<f64>>,
    l: Vec<Vec<f64>>,
    gamma: f64,
    m: usize,
}

/// The logarithm of the gamma function at half of a positive integer.
fn ln_gamma_of_half(twice: usize) -> f64 {
    let start = if twice.is_multiple_of(2) { (2, 0.0) } else { (1, 0.5 * PI.ln()) };
    (start.0..twice).step_by(2).map(|below| (below as f64 / 2.0).ln()).sum::<f64>() + start.1
}

fn sqnorm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum()
}

impl Gmm {
    pub(crate) fn new(d: usize, k: usize, n: usize) -> Gmm {
        let mut dice = Dice::new(31_337);
        Gmm {
            x: dice.symmetric_matrix(n, d),
            alpha: dice.vector(k),
            mu: dice.matrix(k, d),
            q: dice.symmetric_matrix(k, d),
            l: dice.symmetric_matrix(k, d * (d - 1) / 2),
            gamma: 1.5,
            m: 2,
        }
    }

    fn dimensions(&self) -> (usize, usize, usize) {
        (self.mu[0].len(), self.alpha.len(), self.x.len())
    }

    fn diagonals(&self) -> Vec<Vec<f64>> {
        self.q.iter().map(|q| q.iter().map(|q| q.exp()).collect()).collect()
    }

    fn sums(&self) -> Vec<f64> {
        self.q.iter().map(|q| q.iter().sum()).collect()
    }

    /// The point relative to the mean of a component, and Q times that.
    fn center(&self, point: &[f64], component: usize, diagonal: &[f64], centered: &mut [f64], qx: &mut [f64]) {
        let d = point.len();
        for i in 0..d {
            centered[i] = point[i] - self.mu[component][i];
            qx[i] = diagonal[i] * centered[i];
        }
        let mut l = self.l[component].iter();
        for j in 0..d {
            for (qx, l) in qx[j + 1..].iter_mut().zip(&mut l) {
                *qx += l * centered[j];
            }
        }
    }

    fn log_wishart_prior(&self, sums: &[f64], diagonals: &[Vec<f64>]) -> f64 {
        let (d, k, _) = self.dimensions();
        let n = d + self.m + 1;
        let log_gamma: f64 = (0..d).map(|j| ln_gamma_of_half(n - j)).sum();
        let log_gamma = 0.25 * (d * (d - 1)) as f64 * PI.ln() + log_gamma;
        let c = (n * d) as f64 * (self.gamma.ln() - 0.5 * LN_2) - log_gamma;
        let component = |i: usize| {
            let frobenius = sqnorm(&diagonals[i]) + sqnorm(&self.l[i]);
            c - 0.5 * self.gamma * self.gamma * frobenius + self.m as f64 * sums[i]
        };
        (0..k).map(component).sum()
    }
}

impl HandWritten for Gmm {
    fn input(&self) -> Json {
        let Gmm { x, alpha, mu, q, l, gamma, m } = self;
        let (d, k, n) = self.dimensions();
        json!({
            "d": d, "k": k, "n": n, "x": x, "m": m, "gamma": gamma, "alpha": alpha, "mu": mu, "q": q, "l": l
        })
    }

    /// For each point and component: d for the difference, d² for Q x, 2 d for the norm, three for the sum; four for
    /// its part of the logarithm of the sum. What isn't done for each point is little.
    fn ops(&self) -> u64 {
        let (d, k, n) = self.dimensions();
        (n * (k * (d * d + 3 * d + 7) + 2) + k * (d * d + 4 * d + 12)) as u64
    }

    fn primal(&self) -> Output {
        let (d, k, n) = self.dimensions();
        let (diagonals, sums) = (self.diagonals(), self.sums());
        let (mut centered, mut qx, mut terms) = (vec![0.0; d], vec![0.0; d], vec![0.0; k]);
        let mut likelihood = 0.0;
        for point in &self.x {
            for i in 0..k {
                self.center(point, i, &diagonals[i], &mut centered, &mut qx);
                terms[i] = self.alpha[i] + sums[i] - 0.5 * sqnorm(&qx);
            }
            let max = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            likelihood += max + terms.iter().map(|term| (term - max).exp()).sum::<f64>().ln();
        }
        let constant = -0.5 * (n * d) as f64 * (2.0 * PI).ln();
        let prior = self.log_wishart_prior(&sums, &diagonals);
        Output::One(constant + likelihood - n as f64 * logsumexp(&self.alpha).0 + prior)
    }

    /// With respect to alpha, mu, q and l.
    fn derivative(&self) -> Output {
        let (d, k, n) = self.dimensions();
        let (diagonals, sums) = (self.diagonals(), self.sums());
        let (mut centered, mut qx, mut terms) = (vec![vec![0.0; d]; k], vec![vec![0.0; d]; k], vec![0.0; k]);
        let mut alpha_adj: Vec<f64> = logsumexp(&self.alpha).1.iter().map(|weight| -(n as f64) * weight).collect();
        let (mut mu_adj, mut q_adj) = (vec![vec![0.0; d]; k], vec![vec![0.0; d]; k]);
        let mut l_adj = vec![vec![0.0; d * (d - 1) / 2]; k];
        for point in &self.x {
            for i in 0..k {
                self.center(point, i, &diagonals[i], &mut centered[i], &mut qx[i]);
                terms[i] = self.alpha[i] + sums[i] - 0.5 * sqnorm(&qx[i]);
            }
            for (i, weight) in logsumexp(&terms).1.into_iter().enumerate() {
                let (centered, qx) = (&centered[i], &mut qx[i]);
                alpha_adj[i] += weight;
                // From here on that of Q x.
                qx.iter_mut().for_each(|qx| *qx *= -weight);
                let mut at = 0;
                for j in 0..d {
                    q_adj[i][j] += weight + qx[j] * centered[j] * diagonals[i][j];
                    let mut centered_adj = qx[j] * diagonals[i][j];
                    for qx_adj in &qx[j + 1..] {
                        l_adj[i][at] += qx_adj * centered[j];
                        centered_adj += qx_adj * self.l[i][at];
                        at += 1;
                    }
                    mu_adj[i][j] -= centered_adj;
                }
            }
        }
        let square = self.gamma * self.gamma;
        for i in 0..k {
            for (adj, diagonal) in q_adj[i].iter_mut().zip(&diagonals[i]) {
                *adj += self.m as f64 - square * diagonal * diagonal;
            }
            for (adj, l) in l_adj[i].iter_mut().zip(&self.l[i]) {
                *adj -= square * l;
            }
        }
        Output::Many([alpha_adj, mu_adj.concat(), q_adj.concat(), l_adj.concat()].concat())
    }
}
