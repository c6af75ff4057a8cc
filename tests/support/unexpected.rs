//! Everything that a compiler of ours would never write: modules that are hard to compile and to run, code that nothing
//! reaches, and mutants.

use super::bytes::check_mutant;
use super::dice::Dice;
use super::engines::{Engines, Mode};
use super::mutate::mutant;
use super::watchdog::Watchdog;
use super::{assemble, bytes, dead_code, export_all, hostile};
use dualvm_vm::module::ModuleDef;

/// Runs them all, and the mutants of the first seeds, on these engines; gives how many modules it were. `Err` shows the
/// one that is wrong.
pub(crate) fn run_all(mutants: u64, watchdog: &Watchdog, engines: &mut Engines) -> Result<u64, String> {
    let mut count = 0;
    for (name, def) in hostile_modules() {
        watchdog.watch(count);
        hostile::run::alike(&def, engines).map_err(|error| format!("{name}: {error}"))?;
        count += 1;
    }
    for source in dead_code_programs() {
        watchdog.watch(count);
        let mut def = assemble(&source);
        export_all(&mut def);
        let loaded = engines.load(&def, count).map_err(|errors| format!("{}\n{source}", errors[0]))?;
        for mode in [Mode::Call, Mode::Gradient, Mode::Jacobian] {
            loaded
                .run("f", &dead_code::args(), mode, &bytes::limits())
                .map_err(|error| format!("{error}\n{source}"))?;
        }
        count += 1;
    }
    for seed in 0..mutants {
        watchdog.watch(count);
        let mut dice = Dice::with_seed(seed);
        let mutant = mutant(&mut dice);
        let checked = check_mutant(&mutant, &mut dice, seed, engines);
        let ran = checked.map_err(|error| format!("seed {seed}: {error}\n{}", mutant.shown()))?;
        count += u64::from(ran);
    }
    Ok(count)
}

fn hostile_modules() -> impl Iterator<Item = (String, ModuleDef)> {
    let modules = hostile::ALL.iter().flat_map(|family| {
        [1, 2, family.small].map(|size| (format!("{} of size {size}", family.name), (family.make)(size)))
    });
    let texts = hostile::sources::ALL.iter().flat_map(|family| {
        [1, 2, family.small].map(|size| {
            let (name, text) = (format!("{} of size {size}", family.name), (family.write)(size));
            let def = dualvm_frontend::compile("hostile.dual", &text);
            let def = def.unwrap_or_else(|errors| panic!("{name}: {errors}\n{text}"));
            (name, def)
        })
    });
    modules.chain(texts)
}

fn dead_code_programs() -> impl Iterator<Item = String> {
    let behind_the_end = dead_code::ALIVE
        .iter()
        .flat_map(|alive| dead_code::DEAD.iter().map(move |dead| dead_code::program(&format!("{alive}\n {dead}"))));
    behind_the_end.chain(dead_code::DEAD_BEHIND.iter().map(|dead| dead_code::program_behind(dead)))
}
