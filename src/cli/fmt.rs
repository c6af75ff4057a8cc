//! `dualvm fmt`: formats programs, in place or from stdin to stdout, or says which aren't formatted.

use super::failure::{Failure, Outcome};
use super::input::{read, shown};
use super::interrupt::cancellable;
use super::output;
use clap::Args;
use dualvm::{CompileOptions, ErrorKind, FileKind, frontend};
use std::path::{Path, PathBuf};

pub(crate) const HELP: &str = "\
Files are changed in place; `-` is formatted from stdin to stdout. Only white space changes: tokens and comments stay,
and so do at most one empty line between two things, and line ends where there is a choice. Lines have at most 120
characters where that can be. A file with syntax errors is reported and left as it is, and the others are formatted.

  dualvm fmt model.dual examples/*.dual
  dualvm fmt --check model.dual

Exit codes: 0 all is formatted, 1 --check has found a file that isn't, 2 bad input, 130 interrupted.";

#[derive(Args)]
pub(crate) struct Fmt {
    /// Programs; `-` is stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Change nothing; list the files that aren't formatted on stdout, and end with exit code 1 if there are any
    #[arg(long)]
    check: bool,
}

pub(crate) fn fmt(flags: &Fmt) -> Outcome {
    let mut unformatted = Vec::new();
    let mut failures = Vec::new();
    for file in &flags.files {
        match one(file, flags.check) {
            Ok(true) => {}
            Ok(false) => unformatted.push(shown(file)),
            // What is wrong with one file is no reason to leave the others.
            Err(Failure::BadInput(message)) => failures.push(message),
            Err(other) => return Err(other),
        }
    }
    output::with_stdout(|out| unformatted.iter().try_for_each(|name| writeln!(out, "{name}")))?;
    match (failures.is_empty(), unformatted.len()) {
        (false, _) => Err(Failure::BadInput(failures.join("\n"))),
        (true, 0) => Ok(()),
        (true, 1) => Err(Failure::Trap("1 file isn't formatted".to_owned())),
        (true, count) => Err(Failure::Trap(format!("{count} files aren't formatted"))),
    }
}

/// Formats a file; false if it isn't formatted and was only to be checked.
fn one(file: &Path, only_checks: bool) -> Outcome<bool> {
    let name = shown(file);
    let bytes = read(file, "expected a file that holds a program (.dual)")?;
    if FileKind::detect(&name, &bytes) != FileKind::Source {
        let message = format!("{name}: expected a program, found assembly or bytecode");
        return Err(Failure::bad_input(message, "only programs of the language (.dual) are formatted"));
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        Failure::load(&name, &ErrorKind::NotText { file: name.clone(), offset: error.valid_up_to() }.into())
    })?;
    let formatted =
        cancellable(|handle| frontend::format_with(&name, text, &CompileOptions::default().cancelled_by(handle)))
            .map_err(|errors| Failure::load(&name, &ErrorKind::Source(errors).into()))?;
    if only_checks {
        return Ok(formatted == text);
    }
    if file == Path::new("-") {
        output::with_stdout(|out| out.write_all(formatted.as_bytes()))?;
    } else if formatted != text {
        std::fs::write(file, formatted)
            .map_err(|error| Failure::io("write", file, &error, "`-` formats stdin to stdout, and changes no file"))?;
    }
    Ok(true)
}
