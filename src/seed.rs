//! Reading argument values from self-describing formats, directed by the parameters' types.
//!
//! The way for data that comes as text; a host's own types go through `ser`. A value that comes out is of its type.

use crate::expected::{Expected, Payload, grown};
use crate::vm::module::{DataDef, HostType};
use crate::vm::value::{ArgumentError, VALUE_DEPTH_MAX, Value};
use serde::Deserializer;
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use std::fmt::{self, Display};

/// Elements that memory is taken for before they are read: what a format says about lengths is not trusted.
const RESERVED_MAX: usize = 1 << 16;

/// What is said besides of a number beyond the largest and the smallest integer.
const LARGEST: &str = ": the largest `Int` is 9223372036854775807";
const SMALLEST: &str = ": the smallest `Int` is -9223372036854775808";

/// Reads arguments: a list with one per parameter, or a map from the parameters' names, in any order. From
/// [`Function::arguments_seed`](crate::Function::arguments_seed).
///
/// Tuples, arrays and lists are lists, a matrix is the list of its rows, records are maps, unit is null or the empty
/// list. A value of a data type is the constructor's name if that takes nothing, and else a map from the name to what
/// it takes: the value of its only field, a list of several, or a map of fields with names. Integers are accepted for
/// reals, but not reals for integers. Because JSON has no others, the strings `"NaN"`, `"Infinity"` and `"-Infinity"`
/// are reals, too, and so are `"nan"`, `"inf"` and `"-inf"`, as the language writes them. Errors name the place, as in
/// `x[3].1`, and what was expected and found there.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentsSeed<'a> {
    params: &'a [(String, HostType)],
    data: &'a [DataDef],
}

impl<'a> ArgumentsSeed<'a> {
    pub(crate) fn new(params: &'a [(String, HostType)], data: &'a [DataDef]) -> Self {
        ArgumentsSeed { params, data }
    }
}

/// Reads one value of a type, as [`ArgumentsSeed`] reads a list of them.
#[derive(Clone, Copy, Debug)]
pub struct ValueSeed<'a> {
    expected: Expected<'a>,
    place: Place<'a>,
    /// The constructor whose whole payload this is.
    payload: Option<Payload<'a>>,
}

impl<'a> ValueSeed<'a> {
    /// Reads an argument of this type. Errors call it by this name. `data` is the module's table of data types, from
    /// [`Function::data`](crate::Function::data).
    ///
    /// # Panics
    /// When a value is read, if the type refers to a data type that is not in the table.
    pub fn new(name: &'a str, ty: &'a HostType, data: &'a [DataDef]) -> Self {
        ValueSeed { expected: Expected::argument(ty, data), place: Place::Argument(name), payload: None }
    }

    /// Reads a tangent or a cotangent of a value of this type, as [`ValueSeed::new`] reads a value. Null may stand for
    /// any part; whether it has a derivative shows in the call.
    ///
    /// ```
    /// use dualvm::{HostType, Value, ValueSeed};
    /// use serde::de::DeserializeSeed;
    ///
    /// let ty = HostType::Tuple(vec![HostType::Real, HostType::Int]);
    /// let mut json = serde_json::Deserializer::from_str("[0.5, null]");
    /// let tangent = ValueSeed::derivative("p", &ty, &[]).deserialize(&mut json).unwrap();
    /// assert_eq!(tangent, Value::Tuple(vec![Value::Real(0.5), Value::Null]));
    /// ```
    ///
    /// # Panics
    /// As [`ValueSeed::new`].
    pub fn derivative(name: &'a str, ty: &'a HostType, data: &'a [DataDef]) -> Self {
        ValueSeed { expected: Expected::derivative(ty, data), place: Place::Argument(name), payload: None }
    }

    fn part<E: de::Error>(expected: Expected<'a>, ty: &'a HostType, place: Place<'a>) -> Result<Self, E> {
        match expected.part(ty) {
            Some(expected) => Ok(ValueSeed { expected, place, payload: None }),
            None => Err(mismatch(&place, format_args!("at most {VALUE_DEPTH_MAX} levels of nesting"), "more")),
        }
    }

    fn fail<E: de::Error>(&self, found: impl Display) -> E {
        match &self.payload {
            Some(payload) => self.refuse(payload.mismatch(found.to_string())),
            None => mismatch(&self.place, self.expected.ty, found),
        }
    }

    /// Writes an error with this place.
    #[cold]
    fn refuse<E: de::Error>(&self, mut error: ArgumentError) -> E {
        match &mut error {
            ArgumentError::Constructor { place, .. } | ArgumentError::Payload { place, .. } => {
                *place = self.place.to_string();
            }
            ArgumentError::Depth { parameter } => *parameter = self.place.argument().to_owned(),
            _ => {}
        }
        E::custom(error)
    }

    /// The payload of a constructor of the data type that is expected.
    fn constructor<E: de::Error>(&self, name: &str) -> Result<Option<Payload<'a>>, E> {
        let Some(data) = self.expected.data() else { return Ok(None) };
        self.expected.payload(data, name).map(Some).map_err(|error| self.refuse(error))
    }

    /// Reads a constructor and its payload.
    fn variant<'de, A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let Some(name) = entries.next_key::<String>()? else {
            return Err(self.fail("an object without a constructor"));
        };
        let Some(payload) = self.constructor(&name)? else { return Err(self.fail("an object")) };
        let seed = match payload.is_field {
            true => ValueSeed { expected: payload.written, place: Place::Part(&self.place, 0), payload: None },
            false => ValueSeed { expected: payload.written, place: self.place, payload: Some(payload) },
        };
        let written = entries.next_value_seed(seed)?;
        match entries.next_key::<String>()? {
            None => Ok(payload.value(written)),
            Some(other) => Err(self.fail(format_args!("an object with `{name}` and `{other}`"))),
        }
    }
}

/// The reals that JSON has no numbers for, by the names that formats give them and by those of the language.
fn named_real(text: &str) -> Option<f64> {
    match text {
        "NaN" | "nan" => Some(f64::NAN),
        "Infinity" | "inf" => Some(f64::INFINITY),
        "-Infinity" | "-inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// A text that was found, which may be of any length.
struct Quoted<'a>(&'a str);

/// Characters that messages have of a text.
const QUOTED_MAX: usize = 100;

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(QUOTED_MAX) {
            Some((end, _)) => write!(f, "string {:?}…", &self.0[..end]),
            None => Unexpected::Str(self.0).fmt(f),
        }
    }
}

fn mismatch<E: de::Error>(place: &Place<'_>, expected: impl Display, found: impl Display) -> E {
    E::custom(format_args!("argument {place}: expected {expected}, found {found}"))
}

/// Where a value stands. Written out only if there is an error.
#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Argument(&'a str),
    Element(&'a Place<'a>, usize),
    Part(&'a Place<'a>, usize),
    Field(&'a Place<'a>, &'a str),
}

impl<'a> Place<'a> {
    /// The argument in which this is.
    fn argument(&self) -> &'a str {
        match self {
            Place::Argument(name) => name,
            Place::Element(outer, _) | Place::Part(outer, _) | Place::Field(outer, _) => outer.argument(),
        }
    }
}

impl Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Argument(name) => f.write_str(name),
            Place::Element(array, index) => write!(f, "{array}[{index}]"),
            Place::Part(tuple, index) => write!(f, "{tuple}.{index}"),
            Place::Field(record, name) => write!(f, "{record}.{name}"),
        }
    }
}

impl<'de> DeserializeSeed<'de> for ArgumentsSeed<'_> {
    type Value = Vec<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ArgumentsSeed<'_> {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.params.len() == 1 { "" } else { "s" };
        write!(f, "a list of {} argument{plural}, or an object with their names", self.params.len())?;
        for (i, (name, ty)) in self.params.iter().enumerate() {
            write!(f, "{}{name} : {ty}", if i == 0 { " (" } else { ", " })?;
        }
        f.write_str(if self.params.is_empty() { "" } else { ")" })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Value>, A::Error> {
        let mut args = Vec::with_capacity(self.params.len());
        for (name, ty) in self.params {
            match items.next_element_seed(ValueSeed::new(name, ty, self.data))? {
                Some(value) => args.push(value),
                None => {
                    return Err(de::Error::custom(format_args!("expected {}, found {}", Expecting(&self), args.len())));
                }
            }
        }
        let extra = rest(&mut items)?;
        if extra > 0 {
            let found = args.len() + extra;
            return Err(de::Error::custom(format_args!("expected {}, found {found}", Expecting(&self))));
        }
        Ok(args)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Vec<Value>, A::Error> {
        let mut args: Vec<Option<Value>> = vec![None; self.params.len()];
        while let Some(given) = entries.next_key::<String>()? {
            let Some(at) = self.params.iter().position(|(name, _)| *name == given) else {
                return Err(de::Error::custom(format_args!(
                    "there is no parameter `{given}`: expected {}",
                    Expecting(&self)
                )));
            };
            let (name, ty) = &self.params[at];
            let value = entries.next_value_seed(ValueSeed::new(name, ty, self.data))?;
            if args[at].replace(value).is_some() {
                return Err(de::Error::custom(format_args!("the argument `{given}` is there twice")));
            }
        }
        let missing = self.params.iter().zip(&args).filter(|(_, arg)| arg.is_none());
        let missing: Vec<String> = missing.map(|((name, ty), _)| format!("`{name} : {ty}`")).collect();
        match args.into_iter().collect() {
            Some(args) => Ok(args),
            None => Err(de::Error::custom(format_args!("the object has no {}", missing.join(", ")))),
        }
    }
}

/// Shows what a visitor expects.
struct Expecting<'a>(&'a ArgumentsSeed<'a>);

impl Display for Expecting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Visitor::expecting(self.0, f)
    }
}

/// Counts the items that are left.
fn rest<'de, A: SeqAccess<'de>>(items: &mut A) -> Result<usize, A::Error> {
    let mut count = 0;
    while items.next_element::<IgnoredAny>()?.is_some() {
        count += 1;
    }
    Ok(count)
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.expected.is_scalar() {
            return deserializer.deserialize_any(self);
        }
        grown(|| deserializer.deserialize_any(self))
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expected.ty.fmt(f)
    }

    fn visit_bool<E: de::Error>(self, b: bool) -> Result<Value, E> {
        match self.expected.ty {
            HostType::Bool => Ok(Value::Bool(b)),
            _ => Err(self.fail(Unexpected::Bool(b))),
        }
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Value, E> {
        match self.expected.ty {
            HostType::Int => Ok(Value::Int(n)),
            HostType::Real => Ok(Value::Real(n as f64)),
            _ => Err(self.fail(Unexpected::Signed(n))),
        }
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<Value, E> {
        match (self.expected.ty, i64::try_from(n)) {
            (HostType::Real, _) => Ok(Value::Real(n as f64)),
            (HostType::Int, Ok(n)) => Ok(Value::Int(n)),
            (HostType::Int, Err(_)) => Err(self.fail(format_args!("{}{LARGEST}", Unexpected::Unsigned(n)))),
            _ => Err(self.fail(Unexpected::Unsigned(n))),
        }
    }

    fn visit_f64<E: de::Error>(self, x: f64) -> Result<Value, E> {
        match self.expected.ty {
            HostType::Real => Ok(Value::Real(x)),
            // Integers of more than 64 bits come as reals, too.
            HostType::Int if x >= i64::MAX as f64 => Err(self.fail(format_args!("floating point `{x:?}`{LARGEST}"))),
            HostType::Int if x < i64::MIN as f64 => Err(self.fail(format_args!("floating point `{x:?}`{SMALLEST}"))),
            // `serde` would write all of up to 309 digits.
            _ => Err(self.fail(format_args!("floating point `{x:?}`"))),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        if *self.expected.ty == HostType::Real
            && let Some(x) = named_real(text)
        {
            return Ok(Value::Real(x));
        }
        match self.constructor(text)? {
            Some(payload) => payload.constant().map_err(|error| self.refuse(error)),
            None => Err(self.fail(Quoted(text))),
        }
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        match self.expected.ty {
            _ if self.expected.nullable => Ok(Value::Null),
            HostType::Tuple(types) if types.is_empty() => Ok(Value::UNIT),
            _ => Err(self.fail("null")),
        }
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        match self.expected.ty {
            HostType::Array { element, .. } | HostType::List { element, .. } if element.is_real() => {
                let mut xs = Vec::with_capacity(items.size_hint().unwrap_or(0).min(RESERVED_MAX));
                let seed = |index| RealSeed { array: &self.place, index };
                while let Some(x) = items.next_element_seed(seed(xs.len()))? {
                    xs.push(x);
                }
                Ok(Value::Reals(xs))
            }
            HostType::Array { element, .. }
            | HostType::List { element, .. }
            | HostType::Tensor { slice: element, .. } => {
                let mut values = Vec::with_capacity(items.size_hint().unwrap_or(0).min(RESERVED_MAX));
                let seed = |index| ValueSeed::part(self.expected, element, Place::Element(&self.place, index));
                while let Some(value) = items.next_element_seed(seed(values.len())?)? {
                    values.push(value);
                }
                Ok(Value::Array(values))
            }
            HostType::Tuple(types) => {
                let mut values = Vec::with_capacity(types.len());
                for (index, ty) in types.iter().enumerate() {
                    let seed = ValueSeed::part(self.expected, ty, Place::Part(&self.place, index))?;
                    let part = items.next_element_seed(seed)?;
                    values.push(part.ok_or_else(|| self.fail::<A::Error>(format_args!("a list of {index}")))?);
                }
                match rest(&mut items)? {
                    0 => Ok(Value::Tuple(values)),
                    extra => Err(self.fail(format_args!("a list of {}", values.len() + extra))),
                }
            }
            _ => Err(self.fail("a list")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let types = match self.expected.ty {
            HostType::Record(types) => types,
            HostType::Data { .. } => return self.variant(entries),
            _ => return Err(self.fail("an object")),
        };
        let mut values: Vec<Option<Value>> = vec![None; types.len()];
        while let Some(key) = entries.next_key::<String>()? {
            let Some(at) = types.iter().position(|(name, _)| *name == key) else {
                return Err(self.fail(format_args!("an object with the field `{key}`")));
            };
            let place = Place::Field(&self.place, &key);
            let value = entries.next_value_seed(ValueSeed::part(self.expected, &types[at].1, place)?)?;
            if values[at].replace(value).is_some() {
                return Err(self.fail(format_args!("the field `{key}` twice")));
            }
        }
        let field = |((name, _), value): (&(String, HostType), Option<Value>)| match value {
            Some(value) => Ok((name.clone(), value)),
            None => Err(self.fail(format_args!("an object without the field `{name}`"))),
        };
        types.iter().zip(values).map(field).collect::<Result<_, _>>().map(Value::Record)
    }
}

/// Reads one element of an array of reals.
#[derive(Clone, Copy)]
struct RealSeed<'a> {
    array: &'a Place<'a>,
    index: usize,
}

impl RealSeed<'_> {
    fn fail<E: de::Error>(self, found: impl Display) -> E {
        mismatch(&Place::Element(self.array, self.index), HostType::Real, found)
    }
}

impl<'de> DeserializeSeed<'de> for RealSeed<'_> {
    type Value = f64;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<f64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RealSeed<'_> {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Real")
    }
    #[inline]
    fn visit_f64<E: de::Error>(self, x: f64) -> Result<f64, E> {
        Ok(x)
    }
    #[inline]
    fn visit_i64<E: de::Error>(self, n: i64) -> Result<f64, E> {
        Ok(n as f64)
    }
    #[inline]
    fn visit_u64<E: de::Error>(self, n: u64) -> Result<f64, E> {
        Ok(n as f64)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        named_real(text).ok_or_else(|| self.fail(Quoted(text)))
    }
    fn visit_bool<E: de::Error>(self, b: bool) -> Result<f64, E> {
        Err(self.fail(Unexpected::Bool(b)))
    }
    fn visit_unit<E: de::Error>(self) -> Result<f64, E> {
        Err(self.fail(Unexpected::Other("null")))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<f64, A::Error> {
        Err(self.fail(Unexpected::Other("a list")))
    }
    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<f64, A::Error> {
        Err(self.fail(Unexpected::Other("an object")))
    }
}
