//! Modules: programs that were compiled and verified.

use crate::engine::{Engine, engine};
use crate::error::{Failure, Kind, detached, fail};
use crate::function::Function;
use crate::interrupt::{Stop, interruptible};
use crate::options::{CancelHandle, Limits, Settings, for_compiling};
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::path::PathBuf;

/// A program that was compiled and verified: running it can't do more than compute, stop or reach a limit, whatever it
/// came from. Any number of threads may use it.
///
/// `module.name` and `module["name"]` are functions of it, with the options that the module was loaded with.
#[pyclass(frozen, weakref, module = "dualvm")]
pub(crate) struct Module {
    pub(crate) module: dualvm::Module,
    /// How calls of its functions run.
    pub(crate) settings: Settings,
}

/// A program, as a caller has given it.
struct Given {
    /// Its name in messages.
    file: String,
    bytes: Vec<u8>,
    is_file: bool,
}

impl Given {
    fn new(program: &Bound<'_, PyAny>, file: Option<String>) -> PyResult<Given> {
        let py = program.py();
        if let Ok(text) = program.cast::<PyString>() {
            let file = file.unwrap_or_else(|| "program.dual".to_owned());
            return Ok(Given { file, bytes: text.to_cow()?.into_owned().into_bytes(), is_file: false });
        }
        if let Ok(bytes) = program.cast::<PyBytes>() {
            let file = file.unwrap_or_else(|| "program.dvbc".to_owned());
            return Ok(Given { file, bytes: bytes.as_bytes().to_vec(), is_file: false });
        }
        if !program.hasattr("__fspath__")? {
            let found = crate::place::describe(program);
            let message =
                format!("expected a program's text, a pathlib.Path of one, or bytes of a module, found {found}");
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

    /// Whether somebody has perhaps taken the text for a path: one line that ends like the name of a file.
    fn looks_like_a_path(&self) -> bool {
        let extensions: [&[u8]; 3] = [b".dual", b".dvs", b".dvbc"];
        !self.is_file && !self.bytes.contains(&b'\n') && extensions.iter().any(|end| self.bytes.ends_with(end))
    }
}

/// Compiles a program, or loads a module in text or binary form.
///
/// `program`: the text of a program; a `pathlib.Path` of one; or bytes of a module, which are verified, whoever wrote
/// them. A `str` is always a text. `limits`, `cancel` and `trace` are for calls of the module's functions, too.
#[pyfunction]
#[pyo3(signature = (program, *, imports=None, limits=None, cancel=None, trace=None, engine=None, file=None))]
pub(crate) fn load(
    program: &Bound<'_, PyAny>,
    imports: Option<&Bound<'_, PyAny>>,
    limits: Option<PyRef<'_, Limits>>,
    cancel: Option<PyRef<'_, CancelHandle>>,
    trace: Option<Bound<'_, PyAny>>,
    engine: Option<PyRef<'_, Engine>>,
    file: Option<String>,
) -> PyResult<Module> {
    let settings = Settings::new(limits.as_deref(), cancel.as_deref(), trace)?;
    loaded(program, imports, settings, engine.as_deref(), file)
}

/// Loads a program for calls with these settings, of which limits and handle are those of the compilation, too.
fn loaded(
    program: &Bound<'_, PyAny>,
    imports: Option<&Bound<'_, PyAny>>,
    settings: Settings,
    engine: Option<&Engine>,
    file: Option<String>,
) -> PyResult<Module> {
    let py = program.py();
    let given = Given::new(program, file)?;
    let engine = self::engine(py, engine);
    let mut options = for_compiling(settings.limits.as_ref(), imports, given.is_file)?;
    let module = interruptible(py, Stop::by(settings.cancel.as_ref()), None, |cancel| {
        options.cancel = cancel.cloned();
        detached(py, || Ok(dualvm::Module::load_with(&engine, &given.file, &given.bytes, &options)?))
    });
    match module {
        Ok(module) => Ok(Module { module, settings }),
        Err(error) => {
            if given.looks_like_a_path() {
                let note = "A str is the text of a program. For a path, give a pathlib.Path.";
                error.value(py).call_method1("add_note", (note,))?;
            }
            Err(error)
        }
    }
}

/// What pickles of modules are made with. The limits are those of calls: bytes have none on what they were compiled of.
#[pyfunction]
pub(crate) fn _module(bytes: &Bound<'_, PyBytes>, limits: Option<PyRef<'_, Limits>>) -> PyResult<Module> {
    let module = loaded(bytes, None, Settings::default(), None, None)?;
    Ok(Module { settings: Settings::new(limits.as_deref(), None, None)?, ..module })
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
    let module = Bound::new(py, load(program, imports, limits, cancel, trace, engine, file)?)?;
    let function = match name {
        Some(name) => named(&module, name)?,
        None => only(&module)?,
    };
    let function = Function::new(&module, function);
    match wrt {
        Some(wrt) => function.wrt(&wrt),
        None => Ok(function),
    }
}

impl Module {
    /// The module, or one without what doesn't go into pickles.
    pub(crate) fn to_pickle<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let Module { module, settings } = slf.get();
        if !settings.are_local() {
            return Ok(slf.clone());
        }
        let settings = Settings::new(settings.limits.as_ref(), None, None)?;
        Bound::new(slf.py(), Module { module: module.clone(), settings })
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
        Ok(Function::new(slf, named(slf, name)?))
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

    /// The module in binary form, which `load` takes. Equal modules have equal bytes. What it calls of other modules is
    /// in it, functions of the host's are not. Texts of source files aren't in it: traps still tell places, but don't
    /// show lines.
    fn to_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        let this = slf.get();
        let bytes = this.module.to_linked_binary().map_err(|error| Failure::Of(error).raise(slf.py(), None))?;
        Ok(PyBytes::new(slf.py(), &bytes))
    }

    /// The same in text form, which `load` takes, too.
    fn to_assembly(&self) -> String {
        dualvm::vm::text::print(self.module.linked_def())
    }

    fn __len__(&self) -> usize {
        self.module.functions().count()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.names(py)?.try_iter()?.into_any())
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        // What is no text, or none in UTF-8, is no name.
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

    #[expect(clippy::type_complexity, reason = "it is as `pickle` has it")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>, Option<Limits>))> {
        let settings = &slf.get().settings;
        if settings.are_local() {
            return Err(PyTypeError::new_err("a module with a cancel handle or a trace can't be pickled"));
        }
        let make = slf.py().import("dualvm._dualvm")?.getattr("_module")?;
        Ok((make, (Module::to_bytes(slf)?, settings.limits.clone())))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.settings.trace.as_ref().map_or(Ok(()), |trace| visit.call(trace))
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }
}
