//! Values as the host sees them: trees without registers, words or heap objects.
//!
//! Conversion to and from registers is [`crate::engine`]'s. A gradient is a value of the same shape in which every
//! discrete part is [`Value::Null`].

use crate::module::HostType;
use crate::similar::similar;
use std::fmt;

/// How many steps a path into a value may have that crosses the border between host and program, as argument or as
/// result: `e.left[2].width` has three, and so would the value have if that is its deepest part. An element of a list
/// is one step away, wherever it stands in the list.
///
/// Only values of recursive data types come near. What recurses over a [`Value`], its `Drop`, `Clone`, `PartialEq`,
/// `Debug` and `Display` included, needs up to 1,700 bytes of stack per step in a build without optimisation: at this
/// bound, half of the 2 MiB of a thread.
pub const VALUE_DEPTH_MAX: usize = 640;

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
    /// An array or a list of reals.
    Reals(Vec<f64>),
    /// An array or a list of anything. As an argument it may hold reals too.
    Array(Vec<Value>),
    /// A value of a data type: the constructor's name and its payload, a [`Value::Tuple`] (empty for a constant) or a
    /// [`Value::Record`].
    Variant(String, Box<Value>),
}

impl Value {
    /// The empty tuple.
    pub const UNIT: Value = Value::Tuple(Vec::new());

    /// A value of a data type. The payload is a [`Value::Tuple`] or a [`Value::Record`].
    ///
    /// ```
    /// use dualvm_vm::value::Value;
    ///
    /// let circle = Value::variant("Circle", Value::Tuple(vec![Value::Real(1.5)]));
    /// assert_eq!(Value::variant("Some", Value::Tuple(vec![circle])).to_string(), "Some (Circle 1.5)");
    /// assert_eq!(Value::variant("None", Value::UNIT).to_string(), "None");
    /// ```
    pub fn variant(constructor: impl Into<String>, payload: Value) -> Value {
        Value::Variant(constructor.into(), Box::new(payload))
    }

    /// The number, if this is a real.
    pub fn as_real(&self) -> Option<f64> {
        match self {
            Value::Real(x) => Some(*x),
            _ => None,
        }
    }

    /// The elements, if this is an array or a list of reals.
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
            Value::Variant(..) => "a data value",
        }
    }

    /// Whether the value takes parentheses as a constructor's argument.
    fn is_open(&self) -> bool {
        match self {
            Value::Real(x) => x.is_sign_negative() && !x.is_nan(),
            Value::Int(n) => *n < 0,
            Value::Variant(_, payload) => **payload != Value::UNIT,
            _ => false,
        }
    }

    /// Writes the value as one argument of a constructor.
    fn fmt_argument(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.is_open() { ("(", ")") } else { ("", "") };
        f.write_str(open)?;
        fmt::Display::fmt(self, f)?;
        f.write_str(close)
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
    /// Writes the value in the language's literal syntax, arrays and lists in brackets, reals with the shortest digits
    /// that read back as the same number.
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
            Value::Record(parts) if parts.is_empty() => write!(f, "{{}}"),
            Value::Record(parts) => list(f, "{ ", " }", parts, |f, (name, part)| write!(f, "{name} = {part}")),
            Value::Reals(xs) => list(f, "[", "]", xs, |f, x| real(f, *x)),
            Value::Array(items) => list(f, "[", "]", items, |f, item| item.fmt(f)),
            Value::Variant(name, payload) => {
                f.write_str(name)?;
                let payload = &**payload;
                let arguments = if let Value::Tuple(parts) = payload { parts } else { std::slice::from_ref(payload) };
                for argument in arguments {
                    f.write_str(" ")?;
                    argument.fmt_argument(f)?;
                }
                Ok(())
            }
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
    /// A data value names a constructor that its type doesn't have.
    Constructor {
        /// Where.
        place: String,
        /// The data type's name.
        data: String,
        /// The constructors that it has.
        constructors: Vec<String>,
        /// The one that was found.
        found: String,
    },
    /// A constructor has the wrong payload.
    Payload {
        /// Where.
        place: String,
        /// The constructor.
        constructor: String,
        /// The payload's type.
        expected: HostType,
        /// The payload that was found.
        found: String,
    },
    /// An argument nests deeper than [`VALUE_DEPTH_MAX`].
    Depth {
        /// The parameter.
        parameter: String,
    },
}

impl ArgumentError {
    /// Where the error is, if it has a place inside of an argument.
    pub(crate) fn place_mut(&mut self) -> Option<&mut String> {
        match self {
            ArgumentError::Shape { place, .. }
            | ArgumentError::Constructor { place, .. }
            | ArgumentError::Payload { place, .. } => Some(place),
            ArgumentError::Count { .. } | ArgumentError::Depth { .. } => None,
        }
    }
}

/// Names with commas between them, the first few of many; `none` if there are none.
pub(crate) fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let more = names.len().saturating_sub(SHOWN);
    let mut shown: Vec<&str> = names.take(SHOWN).collect();
    let rest = format!("{more} more");
    if more > 0 {
        shown.push(&rest);
    }
    if shown.is_empty() { "none".into() } else { shown.join(", ") }
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
            ArgumentError::Constructor { place, data, constructors, found } => {
                let known = || constructors.iter().map(String::as_str);
                write!(f, "argument {place}: no constructor `{found}` in `{data}`; it has {}", listed(known()))?;
                match similar(found, known()) {
                    Some(name) => write!(f, " (did you mean `{name}`?)"),
                    None => Ok(()),
                }
            }
            ArgumentError::Payload { place, constructor, expected, found } => {
                write!(f, "argument {place}: `{constructor}` takes {expected}, found {found}")
            }
            ArgumentError::Depth { parameter } => {
                write!(f, "argument {parameter}: expected at most {VALUE_DEPTH_MAX} levels of nesting, found more")
            }
        }
    }
}

impl std::error::Error for ArgumentError {}
