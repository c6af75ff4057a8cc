//! Objects that are made of others: sequences, and what has fields with names.

use crate::numbers::{exports_buffer, room};
use crate::numpy;
use crate::place::Place;
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyMapping, PyString, PyTuple};

/// The items of a sequence: a list, a tuple, or whatever has a length and items by their numbers. Texts, bytes and
/// dicts are none.
pub(crate) fn items<'py>(
    object: &Bound<'py, PyAny>,
    expected: impl std::fmt::Display,
    place: Place<'_>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Ok(list) = object.cast::<PyList>() {
        return Ok(list.iter().collect());
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return Ok(tuple.iter().collect());
    }
    let text = object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyBytes>()
        || object.is_instance_of::<PyByteArray>();
    // SAFETY: it is an object.
    if text || unsafe { ffi::PySequence_Check(object.as_ptr()) } == 0 || object.is_instance_of::<PyMapping>() {
        return Err(place.mismatch(expected, object));
    }
    let len = object.len()?;
    let mut items = room(len)?;
    for n in 0..len {
        match object.get_item(n) {
            Ok(item) => items.push(item),
            // It has become shorter, or never was so long.
            Err(error) if error.is_instance_of::<PyIndexError>(object.py()) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(items)
}

/// What converts itself to an array of NumPy's, as tensors of other libraries do, as that array.
pub(crate) fn as_array<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let plain = exports_buffer(object) || object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
    if plain || !object.hasattr(intern!(object.py(), "__array__"))? {
        return Ok(object.clone());
    }
    match numpy::get(object.py())? {
        Some(numpy) => numpy.as_array(object),
        None => Ok(object.clone()),
    }
}

/// How an object has fields.
pub(crate) enum Fields<'a, 'py> {
    Dict(&'a Bound<'py, PyDict>),
    Mapping(&'a Bound<'py, PyMapping>),
    Dataclass(&'a Bound<'py, PyAny>),
    NamedTuple(&'a Bound<'py, PyTuple>),
}

impl<'a, 'py> Fields<'a, 'py> {
    /// How it has, if it has any.
    pub(crate) fn of(object: &'a Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let py = object.py();
        if let Ok(dict) = object.cast::<PyDict>() {
            return Ok(Some(Fields::Dict(dict)));
        }
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return Ok(object.hasattr(intern!(py, "_fields"))?.then_some(Fields::NamedTuple(tuple)));
        }
        if object.get_type().hasattr(intern!(py, "__dataclass_fields__"))? {
            return Ok(Some(Fields::Dataclass(object)));
        }
        Ok(object.cast::<PyMapping>().ok().map(Fields::Mapping))
    }

    /// The names of all fields.
    pub(crate) fn names(&self) -> PyResult<Vec<String>> {
        match self {
            Fields::Dict(dict) => dict.keys().iter().map(|key| key.extract()).collect(),
            Fields::Mapping(mapping) => mapping.keys()?.iter().map(|key| key.extract()).collect(),
            Fields::Dataclass(object) => {
                let fields = object.get_type().getattr(intern!(object.py(), "__dataclass_fields__"))?;
                fields.try_iter()?.map(|name| name?.extract()).collect()
            }
            Fields::NamedTuple(tuple) => tuple.getattr(intern!(tuple.py(), "_fields"))?.extract(),
        }
    }

    /// The field of this name, if there is one.
    pub(crate) fn get(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self {
            Fields::Dict(dict) => dict.get_item(name),
            Fields::Mapping(mapping) => Ok(if mapping.contains(name)? { Some(mapping.get_item(name)?) } else { None }),
            Fields::Dataclass(object) => object.getattr_opt(name),
            Fields::NamedTuple(tuple) => tuple.getattr_opt(name),
        }
    }

    /// The field of this name, which it says it has.
    pub(crate) fn require(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.get(name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    /// Whether it is an object of a class with fields of its own.
    pub(crate) fn are_of_a_class(&self) -> bool {
        matches!(self, Fields::Dataclass(_) | Fields::NamedTuple(_))
    }

    /// Whether what it doesn't say about other fields matters: a dict has fields for this record only, and a typing
    /// error is one; an object of a class may have others.
    pub(crate) fn are_all(&self) -> bool {
        !matches!(self, Fields::Dataclass(_))
    }
}
