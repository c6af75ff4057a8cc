//! Batches: many calls of one function, over the engine's threads.
//!
//! They go in rounds. Objects are taken apart and made with the interpreter's lock, which all threads share, and what
//! is between runs without it.

use crate::arguments::Arguments;
use crate::error::{Failure, Kind, detached, fail};
use crate::flatten::{FlatValues, Leaf, Leaves, values};
use crate::function::Function;
use crate::place::describe;
use dualvm::{CallFrame, CallOptions, Error, FlatFunction, Value};
use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyTuple};
use smallvec::SmallVec;

/// Items of a round for each thread.
const ITEMS_PER_THREAD: usize = 64;

/// What is done for each item.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Operation {
    Value,
    ValueAndGrad,
}

/// What becomes of an item that fails.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Errors {
    /// The batch raises it.
    Raise,
    /// It stands where its result would.
    Return,
}

impl Errors {
    pub(crate) fn of(text: &str) -> PyResult<Self> {
        match text {
            "raise" => Ok(Errors::Raise),
            "return" => Ok(Errors::Return),
            other => Err(PyValueError::new_err(format!("errors: expected \"raise\" or \"return\", found {other:?}"))),
        }
    }
}

type Args<'py> = SmallVec<[Bound<'py, PyAny>; 8]>;

/// An item, with its arguments or what is wrong with them.
type Item<'py, A> = (Args<'py>, PyResult<A>);

/// What a flat call has left: its results, and the gradient if that was asked for.
type Left = (Leaves, Leaves);

fn leave(frame: &CallFrame, flat: &FlatFunction) -> Left {
    let results = frame.results().map(|all| (0..flat.results().len()).filter_map(move |n| all.get(n)));
    let gradient = frame.gradient().map(|all| (0..flat.params().len()).filter_map(move |n| all.get(n)));
    let (results, gradient) = (results.into_iter().flatten(), gradient.into_iter().flatten());
    (results.map(Leaf::copy_of).collect(), gradient.map(Leaf::copy_of).collect())
}

/// A batch of a function's.
pub(crate) struct Batch<'f, 'py> {
    pub(crate) function: &'f Function,
    pub(crate) items: Bound<'py, PyIterator>,
    pub(crate) operation: Operation,
    pub(crate) errors: Errors,
}

impl<'py> Batch<'_, 'py> {
    /// What all items give, in order.
    pub(crate) fn run(mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = PyList::empty(py);
        loop {
            let more = match self.function.flat {
                Some(_) => self.flat_round(py, &all)?,
                None => self.round(py, &all)?,
            };
            if !more {
                return Ok(all);
            }
        }
    }

    /// The arguments of a round's items, up to the first that is wrong, if that is raised.
    fn next<A>(
        &mut self,
        make: impl Fn(&Function, &[Bound<'py, PyAny>]) -> PyResult<A>,
    ) -> PyResult<Vec<Item<'py, A>>> {
        let len = ITEMS_PER_THREAD * self.function.threads();
        let mut round = Vec::with_capacity(len);
        while round.len() < len
            && let Some(item) = self.items.next()
        {
            let item = item?;
            let (args, made) = match arguments(self.function, &item) {
                Ok(args) => {
                    let made = make(self.function, &args);
                    (args, made)
                }
                Err(error) => (Args::new(), Err(error)),
            };
            let ends = made.is_err() && self.errors == Errors::Raise;
            round.push((args, made));
            if ends {
                break;
            }
        }
        Ok(round)
    }

    /// Runs the next round, of flat calls; whether there was anything to run.
    fn flat_round(&mut self, py: Python<'py>, all: &Bound<'py, PyList>) -> PyResult<bool> {
        let (function, operation) = (self.function, self.operation);
        let Some(flat) = &function.flat else { return Ok(false) };
        let round = self.next(Function::leaves)?;
        let given: Vec<FlatValues<'_>> = round.iter().filter_map(|(_, made)| made.as_ref().ok()).map(values).collect();
        let outcomes = self.map(py, &given, |_, args, options| {
            let mut frame = function.frames.take(None);
            frame.options_mut().clone_from(options);
            let ran = match operation {
                Operation::Value => flat.call(&mut frame, args).map(|_| ()),
                Operation::ValueAndGrad => flat.value_and_grad(&mut frame, args).map(|_| ()),
            };
            let left = ran.map(|()| leave(&frame, flat));
            function.frames.put_back(frame);
            Ok(left?)
        })?;
        self.finish(py, &round, outcomes, all, |made: &Leaves, args, (results, gradient): Left| {
            let primal = values(made);
            let result = |n: usize| results.get(n).map(Leaf::value).unwrap_or_default();
            let derivative = |n: usize| gradient.get(n).map(Leaf::value).unwrap_or_default();
            match operation {
                Operation::Value => function.flat_result_of(py, &result),
                Operation::ValueAndGrad => {
                    let gradient = function.flat_gradient_of(py, &derivative, &|n| primal[n], args)?;
                    Ok((result(0).as_real(), gradient).into_pyobject(py)?.into_any())
                }
            }
        })
    }

    /// Runs the next round, with values; whether there was anything to run.
    fn round(&mut self, py: Python<'py>, all: &Bound<'py, PyList>) -> PyResult<bool> {
        let (function, operation) = (self.function, self.operation);
        let round = self.next(|function, args| function.values(args))?;
        let given: Vec<&Vec<Value>> = round.iter().filter_map(|(_, made)| made.as_ref().ok()).collect();
        let outcomes = self.map(py, &given, |function, args, options| match operation {
            Operation::Value => Ok((function.call_with(args, options)?.0, Vec::new())),
            Operation::ValueAndGrad => {
                let found = function.value_and_grad_with(args, options)?;
                Ok((Value::Real(found.value), found.gradient))
            }
        })?;
        self.finish(py, &round, outcomes, all, |_: &Vec<Value>, args, (value, gradient)| {
            let value = function.result(py, &value)?;
            match operation {
                Operation::Value => Ok(value),
                Operation::ValueAndGrad => {
                    Ok((value, function.gradient(py, &gradient, args)?).into_pyobject(py)?.into_any())
                }
            }
        })
    }

    /// The outcomes of a round, in order.
    fn map<A: Sync, T: Send>(
        &self,
        py: Python<'py>,
        given: &[A],
        each: impl Fn(&dualvm::Function, &A, &CallOptions) -> Result<T, Error> + Send + Sync,
    ) -> PyResult<Vec<Result<T, Error>>> {
        if given.is_empty() {
            return Ok(Vec::new());
        }
        self.function.guarded_calls(py, |options| {
            let batch = self.function.function.batch_with(options);
            let mut outcomes =
                detached(py, || Ok(batch.map(given, |function, args, options| each(function, args, options))))?;
            // Whoever has cancelled the batch wants none of it.
            match outcomes.iter().position(|outcome| outcome.as_ref().is_err_and(Error::is_cancelled)) {
                Some(at) => match outcomes.swap_remove(at) {
                    Err(error) => Err(Failure::Of(error)),
                    Ok(_) => Ok(outcomes),
                },
                None => Ok(outcomes),
            }
        })
    }

    /// Makes objects of a round's outcomes; whether there was anything.
    fn finish<A, T>(
        &self,
        py: Python<'py>,
        round: &[Item<'py, A>],
        outcomes: Vec<Result<T, Error>>,
        all: &Bound<'py, PyList>,
        build: impl Fn(&A, &Args<'py>, T) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        let mut outcomes = outcomes.into_iter();
        for (args, made) in round {
            let outcome = match made {
                Err(error) => Err(error.clone_ref(py)),
                Ok(made) => match outcomes.next() {
                    Some(Ok(left)) => build(made, args, left),
                    Some(Err(error)) => Err(Failure::Of(error).raise(py, Some(self.function.module.get()))),
                    None => Err(fail(py, Kind::Internal, "an item has no outcome")),
                },
            };
            match outcome {
                Ok(object) => all.append(object)?,
                Err(error) => {
                    error.value(py).call_method1("add_note", (format!("In item {} of the batch.", all.len()),))?;
                    // Ctrl-C, say, is no outcome.
                    if self.errors == Errors::Raise || !error.is_instance_of::<PyException>(py) {
                        return Err(error);
                    }
                    all.append(error.value(py))?;
                }
            }
        }
        Ok(!round.is_empty())
    }
}

/// The arguments that an item is.
fn arguments<'py>(function: &Function, item: &Bound<'py, PyAny>) -> PyResult<Args<'py>> {
    let py = item.py();
    let bind =
        |args: &Bound<'py, PyTuple>, kwargs| Ok(Arguments::bind(&function.function, args, kwargs, None, false)?.args);
    if let Ok(args) = item.cast::<PyTuple>() {
        bind(args, None)
    } else if let Ok(args) = item.cast::<PyList>() {
        bind(&args.to_tuple(), None)
    } else if let Ok(names) = item.cast::<PyDict>() {
        bind(&PyTuple::empty(py), Some(names))
    } else {
        let found = describe(item);
        let message = format!("an item is a tuple of all arguments, or a dict of them by their names, found {found}");
        Err(PyTypeError::new_err(message))
    }
}
