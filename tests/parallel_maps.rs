//! Parallel maps: how a count is split, on every engine. What maps give is in `filetests/forks/maps`.

mod support;

use dualvm_vm::value::Value;
use support::engines::{Mode, Outcome};
use support::tasks::{load, outcome};

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
}
