//! Recorded runs, whose cotangents are pulled back later.

use crate::error::{Failure, Kind, detached, fail};
use crate::flatten::{Leaf, Leaves, check_cotangent, values};
use crate::function::Function;
use dualvm::{CallFrame, FlatValue, Value};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::{Mutex, PoisonError};

/// A recorded run, which takes a cotangent of its value to the gradient, as often as one likes.
///
/// It holds the tape of the run until it is freed. One thread at a time may use it.
#[pyclass(frozen, module = "dualvm")]
pub(crate) struct Pullback {
    function: Py<Function>,
    /// The arguments, whose form a gradient has.
    args: Vec<Py<PyAny>>,
    run: Run,
}

enum Run {
    /// A tape; it isn't there while a thread uses it.
    Flat {
        frame: Mutex<Option<Box<CallFrame>>>,
        /// The shapes of tensors among the arguments, by their leaves.
        shapes: Vec<(usize, Vec<i64>)>,
        /// What may cancel the run and its pullbacks.
        cancel: dualvm::CancelHandle,
    },
    /// The arguments, with which it runs again.
    Values(Vec<Value>),
}

impl Pullback {
    pub(crate) fn flat(
        function: Bound<'_, Function>,
        args: &[Bound<'_, PyAny>],
        leaves: &Leaves,
        frame: Box<CallFrame>,
        cancel: dualvm::CancelHandle,
    ) -> Self {
        let of_tensors = leaves.iter().enumerate().filter_map(|(n, leaf)| match leaf {
            Leaf::Ints(numbers) if is_shape(&function, n) => Some((n, numbers.clone())),
            _ => None,
        });
        let (shapes, frame) = (of_tensors.collect(), Mutex::new(Some(frame)));
        Pullback::new(function.clone(), args, Run::Flat { frame, shapes, cancel })
    }

    pub(crate) fn of_values(function: Bound<'_, Function>, args: &[Bound<'_, PyAny>], values: Vec<Value>) -> Self {
        Pullback::new(function, args, Run::Values(values))
    }

    fn new(function: Bound<'_, Function>, args: &[Bound<'_, PyAny>], run: Run) -> Self {
        let args = args.iter().map(|arg| arg.clone().unbind()).collect();
        Pullback { function: function.unbind(), args, run }
    }
}

fn is_shape(function: &Bound<'_, Function>, n: usize) -> bool {
    let leaves = function.get().flat.as_ref().map(|flat| flat.params());
    leaves.is_some_and(|leaves| leaves[n].kind() == dualvm::flat::LeafKind::Shape)
}

impl Drop for Pullback {
    fn drop(&mut self) {
        if let Run::Flat { frame, .. } = &mut self.run
            && let Some(frame) = frame.get_mut().unwrap_or_else(PoisonError::into_inner).take()
        {
            self.function.get().frames.put_back(frame);
        }
    }
}

#[pymethods]
impl Pullback {
    /// The product of a cotangent of the value and the Jacobian: a gradient of the arguments' form.
    fn __call__<'py>(&self, py: Python<'py>, cotangent: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let function = self.function.get();
        let args: Vec<Bound<'py, PyAny>> = self.args.iter().map(|arg| arg.bind(py).clone()).collect();
        let (frame, shapes, cancel) = match &self.run {
            Run::Flat { frame, shapes, cancel } => (frame, shapes, cancel),
            Run::Values(values) => {
                let cotangent = function.cotangent_value(cotangent)?;
                let found = function.run(py, |function, options| function.vjp_with(values, &cotangent, options))?;
                return function.gradient(py, &found.gradient, &args);
            }
        };
        let leaves = function.cotangent_leaves(cotangent)?;
        let cotangents = values(&leaves);
        let take = || frame.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut taken) = take() else {
            return Err(fail(py, Kind::Busy, "the pullback is in use, by another thread or further up in this one"));
        };
        let mut good = true;
        let gradient = function.resume(py, cancel, || {
            if let Some(flat) = &function.flat {
                check_cotangent(flat, &leaves, &taken)?;
            }
            let ran = detached(py, || match taken.recorded() {
                Some(mut run) => Ok(run.pullback(&cotangents).map(|_| ())?),
                None => Err(Failure::Panic("a recorded run is gone".to_owned())),
            });
            good = !matches!(ran, Err(Failure::Panic(_)));
            ran?;
            let shape = |n| {
                let found = shapes.iter().find(|(leaf, _)| *leaf == n);
                found.map_or(FlatValue::Null, |(_, shape)| FlatValue::Ints(shape))
            };
            Ok(function.flat_gradient(py, taken.gradient(), &shape, &args)?)
        });
        if good {
            *frame.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
        } else {
            // Nobody knows what state it is in.
            std::mem::forget(taken);
        }
        gradient
    }

    fn __repr__(&self) -> String {
        format!("<dualvm.Pullback of {}>", self.function.get().function.name())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        self.args.iter().try_for_each(|arg| visit.call(arg))
    }
}
