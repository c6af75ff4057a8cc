//! Source texts and places in them: byte spans, lines and columns. Knows nothing of the language.

use dualvm_vm::module::SourcePlace;

/// All texts of a program together may be this long: offsets are 32 bits wide, and those of the prelude come last.
pub(crate) const SOURCE_BYTES_MAX: usize = 1 << 31;

/// A range of bytes of a program's texts, which stand one after the other: see [`crate::Diagnostics::file`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl Span {
    /// The span of the bytes `start..end`.
    pub fn new(start: u32, end: u32) -> Self {
        Span { start, end }
    }

    /// The smallest span that covers both.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A file's name and text, with the tables that turn offsets into lines and columns in logarithmic time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    name: String,
    text: String,
    line_starts: Vec<u32>,
    /// The bytes that continue a character, so that columns count characters.
    continuation_bytes: Vec<u32>,
}

impl Source {
    /// Indexes a text. Offsets are 32 bits wide: a longer text is cut, and the lexer refuses it.
    pub fn new(name: &str, text: &str) -> Self {
        let line_starts = [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at as u32 + 1)).collect();
        let continues = |&(_, byte): &(u32, u8)| byte & 0xc0 == 0x80;
        let continuation_bytes = match text.is_ascii() {
            true => Vec::new(),
            false => (0u32..).zip(text.bytes()).filter(continues).map(|(at, _)| at).collect(),
        };
        Source { name: name.to_owned(), text: text.to_owned(), line_starts, continuation_bytes }
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line and column in characters of a byte, both from 1.
    pub fn line_and_column(&self, offset: u32) -> (u32, u32) {
        let line = self.line_starts.partition_point(|&start| start <= offset);
        let start = self.line_starts[line - 1];
        let before = |limit: u32| self.continuation_bytes.partition_point(|&at| at < limit) as u32;
        (line as u32, offset - start - (before(offset) - before(start)) + 1)
    }

    /// The byte range of the lines that a span touches, without the last line's end, and the first line's number.
    pub(crate) fn lines_around(&self, span: Span) -> (std::ops::Range<usize>, u32) {
        let first = self.line_starts.partition_point(|&start| start <= span.start);
        let start = self.line_starts[first - 1] as usize;
        let end = self.text[span.end as usize..].find('\n').map_or(self.text.len(), |at| span.end as usize + at);
        (start..end, first as u32)
    }
}

/// The files of a program, the main one first. Their texts have the offsets from 0, with one byte between two of them;
/// those of the prelude come after them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct SourceMap {
    files: Vec<File>,
}

/// A file of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct File {
    /// The offset of its first byte.
    pub(crate) start: u32,
    /// Its text.
    pub(crate) source: Source,
    /// Who has written it.
    pub(crate) author: Author,
}

/// Who has written a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Author {
    /// The program's author.
    Program,
    /// The language's: it belongs to the library.
    Library,
    /// The compiler: it is the interface of a module of bytecode.
    Compiler,
}

impl File {
    /// Whether it is one of the program's own.
    pub(crate) fn is_own(&self) -> bool {
        self.author == Author::Program
    }
}

impl SourceMap {
    /// A program of one file.
    pub(crate) fn of(source: Source) -> Self {
        SourceMap { files: vec![File { start: 0, source, author: Author::Program }] }
    }

    /// Adds a file and gives its number; `None` if all texts together would be too long.
    pub(crate) fn add(&mut self, source: Source, author: Author) -> Option<usize> {
        let start = self.prelude_start();
        if start as usize + source.text.len() > SOURCE_BYTES_MAX {
            return None;
        }
        self.files.push(File { start, source, author });
        Some(self.files.len() - 1)
    }

    /// The files in the order of their numbers.
    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    /// Where the offsets of the prelude start, which is compiled together with the texts.
    pub(crate) fn prelude_start(&self) -> u32 {
        self.files.last().map_or(0, |last| last.start + last.source.text.len().min(SOURCE_BYTES_MAX) as u32 + 1)
    }

    /// Whether a place is in one of the files, and not in the prelude.
    pub(crate) fn contains(&self, span: Span) -> bool {
        span.start < self.prelude_start()
    }

    /// Whether a place is in what the program's author has written: not in the prelude or another part of the library.
    pub(crate) fn is_own(&self, span: Span) -> bool {
        self.contains(span) && self.files[self.number(span)].is_own()
    }

    /// Whether a span is in the interface of a module of bytecode.
    pub(crate) fn is_of_interface(&self, span: Span) -> bool {
        self.contains(span) && self.files[self.number(span)].author == Author::Compiler
    }

    /// The number of the file that a place is in.
    pub(crate) fn number(&self, span: Span) -> usize {
        self.files.partition_point(|file| file.start <= span.start).saturating_sub(1)
    }

    /// The file that a place is in, and the place counted from its start.
    pub(crate) fn locate(&self, span: Span) -> (&Source, Span) {
        let File { start, source, .. } = &self.files[self.number(span)];
        (source, Span::new(span.start - start, span.end.saturating_sub(*start)))
    }

    /// What stands at a place, if messages can quote it: it is of the program, short and on one line, and no
    /// parenthesis is cut off.
    pub(crate) fn excerpt(&self, span: Span) -> Option<&str> {
        const BYTES_MAX: usize = 40;
        let (source, span) = self.contains(span).then(|| self.locate(span))?;
        let text = source.text.get(span.start as usize..span.end as usize)?;
        let mut open = 0;
        let closes_nothing = text.bytes().take(BYTES_MAX + 1).all(|byte| {
            open += i32::from(byte == b'(') - i32::from(byte == b')');
            open >= 0
        });
        (text.len() <= BYTES_MAX && !text.contains('\n') && closes_nothing && open == 0).then_some(text)
    }

    /// File, line and column of a place.
    pub(crate) fn source_place(&self, span: Span) -> SourcePlace {
        let (source, span) = self.locate(span);
        let (line, column) = source.line_and_column(span.start);
        SourcePlace { file: source.name().into(), line, column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let source = Source::new("t", "ab\nαβ c\n");
        assert_eq!(source.line_and_column(0), (1, 1));
        assert_eq!(source.line_and_column(3), (2, 1));
        assert_eq!(source.line_and_column(5), (2, 2));
        assert_eq!(source.line_and_column(8), (2, 4));
        assert_eq!(source.line_and_column(10), (3, 1));
    }

    #[test]
    fn lines_around_a_span_are_whole() {
        let source = Source::new("t", "one\ntwo\nthree");
        assert_eq!(source.lines_around(Span::new(5, 9)), (4..13, 2));
    }
}
