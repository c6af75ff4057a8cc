//! Random programs of the language: compiled, and run by the engines and by the reference, which must agree; written
//! in two ways, which must compute the same; and damaged, which the compiler must survive.
//!
//! `DUALVM_SEEDS=n` runs n seeds of each, `DUALVM_FIRST_SEED=s` begins at another one.

mod support;

use dualvm_vm::engine::{CallOptions, Engine, Limits, Module};
use dualvm_vm::value::Value;
use support::check::check_seeds;
use support::dice::Dice;
use support::sources::{program, source};
use support::{from_environment, load, same};

#[test]
fn sources_agree_with_the_reference() {
    let counts = check_seeds("sources", 250, |seed| program(seed, seed % 4 == 3));
    assert!(counts.too_long * 20 < counts.programs + 40, "too many programs are too long to be of use: {counts:?}");
    assert!(counts.nonzero * 2 > counts.programs, "too few gradients are not zero: {counts:?}");
    assert!(counts.finite_differences * 5 > counts.programs * 2, "too few differences could be taken: {counts:?}");
    assert!(counts.trapped * 20 < counts.programs + 20, "too many programs trap: {counts:?}");
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    first..first + from_environment("DUALVM_SEEDS").unwrap_or(count)
}

#[test]
fn what_the_compiler_can_see_through_changes_no_bit() {
    let options = CallOptions::with_limits(Limits { fuel: 10_000_000, ..Limits::default() });
    let (mut equal, mut stopped) = (0, 0);
    for seed in seeds(250) {
        let (plain, veiled) = (program(seed, false), program(seed, true));
        assert_eq!(plain.args, veiled.args);
        let run = |module: &dualvm_vm::module::ModuleDef| {
            let main = load(module.clone()).function("main").expect("main is exported");
            main.call_with(&plain.args, &options).map(|(value, _)| value)
        };
        match (run(&plain.module), run(&veiled.module)) {
            (Ok(Value::Real(a)), Ok(Value::Real(b))) if same(a, b) => equal += 1,
            (Ok(a), Ok(b)) => panic!("seed {seed}: {a} is not {b}\n{}\n{}", plain.shown(), veiled.shown()),
            // What is not needed may be left out, and so may its trap.
            _ => stopped += 1,
        }
    }
    assert!(stopped * 10 <= equal + 10, "{stopped} programs stopped, {equal} did not");
}

/// Tokens of the language, and what is between them.
fn tokens(source: &str) -> Vec<&str> {
    let mut rest = source;
    let mut out = Vec::new();
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let len = if word(first) { rest.find(|c| !word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (token, after) = rest.split_at(len);
        out.push(token);
        rest = after;
    }
    out
}

#[test]
fn damaged_sources_are_refused_or_compiled_to_verified_code() {
    let engine = Engine::default();
    let (mut refused, mut accepted) = (0, 0);
    for seed in seeds(400) {
        let (whole, _) = source(seed, false);
        let mut dice = Dice::with_seed(seed ^ 0xdead);
        let mut parts = tokens(&whole);
        for _ in 0..dice.usize(1..4) {
            let (a, b) = (dice.usize(..parts.len()), dice.usize(..parts.len()));
            match dice.u8(..4) {
                0 => drop(parts.remove(a)),
                1 => parts.insert(a, parts[b]),
                2 => parts.swap(a, b),
                _ => parts[a] = parts[b],
            }
        }
        let damaged = parts.concat();
        let outcome = std::panic::catch_unwind(|| dualvm_frontend::compile("damaged.dual", &damaged));
        match outcome.unwrap_or_else(|_| panic!("seed {seed}: the compiler panics on\n{damaged}")) {
            Ok(def) => {
                accepted += 1;
                if let Err(errors) = Module::new(&engine, def) {
                    panic!("seed {seed}: the verifier refuses what the compiler made: {}\n{damaged}", errors[0]);
                }
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0 && accepted > 0, "{refused} were refused, {accepted} were not");
}
