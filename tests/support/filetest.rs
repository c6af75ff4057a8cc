//! Tests that are files of assembly: programs, and beside them in comments what they give. `tests/README.md` says how
//! they are written.
//!
//! Each expectation is found out again on all engines, which must agree bit by bit, and by the reference. Nothing here
//! reads or writes files: a text comes in, and its failures and the corrected text come out.

pub(crate) mod found;
pub(crate) mod literal;
pub(crate) mod read;
pub(crate) mod refused;
pub(crate) mod second;

use super::engines::{Engines, Loaded};
use super::export_missing;
use dualvm_vm::module::ModuleDef;
use dualvm_vm::text;
use found::{Found, found};
use read::{Expectation, Fault, File, Kind};
use refused::{Refusal, refusals};

/// The width of corrected expectations.
const LINE_LENGTH_MAX: usize = 120;

/// What a file's test came to.
pub(crate) struct Report {
    /// How many things the file expects.
    pub(crate) expectations: usize,
    /// What corrected expectations put right: they are wrong, each with its place.
    pub(crate) wrong: Vec<String>,
    /// What nothing but another program puts right, each with its place.
    pub(crate) failures: Vec<String>,
    /// The text with what was found in place of what is expected.
    pub(crate) corrected: String,
}

/// Tests a file.
pub(crate) fn check(name: &str, text: &str, engines: &mut Engines) -> Report {
    let shown =
        |faults: Vec<Fault>| faults.iter().map(|(line, fault)| format!("{name}:{}: {fault}", line + 1)).collect();
    let mut report = Report { expectations: 0, wrong: Vec::new(), failures: Vec::new(), corrected: text.to_owned() };
    let file = match File::read(text) {
        Ok(file) => file,
        Err(faults) => return Report { failures: shown(faults), ..report },
    };
    let (verdicts, faults) = verdicts(&file, engines);
    report.failures = shown(faults);
    report.expectations = file.expectations.len();
    let mut corrections = Vec::new();
    for (expectation, verdict) in file.expectations.iter().zip(verdicts) {
        let place = format!("{name}:{}", expectation.lines.start + 1);
        match verdict {
            Verdict::Nothing | Verdict::Holds(_) => {}
            Verdict::Wrong(found) => {
                let expected = &expectation.expected;
                report.wrong.push(format!("{place}: expected {expected}\n  found {found}"));
                corrections.push((expectation, found));
            }
            Verdict::Fails(why) => report.failures.push(format!("{place}: {why}")),
        }
    }
    report.corrected = corrected(text, &corrections);
    report
}

/// What is to say of an expectation after some of its variants.
enum Verdict {
    Nothing,
    /// It says what was found.
    Holds(String),
    /// It says something else than this.
    Wrong(String),
    /// It can't hold, whatever it says.
    Fails(String),
}

impl Verdict {
    /// Adds what was found in another variant.
    fn add(&mut self, variant: &str, found: Result<Found, String>) {
        let within = if variant.is_empty() { String::new() } else { format!("[{variant}] ") };
        *self = match (&*self, found) {
            (Verdict::Fails(_), _) => return,
            (_, Err(why)) => Verdict::Fails(format!("{within}{why}")),
            (Verdict::Holds(first) | Verdict::Wrong(first), Ok(found)) if *first != found.text => {
                Verdict::Fails(format!("{within}found {}\n  other variants {first}", found.text))
            }
            (_, Ok(Found { text, holds: true })) => Verdict::Holds(text),
            (_, Ok(Found { text, holds: false })) => Verdict::Wrong(text),
        };
    }
}

/// A verdict for each expectation, and what else is wrong.
fn verdicts(file: &File<'_>, engines: &mut Engines) -> (Vec<Verdict>, Vec<Fault>) {
    let mut verdicts: Vec<Verdict> = file.expectations.iter().map(|_| Verdict::Nothing).collect();
    let mut faults = Vec::new();
    for variant in &file.header.variants {
        let code = file.code(variant);
        let refused = match refusals(&code) {
            Ok(refused) => refused,
            Err(why) => {
                faults.push((0, why));
                continue;
            }
        };
        let expected = file.expectations.iter().zip(&mut verdicts).filter(|(expected, _)| expected.is_for(variant));
        let (errors, calls): (Vec<_>, Vec<_>) = expected.partition(|(expected, _)| expected.kind == Kind::Error);
        let others = unexpected(&errors, &refused);
        if !others.is_empty() {
            faults.extend(others);
            continue;
        }
        for (expectation, verdict) in errors {
            verdict.add(variant, error(expectation, &refused));
        }
        if !refused.is_empty() {
            let why = || Err("a module that is refused can't be run".to_owned());
            calls.into_iter().for_each(|(_, verdict)| verdict.add(variant, why()));
        } else if !calls.is_empty() {
            let (def, loaded) = load(&code, file, engines);
            let mut ran = false;
            for (expectation, verdict) in calls {
                let call = expectation.call.as_ref().expect("all but errors are about calls");
                let found = |loaded| found(&file.header, &def, loaded, expectation.kind, call, &expectation.expected);
                verdict.add(variant, loaded.as_ref().map_err(String::clone).and_then(found));
                ran |= !matches!(verdict, Verdict::Fails(_));
            }
            let idle = loaded.iter().filter(|_| ran).flat_map(|loaded| loaded.uncompiled());
            faults.extend(idle.map(|engine| (0, format!("nothing was compiled on `{engine}`"))));
        }
    }
    (verdicts, faults)
}

/// Loads a module that the verifier accepts.
fn load(code: &str, file: &File<'_>, engines: &mut Engines) -> (ModuleDef, Result<Loaded, String>) {
    let mut def = text::parse(code, "test.dvs").expect("it was parsed before");
    export_missing(&mut def);
    let mut loaded = engines.load(&def, 0).map_err(|errors| errors[0].to_string());
    if let (Ok(loaded), Some(names)) = (&mut loaded, &file.header.engines) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if let Err(unknown) = loaded.only(&names) {
            return (def, Err(format!("there is no engine `{unknown}`")));
        }
    }
    (def, loaded)
}

/// What is refused of the line that an expectation stands on.
fn error(expectation: &Expectation, refused: &[Refusal]) -> Result<Found, String> {
    let place = expectation.beside_code.then_some(expectation.lines.start);
    let here: Vec<&str> =
        refused.iter().filter(|(line, _)| *line == place).map(|(_, message)| message.as_str()).collect();
    if here.is_empty() {
        return Err("expected an error, and it is accepted".into());
    }
    Ok(Found::text(here.join(" | "), &expectation.expected))
}

/// Errors where none is expected.
fn unexpected(errors: &[(&Expectation, &mut Verdict)], refused: &[Refusal]) -> Vec<Fault> {
    let places: Vec<Option<usize>> =
        errors.iter().map(|(error, _)| error.beside_code.then_some(error.lines.start)).collect();
    let others = refused.iter().filter(|(line, _)| !places.contains(line));
    others.map(|(line, message)| (line.unwrap_or(0), format!("an error: {message}"))).collect()
}

/// The text with other expectations; what is not expected stays as it is.
fn corrected(text: &str, corrections: &[(&Expectation, String)]) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    for (expectation, found) in corrections {
        let first = &lines[expectation.lines.start];
        let comment = read::comment_start(first).expect("an expectation is a comment");
        let indent = if expectation.beside_code { first.len() - first.trim_start().len() } else { comment };
        let before = first[..expectation.prefix].to_owned();
        let go_on = format!("{};   ", &first[..indent]);
        let whole = wrapped(before, &go_on, found);
        lines[expectation.lines.start] = whole;
        lines[expectation.lines.start + 1..expectation.lines.end].iter_mut().for_each(String::clear);
    }
    lines.concat()
}

/// An expectation of as many lines as it needs: it goes on where there is a space, and where what was found does.
fn wrapped(before: String, go_on: &str, found: &str) -> String {
    let (mut out, mut line) = (String::new(), before);
    let mut end_line = |line: &mut String| {
        out += line;
        out.push('\n');
        *line = go_on.to_owned();
    };
    for (number, part) in found.lines().enumerate() {
        if number > 0 {
            end_line(&mut line);
        }
        for word in part.split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > LINE_LENGTH_MAX && line != go_on {
                end_line(&mut line);
            }
            if line != go_on {
                line.push(' ');
            }
            line += word;
        }
    }
    end_line(&mut line);
    out
}
