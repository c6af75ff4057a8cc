//! What editors ask about a program: what is wrong with it, what stands at a place and where that is declared, what a
//! file declares, and what may be written at a place.
//!
//! Nothing here checks anything: the compiler's own stages do, up to the types and the instances of definitions, and
//! what they leave in their tables is looked up. A program may have any errors. What they leave out has no answers, and
//! everything else has: a mistake in a definition's syntax, say, takes away that definition.

mod completion;
mod mention;
mod repair;
mod symbols;

pub use completion::{Completion, CompletionKind, completions};
pub use mention::Hover;
pub use symbols::{Symbol, SymbolKind};

use crate::ast::Ast;
use crate::diagnostics::{Diagnostics, Sink};
use crate::exhaustive::Program;
use crate::hash::HashMap;
use crate::infer::Inferred;
use crate::limits::{CompileOptions, Meter, Stage};
use crate::names::Names;
use crate::resolve::Resolved;
use crate::source::{Source, SourceMap, Span};
use crate::unexported::Unexported;
use std::rc::Rc;

/// A program as the compiler understands it. Places are bytes of all of its files, one after the other, of which the
/// main one comes first: see [`Analysis::file`].
///
/// ```
/// use dualvm_frontend::{CompileOptions, analysis::Analysis};
///
/// let text = "-- Half of it.\ndef half x = x / 2.0\ndef quarter x = half (half x)";
/// let analysis = Analysis::new("half.dual", text, &CompileOptions::default());
/// assert!(analysis.diagnostics().list().is_empty());
///
/// let mention = text.rfind("half").unwrap() as u32;
/// let hover = analysis.hover(mention).unwrap();
/// assert_eq!((hover.text.as_str(), hover.documentation.as_str()), ("half : Real -> Real", "Half of it."));
/// let declared = analysis.definition(mention).unwrap();
/// assert_eq!(declared.start as usize, text.find("half x").unwrap());
/// ```
#[derive(Debug)]
pub struct Analysis {
    diagnostics: Diagnostics,
    sources: SourceMap,
    tree: Option<Tree>,
    unexported: Vec<(Span, Unexported)>,
}

/// What the stages have made of the program.
#[derive(Debug)]
struct Tree {
    ast: Ast,
    names: Names,
    resolved: Resolved,
    inferred: Inferred,
}

impl Analysis {
    /// Looks at a program. Takes the time that compiling takes up to its optimisation.
    pub fn new(file_name: &str, text: &str, options: &CompileOptions) -> Analysis {
        let meter = Rc::new(Meter::new(options));
        let text = if meter.another_source(text.len()) { text } else { "" };
        let mut sources = SourceMap::of(Source::new(file_name, text));
        let mut sink = Sink::default();
        let mut unexported = Vec::new();
        let tree = crate::stack::on_callers_stack(|| {
            let tree = Tree::of(&mut sources, options, &mut sink, &meter)?;
            if !sink.has_errors() && meter.enter(Stage::Specialise) {
                unexported = tree.instances(&sources, &mut sink, &meter);
            }
            Some(tree)
        });
        let mut stopped = None;
        if let Some((error, why)) = meter.stopped() {
            sink = Sink::default();
            sink.push(error);
            stopped = why;
        }
        Analysis { diagnostics: Diagnostics::new(sources.clone(), sink, stopped), sources, tree, unexported }
    }

    /// All errors; or, if there are none, all warnings.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.diagnostics
    }

    /// The file that a place is in, and the place counted from its beginning.
    pub fn file(&self, span: Span) -> (&Source, Span) {
        self.sources.locate(span)
    }

    /// Whether a place is in a file of the program, and not in one of the language's library, which is on no disk.
    pub fn is_own(&self, span: Span) -> bool {
        self.sources.is_own(span)
    }

    /// The place in the main file that has to do with a place: itself, or the import that brings the other file along.
    pub fn in_main_file(&self, span: Span) -> Span {
        let file = self.sources.number(span);
        if file == 0 {
            return span;
        }
        let Some(tree) = &self.tree else { return Span::default() };
        let files = &tree.ast.files;
        let leads = |from: usize| {
            let (mut seen, mut pending) = (vec![false; files.len()], vec![from]);
            while let Some(number) = pending.pop() {
                if number < seen.len() && !std::mem::replace(&mut seen[number], true) {
                    pending.extend(files[number].imports.iter().map(|(_, target)| *target));
                }
            }
            seen.get(file) == Some(&true)
        };
        let mut imports = files.first().map_or(&[][..], |main| &main.imports).iter();
        imports.find(|(_, target)| leads(*target)).map_or(Span::default(), |(import, _)| import.target.1)
    }

    /// The definitions of the main file that hosts can't call, if there are no errors: the places of their names, and
    /// why. That is no mistake: other definitions may need them.
    pub fn unexported(&self) -> &[(Span, Unexported)] {
        &self.unexported
    }
}

impl Tree {
    /// The stages that look at the whole program. Nothing if the meter has stopped them.
    fn of(sources: &mut SourceMap, options: &CompileOptions, sink: &mut Sink, meter: &Rc<Meter>) -> Option<Tree> {
        let mut names = Names::default();
        let (ast, _) = crate::read(sources, options.importer.as_deref(), &mut names, sink, meter);
        if !meter.enter(Stage::Resolve) {
            return None;
        }
        let resolved = crate::resolve::resolve(&ast, &mut names, sink, meter);
        if !meter.enter(Stage::Check) {
            return None;
        }
        let inferred = crate::infer::infer(&ast, sources, &names, &resolved, sink, meter);
        meter.go_on().then_some(Tree { ast, names, resolved, inferred })
    }

    fn program(&self) -> Program<'_> {
        let Tree { ast, names, resolved, inferred } = self;
        Program { ast, names, resolved, inferred }
    }

    /// What is found in a program without errors: errors of its instances, or warnings. What hosts can't call.
    fn instances(&self, sources: &SourceMap, sink: &mut Sink, meter: &Rc<Meter>) -> Vec<(Span, Unexported)> {
        let mut warnings = Sink::default();
        crate::warnings::warn(&self.program(), sources, &mut warnings, meter);
        let Tree { ast, names, resolved, inferred } = self;
        let (_, border) = crate::specialise::specialise(ast, names, resolved, inferred, sink, meter);
        if sink.has_errors() {
            return Vec::new();
        }
        *sink = warnings;
        let exported = ast.defs.iter().filter(|(id, _)| ast.is_exported(*id)).map(|(_, def)| def);
        let places: HashMap<&str, Span> = exported.map(|def| (names.text(def.name), def.name_span)).collect();
        let placed = border.unexported.into_iter().filter_map(|found| Some((*places.get(found.name.as_str())?, found)));
        placed.collect()
    }
}

/// The start of a file of a program.
fn start_of(sources: &SourceMap, file: usize) -> Option<Span> {
    let start = sources.files().get(file)?.start;
    Some(Span::new(start, start))
}

/// The text that a place is in, of a program's file or of the prelude, and the place in it.
fn text_at(sources: &SourceMap, span: Span) -> Option<(&str, usize)> {
    if sources.contains(span) {
        let (source, within) = sources.locate(span);
        return Some((source.text(), within.start as usize));
    }
    crate::prelude::text_at(span.start.checked_sub(sources.prelude_start())?)
}

/// The comment on the lines above a declaration, without its dashes.
fn documentation(sources: &SourceMap, name: Span) -> String {
    let Some((text, at)) = text_at(sources, name) else { return String::new() };
    let start = text[..at].rfind('\n').unwrap_or(0);
    let comments = text[..start].lines().rev().map_while(|line| line.strip_prefix("--"));
    let mut lines: Vec<&str> = comments.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.reverse();
    lines.join("\n")
}
