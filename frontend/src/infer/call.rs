//! Names and calls: instances of polymorphic functions, and the number of arguments.

use super::{Infer, Why};
use crate::ast::{DefId, ExprId, ExprKind};
use crate::builtins::{Builtin, SignatureType};
use crate::diagnostics::Diagnostic;
use crate::resolve::Meaning;
use crate::types::{Class, Con, Ty};
use std::collections::HashMap;

impl Infer<'_> {
    /// A name that is not called.
    pub(super) fn name(&mut self, expr: ExprId) -> Ty {
        match self.resolved.meanings[expr] {
            None => self.out.types.error,
            Some(Meaning::Local(local)) => self.locals[local],
            Some(Meaning::Function(_) | Meaning::Constructor(_)) => self.out.types.error,
            Some(meaning) => self.call(expr, expr, meaning, &[]),
        }
    }

    /// `callee args`.
    pub(super) fn apply(&mut self, expr: ExprId, callee: ExprId, args: &[ExprId]) -> Ty {
        match self.resolved.meanings[callee] {
            Some(meaning @ (Meaning::Def(_) | Meaning::Builtin(_))) => self.call(expr, callee, meaning, args),
            Some(Meaning::Local(local)) => {
                let ty = self.locals[local];
                self.set(callee, ty);
                self.not_a_function(callee, args)
            }
            Some(Meaning::Function(_) | Meaning::Constructor(_)) => self.arguments_only(args),
            None if matches!(self.ast.exprs[callee].kind, ExprKind::Var(_)) => self.arguments_only(args),
            None => {
                self.infer(callee);
                self.not_a_function(callee, args)
            }
        }
    }

    /// Infers arguments of a call that is wrong. A function's name among them is likely part of the same mistake.
    fn arguments_only(&mut self, args: &[ExprId]) -> Ty {
        for &arg in args {
            if !matches!(self.resolved.meanings[arg], Some(Meaning::Def(_) | Meaning::Builtin(_))) {
                self.infer(arg);
            }
        }
        self.out.types.error
    }

    fn not_a_function(&mut self, callee: ExprId, args: &[ExprId]) -> Ty {
        let ty = self.out.exprs[callee];
        if !self.out.types.is_error(ty) {
            let node = &self.ast.exprs[callee];
            let error = Diagnostic::error(node.span, "only functions can be applied to arguments")
                .label(format!("this is {}", self.out.types.describe(ty)));
            self.sink.push(match node.kind {
                ExprKind::Int(_) | ExprKind::Real(_) => error.help("a product is written with `*`: `2 * x`"),
                ExprKind::Var(_) => error.help("functions as values are not supported yet: use the name of a `def`"),
                _ => error,
            });
        }
        self.arguments_only(args)
    }

    fn call(&mut self, expr: ExprId, callee: ExprId, meaning: Meaning, args: &[ExprId]) -> Ty {
        let (params, result) = match meaning {
            Meaning::Def(def) => self.instance(callee, def),
            Meaning::Builtin(builtin) => self.builtin(builtin),
            Meaning::Local(_) | Meaning::Function(_) | Meaning::Constructor(_) => {
                unreachable!("locals are not called by name")
            }
        };
        if args.len() != params.len() {
            self.wrong_count(expr, callee, (&params, result), args);
            return self.arguments_only(args);
        }
        for (i, (&arg, &param)) in args.iter().zip(&params).enumerate() {
            self.check(arg, param, Why::Argument(callee, i));
        }
        result
    }

    fn wrong_count(&mut self, expr: ExprId, callee: ExprId, (params, result): (&[Ty], Ty), args: &[ExprId]) {
        let expected = params.len();
        let ty = self.out.types.con(Con::Function, params.iter().copied().chain([result]).collect());
        let signature = format!("`{} : {}`", self.callee_name(callee), self.out.types.show(ty));
        let name = self.callee_name(callee);
        let plural = if expected == 1 { "" } else { "s" };
        let found = args.len();
        let error = match args.get(expected) {
            Some(&extra) => {
                let message = format!("`{name}` takes {expected} argument{plural}, found {found}");
                let error = Diagnostic::error(self.ast.exprs[extra].span, message).label("one too many");
                error.help("an argument that is more than a name or a number needs parentheses: `f (g x)`")
            }
            None => {
                let message = format!("`{name}` takes {expected} argument{plural}, found {found}");
                Diagnostic::error(self.ast.exprs[expr].span, message)
                    .label(format!("{} missing", expected - found))
                    .help("partial application is not supported yet: give all arguments")
            }
        };
        self.sink.push(match self.resolved.meanings[callee] {
            Some(Meaning::Def(def)) => error.also(self.ast.defs[def].name_span, "defined here").note(signature),
            _ => error.note(signature),
        });
    }

    /// A definition's type at one use.
    fn instance(&mut self, mention: ExprId, def: DefId) -> (Vec<Ty>, Ty) {
        let def_type = &self.out.defs[def];
        let (params, result, vars) = (def_type.params.clone(), def_type.result, def_type.vars.clone());
        if vars.is_empty() {
            return (params, result);
        }
        let mut replaced = HashMap::new();
        let mut chosen = Vec::with_capacity(vars.len());
        for var in vars {
            let class = self.out.types.class_of(var);
            let new = self.out.types.var(class);
            replaced.insert(var, new);
            chosen.push(new);
        }
        self.out.instances.insert(mention, chosen);
        let types = &mut self.out.types;
        let params = params.iter().map(|&param| types.instantiate(param, &mut replaced)).collect();
        (params, types.instantiate(result, &mut replaced))
    }

    fn builtin(&mut self, builtin: Builtin) -> (Vec<Ty>, Ty) {
        let (params, result) = builtin.signature();
        let types = &mut self.out.types;
        let number = types.var(Class::Number);
        let mut to_type = |ty: &SignatureType| match ty {
            SignatureType::Real => types.real,
            SignatureType::Int => types.int,
            SignatureType::Bool => types.bool,
            SignatureType::Number => number,
            SignatureType::AnyArray => {
                let element = types.var(Class::Any);
                types.con(Con::Array, vec![element])
            }
        };
        (params.iter().map(&mut to_type).collect(), to_type(&result))
    }

    /// What the called function is named, for messages.
    pub(super) fn callee_name(&self, callee: ExprId) -> &str {
        match &self.ast.exprs[callee].kind {
            ExprKind::Var(name) => self.names.text(*name),
            _ => "the function",
        }
    }
}
