//! Instructions that no path reaches: they obey the verifier, and nothing else may ever see them. The same program with
//! them and without runs alike on all engines, and records alike.

mod support;

use dualvm_vm::engine::Limits;
use dualvm_vm::value::Value;
use support::engines::{Engines, Mode, Outcome};
use support::{assemble, export_all, flatten};

/// A loop over an array, whose end may be followed by code.
fn program(last: &str) -> String {
    format!(
        "type t0 = array real
         func f0 \"f\" (real, t0, int) -> (real)
         regs 4 real, 5 int, t0, t0
         {{
          mov r2, r0
          iconst i1, 0
          iconst i2, 1
          jump head
         head:
          elem r1, p0, i1
          fma r2, r1, r0, r2
          iadd i1, i1, i2
          ilt i3, i1, i0
          {last}
         end:
          mul r2, r2, r0
          ret (r2) }}"
    )
}

/// Values, gradients, and how many records were written.
fn run(source: &str) -> (f64, Vec<f64>, u64) {
    let mut def = assemble(source);
    export_all(&mut def);
    let loaded = Engines::all().load(&def).unwrap_or_else(|errors| panic!("{}\n{source}", errors[0]));
    let args = [Value::Real(1.25), Value::Reals(vec![1.0, -2.0, 0.5, 3.0, 0.25]), Value::Int(5)];
    let limits = Limits { fuel: 100_000, ..Limits::default() };
    let mut found = (0.0, Vec::new(), 0);
    for mode in [Mode::Call, Mode::Gradient, Mode::Jacobian] {
        let outcome = loaded.run("f", &args, mode, &limits).unwrap_or_else(|error| panic!("{error}\n{source}"));
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
    let alive = ["branch i3, head, end", "jump end"];
    let dead = [
        "branch i3, head, end",
        "jump head",
        "sin r2, r2\n branch i3, head, end",
        "dead: sin r2, r2\n branch i3, dead, head",
        "dead: jump dead",
        "elem r1, p0, i1\n iadd i1, i1, i2\n ilt i3, i1, i0\n branch i3, head, end",
        "switch i3, [head, end], head",
        "call f0 (r0, p0, i0) -> (r2)\n jump head",
        "fork 1\n task f0 (r0, p0, i0) -> (r2)\n branch i3, head, end",
        // Definitions of what else is a constant, and of what is read in the loop.
        "const r0, 2.0\n iconst i2, 2\n imov i1, i0\n pmov p0, p1\n jump head",
        "trap \"never\"\n jump head",
        "ret (r1)\n tail_call f0 (r0, p0, i0)\n branch i3, head, end",
    ];
    for alive in alive {
        let expected = run(&program(alive));
        assert!(expected.2 > 0 && expected.1.iter().any(|&x| x != 0.0), "{expected:?}");
        for dead in dead {
            assert_eq!(run(&program(&format!("{alive}\n {dead}"))), expected, "{alive}\n{dead}");
        }
    }
}

#[test]
fn code_that_nothing_leads_to_may_stand_first_in_a_loop_of_its_own() {
    // The head of the loop that runs stands behind one that doesn't.
    let source = |dead: &str| program("branch i3, head, end").replace("jump head\n", &format!("jump head\n {dead}\n"));
    let expected = run(&source(""));
    for dead in ["dead: sin r2, r2\n branch i3, dead, head", "jump head", "ilt i3, i1, i0\n branch i3, head, end"] {
        assert_eq!(run(&source(dead)), expected, "{dead}");
    }
}
