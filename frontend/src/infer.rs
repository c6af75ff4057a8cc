//! Type inference: Hindley-Milner with classes of numbers, one group of mutually recursive definitions at a time.
//!
//! The result is side tables: a type for every expression, pattern and variable, and for every use of a polymorphic
//! definition the types that its variables stand for. Variables that stay open in a definition's own type are its
//! parameters; any other open variable means nothing to anyone and gets its default (`mono.rs`).
//!
//! Functions that a `let` defines are polymorphic too: variables that are born while one is open, and not unified with
//! older ones until its end, are the function's to choose.
//!
//! `infer/` holds the parts of the language.

mod annotation;
mod arrays;
mod call;
mod expr;
mod function;
mod kinds;
mod mismatch;
mod operators;
mod pattern;
mod record;
#[cfg(test)]
mod tests;

use crate::arena::Table;
use crate::ast::{AliasId, Ast, ConstructorId, DataId, DefId, ExprId, LocalFunctionId, PatternId};
use crate::diagnostics::{Diagnostic, Sink};
use crate::hash::{HashMap, HashSet};
use crate::limits::Meter;
use crate::names::{Name, Names};
use crate::resolve::{LocalId, Resolved};
use crate::source::{SourceMap, Span};
use crate::types::{Class, Ty, Types};
use std::rc::Rc;

pub(crate) use crate::exhaustive::Check;
pub(crate) use kinds::ByKind;
use mismatch::Why;
use record::FieldUse;

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
    /// The definitions that another one stands for, by the kind of the collections that it is used at.
    pub(crate) by_kind: HashMap<DefId, ByKind>,
}

/// Infers all types.
pub(crate) fn infer(
    ast: &Ast,
    sources: &SourceMap,
    names: &Names,
    resolved: &Resolved,
    sink: &mut Sink,
    meter: &Rc<Meter>,
) -> Inferred {
    let mut types = Types::new(meter.clone());
    let unknown = DefType { params: Vec::new(), result: types.error, vars: Vec::new() };
    let mut defs = Table::default();
    for (id, def) in ast.defs.iter() {
        if !resolved.reached[id] {
            defs.push(unknown.clone());
            continue;
        }
        let params = def.params.iter().map(|_| types.var(Class::Any)).collect();
        let result = types.var(Class::Any);
        defs.push(DefType { params, result, vars: Vec::new() });
    }
    let inferred = Inferred {
        exprs: Table::filled(types.error, ast.exprs.len()),
        patterns: Table::filled(types.error, ast.patterns.len()),
        types,
        defs,
        functions: Table::filled(unknown, ast.functions.len()),
        datas: Table::default(),
        constructors: Table::default(),
        instances: HashMap::default(),
        by_kind: HashMap::default(),
    };
    let locals = Table::filled(inferred.types.error, resolved.locals.len());
    let mut infer = Infer {
        ast,
        sources,
        names,
        resolved,
        sink,
        meter,
        locals,
        type_vars: HashMap::default(),
        aliases: Table::filled(None, ast.aliases.len()),
        fields: Vec::new(),
        elements: HashSet::default(),
        checks: Vec::new(),
        group: Vec::new(),
        out: inferred,
    };
    infer.declare_datas();
    for group in crate::graph::groups(&resolved.mentions, meter) {
        if resolved.reached[group[0]] && meter.step(ast.defs[group[0]].name_span) {
            infer.group(&group);
        }
    }
    let checks = std::mem::take(&mut infer.checks);
    let mut inferred = infer.out;
    inferred.types.shorten_links();
    let program = crate::exhaustive::Program { ast, names, resolved, inferred: &inferred };
    crate::exhaustive::check(&program, &checks, sink, meter);
    inferred
}

struct Infer<'i> {
    ast: &'i Ast,
    /// What messages quote.
    sources: &'i SourceMap,
    names: &'i Names,
    resolved: &'i Resolved,
    sink: &'i mut Sink,
    meter: &'i Meter,
    locals: Table<LocalId, Ty>,
    /// The type variables of the definition's annotations, and where each first stands.
    type_vars: HashMap<Name, (Ty, Span)>,
    /// What abbreviations stand for, with their parameters, once needed.
    aliases: Table<AliasId, Option<(Vec<Ty>, Ty)>>,
    /// The uses of fields of records that are not known yet.
    fields: Vec<FieldUse>,
    /// The variables that are elements of what a loop runs over.
    elements: HashSet<LocalId>,
    /// The patterns to check once types are known.
    checks: Vec<Check>,
    /// The definitions that are being inferred.
    group: Vec<DefId>,
    out: Inferred,
}

impl Infer<'_> {
    fn group(&mut self, group: &[DefId]) {
        let ast = self.ast;
        self.group = group.to_vec();
        let mut type_vars = Vec::new();
        // What is declared is known before any body is looked at, so that errors are found where they are made.
        for &id in group {
            let def = &ast.defs[id];
            for (i, &param) in def.params.iter().enumerate() {
                let var = self.out.defs[id].params[i];
                self.check_pattern(param, var, Why::Pattern(ast.patterns[param].span));
                self.checks.push(Check::Parameter(param));
            }
            if let Some(result) = def.result {
                let ty = self.annotation(result);
                let var = self.out.defs[id].result;
                self.out.types.unify(var, ty).expect("a result's variable is new");
            }
            type_vars.push(std::mem::take(&mut self.type_vars));
        }
        for (i, &id) in group.iter().enumerate() {
            let def = &ast.defs[id];
            let why = match def.result {
                Some(result) => Why::Declared(ast.types[result].span),
                None => Why::UsedBefore(def.name),
            };
            self.type_vars = std::mem::take(&mut type_vars[i]);
            self.check(def.body, self.out.defs[id].result, why);
            type_vars[i] = std::mem::take(&mut self.type_vars);
        }
        self.solve_fields(0);
        self.refuse_unknown_records();
        for vars in type_vars {
            self.type_vars = vars;
            self.check_type_vars(&[]);
        }
        self.type_vars.clear();
        let mut open: Vec<Ty> = Vec::new();
        for &id in group {
            let def = &self.out.defs[id];
            open.extend(def.params.iter().chain([&def.result]));
        }
        let (vars, nodes) = self.out.types.vars_in(open, 0);
        if nodes > POLYMORPHIC_NODES_MAX && !vars.is_empty() {
            return self.too_large(group);
        }
        for &id in group {
            self.out.defs[id].vars.clone_from(&vars);
        }
        self.group.clear();
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
