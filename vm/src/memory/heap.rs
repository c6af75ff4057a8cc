//! The heap of a run: where objects get their memory, and what is counted of it.
//!
//! What objects are made of is in `heap/object.rs`. Small ones live in slabs and move when the heap is evacuated
//! (`heap/evacuation.rs`; the roots are the run's reference registers, and what its records hold); large ones have
//! memory of their own and stay.
//!
//! A heap belongs to an execution, or to an argument that a function has for good. References may lead to objects of
//! other heaps, which an evacuation leaves alone: heaps have numbers, no two the same. What was there before a task
//! began may be in use by other tasks, so it stays: the task's [`Floor`] says how much that is, and only objects above
//! it are moved or freed. Every slab and every large object says which heap it belongs to and when that got it.

pub(crate) mod builder;
pub(crate) mod chain;
mod evacuation;
mod object;
pub(crate) mod planes;
mod tensor;

pub(crate) use builder::build;
pub(crate) use object::{
    ARRAY, BUILDER, Fields, KIND, Ref, are_alike, bare, base_of, borrow, element_bank, elements, fields_of, finished,
    first_of, has_words, holds_reals, integers, is_borrowed, is_builder, is_shaped, object_header, owner_of,
    references, set_first, set_owner, shaped_header, tag_of,
};
pub(crate) use tensor::{array_of_tensor, elements_of_shape, shape_text, tensor};

pub use object::{ARRAY_HEADER, AWAY_SHIFT, CAPACITY, FIRST, LARGE_WORDS, LEN, OBJECT_HEADER, OWNER, array_header};

use crate::memory::kept::Kept;
use crate::memory::pool::{Block, SLAB_BYTES, Slab, SlabPool};
use crate::running::meter::Account;
use crate::trap::Limit;
use crate::word::Owner;
use object::LARGE;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An object of more words than this is larger than any process.
pub(crate) const WORDS_MAX: usize = 1 << 44;
/// The heap is not evacuated before this many bytes were allocated since the last time.
const THRESHOLD_MIN: u64 = 4 << 20;

/// Words at the start of a slab, and before a large object: the heap's number, and the serial number of the slab or the
/// object in it.
const PREFIX: usize = 2;

/// A slab of objects.
#[derive(Debug)]
struct HeapSlab {
    slab: Slab,
    serial: u64,
}

impl HeapSlab {
    /// The first object.
    fn objects(&self) -> *mut u64 {
        // SAFETY: a slab is larger than its prefix.
        unsafe { self.slab.start().cast::<u64>().add(PREFIX) }
    }

    /// The end of the memory for objects.
    fn end(&self) -> *mut u64 {
        // SAFETY: one past the slab's memory.
        unsafe { self.slab.start().add(SLAB_BYTES).cast() }
    }
}

/// An object with memory of its own.
#[derive(Debug)]
struct Large {
    block: Block,
    /// Words that were asked for: the block may be larger.
    words: usize,
    serial: u64,
}

impl Large {
    fn object(&self) -> Ref {
        // SAFETY: the block has room for the prefix and the object.
        unsafe { self.block.start().add(PREFIX) }
    }
}

/// What a heap held when a task began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    /// The serial number of the last slab, and how much of it was in use.
    slab: u64,
    top: *mut u64,
    /// The serial number of the last large object.
    large: u64,
}

/// What a heap held before the first fork of a run.
#[derive(Debug)]
pub(crate) struct Mark {
    floor: Floor,
    allocated: u64,
    evacuated: bool,
    peak: u64,
    level_evacuated_at: u64,
    level_held: u64,
}

const GROUND: Floor = Floor { slab: 0, top: std::ptr::null_mut(), large: 0 };

/// Numbers heaps.
static HEAPS: AtomicU64 = AtomicU64::new(1);

/// Limits of a heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeapLimits {
    pub(crate) allocated_bytes: u64,
    pub(crate) live_bytes: u64,
}

/// All references that stay in use while an object is made. Objects may move, and references follow them.
#[derive(Debug)]
pub(crate) struct Roots<'a> {
    /// Those of the task's frames.
    pub(crate) frames: &'a mut [Ref],
    /// Those of records; `None` while nothing is recorded yet.
    pub(crate) kept: Option<&'a mut Kept>,
}

impl Roots<'_> {
    /// No references: nothing is evacuated while the host's arguments are written.
    #[inline(always)]
    pub(crate) fn none() -> Self {
        Roots { frames: &mut [], kept: None }
    }
}

/// The heap of an execution.
#[derive(Debug)]
pub(crate) struct Heap {
    pool: Arc<SlabPool>,
    limits: HeapLimits,
    top: *mut u64,
    /// How far objects may reach from `top` on: to the end of the slab, or less far if no more may be allocated. So who
    /// makes an object asks for one limit.
    end: *mut u64,
    /// The end of the slab's memory.
    slab_end: *mut u64,
    /// What is between here and `top` is not in `allocated` yet.
    counted_to: *mut u64,
    number: u64,
    /// In the order of their serial numbers; objects are made in the last one.
    slabs: Vec<HeapSlab>,
    /// The serial number of the youngest slab and of the youngest large object.
    slab_serial: u64,
    large_serial: u64,
    floor: Floor,
    /// That of the run, while there is one.
    account: *const Account,
    /// Whether other executions draw on the account, too.
    shared: bool,
    /// Kept from the last run, for the first slab of the next: small runs leave the pool alone.
    spare: Option<Slab>,
    large: Vec<Large>,
    large_bytes: u64,
    /// Bytes allocated since the run began, up to `counted_to`.
    allocated: u64,
    /// What was allocated at the last evacuation.
    evacuated_at: u64,
    threshold: u64,
    peak: u64,
    /// Whether there was an evacuation in this run.
    evacuated: bool,
    /// Evacuations since the heap was made: objects stay where they are while this does.
    moves: u64,
    /// What was allocated when [`Heap::prepare`] evacuated last.
    level_evacuated_at: u64,
    /// What the heap held after that.
    level_held: u64,
    /// While the host's arguments are built, nothing names their parts yet: no evacuation.
    paused: bool,
    /// Bytes of objects that were filled in bulk, long after they were made, since the clock was looked at for that.
    filled: usize,
    /// Bytes that the run holds outside of the heap, but for its stacks. While there are other executions, the account
    /// knows of them.
    beside: u64,
}

// SAFETY: a heap owns all memory that its pointers lead to.
unsafe impl Send for Heap {}

impl Heap {
    // Where native code finds fields.
    pub(crate) const TOP: usize = offset_of!(Heap, top);
    pub(crate) const END: usize = offset_of!(Heap, end);

    pub(crate) fn new(pool: Arc<SlabPool>) -> Self {
        Heap {
            pool,
            limits: HeapLimits { allocated_bytes: u64::MAX, live_bytes: u64::MAX },
            top: std::ptr::null_mut(),
            end: std::ptr::null_mut(),
            slab_end: std::ptr::null_mut(),
            counted_to: std::ptr::null_mut(),
            number: HEAPS.fetch_add(1, Ordering::Relaxed),
            slabs: Vec::new(),
            slab_serial: 0,
            large_serial: 0,
            floor: GROUND,
            account: std::ptr::null(),
            shared: false,
            spare: None,
            large: Vec::new(),
            large_bytes: 0,
            allocated: 0,
            evacuated_at: 0,
            threshold: THRESHOLD_MIN,
            peak: 0,
            evacuated: false,
            moves: 0,
            level_evacuated_at: 0,
            level_held: 0,
            paused: false,
            filled: 0,
            beside: 0,
        }
    }

    /// Forgets all objects and begins a run, which ends with [`Heap::release`] or the next one at the latest. The
    /// account must live until then, or until [`Heap::attach`] names another place for it.
    pub(crate) fn begin(&mut self, limits: HeapLimits, account: &Account) {
        self.release();
        self.limits = limits;
        self.attach(account);
        (self.allocated, self.evacuated_at, self.threshold, self.peak) = (0, 0, THRESHOLD_MIN, 0);
        (self.evacuated, self.level_evacuated_at, self.level_held) = (false, 0, 0);
        (self.filled, self.beside) = (0, 0);
    }

    /// Evacuates, if that is due, before a time in which nothing of what there is can be freed: a derivative operator,
    /// which raises the floor, or a pause. A program may allocate nearly everything in such times.
    pub(crate) fn prepare(&mut self, roots: Roots<'_>) -> Result<(), Limit> {
        // Where memory is short, a quarter of what is left.
        let short = (self.limits.live_bytes.saturating_sub(self.level_held) / 4).max(SLAB_BYTES as u64);
        let due = THRESHOLD_MIN.max(2 * self.level_held).min(short);
        if self.allocated() - self.level_evacuated_at > due && !self.paused {
            self.evacuate(roots)?;
            (self.level_evacuated_at, self.level_held) = (self.allocated(), self.held());
        }
        Ok(())
    }

    /// Says where the run's account is.
    pub(crate) fn attach(&mut self, account: &Account) {
        self.account = account;
    }

    /// Ends a run whose objects stay as they are: no more are made, and no account is kept of them.
    pub(crate) fn detach(&mut self) {
        (self.account, self.shared, self.paused) = (std::ptr::null(), false, false);
    }

    /// Frees all objects.
    #[inline(always)]
    pub(crate) fn release(&mut self) {
        // Most small runs have nothing here, and are not much longer than this function.
        if !(self.slabs.is_empty() && self.large.is_empty()) {
            self.give_memory_back();
        }
        self.large_bytes = 0;
        self.close_slab();
        (self.slab_serial, self.large_serial, self.floor) = (0, 0, GROUND);
        (self.account, self.shared) = (std::ptr::null(), false);
    }

    /// Gives all memory back but a slab.
    #[inline(never)]
    fn give_memory_back(&mut self) {
        if self.spare.is_none() {
            self.spare = self.slabs.pop().map(|last| last.slab);
        }
        if !self.slabs.is_empty() {
            self.pool.give_back(self.slabs.drain(..).map(|one| one.slab));
        }
        for large in self.large.drain(..) {
            self.pool.give_back_block(large.block);
        }
    }

    /// Begins a task: what is there now stays where it is. Returns the floor to be restored when it ends.
    #[inline]
    pub(crate) fn raise_floor(&mut self) -> Floor {
        let floor = self.top_floor();
        std::mem::replace(&mut self.floor, floor)
    }

    /// A floor with everything below that is there now.
    #[inline]
    fn top_floor(&self) -> Floor {
        // Without a slab to make objects in, the last one gets no more of them.
        let top = if self.top.is_null() { std::ptr::without_provenance_mut(usize::MAX) } else { self.top };
        Floor { slab: self.slab_serial, top, large: self.large_serial }
    }

    /// Ends a task: its objects are the outer task's now.
    #[inline]
    pub(crate) fn restore_floor(&mut self, floor: Floor) {
        self.floor = floor;
    }

    /// Frees all objects that were made since, and forgets that they were allocated. Nothing refers to them.
    pub(crate) fn cut(&mut self, mark: &Mark) {
        let floor = &mark.floor;
        let young = self.slabs.partition_point(|one| one.serial <= floor.slab);
        self.pool.give_back(self.slabs.drain(young..).map(|one| one.slab));
        let first = self.large.partition_point(|large| large.serial <= floor.large);
        for large in self.large.drain(first..) {
            self.large_bytes -= 8 * large.words as u64;
            // SAFETY: the account lives as long as the run.
            if let Some(account) = unsafe { self.account.as_ref() } {
                account.block_freed(8 * large.words);
            }
            self.pool.give_back_block(large.block);
        }
        match self.slabs.last() {
            Some(last) if last.serial == floor.slab && floor.top <= last.end() => self.go_on(floor.top, last.end()),
            _ => self.close_slab(),
        }
        self.set_allocated(mark.allocated);
        (self.evacuated, self.peak) = (mark.evacuated, mark.peak);
        (self.level_evacuated_at, self.level_held) = (mark.level_evacuated_at, mark.level_held);
        self.count_from_here(0);
    }

    /// What the heap holds now, to which [`Heap::cut`] goes back.
    pub(crate) fn mark(&self) -> Mark {
        let Heap { evacuated, level_evacuated_at, level_held, .. } = *self;
        let (floor, allocated, peak) = (self.top_floor(), self.allocated(), self.peak());
        Mark { floor, allocated, evacuated, peak, level_evacuated_at, level_held }
    }

    /// Has everything stay where it is that is there now, until the run is released. Returns what [`Heap::cut`] goes
    /// back to, if only that is wanted of the run.
    pub(crate) fn keep(&mut self) -> Mark {
        self.raise_floor();
        self.mark()
    }

    /// Begins or ends a stretch in which other executions run.
    pub(crate) fn share(&mut self, shared: bool) {
        self.shared = shared;
    }

    fn account(&self) -> Option<&Account> {
        // SAFETY: the account lives as long as the run.
        unsafe { self.account.as_ref() }
    }

    /// The account, while other executions draw on it.
    fn shared_account(&self) -> Option<&Account> {
        self.account().filter(|_| self.shared)
    }

    /// Ends an execution: its objects are for the one that forked it. The heap is another one from now on, because they
    /// keep its number until they are absorbed.
    pub(crate) fn leave(&mut self) -> EndedHeap {
        let (held, peak) = (self.held(), self.peak());
        self.number = HEAPS.fetch_add(1, Ordering::Relaxed);
        let left = EndedHeap {
            slabs: std::mem::take(&mut self.slabs),
            large: std::mem::take(&mut self.large),
            large_bytes: std::mem::take(&mut self.large_bytes),
            top: self.top,
            end: self.slab_end,
            held,
            peak,
            allocated: self.allocated(),
        };
        self.close_slab();
        left
    }

    /// Takes what an execution has left.
    pub(crate) fn absorb(&mut self, left: EndedHeap) {
        self.peak = self.peak.max(self.held() + left.peak);
        // What the execution left may be garbage, all of it.
        let since = self.allocated() - self.evacuated_at + left.held;
        let allocated = self.allocated() + left.allocated;
        self.set_allocated(allocated);
        // It has drawn on the account for them.
        self.set_allocated_max(self.limits.allocated_bytes.saturating_add(left.allocated));
        self.evacuated_at = allocated.saturating_sub(since);
        for mut one in left.slabs {
            self.slab_serial += 1;
            one.serial = self.slab_serial;
            self.slabs.push(one);
            let last = self.slabs.len() - 1;
            self.stamp(last);
            // The last slab is the one that objects are made in, because floors go by the order of slabs.
            self.go_on(left.top, left.end);
        }
        for mut large in left.large {
            self.large_serial += 1;
            large.serial = self.large_serial;
            // SAFETY: the prefix belongs to the block.
            unsafe { write_prefix(large.block.start(), self.number, large.serial) };
            self.large.push(large);
        }
        self.large_bytes += left.large_bytes;
    }

    /// Writes the prefix of a slab.
    fn stamp(&mut self, index: usize) {
        let one = &self.slabs[index];
        // SAFETY: the prefix belongs to the slab.
        unsafe { write_prefix(one.slab.start().cast(), self.number, one.serial) };
    }

    /// Evacuates nothing until [`Heap::resume`].
    pub(crate) fn pause(&mut self) {
        self.paused = true;
    }

    /// Evacuates again. What was made in between counts as survivors: the host's arguments are likely to live.
    pub(crate) fn resume(&mut self) {
        self.paused = false;
        self.count_from_here(0);
    }

    /// A copy of an array that is borrowed of the host, with elements of its own. Nothing is evacuated.
    ///
    /// # Safety
    /// `array` is a complete one of this heap, and its elements are still there.
    pub(crate) unsafe fn own(&mut self, array: Ref) -> Result<Ref, Limit> {
        self.pause();
        // SAFETY: promised by the caller; the copy has room for all elements.
        unsafe {
            let len = *array.add(LEN) as usize;
            let copy = self.allocate(bare(*array), ARRAY_HEADER + len, 0, Roots::none());
            self.resume();
            let copy = copy?;
            copy.add(OWNER).copy_from_nonoverlapping(array.add(OWNER), ARRAY_HEADER - OWNER);
            copy.add(ARRAY_HEADER).copy_from_nonoverlapping(elements(array), len);
            Ok(copy)
        }
    }

    /// Waits until twice as much was allocated as there is now, with `more` bytes that an evacuation visits.
    fn count_from_here(&mut self, more: u64) {
        self.evacuated_at = self.allocated();
        self.threshold = THRESHOLD_MIN.max(2 * (self.held() + more));
    }

    /// How often objects have moved.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// Bytes allocated since the run began.
    #[inline(always)]
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated + (self.top.addr() - self.counted_to.addr()) as u64
    }

    /// Says how many bytes were allocated since the run began.
    fn set_allocated(&mut self, bytes: u64) {
        (self.allocated, self.counted_to) = (bytes, self.top);
        self.bound_end();
    }

    /// How many bytes may be allocated in a run, other executions' not counted.
    pub(crate) fn allocated_max(&self) -> u64 {
        self.limits.allocated_bytes
    }

    /// Says how many that are.
    pub(crate) fn set_allocated_max(&mut self, bytes: u64) {
        self.limits.allocated_bytes = bytes;
        self.bound_end();
    }

    /// Finds out how far objects may reach.
    fn bound_end(&mut self) {
        let left = self.limits.allocated_bytes.saturating_sub(self.allocated()) / 8;
        let room = (self.slab_end.addr() - self.top.addr()) / 8;
        // SAFETY: it is as far as the slab's end at most.
        self.end = unsafe { self.top.add(room.min(left as usize)) };
    }

    /// Makes objects between these places of a slab from now on. What was allocated stays what it is.
    fn go_on(&mut self, top: *mut u64, slab_end: *mut u64) {
        let allocated = self.allocated();
        (self.top, self.slab_end) = (top, slab_end);
        self.set_allocated(allocated);
    }

    /// Makes no more objects in the last slab.
    fn close_slab(&mut self) {
        self.go_on(std::ptr::null_mut(), std::ptr::null_mut());
    }

    /// The most memory held at one time, in whole slabs.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.max(self.held())
    }

    /// Bytes that the heap holds, in whole slabs.
    pub(crate) fn held(&self) -> u64 {
        (self.slabs.len() * SLAB_BYTES) as u64 + self.large_bytes
    }

    /// Bytes that all executions hold, but for the stacks of one that is the only one.
    pub(crate) fn held_by_all(&self) -> u64 {
        self.shared_account().map_or(self.held() + self.beside, |account| account.live_bytes.load(Ordering::Relaxed))
    }

    /// Whether all executions together hold more than they may.
    pub(crate) fn is_too_much_held(&self) -> bool {
        self.held_by_all() > self.limits.live_bytes
    }

    /// The run holds so many bytes more outside of the heap.
    pub(crate) fn hold(&mut self, bytes: u64) {
        match self.shared_account() {
            Some(account) => _ = account.live_bytes.fetch_add(bytes, Ordering::Relaxed),
            None => self.beside += bytes,
        }
    }

    /// How many bytes the run holds outside of the heap, of which this is the only execution.
    pub(crate) fn set_beside(&mut self, bytes: u64) {
        self.beside = bytes;
    }

    /// Tells the other executions that this one holds more or less.
    pub(crate) fn changed(&self, bytes: i64) {
        if let Some(account) = self.shared_account() {
            account.live_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Gets leave to have allocated as much as it has.
    fn check_allocated(&mut self) -> Result<(), Limit> {
        let over = self.allocated().saturating_sub(self.limits.allocated_bytes);
        if over == 0 {
            return Ok(());
        }
        let account = self.shared_account().ok_or(Limit::AllocatedBytes)?;
        let drawn = account.draw_allocation(over).ok_or(Limit::AllocatedBytes)?;
        self.set_allocated_max(self.limits.allocated_bytes + drawn);
        Ok(())
    }

    /// Memory for an object of `words` words; word 0 is `header`, the owner is 0, the rest is arbitrary. `reserved` is
    /// memory outside of the heap that counts towards the limit.
    #[inline(always)]
    pub(crate) fn allocate(
        &mut self,
        header: u64,
        words: usize,
        reserved: u64,
        roots: Roots<'_>,
    ) -> Result<Ref, Limit> {
        let free = (self.end.addr() - self.top.addr()) / 8;
        if words > free || words > LARGE_WORDS {
            return self.allocate_slowly(header, words, reserved, roots);
        }
        let object = self.top;
        // SAFETY: `words` words from `top` on are free and belong to the current slab.
        unsafe {
            self.top = object.add(words);
            *object = header;
            set_owner(object, Owner::NOBODY);
        }
        Ok(object)
    }

    #[cold]
    #[inline(never)]
    fn allocate_slowly(&mut self, header: u64, words: usize, reserved: u64, roots: Roots<'_>) -> Result<Ref, Limit> {
        let bytes = (words as u64).checked_mul(8).ok_or(Limit::LiveBytes)?;
        // It is counted before it is made.
        self.set_allocated(self.allocated().checked_add(bytes).ok_or(Limit::AllocatedBytes)?);
        self.check_allocated()?;
        // The account knows the stacks of all executions.
        let reserved = if self.shared { 0 } else { reserved };
        let needed = reserved.saturating_add(bytes.max(SLAB_BYTES as u64));
        let too_much = |heap: &Self| heap.held_by_all().saturating_add(needed) > heap.limits.live_bytes;
        let since = self.allocated() - self.evacuated_at;
        if !self.paused && (too_much(self) || since > self.threshold) {
            if too_much(self) && self.evacuated && since < self.held() / 16 {
                // Nearly everything lives: evacuating again and again would only delay the end.
                return Err(Limit::LiveBytes);
            }
            self.evacuate(roots)?;
        }
        if too_much(self) {
            return Err(Limit::LiveBytes);
        }
        if words > LARGE_WORDS {
            self.ask_for_time(8 * words)?;
            let refused = if words > WORDS_MAX { Limit::LiveBytes } else { Limit::AddressSpace };
            let block = self.pool.take_block(words + PREFIX).ok_or(refused)?;
            self.large_serial += 1;
            let large = Large { block, words, serial: self.large_serial };
            let object = large.object();
            // SAFETY: the block has room for the prefix and for the object, which has at least two words.
            unsafe {
                write_prefix(large.block.start(), self.number, large.serial);
                *object = header | LARGE;
                set_owner(object, Owner::NOBODY);
            }
            self.large.push(large);
            self.large_bytes += bytes;
            if let Some(account) = self.account() {
                account.block_taken(8 * words);
            }
            self.changed(bytes as i64);
            return Ok(object);
        }
        if words > (self.slab_end.addr() - self.top.addr()) / 8 {
            self.open_slab()?;
        }
        let object = self.top;
        // SAFETY: a slab has room for every object that isn't large.
        unsafe {
            self.go_on(object.add(words), self.slab_end);
            *object = header;
            set_owner(object, Owner::NOBODY);
        }
        Ok(object)
    }

    /// Whether the run has the time to fill so many bytes of objects that there are, in one go. There may be much of
    /// that between two looks at the clock, a little at a time.
    pub(crate) fn fill(&mut self, bytes: usize) -> Result<(), Limit> {
        self.filled = self.filled.saturating_add(bytes);
        if self.filled < SLAB_BYTES {
            return Ok(());
        }
        let filled = std::mem::take(&mut self.filled);
        self.ask_for_time(filled)
    }

    /// Whether the run has the time to fill so many bytes.
    fn ask_for_time(&self, bytes: usize) -> Result<(), Limit> {
        self.account().map_or(Ok(()), |account| account.time_to_fill(bytes))
    }

    fn open_slab(&mut self) -> Result<(), Limit> {
        self.ask_for_time(SLAB_BYTES)?;
        let slab = self.spare.take().or_else(|| self.pool.take()).ok_or(Limit::AddressSpace)?;
        self.slab_serial += 1;
        let one = HeapSlab { slab, serial: self.slab_serial };
        self.go_on(one.objects(), one.end());
        self.slabs.push(one);
        self.stamp(self.slabs.len() - 1);
        self.changed(SLAB_BYTES as i64);
        Ok(())
    }
}

/// The objects of an execution that has ended, and what it counted.
#[derive(Debug)]
pub(crate) struct EndedHeap {
    slabs: Vec<HeapSlab>,
    large: Vec<Large>,
    large_bytes: u64,
    /// The free memory of the last slab.
    top: *mut u64,
    end: *mut u64,
    held: u64,
    peak: u64,
    allocated: u64,
}

// SAFETY: it owns all memory that its pointers lead to.
unsafe impl Send for EndedHeap {}

impl Drop for Heap {
    fn drop(&mut self) {
        self.release();
        self.pool.give_back(self.spare.take().into_iter());
    }
}

/// Writes what stands before the objects of a slab and before a large object.
///
/// # Safety
/// `at` is the start of a slab, or of a large object's block.
unsafe fn write_prefix(at: *mut u64, heap: u64, serial: u64) {
    // SAFETY: promised by the caller.
    unsafe {
        *at = heap;
        *at.add(1) = serial;
    }
}
