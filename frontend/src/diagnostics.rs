//! Diagnostics: what is wrong, where, and what to do about it, as data and as text.
//!
//! A stage pushes [`Diagnostic`]s into a [`Sink`] and goes on where it can. Rendering is left to `annotate-snippets`.

use crate::limits::Stopped;
use crate::source::{Source, SourceMap, Span};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::fmt;

/// More diagnostics than this are not collected: nobody reads them.
const DIAGNOSTICS_MAX: usize = 50;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Severity {
    /// The program can't be compiled.
    Error,
    /// The program is compiled, but probably not what was meant.
    Warning,
}

/// A place with something to say about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// What is said about it; may be empty.
    pub text: String,
}

/// One problem.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub message: String,
    /// The place, and what was found there.
    pub primary: Label,
    /// Other places that explain it.
    pub secondary: Vec<Label>,
    /// Facts that explain it.
    pub notes: Vec<String>,
    /// What to do about it.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            primary: Label { span, text: String::new() },
            secondary: Vec::new(),
            notes: Vec::new(),
            help: Vec::new(),
        }
    }

    /// A warning about a place.
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// Says what was found at the place.
    #[must_use]
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.primary.text = text.into();
        self
    }

    /// Points at another place.
    #[must_use]
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Self {
        self.secondary.push(Label { span, text: text.into() });
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Adds advice.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    /// Takes away places in the prelude, whose text nobody sees.
    fn leave_prelude(&mut self, sources: &SourceMap) {
        self.secondary.retain(|label| sources.contains(label.span));
        if !sources.contains(self.primary.span) {
            self.primary = Label { span: Span::default(), text: String::new() };
            self.notes.push("this is about a definition of the prelude that the program uses".to_owned());
        }
    }

    fn render(&self, sources: &SourceMap) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = Group::with_title(level.primary_title(&*self.message));
        for snippet in self.snippets(sources) {
            group = group.element(snippet);
        }
        for note in &self.notes {
            group = group.element(Level::NOTE.message(&**note));
        }
        for help in &self.help {
            group = group.element(Level::HELP.message(&**help));
        }
        Renderer::plain().render(&[group])
    }

    /// One snippet for the primary label and what is near it, one for each label elsewhere. A snippet holds only the
    /// lines that it shows, so that the cost doesn't depend on the length of the file.
    fn snippets<'s>(&'s self, sources: &'s SourceMap) -> Vec<Snippet<'s, annotate_snippets::Annotation<'s>>> {
        const NEARBY: u32 = 20;
        let place = |span: Span| (sources.number(span), sources.source_place(span).line);
        let (file, line) = place(self.primary.span);
        let is_near = |label: &&Label| {
            let (of_label, at) = place(label.span);
            of_label == file && at.abs_diff(line) <= NEARBY
        };
        let (near, far): (Vec<&Label>, Vec<&Label>) = self.secondary.iter().partition(is_near);
        let whole = near.iter().fold(self.primary.span, |span, label| span.to(label.span));
        let mut first = snippet(sources, whole, AnnotationKind::Primary, &self.primary);
        let (source, within) = sources.locate(whole);
        let (lines, _) = source.lines_around(within);
        for label in near {
            let (_, span) = sources.locate(label.span);
            first = first.annotation(annotation(&lines, AnnotationKind::Context, span, &label.text));
        }
        let mut out = vec![first];
        out.extend(far.into_iter().map(|label| snippet(sources, label.span, AnnotationKind::Context, label)));
        out
    }
}

fn snippet<'s>(
    sources: &'s SourceMap,
    shown: Span,
    kind: AnnotationKind,
    label: &'s Label,
) -> Snippet<'s, annotate_snippets::Annotation<'s>> {
    let (source, shown) = sources.locate(shown);
    let (_, span) = sources.locate(label.span);
    let (lines, first) = source.lines_around(shown);
    Snippet::source(&source.text()[lines.clone()])
        .line_start(first as usize)
        .path(source.name())
        .annotation(annotation(&lines, kind, span, &label.text))
}

fn annotation<'s>(
    lines: &std::ops::Range<usize>,
    kind: AnnotationKind,
    span: Span,
    text: &'s str,
) -> annotate_snippets::Annotation<'s> {
    let annotation = kind.span(span.start as usize - lines.start..span.end as usize - lines.start);
    if text.is_empty() { annotation } else { annotation.label(text) }
}

/// The problems found in a program, with its text; none if it is [`Default`].
///
/// `Display` writes each with file, line, column, the source line and carets:
///
/// ```
/// let errors = dualvm_frontend::compile("f.dual", "def f (x : Real) = sqrtt x").unwrap_err();
/// assert_eq!(errors.list().len(), 1);
/// let text = errors.to_string();
/// assert!(text.contains("f.dual:1:20"));
/// assert!(text.contains("there is a function `sqrt` with a similar name"));
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Diagnostics {
    sources: Box<SourceMap>,
    list: Vec<Diagnostic>,
    stopped: Option<Stopped>,
}

impl Diagnostics {
    pub(crate) fn new(sources: SourceMap, sink: Sink, stopped: Option<Stopped>) -> Self {
        let mut list = sink.list;
        list.iter_mut().for_each(|diagnostic| diagnostic.leave_prelude(&sources));
        list.sort_by_key(|diagnostic| diagnostic.primary.span.start);
        Diagnostics { sources: Box::new(sources), list, stopped }
    }

    /// Which limit the compilation ran into, or that it was cancelled; `None` if the program has errors.
    pub fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// The problems, in the order of the text.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// These problems of the same program in place of those that it has here.
    #[must_use]
    pub fn replaced_by(&self, problems: impl IntoIterator<Item = Diagnostic>) -> Diagnostics {
        let mut sink = Sink::default();
        problems.into_iter().for_each(|problem| sink.push(problem));
        Diagnostics::new((*self.sources).clone(), sink, None)
    }

    /// The file that a place is in, and the place counted from its beginning.
    pub fn file(&self, span: Span) -> (&Source, Span) {
        self.sources.locate(span)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.list.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            writeln!(f, "{}", diagnostic.render(&self.sources))?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Where the stages of the compiler put problems.
#[derive(Default, Debug)]
pub(crate) struct Sink {
    list: Vec<Diagnostic>,
    errors: usize,
}

impl Sink {
    /// Adds a problem.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.errors += usize::from(diagnostic.severity == Severity::Error);
        if !self.is_full() {
            self.list.push(diagnostic);
        }
    }

    /// Whether no more problems are collected.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= DIAGNOSTICS_MAX
    }

    /// Whether the program can't be compiled.
    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }
}
