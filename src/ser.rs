//! From a host's own types to argument values, with `serde`.
//!
//! The conversion is directed by the parameters' types: what `serde` calls a tuple may be an array of the program, and
//! a host's struct may be a record or a tuple. It builds [`Value`]s and knows nothing of registers.
//!
//! Invariant: a value that comes out is of the type that directed it, so that errors have their place in the host's
//! data.

use crate::vm::module::{DataDef, HostType};
use crate::vm::value::{ArgumentError, VALUE_DEPTH_MAX, Value};
use crate::{Error, ErrorKind};
use serde::ser::{self, Impossible, Serialize};
use std::fmt::Display;

/// Converts all arguments: a tuple or sequence with one entry per parameter, or a struct or map with a field for each.
///
/// # Errors
/// [`ErrorKind::Argument`] with the place of what doesn't fit, or [`ErrorKind::Serialize`].
pub(crate) fn to_arguments<T: Serialize + ?Sized>(
    params: &[(String, HostType)],
    data: &[DataDef],
    args: &T,
) -> Result<Vec<Value>, Error> {
    args.serialize(ArgumentsSerializer { params, inside: Inside { data, steps: 0 } })
}

impl ser::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        ErrorKind::Serialize { place: String::new(), message: message.to_string() }.into()
    }
}

/// Puts `step` before the place of an error.
fn within(step: impl Display, error: Error) -> Error {
    Error::from(match error.into_kind() {
        ErrorKind::Argument(ArgumentError::Shape { place, expected, found }) => {
            ErrorKind::Argument(ArgumentError::Shape { place: format!("{step}{place}"), expected, found })
        }
        ErrorKind::Argument(ArgumentError::Constructor { place, data, constructors, found }) => {
            let place = format!("{step}{place}");
            ErrorKind::Argument(ArgumentError::Constructor { place, data, constructors, found })
        }
        ErrorKind::Argument(ArgumentError::Payload { place, constructor, expected, found }) => {
            let place = format!("{step}{place}");
            ErrorKind::Argument(ArgumentError::Payload { place, constructor, expected, found })
        }
        // The outermost step, which is the last, is the parameter.
        ErrorKind::Argument(ArgumentError::Depth { .. }) => {
            ErrorKind::Argument(ArgumentError::Depth { parameter: step.to_string() })
        }
        ErrorKind::Serialize { place, message } => ErrorKind::Serialize { place: format!("{step}{place}"), message },
        other => other,
    })
}

/// Where a value is: in a module with these data types, and so many parts deep in an argument.
#[derive(Clone, Copy)]
struct Inside<'a> {
    data: &'a [DataDef],
    steps: usize,
}

impl<'a> Inside<'a> {
    /// Serializes a part.
    fn part<T: Serialize + ?Sized>(self, ty: &'a HostType, value: &T) -> Result<Value, Error> {
        if self.steps > VALUE_DEPTH_MAX {
            return Err(ArgumentError::Depth { parameter: String::new() }.into());
        }
        value.serialize(ValueSerializer { ty, inside: Inside { steps: self.steps + 1, ..self } })
    }
}

fn mismatch(expected: &HostType, found: impl Into<String>) -> Error {
    ArgumentError::Shape { place: String::new(), expected: expected.clone(), found: found.into() }.into()
}

/// Serializes one value as a value of this type.
#[derive(Clone, Copy)]
struct ValueSerializer<'a> {
    ty: &'a HostType,
    inside: Inside<'a>,
}

impl<'a> ValueSerializer<'a> {
    fn int(self, n: i64) -> Result<Value, Error> {
        match self.ty {
            HostType::Int => Ok(Value::Int(n)),
            HostType::Real if (n as f64) as i128 == i128::from(n) => Ok(Value::Real(n as f64)),
            HostType::Real => Err(mismatch(self.ty, format!("{n}, which no real is equal to"))),
            _ => Err(mismatch(self.ty, format!("an integer ({n})"))),
        }
    }

    fn elements(self, len: Option<usize>) -> Result<Parts<'a>, Error> {
        // What a host says about a length is a hint: memory is taken as elements come.
        const RESERVED_MAX: usize = 1 << 16;
        let capacity = len.unwrap_or(0).min(RESERVED_MAX);
        match self.ty {
            HostType::Array { element, .. } | HostType::List { element, .. } if **element == HostType::Real => {
                Ok(Parts::Reals(Vec::with_capacity(capacity)))
            }
            HostType::Array { element, .. } | HostType::List { element, .. } => {
                Ok(Parts::Array { element, values: Vec::with_capacity(capacity), inside: self.inside })
            }
            HostType::Tuple(types) => Ok(self.tuple(types)),
            _ => Err(mismatch(self.ty, "a sequence")),
        }
    }

    fn fields(self) -> Result<Fields<'a>, Error> {
        match self.ty {
            HostType::Record(types) => Ok(Fields::Named(self.named(types))),
            HostType::Tuple(types) => Ok(Fields::ByPosition(self.tuple(types))),
            _ => Err(mismatch(self.ty, "a struct")),
        }
    }

    fn tuple(self, types: &'a [HostType]) -> Parts<'a> {
        Parts::Tuple { ty: self.ty, types, values: Vec::with_capacity(types.len()), inside: self.inside }
    }

    fn named(self, types: &'a [(String, HostType)]) -> NamedFields<'a> {
        NamedFields { record: Some(self.ty), types, values: vec![None; types.len()], next: 0, inside: self.inside }
    }

    /// The payload of a constructor of the data type: a serializer for it.
    fn constructor(self, name: &'static str) -> Result<ValueSerializer<'a>, Error> {
        let HostType::Data { data, .. } = self.ty else {
            return Err(mismatch(self.ty, format!("the enum variant `{name}`")));
        };
        let def = &self.inside.data[data.index()];
        match def.variants.iter().find(|(known, _)| known == name) {
            Some((_, ty)) => Ok(ValueSerializer { ty, ..self }),
            None => Err(Error::from(ArgumentError::Constructor {
                place: String::new(),
                data: def.name.clone(),
                constructors: def.variants.iter().map(|(name, _)| name.clone()).collect(),
                found: name.to_owned(),
            })),
        }
    }

    /// Refuses the payload that a host gives to a constructor.
    fn wrong_payload(self, constructor: &str, found: &str) -> Error {
        let (place, constructor) = (String::new(), constructor.to_owned());
        ArgumentError::Payload { place, constructor, expected: self.ty.clone(), found: found.to_owned() }.into()
    }
}

impl<'a> ser::Serializer for ValueSerializer<'a> {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Parts<'a>;
    type SerializeTupleStruct = Parts<'a>;
    type SerializeTupleVariant = Variant<Parts<'a>>;
    type SerializeMap = MapFields<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Variant<NamedFields<'a>>;

    fn serialize_bool(self, b: bool) -> Result<Value, Error> {
        match self.ty {
            HostType::Bool => Ok(Value::Bool(b)),
            _ => Err(mismatch(self.ty, format!("a boolean ({b})"))),
        }
    }

    fn serialize_i8(self, n: i8) -> Result<Value, Error> {
        self.int(n.into())
    }
    fn serialize_i16(self, n: i16) -> Result<Value, Error> {
        self.int(n.into())
    }
    fn serialize_i32(self, n: i32) -> Result<Value, Error> {
        self.int(n.into())
    }
    fn serialize_i64(self, n: i64) -> Result<Value, Error> {
        self.int(n)
    }
    fn serialize_u8(self, n: u8) -> Result<Value, Error> {
        self.int(n.into())
    }
    fn serialize_u16(self, n: u16) -> Result<Value, Error> {
        self.int(n.into())
    }
    fn serialize_u32(self, n: u32) -> Result<Value, Error> {
        self.int(n.into())
    }
    fn serialize_u64(self, n: u64) -> Result<Value, Error> {
        match i64::try_from(n) {
            Ok(n) => self.int(n),
            Err(_) => Err(mismatch(self.ty, format!("{n}, which is more than 2^63 - 1"))),
        }
    }

    fn serialize_f32(self, x: f32) -> Result<Value, Error> {
        self.serialize_f64(x.into())
    }
    fn serialize_f64(self, x: f64) -> Result<Value, Error> {
        match self.ty {
            HostType::Real => Ok(Value::Real(x)),
            _ => Err(mismatch(self.ty, format!("a real ({x:?})"))),
        }
    }

    fn serialize_char(self, _: char) -> Result<Value, Error> {
        Err(mismatch(self.ty, "a character"))
    }
    fn serialize_str(self, _: &str) -> Result<Value, Error> {
        Err(mismatch(self.ty, "a string"))
    }
    fn serialize_bytes(self, _: &[u8]) -> Result<Value, Error> {
        Err(mismatch(self.ty, "bytes"))
    }

    fn serialize_none(self) -> Result<Value, Error> {
        Err(mismatch(self.ty, "none"))
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        match self.ty {
            HostType::Tuple(types) if types.is_empty() => Ok(Value::UNIT),
            _ => Err(mismatch(self.ty, "unit")),
        }
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Error> {
        self.serialize_unit()
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Value, Error> {
        let payload = self.constructor(variant)?;
        match payload.ty {
            HostType::Tuple(types) if types.is_empty() => Ok(Value::variant(variant, Value::UNIT)),
            _ => Err(payload.wrong_payload(variant, "nothing")),
        }
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Value, Error> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        let payload = self.constructor(variant)?;
        let value = match payload.ty {
            HostType::Tuple(types) if types.len() == 1 => {
                let part = payload.inside.part(&types[0], value).map_err(|error| within(".0", error))?;
                Value::Tuple(vec![part])
            }
            ty => payload.inside.part(ty, value)?,
        };
        Ok(Value::variant(variant, value))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Parts<'a>, Error> {
        self.elements(len)
    }
    fn serialize_tuple(self, len: usize) -> Result<Parts<'a>, Error> {
        self.elements(Some(len))
    }
    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Parts<'a>, Error> {
        self.elements(Some(len))
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Variant<Parts<'a>>, Error> {
        let payload = self.constructor(variant)?;
        match payload.ty {
            HostType::Tuple(types) => Ok(Variant { name: variant, parts: payload.tuple(types) }),
            _ => Err(payload.wrong_payload(variant, "a tuple")),
        }
    }

    fn serialize_map(self, _: Option<usize>) -> Result<MapFields<'a>, Error> {
        match self.ty {
            HostType::Record(types) => Ok(MapFields { fields: self.named(types), key: None }),
            _ => Err(mismatch(self.ty, "a map")),
        }
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields<'a>, Error> {
        self.fields()
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Variant<NamedFields<'a>>, Error> {
        let payload = self.constructor(variant)?;
        match payload.ty {
            HostType::Record(types) => Ok(Variant { name: variant, parts: payload.named(types) }),
            _ => Err(payload.wrong_payload(variant, "a struct")),
        }
    }
}

/// Values that come by position.
enum Parts<'a> {
    /// An array or a list of reals, without a [`Value`] for each.
    Reals(Vec<f64>),
    /// An array or a list of anything else.
    Array { element: &'a HostType, values: Vec<Value>, inside: Inside<'a> },
    /// A tuple.
    Tuple { ty: &'a HostType, types: &'a [HostType], values: Vec<Value>, inside: Inside<'a> },
}

impl Parts<'_> {
    #[inline]
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        match self {
            Parts::Reals(xs) => match REALS.part(&HostType::Real, value) {
                Ok(Value::Real(x)) => xs.push(x),
                Ok(other) => return Err(mismatch(&HostType::Real, other.kind())),
                Err(error) => return Err(within(format_args!("[{}]", xs.len()), error)),
            },
            Parts::Array { element, values, inside } => {
                let item = inside.part(element, value);
                values.push(item.map_err(|error| within(format_args!("[{}]", values.len()), error))?);
            }
            Parts::Tuple { ty, types, values, inside } => {
                let Some(part) = types.get(values.len()) else {
                    return Err(mismatch(ty, format!("more than {} parts", types.len())));
                };
                let item = inside.part(part, value);
                values.push(item.map_err(|error| within(format_args!(".{}", values.len()), error))?);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Value, Error> {
        match self {
            Parts::Reals(xs) => Ok(Value::Reals(xs)),
            Parts::Array { values, .. } => Ok(Value::Array(values)),
            Parts::Tuple { types, values, .. } if types.len() == values.len() => Ok(Value::Tuple(values)),
            Parts::Tuple { ty, values, .. } => Err(mismatch(ty, format!("{} parts", values.len()))),
        }
    }
}

impl ser::SerializeSeq for Parts<'_> {
    type Ok = Value;
    type Error = Error;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.push(value)
    }
    fn end(self) -> Result<Value, Error> {
        self.finish()
    }
}

impl ser::SerializeTuple for Parts<'_> {
    type Ok = Value;
    type Error = Error;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.push(value)
    }
    fn end(self) -> Result<Value, Error> {
        self.finish()
    }
}

impl ser::SerializeTupleStruct for Parts<'_> {
    type Ok = Value;
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.push(value)
    }
    fn end(self) -> Result<Value, Error> {
        self.finish()
    }
}

/// Reals have no parts.
const REALS: Inside<'static> = Inside { data: &[], steps: 0 };

/// What a constructor holds, on its way.
struct Variant<P> {
    name: &'static str,
    parts: P,
}

impl ser::SerializeTupleVariant for Variant<Parts<'_>> {
    type Ok = Value;
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.parts.push(value)
    }
    fn end(self) -> Result<Value, Error> {
        self.parts.finish().map(|payload| Value::variant(self.name, payload))
    }
}

impl ser::SerializeStructVariant for Variant<NamedFields<'_>> {
    type Ok = Value;
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.parts.put(name, value)
    }
    fn end(self) -> Result<Value, Error> {
        self.parts.record().map(|payload| Value::variant(self.name, payload))
    }
}

/// Values that come by name, for the fields of a record or for the parameters of a function.
struct NamedFields<'a> {
    /// The record's type; `None` for parameters.
    record: Option<&'a HostType>,
    types: &'a [(String, HostType)],
    values: Vec<Option<Value>>,
    /// Fields mostly come in the order of their declaration: where to look first.
    next: usize,
    inside: Inside<'a>,
}

impl NamedFields<'_> {
    fn refuse(&self, what: String) -> Error {
        match self.record {
            Some(record) => mismatch(record, what),
            None => {
                let names: Vec<&str> = self.types.iter().map(|(name, _)| name.as_str()).collect();
                let message = format!("expected a field for each parameter ({}), found {what}", names.join(", "));
                ErrorKind::Serialize { place: String::new(), message }.into()
            }
        }
    }

    fn put<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        let types = self.types;
        let at = match types.get(self.next) {
            Some((next, _)) if next == name => Some(self.next),
            _ => types.iter().position(|(other, _)| other == name),
        };
        let at = at.ok_or_else(|| self.refuse(format!("a field `{name}`")))?;
        let dot = if self.record.is_some() { "." } else { "" };
        let value = self.inside.part(&types[at].1, value);
        self.values[at] = Some(value.map_err(|error| within(format_args!("{dot}{name}"), error))?);
        self.next = at + 1;
        Ok(())
    }

    /// The values in the order of the declaration.
    fn finish(mut self) -> Result<Vec<Value>, Error> {
        let values = std::mem::take(&mut self.values);
        let named = self.types.iter().zip(values);
        named.map(|((name, _), value)| value.ok_or_else(|| self.refuse(format!("no field `{name}`")))).collect()
    }

    fn record(self) -> Result<Value, Error> {
        let types = self.types;
        let values = self.finish()?;
        Ok(Value::Record(types.iter().map(|(name, _)| name.clone()).zip(values).collect()))
    }
}

/// A struct's fields, as a record or as a tuple.
enum Fields<'a> {
    Named(NamedFields<'a>),
    ByPosition(Parts<'a>),
}

impl ser::SerializeStruct for Fields<'_> {
    type Ok = Value;
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        match self {
            Fields::Named(fields) => fields.put(name, value),
            Fields::ByPosition(parts) => parts.push(value),
        }
    }
    fn end(self) -> Result<Value, Error> {
        match self {
            Fields::Named(fields) => fields.record(),
            Fields::ByPosition(parts) => parts.finish(),
        }
    }
}

/// A map's entries.
struct MapFields<'a> {
    fields: NamedFields<'a>,
    key: Option<String>,
}

impl MapFields<'_> {
    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = Some(key.serialize(KeySerializer)?);
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let key = self.key.take().ok_or_else(|| <Error as ser::Error>::custom("a map's value came before its key"))?;
        self.fields.put(&key, value)
    }
}

impl ser::SerializeMap for MapFields<'_> {
    type Ok = Value;
    type Error = Error;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key(key)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.value(value)
    }
    fn end(self) -> Result<Value, Error> {
        self.fields.record()
    }
}

/// Serializes all arguments.
struct ArgumentsSerializer<'a> {
    params: &'a [(String, HostType)],
    inside: Inside<'a>,
}

impl<'a> ArgumentsSerializer<'a> {
    fn list(self) -> ArgumentList<'a> {
        let Self { params, inside } = self;
        ArgumentList { params, values: Vec::with_capacity(params.len()), found: 0, inside }
    }

    fn named(self) -> ArgumentFields<'a> {
        let Self { params: types, inside } = self;
        let fields = NamedFields { record: None, types, values: vec![None; types.len()], next: 0, inside };
        ArgumentFields(MapFields { fields, key: None })
    }

    fn refuse<T>(self, found: &str) -> Result<T, Error> {
        let message = format!(
            "expected a tuple, a sequence or a struct with one entry per parameter, found {found}; \
             one argument `x` is the tuple `(x,)`"
        );
        Err(ErrorKind::Serialize { place: String::new(), message }.into())
    }
}

macro_rules! refuse_scalars {
    ($($method:ident: $ty:ty, $what:literal;)*) => {
        $(fn $method(self, _: $ty) -> Result<Self::Ok, Self::Error> {
            self.refuse($what)
        })*
    };
}

macro_rules! refuse_variants {
    () => {
        fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<Self::Ok, Error> {
            self.refuse("an enum")
        }
        fn serialize_newtype_variant<T: Serialize + ?Sized>(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: &T,
        ) -> Result<Self::Ok, Error> {
            self.refuse("an enum")
        }
        fn serialize_tuple_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Impossible<Self::Ok, Error>, Error> {
            self.refuse("an enum")
        }
        fn serialize_struct_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Impossible<Self::Ok, Error>, Error> {
            self.refuse("an enum")
        }
    };
}

impl<'a> ser::Serializer for ArgumentsSerializer<'a> {
    type Ok = Vec<Value>;
    type Error = Error;
    type SerializeSeq = ArgumentList<'a>;
    type SerializeTuple = ArgumentList<'a>;
    type SerializeTupleStruct = ArgumentList<'a>;
    type SerializeTupleVariant = Impossible<Vec<Value>, Error>;
    type SerializeMap = ArgumentFields<'a>;
    type SerializeStruct = ArgumentFields<'a>;
    type SerializeStructVariant = Impossible<Vec<Value>, Error>;

    refuse_scalars! {
        serialize_bool: bool, "a boolean";
        serialize_i8: i8, "an integer";
        serialize_i16: i16, "an integer";
        serialize_i32: i32, "an integer";
        serialize_i64: i64, "an integer";
        serialize_u8: u8, "an integer";
        serialize_u16: u16, "an integer";
        serialize_u32: u32, "an integer";
        serialize_u64: u64, "an integer";
        serialize_f32: f32, "a real";
        serialize_f64: f64, "a real";
        serialize_char: char, "a character";
        serialize_str: &str, "a string";
        serialize_bytes: &[u8], "bytes";
    }
    refuse_variants!();

    fn serialize_none(self) -> Result<Vec<Value>, Error> {
        self.refuse("none")
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Vec<Value>, Error> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<Vec<Value>, Error> {
        ser::SerializeSeq::end(self.list())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<Vec<Value>, Error> {
        self.serialize_unit()
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Vec<Value>, Error> {
        value.serialize(self)
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<ArgumentList<'a>, Error> {
        Ok(self.list())
    }
    fn serialize_tuple(self, _: usize) -> Result<ArgumentList<'a>, Error> {
        Ok(self.list())
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<ArgumentList<'a>, Error> {
        Ok(self.list())
    }
    fn serialize_map(self, _: Option<usize>) -> Result<ArgumentFields<'a>, Error> {
        Ok(self.named())
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<ArgumentFields<'a>, Error> {
        Ok(self.named())
    }
}

/// Arguments that come by position.
struct ArgumentList<'a> {
    params: &'a [(String, HostType)],
    values: Vec<Value>,
    found: usize,
    inside: Inside<'a>,
}

impl ArgumentList<'_> {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        // Arguments beyond the last parameter are counted, so that the error can say how many there were.
        if let Some((name, ty)) = self.params.get(self.found) {
            let value = self.inside.part(ty, value);
            self.values.push(value.map_err(|error| within(name, error))?);
        }
        self.found += 1;
        Ok(())
    }

    fn finish(self) -> Result<Vec<Value>, Error> {
        if self.found == self.params.len() {
            return Ok(self.values);
        }
        Err(ArgumentError::Count { expected: self.params.to_vec(), found: self.found }.into())
    }
}

impl ser::SerializeSeq for ArgumentList<'_> {
    type Ok = Vec<Value>;
    type Error = Error;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.push(value)
    }
    fn end(self) -> Result<Vec<Value>, Error> {
        self.finish()
    }
}

impl ser::SerializeTuple for ArgumentList<'_> {
    type Ok = Vec<Value>;
    type Error = Error;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.push(value)
    }
    fn end(self) -> Result<Vec<Value>, Error> {
        self.finish()
    }
}

impl ser::SerializeTupleStruct for ArgumentList<'_> {
    type Ok = Vec<Value>;
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.push(value)
    }
    fn end(self) -> Result<Vec<Value>, Error> {
        self.finish()
    }
}

/// Arguments that come by name.
struct ArgumentFields<'a>(MapFields<'a>);

impl ser::SerializeStruct for ArgumentFields<'_> {
    type Ok = Vec<Value>;
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.0.fields.put(name, value)
    }
    fn end(self) -> Result<Vec<Value>, Error> {
        self.0.fields.finish()
    }
}

impl ser::SerializeMap for ArgumentFields<'_> {
    type Ok = Vec<Value>;
    type Error = Error;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.0.key(key)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.0.value(value)
    }
    fn end(self) -> Result<Vec<Value>, Error> {
        self.0.fields.finish()
    }
}

/// Takes the keys of maps: strings.
struct KeySerializer;

impl KeySerializer {
    fn refuse<T>(self, found: &str) -> Result<T, Error> {
        Err(ser::Error::custom(format_args!("the keys of a map should be strings, found {found}")))
    }
}

impl ser::Serializer for KeySerializer {
    type Ok = String;
    type Error = Error;
    type SerializeSeq = Impossible<String, Error>;
    type SerializeTuple = Impossible<String, Error>;
    type SerializeTupleStruct = Impossible<String, Error>;
    type SerializeTupleVariant = Impossible<String, Error>;
    type SerializeMap = Impossible<String, Error>;
    type SerializeStruct = Impossible<String, Error>;
    type SerializeStructVariant = Impossible<String, Error>;

    refuse_scalars! {
        serialize_bool: bool, "a boolean";
        serialize_i8: i8, "an integer";
        serialize_i16: i16, "an integer";
        serialize_i32: i32, "an integer";
        serialize_i64: i64, "an integer";
        serialize_u8: u8, "an integer";
        serialize_u16: u16, "an integer";
        serialize_u32: u32, "an integer";
        serialize_u64: u64, "an integer";
        serialize_f32: f32, "a real";
        serialize_f64: f64, "a real";
        serialize_bytes: &[u8], "bytes";
    }
    refuse_variants!();

    fn serialize_str(self, key: &str) -> Result<String, Error> {
        Ok(key.to_owned())
    }
    fn serialize_char(self, key: char) -> Result<String, Error> {
        Ok(key.to_string())
    }
    fn serialize_none(self) -> Result<String, Error> {
        self.refuse("none")
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<String, Error> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<String, Error> {
        self.refuse("unit")
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<String, Error> {
        self.refuse("unit")
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<String, Error> {
        value.serialize(self)
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Error> {
        self.refuse("a sequence")
    }
    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Error> {
        self.refuse("a tuple")
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Error> {
        self.refuse("a tuple")
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Error> {
        self.refuse("a map")
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Error> {
        self.refuse("a struct")
    }
}
