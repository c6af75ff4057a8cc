//! Derivative operators: what a `jvp` and a `vjp` do when they run.

use super::registers::{Registers, roots};
use super::worker::Worker;
use crate::code::OperatorSite;
use crate::memory::heap::{Ref, Roots};
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

    /// The object in a reference register as a constant, with all that it refers to.
    ///
    /// # Safety
    /// **Running**; the references of all frames below `refs_end` are initialised, and the register is one of them.
    pub(crate) unsafe fn detach(&mut self, register: *const Ref, refs_end: *mut Ref) -> Result<Ref, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let exec = &mut self.exec;
            let roots = Roots { frames: roots(exec.roots, refs_end), kept: Some(exec.tape.kept()) };
            exec.heap.detached(register, self.stacks.bytes, roots)
        }
    }
}
