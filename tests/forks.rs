//! Forks at hand-overs: values, lists, arrays and closures that one task makes and others use, in every order that a
//! program can bring about, each against a closed form and on every engine.

mod support;

use dualvm_vm::value::Value;
use support::engines::{Mode, Outcome};
use support::tasks::{check, load, outcome, reals, wave_squares};
use support::{assert_all_close, flatten};

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
fn elements_of_an_array_belong_to_different_tasks() {
    let code = |reader: &str| {
        format!(
            "func \"f\" (real, int) -> (real) regs 4 real, 8 int, t0, t1, t4
            {{
              iconst i1, 0
              iconst i2, 1
              iconst i3, 2
              iconst i4, 3
              iadd i5, i0, i0
              build p1, i5
            next:
              to_real r1, i1
              fork 2
              task \"product\" (r0, r1) -> (r2)
              task \"product\" (r1, r0) -> (r3)
              fork 2
              task \"sine\" (r2) -> (r2)
              task \"sine\" (r3) -> (r3)
              push p1, r2
              push p1, r3
              iadd i1, i1, i2
              ilt i6, i1, i0
              branch i6, next, end
            end:
              finish p0, p1
              iconst i1, 0
              pack p2 (i4, i1, i4, i3, i2, i4)
              {reader}
            }}"
        )
    };
    for n in [2usize, 3, 40, 400] {
        let twice = |k: usize| k / 2;
        let readers: [(&str, Vec<usize>); 5] = [
            ("tail_call \"squares\" (p0, i1, i5, i2)", (0..2 * n).map(twice).collect()),
            ("tail_call \"squares\" (p0, i2, i5, i4)", (1..2 * n).step_by(3).map(twice).collect()),
            ("tail_call \"squares_backwards\" (p0)", (0..2 * n).map(twice).collect()),
            ("tail_call \"squares_by_table\" (p0, p2)", [3, 0, 3, 2, 1, 3].map(twice).to_vec()),
            ("fork 1\ntask \"squares_backwards\" (p0) -> (r0)\nret (r0)", (0..2 * n).map(twice).collect()),
        ];
        for (reader, ks) in readers {
            let expected = wave_squares(0.3, ks);
            check(&code(reader), &[Value::Real(0.3), Value::Int(n as i64)], expected.0, &[expected.1]);
        }
    }
}

/// Enough garbage that a small heap is evacuated time and again.
#[test]
fn an_array_is_read_by_one_task_while_the_next_one_is_made_by_another() {
    let code = "func \"f\" (real, int) -> (real) regs 3 real, 5 int, t0
        {
          iconst i1, 0
          iconst i2, 1
          iconst i3, 1000
          pack p0 ()
          const r1, 0
        next:
          fork 2
          task \"squares_backwards\" (p0) -> (r2)
          task \"waves\" (r0, i3) -> (p0)
          add r1, r1, r2
          iadd i1, i1, i2
          ilt i4, i1, i0
          branch i4, next, end
        end:
          ret (r1)
        }";
    let rounds = 60;
    let (value, slope) = wave_squares(0.3, 0..1000);
    let times = f64::from(rounds - 1);
    check(code, &[Value::Real(0.3), Value::Int(rounds.into())], times * value, &[times * slope]);
}

#[test]
fn objects_go_down_and_up_through_many_forks() {
    let code = "func \"carry\" (t0, t2, t3, real, int) -> (t0, t2, t3, real) regs 1 real, 2 int, t0, t2, t3
        {
          branch i0, more, leaf
        more:
          iconst i1, 1
          isub i0, i0, i1
          fork 1
          task \"carry\" (p0, p1, p2, r0, i0) -> (p0, p1, p2, r0)
          ret (p0, p1, p2, r0)
        leaf:
          ret (p0, p1, p2, r0)
        }
        func \"scaled\" (real, real) -> (real) regs 2 real
        {
          mul r0, r0, r1
          ret (r0)
        }
        func \"f\" (real, int) -> (real) regs 6 real, 2 int, t0, t2, t3, t0
        {
          iconst i1, 3
          closure_new p2, \"scaled\" (r0)
          variant_new p1, 0 ()
          fork 2
          task \"waves\" (r0, i1) -> (p0)
          task \"cons\" (p1, r0) -> (p1)
          fork 2
          task \"waves\" (r0, i1) -> (p3)
          task \"carry\" (p0, p1, p2, r0, i0) -> (p0, p1, p2, r1)
          fork 2
          task \"squares_backwards\" (p0) -> (r2)
          task \"list_squares\" (p1) -> (r3)
          call_closure p2 (r1) -> (r4)
          add r2, r2, r3
          add r2, r2, r4
          ret (r2)
        }";
    for n in [0, 1, 2, 300] {
        let x = 0.3;
        let (array, list) = (wave_squares(x, 0..3), wave_squares(x, [1]));
        let value = array.0 + list.0 + x * x;
        check(code, &[Value::Real(x), Value::Int(n)], value, &[array.1 + list.1 + 2.0 * x]);
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
