//! Modules and texts that are hard to compile and to run, at sizes at which they are not: the verifier and the compiler
//! accept each of them, and all engines run them alike. `tests/support/hostile.rs` has the list.

mod support;

use dualvm_vm::module::ModuleDef;
use support::dice::Dice;
use support::engines::Engines;
use support::watchdog::Watchdog;
use support::{from_environment, hostile};

#[track_caller]
fn run_alike(name: &str, def: &ModuleDef, engines: &mut Engines) {
    hostile::run::alike(def, engines).unwrap_or_else(|error| panic!("{name}: {error}"));
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

/// The same sizes and larger ones as a fuzzer chooses them: the target `hostile`.
#[test]
fn hostile_modules_end_soon_after_a_deadline_and_run_alike_afterwards() {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let seeds = from_environment("DUALVM_SEEDS").unwrap_or(150);
    let (watchdog, mut engines) = (Watchdog::new(), Engines::for_fuzzing());
    for seed in first..first + seeds {
        watchdog.watch(seed);
        let choices = Dice::with_seed(seed).bytes(16);
        hostile::run::from_bytes(&choices, &mut engines).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
