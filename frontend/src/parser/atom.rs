//! Atoms: literals, names, and everything in brackets, with what may directly follow an atom.

use super::expr::{CONS, binary_op, starts_text};
use super::foreign::CHANGED;
use super::{Parse, Parser};
use crate::ast::{BinaryOp, Expr, ExprId, ExprKind, Field, Side, TASKS_MAX};
use crate::diagnostics::Diagnostic;
use crate::names::Name;
use crate::token::TokenKind;

impl Parser<'_> {
    pub(super) fn starts_atom(&self) -> bool {
        matches!(
            self.peek(),
            TokenKind::Lower(_)
                | TokenKind::Upper(_)
                | TokenKind::Int(_)
                | TokenKind::Real(_)
                | TokenKind::Text(_)
                | TokenKind::TextStart(_)
                | TokenKind::True
                | TokenKind::False
                | TokenKind::Par
                | TokenKind::LeftParen
                | TokenKind::LeftArray
                | TokenKind::LeftBracket
                | TokenKind::LeftBrace
        )
    }

    /// An atom with indices and field accesses.
    pub(super) fn postfix(&mut self) -> Parse<ExprId> {
        let mut expr = self.atom()?;
        loop {
            if !self.token().glued {
                return Ok(expr);
            }
            expr = match (self.peek(), self.peek_next()) {
                (TokenKind::LeftBracket, _) => {
                    let (subscripts, close) = self.subscripts()?;
                    let span = self.span_of(expr).to(close);
                    self.make(ExprKind::Index(expr, subscripts), span)?
                }
                (TokenKind::Dot, TokenKind::Lower(field)) => {
                    self.advance();
                    let field_span = self.advance().span;
                    let span = self.span_of(expr).to(field_span);
                    self.make(ExprKind::Access(expr, field, field_span), span)?
                }
                _ => return Ok(expr),
            };
        }
    }

    fn atom(&mut self) -> Parse<ExprId> {
        let span = self.span();
        let kind = match self.peek() {
            TokenKind::Lower(name) => {
                if starts_text(self.peek_next()) && self.names.text(name) == "error" {
                    self.advance();
                    let text = self.text()?;
                    return self.make(ExprKind::Fail(text), span.to(self.last_span()));
                }
                ExprKind::Var(name)
            }
            TokenKind::Upper(name) => ExprKind::Constructor(name),
            TokenKind::Int(value) => match i64::try_from(value) {
                Ok(value) => ExprKind::Int(value),
                Err(_) => {
                    let error = Diagnostic::error(span, "integer literal out of range")
                        .label(format!("the largest `Int` is {}", i64::MAX))
                        .help(format!("write it with a dot or an exponent to make it a `Real`: `{value}.0`"));
                    self.sink.push(error);
                    ExprKind::Error
                }
            },
            TokenKind::Real(value) => ExprKind::Real(value),
            TokenKind::Text(_) | TokenKind::TextStart(_) => {
                if let Some(error) = self.misplaced_text() {
                    return self.fail(error);
                }
                self.text()?;
                let error = Diagnostic::error(span.to(self.last_span()), "a text is no value");
                let help =
                    "a text can only follow `error`, `trace` or the condition of `assert`: `error \"no solution\"`";
                self.sink.push(error.help(help));
                return self.make(ExprKind::Error, span.to(self.last_span()));
            }
            TokenKind::True => ExprKind::Bool(true),
            TokenKind::False => ExprKind::Bool(false),
            TokenKind::Par => return self.tasks(),
            TokenKind::LeftParen => return self.nested(Self::parenthesised),
            TokenKind::LeftArray => return self.nested(Self::array),
            TokenKind::LeftBracket => return self.nested(Self::list),
            TokenKind::LeftBrace => return self.nested(Self::record),
            _ => return self.unexpected("an expression", None),
        };
        self.advance();
        self.make(kind, span)
    }

    /// `(e)`, `(e : T)`, `(a, b)`, `()`, `(op)` and sections.
    fn parenthesised(&mut self) -> Parse<ExprId> {
        let open = self.advance().span;
        if let Some((op, strength)) = section_op(self.peek())
            && (op != BinaryOp::Sub || self.peek_next() == TokenKind::RightParen)
        {
            self.advance();
            return self.after_operator(op, strength, open);
        }
        let mut parts = Vec::new();
        let mut is_tuple = true;
        while self.peek() != TokenKind::RightParen {
            let mut part = self.expr()?;
            if self.eat(TokenKind::Colon) {
                let ty = self.type_expr()?;
                let span = self.span_of(part).to(self.last_span());
                part = self.make(ExprKind::Ascribe(part, ty), span)?;
            } else if parts.is_empty()
                && let Some((op, _)) = section_op(self.peek())
                && self.peek_next() == TokenKind::RightParen
            {
                return self.left_section(op, part, open);
            }
            parts.push(part);
            is_tuple = self.eat(TokenKind::Comma);
            if !is_tuple {
                break;
            }
        }
        let close = self.close(TokenKind::RightParen, "an operator, `,` or `)`", open)?;
        match parts[..] {
            [single] if !is_tuple => Ok(single),
            _ => self.make(ExprKind::Tuple(parts), open.to(close)),
        }
    }

    /// `par (a, b, c)`.
    fn tasks(&mut self) -> Parse<ExprId> {
        let start = self.advance().span;
        let open = self.span();
        if self.peek() != TokenKind::LeftParen {
            return self.unexpected("`(`", Some("tasks are written `par (a, b, c)`"));
        }
        let tuple = self.nested(Self::parenthesised)?;
        let span = start.to(self.last_span());
        let node = &mut self.ast.exprs[tuple];
        let parts = match &mut node.kind {
            ExprKind::Tuple(parts) if node.span.start == open.start => std::mem::take(parts),
            _ => vec![tuple],
        };
        let (bound, help) = match parts.len() {
            2..=TASKS_MAX => {
                *node = Expr { kind: ExprKind::Par(parts), span, height: node.height };
                return Ok(tuple);
            }
            0 | 1 => ("at least two tasks", "a single task is an expression without `par`".to_owned()),
            _ => {
                let help = "many tasks of one kind are `pmap` or `pbuild`; others can be nested, `par (par (a, b), c)`";
                ("at most 256 tasks", help.to_owned())
            }
        };
        let error = Diagnostic::error(span, format!("`par` takes {bound}, found {}", parts.len())).help(help);
        self.sink.push(error);
        self.make(ExprKind::Error, span)
    }

    /// `(op)` or `(op e)`, after the operator.
    fn after_operator(&mut self, op: BinaryOp, strength: u8, open: crate::source::Span) -> Parse<ExprId> {
        if self.peek() == TokenKind::RightParen {
            let close = self.advance().span;
            return self.make(ExprKind::Operator(op), open.to(close));
        }
        let operand = match op {
            BinaryOp::Pow => self.nested(Self::prefix)?,
            _ => {
                let own = u8::from(!op.is_right_associative());
                self.nested(|parser| parser.binary(strength + own))?
            }
        };
        if section_op(self.peek()).is_some() {
            let error = self.unexpected_error("`)`").also(open, "opened here");
            return self.fail(error.help(format!("write `({} (..))`: the operand needs parentheses", op.symbol())));
        }
        let close = self.close(TokenKind::RightParen, "`)`", open)?;
        self.make(ExprKind::Section(op, Side::Right, operand), open.to(close))
    }

    /// `(e op)`, before the operator.
    fn left_section(&mut self, op: BinaryOp, operand: ExprId, open: crate::source::Span) -> Parse<ExprId> {
        let is_loose = matches!(self.ast.exprs[operand].kind, ExprKind::Binary(..) | ExprKind::Negate(_));
        let is_parenthesised = self.tokens[self.at - 1].kind == TokenKind::RightParen;
        if op == BinaryOp::Pow && is_loose && !is_parenthesised {
            return self.tight_section(op);
        }
        self.advance();
        let close = self.advance().span;
        self.make(ExprKind::Section(op, Side::Left, operand), open.to(close))
    }

    /// `(a + b *)`.
    pub(super) fn tight_section<T>(&mut self, op: BinaryOp) -> Parse<T> {
        let message = format!("`{}` binds more tightly than what is before it", op.symbol());
        let error = Diagnostic::error(self.span(), message);
        self.fail(error.help(format!("put all of its operand in parentheses: `((..) {})`", op.symbol())))
    }

    /// `{ x = a, y }` or `{ r with x = a }`.
    fn record(&mut self) -> Parse<ExprId> {
        let open = self.advance().span;
        let is_field = matches!(self.peek(), TokenKind::Lower(_))
            && matches!(
                self.peek_next(),
                TokenKind::Equals | TokenKind::Comma | TokenKind::RightBrace | TokenKind::Colon
            );
        if is_field {
            let fields = self.fields()?;
            let close = self.close(TokenKind::RightBrace, "an operator, `,` or `}`", open)?;
            return self.make(ExprKind::Record(fields), open.to(close));
        }
        if self.peek() == TokenKind::RightBrace {
            return self.unexpected("the name of a field", Some("a record has at least one field; unit is `()`"));
        }
        let record = self.expr()?;
        self.close(TokenKind::With, "`=` or `with`", open)?;
        if self.peek() == TokenKind::LeftBracket {
            return self.replacements(record, open);
        }
        if !matches!(self.peek(), TokenKind::Lower(_)) {
            return self.unexpected("the name of a field", Some(CHANGED));
        }
        let fields = self.fields()?;
        let last = fields[fields.len() - 1];
        if let (Some(symbol), true) = (self.updating_operator(), self.last_span() == last.name_span) {
            let record = match self.ast.exprs[record].kind {
                ExprKind::Var(name) => self.names.text(name),
                _ => "r",
            };
            let field = self.names.text(last.name);
            let help = format!("the new value is written out: `{field} = {record}.{field} {symbol} ..`");
            return self.unexpected("`=`", Some(&help));
        }
        if self.token().glued
            && self.last_span() == last.name_span
            && matches!(self.peek(), TokenKind::LeftBracket | TokenKind::Dot)
        {
            return self.changed_part(record, last.name);
        }
        let close = self.close(TokenKind::RightBrace, "an operator, `,` or `}`", open)?;
        self.make(ExprKind::Update(record, fields), open.to(close))
    }

    /// The error about what follows a name in `{ r with x[0] = e }` and the like.
    fn changed_part<T>(&mut self, record: ExprId, name: Name) -> Parse<T> {
        let error = Diagnostic::error(self.span(), format!("expected `=`, found {}", self.peek()));
        let is_record = matches!(self.ast.exprs[record].kind, ExprKind::Var(found) if found == name);
        let part = "what is in a field is changed in a copy of that: `{ r with x = { r.x with [0] = 1 } }`";
        self.fail(error.label("expected `=`").help(if is_record { CHANGED } else { part }))
    }

    fn fields(&mut self) -> Parse<Vec<Field>> {
        let mut fields = Vec::new();
        loop {
            let (name, name_span) = self.lower_name("the name of a field")?;
            let value = match self.peek() {
                TokenKind::Equals => {
                    self.advance();
                    self.expr()?
                }
                TokenKind::Colon => return self.unexpected("`=`", Some("the value of a field is written `x = 1.0`")),
                _ => self.make(ExprKind::Var(name), name_span)?,
            };
            fields.push(Field { name, name_span, value });
            if !self.eat(TokenKind::Comma) || self.peek() == TokenKind::RightBrace {
                return Ok(fields);
            }
        }
    }
}

/// The operators of sections: all with two operands.
fn section_op(kind: TokenKind) -> Option<(BinaryOp, u8)> {
    match kind {
        TokenKind::Caret => Some((BinaryOp::Pow, u8::MAX)),
        TokenKind::Cons => Some((BinaryOp::Cons, CONS)),
        TokenKind::Append => Some((BinaryOp::Append, CONS)),
        _ => binary_op(kind),
    }
}
