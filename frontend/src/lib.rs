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
mod prelude_doc;
mod resolve;
mod source;
mod specialise;
mod stack;
mod tail;
mod token;
mod types;
mod unexported;

pub use diagnostics::{Diagnostic, Diagnostics, Label, Severity};
pub use literal::{Literal, parse_literal};
pub use prelude_doc::{prelude_examples, prelude_markdown};
pub use source::{Source, Span};
pub use unexported::Unexported;

use dualvm_vm::module::ModuleDef;
use std::time::{Duration, Instant};

/// Compiles a program. `file_name` is for messages and locations only.
///
/// Time and memory are close to linear in the length of the text and in the size of the module.
///
/// # Errors
/// Everything that is wrong with the program, as far as it could be found at once.
pub fn compile(file_name: &str, text: &str) -> Result<ModuleDef, Diagnostics> {
    compile_program(file_name, text).map(|compiled| compiled.module)
}

/// What a program is compiled to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Compiled {
    /// The code.
    pub module: ModuleDef,
    /// The definitions that hosts can't call, in the order of the text, and why.
    pub unexported: Vec<Unexported>,
    /// How long it took.
    pub times: CompileTimes,
}

/// Where the time of a compilation went. The prelude's part is included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CompileTimes {
    /// From text to a syntax tree.
    pub parse: Duration,
    /// Names, types, and cases of matches.
    pub check: Duration,
    /// From types to bytecode.
    pub compile: Duration,
}

/// Compiles a program as [`compile`] does, and says which of its definitions hosts can't call.
///
/// ```
/// let text = "def twice (f : Real -> Real) (x : Real) : Real = f (f x)";
/// let compiled = dualvm_frontend::compile_program("twice.dual", text)?;
/// assert_eq!(compiled.unexported[0].name, "twice");
/// assert_eq!(compiled.unexported[0].reason, "takes a function (`f : Real -> Real`)");
/// # Ok::<(), dualvm_frontend::Diagnostics>(())
/// ```
///
/// # Errors
/// As [`compile`].
pub fn compile_program(file_name: &str, text: &str) -> Result<Compiled, Diagnostics> {
    let began = Instant::now();
    let source = Source::new(file_name, text);
    let mut sink = diagnostics::Sink::default();
    match stack::on_callers_stack(|| compile_into(&source, began, &mut sink)) {
        Some(compiled) if !sink.has_errors() => Ok(compiled),
        _ => Err(Diagnostics::new(source, sink)),
    }
}

fn compile_into(source: &Source, began: Instant, sink: &mut diagnostics::Sink) -> Option<Compiled> {
    let mut names = names::Names::default();
    let tokens = lexer::lex(source.text(), 0, &mut names, sink);
    let prelude = prelude::lex_needed(&tokens, source.prelude_start(), &mut names, sink);
    let ast = parser::parse(&tokens, &prelude, &mut names, sink);
    let parsed = Instant::now();
    let resolved = resolve::resolve(&ast, &mut names, sink);
    let inferred = infer::infer(&ast, &names, &resolved, sink);
    if sink.has_errors() {
        return None;
    }
    let checked = Instant::now();
    let (program, unexported) = specialise::specialise(&ast, &names, &resolved, &inferred, sink);
    if sink.has_errors() {
        return None;
    }
    let module = lower::lower(optimise::optimise(inline::inline(program)), source, sink);
    let times = CompileTimes { parse: parsed - began, check: checked - parsed, compile: checked.elapsed() };
    Some(Compiled { module, unexported, times })
}
