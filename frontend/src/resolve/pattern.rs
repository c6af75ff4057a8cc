//! The variables that patterns bind.

use super::{LocalId, Meaning, Resolver};
use crate::ast::{PatternId, PatternKind};
use crate::diagnostics::Diagnostic;
use crate::hash::{HashMap, HashSet};
use crate::names::Name;
use crate::source::Span;

/// A variable of a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    name: Name,
    span: Span,
    local: LocalId,
}

impl Resolver<'_> {
    /// Binds the variables of patterns that stand side by side, where no name may occur twice.
    pub(super) fn bind_all(&mut self, patterns: &[PatternId]) {
        let mut bound = Vec::new();
        for &pattern in patterns {
            self.bind(pattern, &mut bound, &HashMap::default());
        }
        self.refuse_bound_twice(bound);
    }

    fn refuse_bound_twice(&mut self, mut bound: Vec<Bound>) {
        bound.sort_by_key(|variable| (variable.name, variable.span.start));
        for pair in bound.windows(2) {
            if pair[0].name == pair[1].name {
                let message = format!("`{}` is bound twice", self.names.text(pair[0].name));
                let error = Diagnostic::error(pair[1].span, message).label("bound again here");
                self.sink.push(error.also(pair[0].span, "first bound here"));
            }
        }
    }

    /// Binds the variables of a pattern; those in `shared` are variables of an earlier alternative.
    fn bind(&mut self, pattern: PatternId, bound: &mut Vec<Bound>, shared: &HashMap<Name, LocalId>) {
        let ast = self.ast;
        let node = &ast.patterns[pattern];
        if !self.meter.step(node.span) {
            return;
        }
        match &node.kind {
            PatternKind::Var(name) => self.bind_name(pattern, *name, node.span, bound, shared),
            PatternKind::As(name, _) => {
                let span = Span::new(node.span.start, node.span.start + self.names.text(*name).len() as u32);
                self.bind_name(pattern, *name, span, bound, shared);
            }
            PatternKind::Constructor(name, _) => {
                self.resolved.constructors[pattern] = self.constructor(*name, node.span);
            }
            PatternKind::Ascribe(_, ty) => self.type_expr(*ty, None),
            PatternKind::Or(parts) => return self.bind_alternatives(parts, bound, shared),
            _ => {}
        }
        crate::stack::grown(|| node.kind.for_each_child(|child| self.bind(child, bound, shared)));
    }

    fn bind_name(
        &mut self,
        pattern: PatternId,
        name: Name,
        span: Span,
        bound: &mut Vec<Bound>,
        shared: &HashMap<Name, LocalId>,
    ) {
        let local = shared.get(&name).copied().unwrap_or_else(|| self.resolved.locals.push(name));
        self.resolved.bound[pattern] = Some(local);
        self.enter(name, Meaning::Local(local));
        bound.push(Bound { name, span, local });
    }

    /// Alternatives bind the same names, which are the same variables.
    fn bind_alternatives(&mut self, parts: &[PatternId], bound: &mut Vec<Bound>, shared: &HashMap<Name, LocalId>) {
        let mut first = Vec::new();
        crate::stack::grown(|| self.bind(parts[0], &mut first, shared));
        let mut known = shared.clone();
        known.extend(first.iter().map(|variable| (variable.name, variable.local)));
        for &part in &parts[1..] {
            let mut others = Vec::new();
            crate::stack::grown(|| self.bind(part, &mut others, &known));
            self.same_names(&first, &others, part);
            self.same_names(&others, &first, parts[0]);
            self.refuse_bound_twice(others);
        }
        bound.extend(first);
    }

    fn same_names(&mut self, these: &[Bound], others: &[Bound], pattern: PatternId) {
        let others: HashSet<Name> = others.iter().map(|other| other.name).collect();
        for variable in these {
            if !others.contains(&variable.name) {
                let text = self.names.text(variable.name);
                let message = format!("`{text}` is not bound by all alternatives");
                let error = Diagnostic::error(self.ast.patterns[pattern].span, message);
                self.sink.push(error.label(format!("this does not bind `{text}`")).also(variable.span, "bound here"));
            }
        }
    }
}
