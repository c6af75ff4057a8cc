//! The workers of an engine that no run uses, and what those of one run know of it.

use super::constants::Constants;
use super::kinks::KinkTable;
use super::limits::Limits;
use super::lines::Listening;
use super::meter::Account;
use super::program::Program;
use super::stacks::Stacks;
use super::worker::Worker;
use crate::memory::idle::Idle;
use crate::memory::pool::SlabPool;
use crate::memory::stack::{self, Extent};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where a run gets the workers from that run parts of it.
#[derive(Debug)]
pub(crate) struct Workers {
    // Declared before the pool: workers give their slabs back when they are dropped.
    idle: Idle<Worker>,
    /// Stacks without a worker: that has a run's tape, and runs nothing more until it is swept.
    stacks: Idle<Stacks>,
    slabs: Arc<SlabPool>,
    extent: Extent,
}

impl Workers {
    pub(crate) fn new(slabs: Arc<SlabPool>, extent: Extent) -> Self {
        Workers { idle: Idle::default(), stacks: Idle::default(), slabs, extent }
    }

    /// Where heaps and tapes get their memory from.
    pub(crate) fn slabs(&self) -> &Arc<SlabPool> {
        &self.slabs
    }

    /// How far stacks may grow.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// A worker, which goes back with [`Workers::put_back`].
    pub(crate) fn take(&self) -> Box<Worker> {
        let mut worker = self.idle.take().unwrap_or_else(|| Box::new(Worker::new(&self.slabs, self.extent)));
        if !worker.stacks.are_there()
            && let Some(stacks) = self.stacks.take()
        {
            worker.stacks = *stacks;
        }
        worker
    }

    /// Takes its stacks from a worker, on which nothing runs, for whoever takes one next.
    pub(super) fn take_stacks(&self, worker: &mut Worker) {
        let mut stacks = std::mem::replace(&mut worker.stacks, Stacks::new(self.extent));
        if stack::is_much_kept() {
            stacks.shrink();
        }
        self.stacks.put(Box::new(stacks));
    }

    /// Keeps a worker for later.
    pub(crate) fn put_back(&self, mut worker: Box<Worker>) {
        worker.release();
        self.trim(&mut worker);
        self.idle.put(worker);
    }

    /// Gives back what a worker needn't keep, where memory is scarce.
    pub(crate) fn trim(&self, worker: &mut Worker) {
        if stack::is_much_kept() {
            worker.shrink();
        }
        if stack::is_scarce() {
            self.slabs.shrink();
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn take_idle(&self) -> Option<Box<Worker>> {
        self.idle.take()
    }
}

/// What all workers of a run know.
#[derive(Debug)]
pub(crate) struct RunInfo<'a> {
    pub(crate) workers: &'a Workers,
    pub(crate) account: &'a Account,
    pub(crate) constants: &'a Constants,
    pub(crate) program: &'a Program,
    pub(crate) limits: &'a Limits,
    /// Where ties and jumps are counted, in a run that asks for it.
    pub(crate) kinks: Option<&'a KinkTable>,
    /// Who is told what is traced, if anyone listens.
    pub(crate) listening: Option<&'a Listening<'a>>,
    /// Whether forks run in parallel.
    parallel: AtomicBool,
}

impl<'a> RunInfo<'a> {
    pub(crate) fn new(
        workers: &'a Workers,
        (account, constants): (&'a Account, &'a Constants),
        program: &'a Program,
        limits: &'a Limits,
        parallel: bool,
    ) -> Self {
        let parallel = AtomicBool::new(parallel);
        RunInfo { workers, account, constants, program, limits, kinks: None, listening: None, parallel }
    }

    pub(super) fn is_parallel(&self) -> bool {
        self.parallel.load(Ordering::Relaxed)
    }

    /// From now on, one worker runs all tasks.
    pub(super) fn run_alone(&self) {
        self.parallel.store(false, Ordering::Relaxed);
    }
}
