//! The reverse sweep: from the adjoint of the output to the adjoints of all slots.
//!
//! Records are read backwards, each once. A segment's record gives its saved primals and the adjoints of its outputs to
//! the derived code, and the contributions that come back are added one after the other, because two inputs may hold
//! the same slot. This is the loop that Smeding and Vákár (2024, section 10) arrive at, with a segment in place of a
//! scalar operation. Where tasks were forked, their tapes are swept in turn ([`tasks`]).

mod checks;
mod debts;
mod idle;
mod loops;
#[cfg(all(test, loom))]
mod model;
pub(crate) mod regions;
mod reruns;
mod stages;
mod tasks;
#[cfg(all(test, not(loom)))]
mod tests;
pub(crate) mod usage;

use debts::{Debts, Inboxes, Pending};
pub(crate) use idle::Sweeps;
use loops::OpenLoop;
use tasks::SweepRun;
use usage::Clock;

use crate::code::run_straight;
use crate::memory::stack::{self, Extent, NativeStack, Stack, stack_pointer};
use crate::native::{LoopFn, RegionFn, SegmentFn, Tier};
use crate::records::adjoints::Adjoint;
use crate::records::import::Import;
use crate::records::pack::Pack;
use crate::records::recorded_loop::LoopCode;
use crate::records::region::RegionCode;
use crate::records::segment::SegmentCode;
use crate::records::{Kind, Trailer, link};
use crate::running::meter::Account;
use crate::running::trace::Trace;
use crate::running::workers::RunInfo;
use crate::tape::{ForkNode, RerunNode, TaskNode, number};
use crate::trap::TrapKind;
use crate::word::{Owner, Slot};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Adjoints and debts of ranges that were in memory at one time, in bytes. Small arrays don't count.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Buffers {
    /// Arrays of fewer reals don't count.
    const LEN_MIN: usize = 512;

    fn opened(&self, len: usize) {
        if len >= Buffers::LEN_MIN {
            let bytes = 8 * len as u64;
            let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
            self.peak.fetch_max(now, Ordering::Relaxed);
        }
    }

    fn closed(&self, len: usize) {
        if len >= Buffers::LEN_MIN {
            self.now.fetch_sub(8 * len as u64, Ordering::Relaxed);
        }
    }

    /// The most that there was at one time.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

/// A real that a sweep starts from, with its adjoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed {
    /// The task whose slot the real has; nobody: the run's own.
    pub(crate) owner: Owner,
    /// The slot; none: it is constant, and the seed leads nowhere.
    pub(crate) slot: Slot,
    pub(crate) adjoint: f64,
}

/// A task that is being swept.
#[derive(Debug)]
struct OpenTask<'a> {
    node: &'a TaskNode,
    /// The adjoint of each slot.
    adjoints: *mut f64,
    len: usize,
    debts: Debts<'a>,
}

impl OpenTask<'_> {
    fn adjoints(&self) -> &[f64] {
        // SAFETY: the frame has so many cells.
        unsafe { std::slice::from_raw_parts(self.adjoints, self.len) }
    }

    #[inline(always)]
    fn add(&mut self, slot: Slot, value: f64) {
        debug_assert!(slot.index() < self.len);
        // SAFETY: all slots of a task are below the number of its frame's cells.
        unsafe { *self.adjoints.add(slot.index()) += value };
    }

    /// Leaves 0.
    #[inline(always)]
    fn take(&mut self, slot: Slot) -> f64 {
        debug_assert!(slot.index() < self.len);
        // SAFETY: all slots of a task are below the number of its frame's cells.
        unsafe { self.adjoints.add(slot.index()).replace(0.0) }
    }

    fn add_range(&mut self, first: Slot, values: &[f64]) {
        debug_assert!(first.index() + values.len() <= self.len);
        // SAFETY: all slots of a task are below the number of its frame's cells; the values are elsewhere.
        let sums = unsafe { std::slice::from_raw_parts_mut(self.adjoints.add(first.index()), values.len()) };
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value;
        }
    }
}

/// A segment, loop or region of which a sweep has met a record, so that those that follow need no search: few of them
/// make the records of a loop over a list, or of a recursion.
struct Met<'a, C, F> {
    id: u32,
    code: &'a Adjoint<C>,
    /// Once there is some.
    native: Option<F>,
}

/// How many are known of each kind at one time; the numbers of those that follow each other are neighbours, mostly.
const MET_MAX: usize = 4;

/// Those that were met, by the last part of their numbers.
type MetByNumber<'a, C, F> = [Option<Met<'a, C, F>>; MET_MAX];

/// The one with this number, which may have been met before.
#[inline(always)]
fn meet<'m, 'a, C, F>(
    known: &'m mut MetByNumber<'a, C, F>,
    id: u32,
    find: impl FnOnce() -> &'a Adjoint<C>,
) -> &'m mut Met<'a, C, F> {
    let place = &mut known[id as usize % MET_MAX];
    place.take_if(|met| met.id != id);
    place.get_or_insert_with(|| Met { id, code: find(), native: None })
}

/// A range that was imported, and its first local slot.
type RangeImport = (Import, Slot);

/// The memory of a sweep, or of a part of one, kept between runs.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// Adjoints of the tasks that are being swept, the innermost last.
    cells: Stack<f64>,
    used: usize,
    /// The cells of the own task of the tree that was swept last.
    root: Range<usize>,
    reals: Vec<f64>,
    ints: Vec<i64>,
    /// Arrays of other tasks that the next loop reads here and there.
    scattered: Vec<Import>,
    /// Ranges that were imported for the next loop.
    loop_imports: Vec<RangeImport>,
    /// The native stack of sweeps of several tasks: each task below another takes some.
    native: NativeStack,
    /// Whether something stands on it.
    native_in_use: bool,
    /// The frames of a rerun that has stopped the last sweep.
    pub(crate) trace: Trace,
    /// Takes the time of each record, if asked for: then no other thread takes part.
    pub(crate) clock: Option<Clock>,
}

// SAFETY: pointers to tasks are of use only while a sweep runs.
unsafe impl Send for Sweep {}

impl Sweep {
    pub(crate) fn new(stacks: Extent) -> Self {
        Sweep {
            cells: Stack::new(stacks),
            used: 0,
            root: 0..0,
            reals: Vec::new(),
            ints: Vec::new(),
            scattered: Vec::new(),
            loop_imports: Vec::new(),
            native: NativeStack::new(stacks),
            native_in_use: false,
            trace: Trace::default(),
            clock: None,
        }
    }

    /// Runs `body` on the native stack, which has room for any depth of tasks: where it runs there already, right here;
    /// and on another one if this one is in use, because the body is part of a run that a sweep waits for.
    ///
    /// # Errors
    /// As `body`, and if the system gives no address space for the stack.
    fn on_native_stack<R>(&mut self, body: impl FnOnce(&mut Sweep) -> Result<R, TrapKind>) -> Result<R, TrapKind> {
        if self.is_here() {
            self.make_room()?;
            return body(self);
        }
        let extent = self.cells.extent();
        let suspended = self.native_in_use.then(|| std::mem::replace(&mut self.native, NativeStack::new(extent)));
        self.native.begin(extent);
        let outcome = self.native.open().map_err(TrapKind::from).and_then(|ground| {
            self.native_in_use = true;
            // SAFETY: nobody else stands on the stack, which stays in its place until `body` returns. A sweep doesn't
            // unwind, and what jobs of the host do is caught where they are called.
            let outcome = unsafe { ground.run(|| body(self)) };
            self.native_in_use = false;
            outcome
        });
        if let Some(suspended) = suspended {
            (self.native, self.native_in_use) = (suspended, true);
        }
        outcome
    }

    /// Whether the running function stands on the native stack of this sweep.
    fn is_here(&self) -> bool {
        self.native.ground().is_here()
    }

    /// Makes room on the native stack for what sweeps a task.
    #[inline]
    fn make_room(&mut self) -> Result<(), TrapKind> {
        let here = stack_pointer();
        if here < self.native.limit() && self.is_here() {
            self.native.grow(here, u64::MAX).map_err(TrapKind::from)
        } else {
            Ok(())
        }
    }

    /// Memory for `count` cells, whose content is arbitrary.
    fn open_cells(&mut self, count: usize) -> Result<*mut f64, TrapKind> {
        let start = self.cells.start().wrapping_add(self.used);
        let end = start.wrapping_add(count);
        if end > self.cells.end() {
            if self.used == 0 {
                self.cells.begin(self.cells.extent());
                return self.open_grown(count);
            }
            self.cells.grow(end, u64::MAX).map_err(TrapKind::from)?;
        }
        self.used += count;
        Ok(start)
    }

    #[cold]
    fn open_grown(&mut self, count: usize) -> Result<*mut f64, TrapKind> {
        let start = self.cells.start();
        self.cells.grow(start.wrapping_add(count), u64::MAX).map_err(TrapKind::from)?;
        self.used = count;
        Ok(start)
    }

    /// Gives back what the memory has grown by, where the process keeps much. No sweep goes on.
    #[inline]
    pub(crate) fn trim(&mut self) {
        if stack::is_much_kept() {
            self.root = 0..0;
            self.cells.shrink();
            self.native.shrink();
        }
    }

    fn close_cells(&mut self, count: usize) {
        self.used -= count;
    }

    /// The adjoints of the tree's own task after a sweep, until the next one.
    pub(crate) fn adjoints(&self) -> &[f64] {
        // SAFETY: nobody has used the cells since the sweep has ended.
        unsafe { std::slice::from_raw_parts(self.cells.start().wrapping_add(self.root.start), self.root.len()) }
    }

    /// Sweeps a run that has ended, from the adjoints of reals of its result. Those of a slot are added in the order of
    /// the seeds. The fuel was charged for before, but for that of reruns; the account is asked for deadline and
    /// cancellation now and then. With `sweeps`, memory for other threads comes from there: it runs in their pool then.
    /// Returns the most bytes of adjoints.
    ///
    /// # Safety
    /// `root` is the tree of tapes of the run; the seeds are slots of tasks of it. If it has reruns, executions share
    /// the account ([`crate::running::reruns`]).
    pub(crate) unsafe fn run(
        &mut self,
        root: *mut TaskNode,
        seeds: &[Seed],
        info: &RunInfo<'_>,
        sweeps: Option<&Sweeps>,
    ) -> Result<u64, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let own = Owner::of(root);
            let is_own = |seed: &Seed| seed.slot.is_none() || seed.owner.is_nobody() || seed.owner == own;
            let totals = (*root).totals;
            let imported = totals.imports > 0 || totals.rerun_work > 0 || !seeds.iter().all(is_own);
            let tasks = totals.tasks as usize;
            if imported || (cfg!(debug_assertions) && tasks > 1) {
                time_to_number(info.account, tasks)?;
                number(root, 0);
            }
            self.trace.clear();
            let buffers = Buffers::default();
            let inboxes = if imported { Inboxes::new(0, tasks) } else { Inboxes::none(tasks) };
            let run =
                SweepRun { program: info.program, account: info.account, info, inboxes, buffers: &buffers, sweeps };
            let swept = self.tree(&run, &*root, seeds);
            let owed = swept?;
            debug_assert!(owed.is_empty(), "nobody is above the run");
            Ok(buffers.peak())
        }
    }

    /// Sweeps a tree of tapes, from the adjoints of reals, maybe in the middle of another sweep. Returns what it owes
    /// to tasks that aren't part of it.
    ///
    /// # Safety
    /// As [`Sweep::run`], for the tree of this run; its tasks are numbered if any of them owes anything.
    #[inline(always)]
    unsafe fn tree<'a>(
        &mut self,
        run: &SweepRun<'a>,
        root: &'a TaskNode,
        seeds: &[Seed],
    ) -> Result<Pending<'a>, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let own = Owner::of(root);
            let mut frame = self.open_frame(run, root)?;
            let cells = self.used - frame.len..self.used;
            run.inboxes.stages.begin(root);
            let mut constant = true;
            for seed in seeds.iter().filter(|seed| !seed.slot.is_none()) {
                constant = false;
                if seed.owner.is_nobody() || seed.owner == own {
                    frame.add(seed.slot, seed.adjoint);
                    continue;
                }
                let task = seed.owner.task();
                if run.inboxes.has((*task).index) {
                    run.inboxes.leave((*task).index, seed.slot, seed.adjoint);
                } else {
                    frame.debts.owe(root, task, seed.slot, seed.adjoint, &run.inboxes);
                }
            }
            let swept = if constant {
                Ok(())
            } else if root.totals.tasks == 1 && cells.start == 0 && root.totals.rerun_work == 0 {
                // Nothing nests: it needs no stack of its own.
                self.records(run, &mut frame)
            } else {
                self.on_native_stack(|sweep| sweep.records(run, &mut frame))
            };
            if swept.is_ok() {
                run.inboxes.stages.end(root);
            }
            let debts = self.close_frame(frame, run.buffers);
            self.root = cells;
            swept.map(|()| debts.pending)
        }
    }

    /// Sweeps the records of a task.
    ///
    /// # Safety
    /// The frame is that of a task that has ended.
    #[inline]
    unsafe fn records<'a>(&mut self, run: &SweepRun<'a>, frame: &mut OpenTask<'a>) -> Result<(), TrapKind> {
        if run.program.is_checked() {
            // SAFETY: promised by the caller.
            return unsafe { self.each_record::<false, true>(run, frame) };
        }
        match self.clock {
            // SAFETY: promised by the caller.
            None => unsafe { self.each_record::<false, false>(run, frame) },
            // SAFETY: promised by the caller.
            Some(_) => unsafe { self.each_record::<true, false>(run, frame) },
        }
    }

    /// [`Sweep::records`], whose times are taken or not, and which are looked at or not.
    ///
    /// # Safety
    /// As there.
    unsafe fn each_record<'a, const TIMED: bool, const CHECKED: bool>(
        &mut self,
        run: &SweepRun<'a>,
        frame: &mut OpenTask<'a>,
    ) -> Result<(), TrapKind> {
        let program = run.program;
        let mut open: Option<OpenLoop<'_>> = None;
        let mut segments: MetByNumber<'_, SegmentCode, SegmentFn> = [const { None }; MET_MAX];
        let mut loops: MetByNumber<'_, LoopCode, LoopFn> = [const { None }; MET_MAX];
        let mut regions: MetByNumber<'_, RegionCode, RegionFn> = [const { None }; MET_MAX];
        let mut at = frame.node.end;
        while !at.is_null() {
            // SAFETY: `at` is the end of a record.
            unsafe {
                let Trailer { kind, first, at: trailer } = Trailer::before(at);
                at = match kind {
                    Kind::Segment(id) if CHECKED => self.checked_segment(run, frame, trailer, (id, first))?,
                    Kind::Segment(id) => {
                        let met = meet(&mut segments, id, || program.segment(id));
                        if met.native.is_none() {
                            let tier = program.tier.as_ref();
                            met.native = tier.and_then(|tier| tier.segment(program, (id, met.code), run.account));
                        }
                        let next = met.native.map(|native| native(trailer, frame.adjoints));
                        match next {
                            Some(next) if next != at => next,
                            _ => self.segment(frame, trailer, first, met.code),
                        }
                    }
                    Kind::Loop(id) => {
                        let met = meet(&mut loops, id, || program.recorded_loop(id));
                        if met.native.is_none() {
                            met.native = Tier::compiled_loop(met.code);
                        }
                        let whole = match met.native {
                            Some(native) if self.scattered.is_empty() => {
                                self.whole_loop(run, frame, (met.code, native), trailer)?
                            }
                            _ => None,
                        };
                        match whole {
                            Some(start) => start,
                            None => self.recorded_loop(run, frame, (id, first), trailer, &mut open)?,
                        }
                    }
                    Kind::Region(id) => {
                        let met = meet(&mut regions, id, || program.region(id));
                        self.region(run, frame, (met, first), trailer)?
                    }
                    Kind::Pack => pack(frame, trailer, first),
                    Kind::Strip if open.is_none() => self.skip_strip(trailer),
                    Kind::Strip => self.strip(run, frame, trailer, &mut open)?,
                    Kind::Link => {
                        self.poll(run)?;
                        link::read(trailer)
                    }
                    Kind::Fork => {
                        let fork = &*link::read::<ForkNode>(trailer);
                        self.fork(run, frame, fork)?;
                        fork.before
                    }
                    Kind::Import => {
                        let import = Import::read_single(trailer);
                        let value = *frame.adjoints.add(first.index());
                        if value != 0.0 {
                            frame.debts.owe(frame.node, import.owner.task(), import.slot, value, &run.inboxes);
                        }
                        import.start
                    }
                    Kind::ImportRange => {
                        let import = Import::read_range(trailer);
                        pay_range(run, frame, (import, first))?;
                        import.start
                    }
                    Kind::LoopImport => {
                        let import = Import::read_range(trailer);
                        self.loop_imports.push((import, first));
                        import.start
                    }
                    Kind::Rerun => {
                        let node = &*link::read::<RerunNode>(trailer);
                        self.rerun(run, frame, node)?;
                        node.before
                    }
                    #[cfg(all(test, not(loom)))]
                    Kind::Scale => {
                        let scale = crate::records::scale::Scale::read(trailer);
                        let adjoint = *frame.adjoints.add(first.index());
                        frame.add(scale.slot, scale.factor * adjoint);
                        scale.start
                    }
                    Kind::LoopScatter => {
                        let import = Import::read_range(trailer);
                        self.scattered.push(import);
                        import.start
                    }
                };
                if TIMED && let Some(clock) = &mut self.clock {
                    clock.lap(kind);
                }
            }
        }
        Ok(())
    }

    /// Whether the sweep is to stop.
    fn poll(&self, run: &SweepRun<'_>) -> Result<(), TrapKind> {
        let in_use = || if self.is_here() { self.native.ground().bytes_in_use() } else { 0 };
        run.account.poll_ahead(run.account.unwinding(in_use, run.sweeps.is_some()))
    }

    /// Makes the frame so large that it has so many real and integer registers.
    #[inline(always)]
    fn make_registers(&mut self, reals: usize, ints: usize) {
        if self.reals.len() < reals {
            self.reals.resize(reals, 0.0);
        }
        if self.ints.len() < ints {
            self.ints.resize(ints, 0);
        }
    }

    /// Owes the adjoints of the ranges that the loop has read which was swept last.
    ///
    /// # Safety
    /// They are ranges of slots of the frame's task.
    unsafe fn pay_loop_imports<'a>(&mut self, run: &SweepRun<'a>, frame: &mut OpenTask<'a>) -> Result<(), TrapKind> {
        for import in self.loop_imports.drain(..) {
            // SAFETY: promised by the caller.
            unsafe { pay_range(run, frame, import) }?;
        }
        Ok(())
    }

    /// Runs the adjoint of a segment's record. Returns the record's start.
    ///
    /// # Safety
    /// `trailer` is that of a record of this segment.
    #[inline(always)]
    unsafe fn segment(
        &mut self,
        frame: &mut OpenTask<'_>,
        trailer: *const u32,
        first: Slot,
        code: &SegmentCode,
    ) -> *const u8 {
        let task = frame;
        let outputs = &task.adjoints()[first.index()..first.index() + code.slots as usize];
        // SAFETY: promised by the caller.
        let start = unsafe { code.start(trailer) };
        // One level is open, so every adjoint is a constant: all zero means that nothing flows back.
        if outputs.iter().all(|&adjoint| adjoint == 0.0) {
            return start;
        }
        self.make_registers(code.adjoint.reals, code.adjoint.ints);
        self.reals[code.output(0)..code.output(outputs.len())].copy_from_slice(outputs);
        let (reals, ints) = (self.reals.as_mut_ptr(), self.ints.as_mut_ptr());
        // SAFETY: promised by the caller; the frame is large enough, and derived code stays in it.
        unsafe {
            code.layout.numbers.load(start, reals, ints);
            run_straight(&code.adjoint.code, reals, ints);
            let slots = start.add(code.layout.slot(0)).cast::<Slot>();
            for (n, &register) in code.contributions.iter().enumerate() {
                task.add(slots.add(n).read_unaligned(), *reals.add(usize::from(register)));
            }
        }
        start
    }
}

/// Asks for the time that it takes to number so many tasks, and to make their inboxes, which happens in one go.
fn time_to_number(account: &Account, tasks: usize) -> Result<(), TrapKind> {
    const NUMBERING_NS: u64 = 50;
    account.poll_ahead(Duration::from_nanos(NUMBERING_NS).saturating_mul(tasks as u32))
}

/// Whether all of what may be many adjoints are zero, of either sign. What was made last is looked at first: that is
/// likely to be what was read later, and what has adjoints.
#[inline]
fn are_zero(adjoints: &[f64]) -> bool {
    adjoints.last().is_none_or(|&adjoint| adjoint == 0.0)
        && adjoints.rchunks(64).all(|chunk| chunk.iter().fold(0, |bits, adjoint| bits | adjoint.to_bits() << 1) == 0)
}

/// Owes the adjoints of a range, unless they are zero.
///
/// # Safety
/// It is a range of slots of the frame's task.
unsafe fn pay_range<'a>(
    run: &SweepRun<'a>,
    frame: &mut OpenTask<'a>,
    (import, local): RangeImport,
) -> Result<(), TrapKind> {
    let (first, len) = (import.slot, import.number);
    run.account.time_to_fill(8 * len as usize)?;
    // SAFETY: promised by the caller.
    unsafe {
        let values = std::slice::from_raw_parts(frame.adjoints.add(local.index()), len as usize);
        if !are_zero(values) {
            frame.debts.owe_range(frame.node, import.owner.task(), first, values, &run.inboxes, run.buffers);
        }
    }
    Ok(())
}

/// Hands the adjoints of a pack's elements back to the slots that they came from. Returns the record's start.
///
/// # Safety
/// `trailer` is that of a pack.
unsafe fn pack(frame: &mut OpenTask<'_>, trailer: *const u32, first: Slot) -> *const u8 {
    // SAFETY: promised by the caller: all are slots of the frame's task.
    unsafe {
        let Pack { count, slots } = Pack::read(trailer);
        for n in 0..count {
            let adjoint = *frame.adjoints.add(first.index() + n);
            frame.add(slots.add(n).read_unaligned(), adjoint);
        }
        slots.cast()
    }
}
