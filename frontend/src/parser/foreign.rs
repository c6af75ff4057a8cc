//! Hints for syntax of other languages: what is written here instead.

use super::Parser;
use crate::token::TokenKind;

/// A mistake is looked for in so many tokens before the one that can't be parsed.
const TOKENS_MAX: usize = 200;

impl Parser<'_> {
    /// What to write instead, if what is before the current token looks like another language.
    pub(super) fn foreign_hint(&self, expected: &str) -> Option<String> {
        let found = self.peek();
        let is_name = ["pattern", "name"].iter().any(|name| expected.contains(name));
        match found.keyword().filter(|_| is_name) {
            Some(keyword) => Some(format!("`{keyword}` is a keyword, and no name")),
            None => self.other_language(expected).map(str::to_owned),
        }
    }

    fn other_language(&self, expected: &str) -> Option<&'static str> {
        let found = self.peek();
        let before = self.at.checked_sub(1).map(|at| self.tokens[at].kind);
        let is_operator = expected.contains("operator");
        match (before, found) {
            (Some(TokenKind::Slash), TokenKind::Equals) => return Some("inequality is written `!=`"),
            (_, TokenKind::Slash) if self.peek_next() == TokenKind::Slash => {
                return Some("comments start with `--`");
            }
            (_, TokenKind::AndAlso) if is_operator => return Some("logical and is `&&`"),
            (_, TokenKind::While | TokenKind::For) if expected.contains("expression") => {
                return Some("a loop has an accumulator: `loop x = start while condition do next`");
            }
            (_, TokenKind::Dot) if matches!(self.peek_next(), TokenKind::Int(_)) => {
                return Some("a number has a digit before its dot: `0.5`");
            }
            (_, TokenKind::Arrow) if expected.contains('=') => {
                return Some("the type of the result stands after a colon: `def f (x : Real) : Real = ..`");
            }
            (_, TokenKind::At) if is_operator => {
                return Some("the product of matrices is `linalg.matmul a b`, with `import linalg` in the first line");
            }
            (_, TokenKind::At) => return Some("a name for what is matched stands before it: `all@(x :: rest)`"),
            (_, TokenKind::LeftBrace) if expected.contains("constructor") => {
                return Some(
                    "a type of records gets a name by `alias P = { .. }`, or here with a constructor: `P { .. }`",
                );
            }
            (Some(TokenKind::Star), TokenKind::Star) => return Some("a power is written `x ^ 2`"),
            (Some(TokenKind::Equals), TokenKind::Greater) => {
                return Some("an arm is written `| pattern -> value`, a function `\\x -> value`");
            }
            (_, TokenKind::Backslash) => return Some("a function as an argument needs parentheses: `f (\\x -> x)`"),
            (_, TokenKind::Dot) if is_operator => {
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
        });
        let is_lambda = found == TokenKind::Arrow && is_operator && matches!(before, Some(TokenKind::Lower(_)));
        let word = word.or(is_lambda.then_some(&"lambda"))?;
        Some(match *word {
            "case" | "of" => "a case distinction is written `match e with | pattern -> value | ..`",
            "where" => "there is no `where`: write `let x = .. in` before the value",
            "elif" | "elsif" | "elseif" => "write `else if`",
            "data" | "newtype" => "a data type is declared with `type`",
            _ => "a function is written `\\x -> value`",
        })
    }
}
