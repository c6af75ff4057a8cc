//! The tape of a recording run: records in slabs, and the counter of slots. What records hold is in
//! [`crate::records`].
//!
//! - `slabs`: the memory that an execution's tapes stand in;
//! - `task`: the tape of a task, which is parked while other tasks run;
//! - `tree`: how the tapes of a run hang together;
//! - `region`: the record of a region while it is open;
//! - `rerun`: the record of a derivative operator;
//! - `trace`: the way from a slot back to inputs, where every instruction was recorded;
//! - `imports`: what a task uses of other tasks' tapes.
//!
//! The records of a task stand in stretches, in one slab or several. A stretch begins with a record that leads to the
//! one before it ([`link`]); between two of them, other tasks may have run.

mod imports;
mod region;
mod rerun;
mod slabs;
mod task;
pub(crate) mod trace;
mod tree;

pub(crate) use imports::{ForeignArray, Imported, Reads};
use region::OpenRegion;
pub use region::{STRIP_MAX, UNCHECKED_MAX};
pub(crate) use rerun::{Repeat, RerunNode};
use slabs::Written;
pub(crate) use task::Parked;
pub(crate) use tree::{ForkNode, Payer, TaskNode, Totals, number, payer};

use crate::memory::heap::Ref;
use crate::memory::kept::Kept;
use crate::memory::pool::SlabPool;
use crate::records::{Kind, TRAILER_BYTES, link, pack, strip};
use crate::running::meter::Account;
use crate::trap::Limit;
use crate::word::{self, Owner, Slot, Word};
use imports::Imports;
use slabs::SlabWriter;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;

/// The slots of a task, less those that may be given out between two checks. Native code adds indices to 32-bit numbers
/// with a sign.
const SLOTS_MAX: u64 = (1 << 31) - (1 << 24);

/// The loop that is being recorded. It stands in memory, not in anybody's registers, so that interpreter and native
/// code can take over from each other between two iterations.
#[derive(Debug, Default)]
pub(crate) struct OpenLoop {
    /// Whether it gets a record.
    pub(crate) active: bool,
    /// Iterations so far.
    pub(crate) iterations: u64,
    /// Entries in the current slab. While there are any, the slab has room for a strip's trailer.
    pub(crate) entries: u32,
}

/// The tape of a task that runs or is parked ([`task`]).
#[derive(Debug)]
struct TaskState {
    node: *mut TaskNode,
    /// The task, as the owner of objects.
    owner: Owner,
    next_slot: u64,
    records: u64,
    import_count: u64,
    /// Instructions that a sweep of the task runs.
    sweep_cost: u64,
    /// About how many instructions the reruns in it take.
    rerun_work: u64,
    /// Bytes of the task's records in earlier stretches, less those in this one that don't count; modulo 2⁶⁴.
    bytes: u64,
    /// Where the current stretch begins.
    stretch: *mut u8,
    imports: Option<Box<Imports>>,
    /// The tasks that this one has run.
    below: Totals,
}

/// How far the tapes of an execution are.
#[derive(Debug)]
pub(crate) struct Mark {
    slabs: slabs::Mark,
    task: task::Mark,
}

/// The tapes that an execution writes: one at a time, that of the task that runs.
#[derive(Debug)]
pub(crate) struct Tape {
    slabs: SlabWriter,
    task: TaskState,
    pub(crate) open_loop: OpenLoop,
    pub(crate) open_region: OpenRegion,
    /// The levels around the running one that something was read of.
    marks: Vec<Owner>,
    /// Whether something was read that may be of any level around the running one.
    marks_all: bool,
    /// Whether the tape is that of a derivative operator, or of a task inside of one.
    inner: bool,
    /// The run's own task, from a box. Others keep pointers to it, which a box that moves would make invalid.
    root: NonNull<TaskNode>,
}

// SAFETY: a tape owns the slabs that its pointers lead to.
unsafe impl Send for Tape {}

impl Tape {
    // Where native code finds fields.
    pub(crate) const TOP: usize = offset_of!(Tape, slabs.top);
    pub(crate) const END: usize = offset_of!(Tape, slabs.end);
    pub(crate) const NEXT_SLOT: usize = offset_of!(Tape, task.next_slot);
    pub(crate) const RECORDS: usize = offset_of!(Tape, task.records);
    pub(crate) const SWEEP_COST: usize = offset_of!(Tape, task.sweep_cost);
    pub(crate) const BYTES: usize = offset_of!(Tape, task.bytes);
    pub(crate) const OWNER: usize = offset_of!(Tape, task.owner);
    pub(crate) const KEPT_TOP: usize = offset_of!(Tape, slabs.kept) + Kept::TOP;
    pub(crate) const KEPT_END: usize = offset_of!(Tape, slabs.kept) + Kept::END;
    pub(crate) const LOOP_ACTIVE: usize = offset_of!(Tape, open_loop.active);
    pub(crate) const LOOP_ITERATIONS: usize = offset_of!(Tape, open_loop.iterations);
    pub(crate) const LOOP_ENTRIES: usize = offset_of!(Tape, open_loop.entries);
    pub(crate) const REGION_ACTIVE: usize = offset_of!(Tape, open_region) + OpenRegion::ACTIVE;
    pub(crate) const REGION_START: usize = offset_of!(Tape, open_region) + OpenRegion::START;
    pub(crate) const REGION_COST: usize = offset_of!(Tape, open_region) + OpenRegion::COST;
    pub(crate) const REGION_MADE: usize = offset_of!(Tape, open_region) + OpenRegion::MADE;
    pub(crate) const REGION_READS_FOREIGN: usize = offset_of!(Tape, open_region) + OpenRegion::READS_FOREIGN;

    pub(crate) fn new(pool: Arc<SlabPool>) -> Self {
        Tape {
            slabs: SlabWriter::new(pool),
            task: TaskState::new(std::ptr::null_mut()),
            open_loop: OpenLoop::default(),
            open_region: OpenRegion::default(),
            marks: Vec::new(),
            marks_all: false,
            inner: false,
            root: NonNull::from(Box::leak(Box::new(TaskNode::new(std::ptr::null(), std::ptr::null())))),
        }
    }

    /// Forgets all records and begins a run, which ends with [`Tape::release`] or the next one at the latest.
    /// `bytes_max` bounds records and adjoints together. The account must live until the run ends, or until
    /// [`Tape::attach`] names another place for it.
    pub(crate) fn begin(&mut self, bytes_max: u64, account: &Account) {
        if self.slabs.is_in_use() {
            self.slabs.release();
        }
        self.open_region.forget();
        self.forget_marks();
        self.inner = false;
        self.slabs.begin(bytes_max, account, false);
        let root = self.root.as_ptr();
        // SAFETY: the node is this tape's, and nobody uses it between two runs.
        unsafe { root.write(TaskNode::new(std::ptr::null(), root)) };
        self.task = TaskState::new(root);
    }

    /// Begins an execution, in the rest of a slab of one that has ended, if there is one.
    pub(crate) fn begin_part(&mut self, account: &Account, bytes_max: u64, inner: bool) {
        self.release();
        self.open_region.forget();
        self.forget_marks();
        self.inner = inner;
        self.slabs.begin(bytes_max, account, false);
        self.share(true);
        self.take_rest(account);
    }

    /// Begins the tape of a rerun in the sweep of a task: it belongs to the level of that task, as one that the task
    /// forks would. Ends with [`Tape::close_level`].
    ///
    /// # Safety
    /// The task has ended, and outlives the tape's use.
    pub(crate) unsafe fn begin_rerun(&mut self, bytes_max: u64, account: &Account, task: *const TaskNode) {
        self.begin(bytes_max, account);
        self.open_level(true, 0);
        // SAFETY: promised by the caller; the root is this tape's, and nobody uses it yet.
        unsafe { self.root.as_ptr().write(TaskNode::new(task, (*task).level)) };
    }

    /// Says where the run's account is.
    pub(crate) fn attach(&mut self, account: &Account) {
        self.slabs.attach(account);
    }

    /// Forgets all records and gives all memory back but a slab.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.slabs.is_in_use() {
            self.slabs.release();
            self.task = TaskState::new(std::ptr::null_mut());
        }
    }

    /// Ends the run. The tree is complete then.
    pub(crate) fn finish(&mut self) -> &TaskNode {
        self.close_task();
        // SAFETY: the node is this tape's, and the run has ended.
        unsafe { self.root.as_ref() }
    }

    /// The run's own task, when the run has ended.
    pub(crate) fn tree(&self) -> &TaskNode {
        // SAFETY: the node is this tape's, and nobody writes to it once the run has ended.
        unsafe { self.root.as_ref() }
    }

    /// The run's own task.
    pub(crate) fn root(&mut self) -> *mut TaskNode {
        self.root.as_ptr()
    }

    /// Slots that the running task has given out.
    pub(crate) fn slots(&self) -> usize {
        self.task.next_slot as usize - 1
    }

    /// The running task, as the owner of objects.
    #[inline(always)]
    pub(crate) fn owner(&self) -> Owner {
        self.task.owner
    }

    /// The references that records hold: roots of an evacuation.
    #[inline(always)]
    pub(crate) fn kept(&mut self) -> &mut Kept {
        &mut self.slabs.kept
    }

    /// A cell with an object, which lives as long as the tape, or with what [`kept::content_for`] gives.
    #[inline(always)]
    pub(crate) fn keep(&mut self, object: Ref) -> Result<*const Ref, Limit> {
        loop {
            if let Some(cell) = self.slabs.kept.keep(object) {
                return Ok(cell);
            }
            self.make_room_to_keep()?;
        }
    }

    /// Sees that there is room for so many more cells.
    #[inline(always)]
    pub(crate) fn room_to_keep(&mut self, cells: usize) -> Result<(), Limit> {
        if self.slabs.kept.has_room(cells) { Ok(()) } else { self.make_room_to_keep() }
    }

    /// Makes room for more cells.
    #[cold]
    pub(crate) fn make_room_to_keep(&mut self) -> Result<(), Limit> {
        self.slabs.kept.make_room();
        self.slabs.check(self.task.next_slot)
    }

    fn stretch_bytes(&self) -> u64 {
        (self.slabs.top.addr() - self.task.stretch.addr()) as u64
    }

    /// Ends the current stretch. Returns its end.
    fn close_stretch(&mut self) -> *mut u8 {
        self.task.bytes = self.task.bytes.wrapping_add(self.stretch_bytes());
        self.task.stretch = self.slabs.top;
        self.slabs.top
    }

    /// Begins a stretch that leads to `address`.
    fn open_stretch(&mut self, address: *const u8, kind: Kind) -> Result<(), Limit> {
        if link::BYTES > self.slabs.room() {
            self.open_slab()?;
        }
        // SAFETY: there is room for the record.
        unsafe {
            link::write(self.slabs.top, kind, address);
            self.slabs.top = self.slabs.top.add(link::BYTES);
        }
        self.task.stretch = self.slabs.top;
        Ok(())
    }

    /// Memory for `count` values between two stretches.
    #[inline]
    fn list<T>(&mut self, count: usize) -> Result<*mut T, Limit> {
        let list = self.slabs.list(count, self.task.next_slot);
        self.task.stretch = self.slabs.top;
        list
    }

    /// Goes on in the rest of a slab that an execution of the same run has left, if there is one.
    pub(crate) fn take_rest(&mut self, account: &Account) {
        // An operator's tape leaves none, and what it took would be lost.
        if !self.inner {
            self.slabs.take_rest(account);
        }
        self.task.stretch = self.slabs.top;
    }

    /// Leaves the rest of the slab to another execution of the same run.
    pub(crate) fn leave_rest(&mut self, account: &Account) {
        // Slabs of an operator's tape go before the run ends.
        self.slabs.leave_rest(Some(account).filter(|_| !self.inner));
        self.task.stretch = self.slabs.top;
    }

    /// Ends an execution: what it has written is for the one that forked it.
    pub(crate) fn leave(&mut self, account: &Account) -> Left {
        let written = self.slabs.leave(Some(account).filter(|_| !self.inner));
        Left { written, marks: std::mem::take(&mut self.marks), marks_all: self.marks_all }
    }

    /// Takes over what an execution that has ended has written.
    pub(crate) fn absorb(&mut self, left: Left) {
        self.slabs.absorb(left.written);
        left.marks.into_iter().for_each(|level| self.mark_level(level));
        self.marks_all |= left.marks_all;
    }

    /// Makes this the tape of a derivative operator, which has just begun and runs its function at a depth.
    pub(crate) fn open_level(&mut self, shared: bool, depth: u32) {
        self.inner = true;
        self.begin_at(depth);
        self.slabs.begin_shared(shared);
    }

    /// Says that the run, which has just begun, has infinitesimals that are older than its tape: so many.
    pub(crate) fn begin_at(&mut self, depth: u32) {
        // SAFETY: the node is this tape's, and nobody else uses it yet.
        unsafe { self.root.as_mut() }.base = depth;
    }

    /// Bytes that a level inside of this one may take. Where other executions draw on the account, that knows what is
    /// taken outside.
    pub(crate) fn left(&self, limit: u64, shared: bool) -> u64 {
        if shared { limit } else { self.slabs.left(self.task.next_slot, limit) }
    }

    /// Bytes that the levels around this one hold, of as many as `limit`.
    pub(crate) fn held_outside(&self, limit: u64) -> u64 {
        self.slabs.held_outside(limit)
    }

    /// Whether the tape is that of a derivative operator, or of a task inside of one.
    pub(crate) fn is_inner(&self) -> bool {
        self.inner
    }

    /// Frees the tape of a derivative operator, which has been swept.
    pub(crate) fn close_level(&mut self) {
        self.slabs.take_back();
        self.release();
    }

    /// The level of the task that runs; nobody's before one has begun.
    fn level(&self) -> Owner {
        // SAFETY: if there is a node, it is that of the task that runs.
        unsafe { self.task.node.as_ref() }.map_or(Owner::NOBODY, |node| Owner::of(node.level))
    }

    /// The depth that the running level was opened at: the infinitesimals above were introduced inside of it.
    pub(crate) fn base(&self) -> u32 {
        // SAFETY: as above; a level outlives its tasks.
        unsafe { self.task.node.as_ref().map_or(0, |node| (*node.level).base) }
    }

    /// Whether an owner belongs to the running level, to the running task or another one.
    ///
    /// # Safety
    /// It is the owner of an object.
    pub(crate) unsafe fn is_of_level(&self, owner: Owner) -> bool {
        // SAFETY: promised by the caller.
        !owner.is_nobody() && unsafe { owner.level() } == self.level()
    }

    /// Whether an owner belongs to a level around this one, whose words are constants here. That level is marked then.
    ///
    /// # Safety
    /// It is the owner of an object.
    unsafe fn is_outside(&mut self, owner: Owner) -> bool {
        // SAFETY: promised by the caller: owners outlive objects.
        let level = unsafe { owner.level() };
        let outside = level != self.level();
        if outside {
            self.mark_level(level);
        }
        outside
    }

    fn mark_level(&mut self, level: Owner) {
        if !self.marks.contains(&level) {
            self.marks.push(level);
        }
    }

    /// Notes that what the operator around this level has been given is recorded outside.
    pub(crate) fn mark_outer(&mut self) {
        self.mark_level(Owner::NOBODY);
    }

    /// Notes that objects were given to an operator that nobody has read, or whose reads nobody notes: they may lead to
    /// any level.
    pub(crate) fn mark_all(&mut self) {
        self.marks_all = true;
    }

    fn forget_marks(&mut self) {
        self.marks.clear();
        self.marks_all = false;
    }

    /// Takes over the marks of a level inside of this one, which has ended. Says whether this one's is among them.
    pub(crate) fn take_marks(&mut self, inner: &Tape) -> bool {
        let own = self.level();
        let mut active = inner.marks_all;
        self.marks_all |= inner.marks_all;
        for &level in &inner.marks {
            if level == own || level.is_nobody() {
                active = true;
            } else {
                self.mark_level(level);
            }
        }
        active
    }

    /// The state of the memory and of the task that runs, to which [`Tape::cut`] goes back.
    pub(crate) fn mark(&self) -> Mark {
        Mark { slabs: self.slabs.mark(), task: self.task.mark() }
    }

    /// Goes back: frees what was written since, all of it by a fork that was given up.
    ///
    /// # Safety
    /// The task that ran at the mark runs again, and has recorded nothing but that fork.
    pub(crate) unsafe fn cut(&mut self, mark: &Mark) {
        self.open_region.forget();
        self.slabs.cut(&mark.slabs);
        // SAFETY: promised by the caller.
        unsafe { self.task.go_back(&mark.task) };
    }

    /// Begins or ends a stretch of time in which other executions run.
    pub(crate) fn share(&mut self, shared: bool) {
        self.slabs.share(shared, self.task.next_slot);
    }

    /// Bytes of slabs and adjoints of this execution.
    pub(crate) fn held(&self) -> u64 {
        self.slabs.held(self.task.next_slot)
    }

    /// Gives out consecutive slots, all at once. Returns the first.
    pub(crate) fn reserve_slots(&mut self, count: u64) -> Result<Slot, Limit> {
        let first = self.task.next_slot;
        self.task.next_slot = first.saturating_add(count);
        self.check()?;
        Ok(Slot(first as u32))
    }

    fn check(&mut self) -> Result<(), Limit> {
        self.slabs.check(self.task.next_slot)?;
        if self.task.next_slot > SLOTS_MAX { Err(Limit::TapeBytes) } else { Ok(()) }
    }

    /// Room for a record of `bytes` bytes; gives out `slots` slots. Returns where the record begins and its first slot.
    #[inline(always)]
    pub(crate) fn record(&mut self, bytes: usize, slots: u32, sweep_cost: u32) -> Result<(*mut u8, Slot), Limit> {
        if bytes > self.slabs.room() {
            self.open_chunk()?;
        }
        let start = self.slabs.top;
        // SAFETY: the chunk has room: no record is larger than a slab.
        self.slabs.top = unsafe { start.add(bytes) };
        let task = &mut self.task;
        let first = Slot(task.next_slot as u32);
        task.next_slot += u64::from(slots);
        task.records += 1;
        task.sweep_cost += u64::from(sweep_cost);
        Ok((start, first))
    }

    /// Room for an entry of the open loop, which has `bytes` bytes.
    #[inline(always)]
    pub(crate) fn entry(&mut self, bytes: usize) -> Result<*mut u8, Limit> {
        if bytes + strip::TAIL_BYTES > self.slabs.room() {
            self.next_strip()?;
        }
        let start = self.slabs.top;
        // SAFETY: the chunk has room: no entry is nearly as large as a slab.
        self.slabs.top = unsafe { start.add(bytes) };
        self.open_loop.entries += 1;
        Ok(start)
    }

    /// The trailer of the record that was written last.
    pub(crate) fn last_trailer(&self) -> *const u32 {
        self.slabs.top.wrapping_sub(TRAILER_BYTES).cast_const().cast()
    }

    /// Ends a strip of the open loop, if there are entries, and goes on in a new slab.
    #[cold]
    #[inline(never)]
    pub(crate) fn next_strip(&mut self) -> Result<(), Limit> {
        let entries = std::mem::take(&mut self.open_loop.entries);
        if entries > 0 {
            // SAFETY: behind an entry there is room for the rest of a strip.
            unsafe {
                strip::write(self.slabs.top, entries);
                self.slabs.top = self.slabs.top.add(strip::TAIL_BYTES);
            }
        }
        self.open_chunk()
    }

    /// Room for what follows the entries in the open loop's record; gives out `slots` slots. Returns where it begins
    /// and the first slot. Entries that stand in this slab are part of the same record.
    pub(crate) fn end_loop(&mut self, bytes: usize, slots: u32, sweep_cost: u64) -> Result<(*mut u8, Slot), Limit> {
        if bytes > self.slabs.room() {
            self.next_strip()?;
        }
        self.task.sweep_cost = self.task.sweep_cost.saturating_add(sweep_cost);
        self.record(bytes, slots, 0)
    }

    /// Goes on in another slab, with a record that leads back.
    #[cold]
    #[inline(never)]
    pub(crate) fn open_chunk(&mut self) -> Result<(), Limit> {
        let before = self.close_stretch();
        let begun = !before.is_null();
        self.open_slab()?;
        self.open_stretch(if begun { before } else { std::ptr::null() }, Kind::Link)
    }

    /// Goes on in another slab, where a stretch begins even if the run has to stop.
    fn open_slab(&mut self) -> Result<(), Limit> {
        let opened = self.slabs.open_slab(self.task.next_slot);
        self.task.stretch = self.slabs.top;
        if self.task.next_slot > SLOTS_MAX { Err(Limit::TapeBytes) } else { opened }
    }

    /// Gives consecutive slots to `words`. Returns the first; none if all are constants. No record is written if the
    /// words are consecutive already.
    pub(crate) fn pack(&mut self, words: &[Word]) -> Result<Slot, Limit> {
        self.slabs.ask_for_time(size_of_val(words))?;
        let first = words.first().map_or(Slot::NONE, |word| word.slot());
        if first.is_none() && words.iter().all(|word| word.is_constant()) {
            return Ok(Slot::NONE);
        }
        if !first.is_none() && word::are_consecutive(words) {
            return Ok(first);
        }
        let first = self.reserve_slots(words.len() as u64)?;
        for (strip, base) in words.chunks(pack::ELEMENTS_MAX).zip((first.0..).step_by(pack::ELEMENTS_MAX).map(Slot)) {
            let (start, _) = self.record(pack::bytes(strip.len()), 0, pack::sweep_cost(strip.len()))?;
            // SAFETY: there is room for it.
            unsafe { pack::write(start, strip.iter().map(|word| word.slot()), base) };
        }
        Ok(first)
    }
}

/// What an execution that has ended leaves.
#[derive(Debug)]
pub(crate) struct Left {
    written: Written,
    marks: Vec<Owner>,
    marks_all: bool,
}

impl Drop for Tape {
    fn drop(&mut self) {
        // SAFETY: it came out of a box, and nobody has a pointer to it any more.
        drop(unsafe { Box::from_raw(self.root.as_ptr()) });
    }
}
