//! Results and derivatives as objects. A derivative has the shape of what it is the derivative of: a dict for a dict,
//! an object of the same dataclass or named tuple, an array of NumPy's for arrays and lists of numbers.

use crate::error::{Kind, fail};
use crate::flatten::{is_number, row};
use crate::numpy;
use crate::parts::Fields;
use crate::values::STACK_BYTES_MIN;
use dualvm::flat::{Leaf, LeafKind};
use dualvm::{FlatValue, HostType, Value};
use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyList, PyString, PyTuple};
use pyo3::{IntoPyObjectExt, intern};

/// What gives an object its form, if there is something.
type Form<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// An item of what gives a form, where that has items by their numbers. There is none where it has become shorter since
/// it was read, which is the only error.
fn item<'py>(form: Form<'_, 'py>, n: usize) -> Option<Bound<'py, PyAny>> {
    let form = form?;
    if let Ok(tuple) = form.cast::<PyTuple>() {
        return tuple.get_item(n).ok();
    }
    form.cast::<PyList>().ok().and_then(|list| list.get_item(n).ok())
}

/// A tuple of parts: in a list or in a named tuple, if that is the form.
fn tuple<'py>(py: Python<'py>, parts: Vec<Bound<'py, PyAny>>, form: Form<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    if let Some(form) = form {
        if form.is_instance_of::<PyList>() {
            return Ok(PyList::new(py, parts)?.into_any());
        }
        if form.is_instance_of::<PyTuple>() && form.hasattr(intern!(py, "_fields"))? {
            return form.get_type().call_method1(intern!(py, "_make"), (parts,));
        }
    }
    Ok(PyTuple::new(py, parts)?.into_any())
}

/// A record: a dict, or an object of the class of the form, with these fields. Others of a dataclass, of which the
/// program knows nothing, are `None`.
fn record<'py>(
    py: Python<'py>,
    parts: Bound<'py, PyDict>,
    form: Option<&Fields<'_, 'py>>,
) -> PyResult<Bound<'py, PyAny>> {
    match form {
        Some(Fields::NamedTuple(tuple)) => tuple.call_method(intern!(py, "_replace"), (), Some(&parts)),
        Some(fields @ Fields::Dataclass(form, _)) => {
            // Without its `__init__`, which may have wishes about numbers that these don't fulfil.
            let object = py.get_type::<PyAny>();
            let made = object.call_method1(intern!(py, "__new__"), (form.get_type(),))?;
            let set = object.getattr(intern!(py, "__setattr__"))?;
            for name in fields.names()? {
                let part = parts.get_item(&name)?;
                set.call1((&made, name, part))?;
            }
            Ok(made)
        }
        _ => Ok(parts.into_any()),
    }
}

/// The fields of what gives a form.
fn fields<'a, 'py>(form: Form<'a, 'py>) -> PyResult<Option<Fields<'a, 'py>>> {
    form.map(Fields::of).transpose().map(Option::flatten)
}

/// A field of what gives a form.
fn field<'py>(form: Option<&Fields<'_, 'py>>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    form.map_or(Ok(None), |fields| fields.get(name))
}

/// The shape of an array that is a tensor of these extents, of numbers or of rows of them.
fn shape_of(extents: &[usize], width: Option<usize>) -> Vec<usize> {
    extents.iter().copied().chain(width).collect()
}

/// Numbers of one kind, row by row, as an array of NumPy's.
fn array<'py>(
    py: Python<'py>,
    number: &HostType,
    shape: &[usize],
    found: FlatValue<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    match (number, found) {
        (HostType::Real, FlatValue::Reals(numbers)) => numpy::reals(py, shape, numbers),
        (HostType::Int, FlatValue::Ints(numbers)) => numpy::ints(py, shape, numbers),
        (HostType::Bool, FlatValue::Ints(numbers)) => numpy::truths(py, shape, numbers),
        _ => Err(fail(py, Kind::Internal, "an array has elements of another type than it should")),
    }
}

/// What stands at the leaves of a flat call: results, or a derivative.
pub(crate) struct FlatOutput<'a, 'v> {
    pub(crate) leaves: &'a [Leaf],
    /// What stands there.
    pub(crate) get: &'a dyn Fn(usize) -> FlatValue<'v>,
    /// The same of what it is the derivative of, which has the shapes of tensors.
    pub(crate) primal: &'a dyn Fn(usize) -> FlatValue<'v>,
}

impl FlatOutput<'_, '_> {
    /// Takes as many leaves as a value of the type has, from `next` on.
    pub(crate) fn object<'py>(
        &self,
        py: Python<'py>,
        ty: &HostType,
        next: &mut usize,
        form: Form<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match ty {
            HostType::Tuple(types) => {
                let part = |(n, ty)| self.object(py, ty, next, item(form, n).as_ref());
                let parts = types.iter().enumerate().map(part).collect::<PyResult<Vec<_>>>()?;
                tuple(py, parts, form)
            }
            HostType::Record(types) => {
                let (parts, form) = (PyDict::new(py), fields(form)?);
                for (name, ty) in types {
                    let part = self.object(py, ty, next, field(form.as_ref(), name)?.as_ref())?;
                    parts.set_item(name, part)?;
                }
                record(py, parts, form.as_ref())
            }
            ty => {
                let shape = if self.leaves[*next].kind() == LeafKind::Shape {
                    *next += 1;
                    match (self.primal)(*next - 1) {
                        FlatValue::Ints(extents) => Some(extents),
                        _ => return Err(fail(py, Kind::Internal, "a tensor has no shape")),
                    }
                } else {
                    None
                };
                let found = (self.get)(*next);
                let kind = self.leaves[*next].kind();
                *next += 1;
                match found {
                    FlatValue::Null => Ok(py.None().into_bound(py)),
                    FlatValue::Real(x) => Ok(PyFloat::new(py, x).into_any()),
                    FlatValue::Int(n) if kind == LeafKind::Bool => Ok(PyBool::new(py, n != 0).to_owned().into_any()),
                    FlatValue::Int(n) => n.into_bound_py_any(py),
                    numbers => sequence(py, ty, shape, numbers, form),
                }
            }
        }
    }

    /// Leaves those out that a value of the type has.
    pub(crate) fn skip(&self, ty: &HostType, next: &mut usize) {
        match ty {
            HostType::Tuple(types) => types.iter().for_each(|ty| self.skip(ty, next)),
            HostType::Record(types) => types.iter().for_each(|(_, ty)| self.skip(ty, next)),
            HostType::Tensor { .. } => *next += 2,
            _ => *next += 1,
        }
    }
}

/// An array, a list or a tensor, of which all numbers stand side by side.
fn sequence<'py>(
    py: Python<'py>,
    ty: &HostType,
    extents: Option<&[i64]>,
    numbers: FlatValue<'_>,
    form: Form<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let element = ty.element().expect("it has elements");
    let len = match numbers {
        FlatValue::Reals(numbers) => numbers.len(),
        FlatValue::Ints(numbers) => numbers.len(),
        _ => 0,
    };
    let (number, width) = row(element).map_or((element, None), |(number, width)| (number, Some(width)));
    if is_number(number) {
        let extents: Vec<usize> = match extents {
            Some(extents) => extents.iter().map(|&extent| extent as usize).collect(),
            None => vec![len / width.unwrap_or(1)],
        };
        return array(py, number, &shape_of(&extents, width), numbers);
    }
    let width = width_of(element);
    let extents: Vec<usize> = match extents {
        Some(extents) => extents.iter().map(|&extent| extent as usize).collect(),
        None => vec![len.checked_div(width).unwrap_or(0)],
    };
    let mut next = 0;
    elements(py, element, &extents, numbers, &mut next, form)
}

/// How many numbers an element is.
fn width_of(element: &HostType) -> usize {
    match element {
        HostType::Tuple(parts) => parts.iter().map(width_of).sum(),
        HostType::Record(parts) => parts.iter().map(|(_, part)| width_of(part)).sum(),
        _ => 1,
    }
}

/// Elements that are records or tuples in each other, in lists.
fn elements<'py>(
    py: Python<'py>,
    element: &HostType,
    extents: &[usize],
    numbers: FlatValue<'_>,
    next: &mut usize,
    form: Form<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some((&extent, inner)) = extents.split_first() else { return one(py, element, numbers, next, form) };
    let list = PyList::empty(py);
    for n in 0..extent {
        list.append(elements(py, element, inner, numbers, next, item(form, n).as_ref())?)?;
    }
    Ok(list.into_any())
}

/// An element of numbers that stand side by side.
fn one<'py>(
    py: Python<'py>,
    ty: &HostType,
    numbers: FlatValue<'_>,
    next: &mut usize,
    form: Form<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    match ty {
        HostType::Tuple(types) => {
            let part = |(n, ty)| one(py, ty, numbers, next, item(form, n).as_ref());
            tuple(py, types.iter().enumerate().map(part).collect::<PyResult<Vec<_>>>()?, form)
        }
        HostType::Record(types) => {
            let (parts, form) = (PyDict::new(py), fields(form)?);
            for (name, ty) in types {
                parts.set_item(name, one(py, ty, numbers, next, field(form.as_ref(), name)?.as_ref())?)?;
            }
            record(py, parts, form.as_ref())
        }
        ty => {
            *next += 1;
            match (ty, numbers) {
                (HostType::Real, FlatValue::Reals(reals)) => Ok(PyFloat::new(py, reals[*next - 1]).into_any()),
                (HostType::Bool, FlatValue::Ints(ints)) => {
                    Ok(PyBool::new(py, ints[*next - 1] != 0).to_owned().into_any())
                }
                (_, FlatValue::Ints(ints)) => ints[*next - 1].into_bound_py_any(py),
                _ => Err(fail(py, Kind::Internal, "an element is of another type than it should be")),
            }
        }
    }
}

/// A value of a type as an object.
pub(crate) fn object<'py>(
    py: Python<'py>,
    value: &Value,
    ty: Option<&HostType>,
    form: Form<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    if stacker::remaining_stack().is_some_and(|left| left < STACK_BYTES_MIN) {
        return Err(PyRecursionError::new_err("a result nests too deep for the stack of this thread"));
    }
    match value {
        Value::Real(x) => Ok(PyFloat::new(py, *x).into_any()),
        Value::Int(n) => n.into_bound_py_any(py),
        Value::Bool(b) => Ok(PyBool::new(py, *b).to_owned().into_any()),
        Value::Reals(numbers) => numpy::reals(py, &[numbers.len()], numbers),
        Value::Tuple(parts) => {
            let types = if let Some(HostType::Tuple(types)) = ty { &types[..] } else { &[] };
            let part = |(n, part)| object(py, part, types.get(n), item(form, n).as_ref());
            tuple(py, parts.iter().enumerate().map(part).collect::<PyResult<Vec<_>>>()?, form)
        }
        Value::Record(parts) => {
            let types = if let Some(HostType::Record(types)) = ty { &types[..] } else { &[] };
            let (made, form) = (PyDict::new(py), fields(form)?);
            for (n, (name, part)) in parts.iter().enumerate() {
                let part = object(py, part, types.get(n).map(|(_, ty)| ty), field(form.as_ref(), name)?.as_ref())?;
                made.set_item(name, part)?;
            }
            record(py, made, form.as_ref())
        }
        Value::Array(items) => {
            if let Some(ty) = ty
                && let Some(packed) = packed(py, ty, value)?
            {
                return Ok(packed);
            }
            let of = ty.and_then(HostType::item);
            let part = |(n, part)| object(py, part, of, item(form, n).as_ref());
            let items = items.iter().enumerate().map(part).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, items)?.into_any())
        }
        Value::Variant(name, payload) => variant(py, name, payload, form),
        _ => Ok(py.None().into_bound(py)),
    }
}

/// A value of a data type: its constructor's name, or a dict from that to what it takes; or an object of the class of
/// the form.
fn variant<'py>(py: Python<'py>, name: &str, payload: &Value, form: Form<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    let form = fields(form)?;
    if let Some(fields) = form.as_ref().filter(|form| form.are_of_a_class()) {
        let parts = PyDict::new(py);
        match payload {
            Value::Tuple(values) => {
                for (field, value) in fields.names_in_order()?.iter().zip(values) {
                    parts.set_item(field, object(py, value, None, fields.get(field)?.as_ref())?)?;
                }
            }
            Value::Record(values) => {
                for (field, value) in values {
                    parts.set_item(field, object(py, value, None, fields.get(field)?.as_ref())?)?;
                }
            }
            _ => {}
        }
        return record(py, parts, Some(fields));
    }
    let payload = match payload {
        Value::Tuple(fields) if fields.is_empty() => return Ok(PyString::new(py, name).into_any()),
        Value::Tuple(fields) if fields.len() == 1 => &fields[0],
        payload => payload,
    };
    let dict = PyDict::new(py);
    dict.set_item(name, object(py, payload, None, field(form.as_ref(), name)?.as_ref())?)?;
    Ok(dict.into_any())
}

/// Numbers that are an array of NumPy's; `None` if the type is of something else.
fn packed<'py>(py: Python<'py>, ty: &HostType, value: &Value) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(element) = ty.element() else { return Ok(None) };
    let (number, width) = row(element).map_or((element, None), |(number, width)| (number, Some(width)));
    if !is_number(number) {
        return Ok(None);
    }
    let rank = if let HostType::Tensor { .. } = ty { ty.rank() } else { 1 };
    let mut shape = vec![0; rank + usize::from(width.is_some())];
    if let Some(width) = width {
        shape[rank] = width;
    }
    let (mut reals, mut ints) = (Vec::new(), Vec::new());
    if !collect(value, &mut shape, &mut reals, &mut ints) {
        // Parts have no derivative.
        return Ok(None);
    }
    let numbers = if number.is_real() { FlatValue::Reals(&reals) } else { FlatValue::Ints(&ints) };
    array(py, number, &shape, numbers).map(Some)
}

/// Collects the numbers in arrays and rows, and their extents. Says whether it has found nothing else.
fn collect(value: &Value, shape: &mut [usize], reals: &mut Vec<f64>, ints: &mut Vec<i64>) -> bool {
    match value {
        Value::Reals(numbers) => {
            if let [extent, ..] = shape {
                *extent = numbers.len();
            }
            reals.extend_from_slice(numbers);
        }
        Value::Array(items) | Value::Tuple(items) => {
            let Some((extent, inner)) = shape.split_first_mut() else { return false };
            *extent = items.len();
            return items.iter().all(|item| collect(item, inner, reals, ints));
        }
        Value::Real(x) => reals.push(*x),
        Value::Int(n) => ints.push(*n),
        Value::Bool(b) => ints.push((*b).into()),
        _ => return false,
    }
    true
}

/// All reals of a derivative, in order: a row of a matrix.
pub(crate) fn reals_of(value: &Value, to: &mut Vec<f64>) {
    match value {
        Value::Real(x) => to.push(*x),
        Value::Reals(numbers) => to.extend_from_slice(numbers),
        Value::Tuple(parts) | Value::Array(parts) => parts.iter().for_each(|part| reals_of(part, to)),
        Value::Record(parts) => parts.iter().for_each(|(_, part)| reals_of(part, to)),
        Value::Variant(_, payload) => reals_of(payload, to),
        _ => {}
    }
}
