//! Types as written.

use super::{Parse, Parser};
use crate::ast::{FieldType, NESTING_MAX, TypeExprId, TypeExprKind};
use crate::diagnostics::Diagnostic;
use crate::names::Name;
use crate::token::TokenKind;

impl Parser<'_> {
    /// Any type. A chain of arrows is one node.
    pub(super) fn type_expr(&mut self) -> Parse<TypeExprId> {
        let first = self.type_application()?;
        if self.peek() != TokenKind::Arrow {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.eat(TokenKind::Arrow) {
            parts.push(self.type_application()?);
            if parts.len() > NESTING_MAX as usize {
                return self.too_deep(self.last_span());
            }
        }
        let span = self.ast.types[first].span.to(self.last_span());
        self.make_type(TypeExprKind::Function(parts), span)
    }

    /// A name with arguments, or an atom.
    fn type_application(&mut self) -> Parse<TypeExprId> {
        let TokenKind::Upper(name) = self.peek() else {
            let atom = self.type_atom()?;
            return match self.ast.types[atom].kind {
                TypeExprKind::Var(name) if self.starts_type_atom() => self.collection_type(name, atom),
                _ => Ok(atom),
            };
        };
        let start = self.advance().span;
        let mut args = Vec::new();
        while self.starts_type_atom() {
            args.push(self.type_atom()?);
        }
        let span = start.to(self.last_span());
        self.make_type(TypeExprKind::Named(name, args), span)
    }

    /// `c a`, after the `c`.
    fn collection_type(&mut self, name: Name, variable: TypeExprId) -> Parse<TypeExprId> {
        let element = self.type_atom()?;
        let span = self.ast.types[variable].span.to(self.last_span());
        if self.starts_type_atom() {
            let error = Diagnostic::error(self.span(), format!("`{}` takes 1 argument", self.names.text(name)));
            let error = error.label("one too many");
            self.sink.push(error.note("a type variable with an argument stands for `List` or `Array`"));
            while self.starts_type_atom() {
                self.type_atom()?;
            }
        }
        self.make_type(TypeExprKind::Collection(name, element), span)
    }

    pub(super) fn starts_type_atom(&self) -> bool {
        let kind = self.peek();
        matches!(kind, TokenKind::Upper(_) | TokenKind::Lower(_) | TokenKind::LeftParen | TokenKind::LeftBrace)
    }

    pub(super) fn type_atom(&mut self) -> Parse<TypeExprId> {
        let span = self.span();
        match self.peek() {
            TokenKind::Upper(name) => {
                self.advance();
                self.make_type(TypeExprKind::Named(name, Vec::new()), span)
            }
            TokenKind::LeftParen => self.nested(Self::parenthesised_type),
            TokenKind::LeftBrace => self.nested(Self::record_type),
            TokenKind::Lower(name) => {
                self.advance();
                let meant = match self.names.text(name) {
                    "real" | "float" | "double" => Some("Real"),
                    "int" | "integer" => Some("Int"),
                    "bool" | "boolean" => Some("Bool"),
                    "unit" => Some("()"),
                    "list" => Some("List"),
                    "array" => Some("Array"),
                    _ => None,
                };
                let Some(meant) = meant else { return self.make_type(TypeExprKind::Var(name), span) };
                let error = Diagnostic::error(span, "the name of a type starts with a capital letter");
                self.sink.push(error.help(format!("write `{meant}`; small letters are type variables")));
                self.make_type(TypeExprKind::Error, span)
            }
            TokenKind::LeftBracket => self.unexpected("a type", Some("a type of lists is written `List T`")),
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
        let close = self.close(TokenKind::RightParen, "`->`, `,` or `)`", open)?;
        match parts[..] {
            [single] if !is_tuple => Ok(single),
            _ => self.make_type(TypeExprKind::Tuple(parts), open.to(close)),
        }
    }

    /// `{ x : A, y : B }`.
    fn record_type(&mut self) -> Parse<TypeExprId> {
        let open = self.advance().span;
        let mut fields = Vec::new();
        loop {
            let (name, name_span) = self.lower_name("the name of a field")?;
            let help = (self.peek() == TokenKind::Equals).then_some("the type of a field is written `x : Real`");
            if self.peek() != TokenKind::Colon {
                return self.unexpected("`:`", help);
            }
            self.advance();
            fields.push(FieldType { name, name_span, ty: self.type_expr()? });
            if !self.eat(TokenKind::Comma) || self.peek() == TokenKind::RightBrace {
                break;
            }
        }
        let close = self.close(TokenKind::RightBrace, "`->`, `,` or `}`", open)?;
        self.make_type(TypeExprKind::Record(fields), open.to(close))
    }
}
