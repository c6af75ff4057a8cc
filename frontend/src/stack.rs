//! Recursion over trees of bounded height, on a stack that grows when it must.

use std::cell::Cell;

/// Left on the stack when a new piece is taken; no function of the compiler needs more between two calls of [`grown`].
const RED_ZONE_BYTES: usize = 128 * 1024;
const PIECE_BYTES: usize = 2 * 1024 * 1024;

/// What a compilation may take of its caller's stack before anyone asks how much of it there is. To ask takes as long
/// as to compile a small program: on the main thread of a process, Linux only tells by a list of all its memory.
const TAKEN_BYTES: usize = 64 * 1024;

thread_local! {
    /// The stack's address where the compilation of this thread began; 0 if there is none.
    static BEGAN: Cell<usize> = const { Cell::new(0) };
}

/// Runs a compilation: at first its recursion takes the stack that is there.
pub(crate) fn on_callers_stack<T>(work: impl FnOnce() -> T) -> T {
    /// Goes back to what was before, whatever happens.
    struct Restored(usize);
    impl Drop for Restored {
        fn drop(&mut self) {
            BEGAN.set(self.0);
        }
    }
    let _restored = Restored(BEGAN.replace(address_here()));
    work()
}

/// Runs `work` with enough stack for one more level of recursion.
pub(crate) fn grown<T>(work: impl FnOnce() -> T) -> T {
    // Stacks grow downwards. Any other place, on a piece that was taken, is too far away.
    if BEGAN.get().wrapping_sub(address_here()) < TAKEN_BYTES {
        return work();
    }
    stacker::maybe_grow(RED_ZONE_BYTES, PIECE_BYTES, work)
}

/// Where the caller's frame is on the stack, more or less.
#[inline(always)]
fn address_here() -> usize {
    let here = 0u8;
    std::ptr::from_ref(&here).addr()
}
