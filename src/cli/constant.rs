//! Arguments that are computed: constant expressions of the language, such as `pi / 4`.

use dualvm::{CallOptions, CompileLimits, CompileOptions, Config, Engine, HostType, Limits, Module, Value};
use std::time::Duration;

/// The value of a constant expression of a type; `None` if the text is none, or takes too long. Data types of the
/// program are not known in it.
pub(crate) fn evaluate(text: &str, ty: &HostType) -> Option<Value> {
    if let Some(value) = number(text, ty) {
        return Some(value);
    }
    let written = ty.to_string();
    // For an array a list will do, and for a matrix one of its rows, as they do in literals.
    let as_list = match ty {
        HostType::Array { .. } => Some(format!("to_array ({text})")),
        HostType::Tensor { .. } if ty.rank() == 2 => Some(format!("from_rows (to_array (map to_array ({text})))")),
        _ => None,
    };
    let texts = [Some(text.to_owned()), as_list];
    texts.into_iter().flatten().find_map(|text| run(&format!("def argument : {written} =\n  ({text}\n  )")))
}

/// Numbers in a form that the language doesn't have: `.5`, and `1e6` for an integer.
pub(crate) fn number(text: &str, ty: &HostType) -> Option<Value> {
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    let value: f64 = text.parse().ok().filter(|_| text.chars().all(is_number))?;
    match ty {
        HostType::Real => Some(Value::Real(value)),
        // With a dot it is meant as a real. Up to here every integer is one.
        HostType::Int
            if !text.contains('.') && value.fract() == 0.0 && value.abs() <= (1u64 << f64::MANTISSA_DIGITS) as f64 =>
        {
            Some(Value::Int(value as i64))
        }
        _ => None,
    }
}

fn run(program: &str) -> Option<Value> {
    let limits = CompileLimits { deadline: Some(DEADLINE), ..CompileLimits::untrusted() };
    let mut config = Config::default();
    config.limits = Limits { deadline: Some(DEADLINE), ..Limits::default() };
    let engine = Engine::new(config);
    let options = CompileOptions::with_limits(limits);
    let module = Module::from_source_with(&engine, "argument", program, &options).ok()?;
    module.function("argument").ok()?.call_with(&[], &CallOptions::default()).ok().map(|(value, _)| value)
}

/// An argument that takes longer isn't what was meant.
const DEADLINE: Duration = Duration::from_secs(1);
