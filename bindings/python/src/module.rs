//! Modules: programs that were compiled and verified.

use crate::engine::{Engine, engine};
use crate::error::{Failure, Kind, detached, fail};
use crate::function::{Function, Settings};
use crate::interrupt::interruptible;
use crate::options::{CancelHandle, Limits, callable, for_compiling};
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use std::path::PathBuf;

/// A program that was compiled and verified: running it can't do more than compute, stop or reach a limit, whatever it
/// came from. Any number of threads may use it.
///
/// `module.name` and `module["name"]` are functions of it.
#[pyclass(frozen, weakref, module = "dualvm")]
pub(crate) struct Module {
    pub(crate) module: dualvm::Module,
}

/// A program, as a caller has given it.
struct Given {
    /// Its name in messages.
    file: String,
    bytes: Vec<u8>,
    is_file: bool,
}

/// Whether a text is the name of a file: one line that ends like one.
fn is_path(text: &str) -> bool {
    !text.contains('\n') && [".dual", ".dvs", ".dvbc"].iter().any(|extension| text.ends_with(extension))
}

impl Given {
    fn new(program: &Bound<'_, PyAny>, file: Option<String>) -> PyResult<Given> {
        let py = program.py();
        if let Ok(text) = program.cast::<PyString>() {
            let text = text.to_cow()?;
            if !is_path(&text) {
                let file = file.unwrap_or_else(|| "program.dual".to_owned());
                return Ok(Given { file, bytes: text.into_owned().into_bytes(), is_file: false });
            }
        } else if let Ok(bytes) = program.cast::<PyBytes>() {
            let file = file.unwrap_or_else(|| "program.dvbc".to_owned());
            return Ok(Given { file, bytes: bytes.as_bytes().to_vec(), is_file: false });
        } else if !program.hasattr("__fspath__")? {
            let found = crate::place::describe(program);
            let message = format!("expected a program's text, a path, or bytes of a module, found {found}");
            return Err(PyTypeError::new_err(message));
        }
        let path: PathBuf = program.extract()?;
        let bytes = py.detach(|| std::fs::read(&path));
        let bytes = bytes.map_err(|error| {
            let number = error.raw_os_error().unwrap_or_default();
            // As `open` says it; the class of the error follows from its number.
            pyo3::exceptions::PyOSError::new_err((number, error.to_string(), path.clone()))
        })?;
        Ok(Given { file: file.unwrap_or_else(|| path.display().to_string()), bytes, is_file: true })
    }
}

/// Compiles a program, or loads a module in text or binary form.
///
/// `program`: the text of a program; a path, as a `pathlib.Path` or as one line that ends in `.dual`, `.dvs` or
/// `.dvbc`; or bytes of a module, which are verified, whoever wrote them.
#[pyfunction]
#[pyo3(signature = (program, *, imports=None, limits=None, cancel=None, engine=None, file=None))]
pub(crate) fn load(
    program: &Bound<'_, PyAny>,
    imports: Option<&Bound<'_, PyAny>>,
    limits: Option<PyRef<'_, Limits>>,
    cancel: Option<PyRef<'_, CancelHandle>>,
    engine: Option<PyRef<'_, Engine>>,
    file: Option<String>,
) -> PyResult<Module> {
    let py = program.py();
    let given = Given::new(program, file)?;
    let engine = self::engine(py, engine.as_deref());
    let mut options = for_compiling(limits.as_deref(), imports, given.is_file)?;
    let module = interruptible(py, cancel.as_deref().map(|cancel| &cancel.0), None, |cancel| {
        options.cancel = cancel.cloned();
        detached(py, || Ok(dualvm::Module::load_with(&engine, &given.file, &given.bytes, &options)?))
    })?;
    Ok(Module { module })
}

/// Compiles a program and gives a function of it: the one of this name, or the only one that there is.
#[pyfunction]
#[pyo3(signature = (
    program, name=None, *, wrt=None, imports=None, limits=None, cancel=None, trace=None, engine=None, file=None
))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn compile<'py>(
    program: &Bound<'py, PyAny>,
    name: Option<&str>,
    wrt: Option<Bound<'py, PyAny>>,
    imports: Option<&Bound<'py, PyAny>>,
    limits: Option<PyRef<'py, Limits>>,
    cancel: Option<PyRef<'py, CancelHandle>>,
    trace: Option<Bound<'py, PyAny>>,
    engine: Option<PyRef<'py, Engine>>,
    file: Option<String>,
) -> PyResult<Function> {
    let py = program.py();
    let settings = Settings {
        limits: limits.as_deref().cloned(),
        cancel: cancel.as_ref().map(|cancel| cancel.0.clone()),
        trace: callable(trace)?,
    };
    let module = Bound::new(py, load(program, imports, limits, cancel, engine, file)?)?;
    let function = match name {
        Some(name) => named(&module, name)?,
        None => only(&module)?,
    };
    let function = Function::new(module.unbind(), function, settings);
    match wrt {
        Some(wrt) => function.wrt(&wrt),
        None => Ok(function),
    }
}

fn named(module: &Bound<'_, Module>, name: &str) -> PyResult<dualvm::Function> {
    let (py, module) = (module.py(), module.get());
    module.module.function(name).map_err(|error| Failure::Of(error).raise(py, Some(module)))
}

/// The only function of a module.
fn only(module: &Bound<'_, Module>) -> PyResult<dualvm::Function> {
    let mut functions = module.get().module.functions();
    match (functions.next(), functions.next()) {
        (Some(function), None) => Ok(function),
        (None, _) => Err(fail(module.py(), Kind::NotFound, "the module has no function that can be called")),
        (Some(first), Some(second)) => {
            let names: Vec<String> =
                [first, second].into_iter().chain(functions).map(|function| function.name().to_owned()).collect();
            let message = format!("the module has several functions; say which one: {}", listed(&names));
            Err(fail(module.py(), Kind::NotFound, message))
        }
    }
}

/// The first few of many names.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

#[pymethods]
impl Module {
    /// The function of this name.
    fn function(slf: &Bound<'_, Self>, name: &str) -> PyResult<Function> {
        Ok(Function::new(slf.clone().unbind(), named(slf, name)?, Settings::default()))
    }

    fn __getitem__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Function> {
        Module::function(slf, name)
    }

    fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Function> {
        // Python asks for many names of its own.
        if name.starts_with("__") {
            return Err(PyAttributeError::new_err(name.to_owned()));
        }
        Module::function(slf, name).map_err(|error| {
            let no = PyAttributeError::new_err(error.value(slf.py()).to_string());
            no.set_cause(slf.py(), Some(error));
            no
        })
    }

    /// Names of all functions, in the order of the program.
    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.module.functions().map(|function| function.name().to_owned()).collect::<Vec<_>>())
    }

    /// Names and types of all functions, as the program writes them.
    #[getter]
    fn signatures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.module.signatures().collect::<Vec<_>>())
    }

    /// What is probably not what was meant in the program, though it was compiled. Empty if there is nothing.
    #[getter]
    fn warnings(&self) -> String {
        self.module.warnings().to_string()
    }

    /// The module in binary form, which `load` takes. Equal modules have equal bytes. Texts of source files aren't in
    /// it: traps still tell places, but don't show lines.
    fn to_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        let this = slf.get();
        let bytes = this.module.to_binary().map_err(|error| Failure::Of(error).raise(slf.py(), None))?;
        Ok(PyBytes::new(slf.py(), &bytes))
    }

    /// The module in text form, which `load` takes, too.
    fn to_assembly(&self) -> String {
        self.module.to_assembly()
    }

    fn __len__(&self) -> usize {
        self.module.functions().count()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.names(py)?.try_iter()?.into_any())
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<String>().is_ok_and(|name| self.module.functions().any(|function| function.name() == name))
    }

    fn __dir__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let names = py.get_type::<pyo3::types::PyAny>().call_method1("__dir__", (slf,))?;
        names.call_method1("extend", (slf.get().names(py)?,))?;
        Ok(names)
    }

    fn __repr__(&self) -> String {
        let names: Vec<String> = self.module.functions().map(|function| function.name().to_owned()).collect();
        format!("<dualvm.Module: {}>", listed(&names))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((slf.py().import("dualvm")?.getattr("load")?, (Module::to_bytes(slf)?,)))
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }
}
