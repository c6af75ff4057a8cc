//! What is said when two types don't fit: expected and found, why it is expected, and how to mend it.

use super::Infer;
use crate::ast::{ExprId, ExprKind};
use crate::diagnostics::Diagnostic;
use crate::names::Name;
use crate::source::Span;
use crate::types::{Con, Mismatch, Ty};

/// Why a type is expected.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// It is declared here.
    Declared(Span),
    /// The definition is used with this result elsewhere in its group.
    UsedBefore(Name),
    /// It is an argument of a function, counted from 0.
    Argument(ExprId, usize),
    /// It is the condition of an `if` or a `while`.
    Condition(&'static str),
    /// The other branch, or an earlier element, is here.
    SameAs(Span, &'static str),
    /// The accumulator of a loop that starts here.
    Accumulator(Span),
    /// A bound of a loop.
    Bound,
    /// An index into an array.
    Index,
    /// Something that is indexed or iterated over.
    Array,
    /// An operand of an operator.
    Operand(&'static str),
    /// The pattern that it is matched with.
    Pattern(Span),
}

impl Infer<'_> {
    /// Makes an expression's type the expected one, or says why not.
    pub(super) fn unify_expr(&mut self, expr: ExprId, expected: Ty, found: Ty, why: Why) {
        if let Err(mismatch) = self.out.types.unify(expected, found) {
            let place = self.innermost(expr);
            let error = self.mismatch(self.ast.exprs[place].span, expected, found, why, mismatch);
            let error = self.with_conversion(error, place, expected, found);
            self.sink.push(error);
        }
    }

    /// The same for what is no expression.
    pub(super) fn unify_at(&mut self, span: Span, expected: Ty, found: Ty, why: Why) {
        if let Err(mismatch) = self.out.types.unify(expected, found) {
            let error = self.mismatch(span, expected, found, why, mismatch);
            self.sink.push(error);
        }
    }

    /// The expression that gives a block its value: that is where to point.
    fn innermost(&self, mut expr: ExprId) -> ExprId {
        while let ExprKind::Block(_, body) = self.ast.exprs[expr].kind {
            expr = body;
        }
        expr
    }

    fn mismatch(&self, span: Span, expected: Ty, found: Ty, why: Why, mismatch: Mismatch) -> Diagnostic {
        let types = &self.out.types;
        if mismatch == Mismatch::Infinite {
            return Diagnostic::error(span, "this type would contain itself").label(format!(
                "expected `{}`, found `{}`",
                types.show(expected),
                types.show(found)
            ));
        }
        let (expected, found) = (types.describe(expected), types.describe(found));
        let error = Diagnostic::error(span, format!("expected {expected}, found {found}"));
        let error = error.label(format!("this is {found}"));
        match why {
            Why::Declared(span) => error.also(span, format!("{expected} is declared here")),
            Why::UsedBefore(name) => error
                .note(format!("`{}` is used as {expected} in a definition that it depends on", self.names.text(name))),
            Why::Argument(callee, index) => {
                let name = self.callee_name(callee);
                error.note(format!("argument {} of `{name}` is {expected}", index + 1))
            }
            Why::Condition(keyword) => error.note(format!("the condition of `{keyword}` is a `Bool`")),
            Why::SameAs(span, what) => error.also(span, format!("{what} is {expected}")),
            Why::Accumulator(span) => error
                .also(span, format!("the accumulator starts as {expected}"))
                .note("the body of a loop gives the accumulator's next value"),
            Why::Bound => error.note("a loop counts from one `Int` to another"),
            Why::Index => error.note("an array is indexed by an `Int`"),
            Why::Array => error.note("only arrays can be indexed, measured and iterated over"),
            Why::Operand(symbol) => error.note(format!("`{symbol}` works on {expected} here")),
            Why::Pattern(span) => error.also(span, format!("this pattern matches {expected}")),
        }
    }

    /// Adds how to turn an Int into a Real, or the other way.
    pub(super) fn with_conversion(&self, error: Diagnostic, place: ExprId, expected: Ty, found: Ty) -> Diagnostic {
        let types = &self.out.types;
        match (types.con_of(expected), types.con_of(found)) {
            (Some(Con::Real), Some(Con::Int)) => error.help("an `Int` becomes a `Real` with `to_real`"),
            (Some(Con::Int), Some(Con::Real)) => match self.ast.exprs[place].kind {
                ExprKind::Real(value) if value.fract() == 0.0 && value.abs() < 1e15 => {
                    error.help(format!("without a dot it is an `Int`: `{value}`"))
                }
                _ => error.help("a `Real` becomes an `Int` with `to_int`, which cuts off the fraction"),
            },
            (Some(Con::Bool), Some(Con::Int | Con::Real)) => error.help("compare it with something: `x != 0`"),
            _ => error,
        }
    }
}
