//! What commands write in JSON.

use super::output::{Used, work_by_span};
use super::profile::Usage;
use dualvm::{CompiledCode, Coordinates, Json, JsonReal, Shape, SparseMatrix, Summary, Value};
use serde::ser::{Serialize, SerializeSeq, SerializeStruct, Serializer};
use std::time::Duration;

pub(crate) fn list<'a, S: Serializer, T, J: Serialize>(
    serializer: S,
    items: &'a [T],
    json: impl Fn(&'a T) -> J,
) -> Result<S::Ok, S::Error> {
    let mut seq = serializer.serialize_seq(Some(items.len()))?;
    items.iter().try_for_each(|item| seq.serialize_element(&json(item)))?;
    seq.end()
}

/// What a command writes.
pub(crate) struct Report<'a> {
    pub(crate) value: &'a Value,
    /// By their names.
    pub(crate) derivatives: &'a [(&'static str, Derivative<'a>)],
    pub(crate) used: Option<Used<'a>>,
}

/// A derivative as it is written.
pub(crate) enum Derivative<'a> {
    /// Of the function's value, in its shape.
    OfValue(&'a Value),
    /// By the arguments, in their shapes.
    ByArguments(&'a [Value]),
    /// The same, summed up by parameter.
    Table(Vec<(&'a str, Summary)>),
    /// A matrix: rows by the arguments, and what each of them is the derivative of.
    Rows { places: Vec<String>, rows: &'a [Vec<Value>] },
    /// The entries of a matrix that aren't always zero, the places of its rows and columns, and from how many products
    /// it was taken.
    Sparse { rows: Vec<String>, columns: Vec<String>, matrix: &'a SparseMatrix, products: usize },
}

impl Serialize for Derivative<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Derivative::OfValue(value) => Json(value).serialize(serializer),
            Derivative::ByArguments(gradient) => list(serializer, gradient, Json),
            Derivative::Table(table) => list(serializer, table, |(name, summary)| Summed(name, summary)),
            Derivative::Rows { rows, .. } => list(serializer, rows, |row| Row(row)),
            Derivative::Sparse { rows, columns, matrix, products } => {
                let Coordinates { rows: row, columns: column, values, .. } = matrix.to_coordinates();
                let mut sparse = serializer.serialize_struct("Sparse", 6)?;
                sparse.serialize_field("rows", &rows.len())?;
                sparse.serialize_field("columns", &columns.len())?;
                sparse.serialize_field("products", products)?;
                sparse.serialize_field("row", &row)?;
                sparse.serialize_field("column", &column)?;
                sparse.serialize_field("value", &values.into_iter().map(JsonReal).collect::<Vec<_>>())?;
                sparse.end()
            }
        }
    }
}

/// What is known of the reals of a parameter.
struct Summed<'a>(&'a str, &'a Summary);

impl Serialize for Summed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Summed(name, Summary { shape, reals, norm, smallest, largest, zeros, nans, infinite, .. }) = self;
        let entry = |entry: &Option<(String, f64)>| entry.as_ref().map(|(place, x)| (place.clone(), JsonReal(*x)));
        let mut summed = serializer.serialize_struct("Summary", 9)?;
        summed.serialize_field("parameter", name)?;
        match shape {
            Shape::Dimensions(lengths) => summed.serialize_field("shape", lengths)?,
            _ => summed.serialize_field("shape", &())?,
        }
        summed.serialize_field("reals", reals)?;
        summed.serialize_field("norm", &JsonReal(*norm))?;
        summed.serialize_field("smallest", &entry(smallest))?;
        summed.serialize_field("largest", &entry(largest))?;
        summed.serialize_field("zeros", zeros)?;
        summed.serialize_field("nan", nans)?;
        summed.serialize_field("infinite", infinite)?;
        summed.end()
    }
}

struct Row<'a>(&'a [Value]);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        list(serializer, self.0, Json)
    }
}

impl Serialize for Report<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let len = 1 + self.derivatives.len() + usize::from(self.used.is_some());
        let mut report = serializer.serialize_struct("Report", len)?;
        report.serialize_field("value", &Json(self.value))?;
        for (name, derivative) in self.derivatives {
            report.serialize_field(name, derivative)?;
        }
        if let Some(used) = &self.used {
            report.serialize_field("stats", used)?;
        }
        report.end()
    }
}

impl Serialize for Used<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Used { stats, busy, compiled, profile } = self;
        let mut used = serializer.serialize_struct("Stats", 18 + usize::from(profile.is_some()))?;
        used.serialize_field("instructions", &stats.instructions)?;
        used.serialize_field("records", &stats.records)?;
        used.serialize_field("slots", &stats.slots)?;
        used.serialize_field("tape_bytes", &stats.tape_bytes)?;
        used.serialize_field("allocated_bytes", &stats.allocated_bytes)?;
        used.serialize_field("heap_peak_bytes", &stats.heap_peak_bytes)?;
        used.serialize_field("forward_seconds", &stats.forward.as_secs_f64())?;
        used.serialize_field("sweep_seconds", &stats.sweep.as_secs_f64())?;
        used.serialize_field("tasks", &stats.tasks)?;
        used.serialize_field("imports", &stats.imports)?;
        used.serialize_field("work", &stats.instructions)?;
        used.serialize_field("span", &stats.span)?;
        used.serialize_field("work_by_span", &work_by_span(stats.instructions, stats.span))?;
        used.serialize_field("sweep_peak_bytes", &stats.sweep_peak_bytes)?;
        used.serialize_field("call_seconds", &busy.call.as_secs_f64())?;
        used.serialize_field("busy_seconds", &busy.threads.iter().map(Duration::as_secs_f64).collect::<Vec<_>>())?;
        used.serialize_field("tier", tier(compiled))?;
        used.serialize_field("compiled", &compiled.iter().map(Compiled).collect::<Vec<_>>())?;
        if let Some(profile) = profile {
            used.serialize_field("sites", &profile.sites.iter().map(Usage).collect::<Vec<_>>())?;
        }
        used.end()
    }
}

/// Which engine a module's functions run on by now.
pub(crate) fn tier(compiled: &[CompiledCode]) -> &'static str {
    if compiled.is_empty() { "interpreter" } else { "native" }
}

struct Compiled<'a>(&'a CompiledCode);

impl Serialize for Compiled<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let CompiledCode { name, kind, entry, bytes, estimate, time, .. } = self.0;
        let mut compiled = serializer.serialize_struct("Compiled", 6)?;
        compiled.serialize_field("name", name)?;
        compiled.serialize_field("mode", &kind.to_string())?;
        compiled.serialize_field("loop", &entry.map(|at| at.0))?;
        compiled.serialize_field("bytes", bytes)?;
        compiled.serialize_field("expected_seconds", &estimate.as_secs_f64())?;
        compiled.serialize_field("seconds", &time.as_secs_f64())?;
        compiled.end()
    }
}
