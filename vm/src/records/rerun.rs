//! A real that comes from a run of its own, whose tape is swept when the record is: what a sweep inside of a sweep
//! looks like, for tests. No kind outside of them does that as yet.
//!
//! ```text
//! the run (8 bytes) │ slot of the real that it was given (4) │ trailer: slot of its result
//! ```

use super::{Kind, TRAILER_BYTES, Writer};
use crate::tape::TaskNode;
use crate::word::Slot;

/// The size of a record.
pub(crate) const BYTES: usize = 8 + 4 + TRAILER_BYTES;

/// A run of its own, which outlives the sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    pub(crate) tree: *mut TaskNode,
    /// The slots of what it was given and of its result.
    pub(crate) input: Slot,
    pub(crate) output: Slot,
}

/// Writes a record.
///
/// # Safety
/// There is room for [`BYTES`] from `start` on.
pub(crate) unsafe fn write(start: *mut u8, inner: *const Inner, slot: Slot, result: Slot) {
    // SAFETY: promised by the caller.
    let mut writer = unsafe { Writer::new(start) };
    writer.wide(inner.expose_provenance() as u64);
    writer.slot(slot);
    writer.trailer(Kind::Rerun, result);
}

/// What a record says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rerun {
    pub(crate) inner: Inner,
    /// The slot of the real.
    pub(crate) slot: Slot,
    /// Where the record begins.
    pub(crate) start: *const u8,
}

impl Rerun {
    /// # Safety
    /// `trailer` is that of such a record, whose run is there.
    pub(crate) unsafe fn read(trailer: *const u32) -> Rerun {
        // SAFETY: promised by the caller.
        unsafe {
            let slot = trailer.sub(1).cast::<Slot>();
            let start = slot.cast::<u64>().sub(1);
            let inner: *const Inner = std::ptr::with_exposed_provenance(start.read_unaligned() as usize);
            Rerun { inner: *inner, slot: slot.read_unaligned(), start: start.cast() }
        }
    }
}
