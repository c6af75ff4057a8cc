//! Functions: calls and derivatives.

use crate::arguments::Arguments;
use crate::batch::{Batch, Errors, Operation};
use crate::error::{Failure, Kind, detached, fail};
use crate::flatten::{Leaves, check_cotangent, check_shapes, flatten, values};
use crate::frames::Frames;
use crate::interrupt::{Stop, interruptible};
use crate::module::Module;
use crate::numpy;
use crate::options::{CancelHandle, Given, Limits, Settings, Tracing, callable};
use crate::output::{self, FlatOutput};
use crate::place::Place;
use crate::pullback::Pullback;
use crate::selection::Selection;
use crate::values::Converter;
use dualvm::flat::FlatGradient;
use dualvm::{CallFrame, CallOptions, FlatFunction, FlatValue, JacobianMode, Listener, Value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::sync::Mutex;

/// A function of a program, which can be called like any other, and differentiated.
#[pyclass(frozen, weakref, module = "dualvm")]
pub(crate) struct Function {
    pub(crate) module: Py<Module>,
    pub(crate) function: dualvm::Function,
    /// The same for flat calls, if parameters and result are of numbers and arrays only.
    pub(crate) flat: Option<FlatFunction>,
    pub(crate) selection: Selection,
    settings: Settings,
    limits: Option<dualvm::Limits>,
    pub(crate) frames: Frames,
    /// The same function with other selections, which were asked for by `wrt=`.
    selected: Mutex<Vec<(Selection, Py<Function>)>>,
}

impl Function {
    /// A function of the module's, with the module's settings.
    pub(crate) fn new(module: &Bound<'_, Module>, function: dualvm::Function) -> Self {
        let settings = module.get().settings.copy(module.py());
        Function::selecting(module.clone().unbind(), function, Selection::All, settings)
    }

    fn selecting(module: Py<Module>, function: dualvm::Function, selection: Selection, settings: Settings) -> Self {
        let flat = function.flat().ok();
        let engine = module.get().module.engine().limits();
        let limits = settings.limits.as_ref().map(|limits| limits.of_call(engine));
        let (frames, selected) = (Frames::default(), Mutex::default());
        Function { module, function, flat, selection, settings, limits, frames, selected }
    }

    fn with_selection(&self, py: Python<'_>, selection: Selection) -> PyResult<Function> {
        let function = selection.of(&self.function).map_err(|error| Failure::Of(error).raise(py, None))?;
        Ok(Function::selecting(self.module.clone_ref(py), function, selection, self.settings.copy(py)))
    }

    /// The function with derivatives with respect to these, kept for the next time.
    fn selected<'py>(&self, py: Python<'py>, selection: Selection) -> PyResult<Bound<'py, Function>> {
        const KEPT_MAX: usize = 16;
        let find = || {
            let kept = self.selected.lock().expect("nothing panics with it");
            let found = kept.iter().find(|(kept, _)| *kept == selection);
            found.map(|(_, function)| function.clone_ref(py).into_bound(py))
        };
        if let Some(found) = find() {
            return Ok(found);
        }
        let function = Bound::new(py, self.with_selection(py, selection.clone())?)?;
        let mut kept = self.selected.lock().expect("nothing panics with it");
        if kept.len() < KEPT_MAX {
            kept.push((selection, function.clone().unbind()));
        }
        Ok(function)
    }

    /// What stops calls.
    fn stop(&self) -> Stop<'_> {
        Stop::by(self.settings.cancel.as_ref())
    }

    /// Runs something of the function's, which this stops, and which its listener hears.
    fn guarded<T>(
        &self,
        py: Python<'_>,
        stop: Stop<'_>,
        mut work: impl FnMut(Option<&dualvm::CancelHandle>, Option<Listener>) -> Result<T, Failure>,
    ) -> PyResult<T> {
        let tracing = self.settings.trace.as_ref().map(|trace| Tracing::new(trace.clone_ref(py)));
        interruptible(py, stop, Some(self.module.get()), |cancel| {
            let Some(tracing) = &tracing else { return work(cancel, None) };
            let outcome = work(cancel, Some(tracing.listener()));
            match tracing.take_error() {
                Some(error) => Err(error.into()),
                None => outcome,
            }
        })
    }

    /// The same for calls that are made with these options.
    pub(crate) fn guarded_calls<T>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&CallOptions) -> Result<T, Failure>,
    ) -> PyResult<T> {
        self.guarded(py, self.stop(), |cancel, listener| {
            let mut options = CallOptions::default();
            options.limits.clone_from(&self.limits);
            // As for `Frames::take`.
            options.copy_arguments = true;
            (options.cancel, options.trace) = (cancel.cloned(), listener);
            work(&options)
        })
    }

    /// How many threads calls run on side by side.
    pub(crate) fn threads(&self) -> usize {
        self.module.get().module.engine().threads()
    }

    /// A flat call, or a derivative: `run` leaves in the frame what `build` makes objects of.
    fn run_flat<T, E: Into<Failure>>(
        &self,
        py: Python<'_>,
        leaves: &Leaves,
        run: impl Fn(&FlatFunction, &mut CallFrame, &[FlatValue<'_>]) -> Result<(), E> + Sync,
        build: impl Fn(&CallFrame, &[FlatValue<'_>]) -> PyResult<T>,
    ) -> PyResult<T> {
        self.run_flat_in(py, self.stop(), leaves, run, build).map(|(done, frame)| {
            self.frames.put_back(frame);
            done
        })
    }

    /// The same, which this stops. Gives the frame, too.
    fn run_flat_in<T, E: Into<Failure>>(
        &self,
        py: Python<'_>,
        stop: Stop<'_>,
        leaves: &Leaves,
        run: impl Fn(&FlatFunction, &mut CallFrame, &[FlatValue<'_>]) -> Result<(), E> + Sync,
        build: impl Fn(&CallFrame, &[FlatValue<'_>]) -> PyResult<T>,
    ) -> PyResult<(T, Box<CallFrame>)> {
        let flat = self.flat.as_ref().expect("who calls has asked");
        let values = values(leaves);
        let mut frame = Some(self.frames.take(self.limits.as_ref()));
        let outcome = self.guarded(py, stop, |cancel, listener| {
            let Some(mut taken) = frame.take() else { return Err(Failure::Panic("a frame is gone".to_owned())) };
            let options = taken.options_mut();
            (options.cancel, options.trace) = (cancel.cloned(), listener);
            let outcome = match detached(py, || run(flat, &mut taken, &values).map_err(Into::into)) {
                Ok(()) => build(&taken, &values).map_err(Failure::Python),
                Err(panic @ Failure::Panic(_)) => {
                    // Nobody knows what state it is in.
                    std::mem::forget(taken);
                    return Err(panic);
                }
                Err(failure) => Err(failure),
            };
            frame = Some(taken);
            outcome
        });
        match (outcome, frame) {
            (Ok(done), Some(frame)) => Ok((done, frame)),
            (Ok(_), None) => Err(fail(py, Kind::Internal, "a frame is gone")),
            (Err(error), frame) => {
                if let Some(frame) = frame {
                    self.frames.put_back(frame);
                }
                Err(error)
            }
        }
    }

    /// Goes on with a recorded run, which this handle cancels.
    pub(crate) fn resume<T>(
        &self,
        py: Python<'_>,
        cancel: &dualvm::CancelHandle,
        mut work: impl FnMut() -> Result<T, Failure>,
    ) -> PyResult<T> {
        interruptible(py, Stop::Handle(cancel), Some(self.module.get()), |_| work())
    }

    /// A call with values, or a derivative.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        run: impl Fn(&dualvm::Function, &CallOptions) -> Result<T, dualvm::Error> + Sync,
    ) -> PyResult<T> {
        self.guarded_calls(py, |options| detached(py, || Ok(run(&self.function, options)?)))
    }

    /// The leaves of all arguments.
    #[inline]
    pub(crate) fn leaves(&self, args: &[Bound<'_, PyAny>]) -> PyResult<Leaves> {
        let mut leaves = Leaves::new();
        for (arg, (name, ty)) in args.iter().zip(&self.function.interface().params) {
            flatten(arg, ty, Place::Whole("argument", name), false, &mut leaves)?;
        }
        Ok(leaves)
    }

    /// All arguments as values.
    pub(crate) fn values(&self, args: &[Bound<'_, PyAny>]) -> PyResult<Vec<Value>> {
        let converter = Converter::new(self.function.data(), false);
        let params = args.iter().zip(&self.function.interface().params);
        params.map(|(arg, (name, ty))| converter.convert(arg, ty, Place::Whole("argument", name))).collect()
    }

    /// The leaves of a tangent of these arguments.
    fn tangent_leaves(&self, tangent: &Bound<'_, PyAny>, of: &Leaves) -> PyResult<Leaves> {
        let params = &self.function.interface().params;
        let mut leaves = Leaves::new();
        for (entry, (name, ty)) in self.selection.entries(tangent, params.len())?.iter().zip(params) {
            flatten(entry, ty, Place::Whole("tangent of", name), true, &mut leaves)?;
        }
        if let Some(flat) = &self.flat {
            let of = values(of);
            check_shapes(flat, flat.params(), "tangent", &leaves, &|n| of[n])
                .map_err(|failure| failure.raise(tangent.py(), None))?;
        }
        Ok(leaves)
    }

    fn tangent_values(&self, tangent: &Bound<'_, PyAny>) -> PyResult<Vec<Value>> {
        let params = &self.function.interface().params;
        let converter = Converter::new(self.function.data(), true);
        let entries = self.selection.entries(tangent, params.len())?;
        let entries = entries.iter().zip(params);
        entries.map(|(entry, (name, ty))| converter.convert(entry, ty, Place::Whole("tangent of", name))).collect()
    }

    pub(crate) fn cotangent_leaves(&self, cotangent: &Bound<'_, PyAny>) -> PyResult<Leaves> {
        let mut leaves = Leaves::new();
        let result = &self.function.interface().result;
        flatten(cotangent, result, Place::Whole("cotangent", ""), true, &mut leaves)?;
        Ok(leaves)
    }

    pub(crate) fn cotangent_value(&self, cotangent: &Bound<'_, PyAny>) -> PyResult<Value> {
        let converter = Converter::new(self.function.data(), true);
        converter.convert(cotangent, &self.function.interface().result, Place::Whole("cotangent", ""))
    }

    /// The results that a flat call has left.
    fn flat_result<'py>(&self, py: Python<'py>, frame: &CallFrame) -> PyResult<Bound<'py, PyAny>> {
        let Some(results) = frame.results() else { return Err(nothing_left(py)) };
        self.flat_result_of(py, &|n| results.get(n).unwrap_or_default())
    }

    /// The results of a flat call.
    pub(crate) fn flat_result_of<'py, 'v>(
        &self,
        py: Python<'py>,
        get: &dyn Fn(usize) -> FlatValue<'v>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(flat) = &self.flat else { return Err(nothing_left(py)) };
        let output = FlatOutput { leaves: flat.results(), get, primal: get };
        output.object(py, &self.function.interface().result, &mut 0, None)
    }

    /// The tangent of the results that a flat call has left.
    fn flat_tangent<'py>(&self, py: Python<'py>, frame: &CallFrame) -> PyResult<Bound<'py, PyAny>> {
        let (Some(flat), Some(results), Some(tangents)) = (&self.flat, frame.results(), frame.tangents()) else {
            return Err(nothing_left(py));
        };
        let get = |n| tangents.get(n).unwrap_or_default();
        let primal = |n| results.get(n).unwrap_or_default();
        let output = FlatOutput { leaves: flat.results(), get: &get, primal: &primal };
        output.object(py, &self.function.interface().result, &mut 0, None)
    }

    /// A gradient that a flat call has left, of the form of the arguments. `primal` has the shapes of tensors.
    pub(crate) fn flat_gradient<'py, 'v>(
        &self,
        py: Python<'py>,
        left: Option<FlatGradient<'v>>,
        primal: &dyn Fn(usize) -> FlatValue<'v>,
        args: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(left) = left else { return Err(nothing_left(py)) };
        self.flat_gradient_of(py, &|n| left.get(n).unwrap_or_default(), primal, args)
    }

    /// The same of leaves.
    pub(crate) fn flat_gradient_of<'py, 'v>(
        &self,
        py: Python<'py>,
        get: &dyn Fn(usize) -> FlatValue<'v>,
        primal: &dyn Fn(usize) -> FlatValue<'v>,
        args: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(flat) = &self.flat else { return Err(nothing_left(py)) };
        let output = FlatOutput { leaves: flat.params(), get, primal };
        let mut next = 0;
        let mut entries = Vec::with_capacity(args.len());
        for (n, (arg, (_, ty))) in args.iter().zip(&self.function.interface().params).enumerate() {
            if self.function.is_wrt(n) {
                entries.push(output.object(py, ty, &mut next, Some(arg))?);
            } else {
                output.skip(ty, &mut next);
                entries.push(py.None().into_bound(py));
            }
        }
        self.selection.gradient(py, entries)
    }

    /// A gradient of values.
    pub(crate) fn gradient<'py>(
        &self,
        py: Python<'py>,
        gradient: &[Value],
        args: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let params = self.function.interface().params.iter();
        let entries = gradient.iter().zip(args).zip(params);
        let entry = |((entry, arg), (_, ty)): ((_, _), &(String, _))| output::object(py, entry, Some(ty), Some(arg));
        self.selection.gradient(py, entries.map(entry).collect::<PyResult<_>>()?)
    }

    pub(crate) fn result<'py>(&self, py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
        output::object(py, value, Some(&self.function.interface().result), None)
    }

    fn valued<'py>(&self, py: Python<'py>, args: &[Bound<'py, PyAny>]) -> PyResult<(f64, Bound<'py, PyAny>)> {
        if self.flat.is_some() {
            let leaves = self.leaves(args)?;
            return self.run_flat(
                py,
                &leaves,
                |flat, frame, args| flat.value_and_grad(frame, args).map(|_| ()),
                |frame, values| {
                    let value = frame.results().and_then(|results| results.get(0)).and_then(FlatValue::as_real);
                    let Some(value) = value else { return Err(nothing_left(py)) };
                    Ok((value, self.flat_gradient(py, frame.gradient(), &|n| values[n], args)?))
                },
            );
        }
        let values = self.values(args)?;
        let found = self.run(py, |function, options| function.value_and_grad_with(&values, options))?;
        Ok((found.value, self.gradient(py, &found.gradient, args)?))
    }

    /// Rows of derivatives as a matrix of so many columns at least.
    fn matrix<'py>(&self, py: Python<'py>, rows: &[Vec<Value>], args: &[Value]) -> PyResult<Bound<'py, PyAny>> {
        let mut entries = Vec::new();
        rows.iter().flatten().for_each(|entry| output::reals_of(entry, &mut entries));
        let columns = if rows.is_empty() {
            let mut reals = Vec::new();
            let wanted = args.iter().enumerate().filter(|(n, _)| self.function.is_wrt(*n));
            wanted.for_each(|(_, arg)| output::reals_of(arg, &mut reals));
            reals.len()
        } else {
            entries.len() / rows.len()
        };
        numpy::reals(py, &[rows.len(), columns], &entries)
    }

    /// The arguments of a call of a derivative, and the function with the selection that is asked for.
    fn prepared<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        extra: Option<&'static str>,
    ) -> PyResult<(Bound<'py, Function>, Arguments<'py>)> {
        let this = slf.get();
        let mut bound = Arguments::bind(&this.function, args, kwargs, extra, true)?;
        let function = match bound.wrt.take() {
            Some(wrt) => this.selected(slf.py(), Selection::new(&wrt, &this.function)?)?,
            None => slf.clone(),
        };
        Ok((function, bound))
    }
}

/// The machine says that a call has succeeded, and has left nothing.
#[cold]
fn nothing_left(py: Python<'_>) -> PyErr {
    fail(py, Kind::Internal, "a call has left no result")
}

#[pymethods]
impl Function {
    /// Calls the function.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let args = Arguments::bind(&self.function, args, kwargs, None, false)?.args;
        if self.flat.is_some() {
            let leaves = self.leaves(&args)?;
            return self.run_flat(
                py,
                &leaves,
                |flat, frame, args| flat.call(frame, args).map(|_| ()),
                |frame, _| self.flat_result(py, frame),
            );
        }
        let values = self.values(&args)?;
        let (value, _) = self.run(py, |function, options| function.call_with(&values, options))?;
        self.result(py, &value)
    }

    /// The value of a function that returns one real, and its gradient.
    #[pyo3(signature = (*args, **kwargs))]
    fn value_and_grad<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<(f64, Bound<'py, PyAny>)> {
        let (function, bound) = Function::prepared(slf, args, kwargs, None)?;
        function.get().valued(slf.py(), &bound.args)
    }

    /// The function's values for many items, on the engine's threads: a list, in the order of the items.
    ///
    /// An item is a tuple of all arguments, or a dict of them by their names. Limits are those of each call. Results
    /// are those of single calls, to the last bit. An item that fails raises its error; with `errors="return"` the
    /// error stands in the list instead, and the others are as if it weren't there.
    #[pyo3(signature = (items, *, errors="raise"))]
    fn batch<'py>(&self, items: &Bound<'py, PyAny>, errors: &str) -> PyResult<Bound<'py, PyList>> {
        let (py, errors) = (items.py(), Errors::of(errors)?);
        Batch { function: self, items: items.try_iter()?, operation: Operation::Value, errors }.run(py)
    }

    /// The same with `value_and_grad`: a list of values and gradients.
    #[pyo3(signature = (items, *, wrt=None, errors="raise"))]
    fn batch_value_and_grad<'py>(
        slf: &Bound<'py, Self>,
        items: &Bound<'py, PyAny>,
        wrt: Option<&Bound<'py, PyAny>>,
        errors: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let (py, this) = (slf.py(), slf.get());
        let function = match wrt {
            Some(wrt) => this.selected(py, Selection::new(wrt, &this.function)?)?,
            None => slf.clone(),
        };
        let (errors, items) = (Errors::of(errors)?, items.try_iter()?);
        Batch { function: function.get(), items, operation: Operation::ValueAndGrad, errors }.run(py)
    }

    /// The gradient of a function that returns one real.
    #[pyo3(signature = (*args, **kwargs))]
    fn grad<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Function::value_and_grad(slf, args, kwargs).map(|(_, gradient)| gradient)
    }

    /// The function's value, and the product of a cotangent of it and the Jacobian.
    #[pyo3(signature = (*args, **kwargs))]
    fn vjp<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = slf.py();
        let (function, bound) = Function::prepared(slf, args, kwargs, Some("cotangent"))?;
        let (this, args) = (function.get(), &bound.args);
        let cotangent = bound.extra(py)?;
        if this.flat.is_some() {
            let (leaves, cotangent) = (this.leaves(args)?, this.cotangent_leaves(cotangent)?);
            let cotangents = values(&cotangent);
            return this.run_flat(
                py,
                &leaves,
                |flat, frame, args| {
                    let ran = flat.vjp(frame, args, &cotangents).map(|_| ());
                    // Before what the machine says, which compares numbers of elements.
                    check_cotangent(flat, &cotangent, frame)?;
                    Ok::<(), Failure>(ran?)
                },
                |frame, values| {
                    let gradient = this.flat_gradient(py, frame.gradient(), &|n| values[n], args)?;
                    Ok((this.flat_result(py, frame)?, gradient))
                },
            );
        }
        let (values, cotangent) = (this.values(args)?, this.cotangent_value(cotangent)?);
        let found = this.run(py, |function, options| function.vjp_with(&values, &cotangent, options))?;
        Ok((this.result(py, &found.value)?, this.gradient(py, &found.gradient, args)?))
    }

    /// The function's value, and how it changes as the arguments move in the direction of a tangent.
    #[pyo3(signature = (*args, **kwargs))]
    fn jvp<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = slf.py();
        let (function, bound) = Function::prepared(slf, args, kwargs, Some("tangent"))?;
        let (this, args) = (function.get(), &bound.args);
        let tangent = bound.extra(py)?;
        if this.flat.is_some() {
            let leaves = this.leaves(args)?;
            let tangent = this.tangent_leaves(tangent, &leaves)?;
            let tangents = values(&tangent);
            return this.run_flat(
                py,
                &leaves,
                |flat, frame, args| flat.jvp(frame, args, &tangents).map(|_| ()),
                |frame, _| Ok((this.flat_result(py, frame)?, this.flat_tangent(py, frame)?)),
            );
        }
        let (values, tangents) = (this.values(args)?, this.tangent_values(tangent)?);
        let found = this.run(py, |function, options| function.jvp_with(&values, &tangents, options))?;
        Ok((this.result(py, &found.value)?, this.result(py, &found.tangent)?))
    }

    /// The product of the Hessian of a function that returns one real and a tangent: how the gradient changes as the
    /// arguments move in its direction.
    #[pyo3(signature = (*args, **kwargs))]
    fn hvp<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (function, bound) = Function::prepared(slf, args, kwargs, Some("tangent"))?;
        let (this, args) = (function.get(), &bound.args);
        let tangent = bound.extra(py)?;
        if this.flat.is_some() {
            let leaves = this.leaves(args)?;
            let tangent = this.tangent_leaves(tangent, &leaves)?;
            let tangents = values(&tangent);
            return this.run_flat(
                py,
                &leaves,
                |flat, frame, args| flat.hvp(frame, args, &tangents).map(|_| ()),
                |frame, values| this.flat_gradient(py, frame.product(), &|n| values[n], args),
            );
        }
        let (values, tangents) = (this.values(args)?, this.tangent_values(tangent)?);
        let found = this.run(py, |function, options| function.hvp_with(&values, &tangents, options))?;
        this.gradient(py, &found.product, args)
    }

    /// The Jacobian as a matrix: a row for each real in the result, a column for each real in the arguments.
    #[pyo3(signature = (*args, **kwargs))]
    fn jacobian<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (function, bound) = Function::prepared(slf, args, kwargs, None)?;
        let (this, py) = (function.get(), slf.py());
        let values = this.values(&bound.args)?;
        let run = |function: &dualvm::Function, options: &_| {
            function.jacobian_by(JacobianMode::Auto, &values, options).map(|found| found.rows)
        };
        this.matrix(py, &this.run(py, run)?, &values)
    }

    /// The Hessian of a function that returns one real, as a matrix.
    #[pyo3(signature = (*args, **kwargs))]
    fn hessian<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (function, bound) = Function::prepared(slf, args, kwargs, None)?;
        let (this, py) = (function.get(), slf.py());
        let values = this.values(&bound.args)?;
        let run =
            |function: &dualvm::Function, options: &_| function.hessian_with(&values, options).map(|found| found.rows);
        this.matrix(py, &this.run(py, run)?, &values)
    }

    /// Calls the function and records the run: its value, and a pullback, which takes a cotangent to the gradient, as
    /// often as one likes.
    #[pyo3(signature = (*args, **kwargs))]
    fn record<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<(Bound<'py, PyAny>, Pullback)> {
        let py = slf.py();
        let (function, bound) = Function::prepared(slf, args, kwargs, None)?;
        let this = function.get();
        if this.flat.is_some() {
            let leaves = this.leaves(&bound.args)?;
            // What stops it is good for the pullbacks, too.
            let stop = this.settings.cancel.as_ref().map_or(Stop::Own, Stop::Handle);
            let (value, frame) = this.run_flat_in(
                py,
                stop,
                &leaves,
                |flat, frame, args| flat.record(frame, args).map(|_| ()),
                |frame, _| this.flat_result(py, frame),
            )?;
            let cancel = frame.options().cancel.clone().unwrap_or_default();
            return Ok((value, Pullback::flat(function.clone(), &bound.args, &leaves, frame, cancel)));
        }
        let values = this.values(&bound.args)?;
        let (value, _) = this.run(py, |function, options| function.call_with(&values, options))?;
        Ok((this.result(py, &value)?, Pullback::of_values(function.clone(), &bound.args, values)))
    }

    /// The same function, with derivatives with respect to these parameters only: a name, of which a gradient is then,
    /// or several, for each of which it has an entry; `None`: all. Others are constants and cost no tape.
    pub(crate) fn wrt(&self, names: &Bound<'_, PyAny>) -> PyResult<Function> {
        self.with_selection(names.py(), Selection::new(names, &self.function)?)
    }

    /// The function of the other parameters that there is once these have these arguments, which are converted here and
    /// no more in calls. They are constants. Of the parameters that derivatives were with respect to, those that are
    /// left stay.
    #[pyo3(signature = (**arguments))]
    fn bind(&self, py: Python<'_>, arguments: Option<&Bound<'_, PyDict>>) -> PyResult<Function> {
        let (mut function, mut selection) = (self.function.clone(), self.selection.clone());
        for (key, argument) in arguments.into_iter().flatten() {
            let name: String = key.extract()?;
            let params = &function.interface().params;
            let argument = match params.iter().position(|(param, _)| *param == name) {
                // That there is no such parameter is said where it is bound.
                None => Value::Null,
                Some(n) => {
                    let Some(left) = selection.without(n) else {
                        let message = format!("derivatives of `{}` are with respect to `{name}`", function.name());
                        return Err(fail(py, Kind::Argument, message));
                    };
                    selection = left;
                    let converter = Converter::new(function.data(), false);
                    converter.convert(&argument, &params[n].1, Place::Whole("argument", &name))?
                }
            };
            let bound = detached(py, || Ok(function.bind(&name, &argument)?));
            function = bound.map_err(|failure| failure.raise(py, Some(self.module.get())))?;
        }
        Ok(Function::selecting(self.module.clone_ref(py), function, selection, self.settings.copy(py)))
    }

    /// The same function, whose calls have these limits, who may cancel them, and who is told what they trace. What
    /// isn't named stays as it is; `None` takes it away.
    #[pyo3(signature = (*, limits=Given::Kept, cancel=Given::Kept, trace=Given::Kept))]
    fn with_options<'py>(
        &self,
        py: Python<'py>,
        limits: Given<Option<PyRef<'py, Limits>>>,
        cancel: Given<Option<PyRef<'py, CancelHandle>>>,
        trace: Given<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<Function> {
        let mut settings = self.settings.copy(py);
        if let Given::New(limits) = limits {
            settings.limits = limits.as_deref().cloned();
        }
        if let Given::New(cancel) = cancel {
            settings.cancel = cancel.map(|cancel| cancel.0.clone());
        }
        if let Given::New(trace) = trace {
            settings.trace = callable(trace)?;
        }
        let (module, function) = (self.module.clone_ref(py), self.function.clone());
        Ok(Function::selecting(module, function, self.selection.clone(), settings))
    }

    /// The module that the function is of.
    #[getter]
    fn module(&self, py: Python<'_>) -> Py<Module> {
        self.module.clone_ref(py)
    }

    #[getter]
    fn __name__(&self) -> &str {
        self.function.name()
    }

    #[getter]
    fn __qualname__(&self) -> &str {
        self.function.name()
    }

    /// Names and types of the parameters.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let params = self.function.interface().params.iter();
        PyTuple::new(py, params.map(|(name, ty)| (name.as_str(), ty.to_string())).collect::<Vec<_>>())
    }

    /// The type of the result.
    #[getter]
    fn result_type(&self) -> String {
        self.function.interface().result.to_string()
    }

    /// The function with the types of its parameters and of its result.
    #[getter]
    fn signature(&self) -> String {
        self.function.signature()
    }

    /// With respect to what derivatives are: what `wrt` was given.
    #[getter]
    fn selected_parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.selection.given(py, &self.function)
    }

    #[getter]
    fn __signature__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("dualvm._signature")?.call_method1("signature", (slf,))
    }

    fn __repr__(&self) -> String {
        format!("<dualvm.Function {}>", self.function.signature())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, this) = (slf.py(), slf.get());
        if this.settings.are_local() {
            let message = "a function with a cancel handle or a trace can't be pickled; \
                           with_options(cancel=None, trace=None) is one without";
            return Err(pyo3::exceptions::PyTypeError::new_err(message));
        }
        if this.function.has_bound() {
            let message = "a function with bound arguments can't be pickled; bind them to one that was";
            return Err(pyo3::exceptions::PyTypeError::new_err(message));
        }
        let limits = this.settings.limits.clone();
        let module = Module::to_pickle(this.module.bind(py))?;
        let parts = (module, this.function.name(), this.selection.given(py, &this.function)?, limits);
        Ok((py.import("dualvm._dualvm")?.getattr("_function")?, parts.into_pyobject(py)?))
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(trace) = &self.settings.trace {
            visit.call(trace)?;
        }
        // If somebody has it, it isn't garbage.
        match self.selected.try_lock() {
            Ok(selected) => selected.iter().try_for_each(|(_, function)| visit.call(function)),
            Err(_) => Ok(()),
        }
    }
}

/// What pickles of functions are made with.
#[pyfunction]
pub(crate) fn _function(
    module: &Bound<'_, Module>,
    name: &str,
    wrt: &Bound<'_, PyAny>,
    limits: Option<PyRef<'_, Limits>>,
) -> PyResult<Function> {
    let py = module.py();
    let found = module.get().module.function(name);
    let function = found.map_err(|error| Failure::Of(error).raise(py, Some(module.get())))?;
    let settings = Settings::new(limits.as_deref(), None, None)?;
    Function::selecting(module.clone().unbind(), function, Selection::All, settings).wrt(wrt)
}
