//! Names to what they mean: locals, definitions, constructors, types and builtins, with their scopes. Also finds which
//! definition mentions which, for the order of inference.
//!
//! Each file of the program is a scope of its own, with what it imports. The prelude is a scope around all of them: the
//! program's names shadow its names, and the prelude doesn't see the program's. Of the prelude's definitions only those
//! that the program needs are looked at.

mod foreign;
mod pattern;
mod scopes;
mod types;
mod unknown;

use crate::arena::{Id, Table, id_types};
use crate::ast::{
    AliasId, Ast, BinaryOp, Clause, Comprehension, ConstructorId, DataId, DefId, ExprId, ExprKind, Generator,
    Iteration, Let, Link, LocalFunctionId, PatternId, PatternKind, Text, TypeExprId,
};
use crate::builtins::Builtin;
use crate::diagnostics::{Diagnostic, Sink};
use crate::hash::HashMap;
use crate::limits::Meter;
use crate::names::{Name, Names};
use crate::prelude::Implied;
use crate::source::Span;
use crate::types::Kind;
use scopes::{Declarations, FileScope, Globals};
use std::cell::Cell;

id_types! {
    /// A variable that a pattern binds. What is bound later has a larger number.
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
    /// `Array a`, `List a`; `c a` of an open kind.
    Collection(Option<Kind>),
    /// A data type.
    Data(DataId),
    /// An abbreviation.
    Alias(AliasId),
}

/// A name that stands where it is asked what names mean there. Nobody would give it to anything.
pub(crate) const PROBE: &str = "completed'here'";

/// The meaning of every name.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// The meaning of every [`ExprKind::Var`] and [`ExprKind::Constructor`] that has one, and of everything with `++`.
    pub(crate) meanings: Table<ExprId, Option<Meaning>>,
    /// The variable that a [`crate::ast::PatternKind::Var`] or [`crate::ast::PatternKind::As`] binds. The
    /// alternatives of a [`crate::ast::PatternKind::Or`] bind the same ones.
    pub(crate) bound: Table<PatternId, Option<LocalId>>,
    /// The constructor of a [`crate::ast::PatternKind::Constructor`].
    pub(crate) constructors: Table<PatternId, Option<ConstructorId>>,
    /// The meaning of every [`crate::ast::TypeExprKind::Named`] and [`crate::ast::TypeExprKind::Collection`] that has
    /// one.
    pub(crate) types: Table<TypeExprId, Option<TypeMeaning>>,
    /// The names of variables.
    pub(crate) locals: Table<LocalId, Name>,
    /// The definitions that a definition mentions; of those that are not reached, none.
    pub(crate) mentions: Table<DefId, Vec<DefId>>,
    /// When a function that a `let` defines is bound, and when its text begins.
    pub(crate) function_times: Table<LocalFunctionId, [LocalId; 2]>,
    /// How many functions that `let`s define are around the `let` of one.
    pub(crate) function_depths: Table<LocalFunctionId, u32>,
    /// When the text of a lambda or of a branch of a `par` begins: what is bound before is from outside.
    pub(crate) times: HashMap<ExprId, LocalId>,
    /// When the rounds of a loop over a collection begin, or those of a comprehension. It may also be a branch.
    pub(crate) loop_times: HashMap<ExprId, LocalId>,
    /// For a function that a `let` defines, those of its group that it mentions.
    pub(crate) function_mentions: Table<LocalFunctionId, Vec<LocalFunctionId>>,
    /// The abbreviations that can be expanded: all but those that would expand to themselves.
    pub(crate) expandable: Table<AliasId, bool>,
    /// The abbreviations that an abbreviation mentions.
    pub(crate) alias_uses: Table<AliasId, Vec<AliasId>>,
    /// Whether a definition is the program's own, or one of the prelude's that the program needs. Others, which have
    /// the name of something that a program mentions, are neither resolved nor inferred.
    pub(crate) reached: Table<DefId, bool>,
    /// What names mean in definitions and in the file where [`PROBE`] stands.
    pub(crate) in_scope: Vec<(Name, Meaning)>,
    /// The definitions that syntax stands for, where the program has such syntax.
    pub(crate) implied: [Option<DefId>; Implied::ALL.len()],
}

impl Resolved {
    /// A definition that syntax stands for, which occurs.
    pub(crate) fn implied(&self, implied: Implied) -> DefId {
        self.implied[implied as usize].expect("the prelude's definitions that syntax stands for are read with it")
    }
}

/// Resolves all names; what has no meaning is reported.
pub(crate) fn resolve(ast: &Ast, names: &mut Names, sink: &mut Sink, meter: &Meter) -> Resolved {
    let basic = [("Real", TypeMeaning::Real), ("Int", TypeMeaning::Int), ("Bool", TypeMeaning::Bool)];
    let collections = Kind::ALL.map(|kind| (kind.name(), TypeMeaning::Collection(Some(kind))));
    let types = basic.into_iter().chain(collections);
    let types: Vec<(Name, TypeMeaning)> = types.map(|(text, meaning)| (names.intern(text), meaning)).collect();
    let of_prelude = |text: &str| {
        let mut prelude = ast.defs.iter().skip(ast.own().defs);
        prelude.find(|(_, def)| names.text(def.name) == text).map(|(id, _)| id)
    };
    let implied = Implied::ALL.map(|implied| of_prelude(implied.name()));
    scopes::intern_qualified(ast, names, meter);
    let mut globals = Globals {
        values: Table::filled(None, names.len()),
        constructors: Table::filled(None, names.len()),
        types: Table::filled(None, names.len()),
    };
    for (name, meaning) in types {
        globals.types[name] = Some(meaning);
    }
    let resolved = Resolved {
        meanings: Table::filled(None, ast.exprs.len()),
        bound: Table::filled(None, ast.patterns.len()),
        constructors: Table::filled(None, ast.patterns.len()),
        types: Table::filled(None, ast.types.len()),
        locals: Table::default(),
        mentions: Table::filled(Vec::new(), ast.defs.len()),
        function_times: Table::filled([Id::from_index(0); 2], ast.functions.len()),
        function_depths: Table::filled(0, ast.functions.len()),
        times: HashMap::default(),
        loop_times: HashMap::default(),
        function_mentions: Table::filled(Vec::new(), ast.functions.len()),
        expandable: Table::filled(true, ast.aliases.len()),
        alias_uses: Table::filled(Vec::new(), ast.aliases.len()),
        reached: Table::filled(false, ast.defs.len()),
        in_scope: Vec::new(),
        implied,
    };
    let scope = Table::filled(None, names.len());
    let mut resolver = Resolver {
        ast,
        names,
        sink,
        meter,
        globals,
        files: vec![FileScope::default(); ast.files.len()],
        file: 0,
        scope,
        undo: Vec::new(),
        mentioned: Vec::new(),
        open: Vec::new(),
        groups: Table::filled(usize::MAX, ast.functions.len()),
        dimensions: Vec::new(),
        suggestions_left: Cell::new(unknown::COMPARED_MAX),
        probe: names.known(PROBE),
        resolved,
    };
    resolver.program();
    resolver.resolved
}

struct Resolver<'r> {
    ast: &'r Ast,
    names: &'r Names,
    sink: &'r mut Sink,
    meter: &'r Meter,
    /// The scope around all files.
    globals: Globals,
    /// The scopes of the program's files.
    files: Vec<FileScope>,
    /// The file that is being resolved; the prelude has the number after the last.
    file: usize,
    /// What each name means here, if it is bound in a definition.
    scope: Table<Name, Option<Meaning>>,
    /// What names meant before they were bound, to go back to when a scope ends.
    undo: Vec<(Name, Option<Meaning>)>,
    mentioned: Vec<DefId>,
    /// For each `let` of functions around, the outermost first: which of them is being resolved.
    open: Vec<Option<LocalFunctionId>>,
    /// For a function that a `let` around defines: which one of [`Resolver::open`].
    groups: Table<LocalFunctionId, usize>,
    /// The indices of the dimensions of tables around, while the bounds of those behind them are resolved: these don't
    /// see them.
    dimensions: Vec<Name>,
    /// How many names may still be compared with unknown ones.
    suggestions_left: Cell<usize>,
    /// The name [`PROBE`], if the program has it.
    probe: Option<Name>,
    resolved: Resolved,
}

impl Resolver<'_> {
    fn program(&mut self) {
        let ast = self.ast;
        let prelude = ast.files.len();
        let declared: Vec<Declarations> = (0..=prelude).map(|file| scopes::declarations(ast, file)).collect();
        for (file, declared) in declared.iter().enumerate() {
            self.file = file;
            self.declare_types(declared);
            self.declare(declared.defs());
        }
        self.share_types();
        self.import_all();
        let own = &declared[..prelude];
        self.resolve_types(own, 0);
        for (file, declared) in own.iter().enumerate() {
            self.file = file;
            declared.defs().for_each(|def| self.def(def));
        }
        if !self.meter.go_on() {
            return;
        }
        self.file = prelude;
        // The declaration of lists is resolved with the prelude's types.
        let with_lists = Declarations { datas: 0..1, defs: 0..0, aliases: 0..0 };
        self.resolve_types(&[with_lists], prelude);
        self.resolve_types(&declared[prelude..], prelude);
        let mut pending: Vec<DefId> = self.resolved.mentions.iter().flat_map(|(_, list)| list.clone()).collect();
        pending.extend(self.resolved.implied.iter().flatten());
        while let Some(def) = pending.pop() {
            if !self.resolved.reached[def] {
                self.def(def);
                pending.extend(self.resolved.mentions[def].iter().copied());
            }
        }
    }

    fn declare(&mut self, defs: impl Iterator<Item = DefId>) {
        let ast = self.ast;
        let mut own: HashMap<Name, DefId> = HashMap::default();
        for id in defs {
            let def = &ast.defs[id];
            if !self.meter.step(def.name_span) {
                return;
            }
            if let Some(first) = own.get(&def.name) {
                let error =
                    Diagnostic::error(def.name_span, format!("`{}` is defined twice", self.names.text(def.name)));
                let error = error.label("defined again here").also(ast.defs[*first].name_span, "first defined here");
                self.sink.push(error);
                continue;
            }
            own.insert(def.name, id);
            self.declare_value(def.name, id);
        }
    }

    fn def(&mut self, id: DefId) {
        let def = &self.ast.defs[id];
        self.resolved.reached[id] = true;
        self.bind_all(&def.params);
        def.result.into_iter().for_each(|result| self.type_expr(result, None));
        self.expr(def.body);
        self.leave(0);
        let mut mentioned = std::mem::take(&mut self.mentioned);
        mentioned.sort_unstable();
        mentioned.dedup();
        self.resolved.mentions[id] = mentioned;
    }

    fn enter(&mut self, name: Name, meaning: Meaning) {
        let before = self.scope[name].replace(meaning);
        self.undo.push((name, before));
    }

    fn leave(&mut self, mark: usize) {
        for (name, before) in self.undo.drain(mark..).rev() {
            self.scope[name] = before;
        }
    }

    fn expr(&mut self, expr: ExprId) {
        if self.meter.step(self.ast.exprs[expr].span) {
            crate::stack::grown(|| self.expr_here(expr));
        }
    }

    /// Resolves an expression, and the rest of its chain without recursion.
    fn expr_here(&mut self, expr: ExprId) {
        let mark = self.undo.len();
        let mut expr = expr;
        while self.meter.step(self.ast.exprs[expr].span) {
            match self.ast.chained(expr) {
                Some(Link::First(_)) => self.chain_from_first(expr),
                Some(Link::Last(next)) => {
                    self.before(expr, next);
                    expr = next;
                    continue;
                }
                None => self.single(expr),
            }
            break;
        }
        self.leave(mark);
    }

    /// Resolves a chain that begins with what is evaluated first.
    fn chain_from_first(&mut self, expr: ExprId) {
        let ast = self.ast;
        let mut chain = vec![expr];
        let mut first = expr;
        while let Some(Link::First(next)) = ast.chained(first) {
            chain.push(next);
            first = next;
        }
        self.expr(first);
        for pair in chain.windows(2).rev() {
            if self.meter.step(ast.exprs[pair[0]].span) {
                ast.for_each_child(&ast.exprs[pair[0]].kind, |child| {
                    if child != pair[1] {
                        self.expr(child);
                    }
                });
            }
        }
    }

    /// Resolves all of an expression but the rest of its chain, which sees what a block binds.
    fn before(&mut self, expr: ExprId, rest: ExprId) {
        let ast = self.ast;
        match &ast.exprs[expr].kind {
            ExprKind::Block(lets, _) => lets.iter().for_each(|binding| self.binding(binding)),
            kind => {
                if let ExprKind::Append(_) = kind {
                    self.append(expr);
                }
                ast.for_each_child(kind, |child| {
                    if child != rest {
                        self.expr(child);
                    }
                });
            }
        }
    }

    /// Resolves an expression that is no chain.
    fn single(&mut self, expr: ExprId) {
        let ast = self.ast;
        let kind = &ast.exprs[expr].kind;
        match kind {
            ExprKind::Var(name) => self.name(expr, *name),
            ExprKind::Constructor(name) => {
                let constructor = self.constructor(*name, ast.exprs[expr].span);
                self.resolved.meanings[expr] = constructor.map(Meaning::Constructor);
            }
            ExprKind::Operator(BinaryOp::Append) | ExprKind::Section(BinaryOp::Append, ..) => {
                self.append(expr);
                ast.for_each_child(kind, |child| self.expr(child));
            }
            ExprKind::Ascribe(inner, ty) => {
                self.type_expr(*ty, None);
                self.expr(*inner);
            }
            ExprKind::Lambda(params, body) => {
                self.resolved.times.insert(expr, self.resolved.locals.next_id());
                self.bind_all(params);
                self.expr(*body);
            }
            ExprKind::Par(parts) => {
                for &part in parts {
                    self.resolved.times.insert(part, self.resolved.locals.next_id());
                    self.expr(part);
                }
            }
            // The values of a text are code of their own.
            ExprKind::Fail(text) => self.text(text),
            ExprKind::Trace(text, body) => {
                self.text(text);
                self.expr(*body);
            }
            ExprKind::Match(value, arms) => {
                self.expr(*value);
                for arm in arms {
                    let mark = self.undo.len();
                    self.bind_all(&[arm.pattern]);
                    arm.guard.into_iter().for_each(|guard| self.expr(guard));
                    self.expr(arm.body);
                    self.leave(mark);
                }
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
                        if let Generator::Elements { .. } = generator {
                            self.resolved.loop_times.insert(expr, self.resolved.locals.next_id());
                        }
                        self.bind_all(&[*pattern, element]);
                    }
                }
                self.expr(*body);
            }
            ExprKind::Comprehension(comprehension) => self.comprehension(expr, comprehension),
            ExprKind::Table { element, generators } => {
                let outside = self.dimensions.len();
                let mut indices: Vec<PatternId> = Vec::with_capacity(generators.len());
                for &generator in generators {
                    let index = self.generator(generator);
                    if let PatternKind::Var(name) = ast.patterns[index].kind {
                        self.dimensions.push(name);
                    }
                    indices.push(index);
                }
                self.dimensions.truncate(outside);
                self.bind_all(&indices);
                self.expr(*element);
            }
            other => ast.for_each_child(other, |child| self.expr(child)),
        }
    }

    /// What a clause binds is seen by those after it and by the element.
    fn comprehension(&mut self, expr: ExprId, comprehension: &Comprehension) {
        for clause in &comprehension.clauses {
            match *clause {
                Clause::For(generator) => {
                    let pattern = self.generator(generator);
                    self.resolved.loop_times.entry(expr).or_insert(self.resolved.locals.next_id());
                    self.bind_all(&[pattern]);
                }
                Clause::If(condition) => self.expr(condition),
                Clause::Loop { pattern, init, iteration, next } => {
                    self.expr(init);
                    match iteration {
                        Iteration::While(condition) => {
                            self.bind_all(&[pattern]);
                            self.expr(condition);
                        }
                        Iteration::For(generator) => {
                            let element = self.generator(generator);
                            self.bind_all(&[pattern, element]);
                        }
                    }
                    self.expr(next);
                }
            }
        }
        self.expr(comprehension.element);
    }

    fn binding(&mut self, binding: &Let) {
        match binding {
            Let::Value { pattern, value } => {
                self.expr(*value);
                self.bind_all(&[*pattern]);
            }
            Let::Functions(group) => self.functions(group, true),
            Let::Alias(function) => self.functions(&[*function], false),
        }
    }

    /// Functions that a `let` defines together; whether they see each other.
    fn functions(&mut self, group: &[LocalFunctionId], recursive: bool) {
        let ast = self.ast;
        let own = self.open.len();
        self.open.push(None);
        if recursive {
            group.iter().for_each(|&id| self.groups[id] = own);
            self.enter_functions(group);
        }
        for &id in group {
            let function = &ast.functions[id];
            let scope = self.undo.len();
            self.open[own] = Some(id);
            self.resolved.function_depths[id] = own as u32;
            self.resolved.function_times[id][1] = self.resolved.locals.next_id();
            self.bind_all(&function.params);
            function.result.into_iter().for_each(|result| self.type_expr(result, None));
            self.expr(function.body);
            self.leave(scope);
            let mentioned = &mut self.resolved.function_mentions[id];
            mentioned.sort_unstable();
            mentioned.dedup();
        }
        self.open.pop();
        if !recursive {
            self.enter_functions(group);
        }
    }

    fn enter_functions(&mut self, group: &[LocalFunctionId]) {
        let ast = self.ast;
        let mut seen: HashMap<Name, Span> = HashMap::default();
        for &id in group {
            let function = &ast.functions[id];
            match seen.get(&function.name) {
                Some(&first) => {
                    let message = format!("`{}` is defined twice", self.names.text(function.name));
                    let error = Diagnostic::error(function.name_span, message).label("defined again here");
                    self.sink.push(error.also(first, "first defined here"));
                }
                None => _ = seen.insert(function.name, function.name_span),
            }
            // It takes a number among those of variables, to be told apart from what is bound later.
            self.resolved.function_times[id][0] = self.resolved.locals.push(function.name);
            self.enter(function.name, Meaning::Function(id));
        }
    }

    /// Resolves what a generator runs over, outside of its scope; the pattern that it binds.
    fn generator(&mut self, generator: Generator) -> PatternId {
        match generator {
            Generator::Range { index, from, to } => {
                from.into_iter().for_each(|from| self.expr(from));
                self.expr(to);
                index
            }
            Generator::Elements { element, collection } => {
                self.expr(collection);
                element
            }
        }
    }

    fn name(&mut self, expr: ExprId, name: Name) {
        let meaning = self.scope[name].or_else(|| self.global_value(name)).or_else(|| self.builtin(name));
        self.resolved.meanings[expr] = meaning;
        match meaning {
            Some(Meaning::Def(def)) => self.mentioned.push(def),
            Some(Meaning::Function(function)) => {
                // Where that one's group is being resolved, it is mentioned by one of the group.
                if let Some(&Some(inside)) = self.open.get(self.groups[function]) {
                    self.resolved.function_mentions[inside].push(function);
                }
            }
            Some(_) => {}
            None => {
                if Some(name) == self.probe {
                    self.resolved.in_scope = self.names_here();
                }
                self.unknown_name(expr, name);
            }
        }
    }

    /// What names mean here, in definitions and in the file: not in the prelude.
    fn names_here(&self) -> Vec<(Name, Meaning)> {
        let bound: HashMap<Name, Meaning> =
            self.undo.iter().filter_map(|&(name, _)| Some((name, self.scope[name]?))).collect();
        let of_file = self.files.get(self.file).into_iter().flat_map(|scope| {
            let defs = scope.values.iter().map(|(&name, &def)| (name, Meaning::Def(def)));
            defs.chain(scope.constructors.iter().map(|(&name, &id)| (name, Meaning::Constructor(id))))
        });
        let of_file = of_file.filter(|(name, _)| !bound.contains_key(name));
        let mut all: Vec<(Name, Meaning)> = bound.iter().map(|(&name, &meaning)| (name, meaning)).collect();
        all.extend(of_file);
        all.sort_by_key(|&(name, _)| self.names.text(name));
        all
    }

    /// A builtin, looked up where nothing else has its name for the first time.
    fn builtin(&mut self, name: Name) -> Option<Meaning> {
        let builtin = Builtin::named(self.names.text(name))?;
        if builtin.is_hidden() {
            return (self.file == self.files.len()).then_some(Meaning::Builtin(builtin));
        }
        self.globals.values[name] = Some(Meaning::Builtin(builtin));
        self.globals.values[name]
    }

    fn text(&mut self, text: &Text) {
        if let Some(values) = text.values {
            self.resolved.times.insert(values, self.resolved.locals.next_id());
            self.expr(values);
        }
    }

    /// `++` is the prelude's `append`, whatever else has that name.
    fn append(&mut self, expr: ExprId) {
        let def = self.resolved.implied(Implied::Append);
        self.resolved.meanings[expr] = Some(Meaning::Def(def));
        self.mentioned.push(def);
    }

    fn constructor(&mut self, name: Name, span: Span) -> Option<ConstructorId> {
        let known = self.global_constructor(name);
        if known.is_none() && !self.ast.incomplete {
            self.unknown_constructor(name, span);
        }
        known
    }
}
