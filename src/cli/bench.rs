//! `bench`.

use super::failure::{Failure, Outcome};
use super::native::When;
use super::{output, threads};
use crate::bench::{
    self, Effort, SUITES, Selection, Suite, Tier, Unsound, derivatives, gradbench, latency, parallel, tiering,
};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::fmt::Display;

pub(crate) const HELP: &str = "\
Suites: table1 has the programs of table 1 of Smeding and Vákár, \"Parallel Dual-Numbers Reverse AD\" (2024), with its
arguments; core has programs of numbers and arrays; native has programs with long loops, branches and large data, and
the smallest call; latency has every example, from its source text to its first value and gradient, by stage, and in a
process of its own; parallel has programs with tasks; tiering has 31 programs, most of them of 40 to 150 lines, to see
whether compiling pays; gradbench has the evals of the suite GradBench, as `dualvm gradbench` runs them, in sizes S and
M (--quick: S); derivatives has jvps, products with Hessians, Hessians, and derivatives within each other.

Each program is checked against the same program in hand-written Rust (value and gradient, to 1e-9) and then timed:
after a warm-up, rounds of calls of the program, of its value and gradient, and of both by hand, on all tiers in turn.
Arguments and results cross the host's border in every call; the second table has the parts of calls without that: the
forward run, and forward run and sweeps, by the engine's own clock. A third table has the gradient per element, for
programs that the paper gives so. Times are medians for one run. Where the result is not one Real, the gradient is
the Jacobian.

The tiers: \"interpreter\" is --jit off; \"native\" is --jit auto, as engines are by default, where what runs often is
compiled, and is by the end of the warm-up; \"always native\" is --jit always. In the suite latency nothing is warm: auto
compiles nothing there, and always compiles everything before its first run.

The suite parallel measures its programs without tasks, and with tasks on each number of threads, after a check that
the results are the same: to 1e-9 with and without tasks, to the last bit on all numbers of threads. Times are those of
runs, without conversion. Then it says what tasks cost, with the project's targets.

The suite tiering calls each program for its value and gradient in an engine that has seen nothing, with --jit off, auto
and always, at three sizes (--quick: two), and compares auto with the better one of the others; then once more after
some calls.

The suite gradbench compares with the hand-written primal: its table has primal and derivative of dualvm divided by
that, with arguments and results crossing the border and with sparse Jacobians assembled. The derivative of kmeans is
its gradient.

The suite derivatives compares runs with runs: a jvp with the value, a product with the Hessian with the gradient, a
Hessian with as many products as it has rows, a gradient of a gradient with that one, and a gradient of a loop in
checkpoints with that of the loop; with the project's targets.

--case measures only some cases of a suite, by their names in its report, as --case 'rosenbrock jvp,neural jvp';
parallel leaves out what tasks cost then.

In JSON, there is a result for each case and tier (parallel: and number of threads; gradbench: and size). Times are in
nanoseconds; tape_bytes, records and slots are those of one gradient; compiled counts pieces of native code; ops counts
the operations on reals in one run of the program, by its text: + - * /, negation, powers, min, max and elementary
functions count one each; comparisons, loads and operations on integers don't count. What has no meaning for a case is
null.

Exit codes: 0 success, 1 a program failed or computed something else than by hand, 2 bad input.";

/// A run of a suite.
#[derive(Args)]
pub(crate) struct Bench {
    /// Which programs
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(suites()))]
    suite: String,
    /// Only these cases of the suite, with commas between them; if one isn't there, the message lists all
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "once")]
    case: Vec<String>,
    /// When code is compiled; several with commas between them are measured side by side [default: off,auto; in the
    /// suites parallel and gradbench: auto]
    #[arg(long, value_enum, value_name = "WHEN", value_delimiter = ',')]
    jit: Vec<When>,
    /// Numbers of threads, with commas between them, in the suite parallel; 0: one per core [default: 1,0]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = threads::count, allow_negative_numbers = true)]
    threads: Vec<usize>,
    /// How the results are written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Few and short samples: a first look in seconds
    #[arg(long)]
    quick: bool,
    /// Measure one program of the suite latency once: what that suite starts processes with
    #[arg(long, hide = true, value_name = "PROGRAM", value_parser = PossibleValuesParser::new(latency::names()))]
    once: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table, with ratios
    Text,
    /// One JSON object on one line
    Json,
}

fn suites() -> impl Iterator<Item = &'static str> {
    let others = [latency::NAME, parallel::NAME, tiering::NAME, gradbench::NAME, derivatives::NAME];
    SUITES.iter().map(|suite| suite.name).chain(others)
}

pub(crate) fn bench(flags: &Bench) -> Outcome {
    let effort = if flags.quick { Effort::QUICK } else { Effort::FULL };
    let (is_parallel, is_gradbench) = (flags.suite == parallel::NAME, flags.suite == gradbench::NAME);
    let tiers = match &flags.jit[..] {
        [] if is_parallel || is_gradbench => tiers(&[When::Auto]),
        [] => tiers(&[When::Off, When::Auto]),
        jit => tiers(jit),
    };
    if let Some(program) = &flags.once {
        let line = latency::once(program, tiers[0]).map_err(|error| Failure::Trap(format!("{program}: {error}")))?;
        return output::with_stdout(|out| writeln!(out, "{line}"));
    }
    let only = only(flags)?;
    if is_parallel {
        let threads = if flags.threads.is_empty() { &[1, 0] } else { &flags.threads[..] };
        let plan = parallel::Plan::new(only, tiers, threads, flags.quick);
        return write(flags.format, &on_threads(&plan)?);
    }
    if !flags.threads.is_empty() {
        return Err(Failure::bad_input(
            format_args!(
                "--threads is for the suite parallel: programs of the suite {} run on one thread",
                flags.suite
            ),
            "leave it out, or try --suite parallel",
        ));
    }
    if flags.suite == tiering::NAME {
        if !flags.jit.is_empty() {
            return Err(Failure::bad_input(
                "the suite tiering compares off, auto and always: it takes no --jit",
                "leave it out",
            ));
        }
        return write(flags.format, &first_calls(&only, &effort)?);
    }
    if is_gradbench {
        return write(flags.format, &evals(&gradbench::Plan::new(only, tiers, flags.quick))?);
    }
    if flags.suite == derivatives::NAME {
        return write(flags.format, &multiples(&only, &tiers, &effort)?);
    }
    match SUITES.iter().find(|suite| suite.name == flags.suite) {
        Some(suite) => write(flags.format, &programs(suite, &only, &tiers, &effort)?),
        None => write(flags.format, &first_runs(&only, &tiers, &effort)?),
    }
}

/// The cases that the flag names, all of which the suite has.
fn only(flags: &Bench) -> Result<Selection, Failure> {
    let names: Vec<&str> = match flags.suite.as_str() {
        latency::NAME => latency::names().collect(),
        parallel::NAME => parallel::names().collect(),
        tiering::NAME => tiering::names().collect(),
        gradbench::NAME => gradbench::names().collect(),
        derivatives::NAME => derivatives::names().collect(),
        other => SUITES.iter().filter(|suite| suite.name == other).flat_map(bench::names).collect(),
    };
    match flags.case.iter().find(|case| !names.contains(&case.as_str())) {
        None => Ok(Selection::new(flags.case.clone())),
        Some(unknown) => Err(Failure::bad_input(
            format_args!("the suite {} has no case {unknown:?}", flags.suite),
            format_args!("its cases: {}", names.join(", ")),
        )),
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
fn programs(
    suite: &'static Suite,
    only: &Selection,
    tiers: &[Tier],
    effort: &Effort,
) -> Result<bench::Report, Failure> {
    let bar = bar(bench::rounds(suite, only, effort));
    let report = bench::run(suite, only, tiers, effort, |case| advance(&bar, case));
    bar.finish_and_clear();
    report.map_err(|error| match error.cause {
        Unsound::Call(cause) => Failure::Trap(format!("{}: {cause}", error.case)),
        cause => Failure::Trap(format!("error: {}: dualvm and the hand-written program differ: {cause}", error.case)),
    })
}

/// First calls, in engines that have seen nothing.
fn first_calls(only: &Selection, effort: &Effort) -> Result<tiering::Report, Failure> {
    let bar = bar(tiering::rounds(only));
    let report = tiering::run(only, effort, |program| advance(&bar, program));
    bar.finish_and_clear();
    report.map_err(|(program, error)| Failure::Trap(format!("{program}: {error}")))
}

/// From source to value and gradient.
fn first_runs(only: &Selection, tiers: &[Tier], effort: &Effort) -> Result<latency::Report, Failure> {
    let bar = bar(latency::rounds(only, effort));
    let report = latency::run(only, tiers, effort, |program| advance(&bar, program));
    bar.finish_and_clear();
    report.map_err(|(program, error)| match error {
        latency::Unsound::Call(error) => Failure::Trap(format!("{program}: {error}")),
        latency::Unsound::Process(error) => {
            Failure::Trap(format!("error: {program}: it can't be measured in a process of its own: {error}"))
        }
    })
}

/// Programs with tasks.
fn on_threads(plan: &parallel::Plan) -> Result<parallel::Report<'_>, Failure> {
    let bar = bar(plan.rounds());
    let report = parallel::run(plan, |program| advance(&bar, program));
    bar.finish_and_clear();
    report.map_err(|(program, error)| match error {
        parallel::Unsound::Call(error) => Failure::Trap(format!("{program}: {error}")),
        error => Failure::Trap(format!("error: {program}: tasks change the result: {error}")),
    })
}

/// What other derivatives than gradients cost.
fn multiples(only: &Selection, tiers: &[Tier], effort: &Effort) -> Result<derivatives::Report, Failure> {
    let bar = bar(derivatives::rounds(only, tiers.len()));
    let report = derivatives::run(only, tiers, effort, |case| advance(&bar, case));
    bar.finish_and_clear();
    report.map_err(|(case, error)| match error {
        Unsound::Call(cause) => Failure::Trap(format!("{case}: {cause}")),
        cause => Failure::Trap(format!("error: {case}: two ways to a derivative differ: {cause}")),
    })
}

/// The evals of GradBench.
fn evals(plan: &gradbench::Plan) -> Result<gradbench::Report, Failure> {
    let bar = bar(plan.rows());
    let report = gradbench::run(plan, |eval| advance(&bar, eval));
    bar.finish_and_clear();
    report.map_err(|(eval, error)| match error {
        gradbench::Unsound::Call(cause) => Failure::Trap(format!("{eval}: {cause}")),
        cause => Failure::Trap(format!("error: {eval}: dualvm and the hand-written program differ: {cause}")),
    })
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
