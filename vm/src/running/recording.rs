//! What a recording run does besides computing: records at the ends of segments, owners of objects, slots of finished
//! arrays, imports.

use crate::memory::heap::builder::{parts, words_of};
use crate::memory::heap::{self, LEN, Ref, planes};
use crate::records::segment::{OutputWord, SegmentSite};
use crate::tape::{ForeignArray, Tape};
use crate::trap::{Limit, TrapKind};
use crate::word::{Owner, Slot, Word};

/// Whether an object holds anything that is not constant.
///
/// # Safety
/// `object` is a complete object with these fields.
pub(super) unsafe fn is_active(object: Ref, fields: heap::Fields) -> bool {
    // SAFETY: promised by the caller; references of a complete object are not null.
    unsafe {
        (0..fields.reals).any(|n| !(*object.add(fields.word_at(n)).cast::<Word>()).is_constant())
            || (0..fields.refs).any(|n| !heap::owner_of(*object.add(fields.ref_at(n)).cast()).is_nobody())
    }
}

/// The word in the current task of a real whose word stands in an object at this index. The owner is asked first: an
/// object without one may hold no words.
///
/// # Safety
/// `object` is a complete object, and has the word if it has an owner.
#[inline(always)]
pub(crate) unsafe fn load_word(tape: &mut Tape, object: Ref, at: usize) -> Result<Word, Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        let (owner, word) = (heap::owner_of(object), object.add(at).cast::<Word>());
        if owner == tape.owner() {
            return Ok(*word);
        }
        if owner.is_nobody() || (*word).is_constant() {
            return Ok(Word::CONSTANT);
        }
        tape.import(owner, (*word).slot()).map(Word::from)
    }
}

/// The word in the current task of an element of an array of reals.
///
/// # Safety
/// `array` is a complete array that has the element.
#[inline(always)]
pub(crate) unsafe fn element_word(tape: &mut Tape, array: Ref, index: u64) -> Result<Word, Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        let owner = heap::owner_of(array);
        if owner.is_nobody() {
            return Ok(Word::CONSTANT);
        }
        let (first, index) = (heap::first_of(array), index as u32);
        debug_assert!(!first.is_none(), "arrays of reals that have an owner have slots");
        if owner == tape.owner() {
            return Ok(first.offset(index).into());
        }
        let array = ForeignArray { owner, first, len: *array.add(LEN) as u32 };
        tape.import_element(array, index).map(Word::from)
    }
}

/// Ends a segment: finds out what is active, appends the record, gives the outputs their words. `DEEP` says whether it
/// is code at a depth, where an input is several registers.
///
/// # Safety
/// The pointers are to a frame that has the site's registers.
#[inline(always)]
pub(super) unsafe fn segment_end<const DEEP: bool>(
    site: &SegmentSite,
    tape: &mut Tape,
    scratch: &mut Vec<Word>,
    reals: *mut f64,
    words: *mut Word,
    ints: *mut i64,
) -> Result<(), Limit> {
    // SAFETY: promised by the caller; the record has the size that the site's lists add up to.
    unsafe {
        let depth = if DEEP { site.depth } else { 0 };
        let mut active = 0u64;
        for (n, &reg) in site.inputs.iter().enumerate() {
            active |= u64::from(!(*words.add(usize::from(reg))).is_constant()) << (n >> depth);
        }
        let mut base = Slot::NONE;
        if active != 0 {
            let (start, first) = tape.record(site.layout.bytes(), site.slots, site.sweep_cost)?;
            site.write(start, first, reals, words, ints);
            base = first;
        }
        let word = |output: OutputWord| match output {
            OutputWord::Slot { offset, mask } if mask & active != 0 => base.offset(offset).into(),
            OutputWord::Copy(from) => *words.add(usize::from(from)),
            OutputWord::Slot { .. } | OutputWord::Zero => Word::CONSTANT,
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
        if planes::is_deep(header) {
            return finish_deep(array, tape);
        }
        let mut first = Slot::NONE;
        if heap::has_words(header) {
            let len = *array.add(LEN) as usize;
            first = tape.pack(std::slice::from_raw_parts(words_of(array, 0), len))?;
            heap::set_owner(array, if first.is_none() { Owner::NOBODY } else { tape.owner() });
        }
        *array = heap::finished(header);
        heap::set_first(array, first);
    }
    Ok(())
}

/// The same of a deep builder.
///
/// # Safety
/// `array` is a deep builder.
#[cold]
unsafe fn finish_deep(array: Ref, tape: &mut Tape) -> Result<(), TrapKind> {
    // SAFETY: promised by the caller; each component has its words behind its elements.
    unsafe {
        let header = *array;
        if !heap::holds_reals(header) {
            planes::finish_references(array);
            heap::set_first(array, Slot::NONE);
        } else if heap::has_words(header) {
            let (len, parts) = (*array.add(LEN) as usize, parts(array));
            let mut firsts = Vec::with_capacity(parts);
            for part in 0..parts {
                firsts.push(tape.pack(std::slice::from_raw_parts(words_of(array, part), len))?);
            }
            let active = firsts.iter().any(|first| !first.is_none());
            heap::set_owner(array, if active { tape.owner() } else { Owner::NOBODY });
            planes::finish_reals(array, Some(&firsts));
        } else {
            planes::finish_reals(array, None);
        }
        // What says that it is deep may be gone.
        *array = heap::finished(*array);
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::bytecode::isa::Bank;
    use crate::bytecode::module::ValueType;
    use crate::memory::heap::{ARRAY_HEADER, Fields, OWNER, array_header, object_header};
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
            assert_eq!(load_word(&mut tape, object.as_mut_ptr(), fields.word_at(0)), Ok(Word::CONSTANT));
            assert_eq!(element_word(&mut tape, array.as_mut_ptr(), 0), Ok(Word::CONSTANT));
        }
        object[fields.word_at(0)] = 7;
        // SAFETY: both are complete objects.
        unsafe {
            heap::set_owner(object.as_mut_ptr(), tape.owner());
            heap::set_owner(array.as_mut_ptr(), tape.owner());
            heap::set_first(array.as_mut_ptr(), Slot(9));
            assert_eq!(load_word(&mut tape, object.as_mut_ptr(), fields.word_at(0)), Ok(Slot(7).into()));
            assert_eq!(element_word(&mut tape, array.as_mut_ptr(), 0), Ok(Slot(9).into()));
        }
    }
}
