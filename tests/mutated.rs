//! Modules with changed structure: the verifier refuses them and says why, or they come back from text and bytes as
//! they are and run alike on all engines.
//!
//! `DUALVM_SEEDS=n` makes n mutants instead of some hundreds, `DUALVM_FIRST_SEED=s` begins at another one;
//! `DUALVM_ENGINES` says on which engines they run. A failure prints the seed, what was changed and the module. The
//! same mutants, chosen by a fuzzer, are its target `mutated`.

mod support;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::bytes::check_mutant;
use support::dice::Dice;
use support::engines::Engines;
use support::from_environment;
use support::mutate::{MUTATIONS, mutant};
use support::watchdog::Watchdog;

#[test]
fn mutants_are_refused_or_run_alike() {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let seeds = from_environment("DUALVM_SEEDS").unwrap_or(1_500);
    let watchdog = Watchdog::new();
    let mut engines = Engines::for_fuzzing();
    let (mut accepted, mut run) = (0, 0);
    // How often each mutation was part of a mutant that was accepted, and of one that wasn't.
    let mut counts: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for seed in first..first + seeds {
        watchdog.watch(seed);
        let mut dice = Dice::with_seed(seed);
        let mutant = catch_unwind(AssertUnwindSafe(|| mutant(&mut dice)));
        let mutant = mutant.unwrap_or_else(|_| panic!("seed {seed}: a panic"));
        let checked = catch_unwind(AssertUnwindSafe(|| check_mutant(&mutant, &mut dice, seed, &mut engines)));
        match checked.unwrap_or_else(|_| Err("a panic".into())) {
            Ok(ran) => run += u64::from(ran),
            Err(error) => panic!("seed {seed}: {error}\n{}", mutant.shown()),
        }
        accepted += u64::from(mutant.verdict.is_ok());
        for change in &mutant.changes {
            counts.entry(change).or_default()[usize::from(mutant.verdict.is_err())] += 1;
        }
    }
    let changes: u64 = counts.values().map(|[accepted, _]| accepted).sum();
    println!("{accepted} of {seeds} mutants were accepted, with {changes} mutations, and {run} were run");
    println!("mutations of those that were accepted and of those that were refused:");
    counts.iter().for_each(|(name, [accepted, refused])| println!("{accepted:6} {refused:6} {name}"));
    assert!(accepted * 10 >= seeds * 4, "too few mutants are accepted: {accepted} of {seeds}");
    assert!(run * 10 >= accepted * 9, "too few mutants can be run: {run} of {accepted}");
    if seeds >= 1_000 {
        let never: Vec<&str> =
            MUTATIONS.iter().map(|(name, ..)| *name).filter(|name| !counts.contains_key(name)).collect();
        assert!(never.is_empty(), "mutations that never happen: {never:?}");
    }
}
