//! Random functions: what is written in place of an operator against what the operator does.

use super::{GROWTH, expand, size};
use crate::bytecode::module::ModuleDef;
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
    /// 12 if functions may be called, else 10.
    calls: usize,
}

/// Functions that are called: recursive ones, that end with calls, and make arrays and lists, of constants too.
const CALLED: &str = r#"
func "g" (real, t0, int) -> (real, t0) regs 4 real, 3 int, t0, t0 {
 iconst i1, 1
 ilt i2, i0, i1
 branch i2, done, more
done:
 ret (r0, p0)
more:
 isub i0, i0, i1
 elem r1, p0, i1
 mul r2, r0, r1
 sin r2, r2
 call "g" (r2, p0, i0) -> (r3, p1)
 elem r1, p1, i1
 add r0, r0, r3
 mul r0, r0, r1
 tail_call "h" (r0, r3, p1) }
func "h" (real, real, t0) -> (real, t0) regs 3 real, 2 int, t0, t0, t1 {
 iconst i0, 3
 le i1, r0, r1
 branch i1, made, given
made:
 build p2, i0
 push p2, r1
 tanh r2, r0
 push p2, r2
 push p2, r0
 finish p0, p2
 ret (r1, p0)
given:
 const r2, 0.25
 pack p1 (r2, r2, r2, r2)
 tail_call "i" (r0, p1) }
func "i" (real, t0) -> (real, t0) regs 2 real, 1 int, t0 {
 iconst i0, 2
 elem r1, p0, i0
 add r0, r0, r1
 ret (r0, p0) }
func "list" (real, int) -> (t2) regs 2 real, 3 int, t2 {
 iconst i1, 1
 ilt i2, i0, i1
 branch i2, done, more
done:
 const r1, 2.0
 variant_new p0, 0 ()
 variant_new p0, 1 (r1, p0)
 ret (p0)
more:
 isub i0, i0, i1
 cos r1, r0
 call "list" (r1, i0) -> (p0)
 variant_new p0, 1 (r0, p0)
 ret (p0) }
func "fold" (t2) -> (real) regs 3 real, 1 int, t2 {
 const r0, 1.0
 tail_call "folded" (r0, p0) }
func "folded" (real, t2) -> (real) regs 2 real, 1 int, t2 {
 variant_tag i0, p0
 branch i0, more, done
done:
 ret (r0)
more:
 payload r1, p0, 1, 0
 mul r0, r0, r1
 ppayload p0, p0, 1, 1
 tail_call "folded" (r0, p0) }
"#;

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

    /// An array is changed in place: it gets the first element once more, in front, and some elements become others.
    fn updates(&mut self) {
        let array = self.rng.usize(..2);
        self.line(&format!("build p2, i2\nextend p2, p{array}, i1, i2\nlen i4, p{array}"));
        self.line(&format!("reserve p2, p2, i4\nextend p2, p{array}, i1, i4"));
        for _ in 0..self.rng.usize(1..5) {
            let index = self.rng.usize(1..4);
            match self.rng.usize(..3) {
                0 => {
                    let to = self.rng.usize(3..REALS);
                    self.line(&format!("get r{to}, p2, i{index}"));
                }
                1 => {
                    let from = self.real();
                    self.line(&format!("put p2, i{index}, r{from}"));
                }
                _ => self.scalar(),
            }
        }
        self.line("finish p1, p2");
    }

    /// Straight code, and branches, loops and arrays if there may be some.
    fn code(&mut self, depth: usize, straight: bool) {
        for _ in 0..self.rng.usize(1..8) {
            match self.rng.usize(..if straight || depth == 0 { 7 } else { self.calls }) {
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
                10 => {
                    let (to, a) = (self.rng.usize(3..REALS), self.real());
                    let (array, n) = (self.rng.usize(..2), self.rng.usize(1..4));
                    self.line(&format!("call \"g\" (r{a}, p{array}, i{n}) -> (r{to}, p1)"));
                }
                11 => {
                    let (to, a, n) = (self.rng.usize(3..REALS), self.real(), self.rng.usize(1..4));
                    self.line(&format!("call \"list\" (r{a}, i{n}) -> (p3)\ncall \"fold\" (p3) -> (r{to})"));
                }
                _ if self.rng.bool() => self.updates(),
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

/// What there is in `f`.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// One straight piece.
    Straight,
    /// Loops and branches.
    Loops,
    /// Calls besides.
    Calls,
}

/// A module with `f` and functions that apply operators to it.
fn module(seed: u64, kind: Kind) -> String {
    let (straight, calls) = (kind == Kind::Straight, if kind == Kind::Calls { 12 } else { 10 });
    let mut writer = Writer { rng: Rng::with_seed(seed), text: String::new(), labels: 0, loops: 0, calls };
    let start =
        "const r3, 0.5\nmov r4, r0\nconst r5, -1.5\nmov r6, r1\nmov r7, r2\niconst i1, 0\niconst i2, 1\niconst i3, 3\n";
    writer.code(3, straight);
    let (a, b) = (writer.real(), writer.real());
    let array = !straight && writer.rng.bool();
    let (result, ret, given) = if array { (", t0", ", p1", ", Array Real @t0") } else { ("", "", "") };
    let ints = 5 + writer.loops;
    let mut text =
        "type t0 = array real\ntype t1 = builder real\ntype t2 = variant { \"Nil\" {}, \"Cons\" { real, t2 } }\n"
            .to_owned();
    // An argument that is given back as it is isn't written out.
    let pmov = match (straight, writer.rng.usize(..5)) {
        (true, _) => "",
        (false, 0) => "pmov p1, p0\n",
        (false, _) => "build p2, i3\npush p2, r1\npush p2, r2\npush p2, r3\nfinish p1, p2\n",
    };
    let code = writer.text;
    _ = write!(
        text,
        "func \"f\" (real, t0, int, real, real) -> (real, real{result})\n\
         export (x0 : Real, xs : Array Real @t0, n : Int, x1 : Real, x2 : Real) -> (Real, Real{given})\n\
         regs 8 real, {ints} int, t0, t0, t1, t2 {{\n\
         {start}{pmov}{code}ret (r{a}, r{b}{ret}) }}\n"
    );
    if kind == Kind::Calls {
        text += CALLED;
    }
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

/// All numbers of a value in order, every NaN as one.
fn numbers(value: &Value, into: &mut Vec<f64>) {
    match value {
        Value::Real(x) => into.push(if x.is_nan() { f64::NAN } else { *x }),
        Value::Int(_) | Value::Null => {}
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

/// Value and tangent as a host asks for them.
fn pushed_by_the_host(module: &Module, name: &str, args: &[Value], tangents: &[Value]) -> Result<Vec<f64>, String> {
    let pushed = module.function(name).expect("it is exported").jvp(args, tangents);
    let mut found = Vec::new();
    pushed
        .map(|(value, tangent)| [value, tangent].iter().for_each(|value| numbers(value, &mut found)))
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    Ok(found)
}

/// A tangent of a value.
fn moved(value: &Value, rng: &mut Rng) -> Value {
    match value {
        Value::Real(_) => Value::Real(rng.f64() - 0.5),
        Value::Array(parts) => Value::Array(parts.iter().map(|part| moved(part, rng)).collect()),
        _ => Value::Null,
    }
}

fn agree(found: &Result<Vec<f64>, String>, expected: &Result<Vec<f64>, String>, tolerance: f64) -> bool {
    match (found, expected) {
        (Ok(found), Ok(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(&a, &b)| close(a, b, tolerance))
        }
        (found, expected) => found == expected,
    }
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

fn check(kind: Kind) -> Count {
    let engine = Engine::new(Config { jit: Jit::Off, ..Config::default() });
    let mut count = Count::default();
    for seed in seeds(400) {
        let source = module(seed, kind);
        let def =
            text::parse(&source, "random.dvs").unwrap_or_else(|errors| panic!("seed {seed}: {}\n{source}", errors[0]));
        count.programs += 1;
        count.written_out += usize::from(expand(&def).is_some());
        let in_place = Module::new(&engine, def.clone()).unwrap_or_else(|errors| panic!("{}\n{source}", errors[0]));
        let dynamic = Module::with_operators(&engine, def);
        let (mut rng, mut rng_of_tangents) = (Rng::with_seed(seed), Rng::with_seed(seed));
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
        let pulled = [point.clone(), reals(2)].concat();
        // Values and first tangents have the same bits. A gradient may be summed in another order, and so may whatever
        // is derived of derived code.
        let cases = [
            ("pushed", &pushed, 0.0),
            ("twice", &pushed, 1e-8),
            ("pulled", &pulled, 1e-11),
            ("curved", &pulled, 1e-8),
            ("bent", &pulled, 1e-8),
        ];
        // The same as a host asks for it: first tangents of `f`, and derivatives of derivatives.
        let by_host = cases.iter().map(|&(name, args, _)| (name, args, 1e-8)).chain([("f", &point, 0.0)]);
        for (name, args, tolerance) in by_host {
            if in_place.function(name).is_none() || special && tolerance > 0.0 {
                continue;
            }
            let tangents: Vec<Value> = args.iter().map(|arg| moved(arg, &mut rng_of_tangents)).collect();
            let found = pushed_by_the_host(&in_place, name, args, &tangents);
            let expected = pushed_by_the_host(&dynamic, name, args, &tangents);
            assert!(
                agree(&found, &expected, tolerance),
                "seed {seed}: jvp of {name} {args:?} {tangents:?}\n{source}\nwritten: {found:?}\noperator: {expected:?}"
            );
        }
        for (name, args, tolerance) in cases {
            if in_place.function(name).is_none() || special && tolerance > 0.0 {
                continue;
            }
            let (found, expected) = (run(&in_place, name, args), run(&dynamic, name, args));
            let agree = agree(&found, &expected, tolerance);
            assert!(agree, "seed {seed}: {name} {args:?}\n{source}\nin place: {found:?}\noperator: {expected:?}");
        }
    }
    count
}

#[test]
#[cfg_attr(miri, ignore = "it takes minutes, and there is no unsafe code in what it tests")]
fn straight_functions_have_the_derivatives_that_operators_give() {
    let count = check(Kind::Straight);
    assert_eq!(count.written_out, count.programs);
}

#[test]
#[cfg_attr(miri, ignore = "it takes minutes, and there is no unsafe code in what it tests")]
fn functions_with_loops_and_branches_have_the_tangents_that_operators_give() {
    let count = check(Kind::Loops);
    assert!(4 * count.written_out > 3 * count.programs, "{count:?}");
}

#[test]
#[cfg_attr(miri, ignore = "it takes minutes, and there is no unsafe code in what it tests")]
fn functions_with_calls_have_the_tangents_that_operators_give() {
    let count = check(Kind::Calls);
    assert!(4 * count.written_out > 3 * count.programs, "{count:?}");
}

#[test]
#[cfg_attr(miri, ignore = "it takes minutes, and there is no unsafe code in what it tests")]
fn what_is_written_is_bounded_by_the_module_and_its_lists() {
    // A function of ten parameters that calls itself with others of them constant: 1,023 sets that vary, and in each a
    // list of targets.
    let targets = ["go"; 20_000].join(", ");
    let [params, ones] = ["real", "r1"].map(|each| [each; 10].join(", "));
    let source = format!(
        "func \"g\" ({params}, int) -> (real) regs 13 real, 2 int {{\n\
         switch i0, [done, {targets}], done\n\
         go:\niconst i1, 1\nisub i0, i0, i1\nconst r12, 0.5\n\
         call \"g\" (r1, r2, r3, r4, r5, r6, r7, r8, r9, r0, i0) -> (r10)\n\
         call \"g\" (r12, r1, r2, r3, r4, r5, r6, r7, r8, r9, i0) -> (r11)\n\
         mul r10, r10, r11\nret (r10)\ndone:\nmul r10, r0, r1\nret (r10) }}\n\
         func \"main\" (real) -> (real) regs 8 real, 1 int {{\niconst i0, 2\nconst r1, 1\n\
         jvp \"g\", 0 ({}, i0, {ones}) -> (r3, r4)\nret (r4) }}\n",
        ["r0"; 10].join(", ")
    );
    let def = text::parse(&source, "lists.dvs").unwrap_or_else(|errors| panic!("{}", errors[0]));
    let of = |def: &ModuleDef| def.functions.iter().map(|function| size(&function.body)).sum::<usize>();
    let expanded = expand(&def).map_or(0, |expanded| of(&expanded.def));
    assert!(expanded <= 3 * of(&def) + GROWTH, "{expanded} of {}", of(&def));
}

/// Tangents that are objects in objects: checked, used, and given back by what an operator becomes as by the operator.
#[test]
#[cfg_attr(miri, ignore = "it takes minutes, and there is no unsafe code in what it tests")]
fn tangents_of_objects_in_objects_are_those_of_operators() {
    let rows = "Array (Array Real @t0) @t1";
    let pairs = "Array (Array Real @t0, Real) @t3";
    let matrix = "Tensor (Array Real @t0) @t6";
    let both = format!("Array ({pairs}, {rows}, {matrix}, Int) @t5");
    let source = format!(
        "type t0 = array real\ntype t1 = array t0\ntype t2 = struct {{ t0, real }}\ntype t3 = array t2\n\
         type t4 = struct {{ t3, t1, t6, int }}\ntype t5 = array t4\n\
         type t6 = shaped {{ t0, int, int }}\n\
         func \"f\" (t1, t3, t5) -> (real, t1, t3, t0, t6) regs 4 real, 6 int, \
         t1, t3, t5, t0, t2, t4, t0, t1, t6, t0 {{\n\
         const r0, 0.5\niconst i0, 0\niconst i1, 1\nlen i2, p0\niconst i3, 0\njump outer_test\n\
         outer:\npelem p3, p0, i3\nlen i4, p3\niconst i5, 0\njump inner_test\n\
         inner:\nelem r1, p3, i5\nmul r1, r1, r1\nadd r0, r0, r1\niadd i5, i5, i1\n\
         inner_test:\nilt i0, i5, i4\nbranch i0, inner, inner_end\n\
         inner_end:\niadd i3, i3, i1\n\
         outer_test:\nilt i0, i3, i2\nbranch i0, outer, done\n\
         done:\niconst i0, 0\npelem p4, p1, i0\nfield r1, p4, 1\npfield p6, p4, 0\n\
         pelem p5, p2, i0\npfield p7, p5, 1\npelem p3, p7, i0\nelem r2, p3, i0\n\
         mul r2, r2, r1\nsin r2, r2\nadd r0, r0, r2\npfield p8, p5, 2\npfield p9, p8, 0\nelem r2, p9, i0\n\
         mul r0, r0, r2\nret (r0, p0, p1, p6, p8) }}\n\
         func \"pushed\" (t1, t3, t5, t1, t3, t5) -> (real, t1, t3, t0, t6, real, t1, t3, t0, t6)\n\
         export (a : {rows}, b : {pairs}, c : {both}, da : {rows}, db : {pairs}, dc : {both}) \
         -> (Real, {rows}, {pairs}, Array Real @t0, {matrix}, Real, {rows}, {pairs}, Array Real @t0, {matrix})\n\
         regs 2 real, t1, t3, t5, t1, t3, t5, t1, t3, t0, t6, t1, t3, t0, t6 {{\n\
         jvp \"f\", 0 (p0, p1, p2, p3, p4, p5) -> (r0, p6, p7, p8, p9, r1, p10, p11, p12, p13)\n\
         ret (r0, p6, p7, p8, p9, r1, p10, p11, p12, p13) }}\n"
    );
    let def = text::parse(&source, "nested.dvs").unwrap_or_else(|errors| panic!("{}\n{source}", errors[0]));
    let expanded = expand(&def).expect("the operator is written out");
    let operators =
        |def: &ModuleDef| def.functions.iter().flat_map(|f| &f.body.code).filter(|i| super::is_replaced(i.op)).count();
    assert_eq!((operators(&def), operators(&expanded.def)), (1, 0));
    let engine = Engine::new(Config { jit: Jit::Off, ..Config::default() });
    let in_place = Module::new(&engine, def.clone()).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let dynamic = Module::with_operators(&engine, def);
    let mut outcomes = [0; 2];
    let seeds = seeds(300);
    for seed in seeds.clone() {
        // The shape of the arguments, and that of the tangents, which may differ in one place.
        let made = |wrong: usize| {
            let (mut shapes, mut numbers) = (Rng::with_seed(seed), Rng::with_seed(seed ^ wrong as u64));
            let mut place = 0;
            let mut len = |most: usize| {
                place += 1;
                shapes.usize(1..=most) + usize::from(place == wrong)
            };
            let mut real = || match numbers.usize(..4) {
                0 => Value::Real(-0.0),
                _ => Value::Real(numbers.f64() - 0.5),
            };
            let array =
                |n: usize, element: &mut dyn FnMut() -> Value| Value::Array((0..n).map(|_| element()).collect());
            let n = len(3);
            let a: Vec<Value> = (0..n).map(|_| array(len(3), &mut real)).collect();
            let pairs = |n: usize, len: &mut dyn FnMut(usize) -> usize, real: &mut dyn FnMut() -> Value| {
                Value::Array((0..n).map(|_| Value::Tuple(vec![array(len(3), real), real()])).collect())
            };
            let n = len(3);
            let b = pairs(n, &mut len, &mut real);
            let n = len(2);
            let c: Vec<Value> = (0..n)
                .map(|_| {
                    let n = len(2);
                    let first = pairs(n, &mut len, &mut real);
                    let n = len(2);
                    let rows: Vec<Value> = (0..n).map(|_| array(len(2), &mut real)).collect();
                    let [n, m] = [len(2), len(2)];
                    let matrix = (0..n).map(|_| array(m, &mut real)).collect();
                    Value::Tuple(vec![first, Value::Array(rows), Value::Array(matrix), Value::Int(4)])
                })
                .collect();
            [Value::Array(a), b, Value::Array(c)]
        };
        let wrong = if seed % 3 == 0 { 1 + seed as usize % 25 } else { 0 };
        let args = [made(0), made(if wrong == 0 { 1000 } else { wrong })].concat();
        let (found, expected) = (run(&in_place, "pushed", &args), run(&dynamic, "pushed", &args));
        outcomes[usize::from(expected.is_err())] += 1;
        let bits = |found: &Result<Vec<f64>, String>| {
            found.clone().map(|found| found.into_iter().map(f64::to_bits).collect::<Vec<_>>())
        };
        assert_eq!(bits(&found), bits(&expected), "seed {seed}: {args:?}\nin place: {found:?}\noperator: {expected:?}");
    }
    // Sanitizers run few seeds.
    let tried = seeds.end - seeds.start;
    assert!(outcomes.iter().all(|&count| count > tried / 30), "{outcomes:?}");
}

#[test]
fn types_in_types_are_looked_at_once() {
    // A value of t7 would have 50⁷ arrays; whoever walks through it as a tree doesn't come back.
    let many = |n: usize| [format!("t{}", n - 1).as_str(); 50].join(", ");
    let types: String = (1..8).map(|n| format!("type t{n} = struct {{ {} }}\n", many(n))).collect();
    let source = format!(
        "type t0 = array real\n{types}\
         func \"f\" (real, t7) -> (real, t7) {{\nret (r0, p0) }}\n\
         func \"g\" (t7, real) -> (real, t7) {{\nret (r0, p0) }}\n\
         func \"main\" (real, t7) -> (real) regs 3 real, t7, t7, t7 {{\n\
         jvp \"f\", 0 (r0, p0, r0, p0) -> (r1, p1, r2, p2)\n\
         jvp \"g\", 1 (p0, r0, r0) -> (r1, p1, r2, p2)\nret (r2) }}\n"
    )
    .replace("(real, t7) {", "(real, t7) regs 1 real, t7 {");
    let def = text::parse(&source, "types.dvs").unwrap_or_else(|errors| panic!("{}\n{source}", errors[0]));
    assert!(expand(&def).is_none(), "nothing says what shapes these have");
}
