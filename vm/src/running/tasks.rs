//! Tasks: how forks and parallel maps run, on one thread or on many.
//!
//! An *execution* is what one [`Worker`] runs, with stacks, a heap and a tape writer of its own. A run begins with one.
//! A fork hands halves of its tasks to rayon; a half that another thread takes becomes an execution of its own, whose
//! heap and tapes the forking execution absorbs when both halves have ended, and all others run in the execution that
//! forked, on the same stacks, one after the other. So what a task costs doesn't depend on how many threads there are,
//! and a fork that nobody shares costs little more than calls.
//!
//! The outcome of a run is that of running all tasks from left to right:
//! - A task has its own tape whether it runs in parallel or not, and how a parallel map is divided depends on its
//!   length only. So the tree of tapes, and with it the order of all sums of the sweep, depends on the program alone.
//! - A trap makes what is to its right meaningless, which is told so ([`Halt`]), and waits for what is to its left: the
//!   leftmost trap counts.
//! - Whether a limit is reached may depend on the schedule. If one is while there are several executions, all stop, and
//!   the outermost fork runs again, on one execution. Programs are pure and a fork leaves no trace before it has ended,
//!   so that is the outcome of the run from left to right, but for slabs that several executions have begun in forks
//!   before. What counts of the stacks is the same after each task, whoever ran it.

mod stolen;

use super::constants;
use super::meter::Halt;
use super::registers::{Registers, roots};
use super::worker::Worker;
use crate::bytecode::isa::Bank;
use crate::bytecode::module::FuncId;
use crate::code::{Counts, ForkSite, MapSite, Mode};
use crate::memory::heap::{self, ARRAY_HEADER, LEN, Ref, Roots};
use crate::memory::stack::stack_pointer;
use crate::tape::{ForeignArray, ForkNode, Mark, Parked, TaskNode};
use crate::trap::{Limit, TrapKind};
use crate::word::Slot;
use stolen::{Ended, Waiting, run_stolen};

/// Tasks that an execution runs between two looks at the clock. Small ones take the time of hundreds of instructions
/// each, so that those of one slice of fuel may take tens of milliseconds.
const TASKS_BETWEEN_POLLS: u64 = 256;
/// A parallel map has at most this many tasks.
const MAP_TASKS_MAX: u64 = 256;
/// Where threads take halves from each other in turn, as in a long chain of forks, executions nest on the stacks of
/// executions that wait. From so many on, an execution offers halves of its forks to others only if its tasks are worth
/// it.
const NESTED_MAX: u32 = 16;
/// Instructions of a task that are worth it: about as long as it takes to hand it to another thread.
const GRAIN: i64 = 4000;

/// What a fork's tasks are.
#[derive(Clone, Copy, Debug)]
enum Tasks<'a> {
    Fork(&'a ForkSite),
    Map { site: &'a MapSite, count: u64, tasks: u64 },
}

/// A fork that is running, as its tasks see it.
///
/// What unsafe functions here call a *running fork*: its arguments stand in their places, of the parameters' types, and
/// nobody writes to them before it has ended; there are places for the results of all tasks, into which each task
/// writes its own; all of these are places of the execution that forked, which waits for the fork. If it is recorded,
/// the nodes are its tasks' on the tape of the task that forked.
#[derive(Clone, Copy, Debug)]
struct Fork<'a> {
    tasks: Tasks<'a>,
    /// Arguments of all tasks, side by side.
    args: Registers,
    /// Room for the results of all tasks, side by side.
    results: Registers,
    /// Where frames begin that stand on the same stacks.
    above: Registers,
    /// Frames that tasks may nest.
    remaining: usize,
    /// The tasks' tapes, if they are recorded.
    nodes: *mut TaskNode,
    mode: Mode,
    /// Whether it belongs to a derivative operator, whose tapes go before the run ends.
    inner: bool,
    /// Whether the host listens to what its tasks trace.
    listens: bool,
}

// SAFETY: tasks read arguments that nobody writes, and write their own results and nodes.
unsafe impl Send for Fork<'_> {}
// SAFETY: as for `Send`: tasks share the fork itself, and do no more with it.
unsafe impl Sync for Fork<'_> {}

impl Fork<'_> {
    fn count(&self) -> usize {
        match self.tasks {
            Tasks::Fork(site) => site.tasks.len(),
            Tasks::Map { tasks, .. } => tasks as usize,
        }
    }

    /// The range of numbers of a task of a parallel map: from the n-th part of the count, rounded down, to the next.
    fn range(n: usize, count: u64, tasks: u64) -> [i64; 2] {
        let (each, rest) = (count / tasks, count % tasks);
        // Nothing overflows: there are few tasks.
        let at = |n: u64| (n * each + n * rest / tasks) as i64;
        [at(n as u64), at(n as u64 + 1)]
    }

    /// Where the arguments and the results of a task begin, and how many there are of each.
    #[inline]
    fn task(&self, n: usize) -> (FuncId, Registers, Counts, Registers, Counts) {
        match self.tasks {
            Tasks::Fork(site) => {
                let task = &site.tasks[n];
                let (args, results) = (task.uses.counts(), task.defs.counts());
                (task.func, self.args.after(&task.args_at), args, self.results.after(&task.results_at), results)
            }
            Tasks::Map { site, .. } => {
                let results = self.results.after(&Counts { refs: n, ..Counts::default() });
                (site.func, self.args, site.args, results, Counts { refs: 1, ..Counts::default() })
            }
        }
    }
}

/// Lets both halves of a fork run in the execution that forked.
#[derive(Clone, Copy)]
struct Here(*mut Worker);

// SAFETY: a half that another thread takes doesn't use it, and those of the same thread run one after the other.
unsafe impl Send for Here {}
// SAFETY: as for `Send`: what is shared is the pointer.
unsafe impl Sync for Here {}

impl Here {
    fn get(self) -> *mut Worker {
        self.0
    }
}

/// An execution's state before its first fork, to which a run goes back that starts over.
pub(super) struct Before {
    /// Fuel of the run and of the execution.
    used: u64,
    used_here: u64,
    heap: heap::Mark,
    allocated_max: u64,
    rerun_allocated: u64,
    mark: Mark,
    tasks: u64,
    host_digest: u64,
    span_start: i64,
    lines: usize,
    constants: Option<constants::Mark>,
    constant_work: u64,
}

impl Worker {
    /// Runs a fork. The arguments of its tasks stand at `args`, side by side; the results will stand behind them.
    ///
    /// # Safety
    /// **Running**; the arguments are of the parameters' types; there is nothing above them that is still in use.
    /// `remaining` is how many frames may nest above.
    #[inline(never)]
    pub(crate) unsafe fn fork(&mut self, site: &ForkSite, args: Registers, remaining: usize) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        unsafe { self.run_fork(Tasks::Fork(site), args, &site.args, &site.results, remaining) }.map(|_| ())
    }

    /// Runs a parallel map over the numbers below `count`. The arguments that its tasks share stand at `args`.
    ///
    /// # Safety
    /// As [`Worker::fork`]; references below the arguments are roots.
    #[inline(never)]
    pub(crate) unsafe fn parallel_map(
        &mut self,
        site: &MapSite,
        count: i64,
        args: Registers,
        remaining: usize,
    ) -> Result<Ref, TrapKind> {
        let count = u64::try_from(count).map_err(|_| TrapKind::BadCapacity(count))?;
        let tasks = count.min(MAP_TASKS_MAX);
        let results = Counts { refs: tasks as usize, ..Counts::default() };
        let mut first = Slot::NONE;
        if tasks > 0 {
            let tasks = Tasks::Map { site, count, tasks };
            // SAFETY: promised by the caller.
            first = unsafe { self.run_fork(tasks, args, &site.args, &results, remaining)? };
        }
        // SAFETY: the tasks have left arrays there, and everything below is initialised.
        unsafe {
            let arrays = args.after(&site.args).refs;
            if self.exec.mode.depth() > 0 {
                return Ok(self.join_deep(site.element, arrays, tasks as usize)?);
            }
            let len = (0..tasks as usize).map(|n| *(*arrays.add(n)).add(LEN) as usize).sum::<usize>();
            let frames = roots(self.exec.roots, arrays.add(tasks as usize));
            let roots = Roots { frames, kept: Some(self.exec.tape.kept()) };
            let header = heap::array_header(site.element);
            let array = self.exec.heap.allocate(header, ARRAY_HEADER + len, self.stacks.bytes, roots)?;
            *array.add(LEN) = len as u64;
            heap::set_first(array, first);
            let mut active = !first.is_none();
            let mut to = array.add(ARRAY_HEADER);
            for n in 0..tasks as usize {
                let part = *arrays.add(n);
                let len = *part.add(LEN) as usize;
                to.copy_from_nonoverlapping(heap::elements(part), len);
                to = to.add(len);
                active |= site.element == Bank::Ref && !heap::owner_of(part).is_nobody();
            }
            if self.exec.mode.is_recording() && active {
                heap::set_owner(array, self.exec.tape.owner());
            }
            Ok(array)
        }
    }

    /// Runs tasks. Their results stand behind the arguments. Returns the first slot of the array that a parallel map's
    /// results become parts of; none if there is no such array.
    ///
    /// # Safety
    /// As [`Worker::fork`]; the counts are those of the tasks' arguments and results.
    #[inline(never)]
    unsafe fn run_fork(
        &mut self,
        tasks: Tasks<'_>,
        args: Registers,
        arg_counts: &Counts,
        result_counts: &Counts,
        remaining: usize,
    ) -> Result<Slot, TrapKind> {
        let results = args.after(arg_counts);
        let above = results.after(result_counts);
        let recording = self.exec.mode.is_recording();
        // Frames have their room above what is handed over.
        if above.reals > self.stacks.reals.end()
            || above.ints > self.stacks.ints.end()
            || above.refs > self.stacks.refs.end()
            || (recording && above.words > self.stacks.words.end())
        {
            let words = if recording { above.words } else { std::ptr::null_mut() };
            self.grow(&Registers { words, ..above })?;
        }
        let here = stack_pointer();
        if here < self.stacks.native_limit {
            self.grow_native(here)?;
        }
        let (nodes, mode, inner) = (std::ptr::null_mut(), self.exec.mode, self.exec.tape.is_inner());
        let listens = self.exec.listens;
        let fork = Fork { tasks, args, results, above, remaining, nodes, mode, inner, listens };
        // SAFETY: promised by the caller.
        unsafe {
            if self.exec.forked || !self.exec.info().is_parallel() {
                self.attempt(fork)
            } else {
                self.run_outermost(fork)
            }
        }
    }

    /// Runs a fork with other executions, and once more without them if a limit was reached. A frame of its own,
    /// because forks nest and this one doesn't.
    ///
    /// # Safety
    /// As [`Worker::attempt`].
    #[cold]
    #[inline(never)]
    unsafe fn run_outermost(&mut self, fork: Fork<'_>) -> Result<Slot, TrapKind> {
        // SAFETY: promised by the caller.
        let (info, before) = unsafe { (self.exec.info(), self.open()) };
        // SAFETY: promised by the caller.
        let outcome = unsafe { self.attempt(fork) };
        if let Err(kind) = &outcome {
            // A limit of this execution's own, when it takes over results.
            info.account.stop_all(kind);
        }
        // SAFETY: promised by the caller.
        unsafe { self.close(&before) };
        if !info.account.is_stopped() {
            // SAFETY: promised by the caller.
            return unsafe { self.show_kept() }.and(outcome);
        }
        if let Some(kind) = info.account.abandoned() {
            // SAFETY: promised by the caller.
            return unsafe { self.show_kept() }.and(Err(kind));
        }
        // SAFETY: promised by the caller; the arguments are still there.
        unsafe {
            self.start_over(&before);
            self.attempt(fork)
        }
    }

    /// Begins a stretch with several executions.
    ///
    /// # Safety
    /// **Running**.
    pub(super) unsafe fn open(&mut self) -> Before {
        // SAFETY: promised by the caller.
        let (account, used_here) = unsafe { (self.exec.account(), self.exec.meter().used(self.exec.fuel)) };
        let allocated = self.exec.heap.allocated();
        let allocated_max = self.exec.heap.allocated_max();
        self.exec.heap.set_allocated_max(allocated);
        account.open(
            allocated_max - allocated,
            self.exec.heap.held_by_all() + self.stacks.bytes,
            self.exec.tape.held(),
        );
        self.exec.heap.share(true);
        self.exec.tape.share(true);
        self.exec.forked = true;
        Before {
            used: account.used(self.exec.fuel),
            used_here,
            heap: self.exec.heap.mark(),
            allocated_max,
            rerun_allocated: account.rerun_allocated(),
            mark: self.exec.tape.mark(),
            tasks: self.exec.tasks,
            host_digest: self.exec.host_digest,
            span_start: self.exec.span_start,
            lines: self.exec.lines.len(),
            // SAFETY: promised by the caller.
            constants: unsafe { self.exec.info() }.constants.mark(),
            constant_work: self.exec.constant_work,
        }
    }

    /// Ends a stretch with several executions.
    ///
    /// # Safety
    /// **Running**.
    pub(super) unsafe fn close(&mut self, before: &Before) {
        self.exec.forked = false;
        self.exec.heap.share(false);
        self.exec.tape.share(false);
        // SAFETY: promised by the caller.
        let (info, account) = unsafe { (self.exec.info(), self.exec.account()) };
        // Lines of a constant go on waiting; all others are shown now, or forgotten.
        let waiting = if self.exec.computes { self.exec.lines.bytes() } else { 0 };
        self.exec.heap.set_beside(info.constants.held() + waiting);
        let by_reruns = account.rerun_allocated() - before.rerun_allocated;
        self.exec.heap.set_allocated_max(before.allocated_max.saturating_sub(by_reruns));
    }

    /// Goes back to before the fork, and on without other executions.
    ///
    /// # Safety
    /// **Running**.
    #[cold]
    pub(super) unsafe fn start_over(&mut self, before: &Before) {
        // SAFETY: promised by the caller; no other reference to the meter lives.
        let info = unsafe {
            (*self.exec.meter).rewind(before.used_here);
            self.exec.info()
        };
        info.run_alone();
        info.account.start_over(before.used, before.rerun_allocated);
        self.exec.heap.set_allocated_max(before.allocated_max);
        self.exec.fuel = 0;
        self.exec.heap.cut(&before.heap);
        // SAFETY: the task that forked has gone on from the fork, which has failed.
        unsafe { self.exec.tape.cut(&before.mark) };
        self.exec.trace.clear();
        self.exec.lines.truncate(before.lines);
        // SAFETY: the other executions have ended; what they and this one have made since is gone.
        unsafe { info.constants.cut(&before.constants) };
        self.exec.heap.set_beside(info.constants.held() + self.exec.lines.bytes());
        self.exec.constant_work = before.constant_work;
        (self.exec.tasks, self.exec.span_start) = (before.tasks, before.span_start);
        self.exec.host_digest = before.host_digest;
    }

    /// Runs tasks and puts the fork on the tape.
    ///
    /// # Safety
    /// **Running**; it is a fork of this execution, but for the nodes, and nothing above it on the stacks is in use.
    #[inline(never)]
    unsafe fn attempt(&mut self, mut fork: Fork<'_>) -> Result<Slot, TrapKind> {
        let mut on_tape: Option<(Parked, *mut ForkNode)> = None;
        if fork.mode.is_recording() {
            let (parked, node) = self.exec.tape.park(fork.count())?;
            // SAFETY: the node was made just now.
            fork.nodes = unsafe { (*node).tasks };
            on_tape = Some((parked, node));
        }
        // SAFETY: promised by the caller.
        let (span, mut outcome) = unsafe { (self.exec.span(), self.run_tasks(&fork, 0, fork.count(), fork.above)) };
        let mut first = Slot::NONE;
        if let Some((parked, node)) = on_tape {
            self.exec.tape.resume(parked);
            if outcome.is_ok() {
                // SAFETY: all tasks have ended, and what their executions wrote was absorbed.
                unsafe {
                    first = self.take_results(&fork)?;
                    self.exec.tape.join(node)?;
                }
            }
            if let Err(kind) = &mut outcome {
                // SAFETY: the tasks' tapes stay until the run ends; the node is that of the fork.
                unsafe { self.follow_outwards(kind, (*node).before, |_, _| None) };
            }
        }
        let longest = outcome?;
        // SAFETY: promised by the caller.
        let used = unsafe { self.exec.meter().used(self.exec.fuel) };
        self.exec.span_start = used as i64 - (span + longest);
        Ok(first)
    }

    /// Gives the active results of tasks slots of the task that forked them. Returns as [`Worker::run_fork`].
    ///
    /// # Safety
    /// It is a running fork of this execution that is recorded, and all of its tasks have ended well.
    unsafe fn take_results(&mut self, fork: &Fork<'_>) -> Result<Slot, Limit> {
        // SAFETY: the tasks have left their results there, with words of their own tapes.
        unsafe {
            match fork.tasks {
                Tasks::Fork(site) => {
                    for (n, task) in site.tasks.iter().enumerate() {
                        let words = fork.results.words.add(task.results_at.reals);
                        self.exec.tape.take_results(fork.nodes.add(n), words, task.defs.reals.len())?;
                    }
                }
                // Their elements are imported, component by component.
                Tasks::Map { .. } if fork.mode.depth() > 0 => {}
                Tasks::Map { site, tasks, .. } if site.element == Bank::Real => {
                    let ranges = (0..tasks as usize).map(|n| &mut (*fork.nodes.add(n)).range);
                    if ranges.clone().all(|range| range.child.is_none()) {
                        return Ok(Slot::NONE);
                    }
                    let len = ranges.clone().map(|range| u64::from(range.len)).sum();
                    let first = self.exec.tape.reserve_slots(len)?;
                    let mut next = first;
                    for range in ranges {
                        range.parent = next;
                        next = next.offset(range.len);
                    }
                    return Ok(first);
                }
                Tasks::Map { .. } => {}
            }
        }
        Ok(Slot::NONE)
    }

    /// Runs the tasks from `start` to `end`, with frames from `base` on. Returns the instructions of the longest one.
    ///
    /// # Safety
    /// **Running**; the fork runs, too, in this execution or in another one; it has these tasks, which nobody else
    /// runs. `base` is a place on this execution's stacks, above which nothing is in use.
    unsafe fn run_tasks(
        &mut self,
        fork: &Fork<'_>,
        start: usize,
        end: usize,
        base: Registers,
    ) -> Result<i64, TrapKind> {
        // SAFETY: promised by the caller.
        let info = unsafe { self.exec.info() };
        let alone = self.exec.alone || !info.is_parallel();
        if end - start == 1 || alone || (self.nested >= NESTED_MAX && self.exec.last_leaf < GRAIN) {
            let mut longest = 0;
            for n in start..end {
                // SAFETY: promised by the caller.
                longest = longest.max(unsafe { self.run_task(fork, n, base) }?);
            }
            return Ok(longest);
        }
        // SAFETY: promised by the caller.
        unsafe { self.run_halves(fork, start, end, base) }
    }

    /// Runs the tasks from `start` to `end`, which are several, half by half. A frame of its own, because forks nest.
    ///
    /// # Safety
    /// As [`Worker::run_tasks`].
    #[inline(never)]
    unsafe fn run_halves(
        &mut self,
        fork: &Fork<'_>,
        start: usize,
        end: usize,
        base: Registers,
    ) -> Result<i64, TrapKind> {
        // SAFETY: promised by the caller.
        let (info, outer) = unsafe { (self.exec.info(), self.exec.meter().halt) };
        let middle = start + (end - start) / 2;
        let halt = Halt::new(outer);
        // All that happens before the fork has ended reaches the worker through this pointer, one after the other: the
        // halves that run here, and executions that borrow its stacks while it waits.
        let worker: *mut Worker = self;
        // SAFETY: the execution outlives its wait, and `self` isn't used before that has ended.
        let waiting = unsafe { Waiting::begin(worker, base) };
        let here = Here(worker);
        let base = Base(base);
        let (left, right) = rayon::join_context(
            |_| {
                // SAFETY: the execution runs this half first; the other one runs in it afterwards or not at all.
                let outcome = unsafe { (*here.get()).run_tasks(fork, start, middle, base.get()) };
                if outcome.is_err() {
                    halt.halt();
                }
                outcome
            },
            |context| {
                if halt.is_halted() || info.account.is_stopped() {
                    (Err(TrapKind::Cancelled), None)
                } else if context.migrated() {
                    // SAFETY: the arguments stay in their places until the fork has ended.
                    unsafe { run_stolen(info, fork, middle, end, &halt) }
                } else {
                    // SAFETY: the left half has ended, and this thread waits for nobody.
                    (unsafe { (*here.get()).run_tasks(fork, middle, end, base.get()) }, None)
                }
            },
        );
        drop(waiting);
        self.join_halves(left, right)
    }

    /// The outcome of two halves: the left one's trap counts. Takes over what the execution of the right one has left.
    #[inline(never)]
    fn join_halves(
        &mut self,
        left: Result<i64, TrapKind>,
        (right, ended): (Result<i64, TrapKind>, Option<Box<Ended>>),
    ) -> Result<i64, TrapKind> {
        if let Some(ended) = ended {
            self.absorb(*ended, left.is_ok(), right.is_err());
        }
        Ok(left?.max(right?))
    }

    /// Runs a task, with frames from `base` on. Returns how many instructions it takes along the longest way.
    ///
    /// # Safety
    /// As [`Worker::run_tasks`], for this task.
    #[inline(never)]
    unsafe fn run_task(&mut self, fork: &Fork<'_>, n: usize, base: Registers) -> Result<i64, TrapKind> {
        let (func, args, arg_counts, results, result_counts) = fork.task(n);
        let rooms = self.stacks.rooms();
        let floor = self.exec.heap.raise_floor();
        let kept = fork.mode.is_recording().then(|| self.exec.tape.raise_floor());
        let roots = std::mem::replace(&mut self.exec.roots, base.refs);
        // SAFETY: promised by the caller.
        let (info, now) = unsafe { (self.exec.info(), self.exec.meter().used(self.exec.fuel) as i64) };
        let span_start = std::mem::replace(&mut self.exec.span_start, now);
        let in_task = std::mem::replace(&mut self.exec.in_task, true);
        self.exec.tasks += 1;
        let tasks_before = self.exec.tasks;
        // SAFETY: promised by the caller; what is handed over fits in the margin behind the room of a bank.
        let outcome = unsafe {
            let mut to = base;
            if let Tasks::Map { count, tasks, .. } = fork.tasks {
                let range = Fork::range(n, count, tasks);
                to.ints.cast::<[i64; 2]>().write(range);
                to.ints = to.ints.add(range.len());
            }
            args.copy_to(&to, &arg_counts, false);
            let node = fork.nodes.wrapping_add(n);
            let begun = if fork.mode.is_recording() {
                self.exec.tape.begin_task(node, args.words, base.words, arg_counts.reals)
            } else {
                Ok(())
            };
            let polled = if tasks_before.is_multiple_of(TASKS_BETWEEN_POLLS) { self.poll() } else { Ok(()) };
            begun.map_err(TrapKind::from).and(polled).and_then(|()| {
                self.run_callee(func, base, fork.remaining)?;
                if fork.mode.is_recording() {
                    self.end_task(fork, node, base)?;
                }
                base.copy_to(&results, &result_counts, fork.mode.is_recording());
                Ok(self.exec.span())
            })
        };
        if let Ok(span) = outcome
            && self.exec.tasks == tasks_before
        {
            self.exec.last_leaf = span;
        }
        (self.exec.span_start, self.exec.in_task) = (span_start, in_task);
        self.exec.roots = roots;
        self.leave_rooms(&rooms);
        self.exec.heap.restore_floor(floor);
        if let Some(kept) = kept {
            self.exec.tape.restore_floor(kept);
        }
        if let Err(kind) = &outcome
            && info.is_parallel()
        {
            info.account.stop_all(kind);
        }
        outcome
    }

    /// Ends the tape of a task whose results stand at `base`.
    ///
    /// # Safety
    /// It is a task of a running fork that is recorded, its function has returned, and the tape is the one that it
    /// began there.
    unsafe fn end_task(&mut self, fork: &Fork<'_>, node: *mut TaskNode, base: Registers) -> Result<(), Limit> {
        // SAFETY: promised by the caller.
        unsafe {
            if let Tasks::Map { site: MapSite { element: Bank::Real, .. }, .. } = fork.tasks
                && fork.mode.depth() == 0
            {
                let array = *base.refs;
                let (owner, first, len) = (heap::owner_of(array), heap::first_of(array), *array.add(LEN));
                let local = if first.is_none() || owner == self.exec.tape.owner() || len == 0 {
                    if len == 0 { Slot::NONE } else { first }
                } else {
                    self.exec.tape.import_array(ForeignArray { owner, first, len: len as u32 })?
                };
                // More elements than there are slots: the parent will have no room for them.
                ((*node).range.child, (*node).range.len) = (local, u32::try_from(len).unwrap_or(u32::MAX));
            }
            self.exec.tape.end_task();
            (*node).span = self.exec.span() as u64;
        }
        Ok(())
    }
}

/// Places of registers that both halves of a fork know.
#[derive(Clone, Copy)]
struct Base(Registers);

// SAFETY: a half that another thread takes doesn't use it, and those of the same thread run one after the other.
unsafe impl Send for Base {}
// SAFETY: as for `Send`: what is shared are the pointers.
unsafe impl Sync for Base {}

impl Base {
    fn get(&self) -> Registers {
        self.0
    }
}
