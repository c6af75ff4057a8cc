//! The tape of a recording run: records in slabs, and the counter of slots.
//!
//! A record is written once, forwards, and read backwards, so it ends with what tells its shape:
//!
//! ```text
//! saved reals (8 bytes each) │ saved integers (8) │ slots of the inputs (4) │ segment (4) │ first output slot (4)
//! ```
//!
//! and for a pack, which gives consecutive slots to reals that had others (number [`PACK`] in place of a segment):
//!
//! ```text
//! slots of the elements (4 bytes each) │ count (4) │ PACK (4) │ first slot (4)
//! ```
//!
//! and for a loop that is recorded as one (its number has the bit [`LOOP`]):
//!
//! ```text
//! entries of the iterations │ saved reals (8 bytes each) │ saved integers (8) │ slots of the inputs (4)
//!     │ first slots of the arrays (4) │ first slot of what was pushed (4)
//!     │ iterations in all (8) │ entries here (4) │ loop (4) │ first output slot (4)
//! ```
//!
//! An entry is what is saved of one iteration: reals, then integers, 8 bytes each; all entries of a loop have one size,
//! which may be 0, and then there are none. The first slot of what was pushed is there if the loop pushes anything that
//! can be active, and 0 if it isn't. Where a slab is full, the entries so far become a *strip*, and go on in the
//! next slab:
//!
//! ```text
//! entries of the iterations │ entries here (4) │ STRIP (4) │ 0 (4)
//! ```
//!
//! Records are multiples of 4 bytes, are not aligned to more, and never straddle two slabs. Slot 0 belongs to
//! constants: whatever is added to its adjoint is never read.

use crate::pool::{SLAB_BYTES, Slab, SlabPool};
use crate::trap::Limit;
use std::mem::offset_of;
use std::sync::Arc;

/// Stands in place of a segment's number in a pack.
pub(crate) const PACK: u32 = u32::MAX;
/// Stands in place of a segment's number in a strip.
pub(crate) const STRIP: u32 = u32::MAX - 1;
/// Set in the number of a loop, as in [`PACK`] and [`STRIP`], and in no number of a segment.
pub(crate) const LOOP: u32 = 1 << 31;
/// A pack record has at most this many elements; longer arrays take several.
pub(crate) const PACK_MAX: usize = 4096;
/// Bytes of a record's segment number and first slot.
pub const TRAILER_BYTES: usize = 8;
/// Bytes of a strip but its entries.
pub const STRIP_BYTES: usize = 4 + TRAILER_BYTES;
/// Slots that may be given out between two checks.
const SLOTS_RESERVE: u64 = 1 << 24;

/// The size of a segment's record.
pub(crate) fn record_bytes(saved_reals: usize, saved_ints: usize, inputs: usize) -> u32 {
    (8 * (saved_reals + saved_ints) + 4 * inputs + TRAILER_BYTES) as u32
}

/// The size of a loop's record without its entries.
pub(crate) fn loop_tail_bytes(reals: usize, ints: usize, slots: usize) -> u32 {
    (8 * (reals + ints) + 4 * slots + 8 + STRIP_BYTES) as u32
}

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

/// A slab of records.
#[derive(Debug)]
struct Chunk {
    slab: Slab,
    /// Bytes in use, for every chunk but the last.
    used: usize,
}

/// The records of a run, in order.
#[derive(Debug)]
pub(crate) struct Tape {
    pool: Arc<SlabPool>,
    chunks: Vec<Chunk>,
    /// Kept from the last run, for the first chunk of the next: small runs leave the pool alone.
    spare: Option<Slab>,
    top: *mut u8,
    end: *mut u8,
    bytes_max: u64,
    next_slot: u64,
    records: u64,
    /// Instructions that a sweep of this tape runs.
    sweep_cost: u64,
    pub(crate) open_loop: OpenLoop,
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
    pub(crate) const LOOP_ACTIVE: usize = offset_of!(Tape, open_loop.active);
    pub(crate) const LOOP_ITERATIONS: usize = offset_of!(Tape, open_loop.iterations);
    pub(crate) const LOOP_ENTRIES: usize = offset_of!(Tape, open_loop.entries);

    pub(crate) fn new(pool: Arc<SlabPool>) -> Self {
        Tape {
            pool,
            chunks: Vec::new(),
            spare: None,
            top: std::ptr::null_mut(),
            end: std::ptr::null_mut(),
            bytes_max: u64::MAX,
            next_slot: 1,
            records: 0,
            sweep_cost: 0,
            open_loop: OpenLoop::default(),
        }
    }

    /// Forgets all records and begins a run. `bytes_max` bounds records and adjoints together.
    pub(crate) fn begin(&mut self, bytes_max: u64) {
        self.release();
        self.bytes_max = bytes_max;
    }

    /// Forgets all records and gives all memory back but a slab.
    pub(crate) fn release(&mut self) {
        if self.spare.is_none() {
            self.spare = self.chunks.pop().map(|chunk| chunk.slab);
        }
        self.pool.give_back(self.chunks.drain(..).map(|chunk| chunk.slab));
        (self.top, self.end) = (std::ptr::null_mut(), std::ptr::null_mut());
        (self.next_slot, self.records, self.sweep_cost) = (1, 0, 0);
    }

    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Slots given out, the constants' slot not counted.
    pub(crate) fn slots(&self) -> u64 {
        self.next_slot - 1
    }

    pub(crate) fn sweep_cost(&self) -> u64 {
        self.sweep_cost
    }

    /// Bytes of records.
    pub(crate) fn bytes(&self) -> u64 {
        let full: usize = self.chunks.iter().rev().skip(1).map(|chunk| chunk.used).sum();
        (full + self.last_used()) as u64
    }

    fn last_used(&self) -> usize {
        self.chunks.last().map_or(0, |chunk| self.top as usize - chunk.slab.start() as usize)
    }

    /// Gives out consecutive slots, all at once. Returns the first.
    pub(crate) fn reserve_slots(&mut self, count: u64) -> Result<u32, Limit> {
        let first = self.next_slot;
        self.next_slot = first.saturating_add(count);
        self.check()?;
        Ok(first as u32)
    }

    fn check(&self) -> Result<(), Limit> {
        let held = (self.chunks.len() * SLAB_BYTES) as u64;
        let adjoints = self.next_slot.saturating_mul(8);
        if self.next_slot > u64::from(u32::MAX) - SLOTS_RESERVE || held.saturating_add(adjoints) > self.bytes_max {
            return Err(Limit::TapeBytes);
        }
        Ok(())
    }

    /// Room for a record of `bytes` bytes; gives out `slots` slots. Returns where the record begins and its first slot.
    #[inline(always)]
    pub(crate) fn record(&mut self, bytes: usize, slots: u32, sweep_cost: u32) -> Result<(*mut u8, u32), Limit> {
        if bytes > self.end as usize - self.top as usize {
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
        if bytes + STRIP_BYTES > self.end as usize - self.top as usize {
            self.next_strip()?;
        }
        let start = self.top;
        // SAFETY: the chunk has room: no entry is nearly as large as a slab.
        self.top = unsafe { start.add(bytes) };
        self.open_loop.entries += 1;
        Ok(start)
    }

    /// Ends a strip of the open loop, if there are entries, and goes on in a new slab.
    #[cold]
    #[inline(never)]
    pub(crate) fn next_strip(&mut self) -> Result<(), Limit> {
        let entries = std::mem::take(&mut self.open_loop.entries);
        if entries > 0 {
            let trailer: *mut u32 = self.top.cast();
            // SAFETY: behind an entry there is room for a strip's trailer.
            unsafe {
                trailer.write_unaligned(entries);
                trailer.add(1).write_unaligned(STRIP);
                trailer.add(2).write_unaligned(0);
                self.top = self.top.add(STRIP_BYTES);
            }
        }
        self.open_chunk()
    }

    /// Room for what follows the entries in the open loop's record; gives out `slots` slots. Returns where it begins
    /// and the first slot. Entries that stand in this slab are part of the same record.
    pub(crate) fn end_loop(&mut self, bytes: usize, slots: u32, sweep_cost: u64) -> Result<(*mut u8, u32), Limit> {
        if bytes > self.end as usize - self.top as usize {
            self.next_strip()?;
        }
        self.sweep_cost = self.sweep_cost.saturating_add(sweep_cost);
        self.record(bytes, slots, 0)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn open_chunk(&mut self) -> Result<(), Limit> {
        let used = self.last_used();
        if let Some(last) = self.chunks.last_mut() {
            last.used = used;
        }
        let slab = self.spare.take().or_else(|| self.pool.take()).ok_or(Limit::TapeBytes)?;
        self.top = slab.start();
        // SAFETY: one past the slab's memory.
        self.end = unsafe { self.top.add(SLAB_BYTES) };
        self.chunks.push(Chunk { slab, used: 0 });
        self.check()
    }

    /// Gives consecutive slots to `words`. Returns the first; 0 if all are constants. No record is written if the words
    /// are consecutive already.
    pub(crate) fn pack(&mut self, words: &[u64]) -> Result<u32, Limit> {
        let first = words.first().map_or(0, |&word| crate::word::slot(word));
        if words.iter().all(|&word| word == 0) {
            return Ok(0);
        }
        if first != 0 && words.iter().zip(u64::from(first)..).all(|(&word, expected)| word == expected) {
            return Ok(first);
        }
        let first = self.reserve_slots(words.len() as u64)?;
        for (strip, base) in words.chunks(PACK_MAX).zip((first..).step_by(PACK_MAX)) {
            let bytes = 4 * strip.len() + 4 + TRAILER_BYTES;
            let (start, _) = self.record(bytes, 0, strip.len() as u32)?;
            let mut at: *mut u32 = start.cast();
            let slots = strip.iter().map(|&word| crate::word::slot(word));
            for value in slots.chain([strip.len() as u32, PACK, base]) {
                // SAFETY: the record has room for exactly these values.
                unsafe {
                    at.write_unaligned(value);
                    at = at.add(1);
                }
            }
        }
        Ok(first)
    }

    /// The filled parts of the slabs, first to last, as start and length in bytes.
    pub(crate) fn chunks(&self) -> impl DoubleEndedIterator<Item = (*const u8, usize)> + '_ {
        let last = self.chunks.len().wrapping_sub(1);
        self.chunks.iter().enumerate().map(move |(index, chunk)| {
            (chunk.slab.start().cast_const(), if index == last { self.last_used() } else { chunk.used })
        })
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.release();
        self.pool.give_back(self.spare.take().into_iter());
    }
}
