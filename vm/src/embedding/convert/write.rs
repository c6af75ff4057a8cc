//! Values to registers and heap objects.

use super::maker::Cells;
use super::registers;
use super::row::Row;
use super::store::Store;
use crate::bytecode::isa::Bank;
use crate::bytecode::module::{DataDef, DataId, HostType, ModuleDef, TypeDef, TypeId};
use crate::embedding::engine::Function;
use crate::embedding::value::{ArgumentError, VALUE_DEPTH_MAX, Value, listed};
use crate::memory::heap::Fields;
use crate::trap::Limit;

/// Why arguments could not be written.
pub(crate) enum WriteError {
    Argument(Box<ArgumentError>),
    Limit(Limit),
}

impl From<ArgumentError> for WriteError {
    fn from(error: ArgumentError) -> Self {
        WriteError::Argument(Box::new(error))
    }
}

impl From<Limit> for WriteError {
    fn from(limit: Limit) -> Self {
        WriteError::Limit(limit)
    }
}

/// A step from a value to a part of it.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Part(usize),
    Field(&'a str),
    Item(usize),
}

impl WriteError {
    /// The error of a part, seen from the value that it is a part of. Places are made here only: arguments that are as
    /// they should be pay nothing for them.
    #[cold]
    #[inline(never)]
    pub(super) fn inside(mut self, step: Step<'_>) -> Self {
        if let WriteError::Argument(error) = &mut self
            && let Some(place) = error.place_mut()
        {
            let outer = match step {
                Step::Part(n) => format!(".{n}"),
                Step::Field(name) => format!(".{name}"),
                Step::Item(n) => format!("[{n}]"),
            };
            place.insert_str(0, &outer);
        }
        self
    }

    /// The error of an argument.
    #[cold]
    fn of_parameter(mut self, name: &str) -> Self {
        if let WriteError::Argument(error) = &mut self {
            match &mut **error {
                ArgumentError::Depth { parameter } => *parameter = name.to_owned(),
                error => error.place_mut().into_iter().for_each(|place| place.insert_str(0, name)),
            }
        }
        self
    }
}

/// Converts arguments to registers. With a tape, every real that derivatives are with respect to gets a slot, in the
/// order in which it stands in the arguments; [`super::read_gradient`] counts along.
pub(crate) fn write_arguments(function: &Function, values: &[Value], store: &mut Store<'_>) -> Result<(), WriteError> {
    let params = &function.interface().params;
    if params.len() != values.len() {
        return Err(ArgumentError::Count { expected: params.to_vec(), found: values.len() }.into());
    }
    for (n, ((name, ty), value)) in params.iter().zip(values).enumerate() {
        function.bound_at(n).iter().for_each(|argument| store.bound(argument.registers()));
        store.set_active(function.wrt.has(n));
        write_argument(function.module_def(), (name, ty), value, store)?;
    }
    function.bound_at(params.len()).iter().for_each(|argument| store.bound(argument.registers()));
    Ok(())
}

/// Converts one argument.
pub(crate) fn write_argument(
    module: &ModuleDef,
    (name, ty): (&str, &HostType),
    value: &Value,
    store: &mut Store<'_>,
) -> Result<(), WriteError> {
    Writer { module, store, steps: 0 }.write(ty, value).map_err(|error| error.of_parameter(name))
}

/// Converts arguments again, with the tangents that the store was given in the place of their reals. Of a parameter
/// that derivatives are not with respect to, that is 0s if they are looked at, and otherwise what was written before.
pub(crate) fn write_tangents(
    function: &Function,
    looks_at_constants: bool,
    values: &[Value],
    store: &mut Store<'_>,
) -> Result<(), WriteError> {
    let (params, wrt) = (&function.interface().params, &function.wrt);
    let mut before = Fields::default();
    let mut pass = |Fields { reals, refs, .. }: Fields| {
        let here = before;
        (before.reals, before.refs) = (before.reals + reals, before.refs + refs);
        here
    };
    for n in 0..=params.len() {
        for argument in function.bound_at(n) {
            let registers = registers(argument.ty());
            let before = pass(registers);
            if looks_at_constants {
                argument.write_zeros(store)?;
            } else {
                store.again(before, registers);
            }
        }
        let Some(((name, ty), value)) = params.get(n).zip(values.get(n)) else { break };
        let registers = registers(ty);
        let before = pass(registers);
        store.set_active(wrt.has(n));
        if wrt.has(n) || looks_at_constants {
            write_argument(function.module_def(), (name, ty), value, store)?;
        } else {
            store.again(before, registers);
        }
    }
    Ok(())
}

/// Writes values of the host.
struct Writer<'a, 's> {
    module: &'a ModuleDef,
    store: &'a mut Store<'s>,
    /// How many parts deep in the argument the value being written is.
    steps: usize,
}

impl Writer<'_, '_> {
    fn write(&mut self, ty: &HostType, value: &Value) -> Result<(), WriteError> {
        match (ty, value) {
            (HostType::Tuple(types), Value::Tuple(parts)) if types.len() == parts.len() => self.tuple(types, parts),
            (HostType::Record(types), Value::Record(parts)) if types.len() == parts.len() => self.record(types, parts),
            (HostType::Array { element, .. }, Value::Array(items)) if !element.is_real() => self.array(element, items),
            (HostType::List { element, list }, Value::Array(items)) if !element.is_real() => {
                self.list(element, *list, items)
            }
            (HostType::Tensor { .. }, Value::Array(_) | Value::Reals(_)) => self.tensor(ty, value),
            (HostType::Data { data, .. }, Value::Variant(name, payload)) => self.variant(*data, name, payload),
            _ => self.leaf(ty, value),
        }
    }

    /// Writes a part of the value being written.
    #[inline]
    fn part(&mut self, step: Step<'_>, ty: &HostType, value: &Value) -> Result<(), WriteError> {
        // Most parts are numbers, or rows of them, which can't be wrong.
        match (ty, value) {
            (HostType::Real, &Value::Real(x)) if self.steps < VALUE_DEPTH_MAX => self.store.real(x)?,
            (HostType::Int, &Value::Int(n)) if self.steps < VALUE_DEPTH_MAX => self.store.int(n),
            (HostType::Array { element, .. }, Value::Reals(xs))
                if element.is_real() && self.steps < VALUE_DEPTH_MAX =>
            {
                self.store.real_array(xs)?;
            }
            _ => return self.inside(step, |writer| writer.write(ty, value)),
        }
        Ok(())
    }

    /// Writes what is one step deeper.
    fn inside<T>(
        &mut self,
        step: Step<'_>,
        write: impl FnOnce(&mut Self) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        if self.steps == VALUE_DEPTH_MAX {
            return Err(too_deep());
        }
        self.steps += 1;
        let result = write(self);
        self.steps -= 1;
        match result {
            Ok(written) => Ok(written),
            Err(error) => Err(error.inside(step)),
        }
    }

    fn tuple(&mut self, types: &[HostType], parts: &[Value]) -> Result<(), WriteError> {
        for (n, (ty, part)) in types.iter().zip(parts).enumerate() {
            self.part(Step::Part(n), ty, part)?;
        }
        Ok(())
    }

    fn record(&mut self, types: &[(String, HostType)], parts: &[(String, Value)]) -> Result<(), WriteError> {
        for (n, (name, ty)) in types.iter().enumerate() {
            let part = field(parts, n, name, ty)?;
            self.part(Step::Field(name), ty, part)?;
        }
        Ok(())
    }

    fn variant(&mut self, data: DataId, name: &str, payload: &Value) -> Result<(), WriteError> {
        let tag = self.constructor(data, name)?;
        let ty = &self.module.data[data.index()].variants[tag].1;
        let written = match (ty, payload) {
            (HostType::Tuple(types), Value::Tuple(parts)) if types.len() == parts.len() => self.tuple(types, parts),
            (HostType::Record(types), Value::Record(parts)) if types.len() == parts.len() => self.record(types, parts),
            _ => Err(wrong_payload(name, ty, payload)),
        };
        if written.is_err() { written } else { self.payload(data, tag) }
    }

    fn list(&mut self, element: &HostType, list: TypeId, items: &[Value]) -> Result<(), WriteError> {
        let mut cells = Cells::new(self.variant_fields(list, 1));
        for (n, item) in items.iter().enumerate() {
            self.part(Step::Item(n), element, item)?;
            self.store.cell(&mut cells)?;
        }
        Ok(self.store.end(cells)?)
    }

    fn array(&mut self, element: &HostType, items: &[Value]) -> Result<(), WriteError> {
        if let Some(row) = Row::of(element).filter(|row| self.steps + row.depth < VALUE_DEPTH_MAX) {
            return self.store.rows(row.bank, (items.len(), row.width), |n, cells| {
                row.write(&items[n], cells).map_err(|error| error.inside(Step::Item(n)))
            });
        }
        let fields = registers(element);
        for (n, item) in items.iter().enumerate() {
            // Numbers take no memory of the heap's, which would look at the clock.
            self.store.tick()?;
            self.element(Step::Item(n), (element, fields), item)?;
        }
        let (bank, width) = fields.row().unwrap_or((Bank::Ref, 1));
        Ok(self.store.elements(bank, items.len() * width)?)
    }

    /// Writes a tensor, whose slices are arrays of one length in each dimension.
    fn tensor(&mut self, ty: &HostType, value: &Value) -> Result<(), WriteError> {
        let fields = registers(ty.element().expect("a tensor has elements"));
        let mut extents = Vec::with_capacity(ty.rank());
        let count = self.slices((ty, fields), value, &mut extents, 0)?;
        // A dimension that nothing is known of has no slices.
        extents.resize(ty.rank(), 0);
        let (bank, width) = fields.row().unwrap_or((Bank::Ref, 1));
        self.store.elements(bank, count * width)?;
        extents.iter().for_each(|&extent| self.store.int(extent as i64));
        Ok(self.store.tensor(extents.len())?)
    }

    /// Writes the elements of a tensor, or of a slice of it in a dimension; each takes so many registers. Returns how
    /// many there are.
    fn slices(
        &mut self,
        (ty, fields): (&HostType, Fields),
        value: &Value,
        extents: &mut Vec<usize>,
        dimension: usize,
    ) -> Result<usize, WriteError> {
        let item = ty.item().expect("a tensor has slices, and arrays have elements");
        let len = match value {
            Value::Array(items) => items.len(),
            Value::Reals(xs) if item.is_real() || xs.is_empty() => xs.len(),
            _ => return Err(mismatch(ty, found(value))),
        };
        match extents.get(dimension) {
            None => extents.push(len),
            Some(&extent) if extent != len => {
                return Err(ragged(extent, len));
            }
            Some(_) => {}
        }
        if let (HostType::Array { .. }, Value::Reals(xs)) = (ty, value) {
            self.store.reals(xs)?;
            return Ok(len);
        }
        let mut count = 0;
        for n in 0..len {
            // Numbers take no memory of the heap's, which would look at the clock.
            self.store.tick()?;
            count += match (ty, value) {
                (HostType::Tensor { .. }, Value::Array(items)) => self
                    .inside(Step::Item(n), |writer| writer.slices((item, fields), &items[n], extents, dimension + 1))?,
                (_, Value::Array(items)) => {
                    self.element(Step::Item(n), (item, fields), &items[n])?;
                    1
                }
                _ => unreachable!("reals are elements, and a dimension of them has no slices"),
            };
        }
        Ok(count)
    }

    /// Writes an element, whose registers, so many, stand in the array itself if they are a row.
    fn element(&mut self, step: Step<'_>, (ty, fields): (&HostType, Fields), value: &Value) -> Result<(), WriteError> {
        self.part(step, ty, value)?;
        if fields.row().is_none() {
            self.store.object(0, fields)?;
        }
        Ok(())
    }

    /// Writes a value that has no parts, or only reals.
    fn leaf(&mut self, ty: &HostType, value: &Value) -> Result<(), WriteError> {
        match (ty, value) {
            (HostType::Int, Value::Int(n)) => self.store.int(*n),
            (HostType::Bool, Value::Bool(b)) => self.store.int(i64::from(*b)),
            (HostType::Real, _) => {
                let x = number(value)?;
                self.store.real(x)?;
            }
            (HostType::Array { element, .. }, Value::Reals(xs)) if element.is_real() => {
                self.store.real_array(xs)?;
            }
            (HostType::Array { element, .. }, Value::Array(items)) if element.is_real() => {
                self.store.real_elements(items.len(), |n| item_number(items, n))?;
            }
            (HostType::Array { element, .. }, Value::Reals(xs)) if xs.is_empty() => self.array(element, &[])?,
            (HostType::List { element, .. }, Value::Reals(xs)) if element.is_real() || xs.is_empty() => {
                self.store.real_list::<Limit>(xs.len(), |n| Ok(xs[n]))?;
            }
            (HostType::List { element, .. }, Value::Array(items)) if element.is_real() => {
                self.store.real_list(items.len(), |n| item_number(items, n))?;
            }
            _ => return Err(mismatch(ty, found(value))),
        }
        Ok(())
    }

    /// The tag of a constructor.
    fn constructor(&self, data: DataId, name: &str) -> Result<usize, WriteError> {
        let def = &self.module.data[data.index()];
        let tag = def.variants.iter().position(|(known, _)| known == name);
        tag.ok_or_else(|| no_constructor(def, name))
    }

    /// The fields of a variant of a list or of a data type.
    fn variant_fields(&self, ty: TypeId, tag: usize) -> Fields {
        match &self.module.types[ty.index()] {
            TypeDef::Variant(variants) => Fields::of(&variants[tag].fields),
            _ => unreachable!("the verifier refuses lists and data types whose heap types are not variants"),
        }
    }

    /// Moves the last registers, the payload of a constructor, into an object.
    fn payload(&mut self, data: DataId, tag: usize) -> Result<(), WriteError> {
        let fields = self.variant_fields(self.module.data[data.index()].ty, tag);
        Ok(self.store.object(tag as u32, fields)?)
    }
}

/// A number, as a real. Integers are taken if they are the same number.
#[inline]
pub(super) fn number(value: &Value) -> Result<f64, WriteError> {
    match value {
        Value::Real(x) => Ok(*x),
        Value::Int(n) if (*n as f64) as i128 == i128::from(*n) => Ok(*n as f64),
        _ => Err(mismatch(&HostType::Real, found(value))),
    }
}

fn item_number(items: &[Value], n: usize) -> Result<f64, WriteError> {
    number(&items[n]).map_err(|error| error.inside(Step::Item(n)))
}

/// The part of a record for the n-th field of its type: most often it stands there.
pub(super) fn field<'v>(
    parts: &'v [(String, Value)],
    n: usize,
    name: &str,
    ty: &HostType,
) -> Result<&'v Value, WriteError> {
    let (key, part) = &parts[n];
    if key == name {
        return Ok(part);
    }
    let part = parts.iter().find(|(key, _)| key == name).map(|(_, part)| part);
    part.ok_or_else(|| mismatch(ty, "no such field".to_owned()).inside(Step::Field(name)))
}

// Places are added on the way out.

#[cold]
pub(super) fn mismatch(expected: &HostType, found: String) -> WriteError {
    ArgumentError::Shape { place: String::new(), expected: expected.clone(), found }.into()
}

/// A slice of a tensor that has another length than the first one.
#[cold]
fn ragged(expected: usize, found: usize) -> WriteError {
    ArgumentError::Ragged { place: String::new(), expected, found }.into()
}

#[cold]
fn no_constructor(def: &DataDef, found: &str) -> WriteError {
    let constructors = def.variants.iter().map(|(name, _)| name.clone()).collect();
    let (place, data) = (String::new(), def.name.clone());
    ArgumentError::Constructor { place, data, constructors, found: found.to_owned() }.into()
}

#[cold]
fn wrong_payload(constructor: &str, expected: &HostType, payload: &Value) -> WriteError {
    let (place, constructor) = (String::new(), constructor.to_owned());
    ArgumentError::Payload { place, constructor, expected: expected.clone(), found: found(payload) }.into()
}

#[cold]
fn too_deep() -> WriteError {
    ArgumentError::Depth { parameter: String::new() }.into()
}

/// What a value is, for messages.
#[cold]
pub(super) fn found(value: &Value) -> String {
    match value {
        Value::Tuple(parts) if parts.len() == 1 => "a tuple of 1 part".into(),
        Value::Tuple(parts) if !parts.is_empty() => format!("a tuple of {} parts", parts.len()),
        Value::Record(parts) => format!("a record of {}", listed(parts.iter().map(|(name, _)| name.as_str()))),
        Value::Real(_) | Value::Int(_) | Value::Bool(_) => format!("{} ({value})", value.kind()),
        Value::Variant(name, _) => format!("constructor `{name}`"),
        _ => value.kind().to_owned(),
    }
}
