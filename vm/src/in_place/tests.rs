//! Random functions: what is written in place of an operator against what the operator does.

use super::expand;
use crate::bytecode::text;
use crate::derivation::random_pieces::seeds;
use crate::embedding::engine::{Config, Engine, Jit, Module};
use crate::embedding::value::Value;
use fastrand::Rng;
use std::fmt::Write as _;

/// Writes a function `f` of a captured real, two reals, an array and an integer.
struct Writer {
    rng: Rng,
    text: String,
    labels: usize,
    loops: usize,
}

const BINARY: [&str; 9] = ["add", "sub", "mul", "div", "min", "max", "smul", "atan2", "hypot"];
const UNARY: [&str; 12] = ["neg", "abs", "sin", "cos", "exp", "sqrt", "tanh", "mov", "detach", "sign", "atan", "log"];
/// Reals that hold numbers: the parameters, and those that are written.
const REALS: usize = 8;

impl Writer {
    fn real(&mut self) -> usize {
        self.rng.usize(..REALS)
    }

    fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn scalar(&mut self) {
        let (to, a, b, c) = (self.rng.usize(3..REALS), self.real(), self.real(), self.real());
        let line = match self.rng.usize(..12) {
            0..5 => format!("{} r{to}, r{a}, r{b}", self.rng.choice(BINARY).expect("there are some")),
            5..8 => format!("{} r{to}, r{a}", self.rng.choice(UNARY).expect("there are some")),
            8 => format!("fma r{to}, r{a}, r{b}, r{c}"),
            9 => format!("powi r{to}, r{a}, i{}", self.rng.usize(..4)),
            10 => format!("lt i4, r{a}, r{b}\nselect r{to}, i4, r{c}, r{a}"),
            _ => format!("const r{to}, {:?}", self.rng.choice([0.0, 1.0, -1.0, 0.5, 3.0]).expect("there are some")),
        };
        self.line(&line);
    }

    fn load(&mut self) {
        let (to, index, array) = (self.rng.usize(3..REALS), self.rng.usize(1..4), self.rng.usize(..2));
        self.line(&format!("elem r{to}, p{array}, i{index}"));
    }

    /// Straight code, and branches, loops and arrays if there may be some.
    fn code(&mut self, depth: usize, straight: bool) {
        for _ in 0..self.rng.usize(1..8) {
            match self.rng.usize(..if straight || depth == 0 { 7 } else { 10 }) {
                0..5 => self.scalar(),
                5 | 6 if straight => {
                    let (to, index) = (self.rng.usize(3..REALS), self.rng.usize(1..4));
                    self.line(&format!("elem r{to}, p0, i{index}"));
                }
                5 | 6 => self.load(),
                7 => {
                    let (a, b) = (self.real(), self.real());
                    let [then, other, end] = [(); 3].map(|()| self.label());
                    self.line(&format!("le i4, r{a}, r{b}\nbranch i4, {then}, {other}\n{then}:"));
                    self.code(depth - 1, false);
                    self.line(&format!("jump {end}\n{other}:"));
                    self.code(depth - 1, false);
                    self.line(&format!("{end}:"));
                }
                8 => {
                    let (counter, head, end) = (5 + self.loops, self.label(), self.label());
                    self.loops += 1;
                    self.line(&format!("iconst i{counter}, 0\n{head}:"));
                    self.code(depth - 1, false);
                    self.line(&format!("iadd i{counter}, i{counter}, i2\nilt i4, i{counter}, i3"));
                    self.line(&format!("branch i4, {head}, {end}\n{end}:"));
                }
                _ => {
                    let (a, b, c) = (self.real(), self.real(), self.real());
                    self.line("build p2, i3");
                    self.line(&format!("push p2, r{a}"));
                    self.scalar();
                    self.line(&format!("push p2, r{b}\npush p2, r{c}\nfinish p1, p2"));
                }
            }
        }
    }
}

/// A module with `f` and functions that apply operators to it.
fn module(seed: u64, straight: bool) -> String {
    let mut writer = Writer { rng: Rng::with_seed(seed), text: String::new(), labels: 0, loops: 0 };
    let start =
        "const r3, 0.5\nmov r4, r0\nconst r5, -1.5\nmov r6, r1\nmov r7, r2\niconst i1, 0\niconst i2, 1\niconst i3, 3\n";
    writer.code(3, straight);
    let (a, b) = (writer.real(), writer.real());
    let array = !straight && writer.rng.bool();
    let (result, ret) = if array { (", t0", ", p1") } else { ("", "") };
    let ints = 5 + writer.loops;
    let mut text = "type t0 = array real\ntype t1 = builder real\n".to_owned();
    // An argument that is given back as it is isn't written out.
    let pmov = match (straight, writer.rng.usize(..5)) {
        (true, _) => "",
        (false, 0) => "pmov p1, p0\n",
        (false, _) => "build p2, i3\npush p2, r1\npush p2, r2\npush p2, r3\nfinish p1, p2\n",
    };
    let code = writer.text;
    _ = write!(
        text,
        "func \"f\" (real, t0, int, real, real) -> (real, real{result}) regs 8 real, {ints} int, t0, t0, t1 {{\n\
         {start}{pmov}{code}ret (r{a}, r{b}{ret}) }}\n"
    );
    let x = "x0 : Real, xs : Array Real @t0, n : Int, x1 : Real, x2 : Real";
    let (more, given) =
        if array { (", Array Real @t0, Real, Real, Array Real @t0", ", t0") } else { (", Real, Real", "") };
    let (value, tangent) = if array { (", p2", ", p3") } else { ("", "") };
    _ = write!(
        text,
        "func \"pushed\" (real, t0, int, real, real, t0, real, real) -> (real, real{given}, real, real{given})\n\
         export ({x}, ts : Array Real @t0, t1 : Real, t2 : Real) -> (Real, Real{more})\n\
         regs 9 real, 1 int, t0, t0, t0, t0 {{\n\
         jvp \"f\", 1 (r0, p0, i0, r1, r2, p1, r3, r4) -> (r5, r6{value}, r7, r8{tangent})\n\
         ret (r5, r6{value}, r7, r8{tangent}) }}\n"
    );
    // The tangent of the first tangent, with respect to everything.
    _ = write!(
        text,
        "func \"first\" (real, t0, int, real, real, t0, real, real) -> (real) regs 9 real, 1 int, t0, t0, t0, t0 {{\n\
         jvp \"f\", 1 (r0, p0, i0, r1, r2, p1, r3, r4) -> (r5, r6{value}, r7, r8{tangent})\n\
         ret (r7) }}\n\
         func \"twice\" (real, t0, int, real, real, t0, real, real) -> (real, real)\n\
         export ({x}, ts : Array Real @t0, t1 : Real, t2 : Real) -> (Real, Real)\n\
         regs 8 real, 1 int, t0, t0 {{\n\
         const r5, 1.0\n\
         jvp \"first\", 0 (r0, p0, i0, r1, r2, p1, r3, r4, r3, p1, r5, r4, p0, r4, r5) -> (r6, r7)\n\
         ret (r6, r7) }}\n"
    );
    if !array {
        // With respect to the array, too, where there is one piece; else to two reals, in lanes.
        let (captures, slope, of_array, with_array, there) =
            if straight { (1, ", p1", ", t0", ", Array Real @t0", "p1, ") } else { (2, "", "", "", "") };
        let array = slope;
        _ = write!(
            text,
            "func \"pulled\" (real, t0, int, real, real, real, real) -> (real, real{of_array}, real, real)\n\
             export ({x}, w1 : Real, w2 : Real) -> (Real, Real{with_array}, Real, Real)\n\
             regs 9 real, 1 int, t0, t0 {{\n\
             vjp \"f\", {captures} (r0, p0, i0, r1, r2, r3, r4) -> (r5, r6, {there}r7, r8)\n\
             ret (r5, r6{array}, r7, r8) }}\n\
             func \"slope\" (real, t0, int, real, real, real, real) -> (real) regs 9 real, 1 int, t0, t0 {{\n\
             vjp \"f\", {captures} (r0, p0, i0, r1, r2, r3, r4) -> (r5, r6, {there}r7, r8)\n\
             ret (r7) }}\n\
             func \"curved\" (real, t0, int, real, real, real, real) -> (real, real)\n\
             export ({x}, w1 : Real, w2 : Real) -> (Real, Real)\n\
             regs 8 real, 1 int, t0, t0 {{\n\
             const r5, 1.0\n\
             jvp \"slope\", 0 (r0, p0, i0, r1, r2, r3, r4, r3, p0, r5, r4, r5, r4) -> (r6, r7)\n\
             ret (r6, r7) }}\n\
             func \"bent\" (real, t0, int, real, real, real, real) -> (real, real, real)\n\
             export ({x}, w1 : Real, w2 : Real) -> (Real, Real, Real)\n\
             regs 9 real, 1 int, t0, t0 {{\n\
             vjp \"slope\", 3 (r0, p0, i0, r1, r2, r3, r4, r0) -> (r5, r6, r7, r8, r3)\n\
             ret (r5, r6, r7) }}\n"
        );
    }
    text
}

/// All numbers of a value in order, -0.0 as 0.0 and every NaN as one.
fn numbers(value: &Value, into: &mut Vec<f64>) {
    match value {
        Value::Real(x) => into.push(if x.is_nan() { f64::NAN } else { x + 0.0 }),
        Value::Tuple(parts) | Value::Array(parts) => parts.iter().for_each(|part| numbers(part, into)),
        Value::Reals(parts) => parts.iter().for_each(|&part| numbers(&Value::Real(part), into)),
        other => panic!("{other:?}"),
    }
}

fn run(module: &Module, name: &str, args: &[Value]) -> Result<Vec<f64>, String> {
    let value = module.function(name).expect("it is exported").call(args);
    let mut found = Vec::new();
    value.map(|value| numbers(&value, &mut found)).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().to_owned()
    })?;
    Ok(found)
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    a.to_bits() == b.to_bits() || (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs()))
}

/// How often each function was replaced, of all functions.
#[derive(Default, Debug)]
struct Count {
    written_out: usize,
    programs: usize,
}

fn check(straight: bool) -> Count {
    let engine = Engine::new(Config { jit: Jit::Off, ..Config::default() });
    let mut count = Count::default();
    for seed in seeds(400) {
        let source = module(seed, straight);
        let def =
            text::parse(&source, "random.dvs").unwrap_or_else(|errors| panic!("seed {seed}: {}\n{source}", errors[0]));
        count.programs += 1;
        count.written_out += usize::from(expand(&def).is_some());
        let in_place = Module::new(&engine, def.clone()).unwrap_or_else(|errors| panic!("{}\n{source}", errors[0]));
        let dynamic = Module::with_operators(&engine, def);
        let mut rng = Rng::with_seed(seed);
        let special = rng.usize(..4) == 0;
        let mut real = || match special {
            true => rng.choice([0.0, -0.0, 1.0, f64::INFINITY, f64::NAN]).expect("there are some"),
            false => 0.1 + 2.0 * rng.f64(),
        };
        let mut array = |len: usize| Value::Array((0..len).map(|_| Value::Real(real())).collect());
        let (xs, ts) = (array(4), array(if seed % 16 == 3 { 3 } else { 4 }));
        let mut reals = |n: usize| (0..n).map(|_| Value::Real(real())).collect::<Vec<_>>();
        let point = [reals(1), vec![xs, Value::Int(2)], reals(2)].concat();
        let pushed = [point.clone(), vec![ts], reals(2)].concat();
        let pulled = [point, reals(2)].concat();
        // Values and first tangents have the same bits. A gradient may be summed in another order, and so may whatever
        // is derived of derived code.
        let cases = [
            ("pushed", &pushed, 0.0),
            ("twice", &pushed, 1e-8),
            ("pulled", &pulled, 1e-11),
            ("curved", &pulled, 1e-8),
            ("bent", &pulled, 1e-8),
        ];
        for (name, args, tolerance) in cases {
            if in_place.function(name).is_none() || special && tolerance > 0.0 {
                continue;
            }
            let (found, expected) = (run(&in_place, name, args), run(&dynamic, name, args));
            let agree = match (&found, &expected) {
                (Ok(found), Ok(expected)) => {
                    found.len() == expected.len() && found.iter().zip(expected).all(|(&a, &b)| close(a, b, tolerance))
                }
                (found, expected) => found == expected,
            };
            assert!(agree, "seed {seed}: {name} {args:?}\n{source}\nin place: {found:?}\noperator: {expected:?}");
        }
    }
    count
}

#[test]
#[cfg_attr(miri, ignore = "it takes minutes, and there is no unsafe code in what it tests")]
fn straight_functions_have_the_derivatives_that_operators_give() {
    let count = check(true);
    assert_eq!(count.written_out, count.programs);
}

#[test]
#[cfg_attr(miri, ignore = "it takes minutes, and there is no unsafe code in what it tests")]
fn functions_with_loops_and_branches_have_the_tangents_that_operators_give() {
    let count = check(false);
    assert!(4 * count.written_out > 3 * count.programs, "{count:?}");
}
