//! Telling source, assembly and binary apart.

use crate::vm::binary;
use std::path::Path;

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FileKind {
    /// A program in dualvm's language, usually in a `.dual` file.
    Source,
    /// A module in text form, usually in a `.dvs` file.
    Assembly,
    /// A module in binary form, usually in a `.dvbc` file.
    Binary,
}

impl FileKind {
    /// Tells by the content, so that a renamed file is still read for what it is, and by the name's extension where the
    /// content doesn't say.
    ///
    /// Binary starts with its magic number. Assembly is a text whose first words, after comments from `;` to the end of
    /// the line, start an item of assembly: `module source`, `type t0 =`, `message m0`, `func`. In a text without any
    /// words the extension decides. Everything else is source.
    ///
    /// ```
    /// use dualvm::FileKind;
    ///
    /// assert_eq!(FileKind::detect("a.dual", b"; squares\nfunc \"square\" (real) -> (real)"), FileKind::Assembly);
    /// assert_eq!(FileKind::detect("a.dual", b"def square (x : Real) = x * x"), FileKind::Source);
    /// assert_eq!(FileKind::detect("a.dvs", b""), FileKind::Assembly);
    /// ```
    pub fn detect(file: &str, bytes: &[u8]) -> FileKind {
        let by_name = FileKind::of_name(file);
        if binary::is_binary(bytes) {
            return FileKind::Binary;
        }
        let mut words = bytes
            .split(|&byte| byte == b'\n')
            .flat_map(|line| line.split(|&byte| byte == b';').next())
            .flat_map(|line| line.split(|byte| byte.is_ascii_whitespace() || *byte == b'='))
            .filter(|word| !word.is_empty());
        let Some(first) = words.next() else {
            return by_name.unwrap_or(FileKind::Source);
        };
        let second = words.next().unwrap_or_default();
        let numbered = |letter: u8| matches!(second, [first, b'0'..=b'9', ..] if *first == letter);
        let assembly = match first {
            b"func" => true,
            b"module" => second == b"source",
            b"type" => numbered(b't'),
            b"message" => numbered(b'm'),
            _ => false,
        };
        match by_name {
            _ if assembly => FileKind::Assembly,
            // What a `.dvbc` or `.dvs` file without the marks of one holds is damaged, and is best reported as that.
            Some(FileKind::Binary) if std::str::from_utf8(bytes).is_err() => FileKind::Binary,
            Some(FileKind::Assembly) if first != b"def" && !first.starts_with(b"--") => FileKind::Assembly,
            _ => FileKind::Source,
        }
    }

    /// What a file of this name should hold, by its extension: `.dual`, `.dvs` or `.dvbc`.
    pub fn of_name(file: &str) -> Option<FileKind> {
        match Path::new(file).extension()?.to_str()? {
            "dual" => Some(FileKind::Source),
            "dvs" | "dvasm" => Some(FileKind::Assembly),
            "dvbc" => Some(FileKind::Binary),
            _ => None,
        }
    }
}
