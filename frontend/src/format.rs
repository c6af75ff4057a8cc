//! The formatter: a program's text, laid out as this repository's own programs are.
//!
//! Tokens and comments stay as they are; only white space changes. A text goes through these stages: it is checked by
//! the compiler's own lexer and parser (`trivia` keeps the comments that these drop), `reader` finds its structure
//! (`shape`), `layout` says where its lines may end (`document`), and `printer` decides where they do. Each takes time
//! and memory in proportion to the text. What recurses does so as deep as the parser, which has a bound.

mod document;
mod layout;
mod printer;
mod reader;
mod shape;
mod trivia;

use crate::diagnostics::{Diagnostic, Diagnostics, Sink};
use crate::imports::{qualify, take_imports};
use crate::lexer::lex;
use crate::limits::{CompileOptions, Meter};
use crate::load::FileTokens;
use crate::names::Names;
use crate::source::{Source, SourceMap, Span};
use crate::token::{Token, TokenKind};

/// Formats a program's text. `file_name` is for messages only; nothing that the program imports is looked at.
///
/// White space is all that changes, and formatting a second time changes nothing. Comments stay where they are, and so
/// do at most one empty line between two things, and line ends where there is a choice.
///
/// ```
/// let text = "def huber (d:Real) (x:Real) =\n if abs x<=d then x^2/2 -- near\n else d*(abs x-d/2)";
/// let formatted = "\
/// def huber (d : Real) (x : Real) =
///   if abs x <= d then x ^ 2 / 2 -- near
///   else d * (abs x - d / 2)
/// ";
/// assert_eq!(dualvm_frontend::format("huber.dual", text)?, formatted);
/// # Ok::<(), dualvm_frontend::Diagnostics>(())
/// ```
///
/// # Errors
/// What is wrong with the text's syntax; [`crate::CompileLimits`], by default.
pub fn format(file_name: &str, text: &str) -> Result<String, Diagnostics> {
    format_with(file_name, text, &CompileOptions::default())
}

/// Formats a program's text as [`format()`] does, within limits, and until a handle cancels it.
///
/// # Errors
/// As [`format()`].
pub fn format_with(file_name: &str, text: &str, options: &CompileOptions) -> Result<String, Diagnostics> {
    let meter = Meter::new(options);
    let text = if meter.another_source(text.len()) { text } else { "" };
    let mut sink = Sink::default();
    let formatted = crate::stack::on_callers_stack(|| formatted(text, &mut sink, &meter));
    let sources = || SourceMap::of(Source::new(file_name, text));
    match (formatted, meter.stopped()) {
        (_, Some((error, why))) => {
            let mut sink = Sink::default();
            sink.push(error);
            Err(Diagnostics::new(sources(), sink, why))
        }
        (Some(formatted), None) if !sink.has_errors() => Ok(formatted),
        (_, None) => Err(Diagnostics::new(sources(), sink, None)),
    }
}

/// The stages one after the other. Nothing if there are errors, or the meter has stopped.
fn formatted(text: &str, sink: &mut Sink, meter: &Meter) -> Option<String> {
    let mut names = Names::default();
    let tokens = lex(text, 0, &mut names, sink, meter);
    check(tokens.clone(), &mut names, sink, meter);
    if sink.has_errors() || !meter.go_on() {
        return None;
    }
    let parts = with_whole_texts(&tokens);
    let structure = match reader::read(&parts, meter) {
        Ok(structure) => structure,
        Err(reader::Unread(at)) => {
            let error = Diagnostic::error(parts[at].span, "the formatter doesn't know this form");
            sink.push(error.note("this is a mistake in dualvm, not in the program"));
            return None;
        }
    };
    let trivia = trivia::trivia(text, &parts);
    let document = layout::document(text, &parts, &trivia, &structure, meter);
    let mut formatted = printer::print(text, &document, meter);
    if !meter.go_on() {
        return None;
    }
    if !formatted.is_empty() {
        formatted.push('\n');
    }
    let after = lex(&formatted, 0, &mut names, sink, meter);
    if let Some(at) = difference(&tokens, &after) {
        let error = Diagnostic::error(tokens[at].span, "formatting would change the program here");
        sink.push(error.note("this is a mistake in dualvm, not in the program"));
        return None;
    }
    // Line ends are those of the text.
    let ends_with_return = text.find('\n').is_some_and(|at| text[..at].ends_with('\r'));
    Some(if ends_with_return { formatted.replace('\n', "\r\n") } else { formatted })
}

/// The tokens, with each text and the values in it as one: a text stands on one line, and is left as it is.
fn with_whole_texts(tokens: &[Token]) -> Vec<Token> {
    let mut parts: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut is_in_text = false;
    for token in tokens {
        match (parts.last_mut(), token.kind) {
            (Some(text), kind) if is_in_text => {
                text.span = text.span.to(token.span);
                is_in_text = !matches!(kind, TokenKind::TextEnd(_));
            }
            (_, TokenKind::TextStart(beginning)) => {
                parts.push(Token { kind: TokenKind::Text(beginning), ..*token });
                is_in_text = true;
            }
            _ => parts.push(*token),
        }
    }
    parts
}

/// Reports what is wrong with a file's syntax.
fn check(mut tokens: Vec<Token>, names: &mut Names, sink: &mut Sink, meter: &Meter) {
    let missing = take_imports(&mut tokens, names, sink, meter);
    qualify(&mut tokens, &missing, names, meter);
    let end = Token { kind: TokenKind::End, span: Span::default(), glued: false, first: true };
    let file = FileTokens { module: None, interface: None, imports: Vec::new(), missing, tokens };
    crate::parser::parse(vec![file], &[end], names, sink, meter);
}

/// The first token that isn't the same in both texts, or that is joined to the one before it in one of them only.
fn difference(before: &[Token], after: &[Token]) -> Option<usize> {
    let is_joined = |token: &Token| token.glued && matches!(token.kind, TokenKind::LeftBracket | TokenKind::Dot);
    let mut pairs = before.iter().zip(after).enumerate();
    let found = pairs.find(|(at, (a, b))| {
        // Only after a value does it matter.
        let after_value = *at > 0 && ends_value(before[at - 1].kind);
        a.kind != b.kind || after_value && is_joined(a) != is_joined(b)
    });
    let missing = (before.len() != after.len()).then(|| before.len().min(after.len()).saturating_sub(1));
    found.map(|(at, _)| at).or(missing)
}

/// Whether an index or a field may directly follow a token.
fn ends_value(kind: TokenKind) -> bool {
    use TokenKind::{False, Int, Lower, Real, RightArray, RightBrace, RightBracket, RightParen, True, Upper};
    matches!(kind, Lower(_) | Upper(_) | Int(_) | Real(_) | True | False)
        || matches!(kind, RightParen | RightBracket | RightArray | RightBrace)
}
