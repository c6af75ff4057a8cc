//! What stands between the tokens of a text and is no white space: comments, and where lines end.

use crate::lexer::block_comment_end;
use crate::source::Span;
use crate::token::{Token, TokenKind};
use std::ops::Range;

/// A comment, and what comes after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comment {
    /// Its text.
    pub(super) span: Span,
    /// How many line breaks follow before the next comment or token; two stand for more.
    pub(super) lines_after: u8,
}

/// What stands before a token.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    /// Comments on the line of the token before, which end that line.
    pub(super) trailing: Range<usize>,
    /// The comments after these: they belong to the token.
    pub(super) leading: Range<usize>,
    /// How many line breaks there are before the leading comments, or else before the token; two stand for more.
    pub(super) lines: u8,
    /// In how many of the gaps up to this one lines end.
    pub(super) line_ends: u32,
}

/// All comments of a text, and what stands before each token.
#[derive(Debug)]
pub(super) struct Trivia {
    pub(super) comments: Vec<Comment>,
    pub(super) gaps: Vec<Gap>,
}

/// Looks at what is between the tokens. The text is one that the lexer accepts.
pub(super) fn trivia(text: &str, tokens: &[Token]) -> Trivia {
    let mut trivia = Trivia { comments: Vec::new(), gaps: Vec::with_capacity(tokens.len()) };
    let mut from = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    for (number, token) in tokens.iter().enumerate() {
        let mut gap = trivia.gap(text, from..token.span.start as usize, token.kind, number == 0);
        let comments = &trivia.comments[gap.trailing.start..gap.leading.end];
        let has_comment_end = comments.iter().any(|comment| comment.lines_after > 0);
        let line_ends = trivia.gaps.last().map_or(0, |last| last.line_ends);
        gap.line_ends = line_ends + u32::from(gap.lines > 0 || has_comment_end);
        trivia.gaps.push(gap);
        from = token.span.end as usize;
    }
    trivia
}

impl Trivia {
    fn gap(&mut self, text: &str, place: Range<usize>, kind: TokenKind, is_first: bool) -> Gap {
        let start = self.comments.len();
        let (mut at, mut lines) = (place.start, 0u8);
        // Line breaks before the first comment that doesn't stand on the line of the token before.
        let (mut lines_before, mut trailing) = (None, start);
        while at < place.end {
            match text.as_bytes()[at] {
                b'\n' => {
                    lines = (lines + 1).min(2);
                    at += 1;
                }
                b'-' | b'{' => {
                    let end = match text.as_bytes()[at] {
                        b'-' => text[at..place.end].find('\n').map_or(place.end, |length| at + length),
                        _ => block_comment_end(text, at).unwrap_or(place.end),
                    };
                    match self.comments[start..].last_mut() {
                        Some(last) => last.lines_after = lines,
                        None if is_first => lines_before = Some(lines),
                        None => {}
                    }
                    if lines > 0 && lines_before.is_none() {
                        (lines_before, trailing) = (Some(lines), self.comments.len());
                    }
                    self.comments.push(Comment { span: Span::new(at as u32, end as u32), lines_after: 0 });
                    (at, lines) = (end, 0);
                }
                _ => at += 1,
            }
        }
        // The end of the text ends a line.
        if kind == TokenKind::End {
            lines = lines.max(1);
        }
        if let Some(last) = self.comments[start..].last_mut() {
            last.lines_after = lines;
        }
        let end = self.comments.len();
        let (trailing, lines) = match lines_before {
            Some(before) => (trailing, before),
            // All stand on the line of the token before, which ends after them or goes on.
            None if lines > 0 => (end, lines),
            None => (start, lines),
        };
        Gap { trailing: start..trailing, leading: trailing..end, lines, line_ends: 0 }
    }
}
