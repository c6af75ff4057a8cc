//! Values in expectations: the language's literals, which [`Value`]'s display writes, and `null` for what has no
//! derivative.

use crate::support::same;
use dualvm_vm::value::Value;

/// How deep a literal may nest.
const DEPTH_MAX: usize = 100;

/// A function's name and its arguments.
pub(crate) struct Call {
    pub(crate) function: String,
    pub(crate) args: Vec<Value>,
}

/// Reads `f(1, [2.0]) == rest`. Gives the call, and the byte at which `rest` begins.
pub(crate) fn call(text: &str) -> Result<(Call, usize), String> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let function = reader.word().ok_or_else(|| reader.expected("the name of a function"))?.to_owned();
    reader.mark("(")?;
    let args = reader.list(")", Reader::value)?;
    reader.mark("==")?;
    Ok((Call { function, args }, reader.at))
}

/// Reads a value, and nothing after it.
pub(crate) fn value(text: &str) -> Result<Value, String> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.value()?;
    if reader.rest().is_empty() { Ok(value) } else { Err(reader.expected("the end")) }
}

/// Whether a value is what is written: reals by their bits, all NaN are one, and an integer stands for a real.
pub(crate) fn matches(written: &Value, found: &Value) -> bool {
    let all = |written: &[Value], found: &[Value]| {
        written.len() == found.len() && written.iter().zip(found).all(|(written, found)| matches(written, found))
    };
    match (written, found) {
        (Value::Real(written), Value::Real(found)) => same(*written, *found),
        (Value::Int(written), Value::Real(found)) => same(*written as f64, *found),
        (Value::Reals(_) | Value::Array(_), Value::Reals(_) | Value::Array(_)) => {
            all(&elements(written), &elements(found))
        }
        (Value::Tuple(written), Value::Tuple(found)) => all(written, found),
        (Value::Record(written), Value::Record(found)) => {
            let pairs = || written.iter().zip(found);
            written.len() == found.len() && pairs().all(|((a, x), (b, y))| a == b && matches(x, y))
        }
        (Value::Variant(a, x), Value::Variant(b, y)) => a == b && matches(x, y),
        _ => written == found,
    }
}

fn elements(array: &Value) -> Vec<Value> {
    match array {
        Value::Reals(xs) => xs.iter().map(|&x| Value::Real(x)).collect(),
        Value::Array(elements) => elements.clone(),
        other => panic!("expected an array, found {other:?}"),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    /// What is left, without white space before it.
    fn rest(&mut self) -> &'t str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    fn expected(&mut self, what: &str) -> String {
        match self.rest() {
            "" => format!("expected {what}, found the end"),
            rest => format!("expected {what}, found `{}`", rest.chars().take(20).collect::<String>()),
        }
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = self.rest().starts_with(mark);
        self.at += if found { mark.len() } else { 0 };
        found
    }

    fn mark(&mut self, mark: &str) -> Result<(), String> {
        if self.take(mark) { Ok(()) } else { Err(self.expected(&format!("`{mark}`"))) }
    }

    /// Letters, digits and what else names and numbers are made of.
    fn word(&mut self) -> Option<&'t str> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphanumeric() && !"_.'+-".contains(c)).unwrap_or(rest.len());
        self.at += end;
        (end > 0).then(|| &rest[..end])
    }

    /// Items up to `close`, with commas between them.
    fn list<T>(&mut self, close: &str, item: fn(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let mut out = Vec::new();
        while !self.take(close) {
            out.push(item(self)?);
            if !self.rest().starts_with(close) {
                self.mark(",")?;
            }
        }
        Ok(out)
    }

    fn value(&mut self) -> Result<Value, String> {
        let name = self.rest();
        let value = self.operand()?;
        let Value::Variant(constructor, _) = &value else { return Ok(value) };
        if !name.starts_with(char::is_uppercase) {
            return Ok(value);
        }
        // The constructor's arguments follow it.
        let mut arguments = Vec::new();
        while !self.rest().is_empty() && !self.rest().starts_with([',', ')', ']', '}']) {
            arguments.push(self.operand()?);
        }
        let payload = match arguments.as_mut_slice() {
            [record @ Value::Record(_)] => std::mem::replace(record, Value::Null),
            _ => Value::Tuple(arguments),
        };
        Ok(Value::variant(constructor.clone(), payload))
    }

    /// A value that needs no parentheses as an argument of a constructor.
    fn operand(&mut self) -> Result<Value, String> {
        if self.depth == DEPTH_MAX {
            return Err(format!("expected at most {DEPTH_MAX} levels of nesting"));
        }
        self.depth += 1;
        let value = self.operand_inside();
        self.depth -= 1;
        value
    }

    fn operand_inside(&mut self) -> Result<Value, String> {
        if self.take("(") {
            let mut parts = self.list(")", Self::value)?;
            return Ok(if parts.len() == 1 { parts.remove(0) } else { Value::Tuple(parts) });
        }
        if self.take("[") {
            let elements = self.list("]", Self::value)?;
            let reals: Option<Vec<f64>> = elements.iter().map(Value::as_real).collect();
            return Ok(reals.map_or(Value::Array(elements), Value::Reals));
        }
        if self.take("{") {
            return Ok(Value::Record(self.list("}", Self::field)?));
        }
        let start = self.at;
        let Some(word) = self.word() else { return Err(self.expected("a value")) };
        Ok(match word {
            "null" => Value::Null,
            "true" | "false" => Value::Bool(word == "true"),
            _ if word.starts_with(char::is_uppercase) => Value::variant(word, Value::UNIT),
            _ => match (word.parse(), word.parse()) {
                (Ok(n), _) => Value::Int(n),
                (_, Ok(x)) => Value::Real(x),
                _ => {
                    self.at = start;
                    return Err(self.expected("a value"));
                }
            },
        })
    }

    fn field(&mut self) -> Result<(String, Value), String> {
        let name = self.word().ok_or_else(|| self.expected("the name of a field"))?.to_owned();
        self.mark("=")?;
        Ok((name, self.value()?))
    }
}
