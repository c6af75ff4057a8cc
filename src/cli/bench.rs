//! `bench`.

use super::failure::{Failure, Outcome};
use super::output;
use crate::bench::{self, Effort, SUITES, Suite, Unsound};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) const HELP: &str = "\
Suites: table1 has the programs of table 1 of Smeding and Vákár, \"Parallel Dual-Numbers Reverse AD\" (2024), with its
arguments; core has programs of numbers and arrays.

Each program is checked against the same program in hand-written Rust (value and gradient, to 1e-9) and then timed:
after a warm-up, rounds of calls of the program, of its value and gradient, and of both by hand. Arguments and results
cross the host's border in every call. Times are medians for one run. Where the result is not one Real, the gradient
is the Jacobian.

In JSON, times are in nanoseconds; tape_bytes, records and slots are those of one gradient; ops counts the operations
on reals in one run of the program, by its text: + - * /, negation, powers, min, max and elementary functions count
one each; comparisons, loads and operations on integers don't count. What has no meaning for a case is null.

Exit codes: 0 success, 1 a program failed or computed something else than by hand, 2 bad input.";

/// A run of a suite.
#[derive(Args)]
pub(crate) struct Bench {
    /// Which programs
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(SUITES.iter().map(|suite| suite.name)))]
    suite: String,
    /// How the results are written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Few and short samples: a first look in seconds
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table, with ratios
    Text,
    /// One JSON object on one line
    Json,
}

pub(crate) fn bench(flags: &Bench) -> Outcome {
    let suite: &'static Suite =
        SUITES.iter().find(|suite| suite.name == flags.suite).expect("the flag takes names of suites only");
    let effort = if flags.quick { Effort::QUICK } else { Effort::FULL };
    // On a terminal only: anywhere else it hides itself.
    let bar = ProgressBar::new(bench::rounds(suite, &effort) as u64);
    let style = ProgressStyle::with_template("{wide_bar} {msg} {pos}/{len}").expect("the template is well-formed");
    bar.set_style(style);
    let report = bench::run(suite, &effort, |case| {
        bar.set_message(case);
        bar.inc(1);
    });
    bar.finish_and_clear();
    let report = report.map_err(|error| match error.cause {
        Unsound::Call(cause) => Failure::Trap(format!("{}: {cause}", error.case)),
        cause => Failure::Trap(format!("error: {}: dualvm and the hand-written program differ: {cause}", error.case)),
    })?;
    output::with_stdout(|out| match flags.format {
        Format::Text => write!(out, "{report}"),
        Format::Json => {
            serde_json::to_writer(&mut *out, &report)?;
            writeln!(out)
        }
    })
}
