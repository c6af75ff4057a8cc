//! Lists, arrays and matrices: literals, comprehensions, what stands in brackets after an array, and changed elements.

use super::{Parse, Parser};
use crate::ast::{Clause, Comprehension, ExprId, ExprKind, Generator, Iteration, Replacement, Subscript};
use crate::diagnostics::Diagnostic;
use crate::source::Span;
use crate::token::TokenKind;
use crate::types::Kind;

const CONDITION: &str =
    "a condition follows a `for`: `[| x for x in xs if x > 0 |]`; a choice is written `if c then a else b`";

const INNER: &str =
    "an element of a matrix is `[i, j] = x`, one of an array in another one `[i] = { a[i] with [j] = x }`";

impl Parser<'_> {
    /// `[| a, b |]`, `[| a, b; c, d |]` or `[| e for … |]`.
    pub(super) fn array(&mut self) -> Parse<ExprId> {
        let open = self.advance().span;
        let (mut rows, mut parts) = (Vec::new(), Vec::new());
        while self.peek() != TokenKind::RightArray {
            let part = self.expr()?;
            if rows.is_empty() && parts.is_empty() && self.starts_clause() {
                return self.comprehension(Kind::Array, part, open);
            }
            parts.push(part);
            if self.eat(TokenKind::Semicolon) {
                rows.push(std::mem::take(&mut parts));
            } else if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        let close = self.close(TokenKind::RightArray, "`,`, `;`, `for` or `|]`", open)?;
        if rows.is_empty() {
            return self.make(ExprKind::Array(parts), open.to(close));
        }
        // A semicolon may end the last row.
        if !parts.is_empty() {
            rows.push(parts);
        }
        let columns = rows[0].len();
        if let Some((at, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != columns) {
            let place = row.first().map_or(close, |&first| self.span_of(first));
            let message = format!("row {at} of this matrix has {}, row 0 has {columns}", elements(row.len()));
            self.sink.push(Diagnostic::error(place, message).also(open, "the matrix begins here"));
            return self.make(ExprKind::Error, open.to(close));
        }
        self.make(ExprKind::Matrix(rows), open.to(close))
    }

    /// `[a, b]` or `[e for … ]`.
    pub(super) fn list(&mut self) -> Parse<ExprId> {
        let open = self.advance().span;
        let mut parts = Vec::new();
        while self.peek() != TokenKind::RightBracket {
            let part = self.expr()?;
            if parts.is_empty() && self.starts_clause() {
                return self.comprehension(Kind::List, part, open);
            }
            parts.push(part);
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        let help = match self.peek() {
            TokenKind::DotDot => Some("the integers from a to b - 1 are `range a b`"),
            TokenKind::RightArray => Some("an array starts with `[|`"),
            TokenKind::Semicolon => Some("elements are separated by `,`; a matrix is written `[| 1, 2; 3, 4 |]`"),
            _ => None,
        };
        if let Some(help) = help {
            let error = self.unexpected_error("`,`, `for` or `]`").also(open, "opened here");
            return self.fail(error.help(help));
        }
        let close = self.close(TokenKind::RightBracket, "an operator, `,`, `for` or `]`", open)?;
        self.make(ExprKind::List(parts), open.to(close))
    }

    /// Whether a part of a comprehension follows an element.
    fn starts_clause(&self) -> bool {
        matches!(self.peek(), TokenKind::For | TokenKind::Loop | TokenKind::If)
    }

    /// The rest of `[| element for … |]`, after the element.
    fn comprehension(&mut self, kind: Kind, element: ExprId, open: Span) -> Parse<ExprId> {
        let end = if kind == Kind::List { TokenKind::RightBracket } else { TokenKind::RightArray };
        let mut clauses = Vec::new();
        if self.peek() == TokenKind::If {
            return self.unexpected("`for`", Some(CONDITION));
        }
        loop {
            match self.peek() {
                TokenKind::For => {
                    self.advance();
                    let generator = self.generator()?;
                    if clauses.is_empty() && self.peek() == TokenKind::Comma {
                        return self.table(kind, element, generator, open);
                    }
                    clauses.push(Clause::For(generator));
                }
                TokenKind::If => {
                    self.advance();
                    clauses.push(Clause::If(self.expr()?));
                }
                TokenKind::Loop => {
                    let (pattern, init, iteration) = self.accumulator()?;
                    clauses.push(Clause::Loop { pattern, init, iteration, next: self.expr()? });
                }
                _ => break,
            }
        }
        let expected = if end == TokenKind::RightArray { "`for`, `if` or `|]`" } else { "`for`, `if` or `]`" };
        let close = self.close(end, expected, open)?;
        let comprehension = Box::new(Comprehension { kind, element, clauses });
        self.make(ExprKind::Comprehension(comprehension), open.to(close))
    }

    /// The rest of `[| element for i < n, j < m |]`, after the first dimension.
    fn table(&mut self, kind: Kind, element: ExprId, first: Generator, open: Span) -> Parse<ExprId> {
        if kind == Kind::List {
            let help = "several dimensions make a matrix, `[| e for i < n, j < m |]`; loops in each other are written \
                        `for i < n for j < m`";
            return self.unexpected("`for`, `if` or `]`", Some(help));
        }
        let mut generators = vec![first];
        while self.eat(TokenKind::Comma) {
            generators.push(self.generator()?);
        }
        if self.starts_clause() {
            let help = "a matrix has all of its elements; loops in each other are written `for i < n for j < m`";
            return self.unexpected("`,` or `|]`", Some(help));
        }
        let close = self.close(TokenKind::RightArray, "`,` or `|]`", open)?;
        if generators.len() > Kind::DIMENSIONS_MAX {
            let span = open.to(close);
            let message = format!("an array has at most {} dimensions", Kind::DIMENSIONS_MAX);
            let error = Diagnostic::error(span, message).label(format!("this one has {}", generators.len()));
            self.sink.push(error.help("elements may be arrays of their own"));
            return self.make(ExprKind::Error, span);
        }
        self.make(ExprKind::Table { element, generators }, open.to(close))
    }

    /// `loop p = init for … do`, before the next value.
    pub(super) fn accumulator(&mut self) -> Parse<(crate::ast::PatternId, ExprId, Iteration)> {
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
        Ok((pattern, init, iteration))
    }

    /// `[i, a .. b]` after an array, and where it ends.
    pub(super) fn subscripts(&mut self) -> Parse<(Vec<Subscript>, Span)> {
        let open = self.advance().span;
        let mut subscripts = Vec::new();
        loop {
            if self.peek() == TokenKind::Colon {
                return self.unexpected("an index or `..`", None);
            }
            let from = if self.peek() == TokenKind::DotDot { None } else { Some(self.expr()?) };
            subscripts.push(match from {
                Some(index) if self.peek() != TokenKind::DotDot => Subscript::At(index),
                _ => {
                    self.advance();
                    let is_open = matches!(self.peek(), TokenKind::Comma | TokenKind::RightBracket);
                    Subscript::Range(from, if is_open { None } else { Some(self.expr()?) })
                }
            });
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        let close = self.close(TokenKind::RightBracket, "`,`, `..` or `]`", open)?;
        Ok((subscripts, close))
    }

    /// `[i] = a, [j .. k] = b }` after `{ array with`.
    pub(super) fn replacements(&mut self, array: ExprId, open: Span) -> Parse<ExprId> {
        let mut replacements = Vec::new();
        loop {
            if self.peek() != TokenKind::LeftBracket {
                return self.unexpected(
                    "`[`",
                    Some("a changed element is written `[i] = x`, a changed row of a matrix `[i, ..] = xs`"),
                );
            }
            let start = self.span();
            let (subscripts, close) = self.subscripts()?;
            let span = start.to(close);
            if self.peek() == TokenKind::LeftBracket {
                return self.unexpected("`=`", Some(INNER));
            }
            if let Some(symbol) = self.updating_operator() {
                let array = match self.ast.exprs[array].kind {
                    ExprKind::Var(name) => self.names.text(name),
                    _ => "xs",
                };
                let (place, what) = match subscripts[..] {
                    [Subscript::At(_)] => ("[i]", "element"),
                    [Subscript::Range(..)] => ("[i .. j]", "part"),
                    _ if subscripts.iter().any(|subscript| subscript.is_range()) => ("[i, ..]", "part"),
                    _ => ("[i, j]", "element"),
                };
                let help = format!("the new {what} is written out: `{place} = {array}{place} {symbol} ..`");
                return self.unexpected("`=`", Some(&help));
            }
            self.expect(TokenKind::Equals, "`=`")?;
            replacements.push(Replacement { subscripts, value: self.expr()?, span });
            if !self.eat(TokenKind::Comma) || self.peek() == TokenKind::RightBrace {
                break;
            }
        }
        let close = self.close(TokenKind::RightBrace, "an operator, `,` or `}`", open)?;
        self.make(ExprKind::Replace(array, replacements), open.to(close))
    }
}

fn elements(count: usize) -> String {
    if count == 1 { "1 element".to_owned() } else { format!("{count} elements") }
}
