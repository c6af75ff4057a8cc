//! Loops whose rounds native code computes in pairs: what they give is what the interpreter gives, to the last bit,
//! whatever the arrays hold, however long they are, and if several of them are one.

use dualvm::{Config, Engine, Function, Jit, Module, Value};
use fastrand::Rng;

const PROGRAM: &str = "
    -- What is used twice is made.
    def add_up (c : Array Real) : Real = (loop s = 0.25 for ci in c do s * 0.5 + ci) - 3 * sum c
    def maps (a : Array Real) (b : Array Real) : Real =
      let c = [| a[i] * b[i] + 2 * a[i] - b[i] / 3 for i < length a |] in
      let d = [| sqrt (abs c[i]) * c[i] - a[i] for i < length c |] in
      add_up d + add_up [| -c[i] * d[i] for i < length c |]
    def exponentials (a : Array Real) (b : Array Real) : Real =
      let c = [| exp (a[i] * b[i]) for i < length a |] in
      add_up c + (loop s = 0.0 for i < length a do s + exp (a[i] - b[0]))
    def hyperbolic (a : Array Real) (b : Array Real) : Real =
      let c = [| tanh (a[i] * b[i]) for i < length a |] in
      add_up c + (loop s = 0.0 for i < length a do s + b[i] * tanh (20 * a[i]))
    def logistic (a : Array Real) (b : Array Real) : Real =
      let c = [| sigmoid (3 * a[i] * b[i]) for i < length a |] in
      add_up c + (loop s = 0.0 for i < length a do s + b[i] * sigmoid a[i])
    def aliased (a : Array Real) (b : Array Real) : Real = maps a a + maps a b * maps b a
    def neighbours (a : Array Real) (b : Array Real) : Real =
      let c = [| a[i] * a[i + 1] + b[i] for i < length a - 1 |] in
      let d = [| (if i == 0 then a[0] else c[i - 1] * a[i]) + c[i] for i < length c |] in
      add_up d - add_up [| d[i] * d[i] for i < length d |]
    def dot (a : Array Real) (b : Array Real) : Real = loop s = 0.0 for i < length a do s + a[i] * b[i]
    def dots (a : Array Real) (b : Array Real) : Real =
      fst (loop (s, t) = (0.0, 1.0) for i < length a do (s + a[i] * t, t + b[i] * (a[i] - 2)))
    -- p and q may be one array, whose adjoints others have been added to before.
    def one_or_two (a : Array Real) (b : Array Real) : Real =
      let (p, q) = (if a[0] > 0 then a else b, if b[0] > 0 then a else b) in
      let c = [| q[i + 1] * p[i] + p[i] for i < length a - 1 |] in add_up c + dot a b
    def steps (a : Array Real) (b : Array Real) : Real =
      let y = loop y = a for k < 3 do [| y[i] + 0.5 * (b[i] - y[i]) * to_real k for i < length y |] in add_up y
    def rows (a : Array Real) (b : Array Real) : Real =
      let m = [| [| a[i] * b[j] for j < length b |] for i < length a |] in
      loop s = 0.0 for row in m do s + (loop t = 1.0 for i < length row do t + row[i] * b[i])
    def extremes (a : Array Real) (b : Array Real) : Real =
      let c = [| max (min a[i] b[i]) 0 * a[i] for i < length a |] in add_up c
    def backwards (a : Array Real) (b : Array Real) : Real =
      let n = length a in let c = [| a[n - 1 - i] * b[i] for i < n |] in add_up c
    def nested (a : Array Real) (b : Array Real) : Real =
      loop s = dot a b for k < 3 do s * 0.5 + one_or_two a b * to_real k + exponentials b a
    -- x and y share adjoints with a: one further on, and at the same places.
    def shifted (a : Array Real) (b : Array Real) : Real =
      let x = [| a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10] |] in
      let y = [| a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9] |] in
      let c = [| x[i] * a[i] * b[i] + a[i + 1] for i < length x |] in
      let s = loop s = 0.0 for i < length x do s + x[i] * a[i] * b[i] in
      let t = loop s = 0.0 for i < length x do s + y[i] * x[i] * b[i] - a[i] * y[i] * 0.7 in
      s + t + add_up c + (loop s = 0.0 for i < length a do s + a[i] * a[i] * 0.3)
    def shifted_in_a_nest (a : Array Real) (b : Array Real) : Real =
      let x = [| a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10] |] in
      let s = loop s = 0.0 for k < 3 do
        let c = [| x[i] * a[i] * b[i] for i < length x |] in
        s * 0.5 + (loop t = 0.0 for i < length x do t + x[i] * a[i] * b[i] * 0.1) * to_real k + add_up c in
      s + (loop s = 0.0 for i < length a do s + a[i] * a[i] * 0.3)
    -- Arrays of the task that forks.
    def in_tasks (a : Array Real) (b : Array Real) : Real =
      let m = pbuild 3 (\\k -> maps a b * to_real k + exponentials b a) in sum m * dot b a
    def both (a : Array Real) (b : Array Real) : Array Real = [| a[i] * b[i] - exp a[i] for i < length a |]
    def squares_in (x : Real) (a : Array Real) : Real = add_up [| x * a[i] * a[i] for i < length a |]
    def tangents (a : Array Real) (b : Array Real) : Real =
      snd (jvp (\\x -> squares_in x a + add_up [| x / (b[i] + x) for i < length b |]) 0.5 1.0)
";

const NAMES: [&str; 17] = [
    "maps",
    "exponentials",
    "hyperbolic",
    "logistic",
    "aliased",
    "neighbours",
    "dot",
    "dots",
    "steps",
    "rows",
    "extremes",
    "backwards",
    "one_or_two",
    "nested",
    "in_tasks",
    "both",
    "tangents",
];

const SPECIAL: [f64; 14] =
    [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-320, 709.5, -745.2, 1e308, -750.0, 0.55, 1.1];

fn engines() -> [Engine; 2] {
    [(Jit::Off, 1), (Jit::Always, 2)].map(|how| {
        let mut config = Config::default();
        (config.jit, config.threads) = how;
        Engine::new(config)
    })
}

fn modules() -> [Module; 2] {
    engines()
        .map(|engine| Module::from_source(&engine, "pairs.dual", PROGRAM).unwrap_or_else(|error| panic!("{error}")))
}

/// What a function gives, and its gradient or Jacobian with respect to some of its parameters. As text, reals are
/// different if they differ in a bit, but for those of NaN.
fn outcome(function: &Function, args: &[Value], wrt: &[&str]) -> String {
    let value = function.call(args).unwrap_or_else(|error| panic!("{}: {error}", function.name()));
    let function = function.wrt(wrt).unwrap();
    let derivative = match &value {
        Value::Real(_) => format!("{:?}", function.value_and_grad(args).unwrap()),
        _ => format!("{:?}", function.jacobian(args).unwrap().rows),
    };
    format!("{value:?}, {derivative}")
}

fn check(modules: &[Module; 2], name: &str, arrays: [&[f64]; 2]) {
    let args = arrays.map(|array| Value::Array(array.iter().copied().map(Value::Real).collect()));
    for wrt in [&["a", "b"][..], &["a"], &["b"]] {
        let [interpreted, native] =
            modules.each_ref().map(|module| outcome(&module.function(name).unwrap(), &args, wrt));
        assert_eq!(interpreted, native, "{name} by {wrt:?} of {arrays:?}");
    }
}

fn arrays(rng: &mut Rng, len: usize) -> [Vec<f64>; 2] {
    [0; 2].map(|_| (0..len).map(|_| rng.f64() * 4.0 - 2.0).collect())
}

#[test]
fn lengths_that_are_no_multiples_of_groups() {
    let modules = modules();
    let mut rng = Rng::with_seed(1);
    for len in (1..=14).chain([31, 64]) {
        let [a, b] = arrays(&mut rng, len);
        NAMES.iter().for_each(|name| check(&modules, name, [&a, &b]));
    }
}

#[test]
fn numbers_that_are_not_finite_at_each_place() {
    let modules = modules();
    let mut rng = Rng::with_seed(2);
    for place in 0..9 {
        for special in SPECIAL {
            let mut arrays = arrays(&mut rng, 9);
            arrays[rng.usize(..2)][place] = special;
            NAMES.iter().for_each(|name| check(&modules, name, [&arrays[0], &arrays[1]]));
        }
    }
}

#[test]
fn many_numbers_that_are_not_finite() {
    let modules = modules();
    let mut rng = Rng::with_seed(3);
    for _ in 0..60 {
        let len = rng.usize(1..24);
        let mut real = || if rng.u8(..4) == 0 { SPECIAL[rng.usize(..SPECIAL.len())] } else { rng.f64() * 3.0 - 1.5 };
        let [a, b] = [0; 2].map(|_| (0..len).map(|_| real()).collect::<Vec<f64>>());
        NAMES.iter().for_each(|name| check(&modules, name, [&a, &b]));
    }
}

/// Records of more iterations aren't swept at one go, nor are those whose entries don't fit into one part of the tape.
#[test]
fn loops_that_are_swept_in_several_goes() {
    let modules = modules();
    let mut rng = Rng::with_seed(5);
    for len in [16_383, 16_384, 16_385, 40_000] {
        for special in [0.5, 0.0, f64::INFINITY] {
            let mut arrays = arrays(&mut rng, len);
            // Each of the parts may have such a number, or none.
            for _ in 0..2 {
                arrays[rng.usize(..2)][rng.usize(..len)] = special;
            }
            ["dots", "hyperbolic", "in_tasks"].iter().for_each(|name| check(&modules, name, [&arrays[0], &arrays[1]]));
        }
    }
}

#[test]
fn arrays_that_share_elements() {
    let modules = modules();
    let mut rng = Rng::with_seed(4);
    for _ in 0..40 {
        let len = rng.usize(11..15);
        let [a, b] = arrays(&mut rng, len);
        ["shifted", "shifted_in_a_nest"].iter().for_each(|name| check(&modules, name, [&a, &b]));
    }
}

#[test]
fn a_constant_may_be_written_again_in_each_round() {
    // i4 is a part of an index before it is written what it holds anyway.
    let program = "type t0 = array real
        func \"f\" (t0, t0) -> (real) export (a : Array Real @t0, b : Array Real @t0) -> Real
        regs 6 real, 5 int, t0, t0 {
        iconst i0, 1\niconst i4, 1\nconst r1, 2.0\nconst r2, 3.0\nconst r0, 0.0
        iconst i1, 0\nlen i2, p1\nisub i2, i2, i0\nilt i3, i1, i2\nbranch i3, round, done
        round:
        iadd i3, i1, i4\nelem r3, p0, i3\nelem r4, p1, i1\nmul r3, r3, r4\nelem r5, p0, i1\nmul r5, r1, r5
        add r5, r3, r5\ndiv r4, r4, r2\nsub r4, r5, r4\nadd r0, r0, r4\niconst i4, 1
        iadd i1, i1, i0\nilt i3, i1, i2\nbranch i3, round, done
        done:
        ret (r0) }";
    let modules = engines().map(|engine| {
        Module::from_assembly(&engine, "constant.dvs", program).unwrap_or_else(|error| panic!("{error}"))
    });
    let numbers: Vec<f64> = (0..11).map(|n| f64::from(n) * 0.3 - 1.0).collect();
    check(&modules, "f", [&numbers, &numbers[1..]]);
    assert!(!modules[1].function("f").unwrap().compiled().is_empty());
}
