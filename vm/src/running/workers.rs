//! The workers of an engine that no run uses, and what those of one run know of it.

use super::limits::Limits;
use super::meter::Account;
use super::program::Program;
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
    slabs: Arc<SlabPool>,
    extent: Extent,
}

impl Workers {
    pub(crate) fn new(slabs: Arc<SlabPool>, extent: Extent) -> Self {
        Workers { idle: Idle::default(), slabs, extent }
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
        self.idle.take().unwrap_or_else(|| Box::new(Worker::new(&self.slabs, self.extent)))
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
    pub(crate) program: &'a Program,
    pub(crate) limits: &'a Limits,
    /// Whether forks run in parallel.
    parallel: AtomicBool,
}

impl<'a> RunInfo<'a> {
    pub(crate) fn new(
        workers: &'a Workers,
        account: &'a Account,
        program: &'a Program,
        limits: &'a Limits,
        parallel: bool,
    ) -> Self {
        RunInfo { workers, account, program, limits, parallel: AtomicBool::new(parallel) }
    }

    pub(super) fn is_parallel(&self) -> bool {
        self.parallel.load(Ordering::Relaxed)
    }

    /// From now on, one worker runs all tasks.
    pub(super) fn run_alone(&self) {
        self.parallel.store(false, Ordering::Relaxed);
    }
}
