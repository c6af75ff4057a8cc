//! Parallel maps: how a count is split, what ranges may return and read, and maps in maps, on every engine.

mod support;

use dualvm_vm::trap::TrapKind;
use dualvm_vm::value::Value;
use support::engines::{Mode, Outcome};
use support::tasks::{check, load, outcome, reals, trap, wave_squares};

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
        match &outcome(&loaded, &[Value::Int(n)], Mode::Call) {
            Outcome::Done { value: Value::Array(found), .. } => assert_eq!(*found, expected, "{n}"),
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
