//! Expressions that start with a keyword: `let`, `if`, `loop`, `match`, and lambdas.

use super::{Parse, Parser};
use crate::ast::{Arm, ExprId, ExprKind, Generator, Let, LocalFunction, LocalFunctionId, PatternKind};
use crate::diagnostics::Diagnostic;
use crate::source::Span;
use crate::token::{Token, TokenKind};

impl Parser<'_> {
    /// What starts with `let` or `if`: a chain of `let … in` and `if … then … else`, parsed without recursion. `let`s
    /// that follow each other are one node.
    pub(super) fn block(&mut self) -> Parse<ExprId> {
        /// What waits for the value after it.
        enum Open {
            Block(Span, Vec<Let>),
            If(Span, ExprId, ExprId),
        }
        let mut open = Vec::new();
        loop {
            let start = self.span();
            match self.peek() {
                TokenKind::Let => open.push(Open::Block(start, self.lets(start)?)),
                TokenKind::If => {
                    let (cond, then) = self.condition(start)?;
                    open.push(Open::If(start, cond, then));
                }
                _ => break,
            }
        }
        let mut value = self.expr()?;
        while let Some(before) = open.pop() {
            let end = self.span_of(value);
            value = match before {
                Open::Block(start, lets) => self.make(ExprKind::Block(lets, value), start.to(end))?,
                Open::If(start, cond, then) => self.make(ExprKind::If(cond, then, value), start.to(end))?,
            };
        }
        Ok(value)
    }

    fn lets(&mut self, start: Span) -> Parse<Vec<Let>> {
        let mut lets = Vec::new();
        while self.peek() == TokenKind::Let {
            self.no_rec()?;
            self.advance();
            lets.push(match self.starts_function() {
                true => self.local_functions(start)?,
                false => self.local_value(start)?,
            });
        }
        Ok(lets)
    }

    /// Refuses `let rec f x = …` of other languages, which would be a function `rec`.
    fn no_rec(&mut self) -> Parse<()> {
        let [_, first, second] = self.peek_three();
        let (TokenKind::Lower(name), TokenKind::Lower(_)) = (first, second) else { return Ok(()) };
        if self.names.text(name) != "rec" {
            return Ok(());
        }
        self.advance();
        let error = Diagnostic::error(self.span(), "there is no `let rec`");
        self.fail(error.help("leave out `rec`: a function that `let` defines may call itself"))
    }

    /// Whether a name with parameters comes next.
    fn starts_function(&self) -> bool {
        let [name, next, _] = self.peek_three();
        matches!(name, TokenKind::Lower(_))
            && !matches!(next, TokenKind::Equals | TokenKind::Colon | TokenKind::At | TokenKind::Cons)
    }

    fn local_value(&mut self, start: Span) -> Parse<Let> {
        let pattern = self.pattern()?;
        self.expect(TokenKind::Equals, "`=`")?;
        let value = self.expr()?;
        if self.peek() == TokenKind::AndAlso {
            let error = Diagnostic::error(self.span(), "only functions can be defined together with `and`");
            return self.fail(error.help("write `in let` for a value; logical and is `&&`"));
        }
        self.end_of_let("an operator or `in`", start)?;
        let Some((name, name_span)) = self.plain_name(pattern).filter(|_| self.is_ready(value)) else {
            return Ok(Let::Value { pattern, value });
        };
        let (params, body) = match &self.ast.exprs[value].kind {
            ExprKind::Lambda(params, body) => (params.clone(), *body),
            _ => (Vec::new(), value),
        };
        let function = LocalFunction { name, name_span, params, result: None, body };
        Ok(Let::Alias(self.ast.functions.push(function)))
    }

    fn local_functions(&mut self, start: Span) -> Parse<Let> {
        let mut functions = vec![self.local_function()?];
        while self.eat(TokenKind::AndAlso) {
            if !self.starts_function() {
                let error = Diagnostic::error(self.span(), "only functions can be defined together with `and`");
                return self.fail(error.label("this has no parameters"));
            }
            functions.push(self.local_function()?);
        }
        self.end_of_let("an operator, `and` or `in`", start)?;
        Ok(Let::Functions(functions))
    }

    /// The `in` after what a `let` binds. Where it is missing, the error is there where the next line begins, although
    /// that may go on for a while as if it were an argument.
    fn end_of_let(&mut self, expected: &str, start: Span) -> Parse<()> {
        if self.eat(TokenKind::In) {
            return Ok(());
        }
        let ends = |token: &Token| {
            use TokenKind::{False, Int, Lower, Real, RightArray, RightBrace, RightBracket, RightParen, True, Upper};
            matches!(token.kind, Lower(_) | Upper(_) | Int(_) | Real(_) | True | False)
                || matches!(token.kind, RightParen | RightBracket | RightArray | RightBrace)
        };
        let first = self.tokens.partition_point(|token| token.span.start <= start.start);
        let bound = &self.tokens[first..=self.at];
        let mut lines = bound.windows(2).filter(|pair| pair[1].first && ends(&pair[0]));
        // In the last line before this token something is wrong that isn't a missing `in`.
        let starts = |token: &Token| ends(token) || matches!(token.kind, TokenKind::Let | TokenKind::If);
        match lines.find(|pair| starts(&pair[1]) || matches!(pair[1].kind, TokenKind::Match | TokenKind::Loop)) {
            Some([last, next]) if !self.peek().starts_declaration() || next.span != self.span() => {
                let error = Diagnostic::error(last.span, "this `let` has no `in`").label("expected `in` after this");
                self.fail(error.also(start, "starts here"))
            }
            _ => self.close(TokenKind::In, expected, start).map(|_| ()),
        }
    }

    fn local_function(&mut self) -> Parse<LocalFunctionId> {
        let (name, name_span) = self.lower_name("the name of a function")?;
        if self.peek() == TokenKind::LeftBracket && self.span().start == name_span.end {
            let name = self.names.text(name);
            let error = Diagnostic::error(name_span.to(self.span()), "an element can't be given another value");
            let help = format!("`{{ {name} with [i] = x }}` is an array like `{name}` with another element");
            return self.fail(error.label("`let` gives a name to a value").help(help));
        }
        let mut params = Vec::new();
        while self.starts_pattern() {
            params.push(self.pattern_atom()?);
        }
        let result = self.result()?;
        let body = self.expr()?;
        Ok(self.ast.functions.push(LocalFunction { name, name_span, params, result, body }))
    }

    pub(super) fn lambda(&mut self) -> Parse<ExprId> {
        let start = self.advance().span;
        let mut params = Vec::new();
        while self.starts_pattern() {
            params.push(self.pattern_atom()?);
        }
        if self.peek() != TokenKind::Arrow || params.is_empty() {
            let expected = if params.is_empty() { "a parameter" } else { "a parameter or `->`" };
            let help = match [self.peek(), self.peek_next()] {
                [TokenKind::Equals, TokenKind::Greater] => "the arrow is written `->`",
                _ => "a function is written `\\x -> x + 1`; parameters side by side, as in `\\x y -> x + y`",
            };
            return self.unexpected(expected, Some(help));
        }
        self.advance();
        let body = self.expr()?;
        let span = start.to(self.span_of(body));
        self.make(ExprKind::Lambda(params, body), span)
    }

    pub(super) fn matching(&mut self) -> Parse<ExprId> {
        let start = self.advance().span;
        let value = self.expr()?;
        self.close(TokenKind::With, "an operator or `with`", start)?;
        self.eat(TokenKind::Bar);
        let mut arms = Vec::new();
        loop {
            arms.push(self.arm()?);
            if !self.eat(TokenKind::Bar) {
                break;
            }
        }
        let span = start.to(self.span_of(arms[arms.len() - 1].body));
        self.make(ExprKind::Match(value, arms), span)
    }

    fn arm(&mut self) -> Parse<Arm> {
        let pattern = self.untyped_pattern()?;
        let help = match self.peek() {
            TokenKind::Bar => Some("alternatives need parentheses: `| (p | q) -> e`"),
            TokenKind::Comma => Some("a tuple needs parentheses: `| (p, q) -> e`"),
            TokenKind::Colon if matches!(self.peek_next(), TokenKind::Lower(_)) => {
                Some("an element and the rest of a list are `x :: rest`")
            }
            TokenKind::Colon => Some("a pattern with a type needs parentheses: `| (p : T) -> e`"),
            TokenKind::Equals => Some("an arm is written `| pattern -> value`"),
            TokenKind::Lower(name) if self.names.text(name) == "when" => {
                Some("the condition of a case is written `| pattern if condition -> value`")
            }
            _ => None,
        };
        if help.is_some() {
            return self.unexpected("`if` or `->`", help);
        }
        let guard = if self.eat(TokenKind::If) { Some(self.expr()?) } else { None };
        let expected = if guard.is_some() { "an operator or `->`" } else { "`if` or `->`" };
        self.expect(TokenKind::Arrow, expected)?;
        Ok(Arm { pattern, guard, body: self.expr()? })
    }

    /// `if c then a else`.
    fn condition(&mut self, start: Span) -> Parse<(ExprId, ExprId)> {
        self.advance();
        let cond = self.expr()?;
        self.close(TokenKind::Then, "an operator or `then`", start)?;
        let then = self.expr()?;
        if self.starts_declaration() {
            let error = self.unexpected_error("`else`").also(start, "this `if`");
            return self.fail(error.help("an `if` is an expression: it needs a value in both cases"));
        }
        self.close(TokenKind::Else, "an operator or `else`", start)?;
        Ok((cond, then))
    }

    pub(super) fn accumulation(&mut self) -> Parse<ExprId> {
        let start = self.span();
        let (pattern, init, iteration) = self.accumulator()?;
        let body = self.expr()?;
        let span = start.to(self.span_of(body));
        self.make(ExprKind::Loop { pattern, init, iteration, body }, span)
    }

    /// What follows `for`.
    pub(super) fn generator(&mut self) -> Parse<Generator> {
        let index = self.pattern_atom()?;
        let is_name = matches!(self.ast.patterns[index].kind, PatternKind::Var(_) | PatternKind::Wildcard);
        if is_name && self.eat(TokenKind::Less) {
            return Ok(Generator::Range { index, from: None, to: self.expr()? });
        }
        let expected = if is_name { "`<` or `in`" } else { "`in`" };
        if let (TokenKind::LessEqual, PatternKind::Var(name)) = (self.peek(), &self.ast.patterns[index].kind) {
            let name = self.names.text(*name);
            let help = format!(
                "a loop leaves out its end: up to `n` and with it is `for {name} < n + 1`, or from 1 on \
                 `for {name} in 1 .. n + 1`"
            );
            return self.unexpected(expected, Some(&help));
        }
        if !matches!(self.peek(), TokenKind::In) {
            return self.unexpected(expected, Some("write `for i < n`, `for i in a .. b` or `for x in xs`"));
        }
        self.advance();
        let first = self.expr()?;
        if self.peek() == TokenKind::Colon {
            return self.unexpected("an operator or `..`", Some("the body of a loop follows `do`"));
        }
        if !self.eat(TokenKind::DotDot) {
            return Ok(Generator::Elements { element: index, collection: first });
        }
        if !is_name {
            let error = Diagnostic::error(self.ast.patterns[index].span, "a range binds a single name");
            return self.fail(error.label("expected a name or `_`"));
        }
        Ok(Generator::Range { index, from: Some(first), to: self.expr()? })
    }
}
