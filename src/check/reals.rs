//! The reals of arguments that derivatives are with respect to, in a row, and arguments with others in their place.

use crate::{Function, Value};

/// Arguments, taken apart.
pub(super) struct Reals {
    /// The arguments, with a real wherever one is taken.
    args: Vec<Value>,
    /// Which of them derivatives are with respect to.
    is_wrt: Vec<bool>,
    /// The gradient, for its shape: null stands in it for all that has no derivative.
    gradient: Vec<Value>,
    /// The reals.
    pub(super) xs: Vec<f64>,
}

impl Reals {
    /// The reals of arguments, found by a gradient with respect to them.
    pub(super) fn new(function: &Function, args: &[Value], gradient: &[Value]) -> Self {
        let args: Vec<Value> = args.iter().zip(gradient).map(|(arg, adj)| shaped(arg, adj)).collect();
        let is_wrt: Vec<bool> = (0..args.len()).map(|n| function.is_wrt(n)).collect();
        let wrt = args.iter().zip(&is_wrt).filter(|(_, is_wrt)| **is_wrt);
        let mut xs = Vec::new();
        wrt.for_each(|(arg, _)| collect(arg, &mut xs));
        Reals { args, is_wrt, gradient: gradient.to_vec(), xs }
    }

    /// The arguments with these reals in place of theirs.
    pub(super) fn args_at(&self, xs: &[f64]) -> Vec<Value> {
        let mut xs = xs.iter();
        let each = self.args.iter().zip(&self.is_wrt);
        each.map(|(arg, &is_wrt)| if is_wrt { replaced(arg, &mut xs) } else { arg.clone() }).collect()
    }

    /// Tangents of the arguments.
    pub(super) fn tangents(&self, direction: &[f64]) -> Vec<Value> {
        let mut direction = direction.iter();
        self.gradient.iter().map(|adj| replaced(adj, &mut direction)).collect()
    }

    /// Parameters with the parts of the gradient, which say what is where.
    pub(super) fn named<'a>(&'a self, function: &'a Function) -> impl Iterator<Item = (&'a str, &'a Value)> {
        function.interface().params.iter().map(|(name, _)| name.as_str()).zip(&self.gradient)
    }
}

/// All reals in values, in order.
pub(super) fn flattened(values: &[Value]) -> Vec<f64> {
    let mut xs = Vec::new();
    values.iter().for_each(|value| collect(value, &mut xs));
    xs
}

fn collect(value: &Value, xs: &mut Vec<f64>) {
    match value {
        Value::Real(x) => xs.push(*x),
        Value::Reals(more) => xs.extend_from_slice(more),
        Value::Tuple(parts) | Value::Array(parts) => parts.iter().for_each(|part| collect(part, xs)),
        Value::Record(parts) => parts.iter().for_each(|(_, part)| collect(part, xs)),
        Value::Variant(_, payload) => collect(payload, xs),
        _ => {}
    }
}

/// The argument in the gradient's way to write it: integers that stand for reals become these, and fields are in order.
fn shaped(arg: &Value, adj: &Value) -> Value {
    match (arg, adj) {
        (Value::Int(n), Value::Real(_)) => Value::Real(*n as f64),
        (Value::Array(items), Value::Reals(_)) => {
            let reals = items.iter().map(|item| if let Value::Int(n) = item { *n as f64 } else { real(item) });
            Value::Reals(reals.collect())
        }
        (Value::Tuple(parts), Value::Tuple(adjs)) => Value::Tuple(both(parts, adjs)),
        (Value::Array(parts), Value::Array(adjs)) => Value::Array(both(parts, adjs)),
        (Value::Record(parts), Value::Record(adjs)) => {
            let part = |name: &String| parts.iter().find(|(known, _)| known == name).map(|(_, part)| part);
            let fields = adjs.iter().filter_map(|(name, adj)| Some((name.clone(), shaped(part(name)?, adj))));
            Value::Record(fields.collect())
        }
        (Value::Variant(name, payload), Value::Variant(_, adj)) => Value::variant(name.clone(), shaped(payload, adj)),
        _ => arg.clone(),
    }
}

fn real(value: &Value) -> f64 {
    value.as_real().unwrap_or(f64::NAN)
}

fn both(parts: &[Value], adjs: &[Value]) -> Vec<Value> {
    parts.iter().zip(adjs).map(|(part, adj)| shaped(part, adj)).collect()
}

pub(super) fn replaced(value: &Value, xs: &mut std::slice::Iter<'_, f64>) -> Value {
    let mut next = |x: &f64| xs.next().copied().unwrap_or(*x);
    match value {
        Value::Real(x) => Value::Real(next(x)),
        Value::Reals(reals) => Value::Reals(reals.iter().map(next).collect()),
        Value::Tuple(parts) => Value::Tuple(parts.iter().map(|part| replaced(part, xs)).collect()),
        Value::Array(parts) => Value::Array(parts.iter().map(|part| replaced(part, xs)).collect()),
        Value::Record(parts) => {
            Value::Record(parts.iter().map(|(name, part)| (name.clone(), replaced(part, xs))).collect())
        }
        Value::Variant(name, payload) => Value::variant(name.clone(), replaced(payload, xs)),
        _ => value.clone(),
    }
}
