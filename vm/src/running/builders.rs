//! Builders between their beginning and their end: ranges of arrays that are appended, and room that is made.
//!
//! Words go with the elements, so that nothing is recorded here but what is imported. A range of an array of this task
//! has consecutive slots, and still has when the builder that holds it alone is finished: then that isn't recorded
//! either ([`Tape::pack`]).

use super::registers::roots;
use super::worker::Worker;
use crate::bytecode::isa::Bank;
use crate::memory::heap::builder::{append, growth, parts, set_words, take_place};
use crate::memory::heap::{self, CAPACITY, LEN, Ref, Roots, planes};
use crate::tape::{ForeignArray, Tape};
use crate::trap::{Limit, TrapKind};
use crate::word::Slot;

impl Worker {
    /// Appends the elements `from` to `to - 1` of an array to a builder; if they are reals, with words or without.
    ///
    /// # Safety
    /// **Running**; `builder` is a builder or was one, `array` is a complete array of the same elements.
    #[inline(never)]
    pub(crate) unsafe fn extend(
        &mut self,
        builder: Ref,
        array: Ref,
        (from, to): (i64, i64),
        with_words: bool,
    ) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let header = *builder;
            if !heap::is_builder(header) {
                return Err(TrapKind::BuilderFinished);
            }
            let len = *array.add(LEN);
            if from < 0 || to < from || to as u64 > len {
                return Err(TrapKind::RangeOutOfBounds { from, to, len });
            }
            let (from, count) = (from as usize, (to - from) as usize);
            let (before, capacity) = (*builder.add(LEN) as usize, *builder.add(CAPACITY));
            if count > capacity as usize - before {
                return Err(TrapKind::BuilderFull { capacity });
            }
            let words = heap::has_words(header);
            self.exec.heap.fill((8 * count * parts(builder)) << u32::from(words))?;
            append(builder, array, from, count);
            if words && with_words {
                for part in 0..parts(builder) {
                    let first = first_of_range(&mut self.exec.tape, array, part, (from, count))?;
                    set_words(builder, part, (before, count), first);
                }
            } else if !words
                && self.exec.mode.is_recording()
                && heap::element_bank(header) == Some(Bank::Ref)
                && count > 0
                && !heap::owner_of(array).is_nobody()
            {
                heap::set_owner(builder, self.exec.tape.owner());
            }
            *builder.add(LEN) += count as u64;
            Ok(())
        }
    }

    /// The builder in a reference register if it has room for `count` more elements, or else another one that takes its
    /// place. References up to `refs_end` are roots.
    ///
    /// # Safety
    /// **Running**; the register holds a builder or what was one, and is one of the roots, which are initialised.
    #[inline(never)]
    pub(crate) unsafe fn make_room(
        &mut self,
        place: *const Ref,
        count: i64,
        refs_end: *mut Ref,
    ) -> Result<Ref, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let Some((capacity, kind)) = growth(*place, count)? else { return Ok(*place) };
            let roots = Roots { frames: roots(self.exec.roots, refs_end), kept: Some(self.exec.tape.kept()) };
            let new = heap::build(&mut self.exec.heap, capacity, kind, self.stacks.bytes, roots)?;
            // The old one may have moved.
            take_place(*place, new);
            Ok(new)
        }
    }
}

/// The slot in the running task of the first of so many elements of an array of reals from an index on, in a component:
/// the others have those that follow. None if they are constants.
///
/// # Safety
/// `array` is a complete array that has the elements.
unsafe fn first_of_range(
    tape: &mut Tape,
    array: Ref,
    part: usize,
    (from, count): (usize, usize),
) -> Result<Slot, Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        let owner = heap::owner_of(array);
        if owner.is_nobody() || count == 0 {
            return Ok(Slot::NONE);
        }
        let first = planes::first_of(array, part);
        if first.is_none() || owner == tape.owner() {
            return Ok(first.element(from));
        }
        let array = ForeignArray { owner, first, len: *array.add(LEN) as u32 };
        tape.import_range(array, from as u32, count as u32)
    }
}
