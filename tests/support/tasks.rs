//! Running and checking functions with forks: on every engine, and against closed forms that the reference agrees with.

use super::engines::{Engines, Loaded, Mode, Outcome};
use super::numbers::Taped;
use super::reference::{Val, run};
use super::{assemble, assert_all_close, assert_close, export_missing, flatten};
use dualvm_vm::engine::Limits;
use dualvm_vm::module::ModuleDef;
use dualvm_vm::trap::Trap;
use dualvm_vm::value::Value;

/// Types, and functions for tasks.
const PRELUDE: &str = include_str!("../data/tasks.dvs");

/// The functions for tasks, and `code` after them; every function with a host's types is exported.
fn module(code: &str) -> ModuleDef {
    let mut def = assemble(&format!("{PRELUDE}{code}"));
    export_missing(&mut def);
    def
}

pub(crate) fn load(code: &str) -> Loaded {
    let def = module(code);
    Engines::all().load(&def, 0).unwrap_or_else(|errors| panic!("the verifier refuses: {}", errors[0]))
}

/// What `f` gives on all engines.
#[track_caller]
pub(crate) fn outcome_at(loaded: &Loaded, args: &[Value], mode: Mode, limits: &Limits) -> Outcome {
    loaded.run("f", args, mode, limits).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
pub(crate) fn outcome(loaded: &Loaded, args: &[Value], mode: Mode) -> Outcome {
    outcome_at(loaded, args, mode, &Limits::default())
}

/// Checks value and gradient of `f`, a function with one real result: on all engines, and in the reference.
#[track_caller]
pub(crate) fn check(code: &str, args: &[Value], value: f64, gradient: &[f64]) {
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
pub(crate) fn trap_at(code: &str, args: &[Value], limits: &Limits) -> Trap {
    let loaded = load(code);
    let traps = [Mode::Call, Mode::Jacobian].map(|mode| match outcome_at(&loaded, args, mode, limits) {
        Outcome::Trap(trap) => trap,
        other => panic!("expected a trap, found {other:?}"),
    });
    assert_eq!(traps[0].to_string(), traps[1].to_string());
    let [trap, _] = traps;
    trap
}

pub(crate) fn reals(xs: &[f64]) -> Vec<Value> {
    xs.iter().map(|&x| Value::Real(x)).collect()
}
