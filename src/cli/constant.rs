//! Arguments that are computed: constant expressions of the language, such as `pi / 4`.

use dualvm::frontend::format;
use dualvm::{CallOptions, CompileLimits, CompileOptions, Config, Engine, Error, HostType, Limits, Module, Value};
use std::time::Duration;

/// The value of a constant expression of a type. Data types of the program are not known in it.
///
/// # Errors
/// Why it has none: what is wrong with the expression, or that its evaluation has trapped or takes too long. `None` if
/// the text is no expression at all, or can't be one of such a type.
pub(crate) fn evaluate(text: &str, ty: &HostType) -> Result<Value, Option<Error>> {
    if let Some(value) = number(text, ty) {
        return Ok(value);
    }
    let written = ty.to_string();
    // For an array a list will do, and for a matrix one of its rows, as they do in literals.
    let as_list = match ty {
        HostType::Array { .. } => Some(format!("to_array ({text})")),
        HostType::Tensor { .. } if ty.rank() == 2 => Some(format!("from_rows (to_array (map to_array ({text})))")),
        _ => None,
    };
    let program = |text: &str| format!("def argument : {written} = ({text}\n  )");
    let refusal = match run(&program(text)) {
        Ok(value) => return Ok(value),
        Err(refusal) => refusal,
    };
    let refusal_as_list = match as_list.map(|list| run(&program(&list))) {
        Some(Ok(value)) => return Ok(value),
        Some(Err(refusal)) => Some(refusal),
        None => None,
    };
    // What begins with a name is meant as an expression, even if it is none.
    let is_expression = || text.starts_with(char::is_lowercase) || format("argument", &program(text)).is_ok();
    if has_data(ty) || !is_expression() {
        return Err(None);
    }
    let is_list = text.starts_with('[') && !text.starts_with("[|");
    Err(Some(refusal_as_list.filter(|error| is_list || error.is_trap()).unwrap_or(refusal)))
}

/// Whether there are data types in a type.
fn has_data(ty: &HostType) -> bool {
    match ty {
        HostType::Data { .. } => true,
        HostType::Tuple(types) => types.iter().any(has_data),
        HostType::Record(fields) => fields.iter().any(|(_, ty)| has_data(ty)),
        _ => ty.item().is_some_and(has_data),
    }
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

fn run(program: &str) -> Result<Value, Error> {
    let limits = CompileLimits { deadline: Some(DEADLINE), ..CompileLimits::untrusted() };
    let mut config = Config::default();
    config.limits = Limits { deadline: Some(DEADLINE), ..Limits::default() };
    let engine = Engine::new(config);
    let options = CompileOptions::with_limits(limits);
    let module = Module::from_source_with(&engine, "argument", program, &options)?;
    module.function("argument")?.call_with(&[], &CallOptions::default()).map(|(value, _)| value)
}

/// An argument that takes longer isn't what was meant.
const DEADLINE: Duration = Duration::from_secs(1);
