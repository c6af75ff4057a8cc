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
//! `specialise` (to `core`, one function per instance), `fuse`, `inline`, `optimise`, `lower` (to bytecode). A stage
//! reports into a sink of diagnostics and goes on where it can; a program with errors goes no further than the checks
//! of its types and matches.

pub mod analysis;
mod arena;
mod ast;
mod builtins;
mod chain;
mod copied;
mod copy;
mod core;
mod diagnostics;
mod exhaustive;
mod format;
mod fuse;
mod graph;
mod hash;
mod importer;
mod imports;
mod infer;
mod inline;
mod interface;
mod kept;
mod lexer;
mod library;
mod limits;
mod list;
mod literal;
mod liveness;
mod load;
mod lower;
mod mono;
mod names;
mod optimise;
mod parser;
mod prelude;
mod prelude_doc;
mod quote;
mod renumber;
mod resolve;
mod signature;
mod source;
mod specialise;
mod stack;
mod tail;
mod token;
mod types;
mod unexported;
mod warnings;

pub use copied::{CopiedArray, CopyReason};
pub use diagnostics::{Diagnostic, Diagnostics, Label, Severity};
pub use format::{format, format_with};
pub use importer::{ImportRequest, ImportedContent, ImportedFile, ImportedLibrary, Importer, MemoryImporter};
pub use kept::{KeptCall, KeptReason};
pub use limits::{CompileLimits, CompileOptions, Stopped};
pub use literal::{Literal, parse_derivative, parse_literal};
pub use prelude::is_predefined;
pub use prelude_doc::{library_examples, library_markdown, prelude_examples, prelude_markdown, prelude_traps};
pub use signature::Signature;
pub use source::{Source, Span};
pub use unexported::Unexported;

use dualvm_vm::module::ModuleDef;
use limits::{Meter, Stage};
use load::Files;
use source::SourceMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Compiles a program. `file_name` is for messages and locations only.
///
/// Time and memory are close to linear in the length of the text and in the size of the module. At first the caller's
/// stack is used, 256 KiB of it at most, and then more from the heap where programs nest deeply.
///
/// # Errors
/// Everything that is wrong with the program, as far as it could be found at once; and [`CompileLimits`], by default.
pub fn compile(file_name: &str, text: &str) -> Result<ModuleDef, Diagnostics> {
    compile_with(file_name, text, &CompileOptions::default()).map(|compiled| compiled.module)
}

/// What a program is compiled to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Compiled {
    /// The code.
    pub module: ModuleDef,
    /// The definitions that hosts can call, in the order of the text, with their types as the program writes them; but
    /// for those whose types are too long for a line.
    pub signatures: Vec<Signature>,
    /// The definitions that hosts can't call, in the order of the text, and why.
    pub unexported: Vec<Unexported>,
    /// What is probably not what was meant, though it was compiled: names that nothing uses, quotients of integers
    /// where reals were probably wanted, `<-`. Of the program's own files only.
    pub warnings: Diagnostics,
    /// The calls that are left after functions were copied into their callers, and why. Some of them may have vanished
    /// since.
    pub kept_calls: Vec<KeptCall>,
    /// The arrays that are copied to change elements of them, where it is known why. Some of them may have vanished
    /// since.
    pub copied_arrays: Vec<CopiedArray>,
    /// The files that it was compiled from, the main one first, but for those of the language's library: names and
    /// texts.
    pub sources: Vec<(String, Arc<str>)>,
    /// Where the program says what each import of the module is, by their numbers; the file is that of
    /// [`Diagnostics::file`] of the warnings. None for what isn't imported in a text.
    pub import_places: Vec<Option<Span>>,
    /// The modules of bytecode that it imports, by the names that it knows them by: the code's import `"shapes.area"`
    /// is the exported function `area` of `shapes`.
    pub libraries: Vec<ImportedLibrary>,
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
    compile_with(file_name, text, &CompileOptions::default())
}

/// Compiles a program as [`compile_program`] does, within limits, and until a handle cancels it.
///
/// ```
/// use dualvm_frontend::{CompileLimits, CompileOptions, Stopped, compile_with};
///
/// let options = CompileOptions::with_limits(CompileLimits { source_bytes: 10, ..CompileLimits::untrusted() });
/// let error = compile_with("long.dual", "def f (x : Real) : Real = x", &options).unwrap_err();
/// assert_eq!(error.stopped(), Some(Stopped::SourceBytes));
/// ```
///
/// # Errors
/// As [`compile`]. If a limit was reached, or the handle cancelled, the error says only that, and
/// [`Diagnostics::stopped`] which it was.
pub fn compile_with(file_name: &str, text: &str, options: &CompileOptions) -> Result<Compiled, Diagnostics> {
    let meter = Rc::new(Meter::new(options));
    // Of a text that is too long nothing is looked at.
    let text = if meter.another_source(text.len()) { text } else { "" };
    let mut sources = SourceMap::of(Source::new(file_name, text));
    let mut sink = diagnostics::Sink::default();
    let importer = options.importer.as_deref();
    let compiled = stack::on_callers_stack(|| compile_into(&mut sources, importer, &mut sink, &meter));
    match (compiled, meter.stopped()) {
        (_, Some((error, why))) => {
            let mut sink = diagnostics::Sink::default();
            sink.push(error);
            Err(Diagnostics::new(sources, sink, why))
        }
        (Some((compiled, warnings)), None) if !sink.has_errors() => {
            Ok(Compiled { warnings: Diagnostics::new(sources, warnings, None), ..compiled })
        }
        (_, None) => Err(Diagnostics::new(sources, sink, None)),
    }
}

/// The syntax of a program: of the main file, which is in the map, of what it imports, and of what it needs of the
/// prelude; and what it imports of bytecode.
fn read(
    sources: &mut SourceMap,
    importer: Option<&dyn Importer>,
    names: &mut names::Names,
    sink: &mut diagnostics::Sink,
    meter: &Meter,
) -> (ast::Ast, Vec<ImportedLibrary>) {
    let Files { tokens: files, libraries } = load::load(sources, importer, names, sink, meter);
    let tokens = files.iter().map(|file| &*file.tokens);
    let prelude = prelude::lex_needed(tokens, sources.prelude_start(), names, sink, meter);
    (parser::parse(files, &prelude, names, sink, meter), libraries)
}

/// The stages one after the other, and what the program is warned of. Nothing if there are errors, or the compilation
/// is stopped.
fn compile_into(
    sources: &mut SourceMap,
    importer: Option<&dyn Importer>,
    sink: &mut diagnostics::Sink,
    meter: &Rc<Meter>,
) -> Option<(Compiled, diagnostics::Sink)> {
    let began = Instant::now();
    let mut names = names::Names::default();
    let (ast, libraries) = read(sources, importer, &mut names, sink, meter);
    let parsed = Instant::now();
    if !meter.enter(Stage::Resolve) {
        return None;
    }
    let resolved = resolve::resolve(&ast, &mut names, sink, meter);
    if !meter.enter(Stage::Check) {
        return None;
    }
    let inferred = infer::infer(&ast, sources, &names, &resolved, sink, meter);
    if sink.has_errors() || !meter.enter(Stage::Specialise) {
        return None;
    }
    let mut warnings = diagnostics::Sink::default();
    let program = exhaustive::Program { ast: &ast, names: &names, resolved: &resolved, inferred: &inferred };
    warnings::warn(&program, sources, &mut warnings, meter);
    let checked = Instant::now();
    let (program, border) = specialise::specialise(&ast, &names, &resolved, &inferred, sink, meter);
    drop((ast, names, resolved, inferred));
    if sink.has_errors() || !meter.enter(Stage::Optimise) {
        return None;
    }
    let program = inline::inline(program, meter);
    if !meter.go_on() {
        return None;
    }
    let program = optimise::optimise(program, meter);
    if !meter.enter(Stage::Lower) {
        return None;
    }
    let kept_calls = program.kept.iter().map(|kept| kept.located(sources, &program.calls)).collect();
    let copied_arrays = program.copied.iter().map(|copied| copied.located(sources, &program.calls)).collect();
    let module = lower::lower(program, sources, sink, meter);
    let times = CompileTimes { parse: parsed - began, check: checked - parsed, compile: checked.elapsed() };
    let own = sources.files().iter().filter(|file| file.is_own());
    let own = own.map(|file| (file.source.name().to_owned(), file.source.text().into()));
    let own = own.collect();
    let specialise::Border { signatures, unexported, imports } = border;
    let import_places = imports.into_iter().map(|span| sources.is_own(span).then_some(span)).collect();
    let (sources, warned) = (own, Diagnostics::default());
    let compiled = Compiled {
        module,
        signatures,
        unexported,
        warnings: warned,
        kept_calls,
        copied_arrays,
        sources,
        import_places,
        libraries,
        times,
    };
    Some((compiled, warnings))
}
