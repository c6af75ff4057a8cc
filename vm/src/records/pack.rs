//! A pack: consecutive slots for reals that had others, as the elements of a new array.
//!
//! ```text
//! slots of the elements (4 bytes each) │ count (4) │ trailer
//! ```

use super::{Kind, TRAILER_BYTES, Writer};
use crate::word::Slot;

/// A record has at most this many elements; longer arrays take several.
pub(crate) const ELEMENTS_MAX: usize = 4096;

/// The size of a record.
pub(crate) const fn bytes(count: usize) -> usize {
    4 * count + 4 + TRAILER_BYTES
}

/// Instructions that the sweep runs.
pub(crate) const fn sweep_cost(count: usize) -> u32 {
    count as u32
}

/// Writes a record: the elements with these slots get those from `first` on.
///
/// # Safety
/// There is room for [`bytes`] from `start` on.
pub(crate) unsafe fn write(start: *mut u8, slots: impl ExactSizeIterator<Item = Slot>, first: Slot) {
    let count = slots.len() as u32;
    // SAFETY: promised by the caller.
    let mut writer = unsafe { Writer::new(start) };
    slots.for_each(|slot| writer.slot(slot));
    writer.narrow(count);
    writer.trailer(Kind::Pack, first);
}

/// What a record says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pack {
    pub(crate) count: usize,
    /// The slots of the elements, not aligned. The record starts here.
    pub(crate) slots: *const Slot,
}

impl Pack {
    /// # Safety
    /// `trailer` is that of a pack.
    pub(crate) unsafe fn read(trailer: *const u32) -> Pack {
        // SAFETY: the count stands before the trailer, the elements before the count.
        unsafe {
            let count = trailer.sub(1).read_unaligned() as usize;
            Pack { count, slots: trailer.sub(1 + count).cast() }
        }
    }
}
