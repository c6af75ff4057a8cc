//! `lstm` by hand: the derivative goes back through all characters, and through all layers at each.

use super::{Dice, HandWritten, Output};
use serde_json::{Value as Json, json};

/// Bits of a character.
const BITS: usize = 14;

/// In the order of the parameters. The first and the third see what comes in, the others the hidden state.
const FORGET: usize = 0;
const INGATE: usize = 1;
const OUTGATE: usize = 2;
const CHANGE: usize = 3;

pub(crate) struct Lstm {
    /// For each layer the weights of its gates, then their biases.
    main_params: Vec<Vec<f64>>,
    /// Weights of what comes in and of what goes out, and biases of that.
    extra_params: Vec<Vec<f64>>,
    /// For each layer hidden state and cells.
    state: Vec<Vec<f64>>,
    sequence: Vec<Vec<f64>>,
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// What a layer does to a bit of a character.
#[derive(Clone, Copy, Default)]
struct Cell {
    input: f64,
    hidden: f64,
    cell: f64,
    gates: [f64; 4],
    /// The hyperbolic tangent of the next cell.
    tanh: f64,
}

impl Lstm {
    pub(crate) fn new(layers: usize, characters: usize) -> Lstm {
        let mut dice = Dice::new(31_337);
        let main_params = dice.symmetric_matrix(2 * layers, 4 * BITS);
        let (extra_params, state) = (dice.symmetric_matrix(3, BITS), dice.symmetric_matrix(2 * layers, BITS));
        let bit = |x: f64| if x < 0.5 { 0.0 } else { 1.0 };
        let sequence = (0..characters).map(|_| dice.vector(BITS).into_iter().map(bit).collect()).collect();
        Lstm { main_params, extra_params, state, sequence }
    }

    fn layers(&self) -> usize {
        self.main_params.len() / 2
    }

    /// The weight that a character's loss has.
    fn scale(&self) -> f64 {
        -1.0 / (BITS * (self.sequence.len() - 1)) as f64
    }

    /// Goes through a layer, and replaces the state and what comes in.
    fn layer(&self, layer: usize, state: &mut [Vec<f64>], input: &mut [f64], mut seen: impl FnMut(usize, Cell)) {
        let (weight, bias) = (&self.main_params[2 * layer], &self.main_params[2 * layer + 1]);
        for i in 0..BITS {
            let (hidden, cell) = (state[2 * layer][i], state[2 * layer + 1][i]);
            let gate = |gate: usize, x: f64| x * weight[gate * BITS + i] + bias[gate * BITS + i];
            let forget = sigmoid(gate(FORGET, input[i]));
            let ingate = sigmoid(gate(INGATE, hidden));
            let outgate = sigmoid(gate(OUTGATE, input[i]));
            let change = gate(CHANGE, hidden).tanh();
            let next = cell * forget + ingate * change;
            let tanh = next.tanh();
            seen(i, Cell { input: input[i], hidden, cell, gates: [forget, ingate, outgate, change], tanh });
            state[2 * layer + 1][i] = next;
            state[2 * layer][i] = outgate * tanh;
            input[i] = state[2 * layer][i];
        }
    }

    /// What is predicted of the next character after one.
    fn predict(&self, t: usize, state: &mut [Vec<f64>], mut seen: impl FnMut(usize, usize, Cell)) -> [f64; BITS] {
        let [in_weight, out_weight, out_bias] = [0, 1, 2].map(|n| &self.extra_params[n]);
        let mut output: [f64; BITS] = std::array::from_fn(|i| self.sequence[t][i] * in_weight[i]);
        for layer in 0..self.layers() {
            self.layer(layer, state, &mut output, |i, cell| seen(layer, i, cell));
        }
        std::array::from_fn(|i| output[i] * out_weight[i] + out_bias[i])
    }
}

impl HandWritten for Lstm {
    fn input(&self) -> Json {
        json!({
            "main_params": self.main_params,
            "extra_params": self.extra_params,
            "state": self.state,
            "sequence": self.sequence,
        })
    }

    /// For each character and bit: in each layer eight for the gates, four for each of three sigmoids, two hyperbolic
    /// tangents and four for cell and state; eight for what comes in, what goes out and the loss.
    fn ops(&self) -> u64 {
        ((self.sequence.len() - 1) * (BITS * (26 * self.layers() + 8) + 3)) as u64
    }

    fn primal(&self) -> Output {
        let mut state = self.state.clone();
        let mut total = 0.0;
        for t in 0..self.sequence.len() - 1 {
            let prediction = self.predict(t, &mut state, |_, _, _| {});
            let lse = (2.0 + prediction.iter().map(|y| y.exp()).sum::<f64>()).ln();
            for (gold, y) in self.sequence[t + 1].iter().zip(prediction) {
                total += gold * (y - lse);
            }
        }
        Output::One(total * self.scale())
    }

    /// With respect to the main parameters, then the extra ones.
    fn derivative(&self) -> Output {
        let (layers, steps) = (self.layers(), self.sequence.len() - 1);
        let mut cells = vec![Cell::default(); steps * layers * BITS];
        let mut predictions = Vec::with_capacity(steps);
        let mut state = self.state.clone();
        for t in 0..steps {
            let keep = |layer: usize, i: usize, cell: Cell| cells[(t * layers + layer) * BITS + i] = cell;
            predictions.push(self.predict(t, &mut state, keep));
        }
        let mut main_adj = vec![vec![0.0; 4 * BITS]; 2 * layers];
        let mut extra_adj = vec![vec![0.0; BITS]; 3];
        let mut state_adj = vec![[0.0; BITS]; 2 * layers];
        for t in (0..steps).rev() {
            let (gold, exps) = (&self.sequence[t + 1], predictions[t].map(f64::exp));
            let share = gold.iter().sum::<f64>() / (2.0 + exps.iter().sum::<f64>());
            for i in 0..BITS {
                let cell = |layer: usize| &cells[(t * layers + layer) * BITS + i];
                let output_adj = self.scale() * (gold[i] - share * exps[i]);
                let top = cell(layers - 1);
                extra_adj[1][i] += output_adj * top.gates[OUTGATE] * top.tanh;
                extra_adj[2][i] += output_adj;
                let mut below = output_adj * self.extra_params[1][i];
                for layer in (0..layers).rev() {
                    let hidden_adj = below + state_adj[2 * layer][i];
                    let next_adj = &mut state_adj[2 * layer + 1][i];
                    let Cell { input, hidden, cell, gates: [forget, ingate, outgate, change], tanh } = *cell(layer);
                    *next_adj += hidden_adj * outgate * (1.0 - tanh * tanh);
                    // The adjoints of what the gates' functions are applied to.
                    let adjs = [
                        *next_adj * cell * forget * (1.0 - forget),
                        *next_adj * change * ingate * (1.0 - ingate),
                        hidden_adj * tanh * outgate * (1.0 - outgate),
                        *next_adj * ingate * (1.0 - change * change),
                    ];
                    *next_adj *= forget;
                    let mut seen_adj = [0.0; 4];
                    for (gate, (adj, seen)) in adjs.into_iter().zip([input, hidden, input, hidden]).enumerate() {
                        main_adj[2 * layer][gate * BITS + i] += adj * seen;
                        main_adj[2 * layer + 1][gate * BITS + i] += adj;
                        seen_adj[gate] = adj * self.main_params[2 * layer][gate * BITS + i];
                    }
                    below = seen_adj[FORGET] + seen_adj[OUTGATE];
                    state_adj[2 * layer][i] = seen_adj[INGATE] + seen_adj[CHANGE];
                }
                extra_adj[0][i] += below * self.sequence[t][i];
            }
        }
        Output::Many([main_adj.concat(), extra_adj.concat()].concat())
    }
}
