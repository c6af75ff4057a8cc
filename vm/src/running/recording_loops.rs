//! What a recording run does for a loop that is recorded as one: opens its record, saves entries, completes the record,
//! and imports what the loop has read of other tasks' arrays.

use super::registers::Registers;
use crate::code::run_straight;
use crate::memory::heap::{self, ARRAY_HEADER, CAPACITY, LEN, Ref};
use crate::memory::kept;
use crate::records::recorded_loop::{LoopCode, LoopSite, LoopTail, PushSite};
use crate::records::segment::OutputWord;
use crate::running::program::Program;
use crate::tape::{ForeignArray, Imported, OpenLoop, Reads, Tape};
use crate::trap::Limit;
use crate::word::{Owner, Slot, Word};

/// Which of the inputs and arrays of a loop are active, as a mask.
///
/// # Safety
/// The pointers are to a frame that has the site's registers; the arrays are complete.
unsafe fn activity(site: &LoopSite, words: *const Word, refs: *const Ref) -> u64 {
    // SAFETY: promised by the caller.
    unsafe {
        let mut active = 0u64;
        for (n, &reg) in site.inputs.iter().enumerate() {
            active |= u64::from(!(*words.add(usize::from(reg))).is_constant()) << n;
        }
        for (n, &reg) in site.arrays.iter().enumerate() {
            let first = heap::first_of(*refs.add(usize::from(reg)));
            active |= u64::from(!first.is_none()) << (site.inputs.len() + n);
        }
        active
    }
}

/// Begins a loop.
///
/// # Safety
/// As [`activity`].
#[inline(always)]
pub(super) unsafe fn loop_begin(site: &LoopSite, tape: &mut Tape, words: *const Word, refs: *const Ref) {
    // SAFETY: promised by the caller.
    let active = unsafe { activity(site, words, refs) } != 0;
    tape.open_loop = OpenLoop { active, iterations: 0, entries: 0 };
}

/// Ends an iteration: saves its entry.
///
/// # Safety
/// The pointers are to a frame that has the site's registers.
#[inline(always)]
pub(super) unsafe fn loop_step(
    site: &LoopSite,
    tape: &mut Tape,
    reals: *const f64,
    ints: *const i64,
) -> Result<(), Limit> {
    tape.open_loop.iterations += 1;
    let bytes = site.layout.entry.bytes();
    if !tape.open_loop.active || bytes == 0 {
        return Ok(());
    }
    let entry = tape.entry(bytes)?;
    // SAFETY: promised by the caller.
    unsafe { site.write_entry(entry, reals, ints) };
    Ok(())
}

/// Gives the last `count` elements of a builder consecutive slots from `first` on; none: they are constants.
///
/// # Safety
/// The builder has so many elements and keeps their words.
pub(crate) unsafe fn give_pushed_words(builder: Ref, first: Slot, count: usize) {
    // SAFETY: promised by the caller; words stand behind the elements.
    unsafe {
        let words = builder.add(ARRAY_HEADER + *builder.add(CAPACITY) as usize + *builder.add(LEN) as usize);
        for n in 0..count {
            *words.sub(count).add(n).cast() = Word::from(first.element(n));
        }
    }
}

/// Ends a loop: completes the record and gives outputs and pushed elements their words.
///
/// # Safety
/// The pointers are to a frame that has the site's registers; the arrays are complete.
pub(super) unsafe fn loop_end(
    program: &Program,
    site: &LoopSite,
    tape: &mut Tape,
    frame: Registers,
) -> Result<(), Limit> {
    // SAFETY: promised by the caller; words have not changed since the loop began. The record has the size that the
    // site's lists add up to.
    unsafe {
        let active = activity(site, frame.words, frame.refs);
        let (mut base, mut pushed) = (Slot::NONE, Slot::NONE);
        if active != 0 {
            let OpenLoop { iterations, .. } = tape.open_loop;
            let cost = iterations.saturating_mul(u64::from(site.iteration_cost)) + u64::from(site.once_cost);
            tape.room_to_keep(site.kept.len())?;
            let (start, first) = tape.end_loop(site.layout.tail_bytes(), site.slots, cost)?;
            base = first;
            let mut pushed_slot = None;
            if let Some(PushSite { mask: 1.., .. }) = site.push {
                if site.push.is_some_and(|push| push.mask & active != 0) {
                    pushed = tape.reserve_slots(iterations)?;
                }
                pushed_slot = Some(pushed);
            }
            let inputs = site.inputs.iter().map(|&reg| (*frame.words.add(usize::from(reg))).slot());
            let firsts = site.arrays.iter().map(|&reg| heap::first_of(*frame.refs.add(usize::from(reg))));
            let slots = inputs.chain(firsts).chain(pushed_slot);
            let counts = (iterations, tape.open_loop.entries);
            let kept = site.kept.iter().map(|&reg| *frame.refs.add(usize::from(reg)));
            let cells = kept.map(|array| tape.kept().keep(kept::content_for(array)).expect("there is room"));
            site.write_tail(start, cells, slots, counts, first, (frame.reals, frame.ints));
            if site.arrays.iter().any(|&reg| is_foreign(*frame.refs.add(usize::from(reg)), tape.owner())) {
                import_arrays(program, site, tape, frame.refs)?;
            }
        }
        if let Some(push) = site.push {
            let builder = *frame.refs.add(usize::from(push.builder));
            give_pushed_words(builder, pushed, tape.open_loop.iterations as usize);
        }
        for &(reg, output) in &site.outputs {
            let word = match output {
                OutputWord::Slot { offset, mask } if mask & active != 0 => base.offset(offset).into(),
                OutputWord::Slot { .. } | OutputWord::Zero => Word::CONSTANT,
                OutputWord::Copy(_) => unreachable!("a loop that hands a word on takes it as an input"),
            };
            *frame.words.add(usize::from(reg)) = word;
        }
    }
    Ok(())
}

/// Whether an array has slots of another task.
///
/// # Safety
/// `array` is a complete array of reals.
unsafe fn is_foreign(array: Ref, owner: Owner) -> bool {
    // SAFETY: promised by the caller.
    unsafe { !heap::first_of(array).is_none() && heap::owner_of(array) != owner }
}

/// Imports the elements that a loop has read of arrays of other tasks: the loop's record, the last
/// one to be written, names them by slots of this task from now on.
///
/// # Safety
/// The record is complete and names the arrays' own slots; `refs` is a frame that has the site's registers.
#[cold]
pub(crate) unsafe fn import_arrays(
    program: &Program,
    site: &LoopSite,
    tape: &mut Tape,
    refs: *const Ref,
) -> Result<(), Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        let code = program.recorded_loop(site.id);
        let record = LoopTail::read(code, tape.last_trailer());
        let reads = reads(code, &record);
        let firsts = record.slots.add(code.layout.array(0)).cast_mut();
        let (mut ranges, mut scattered) = (Vec::new(), Vec::new());
        for (n, (&reg, &reads)) in site.arrays.iter().zip(&reads).enumerate() {
            let array = *refs.add(usize::from(reg));
            if !is_foreign(array, tape.owner()) {
                continue;
            }
            let (owner, len) = (heap::owner_of(array), *array.add(LEN) as u32);
            let array = ForeignArray { owner, first: heap::first_of(array), len };
            let first = match tape.import_for_loop(array, reads)? {
                Imported::Based { base, new } => {
                    ranges.extend(new.map(|range| (owner, range)));
                    base
                }
                Imported::Scattered => {
                    scattered.push((array, n as u32));
                    Slot::NONE
                }
            };
            firsts.add(n).write_unaligned(first);
        }
        for (owner, range) in ranges {
            tape.record_loop_import(owner, range)?;
        }
        for (array, number) in scattered {
            let count = code.elements.iter().filter(|element| u32::from(element.array) == number).count() as u64;
            tape.record_scattered(array, number, record.iterations.saturating_mul(count))?;
        }
    }
    Ok(())
}

/// What a loop has read of each of its arrays. Where all indices change by the same amount from iteration to iteration,
/// the last two iterations tell all others.
///
/// # Safety
/// `record` is one of the loop.
unsafe fn reads(code: &LoopCode, record: &LoopTail) -> Vec<Reads> {
    let (mut reals, mut ints) = (vec![0.0; code.reals], vec![0; code.ints]);
    // SAFETY: promised by the caller; derived code stays in its frame.
    unsafe {
        let [real, int] = code.frame.once();
        code.layout.once.load(record.once, reals.as_mut_ptr().add(real), ints.as_mut_ptr().add(int));
        let indices = |ints: &[i64]| -> Vec<i64> {
            code.elements.iter().map(|element| ints[usize::from(element.index)]).collect()
        };
        run_straight(&code.prologue, reals.as_mut_ptr(), ints.as_mut_ptr());
        run_straight(&code.body, reals.as_mut_ptr(), ints.as_mut_ptr());
        let last = indices(&ints);
        // A single iteration has none before it, whose elements may not be there.
        if record.iterations > 1 {
            run_straight(&code.body, reals.as_mut_ptr(), ints.as_mut_ptr());
        }
        let before = indices(&ints);
        let array_reads = |array: u32| {
            let elements = || (0..last.len()).filter(move |&n| u32::from(code.elements[n].array) == array);
            let count = record.iterations.saturating_mul(elements().count() as u64);
            if elements().any(|n| !code.elements[n].linear) {
                return Reads::Scattered(count);
            }
            let first = |n: usize| {
                let step = last[n].wrapping_sub(before[n]);
                last[n].wrapping_sub(step.wrapping_mul(record.iterations as i64 - 1))
            };
            let ends = || elements().flat_map(|n| [last[n], first(n)]);
            let (low, high) = (ends().min().unwrap_or(0), ends().max().unwrap_or(0));
            let len = (high - low + 1) as u64;
            if len / RANGE_READS_MIN > count { Reads::Scattered(count) } else { Reads::Range(low as u32, len as u32) }
        };
        (0..code.layout.arrays as u32).map(array_reads).collect()
    }
}

/// A range of slots is imported for a loop that reads at least one in so many of its elements.
const RANGE_READS_MIN: u64 = 16;
