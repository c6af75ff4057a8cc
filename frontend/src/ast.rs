//! The syntax tree: what the parser makes, and name resolution and inference annotate with side tables.
//!
//! Every node lives in a table of [`Ast`] and names its children by index. Children come before their parents, and no
//! tree is deeper than [`NESTING_MAX`].

use crate::arena::{Table, id_types};
use crate::names::Name;
use crate::source::Span;

/// How deep expressions, patterns and types may nest.
pub(crate) const NESTING_MAX: u32 = 4_000;

id_types! {
    /// An expression.
    ExprId;
    /// A pattern.
    PatternId;
    /// A type as written.
    TypeExprId;
    /// A top-level definition.
    DefId;
}

/// A program.
#[derive(Default, Debug)]
pub(crate) struct Ast {
    /// All expressions.
    pub(crate) exprs: Table<ExprId, Expr>,
    /// All patterns.
    pub(crate) patterns: Table<PatternId, Pattern>,
    /// All types as written.
    pub(crate) types: Table<TypeExprId, TypeExpr>,
    /// The definitions in the order of the text.
    pub(crate) defs: Table<DefId, Def>,
}

/// `def name param … : result = body`.
#[derive(Debug)]
pub(crate) struct Def {
    /// The name.
    pub(crate) name: Name,
    /// Where the name stands.
    pub(crate) name_span: Span,
    /// The parameters.
    pub(crate) params: Vec<PatternId>,
    /// The declared result type.
    pub(crate) result: Option<TypeExprId>,
    /// The body.
    pub(crate) body: ExprId,
}

/// An expression and its place.
#[derive(Debug)]
pub(crate) struct Expr {
    /// What it is.
    pub(crate) kind: ExprKind,
    /// Where it is.
    pub(crate) span: Span,
    /// The height of its tree.
    pub(crate) height: u32,
}

/// What an expression is.
#[derive(Debug)]
pub(crate) enum ExprKind {
    /// Something that was reported already.
    Error,
    /// An integer literal, of type Int or Real.
    Int(i64),
    /// A real literal.
    Real(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A name.
    Var(Name),
    /// `(a, b)`, or `()` without parts.
    Tuple(Vec<ExprId>),
    /// `f a b`.
    Apply(ExprId, Vec<ExprId>),
    /// `-a`.
    Negate(ExprId),
    /// `a op b`.
    Binary(BinaryOp, ExprId, ExprId),
    /// `if c then a else b`.
    If(ExprId, ExprId, ExprId),
    /// `let p = e in let q = e in … body`.
    Block(Vec<Let>, ExprId),
    /// `loop p = init for … do body`.
    Loop {
        /// The accumulator.
        pattern: PatternId,
        /// Its first value.
        init: ExprId,
        /// What drives the loop.
        iteration: Iteration,
        /// The accumulator's next value.
        body: ExprId,
    },
    /// `[| a, b |]`.
    Array(Vec<ExprId>),
    /// `[| element for … |]`.
    Comprehension {
        /// The element.
        element: ExprId,
        /// Over what.
        generator: Generator,
    },
    /// `a[i]`.
    Index(ExprId, ExprId),
    /// `(e : T)`.
    Ascribe(ExprId, TypeExprId),
}

/// One binding of a block.
#[derive(Debug)]
pub(crate) struct Let {
    /// What is bound.
    pub(crate) pattern: PatternId,
    /// To what.
    pub(crate) value: ExprId,
}

/// What drives a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Iteration {
    /// `while cond`.
    While(ExprId),
    /// `for …`.
    For(Generator),
}

/// What a `for` runs over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Generator {
    /// `for i < to`, from 0, or `for i in from .. to`.
    Range {
        /// The index, a name or `_`.
        index: PatternId,
        /// The first index; 0 if `None`.
        from: Option<ExprId>,
        /// The index after the last.
        to: ExprId,
    },
    /// `for x in array`.
    Elements {
        /// The element.
        element: PatternId,
        /// The array.
        array: ExprId,
    },
}

/// A binary operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// `^`
    Pow,
    /// `==`, `<` and so on.
    Compare(Comparison),
    /// `&&`
    And,
    /// `||`
    Or,
}

/// A comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
}

impl BinaryOp {
    /// The operator as written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::Pow => "^",
            BinaryOp::Compare(comparison) => comparison.symbol(),
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
        }
    }
}

impl Comparison {
    /// The comparison as written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterEqual => ">=",
        }
    }
}

/// A pattern and its place.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// What it is.
    pub(crate) kind: PatternKind,
    /// Where it is.
    pub(crate) span: Span,
}

/// What a pattern is. All patterns are irrefutable.
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
    /// `(A, B)`, or `()` without parts.
    Tuple(Vec<TypeExprId>),
}

impl Iteration {
    fn for_each_expr(self, visit: &mut impl FnMut(ExprId)) {
        match self {
            Iteration::While(cond) => visit(cond),
            Iteration::For(generator) => generator.for_each_expr(visit),
        }
    }
}

impl Generator {
    fn for_each_expr(self, visit: &mut impl FnMut(ExprId)) {
        match self {
            Generator::Range { from, to, .. } => {
                from.into_iter().for_each(&mut *visit);
                visit(to);
            }
            Generator::Elements { array, .. } => visit(array),
        }
    }
}

impl ExprKind {
    /// Visits the direct children in the order of the text.
    pub(crate) fn for_each_child(&self, mut visit: impl FnMut(ExprId)) {
        match self {
            ExprKind::Error | ExprKind::Int(_) | ExprKind::Real(_) | ExprKind::Bool(_) | ExprKind::Var(_) => {}
            ExprKind::Tuple(parts) | ExprKind::Array(parts) => parts.iter().copied().for_each(visit),
            ExprKind::Apply(callee, args) => {
                visit(*callee);
                args.iter().copied().for_each(visit);
            }
            ExprKind::Negate(a) | ExprKind::Ascribe(a, _) => visit(*a),
            ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) => [*a, *b].into_iter().for_each(visit),
            ExprKind::If(cond, then, other) => [*cond, *then, *other].into_iter().for_each(visit),
            ExprKind::Block(lets, body) => {
                lets.iter().for_each(|binding| visit(binding.value));
                visit(*body);
            }
            ExprKind::Loop { init, iteration, body, .. } => {
                visit(*init);
                iteration.for_each_expr(&mut visit);
                visit(*body);
            }
            ExprKind::Comprehension { element, generator } => {
                visit(*element);
                generator.for_each_expr(&mut visit);
            }
        }
    }
}

impl Ast {
    /// Adds an expression. The caller sees to it that it is not too high.
    pub(crate) fn expr(&mut self, kind: ExprKind, span: Span) -> ExprId {
        let mut height = 0;
        kind.for_each_child(|child| height = height.max(self.exprs[child].height));
        self.exprs.push(Expr { kind, span, height: height + 1 })
    }

    /// Adds a pattern.
    pub(crate) fn pattern(&mut self, kind: PatternKind, span: Span) -> PatternId {
        self.patterns.push(Pattern { kind, span })
    }

    /// Adds a type.
    pub(crate) fn type_expr(&mut self, kind: TypeExprKind, span: Span) -> TypeExprId {
        self.types.push(TypeExpr { kind, span })
    }
}
