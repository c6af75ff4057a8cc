//! Branches: the first of several cases whose condition holds, from `if` after `else if` and from guards.

use super::Elaborator;
use super::form::Shaped;
use crate::ast::{self, ExprKind as Surface};
use crate::core::{Binding, Expr, ExprId, ExprKind, Join, Label, Labelled};
use crate::list::List;
use crate::mono::Mono;
use crate::source::Span;

/// So many cases nest; a chain of more is cut, so that chains may be longer than anything nests.
const NESTED_MAX: usize = 64;

/// A condition after what it needs, and the value if it holds. What is bound is known in all that follows.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) bindings: Vec<Binding>,
    pub(super) cond: ExprId,
    pub(super) then: ExprId,
    pub(super) span: Span,
}

impl Elaborator<'_, '_> {
    /// `if c then a else if d then b else …`, with `let` between them.
    pub(super) fn conditional(&mut self, expr: ast::ExprId, ty: Mono) -> Shaped {
        let ast = self.program.ast;
        let (mut cases, mut leaves) = (Vec::new(), Vec::new());
        let mut bindings = Vec::new();
        let mut expr = expr;
        loop {
            self.count(ast.exprs[expr].span);
            match &ast.exprs[expr].kind {
                &Surface::If(cond, then, other) if !self.program.is_stopped() => {
                    let cond = self.expr(cond);
                    let then = self.shaped(then);
                    leaves.push(then);
                    let (bindings, span) = (std::mem::take(&mut bindings), ast.exprs[expr].span);
                    cases.push(Case { bindings, cond, then: then.expr, span });
                    expr = other;
                }
                // What is bound between two conditions.
                Surface::Block(lets, body) if matches!(ast.exprs[*body].kind, Surface::If(..)) => {
                    self.lets(lets, &mut bindings);
                    expr = *body;
                }
                _ => break,
            }
        }
        let last = self.shaped(expr);
        leaves.push(last);
        let last = self.block_shaped(bindings, last);
        let form = self.common_form(&leaves, ty);
        self.unify_leaves(&leaves, form);
        let types = self.program.forms.flat(form);
        for leaf in leaves.iter().filter(|leaf| self.stops(leaf.expr)).map(|leaf| leaf.expr).collect::<Vec<_>>() {
            self.body.exprs[leaf].types = types;
        }
        Shaped { expr: self.first_of(cases, last.expr), form }
    }

    /// The value of the first case whose condition holds, or else the default, which has the types of all.
    pub(super) fn first_of(&mut self, mut cases: Vec<Case>, default: ExprId) -> ExprId {
        let types = self.body.exprs[default].types;
        let span = cases.first().map(|case| case.span).unwrap_or_default();
        let pieces = cases.len().div_ceil(NESTED_MAX).max(1);
        let labels: Vec<Label> = (1..pieces).map(|_| self.body.labels.push(())).collect();
        let mut bodies = Vec::with_capacity(pieces);
        let mut last = default;
        for piece in (0..pieces).rev() {
            let own = cases.split_off(piece * NESTED_MAX);
            let made = own.into_iter().rev().fold(last, |other, Case { bindings, cond, then, span }| {
                let kind = ExprKind::If([cond, then, other]);
                let choice = self.body.exprs.push(Expr { kind, types, origin: span.into() });
                self.block(bindings, choice)
            });
            if piece == 0 {
                bodies.reverse();
                return match bodies.is_empty() {
                    true => made,
                    false => {
                        let kind = ExprKind::Join(Box::new(Join { value: made, bodies: bodies.into() }));
                        self.body.exprs.push(Expr { kind, types, origin: span.into() })
                    }
                };
            }
            let label = labels[piece - 1];
            bodies.push(Labelled { label, params: List::default(), body: made });
            last =
                self.body.exprs.push(Expr { kind: ExprKind::Jump(label, List::default()), types, origin: span.into() });
        }
        unreachable!("the first piece is the last one that is made")
    }
}
