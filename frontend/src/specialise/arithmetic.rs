//! Operators and builtins at concrete types: which instructions they are.

use super::{Elaborator, Specialiser};
use crate::arena::Id;
use crate::ast::{BinaryOp, Comparison};
use crate::builtins::Builtin;
use crate::core::{Atom, Binding, Body, Expr, ExprId, ExprKind, Function, FunctionId, Iteration, Loop, Origin, Text};
use crate::diagnostics::Diagnostic;
use crate::list::List;
use crate::mono::Mono;
use crate::source::Span;
use dualvm_vm::isa::Op;
use dualvm_vm::module::{HostType, Piece, ValueType};

/// Constant exponents up to this become multiplications.
const MULTIPLIED_EXPONENT_MAX: u64 = 16;

impl Elaborator<'_, '_> {
    fn scalar(&mut self, op: Op, args: impl Into<List<ExprId>>, ty: Mono, span: Span) -> ExprId {
        self.make(ExprKind::Scalar(op, args.into()), ty, span)
    }

    pub(super) fn arithmetic(&mut self, op: BinaryOp, pair: [ExprId; 2], ty: Mono, span: Span) -> ExprId {
        let (real, int) = match op {
            BinaryOp::Add => (Op::Add, Op::IAdd),
            BinaryOp::Sub => (Op::Sub, Op::ISub),
            BinaryOp::Mul => (Op::Mul, Op::IMul),
            BinaryOp::Div => (Op::Div, Op::IDiv),
            // That of reals is a definition of the prelude.
            BinaryOp::Rem => (Op::IRem, Op::IRem),
            _ => unreachable!("the caller handles `{}`", op.symbol()),
        };
        self.scalar(if self.is_real(ty) { real } else { int }, pair, ty, span)
    }

    pub(super) fn negate(&mut self, value: ExprId, ty: Mono, span: Span) -> ExprId {
        match self.body.exprs[value].kind {
            ExprKind::Real(constant) => self.atom(Atom::Real(-constant), span),
            ExprKind::Int(constant) => self.atom(Atom::Int(constant.wrapping_neg()), span),
            _ => self.scalar(if self.is_real(ty) { Op::Neg } else { Op::INeg }, [value], ty, span),
        }
    }

    pub(super) fn builtin(&mut self, builtin: Builtin, values: Vec<ExprId>, ty: Mono, span: Span) -> ExprId {
        let real = self.is_real(ty);
        match builtin {
            Builtin::Scalar(op) => self.scalar(op, values, ty, span),
            Builtin::Length
            | Builtin::ByKind
            | Builtin::Replace
            | Builtin::Elements
            | Builtin::WithElements
            | Builtin::SameShape
            | Builtin::Sizes
            | Builtin::Size(_)
            | Builtin::Shaped(_)
            | Builtin::ParallelBuild
            | Builtin::Jvp
            | Builtin::ValueAndGrad
            | Builtin::Pull
            | Builtin::Detach
            | Builtin::Checkpoint
            | Builtin::CustomVjp
            | Builtin::CustomJvp => {
                unreachable!("the caller handles what asks for more than values")
            }
            Builtin::Not => self.make(ExprKind::Not(values[0]), ty, span),
            Builtin::Pi => self.atom(Atom::Real(std::f64::consts::PI), span),
            Builtin::Min => self.scalar(if real { Op::Min } else { Op::IMin }, values, ty, span),
            Builtin::Max => self.scalar(if real { Op::Max } else { Op::IMax }, values, ty, span),
            Builtin::Abs if real => self.scalar(Op::Abs, values, ty, span),
            Builtin::Sign if real => self.scalar(Op::Sign, values, ty, span),
            Builtin::Abs => {
                let mut bindings = Vec::new();
                let named = self.name_value(values[0], &mut bindings);
                let (kept, negated) = (self.atom(named, span), self.atom(named, span));
                let negated = self.scalar(Op::INeg, [negated], ty, span);
                let value = self.scalar(Op::IMax, [kept, negated], ty, span);
                self.block(bindings, value)
            }
            Builtin::Sign => {
                let low = self.atom(Atom::Int(-1), span);
                let at_least = self.scalar(Op::IMax, [values[0], low], ty, span);
                let high = self.atom(Atom::Int(1), span);
                self.scalar(Op::IMin, [at_least, high], ty, span)
            }
        }
    }

    /// A power with constant exponents multiplied out. The types are those of base and exponent; `place` is where the
    /// exponent is written, if it is.
    pub(super) fn power(
        &mut self,
        base: ExprId,
        exponent: ExprId,
        [ty, exponent_type]: [Mono; 2],
        place: Span,
        span: Span,
    ) -> ExprId {
        let real = self.is_real(ty);
        if let ExprKind::Int(n) = self.body.exprs[exponent].kind
            && n.unsigned_abs() <= MULTIPLIED_EXPONENT_MAX
            && (n >= 0 || real || place != Span::default())
        {
            if n < 0 && !real {
                let error = Diagnostic::error(place, "an `Int` has no negative power").label("this is negative");
                self.program.sink.push(error.help("convert the base: `to_real n ^ -1`"));
            }
            return self.multiplied(base, n, ty, span);
        }
        match (real, self.is_real(exponent_type)) {
            (true, true) => self.scalar(Op::Pow, [base, exponent], ty, span),
            (true, false) => self.scalar(Op::Powi, [base, exponent], ty, span),
            (false, false) => {
                let function = self.program.int_power();
                self.make(ExprKind::Call(function, List::from([base, exponent])), ty, span)
            }
            (false, true) => {
                let error = Diagnostic::error(place, "an `Int` has no power with a `Real` exponent")
                    .label("an instance of this definition has an `Int` base and this exponent")
                    .help("declare the type of the base or of the exponent");
                self.program.sink.push(error);
                base
            }
        }
    }

    /// A power by repeated squaring, which rounds as `powi` does.
    fn multiplied(&mut self, base: ExprId, n: i64, ty: Mono, span: Span) -> ExprId {
        let one = if self.is_real(ty) { Atom::Real(1.0) } else { Atom::Int(1) };
        let mut bindings = Vec::new();
        let named = self.name_value(base, &mut bindings);
        let value = match n.unsigned_abs() {
            0 => self.atom(one, span),
            n => self.repeated_product(named, n, ty, span, &mut bindings),
        };
        let value = if n < 0 {
            let one = self.atom(one, span);
            self.scalar(Op::Div, [one, value], ty, span)
        } else {
            value
        };
        self.block(bindings, value)
    }

    fn repeated_product(&mut self, base: Atom, n: u64, ty: Mono, span: Span, bindings: &mut Vec<Binding>) -> ExprId {
        let mul = if self.is_real(ty) { Op::Mul } else { Op::IMul };
        if n == 1 {
            return self.atom(base, span);
        }
        let pair = if n.is_multiple_of(2) {
            let half = self.repeated_product(base, n / 2, ty, span, bindings);
            let half = self.name_value(half, bindings);
            [half, half].map(|half| self.atom(half, span))
        } else {
            [self.repeated_product(base, n - 1, ty, span, bindings), self.atom(base, span)]
        };
        self.scalar(mul, pair, ty, span)
    }
}

impl Specialiser<'_> {
    /// The function that raises an integer to an integer power, by repeated squaring. Traps for a negative exponent.
    fn int_power(&mut self) -> FunctionId {
        if let Some(function) = self.int_power {
            return function;
        }
        let int = self.program.lists.intern(&[ValueType::Int]);
        let triple = self.program.lists.intern(&[ValueType::Int; 3]);
        let mut body = Body::default();
        let mut var = || body.vars.push(ValueType::Int);
        let (base, exponent) = (var(), var());
        let (result, square, rest) = (var(), var(), var());
        let mut make = |kind, types| body.exprs.push(Expr { kind, types, origin: Origin::default() });
        let scalar = |op, args: [ExprId; 2]| ExprKind::Scalar(op, List::from(args));

        let init = [ExprKind::Int(1), ExprKind::Var(base), ExprKind::Var(exponent)].map(|kind| make(kind, int));
        let init = make(ExprKind::Values(init.into()), triple);
        let compared = [ExprKind::Var(rest), ExprKind::Int(0)].map(|kind| make(kind, int));
        let cond = make(ExprKind::Compare(Comparison::Greater, compared), int);

        let bit = [ExprKind::Var(rest), ExprKind::Int(1)].map(|kind| make(kind, int));
        let odd = make(scalar(Op::IAnd, bit), int);
        let product = [ExprKind::Var(result), ExprKind::Var(square)].map(|kind| make(kind, int));
        let product = make(scalar(Op::IMul, product), int);
        let kept = make(ExprKind::Var(result), int);
        let next_result = make(ExprKind::Scalar(Op::ISelect, List::from([odd, product, kept])), int);
        let squared = [ExprKind::Var(square), ExprKind::Var(square)].map(|kind| make(kind, int));
        let next_square = make(scalar(Op::IMul, squared), int);
        let halved = [ExprKind::Var(rest), ExprKind::Int(1)].map(|kind| make(kind, int));
        let next_rest = make(scalar(Op::IShr, halved), int);
        let next = make(ExprKind::Values(List::from([next_result, next_square, next_rest])), triple);
        let vars = List::from([result, square, rest]);
        let repeat = Loop { vars, init, iteration: Iteration::While(cond), body: next };
        let powers = make(ExprKind::Loop(Box::new(repeat)), triple);
        let mut var = || body.vars.push(ValueType::Int);
        let ends = List::from([var(), var(), var()]);
        let mut make = |kind, types| body.exprs.push(Expr { kind, types, origin: Origin::default() });
        let value = make(ExprKind::Var(ends[0]), int);
        let value = make(ExprKind::Block(Box::new([Binding { vars: ends, value: powers }]), value), int);

        let compared = [ExprKind::Var(exponent), ExprKind::Int(0)].map(|kind| make(kind, int));
        let negative = make(ExprKind::Compare(Comparison::Less, compared), int);
        let shown = make(ExprKind::Var(exponent), int);
        let pieces = ["an Int has no power with the negative exponent "].map(|text| Piece::Text(text.to_owned()));
        let pieces = pieces.into_iter().chain([Piece::Value(HostType::Int)]).collect();
        let text = Text { pieces, function: None, args: List::from([shown]) };
        let trap = make(ExprKind::Trap(Box::new(text)), int);
        let root = make(ExprKind::If([negative, trap, value]), int);
        let name = "^<Int>".to_owned();
        let id = FunctionId::from_index(self.program.functions.len());
        let function = Function {
            id,
            name,
            written: None,
            interface: None,
            twin_of: None,
            params: vec![base, exponent],
            results: int,
            body,
            root,
        };
        *self.int_power.insert(self.program.functions.push(function))
    }
}
