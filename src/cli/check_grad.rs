//! `check-grad`: whether a program's derivatives agree with each other and with differences.

use super::check_grad_json::Checked;
use super::failure::{Failure, Outcome, shortened};
use super::input::{Prepared, prepare, shown};
use super::interrupt::cancellable;
use super::{Format, Target, With, output};
use clap::Args;
use dualvm::{
    CallOptions, CheckOptions, Comparison, Counts, Engines, ErrorKind, Estimate, GradientCheck, PointCheck, Value,
    Verdict,
};
use std::io::{self, Write};

pub(crate) const HELP: &str = "\
At the given arguments and at random ones near them, each real's derivative is computed by reverse mode, by forward
mode and by differences with an error bar (Ridders 1982), all together along a random direction, and in the interpreter
and natively. A result that isn't one real is multiplied by a random cotangent; --second needs one real. Printed are the
comparisons that don't agree, and of those that do the one that is the furthest off:

  agrees      within rounding, and within the error bar
  wrong       forward and reverse mode differ, or differences with a small error bar are something else
  kink        slopes from the left and from the right differ, or the value jumps: which one counts is a matter of choice
  can't tell  nothing is finite, or rounding is larger than what there is to see

What a program keeps from derivatives on purpose is wrong here: `detach`, rules of `custom_vjp` that are not meant to be
the true derivative, the rejections of `random.gamma`, the sizes of steps in `ode.solve_to`, how near `optimise` came
to a minimum. For the last two, differences differ by about as much as the tolerances let results do.

  dualvm check-grad examples/rosenbrock.dual rosenbrock '[-1.2, 1.0, 0.7]'
  dualvm check-grad examples/rosenbrock.dual rosenbrock '[-1.2, 1.0, 0.7]' --second --points 10

Limits are for each call on its own. Values are written as the arguments of `dualvm run`: `dualvm run --help`.

Exit codes: 0 nothing is wrong, 1 something is, or the program trapped or reached a limit, 2 bad input, 130 interrupted.";

/// A check of derivatives.
#[derive(Args)]
pub(crate) struct CheckGrad {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    wrt: With,
    /// How many random points near the arguments are checked, too, up to 10000
    #[arg(long, value_name = "N", default_value_t = CheckOptions::default().points, value_parser = points)]
    points: usize,
    /// What points, directions, cotangents and samples are made of
    #[arg(long, value_name = "N", default_value_t = CheckOptions::default().seed)]
    seed: u64,
    /// Check second derivatives, too; of a function whose result is one real
    #[arg(long)]
    second: bool,
    /// How many reals are checked one by one, a random sample if there are more; 0: all
    #[arg(long, value_name = "N", default_value_t = CheckOptions::default().components)]
    components: usize,
    /// How the result is written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What is found at each point is kept until all is written.
const POINTS_MAX: usize = 10_000;

fn points(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|&count| count <= POINTS_MAX);
    count.ok_or_else(|| format!("expected a whole number from 0 to {POINTS_MAX}"))
}

pub(crate) fn check_grad(flags: &CheckGrad) -> Outcome {
    let Prepared { function, args, .. } = prepare(&flags.target)?;
    let function = flags.wrt.of(&flags.target, function)?;
    let mut options = CheckOptions::default();
    (options.points, options.seed) = (flags.points, flags.seed);
    (options.second, options.components) = (flags.second, flags.components);
    let found = cancellable(|handle| {
        options.call = CallOptions::default().cancelled_by(handle);
        function.check_gradient(&args, &options)
    });
    let file = shown(&flags.target.program.file);
    let found = found.map_err(|error| match error.kind() {
        ErrorKind::NotScalar { .. } => Failure::bad_input(
            format_args!("{file}: {error}"),
            "--second needs one real; without it, first derivatives are checked for any result",
        ),
        _ => Failure::call(&file, &function, &error),
    })?;
    output::with_stdout(|out| match flags.format {
        Format::Text => text(out, &found),
        Format::Json => {
            serde_json::to_writer(&mut *out, &Checked(&found))?;
            writeln!(out)
        }
    })?;
    match found.is_wrong() {
        true => Err(Failure::Trap(format!("error: derivatives of `{}` are wrong", function.name()))),
        false => Ok(()),
    }
}

fn text(out: &mut dyn Write, found: &GradientCheck) -> io::Result<()> {
    for (n, point) in found.points.iter().enumerate() {
        if n > 0 {
            writeln!(out)?;
        }
        match n {
            0 => write!(out, "at the arguments: ")?,
            n => write!(out, "near point {n}: ")?,
        }
        at_point(out, point, n > 0)?;
    }
    writeln!(out)?;
    if found.checked < found.reals {
        let GradientCheck { reals, checked, .. } = found;
        writeln!(out, "of {reals} reals {checked} were checked one by one, at random, and all along one direction")?;
    }
    if found.reals == 0 {
        writeln!(out, "there is no real to differentiate by")?;
    } else if found.outputs == 0 {
        writeln!(out, "there is no real in the result")?;
    }
    if !found.native {
        writeln!(out, "there is no native code to compare with the interpreter")?;
    }
    let what = match found.verdict() {
        Verdict::Wrong => "WRONG",
        _ => "nothing is wrong",
    };
    writeln!(out, "{what}: {}", counted(found.counts()))
}

fn at_point(out: &mut dyn Write, point: &PointCheck, shows_args: bool) -> io::Result<()> {
    if let Some(trap) = &point.trap {
        return writeln!(out, "the program traps: {trap}");
    }
    writeln!(out, "{}", counted(point.counts()))?;
    if let Engines::Differ(place) = &point.engines {
        writeln!(out, "  interpreter and native code differ: {place}")?;
    }
    if point.not_finite > 0 {
        writeln!(out, "  {} of the reals in the result are not finite", point.not_finite)?;
    }
    let shown: Vec<&Comparison> = shown_of(point);
    let suspicious = shown.iter().any(|comparison| comparison.verdict != Verdict::Agrees);
    if shows_args && suspicious {
        let args: Vec<String> = point.args.iter().map(|arg| word(&arg.to_string())).collect();
        writeln!(out, "  at {}", args.join(" "))?;
    }
    table(out, &shown)?;
    let Counts { wrong, kinks, cannot_tell, .. } = point.counts();
    let left = [wrong, kinks, cannot_tell].map(|count| count.saturating_sub(ROWS_MAX)).iter().sum::<usize>();
    if left > 0 { writeln!(out, "  and {left} more that don't agree; --format json has all") } else { Ok(()) }
}

/// How many comparisons of a verdict a table has.
const ROWS_MAX: usize = 20;

/// What doesn't agree, what is wrong first, and the worst of what agrees.
fn shown_of(point: &PointCheck) -> Vec<&Comparison> {
    let of = |verdict| {
        let these = point.comparisons.iter().filter(move |comparison| comparison.verdict == verdict);
        these.take(ROWS_MAX)
    };
    let suspicious = [Verdict::Wrong, Verdict::Kink, Verdict::CannotTell].into_iter().flat_map(of);
    suspicious.chain(point.worst()).collect()
}

fn table(out: &mut dyn Write, comparisons: &[&Comparison]) -> io::Result<()> {
    if comparisons.is_empty() {
        return Ok(());
    }
    let headings = ["", "reverse", "forward", "differences", "verdict"].map(str::to_owned);
    let mut rows = vec![headings];
    rows.extend(comparisons.iter().map(|comparison| cells(comparison)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 4] = [0, 1, 2, 3].map(width);
    for [place, reverse, forward, differences, verdict] in &rows {
        let [a, b, c, d] = widths;
        writeln!(out, "  {place:<a$}  {reverse:<b$}  {forward:<c$}  {differences:<d$}  {verdict}")?;
    }
    Ok(())
}

fn cells(comparison: &Comparison) -> [String; 5] {
    let Comparison { quantity, reverse, forward, difference, one_sided, verdict, reason, trap, .. } = comparison;
    let bar = |Estimate { value, error }: Estimate| format!("{} ± {error:.0e}", rounded(value, error));
    let differences = match (difference, one_sided) {
        (_, [Some(left), Some(right)]) if *verdict == Verdict::Kink => format!("{}, {}", bar(*left), bar(*right)),
        (Some(difference), _) => bar(*difference),
        (None, [Some(side), None] | [None, Some(side)]) => bar(*side),
        _ => "none".to_owned(),
    };
    let mut said = verdict.to_string();
    for more in
        [&reason.to_string(), trap.as_ref().unwrap_or(&String::new())].into_iter().filter(|more| !more.is_empty())
    {
        said += &format!("; {more}");
    }
    let forward = forward.map_or_else(|| "-".to_owned(), number);
    [quantity.to_string(), number(*reverse), forward, differences, said]
}

/// As many digits of a number as its error bar leaves, and one more.
fn rounded(value: f64, error: f64) -> String {
    let digits = match (value.abs() / error).log10() {
        digits if digits.is_nan() || digits >= 16.0 => return number(value),
        digits => digits.max(0.0) as usize + 1,
    };
    format!("{value:.digits$e}").parse::<f64>().map_or_else(|_| value.to_string(), number)
}

/// A real as values are written.
fn number(x: f64) -> String {
    Value::Real(x).to_string()
}

fn counted(Counts { agree, wrong, kinks, cannot_tell }: Counts) -> String {
    let mut parts = Vec::new();
    let counts = [(wrong, "wrong"), (agree, if agree == 1 { "agrees" } else { "agree" }), (kinks, "at a kink")];
    for (count, name) in counts.into_iter().chain([(cannot_tell, "can't tell")]).filter(|(count, _)| *count > 0) {
        parts.push(format!("{count} {name}"));
    }
    if parts.is_empty() { "nothing to compare".to_owned() } else { parts.join(", ") }
}

/// The start of an argument, as a word of the command line.
fn word(text: &str) -> String {
    let is_open = text.contains(' ') && !text.starts_with(['[', '(', '{']);
    if is_open { format!("({})", shortened(text)) } else { shortened(text).into_owned() }
}
