//! Writing results.

use super::failure::{Failure, Outcome};
use super::json::{Derivative, Report};
use super::look::Look;
use super::threads::Busy;
use super::{Call, Format};
use super::{native, profile};
use dualvm::{CompiledCode, Function, Profile, Stats, Summary, Value};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// What a call used.
pub(crate) struct Used<'a> {
    pub(crate) stats: &'a Stats,
    pub(crate) busy: Busy,
    /// What is compiled by now.
    pub(crate) compiled: Vec<CompiledCode>,
    /// What each loop and function has written to the tape.
    pub(crate) profile: Option<Profile>,
}

/// Writes a report to stdout.
pub(crate) fn report(function: &Function, report: &Report<'_>, call: &Call) -> Outcome {
    let format = call.format;
    let written = with_stdout(|out| match format {
        Format::Text => text(out, function, report, call.look),
        Format::Json => {
            serde_json::to_writer(&mut *out, report)?;
            writeln!(out)
        }
    });
    if let (Some(used), Format::Text) = (&report.used, format) {
        // Where stderr can't be written there is nobody to tell.
        let mut to = io::stderr().lock();
        _ = statistics(&mut to, used)
            .and_then(|()| native::statistics(&mut to, &used.compiled))
            .and_then(|()| used.profile.iter().try_for_each(|profile| profile::table(&mut to, profile)));
    }
    written
}

/// Writes to stdout through a buffer.
pub(crate) fn with_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Outcome {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    write(&mut out).and_then(|()| out.flush()).map_err(|error| Failure::stdout(&error))
}

/// Writes bytes to a file, or to stdout if the path is `-`.
pub(crate) fn file(path: &Path, bytes: &[u8]) -> Outcome {
    if path == Path::new("-") {
        return with_stdout(|out| out.write_all(bytes));
    }
    std::fs::write(path, bytes)
        .map_err(|error| Failure::io("write", path, &error, "-o names another file, or stdout if it is `-`"))
}

fn text(out: &mut dyn Write, function: &Function, report: &Report<'_>, look: Look) -> io::Result<()> {
    let width_of = |(name, derivative): &(&str, Derivative<'_>)| match derivative {
        Derivative::OfValue(_) => name.len() - 2,
        Derivative::ByArguments(gradient) => widest(by_parameter(function, gradient).map(|(name, _)| name)),
        Derivative::Rows { places, .. } => widest(places.iter().map(String::as_str)),
        // These stand by themselves.
        Derivative::Table(_) | Derivative::Sparse { .. } => 0,
    };
    // Aligned with each other: parameters stand two columns to the right.
    let width = report.derivatives.iter().map(width_of).fold(4, usize::max);
    writeln!(out, "{:<1$} = {2}", "value", width + 2, look.of(report.value))?;
    for (name, derivative) in report.derivatives {
        match derivative {
            Derivative::OfValue(value) => writeln!(out, "{name:<0$} = {1}", width + 2, look.of(value))?,
            Derivative::ByArguments(gradient) => {
                writeln!(out, "{name}:")?;
                by_parameter(function, gradient)
                    .try_for_each(|(name, value)| writeln!(out, "  {name:<width$} = {}", look.of(value)))?;
            }
            Derivative::Table(rows) => {
                writeln!(out, "{name}:")?;
                table(out, rows, look)?;
            }
            Derivative::Rows { places, rows } => {
                writeln!(out, "{name}:")?;
                for (place, row) in places.iter().zip(*rows) {
                    let fields = by_parameter(function, row).map(|(name, value)| (name.to_owned(), value.clone()));
                    writeln!(out, "  {place:<width$} = {}", look.of(&Value::Record(fields.collect())))?;
                }
            }
            Derivative::Sparse { rows, columns, matrix, products } => {
                let (all, entries) = (rows.len() as u128 * columns.len() as u128, matrix.values().len());
                writeln!(out, "{name}: {entries} of {all} entries, by {products} product{}", plural(*products))?;
                let places = || matrix.entries().map(|(row, column, _)| (&rows[row], &columns[column]));
                let [row_width, column_width] =
                    [widest(places().map(|(row, _)| &**row)), widest(places().map(|(_, column)| &**column))];
                for ((row, column), (.., value)) in places().zip(matrix.entries()) {
                    let value = Value::Real(value);
                    writeln!(out, "  {row:<row_width$}  {column:<column_width$} = {}", look.of(&value))?;
                }
            }
        }
    }
    Ok(())
}

/// A line for each parameter.
fn table(out: &mut dyn Write, rows: &[(&str, Summary)], look: Look) -> io::Result<()> {
    let shown = |x: f64| look.of(&Value::Real(x)).to_string();
    let heads = ["parameter", "shape", "norm", "smallest", "at", "largest", "at", "zeros", "NaN", "infinite"];
    let mut lines = vec![heads.map(str::to_owned)];
    for (name, Summary { shape, norm, smallest, largest, zeros, nans, infinite, .. }) in rows {
        let entry = |entry: &Option<(String, f64)>| match entry {
            Some((place, x)) => [shown(*x), place.clone()],
            None => ["-".to_owned(), String::new()],
        };
        let ([low, low_at], [high, high_at]) = (entry(smallest), entry(largest));
        let [zeros, nans, infinite] = [zeros, nans, infinite].map(usize::to_string);
        let (name, norm) = ((*name).to_owned(), shown(*norm));
        lines.push([name, shape.to_string(), norm, low, low_at, high, high_at, zeros, nans, infinite]);
    }
    let widths: Vec<usize> = (0..heads.len()).map(|n| widest(lines.iter().map(|line| &*line[n]))).collect();
    for line in &lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "  {}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// The gradient as it is, or summed up.
pub(crate) fn gradient<'a>(function: &'a Function, gradient: &'a [Value], summed_up: bool) -> Derivative<'a> {
    if summed_up {
        let rows = by_parameter(function, gradient).map(|(name, value)| (name, Summary::of(name, value)));
        Derivative::Table(rows.collect())
    } else {
        Derivative::ByArguments(gradient)
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Derivatives by the parameters that they are with respect to, with the parameters' names.
fn by_parameter<'a>(function: &'a Function, gradient: &'a [Value]) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let named = function.interface().params.iter().zip(gradient).enumerate();
    named.filter(|&(n, _)| function.is_wrt(n)).map(|(_, ((name, _), value))| (name.as_str(), value))
}

fn widest<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0)
}

fn statistics(out: &mut dyn Write, used: &Used<'_>) -> io::Result<()> {
    let stats = used.stats;
    writeln!(out, "instructions    = {}", stats.instructions)?;
    writeln!(out, "records         = {}", stats.records)?;
    writeln!(out, "slots           = {}", stats.slots)?;
    writeln!(out, "tape bytes      = {}", stats.tape_bytes)?;
    writeln!(out, "allocated bytes = {}", stats.allocated_bytes)?;
    writeln!(out, "heap peak bytes = {}", stats.heap_peak_bytes)?;
    writeln!(out, "forward         = {:?}", stats.forward)?;
    writeln!(out, "sweep           = {:?}", stats.sweep)?;
    if stats.tasks > 1 { parallelism(out, used) } else { Ok(()) }
}

/// What is to say of a program with tasks.
fn parallelism(out: &mut dyn Write, Used { stats, busy, .. }: &Used<'_>) -> io::Result<()> {
    writeln!(out, "tasks           = {}", stats.tasks)?;
    writeln!(out, "imports         = {}", stats.imports)?;
    writeln!(out, "work            = {} (all instructions)", stats.instructions)?;
    writeln!(out, "span            = {} (instructions on the longest way through the forks)", stats.span)?;
    let threads = work_by_span(stats.instructions, stats.span);
    writeln!(out, "work / span     = {threads:.1} (threads that the program can keep busy)")?;
    writeln!(out, "sweep peak      = {} bytes", stats.sweep_peak_bytes)?;
    writeln!(out, "call            = {:?}", busy.call)?;
    for (n, time) in busy.threads.iter().enumerate() {
        let share = 100.0 * time.as_secs_f64() / busy.call.as_secs_f64().max(1e-9);
        writeln!(out, "  thread {n}: {:.1} ms busy, {share:.0} % of the call", 1e3 * time.as_secs_f64())?;
    }
    Ok(())
}

/// How many threads a program can keep busy.
pub(crate) fn work_by_span(work: u64, span: u64) -> f64 {
    work as f64 / span.max(1) as f64
}
