//! Loops and what they run over.

use super::Elaborator;
use super::form::{Code, Shaped, Value};
use crate::ast::{self, ExprKind as Surface, Generator, PatternId, PatternKind};
use crate::core::{Atom, Binding, ExprId, ExprKind, Inside, Iteration, Loop, Range, Var};
use crate::list::List;
use crate::mono::Mono;
use crate::prelude::Implied;
use crate::source::Span;

impl Elaborator<'_, '_> {
    pub(super) fn while_loop(
        &mut self,
        pattern: PatternId,
        init: ExprId,
        cond: ast::ExprId,
        body: ast::ExprId,
        ty: Mono,
        span: Span,
    ) -> ExprId {
        let mut before_body = Vec::new();
        let (vars, cond) = self.while_condition(pattern, cond, &mut before_body);
        let body = self.expr(body);
        let body = self.block(before_body, body);
        let repeat = Loop { vars, init, iteration: Iteration::While(cond), body };
        self.make(ExprKind::Loop(Box::new(repeat)), ty, span)
    }

    /// The variables of a loop, and its condition on them.
    pub(super) fn while_condition(
        &mut self,
        pattern: PatternId,
        cond: ast::ExprId,
        inside: &mut Vec<Binding>,
    ) -> (List<Var>, ExprId) {
        // What a pattern reads from the variables is read in the condition and again in the body.
        let mut before_cond = Vec::new();
        let vars = self.loop_vars(pattern, &mut before_cond);
        let cond = self.expr(cond);
        let has_reads = !before_cond.is_empty();
        let cond = self.block(before_cond, cond);
        if has_reads {
            let span = self.program.ast.patterns[pattern].span;
            let ty = self.mono(self.program.inferred.patterns[pattern], span);
            let form = self.plain(ty);
            let atoms = vars.iter().map(|&var| Atom::Var(var)).collect();
            self.bind_value(pattern, &Value { form, atoms }, inside);
        }
        (vars, cond)
    }

    pub(super) fn loop_vars(&mut self, pattern: PatternId, inside: &mut Vec<Binding>) -> List<Var> {
        let span = self.program.ast.patterns[pattern].span;
        let ty = self.mono(self.program.inferred.patterns[pattern], span);
        let form = self.plain(ty);
        let (vars, value) = self.new_value(form);
        self.bind_value(pattern, &value, inside);
        vars.into()
    }

    /// A loop over a list is the fold that it stands for.
    pub(super) fn list_loop(&mut self, expr: ast::ExprId, init: ast::ExprId, list: ast::ExprId, ty: Mono) -> Shaped {
        let span = self.program.ast.exprs[expr].span;
        let list_type = self.type_of(list);
        let element = self.program.monos.element(list_type);
        let round = self.function_type(&[ty, element], ty);
        let whole = self.function_type(&[round, ty, list_type], ty);
        let code = Code::Lambda(expr);
        self.program.code_names.entry(code).or_insert_with(|| format!("{}.loop", self.name));
        let round = self.capturing(code, self.types, round, span);
        let fold = self.implied(Implied::Fold, &[ty, element], whole, span);
        let args = vec![round, self.shaped(init), self.shaped(list)];
        self.apply(fold, args, ty, span)
    }

    pub(super) fn for_loop(
        &mut self,
        pattern: PatternId,
        init: ExprId,
        generator: Generator,
        body: ast::ExprId,
        ty: Mono,
        span: Span,
    ) -> ExprId {
        let mut before = Vec::new();
        let mut init = init;
        if let Generator::Elements { collection, .. } = generator
            && !matches!(self.program.ast.exprs[collection].kind, Surface::Var(_))
        {
            // The array is evaluated after the first values and before the loop.
            let mut atoms = Vec::new();
            self.body.name_values(init, &self.program.program.lists, &mut before, &mut atoms);
            let parts = atoms.into_iter().map(|atom| self.atom(atom, span)).collect();
            init = self.make(ExprKind::Values(parts), ty, span);
        }
        let mut inside = Vec::new();
        let range = self.range(generator, &mut before, &mut inside, span);
        let vars = self.loop_vars(pattern, &mut inside);
        let body = self.expr(body);
        let body = self.block(inside, body);
        let repeat = Loop { vars, init, iteration: Iteration::Range(range), body };
        let value = self.make(ExprKind::Loop(Box::new(repeat)), ty, span);
        self.block(before, value)
    }

    /// The range of a generator; what must be bound before it and inside of its body.
    pub(super) fn range(
        &mut self,
        generator: Generator,
        before: &mut Vec<Binding>,
        inside: &mut Vec<Binding>,
        span: Span,
    ) -> Range {
        match generator {
            Generator::Range { index: pattern, from, to } => {
                let from = match from {
                    Some(from) => self.expr(from),
                    None => self.atom(Atom::Int(0), span),
                };
                let to = self.expr(to);
                let index = self.index_var();
                let int = self.program.monos.int;
                let form = self.plain(int);
                self.bind_value(pattern, &Value { form, atoms: Box::new([Atom::Var(index)]) }, inside);
                Range { index, from, to }
            }
            Generator::Elements { element, collection } => {
                let array_span = self.program.ast.exprs[collection].span;
                let (value, array_type) = self.array_of(collection);
                let element_type = self.mono(self.program.inferred.patterns[element], array_span);
                let named = self.name_value(value, before);
                let from = self.atom(Atom::Int(0), span);
                let (counted, indexed) = (self.atom(named, array_span), self.atom(named, array_span));
                let int = self.program.monos.int;
                let to = self.make(ExprKind::Length(self.array_type(array_type), counted), int, array_span);
                let index = self.index_var();
                if !matches!(self.program.ast.patterns[element].kind, PatternKind::Wildcard) {
                    let at = self.atom(Atom::Var(index), span);
                    let kind = ExprKind::Element(self.array_type(array_type), [indexed, at], Inside::Always);
                    let read = self.make(kind, element_type, array_span);
                    let read = Shaped { expr: read, form: self.plain(element_type) };
                    self.bind(element, read, inside);
                }
                Range { index, from, to }
            }
        }
    }

    /// The elements of a collection as an array, and its type.
    fn array_of(&mut self, collection: ast::ExprId) -> (ExprId, Mono) {
        let (ty, span) = (self.type_of(collection), self.program.ast.exprs[collection].span);
        if self.program.monos.is_list(ty) {
            let element = self.program.monos.element(ty);
            if let Some(array) = self.array_with(element) {
                let whole = self.function_type(&[ty], array);
                let convert = self.implied(Implied::ToArray, &[element], whole, span);
                let list = self.shaped(collection);
                return (self.apply(convert, vec![list], array, span).expr, array);
            }
        }
        (self.expr(collection), ty)
    }

    pub(super) fn index_var(&mut self) -> Var {
        self.body.vars.push(dualvm_vm::module::ValueType::Int)
    }
}
