//! The one error type of the facade.
//!
//! [`Error`] is a pointer to an [`ErrorKind`]; nothing here prints anything, `Display` and `Debug` do.

use crate::frontend::{Diagnostics, Stopped, Unexported};
use crate::vm::binary::{DecodeError, EncodeError};
use crate::vm::engine::{BindError, NoSuchParameter, RunError, TangentError};
use crate::vm::flat::{ColumnError, CotangentError, NotFlat};
use crate::vm::module::HostType;
use crate::vm::sparse::SparsityError;
use crate::vm::text::TextError;
use crate::vm::trap::{NonFinite, Trap, TrapKind};
use crate::vm::typed::{ShapeMismatch, TypeMismatch};
use crate::vm::value::ArgumentError;
use crate::vm::verify::VerifyError;
use std::fmt;

/// Whatever can go wrong: in loading a module, in converting values, in running a program.
///
/// `Display` is meant for people: it names the place, says what was expected and found, and for a trap it ends with the
/// program's backtrace. It has several lines where there is that much to say. `Debug` writes the same, so that
/// `fn main() -> Result<(), dualvm::Error>` prints something useful. Programs look at [`Error::kind`].
///
/// An error is the size of a pointer, and no error leaves an engine, a module or a function in a bad state.
///
/// ```
/// use dualvm::{Engine, Error, ErrorKind, Module, Value};
///
/// let text = "def quotient (a : Int) (b : Int) : Int = a / b";
/// let module = Module::from_source(&Engine::default(), "quotient.dual", text)?;
/// let quotient = module.function("quotient")?;
///
/// let error = quotient.call(&[Value::Int(1), Value::Int(0)]).unwrap_err();
/// assert!(error.is_trap());
/// assert!(error.to_string().starts_with("integer division by zero"));
///
/// let error = quotient.call(&[Value::Int(1), Value::Bool(true)]).unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Argument(_)));
/// assert_eq!(error.to_string(), "argument b: expected Int, found a boolean (true)");
/// # Ok::<(), Error>(())
/// ```
pub struct Error(Box<ErrorKind>);

/// What went wrong.
#[non_exhaustive]
pub enum ErrorKind {
    /// The program's source has errors, or its compilation reached a limit or was cancelled.
    Source(Diagnostics),
    /// A module in text has errors; at least one.
    Assembly(Vec<TextError>),
    /// Bytes are not a module in binary form.
    Binary(DecodeError),
    /// Bytes that should be source or assembly are not UTF-8.
    NotText {
        /// The file, as the caller named it.
        file: String,
        /// The first byte that doesn't belong to a character.
        offset: usize,
    },
    /// The module breaks rules of the verifier; at least one.
    Verify(Vec<VerifyError>),
    /// A module from which functions are imported can't be linked.
    Import {
        /// The name that it is imported by.
        name: String,
        /// What the importer says, or what else is wrong.
        why: String,
    },
    /// The module has no binary form.
    Encode(EncodeError),
    /// The module exports no function of this name.
    NoSuchFunction {
        /// The name asked for.
        name: String,
        /// Names of exported functions that it may have been meant to be, the most similar first.
        suggestions: Vec<String>,
        /// Whether the module has a function of this name that hosts can't call.
        private: bool,
    },
    /// The program defines a function of this name, but there are functions in its type: hosts can't call it.
    Unexported(Unexported),
    /// A parameter was named that the function doesn't have, or has an argument for already.
    NoSuchParameter(NoSuchParameter),
    /// The arguments are not the function's.
    Argument(ArgumentError),
    /// The program trapped, or reached a limit, or was cancelled.
    Trap(Box<Trap>),
    /// A gradient was asked of a function whose result is not one real.
    NotScalar {
        /// The function.
        function: String,
        /// Its result type.
        result: HostType,
    },
    /// The result nests deeper than [`VALUE_DEPTH_MAX`](crate::vm::value::VALUE_DEPTH_MAX).
    ResultDepth {
        /// The function.
        function: String,
    },
    /// A tensor in the result has another number of elements than its shape says: its bytecode made it so.
    ResultShape {
        /// The function.
        function: String,
        /// What the tensor says its extents are.
        shape: Vec<i64>,
        /// How many elements it has.
        elements: usize,
    },
    /// The result, or a part of it, is of a shape that the type of Rust can't have which it is to become: rows are of
    /// several lengths, or a vector's length is another than its type's.
    ResultMismatch {
        /// The function.
        function: String,
        /// Where in the result: indices and numbers of parts, as in `[3].1`. Empty if it is the result itself.
        place: String,
        /// What was expected there.
        expected: String,
        /// What was found there.
        found: String,
    },
    /// The tangents are not those of the arguments.
    Tangent(TangentError),
    /// The cotangents are not those of the function's result.
    Cotangent(CotangentError),
    /// A sparsity is not that of the function's derivative at these arguments.
    Sparsity(SparsityError),
    /// Columns of a batch are not those of the function, or not of its items.
    Column(ColumnError),
    /// A slice for the gradient of an argument has another number of places than the argument has reals that
    /// derivatives are asked for.
    GradientLength {
        /// The parameter.
        parameter: String,
        /// How many reals there are.
        expected: usize,
        /// How many places the slice has.
        found: usize,
    },
    /// A slice has another number of elements than a matrix of its shape.
    ShapeMismatch(ShapeMismatch),
    /// A call has failed in a way that none of the other kinds says.
    Run(RunError),
    /// A function can't be called with types of Rust that were asked for.
    TypeMismatch(TypeMismatch),
    /// A function can't be called with numbers and slices.
    NotFlat(NotFlat),
    /// A host's value can't be an argument.
    Serialize {
        /// Where in the arguments: a parameter's name, then indices and field names, as in `x[3].1`. May be empty.
        place: String,
        /// What is wrong there.
        message: String,
    },
    /// A result, or a gradient, doesn't fit the host's type.
    Deserialize {
        /// Where in the result or in the gradient, as in `[3].1`. May be empty.
        place: String,
        /// What is wrong there.
        message: String,
    },
}

const _: () = {
    const fn is_send_and_sync<T: Send + Sync + 'static>() {}
    is_send_and_sync::<Error>();
};

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// What went wrong, by value.
    pub fn into_kind(self) -> ErrorKind {
        *self.0
    }

    /// The number that the program was stopped for, in an engine that looks for
    /// [numbers that aren't finite](crate::Config::trap_nan): what has made it, and how that came about.
    ///
    /// ```
    /// use dualvm::{Config, Engine, Module, vm::trap::Origin};
    ///
    /// let mut config = Config::default();
    /// config.trap_nan = true;
    /// let text = "def f (x : Real) (y : Real) : Real = x * log (y - 1)";
    /// let f = Module::from_source(&Engine::new(config), "f.dual", text)?.function("f")?;
    ///
    /// let error = f.value_and_grad(&[2.0.into(), 1.0.into()]).unwrap_err();
    /// let found = error.non_finite().expect("log 0 is infinite");
    /// assert_eq!(found.step.formula(), "log(0.0)");
    /// assert_eq!(found.step.place.as_ref().expect("it is known").to_string(), "f.dual:1:42");
    /// assert_eq!(found.chain[0].formula(), "1.0 - 1.0");
    /// assert!(matches!(&found.origin, Origin::Input { place: Some(place), .. } if place == "y"));
    ///
    /// // 2.0 · log 1 is finite, and so are its derivatives.
    /// assert_eq!(f.value_and_grad(&[2.0.into(), 2.0.into()])?.0, 0.0);
    /// # Ok::<(), dualvm::Error>(())
    /// ```
    pub fn non_finite(&self) -> Option<&NonFinite> {
        match self.kind() {
            ErrorKind::Trap(trap) => match &trap.kind {
                TrapKind::NonFinite(found) => Some(found),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a program was run and stopped before its end: it trapped, reached a limit or was cancelled. Any other
    /// error says that the program or the arguments are not good, before anything runs, or that a result doesn't fit
    /// the host's type.
    pub fn is_trap(&self) -> bool {
        self.trap().is_some()
    }

    /// Whether a program, or its compilation, stopped because it reached a limit. Other limits may let it end.
    pub fn is_limit(&self) -> bool {
        match self.kind() {
            ErrorKind::Trap(trap) => matches!(trap.kind, TrapKind::Limit(_)),
            ErrorKind::Source(errors) => errors.stopped().is_some_and(|stopped| stopped != Stopped::Cancelled),
            _ => false,
        }
    }

    /// Whether a program, or its compilation, stopped because the host cancelled it.
    pub fn is_cancelled(&self) -> bool {
        match self.kind() {
            ErrorKind::Trap(trap) => trap.kind == TrapKind::Cancelled,
            ErrorKind::Source(errors) => errors.stopped() == Some(Stopped::Cancelled),
            _ => false,
        }
    }

    /// The trap with its backtrace, if a program stopped before its end.
    pub fn trap(&self) -> Option<&Trap> {
        match self.kind() {
            ErrorKind::Trap(trap) => Some(trap),
            _ => None,
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Error(Box::new(kind))
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        Error::from(match error {
            RunError::Argument(error) => ErrorKind::Argument(error),
            RunError::Trap(trap) => ErrorKind::Trap(trap),
            RunError::NotScalar { function, result } => ErrorKind::NotScalar { function, result },
            RunError::ResultDepth { function } => ErrorKind::ResultDepth { function },
            RunError::ResultShape { function, shape, elements } => ErrorKind::ResultShape { function, shape, elements },
            RunError::ResultMismatch { function, place, expected, found } => {
                ErrorKind::ResultMismatch { function, place, expected, found }
            }
            RunError::Tangent(error) => ErrorKind::Tangent(error),
            RunError::Cotangent(error) => ErrorKind::Cotangent(error),
            RunError::Sparsity(error) => ErrorKind::Sparsity(error),
            RunError::Column(error) => ErrorKind::Column(error),
            RunError::GradientLength { parameter, expected, found } => {
                ErrorKind::GradientLength { parameter, expected, found }
            }
            // The machine's next version may know more.
            other => ErrorKind::Run(other),
        })
    }
}

impl From<ArgumentError> for Error {
    fn from(error: ArgumentError) -> Self {
        ErrorKind::Argument(error).into()
    }
}

impl From<BindError> for Error {
    fn from(error: BindError) -> Self {
        match error {
            BindError::NoSuchParameter(error) => error.into(),
            BindError::Run(error) => error.into(),
        }
    }
}

impl From<NoSuchParameter> for Error {
    fn from(error: NoSuchParameter) -> Self {
        ErrorKind::NoSuchParameter(error).into()
    }
}

impl From<NotFlat> for Error {
    fn from(error: NotFlat) -> Self {
        ErrorKind::NotFlat(error).into()
    }
}

impl From<TypeMismatch> for Error {
    fn from(error: TypeMismatch) -> Self {
        ErrorKind::TypeMismatch(error).into()
    }
}

impl From<ShapeMismatch> for Error {
    fn from(error: ShapeMismatch) -> Self {
        ErrorKind::ShapeMismatch(error).into()
    }
}

impl std::error::Error for Error {}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Source(diagnostics) => diagnostics.fmt(f),
            ErrorKind::Assembly(errors) => blocks(f, errors, "\n\n"),
            ErrorKind::Binary(error) => error.fmt(f),
            ErrorKind::NotText { file, offset } => write!(
                f,
                "{file}: neither text nor a module in binary form: byte {offset} doesn't belong to a UTF-8 character"
            ),
            ErrorKind::Verify(errors) => {
                let plural = if errors.len() == 1 { "" } else { "s" };
                write!(f, "the module breaks {} rule{plural} of the verifier:\n  ", errors.len())?;
                blocks(f, errors, "\n  ")
            }
            ErrorKind::Import { name, why } => write!(f, "can't link the module `{name}`: {why}"),
            ErrorKind::Encode(error) => error.fmt(f),
            ErrorKind::NoSuchFunction { name, suggestions, private } => {
                match private {
                    true => write!(f, "function `{name}` can't be called by a host: it is not exported")?,
                    false => write!(f, "there is no function `{name}`")?,
                }
                for (i, suggestion) in suggestions.iter().enumerate() {
                    write!(f, "{}`{suggestion}`", if i == 0 { "; did you mean " } else { " or " })?;
                }
                write!(f, "{}", if suggestions.is_empty() { "" } else { "?" })
            }
            ErrorKind::Unexported(unexported) => unexported.fmt(f),
            ErrorKind::Argument(error) => error.fmt(f),
            ErrorKind::Trap(trap) => trap.fmt(f),
            ErrorKind::NotScalar { function, result } => {
                RunError::NotScalar { function: function.clone(), result: result.clone() }.fmt(f)
            }
            ErrorKind::ResultDepth { function } => RunError::ResultDepth { function: function.clone() }.fmt(f),
            ErrorKind::ResultShape { function, shape, elements } => {
                RunError::ResultShape { function: function.clone(), shape: shape.clone(), elements: *elements }.fmt(f)
            }
            ErrorKind::ResultMismatch { function, place, expected, found } => RunError::ResultMismatch {
                function: function.clone(),
                place: place.clone(),
                expected: expected.clone(),
                found: found.clone(),
            }
            .fmt(f),
            ErrorKind::Tangent(error) => error.fmt(f),
            ErrorKind::Cotangent(error) => error.fmt(f),
            ErrorKind::Sparsity(error) => error.fmt(f),
            ErrorKind::Column(error) => error.fmt(f),
            ErrorKind::GradientLength { parameter, expected, found } => {
                RunError::GradientLength { parameter: parameter.clone(), expected: *expected, found: *found }.fmt(f)
            }
            ErrorKind::ShapeMismatch(error) => error.fmt(f),
            ErrorKind::Run(error) => error.fmt(f),
            ErrorKind::TypeMismatch(error) => error.fmt(f),
            ErrorKind::NotFlat(error) => error.fmt(f),
            ErrorKind::NoSuchParameter(error) => error.fmt(f),
            ErrorKind::Serialize { place, message } => match place.as_str() {
                "" => write!(f, "arguments: {message}"),
                place => write!(f, "argument {place}: {message}"),
            },
            ErrorKind::Deserialize { place, message } => match place.as_str() {
                "" => write!(f, "result: {message}"),
                place => write!(f, "result at {}: {message}", place.trim_start_matches('.')),
            },
        }
    }
}

fn blocks<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T], between: &str) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if i == 0 { "" } else { between })?;
    }
    Ok(())
}
