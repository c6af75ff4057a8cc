//! The product of a real with the first element of a constant array: what a kind of record that refers to an object
//! looks like, for tests. No kind outside of them does as yet.
//!
//! ```text
//! cell of the array (8 bytes) │ slot of the real (4) │ trailer: slot of the product
//! ```

use super::{Kind, TRAILER_BYTES, Writer};
use crate::memory::heap::{ARRAY_HEADER, Ref};
use crate::word::Slot;

/// The size of a record.
pub(crate) const BYTES: usize = 8 + 4 + TRAILER_BYTES;

/// Writes a record.
///
/// # Safety
/// There is room for [`BYTES`] from `start` on; the cell is one of the tape's.
pub(crate) unsafe fn write(start: *mut u8, cell: *const Ref, slot: Slot, product: Slot) {
    // SAFETY: promised by the caller.
    let mut writer = unsafe { Writer::new(start) };
    writer.wide(cell.expose_provenance() as u64);
    writer.slot(slot);
    writer.trailer(Kind::Scale, product);
}

/// What a record says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The slot of the real.
    pub(crate) slot: Slot,
    /// The partial: the array's first element.
    pub(crate) factor: f64,
    /// Where the record begins.
    pub(crate) start: *const u8,
}

impl Scale {
    /// # Safety
    /// `trailer` is that of such a record, whose tape is there.
    pub(crate) unsafe fn read(trailer: *const u32) -> Scale {
        // SAFETY: promised by the caller: the array is where its cell says.
        unsafe {
            let slot: *const Slot = trailer.sub(1).cast();
            let start = slot.cast::<u64>().sub(1);
            let cell: *const Ref = std::ptr::with_exposed_provenance(start.read_unaligned() as usize);
            let factor = (*cell).add(ARRAY_HEADER).cast::<f64>().read();
            Scale { slot: slot.read_unaligned(), factor, start: start.cast() }
        }
    }
}
