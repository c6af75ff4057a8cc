//! Objects that are made of others: sequences, and what has fields with names.

use crate::numbers::room;
use crate::place::Place;
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyByteArray, PyBytes, PyDict, PyList, PyMapping, PyString, PyTuple, PyWeakrefMethods, PyWeakrefReference,
};
use std::sync::{Arc, Mutex, PoisonError};

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

/// How an object has fields.
pub(crate) enum Fields<'a, 'py> {
    Dict(&'a Bound<'py, PyDict>),
    Mapping(&'a Bound<'py, PyMapping>),
    Dataclass(&'a Bound<'py, PyAny>, DataclassFields),
    NamedTuple(&'a Bound<'py, PyTuple>),
}

/// A field of a dataclass. Variables of the class are none.
pub(crate) struct DataclassField {
    name: String,
    /// Whether `__init__` takes it.
    is_init: bool,
}

type DataclassFields = Arc<[DataclassField]>;

impl DataclassField {
    /// All fields of an object of a dataclass.
    fn all(object: &Bound<'_, PyAny>) -> PyResult<DataclassFields> {
        /// Those of the class that was asked for last: there are often many objects of one.
        static LAST: Mutex<Option<(Py<PyWeakrefReference>, DataclassFields)>> = Mutex::new(None);
        let (py, class) = (object.py(), object.get_type());
        let last = || LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, fields)) = &*last()
            && of.bind(py).upgrade().is_some_and(|of| of.is(&class))
        {
            return Ok(fields.clone());
        }
        let found = py.import("dataclasses")?.call_method1("fields", (&class,))?;
        let field = |field: PyResult<Bound<'_, PyAny>>| {
            let field = field?;
            Ok(DataclassField { name: field.getattr("name")?.extract()?, is_init: field.getattr("init")?.is_truthy()? })
        };
        let fields: DataclassFields = found.try_iter()?.map(field).collect::<PyResult<_>>()?;
        let of = PyWeakrefReference::new(&class)?.unbind();
        // What was there is freed when nobody holds the lock.
        let _old = last().replace((of, fields.clone()));
        Ok(fields)
    }
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
            return Ok(Some(Fields::Dataclass(object, DataclassField::all(object)?)));
        }
        Ok(object.cast::<PyMapping>().ok().map(Fields::Mapping))
    }

    /// The names of all fields.
    pub(crate) fn names(&self) -> PyResult<Vec<String>> {
        match self {
            Fields::Dict(dict) => dict.keys().iter().map(|key| key.extract()).collect(),
            Fields::Mapping(mapping) => mapping.keys()?.iter().map(|key| key.extract()).collect(),
            Fields::Dataclass(_, fields) => Ok(fields.iter().map(|field| field.name.clone()).collect()),
            Fields::NamedTuple(tuple) => tuple.getattr(intern!(tuple.py(), "_fields"))?.extract(),
        }
    }

    /// The names of the fields that stand for what a constructor takes without names.
    pub(crate) fn names_in_order(&self) -> PyResult<Vec<String>> {
        match self {
            Fields::Dataclass(_, fields) => {
                Ok(fields.iter().filter(|field| field.is_init).map(|field| field.name.clone()).collect())
            }
            others => others.names(),
        }
    }

    /// The field of this name, if there is one.
    pub(crate) fn get(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self {
            Fields::Dict(dict) => dict.get_item(name),
            Fields::Mapping(mapping) => Ok(if mapping.contains(name)? { Some(mapping.get_item(name)?) } else { None }),
            Fields::Dataclass(object, fields) if fields.iter().any(|field| field.name == name) => {
                object.getattr_opt(name)
            }
            Fields::Dataclass(..) => Ok(None),
            Fields::NamedTuple(tuple) => tuple.getattr_opt(name),
        }
    }

    /// The field of this name, which it says it has.
    pub(crate) fn require(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.get(name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    /// Whether it is an object of a class with fields of its own.
    pub(crate) fn are_of_a_class(&self) -> bool {
        matches!(self, Fields::Dataclass(..) | Fields::NamedTuple(_))
    }

    /// Whether what it doesn't say about other fields matters: a dict has fields for this record only, and a typing
    /// error is one; an object of a class may have others.
    pub(crate) fn are_all(&self) -> bool {
        !matches!(self, Fields::Dataclass(..))
    }
}
