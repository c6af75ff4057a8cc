//! The dualvm language: source text to bytecode.
//!
//! ```
//! let module = dualvm_frontend::compile("square.dual", "def square (x : Real) : Real = x ^ 2")?;
//! let (_, square) = module.function("square").expect("the definition is exported under its name");
//! assert!(square.interface.is_some());
//! # Ok::<(), dualvm_frontend::Diagnostics>(())
//! ```
//!
//! One stage per file, each a function from one representation to the next:
//! `lexer` (text to tokens), `parser` (to `ast`), `resolve` (names), `infer` (types), `exhaustive` (cases of matches),
//! `specialise` (to `core`, one function per instance), `inline`, `optimise`, `lower` (to bytecode). A stage reports
//! into a sink of diagnostics and goes on where it can; a program with errors goes no further than the checks of its
//! types and matches.

mod arena;
mod ast;
mod builtins;
mod copy;
mod core;
mod diagnostics;
mod exhaustive;
mod graph;
mod infer;
mod inline;
mod lexer;
mod literal;
mod liveness;
mod lower;
mod mono;
mod names;
mod optimise;
mod parser;
mod prelude;
mod resolve;
mod source;
mod specialise;
mod stack;
mod tail;
mod token;
mod types;

pub use diagnostics::{Diagnostic, Diagnostics, Label, Severity};
pub use literal::{Literal, parse_literal};
pub use source::{Source, Span};

use dualvm_vm::module::ModuleDef;

/// Compiles a program. `file_name` is for messages and locations only.
///
/// Time and memory are close to linear in the length of the text and in the size of the module.
///
/// # Errors
/// Everything that is wrong with the program, as far as it could be found at once.
pub fn compile(file_name: &str, text: &str) -> Result<ModuleDef, Diagnostics> {
    let source = Source::new(file_name, text);
    let mut sink = diagnostics::Sink::default();
    match compile_into(&source, &mut sink) {
        Some(module) if !sink.has_errors() => Ok(module),
        _ => Err(Diagnostics::new(source, sink)),
    }
}

fn compile_into(source: &Source, sink: &mut diagnostics::Sink) -> Option<ModuleDef> {
    let mut names = names::Names::default();
    let tokens = lexer::lex(source.text(), 0, &mut names, sink);
    let prelude = lexer::lex(prelude::source().text(), source.prelude_start(), &mut names, sink);
    let ast = parser::parse(&tokens, &prelude, &mut names, sink);
    let resolved = resolve::resolve(&ast, &mut names, sink);
    let inferred = infer::infer(&ast, &names, &resolved, sink);
    if sink.has_errors() {
        return None;
    }
    let program = specialise::specialise(&ast, &names, &resolved, &inferred, sink);
    if sink.has_errors() {
        return None;
    }
    Some(lower::lower(optimise::optimise(inline::inline(program)), source, sink))
}
