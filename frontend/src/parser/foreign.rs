//! Hints for syntax of other languages: what is written here instead.

use super::Parser;
use super::expr::binary_op;
use crate::ast::BinaryOp;
use crate::diagnostics::Diagnostic;
use crate::library;
use crate::source::Span;
use crate::token::TokenKind;

/// A mistake is looked for in so many tokens before the one that can't be parsed.
const TOKENS_MAX: usize = 200;

const CHOICE: &str = "a choice is written `if c then a else b`";
const FUNCTION: &str = "a function is written `\\x -> value`";
const CASES: &str = "a case distinction is written `match e with | pattern -> value | ..`";
/// How records, arrays and matrices are changed.
pub(super) const CHANGED: &str =
    "a changed copy is `{ r with x = 1 }`, of an array `{ xs with [i] = 1 }`, of a matrix `{ m with [i, j] = 1 }`";
/// How to get at the parts of a tuple.
pub(crate) const PARTS: &str =
    "the parts of a tuple get names: `let (a, b) = p in ..`; those of a pair are `fst p` and `snd p`";

/// What is said of `error`, `assert` or `trace` where no text stands in its place.
pub(crate) fn without_text(word: &str, span: Span) -> Option<Diagnostic> {
    let (takes, help) = match word {
        "error" => ("a text", "write `error \"x = {x}\"`: a text can't be computed, but it may show values in braces"),
        "assert" => ("a condition and a text", "write `let () = assert (x > 0) \"x must be positive\" in ..`"),
        "trace" => ("a text and a value", "write `trace \"x = {x}\" x`"),
        _ => return None,
    };
    let error = Diagnostic::error(span, format!("`{word}` takes {takes}"));
    let error = if word == "assert" { error } else { error.label("no text in quotes follows") };
    Some(error.help(help))
}

impl Parser<'_> {
    /// The error about a word that the text here was meant for, as in `assert x > 0 "text"` or `error ("text")`.
    pub(super) fn misplaced_text(&self) -> Option<Diagnostic> {
        let ends = |kind: TokenKind| {
            kind.keyword().is_some() || matches!(kind, TokenKind::Equals | TokenKind::Text(_) | TokenKind::TextEnd(_))
        };
        let earlier = self.tokens[..self.at].iter().rev().take(TOKENS_MAX);
        earlier.take_while(|token| !ends(token.kind)).find_map(|token| match token.kind {
            TokenKind::Lower(name) => without_text(self.names.text(name), token.span),
            _ => None,
        })
    }

    /// What to write instead, if what is before the current token looks like another language.
    pub(super) fn foreign_hint(&self, expected: &str) -> Option<String> {
        let is_name = takes_name(expected);
        let keyword = || self.peek().keyword().filter(|_| is_name);
        let other = self.foreign_symbol(expected).or_else(|| self.assignment(expected));
        let other = other.or_else(|| self.foreign_word(expected));
        match other.or_else(|| self.foreign_colon(expected)) {
            Some(hint) => Some(hint.to_owned()),
            None => keyword().map(|keyword| format!("`{keyword}` is a keyword, and no name")),
        }
    }

    /// What the symbols around the current token are instead.
    fn foreign_symbol(&self, expected: &str) -> Option<&'static str> {
        use TokenKind as T;
        let found = self.token();
        let before = self.at.checked_sub(1).map(|at| self.tokens[at].kind);
        let is_operator = expected.contains("operator");
        let is_expression = expected.contains("expression");
        let is_name = takes_name(expected);
        Some(match (before, found.kind, self.peek_next()) {
            (Some(T::Slash), T::Equals, _) | (Some(T::Less), T::Greater, _) => "inequality is written `!=`",
            (Some(T::EqualEqual | T::NotEqual), T::Equals, _) => "equality is written `==`, inequality `!=`",
            (Some(T::Plus | T::Minus | T::Star), T::Equals, _) if found.glued => {
                "a value doesn't change: another one gets a name by `let y = x + 1 in ..`"
            }
            (Some(T::Colon), T::Equals, _) | (_, T::Colon, T::Equals) => "a value gets a name by `let x = .. in ..`",
            (Some(T::Slash), T::Slash, _) => "the quotient of integers is `a / b`; comments start with `--`",
            (_, T::Slash, T::Slash) => "comments start with `--`",
            (_, T::AndAlso, _) if is_operator => "logical and is `&&`",
            (_, T::Bar, _) if expected.contains("`for`") && expected.contains("]`") => {
                "a comprehension is written `[x * 2 for x in xs]`"
            }
            (_, T::Bar, _) if is_operator && !expected.contains("`with`") => {
                "logical or is `||`, that of bits `bit_or a b`"
            }
            (_, T::Bar, T::Lower(_)) if is_expression => FUNCTION,
            (_, T::For, _) if expected.contains("`)`") => {
                "a comprehension stands in brackets: `[| x * 2 for x in xs |]`"
            }
            (_, T::For, _) if before == Some(T::Loop) || is_expression => {
                "a loop has an accumulator: `loop s = 0.0 for x in xs do s + x`"
            }
            (_, T::While, _) if before == Some(T::Loop) || is_expression => {
                "a loop has an accumulator: `loop x = start while condition do next`"
            }
            (_, T::If, _) if is_operator => CHOICE,
            (Some(T::RightBrace), T::Else, _) if expected.contains("`then`") => {
                "a choice is written `if c then a else b`, without braces"
            }
            (_, T::Colon | T::Else, _) if expected.contains("`then`") => CHOICE,
            (_, T::Colon, _) if expected.contains("`..`") => {
                "a range is written `a .. b`; in brackets it may have only one end or none: `xs[a ..]`, `m[i, ..]`"
            }
            (Some(T::Real(_)), T::Dot, T::Int(_) | T::Real(_)) if found.glued => {
                "a number has one dot, before its exponent: `1.5e3`"
            }
            (Some(_), T::Dot, T::Int(_) | T::Real(_)) if found.glued && is_operator => PARTS,
            (_, T::Dot, T::Int(_)) => "a number has a digit before its dot: `0.5`",
            (_, T::Dot, T::Upper(name)) if found.glued && self.names.text(name) == "T" => {
                "the transpose of a matrix is `transpose m`"
            }
            (Some(T::Upper(module)), T::Dot, T::Upper(_))
                if let Some(hint) = library::foreign_hint(self.names.text(module)) =>
            {
                hint
            }
            (_, T::Dot, T::Upper(_)) if found.glued && is_operator => {
                "the name of a field starts with a small letter; what is in a module needs its `import`"
            }
            (Some(_), T::Dot, T::LeftParen | T::LeftBracket) if found.glued && is_operator => {
                "an element is `xs[0]`, a function of each element `map f xs`"
            }
            (_, T::Dot, _) if is_operator => {
                "a field directly follows its dot: `r.x`; the composition of functions is `f << g`"
            }
            (_, T::With, T::Bar) if !is_name => CASES,
            (_, T::With, _) if !is_name && before != Some(T::Match) => CHANGED,
            (_, T::Bar, _) if expected == "`=` or `with`" => CHANGED,
            (Some(T::LeftBrace), T::DotDot, _) => CHANGED,
            (_, T::Arrow, _) if expected == "`=` or `with`" => CASES,
            (_, T::DotDot, _) if expected == "a pattern" => "the first element and the rest of a list are `x :: rest`",
            (_, T::Arrow, _) if expected.contains('=') => {
                "the type of the result stands after a colon: `def f (x : Real) : Real = ..`"
            }
            (_, T::At, _) if is_operator => {
                "the product of matrices is `linalg.matmul a b`, with `import linalg` in the first line; lists and arrays \
                 are joined by `++`"
            }
            (_, T::At, _) => "a name for what is matched stands before it: `all@(x :: rest)`",
            (_, T::LeftParen, _) if expected == "the name of a constructor" => {
                "a type that is there already gets a name by `alias P = (Real, Real)`"
            }
            (_, T::LeftBrace, _) if expected.contains("constructor") => {
                "a type of records gets a name by `alias P = { .. }`, or here with a constructor: `P { .. }`"
            }
            (_, T::RightBrace, _) if expected == "`=` or `with`" => {
                "braces are for records, `{ x = 1.0 }`; a choice is written `if c then a else b`"
            }
            (Some(T::Upper(_)), T::LeftBracket | T::Less, _) => {
                "an argument of a type stands after it: `Array Real`, `List (Array Real)`"
            }
            (Some(T::Star), T::Star, _) => "a power is written `x ^ 2`",
            (_, T::Equals, T::Greater) if expected.contains("`then`") => "at least is written `>=`",
            (_, T::Equals, T::Greater) if is_operator => FUNCTION,
            (Some(T::Equals), T::Greater, _) => "an arm is written `| pattern -> value`, a function `\\x -> value`",
            (_, T::Backslash, _) => "a function as an argument needs parentheses: `f (\\x -> x)`",
            _ if expected == "`->` or `=`" || expected == "the type of the result" => {
                "the value stands after `=`, without `return`: `def f x = x + 1`, `def f x : Real = x + 1`"
            }
            _ => return None,
        })
    }

    /// What is written in place of an assignment: one of a name where a line or what a loop does starts with it, one
    /// of a part wherever a value does.
    fn assignment(&self, expected: &str) -> Option<&'static str> {
        if self.peek() != TokenKind::Equals || !expected.contains("operator") {
            return None;
        }
        use TokenKind::{Arrow, Do, Else, Equals, In, Then};
        let before = |at: usize| at.checked_sub(1).map(|before| self.tokens[before].kind);
        let is_statement = |at: usize| self.tokens[at].first || before(at) == Some(Do);
        let is_value = |at: usize| matches!(before(at), Some(Arrow | Else | Equals | In | Then));
        let start = (0..self.at).rev().take(TOKENS_MAX).find(|&at| is_statement(at) || is_value(at))?;
        let line: Vec<TokenKind> = self.tokens[start..self.at].iter().map(|token| token.kind).collect();
        match line[..] {
            [TokenKind::Lower(_)] if is_statement(start) => {
                Some("a value gets a name by `let x = .. in ..`; equality is written `==`")
            }
            [TokenKind::Lower(_), TokenKind::LeftBracket, .., TokenKind::RightBracket] => {
                Some("`{ xs with [0] = 1 }` is an array like `xs` with another element; equality is written `==`")
            }
            [TokenKind::Lower(_), TokenKind::Dot, TokenKind::Lower(_)] => {
                Some("`{ r with x = 1 }` is a record like `r` with another field; equality is written `==`")
            }
            _ => None,
        }
    }

    /// The operator of `+=` and its kin, if that is here.
    pub(super) fn updating_operator(&self) -> Option<&'static str> {
        let is_update = self.peek_next() == TokenKind::Equals && self.tokens[self.at + 1].glued;
        let (op, _) = binary_op(self.peek()).filter(|_| is_update)?;
        matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div).then(|| op.symbol())
    }

    /// What is written in place of a colon between operands.
    fn foreign_colon(&self, expected: &str) -> Option<&'static str> {
        let is_between = self.peek() == TokenKind::Colon && expected.contains("operator");
        is_between.then(|| match self.peek_next() {
            TokenKind::Upper(_) => "an expression with its type stands in parentheses: `(e : T)`",
            _ => "an element before a list is `x :: xs`; the integers from a to b - 1 are `range a b`",
        })
    }

    /// What a word before the current token is instead.
    fn foreign_word(&self, expected: &str) -> Option<&'static str> {
        let found = self.peek();
        let before = self.at.checked_sub(1).map(|at| self.tokens[at].kind);
        let words = match found {
            TokenKind::Then => ["elif", "elsif", "elseif"].as_slice(),
            TokenKind::Arrow => &["fun", "fn", "function", "lambda", "case", "of"],
            TokenKind::Equals | TokenKind::Bar | TokenKind::Colon => &["where", "data", "newtype"],
            _ => &[],
        };
        let earlier = self.tokens[..self.at].iter().rev().take(TOKENS_MAX);
        let earlier = earlier.map(|token| token.kind).take_while(|&kind| kind != TokenKind::Def);
        let word = earlier.clone().find_map(|kind| match kind {
            TokenKind::Lower(name) => words.iter().find(|&&word| word == self.names.text(name)),
            _ => None,
        });
        let is_arrow = found == TokenKind::Arrow && expected.contains("operator");
        let is_lambda = is_arrow && matches!(before, Some(TokenKind::Lower(_))) || self.is_lambda(earlier);
        let word = word.or(is_lambda.then_some(&"lambda"))?;
        Some(match *word {
            "case" | "of" => CASES,
            "where" => "there is no `where`: write `let x = .. in` before the value",
            "elif" | "elsif" | "elseif" => "write `else if`",
            "data" | "newtype" => "a data type is declared with `type`",
            _ => FUNCTION,
        })
    }

    /// Whether there is a `lambda x, y:` among the tokens before the current one, which are in reverse, and it.
    fn is_lambda(&self, earlier: impl Iterator<Item = TokenKind>) -> bool {
        // Whether only parameters were between here and a colon.
        let (mut has_colon, mut is_after_name) = (false, false);
        for kind in [self.peek()].into_iter().chain(earlier) {
            match kind {
                TokenKind::Colon => (has_colon, is_after_name) = (true, false),
                TokenKind::Lower(name) if has_colon && is_after_name && self.names.text(name) == "lambda" => {
                    return true;
                }
                TokenKind::Lower(_) => is_after_name = true,
                TokenKind::Comma => {}
                _ => has_colon = false,
            }
        }
        false
    }
}

/// Whether what is expected is a name or may be one.
fn takes_name(expected: &str) -> bool {
    ["pattern", "name"].iter().any(|name| expected.contains(name))
}
