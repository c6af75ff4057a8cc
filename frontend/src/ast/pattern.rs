//! Patterns, and types as written.

use super::{PatternId, TypeExprId};
use crate::names::Name;
use crate::source::Span;

/// A pattern and its place.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// What it is.
    pub(crate) kind: PatternKind,
    /// Where it is.
    pub(crate) span: Span,
}

/// What a pattern is.
#[derive(Debug)]
pub(crate) enum PatternKind {
    /// Binds a name.
    Var(Name),
    /// `_`
    Wildcard,
    /// `(p, q)`, or `()` without parts.
    Tuple(Vec<PatternId>),
    /// `(p : T)`
    Ascribe(PatternId, TypeExprId),
    /// An integer literal with its sign, of type Int or Real.
    Int(i64),
    /// A real literal with its sign.
    Real(f64),
    /// `true` or `false`.
    Bool(bool),
    /// `C p q`. If the constructor has named fields, there is one argument: a [`PatternKind::Record`] with some of
    /// them.
    Constructor(Name, Vec<PatternId>),
    /// `{ x = p, y }`, in the order of the text. Fields that are not mentioned match anything.
    Record(Vec<FieldPattern>),
    /// `[p, q]`
    List(Vec<PatternId>),
    /// `p :: q :: rest`: at least one head, and the tail.
    Cons(Vec<PatternId>, PatternId),
    /// `x @ p`
    As(Name, PatternId),
    /// `p | q`: two or more that bind the same names. The first one that matches is taken.
    Or(Vec<PatternId>),
}

/// `x = p` in a record pattern; `x` alone is `x = x`.
#[derive(Debug)]
pub(crate) struct FieldPattern {
    /// The field.
    pub(crate) name: Name,
    /// Where its name stands.
    pub(crate) name_span: Span,
    /// What it must match.
    pub(crate) pattern: PatternId,
}

/// A type as written and its place.
#[derive(Debug)]
pub(crate) struct TypeExpr {
    /// What it is.
    pub(crate) kind: TypeExprKind,
    /// Where it is.
    pub(crate) span: Span,
}

/// What a type as written is.
#[derive(Debug)]
pub(crate) enum TypeExprKind {
    /// Something that was reported already.
    Error,
    /// A type's name with its arguments.
    Named(Name, Vec<TypeExprId>),
    /// A type variable.
    Var(Name),
    /// `c a`: collections of a kind that a type variable stands for, and the type of the elements.
    Collection(Name, TypeExprId),
    /// `(A, B)`, or `()` without parts.
    Tuple(Vec<TypeExprId>),
    /// `A -> B -> C`: the parameters and, last, the result.
    Function(Vec<TypeExprId>),
    /// `{ x : A, y : B }`, in the order of the text.
    Record(Vec<FieldType>),
}

/// `x : T` in a record type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldType {
    /// The field.
    pub(crate) name: Name,
    /// Where its name stands.
    pub(crate) name_span: Span,
    /// Its type.
    pub(crate) ty: TypeExprId,
}

impl PatternKind {
    /// Visits the direct children in the order of the text.
    pub(crate) fn for_each_child(&self, mut visit: impl FnMut(PatternId)) {
        match self {
            PatternKind::Var(_)
            | PatternKind::Wildcard
            | PatternKind::Int(_)
            | PatternKind::Real(_)
            | PatternKind::Bool(_) => {}
            PatternKind::Tuple(parts)
            | PatternKind::Constructor(_, parts)
            | PatternKind::List(parts)
            | PatternKind::Or(parts) => parts.iter().copied().for_each(visit),
            PatternKind::Ascribe(inner, _) | PatternKind::As(_, inner) => visit(*inner),
            PatternKind::Record(fields) => fields.iter().for_each(|field| visit(field.pattern)),
            PatternKind::Cons(heads, tail) => {
                heads.iter().copied().for_each(&mut visit);
                visit(*tail);
            }
        }
    }
}

impl TypeExprKind {
    /// Visits the direct children in the order of the text.
    pub(crate) fn for_each_child(&self, visit: impl FnMut(TypeExprId)) {
        match self {
            TypeExprKind::Error | TypeExprKind::Var(_) => {}
            TypeExprKind::Collection(_, element) => [*element].into_iter().for_each(visit),
            TypeExprKind::Named(_, parts) | TypeExprKind::Tuple(parts) | TypeExprKind::Function(parts) => {
                parts.iter().copied().for_each(visit);
            }
            TypeExprKind::Record(fields) => fields.iter().map(|field| field.ty).for_each(visit),
        }
    }
}
