//! Hints for syntax of other languages: what is written here instead.

use super::Parser;
use crate::token::TokenKind;

/// A mistake is looked for in so many tokens before the one that can't be parsed.
const TOKENS_MAX: usize = 200;

impl Parser<'_> {
    /// What to write instead, if what is before the current token looks like another language.
    pub(super) fn foreign_hint(&self, expected: &str) -> Option<&'static str> {
        let found = self.peek();
        let before = self.at.checked_sub(1).map(|at| self.tokens[at].kind);
        match (before, found) {
            (Some(TokenKind::Star), TokenKind::Star) => return Some("a power is written `x ^ 2`"),
            (Some(TokenKind::Equals), TokenKind::Greater) => {
                return Some("an arm is written `| pattern -> value`, a function `\\x -> value`");
            }
            (_, TokenKind::Backslash) => return Some("a function as an argument needs parentheses: `f (\\x -> x)`"),
            (_, TokenKind::Dot) if expected.contains("operator") => {
                return Some("a field directly follows its dot: `r.x`; the composition of functions is `f << g`");
            }
            _ => {}
        }
        let words = match found {
            TokenKind::Then => ["elif", "elsif", "elseif"].as_slice(),
            TokenKind::Arrow => &["fun", "fn", "function", "lambda", "case", "of"],
            TokenKind::Equals | TokenKind::Bar | TokenKind::Colon => &["where", "data", "newtype"],
            _ => &[],
        };
        let earlier = self.tokens[..self.at].iter().rev().take(TOKENS_MAX);
        let mut earlier = earlier.take_while(|token| token.kind != TokenKind::Def).map(|token| token.kind);
        let word = earlier.find_map(|kind| match kind {
            TokenKind::Lower(name) => words.iter().find(|&&word| word == self.names.text(name)),
            _ => None,
        })?;
        Some(match *word {
            "case" | "of" => "a case distinction is written `match e with | pattern -> value | ..`",
            "where" => "there is no `where`: write `let x = .. in` before the value",
            "elif" | "elsif" | "elseif" => "write `else if`",
            "data" | "newtype" => "a data type is declared with `type`",
            _ => "a function is written `\\x -> value`",
        })
    }
}
