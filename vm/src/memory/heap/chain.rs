//! Chains: objects of which each is the last field of the one before, while the last one's is still open.
//!
//! A chain that is not empty is an object with two references, to the first cell and to the last one, and an integer
//! that says where the last one's open field is. The empty chain is the null reference: most recursions that end at
//! once make no object. A cell's open field is null; nobody reads it, because the cells are reached through the chain
//! only until that is finished. From then on its reference to the last cell is null.
//!
//! What is written to a cell is younger than the cell. That needs no care: all references of what moves are followed,
//! and a chain stays in the task that has begun it, so that its cells are above the task's floor.

use super::object::{Fields, OBJECT_HEADER, OWNER, Ref, object_header};

/// Words of a chain's object.
pub const CHAIN_WORDS: usize = OBJECT_HEADER + 3;
/// Index of the open field's place, in bytes from the start of the last cell.
pub const CHAIN_OPEN: usize = OBJECT_HEADER;
/// Index of the first cell.
pub const CHAIN_FIRST: usize = OBJECT_HEADER + 1;
/// Index of the last cell; null if the chain is finished.
pub const CHAIN_LAST: usize = OBJECT_HEADER + 2;

/// Word 0 of a chain's object.
pub fn chain_header() -> u64 {
    object_header(Fields { reals: 0, ints: 1, refs: 2 }, 0)
}

/// How many words are to be allocated at once for a cell of so many words: those of the chain too if it begins.
///
/// # Safety
/// `chain` is a chain.
pub(crate) unsafe fn words_to_push(chain: Ref, cell_words: usize) -> usize {
    if chain.is_null() { cell_words + CHAIN_WORDS } else { cell_words }
}

/// Whether a chain is finished.
///
/// # Safety
/// `chain` is a chain.
pub(crate) unsafe fn is_finished(chain: Ref) -> bool {
    // SAFETY: promised by the caller; the empty chain is null.
    unsafe { !chain.is_null() && (*chain.add(CHAIN_LAST).cast::<Ref>()).is_null() }
}

/// Appends a cell to a chain and returns the chain.
///
/// # Safety
/// `chain` is a chain that is not finished. `cell` is an object of `words` words but for its last field, which is the
/// last word; as much memory was allocated with it as [`words_to_push`] says.
pub(crate) unsafe fn push(chain: Ref, cell: Ref, words: usize) -> Ref {
    // SAFETY: promised by the caller.
    unsafe {
        if !chain.is_null() {
            link(chain, cell, words - 1, false);
            return chain;
        }
        let new = cell.add(words);
        *new = chain_header();
        *new.add(OWNER) = 0;
        link(new, cell, words - 1, true);
        new
    }
}

/// A chain's object that has no cell yet, while its first one is made.
///
/// # Safety
/// There is room for it, with its header.
pub(crate) unsafe fn prepare(new: Ref) {
    // SAFETY: promised by the caller.
    unsafe {
        *new.add(CHAIN_FIRST).cast::<Ref>() = std::ptr::null_mut();
        *new.add(CHAIN_LAST).cast::<Ref>() = std::ptr::null_mut();
    }
}

/// Appends a cell to a chain's object, or makes it the first one. Its last field, at the index `open`, becomes the open
/// one.
///
/// # Safety
/// `chain` has an open field, or no cell yet. `cell` is complete but for its last field.
pub(crate) unsafe fn link(chain: Ref, cell: Ref, open: usize, is_first: bool) {
    // SAFETY: promised by the caller.
    unsafe {
        *cell.add(open).cast::<Ref>() = std::ptr::null_mut();
        if is_first {
            *chain.add(CHAIN_FIRST).cast::<Ref>() = cell;
        } else {
            *open_field(chain) = cell;
        }
        *chain.add(CHAIN_OPEN) = 8 * open as u64;
        *chain.add(CHAIN_LAST).cast::<Ref>() = cell;
    }
}

/// Finishes a chain with the object that becomes the last cell's last field, and returns the first object.
///
/// # Safety
/// `chain` is a chain that is not finished.
pub(crate) unsafe fn finish(chain: Ref, tail: Ref) -> Ref {
    if chain.is_null() {
        return tail;
    }
    // SAFETY: promised by the caller.
    unsafe {
        *open_field(chain) = tail;
        let first = *chain.add(CHAIN_FIRST).cast::<Ref>();
        // Whoever still holds the chain must not keep its objects alive.
        *chain.add(CHAIN_FIRST).cast::<Ref>() = std::ptr::null_mut();
        *chain.add(CHAIN_LAST).cast::<Ref>() = std::ptr::null_mut();
        first
    }
}

/// The last cell's open field.
///
/// # Safety
/// `chain` is a chain that is neither empty nor finished.
unsafe fn open_field(chain: Ref) -> *mut Ref {
    // SAFETY: promised by the caller.
    unsafe { (*chain.add(CHAIN_LAST).cast::<Ref>()).byte_add(*chain.add(CHAIN_OPEN) as usize).cast() }
}
