//! Bytes of a text, and the editor's lines and columns, which count units of UTF-16 from 0.

use lsp_types::{Position, Range};

/// The lines of a text.
#[derive(Debug)]
pub(super) struct Lines {
    /// Where each line begins.
    starts: Vec<usize>,
    is_ascii: bool,
}

impl Lines {
    /// A line ends with `\n`, `\r\n` or `\r`.
    pub(super) fn of(text: &str) -> Lines {
        let bytes = text.as_bytes();
        let ends = |at: &usize| match bytes[*at] {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        let starts = std::iter::once(0).chain((0..bytes.len()).filter(ends).map(|at| at + 1)).collect();
        Lines { starts, is_ascii: text.is_ascii() }
    }

    /// The byte at a position; of one that isn't there, the nearest before it.
    pub(super) fn offset(&self, text: &str, position: Position) -> u32 {
        let line = position.line as usize;
        let Some(&start) = self.starts.get(line) else { return text.len() as u32 };
        let end = self.starts.get(line + 1).copied().unwrap_or(text.len());
        let content = text[start..end].trim_end_matches(['\n', '\r']);
        let mut units = 0;
        let passed = content.char_indices().find(|(_, c)| {
            units += c.len_utf16();
            units > position.character as usize
        });
        (start + passed.map_or(content.len(), |(at, _)| at)) as u32
    }

    /// The position of a byte; of one inside of a character, that of the character.
    pub(super) fn position(&self, text: &str, offset: u32) -> Position {
        let offset = text.floor_char_boundary(offset as usize);
        let line = self.starts.partition_point(|&start| start <= offset) - 1;
        let start = self.starts[line];
        let character = match self.is_ascii {
            true => offset - start,
            false => text[start..offset].chars().map(char::len_utf16).sum(),
        };
        Position::new(line as u32, character as u32)
    }

    pub(super) fn range(&self, text: &str, span: dualvm::frontend::Span) -> Range {
        Range::new(self.position(text, span.start), self.position(text, span.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_units_of_utf16() {
        let text = "aé𝑥b\r\nsecond\rthird\n";
        let lines = Lines::of(text);
        for (line, character, offset) in
            [(0, 0, 0), (0, 2, 3), (0, 4, 7), (0, 5, 8), (1, 0, 10), (2, 5, 22), (3, 0, 23)]
        {
            let position = Position::new(line, character);
            assert_eq!(lines.offset(text, position), offset, "{line}:{character}");
            assert_eq!(lines.position(text, offset), position, "{offset}");
        }
        // In the middle of a pair, after the end of a line, after the last line.
        assert_eq!(lines.offset(text, Position::new(0, 3)), 3);
        assert_eq!(lines.offset(text, Position::new(0, 99)), 8);
        assert_eq!(lines.offset(text, Position::new(u32::MAX, u32::MAX)), 23);
        assert_eq!(lines.position(text, 99), Position::new(3, 0));
        assert_eq!(Lines::of("").offset("", Position::new(0, 0)), 0);
    }
}
