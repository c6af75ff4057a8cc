//! Whatever text comes in, the compiler answers with a module or with errors: programs of the repository with some of
//! their tokens changed never make it panic, and what it accepts passes the verifier.
//!
//! `DUALVM_MUTATIONS` is the number of programs (default 1,500), `DUALVM_SEED` the seed.

#[path = "support/corpus.rs"]
mod corpus;

use corpus::{mutate, programs, tokens};
use dualvm::{Engine, ErrorKind, Module, frontend};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, found `{text}`")),
        Err(_) => default,
    }
}

#[test]
fn programs_with_changed_tokens_compile_or_are_refused() {
    let (seed, count) = (setting("DUALVM_SEED", 1), setting("DUALVM_MUTATIONS", 1_500));
    let programs = programs();
    let all: Vec<Vec<&str>> = programs.iter().map(|program| tokens(program)).collect();
    assert!(all.len() > 20, "only {} programs were found", all.len());
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut accepted, mut refused) = (0, 0);
    for number in 0..count {
        let text = mutate(&all[rng.usize(..all.len())], &all, &mut rng);
        let compiled = catch_unwind(AssertUnwindSafe(|| frontend::compile("mutated.dual", &text)));
        match compiled.unwrap_or_else(|_| panic!("seed {seed}, program {number}: the compiler panicked on\n{text}")) {
            Ok(def) => {
                accepted += 1;
                if let Err(error) = Module::new(&Engine::default(), def) {
                    assert!(!matches!(error.kind(), ErrorKind::Verify(_)), "seed {seed}, {number}: {error}\n{text}");
                }
            }
            Err(diagnostics) => {
                refused += 1;
                assert!(!diagnostics.to_string().is_empty(), "seed {seed}, program {number}\n{text}");
            }
        }
    }
    // Otherwise the mutations change nothing, or everything.
    assert!(accepted > count / 50 && refused > count / 50, "{accepted} accepted, {refused} refused");
}
