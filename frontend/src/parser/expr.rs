//! Expressions. From loose to tight:
//!
//! ```text
//! let in, if then else, loop do     as far right as possible
//! ||                                left
//! &&                                left
//! == != < <= > >=                   not associative
//! + -                               left
//! * / %                             left
//! - (prefix)
//! ^                                 right
//! f a b                             application
//! a[i]                              index, the bracket directly after the array
//! ```

use super::{Parse, Parser};
use crate::ast::{BinaryOp, Comparison, ExprId, ExprKind, Generator, Iteration, Let, PatternKind};
use crate::diagnostics::Diagnostic;
use crate::source::Span;
use crate::token::TokenKind;

/// The binding strength of comparisons, which don't associate.
const COMPARISON: u8 = 3;

fn binary_op(kind: TokenKind) -> Option<(BinaryOp, u8)> {
    let compare = |comparison| Some((BinaryOp::Compare(comparison), COMPARISON));
    match kind {
        TokenKind::Or => Some((BinaryOp::Or, 1)),
        TokenKind::And => Some((BinaryOp::And, 2)),
        TokenKind::EqualEqual => compare(Comparison::Equal),
        TokenKind::NotEqual => compare(Comparison::NotEqual),
        TokenKind::Less => compare(Comparison::Less),
        TokenKind::LessEqual => compare(Comparison::LessEqual),
        TokenKind::Greater => compare(Comparison::Greater),
        TokenKind::GreaterEqual => compare(Comparison::GreaterEqual),
        TokenKind::Plus => Some((BinaryOp::Add, 4)),
        TokenKind::Minus => Some((BinaryOp::Sub, 4)),
        TokenKind::Star => Some((BinaryOp::Mul, 5)),
        TokenKind::Slash => Some((BinaryOp::Div, 5)),
        TokenKind::Percent => Some((BinaryOp::Rem, 5)),
        _ => None,
    }
}

impl Parser<'_> {
    /// Any expression.
    pub(super) fn expr(&mut self) -> Parse<ExprId> {
        self.nested(|parser| parser.binary(1))
    }

    fn span_of(&self, expr: ExprId) -> Span {
        self.ast.exprs[expr].span
    }

    /// Operators that bind at least as strongly as `strength`.
    fn binary(&mut self, strength: u8) -> Parse<ExprId> {
        let mut left = self.prefix()?;
        let mut compared = None;
        while let Some((op, op_strength)) = binary_op(self.peek()) {
            if op_strength < strength {
                break;
            }
            let op_span = self.advance().span;
            if op_strength == COMPARISON
                && let Some(first) = compared.replace(op_span)
            {
                let error = Diagnostic::error(op_span, "comparisons can't be chained")
                    .also(first, "the first comparison")
                    .help("write `a < b && b < c`");
                return self.fail(error);
            }
            let right = self.nested(|parser| parser.binary(op_strength + 1))?;
            if op_strength < COMPARISON {
                compared = None;
            }
            let span = self.span_of(left).to(self.span_of(right));
            left = self.make(ExprKind::Binary(op, left, right), span)?;
        }
        Ok(left)
    }

    fn prefix(&mut self) -> Parse<ExprId> {
        let start = self.span();
        match self.peek() {
            TokenKind::Minus => {
                self.advance();
                // The most negative integer has no positive counterpart.
                if self.peek() == TokenKind::Int(i64::MIN.unsigned_abs()) {
                    let end = self.advance().span;
                    return self.make(ExprKind::Int(i64::MIN), start.to(end));
                }
                let operand = self.nested(Self::prefix)?;
                self.make(ExprKind::Negate(operand), start.to(self.span_of(operand)))
            }
            TokenKind::Let => self.block(),
            TokenKind::If => self.conditional(),
            TokenKind::Loop => self.accumulation(),
            _ => self.power(),
        }
    }

    fn power(&mut self) -> Parse<ExprId> {
        let base = self.application()?;
        if !self.eat(TokenKind::Caret) {
            return Ok(base);
        }
        let exponent = self.nested(Self::prefix)?;
        let span = self.span_of(base).to(self.span_of(exponent));
        self.make(ExprKind::Binary(BinaryOp::Pow, base, exponent), span)
    }

    fn application(&mut self) -> Parse<ExprId> {
        let callee = self.postfix()?;
        let mut args = Vec::new();
        while self.starts_atom() {
            args.push(self.postfix()?);
        }
        let Some(&last) = args.last() else { return Ok(callee) };
        let span = self.span_of(callee).to(self.span_of(last));
        self.make(ExprKind::Apply(callee, args), span)
    }

    fn starts_atom(&self) -> bool {
        matches!(
            self.peek(),
            TokenKind::Lower(_)
                | TokenKind::Upper(_)
                | TokenKind::Int(_)
                | TokenKind::Real(_)
                | TokenKind::True
                | TokenKind::False
                | TokenKind::LeftParen
                | TokenKind::LeftArray
                | TokenKind::LeftBracket
                | TokenKind::LeftBrace
        )
    }

    /// An atom with indices.
    fn postfix(&mut self) -> Parse<ExprId> {
        let mut expr = self.atom()?;
        while self.peek() == TokenKind::LeftBracket && self.token().glued {
            let open = self.advance().span;
            let index = self.expr()?;
            let close = self.close(TokenKind::RightBracket, "`]`", open)?;
            let span = self.span_of(expr).to(close);
            expr = self.make(ExprKind::Index(expr, index), span)?;
        }
        Ok(expr)
    }

    fn atom(&mut self) -> Parse<ExprId> {
        let span = self.span();
        let kind = match self.peek() {
            TokenKind::Lower(name) => ExprKind::Var(name),
            TokenKind::Int(value) => match i64::try_from(value) {
                Ok(value) => ExprKind::Int(value),
                Err(_) => {
                    let error = Diagnostic::error(span, "integer literal out of range")
                        .label(format!("the largest `Int` is {}", i64::MAX))
                        .help("write it with a dot or an exponent to make it a `Real`");
                    self.sink.push(error);
                    ExprKind::Error
                }
            },
            TokenKind::Real(value) => ExprKind::Real(value),
            TokenKind::True => ExprKind::Bool(true),
            TokenKind::False => ExprKind::Bool(false),
            TokenKind::LeftParen => return self.nested(Self::parenthesised),
            TokenKind::LeftArray => return self.nested(Self::array),
            TokenKind::LeftBracket => {
                return self.not_yet(
                    "lists are not supported yet",
                    Some("an array is written `[| a, b |]`; an index directly follows its array: `a[i]`"),
                );
            }
            TokenKind::LeftBrace => {
                return self.not_yet("records are not supported yet", Some("use a tuple: `(a, b)`"));
            }
            TokenKind::Upper(_) => return self.not_yet("data constructors are not supported yet", None),
            TokenKind::Backslash => {
                return self.not_yet("function values are not supported yet", Some("write a top-level `def`"));
            }
            _ => return self.unexpected("an expression", None),
        };
        self.advance();
        self.make(kind, span)
    }

    fn not_yet<T>(&mut self, message: &str, help: Option<&str>) -> Parse<T> {
        let error = Diagnostic::error(self.span(), message);
        self.fail(match help {
            Some(help) => error.help(help),
            None => error,
        })
    }

    /// `(e)`, `(e : T)`, `(a, b)`, `()`.
    fn parenthesised(&mut self) -> Parse<ExprId> {
        let open = self.advance().span;
        let mut parts = Vec::new();
        let mut is_tuple = true;
        while self.peek() != TokenKind::RightParen {
            let mut part = self.expr()?;
            if self.eat(TokenKind::Colon) {
                let ty = self.type_expr()?;
                let span = self.span_of(part).to(self.last_span());
                part = self.make(ExprKind::Ascribe(part, ty), span)?;
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

    /// `[| a, b |]` or `[| e for … |]`.
    fn array(&mut self) -> Parse<ExprId> {
        let open = self.advance().span;
        let mut parts = Vec::new();
        while self.peek() != TokenKind::RightArray {
            let part = self.expr()?;
            if parts.is_empty() && self.eat(TokenKind::For) {
                let generator = self.generator()?;
                let close = self.close(TokenKind::RightArray, "`|]`", open)?;
                return self.make(ExprKind::Comprehension { element: part, generator }, open.to(close));
            }
            parts.push(part);
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        let close = self.close(TokenKind::RightArray, "`,`, `for` or `|]`", open)?;
        self.make(ExprKind::Array(parts), open.to(close))
    }

    /// A chain of `let`s is one node, parsed without recursion.
    fn block(&mut self) -> Parse<ExprId> {
        let start = self.span();
        let mut lets = Vec::new();
        while self.eat(TokenKind::Let) {
            let pattern = self.pattern()?;
            if self.starts_pattern() && matches!(self.ast.patterns[pattern].kind, PatternKind::Var(_)) {
                return self.not_yet("local functions are not supported yet", Some("write a top-level `def`"));
            }
            self.expect(TokenKind::Equals, "`=`")?;
            let value = self.expr()?;
            self.close(TokenKind::In, "an operator or `in`", start)?;
            lets.push(Let::Value { pattern, value });
        }
        let body = self.expr()?;
        let span = start.to(self.span_of(body));
        self.make(ExprKind::Block(lets, body), span)
    }

    fn conditional(&mut self) -> Parse<ExprId> {
        let start = self.advance().span;
        let cond = self.expr()?;
        self.close(TokenKind::Then, "an operator or `then`", start)?;
        let then = self.expr()?;
        if matches!(self.peek(), TokenKind::Def | TokenKind::End) {
            let error = self.unexpected_error("`else`").also(start, "this `if`");
            return self.fail(error.help("an `if` is an expression: it needs a value in both cases"));
        }
        self.close(TokenKind::Else, "an operator or `else`", start)?;
        let other = self.expr()?;
        let span = start.to(self.span_of(other));
        self.make(ExprKind::If(cond, then, other), span)
    }

    fn accumulation(&mut self) -> Parse<ExprId> {
        let start = self.advance().span;
        let pattern = self.pattern()?;
        self.expect(TokenKind::Equals, "`=`")?;
        let init = self.expr()?;
        let iteration = if self.eat(TokenKind::For) {
            Iteration::For(self.generator()?)
        } else {
            self.close(TokenKind::While, "an operator, `for` or `while`", start)?;
            Iteration::While(self.expr()?)
        };
        self.close(TokenKind::Do, "an operator or `do`", start)?;
        let body = self.expr()?;
        let span = start.to(self.span_of(body));
        self.make(ExprKind::Loop { pattern, init, iteration, body }, span)
    }

    /// What follows `for`.
    fn generator(&mut self) -> Parse<Generator> {
        let index = self.pattern_atom()?;
        let is_name = matches!(self.ast.patterns[index].kind, PatternKind::Var(_) | PatternKind::Wildcard);
        if is_name && self.eat(TokenKind::Less) {
            return Ok(Generator::Range { index, from: None, to: self.expr()? });
        }
        let expected = if is_name { "`<` or `in`" } else { "`in`" };
        if !matches!(self.peek(), TokenKind::In) {
            return self.unexpected(expected, Some("write `for i < n`, `for i in a .. b` or `for x in array`"));
        }
        self.advance();
        let first = self.expr()?;
        if !self.eat(TokenKind::DotDot) {
            return Ok(Generator::Elements { element: index, array: first });
        }
        if !is_name {
            let error = Diagnostic::error(self.ast.patterns[index].span, "a range binds a single name");
            return self.fail(error.label("expected a name or `_`"));
        }
        Ok(Generator::Range { index, from: Some(first), to: self.expr()? })
    }
}
