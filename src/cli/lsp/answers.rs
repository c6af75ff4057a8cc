//! What the compiler knows, in the protocol's words.

use super::documents::Document;
use super::lines::Lines;
use dualvm::frontend::analysis::{self, CompletionKind, SymbolKind};
use dualvm::frontend::{Label, Severity, Span, format_with};
use lsp_types::{
    CompletionItem, CompletionItemKind, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, DocumentSymbol,
    DocumentSymbolResponse, Documentation, GotoDefinitionResponse, Hover, HoverContents, Location, MarkupContent,
    MarkupKind, Position, Range, TextEdit, Uri,
};

/// What messages of this server are marked with.
const SOURCE: &str = "dualvm";

type UriOf<'u> = &'u dyn Fn(&str) -> Option<Uri>;

/// Errors and warnings, and as hints which definitions hosts can't call.
pub(super) fn diagnostics(document: &Document, uri_of: UriOf<'_>) -> Vec<Diagnostic> {
    let Some(analysis) = document.analysis() else { return Vec::new() };
    let range = |span: Span| document.lines.range(&document.text, span);
    let found = analysis.diagnostics().list().iter().map(|found| {
        let place = analysis.in_main_file(found.primary.span);
        let mut message = found.message.clone();
        if place != found.primary.span {
            let (source, span) = analysis.file(found.primary.span);
            let (line, column) = source.line_and_column(span.start);
            message = format!("{}:{line}:{column}: {message}", source.name());
        }
        if !found.primary.text.is_empty() {
            message = format!("{message}\n{}", found.primary.text);
        }
        found.notes.iter().for_each(|note| message.push_str(&format!("\nnote: {note}")));
        found.help.iter().for_each(|help| message.push_str(&format!("\nhelp: {help}")));
        let related = |label: &Label| {
            let message = label.text.clone();
            Some(DiagnosticRelatedInformation { location: location(analysis, label.span, uri_of)?, message })
        };
        let related: Vec<_> = found.secondary.iter().filter_map(related).collect();
        Diagnostic {
            range: range(place),
            severity: Some(match found.severity {
                Severity::Error => DiagnosticSeverity::ERROR,
                _ => DiagnosticSeverity::WARNING,
            }),
            source: Some(SOURCE.to_owned()),
            message,
            related_information: (!related.is_empty()).then_some(related),
            ..Diagnostic::default()
        }
    });
    let hints = analysis.unexported().iter().map(|(span, unexported)| Diagnostic {
        range: range(*span),
        severity: Some(DiagnosticSeverity::HINT),
        source: Some(SOURCE.to_owned()),
        message: unexported.to_string(),
        ..Diagnostic::default()
    });
    found.chain(hints).collect()
}

/// A place in a file that an editor can open.
fn location(analysis: &analysis::Analysis, span: Span, uri_of: UriOf<'_>) -> Option<Location> {
    if !analysis.is_own(span) {
        return None;
    }
    let (source, span) = analysis.file(span);
    Some(Location::new(uri_of(source.name())?, Lines::of(source.text()).range(source.text(), span)))
}

pub(super) fn hover(document: &Document, offset: u32, _: UriOf<'_>) -> Option<Hover> {
    let found = document.analysis()?.hover(offset)?;
    let mut value = format!("```dual\n{}\n```", found.text);
    if !found.documentation.is_empty() {
        value = format!("{value}\n\n{}", found.documentation);
    }
    let contents = HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value });
    Some(Hover { contents, range: Some(document.lines.range(&document.text, found.span)) })
}

/// The prelude and the library are on no disk: what is declared there has no place.
pub(super) fn definition(document: &Document, offset: u32, uri_of: UriOf<'_>) -> Option<GotoDefinitionResponse> {
    let analysis = document.analysis()?;
    location(analysis, analysis.definition(offset)?, uri_of).map(GotoDefinitionResponse::Scalar)
}

pub(super) fn completion(document: &Document, offset: u32, _: UriOf<'_>) -> Option<Vec<CompletionItem>> {
    let found = analysis::completions(&document.name, &document.text, offset, &document.options);
    let item = |found: analysis::Completion| CompletionItem {
        // Fields and variables before what is always there.
        sort_text: Some(format!("{}{}", rank(found.kind), found.name)),
        label: found.name,
        kind: Some(match found.kind {
            CompletionKind::Field => CompletionItemKind::FIELD,
            CompletionKind::Variable => CompletionItemKind::VARIABLE,
            CompletionKind::Constructor => CompletionItemKind::CONSTRUCTOR,
            CompletionKind::Type => CompletionItemKind::CLASS,
            CompletionKind::Module => CompletionItemKind::MODULE,
            _ => CompletionItemKind::FUNCTION,
        }),
        detail: (!found.detail.is_empty()).then_some(found.detail),
        documentation: (!found.documentation.is_empty()).then_some(Documentation::MarkupContent(MarkupContent {
            kind: MarkupKind::Markdown,
            value: found.documentation,
        })),
        ..CompletionItem::default()
    };
    Some(found.into_iter().map(item).collect())
}

fn rank(kind: CompletionKind) -> u8 {
    match kind {
        CompletionKind::Field | CompletionKind::Variable => 0,
        _ => 1,
    }
}

/// One edit that makes the text the formatted one; none if that is what it is. Nothing if it has syntax errors.
pub(super) fn formatting(document: &Document) -> Option<Vec<TextEdit>> {
    let formatted = format_with(&document.name, &document.text, &document.options).ok()?;
    if formatted == *document.text {
        return Some(Vec::new());
    }
    let end = document.lines.position(&document.text, document.text.len() as u32);
    Some(vec![TextEdit::new(Range::new(Position::new(0, 0), end), formatted)])
}

pub(super) fn symbols(document: &Document) -> DocumentSymbolResponse {
    let found = document.analysis().map_or(Vec::new(), analysis::Analysis::symbols);
    DocumentSymbolResponse::Nested(found.into_iter().map(|found| symbol(document, found)).collect())
}

#[expect(deprecated, reason = "the protocol's old way to say that something is deprecated is a field of the type")]
fn symbol(document: &Document, found: analysis::Symbol) -> DocumentSymbol {
    let range = |span: Span| document.lines.range(&document.text, span);
    let inner: Vec<DocumentSymbol> = found.inner.into_iter().map(|inner| symbol(document, inner)).collect();
    DocumentSymbol {
        name: found.name,
        detail: (!found.detail.is_empty()).then_some(found.detail),
        kind: match found.kind {
            SymbolKind::Function => lsp_types::SymbolKind::FUNCTION,
            SymbolKind::Constant => lsp_types::SymbolKind::CONSTANT,
            SymbolKind::Constructor => lsp_types::SymbolKind::ENUM_MEMBER,
            SymbolKind::Type => lsp_types::SymbolKind::ENUM,
            _ => lsp_types::SymbolKind::CLASS,
        },
        tags: None,
        deprecated: None,
        range: range(found.extent),
        selection_range: range(found.span),
        children: (!inner.is_empty()).then_some(inner),
    }
}
