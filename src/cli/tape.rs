//! `tape`: what a recorded run wrote, task by task.

use super::failure::{Failure, Outcome};
use super::input::{Prepared, prepare, shown};
use super::interrupt::cancellable;
use super::job_graph::{Outline, Summary, dot, svg};
use super::output::{self, work_by_span};
use super::{Target, With};
use clap::Args;
use dualvm::CallOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(crate) const HELP: &str = "\
Without -o, a summary is printed: records, slots and imports (reals and ranges of reals that tasks took over from other
tasks) on all tapes; work (all instructions of the forward run) and span (those on the longest way through the forks).
Work by span is the number of threads that the run can keep busy. None of this depends on the number of threads. Records
and bytes of each loop are what `dualvm grad --stats` prints.

  dualvm tape examples/tree_sum.dual '[1, 2, 3, 4]'
  dualvm tape --job-graph examples/tree_sum.dual '[1, 2, 3, 4]' -o graph.svg

In the drawing time goes from left to right. A box is a job, what a task does between two of its forks: the more records
it wrote, the higher it is, by the logarithm. Of graphs of more than 100 tasks the first and last tasks of a fork are
drawn and the others are counted, and so are all tasks from some depth on.

Exit codes: 0 success, 1 the program trapped or reached a limit, 2 bad input.";

/// A recorded run.
#[derive(Args)]
pub(crate) struct Tape {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    wrt: With,
    /// Draw the graph of tasks, forks and joins
    #[arg(long)]
    job_graph: bool,
    /// Where the drawing goes: a file that ends in .svg, or in .dot for Graphviz
    #[arg(short, long, value_name = "OUT", requires = "job_graph")]
    output: Option<PathBuf>,
}

/// How a drawing is written.
#[derive(Clone, Copy)]
enum Format {
    Svg,
    Dot,
}

impl Format {
    /// By the end of the file's name.
    fn of(path: &Path) -> Outcome<Format> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => Ok(Format::Svg),
            Some("dot") => Ok(Format::Dot),
            _ => Err(Failure::bad_input(
                format_args!("expected a file that ends in .svg or .dot, found {}", path.display()),
                "-o graph.svg is a drawing, -o graph.dot is one for Graphviz; without -o a summary is printed",
            )),
        }
    }
}

pub(crate) fn tape(flags: &Tape) -> Outcome {
    // Before the run, which may take long.
    let to = flags.output.as_deref().map(|path| Format::of(path).map(|format| (path, format))).transpose()?;
    let Prepared { function, args, .. } = prepare(&flags.target)?;
    let function = flags.wrt.of(&flags.target, function)?;
    let graph = cancellable(|handle| function.job_graph(&args, &CallOptions::default().cancelled_by(handle)))
        .map_err(|error| Failure::call(&shown(&flags.target.program.file), &function, &error))?;
    let summary = Summary::of(&graph);
    let Some((path, format)) = to else {
        return output::with_stdout(|out| print(out, &summary));
    };
    let outline = Outline::of(&graph, function.name());
    let text = match format {
        Format::Svg => svg::draw(&outline, &title(function.name(), &summary)),
        Format::Dot => dot::draw(&outline, &title(function.name(), &summary)),
    };
    output::file(path, text.as_bytes())
}

/// What is written above a drawing.
fn title(function: &str, summary: &Summary) -> String {
    let Summary { tasks, forks, depth, records, .. } = summary;
    let threads = work_by_span(summary.work, summary.span);
    format!("{function}: tasks {tasks}, forks {forks}, depth {depth}, records {records}, work / span {threads:.1}")
}

fn print(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let Summary { tasks, forks, depth, records, slots, imports, work, span } = *summary;
    writeln!(out, "tasks       = {tasks}")?;
    writeln!(out, "forks       = {forks}")?;
    writeln!(out, "depth       = {depth}")?;
    writeln!(out, "records     = {records}")?;
    writeln!(out, "slots       = {slots}")?;
    writeln!(out, "imports     = {imports}")?;
    writeln!(out, "work        = {work}")?;
    writeln!(out, "span        = {span}")?;
    writeln!(out, "work / span = {:.1}", work_by_span(work, span))
}
