//! Functions: what a name means as a value, application, and closure objects for what can't stay known.

use super::Elaborator;
use super::form::{Code, Form, FormNode, Shaped, TypeArgs, Value};
use super::instance::Key;
use crate::ast::{self, DefId, LocalFunctionId};
use crate::builtins::Builtin;
use crate::core::{Binding, ExprKind, Operator};
use crate::list::List;
use crate::mono::{Mono, MonoNode};
use crate::prelude::Implied;
use crate::resolve::Meaning;
use crate::source::Span;

/// Functions that are nested deeper in captures become closures.
const DEPTH_MAX: u32 = 12;
/// Forms of more nodes become plain.
const NODES_MAX: usize = 64;

impl Elaborator<'_, '_> {
    /// A name, or anything else that means a function.
    pub(super) fn mention(&mut self, expr: ast::ExprId) -> Shaped {
        let span = self.program.ast.exprs[expr].span;
        match self.program.resolved.meanings[expr].expect("a program without errors has no unknown names") {
            Meaning::Local(local) => {
                let value = self.locals[&local].clone();
                self.of_value(&value, span)
            }
            Meaning::Function(function) => self.local_function(expr, function, span),
            Meaning::Def(def) => self.definition(expr, def, span),
            Meaning::Builtin(Builtin::Pi) => {
                let ty = self.program.monos.real;
                self.make_plain(ExprKind::Real(std::f64::consts::PI), ty, span)
            }
            Meaning::Builtin(builtin) => {
                let ty = self.type_of(expr);
                self.known(Code::Builtin(builtin, ty), ty, span)
            }
            Meaning::Constructor(constructor) => {
                let ty = self.type_of(expr);
                if matches!(self.program.monos.node(ty), MonoNode::Function(..)) {
                    return self.known(Code::Constructor(constructor, ty), ty, span);
                }
                self.construct(constructor, Vec::new(), ty, span)
            }
        }
    }

    /// A known function without captures.
    pub(super) fn known(&mut self, code: Code, ty: Mono, span: Span) -> Shaped {
        let types = self.program.no_types;
        let form = self.form(FormNode::Function { ty, code, types, captures: Box::default() });
        self.make_form(ExprKind::Values(List::default()), form, span)
    }

    fn definition(&mut self, expr: ast::ExprId, def: DefId, span: Span) -> Shaped {
        let inferred = self.program.inferred;
        let ty = self.mention_type(expr);
        let vars = &inferred.defs[def].vars;
        // Inside of its own group a definition is used at the group's variables.
        let chosen = inferred.instances.get(&expr).unwrap_or(vars);
        let chosen = vars.iter().zip(chosen).map(|(&var, &ty)| (inferred.types.root(var), self.mono(ty, span)));
        let vars = chosen.collect();
        let types = self.program.type_args.intern(None, vars);
        self.value_of_def(def, types, ty, span)
    }

    /// What a definition is, at some types.
    pub(super) fn value_of_def(&mut self, def: DefId, types: TypeArgs, ty: Mono, span: Span) -> Shaped {
        if self.program.ast.defs[def].params.is_empty() {
            let key = Key { code: Code::Def(def), types, inputs: Box::default() };
            let (function, form) = self.program.instance(key, ty);
            return self.make_form(ExprKind::Constant { function, is_total: false }, form, span);
        }
        self.function_of_def(def, types, ty, span)
    }

    /// The type of a function where it is mentioned. `++` mentions one without being its name.
    fn mention_type(&mut self, expr: ast::ExprId) -> Mono {
        use ast::ExprKind as Surface;
        let ty = self.type_of(expr);
        let list = match self.program.ast.exprs[expr].kind {
            Surface::Append(_) => ty,
            Surface::Section(..) => self.program.monos.result_of(ty, 1),
            _ => return ty,
        };
        self.function_type(&[list, list], list)
    }

    pub(super) fn function_type(&mut self, params: &[Mono], result: Mono) -> Mono {
        let program = &mut self.program.program;
        let mut ty = result;
        for &param in params.iter().rev() {
            let made = self.program.monos.function(param, ty, &mut program.lists, &mut program.module);
            ty = made.unwrap_or(result);
        }
        ty
    }

    /// A definition that syntax stands for, at types in the order of its variables: those of its parameters first.
    pub(super) fn implied(&mut self, implied: Implied, args: &[Mono], ty: Mono, span: Span) -> Shaped {
        let (inferred, def) = (self.program.inferred, self.program.resolved.implied(implied));
        let vars = inferred.defs[def].vars.iter().zip(args);
        let vars = vars.map(|(&var, &ty)| (inferred.types.root(var), ty)).collect();
        let types = self.program.type_args.intern(None, vars);
        self.function_of_def(def, types, ty, span)
    }

    /// A definition that is a function, at some types.
    fn function_of_def(&mut self, def: DefId, types: TypeArgs, ty: Mono, span: Span) -> Shaped {
        let (def, types) = match self.program.of_kind(def, types) {
            (Meaning::Def(def), types) => (def, types),
            (Meaning::Builtin(builtin), _) => return self.known(Code::Builtin(builtin, ty), ty, span),
            _ => unreachable!("definitions stand for definitions and builtins"),
        };
        let form = self.form(FormNode::Function { ty, code: Code::Def(def), types, captures: Box::default() });
        self.make_form(ExprKind::Values(List::default()), form, span)
    }

    fn local_function(&mut self, expr: ast::ExprId, function: LocalFunctionId, span: Span) -> Shaped {
        let (inferred, resolved) = (self.program.inferred, self.program.resolved);
        let vars = &inferred.functions[function].vars;
        let chosen = inferred.instances.get(&expr).unwrap_or(vars);
        let chosen = vars.iter().zip(chosen).map(|(&var, &ty)| (inferred.types.root(var), self.mono(ty, span)));
        let vars = chosen.collect();
        // What is in scope was bound by something around, where the type variables were the same as now.
        let around = self.program.type_args.around(self.types, resolved.function_depths[function]);
        let types = self.program.type_args.intern(Some(around), vars);
        let code = Code::Local(function);
        if !self.program.ast.functions[function].params.is_empty() {
            let ty = self.type_of(expr);
            return self.capturing(code, types, ty, span);
        }
        // A name for something that needs no evaluation stands for it.
        let env = self.program.type_env(types);
        let (outer_types, outer_env) =
            (std::mem::replace(&mut self.types, types), std::mem::replace(&mut self.env, env));
        let made = self.shaped(self.program.ast.functions[function].body);
        self.types = outer_types;
        self.env = outer_env;
        made
    }

    /// Brings the functions of a `let` into scope.
    pub(super) fn bind_functions(&mut self, functions: &[LocalFunctionId]) {
        for &function in functions {
            let name = self.program.names.text(self.program.ast.functions[function].name);
            self.program.code_names.entry(Code::Local(function)).or_insert_with(|| format!("{}.{name}", self.name));
        }
        self.program.capture_group(functions);
    }

    pub(super) fn lambda(&mut self, expr: ast::ExprId, span: Span) -> Shaped {
        let code = Code::Lambda(expr);
        let ty = self.type_of(expr);
        self.program.code_names.entry(code).or_insert_with(|| format!("{}.lambda", self.name));
        self.capturing(code, self.types, ty, span)
    }

    /// A function of the program's text, with the variables that it captures.
    pub(super) fn capturing(&mut self, code: Code, types: TypeArgs, ty: Mono, span: Span) -> Shaped {
        let values = self.captured(code);
        let captures = values.iter().map(|value| value.form).collect();
        let form = self.form(FormNode::Function { ty, code, types, captures });
        let atoms = values.iter().flat_map(|value| value.atoms.iter().copied()).collect();
        self.of_value(&Value { form, atoms }, span)
    }

    /// The values of forms whose registers stand side by side.
    pub(super) fn split(&self, forms: &[Form], atoms: &[crate::core::Atom]) -> Vec<Value> {
        let mut rest = atoms;
        let count = |form: Form| self.program.program.lists.get(self.program.forms.flat(form)).len();
        forms
            .iter()
            .map(|&form| {
                let (own, others) = rest.split_at_checked(count(form)).unwrap_or((rest, &[]));
                rest = others;
                Value { form, atoms: own.into() }
            })
            .collect()
    }

    /// How many arguments a code takes before it does anything.
    fn arity(&self, code: Code) -> usize {
        let ast = self.program.ast;
        match code {
            Code::Def(def) => ast.defs[def].params.len(),
            Code::Local(function) => ast.functions[function].params.len(),
            Code::Lambda(expr) => ast.anonymous(expr).map_or(0, |(params, _)| params.len()),
            Code::Builtin(builtin, _) => builtin.signature().0.len(),
            Code::Constructor(constructor, _) => ast.constructors[constructor].fields.len(),
            Code::Operator(ast::BinaryOp::ComposeLeft | ast::BinaryOp::ComposeRight, _) | Code::Flip(_) => 3,
            Code::Operator(..) => 2,
            Code::Closure(ty) => 1 + self.program.monos.uncurried(ty).0.len(),
            Code::Applied(_) | Code::Entry | Code::Differentiated | Code::Rule | Code::Branch(_) | Code::Part(_) => {
                unreachable!("no value is this code")
            }
        }
    }

    /// Applies a function to arguments, all of which were evaluated before; the result is of a type.
    pub(super) fn apply(&mut self, callee: Shaped, args: Vec<Shaped>, result: Mono, span: Span) -> Shaped {
        if args.is_empty() {
            return callee;
        }
        match self.program.forms.node(callee.form).clone() {
            FormNode::Function { ty, code, types, captures } => {
                let environment = self.program.environments.get(&code).map_or(0, |captured| captured.len());
                let missing = self.arity(code) + environment - captures.len();
                if args.len() < missing {
                    let ty = self.program.monos.result_of(ty, args.len());
                    let args: Vec<Shaped> = args.into_iter().map(|arg| self.limited(arg)).collect();
                    let captures = captures.iter().copied().chain(args.iter().map(|arg| arg.form)).collect();
                    let form = self.form(FormNode::Function { ty, code, types, captures });
                    let parts = [callee].iter().chain(&args).map(|part| part.expr).collect();
                    return self.make_form(ExprKind::Values(parts), form, span);
                }
                if args.len() > missing {
                    let mut bindings = Vec::new();
                    let mut named: Vec<Shaped> = Vec::new();
                    for part in [callee].into_iter().chain(args) {
                        let value = self.name_shaped(part, &mut bindings);
                        named.push(self.of_value(&value, span));
                    }
                    let rest = named.split_off(missing + 1);
                    let between = self.program.monos.result_of(ty, missing);
                    let callee = named.remove(0);
                    let first = self.apply(callee, named, between, span);
                    let made = self.apply(first, rest, result, span);
                    return self.block_shaped(bindings, made);
                }
                self.saturated(code, Key { code, types, inputs: captures }, callee, args, result, span)
            }
            FormNode::Plain(ty) => {
                let params = self.program.monos.uncurried(ty).0.len();
                if args.len() >= params {
                    let args = args.into_iter().map(|arg| self.materialised(arg).expr).collect();
                    return self.make_plain(ExprKind::CallClosure(callee.expr, args), result, span);
                }
                let code = Code::Closure(ty);
                let whole = self.function_type(&[ty], ty);
                let known = self.known(code, whole, span);
                let args = [callee].into_iter().chain(args).collect();
                self.apply(known, args, result, span)
            }
            FormNode::Parts(..) => unreachable!("only functions are applied"),
        }
    }

    /// A call with exactly the arguments that the code takes; `key` has the forms of what it was given before.
    fn saturated(
        &mut self,
        code: Code,
        mut key: Key,
        callee: Shaped,
        args: Vec<Shaped>,
        result: Mono,
        span: Span,
    ) -> Shaped {
        if matches!(code, Code::Def(_) | Code::Local(_) | Code::Lambda(_)) {
            let captures = key.inputs.to_vec();
            let mut args: Vec<Shaped> = args.into_iter().map(|arg| self.limited(arg)).collect();
            let forms = |args: &[Shaped]| captures.iter().copied().chain(args.iter().map(|arg| arg.form)).collect();
            key.inputs = forms(&args);
            if self.program.is_too_deep(&key) {
                args = args.into_iter().map(|arg| self.materialised(arg)).collect();
                key.inputs = forms(&args);
            }
            let (function, form) = self.program.instance(key, result);
            let parts = [callee].iter().chain(&args).map(|part| part.expr).collect();
            return self.make_form(ExprKind::Call(function, parts), form, span);
        }
        let mut bindings = Vec::new();
        let mut inputs = Vec::new();
        if !key.inputs.is_empty() {
            let given = self.name_shaped(callee, &mut bindings);
            for value in self.split(&key.inputs, &given.atoms) {
                inputs.push(self.of_value(&value, span));
            }
        }
        inputs.extend(args);
        let made = self.expand(code, inputs, result, span);
        self.block_shaped(bindings, made)
    }

    /// Code that is not of the program, in place of a call of it.
    fn expand(&mut self, code: Code, mut inputs: Vec<Shaped>, result: Mono, span: Span) -> Shaped {
        match code {
            Code::Builtin(Builtin::ParallelBuild, _) => {
                let f = inputs.pop().expect("it takes two");
                let count = inputs.pop().expect("it takes two");
                self.parallel_build(count, f, result, span)
            }
            Code::Builtin(Builtin::Jvp, _) => {
                let given = inputs.try_into().expect("it takes three");
                self.jvp(given, result, span)
            }
            Code::Builtin(Builtin::ValueAndGrad, _) => {
                let given = inputs.try_into().expect("it takes two");
                self.value_and_grad(given, result, span)
            }
            Code::Builtin(Builtin::Pull, _) => {
                let given = inputs.try_into().expect("it takes three");
                self.pull(given, result, span)
            }
            Code::Builtin(Builtin::Checkpoint, _) => {
                let given = inputs.try_into().expect("it takes two");
                self.checkpoint(given, result, span)
            }
            Code::Builtin(Builtin::CustomVjp, _) => {
                let given = inputs.try_into().expect("it takes three");
                self.custom(Operator::CustomVjp, given, result, span)
            }
            Code::Builtin(Builtin::CustomJvp, _) => {
                let given = inputs.try_into().expect("it takes three");
                self.custom(Operator::CustomJvp, given, result, span)
            }
            Code::Builtin(Builtin::Detach, _) => {
                let value = inputs.pop().expect("it takes one");
                self.detach(value, result, span)
            }
            Code::Builtin(Builtin::Length, _) => {
                let array = inputs.pop().expect("it takes one");
                let ty = self.array_type(self.program.forms.mono(array.form));
                self.make_plain(ExprKind::Length(ty, array.expr), result, span)
            }
            Code::Builtin(Builtin::Replace, _) => {
                let array = self.array_type(result);
                let parts: Vec<_> = inputs.into_iter().map(|input| self.materialised(input).expr).collect();
                let parts = parts.try_into().expect("it takes three");
                self.make_plain(ExprKind::Replace(array, parts), result, span)
            }
            Code::Builtin(builtin, _) if builtin.is_of_tensors() => self.tensor_builtin(builtin, inputs, result, span),
            Code::Builtin(builtin, _) => {
                let values = inputs.into_iter().map(|input| input.expr).collect();
                let expr = self.builtin(builtin, values, result, span);
                Shaped { expr, form: self.plain(result) }
            }
            Code::Constructor(constructor, _) => self.construct(constructor, inputs, result, span),
            Code::Operator(op, _) => self.operator(op, inputs, result, span),
            Code::Flip(_) => {
                let first = inputs.pop().expect("it takes three");
                let second = inputs.pop().expect("it takes three");
                let function = inputs.pop().expect("it takes three");
                self.apply(function, vec![first, second], result, span)
            }
            Code::Closure(_) => {
                let callee = inputs.remove(0);
                self.apply(callee, inputs, result, span)
            }
            Code::Def(_) | Code::Local(_) | Code::Lambda(_) => unreachable!("these are called"),
            Code::Applied(_) | Code::Branch(_) | Code::Part(_) | Code::Entry | Code::Differentiated | Code::Rule => {
                unreachable!("these are called")
            }
        }
    }

    /// The same value, plain if its form is too large.
    pub(super) fn limited(&mut self, value: Shaped) -> Shaped {
        let forms = &self.program.forms;
        if forms.depth(value.form) > DEPTH_MAX || forms.nodes(value.form) > NODES_MAX {
            return self.materialised(value);
        }
        value
    }

    /// The same value in the plain form: known functions in it become closure objects.
    pub(super) fn materialised(&mut self, value: Shaped) -> Shaped {
        let span = self.body.exprs[value.expr].origin.span;
        match self.program.forms.node(value.form).clone() {
            FormNode::Plain(_) => value,
            FormNode::Parts(ty, parts) => {
                let mut bindings = Vec::new();
                let named = self.name_shaped(value, &mut bindings);
                let mut made = Vec::new();
                for part in self.split(&parts, &named.atoms) {
                    let part = self.of_value(&part, span);
                    made.push(self.materialised(part).expr);
                }
                let made = self.make_plain(ExprKind::Values(made.into()), ty, span);
                self.block_shaped(bindings, made)
            }
            FormNode::Function { ty, .. } => {
                let (params, result) = self.program.monos.uncurried(ty);
                let params = params.into_iter().map(|param| self.plain(param));
                let inputs = [value.form].into_iter().chain(params).collect();
                let key = Key { code: Code::Entry, types: self.program.no_types, inputs };
                let (function, _) = self.program.instance(key, result);
                self.make_plain(ExprKind::Closure(function, List::from([value.expr])), ty, span)
            }
        }
    }

    /// Names the registers of a value.
    pub(super) fn name_shaped(&mut self, value: Shaped, bindings: &mut Vec<Binding>) -> Value {
        let mut atoms = Vec::new();
        self.body.name_values(value.expr, &self.program.program.lists, bindings, &mut atoms);
        Value { form: value.form, atoms: atoms.into() }
    }

    pub(super) fn block_shaped(&mut self, bindings: Vec<Binding>, value: Shaped) -> Shaped {
        Shaped { expr: self.block(bindings, value.expr), form: value.form }
    }

    /// A program that is not going to run.
    pub(super) fn nothing(&mut self, ty: Mono, span: Span) -> Shaped {
        self.make_plain(ExprKind::Trap(Box::new("not compiled".into())), ty, span)
    }
}
