//! Values as the language writes them, for hosts that read arguments from text: `-1.2`, `(1, [| 0.5, nan |])`.
//!
//! A [`Literal`] is not typed: `1` is an Int or a Real, and a host knows which from a function's interface.

use crate::diagnostics::{Diagnostic, Diagnostics, Sink};
use crate::lexer::lex;
use crate::limits::Meter;
use crate::names::Names;
use crate::source::{Source, SourceMap, Span};
use crate::token::{Token, TokenKind};
use dualvm_vm::value::VALUE_DEPTH_MAX;

/// How deep literals may nest: each step into a value takes a constructor's argument and its parentheses.
const NESTING_MAX: usize = 2 * VALUE_DEPTH_MAX + 2;

/// A value as written.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Literal {
    /// A number without dot or exponent.
    Int(i64),
    /// A number with dot or exponent, `nan` or `inf`.
    Real(f64),
    /// `true` or `false`.
    Bool(bool),
    /// `(a, b)`; unit without parts.
    Tuple(Vec<Literal>),
    /// `{ x = 1, y = 2 }`.
    Record(Vec<(String, Literal)>),
    /// `[a, b]`.
    List(Vec<Literal>),
    /// `[| a, b |]`.
    Array(Vec<Literal>),
    /// `Circle 1.5`, `Rect { width = 1, height = 2 }`, `Nothing`: a constructor and its arguments.
    Constructed(String, Vec<Literal>),
    /// `null`, which is printed for what has no derivative: only [`parse_derivative`] gives it.
    Null,
}

/// Reads a value in the language's literal syntax.
///
/// ```
/// use dualvm_frontend::{Literal, parse_literal};
///
/// let value = parse_literal("(-1.5, [| 1, 2 |])")?;
/// let array = Literal::Array(vec![Literal::Int(1), Literal::Int(2)]);
/// assert_eq!(value, Literal::Tuple(vec![Literal::Real(-1.5), array]));
/// # Ok::<(), dualvm_frontend::Diagnostics>(())
/// ```
///
/// # Errors
/// Where the text is no literal.
pub fn parse_literal(text: &str) -> Result<Literal, Diagnostics> {
    parse(text, false)
}

/// Reads a gradient, a tangent or a cotangent, as values print them: a literal in which `null` stands for what is
/// discrete.
///
/// ```
/// use dualvm_frontend::{Literal, parse_derivative};
///
/// let tangent = parse_derivative("(1.0, null)")?;
/// assert_eq!(tangent, Literal::Tuple(vec![Literal::Real(1.0), Literal::Null]));
/// # Ok::<(), dualvm_frontend::Diagnostics>(())
/// ```
///
/// # Errors
/// Where the text is no such literal.
pub fn parse_derivative(text: &str) -> Result<Literal, Diagnostics> {
    parse(text, true)
}

fn parse(text: &str, has_null: bool) -> Result<Literal, Diagnostics> {
    let (mut names, mut sink) = (Names::default(), Sink::default());
    let tokens = lex(text, 0, &mut names, &mut sink, &Meter::unlimited());
    if !sink.has_errors() {
        let mut reader = Reader { tokens: &tokens, at: 0, depth: 0, names: &names, has_null };
        match reader.whole() {
            Ok(literal) => return Ok(literal),
            Err(error) => sink.push(*error),
        }
    }
    Err(Diagnostics::new(SourceMap::of(Source::new("argument", text)), sink, None))
}

type Read<T> = Result<T, Box<Diagnostic>>;

struct Reader<'r> {
    tokens: &'r [Token],
    at: usize,
    depth: usize,
    names: &'r Names,
    /// Whether `null` is a value.
    has_null: bool,
}

impl Reader<'_> {
    fn whole(&mut self) -> Read<Literal> {
        let literal = self.literal()?;
        if self.peek() == TokenKind::End { Ok(literal) } else { Err(self.unexpected("the end of the value")) }
    }

    fn peek(&self) -> TokenKind {
        self.tokens[self.at].kind
    }

    fn advance(&mut self) -> Span {
        let span = self.tokens[self.at].span;
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        span
    }

    fn unexpected(&self, expected: &str) -> Box<Diagnostic> {
        let token = self.tokens[self.at];
        let message = format!("expected {expected}, found {}", token.kind);
        Box::new(Diagnostic::error(token.span, message).label(format!("expected {expected}")))
    }

    fn literal(&mut self) -> Read<Literal> {
        if self.depth >= NESTING_MAX {
            let error = Diagnostic::error(self.tokens[self.at].span, "the value is nested too deeply");
            return Err(Box::new(error.label(format!("more than {NESTING_MAX} levels"))));
        }
        self.depth += 1;
        let literal = crate::stack::grown(|| self.literal_here());
        self.depth -= 1;
        literal
    }

    fn literal_here(&mut self) -> Read<Literal> {
        match self.peek() {
            TokenKind::LeftParen => self.parenthesised(),
            TokenKind::LeftBracket => {
                Ok(Literal::List(self.list(TokenKind::RightBracket, "`,` or `]`", Self::literal)?.0))
            }
            TokenKind::LeftArray => {
                Ok(Literal::Array(self.list(TokenKind::RightArray, "`,` or `|]`", Self::literal)?.0))
            }
            TokenKind::LeftBrace => Ok(Literal::Record(self.list(TokenKind::RightBrace, "`,` or `}`", Self::field)?.0)),
            TokenKind::True | TokenKind::False => {
                let value = self.peek() == TokenKind::True;
                self.advance();
                Ok(Literal::Bool(value))
            }
            TokenKind::Upper(_) => {
                let name = self.constructor();
                let mut arguments = Vec::new();
                while self.is_argument() {
                    arguments.push(self.argument()?);
                }
                Ok(Literal::Constructed(name, arguments))
            }
            _ if self.is_null() => {
                self.advance();
                Ok(Literal::Null)
            }
            _ => self.number(),
        }
    }

    fn constructor(&mut self) -> String {
        let TokenKind::Upper(name) = self.peek() else { unreachable!("called at a capitalised name only") };
        self.advance();
        self.names.text(name).to_owned()
    }

    /// Whether an argument of a constructor begins here.
    fn is_argument(&self) -> bool {
        use TokenKind::{False, Int, LeftArray, LeftBrace, LeftBracket, LeftParen, Lower, Real, True, Upper};
        match self.peek() {
            LeftParen | LeftBracket | LeftArray | LeftBrace | True | False | Int(_) | Real(_) | Upper(_) => true,
            Lower(name) => matches!(self.names.text(name), "nan" | "inf") || self.is_null(),
            _ => false,
        }
    }

    fn is_null(&self) -> bool {
        self.has_null && matches!(self.peek(), TokenKind::Lower(name) if self.names.text(name) == "null")
    }

    /// An argument of a constructor; a constructor there takes none itself.
    fn argument(&mut self) -> Read<Literal> {
        match self.peek() {
            TokenKind::Upper(_) => Ok(Literal::Constructed(self.constructor(), Vec::new())),
            _ => self.literal(),
        }
    }

    fn number(&mut self) -> Read<Literal> {
        let negative = self.peek() == TokenKind::Minus;
        if negative {
            self.advance();
        }
        let sign = if negative { -1.0 } else { 1.0 };
        let literal = match self.peek() {
            TokenKind::Int(magnitude) => {
                let value = i128::from(magnitude) * if negative { -1 } else { 1 };
                let Ok(value) = i64::try_from(value) else {
                    let error = Diagnostic::error(self.tokens[self.at].span, "integer out of range");
                    return Err(Box::new(error.label(format!("the largest `Int` is {}", i64::MAX))));
                };
                // A host may want a real: only there zero has a sign.
                if value == 0 && negative { Literal::Real(-0.0) } else { Literal::Int(value) }
            }
            TokenKind::Real(value) => Literal::Real(sign * value),
            TokenKind::Lower(name) => match self.names.text(name) {
                "nan" => Literal::Real(f64::NAN),
                "inf" => Literal::Real(sign * f64::INFINITY),
                _ => return Err(self.unexpected("a value")),
            },
            _ => return Err(self.unexpected(if negative { "a number" } else { "a value" })),
        };
        self.advance();
        Ok(literal)
    }

    /// `(a, b)`; `(a)` is `a`.
    fn parenthesised(&mut self) -> Read<Literal> {
        let (mut parts, ends_with_comma) = self.list(TokenKind::RightParen, "`,` or `)`", Self::literal)?;
        match parts.pop() {
            Some(single) if parts.is_empty() && !ends_with_comma => Ok(single),
            last => {
                parts.extend(last);
                Ok(Literal::Tuple(parts))
            }
        }
    }

    fn field(&mut self) -> Read<(String, Literal)> {
        let TokenKind::Lower(name) = self.peek() else { return Err(self.unexpected("the name of a field")) };
        self.advance();
        if self.peek() != TokenKind::Equals {
            return Err(self.unexpected("`=`"));
        }
        self.advance();
        Ok((self.names.text(name).to_owned(), self.literal()?))
    }

    /// The parts between the current token and `close`, separated by commas; whether a comma comes last.
    fn list<T>(
        &mut self,
        close: TokenKind,
        expected: &str,
        part: impl Fn(&mut Self) -> Read<T>,
    ) -> Read<(Vec<T>, bool)> {
        let open = self.advance();
        let mut parts = Vec::new();
        let mut ends_with_comma = false;
        while self.peek() != close {
            if !parts.is_empty() && !ends_with_comma {
                let error = self.unexpected(expected);
                return Err(Box::new(error.also(open, "opened here")));
            }
            parts.push(part(self)?);
            ends_with_comma = self.peek() == TokenKind::Comma;
            if ends_with_comma {
                self.advance();
            }
        }
        self.advance();
        Ok((parts, ends_with_comma))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Literal::{Array, Bool, Constructed, Int, List, Real, Record, Tuple};

    fn read(text: &str) -> Literal {
        parse_literal(text).unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn literals_are_read_as_written() {
        assert_eq!(read("-1.2"), Real(-1.2));
        assert_eq!(read("3"), Int(3));
        assert_eq!(read("-9223372036854775808"), Int(i64::MIN));
        assert_eq!(read("true"), Bool(true));
        assert_eq!(read("()"), Tuple(vec![]));
        assert_eq!(read("(2)"), Int(2));
        assert_eq!(read("(0.5, 1e-3)"), Tuple(vec![Real(0.5), Real(1e-3)]));
        assert_eq!(read("[1, -2,]"), List(vec![Int(1), Int(-2)]));
        assert_eq!(read("[| (1, [||]) |]"), Array(vec![Tuple(vec![Int(1), Array(vec![])])]));
        let field = |name: &str, value| (name.to_owned(), value);
        assert_eq!(read("{ x = 1, y = -inf }"), Record(vec![field("x", Int(1)), field("y", Real(f64::NEG_INFINITY))]));
        assert!(matches!(read("nan"), Real(x) if x.is_nan()));
        assert!(matches!(read("-0"), Real(x) if x.is_sign_negative()));
    }

    #[test]
    fn constructors_take_what_follows_them() {
        let data = |name: &str, arguments| Constructed(name.to_owned(), arguments);
        assert_eq!(read("Nothing"), data("Nothing", vec![]));
        assert_eq!(read("Just (-1)"), data("Just", vec![Int(-1)]));
        let inner = data("Node", vec![data("Leaf", vec![]), Real(2.0)]);
        let outer = data("Node", vec![data("Leaf", vec![]), Real(2.5), inner]);
        assert_eq!(read("(Node Leaf 2.5 (Node Leaf 2.0), 1)"), Tuple(vec![outer, Int(1)]));
        let rect = Record(vec![("width".to_owned(), Int(1))]);
        assert_eq!(read("[Rect { width = 1 }, Unit]"), List(vec![data("Rect", vec![rect]), data("Unit", vec![])]));
        let deep = format!("{}1{}", "S (".repeat(VALUE_DEPTH_MAX), ")".repeat(VALUE_DEPTH_MAX));
        assert!(matches!(read(&deep), Constructed(..)));
    }

    #[test]
    fn null_is_a_literal_of_derivatives_only() {
        let data = Constructed("Pair".to_owned(), vec![Real(1.0), Literal::Null]);
        let record = Record(vec![("n".to_owned(), Literal::Null), ("null".to_owned(), data)]);
        assert_eq!(parse_derivative("{ n = null, null = Pair 1.0 null }"), Ok(record));
        assert_eq!(parse_derivative("null"), Ok(Literal::Null));
        for text in ["null", "(1.0, null)", "Pair null"] {
            assert!(parse_literal(text).is_err(), "{text}");
        }
        assert!(parse_derivative("-null").is_err() && parse_derivative("nul").is_err());
    }

    #[test]
    fn other_text_is_refused_where_it_goes_wrong() {
        for (text, message) in [
            ("", "expected a value, found the end of the file"),
            ("1 2", "expected the end of the value, found a number"),
            ("(1, x)", "expected a value, found a name"),
            ("[1 2]", "expected `,` or `]`, found a number"),
            ("{ x : 1 }", "expected `=`, found `:`"),
            ("Just -1", "expected the end of the value, found `-`"),
            ("-true", "expected a number, found `true`"),
            ("9223372036854775808", "integer out of range"),
        ] {
            let errors = parse_literal(text).unwrap_err();
            assert_eq!(errors.list()[0].message, message, "{text}");
        }
        assert!(parse_literal(&"(".repeat(1_000_000)).is_err());
    }
}
