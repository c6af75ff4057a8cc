//! Arguments of flat calls: objects, taken apart into numbers and arrays by the parameters' types.

use crate::error::Failure;
use crate::numbers::{self, Numbers, Shape};
use crate::numpy::as_array;
use crate::parts::{Fields, items};
use crate::place::Place;
use dualvm::{CallFrame, FlatFunction, FlatValue, HostType};
use pyo3::prelude::*;
use smallvec::SmallVec;

/// What is handed over at a leaf, or was.
pub(crate) enum Leaf {
    Null,
    Real(f64),
    Int(i64),
    Reals(Numbers<f64>),
    Ints(Vec<i64>),
    /// The shape of a tensor in a tangent or a cotangent: nothing to the machine, and to be that of the value.
    Shape(Vec<i64>),
}

/// What is handed over at all leaves of some parameters, in order.
pub(crate) type Leaves = SmallVec<[Leaf; 8]>;

/// The same, as the machine takes it.
pub(crate) type FlatValues<'a> = SmallVec<[FlatValue<'a>; 8]>;

impl Leaf {
    /// A copy of what a call has left.
    pub(crate) fn copy_of(value: FlatValue<'_>) -> Self {
        match value {
            FlatValue::Null => Leaf::Null,
            FlatValue::Real(x) => Leaf::Real(x),
            FlatValue::Int(n) => Leaf::Int(n),
            FlatValue::Reals(xs) => Leaf::Reals(Numbers::Own(xs.to_vec())),
            FlatValue::Ints(ns) => Leaf::Ints(ns.to_vec()),
        }
    }

    #[inline]
    pub(crate) fn value(&self) -> FlatValue<'_> {
        match self {
            Leaf::Null | Leaf::Shape(_) => FlatValue::Null,
            Leaf::Real(x) => FlatValue::Real(*x),
            Leaf::Int(n) => FlatValue::Int(*n),
            Leaf::Reals(numbers) => FlatValue::Reals(numbers.as_slice()),
            Leaf::Ints(numbers) => FlatValue::Ints(numbers),
        }
    }
}

#[inline]
pub(crate) fn values(leaves: &Leaves) -> FlatValues<'_> {
    leaves.iter().map(Leaf::value).collect()
}

/// Sees that tensors in a tangent or a cotangent have the shapes of those that they belong to. The machine compares
/// numbers of elements only.
pub(crate) fn check_shapes<'v>(
    flat: &FlatFunction,
    leaves: &[dualvm::flat::Leaf],
    what: &str,
    derivative: &Leaves,
    primal: &dyn Fn(usize) -> FlatValue<'v>,
) -> Result<(), Failure> {
    for (n, leaf) in derivative.iter().enumerate() {
        if let Leaf::Shape(found) = leaf
            && let FlatValue::Ints(expected) = primal(n)
            && expected != found
        {
            // Behind the shape stand the elements, which are where the tensor is.
            let place = flat.place(&leaves[n + 1]);
            let (expected, found) = (shown(expected), shown(found));
            return Err(Failure::Refused(format!("{what} of {place}: expected the shape {expected}, found {found}")));
        }
    }
    Ok(())
}

/// Sees that a cotangent has the shapes of the results that a flat call has left, if it has come so far.
pub(crate) fn check_cotangent(flat: &FlatFunction, cotangent: &Leaves, frame: &CallFrame) -> Result<(), Failure> {
    let Some(results) = frame.results() else { return Ok(()) };
    check_shapes(flat, flat.results(), "cotangent", cotangent, &|n| results.get(n).unwrap_or_default())
}

/// A shape, as NumPy writes it.
fn shown(extents: &[i64]) -> String {
    let comma = if extents.len() == 1 { "," } else { "" };
    format!("({}{comma})", extents.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
}

/// How many numbers an element is that is a row of numbers of one kind: a tuple of these.
pub(crate) fn row(element: &HostType) -> Option<(&HostType, usize)> {
    let HostType::Tuple(parts) = element else { return None };
    let first = parts.first().filter(|first| is_number(first))?;
    parts.iter().all(|part| part == first).then_some((first, parts.len()))
}

pub(crate) fn is_number(ty: &HostType) -> bool {
    matches!(ty, HostType::Real | HostType::Int | HostType::Bool)
}

/// Takes an object apart that is of a flat type.
///
/// In tangents and cotangents, which are `nullable`, `None` stands for what has no derivative.
pub(crate) fn flatten(
    object: &Bound<'_, PyAny>,
    ty: &HostType,
    place: Place<'_>,
    nullable: bool,
    to: &mut Leaves,
) -> PyResult<()> {
    if nullable && object.is_none() {
        add_nulls(ty, to);
        return Ok(());
    }
    match ty {
        HostType::Real => to.push(Leaf::Real(numbers::real(object, place)?)),
        // A number in the place of nothing is the machine's to refuse.
        HostType::Int => to.push(Leaf::Int(numbers::int(object, place)?)),
        HostType::Bool => to.push(Leaf::Int(numbers::truth(object, place)?.into())),
        HostType::Tuple(types) => {
            let parts = parts(object, types.len(), ty, place)?;
            for (n, (part, ty)) in parts.iter().zip(types).enumerate() {
                flatten(part, ty, Place::Part(&place, n), nullable, to)?;
            }
        }
        HostType::Record(types) => {
            let fields = fields(object, types, ty, place)?;
            for (field, (name, ty)) in fields.iter().zip(types) {
                flatten(field, ty, Place::Field(&place, name), nullable, to)?;
            }
        }
        HostType::Array { .. } | HostType::List { .. } | HostType::Tensor { .. } => {
            array(object, ty, place, nullable, to)?
        }
        _ => return Err(place.refuse(object.py(), "numbers and arrays", ty)),
    }
    Ok(())
}

/// The parts of a tuple.
pub(crate) fn parts<'py>(
    object: &Bound<'py, PyAny>,
    len: usize,
    ty: &HostType,
    place: Place<'_>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let parts = items(object, ty, place)?;
    if parts.len() == len {
        return Ok(parts);
    }
    let plural = if parts.len() == 1 { "" } else { "s" };
    Err(place.refuse(object.py(), ty, format!("{} part{plural}", parts.len())))
}

/// The fields of a record, in the order of its type.
pub(crate) fn fields<'py>(
    object: &Bound<'py, PyAny>,
    types: &[(String, HostType)],
    ty: &HostType,
    place: Place<'_>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = object.py();
    let Some(found) = Fields::of(object)? else {
        return Err(place.mismatch(format!("{ty}, as a dict, a dataclass or a named tuple"), object));
    };
    let mut fields = Vec::with_capacity(types.len());
    for (name, _) in types {
        match found.get(name)? {
            Some(field) => fields.push(field),
            None => return Err(place.refuse(py, ty, format!("nothing called {name:?}"))),
        }
    }
    if found.are_all() {
        let names = found.names()?;
        if let Some(other) = names.iter().find(|name| types.iter().all(|(known, _)| known != *name)) {
            return Err(place.refuse(py, ty, format!("a field {other:?}")));
        }
    }
    Ok(fields)
}

/// A leaf for each of a type's, with nothing.
fn add_nulls(ty: &HostType, to: &mut Leaves) {
    match ty {
        HostType::Tuple(parts) => parts.iter().for_each(|part| add_nulls(part, to)),
        HostType::Record(parts) => parts.iter().for_each(|(_, part)| add_nulls(part, to)),
        HostType::Tensor { .. } => to.extend([Leaf::Null, Leaf::Null]),
        _ => to.push(Leaf::Null),
    }
}

/// Takes an array, a list or a tensor apart: its numbers, with the shape of a tensor before them.
fn array(object: &Bound<'_, PyAny>, ty: &HostType, place: Place<'_>, nullable: bool, to: &mut Leaves) -> PyResult<()> {
    let element = ty.element().expect("it has elements");
    let rank = if let HostType::Tensor { .. } = ty { ty.rank() } else { 1 };
    let object = &as_array(object)?;
    // What a buffer may be: an array of the numbers, or of rows of them.
    let (number, width) = match row(element) {
        Some((number, width)) => (number, Some(width)),
        None => (element, None),
    };
    let dimensions = rank + usize::from(width.is_some());
    let (numbers, shape) = match number {
        HostType::Real => match numbers::reals(object, dimensions, ty, place)? {
            Some((numbers, shape)) => (Leaf::Reals(numbers), shape),
            None => gathered(object, ty, element, rank, place)?,
        },
        HostType::Int | HostType::Bool => {
            match numbers::ints(object, dimensions, *number == HostType::Bool, ty, place)? {
                Some((numbers, shape)) => (Leaf::Ints(numbers), shape),
                None => gathered(object, ty, element, rank, place)?,
            }
        }
        _ => gathered(object, ty, element, rank, place)?,
    };
    if let Some(width) = width.filter(|width| shape.get(rank).is_some_and(|found| found != width)) {
        let found = format!("rows of {} numbers in the place of {width}", shape[rank]);
        return Err(place.refuse(object.py(), ty, found));
    }
    if rank > 1 || matches!(ty, HostType::Tensor { .. }) {
        let extents = shape[..rank].iter().map(|&extent| extent as i64).collect();
        to.push(if nullable { Leaf::Shape(extents) } else { Leaf::Ints(extents) });
    }
    to.push(numbers);
    Ok(())
}

/// Numbers of one kind, one after the other.
enum Gathered {
    Reals(Vec<f64>),
    Ints(Vec<i64>),
}

/// The numbers of sequences in each other, and the shape of these.
fn gathered(
    object: &Bound<'_, PyAny>,
    ty: &HostType,
    element: &HostType,
    rank: usize,
    place: Place<'_>,
) -> PyResult<(Leaf, Shape)> {
    let mut to = if holds_reals(element) { Gathered::Reals(Vec::new()) } else { Gathered::Ints(Vec::new()) };
    let mut shape = Shape::from_elem(usize::MAX, rank);
    gather(object, ty, element, &mut shape, place, &mut to)?;
    // Of what is empty, inner extents aren't known.
    shape.iter_mut().filter(|extent| **extent == usize::MAX).for_each(|extent| *extent = 0);
    let leaf = match to {
        Gathered::Reals(numbers) => Leaf::Reals(Numbers::Own(numbers)),
        Gathered::Ints(numbers) => Leaf::Ints(numbers),
    };
    Ok((leaf, shape))
}

/// Whether the first number of an element is a real.
fn holds_reals(element: &HostType) -> bool {
    match element {
        HostType::Real => true,
        HostType::Tuple(parts) => parts.iter().find(|part| !is_unit(part)).is_some_and(holds_reals),
        HostType::Record(parts) => {
            parts.iter().find(|(_, part)| !is_unit(part)).is_some_and(|(_, part)| holds_reals(part))
        }
        _ => false,
    }
}

/// Whether a type has no numbers at all.
fn is_unit(ty: &HostType) -> bool {
    match ty {
        HostType::Tuple(parts) => parts.iter().all(is_unit),
        HostType::Record(parts) => parts.iter().all(|(_, part)| is_unit(part)),
        _ => false,
    }
}

/// Gathers the slices of a tensor, or the elements of an array. `extents` are those of the first slices.
fn gather(
    object: &Bound<'_, PyAny>,
    ty: &HostType,
    element: &HostType,
    extents: &mut [usize],
    place: Place<'_>,
    to: &mut Gathered,
) -> PyResult<()> {
    let Some((extent, inner)) = extents.split_first_mut() else { return number(object, element, place, to) };
    let items = items(object, ty, place)?;
    if *extent == usize::MAX {
        *extent = items.len();
    } else if *extent != items.len() {
        let expected = format!("{extent} elements, as many as the first slice has");
        return Err(place.refuse(object.py(), expected, items.len()));
    }
    if inner.is_empty() {
        match to {
            Gathered::Reals(numbers) => numbers.reserve(items.len()),
            Gathered::Ints(numbers) => numbers.reserve(items.len()),
        }
    }
    let slice = ty.item().unwrap_or(ty);
    for (n, item) in items.iter().enumerate() {
        gather(item, slice, element, inner, Place::Element(&place, n), to)?;
    }
    Ok(())
}

/// Gathers the numbers of an element.
fn number(object: &Bound<'_, PyAny>, ty: &HostType, place: Place<'_>, to: &mut Gathered) -> PyResult<()> {
    match (ty, &mut *to) {
        (HostType::Real, Gathered::Reals(numbers)) => numbers.push(numbers::real(object, place)?),
        (HostType::Int, Gathered::Ints(numbers)) => numbers.push(numbers::int(object, place)?),
        (HostType::Bool, Gathered::Ints(numbers)) => numbers.push(numbers::truth(object, place)?.into()),
        (HostType::Tuple(types), _) => {
            for (n, (part, ty)) in parts(object, types.len(), ty, place)?.iter().zip(types).enumerate() {
                number(part, ty, Place::Part(&place, n), to)?;
            }
        }
        (HostType::Record(types), _) => {
            for (field, (name, ty)) in fields(object, types, ty, place)?.iter().zip(types) {
                number(field, ty, Place::Field(&place, name), to)?;
            }
        }
        _ => return Err(place.refuse(object.py(), "an element of numbers of one kind", ty)),
    }
    Ok(())
}
