//! Expressions. `infer` finds a type; `check` hands an expected one down, so that a mismatch is reported at the
//! innermost expression that is to blame.

use super::{Check, Infer, Why};
use crate::ast::{Arm, BinaryOp, Clause, ExprId, ExprKind, Generator, Iteration, Link, PatternId, Text};
use crate::diagnostics::Diagnostic;
use crate::types::{Class, Con, Ty};

/// An operand, with its type if that is known already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) expr: ExprId,
    pub(super) ty: Option<Ty>,
}

impl Infer<'_> {
    pub(super) fn infer(&mut self, expr: ExprId) -> Ty {
        let ty = match self.meter.step(self.ast.exprs[expr].span) {
            true => crate::stack::grown(|| self.infer_here(expr)),
            false => self.out.types.error,
        };
        self.set(expr, ty)
    }

    pub(super) fn check(&mut self, expr: ExprId, expected: Ty, why: Why) {
        crate::stack::grown(|| self.check_here(expr, expected, why));
        self.set(expr, expected);
    }

    /// Records an expression's type.
    pub(super) fn set(&mut self, expr: ExprId, ty: Ty) -> Ty {
        self.out.exprs[expr] = ty;
        ty
    }

    /// Checks an expression, and without recursion what gives it its value: the rest of a chain of `let` and `if`.
    fn check_here(&mut self, expr: ExprId, expected: Ty, why: Why) {
        let ast = self.ast;
        let (mut expr, mut why) = (expr, why);
        while self.meter.step(ast.exprs[expr].span) {
            expr = match &ast.exprs[expr].kind {
                ExprKind::Block(lets, body) => {
                    self.lets(lets);
                    *body
                }
                &ExprKind::If(cond, then, other) => {
                    let bool = self.out.types.bool;
                    self.check(cond, bool, Why::Condition("if"));
                    let is_open = self.out.types.con_of(expected).is_none();
                    self.check(then, expected, why);
                    why = if is_open { Why::SameAs(ast.exprs[then].span, "the first branch") } else { why };
                    other
                }
                _ => return self.check_single(expr, expected, why),
            };
            self.set(expr, expected);
        }
    }

    /// Checks an expression that is no chain.
    fn check_single(&mut self, expr: ExprId, expected: Ty, why: Why) {
        let ast = self.ast;
        match &ast.exprs[expr].kind {
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
            ExprKind::Trace(text, body) => {
                self.text(text);
                self.check(*body, expected, why);
            }
            _ => self.check_inferred(expr, expected, why),
        }
    }

    /// The values of a text, which are to be shown.
    fn text(&mut self, text: &Text) {
        let Some(values) = text.values else { return };
        self.infer(values);
        let ExprKind::Tuple(parts) = &self.ast.exprs[values].kind else { return };
        for &part in parts {
            let ty = self.out.exprs[part];
            if self.out.types.require(ty, Class::Data).is_ok() {
                continue;
            }
            let is_function = self.out.types.con_of(ty) == Some(Con::Function);
            let what = if is_function { "a function" } else { "a value with a function in it" };
            let error = Diagnostic::error(self.ast.exprs[part].span, format!("{what} can't be shown"))
                .label(format!("this is {}", self.out.types.describe(ty)))
                .note("a text shows numbers, truth values, tuples, records, arrays, matrices, lists and data types");
            let error = self.with_missing_arguments(error, part, ty);
            self.sink.push(error);
        }
    }

    fn check_inferred(&mut self, expr: ExprId, expected: Ty, why: Why) {
        let found = self.infer_here(expr);
        // Messages look it up.
        self.set(expr, found);
        self.unify_expr(expr, expected, found, why);
    }

    fn infer_here(&mut self, expr: ExprId) -> Ty {
        let ast = self.ast;
        match &ast.exprs[expr].kind {
            ExprKind::Error => self.out.types.error,
            // Its type stands with the definition.
            ExprKind::Imported(_) => self.out.types.var(Class::Any),
            ExprKind::Int(_) => self.out.types.var(Class::Number),
            ExprKind::Real(_) => self.out.types.real,
            ExprKind::Bool(_) => self.out.types.bool,
            ExprKind::Var(_) | ExprKind::Constructor(_) => self.name(expr),
            ExprKind::Fail(text) => {
                self.text(text);
                self.out.types.var(Class::Any)
            }
            ExprKind::Trace(text, body) => {
                self.text(text);
                self.infer(*body)
            }
            ExprKind::Tuple(parts) | ExprKind::Par(parts) => {
                let parts = parts.iter().map(|&part| self.infer(part)).collect();
                self.out.types.tuple(parts)
            }
            ExprKind::Apply(callee, args) => self.apply(*callee, args),
            ExprKind::Binary(op, ..) if op.is_right_associative() => self.chain_from_last(expr),
            ExprKind::Negate(_) | ExprKind::Binary(..) | ExprKind::Access(..) | ExprKind::Index(..) => {
                self.chain_from_first(expr)
            }
            ExprKind::Cons(..) | ExprKind::Append(_) => self.lists(expr),
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
                self.out.types.array(element)
            }
            ExprKind::List(parts) => {
                let element = self.elements(parts);
                self.out.types.list(element)
            }
            ExprKind::Record(fields) => self.record(fields, None),
            ExprKind::Update(record, fields) => self.update(*record, fields),
            ExprKind::Matrix(rows) => {
                let parts: Vec<ExprId> = rows.iter().flatten().copied().collect();
                let element = self.elements(&parts);
                self.tensor(2, element)
            }
            ExprKind::Comprehension(comprehension) => {
                comprehension.clauses.iter().for_each(|&clause| self.clause(clause));
                let element = self.infer(comprehension.element);
                let kind = self.out.types.kind(comprehension.kind);
                self.out.types.collection(kind, element)
            }
            ExprKind::Table { element, generators } => {
                generators.iter().for_each(|&generator| self.generator(generator));
                let element = self.infer(*element);
                self.tensor(generators.len(), element)
            }
            ExprKind::Replace(array, replacements) => self.replace(*array, replacements),
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

    fn clause(&mut self, clause: Clause) {
        match clause {
            Clause::For(generator) => self.generator(generator),
            Clause::If(condition) => {
                let bool = self.out.types.bool;
                self.check(condition, bool, Why::Condition("if"));
            }
            Clause::Loop { pattern, init, iteration, next } => {
                self.accumulation(pattern, init, iteration, next);
            }
        }
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
                let found = self.infer(to);
                self.unify_expr(to, int, found, Why::Bound);
                // Who writes `for x < xs` means elements.
                let ty = self.out.types.collection_parts(found).map_or(int, |(_, element)| element);
                self.bind(index, ty, to);
            }
            Generator::Elements { element, collection } => {
                let (_, ty) = self.sequence_of(Operand { expr: collection, ty: None });
                self.bind(element, ty, collection);
                self.elements.extend(self.resolved.bound[element]);
                self.checks.push(Check::Let(element));
            }
        }
    }

    pub(super) fn elements(&mut self, parts: &[ExprId]) -> Ty {
        let element = self.out.types.var(Class::Any);
        let first = parts.first().map(|&part| self.ast.exprs[part].span).unwrap_or_default();
        for &part in parts {
            self.check(part, element, Why::SameAs(first, "the first element"));
        }
        element
    }

    /// A chain that begins with what is evaluated first: `a + b`, `-a`, `r.x`, `a[i]`.
    fn chain_from_first(&mut self, expr: ExprId) -> Ty {
        let mut chain = vec![expr];
        while let Some(Link::First(next)) = self.ast.chained(chain[chain.len() - 1]) {
            chain.push(next);
        }
        let first = chain.pop().expect("there are at least two");
        let mut left = Operand { expr: first, ty: None };
        while let Some(expr) = chain.pop() {
            let ty = match self.meter.step(self.ast.exprs[expr].span) {
                true => self.link(expr, left),
                false => self.out.types.error,
            };
            self.set(expr, ty);
            left = Operand { expr, ty: Some(ty) };
        }
        left.ty.unwrap_or(self.out.types.error)
    }

    /// An expression whose first part may be known already.
    fn link(&mut self, expr: ExprId, first: Operand) -> Ty {
        let ast = self.ast;
        match ast.exprs[expr].kind {
            ExprKind::Negate(_) => self.negate(first),
            ExprKind::Binary(op @ (BinaryOp::Pipe | BinaryOp::ComposeRight), _, right) => {
                self.function_operator(op, first, right)
            }
            ExprKind::Binary(op, _, right) => self.binary(op, first, right),
            ExprKind::Access(_, name, span) => {
                let record = self.operand(first);
                self.field(record, name, span)
            }
            ExprKind::Index(_, ref subscripts) => self.index(first, subscripts),
            _ => unreachable!("no chain begins so"),
        }
    }

    /// The type of an operand.
    pub(super) fn operand(&mut self, operand: Operand) -> Ty {
        operand.ty.unwrap_or_else(|| self.infer(operand.expr))
    }

    /// Checks an operand.
    pub(super) fn check_operand(&mut self, operand: Operand, expected: Ty, why: Why) {
        match operand.ty {
            Some(found) => self.unify_expr(operand.expr, expected, found, why),
            None => self.check(operand.expr, expected, why),
        }
    }

    /// `a :: b ++ c`, in any order.
    fn lists(&mut self, expr: ExprId) -> Ty {
        let ast = self.ast;
        let mut chain: Vec<(ExprId, Ty, Why)> = Vec::new();
        let mut last = expr;
        while self.meter.step(ast.exprs[last].span) {
            let (list, why, next) = match &ast.exprs[last].kind {
                ExprKind::Cons(heads, tail) => {
                    let element = self.elements(heads);
                    (self.out.types.list(element), Why::Tail(ast.exprs[heads[0]].span), *tail)
                }
                ExprKind::Append(parts) => {
                    let function = self.append_instance(last);
                    let list = self.as_function(function).map_or(self.out.types.error, |parts| parts.0);
                    let (&next, parts) = parts.split_last().expect("an operator has operands");
                    parts.iter().for_each(|&part| self.check(part, list, Why::Operand("++")));
                    (list, Why::Operand("++"), next)
                }
                _ => break,
            };
            chain.push((last, list, why));
            last = next;
        }
        let Some((mut expr, mut ty, why)) = chain.pop() else { return self.out.types.error };
        self.check(last, ty, why);
        while let Some((before, list, why)) = chain.pop() {
            self.set(expr, ty);
            self.unify_expr(expr, list, ty, why);
            (expr, ty) = (before, list);
        }
        ty
    }
}
