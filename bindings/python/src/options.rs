//! What calls and compilations may use, what stops them, and who listens to them.

use crate::error::{Kind, Raised, fail};
use crate::module::Module;
use crate::parts::items;
use crate::place::{Place, describe};
use dualvm::{CompileLimits, CompileOptions, FolderImporter, Listener, MemoryImporter};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyEllipsis, PyMapping, PyString, PyTuple};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Stops the calls and compilations that it was given to, those that run and all later ones, from any thread.
///
/// It can't be taken back: make a new one for the next. A Ctrl-C that ends a call cancels the call's handle, too.
#[pyclass(frozen, module = "dualvm")]
#[derive(Default)]
pub(crate) struct CancelHandle(pub(crate) dualvm::CancelHandle);

#[pymethods]
impl CancelHandle {
    #[new]
    fn new() -> Self {
        CancelHandle::default()
    }

    /// Stops everything that was given this handle.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether `cancel` was called.
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn __repr__(&self) -> &'static str {
        if self.0.is_cancelled() { "<dualvm.CancelHandle, cancelled>" } else { "<dualvm.CancelHandle>" }
    }
}

/// How calls of functions run.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) limits: Option<Limits>,
    pub(crate) cancel: Option<dualvm::CancelHandle>,
    pub(crate) trace: Option<Py<PyAny>>,
}

impl Settings {
    /// Those that a caller has given.
    pub(crate) fn new(
        limits: Option<&Limits>,
        cancel: Option<&CancelHandle>,
        trace: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let cancel = cancel.map(|cancel| cancel.0.clone());
        Ok(Settings { limits: limits.cloned(), cancel, trace: callable(trace)? })
    }

    pub(crate) fn copy(&self, py: Python<'_>) -> Self {
        let trace = self.trace.as_ref().map(|trace| trace.clone_ref(py));
        Settings { limits: self.limits.clone(), cancel: self.cancel.clone(), trace }
    }

    /// Whether there is something that belongs to this process.
    pub(crate) fn are_local(&self) -> bool {
        self.cancel.is_some() || self.trace.is_some()
    }
}

/// What a caller says about an option.
pub(crate) enum Given<T> {
    /// Nothing, or `...`, which is how Python shows this default: it stays as it is.
    Kept,
    /// It is to be this.
    New(T),
}

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Given<T> {
    type Error = T::Error;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Result<Self, T::Error> {
        if object.is(PyEllipsis::get(object.py())) { Ok(Given::Kept) } else { T::extract(object).map(Given::New) }
    }
}

/// A span of time in seconds, as Python has it. Infinity is none, as is what is too long to be counted.
#[derive(Clone, Copy, PartialEq)]
struct Seconds(f64);

impl Seconds {
    fn new(name: &str, seconds: f64) -> PyResult<Self> {
        if seconds >= 0.0 {
            return Ok(Seconds(seconds));
        }
        Err(PyValueError::new_err(format!("{name}: expected seconds, found {seconds}")))
    }

    fn duration(self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.0).ok()
    }
}

/// Declares the limits: names, types, and for which they are.
macro_rules! limits {
    (counts { $($count:ident),* } seconds { $($seconds:ident),* }) => {
        /// What a call or a compilation may use. What isn't set is the engine's limit, or the default.
        ///
        /// Counts are integers, times are seconds, sizes are bytes. With `untrusted=True`, what isn't set is as for
        /// programs from strangers: seconds of time, tens of megabytes of memory.
        #[pyclass(frozen, eq, module = "dualvm")]
        #[derive(Clone, PartialEq, Default)]
        pub(crate) struct Limits {
            untrusted: bool,
            $($count: Option<u64>,)*
            $($seconds: Option<Seconds>,)*
        }

        #[pymethods]
        impl Limits {
            #[new]
            #[pyo3(signature = (*, untrusted=false, $($count=None,)* $($seconds=None,)*))]
            #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
            fn new(
                untrusted: bool,
                $($count: Option<u64>,)*
                $($seconds: Option<f64>,)*
            ) -> PyResult<Self> {
                $(let $seconds = $seconds.map(|found| Seconds::new(stringify!($seconds), found)).transpose()?;)*
                Ok(Limits { untrusted, $($count,)* $($seconds,)* })
            }

            #[getter]
            fn untrusted(&self) -> bool {
                self.untrusted
            }

            $(#[getter]
            fn $count(&self) -> Option<u64> {
                self.$count
            })*

            $(#[getter]
            fn $seconds(&self) -> Option<f64> {
                self.$seconds.map(|seconds| seconds.0)
            })*

            fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
                Ok((PyTuple::empty(py), self.set(py)?))
            }

            fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
                let set = self.set(py)?.into_iter().map(|(name, value)| Ok(format!("{name}={}", value.repr()?)));
                Ok(format!("dualvm.Limits({})", set.collect::<PyResult<Vec<_>>>()?.join(", ")))
            }
        }

        impl Limits {
            /// What is set, by its names.
            fn set<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                let set = PyDict::new(py);
                if self.untrusted {
                    set.set_item("untrusted", true)?;
                }
                $(if let Some(found) = self.$count {
                    set.set_item(stringify!($count), found)?;
                })*
                $(if let Some(found) = self.$seconds {
                    set.set_item(stringify!($seconds), found.0)?;
                })*
                Ok(set)
            }
        }
    };
}

limits! {
    counts {
        fuel, allocated_bytes, live_bytes, tape_bytes, depth, native_bytes,
        source_bytes, syntax_nodes, type_nodes, code_nodes, source_memory_bytes
    }
    seconds { deadline, native_time, source_deadline }
}

impl Limits {
    /// The limits of a call, given those of its engine.
    pub(crate) fn of_call(&self, engine: &dualvm::Limits) -> dualvm::Limits {
        let engine = if self.untrusted { dualvm::Limits::untrusted() } else { engine.clone() };
        dualvm::Limits {
            fuel: self.fuel.unwrap_or(engine.fuel),
            deadline: self.deadline.map_or(engine.deadline, Seconds::duration),
            allocated_bytes: self.allocated_bytes.unwrap_or(engine.allocated_bytes),
            live_bytes: self.live_bytes.unwrap_or(engine.live_bytes),
            tape_bytes: self.tape_bytes.unwrap_or(engine.tape_bytes),
            depth: self.depth.map_or(engine.depth, saturated),
            compile_time: self.native_time.map_or(engine.compile_time, |time| time.duration().unwrap_or(Duration::MAX)),
            code_bytes: self.native_bytes.unwrap_or(engine.code_bytes),
        }
    }

    fn of_compilation(&self) -> CompileLimits {
        let others = if self.untrusted { CompileLimits::untrusted() } else { CompileLimits::default() };
        CompileLimits {
            source_bytes: self.source_bytes.map_or(others.source_bytes, saturated),
            deadline: self.source_deadline.map_or(others.deadline, Seconds::duration),
            syntax_nodes: self.syntax_nodes.unwrap_or(others.syntax_nodes),
            type_nodes: self.type_nodes.unwrap_or(others.type_nodes),
            code_nodes: self.code_nodes.unwrap_or(others.code_nodes),
            memory_bytes: self.source_memory_bytes.unwrap_or(others.memory_bytes),
        }
    }
}

fn saturated(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// How a program is compiled. `from_file`: whether it comes from a file, beside which there may be others.
pub(crate) fn for_compiling(
    limits: Option<&Limits>,
    imports: Option<&Bound<'_, PyAny>>,
    from_file: bool,
) -> PyResult<CompileOptions> {
    let options = CompileOptions::with_limits(limits.cloned().unwrap_or_default().of_compilation());
    let Some(imports) = imports else {
        let beside = from_file.then(|| Arc::new(FolderImporter::default()));
        return Ok(match beside {
            Some(beside) => options.importing(beside),
            None => options,
        });
    };
    if let Ok(given) = imports.cast::<PyMapping>() {
        let mut files = MemoryImporter::default();
        for entry in given.items()?.iter() {
            let (name, file): (String, Bound<'_, PyAny>) = entry.extract()?;
            match file.cast::<Module>() {
                Ok(module) => files.insert_bytecode(&name, module.get().module.library()),
                Err(_) if file.is_instance_of::<PyString>() => files.insert(&name, file.extract::<String>()?),
                Err(_) => {
                    let found = describe(&file);
                    let message = format!("imports[{name:?}]: expected a text or a dualvm.Module, found {found}");
                    return Err(PyTypeError::new_err(message));
                }
            }
        }
        return Ok(options.importing(Arc::new(files)));
    }
    let one = imports.is_instance_of::<PyString>() || imports.hasattr("__fspath__")?;
    let folders: Vec<PathBuf> = if one {
        vec![imports.extract()?]
    } else {
        let expected = "a dict from names to texts and modules, a folder, or a list of folders";
        let folders = items(imports, expected, Place::Whole("imports", ""))?;
        folders.iter().map(|folder| folder.extract()).collect::<PyResult<_>>()?
    };
    Ok(options.importing(Arc::new(FolderImporter::new(folders))))
}

/// A call that is listened to: its callback, and what went wrong in that.
pub(crate) struct Tracing {
    callback: Py<PyAny>,
    /// How many lines were told, of this run and of all, if the call was begun anew.
    told: Mutex<[usize; 2]>,
    error: Mutex<Option<PyErr>>,
}

impl Tracing {
    pub(crate) fn new(callback: Py<PyAny>) -> Arc<Self> {
        Arc::new(Tracing { callback, told: Mutex::default(), error: Mutex::default() })
    }

    /// Who is told the lines of a run.
    pub(crate) fn listener(self: &Arc<Self>) -> Listener {
        locked(&self.told)[0] = 0;
        // A recorded run keeps its listener, and shall not keep the callback.
        let tracing = Arc::downgrade(self);
        Listener::new(move |line| {
            if let Some(tracing) = tracing.upgrade() {
                tracing.tell(line);
            }
        })
    }

    fn tell(&self, line: &dualvm::TraceLine<'_>) {
        {
            // A run that was begun anew says the same again.
            let [now, all] = &mut *locked(&self.told);
            *now += 1;
            if *now <= *all {
                return;
            }
            *all = *now;
        }
        // If the interpreter is gone, nobody listens.
        let outcome = Python::try_attach(|py| {
            let place = line.place.map(|place| (place.file.to_string(), place.line, place.column));
            let place = crate::error::place(py, place.unwrap_or_default())?;
            self.callback.call1(py, (line.text, place)).map(|_| ())
        });
        if let Some(Err(error)) = outcome {
            *locked(&self.error) = Some(error);
            // The run ends, and whoever has called finds the error.
            resume_unwind(Box::new(Raised));
        }
    }

    /// What the callback has raised.
    pub(crate) fn take_error(&self) -> Option<PyErr> {
        locked(&self.error).take()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A callback, or none.
pub(crate) fn callable(callback: Option<Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    match callback {
        Some(found) if !found.is_callable() => Err(fail(
            found.py(),
            Kind::Argument,
            "trace: expected something that can be called with a text and a place",
        )),
        other => Ok(other.map(Bound::unbind)),
    }
}
