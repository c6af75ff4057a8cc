//! What a recording run does besides computing: records at the ends of segments, owners of objects, imports.

use crate::memory::heap::{self, FIRST, LEN, OWNER, Ref};
use crate::records::segment::{OutputWord, SegmentSite};
use crate::tape::{ForeignArray, Tape};
use crate::trap::Limit;
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

/// The word in the current task of a real that an object holds with this word.
///
/// # Safety
/// `object` is an object.
#[inline(always)]
pub(crate) unsafe fn load_word(tape: &mut Tape, object: Ref, word: u64) -> Result<u64, Limit> {
    // SAFETY: promised by the caller.
    let owner = unsafe { *object.add(OWNER) };
    if word == CONSTANT || owner == tape.owner {
        return Ok(word);
    }
    tape.import(owner, slot(word)).map(u64::from)
}

/// The word in the current task of an element of an array of reals.
///
/// # Safety
/// `array` is a complete array that has the element.
#[inline(always)]
pub(crate) unsafe fn element_word(tape: &mut Tape, array: Ref, index: u64) -> Result<u64, Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        let (first, owner) = (*array.add(FIRST), *array.add(OWNER));
        if first == 0 {
            return Ok(CONSTANT);
        }
        if owner == tape.owner {
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
