//! The sweep of a tree of tapes: forks become joins and joins become forks.
//!
//! A task's sweep begins with what is known of its slots: adjoints of its results, which it reads from its suspended
//! parent, and what others owe it ([`super::debts`]). It ends with the adjoints of its captures, which the parent
//! adds to its own when all tasks of the fork have been swept, task by task.
//!
//! Which halves of a fork are swept at the same time doesn't matter to any sum. The heavier half goes first, because
//! what travels upwards from it waits for the other half.
//!
//! In comparison to one array of adjoints for all tasks with atomic additions (Smeding and Vákár 2024, section 12): no
//! renaming of slots, no contention, the same bits in every run. A prototype with the same records took 48 ms on one
//! thread and 24 on two, against 98 and 48 with compare-and-swap, at 1,000 operations per task; with 8 parameters that
//! all tasks share, 65 and 36 against 96 and 295. Atomics win where tasks have two operations (50 and 28 against 40
//! and 23), and where each import has an owner of its own (64 and 40 against 15 and 13).

use super::debts::{Debts, Inboxes, Pending};
use super::{Buffers, OpenTask, Sweep, Sweeps, are_zero};
use crate::memory::prefetch::prefetch;
use crate::running::meter::Account;
use crate::running::program::Program;
use crate::running::workers::RunInfo;
use crate::tape::{ForkNode, TaskNode};
use crate::trap::TrapKind;
use std::cell::Cell;
use std::ptr;

/// What a fork of tiny tasks takes on the tape, about, with its tasks and their records.
const FORK_BYTES: usize = 640;
/// A half of a fork is handed to another thread if its sweep takes at least so many instructions.
const GRAIN: u64 = 4000;

/// What all parts of a sweep know.
#[derive(Debug)]
pub(super) struct SweepRun<'a> {
    pub(super) program: &'a Program,
    pub(super) account: &'a Account,
    pub(super) info: &'a RunInfo<'a>,
    pub(super) inboxes: Inboxes<'a>,
    pub(super) buffers: &'a Buffers,
    /// Where other threads get their memory from; `None` if there are none.
    pub(super) sweeps: Option<&'a Sweeps>,
}

/// Lets two halves of a fork use what the fork made for both.
struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: the halves write to different parts of it, or use it one after the other.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as for `Send`: what is shared is the pointer.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn get(self) -> *mut T {
        self.0
    }
}

thread_local! {
    /// The memory of the sweep that waits on this thread for a half of a fork, the last one if there are several.
    static WAITING: Cell<*mut Sweep> = const { Cell::new(std::ptr::null_mut()) };
}

/// Some of a fork's tasks: the first one, the end, and where the adjoints of their captures go.
type Half = (usize, usize, Shared<f64>);

/// The tasks of a fork that are being swept.
#[derive(Clone, Copy)]
struct Tasks<'a> {
    nodes: &'a [TaskNode],
    /// The adjoints of the parent.
    parent: Shared<f64>,
}

// SAFETY: nodes don't change once the run has ended, and nobody writes to the adjoints of a parent that waits.
unsafe impl Send for Tasks<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for Tasks<'_> {}

impl Sweep {
    /// Sweeps a task, whose adjoints of captures go to `captures`. Returns what it and the tasks below it owe to its
    /// ancestors and to tasks below these.
    ///
    /// # Safety
    /// The node is a task of the run, which nobody else sweeps. Its parent is suspended, `parent` is where that one's
    /// adjoints begin, and nobody writes to them meanwhile. There are cells for the captures.
    unsafe fn task<'a>(
        &mut self,
        run: &SweepRun<'a>,
        node: &'a TaskNode,
        parent: *const f64,
        captures: *mut f64,
    ) -> Result<Pending<'a>, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let stages = &run.inboxes.stages;
            stages.begin(node);
            if run.inboxes.is_empty() && is_idle(node, parent) {
                // Nothing flows back, as for a record.
                stages.end(node);
                captures.write_bytes(0, node.captures_len as usize);
                return Ok(Pending::default());
            }
            let mut frame = self.open_frame(run, node)?;
            for &[child, slot] in node.results() {
                frame.add(child, *parent.add(slot.index()));
            }
            if !node.range.child.is_none() {
                let range = parent.add(node.range.parent.index());
                frame.add_range(node.range.child, std::slice::from_raw_parts(range, node.range.len as usize));
            }
            if !run.inboxes.is_empty()
                && let Some(inbox) = run.inboxes.take(node.index)
            {
                inbox.empty(&mut frame);
            }
            let swept = self.records(run, &mut frame);
            captures.copy_from_nonoverlapping(frame.adjoints.add(1), node.captures_len as usize);
            let debts = self.close_frame(frame, run.buffers);
            swept?;
            stages.end(node);
            Ok(debts.pending)
        }
    }

    /// Sweeps the tasks of a fork of the frame's task.
    ///
    /// # Safety
    /// The frame is that of a task of the run, in control, and the fork one of that task, which has not been swept.
    pub(super) unsafe fn fork<'a>(
        &mut self,
        run: &SweepRun<'a>,
        frame: &mut OpenTask<'a>,
        fork: &ForkNode,
    ) -> Result<(), TrapKind> {
        // Forks stand in memory in the order in which they are swept, but for those whose later half is the heavier
        // one. Trees of tiny tasks are larger than any cache, and lead from one to the next. One fork more is on its
        // way when this one has been swept.
        prefetch(ptr::from_ref(fork).cast::<u8>().wrapping_add(2 * FORK_BYTES), FORK_BYTES);
        // SAFETY: the run has ended, so the tree is complete.
        let nodes = unsafe { fork.tasks() };
        let captured: usize = nodes.iter().map(|node| node.captures_len as usize).sum();
        let captures = self.open_cells(captured)?;
        let tasks = Tasks { nodes, parent: Shared(frame.adjoints) };
        run.inboxes.stages.suspend(frame.node);
        // SAFETY: the frame's task waits; there are cells for all captures.
        let below = unsafe { self.halves(run, tasks, 0, nodes.len(), Shared(captures)) };
        self.close_cells(captured);
        let mut below = below?;
        // SAFETY: the tasks have left adjoints there; their captures are slots of the frame's task.
        unsafe {
            let mut kept = captures.cast_const();
            for node in nodes {
                for &slot in node.captures() {
                    frame.add(slot, *kept);
                    kept = kept.add(1);
                }
            }
        }
        run.inboxes.stages.resume(frame.node, nodes);
        if !below.is_empty() {
            // SAFETY: the frame's task is in control again.
            unsafe { below.settle(frame, &run.inboxes) };
            let mine = std::mem::take(&mut frame.debts.pending);
            frame.debts.pending = mine.merge(below);
        }
        Ok(())
    }

    /// Sweeps the tasks from `start` to `end`, whose captures' adjoints go to `captures`, side by side.
    ///
    /// # Safety
    /// As [`Sweep::task`], for each of them.
    unsafe fn halves<'a>(
        &mut self,
        run: &SweepRun<'a>,
        tasks: Tasks<'a>,
        start: usize,
        end: usize,
        captures: Shared<f64>,
    ) -> Result<Pending<'a>, TrapKind> {
        if end - start == 1 {
            self.make_room()?;
            // SAFETY: promised by the caller.
            return unsafe { self.task(run, &tasks.nodes[start], tasks.parent.get(), captures.get()) };
        }
        let middle = start + (end - start) / 2;
        let (left, right) = (&tasks.nodes[start..middle], &tasks.nodes[middle..end]);
        let left_captures: usize = left.iter().map(|node| node.captures_len as usize).sum();
        let weight = |nodes: &[TaskNode]| nodes.iter().map(|node| u64::from(node.weight)).sum::<u64>();
        let (left_weight, right_weight) = (weight(left), weight(right));
        let left: Half = (start, middle, captures);
        // SAFETY: the left half's cells come first.
        let right: Half = (middle, end, Shared(unsafe { captures.get().add(left_captures) }));
        // What traps first is what counts where everything is looked at: the leftmost.
        let left_first = left_weight >= right_weight || run.program.is_checked();
        let (first, second) = if left_first { (left, right) } else { (right, left) };
        let sweeps = run.sweeps.filter(|_| left_weight.min(right_weight) >= GRAIN);
        let (first, second) = match sweeps {
            None => {
                // SAFETY: promised by the caller.
                let first = unsafe { self.halves(run, tasks, first.0, first.1, first.2) }?;
                // SAFETY: promised by the caller.
                let second = unsafe { self.halves(run, tasks, second.0, second.1, second.2) }?;
                (first, second)
            }
            // SAFETY: promised by the caller; the halves have different tasks and different cells.
            Some(sweeps) => unsafe { self.both(run, sweeps, tasks, first, second) }?,
        };
        Ok(if left_first { first.merge(second) } else { second.merge(first) })
    }

    /// Sweeps two halves at the same time, if another thread takes the second. A frame of its own, because forks nest.
    ///
    /// # Safety
    /// As [`Sweep::task`], for each task of both.
    #[inline(never)]
    unsafe fn both<'a>(
        &mut self,
        run: &SweepRun<'a>,
        sweeps: &Sweeps,
        tasks: Tasks<'a>,
        first: Half,
        second: Half,
    ) -> Result<(Pending<'a>, Pending<'a>), TrapKind> {
        self.poll(run)?;
        let here = Shared(&raw mut *self);
        // While this sweep waits for the second half, the thread may sweep others, with the same memory: it can't go
        // on before they have ended. All of them reach the memory through this pointer, one after the other.
        let before = WAITING.replace(here.get());
        let (one, (other, mut trace)) = rayon::join_context(
            // SAFETY: promised by the caller. This half uses the memory first; the other one does afterwards or not at
            // all.
            |_| unsafe { (*here.get()).halves(run, tasks, first.0, first.1, first.2) },
            |context| {
                let waiting = if context.migrated() { WAITING.get() } else { here.get() };
                // SAFETY: whoever waits on this thread, this execution if nobody has taken the half, is used by nobody
                // else until this returns. The pointer is the one that it goes by meanwhile.
                if !waiting.is_null() && unsafe { (*waiting).is_here() } {
                    // SAFETY: promised by the caller; nobody else uses it, as was just said.
                    return unsafe {
                        let known = std::mem::take(&mut (*waiting).trace);
                        let outcome = (*waiting).halves(run, tasks, second.0, second.1, second.2);
                        (outcome, std::mem::replace(&mut (*waiting).trace, known))
                    };
                }
                let mut other = sweeps.take();
                // SAFETY: promised by the caller.
                let outcome =
                    other.on_native_stack(|sweep| unsafe { sweep.halves(run, tasks, second.0, second.1, second.2) });
                let trace = std::mem::take(&mut other.trace);
                sweeps.put_back(other);
                (outcome, trace)
            },
        );
        WAITING.set(before);
        // If both have stopped, the first one counts, with its frames.
        let one = one?;
        if other.is_err() {
            self.keep_trace(&mut trace);
        }
        Ok((one, other?))
    }

    /// A frame for a task, all of whose adjoints are zero.
    #[inline(always)]
    pub(super) fn open_frame<'a>(&mut self, run: &SweepRun<'a>, node: &'a TaskNode) -> Result<OpenTask<'a>, TrapKind> {
        let len = node.slots as usize;
        run.account.time_to_fill(8 * len)?;
        let adjoints = self.open_cells(len)?;
        run.buffers.opened(len);
        // SAFETY: so many cells were opened.
        unsafe { adjoints.write_bytes(0, len) };
        Ok(OpenTask { node, adjoints, len, debts: Debts::default() })
    }

    /// Gives a frame's memory back. Returns what its task owes.
    pub(super) fn close_frame<'a>(&mut self, frame: OpenTask<'a>, buffers: &Buffers) -> Debts<'a> {
        self.close(&frame, buffers);
        frame.debts
    }

    /// Gives a frame's memory back.
    #[inline]
    pub(super) fn close(&mut self, frame: &OpenTask<'_>, buffers: &Buffers) {
        // A sweep that is stopped in the middle of a loop leaves what the loop imported. Another one, maybe of another
        // run, goes on with this memory.
        self.loop_imports.clear();
        self.scattered.clear();
        self.close_cells(frame.len);
        buffers.closed(frame.len);
    }
}

/// Whether nothing flows into a task whose slots nobody else imports.
///
/// # Safety
/// As [`Sweep::task`].
unsafe fn is_idle(node: &TaskNode, parent: *const f64) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        let results = node.results().iter().all(|&[_, slot]| *parent.add(slot.index()) == 0.0);
        let range = || std::slice::from_raw_parts(parent.add(node.range.parent.index()), node.range.len as usize);
        results && (node.range.child.is_none() || are_zero(range()))
    }
}
