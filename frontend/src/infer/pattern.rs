//! Patterns and annotations: the types that a program writes down.

use super::{Infer, Why};
use crate::arena::Id;
use crate::ast::{ExprId, PatternId, PatternKind, TypeExprId, TypeExprKind};
use crate::diagnostics::Diagnostic;
use crate::names::closest;
use crate::types::{Class, Con, Ty};

impl Infer<'_> {
    /// The type of a pattern, its variables declared.
    pub(super) fn pattern(&mut self, pattern: PatternId) -> Ty {
        let ast = self.ast;
        let ty = match &ast.patterns[pattern].kind {
            PatternKind::Var(_) => {
                let ty = self.out.types.var(Class::Any);
                let local = self.resolved.bound[pattern].expect("resolution binds every variable of a pattern");
                self.locals[local] = ty;
                ty
            }
            PatternKind::Wildcard => self.out.types.var(Class::Any),
            PatternKind::Tuple(parts) => {
                let parts = crate::stack::grown(|| parts.iter().map(|&part| self.pattern(part)).collect());
                self.out.types.tuple(parts)
            }
            PatternKind::Ascribe(inner, annotation) => {
                let declared = self.annotation(*annotation);
                let ty = crate::stack::grown(|| self.pattern(*inner));
                let why = Why::Declared(ast.types[*annotation].span);
                self.unify_at(ast.patterns[*inner].span, declared, ty, why);
                declared
            }
            _ => self.out.types.error,
        };
        self.out.patterns[pattern] = ty;
        ty
    }

    /// Gives a pattern the type of a value.
    pub(super) fn bind(&mut self, pattern: PatternId, value: Ty, place: ExprId) {
        let ty = self.pattern(pattern);
        self.unify_expr(place, ty, value, Why::Pattern(self.ast.patterns[pattern].span));
    }

    /// The type that an annotation means.
    pub(super) fn annotation(&mut self, annotation: TypeExprId) -> Ty {
        let ast = self.ast;
        match &ast.types[annotation].kind {
            TypeExprKind::Error | TypeExprKind::Var(_) | TypeExprKind::Function(_) | TypeExprKind::Record(_) => {
                self.out.types.error
            }
            TypeExprKind::Tuple(parts) => {
                let parts = crate::stack::grown(|| parts.iter().map(|&part| self.annotation(part)).collect());
                self.out.types.tuple(parts)
            }
            TypeExprKind::Named(name, args) => {
                const KNOWN: [(&str, Con, usize); 4] =
                    [("Real", Con::Real, 0), ("Int", Con::Int, 0), ("Bool", Con::Bool, 0), ("Array", Con::Array, 1)];
                let text = self.names.text(*name);
                let span = ast.types[annotation].span;
                let Some(&(_, con, arity)) = KNOWN.iter().find(|known| known.0 == text) else {
                    let error = Diagnostic::error(span, format!("unknown type `{text}`"));
                    let alias = match text {
                        "Float" | "Double" | "Number" => Some("Real"),
                        "Integer" => Some("Int"),
                        "Boolean" => Some("Bool"),
                        "Unit" => Some("()"),
                        _ => closest(text, KNOWN.iter().map(|known| known.0)),
                    };
                    self.sink.push(match alias {
                        Some(alias) => error.help(format!("there is a type `{alias}`")),
                        None => error.help("the types are `Real`, `Int`, `Bool`, `()`, tuples and `Array T`"),
                    });
                    return self.out.types.error;
                };
                if args.len() != arity {
                    let takes = if arity == 0 { "no argument".to_owned() } else { format!("{arity} argument") };
                    let message = format!("the type `{text}` takes {takes}, found {}", args.len());
                    let error = Diagnostic::error(span, message);
                    let nested = arity == 1 && args.len() > 1;
                    self.sink.push(if nested { error.help("use parentheses: `Array (Array Real)`") } else { error });
                    return self.out.types.error;
                }
                match con {
                    Con::Real => self.out.types.real,
                    Con::Int => self.out.types.int,
                    Con::Bool => self.out.types.bool,
                    _ => {
                        let args = crate::stack::grown(|| args.iter().map(|&arg| self.annotation(arg)).collect());
                        self.out.types.con(con, args)
                    }
                }
            }
        }
    }

    /// Records an expression's type.
    pub(super) fn set(&mut self, expr: ExprId, ty: Ty) -> Ty {
        debug_assert!(expr.index() < self.ast.exprs.len());
        self.out.exprs[expr] = ty;
        ty
    }
}
