//! Patterns. The expected type is handed down, so that a mismatch is reported at the innermost pattern.

use super::{Infer, Why};
use crate::ast::{ConstructorId, ExprId, LIST, PatternId, PatternKind};
use crate::diagnostics::Diagnostic;
use crate::hash::HashMap;
use crate::names::Name;
use crate::source::Span;
use crate::types::{Class, Con, Kind, Ty};

impl Infer<'_> {
    /// The type of a pattern, its variables declared.
    pub(super) fn pattern(&mut self, pattern: PatternId) -> Ty {
        let ty = self.out.types.var(Class::Any);
        self.check_pattern(pattern, ty, Why::Pattern(self.ast.patterns[pattern].span));
        ty
    }

    /// Gives a pattern the type of a value.
    pub(super) fn bind(&mut self, pattern: PatternId, value: Ty, place: ExprId) {
        let ty = self.pattern(pattern);
        self.unify_expr(place, ty, value, Why::Pattern(self.ast.patterns[pattern].span));
    }

    /// A pattern for values of a type, its variables declared.
    pub(super) fn check_pattern(&mut self, pattern: PatternId, expected: Ty, why: Why) {
        self.out.patterns[pattern] = expected;
        if !self.meter.step(self.ast.patterns[pattern].span) {
            return;
        }
        crate::stack::grown(|| self.check_pattern_here(pattern, expected, why));
    }

    fn check_pattern_here(&mut self, pattern: PatternId, expected: Ty, why: Why) {
        let ast = self.ast;
        let node = &ast.patterns[pattern];
        match &node.kind {
            PatternKind::Wildcard => {}
            PatternKind::Var(_) => self.declare(pattern, expected),
            PatternKind::As(_, inner) => {
                self.declare(pattern, expected);
                self.check_pattern(*inner, expected, why);
            }
            PatternKind::Or(parts) => parts.iter().for_each(|&part| self.check_pattern(part, expected, why)),
            PatternKind::Int(_) => {
                let number = self.out.types.var(Class::Number);
                self.is_pattern_of(pattern, expected, number, why);
            }
            PatternKind::Real(_) => {
                let real = self.out.types.real;
                self.is_pattern_of(pattern, expected, real, why);
            }
            PatternKind::Bool(_) => {
                let bool = self.out.types.bool;
                self.is_pattern_of(pattern, expected, bool, why);
            }
            PatternKind::Tuple(parts) => {
                let types: Vec<Ty> = parts.iter().map(|_| self.out.types.var(Class::Any)).collect();
                let tuple = self.out.types.tuple(types.clone());
                let fits = self.is_pattern_of(pattern, expected, tuple, why);
                self.check_parts(parts, &types, fits, why);
            }
            PatternKind::List(parts) => {
                let element = self.out.types.var(Class::Any);
                let list = self.out.types.list(element);
                let fits = self.is_pattern_of(pattern, expected, list, why);
                self.check_parts(parts, &vec![element; parts.len()], fits, why);
            }
            PatternKind::Cons(heads, tail) => {
                let element = self.out.types.var(Class::Any);
                let list = self.out.types.list(element);
                let fits = self.is_pattern_of(pattern, expected, list, why);
                self.check_parts(heads, &vec![element; heads.len()], fits, why);
                self.check_parts(&[*tail], &[list], fits, why);
            }
            PatternKind::Constructor(_, args) => self.constructor_pattern(pattern, args, expected, why),
            PatternKind::Record(fields) => {
                for field in fields {
                    let ty = self.field(expected, field.name, field.name_span);
                    self.check_pattern(field.pattern, ty, Why::Field(field.name));
                }
            }
            PatternKind::Ascribe(inner, annotation) => {
                let declared = self.annotation(*annotation);
                let fits = self.is_pattern_of(*inner, expected, declared, why);
                self.check_parts(&[*inner], &[declared], fits, Why::Declared(ast.types[*annotation].span));
            }
        }
    }

    fn declare(&mut self, pattern: PatternId, ty: Ty) {
        let local = self.resolved.bound[pattern].expect("resolution binds every variable of a pattern");
        // Another alternative may have declared it already.
        let before = std::mem::replace(&mut self.locals[local], ty);
        if !self.out.types.is_error(before) && before != ty {
            self.unify_at(self.ast.patterns[pattern].span, before, ty, Why::Alternative);
        }
    }

    /// Makes the expected type the one that a pattern is for, or says why not.
    fn is_pattern_of(&mut self, pattern: PatternId, expected: Ty, found: Ty, why: Why) -> bool {
        match self.out.types.unify(expected, found) {
            Ok(()) => true,
            Err(mismatch) => {
                let span = self.ast.patterns[pattern].span;
                let error = self.mismatch(span, expected, found, why, mismatch);
                let kinds = [expected, found].map(|ty| self.out.types.kind_of(ty));
                self.sink.push(match kinds {
                    [Some(Kind::Array), Some(Kind::List)] => error.help("an array becomes a list with `to_list`"),
                    _ => error,
                });
                self.out.patterns[pattern] = self.out.types.error;
                false
            }
        }
    }

    /// The parts of a pattern; of one that doesn't fit, only the variables are declared.
    fn check_parts(&mut self, parts: &[PatternId], types: &[Ty], fits: bool, why: Why) {
        for (&part, &ty) in parts.iter().zip(types) {
            let ty = if fits { ty } else { self.out.types.error };
            self.check_pattern(part, ty, why);
        }
    }

    fn constructor_pattern(&mut self, pattern: PatternId, args: &[PatternId], expected: Ty, why: Why) {
        let ast = self.ast;
        let Some(constructor) = self.resolved.constructors[pattern] else {
            self.out.patterns[pattern] = self.out.types.error;
            return self.check_parts(args, &vec![self.out.types.error; args.len()], false, why);
        };
        let (fields, data) = self.constructor_type(constructor);
        let fits = self.is_pattern_of(pattern, expected, data, why);
        let declared = &ast.constructors[constructor];
        if let Some(names) = &declared.field_names
            && let [single] = args
            && let PatternKind::Record(named) = &ast.patterns[*single].kind
        {
            self.out.patterns[*single] = data;
            let places: HashMap<Name, usize> = names.iter().enumerate().map(|(at, known)| (known.0, at)).collect();
            for field in named {
                let ty = match places.get(&field.name) {
                    Some(&index) if fits => fields[index],
                    Some(_) => self.out.types.error,
                    None => {
                        let known: Vec<_> = names.iter().map(|known| known.0).collect();
                        let what = format!("`{}`", self.names.text(declared.name));
                        self.unknown_field(field.name, field.name_span, &what, &known);
                        self.out.types.error
                    }
                };
                self.check_pattern(field.pattern, ty, Why::Field(field.name));
            }
            return;
        }
        if declared.field_names.is_some() || args.len() != fields.len() {
            let span = ast.patterns[pattern].span;
            let error = self.constructor_count(constructor, span, args.len());
            self.sink.push(match declared.field_names {
                Some(_) => error
                    .help(format!("the pattern `{} {{}}` matches whatever they are", self.names.text(declared.name))),
                None => error,
            });
            self.out.patterns[pattern] = self.out.types.error;
            return self.check_parts(args, &vec![self.out.types.error; args.len()], false, why);
        }
        self.check_parts(args, &fields, fits, Why::Constructor(constructor));
    }

    /// The types of a constructor's fields and of what it makes, at one use.
    pub(super) fn constructor_type(&mut self, constructor: ConstructorId) -> (Vec<Ty>, Ty) {
        let data = self.ast.constructors[constructor].data;
        let params = self.out.datas[data].clone();
        let args: Vec<Ty> = params.iter().map(|_| self.out.types.var(Class::Any)).collect();
        let mut replaced = params.into_iter().zip(args.iter().copied()).collect();
        let fields = self.out.constructors[constructor].clone();
        let fields = fields.into_iter().map(|field| self.out.types.instantiate(field, &mut replaced)).collect();
        let types = &mut self.out.types;
        let made = if data == LIST { types.list(args[0]) } else { types.con(Con::Data(data), args) };
        (fields, made)
    }

    pub(super) fn wrong_constructor_count(&mut self, constructor: ConstructorId, span: Span, found: usize) {
        let error = self.constructor_count(constructor, span, found);
        self.sink.push(error);
    }

    /// What is said of a constructor with another number of arguments, or with arguments where it has named fields.
    fn constructor_count(&self, constructor: ConstructorId, span: Span, found: usize) -> Diagnostic {
        let declared = &self.ast.constructors[constructor];
        let name = self.names.text(declared.name);
        if let Some(fields) = &declared.field_names {
            const SHOWN: usize = 10;
            let fields: Vec<&str> = fields.iter().take(SHOWN).map(|field| self.names.text(field.0)).collect();
            let error = Diagnostic::error(span, format!("`{name}` has named fields"));
            let help = format!("write `{name} {{ {} = .. }}`", fields.join(" = .., "));
            return error.also(declared.name_span, "declared here").help(help);
        }
        let expected = match declared.fields.len() {
            0 => "no argument".to_owned(),
            1 => "1 argument".to_owned(),
            count => format!("{count} arguments"),
        };
        let error = Diagnostic::error(span, format!("`{name}` takes {expected}, found {found}"));
        let error = error.also(declared.name_span, "declared here");
        match found > declared.fields.len() && found > 1 {
            true => error.help("an argument with arguments of its own needs parentheses: `f (g x)`"),
            false => error,
        }
    }
}
