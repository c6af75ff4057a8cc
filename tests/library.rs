//! The library's modules, and the examples that import them, against independent implementations, on all engines, and
//! their derivatives against differences.
//!
//! A module has a program in `tests/library` whose definitions are called. Those without parameters are `true`,
//! but for what is said to trap: `-- trap: f => message`. Others have cases in `tests/oracles`, with arguments and the
//! value; with `gradient` the derivatives of an independent implementation, too, with an entry per argument, or
//! `"unstated"`. Derivatives of all cases are compared with differences, `"second": true`
//! second ones, too, and `"differences": false` none. An example's cases are in `tests/oracles/examples.json`, with its
//! name.

mod support;

use dualvm::{CheckOptions, Engine, Module, Value, Verdict};
use dualvm_vm::engine::Limits;
use serde::de::DeserializeSeed;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use support::engines::{Engines, Mode, Outcome};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The cases of an oracle, and how far from them values may be.
fn oracle(module: &str) -> (Vec<Json>, f64) {
    let path = tests().join(format!("oracles/{module}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let Json::Object(mut oracle) = serde_json::from_str(&text).expect("the oracle is JSON") else {
        panic!("{module}: the oracle is no object")
    };
    let Some(Json::Array(cases)) = oracle.remove("cases") else { panic!("{module}: there are no cases") };
    (cases, oracle["tolerance"].as_f64().expect("an oracle has a tolerance"))
}

/// Whether a value is what an oracle says: reals within a tolerance, relative for those beyond 1.
fn agrees(found: &Value, expected: &Json, tolerance: f64) -> bool {
    let real = |found: f64, expected: &Json| match expected {
        Json::String(text) => text.parse().is_ok_and(|expected| support::same(found, expected)),
        expected => expected.as_f64().is_some_and(|x| (found - x).abs() <= tolerance * x.abs().max(1.0)),
    };
    match (found, expected) {
        (Value::Null, Json::Null) => true,
        (Value::Real(found), expected) => real(*found, expected),
        (Value::Int(found), expected) => expected.as_i64() == Some(*found),
        (Value::Bool(found), expected) => expected.as_bool() == Some(*found),
        (Value::Reals(found), Json::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(found, x)| real(*found, x))
        }
        (Value::Array(found) | Value::Tuple(found), Json::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(found, x)| agrees(found, x, tolerance))
        }
        (Value::Record(found), Json::Object(expected)) => {
            let field = |(name, found): &(String, Value)| agrees(found, &expected[name], tolerance);
            found.len() == expected.len() && found.iter().all(field)
        }
        (Value::Variant(found, _), Json::String(expected)) => found == expected,
        (Value::Variant(name, payload), Json::Object(expected)) => match (&**payload, expected.get(name.as_str())) {
            (Value::Tuple(parts), Some(field)) if parts.len() == 1 => agrees(&parts[0], field, tolerance),
            (payload, Some(expected)) => agrees(payload, expected, tolerance),
            (_, None) => false,
        },
        _ => false,
    }
}

/// Checks a module's program and its cases. Returns how many cases there were.
fn check(module: &str) -> usize {
    let (cases, tolerance) = oracle(module);
    check_program(module, &tests().join(format!("library/{module}_calls.dual")), (&cases, tolerance), true)
}

/// Checks a program and its cases, which are within this tolerance unless they have one of their own; and that what it
/// `claims` is true.
fn check_program(module: &str, path: &Path, (cases, tolerance): (&[Json], f64), claims: bool) -> usize {
    let source = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = format!("{module}.dual");
    let def = dualvm_frontend::compile(&file, &source).unwrap_or_else(|errors| panic!("{errors}"));
    let loaded = Engines::all().load(&def, 0).unwrap_or_else(|errors| panic!("{module}: {}", errors[0]));
    let run = |name: &str, args: &[Value], mode: Mode| {
        loaded.run(name, args, mode, &Limits::default()).unwrap_or_else(|error| panic!("{module}: {name}: {error}"))
    };
    let mut traps = BTreeSet::new();
    for line in source.lines().filter_map(|line| line.strip_prefix("-- trap: ")) {
        let (name, message) = line.split_once(" => ").expect("a trap has a message");
        match run(name, &[], Mode::Call) {
            Outcome::Trap(trap) => assert!(trap.to_string().contains(message), "{module}: {name}: {trap}"),
            other => panic!("{module}: {name}: {other:?}"),
        }
        traps.insert(name);
    }
    for function in &def.functions {
        let Some(interface) = &function.interface else { continue };
        if claims && interface.params.is_empty() && !traps.contains(function.name.as_str()) {
            match run(&function.name, &[], Mode::Call) {
                Outcome::Done { value: Value::Bool(true), .. } => {}
                other => panic!("{module}: {}: {other:?}", function.name),
            }
        }
    }

    let program = Module::from_source(&Engine::default(), &file, &source).unwrap_or_else(|error| panic!("{error}"));
    for case in cases {
        let name = case["function"].as_str().expect("a case has a function");
        let function = program.function(name).unwrap_or_else(|error| panic!("{error}"));
        let text = case["args"].to_string();
        let args = function.arguments_seed().deserialize(&mut serde_json::Deserializer::from_str(&text));
        let args = args.unwrap_or_else(|error| panic!("{name} {text}: {error}"));
        let tolerance = case["tolerance"].as_f64().unwrap_or(tolerance);
        let gradient = case["gradient"].as_array();
        let mode = if gradient.is_some() { Mode::Gradient } else { Mode::Call };
        let Outcome::Done { value, gradients, .. } = run(name, &args, mode) else {
            panic!("{name} {text}: {:?}", run(name, &args, mode))
        };
        assert!(agrees(&value, &case["value"], tolerance), "{name} {text}: {value}, expected {}", case["value"]);
        if let Some(gradient) = gradient {
            let found = &gradients[0];
            let right =
                |(found, expected): (&Value, &Json)| expected == "unstated" || agrees(found, expected, tolerance);
            let right = found.iter().zip(gradient).all(right);
            assert!(right && found.len() == gradient.len(), "{name} {text}: {found:?}, expected {gradient:?}");
        }
        if case["differences"] != Json::Bool(false) {
            let mut options = CheckOptions::default();
            options.points = 0;
            options.second = case["second"] == Json::Bool(true);
            let check = function.check_gradient(&args, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
            let all = check.points.iter().flat_map(|point| &point.comparisons);
            let wrong: Vec<_> = all.filter(|found| found.verdict == Verdict::Wrong).collect();
            assert!(!check.is_wrong(), "{name} {text}: {wrong:#?}");
        }
    }
    cases.len()
}

#[test]
fn examples_are_those_of_jax_and_scipy() {
    let (cases, tolerance) = oracle("examples");
    let of_example = |case: &Json| case["example"].as_str().expect("a case names its example").to_owned();
    let examples: BTreeSet<String> = cases.iter().map(of_example).collect();
    assert!(examples.len() >= 8);
    for example in examples {
        let path = tests().join(format!("../examples/{example}.dual"));
        let cases: Vec<Json> = cases.iter().filter(|case| of_example(case) == example).cloned().collect();
        check_program(&example, &path, (&cases, tolerance), false);
    }
}

#[test]
fn matrices_are_those_of_jax() {
    assert!(check("linalg") > 50);
}

#[test]
fn curves_are_those_of_scipy() {
    assert!(check("interpolate") > 30);
}

#[test]
fn solutions_of_differential_equations_are_those_of_scipy_and_jax() {
    assert!(check("ode") >= 15);
}

#[test]
fn minima_and_roots_are_those_of_jax() {
    assert!(check("optimise") > 25);
}

#[test]
fn random_numbers_are_those_of_an_independent_implementation() {
    assert!(check("random") > 50);
}

#[test]
fn distributions_are_those_of_scipy() {
    assert!(check("stats") > 200);
}
