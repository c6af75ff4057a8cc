//! Values as the host sees them: trees without registers, words or heap objects.
//!
//! Conversion to and from registers is [`crate::engine`]'s. A gradient is a value of the same shape in which every
//! discrete part is [`Value::Null`].

use crate::module::HostType;
use std::fmt;

/// A host value.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Value {
    /// No derivative here: what stands for integers and booleans in a gradient.
    Null,
    /// A real number.
    Real(f64),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// Values side by side. The empty tuple is unit.
    Tuple(Vec<Value>),
    /// Named values side by side, in the order of the type's declaration.
    Record(Vec<(String, Value)>),
    /// An array of reals.
    Reals(Vec<f64>),
    /// An array of anything. As an argument it may hold reals too.
    Array(Vec<Value>),
}

impl Value {
    /// The empty tuple.
    pub const UNIT: Value = Value::Tuple(Vec::new());

    /// The number, if this is a real.
    pub fn as_real(&self) -> Option<f64> {
        match self {
            Value::Real(x) => Some(*x),
            _ => None,
        }
    }

    /// The elements, if this is an array of reals.
    pub fn as_reals(&self) -> Option<&[f64]> {
        match self {
            Value::Reals(xs) => Some(xs),
            _ => None,
        }
    }

    /// What kind of value this is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Real(_) => "a real",
            Value::Int(_) => "an integer",
            Value::Bool(_) => "a boolean",
            Value::Tuple(parts) if parts.is_empty() => "unit",
            Value::Tuple(_) => "a tuple",
            Value::Record(_) => "a record",
            Value::Reals(_) | Value::Array(_) => "an array",
        }
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Self {
        Value::Real(x)
    }
}
impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Value::Int(n)
    }
}
impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}
impl From<Vec<f64>> for Value {
    fn from(xs: Vec<f64>) -> Self {
        Value::Reals(xs)
    }
}
impl From<&[f64]> for Value {
    fn from(xs: &[f64]) -> Self {
        Value::Reals(xs.to_vec())
    }
}

impl fmt::Display for Value {
    /// Writes the value in the language's literal syntax, arrays in brackets, reals with the shortest digits that read
    /// back as the same number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T>(
            f: &mut fmt::Formatter<'_>,
            open: &str,
            close: &str,
            items: &[T],
            mut item: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
        ) -> fmt::Result {
            f.write_str(open)?;
            for (i, value) in items.iter().enumerate() {
                f.write_str(if i > 0 { ", " } else { "" })?;
                item(f, value)?;
            }
            f.write_str(close)
        }
        fn real(f: &mut fmt::Formatter<'_>, x: f64) -> fmt::Result {
            if x.is_nan() { f.write_str("nan") } else { write!(f, "{x:?}") }
        }
        match self {
            Value::Null => write!(f, "null"),
            Value::Real(x) => real(f, *x),
            Value::Int(n) => write!(f, "{n}"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Tuple(parts) => list(f, "(", ")", parts, |f, part| part.fmt(f)),
            Value::Record(parts) => list(f, "{ ", " }", parts, |f, (name, part)| write!(f, "{name} = {part}")),
            Value::Reals(xs) => list(f, "[", "]", xs, |f, x| real(f, *x)),
            Value::Array(items) => list(f, "[", "]", items, |f, item| item.fmt(f)),
        }
    }
}

/// Why a host value is not an argument of a function.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ArgumentError {
    /// The number of arguments is not the number of parameters.
    Count {
        /// The names and types of the parameters.
        expected: Vec<(String, HostType)>,
        /// The number of arguments given.
        found: usize,
    },
    /// An argument, or a part of one, has the wrong shape.
    Shape {
        /// Where: the parameter's name, then indices and field names, as in `x[3].1`.
        place: String,
        /// The type expected there.
        expected: HostType,
        /// What was found there.
        found: String,
    },
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentError::Count { expected, found } => {
                write!(f, "expected {} argument{}", expected.len(), if expected.len() == 1 { "" } else { "s" })?;
                for (i, (name, ty)) in expected.iter().enumerate() {
                    write!(f, "{}{name} : {ty}", if i == 0 { " (" } else { ", " })?;
                }
                write!(f, "{}, found {found}", if expected.is_empty() { "" } else { ")" })
            }
            ArgumentError::Shape { place, expected, found } => {
                write!(f, "argument {place}: expected {expected}, found {found}")
            }
        }
    }
}

impl std::error::Error for ArgumentError {}
