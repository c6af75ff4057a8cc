//! How values look in text: how many digits their reals have, and how much of long arrays is shown.

use clap::Args;
use dualvm::Value;
use std::borrow::Cow;
use std::io::IsTerminal;

/// Arrays and lists with more elements than this are shortened on a terminal.
const ELEMENTS_MAX: usize = 32;
/// So many elements are shown then at the beginning, and at the end.
const FIRST: usize = 8;
const LAST: usize = 3;

/// How values look in text.
#[derive(Args, Clone, Copy, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct Look {
    /// Round reals in the text to so many significant digits [default: as many as tell them apart]
    #[arg(long, value_name = "DIGITS", value_parser = clap::value_parser!(u8).range(1..=17))]
    precision: Option<u8>,
    /// Show long arrays whole on a terminal, too
    #[arg(long)]
    full: bool,
}

impl Look {
    /// A value as it is to be shown on stdout.
    pub(crate) fn of<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        let shortens = !self.full && std::io::stdout().is_terminal();
        if self.precision.is_none() && !shortens {
            return Cow::Borrowed(value);
        }
        Cow::Owned(self.changed(value, shortens))
    }

    fn changed(&self, value: &Value, shortens: bool) -> Value {
        let real = |x: f64| self.precision.map_or(x, |digits| rounded(x, digits));
        let all = |items: &[Value]| items.iter().map(|item| self.changed(item, shortens)).collect::<Vec<_>>();
        match value {
            Value::Real(x) => Value::Real(real(*x)),
            Value::Reals(xs) if shortens && xs.len() > ELEMENTS_MAX => {
                let reals = |xs: &[f64]| xs.iter().map(|&x| Value::Real(real(x))).collect::<Vec<_>>();
                shortened(xs.len(), reals(&xs[..FIRST]), reals(&xs[xs.len() - LAST..]))
            }
            Value::Reals(xs) => Value::Reals(xs.iter().map(|&x| real(x)).collect()),
            Value::Array(items) if shortens && items.len() > ELEMENTS_MAX => {
                shortened(items.len(), all(&items[..FIRST]), all(&items[items.len() - LAST..]))
            }
            Value::Array(items) => Value::Array(all(items)),
            Value::Tuple(parts) => Value::Tuple(all(parts)),
            Value::Record(fields) => {
                let field = |(name, field): &(String, Value)| (name.clone(), self.changed(field, shortens));
                Value::Record(fields.iter().map(field).collect())
            }
            Value::Variant(name, payload) => Value::variant(name.clone(), self.changed(payload, shortens)),
            other => other.clone(),
        }
    }
}

/// An array with the elements in the middle left out. What stands there looks like a constructor without a payload.
fn shortened(count: usize, mut first: Vec<Value>, last: Vec<Value>) -> Value {
    first.push(Value::variant(format!("… {} more …", count - FIRST - LAST), Value::UNIT));
    first.extend(last);
    Value::Array(first)
}

/// The real with so many significant digits that is nearest.
fn rounded(x: f64, digits: u8) -> f64 {
    format!("{x:.*e}", usize::from(digits) - 1).parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(precision: Option<u8>, shortens: bool, value: &Value) -> String {
        Look { precision, full: false }.changed(value, shortens).to_string()
    }

    #[test]
    fn reals_are_rounded_wherever_they_stand() {
        let value = Value::Tuple(vec![
            Value::Real(2.0 / 3.0),
            Value::Reals(vec![123_456.0, -1e-7 / 3.0, f64::NAN, f64::INFINITY]),
            Value::variant("Circle", Value::Tuple(vec![Value::Real(1.23456)])),
            Value::Record(vec![("n".into(), Value::Int(123_456)), ("x".into(), Value::Real(9.996))]),
        ]);
        let expected = "(0.667, [123000.0, -3.33e-8, nan, inf], Circle 1.23, { n = 123456, x = 10.0 })";
        assert_eq!(shown(Some(3), false, &value), expected);
        assert_eq!(shown(Some(17), false, &Value::Real(0.1)), "0.1");
        assert_eq!(shown(None, false, &value), value.to_string());
    }

    #[test]
    fn long_arrays_are_shortened() {
        let reals = |n: usize| Value::Reals((0..n).map(|i| i as f64).collect());
        assert_eq!(shown(None, true, &reals(32)), reals(32).to_string());
        let expected = "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, … 22 more …, 30.0, 31.0, 32.0]";
        assert_eq!(shown(None, true, &reals(33)), expected);
        let rows = Value::Array(vec![reals(33); 40]);
        let text = shown(None, true, &rows);
        assert_eq!((text.matches("22 more").count(), text.matches("29 more").count()), (11, 1), "{text}");
    }
}
