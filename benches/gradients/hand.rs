//! The example programs as a Rust programmer would write them, with the gradient by hand: same algorithm, same order of
//! operations. What dualvm is measured against.

/// `x · y`.
pub fn mult(x: f64, y: f64) -> f64 {
    x * y
}

/// The gradient of [`mult`].
pub fn mult_grad(x: f64, y: f64) -> (f64, [f64; 2]) {
    (x * y, [y, x])
}

/// The dot product.
pub fn dotprod(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + x * y)
}

/// The gradient of [`dotprod`] with respect to both arrays.
pub fn dotprod_grad(a: &[f64], b: &[f64]) -> (f64, [Vec<f64>; 2]) {
    (dotprod(a, b), [b.to_vec(), a.to_vec()])
}

/// The sum of the entries of a matrix times a vector.
pub fn summatvec(m: &[Vec<f64>], v: &[f64]) -> f64 {
    m.iter().fold(0.0, |total, row| total + dotprod(row, v))
}

/// The gradient of [`summatvec`].
pub fn summatvec_grad(m: &[Vec<f64>], v: &[f64]) -> (f64, Vec<Vec<f64>>, Vec<f64>) {
    let mut v_adj = vec![0.0; v.len()];
    for row in m {
        row.iter().zip(&mut v_adj).for_each(|(x, adj)| *adj += x);
    }
    (summatvec(m, v), vec![v.to_vec(); m.len()], v_adj)
}

/// The Rosenbrock function.
pub fn rosenbrock(x: &[f64]) -> f64 {
    let mut acc = 0.0;
    for i in 0..x.len() - 1 {
        let u = x[i + 1] - x[i] * x[i];
        let w = 1.0 - x[i];
        acc = acc + 100.0 * (u * u) + w * w;
    }
    acc
}

/// The gradient of [`rosenbrock`].
pub fn rosenbrock_grad(x: &[f64]) -> (f64, Vec<f64>) {
    let mut adj = vec![0.0; x.len()];
    for i in 0..x.len() - 1 {
        let u_adj = 200.0 * (x[i + 1] - x[i] * x[i]);
        adj[i + 1] += u_adj;
        adj[i] -= 2.0 * x[i] * u_adj + 2.0 * (1.0 - x[i]);
    }
    (rosenbrock(x), adj)
}

/// A square root by Newton's method.
pub fn newton(a: f64, x0: f64) -> f64 {
    let mut x = x0;
    while (x * x - a).abs() > 1e-12 {
        x -= (x * x - a) / (2.0 * x);
    }
    x
}

/// The gradient of [`newton`]: the iterates are kept, and walked backwards.
pub fn newton_grad(a: f64, x0: f64) -> (f64, [f64; 2]) {
    let mut xs = vec![x0];
    let mut x = x0;
    while (x * x - a).abs() > 1e-12 {
        x -= (x * x - a) / (2.0 * x);
        xs.push(x);
    }
    let (mut x_adj, mut a_adj) = (1.0, 0.0);
    for x in xs[..xs.len() - 1].iter().rev() {
        let q = (x * x - a) / (2.0 * x);
        let q_adj = -x_adj;
        a_adj -= q_adj / (2.0 * x);
        x_adj += q_adj - 2.0 * q * q_adj / (2.0 * x);
    }
    (x, [a_adj, x_adj])
}

/// Position and velocity of a particle.
pub type State = [f64; 4];

const DT: f64 = 0.05;

fn step([px, py, vx, vy]: State) -> State {
    let ax = -0.5 * px - 0.2 * vx;
    let ay = -0.5 * py - 0.2 * vy;
    [px + DT * vx, py + DT * vy, vx + DT * ax, vy + DT * ay]
}

/// A damped particle after `n` steps; the product of its coordinates.
pub fn spring(n: usize, start: State) -> f64 {
    let [px, py, ..] = (0..n).fold(start, |state, _| step(state));
    px * py
}

/// The gradient of [`spring`]. The step is linear, so nothing needs to be kept.
pub fn spring_grad(n: usize, start: State) -> (f64, State) {
    let [px, py, ..] = (0..n).fold(start, |state, _| step(state));
    let adj = (0..n).fold([py, px, 0.0, 0.0], |[px, py, vx, vy]: State, _| {
        let (ax, ay) = (DT * vx, DT * vy);
        [px - 0.5 * ax, py - 0.5 * ay, vx + DT * px - 0.2 * ax, vy + DT * py - 0.2 * ay]
    });
    (px * py, adj)
}
