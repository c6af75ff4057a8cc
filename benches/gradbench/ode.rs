//! `ode` by hand: the derivative is a reverse sweep over the steps, for which the states and those between are kept.

use super::{Dice, HandWritten, Output};
use serde_json::{Value as Json, json};

pub(crate) struct Ode {
    x: Vec<f64>,
    s: usize,
}

impl Ode {
    pub(crate) fn new(n: usize, s: usize) -> Ode {
        Ode { x: Dice::new(31_337).vector(n), s }
    }

    fn h(&self) -> f64 {
        2.0 / self.s as f64
    }

    fn ode_fun(&self, y: &[f64], z: &mut [f64]) {
        z[0] = self.x[0];
        for i in 1..self.x.len() {
            z[i] = self.x[i] * y[i - 1];
        }
    }

    /// Adds what the adjoint of `ode_fun` contributes to those of x and y.
    fn pull_back(&self, y: &[f64], z_adj: &[f64], x_adj: &mut [f64], y_adj: &mut [f64]) {
        x_adj[0] += z_adj[0];
        for i in 1..self.x.len() {
            x_adj[i] += y[i - 1] * z_adj[i];
            y_adj[i - 1] += self.x[i] * z_adj[i];
        }
    }

    /// `y + h k`
    fn moved(y: &[f64], h: f64, k: &[f64], to: &mut [f64]) {
        for i in 0..y.len() {
            to[i] = y[i] + h * k[i];
        }
    }

    /// All steps; `step` sees the four states at which the right-hand side is evaluated in each.
    fn solve(&self, mut step: impl FnMut([&[f64]; 4])) -> Vec<f64> {
        let (n, h) = (self.x.len(), self.h());
        let mut y = vec![0.0; n];
        let [mut k1, mut k2, mut k3, mut k4, mut y2, mut y3, mut y4] = std::array::from_fn(|_| vec![0.0; n]);
        for _ in 0..self.s {
            self.ode_fun(&y, &mut k1);
            Ode::moved(&y, h / 2.0, &k1, &mut y2);
            self.ode_fun(&y2, &mut k2);
            Ode::moved(&y, h / 2.0, &k2, &mut y3);
            self.ode_fun(&y3, &mut k3);
            Ode::moved(&y, h, &k3, &mut y4);
            self.ode_fun(&y4, &mut k4);
            step([&y, &y2, &y3, &y4]);
            for i in 0..n {
                y[i] += h * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]) / 6.0;
            }
        }
        y
    }
}

impl HandWritten for Ode {
    fn input(&self) -> Json {
        json!({ "x": self.x, "s": self.s })
    }

    /// In a step, for each element: four products of the right-hand side, but for the first element, six for the states
    /// between, eight for the sum; and two for h.
    fn ops(&self) -> u64 {
        (self.s * (18 * self.x.len() - 2) + 1) as u64
    }

    fn primal(&self) -> Output {
        Output::Many(self.solve(|_| {}))
    }

    /// Of the last component.
    fn derivative(&self) -> Output {
        let (n, h) = (self.x.len(), self.h());
        let mut kept: Vec<[Vec<f64>; 4]> = Vec::with_capacity(self.s);
        self.solve(|states| kept.push(states.map(<[f64]>::to_vec)));
        let (mut x_adj, mut y_adj) = (vec![0.0; n], vec![0.0; n]);
        y_adj[n - 1] = 1.0;
        let scaled = |factor: f64, v: &[f64]| -> Vec<f64> { v.iter().map(|x| factor * x).collect() };
        for [y1, y2, y3, y4] in kept.iter().rev() {
            // The adjoints of the four slopes, as far as they come from the sum; then from the last to the first.
            let mut k_adj = [1.0, 2.0, 2.0, 1.0].map(|weight| scaled(weight * h / 6.0, &y_adj));
            for (stage, (state, width)) in
                [(y1, 0.0), (y2, h / 2.0), (y3, h / 2.0), (y4, h)].into_iter().enumerate().rev()
            {
                let mut state_adj = vec![0.0; n];
                self.pull_back(state, &k_adj[stage], &mut x_adj, &mut state_adj);
                for i in 0..n {
                    y_adj[i] += state_adj[i];
                    if stage > 0 {
                        k_adj[stage - 1][i] += width * state_adj[i];
                    }
                }
            }
        }
        Output::Many(x_adj)
    }
}
