//! Flat calls: numbers and slices in, numbers and slices out, with value, gradient and the product of any cotangent
//! with the Jacobian. Nothing is allocated from the second call on. Long arrays are read where they are, and only
//! lists, and arguments that are given back, are copied on the way out.
//!
//! A parameter or a result is flat if it is a real, an integer or a boolean, an array or a list of one of these, an
//! array of tuples or records of one of these, whose parts follow each other in one slice, a matrix or a tensor of what
//! an array may be of, or a tuple or a record of such. It is taken apart into its *leaves*, which stand in a row:
//! `(p : (Real, { n : Int, xs : Array Real }))` has three, `p.0`, `p.1.n` and `p.1.xs`. Tuples and records are not seen
//! any more. A matrix has two, the shape and then the elements, row by row: `m : Matrix Real` of two rows and three
//! columns is the integers 2 and 3 at `m.shape` and six reals at `m`. The derivative of a shape is null, as it is of
//! everything discrete. So all that crosses the border is [`FlatValue`]s, each a tag and a number or a slice: what
//! other languages have, too.
//!
//! ```
//! use dualvm_vm::engine::{Engine, Module};
//! use dualvm_vm::flat::{FlatValue, CallFrame};
//! use dualvm_vm::text;
//!
//! let def = text::parse("type t0 = array real
//! func \"scaled\" (t0, real) -> (real, real)
//!     export (xs : Array Real @t0, k : Real) -> (Real, Real)
//!     regs 3 real, 2 int, t0
//!     {
//!     iconst i0, 0
//!     iconst i1, 1
//!     elem r1, p0, i0
//!     elem r2, p0, i1
//!     mul r1, r1, r0
//!     mul r2, r2, r0
//!     ret (r1, r2) }", "scaled.dvs").map_err(|errors| errors[0].to_string())?;
//! let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
//! // def scaled (xs : Array Real) (k : Real) = (k * xs[0], k * xs[1])
//! let scaled = module.function("scaled").ok_or("no such function")?.flat()?;
//!
//! let mut frame = CallFrame::new();
//! let results = scaled.call(&mut frame, &[(&[3.0, 4.0]).into(), 2.0.into()])?;
//! assert_eq!(results.get(1), Some(FlatValue::Real(8.0)));
//!
//! // The cotangents of both results are pulled back to the arguments.
//! let mut recorded = scaled.record(&mut frame, &[(&[3.0, 4.0]).into(), 2.0.into()])?;
//! let gradient = recorded.pullback(&[1.0.into(), 10.0.into()])?;
//! assert_eq!(gradient.get(0), Some(FlatValue::Reals(&[2.0, 20.0])));
//! assert_eq!(gradient.get(1), Some(FlatValue::Real(43.0)));
//! assert_eq!(gradient.reals(), [2.0, 20.0, 43.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`RecordedCall::pullback`] is what others call the function that a vjp returns; [`FlatFunction::vjp`] records and
//! pulls back at once, and [`FlatFunction::value_and_grad`] with the cotangent 1. [`FlatFunction::jvp`] and
//! [`FlatFunction::hvp`] go in the direction of tangents, [`RecordedCall::jacobian`] takes all rows.

mod argument_writer;
mod batch;
mod call_frame;
mod derivatives;
mod signature;
mod value;

pub(crate) use argument_writer::ArgumentWriter;
pub use batch::{Column, ColumnError, ColumnMut, ItemError, Places};
pub use call_frame::{CallFrame, FlatGradient, FlatResults, FlatTangents, RecordedCall};
pub use signature::{Leaf, LeafKind, NotFlat};
pub(crate) use signature::{kind_of, row_of};
pub use value::{CotangentError, FlatValue};

use crate::code::Mode;
use crate::embedding::convert::WriteError;
use crate::embedding::engine::{Function, RunError};
use call_frame::Residue;
use signature::FlatSignature;
use std::sync::Arc;

/// An exported function that is called with numbers and slices; [`Function::flat`] makes it. Cheap to clone, `Send` and
/// `Sync`; it may be called from any number of threads at a time, each with a [`CallFrame`] of its own.
#[derive(Clone, Debug)]
pub struct FlatFunction(Arc<FlatSignature>);

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<FlatFunction>();
};

impl Function {
    /// The function, to be called with numbers and slices.
    ///
    /// # Errors
    /// If a parameter or the result is not flat; see [`crate::flat`].
    ///
    /// ```
    /// # use dualvm_vm::engine::{Engine, Module};
    /// # use dualvm_vm::text;
    /// # let def = text::parse("type t0 = array real
    /// # type t1 = array t0
    /// # func \"rows\" (t1) -> (int)
    /// #     export (m : Array (Array Real @t0) @t1) -> Int
    /// #     regs 1 int, t1
    /// #     {
    /// #     len i0, p0
    /// #     ret (i0) }", "rows.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def rows (m : Array (Array Real)) : Int = length m
    /// let error = module.function("rows").ok_or("no such function")?.flat().unwrap_err();
    /// assert_eq!(error.place(), "parameter m");
    /// assert!(error.to_string().ends_with("found Array (Array Real)"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flat(&self) -> Result<FlatFunction, NotFlat> {
        FlatSignature::of(self).map(|signature| FlatFunction(Arc::new(signature)))
    }
}

impl FlatFunction {
    /// The function, to be called with values.
    pub fn function(&self) -> &Function {
        &self.0.function
    }

    /// What a call takes, in order.
    pub fn params(&self) -> &[Leaf] {
        &self.0.params
    }

    /// What a call gives, in order.
    pub fn results(&self) -> &[Leaf] {
        &self.0.results
    }

    /// Where a leaf of this function is: the parameter's name or `result`, then numbers of parts and names of fields,
    /// as in `p.1.mass`. A kilobyte at most.
    pub fn place(&self, leaf: &Leaf) -> String {
        self.0.place(leaf)
    }

    /// Calls the function. There is one argument for each of [`FlatFunction::params`].
    ///
    /// # Errors
    /// [`RunError::Argument`] if the arguments are not of the leaves' kinds, [`RunError::Trap`] if the program traps or
    /// reaches a limit.
    #[inline]
    pub fn call<'f>(&self, frame: &'f mut CallFrame, args: &[FlatValue<'_>]) -> Result<FlatResults<'f>, RunError> {
        self.run(frame, args, Mode::PRIMAL, false)?;
        Ok(FlatResults::of(frame))
    }

    /// Calls the function and records what [`RecordedCall::pullback`] takes. Its arguments are copied, because what it
    /// has recorded is there until the frame's next call.
    ///
    /// # Errors
    /// As [`FlatFunction::call`].
    #[inline]
    pub fn record<'f>(&self, frame: &'f mut CallFrame, args: &[FlatValue<'_>]) -> Result<RecordedCall<'f>, RunError> {
        self.run(frame, args, Mode::RECORDING, true)?;
        Ok(RecordedCall::of(frame))
    }

    /// The same for a sweep within the call.
    #[inline]
    fn record_once<'f>(&self, frame: &'f mut CallFrame, args: &[FlatValue<'_>]) -> Result<RecordedCall<'f>, RunError> {
        self.run(frame, args, Mode::RECORDING, false)?;
        Ok(RecordedCall::of(frame))
    }

    /// The results of a call, and the product of these cotangents of them with the Jacobian: `wᵀ J`. One forward run
    /// and one sweep. [`RecordedCall::pullback`] says what cotangents are.
    ///
    /// # Errors
    /// As [`FlatFunction::call`], and [`RunError::Cotangent`] if these are not the cotangents of the results.
    pub fn vjp<'f>(
        &self,
        frame: &'f mut CallFrame,
        args: &[FlatValue<'_>],
        cotangents: &[FlatValue<'_>],
    ) -> Result<(FlatResults<'f>, FlatGradient<'f>), RunError> {
        self.record_once(frame, args)?.into_gradient(cotangents)
    }

    /// The function's value, which is one real, and its gradient with respect to all reals in the arguments.
    ///
    /// # Errors
    /// As [`FlatFunction::call`], and [`RunError::NotScalar`] if the result is not one real.
    #[inline]
    pub fn value_and_grad<'f>(
        &self,
        frame: &'f mut CallFrame,
        args: &[FlatValue<'_>],
    ) -> Result<(f64, FlatGradient<'f>), RunError> {
        self.check_scalar()?;
        self.record_once(frame, args)?.into_gradient_of_scalar()
    }

    /// Runs the function; perhaps for sweeps when the call has ended.
    fn run(&self, frame: &mut CallFrame, args: &[FlatValue<'_>], mode: Mode, for_later: bool) -> Result<(), RunError> {
        let signature = &*self.0;
        let mut run = frame.begin(self);
        if for_later {
            run.copy_arguments();
        }
        // SAFETY: all arguments are compared with their leaves. They stay until the call has ended, and are copied for
        // what lasts longer.
        unsafe { run.run(mode, |to| write(signature, args, to)) }?;
        if signature.takes_sequences {
            frame.place(args);
        }
        frame.set_for_later(for_later);
        frame.leave(if mode.is_recording() { Residue::Tape } else { Residue::Results })
    }

    /// Whether there is one gradient.
    #[inline]
    fn check_scalar(&self) -> Result<(), RunError> {
        if self.0.function.interface().result.is_real() { Ok(()) } else { Err(self.not_scalar()) }
    }

    #[cold]
    fn not_scalar(&self) -> RunError {
        let function = &self.0.function;
        RunError::NotScalar { function: function.name().to_owned(), result: function.interface().result.clone() }
    }
}

/// Writes the arguments of a call.
fn write(signature: &FlatSignature, args: &[FlatValue<'_>], to: &mut ArgumentWriter<'_>) -> Result<(), WriteError> {
    if args.len() != signature.params.len() {
        return Err(value::wrong_count(signature, args.len()).into());
    }
    if signature.only_reals && to.writes_arguments() {
        return to.reals(args.iter().enumerate().map(|(n, &arg)| match arg {
            FlatValue::Real(x) => Ok(x),
            _ => Err(value::wrong_kind(signature, &signature.params[n], arg).into()),
        }));
    }
    // That of the tensor whose elements are next.
    let mut shape: &[i64] = &[];
    for (leaf, &arg) in signature.params.iter().zip(args) {
        to.begin(leaf.parameter().expect("it is one of a parameter's"), leaf.active)?;
        match (leaf.kind(), arg) {
            (LeafKind::Shape, arg) => shape = value::shape(signature, leaf, arg)?,
            (LeafKind::Real, FlatValue::Real(x)) => to.real(x)?,
            (LeafKind::Int, FlatValue::Int(n)) => to.int(n),
            (LeafKind::Bool, FlatValue::Int(n)) => {
                if n & !1 != 0 {
                    return Err(value::no_bool(signature, leaf, None, n).into());
                }
                to.int(n);
            }
            (_, arg) if leaf.rank() > 0 && !value::is_filled(leaf, shape, arg) => {
                return Err(value::unfilled(signature, leaf, shape, arg).into());
            }
            (_, arg) if !value::is_whole(leaf, arg) => {
                return Err(value::incomplete(signature, leaf, arg).into());
            }
            (LeafKind::Reals, FlatValue::Reals(xs)) if leaf.rank() > 0 => {
                // SAFETY: the elements are one array.
                unsafe { to.tensor(shape.iter().copied(), |to| to.real_array(xs)) }?;
            }
            (LeafKind::Reals, FlatValue::Reals(xs)) => {
                if leaf.list.is_some() { to.real_list(xs) } else { to.real_array(xs) }?;
            }
            (kind @ (LeafKind::Ints | LeafKind::Bools), FlatValue::Ints(ns)) => {
                if kind == LeafKind::Bools
                    && let Some(index) = ns.iter().position(|n| n & !1 != 0)
                {
                    return Err(value::no_bool(signature, leaf, Some(index), ns[index]).into());
                }
                if leaf.rank() > 0 {
                    // SAFETY: the same.
                    unsafe { to.tensor(shape.iter().copied(), |to| to.int_array(ns)) }?;
                } else if leaf.list.is_some() {
                    to.int_list(ns)?;
                } else {
                    to.int_array(ns)?;
                }
            }
            _ => return Err(value::wrong_kind(signature, leaf, arg).into()),
        }
    }
    Ok(to.end(signature.function.interface().params.len())?)
}
