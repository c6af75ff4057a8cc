//! The host's code in the middle of a run: its functions, its listeners, and what happens where a value of its own is
//! dropped. All of it is called through here.

use crate::memory::stack::run_outside;
use crate::running::alone::Alone;
use crate::running::nesting::InHost;
use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the host's on the thread's own stack, from which nobody takes up anything else meanwhile. Nothing of it
/// unwinds, since the stack of a run may be below. What it returns is the host's as well, if dropping that may run code
/// of the host's: see [`Owned`].
pub(crate) fn run_guarded<R>(body: impl FnOnce() -> R) -> Result<R, Panic> {
    let caught = || {
        let (_alone, _in_host) = (Alone::begin(), InHost::begin());
        catch_unwind(AssertUnwindSafe(body))
    };
    // SAFETY: a panic is caught.
    unsafe { run_outside(caught) }.map_err(Panic::new)
}

/// Drops a value of the host's in the middle of a run. There is nobody to tell of a panic here.
pub(crate) fn drop_guarded<T>(value: T) {
    if let Err(panic) = run_guarded(|| drop(value)) {
        let payload = panic.into_payload();
        if !payload.is::<String>() && !payload.is::<&str>() {
            // What a value panics with when it is dropped may do so, too, and so on without end.
            std::mem::forget(payload);
        }
    }
}

/// A value whose drop is code of the host's.
#[derive(Clone)]
pub(crate) struct Owned<T>(ManuallyDrop<T>);

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Owned(ManuallyDrop::new(value))
    }

    /// The value, for code that is the host's again.
    pub(crate) fn into_inner(self) -> T {
        let mut owned = ManuallyDrop::new(self);
        // SAFETY: nobody uses it any more, nor drops it.
        unsafe { ManuallyDrop::take(&mut owned.0) }
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        drop_guarded(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

/// What code of the host's has panicked with, which may be anything.
#[derive(Debug)]
pub(crate) struct Panic(Owned<Box<dyn Any + Send>>);

impl Panic {
    /// Of a panic that was caught somewhere else.
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        Panic(Owned::new(payload))
    }

    /// What it says.
    pub(crate) fn text(&self) -> &str {
        let payload = &**self.0;
        let text = payload.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("it says nothing")
    }

    /// What there was a panic with, to go on with it where the host has called.
    pub(crate) fn into_payload(self) -> Box<dyn Any + Send> {
        self.0.into_inner()
    }
}
