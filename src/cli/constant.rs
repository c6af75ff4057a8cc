//! Arguments that are computed: constant expressions of the language, such as `pi / 4`.

use dualvm::frontend::{Diagnostics, Span, format};
use dualvm::vm::excerpt::SourceTexts;
use dualvm::{
    CallOptions, CompileLimits, CompileOptions, Config, Engine, Error, ErrorKind, HostType, Limits, Module, Trap, Value,
};
use std::time::Duration;

/// The value of a constant expression of a type. Data types of the program are not known in it. `not_literal` is what
/// is wrong with the text as a literal.
///
/// # Errors
/// Why it has none, in words: what is wrong with the expression, or that its evaluation has trapped or takes too long.
pub(crate) fn evaluate(text: &str, ty: &HostType, not_literal: &Diagnostics) -> Result<Value, String> {
    let wrapped = |before: &str, after: &str| Wrapped {
        before: format!("def {NAME} : {ty} = ({before}"),
        text,
        after: format!("{after}\n  )"),
    };
    let as_it_is = wrapped("", "");
    // For an array a list will do, and for a matrix one of its rows, as they do in literals.
    let as_list = match ty {
        HostType::Array { .. } => Some(wrapped("to_array (", ")")),
        HostType::Tensor { .. } if ty.rank() == 2 => Some(wrapped("from_rows (to_array (map to_array (", ")))")),
        _ => None,
    };
    // A text that ends the parentheses around it and opens others is none that stands by itself.
    let by_itself = Wrapped { before: format!("def {NAME} : {ty} = "), text, after: "\n".into() };
    let whole = |value| match format(NAME, &by_itself.program()) {
        Ok(_) => Ok(value),
        Err(errors) => Err(by_itself.errors_in_text(&errors, not_literal).to_string()),
    };
    let refusal = match as_it_is.value() {
        Ok(value) => return whole(value),
        Err(refusal) => refusal,
    };
    let refusal_as_list = match as_list.as_ref().map(Wrapped::value) {
        Some(Ok(value)) => return whole(value),
        Some(Err(refusal)) => Some(refusal),
        None => None,
    };
    if has_data(ty) {
        return Err(not_literal.to_string());
    }
    let is_list = text.starts_with('[') && !text.starts_with("[|");
    let (wrapped, refusal) = match (as_list, refusal_as_list) {
        (Some(as_list), Some(refusal)) if is_list || refusal.is_trap() => (as_list, refusal),
        _ => (as_it_is, refusal),
    };
    Err(match refusal.kind() {
        ErrorKind::Source(errors) if errors.stopped().is_none() => {
            let errors = wrapped.errors_in_text(errors, not_literal);
            // What is neither is meant as what more of it is. What begins with a name is meant as an expression.
            let is_expression = || text.starts_with(char::is_lowercase) || wrapped.is_expression();
            let is_literal = first_place(&errors) <= first_place(not_literal) && !is_expression();
            if is_literal { not_literal.to_string() } else { errors.to_string() }
        }
        ErrorKind::Trap(trap) => wrapped.trap_in_text(trap),
        _ => refusal.to_string(),
    })
}

/// What messages call the text, and the program its value.
const NAME: &str = "argument";

/// A text as a part of a program that computes its value.
struct Wrapped<'a> {
    before: String,
    text: &'a str,
    after: String,
}

impl Wrapped<'_> {
    fn program(&self) -> String {
        let Wrapped { before, text, after } = self;
        format!("{before}{text}{after}")
    }

    fn value(&self) -> Result<Value, Error> {
        run(&self.program())
    }

    fn is_expression(&self) -> bool {
        format(NAME, &self.program()).is_ok()
    }

    /// Errors of the program as those of the text, which others are already about.
    fn errors_in_text(&self, errors: &Diagnostics, of_text: &Diagnostics) -> Diagnostics {
        let (start, len) = (self.before.len() as u32, self.text.len() as u32);
        let is_inside = |span: Span| start <= span.start && span.end <= start + len;
        let inside = |span: Span| {
            let offset = |at: u32| at.saturating_sub(start).min(len);
            Span::new(offset(span.start), offset(span.end))
        };
        of_text.replaced_by(errors.list().iter().cloned().map(|mut error| {
            if error.primary.span.start >= start + len {
                // What comes next is none of the text.
                error.message = error.message.replace("found `)`", "found the end");
            }
            error.secondary.retain(|label| is_inside(label.span));
            let others = error.secondary.iter_mut().map(|label| &mut label.span);
            others.chain([&mut error.primary.span]).for_each(|span| *span = inside(*span));
            error
        }))
    }

    /// A trap with places in the text.
    fn trap_in_text(&self, trap: &Trap) -> String {
        let (mut trap, mut texts) = (trap.clone(), SourceTexts::default());
        texts.insert(NAME, self.text.into());
        let before = self.before.chars().count() as u32;
        let frames = trap.innermost.iter_mut().chain(&mut trap.outermost);
        for place in frames.filter_map(|frame| frame.place.as_mut()).filter(|place| place.line == 1) {
            place.column = place.column.saturating_sub(before).max(1);
        }
        format!("trap: {}", trap.with_sources(&texts))
    }
}

/// The first byte of a text that there is an error at.
fn first_place(errors: &Diagnostics) -> Option<u32> {
    errors.list().first().map(|error| error.primary.span.start)
}

/// Whether there are data types in a type.
pub(crate) fn has_data(ty: &HostType) -> bool {
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
        // What is too large is an error, as it is in the language and in JSON.
        HostType::Real => Some(Value::Real(value)).filter(|_| value.is_finite()),
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
    let module = Module::from_source_with(&engine, NAME, program, &options)?;
    module.function(NAME)?.call_with(&[], &CallOptions::default()).map(|(value, _)| value)
}

/// An argument that takes longer isn't what was meant.
const DEADLINE: Duration = Duration::from_secs(1);
