//! Threads that stay with what they do.
//!
//! A thread of a pool that waits for others takes up whatever there is to do in its pool. In the middle of a batch's
//! item, or of a function of the host's, this would be another item, on top of the stack of the first: as many of them
//! as there are, and the host would see its own code begun again in the middle of itself. So what is called there asks
//! no other thread for help, and doesn't wait.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Whether what is called on this thread runs on this thread only.
#[inline]
pub(crate) fn is_alone() -> bool {
    ALONE.get()
}

/// Keeps what is called on this thread of a pool on it, until this is dropped.
pub(crate) struct Alone {
    before: bool,
    /// It is the thread's.
    _here: PhantomData<*const ()>,
}

impl Alone {
    /// On threads of no pool nothing changes: they take up nothing while they wait.
    #[inline]
    pub(crate) fn begin() -> Self {
        let before = ALONE.get();
        ALONE.set(before || rayon::current_thread_index().is_some());
        Alone { before, _here: PhantomData }
    }
}

impl Drop for Alone {
    #[inline]
    fn drop(&mut self) {
        ALONE.set(self.before);
    }
}
