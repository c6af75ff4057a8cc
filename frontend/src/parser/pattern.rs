//! Patterns. From loose to tight:
//!
//! ```text
//! p : T          in parentheses, and in `let` and `loop`
//! p | q          in parentheses
//! p :: q         right
//! C p q          a constructor with its arguments
//! x @ p, atoms
//! ```

use super::{Parse, Parser};
use crate::ast::{FieldPattern, PatternId, PatternKind};
use crate::diagnostics::Diagnostic;
use crate::source::Span;
use crate::token::TokenKind;

impl Parser<'_> {
    pub(super) fn starts_pattern(&self) -> bool {
        matches!(
            self.peek(),
            TokenKind::Lower(_)
                | TokenKind::Upper(_)
                | TokenKind::Int(_)
                | TokenKind::Real(_)
                | TokenKind::True
                | TokenKind::False
                | TokenKind::Underscore
                | TokenKind::LeftParen
                | TokenKind::LeftBracket
                | TokenKind::LeftBrace
        )
    }

    fn pattern_span(&self, pattern: PatternId) -> Span {
        self.ast.patterns[pattern].span
    }

    /// A pattern with an optional type: `x : Real`.
    pub(super) fn pattern(&mut self) -> Parse<PatternId> {
        let pattern = self.untyped_pattern()?;
        if !self.eat(TokenKind::Colon) {
            return Ok(pattern);
        }
        let ty = self.type_expr()?;
        let span = self.pattern_span(pattern).to(self.last_span());
        self.make_pattern(PatternKind::Ascribe(pattern, ty), span)
    }

    /// `p :: q :: rest`, one node.
    pub(super) fn untyped_pattern(&mut self) -> Parse<PatternId> {
        let first = self.pattern_application()?;
        if self.peek() != TokenKind::Cons {
            return Ok(first);
        }
        let mut heads = vec![first];
        while self.eat(TokenKind::Cons) {
            heads.push(self.pattern_application()?);
        }
        let tail = heads.pop().expect("there are at least two");
        let span = self.pattern_span(first).to(self.pattern_span(tail));
        self.make_pattern(PatternKind::Cons(heads, tail), span)
    }

    fn pattern_application(&mut self) -> Parse<PatternId> {
        let TokenKind::Upper(name) = self.peek() else { return self.pattern_atom() };
        let start = self.advance().span;
        let mut args = Vec::new();
        while self.starts_pattern() {
            args.push(self.pattern_atom()?);
        }
        let span = start.to(self.last_span());
        self.make_pattern(PatternKind::Constructor(name, args), span)
    }

    /// A pattern that needs no parentheses beside others.
    pub(super) fn pattern_atom(&mut self) -> Parse<PatternId> {
        let span = self.span();
        let kind = match self.peek() {
            TokenKind::Underscore => PatternKind::Wildcard,
            TokenKind::True => PatternKind::Bool(true),
            TokenKind::False => PatternKind::Bool(false),
            TokenKind::Int(_) | TokenKind::Real(_) | TokenKind::Minus => return self.number_pattern(),
            TokenKind::Upper(name) => PatternKind::Constructor(name, Vec::new()),
            TokenKind::LeftParen => return self.nested(Self::parenthesised_pattern),
            TokenKind::LeftBracket => return self.nested(Self::list_pattern),
            TokenKind::LeftBrace => return self.nested(Self::record_pattern),
            TokenKind::Lower(name) => {
                self.check_binding(name, span);
                self.advance();
                if !self.eat(TokenKind::At) {
                    return self.make_pattern(PatternKind::Var(name), span);
                }
                let inner = self.nested(Self::pattern_atom)?;
                let span = span.to(self.pattern_span(inner));
                return self.make_pattern(PatternKind::As(name, inner), span);
            }
            TokenKind::LeftArray => {
                return self.unexpected("a pattern", Some("arrays have no patterns: use an index, as in `a[0]`"));
            }
            TokenKind::Text(_) | TokenKind::TextStart(_) => {
                return self.unexpected("a pattern", Some("texts are no values: they follow `error`"));
            }
            _ => return self.unexpected("a pattern", None),
        };
        self.advance();
        self.make_pattern(kind, span)
    }

    fn number_pattern(&mut self) -> Parse<PatternId> {
        let start = self.span();
        let negative = self.eat(TokenKind::Minus);
        let kind = match self.peek() {
            TokenKind::Real(value) => PatternKind::Real(if negative { -value } else { value }),
            TokenKind::Int(value) => {
                let signed = if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() };
                let Some(signed) = signed else {
                    let error = Diagnostic::error(start.to(self.span()), "integer literal out of range");
                    return self.fail(error.label(format!("`Int` is from {} to {}", i64::MIN, i64::MAX)));
                };
                PatternKind::Int(signed)
            }
            _ => return self.unexpected("a number", None),
        };
        let span = start.to(self.advance().span);
        self.make_pattern(kind, span)
    }

    fn parenthesised_pattern(&mut self) -> Parse<PatternId> {
        let open = self.advance().span;
        let mut parts = Vec::new();
        let mut is_tuple = true;
        while self.peek() != TokenKind::RightParen {
            parts.push(self.alternatives()?);
            is_tuple = self.eat(TokenKind::Comma);
            if !is_tuple {
                break;
            }
        }
        if let (TokenKind::Lower(_), &[_, ..]) = (self.peek(), &parts[..]) {
            let error = self.unexpected_error("`,` or `)`").also(open, "opened here");
            return self.fail(error.help("each parameter has its own parentheses: `(x : Real) (y : Real)`"));
        }
        let close = self.close(TokenKind::RightParen, "`,` or `)`", open)?;
        match parts[..] {
            [single] if !is_tuple => Ok(single),
            _ => self.make_pattern(PatternKind::Tuple(parts), open.to(close)),
        }
    }

    /// `p | q | r`, with an optional type for all.
    fn alternatives(&mut self) -> Parse<PatternId> {
        let first = self.pattern()?;
        if self.peek() != TokenKind::Bar {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.eat(TokenKind::Bar) {
            parts.push(self.pattern()?);
        }
        let span = self.pattern_span(first).to(self.last_span());
        self.make_pattern(PatternKind::Or(parts), span)
    }

    fn list_pattern(&mut self) -> Parse<PatternId> {
        let open = self.advance().span;
        let mut parts = Vec::new();
        while self.peek() != TokenKind::RightBracket {
            parts.push(self.alternatives()?);
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        let close = self.close(TokenKind::RightBracket, "`,` or `]`", open)?;
        self.make_pattern(PatternKind::List(parts), open.to(close))
    }

    /// `{ x = p, y, .. }`; the dots are for the reader: fields that are not mentioned are ignored anyway.
    fn record_pattern(&mut self) -> Parse<PatternId> {
        let open = self.advance().span;
        let mut fields = Vec::new();
        while !matches!(self.peek(), TokenKind::RightBrace | TokenKind::DotDot) {
            let (name, name_span) = self.lower_name("the name of a field")?;
            let pattern = match self.eat(TokenKind::Equals) {
                true => self.alternatives()?,
                false => self.make_pattern(PatternKind::Var(name), name_span)?,
            };
            fields.push(FieldPattern { name, name_span, pattern });
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        self.eat(TokenKind::DotDot);
        let close = self.close(TokenKind::RightBrace, "`=`, `,` or `}`", open)?;
        self.make_pattern(PatternKind::Record(fields), open.to(close))
    }
}
