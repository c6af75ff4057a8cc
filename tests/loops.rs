//! Loops that are recorded as one: gradients against the reference, hand formulas and records per segment; what a
//! record holds; every end that a loop can come to.
//!
//! `DUALVM_SEEDS=n` tries n random loop bodies instead of 400, `DUALVM_FIRST_SEED=s` begins at another one.

mod support;

use dualvm_vm::engine::{CallOptions, Function, Gradient, Limits, Stats};
use dualvm_vm::module::ModuleDef;
use dualvm_vm::trap::{Limit, TrapKind};
use dualvm_vm::value::Value;
use fastrand::Rng;
use support::numbers::{Forward, Taped, TapedGradient};
use support::reference::{Number, Stop, Val, run};
use support::{assemble, assert_all_close, assert_limit, export_all, flatten, from_environment, load, same, trap};
use support::{function, with_jumps};

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
        f.grad_with(&self.args, &CallOptions::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Checks value, fuel and gradient against the reference.
    fn check(&self) -> Result<Stats, String> {
        let (value, steps) = self.reference::<f64>(|_, x| x).map_err(|stop| format!("{stop:?}"))?;
        let (found, stats) =
            self.function().call_with(&self.args, &CallOptions::default()).map_err(|error| error.to_string())?;
        if !matches!(found, Value::Real(found) if same(found, value)) || stats.instructions != steps {
            return Err(format!("expected {value:e} in {steps} steps, found {found:?} in {}", stats.instructions));
        }
        let recorded =
            self.function().grad_with(&self.args, &CallOptions::default()).map_err(|error| error.to_string())?;
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

/// Checks a loop of 0, 1, 2 and more iterations in both forms. Returns what the last rotated one used.
#[track_caller]
fn check(setup: &str, body: &str, after: &str) -> Stats {
    let mut last = None;
    for n in [0, 1, 2, 7] {
        for form in [Form::Head, Form::Rotated] {
            let source = source(form, setup, body, after);
            let case = Case::new(&source, 0.8, -1.1, &XS, n);
            let stats = case.check().unwrap_or_else(|error| panic!("{n} iterations, {form:?}: {error}\n{source}"));
            let others = if after.contains("push") { 2 } else { u64::from(!after.is_empty()) };
            assert!(stats.records <= 1 + others, "{n} iterations, {form:?}: {stats:?}\n{source}");
            last = Some(stats);
        }
    }
    last.expect("there are several cases")
}

/// The gradient of a rotated loop with these arguments.
fn gradient(setup: &str, body: &str, after: &str, (a, b, xs, n): (f64, f64, &[f64], i64)) -> (f64, Vec<f64>) {
    let result = Case::new(&source(Form::Rotated, setup, body, after), a, b, xs, n).grad();
    (result.value, flatten(&result.gradient))
}

#[test]
fn a_power_has_the_derivative_of_a_power() {
    let stats = check("const r2, 1.0", "mul r2, r2, r0", "mov r0, r2");
    // Per iteration the product so far; once the factor, two slots, and what every record has.
    assert_eq!((stats.records, stats.slots, stats.tape_bytes), (1, 2 + 8 + 1, 7 * 8 + 8 + 8 + 20));
    let (value, gradient) = gradient("const r2, 1.0", "mul r2, r2, r0", "mov r0, r2", (3.0, 1.0, &[], 5));
    assert_eq!((value, gradient), (243.0, vec![405.0, 0.0]));
}

#[test]
fn nothing_is_saved_of_a_linear_iteration() {
    let stats = check("const r3, 0.25", "mul r4, r0, r3\n sub r1, r1, r4\n add r0, r0, r1", "");
    assert_eq!((stats.records, stats.tape_bytes), (1, 8 + 20));
}

#[test]
fn a_sum_of_elements_needs_no_tape_and_each_has_its_derivative() {
    let stats = check("", "elem r2, p0, i1\n add r0, r0, r2", "");
    // The counter's last value, two slots.
    assert_eq!((stats.records, stats.tape_bytes), (1, 8 + 8 + 20));
    let (_, gradient) = gradient("", "elem r2, p0, i1\n fma r0, r2, r1, r0", "", (0.0, 3.0, &XS, 5));
    let expected = [1.0, XS[..5].iter().sum(), 3.0, 3.0, 3.0, 3.0, 3.0, 0.0, 0.0, 0.0];
    assert_all_close(&gradient, &expected, 1e-15);
}

#[test]
fn a_dot_product_saves_both_factors() {
    let stats = check("", "elem r2, p0, i1\n isub i4, i0, i1\n elem r3, p0, i4\n mul r4, r2, r3\n add r0, r0, r4", "");
    assert_eq!(stats.tape_bytes, 7 * 16 + 2 * 8 + 8 + 20);
}

#[test]
fn an_array_times_itself_has_twice_its_elements_as_gradient() {
    let body = "elem r2, p0, i1\n pmov p2, p0\n elem r3, p0, i1\n fma r0, r2, r3, r0";
    let one_load = body.replace("pmov p2, p0\n", "");
    let expected: Vec<f64> = [1.0, 0.0].into_iter().chain(XS.iter().map(|x| 2.0 * x)).collect();
    assert_eq!(gradient("", &one_load, "", (0.0, 0.0, &XS, 8)).1, expected);
    // Two registers with one array.
    let two = "elem r2, p0, i1\n elem r3, p2, i1\n fma r0, r2, r3, r0";
    assert_eq!(gradient("pmov p2, p0", two, "", (0.0, 0.0, &XS, 8)).1, expected);
}

#[test]
fn inputs_of_one_slot_add_up() {
    // r0, r2 and r3 begin as one variable, r4 is it throughout.
    let setup = "mov r2, r0\n mov r3, r0\n mov r4, r0";
    check(setup, "mul r2, r2, r4\n add r3, r3, r2\n mul r0, r0, r3", "");
    let (value, gradient) = gradient(setup, "mul r2, r2, r4\n add r3, r3, r2\n mul r0, r0, r3", "", (2.0, 0.0, &[], 1));
    // x (x + x²)
    assert_eq!((value, gradient[0]), (12.0, 2.0 * 2.0 + 3.0 * 4.0));
}

#[test]
fn constants_write_no_record() {
    for (setup, body) in [
        ("const r0, 0.5\n const r2, 1.5", "mul r0, r0, r2\n sin r0, r0"),
        ("const r0, 0.5", "to_real r2, i1\n add r0, r0, r2"),
        ("", "const r0, 2.0"),
        ("", "to_real r0, i1"),
    ] {
        let case = Case::new(&source(Form::Rotated, setup, body, ""), 0.8, 1.0, &XS, 4);
        let stats = case.check().unwrap();
        assert_eq!(stats.records, 0, "{body}");
        assert!(flatten(&case.grad().gradient).iter().all(|&x| x == 0.0), "{body}");
        check(setup, body, "");
    }
}

#[test]
fn an_array_of_constants_takes_part_without_contributions() {
    let body = "elem r2, p2, i1\n mul r0, r0, r2";
    let setup = "const r3, 2.0\n const r4, 3.0\n pack p2 (r3, r4, r3)";
    assert_eq!(gradient(setup, body, "", (0.5, 1.0, &XS, 3)), (6.0, [12.0].into_iter().chain([0.0; 9]).collect()));
    let all_constant = "const r0, 1.0\n const r3, 2.0\n const r4, 3.0\n pack p2 (r3, r4, r3)";
    let case = Case::new(&source(Form::Rotated, all_constant, body, ""), 0.8, 1.0, &XS, 3);
    assert_eq!(case.check().unwrap().records, 0);
}

#[test]
fn unused_results_cost_no_tape() {
    // r2 and r3 feed each other only.
    let stats = check("const r2, 1.0\n mov r3, r1", "sin r2, r3\n mul r3, r2, r1\n sub r0, r0, r1", "");
    assert_eq!(stats.tape_bytes, 8 + 20);
    let stats = check("mov r2, r0", "sin r2, r2", "");
    assert_eq!((stats.records, stats.tape_bytes), (0, 0));
}

#[test]
fn values_move_between_registers() {
    check("", "mov r2, r0\n mov r0, r1\n mov r1, r2", "");
    check("mov r3, r1", "mov r4, r0\n mov r0, r1\n mov r1, r3\n mov r3, r4", "");
    // A shift register: a, b = b, a + b.
    check("", "add r2, r0, r1\n mov r0, r1\n mov r1, r2", "");
    check("mov r2, r0", "mul r3, r0, r1\n mov r0, r1\n mov r1, r2\n mov r2, r3", "");
    // Several registers hold one value.
    check("mov r2, r1\n mov r3, r1", "sin r2, r1\n mov r3, r2\n fma r0, r2, r3, r0\n mov r1, r3", "mul r0, r0, r2");
    // A register comes to nothing, or a constant, or what doesn't change.
    check("mov r2, r0", "mul r0, r0, r2\n const r2, 1.5", "mul r0, r0, r2");
    check("mov r2, r0", "mul r0, r0, r2\n mov r2, r1", "mul r0, r0, r2");
}

#[test]
fn what_is_read_after_the_loop_need_not_be_carried() {
    check("mov r2, r1", "elem r2, p0, i1", "mul r0, r0, r2");
    check("mov r2, r1", "elem r3, p0, i1\n exp r2, r3", "mul r0, r0, r2");
    check("mov r2, r1\n mov r3, r1", "mul r2, r0, r1\n mul r3, r2, r2\n sin r0, r0", "mul r0, r3, r2");
}

#[test]
fn saved_values_that_are_overwritten_are_copied() {
    check("", "sin r2, r0\n sqrt r3, r2\n cos r2, r3\n mul r3, r2, r3\n exp r2, r3\n mul r0, r0, r2", "");
    check("", "mul r0, r0, r0\n sin r0, r0\n add r1, r1, r0\n cos r1, r1\n mul r0, r0, r1", "");
}

#[test]
fn indices_are_computed_again_or_saved() {
    // In arithmetic progression, upwards, downwards, in steps of two; with a step in a register.
    for (setup, body) in [
        ("", "elem r2, p0, i1"),
        ("iconst i4, 7", "elem r2, p0, i4\n isub i4, i4, i2"),
        ("iconst i4, 0", "ishr i5, i4, i2\n elem r2, p0, i5\n iadd i4, i4, i2\n iadd i4, i2, i4"),
        ("isub i4, i0, i0", "isub i5, i4, i0\n elem r2, p0, i4\n iadd i4, i4, i6"),
        ("iconst i4, 0", "iadd i4, i4, i2\n isub i5, i4, i2\n elem r2, p0, i5"),
    ] {
        let setup = format!("iconst i7, 7\n iconst i6, 1\n {setup}");
        check(&setup, &format!("{body}\n fma r0, r2, r1, r0\n sin r1, r1"), "");
    }
    // Not in progression: by squares, through an array, by a generator, from a real.
    for (setup, body) in [
        ("", "imul i4, i1, i1\n iand i4, i4, i7\n elem r2, p0, i4"),
        ("", "imul i4, i1, i1\n irem i4, i4, i8\n elem r2, p0, i4"),
        ("", "ielem i4, p1, i1\n iand i4, i4, i7\n elem r2, p0, i4\n elem r3, p0, i1\n mul r2, r2, r3"),
        ("iconst i4, 5", "imul i4, i4, i8\n iadd i4, i4, i7\n iand i5, i4, i7\n elem r2, p0, i5"),
        ("", "cos r3, r1\n to_int i4, r3\n iand i4, i4, i7\n elem r2, p0, i4"),
        ("", "len i4, p0\n isub i4, i4, i2\n isub i4, i4, i1\n elem r2, p0, i4"),
        ("", "lt i4, r0, r1\n ishl i4, i4, i2\n elem r2, p0, i4"),
    ] {
        let setup = format!("iconst i7, 7\n iconst i8, 5\n {setup}");
        check(&setup, &format!("{body}\n fma r0, r2, r1, r0\n sin r1, r1"), "");
    }
    let by_squares = "imul i4, i1, i1\n iand i4, i4, i7\n elem r2, p0, i4\n add r0, r0, r2";
    let stats = check("iconst i7, 7", by_squares, "");
    assert_eq!(stats.tape_bytes, 2 * 8 + 8 + 20, "squares of the counter are computed again");
}

#[test]
fn integers_take_part_in_derivatives() {
    check("", "powi r2, r1, i1\n add r0, r0, r2", "");
    check("", "to_real r2, i1\n fma r0, r2, r1, r0\n mul r1, r1, r2", "");
    check("", "iand i4, i1, i2\n select r2, i4, r1, r0\n mul r0, r2, r1", "");
    check("iconst i4, 3", "imul i4, i4, i4\n iand i5, i4, i1\n select r2, i5, r1, r0\n mul r0, r2, r1", "");
}

#[test]
fn a_condition_of_reals_ends_a_loop() {
    // While x > b, x := x / 2; the other sense of the branch too.
    for end in ["lt i3, r1, r0\n branch i3, body, done", "le i3, r0, r1\n branch i3, done, body"] {
        let def = |x: f64| {
            let text = format!(
                "type t0 = array real
                 func f0 \"f\" (real, real, t0, int) -> (real)\n regs 3 real, 4 int, t0\n{{\n const r2, 0.5
                 jump body\n body:\n mul r0, r0, r2\n {end}\n done:\n mul r0, r0, r1\n ret (r0)\n}}"
            );
            Case::new(&text, x, 1.0, &[], 0)
        };
        for (x, factor) in [(8.5, 0.0625), (3.0, 0.25), (0.1, 0.5)] {
            let case = def(x);
            case.check().unwrap();
            assert_eq!(flatten(&case.grad().gradient), [factor, factor * x]);
        }
    }
}

#[test]
fn singular_partials_meet_zero_adjoints_harmlessly() {
    // The arm of a selection that isn't taken has an infinite derivative, at 0 in the first iteration.
    let body = "sqrt r2, r0\n lt i4, r3, r0\n select r4, i4, r2, r3\n add r1, r1, r4";
    assert_eq!(gradient("const r3, 0.0", body, "mov r0, r1", (0.0, 1.0, &[], 3)).1, [0.0, 1.0]);
    // An infinite derivative times a factor that is zero.
    let body = "sqrt r2, r0\n fma r1, r2, r3, r1";
    assert_eq!(gradient("const r3, 0.0", body, "mov r0, r1", (0.0, 1.0, &[], 3)).1, [0.0, 1.0]);
    // The result isn't asked for: the whole loop is passed over.
    let after = "const r5, 0.0\n mul r0, r2, r5\n add r0, r0, r1";
    assert_eq!(gradient("mov r2, r1", "sqrt r2, r0", after, (0.0, 1.0, &[], 3)).1, [0.0, 1.0]);
}

#[test]
fn infinities_and_nan_are_what_they_are() {
    let (value, gradient_found) = gradient("", "mul r0, r0, r1", "", (f64::INFINITY, 2.0, &[], 3));
    assert_eq!((value, gradient_found), (f64::INFINITY, vec![8.0, f64::INFINITY]));
    let (value, found) = gradient("", "elem r2, p0, i1\n mul r0, r0, r2", "", (1.0, 2.0, &[2.0, f64::NAN], 2));
    assert!(value.is_nan() && found[0].is_nan() && found[2].is_nan());
    assert_eq!((found[1], found[3]), (0.0, 2.0));
    let (value, found) = gradient("", "sqrt r0, r0", "", (0.0, 2.0, &[], 2));
    assert_eq!((value, found), (0.0, vec![f64::INFINITY, 0.0]));
}

#[test]
fn long_loops_go_on_in_further_slabs() {
    // 8 bytes per iteration, 24, and none.
    let n = 20_000;
    let power = Case::new(&source(Form::Rotated, "", "sin r2, r0\n fma r0, r2, r1, r0", ""), 0.9, 1e-4, &[], n);
    let stats = power.check().unwrap();
    assert!(stats.tape_bytes > 2 * SLAB && stats.records == 1, "{stats:?}");
    let body = "imul i4, i1, i5\n irem i4, i4, i6\n elem r2, p0, i4\n sin r3, r2\n fma r0, r3, r1, r0\n elem r4, p0, i7
         mul r4, r4, r3\n fma r0, r4, r1, r0\n iand i7, i4, i2";
    let setup = "iconst i5, 2654435761\n iconst i6, 8\n iconst i7, 0";
    let gather = Case::new(&source(Form::Rotated, setup, body, "mul r0, r0, r1"), 0.9, 1e-3, &XS, n);
    let stats = gather.check().unwrap();
    assert!(stats.tape_bytes > 4 * SLAB, "{stats:?}");
    let linear =
        Case::new(&source(Form::Rotated, "const r2, 1e-5", "fma r0, r1, r2, r0", ""), 0.9, 1.0, &[], 3_000_000);
    let result = linear.grad();
    assert_eq!(result.stats.tape_bytes, 8 + 20);
    assert_all_close(&flatten(&result.gradient), &[1.0, 30.0], 1e-9);
}

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
fn loops_in_a_function_that_is_called_often() {
    let f = function(
        "func f0 \"power\" (real, int) -> (real)\n regs 2 real, 4 int\n{\n const r1, 1.0\n iconst i1, 0\n iconst i2, 1
         body:\n mul r1, r1, r0\n iadd i1, i1, i2\n ilt i3, i1, i0\n branch i3, body, done\n done:\n ret (r1)\n}
         func f1 \"f\" (real, int) -> (real)\n regs 3 real, 4 int\n{\n const r1, 0.0\n iconst i1, 0\n iconst i2, 1
         body:\n iadd i1, i1, i2\n call f0 (r0, i1) -> (r2)\n add r1, r1, r2\n ilt i3, i1, i0\n branch i3, body, done
         done:\n ret (r1)\n}",
        "f",
    );
    let result = f.grad_with(&[Value::Real(1.01), Value::Int(200)], &CallOptions::default()).unwrap();
    let expected: f64 = (1..=200).map(|n| f64::from(n) * 1.01f64.powi(n - 1)).sum();
    assert_all_close(&flatten(&result.gradient), &[expected], 1e-12);
    assert_eq!(result.stats.records, 400);
}

#[test]
fn loops_in_recursion() {
    // f(x, 0) = x; f(x, n) = the loop on f(x, n - 1), n times x := sin x + x.
    let f = function(
        "func f0 \"f\" (real, int) -> (real)\n regs 2 real, 5 int\n{\n branch i0, more, done\n more:\n iconst i2, 1
         isub i3, i0, i2\n call f0 (r0, i3) -> (r0)\n iconst i1, 0\n jump body\n body:\n sin r1, r0\n add r0, r0, r1
         iadd i1, i1, i2\n ilt i4, i1, i0\n branch i4, body, done\n done:\n ret (r0)\n}",
        "f",
    );
    let n = 40;
    let result = f.grad_with(&[Value::Real(1e-9), Value::Int(n)], &CallOptions::default()).unwrap();
    let (mut x, mut derivative) = (1e-9f64, 1.0);
    for _ in 0..n * (n + 1) / 2 {
        derivative *= 1.0 + x.cos();
        x += x.sin();
    }
    assert_all_close(&flatten(&result.gradient), &[derivative], 1e-9);
    assert_eq!(result.stats.records, n as u64);
}

#[test]
fn traps_in_mid_loop_show_their_place() {
    let cases = [
        ("elem r2, p0, i1\n mul r0, r0, r2", TrapKind::IndexOutOfBounds { index: 8, len: 8 }, 9),
        ("ielem i4, p1, i1\n sin r0, r0", TrapKind::IndexOutOfBounds { index: 8, len: 8 }, 9),
        ("sin r0, r0\n isub i4, i0, i1\n idiv i4, i1, i4", TrapKind::DivisionByZero, 3),
        ("mul r0, r0, r0\n to_int i4, r0", TrapKind::NotAnInteger(f64::INFINITY), 2000),
    ];
    for (body, kind, n) in cases {
        // The division traps at i1 = i0, which the test doesn't let happen unless it is off by one.
        let body = if kind == TrapKind::DivisionByZero { body.replace("i0, i1", "i2, i1") } else { body.to_owned() };
        for form in [Form::Head, Form::Rotated] {
            let case = Case::new(&source(form, "", &body, ""), 1.5, 1.0, &XS, n);
            let plain = trap(case.function().call(&case.args));
            let recording = trap(case.function().value_and_grad(&case.args));
            assert_eq!(format!("{plain:?}"), format!("{recording:?}"));
            if !matches!(kind, TrapKind::NotAnInteger(_)) {
                assert_eq!(plain.kind, kind);
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
            assert_eq!(assert_limit(f.grad_with(&case.args, &options), Limit::Fuel), plain, "{fuel}");
        }
        let whole = f.grad_with(&case.args, &CallOptions::default()).unwrap().stats.instructions;
        let options = |fuel| CallOptions::with_limits(Limits { fuel, ..Limits::default() });
        f.grad_with(&case.args, &options(whole)).unwrap();
        assert_limit(f.grad_with(&case.args, &options(whole - 1)), Limit::Fuel);
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
fn tape_runs_out_in_mid_loop() {
    let limits = Limits { tape_bytes: 4 * SLAB, ..Limits::default() };
    let options = CallOptions::with_limits(limits);
    let long = Case::new(&source(Form::Rotated, "", "sin r0, r0", ""), 1.0, 1.0, &XS, 1_000_000);
    let f = long.function();
    let trap = assert_limit(f.grad_with(&long.args, &options), Limit::TapeBytes);
    assert_eq!(trap.innermost[0].function, "f");
    let short = [&long.args[..3], &[Value::Int(1000)]].concat();
    let found = f.grad_with(&short, &options).unwrap();
    let expected = f.value_and_grad(&short).unwrap();
    assert_eq!((found.value, found.gradient), expected);
}

#[test]
fn a_loop_of_more_than_64_inputs_is_recorded_by_segments() {
    let regs = |n: usize| (0..n).map(|k| format!("elem r{}, p0, i5\n iadd i5, i5, i2\n", k + 2)).collect::<String>();
    let text = |n: usize| {
        let sums: String = (0..n).map(|k| format!("mul r1, r1, r{}\n", k + 2)).collect();
        let body = format!("iconst i5, 0\n {}{sums} add r0, r0, r1", regs(n));
        source(Form::Rotated, "", &body, "").replace("regs 12 real", &format!("regs {} real", n + 2))
    };
    let xs: Vec<f64> = (0..80).map(|k| 1.0 + f64::from(k) / 100.0).collect();
    for (n, loops) in [(60, true), (70, false)] {
        let case = Case::new(&text(n), 0.5, 0.9, &xs, 4);
        let stats = case.check().unwrap();
        assert_eq!(stats.records == 1, loops, "{stats:?}");
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

#[test]
fn what_a_loop_pushes_is_an_array_of_consecutive_slots() {
    let build = "iconst i4, 20\n build p3, i4";
    let weigh = format!("finish p2, p3\n {WEIGH}");
    // A map: nothing is carried. A scan: the state is pushed. Constants; what nobody reads; what doesn't change.
    for body in [
        "elem r2, p0, i1\n sin r2, r2\n mul r2, r2, r1\n push p3, r2",
        "elem r2, p0, i1\n fma r1, r2, r0, r1\n push p3, r1",
        "push p3, r1\n sin r1, r1",
        "to_real r2, i1\n push p3, r2",
        "to_real r2, i1\n push p3, r2\n mul r0, r0, r1",
        "push p3, r1",
        "elem r2, p0, i1\n push p3, r2\n cos r1, r2",
    ] {
        let stats = check(build, body, &weigh);
        assert!(stats.records <= 2, "{body}: {stats:?}");
        check(build, body, "");
        // After an element that was there before.
        check(&format!("{build}\n push p3, r0"), body, &weigh.replace("finish", "push p3, r1\n finish"));
    }
    let case = |n| {
        let body = "sin r2, r1\n fma r1, r2, r0, r1\n push p3, r1";
        let build = format!("iconst i4, {n}\n build p3, i4");
        Case::new(&source(Form::Rotated, &build, body, &weigh), 1e-3, 0.3, &XS, n)
    };
    let stats = case(20_000).check().unwrap();
    assert!(stats.records == 2 && stats.tape_bytes > 2 * SLAB, "{stats:?}");
    // Nothing flows back into the pushed elements, or into the last ones only.
    let last = "finish p2, p3\n isub i5, i0, i2\n elem r0, p2, i5";
    check("iconst i4, 20\n build p3, i4\n iconst i0, 5", "sin r1, r1\n push p3, r1", last);
    check(build, "sin r1, r1\n push p3, r1", "finish p2, p3");
}

#[test]
fn a_full_builder_traps_in_mid_loop() {
    let build = "iconst i4, 3\n build p3, i4";
    let case = Case::new(&source(Form::Rotated, build, "sin r1, r1\n push p3, r1", ""), 1.0, 1.0, &XS, 9);
    let (plain, recording) = (trap(case.function().call(&case.args)), trap(case.function().value_and_grad(&case.args)));
    assert_eq!(plain.kind, TrapKind::BuilderFull { capacity: 3 });
    assert_eq!(plain, recording);
}

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
    let body: String = (0..len).map(|_| random_instruction(rng, reals) + "\n").collect();
    let mut after = String::new();
    let mut body = body;
    if rng.bool() {
        setup += "iconst i3, 64\n build p3, i3\n";
        body += &format!("push p3, r{}\n", rng.u8(..reals));
        for _ in 0..rng.u8(..3) {
            body += &(random_instruction(rng, reals) + "\n");
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
        iterations: [0, 1, 2, 3, 5, 9, 17][rng.usize(..7)],
        rounds: if rng.u8(..3) == 0 { 3 } else { 1 },
        form: if rng.bool() { Form::Rotated } else { Form::Head },
    }
}

fn random_instruction(rng: &mut Rng, reals: u8) -> String {
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
fn random_bodies_agree_with_the_reference_and_with_records_per_segment() {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let seeds = from_environment("DUALVM_SEEDS").unwrap_or(400);
    let (mut compared, mut recorded, mut nonzero) = (0, 0, 0);
    for seed in first..first + seeds {
        let body = random_body(&mut Rng::with_seed(seed));
        let case = body.case(&mut Rng::with_seed(!seed), "");
        let fail = |error: String| -> ! { panic!("seed {seed}: {error}\n{}", dualvm_vm::text::print(&case.def)) };
        if let Err(Stop::Trap(kind)) = case.reference::<f64>(|_, x| x) {
            let (plain, recording) = (case.function().call(&case.args), case.function().value_and_grad(&case.args));
            let (plain, recording) = (format!("{:?}", trap(plain)), format!("{:?}", trap(recording)));
            assert!(plain == recording && plain.contains(&format!("{kind:?}")), "{plain}, {recording}, {kind:?}");
            continue;
        }
        let stats = case.check().unwrap_or_else(|error| fail(error));
        // A copy of a reference is nothing that a loop's record covers.
        let segments = body.case(&mut Rng::with_seed(!seed), "pmov p2, p0");
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
        }
    }
    println!("{seeds} seeds: {recorded} with records, {nonzero} not zero, {compared} compared");
    assert!(3 * nonzero >= seeds && 2 * compared >= seeds, "{recorded} {nonzero} {compared} of {seeds}");
}
