//! What is said about names that have no meaning.

use super::Resolver;
use crate::ast::ExprId;
use crate::builtins::Builtin;
use crate::diagnostics::Diagnostic;
use crate::names::{Name, closest};
use crate::prelude;
use crate::source::Span;

impl Resolver<'_> {
    pub(super) fn unknown_name(&mut self, expr: ExprId, name: Name) {
        if self.names.text(name) == "error" {
            let error = Diagnostic::error(self.ast.exprs[expr].span, "`error` takes a text");
            let error = error.label("no text in quotes follows");
            return self.sink.push(error.help("write `error \"no solution\"`: a text can't be computed"));
        }
        let message = format!("unknown name `{}`", self.names.text(name));
        let error = Diagnostic::error(self.ast.exprs[expr].span, message).label("not defined here");
        // Looking through all names takes time: only for problems that are shown.
        let error = if self.sink.is_full() { error } else { self.with_suggestion(error, name) };
        self.sink.push(error);
    }

    fn with_suggestion(&self, error: Diagnostic, name: Name) -> Diagnostic {
        let foreign = match self.names.text(name) {
            "mod" | "rem" => Some("the remainder of integers is `a % b`"),
            "div" => Some("the quotient of integers is `a / b`"),
            "pow" => Some("a power is written `x ^ y`"),
            "null" | "nil" => Some("the empty list is `[]`"),
            "ln" => Some("the natural logarithm is `log`"),
            "foldl" | "fold_left" | "reduce" => Some("the fold from the left is `fold f init list`"),
            "fold_right" => Some("the fold from the right is `foldr f init list`"),
            "zipWith" => Some("it is called `zip_with`"),
            "fun" | "fn" | "lambda" => Some("a function is written `\\x -> value`"),
            "case" | "switch" => Some("a case distinction is written `match e with | pattern -> value | ..`"),
            "return" => Some("an expression is its own value: leave out `return`"),
            _ => None,
        };
        if let Some(hint) = foreign {
            return error.help(hint);
        }
        let is_known = |known: &Name| self.scope[*known].is_some() || self.globals.values[*known].is_some();
        let mut known: Vec<&str> = Builtin::all().map(|(text, _)| text).chain(prelude::names()).collect();
        known.extend(self.names.all().filter(is_known).map(|known| self.names.text(known)));
        let Some(best) = closest(self.names.text(name), known.into_iter()) else { return error };
        let is_local = self.undo.iter().any(|&(name, _)| self.names.text(name) == best);
        let kind = if is_local { "variable" } else { "function" };
        error.help(format!("there is a {kind} `{best}` with a similar name"))
    }

    pub(super) fn unknown_constructor(&mut self, name: Name, span: Span) {
        let text = self.names.text(name);
        let span = Span::new(span.start, span.start + text.len() as u32);
        let error = Diagnostic::error(span, format!("unknown constructor `{text}`")).label("not declared");
        let known = self.names.all().filter(|&known| self.globals.constructors[known].is_some());
        let meant = match text {
            "True" => Some("true"),
            "False" => Some("false"),
            "None" => Some("Nothing"),
            "Some" => Some("Just"),
            "Nil" => Some("[]"),
            "Cons" => Some("::"),
            _ => closest(text, known.map(|known| self.names.text(known))),
        };
        self.sink.push(match meant {
            Some(meant @ ("true" | "false" | "[]" | "::")) => error.help(format!("write `{meant}`")),
            Some(meant) => error.help(format!("there is a constructor `{meant}`")),
            None if self.globals.types[name].is_some() => error.help(format!("`{text}` is a type, not a constructor")),
            None => error.help("names with a capital letter are constructors, which `type` declares"),
        });
    }
}
