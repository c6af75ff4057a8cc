//! Operators and application. From loose to tight:
//!
//! ```text
//! let in, if then else, loop do, match with, \x ->     as far right as possible
//! |*|                               not associative
//! |> >> <<                          left, left, right
//! ||                                left
//! &&                                left
//! == != < <= > >=                   not associative
//! :: ++                             right
//! + - .+ .- +. -.                   left
//! * / % .* ./ *. /.                 left
//! - (prefix)
//! ^                                 right
//! f a b                             application
//! a[i], r.x                         the bracket or the dot directly after the array or the record
//! ```

use super::{Parse, Parser};
use crate::ast::{Arithmetic, BinaryOp, Comparison, ExprId, ExprKind, Side, Text};
use crate::diagnostics::Diagnostic;
use crate::source::Span;
use crate::token::TokenKind;

/// The binding strength of comparisons, which don't associate.
const COMPARISON: u8 = 4;
/// The binding strength of `::` and `++`.
pub(crate) const CONS: u8 = 5;

/// The operators of [`ExprKind::Binary`] but `^`, and how strongly they bind.
pub(crate) fn binary_op(kind: TokenKind) -> Option<(BinaryOp, u8)> {
    let compare = |comparison| Some((BinaryOp::Compare(comparison), COMPARISON));
    let spread = |op, side| {
        let strength = if matches!(op, Arithmetic::Add | Arithmetic::Sub) { 6 } else { 7 };
        Some((BinaryOp::Spread(op, side), strength))
    };
    match kind {
        TokenKind::Pipe => Some((BinaryOp::Pipe, 1)),
        TokenKind::ComposeRight => Some((BinaryOp::ComposeRight, 1)),
        TokenKind::ComposeLeft => Some((BinaryOp::ComposeLeft, 1)),
        TokenKind::Or => Some((BinaryOp::Or, 2)),
        TokenKind::And => Some((BinaryOp::And, 3)),
        TokenKind::EqualEqual => compare(Comparison::Equal),
        TokenKind::NotEqual => compare(Comparison::NotEqual),
        TokenKind::Less => compare(Comparison::Less),
        TokenKind::LessEqual => compare(Comparison::LessEqual),
        TokenKind::Greater => compare(Comparison::Greater),
        TokenKind::GreaterEqual => compare(Comparison::GreaterEqual),
        TokenKind::Plus => Some((BinaryOp::Add, 6)),
        TokenKind::Minus => Some((BinaryOp::Sub, 6)),
        TokenKind::Star => Some((BinaryOp::Mul, 7)),
        TokenKind::Slash => Some((BinaryOp::Div, 7)),
        TokenKind::Percent => Some((BinaryOp::Rem, 7)),
        TokenKind::DotPlus => spread(Arithmetic::Add, Side::Left),
        TokenKind::DotMinus => spread(Arithmetic::Sub, Side::Left),
        TokenKind::DotStar => spread(Arithmetic::Mul, Side::Left),
        TokenKind::DotSlash => spread(Arithmetic::Div, Side::Left),
        TokenKind::PlusDot => spread(Arithmetic::Add, Side::Right),
        TokenKind::MinusDot => spread(Arithmetic::Sub, Side::Right),
        TokenKind::StarDot => spread(Arithmetic::Mul, Side::Right),
        TokenKind::SlashDot => spread(Arithmetic::Div, Side::Right),
        _ => None,
    }
}

impl Parser<'_> {
    /// Any expression.
    pub(super) fn expr(&mut self) -> Parse<ExprId> {
        self.nested(|parser| {
            let first = parser.binary(1)?;
            if parser.peek() == TokenKind::Beside { parser.beside(first) } else { Ok(first) }
        })
    }

    /// The rest of `a |*| b`.
    fn beside(&mut self, left: ExprId) -> Parse<ExprId> {
        if self.ends_section() {
            return self.no_section();
        }
        let op = self.advance().span;
        let right = self.nested(|parser| parser.binary(1))?;
        if self.peek() == TokenKind::Beside {
            let error = Diagnostic::error(self.span(), "`|*|` makes a pair, and can't be chained");
            let error = error.also(op, "the first pair");
            return self.fail(error.help("write `par (a, b, c)` for three tasks, or `(a |*| b) |*| c` for pairs"));
        }
        let span = self.span_of(left).to(self.span_of(right));
        self.make(ExprKind::Par(vec![left, right]), span)
    }

    /// `(|*|)`, `(|*| a)` and `(a |*|)`.
    pub(super) fn no_section<T>(&mut self) -> Parse<T> {
        let error = Diagnostic::error(self.span(), "`|*|` needs both operands");
        let error = error.note("they are evaluated as tasks, which a function's arguments can't be");
        self.fail(error.help("write `\\x y -> f x |*| g y`"))
    }

    pub(super) fn span_of(&self, expr: ExprId) -> Span {
        self.ast.exprs[expr].span
    }

    /// Operators that bind at least as strongly as `strength`.
    pub(super) fn binary(&mut self, strength: u8) -> Parse<ExprId> {
        let mut left = self.prefix()?;
        let mut compared = None;
        // The left operands of operators that associate to the right, whose right operands are still to come.
        let mut pending: Vec<(BinaryOp, ExprId)> = Vec::new();
        loop {
            if CONS >= strength && matches!(self.peek(), TokenKind::Cons | TokenKind::Append) && !self.ends_section() {
                left = self.chain(left)?;
            }
            let next = binary_op(self.peek()).filter(|&(_, op_strength)| op_strength >= strength);
            let Some((op, op_strength)) = next.filter(|_| !self.ends_section()) else {
                return match next {
                    // Only a whole parenthesis can be the left operand of a section.
                    Some((op, _)) if strength > 1 => self.tight_section(op),
                    _ => self.right_associated(pending, left),
                };
            };
            let op_span = self.advance().span;
            if op_strength == COMPARISON
                && let Some(first) = compared.replace(op_span)
            {
                let mut between =
                    self.tokens[..self.at].iter().rev().take_while(|token| token.span.start > first.start);
                let is_or = |kind| matches!(kind, TokenKind::Lower(name) if self.names.text(name) == "or");
                let has_or = between.any(|token| is_or(token.kind));
                let error = Diagnostic::error(op_span, "comparisons can't be chained")
                    .also(first, "the first comparison")
                    .help(if has_or { "logical or is `||`" } else { "write `a < b && b < c`" });
                return self.fail(error);
            }
            if op.is_right_associative() {
                pending.push((op, left));
                compared = None;
                left = self.prefix()?;
                continue;
            }
            let right = self.nested(|parser| parser.binary(op_strength + 1))?;
            if op_strength < COMPARISON {
                compared = None;
            }
            let span = self.span_of(left).to(self.span_of(right));
            left = self.make(ExprKind::Binary(op, left, right), span)?;
        }
    }

    /// `a op b op c` as `a op (b op c)`.
    fn right_associated(&mut self, pending: Vec<(BinaryOp, ExprId)>, last: ExprId) -> Parse<ExprId> {
        pending.into_iter().rev().try_fold(last, |right, (op, left)| {
            let span = self.span_of(left).to(self.span_of(right));
            self.make(ExprKind::Binary(op, left, right), span)
        })
    }

    /// Whether the operator here is the last thing in its parentheses.
    fn ends_section(&self) -> bool {
        self.peek_next() == TokenKind::RightParen
    }

    /// The rest of `a :: b ++ c`. Neighbours with the same operator are one node: long chains don't nest.
    fn chain(&mut self, first: ExprId) -> Parse<ExprId> {
        let mut operands = vec![first];
        let mut ops = Vec::new();
        while matches!(self.peek(), TokenKind::Cons | TokenKind::Append) && !self.ends_section() {
            ops.push(self.advance().kind);
            operands.push(self.nested(|parser| parser.binary(CONS + 1))?);
        }
        let mut value = operands.pop().expect("there are at least two operands");
        while let Some(&op) = ops.last() {
            let same = ops.iter().rev().take_while(|&&other| other == op).count();
            ops.truncate(ops.len() - same);
            let mut parts = operands.split_off(operands.len() - same);
            let span = self.span_of(parts[0]).to(self.span_of(value));
            let kind = if op == TokenKind::Cons {
                ExprKind::Cons(parts, value)
            } else {
                parts.push(value);
                ExprKind::Append(parts)
            };
            value = self.make(kind, span)?;
        }
        Ok(value)
    }

    pub(super) fn prefix(&mut self) -> Parse<ExprId> {
        match self.peek() {
            TokenKind::Minus => self.negation(),
            TokenKind::Let | TokenKind::If => self.block(),
            TokenKind::Loop => self.accumulation(),
            TokenKind::Match => self.matching(),
            TokenKind::Backslash => self.lambda(),
            TokenKind::Beside => self.no_section(),
            _ => self.power(),
        }
    }

    /// `- - a`.
    fn negation(&mut self) -> Parse<ExprId> {
        let mut minuses = Vec::new();
        while self.peek() == TokenKind::Minus {
            minuses.push(self.advance().span);
        }
        let mut operand = match minuses.last() {
            // The most negative integer has no positive counterpart.
            Some(&start) if self.peek() == TokenKind::Int(i64::MIN.unsigned_abs()) => {
                minuses.pop();
                let end = self.advance().span;
                self.make(ExprKind::Int(i64::MIN), start.to(end))?
            }
            _ => self.nested(Self::prefix)?,
        };
        while let Some(minus) = minuses.pop() {
            operand = self.make(ExprKind::Negate(operand), minus.to(self.span_of(operand)))?;
        }
        Ok(operand)
    }

    /// `a ^ b ^ c`.
    fn power(&mut self) -> Parse<ExprId> {
        let mut pending = Vec::new();
        let mut last = self.application()?;
        while self.peek() == TokenKind::Caret && !self.ends_section() {
            self.advance();
            pending.push((BinaryOp::Pow, last));
            if self.starts_atom() {
                last = self.application()?;
            } else {
                // What starts with a keyword or a sign takes all that follows.
                last = self.nested(Self::prefix)?;
                break;
            }
        }
        self.right_associated(pending, last)
    }

    fn application(&mut self) -> Parse<ExprId> {
        let is_trace = |name| self.names.text(name) == "trace" && starts_text(self.peek_next());
        let callee = match self.peek() {
            TokenKind::Lower(name) if is_trace(name) => self.trace()?,
            _ => self.postfix()?,
        };
        let mut args = Vec::new();
        while self.starts_atom() {
            if let (true, &[condition]) = (starts_text(self.peek()), &args[..])
                && matches!(self.ast.exprs[callee].kind, ExprKind::Var(name) if self.names.text(name) == "assert")
            {
                return self.assertion(callee, condition);
            }
            args.push(self.postfix()?);
        }
        let Some(&last) = args.last() else { return Ok(callee) };
        let span = self.span_of(callee).to(self.span_of(last));
        self.make(ExprKind::Apply(callee, args), span)
    }

    /// `assert condition "text"`: unit, if the condition holds, and else the error that the text is.
    fn assertion(&mut self, callee: ExprId, condition: ExprId) -> Parse<ExprId> {
        let text = self.text()?;
        let span = self.span_of(callee).to(self.last_span());
        let unit = self.make(ExprKind::Tuple(Vec::new()), span)?;
        let fail = self.make(ExprKind::Fail(text), span)?;
        self.make(ExprKind::If(condition, unit, fail), span)
    }

    /// `trace "text" e`.
    fn trace(&mut self) -> Parse<ExprId> {
        self.has_trace = true;
        let start = self.advance().span;
        let text = self.text()?;
        if !self.starts_atom() {
            let help = "write `trace \"x = {x}\" x`: it shows the text, and is the value after it";
            return self.unexpected("a value after the text", Some(help));
        }
        let body = self.postfix()?;
        self.make(ExprKind::Trace(text, body), start.to(self.span_of(body)))
    }

    /// A text with its values.
    pub(super) fn text(&mut self) -> Parse<Text> {
        let start = self.span();
        let (mut pieces, mut values) = (Vec::new(), Vec::new());
        loop {
            let kind = self.peek();
            match kind {
                TokenKind::Text(piece)
                | TokenKind::TextStart(piece)
                | TokenKind::TextNext(piece)
                | TokenKind::TextEnd(piece) => pieces.push(piece),
                _ => {
                    return self
                        .unexpected("`}`", Some("a value in a text is one expression in braces, without a format"));
                }
            }
            self.advance();
            if matches!(kind, TokenKind::Text(_) | TokenKind::TextEnd(_)) {
                break;
            }
            if matches!(self.peek(), TokenKind::TextNext(_) | TokenKind::TextEnd(_)) {
                return self.unexpected("a value", Some("a brace in a text is written `{{` or `}}`"));
            }
            values.push(self.expr()?);
        }
        let values = match values.is_empty() {
            true => None,
            false => Some(self.make(ExprKind::Tuple(values), start.to(self.last_span()))?),
        };
        Ok(Text { pieces, values })
    }
}

/// Whether a token is a text or the beginning of one.
pub(super) fn starts_text(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Text(_) | TokenKind::TextStart(_))
}
