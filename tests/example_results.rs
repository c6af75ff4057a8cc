//! The results of the examples to the last bit, with what their tapes hold: `tests/data/example_results.txt` has what
//! the command that stands in each example prints. A change of the machine that is to change no result changes nothing
//! there.
//!
//! `DUALVM_BLESS=1` writes the file anew.

#[path = "support/commands.rs"]
mod commands;

use commands::{commands, numbers, words};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What of the statistics is the program's own, not the machine's.
const COUNTS: [&str; 4] = ["instructions", "records", "slots", "tape bytes"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The commands in the comments of an example, without `dualvm`.
fn commands_of(example: &Path) -> Vec<String> {
    commands(&std::fs::read_to_string(example).expect("examples can be read"))
}

/// What the command prints, and the counts of its statistics.
fn run(command: &str, more: &[&str]) -> String {
    let mut dualvm = Command::new(env!("CARGO_BIN_EXE_dualvm"));
    let done = dualvm.current_dir(root()).args(words(command)).args(more).arg("--stats").output();
    let done = done.expect("the command starts");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{command}\n{err}");
    let counts = err.lines().filter(|line| COUNTS.iter().any(|count| line.starts_with(count)));
    counts.fold(out.into_owned(), |all, line| all + line + "\n")
}

fn examples() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join("examples")).expect("there are examples");
    let mut examples: Vec<PathBuf> = folder.map(|entry| entry.expect("entries can be read").path()).collect();
    examples.retain(|path| path.extension().is_some_and(|extension| extension == "dual" || extension == "dvs"));
    examples.sort();
    examples
}

/// The numbers in what a command prints, but for those of its statistics.
fn results(printed: &str) -> Vec<f64> {
    let results = printed.lines().filter(|line| !COUNTS.iter().any(|count| line.starts_with(count)));
    results.flat_map(numbers).collect()
}

#[test]
fn no_number_of_the_examples_becomes_infinite() {
    for command in examples().iter().flat_map(|example| commands_of(example)) {
        // What a check of gradients calls isn't one call.
        if command.starts_with("check-grad") {
            continue;
        }
        let (expected, found) = (results(&run(&command, &[])), results(&run(&command, &["--trap-nan"])));
        assert_eq!(found.len(), expected.len(), "{command}");
        // Last bits may be others, and where a fit ends follows from these.
        let tolerance = if command.contains(" fitted ") { 1e-6 } else { 1e-9 };
        for (a, b) in expected.iter().zip(found) {
            assert!((a - b).abs() <= tolerance * a.abs().max(1.0), "{command}: {a} and {b}");
        }
    }
}

#[test]
fn examples_print_what_they_always_have() {
    let mut found = String::new();
    for command in examples().iter().flat_map(|example| commands_of(example)) {
        let results = run(&command, &["--jit", "off", "--threads", "1"]);
        let native = run(&command, &["--jit", "always", "--threads", "2"]);
        assert_eq!(native, results, "{command}: natively on two threads");
        writeln!(found, "$ dualvm {command}\n{results}").expect("writing to a string succeeds");
    }
    let file = root().join("tests/data/example_results.txt");
    if std::env::var_os("DUALVM_BLESS").is_some() {
        std::fs::write(&file, &found).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(&file).expect("the results stand in the repository");
    assert_eq!(found, expected, "results have changed: DUALVM_BLESS=1 writes them anew");
}
