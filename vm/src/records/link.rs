//! How the stretches of a task's records hang together. A stretch begins with a record that leads to the one before it:
//! a link, which holds the address of its end (null at the beginning of the task); a fork, which holds that of a
//! [`ForkNode`](crate::tape::ForkNode): between the two stretches, other tasks ran; or a rerun, which holds that of a
//! [`RerunNode`](crate::tape::RerunNode): between the two stretches, a derivative operator ran.
//!
//! ```text
//! address (8 bytes) │ trailer
//! ```

use super::{Kind, TRAILER_BYTES, Writer};
use crate::word::Slot;

/// The size of a record.
pub(crate) const BYTES: usize = 8 + TRAILER_BYTES;

/// Writes a link, a fork or a rerun.
///
/// # Safety
/// There is room for [`BYTES`] from `start` on.
pub(crate) unsafe fn write(start: *mut u8, kind: Kind, address: *const u8) {
    debug_assert!(matches!(kind, Kind::Link | Kind::Fork | Kind::Rerun));
    // SAFETY: promised by the caller.
    let mut writer = unsafe { Writer::new(start) };
    writer.wide(address.expose_provenance() as u64);
    writer.trailer(kind, Slot::NONE);
}

/// The address that a record holds.
///
/// # Safety
/// `trailer` is that of a link, a fork or a rerun.
pub(crate) unsafe fn read<T>(trailer: *const u32) -> *const T {
    // SAFETY: promised by the caller: the address stands before the trailer.
    let address = unsafe { trailer.cast::<u64>().sub(1).read_unaligned() };
    std::ptr::with_exposed_provenance(address as usize)
}
