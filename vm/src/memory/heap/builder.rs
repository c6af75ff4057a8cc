//! Builders: how they begin, how they grow, and how elements of arrays come into them. Single elements are the engines'
//! own; what all of that means for a tape is said in [`crate::running::builders`] and [`crate::running::recording`].

use super::object::{
    ARRAY_HEADER, CAPACITY, DEEP, FIRST, LEN, Ref, builder_header, element_bank, finished, has_words, holds_reals,
    is_builder, owner_of, set_owner,
};
use super::planes::{self, Depth};
use super::{Heap, Roots};
use crate::bytecode::isa::Bank;
use crate::trap::TrapKind;
use crate::word::{Owner, Slot, Word};

/// What a builder is made for: the bank of its elements, whether it keeps their words, which only reals have, and the
/// depth of the code.
pub(crate) type Made = (Bank, bool, u32);

/// A builder with so many cells.
#[inline]
pub(crate) fn build(
    heap: &mut Heap,
    capacity: i64,
    (element, words, depth): Made,
    reserved: u64,
    roots: Roots<'_>,
) -> Result<Ref, TrapKind> {
    debug_assert!(!words || element == Bank::Real);
    let cells = u64::try_from(capacity).ok().and_then(|n| n.checked_mul(1 + u64::from(words)));
    let Some(unit) = cells.filter(|&n| n < 1 << 48).map(|n| n as usize) else {
        return Err(TrapKind::BadCapacity(capacity));
    };
    let header = builder_header(element, words);
    // What holds integers never reaches a component.
    let deep = depth > 0 && element != Bank::Int;
    let planes = if element == Bank::Real { depth } else { 0 };
    let (header, size) =
        if deep { (planes::deep(header), planes::array_size(unit, planes)) } else { (header, ARRAY_HEADER + unit) };
    let builder = heap.allocate(header, size, reserved, roots)?;
    // SAFETY: the object has a header of four words, and a depth word behind its cells if it is deep.
    unsafe {
        *builder.add(LEN) = 0;
        *builder.add(CAPACITY) = capacity as u64;
        if deep {
            *builder.add(ARRAY_HEADER + unit) = Depth::new(planes, depth, size).bits();
        }
    }
    Ok(builder)
}

/// How a builder is to be made that takes the place of one in which there is to be room for `count` more elements: its
/// capacity, and what [`build`] takes besides. `None` if there is room.
///
/// It has twice the capacity, unless more is asked for: so it takes linear time to append elements one by one.
///
/// # Safety
/// `builder` is a builder or was one.
pub(crate) unsafe fn growth(builder: Ref, count: i64) -> Result<Option<(i64, Made)>, TrapKind> {
    // SAFETY: promised by the caller.
    unsafe {
        let header = *builder;
        if !is_builder(header) {
            return Err(TrapKind::BuilderFinished);
        }
        // A builder has fewer than 2^48 cells.
        let (len, capacity) = (*builder.add(LEN) as i64, *builder.add(CAPACITY) as i64);
        if count < 0 {
            return Err(TrapKind::BadCapacity(count));
        }
        if count <= capacity - len {
            return Ok(None);
        }
        let capacity = len.saturating_add(count).max(2 * capacity);
        let element = element_bank(header).expect("builders have elements");
        Ok(Some((capacity, (element, has_words(header), planes::depth_of(builder).reach()))))
    }
}

/// Moves all elements of a builder to a new one that was made for it. The old one is finished then, and empty, so that
/// it keeps nothing alive.
///
/// # Safety
/// Both are builders, made for the same code; the new one has room for the elements.
pub(crate) unsafe fn take_place(old: Ref, new: Ref) {
    // SAFETY: promised by the caller; nobody else uses them meanwhile.
    unsafe {
        let len = *old.add(LEN) as usize;
        for part in 0..parts(old) {
            let (from, to) = (elements_of(old, part), elements_of(new, part));
            to.copy_from_nonoverlapping(from, len);
            if has_words(*old) {
                words_of(new, part).copy_from_nonoverlapping(words_of(old, part), len);
            }
        }
        *new.add(LEN) = len as u64;
        set_owner(new, owner_of(old));
        *old = finished(*old) & !DEEP;
        set_owner(old, Owner::NOBODY);
        (*old.add(LEN), *old.add(FIRST)) = (0, 0);
    }
}

/// Appends elements of an array to a builder, with all components that code of the builder's depth reads, but without
/// words: how many the builder has is not changed yet.
///
/// # Safety
/// Both are of the same elements, the array has so many from that index on, and the builder has room for them.
pub(crate) unsafe fn append(builder: Ref, array: Ref, from: usize, count: usize) {
    // SAFETY: promised by the caller.
    unsafe {
        let len = *builder.add(LEN) as usize;
        let elements = super::elements(array).cast_const();
        elements_of(builder, 0).add(len).copy_from_nonoverlapping(elements.add(from), count);
        for part in 1..parts(builder) {
            let to = elements_of(builder, part).add(len);
            match planes::elements(array, part) {
                Some(elements) => to.copy_from_nonoverlapping(elements.add(from).cast(), count),
                // Components that an array doesn't have are 0.
                None => to.write_bytes(0, count),
            }
        }
    }
}

/// Gives elements of a builder consecutive slots from `first` on, or the words of constants.
///
/// # Safety
/// The builder has cells for so many elements from that index on, and keeps words.
pub(crate) unsafe fn set_words(builder: Ref, part: usize, (at, count): (usize, usize), first: Slot) {
    // SAFETY: promised by the caller.
    unsafe {
        let words = words_of(builder, part).add(at);
        if first.is_none() {
            // A constant's word is 0.
            return words.write_bytes(0, count);
        }
        for n in 0..count {
            *words.add(n) = Word::from(first.offset(n as u32));
        }
    }
}

/// How many components of its elements a builder has.
///
/// # Safety
/// `builder` is one that isn't finished.
pub(crate) unsafe fn parts(builder: Ref) -> usize {
    // SAFETY: promised by the caller.
    unsafe { if holds_reals(*builder) { 1 << planes::depth_of(builder).planes() } else { 1 } }
}

/// Where the elements of a component stand.
///
/// # Safety
/// `builder` is one that isn't finished, and has the component.
unsafe fn elements_of(builder: Ref, part: usize) -> *mut u64 {
    // SAFETY: promised by the caller.
    unsafe {
        let at = if part == 0 { ARRAY_HEADER } else { planes::element_at(planes::unit(builder), part, 0) };
        builder.add(at)
    }
}

/// Where the words of a component stand.
///
/// # Safety
/// As [`elements_of`]; the builder keeps words.
pub(crate) unsafe fn words_of(builder: Ref, part: usize) -> *mut Word {
    // SAFETY: promised by the caller.
    unsafe { elements_of(builder, part).add(*builder.add(CAPACITY) as usize).cast() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{FIRST, Heap, LARGE_WORDS, Roots, array_header, fields_of, object_header};
    use super::*;
    use crate::memory::heap::Fields;
    use crate::memory::pool::SlabPool;
    use std::sync::Arc;

    const NULL: Ref = std::ptr::null_mut();

    fn heap() -> Heap {
        Heap::new(Arc::new(SlabPool::default()))
    }

    fn builder(heap: &mut Heap, capacity: i64, kind: Made) -> Ref {
        build(heap, capacity, kind, 0, Roots::none()).expect("there is memory")
    }

    /// Pushes an element, of which all components above the lowest are 0.
    ///
    /// # Safety
    /// It is a builder with room.
    unsafe fn push(builder: Ref, element: u64) {
        // SAFETY: promised by the caller.
        unsafe {
            let len = *builder.add(LEN) as usize;
            for part in 0..parts(builder) {
                *elements_of(builder, part).add(len) = if part == 0 { element } else { 0 };
                if has_words(*builder) {
                    set_words(builder, part, (len, 1), Slot((1000 * part + len) as u32));
                }
            }
            *builder.add(LEN) += 1;
        }
    }

    /// The same builder, or another one with more room.
    fn grown(heap: &mut Heap, place: &mut Ref, count: i64) -> Result<bool, TrapKind> {
        // SAFETY: it is a builder of this heap, or was one.
        unsafe {
            let Some((capacity, kind)) = growth(*place, count)? else { return Ok(false) };
            let new = build(heap, capacity, kind, 0, Roots { frames: std::slice::from_mut(place), kept: None })?;
            take_place(*place, new);
            *place = new;
            Ok(true)
        }
    }

    #[test]
    fn a_builder_grows_to_twice_its_size_or_to_what_is_asked_for() {
        let mut heap = heap();
        let mut at = builder(&mut heap, 0, (Bank::Int, false, 0));
        let mut capacities = Vec::new();
        for n in 0..20 {
            if grown(&mut heap, &mut at, 1).expect("there is memory") {
                // SAFETY: it is a builder.
                capacities.push(unsafe { *at.add(CAPACITY) });
            }
            // SAFETY: there is room.
            unsafe { push(at, n) };
        }
        assert_eq!(capacities, [1, 2, 4, 8, 16, 32]);
        assert!(!grown(&mut heap, &mut at, 12).expect("there is room"));
        assert!(grown(&mut heap, &mut at, 100).expect("there is memory"));
        // SAFETY: it is a builder.
        unsafe {
            assert_eq!(*at.add(CAPACITY), 120);
            let elements: Vec<u64> = (0..20).map(|n| *at.add(ARRAY_HEADER + n)).collect();
            assert_eq!(elements, (0..20).collect::<Vec<_>>());
        }
        for count in [-1, i64::MIN, i64::MAX, 1 << 48] {
            assert!(matches!(grown(&mut heap, &mut at, count), Err(TrapKind::BadCapacity(_))), "{count}");
        }
    }

    #[test]
    fn what_has_moved_is_finished_and_empty() {
        let mut heap = heap();
        for (kind, large) in [
            ((Bank::Real, false, 0), false),
            ((Bank::Real, true, 0), false),
            ((Bank::Real, true, 2), false),
            ((Bank::Ref, false, 1), false),
            ((Bank::Real, true, 1), true),
        ] {
            let capacity = if large { LARGE_WORDS as i64 } else { 3 };
            let old = builder(&mut heap, capacity, kind);
            let mut at = old;
            // SAFETY: there is room; references of what is pushed are null.
            (0..3).for_each(|n| unsafe { push(old, if kind.0 == Bank::Ref { 0 } else { n }) });
            assert!(grown(&mut heap, &mut at, capacity).expect("there is memory"));
            // SAFETY: both are objects of this heap.
            unsafe {
                assert!(!is_builder(*old) && !planes::is_deep(*old));
                assert_eq!((*old.add(LEN), *old.add(FIRST)), (0, 0));
                assert!(owner_of(old).is_nobody());
                assert_eq!(growth(old, 0), Err(TrapKind::BuilderFinished));
                assert_eq!((*at.add(LEN), *at.add(CAPACITY)), (3, 2 * capacity as u64));
                assert_eq!((parts(at), has_words(*at)), (if kind.0 == Bank::Real { 1 << kind.2 } else { 1 }, kind.1));
                for part in 0..parts(at) {
                    for n in 0..3 {
                        let expected = if part == 0 && kind.0 != Bank::Ref { n as u64 } else { 0 };
                        assert_eq!(*elements_of(at, part).add(n), expected);
                        if kind.1 {
                            assert_eq!(*words_of(at, part).add(n), Slot((1000 * part + n) as u32).into());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn both_names_of_a_builder_follow_it_through_an_evacuation() {
        let mut heap = heap();
        let fields = Fields { reals: 0, ints: 1, refs: 0 };
        let mut frames = [builder(&mut heap, 1, (Bank::Ref, false, 0)), NULL, NULL];
        frames[1] = frames[0];
        for n in 0..if cfg!(miri) { 9 } else { 3_000 } {
            let evacuated = heap.evacuate(Roots { frames: &mut frames, kept: None });
            evacuated.expect("there is memory");
            // The stale name leads to what is empty, and keeps nothing alive.
            // SAFETY: both are objects of this heap.
            unsafe { assert!(frames[0] == frames[1] || !is_builder(*frames[1]) && *frames[1].add(LEN) == 0) };
            let object = heap.allocate(object_header(fields, 0), fields.size(), 0, Roots::none()).expect("memory");
            // SAFETY: it is such an object; the builder has room.
            unsafe {
                *object.add(fields.int_at(0)) = n;
                let mut at = frames[0];
                if grown(&mut heap, &mut at, 1).expect("there is memory") {
                    (frames[0], frames[1]) = (at, frames[0]);
                }
                push(at, 0);
                elements_of(at, 0).cast::<Ref>().add(n as usize).write(object);
            }
        }
        // SAFETY: it is a builder of such objects.
        unsafe {
            for n in 0..*frames[0].add(LEN) {
                let object = *frames[0].add(ARRAY_HEADER + n as usize).cast::<Ref>();
                assert_eq!((fields_of(*object), *object.add(fields.int_at(0))), (fields, n));
            }
        }
    }

    #[test]
    fn a_range_brings_the_components_that_the_array_has() {
        let mut heap = heap();
        let into = builder(&mut heap, 5, (Bank::Real, false, 2));
        // An array with a plane for one infinitesimal, and one without.
        let deep = builder(&mut heap, 3, (Bank::Real, false, 1));
        // SAFETY: they are builders with room, and arrays afterwards.
        unsafe {
            for n in 0..3 {
                push(deep, f64::to_bits(n as f64));
                *elements_of(deep, 1).add(n) = f64::to_bits(10.0 + n as f64);
            }
            planes::finish_reals(deep, None);
            *deep = finished(*deep);
            let flat = heap.allocate(array_header(Bank::Real), ARRAY_HEADER + 2, 0, Roots::none()).expect("memory");
            (*flat.add(LEN), *flat.add(FIRST)) = (2, 0);
            for n in 0..2 {
                *flat.add(ARRAY_HEADER + n).cast() = 20.0 + n as f64;
            }
            for part in 1..4 {
                elements_of(into, part).write_bytes(0xff, 5);
            }
            for (array, from, count) in [(deep, 1, 2), (flat, 0, 2), (flat, 2, 0), (deep, 0, 1)] {
                append(into, array, from, count);
                *into.add(LEN) += count as u64;
            }
            let component = |part| (0..5).map(|n| f64::from_bits(*elements_of(into, part).add(n))).collect::<Vec<_>>();
            assert_eq!(component(0), [1.0, 2.0, 20.0, 21.0, 0.0]);
            assert_eq!(component(1), [11.0, 12.0, 0.0, 0.0, 10.0]);
            assert_eq!((component(2), component(3)), (vec![0.0; 5], vec![0.0; 5]));
        }
    }
}
