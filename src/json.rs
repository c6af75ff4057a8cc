//! Values as JSON has them, for serializers.

use crate::Value;
use crate::expected::grown;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A value as JSON has it, which [`ArgumentsSeed`](crate::ArgumentsSeed) reads back: tuples, arrays and lists are
/// lists, records are objects, a constructor is its name or an object from its name to what it takes, null stands for
/// what has no derivative.
///
/// ```
/// use dualvm::{Json, Value};
///
/// let circle = Value::Variant("Circle".into(), Box::new(2.5.into()));
/// let value = Value::Tuple(vec![Value::Reals(vec![1.0, f64::NAN]), circle]);
/// assert_eq!(serde_json::to_string(&Json(&value)).unwrap(), r#"[[1.0,"NaN"],{"Circle":2.5}]"#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Json<'a>(pub &'a Value);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Real(x) => JsonReal(*x).serialize(serializer),
            Value::Int(n) => serializer.serialize_i64(*n),
            Value::Bool(b) => serializer.serialize_bool(*b),
            Value::Reals(xs) => serializer.collect_seq(xs.iter().map(|x| JsonReal(*x))),
            Value::Tuple(items) | Value::Array(items) => grown(|| serializer.collect_seq(items.iter().map(Json))),
            Value::Record(fields) => {
                grown(|| serializer.collect_map(fields.iter().map(|(name, value)| (name, Json(value)))))
            }
            Value::Variant(name, payload) => {
                let payload = match &**payload {
                    Value::Tuple(fields) if fields.is_empty() => return serializer.serialize_str(name),
                    Value::Tuple(fields) if fields.len() == 1 => &fields[0],
                    payload => payload,
                };
                grown(|| {
                    let mut map = serializer.serialize_map(Some(1))?;
                    map.serialize_entry(name, &Json(payload))?;
                    map.end()
                })
            }
            _ => serializer.serialize_unit(),
        }
    }
}

/// A real as JSON has it: with the shortest digits that read back as the same number. Those that JSON lacks are the
/// strings `"NaN"`, `"Infinity"` and `"-Infinity"`.
#[derive(Clone, Copy, Debug)]
pub struct JsonReal(pub f64);

impl Serialize for JsonReal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            x if x.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            x => serializer.serialize_f64(x),
        }
    }
}
