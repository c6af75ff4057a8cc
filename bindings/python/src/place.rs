//! Where in the arguments something is, and what an object is called in messages.

use crate::error::{Kind, fail};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use std::fmt;

/// Where a value stands in what a caller has given. Written out only if there is an error.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    /// An argument, a tangent or a cotangent as a whole: what it is, and its name.
    Whole(&'static str, &'a str),
    Element(&'a Place<'a>, usize),
    Part(&'a Place<'a>, usize),
    Field(&'a Place<'a>, &'a str),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Whole(what, "") => f.write_str(what),
            Place::Whole(what, name) => write!(f, "{what} {name}"),
            Place::Element(outer, index) => write!(f, "{outer}[{index}]"),
            Place::Part(outer, index) => write!(f, "{outer}.{index}"),
            Place::Field(outer, name) => write!(f, "{outer}.{name}"),
        }
    }
}

impl Place<'_> {
    /// The error of an object that isn't what is expected here.
    #[cold]
    pub(crate) fn mismatch(&self, expected: impl fmt::Display, found: &Bound<'_, PyAny>) -> PyErr {
        self.refuse(found.py(), expected, describe(found))
    }

    /// The error of something that isn't what is expected here.
    #[cold]
    pub(crate) fn refuse(&self, py: Python<'_>, expected: impl fmt::Display, found: impl fmt::Display) -> PyErr {
        fail(py, Kind::Argument, format!("{self}: expected {expected}, found {found}"))
    }
}

/// What an object is, for messages. Runs no code of the caller's.
pub(crate) fn describe(found: &Bound<'_, PyAny>) -> String {
    const SHOWN_MAX: usize = 40;
    let name = type_name(found);
    if found.is_none() {
        return "None".to_owned();
    }
    let shown = found.is_exact_instance_of::<PyBool>()
        || found.is_exact_instance_of::<PyInt>()
        || found.is_exact_instance_of::<PyFloat>()
        || found.is_exact_instance_of::<PyString>();
    // The digits of a very long integer are an error of their own.
    match shown.then(|| found.repr().and_then(|text| text.extract::<String>())) {
        Some(Ok(text)) if text.chars().count() <= SHOWN_MAX => format!("{} ({text})", article(&name)),
        Some(Ok(text)) => format!("{} ({}…)", article(&name), text.chars().take(SHOWN_MAX).collect::<String>()),
        _ => article(&name),
    }
}

/// The name of an object's type with its module's, as in `numpy.ndarray`. A name that can't be found out is no error of
/// its own: there is one already, whose message it is for.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().fully_qualified_name().map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

/// A name with its article.
pub(crate) fn article(name: &str) -> String {
    let vowel = name.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']);
    format!("{} {name}", if vowel { "an" } else { "a" })
}
