//! The derivative word of a dual real.
//!
//! While recording, a word names the innermost derivative level that the number depends on, and the slot under which
//! its adjoint is collected on that level's tape. Word 0 is a constant. The level stands in the upper 8 bits, counted
//! from 0 for the outermost, so that with one level open the word is just the slot.

/// A derivative word.
pub(crate) type Word = u64;

/// The word of a constant.
pub(crate) const CONSTANT: Word = 0;

/// The slot of a word of the only open level.
pub(crate) fn slot(word: Word) -> u32 {
    debug_assert!(word >> 32 == 0, "one level is open");
    word as u32
}
