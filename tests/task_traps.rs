//! Tasks at limits: a fork ends as if its tasks had run one after the other, on every engine. Which of several traps
//! counts is in `filetests/forks/traps`.

mod support;

use dualvm_vm::engine::Limits;
use dualvm_vm::trap::{Limit, TrapKind};
use dualvm_vm::value::Value;
use support::engines::{Mode, Outcome};
use support::tasks::{load, outcome, outcome_at, reals, trap_at};

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
