//! The clock in the middle of work that no fuel is charged for: conversions, evacuations, making streams.

use super::account::Account;
use crate::trap::TrapKind;
use std::cell::Cell;

/// Looks at the clock and at what the host wants, in the middle of work that no fuel is charged for.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    /// `None` if the work has no limit of time.
    account: Option<&'a Account>,
    /// Work until the next look.
    left: Cell<usize>,
}

/// Work between two looks: some 50 µs.
const WORK: usize = 1 << 14;

impl<'a> Watch<'a> {
    /// Looks at the clock of a run, for the first time at once: there may be much small work of this kind.
    pub(crate) fn of(account: &'a Account) -> Self {
        Watch { account: Some(account), left: Cell::new(0) }
    }

    /// Looks at the clock of a run when there was some work.
    pub(crate) fn later(account: &'a Account) -> Self {
        Watch { account: Some(account), left: Cell::new(WORK) }
    }

    /// Another one of the same run.
    pub(crate) fn again(&self) -> Self {
        Watch { account: self.account, left: Cell::new(0) }
    }

    /// Never looks.
    pub(crate) const fn none() -> Self {
        Watch { account: None, left: Cell::new(WORK) }
    }

    /// Notes so much work, each of a few nanoseconds.
    ///
    /// # Errors
    /// Why the run has to stop.
    #[inline]
    pub(crate) fn tick(&self, work: usize) -> Result<(), TrapKind> {
        match self.left.get().checked_sub(work) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => self.look(),
        }
    }

    #[cold]
    fn look(&self) -> Result<(), TrapKind> {
        self.left.set(WORK);
        let Some(account) = self.account else { return Ok(()) };
        if account.is_stopped() {
            return Err(TrapKind::Cancelled);
        }
        account.poll()
    }
}
