//! The programs of the repository, and such with changed tokens.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::{Path, PathBuf};

/// All programs of the repository in files of their own, with their paths.
pub(crate) fn files() -> Vec<(PathBuf, String)> {
    let files = walk(&FOLDERS).into_iter().filter(|path| has_extension(path, "dual"));
    files.map(|path| (path.clone(), std::fs::read_to_string(&path).expect("programs are UTF-8"))).collect()
}

/// All programs of the repository: files, and blocks of code in the documentation.
pub(crate) fn programs() -> Vec<String> {
    let mut programs: Vec<String> = files().into_iter().map(|(_, text)| text).collect();
    for path in walk(&FOLDERS).into_iter().filter(|path| has_extension(path, "md")) {
        let text = std::fs::read_to_string(&path).expect("documentation is UTF-8");
        let blocks = text.split("```").skip(1).step_by(2);
        let code = blocks.filter_map(|block| block.split_once('\n')).map(|(_, code)| code);
        programs.extend(code.filter(|code| code.contains("def ")).map(str::to_owned));
    }
    programs
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Where programs are.
const FOLDERS: [&str; 5] = ["benches", "examples", "tests", "docs", "frontend"];

/// All files in folders of the repository, sorted.
pub(crate) fn walk(folders: &[&str]) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut left: Vec<PathBuf> = folders.iter().map(|name| root.join(name)).filter(|path| path.exists()).collect();
    let mut files = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("directories of the repository can be read");
            left.extend(entries.map(|entry| entry.expect("entries can be read").path()));
        } else {
            files.push(path);
        }
    }
    // The order of a directory is the system's.
    files.sort();
    files
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
pub(crate) fn tokens(text: &str) -> Vec<&str> {
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

pub(crate) fn mutate(program: &[&str], all: &[Vec<&str>], rng: &mut fastrand::Rng) -> String {
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
