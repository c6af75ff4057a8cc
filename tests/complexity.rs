//! A gradient costs a small constant factor of the program: counts are linear exactly, times generously.
//!
//! `DUALVM_LONG=1` sums 10⁷ elements instead of 10⁶.

mod support;

use dualvm_vm::engine::{CallOptions, Function, Gradient};
use dualvm_vm::value::Value;
use std::time::Duration;
use support::{flatten, function, load, scalar_function};

fn grad(f: &Function, args: &[Value]) -> Gradient {
    f.value_and_grad_with(args, &CallOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The best of a few: the machine does other things as well.
fn fastest(f: &Function, args: &[Value]) -> Duration {
    (0..3).map(|_| grad(f, args).stats).map(|stats| stats.forward + stats.sweep).min().expect("there are three")
}

/// Asserts that `n` times the work is counted as `n` times the work, up to what is done once, and needs no more than
/// `n` times the tape: a loop's record may be as long for many iterations as for few.
#[track_caller]
fn assert_linear(few: &Gradient, many: &Gradient, factor: u64) {
    let counts = |g: &Gradient| [g.stats.instructions, g.stats.records, g.stats.slots, g.stats.tape_bytes];
    for (few, many) in counts(few).into_iter().zip(counts(many)) {
        assert!(many <= few * factor + 1000, "{few} and {many}, {factor} times the work");
    }
    let (few, many) = (few.stats.instructions, many.stats.instructions);
    assert!(many + 1000 >= few / 2 * factor, "{few} and {many} instructions, {factor} times the work");
}

fn doubling_loop() -> Function {
    function(
        "func f0 \"f\" (real, int) -> (real)\n regs 2 real, 4 int\n{\n const r1, 0.5\n iconst i1, 0
         iconst i2, 1\n loop:
         ilt i3, i1, i0\n branch i3, body, done\n body:\n add r0, r0, r0\n mul r0, r0, r1\n iadd i1, i1, i2\n jump loop
         done:\n ret (r0)\n}",
        "f",
    )
}

#[test]
fn doubling_in_a_loop_a_million_times_is_linear() {
    // x = x + x, then halved, so that the value stays; every step uses the last one twice.
    let f = doubling_loop();
    let at = |n: i64| [Value::Real(1.5), Value::Int(n)];
    let (few, many) = (grad(&f, &at(10_000)), grad(&f, &at(1_000_000)));
    assert_eq!((many.value, flatten(&many.gradient)), (1.5, vec![1.0]));
    assert_linear(&few, &many, 100);
    assert_eq!((many.stats.records, many.stats.tape_bytes), (1, few.stats.tape_bytes), "nothing is saved of a step");
    let (few, many) = (fastest(&f, &at(100_000)), fastest(&f, &at(1_000_000)));
    assert!(many < 100 * few.max(Duration::from_micros(100)), "{few:?} and {many:?}");
}

#[test]
fn doubling_without_halving_overflows_to_infinity_in_linear_time() {
    let f = function(
        "func f0 \"f\" (real, int) -> (real)\n regs 1 real, 4 int\n{\n iconst i1, 0\n iconst i2, 1\n loop:
         ilt i3, i1, i0
         branch i3, body, done\n body:\n add r0, r0, r0\n iadd i1, i1, i2\n jump loop\n done:\n ret (r0)\n}",
        "f",
    );
    let result = grad(&f, &[Value::Real(1.5), Value::Int(1_000_000)]);
    assert_eq!((result.value, flatten(&result.gradient)), (f64::INFINITY, vec![f64::INFINITY]));
    let result = grad(&f, &[Value::Real(1.5), Value::Int(1000)]);
    assert_eq!(flatten(&result.gradient), [2f64.powi(1000)]);
}

#[test]
fn doubling_in_a_straight_line_2000_times_is_linear() {
    let chain = |n: usize| {
        let def = scalar_function(1, |f| {
            let half = f.real_const(0.5);
            let mut x = f.real_param(0);
            for _ in 0..n {
                let sum = f.add(x, x);
                x = f.mul(sum, half);
            }
            f.ret(&[x.into()]);
        });
        grad(&load(def).function("main").unwrap(), &[Value::Real(1.5)])
    };
    let (few, many) = (chain(200), chain(2000));
    assert_eq!((many.value, flatten(&many.gradient)), (1.5, vec![1.0]));
    assert!(many.stats.instructions <= 11 * few.stats.instructions, "{:?} {:?}", few.stats, many.stats);
    assert!(many.stats.records <= 4000 / 200, "{:?}", many.stats);
}

#[test]
fn a_sum_of_an_array_is_linear() {
    let f = function(
        "type t0 = array real\nfunc f0 \"f\" (t0) -> (real)\n regs 2 real, 4 int, t0\n{\n const r0, 0.0
         len i0, p0\n iconst i1, 0
         iconst i2, 1\n loop:\n ilt i3, i1, i0\n branch i3, body, done\n body:\n elem r1, p0, i1\n add r0, r0, r1
         iadd i1, i1, i2\n jump loop\n done:\n ret (r0)\n}",
        "f",
    );
    let long = std::env::var_os("DUALVM_LONG").is_some();
    let n = if long { 10_000_000 } else { 1_000_000 };
    let ones = |n: usize| [Value::Reals(vec![0.5; n])];
    let (few, many) = (grad(&f, &ones(n / 100)), grad(&f, &ones(n)));
    assert_eq!(many.value, 0.5 * n as f64);
    assert!(flatten(&many.gradient).iter().all(|&x| x == 1.0));
    assert_linear(&few, &many, 100);
    let (few, many) = (fastest(&f, &ones(n / 10)), fastest(&f, &ones(n)));
    assert!(many < 100 * few, "{few:?} and {many:?}");
}

#[test]
fn the_gradient_of_a_program_costs_a_small_factor_of_its_instructions() {
    // Ten squares per iteration, each of the last one's result: the sweep runs a few instructions for each.
    let f = function(
        "func f0 \"f\" (real, int) -> (real)\n regs 2 real, 4 int\n{\n iconst i1, 0\n iconst i2, 1\n loop:
         ilt i3, i1, i0
         branch i3, body, done\n body:\n mul r1, r0, r0\n sub r0, r0, r1\n mul r1, r0, r0\n sub r0, r0, r1
          mul r1, r0, r0
         sub r0, r0, r1\n mul r1, r0, r0\n sub r0, r0, r1\n iadd i1, i1, i2\n jump loop\n done:\n ret (r0)\n}",
        "f",
    );
    let args = [Value::Real(0.3), Value::Int(10_000)];
    let forward = f.call_with(&args, &CallOptions::default()).unwrap().1.instructions;
    let whole = grad(&f, &args).stats.instructions;
    assert!(whole < 5 * forward, "{forward} forward, {whole} with the sweep");
}

#[test]
fn deep_sharing_through_calls_and_objects_is_linear() {
    // A pair of an object with itself, n times: 2ⁿ paths, n records.
    let f = function(
        "type t0 = struct { real, real }
         func f0 \"both\" (t0) -> (t0)\n regs 3 real, t0, t0\n{\n field r0, p0, 0\n field r1, p0, 1\n add r2, r0, r1
         struct_new p1 (r2, r2)\n ret (p1)\n}
         func f1 \"f\" (real, int) -> (real)\n regs 2 real, 4 int, t0\n{\n struct_new p0 (r0, r0)
          iconst i1, 0\n iconst i2, 1
         loop:\n ilt i3, i1, i0\n branch i3, body, done\n body:\n call f0 (p0) -> (p0)\n iadd i1, i1, i2\n jump loop
         done:\n field r1, p0, 0\n ret (r1)\n}",
        "f",
    );
    let result = grad(&f, &[Value::Real(1.0), Value::Int(900)]);
    assert_eq!(flatten(&result.gradient), [2f64.powi(900)]);
    assert!(result.stats.records <= 901);
}
