//! `bench`.

use super::failure::{Failure, Outcome};
use super::native::When;
use super::output;
use crate::bench::{self, Effort, SUITES, Suite, Tier, Unsound, latency};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::fmt::Display;

pub(crate) const HELP: &str = "\
Suites: table1 has the programs of table 1 of Smeding and Vákár, \"Parallel Dual-Numbers Reverse AD\" (2024), with its
arguments; core has programs of numbers and arrays; native has programs with long loops, branches and large data, and
the smallest call; latency has every example, from its source text to its first value and gradient, by stage.

Each program is checked against the same program in hand-written Rust (value and gradient, to 1e-9) and then timed:
after a warm-up, rounds of calls of the program, of its value and gradient, and of both by hand, on all tiers in turn.
Arguments and results cross the host's border in every call; the second table has the parts of calls without that: the
forward run, and forward run and sweeps, by the engine's own clock. A third table has the gradient per element, for
programs that the paper gives so. Times are medians for one run. Where the result is not one Real, the gradient is
the Jacobian.

The tiers: \"interpreter\" is --jit off; \"native\" is --jit auto, as engines are by default, where what runs often is
compiled, and is by the end of the warm-up; \"always native\" is --jit always. In the suite latency nothing is warm: auto
compiles nothing there, and always compiles everything before its first run.

In JSON, there is a result for each case and tier. Times are in nanoseconds; tape_bytes, records and slots are those of
one gradient; compiled counts pieces of native code; ops counts the operations on reals in one run of the program, by
its text: + - * /, negation, powers, min, max and elementary functions count one each; comparisons, loads and operations
on integers don't count. What has no meaning for a case is null.

Exit codes: 0 success, 1 a program failed or computed something else than by hand, 2 bad input.";

/// A run of a suite.
#[derive(Args)]
pub(crate) struct Bench {
    /// Which programs
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(suites()))]
    suite: String,
    /// When code is compiled; several with commas between them are measured side by side
    #[arg(long, value_enum, value_name = "WHEN", value_delimiter = ',', default_value = "off,auto")]
    jit: Vec<When>,
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

fn suites() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|suite| suite.name).chain([latency::NAME])
}

pub(crate) fn bench(flags: &Bench) -> Outcome {
    let effort = if flags.quick { Effort::QUICK } else { Effort::FULL };
    let tiers = tiers(&flags.jit);
    match SUITES.iter().find(|suite| suite.name == flags.suite) {
        Some(suite) => write(flags.format, &programs(suite, &tiers, &effort)?),
        None => write(flags.format, &first_runs(&tiers, &effort)?),
    }
}

/// Each tier once, in the order of the flag.
fn tiers(jit: &[When]) -> Vec<Tier> {
    let mut tiers = Vec::new();
    for when in jit {
        let tier = match when {
            When::Off => Tier::Interpreter,
            When::Auto => Tier::Native,
            When::Always => Tier::AlwaysNative,
        };
        if !tiers.contains(&tier) {
            tiers.push(tier);
        }
    }
    tiers
}

/// Programs beside the same by hand.
fn programs(suite: &'static Suite, tiers: &[Tier], effort: &Effort) -> Result<bench::Report, Failure> {
    let bar = bar(bench::rounds(suite, effort));
    let report = bench::run(suite, tiers, effort, |case| advance(&bar, case));
    bar.finish_and_clear();
    report.map_err(|error| match error.cause {
        Unsound::Call(cause) => Failure::Trap(format!("{}: {cause}", error.case)),
        cause => Failure::Trap(format!("error: {}: dualvm and the hand-written program differ: {cause}", error.case)),
    })
}

/// From source to value and gradient.
fn first_runs(tiers: &[Tier], effort: &Effort) -> Result<latency::Report, Failure> {
    let bar = bar(latency::rounds(effort));
    let report = latency::run(tiers, effort, |program| advance(&bar, program));
    bar.finish_and_clear();
    report.map_err(|(program, error)| Failure::Trap(format!("{program}: {error}")))
}

/// On a terminal only: anywhere else it hides itself.
fn bar(rounds: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {msg} {pos}/{len}").expect("the template is well-formed");
    ProgressBar::new(rounds as u64).with_style(style)
}

fn advance(bar: &ProgressBar, name: &'static str) {
    bar.set_message(name);
    bar.inc(1);
}

fn write(format: Format, report: &(impl Display + Serialize)) -> Outcome {
    output::with_stdout(|out| match format {
        Format::Text => write!(out, "{report}"),
        Format::Json => {
            serde_json::to_writer(&mut *out, &report)?;
            writeln!(out)
        }
    })
}
