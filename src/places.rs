//! Where reals stand inside of values: the names that rows of Jacobians and messages have.

use crate::Value;
use crate::vm::module::{DataDef, HostType};
use std::ops::Range;

/// Where each real of a value stands, in order, as in `x[3].width`, if the value is called `name`. Of a gradient, these
/// are the places of all reals that derivatives are with respect to, in the order of the rows of a Hessian.
///
/// ```
/// use dualvm::{Value, places_of_reals};
///
/// let value = Value::Tuple(vec![Value::Int(3), Value::Reals(vec![0.5, 0.7])]);
/// assert_eq!(places_of_reals("x", &value), ["x.1[0]", "x.1[1]"]);
/// ```
pub fn places_of_reals(name: &str, value: &Value) -> Vec<String> {
    let mut places = Vec::new();
    let mut walk = Walk { seen: 0, wanted: |_| true, found: |_, place| places.push(place) };
    walk.value(name, value);
    places
}

/// The places of some of the reals of values with these names, which are counted through from 0.
pub(crate) fn some_places<'a>(values: impl Iterator<Item = (&'a str, &'a Value)>, wanted: &[usize]) -> Vec<String> {
    let mut places = vec![String::new(); wanted.len()];
    let found = |n: usize, place| {
        if let Ok(at) = wanted.binary_search(&n) {
            places[at] = place;
        }
    };
    let mut walk = Walk { seen: 0, wanted: |n| wanted.binary_search(&n).is_ok(), found };
    values.for_each(|(name, value)| walk.value(name, value));
    places
}

/// A way through values. Names are made of those places only that are wanted.
struct Walk<Wanted, Found> {
    seen: usize,
    wanted: Wanted,
    found: Found,
}

impl<Wanted: Fn(usize) -> bool, Found: FnMut(usize, String)> Walk<Wanted, Found> {
    fn value(&mut self, place: &str, value: &Value) {
        match value {
            Value::Real(_) => self.real(|| place.to_owned()),
            Value::Reals(xs) => (0..xs.len()).for_each(|n| self.real(|| format!("{place}[{n}]"))),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(n, item)| self.value(&format!("{place}[{n}]"), item));
            }
            Value::Tuple(parts) => {
                parts.iter().enumerate().for_each(|(n, part)| self.value(&format!("{place}.{n}"), part));
            }
            Value::Record(parts) => {
                parts.iter().for_each(|(name, part)| self.value(&format!("{place}.{name}"), part));
            }
            Value::Variant(_, payload) => self.value(place, payload),
            _ => {}
        }
    }

    fn real(&mut self, place: impl FnOnce() -> String) {
        if (self.wanted)(self.seen) {
            (self.found)(self.seen, place());
        }
        self.seen += 1;
    }
}

/// The places of some of the reals of arguments, which are counted through from 0. Types say what is a real: where one
/// is asked for, an integer is one, too.
pub(crate) fn places_of_arguments<'a>(
    args: impl Iterator<Item = (&'a str, &'a HostType, &'a Value)>,
    data: &[DataDef],
    wanted: Range<usize>,
) -> Vec<String> {
    let (mut places, mut next) = (Vec::new(), 0);
    let mut waiting: Vec<(String, &HostType, &Value)> =
        args.map(|(name, ty, value)| (name.to_owned(), ty, value)).collect();
    waiting.reverse();
    while let Some((place, ty, value)) = waiting.pop().filter(|_| next < wanted.end) {
        let known = waiting.len();
        match (ty, value) {
            (HostType::Real, _) => {
                places.extend(wanted.contains(&next).then_some(place));
                next += 1;
            }
            (_, Value::Reals(xs)) => {
                let first = wanted.start.saturating_sub(next).min(xs.len());
                let end = (wanted.end - next).min(xs.len());
                places.extend((first..end).map(|n| format!("{place}[{n}]")));
                next += xs.len();
            }
            (HostType::Array { .. } | HostType::List { .. } | HostType::Tensor { .. }, Value::Array(items)) => {
                let of_item = ty.item().expect("it has items");
                let item = |(n, item)| (format!("{place}[{n}]"), of_item, item);
                waiting.extend(items.iter().enumerate().map(item));
            }
            (HostType::Tuple(types), Value::Tuple(parts)) => {
                let part = |(n, (ty, part))| (format!("{place}.{n}"), ty, part);
                waiting.extend(types.iter().zip(parts).enumerate().map(part));
            }
            // What a constructor takes may stand without parentheses.
            (HostType::Tuple(types), value) if types.len() == 1 => waiting.push((place, &types[0], value)),
            (HostType::Record(types), Value::Record(parts)) => {
                for (name, ty) in types {
                    let part = parts.iter().find(|(known, _)| known == name);
                    waiting.extend(part.map(|(_, part)| (format!("{place}.{name}"), ty, part)));
                }
            }
            (HostType::Data { data: id, .. }, Value::Variant(name, payload)) => {
                let variants = &data[id.index()].variants;
                let known = variants.iter().find(|(known, _)| known == name);
                waiting.extend(known.map(|(_, ty)| (place, ty, &**payload)));
            }
            _ => {}
        }
        waiting[known..].reverse();
    }
    places
}
