//! Where lines may end in each form of the language. The rules:
//!
//! - What fits on a line may stand on one, and the author says whether it does: where a line ended in the text between
//!   two parts of a form, it ends again. Where nothing ended and the form doesn't fit, all of its parts get a line, or,
//!   for arguments and parameters, lines are filled.
//! - What belongs to a form stands two columns further to the right, parameters that don't fit beside their function
//!   four. In brackets entries stand under the first one, or, if the author has ended the line after the opening
//!   bracket, two columns to the right, and the closing one on a line of its own.
//! - Between declarations, comments, the lines of a `let`, arms and entries one empty line may stay.
//!
//! Here is what all forms are put together from; the forms are in `forms`.

mod forms;

use super::document::{Break, Command, Comment, Document, When};
use super::shape::{Declaration, Equation, NodeId, Structure, TokenId};
use super::trivia::Trivia;
use crate::arena::Id;
use crate::limits::{Count, Meter};
use crate::token::{Token, TokenKind};
use std::ops::Range;

/// How much further to the right the parts of a form stand.
const PART: u8 = 2;
/// How much further to the right parameters stand than their function.
const PARAMETER: u8 = 4;

/// The document of a text.
pub(super) fn document(
    source: &str,
    tokens: &[Token],
    trivia: &Trivia,
    structure: &Structure,
    meter: &Meter,
) -> Document {
    let mut layout =
        Layout { source, tokens, trivia, structure, meter, document: Document::default(), commented: None };
    layout.text();
    layout.document.break_groups();
    layout.document
}

struct Layout<'l> {
    source: &'l str,
    tokens: &'l [Token],
    trivia: &'l Trivia,
    structure: &'l Structure,
    meter: &'l Meter,
    document: Document,
    /// The token whose comments are in the document already.
    commented: Option<TokenId>,
}

impl Layout<'_> {
    fn text(&mut self) {
        for (number, declaration) in self.structure.declarations.iter().enumerate() {
            let first = match declaration {
                Declaration::Import(import) => self.first(*import),
                Declaration::Equation(Equation { words, .. }) | Declaration::Data { words, .. } => words[0],
            };
            self.between_declarations(first, number > 0);
            match declaration {
                Declaration::Import(import) => self.node(*import),
                Declaration::Equation(equation) => self.equation(equation),
                Declaration::Data { words, head, equals, constructors } => self.group(|layout| {
                    layout.words(words);
                    layout.node(*head);
                    layout.constructors(*equals, constructors);
                }),
            }
        }
        if let Some(end) = self.structure.end {
            self.between_declarations(end, !self.structure.declarations.is_empty());
        }
    }

    /// What comes before the first token of a declaration, or before the end. Comments that the author has indented
    /// belong to the declaration above, if there is one, unless they stand directly above the next.
    fn between_declarations(&mut self, first: TokenId, has_above: bool) {
        self.push(Command::Break(Break { when: When::Always, is_blank: self.had_blank_line(first) }));
        let leading = self.trivia.gaps[first.index()].leading.clone();
        let is_indented = |comment: &usize| {
            let start = self.trivia.comments[*comment].span.start as usize;
            !self.source[..start].ends_with('\n') && start > 0
        };
        let mut above = if has_above { leading.clone().take_while(is_indented).count() } else { 0 };
        if above == leading.len() && self.kind(first) != TokenKind::End {
            let has_blank_line_below = |comment: usize| self.trivia.comments[comment].lines_after > 1;
            above = leading.clone().rposition(has_blank_line_below).map_or(0, |last| last + 1);
        }
        let next = leading.start + above;
        self.indented(PART, |layout| layout.comments(first, leading.start..next));
        self.comments(first, next..leading.end);
        self.commented = Some(first);
    }

    // Pieces of the stream.

    fn push(&mut self, command: Command) {
        if self.meter.node(Count::Syntax, Default::default()) {
            self.document.push(command);
        }
    }

    fn group(&mut self, inside: impl FnOnce(&mut Self)) {
        self.push(Command::Open { is_broken: false });
        inside(self);
        self.push(Command::Close);
    }

    fn indented(&mut self, by: u8, inside: impl FnOnce(&mut Self)) {
        self.push(Command::Indent(by));
        inside(self);
        self.push(Command::Dedent);
    }

    fn aligned(&mut self, inside: impl FnOnce(&mut Self)) {
        self.push(Command::Align);
        inside(self);
        self.push(Command::Dedent);
    }

    fn space(&mut self) {
        self.push(Command::Space);
    }

    /// White space before a token: a line end, if the author had one there.
    fn gap(&mut self, before: TokenId, otherwise: When) {
        let when = if self.broke(before) { When::Always } else { otherwise };
        self.push(Command::Break(Break { when, is_blank: false }));
    }

    /// As [`Layout::gap`], between parts that may have an empty line between them.
    fn gap_between(&mut self, before: TokenId, otherwise: When) {
        let when = if self.broke(before) { When::Always } else { otherwise };
        self.push(Command::Break(Break { when, is_blank: self.had_blank_line(before) }));
    }

    /// Whether a line of the text ended before a token.
    fn broke(&self, before: TokenId) -> bool {
        self.trivia.gaps[before.index()].lines > 0
    }

    fn had_blank_line(&self, before: TokenId) -> bool {
        self.trivia.gaps[before.index()].lines > 1
    }

    fn first(&self, node: NodeId) -> TokenId {
        self.structure.nodes[node].first
    }

    fn starts_on_a_line(&self, node: NodeId) -> bool {
        self.broke(self.first(node))
    }

    fn kind(&self, token: TokenId) -> TokenKind {
        self.tokens[token.index()].kind
    }

    // Tokens and comments.

    /// A token, with the comments before it and behind it.
    fn token(&mut self, token: TokenId) {
        self.comments_before(token);
        self.token_after_comments(token);
    }

    fn token_after_comments(&mut self, token: TokenId) {
        let at = token.index();
        self.push(Command::Text(self.tokens[at].span));
        if at > 0 && self.is_moved(at) {
            self.comments_behind(at);
        }
        if at + 1 < self.tokens.len() && !self.is_moved(at + 1) {
            self.comments_behind(at + 1);
        }
    }

    /// Whether comments that stand before a token at the end of a line are moved behind it: what looks like a comment
    /// on an entry or a `let` stands after its comma or its `in`.
    fn is_moved(&self, at: usize) -> bool {
        matches!(self.tokens[at].kind, TokenKind::Comma | TokenKind::Semicolon | TokenKind::In)
            && self.trivia.gaps[at].leading.is_empty()
    }

    /// The comments of a gap that end the line before it.
    fn comments_behind(&mut self, at: usize) {
        let comments = self.trivia.gaps[at].trailing.clone();
        for comment in comments.clone() {
            self.space();
            self.comment(comment, true);
        }
        if !comments.is_empty() {
            self.push(Command::Break(Break { when: When::Always, is_blank: false }));
        }
    }

    /// The comments that belong to a token, unless they are there already.
    fn comments_before(&mut self, token: TokenId) {
        if self.commented != Some(token) {
            self.comments(token, self.trivia.gaps[token.index()].leading.clone());
        }
    }

    /// Some of the comments that belong to a token.
    fn comments(&mut self, token: TokenId, leading: Range<usize>) {
        use TokenKind::{Backslash, Comma, LeftBracket, LeftParen, RightBracket, RightParen, Semicolon};
        if leading.is_empty() {
            return;
        }
        let is_line = leading.clone().any(|comment| self.trivia.comments[comment].lines_after > 0);
        let before = token.index().checked_sub(1).map(|before| self.tokens[before].kind);
        if is_line && self.broke(token) {
            self.push(Command::Break(Break { when: When::Always, is_blank: false }));
        } else if !matches!(before, Some(LeftParen | LeftBracket | Backslash)) {
            self.space();
        }
        let last = leading.end - 1;
        for comment in leading {
            let lines = self.trivia.comments[comment].lines_after;
            self.comment(comment, lines > 0);
            if lines > 0 {
                self.push(Command::Break(Break { when: When::Always, is_blank: lines > 1 }));
            } else if comment != last || !matches!(self.kind(token), RightParen | RightBracket | Comma | Semicolon) {
                self.space();
            }
        }
    }

    fn comment(&mut self, comment: usize, ends_line: bool) {
        let span = self.trivia.comments[comment].span;
        let has_lines = self.source[span.start as usize..span.end as usize].contains('\n');
        self.push(Command::Comment(Comment { span, ends_line, has_lines }));
    }
}
