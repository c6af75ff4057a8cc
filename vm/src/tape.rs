//! The tape of a recording run: records in slabs, and the counter of slots. What records hold is in
//! [`crate::records`].
//!
//! The records of a task stand in stretches, in one slab or several. A stretch begins with a record that leads to the
//! one before it ([`link`]); between two of them, other tasks may have run ([`tree`]). A task that uses a real of
//! another task imports it ([`imports`]).

mod imports;
mod tree;

pub(crate) use imports::{ForeignArray, Imported, Imports, Reads};
pub(crate) use tree::{ForkNode, Payer, TaskNode, Totals, number, payer};

use crate::memory::pool::{SLAB_BYTES, Slab, SlabPool};
use crate::records::{Kind, TRAILER_BYTES, link, pack, strip};
use crate::running::meter::Account;
use crate::trap::Limit;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Lists of more bytes than this get memory of their own.
const LIST_BYTES_MAX: usize = SLAB_BYTES / 4;
/// A rest of a slab of fewer bytes than this is not worth keeping.
const REST_BYTES_MIN: usize = 2 << 10;
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

/// What a suspended task goes on with.
#[derive(Debug)]
pub(crate) struct Suspended {
    task: *mut TaskNode,
    next_slot: u64,
    records: u64,
    import_count: u64,
    sweep_cost: u64,
    bytes: u64,
    imports: Option<Box<Imports>>,
    below: Totals,
}

/// The tapes that a strand writes: one at a time, that of the task that runs.
#[derive(Debug)]
pub(crate) struct Tape {
    pool: Arc<SlabPool>,
    /// All slabs that the strand has written to.
    slabs: Vec<Slab>,
    /// Lists that are too long for a slab.
    lists: Vec<Box<[u64]>>,
    /// Kept from the last run, for the first slab of the next: small runs leave the pool alone.
    spare: Option<Slab>,
    top: *mut u8,
    end: *mut u8,
    /// Where the current stretch begins.
    stretch: *mut u8,
    bytes_max: u64,
    /// Bytes of adjoints of tasks that this strand has run to their end.
    ended_bytes: u64,
    /// What other strands know of this one's bytes.
    published: u64,
    /// That of the run, while there is one.
    account: *const Account,
    /// Whether other strands draw on the account, too.
    shared: bool,
    next_slot: u64,
    records: u64,
    import_count: u64,
    /// Instructions that a sweep of the task runs.
    sweep_cost: u64,
    /// Bytes of the task's records in earlier stretches.
    bytes: u64,
    pub(crate) open_loop: OpenLoop,
    /// The task, as the owner of objects.
    pub(crate) owner: u64,
    task: *mut TaskNode,
    imports: Option<Box<Imports>>,
    /// The tasks that this one has run.
    below: Totals,
    /// The run's own task, from a box. Others keep pointers to it, which a box that moves would make invalid.
    root: NonNull<TaskNode>,
}

// SAFETY: a tape owns the slabs that its pointers lead to.
unsafe impl Send for Tape {}

impl Tape {
    // Where native code finds fields.
    pub(crate) const TOP: usize = offset_of!(Tape, top);
    pub(crate) const END: usize = offset_of!(Tape, end);
    pub(crate) const NEXT_SLOT: usize = offset_of!(Tape, next_slot);
    pub(crate) const RECORDS: usize = offset_of!(Tape, records);
    pub(crate) const SWEEP_COST: usize = offset_of!(Tape, sweep_cost);
    pub(crate) const OWNER: usize = offset_of!(Tape, owner);
    pub(crate) const LOOP_ACTIVE: usize = offset_of!(Tape, open_loop.active);
    pub(crate) const LOOP_ITERATIONS: usize = offset_of!(Tape, open_loop.iterations);
    pub(crate) const LOOP_ENTRIES: usize = offset_of!(Tape, open_loop.entries);

    pub(crate) fn new(pool: Arc<SlabPool>) -> Self {
        let null = std::ptr::null_mut();
        Tape {
            pool,
            slabs: Vec::new(),
            lists: Vec::new(),
            spare: None,
            top: null,
            end: null,
            stretch: null,
            bytes_max: u64::MAX,
            ended_bytes: 0,
            published: 0,
            account: std::ptr::null(),
            shared: false,
            next_slot: 1,
            records: 0,
            import_count: 0,
            sweep_cost: 0,
            bytes: 0,
            open_loop: OpenLoop::default(),
            owner: 0,
            task: std::ptr::null_mut(),
            imports: None,
            below: Totals::default(),
            root: NonNull::from(Box::leak(Box::new(TaskNode::new(std::ptr::null())))),
        }
    }

    /// Forgets all records and begins a run, which ends with [`Tape::release`] or the next one at the latest.
    /// `bytes_max` bounds records and adjoints together. The account must live until the run ends, or until
    /// [`Tape::attach`] names another place for it.
    pub(crate) fn begin(&mut self, bytes_max: u64, account: &Account) {
        self.release();
        self.bytes_max = bytes_max;
        self.attach(account);
        self.task = self.root.as_ptr();
        // SAFETY: the node is this tape's, and nobody uses it between two runs.
        unsafe { self.task.write(TaskNode::new(std::ptr::null())) };
        self.owner = self.task.expose_provenance() as u64;
    }

    /// Says where the run's account is.
    pub(crate) fn attach(&mut self, account: &Account) {
        self.account = account;
    }

    /// Forgets all records and gives all memory back but a slab.
    pub(crate) fn release(&mut self) {
        if self.spare.is_none() {
            self.spare = self.slabs.pop();
        }
        self.pool.give_back(self.slabs.drain(..));
        self.lists.clear();
        let null = std::ptr::null_mut();
        (self.top, self.end, self.stretch) = (null, null, null);
        (self.ended_bytes, self.published) = (0, 0);
        (self.account, self.shared) = (std::ptr::null(), false);
        (self.next_slot, self.records, self.import_count, self.sweep_cost, self.bytes) = (1, 0, 0, 0, 0);
        self.imports = None;
        self.below = Totals::default();
    }

    /// Ends the run. The tree is complete then.
    pub(crate) fn finish(&mut self) -> &TaskNode {
        let node = self.task;
        self.close_task(node);
        // SAFETY: the node is this tape's, and the run has ended.
        unsafe { self.root.as_ref() }
    }

    /// The run's own task.
    pub(crate) fn root(&mut self) -> *mut TaskNode {
        self.root.as_ptr()
    }

    /// The number of slots and the instructions of a sweep so far, for the task that runs and those below.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.below;
        let slots = self.next_slot - 1;
        totals.add(&Totals {
            tasks: 1,
            imports: self.import_count,
            records: self.records,
            slots,
            bytes: self.bytes + self.stretch_bytes(),
            sweep_work: self.sweep_cost + slots,
            sweep_span: 0,
        });
        totals.sweep_span += self.sweep_cost + slots;
        totals
    }

    fn stretch_bytes(&self) -> u64 {
        (self.top.addr() - self.stretch.addr()) as u64
    }

    /// Ends the current stretch. Returns its end.
    fn close_stretch(&mut self) -> *mut u8 {
        self.bytes += self.stretch_bytes();
        self.stretch = self.top;
        self.top
    }

    /// Begins a stretch that leads to `address`.
    fn open_stretch(&mut self, address: *const u8, kind: Kind) -> Result<(), Limit> {
        if link::BYTES > self.end.addr() - self.top.addr() {
            self.open_slab()?;
        }
        // SAFETY: there is room for the record.
        unsafe {
            link::write(self.top, kind, address);
            self.top = self.top.add(link::BYTES);
        }
        self.stretch = self.top;
        Ok(())
    }

    /// Memory for `count` values between two stretches.
    #[inline]
    fn list<T>(&mut self, count: usize) -> Result<*mut T, Limit> {
        let bytes = (count * size_of::<T>()).next_multiple_of(8);
        if bytes > LIST_BYTES_MAX {
            let mut list = vec![0; (bytes + align_of::<T>()) / 8].into_boxed_slice();
            let start: *mut u8 = list.as_mut_ptr().cast();
            let start = start.wrapping_add(start.align_offset(align_of::<T>()));
            self.lists.push(list);
            self.ended_bytes += bytes as u64;
            return Ok(start.cast());
        }
        let padding = self.top.align_offset(align_of::<T>().max(8));
        if bytes + padding > self.end.addr() - self.top.addr() {
            self.open_slab()?;
            return self.list(count);
        }
        // SAFETY: there is room.
        unsafe {
            let start = self.top.add(padding);
            self.top = start.add(bytes);
            self.stretch = self.top;
            Ok(start.cast())
        }
    }

    /// Suspends the task for a fork with `count` tasks. Returns what it goes on with, and the fork.
    #[inline]
    pub(crate) fn suspend(&mut self, count: usize) -> Result<(Suspended, *mut ForkNode), Limit> {
        let before = self.close_stretch();
        let fork: *mut ForkNode = self.list(1)?;
        let tasks: *mut TaskNode = self.list(count)?;
        let below = std::mem::take(&mut self.below);
        let suspended = Suspended {
            task: self.task,
            next_slot: self.next_slot,
            records: self.records,
            import_count: self.import_count,
            sweep_cost: self.sweep_cost,
            bytes: self.bytes,
            imports: self.imports.take(),
            below,
        };
        self.ended_bytes += 8 * self.next_slot;
        // SAFETY: the lists have room for the fork and its tasks.
        unsafe {
            let previous = (*self.task).last_fork;
            let count = count as u32;
            fork.write(ForkNode { before, previous, tasks, count, records_before: self.records });
            for n in 0..count as usize {
                tasks.add(n).write(TaskNode::new(self.task));
            }
        }
        Ok((suspended, fork))
    }

    /// Begins a task. `words` are those of its real arguments, `parents` what they are in its parent: active ones
    /// become the first slots.
    ///
    /// # Safety
    /// Both lists have `count` entries; the node is one of a fork that this run has begun.
    #[inline]
    pub(crate) unsafe fn begin_task(
        &mut self,
        node: *mut TaskNode,
        parents: *const u64,
        words: *mut u64,
        count: usize,
    ) -> Result<(), Limit> {
        (self.next_slot, self.records, self.import_count, self.sweep_cost, self.bytes) = (1, 0, 0, 0, 0);
        self.below = Totals::default();
        self.imports = None;
        self.task = node;
        self.owner = node.expose_provenance() as u64;
        // SAFETY: promised by the caller.
        unsafe {
            let parent = |n: usize| crate::word::slot(*parents.add(n));
            let active = (0..count).filter(|&n| parent(n) != 0).count();
            if active > 0 {
                let captures: *mut u32 = self.list(active)?;
                let mut next = 0;
                for n in 0..count {
                    let slot = parent(n);
                    if slot != 0 {
                        *captures.add(next) = slot;
                        next += 1;
                    }
                    *words.add(n) = if slot == 0 { 0 } else { next as u64 };
                }
                ((*node).captures, (*node).captures_len) = (captures, active as u32);
                self.next_slot += active as u64;
            } else {
                for n in 0..count {
                    *words.add(n) = 0;
                }
            }
        }
        self.open_stretch(std::ptr::null(), Kind::Link)
    }

    /// Ends the task.
    #[inline]
    pub(crate) fn end_task(&mut self) -> Result<(), Limit> {
        let node = self.task;
        self.close_task(node);
        self.ended_bytes += 8 * (self.next_slot - 1);
        Ok(())
    }

    #[inline]
    fn close_task(&mut self, node: *mut TaskNode) {
        let totals = self.totals();
        let end = self.close_stretch();
        // SAFETY: the node is that of the task that runs.
        unsafe {
            (*node).end = end;
            (*node).slots = self.next_slot as u32;
            (*node).weight = u32::try_from(totals.sweep_work).unwrap_or(u32::MAX);
            (*node).totals = totals;
        }
        self.imports = None;
    }

    /// Goes on with a suspended task.
    #[inline]
    pub(crate) fn resume(&mut self, suspended: Suspended) {
        let Suspended { task, next_slot, records, import_count, sweep_cost, bytes, imports, below } = suspended;
        self.ended_bytes = self.ended_bytes.saturating_sub(8 * next_slot);
        (self.task, self.owner) = (task, task.expose_provenance() as u64);
        (self.next_slot, self.records, self.import_count) = (next_slot, records, import_count);
        (self.sweep_cost, self.bytes, self.imports, self.below) = (sweep_cost, bytes, imports, below);
        self.stretch = self.top;
    }

    /// Puts a fork on the tape of the task that ran it, whose results have become slots of it.
    ///
    /// # Safety
    /// All tasks of the fork have ended, and their strands were absorbed.
    #[inline]
    pub(crate) unsafe fn join(&mut self, fork: *mut ForkNode) -> Result<(), Limit> {
        // SAFETY: promised by the caller.
        unsafe {
            let mut longest = 0;
            for task in (*fork).tasks() {
                self.below.add(&task.totals);
                longest = longest.max(task.totals.sweep_span);
            }
            self.below.sweep_span += longest;
            (*self.task).last_fork = fork;
        }
        self.open_stretch(fork.cast_const().cast(), Kind::Fork)
    }

    /// A slot for each active result of a task, whose words are those of the task. Called before the fork is on the
    /// tape.
    ///
    /// # Safety
    /// The task has ended; there are `count` words.
    #[inline]
    pub(crate) unsafe fn take_results(
        &mut self,
        task: *mut TaskNode,
        words: *mut u64,
        count: usize,
    ) -> Result<(), Limit> {
        // SAFETY: promised by the caller.
        unsafe {
            let active = (0..count).filter(|&n| *words.add(n) != 0).count();
            if active == 0 {
                return Ok(());
            }
            let results: *mut [u32; 2] = self.list(active)?;
            let mut next = 0;
            for n in 0..count {
                let word = &mut *words.add(n);
                if *word != 0 {
                    let slot = self.next_slot as u32;
                    self.next_slot += 1;
                    *results.add(next) = [crate::word::slot(*word), slot];
                    *word = u64::from(slot);
                    next += 1;
                }
            }
            ((*task).results, (*task).results_len) = (results, active as u32);
        }
        Ok(())
    }

    /// Takes over what a strand that has ended has written.
    pub(crate) fn absorb(&mut self, mut left: Left) {
        self.slabs.append(&mut left.slabs);
        self.lists.append(&mut left.lists);
        self.ended_bytes += left.ended_bytes;
        self.published += left.published;
    }

    /// Begins a strand, in the rest of a slab of one that has ended, if there is one.
    pub(crate) fn begin_strand(&mut self, account: &Account, bytes_max: u64) {
        self.release();
        self.bytes_max = bytes_max;
        (self.account, self.shared, self.published) = (account, true, self.held());
        self.take_rest(account);
    }

    /// Goes on in the rest of a slab that a strand of the same run has left, if there is one.
    pub(crate) fn take_rest(&mut self, account: &Account) {
        if let Some((top, end)) = account.take_rest() {
            (self.top, self.end, self.stretch) = (top, end, top);
        }
    }

    /// Leaves the rest of the slab to another strand of the same run.
    pub(crate) fn leave_rest(&mut self, account: &Account) {
        if self.end.addr() - self.top.addr() >= REST_BYTES_MIN {
            account.leave_rest(self.top, self.end);
        }
        let null = std::ptr::null_mut();
        (self.top, self.end, self.stretch) = (null, null, null);
    }

    /// Ends a strand: what it has written is for the one that forked it.
    pub(crate) fn leave(&mut self, account: &Account) -> Left {
        self.leave_rest(account);
        Left {
            slabs: std::mem::take(&mut self.slabs),
            lists: std::mem::take(&mut self.lists),
            ended_bytes: std::mem::take(&mut self.ended_bytes),
            published: std::mem::take(&mut self.published),
        }
    }

    /// The state of the memory, to which [`Tape::cut`] goes back.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            slabs: self.slabs.len(),
            lists: self.lists.len(),
            top: self.top,
            end: self.end,
            ended_bytes: self.ended_bytes,
        }
    }

    /// Frees what was written since, all of it by tasks that were given up.
    pub(crate) fn cut(&mut self, mark: &Mark) {
        self.pool.give_back(self.slabs.drain(mark.slabs..));
        self.lists.truncate(mark.lists);
        (self.top, self.end, self.stretch) = (mark.top, mark.end, mark.top);
        self.ended_bytes = mark.ended_bytes;
    }

    /// Whether the run has the time to fill so many bytes.
    fn ask_for_time(&self, bytes: usize) -> Result<(), Limit> {
        // SAFETY: the account lives as long as the run.
        unsafe { self.account.as_ref() }.map_or(Ok(()), |account| account.time_to_fill(bytes))
    }

    /// Begins or ends a stretch of time in which other strands run.
    pub(crate) fn share(&mut self, shared: bool) {
        self.shared = shared;
        self.published = self.held();
    }

    /// Bytes of slabs and adjoints of this strand.
    pub(crate) fn held(&self) -> u64 {
        let slabs = (self.slabs.len() * SLAB_BYTES) as u64;
        slabs.saturating_add(self.ended_bytes).saturating_add(self.next_slot.saturating_mul(8))
    }

    /// Gives out consecutive slots, all at once. Returns the first.
    pub(crate) fn reserve_slots(&mut self, count: u64) -> Result<u32, Limit> {
        let first = self.next_slot;
        self.next_slot = first.saturating_add(count);
        self.check()?;
        Ok(first as u32)
    }

    fn check(&mut self) -> Result<(), Limit> {
        let mut held = self.held();
        // SAFETY: the account lives as long as the run.
        if let Some(account) = unsafe { self.account.as_ref() }.filter(|_| self.shared) {
            let more = held.wrapping_sub(self.published);
            self.published = held;
            held = account.tape_bytes.fetch_add(more, Ordering::Relaxed).wrapping_add(more);
        }
        if self.next_slot > SLOTS_MAX || held > self.bytes_max {
            return Err(Limit::TapeBytes);
        }
        Ok(())
    }

    /// Room for a record of `bytes` bytes; gives out `slots` slots. Returns where the record begins and its first slot.
    #[inline(always)]
    pub(crate) fn record(&mut self, bytes: usize, slots: u32, sweep_cost: u32) -> Result<(*mut u8, u32), Limit> {
        if bytes > self.end.addr() - self.top.addr() {
            self.open_chunk()?;
        }
        let start = self.top;
        // SAFETY: the chunk has room: no record is larger than a slab.
        self.top = unsafe { start.add(bytes) };
        let first = self.next_slot as u32;
        self.next_slot += u64::from(slots);
        self.records += 1;
        self.sweep_cost += u64::from(sweep_cost);
        Ok((start, first))
    }

    /// Room for an entry of the open loop, which has `bytes` bytes.
    #[inline(always)]
    pub(crate) fn entry(&mut self, bytes: usize) -> Result<*mut u8, Limit> {
        if bytes + strip::TAIL_BYTES > self.end.addr() - self.top.addr() {
            self.next_strip()?;
        }
        let start = self.top;
        // SAFETY: the chunk has room: no entry is nearly as large as a slab.
        self.top = unsafe { start.add(bytes) };
        self.open_loop.entries += 1;
        Ok(start)
    }

    /// The trailer of the record that was written last.
    pub(crate) fn last_trailer(&self) -> *const u32 {
        self.top.wrapping_sub(TRAILER_BYTES).cast_const().cast()
    }

    /// Ends a strip of the open loop, if there are entries, and goes on in a new slab.
    #[cold]
    #[inline(never)]
    pub(crate) fn next_strip(&mut self) -> Result<(), Limit> {
        let entries = std::mem::take(&mut self.open_loop.entries);
        if entries > 0 {
            // SAFETY: behind an entry there is room for the rest of a strip.
            unsafe {
                strip::write(self.top, entries);
                self.top = self.top.add(strip::TAIL_BYTES);
            }
        }
        self.open_chunk()
    }

    /// Room for what follows the entries in the open loop's record; gives out `slots` slots. Returns where it begins
    /// and the first slot. Entries that stand in this slab are part of the same record.
    pub(crate) fn end_loop(&mut self, bytes: usize, slots: u32, sweep_cost: u64) -> Result<(*mut u8, u32), Limit> {
        if bytes > self.end.addr() - self.top.addr() {
            self.next_strip()?;
        }
        self.sweep_cost = self.sweep_cost.saturating_add(sweep_cost);
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

    #[cold]
    fn open_slab(&mut self) -> Result<(), Limit> {
        self.ask_for_time(SLAB_BYTES)?;
        let slab = self.spare.take().or_else(|| self.pool.take()).ok_or(Limit::TapeBytes)?;
        self.top = slab.start();
        // SAFETY: one past the slab's memory.
        self.end = unsafe { self.top.add(SLAB_BYTES) };
        self.stretch = self.top;
        self.slabs.push(slab);
        self.check()
    }

    /// Gives consecutive slots to `words`. Returns the first; 0 if all are constants. No record is written if the words
    /// are consecutive already.
    pub(crate) fn pack(&mut self, words: &[u64]) -> Result<u32, Limit> {
        self.ask_for_time(size_of_val(words))?;
        let first = words.first().map_or(0, |&word| crate::word::slot(word));
        if words.iter().all(|&word| word == 0) {
            return Ok(0);
        }
        if first != 0 && words.iter().zip(u64::from(first)..).all(|(&word, expected)| word == expected) {
            return Ok(first);
        }
        let first = self.reserve_slots(words.len() as u64)?;
        for (strip, base) in words.chunks(pack::ELEMENTS_MAX).zip((first..).step_by(pack::ELEMENTS_MAX)) {
            let (start, _) = self.record(pack::bytes(strip.len()), 0, pack::sweep_cost(strip.len()))?;
            // SAFETY: there is room for it.
            unsafe { pack::write(start, strip.iter().map(|&word| crate::word::slot(word)), base) };
        }
        Ok(first)
    }
}

/// What a strand that has ended has written.
#[derive(Debug)]
pub(crate) struct Left {
    slabs: Vec<Slab>,
    lists: Vec<Box<[u64]>>,
    ended_bytes: u64,
    published: u64,
}

/// How much memory a tape uses, and where it goes on.
#[derive(Debug)]
pub(crate) struct Mark {
    slabs: usize,
    lists: usize,
    top: *mut u8,
    end: *mut u8,
    ended_bytes: u64,
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.release();
        self.pool.give_back(self.spare.take().into_iter());
        // SAFETY: it came out of a box, and nobody has a pointer to it any more.
        drop(unsafe { Box::from_raw(self.root.as_ptr()) });
    }
}
