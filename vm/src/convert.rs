//! Host values to registers and heap objects, and back.

use crate::heap::{self, ARRAY_HEADER, FIRST, Fields, Heap, LEN, OWNER, Ref};
use crate::interp::{Arguments, Results};
use crate::isa::Bank;
use crate::module::{HostType, ValueType};
use crate::tape::Tape;
use crate::trap::Limit;
use crate::value::{ArgumentError, Value};
use std::fmt::Write;

/// Why arguments could not be written.
pub(crate) enum WriteError {
    Argument(ArgumentError),
    Limit(Limit),
}

impl From<Limit> for WriteError {
    fn from(limit: Limit) -> Self {
        WriteError::Limit(limit)
    }
}

/// Converts arguments to registers. With a tape, every real gets a slot, in the order in which it stands in the
/// arguments; [`read_gradient`] counts along.
pub(crate) fn write_arguments(
    params: &[(String, HostType)],
    values: &[Value],
    to: &mut Arguments,
    heap: &mut Heap,
    tape: Option<&mut Tape>,
) -> Result<(), WriteError> {
    if params.len() != values.len() {
        let error = ArgumentError::Count { expected: params.to_vec(), found: values.len() };
        return Err(WriteError::Argument(error));
    }
    to.reals.clear();
    to.words.clear();
    to.ints.clear();
    to.refs.clear();
    heap.paused = true;
    let mut writer = Writer { heap, tape, place: String::new() };
    let outcome = params.iter().zip(values).try_for_each(|((name, ty), value)| {
        writer.place.clear();
        writer.place.push_str(name);
        writer.write(ty, value, to)
    });
    writer.heap.paused = false;
    outcome
}

struct Writer<'a> {
    heap: &'a mut Heap,
    tape: Option<&'a mut Tape>,
    /// Where the value being written stands.
    place: String,
}

impl Writer<'_> {
    fn mismatch(&self, expected: &HostType, found: String) -> WriteError {
        let place = self.place.clone();
        WriteError::Argument(ArgumentError::Shape { place, expected: expected.clone(), found })
    }

    /// Writes a part of a value whose place is the current one with `suffix`.
    fn part(
        &mut self,
        suffix: std::fmt::Arguments<'_>,
        ty: &HostType,
        value: &Value,
        to: &mut Arguments,
    ) -> Result<(), WriteError> {
        let len = self.place.len();
        let _ = self.place.write_fmt(suffix);
        self.write(ty, value, to)?;
        self.place.truncate(len);
        Ok(())
    }

    fn write(&mut self, ty: &HostType, value: &Value, to: &mut Arguments) -> Result<(), WriteError> {
        match (ty, value) {
            (HostType::Real, Value::Real(x)) => self.real(*x, to)?,
            (HostType::Real, Value::Int(n)) if (*n as f64) as i128 == i128::from(*n) => self.real(*n as f64, to)?,
            (HostType::Int, Value::Int(n)) => to.ints.push(*n),
            (HostType::Bool, Value::Bool(b)) => to.ints.push(i64::from(*b)),
            (HostType::Tuple(types), Value::Tuple(parts)) if types.len() == parts.len() => {
                for (n, (ty, part)) in types.iter().zip(parts).enumerate() {
                    self.part(format_args!(".{n}"), ty, part, to)?;
                }
            }
            (HostType::Record(types), Value::Record(parts)) if types.len() == parts.len() => {
                for (name, ty) in types {
                    let Some((_, part)) = parts.iter().find(|(key, _)| key == name) else {
                        return Err(self.mismatch(ty, format!("no field `{name}`")));
                    };
                    self.part(format_args!(".{name}"), ty, part, to)?;
                }
            }
            (HostType::Array { element, .. }, Value::Reals(xs)) if **element == HostType::Real => {
                let array = self.reals(xs)?;
                to.refs.push(array);
            }
            (HostType::Array { element, .. }, Value::Array(items)) => {
                let array = self.array(element, items)?;
                to.refs.push(array);
            }
            (HostType::Array { element, .. }, Value::Reals(xs)) if xs.is_empty() => {
                let array = self.array(element, &[])?;
                to.refs.push(array);
            }
            _ => {
                let found = match value {
                    Value::Tuple(parts) if !parts.is_empty() => format!("a tuple of {} parts", parts.len()),
                    Value::Real(_) | Value::Int(_) | Value::Bool(_) => format!("{} ({value})", value.kind()),
                    _ => value.kind().to_owned(),
                };
                return Err(self.mismatch(ty, found));
            }
        }
        Ok(())
    }

    fn slots(&mut self, count: usize) -> Result<u32, Limit> {
        self.tape.as_mut().map_or(Ok(0), |tape| tape.reserve_slots(count as u64))
    }

    fn real(&mut self, x: f64, to: &mut Arguments) -> Result<(), Limit> {
        let slot = self.slots(1)?;
        to.reals.push(x);
        to.words.push(u64::from(slot));
        Ok(())
    }

    /// Memory for an array; its elements are to be written.
    fn allocate(&mut self, element: Bank, len: usize) -> Result<Ref, Limit> {
        let array = self.heap.allocate(heap::array_header(element), ARRAY_HEADER + len, 0, &mut [])?;
        // SAFETY: the array's header is part of it.
        unsafe {
            *array.add(LEN) = len as u64;
            *array.add(FIRST) = 0;
        }
        Ok(array)
    }

    fn reals(&mut self, xs: &[f64]) -> Result<Ref, Limit> {
        let first = if xs.is_empty() { 0 } else { self.slots(xs.len())? };
        let array = self.allocate(Bank::Real, xs.len())?;
        // SAFETY: the array has as many elements.
        unsafe {
            array.add(ARRAY_HEADER).cast::<f64>().copy_from_nonoverlapping(xs.as_ptr(), xs.len());
            *array.add(FIRST) = u64::from(first);
            *array.add(OWNER) = u64::from(first != 0);
        }
        Ok(array)
    }

    fn array(&mut self, element: &HostType, items: &[Value]) -> Result<Ref, WriteError> {
        let mut parts = Arguments::default();
        let types = element.flatten();
        let direct = match types.as_slice() {
            [one] => Some(one.bank()),
            _ => None,
        };
        let mut objects = Vec::new();
        for (n, item) in items.iter().enumerate() {
            self.part(format_args!("[{n}]"), element, item, &mut parts)?;
            if direct.is_none() {
                objects.push(self.boxed(&types, &mut parts)?);
            }
        }
        let refs = if direct.is_none() { &objects } else { &parts.refs };
        let array = self.allocate(direct.unwrap_or(Bank::Ref), items.len())?;
        // SAFETY: the array has as many elements as there are items, all of one bank.
        unsafe {
            let to = array.add(ARRAY_HEADER);
            match direct {
                Some(Bank::Real) => {
                    to.cast::<f64>().copy_from_nonoverlapping(parts.reals.as_ptr(), parts.reals.len());
                    *array.add(FIRST) = parts.words.first().copied().unwrap_or(0);
                    *array.add(OWNER) = u64::from(*array.add(FIRST) != 0);
                }
                Some(Bank::Int) => to.cast::<i64>().copy_from_nonoverlapping(parts.ints.as_ptr(), parts.ints.len()),
                _ => {
                    to.cast::<Ref>().copy_from_nonoverlapping(refs.as_ptr(), refs.len());
                    *array.add(OWNER) = u64::from(refs.iter().any(|&object| *object.add(OWNER) != 0));
                }
            }
        }
        Ok(array)
    }

    /// A struct of the registers in `parts`, which is emptied.
    fn boxed(&mut self, types: &[ValueType], parts: &mut Arguments) -> Result<Ref, Limit> {
        let fields = Fields::of(types);
        let object = self.heap.allocate(heap::object_header(fields, 0), fields.size(), 0, &mut [])?;
        // SAFETY: the object has fields for all registers.
        unsafe {
            for (n, (x, word)) in parts.reals.drain(..).zip(parts.words.drain(..)).enumerate() {
                *object.add(fields.real_at(n)).cast::<f64>() = x;
                *object.add(fields.word_at(n)) = word;
                *object.add(OWNER) |= u64::from(word != 0);
            }
            for (n, x) in parts.ints.drain(..).enumerate() {
                *object.add(fields.int_at(n)) = x as u64;
            }
            for (n, x) in parts.refs.drain(..).enumerate() {
                *object.add(fields.ref_at(n)) = x as u64;
                *object.add(OWNER) |= *x.add(OWNER);
            }
        }
        Ok(object)
    }
}

/// Reads a result.
pub(crate) fn read_result(ty: &HostType, results: &Results) -> Value {
    let mut reader = Reader::default();
    reader.read(ty, &Source { reals: &results.reals, ints: &results.ints, refs: &results.refs })
}

/// Registers or fields that a value is read from.
struct Source<'a> {
    reals: &'a [f64],
    ints: &'a [i64],
    refs: &'a [Ref],
}

/// How many registers of each bank were read.
#[derive(Default)]
struct Reader {
    reals: usize,
    ints: usize,
    refs: usize,
}

impl Reader {
    fn read(&mut self, ty: &HostType, from: &Source<'_>) -> Value {
        match ty {
            HostType::Real => {
                self.reals += 1;
                Value::Real(from.reals[self.reals - 1])
            }
            HostType::Int => Value::Int(self.int(from)),
            HostType::Bool => Value::Bool(self.int(from) != 0),
            HostType::Tuple(types) => Value::Tuple(types.iter().map(|ty| self.read(ty, from)).collect()),
            HostType::Record(types) => {
                Value::Record(types.iter().map(|(name, ty)| (name.clone(), self.read(ty, from))).collect())
            }
            HostType::Array { element, .. } => {
                self.refs += 1;
                // SAFETY: the reference leads to a complete array of the heap, which the verified type says.
                unsafe { read_array(element, from.refs[self.refs - 1]) }
            }
        }
    }

    fn int(&mut self, from: &Source<'_>) -> i64 {
        self.ints += 1;
        from.ints[self.ints - 1]
    }
}

/// # Safety
/// `array` is a complete array of elements of this type.
unsafe fn read_array(element: &HostType, array: Ref) -> Value {
    // SAFETY: promised by the caller; elements are stored as `HostType::Array` says.
    unsafe {
        let len = *array.add(LEN) as usize;
        let elements = array.add(ARRAY_HEADER);
        if *element == HostType::Real {
            return Value::Reals(std::slice::from_raw_parts(elements.cast(), len).to_vec());
        }
        let types = element.flatten();
        let fields = Fields::of(&types);
        let read = |n: usize| {
            let cell = elements.add(n);
            let source = if types.len() == 1 {
                Source {
                    reals: std::slice::from_raw_parts(cell.cast(), fields.reals),
                    ints: std::slice::from_raw_parts(cell.cast(), fields.ints),
                    refs: std::slice::from_raw_parts(cell.cast(), fields.refs),
                }
            } else {
                let object = *cell as Ref;
                Source {
                    reals: std::slice::from_raw_parts(object.add(fields.real_at(0)).cast(), fields.reals),
                    ints: std::slice::from_raw_parts(object.add(fields.int_at(0)).cast(), fields.ints),
                    refs: std::slice::from_raw_parts(object.add(fields.ref_at(0)).cast(), fields.refs),
                }
            };
            Reader::default().read(element, &source)
        };
        Value::Array((0..len).map(read).collect())
    }
}

/// Reads the adjoints of the arguments' slots, in the order in which [`write_arguments`] gave them out.
pub(crate) fn read_gradient(params: &[(String, HostType)], args: &[Value], adjoints: &[f64]) -> Vec<Value> {
    let mut next = 1;
    params.iter().zip(args).map(|((_, ty), value)| gradient_of(ty, value, adjoints, &mut next)).collect()
}

fn gradient_of(ty: &HostType, value: &Value, adjoints: &[f64], next: &mut usize) -> Value {
    match (ty, value) {
        (HostType::Real, _) => {
            *next += 1;
            Value::Real(adjoints[*next - 1])
        }
        (HostType::Tuple(types), Value::Tuple(parts)) => {
            Value::Tuple(types.iter().zip(parts).map(|(ty, part)| gradient_of(ty, part, adjoints, next)).collect())
        }
        (HostType::Record(types), Value::Record(parts)) => {
            let field = |(name, ty): &(String, HostType)| {
                let part = parts.iter().find(|(key, _)| key == name).map_or(&Value::Null, |(_, part)| part);
                (name.clone(), gradient_of(ty, part, adjoints, next))
            };
            Value::Record(types.iter().map(field).collect())
        }
        (HostType::Array { element, .. }, _) if **element == HostType::Real => {
            let len = match value {
                Value::Reals(xs) => xs.len(),
                Value::Array(items) => items.len(),
                _ => 0,
            };
            *next += len;
            Value::Reals(adjoints[*next - len..*next].to_vec())
        }
        (HostType::Array { element, .. }, Value::Array(items)) => {
            Value::Array(items.iter().map(|item| gradient_of(element, item, adjoints, next)).collect())
        }
        (HostType::Array { .. }, _) => Value::Array(Vec::new()),
        _ => Value::Null,
    }
}
