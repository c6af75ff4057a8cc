//! Where everything stands in a region's record.

use crate::records::TRAILER_BYTES;
use crate::word::Slot;

/// So many arrays of other tasks have a place in a record. What more there are, the task imports as a whole.
pub(crate) const FOREIGN_MAX: usize = 255;

/// Arrays of more elements are not copied into the trail.
pub const COPIED_MAX: u64 = 1024;

/// Whether an array of so many elements that a region makes is copied into its trail.
pub(crate) const fn is_copied(len: u64) -> bool {
    len <= COPIED_MAX
}

/// The size of a copy: a cell, which holds where the array would begin if it had a header, then its elements.
pub(crate) const fn copy_bytes(len: u64) -> usize {
    8 + 8 * len as usize
}

/// Where the parts of a region's record stand:
///
/// ```text
/// trail, filled up to 4 bytes │ slots of the inputs (4 bytes each) │ pushed: their number (8), the first slot (4)
///     │ slots of arrays made: the first one, the end (4 each) │ arrays of other tasks: first slots here (4 each)
///     │ how many (4) │ instructions of the sweep (4) │ bytes of the trail here (4) │ trailer
/// ```
///
/// The parts behind the trail are found from the end. Where the trail doesn't fit into a slab, it goes on in the next
/// one, and what stands in the first becomes a strip: `trail, filled up │ bytes of the trail here (4) │ STRIP │ 0`.
///
/// In the trail an array is told by its first slot. For a constant one this is 0; for one of another task it is −1 − n,
/// where n is its place in the list: what is imported of it is decided when the region has ended. A first slot of 0 in
/// the list says that its elements are owed one by one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RegionLayout {
    /// How many inputs there are.
    pub inputs: usize,
    /// Whether anything is pushed to the builder that was begun before.
    pub pushed: bool,
    /// Whether arrays are made that have slots.
    pub makes: bool,
}

impl RegionLayout {
    /// Bytes of the parts behind the trail, with so many arrays of other tasks.
    pub const fn tail_bytes(self, foreign: usize) -> usize {
        4 * self.inputs + self.pushed_bytes() + self.made_bytes() + 4 * foreign + 12 + TRAILER_BYTES
    }

    /// Where the numbers stand that end a record which pushes nothing and reads no arrays of other tasks: from the end
    /// of the trail.
    pub const fn numbers(self) -> usize {
        4 * self.inputs + self.made_bytes()
    }

    /// Bytes that say what was pushed.
    const fn pushed_bytes(self) -> usize {
        if self.pushed { 12 } else { 0 }
    }

    /// Bytes that say which slots arrays have that were made.
    const fn made_bytes(self) -> usize {
        if self.makes { 8 } else { 0 }
    }
}

/// Bytes that fill a trail up.
pub(crate) const fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(4) - bytes
}

/// The parts of a region's record behind the trail, found from its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionTail {
    /// Slots of the inputs; not aligned to more than 4 bytes.
    pub(crate) slots: *const Slot,
    /// How many reals were pushed, and their first slot.
    pub(crate) pushed: (u64, Slot),
    /// Between these are the slots of arrays that were made, maybe with others.
    pub(crate) made_slots: [Slot; 2],
    /// First slots of arrays of other tasks.
    pub(crate) foreign: *mut Slot,
    pub(crate) foreign_count: usize,
    /// Instructions that the sweep runs, or the largest number that there is place for.
    pub(crate) cost: u32,
    /// The trail in this slab.
    pub(crate) trail: Trail,
}

/// A part of the trail, in one slab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trail {
    pub(crate) start: *const u8,
    pub(crate) end: *const u8,
}

impl Trail {
    /// The part with so many bytes which, filled up, ends at `end`.
    ///
    /// # Safety
    /// It does.
    pub(crate) unsafe fn before(end: *const u8, bytes: usize) -> Trail {
        // SAFETY: promised by the caller.
        unsafe {
            let end = end.sub(padding(bytes));
            Trail { start: end.sub(bytes), end }
        }
    }
}

impl RegionTail {
    /// # Safety
    /// `trailer` is that of a record with this layout.
    #[inline]
    pub(crate) unsafe fn read(layout: RegionLayout, trailer: *const u32) -> RegionTail {
        // SAFETY: promised by the caller: the record's parts stand where the layout says.
        unsafe {
            let bytes = trailer.sub(1).read_unaligned() as usize;
            let cost = trailer.sub(2).read_unaligned();
            let foreign_count = trailer.sub(3).read_unaligned() as usize;
            let foreign = trailer.sub(3 + foreign_count);
            let made_at = foreign.cast::<u8>().sub(layout.made_bytes());
            let made_slots = if layout.makes { made_at.cast::<[Slot; 2]>().read_unaligned() } else { [Slot::NONE; 2] };
            let pushed_at = made_at.sub(layout.pushed_bytes());
            let pushed = if layout.pushed {
                (pushed_at.cast::<u64>().read_unaligned(), pushed_at.add(8).cast::<Slot>().read_unaligned())
            } else {
                (0, Slot::NONE)
            };
            let slots = pushed_at.cast::<Slot>().sub(layout.inputs);
            let trail = Trail::before(slots.cast(), bytes);
            RegionTail {
                slots,
                pushed,
                made_slots,
                foreign: foreign.cast::<Slot>().cast_mut(),
                foreign_count,
                cost,
                trail,
            }
        }
    }
}
