//! Values as the host sees them: trees without registers, words or heap objects.
//!
//! Conversion to and from registers is [`crate::engine`]'s. A gradient is a value of the same shape in which every
//! discrete part is [`Value::Null`].

use crate::bytecode::module::HostType;
use crate::nest::{self, DebugWriter, Nest, Visit};
use crate::similar::similar;
use std::fmt;

/// How many steps a path into a value may have that crosses the border between host and program, as argument or as
/// result: `e.left[2].width` has three, and so would the value have if that is its deepest part. An element of a list
/// is one step away, wherever it stands in the list.
///
/// Only values of recursive data types come near. The conversions recurse, and need up to 1,700 bytes of stack per step
/// in a build without optimisation: at this bound, half of the 2 MiB of a thread.
pub const VALUE_DEPTH_MAX: usize = 640;

/// A host value.
///
/// Values may nest as deep as memory allows: to copy, compare, print and drop one takes no more stack for a deep value
/// than for a flat one. Because a value is taken apart when it is dropped, its parts can't be moved out by a pattern:
/// match on a reference, or use [`Value::into_reals`] or [`Value::into_parts`].
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
    /// An array or a list of anything, or a matrix or a tensor: an array of slices of one length, rows of a matrix. As
    /// an argument it may hold reals too.
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

    /// The elements, if this is an array or a list of reals.
    ///
    /// # Errors
    /// The value, if it is of another kind.
    pub fn into_reals(mut self) -> Result<Vec<f64>, Value> {
        match &mut self {
            Value::Reals(xs) => Ok(std::mem::take(xs)),
            _ => Err(self),
        }
    }

    /// The parts, if this is a tuple, or an array or a list of anything.
    ///
    /// ```
    /// # use dualvm_vm::value::Value;
    /// let pair = Value::Tuple(vec![Value::Real(1.0), Value::Int(2)]);
    /// assert_eq!(pair.into_parts(), Ok(vec![Value::Real(1.0), Value::Int(2)]));
    /// assert_eq!(Value::Int(2).into_parts(), Err(Value::Int(2)));
    /// ```
    ///
    /// # Errors
    /// The value, if it is of another kind.
    pub fn into_parts(mut self) -> Result<Vec<Value>, Value> {
        match &mut self {
            Value::Tuple(parts) | Value::Array(parts) => Ok(std::mem::take(parts)),
            _ => Err(self),
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
            Value::Variant(_, payload) => !matches!(&**payload, Value::Tuple(parts) if parts.is_empty()),
            _ => false,
        }
    }

    /// The n-th part as it is written: a constructor's arguments stand by themselves.
    fn written_part(&self, n: usize) -> Option<&Value> {
        match self {
            Value::Variant(_, payload) if let Value::Tuple(arguments) = &**payload => arguments.get(n),
            _ => self.part(n),
        }
    }

    /// Writes what stands before the parts.
    fn write_beginning(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Real(x) => write_real(*x, f),
            Value::Int(n) => write!(f, "{n}"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Tuple(_) => f.write_str("("),
            Value::Record(parts) => f.write_str(if parts.is_empty() { "{" } else { "{ " }),
            Value::Array(_) => f.write_str("["),
            Value::Reals(xs) => {
                f.write_str("[")?;
                for (n, &x) in xs.iter().enumerate() {
                    if n > 0 {
                        f.write_str(", ")?;
                    }
                    write_real(x, f)?;
                }
                Ok(())
            }
            Value::Variant(name, _) => f.write_str(name),
        }
    }

    /// Writes what stands between the n-th part and the one before. Returns whether the part stands in parentheses,
    /// which are open then.
    fn write_separator(&self, n: usize, part: &Value, f: &mut fmt::Formatter<'_>) -> Result<bool, fmt::Error> {
        if let Value::Variant(..) = self {
            let in_parentheses = part.is_open();
            f.write_str(if in_parentheses { " (" } else { " " })?;
            return Ok(in_parentheses);
        }
        if n > 0 {
            f.write_str(", ")?;
        }
        if let Value::Record(parts) = self {
            f.write_str(&parts[n].0)?;
            f.write_str(" = ")?;
        }
        Ok(false)
    }

    /// Writes what stands behind the parts.
    fn write_end(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Tuple(_) => f.write_str(")"),
            Value::Record(parts) => f.write_str(if parts.is_empty() { "}" } else { " }" }),
            Value::Array(_) | Value::Reals(_) => f.write_str("]"),
            _ => Ok(()),
        }
    }
}

fn write_real(x: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if x.is_nan() { f.write_str("nan") } else { write!(f, "{x:?}") }
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

impl Nest for Value {
    type Parts = Parts;

    #[inline]
    fn part(&self, n: usize) -> Option<&Self> {
        match self {
            Value::Tuple(parts) | Value::Array(parts) => parts.get(n),
            Value::Record(parts) => parts.get(n).map(|(_, part)| part),
            Value::Variant(_, payload) if n == 0 => Some(payload),
            _ => None,
        }
    }

    #[inline]
    fn has_parts(&self) -> bool {
        match self {
            Value::Tuple(parts) | Value::Array(parts) => !parts.is_empty(),
            Value::Record(parts) => !parts.is_empty(),
            Value::Variant(..) => true,
            _ => false,
        }
    }

    #[inline]
    fn nests(&self) -> bool {
        match self {
            Value::Tuple(parts) | Value::Array(parts) => parts.iter().any(Value::has_parts),
            Value::Record(parts) => parts.iter().any(|(_, part)| part.has_parts()),
            Value::Variant(_, payload) => payload.has_parts(),
            _ => false,
        }
    }

    fn take_parts(&mut self) -> Parts {
        match self {
            Value::Tuple(parts) | Value::Array(parts) => Parts::Listed(std::mem::take(parts).into_iter()),
            Value::Record(parts) => Parts::Named(std::mem::take(parts).into_iter()),
            Value::Variant(_, payload) => Parts::Payload(Some(std::mem::replace(payload, Value::Null))),
            _ => Parts::Payload(None),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Real(a), Value::Real(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Reals(a), Value::Reals(b)) => a == b,
            (Value::Tuple(a), Value::Tuple(b)) | (Value::Array(a), Value::Array(b)) => a.len() == b.len(),
            (Value::Record(a), Value::Record(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((a, _), (b, _))| a == b)
            }
            (Value::Variant(a, _), Value::Variant(b, _)) => a == b,
            _ => false,
        }
    }

    fn with_parts(&self, copy: &mut dyn FnMut(&Self) -> Self) -> Self {
        match self {
            Value::Null => Value::Null,
            Value::Real(x) => Value::Real(*x),
            Value::Int(n) => Value::Int(*n),
            Value::Bool(b) => Value::Bool(*b),
            Value::Reals(xs) => Value::Reals(xs.clone()),
            Value::Tuple(parts) => Value::Tuple(parts.iter().map(copy).collect()),
            Value::Array(parts) => Value::Array(parts.iter().map(copy).collect()),
            Value::Record(parts) => {
                Value::Record(parts.iter().map(|(name, part)| (name.clone(), copy(part))).collect())
            }
            Value::Variant(name, payload) => Value::variant(name.as_str(), copy(payload)),
        }
    }
}

/// Parts that were taken out of a value.
#[derive(Debug)]
pub(crate) enum Parts {
    Listed(std::vec::IntoIter<Value>),
    Named(std::vec::IntoIter<(String, Value)>),
    Payload(Option<Value>),
}

impl Iterator for Parts {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        match self {
            Parts::Listed(parts) => parts.next(),
            Parts::Named(parts) => parts.next().map(|(_, part)| part),
            Parts::Payload(payload) => payload.take(),
        }
    }
}

impl Drop for Value {
    #[inline]
    fn drop(&mut self) {
        match self {
            Value::Tuple(parts) | Value::Array(parts) => {
                let mut plain = true;
                for part in parts.iter() {
                    if part.has_parts() {
                        return nest::drop_parts(self);
                    }
                    plain &= matches!(part, Value::Null | Value::Real(_) | Value::Int(_) | Value::Bool(_));
                }
                if plain {
                    // There is nothing to do for any of them, and so for all: most tuples are of numbers.
                    // SAFETY: none is no more than there are.
                    unsafe { parts.set_len(0) };
                }
            }
            Value::Record(_) | Value::Variant(..) if self.nests() => nest::drop_parts(self),
            _ => {}
        }
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        nest::clone(self)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        nest::equal(self, other)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        nest::walk(self, &mut Debugged(DebugWriter::new(f)))
    }
}

/// Writes a value as `#[derive(Debug)]` does.
struct Debugged<'f, 'b>(DebugWriter<'f, 'b>);

impl Visit<'_, Value> for Debugged<'_, '_> {
    type Stop = fmt::Error;

    fn enter(&mut self, value: &Value) -> fmt::Result {
        let Debugged(out) = self;
        let (name, leaf): (&str, &dyn fmt::Debug) = match value {
            Value::Null => return out.leaf(&format_args!("Null")),
            Value::Real(x) => ("Real(", x),
            Value::Int(n) => ("Int(", n),
            Value::Bool(b) => ("Bool(", b),
            Value::Reals(xs) => ("Reals(", xs),
            Value::Variant(name, _) => ("Variant(", name),
            Value::Tuple(_) | Value::Array(_) | Value::Record(_) => {
                out.open(match value {
                    Value::Tuple(_) => "Tuple(",
                    Value::Array(_) => "Array(",
                    _ => "Record(",
                })?;
                out.item()?;
                return out.open("[");
            }
        };
        out.open(name)?;
        out.item()?;
        out.leaf(leaf)
    }

    fn before(&mut self, value: &Value, n: usize) -> fmt::Result {
        let Debugged(out) = self;
        out.item()?;
        if let Value::Record(parts) = value {
            out.open("(")?;
            out.item()?;
            out.leaf(&parts[n].0)?;
            out.item()?;
        }
        Ok(())
    }

    fn behind(&mut self, value: &Value, _: usize) -> fmt::Result {
        if let Value::Record(_) = value { self.0.close(")") } else { Ok(()) }
    }

    fn leave(&mut self, value: &Value) -> fmt::Result {
        let Debugged(out) = self;
        match value {
            Value::Null => Ok(()),
            Value::Tuple(_) | Value::Array(_) | Value::Record(_) => {
                out.close("]")?;
                out.close(")")
            }
            _ => out.close(")"),
        }
    }
}

impl fmt::Display for Value {
    /// Writes the value in the language's literal syntax, arrays and lists in brackets, reals with the shortest digits
    /// that read back as the same number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values whose parts are being written: the next part, and whether the value stands in parentheses.
        let mut open: Vec<(&Value, usize, bool)> = Vec::new();
        let mut next = (self, false);
        loop {
            let (value, in_parentheses) = next;
            value.write_beginning(f)?;
            open.push((value, 0, in_parentheses));
            next = loop {
                let Some((value, n, in_parentheses)) = open.last_mut() else { return Ok(()) };
                let Some(part) = value.written_part(*n) else {
                    value.write_end(f)?;
                    if *in_parentheses {
                        f.write_str(")")?;
                    }
                    open.pop();
                    continue;
                };
                let in_parentheses = value.write_separator(*n, part, f)?;
                *n += 1;
                break (part, in_parentheses);
            };
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
    /// The slices of a tensor, such as the rows of a matrix, have different lengths.
    Ragged {
        /// Where.
        place: String,
        /// The length of the first slice of this dimension.
        expected: usize,
        /// The length that was found.
        found: usize,
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
            | ArgumentError::Payload { place, .. }
            | ArgumentError::Ragged { place, .. } => Some(place),
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
            ArgumentError::Ragged { place, expected, found } => {
                write!(
                    f,
                    "argument {place}: expected {expected} elements, as many as the first slice has, found {found}"
                )
            }
            ArgumentError::Depth { parameter } => {
                write!(f, "argument {parameter}: expected at most {VALUE_DEPTH_MAX} levels of nesting, found more")
            }
        }
    }
}

impl std::error::Error for ArgumentError {}
