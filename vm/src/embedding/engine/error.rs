//! Why a call gave no result.

use crate::bytecode::module::HostType;
use crate::embedding::convert::counted;
use crate::embedding::flat::{ColumnError, CotangentError};
use crate::embedding::sparse::SparsityError;
use crate::embedding::value::{ArgumentError, VALUE_DEPTH_MAX};
use crate::memory::heap::shape_text;
use crate::trap::{Limit, Trap, TrapKind};
use std::fmt;

/// Why a call gave no result.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The arguments are not the function's.
    Argument(ArgumentError),
    /// The program trapped, or reached a limit.
    Trap(Box<Trap>),
    /// A gradient was asked of a function whose result is not one real.
    NotScalar {
        /// The function.
        function: String,
        /// Its result type.
        result: HostType,
    },
    /// The result nests deeper than [`VALUE_DEPTH_MAX`], so no value can be made of it.
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
    /// A sparsity is not that of the function at these arguments.
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
}

/// Why tangents are not those of a function's arguments.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum TangentError {
    /// The number of tangents is not the number of parameters.
    Count {
        /// The names of the parameters.
        expected: Vec<String>,
        /// How many tangents were given.
        found: usize,
    },
    /// A tangent, or a part of one, is not of its argument's shape.
    Shape {
        /// Where: the parameter's name, then indices and field names, as in `x[3].1`.
        place: String,
        /// What was expected there.
        expected: String,
        /// What was found there.
        found: String,
    },
}

impl fmt::Display for TangentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TangentError::Count { expected, found } => {
                write!(f, "expected {} tangent{}", expected.len(), if expected.len() == 1 { "" } else { "s" })?;
                let names = expected.join(", ");
                let (open, close) = if expected.is_empty() { ("", "") } else { (" (", ")") };
                write!(f, "{open}{names}{close}, found {found}")
            }
            TangentError::Shape { place, expected, found } => {
                write!(f, "tangent of {place}: expected {expected}, found {found}")
            }
        }
    }
}

impl std::error::Error for TangentError {}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Argument(error) => error.fmt(f),
            RunError::Trap(trap) => trap.fmt(f),
            RunError::NotScalar { function, result } => write!(
                f,
                "`{function}` returns {result}; a gradient needs a function that returns one Real \
                 (define one that picks or sums a part of the result)"
            ),
            RunError::ResultDepth { function } => write!(
                f,
                "the result of `{function}` nests more than {VALUE_DEPTH_MAX} levels deep, the most that a host value \
                 may (a list is one level, however long it is)"
            ),
            RunError::ResultShape { function, shape, elements } => {
                let (shape, elements) = (shape_text(shape), counted(*elements, "element"));
                write!(f, "a tensor in the result of `{function}` is of shape {shape} and has {elements}")
            }
            RunError::ResultMismatch { function, place, expected, found } => {
                write!(f, "result{place} of `{function}`: expected {expected}, found {found}")
            }
            RunError::Tangent(error) => error.fmt(f),
            RunError::Cotangent(error) => error.fmt(f),
            RunError::Sparsity(error) => error.fmt(f),
            RunError::Column(error) => error.fmt(f),
            RunError::GradientLength { parameter, expected, found } => {
                let plural = if *expected == 1 { "" } else { "s" };
                write!(f, "gradient of {parameter}: expected a slice of {expected} real{plural}, found {found}")
            }
        }
    }
}

impl std::error::Error for RunError {}

impl From<ArgumentError> for RunError {
    fn from(error: ArgumentError) -> Self {
        RunError::Argument(error)
    }
}

impl From<TangentError> for RunError {
    fn from(error: TangentError) -> Self {
        RunError::Tangent(error)
    }
}

impl From<CotangentError> for RunError {
    fn from(error: CotangentError) -> Self {
        RunError::Cotangent(error)
    }
}

impl From<SparsityError> for RunError {
    fn from(error: SparsityError) -> Self {
        RunError::Sparsity(error)
    }
}

/// A trap that no instruction of the program caused.
pub(super) fn outside_of_code(kind: TrapKind) -> RunError {
    let trap = Trap { kind, innermost: Vec::new(), omitted: 0, outermost: Vec::new() };
    RunError::Trap(Box::new(trap))
}

impl From<Limit> for TrapKind {
    fn from(limit: Limit) -> Self {
        TrapKind::Limit(limit)
    }
}
