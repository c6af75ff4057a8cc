//! The evacuation of a heap (Cheney's algorithm): what the roots reach is copied to new slabs, what has memory of its
//! own is marked, and the rest is freed. What was there before the task began may be in use by others: it stays, and is
//! not looked into.

use super::object::{FORWARDED, LARGE, MARKED, references, size_of_object};
use super::{Heap, PREFIX, Ref, Roots};
use crate::memory::kept::Kept;
use crate::memory::pool::SLAB_BYTES;
use crate::running::meter::{Watch, out_of_time};
use crate::trap::Limit;

impl Heap {
    /// Copies the young objects that `roots` reach to new slabs and frees the other young ones.
    pub(super) fn evacuate(&mut self, roots: Roots<'_>) -> Result<(), Limit> {
        self.peak = self.peak();
        self.moves += 1;
        let young = self.slabs.partition_point(|one| one.serial <= self.floor.slab);
        let filled = self.slabs.len();
        (self.top, self.end) = (std::ptr::null_mut(), std::ptr::null_mut());
        // Out of memory or time half-way: the run is over, its objects are freed together.
        let cells = roots.kept.as_ref().map_or(0, |kept| kept.young_bytes());
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
        self.count_from_here(cells);
        Ok(())
    }

    /// `filled` is the number of slabs with objects; what is copied goes to slabs after them.
    fn copy_reachable(&mut self, roots: Roots<'_>, filled: usize) -> Result<(), Limit> {
        // SAFETY: the account lives as long as the run.
        let watch = unsafe { self.account.as_ref() }.map_or(const { Watch::none() }, Watch::of);
        let watch = &watch;
        let mut large: Vec<Ref> = Vec::new();
        for root in roots.frames.iter_mut().chain(roots.kept.into_iter().flat_map(Kept::young)) {
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
}
