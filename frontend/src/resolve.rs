//! Names to what they mean: locals, definitions and builtins, with their scopes. Also finds which definition mentions
//! which, for the order of inference.

use crate::arena::{Table, id_types};
use crate::ast::{
    AliasId, Ast, ConstructorId, DataId, DefId, ExprId, ExprKind, Generator, Iteration, Let, LocalFunctionId,
    PatternId, PatternKind, TypeExprId,
};
use crate::builtins::Builtin;
use crate::diagnostics::{Diagnostic, Sink};
use crate::names::{Name, Names, closest};
use crate::source::Span;

id_types! {
    /// A variable that a pattern binds.
    LocalId;
}

/// What a name of a value means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    /// A variable.
    Local(LocalId),
    /// A function that a `let` defines.
    Function(LocalFunctionId),
    /// A constructor.
    Constructor(ConstructorId),
    /// A definition.
    Def(DefId),
    /// A builtin.
    Builtin(Builtin),
}

/// What a name of a type means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TypeMeaning {
    /// `Real`
    Real,
    /// `Int`
    Int,
    /// `Bool`
    Bool,
    /// `Array a`
    Array,
    /// A data type.
    Data(DataId),
    /// An abbreviation.
    Alias(AliasId),
}

/// The meaning of every name.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// The meaning of every [`ExprKind::Var`] and [`ExprKind::Constructor`] that has one, and of everything with `++`.
    pub(crate) meanings: Table<ExprId, Option<Meaning>>,
    /// The variable that a [`PatternKind::Var`] or [`PatternKind::As`] binds. The alternatives of a
    /// [`PatternKind::Or`] bind the same ones.
    pub(crate) bound: Table<PatternId, Option<LocalId>>,
    /// The constructor of a [`PatternKind::Constructor`].
    pub(crate) constructors: Table<PatternId, Option<ConstructorId>>,
    /// The meaning of every [`crate::ast::TypeExprKind::Named`] that has one.
    pub(crate) types: Table<TypeExprId, Option<TypeMeaning>>,
    /// The names of variables.
    pub(crate) locals: Table<LocalId, Name>,
    /// The definitions that a definition mentions; of those that are not reached, none.
    pub(crate) mentions: Table<DefId, Vec<DefId>>,
    /// Whether a definition is the program's own, or one of the prelude's that the program needs. All others are
    /// neither resolved nor inferred.
    pub(crate) reached: Table<DefId, bool>,
}

/// Resolves all names; what has no meaning is reported.
pub(crate) fn resolve(ast: &Ast, names: &mut Names, sink: &mut Sink) -> Resolved {
    let builtins: Vec<(Name, Builtin)> = Builtin::all().map(|(text, builtin)| (names.intern(text), builtin)).collect();
    let mut globals = Table::filled(None, names.len());
    for (name, builtin) in builtins {
        globals[name] = Some(Meaning::Builtin(builtin));
    }
    for (id, def) in ast.defs.iter() {
        match globals[def.name] {
            Some(Meaning::Def(first)) => sink.push(
                Diagnostic::error(def.name_span, format!("`{}` is defined twice", names.text(def.name)))
                    .label("defined again here")
                    .also(ast.defs[first].name_span, "first defined here"),
            ),
            _ => globals[def.name] = Some(Meaning::Def(id)),
        }
    }
    let resolved = Resolved {
        meanings: Table::filled(None, ast.exprs.len()),
        bound: Table::filled(None, ast.patterns.len()),
        constructors: Table::filled(None, ast.patterns.len()),
        types: Table::filled(None, ast.types.len()),
        locals: Table::default(),
        mentions: Table::default(),
        reached: Table::filled(true, ast.defs.len()),
    };
    let scope = Table::filled(None, names.len());
    let mut resolver = Resolver { ast, names, sink, globals, scope, undo: Vec::new(), mentioned: Vec::new(), resolved };
    for (_, def) in ast.defs.iter() {
        resolver.bind_all(&def.params);
        resolver.expr(def.body);
        resolver.leave(0);
        let mut mentioned = std::mem::take(&mut resolver.mentioned);
        mentioned.sort_unstable();
        mentioned.dedup();
        resolver.resolved.mentions.push(mentioned);
    }
    resolver.resolved
}

struct Resolver<'r> {
    ast: &'r Ast,
    names: &'r Names,
    sink: &'r mut Sink,
    globals: Table<Name, Option<Meaning>>,
    /// The variable that each name means here.
    scope: Table<Name, Option<LocalId>>,
    /// What names meant before they were bound, to go back to when a scope ends.
    undo: Vec<(Name, Option<LocalId>)>,
    mentioned: Vec<DefId>,
    resolved: Resolved,
}

impl Resolver<'_> {
    fn leave(&mut self, mark: usize) {
        for (name, before) in self.undo.drain(mark..).rev() {
            self.scope[name] = before;
        }
    }

    /// Binds the variables of patterns that stand side by side, where no name may occur twice.
    fn bind_all(&mut self, patterns: &[PatternId]) {
        let mut bound = Vec::new();
        for &pattern in patterns {
            self.bind(pattern, &mut bound);
        }
        bound.sort_by_key(|&(name, span)| (name, span.start));
        for pair in bound.windows(2) {
            if pair[0].0 == pair[1].0 {
                let message = format!("`{}` is bound twice", self.names.text(pair[0].0));
                self.sink.push(
                    Diagnostic::error(pair[1].1, message).label("bound again here").also(pair[0].1, "first bound here"),
                );
            }
        }
    }

    fn bind(&mut self, pattern: PatternId, bound: &mut Vec<(Name, Span)>) {
        let ast = self.ast;
        let node = &ast.patterns[pattern];
        match &node.kind {
            PatternKind::Var(name) => {
                let local = self.resolved.locals.push(*name);
                self.resolved.bound[pattern] = Some(local);
                let before = self.scope[*name].replace(local);
                self.undo.push((*name, before));
                bound.push((*name, node.span));
            }
            PatternKind::Wildcard => {}
            PatternKind::Tuple(parts) => {
                crate::stack::grown(|| parts.iter().for_each(|&part| self.bind(part, bound)));
            }
            PatternKind::Ascribe(inner, _) => self.bind(*inner, bound),
            _ => {}
        }
    }

    fn expr(&mut self, expr: ExprId) {
        crate::stack::grown(|| self.expr_here(expr));
    }

    fn expr_here(&mut self, expr: ExprId) {
        let ast = self.ast;
        let mark = self.undo.len();
        match &ast.exprs[expr].kind {
            ExprKind::Var(name) => self.name(expr, *name),
            ExprKind::Block(lets, body) => {
                for binding in lets {
                    if let Let::Value { pattern, value } = binding {
                        self.expr(*value);
                        self.bind_all(&[*pattern]);
                    }
                }
                self.expr(*body);
            }
            ExprKind::Loop { pattern, init, iteration, body } => {
                self.expr(*init);
                match iteration {
                    Iteration::While(cond) => {
                        self.bind_all(&[*pattern]);
                        self.expr(*cond);
                    }
                    Iteration::For(generator) => {
                        let element = self.generator(*generator);
                        self.bind_all(&[*pattern, element]);
                    }
                }
                self.expr(*body);
            }
            ExprKind::Comprehension { element, generator } => {
                let pattern = self.generator(*generator);
                self.bind_all(&[pattern]);
                self.expr(*element);
            }
            other => ast.for_each_child(other, |child| self.expr(child)),
        }
        self.leave(mark);
    }

    /// Resolves what a generator runs over, outside of its scope; the pattern that it binds.
    fn generator(&mut self, generator: Generator) -> PatternId {
        match generator {
            Generator::Range { index, from, to } => {
                from.into_iter().for_each(|from| self.expr(from));
                self.expr(to);
                index
            }
            Generator::Elements { element, array } => {
                self.expr(array);
                element
            }
        }
    }

    fn name(&mut self, expr: ExprId, name: Name) {
        let meaning = self.scope[name].map(Meaning::Local).or(self.globals[name]);
        self.resolved.meanings[expr] = meaning;
        match meaning {
            Some(Meaning::Def(def)) => self.mentioned.push(def),
            Some(_) => {}
            None if self.sink.is_full() => self.sink.push(self.unknown(expr, name)),
            None => {
                let error = self.with_suggestion(self.unknown(expr, name), name);
                self.sink.push(error);
            }
        }
    }

    fn unknown(&self, expr: ExprId, name: Name) -> Diagnostic {
        let message = format!("unknown name `{}`", self.names.text(name));
        Diagnostic::error(self.ast.exprs[expr].span, message).label("not defined here")
    }

    /// Looks through all names, which takes time: only for problems that are shown.
    fn with_suggestion(&self, error: Diagnostic, name: Name) -> Diagnostic {
        let is_known = |known: &Name| self.scope[*known].is_some() || self.globals[*known].is_some();
        let known = self.names.all().filter(is_known).map(|known| self.names.text(known));
        let Some(best) = closest(self.names.text(name), known) else { return error };
        let is_local = self.undo.iter().any(|&(name, _)| self.names.text(name) == best);
        let kind = if is_local { "variable" } else { "function" };
        error.help(format!("there is a {kind} `{best}` with a similar name"))
    }
}
