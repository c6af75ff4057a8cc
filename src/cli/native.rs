//! Native code on the command line: when it is made, what it looks like, what it took.

use super::failure::{Failure, Outcome};
use super::json::tier;
use super::output;
use clap::ValueEnum;
use dualvm::vm::module::FuncId;
use dualvm::{CompiledCode, Jit, Mode, Module};
use std::fmt::Display;
use std::io::{self, Write};

/// When functions are compiled to native code. It changes the time that a call takes and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum When {
    /// Never
    Off,
    /// When interpreting them has taken as long as compiling will
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

/// Prints the bytecode of a function, given as text, and its native code for primal and for recording runs.
pub(crate) fn listing(module: &Module, func: FuncId, bytecode: &str) -> Outcome {
    let name = &module.def().functions[func.index()].name;
    let mut text = bytecode.to_owned();
    for mode in [Mode::PRIMAL, Mode::RECORDING] {
        let refused = |cause: &dyn Display| {
            Failure::bad_input(format_args!("no native code for `{name}`: {cause}"), "it is always interpreted")
        };
        let listing = module.native_listing(func, mode);
        let listing = listing.ok_or_else(|| refused(&"this machine is not supported"))?;
        let listing = listing.map_err(|refusal| refused(&refusal))?;
        let (representation, assembly) = (listing.representation.trim_end(), listing.assembly.trim_end());
        text +=
            &format!("\n; {mode} runs: Cranelift IR\n{representation}\n\n; {mode} runs: machine code\n{assembly}\n");
    }
    output::with_stdout(|out| out.write_all(text.as_bytes()))
}

/// Writes which engine has run, and what is compiled by now.
pub(crate) fn statistics(out: &mut dyn Write, compiled: &[CompiledCode]) -> io::Result<()> {
    writeln!(out, "tier            = {}", tier(compiled))?;
    for code in compiled {
        let place = code.entry.map_or_else(String::new, |at| format!(" from the loop at {at}"));
        let CompiledCode { name, kind, bytes, time, estimate, .. } = code;
        writeln!(out, "  compiled {name} ({kind}{place}): {bytes} bytes in {time:?}, expected {estimate:?}")?;
    }
    Ok(())
}
