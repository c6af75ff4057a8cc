//! Reading inputs: JSON objects whose fields are the parameters of a definition.

use super::NoAnswer;
use dualvm::{DataDef, Function, HostType, Value, ValueSeed};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use std::fmt;

/// How often an input wants its function to run.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) min_runs: u64,
    pub(crate) min_seconds: f64,
}

impl Effort {
    const ONCE: Effort = Effort { min_runs: 1, min_seconds: 0.0 };
}

/// The arguments of a function. An input that is no object is the only argument.
pub(super) fn arguments(function: &Function, text: &str) -> Result<(Vec<Value>, Effort), NoAnswer> {
    let params = &function.interface().params;
    if let ([(name, ty)], false) = (&params[..], text.trim_start().starts_with('{')) {
        let mut json = serde_json::Deserializer::from_str(text);
        let argument = ValueSeed::new(name, ty, function.data()).deserialize(&mut json)?;
        return Ok((vec![argument], Effort::ONCE));
    }
    fields(params, function.data(), text)
}

/// The values of the fields of these names and types.
pub(super) fn fields(
    types: &[(String, HostType)],
    data: &[DataDef],
    text: &str,
) -> Result<(Vec<Value>, Effort), NoAnswer> {
    let mut effort = Effort::ONCE;
    let mut json = serde_json::Deserializer::from_str(text);
    let values = Fields { place: "", types, data, effort: Some(&mut effort) }.deserialize(&mut json)?;
    Ok((values, effort))
}

/// Reads an object with these fields. Others are passed over: inputs have fields for people and for other tools. A
/// field that begins with a capital is one that begins with a small letter, as names of the language do.
struct Fields<'a> {
    /// The object, with a dot at the end; empty for the input itself.
    place: &'a str,
    types: &'a [(String, HostType)],
    data: &'a [DataDef],
    /// Where `min_runs` and `min_seconds` go, which only the input itself has.
    effort: Option<&'a mut Effort>,
}

fn is_called(name: &str, key: &str) -> bool {
    let (mut name, mut key) = (name.chars(), key.chars());
    let first = key.next().map(|first| first.to_ascii_lowercase());
    name.next() == first && name.as_str() == key.as_str()
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Vec<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Value>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.types.iter().map(|(name, _)| name.as_str()).collect();
        write!(f, "an object with the fields {}", names.join(", "))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Vec<Value>, A::Error> {
        let mut values: Vec<Option<Value>> = vec![None; self.types.len()];
        while let Some(key) = entries.next_key::<String>()? {
            match (self.types.iter().position(|(name, _)| is_called(name, &key)), key.as_str(), &mut self.effort) {
                (Some(at), ..) => {
                    let place = format!("{}{key}", self.place);
                    values[at] = Some(match &self.types[at].1 {
                        HostType::Record(types) => {
                            let place = format!("{place}.");
                            let fields = Fields { place: &place, types, data: self.data, effort: None };
                            let parts = entries.next_value_seed(fields)?;
                            Value::Record(types.iter().map(|(name, _)| name.clone()).zip(parts).collect())
                        }
                        ty => entries.next_value_seed(ValueSeed::new(&place, ty, self.data))?,
                    });
                }
                (None, "min_runs", Some(effort)) => effort.min_runs = entries.next_value()?,
                (None, "min_seconds", Some(effort)) => effort.min_seconds = entries.next_value()?,
                _ => _ = entries.next_value::<IgnoredAny>()?,
            }
        }
        let named = self.types.iter().zip(values);
        let found = |((name, _), value): (&(String, HostType), Option<Value>)| {
            value.ok_or_else(|| A::Error::custom(format_args!("there is no field `{}{name}`", self.place)))
        };
        named.map(found).collect()
    }
}
