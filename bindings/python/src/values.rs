//! Arguments of other calls: objects as values, by the parameters' types.

use crate::flatten::{fields, parts};
use crate::numbers;
use crate::numpy::as_array;
use crate::parts::{Fields, items};
use crate::place::Place;
use dualvm::vm::value::{ArgumentError, VALUE_DEPTH_MAX};
use dualvm::{DataDef, HostType, Value};
use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// What the deepest calls of Python's take of the stack.
pub(crate) const STACK_BYTES_MIN: usize = 128 << 10;

/// Converts objects to values.
#[derive(Clone, Copy)]
pub(crate) struct Converter<'a> {
    pub(crate) data: &'a [DataDef],
    /// Whether `None` may stand for what has no derivative.
    pub(crate) nullable: bool,
    /// Steps from the argument to here.
    steps: usize,
}

impl<'a> Converter<'a> {
    pub(crate) fn new(data: &'a [DataDef], nullable: bool) -> Self {
        Converter { data, nullable, steps: 0 }
    }

    fn deeper(self, object: &Bound<'_, PyAny>, place: Place<'_>) -> PyResult<Self> {
        if stacker::remaining_stack().is_some_and(|left| left < STACK_BYTES_MIN) {
            return Err(PyRecursionError::new_err("an argument nests too deep for the stack of this thread"));
        }
        if self.steps < VALUE_DEPTH_MAX {
            return Ok(Converter { steps: self.steps + 1, ..self });
        }
        // The place would be as long as the value is deep.
        let mut whole = &place;
        while let Place::Element(outer, _) | Place::Part(outer, _) | Place::Field(outer, _) = whole {
            whole = outer;
        }
        Err(whole.refuse(object.py(), format!("at most {VALUE_DEPTH_MAX} levels of nesting"), "more"))
    }

    /// The value that an object is.
    pub(crate) fn convert(self, object: &Bound<'_, PyAny>, ty: &HostType, place: Place<'_>) -> PyResult<Value> {
        if self.nullable && object.is_none() {
            return Ok(Value::Null);
        }
        match ty {
            HostType::Real => Ok(Value::Real(numbers::real(object, place)?)),
            HostType::Int => Ok(Value::Int(numbers::int(object, place)?)),
            HostType::Bool => Ok(Value::Bool(numbers::truth(object, place)?)),
            HostType::Tuple(types) => self.tuple(object, types, ty, place),
            HostType::Record(types) => self.record(object, types, ty, place),
            HostType::Array { element, .. } | HostType::List { element, .. } if element.is_real() => {
                let array = as_array(object)?;
                if let Some((numbers, _)) = numbers::reals(&array, 1, ty, place)? {
                    return Ok(Value::Reals(numbers.into_vec()?));
                }
                let items = items(&array, ty, place)?;
                let real = |(n, item)| numbers::real(item, Place::Element(&place, n));
                Ok(Value::Reals(items.iter().enumerate().map(real).collect::<PyResult<_>>()?))
            }
            HostType::Array { .. } | HostType::List { .. } | HostType::Tensor { .. } => {
                let (array, item) = (as_array(object)?, ty.item().expect("it has items"));
                let inner = self.deeper(object, place)?;
                let items = items(&array, ty, place)?;
                let convert = |(n, found)| inner.convert(found, item, Place::Element(&place, n));
                Ok(Value::Array(items.iter().enumerate().map(convert).collect::<PyResult<_>>()?))
            }
            HostType::Data { data, .. } => self.data_value(object, &self.data[data.index()], place),
            // Of a later version of the facade's.
            _ => Err(place.refuse(object.py(), "a type that is known here", ty)),
        }
    }

    fn tuple(self, object: &Bound<'_, PyAny>, types: &[HostType], ty: &HostType, place: Place<'_>) -> PyResult<Value> {
        let (inner, parts) = (self.deeper(object, place)?, parts(object, types.len(), ty, place)?);
        let convert = |(n, (part, ty))| inner.convert(part, ty, Place::Part(&place, n));
        Ok(Value::Tuple(parts.iter().zip(types).enumerate().map(convert).collect::<PyResult<_>>()?))
    }

    fn record(
        self,
        object: &Bound<'_, PyAny>,
        types: &[(String, HostType)],
        ty: &HostType,
        place: Place<'_>,
    ) -> PyResult<Value> {
        let (inner, fields) = (self.deeper(object, place)?, fields(object, types, ty, place)?);
        let convert = |(field, (name, ty)): (&Bound<'_, PyAny>, &(String, HostType))| {
            Ok((name.clone(), inner.convert(field, ty, Place::Field(&place, name))?))
        };
        Ok(Value::Record(fields.iter().zip(types).map(convert).collect::<PyResult<_>>()?))
    }

    /// A value of a data type: the constructor's name if it takes nothing; else a dict from the name to what it takes,
    /// or an object of a dataclass or a named tuple that is called like it.
    fn data_value(self, object: &Bound<'_, PyAny>, def: &DataDef, place: Place<'_>) -> PyResult<Value> {
        let py = object.py();
        let known = |name: &str| def.variants.iter().find(|(known, _)| known == name);
        let none = |name: &str| {
            crate::error::Failure::Of(
                ArgumentError::Constructor {
                    place: place.to_string().split_once(' ').map_or(String::new(), |(_, place)| place.to_owned()),
                    data: def.name.clone(),
                    constructors: def.variants.iter().map(|(name, _)| name.clone()).collect(),
                    found: name.to_owned(),
                }
                .into(),
            )
            .raise(py, None)
        };
        if let Ok(name) = object.cast::<PyString>() {
            let name = name.to_cow()?;
            let (name, payload) = known(&name).ok_or_else(|| none(&name))?;
            return match payload {
                HostType::Tuple(parts) if parts.is_empty() => Ok(Value::variant(name, Value::UNIT)),
                payload => Err(place.refuse(py, format!("`{name}` with {payload}"), "its name only")),
            };
        }
        let Some(found) = Fields::of(object)? else {
            return Err(place.mismatch(&def.name, object));
        };
        if let Fields::Dict(_) | Fields::Mapping(_) = found {
            let names = found.names()?;
            let [name] = &names[..] else {
                return Err(place.refuse(py, &def.name, format!("a dict with {} entries", names.len())));
            };
            let (name, payload) = known(name).ok_or_else(|| none(name))?;
            let written = found.require(name)?;
            return Ok(Value::variant(name, self.payload(&written, payload, place)?));
        }
        // An object of a class that is called like the constructor, with what that takes as its fields.
        let class = object.get_type().name()?.to_string();
        let (name, payload) = known(&class).ok_or_else(|| none(&class))?;
        let payload = match payload {
            HostType::Tuple(types) => {
                let names = found.names_in_order()?;
                let fields = names.iter().map(|name| found.require(name));
                let fields = pyo3::types::PyTuple::new(py, fields.collect::<PyResult<Vec<_>>>()?)?;
                self.tuple(&fields, types, payload, place)?
            }
            HostType::Record(types) => self.record(object, types, payload, place)?,
            _ => unreachable!("a payload is a tuple or a record"),
        };
        Ok(Value::variant(name, payload))
    }

    /// What a constructor takes, as it is written: the value of its only field, several, or fields with names.
    fn payload(self, written: &Bound<'_, PyAny>, payload: &HostType, place: Place<'_>) -> PyResult<Value> {
        match payload {
            HostType::Tuple(types) if types.len() == 1 => {
                let inner = self.deeper(written, place)?;
                Ok(Value::Tuple(vec![inner.convert(written, &types[0], Place::Part(&place, 0))?]))
            }
            HostType::Tuple(types) => self.tuple(written, types, payload, place),
            HostType::Record(types) => self.record(written, types, payload, place),
            _ => unreachable!("a payload is a tuple or a record"),
        }
    }
}
