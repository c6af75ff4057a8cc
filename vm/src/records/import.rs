//! Imports: reals of other tasks that a task uses. One slot, a range of slots of an array, or what a loop reads of one,
//! whose record then stands before that of the import.
//!
//! ```text
//! import                     owner (8 bytes) │ the owner's slot (4) │ trailer: slot
//! import of a range, or for a loop   owner (8) │ the owner's first slot (4) │ count (4) │ trailer: first slot
//! scattered reads of a loop  owner (8) │ the array's first slot (4) │ its number in the loop's record (4) │ trailer: 0
//! ```

use super::{Kind, TRAILER_BYTES, Writer};
use crate::word::{Owner, Slot};

/// The size of the record of a single slot.
pub(crate) const SINGLE_BYTES: usize = 8 + 4 + TRAILER_BYTES;
/// The size of all others.
pub(crate) const RANGE_BYTES: usize = 8 + 4 + 4 + TRAILER_BYTES;

/// Writes the import of a slot.
///
/// # Safety
/// There is room for [`SINGLE_BYTES`] from `start` on.
pub(crate) unsafe fn write_single(start: *mut u8, owner: Owner, slot: Slot, local: Slot) {
    // SAFETY: promised by the caller.
    let mut writer = unsafe { Writer::new(start) };
    writer.owner(owner);
    writer.slot(slot);
    writer.trailer(Kind::Import, local);
}

/// Writes an import of another kind: the owner, its first slot, and what the kind makes of the two other numbers.
///
/// # Safety
/// There is room for [`RANGE_BYTES`] from `start` on.
pub(crate) unsafe fn write_range(start: *mut u8, kind: Kind, owner: Owner, (first, number): (Slot, u32), local: Slot) {
    debug_assert!(matches!(kind, Kind::ImportRange | Kind::LoopImport | Kind::LoopScatter));
    // SAFETY: promised by the caller.
    let mut writer = unsafe { Writer::new(start) };
    writer.owner(owner);
    writer.slot(first);
    writer.narrow(number);
    writer.trailer(kind, local);
}

/// What a record says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Import {
    pub(crate) owner: Owner,
    /// The owner's slot, or the first one.
    pub(crate) slot: Slot,
    /// Of a range, how many there are; of scattered reads, the array's number; of a single slot, 1.
    pub(crate) number: u32,
    /// Where the record begins.
    pub(crate) start: *const u8,
}

impl Import {
    /// # Safety
    /// `trailer` is that of the import of a single slot.
    pub(crate) unsafe fn read_single(trailer: *const u32) -> Self {
        // SAFETY: promised by the caller: owner and slot stand before the trailer.
        unsafe {
            let at: *const Slot = trailer.sub(1).cast();
            let start = at.cast::<Owner>().sub(1);
            Import { owner: start.read_unaligned(), slot: at.read_unaligned(), number: 1, start: start.cast() }
        }
    }

    /// # Safety
    /// `trailer` is that of an import of another kind.
    pub(crate) unsafe fn read_range(trailer: *const u32) -> Self {
        // SAFETY: promised by the caller: owner and two numbers stand before the trailer.
        unsafe {
            let at: *const Slot = trailer.sub(2).cast();
            let start = at.cast::<Owner>().sub(1);
            let number = trailer.sub(1).read_unaligned();
            Import { owner: start.read_unaligned(), slot: at.read_unaligned(), number, start: start.cast() }
        }
    }
}
