//! The prelude: definitions in the language itself that every program knows. Its sources are part of the compiler.

use crate::source::Source;
use std::sync::OnceLock;

/// The files, in the order of the documentation.
pub(crate) const FILES: &[&str] = &[
    include_str!("../prelude/lists.dual"),
    include_str!("../prelude/arrays.dual"),
    include_str!("../prelude/parallel.dual"),
    include_str!("../prelude/maths.dual"),
    include_str!("../prelude/functions.dual"),
    include_str!("../prelude/maybe.dual"),
];

/// The text of the prelude.
pub(crate) fn source() -> &'static Source {
    static SOURCE: OnceLock<Source> = OnceLock::new();
    SOURCE.get_or_init(|| Source::new("prelude", &FILES.concat()))
}

#[cfg(test)]
mod tests {
    /// A program that mentions every definition, so that each is inferred.
    #[test]
    fn the_whole_prelude_is_free_of_errors() {
        let mut names = crate::names::Names::default();
        let mut sink = crate::diagnostics::Sink::default();
        let text = super::source().text();
        let tokens = crate::lexer::lex(text, 0, &mut names, &mut sink);
        // As a program of its own, all of it is looked at; `++` needs the real prelude.
        let ast = crate::parser::parse(&tokens, &tokens, &mut names, &mut sink);
        let resolved = crate::resolve::resolve(&ast, &mut names, &mut sink);
        crate::infer::infer(&ast, &names, &resolved, &mut sink);
        let source = crate::source::Source::new("prelude", text);
        assert!(!sink.has_errors(), "{}", crate::diagnostics::Diagnostics::new(source, sink));
    }
}
