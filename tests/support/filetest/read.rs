//! Reading a test: the header, the expectations between the lines of code, and which lines a variant has.

use super::literal::{self, Call};
use crate::support::engines::Mode;
use dualvm_vm::engine::Limits;
use std::ops::Range;

/// What stands before the first line of code.
pub(crate) struct Header {
    /// The engines to run on beside the first one, if not all.
    pub(crate) engines: Option<Vec<String>>,
    pub(crate) modes: Vec<Mode>,
    pub(crate) limits: Limits,
    /// The programs that the file holds; one without a name if it doesn't say.
    pub(crate) variants: Vec<String>,
    /// Whether the reference implementation runs the programs, too.
    pub(crate) reference: bool,
}

/// What an expectation is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Run,
    Grad,
    Jacobian,
    Tape,
    Trap,
    Error,
}

impl Kind {
    fn named(name: &str) -> Option<Kind> {
        Some(match name {
            "run" => Kind::Run,
            "grad" => Kind::Grad,
            "jacobian" => Kind::Jacobian,
            "tape" => Kind::Tape,
            "trap" => Kind::Trap,
            "error" => Kind::Error,
            _ => return None,
        })
    }
}

/// What the file says of a call, or of a line that is refused.
pub(crate) struct Expectation {
    pub(crate) kind: Kind,
    /// The lines that it takes, counted from 0.
    pub(crate) lines: Range<usize>,
    /// The bytes of its first line before what is expected.
    pub(crate) prefix: usize,
    /// The variants that it is for; none if it is for all.
    variants: Vec<String>,
    /// What is called. A refused line has none.
    pub(crate) call: Option<Call>,
    /// Whether it stands on a line of code.
    pub(crate) beside_code: bool,
    /// What is expected, on one line.
    pub(crate) expected: String,
}

impl Expectation {
    pub(crate) fn is_for(&self, variant: &str) -> bool {
        self.variants.is_empty() || self.variants.iter().any(|name| name == variant)
    }
}

/// A file as it was read.
pub(crate) struct File<'t> {
    lines: Vec<&'t str>,
    pub(crate) header: Header,
    pub(crate) expectations: Vec<Expectation>,
    /// The lines of code that belong to some variants only.
    marked: Vec<(usize, Vec<String>)>,
}

/// What is wrong with a line.
pub(crate) type Fault = (usize, String);

impl<'t> File<'t> {
    /// Reads a file. `Err` is everything that is wrong with its comments.
    pub(crate) fn read(text: &'t str) -> Result<File<'t>, Vec<Fault>> {
        let header = Header {
            engines: None,
            modes: vec![Mode::Call, Mode::Gradient, Mode::Jacobian],
            limits: Limits::default(),
            variants: Vec::new(),
            reference: true,
        };
        let lines = text.lines().collect();
        let mut file = File { lines, header, expectations: Vec::new(), marked: Vec::new() };
        let mut faults = Vec::new();
        let (mut next, mut in_header) = (0, true);
        while next < file.lines.len() {
            let line = next;
            next += 1;
            let Some(comment) = Comment::of(file.lines[line]) else {
                in_header &= file.lines[line].trim().is_empty();
                continue;
            };
            in_header &= !comment.beside_code;
            match file.comment(line, &comment, in_header) {
                Ok(lines) => next = line + lines,
                Err(fault) => faults.push((line, fault)),
            }
        }
        faults.extend(file.unknown_variants());
        if file.expectations.is_empty() && faults.is_empty() {
            faults.push((0, "the file expects nothing".into()));
        }
        if file.header.variants.is_empty() {
            file.header.variants.push(String::new());
        }
        if faults.is_empty() { Ok(file) } else { Err(faults) }
    }

    /// The code of a variant: its lines stand where they stand in the file.
    pub(crate) fn code(&self, variant: &str) -> String {
        let other = |line: usize| {
            let marked = self.marked.iter().find(|(marked, _)| *marked == line);
            marked.is_some_and(|(_, names)| names.iter().all(|name| name != variant))
        };
        (0..self.lines.len())
            .map(|line| if other(line) { "\n".into() } else { format!("{}\n", self.lines[line]) })
            .collect()
    }

    /// Reads a line's comment. Gives the number of lines that it takes.
    fn comment(&mut self, line: usize, comment: &Comment<'t>, in_header: bool) -> Result<usize, String> {
        let Some((name, text)) = comment.directive else {
            if comment.beside_code && !comment.variants.is_empty() {
                self.marked.push((line, comment.variants.clone()));
            }
            return Ok(1);
        };
        match Kind::named(name) {
            Some(Kind::Error) => self.expectation(line, comment, Kind::Error),
            Some(_) if comment.beside_code => Err(format!("`{name}` takes a line of its own")),
            Some(kind) => self.expectation(line, comment, kind),
            None if in_header => self.header.set(name, text.trim()).map(|()| 1),
            None => Err(format!("there is no expectation `{name}`")),
        }
    }

    fn expectation(&mut self, line: usize, comment: &Comment<'t>, kind: Kind) -> Result<usize, String> {
        let (_, text) = comment.directive.expect("an expectation is a directive");
        let (call, from) = match kind {
            Kind::Error => (None, 0),
            _ => literal::call(text).map(|(call, from)| (Some(call), from))?,
        };
        let goes_on = |line: &&&str| line.trim_start().starts_with(";   ");
        let more = self.lines[line + 1..].iter().take_while(goes_on);
        let parts: Vec<&str> = more.map(|line| line.trim_start()[1..].trim()).collect();
        let taken = 1 + parts.len();
        let expected = [&[text[from..].trim()], &parts[..]].concat().join(" ");
        self.expectations.push(Expectation {
            kind,
            lines: line..line + taken,
            prefix: self.lines[line].len() - text.len() + from,
            variants: comment.variants.clone(),
            call,
            beside_code: comment.beside_code,
            expected,
        });
        Ok(taken)
    }

    fn unknown_variants(&self) -> Vec<Fault> {
        let code = self.marked.iter().map(|(line, names)| (*line, names));
        let all = code.chain(self.expectations.iter().map(|expected| (expected.lines.start, &expected.variants)));
        let names = all.flat_map(|(line, names)| names.iter().map(move |name| (line, name)));
        let unknown = names.filter(|(_, name)| !self.header.variants.contains(name));
        unknown.map(|(line, name)| (line, format!("the header has no variant `{name}`"))).collect()
    }
}

impl Header {
    fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let words = || text.split(',').map(|word| word.trim().to_owned());
        match name {
            "engines" => self.engines = Some(words().collect()),
            "variants" => self.variants = words().collect(),
            "modes" => self.modes = words().map(|word| mode(&word)).collect::<Result<_, _>>()?,
            "limits" => words().try_for_each(|word| self.limit(&word))?,
            "reference" if text.starts_with("none, ") => self.reference = false,
            "reference" => return Err("expected `reference: none,` and why".into()),
            _ => return Err(format!("there is no directive `{name}`")),
        }
        Ok(())
    }

    fn limit(&mut self, text: &str) -> Result<(), String> {
        let (name, number) = text.split_once(' ').ok_or("expected the name of a limit and a number")?;
        let number = number.trim().parse().map_err(|_| format!("expected a number, found `{number}`"))?;
        match name {
            "fuel" => self.limits.fuel = number,
            "allocated_bytes" => self.limits.allocated_bytes = number,
            "live_bytes" => self.limits.live_bytes = number,
            "tape_bytes" => self.limits.tape_bytes = number,
            "depth" => self.limits.depth = number as usize,
            _ => return Err(format!("there is no limit `{name}`")),
        }
        Ok(())
    }
}

fn mode(name: &str) -> Result<Mode, String> {
    Ok(match name {
        "call" => Mode::Call,
        "gradient" => Mode::Gradient,
        "jacobian" => Mode::Jacobian,
        _ => return Err(format!("there is no mode `{name}`")),
    })
}

/// A comment of a line.
struct Comment<'t> {
    beside_code: bool,
    /// `[these]` stand first in it: what a directive is for, or without one the code beside it.
    variants: Vec<String>,
    /// A word with a colon behind it, and what follows.
    directive: Option<(&'t str, &'t str)>,
}

impl<'t> Comment<'t> {
    fn of(line: &'t str) -> Option<Comment<'t>> {
        let at = comment_start(line)?;
        let beside_code = !line[..at].trim().is_empty();
        let mut text = &line[at + 1..];
        let mut variants = Vec::new();
        if let Some((names, rest)) = text.strip_prefix(" [").and_then(|rest| rest.split_once(']')) {
            variants = names.split(',').map(|name| name.trim().to_owned()).collect();
            text = rest;
        }
        let directive = text.strip_prefix(' ').and_then(|text| text.split_once(':'));
        let is_word = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        Some(Comment { beside_code, variants, directive: directive.filter(|(name, _)| is_word(name)) })
    }
}

/// The byte at which a line's comment starts: a semicolon that is in no string.
pub(crate) fn comment_start(line: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b';' if !quoted => return Some(at),
            b'"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = quoted && byte == b'\\' && !escaped;
    }
    None
}
