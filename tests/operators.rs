//! Programs with derivative operators, `operators/*.dual`: every definition that is a `Bool` is true, interpreted and
//! compiled; `-- grad f 2 => 4.0` says what the host's gradient is, and `-- fails: f` that a call traps.

use dualvm::vm::module::HostType;
use dualvm::{Config, Engine, Jit, Module, Value};
use std::fs;
use std::path::Path;

#[test]
#[ignore = "the virtual machine doesn't run operators yet"]
fn programs_with_operators_say_what_is_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/operators");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the programs are there").map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut wrong = Vec::new();
    for path in &files {
        let text = fs::read_to_string(path).unwrap();
        for jit in [Jit::Off, Jit::Always] {
            let name = format!("{} with {jit:?}", path.file_name().unwrap().to_string_lossy());
            wrong.extend(mistakes(&text, jit).into_iter().map(|mistake| format!("{name}: {mistake}")));
        }
    }
    assert!(files.len() >= 3);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What of a program isn't as it says.
fn mistakes(text: &str, jit: Jit) -> Vec<String> {
    let mut config = Config::default();
    config.jit = jit;
    let module =
        Module::from_source(&Engine::new(config), "operators.dual", text).unwrap_or_else(|error| panic!("{error}"));
    let mut wrong = Vec::new();
    for function in module.functions() {
        let interface = function.interface();
        if interface.params.is_empty() && interface.result == HostType::Bool {
            let found = function.call(&[]);
            if !matches!(found, Ok(Value::Bool(true))) {
                wrong.push(format!("{}: {found:?}", function.name()));
            }
        }
    }
    for line in text.lines() {
        if let Some(claim) = line.strip_prefix("-- grad ") {
            let (call, wanted) = claim.split_once(" => ").expect("a gradient is said");
            let (name, arg) = call.split_once(' ').expect("the function has an argument");
            let [arg, wanted]: [f64; 2] = [arg, wanted].map(|number| number.parse().expect("it is a number"));
            let found = module.function(name).expect("it is exported").value_and_grad(&[Value::Real(arg)]);
            let gradient = found.as_ref().ok().and_then(|(_, gradient)| gradient[0].as_real());
            if gradient.is_none_or(|gradient| (gradient - wanted).abs() > 1e-9) {
                wrong.push(format!("{claim}: {found:?}"));
            }
        }
        if let Some(name) = line.strip_prefix("-- fails: ") {
            let found = module.function(name).expect("it is exported").call(&[]);
            wrong.extend(found.is_ok().then(|| format!("{name} should fail: {found:?}")));
        }
    }
    wrong
}
