//! The syntax tree: what the parser makes, and name resolution and inference annotate with side tables.
//!
//! Every node lives in a table of [`Ast`] and names its children by index. Children come before their parents, and no
//! tree is deeper than [`NESTING_MAX`]. Chains are an exception: `a + b + c`, `a :: b ++ c`, `if … else if …` are trees
//! that lean to one side, and as long as a definition may be. Who walks the tree follows them without recursion; see
//! [`Ast::chained`].

mod declaration;
mod operator;
mod pattern;

use crate::arena::{Id, Table, id_types};
use crate::names::Name;
use crate::source::Span;
use crate::types::Kind;

pub(crate) use declaration::{Alias, Constructor, Counts, Data, Def, File, Interface};
pub(crate) use operator::{Arithmetic, BinaryOp, Comparison};
pub(crate) use pattern::{FieldPattern, FieldType, Pattern, PatternKind, TypeExpr, TypeExprKind};

/// How deep expressions, patterns and types may nest, a chain counted as one level.
pub(crate) const NESTING_MAX: u32 = 4_000;
/// How many expressions a definition may have: what is longer is data, which belongs into an argument.
pub(crate) const DEFINITION_NODES_MAX: usize = 500_000;
/// How many tasks may run side by side in one `par`: as many as a `fork` of the bytecode has.
pub(crate) const TASKS_MAX: usize = 256;

id_types! {
    /// An expression.
    ExprId;
    /// A pattern.
    PatternId;
    /// A type as written.
    TypeExprId;
    /// A top-level definition.
    DefId;
    /// A function that a `let` defines.
    LocalFunctionId;
    /// A data type.
    DataId;
    /// A constructor of a data type.
    ConstructorId;
    /// An abbreviation of a type.
    AliasId;
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
    /// The definitions in the order of the text, file by file; the program's come before the prelude's.
    pub(crate) defs: Table<DefId, Def>,
    /// All functions that a `let` defines.
    pub(crate) functions: Table<LocalFunctionId, LocalFunction>,
    /// The data types: [`LIST`] first, then the program's, then the prelude's.
    pub(crate) datas: Table<DataId, Data>,
    /// The constructors: [`NIL`] and [`CONS`] first.
    pub(crate) constructors: Table<ConstructorId, Constructor>,
    /// The abbreviations of types.
    pub(crate) aliases: Table<AliasId, Alias>,
    /// The files of the program, the main one first: how much there is after each. The rest is the prelude.
    pub(crate) files: Vec<File>,
    /// Whether a type's declaration has a syntax error, so that its name and its constructors are unknown.
    pub(crate) incomplete: bool,
}

/// `List a`, whose declaration nobody writes: `type List a = [] | a :: List a`.
pub(crate) const LIST: DataId = DataId(0);
/// `[]`
pub(crate) const NIL: ConstructorId = ConstructorId(0);
/// `::`
pub(crate) const CONS: ConstructorId = ConstructorId(1);

/// `let name param … : result = body`, or `let name = body` where the body is a function or has no value to compute.
#[derive(Debug)]
pub(crate) struct LocalFunction {
    /// The name.
    pub(crate) name: Name,
    /// Where the name stands.
    pub(crate) name_span: Span,
    /// The parameters; may be none.
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
    /// The height of its tree; a chain is one level.
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
    /// The name of a constructor. A constructor with named fields occurs only as the function of an
    /// [`ExprKind::Apply`] whose one argument is an [`ExprKind::Record`] with all of them, in any order.
    Constructor(Name),
    /// `(a, b)`, or `()` without parts.
    Tuple(Vec<ExprId>),
    /// `a |*| b` or `par (a, b, c)`: a tuple of two to [`TASKS_MAX`] parts, each evaluated as a task.
    Par(Vec<ExprId>),
    /// `f a b`.
    Apply(ExprId, Vec<ExprId>),
    /// `-a`.
    Negate(ExprId),
    /// `a op b`, for all operators but `::` and `++`.
    Binary(BinaryOp, ExprId, ExprId),
    /// `a :: b :: rest`: at least one head, and the tail. One node, so that long chains don't nest.
    Cons(Vec<ExprId>, ExprId),
    /// `a ++ b ++ c`: two or more. Its meaning is the prelude's `append`, of which it is a mention.
    Append(Vec<ExprId>),
    /// `(op)`, a function of two arguments. Its meaning is `append` for `++`.
    Operator(BinaryOp),
    /// `(a op)` or `(op b)`, a function of the other operand; the given one is evaluated once. Its meaning is `append`
    /// for `++`.
    Section(BinaryOp, Side, ExprId),
    /// `\p q -> e`. All patterns are irrefutable.
    Lambda(Vec<PatternId>, ExprId),
    /// `match e with | p if guard -> e | …`. The patterns are exhaustive, and none is redundant.
    Match(ExprId, Vec<Arm>),
    /// All of the body of an imported definition: a call of the host's function of this name, with the parameters.
    Imported(Name),
    /// `error "text"`.
    Fail(Text),
    /// `trace "text" e`: shows the text to a host that listens, and is `e`.
    Trace(Text, ExprId),
    /// `[a, b]`.
    List(Vec<ExprId>),
    /// `{ x = a, y = b }`, in the order of the text, which is the order of evaluation.
    Record(Vec<Field>),
    /// `{ r with x = a }`.
    Update(ExprId, Vec<Field>),
    /// `r.x`, of a record or of a data type with a single constructor with named fields.
    Access(ExprId, Name, Span),
    /// `if c then a else b`.
    If(ExprId, ExprId, ExprId),
    /// `let p = e in let q = e in … body`. All patterns are irrefutable.
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
    /// `[| a, b; c, d |]`: two or more rows, all of the same length.
    Matrix(Vec<Vec<ExprId>>),
    /// `[| element for … |]` or `[element for …]`.
    Comprehension(Box<Comprehension>),
    /// `[| element for i < n, j < m |]`: an array of so many dimensions, two or more.
    Table {
        /// The element.
        element: ExprId,
        /// The ranges of the indices, none of which sees another one's index.
        generators: Vec<Generator>,
    },
    /// `a[i]`, `m[i, j]`, `a[i .. j]`.
    Index(ExprId, Vec<Subscript>),
    /// `{ a with [i] = e }`.
    Replace(ExprId, Vec<Replacement>),
    /// `(e : T)`.
    Ascribe(ExprId, TypeExprId),
}

/// A text, with values in it.
#[derive(Debug)]
pub(crate) struct Text {
    /// What stands before, between and after the values: one more than there are of these.
    pub(crate) pieces: Vec<Name>,
    /// The values, if there are any: an [`ExprKind::Tuple`], which is evaluated when the text is shown.
    pub(crate) values: Option<ExprId>,
}

/// The part of an expression that may be as deep as the expression is long: the rest of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// What is evaluated first: the left operand in `a + b`, the record in `r.x`, the array in `a[i]`, all of `-a`.
    First(ExprId),
    /// What is evaluated last: the right operand in `a ^ b` and `f << g`, the list in `a :: b` and `a ++ b`, the value
    /// after `else` and after `in`.
    Last(ExprId),
}

impl Link {
    /// The rest of the chain.
    pub(crate) fn next(self) -> ExprId {
        match self {
            Link::First(next) | Link::Last(next) => next,
        }
    }
}

impl ExprKind {
    /// How an expression goes on as a chain.
    fn chained(&self) -> Option<Link> {
        match self {
            ExprKind::Binary(op, _, right) if op.is_right_associative() => Some(Link::Last(*right)),
            ExprKind::Binary(_, left, _) => Some(Link::First(*left)),
            ExprKind::Negate(operand) => Some(Link::First(*operand)),
            ExprKind::Access(record, _, _) => Some(Link::First(*record)),
            ExprKind::Index(array, _) => Some(Link::First(*array)),
            ExprKind::Cons(_, tail) => Some(Link::Last(*tail)),
            ExprKind::Append(parts) => parts.last().copied().map(Link::Last),
            ExprKind::If(_, _, other) => Some(Link::Last(*other)),
            ExprKind::Block(_, body) => Some(Link::Last(*body)),
            _ => None,
        }
    }
}

/// One `let` of a block.
#[derive(Debug)]
pub(crate) enum Let {
    /// `let p = e`.
    Value {
        /// What is bound.
        pattern: PatternId,
        /// To what.
        value: ExprId,
    },
    /// `let f x = e and g y = e`: functions that may call themselves and each other, and are polymorphic.
    Functions(Vec<LocalFunctionId>),
    /// `let f = \x -> e` and other values that need no evaluation: as functions, but the body doesn't see the name.
    Alias(LocalFunctionId),
}

/// `| pattern if guard -> body`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arm {
    /// What is matched.
    pub(crate) pattern: PatternId,
    /// A condition that must hold too.
    pub(crate) guard: Option<ExprId>,
    /// The value.
    pub(crate) body: ExprId,
}

/// `x = e` in a record; `x` alone is `x = x`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// The field.
    pub(crate) name: Name,
    /// Where its name stands.
    pub(crate) name_span: Span,
    /// Its value.
    pub(crate) value: ExprId,
}

/// A list or an array by its elements.
#[derive(Debug)]
pub(crate) struct Comprehension {
    /// What it makes.
    pub(crate) kind: Kind,
    /// An element, for each round of the innermost loop.
    pub(crate) element: ExprId,
    /// What it runs over, the outermost first; the first one is no condition.
    pub(crate) clauses: Vec<Clause>,
}

/// A part of a comprehension.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clause {
    /// `for …`.
    For(Generator),
    /// `if c`: leaves out what is inside unless the condition holds.
    If(ExprId),
    /// `loop p = init for … do next`: a loop whose accumulator's new value what is inside sees.
    Loop {
        /// The accumulator.
        pattern: PatternId,
        /// Its first value.
        init: ExprId,
        /// What drives the loop.
        iteration: Iteration,
        /// The accumulator's next value.
        next: ExprId,
    },
}

/// What stands in brackets after an array.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subscript {
    /// `i`
    At(ExprId),
    /// `from .. to`, both of which may be left out.
    Range(Option<ExprId>, Option<ExprId>),
}

impl Subscript {
    pub(crate) fn is_range(self) -> bool {
        matches!(self, Subscript::Range(..))
    }

    pub(crate) fn for_each_expr(self, mut visit: impl FnMut(ExprId)) {
        match self {
            Subscript::At(index) => visit(index),
            Subscript::Range(from, to) => from.into_iter().chain(to).for_each(visit),
        }
    }
}

/// `[i, j] = e` or `[i, a .. b] = xs` in a changed array.
#[derive(Debug)]
pub(crate) struct Replacement {
    /// Which element it is, or which part.
    pub(crate) subscripts: Vec<Subscript>,
    /// The new element, or an array of the part's shape.
    pub(crate) value: ExprId,
    /// Where the brackets are.
    pub(crate) span: Span,
}

/// Which operand a section has, or which one of an operator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Side {
    /// `(a op)`
    Left,
    /// `(op b)`
    Right,
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
    /// `for x in xs`.
    Elements {
        /// The element.
        element: PatternId,
        /// The list or the array.
        collection: ExprId,
    },
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
            Generator::Elements { collection, .. } => visit(collection),
        }
    }
}

impl Ast {
    /// Visits the direct children of an expression in the order of the text.
    pub(crate) fn for_each_child(&self, kind: &ExprKind, mut visit: impl FnMut(ExprId)) {
        match kind {
            ExprKind::Error
            | ExprKind::Imported(_)
            | ExprKind::Int(_)
            | ExprKind::Real(_)
            | ExprKind::Bool(_)
            | ExprKind::Var(_)
            | ExprKind::Constructor(_)
            | ExprKind::Operator(_) => {}
            ExprKind::Fail(text) => text.values.into_iter().for_each(visit),
            ExprKind::Trace(text, body) => text.values.into_iter().chain([*body]).for_each(visit),
            ExprKind::Tuple(parts)
            | ExprKind::Par(parts)
            | ExprKind::Array(parts)
            | ExprKind::List(parts)
            | ExprKind::Append(parts) => {
                parts.iter().copied().for_each(visit);
            }
            ExprKind::Apply(first, rest) => {
                visit(*first);
                rest.iter().copied().for_each(visit);
            }
            ExprKind::Cons(heads, tail) => {
                heads.iter().copied().for_each(&mut visit);
                visit(*tail);
            }
            ExprKind::Negate(a)
            | ExprKind::Ascribe(a, _)
            | ExprKind::Section(_, _, a)
            | ExprKind::Lambda(_, a)
            | ExprKind::Access(a, _, _) => visit(*a),
            ExprKind::Binary(_, a, b) => [*a, *b].into_iter().for_each(visit),
            ExprKind::Index(array, subscripts) => {
                visit(*array);
                subscripts.iter().for_each(|subscript| subscript.for_each_expr(&mut visit));
            }
            ExprKind::Replace(array, replacements) => {
                visit(*array);
                for replacement in replacements {
                    replacement.subscripts.iter().for_each(|subscript| subscript.for_each_expr(&mut visit));
                    visit(replacement.value);
                }
            }
            ExprKind::Matrix(rows) => rows.iter().flatten().copied().for_each(visit),
            ExprKind::If(cond, then, other) => [*cond, *then, *other].into_iter().for_each(visit),
            ExprKind::Match(value, arms) => {
                visit(*value);
                for arm in arms {
                    arm.guard.into_iter().for_each(&mut visit);
                    visit(arm.body);
                }
            }
            ExprKind::Record(fields) => fields.iter().for_each(|field| visit(field.value)),
            ExprKind::Update(record, fields) => {
                visit(*record);
                fields.iter().for_each(|field| visit(field.value));
            }
            ExprKind::Block(lets, body) => {
                lets.iter().for_each(|binding| self.for_each_value(binding, &mut visit));
                visit(*body);
            }
            ExprKind::Loop { init, iteration, body, .. } => {
                visit(*init);
                iteration.for_each_expr(&mut visit);
                visit(*body);
            }
            ExprKind::Comprehension(comprehension) => {
                visit(comprehension.element);
                for clause in &comprehension.clauses {
                    match *clause {
                        Clause::For(generator) => generator.for_each_expr(&mut visit),
                        Clause::If(condition) => visit(condition),
                        Clause::Loop { init, iteration, next, .. } => {
                            visit(init);
                            iteration.for_each_expr(&mut visit);
                            visit(next);
                        }
                    }
                }
            }
            ExprKind::Table { element, generators } => {
                visit(*element);
                generators.iter().for_each(|generator| generator.for_each_expr(&mut visit));
            }
        }
    }

    fn for_each_value(&self, binding: &Let, mut visit: impl FnMut(ExprId)) {
        match binding {
            Let::Value { value, .. } => visit(*value),
            Let::Functions(functions) => functions.iter().for_each(|&function| visit(self.functions[function].body)),
            Let::Alias(function) => visit(self.functions[*function].body),
        }
    }

    /// The parameters and the body of a function without a name: of a lambda; of what each round of a loop over a
    /// collection does to the accumulator, given that and an element; of what a comprehension makes of each element of
    /// one.
    pub(crate) fn anonymous(&self, expr: ExprId) -> Option<(Vec<PatternId>, ExprId)> {
        match &self.exprs[expr].kind {
            ExprKind::Lambda(params, body) => Some((params.clone(), *body)),
            ExprKind::Loop {
                pattern, iteration: Iteration::For(Generator::Elements { element, .. }), body, ..
            } => Some((vec![*pattern, *element], *body)),
            ExprKind::Comprehension(comprehension) => match comprehension.clauses[..] {
                [Clause::For(Generator::Elements { element, .. })] => Some((vec![element], comprehension.element)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Adds an expression. The caller sees to it that it is not too high.
    pub(crate) fn expr(&mut self, kind: ExprKind, span: Span) -> ExprId {
        let mut height = 1;
        let chained = kind.chained().map(|link| link.next());
        self.for_each_child(&kind, |child| {
            height = height.max(self.exprs[child].height + u32::from(Some(child) != chained));
        });
        self.exprs.push(Expr { kind, span, height })
    }

    /// How an expression goes on as a chain.
    pub(crate) fn chained(&self, expr: ExprId) -> Option<Link> {
        self.exprs[expr].kind.chained()
    }

    /// Adds a pattern.
    pub(crate) fn pattern(&mut self, kind: PatternKind, span: Span) -> PatternId {
        self.patterns.push(Pattern { kind, span })
    }

    /// Adds a type.
    pub(crate) fn type_expr(&mut self, kind: TypeExprKind, span: Span) -> TypeExprId {
        self.types.push(TypeExpr { kind, span })
    }

    /// How much of it is the program.
    pub(crate) fn own(&self) -> Counts {
        self.files.last().map_or(Counts::default(), |last| last.end)
    }

    /// Whether a definition is the program's own, and not the prelude's.
    pub(crate) fn is_own(&self, def: DefId) -> bool {
        def.index() < self.own().defs
    }

    /// Whether hosts may call a definition: it is one of the main file, and not private.
    pub(crate) fn is_exported(&self, def: DefId) -> bool {
        let main = self.files.first().map_or(0, |main| main.end.defs);
        def.index() < main && !self.defs[def].is_private
    }

    /// The file of a definition; `None` for the prelude's.
    pub(crate) fn file_of(&self, def: DefId) -> Option<&File> {
        self.files.get(self.files.partition_point(|file| file.end.defs <= def.index()))
    }
}
