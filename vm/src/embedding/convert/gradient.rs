//! Adjoints of the arguments' reals, in the shape of the arguments.

use super::row::Row;
use crate::bytecode::isa::Bank;
use crate::bytecode::module::{DataDef, DataId, HostType};
use crate::embedding::engine::Wrt;
use crate::embedding::value::Value;
use crate::running::meter::Account;
use crate::trap::Limit;

/// Reads the adjoints of the arguments' slots, in the order in which [`super::write_arguments`] gave them out. The
/// arguments are those that it accepted.
///
/// # Errors
/// If the run's time is up.
pub(crate) fn read_gradient(
    data: &[DataDef],
    (params, wrt): (&[(String, HostType)], &Wrt),
    args: &[Value],
    adjoints: &[f64],
    account: &Account,
) -> Result<Vec<Value>, Limit> {
    // Slot 0 is that of constants.
    let mut reader = GradientReader { data, adjoints, next: 1, bytes: 0, looked_at: 0, stopped: None, account };
    let mut gradient = Vec::with_capacity(args.len());
    for (n, ((_, ty), value)) in params.iter().zip(args).enumerate() {
        gradient.push(if wrt.has(n) { reader.read(ty, value) } else { Value::Null });
    }
    reader.stopped.map_or(Ok(gradient), Err)
}

struct GradientReader<'a> {
    data: &'a [DataDef],
    adjoints: &'a [f64],
    /// The slot of the next real.
    next: usize,
    /// Bytes of what was read.
    bytes: usize,
    /// The bytes at the last look at the clock.
    looked_at: usize,
    /// Why the reader has stopped: what it reads then is thrown away. No result of its functions, because moving a
    /// value out of one takes as long as all the rest.
    stopped: Option<Limit>,
    account: &'a Account,
}

impl GradientReader<'_> {
    fn read(&mut self, ty: &HostType, value: &Value) -> Value {
        match (ty, value) {
            (HostType::Real, _) => Value::Real(self.reals(1)[0]),
            (HostType::Tuple(types), Value::Tuple(parts)) => self.tuple(types, parts),
            (HostType::Record(types), Value::Record(parts)) => self.record(types, parts),
            (HostType::Array { .. } | HostType::List { .. } | HostType::Tensor { .. }, _) => {
                self.elements(ty.item().expect("it has items"), value)
            }
            (HostType::Data { data, .. }, Value::Variant(name, payload)) => self.variant(*data, name, payload),
            _ => Value::Null,
        }
    }

    /// Whether there is time to go on, and to free everything again if there is none at the end.
    fn goes_on(&mut self) -> bool {
        /// Bytes between two looks at the clock.
        const STRIDE: usize = 1 << 18;
        if self.bytes >= self.looked_at + STRIDE {
            self.looked_at = self.bytes;
            self.stopped = self.stopped.or(self.account.time_to_fill(self.bytes).err());
        }
        self.stopped.is_none()
    }

    fn reals(&mut self, count: usize) -> &[f64] {
        self.next += count;
        &self.adjoints[self.next - count..self.next]
    }

    fn tuple(&mut self, types: &[HostType], parts: &[Value]) -> Value {
        self.bytes += types.len() * size_of::<Value>();
        let mut out = Vec::with_capacity(types.len());
        for (ty, part) in types.iter().zip(parts) {
            out.push(self.read(ty, part));
        }
        Value::Tuple(out)
    }

    fn record(&mut self, types: &[(String, HostType)], parts: &[(String, Value)]) -> Value {
        self.bytes += types.len() * size_of::<(String, Value)>();
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
            Value::Reals(xs) if element.is_real() => self.array_of_reals(xs.len()),
            Value::Array(items) if element.is_real() => self.array_of_reals(items.len()),
            Value::Array(items) if let Some(row) = Row::of(element) => self.rows(&row, items.len()),
            Value::Array(items) => {
                let mut out = Vec::with_capacity(items.len());
                for item in items {
                    self.bytes += size_of::<Value>();
                    if !self.goes_on() {
                        break;
                    }
                    out.push(self.read(element, item));
                }
                Value::Array(out)
            }
            _ => Value::Array(Vec::new()),
        }
    }

    fn rows(&mut self, row: &Row<'_>, len: usize) -> Value {
        let mut out = Vec::with_capacity(len);
        for _ in 0..len {
            self.bytes += size_of::<Value>() + row.bytes;
            if !self.goes_on() {
                break;
            }
            let adjoints = if row.bank == Bank::Real { self.reals(row.width) } else { &[] };
            out.push(row.derivative(adjoints.iter().copied()));
        }
        Value::Array(out)
    }

    fn array_of_reals(&mut self, len: usize) -> Value {
        self.bytes += size_of::<f64>() * len;
        if self.goes_on() { Value::Reals(self.reals(len).to_vec()) } else { Value::Null }
    }

    fn variant(&mut self, data: DataId, name: &str, payload: &Value) -> Value {
        let constructor = self.data[data.index()].variants.iter().find(|(known, _)| known == name);
        self.bytes += name.len() + size_of::<Value>();
        if !self.goes_on() {
            return Value::Null;
        }
        let gradient = match (constructor, payload) {
            (Some((_, HostType::Tuple(types))), Value::Tuple(parts)) => self.tuple(types, parts),
            (Some((_, HostType::Record(types))), Value::Record(parts)) => self.record(types, parts),
            _ => Value::Null,
        };
        Value::variant(name, gradient)
    }
}
