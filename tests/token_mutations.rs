//! Whatever text comes in, the compiler answers with a module or with errors: programs of the repository with some of
//! their tokens changed never make it panic, and what it accepts passes the verifier.
//!
//! `DUALVM_MUTATIONS` is the number of programs (default 1,500), `DUALVM_SEED` the seed.

use dualvm::{Engine, ErrorKind, Module, frontend};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, found `{text}`")),
        Err(_) => default,
    }
}

/// All programs of the repository: files, and blocks of code in the documentation.
fn programs() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut left: Vec<PathBuf> = ["examples", "tests", "docs", "frontend"].map(|name| root.join(name)).into();
    let mut programs = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("directories of the repository can be read");
            left.extend(entries.map(|entry| entry.expect("entries can be read").path()));
            // The order of a directory is the system's.
            left.sort();
        } else if path.extension().is_some_and(|extension| extension == "dual") {
            programs.push(std::fs::read_to_string(&path).expect("programs are UTF-8"));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = std::fs::read_to_string(&path).expect("documentation is UTF-8");
            let blocks = text.split("```").skip(1).step_by(2);
            let code = blocks.filter_map(|block| block.split_once('\n')).map(|(_, code)| code);
            programs.extend(code.filter(|code| code.contains("def ")).map(str::to_owned));
        }
    }
    programs
}

/// What kind of characters stand together in a token.
fn class(c: char) -> u8 {
    match c {
        ' ' => 0,
        _ if c.is_alphanumeric() || "_.'".contains(c) => 1,
        _ if "+-*/<>=|&:\\^!@".contains(c) => 2,
        // A token of its own.
        _ => 3,
    }
}

/// Cuts text into tokens, more or less as the language does; put together they are the text.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let (mut start, mut last) = (0, 3);
    for (at, c) in text.char_indices() {
        let class = class(c);
        if at > start && (class != last || class == 3) {
            tokens.push(&text[start..at]);
            start = at;
        }
        last = class;
    }
    tokens.push(&text[start..]);
    tokens
}

/// What a program may hold and these programs may not: limits of literals, and text that no program has.
const ODD: [&str; 14] = [
    "9223372036854775808",
    "1e999",
    "0x",
    "\"",
    "\u{0}",
    "é",
    "\t",
    "\r\n",
    "((((((((",
    "]]]]",
    "--",
    "{..}",
    "::",
    "999999999999999999999999",
];

fn mutate(program: &[&str], all: &[Vec<&str>], rng: &mut fastrand::Rng) -> String {
    let mut tokens: Vec<&str> = program.to_vec();
    for _ in 0..rng.usize(1..=4) {
        let at = rng.usize(..tokens.len());
        match rng.u8(..7) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[at]),
            2 => {
                let other = rng.usize(..tokens.len());
                tokens.swap(at, other);
            }
            3 => tokens[at] = program[rng.usize(..program.len())],
            4 => {
                let other = &all[rng.usize(..all.len())];
                tokens[at] = other[rng.usize(..other.len())];
            }
            5 => tokens.insert(at, ODD[rng.usize(..ODD.len())]),
            _ => {
                let end = (at + rng.usize(..20)).min(tokens.len());
                tokens.drain(at..end);
            }
        }
        if tokens.is_empty() {
            break;
        }
    }
    tokens.concat()
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
