//! `gradbench`: the suite's messages on stdin, answers on stdout.
//!
//! A line is a message, and each has an answer of one line, which is written before the next line is read. What the
//! suite asks for and can't have is answered with `"success":false`; only what is no message at all ends the program.

mod message;

use super::failure::{Failure, Outcome};
use super::limits::LimitFlags;
use super::native::When;
use crate::gradbench::Evals;
use clap::Args;
use dualvm::{Config, Engine};
use message::{Ask, Content, Message, Reply};
use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;

pub(crate) const HELP: &str = "\
Evals: hello, det, gmm, ba, ht, kmeans, llsq, lse, lstm, ode, particle and saddle, in dualvm's language.

Every message is an object on a line of its own, with an id and a kind: start, define with a module, evaluate with a
module, a function and an input. Inputs may ask for min_runs and min_seconds. Of the times in an answer, prepare is for
reading the input and for a first run, in which what is hot is compiled to native code; there is an evaluate for every
run after that.

  gradbench run --eval \"gradbench repo eval gmm\" --tool \"dualvm gradbench\"

Exit codes: 0 the messages have ended, 2 a line is no message.";

/// How the programs run.
#[derive(Args)]
pub(crate) struct GradBench {
    /// When functions are compiled to native code
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    jit: When,
    #[command(flatten)]
    limits: LimitFlags,
}

pub(crate) fn gradbench(flags: &GradBench) -> Outcome {
    let mut config = Config::default();
    config.limits = flags.limits.limits();
    config.jit = flags.jit.into();
    let mut evals = Evals::new(Engine::new(config));
    let (mut input, mut output) = (io::stdin().lock(), BufWriter::with_capacity(1 << 16, io::stdout().lock()));
    // Inputs of large sizes are lines of tens of megabytes: the memory is kept.
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = input.read_until(b'\n', &mut line).map_err(|error| {
            Failure::io("read", Path::new("stdin"), &error, "messages come one to a line, from the suite's own driver")
        })?;
        if read == 0 {
            break;
        }
        let Message { id, ask } = serde_json::from_slice(&line).map_err(|error| {
            Failure::bad_input(
                format_args!("stdin: line {number} is no message: {}", of_a_line(&error)),
                "each line is an object such as {\"id\": 0, \"kind\": \"start\"}; `dualvm gradbench --help` says more",
            )
        })?;
        let reply = Reply { id, content: answer(&mut evals, ask) };
        let written = serde_json::to_writer(&mut output, &reply).map_err(io::Error::from);
        let written = written.and_then(|()| output.write_all(b"\n")).and_then(|()| output.flush());
        written.map_err(|error| Failure::stdout(&error))?;
    }
    Ok(())
}

/// What is wrong with a line, and in which column: that it is line 1 to its reader says nothing.
fn of_a_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

fn answer(evals: &mut Evals, ask: Ask<'_>) -> Content {
    let content = match ask {
        Ask::Start => Ok(Content::Tool),
        Ask::Define { module } => evals.define(&module).map(|()| Content::Defined),
        Ask::Evaluate { module, function, input } => {
            evals.evaluate(&module, &function, input.get()).map(Content::Evaluated)
        }
        Ask::Nothing => Ok(Content::Nothing),
    };
    content.unwrap_or_else(Content::Failed)
}
