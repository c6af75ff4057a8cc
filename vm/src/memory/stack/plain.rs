//! Stacks that need nothing of machine and system, for tools that can't follow what `system` does: Miri, which has
//! neither assembly nor address space to spare, and the thread sanitizer, which knows the stacks of threads only.
//!
//! Banks are ordinary memory. Native stacks are the thread's own: deep chains of forks need threads with large stacks,
//! and there is no native code.

use super::{Direction, OwnStack};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr;

/// Enough for what tests do.
const BANK_BYTES: usize = super::EXTENT_MIN;
const LAYOUT: Layout = match Layout::from_size_align(BANK_BYTES, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!("pages are aligned to their size"),
};

/// Memory of a bank, or nothing for a native stack.
#[derive(Debug)]
pub(super) struct Region {
    start: *mut u8,
}

impl Region {
    pub(super) const BYTES_MAX: usize = BANK_BYTES;

    pub(super) fn open(_: usize, direction: Direction) -> Option<Region> {
        if direction == Direction::Downwards {
            return Some(Region { start: ptr::null_mut() });
        }
        // SAFETY: the layout has a size.
        let start = unsafe { alloc_zeroed(LAYOUT) };
        (!start.is_null()).then_some(Region { start })
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    /// A native stack pretends to be all of the address space, so that it holds every frame.
    pub(super) fn bytes(&self) -> usize {
        if self.start.is_null() { usize::MAX } else { BANK_BYTES }
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes()
    }

    pub(super) fn grow(&mut self, least: usize, _: usize) -> bool {
        least <= self.bytes()
    }

    pub(super) fn shrink(&mut self) {}
}

impl Drop for Region {
    fn drop(&mut self) {
        if !self.start.is_null() {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.start, LAYOUT) };
        }
    }
}

/// Nothing is kept: nothing grows.
pub(super) fn is_much_kept() -> bool {
    false
}

pub(super) fn is_scarce() -> bool {
    false
}

/// Runs what takes memory. Nobody limits address space here.
pub(super) fn leaving_some<R>(take: impl FnOnce() -> Option<R>) -> Option<R> {
    take()
}

/// A frame at the top of the stack that [`Region`] pretends to be: there is always room below.
pub(crate) fn stack_pointer() -> usize {
    usize::MAX - 1
}

/// Nobody knows: see [`stack_pointer`].
pub(crate) fn own_stack() -> Option<OwnStack> {
    None
}

/// Runs `body`.
///
/// # Safety
/// None is needed; it is unsafe where there is a stack to leave.
pub(crate) unsafe fn run_outside<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// Runs `body`.
///
/// # Safety
/// None is needed; it is unsafe where there is a stack to run on.
pub(super) unsafe fn run_on<R>(_: *mut u8, _: usize, body: impl FnOnce() -> R) -> R {
    body()
}
