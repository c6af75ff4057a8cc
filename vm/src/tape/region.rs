//! The record of a region while it is open: its trail, and the arrays of other tasks that it reads.

use super::{ForeignArray, Tape};
use crate::records::region::{FOREIGN_MAX, RegionSite, padding};
use crate::records::{Kind, TRAILER_BYTES, Writer, strip};
use crate::trap::Limit;
use crate::word::{Slot, Word};
use std::collections::HashMap;

/// An array of another task of which a region may read little is imported as a whole if it has no more elements than
/// this, or than the region's sweep has instructions.
const WHOLE_MAX: u64 = 1024;
/// An array of no more elements gets its slots without a look at the limits: that comes with the next slab.
pub const UNCHECKED_MAX: u64 = 64;
/// So many arrays are looked for one after the other.
const LISTED_MAX: usize = 8;

/// The region that is being recorded. It stands in memory, so that interpreter and native code can take over from each
/// other in the middle.
#[derive(Debug)]
pub(crate) struct OpenRegion {
    /// Whether it gets a record.
    pub(crate) active: bool,
    /// Where its trail begins in this slab. Behind the trail, there is room for a strip's end.
    start: *mut u8,
    /// Instructions that its sweep runs, for the loops that it has left.
    pub(crate) cost: u64,
    /// Between these are the slots of arrays that it has made, maybe with others; none so far if they are zero.
    made_slots: [Slot; 2],
    /// Whether it has read arrays of other tasks.
    reads_foreign: bool,
    /// Those that have a place in the record.
    foreign: Vec<ForeignArray>,
    /// What each of them is called in the trail, but for the first ones, which are found without it.
    names: HashMap<ForeignArray, i64>,
    /// Those that have no place in the record, with their first slots here.
    whole: Vec<(ForeignArray, Slot)>,
}

impl Default for OpenRegion {
    fn default() -> Self {
        OpenRegion {
            active: false,
            start: std::ptr::null_mut(),
            cost: 0,
            made_slots: [Slot::NONE; 2],
            reads_foreign: false,
            foreign: Vec::new(),
            names: HashMap::new(),
            whole: Vec::new(),
        }
    }
}

impl OpenRegion {
    // Where native code finds fields.
    pub(super) const START: usize = std::mem::offset_of!(OpenRegion, start);
    pub(super) const ACTIVE: usize = std::mem::offset_of!(OpenRegion, active);
    pub(super) const COST: usize = std::mem::offset_of!(OpenRegion, cost);
    pub(super) const MADE: usize = std::mem::offset_of!(OpenRegion, made_slots);
    pub(super) const READS_FOREIGN: usize = std::mem::offset_of!(OpenRegion, reads_foreign);
}

impl OpenRegion {
    /// Forgets a region that a trap has ended.
    #[inline(always)]
    pub(super) fn forget(&mut self) {
        if self.reads_foreign {
            self.reads_foreign = false;
            self.names.clear();
            self.foreign.clear();
            self.whole.clear();
        }
    }
}

impl Tape {
    /// Begins a region.
    pub(crate) fn begin_region(&mut self, active: bool) {
        let open = &mut self.open_region;
        (open.active, open.start, open.cost) = (active, self.slabs.top, 0);
        open.made_slots = [Slot::NONE; 2];
    }

    /// Slots for an array that the open region has made. Returns the first.
    pub(crate) fn reserve_made_slots(&mut self, count: u64) -> Result<Slot, Limit> {
        let first = if count <= UNCHECKED_MAX {
            let first = self.task.next_slot;
            self.task.next_slot = first + count;
            Slot(first as u32)
        } else {
            self.reserve_slots(count)?
        };
        let made = &mut self.open_region.made_slots;
        *made = [if made[0].is_none() { first } else { made[0] }, first.offset(count as u32)];
        Ok(first)
    }

    /// Slots for elements that the open region is going to change, which are gone through when it ends. Returns the
    /// first.
    pub(crate) fn reserve_changed_slots(&mut self, count: u64) -> Result<Slot, Limit> {
        self.slabs.ask_for_time(size_of::<Word>() * count as usize)?;
        self.reserve_made_slots(count)
    }

    /// Room for so many bytes of the trail.
    #[inline(always)]
    pub(crate) fn trail(&mut self, bytes: usize) -> Result<*mut u8, Limit> {
        if bytes + STRIP_MAX > self.slabs.room() {
            self.next_trail()?;
        }
        let place = self.slabs.top;
        // SAFETY: the slab has room: what is saved at one place is far smaller.
        self.slabs.top = unsafe { place.add(bytes) };
        Ok(place)
    }

    /// Fills the trail in this slab up. Returns its length before that. What fills it depends on where slabs end, so it
    /// doesn't count as bytes of the task.
    fn fill_up(&mut self) -> usize {
        let bytes = self.slabs.top.addr() - self.open_region.start.addr();
        self.task.bytes = self.task.bytes.wrapping_sub(padding(bytes) as u64);
        for _ in 0..padding(bytes) {
            // SAFETY: behind a trail there is room for it.
            unsafe {
                self.slabs.top.write(0);
                self.slabs.top = self.slabs.top.add(1);
            }
        }
        bytes
    }

    /// Goes on with the trail in a new slab.
    #[cold]
    #[inline(never)]
    pub(crate) fn next_trail(&mut self) -> Result<(), Limit> {
        if self.slabs.top != self.open_region.start {
            let bytes = self.fill_up();
            // SAFETY: behind a trail there is room for a strip's end.
            unsafe {
                strip::write(self.slabs.top, bytes as u32);
                self.slabs.top = self.slabs.top.add(strip::TAIL_BYTES);
            }
            self.task.bytes = self.task.bytes.wrapping_sub(strip::TAIL_BYTES as u64);
        }
        let opened = self.open_chunk();
        self.open_region.start = self.slabs.top;
        opened
    }

    /// What an array of another task is called in the trail. One of another level is constant.
    ///
    /// # Safety
    /// It is the owner of an object.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn foreign_base(&mut self, array: ForeignArray) -> Result<i64, Limit> {
        // SAFETY: promised by the caller.
        if unsafe { self.is_outside(array.owner) } {
            return Ok(0);
        }
        let open = &mut self.open_region;
        open.reads_foreign = true;
        if let Some(number) = open.foreign.iter().take(LISTED_MAX).position(|listed| *listed == array) {
            return Ok(!(number as i64));
        }
        if let Some(&name) = open.names.get(&array) {
            return Ok(name);
        }
        let name = if open.foreign.len() < FOREIGN_MAX {
            open.foreign.push(array);
            let name = -(open.foreign.len() as i64);
            if open.foreign.len() <= LISTED_MAX {
                return Ok(name);
            }
            name
        } else {
            let (slot, new) = self.import_later(array)?;
            if new {
                self.open_region.whole.push((array, slot));
            }
            slot.index() as i64
        };
        self.open_region.names.insert(array, name);
        Ok(name)
    }

    /// Completes the record of the open region, and imports what it has read of other tasks' arrays. Returns the first
    /// slot of its outputs.
    pub(crate) fn end_region(
        &mut self,
        site: &RegionSite,
        slots: impl Iterator<Item = Slot>,
        (pushed, first_pushed): (u64, Slot),
    ) -> Result<Slot, Limit> {
        let foreign = self.open_region.foreign.len();
        let bytes = site.layout.tail_bytes(foreign);
        if bytes + padding(1) > self.slabs.room() {
            self.next_trail()?;
        }
        let trail = self.fill_up();
        let cost = self.open_region.cost;
        self.task.sweep_cost = self.task.sweep_cost.saturating_add(cost);
        let (start, first) = self.record(bytes, site.slots, 1)?;
        // SAFETY: there is room for it.
        let firsts = unsafe {
            let mut writer = Writer::new(start);
            slots.for_each(|slot| writer.slot(slot));
            if site.layout.pushed {
                writer.wide(pushed);
                writer.slot(first_pushed);
            }
            if site.layout.makes {
                self.open_region.made_slots.iter().for_each(|&slot| writer.slot(slot));
            }
            (0..foreign).for_each(|_| writer.slot(Slot::NONE));
            writer.narrow(foreign as u32);
            writer.narrow(u32::try_from(cost).unwrap_or(u32::MAX));
            writer.narrow(trail as u32);
            writer.trailer(Kind::Region(site.id), first);
            start.add(bytes - TRAILER_BYTES - 12 - 4 * foreign).cast::<Slot>()
        };
        if self.open_region.reads_foreign {
            // SAFETY: it has a place for each of them.
            unsafe { self.import_foreign(firsts) }?;
        }
        Ok(first)
    }

    /// Imports what the region has read of other tasks' arrays, whose record ends here.
    ///
    /// # Safety
    /// At `firsts` the record has places for the first slots of those that have a place in it.
    #[cold]
    unsafe fn import_foreign(&mut self, firsts: *mut Slot) -> Result<(), Limit> {
        let cost = self.open_region.cost;
        let mut foreign = std::mem::take(&mut self.open_region.foreign);
        let is_scattered = |array: &ForeignArray| u64::from(array.len) > cost.max(WHOLE_MAX);
        for (n, &array) in foreign.iter().enumerate() {
            if is_scattered(&array) {
                continue;
            }
            let (slot, new) = self.import_later(array)?;
            // SAFETY: promised by the caller.
            unsafe { firsts.add(n).write_unaligned(slot) };
            if new {
                self.record_loop_import(array.owner, (array.first, array.len, slot))?;
            }
        }
        for (n, &array) in foreign.iter().enumerate().filter(|(_, array)| is_scattered(array)) {
            self.record_scattered(array, n as u32, cost)?;
        }
        for (array, local) in std::mem::take(&mut self.open_region.whole) {
            self.record_loop_import(array.owner, (array.first, array.len, local))?;
        }
        foreign.clear();
        self.open_region.foreign = foreign;
        self.open_region.names.clear();
        self.open_region.reads_foreign = false;
        Ok(())
    }
}

/// What ends a strip, and what fills it up.
pub const STRIP_MAX: usize = strip::TAIL_BYTES + 3;
