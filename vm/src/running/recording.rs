//! What a recording run does besides computing: records at the ends of segments, owners of objects, slots of finished
//! arrays, imports.

use crate::memory::heap::{self, ARRAY_HEADER, CAPACITY, FIRST, LEN, OWNER, Ref};
use crate::records::segment::{OutputWord, SegmentSite};
use crate::tape::{ForeignArray, Tape};
use crate::trap::{Limit, TrapKind};
use crate::word::{CONSTANT, slot};

/// Whether an object holds anything that is not constant.
///
/// # Safety
/// `object` is a complete object with these fields.
pub(super) unsafe fn is_active(object: Ref, fields: heap::Fields) -> bool {
    // SAFETY: promised by the caller; references of a complete object are not null.
    unsafe {
        (0..fields.reals).any(|n| *object.add(fields.word_at(n)) != CONSTANT)
            || (0..fields.refs).any(|n| *(*object.add(fields.ref_at(n)).cast::<Ref>()).add(OWNER) != 0)
    }
}

/// The word in the current task of a real whose word stands in an object at this index. The owner is asked first: an
/// object without one may hold no words.
///
/// # Safety
/// `object` is a complete object, and has the word if it has an owner.
#[inline(always)]
pub(crate) unsafe fn load_word(tape: &mut Tape, object: Ref, at: usize) -> Result<u64, Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        let owner = *object.add(OWNER);
        if owner == tape.owner() {
            return Ok(*object.add(at));
        }
        if owner == 0 || *object.add(at) == CONSTANT {
            return Ok(CONSTANT);
        }
        tape.import(owner, slot(*object.add(at))).map(u64::from)
    }
}

/// The word in the current task of an element of an array of reals.
///
/// # Safety
/// `array` is a complete array that has the element.
#[inline(always)]
pub(crate) unsafe fn element_word(tape: &mut Tape, array: Ref, index: u64) -> Result<u64, Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        let owner = *array.add(OWNER);
        if owner == 0 {
            return Ok(CONSTANT);
        }
        let first = *array.add(FIRST);
        debug_assert!(first != 0, "arrays of reals that have an owner have slots");
        if owner == tape.owner() {
            return Ok(first + index);
        }
        let array = ForeignArray { owner, first: slot(first), len: *array.add(LEN) as u32 };
        tape.import_element(array, index as u32).map(u64::from)
    }
}

/// Ends a segment: finds out what is active, appends the record, gives the outputs their words.
///
/// # Safety
/// The pointers are to a frame that has the site's registers.
#[inline(always)]
pub(super) unsafe fn segment_end(
    site: &SegmentSite,
    tape: &mut Tape,
    scratch: &mut Vec<u64>,
    reals: *mut f64,
    words: *mut u64,
    ints: *mut i64,
) -> Result<(), Limit> {
    // SAFETY: promised by the caller; the record has the size that the site's lists add up to.
    unsafe {
        let mut active = 0u64;
        for (n, &reg) in site.inputs.iter().enumerate() {
            active |= u64::from(*words.add(usize::from(reg)) != CONSTANT) << n;
        }
        let mut base = 0;
        if active != 0 {
            let (start, first) = tape.record(site.layout.bytes(), site.slots, site.sweep_cost)?;
            site.write(start, first, reals, words, ints);
            base = first;
        }
        let word = |output: OutputWord| match output {
            OutputWord::Slot { offset, mask } if mask & active != 0 => u64::from(base + offset),
            OutputWord::Copy(from) => *words.add(usize::from(from)),
            _ => CONSTANT,
        };
        if site.copies {
            scratch.clear();
            scratch.extend(site.outputs.iter().map(|&(_, output)| word(output)));
            for (&(reg, _), &new) in site.outputs.iter().zip(scratch.iter()) {
                *words.add(usize::from(reg)) = new;
            }
        } else {
            for &(reg, output) in &site.outputs {
                *words.add(usize::from(reg)) = word(output);
            }
        }
        Ok(())
    }
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
        if !heap::is_builder(header) {
            return Err(TrapKind::BuilderFinished);
        }
        let (len, capacity) = (*array.add(LEN) as usize, *array.add(CAPACITY) as usize);
        let mut first = 0;
        if heap::has_words(header) {
            let words = std::slice::from_raw_parts(array.add(ARRAY_HEADER + capacity), len);
            first = tape.pack(words)?;
            *array.add(OWNER) = if first == 0 { 0 } else { tape.owner() };
        }
        *array = heap::finished(header);
        *array.add(FIRST) = u64::from(first);
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::bytecode::isa::Bank;
    use crate::bytecode::module::ValueType;
    use crate::memory::heap::{Fields, array_header, object_header};
    use crate::memory::pool::SlabPool;
    use crate::running::limits::Limits;
    use crate::running::meter::Account;
    use std::sync::Arc;

    #[test]
    fn what_has_no_owner_is_constant_whatever_its_words_are() {
        let mut account = Account::default();
        account.begin(&Limits::default(), None);
        let mut tape = Tape::new(Arc::new(SlabPool::default()));
        tape.begin(1 << 20, &account);
        let fields = Fields::of(&[ValueType::Real]);
        let mut object = vec![u64::MAX; fields.size()];
        (object[0], object[OWNER]) = (object_header(fields, 0), 0);
        let mut array = vec![u64::MAX; ARRAY_HEADER + 1];
        (array[0], array[OWNER], array[LEN]) = (array_header(Bank::Real), 0, 1);
        // SAFETY: both are complete objects, without an owner.
        unsafe {
            assert_eq!(load_word(&mut tape, object.as_mut_ptr(), fields.word_at(0)), Ok(CONSTANT));
            assert_eq!(element_word(&mut tape, array.as_mut_ptr(), 0), Ok(CONSTANT));
        }
        (object[OWNER], object[fields.word_at(0)]) = (tape.owner(), 7);
        (array[OWNER], array[FIRST]) = (tape.owner(), 9);
        // SAFETY: both are complete objects.
        unsafe {
            assert_eq!(load_word(&mut tape, object.as_mut_ptr(), fields.word_at(0)), Ok(7));
            assert_eq!(element_word(&mut tape, array.as_mut_ptr(), 0), Ok(9));
        }
    }
}
