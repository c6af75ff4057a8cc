//! Operators: arithmetic on two numbers of one type, comparisons, powers, composition, and sections.

use super::expr::Operand;
use super::{Infer, Why};
use crate::ast::{BinaryOp, Comparison, ExprId, ExprKind, Side};
use crate::diagnostics::Diagnostic;
use crate::resolve::Meaning;
use crate::types::{Class, Con, Kind, Kinds, Mismatch, Ty};

impl Infer<'_> {
    pub(super) fn negate(&mut self, operand: Operand) -> Ty {
        let ty = self.operand(operand);
        self.require(operand.expr, ty, Class::Arithmetic, "-");
        ty
    }

    pub(super) fn binary(&mut self, op: BinaryOp, left: Operand, right: ExprId) -> Ty {
        match op {
            BinaryOp::And | BinaryOp::Or => {
                let bool = self.out.types.bool;
                self.check_operand(left, bool, Why::Operand(op.symbol()));
                self.check(right, bool, Why::Operand(op.symbol()));
                bool
            }
            BinaryOp::Compare(comparison) => {
                let class = match comparison {
                    Comparison::Equal | Comparison::NotEqual => Class::Equal,
                    _ => Class::Ordered,
                };
                if let Some(left) = self.not_negated(left, right) {
                    self.operands(op, class, left, right);
                }
                self.out.types.bool
            }
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => {
                let class = if op == BinaryOp::Rem { Class::Any } else { Class::Arithmetic };
                let ty = self.operands(op, class, left, right);
                if op == BinaryOp::Rem { self.remainder(left.expr, ty) } else { ty }
            }
            BinaryOp::Spread(_, side) => {
                let [left_type, right_type, result] = self.operator_parts(left.expr, op);
                let (array, number) =
                    if side == Side::Left { (left_type, right_type) } else { (right_type, left_type) };
                let found = self.operand(left);
                self.spread_operand(left.expr, left_type, found, op, array == left_type);
                let found = self.infer(right);
                self.spread_operand(right, right_type, found, op, number != right_type);
                result
            }
            _ => unreachable!("the caller handles `{}`", op.symbol()),
        }
    }

    /// The left operand of a comparison, unless it is `not x` for a number x, as in `not x > 0`, which is reported.
    fn not_negated(&mut self, left: Operand, right: ExprId) -> Option<Operand> {
        let Some([not, arg]) = self.negated(left.expr).filter(|_| left.ty.is_none()) else { return Some(left) };
        let (bool, found) = (self.out.types.bool, self.infer(arg));
        if !self.is_number(found) {
            self.infer(not);
            self.unify_expr(arg, bool, found, Why::Argument(not, 0));
            return Some(Operand { expr: left.expr, ty: Some(self.set(left.expr, bool)) });
        }
        let span = self.ast.exprs[arg].span;
        let comparison = self.sources.excerpt(span.to(self.ast.exprs[right].span)).unwrap_or("a < b");
        let error = self.mismatch(span, bool, found, Why::Argument(not, 0), Mismatch::Different);
        self.sink.push(error.help(format!("`not` takes what directly follows it: write `not ({comparison})`")));
        self.infer(right);
        None
    }

    /// `not` and its argument, if this is what an operand is.
    fn negated(&self, operand: ExprId) -> Option<[ExprId; 2]> {
        let ExprKind::Apply(callee, args) = &self.ast.exprs[operand].kind else { return None };
        let is_not =
            matches!(self.resolved.meanings[*callee], Some(Meaning::Builtin(_))) && self.callee_name(*callee) == "not";
        match args[..] {
            [arg] if is_not => Some([*callee, arg]),
            _ => None,
        }
    }

    /// An operand of `.+` and its kin, which is an array or a number.
    fn spread_operand(&mut self, operand: ExprId, wanted: Ty, found: Ty, op: BinaryOp, is_array: bool) {
        if self.out.types.unify(wanted, found).is_ok() {
            return;
        }
        let is_number = self.is_number(found);
        let is_of_arrays = self.out.types.kind_of(found).is_some_and(|kind| Kinds::ARRAYS.has(kind));
        let (wanted, ty, found) = (self.out.types.describe(wanted), found, self.out.types.describe(found));
        let error = Diagnostic::error(self.ast.exprs[operand].span, format!("expected {wanted}, found {found}"));
        let what = if is_array { "an array of numbers" } else { "a number" };
        let error = error.label(format!("this is {found}"));
        let error = error.note(format!("`{}` has {what} on this side: the dot is where the array is", op.symbol()));
        let plain = op.symbol().trim_matches('.');
        self.sink.push(match is_array {
            true if is_number => error.help(format!("of two numbers it is `a {plain} b`")),
            false if is_of_arrays => error.help(format!("of two arrays it is `a {plain} b`, element by element")),
            _ => self.with_missing_arguments(error, operand, ty),
        });
    }

    /// Two operands of one type that is in a class.
    fn operands(&mut self, op: BinaryOp, class: Class, left: Operand, right: ExprId) -> Ty {
        let left_type = self.operand(left);
        let left = left.expr;
        let left_fits = self.require(left, left_type, class, op.symbol());
        let right_type = self.infer(right);
        if !left_fits {
            return self.out.types.error;
        }
        if self.out.types.unify(left_type, right_type).is_ok() {
            return left_type;
        }
        let numbers = [left_type, right_type].map(|ty| self.out.types.con_of(ty));
        if let [Some(Con::Int), Some(Con::Real)] | [Some(Con::Real), Some(Con::Int)] = numbers {
            let int_first = numbers[0] == Some(Con::Int);
            let (int, real) = if int_first { (left, right) } else { (right, left) };
            let message = format!("`{}` needs two numbers of the same type", op.symbol());
            let error = Diagnostic::error(self.ast.exprs[int].span, message)
                .label("this is `Int`")
                .also(self.ast.exprs[real].span, "this is `Real`")
                .help("an `Int` becomes a `Real` with `to_real`");
            self.sink.push(error);
            return self.out.types.real;
        }
        if let Err(mismatch) = self.out.types.unify(left_type, right_type) {
            let place = self.innermost(right);
            let why = Why::Operand(op.symbol());
            let error = self.mismatch(self.ast.exprs[place].span, left_type, right_type, why, mismatch);
            let error = self.with_conversion(error, place, left_type, right_type);
            let error = self.with_spread(error, op, [left, right], [left_type, right_type]);
            let error = self.with_matrix(error, op, [left, right], [left_type, right_type]);
            self.sink.push(error);
        }
        self.out.types.error
    }

    /// Sees to it that an operand's type is in a class; whether it is.
    fn require(&mut self, operand: ExprId, ty: Ty, class: Class, symbol: &str) -> bool {
        if self.out.types.require(ty, class).is_ok() {
            return true;
        }
        let found = self.out.types.describe(ty);
        let wanted = match class {
            Class::Equal => "something without functions",
            Class::Arithmetic => "`Int`, `Real`, or an array of such",
            _ => "`Int` or `Real`",
        };
        let error = Diagnostic::error(self.ast.exprs[operand].span, format!("`{symbol}` does not work on {found}"))
            .label(format!("expected {wanted}, found {found}"));
        let error = self.out.types.meaning(ty).into_iter().fold(error, Diagnostic::note);
        let error = match class {
            Class::Ordered if self.out.types.con_of(ty) == Some(Con::Tuple) => {
                error.help("compare the parts one by one")
            }
            Class::Ordered if self.negated(operand).is_some() => {
                error.help(format!("`not` takes what directly follows it: write `not (a {symbol} b)`"))
            }
            Class::Arithmetic | Class::Number if self.out.types.con_of(ty) == Some(Con::Tuple) => {
                let number = self.out.types.var(Class::Number);
                self.with_part_of_loop(error, self.innermost(operand), number, ty)
            }
            Class::Equal => error.note("functions can't be compared"),
            Class::Number if symbol == "^" && self.out.types.kind_of(ty).is_some() => {
                error.help("of each element it is `map (^ 2) xs`")
            }
            Class::Arithmetic if self.out.types.kind_of(ty) == Some(Kind::List) => {
                error.help(format!("of lists it is `zip_with ({symbol}) xs ys`, or with arrays"))
            }
            _ => error,
        };
        let error = match (symbol, self.arguments_left(operand, ty)) {
            ("-", Some((callee, 0, _))) => {
                let name = self.callee_name(callee);
                let error = error.help(format!("a negative argument stands in parentheses: `{name} (-x)`"));
                self.with_signature(error, callee)
            }
            _ => self.with_missing_arguments(error, operand, ty),
        };
        self.sink.push(error);
        false
    }

    /// The type of a remainder of operands of a type: that of `Int`s, unless they are known to be reals.
    fn remainder(&mut self, left: ExprId, ty: Ty) -> Ty {
        if self.out.types.con_of(ty) == Some(Con::Real) {
            return ty;
        }
        let int = self.out.types.int;
        self.unify_expr(left, int, ty, Why::Operand("%"));
        int
    }

    /// A chain that begins with what is evaluated last: `a ^ b ^ c`, `f << g << h`.
    pub(super) fn chain_from_last(&mut self, expr: ExprId) -> Ty {
        let ast = self.ast;
        let mut chain = Vec::new();
        let mut last = expr;
        while let ExprKind::Binary(op, left, right) = ast.exprs[last].kind
            && op.is_right_associative()
            && self.meter.step(ast.exprs[last].span)
        {
            let ty = self.infer(left);
            let fits = op != BinaryOp::Pow || self.require(left, ty, Class::Number, "^");
            chain.push((last, op, left, ty, fits));
            last = right;
        }
        let is_exponent = chain.last().is_some_and(|&(_, op, ..)| op == BinaryOp::Pow);
        let mut right_type = if is_exponent && self.is_integer_literal(last) {
            let int = self.out.types.int;
            self.check(last, int, Why::Operand("^"));
            int
        } else {
            self.infer(last)
        };
        while let Some((expr, op, left, left_type, fits)) = chain.pop() {
            right_type = match op {
                BinaryOp::Pow => self.power(left_type, fits, last, right_type),
                _ => self.composition(op, [left, last], [left_type, right_type]),
            };
            self.set(expr, right_type);
            last = expr;
        }
        right_type
    }

    /// `base ^ exponent`: the type of the base; the exponent is an Int or a Real of its own.
    fn power(&mut self, base: Ty, fits: bool, exponent: ExprId, exponent_type: Ty) -> Ty {
        self.require(exponent, exponent_type, Class::Number, "^");
        let types = &self.out.types;
        if types.con_of(base) == Some(Con::Int) && types.con_of(exponent_type) == Some(Con::Real) {
            let error =
                Diagnostic::error(self.ast.exprs[exponent].span, "an `Int` has no power with a `Real` exponent")
                    .label(format!("expected `Int`, found {}", types.describe(exponent_type)))
                    .help("convert the base: `to_real n ^ x`");
            self.sink.push(error);
        }
        if fits { base } else { self.out.types.error }
    }

    /// Whether an exponent is written as an integer, so that it is one.
    fn is_integer_literal(&self, expr: ExprId) -> bool {
        match self.ast.exprs[expr].kind {
            ExprKind::Int(_) => true,
            ExprKind::Negate(operand) => matches!(self.ast.exprs[operand].kind, ExprKind::Int(_)),
            _ => false,
        }
    }

    /// `x |> f` and `f >> g`.
    pub(super) fn function_operator(&mut self, op: BinaryOp, left: Operand, right: ExprId) -> Ty {
        let left_type = self.operand(left);
        let left = left.expr;
        if op == BinaryOp::ComposeRight {
            let right_type = self.infer(right);
            return self.composition(op, [left, right], [left_type, right_type]);
        }
        let right_type = if matches!(self.ast.exprs[right].kind, ExprKind::Lambda(..)) {
            let result = self.out.types.var(Class::Any);
            let function = self.out.types.function(left_type, result);
            self.check(right, function, Why::Operand(op.symbol()));
            function
        } else {
            self.infer(right)
        };
        let Some((param, result)) = self.operand_function(op, Side::Right, right, right_type) else {
            return self.out.types.error;
        };
        // Of `x |> f a` it is the argument after those that are written.
        let (callee, index) = match &self.ast.exprs[right].kind {
            ExprKind::Apply(callee, args) => (*callee, args.len()),
            _ => (right, 0),
        };
        self.unify_expr(left, param, left_type, Why::Argument(callee, index));
        result
    }

    /// `f >> g` and `f << g`, for operands of these types.
    fn composition(&mut self, op: BinaryOp, [left, right]: [ExprId; 2], [left_type, right_type]: [Ty; 2]) -> Ty {
        let Some((param, result)) = self.operand_function(op, Side::Right, right, right_type) else {
            return self.out.types.error;
        };
        let Some((left_param, left_result)) = self.operand_function(op, Side::Left, left, left_type) else {
            return self.out.types.error;
        };
        if op == BinaryOp::ComposeRight {
            self.unify_expr(right, param, left_result, Why::Composed(self.ast.exprs[left].span));
            self.out.types.function(left_param, result)
        } else {
            self.unify_expr(left, left_param, result, Why::Composed(self.ast.exprs[right].span));
            self.out.types.function(param, left_result)
        }
    }

    /// The parameter and the result of an operand that must be a function, on one side of an operator.
    fn operand_function(&mut self, op: BinaryOp, side: Side, operand: ExprId, ty: Ty) -> Option<(Ty, Ty)> {
        let parts = self.as_function(ty);
        if parts.is_none() && !self.out.types.is_error(ty) {
            let found = self.out.types.describe(ty);
            let message = format!("`{}` needs a function here, found {found}", op.symbol());
            let error = Diagnostic::error(self.ast.exprs[operand].span, message).label(format!("this is {found}"));
            // A shift of bits of other languages has a number on the right.
            let shift = match op {
                BinaryOp::ComposeLeft => Some("the left shift of bits is `shift_left a n`"),
                BinaryOp::ComposeRight => Some("the right shift of bits, with sign, is `shift_right a n`"),
                _ => None,
            };
            self.sink.push(match shift.filter(|_| side == Side::Right && self.is_number(ty)) {
                Some(shift) => error.help(shift),
                None => error,
            });
        }
        parts
    }

    /// The types of an operator's operands and of its result.
    fn operator_parts(&mut self, expr: ExprId, op: BinaryOp) -> [Ty; 3] {
        if op == BinaryOp::Append {
            let function = self.append_instance(expr);
            let list = self.as_function(function).map_or(self.out.types.error, |parts| parts.0);
            return [list; 3];
        }
        let types = &mut self.out.types;
        let mut fresh = |class| types.var(class);
        match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div => [fresh(Class::Arithmetic); 3],
            BinaryOp::Spread(_, side) => {
                let (kind, number) = (fresh(Class::Kind(Kinds::ARRAYS)), fresh(Class::Number));
                let array = types.collection(kind, number);
                if side == Side::Left { [array, number, array] } else { [number, array, array] }
            }
            BinaryOp::Pow => {
                let base = fresh(Class::Number);
                [base, fresh(Class::Number), base]
            }
            BinaryOp::Compare(Comparison::Equal | Comparison::NotEqual) => {
                let operand = fresh(Class::Equal);
                [operand, operand, types.bool]
            }
            BinaryOp::Compare(_) => {
                let operand = fresh(Class::Ordered);
                [operand, operand, types.bool]
            }
            BinaryOp::Rem => [types.int; 3],
            BinaryOp::And | BinaryOp::Or => [types.bool; 3],
            BinaryOp::Cons | BinaryOp::Append => {
                let element = fresh(Class::Any);
                let list = types.list(element);
                [element, list, list]
            }
            BinaryOp::Pipe => {
                let (param, result) = (fresh(Class::Any), fresh(Class::Any));
                [param, types.function(param, result), result]
            }
            BinaryOp::ComposeRight | BinaryOp::ComposeLeft => {
                let [a, b, c] = [fresh(Class::Any), fresh(Class::Any), fresh(Class::Any)];
                let (first, second) = (types.function(a, b), types.function(b, c));
                let whole = types.function(a, c);
                if op == BinaryOp::ComposeRight { [first, second, whole] } else { [second, first, whole] }
            }
        }
    }

    /// `(op)`.
    pub(super) fn operator(&mut self, expr: ExprId, op: BinaryOp) -> Ty {
        let [left, right, result] = self.operator_parts(expr, op);
        self.out.types.functions(&[left, right], result)
    }

    /// `(a op)` or `(op b)`.
    pub(super) fn section(&mut self, expr: ExprId, op: BinaryOp, side: Side, operand: ExprId) -> Ty {
        if op == BinaryOp::Rem {
            let found = self.infer(operand);
            let ty = self.remainder(operand, found);
            return self.out.types.function(ty, ty);
        }
        let [left, right, result] = self.operator_parts(expr, op);
        let (given, missing) = match side {
            Side::Left => (left, right),
            Side::Right => (right, left),
        };
        if op == BinaryOp::Pow && side == Side::Right && self.is_integer_literal(operand) {
            let int = self.out.types.int;
            self.out.types.unify(given, int).expect("an exponent may be an Int");
        }
        self.check(operand, given, Why::Operand(op.symbol()));
        self.out.types.function(missing, result)
    }
}
