//! Types as written.

use super::{Parse, Parser};
use crate::ast::{TypeExprId, TypeExprKind};
use crate::diagnostics::Diagnostic;
use crate::token::TokenKind;

impl Parser<'_> {
    /// A type: a name with arguments, or an atom.
    pub(super) fn type_expr(&mut self) -> Parse<TypeExprId> {
        let TokenKind::Upper(name) = self.peek() else {
            let ty = self.type_atom()?;
            return self.no_arrow(ty);
        };
        let start = self.advance().span;
        let mut args = Vec::new();
        while matches!(self.peek(), TokenKind::Upper(_) | TokenKind::Lower(_) | TokenKind::LeftParen) {
            args.push(self.type_atom()?);
        }
        let span = start.to(self.last_span());
        let ty = self.ast.type_expr(TypeExprKind::Named(name, args), span);
        self.no_arrow(ty)
    }

    fn no_arrow(&mut self, ty: TypeExprId) -> Parse<TypeExprId> {
        if self.peek() != TokenKind::Arrow {
            return Ok(ty);
        }
        let error = Diagnostic::error(self.span(), "function types are not supported yet")
            .help("give each parameter its type: `def f (x : Real) (n : Int) : Real = ..`");
        self.fail(error)
    }

    fn type_atom(&mut self) -> Parse<TypeExprId> {
        let span = self.span();
        match self.peek() {
            TokenKind::Upper(name) => {
                self.advance();
                Ok(self.ast.type_expr(TypeExprKind::Named(name, Vec::new()), span))
            }
            TokenKind::LeftParen => self.nested(Self::parenthesised_type),
            TokenKind::Lower(name) => {
                let text = self.names.text(name).to_owned();
                self.advance();
                let error = Diagnostic::error(span, format!("type variables like `{text}` are not supported yet"))
                    .help("leave the type out: it is inferred, and may be polymorphic");
                self.sink.push(error);
                Ok(self.ast.type_expr(TypeExprKind::Error, span))
            }
            _ => self.unexpected("a type", None),
        }
    }

    fn parenthesised_type(&mut self) -> Parse<TypeExprId> {
        let open = self.advance().span;
        let mut parts = Vec::new();
        let mut is_tuple = true;
        while self.peek() != TokenKind::RightParen {
            parts.push(self.type_expr()?);
            is_tuple = self.eat(TokenKind::Comma);
            if !is_tuple {
                break;
            }
        }
        let close = self.close(TokenKind::RightParen, "`,` or `)`", open)?;
        match parts[..] {
            [single] if !is_tuple => Ok(single),
            _ => Ok(self.ast.type_expr(TypeExprKind::Tuple(parts), open.to(close))),
        }
    }
}
