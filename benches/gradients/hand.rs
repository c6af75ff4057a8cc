//! The example programs as a Rust programmer would write them, with the gradient by hand: same algorithm, same order of
//! operations. What dualvm is measured against.

/// `x · y`.
pub(crate) fn mult(x: f64, y: f64) -> f64 {
    x * y
}

/// The gradient of [`mult`].
pub(crate) fn mult_grad(x: f64, y: f64) -> (f64, [f64; 2]) {
    (x * y, [y, x])
}

/// The dot product.
pub(crate) fn dotprod(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + x * y)
}

/// The gradient of [`dotprod`] with respect to both arrays.
pub(crate) fn dotprod_grad(a: &[f64], b: &[f64]) -> (f64, [Vec<f64>; 2]) {
    (dotprod(a, b), [b.to_vec(), a.to_vec()])
}

/// The sum of the entries of a matrix times a vector.
pub(crate) fn summatvec(m: &[Vec<f64>], v: &[f64]) -> f64 {
    m.iter().fold(0.0, |total, row| total + dotprod(row, v))
}

/// The gradient of [`summatvec`].
pub(crate) fn summatvec_grad(m: &[Vec<f64>], v: &[f64]) -> (f64, Vec<Vec<f64>>, Vec<f64>) {
    let mut v_adj = vec![0.0; v.len()];
    for row in m {
        row.iter().zip(&mut v_adj).for_each(|(x, adj)| *adj += x);
    }
    (summatvec(m, v), vec![v.to_vec(); m.len()], v_adj)
}

/// The Rosenbrock function.
pub(crate) fn rosenbrock(x: &[f64]) -> f64 {
    let mut acc = 0.0;
    for i in 0..x.len() - 1 {
        let u = x[i + 1] - x[i] * x[i];
        let w = 1.0 - x[i];
        acc = acc + 100.0 * (u * u) + w * w;
    }
    acc
}

/// The gradient of [`rosenbrock`].
pub(crate) fn rosenbrock_grad(x: &[f64]) -> (f64, Vec<f64>) {
    let mut adj = vec![0.0; x.len()];
    for i in 0..x.len() - 1 {
        let u_adj = 200.0 * (x[i + 1] - x[i] * x[i]);
        adj[i + 1] += u_adj;
        adj[i] -= 2.0 * x[i] * u_adj + 2.0 * (1.0 - x[i]);
    }
    (rosenbrock(x), adj)
}

/// A square root by Newton's method.
pub(crate) fn newton(a: f64, x0: f64) -> f64 {
    let mut x = x0;
    while (x * x - a).abs() > 1e-12 {
        x -= (x * x - a) / (2.0 * x);
    }
    x
}

/// How many steps [`newton`] takes.
pub(crate) fn newton_steps(a: f64, x0: f64) -> u64 {
    let (mut x, mut steps) = (x0, 0);
    while (x * x - a).abs() > 1e-12 {
        x -= (x * x - a) / (2.0 * x);
        steps += 1;
    }
    steps
}

/// The gradient of [`newton`]: the iterates are kept, and walked backwards.
pub(crate) fn newton_grad(a: f64, x0: f64) -> (f64, [f64; 2]) {
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

/// The sum of [`newton`] over many numbers.
pub(crate) fn newton_sweep(numbers: &[f64], x0: f64) -> f64 {
    numbers.iter().fold(0.0, |total, &a| total + newton(a, x0))
}

/// The gradient of [`newton_sweep`] with respect to the numbers and the start.
pub(crate) fn newton_sweep_grad(numbers: &[f64], x0: f64) -> (f64, Vec<f64>, f64) {
    let (mut total, mut adjs, mut x_adj) = (0.0, Vec::with_capacity(numbers.len()), 0.0);
    for &a in numbers {
        let (root, [a_adj, start_adj]) = newton_grad(a, x0);
        total += root;
        adjs.push(a_adj);
        x_adj += start_adj;
    }
    (total, adjs, x_adj)
}

fn next_threshold(c: f64) -> f64 {
    let next = c + 0.17;
    if next > 0.6 { next - 0.6 } else { next }
}

/// A recurrence with branches. The parameters are `a`, `b`, `x` and `c`.
pub(crate) fn branchy(n: usize, [a, b, x, c]: [f64; 4]) -> f64 {
    let (mut x, mut c) = (x, c);
    for _ in 0..n {
        c = next_threshold(c);
        x = if x > c { a * x * (1.0 - x) } else { x * x + b };
    }
    x
}

/// The gradient of [`branchy`]: the iterates are kept with the branches, and walked backwards.
pub(crate) fn branchy_grad(n: usize, [a, b, x, c]: [f64; 4]) -> (f64, [f64; 4]) {
    let (mut x, mut c) = (x, c);
    let mut steps = Vec::with_capacity(n);
    for _ in 0..n {
        c = next_threshold(c);
        let above = x > c;
        steps.push((x, above));
        x = if above { a * x * (1.0 - x) } else { x * x + b };
    }
    let (mut a_adj, mut b_adj, mut x_adj) = (0.0, 0.0, 1.0);
    for &(x, above) in steps.iter().rev() {
        if above {
            a_adj += x * (1.0 - x) * x_adj;
            x_adj *= a * (1.0 - x) - a * x;
        } else {
            b_adj += x_adj;
            x_adj *= 2.0 * x;
        }
    }
    (x, [a_adj, b_adj, x_adj, 0.0])
}

/// Position and velocity of a particle.
pub(crate) type State = [f64; 4];

const DT: f64 = 0.05;

fn step([px, py, vx, vy]: State) -> State {
    let ax = -0.5 * px - 0.2 * vx;
    let ay = -0.5 * py - 0.2 * vy;
    [px + DT * vx, py + DT * vy, vx + DT * ax, vy + DT * ay]
}

/// A damped particle after `n` steps; the product of its coordinates.
pub(crate) fn spring(n: usize, start: State) -> f64 {
    let [px, py, ..] = (0..n).fold(start, |state, _| step(state));
    px * py
}

/// The gradient of [`spring`]. The step is linear, so nothing needs to be kept.
pub(crate) fn spring_grad(n: usize, start: State) -> (f64, State) {
    let [px, py, ..] = (0..n).fold(start, |state, _| step(state));
    let adj = (0..n).fold([py, px, 0.0, 0.0], |[px, py, vx, vy]: State, _| {
        let (ax, ay) = (DT * vx, DT * vy);
        [px - 0.5 * ax, py - 0.5 * ay, vx + DT * px - 0.2 * ax, vy + DT * py - 0.2 * ay]
    });
    (px * py, adj)
}

/// The particles benchmark: the product of the final coordinates, summed over independent particles.
pub(crate) fn particles(n: usize, starts: &[State]) -> f64 {
    starts.iter().fold(0.0, |sum, &start| sum + spring(n, start))
}

/// The gradient of [`particles`].
pub(crate) fn particles_grad(n: usize, starts: &[State]) -> (f64, Vec<State>) {
    let (mut sum, mut adjs) = (0.0, Vec::with_capacity(starts.len()));
    for &start in starts {
        let (value, adj) = spring_grad(n, start);
        sum += value;
        adjs.push(adj);
    }
    (sum, adjs)
}

type Vec3 = [f64; 3];

fn dot3(a: Vec3, b: Vec3) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: Vec3, b: Vec3) -> Vec3 {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// Rotates a vector by a quaternion `(x, y, z, w)`: `2 (u·v) u + (w² - u·u) v + 2 w (u × v)`.
pub(crate) fn rotate_vec_by_quat(v: Vec3, [x, y, z, w]: [f64; 4]) -> Vec3 {
    let u = [x, y, z];
    let (along, keep, c) = (2.0 * dot3(u, v), w * w - dot3(u, u), cross(u, v));
    std::array::from_fn(|i| along * u[i] + keep * v[i] + 2.0 * w * c[i])
}

/// The Jacobian of [`rotate_vec_by_quat`]: a row for each output, with respect to `v`, then to the quaternion. One
/// reverse pass per output.
pub(crate) fn rotate_vec_by_quat_jacobian(v: Vec3, q: [f64; 4]) -> (Vec3, [[f64; 7]; 3]) {
    let [x, y, z, w] = q;
    let u = [x, y, z];
    let (along, keep, c) = (2.0 * dot3(u, v), w * w - dot3(u, u), cross(u, v));
    let row = |i: usize| {
        let mut seed = [0.0; 3];
        seed[i] = 1.0;
        let (along_adj, keep_adj, w_adj) = (u[i], v[i], 2.0 * c[i] + 2.0 * w * v[i]);
        let c_adj = seed.map(|s| 2.0 * w * s);
        // u × v is linear in both: its adjoints are v × c_adj and c_adj × u.
        let (u_cross, v_cross) = (cross(v, c_adj), cross(c_adj, u));
        let mut adj = [0.0; 7];
        for k in 0..3 {
            adj[k] = keep * seed[k] + 2.0 * along_adj * u[k] + v_cross[k];
            adj[3 + k] = along * seed[k] + 2.0 * along_adj * v[k] - 2.0 * keep_adj * u[k] + u_cross[k];
        }
        adj[6] = w_adj;
        adj
    };
    (rotate_vec_by_quat(v, q), [row(0), row(1), row(2)])
}

/// Rotates a vector `n` times.
pub(crate) fn rotations(n: usize, v: Vec3, q: [f64; 4]) -> Vec3 {
    (0..n).fold(v, |v, _| rotate_vec_by_quat(v, q))
}

/// Pulls a cotangent back through one rotation of `v`; adds the quaternion's adjoint to `q_adj`.
fn rotate_vjp(v: Vec3, [x, y, z, w]: [f64; 4], adj: Vec3, q_adj: &mut [f64; 4]) -> Vec3 {
    let u = [x, y, z];
    let (along, keep, c) = (2.0 * dot3(u, v), w * w - dot3(u, u), cross(u, v));
    let (along_adj, keep_adj, c_adj) = (dot3(adj, u), dot3(adj, v), adj.map(|adj| 2.0 * w * adj));
    let (u_cross, v_cross) = (cross(v, c_adj), cross(c_adj, u));
    for k in 0..3 {
        q_adj[k] += along * adj[k] + 2.0 * along_adj * v[k] - 2.0 * keep_adj * u[k] + u_cross[k];
    }
    q_adj[3] += 2.0 * dot3(adj, c) + 2.0 * w * keep_adj;
    std::array::from_fn(|k| keep * adj[k] + 2.0 * along_adj * u[k] + v_cross[k])
}

/// The Jacobian of [`rotations`]: the trajectory is kept, and walked backwards once for each output.
pub(crate) fn rotations_jacobian(n: usize, v: Vec3, q: [f64; 4]) -> (Vec3, [[f64; 7]; 3]) {
    let mut end = v;
    let mut trajectory = Vec::with_capacity(n);
    for _ in 0..n {
        trajectory.push(end);
        end = rotate_vec_by_quat(end, q);
    }
    let row = |i: usize| {
        let (mut adj, mut q_adj) = ([0.0; 3], [0.0; 4]);
        adj[i] = 1.0;
        for &v in trajectory.iter().rev() {
            adj = rotate_vjp(v, q, adj, &mut q_adj);
        }
        let mut row = [0.0; 7];
        row[..3].copy_from_slice(&adj);
        row[3..].copy_from_slice(&q_adj);
        row
    };
    (end, [row(0), row(1), row(2)])
}

/// A dense layer: a row of weights for each output, and the biases.
pub(crate) type Layer = (Vec<Vec<f64>>, Vec<f64>);

fn dense((weights, bias): &Layer, x: &[f64]) -> Vec<f64> {
    let relu = |x: f64| if x >= 0.0 { x } else { 0.0 };
    weights.iter().zip(bias).map(|(row, b)| relu(dotprod(row, x) + b)).collect()
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let max = x.iter().fold(0.0_f64, |m, &x| if x > m { x } else { m });
    let exps: Vec<f64> = x.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

/// The network of the neural benchmark: dense layers with relu, then softmax.
pub(crate) fn network(layers: &[Layer], x: &[f64]) -> Vec<f64> {
    let last = layers.iter().fold(x.to_vec(), |x, layer| dense(layer, &x));
    softmax(&last)
}

/// Pulls a cotangent, which may depend on the output, back through [`network`]: the output, and the adjoints of
/// weights, biases and input.
pub(crate) fn network_vjp(
    layers: &[Layer],
    x: &[f64],
    cotangent: impl FnOnce(&[f64]) -> Vec<f64>,
) -> (Vec<f64>, Vec<Layer>, Vec<f64>) {
    let mut inputs = vec![x.to_vec()];
    for layer in layers {
        inputs.push(dense(layer, &inputs[inputs.len() - 1]));
    }
    let y = softmax(&inputs[layers.len()]);
    // Through the softmax: y_i (c_i - Σ c y). It doesn't change when all parts move together, so that the maximum that
    // is subtracted has no derivative.
    let c = cotangent(&y);
    let mean = dotprod(&c, &y);
    let mut adj: Vec<f64> = y.iter().zip(&c).map(|(y, c)| y * (c - mean)).collect();
    let mut layer_adjs = Vec::with_capacity(layers.len());
    for ((weights, _), (x, out)) in layers.iter().zip(inputs.iter().zip(&inputs[1..])).rev() {
        let pre: Vec<f64> = adj.iter().zip(out).map(|(adj, &out)| if out > 0.0 { *adj } else { 0.0 }).collect();
        let weights_adj = pre.iter().map(|adj| x.iter().map(|x| adj * x).collect()).collect();
        let mut x_adj = vec![0.0; x.len()];
        for (row, adj) in weights.iter().zip(&pre) {
            row.iter().zip(&mut x_adj).for_each(|(w, x_adj)| *x_adj += w * adj);
        }
        layer_adjs.push((weights_adj, pre));
        adj = x_adj;
    }
    layer_adjs.reverse();
    (y, layer_adjs, adj)
}

/// The neural benchmark: the sum of what the [`network`] puts out.
pub(crate) fn neural(layers: &[Layer], x: &[f64]) -> f64 {
    network(layers, x).iter().sum()
}

/// The gradient of [`neural`] with respect to weights, biases and input.
pub(crate) fn neural_grad(layers: &[Layer], x: &[f64]) -> (f64, Vec<Layer>, Vec<f64>) {
    let (y, layer_adjs, x_adj) = network_vjp(layers, x, |y| vec![1.0; y.len()]);
    (y.iter().sum(), layer_adjs, x_adj)
}
