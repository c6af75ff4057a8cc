//! Tasks that another thread has taken: run by a worker of their own, or on the stacks of one that waits.

use super::Fork;
use crate::memory::heap::{self, HeapLimits};
use crate::running::lines::Lines;
use crate::running::meter::{Halt, Meter};
use crate::running::registers::Registers;
use crate::running::trace::Trace;
use crate::running::worker::{Execution, Worker};
use crate::running::workers::RunInfo;
use crate::tape;
use crate::trap::TrapKind;
use std::cell::Cell;

/// What an execution that has ended leaves. Its stacks are free for another execution by then.
#[derive(Debug)]
pub(super) struct Ended {
    heap: heap::EndedHeap,
    tape: tape::Left,
    host_digest: u64,
    tasks: u64,
    trace: Trace,
    lines: Lines,
}

impl Worker {
    /// Runs tasks of another execution's fork as an execution, with frames from `base` on. Returns what that execution
    /// has to know, too.
    ///
    /// # Safety
    /// As [`Worker::run_tasks`]; the info is that of the fork's run, and outlives the call.
    unsafe fn run_part(
        &mut self,
        info: &RunInfo<'static>,
        fork: &Fork<'_>,
        (start, end): (usize, usize),
        halt: &Halt<'_>,
        base: Registers,
    ) -> (Result<i64, TrapKind>, Ended) {
        let (account, limits) = (info.account, info.limits);
        let rooms = self.stacks.rooms();
        (self.exec.live_bytes_max, self.exec.depth_max) = (limits.live_bytes, limits.depth);
        self.exec.heap.begin(HeapLimits { allocated_bytes: 0, live_bytes: limits.live_bytes }, account);
        self.exec.heap.share(true);
        self.exec.tape.begin_part(account, limits.tape_bytes, fork.inner);
        let mut meter = Meter::new(account, Some(halt));
        (self.exec.program, self.exec.info, self.exec.mode) = (info.program, info, fork.mode);
        (self.exec.meter, self.exec.fuel) = ((&raw mut meter).cast(), 0);
        (self.exec.forked, self.exec.tasks, self.exec.span_start) = (true, 0, 0);
        self.exec.host_digest = 0;
        self.exec.listens = fork.listens;
        // SAFETY: promised by the caller.
        let outcome = unsafe { self.run_tasks(fork, start, end, base) };
        if let Err(kind) = &outcome {
            account.stop_all(kind);
        }
        self.leave_rooms(&rooms);
        meter.settle(self.exec.fuel);
        account.return_allocation(self.exec.heap.allocated_max().saturating_sub(self.exec.heap.allocated()));
        self.exec.heap.share(false);
        let (trace, lines) = (std::mem::take(&mut self.exec.trace), std::mem::take(&mut self.exec.lines));
        let (heap, tape, tasks) = (self.exec.heap.leave(), self.exec.tape.leave(account), self.exec.tasks);
        let ended = Ended { heap, tape, tasks, host_digest: self.exec.host_digest, trace, lines };
        self.exec.detach();
        (outcome, ended)
    }

    /// Runs tasks as an execution on the stacks of this one, which waits for a half of its fork on the same thread.
    ///
    /// # Safety
    /// It does wait, so that nothing above its free places is in use. The rest as [`Worker::run_part`].
    unsafe fn lend_stacks(
        &mut self,
        info: &RunInfo<'static>,
        fork: &Fork<'_>,
        tasks: (usize, usize),
        halt: &Halt<'_>,
    ) -> (Result<i64, TrapKind>, Ended) {
        let free = self.free;
        let mut waiting = std::mem::replace(&mut self.exec, Execution::new(info.workers.slabs()));
        // In the same run, the execution goes on in the slab that this one's tape stands in, and this one behind it. A
        // fork that isn't recorded, as in a checkpoint, has not parked the task: its next record follows the last one.
        // SAFETY: what waits has begun.
        let same_run = std::ptr::eq(unsafe { waiting.account() }, info.account);
        let is_parked = same_run && waiting.mode.is_recording();
        if is_parked {
            waiting.tape.leave_rest(info.account);
        }
        self.nested += 1;
        // SAFETY: promised by the caller; nothing of what waits stands above the free places.
        let outcome = unsafe { self.run_part(info, fork, tasks, halt, free) };
        self.nested -= 1;
        if is_parked {
            waiting.tape.take_rest(info.account);
        }
        (self.exec, self.free) = (waiting, free);
        outcome
    }

    /// Takes over what an execution has left, whose tasks are to the right of all that this one has run. The run comes
    /// there if those haven't trapped, and then its backtrace is the run's if it has `trapped`.
    pub(super) fn absorb(&mut self, ended: Ended, is_reached: bool, trapped: bool) {
        self.take_lines(ended.lines, is_reached);
        self.exec.heap.absorb(ended.heap);
        self.exec.tape.absorb(ended.tape);
        self.exec.tasks += ended.tasks;
        self.exec.host_digest = self.exec.host_digest.wrapping_add(ended.host_digest);
        if is_reached && trapped {
            debug_assert!(self.exec.trace.is_empty(), "this execution has stopped for no reason of its own");
            self.exec.trace = ended.trace;
        }
    }
}

/// Runs a half of a fork that another thread has taken, in an execution of its own.
///
/// # Safety
/// It is a running fork with these tasks, which nobody else runs; the info is that of its run, and outlives the call.
#[cold]
#[inline(never)]
pub(super) unsafe fn run_stolen(
    info: &RunInfo<'static>,
    fork: &Fork<'_>,
    start: usize,
    end: usize,
    halt: &Halt<'_>,
) -> (Result<i64, TrapKind>, Option<Box<Ended>>) {
    let waiting = WAITING.get();
    // SAFETY: the execution waits on this thread, and goes by the same pointer meanwhile ([`Worker::run_halves`]).
    if !waiting.is_null() && unsafe { (*waiting).has_room_here() } {
        // SAFETY: promised by the caller; the execution waits, so nobody uses it until this function returns.
        let (outcome, ended) = unsafe { (*waiting).lend_stacks(info, fork, (start, end), halt) };
        return (outcome, Some(Box::new(ended)));
    }
    let mut worker = info.workers.take();
    worker.begin(info.limits.live_bytes, info.limits.depth);
    let base = worker.bottom();
    let ran = worker.open_native().map(|ground| {
        // SAFETY: promised by the caller. The stack is the worker's, which runs nowhere else meanwhile; nothing
        // below unwinds ([`Worker::run_at`]).
        unsafe { ground.run(|| worker.run_part(info, fork, (start, end), halt, base)) }
    });
    info.workers.put_back(worker);
    match ran {
        Ok((outcome, ended)) => (outcome, Some(Box::new(ended))),
        Err(limit) => {
            let kind = limit.into();
            info.account.stop_all(&kind);
            (Err(kind), None)
        }
    }
}

thread_local! {
    /// The execution that waits on this thread for a half of a fork, the last one if there are several. While it waits,
    /// the thread may run other executions, on its stacks: it can't go on before they have ended.
    static WAITING: Cell<*mut Worker> = const { Cell::new(std::ptr::null_mut()) };
}

/// Says that an execution waits on this thread, for as long as it lives.
pub(super) struct Waiting {
    before: *mut Worker,
    worker: *mut Worker,
    free: Registers,
}

impl Waiting {
    /// What stands above `free` on the execution's stacks is of no use to it when it waits.
    ///
    /// # Safety
    /// Until this is dropped the execution stays where it is, and is used through this pointer only.
    pub(super) unsafe fn begin(worker: *mut Worker, free: Registers) -> Self {
        // SAFETY: promised by the caller.
        let free = unsafe { std::mem::replace(&mut (*worker).free, free) };
        Waiting { before: WAITING.replace(worker), worker, free }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.set(self.before);
        // SAFETY: promised to `begin`.
        unsafe { (*self.worker).free = self.free };
    }
}
