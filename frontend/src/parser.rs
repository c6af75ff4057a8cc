//! Tokens to syntax tree. This file owns the cursor, definitions and recovery; `parser/` has expressions, patterns and
//! types.
//!
//! A syntax error abandons the definition that it is in, and parsing goes on at the next `def`. Recursion is bounded
//! by [`NESTING_MAX`] and runs on a stack that grows, so that no input overflows it.

mod expr;
mod pattern;
mod types;

use crate::arena::Id;
use crate::ast::{Ast, Def, ExprId, ExprKind, NESTING_MAX};
use crate::diagnostics::{Diagnostic, Sink};
use crate::names::Names;
use crate::source::Span;
use crate::token::{Token, TokenKind};

/// A definition can't be parsed any further; the reason was reported.
#[derive(Debug)]
struct Abandoned;

type Parse<T> = Result<T, Abandoned>;

/// Parses a program. Where there are syntax errors, expressions are [`ExprKind::Error`].
pub(crate) fn parse(tokens: &[Token], names: &Names, sink: &mut Sink) -> Ast {
    let mut parser = Parser { tokens, at: 0, depth: 0, names, sink, ast: Ast::default() };
    parser.program();
    parser.ast
}

struct Parser<'p> {
    tokens: &'p [Token],
    at: usize,
    depth: u32,
    names: &'p Names,
    sink: &'p mut Sink,
    ast: Ast,
}

impl Parser<'_> {
    fn program(&mut self) {
        while self.peek() != TokenKind::End {
            if self.peek() == TokenKind::Def {
                self.def();
            } else {
                let _ = self.unexpected::<()>("`def`", Some("a program is a list of definitions: `def name x = ..`"));
                self.skip_to_def();
            }
        }
    }

    fn def(&mut self) {
        self.advance();
        let Ok((name, name_span)) = self.lower_name("the name of the definition") else {
            return self.skip_to_def();
        };
        let mut def = Def { name, name_span, params: Vec::new(), result: None, body: ExprId::from_index(0) };
        self.depth = 0;
        def.body = match self.def_rest(&mut def) {
            Ok(body) => body,
            Err(Abandoned) => {
                self.skip_to_def();
                self.ast.expr(ExprKind::Error, name_span)
            }
        };
        self.ast.defs.push(def);
    }

    fn def_rest(&mut self, def: &mut Def) -> Parse<ExprId> {
        while self.starts_pattern() {
            let param = self.pattern_atom()?;
            def.params.push(param);
        }
        if self.eat(TokenKind::Colon) {
            def.result = Some(self.type_expr()?);
        }
        self.expect(TokenKind::Equals, "a parameter, `:` or `=`")?;
        let body = self.expr()?;
        match self.peek() {
            TokenKind::Def | TokenKind::End => Ok(body),
            _ => self.unexpected("an operator or the next `def`", None),
        }
    }

    fn skip_to_def(&mut self) {
        while !matches!(self.peek(), TokenKind::Def | TokenKind::End) {
            self.advance();
        }
    }

    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    fn peek(&self) -> TokenKind {
        self.token().kind
    }

    fn span(&self) -> Span {
        self.token().span
    }

    /// The span of the token before the current one.
    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    /// Goes on to the next token; the last one, the end, stays.
    fn advance(&mut self) -> Token {
        let token = self.token();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == kind;
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, kind: TokenKind, expected: &str) -> Parse<Span> {
        if self.peek() == kind { Ok(self.advance().span) } else { self.unexpected(expected, None) }
    }

    /// Closes what was opened at `open`.
    fn close(&mut self, kind: TokenKind, expected: &str, open: Span) -> Parse<Span> {
        if self.peek() == kind {
            return Ok(self.advance().span);
        }
        let is_bracket = matches!(kind, TokenKind::RightParen | TokenKind::RightBracket | TokenKind::RightArray);
        let label = if is_bracket { "opened here" } else { "starts here" };
        let error = self.unexpected_error(expected).also(open, label);
        self.fail(error)
    }

    fn lower_name(&mut self, expected: &str) -> Parse<(crate::names::Name, Span)> {
        match self.peek() {
            TokenKind::Lower(name) => Ok((name, self.advance().span)),
            TokenKind::Upper(name) => {
                let help =
                    format!("`{}` is capitalised: names of values start with a small letter", self.names.text(name));
                self.unexpected(expected, Some(&help))
            }
            _ => self.unexpected(expected, None),
        }
    }

    fn unexpected_error(&self, expected: &str) -> Diagnostic {
        let found = self.peek();
        let error = Diagnostic::error(self.span(), format!("expected {expected}, found {found}"))
            .label(format!("expected {expected}"));
        let before = self.at.checked_sub(1).map(|at| self.tokens[at].kind);
        match (before, found) {
            (Some(TokenKind::Star), TokenKind::Star) => error.help("a power is written `x ^ 2`"),
            (_, TokenKind::Equals) if expected.contains("operator") => error.help("equality is written `==`"),
            _ => error,
        }
    }

    fn unexpected<T>(&mut self, expected: &str, help: Option<&str>) -> Parse<T> {
        let error = self.unexpected_error(expected);
        self.fail(match help {
            Some(help) => error.help(help),
            None => error,
        })
    }

    fn fail<T>(&mut self, error: Diagnostic) -> Parse<T> {
        self.sink.push(error);
        Err(Abandoned)
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= NESTING_MAX {
            return self.too_deep(self.span());
        }
        self.depth += 1;
        let result = crate::stack::grown(|| parse(self));
        self.depth -= 1;
        result
    }

    fn too_deep<T>(&mut self, span: Span) -> Parse<T> {
        let error = Diagnostic::error(span, "the expression is nested too deeply")
            .label(format!("more than {NESTING_MAX} levels"))
            .help("give parts of it names with `let`, or compute it with `loop`");
        self.fail(error)
    }

    /// Adds an expression, unless its tree gets too high: chains of operators grow without recursion in the parser.
    fn make(&mut self, kind: ExprKind, span: Span) -> Parse<ExprId> {
        let expr = self.ast.expr(kind, span);
        if self.ast.exprs[expr].height > NESTING_MAX {
            let end = Span::new(span.end.saturating_sub(1).max(span.start), span.end);
            return self.too_deep(end);
        }
        Ok(expr)
    }
}
