//! What is said about names that have no meaning.

use super::{Meaning, Resolver, foreign};
use crate::ast::{ExprId, PatternKind};
use crate::builtins::Builtin;
use crate::diagnostics::Diagnostic;
use crate::library;
use crate::names::{Name, closest};
use crate::parser::without_text;
use crate::prelude;
use crate::source::Span;

/// How many names are compared with unknown ones, for all errors of a program together.
pub(super) const COMPARED_MAX: usize = 500_000;

impl Resolver<'_> {
    pub(super) fn unknown_name(&mut self, expr: ExprId, name: Name) {
        if self.is_missing(name) {
            return;
        }
        if let Some(error) = without_text(self.names.text(name), self.ast.exprs[expr].span) {
            return self.sink.push(error);
        }
        let message = format!("unknown name `{}`", self.names.text(name));
        let error = Diagnostic::error(self.ast.exprs[expr].span, message).label("not defined here");
        let error = match self.left_out(name) {
            Some(why) => error.note(why),
            None => self.with_suggestion(error, name),
        };
        self.sink.push(error);
    }

    /// Why a module of bytecode has no function of this name for the program, although it exports one.
    fn left_out(&self, name: Name) -> Option<String> {
        let (module, function) = self.names.text(name).rsplit_once('.')?;
        let imports = &self.ast.files.get(self.file)?.imports;
        let (_, file) = imports.iter().find(|(import, _)| self.names.text(import.module) == module)?;
        self.why_left_out(*file, function)
    }

    /// The same for a name in a file.
    pub(super) fn why_left_out(&self, file: usize, function: &str) -> Option<String> {
        let left_out = &self.ast.files[file].interface.left_out;
        let (_, why) = left_out.iter().find(|(name, _)| name == function)?;
        Some(format!(
            "the module exports `{function}`, but {why}; `import host` gets it with types of the program's own"
        ))
    }

    fn with_suggestion(&self, error: Diagnostic, name: Name) -> Diagnostic {
        // Nobody will see it.
        if self.sink.is_full() {
            return error;
        }
        if self.dimensions.contains(&name) {
            return error.help(
                "dimensions with a comma in between don't see each other; rows of different lengths are arrays of \
                 their own, as in `[| [| .. for j < i |] for i < n |]`",
            );
        }
        if let Some(known) = self.in_a_module(name) {
            return error.help(format!("there is `{known}`"));
        }
        if let Some(known) = self.log_density(name) {
            return error.help(format!("there is the density's logarithm: `exp ({known} ..)`"));
        }
        let text = self.names.text(name);
        if let Some(module) = library::module_of(text) {
            return error.help(format!("with `import {module}` in the first line it is `{module}.{text}`"));
        }
        if let Some(hint) = foreign::name(text).or_else(|| library::foreign_hint(text)) {
            return error.help(hint);
        }
        if let Some(stem) = self.known_stem(name) {
            return error.help(format!(
                "the transpose of a matrix is `transpose {stem}`, the derivative of a function `derivative {stem}`"
            ));
        }
        if let Some(function) = self.function_of(name) {
            let text = self.names.text(name);
            let error =
                error.note(format!("`{text}` is a parameter of the function `{function}`, and known in it only"));
            return error.help(format!("a value gets a name by `let {text} = ..`"));
        }
        if let Some(module) = library::names().find(|module| *module == self.names.text(name)) {
            return error.help(format!("it is a module of the library: write `import {module}` in the first line"));
        }
        // As they are called where each kind of collection has functions of its own.
        let text = self.names.text(name);
        let stem = text.strip_suffix("_array").or_else(|| text.strip_suffix("_list"));
        if let Some(stem) = stem.filter(|stem| prelude::names().any(|known| known == *stem)) {
            return error.help(format!("`{stem}` works on lists and arrays alike"));
        }
        let is_known = |known| self.scope[known].is_some() || self.global_value(known).is_some();
        let Some(best) = self.closest_of(name, Builtin::all().map(|(text, _)| text).chain(prelude::names()), is_known)
        else {
            return error;
        };
        let is_local = self.undo.iter().any(|&(name, _)| self.names.text(name) == best);
        let kind = if is_local { "variable" } else { "function" };
        error.help(format!("there is a {kind} `{best}` with a similar name"))
    }

    /// The known name that an unknown one is with a prime behind it.
    fn known_stem(&self, name: Name) -> Option<&str> {
        let stem = self.names.text(name).strip_suffix('\'')?;
        let known = self.names.known(stem)?;
        (self.scope[known].is_some() || self.global_value(known).is_some()).then_some(stem)
    }

    /// What has this name in a module that the file imports.
    fn in_a_module(&self, name: Name) -> Option<String> {
        let imports = &self.ast.files.get(self.file)?.imports;
        let text = self.names.text(name);
        let mut qualified = imports.iter().map(|(import, _)| format!("{}.{text}", self.names.text(import.module)));
        qualified.find(|text| self.names.known(text).is_some_and(|name| self.global_value(name).is_some()))
    }

    /// The function for the logarithm of a density or of a probability, where a name is that of one without it.
    fn log_density(&self, name: Name) -> Option<String> {
        let text = self.names.text(name);
        let (stem, kind) = ["pdf", "pmf"].iter().find_map(|kind| Some((text.strip_suffix(kind)?, kind)))?;
        let known = format!("{stem}log{kind}");
        self.names.known(&known).filter(|&name| self.global_value(name).is_some()).map(|_| known)
    }

    /// The local function that has a parameter of this name: `let mut y = e in y` defines a function `mut`.
    fn function_of(&self, name: Name) -> Option<&str> {
        self.undo.iter().rev().find_map(|&(local, _)| match self.scope[local] {
            Some(Meaning::Function(function)) => {
                let function = &self.ast.functions[function];
                let is_named = |&param: &_| matches!(self.ast.patterns[param].kind, PatternKind::Var(it) if it == name);
                function.params.iter().any(is_named).then(|| self.names.text(function.name))
            }
            _ => None,
        })
    }

    /// The known name that an unknown one was meant to be. Looking through all names takes time: it is done for
    /// problems that are shown, and not without end.
    pub(super) fn closest_of(
        &self,
        wanted: Name,
        more: impl Iterator<Item = &'static str>,
        is_known: impl Fn(Name) -> bool,
    ) -> Option<&str> {
        let left = self.suggestions_left.get().checked_sub(self.names.len());
        let (Some(left), false) = (left, self.sink.is_full()) else { return None };
        self.suggestions_left.set(left);
        let mut known: Vec<&str> = more.collect();
        known.extend(self.names.all().filter(|&known| is_known(known)).map(|known| self.names.text(known)));
        closest(self.names.text(wanted), known.into_iter())
    }

    pub(super) fn unknown_constructor(&mut self, name: Name, span: Span) {
        if self.is_missing(name) {
            return;
        }
        let text = self.names.text(name);
        let span = Span::new(span.start, span.start + text.len() as u32);
        let error = Diagnostic::error(span, format!("unknown constructor `{text}`")).label("not declared");
        let meant = match text {
            "True" => Some("true"),
            "False" => Some("false"),
            "None" => Some("Nothing"),
            "Some" => Some("Just"),
            "Nil" => Some("[]"),
            "Cons" => Some("::"),
            "NaN" | "Nan" => Some("nan"),
            "Infinity" | "Inf" => Some("infinity"),
            "PI" | "Pi" => Some("pi"),
            _ => self.closest_of(name, std::iter::empty(), |known| self.global_constructor(known).is_some()),
        };
        let error = match meant {
            Some(meant) if meant.starts_with(char::is_uppercase) => {
                error.help(format!("there is a constructor `{meant}`"))
            }
            Some(meant) => error.help(format!("write `{meant}`")),
            None if let Some(hint) = library::foreign_hint(text) => error.help(hint),
            None if self.global_type(name).is_some() => error.help(format!("`{text}` is a type, not a constructor")),
            None => error.help("names with a capital letter are constructors, which `type` declares"),
        };
        self.sink.push(error);
    }
}
