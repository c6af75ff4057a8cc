//! Expressions. `infer` finds a type; `check` hands an expected one down, so that a mismatch is reported at the
//! innermost expression that is to blame.

use super::{Infer, Why};
use crate::ast::{ExprId, ExprKind, Generator, Iteration, Let, PatternId};
use crate::types::{Class, Con, Ty};

impl Infer<'_> {
    pub(super) fn infer(&mut self, expr: ExprId) -> Ty {
        let ty = crate::stack::grown(|| self.infer_here(expr));
        self.set(expr, ty)
    }

    pub(super) fn check(&mut self, expr: ExprId, expected: Ty, why: Why) {
        crate::stack::grown(|| self.check_here(expr, expected, why));
        self.set(expr, expected);
    }

    fn check_here(&mut self, expr: ExprId, expected: Ty, why: Why) {
        let ast = self.ast;
        match &ast.exprs[expr].kind {
            ExprKind::Block(lets, body) => {
                self.lets(lets);
                self.check(*body, expected, why);
            }
            ExprKind::If(cond, then, other) => {
                let bool = self.out.types.bool;
                self.check(*cond, bool, Why::Condition("if"));
                let is_open = self.out.types.con_of(expected).is_none();
                self.check(*then, expected, why);
                let why = if is_open { Why::SameAs(ast.exprs[*then].span, "the first branch") } else { why };
                self.check(*other, expected, why);
            }
            ExprKind::Tuple(parts) => {
                let wanted = self.out.types.tuple_parts(expected);
                match wanted {
                    Some(wanted) if wanted.len() == parts.len() => {
                        for (&part, &ty) in parts.iter().zip(&wanted) {
                            self.check(part, ty, why);
                        }
                    }
                    _ => self.check_inferred(expr, expected, why),
                }
            }
            _ => self.check_inferred(expr, expected, why),
        }
    }

    fn check_inferred(&mut self, expr: ExprId, expected: Ty, why: Why) {
        let found = self.infer_here(expr);
        self.unify_expr(expr, expected, found, why);
    }

    fn infer_here(&mut self, expr: ExprId) -> Ty {
        let ast = self.ast;
        match &ast.exprs[expr].kind {
            ExprKind::Error => self.out.types.error,
            ExprKind::Int(_) => self.out.types.var(Class::Number),
            ExprKind::Real(_) => self.out.types.real,
            ExprKind::Bool(_) => self.out.types.bool,
            ExprKind::Var(_) => self.name(expr),
            ExprKind::Tuple(parts) => {
                let parts = parts.iter().map(|&part| self.infer(part)).collect();
                self.out.types.tuple(parts)
            }
            ExprKind::Apply(callee, args) => self.apply(expr, *callee, args),
            ExprKind::Negate(operand) => self.negate(*operand),
            ExprKind::Binary(op, left, right) => self.binary(*op, *left, *right),
            ExprKind::If(cond, then, other) => {
                let bool = self.out.types.bool;
                self.check(*cond, bool, Why::Condition("if"));
                let ty = self.infer(*then);
                self.check(*other, ty, Why::SameAs(ast.exprs[*then].span, "the first branch"));
                ty
            }
            ExprKind::Block(lets, body) => {
                self.lets(lets);
                self.infer(*body)
            }
            ExprKind::Loop { pattern, init, iteration, body } => self.accumulation(*pattern, *init, *iteration, *body),
            ExprKind::Array(parts) => self.array(parts),
            ExprKind::Comprehension { element, generator } => {
                self.generator(*generator);
                let element = self.infer(*element);
                self.out.types.con(Con::Array, vec![element])
            }
            ExprKind::Index(array, index) => {
                let element = self.array_of(*array);
                let int = self.out.types.int;
                self.check(*index, int, Why::Index);
                element
            }
            ExprKind::Ascribe(inner, annotation) => {
                let ty = self.annotation(*annotation);
                self.check(*inner, ty, Why::Declared(ast.types[*annotation].span));
                ty
            }
            _ => self.out.types.error,
        }
    }

    fn lets(&mut self, lets: &[Let]) {
        for binding in lets {
            // An annotation is handed down to the value, so that it is known there.
            if let Let::Value { pattern, value } = binding {
                let ty = self.pattern(*pattern);
                self.check(*value, ty, Why::Pattern(self.ast.patterns[*pattern].span));
            }
        }
    }

    fn accumulation(&mut self, pattern: PatternId, init: ExprId, iteration: Iteration, body: ExprId) -> Ty {
        let ty = self.pattern(pattern);
        self.check(init, ty, Why::Pattern(self.ast.patterns[pattern].span));
        match iteration {
            Iteration::While(cond) => {
                let bool = self.out.types.bool;
                self.check(cond, bool, Why::Condition("while"));
            }
            Iteration::For(generator) => self.generator(generator),
        }
        self.check(body, ty, Why::Accumulator(self.ast.exprs[init].span));
        ty
    }

    fn generator(&mut self, generator: Generator) {
        let int = self.out.types.int;
        match generator {
            Generator::Range { index, from, to } => {
                if let Some(from) = from {
                    self.check(from, int, Why::Bound);
                }
                self.check(to, int, Why::Bound);
                self.bind(index, int, to);
            }
            Generator::Elements { element, array } => {
                let ty = self.array_of(array);
                self.bind(element, ty, array);
            }
        }
    }

    fn array(&mut self, parts: &[ExprId]) -> Ty {
        let element = self.out.types.var(Class::Any);
        let first = parts.first().map(|&part| self.ast.exprs[part].span).unwrap_or_default();
        for &part in parts {
            self.check(part, element, Why::SameAs(first, "the first element"));
        }
        self.out.types.con(Con::Array, vec![element])
    }

    /// The element type of an expression that must be an array.
    fn array_of(&mut self, array: ExprId) -> Ty {
        let element = self.out.types.var(Class::Any);
        let ty = self.out.types.con(Con::Array, vec![element]);
        self.check(array, ty, Why::Array);
        element
    }
}
