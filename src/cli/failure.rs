//! What ends a command before its end, and how it is reported.

use super::interrupt;
use dualvm::frontend::{Stopped, is_predefined};
use dualvm::vm::excerpt::SourceTexts;
use dualvm::vm::verify::Rule;
use dualvm::{ArgumentError, Error, ErrorKind, FileKind, Function, Limit, Module, TangentError, Trap, TrapKind};
use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

/// What a command comes to.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The program trapped, reached a limit or, in a benchmark, computed what it should not: exit code 1.
    Trap(String),
    /// What the command was given is not good: exit code 2.
    BadInput(String),
    /// Ctrl-C stopped it: exit code 130.
    Interrupted(String),
    /// Nobody reads what is written to stdout: `dualvm … | head`. Not a failure.
    ClosedPipe,
}

/// Exported functions that a message lists.
const LISTED_MAX: usize = 12;
/// Characters that a message quotes of what it was given.
const QUOTED_MAX: usize = 100;

impl Failure {
    /// Bad input, in one line, and advice.
    pub(crate) fn bad_input(message: impl Display, help: impl Display) -> Self {
        Failure::BadInput(format!("error: {message}\n  help: {help}"))
    }

    /// A file that can't be read or written.
    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error, help: impl Display) -> Self {
        // The number of the error helps nobody who has its name.
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or(&text);
        Failure::bad_input(format_args!("can't {doing} {}: {text}", path.display()), help)
    }

    /// Output that can't be written.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::io("write to", Path::new("stdout"), error, "nothing is known to be wrong with the program"),
        }
    }

    /// A module that can't be loaded.
    pub(crate) fn load(file: &str, error: &Error) -> Self {
        match error.kind() {
            _ if error.is_cancelled() => Failure::Interrupted(error.to_string()),
            // A limit of the compiler is one as any other.
            ErrorKind::Source(errors) if errors.stopped() == Some(Stopped::Deadline) => {
                Failure::Trap(format!("{error}  help: --deadline sets this limit"))
            }
            _ if error.is_limit() => Failure::Trap(error.to_string()),
            // These begin with `error:` and the file already, once for each problem.
            ErrorKind::Source(_) | ErrorKind::Assembly(_) => Failure::BadInput(error.to_string()),
            ErrorKind::NotText { .. } => Failure::bad_input(
                error,
                "a file holds source or assembly in UTF-8, or bytecode, which begins with the bytes `DVBC`",
            ),
            ErrorKind::Binary(_) => Failure::bad_input(
                format_args!("{file}: {error}"),
                "the file was cut off, changed or made by another version; build it again from its source",
            ),
            ErrorKind::Verify(errors) if errors.iter().all(|error| error.rule == Rule::ImportMissing) => {
                Failure::bad_input(
                    format_args!("{file}: {error}"),
                    "bytecode of other modules is looked for beside the file and in folders given by --path: \
                     `shapes.dvbc` for \"shapes.area\", and `dualvm check` lists what it exports; what a host gives is \
                     there in that host only",
                )
            }
            ErrorKind::Verify(errors) if errors.iter().all(|error| error.rule == Rule::ImportMismatch) => {
                Failure::bad_input(
                    format_args!("{file}: {error}"),
                    "an import is of the type that the function has where it is defined; `dualvm check` lists a module's \
                     functions with their types",
                )
            }
            ErrorKind::Verify(_) => Failure::bad_input(
                format_args!("{file}: {error}"),
                "code that breaks a rule is never run; correct the compiler or the assembly that it came from",
            ),
            _ => Failure::BadInput(format!("error: {file}: {error}")),
        }
    }

    /// A function that isn't in a module.
    pub(crate) fn name(file: &str, module: &Module, error: &Error) -> Self {
        let exported = exported(module);
        if let ErrorKind::Unexported(unexported) = error.kind() {
            let name = &unexported.name;
            let wrapper = format!("define a function that calls `{name}` and has only data in its type, and call that");
            return Failure::bad_input(format_args!("{file}: {error}"), format_args!("{wrapper}; {exported}"));
        }
        if let ErrorKind::NoSuchFunction { name, private: false, .. } = error.kind()
            && is_predefined(name)
        {
            let wrapper = format!("`{name}` is known inside of programs only: write a `def` that calls it");
            return Failure::bad_input(format_args!("{file}: {error}"), format_args!("{wrapper}; {exported}"));
        }
        Failure::bad_input(format_args!("{file}: {error}"), exported)
    }

    /// A call that gave no result.
    pub(crate) fn call(file: &str, function: &Function, error: &Error) -> Self {
        let signature = function.signature();
        match error.kind() {
            ErrorKind::Trap(trap) if error.is_cancelled() => Failure::Interrupted(trap_message(trap)),
            ErrorKind::Trap(trap) => Failure::Trap(trap_message(trap)),
            ErrorKind::Argument(ArgumentError::Count { .. }) => Failure::bad_input(
                format_args!("{file}: {}: {error}", function.name()),
                format_args!("the function is {signature}"),
            ),
            ErrorKind::Argument(_) => Failure::bad_input(error, format_args!("the function is {signature}")),
            ErrorKind::Tangent(TangentError::Count { .. }) => Failure::bad_input(
                error,
                format_args!(
                    "there is a --tangent for each of these, in order, null for what is discrete; the function is {signature}"
                ),
            ),
            ErrorKind::Tangent(_) => Failure::bad_input(
                error,
                format_args!(
                    "a tangent has the shape of its argument, with null for what has no real; the function is {signature}"
                ),
            ),
            ErrorKind::Cotangent(_) => Failure::bad_input(
                error,
                format_args!(
                    "the cotangent has the shape of the result, with null for what has no real; the function is {signature}"
                ),
            ),
            ErrorKind::NotScalar { .. } => Failure::bad_input(
                format_args!("{file}: {error}"),
                format_args!(
                    "`dualvm run`, `jvp`, `vjp` and `jacobian` take a function of any result; the function is {signature}"
                ),
            ),
            ErrorKind::ResultDepth { .. } | ErrorKind::ResultShape { .. } => {
                Failure::Trap(format!("error: {file}: {error}"))
            }
            _ => Failure::BadInput(format!("error: {file}: {error}")),
        }
    }

    /// What is to be said, if anything.
    pub(crate) fn message(self) -> String {
        match self {
            Failure::Trap(message) | Failure::BadInput(message) | Failure::Interrupted(message) => message,
            Failure::ClosedPipe => String::new(),
        }
    }

    /// Writes the message to stderr and says how the process ends.
    pub(crate) fn report(&self) -> ExitCode {
        let (message, code) = match self {
            Failure::Trap(message) => (message, 1),
            Failure::BadInput(message) => (message, 2),
            Failure::Interrupted(message) => (message, interrupt::EXIT_CODE),
            Failure::ClosedPipe => return ExitCode::SUCCESS,
        };
        // Where stderr can't be written there is nobody to tell.
        _ = writeln!(io::stderr().lock(), "{message}");
        ExitCode::from(code)
    }
}

/// The start of a text that messages quote, which may be as long as a command line.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Advice: the functions that can be called.
pub(crate) fn exported(module: &Module) -> String {
    let mut functions = module.functions();
    let mut text = String::new();
    for function in functions.by_ref().take(LISTED_MAX) {
        let _ = write!(text, "\n    {}", function.signature());
    }
    match (text.is_empty(), functions.count()) {
        (true, _) => "the module exports no function".to_owned(),
        (false, 0) => format!("the functions that can be called are{text}"),
        (false, more) => format!("the functions that can be called are{text}\n    and {more} more"),
    }
}

fn trap_message(trap: &Trap) -> String {
    let texts = source_texts(trap);
    let shown = trap.with_sources(&texts);
    let flag = match trap.kind {
        TrapKind::Limit(Limit::Fuel) => "--fuel",
        TrapKind::Limit(Limit::Deadline) => "--deadline",
        TrapKind::Limit(Limit::AllocatedBytes) => "--max-alloc",
        TrapKind::Limit(Limit::LiveBytes) => "--max-heap",
        TrapKind::Limit(Limit::TapeBytes) => "--max-tape",
        TrapKind::Limit(Limit::Depth) => "--max-depth",
        TrapKind::Limit(Limit::StackBytes) => {
            return format!(
                "trap: {shown}\n  help: engines take it from `Config::stack_bytes`; here it is the default"
            );
        }
        TrapKind::Limit(Limit::AddressSpace) => {
            return format!("trap: {shown}\n  help: `ulimit -v` sets such a limit");
        }
        _ => return format!("trap: {shown}"),
    };
    format!("trap: {shown}\n  help: {flag} sets this limit")
}

/// The texts of the source files that a trap names, if they are still there.
fn source_texts(trap: &Trap) -> SourceTexts {
    let mut texts = SourceTexts::default();
    let number = match &trap.kind {
        TrapKind::NonFinite(found) => found.step.place.as_ref(),
        _ => None,
    };
    for place in trap.frames().filter_map(|frame| frame.place.as_ref()).chain(number) {
        if texts.get(&place.file).is_none()
            && let Ok(text) = std::fs::read_to_string(&*place.file)
            && FileKind::detect(&place.file, text.as_bytes()) == FileKind::Source
        {
            texts.insert(&*place.file, text.into());
        }
    }
    texts
}
