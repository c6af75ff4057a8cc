//! What stands at a leaf: an argument, a result, a derivative or a cotangent.

use super::signature::{FlatSignature, Leaf, LeafKind};
use crate::bytecode::module::HostType;
use crate::embedding::convert::counted;
use crate::embedding::value::{ArgumentError, Value};
use crate::memory::heap;
use std::fmt;

/// An argument, a result, a derivative or a cotangent of a flat call.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum FlatValue<'a> {
    /// In the place of a derivative or a cotangent of what is discrete.
    #[default]
    Null,
    /// A [`LeafKind::Real`].
    Real(f64),
    /// A [`LeafKind::Int`], or a [`LeafKind::Bool`]: 0 or 1.
    Int(i64),
    /// A [`LeafKind::Reals`].
    Reals(&'a [f64]),
    /// A [`LeafKind::Ints`], a [`LeafKind::Bools`]: each 0 or 1; or a [`LeafKind::Shape`].
    Ints(&'a [i64]),
}

impl<'a> FlatValue<'a> {
    /// The real, if it is one.
    #[inline]
    pub fn as_real(self) -> Option<f64> {
        if let FlatValue::Real(x) = self { Some(x) } else { None }
    }

    /// The integer, if it is one.
    #[inline]
    pub fn as_int(self) -> Option<i64> {
        if let FlatValue::Int(n) = self { Some(n) } else { None }
    }

    /// The reals, if they are any number of them.
    #[inline]
    pub fn as_reals(self) -> Option<&'a [f64]> {
        if let FlatValue::Reals(xs) = self { Some(xs) } else { None }
    }

    /// The integers, if they are any number of them.
    #[inline]
    pub fn as_ints(self) -> Option<&'a [i64]> {
        if let FlatValue::Ints(ns) = self { Some(ns) } else { None }
    }

    /// What it is, for messages.
    #[cold]
    pub(crate) fn found(self) -> String {
        match self {
            FlatValue::Null => "null".to_owned(),
            FlatValue::Real(x) => format!("a real ({})", Value::Real(x)),
            FlatValue::Int(n) => format!("an integer ({n})"),
            FlatValue::Reals(xs) => counted(xs.len(), "real"),
            FlatValue::Ints(ns) => counted(ns.len(), "integer"),
        }
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

impl From<f64> for FlatValue<'_> {
    fn from(x: f64) -> Self {
        FlatValue::Real(x)
    }
}

impl From<i64> for FlatValue<'_> {
    fn from(n: i64) -> Self {
        FlatValue::Int(n)
    }
}

impl From<bool> for FlatValue<'_> {
    fn from(b: bool) -> Self {
        FlatValue::Int(i64::from(b))
    }
}

impl<'a> From<&'a [f64]> for FlatValue<'a> {
    fn from(xs: &'a [f64]) -> Self {
        FlatValue::Reals(xs)
    }
}

impl<'a> From<&'a Vec<f64>> for FlatValue<'a> {
    fn from(xs: &'a Vec<f64>) -> Self {
        FlatValue::Reals(xs)
    }
}

impl<'a, const N: usize> From<&'a [f64; N]> for FlatValue<'a> {
    fn from(xs: &'a [f64; N]) -> Self {
        FlatValue::Reals(xs)
    }
}

impl<'a> From<&'a [i64]> for FlatValue<'a> {
    fn from(ns: &'a [i64]) -> Self {
        FlatValue::Ints(ns)
    }
}

impl<'a> From<&'a Vec<i64>> for FlatValue<'a> {
    fn from(ns: &'a Vec<i64>) -> Self {
        FlatValue::Ints(ns)
    }
}

impl<'a, const N: usize> From<&'a [i64; N]> for FlatValue<'a> {
    fn from(ns: &'a [i64; N]) -> Self {
        FlatValue::Ints(ns)
    }
}

/// The arguments are not as many as the leaves.
#[cold]
pub(super) fn wrong_count(signature: &FlatSignature, found: usize) -> ArgumentError {
    let expected = signature.params.iter().map(|leaf| (signature.place(leaf), leaf.ty().clone())).collect();
    ArgumentError::Count { expected, found }
}

/// The argument is not of the leaf's kind.
#[cold]
pub(super) fn wrong_kind(signature: &FlatSignature, leaf: &Leaf, found: FlatValue<'_>) -> ArgumentError {
    let (place, expected) = (signature.place(leaf), leaf.ty().clone());
    ArgumentError::Shape { place, expected, found: found.found() }
}

/// Whether there are as many numbers as elements need, if it is any number of them.
pub(super) fn is_whole(leaf: &Leaf, value: FlatValue<'_>) -> bool {
    match (leaf.kind(), value) {
        (LeafKind::Reals, FlatValue::Reals(xs)) => xs.len().is_multiple_of(leaf.width()),
        (LeafKind::Ints | LeafKind::Bools, FlatValue::Ints(ns)) => ns.len().is_multiple_of(leaf.width()),
        _ => true,
    }
}

/// The last element has too few numbers.
#[cold]
pub(super) fn incomplete(signature: &FlatSignature, leaf: &Leaf, found: FlatValue<'_>) -> ArgumentError {
    let (place, expected) = (signature.place(leaf), leaf.ty().clone());
    ArgumentError::Shape { place, expected, found: format!("{}, {} to an element", found.found(), leaf.width()) }
}

/// The shape of a tensor, if the argument is one.
pub(super) fn shape<'a>(
    signature: &FlatSignature,
    leaf: &Leaf,
    arg: FlatValue<'a>,
) -> Result<&'a [i64], ArgumentError> {
    match arg {
        FlatValue::Ints(extents) if extents.len() == leaf.rank() && extents.iter().all(|&extent| extent >= 0) => {
            Ok(extents)
        }
        _ => Err(no_shape(signature, leaf, arg)),
    }
}

#[cold]
fn no_shape(signature: &FlatSignature, leaf: &Leaf, arg: FlatValue<'_>) -> ArgumentError {
    let (place, expected) = (signature.place(leaf), leaf.ty().clone());
    let found = match arg {
        FlatValue::Ints(extents) if extents.len() == leaf.rank() => format!("the shape {}", heap::shape_text(extents)),
        FlatValue::Ints(extents) => format!("a shape of {}", counted(extents.len(), "dimension")),
        other => format!("{} in the place of its shape", other.found()),
    };
    ArgumentError::Shape { place, expected, found }
}

/// Whether there are as many numbers as elements of this shape need, if it is any number of them.
pub(super) fn is_filled(leaf: &Leaf, shape: &[i64], value: FlatValue<'_>) -> bool {
    let len = match (leaf.kind(), value) {
        (LeafKind::Reals, FlatValue::Reals(xs)) => xs.len(),
        (LeafKind::Ints | LeafKind::Bools, FlatValue::Ints(ns)) => ns.len(),
        _ => return true,
    };
    heap::elements_of_shape(shape).and_then(|count| count.checked_mul(leaf.width())) == Some(len)
}

/// There are more or fewer numbers than the shape of a tensor says.
#[cold]
pub(super) fn unfilled(signature: &FlatSignature, leaf: &Leaf, shape: &[i64], found: FlatValue<'_>) -> ArgumentError {
    let (place, expected) = (signature.place(leaf), leaf.ty().clone());
    let each = if leaf.width() == 1 { String::new() } else { format!(", {} to an element", leaf.width()) };
    ArgumentError::Shape {
        place,
        expected,
        found: format!("{}{each}, for the shape {}", found.found(), heap::shape_text(shape)),
    }
}

/// An integer in the place of a boolean is neither 0 nor 1; `index` says which of several.
#[cold]
pub(super) fn no_bool(signature: &FlatSignature, leaf: &Leaf, index: Option<usize>, found: i64) -> ArgumentError {
    let mut place = signature.place(leaf);
    if let Some(index) = index {
        place.push_str(&format!("[{index}]"));
    }
    ArgumentError::Shape { place, expected: HostType::Bool, found: FlatValue::Int(found).found() }
}

/// Why cotangents are not those of a function's result.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum CotangentError {
    /// The number of cotangents is not the number of the result's leaves.
    Count {
        /// Places of the result's leaves, and their kinds.
        expected: Vec<(String, LeafKind)>,
        /// How many cotangents were given.
        found: usize,
    },
    /// A cotangent is not of the kind of its leaf.
    Kind {
        /// The leaf's place.
        place: String,
        /// The leaf's kind. Those that are not real have [`FlatValue::Null`] as their cotangent.
        expected: LeafKind,
        /// What was found.
        found: String,
    },
    /// A cotangent has another number of reals than the result has there.
    Length {
        /// The leaf's place.
        place: String,
        /// How many reals the result has there.
        expected: usize,
        /// How many the cotangent has.
        found: usize,
    },
    /// A cotangent that is a value, or a part of one, is not of the result's shape.
    Shape {
        /// Where: `result`, then indices and field names, as in `result[3].1`.
        place: String,
        /// What was expected there.
        expected: String,
        /// What was found there.
        found: String,
    },
}

impl CotangentError {
    #[cold]
    pub(super) fn count(signature: &FlatSignature, found: usize) -> Self {
        let expected = signature.results.iter().map(|leaf| (signature.place(leaf), leaf.kind())).collect();
        CotangentError::Count { expected, found }
    }

    #[cold]
    pub(super) fn kind(signature: &FlatSignature, leaf: &Leaf, found: FlatValue<'_>) -> Self {
        CotangentError::Kind { place: signature.place(leaf), expected: leaf.kind(), found: found.found() }
    }

    #[cold]
    pub(super) fn length(signature: &FlatSignature, leaf: &Leaf, expected: usize, found: usize) -> Self {
        CotangentError::Length { place: signature.place(leaf), expected, found }
    }
}

impl fmt::Display for CotangentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CotangentError::Count { expected, found } => {
                write!(f, "expected {} cotangent{}", expected.len(), plural(expected.len()))?;
                for (n, (place, _)) in expected.iter().enumerate() {
                    write!(f, "{}{place}", if n == 0 { " (" } else { ", " })?;
                }
                write!(f, "{}, found {found}", if expected.is_empty() { "" } else { ")" })
            }
            CotangentError::Kind { place, expected, found } => {
                let expected = match expected {
                    LeafKind::Real => "a real",
                    LeafKind::Reals => "reals",
                    _ => "null, because it is discrete",
                };
                write!(f, "cotangent of {place}: expected {expected}, found {found}")
            }
            CotangentError::Length { place, expected, found } => {
                write!(f, "cotangent of {place}: expected {expected} real{}, found {found}", plural(*expected))
            }
            CotangentError::Shape { place, expected, found } => {
                write!(f, "cotangent of {place}: expected {expected}, found {found}")
            }
        }
    }
}

impl std::error::Error for CotangentError {}
