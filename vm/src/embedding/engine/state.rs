//! The memory of a run: whose it is, and what it tells of the run that was the last to use it.

use super::{Engine, Stats};
use crate::running::constants::Constants;
use crate::running::meter::Account;
use crate::running::registers::Gathered;
use crate::running::worker::Worker;
use crate::running::workers::Workers;
use crate::sweep::Sweep;
use crate::tape::Totals;
use std::mem::ManuallyDrop;
use std::time::Duration;

/// The memory of one run, kept for the next.
#[derive(Debug)]
pub(crate) struct RunState {
    pub(crate) worker: Worker,
    pub(crate) sweep: Sweep,
    pub(super) args: Gathered,
    pub(super) account: Account,
    pub(super) constants: Constants,
    pub(super) progress: Progress,
    /// What earlier runs of the same call have used, if there were any.
    pub(super) earlier: Stats,
}

/// What the memory of a run doesn't know of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Whether the run was a recording one, so that there is a tape.
    pub(super) recorded: bool,
    /// Slots of the arguments, in a recorded run.
    pub(super) inputs: usize,
    /// Whether the second half of these are tangents.
    pub(super) has_tangents: bool,
    pub(super) sweeps: u64,
    pub(super) sweep_peak_bytes: u64,
    pub(super) forward: Duration,
    pub(super) sweep: Duration,
    /// Whether there were earlier runs of the same call.
    pub(super) goes_on: bool,
}

impl RunState {
    /// Memory that has seen no run. Heap and tape take theirs from the pool.
    pub(super) fn new(workers: &Workers) -> Self {
        RunState {
            worker: Worker::new(workers.slabs(), workers.extent()),
            sweep: Sweep::new(workers.extent()),
            args: Gathered::default(),
            account: Account::default(),
            constants: Constants::new(workers.slabs()),
            progress: Progress::default(),
            earlier: Stats::default(),
        }
    }

    /// Gives back what the next run needn't have.
    pub(super) fn release(&mut self, workers: &Workers) {
        self.worker.release();
        self.constants.clear();
        workers.trim(&mut self.worker);
        self.sweep.trim();
    }

    /// What the run, which has ended, has used.
    pub(crate) fn stats(&self) -> Stats {
        let RunState { worker, account, constants, progress, earlier, .. } = self;
        // Without a tape, nothing is on it.
        let totals = if progress.recorded { worker.exec.tape.tree().totals } else { Totals::default() };
        let mut stats = Stats {
            instructions: account.used(worker.exec.fuel),
            records: totals.records,
            slots: totals.slots,
            tape_bytes: totals.bytes,
            allocated_bytes: worker.exec.heap.allocated() + account.rerun_allocated(),
            heap_peak_bytes: worker.exec.heap.peak() + worker.stack_bytes() + constants.held(),
            tasks: worker.exec.tasks + 1,
            imports: totals.imports,
            span: worker.exec.whole_span + progress.sweeps * totals.sweep_span,
            sweep_peak_bytes: progress.sweep_peak_bytes,
            forward: progress.forward,
            sweep: progress.sweep,
        };
        if progress.goes_on {
            stats = earlier.followed_by(&stats);
        }
        stats
    }
}

// SAFETY: it is used by one thread at a time, and what its pointers lead to is its own: stacks, and the objects and
// records of its heap and its tape. Those to what others own are set for the time of a run only.
unsafe impl Send for RunState {}

/// The memory of a run, which goes back to the engine in the end.
pub(crate) struct Lease<'a> {
    engine: &'a Engine,
    state: ManuallyDrop<Box<RunState>>,
}

impl<'a> Lease<'a> {
    #[inline]
    pub(super) fn of(engine: &'a Engine) -> Self {
        Lease { engine, state: ManuallyDrop::new(engine.state()) }
    }
}

impl std::ops::Deref for Lease<'_> {
    type Target = RunState;

    fn deref(&self) -> &RunState {
        &self.state
    }
}

impl std::ops::DerefMut for Lease<'_> {
    fn deref_mut(&mut self) -> &mut RunState {
        &mut self.state
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // SAFETY: the state is taken here only, and the lease is not used afterwards.
        let state = unsafe { ManuallyDrop::take(&mut self.state) };
        self.engine.put_back(state);
    }
}
