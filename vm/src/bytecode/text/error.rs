//! Errors of the parser, and how they show the place.

use std::fmt;

/// What is wrong with a text, and where.
///
/// Its display shows the source line with a caret:
///
/// ```text
/// error: expected a real register, found `i0`
///  --> spring.dvs:12:7
///    |
/// 12 |   add i0, r1, r2
///    |       ^^
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TextError {
    /// The file, as the caller named it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What was expected and what was found.
    pub message: String,
    /// What the author may have meant.
    pub help: Option<String>,
    /// The source line, or the part of it around the place.
    excerpt: String,
    /// Characters of the excerpt before the caret, and how many carets.
    caret: (usize, usize),
}

/// Characters of a source line that an error shows on either side.
const EXCERPT_CHARS: usize = 80;

impl TextError {
    /// An error at a byte range of a text.
    pub(super) fn new(file: &str, text: &str, lines: &Lines, at: (usize, usize), message: String) -> Self {
        let (start, end) = at;
        let (line, line_text) = lines.line(text, start);
        let before = text[lines.starts[line]..start].chars().count();
        let shown_from = before.saturating_sub(EXCERPT_CHARS);
        let excerpt: String = line_text
            .chars()
            .skip(shown_from)
            .take(2 * EXCERPT_CHARS)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let room = (excerpt.chars().count() + shown_from).saturating_sub(before);
        let width = text[start..end].chars().take(room).count().max(1);
        TextError {
            file: file.to_owned(),
            line: line as u32 + 1,
            column: before as u32 + 1,
            message,
            help: None,
            excerpt,
            caret: (before - shown_from, width),
        }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line.to_string();
        let margin = line.len();
        writeln!(f, "error: {}", self.message)?;
        writeln!(f, "{:margin$}--> {}:{}:{}", "", self.file, self.line, self.column)?;
        writeln!(f, "{:margin$} |", "")?;
        writeln!(f, "{line} | {}", self.excerpt)?;
        write!(f, "{:margin$} | {:indent$}{:^<width$}", "", "", "", indent = self.caret.0, width = self.caret.1)?;
        match &self.help {
            Some(help) => write!(f, "\n{:margin$} = help: {help}", ""),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TextError {}

/// Where the lines of a text start.
pub(super) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        let after_newlines = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1);
        Lines { starts: std::iter::once(0).chain(after_newlines).collect() }
    }

    /// The line, counted from 0, that a byte is in, and its text.
    fn line<'t>(&self, text: &'t str, at: usize) -> (usize, &'t str) {
        let line = self.starts.partition_point(|&start| start <= at) - 1;
        let end = self.starts.get(line + 1).map_or(text.len(), |&next| next - 1);
        (line, &text[self.starts[line]..end])
    }
}
