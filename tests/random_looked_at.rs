//! Random programs in engines that look for numbers that aren't finite: results are those of other engines, and a
//! number that stops a program is one that its instruction makes.
//!
//! `DUALVM_SEEDS=n` runs n seeds of each style.

mod support;

use dualvm_vm::engine::{Config, Engine, Function, Jit, Module, RunError};
use dualvm_vm::isa::{Op, Scalar, evaluate};
use dualvm_vm::trap::{NonFinite, Origin, Role, Step, TrapKind};
use dualvm_vm::value::Value;
use support::from_environment;
use support::generate::{Program, Style, program, program_with_operators};

/// The exported function, in an engine that looks at numbers or doesn't.
fn function(program: &Program, trap_nan: bool) -> Function {
    let mut config = Config::default();
    (config.trap_nan, config.jit) = (trap_nan, Jit::Off);
    config.limits.fuel = 2_000_000;
    config.limits.tape_bytes = 1 << 30;
    let module = Module::new(&Engine::new(config), program.module.clone()).expect("the program is verified");
    module.functions().next().expect("it exports a function")
}

/// Whether a step gives what it says for what it was given.
fn is_true(step: &Step) -> bool {
    if step.result.is_none() {
        // A derivative operator.
        return true;
    }
    let Some(op) = Op::from_mnemonic(step.operation) else { return false };
    let operands: Vec<Scalar> = step.operands.iter().map(|operand| operand.value).collect();
    match (evaluate(op, &operands), step.result) {
        (Some(Scalar::Real(result)), Some(said)) => {
            result.to_bits() == said.to_bits() || result.is_nan() && said.is_nan()
        }
        (found, said) => panic!("{step:?} gives {found:?}, not {said:?}"),
    }
}

/// Whether what is said of a number holds together.
fn check_report(found: &NonFinite) {
    assert!(!found.number.is_finite());
    assert!(is_true(&found.step), "{found:?}");
    assert!(found.role != Role::Primal || found.step.result.is_some_and(|result| !result.is_finite()));
    assert!(found.adjoint.is_none_or(|adjoint| adjoint != 0.0 && adjoint.is_finite()) || found.step.result.is_some());
    let mut before = &found.step;
    for step in &found.chain {
        assert!(is_true(step), "{found:?}");
        // Each step gives what the one before has followed, or a tangent of it.
        if let (Some(followed), Some(result), 0) = (before.followed, step.result, step.component) {
            let operand = &before.operands[followed.operand];
            let number = match followed.component {
                0 => operand.value,
                component => Scalar::Real(operand.tangents[component - 1]),
            };
            let is_it = |value: f64| value.to_bits() == result.to_bits() || value.is_nan() && result.is_nan();
            assert!(matches!(number, Scalar::Real(value) if is_it(value)), "{step:?} doesn't give {number:?}");
        }
        before = step;
    }
    assert!(found.omitted == 0 || found.chain.len() == 12);
    assert!(found.origin != Origin::Given || found.step.followed.is_none() || !found.chain.is_empty());
}

fn same(a: &Value, b: &Value) -> bool {
    a.to_string() == b.to_string()
}

fn check(seed: u64, program: &Program) -> (bool, bool) {
    let (plain, looked_at) = (function(program, false), function(program, true));
    let mut stopped = false;
    let mut outcome = |found: Result<Value, RunError>, expected: Result<Value, RunError>| match (found, expected) {
        (Ok(found), Ok(expected)) => assert!(same(&found, &expected), "seed {seed}: {found} and {expected}"),
        (Err(RunError::Trap(trap)), expected) => match (&trap.kind, expected) {
            (TrapKind::NonFinite(found), _) => {
                stopped = true;
                check_report(found);
            }
            (TrapKind::Limit(_), _) | (_, Err(_)) => {}
            (kind, Ok(expected)) => panic!("seed {seed}: {kind} and {expected}"),
        },
        (Err(_), Err(_)) => {}
        (Ok(_), Err(RunError::Trap(trap))) if matches!(trap.kind, TrapKind::Limit(_)) => {}
        (found, expected) => panic!("seed {seed}: {found:?} and {expected:?}"),
    };
    outcome(looked_at.call(&program.args), plain.call(&program.args));
    let value_of = |function: &Function| function.value_and_grad(&program.args).map(|(value, _)| Value::Real(value));
    outcome(value_of(&looked_at), value_of(&plain));
    let jacobian = |function: &Function| function.jacobian(&program.args).map(|found| found.value);
    outcome(jacobian(&looked_at), jacobian(&plain));
    (stopped, plain.call(&program.args).is_ok())
}

/// How many seeds there are, if so many are usual.
fn seeds(usual: u64) -> u64 {
    from_environment("DUALVM_SEEDS").unwrap_or(usual)
}

fn check_style(style: Style, make: fn(u64, Style) -> Program, usual: u64) -> u64 {
    (0..seeds(usual)).filter(|&seed| check(seed, &make(seed, style)).0).count() as u64
}

#[test]
fn tame_programs_have_the_same_results() {
    assert!(check_style(Style::Tame, program, 100) * 2 < seeds(100), "values are moderate");
    check_style(Style::Loops, program, 60);
    check_style(Style::Data, program, 60);
    check_style(Style::Parallel, program, 60);
}

#[test]
fn what_stops_wild_programs_is_what_is_said() {
    assert!(check_style(Style::Wild, program, 150) > 10, "zeros and infinities are common");
}

#[test]
fn derivatives_in_programs_too() {
    for style in [Style::Tame, Style::Wild, Style::Parallel] {
        check_style(style, program_with_operators, 60);
    }
}
