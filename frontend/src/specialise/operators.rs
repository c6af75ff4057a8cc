//! Operators: on written operands, as functions, and sections.

use super::Elaborator;
use super::form::{Code, FormNode, Shaped};
use crate::ast::{self, BinaryOp, Comparison, Side};
use crate::core::{ExprId, ExprKind};
use crate::list::List;
use crate::mono::{Mono, MonoNode};
use crate::prelude::Implied;
use crate::source::Span;

impl Elaborator<'_, '_> {
    /// An operator on evaluated operands; a composition on two functions and an argument.
    pub(super) fn operator(&mut self, op: BinaryOp, operands: Vec<Shaped>, ty: Mono, span: Span) -> Shaped {
        let operand_type = self.program.forms.mono(operands[1].form);
        match (op, &operands[..]) {
            (BinaryOp::Pipe, &[arg, function]) => {
                let mut bindings = Vec::new();
                let named = self.name_shaped(arg, &mut bindings);
                let arg = self.of_value(&named, span);
                let made = self.apply(function, vec![arg], ty, span);
                self.block_shaped(bindings, made)
            }
            (BinaryOp::ComposeRight, &[first, second, arg]) | (BinaryOp::ComposeLeft, &[second, first, arg]) => {
                let between = self.program.monos.result_of(self.program.forms.mono(first.form), 1);
                let inner = self.apply(first, vec![arg], between, span);
                self.apply(second, vec![inner], ty, span)
            }
            (BinaryOp::Cons, &[head, tail]) => {
                let fields = [head, tail].map(|part| self.materialised(part).expr);
                self.make_plain(ExprKind::Construct(1, fields.into()), ty, span)
            }
            (BinaryOp::Pow, &[base, exponent]) => {
                let expr = self.power(base.expr, exponent.expr, [ty, operand_type], Span::default(), span);
                Shaped { expr, form: self.plain(ty) }
            }
            (BinaryOp::And, &[a, b]) => {
                let zero = self.atom(crate::core::Atom::Int(0), span);
                self.make_plain(ExprKind::If([a.expr, b.expr, zero]), ty, span)
            }
            (BinaryOp::Or, &[a, b]) => {
                let one = self.atom(crate::core::Atom::Int(1), span);
                self.make_plain(ExprKind::If([a.expr, one, b.expr]), ty, span)
            }
            (BinaryOp::Compare(comparison), &[a, b]) => {
                let expr = self.compare(comparison, [a.expr, b.expr], operand_type, span);
                Shaped { expr, form: self.plain(ty) }
            }
            (BinaryOp::Spread(arithmetic, side), &[a, b]) => self.spread((arithmetic, side), [a, b], ty, span),
            (BinaryOp::Rem, &[a, b]) if self.is_real(ty) => {
                let whole = self.function_type(&[ty, ty], ty);
                let remainder = self.implied(Implied::Remainder, &[], whole, span);
                self.apply(remainder, vec![a, b], ty, span)
            }
            (_, &[a, b]) if self.array_kind(ty).is_some() => self.elementwise(op, [a, b], ty, span),
            (_, &[a, b]) => {
                let expr = self.arithmetic(op, [a.expr, b.expr], ty, span);
                Shaped { expr, form: self.plain(ty) }
            }
            _ => unreachable!("`{}` has its operands", op.symbol()),
        }
    }

    pub(super) fn compare(&mut self, comparison: Comparison, pair: [ExprId; 2], ty: Mono, span: Span) -> ExprId {
        let bool = self.program.monos.bool;
        if matches!(self.program.monos.node(ty), MonoNode::Real | MonoNode::Int | MonoNode::Bool) {
            return self.make(ExprKind::Compare(comparison, pair), bool, span);
        }
        let function = self.program.equality(ty);
        let equal = self.make(ExprKind::Call(function, pair.into()), bool, span);
        if comparison == Comparison::NotEqual { self.make(ExprKind::Not(equal), bool, span) } else { equal }
    }

    pub(super) fn section(
        &mut self,
        expr: ast::ExprId,
        op: BinaryOp,
        side: Side,
        operand: ast::ExprId,
        ty: Mono,
        span: Span,
    ) -> Shaped {
        let given = self.shaped(operand);
        let operand_type = self.type_of(operand);
        let MonoNode::Function(other, result) = *self.program.monos.node(ty) else {
            return self.nothing(ty, span);
        };
        let operands = if side == Side::Left { [operand_type, other] } else { [other, operand_type] };
        let whole = self.function_type(&operands, result);
        let function = match op {
            BinaryOp::Append => self.mention(expr),
            _ => self.known(Code::Operator(op, whole), whole, span),
        };
        match side {
            Side::Left => self.apply(function, vec![given], ty, span),
            Side::Right => {
                let types = self.program.no_types;
                let given = self.limited(given);
                let captures = Box::new([function.form, given.form]);
                let form = self.form(FormNode::Function { ty, code: Code::Flip(ty), types, captures });
                self.make_form(ExprKind::Values(List::from([function.expr, given.expr])), form, span)
            }
        }
    }
}
