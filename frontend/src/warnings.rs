//! Warnings: what is compiled, but is probably not what was meant. Names that nothing uses, quotients of integers where
//! a quotient of reals was probably wanted, `<-`, and indices that count from the end.
//!
//! Only what a program's author has written is looked at, and only if it has no errors. Every expression, pattern and
//! type is visited once. What is used is told from the side tables of resolution, and no walk nests.

use crate::arena::{Id, Table};
use crate::ast::{
    BinaryOp, ConstructorId, DataId, DefId, ExprId, ExprKind, FieldPattern, LocalFunctionId, PatternId, PatternKind,
    Subscript, TypeExprKind,
};
use crate::builtins::Builtin;
use crate::diagnostics::{Diagnostic, Sink};
use crate::exhaustive::Program;
use crate::hash::HashSet;
use crate::imports::{Import, Selected};
use crate::limits::Meter;
use crate::names::Name;
use crate::quote;
use crate::resolve::{LocalId, Meaning};
use crate::source::{SourceMap, Span};
use crate::types::Con;
use dualvm_vm::isa::Op;

/// Reports everything that is probably a slip.
pub(crate) fn warn(program: &Program<'_>, sources: &SourceMap, sink: &mut Sink, meter: &Meter) {
    let uses = Uses::of(program, sources, meter);
    let mut warnings = Warnings { program, sources, uses, sink, meter };
    warnings.variables();
    warnings.functions();
    warnings.definitions();
    warnings.imports();
    warnings.quotients();
    warnings.arrows();
    warnings.negative_indices();
}

/// What the program's own expressions, patterns and types mention.
struct Uses {
    locals: Table<LocalId, bool>,
    functions: Table<LocalFunctionId, bool>,
    /// Names of definitions, constructors and types, by the number of a file that imports something.
    names: HashSet<(usize, Name)>,
    /// The names of modules that stand before those.
    modules: HashSet<(usize, Name)>,
    /// Data types with a constructor that a file mentions without a module's name.
    constructed: HashSet<(usize, DataId)>,
}

impl Uses {
    fn of(program: &Program<'_>, sources: &SourceMap, meter: &Meter) -> Uses {
        let (ast, resolved) = (program.ast, program.resolved);
        let mut uses = Uses {
            locals: Table::filled(false, resolved.locals.len()),
            functions: Table::filled(false, ast.functions.len()),
            names: HashSet::default(),
            modules: HashSet::default(),
            constructed: HashSet::default(),
        };
        let importing = |span: Span| {
            let file = sources.number(span);
            ast.files.get(file).filter(|file| !file.imports.is_empty()).map(|_| file)
        };
        for (id, expr) in ast.exprs.iter() {
            // The prelude's come last.
            if !sources.contains(expr.span) || !meter.step(expr.span) {
                break;
            }
            match resolved.meanings[id] {
                Some(Meaning::Local(local)) => uses.locals[local] = true,
                Some(Meaning::Function(function)) => {
                    // What only calls itself is not used.
                    let body = ast.exprs[ast.functions[function].body].span;
                    uses.functions[function] |= !(body.start <= expr.span.start && expr.span.end <= body.end);
                }
                _ => {}
            }
            let constructor = match (&expr.kind, resolved.meanings[id]) {
                (ExprKind::Constructor(name), Some(Meaning::Constructor(constructor))) => Some((*name, constructor)),
                (ExprKind::Var(name), Some(Meaning::Def(_))) => {
                    uses.mention(*name, importing(expr.span), program);
                    None
                }
                _ => None,
            };
            uses.constructor(constructor.zip(importing(expr.span)), program);
        }
        for (id, pattern) in ast.patterns.iter() {
            if !sources.contains(pattern.span) || !meter.step(pattern.span) {
                break;
            }
            if let (PatternKind::Constructor(name, _), Some(constructor)) = (&pattern.kind, resolved.constructors[id]) {
                uses.constructor(Some((*name, constructor)).zip(importing(pattern.span)), program);
            }
        }
        for (_, ty) in ast.types.iter().filter(|(_, ty)| sources.contains(ty.span)) {
            if !meter.step(ty.span) {
                break;
            }
            if let TypeExprKind::Named(name, _) = ty.kind {
                uses.mention(name, importing(ty.span), program);
            }
        }
        uses
    }

    /// A name of a value or a type, in a file if that imports something.
    fn mention(&mut self, name: Name, file: Option<usize>, program: &Program<'_>) {
        let Some(file) = file else { return };
        if self.names.insert((file, name))
            && let Some((module, _)) = program.names.text(name).split_once('.')
        {
            self.modules.extend(program.names.known(module).map(|module| (file, module)));
        }
    }

    fn constructor(&mut self, found: Option<((Name, ConstructorId), usize)>, program: &Program<'_>) {
        let Some(((name, constructor), file)) = found else { return };
        self.mention(name, Some(file), program);
        if !program.names.text(name).contains('.') {
            self.constructed.insert((file, program.ast.constructors[constructor].data));
        }
    }
}

struct Warnings<'w> {
    program: &'w Program<'w>,
    sources: &'w SourceMap,
    uses: Uses,
    sink: &'w mut Sink,
    meter: &'w Meter,
}

impl Warnings<'_> {
    fn text(&self, name: Name) -> &str {
        self.program.names.text(name)
    }

    /// Whether a name may be unused, or stands where nobody looks.
    fn is_ignored(&self, name: Name, span: Span) -> bool {
        self.text(name).starts_with('_') || !self.sources.is_own(span)
    }

    fn unused(&mut self, name: Name, span: Span, what: &str, help: String) {
        let message = format!("the {what} `{}` is never used", self.text(name));
        self.sink.push(Diagnostic::warning(span, message).help(help));
    }

    /// Variables of patterns, parameters among them.
    fn variables(&mut self) {
        let ast = self.program.ast;
        let mut params: HashSet<PatternId> = HashSet::default();
        let mut puns: HashSet<PatternId> = HashSet::default();
        for (_, def) in ast.defs.iter().take(ast.own().defs) {
            params.extend(&def.params);
        }
        for (_, function) in ast.functions.iter() {
            params.extend(&function.params);
        }
        for (_, expr) in ast.exprs.iter() {
            if let ExprKind::Lambda(of_lambda, _) = &expr.kind {
                params.extend(of_lambda);
            }
        }
        // A pattern stands after its parts.
        for id in (0..ast.patterns.len()).rev().map(PatternId::from_index) {
            match &ast.patterns[id].kind {
                PatternKind::Ascribe(inner, _) if params.contains(&id) => _ = params.insert(*inner),
                PatternKind::Record(fields) => {
                    let is_pun = |field: &&FieldPattern| ast.patterns[field.pattern].span == field.name_span;
                    puns.extend(fields.iter().filter(is_pun).map(|field| field.pattern));
                }
                _ => {}
            }
        }
        let mut told: HashSet<LocalId> = HashSet::default();
        for (id, pattern) in ast.patterns.iter() {
            if !self.sources.contains(pattern.span) || !self.meter.step(pattern.span) || self.sink.is_full() {
                break;
            }
            let (PatternKind::Var(name) | PatternKind::As(name, _)) = pattern.kind else { continue };
            let Some(local) = self.program.resolved.bound[id] else { continue };
            if self.uses.locals[local] || self.is_ignored(name, pattern.span) || !told.insert(local) {
                continue;
            }
            let text = self.text(name);
            let help = match puns.contains(&id) {
                true => format!("leave the field out, or write `{text} = _`"),
                false => format!("write `_{text}` if that is intended"),
            };
            let span = Span::new(pattern.span.start, pattern.span.start + text.len() as u32);
            let what = if params.contains(&id) { "parameter" } else { "variable" };
            self.unused(name, span, what, help);
        }
    }

    /// Functions that a `let` defines.
    fn functions(&mut self) {
        let ast = self.program.ast;
        for (id, function) in ast.functions.iter() {
            if !self.sources.contains(function.name_span) || !self.meter.step(function.name_span) {
                break;
            }
            if !self.uses.functions[id] && !self.is_ignored(function.name, function.name_span) {
                let help = format!("take it out, or write `_{}` if that is intended", self.text(function.name));
                self.unused(function.name, function.name_span, "function", help);
            }
        }
    }

    /// Private definitions that no public one needs.
    fn definitions(&mut self) {
        let (ast, resolved) = (self.program.ast, self.program.resolved);
        let own = ast.own().defs;
        let mut needed: Table<DefId, bool> = Table::filled(false, ast.defs.len());
        let mut pending: Vec<DefId> =
            (0..own).map(DefId::from_index).filter(|&def| !ast.defs[def].is_private).collect();
        while let Some(def) = pending.pop() {
            if self.meter.step(ast.defs[def].name_span) && !std::mem::replace(&mut needed[def], true) {
                pending.extend(resolved.mentions[def].iter().filter(|def| def.index() < own));
            }
        }
        for def in (0..own).map(DefId::from_index).filter(|&def| !needed[def]) {
            let (name, span) = (ast.defs[def].name, ast.defs[def].name_span);
            if self.meter.go_on() && !self.is_ignored(name, span) {
                self.unused(name, span, "private definition", "take it out".to_owned());
            }
        }
    }

    fn imports(&mut self) {
        let ast = self.program.ast;
        for (number, file) in ast.files.iter().enumerate() {
            let mut unused = Vec::new();
            for (import, target) in &file.imports {
                let is_idle = |selected: &&Selected| !self.is_used(selected, number, *target);
                let idle: Vec<&Selected> = import.selected.iter().filter(is_idle).collect();
                if !self.uses.modules.contains(&(number, import.module)) && idle.len() == import.selected.len() {
                    unused.push((import.target.1, import, None));
                } else {
                    unused.extend(idle.into_iter().map(|selected| (selected.span, import, Some(selected))));
                }
            }
            for (span, import, selected) in unused {
                if self.sources.is_own(span) && self.meter.step(span) {
                    self.unused_import(span, import, selected);
                }
            }
        }
    }

    fn unused_import(&mut self, span: Span, import: &Import, selected: Option<&Selected>) {
        let message = match selected {
            Some(selected) => format!("`{}` is imported, but never used", self.text(selected.known_as)),
            None => format!("the module `{}` is imported, but never used", self.text(import.module)),
        };
        self.sink.push(Diagnostic::warning(span, message).help("take it out"));
    }

    /// Whether a file uses what it has selected of another one.
    fn is_used(&self, selected: &Selected, file: usize, target: usize) -> bool {
        let ast = self.program.ast;
        if self.uses.names.contains(&(file, selected.known_as)) {
            return true;
        }
        let start = target.checked_sub(1).map_or(0, |before| ast.files[before].end.datas);
        let mut datas = (start..ast.files[target].end.datas).map(DataId::from_index);
        // A type comes with its constructors.
        let data = datas.find(|&data| ast.datas[data].name == selected.name);
        selected.is_type && data.is_some_and(|data| self.uses.constructed.contains(&(file, data)))
    }

    /// Quotients of integers that are rounded where a real number would be of use.
    fn quotients(&mut self) {
        let ast = self.program.ast;
        for (id, expr) in ast.exprs.iter() {
            if !self.sources.contains(expr.span) || !self.meter.step(expr.span) {
                break;
            }
            if !self.sources.is_own(expr.span) {
                continue;
            }
            match &expr.kind {
                ExprKind::Binary(BinaryOp::Div, ..) => {
                    if let Some([a, b]) = self.inexact_literals(id) {
                        let message = format!("`{a} / {b}` is {}: integers are divided here", a / b);
                        let help = format!("write `{a}.0 / {b}.0` for a `Real`, or the integer that is meant");
                        self.sink.push(Diagnostic::warning(expr.span, message).help(help));
                    }
                }
                ExprKind::Binary(BinaryOp::Pow, base, exponent) => {
                    let base = quote::operand(ast, self.sources, *base);
                    let base = base.as_deref().unwrap_or("x");
                    self.rounded(*exponent, "before it is an exponent", |quotient| {
                        format!("make it a `Real`: `{base} ^ ({quotient})`")
                    });
                }
                ExprKind::Apply(callee, args) => {
                    let converts = self.program.resolved.meanings[*callee];
                    if let (Some(Meaning::Builtin(Builtin::Scalar(Op::ToReal))), [arg]) = (converts, &args[..]) {
                        self.rounded(*arg, "before it becomes a `Real`", |quotient| format!("write `{quotient}`"));
                    }
                }
                _ => {}
            }
        }
    }

    /// Warns of a quotient of integers, unless that was done already. `help` is told the one of reals that is meant.
    fn rounded(&mut self, quotient: ExprId, when: &str, help: impl FnOnce(&str) -> String) {
        let is_quotient = matches!(self.program.ast.exprs[quotient].kind, ExprKind::Binary(BinaryOp::Div, ..));
        if is_quotient && self.is_integer(quotient) && self.inexact_literals(quotient).is_none() {
            let span = self.program.ast.exprs[quotient].span;
            let warning = Diagnostic::warning(span, format!("this quotient of integers is rounded {when}"));
            let real = quote::real_quotient(self.program.ast, self.sources, quotient);
            let warning = warning.help(help(real.as_deref().unwrap_or("to_real n / to_real m")));
            self.sink.push(warning.help("give the quotient a name with `let` if that is intended"));
        }
    }

    /// Comparisons with a negative number that are written as an assignment: `a[0] <- 1`.
    fn arrows(&mut self) {
        let ast = self.program.ast;
        for (_, expr) in ast.exprs.iter() {
            if !self.sources.contains(expr.span) || !self.meter.step(expr.span) {
                break;
            }
            let ExprKind::Negate(operand) = expr.kind else { continue };
            let (source, minus) = self.sources.locate(expr.span);
            let (before, after) = source.text().split_at(minus.start as usize);
            if before.ends_with(" <") && after.starts_with("- ") && self.sources.is_own(expr.span) {
                let arrow = Span::new(expr.span.start - 1, expr.span.start + 1);
                let operand = quote::operand(ast, self.sources, operand);
                let negative = operand.as_deref().unwrap_or("x");
                let warning = Diagnostic::warning(arrow, "`<-` is a comparison with a negative value")
                    .help("an array like `a` with another element is `{ a with [0] = 1 }`")
                    .help(format!("if a comparison is meant, write `< -{negative}`"));
                self.sink.push(warning);
            }
        }
    }

    /// Indices that are written as negative numbers, which count from the end in other languages and trap here.
    fn negative_indices(&mut self) {
        let ast = self.program.ast;
        for (_, expr) in ast.exprs.iter() {
            if !self.sources.contains(expr.span) || !self.meter.step(expr.span) {
                break;
            }
            match &expr.kind {
                ExprKind::Index(array, subscripts) => self.negative_subscripts(*array, subscripts, true),
                ExprKind::Replace(array, replacements) => {
                    for replacement in replacements {
                        self.negative_subscripts(*array, &replacement.subscripts, false);
                    }
                }
                _ => {}
            }
        }
    }

    /// Warns of negative numbers in what stands in brackets behind an array. `is_read` says whether that is read.
    fn negative_subscripts(&mut self, array: ExprId, subscripts: &[Subscript], is_read: bool) {
        for (at, subscript) in subscripts.iter().enumerate() {
            let is_element = is_read && matches!(subscripts, [Subscript::At(_)]);
            subscript.for_each_expr(|end| self.negative(array, end, (at, subscripts.len()), is_element));
        }
    }

    /// Warns of an index, a place among so many, if it is a negative number. `is_element` says whether an element is
    /// read by it alone.
    fn negative(&mut self, array: ExprId, index: ExprId, dimension: (usize, usize), is_element: bool) {
        let ast = self.program.ast;
        let ExprKind::Negate(operand) = ast.exprs[index].kind else { return };
        let ExprKind::Int(back @ 1..) = ast.exprs[operand].kind else { return };
        let span = ast.exprs[index].span;
        if !self.sources.is_own(span) {
            return;
        }
        let warning = Diagnostic::warning(span, "a negative index is out of bounds").note("indices begin at 0");
        let length = match dimension {
            (0, 1) => "length",
            (0, 2) => "rows",
            (1, 2) => "columns",
            _ => return self.sink.push(warning),
        };
        let quoted = quote::operand(ast, self.sources, array);
        let array = quoted.as_deref().unwrap_or("xs");
        let counted = format!("{length} {array} - {back}");
        self.sink.push(warning.help(match is_element && back == 1 {
            true => format!("the last element is `{array}[{counted}]` or `last {array}`"),
            false => format!("counted from the end it is `{counted}`"),
        }));
    }

    fn is_integer(&self, expr: ExprId) -> bool {
        let inferred = self.program.inferred;
        inferred.types.con_of(inferred.exprs[expr]) == Some(Con::Int)
    }

    /// The two integer literals of which an expression is the quotient, if that is not an integer.
    fn inexact_literals(&self, expr: ExprId) -> Option<[i64; 2]> {
        let ast = self.program.ast;
        let ExprKind::Binary(BinaryOp::Div, left, right) = ast.exprs[expr].kind else { return None };
        let (&ExprKind::Int(a), &ExprKind::Int(b)) = (&ast.exprs[left].kind, &ast.exprs[right].kind) else {
            return None;
        };
        (self.is_integer(expr) && a.checked_rem(b).is_some_and(|rest| rest != 0)).then_some([a, b])
    }
}
