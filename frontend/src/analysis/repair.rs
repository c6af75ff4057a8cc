//! A text that is being written, completed so that the parser understands it: at the place where somebody writes stands
//! a name, [`PROBE`], and what was opened before it in the declaration is closed after it.

use crate::diagnostics::Sink;
use crate::lexer::lex;
use crate::limits::Meter;
use crate::names::Names;
use crate::resolve::PROBE;
use crate::token::{Token, TokenKind};

/// Something that was opened and waits for what closes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Open {
    /// A bracket, by the token that closes it.
    Bracket(Bracket),
    /// `let x = …`, before `in`.
    Let,
    /// `if …`, before `then`.
    If,
    /// `then …`, before `else`.
    Then,
    /// `loop …`, before `for` or `while`.
    Loop,
    /// What drives a loop, before `do`.
    Driver,
    /// `for x`, before `in` or `<`.
    For,
    /// `match …`, before `with`.
    Match,
    /// `\x`, or the pattern of an arm, before `->`.
    Arrow,
    /// The arms of a `match`.
    Arms,
}

/// A kind of bracket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bracket {
    Parenthesis,
    List,
    Array,
    Record,
}

/// The text in which a word, the bytes from `start` to `end`, is replaced by the probe.
pub(super) fn with_probe(text: &str, start: usize, end: usize) -> String {
    format!("{}{PROBE}{}", &text[..start], &text[end..])
}

/// The same, without the rest of the declaration after the probe, but with all closed that is open there. Nothing if
/// the probe would be in a comment or in quotes.
pub(super) fn closed(text: &str, start: usize, end: usize, meter: &Meter) -> Option<String> {
    let probed = with_probe(text, start, end);
    let tokens = lex(&probed, 0, &mut Names::default(), &mut Sink::default(), meter);
    let at = tokens.partition_point(|token| (token.span.start as usize) < start);
    let probe = tokens.get(at).filter(|token| token.span.start as usize == start)?;
    let starts = |token: &Token| token.kind.starts_declaration() && (token.first || token.kind == TokenKind::End);
    let first = tokens[..at].iter().rposition(starts)?;
    let rest = tokens[at..].iter().find(|token| starts(token)).map_or(probed.len(), |next| next.span.start as usize);
    let mut out = probed[..probe.span.end as usize].to_owned();
    for open in open_at(&tokens[first..at]).into_iter().rev() {
        out.push_str(match open {
            Open::Bracket(Bracket::Parenthesis) => ")",
            Open::Bracket(Bracket::List) => "]",
            Open::Bracket(Bracket::Array) => "|]",
            Open::Bracket(Bracket::Record) => "}",
            Open::Let => " in 0",
            Open::If => " then 0 else 0",
            Open::Then => " else 0",
            Open::Loop => " while false do 0",
            Open::Driver => " do 0",
            Open::For => " in [||]",
            Open::Match => " with _ -> 0",
            Open::Arrow => " -> 0",
            Open::Arms => "",
        });
    }
    out.push('\n');
    out.push_str(&probed[rest..]);
    Some(out)
}

/// What is open after some tokens, the innermost last.
fn open_at(tokens: &[Token]) -> Vec<Open> {
    let mut open: Vec<Open> = Vec::new();
    // Closes the innermost of some kind, with all that is inside, unless a bracket is in between.
    let close = |open: &mut Vec<Open>, wanted: &[Open]| {
        let innermost = open.iter().rposition(|one| wanted.contains(one) || matches!(one, Open::Bracket(_)));
        match innermost.filter(|&at| wanted.contains(&open[at])) {
            Some(at) => {
                let found = open[at];
                open.truncate(at);
                Some(found)
            }
            None => None,
        }
    };
    // Whether the innermost bracket is a comprehension, by its depth.
    let mut comprehensions: Vec<usize> = Vec::new();
    for token in tokens {
        let brackets = open.iter().filter(|one| matches!(one, Open::Bracket(_))).count();
        match token.kind {
            TokenKind::LeftParen => open.push(Open::Bracket(Bracket::Parenthesis)),
            TokenKind::LeftBracket => open.push(Open::Bracket(Bracket::List)),
            TokenKind::LeftArray => open.push(Open::Bracket(Bracket::Array)),
            TokenKind::LeftBrace => open.push(Open::Bracket(Bracket::Record)),
            TokenKind::RightParen | TokenKind::RightBracket | TokenKind::RightArray | TokenKind::RightBrace => {
                let bracket = open.iter().rposition(|one| matches!(one, Open::Bracket(_)));
                open.truncate(bracket.unwrap_or(open.len()));
                comprehensions.retain(|&depth| depth < brackets);
            }
            TokenKind::Let => open.push(Open::Let),
            TokenKind::In if open.last() == Some(&Open::For) => _ = open.pop(),
            TokenKind::In => _ = close(&mut open, &[Open::Let]),
            TokenKind::Less if open.last() == Some(&Open::For) => _ = open.pop(),
            TokenKind::If if open.last() == Some(&Open::Arrow) => {}
            TokenKind::If if comprehensions.contains(&brackets) => {}
            TokenKind::If => open.push(Open::If),
            TokenKind::Then => {
                close(&mut open, &[Open::If]);
                open.push(Open::Then);
            }
            TokenKind::Else => _ = close(&mut open, &[Open::Then]),
            TokenKind::Loop => open.push(Open::Loop),
            TokenKind::For => {
                match close(&mut open, &[Open::Loop]) {
                    Some(_) => open.push(Open::Driver),
                    None => comprehensions.push(brackets),
                }
                open.push(Open::For);
            }
            TokenKind::While => {
                close(&mut open, &[Open::Loop]);
                open.push(Open::Driver);
            }
            TokenKind::Do => _ = close(&mut open, &[Open::Driver]),
            TokenKind::Match => open.push(Open::Match),
            TokenKind::With | TokenKind::Bar => {
                let before = if token.kind == TokenKind::With { Open::Match } else { Open::Arms };
                let of_match = close(&mut open, &[before]);
                open.extend(of_match.into_iter().flat_map(|_| [Open::Arms, Open::Arrow]));
            }
            TokenKind::Backslash => open.push(Open::Arrow),
            TokenKind::Arrow => _ = close(&mut open, &[Open::Arrow]),
            _ => {}
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_closed() {
        let check = |text: &str, expected: &str| {
            let at = text.find('#').expect("the place is marked");
            let text = text.replace('#', "");
            let found = closed(&text, at, at, &Meter::unlimited());
            assert_eq!(found.unwrap_or_default().replace(PROBE, "#"), expected, "{text}");
        };
        check("def f x = #", "def f x = #\n");
        check("def f x = let y = x + #\ndef g = 1", "def f x = let y = x + # in 0\ndef g = 1");
        check("def f x = if x > # then 1 else 2", "def f x = if x > # then 0 else 0\n");
        check("def f x = g (if x > 1 then [x, #], 3)", "def f x = g (if x > 1 then [x, #] else 0)\n");
        check("def f xs = [| x for x in xs if #", "def f xs = [| x for x in xs if #|]\n");
        check("def f xs = loop s = 0 for x in # do s", "def f xs = loop s = 0 for x in # do 0\n");
        check(
            "def f m = match m with None -> 1 | Some x -> \\y -> x.#",
            "def f m = match m with None -> 1 | Some x -> \\y -> x.#\n",
        );
        check("def f m = match # with None -> 1", "def f m = match # with _ -> 0\n");
        // In a comment there is nothing to complete.
        check("def f = 1 -- #", "");
    }
}
