//! Engines, and how they work.

use crate::host::HostFunction;
use crate::module::Module;
use crate::options::Limits;
use crate::place::describe;
use dualvm::{Config, Jit};
use pyo3::PyClass;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyMapping;

/// Runs programs: it owns the memory that runs use again, and the threads of parallel ones. Modules that are given none
/// share one.
#[pyclass(frozen, module = "dualvm")]
pub(crate) struct Engine(pub(crate) dualvm::Engine);

#[pymethods]
impl Engine {
    /// An engine.
    ///
    /// `threads`: how many run the tasks of programs that have some; 0: one per core. `native`: when functions are
    /// compiled to native code: "auto", "never" or "always". `limits`: those of calls that bring none of their own.
    /// `trap_nan`: whether calls stop at the first number that becomes NaN or infinite; it makes them slow.
    /// `stack_bytes`: how far each stack of a run may grow; 0: 16 GiB. `host_functions`: a dict of the functions of
    /// Python's that programs may import, by the names that they import them by. The engine and its modules keep them.
    /// `modules`: a dict of modules whose functions programs may import, `import host "shapes.area" : Real -> Real` for
    /// what is called `shapes` there.
    #[new]
    #[pyo3(signature = (
        *, threads=0, native="auto", limits=None, trap_nan=false, stack_bytes=0, host_functions=None, modules=None
    ))]
    fn new(
        threads: usize,
        native: &str,
        limits: Option<PyRef<'_, Limits>>,
        trap_nan: bool,
        stack_bytes: usize,
        host_functions: Option<&Bound<'_, PyMapping>>,
        modules: Option<&Bound<'_, PyMapping>>,
    ) -> PyResult<Self> {
        const THREADS_MAX: usize = 1 << 16;
        if threads > THREADS_MAX {
            return Err(PyValueError::new_err(format!("an engine has at most {THREADS_MAX} threads, found {threads}")));
        }
        let mut config = Config::default();
        config.threads = threads;
        config.jit = match native {
            "auto" => Jit::Auto,
            "never" => Jit::Off,
            "always" => Jit::Always,
            other => {
                let message = format!("native: expected \"auto\", \"never\" or \"always\", found {other:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        if let Some(limits) = limits {
            config.limits = limits.of_call(&dualvm::Limits::default());
        }
        config.trap_nan = trap_nan;
        config.stack_bytes = stack_bytes;
        for (name, function) in entries::<HostFunction>(host_functions, "host_functions", "a dualvm.HostFunction")? {
            config.linker.define(name, function.get().function.clone());
        }
        for (name, module) in entries::<Module>(modules, "modules", "a dualvm.Module")? {
            config.linker.define_library(name, module.get().module.library());
        }
        Ok(Engine(dualvm::Engine::new(config)))
    }

    fn __repr__(&self) -> &'static str {
        "<dualvm.Engine>"
    }
}

/// The entries of a dict from names to objects of a class.
fn entries<'py, C: PyClass>(
    given: Option<&Bound<'py, PyMapping>>,
    argument: &str,
    expected: &str,
) -> PyResult<Vec<(String, Bound<'py, C>)>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let entry = |entry: Bound<'py, PyAny>| {
        let (name, object): (String, Bound<'py, PyAny>) = entry.extract()?;
        object.cast_into::<C>().map(|object| (name.clone(), object)).map_err(|error| {
            let found = describe(&error.into_inner());
            PyTypeError::new_err(format!("{argument}[{name:?}]: expected {expected}, found {found}"))
        })
    };
    given.items()?.iter().map(entry).collect()
}

/// The engine of those who bring none.
pub(crate) fn engine(py: Python<'_>, given: Option<&Engine>) -> dualvm::Engine {
    static SHARED: PyOnceLock<dualvm::Engine> = PyOnceLock::new();
    given.map_or_else(|| SHARED.get_or_init(py, dualvm::Engine::default), |engine| &engine.0).clone()
}
