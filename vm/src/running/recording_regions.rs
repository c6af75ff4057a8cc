//! What a recording run does for a region: gives elements slots that it is going to change, opens its record, writes
//! its trail, completes the record, and imports what the region has read of other tasks' arrays.

use super::recording_loops::give_pushed_words;
use super::registers::Registers;
use crate::memory::heap::builder::{set_words, words_of};
use crate::memory::heap::{self, ARRAY_HEADER, LEN, Ref};
use crate::memory::kept;
use crate::records::region::{ChangedBuilder, RegionSite, SaveSite, copy_bytes, is_copied};
use crate::records::segment::OutputWord;
use crate::tape::{ForeignArray, Tape};
use crate::trap::{Limit, TrapKind};
use crate::word::{Slot, Word};

/// Which of the inputs and objects of a region are active, as a mask, when it begins. `input` is the word of the n-th
/// input. A builder has no owner: what it holds is told by [`ChangedBuilder`].
///
/// # Safety
/// `refs` is a frame that has the site's registers; the objects are complete or builders of reals.
unsafe fn activity(site: &RegionSite, input: impl Fn(usize) -> Word, refs: *const Ref) -> u64 {
    // SAFETY: promised by the caller.
    unsafe {
        let mut active = 0u64;
        for n in 0..site.inputs.len() {
            active |= u64::from(!input(n).is_constant()) << n;
        }
        for (n, &reg) in site.refs.iter().enumerate() {
            let owner = heap::owner_of(*refs.add(usize::from(reg)));
            active |= u64::from(!owner.is_nobody()) << (site.inputs.len() + n);
        }
        active
    }
}

/// Begins a region.
///
/// # Safety
/// The pointers are to a frame that has the site's registers; the objects are complete or builders of reals.
#[inline(never)]
pub(super) unsafe fn region_begin(site: &RegionSite, tape: &mut Tape, frame: Registers) {
    // SAFETY: promised by the caller.
    let active = unsafe {
        let active = activity(site, |n| *frame.words.add(usize::from(site.inputs[n])), frame.refs) != 0;
        let mut before = site.changed.iter().map(|changed| *frame.ints.add(usize::from(changed.registers.before)));
        active || before.any(|slot| slot != 0)
    };
    tape.begin_region(active && site.id != u32::MAX);
}

/// Gives the elements of a builder consecutive slots, if they haven't. Returns the first; none if they are constants,
/// or if it is finished.
///
/// # Safety
/// `builder` is a builder of reals or was one; it keeps words.
#[inline(never)]
pub(crate) unsafe fn builder_pack(builder: Ref, tape: &mut Tape) -> Result<Slot, Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        if !heap::is_builder(*builder) {
            return Ok(Slot::NONE);
        }
        let len = *builder.add(LEN) as usize;
        let words = words_of(builder, 0);
        let first = tape.pack(std::slice::from_raw_parts(words, len))?;
        if !first.is_none() && *words != Word::from(first) {
            set_words(builder, 0, (0, len), first);
        }
        Ok(first)
    }
}

/// Slots for the elements of a builder while the open region changes them. Returns the first; none if the region gets
/// no record, or if the builder is finished.
///
/// # Safety
/// `builder` is a builder of reals or was one.
#[inline(never)]
pub(crate) unsafe fn builder_slots(builder: Ref, tape: &mut Tape) -> Result<Slot, Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        if !tape.open_region.active || !heap::is_builder(*builder) {
            return Ok(Slot::NONE);
        }
        let len = *builder.add(LEN);
        // They get words when the region ends, and the sweep adds what the slots hold in the end to those from before.
        tape.open_region.cost = tape.open_region.cost.wrapping_add(len);
        tape.reserve_changed_slots(len)
    }
}

/// Appends to the trail.
///
/// # Safety
/// The pointers are to a frame that has the site's registers.
#[inline(never)]
pub(super) unsafe fn region_save(
    site: &SaveSite,
    tape: &mut Tape,
    reals: *const f64,
    ints: *const i64,
) -> Result<(), Limit> {
    if !tape.open_region.active {
        return Ok(());
    }
    // SAFETY: promised by the caller.
    unsafe {
        let place = tape.trail(site.bytes())?;
        site.write(place, reals, ints);
        for &(rounds, round, once) in &site.costs {
            let rounds = *ints.add(usize::from(rounds)) as u64;
            let cost = rounds.wrapping_mul(u64::from(round)).wrapping_add(u64::from(once));
            tape.open_region.cost = tape.open_region.cost.wrapping_add(cost);
        }
    }
    Ok(())
}

/// The first slot of an array of reals, as the trail tells it.
///
/// # Safety
/// `array` is a complete array of reals.
#[inline(never)]
pub(crate) unsafe fn array_base(tape: &mut Tape, array: Ref) -> Result<i64, Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        let owner = heap::owner_of(array);
        if owner == tape.owner() {
            return Ok(heap::first_of(array).index() as i64);
        }
        if owner.is_nobody() || !tape.open_region.active {
            return Ok(0);
        }
        tape.foreign_base(ForeignArray { owner, first: heap::first_of(array), len: *array.add(LEN) as u32 })
    }
}

/// The slot of a real field of an object, whose word stands there, as the trail tells first slots of arrays.
///
/// # Safety
/// `object` is a complete object with such a field.
#[inline(never)]
pub(crate) unsafe fn field_slot(tape: &mut Tape, object: Ref, word: u32) -> Result<i64, Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        let owner = heap::owner_of(object);
        // What nobody owns may have no words.
        if owner.is_nobody() {
            return Ok(0);
        }
        let slot = (*object.add(word as usize).cast::<Word>()).slot();
        if owner == tape.owner() || slot.is_none() {
            return Ok(slot.index() as i64);
        }
        if !tape.open_region.active {
            return Ok(0);
        }
        tape.foreign_base(ForeignArray { owner, first: slot, len: 1 })
    }
}

/// A cell with an array, for the trail; 0 if the region gets no record.
///
/// # Safety
/// `array` is a complete array.
#[inline(always)]
pub(super) unsafe fn array_cell(tape: &mut Tape, array: Ref) -> Result<i64, Limit> {
    if !tape.open_region.active {
        return Ok(0);
    }
    // SAFETY: promised by the caller.
    let content = unsafe { kept::content_for(array) };
    Ok(tape.keep(content)?.expose_provenance() as i64)
}

/// A cell with a copy of an array in the trail, or with the array itself if that is long; 0 if the region gets no
/// record.
///
/// # Safety
/// `array` is a complete array of reals.
#[inline(never)]
pub(crate) unsafe fn array_copy(tape: &mut Tape, array: Ref) -> Result<i64, Limit> {
    // SAFETY: promised by the caller; there is room for the copy.
    unsafe {
        let len = *array.add(LEN);
        if !tape.open_region.active || !is_copied(len) {
            return array_cell(tape, array);
        }
        let place = tape.trail(copy_bytes(len))?;
        // Where it would begin if it had an array's header.
        let elements = place.add(size_of::<Ref>());
        let object = elements.expose_provenance().wrapping_sub(8 * ARRAY_HEADER);
        place.cast::<usize>().write_unaligned(object);
        elements.copy_from_nonoverlapping(heap::elements(array).cast(), 8 * len as usize);
        Ok(place.expose_provenance() as i64)
    }
}

/// Turns a builder that the open region has begun into an array. Returns its first slot; none if its elements are
/// constants.
///
/// # Safety
/// `array` is a builder of reals or was one.
#[inline(never)]
pub(crate) unsafe fn region_finish(array: Ref, tape: &mut Tape, active: bool) -> Result<Slot, TrapKind> {
    // SAFETY: promised by the caller.
    unsafe {
        let header = *array;
        if !heap::is_builder(header) {
            return Err(TrapKind::BuilderFinished);
        }
        let len = *array.add(LEN);
        let mut first = Slot::NONE;
        if active && tape.open_region.active && len > 0 {
            first = tape.reserve_made_slots(len)?;
            heap::set_owner(array, tape.owner());
        }
        *array = heap::finished(header);
        heap::set_first(array, first);
        Ok(first)
    }
}

/// Ends a region: completes the record and gives outputs and pushed elements their words.
///
/// # Safety
/// The pointers are to a frame that has the site's registers; the objects are complete.
#[inline(never)]
pub(super) unsafe fn region_end(site: &RegionSite, tape: &mut Tape, frame: Registers) -> Result<(), Limit> {
    // SAFETY: promised by the caller; words have not changed since the region began.
    unsafe {
        let input = |n: usize| *frame.words.add(usize::from(site.inputs[n]));
        let len_before = site.push.map_or(0, |push| *frame.ints.add(usize::from(push.len_before)));
        let word = complete_region(site, tape, &input, frame.refs, len_before)?;
        for &(reg, output) in &site.outputs {
            *frame.words.add(usize::from(reg)) = word(output);
        }
        for ChangedBuilder { builder, registers, .. } in site.changed.iter().filter(|changed| changed.is_put) {
            let first = *frame.ints.add(usize::from(registers.first));
            if first != 0 {
                let (builder, len) = (*frame.refs.add(usize::from(*builder)), usize::from(registers.len));
                set_words(builder, 0, (0, *frame.ints.add(len) as usize), Slot(first as u32));
            }
        }
    }
    Ok(())
}

/// Completes a region's record and gives pushed elements their words. Returns those of outputs.
///
/// # Safety
/// As [`activity`]; `len_before` is the length that the builder had to which the region pushes.
pub(crate) unsafe fn complete_region(
    site: &RegionSite,
    tape: &mut Tape,
    input: &dyn Fn(usize) -> Word,
    refs: *const Ref,
    len_before: i64,
) -> Result<impl Fn(OutputWord) -> Word + use<>, Limit> {
    let (mut first, mut first_pushed) = (Slot::NONE, Slot::NONE);
    // SAFETY: promised by the caller.
    let (active, builder) =
        unsafe { (activity(site, input, refs), site.push.map(|push| *refs.add(usize::from(push.builder)))) };
    // What depends on nothing in the beginning doesn't in the end.
    let active = if tape.open_region.active { active | site.replaced } else { 0 };
    // SAFETY: promised by the caller.
    let count = builder.map_or(0, |builder| unsafe { *builder.add(LEN) - len_before as u64 });
    if tape.open_region.active {
        if site.push.is_some_and(|push| push.mask & active != 0) && count > 0 {
            first_pushed = tape.reserve_slots(count)?;
        }
        let slots = (0..site.inputs.len()).map(|n| input(n).slot());
        first = tape.end_region(site, slots, (count, first_pushed))?;
    }
    if let Some(builder) = builder {
        // SAFETY: so many elements were pushed.
        unsafe { give_pushed_words(builder, first_pushed, count as usize) };
    }
    Ok(move |output| match output {
        OutputWord::Slot { offset, mask } if mask & active != 0 => first.offset(offset).into(),
        OutputWord::Slot { .. } | OutputWord::Zero => Word::CONSTANT,
        OutputWord::Copy(_) => unreachable!("a region that hands a word on takes it as an input"),
    })
}
