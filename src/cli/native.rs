//! Native code on the command line: when it is made, what it looks like, what it took.

use super::failure::{Failure, Outcome};
use super::input::{load, shown};
use super::output;
use clap::ValueEnum;
use dualvm::{Config, Function, Jit, Mode};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

/// When functions are compiled to native code. It changes the time that a call takes and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum When {
    /// Never
    Off,
    /// When they have run often enough
    #[default]
    Auto,
    /// Before they run
    Always,
}

impl From<When> for Jit {
    fn from(when: When) -> Self {
        match when {
            When::Off => Jit::Off,
            When::Auto => Jit::Auto,
            When::Always => Jit::Always,
        }
    }
}

/// Prints the bytecode of a function, given as text, with its native code for plain and for recording runs.
pub(crate) fn listing(file: &Path, name: &str, bytecode: &str) -> Outcome {
    let module = load(file, Config::default())?;
    let Some((func, _)) = module.def().function(name) else {
        return Err(Failure::bad_input(format_args!("{}: there is no function `{name}`", shown(file)), "see `disasm`"));
    };
    let mut text = bytecode.to_owned();
    for (runs, recording) in [("plain", false), ("recording", true)] {
        let refused = |cause: &dyn Display| {
            Failure::bad_input(format_args!("no native code for `{name}`: {cause}"), "it is always interpreted")
        };
        let listing = module.native_listing(func, recording);
        let listing = listing.ok_or_else(|| refused(&"this machine is not supported"))?;
        let listing = listing.map_err(|refusal| refused(&refusal))?;
        let (representation, assembly) = (listing.representation.trim_end(), listing.assembly.trim_end());
        text +=
            &format!("\n; {runs} runs: Cranelift IR\n{representation}\n\n; {runs} runs: machine code\n{assembly}\n");
    }
    output::with_stdout(|out| out.write_all(text.as_bytes()))
}

/// Writes what has been compiled of a function's module.
pub(crate) fn statistics(out: &mut dyn Write, function: &Function) -> io::Result<()> {
    let compiled = function.compiled();
    if compiled.is_empty() {
        return writeln!(out, "tier            = interpreter");
    }
    writeln!(out, "tier            = native, compiled:")?;
    for code in compiled {
        let what = match code.mode {
            Mode::Adjoint => "sweep",
            Mode::Primal => "plain",
            Mode::Recording => "recording",
        };
        let place = code.entry.map_or_else(String::new, |at| format!(" from the loop at {at}"));
        writeln!(out, "  {} ({what}{place}): {} bytes in {:?}", code.name, code.bytes, code.time)?;
    }
    Ok(())
}
