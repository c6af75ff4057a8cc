//! Functions: lambdas, and what a `let` defines, which is polymorphic.

use super::{Check, DefType, Infer, POLYMORPHIC_NODES_MAX, Why};
use crate::arena::Table;
use crate::ast::{ExprId, Let, LocalFunctionId, PatternId};
use crate::diagnostics::Diagnostic;
use crate::types::{Class, Ty};

impl Infer<'_> {
    pub(super) fn lets(&mut self, lets: &[Let]) {
        for binding in lets {
            match binding {
                Let::Value { pattern, value } => {
                    // An annotation is handed down to the value, so that it is known there.
                    let ty = self.pattern(*pattern);
                    self.check(*value, ty, Why::Pattern(self.ast.patterns[*pattern].span));
                    self.checks.push(Check::Let(*pattern));
                }
                Let::Functions(functions) => self.functions(functions),
                Let::Alias(function) => self.function_group(&[*function]),
            }
        }
    }

    /// Functions that may mention each other, one group of mutually recursive ones at a time.
    fn functions(&mut self, functions: &[LocalFunctionId]) {
        if let [single] = functions {
            return self.function_group(&[*single]);
        }
        crate::arena::id_types! {
            /// The position of a function in its `let`.
            Position;
        }
        let mut mentions: Table<Position, Vec<Position>> = Table::default();
        // Functions are numbered in the order of the text.
        let position =
            |function: LocalFunctionId| functions.binary_search(&function).ok().map(crate::arena::Id::from_index);
        for &function in functions {
            mentions.push(self.resolved.function_mentions[function].iter().filter_map(|&f| position(f)).collect());
        }
        for group in crate::graph::groups(&mentions, self.meter) {
            let group: Vec<LocalFunctionId> =
                group.into_iter().map(|position| functions[crate::arena::Id::index(position)]).collect();
            self.function_group(&group);
        }
    }

    fn function_group(&mut self, group: &[LocalFunctionId]) {
        let ast = self.ast;
        let opened = self.out.types.now();
        let fields = self.fields.len();
        for &id in group {
            let function = &ast.functions[id];
            let params = function.params.iter().map(|&param| self.parameter(param)).collect();
            let result = match function.result {
                Some(result) => self.annotation(result),
                None => self.out.types.var(Class::Any),
            };
            self.out.functions[id] = DefType { params, result, vars: Vec::new() };
        }
        for &id in group {
            let function = &ast.functions[id];
            let why = match function.result {
                Some(result) => Why::Declared(ast.types[result].span),
                None => Why::UsedBefore(function.name),
            };
            self.check(function.body, self.out.functions[id].result, why);
        }
        // A record whose fields are used can still be found out from the calls, but then it is one record. What was
        // used before the functions has older variables only.
        self.solve_fields(fields);
        for index in fields..self.fields.len() {
            let [record, field] = [self.fields[index].record, self.fields[index].field];
            self.out.types.make_older(record, opened);
            self.out.types.make_older(field, opened);
        }
        self.generalise(group, opened);
    }

    /// Lets each use of some functions choose the variables that were born after they were opened.
    fn generalise(&mut self, group: &[LocalFunctionId], opened: u32) {
        let mut open: Vec<Ty> = Vec::new();
        for &id in group {
            let function = &self.out.functions[id];
            open.extend(function.params.iter().chain([&function.result]));
        }
        let (vars, nodes) = self.out.types.vars_in(open, opened);
        if vars.is_empty() {
            return;
        }
        if nodes > POLYMORPHIC_NODES_MAX {
            let function = &self.ast.functions[group[0]];
            let message = format!("the type of `{}` is too large", self.names.text(function.name));
            let error = Diagnostic::error(function.name_span, message);
            self.sink.push(error.help("tuples of tuples grow exponentially; keep many numbers in an array"));
            let unknown = self.out.types.error;
            for &id in group {
                let function = &mut self.out.functions[id];
                function.params.fill(unknown);
                function.result = unknown;
            }
            return;
        }
        self.check_type_vars(&vars);
        for &id in group {
            self.out.functions[id].vars.clone_from(&vars);
        }
    }

    fn parameter(&mut self, pattern: PatternId) -> Ty {
        self.checks.push(Check::Parameter(pattern));
        self.pattern(pattern)
    }

    pub(super) fn lambda(&mut self, params: &[PatternId], body: ExprId) -> Ty {
        let params: Vec<Ty> = params.iter().map(|&param| self.parameter(param)).collect();
        let result = self.infer(body);
        self.out.types.functions(&params, result)
    }

    /// A lambda whose type is expected; whether the expected type has as many parameters, so that it could be used.
    pub(super) fn check_lambda(&mut self, params: &[PatternId], body: ExprId, expected: Ty, why: Why) -> bool {
        let mut wanted = Vec::new();
        let mut rest = expected;
        for _ in params {
            let Some((param, result)) = self.out.types.function_parts(rest) else { return false };
            wanted.push(param);
            rest = result;
        }
        for (&param, ty) in params.iter().zip(wanted) {
            self.checks.push(Check::Parameter(param));
            self.check_pattern(param, ty, why.for_parameter());
        }
        self.check(body, rest, why.for_result());
        true
    }
}
