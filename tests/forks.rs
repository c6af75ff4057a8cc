//! Forks and parallel maps at hand-overs: values, lists, arrays and closures that one task makes and others use, in
//! every order that a program can bring about, each against a closed form and on every engine.

mod support;

use dualvm_vm::engine::Limits;
use dualvm_vm::module::ModuleDef;
use dualvm_vm::trap::{Limit, Trap, TrapKind};
use dualvm_vm::value::Value;
use support::engines::{Engines, Loaded, Mode, Outcome};
use support::numbers::Taped;
use support::reference::{Val, run};
use support::{assemble, assert_all_close, assert_close, export_all, flatten};

/// Types, and functions for tasks.
const PRELUDE: &str = "
type t0 = array real
type t1 = builder real
type t2 = variant { Nil {}, Cons { real, t2 } }
type t3 = closure (real) -> (real)
type t4 = array int
type t5 = struct { real, int, t0 }
type t6 = array t5
message m0 \"left\"
message m1 \"right\"

func \"square\" (real) -> (real)
  regs 1 real
{
  mul r0, r0, r0
  ret (r0)
}
func \"sine\" (real) -> (real)
  regs 1 real
{
  sin r0, r0
  ret (r0)
}
func \"product\" (real, real) -> (real)
  regs 2 real
{
  mul r0, r0, r1
  ret (r0)
}
func \"same\" (real) -> (real)
  regs 1 real
{
  ret (r0)
}
func \"root\" (real) -> (real)
  regs 1 real
{
  sqrt r0, r0
  ret (r0)
}
; a · b + n · a², by n forks in each other on the left
func \"down\" (real, real, int) -> (real)
  regs 3 real, 2 int
{
  branch i0, more, leaf
more:
  iconst i1, 1
  isub i0, i0, i1
  fork 2
  task \"down\" (r0, r1, i0) -> (r1)
  task \"square\" (r0) -> (r2)
  add r0, r1, r2
  ret (r0)
leaf:
  tail_call \"product\" (r0, r1)
}
; the same with the deep side on the right
func \"down_right\" (real, real, int) -> (real)
  regs 3 real, 2 int
{
  branch i0, more, leaf
more:
  iconst i1, 1
  isub i0, i0, i1
  fork 2
  task \"square\" (r0) -> (r2)
  task \"down_right\" (r0, r1, i0) -> (r1)
  add r0, r1, r2
  ret (r0)
leaf:
  tail_call \"product\" (r0, r1)
}
; sin(k · x) for k from 0 below n
func \"waves\" (real, int) -> (t0)
  regs 2 real, 4 int, t0, t1
{
  iconst i1, 0
  iconst i2, 1
  build p1, i0
  ilt i3, i1, i0
  branch i3, next, end
next:
  to_real r1, i1
  mul r1, r1, r0
  sin r1, r1
  push p1, r1
  iadd i1, i1, i2
  ilt i3, i1, i0
  branch i3, next, end
end:
  finish p0, p1
  ret (p0)
}
; sin(k · x) for k from low below high
func \"waves_between\" (int, int, real) -> (t0)
  regs 2 real, 4 int, t0, t1
{
  iconst i2, 1
  isub i3, i1, i0
  build p1, i3
next:
  to_real r1, i0
  mul r1, r1, r0
  sin r1, r1
  push p1, r1
  iadd i0, i0, i2
  ilt i3, i0, i1
  branch i3, next, end
end:
  finish p0, p1
  ret (p0)
}
; the sum of the squares of the elements from a number below another one in steps
func \"squares\" (t0, int, int, int) -> (real)
  regs 2 real, 4 int, t0
{
  const r0, 0
  ilt i3, i0, i1
  branch i3, next, end
next:
  elem r1, p0, i0
  fma r0, r1, r1, r0
  iadd i0, i0, i2
  ilt i3, i0, i1
  branch i3, next, end
end:
  ret (r0)
}
; the sum of the squares of all elements, from the last one to the first
func \"squares_backwards\" (t0) -> (real)
  regs 2 real, 4 int, t0
{
  const r0, 0
  len i0, p0
  iconst i1, 0
  iconst i2, 1
  ilt i3, i1, i0
  branch i3, next, end
next:
  isub i0, i0, i2
  elem r1, p0, i0
  fma r0, r1, r1, r0
  ilt i3, i1, i0
  branch i3, next, end
end:
  ret (r0)
}
; the sum of the squares of the elements that a table names
func \"squares_by_table\" (t0, t4) -> (real)
  regs 2 real, 5 int, t0, t4
{
  const r0, 0
  len i0, p1
  iconst i1, 0
  iconst i2, 1
  ilt i3, i1, i0
  branch i3, next, end
next:
  ielem i4, p1, i1
  elem r1, p0, i4
  fma r0, r1, r1, r0
  iadd i1, i1, i2
  ilt i3, i1, i0
  branch i3, next, end
end:
  ret (r0)
}
func \"element\" (t0, int) -> (real)
  regs 1 real, 1 int, t0
{
  elem r0, p0, i0
  ret (r0)
}
func \"cons\" (t2, real) -> (t2)
  regs 1 real, t2
{
  sin r0, r0
  variant_new p0, 1 (r0, p0)
  ret (p0)
}
; the sum of the squares of a list's elements
func \"list_squares\" (t2) -> (real)
  regs 2 real, 1 int, t2
{
  const r0, 0
next:
  variant_tag i0, p0
  branch i0, cell, end
cell:
  payload r1, p0, 1, 0
  fma r0, r1, r1, r0
  ppayload p0, p0, 1, 1
  jump next
end:
  ret (r0)
}
func \"for_ever\" () -> ()
{
  jump 0
}
func \"stop_left\" (real) -> (real)
  regs 1 real
{
  sin r0, r0
  trap m0
}
func \"stop_right\" (real) -> (real)
  regs 1 real
{
  trap m1
}
";

fn module(code: &str) -> ModuleDef {
    let mut def = assemble(&format!("{PRELUDE}{code}"));
    // What the text exports stays as it is.
    let written: Vec<_> = def.functions.iter().map(|function| function.interface.clone()).collect();
    export_all(&mut def);
    for (function, written) in def.functions.iter_mut().zip(written) {
        function.interface = written.or(function.interface.take());
    }
    def
}

fn load(code: &str) -> Loaded {
    let def = module(code);
    Engines::all().load(&def).unwrap_or_else(|errors| panic!("the verifier refuses: {}", errors[0]))
}

/// What `f` gives on all engines.
#[track_caller]
fn outcome_at(loaded: &Loaded, args: &[Value], mode: Mode, limits: &Limits) -> Outcome {
    loaded.run("f", args, mode, limits).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn outcome(loaded: &Loaded, args: &[Value], mode: Mode) -> Outcome {
    outcome_at(loaded, args, mode, &Limits::default())
}

/// Checks value and gradient of `f`, a function with one real result: on all engines, and in the reference.
#[track_caller]
fn check(code: &str, args: &[Value], value: f64, gradient: &[f64]) {
    let def = module(code);
    Taped::begin();
    let inputs = flatten(args).len();
    let func = def.function("f").expect("the module has `f`").0.index();
    let result = match run(&def, func, args.iter().map(taped).collect(), 10_000_000) {
        Ok((results, _)) => *results[0].real(),
        Err(stop) => panic!("the reference stops: {stop:?}"),
    };
    let expected = result.gradient(inputs).gradient;
    assert_all_close(&expected, gradient, 1e-11);
    let loaded = load(code);
    let [called, differentiated] = [Mode::Call, Mode::Gradient].map(|mode| outcome(&loaded, args, mode));
    for found in [&called, &differentiated] {
        let Outcome::Done { value: Value::Real(found), .. } = found else { panic!("expected {value}: {found:?}") };
        assert_close(*found, value, 1e-12);
    }
    assert_all_close(&differentiated.gradient(), gradient, 1e-11);
    let rows = outcome(&loaded, args, Mode::Jacobian);
    assert_all_close(&rows.gradient(), gradient, 1e-11);
}

fn taped(value: &Value) -> Val<Taped> {
    match value {
        Value::Real(x) => Val::Real(Taped::input(*x)),
        Value::Int(n) => Val::Int(*n),
        Value::Reals(xs) => Val::reals(xs.iter().map(|&x| Taped::input(x)).collect::<Vec<_>>()),
        Value::Array(elements) => Val::array_of(elements.iter().map(taped).collect::<Vec<_>>()),
        other => panic!("no test here takes {other:?}"),
    }
}

/// The trap that `f` ends in, whatever is asked for.
#[track_caller]
fn trap_at(code: &str, args: &[Value], limits: &Limits) -> Trap {
    let loaded = load(code);
    let traps = [Mode::Call, Mode::Gradient].map(|mode| match outcome_at(&loaded, args, mode, limits) {
        Outcome::Trap(trap) => trap,
        other => panic!("expected a trap, found {other:?}"),
    });
    assert_eq!(traps[0], traps[1]);
    let [trap, _] = traps;
    trap
}

#[track_caller]
fn trap(code: &str, args: &[Value]) -> Trap {
    trap_at(code, args, &Limits::default())
}

fn reals(xs: &[f64]) -> Vec<Value> {
    xs.iter().map(|&x| Value::Real(x)).collect()
}

/// Sums of `sin(k · x)²` over some `k`, and the derivative.
fn wave_squares(x: f64, ks: impl IntoIterator<Item = usize>) -> (f64, f64) {
    ks.into_iter().map(|k| k as f64).fold((0.0, 0.0), |(sum, slope), k| {
        let (sin, cos) = (k * x).sin_cos();
        (sum + sin * sin, slope + 2.0 * sin * cos * k)
    })
}

// Values.

#[test]
fn a_value_is_used_in_both_branches_and_after_the_join() {
    let code = "func \"f\" (real, real) -> (real) regs 6 real
        {
          sin r2, r0
          fork 2
          task \"product\" (r2, r1) -> (r3)
          task \"square\" (r2) -> (r4)
          const r5, 3
          fma r5, r5, r2, r3
          add r5, r5, r4
          ret (r5)
        }";
    let (x, y) = (0.7, -1.3);
    let (s, c) = f64::sin_cos(x);
    check(code, &reals(&[x, y]), s * y + s * s + 3.0 * s, &[c * (y + 2.0 * s + 3.0), s]);
}

#[test]
fn a_value_of_one_task_is_used_by_both_tasks_of_a_later_fork() {
    let code = "func \"f\" (real, real) -> (real) regs 6 real
        {
          fork 2
          task \"sine\" (r0) -> (r2)
          task \"square\" (r1) -> (r3)
          fork 2
          task \"product\" (r2, r3) -> (r4)
          task \"product\" (r2, r0) -> (r5)
          add r4, r4, r5
          ret (r4)
        }";
    let (x, y) = (0.7, -1.3);
    let (s, c) = f64::sin_cos(x);
    check(code, &reals(&[x, y]), s * y * y + x * s, &[c * y * y + s + x * c, 2.0 * s * y]);
}

#[test]
fn later_tasks_may_be_any_number_of_forks_deeper_on_one_side() {
    for (deep, n) in [("down", 1), ("down_right", 1), ("down", 2), ("down", 40), ("down_right", 40), ("down", 1000)] {
        for swapped in [false, true] {
            let left = format!("task \"{deep}\" (r2, r3, i0) -> (r4)");
            let right = "task \"product\" (r2, r0) -> (r5)".to_owned();
            let (first, second) = if swapped { (right, left) } else { (left, right) };
            let code = format!(
                "func \"f\" (real, real) -> (real) regs 6 real, 1 int
                {{
                  iconst i0, {n}
                  fork 2
                  task \"sine\" (r0) -> (r2)
                  task \"square\" (r1) -> (r3)
                  fork 2
                  {first}
                  {second}
                  add r4, r4, r5
                  ret (r4)
                }}"
            );
            let (x, y, n) = (0.7, -1.3, f64::from(n));
            let (s, c) = f64::sin_cos(x);
            let value = s * y * y + n * s * s + x * s;
            check(&code, &reals(&[x, y]), value, &[c * y * y + 2.0 * n * s * c + s + x * c, 2.0 * s * y]);
        }
    }
}

#[test]
fn results_go_through_a_hundred_successive_forks_and_through_thousands() {
    for n in [100, 3000] {
        let code = format!(
            "func \"f\" (real, real) -> (real) regs 4 real, 4 int
            {{
              iconst i0, 0
              iconst i1, 1
              iconst i2, {n}
            next:
              fork 2
              task \"sine\" (r0) -> (r2)
              task \"product\" (r0, r1) -> (r3)
              add r0, r2, r3
              iadd i0, i0, i1
              ilt i3, i0, i2
              branch i3, next, end
            end:
              ret (r0)
            }}"
        );
        // Small enough that the first steps still matter after thousands.
        let (mut x, c) = (0.9f64, 1e-4);
        let (mut by_x, mut by_c) = (1.0, 0.0);
        for _ in 0..n {
            let slope = x.cos() + c;
            (by_x, by_c) = (slope * by_x, slope * by_c + x);
            x = x.sin() + c * x;
        }
        check(&code, &reals(&[0.9, c]), x, &[by_x, by_c]);
    }
}

#[test]
fn a_tree_of_forks_adds_up_its_leaves() {
    let code = "func \"tree\" (real, int) -> (real) regs 3 real, 2 int
        {
          branch i0, more, leaf
        more:
          iconst i1, 1
          isub i0, i0, i1
          const r1, 1.25
          const r2, 0.5
          mul r1, r1, r0
          mul r2, r2, r0
          fork 2
          task \"tree\" (r1, i0) -> (r1)
          task \"tree\" (r2, i0) -> (r2)
          add r0, r1, r2
          ret (r0)
        leaf:
          sin r0, r0
          ret (r0)
        }
        func \"f\" (real) -> (real) regs 1 real, 1 int
        {
          iconst i0, 10
          tail_call \"tree\" (r0, i0)
        }";
    let x = 0.8;
    let (mut value, mut slope, mut ways) = (0.0, 0.0, 1.0);
    for k in 0..=10 {
        let factor = 1.25f64.powi(k) * 0.5f64.powi(10 - k);
        value += ways * (factor * x).sin();
        slope += ways * factor * (factor * x).cos();
        ways = ways * f64::from(10 - k) / f64::from(k + 1);
    }
    check(code, &reals(&[x]), value, &[slope]);
}

#[test]
fn a_fork_has_as_many_tasks_as_may_be() {
    for count in [1usize, 2, 3, 255, 256] {
        let tasks: String =
            (0..count).map(|n| format!("task \"product\" (r0, r{}) -> (r{})\n", 1 + n % 2, 3 + n)).collect();
        let sum: String = (0..count).map(|n| format!("fma r0, r{0}, r{0}, r0\n", 3 + n)).collect();
        let code = format!(
            "func \"f\" (real, real, real) -> (real) regs {} real\n{{\nfork {count}\n{tasks}{sum}ret (r0)\n}}",
            count + 3
        );
        let (x, y, z) = (0.7, -1.3, 0.4);
        let (ys, zs) = (count.div_ceil(2) as f64, (count / 2) as f64);
        let squares = ys * y * y + zs * z * z;
        let gradient = [1.0 + 2.0 * x * squares, 2.0 * ys * x * x * y, 2.0 * zs * x * x * z];
        check(&code, &reals(&[x, y, z]), x + x * x * squares, &gradient);
    }
}

#[test]
fn one_register_may_be_several_arguments() {
    let code = "func \"f\" (real) -> (real) regs 3 real
        {
          fork 2
          task \"product\" (r0, r0) -> (r1)
          task \"product\" (r0, r0) -> (r2)
          fork 1
          task \"product\" (r1, r2) -> (r0)
          ret (r0)
        }";
    let x = 1.7f64;
    check(code, &reals(&[x]), x.powi(4), &[4.0 * x.powi(3)]);
}

#[test]
fn results_may_go_where_arguments_came_from() {
    let code = "func \"f\" (real, real) -> (real) regs 3 real
        {
          fork 2
          task \"product\" (r0, r1) -> (r2)
          task \"sine\" (r1) -> (r1)
          fork 2
          task \"product\" (r0, r2) -> (r2)
          task \"square\" (r0) -> (r0)
          fma r0, r0, r1, r2
          ret (r0)
        }";
    let (x, y) = (0.7f64, -1.3f64);
    let value = x * x * y + x * x * y.sin();
    check(code, &reals(&[x, y]), value, &[2.0 * x * (y + y.sin()), x * x * (1.0 + y.cos())]);
}

#[test]
fn tasks_may_return_their_arguments() {
    let code = "func \"f\" (real, real) -> (real) regs 4 real
        {
          fork 2
          task \"same\" (r0) -> (r2)
          task \"same\" (r1) -> (r3)
          fork 2
          task \"same\" (r2) -> (r3)
          task \"same\" (r1) -> (r2)
          ret (r2)
        }";
    check(code, &reals(&[3.0, 5.0]), 5.0, &[0.0, 1.0]);
    let code = "func \"f\" (real) -> (real) regs 1 real
        {
          fork 1
          task \"same\" (r0) -> (r0)
          ret (r0)
        }";
    check(code, &reals(&[3.0]), 3.0, &[1.0]);
}

#[test]
fn tasks_on_constants_write_no_record() {
    let code = "func \"f\" (real) -> (real) regs 3 real
        {
          const r1, 2
          fork 2
          task \"sine\" (r1) -> (r2)
          task \"square\" (r1) -> (r1)
          fork 1
          task \"product\" (r1, r2) -> (r1)
          ret (r1)
        }";
    check(code, &reals(&[1.0]), 4.0 * 2f64.sin(), &[0.0]);
    match outcome(&load(code), &reals(&[1.0]), Mode::Gradient) {
        Outcome::Done { stats, .. } => assert_eq!(stats.records, 0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn inputs_that_tasks_do_not_use_have_derivative_zero() {
    let code = "func \"second\" (real, real, t0) -> (real) regs 2 real, t0
        {
          sin r0, r0
          mul r1, r1, r1
          ret (r1)
        }
        func \"f\" (real, real, real, t0) -> (real) regs 5 real, t0
        {
          fork 2
          task \"second\" (r0, r1, p0) -> (r3)
          task \"sine\" (r2) -> (r4)
          ret (r3)
        }";
    let mut args = reals(&[f64::NAN, 3.0, f64::INFINITY]);
    args.push(Value::Reals(vec![1.0, f64::NAN]));
    check(code, &args, 9.0, &[0.0, 6.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_zero_adjoint_times_an_infinite_partial_is_zero_in_tasks_too() {
    let code = "func \"f\" (real, real) -> (real) regs 5 real, 1 int
        {
          fork 2
          task \"root\" (r0) -> (r2)
          task \"root\" (r1) -> (r3)
          const r4, 0
          fork 2
          task \"product\" (r2, r4) -> (r2)
          task \"same\" (r3) -> (r3)
          add r2, r2, r3
          ret (r2)
        }";
    check(code, &reals(&[0.0, 4.0]), 2.0, &[0.0, 0.25]);
    check(code, &reals(&[0.0, 0.0]), 0.0, &[0.0, f64::INFINITY]);
}

// Objects.

#[test]
fn cells_of_a_list_belong_to_different_tasks() {
    let code = "func \"f\" (real, int) -> (real) regs 4 real, 4 int, t2, t2
        {
          iconst i1, 0
          iconst i2, 1
          variant_new p0, 0 ()
          const r1, 0
        next:
          add r1, r1, r0
          fork 2
          task \"cons\" (p0, r0) -> (p1)
          task \"cons\" (p0, r1) -> (p0)
          iadd i1, i1, i2
          ilt i3, i1, i0
          branch i3, next, end
        end:
          fork 2
          task \"list_squares\" (p0) -> (r2)
          task \"list_squares\" (p1) -> (r3)
          add r2, r2, r3
          ret (r2)
        }";
    for n in [1, 2, 40] {
        let x = 0.3;
        let (all, one) = (wave_squares(x, 1..=n), wave_squares(x, [1]));
        let before = wave_squares(x, 1..n);
        let expected = (all.0 + before.0 + one.0, all.1 + before.1 + one.1);
        check(code, &[Value::Real(x), Value::Int(n as i64)], expected.0, &[expected.1]);
    }
}

#[test]
fn captures_of_a_closure_belong_to_other_tasks() {
    let code = "func \"body\" (real, real, t0, real) -> (real) regs 4 real, 1 int, t0
        {
          iconst i0, 1
          elem r3, p0, i0
          fma r2, r2, r0, r1
          mul r2, r2, r3
          ret (r2)
        }
        func \"apply\" (t3, real) -> (real) regs 1 real, t3
        {
          call_closure p0 (r0) -> (r0)
          ret (r0)
        }
        func \"close\" (real, real, t0) -> (t3) regs 2 real, t0, t3
        {
          closure_new p1, \"body\" (r0, r1, p0)
          ret (p1)
        }
        func \"f\" (real, real) -> (real) regs 6 real, 1 int, t0, t3
        {
          iconst i0, 3
          fork 3
          task \"sine\" (r0) -> (r2)
          task \"square\" (r1) -> (r3)
          task \"waves\" (r1, i0) -> (p0)
          fork 2
          task \"close\" (r2, r3, p0) -> (p1)
          task \"same\" (r0) -> (r4)
          fork 2
          task \"apply\" (p1, r4) -> (r4)
          task \"apply\" (p1, r2) -> (r5)
          add r4, r4, r5
          ret (r4)
        }";
    // (x · s + y²) · sin y + (s · s + y²) · sin y, where s = sin x
    let (x, y) = (0.7f64, -1.3f64);
    let ((s, c), (w, v)) = (x.sin_cos(), y.sin_cos());
    let sum = x * s + s * s + 2.0 * y * y;
    check(code, &reals(&[x, y]), sum * w, &[(s + x * c + 2.0 * s * c) * w, 4.0 * y * w + sum * v]);
}

#[test]
fn an_array_of_one_task_is_read_by_others_in_every_order() {
    let code = |reader: &str| {
        format!(
            "func \"f\" (real, int) -> (real) regs 6 real, 8 int, t0, t0, t4
            {{
              iconst i1, 0
              iconst i2, 1
              iconst i3, 3
              iconst i4, 5
              iconst i5, 2
              pack p2 (i3, i1, i3, i4, i2, i3)
              fork 2
              task \"waves\" (r0, i0) -> (p0)
              task \"sine\" (r0) -> (r1)
              fork 3
              task \"square\" (r1) -> (r2)
              {reader} -> (r3)
              {reader} -> (r4)
              add r3, r3, r4
              add r3, r3, r2
              ret (r3)
            }}"
        )
    };
    for n in [6usize, 7, 100, 5000] {
        let readers: [(&str, Vec<usize>); 7] = [
            ("task \"squares\" (p0, i1, i0, i2)", (0..n).collect()),
            ("task \"squares\" (p0, i3, i4, i2)", (3..5).collect()),
            ("task \"squares\" (p0, i5, i0, i3)", (2..n).step_by(3).collect()),
            ("task \"squares\" (p0, i3, i3, i2)", vec![]),
            ("task \"squares_backwards\" (p0)", (0..n).collect()),
            ("task \"squares_by_table\" (p0, p2)", vec![3, 0, 3, 5, 1, 3]),
            ("task \"squares\" (p0, i4, i0, i0)", vec![5]),
        ];
        for (reader, ks) in readers {
            let x = 0.3;
            let (read, own) = (wave_squares(x, ks), wave_squares(x, [1]));
            let args = [Value::Real(x), Value::Int(n as i64)];
            check(&code(reader), &args, 2.0 * read.0 + own.0, &[2.0 * read.1 + own.1]);
        }
        let (x, (s, c)) = (0.3, f64::sin_cos(0.9));
        let own = wave_squares(x, [1]);
        let args = [Value::Real(x), Value::Int(n as i64)];
        check(&code("task \"element\" (p0, i3)"), &args, 2.0 * s + own.0, &[6.0 * c + own.1]);
    }
}

#[test]
fn arrays_of_length_zero_cross_forks() {
    let code = "func \"give\" (t0) -> (t0) regs t0
        {
          ret (p0)
        }
        func \"f\" (t0, real) -> (real) regs 3 real, 4 int, t0, t0, t0
        {
          iconst i0, 0
          iconst i1, 1
          fork 3
          task \"give\" (p0) -> (p0)
          task \"waves\" (r0, i0) -> (p1)
          task \"sine\" (r0) -> (r0)
          pmap p2, \"waves_between\", i0 (r0)
          len i2, p2
          fork 3
          task \"squares_backwards\" (p0) -> (r1)
          task \"squares\" (p1, i0, i2, i1) -> (r2)
          task \"same\" (r0) -> (r0)
          add r0, r0, r1
          add r0, r0, r2
          ret (r0)
        }";
    let (s, c) = f64::sin_cos(0.3);
    check(code, &[Value::Reals(vec![]), Value::Real(0.3)], s, &[c]);
    check(code, &[Value::Reals(vec![3.0, -2.0]), Value::Real(0.3)], 13.0 + s, &[6.0, -4.0, c]);
}

#[test]
fn rows_of_a_jacobian_lead_into_different_tasks() {
    let code = "func \"pair\" (real, real) -> (t5) regs 3 real, 2 int, t5, t0
        {
          iconst i0, 2
          iconst i1, 7
          fork 2
          task \"waves\" (r0, i0) -> (p1)
          task \"product\" (r0, r1) -> (r2)
          struct_new p0 (r2, i1, p1)
          ret (p0)
        }
        func \"f\" (real, real) -> (t6, t2, real)
          export (x : Real, y : Real) -> (Array (Real, Int, Array Real @t0) @t6, List Real @t2, Real)
          regs 4 real, t5, t5, t2, t6
        {
          variant_new p2, 0 ()
          fork 4
          task \"pair\" (r0, r1) -> (p0)
          task \"pair\" (r1, r0) -> (p1)
          task \"cons\" (p2, r1) -> (p2)
          task \"square\" (r1) -> (r2)
          fork 2
          task \"cons\" (p2, r0) -> (p2)
          task \"sine\" (r2) -> (r3)
          pack p3 (p0, p1)
          ret (p3, p2, r3)
        }";
    let (x, y) = (0.7f64, -1.3f64);
    let Outcome::Done { gradients, .. } = outcome(&load(code), &reals(&[x, y]), Mode::Jacobian) else {
        panic!("the function returns")
    };
    let expected: [[f64; 2]; 9] = [
        [y, x],
        [0.0, 0.0],
        [x.cos(), 0.0],
        [y, x],
        [0.0, 0.0],
        [0.0, y.cos()],
        [x.cos(), 0.0],
        [0.0, y.cos()],
        [0.0, 2.0 * y * (y * y).cos()],
    ];
    assert_eq!(gradients.len(), expected.len());
    for (row, expected) in gradients.iter().zip(expected) {
        assert_all_close(&flatten(row), &expected, 1e-13);
    }
}

// Parallel maps.

#[test]
fn a_parallel_map_gives_every_element_once_and_in_order() {
    let code = "func \"f\" (real, int) -> (real) regs 4 real, 5 int, t0
        {
          iconst i1, 0
          iconst i2, 1
          pmap p0, \"waves_between\", i0 (r0)
          len i3, p0
          const r1, 0
          ilt i4, i1, i3
          branch i4, next, end
        next:
          elem r2, p0, i1
          to_real r3, i1
          fma r1, r2, r3, r1
          iadd i1, i1, i2
          ilt i4, i1, i3
          branch i4, next, end
        end:
          ret (r1)
        }";
    let loaded = load(code);
    for n in [0i32, 1, 2, 3, 255, 256, 257, 511, 512, 1000] {
        let x = 0.01;
        let (mut value, mut slope) = (0.0, 0.0);
        for k in (0..n).map(f64::from) {
            value += k * (k * x).sin();
            slope += k * k * (k * x).cos();
        }
        let args = [Value::Real(x), Value::Int(n.into())];
        let found = outcome(&loaded, &args, Mode::Gradient);
        let Outcome::Done { value: Value::Real(sum), .. } = found else { panic!("{n}: {found:?}") };
        let scale = f64::from(n).powi(3) + 1.0;
        assert!((sum - value).abs() < 1e-13 * scale, "{n}: found {sum}, expected {value}");
        let by_x = found.gradient()[0];
        assert!((by_x - slope).abs() < 1e-13 * scale, "{n}: found {by_x}, expected {slope}");
    }
}

/// The start and the end of each range, from a function that returns both.
#[test]
fn a_count_is_split_in_one_way() {
    let code = "func \"bounds\" (int, int) -> (t4) regs 2 int, t4
        {
          pack p0 (i0, i1)
          ret (p0)
        }
        func \"f\" (int) -> (t4) regs 1 int, t4
        {
          pmap p0, \"bounds\", i0 ()
          ret (p0)
        }";
    let loaded = load(code);
    for n in [0, 1, 2, 100, 255, 256, 257, 300, 1000, 1 << 40, i64::MAX - 1, i64::MAX] {
        let tasks = i128::from(n.min(256));
        let bound = |task: i128| Value::Int((task * i128::from(n) / tasks) as i64);
        let expected: Vec<Value> = (0..tasks).flat_map(|task| [bound(task), bound(task + 1)]).collect();
        match outcome(&loaded, &[Value::Int(n)], Mode::Call) {
            Outcome::Done { value: Value::Array(found), .. } => assert_eq!(found, expected, "{n}"),
            other => panic!("{n}: {other:?}"),
        }
    }
    for n in [-1, -256, i64::MIN] {
        assert_eq!(trap(code, &[Value::Int(n)]).kind, TrapKind::BadCapacity(n));
    }
}

#[test]
fn ranges_may_return_arrays_of_any_length() {
    // Each range's function returns the whole array that it takes if its start is odd, else nothing.
    let code = "func \"whole\" (int, int, t0) -> (t0) regs 3 int, t0, t0
        {
          iconst i2, 1
          iand i2, i2, i0
          branch i2, all, none
        all:
          ret (p0)
        none:
          pack p1 ()
          ret (p1)
        }
        func \"f\" (t0, int) -> (real) regs 1 real, 1 int, t0
        {
          pmap p0, \"whole\", i0 (p0)
          pmap p0, \"whole\", i0 (p0)
          tail_call \"squares_backwards\" (p0)
        }";
    for (n, times) in [(0, 0.0), (1, 0.0), (2, 1.0), (5, 2.0), (7, 3.0)] {
        let times = times * times;
        let args = [Value::Reals(vec![3.0, -0.5]), Value::Int(n)];
        check(code, &args, 9.25 * times, &[6.0 * times, -times]);
    }
}

#[test]
fn ranges_read_an_array_of_another_task_as_a_whole_and_by_slices() {
    let code = |low: &str, high: &str| {
        format!(
            "func \"sums\" (int, int, t0) -> (t0) regs 2 real, 5 int, t0, t0
            {{
              iconst i2, 0
              iconst i3, 1
              len i4, p0
              call \"squares\" (p0, {low}, {high}, i3) -> (r0)
              pack p1 (r0)
              ret (p1)
            }}
            func \"f\" (real, int) -> (real) regs 2 real, 2 int, t0, t0
            {{
              fork 1
              task \"waves\" (r0, i0) -> (p0)
              pmap p1, \"sums\", i0 (p0)
              tail_call \"squares_backwards\" (p1)
            }}"
        )
    };
    for n in [1usize, 5, 256, 300] {
        let (x, args) = (0.3, [Value::Real(0.3), Value::Int(n as i64)]);
        let tasks = n.min(256);
        let (whole, whole_slope) = wave_squares(x, 0..n);
        let times = tasks as f64;
        check(&code("i2", "i4"), &args, times * whole * whole, &[2.0 * times * whole * whole_slope]);
        let (mut sum, mut slope) = (0.0, 0.0);
        for task in 0..tasks {
            let (value, by_x) = wave_squares(x, task * n / tasks..(task + 1) * n / tasks);
            sum += value * value;
            slope += 2.0 * value * by_x;
        }
        check(&code("i0", "i1"), &args, sum, &[slope]);
    }
}

#[test]
fn parallel_maps_stand_in_each_other_and_in_forks() {
    let code = "func \"row\" (int, int, real) -> (t0) regs 2 real, 4 int, t0
        {
          iconst i2, 1
          iadd i2, i2, i0
          to_real r1, i0
          add r0, r0, r1
          pmap p0, \"waves_between\", i2 (r0)
          ret (p0)
        }
        func \"rows\" (real) -> (real) regs 1 real, 1 int, t0
        {
          iconst i0, 20
          pmap p0, \"row\", i0 (r0)
          tail_call \"squares_backwards\" (p0)
        }
        func \"f\" (real, real) -> (real) regs 2 real
        {
          fork 2
          task \"rows\" (r0) -> (r0)
          task \"rows\" (r1) -> (r1)
          mul r0, r0, r1
          ret (r0)
        }";
    let rows = |x: f64| {
        (0..20usize).fold((0.0, 0.0), |(sum, slope), n| {
            let (value, by_x) = wave_squares(x + n as f64, 0..=n);
            (sum + value, slope + by_x)
        })
    };
    let ((a, da), (b, db)) = (rows(0.3), rows(0.4));
    check(code, &reals(&[0.3, 0.4]), a * b, &[da * b, a * db]);
}

// Traps.

#[test]
fn the_first_trap_from_the_left_counts() {
    let code = |left: &str, right: &str| {
        format!(
            "func \"f\" (real) -> (real) regs 3 real
            {{
              fork 3
              task \"{left}\" (r0) -> (r1)
              task \"same\" (r0) -> (r2)
              task \"{right}\" (r0) -> (r0)
              add r0, r1, r0
              ret (r0)
            }}"
        )
    };
    for (left, right, message, function) in [
        ("stop_left", "stop_right", "left", "stop_left"),
        ("sine", "stop_right", "right", "stop_right"),
        ("stop_left", "sine", "left", "stop_left"),
        ("stop_right", "stop_left", "right", "stop_right"),
    ] {
        let trap = trap(&code(left, right), &reals(&[0.5]));
        assert_eq!(trap.kind, TrapKind::Message(message.into()));
        let functions: Vec<&str> = trap.innermost.iter().map(|frame| frame.function.as_str()).collect();
        assert_eq!(functions, [function, "f"]);
    }
}

#[test]
fn a_task_that_runs_for_ever_hides_traps_on_its_right() {
    let code = |first: &str, second: &str| {
        format!(
            "func \"f\" (real) -> (real) regs 3 real
            {{
              fork 2
              {first}
              {second}
              ret (r0)
            }}"
        )
    };
    let (endless, stop) = ("task \"for_ever\" () -> ()", "task \"stop_right\" (r0) -> (r1)");
    for fuel in [1, 10, 1_000, 1_000_000] {
        let limits = Limits { fuel, ..Limits::default() };
        let found = trap_at(&code(endless, stop), &reals(&[0.5]), &limits);
        assert_eq!(found.kind, TrapKind::Limit(Limit::Fuel), "{fuel}");
        let expected = if fuel < 10 { TrapKind::Limit(Limit::Fuel) } else { TrapKind::Message("right".into()) };
        assert_eq!(trap_at(&code(stop, endless), &reals(&[0.5]), &limits).kind, expected, "{fuel}");
    }
}

#[test]
fn a_trap_deep_in_one_branch_comes_before_one_at_the_surface_of_the_next() {
    let code = "func \"deep\" (real, int) -> (real) regs 2 real, 2 int
        {
          branch i0, more, leaf
        more:
          iconst i1, 1
          isub i0, i0, i1
          fork 2
          task \"sine\" (r0) -> (r1)
          task \"deep\" (r0, i0) -> (r0)
          ret (r0)
        leaf:
          trap m0
        }
        func \"f\" (real, int) -> (real) regs 2 real, 1 int
        {
          fork 2
          task \"deep\" (r0, i0) -> (r1)
          task \"stop_right\" (r0) -> (r0)
          ret (r0)
        }";
    for n in [0, 1, 5, 200] {
        let trap = trap(code, &[Value::Real(0.5), Value::Int(n)]);
        assert_eq!(trap.kind, TrapKind::Message("left".into()));
        assert_eq!(trap.innermost.len() + trap.omitted + trap.outermost.len(), n as usize + 2);
    }
}

#[test]
fn the_first_range_that_traps_counts() {
    let code = "func \"inverses\" (int, int, int) -> (t4) regs 4 int, t4
        {
          isub i3, i0, i2
          idiv i3, i0, i3
          pack p0 (i3)
          ielem i3, p0, i0
          ret (p0)
        }
        func \"f\" (int, int) -> (t4) regs 2 int, t4
        {
          pmap p0, \"inverses\", i0 (i1)
          ret (p0)
        }";
    let at = |n, k| trap(code, &[Value::Int(n), Value::Int(k)]).kind;
    assert_eq!(at(300, 0), TrapKind::DivisionByZero);
    assert_eq!(at(256, 1), TrapKind::DivisionByZero);
    assert_eq!(at(256, 2), TrapKind::IndexOutOfBounds { index: 1, len: 1 });
}

#[test]
fn every_limit_stops_all_engines_at_one_place() {
    let code = "func \"f\" (real, int) -> (real) regs 4 real, 4 int, t0, t0, t2
        {
          variant_new p2, 0 ()
          fork 3
          task \"waves\" (r0, i0) -> (p0)
          task \"down\" (r0, r0, i0) -> (r1)
          task \"cons\" (p2, r0) -> (p2)
          pmap p1, \"waves_between\", i0 (r1)
          fork 3
          task \"squares_backwards\" (p0) -> (r1)
          task \"squares_backwards\" (p1) -> (r2)
          task \"list_squares\" (p2) -> (r3)
          add r1, r1, r2
          add r1, r1, r3
          ret (r1)
        }";
    let (loaded, args) = (load(code), [Value::Real(0.4), Value::Int(4)]);
    for mode in [Mode::Call, Mode::Gradient] {
        let Outcome::Done { stats, .. } = outcome(&loaded, &args, mode) else { panic!("{mode:?} comes to its end") };
        for fuel in 0..stats.instructions {
            let found = outcome_at(&loaded, &args, mode, &Limits { fuel, ..Limits::default() });
            let Outcome::Trap(trap) = found else { panic!("{mode:?} ends with {fuel} of fuel: {found:?}") };
            assert_eq!(trap.kind, TrapKind::Limit(Limit::Fuel));
        }
        for allocated_bytes in (0..stats.allocated_bytes).step_by(8) {
            let found = outcome_at(&loaded, &args, mode, &Limits { allocated_bytes, ..Limits::default() });
            let Outcome::Trap(trap) = found else { panic!("{mode:?} ends in {allocated_bytes} bytes: {found:?}") };
            assert_eq!(trap.kind, TrapKind::Limit(Limit::AllocatedBytes));
        }
    }
}

#[test]
fn frames_of_tasks_count_as_those_of_calls_do() {
    let forks = "func \"f\" (real, int) -> (real) regs 2 real, 1 int
        {
          fork 2
          task \"sine\" (r0) -> (r1)
          task \"down_right\" (r0, r0, i0) -> (r0)
          add r0, r0, r1
          ret (r0)
        }";
    let calls = "func \"in_turn\" (real, real, int) -> (real) regs 3 real, 2 int
        {
          branch i0, more, leaf
        more:
          iconst i1, 1
          isub i0, i0, i1
          call \"square\" (r0) -> (r2)
          call \"in_turn\" (r0, r1, i0) -> (r1)
          add r0, r1, r2
          ret (r0)
        leaf:
          tail_call \"product\" (r0, r1)
        }
        func \"f\" (real, int) -> (real) regs 2 real, 1 int
        {
          call \"sine\" (r0) -> (r1)
          call \"in_turn\" (r0, r0, i0) -> (r0)
          add r0, r0, r1
          ret (r0)
        }";
    let args = [Value::Real(0.4), Value::Int(6)];
    for depth in 1..12 {
        let limits = Limits { depth, ..Limits::default() };
        let [forked, called] =
            [forks, calls].map(|code| match outcome_at(&load(code), &args, Mode::Gradient, &limits) {
                Outcome::Done { value, .. } => format!("{value:?}"),
                Outcome::Trap(trap) => format!("{:?}", trap.kind),
                other => panic!("{other:?}"),
            });
        assert_eq!(forked, called, "{depth}");
    }
}
