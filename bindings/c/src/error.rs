//! Errors: what went wrong, for programs and for people, and where.

use crate::handles::handles;
use crate::memory::{Out, c_string};
use crate::options::dualvm_limit;
use crate::status::{Failure, dualvm_status, enter, free, get, share};
use dualvm::frontend::{Diagnostics, Severity, Stopped};
use dualvm::vm::excerpt::SourceTexts;
use dualvm::{ColumnError, Error, ErrorKind, Limit, Trap, TrapKind};
use std::ffi::{CString, c_char};

/// What went wrong. Made by the function that has failed, and freed by its caller. Any number of threads may read it.
pub struct dualvm_error {
    _opaque: (),
}

/// A place that an error is about. What it points to lives as long as the error.
#[repr(C)]
pub struct dualvm_place {
    /// The file, as it was named when the module was compiled; empty if it isn't known.
    pub file: *const c_char,
    /// The function in whose code the place is; empty if it isn't known.
    pub function: *const c_char,
    /// What is to be said about this place, on one line; may be empty.
    pub message: *const c_char,
    /// The line, from 1; 0 if it isn't known.
    pub line: u32,
    /// The column in characters, from 1; 0 if it isn't known.
    pub column: u32,
}

/// An error.
pub(crate) struct Report {
    pub(crate) status: dualvm_status,
    limit: dualvm_limit,
    message: CString,
    summary: CString,
    places: Vec<Spot>,
}

handles! { Report => dualvm_error, 0x11, "dualvm_error"; }

struct Spot {
    file: CString,
    function: CString,
    message: CString,
    line: u32,
    column: u32,
}

impl Spot {
    fn new(file: &str, function: &str, message: &str, (line, column): (u32, u32)) -> Spot {
        Spot { file: c_string(file), function: c_string(function), message: c_string(message), line, column }
    }
}

impl Report {
    #[cold]
    pub(crate) fn new(status: dualvm_status, message: impl Into<String>) -> Failure {
        let message = message.into();
        let summary = c_string(message.lines().next().unwrap_or_default());
        let message = c_string(message);
        Box::new(Report { status, limit: dualvm_limit::None, message, summary, places: Vec::new() })
    }

    /// A mistake in a call of the interface.
    #[cold]
    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Report::new(dualvm_status::InvalidArgument, message)
    }

    /// An error of the library. `texts` are those of the module's files, if there is one: traps are shown with their
    /// lines.
    #[cold]
    pub(crate) fn of(error: &Error, texts: Option<&SourceTexts>) -> Failure {
        let mut report = Report::new(status_of(error), error.to_string());
        report.limit = limit_of(error);
        match error.kind() {
            ErrorKind::Source(diagnostics) => report.describe_source(diagnostics),
            ErrorKind::Trap(trap) => report.describe_trap(trap, texts),
            ErrorKind::Assembly(errors) => {
                let spot = |error: &dualvm::vm::text::TextError| {
                    Spot::new(&error.file, "", &error.message, (error.line, error.column))
                };
                report.places = errors.iter().map(spot).collect();
            }
            ErrorKind::Verify(errors) => {
                let broken = errors.iter().map(|error| (&error.function, error.to_string()));
                let spot = |(function, message): (&Option<(_, String)>, String)| {
                    Spot::new("", function.as_ref().map_or("", |(_, name)| name), &message, (0, 0))
                };
                report.places = broken.map(spot).collect();
            }
            _ => {}
        }
        report
    }

    /// The same error, of an item of a batch.
    #[cold]
    pub(crate) fn in_item(mut self: Box<Self>, item: usize) -> Failure {
        let prefixed = |text: &CString| c_string(format_args!("item {item}: {}", text.to_string_lossy()));
        (self.message, self.summary) = (prefixed(&self.message), prefixed(&self.summary));
        self
    }

    fn describe_source(&mut self, diagnostics: &Diagnostics) {
        let errors = diagnostics.list().iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
        self.places = errors
            .map(|diagnostic| {
                let (source, span) = diagnostics.file(diagnostic.primary.span);
                Spot::new(source.name(), "", &diagnostic.message, source.line_and_column(span.start))
            })
            .collect();
        if let Some(first) = self.places.first() {
            self.summary = first.message.clone();
        }
    }

    fn describe_trap(&mut self, trap: &Trap, texts: Option<&SourceTexts>) {
        if let Some(texts) = texts {
            self.message = c_string(trap.with_sources(texts).to_string());
        }
        let spot = |frame: &dualvm::TraceFrame| match &frame.place {
            Some(place) => Spot::new(&place.file, &frame.function, "", (place.line, place.column)),
            None => Spot::new("", &frame.function, "", (0, 0)),
        };
        self.places = trap.frames().map(spot).collect();
    }
}

pub(crate) fn status_of(error: &Error) -> dualvm_status {
    if error.is_limit() {
        return dualvm_status::Limit;
    }
    if error.is_cancelled() {
        return dualvm_status::Cancelled;
    }
    match error.kind() {
        ErrorKind::Source(_) | ErrorKind::Assembly(_) | ErrorKind::NotText { .. } => dualvm_status::Source,
        ErrorKind::Binary(_) | ErrorKind::Verify(_) | ErrorKind::Import { .. } | ErrorKind::Encode(_) => {
            dualvm_status::Module
        }
        ErrorKind::NoSuchFunction { .. } | ErrorKind::Unexported(_) | ErrorKind::NoSuchParameter(_) => {
            dualvm_status::NotFound
        }
        ErrorKind::NotFlat(_) => dualvm_status::NotFlat,
        ErrorKind::Argument(_)
        | ErrorKind::Serialize { .. }
        | ErrorKind::Tangent(_)
        | ErrorKind::Cotangent(_)
        | ErrorKind::GradientLength { .. }
        | ErrorKind::ShapeMismatch(_) => dualvm_status::Argument,
        // What an item gives has other than the places for it.
        ErrorKind::Column(ColumnError::Item { .. }) => dualvm_status::Result,
        ErrorKind::Column(_) => dualvm_status::InvalidArgument,
        ErrorKind::NotScalar { .. } => dualvm_status::NotScalar,
        ErrorKind::ResultDepth { .. } | ErrorKind::ResultShape { .. } | ErrorKind::Deserialize { .. } => {
            dualvm_status::Result
        }
        ErrorKind::Trap(_) => dualvm_status::Trap,
        // What the facade's next version may say, and what no call of this interface asks for.
        _ => dualvm_status::Internal,
    }
}

fn limit_of(error: &Error) -> dualvm_limit {
    match error.kind() {
        ErrorKind::Trap(trap) => match trap.kind {
            TrapKind::Limit(Limit::Fuel) => dualvm_limit::Fuel,
            TrapKind::Limit(Limit::Deadline) => dualvm_limit::DeadlineNs,
            TrapKind::Limit(Limit::AllocatedBytes) => dualvm_limit::AllocatedBytes,
            TrapKind::Limit(Limit::LiveBytes) => dualvm_limit::LiveBytes,
            TrapKind::Limit(Limit::TapeBytes) => dualvm_limit::TapeBytes,
            TrapKind::Limit(Limit::Depth) => dualvm_limit::Depth,
            // Of the engine's configuration and of the system.
            _ => dualvm_limit::None,
        },
        ErrorKind::Source(diagnostics) => match diagnostics.stopped() {
            Some(Stopped::SourceBytes) => dualvm_limit::SourceBytes,
            Some(Stopped::Deadline) => dualvm_limit::SourceDeadlineNs,
            Some(Stopped::SyntaxNodes) => dualvm_limit::SyntaxNodes,
            Some(Stopped::TypeNodes) => dualvm_limit::TypeNodes,
            Some(Stopped::CodeNodes) => dualvm_limit::CodeNodes,
            Some(Stopped::MemoryBytes) => dualvm_limit::SourceMemoryBytes,
            _ => dualvm_limit::None,
        },
        _ => dualvm_limit::None,
    }
}

/// Frees an error. Null is fine.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_error_free(error: *mut dualvm_error) {
    free::<Report>(error);
}

/// What kind of error it is: what the function has returned. `DUALVM_STATUS_OK` for null, and
/// `DUALVM_STATUS_INVALID_HANDLE` for what is no error.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_error_status(error: *const dualvm_error) -> dualvm_status {
    if error.is_null() {
        return dualvm_status::Ok;
    }
    get(dualvm_status::InvalidHandle, || Some(share::<Report>(error).ok()?.status))
}

/// What went wrong, for people: several lines where there is that much to say, with the lines of the program that it is
/// about. Without a line break at the end. Never null; lives as long as the error. Empty for null and for what is no
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_error_message(error: *const dualvm_error) -> *const c_char {
    lent(error, |report| &report.message)
}

/// The same on one line, without places: for a status bar or a log. Lives as long as the error.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_error_summary(error: *const dualvm_error) -> *const c_char {
    lent(error, |report| &report.summary)
}

fn lent(error: *const dualvm_error, text: impl FnOnce(&'static Report) -> &'static CString) -> *const c_char {
    get(c"".as_ptr(), || {
        let report = share::<Report>(error).ok()?;
        // SAFETY: the text is C's until the error is freed, and says so.
        Some(text(unsafe { report.lend() }).as_ptr())
    })
}

/// Which limit was reached, if the status is `DUALVM_STATUS_LIMIT`. `DUALVM_LIMIT_NONE` for other errors, and for
/// limits that no call sets: how far stacks may grow (`dualvm_config_set_stack_bytes`), and the system's memory.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_error_limit(error: *const dualvm_error) -> dualvm_limit {
    get(dualvm_limit::None, || Some(share::<Report>(error).ok()?.limit))
}

/// How many places the error has: those of all mistakes in a program's text, or the calls that led to where a program
/// has stopped, the innermost first. 0 for other errors.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_error_place_count(error: *const dualvm_error) -> usize {
    get(0, || Some(share::<Report>(error).ok()?.places.len()))
}

/// A place of the error, by its number from 0.
///
/// Errors: `INVALID_ARGUMENT` if there are not so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_error_place(
    of: *const dualvm_error,
    n: usize,
    place: *mut dualvm_place,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the caller's promise about pointers is that of the whole interface.
    unsafe {
        enter(error, || {
            let place = Out::new(place, "place")?;
            let report = share::<Report>(of)?;
            // What it points to is C's until the error is freed.
            let places = &report.lend().places;
            let Some(spot) = places.get(n) else {
                return Err(Report::invalid(format!("there is no place {n}: the error has {}", places.len())));
            };
            place.write(dualvm_place {
                file: spot.file.as_ptr(),
                function: spot.function.as_ptr(),
                message: spot.message.as_ptr(),
                line: spot.line,
                column: spot.column,
            });
            Ok(())
        })
    }
}
