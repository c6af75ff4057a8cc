//! What a host function sees of a call, and where its results go.

use crate::engine::{CallOptions, Limits};
use crate::flat::{FlatValue, LeafKind};
use crate::running::meter::Account;
use crate::trap::{HostCause, HostFailure, TrapKind};
use std::any::Any;
use std::cell::Cell;
use std::fmt;

/// Why a host function gives no results.
///
/// `?` makes one of every error that threads may share, which is the trap's [`HostCause`] then; a text alone goes into
/// [`HostError::new`].
#[derive(Debug)]
pub struct HostError(Reason);

#[derive(Debug)]
enum Reason {
    Text(String, Option<HostCause>),
    /// The run has come to its end meanwhile.
    Stop(TrapKind),
}

impl HostError {
    /// An error with a text, for the message of the trap that it becomes.
    pub fn new(text: impl fmt::Display) -> HostError {
        HostError(Reason::Text(text.to_string(), None))
    }

    /// Why the run ends, if it is that: its time has passed, it was cancelled, or it may take no more memory.
    pub fn stop_kind(&self) -> Option<&TrapKind> {
        if let Reason::Stop(kind) = &self.0 { Some(kind) } else { None }
    }

    pub(crate) fn stop(kind: impl Into<TrapKind>) -> HostError {
        HostError(Reason::Stop(kind.into()))
    }

    /// What becomes of it in a call of this function.
    pub(crate) fn trap(self, function: &str) -> TrapKind {
        match self.0 {
            Reason::Text(message, cause) => HostFailure::trap(function, message, cause),
            Reason::Stop(kind) => kind,
        }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Text(text, _) => f.write_str(text),
            Reason::Stop(kind) => kind.fmt(f),
        }
    }
}

// It is no error of Rust's itself, because everything that is becomes one.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for HostError {
    fn from(error: E) -> Self {
        HostError(Reason::Text(error.to_string(), Some(HostCause::new(error))))
    }
}

/// Where results go, one after the other.
pub(crate) trait Sink {
    fn real(&mut self, x: f64);
    fn int(&mut self, n: i64);
    /// The shape of a tensor, whose elements are next.
    fn shape(&mut self, shape: &[i64]) -> Result<(), HostError>;
    /// So many reals, zeros that `fill` writes over.
    fn reals(&mut self, len: usize, fill: &mut dyn FnMut(&mut [f64])) -> Result<(), HostError>;
    fn ints(&mut self, ns: &[i64]) -> Result<(), HostError>;
}

/// The run that a call is a part of.
#[derive(Clone, Copy)]
pub(crate) struct CallingRun<'c> {
    pub(crate) account: &'c Account,
    pub(crate) limits: &'c Limits,
    /// Fuel that it has left when the call begins.
    pub(crate) fuel: u64,
    /// Frames that may nest in it.
    pub(crate) depth: usize,
    /// Fuel that the host has charged it.
    pub(crate) charged: &'c Cell<u64>,
    /// Whether the host has asked for its limits, so that what it calls may have been stopped by these.
    pub(crate) is_shared: &'c Cell<bool>,
}

/// A call of a host function: its arguments, in order, and the way for its results.
pub struct HostCall<'c> {
    args: &'c [FlatValue<'c>],
    saved: Option<&'c (dyn Any + Send + Sync)>,
    run: CallingRun<'c>,
    sink: &'c mut dyn Sink,
    /// What is to be given.
    results: &'c [LeafKind],
    given: usize,
    /// Whether a result is being given, or was refused: then the sink is between two of them, and takes no more.
    is_open: bool,
}

impl fmt::Debug for HostCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostCall").field("args", &self.args).field("given", &self.given).finish_non_exhaustive()
    }
}

impl<'c> HostCall<'c> {
    pub(crate) fn new(
        args: &'c [FlatValue<'c>],
        saved: Option<&'c (dyn Any + Send + Sync)>,
        run: CallingRun<'c>,
        (results, sink): (&'c [LeafKind], &'c mut dyn Sink),
    ) -> Self {
        HostCall { args, saved, run, sink, results, given: 0, is_open: false }
    }

    /// All arguments. Arrays and tensors are where the machine has them; lists are copies.
    pub fn args(&self) -> &'c [FlatValue<'c>] {
        self.args
    }

    /// The argument of this number, a real.
    ///
    /// # Panics
    /// If there is none, or it is something else.
    #[track_caller]
    pub fn real(&self, n: usize) -> f64 {
        self.args[n].as_real().unwrap_or_else(|| self.is_none(n, "a real"))
    }

    /// The argument of this number, an integer, or a boolean as 0 or 1.
    ///
    /// # Panics
    /// As [`HostCall::real`].
    #[track_caller]
    pub fn int(&self, n: usize) -> i64 {
        self.args[n].as_int().unwrap_or_else(|| self.is_none(n, "an integer"))
    }

    /// The argument of this number, reals.
    ///
    /// # Panics
    /// As [`HostCall::real`].
    #[track_caller]
    pub fn reals(&self, n: usize) -> &'c [f64] {
        self.args[n].as_reals().unwrap_or_else(|| self.is_none(n, "reals"))
    }

    /// The argument of this number, integers, or booleans as 0 and 1, or the shape of the tensor whose elements are the
    /// next argument: an extent for each dimension.
    ///
    /// # Panics
    /// As [`HostCall::real`].
    #[track_caller]
    pub fn ints(&self, n: usize) -> &'c [i64] {
        self.args[n].as_ints().unwrap_or_else(|| self.is_none(n, "integers"))
    }

    #[track_caller]
    fn is_none(&self, n: usize, what: &str) -> ! {
        panic!("argument {n} is not {what} but {:?}", self.args[n])
    }

    /// In a vjp: what the recorded call has left for it, if it was made [with
    /// that](super::HostFunction::with_saving_vjp) and this is the same call's. `None` where there is nothing:
    /// derivatives of derivatives may be taken without one.
    pub fn saved<S: Any>(&self) -> Option<&'c S> {
        self.saved.and_then(|saved| saved.downcast_ref())
    }

    /// Gives the next result: of a tensor its shape, as integers, and then its elements, row by row.
    ///
    /// # Errors
    /// If that isn't one of its kind, a tensor has another number of elements than its shape says or a derivative
    /// another shape than what it belongs to, there are no more results, or the run may use no more memory. After an
    /// error nothing more is taken.
    pub fn give<'v>(&mut self, value: impl Into<FlatValue<'v>>) -> Result<(), HostError> {
        let (kind, value) = (self.next_kind()?, value.into());
        self.is_open = true;
        match (kind, value) {
            (LeafKind::Real, FlatValue::Real(x)) => self.sink.real(x),
            (LeafKind::Int, FlatValue::Int(n)) | (LeafKind::Bool, FlatValue::Int(n @ 0..=1)) => self.sink.int(n),
            (LeafKind::Reals, FlatValue::Reals(xs)) => self.sink.reals(xs.len(), &mut |to| to.copy_from_slice(xs))?,
            (LeafKind::Ints, FlatValue::Ints(ns)) => self.sink.ints(ns)?,
            (LeafKind::Shape, FlatValue::Ints(shape)) => self.sink.shape(shape)?,
            (LeafKind::Bools, FlatValue::Ints(ns)) if ns.iter().all(|n| matches!(n, 0..=1)) => self.sink.ints(ns)?,
            (kind, value) => return Err(self.wrong(kind, &value.found())),
        }
        self.close();
        Ok(())
    }

    /// Gives the next result, which is so many reals, where the machine has it: `fill` writes them, over zeros.
    ///
    /// # Errors
    /// As [`HostCall::give`].
    pub fn give_reals(&mut self, len: usize, fill: impl FnOnce(&mut [f64])) -> Result<(), HostError> {
        let kind = self.next_kind()?;
        self.is_open = true;
        if kind != LeafKind::Reals {
            return Err(self.wrong(kind, &format!("{len} reals")));
        }
        let mut fill = Some(fill);
        self.sink.reals(len, &mut |to| fill.take().expect("it is filled once")(to))?;
        self.close();
        Ok(())
    }

    /// The result was given.
    fn close(&mut self) {
        self.is_open = false;
        self.given += 1;
    }

    fn next_kind(&self) -> Result<LeafKind, HostError> {
        if self.is_open {
            return Err(HostError::new(format_args!("it goes on after result {}, which was refused", self.given)));
        }
        self.results
            .get(self.given)
            .copied()
            .ok_or_else(|| HostError::new(format_args!("it gives more than {} results", self.results.len())))
    }

    #[cold]
    fn wrong(&self, kind: LeafKind, found: &str) -> HostError {
        let expected = super::Kinds(&[kind]).to_string();
        let expected = expected.trim_matches(['(', ')']);
        HostError::new(format_args!("result {}: expected {expected}, found {found}", self.given))
    }

    /// Whether the run may go on: for functions that take more than a few milliseconds.
    ///
    /// # Errors
    /// If its deadline has passed or it was cancelled. Whoever gives this error on ends the run with that.
    pub fn check(&self) -> Result<(), HostError> {
        match self.run.account.is_stopped() {
            true => Err(HostError::stop(TrapKind::Cancelled)),
            false => self.run.account.poll().map_err(HostError::stop),
        }
    }

    /// Options for calls of the machine inside of this one, which keep them within the limits of the run that has
    /// called. Without these a call has the limits of its engine, as anywhere: it knows nothing of the run around it.
    ///
    /// Such a call may use what the run has left of fuel, of time, of frames and of compilation, and ends when it is
    /// cancelled. Memory is not shared: it has as much as the run may use. Time passes for both; other things that it
    /// uses are not taken from the run, unless the host says so for fuel: [`HostCall::charge`]. While a run has several
    /// tasks at a time, fuel that others of them have at hand counts as used.
    ///
    /// An error that this call gives after that, when the run has been cancelled or its time has passed, counts as the
    /// run's end, and not as an error of the host's.
    ///
    /// ```
    /// use dualvm_vm::engine::Function;
    /// use dualvm_vm::flat::LeafKind;
    /// use dualvm_vm::host::HostFunction;
    ///
    /// /// Calls a function of one real as a host function.
    /// fn hosted(function: Function) -> HostFunction {
    ///     HostFunction::flat(&[LeafKind::Real], &[LeafKind::Real], move |call| {
    ///         let (value, stats) = function.call_with(&[call.real(0).into()], &call.nested_options())?;
    ///         call.charge(stats.instructions);
    ///         call.give(value.as_real().ok_or_else(|| dualvm_vm::host::HostError::new("it gives no real"))?)
    ///     })
    /// }
    /// ```
    pub fn nested_options(&self) -> CallOptions {
        let CallingRun { account, limits, fuel, depth, charged, is_shared } = self.run;
        is_shared.set(true);
        let limits = Limits {
            fuel: fuel.saturating_sub(charged.get()),
            deadline: None,
            depth,
            compile_time: account.compile_time_left().min(limits.compile_time),
            ..limits.clone()
        };
        let mut options = CallOptions::with_limits(limits);
        (options.cancel, options.ends_at) = (account.cancel_handle().cloned(), account.ends_at());
        options
    }

    /// Charges the run that has called with fuel, such as a call inside of this one has used. If it has not so much
    /// left, it ends when this call returns.
    pub fn charge(&mut self, fuel: u64) {
        self.run.charged.set(self.run.charged.get().saturating_add(fuel));
    }

    /// Calls another function in the time of this call.
    pub(crate) fn nested(
        &self,
        function: &super::HostFunction,
        args: &[FlatValue<'_>],
    ) -> Result<Vec<Recorded>, HostError> {
        let mut sink = Vec::new();
        let mut call = HostCall::new(args, None, self.run, (function.results(), &mut sink));
        function.call(&mut call)?;
        call.end()?;
        Ok(sink)
    }

    /// Whether all results were given.
    pub(crate) fn end(&self) -> Result<(), HostError> {
        match self.results.len() {
            expected if expected == self.given => Ok(()),
            expected => Err(HostError::new(format_args!("it gives {} of {expected} results", self.given))),
        }
    }
}

/// A result that is kept.
pub(crate) enum Recorded {
    Real(f64),
    Int(i64),
    Reals(Vec<f64>),
    Ints(Vec<i64>),
}

impl Recorded {
    pub(crate) fn value(&self) -> FlatValue<'_> {
        match self {
            Recorded::Real(x) => (*x).into(),
            Recorded::Int(n) => (*n).into(),
            Recorded::Reals(xs) => FlatValue::Reals(xs),
            Recorded::Ints(ns) => FlatValue::Ints(ns),
        }
    }
}

impl Sink for Vec<Recorded> {
    fn real(&mut self, x: f64) {
        self.push(Recorded::Real(x));
    }

    fn int(&mut self, n: i64) {
        self.push(Recorded::Int(n));
    }

    fn shape(&mut self, shape: &[i64]) -> Result<(), HostError> {
        self.ints(shape)
    }

    fn reals(&mut self, len: usize, fill: &mut dyn FnMut(&mut [f64])) -> Result<(), HostError> {
        let mut xs = Vec::new();
        xs.try_reserve_exact(len)?;
        xs.resize(len, 0.0);
        fill(&mut xs);
        self.push(Recorded::Reals(xs));
        Ok(())
    }

    fn ints(&mut self, ns: &[i64]) -> Result<(), HostError> {
        self.push(Recorded::Ints(ns.to_vec()));
        Ok(())
    }
}
