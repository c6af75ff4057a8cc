//! Places in a stream.

use std::fmt;

/// The number of an instruction in a stream. Instructions of the bytecode have numbers of their own, which
/// [`Stream::origin`](super::Stream::origin) leads to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Position(pub u32);

impl Position {
    /// The place in the list of instructions.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The positions from this one to `end`, which is not included.
    pub fn to(self, end: Position) -> impl Iterator<Item = Position> {
        (self.0..end.0).map(Position)
    }

    /// The position of the next instruction.
    pub const fn next(self) -> Position {
        Position(self.0 + 1)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
