//! Slabs: the memory that heaps and tapes are made of.
//!
//! A slab is [`SLAB_BYTES`] of memory at a fixed address. Slabs come from a bump arena that is never reset and go back
//! to a free list, so that a second run reuses memory that is already mapped: the first touch of a fresh page costs an
//! order of magnitude more than writing a record. Objects larger than a slab are the heap's own business.

use bumpalo::Bump;
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// The size of a slab.
pub(crate) const SLAB_BYTES: usize = 64 << 10;

/// Exclusive use of a slab's memory. Belongs to the pool that it came from and must be given back to it.
#[derive(Debug)]
pub(crate) struct Slab(NonNull<u64>);

// SAFETY: a slab is the only handle to its memory; moving it to another thread moves that right.
unsafe impl Send for Slab {}

impl Slab {
    /// The first byte, aligned to 8.
    pub(crate) fn start(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }
}

#[derive(Debug, Default)]
struct Inner {
    arena: Bump,
    free: Vec<Slab>,
}

/// Hands out slabs. Shared by all runs of an engine; must outlive every slab that it handed out.
#[derive(Debug, Default)]
pub(crate) struct SlabPool(Mutex<Inner>);

impl SlabPool {
    /// A slab, or `None` if the system has no memory. Its content is arbitrary.
    pub(crate) fn take(&self) -> Option<Slab> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slab) = inner.free.pop() {
            return Some(slab);
        }
        let layout = Layout::from_size_align(SLAB_BYTES, align_of::<u64>()).ok()?;
        inner.arena.try_alloc_layout(layout).ok().map(|start| Slab(start.cast()))
    }

    /// Gives slabs back.
    pub(crate) fn give_back(&self, slabs: impl IntoIterator<Item = Slab>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).free.extend(slabs);
    }
}
