//! What a value's reals amount to: gradients that are too large to be read.

use crate::Value;
use crate::places::some_places;
use std::fmt;

/// The reals of a value, summed up. Discrete parts don't count.
///
/// ```
/// use dualvm::{Summary, Value};
///
/// let gradient = Value::Array(vec![vec![3.0, 0.0].into(), vec![f64::NAN, -4.0].into()]);
/// let summary = Summary::of("w", &gradient);
/// assert_eq!((summary.shape.to_string(), summary.reals), ("2 × 2".to_owned(), 4));
/// assert_eq!((summary.zeros, summary.nans, summary.norm), (1, 1, 5.0));
/// assert_eq!(summary.smallest, Some(("w[1][1]".to_owned(), -4.0)));
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// How the reals are arranged.
    pub shape: Shape,
    /// How many reals there are.
    pub reals: usize,
    /// The square root of the sum of their squares, without those that are NaN.
    pub norm: f64,
    /// The smallest real and where it stands, as in `w[3].0`; the first one if there are several. There is none if no
    /// real is a number.
    pub smallest: Option<(String, f64)>,
    /// The largest one.
    pub largest: Option<(String, f64)>,
    /// How many are 0 or -0.
    pub zeros: usize,
    /// How many are NaN.
    pub nans: usize,
    /// How many are infinite.
    pub infinite: usize,
}

/// How the reals of a value are arranged.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Shape {
    /// There are none.
    Nothing,
    /// One real, or arrays or lists in each other that are as long as their neighbours: so many in each dimension.
    Dimensions(Vec<usize>),
    /// Of several types, or of several lengths: so many altogether.
    Mixed(usize),
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Nothing => f.pad("-"),
            Shape::Dimensions(lengths) if lengths.is_empty() => f.pad("real"),
            Shape::Dimensions(lengths) => f.pad(&lengths.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ")),
            Shape::Mixed(count) => f.pad(&format!("{count} in all")),
        }
    }
}

impl Summary {
    /// Sums up a value that is called `name`. Takes time in proportion to its size.
    pub fn of(name: &str, value: &Value) -> Summary {
        let mut walk = Walk::default();
        walk.value(value);
        let Walk { reals, smallest, largest, sum, scale, zeros, nans, infinite } = walk;
        let place = |found: Option<(usize, f64)>| {
            found.map(|(n, x)| (some_places(std::iter::once((name, value)), &[n]).remove(0), x))
        };
        Summary {
            shape: match dimensions(value) {
                _ if reals == 0 => Shape::Nothing,
                Some(lengths) => Shape::Dimensions(lengths),
                None => Shape::Mixed(reals),
            },
            reals,
            norm: if infinite > 0 { f64::INFINITY } else { scale * sum.sqrt() },
            smallest: place(smallest),
            largest: place(largest),
            zeros,
            nans,
            infinite,
        }
    }
}

/// The lengths of arrays in arrays of reals, if all of one level have the same.
fn dimensions(value: &Value) -> Option<Vec<usize>> {
    match value {
        Value::Real(_) => Some(Vec::new()),
        Value::Reals(xs) => Some(vec![xs.len()]),
        Value::Array(items) => {
            let mut inner = items.iter().map(dimensions);
            let mut lengths = inner.next()??;
            if !inner.all(|other| other.as_ref() == Some(&lengths)) {
                return None;
            }
            lengths.insert(0, items.len());
            Some(lengths)
        }
        _ => None,
    }
}

/// What was met so far.
#[derive(Default)]
struct Walk {
    reals: usize,
    smallest: Option<(usize, f64)>,
    largest: Option<(usize, f64)>,
    /// The sum of squares, in units of the largest real's.
    sum: f64,
    scale: f64,
    zeros: usize,
    nans: usize,
    infinite: usize,
}

impl Walk {
    fn value(&mut self, value: &Value) {
        match value {
            Value::Real(x) => self.real(*x),
            Value::Reals(xs) => xs.iter().for_each(|&x| self.real(x)),
            Value::Array(parts) | Value::Tuple(parts) => parts.iter().for_each(|part| self.value(part)),
            Value::Record(parts) => parts.iter().for_each(|(_, part)| self.value(part)),
            Value::Variant(_, payload) => self.value(payload),
            _ => {}
        }
    }

    fn real(&mut self, x: f64) {
        let n = self.reals;
        self.reals += 1;
        if x.is_nan() {
            self.nans += 1;
            return;
        }
        self.zeros += usize::from(x == 0.0);
        if self.smallest.is_none_or(|(_, smallest)| x < smallest) {
            self.smallest = Some((n, x));
        }
        if self.largest.is_none_or(|(_, largest)| x > largest) {
            self.largest = Some((n, x));
        }
        if x.is_infinite() {
            self.infinite += 1;
        } else if x != 0.0 {
            // Squares of large numbers are infinite, and those of small ones nothing.
            if self.scale < x.abs() {
                self.sum = 1.0 + self.sum * (self.scale / x.abs()) * (self.scale / x.abs());
                self.scale = x.abs();
            } else {
                self.sum += (x / self.scale) * (x / self.scale);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: impl Into<Value>) -> Summary {
        Summary::of("x", &value.into())
    }

    #[test]
    fn shapes() {
        let rows = |lengths: &[usize]| Value::Array(lengths.iter().map(|&len| vec![1.0; len].into()).collect());
        for (value, expected) in [
            (Value::Real(1.0), "real"),
            (vec![1.0; 3].into(), "3"),
            (rows(&[2, 2, 2]), "3 × 2"),
            (rows(&[2, 1]), "3 in all"),
            (Value::Array(vec![rows(&[2, 2]), rows(&[2, 2])]), "2 × 2 × 2"),
            (Value::Tuple(vec![1.0.into(), vec![1.0].into()]), "2 in all"),
            (Value::variant("Circle", Value::Tuple(vec![1.0.into()])), "1 in all"),
            (Value::Null, "-"),
            (Value::Reals(vec![]), "-"),
            (Value::Array(vec![]), "-"),
        ] {
            assert_eq!(of(value).shape.to_string(), expected);
        }
    }

    #[test]
    fn numbers_that_are_none_count_apart() {
        let found = of(vec![f64::NAN, -0.0, 2.0, f64::NEG_INFINITY, 0.0, 2.0]);
        assert_eq!((found.nans, found.zeros, found.infinite, found.norm), (1, 2, 1, f64::INFINITY));
        assert_eq!(found.smallest, Some(("x[3]".to_owned(), f64::NEG_INFINITY)));
        assert_eq!(found.largest, Some(("x[2]".to_owned(), 2.0)));
        assert_eq!(of(vec![f64::NAN]).smallest, None);
        assert_eq!((of(Value::Null).norm, of(Value::Null).largest), (0.0, None));
    }

    #[test]
    fn norms_neither_overflow_nor_vanish() {
        let is_close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-15;
        assert!(is_close(of(vec![3e200, -4e200]).norm, 5e200));
        assert!(is_close(of(vec![3e-200, 4e-200, 0.0]).norm, 5e-200));
        assert_eq!(of(vec![0.0, -0.0]).norm, 0.0);
    }
}
