//! Instructions that no path reaches: they obey the verifier, and nothing else may ever see them. The same program with
//! them and without runs alike on all engines, and records alike.

mod support;

use dualvm_vm::engine::Limits;
use dualvm_vm::value::Value;
use support::dead_code::{ALIVE, DEAD, DEAD_BEHIND, args, program, program_behind};
use support::engines::{Engines, Mode, Outcome};
use support::{assemble, export_all, flatten};

/// Values, gradients, and how many records were written.
fn run(source: &str) -> (f64, Vec<f64>, u64) {
    let mut def = assemble(source);
    export_all(&mut def);
    let loaded = Engines::all().load(&def, 0).unwrap_or_else(|errors| panic!("{}\n{source}", errors[0]));
    let limits = Limits { fuel: 100_000, ..Limits::default() };
    let mut found = (0.0, Vec::new(), 0);
    for mode in [Mode::Call, Mode::Gradient, Mode::Jacobian] {
        let outcome = loaded.run("f", &args(), mode, &limits).unwrap_or_else(|error| panic!("{error}\n{source}"));
        match outcome {
            Outcome::Done { value: Value::Real(value), gradients, stats } => {
                found = (value, gradients.iter().flat_map(|row| flatten(row)).collect(), stats.records);
            }
            other => panic!("{other:?}\n{source}"),
        }
    }
    found
}

#[test]
fn code_that_no_path_reaches_changes_nothing() {
    for alive in ALIVE {
        let expected = run(&program(alive));
        assert!(expected.2 > 0 && expected.1.iter().any(|&x| x != 0.0), "{expected:?}");
        for dead in DEAD {
            assert_eq!(run(&program(&format!("{alive}\n {dead}"))), expected, "{alive}\n{dead}");
        }
    }
}

#[test]
fn code_that_nothing_leads_to_may_stand_first_in_a_loop_of_its_own() {
    let expected = run(&program_behind(""));
    for dead in DEAD_BEHIND {
        assert_eq!(run(&program_behind(dead)), expected, "{dead}");
    }
}
