//! Derivative operators. What a derivative is taken of is an instance of its own, as a task is: it has the registers of
//! what the function captures as its first parameters, and those of the argument behind them. Only the argument's are
//! differentiated. Integers and booleans have no derivatives: where a tangent or a gradient has room for one, it is 0.

use super::Elaborator;
use super::form::{Code, FormNode, Shaped, Value};
use super::instance::Key;
use crate::core::{Atom, Binding, Derivative, Expr, ExprId, ExprKind, FunctionId, Operator, Var};
use crate::list::List;
use crate::mono::Mono;
use crate::source::Span;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;

/// A call that is differentiated: its function, and the registers of captures and argument.
struct Call {
    function: FunctionId,
    captures: Box<[Atom]>,
    args: Box<[Atom]>,
}

impl Elaborator<'_, '_> {
    /// `jvp f x t`, a pair of this type.
    pub(super) fn jvp(&mut self, [f, x, tangent]: [Shaped; 3], pair: Mono, span: Span) -> Shaped {
        let result = self.program.monos.parts(pair).first().copied().unwrap_or(pair);
        let mut bindings = Vec::new();
        let call = self.differentiated([f, x], result, &mut bindings);
        let tangent = self.materialised(tangent);
        let tangent = self.name_shaped(tangent, &mut bindings);
        let types = self.types_of(&call.args);
        let directions = differentiable(&types, &tangent.atoms);
        let (results, tangents) = self.operate(Operator::Jvp, &call, directions, result, &mut bindings, span);
        self.pair(results, tangents, pair, bindings, span)
    }

    /// `value_and_grad f x`, a pair of this type.
    pub(super) fn value_and_grad(&mut self, [f, x]: [Shaped; 2], pair: Mono, span: Span) -> Shaped {
        let real = self.program.monos.real;
        let mut bindings = Vec::new();
        let call = self.differentiated([f, x], real, &mut bindings);
        let (value, gradient) = self.operate(Operator::Vjp, &call, vec![Atom::Real(1.0)], real, &mut bindings, span);
        self.pair(value, gradient, pair, bindings, span)
    }

    /// `pull f x c`, a pair of this type.
    pub(super) fn pull(&mut self, [f, x, cotangent]: [Shaped; 3], pair: Mono, span: Span) -> Shaped {
        let result = self.program.monos.parts(pair).first().copied().unwrap_or(pair);
        let mut bindings = Vec::new();
        let call = self.differentiated([f, x], result, &mut bindings);
        let cotangent = self.materialised(cotangent);
        let cotangent = self.name_shaped(cotangent, &mut bindings);
        let types = self.types_of(&cotangent.atoms);
        let directions = differentiable(&types, &cotangent.atoms);
        let (value, gradient) = self.operate(Operator::Vjp, &call, directions, result, &mut bindings, span);
        self.pair(value, gradient, pair, bindings, span)
    }

    /// `checkpoint f x`, of this type.
    pub(super) fn checkpoint(&mut self, [f, x]: [Shaped; 2], result: Mono, span: Span) -> Shaped {
        let mut bindings = Vec::new();
        let call = self.differentiated([f, x], result, &mut bindings);
        let (atoms, _) = self.operate(Operator::Checkpoint, &call, Vec::new(), result, &mut bindings, span);
        let form = self.plain(result);
        let value = self.of_value(&Value { form, atoms: atoms.into() }, span);
        self.block_shaped(bindings, value)
    }

    /// `custom_vjp f g x` or `custom_jvp f g x`, of this type: the value of `f x`, to which `g` gives a derivative.
    pub(super) fn custom(&mut self, operator: Operator, [f, g, x]: [Shaped; 3], result: Mono, span: Span) -> Shaped {
        let mut bindings = Vec::new();
        let call = self.differentiated([f, x], result, &mut bindings);
        let g = self.limited(g);
        let name = match self.program.forms.node(g.form) {
            FormNode::Function { code, .. } => format!("{}.rule", self.program.code_name(*code)),
            _ => format!("{}.rule", self.name),
        };
        let argument = self.program.forms.mono(x.form);
        let (given, wanted) = if operator == Operator::CustomVjp { (result, argument) } else { (argument, result) };
        let inputs = [g.form, self.plain(argument), self.plain(given)].into();
        let key = Key { code: Code::Rule, types: self.program.no_types, inputs };
        let (function, _) = self.program.named_instance(key, wanted, Some(name));
        let captures = self.name_shaped(g, &mut bindings).atoms;
        let (value, _) = self.operate(Operator::Primal, &call, Vec::new(), result, &mut bindings, span);
        let rule = Call { function, captures, args: call.args };
        let (atoms, _) = self.operate(operator, &rule, value, result, &mut bindings, span);
        let form = self.plain(result);
        let value = self.of_value(&Value { form, atoms: atoms.into() }, span);
        self.block_shaped(bindings, value)
    }

    /// Parameters for a tangent or a cotangent, and its registers: integers are 0.
    pub(super) fn without_integers(&self, vars: Vec<Var>) -> (Vec<Var>, Box<[Atom]>) {
        let is_integer = |var: Var| self.body.vars[var] == ValueType::Int;
        let atom = |&var: &Var| if is_integer(var) { Atom::Int(0) } else { Atom::Var(var) };
        let atoms = vars.iter().map(atom).collect();
        (vars.into_iter().filter(|&var| !is_integer(var)).collect(), atoms)
    }

    /// The registers of a tangent or a cotangent that are no integers.
    pub(super) fn derivatives_of(&mut self, made: Shaped) -> ExprId {
        let span = self.body.exprs[made.expr].origin.span;
        let mut bindings = Vec::new();
        let types = self.program.program.lists.get(self.body.exprs[made.expr].types).to_vec();
        if !types.contains(&ValueType::Int) {
            return made.expr;
        }
        let named = self.name_shaped(made, &mut bindings);
        let kept = differentiable(&types, &named.atoms);
        let types = self.types_of(&kept);
        let parts = kept.iter().map(|&atom| self.atom(atom, span)).collect();
        let value = self.make_typed(ExprKind::Values(parts), &types, span);
        self.block(bindings, value)
    }

    /// `detach x`, of this type.
    pub(super) fn detach(&mut self, value: Shaped, ty: Mono, span: Span) -> Shaped {
        let mut bindings = Vec::new();
        let value = self.materialised(value);
        let named = self.name_shaped(value, &mut bindings);
        let types = self.types_of(&named.atoms);
        let parts: List<ExprId> = named
            .atoms
            .iter()
            .zip(types)
            .map(|(&atom, ty)| {
                let part = self.atom(atom, span);
                match ty {
                    ValueType::Real => self.make_typed(ExprKind::Scalar(Op::Detach, List::from([part])), &[ty], span),
                    ValueType::Int => part,
                    ValueType::Ref(_) => self.make_typed(ExprKind::Detach(part), &[ty], span),
                }
            })
            .collect();
        let made = match *parts {
            [single] => Shaped { expr: single, form: named.form },
            _ => self.make_plain(ExprKind::Values(parts), ty, span),
        };
        self.block_shaped(bindings, made)
    }

    /// Names function and argument, and makes the function of their registers, which gives a plain value of a type.
    fn differentiated(&mut self, [f, x]: [Shaped; 2], result: Mono, bindings: &mut Vec<Binding>) -> Call {
        let f = self.limited(f);
        let x = self.materialised(x);
        let name = match self.program.forms.node(f.form) {
            FormNode::Function { code, .. } => format!("{}.differentiated", self.program.code_name(*code)),
            _ => format!("{}.differentiated", self.name),
        };
        let key = Key { code: Code::Differentiated, types: self.program.no_types, inputs: Box::new([f.form, x.form]) };
        let (function, _) = self.program.named_instance(key, result, Some(name));
        let [f, x] = [f, x].map(|value| self.name_shaped(value, bindings));
        Call { function, captures: f.atoms, args: x.atoms }
    }

    /// Applies an operator to a call that gives a value of a type. Returns the value's registers, and the derivatives:
    /// tangents of them, or cotangents of the arguments, with 0 where there is none.
    fn operate(
        &mut self,
        operator: Operator,
        call: &Call,
        directions: Vec<Atom>,
        result: Mono,
        bindings: &mut Vec<Binding>,
        span: Span,
    ) -> (Vec<Atom>, Vec<Atom>) {
        let results = self.program.program.lists.get(self.program.monos.flat(result)).to_vec();
        let of = match operator {
            Operator::Jvp => results.clone(),
            Operator::Vjp => self.types_of(&call.args),
            Operator::Checkpoint | Operator::Primal | Operator::CustomVjp | Operator::CustomJvp => Vec::new(),
        };
        let given = results.iter().chain(of.iter().filter(|&&ty| ty != ValueType::Int));
        let types: Vec<ValueType> = given.copied().collect();
        let [captures, args, directions] = [&call.captures, &call.args, &directions[..]]
            .map(|atoms| atoms.iter().map(|&atom| self.atom(atom, span)).collect());
        let derivative = Derivative { operator, function: call.function, captures, args, directions };
        let value = self.make_typed(ExprKind::Derivative(Box::new(derivative)), &types, span);
        let vars: List<Var> = types.iter().map(|&ty| self.body.vars.push(ty)).collect();
        let mut given = vars.iter().map(|&var| Atom::Var(var));
        let values = given.by_ref().take(results.len()).collect();
        let derivatives = of.iter().map(|&ty| match ty {
            ValueType::Int => Atom::Int(0),
            _ => given.next().expect("there is one for each"),
        });
        let derivatives = derivatives.collect();
        bindings.push(Binding { vars, value });
        (values, derivatives)
    }

    /// A pair of values whose registers these are.
    fn pair(&mut self, first: Vec<Atom>, second: Vec<Atom>, ty: Mono, bindings: Vec<Binding>, span: Span) -> Shaped {
        let form = self.plain(ty);
        let pair = self.of_value(&Value { form, atoms: first.into_iter().chain(second).collect() }, span);
        self.block_shaped(bindings, pair)
    }

    fn types_of(&self, atoms: &[Atom]) -> Vec<ValueType> {
        let ty = |&atom: &Atom| match atom {
            Atom::Var(var) => self.body.vars[var],
            Atom::Real(_) => ValueType::Real,
            Atom::Int(_) => ValueType::Int,
        };
        atoms.iter().map(ty).collect()
    }

    pub(super) fn make_typed(&mut self, kind: ExprKind, types: &[ValueType], span: Span) -> ExprId {
        let types = self.program.program.lists.intern(types);
        self.body.exprs.push(Expr { kind, types, origin: span.into() })
    }
}

/// The registers that are no integers.
fn differentiable(types: &[ValueType], atoms: &[Atom]) -> Vec<Atom> {
    let pairs = types.iter().zip(atoms).filter(|(ty, _)| **ty != ValueType::Int);
    pairs.map(|(_, &atom)| atom).collect()
}
