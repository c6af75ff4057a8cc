//! Loops of which native code takes several rounds through an inner loop together: what they give is what the
//! interpreter gives, to the last bit, whatever matrices hold, however large they are, and if several of them are one.

use dualvm::{Config, Engine, Function, Jit, Limits, Module, Thresholds, Value};
use fastrand::Rng;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

const PROGRAM: &str = "
    import linalg
    -- Matrices with the numbers of an array, over and over.
    def of (a : Array Real) (n : Int) (m : Int) (by : Int) : Matrix Real =
      [| a[(i * m + j * by + i) % length a] for i < n, j < m |]
    -- All elements count, each in its own way; the second one leaves some out.
    def weigh (c : Matrix Real) : Real =
      sum [| c[i, j] * (to_real (i * 7 + j * 3) - 10.5) for i < rows c, j < columns c |]
    def weigh_some (c : Matrix Real) : Real = sum [| max c[i, j] 0.25 for i < rows c, j < columns c |]
    def add_up (c : Array Real) : Real = (loop s = 0.25 for ci in c do s * 0.5 + ci) - 3 * sum c

    def product (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      weigh (linalg.matmul (of a n k 1) (of b k m 2))
    def product_of_some (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      weigh_some (linalg.matmul (of a n k 1) (of b k m 2))
    def square (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let p = of a n n 1 in weigh (linalg.matmul p p) * b[0]
    def cube (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let p = of a n n 1 in weigh_some (linalg.matmul (linalg.matmul p p) (of b n m 3))
    def transposed (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a k n 1, of b k m 2) in
      weigh [| loop s = 0.5 for l < k do s - p[l, i] * q[l, j] for i < n, j < m |]
    def rows_by_rows (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a n k 1, of b m k 2) in weigh [| dot p[i, ..] q[j, ..] for i < n, j < m |]
    def vector (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      add_up (linalg.matvec (of a n (length b) 1) b) - add_up (linalg.matvec (transpose (of a (length b) n 1)) b)
    def distances (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a n k 1, of b k m 2) in
      weigh [| loop s = 0.0 for l < k do let d = (p[i, l] - q[l, j]) / 1.5 in s + d * d for i < n, j < m |]
    def two_sums (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a n k 1, of b k m 2) in
      weigh [|
        let (s, t) = loop (s, t) = (0.0, 1.0) for l < k do (s + p[i, l] * q[l, j], t - q[l, j] * q[l, j]) in
        s * tanh t for i < n, j < m |]
    def layer (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a n k 1, of b k m 2) in
      weigh [| tanh (b[j % length b] + 0.1 * (loop s = 0.0 for l < k do s + p[i, l] * q[l, j])) for i < n, j < m |]
    -- Neighbouring rounds add to neighbouring elements, and to the same ones.
    def convolution (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (x, w) = ([| a[i % length a] for i < n + k |], [| b[i % length b] for i < k |]) in
      add_up [| loop s = 0.0 for l < k do s + x[i + l] * w[l] for i < n |]
    def mirrored (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (x, w) = ([| a[i % length a] for i < n + k |], [| b[i % length b] for i < k |]) in
      add_up [| loop s = 0.0 for l < k do s + x[n - 1 - i + l] * w[k - 1 - l] for i < n |]
    def same_element (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let q = of b k m 1 in
      weigh [| loop s = 0.0 for l < k do s + a[i % length a] * q[l, j] for i < n, j < m |]
    def one_or_two (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a n n 1, of b n n 1) in
      let (x, y) = (if a[0] > 0 then p else q, if b[0] > 0 then p else q) in
      weigh (linalg.matmul x y) + weigh_some (linalg.matmul p q)
    def triangle (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a n n 1, of b n n 2) in
      weigh [| loop s = 0.0 for l < j do s + p[i, l] * q[l, j] for i < n, j < n |]
    def every_other (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a n k 1, of b k (2 * m) 2) in
      weigh [| loop s = 0.0 for l < k do s + p[i, l] * q[l, 2 * j] for i < n, j < m |]
    -- Whether elements are inside is asked of each.
    def unasked (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a n k 1, of b (k + m % 3) m 2) in
      weigh [| sum [| p[i, l] * q[l + m % 3, j] for l < columns p |] for i < n, j < m |]
    def upside_down (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a n k 1, of b m k 2) in
      weigh [| loop s = 1.0 for l < k do s + p[i, l] * q[m - 1 - j, k - 1 - l] for i < n, j < m |]
    -- What a round adds isn't multiplied by anything.
    def column_sums (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a k m 1, of b m k 2) in
      let tops = [| sum [| p[l, j] + 2 * p[l, j] for l < k |] for j < m |] in
      let x = [| a[i % length a] for i < k * m |] in
      add_up [| loop s = 0.0 for l < k do s + x[l * m + j] for j < m |]
        + add_up [| sum [| p[l, j] for l < k |] for j < m |] * add_up tops + add_up [| sum q[j, ..] for j < m |]
    def sums_and_products (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a k m 1, of b k m 2) in
      add_up [|
        let (s, t) = loop (s, t) = (0.0, 0.0) for l < k do (s + p[l, j], t + b[l % length b] * q[l, j]) in
        s * t - t for j < m |]
    -- Some rounds have no inner loop.
    def some (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a n k 1, of b k m 2) in
      weigh [|
        if (i + j) % 3 == 0 then 0.5 else loop s = 0.0 for l < k do s + p[i, l] * q[l, j] for i < n, j < m |]
    def steps (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let p = of a n n 1 in
      let y = loop y = of b n m 2 for t < 3 do let z = linalg.matmul p y in [| z[i, j] / 8 for i < n, j < m |] in
      weigh y
    def in_tasks (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      let (p, q) = (of a n k 1, of b k m 2) in
      sum (pbuild 3 (\\t -> weigh (linalg.matmul p q) * to_real t + weigh_some (linalg.matmul q (transpose q))))
    def tangents (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Real =
      snd (jvp (\\x -> product (map (* x) a) b n k m) 0.5 1.0)
";

const NAMES: [&str; 24] = [
    "product",
    "product_of_some",
    "square",
    "cube",
    "transposed",
    "rows_by_rows",
    "vector",
    "distances",
    "two_sums",
    "layer",
    "convolution",
    "mirrored",
    "same_element",
    "one_or_two",
    "triangle",
    "every_other",
    "some",
    "unasked",
    "column_sums",
    "sums_and_products",
    "upside_down",
    "steps",
    "in_tasks",
    "tangents",
];

const SPECIAL: [f64; 12] =
    [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-320, 1e308, -1e200, 5e-324, 1e-200];

fn modules(limits: &Limits) -> [Module; 2] {
    panics();
    [(Jit::Off, 1), (Jit::Always, 2)].map(|how| module(how, limits))
}

fn module(how: (Jit, usize), limits: &Limits) -> Module {
    let mut config = Config::default();
    (config.jit, config.threads) = how;
    config.limits = limits.clone();
    Module::from_source(&Engine::new(config), "side.dual", PROGRAM).unwrap_or_else(|error| panic!("{error}"))
}

/// What a function gives, and its gradient with respect to some of its parameters, or how it ends. As text, reals are
/// different if they differ in a bit, but for those of NaN.
fn outcome(function: &Function, args: &[Value], wrt: &[&str]) -> String {
    let value = function.call(args).map_err(|error| error.to_string());
    let gradient = function.wrt(wrt).unwrap().value_and_grad(args).map_err(|error| error.to_string());
    format!("{value:?}, {gradient:?}")
}

/// How often the compiler has panicked: nobody else would notice, because what isn't compiled is interpreted.
fn panics() -> usize {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let inside = info.location().is_some_and(|location| !location.file().starts_with("tests"));
            COUNT.fetch_add(usize::from(inside), Ordering::Relaxed);
            before(info);
        }));
    });
    COUNT.load(Ordering::Relaxed)
}

fn check(modules: &[Module; 2], name: &str, arrays: [&[f64]; 2], sizes: [i64; 3]) {
    let reals = |array: &[f64]| Value::Array(array.iter().copied().map(Value::Real).collect());
    let args: Vec<Value> = arrays.map(reals).into_iter().chain(sizes.map(Value::Int)).collect();
    for wrt in [&["a", "b"][..], &["a"], &["b"]] {
        let [interpreted, native] =
            modules.each_ref().map(|module| outcome(&module.function(name).unwrap(), &args, wrt));
        assert_eq!(interpreted, native, "{name} by {wrt:?} of {arrays:?}, {sizes:?}");
        assert_eq!(panics(), 0, "{name} by {wrt:?} of {arrays:?}, {sizes:?}");
    }
}

fn arrays(rng: &mut Rng) -> [Vec<f64>; 2] {
    let len = rng.usize(1..40);
    [0; 2].map(|_| (0..len).map(|_| rng.f64() * 4.0 - 2.0).collect())
}

#[test]
fn sizes_that_are_no_multiples_of_lanes() {
    let modules = modules(&Limits::default());
    let mut rng = Rng::with_seed(1);
    for size in
        [[1, 1, 1], [8, 8, 8], [3, 6, 8], [2, 7, 9], [9, 5, 17], [16, 13, 24], [4, 6, 31], [33, 9, 7], [8, 0, 8]]
    {
        let [a, b] = arrays(&mut rng);
        NAMES.iter().for_each(|name| check(&modules, name, [&a, &b], size));
    }
    for _ in 0..12 {
        let [a, b] = arrays(&mut rng);
        let sizes = [0; 3].map(|_| rng.i64(0..20));
        NAMES.iter().for_each(|name| check(&modules, name, [&a, &b], sizes));
    }
}

#[test]
fn numbers_that_are_not_finite() {
    let modules = modules(&Limits::default());
    let mut rng = Rng::with_seed(2);
    for special in SPECIAL {
        let mut arrays = arrays(&mut rng);
        let place = rng.usize(..arrays[0].len());
        arrays[rng.usize(..2)][place] = special;
        NAMES.iter().for_each(|name| check(&modules, name, [&arrays[0], &arrays[1]], [9, 7, 18]));
    }
    for _ in 0..12 {
        let mut real = || if rng.u8(..6) == 0 { SPECIAL[rng.usize(..SPECIAL.len())] } else { rng.f64() * 3.0 - 1.5 };
        let [a, b] = [0; 2].map(|_| (0..17).map(|_| real()).collect::<Vec<f64>>());
        NAMES.iter().for_each(|name| check(&modules, name, [&a, &b], [9, 7, 17]));
    }
}

/// Fuel runs out in the same round, whether that is one of several that run together or not.
#[test]
fn fuel_that_runs_out() {
    let mut rng = Rng::with_seed(3);
    let [a, b] = arrays(&mut rng);
    for fuel in [2_000, 7_919, 20_011, 65_535, 65_537, 100_003, 131_072, 200_003, 400_009] {
        let modules = modules(&Limits { fuel, ..Limits::default() });
        for name in ["product", "vector", "layer", "convolution", "steps"] {
            check(&modules, name, [&a, &b], [16, 25, 24]);
        }
    }
}

/// Native code takes over in the middle of an inner loop, of which the sum is half done.
#[test]
fn hand_overs_within_inner_loops() {
    let mut rng = Rng::with_seed(4);
    let [a, b] = arrays(&mut rng);
    let interpreted = module((Jit::Off, 1), &Limits::default());
    for back_edges in (1..40).step_by(3).chain([97, 155, 1_001, 3_333]) {
        let thresholds = Thresholds { calls: u32::MAX, back_edges, records: 1 };
        let modules = [interpreted.clone(), module((Jit::After(thresholds), 1), &Limits::default())];
        for name in ["product", "vector", "layer", "convolution"] {
            check(&modules, name, [&a, &b], [9, 13, 17]);
        }
    }
}

/// An index that is outside only in a later round traps there.
#[test]
fn indices_that_are_outside() {
    let program = "
        def f (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Array Real =
          [| loop s = 0.0 for l < k do s + a[i + l] * b[20 + m * i + 2 * l] for i < n |]
        -- With 2⁶¹, the first and the last one are inside.
        def far (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Array Real =
          [| loop s = 0.0 for l < k do s + a[i + l] * b[i + m * l] for i < n |]
        def rows (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Array Real =
          let p = [| a[(i * 7 + j) % length a] for i < n + 1, j < k + 1 |] in
          [| loop s = 0.0 for l < k do s + p[i + m, l] * p[l, i] for i < n |]
        -- What is outside of its row is inside of the matrix.
        def columns (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Array Real =
          let p = [| a[(i * 7 + j) % length a] for i < 3, j < length a / 3 |] in
          [| loop s = 0.0 for l < k do s + p[0, i + l] * p[1, l] for i < n |]
        -- Seven times that is 1, modulo 2⁶⁴: of eight rounds the first one and the last one are inside.
        def wrapped (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Array Real =
          [| loop s = 0.0 for l < k do s + a[i * 7905747460161236407 + l] * b[l] for i < n |]
        def asked (a : Array Real) (b : Array Real) (n : Int) (k : Int) (m : Int) : Array Real =
          let far i l = i * 7905747460161236407 + l >= 20 in
          [| loop s = 0.0 for l < k do s + (if far i l then error \"too far\" else a[i + l]) for i < n |]";
    panics();
    let modules = [(Jit::Off, 1), (Jit::Always, 1)].map(|how| {
        let mut config = Config::default();
        (config.jit, config.threads) = how;
        Module::from_source(&Engine::new(config), "outside.dual", program).unwrap()
    });
    let numbers = |len: i64| Value::Array((0..len).map(|n| Value::Real(n as f64 * 0.3 - 1.0)).collect());
    for (len, sizes) in [
        (52, [16, 9, 1]),
        (24, [16, 9, 0]),
        (35, [16, 8, -1]),
        (60, [24, 8, -1]),
        (88, [16, 12, 3]),
        (60, [16, 8, i64::MAX / 7]),
        (60, [16, 9, 1 << 61]),
    ] {
        for len in len - 3..len + 3 {
            let args: Vec<Value> = [numbers(len), numbers(len)].into_iter().chain(sizes.map(Value::Int)).collect();
            for name in ["f", "far", "rows", "columns", "wrapped", "asked"] {
                let [interpreted, native] = modules.each_ref().map(|module| {
                    let result = module.function(name).unwrap().call(&args);
                    format!("{:?}", result.map_err(|error| error.to_string()))
                });
                assert_eq!(interpreted, native, "{name}, {len}, {sizes:?}");
                assert_eq!(panics(), 0, "{name}, {len}, {sizes:?}");
            }
        }
    }
}
