//! Fuel, deadline and cancellation.
//!
//! Fuel is charged at the ends of stretches of code, from a local counter that is refilled in slices; the clock and the
//! cancellation flag are looked at when a slice is used up. Whether fuel suffices depends on the sum alone, not on
//! the slices.

use crate::trap::{Limit, TrapKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Fuel between two looks at the clock: some 100 µs in the interpreter.
const SLICE: u64 = 1 << 16;

/// Stops runs from another thread.
///
/// ```
/// # use dualvm_vm::engine::CancelHandle;
/// let handle = CancelHandle::new();
/// let other = handle.clone();
/// std::thread::spawn(move || other.cancel()).join().unwrap();
/// assert!(handle.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelHandle(Arc<AtomicBool>);

impl CancelHandle {
    /// A handle that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops every run that was given this handle, now and later.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`CancelHandle::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a run may still use.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    limit: u64,
    /// Fuel handed out in slices.
    granted: u64,
    deadline: Option<Instant>,
    cancel: Option<CancelHandle>,
}

impl Meter {
    pub(crate) fn new(limit: u64, deadline: Option<Instant>, cancel: Option<CancelHandle>) -> Self {
        Meter { limit, granted: 0, deadline, cancel }
    }

    /// Fuel used, given what is left of the last slice.
    pub(crate) fn used(&self, left: i64) -> u64 {
        self.granted.wrapping_sub(left as u64)
    }

    /// A new counter in place of one that has fallen to `left`, below zero or not.
    #[cold]
    pub(crate) fn refill(&mut self, left: i64) -> Result<i64, TrapKind> {
        let used = self.used(left);
        if used > self.limit {
            return Err(TrapKind::Limit(Limit::Fuel));
        }
        self.poll()?;
        let slice = SLICE.min(self.limit - used);
        self.granted = used + slice;
        Ok(slice as i64)
    }

    /// Whether the run has been cancelled or its time is up.
    pub(crate) fn poll(&self) -> Result<(), TrapKind> {
        if self.cancel.as_ref().is_some_and(CancelHandle::is_cancelled) {
            return Err(TrapKind::Cancelled);
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(TrapKind::Limit(Limit::Deadline));
        }
        Ok(())
    }
}
