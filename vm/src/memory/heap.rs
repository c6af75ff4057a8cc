//! The heap of a run: objects, their layout, and the evacuation that keeps it bounded.
//!
//! Objects are immutable once made (builders until they are finished) and acyclic. All are sequences of 8-byte words:
//! - word 0: kind and flags (8 bits), counts of real, integer and reference fields (8 bits each), tag or function (32);
//! - word 1: the owner, the context that made it; 0: it and all that it refers to are constant;
//! - fields: primals of reals, words of reals, integers, references;
//! - arrays and builders: word 2 is the length, word 3 an array's first slot or a builder's capacity, then elements.
//!   The words of a real builder follow its elements.
//!
//! The layout is the same in all modes. Small objects live in slabs and move when the heap is evacuated (Cheney's
//! algorithm; the roots are the run's reference registers); large ones have memory of their own and stay.
//!
//! A heap belongs to a strand. What was there before a task began may be in use by other tasks, so it stays: the
//! task's [`Floor`] says how much that is, and only objects above it are moved or freed. Every slab and every large
//! object says which heap it belongs to and when that got it.

use crate::bytecode::isa::Bank;
use crate::bytecode::module::ValueType;
use crate::memory::kept::Kept;
use crate::memory::pool::{Block, SLAB_BYTES, Slab, SlabPool};
use crate::running::meter::{Account, Watch, out_of_time};
use crate::tape::Tape;
use crate::trap::{Limit, TrapKind};
use crate::word::{Owner, Slot, Word};
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A reference register's content: an object, or null before the first assignment. Fields and elements that are
/// references hold it as such, not as a number.
pub(crate) type Ref = *mut u64;

/// Words before an object's fields.
pub const OBJECT_HEADER: usize = 2;
/// Words before an array's elements.
pub const ARRAY_HEADER: usize = 4;
/// Index of the owner word.
pub const OWNER: usize = 1;
/// Index of an array's length.
pub const LEN: usize = 2;
/// Index of an array's first slot.
pub const FIRST: usize = 3;
/// Index of a builder's capacity.
pub const CAPACITY: usize = 3;

pub(crate) const KIND: u64 = 0x0f;
const OBJECT: u64 = 1;
const ARRAY: u64 = 2;
pub(crate) const BUILDER: u64 = 5;
/// A real builder that keeps the words of its elements.
const WITH_WORDS: u64 = 0x10;
const MARKED: u64 = 0x20;
const LARGE: u64 = 0x40;
const FORWARDED: u64 = 0x80;

/// Objects of more words than this get memory of their own.
pub const LARGE_WORDS: usize = SLAB_BYTES / 8 / 4;
/// The heap is not evacuated before this many bytes were allocated since the last time.
const THRESHOLD_MIN: u64 = 4 << 20;

/// How many fields of each bank an object has, and where they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fields {
    pub(crate) reals: usize,
    pub(crate) ints: usize,
    pub(crate) refs: usize,
}

impl Fields {
    pub(crate) fn of(types: &[ValueType]) -> Self {
        let count = |bank| types.iter().filter(|ty| ty.bank() == bank).count();
        Fields { reals: count(Bank::Real), ints: count(Bank::Int), refs: count(Bank::Ref) }
    }

    fn of_header(header: u64) -> Self {
        let byte = |n: u32| (header >> (8 * n) & 0xff) as usize;
        Fields { reals: byte(1), ints: byte(2), refs: byte(3) }
    }

    /// The bank of the only field, if there is one field.
    pub(crate) fn only_bank(&self) -> Option<Bank> {
        match (self.reals, self.ints, self.refs) {
            (1, 0, 0) => Some(Bank::Real),
            (0, 1, 0) => Some(Bank::Int),
            (0, 0, 1) => Some(Bank::Ref),
            _ => None,
        }
    }

    /// The index of the n-th real's primal.
    pub(crate) fn real_at(&self, n: usize) -> usize {
        OBJECT_HEADER + n
    }
    /// The index of the n-th real's word.
    pub(crate) fn word_at(&self, n: usize) -> usize {
        OBJECT_HEADER + self.reals + n
    }
    /// The index of the n-th integer.
    pub(crate) fn int_at(&self, n: usize) -> usize {
        OBJECT_HEADER + 2 * self.reals + n
    }
    /// The index of the n-th reference.
    pub(crate) fn ref_at(&self, n: usize) -> usize {
        OBJECT_HEADER + 2 * self.reals + self.ints + n
    }
    /// The object's size in words.
    pub(crate) fn size(&self) -> usize {
        OBJECT_HEADER + 2 * self.reals + self.ints + self.refs
    }
}

/// Word 0 of a struct, a variant (with its tag) or a closure (with its function).
pub(crate) fn object_header(fields: Fields, tag: u32) -> u64 {
    debug_assert!(fields.reals < 256 && fields.ints < 256 && fields.refs < 256, "the verifier bounds fields");
    OBJECT | (fields.reals as u64) << 8 | (fields.ints as u64) << 16 | (fields.refs as u64) << 24 | u64::from(tag) << 32
}

/// Word 0 of an array.
pub fn array_header(element: Bank) -> u64 {
    ARRAY + element as u64
}

/// Word 0 of a builder.
pub(crate) fn builder_header(element: Bank, with_words: bool) -> u64 {
    let words = if with_words { WITH_WORDS } else { 0 };
    (BUILDER + element as u64) | words
}

/// A variant's tag or a closure's function.
pub(crate) fn tag_of(header: u64) -> u32 {
    (header >> 32) as u32
}

/// Whether word 0 is that of a builder that is not finished.
pub(crate) fn is_builder(header: u64) -> bool {
    header & KIND >= BUILDER
}

/// Whether a builder keeps words.
pub(crate) fn has_words(header: u64) -> bool {
    header & WITH_WORDS != 0
}

/// Word 0 of the array that a builder becomes.
pub(crate) fn finished(header: u64) -> u64 {
    (header & !WITH_WORDS) - (BUILDER - ARRAY)
}

/// The number of fields by bank of an object of this header.
pub(crate) fn fields_of(header: u64) -> Fields {
    Fields::of_header(header)
}

/// The task whose slots the words of an object are.
///
/// # Safety
/// `object` is an object.
#[inline(always)]
pub(crate) unsafe fn owner_of(object: Ref) -> Owner {
    // SAFETY: promised by the caller: every object has an owner word.
    unsafe { *object.add(OWNER).cast() }
}

/// Gives an object an owner.
///
/// # Safety
/// `object` is an object, and nobody else uses it meanwhile.
#[inline(always)]
pub(crate) unsafe fn set_owner(object: Ref, owner: Owner) {
    // SAFETY: promised by the caller: every object has an owner word.
    unsafe { *object.add(OWNER).cast() = owner };
}

/// The slot of an array's first element; none if all elements are constants.
///
/// # Safety
/// `array` is an array, not a builder.
#[inline(always)]
pub(crate) unsafe fn first_of(array: Ref) -> Slot {
    // SAFETY: promised by the caller; a first slot takes as much room as a word.
    unsafe { (*array.add(FIRST).cast::<Word>()).slot() }
}

/// Says which slot an array's first element has.
///
/// # Safety
/// `array` is an array or becomes one, and nobody else uses it meanwhile.
#[inline(always)]
pub(crate) unsafe fn set_first(array: Ref, first: Slot) {
    // SAFETY: promised by the caller; a first slot takes as much room as a word.
    unsafe { *array.add(FIRST).cast() = Word::from(first) };
}

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
    /// Those of records.
    pub(crate) kept: &'a mut Kept,
}

/// The heap of a strand.
#[derive(Debug)]
pub(crate) struct Heap {
    pool: Arc<SlabPool>,
    limits: HeapLimits,
    top: *mut u64,
    end: *mut u64,
    number: u64,
    /// In the order of their serial numbers; objects are made in the last one.
    slabs: Vec<HeapSlab>,
    /// The serial number of the youngest slab and of the youngest large object.
    slab_serial: u64,
    large_serial: u64,
    floor: Floor,
    /// That of the run, while there is one.
    account: *const Account,
    /// Whether other strands draw on the account, too.
    shared: bool,
    /// Kept from the last run, for the first slab of the next: small runs leave the pool alone.
    spare: Option<Slab>,
    large: Vec<Large>,
    large_bytes: u64,
    /// Bytes allocated since the run began.
    allocated: u64,
    /// `allocated` at the last evacuation.
    evacuated_at: u64,
    threshold: u64,
    peak: u64,
    /// Whether there was an evacuation in this run.
    evacuated: bool,
    /// While the host's arguments are built, nothing names their parts yet: no evacuation.
    paused: bool,
}

// SAFETY: a heap owns all memory that its pointers lead to.
unsafe impl Send for Heap {}

impl Heap {
    // Where native code finds fields.
    pub(crate) const TOP: usize = offset_of!(Heap, top);
    pub(crate) const END: usize = offset_of!(Heap, end);
    pub(crate) const ALLOCATED: usize = offset_of!(Heap, allocated);
    pub(crate) const ALLOCATED_MAX: usize = offset_of!(Heap, limits.allocated_bytes);

    pub(crate) fn new(pool: Arc<SlabPool>) -> Self {
        Heap {
            pool,
            limits: HeapLimits { allocated_bytes: u64::MAX, live_bytes: u64::MAX },
            top: std::ptr::null_mut(),
            end: std::ptr::null_mut(),
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
            paused: false,
        }
    }

    /// Forgets all objects and begins a run, which ends with [`Heap::release`] or the next one at the latest. The
    /// account must live until then, or until [`Heap::attach`] names another place for it.
    pub(crate) fn begin(&mut self, limits: HeapLimits, account: &Account) {
        self.release();
        self.limits = limits;
        self.attach(account);
        (self.allocated, self.evacuated_at, self.threshold, self.peak) = (0, 0, THRESHOLD_MIN, 0);
        self.evacuated = false;
    }

    /// Says where the run's account is.
    pub(crate) fn attach(&mut self, account: &Account) {
        self.account = account;
    }

    /// Frees all objects.
    #[inline]
    pub(crate) fn release(&mut self) {
        // Most small runs have nothing here, and are not much longer than this function.
        if !self.slabs.is_empty() {
            if self.spare.is_none() {
                self.spare = self.slabs.pop().map(|last| last.slab);
            }
            if !self.slabs.is_empty() {
                self.pool.give_back(self.slabs.drain(..).map(|one| one.slab));
            }
        }
        if !self.large.is_empty() {
            for large in self.large.drain(..) {
                self.pool.give_back_block(large.block);
            }
        }
        self.large_bytes = 0;
        (self.top, self.end) = (std::ptr::null_mut(), std::ptr::null_mut());
        (self.slab_serial, self.large_serial, self.floor) = (0, 0, GROUND);
        (self.account, self.shared) = (std::ptr::null(), false);
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
        let null = std::ptr::null_mut();
        (self.top, self.end) = match self.slabs.last() {
            Some(last) if last.serial == floor.slab && floor.top <= last.end() => (floor.top, last.end()),
            _ => (null, null),
        };
        (self.allocated, self.evacuated, self.peak) = (mark.allocated, mark.evacuated, mark.peak);
        self.count_from_here();
    }

    /// What the heap holds now, to which [`Heap::cut`] goes back.
    pub(crate) fn mark(&self) -> Mark {
        Mark { floor: self.top_floor(), allocated: self.allocated, evacuated: self.evacuated, peak: self.peak() }
    }

    /// Begins or ends a stretch in which other strands run.
    pub(crate) fn share(&mut self, shared: bool) {
        self.shared = shared;
    }

    fn account(&self) -> Option<&Account> {
        // SAFETY: the account lives as long as the run.
        unsafe { self.account.as_ref() }
    }

    /// The account, while other strands draw on it.
    fn shared_account(&self) -> Option<&Account> {
        self.account().filter(|_| self.shared)
    }

    /// Ends a strand: its objects are for the one that forked it. The heap is another one from now on, because they
    /// keep its number until they are absorbed.
    pub(crate) fn leave(&mut self) -> Left {
        let (held, peak) = (self.held(), self.peak());
        self.number = HEAPS.fetch_add(1, Ordering::Relaxed);
        let left = Left {
            slabs: std::mem::take(&mut self.slabs),
            large: std::mem::take(&mut self.large),
            large_bytes: std::mem::take(&mut self.large_bytes),
            top: self.top,
            end: self.end,
            held,
            peak,
            allocated: self.allocated,
        };
        (self.top, self.end) = (std::ptr::null_mut(), std::ptr::null_mut());
        left
    }

    /// Takes what a strand has left.
    pub(crate) fn absorb(&mut self, left: Left) {
        self.peak = self.peak.max(self.held() + left.peak);
        // What the strand left may be garbage, all of it.
        let since = self.allocated - self.evacuated_at + left.held;
        self.allocated += left.allocated;
        // It has drawn on the account for them.
        self.limits.allocated_bytes = self.limits.allocated_bytes.saturating_add(left.allocated);
        self.evacuated_at = self.allocated.saturating_sub(since);
        for mut one in left.slabs {
            self.slab_serial += 1;
            one.serial = self.slab_serial;
            self.slabs.push(one);
            let last = self.slabs.len() - 1;
            self.stamp(last);
            // The last slab is the one that objects are made in, because floors go by the order of slabs.
            (self.top, self.end) = (left.top, left.end);
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

    /// Whether an object was made since the task began: only such ones are moved or freed.
    ///
    /// # Safety
    /// `object` is an object of this heap or of another one, with this header or a forwarding mark.
    unsafe fn is_young(&self, object: Ref, header: u64) -> bool {
        // SAFETY: every slab begins with a prefix, and one stands before every large object.
        unsafe {
            if header & LARGE != 0 {
                let prefix = object.sub(PREFIX);
                return *prefix == self.number && *prefix.add(1) > self.floor.large;
            }
            let prefix = object.map_addr(|address| address & !(SLAB_BYTES - 1));
            let serial = *prefix.add(1);
            *prefix == self.number
                && (serial > self.floor.slab || (serial == self.floor.slab && object >= self.floor.top))
        }
    }

    /// Evacuates nothing until [`Heap::resume`].
    pub(crate) fn pause(&mut self) {
        self.paused = true;
    }

    /// Evacuates again. What was made in between counts as survivors: the host's arguments are likely to live.
    pub(crate) fn resume(&mut self) {
        self.paused = false;
        self.count_from_here();
    }

    fn count_from_here(&mut self) {
        self.evacuated_at = self.allocated;
        self.threshold = THRESHOLD_MIN.max(2 * self.held());
    }

    /// Bytes allocated since the run began.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// The most memory held at one time, in whole slabs.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.max(self.held())
    }

    /// Bytes that the heap holds, in whole slabs.
    pub(crate) fn held(&self) -> u64 {
        (self.slabs.len() * SLAB_BYTES) as u64 + self.large_bytes
    }

    /// Bytes that all strands hold.
    fn held_by_all(&self) -> u64 {
        self.shared_account().map_or(self.held(), |account| account.live_bytes.load(Ordering::Relaxed))
    }

    /// Tells the other strands that this one holds more or less.
    pub(crate) fn changed(&self, bytes: i64) {
        if let Some(account) = self.shared_account() {
            account.live_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn limits(&mut self) -> &mut HeapLimits {
        &mut self.limits
    }

    /// Gets leave to have allocated as much as it has.
    fn check_allocated(&mut self) -> Result<(), Limit> {
        let over = self.allocated.saturating_sub(self.limits.allocated_bytes);
        if over == 0 {
            return Ok(());
        }
        let account = self.shared_account().ok_or(Limit::AllocatedBytes)?;
        self.limits.allocated_bytes += account.draw_allocation(over).ok_or(Limit::AllocatedBytes)?;
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
        let bytes = 8 * words as u64;
        if words > free || words > LARGE_WORDS || self.allocated + bytes > self.limits.allocated_bytes {
            return self.allocate_slowly(header, words, reserved, roots);
        }
        self.allocated += bytes;
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
        self.allocated = self.allocated.checked_add(bytes).ok_or(Limit::AllocatedBytes)?;
        self.check_allocated()?;
        // The account knows the stacks of all strands.
        let reserved = if self.shared { 0 } else { reserved };
        let needed = reserved.saturating_add(bytes.max(SLAB_BYTES as u64));
        let too_much = |heap: &Self| heap.held_by_all().saturating_add(needed) > heap.limits.live_bytes;
        let since = self.allocated - self.evacuated_at;
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
            let block = self.pool.take_block(words + PREFIX).ok_or(Limit::LiveBytes)?;
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
        if words > (self.end.addr() - self.top.addr()) / 8 {
            self.open_slab()?;
        }
        let object = self.top;
        // SAFETY: a slab has room for every object that isn't large.
        unsafe {
            self.top = object.add(words);
            *object = header;
            set_owner(object, Owner::NOBODY);
        }
        Ok(object)
    }

    /// Whether the run has the time to fill so many bytes.
    fn ask_for_time(&self, bytes: usize) -> Result<(), Limit> {
        self.account().map_or(Ok(()), |account| account.time_to_fill(bytes))
    }

    fn open_slab(&mut self) -> Result<(), Limit> {
        self.ask_for_time(SLAB_BYTES)?;
        let slab = self.spare.take().or_else(|| self.pool.take()).ok_or(Limit::LiveBytes)?;
        self.slab_serial += 1;
        let one = HeapSlab { slab, serial: self.slab_serial };
        (self.top, self.end) = (one.objects(), one.end());
        self.slabs.push(one);
        self.stamp(self.slabs.len() - 1);
        self.changed(SLAB_BYTES as i64);
        Ok(())
    }

    /// Copies the young objects that `roots` reach to new slabs and frees the other young ones.
    fn evacuate(&mut self, roots: Roots<'_>) -> Result<(), Limit> {
        self.peak = self.peak();
        let young = self.slabs.partition_point(|one| one.serial <= self.floor.slab);
        let filled = self.slabs.len();
        (self.top, self.end) = (std::ptr::null_mut(), std::ptr::null_mut());
        // Out of memory or time half-way: the run is over, its objects are freed together.
        self.copy_reachable(roots, filled)?;
        self.changed(-(((filled - young) * SLAB_BYTES) as i64));
        self.pool.give_back(self.slabs.drain(young..filled).map(|one| one.slab));
        // SAFETY: the account lives as long as the run.
        let account = unsafe { self.account.as_ref() };
        let first = self.large.partition_point(|large| large.serial <= self.floor.large);
        let mut freed = 0;
        let dead = self.large.extract_if(first.., |large| {
            // SAFETY: large objects live until they are removed from the list.
            let header = unsafe { &mut *large.object() };
            let marked = *header & MARKED != 0;
            *header &= !MARKED;
            !marked
        });
        for large in dead {
            freed += 8 * large.words as u64;
            if let Some(account) = account {
                account.block_freed(8 * large.words);
            }
            self.pool.give_back_block(large.block);
        }
        self.large_bytes -= freed;
        self.changed(-(freed as i64));
        self.evacuated = true;
        self.count_from_here();
        Ok(())
    }

    /// `filled` is the number of slabs with objects; what is copied goes to slabs after them.
    fn copy_reachable(&mut self, roots: Roots<'_>, filled: usize) -> Result<(), Limit> {
        // SAFETY: the account lives as long as the run.
        let watch = unsafe { self.account.as_ref() }.map_or(const { Watch::none() }, Watch::of);
        let watch = &watch;
        let mut large: Vec<Ref> = Vec::new();
        for root in roots.frames.iter_mut().chain(roots.kept.young()) {
            watch.tick(1).map_err(out_of_time)?;
            *root = self.moved(*root, &mut large)?;
        }
        let (mut slab, mut at) = (filled, std::ptr::null_mut::<u64>());
        loop {
            while let Some(object) = large.pop() {
                self.scan(object, &mut large, watch)?;
            }
            let Some(current) = self.slabs.get(slab) else { return Ok(()) };
            if at.is_null() {
                at = current.objects();
            }
            let last = slab + 1 == self.slabs.len();
            let limit = if last { self.top } else { current.end() };
            // SAFETY: `at` is inside the slab when it is compared with a word.
            if at < limit && (last || unsafe { *at } != 0) {
                // SAFETY: `at` is an object that was copied to this slab.
                let size = unsafe { size_of_object(at) };
                self.scan(at, &mut large, watch)?;
                // SAFETY: objects stand side by side.
                at = unsafe { at.add(size) };
            } else if last {
                return Ok(());
            } else {
                (slab, at) = (slab + 1, std::ptr::null_mut());
            }
        }
    }

    /// Replaces the references in an object by where their objects are now.
    fn scan(&mut self, object: Ref, large: &mut Vec<Ref>, watch: &Watch<'_>) -> Result<(), Limit> {
        // SAFETY: `object` is a complete object; its references lead to objects of this heap.
        unsafe {
            let (first, count) = references(object);
            for at in first..first + count {
                watch.tick(1).map_err(out_of_time)?;
                let reference = object.add(at).cast::<Ref>();
                *reference = self.moved(*reference, large)?;
            }
        }
        Ok(())
    }

    /// Where an object is after the evacuation; copies it if it is the first time that it is asked for.
    fn moved(&mut self, object: Ref, large: &mut Vec<Ref>) -> Result<Ref, Limit> {
        if object.is_null() {
            return Ok(object);
        }
        // SAFETY: `object` is an object: of this heap in an old slab, in a new one, or large; or of another heap.
        unsafe {
            let header = *object;
            if !self.is_young(object, header) {
                return Ok(object);
            }
            if header & FORWARDED != 0 {
                return Ok(*object.add(1).cast());
            }
            if header & LARGE != 0 {
                if header & MARKED == 0 {
                    *object = header | MARKED;
                    large.push(object);
                }
                return Ok(object);
            }
            let size = size_of_object(object);
            if size > (self.end.addr() - self.top.addr()) / 8 {
                if self.top < self.end {
                    // A zero word ends the objects of a slab.
                    *self.top = 0;
                }
                self.open_slab()?;
            }
            let copy = self.top;
            self.top = copy.add(size);
            copy.copy_from_nonoverlapping(object, size);
            *object = FORWARDED;
            *object.add(1).cast() = copy;
            Ok(copy)
        }
    }
}

/// The objects of a strand that has ended, and what it counted.
#[derive(Debug)]
pub(crate) struct Left {
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
unsafe impl Send for Left {}

impl Drop for Heap {
    fn drop(&mut self) {
        self.release();
        self.pool.give_back(self.spare.take().into_iter());
    }
}

/// A builder for elements of a bank. With `words`, one of reals keeps theirs.
#[inline]
pub(crate) fn build(
    heap: &mut Heap,
    capacity: i64,
    element: Bank,
    words: bool,
    reserved: u64,
    roots: Roots<'_>,
) -> Result<Ref, TrapKind> {
    let with_words = words && element == Bank::Real;
    let cells = u64::try_from(capacity).ok().and_then(|n| n.checked_mul(1 + u64::from(with_words)));
    let Some(size) = cells.filter(|&n| n < 1 << 48).map(|n| n as usize + ARRAY_HEADER) else {
        return Err(TrapKind::BadCapacity(capacity));
    };
    let builder = heap.allocate(builder_header(element, with_words), size, reserved, roots)?;
    // SAFETY: the object has a header of four words.
    unsafe {
        *builder.add(LEN) = 0;
        *builder.add(CAPACITY) = capacity as u64;
    }
    Ok(builder)
}

/// Turns a builder into an array.
///
/// # Safety
/// `array` is a builder or was one.
#[inline]
pub(crate) unsafe fn finish(array: Ref, tape: &mut Tape) -> Result<(), TrapKind> {
    // SAFETY: promised by the caller; the words of a builder follow its elements.
    unsafe {
        let header = *array;
        if !is_builder(header) {
            return Err(TrapKind::BuilderFinished);
        }
        let (len, capacity) = (*array.add(LEN) as usize, *array.add(CAPACITY) as usize);
        let mut first = Slot::NONE;
        if has_words(header) {
            let words = std::slice::from_raw_parts(array.add(ARRAY_HEADER + capacity).cast(), len);
            first = tape.pack(words)?;
            set_owner(array, if first.is_none() { Owner::NOBODY } else { tape.owner() });
        }
        *array = finished(header);
        set_first(array, first);
    }
    Ok(())
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

/// An object's size in words.
///
/// # Safety
/// `object` must be an object that has not moved.
unsafe fn size_of_object(object: Ref) -> usize {
    // SAFETY: the header tells which words there are.
    unsafe {
        let header = *object;
        match header & KIND {
            OBJECT => Fields::of_header(header).size(),
            kind if kind < BUILDER => ARRAY_HEADER + *object.add(LEN) as usize,
            _ => {
                let capacity = *object.add(CAPACITY) as usize;
                ARRAY_HEADER + if header & WITH_WORDS != 0 { 2 * capacity } else { capacity }
            }
        }
    }
}

/// Where an object's references are: the first index and their number.
///
/// # Safety
/// As [`size_of_object`].
unsafe fn references(object: Ref) -> (usize, usize) {
    // SAFETY: the header tells which words there are.
    unsafe {
        let header = *object;
        let kind = header & KIND;
        if kind == OBJECT {
            let fields = Fields::of_header(header);
            (fields.ref_at(0), fields.refs)
        } else if kind == ARRAY + Bank::Ref as u64 || kind == BUILDER + Bank::Ref as u64 {
            (ARRAY_HEADER, *object.add(LEN) as usize)
        } else {
            (ARRAY_HEADER, 0)
        }
    }
}
