//! What the assembler and the verifier say of a module, line by line.

use super::read::comment_start;
use dualvm_vm::text;
use dualvm_vm::verify::{VerifyError, verify};

/// An error, and the line that it is about; none if it is about the module as a whole.
pub(crate) type Refusal = (Option<usize>, String);

/// Everything that is wrong with a module. `Err` if it isn't known where.
pub(crate) fn refusals(code: &str) -> Result<Vec<Refusal>, String> {
    let def = match text::parse(code, "test.dvs") {
        Ok(def) => def,
        Err(errors) => {
            let shown = |error: &text::TextError| match &error.help {
                Some(help) => format!("{} ({help})", error.message),
                None => error.message.clone(),
            };
            return Ok(errors.iter().map(|error| (Some(error.line as usize - 1), shown(error))).collect());
        }
    };
    let Err(errors) = verify(&def) else { return Ok(Vec::new()) };
    let places = places(code);
    let known = places.len() == def.functions.len()
        && places.iter().zip(&def.functions).all(|(place, function)| place.insts.len() == function.body.code.len());
    if !known {
        return Err("expected an instruction a line, between a line `{` and a line `}`".into());
    }
    Ok(errors.iter().map(|error| (line(error, &places), shown(error))).collect())
}

/// The line that an error is about, if it is about a function.
fn line(error: &VerifyError, places: &[Place]) -> Option<usize> {
    let (id, _) = error.function.as_ref()?;
    let place = &places[id.index()];
    Some(error.inst.map_or(place.start, |inst| place.insts[inst as usize]))
}

/// The error without its place, beside which it stands.
fn shown(error: &VerifyError) -> String {
    format!("{}: expected {}, found {}", error.rule.message(), error.expected, error.found)
}

/// The lines of a function: the first one, and that of each instruction.
struct Place {
    start: usize,
    insts: Vec<usize>,
}

fn places(code: &str) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    let (mut inside, mut open) = (false, 0i32);
    for (number, line) in code.lines().enumerate() {
        let line = line[..comment_start(line).unwrap_or(line.len())].trim();
        if !inside {
            if line.starts_with("func ") {
                places.push(Place { start: number, insts: Vec::new() });
            }
            inside = line == "{" && !places.is_empty();
        } else if line == "}" {
            inside = false;
        } else {
            let rest = without_labels(line);
            if open == 0 && !rest.is_empty() {
                places.last_mut().expect("code belongs to a function").insts.push(number);
            }
            // A list may go on in the next line.
            open += rest
                .bytes()
                .map(|byte| i32::from(b"([".contains(&byte)) - i32::from(b")]".contains(&byte)))
                .sum::<i32>();
        }
    }
    places
}

/// A line of code without the labels and locations before its instruction.
fn without_labels(mut line: &str) -> &str {
    loop {
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if !first.ends_with(':') && !first.starts_with('@') {
            return line;
        }
        line = rest.trim_start();
    }
}
