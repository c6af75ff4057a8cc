//! Depth, and memory that stays bounded: recursion, tail calls, garbage, and what lives through evacuations.
//!
//! `DUALVM_LONG=1` runs 10⁸ allocating iterations too.

mod support;

use dualvm_vm::engine::{CallOptions, Function, Limits, Stats};
use dualvm_vm::value::Value;
use support::{flatten, function};

const TYPES: &str = "
type t0 = struct { real, int }
type t1 = variant { Nil {}, Cons { real, t1 } }
type t2 = array real
type t3 = builder real
type t4 = array t2
type t5 = builder t2
type t6 = array t4
type t7 = builder t4
type t8 = closure (real) -> (real)
";

fn program(body: &str) -> Function {
    function(&format!("{TYPES}{body}"), "f")
}

fn args(x: f64, n: i64) -> [Value; 2] {
    [Value::Real(x), Value::Int(n)]
}

fn small(live_bytes: u64) -> CallOptions {
    CallOptions::with_limits(Limits { live_bytes, ..Limits::default() })
}

fn call(f: &Function, args: &[Value], options: &CallOptions) -> (f64, Stats) {
    let (value, stats) = f.call_with(args, options).unwrap_or_else(|error| panic!("{error}"));
    (value.as_real().expect("the result is a real"), stats)
}

fn grad(f: &Function, args: &[Value], options: &CallOptions) -> (f64, Vec<f64>, Stats) {
    let result = f.value_and_grad_with(args, options).unwrap_or_else(|error| panic!("{error}"));
    (result.value, flatten(&result.gradient), result.stats)
}

#[test]
fn recursion_a_million_deep() {
    let f = program(
        "func f0 \"f\" (real, int) -> (real)\n regs 2 real, 3 int\n{\n branch i0, more, done\n more:\n iconst i1, 1
         isub i2, i0, i1\n call f0 (r0, i2) -> (r1)\n add r1, r1, r0\n ret (r1)\n done:\n ret (r0)\n}",
    );
    let n = 1_000_000;
    assert_eq!(call(&f, &args(0.5, n), &CallOptions::default()).0, 0.5 * (n as f64 + 1.0));
    let (value, gradient, _) = grad(&f, &args(0.5, n), &CallOptions::default());
    assert_eq!((value, gradient), (0.5 * (n as f64 + 1.0), vec![n as f64 + 1.0]));
}

#[test]
fn recursion_a_million_deep_through_closures_and_objects() {
    // Every frame holds a struct and a closure while it waits.
    let f = program(
        "func f0 \"add\" (real, real) -> (real)\n regs 2 real\n{\n add r0, r0, r1\n ret (r0)\n}
         func f1 \"f\" (real, int) -> (real)\n regs 2 real, 3 int, t0, t8\n{\n branch i0, more, done\n more:
          iconst i1, 1
         isub i2, i0, i1\n struct_new p0 (r0, i0)\n closure_new p1, f0 (r0)\n call f1 (r0, i2) -> (r1)
         call_closure p1 (r1) -> (r1)\n field r0, p0, 0\n add r1, r1, r0\n ret (r1)\n done:\n ret (r0)\n}",
    );
    let n = 1_000_000;
    let expected = 0.5 * (2.0 * n as f64 + 1.0);
    assert_eq!(call(&f, &args(0.5, n), &CallOptions::default()).0, expected);
    assert_eq!(grad(&f, &args(0.5, n), &CallOptions::default()).1, [2.0 * n as f64 + 1.0]);
}

#[test]
fn ten_million_tail_calls_take_no_memory() {
    // Two functions with frames of different sizes call each other.
    let f = program(
        "func f0 \"f\" (real, int) -> (real)\n regs 2 real, 3 int\n{\n branch i0, more, done\n more:\n iconst i1, 1
         isub i2, i0, i1\n neg r1, r0\n tail_call f1 (i2, r1)\n done:\n ret (r0)\n}
         func f1 \"g\" (int, real) -> (real)\n regs 9 real, 3 int, t2, t0\n{\n branch i0, more, done\n more:
          iconst i1, 1
         isub i2, i0, i1\n neg r8, r0\n tail_call f0 (r8, i2)\n done:\n ret (r0)\n}",
    );
    let (value, stats) = call(&f, &args(0.5, 10_000_000), &small(1 << 16));
    assert_eq!(value, 0.5);
    assert!(stats.heap_peak_bytes < 1 << 16, "{stats:?}");
    assert_eq!(call(&f, &args(0.5, 10_000_001), &small(1 << 16)).0, -0.5);
}

#[test]
fn ten_million_tail_calls_of_closures_take_no_memory() {
    let f = program(
        "type t9 = closure (real, int) -> (real)
         func f0 \"step\" (real, real, int) -> (real)\n regs 3 real, 3 int, t9\n{\n branch i0, more, done
          more:\n iconst i1, 1
         isub i2, i0, i1\n neg r2, r0\n closure_new p0, f0 (r2)\n tail_call_closure p0 (r1, i2)\n done:
         add r0, r0, r1\n ret (r0)\n}
         func f1 \"f\" (real, int) -> (real)\n regs 2 real, 1 int\n{\n const r1, 1.0\n tail_call f0 (r1, r0, i0)\n}",
    );
    let n = 10_000_000;
    let (value, stats) = call(&f, &args(0.5, n), &small(8 << 20));
    assert_eq!(value, 1.5);
    assert!(stats.allocated_bytes > 8 * n as u64 && stats.heap_peak_bytes < 8 << 20, "{stats:?}");
    // While recording, what depends on constants only is garbage like any other.
    let (_, gradient, stats) = grad(&f, &args(0.5, n), &small(8 << 20));
    assert_eq!(gradient, [1.0]);
    assert!(stats.heap_peak_bytes < 8 << 20 && stats.records < 10, "{stats:?}");
}

/// In each of `i0` iterations, allocates a struct and puts it at the head of a list; after `keep` of them the list
/// begins anew. What is summed is the head. With `constant`, nothing in the list depends on the input.
fn rebuilding(keep: i64, constant: bool) -> Function {
    let value = if constant { "const r1, 0.25" } else { "mov r1, r0" };
    program(&format!(
        "func f0 \"f\" (real, int) -> (real)\n regs 5 real, 6 int, t1, t0
{{
  variant_new p0, 0 ()
  iconst i1, 0
  iconst i2, 0
  iconst i3, 1
  iconst i5, {keep}
  const r2, 0.0
loop:
  ilt i4, i1, i0
  branch i4, body, done
body:
  {value}
  struct_new p1 (r1, i1)
  field r3, p1, 0
  variant_new p0, 1 (r3, p0)
  payload r4, p0, 1, 0
  add r2, r2, r4
  iadd i2, i2, i3
  iadd i1, i1, i3
  ilt i4, i2, i5
  branch i4, loop, anew
anew:
  iconst i2, 0
  variant_new p0, 0 ()
  jump loop
done:
  mul r2, r2, r0
  ret (r2)
}}"
    ))
}

#[test]
fn ten_million_allocating_iterations_fit_into_a_few_megabytes() {
    let long = std::env::var_os("DUALVM_LONG").is_some();
    let n: i64 = if long { 100_000_000 } else { 10_000_000 };
    for keep in [1, 1000] {
        let (value, stats) = call(&rebuilding(keep, false), &args(0.5, n), &small(12 << 20));
        assert_eq!(value, 0.25 * n as f64);
        assert!(stats.allocated_bytes >= 80 * n as u64 && stats.heap_peak_bytes <= 12 << 20, "{stats:?}");
    }
}

#[test]
fn constant_garbage_in_a_recording_run_is_collected() {
    let n = 3_000_000;
    for keep in [1, 1000] {
        let (value, gradient, stats) = grad(&rebuilding(keep, true), &args(0.5, n), &small(12 << 20));
        assert_eq!((value, gradient), (0.125 * n as f64, vec![0.25 * n as f64]));
        assert!(stats.records <= 4 && stats.heap_peak_bytes <= 12 << 20, "{stats:?}");
    }
}

#[test]
fn active_garbage_in_a_recording_run_is_collected() {
    let n = 1_000_000;
    let (_, gradient, stats) = grad(&rebuilding(100, false), &args(0.5, n), &small(12 << 20));
    assert_eq!(gradient, [n as f64]);
    assert!(stats.heap_peak_bytes <= 12 << 20, "{stats:?}");
}

#[test]
fn a_list_of_a_million_cells_lives_through_evacuations() {
    // Each cell's value differs, and every iteration leaves garbage behind.
    let f = program(
        "func f0 \"f\" (real, int) -> (real)\n regs 5 real, 4 int, t1, t0
{
  variant_new p0, 0 ()
  iconst i1, 0
  iconst i2, 1
grow:
  ilt i3, i1, i0
  branch i3, cons, grown
cons:
  to_real r1, i1
  mul r1, r1, r0
  struct_new p1 (r1, i1)
  struct_new p1 (r1, i1)
  variant_new p0, 1 (r1, p0)
  iadd i1, i1, i2
  jump grow
grown:
  const r2, 0.0
walk:
  variant_tag i3, p0
  branch i3, cell, done
cell:
  isub i1, i1, i2
  to_real r3, i1
  payload r4, p0, 1, 0
  fma r2, r3, r4, r2
  ppayload p0, p0, 1, 1
  jump walk
done:
  ret (r2)
}",
    );
    let n = 1_000_000i64;
    // Σ i² x, from the last to the first.
    let sum = (0..n).rev().fold(0.0f64, |sum, i| (i as f64).mul_add(i as f64 * 0.5, sum));
    let (value, stats) = call(&f, &args(0.5, n), &CallOptions::default());
    assert_eq!(value, sum);
    assert!(stats.heap_peak_bytes > 40_000_000 && stats.heap_peak_bytes < 300_000_000, "{stats:?}");
    let (value, gradient, _) = grad(&f, &args(0.5, n), &CallOptions::default());
    assert_eq!(value, sum);
    support::assert_close(gradient[0], 2.0 * sum, 1e-12);
}

/// Makes an array of `i0` rows; row i has `i mod i1` elements `x · i`, and the rows are grouped by ten into a third
/// level. Each row is followed by garbage. Then sums all elements weighted by their row's number.
const TRIANGLE: &str = "
func f0 \"row\" (real, int, int) -> (t2)
  regs 2 real, 6 int, t3, t2, t3
{
  irem i2, i0, i1
  to_real r1, i0
  mul r1, r1, r0
  build p0, i2
  iconst i3, 0
  iconst i4, 1
loop:
  ilt i5, i3, i2
  branch i5, body, done
body:
  push p0, r1
  build p2, i2
  iadd i3, i3, i4
  jump loop
done:
  finish p1, p0
  ret (p1)
}

func f1 \"f\" (real, int, int) -> (real)
  regs 4 real, 12 int, t5, t2, t4, t7, t6, t4
{
  iconst i2, 0
  iconst i3, 1
  iconst i4, 10
  idiv i5, i0, i4
  build p3, i5
outer:
  ilt i6, i2, i0
  branch i6, group, grouped
group:
  build p0, i4
  iconst i7, 0
inner:
  ilt i6, i7, i4
  branch i6, row, rowed
row:
  call f0 (r0, i2, i1) -> (p1)
  ppush p0, p1
  iadd i2, i2, i3
  iadd i7, i7, i3
  jump inner
rowed:
  finish p2, p0
  ppush p3, p2
  jump outer
grouped:
  finish p4, p3
  const r1, 0.0
  iconst i2, 0
read:
  ilt i6, i2, i0
  branch i6, one, done
one:
  idiv i8, i2, i4
  irem i9, i2, i4
  pelem p5, p4, i8
  pelem p1, p5, i9
  len i10, p1
  to_real r2, i2
  iconst i7, 0
element:
  ilt i6, i7, i10
  branch i6, add, next
add:
  elem r3, p1, i7
  fma r1, r2, r3, r1
  iadd i7, i7, i3
  jump element
next:
  iadd i2, i2, i3
  jump read
done:
  ret (r1)
}
";

#[test]
fn arrays_of_arrays_live_through_evacuations() {
    let f = program(TRIANGLE);
    for (rows, lengths) in [(10, 3), (20_000, 40), (300, 20_000), (40, 100_000)] {
        let args = [Value::Real(0.5), Value::Int(rows), Value::Int(lengths)];
        let mut sum = 0.0f64;
        for i in 0..rows {
            for _ in 0..i % lengths {
                sum = (i as f64).mul_add(i as f64 * 0.5, sum);
            }
        }
        assert_eq!(call(&f, &args, &CallOptions::default()).0, sum, "{rows} rows up to {lengths}");
        let (value, gradient, _) = grad(&f, &args, &CallOptions::default());
        assert_eq!(value, sum);
        support::assert_close(gradient[0], 2.0 * sum, 1e-10);
    }
}

#[test]
fn large_arrays_survive_and_their_garbage_does_not() {
    // Holds two arrays of `i0` elements at a time: each is the elementwise negation of the one before.
    let f = program(
        "func f0 \"f\" (real, int, int) -> (real)\n regs 3 real, 9 int, t3, t2
{
  iconst i2, 0
  iconst i3, 1
  build p0, i0
fill:
  ilt i4, i2, i0
  branch i4, one, full
one:
  to_real r1, i2
  mul r1, r1, r0
  push p0, r1
  iadd i2, i2, i3
  jump fill
full:
  finish p1, p0
  iconst i5, 0
round:
  ilt i4, i5, i1
  branch i4, copy, done
copy:
  build p0, i0
  iconst i2, 0
each:
  ilt i4, i2, i0
  branch i4, negate, copied
negate:
  elem r1, p1, i2
  neg r1, r1
  push p0, r1
  iadd i2, i2, i3
  jump each
copied:
  finish p1, p0
  iadd i5, i5, i3
  jump round
done:
  isub i2, i0, i3
  elem r1, p1, i2
  ret (r1)
}",
    );
    for len in [16_000i64, 16_385, 100_000] {
        let args = [Value::Real(0.5), Value::Int(len), Value::Int(60)];
        let (value, stats) = call(&f, &args, &small(8 * 6 * len as u64 + (12 << 20)));
        assert_eq!(value, 0.5 * (len - 1) as f64);
        assert!(stats.allocated_bytes > 8 * 60 * len as u64, "{stats:?}");
        let args = [Value::Real(0.5), Value::Int(len), Value::Int(5)];
        let (_, gradient, _) = grad(&f, &args, &CallOptions::default());
        assert_eq!(gradient, [-((len - 1) as f64)]);
    }
}

#[test]
fn a_second_gradient_allocates_no_more_than_the_first() {
    let f = rebuilding(100, false);
    let first = grad(&f, &args(0.5, 100_000), &CallOptions::default()).2;
    for _ in 0..3 {
        let again = grad(&f, &args(0.5, 100_000), &CallOptions::default()).2;
        assert_eq!(
            (first.heap_peak_bytes, first.tape_bytes, first.records, first.slots),
            (again.heap_peak_bytes, again.tape_bytes, again.records, again.slots)
        );
    }
}
