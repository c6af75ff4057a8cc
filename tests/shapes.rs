//! Structs whose integers belong to their shape, `tests/data/shapes.dvs`: what derivative operators give and what they
//! refuse, on all engines, beside the reference with trees of dual numbers, and against differences at the border.

mod support;

use dualvm_vm::engine::Limits;
use dualvm_vm::module::ModuleDef;
use dualvm_vm::trap::TrapKind;
use dualvm_vm::value::Value;
use support::check::arguments;
use support::dual_trees::Tree;
use support::engines::{Engines, Loaded, Mode, Outcome};
use support::reference::{Number, Stop, Val, run};

fn module() -> ModuleDef {
    let mut def = support::assemble(include_str!("data/shapes.dvs"));
    support::export_all(&mut def);
    def
}

/// Two reals and two sizes.
fn args(x: f64, y: f64, m: i64, n: i64) -> Vec<Value> {
    vec![x.into(), y.into(), m.into(), n.into()]
}

/// What a call gives on all engines: reals and integers in order.
fn called(loaded: &Loaded, name: &str, args: &[Value]) -> Result<Vec<f64>, TrapKind> {
    let number = |value: &Value| match value {
        Value::Real(x) => *x,
        Value::Int(n) => *n as f64,
        other => panic!("{name} gives {other}"),
    };
    match loaded.run(name, args, Mode::Call, &Limits::default()).unwrap_or_else(|error| panic!("{error}")) {
        Outcome::Done { value: Value::Tuple(ref parts), .. } => Ok(parts.iter().map(number).collect()),
        Outcome::Done { value, .. } => Ok(vec![number(&value)]),
        Outcome::Trap(trap) => Err(trap.kind),
        Outcome::Other(error) => panic!("{name}: {error}"),
    }
}

/// The same of the reference.
fn by_trees(def: &ModuleDef, name: &str, args: &[Value]) -> Result<Vec<f64>, TrapKind> {
    let func = def.function(name).expect("it is there").0.index();
    let number = |val: &Val<Tree>| match val {
        Val::Real(x) => x.primal(),
        Val::Int(n) => *n as f64,
        Val::Ref(_) => panic!("{name} gives an object"),
    };
    match run(def, func, arguments(args, |_, x| Tree::Leaf(x)), 1_000_000) {
        Ok((results, _)) => Ok(results.iter().map(number).collect()),
        Err(Stop::Trap(kind)) => Err(kind),
        Err(Stop::TooLong) => panic!("{name} is too long"),
    }
}

/// Asserts that all engines and the reference find the same.
#[track_caller]
fn agreed(loaded: &Loaded, def: &ModuleDef, name: &str, args: &[Value]) -> Result<Vec<f64>, TrapKind> {
    let (found, expected) = (called(loaded, name, args), by_trees(def, name, args));
    match (&found, &expected) {
        (Ok(found), Ok(expected)) => support::assert_all_close(found, expected, 1e-12),
        // Which of two shapes is whose, a rule that is transposed doesn't know.
        (Err(found), Err(expected)) => assert_eq!(shapes(found), shapes(expected), "{name}"),
        _ => panic!("{name}: found {found:?}, expected {expected:?}"),
    }
    found
}

/// The two shapes of which one should be the other, in order.
#[track_caller]
fn shapes(kind: &TrapKind) -> [&str; 2] {
    let TrapKind::OtherShape(shapes) = kind else { panic!("{kind}") };
    let mut shapes = [shapes.expected.as_str(), &shapes.found];
    shapes.sort_unstable();
    shapes
}

#[test]
fn what_operators_give_has_the_integers_of_what_it_belongs_to() {
    let def = module();
    let loaded = Engines::all().load(&def, 0).expect("the verifier accepts it");
    let found = |name: &str| agreed(&loaded, &def, name, &args(2.0, 3.0, 5, 7)).expect("nothing traps");
    // The squares of 2, 3 and 6, in the direction 3, 2, 6.
    assert_eq!(found("pushed"), [12.0, 12.0, 72.0, 7.0, 5.0, 7.0, 5.0]);
    assert_eq!(found("pulled"), [12.0, 12.0, 72.0, 5.0, 7.0]);
    // 2 · 75 times them.
    assert_eq!(found("gradient"), [300.0, 450.0, 900.0, 5.0, 7.0]);
    assert_eq!(found("curved"), [450.0, 300.0, 900.0, 5.0, 7.0]);
    assert_eq!(found("reversed"), [450.0, 300.0, 900.0, 5.0, 7.0]);
    // Of a struct that isn't shaped the integer is 0; of a shaped one it is what the function has made of it.
    let sizes = [[5.0, 7.0], [7.0, 7.0], [7.0, 5.0]];
    assert_eq!(found("nested_pushed")[4..], [7.0, 5.0, 7.0, 7.0, 7.0, 5.0, 0.0, 7.0, 5.0, 14.0]);
    let [table, square, _] = sizes;
    assert_eq!(found("nested_pulled")[4..], [&table[..], &square, &table, &[0.0], &table, &[7.0]].concat());
    let [by_two, by_argument] = [[12.0, 12.0, 72.0], [12.0, 12.0, 72.0]];
    assert_eq!(found("custom"), [&by_two[..], &by_two, &by_argument, &by_argument, &[5.0, 7.0]].concat());
}

#[test]
fn functions_with_tangents_keep_shapes() {
    let def = module();
    let loaded = Engines::all().load(&def, 1).expect("the verifier accepts it");
    for (x, y) in [(2.0, 3.0), (-0.5, 1.25), (0.0, -0.0)] {
        agreed(&loaded, &def, "written", &args(x, y, 2, 3)).expect("nothing traps");
    }
}

#[test]
fn other_integers_are_another_shape() {
    let def = module();
    let loaded = Engines::all().load(&def, 2).expect("the verifier accepts it");
    let wrong = [
        "pushed_wrongly",
        "pulled_wrongly",
        "nested_wrongly",
        "wrong_vjp_pushed",
        "wrong_jvp_pushed",
        "wrong_vjp_pulled",
        "wrong_jvp_pulled",
    ];
    for name in wrong {
        let args = |m: i64, n: i64| vec![2.0.into(), m.into(), n.into()];
        agreed(&loaded, &def, name, &args(4, 4)).unwrap_or_else(|kind| panic!("{name}: {kind}"));
        let kind = agreed(&loaded, &def, name, &args(2, 3)).expect_err(name);
        assert_eq!(shapes(&kind), ["of shape 2 × 3", "of shape 3 × 2"], "{name}");
    }
}

#[test]
fn gradients_of_operators_are_near_differences() {
    let def = module();
    let loaded = Engines::all().load(&def, 3).expect("the verifier accepts it");
    for name in ["curve", "inside"] {
        let args = args(0.75, -1.25, 2, 3);
        let outcome = loaded.run(name, &args, Mode::Gradient, &Limits::default()).unwrap_or_else(|e| panic!("{e}"));
        let gradient = outcome.gradient();
        let function = loaded.function(name).expect("it is exported");
        for (n, &found) in gradient.iter().enumerate() {
            let expected = support::finite_difference(&function, &args, n, 1e-4);
            support::assert_close(found, expected, 1e-7);
        }
        // By rows and by columns.
        for mode in [Mode::Jacobian, Mode::Columns] {
            let outcome = loaded.run(name, &args, mode, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
            support::assert_all_close(&outcome.gradient(), &gradient, 1e-12);
        }
        let outcome = loaded.run(name, &args, Mode::Hessian, &Limits::default());
        assert!(matches!(outcome, Ok(Outcome::Done { .. })), "{name}: {outcome:?}");
    }
}

#[test]
fn a_detached_object_keeps_its_integers() {
    let def = module();
    let loaded = Engines::all().load(&def, 4).expect("the verifier accepts it");
    let args = args(0.75, -1.25, 2, 3);
    let jacobian = |name: &str| match loaded.run(name, &args, Mode::Jacobian, &Limits::default()) {
        Ok(Outcome::Done { value, gradients, .. }) => (support::flatten(&[value]), gradients),
        other => panic!("{name}: {other:?}"),
    };
    let ((value, held), (_, curve)) = (jacobian("held"), jacobian("curve"));
    let scaled: Vec<f64> = support::flatten(&curve[0]).iter().map(|x| x * value[0]).collect();
    assert_eq!(support::flatten(&held[0]), [0.0, 0.0]);
    support::assert_all_close(&support::flatten(&held[1]), &scaled, 1e-12);
}
