//! What a host function has left of a call for its derivative, as long as the tape has it.

use super::{Saved, drop_guarded};
use std::ptr::NonNull;

/// What was saved, from a box. Records keep pointers to it, which a box that moves would make invalid. It is made where
/// the host's code runs, and wherever it goes in the middle of a run, what the host does then is guarded.
#[derive(Debug)]
pub(crate) struct SavedCell(NonNull<Saved>);

// SAFETY: it owns what it leads to, which may be sent.
unsafe impl Send for SavedCell {}

impl SavedCell {
    pub(crate) fn new(saved: Saved) -> Self {
        SavedCell(NonNull::from(Box::leak(Box::new(saved))))
    }

    /// Where it is, as long as this cell is there.
    pub(crate) fn place(&self) -> *const Saved {
        self.0.as_ptr()
    }
}

impl Drop for SavedCell {
    fn drop(&mut self) {
        // SAFETY: it came out of a box, and the tape whose record had a pointer to it is gone.
        drop_guarded(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
