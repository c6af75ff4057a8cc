//! Chains of operators, fields and indices: `a + b + c`, `r.x.y`, `a ^ b ^ c`, `x :: xs ++ ys`. They are as long as the
//! program's text allows, and so are neither walked nor made by recursion: every so often a value gets a name.

use super::Elaborator;
use super::form::{Code, Shaped, Value};
use crate::ast::{self, BinaryOp, ExprKind as Surface, Link};
use crate::core::{Atom, Binding, ExprKind};
use crate::mono::Mono;
use crate::names::Name;
use crate::resolve::Meaning;
use crate::source::Span;

/// So many operators nest.
const NESTED_MAX: usize = 64;

/// The value of a chain so far.
enum First {
    Made(Shaped),
    /// It has a name, so that a part of it is at hand.
    Named(Value),
}

/// An operand of a list operator.
enum Part {
    /// The elements before `::`, by their values, and how many.
    Heads(Vec<Atom>, usize),
    /// The list before `++`, and the expression whose operator it is.
    List(Value, ast::ExprId),
}

impl Elaborator<'_, '_> {
    /// A chain that begins with what is evaluated first.
    pub(super) fn chain_from_first(&mut self, expr: ast::ExprId) -> Shaped {
        let ast = self.program.ast;
        let mut chain = vec![expr];
        while let Some(Link::First(next)) = ast.chained(chain[chain.len() - 1]) {
            chain.push(next);
        }
        let first = chain.pop().expect("there are at least two");
        let mut bindings = Vec::new();
        let mut value = match self.program.resolved.meanings[first] {
            Some(Meaning::Local(local)) => First::Named(self.locals[&local].clone()),
            _ => First::Made(self.shaped(first)),
        };
        let mut nested = 0;
        while let Some(expr) = chain.pop() {
            let span = ast.exprs[expr].span;
            self.count(span);
            nested += 1;
            if nested % NESTED_MAX == 0 {
                value = First::Named(self.named(value, &mut bindings));
            }
            value = match ast.exprs[expr].kind {
                _ if self.program.is_stopped() => First::Made(self.nothing(self.program.monos.unit, span)),
                Surface::Access(record, name, _) => {
                    let record_type = self.type_of(record);
                    let record = self.named(value, &mut bindings);
                    First::Named(self.access(&record, record_type, name, &mut bindings, span))
                }
                _ => {
                    let value = self.made(value, span);
                    First::Made(self.link(expr, value, span))
                }
            };
        }
        let span = ast.exprs[expr].span;
        let value = self.made(value, span);
        self.block_shaped(bindings, value)
    }

    fn made(&mut self, value: First, span: Span) -> Shaped {
        match value {
            First::Made(value) => value,
            First::Named(value) => self.of_value(&value, span),
        }
    }

    fn named(&mut self, value: First, bindings: &mut Vec<Binding>) -> Value {
        match value {
            First::Made(value) => self.name_shaped(value, bindings),
            First::Named(value) => value,
        }
    }

    /// An operator or an index whose first operand is made already.
    fn link(&mut self, expr: ast::ExprId, first: Shaped, span: Span) -> Shaped {
        let (ast, ty) = (self.program.ast, self.type_of(expr));
        match ast.exprs[expr].kind {
            Surface::Negate(_) if self.array_kind(ty).is_some() => self.negated(first, ty, span),
            Surface::Negate(_) => {
                let operand = self.materialised(first).expr;
                let made = self.negate(operand, ty, span);
                Shaped { expr: made, form: self.plain(ty) }
            }
            Surface::Index(array, ref subscripts) => self.index((array, first), subscripts, ty, span),
            Surface::Binary(op @ (BinaryOp::And | BinaryOp::Or), _, right) => {
                let pair = [self.materialised(first).expr, self.expr(right)];
                let kind = if op == BinaryOp::And { ExprKind::And(pair) } else { ExprKind::Or(pair) };
                self.make_plain(kind, ty, span)
            }
            Surface::Binary(BinaryOp::ComposeRight, left, right) => {
                let second = self.shaped(right);
                self.composition(BinaryOp::ComposeRight, [left, right], [first, second], ty, span)
            }
            Surface::Binary(op, _, right) => {
                let second = self.shaped(right);
                self.operator(op, vec![first, second], ty, span)
            }
            _ => unreachable!("no chain begins so"),
        }
    }

    fn composition(
        &mut self,
        op: BinaryOp,
        operands: [ast::ExprId; 2],
        values: [Shaped; 2],
        ty: Mono,
        span: Span,
    ) -> Shaped {
        let types = operands.map(|operand| self.type_of(operand));
        let whole = self.function_type(&types, ty);
        let operator = self.known(Code::Operator(op, whole), whole, span);
        self.apply(operator, values.to_vec(), ty, span)
    }

    /// The field of a named record.
    fn access(
        &mut self,
        record: &Value,
        record_type: Mono,
        name: Name,
        bindings: &mut Vec<Binding>,
        span: Span,
    ) -> Value {
        match self.only_constructor(record_type) {
            Some((_, names)) => {
                let at = names.iter().position(|&field| field == name).expect("inference knows the field");
                self.field(record, record_type, 0, at, bindings, span)
            }
            None => {
                let at = self.record_field(record_type, name).expect("inference knows the field");
                self.part_of(record, at)
            }
        }
    }

    /// A chain that begins with what is evaluated last: `a ^ b ^ c`, `f << g << h`.
    pub(super) fn chain_from_last(&mut self, expr: ast::ExprId) -> Shaped {
        let ast = self.program.ast;
        let mut chain = Vec::new();
        let mut last = expr;
        while let Surface::Binary(op, left, right) = ast.exprs[last].kind
            && op.is_right_associative()
        {
            chain.push((last, op, left, right));
            last = right;
        }
        let is_long = chain.len() > NESTED_MAX;
        let mut bindings = Vec::new();
        let mut lefts = Vec::with_capacity(chain.len());
        for &(_, op, left, _) in &chain {
            let mut value = self.shaped(left);
            if op == BinaryOp::Pow {
                value = self.materialised(value);
            }
            lefts.push(match is_long {
                true => First::Named(self.name_shaped(value, &mut bindings)),
                false => First::Made(value),
            });
        }
        let mut value = self.shaped(last);
        for (nested, ((expr, op, left, right), first)) in chain.into_iter().zip(lefts).rev().enumerate() {
            let span = ast.exprs[expr].span;
            self.count(span);
            if is_long && nested % NESTED_MAX == 0 {
                let named = self.name_shaped(value, &mut bindings);
                value = self.of_value(&named, span);
            }
            let first = self.made(first, span);
            let ty = self.type_of(expr);
            value = match op {
                _ if self.program.is_stopped() => self.nothing(ty, span),
                BinaryOp::Pow => {
                    let types = [ty, self.type_of(right)];
                    let exponent = self.materialised(value).expr;
                    let made = self.power(first.expr, exponent, types, ast.exprs[right].span, span);
                    Shaped { expr: made, form: self.plain(ty) }
                }
                _ => self.composition(op, [left, right], [first, value], ty, span),
            };
        }
        self.block_shaped(bindings, value)
    }

    /// `a :: b ++ c`, in any order: the operands from left to right, and then the lists from right to left.
    pub(super) fn lists(&mut self, expr: ast::ExprId, ty: Mono) -> Shaped {
        let ast = self.program.ast;
        let span = ast.exprs[expr].span;
        let mut bindings = Vec::new();
        let mut parts = Vec::new();
        let mut last = expr;
        loop {
            self.count(ast.exprs[last].span);
            last = match &ast.exprs[last].kind {
                Surface::Cons(heads, tail) => {
                    let mut atoms = Vec::new();
                    for &head in heads {
                        let head = self.expr(head);
                        self.body.name_values(head, &self.program.program.lists, &mut bindings, &mut atoms);
                    }
                    parts.push(Part::Heads(atoms, heads.len()));
                    *tail
                }
                Surface::Append(lists) => {
                    let (&next, lists) = lists.split_last().expect("an operator has operands");
                    for &list in lists {
                        let list = self.shaped(list);
                        parts.push(Part::List(self.name_shaped(list, &mut bindings), last));
                    }
                    next
                }
                _ => break,
            };
        }
        let mut list = self.shaped(last);
        for (nested, part) in parts.into_iter().rev().enumerate() {
            if self.program.is_stopped() {
                break;
            }
            list = match part {
                Part::Heads(atoms, count) => {
                    let tail = self.materialised(list);
                    self.cons_named(&atoms, count, tail, &mut bindings, ty, span)
                }
                Part::List(first, operator) => {
                    if nested % NESTED_MAX == 0 {
                        let named = self.name_shaped(list, &mut bindings);
                        list = self.of_value(&named, span);
                    }
                    let first = self.of_value(&first, span);
                    let append = self.mention(operator);
                    self.apply(append, vec![first, list], ty, span)
                }
            };
        }
        self.block_shaped(bindings, list)
    }
}
