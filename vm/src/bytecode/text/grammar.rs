//! What printer and parser agree on.

use crate::bytecode::isa::Role;

/// What stands before an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Separator {
    Nothing,
    Comma,
    Arrow,
}

impl Separator {
    /// The separator as the printer writes it.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Separator::Nothing => " ",
            Separator::Comma => ", ",
            Separator::Arrow => " -> ",
        }
    }
}

/// What stands before the operand at a position of an instruction: `call f1 (r2, p0) -> (r3)`.
pub(super) fn separator(index: usize, role: Role) -> Separator {
    match role {
        _ if index == 0 => Separator::Nothing,
        Role::Uses => Separator::Nothing,
        Role::Defs => Separator::Arrow,
        _ => Separator::Comma,
    }
}

/// Whether a character may start a word.
pub(super) fn starts_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Whether a character may stand in a word after the first.
pub(super) fn continues_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '\''
}

/// Whether a name needs no quotes.
pub(super) fn is_word(name: &str) -> bool {
    name.starts_with(starts_word) && name.chars().all(continues_word)
}
