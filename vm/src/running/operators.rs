//! Derivative operators: what a `jvp` and a `vjp` do when they run.

use super::registers::Registers;
use super::worker::Worker;
use crate::code::OperatorSite;
use crate::trap::TrapKind;

impl Worker {
    /// Runs a derivative operator. What it takes stands at `args`; what it gives will stand behind that.
    ///
    /// # Safety
    /// **Running**; what the operator takes is of the right types; nothing above it is in use, and references below are
    /// roots. `remaining` is how many frames may nest above.
    pub(crate) unsafe fn operate(
        &mut self,
        _site: &OperatorSite,
        _args: Registers,
        _remaining: usize,
    ) -> Result<(), TrapKind> {
        Err(TrapKind::Message("derivative operators don't run yet".into()))
    }
}
