//! Expressions. `infer` finds a type; `check` hands an expected one down, so that a mismatch is reported at the
//! innermost expression that is to blame.

use super::{Check, Infer, Why};
use crate::ast::{Arm, BinaryOp, ExprId, ExprKind, Generator, Iteration, PatternId};
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

    /// Records an expression's type.
    fn set(&mut self, expr: ExprId, ty: Ty) -> Ty {
        self.out.exprs[expr] = ty;
        ty
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
            ExprKind::Match(value, arms) => self.matching(expr, *value, arms, expected, why),
            ExprKind::Tuple(parts) | ExprKind::Par(parts) => {
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
            ExprKind::List(parts) => match self.out.types.list_element(expected) {
                Some(element) if self.out.types.con_of(element).is_some() => {
                    parts.iter().for_each(|&part| self.check(part, element, why.for_element()));
                }
                _ => self.check_inferred(expr, expected, why),
            },
            ExprKind::Lambda(params, body) => {
                if !self.check_lambda(params, *body, expected, why) {
                    self.check_inferred(expr, expected, why);
                }
            }
            ExprKind::Record(fields) => {
                let found = self.record(fields, Some(expected));
                self.unify_expr(expr, expected, found, why);
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
            ExprKind::Var(_) | ExprKind::Constructor(_) => self.name(expr),
            ExprKind::Fail(_) => self.out.types.var(Class::Any),
            ExprKind::Tuple(parts) | ExprKind::Par(parts) => {
                let parts = parts.iter().map(|&part| self.infer(part)).collect();
                self.out.types.tuple(parts)
            }
            ExprKind::Apply(callee, args) => self.apply(*callee, args),
            ExprKind::Negate(operand) => self.negate(*operand),
            ExprKind::Binary(op @ (BinaryOp::Pipe | BinaryOp::ComposeRight | BinaryOp::ComposeLeft), left, right) => {
                self.function_operator(*op, *left, *right)
            }
            ExprKind::Binary(op, left, right) => self.binary(*op, *left, *right),
            ExprKind::Cons(heads, tail) => self.cons(heads, *tail),
            ExprKind::Append(parts) => self.append(expr, parts),
            ExprKind::Operator(op) => self.operator(expr, *op),
            ExprKind::Section(op, side, operand) => self.section(expr, *op, *side, *operand),
            ExprKind::Lambda(params, body) => self.lambda(params, *body),
            ExprKind::If(cond, then, other) => {
                let bool = self.out.types.bool;
                self.check(*cond, bool, Why::Condition("if"));
                let ty = self.infer(*then);
                self.check(*other, ty, Why::SameAs(ast.exprs[*then].span, "the first branch"));
                ty
            }
            ExprKind::Match(value, arms) => {
                let ty = self.out.types.var(Class::Any);
                self.matching(expr, *value, arms, ty, Why::Case);
                ty
            }
            ExprKind::Block(lets, body) => {
                self.lets(lets);
                self.infer(*body)
            }
            ExprKind::Loop { pattern, init, iteration, body } => self.accumulation(*pattern, *init, *iteration, *body),
            ExprKind::Array(parts) => {
                let element = self.elements(parts);
                self.out.types.con(Con::Array, vec![element])
            }
            ExprKind::List(parts) => {
                let element = self.elements(parts);
                self.out.types.list(element)
            }
            ExprKind::Record(fields) => self.record(fields, None),
            ExprKind::Update(record, fields) => self.update(*record, fields),
            ExprKind::Access(record, name, span) => {
                let record = self.infer(*record);
                self.field(record, *name, *span)
            }
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
        }
    }

    fn matching(&mut self, expr: ExprId, value: ExprId, arms: &[Arm], expected: Ty, why: Why) {
        let ast = self.ast;
        let matched = self.infer(value);
        let mut why = why;
        for arm in arms {
            self.check_pattern(arm.pattern, matched, Why::Matched(ast.exprs[value].span));
            if let Some(guard) = arm.guard {
                let bool = self.out.types.bool;
                self.check(guard, bool, Why::Guard);
            }
            let is_open = self.out.types.con_of(expected).is_none();
            self.check(arm.body, expected, why);
            if is_open {
                why = Why::SameAs(ast.exprs[arm.body].span, "the value of an earlier case");
            }
        }
        self.checks.push(Check::Match(expr));
    }

    fn accumulation(&mut self, pattern: PatternId, init: ExprId, iteration: Iteration, body: ExprId) -> Ty {
        let ty = self.pattern(pattern);
        self.checks.push(Check::Let(pattern));
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
                self.checks.push(Check::Let(element));
            }
        }
    }

    fn elements(&mut self, parts: &[ExprId]) -> Ty {
        let element = self.out.types.var(Class::Any);
        let first = parts.first().map(|&part| self.ast.exprs[part].span).unwrap_or_default();
        for &part in parts {
            self.check(part, element, Why::SameAs(first, "the first element"));
        }
        element
    }

    /// `a :: b :: rest`.
    fn cons(&mut self, heads: &[ExprId], tail: ExprId) -> Ty {
        let element = self.elements(heads);
        let list = self.out.types.list(element);
        self.check(tail, list, Why::Tail(self.ast.exprs[heads[0]].span));
        list
    }

    /// `a ++ b`.
    fn append(&mut self, expr: ExprId, parts: &[ExprId]) -> Ty {
        let function = self.append_instance(expr);
        let Some((list, _)) = self.as_function(function) else { return self.out.types.error };
        for &part in parts {
            self.check(part, list, Why::Operand("++"));
        }
        list
    }

    /// The element type of an expression that must be an array.
    fn array_of(&mut self, array: ExprId) -> Ty {
        let element = self.out.types.var(Class::Any);
        let ty = self.out.types.con(Con::Array, vec![element]);
        self.check(array, ty, Why::Array);
        element
    }
}
