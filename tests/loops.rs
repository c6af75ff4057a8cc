//! Loops that are recorded as one, as far as it takes programs that are made: random bodies, and records of every
//! length; and what is measured and compared: fuel, and other programs that mean the same. What else there is to say
//! of loops is in `tests/filetests/loops`.
//!
//! `DUALVM_SEEDS=n` tries n random loop bodies instead of 400, `DUALVM_FIRST_SEED=s` begins at another one.

mod support;

use dualvm_vm::engine::{CallOptions, Function, Gradient, Limits, Stats};
use dualvm_vm::module::ModuleDef;
use dualvm_vm::trap::Limit;
use dualvm_vm::value::Value;
use fastrand::Rng;
use support::numbers::{Forward, Taped, TapedGradient};
use support::reference::{Number, Stop, Val, run};
use support::{assemble, assert_limit, export_all, flatten, from_environment, load, same, trap, with_jumps};

/// A slab of tape.
const SLAB: u64 = 64 << 10;

/// Where a loop has its test.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Form {
    /// Once before the loop, and at the end of each iteration.
    Rotated,
    /// At the head; the body jumps there.
    Head,
}

/// Makes p1 an array of eight integers.
const KS: &str = "iconst i4, 3\n iconst i5, -1\n iconst i6, -4\n iconst i7, 5\n iconst i8, -9\n iconst i9, 2
    pack p1 (i4, i5, i6, i5, i7, i8, i9, i4)";

/// A function of two reals, an array of reals and a number of iterations that runs `body` so often. The counter is i1,
/// i2 is 1, i3 the condition, p1 an array of integers; free are r2 to r11, i4 to i11 and, outside of bodies that are
/// recorded as one, p2; p3 is for a builder.
fn source(form: Form, setup: &str, body: &str, after: &str) -> String {
    let (test, end) = match form {
        Form::Rotated => ("", "ilt i3, i1, i0\n branch i3, body, done"),
        Form::Head => ("jump test\n test:", "jump test"),
    };
    format!(
        "type t0 = array real\n type t1 = array int\n type t2 = builder real
         func f0 \"f\" (real, real, t0, int) -> (real)\n regs 12 real, 12 int, t0, t1, t0, t2\n{{
         {KS}\n iconst i1, 0\n iconst i2, 1\n {setup}\n {test}\n ilt i3, i1, i0\n branch i3, body, done\n body:\n {body}
         iadd i1, i1, i2\n {end}\n done:\n {after}\n ret (r0)\n}}"
    )
}

struct Case {
    def: ModuleDef,
    args: Vec<Value>,
}

impl Case {
    fn new(source: &str, a: f64, b: f64, xs: &[f64], n: i64) -> Case {
        let mut def = assemble(source);
        export_all(&mut def);
        let args = vec![Value::Real(a), Value::Real(b), Value::Reals(xs.to_vec()), Value::Int(n)];
        Case { def, args }
    }

    fn function(&self) -> Function {
        load(self.def.clone()).function("f").expect("`f` is exported")
    }

    fn reference<N: Number>(&self, mut make: impl FnMut(usize, f64) -> N) -> Result<(N, u64), Stop> {
        let mut next = 0;
        let mut real = |x: f64| {
            next += 1;
            make(next - 1, x)
        };
        let args = self.args.iter().map(|arg| match arg {
            Value::Real(x) => Val::Real(real(*x)),
            Value::Int(n) => Val::Int(*n),
            Value::Reals(xs) => Val::reals(xs.iter().map(|&x| real(x)).collect::<Vec<_>>()),
            other => panic!("no case has {other:?}"),
        });
        let args = args.collect();
        let main = self.def.function("f").expect("`f` is there").0.index();
        let (results, steps) = run(&self.def, main, args, 1 << 20)?;
        Ok((results[0].real().clone(), steps))
    }

    fn grad(&self) -> Gradient {
        let f = self.function();
        f.value_and_grad_with(&self.args, &CallOptions::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Checks value, fuel and gradient against the reference.
    fn check(&self) -> Result<Stats, String> {
        let (value, steps) = self.reference::<f64>(|_, x| x).map_err(|stop| format!("{stop:?}"))?;
        let (found, stats) =
            self.function().call_with(&self.args, &CallOptions::default()).map_err(|error| error.to_string())?;
        if !matches!(found, Value::Real(found) if same(found, value)) || stats.instructions != steps {
            return Err(format!("expected {value:e} in {steps} steps, found {found:?} in {}", stats.instructions));
        }
        let recorded = self
            .function()
            .value_and_grad_with(&self.args, &CallOptions::default())
            .map_err(|error| error.to_string())?;
        if !same(recorded.value, value) {
            return Err(format!("expected {value:e}, found {:e} while recording", recorded.value));
        }
        let found = flatten(&recorded.gradient);
        Taped::begin();
        let (result, _) = self.reference(|_, x| Taped::input(x)).map_err(|stop| format!("{stop:?}"))?;
        let taped = result.gradient(found.len());
        if taped.singular || taped.largest > 1e250 {
            return Ok(recorded.stats);
        }
        compare("reverse mode", &taped.gradient, &found, &taped)?;
        for (n, &found) in found.iter().enumerate() {
            let (result, _) = self
                .reference(|at, primal| Forward { primal, tangent: f64::from(u8::from(at == n)) })
                .map_err(|stop| format!("{stop:?}"))?;
            let scale = taped.magnitude[n];
            if (result.tangent - found).abs() > 1e-10 * scale + 1e-290 {
                return Err(format!("forward mode, derivative {n}: expected {:e}, found {found:e}", result.tangent));
            }
        }
        Ok(recorded.stats)
    }
}

fn compare(what: &str, expected: &[f64], found: &[f64], taped: &TapedGradient) -> Result<(), String> {
    for (n, (&expected, &found)) in expected.iter().zip(found).enumerate() {
        let scale = taped.magnitude[n];
        if (expected - found).abs() > 1e-10 * scale + 1e-290 {
            return Err(format!("{what}, derivative {n}: expected {expected:e}, found {found:e} (terms of {scale:e})"));
        }
    }
    Ok(())
}

const XS: [f64; 8] = [0.5, -1.25, 2.0, 0.75, -0.3, 1.5, 0.9, -2.5];

#[test]
fn every_length_of_a_record_fits_its_slabs() {
    // Around the end of a slab, where the entries, a strip's end or the record's end are the first that doesn't fit;
    // another record before the loop shifts them.
    let after = "sin r0, r0";
    for setup in ["", "sin r0, r0", "sin r0, r0\n mul r1, r0, r1"] {
        for (body, bytes) in [("sin r2, r0\n fma r0, r2, r1, r0", 16), ("sin r0, r0", 8)] {
            let limit = SLAB as i64 / bytes;
            for n in (limit - 12)..(limit + 3) {
                let case = Case::new(&source(Form::Rotated, setup, body, after), 0.9, 1e-4, &[], n);
                if let Err(error) = case.check() {
                    panic!("{n} iterations: {error}");
                }
            }
        }
    }
}

#[test]
fn fuel_runs_out_where_it_does_without_recording() {
    for form in [Form::Head, Form::Rotated] {
        let case = Case::new(&source(form, "", "sin r0, r0", ""), 1.5, 1.0, &XS, 100);
        let f = case.function();
        let needed = f.call_with(&case.args, &CallOptions::default()).unwrap().1.instructions;
        for fuel in (0..needed).step_by(7).chain([needed - 1]) {
            let options = CallOptions::with_limits(Limits { fuel, ..Limits::default() });
            let plain = assert_limit(f.call_with(&case.args, &options), Limit::Fuel);
            let recording = assert_limit(f.value_and_grad_with(&case.args, &options), Limit::Fuel);
            assert_eq!(recording.to_string(), plain.to_string(), "{fuel}");
        }
        let whole = f.value_and_grad_with(&case.args, &CallOptions::default()).unwrap().stats.instructions;
        let options = |fuel| CallOptions::with_limits(Limits { fuel, ..Limits::default() });
        f.value_and_grad_with(&case.args, &options(whole)).unwrap();
        assert_limit(f.value_and_grad_with(&case.args, &options(whole - 1)), Limit::Fuel);
    }
}

#[test]
fn the_sweep_of_a_loop_is_charged_by_its_iterations() {
    let at = |n| {
        let case = Case::new(&source(Form::Rotated, "const r2, 0.5", "mul r0, r0, r2", ""), 1.0, 1.0, &XS, n);
        let forward = case.function().call_with(&case.args, &CallOptions::default()).unwrap().1.instructions;
        case.grad().stats.instructions - forward
    };
    assert_eq!(at(1001) - at(1), 1000 * (at(2) - at(1)));
    assert!(at(2) > at(1));
}

#[test]
fn a_loop_of_more_than_64_inputs_is_recorded_as_a_region() {
    let regs = |n: usize| (0..n).map(|k| format!("elem r{}, p0, i5\n iadd i5, i5, i2\n", k + 2)).collect::<String>();
    let text = |n: usize| {
        let sums: String = (0..n).map(|k| format!("mul r1, r1, r{}\n", k + 2)).collect();
        let body = format!("iconst i5, 0\n {}{sums} add r0, r0, r1", regs(n));
        source(Form::Rotated, "", &body, "").replace("regs 12 real", &format!("regs {} real", n + 2))
    };
    let xs: Vec<f64> = (0..80).map(|k| 1.0 + f64::from(k) / 100.0).collect();
    for n in [60, 70] {
        let stats = Case::new(&text(n), 0.5, 0.9, &xs, 4).check().unwrap();
        assert_eq!(stats.records, 1, "{stats:?}");
    }
}

#[test]
fn results_do_not_depend_on_extra_jumps() {
    let body = "elem r2, p0, i1\n sin r3, r2\n fma r0, r3, r1, r0\n mul r1, r1, r3";
    let case = Case::new(&source(Form::Rotated, "", body, ""), 0.7, 1.1, &XS, 8);
    let expected = case.grad();
    let mut rng = Rng::with_seed(3);
    for _ in 0..20 {
        let def = with_jumps(&case.def, |_, _| rng.usize(..3) == 0);
        let found = Case { def, args: case.args.clone() }.grad();
        assert_eq!((found.value, found.gradient), (expected.value, expected.gradient.clone()));
        assert_eq!(found.stats.records, 1);
    }
}

/// Weighs the elements of p2 by 1, 2, 3, …
const WEIGH: &str = "iconst i5, 0\n const r4, 1.0\n len i6, p2\n ilt i7, i5, i6\n branch i7, weigh, weighed\n weigh:
    elem r3, p2, i5\n iadd i5, i5, i2\n to_real r5, i5\n fma r0, r3, r5, r0\n ilt i7, i5, i6
    branch i7, weigh, weighed\n weighed:";

/// A random loop body and what stands around it.
struct Body {
    setup: String,
    body: String,
    after: String,
    iterations: i64,
    /// An outer loop runs all of it again so often.
    rounds: i64,
    form: Form,
}

fn random_body(rng: &mut Rng) -> Body {
    let mut setup = String::from("iconst i4, 7\n iconst i5, 3\n");
    for reg in 2..12 {
        setup += &match rng.u8(..4) {
            0 => format!("const r{reg}, {:.2}\n", rng.f64() * 4.0 - 2.0),
            1 => format!("mov r{reg}, r{}\n", rng.u8(..2)),
            2 => format!("iconst i11, {}\n elem r{reg}, p0, i11\n", rng.u8(..8)),
            _ => format!("sub r{reg}, r0, r1\n"),
        };
    }
    for reg in 6..12 {
        setup += &format!("iconst i{reg}, {}\n", rng.i8(..));
    }
    let len = rng.usize(1..16);
    // Few registers, so that values meet; r2, and i4 to i6, are not written.
    let reals = rng.u8(3..12);
    let iterations = [0, 1, 2, 3, 5, 9, 17][rng.usize(..7)];
    let body: String = (0..len).map(|_| random_instruction(rng, reals, iterations) + "\n").collect();
    let mut after = String::new();
    let mut body = body;
    if rng.bool() {
        setup += "iconst i3, 64\n build p3, i3\n";
        body += &format!("push p3, r{}\n", rng.u8(..reals));
        for _ in 0..rng.u8(..3) {
            body += &(random_instruction(rng, reals, iterations) + "\n");
        }
        after += &format!("finish p2, p3\n {WEIGH}\n");
    }
    for _ in 0..rng.u8(..4) {
        let reg = rng.u8(1..12);
        let op = ["add", "sub", "mul"][rng.usize(..3)];
        after += &format!("{op} r0, r0, r{reg}\n");
    }
    Body {
        setup,
        body,
        after,
        iterations,
        rounds: if rng.u8(..3) == 0 { 3 } else { 1 },
        form: if rng.bool() { Form::Rotated } else { Form::Head },
    }
}

fn random_instruction(rng: &mut Rng, reals: u8, iterations: i64) -> String {
    let real = |rng: &mut Rng| rng.u8(..reals);
    let written = |rng: &mut Rng| [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11][rng.usize(..usize::from(reals) - 1)];
    let int = |rng: &mut Rng| [0, 1, 2, 4, 5, 6, 7, 8, 9][rng.usize(..9)];
    let written_int = |rng: &mut Rng| rng.u8(7..10);
    let (dst, a, b, c) = (written(rng), real(rng), real(rng), real(rng));
    let (idst, ia, ib) = (written_int(rng), int(rng), int(rng));
    let unary = ["sin", "cos", "tanh", "atan", "neg", "abs", "asinh", "floor", "sqrt", "exp"];
    let binary = ["add", "sub", "mul", "min", "max", "hypot", "div", "smul", "atan2"];
    let integer = ["iadd", "isub", "imul", "iand", "ixor", "imin", "imax", "ishr"];
    // The last ones are singular or large, so they are rarer.
    let tame = rng.u8(..4) > 0;
    // All elements one after the other.
    if iterations <= 8 && rng.u8(..6) == 0 {
        let load = [format!("elem r{dst}, p0"), format!("ielem i{idst}, p1")][rng.usize(..2)].clone();
        return [format!("{load}, i1"), format!("isub i10, i4, i1\n {load}, i10")][rng.usize(..2)].clone();
    }
    match rng.u8(..22) {
        0..4 => format!("{} r{dst}, r{a}", unary[rng.usize(..if tame { 8 } else { 10 })]),
        4..9 => format!("{} r{dst}, r{a}, r{b}", binary[rng.usize(..if tame { 6 } else { 9 })]),
        9 => format!("fma r{dst}, r{a}, r{b}, r{c}"),
        10 => format!("lt i10, r{a}, r{b}\n select r{dst}, i10, r{c}, r{a}"),
        11 => format!("iand i10, i{ia}, i2\n select r{dst}, i10, r{a}, r{b}"),
        12..14 => format!("mov r{dst}, r{a}"),
        14 => [format!("const r{dst}, 0.75"), format!("to_real r{dst}, i{ia}\n sin r{dst}, r{dst}")][rng.usize(..2)]
            .clone(),
        15..18 => format!("iand i10, i{ia}, i4\n elem r{dst}, p0, i10"),
        18 => format!("iand i10, i{ia}, i4\n ielem i{idst}, p1, i10"),
        19 => format!("sin r{dst}, r{a}\n to_int i{idst}, r{dst}"),
        20 => [format!("irem i{idst}, i{ia}, i5"), format!("imov i{idst}, i{ia}")][rng.usize(..2)].clone(),
        _ => format!("{} i{idst}, i{ia}, i{ib}", integer[rng.usize(..integer.len())]),
    }
}

impl Body {
    /// With `extra` at the start of each iteration.
    fn case(&self, rng: &mut Rng, extra: &str) -> Case {
        let again =
            "iadd i10, i6, i2\n imov i6, i10\n iconst i1, 0\n ilt i10, i6, i11\n branch i10, around, end\n end:";
        let setup = format!("{}\n iconst i6, 0\n iconst i11, {}\n jump around\n around:", self.setup, self.rounds);
        let text = source(self.form, &setup, &format!("{extra}\n{}", self.body), &format!("{again}\n{}", self.after));
        let mut xs = XS;
        xs.iter_mut().for_each(|x| *x += rng.f64() - 0.5);
        Case::new(&text, rng.f64() * 2.0 - 0.5, rng.f64() * 3.0 - 1.5, &xs, self.iterations)
    }
}

#[test]
fn random_bodies_agree_with_the_reference_with_regions_and_with_records_per_segment() {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let seeds = from_environment("DUALVM_SEEDS").unwrap_or(400);
    let (mut compared, mut recorded, mut nonzero) = (0, 0, 0);
    for seed in first..first + seeds {
        let body = random_body(&mut Rng::with_seed(seed));
        let case = body.case(&mut Rng::with_seed(!seed), "");
        let fail = |error: String| -> ! { panic!("seed {seed}: {error}\n{}", dualvm_vm::text::print(&case.def)) };
        if let Err(Stop::Trap(kind)) = case.reference::<f64>(|_, x| x) {
            let (plain, recording) = (case.function().call(&case.args), case.function().value_and_grad(&case.args));
            let (plain, recording) = (trap(plain).to_string(), trap(recording).to_string());
            assert!(plain == recording && plain.starts_with(&kind.to_string()), "{plain}, {recording}, {kind:?}");
            continue;
        }
        let stats = case.check().unwrap_or_else(|error| fail(error));
        // A copy of a reference is nothing that a loop's record covers, but a region does; an object that is made in
        // it, neither.
        let region = body.case(&mut Rng::with_seed(!seed), "pmov p2, p0");
        region.check().unwrap_or_else(|error| fail(error));
        let segments = body.case(&mut Rng::with_seed(!seed), "pack p2 (r0)");
        segments.check().unwrap_or_else(|error| fail(error));
        let (found, expected) = (case.grad(), segments.grad());
        recorded += u64::from(stats.records > 0);
        let (found, expected) = (flatten(&found.gradient), flatten(&expected.gradient));
        nonzero += u64::from(found.iter().any(|&x| x != 0.0));
        Taped::begin();
        let taped = case.reference(|_, x| Taped::input(x)).expect("it ran before").0.gradient(found.len());
        if !taped.singular && taped.largest < 1e250 {
            compared += 1;
            compare("segments", &expected, &found, &taped).unwrap_or_else(|error| fail(error));
            let region = flatten(&region.grad().gradient);
            compare("region", &expected, &region, &taped).unwrap_or_else(|error| fail(error));
        }
    }
    println!("{seeds} seeds: {recorded} with records, {nonzero} not zero, {compared} compared");
    assert!(3 * nonzero >= seeds && 2 * compared >= seeds, "{recorded} {nonzero} {compared} of {seeds}");
}
