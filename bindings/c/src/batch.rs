//! Batches of flat calls: columns in, rows out.

use crate::error::{Report, dualvm_error, status_of};
use crate::frame::{Frame, dualvm_frame};
use crate::memory::{OutSlice, slice};
use crate::status::{Failure, claim, dualvm_status, enter};
use crate::value::{dualvm_value, wrong_count};
use dualvm::{CallOptions, Column, Error, FlatValue, ItemError};
use std::time::{Duration, Instant};

/// What the items of a batch have at one leaf: arguments, tangents or cotangents.
///
/// `first` is what the first item has, as for a flat call, and `stride` says how many numbers further that of the next
/// item begins. With a stride of 0 all items have the same. A leaf that is one number is either one for all items
/// (`DUALVM_VALUE_KIND_REAL` or `_INT`, stride 0), or an array of length 1 with a stride.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dualvm_column {
    /// What the first item has.
    pub first: dualvm_value,
    /// How many numbers further the next item's are.
    pub stride: usize,
}

/// Columns that C has given, for so many items.
///
/// # Safety
/// As for [`slice`], for the columns, and for all arrays that they point to, as far as items and strides say.
unsafe fn columns<'a>(
    first: *const dualvm_column,
    len: usize,
    (items, expected): (usize, usize),
    name: &str,
) -> Result<Vec<Column<'a>>, Failure> {
    if len != expected {
        return Err(wrong_count(expected, len, name));
    }
    // SAFETY: promised by the caller.
    let given = unsafe { slice(first, len, name) }?;
    let column = |(n, &dualvm_column { first, stride }): (usize, &dualvm_column)| {
        // How far all items together reach.
        let reach = || {
            let last = items.saturating_sub(1).checked_mul(stride);
            let reach = if items == 0 { Some(0) } else { last.and_then(|last| last.checked_add(first.len)) };
            reach.ok_or_else(|| Report::invalid(format!("`{name}[{n}]` would be larger than memory can be")))
        };
        // SAFETY: promised by the caller.
        match (unsafe { first.flat(reach, n, name) }?, stride) {
            (FlatValue::Reals(reals), 1..) => Ok(Column::StridedReals { reals, stride, len: first.len }),
            (FlatValue::Ints(ints), 1..) => Ok(Column::StridedInts { ints, stride, len: first.len }),
            (FlatValue::Real(_) | FlatValue::Int(_), 1..) => {
                let message = format!("`{name}[{n}]`: a single number is for all items, so its stride is 0");
                Err(Report::invalid(format!("{message}, found {stride}")))
            }
            (value, _) => Ok(Column::Same(value)),
        }
    };
    given.iter().enumerate().map(column).collect()
}

/// Memory that a batch reads, of the caller's columns.
fn read(column: &Column<'_>) -> [usize; 2] {
    match column {
        Column::Same(FlatValue::Reals(xs)) | Column::StridedReals { reals: xs, .. } => range(xs.as_ptr(), xs.len()),
        Column::Same(FlatValue::Ints(ns)) | Column::StridedInts { ints: ns, .. } => range(ns.as_ptr(), ns.len()),
        _ => [0, 0],
    }
}

fn range<T>(first: *const T, len: usize) -> [usize; 2] {
    [first.addr(), len * size_of::<T>()]
}

/// Places for reals, filled with NaN; `None` if they aren't wanted.
///
/// # Safety
/// As for [`OutSlice::new`], and nobody else uses the places while they are used here.
unsafe fn rows<'a>(places: OutSlice<f64>) -> Option<&'a mut [f64]> {
    // SAFETY: promised by the caller.
    (places.len() > 0).then(|| unsafe { places.filled(f64::NAN) })
}

/// Refuses places that overlap with each other or with what is read.
fn apart(written: &[(&str, [usize; 2])], columns: &[Column<'_>]) -> Result<(), Failure> {
    let overlap =
        |[a, len_a]: [usize; 2], [b, len_b]: [usize; 2]| len_a > 0 && len_b > 0 && a < b + len_b && b < a + len_a;
    for (n, &(name, place)) in written.iter().enumerate() {
        if let Some((other, _)) = written[..n].iter().find(|&&(_, other)| overlap(place, other)) {
            return Err(Report::invalid(format!("`{name}` and `{other}` overlap")));
        }
        if columns.iter().any(|column| overlap(place, read(column))) {
            return Err(Report::invalid(format!("`{name}` overlaps with an argument")));
        }
    }
    Ok(())
}

/// How a batch of a frame's runs.
fn options(frame: &Frame, time_ns: u64) -> CallOptions {
    let mut options = frame.memory.options().clone();
    if time_ns > 0 {
        options.ends_at = Instant::now().checked_add(Duration::from_nanos(time_ns));
    }
    options
}

/// Writes the status of each item, and fails with the error of the first one that has failed.
fn finish(frame: &Frame, failed: Vec<ItemError>, statuses: OutSlice<dualvm_status>) -> Result<(), Failure> {
    let mut failed = failed.into_iter().map(|ItemError { item, error }| (item, Error::from(error))).peekable();
    let first = failed.peek().map(|(item, error)| Report::of(error, Some(frame.module.source_texts())).in_item(*item));
    let len = statuses.len();
    let of_item =
        |item| failed.next_if(|&(of, _)| of == item).map_or(dualvm_status::Ok, |(_, error)| status_of(&error));
    statuses.write_all((0..len).map(of_item));
    first.map_or(Ok(()), Err)
}

/// Makes so many calls of the function at a time, on the engine's threads, with the frame's options. Limits are those
/// of each call; `time_ns` is how long all of them may take, 0: as long as they do.
///
/// There is a column for each leaf of the parameters. `results` takes a row for each item: all reals in the result, in
/// the order of the leaves; integers are left out. `result_count` is how many reals there are for all items together,
/// or 0 if they aren't wanted. `statuses` is null, or has a place for each item, for what became of it.
///
/// An item that fails is alone with that: its row is filled with NaN, and the others are as if it weren't there. If all
/// have succeeded, this gives `DUALVM_STATUS_OK`; else status and error are those of the first item that hasn't, and
/// the message names it. What doesn't fit is said before anything runs, as far as it can be known; then statuses stay
/// as they were, and places may be filled with NaN. What the frame's last call has left stays. Results are the same
/// bits on any number of threads.
///
/// Errors: as `dualvm_call`, of items; `INVALID_ARGUMENT` for columns or places that don't fit the function and the
/// number of items, and for places that overlap with each other or with arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_batch_call(
    frame: *mut dualvm_frame,
    items: usize,
    args: *const dualvm_column,
    arg_count: usize,
    results: *mut f64,
    result_count: usize,
    statuses: *mut dualvm_status,
    time_ns: u64,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let frame = &*claim::<Frame>(frame)?;
            let args = columns(args, arg_count, (items, frame.function.params().len()), "args")?;
            let results_to = OutSlice::new(results, result_count, "results")?;
            let status_count = if statuses.is_null() { 0 } else { items };
            let statuses_to = OutSlice::new(statuses, status_count, "statuses")?;
            let written = [("results", range(results, result_count)), ("statuses", range(statuses, status_count))];
            apart(&written, &args)?;
            let batch = frame.function.batch_with(&options(frame, time_ns));
            let failed = batch.call(items, &args, rows(results_to));
            finish(frame, failed.map_err(|error| frame.failed(error))?, statuses_to)
        })
    }
}

/// The values of a function that returns one real, and its gradients, for so many items at a time: `dualvm_batch_call`
/// with `dualvm_value_and_grad`.
///
/// `values` is null, or has a place for each item. `gradient` takes a row for each item, as
/// `dualvm_value_and_grad_into` does: all derivatives that are asked for. `gradient_count` is how many reals there are
/// for all items together, or 0 if they aren't wanted. In places of an item that fails stands NaN.
///
/// Errors: as `dualvm_batch_call`, and `NOT_SCALAR`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_batch_value_and_grad(
    frame: *mut dualvm_frame,
    items: usize,
    args: *const dualvm_column,
    arg_count: usize,
    values: *mut f64,
    gradient: *mut f64,
    gradient_count: usize,
    statuses: *mut dualvm_status,
    time_ns: u64,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let frame = &*claim::<Frame>(frame)?;
            let args = columns(args, arg_count, (items, frame.function.params().len()), "args")?;
            let [value_count, status_count] =
                [values.is_null(), statuses.is_null()].map(|unwanted| if unwanted { 0 } else { items });
            let values_to = OutSlice::new(values, value_count, "values")?;
            let gradient_to = OutSlice::new(gradient, gradient_count, "gradient")?;
            let statuses_to = OutSlice::new(statuses, status_count, "statuses")?;
            let written = [
                ("values", range(values, value_count)),
                ("gradient", range(gradient, gradient_count)),
                ("statuses", range(statuses, status_count)),
            ];
            apart(&written, &args)?;
            let batch = frame.function.batch_with(&options(frame, time_ns));
            let failed = batch.value_and_grad(items, &args, rows(values_to), rows(gradient_to));
            finish(frame, failed.map_err(|error| frame.failed(error))?, statuses_to)
        })
    }
}
