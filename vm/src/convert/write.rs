//! Values to registers and heap objects.

use crate::heap::{self, ARRAY_HEADER, FIRST, Fields, Heap, LEN, OWNER, Ref};
use crate::interp::Arguments;
use crate::isa::Bank;
use crate::module::{DataDef, DataId, HostType, ModuleDef, TypeDef, TypeId};
use crate::tape::Tape;
use crate::trap::Limit;
use crate::value::{ArgumentError, VALUE_DEPTH_MAX, Value, listed};
use std::fmt::Write;

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

/// Converts arguments to registers. With a tape, every real gets a slot, in the order in which it stands in the
/// arguments; [`super::read_gradient`] counts along.
pub(crate) fn write_arguments(
    module: &ModuleDef,
    params: &[(String, HostType)],
    values: &[Value],
    to: &mut Arguments,
    heap: &mut Heap,
    tape: Option<&mut Tape>,
) -> Result<(), WriteError> {
    if params.len() != values.len() {
        return Err(ArgumentError::Count { expected: params.to_vec(), found: values.len() }.into());
    }
    to.reals.clear();
    to.words.clear();
    to.ints.clear();
    to.refs.clear();
    heap.paused = true;
    let mut writer = Writer { module, heap, tape, place: String::new(), steps: 0 };
    let outcome = params.iter().zip(values).try_for_each(|((name, ty), value)| {
        writer.place.clear();
        writer.place.push_str(name);
        writer.write(ty, value, to).map_err(|error| match error {
            WriteError::Argument(error) if matches!(*error, ArgumentError::Depth { .. }) => {
                ArgumentError::Depth { parameter: name.clone() }.into()
            }
            error => error,
        })
    });
    writer.heap.paused = false;
    outcome
}

/// Appends values to registers. What becomes the content of an object is appended first and then moved into it, from
/// the end of the registers.
struct Writer<'a> {
    module: &'a ModuleDef,
    heap: &'a mut Heap,
    tape: Option<&'a mut Tape>,
    /// Where the value being written stands.
    place: String,
    /// How many parts deep in the argument that is.
    steps: usize,
}

impl Writer<'_> {
    fn write(&mut self, ty: &HostType, value: &Value, to: &mut Arguments) -> Result<(), WriteError> {
        match (ty, value) {
            (HostType::Tuple(types), Value::Tuple(parts)) if types.len() == parts.len() => self.tuple(types, parts, to),
            (HostType::Record(types), Value::Record(parts)) if types.len() == parts.len() => {
                self.record(types, parts, to)
            }
            (HostType::Array { element, .. }, Value::Array(items)) => self.array(element, items, to),
            (HostType::List { element, list }, Value::Array(items)) => self.list(element, *list, items, to),
            (HostType::Data { data, .. }, Value::Variant(name, payload)) => self.variant(*data, name, payload, to),
            _ => self.leaf(ty, value, to),
        }
    }

    /// Writes a part of the value being written: its place is the current one with `suffix`.
    fn part(
        &mut self,
        suffix: std::fmt::Arguments<'_>,
        ty: &HostType,
        value: &Value,
        to: &mut Arguments,
    ) -> Result<(), WriteError> {
        let len = self.enter(suffix)?;
        let result = self.write(ty, value, to);
        if result.is_ok() {
            self.steps -= 1;
            self.place.truncate(len);
        }
        result
    }

    /// Goes into a part; returns the length of the place outside of it.
    fn enter(&mut self, suffix: std::fmt::Arguments<'_>) -> Result<usize, WriteError> {
        if self.steps == VALUE_DEPTH_MAX {
            return Err(ArgumentError::Depth { parameter: String::new() }.into());
        }
        self.steps += 1;
        let len = self.place.len();
        let _ = self.place.write_fmt(suffix);
        Ok(len)
    }

    fn tuple(&mut self, types: &[HostType], parts: &[Value], to: &mut Arguments) -> Result<(), WriteError> {
        for n in 0..types.len() {
            self.part(format_args!(".{n}"), &types[n], &parts[n], to)?;
        }
        Ok(())
    }

    fn record(
        &mut self,
        types: &[(String, HostType)],
        parts: &[(String, Value)],
        to: &mut Arguments,
    ) -> Result<(), WriteError> {
        for (name, ty) in types {
            let part = self.field(parts, name, ty)?;
            self.part(format_args!(".{name}"), ty, part, to)?;
        }
        Ok(())
    }

    fn variant(&mut self, data: DataId, name: &str, payload: &Value, to: &mut Arguments) -> Result<(), WriteError> {
        let tag = self.constructor(data, name)?;
        let ty = &self.module.data[data.index()].variants[tag].1;
        let written = match (ty, payload) {
            (HostType::Tuple(types), Value::Tuple(parts)) if types.len() == parts.len() => self.tuple(types, parts, to),
            (HostType::Record(types), Value::Record(parts)) if types.len() == parts.len() => {
                self.record(types, parts, to)
            }
            _ => Err(self.wrong_payload(name, ty, payload)),
        };
        if written.is_err() { written } else { self.payload(data, tag, to) }
    }

    fn list(
        &mut self,
        element: &HostType,
        list: TypeId,
        items: &[Value],
        to: &mut Arguments,
    ) -> Result<(), WriteError> {
        for (n, item) in items.iter().enumerate() {
            self.part(format_args!("[{n}]"), element, item, to)?;
        }
        Ok(self.cells(list, items.len(), to)?)
    }

    fn array(&mut self, element: &HostType, items: &[Value], to: &mut Arguments) -> Result<(), WriteError> {
        let types = element.flatten(&self.module.data);
        let fields = Fields::of(&types);
        for (n, item) in items.iter().enumerate() {
            self.part(format_args!("[{n}]"), element, item, to)?;
            if types.len() != 1 {
                self.object(0, fields, to)?;
            }
        }
        let bank = if let [only] = types[..] { only.bank() } else { Bank::Ref };
        Ok(self.elements(bank, items.len(), to)?)
    }

    /// Writes a value that has no parts, or only reals.
    fn leaf(&mut self, ty: &HostType, value: &Value, to: &mut Arguments) -> Result<(), WriteError> {
        match (ty, value) {
            (HostType::Real, Value::Real(x)) => self.real(*x, to)?,
            (HostType::Real, Value::Int(n)) if (*n as f64) as i128 == i128::from(*n) => self.real(*n as f64, to)?,
            (HostType::Int, Value::Int(n)) => to.ints.push(*n),
            (HostType::Bool, Value::Bool(b)) => to.ints.push(i64::from(*b)),
            (HostType::Array { element, .. }, Value::Reals(xs)) if **element == HostType::Real => {
                self.real_array(xs, to)?;
            }
            (HostType::Array { element, .. }, Value::Reals(xs)) if xs.is_empty() => self.array(element, &[], to)?,
            (HostType::List { element, list }, Value::Reals(xs)) if **element == HostType::Real || xs.is_empty() => {
                self.real_list(*list, xs, to)?;
            }
            _ => return Err(self.mismatch(ty, found(value))),
        }
        Ok(())
    }

    /// The tag of a constructor.
    fn constructor(&self, data: DataId, name: &str) -> Result<usize, WriteError> {
        let def = &self.module.data[data.index()];
        let tag = def.variants.iter().position(|(known, _)| known == name);
        tag.ok_or_else(|| self.no_constructor(def, name))
    }

    /// The part of a record for a field.
    fn field<'v>(&self, parts: &'v [(String, Value)], name: &str, ty: &HostType) -> Result<&'v Value, WriteError> {
        let part = parts.iter().find(|(key, _)| key == name).map(|(_, part)| part);
        part.ok_or_else(|| self.mismatch(ty, format!("no field `{name}`")))
    }

    #[cold]
    fn mismatch(&self, expected: &HostType, found: String) -> WriteError {
        ArgumentError::Shape { place: self.place.clone(), expected: expected.clone(), found }.into()
    }

    #[cold]
    fn no_constructor(&self, def: &DataDef, found: &str) -> WriteError {
        let constructors = def.variants.iter().map(|(name, _)| name.clone()).collect();
        let (place, data) = (self.place.clone(), def.name.clone());
        ArgumentError::Constructor { place, data, constructors, found: found.to_owned() }.into()
    }

    #[cold]
    fn wrong_payload(&self, constructor: &str, expected: &HostType, payload: &Value) -> WriteError {
        let (place, constructor) = (self.place.clone(), constructor.to_owned());
        ArgumentError::Payload { place, constructor, expected: expected.clone(), found: found(payload) }.into()
    }
}

/// What a value is, for messages.
#[cold]
fn found(value: &Value) -> String {
    match value {
        Value::Tuple(parts) if parts.len() == 1 => "a tuple of 1 part".into(),
        Value::Tuple(parts) if !parts.is_empty() => format!("a tuple of {} parts", parts.len()),
        Value::Record(parts) => format!("a record of {}", listed(parts.iter().map(|(name, _)| name.as_str()))),
        Value::Real(_) | Value::Int(_) | Value::Bool(_) => format!("{} ({value})", value.kind()),
        Value::Variant(name, _) => format!("constructor `{name}`"),
        _ => value.kind().to_owned(),
    }
}

/// What is written without recursion.
impl Writer<'_> {
    /// The fields of a variant of a list or of a data type.
    fn variant_fields(&self, ty: TypeId, tag: usize) -> Fields {
        match &self.module.types[ty.index()] {
            TypeDef::Variant(variants) => Fields::of(&variants[tag].fields),
            _ => unreachable!("the verifier refuses lists and data types whose heap types are not variants"),
        }
    }

    /// Moves the last registers, the payload of a constructor, into an object.
    fn payload(&mut self, data: DataId, tag: usize, to: &mut Arguments) -> Result<(), WriteError> {
        let fields = self.variant_fields(self.module.data[data.index()].ty, tag);
        Ok(self.object(tag as u32, fields, to)?)
    }

    fn slots(&mut self, count: usize) -> Result<u32, Limit> {
        match &mut self.tape {
            Some(tape) if count > 0 => tape.reserve_slots(count as u64),
            _ => Ok(0),
        }
    }

    fn real(&mut self, x: f64, to: &mut Arguments) -> Result<(), Limit> {
        let slot = self.slots(1)?;
        to.reals.push(x);
        to.words.push(u64::from(slot));
        Ok(())
    }

    fn real_list(&mut self, list: TypeId, xs: &[f64], to: &mut Arguments) -> Result<(), Limit> {
        for &x in xs {
            self.real(x, to)?;
        }
        self.cells(list, xs.len(), to)
    }

    fn real_array(&mut self, xs: &[f64], to: &mut Arguments) -> Result<(), Limit> {
        let first = self.slots(xs.len())?;
        let array = self.allocate_array(Bank::Real, xs.len())?;
        // SAFETY: the array has as many elements.
        unsafe {
            array.add(ARRAY_HEADER).cast::<f64>().copy_from_nonoverlapping(xs.as_ptr(), xs.len());
            *array.add(FIRST) = u64::from(first);
            *array.add(OWNER) = u64::from(first != 0);
        }
        to.refs.push(array);
        Ok(())
    }

    /// Makes a list of the last `count` elements, which stand in the registers one after the other. The last cell is
    /// made first: the registers of an element are followed by the reference to what comes after it.
    fn cells(&mut self, list: TypeId, count: usize, to: &mut Arguments) -> Result<(), Limit> {
        self.object(0, Fields::default(), to)?;
        let fields = self.variant_fields(list, 1);
        for _ in 0..count {
            self.object(1, fields, to)?;
        }
        Ok(())
    }

    /// Moves the last registers into a new struct or variant, and appends that.
    fn object(&mut self, tag: u32, fields: Fields, to: &mut Arguments) -> Result<(), Limit> {
        let object = self.heap.allocate(heap::object_header(fields, tag), fields.size(), 0, &mut [])?;
        let (reals, ints) = (to.reals.len() - fields.reals, to.ints.len() - fields.ints);
        let refs = to.refs.len() - fields.refs;
        // SAFETY: the object has fields for these registers; references lead to objects of this heap.
        unsafe {
            for (n, (x, word)) in to.reals.drain(reals..).zip(to.words.drain(reals..)).enumerate() {
                *object.add(fields.real_at(n)).cast::<f64>() = x;
                *object.add(fields.word_at(n)) = word;
                *object.add(OWNER) |= u64::from(word != 0);
            }
            for (n, x) in to.ints.drain(ints..).enumerate() {
                *object.add(fields.int_at(n)) = x as u64;
            }
            for (n, x) in to.refs.drain(refs..).enumerate() {
                *object.add(fields.ref_at(n)) = x as u64;
                *object.add(OWNER) |= *x.add(OWNER);
            }
        }
        to.refs.push(object);
        Ok(())
    }

    /// Moves the last registers of a bank into a new array, and appends that.
    fn elements(&mut self, bank: Bank, len: usize, to: &mut Arguments) -> Result<(), Limit> {
        let array = self.allocate_array(bank, len)?;
        // SAFETY: the array has `len` elements of the bank; references lead to objects of this heap.
        unsafe {
            let elements = array.add(ARRAY_HEADER);
            match bank {
                Bank::Real => {
                    let at = to.reals.len() - len;
                    elements.cast::<f64>().copy_from_nonoverlapping(to.reals[at..].as_ptr(), len);
                    // Reals that were written one after the other have consecutive slots.
                    *array.add(FIRST) = to.words.get(at).copied().unwrap_or(0);
                    *array.add(OWNER) = u64::from(*array.add(FIRST) != 0);
                    to.reals.truncate(at);
                    to.words.truncate(at);
                }
                Bank::Int => {
                    let at = to.ints.len() - len;
                    elements.cast::<i64>().copy_from_nonoverlapping(to.ints[at..].as_ptr(), len);
                    to.ints.truncate(at);
                }
                Bank::Ref => {
                    let at = to.refs.len() - len;
                    elements.cast::<Ref>().copy_from_nonoverlapping(to.refs[at..].as_ptr(), len);
                    *array.add(OWNER) = u64::from(to.refs.drain(at..).any(|object| *object.add(OWNER) != 0));
                }
            }
        }
        to.refs.push(array);
        Ok(())
    }

    /// Memory for an array; its elements are to be written.
    fn allocate_array(&mut self, element: Bank, len: usize) -> Result<Ref, Limit> {
        let array = self.heap.allocate(heap::array_header(element), ARRAY_HEADER + len, 0, &mut [])?;
        // SAFETY: the array's header is part of it.
        unsafe {
            *array.add(LEN) = len as u64;
            *array.add(FIRST) = 0;
        }
        Ok(array)
    }
}
