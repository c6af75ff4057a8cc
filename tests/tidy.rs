//! Mechanical rules of the repository, over all of its files.

#[path = "support/corpus.rs"]
mod corpus;

#[path = "support/commands.rs"]
mod commands;

use commands::{commands, words};
use std::path::{Path, PathBuf};

const ROOTS: [&str; 10] = ["benches", "bindings", "docs", "examples", "frontend", "jit", "src", "tests", "vm", ".ci"];
const LINE_LENGTH_MAX: usize = 120;

/// Files with macros that read like a table, one row per line, which rustfmt leaves alone.
const TABLES: [&str; 2] = ["vm/src/running/interp.rs", "vm/src/bytecode/isa.rs"];

/// Whether a line of code, not of a comment, is longer for a reason: it is printed assembly, it quotes something long,
/// or it is a row of a table.
fn may_be_long(path: &Path, line: &str) -> bool {
    let comment = line.trim_start().starts_with("//");
    // A command that is run as it stands.
    let command = line.starts_with("--   dualvm ");
    let assembly = path.extension().is_some_and(|extension| extension == "dvs");
    !comment && (assembly || command || line.contains(['"', '\\']) || TABLES.iter().any(|table| path.ends_with(table)))
}

/// All files of the source tree, sorted.
fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = corpus::walk(&ROOTS);
    files.extend(["README.md", "Cargo.toml"].map(|name| root.join(name)));
    files.sort();
    files
}

fn with_extension(extension: &str) -> Vec<(PathBuf, String)> {
    let chosen = files().into_iter().filter(|path| path.extension().is_some_and(|found| found == extension));
    chosen.map(|path| (path.clone(), std::fs::read_to_string(&path).expect("source is UTF-8"))).collect()
}

/// Fails with all places at once.
#[track_caller]
fn none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn lines_of_code_are_short_and_end_cleanly() {
    let mut problems = Vec::new();
    for (path, text) in with_extension("rs").into_iter().chain(with_extension("dual")).chain(with_extension("dvs")) {
        for (number, line) in text.lines().enumerate() {
            let place = format!("{}:{}", path.display(), number + 1);
            if line.chars().count() > LINE_LENGTH_MAX && !may_be_long(&path, line) {
                problems.push(format!("{place}: longer than {LINE_LENGTH_MAX} characters"));
            }
            if line.ends_with(' ') || line.contains('\t') {
                problems.push(format!("{place}: a tab, or white space at the end"));
            }
        }
        if !text.ends_with('\n') || text.ends_with("\n\n") {
            problems.push(format!("{}: should end with one line break", path.display()));
        }
    }
    none(problems);
}

#[test]
fn nothing_is_left_unfinished() {
    // Put together here, so that this file doesn't find itself.
    let words = ["todo", "dbg", "unimplemented"].map(|name| format!("{name}!"));
    let mut problems = Vec::new();
    for (path, text) in with_extension("rs") {
        for (number, line) in text.lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(*word)) {
                // A rule may be spoken of in quotes.
                if !line.contains(&format!("`{word}`")) {
                    problems.push(format!("{}:{}: {word}", path.display(), number + 1));
                }
            }
        }
    }
    none(problems);
}

#[test]
fn every_file_says_what_it_is() {
    let opens = |extension: &str, starts: &'static [&'static str]| {
        let wrong =
            with_extension(extension).into_iter().filter(move |(_, text)| !starts.iter().any(|s| text.starts_with(s)));
        wrong.map(move |(path, _)| format!("{}: should open with {starts:?}", path.display()))
    };
    let mut problems: Vec<String> = opens("rs", &["//! "]).collect();
    problems.extend(opens("md", &["# "]));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let examples = opens("dual", &["-- "]).chain(opens("dvs", &["; "]));
    let folders = ["examples", "tests/filetests"].map(|folder| root.join(folder).display().to_string());
    problems.extend(examples.filter(|problem| folders.iter().any(|folder| problem.starts_with(folder))));
    none(problems);
}

#[test]
fn no_directory_has_a_mod_file() {
    let allowed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/mod.rs");
    let found = files().into_iter().filter(|path| path.ends_with("mod.rs") && *path != allowed);
    let outside_of_tests = found.filter(|path| !path.ends_with("tests/support/mod.rs"));
    none(outside_of_tests.map(|path| path.display().to_string()).collect());
}

/// Commands that the README shows run, up to arguments: their subcommands, flags and files exist.
#[test]
fn commands_in_the_readme_exist() {
    const SUBCOMMANDS: [&str; 18] = [
        "bench",
        "check",
        "check-grad",
        "run",
        "grad",
        "jvp",
        "vjp",
        "hvp",
        "jacobian",
        "hessian",
        "fmt",
        "gradbench",
        "explain",
        "tape",
        "build",
        "disasm",
        "asm",
        "verify",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).expect("there is a README");
    let blocks = readme.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands: Vec<&str> = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(!commands.is_empty(), "the README shows how the program is run");
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        let known = match words.as_slice() {
            ["cargo", "run", rest @ ..] => {
                let after = rest.iter().skip_while(|word| **word != "--").nth(1);
                after.is_some_and(|subcommand| SUBCOMMANDS.contains(subcommand))
            }
            ["dualvm", subcommand, ..] => SUBCOMMANDS.contains(subcommand),
            // The driver of another suite.
            ["./gradbench", "run", ..] => command.contains("\"dualvm gradbench\""),
            ["cargo", subcommand, ..] => ["build", "test", "bench", "doc", "install"].contains(subcommand),
            _ => false,
        };
        assert!(known, "README.md: `{command}` is no command of this repository");
        for file in words.iter().filter(|word| word.starts_with("examples/")) {
            assert!(root.join(file).exists(), "README.md: `{command}`: there is no {file}");
        }
    }
}

/// The command that an example's comment shows works.
#[test]
fn commands_in_the_examples_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (path, text) in with_extension("dual").into_iter().chain(with_extension("dvs")) {
        if !path.starts_with(root.join("examples")) {
            continue;
        }
        let commands = commands(&text);
        assert!(!commands.is_empty(), "{}: should show the command that runs it", path.display());
        for command in commands {
            let output = std::process::Command::new(env!("CARGO_BIN_EXE_dualvm"))
                .current_dir(root)
                .args(words(&command))
                .output()
                .expect("the program starts");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: `dualvm {command}`\n{stderr}", path.display());
        }
    }
}
