//! Flat calls: numbers and arrays in, numbers and arrays out.

use crate::error::{Report, dualvm_error};
use crate::function::{Callable, dualvm_function};
use crate::handles::handles;
use crate::memory::{Out, OutHandle, OutSlice};
use crate::options::{dualvm_options, given};
use crate::status::{Failure, claim, dualvm_status, enter, free, share};
use crate::value::{Given, Lent, dualvm_value, wrong_count};
use dualvm::flat::{FlatGradient, FlatResults};
use dualvm::vm::engine::RunError;
use dualvm::{CallFrame, FlatFunction, Module, Stats};

/// A function, prepared to be called with numbers and arrays again and again, and the memory of its last call: what
/// other interfaces call a prepared statement. One thread's at a time: each thread that calls needs one of its own.
/// From the second call on nothing is allocated.
pub struct dualvm_frame {
    _opaque: (),
}

/// A prepared function, and what its last call has left.
pub(crate) struct Frame {
    pub(crate) function: FlatFunction,
    pub(crate) module: Module,
    pub(crate) memory: CallFrame,
    lent: Lent,
}

handles! { Frame => dualvm_frame, 0x35, "dualvm_frame"; }

/// What a call has used.
#[repr(C)]
pub struct dualvm_stats {
    /// Fuel used: instructions of the forward run and of the sweep.
    pub instructions: u64,
    /// Records on the tape.
    pub records: u64,
    /// Reals that have a place for an adjoint.
    pub slots: u64,
    /// Bytes of records.
    pub tape_bytes: u64,
    /// Bytes of objects that were allocated.
    pub allocated_bytes: u64,
    /// The most bytes that objects and frames held at one time.
    pub heap_peak_bytes: u64,
    /// The most bytes that arrays of adjoints held at one time; small ones don't count.
    pub sweep_peak_bytes: u64,
    /// Tasks: the call itself, and what its forks ran.
    pub tasks: u64,
    /// Instructions along the longest way through the forks: `instructions` by this is how many threads the program can
    /// keep busy.
    pub span: u64,
    /// Nanoseconds of the forward run; 0 if the clock wasn't looked at (`dualvm_options_set_timed`).
    pub forward_ns: u64,
    /// Nanoseconds of the sweep; the same.
    pub sweep_ns: u64,
    /// For later versions; 0.
    pub reserved: [u64; 5],
}

impl From<Stats> for dualvm_stats {
    fn from(stats: Stats) -> Self {
        dualvm_stats {
            instructions: stats.instructions,
            records: stats.records,
            slots: stats.slots,
            tape_bytes: stats.tape_bytes,
            allocated_bytes: stats.allocated_bytes,
            heap_peak_bytes: stats.heap_peak_bytes,
            sweep_peak_bytes: stats.sweep_peak_bytes,
            tasks: stats.tasks,
            span: stats.span,
            forward_ns: stats.forward.as_nanos() as u64,
            sweep_ns: stats.sweep.as_nanos() as u64,
            reserved: [0; 5],
        }
    }
}

/// Where values go that C may not want: none, or as many as there are.
struct Wanted(Option<OutSlice<dualvm_value>>);

impl Wanted {
    /// # Safety
    /// As for [`OutSlice::new`].
    #[inline]
    unsafe fn new(first: *mut dualvm_value, len: usize, expected: usize, name: &str) -> Result<Self, Failure> {
        if first.is_null() && len == 0 {
            return Ok(Wanted(None));
        }
        if len != expected {
            return Err(wrong_count(expected, len, name));
        }
        // SAFETY: promised by the caller.
        Ok(Wanted(Some(unsafe { OutSlice::new(first, len, name) }?)))
    }

    /// Writes values whose arrays are lent.
    #[inline]
    fn write<'f>(self, values: impl Iterator<Item = dualvm::FlatValue<'f>>, lent: &mut Lent) {
        if let Some(to) = self.0 {
            to.write_all(values.inspect(|&value| lent.add(value)).map(dualvm_value::new));
        }
    }

    fn results(self, results: FlatResults<'_>, lent: &mut Lent) {
        self.write(results.iter(), lent);
    }

    fn gradient(self, gradient: FlatGradient<'_>, lent: &mut Lent) {
        self.write(gradient.iter(), lent);
    }
}

impl Frame {
    /// What goes wrong in calls of the function.
    pub(crate) fn failed(&self, error: RunError) -> Failure {
        failed(&self.module, error)
    }
}

#[cold]
#[inline(never)]
fn failed(module: &Module, error: RunError) -> Failure {
    Report::of(&error.into(), Some(module.source_texts()))
}

/// Prepares a function to be called with numbers and arrays. `options`: limits of its calls, and who may cancel them;
/// null: the engine's limits, and nobody.
///
/// Errors: `NOT_FLAT` if a parameter or the result isn't made of numbers, arrays and lists of numbers, arrays of tuples
/// of numbers, matrices and tensors of such.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_frame_new(
    function: *const dualvm_function,
    options: *const dualvm_options,
    frame: *mut *mut dualvm_frame,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let out = OutHandle::new(frame, "frame")?;
            let (callable, options) = (share::<Callable>(function)?, given(options)?);
            let (function, module) = (callable.flat()?, callable.module.clone());
            let mut memory = CallFrame::with_options(options.for_call(module.engine().limits()));
            memory.set_timed(options.timed);
            out.write(Frame { function, module, memory, lent: Lent::default() })
        })
    }
}

/// Frees a frame. Null is fine. A frame whose call is running, which no program should do, goes when the call is done.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_frame_free(frame: *mut dualvm_frame) {
    free::<Frame>(frame);
}

/// Sets limits of the frame's next calls and who may cancel them; null: the engine's limits, and nobody. What the last
/// call has left is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_frame_set_options(
    frame: *mut dualvm_frame,
    options: *const dualvm_options,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let options = given(options)?;
            let mut frame = claim::<Frame>(frame)?;
            let Frame { module, memory, lent, .. } = &mut *frame;
            lent.end();
            *memory.options_mut() = options.for_call(module.engine().limits());
            memory.set_timed(options.timed);
            Ok(())
        })
    }
}

/// Gives the memory of the last call back to the engine, for others. Its results and its tape are gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_frame_clear(frame: *mut dualvm_frame, error: *mut *mut dualvm_error) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let mut frame = claim::<Frame>(frame)?;
            frame.lent.end();
            frame.memory.clear();
            Ok(())
        })
    }
}

/// Says what the last call has used, with the pullbacks of a recorded one.
///
/// Errors: `INVALID_ARGUMENT` if there was no call, or it has failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_frame_stats(
    frame: *mut dualvm_frame,
    stats: *mut dualvm_stats,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let stats = Out::new(stats, "stats")?;
            let used = claim::<Frame>(frame)?.memory.stats();
            stats.write(used.ok_or_else(|| Report::invalid("there was no call, or it has failed"))?.into());
            Ok(())
        })
    }
}

/// Calls the function.
///
/// There is an argument for each leaf of the parameters, and a place for each leaf of the result: those that
/// `dualvm_function_leaf` describes. Arrays in `args` are read during the call, and may be what the last call of this
/// frame has given. Arrays in `results` are the frame's until its next call. `results` may be null with a count of 0.
///
/// Errors: `ARGUMENT` if an argument is not of its leaf's kind, `TRAP`, `LIMIT`, `CANCELLED`; `INVALID_ARGUMENT`, also
/// for wrong counts; `BUSY`. On an error results stay as they were.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_call(
    frame: *mut dualvm_frame,
    args: *const dualvm_value,
    arg_count: usize,
    results: *mut dualvm_value,
    result_count: usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let mut frame = claim::<Frame>(frame)?;
            let Frame { function, module, memory, lent } = &mut *frame;
            let wanted = Wanted::new(results, result_count, function.results().len(), "results")?;
            let args = Given::new(args, arg_count, function.params().len(), "args", lent)?;
            lent.end();
            let results = function.call(memory, &args.values).map_err(|error| failed(module, error))?;
            wanted.results(results, lent);
            Ok(())
        })
    }
}

/// The value of a function that returns one real, and its gradient: all derivatives together take a small constant
/// factor of the time of one call.
///
/// Arguments are as for `dualvm_call`. `value` may be null. `gradient` has a place for each argument, and takes what is
/// of the argument's kind and length, or null for what is discrete or not asked for (`dualvm_function_wrt`). Its arrays
/// are the frame's until its next call. It may be null with a count of 0: `dualvm_frame_gradient` has it in one row.
///
/// Errors: as `dualvm_call`, and `NOT_SCALAR` if the result is not one real.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_value_and_grad(
    frame: *mut dualvm_frame,
    args: *const dualvm_value,
    arg_count: usize,
    value: *mut f64,
    gradient: *mut dualvm_value,
    gradient_count: usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let mut frame = claim::<Frame>(frame)?;
            let Frame { function, module, memory, lent } = &mut *frame;
            let params = function.params().len();
            let value = Out::wanted(value, "value")?;
            let wanted = Wanted::new(gradient, gradient_count, params, "gradient")?;
            let args = Given::new(args, arg_count, params, "args", lent)?;
            lent.end();
            let outcome = function.value_and_grad(memory, &args.values);
            let (found, gradient) = outcome.map_err(|error| failed(module, error))?;
            if let Some(value) = value {
                value.write(found);
            }
            wanted.gradient(gradient, lent);
            Ok(())
        })
    }
}

/// The gradient that the last call has left, in one row: the derivatives with respect to all reals that are asked for,
/// in order, those of an array side by side. `len` says how many there are. They are the frame's until its next call.
///
/// Errors: `INVALID_ARGUMENT` if the last call was none with a gradient, or has failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_frame_gradient(
    frame: *mut dualvm_frame,
    reals: *mut *const f64,
    len: *mut usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let (reals, len) = (Out::new(reals, "reals")?, Out::new(len, "len")?);
            let mut frame = claim::<Frame>(frame)?;
            let Frame { memory, lent, .. } = &mut *frame;
            let gradient = memory.gradient().ok_or_else(|| Report::invalid("the last call has left no gradient"))?;
            lent.add(dualvm::FlatValue::Reals(gradient.reals()));
            reals.write(gradient.reals().as_ptr());
            len.write(gradient.reals().len());
            Ok(())
        })
    }
}

/// `dualvm_value_and_grad`, with the gradient copied to the caller's memory, in one row: what an optimiser wants that
/// has its unknowns in one vector. `len` is how many places there are: as many as reals are asked for.
///
/// Errors: as `dualvm_value_and_grad`; `INVALID_ARGUMENT` if there are other than `len` reals, which is said after the
/// run, where lengths of arrays are known. On an error nothing is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_value_and_grad_into(
    frame: *mut dualvm_frame,
    args: *const dualvm_value,
    arg_count: usize,
    value: *mut f64,
    gradient: *mut f64,
    len: usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let mut frame = claim::<Frame>(frame)?;
            let Frame { function, module, memory, lent } = &mut *frame;
            let value = Out::wanted(value, "value")?;
            let to = OutSlice::new(gradient, len, "gradient")?;
            let args = Given::new(args, arg_count, function.params().len(), "args", lent)?;
            lent.end();
            let outcome = function.value_and_grad(memory, &args.values);
            let (found, gradient) = outcome.map_err(|error| failed(module, error))?;
            let reals = gradient.reals();
            if reals.len() != to.len() {
                return Err(wrong_count(reals.len(), len, "gradient"));
            }
            to.copy(reals);
            if let Some(value) = value {
                value.write(found);
            }
            Ok(())
        })
    }
}

/// The function's results, and the product of these cotangents of them with the Jacobian: one forward run and one
/// sweep.
///
/// There is a cotangent for each leaf of the result, of its kind and length, and null for what is discrete. `results`
/// and `gradient` are as for `dualvm_call` and `dualvm_value_and_grad`.
///
/// Errors: as `dualvm_call`; `ARGUMENT` if these are not the cotangents of the results.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_vjp(
    frame: *mut dualvm_frame,
    args: *const dualvm_value,
    arg_count: usize,
    cotangents: *const dualvm_value,
    cotangent_count: usize,
    results: *mut dualvm_value,
    result_count: usize,
    gradient: *mut dualvm_value,
    gradient_count: usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let mut frame = claim::<Frame>(frame)?;
            let Frame { function, module, memory, lent } = &mut *frame;
            let (params, all) = (function.params().len(), function.results().len());
            let wanted = Wanted::new(results, result_count, all, "results")?;
            let wanted_gradient = Wanted::new(gradient, gradient_count, params, "gradient")?;
            let args = Given::new(args, arg_count, params, "args", lent)?;
            let cotangents = Given::new(cotangents, cotangent_count, all, "cotangents", lent)?;
            lent.end();
            let outcome = function.vjp(memory, &args.values, &cotangents.values);
            let (results, gradient) = outcome.map_err(|error| failed(module, error))?;
            wanted.results(results, lent);
            wanted_gradient.gradient(gradient, lent);
            Ok(())
        })
    }
}

/// Calls the function and records the run, for `dualvm_pullback`. Else as `dualvm_call`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_record(
    frame: *mut dualvm_frame,
    args: *const dualvm_value,
    arg_count: usize,
    results: *mut dualvm_value,
    result_count: usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let mut frame = claim::<Frame>(frame)?;
            let Frame { function, module, memory, lent } = &mut *frame;
            let wanted = Wanted::new(results, result_count, function.results().len(), "results")?;
            let args = Given::new(args, arg_count, function.params().len(), "args", lent)?;
            lent.end();
            let recorded = function.record(memory, &args.values).map_err(|error| failed(module, error))?;
            wanted.results(recorded.results(), lent);
            Ok(())
        })
    }
}

/// Pulls cotangents back through the run that the last call of this frame has recorded: one sweep. As often as one
/// likes, with other cotangents: a Jacobian, row by row. Its results stay as they are. Fuel and all limits but time are
/// for the run and its pullbacks together.
///
/// Errors: as `dualvm_vjp`; `INVALID_ARGUMENT` if the last call was not `dualvm_record`, or has failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_pullback(
    frame: *mut dualvm_frame,
    cotangents: *const dualvm_value,
    cotangent_count: usize,
    gradient: *mut dualvm_value,
    gradient_count: usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let mut frame = claim::<Frame>(frame)?;
            let Frame { function, module, memory, lent } = &mut *frame;
            let wanted = Wanted::new(gradient, gradient_count, function.params().len(), "gradient")?;
            let cotangents = Given::new(cotangents, cotangent_count, function.results().len(), "cotangents", lent)?;
            let Some(mut recorded) = memory.recorded() else {
                return Err(Report::invalid("the last call was not dualvm_record, or it has failed"));
            };
            let gradient = recorded.pullback(&cotangents.values).map_err(|error| failed(module, error))?;
            wanted.gradient(gradient, lent);
            Ok(())
        })
    }
}

/// The function's results, and how they change as the arguments move in the direction of tangents: the product of the
/// Jacobian and these. Forward mode: it takes about as long as two to three calls, and no tape.
///
/// There is a tangent for each argument, of its kind and length, and null for what has no derivative
/// (`dualvm_leaf.has_derivative`). `results` is as for `dualvm_call`; `moved` takes the tangents of the results, with
/// null for what is discrete, and may be null with a count of 0.
///
/// Errors: as `dualvm_call`; `ARGUMENT` if these are not tangents of the arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_jvp(
    frame: *mut dualvm_frame,
    args: *const dualvm_value,
    arg_count: usize,
    tangents: *const dualvm_value,
    tangent_count: usize,
    results: *mut dualvm_value,
    result_count: usize,
    moved: *mut dualvm_value,
    moved_count: usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let mut frame = claim::<Frame>(frame)?;
            let Frame { function, module, memory, lent } = &mut *frame;
            let (params, all) = (function.params().len(), function.results().len());
            let wanted = Wanted::new(results, result_count, all, "results")?;
            let wanted_tangents = Wanted::new(moved, moved_count, all, "moved")?;
            let args = Given::new(args, arg_count, params, "args", lent)?;
            let tangents = Given::new(tangents, tangent_count, params, "tangents", lent)?;
            lent.end();
            let outcome = function.jvp(memory, &args.values, &tangents.values);
            let (results, moved) = outcome.map_err(|error| failed(module, error))?;
            wanted.results(results, lent);
            wanted_tangents.write(moved.iter(), lent);
            Ok(())
        })
    }
}

/// The value of a function that returns one real, its gradient, and the product of its Hessian and tangents: how the
/// gradient changes as the arguments move in their direction. Some times the cost of a gradient, however many arguments
/// there are.
///
/// Tangents are as for `dualvm_jvp`. `value`, `gradient` and `product` are as for `dualvm_value_and_grad`, and each may
/// be null; `count` is how many places `gradient` and `product` have.
///
/// Errors: as `dualvm_jvp`, and `NOT_SCALAR`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_hvp(
    frame: *mut dualvm_frame,
    args: *const dualvm_value,
    arg_count: usize,
    tangents: *const dualvm_value,
    tangent_count: usize,
    value: *mut f64,
    gradient: *mut dualvm_value,
    product: *mut dualvm_value,
    count: usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let mut frame = claim::<Frame>(frame)?;
            let Frame { function, module, memory, lent } = &mut *frame;
            let params = function.params().len();
            let places = |first: *mut dualvm_value| if first.is_null() { 0 } else { count };
            let value = Out::wanted(value, "value")?;
            let wanted = Wanted::new(gradient, places(gradient), params, "gradient")?;
            let wanted_product = Wanted::new(product, places(product), params, "product")?;
            let args = Given::new(args, arg_count, params, "args", lent)?;
            let tangents = Given::new(tangents, tangent_count, params, "tangents", lent)?;
            lent.end();
            let outcome = function.hvp(memory, &args.values, &tangents.values);
            let (found, gradient, product) = outcome.map_err(|error| failed(module, error))?;
            if let Some(value) = value {
                value.write(found);
            }
            wanted.gradient(gradient, lent);
            wanted_product.gradient(product, lent);
            Ok(())
        })
    }
}

/// The function's results and its Jacobian, row by row: the gradient of each real in the results, in the order in which
/// they stand there. One forward run, and one sweep for each row.
///
/// `results` is as for `dualvm_call`. `matrix` has `len` places for the caller's copy, `rows * columns` of them, where
/// columns are the reals in the arguments that are asked for. Both counts are written to `rows` and `columns`, also if
/// `len` is another number; so who doesn't know them asks with a null `matrix` and a `len` of 0, which makes no sweep.
///
/// Errors: as `dualvm_call`; `INVALID_ARGUMENT` if there are other than `len` entries, unless nothing was asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_jacobian(
    frame: *mut dualvm_frame,
    args: *const dualvm_value,
    arg_count: usize,
    results: *mut dualvm_value,
    result_count: usize,
    matrix: *mut f64,
    len: usize,
    rows: *mut usize,
    columns: *mut usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let mut frame = claim::<Frame>(frame)?;
            let Frame { function, module, memory, lent } = &mut *frame;
            let (rows, columns) = (Out::wanted(rows, "rows")?, Out::wanted(columns, "columns")?);
            let wanted = Wanted::new(results, result_count, function.results().len(), "results")?;
            let to = OutSlice::new(matrix, len, "matrix")?;
            let args = Given::new(args, arg_count, function.params().len(), "args", lent)?;
            lent.end();
            let mut recorded = function.record(memory, &args.values).map_err(|error| failed(module, error))?;
            let [height, width] = recorded.jacobian_size();
            if let Some(rows) = rows {
                rows.write(height);
            }
            if let Some(columns) = columns {
                columns.write(width);
            }
            if !matrix.is_null() {
                let entries = height.checked_mul(width);
                if entries != Some(to.len()) {
                    let message = format!("`matrix`: expected {height} rows of {width} entries, found {len} places");
                    return Err(Report::invalid(message));
                }
                let mut left = to;
                let taken = recorded.jacobian(|row| left = left.copy(row));
                taken.map_err(|error| failed(module, error))?;
            }
            wanted.results(recorded.results(), lent);
            Ok(())
        })
    }
}
