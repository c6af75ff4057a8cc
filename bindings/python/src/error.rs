//! Errors of dualvm as exceptions of Python. The classes are in `python/dualvm/_errors.py`.

use crate::module::Module;
use dualvm::frontend::{Severity, Stopped};
use dualvm::vm::engine::RunError;
use dualvm::vm::text::TextError;
use dualvm::{Error, ErrorKind, Limit, TraceFrame, TrapKind};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Which class an error is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Compile,
    Module,
    NotFound,
    Argument,
    NotScalar,
    Result,
    Trap,
    Limit,
    Cancelled,
    Busy,
    Internal,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Kind::Compile => "CompileError",
            Kind::Module => "ModuleError",
            Kind::NotFound => "NotFoundError",
            Kind::Argument => "ArgumentError",
            Kind::NotScalar => "NotScalarError",
            Kind::Result => "ResultError",
            Kind::Trap => "Trap",
            Kind::Limit => "LimitError",
            Kind::Cancelled => "Cancelled",
            Kind::Busy => "BusyError",
            Kind::Internal => "InternalError",
        }
    }

    fn of(error: &Error) -> Kind {
        if error.is_limit() {
            return Kind::Limit;
        }
        if error.is_cancelled() {
            return Kind::Cancelled;
        }
        match error.kind() {
            ErrorKind::Source(_) | ErrorKind::Assembly(_) | ErrorKind::NotText { .. } => Kind::Compile,
            ErrorKind::Binary(_) | ErrorKind::Verify(_) | ErrorKind::Import { .. } | ErrorKind::Encode(_) => {
                Kind::Module
            }
            ErrorKind::NoSuchFunction { .. } | ErrorKind::Unexported(_) | ErrorKind::NoSuchParameter(_) => {
                Kind::NotFound
            }
            ErrorKind::Argument(_)
            | ErrorKind::Serialize { .. }
            | ErrorKind::Tangent(_)
            | ErrorKind::Cotangent(_)
            | ErrorKind::GradientLength { .. }
            | ErrorKind::ShapeMismatch(_) => Kind::Argument,
            ErrorKind::NotScalar { .. } => Kind::NotScalar,
            ErrorKind::ResultDepth { .. } | ErrorKind::ResultShape { .. } | ErrorKind::Deserialize { .. } => {
                Kind::Result
            }
            ErrorKind::Trap(_) => Kind::Trap,
            // What the facade's next version may say, and what no call from here asks for.
            _ => Kind::Internal,
        }
    }
}

/// Why a call or a compilation has given nothing.
pub(crate) enum Failure {
    /// dualvm says so.
    Of(Error),
    /// An argument isn't right, and this is said about it.
    Refused(String),
    /// Python says so: a callback has raised, an object refused.
    Python(PyErr),
    /// A callback has raised in the middle of a run: see [`Raised`].
    Raised,
    /// dualvm has a mistake.
    Panic(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Of(error)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Failure::Of(error.into())
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Python(error)
    }
}

impl Failure {
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(self, Failure::Of(error) if error.is_cancelled())
    }

    /// The exception. Traps are shown with the lines of the module that they are of.
    #[cold]
    pub(crate) fn raise(self, py: Python<'_>, module: Option<&Module>) -> PyErr {
        match self {
            Failure::Of(error) => raise(py, &error, module),
            Failure::Refused(message) => fail(py, Kind::Argument, message),
            Failure::Python(error) => error,
            Failure::Raised => fail(py, Kind::Internal, "a callback has raised, and what is lost"),
            Failure::Panic(said) => fail(py, Kind::Internal, format!("a mistake in dualvm: {said}")),
        }
    }
}

/// What a callback that has raised ends the run with, like a panic. Who has called it keeps the error.
pub(crate) struct Raised;

/// Runs something without the interpreter's lock. A panic ends here.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).unwrap_or_else(|panic| {
        if panic.is::<Raised>() {
            return Err(Failure::Raised);
        }
        let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let said = said.unwrap_or("it panicked without a message").to_owned();
        // What it says may have a destructor that panics, too.
        std::mem::forget(panic);
        Err(Failure::Panic(said))
    })
}

/// An exception of one of the classes, with a message.
#[cold]
pub(crate) fn fail(py: Python<'_>, kind: Kind, message: impl Into<String>) -> PyErr {
    let message = message.into();
    let summary = message.lines().next().unwrap_or_default().to_owned();
    Report { kind, message, summary, places: Vec::new(), limit: None }.raise(py)
}

/// The classes of exceptions, and `Place`.
fn classes(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    Ok(CLASSES.get_or_try_init(py, || py.import("dualvm._errors").map(Bound::unbind))?.bind(py))
}

/// A place: file, line and column.
pub(crate) fn place(py: Python<'_>, place: (String, u32, u32)) -> PyResult<Bound<'_, PyAny>> {
    classes(py)?.getattr("Place")?.call1(place)
}

/// What an exception says.
struct Report {
    kind: Kind,
    message: String,
    summary: String,
    places: Vec<Spot>,
    limit: Option<&'static str>,
}

/// File, line and column from 1, function, and what is to be said about the place. What isn't known is empty or 0.
type Spot = (String, u32, u32, String, String);

#[cold]
fn raise(py: Python<'_>, error: &Error, module: Option<&Module>) -> PyErr {
    let mut report = Report {
        kind: Kind::of(error),
        message: error.to_string(),
        summary: String::new(),
        places: Vec::new(),
        limit: limit_of(error),
    };
    report.summary = report.message.lines().next().unwrap_or_default().to_owned();
    match error.kind() {
        ErrorKind::Source(diagnostics) => {
            let errors = diagnostics.list().iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
            let spot = errors.map(|diagnostic| {
                let (source, span) = diagnostics.file(diagnostic.primary.span);
                let (line, column) = source.line_and_column(span.start);
                (source.name().to_owned(), line, column, String::new(), diagnostic.message.clone())
            });
            report.places = spot.collect();
            if let Some((.., first)) = report.places.first() {
                report.summary.clone_from(first);
            }
        }
        ErrorKind::Assembly(errors) => {
            let spot = |error: &TextError| {
                (error.file.clone(), error.line, error.column, String::new(), error.message.clone())
            };
            report.places = errors.iter().map(spot).collect();
        }
        ErrorKind::Verify(errors) => {
            let function = |function: &Option<(_, String)>| function.as_ref().map_or(String::new(), |of| of.1.clone());
            let spots = errors.iter().map(|error| (String::new(), 0, 0, function(&error.function), error.to_string()));
            report.places = spots.collect();
        }
        ErrorKind::Trap(trap) => {
            if let Some(module) = module {
                report.message = trap.with_sources(module.module.source_texts()).to_string();
            }
            let spot = |frame: &TraceFrame| match &frame.place {
                Some(place) => {
                    (place.file.to_string(), place.line, place.column, frame.function.to_string(), String::new())
                }
                None => (String::new(), 0, 0, frame.function.to_string(), String::new()),
            };
            report.places = trap.frames().map(spot).collect();
        }
        _ => {}
    }
    let raised = report.raise(py);
    match host_error(py, error) {
        // Of Ctrl-C, say: nothing that a program could be blamed for.
        Some(cause) if !cause.is_instance_of::<PyException>(py) => cause,
        cause => {
            raised.set_cause(py, cause);
            raised
        }
    }
}

/// What a function of the host's has raised, if it was that.
fn host_error(py: Python<'_>, error: &Error) -> Option<PyErr> {
    let ErrorKind::Trap(trap) = error.kind() else { return None };
    let TrapKind::Host(failure) = &trap.kind else { return None };
    failure.cause.as_ref()?.downcast_ref::<PyErr>().map(|error| error.clone_ref(py))
}

impl Report {
    #[cold]
    fn raise(self, py: Python<'_>) -> PyErr {
        self.object(py).unwrap_or_else(|error| error)
    }

    fn object(self, py: Python<'_>) -> PyResult<PyErr> {
        let classes = classes(py)?;
        let place = classes.getattr("Place")?;
        let places = self.places.into_iter().map(|spot| place.call1(spot));
        let places = PyTuple::new(py, places.collect::<PyResult<Vec<_>>>()?)?;
        let made = classes.getattr(self.kind.class())?.call1((self.message, self.summary, places, self.limit))?;
        Ok(PyErr::from_value(made))
    }
}

/// The name of the limit that was reached, as `Limits` has it.
fn limit_of(error: &Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::Trap(trap) => match trap.kind {
            TrapKind::Limit(Limit::Fuel) => Some("fuel"),
            TrapKind::Limit(Limit::Deadline) => Some("deadline"),
            TrapKind::Limit(Limit::AllocatedBytes) => Some("allocated_bytes"),
            TrapKind::Limit(Limit::LiveBytes) => Some("live_bytes"),
            TrapKind::Limit(Limit::TapeBytes) => Some("tape_bytes"),
            TrapKind::Limit(Limit::Depth) => Some("depth"),
            // Of the engine's configuration and of the system.
            _ => None,
        },
        ErrorKind::Source(diagnostics) => match diagnostics.stopped() {
            Some(Stopped::SourceBytes) => Some("source_bytes"),
            Some(Stopped::Deadline) => Some("source_deadline"),
            Some(Stopped::SyntaxNodes) => Some("syntax_nodes"),
            Some(Stopped::TypeNodes) => Some("type_nodes"),
            Some(Stopped::CodeNodes) => Some("code_nodes"),
            Some(Stopped::MemoryBytes) => Some("source_memory_bytes"),
            _ => None,
        },
        _ => None,
    }
}
