//! Type inference: Hindley-Milner with classes of numbers, one group of mutually recursive definitions at a time.
//!
//! The result is side tables: a type for every expression, pattern and variable, and for every use of a polymorphic
//! definition the types that its variables stand for. Variables that stay open in a definition's own type are its
//! parameters; any other open variable means nothing to anyone and gets its default (`mono.rs`).
//!
//! `infer/` holds expressions, operators, patterns and annotations, and messages.

mod call;
mod expr;
mod mismatch;
mod operators;
mod pattern;

use crate::arena::Table;
use crate::ast::{Ast, ConstructorId, DataId, DefId, ExprId, LocalFunctionId, PatternId};
use crate::diagnostics::{Diagnostic, Sink};
use crate::names::Names;
use crate::resolve::{LocalId, Resolved};
use crate::types::{Class, Ty, Types};
use std::collections::HashMap;

use mismatch::Why;

/// A polymorphic type of more nodes than this is refused: each use copies it, and copies of copies grow exponentially.
const POLYMORPHIC_NODES_MAX: usize = 1_000;

/// The type of a definition, or of a function that a `let` defines.
#[derive(Clone, Debug)]
pub(crate) struct DefType {
    /// The types of the parameters as written, of which there may be fewer than the whole type has.
    pub(crate) params: Vec<Ty>,
    /// The type of the body.
    pub(crate) result: Ty,
    /// The variables that each use may choose; shared by the whole group.
    pub(crate) vars: Vec<Ty>,
}

/// The types of a program.
#[derive(Debug)]
pub(crate) struct Inferred {
    /// The type graph.
    pub(crate) types: Types,
    /// The type of every expression; of the name of a function too, at its instance.
    pub(crate) exprs: Table<ExprId, Ty>,
    /// The type of every pattern.
    pub(crate) patterns: Table<PatternId, Ty>,
    /// The type of every definition.
    pub(crate) defs: Table<DefId, DefType>,
    /// The type of every function that a `let` defines. It may mention variables of what is around it, which are not
    /// among its own.
    pub(crate) functions: Table<LocalFunctionId, DefType>,
    /// The parameters of every data type.
    pub(crate) datas: Table<DataId, Vec<Ty>>,
    /// The types of every constructor's fields, in terms of its data type's parameters.
    pub(crate) constructors: Table<ConstructorId, Vec<Ty>>,
    /// For a mention of a polymorphic definition or function: what its variables are there. A mention in the own group
    /// has no entry: there the variables are themselves.
    pub(crate) instances: HashMap<ExprId, Vec<Ty>>,
}

/// Infers all types.
pub(crate) fn infer(ast: &Ast, names: &Names, resolved: &Resolved, sink: &mut Sink) -> Inferred {
    let mut types = Types::new();
    let mut defs = Table::default();
    for (_, def) in ast.defs.iter() {
        let params = def.params.iter().map(|_| types.var(Class::Any)).collect();
        let result = types.var(Class::Any);
        defs.push(DefType { params, result, vars: Vec::new() });
    }
    let inferred = Inferred {
        exprs: Table::filled(types.error, ast.exprs.len()),
        patterns: Table::filled(types.error, ast.patterns.len()),
        types,
        defs,
        functions: Table::default(),
        datas: Table::default(),
        constructors: Table::default(),
        instances: HashMap::new(),
    };
    let locals = Table::filled(inferred.types.error, resolved.locals.len());
    let mut infer = Infer { ast, names, resolved, sink, locals, out: inferred };
    for group in crate::graph::groups(&resolved.mentions) {
        infer.group(&group);
    }
    infer.out
}

struct Infer<'i> {
    ast: &'i Ast,
    names: &'i Names,
    resolved: &'i Resolved,
    sink: &'i mut Sink,
    locals: Table<LocalId, Ty>,
    out: Inferred,
}

impl Infer<'_> {
    fn group(&mut self, group: &[DefId]) {
        let ast = self.ast;
        // What is declared is known before any body is looked at, so that errors are found where they are made.
        for &id in group {
            let def = &ast.defs[id];
            for (i, &param) in def.params.iter().enumerate() {
                let ty = self.pattern(param);
                let var = self.out.defs[id].params[i];
                self.out.types.unify(var, ty).expect("a parameter's variable is new");
            }
            if let Some(result) = def.result {
                let ty = self.annotation(result);
                let var = self.out.defs[id].result;
                self.out.types.unify(var, ty).expect("a result's variable is new");
            }
        }
        for &id in group {
            let def = &ast.defs[id];
            let why = match def.result {
                Some(result) => Why::Declared(ast.types[result].span),
                None => Why::UsedBefore(def.name),
            };
            self.check(def.body, self.out.defs[id].result, why);
        }
        let mut open: Vec<Ty> = Vec::new();
        for &id in group {
            let def = &self.out.defs[id];
            open.extend(def.params.iter().chain([&def.result]));
        }
        let (vars, nodes) = self.out.types.vars_in(open);
        if nodes > POLYMORPHIC_NODES_MAX && !vars.is_empty() {
            return self.too_large(group);
        }
        for &id in group {
            self.out.defs[id].vars.clone_from(&vars);
        }
    }

    fn too_large(&mut self, group: &[DefId]) {
        let def = &self.ast.defs[group[0]];
        let message = format!("the type of `{}` is too large", self.names.text(def.name));
        let error = Diagnostic::error(def.name_span, message);
        self.sink.push(error.help("tuples of tuples grow exponentially; keep many numbers in an array"));
        let unknown = self.out.types.error;
        for &id in group {
            let def = &mut self.out.defs[id];
            def.params.fill(unknown);
            def.result = unknown;
        }
    }
}
