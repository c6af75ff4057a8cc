//! Tasks: how forks and parallel maps run, on one thread or on many.
//!
//! A *strand* is what one [`Interp`] runs, with stacks, a heap and a tape writer of its own. A run begins with one. A
//! fork hands halves of its tasks to rayon; a half that another thread takes becomes a strand of its own, whose heap
//! and tapes the forking strand absorbs when both halves have ended, and all others run in the strand that forked, on
//! the same stacks, one after the other. So what a task costs doesn't depend on how many threads there are, and a fork
//! that nobody shares costs little more than calls.
//!
//! The outcome of a run is that of running all tasks from left to right:
//! - A task has its own tape whether it runs in parallel or not, and how a parallel map is divided depends on its
//!   length only. So the tree of tapes, and with it the order of all sums of the sweep, depends on the program alone.
//! - A trap makes what is to its right meaningless, which is told so ([`Halt`]), and waits for what is to its left: the
//!   leftmost trap counts.
//! - Whether a limit is reached may depend on the schedule. If one is while there are several strands, all stop, and
//!   the outermost fork runs again, on one strand. Programs are pure and a fork leaves no trace before it has ended, so
//!   that is the outcome of the run from left to right.

use super::trace::Trace;
use super::{Interp, Registers};
use crate::bytecode::isa::Bank;
use crate::bytecode::module::FuncId;
use crate::code::{Counts, ForkSite, MapSite, Mode};
use crate::embedding::engine::{Engine, Limits};
use crate::memory::heap::{self, ARRAY_HEADER, Heap, LEN, Ref, Roots};
use crate::memory::stack::stack_pointer;
use crate::running::meter::{Account, Halt, Meter};
use crate::running::program::Program;
use crate::tape::{self, ForeignArray, ForkNode, Parked, Tape, TaskNode};
use crate::trap::{Limit, TrapKind};
use crate::word::Slot;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A parallel map has at most this many tasks.
const MAP_TASKS_MAX: u64 = 256;
/// Where threads take halves from each other in turn, as in a long chain of forks, strands nest on the stacks of
/// strands that wait. From so many on, a strand offers halves of its forks to others only if its tasks are worth it.
const NESTED_MAX: u32 = 16;
/// Instructions of a task that are worth it: about as long as it takes to hand it to another thread.
const GRAIN: i64 = 4000;

/// What all strands of a run know.
#[derive(Debug)]
pub(crate) struct Crew<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) account: &'a Account,
    pub(crate) program: &'a Program,
    pub(crate) limits: &'a Limits,
    /// Whether forks run in parallel.
    parallel: AtomicBool,
}

impl<'a> Crew<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        account: &'a Account,
        program: &'a Program,
        limits: &'a Limits,
        parallel: bool,
    ) -> Self {
        Crew { engine, account, program, limits, parallel: AtomicBool::new(parallel) }
    }

    fn is_parallel(&self) -> bool {
        self.parallel.load(Ordering::Relaxed)
    }
}

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
/// writes its own; all of these are places of the strand that forked, which waits for the fork. If it is recorded, the
/// nodes are its tasks' on the tape of the task that forked.
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

    /// The range of numbers of a task of a parallel map.
    fn range(n: usize, count: u64, tasks: u64) -> [i64; 2] {
        let at = |n: u64| (u128::from(n) * u128::from(count) / u128::from(tasks)) as i64;
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

/// Lets both halves of a fork run in the strand that forked.
#[derive(Clone, Copy)]
struct Here(*mut Interp);

// SAFETY: a half that another thread takes doesn't use it, and those of the same thread run one after the other.
unsafe impl Send for Here {}
// SAFETY: as for `Send`: what is shared is the pointer.
unsafe impl Sync for Here {}

impl Here {
    fn get(self) -> *mut Interp {
        self.0
    }
}

impl Registers {
    /// The places after so many registers.
    pub(crate) fn after(&self, counts: &Counts) -> Registers {
        Registers {
            reals: self.reals.wrapping_add(counts.reals),
            words: self.words.wrapping_add(counts.reals),
            ints: self.ints.wrapping_add(counts.ints),
            refs: self.refs.wrapping_add(counts.refs),
        }
    }

    /// Copies consecutive registers.
    ///
    /// # Safety
    /// There are so many at both places, which don't overlap.
    #[inline]
    unsafe fn copy_to(&self, to: &Registers, counts: &Counts, words: bool) {
        // SAFETY: promised by the caller.
        unsafe {
            to.reals.copy_from_nonoverlapping(self.reals, counts.reals);
            if words {
                to.words.copy_from_nonoverlapping(self.words, counts.reals);
            }
            to.ints.copy_from_nonoverlapping(self.ints, counts.ints);
            to.refs.copy_from_nonoverlapping(self.refs, counts.refs);
        }
    }
}

/// What a strand that has ended leaves. Its stacks are free for another strand by then.
#[derive(Debug)]
struct Left {
    heap: heap::Left,
    tape: tape::Written,
    tasks: u64,
    trace: Trace,
}

/// A strand's state before its first fork, to which a run goes back that starts over.
struct Before {
    /// Fuel of the run and of the strand.
    used: u64,
    used_here: u64,
    heap: heap::Mark,
    allocated_max: u64,
    mark: crate::tape::Mark,
    tasks: u64,
    span_start: i64,
}

impl Interp {
    /// The strand's meter. Nobody keeps a reference to it beyond a call of it: what a task calls may refill it, too.
    fn meter(&self) -> &Meter<'static> {
        // SAFETY: `run` and `run_strand` have set the pointer for the time of the run, and others read it only.
        unsafe { &*self.meter }
    }

    /// A new slice of fuel in place of one that has fallen to `left`.
    #[cold]
    pub(crate) fn refill(&mut self, left: i64) -> Result<i64, TrapKind> {
        let unwinding = self.account().unwinding(|| self.native_stack.ground().bytes_in_use(), self.forked);
        // SAFETY: as in `meter`; no other reference to it lives while this one does.
        unsafe { (*self.meter).refill(left, unwinding) }
    }

    fn crew<'a>(&self) -> &'a Crew<'static> {
        // SAFETY: `run` and `run_strand` have set the pointer to a crew that outlives the run.
        unsafe { &*self.crew }
    }

    /// What the run may use.
    pub(crate) fn account<'a>(&self) -> &'a Account {
        self.crew().account
    }

    /// Instructions of the task that runs, along the longest way through its forks.
    pub(crate) fn span(&self) -> i64 {
        self.meter().used(self.fuel) as i64 - self.span_start
    }

    /// Runs a fork. The arguments of its tasks stand at `args`, side by side; the results will stand behind them.
    ///
    /// # Safety
    /// The arguments are of the parameters' types; there is nothing above them that is still in use. `remaining` is how
    /// many frames may nest above.
    pub(crate) unsafe fn fork(&mut self, site: &ForkSite, args: Registers, remaining: usize) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        unsafe { self.run_fork(Tasks::Fork(site), args, &site.args, &site.results, remaining) }.map(|_| ())
    }

    /// Runs a parallel map over the numbers below `count`. The arguments that its tasks share stand at `args`.
    ///
    /// # Safety
    /// As [`Interp::fork`]; references below the arguments are roots.
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
            let len = (0..tasks as usize).map(|n| *(*arrays.add(n)).add(LEN) as usize).sum::<usize>();
            let frames = super::roots(self.roots, arrays.add(tasks as usize));
            let roots = Roots { frames, kept: self.tape.kept() };
            let header = heap::array_header(site.element);
            let array = self.heap.allocate(header, ARRAY_HEADER + len, self.stack_bytes, roots)?;
            *array.add(LEN) = len as u64;
            heap::set_first(array, first);
            let mut active = !first.is_none();
            let mut to = array.add(ARRAY_HEADER);
            for n in 0..tasks as usize {
                let part = *arrays.add(n);
                let len = *part.add(LEN) as usize;
                to.copy_from_nonoverlapping(part.add(ARRAY_HEADER), len);
                to = to.add(len);
                active |= site.element == Bank::Ref && !heap::owner_of(part).is_nobody();
            }
            if self.mode.is_recording() && active {
                heap::set_owner(array, self.tape.owner());
            }
            Ok(array)
        }
    }

    /// Runs tasks. Their results stand behind the arguments. Returns the first slot of the array that a parallel map's
    /// results become parts of; none if there is no such array.
    ///
    /// # Safety
    /// As [`Interp::fork`]; the counts are those of the tasks' arguments and results.
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
        let recording = self.mode.is_recording();
        // Frames have their room above what is handed over.
        if above.reals > self.reals.end()
            || above.ints > self.ints.end()
            || above.refs > self.refs.end()
            || (recording && above.words > self.words.end())
        {
            let words = if recording { above.words } else { std::ptr::null_mut() };
            self.grow(&Registers { words, ..above })?;
        }
        let here = stack_pointer();
        if here < self.native_limit {
            self.grow_native(here)?;
        }
        let fork = Fork { tasks, args, results, above, remaining, nodes: std::ptr::null_mut(), mode: self.mode };
        let crew = self.crew();
        if self.forked || !crew.is_parallel() {
            // SAFETY: promised by the caller.
            return unsafe { self.attempt(fork) };
        }
        // SAFETY: promised by the caller.
        unsafe { self.run_outermost(fork) }
    }

    /// Runs a fork with other strands, and once more without them if a limit was reached. A frame of its own, because
    /// forks nest and this one doesn't.
    ///
    /// # Safety
    /// As [`Interp::attempt`].
    #[cold]
    #[inline(never)]
    unsafe fn run_outermost(&mut self, fork: Fork<'_>) -> Result<Slot, TrapKind> {
        let crew = self.crew();
        let before = self.open();
        // SAFETY: promised by the caller.
        let outcome = unsafe { self.attempt(fork) };
        if let Err(kind) = &outcome {
            // A limit of this strand's own, when it takes over results.
            crew.account.stop_all(kind);
        }
        self.close(&before);
        if !crew.account.is_stopped() {
            return outcome;
        }
        if let Some(kind) = crew.account.abandoned() {
            return Err(kind);
        }
        self.start_over(&before);
        // SAFETY: promised by the caller; the arguments are still there.
        unsafe { self.attempt(fork) }
    }

    /// Begins a stretch with several strands.
    fn open(&mut self) -> Before {
        let account = self.crew().account;
        let allocated = self.heap.allocated();
        let allocated_max = std::mem::replace(&mut self.heap.limits().allocated_bytes, allocated);
        account.open(allocated_max - allocated, self.heap.held() + self.stack_bytes, self.tape.held());
        self.heap.share(true);
        self.tape.share(true);
        self.forked = true;
        Before {
            used: account.used(self.fuel),
            used_here: self.meter().used(self.fuel),
            heap: self.heap.mark(),
            allocated_max,
            mark: self.tape.mark(),
            tasks: self.tasks,
            span_start: self.span_start,
        }
    }

    /// Ends a stretch with several strands.
    fn close(&mut self, before: &Before) {
        self.forked = false;
        self.heap.share(false);
        self.tape.share(false);
        self.heap.limits().allocated_bytes = before.allocated_max;
    }

    /// Goes back to before the fork, and on without other strands.
    #[cold]
    fn start_over(&mut self, before: &Before) {
        let crew = self.crew();
        crew.parallel.store(false, Ordering::Relaxed);
        crew.account.start_over(before.used);
        self.fuel = 0;
        // SAFETY: as in `refill`.
        unsafe { (*self.meter).rewind(before.used_here) };
        self.heap.cut(&before.heap);
        self.tape.cut(&before.mark);
        self.trace.clear();
        (self.tasks, self.span_start) = (before.tasks, before.span_start);
    }

    /// Runs tasks and puts the fork on the tape.
    ///
    /// # Safety
    /// It is a running fork of this strand, but for the nodes, and nothing above it on the stacks is in use.
    #[inline(never)]
    unsafe fn attempt(&mut self, mut fork: Fork<'_>) -> Result<Slot, TrapKind> {
        let mut on_tape: Option<(Parked, *mut ForkNode)> = None;
        if fork.mode.is_recording() {
            let (parked, node) = self.tape.park(fork.count())?;
            // SAFETY: the node was made just now.
            fork.nodes = unsafe { (*node).tasks };
            on_tape = Some((parked, node));
        }
        let span = self.span();
        // SAFETY: promised by the caller.
        let outcome = unsafe { self.run_tasks(&fork, 0, fork.count(), fork.above) };
        let mut first = Slot::NONE;
        if let Some((parked, node)) = on_tape {
            self.tape.resume(parked);
            if outcome.is_ok() {
                // SAFETY: all tasks have ended, and what their strands wrote was absorbed.
                unsafe {
                    first = self.take_results(&fork)?;
                    self.tape.join(node)?;
                }
            }
        }
        let longest = outcome?;
        self.span_start = self.meter().used(self.fuel) as i64 - (span + longest);
        Ok(first)
    }

    /// Gives the active results of tasks slots of the task that forked them. Returns as [`Interp::run_fork`].
    ///
    /// # Safety
    /// It is a running fork of this strand that is recorded, and all of its tasks have ended well.
    unsafe fn take_results(&mut self, fork: &Fork<'_>) -> Result<Slot, Limit> {
        // SAFETY: the tasks have left their results there, with words of their own tapes.
        unsafe {
            match fork.tasks {
                Tasks::Fork(site) => {
                    for (n, task) in site.tasks.iter().enumerate() {
                        let words = fork.results.words.add(task.results_at.reals);
                        self.tape.take_results(fork.nodes.add(n), words, task.defs.reals.len())?;
                    }
                }
                Tasks::Map { site, tasks, .. } if site.element == Bank::Real => {
                    let ranges = (0..tasks as usize).map(|n| &mut (*fork.nodes.add(n)).range);
                    if ranges.clone().all(|range| range.child.is_none()) {
                        return Ok(Slot::NONE);
                    }
                    let len = ranges.clone().map(|range| u64::from(range.len)).sum();
                    let first = self.tape.reserve_slots(len)?;
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
    /// It is a running fork, of this strand or of another one, with these tasks, which nobody else runs. `base` is a
    /// place on this strand's stacks, above which nothing is in use.
    unsafe fn run_tasks(
        &mut self,
        fork: &Fork<'_>,
        start: usize,
        end: usize,
        base: Registers,
    ) -> Result<i64, TrapKind> {
        let crew = self.crew();
        if end - start == 1 || !crew.is_parallel() || (self.nested >= NESTED_MAX && self.last_leaf < GRAIN) {
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
    /// As [`Interp::run_tasks`].
    #[inline(never)]
    unsafe fn run_halves(
        &mut self,
        fork: &Fork<'_>,
        start: usize,
        end: usize,
        base: Registers,
    ) -> Result<i64, TrapKind> {
        let crew = self.crew();
        let middle = start + (end - start) / 2;
        let halt = Halt::new(self.meter().halt);
        // All that happens before the fork has ended reaches the strand through this pointer, one after the other: the
        // halves that run here, and strands that borrow its stacks while it waits.
        let strand: *mut Interp = self;
        // SAFETY: the strand outlives its wait, and `self` isn't used before that has ended.
        let waiting = unsafe { Waiting::begin(strand, base) };
        let here = Here(strand);
        let base = Place(base);
        let (left, right) = rayon::join_context(
            |_| {
                // SAFETY: the strand runs this half first; the other one runs in it afterwards or not at all.
                let outcome = unsafe { (*here.get()).run_tasks(fork, start, middle, base.get()) };
                if outcome.is_err() {
                    halt.halt();
                }
                outcome
            },
            |context| {
                if halt.is_halted() || crew.account.is_stopped() {
                    (Err(TrapKind::Cancelled), None)
                } else if context.migrated() {
                    // SAFETY: the arguments stay in their places until the fork has ended.
                    unsafe { run_stolen(crew, fork, middle, end, &halt) }
                } else {
                    // SAFETY: the left half has ended, and this thread waits for nobody.
                    (unsafe { (*here.get()).run_tasks(fork, middle, end, base.get()) }, None)
                }
            },
        );
        drop(waiting);
        self.join_halves(left, right)
    }

    /// The outcome of two halves: the left one's trap counts. Takes over what the strand of the right one has left.
    #[inline(never)]
    fn join_halves(
        &mut self,
        left: Result<i64, TrapKind>,
        (right, strand): (Result<i64, TrapKind>, Option<Box<Left>>),
    ) -> Result<i64, TrapKind> {
        if let Some(strand) = strand {
            self.absorb(*strand, left.is_ok() && right.is_err());
        }
        Ok(left?.max(right?))
    }

    /// Runs tasks of another strand's fork as a strand, with frames from `base` on. Returns what that strand has to
    /// know, too.
    ///
    /// # Safety
    /// As [`Interp::run_tasks`]; the crew is that of the fork's run, and outlives the call.
    unsafe fn run_strand(
        &mut self,
        crew: &Crew<'static>,
        fork: &Fork<'_>,
        (start, end): (usize, usize),
        halt: &Halt<'_>,
        base: Registers,
    ) -> (Result<i64, TrapKind>, Left) {
        let (account, limits) = (crew.account, crew.limits);
        (self.live_bytes_max, self.depth_max) = (limits.live_bytes, limits.depth);
        self.heap.begin(heap::HeapLimits { allocated_bytes: 0, live_bytes: limits.live_bytes }, account);
        self.heap.share(true);
        self.tape.begin_strand(account, limits.tape_bytes);
        let mut meter = Meter::new(account, Some(halt));
        (self.program, self.crew, self.mode) = (crew.program, crew, fork.mode);
        (self.meter, self.fuel) = ((&raw mut meter).cast(), 0);
        (self.forked, self.tasks, self.span_start) = (true, 0, 0);
        // SAFETY: promised by the caller.
        let outcome = unsafe { self.run_tasks(fork, start, end, base) };
        if let Err(kind) = &outcome {
            account.stop_all(kind);
        }
        meter.settle(self.fuel);
        account.return_allocation(self.heap.limits().allocated_bytes.saturating_sub(self.heap.allocated()));
        self.heap.share(false);
        let trace = std::mem::take(&mut self.trace);
        let left = Left { heap: self.heap.leave(), tape: self.tape.leave(account), tasks: self.tasks, trace };
        (self.program, self.meter, self.crew) = (std::ptr::null(), std::ptr::null_mut(), std::ptr::null());
        (outcome, left)
    }

    /// Runs tasks as a strand on the stacks of this one, which waits for a half of its fork on the same thread.
    ///
    /// # Safety
    /// It does wait, so that nothing above its free places is in use. The rest as [`Interp::run_strand`].
    unsafe fn lend_stacks(
        &mut self,
        crew: &Crew<'static>,
        fork: &Fork<'_>,
        tasks: (usize, usize),
        halt: &Halt<'_>,
    ) -> (Result<i64, TrapKind>, Left) {
        let pool = crew.engine.slabs();
        let heap = std::mem::replace(&mut self.heap, Heap::new(pool.clone()));
        let mut tape = std::mem::replace(&mut self.tape, Tape::new(pool));
        // In the same run, the strand goes on in the slab that this one's tape stands in, and this one behind it.
        // SAFETY: the crew of the waiting strand outlives its run.
        let same_run = unsafe { std::ptr::eq((*self.crew).account, crew.account) };
        if same_run {
            tape.leave_rest(crew.account);
        }
        let trace = std::mem::take(&mut self.trace);
        let waiting = (self.program, self.meter, self.crew, self.mode, self.fuel, self.forked);
        let (roots, free, tasks_before, span_start) = (self.roots, self.free, self.tasks, self.span_start);
        let limits = (self.live_bytes_max, self.depth_max);
        self.nested += 1;
        let last_leaf = std::mem::replace(&mut self.last_leaf, 0);
        // SAFETY: promised by the caller; nothing of the waiting strand stands above its free places.
        let outcome = unsafe { self.run_strand(crew, fork, tasks, halt, free) };
        self.nested -= 1;
        self.last_leaf = last_leaf;
        if same_run {
            tape.take_rest(crew.account);
        }
        (self.heap, self.tape, self.trace) = (heap, tape, trace);
        (self.program, self.meter, self.crew, self.mode, self.fuel, self.forked) = waiting;
        (self.roots, self.free, self.tasks, self.span_start) = (roots, free, tasks_before, span_start);
        (self.live_bytes_max, self.depth_max) = limits;
        outcome
    }

    /// Takes over what a strand has left. Its backtrace is the run's if its trap is.
    fn absorb(&mut self, left: Left, trapped: bool) {
        self.heap.absorb(left.heap);
        self.tape.absorb(left.tape);
        self.tasks += left.tasks;
        if trapped {
            debug_assert!(self.trace.is_empty(), "this strand has stopped for no reason of its own");
            self.trace = left.trace;
        }
    }

    /// Runs a task, with frames from `base` on. Returns how many instructions it takes along the longest way.
    ///
    /// # Safety
    /// As [`Interp::run_tasks`], for this task.
    #[inline(never)]
    unsafe fn run_task(&mut self, fork: &Fork<'_>, n: usize, base: Registers) -> Result<i64, TrapKind> {
        let (func, args, arg_counts, results, result_counts) = fork.task(n);
        let (floor, kept) = (self.heap.raise_floor(), self.tape.raise_floor());
        let roots = std::mem::replace(&mut self.roots, base.refs);
        let now = self.meter().used(self.fuel) as i64;
        let span_start = std::mem::replace(&mut self.span_start, now);
        self.tasks += 1;
        let tasks_before = self.tasks;
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
                self.tape.begin_task(node, args.words, base.words, arg_counts.reals)
            } else {
                Ok(())
            };
            begun.map_err(TrapKind::from).and_then(|()| {
                self.run_callee(func, base, fork.remaining)?;
                if fork.mode.is_recording() {
                    self.end_task(fork, node, base)?;
                }
                base.copy_to(&results, &result_counts, fork.mode.is_recording());
                Ok(self.span())
            })
        };
        if let Ok(span) = outcome
            && self.tasks == tasks_before
        {
            self.last_leaf = span;
        }
        self.span_start = span_start;
        self.roots = roots;
        self.heap.restore_floor(floor);
        self.tape.restore_floor(kept);
        if let Err(kind) = &outcome
            && self.crew().is_parallel()
        {
            self.crew().account.stop_all(kind);
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
            if let Tasks::Map { site: MapSite { element: Bank::Real, .. }, .. } = fork.tasks {
                let array = *base.refs;
                let (owner, first, len) = (heap::owner_of(array), heap::first_of(array), *array.add(LEN));
                let local = if first.is_none() || owner == self.tape.owner() || len == 0 {
                    if len == 0 { Slot::NONE } else { first }
                } else {
                    self.tape.import_array(ForeignArray { owner, first, len: len as u32 })?
                };
                // More elements than there are slots: the parent will have no room for them.
                ((*node).range.child, (*node).range.len) = (local, u32::try_from(len).unwrap_or(u32::MAX));
            }
            self.tape.end_task();
            (*node).span = self.span() as u64;
        }
        Ok(())
    }

    /// Runs a function whose arguments are its first registers, natively or interpreted, on the stack that the strand
    /// runs on.
    ///
    /// # Safety
    /// A program runs, the function is one of it, the arguments stand at `base` and are of the parameters' types, and
    /// nothing above them is in use. If the program has native code, the strand runs on its native stack.
    pub(super) unsafe fn run_callee(
        &mut self,
        func: FuncId,
        base: Registers,
        remaining: usize,
    ) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller; while a program runs, the pointer leads to it.
        unsafe {
            let program = &*self.program;
            let Some(tier) = &program.tier else { return self.activate(func, base, remaining).map(|_| ()) };
            let code = match tier.called(program, func, self.mode, self.account()) {
                Some(code) => Some(code),
                None => self.activate(func, base, remaining)?,
            };
            code.map_or(Ok(()), |code| self.enter(tier, code, base, remaining))
        }
    }
}

/// Runs a half of a fork that another thread has taken, in a strand of its own.
///
/// # Safety
/// It is a running fork with these tasks, which nobody else runs; the crew is that of its run, and outlives the call.
#[cold]
#[inline(never)]
unsafe fn run_stolen(
    crew: &Crew<'static>,
    fork: &Fork<'_>,
    start: usize,
    end: usize,
    halt: &Halt<'_>,
) -> (Result<i64, TrapKind>, Option<Box<Left>>) {
    let waiting = WAITING.get();
    // SAFETY: the strand waits on this thread, and goes by the same pointer meanwhile ([`Interp::run_halves`]).
    if !waiting.is_null() && unsafe { (*waiting).native_stack.ground() }.is_here() {
        // SAFETY: promised by the caller; the strand waits, so nobody uses it until this function returns.
        let (outcome, left) = unsafe { (*waiting).lend_stacks(crew, fork, (start, end), halt) };
        return (outcome, Some(Box::new(left)));
    }
    let mut state = crew.engine.state();
    let interp = &mut state.interp;
    interp.begin(crew.limits.live_bytes, crew.limits.depth);
    let base = interp.bottom();
    let ran = interp.open_native().map(|ground| {
        // SAFETY: promised by the caller. The stack belongs to the strand, which runs nowhere else meanwhile; nothing
        // below unwinds ([`Interp::run_at`]).
        unsafe { ground.run(|| interp.run_strand(crew, fork, (start, end), halt, base)) }
    });
    // Its stacks are of no use to this run any more.
    crew.account.live_bytes.fetch_sub(interp.stack_bytes, Ordering::Relaxed);
    crew.engine.put_back(state);
    match ran {
        Ok((outcome, left)) => (outcome, Some(Box::new(left))),
        Err(limit) => {
            let kind = limit.into();
            crew.account.stop_all(&kind);
            (Err(kind), None)
        }
    }
}

thread_local! {
    /// The strand that waits on this thread for a half of a fork, the last one if there are several. While it waits,
    /// the thread may run other strands, on its stacks: it can't go on before they have ended.
    static WAITING: Cell<*mut Interp> = const { Cell::new(std::ptr::null_mut()) };
}

/// Says that a strand waits on this thread, for as long as it lives.
struct Waiting {
    before: *mut Interp,
    strand: *mut Interp,
    free: Registers,
}

impl Waiting {
    /// What stands above `free` on the strand's stacks is of no use to it when it waits.
    ///
    /// # Safety
    /// Until this is dropped the strand stays where it is, and is used through this pointer only.
    unsafe fn begin(strand: *mut Interp, free: Registers) -> Self {
        // SAFETY: promised by the caller.
        let free = unsafe { std::mem::replace(&mut (*strand).free, free) };
        Waiting { before: WAITING.replace(strand), strand, free }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.set(self.before);
        // SAFETY: promised to `begin`.
        unsafe { (*self.strand).free = self.free };
    }
}

/// Places of registers that both halves of a fork know.
#[derive(Clone, Copy)]
struct Place(Registers);

// SAFETY: a half that another thread takes doesn't use it, and those of the same thread run one after the other.
unsafe impl Send for Place {}
// SAFETY: as for `Send`: what is shared are the pointers.
unsafe impl Sync for Place {}

impl Place {
    fn get(&self) -> Registers {
        self.0
    }
}
