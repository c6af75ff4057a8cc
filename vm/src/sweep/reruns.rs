//! The sweep of a derivative operator that was recorded: it runs once more, and the tape of that run is swept.
//!
//! Let f be the operator's function, c its captures, x its arguments, ȳ the cotangents it was given. It has computed
//! y = f(c, x) and x̄ = ȳ·∂f/∂x. If the adjoints of y and x̄ are Y and X, what is to be added to those of c, x and ȳ is
//! the gradient of Y·f(c, x) + ȳ·∂f/∂x·X: the transpose of a `vjp` is a `jvp`. Both terms come from one run of f with
//! a further infinitesimal ε on x + εX, recorded, and one sweep from the cotangent ȳ + εY; the adjoint of ȳ is the
//! tangent that this run computes. Where the operator ran at a depth, the same holds component by component, with
//! adjoints in complement order as in [`crate::running::reverse`].
//!
//! So a sweep stays a sweep: its adjoints are plain numbers, and it is never recorded itself. What the run reads of the
//! tape around the operator it imports, as a task that was forked there would ([`super::debts`]): the tape of the rerun
//! hangs below the task that is swept, with numbers behind those of the whole tree. Records of operators in it are
//! swept in the same way, one depth further; the greatest depth bounds how far that nests.
//!
//! A checkpoint is the same without X: its function runs again as it did before, but recorded, and its sweep begins
//! with Y. So a loop of n steps takes records for √n of them, and twice the time (Griewank and Walther 2008, chapter
//! 12).
//!
//! A value with a derivative that the program gives (`running/custom.rs`) leaves such a record as well. Nothing is
//! recorded in its sweep: the program's own function says what is contributed to the adjoints of x.
//!
//! Where backpropagators are functions that are differentiated themselves (Pearlmutter and Siskind 2008), every adjoint
//! is a number that may be recorded. Here no adjoint is.

use super::debts::Inboxes;
use super::tasks::SweepRun;
use super::{OpenTask, Seed, Sweep, time_to_number};
use crate::code::Operator;
use crate::running::reruns::Again;
use crate::running::trace::Trace;
use crate::tape::{RerunNode, TaskNode, number};
use crate::trap::TrapKind;

impl Sweep {
    /// Adds what the outcome of an operator contributes to the adjoints of what it was given.
    ///
    /// # Safety
    /// The frame's task is swept, down to the record of this operator.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn rerun<'a>(
        &mut self,
        run: &SweepRun<'a>,
        frame: &mut OpenTask<'a>,
        node: &RerunNode,
    ) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller; what runs again is done before its worker goes back.
        unsafe {
            if is_idle(node, frame.adjoints()) {
                return Ok(());
            }
            let mut worker = run.info.workers.take();
            let again = worker.run_again(run.info, node, frame.node, frame.adjoints);
            let swept = again.and_then(|again| {
                let root = worker.exec.tape.root();
                self.sweep_again(run, frame, root, again)
            });
            if swept.is_err() {
                self.keep_trace(&mut worker.exec.trace);
            }
            worker.end_again();
            run.info.workers.put_back(worker);
            swept
        }
    }

    /// Keeps the frames of what has stopped, unless something inside of it has left its own.
    pub(super) fn keep_trace(&mut self, trace: &mut Trace) {
        if self.trace.is_empty() {
            self.trace = std::mem::take(trace);
        }
    }

    /// Sweeps the tape of a rerun.
    ///
    /// # Safety
    /// As [`Sweep::rerun`]; `root` is that tape's tree.
    unsafe fn sweep_again<'a>(
        &mut self,
        run: &SweepRun<'a>,
        frame: &mut OpenTask<'a>,
        root: *mut TaskNode,
        Again { seeds, contributions }: Again,
    ) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller; the task that is swept has its number, because it has a rerun.
        unsafe {
            let (first, tasks) = (run.inboxes.end(), (*root).totals.tasks as usize);
            time_to_number(run.account, tasks)?;
            number(root, first);
            let inner = SweepRun { inboxes: Inboxes::new(first, tasks), ..*run };
            let mut owed = self.tree(&inner, &*root, &seeds)?;
            // The frame's task is in control again.
            owed.settle(frame, &run.inboxes);
            let known = std::mem::take(&mut frame.debts.pending);
            frame.debts.pending = known.merge(owed);
            for Seed { owner, slot, adjoint } in contributions {
                if owner.task() == std::ptr::from_ref(frame.node) {
                    frame.add(slot, adjoint);
                } else {
                    frame.debts.owe(frame.node, owner.task(), slot, adjoint, &run.inboxes);
                }
            }
        }
        Ok(())
    }
}

/// Whether nothing flows into an operator's outcome. If it gave objects, that isn't asked.
///
/// # Safety
/// They are the adjoints of the task that recorded it.
unsafe fn is_idle(node: &RerunNode, adjoints: &[f64]) -> bool {
    // SAFETY: the program outlives its runs.
    let site = unsafe { &*node.site };
    let mut given = site.results;
    if site.operator == Operator::Vjp {
        given.add(site.args);
    }
    let count = given.reals << node.depth;
    given.refs == 0 && adjoints[node.outcome.index()..][..count].iter().all(|&adjoint| adjoint == 0.0)
}
