//! Reading modules from text.
//!
//! A recursive descent over tokens. What a name means is settled when everything is read, so that functions, messages
//! and labels can be used before they are declared. After an error in a line of code the parser goes on with the next
//! line, after any other with the next item.

mod items;
mod resolve;

use super::error::{Lines, TextError};
use super::grammar::{self, Separator};
use super::lex::{Kind, Token, tokens, unescape};
use crate::bytecode::isa::{Bank, Op, Operand, Reg, Role};
use crate::bytecode::module::ModuleDef;
use crate::similar::similar;
use resolve::Pending;

/// Errors that one run of the parser reports.
const ERRORS_MAX: usize = 100;

/// Reads a module. `file_name` is for messages only.
///
/// ```
/// let errors = dualvm_vm::text::parse("func \"f\" (real) -> (real)\n{\n  rett (r0)\n}", "f.dvs").unwrap_err();
/// assert_eq!(
///     errors[0].to_string(),
///     "\
/// error: there is no instruction `rett`
///  --> f.dvs:3:3
///   |
/// 3 |   rett (r0)
///   |   ^^^^
///   = help: did you mean `ret`?"
/// );
/// ```
///
/// # Errors
/// Everything that is wrong with syntax and names, in the order of the text, 100 errors at most. A module that parses
/// may still be refused by the verifier.
pub fn parse(text: &str, file_name: &str) -> Result<ModuleDef, Vec<TextError>> {
    let mut parser = Parser {
        source: Source { text, file: file_name, lines: Lines::new(text), errors: Vec::new() },
        tokens: tokens(text),
        next: 0,
        nesting: 0,
    };
    let mut pending = Pending::default();
    parser.module(&mut pending);
    let module = pending.resolve(&mut parser.source);
    let mut errors = parser.source.errors;
    errors.sort_by_key(|error| (error.line, error.column));
    if errors.is_empty() { Ok(module) } else { Err(errors) }
}

/// The text, and what is wrong with it so far.
struct Source<'t> {
    text: &'t str,
    file: &'t str,
    lines: Lines,
    errors: Vec<TextError>,
}

impl Source<'_> {
    /// Whether further errors are not reported, so that work on them is wasted.
    fn is_full(&self) -> bool {
        self.errors.len() >= ERRORS_MAX
    }

    /// Reports an error at a range of bytes.
    fn fail(&mut self, at: (usize, usize), message: String, help: Option<String>) -> Stop {
        if !self.is_full() {
            let mut error = TextError::new(self.file, self.text, &self.lines, at, message);
            error.help = help;
            self.errors.push(error);
        }
        Stop
    }

    fn fail_token(&mut self, token: Token, message: String, help: Option<String>) -> Stop {
        self.fail((token.at, token.end()), message, help)
    }
}

/// An error was reported; the caller looks for a place to go on.
struct Stop;

type Parsed<T> = Result<T, Stop>;

/// An instruction whose targets, functions and messages are indices into lists of names.
type RawInst = (Op, Vec<Operand>);

struct Parser<'t> {
    source: Source<'t>,
    tokens: Vec<Token<'t>>,
    next: usize,
    /// How many host types are open.
    nesting: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Token<'t> {
        self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn peek_second(&self) -> Token<'t> {
        self.tokens[(self.next + 1).min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token<'t> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn take_if(&mut self, mark: &str) -> bool {
        let found = self.peek().is(mark);
        self.next += usize::from(found);
        found
    }

    /// Reports that something else should stand here.
    fn expected<T>(&mut self, what: &str) -> Parsed<T> {
        let token = self.peek();
        let found = match token.kind {
            Kind::End => "the end of the text".into(),
            Kind::Unknown if token.text.starts_with('"') => "a string without an end".into(),
            _ => quote(token.text),
        };
        let message = format!("expected {what}, found {found}");
        Err(self.source.fail_token(token, message, None))
    }

    /// Like `expected`, inside of a line of code: a line that ends too early is to blame, not the next one.
    fn expected_in_line<T>(&mut self, what: &str) -> Parsed<T> {
        let before = self.tokens[self.next.saturating_sub(1)];
        if self.peek().starts_line && self.next > 0 {
            let end = before.end();
            let message = format!("expected {what}, found the end of the line");
            return Err(self.source.fail((end, end), message, None));
        }
        self.expected(what)
    }

    fn mark(&mut self, mark: &str) -> Parsed<()> {
        if self.take_if(mark) { Ok(()) } else { self.expected_in_line(&format!("`{mark}`")) }
    }

    /// Reads `open item, … close`; a comma may follow the last item.
    fn list<T>(&mut self, open: &str, close: &str, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.mark(open)?;
        let mut out = Vec::new();
        while !self.take_if(close) {
            out.push(item(self)?);
            if !self.peek().is(close) && !self.take_if(",") {
                return self.expected(&format!("`,` or `{close}`"));
            }
        }
        Ok(out)
    }

    fn string(&mut self) -> Parsed<String> {
        let token = self.peek();
        if token.kind != Kind::Quoted {
            return self.expected("a string");
        }
        self.next += 1;
        unescape(token.text).map_err(|(start, end)| {
            let help = "escapes are \\\\ \\\" \\n \\t \\r and \\u{hex}";
            let at = (token.at + start, token.at + end);
            self.source.fail(at, "this escape means nothing".into(), Some(help.into()))
        })
    }

    /// A word, or any string.
    fn name(&mut self, what: &str) -> Parsed<String> {
        match self.peek().kind {
            Kind::Word => Ok(self.take().text.to_owned()),
            Kind::Quoted => self.string(),
            _ => self.expected(&format!("{what}: a word or a string")),
        }
    }

    /// A number from 0 to `max`.
    fn number(&mut self, what: &str, max: u32) -> Parsed<u32> {
        let token = self.peek();
        if token.kind != Kind::Number {
            return self.expected_in_line(what);
        }
        match token.text.parse() {
            Ok(number) if number <= max => {
                self.next += 1;
                Ok(number)
            }
            _ => self.expected(&format!("{what} from 0 to {max}")),
        }
    }

    /// A letter and a number, such as `t3`.
    fn numbered(&mut self, letter: char, what: &str) -> Parsed<u32> {
        match split_numbered(self.peek(), letter) {
            Some(number) => {
                self.next += 1;
                Ok(number)
            }
            None => self.expected_in_line(&format!("{what}, such as `{letter}0`")),
        }
    }

    fn skip_line(&mut self) {
        while !self.peek().starts_line && self.peek().kind != Kind::End {
            self.next += 1;
        }
    }

    /// Reads an instruction up to the end of its line.
    fn inst(&mut self, names: &mut resolve::Names<'t>) -> Parsed<RawInst> {
        let token = self.take();
        let Some(op) = Op::from_mnemonic(token.text) else {
            if self.source.is_full() {
                return Err(Stop);
            }
            let message = format!("there is no instruction {}", quote(token.text));
            let mnemonics = Op::ALL.iter().map(|op| op.info().mnemonic);
            let help = similar(token.text, mnemonics).map(|mnemonic| format!("did you mean `{mnemonic}`?"));
            return Err(self.source.fail_token(token, message, help));
        };
        let mut operands = Vec::with_capacity(op.info().operands.len());
        for (index, info) in op.info().operands.iter().enumerate() {
            match grammar::separator(index, info.role) {
                Separator::Nothing => {}
                Separator::Comma => self.mark(",")?,
                Separator::Arrow => self.mark("->")?,
            }
            operands.push(self.operand(info.role, info.name, names)?);
        }
        let next = self.peek();
        if !next.starts_line && !next.is("}") && next.kind != Kind::End {
            return self.expected("the end of the line");
        }
        if operands.iter().any(|operand| list_len(operand) > usize::from(u16::MAX)) {
            let message = format!("a list of `{}` has more than {} entries", token.text, u16::MAX);
            return Err(self.source.fail_token(token, message, None));
        }
        Ok((op, operands))
    }

    fn operand(&mut self, role: Role, name: &str, names: &mut resolve::Names<'t>) -> Parsed<Operand> {
        if self.peek().starts_line {
            return self.expected_in_line(&format!("operand `{name}`"));
        }
        let number = |parser: &mut Self, what| parser.number(what, u16::MAX.into()).map(|number| number as u16);
        Ok(match role {
            Role::Def(bank) => Operand::Def(self.reg(Some(bank))?),
            Role::Use(bank) => Operand::Use(self.reg(Some(bank))?),
            Role::Real => Operand::Real(self.real()?),
            Role::Int => Operand::Int(self.int()?),
            Role::Field => Operand::Field(number(self, "a field number")?),
            Role::Tag => Operand::Tag(number(self, "a tag")?),
            Role::Count => Operand::Count(number(self, "a number of registers")?),
            Role::Target => Operand::Target(self.target(names)?),
            Role::Targets => Operand::Targets(self.list("[", "]", |parser| parser.target(names))?),
            Role::Func => Operand::Func(self.func(names)?),
            Role::Message => Operand::Message(self.message_ref(names)?),
            Role::Template => Operand::Template(self.numbered('s', "a template")?),
            Role::Import => Operand::Import(self.numbered('x', "an import")?),
            Role::Uses => Operand::Uses(self.list("(", ")", |parser| parser.reg(None))?),
            Role::Defs => Operand::Defs(self.list("(", ")", |parser| parser.reg(None))?),
        })
    }

    fn reg(&mut self, bank: Option<Bank>) -> Parsed<Reg> {
        let token = self.peek();
        let found = [Bank::Real, Bank::Int, Bank::Ref]
            .into_iter()
            .find_map(|bank| Some((bank, split_numbered(token, bank.letter())?)));
        match found {
            Some((found, number)) if bank.is_none_or(|bank| bank == found) => {
                let Ok(index) = u16::try_from(number) else {
                    return self.expected("a register number below 65536");
                };
                self.next += 1;
                Ok(Reg { bank: found, index })
            }
            _ => self.expected(match bank {
                Some(Bank::Real) => "a real register, such as `r0`",
                Some(Bank::Int) => "an integer register, such as `i0`",
                Some(Bank::Ref) => "a reference register, such as `p0`",
                None => "a register: `r0`, `i0` or `p0`",
            }),
        }
    }

    fn real(&mut self) -> Parsed<f64> {
        let token = self.peek();
        let value = match (token.kind, token.text) {
            (Kind::Word, "inf") => Some(f64::INFINITY),
            (Kind::Number, "-inf") => Some(f64::NEG_INFINITY),
            (Kind::Word, "nan") if self.peek_second().is(":") => return self.nan_with_bits(),
            (Kind::Word, "nan") => Some(f64::NAN),
            (Kind::Number, text) => text.parse().ok().filter(|value: &f64| value.is_finite()),
            _ => None,
        };
        match value {
            Some(value) => {
                self.next += 1;
                Ok(value)
            }
            None => self.expected("a real in the range of `f64`, `inf`, `-inf` or `nan`"),
        }
    }

    /// `nan:0x7ff8000000000001`: a NaN with these bits.
    fn nan_with_bits(&mut self) -> Parsed<f64> {
        self.next += 2;
        let digits = self.peek().text.strip_prefix("0x").unwrap_or("");
        let value = u64::from_str_radix(digits, 16).ok().map(f64::from_bits);
        match value.filter(|value| value.is_nan()) {
            Some(value) => {
                self.next += 1;
                Ok(value)
            }
            None => self.expected("the bits of a NaN, such as `0x7ff8000000000001`"),
        }
    }

    fn int(&mut self) -> Parsed<i64> {
        let token = self.peek();
        match token.text.parse() {
            Ok(value) if token.kind == Kind::Number => {
                self.next += 1;
                Ok(value)
            }
            _ => self.expected("an integer of 64 bits"),
        }
    }

    /// A label, or the number of an instruction. The result is an index into the function's target names.
    fn target(&mut self, names: &mut resolve::Names<'t>) -> Parsed<u32> {
        let token = self.peek();
        if token.kind != Kind::Word && token.kind != Kind::Number {
            return self.expected("a label or the number of an instruction");
        }
        if token.kind == Kind::Number {
            self.number("the number of an instruction", u32::MAX)?;
        } else {
            self.next += 1;
        }
        Ok(resolve::Names::add(&mut names.targets, token))
    }

    /// `f3` or a name. The result is an index into the function's names of functions.
    fn func(&mut self, names: &mut resolve::Names<'t>) -> Parsed<u32> {
        let token = self.peek();
        if token.kind != Kind::Quoted && split_numbered(token, 'f').is_none() {
            return self.expected("a function: `f0` or its name in quotes");
        }
        self.next += 1;
        Ok(resolve::Names::add(&mut names.funcs, token))
    }

    /// `m3` or a string. The result is an index into the function's messages.
    fn message_ref(&mut self, names: &mut resolve::Names<'t>) -> Parsed<u32> {
        let token = self.peek();
        if token.kind != Kind::Quoted && split_numbered(token, 'm').is_none() {
            return self.expected("a message: `m0` or a string");
        }
        self.next += 1;
        Ok(resolve::Names::add(&mut names.messages, token))
    }
}

fn list_len(operand: &Operand) -> usize {
    match operand {
        Operand::Targets(list) => list.len(),
        Operand::Uses(list) | Operand::Defs(list) => list.len(),
        _ => 0,
    }
}

/// The number in a word that is a letter and a number in its shortest form.
fn split_numbered(token: Token, letter: char) -> Option<u32> {
    let digits = token.text.strip_prefix(letter).filter(|_| token.kind == Kind::Word)?;
    let shortest = digits == "0" || !digits.starts_with('0');
    digits.parse().ok().filter(|_| shortest && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A token for a message, the start of it if it is long.
fn quote(token: &str) -> String {
    const SHOWN: usize = 40;
    match token.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("`{}…`", &token[..end]),
        None => format!("`{token}`"),
    }
}
