//! Adjoints of the arguments' reals, in the shape of the arguments.

use crate::module::{DataDef, DataId, HostType};
use crate::value::Value;

/// Reads the adjoints of the arguments' slots, in the order in which [`super::write_arguments`] gave them out. The
/// arguments are those that it accepted.
pub(crate) fn read_gradient(
    data: &[DataDef],
    params: &[(String, HostType)],
    args: &[Value],
    adjoints: &[f64],
) -> Vec<Value> {
    // Slot 0 is that of constants.
    let mut reader = GradientReader { data, adjoints, next: 1 };
    params.iter().zip(args).map(|((_, ty), value)| reader.read(ty, value)).collect()
}

struct GradientReader<'a> {
    data: &'a [DataDef],
    adjoints: &'a [f64],
    /// The slot of the next real.
    next: usize,
}

impl GradientReader<'_> {
    fn read(&mut self, ty: &HostType, value: &Value) -> Value {
        match (ty, value) {
            (HostType::Real, _) => Value::Real(self.reals(1)[0]),
            (HostType::Tuple(types), Value::Tuple(parts)) => self.tuple(types, parts),
            (HostType::Record(types), Value::Record(parts)) => self.record(types, parts),
            (HostType::Array { element, .. } | HostType::List { element, .. }, _) => self.elements(element, value),
            (HostType::Data { data, .. }, Value::Variant(name, payload)) => self.variant(*data, name, payload),
            _ => Value::Null,
        }
    }

    fn reals(&mut self, count: usize) -> &[f64] {
        self.next += count;
        &self.adjoints[self.next - count..self.next]
    }

    fn tuple(&mut self, types: &[HostType], parts: &[Value]) -> Value {
        let mut out = Vec::with_capacity(types.len());
        for (ty, part) in types.iter().zip(parts) {
            out.push(self.read(ty, part));
        }
        Value::Tuple(out)
    }

    fn record(&mut self, types: &[(String, HostType)], parts: &[(String, Value)]) -> Value {
        let mut out = Vec::with_capacity(types.len());
        for (name, ty) in types {
            let part = parts.iter().find(|(key, _)| key == name).map(|(_, part)| part);
            let part = part.expect("an argument that was accepted has all fields");
            out.push((name.clone(), self.read(ty, part)));
        }
        Value::Record(out)
    }

    fn elements(&mut self, element: &HostType, value: &Value) -> Value {
        match value {
            Value::Reals(xs) if element.is_real() => Value::Reals(self.reals(xs.len()).to_vec()),
            Value::Array(items) if element.is_real() => Value::Reals(self.reals(items.len()).to_vec()),
            Value::Array(items) => {
                let mut out = Vec::with_capacity(items.len());
                for item in items {
                    out.push(self.read(element, item));
                }
                Value::Array(out)
            }
            _ => Value::Array(Vec::new()),
        }
    }

    fn variant(&mut self, data: DataId, name: &str, payload: &Value) -> Value {
        let constructor = self.data[data.index()].variants.iter().find(|(known, _)| known == name);
        let gradient = match (constructor, payload) {
            (Some((_, HostType::Tuple(types))), Value::Tuple(parts)) => self.tuple(types, parts),
            (Some((_, HostType::Record(types))), Value::Record(parts)) => self.record(types, parts),
            _ => Value::Null,
        };
        Value::variant(name, gradient)
    }
}
