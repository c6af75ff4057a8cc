//! A strip: entries of a loop's iterations that fill a slab. The rest goes on in the next one.
//!
//! ```text
//! entries of the iterations │ entries here (4 bytes) │ trailer: 0
//! ```

use super::{Kind, TRAILER_BYTES, Writer};
use crate::word::Slot;

/// Bytes of a strip but its entries.
pub const TAIL_BYTES: usize = 4 + TRAILER_BYTES;

/// Writes what follows the entries.
///
/// # Safety
/// There is room for [`TAIL_BYTES`] from `start` on.
pub(crate) unsafe fn write(start: *mut u8, entries: u32) {
    // SAFETY: promised by the caller.
    let mut writer = unsafe { Writer::new(start) };
    writer.narrow(entries);
    writer.trailer(Kind::Strip, Slot::NONE);
}

/// How many entries a strip has, and where they end.
///
/// # Safety
/// `trailer` is that of a strip.
pub(crate) unsafe fn read(trailer: *const u32) -> (u32, *const u8) {
    // SAFETY: promised by the caller: the number of entries stands before the trailer, the entries before that.
    unsafe {
        let end = trailer.sub(1);
        (end.read_unaligned(), end.cast())
    }
}
