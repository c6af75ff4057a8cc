//! Runs in the middle of others: those that the host begins where a run has called it.
//!
//! All code of the host's stands on the thread's own stack, below what has called the run, and so does what it calls in
//! turn. A run's own stacks grow and have their limits; the thread's has an end that nobody knows of, beyond which the
//! process ends. So runs nest up to a bound, as far as there is stack.

use crate::memory::stack::own_stack;
use crate::trap::Limit;
use std::cell::Cell;
use std::marker::PhantomData;

/// How many runs of one thread may be in the middle of each other, below the outermost one. The same everywhere, if
/// what the host has on the stack between two of them is small.
const NESTED_RUNS_MAX: usize = 64;

/// What has to be left of the thread's own stack for a run to begin in the middle of another one, if that is known: for
/// the machine, and for what the host does until it calls the machine again.
const LEFT_MIN: usize = 256 << 10;

thread_local! {
    /// How many calls of the host's code the thread is in.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// Code of the host's that this thread runs in the middle of a run, until this is dropped.
pub(crate) struct InHost {
    /// It is the thread's.
    _here: PhantomData<*const ()>,
}

impl InHost {
    #[inline]
    pub(crate) fn begin() -> Self {
        CALLS.set(CALLS.get() + 1);
        InHost { _here: PhantomData }
    }
}

impl Drop for InHost {
    #[inline]
    fn drop(&mut self) {
        CALLS.set(CALLS.get() - 1);
    }
}

/// Whether a run may begin on this thread.
#[inline]
pub(super) fn check() -> Result<(), Limit> {
    match CALLS.get() {
        0 => Ok(()),
        calls => check_nested(calls),
    }
}

#[cold]
#[inline(never)]
fn check_nested(calls: usize) -> Result<(), Limit> {
    // Of a small stack, a part.
    let is_left = || own_stack().is_none_or(|own| own.left >= LEFT_MIN.min(own.bytes / 4));
    if calls <= NESTED_RUNS_MAX && is_left() { Ok(()) } else { Err(Limit::Depth) }
}
