//! The evacuation of a heap (Cheney's algorithm): what the roots reach is copied to new slabs, what has memory of its
//! own is marked, and the rest is freed. What was there before the task began may be in use by others: it stays, and is
//! not looked into.
//!
//! In the same way a heap takes over objects of another one ([`Heap::adopt`]), which stay there as long as it likes.

use super::object::{FORWARDED, LARGE, MARKED, is_borrowed, keep_borrowed, references, size_of_object};
use super::{Floor, Heap, Large, PREFIX, Ref, Roots, write_prefix};
use crate::memory::kept::Kept;
use crate::memory::pool::SLAB_BYTES;
use crate::running::meter::{Watch, out_of_time};
use crate::trap::Limit;

/// The objects that move: those of a heap that were made since a floor was raised.
#[derive(Clone, Copy)]
struct Young {
    number: u64,
    floor: Floor,
}

/// Where to go on with objects that were copied: a slab by its index, and a place in it, null for its first object.
type Scan = (usize, *mut u64);

/// With debug assertions, so many slabs that objects have left are filled with a pattern.
#[cfg(debug_assertions)]
const SPOILT_MAX: usize = 64;

impl Heap {
    fn young(&self) -> Young {
        Young { number: self.number, floor: self.floor }
    }

    /// Copies the young objects that `roots` reach to new slabs and frees the other young ones.
    pub(super) fn evacuate(&mut self, roots: Roots<'_>) -> Result<(), Limit> {
        self.peak = self.peak();
        self.moves += 1;
        let (young, floor) = (self.young(), self.floor);
        let first = self.slabs.partition_point(|one| one.serial <= floor.slab);
        let filled = self.slabs.len();
        self.close_slab();
        // Out of memory or time half-way: the run is over, its objects are freed together.
        let cells = roots.kept.as_ref().map_or(0, |kept| kept.young_bytes());
        let roots = roots.frames.iter_mut().chain(roots.kept.into_iter().flat_map(Kept::young));
        // SAFETY: the account lives as long as the run.
        let account = unsafe { self.account.as_ref() };
        let watch = account.map_or(const { Watch::none() }, Watch::of);
        self.copy_reachable(young, roots, (filled, std::ptr::null_mut()), &watch)?;
        self.changed(-(((filled - first) * SLAB_BYTES) as i64));
        // Not all of a large heap: a run that is stopped has to end soon.
        #[cfg(debug_assertions)]
        self.slabs[first..filled].iter().take(SPOILT_MAX).for_each(|one| one.slab.spoil());
        self.pool.give_back(self.slabs.drain(first..filled).map(|one| one.slab));
        let mut freed = 0;
        for dead in self.take_large(|is_marked| !is_marked) {
            freed += 8 * dead.words as u64;
            if let Some(account) = account {
                account.block_freed(8 * dead.words);
            }
            self.pool.give_back_block(dead.block);
        }
        self.large_bytes -= freed;
        self.changed(-(freed as i64));
        self.evacuated = true;
        self.count_from_here(cells);
        Ok(())
    }

    /// Takes over the young objects of another heap that some references lead to, and makes these lead to them. What is
    /// copied of them is garbage there. Nothing else that is used leads to them.
    ///
    /// # Errors
    /// There is no memory, or no time; then nothing may use any of the objects any more.
    pub(crate) fn adopt(&mut self, from: &mut Heap, references: &mut [Ref]) -> Result<(), Limit> {
        let scan = match self.slabs.len().checked_sub(1) {
            Some(last) if !self.top.is_null() => (last, self.top),
            _ => (self.slabs.len(), std::ptr::null_mut()),
        };
        // SAFETY: the account lives as long as the run.
        let account = unsafe { from.account.as_ref() };
        let watch = account.map_or(const { Watch::none() }, Watch::of);
        self.copy_reachable(from.young(), references.iter_mut(), scan, &watch)?;
        for mut large in from.take_large(|is_marked| is_marked) {
            let bytes = 8 * large.words as u64;
            from.large_bytes -= bytes;
            from.changed(-(bytes as i64));
            self.large_serial += 1;
            large.serial = self.large_serial;
            // SAFETY: the prefix belongs to the block.
            unsafe { write_prefix(large.block.start(), self.number, large.serial) };
            self.large_bytes += bytes;
            self.large.push(large);
        }
        Ok(())
    }

    /// Takes the young large objects out that are marked, or that are not. No mark is left.
    fn take_large(&mut self, wanted: impl Fn(bool) -> bool) -> Vec<Large> {
        let first = self.large.partition_point(|large| large.serial <= self.floor.large);
        let taken = self.large.extract_if(first.., |large| {
            // SAFETY: large objects live until they are removed from the list.
            let header = unsafe { &mut *large.object() };
            let is_marked = *header & MARKED != 0;
            *header &= !MARKED;
            wanted(is_marked)
        });
        taken.collect()
    }

    /// Copies what references lead to of the young objects, to the slabs from where the scan begins. Nothing is counted
    /// as allocated for that.
    fn copy_reachable<'r>(
        &mut self,
        young: Young,
        roots: impl Iterator<Item = &'r mut Ref>,
        scan: Scan,
        watch: &Watch<'_>,
    ) -> Result<(), Limit> {
        let allocated = self.allocated();
        let outcome = self.copy_from(young, roots, scan, watch);
        self.set_allocated(allocated);
        outcome
    }

    fn copy_from<'r>(
        &mut self,
        young: Young,
        roots: impl Iterator<Item = &'r mut Ref>,
        (mut slab, mut at): Scan,
        watch: &Watch<'_>,
    ) -> Result<(), Limit> {
        let mut large: Vec<Ref> = Vec::new();
        for root in roots {
            watch.tick(1).map_err(out_of_time)?;
            *root = self.moved(young, *root, &mut large)?;
        }
        loop {
            while let Some(object) = large.pop() {
                self.scan(young, object, &mut large, watch)?;
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
                self.scan(young, at, &mut large, watch)?;
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
    fn scan(&mut self, young: Young, object: Ref, large: &mut Vec<Ref>, watch: &Watch<'_>) -> Result<(), Limit> {
        // SAFETY: `object` is a complete object; its references lead to objects.
        unsafe {
            let (first, count) = references(object);
            for at in first..first + count {
                watch.tick(1).map_err(out_of_time)?;
                let reference = object.add(at).cast::<Ref>();
                *reference = self.moved(young, *reference, large)?;
            }
        }
        Ok(())
    }

    /// Where an object is after the evacuation; copies it if it is the first time that it is asked for.
    fn moved(&mut self, young: Young, object: Ref, large: &mut Vec<Ref>) -> Result<Ref, Limit> {
        if object.is_null() {
            return Ok(object);
        }
        // SAFETY: `object` is an object: a young one where it was or was copied to, or large; or another one.
        unsafe {
            let header = *object;
            if !young.holds(object, header) {
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
            // What is borrowed may begin where the slab ends: then it would be no distance away.
            let room = size + usize::from(is_borrowed(header));
            if room > (self.slab_end.addr() - self.top.addr()) / 8 {
                if self.top < self.slab_end {
                    // A zero word ends the objects of a slab.
                    *self.top = 0;
                }
                self.open_slab()?;
            }
            let copy = self.top;
            self.top = copy.add(size);
            copy.copy_from_nonoverlapping(object, size);
            keep_borrowed(copy, object);
            *object = FORWARDED;
            *object.add(1).cast() = copy;
            Ok(copy)
        }
    }
}

impl Young {
    /// Whether an object is one of them.
    ///
    /// # Safety
    /// `object` is an object, with this header or a forwarding mark.
    unsafe fn holds(&self, object: Ref, header: u64) -> bool {
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::object::{ARRAY_HEADER, LEN, borrow, elements, set_first};
    use super::super::{array_header, is_borrowed};
    use super::*;
    use crate::bytecode::isa::Bank;
    use crate::memory::pool::SlabPool;
    use crate::word::Slot;
    use std::sync::Arc;

    /// An array of reals without room for them.
    fn header(heap: &mut Heap, len: usize) -> Ref {
        let array = heap.allocate(array_header(Bank::Real), ARRAY_HEADER, 0, Roots::none()).expect("there is memory");
        // SAFETY: the header is part of it.
        unsafe {
            *array.add(LEN) = len as u64;
            set_first(array, Slot(7));
        }
        array
    }

    #[test]
    fn what_is_borrowed_stays_where_it_is() {
        let mut heap = Heap::new(Arc::new(SlabPool::default()));
        let numbers: Vec<f64> = (0..100).map(f64::from).collect();
        let mut frames = [header(&mut heap, numbers.len()), header(&mut heap, 1)];
        // SAFETY: the numbers live to the end, and the arrays are complete then.
        unsafe {
            assert!(borrow(frames[0], numbers.as_ptr().cast()) && borrow(frames[1], numbers[42..].as_ptr().cast()));
            for _ in 0..3 {
                let before = frames;
                heap.evacuate(Roots { frames: &mut frames, kept: None }).expect("there is memory");
                assert!(frames.iter().zip(&before).all(|(now, before)| now != before && is_borrowed(**now)));
                assert_eq!(elements(frames[0]), numbers.as_ptr().cast_mut().cast());
                assert_eq!(elements(frames[1]), numbers[42..].as_ptr().cast_mut().cast());
            }
            assert_eq!(size_of_object(frames[0]), ARRAY_HEADER);
            let own = heap.own(frames[1]).expect("there is memory");
            assert!(!is_borrowed(*own) && *own.add(LEN) == 1 && *elements(own).cast::<f64>() == 42.0);
        }
    }

    /// Elements right behind the header are no distance away, which is what is said of arrays that have their own.
    #[test]
    fn nothing_is_borrowed_from_where_the_elements_would_be() {
        let mut heap = Heap::new(Arc::new(SlabPool::default()));
        let array = header(&mut heap, 2);
        // SAFETY: nobody uses the array.
        unsafe {
            assert!(!borrow(array, array.add(ARRAY_HEADER)) && !is_borrowed(*array));
            assert!(borrow(array, array.add(ARRAY_HEADER + 1)) && is_borrowed(*array));
        }
    }

    #[test]
    fn the_header_of_what_is_borrowed_never_ends_a_slab() {
        let mut heap = Heap::new(Arc::new(SlabPool::default()));
        let numbers = [1.0; 4];
        // As many as fill several slabs.
        let mut frames: Vec<Ref> = (0..5000).map(|_| header(&mut heap, numbers.len())).collect();
        // SAFETY: the numbers live to the end, and the arrays are complete then.
        unsafe {
            frames.iter().for_each(|&array| assert!(borrow(array, numbers.as_ptr().cast())));
            heap.evacuate(Roots { frames: &mut frames, kept: None }).expect("there is memory");
            for &array in &frames {
                assert_ne!((array.addr() + 8 * ARRAY_HEADER) % SLAB_BYTES, 0);
                assert_eq!(elements(array), numbers.as_ptr().cast_mut().cast());
            }
        }
    }
}
