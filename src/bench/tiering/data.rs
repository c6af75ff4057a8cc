//! Arguments of the measured programs, as JSON lists. Their numbers are pseudo-random and the same in every run; they
//! are chosen so that the programs do what they are made for: filters find something, rays hit something.

use serde_json::{Value, json};

/// The generator splitmix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number between two others, with few digits, so that texts of many are short.
    fn real(&mut self, low: f64, high: f64) -> f64 {
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        rounded(low + share * (high - low))
    }

    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn reals<const N: usize>(&mut self, low: f64, high: f64) -> [f64; N] {
        std::array::from_fn(|_| self.real(low, high))
    }

    fn vector(&mut self, n: usize, low: f64, high: f64) -> Vec<f64> {
        (0..n).map(|_| self.real(low, high)).collect()
    }

    fn matrix(&mut self, rows: usize, columns: usize, low: f64, high: f64) -> Vec<Vec<f64>> {
        (0..rows).map(|_| self.vector(columns, low, high)).collect()
    }

    /// The places of a random walk, whose steps have a size of at most `step`.
    fn walk(&mut self, n: usize, step: f64) -> Vec<f64> {
        let places = (0..n).scan(0.0, |place, _| {
            *place += self.real(-step, step);
            Some(rounded(*place))
        });
        places.collect()
    }
}

fn rounded(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

fn list(n: usize, element: impl FnMut(usize) -> Value) -> Value {
    (0..n).map(element).collect()
}

/// A series in which one of eight measurements is missing.
pub(super) fn kalman(n: usize) -> String {
    let mut random = Random(1);
    let places = random.walk(n, 0.5);
    let series = list(n, |i| match random.below(8) {
        0 => json!("Nothing"),
        _ => json!({ "Just": rounded(places[i] + random.real(-0.5, 0.5)) }),
    });
    json!([{ "level": 0.3, "slope": 0.05, "sensor": 0.4 }, [0.0, 0.1], series]).to_string()
}

/// `n` points of `size` coordinates, and a hidden layer of `hidden`.
pub(super) fn neural_ode(size: usize, hidden: usize, n: usize, time: f64) -> String {
    let mut random = Random(2);
    let net = json!({
        "inner": random.matrix(hidden, size, -1.5, 1.5),
        "bias": random.vector(hidden, -0.5, 0.5),
        "outer": random.matrix(size, hidden, -1.0, 1.0),
    });
    let samples = list(n, |_| json!([random.vector(size, -1.0, 1.0), random.vector(size, -1.0, 1.0)]));
    json!([net, time, 1e-5, samples]).to_string()
}

pub(super) fn lstm(cells: usize, inputs: usize, length: usize) -> String {
    let mut random = Random(3);
    let size = 1.0 / (cells as f64).sqrt();
    let mut gate = |bias: f64| {
        let (x, h) = (random.matrix(cells, inputs, -size, size), random.matrix(cells, cells, -size, size));
        json!([x, h, vec![bias; cells]])
    };
    let layer = json!({ "forget": gate(1.0), "input": gate(0.0), "output": gate(0.0), "change": gate(0.0) });
    let readout = json!([random.vector(cells, -1.0, 1.0), 0.1]);
    let sequence = list(length, |_| json!([random.vector(inputs, -1.0, 1.0), random.real(-1.0, 1.0)]));
    json!([layer, readout, sequence]).to_string()
}

/// `n` sequences of about `length`.
pub(super) fn soft_dtw(length: usize, n: usize) -> String {
    let mut random = Random(4);
    let center = random.walk(length, 0.5);
    let sequences = list(n, |i| json!(random.walk(length + i % 3, 0.5)));
    json!([0.3, center, sequences]).to_string()
}

pub(super) fn hierarchical(groups: usize, size: usize) -> String {
    let mut random = Random(5);
    let common = json!({
        "intercept": 1.0, "slope": 0.5, "log_spreads": [-0.3, -1.1], "log_scale": -0.7, "log_freedom": 1.4,
    });
    let offsets = list(groups, |_| json!(random.reals::<2>(-1.0, 1.0)));
    let measured = |random: &mut Random| {
        let x = random.real(0.0, 4.0);
        json!([x, rounded(1.0 + 0.5 * x + random.real(-1.0, 1.0))])
    };
    let groups = list(groups, |_| list(size, |_| measured(&mut random)));
    json!([common, offsets, groups]).to_string()
}

/// `n` by `n` pixels.
pub(super) fn ray_marcher(n: usize, spheres: usize) -> String {
    let mut random = Random(6);
    let spheres = list(spheres, |_| {
        let ([x, y, z], radius) = (random.reals(-1.5, 1.5), random.real(0.4, 0.9));
        json!([[x, rounded(1.2 + 0.4 * y), rounded(2.5 + z)], radius])
    });
    json!([n, [3.0, 4.0, -2.0], spheres]).to_string()
}

/// A program that is `depth` levels deep, for `n` inputs.
pub(super) fn expression_tree(depth: usize, n: usize) -> String {
    let mut random = Random(7);
    let program = program_of(&mut random, depth, 1);
    json!([program, random.vector(n, -1.0, 1.0)]).to_string()
}

/// A program in which variables below `known` are known. Its value is not large, however deep it is.
fn program_of(random: &mut Random, depth: usize, known: usize) -> Value {
    if depth == 0 {
        return match random.below(2) {
            0 => json!({ "Num": random.real(-2.0, 2.0) }),
            _ => json!({ "Var": random.below(known) }),
        };
    }
    let mut part = |known| program_of(random, depth - 1, known);
    let (a, b) = (part(known), part(known + 1));
    let binary = |name: &str, a: Value, b: Value| json!({ "Binary": [name, a, b] });
    let unary = |name: &str, a: Value| json!({ "Unary": [name, a] });
    let add_one = |a: Value| binary("Plus", json!({ "Num": 1.0 }), a);
    // Values are taken to the range where the functions are tame.
    let tame = |a: Value| unary("Tanh", a);
    let shallow = |random: &mut Random| program_of(random, depth.saturating_sub(2), known);
    match random.below(9) {
        0 | 1 => json!({ "Let": [known, a, b] }),
        2 => binary("Plus", a, tame(shallow(random))),
        3 => binary("Times", tame(a), unary("Cos", shallow(random))),
        4 => binary("Minus", unary("Exp", tame(a)), shallow(random)),
        5 => {
            let below = add_one(binary("Power", tame(shallow(random)), json!({ "Num": 2.0 })));
            binary("Over", a, unary("Sqrt", below))
        }
        6 | 7 => {
            let less = json!({ "Less": [shallow(random), a.clone()] });
            let test = json!({ "Both": [less, { "Not": { "Less": [a.clone(), { "Num": -1.5 }] } }] });
            json!({ "If": [test, unary("Sin", a), shallow(random)] })
        }
        _ => json!({ "Sum": [known, 3, binary("Times", json!({ "Num": 0.25 }), b)] }),
    }
}

pub(super) fn gaussian_process(n: usize) -> String {
    let mut random = Random(8);
    let kernel = json!({ "height": 1.0, "width": 0.7, "period": 2.0, "noise": 0.2 });
    let xs: Vec<f64> = (0..n).map(|i| rounded(0.2 * i as f64 + random.real(-0.05, 0.05))).collect();
    json!([kernel, xs, random.walk(n, 0.5)]).to_string()
}

pub(super) fn hmm(states: usize, series: usize, length: usize) -> String {
    let mut random = Random(9);
    let model = json!({
        "start": random.vector(states, -0.5, 0.5),
        "moves": random.matrix(states, states, -1.0, 1.0),
        "means": random.vector(states, -2.0, 2.0),
        "log_widths": random.vector(states, -1.0, 0.0),
    });
    json!([model, random.matrix(series, length, -2.5, 2.5)]).to_string()
}

pub(super) fn black_scholes_pde(n: usize) -> String {
    let market = json!({ "spot": 100.0, "strike": 105.0, "rate": 0.03, "volatility": 0.25, "years": 0.5 });
    json!([n, "Put", market]).to_string()
}

/// A sun with `planets`.
pub(super) fn n_body(planets: usize, steps: usize) -> String {
    let mut random = Random(10);
    let sun = json!({ "mass": 1.0, "place": [0.0, 0.0, 0.0], "velocity": [0.01, 0.0, 0.0] });
    let planet = |i: usize| {
        let radius = 1.0 + 0.5 * i as f64;
        let speed = rounded(1.0 / radius.sqrt());
        let [mass, height, fall] = random.reals(0.001, 0.05);
        // On all four sides of the sun.
        let (x, y, u, v) = match i % 4 {
            0 => (radius, 0.0, 0.0, speed),
            1 => (0.0, radius, -speed, 0.0),
            2 => (-radius, 0.0, 0.0, -speed),
            _ => (0.0, -radius, speed, 0.0),
        };
        json!({ "mass": mass, "place": [x, y, height], "velocity": [u, v, fall] })
    };
    let bodies: Vec<Value> = (0..planets).map(planet).chain([sun]).collect();
    json!([steps, 0.01, [1.0, 1.0, 0.0], bodies]).to_string()
}

/// `n` pictures of `size` by `size`; filters are three by three.
pub(super) fn cnn(edges: usize, shapes: usize, size: usize, n: usize) -> String {
    let mut random = Random(11);
    let net = json!({
        "edges": list(edges, |_| json!([random.matrix(3, 3, -1.0, 1.0), random.real(0.0, 0.5)])),
        "shapes": list(shapes, |_| {
            json!([list(edges, |_| json!(random.matrix(3, 3, -0.5, 0.5))), random.real(0.0, 0.5)])
        }),
        "scores": list(4, |_| json!([random.vector(shapes, -1.0, 1.0), random.real(-0.1, 0.1)])),
    });
    let samples = list(n, |_| json!([random.matrix(size, size, 0.0, 1.0), random.below(4)]));
    json!([net, samples]).to_string()
}

/// `n` points on a sheet, and twice as many edges.
pub(super) fn graph_layout(n: usize) -> String {
    let mut random = Random(12);
    let points = list(n, |_| json!(random.reals::<2>(-1.1, 1.1)));
    let edges = list(2 * n, |i| {
        let from = i % n;
        json!([from, (from + 1 + random.below(n - 1)) % n, random.real(0.2, 0.6)])
    });
    json!([{ "stiffness": 1.0, "push": 0.02, "corner": 0.1 }, points, edges]).to_string()
}

/// Every camera has seen half of the points.
pub(super) fn bundle(cameras: usize, points: usize) -> String {
    let mut random = Random(13);
    let observations = list(cameras * points / 2, |i| {
        let (camera, point) = (i % cameras, random.below(points));
        json!({ "camera": camera, "point": point, "seen": random.reals::<2>(-80.0, 80.0) })
    });
    let cameras = list(cameras, |_| {
        let ([a, b, c], [k1, k2]) = (random.reals(-0.2, 0.2), random.reals(-0.05, 0.05));
        json!({ "turn": [a, b, c], "shift": [b, c, rounded(-5.0 + a)], "focal": 500.0, "lens": [k1, k2] })
    });
    let points = list(points, |_| json!(random.reals::<3>(-0.8, 0.8)));
    json!([cameras, points, observations]).to_string()
}

pub(super) fn spline(knots: usize, samples: usize) -> String {
    let mut random = Random(14);
    let xs: Vec<f64> = (0..knots).map(|i| rounded(i as f64 + random.real(-0.3, 0.3))).collect();
    let samples = list(samples, |_| json!([random.real(0.0, knots as f64 - 1.0), random.real(-1.0, 1.0)]));
    json!([0.01, xs, random.walk(knots, 0.5), samples]).to_string()
}

pub(super) fn logistic_mixture(experts: usize, size: usize, n: usize) -> String {
    let mut random = Random(15);
    let linear = |random: &mut Random| json!([random.vector(size, -1.0, 1.0), random.real(-0.2, 0.2)]);
    let experts = list(experts, |_| json!({ "gate": linear(&mut random), "line": linear(&mut random) }));
    let samples = list(n, |_| {
        let answer = ["Yes", "No", "Yes", "No", "Unknown"][random.below(5)];
        json!([random.vector(size, -2.0, 2.0), answer])
    });
    json!([experts, samples]).to_string()
}

pub(super) fn attitude(n: usize) -> String {
    let mut random = Random(16);
    let readings = list(n, |_| {
        let ([a, b, c], [x, y, z]) = (random.reals(-0.5, 0.5), random.reals(-0.3, 0.3));
        json!({ "rate": [a, b, c], "felt": [x, y, rounded(9.8 + z)] })
    });
    json!([0.02, { "bias": [0.01, 0.0, -0.02], "gain": [1.0, 1.01, 0.99] }, [1.0, 0.1, 0.0, 0.0], readings]).to_string()
}

pub(super) fn phylogeny(leaves: usize, sites: usize) -> String {
    let mut random = Random(17);
    let tree = family(&mut random, leaves, sites);
    json!([2.0, [0.3, 0.8, 2.1], tree]).to_string()
}

fn family(random: &mut Random, leaves: usize, sites: usize) -> Value {
    if leaves == 1 {
        return json!({ "Leaf": list(sites, |_| json!(["A", "C", "G", "T"][random.below(4)])) });
    }
    let left = 1 + random.below(leaves - 1);
    let mut branch = |leaves| json!([family(random, leaves, sites), random.real(0.05, 0.4)]);
    json!({ "Fork": [branch(left), branch(leaves - left)] })
}

pub(super) fn rosenbrock(n: usize) -> String {
    json!([Random(18).vector(n, -1.5, 1.5)]).to_string()
}

pub(super) fn branchy(n: usize) -> String {
    json!([n, 1.5, 0.2, 0.3, 0.105]).to_string()
}

pub(super) fn dotprod(n: usize) -> String {
    let mut random = Random(19);
    json!([random.vector(n, -1.0, 1.0), random.vector(n, -1.0, 1.0)]).to_string()
}

/// A square matrix.
pub(super) fn summatvec(n: usize) -> String {
    let mut random = Random(20);
    json!([random.matrix(n, n, -1.0, 1.0), random.vector(n, -1.0, 1.0)]).to_string()
}

pub(super) fn particles(steps: usize, n: usize) -> String {
    let mut random = Random(21);
    json!([steps, list(n, |_| json!([random.reals::<2>(0.1, 2.0), random.reals::<2>(0.5, 1.5)]))]).to_string()
}

pub(super) fn newton_sweep(n: usize) -> String {
    json!([Random(22).vector(n, 0.5, 50.0), 1.0]).to_string()
}

/// Two hidden layers of `hidden`, and half as many outputs.
pub(super) fn neural(inputs: usize, hidden: usize) -> String {
    let mut random = Random(23);
    let mut layer = |rows: usize, columns: usize| {
        let size = 1.0 / (columns as f64).sqrt();
        json!([random.matrix(rows, columns, -size, size), random.vector(rows, -0.1, 0.1)])
    };
    let layers = [layer(hidden, inputs), layer(hidden, hidden), layer(hidden / 2, hidden)];
    json!([layers, random.vector(inputs, -1.0, 1.0)]).to_string()
}

/// A full tree of some depth, whose value is not large.
pub(super) fn expression(depth: usize) -> String {
    json!([expression_of(&mut Random(24), depth)]).to_string()
}

fn expression_of(random: &mut Random, depth: usize) -> Value {
    if depth == 0 {
        return json!({ "Leaf": random.real(-1.0, 1.0) });
    }
    let parts = [expression_of(random, depth - 1), expression_of(random, depth - 1)];
    match random.below(2) {
        0 => json!({ "Apply": ["Exp", { "Apply": ["Sin", { "Add": parts }] }] }),
        _ => json!({ "Apply": ["Sin", { "Mul": parts }] }),
    }
}

pub(super) fn logistic(size: usize, n: usize) -> String {
    let mut random = Random(25);
    let weights = random.vector(size, -0.5, 0.5);
    let samples = list(n, |_| json!([random.vector(size, -1.0, 1.0), random.below(2) == 0]));
    json!([weights, 0.1, samples]).to_string()
}

pub(super) fn tree_sum(n: usize) -> String {
    json!([Random(26).vector(n, -1.0, 1.0)]).to_string()
}

pub(super) fn uneven_map(n: usize, limit: usize) -> String {
    json!([n, limit, -2.1, -1.3, 2.7]).to_string()
}

pub(super) fn monte_carlo(samples: usize) -> String {
    json!([samples, [[100.0, 0.2], [90.0, 0.3], [110.0, 0.25]], [0.03, 1.0, 98.0, 0.4]]).to_string()
}
