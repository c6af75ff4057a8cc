//! What a run may use: fuel, memory, time.
//!
//! Fuel is charged at the ends of stretches of code, from a local counter that is refilled in slices; the clock and the
//! flags that stop a run are looked at when a slice is used up. Whether fuel suffices depends on the sum alone, not
//! on the slices.
//!
//! A run is one execution, or several at a time where forks run in parallel ([`crate::running::tasks`]). All of
//! them draw on one [`Account`], each through a [`Meter`] of its own.

mod account;
mod watch;

pub use account::CancelHandle;
pub(crate) use account::{Account, PIECE_MAX, out_of_time};
pub(crate) use watch::Watch;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::trap::{Limit, TrapKind};
use std::time::Duration;

/// Fuel between two looks at the clock: some 100 µs in the interpreter.
const SLICE: u64 = 1 << 16;

/// Tells the tasks of one half of a fork that the outcome of the other half makes theirs meaningless.
#[derive(Debug)]
pub(crate) struct Halt<'a> {
    halted: AtomicBool,
    /// That of the fork which the execution is a part of.
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

/// An execution's access to the account.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    pub(crate) account: &'a Account,
    /// Tells that the execution's outcome is of no use any more.
    pub(crate) halt: Option<&'a Halt<'a>>,
    /// Fuel that this execution was given and didn't return.
    received: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(account: &'a Account, halt: Option<&'a Halt<'a>>) -> Self {
        Meter { account, halt, received: 0 }
    }

    /// Fuel that this execution has used, given what is left of its slice.
    #[inline]
    pub(crate) fn used(&self, left: i64) -> u64 {
        self.received.wrapping_sub(left as u64)
    }

    /// A new counter in place of one that has fallen to `left`, below zero or not. `unwinding` is how long it will take
    /// to leave all frames.
    #[cold]
    pub(crate) fn refill(&mut self, left: i64, unwinding: Duration) -> Result<i64, TrapKind> {
        self.poll(unwinding)?;
        let granted = &self.account.granted;
        match granted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |granted| self.grant(granted, left)) {
            Ok(before) => Ok(self.receive(before, left)),
            Err(_) => Err(TrapKind::Limit(Limit::Fuel)),
        }
    }

    /// [`Meter::refill`] of the only execution that there is: nobody else draws on the account.
    #[inline]
    pub(crate) fn refill_alone(&mut self, left: i64) -> Result<i64, TrapKind> {
        self.poll(Duration::ZERO)?;
        let granted = &self.account.granted;
        let before = granted.load(Ordering::Relaxed);
        let after = self.grant(before, left).ok_or(TrapKind::Limit(Limit::Fuel))?;
        granted.store(after, Ordering::Relaxed);
        Ok(self.receive(before, left))
    }

    /// All fuel handed out, with a new slice for this execution; `None` if more was used than there is.
    #[inline]
    fn grant(&self, granted: u64, left: i64) -> Option<u64> {
        let used = granted.wrapping_sub(left as u64);
        Some(used + SLICE.min(self.account.fuel_max.checked_sub(used)?))
    }

    /// Takes the slice that was granted when so much had been handed out.
    #[inline]
    fn receive(&mut self, granted: u64, left: i64) -> i64 {
        let slice = SLICE.min(self.account.fuel_max - granted.wrapping_sub(left as u64));
        self.received = self.used(left).wrapping_add(slice);
        slice as i64
    }

    /// Forgets all that was used since the execution had used `used`; nothing is left of its slice.
    pub(crate) fn rewind(&mut self, used: u64) {
        self.received = used;
    }

    /// Returns what is left of the execution's slice.
    pub(crate) fn settle(&mut self, left: i64) {
        self.account.granted.fetch_sub(left as u64, Ordering::Relaxed);
        self.received = self.used(left);
    }

    /// Whether the execution is to stop.
    #[inline]
    pub(crate) fn poll(&self, unwinding: Duration) -> Result<(), TrapKind> {
        if self.account.is_stopped() || self.halt.is_some_and(Halt::is_halted) {
            return Err(TrapKind::Cancelled);
        }
        self.account.poll_ahead(unwinding)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::account::loom_tests::account;
    use super::*;
    use loom::thread;
    use std::sync::atomic::{AtomicU64 as Ghost, Ordering::SeqCst};

    /// Uses all of some slices and a part of the last. Returns what was used, and why it stopped early, if it did.
    fn draw(account: &Account, held: &Ghost, slices: usize, rest: i64) -> (u64, Option<TrapKind>) {
        let mut meter = Meter::new(account, None);
        let (mut left, mut stopped) = (0, None);
        for n in 1..=slices {
            match meter.refill(left, Duration::ZERO) {
                Ok(slice) => {
                    let before = held.fetch_add(slice as u64, SeqCst);
                    assert!(before + slice as u64 <= account.fuel_max, "handed out is more than there is");
                    left = if n == slices { rest.min(slice) } else { 0 };
                }
                Err(kind) => {
                    account.stop_all(&kind);
                    stopped = Some(kind);
                    break;
                }
            }
        }
        held.fetch_sub(left as u64, SeqCst);
        meter.settle(left);
        (meter.used(0), stopped)
    }

    #[test]
    fn loom_executions_never_hold_more_fuel_than_there_is_and_the_account_is_exact_in_the_end() {
        // Enough for both, for one and a bit, and for neither.
        for fuel_max in [4 * SLICE, 2 * SLICE + 5, SLICE / 2] {
            loom::model(move || {
                let (account, held) = (account(fuel_max, None), std::sync::Arc::new(Ghost::new(0)));
                let other = {
                    let (account, held) = (account.clone(), held.clone());
                    thread::spawn(move || draw(&account, &held, 2, 7))
                };
                let (used, stopped) = draw(&account, &held, 2, 100);
                let (other_used, other_stopped) = other.join().unwrap();
                assert_eq!(account.used(0), used + other_used);
                assert_eq!(held.load(SeqCst), used + other_used);
                assert_eq!(account.is_stopped(), stopped.is_some() || other_stopped.is_some());
                if fuel_max >= 4 * SLICE {
                    assert_eq!((used, other_used), (2 * SLICE - 100, 2 * SLICE - 7));
                }
            });
        }
    }

    #[test]
    fn loom_a_limit_that_one_execution_hits_stops_the_others() {
        loom::model(|| {
            let account = account(10, None);
            let other = {
                let account = account.clone();
                thread::spawn(move || account.stop_all(&TrapKind::Limit(Limit::Fuel)))
            };
            let meter = Meter::new(&account, None);
            if account.is_stopped() {
                assert_eq!(meter.poll(Duration::ZERO), Err(TrapKind::Cancelled));
            }
            other.join().unwrap();
            assert_eq!(meter.poll(Duration::ZERO), Err(TrapKind::Cancelled));
            assert_eq!(account.abandoned(), None);
            account.start_over(3, 0);
            assert_eq!((meter.poll(Duration::ZERO), account.used(0)), (Ok(()), 3));
        });
    }

    #[test]
    fn loom_a_halt_stops_what_is_below_it_and_nothing_else() {
        loom::model(|| {
            let outer: &'static Halt<'static> = Box::leak(Box::new(Halt::new(None)));
            let [left, right] = [(); 2].map(|()| &*Box::leak(Box::new(Halt::new(Some(outer)))));
            let halts = [thread::spawn(move || left.halt()), thread::spawn(move || assert!(!right.is_halted()))];
            for halt in halts {
                halt.join().unwrap();
            }
            assert!(left.is_halted() && !right.is_halted() && !outer.is_halted());
            thread::spawn(move || outer.halt()).join().unwrap();
            assert!(left.is_halted() && right.is_halted());
        });
    }
}
