//! What a run may use: fuel, memory, time.
//!
//! Fuel is charged at the ends of stretches of code, from a local counter that is refilled in slices; the clock and the
//! flags that stop a run are looked at when a slice is used up. Whether fuel suffices depends on the sum alone, not
//! on the slices.
//!
//! A run is one strand, or several at a time where forks run in parallel ([`crate::interp::tasks`]). All of them draw
//! on one [`Account`], each through a [`Meter`] of its own. An account that is exhausted while several strands run says
//! nothing yet, because slices that nobody has used count as used: the run then goes back to where it forked first, and
//! goes on with one strand, whose outcome counts.

use crate::trap::{Limit, TrapKind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Fuel between two looks at the clock: some 100 µs in the interpreter.
const SLICE: u64 = 1 << 16;
/// Bytes of objects that a strand may allocate between two looks at the account, if it isn't the only one.
const ALLOCATION_SLICE: u64 = 1 << 20;

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

/// What all strands of a run share.
#[derive(Debug, Default)]
pub(crate) struct Account {
    fuel_max: u64,
    /// Fuel handed out in slices.
    granted: AtomicU64,
    deadline: Option<Instant>,
    cancel: Option<CancelHandle>,
    /// One of the constants below.
    stop: AtomicU8,
    /// Why the host's wishes end the run, if they do.
    abandoned: Mutex<Option<TrapKind>>,
    /// Bytes of objects that strands may still ask for, while there are several.
    allocation_left: AtomicU64,
    /// Bytes of heaps and stacks, while there are several strands.
    pub(crate) live_bytes: AtomicU64,
    /// Bytes of tapes and adjoints, while there are several strands.
    pub(crate) tape_bytes: AtomicU64,
    /// Rests of the tape slabs of strands that have ended.
    rests: Mutex<Vec<Rest>>,
}

/// The rest of a slab that nobody writes to.
#[derive(Debug)]
struct Rest(*mut u8, *mut u8);

// SAFETY: it is the only right to write there; the slab lives until the run ends.
unsafe impl Send for Rest {}

/// The run goes on.
const GO_ON: u8 = 0;
/// A limit was hit while there were several strands: all stop, and the run goes back to its first fork.
const START_OVER: u8 = 1;
/// The host has cancelled the run, or its time is up.
const ABANDON: u8 = 2;

impl Account {
    /// Begins a run.
    pub(crate) fn begin(&mut self, fuel_max: u64, deadline: Option<Instant>, cancel: Option<CancelHandle>) {
        (self.fuel_max, self.deadline, self.cancel) = (fuel_max, deadline, cancel);
        *self.granted.get_mut() = 0;
        *self.stop.get_mut() = GO_ON;
        self.rests.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The rest of a slab, for a strand that begins.
    pub(crate) fn take_rest(&self) -> Option<(*mut u8, *mut u8)> {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner).pop().map(|Rest(top, end)| (top, end))
    }

    /// Leaves the rest of a slab, which lives until the run ends, to a strand that begins later.
    pub(crate) fn leave_rest(&self, top: *mut u8, end: *mut u8) {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner).push(Rest(top, end));
    }

    /// Fuel used, given what is left of the only strand's slice.
    pub(crate) fn used(&self, left: i64) -> u64 {
        self.granted.load(Ordering::Relaxed).wrapping_sub(left as u64)
    }

    /// Whether the host has cancelled the run or its time is up.
    pub(crate) fn poll(&self) -> Result<(), TrapKind> {
        if self.cancel.as_ref().is_some_and(CancelHandle::is_cancelled) {
            return Err(TrapKind::Cancelled);
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(TrapKind::Limit(Limit::Deadline));
        }
        Ok(())
    }

    /// Begins a stretch with several strands. The one that there is now may allocate `allocation` bytes more.
    pub(crate) fn open(&self, allocation: u64, live_bytes: u64, tape_bytes: u64) {
        self.allocation_left.store(allocation, Ordering::Relaxed);
        self.live_bytes.store(live_bytes, Ordering::Relaxed);
        self.tape_bytes.store(tape_bytes, Ordering::Relaxed);
    }

    /// Draws on what may be allocated: `bytes` or more.
    pub(crate) fn draw_allocation(&self, bytes: u64) -> Option<u64> {
        let drawn = |left: u64| bytes.max(ALLOCATION_SLICE).min(left);
        let take = |left: u64| (left >= bytes).then(|| left - drawn(left));
        self.allocation_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok().map(drawn)
    }

    /// Gives back what was drawn and not allocated.
    pub(crate) fn return_allocation(&self, bytes: u64) {
        self.allocation_left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes why a strand stops while there are several, if that concerns all of them.
    pub(crate) fn stop_all(&self, kind: &TrapKind) {
        match kind {
            // A strand that was told to stop says that it was cancelled, too.
            TrapKind::Limit(Limit::Deadline) | TrapKind::Cancelled if self.poll().is_err() => {
                self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| kind.clone());
                self.stop.store(ABANDON, Ordering::Relaxed);
            }
            TrapKind::Limit(Limit::Deadline) | TrapKind::Cancelled => {}
            // How deep calls are nested doesn't depend on who else runs.
            TrapKind::Limit(Limit::Depth) => {}
            TrapKind::Limit(_) => {
                _ = self.stop.compare_exchange(GO_ON, START_OVER, Ordering::Relaxed, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != GO_ON
    }

    /// Why the host's wishes have ended the run, if they have.
    pub(crate) fn abandoned(&self) -> Option<TrapKind> {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Goes on with one strand, which had used `used` when it forked and has nothing left of its slice.
    pub(crate) fn start_over(&self, used: u64) {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.stop.store(GO_ON, Ordering::Relaxed);
        self.granted.store(used, Ordering::Relaxed);
    }
}

/// Tells the tasks of one half of a fork that the outcome of the other half makes theirs meaningless.
#[derive(Debug)]
pub(crate) struct Halt<'a> {
    halted: AtomicBool,
    /// That of the fork which the strand is a part of.
    outer: Option<&'a Halt<'a>>,
}

impl<'a> Halt<'a> {
    pub(crate) fn new(outer: Option<&'a Halt<'a>>) -> Self {
        Halt { halted: AtomicBool::new(false), outer }
    }

    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Relaxed) || self.outer.is_some_and(Halt::is_halted)
    }
}

/// A strand's access to the account.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    pub(crate) account: &'a Account,
    /// Tells that the strand's outcome is of no use any more.
    pub(crate) halt: Option<&'a Halt<'a>>,
    /// Fuel that this strand was given and didn't return.
    received: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(account: &'a Account, halt: Option<&'a Halt<'a>>) -> Self {
        Meter { account, halt, received: 0 }
    }

    /// Fuel that this strand has used, given what is left of its slice.
    #[inline]
    pub(crate) fn used(&self, left: i64) -> u64 {
        self.received.wrapping_sub(left as u64)
    }

    /// A new counter in place of one that has fallen to `left`, below zero or not.
    #[cold]
    pub(crate) fn refill(&mut self, left: i64) -> Result<i64, TrapKind> {
        self.poll()?;
        let slice = |used: u64| SLICE.min(self.account.fuel_max - used);
        let grant = |granted: u64| {
            let used = granted.wrapping_sub(left as u64);
            (used <= self.account.fuel_max).then(|| used + slice(used))
        };
        let granted = &self.account.granted;
        match granted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grant) {
            Ok(before) => {
                let slice = slice(before.wrapping_sub(left as u64));
                self.received = self.used(left).wrapping_add(slice);
                Ok(slice as i64)
            }
            Err(_) => Err(TrapKind::Limit(Limit::Fuel)),
        }
    }

    /// Forgets all that was used since the strand had used `used`; nothing is left of its slice.
    pub(crate) fn rewind(&mut self, used: u64) {
        self.received = used;
    }

    /// Returns what is left of the strand's slice.
    pub(crate) fn settle(&mut self, left: i64) {
        self.account.granted.fetch_sub(left as u64, Ordering::Relaxed);
        self.received = self.used(left);
    }

    /// Whether the strand is to stop.
    pub(crate) fn poll(&self) -> Result<(), TrapKind> {
        if self.account.is_stopped() || self.halt.is_some_and(Halt::is_halted) {
            return Err(TrapKind::Cancelled);
        }
        self.account.poll()
    }
}
