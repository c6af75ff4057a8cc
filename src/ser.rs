//! From a host's own types to argument values, with `serde`.
//!
//! The conversion is directed by the parameters' types: what `serde` calls a tuple may be an array of the program, and
//! a host's struct may be a record or a tuple. It builds [`Value`]s and knows nothing of registers.
//!
//! Invariant: a value that comes out is of the type that directed it, so that errors have their place in the host's
//! data.

use crate::expected::{Expected, Payload, grown};
use crate::vm::module::{DataDef, HostType};
use crate::vm::value::{ArgumentError, Value};
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
    args.serialize(ArgumentsSerializer { params, data })
}

impl ser::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        ErrorKind::Serialize { place: String::new(), message: message.to_string() }.into()
    }
}

/// Puts `step` before the place of an error.
fn within(step: impl Display, error: Error) -> Error {
    let mut kind = error.into_kind();
    match &mut kind {
        ErrorKind::Argument(
            ArgumentError::Shape { place, .. }
            | ArgumentError::Constructor { place, .. }
            | ArgumentError::Payload { place, .. },
        )
        | ErrorKind::Serialize { place, .. } => *place = format!("{step}{place}"),
        _ => {}
    }
    kind.into()
}

/// [`within`], where the step is an argument's name.
fn within_argument(name: &str, error: Error) -> Error {
    match error.into_kind() {
        ErrorKind::Argument(ArgumentError::Depth { .. }) => ArgumentError::Depth { parameter: name.to_owned() }.into(),
        kind => within(name, kind.into()),
    }
}

/// Serializes one value as what is expected.
fn convert<T: Serialize + ?Sized>(value: &T, expected: Expected<'_>) -> Result<Value, Error> {
    if expected.is_scalar() {
        return value.serialize(ValueSerializer(expected));
    }
    grown(|| value.serialize(ValueSerializer(expected)))
}

fn mismatch(expected: &HostType, found: impl Into<String>) -> Error {
    ArgumentError::Shape { place: String::new(), expected: expected.clone(), found: found.into() }.into()
}

/// Serializes one value as what is expected.
#[derive(Clone, Copy)]
struct ValueSerializer<'a>(Expected<'a>);

impl<'a> ValueSerializer<'a> {
    fn int(self, n: i64) -> Result<Value, Error> {
        match self.0.ty {
            HostType::Int => Ok(Value::Int(n)),
            HostType::Real if (n as f64) as i128 == i128::from(n) => Ok(Value::Real(n as f64)),
            HostType::Real => Err(mismatch(self.0.ty, format!("{n}, which no real is equal to"))),
            _ => Err(mismatch(self.0.ty, format!("an integer ({n})"))),
        }
    }

    fn elements(self, len: Option<usize>) -> Result<Parts<'a>, Error> {
        // What a host says about a length is a hint: memory is taken as elements come.
        const RESERVED_MAX: usize = 1 << 16;
        let capacity = len.unwrap_or(0).min(RESERVED_MAX);
        match self.0.ty {
            HostType::Array { element, .. } | HostType::List { element, .. } if element.is_real() => {
                Ok(Parts::Reals(Vec::with_capacity(capacity)))
            }
            HostType::Array { element, .. }
            | HostType::List { element, .. }
            | HostType::Tensor { slice: element, .. } => {
                Ok(Parts::Array(self.0.checked_part(element)?, Vec::with_capacity(capacity)))
            }
            HostType::Tuple(types) => {
                Ok(Parts::Tuple { tuple: self.0, types, values: Vec::with_capacity(types.len()) })
            }
            _ => Err(mismatch(self.0.ty, "a sequence")),
        }
    }

    fn fields(self) -> Result<Fields<'a>, Error> {
        match self.0.ty {
            HostType::Record(types) => Ok(Fields::Named(NamedFields::new(self.0, types))),
            HostType::Tuple(types) => Ok(Fields::ByPosition(Parts::Tuple { tuple: self.0, types, values: Vec::new() })),
            _ => Err(mismatch(self.0.ty, "a struct")),
        }
    }

    /// The payload of an enum variant.
    fn payload(self, variant: &str) -> Result<Payload<'a>, Error> {
        match self.0.data() {
            Some(data) => Ok(self.0.payload(data, variant)?),
            None => Err(mismatch(self.0.ty, format!("the enum variant `{variant}`"))),
        }
    }
}

/// Serializes a payload in one piece.
fn convert_payload<T: Serialize + ?Sized>(payload: Payload<'_>, value: &T) -> Result<Value, Error> {
    Ok(payload.value(convert(value, payload.written).map_err(|error| in_payload(payload, error))?))
}

/// The error of a payload's content: with the place of the payload's only field, or in the payload's own words.
fn in_payload(payload: Payload<'_>, error: Error) -> Error {
    if payload.is_field {
        return within(".0", error);
    }
    match error.into_kind() {
        ErrorKind::Argument(ArgumentError::Shape { place, found, .. }) if place.is_empty() => {
            payload.mismatch(found).into()
        }
        kind => kind.into(),
    }
}

/// A tuple variant or a struct variant.
struct VariantParts<'a, P> {
    payload: Payload<'a>,
    parts: P,
}

impl<'a, P> VariantParts<'a, P> {
    fn new(payload: Payload<'a>, parts: Result<P, Error>) -> Result<Self, Error> {
        let parts = parts.map_err(|error| in_payload(payload, error))?;
        Ok(VariantParts { payload, parts })
    }

    fn put(&mut self, put: impl FnOnce(&mut P) -> Result<(), Error>) -> Result<(), Error> {
        put(&mut self.parts).map_err(|error| in_payload(self.payload, error))
    }

    fn finish(self, finish: impl FnOnce(P) -> Result<Value, Error>) -> Result<Value, Error> {
        let written = finish(self.parts).map_err(|error| in_payload(self.payload, error))?;
        Ok(self.payload.value(written))
    }
}

impl ser::SerializeTupleVariant for VariantParts<'_, Parts<'_>> {
    type Ok = Value;
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.put(|parts| parts.push(value))
    }
    fn end(self) -> Result<Value, Error> {
        self.finish(Parts::finish)
    }
}

impl ser::SerializeStructVariant for VariantParts<'_, Fields<'_>> {
    type Ok = Value;
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.put(|fields| ser::SerializeStruct::serialize_field(fields, name, value))
    }
    fn end(self) -> Result<Value, Error> {
        self.finish(ser::SerializeStruct::end)
    }
}

impl<'a> ser::Serializer for ValueSerializer<'a> {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Parts<'a>;
    type SerializeTupleStruct = Parts<'a>;
    type SerializeTupleVariant = VariantParts<'a, Parts<'a>>;
    type SerializeMap = Entries<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = VariantParts<'a, Fields<'a>>;

    fn serialize_bool(self, b: bool) -> Result<Value, Error> {
        match self.0.ty {
            HostType::Bool => Ok(Value::Bool(b)),
            _ => Err(mismatch(self.0.ty, format!("a boolean ({b})"))),
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
            Err(_) => Err(mismatch(self.0.ty, format!("{n}, which is more than 2^63 - 1"))),
        }
    }

    fn serialize_f32(self, x: f32) -> Result<Value, Error> {
        self.serialize_f64(x.into())
    }
    fn serialize_f64(self, x: f64) -> Result<Value, Error> {
        match self.0.ty {
            HostType::Real => Ok(Value::Real(x)),
            _ => Err(mismatch(self.0.ty, format!("a real ({x:?})"))),
        }
    }

    fn serialize_char(self, _: char) -> Result<Value, Error> {
        Err(mismatch(self.0.ty, "a character"))
    }
    fn serialize_str(self, text: &str) -> Result<Value, Error> {
        match self.0.data() {
            // As self-describing formats write constants.
            Some(_) => Ok(self.payload(text)?.constant()?),
            None => Err(mismatch(self.0.ty, "a string")),
        }
    }
    fn serialize_bytes(self, _: &[u8]) -> Result<Value, Error> {
        Err(mismatch(self.0.ty, "bytes"))
    }

    fn serialize_none(self) -> Result<Value, Error> {
        Err(mismatch(self.0.ty, "none"))
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        match self.0.ty {
            HostType::Tuple(types) if types.is_empty() => Ok(Value::UNIT),
            _ => Err(mismatch(self.0.ty, "unit")),
        }
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Error> {
        self.serialize_unit()
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Value, Error> {
        Ok(self.payload(variant)?.constant()?)
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
        convert_payload(self.payload(variant)?, value)
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
        len: usize,
    ) -> Result<VariantParts<'a, Parts<'a>>, Error> {
        let payload = self.payload(variant)?;
        VariantParts::new(payload, ValueSerializer(payload.written).elements(Some(len)))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries<'a>, Error> {
        match self.0.ty {
            HostType::Record(types) => {
                Ok(Entries::Record(MapFields { fields: NamedFields::new(self.0, types), key: None }))
            }
            HostType::Data { .. } => Ok(Entries::Variant { data: self, key: None, value: None }),
            _ => Err(mismatch(self.0.ty, "a map")),
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
    ) -> Result<VariantParts<'a, Fields<'a>>, Error> {
        let payload = self.payload(variant)?;
        VariantParts::new(payload, ValueSerializer(payload.written).fields())
    }
}

/// Values that come by position.
enum Parts<'a> {
    /// An array of reals, without a [`Value`] for each.
    Reals(Vec<f64>),
    /// An array of anything else.
    Array(Expected<'a>, Vec<Value>),
    /// A tuple.
    Tuple { tuple: Expected<'a>, types: &'a [HostType], values: Vec<Value> },
}

impl Parts<'_> {
    #[inline]
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        match self {
            Parts::Reals(xs) => match value.serialize(ValueSerializer(Expected::argument(&HostType::Real, &[]))) {
                Ok(Value::Real(x)) => xs.push(x),
                Ok(other) => return Err(mismatch(&HostType::Real, other.kind())),
                Err(error) => return Err(within(format_args!("[{}]", xs.len()), error)),
            },
            Parts::Array(element, values) => {
                let item = convert(value, *element);
                values.push(item.map_err(|error| within(format_args!("[{}]", values.len()), error))?);
            }
            Parts::Tuple { tuple, types, values } => {
                let Some(part) = types.get(values.len()) else {
                    return Err(mismatch(tuple.ty, format!("more than {} parts", types.len())));
                };
                let item = convert(value, tuple.checked_part(part)?);
                values.push(item.map_err(|error| within(format_args!(".{}", values.len()), error))?);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Value, Error> {
        match self {
            Parts::Reals(xs) => Ok(Value::Reals(xs)),
            Parts::Array(_, values) => Ok(Value::Array(values)),
            Parts::Tuple { types, values, .. } if types.len() == values.len() => Ok(Value::Tuple(values)),
            Parts::Tuple { tuple, values, .. } => Err(mismatch(tuple.ty, format!("{} parts", values.len()))),
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

/// Values that come by name, for the fields of a record or for the parameters of a function.
struct NamedFields<'a> {
    /// The record's type; `None` for parameters.
    record: Option<Expected<'a>>,
    data: &'a [DataDef],
    types: &'a [(String, HostType)],
    values: Vec<Option<Value>>,
    /// Fields mostly come in the order of their declaration: where to look first.
    next: usize,
}

impl<'a> NamedFields<'a> {
    fn new(record: Expected<'a>, types: &'a [(String, HostType)]) -> Self {
        NamedFields { record: Some(record), data: &[], types, values: vec![None; types.len()], next: 0 }
    }

    fn refuse(&self, what: String) -> Error {
        match self.record {
            Some(record) => mismatch(record.ty, what),
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
        let ty = &types[at].1;
        let value = match self.record {
            Some(record) => {
                convert(value, record.checked_part(ty)?).map_err(|error| within(format_args!(".{name}"), error))
            }
            None => {
                let expected = Expected::argument(ty, self.data);
                convert(value, expected).map_err(|error| within_argument(name, error))
            }
        };
        self.values[at] = Some(value?);
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

fn value_before_key() -> Error {
    ser::Error::custom("a map's value came before its key")
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
        let key = self.key.take().ok_or_else(value_before_key)?;
        self.fields.put(&key, value)
    }
}

/// A map as a record, or as a constructor with its payload.
enum Entries<'a> {
    Record(MapFields<'a>),
    Variant { data: ValueSerializer<'a>, key: Option<String>, value: Option<Value> },
}

impl ser::SerializeMap for Entries<'_> {
    type Ok = Value;
    type Error = Error;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        match self {
            Entries::Record(fields) => fields.key(key),
            Entries::Variant { data, value: Some(_), .. } => Err(mismatch(data.0.ty, "a map of more than one entry")),
            Entries::Variant { key: constructor, .. } => {
                *constructor = Some(key.serialize(KeySerializer)?);
                Ok(())
            }
        }
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        match self {
            Entries::Record(fields) => fields.value(value),
            Entries::Variant { data, key, value: converted } => {
                let key = key.take().ok_or_else(value_before_key)?;
                *converted = Some(convert_payload(data.payload(&key)?, value)?);
                Ok(())
            }
        }
    }
    fn end(self) -> Result<Value, Error> {
        match self {
            Entries::Record(fields) => fields.fields.record(),
            Entries::Variant { data, value, .. } => value.ok_or_else(|| mismatch(data.0.ty, "an empty map")),
        }
    }
}

/// Serializes all arguments.
#[derive(Clone, Copy)]
struct ArgumentsSerializer<'a> {
    params: &'a [(String, HostType)],
    data: &'a [DataDef],
}

impl<'a> ArgumentsSerializer<'a> {
    fn list(self) -> ArgumentList<'a> {
        ArgumentList { expected: self, values: Vec::with_capacity(self.params.len()), found: 0 }
    }

    fn named(self) -> ArgumentFields<'a> {
        let values = vec![None; self.params.len()];
        let fields = NamedFields { record: None, data: self.data, types: self.params, values, next: 0 };
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
    expected: ArgumentsSerializer<'a>,
    values: Vec<Value>,
    found: usize,
}

impl ArgumentList<'_> {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        // Arguments beyond the last parameter are counted, so that the error can say how many there were.
        if let Some((name, ty)) = self.expected.params.get(self.found) {
            let value = convert(value, Expected::argument(ty, self.expected.data));
            self.values.push(value.map_err(|error| within_argument(name, error))?);
        }
        self.found += 1;
        Ok(())
    }

    fn finish(self) -> Result<Vec<Value>, Error> {
        if self.found == self.expected.params.len() {
            return Ok(self.values);
        }
        Err(ArgumentError::Count { expected: self.expected.params.to_vec(), found: self.found }.into())
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
