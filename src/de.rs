//! From results and gradients to a host's own types, with `serde`.
//!
//! [`ValueDeserializer`] borrows a [`Value`]; nothing is copied but what the host's type keeps. In a gradient discrete
//! parts are null, and null reads as whatever the host's type asks for: `None`, `()`, `0` or `false`. So one struct
//! type can be an argument and its gradient.

use crate::expected::grown;
use crate::vm::module::HostType;
use crate::vm::value::Value;
use crate::{Error, ErrorKind};
use serde::Deserializer;
use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use std::fmt::Display;

/// Converts a result.
///
/// # Errors
/// [`ErrorKind::Deserialize`] with the place of what doesn't fit.
pub(crate) fn from_result<T: DeserializeOwned>(value: &Value) -> Result<T, Error> {
    T::deserialize(ValueDeserializer(value))
}

/// Converts a gradient, one value per parameter: to a tuple or sequence by position, to a struct or map by name.
///
/// # Errors
/// As [`from_result`].
pub(crate) fn from_gradient<T: DeserializeOwned>(
    params: &[(String, HostType)],
    gradient: &[Value],
) -> Result<T, Error> {
    T::deserialize(GradientDeserializer { params, gradient })
}

impl de::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        ErrorKind::Deserialize { place: String::new(), message: message.to_string() }.into()
    }
}

/// Puts `step` before the place of an error.
fn within(step: impl Display, error: Error) -> Error {
    Error::from(match error.into_kind() {
        ErrorKind::Deserialize { place, message } => {
            ErrorKind::Deserialize { place: format!("{step}{place}"), message }
        }
        other => other,
    })
}

/// Reads one value as what `seed` asks for, with enough stack for one more level.
fn read<'de, T: DeserializeSeed<'de>>(seed: T, value: &Value) -> Result<T::Value, Error> {
    match value {
        Value::Null | Value::Real(_) | Value::Int(_) | Value::Bool(_) => seed.deserialize(ValueDeserializer(value)),
        _ => grown(|| seed.deserialize(ValueDeserializer(value))),
    }
}

/// Deserializes a part of a result.
#[derive(Clone, Copy)]
struct ValueDeserializer<'v>(&'v Value);

impl<'v> ValueDeserializer<'v> {
    fn refuse<'de, V: Visitor<'de>>(self, visitor: &V) -> Error {
        // `serde` would write all of up to 309 digits.
        let real = |x: f64| format!("floating point `{x:?}`");
        let unexpected = match self.0 {
            Value::Null => Unexpected::Other("null"),
            Value::Real(x) => return de::Error::invalid_type(Unexpected::Other(&real(*x)), visitor),
            Value::Int(n) => Unexpected::Signed(*n),
            Value::Bool(b) => Unexpected::Bool(*b),
            value => Unexpected::Other(value.kind()),
        };
        de::Error::invalid_type(unexpected, visitor)
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Real(x) => visitor.visit_f64(*x),
            Value::Int(n) => visitor.visit_i64(*n),
            Value::Null => visitor.visit_i64(0),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn parts<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Reals(xs) => {
                let mut access = Reals(xs.iter().enumerate());
                let value = visitor.visit_seq(&mut access)?;
                finish(value, access.0.len())
            }
            Value::Array(items) => visit_parts(Parts { items: items.iter(), index: 0, array: true }, visitor),
            Value::Tuple(items) => visit_parts(Parts { items: items.iter(), index: 0, array: false }, visitor),
            Value::Record(fields) => {
                let mut access = RecordParts(fields.iter());
                let value = visitor.visit_seq(&mut access)?;
                finish(value, access.0.len())
            }
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn fields<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Record(fields) => {
                let names = fields.iter().map(|(name, value)| (name.as_str(), value));
                visitor.visit_map(Fields { fields: names, current: None, dot: "." })
            }
            Value::Tuple(_) => self.parts(visitor),
            _ => Err(self.refuse(&visitor)),
        }
    }
}

fn visit_parts<'de, V: Visitor<'de>>(mut access: Parts<'_>, visitor: V) -> Result<V::Value, Error> {
    let value = visitor.visit_seq(&mut access)?;
    finish(value, access.items.len())
}

/// Makes sure that a visitor took all parts.
fn finish<T>(value: T, left: usize) -> Result<T, Error> {
    match left {
        0 => Ok(value),
        1 => Err(de::Error::custom("there is 1 part more than the host's type has")),
        left => Err(de::Error::custom(format_args!("there are {left} parts more than the host's type has"))),
    }
}

macro_rules! deserialize_numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.number(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for ValueDeserializer<'_> {
    type Error = Error;

    deserialize_numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Real(_) | Value::Int(_) => self.number(visitor),
            Value::Bool(b) => visitor.visit_bool(*b),
            Value::Tuple(parts) if parts.is_empty() => visitor.visit_unit(),
            Value::Record(_) => self.fields(visitor),
            // As self-describing formats write them.
            Value::Variant(name, payload) if **payload == Value::UNIT => visitor.visit_str(name),
            Value::Variant(name, payload) => {
                let entry = std::iter::once((name.as_str(), written(payload).0));
                visitor.visit_map(Fields { fields: entry, current: None, dot: "." })
            }
            _ => self.parts(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Bool(b) => visitor.visit_bool(*b),
            Value::Null => visitor.visit_bool(false),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Tuple(parts) if parts.is_empty() => visitor.visit_unit(),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.parts(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.parts(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.parts(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.fields(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.fields(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::Variant(name, payload) => visitor.visit_enum(Variant { name, payload }),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! { char str string bytes byte_buf identifier }
}

/// What hosts see as a constructor's payload, and where that stands: its only field, or the whole payload.
fn written(payload: &Value) -> (&Value, &'static str) {
    match payload {
        Value::Tuple(fields) if fields.len() == 1 => (&fields[0], ".0"),
        _ => (payload, ""),
    }
}

/// A value of a data type, as an enum.
struct Variant<'v> {
    name: &'v str,
    payload: &'v Value,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        Ok((seed.deserialize(StrDeserializer::<Error>::new(self.name))?, self))
    }
}

impl Variant<'_> {
    /// Adds the constructor to an error.
    fn refuse(&self, what: &str) -> Error {
        de::Error::custom(format_args!("the host's enum variant `{}` has {what}", self.name))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.payload {
            Value::Tuple(fields) if fields.is_empty() => Ok(()),
            _ => Err(self.refuse("no fields, and the constructor has some")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        let (value, step) = written(self.payload);
        read(seed, value).map_err(|error| within(step, error))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        let (value, step) = written(self.payload);
        ValueDeserializer(value).parts(visitor).map_err(|error| within(step, error))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        let (value, step) = written(self.payload);
        ValueDeserializer(value).fields(visitor).map_err(|error| within(step, error))
    }
}

/// The elements of an array of reals.
struct Reals<'v>(std::iter::Enumerate<std::slice::Iter<'v, f64>>);

impl<'de> SeqAccess<'de> for &mut Reals<'_> {
    type Error = Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((index, &x)) = self.0.next() else { return Ok(None) };
        let value = seed.deserialize(ValueDeserializer(&Value::Real(x)));
        value.map(Some).map_err(|error| within(format_args!("[{index}]"), error))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The parts of any other array, or of a tuple.
struct Parts<'v> {
    items: std::slice::Iter<'v, Value>,
    index: usize,
    array: bool,
}

impl<'de> SeqAccess<'de> for &mut Parts<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let value = read(seed, item).map_err(|error| match self.array {
            true => within(format_args!("[{}]", self.index), error),
            false => within(format_args!(".{}", self.index), error),
        })?;
        self.index += 1;
        Ok(Some(value))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The parts of a record, by position.
struct RecordParts<'v>(std::slice::Iter<'v, (String, Value)>);

impl<'de> SeqAccess<'de> for &mut RecordParts<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((name, value)) = self.0.next() else { return Ok(None) };
        let value = read(seed, value);
        value.map(Some).map_err(|error| within(format_args!(".{name}"), error))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// Named parts, of a record or of a gradient.
struct Fields<'v, I> {
    fields: I,
    current: Option<(&'v str, &'v Value)>,
    dot: &'static str,
}

impl<'de, 'v, I: Iterator<Item = (&'v str, &'v Value)>> MapAccess<'de> for Fields<'v, I> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.current = self.fields.next();
        let Some((name, _)) = self.current else { return Ok(None) };
        seed.deserialize(StrDeserializer::<Error>::new(name)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let (name, value) =
            self.current.ok_or_else(|| <Error as de::Error>::custom("a value was read before its key"))?;
        let dot = self.dot;
        read(seed, value).map_err(|error| within(format_args!("{dot}{name}"), error))
    }
}

/// Deserializes a gradient: like a record of the parameters, or like a tuple of them.
struct GradientDeserializer<'v> {
    params: &'v [(String, HostType)],
    gradient: &'v [Value],
}

impl<'v> GradientDeserializer<'v> {
    fn named(&self) -> impl Iterator<Item = (&'v str, &'v Value)> + use<'v> {
        self.params.iter().map(|(name, _)| name.as_str()).zip(self.gradient)
    }
}

impl<'de> Deserializer<'de> for GradientDeserializer<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut access = Arguments { named: self.named(), left: self.gradient.len() };
        let value = visitor.visit_seq(&mut access)?;
        finish(value, access.left)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { fields: self.named(), current: None, dot: "" })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.gradient {
            [] => visitor.visit_unit(),
            _ => self.deserialize_any(visitor),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf identifier
        unit_struct seq tuple tuple_struct enum
    }
}

/// The entries of a gradient, by position.
struct Arguments<I> {
    named: I,
    left: usize,
}

impl<'de, 'v, I: Iterator<Item = (&'v str, &'v Value)>> SeqAccess<'de> for &mut Arguments<I> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((name, value)) = self.named.next() else { return Ok(None) };
        self.left -= 1;
        read(seed, value).map(Some).map_err(|error| within(name, error))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}
