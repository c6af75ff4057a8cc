//! What a thread runs functions with: stacks, and the state of what runs on them.
//!
//! A [`Worker`] is memory that runs share out among themselves: a run begins with one, and takes another for each part
//! that another thread runs. What it runs is an [`Execution`]: a run, or some tasks of one. A worker that waits for
//! tasks lends its stacks: another execution runs on them, above what is in use, and then this one goes on. So an
//! execution is a value that is put aside as a whole.

use super::interp::Caller;
use super::lines::Lines;
use super::meter::{Account, Meter};
use super::program::Program;
use super::registers::{Gathered, Registers};
use super::stacks::Stacks;
use super::trace::Trace;
use super::workers::RunInfo;
use crate::bytecode::module::FuncId;
use crate::code::Mode;
use crate::memory::heap::{Heap, Ref};
use crate::memory::pool::SlabPool;
use crate::memory::stack::Extent;
use crate::native::layout::OPERANDS_MAX;
use crate::sweep::Sweep;
use crate::tape::Tape;
use crate::trap::TrapKind;
use std::sync::Arc;
use std::time::Duration;

/// A worker. Native code gets a pointer to it as its context and reads and writes fields at their offsets
/// ([`crate::native::layout`]).
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) stacks: Stacks,
    pub(crate) exec: Execution,
    /// Callers that are interpreted.
    pub(super) callers: Vec<Caller>,
    /// Arguments of a tail call, results, new words of a segment.
    pub(crate) scratch: Gathered,
    /// Tapes of derivative operators that have ended, and the memory of their sweeps.
    pub(super) tapes: Vec<Tape>,
    pub(super) sweep: Option<Box<Sweep>>,
    /// What stands above these places is free for executions that run while this one waits.
    pub(super) free: Registers,
    /// Executions on the stacks, one waiting for the next, without the first one.
    pub(super) nested: u32,
}

/// The state of what a worker runs: a run, or some tasks of one.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) heap: Heap,
    pub(crate) tape: Tape,
    /// The frames of an execution that has stopped.
    pub(crate) trace: Trace,
    pub(crate) live_bytes_max: u64,
    pub(super) depth_max: usize,
    /// What is left of the meter's last slice.
    pub(crate) fuel: i64,
    /// Rounds of loops between the last two times that the interpreter asked for native code, or to the next time.
    pub(super) rounds: u32,
    /// The function that native code calls: what the interpreter runs if there is no code for it.
    pub(crate) callee: FuncId,
    /// What a helper that preserves all registers has for native code.
    pub(crate) result: u64,
    /// What native code hands to such a helper, after the context.
    pub(crate) operands: [u64; OPERANDS_MAX],
    /// Why native code has stopped.
    pub(crate) trap: Option<TrapKind>,
    /// Whether the host listens to what this execution traces.
    pub(crate) listens: bool,
    /// What it has traced while there are others.
    pub(super) lines: Lines,
    pub(crate) program: *const Program,
    pub(super) meter: *mut Meter<'static>,
    pub(super) info: *const RunInfo<'static>,
    /// How the running activation runs.
    pub(crate) mode: Mode,
    /// Whether this is inside of a fork, of which other workers run a part.
    pub(super) forked: bool,
    /// Whether it runs a task of a fork.
    pub(super) in_task: bool,
    /// Whether it runs the function of a constant, and whether it does that without offering others a part of it.
    pub(super) computes: bool,
    pub(super) alone: bool,
    /// Instructions of functions of constants that it has run.
    pub(super) constant_work: u64,
    /// Of what functions of the host's have given: a sum, so that their order makes no difference.
    pub(super) host_digest: u64,
    /// Where the references of the task's frames begin.
    pub(crate) roots: *mut Ref,
    /// Instructions of the last task that ended and had no forks.
    pub(super) last_leaf: i64,
    /// Tasks that have begun, here and in executions that were absorbed.
    pub(crate) tasks: u64,
    /// What the fuel would be at the task's beginning if its forks took only as long as their longest tasks.
    pub(super) span_start: i64,
    /// Instructions of the run along the longest way through its forks, when it has ended.
    pub(crate) whole_span: u64,
}

// SAFETY: the references lead to objects of the heap, which belongs to the same value, and to stacks that whoever hands
// it on hands on, too; program, meter and information are set for the time of a run.
unsafe impl Send for Execution {}
// SAFETY: as for `Execution`; it owns its stacks.
unsafe impl Send for Worker {}

impl Execution {
    pub(super) fn new(slabs: &Arc<SlabPool>) -> Self {
        Execution {
            heap: Heap::new(slabs.clone()),
            tape: Tape::new(slabs.clone()),
            trace: Trace::default(),
            live_bytes_max: u64::MAX,
            depth_max: usize::MAX,
            fuel: 0,
            rounds: 0,
            callee: FuncId(0),
            result: 0,
            operands: [0; OPERANDS_MAX],
            trap: None,
            listens: false,
            lines: Lines::default(),
            program: std::ptr::null(),
            meter: std::ptr::null_mut(),
            info: std::ptr::null(),
            mode: Mode::PRIMAL,
            forked: false,
            in_task: false,
            computes: false,
            alone: false,
            constant_work: 0,
            host_digest: 0,
            roots: std::ptr::null_mut(),
            last_leaf: 0,
            tasks: 0,
            span_start: 0,
            whole_span: 0,
        }
    }

    /// What all workers of the run know.
    ///
    /// # Safety
    /// **Running**: this execution has begun and not ended: [`Worker::run`], or what runs stolen tasks, has set the
    /// pointers to what outlives it. Whoever asks is called from there, and keeps what is returned no longer.
    pub(super) unsafe fn info<'a>(&self) -> &'a RunInfo<'static> {
        // SAFETY: **Running**.
        unsafe { &*self.info }
    }

    /// The meter. Nobody keeps a reference to it beyond a call of it: what a task calls may refill it, too.
    ///
    /// # Safety
    /// **Running**, as for [`Execution::info`].
    pub(super) unsafe fn meter(&self) -> &Meter<'static> {
        // SAFETY: **Running**; others read it only.
        unsafe { &*self.meter }
    }

    /// What the run may use.
    ///
    /// # Safety
    /// **Running**, as for [`Execution::info`].
    pub(crate) unsafe fn account<'a>(&self) -> &'a Account {
        // SAFETY: **Running**.
        unsafe { self.info() }.account
    }

    /// Instructions of the task that runs, along the longest way through its forks.
    ///
    /// # Safety
    /// **Running**, as for [`Execution::info`].
    pub(crate) unsafe fn span(&self) -> i64 {
        // SAFETY: **Running**.
        unsafe { self.meter() }.used(self.fuel) as i64 - self.span_start
    }

    /// Forgets what it ran with.
    pub(super) fn detach(&mut self) {
        (self.program, self.meter, self.info) = (std::ptr::null(), std::ptr::null_mut(), std::ptr::null());
    }
}

impl Worker {
    /// A worker whose heap and tape get their memory from a pool.
    pub(crate) fn new(slabs: &Arc<SlabPool>, extent: Extent) -> Self {
        Worker {
            stacks: Stacks::new(extent),
            exec: Execution::new(slabs),
            callers: Vec::new(),
            scratch: Gathered::default(),
            tapes: Vec::new(),
            sweep: None,
            free: Registers::NOWHERE,
            nested: 0,
        }
    }

    /// Begins a run, or a part of one.
    pub(crate) fn begin(&mut self, live_bytes_max: u64, depth_max: usize) {
        self.callers.clear();
        self.stacks.begin(live_bytes_max);
        let exec = &mut self.exec;
        exec.trace.clear();
        exec.lines.clear();
        exec.listens = false;
        (exec.live_bytes_max, exec.depth_max, exec.fuel) = (live_bytes_max, depth_max, 0);
        (exec.roots, exec.forked, exec.tasks, exec.span_start) = (self.stacks.refs.start(), false, 0, 0);
        (exec.in_task, exec.computes, exec.alone, exec.constant_work) = (false, false, false, 0);
        exec.host_digest = 0;
    }

    /// Gives back what a run took and the next one needn't have.
    pub(crate) fn release(&mut self) {
        self.exec.heap.release();
        self.exec.tape.release();
    }

    /// Gives back what the stacks have grown by. No run stands on them.
    pub(crate) fn shrink(&mut self) {
        self.stacks.shrink();
        (self.tapes, self.sweep) = (Vec::new(), None);
        self.callers = Vec::new();
    }

    /// Bytes of the stacks that this run has used.
    pub(crate) fn stack_bytes(&self) -> u64 {
        self.stacks.bytes
    }

    /// The bottoms of the stacks: where arguments of a run stand when it begins, and its results when it has ended.
    pub(crate) fn bottom(&self) -> Registers {
        self.stacks.bottom()
    }

    /// A new slice of fuel in place of one that has fallen to `left`.
    ///
    /// # Safety
    /// **Running**, as for [`Execution::info`].
    #[cold]
    pub(crate) unsafe fn refill(&mut self, left: i64) -> Result<i64, TrapKind> {
        // SAFETY: **Running**; no other reference to the meter lives while this one does.
        unsafe {
            let unwinding = self.unwinding();
            (*self.exec.meter).refill(left, unwinding)
        }
    }

    /// Whether the execution may go on, which it asks between two slices of fuel.
    ///
    /// # Safety
    /// **Running**, as for [`Execution::info`].
    #[cold]
    pub(super) unsafe fn poll(&self) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        unsafe { self.exec.meter().poll(self.unwinding()) }
    }

    /// How long it would take to leave all frames from here.
    ///
    /// # Safety
    /// **Running**, as for [`Execution::info`].
    #[inline]
    unsafe fn unwinding(&self) -> Duration {
        let in_use = || self.stacks.native.ground().bytes_in_use();
        // SAFETY: promised by the caller.
        unsafe { self.exec.account().unwinding(in_use, self.exec.forked) }
    }
}
