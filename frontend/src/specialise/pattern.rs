//! Irrefutable patterns.

use super::Elaborator;
use super::form::{Shaped, Value};
use crate::ast::{PatternId, PatternKind};
use crate::core::Binding;

impl Elaborator<'_, '_> {
    /// Binds a pattern to a value.
    pub(super) fn bind(&mut self, pattern: PatternId, value: Shaped, bindings: &mut Vec<Binding>) {
        let named = self.name_shaped(value, bindings);
        self.bind_value(pattern, &named, bindings);
    }

    /// Binds a pattern to a named value; reading what is in objects takes bindings.
    pub(super) fn bind_value(&mut self, pattern: PatternId, value: &Value, bindings: &mut Vec<Binding>) {
        crate::stack::grown(|| self.bind_here(pattern, value, bindings));
    }

    fn bind_here(&mut self, pattern: PatternId, value: &Value, bindings: &mut Vec<Binding>) {
        let (ast, resolved) = (self.program.ast, self.program.resolved);
        let span = ast.patterns[pattern].span;
        if let Some(local) = resolved.bound[pattern] {
            self.locals.insert(local, value.clone());
        }
        match &ast.patterns[pattern].kind {
            PatternKind::As(_, inner) | PatternKind::Ascribe(inner, _) => self.bind_value(*inner, value, bindings),
            PatternKind::Tuple(patterns) => {
                for (&pattern, part) in patterns.iter().zip(self.parts_of(value)) {
                    self.bind_value(pattern, &part, bindings);
                }
            }
            PatternKind::Record(fields) => {
                let ty = self.program.forms.mono(value.form);
                if let Some((_, names)) = self.only_constructor(ty) {
                    for wanted in fields {
                        if let Some(at) = names.iter().position(|&name| name == wanted.name) {
                            let field = self.field(value, ty, 0, at, bindings, span);
                            self.bind_value(wanted.pattern, &field, bindings);
                        }
                    }
                    return;
                }
                let names = self.record_fields(ty).to_vec();
                let parts = self.parts_of(value);
                for field in fields {
                    if let Some(at) = names.iter().position(|&name| name == field.name) {
                        self.bind_value(field.pattern, &parts[at], bindings);
                    }
                }
            }
            PatternKind::Constructor(..) => {
                let constructor = resolved.constructors[pattern].expect("resolution knows every constructor");
                let ty = self.program.forms.mono(value.form);
                let tag = self.tag(constructor);
                for (at, pattern) in self.field_patterns(pattern) {
                    if !matches!(ast.patterns[pattern].kind, PatternKind::Wildcard) {
                        let field = self.field(value, ty, tag, at, bindings, span);
                        self.bind_value(pattern, &field, bindings);
                    }
                }
            }
            PatternKind::Or(alternatives) => self.bind_value(alternatives[0], value, bindings),
            _ => {}
        }
    }

    /// The fields that a constructor's pattern says something about.
    pub(super) fn field_patterns(&self, pattern: PatternId) -> Vec<(usize, PatternId)> {
        let (ast, resolved) = (self.program.ast, self.program.resolved);
        let PatternKind::Constructor(_, args) = &ast.patterns[pattern].kind else { return Vec::new() };
        let constructor = resolved.constructors[pattern].expect("resolution knows every constructor");
        match (&ast.constructors[constructor].field_names, &args[..]) {
            (Some(names), &[arg]) => match &ast.patterns[arg].kind {
                PatternKind::Record(fields) => {
                    let place = |name| names.iter().position(|&(field, _)| field == name);
                    fields.iter().filter_map(|field| Some((place(field.name)?, field.pattern))).collect()
                }
                _ => Vec::new(),
            },
            _ => args.iter().copied().enumerate().collect(),
        }
    }
}
