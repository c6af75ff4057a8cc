//! What a task imports from other tasks' tapes: which local slots stand for which slots of others.
//!
//! A real whose slot is another task's gets a slot of this one when it is first used, and a record that says whose it
//! was. An array is imported as a range of slots: what a loop reads of it, or all of it once the task has read as many
//! elements as there are; elements that are read here and there, as single slots.
//!
//! Which imports there are is a part of the program's meaning, because the order of sums in the sweep follows from it.
//! So nothing here may depend on addresses, on threads or on the engine; owners are compared, never ordered.

use super::Tape;
use crate::records::{Kind, import};
use crate::trap::Limit;
use crate::word::{Owner, Slot};
use std::collections::HashMap;

/// Single slots that are remembered, by their last bits.
const REMEMBERED: usize = 32;
/// An element that is read alone costs as much as so many elements of a range.
const SCATTERED_COST: u64 = 16;
/// More arrays than this are looked up by hash.
const SEARCHED: usize = 8;

/// An array: its owner, its first slot there, its length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ForeignArray {
    pub(crate) owner: Owner,
    pub(crate) first: Slot,
    pub(crate) len: u32,
}

/// How much of an array was imported.
#[derive(Clone, Copy, Debug)]
struct Use {
    array: ForeignArray,
    /// The local slot of the first element; none if not all of the array was imported.
    whole: Slot,
    /// The last part that was imported: first index, length, local slot.
    part: (u32, u32, Slot),
    /// Elements that were read so far, weighted.
    read: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Single {
    owner: Owner,
    slot: Slot,
    local: Slot,
}

/// The imports of a task.
#[derive(Debug, Default)]
pub(crate) struct Imports {
    singles: [Single; REMEMBERED],
    arrays: Vec<Use>,
    /// The array that was asked for last.
    last: usize,
    by_array: HashMap<ForeignArray, usize>,
}

impl Imports {
    fn find(&mut self, array: ForeignArray) -> &mut Use {
        if self.arrays.get(self.last).is_none_or(|last| last.array != array) {
            self.last = self.search(array);
        }
        &mut self.arrays[self.last]
    }

    fn search(&mut self, array: ForeignArray) -> usize {
        let found = if self.arrays.len() <= SEARCHED {
            self.arrays.iter().position(|known| known.array == array)
        } else {
            self.by_array.get(&array).copied()
        };
        found.unwrap_or_else(|| {
            self.arrays.push(Use { array, whole: Slot::NONE, part: (0, 0, Slot::NONE), read: 0 });
            let index = self.arrays.len() - 1;
            if self.arrays.len() > SEARCHED {
                let first = if self.by_array.is_empty() { 0 } else { index };
                self.by_array.extend((first..=index).map(|n| (self.arrays[n].array, n)));
            }
            index
        })
    }
}

/// What a loop reads of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reads {
    /// The elements from an index on, so many.
    Range(u32, u32),
    /// Some, so many times.
    Scattered(u64),
}

/// What became of an array that a loop reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Imported {
    /// Element `i` has the slot `base + i`, modulo 2³². `new` says what was imported, to be recorded after the loop:
    /// the owner's first slot, the length, the local slot.
    Based { base: Slot, new: Option<(Slot, u32, Slot)> },
    /// There are too few reads for a range of slots.
    Scattered,
}

impl Tape {
    fn imports(&mut self) -> &mut Imports {
        self.task.imports.get_or_insert_with(Default::default)
    }

    /// The local slot of another task's slot; none if that is a task of another level.
    ///
    /// # Safety
    /// It is the owner of an object, here and below.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn import(&mut self, owner: Owner, slot: Slot) -> Result<Slot, Limit> {
        // SAFETY: promised by the caller.
        if unsafe { self.is_outside(owner) } {
            return Ok(Slot::NONE);
        }
        let known = self.imports().singles[slot.index() % REMEMBERED];
        if known.owner == owner && known.slot == slot {
            return Ok(known.local);
        }
        let (start, local) = self.record(import::SINGLE_BYTES, 1, 1)?;
        self.not_a_record();
        // SAFETY: there is room for it.
        unsafe { import::write_single(start, owner, slot, local) };
        self.imports().singles[slot.index() % REMEMBERED] = Single { owner, slot, local };
        Ok(local)
    }

    /// The local slot of an element of another task's array.
    ///
    /// # Safety
    /// As [`Tape::import`].
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn import_element(&mut self, array: ForeignArray, index: u32) -> Result<Slot, Limit> {
        // SAFETY: promised by the caller.
        if unsafe { self.is_outside(array.owner) } {
            return Ok(Slot::NONE);
        }
        let known = self.imports().find(array);
        if !known.whole.is_none() {
            return Ok(known.whole.offset(index));
        }
        let (from, len, local) = known.part;
        if index.wrapping_sub(from) < len {
            return Ok(local.offset(index - from));
        }
        known.read += SCATTERED_COST;
        if known.read < u64::from(array.len) {
            // SAFETY: promised by the caller.
            return unsafe { self.import(array.owner, array.first.offset(index)) };
        }
        let whole = self.reserve_slots(u64::from(array.len))?;
        self.imports().find(array).whole = whole;
        self.range_record(array.owner, (array.first, array.len, whole), Kind::ImportRange)?;
        Ok(whole.offset(index))
    }

    /// All of another task's array. Returns the local slot of its first element.
    ///
    /// # Safety
    /// As [`Tape::import`].
    pub(crate) unsafe fn import_array(&mut self, array: ForeignArray) -> Result<Slot, Limit> {
        // SAFETY: promised by the caller.
        if unsafe { self.is_outside(array.owner) } {
            return Ok(Slot::NONE);
        }
        let known = self.imports().find(array);
        if !known.whole.is_none() {
            return Ok(known.whole);
        }
        let whole = self.reserve_slots(u64::from(array.len))?;
        self.imports().find(array).whole = whole;
        self.range_record(array.owner, (array.first, array.len, whole), Kind::ImportRange)?;
        Ok(whole)
    }

    /// So many elements of another task's array from an index on. Returns the local slot of the first of them; none if
    /// that is a task of another level.
    ///
    /// # Safety
    /// As [`Tape::import`].
    pub(crate) unsafe fn import_range(&mut self, array: ForeignArray, from: u32, len: u32) -> Result<Slot, Limit> {
        // SAFETY: promised by the caller.
        match unsafe { self.import_for_loop(array, Reads::Range(from, len)) }? {
            Imported::Based { base, .. } if base.is_none() => Ok(Slot::NONE),
            Imported::Based { base, new } => {
                if let Some(range) = new {
                    self.range_record(array.owner, range, Kind::ImportRange)?;
                }
                Ok(base.wrapping_offset(i64::from(from)))
            }
            Imported::Scattered => unreachable!("a range is imported as one"),
        }
    }

    /// All of another task's array, for a region that is open: the local slot of its first element, and whether that is
    /// new. Then it is to be recorded after the region.
    pub(super) fn import_later(&mut self, array: ForeignArray) -> Result<(Slot, bool), Limit> {
        let known = self.imports().find(array).whole;
        if !known.is_none() {
            return Ok((known, false));
        }
        let whole = self.reserve_slots(u64::from(array.len))?;
        self.imports().find(array).whole = whole;
        Ok((whole, true))
    }

    /// What a loop reads of another task's array. Writes no record: the loop's own comes first.
    ///
    /// # Safety
    /// As [`Tape::import`].
    pub(crate) unsafe fn import_for_loop(&mut self, array: ForeignArray, reads: Reads) -> Result<Imported, Limit> {
        // SAFETY: promised by the caller.
        if unsafe { self.is_outside(array.owner) } {
            return Ok(Imported::Based { base: Slot::NONE, new: None });
        }
        let known = self.imports().find(array);
        let all = u64::from(array.len);
        if !known.whole.is_none() {
            return Ok(Imported::Based { base: known.whole, new: None });
        }
        let (from, len) = match reads {
            Reads::Range(from, len) => {
                let (old, old_len, local) = known.part;
                if old <= from && u64::from(from) + u64::from(len) <= u64::from(old) + u64::from(old_len) {
                    return Ok(Imported::Based { base: local.wrapping_offset(-i64::from(old)), new: None });
                }
                known.read = known.read.saturating_add(u64::from(len));
                (from, len)
            }
            Reads::Scattered(count) => {
                known.read = known.read.saturating_add(count.saturating_mul(SCATTERED_COST));
                if known.read < all {
                    return Ok(Imported::Scattered);
                }
                (0, array.len)
            }
        };
        let (from, len) = if known.read >= all { (0, array.len) } else { (from, len) };
        let mut local = self.reserve_slots(u64::from(len))?;
        if local == Slot(from) {
            // Base 0 would say that the array is constant.
            self.reserve_slots(1)?;
            local = local.offset(1);
        }
        let known = self.imports().find(array);
        if len == array.len {
            known.whole = local;
        } else {
            known.part = (from, len, local);
        }
        let new = Some((array.first.offset(from), len, local));
        Ok(Imported::Based { base: local.wrapping_offset(-i64::from(from)), new })
    }

    /// Writes the record of a range, of a kind.
    fn range_record(&mut self, owner: Owner, range: (Slot, u32, Slot), kind: Kind) -> Result<(), Limit> {
        let (first, len, local) = range;
        let (start, _) = self.record(import::RANGE_BYTES, 0, len)?;
        self.not_a_record();
        // SAFETY: there is room for it.
        unsafe { import::write_range(start, kind, owner, (first, len), local) };
        Ok(())
    }

    /// Records a range that was imported for the loop whose record is the last one.
    pub(crate) fn record_loop_import(&mut self, owner: Owner, range: (Slot, u32, Slot)) -> Result<(), Limit> {
        self.range_record(owner, range, Kind::LoopImport)
    }

    /// Records that the loop whose record is the last one, or is followed by records of this kind only, reads
    /// elements of the array of this number here and there.
    pub(crate) fn record_scattered(&mut self, array: ForeignArray, number: u32, reads: u64) -> Result<(), Limit> {
        let (start, _) = self.record(import::RANGE_BYTES, 0, u32::try_from(reads).unwrap_or(u32::MAX))?;
        self.not_a_record();
        // SAFETY: there is room for it.
        unsafe { import::write_range(start, Kind::LoopScatter, array.owner, (array.first, number), Slot::NONE) };
        Ok(())
    }

    /// Counts the record that was written last as an import.
    fn not_a_record(&mut self) {
        self.task.records -= 1;
        self.task.import_count += 1;
    }
}
