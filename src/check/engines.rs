//! The interpreter against native code, to the last bit.

use super::report::Engines;
use crate::module::for_engine;
use crate::{CallOptions, Engine, Error, Function, Jit, Value};

/// A function on two engines: one interprets everything, the other compiles all that it can.
pub(super) struct Pair {
    interpreted: Function,
    native: Function,
}

impl Pair {
    /// The same function on engines that have the limits and threads of its own.
    pub(super) fn new(function: &Function) -> Result<Self, Error> {
        let module = function.0.module();
        let on = |jit: Jit| {
            let mut config = module.engine().config().clone();
            config.jit = jit;
            let same = for_engine(module, &Engine::new(config))?.function(function.name());
            let same = Function::new(same.expect("it is the same module"));
            let params = function.interface().params.iter().enumerate();
            let wrt: Vec<&String> = params.filter(|(n, _)| function.is_wrt(*n)).map(|(_, (name, _))| name).collect();
            same.wrt(&wrt)
        };
        Ok(Pair { interpreted: on(Jit::Off)?, native: on(Jit::Always)? })
    }

    /// Whether there is native code, once something has run.
    pub(super) fn has_native_code(&self) -> bool {
        !self.native.compiled().is_empty()
    }

    /// Compares values and gradients.
    pub(super) fn compare(&self, args: &[Value], cotangent: &Value, options: &CallOptions) -> Result<Engines, Error> {
        let run = |function: &Function| {
            let called = function.call_with(args, options)?.0;
            let swept = function.vjp_with(args, cotangent, options)?;
            Ok((called, swept.value, swept.gradient))
        };
        let (interpreted, native) = match (run(&self.interpreted), run(&self.native)) {
            (Ok(interpreted), Ok(native)) => (interpreted, native),
            // Limits of time and memory may be met by one of them.
            (Err(error), _) | (_, Err(error)) if !super::probe::is_passable(&error) => return Err(error),
            (Err(a), Err(b)) if a.to_string() == b.to_string() => return Err(a),
            (Err(error), _) => return Ok(Engines::Differ(format!("interpreted, it ends with: {error}"))),
            (_, Err(error)) => return Ok(Engines::Differ(format!("natively, it ends with: {error}"))),
        };
        if !self.has_native_code() {
            return Ok(Engines::NoNativeCode);
        }
        let params = self.native.interface().params.iter().map(|(name, _)| format!("gradient.{name}"));
        let mut gradients = params.zip(interpreted.2.iter().zip(&native.2));
        let found = difference("value", &interpreted.0, &native.0)
            .or_else(|| difference("value while recording", &interpreted.1, &native.1))
            .or_else(|| gradients.find_map(|(name, (a, b))| difference(&name, a, b)));
        Ok(found.map_or(Engines::Same, Engines::Differ))
    }
}

/// Where two values differ; all NaN are the same.
fn difference(place: &str, a: &Value, b: &Value) -> Option<String> {
    let here = || Some(place.to_owned());
    let is_same = |a: &f64, b: &f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    let parts = |a: &[Value], b: &[Value], open: &str, close: &str| {
        if a.len() != b.len() {
            return here();
        }
        let mut pairs = a.iter().zip(b).enumerate();
        pairs.find_map(|(n, (a, b))| difference(&format!("{place}{open}{n}{close}"), a, b))
    };
    match (a, b) {
        (Value::Real(a), Value::Real(b)) => {
            if is_same(a, b) {
                None
            } else {
                here()
            }
        }
        (Value::Reals(a), Value::Reals(b)) if a.len() == b.len() => {
            let at = a.iter().zip(b).position(|(a, b)| !is_same(a, b));
            at.map(|n| format!("{place}[{n}]"))
        }
        (Value::Tuple(a), Value::Tuple(b)) => parts(a, b, ".", ""),
        (Value::Array(a), Value::Array(b)) => parts(a, b, "[", "]"),
        (Value::Record(a), Value::Record(b)) if a.len() == b.len() => {
            a.iter().zip(b).find_map(|((name, a), (other, b))| match name == other {
                true => difference(&format!("{place}.{name}"), a, b),
                false => here(),
            })
        }
        (Value::Variant(name, a), Value::Variant(other, b)) if name == other => difference(place, a, b),
        _ => {
            if a == b {
                None
            } else {
                here()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_a_place_and_bits_count() {
        let value = |xs: &[f64]| Value::Tuple(vec![Value::Int(1), Value::variant("C", Value::Tuple(vec![xs.into()]))]);
        let compare = |a: &[f64], b: &[f64]| difference("value", &value(a), &value(b));
        assert_eq!(compare(&[1.0, f64::NAN], &[1.0, -f64::NAN]), None);
        assert_eq!(compare(&[1.0, 0.0], &[1.0, -0.0]).as_deref(), Some("value.1.0[1]"));
        assert_eq!(compare(&[1.0, 0.0], &[1.0]).as_deref(), Some("value.1.0"));
        assert_eq!(difference("value", &Value::Int(1), &Value::Int(2)).as_deref(), Some("value"));
    }
}
