//! Modules and texts that are hard to compile and to run, at sizes at which they are not: the verifier and the compiler
//! accept each of them, and all engines run them alike. `tests/support/hostile.rs` has the list.

mod support;

use dualvm_vm::module::ModuleDef;
use dualvm_vm::value::Value;
use support::engines::{Engines, Mode, Outcome};
use support::{bytes, hostile};

/// Runs `main` for a few arguments, in all modes, on all engines.
#[track_caller]
fn run_alike(name: &str, def: &ModuleDef, engines: &mut Engines) {
    let loaded = engines.load(def).unwrap_or_else(|errors| panic!("{name}: the verifier refuses: {}", errors[0]));
    for n in [0, 1, 3] {
        for mode in [Mode::Call, Mode::Gradient] {
            let outcome = loaded.run("main", &[Value::Real(0.75), Value::Int(n)], mode, &bytes::limits());
            match outcome.unwrap_or_else(|error| panic!("{name}, n = {n}: {error}")) {
                Outcome::Other(error) => panic!("{name}, n = {n}: {error}"),
                Outcome::Trap(trap) if n == 0 => panic!("{name}, n = {n}: {trap}"),
                Outcome::Done { .. } | Outcome::Trap(_) => {}
            }
        }
    }
}

#[test]
fn hostile_modules_of_small_sizes_run_alike() {
    let mut engines = Engines::all();
    for family in hostile::ALL {
        for size in [1, 2, family.small] {
            run_alike(&format!("{} of size {size}", family.name), &(family.make)(size), &mut engines);
        }
    }
}

#[test]
fn hostile_texts_of_small_sizes_run_alike() {
    let mut engines = Engines::all();
    for family in hostile::sources::ALL {
        for size in [1, 2, family.small] {
            let (name, text) = (format!("{} of size {size}", family.name), (family.write)(size));
            let def = dualvm_frontend::compile("hostile.dual", &text);
            let def = def.unwrap_or_else(|errors| panic!("{name}: {errors}\n{text}"));
            run_alike(&name, &def, &mut engines);
        }
    }
}
