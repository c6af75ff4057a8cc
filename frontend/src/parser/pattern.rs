//! Patterns.

use super::{Parse, Parser};
use crate::ast::{PatternId, PatternKind};
use crate::token::TokenKind;

impl Parser<'_> {
    pub(super) fn starts_pattern(&self) -> bool {
        matches!(self.peek(), TokenKind::Lower(_) | TokenKind::Upper(_) | TokenKind::Underscore | TokenKind::LeftParen)
    }

    /// A name, `_`, or something in parentheses.
    pub(super) fn pattern_atom(&mut self) -> Parse<PatternId> {
        let span = self.span();
        match self.peek() {
            TokenKind::Underscore => {
                self.advance();
                Ok(self.ast.pattern(PatternKind::Wildcard, span))
            }
            TokenKind::LeftParen => self.nested(Self::parenthesised_pattern),
            _ => {
                let (name, span) = self.lower_name("a name, `_` or a tuple pattern")?;
                Ok(self.ast.pattern(PatternKind::Var(name), span))
            }
        }
    }

    /// A pattern with an optional type: `x : Real`.
    pub(super) fn pattern(&mut self) -> Parse<PatternId> {
        let pattern = self.pattern_atom()?;
        if !self.eat(TokenKind::Colon) {
            return Ok(pattern);
        }
        let ty = self.type_expr()?;
        let span = self.ast.patterns[pattern].span.to(self.last_span());
        Ok(self.ast.pattern(PatternKind::Ascribe(pattern, ty), span))
    }

    fn parenthesised_pattern(&mut self) -> Parse<PatternId> {
        let open = self.advance().span;
        let mut parts = Vec::new();
        let mut is_tuple = true;
        while self.peek() != TokenKind::RightParen {
            parts.push(self.pattern()?);
            is_tuple = self.eat(TokenKind::Comma);
            if !is_tuple {
                break;
            }
        }
        let close = self.close(TokenKind::RightParen, "`,` or `)`", open)?;
        match parts[..] {
            [single] if !is_tuple => Ok(single),
            _ => Ok(self.ast.pattern(PatternKind::Tuple(parts), open.to(close))),
        }
    }
}
