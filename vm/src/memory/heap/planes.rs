//! Components of reals above the lowest, in objects.
//!
//! Code at depth d works on reals with 2^d components, indexed by the subsets of d infinitesimals; component {} is the
//! primal. What such code makes may hold them all. An object that does, or refers to one that does, is *deep*: behind
//! what every object of its kind has stand
//! - the *depth word*: how many *planes* p the object has (bits 0–7), the *reach* (8–15), its size in words (16–63);
//! - the components S = 1 … 2^p - 1 of its reals, a plane of all reals for each S: of structs, variants and closures
//!   the primals of a plane and then their words; of arrays their elements; of builders as many cells as they have for
//!   component {}, with words or without;
//! - of arrays and of builders, room for the first slot of each of these planes.
//!
//! Components that an object doesn't have are 0, with words of constants. So code at a greater depth reads what was
//! made at a lower one, and an object that holds zeros only above some component has no planes for them. A stored
//! component is never -0.0, so that one that is left out is the same number.
//!
//! The reach is the least depth at which an object with all that it refers to can be read as a whole, or more: of
//! chains and of what operators take apart it is a bound. Operators run at the depth that they find there, because a
//! depth that is given by the code around them would grow with every operator that is nested, used or not.

use super::object::{ARRAY_HEADER, CAPACITY, DEEP, Fields, LEN, Ref, has_words, is_builder, shallow_size};
use crate::word::{Slot, Word};

/// The word that follows what every object of a kind has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Depth(u64);

impl Depth {
    /// The reach is at least the number of planes.
    pub(crate) fn new(planes: u32, reach: u32, size: usize) -> Self {
        debug_assert!(planes <= reach && reach < 256);
        Depth(u64::from(planes) | u64::from(reach) << 8 | (size as u64) << 16)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn planes(self) -> u32 {
        self.0 as u32 & 0xff
    }

    pub(crate) const fn reach(self) -> u32 {
        (self.0 >> 8) as u32 & 0xff
    }

    const fn size(self) -> usize {
        (self.0 >> 16) as usize
    }
}

/// What an object is if it is deep, with its depth word.
pub(crate) const fn deep(header: u64) -> u64 {
    header | DEEP
}

/// Whether word 0 is that of a deep object.
pub(crate) const fn is_deep(header: u64) -> bool {
    header & DEEP != 0
}

/// The size of a deep object in words.
///
/// # Safety
/// `object` is deep, and so many words long without what makes it so.
pub(super) unsafe fn size(object: Ref, shallow: usize) -> usize {
    // SAFETY: promised by the caller.
    unsafe { Depth(*object.add(shallow)).size() }
}

/// The depth word of an object; of one that isn't deep, what it would be.
///
/// # Safety
/// `object` is a complete object.
#[inline]
pub(crate) unsafe fn depth_of(object: Ref) -> Depth {
    // SAFETY: promised by the caller.
    unsafe { if is_deep(*object) { Depth(*object.add(shallow_size(object))) } else { Depth(0) } }
}

/// How deep code must be to read all components that an object reaches. Null reaches none.
///
/// # Safety
/// `object` is a complete object or null.
#[inline]
pub(crate) unsafe fn reach(object: Ref) -> u32 {
    // SAFETY: promised by the caller.
    if object.is_null() { 0 } else { unsafe { depth_of(object).reach() } }
}

/// The size in words of a deep object with these fields.
pub(crate) const fn object_size(fields: Fields, planes: u32) -> usize {
    fields.size() + 1 + ((1 << planes) - 1) * 2 * fields.reals
}

/// The size in words of a deep array of so many elements. One of integers or references has no planes.
pub(crate) const fn array_size(len: usize, planes: u32) -> usize {
    // The elements, the depth word, the first slots.
    ARRAY_HEADER + (len << planes) + 1 + (1 << planes) - 1
}

/// The index of a component, `part` ≥ 1, of the n-th real of an object. Its word stands `fields.reals` further on.
pub(crate) const fn field_at(fields: Fields, part: usize, n: usize) -> usize {
    fields.size() + 1 + (part - 1) * 2 * fields.reals + n
}

/// The index of a component, `part` ≥ 1, of an element of an array. Of builders, `unit` is how many cells there are for
/// component {}, and the word of an element stands behind all elements of its component.
pub(crate) const fn element_at(unit: usize, part: usize, index: usize) -> usize {
    ARRAY_HEADER + 1 + part * unit + index
}

/// The index of the first slot of a component, `part` ≥ 1, of an array.
const fn first_at(len: usize, planes: u32, part: usize) -> usize {
    ARRAY_HEADER + 1 + (len << planes) + part - 1
}

/// The first slot of a component of an array of reals; none if that is constant, or not there.
///
/// # Safety
/// `array` is a complete array of reals.
pub(crate) unsafe fn first_of(array: Ref, part: usize) -> Slot {
    // SAFETY: promised by the caller.
    unsafe {
        let planes = depth_of(array).planes();
        match part {
            0 => super::first_of(array),
            _ if part >> planes != 0 => Slot::NONE,
            _ => (*array.add(first_at(*array.add(LEN) as usize, planes, part)).cast::<Word>()).slot(),
        }
    }
}

/// Says which slot the first element of a component of an array has.
///
/// # Safety
/// `array` is an array of reals with that component, or becomes one, and nobody else uses it meanwhile.
pub(crate) unsafe fn set_first(array: Ref, (len, planes): (usize, u32), part: usize, first: Slot) {
    // SAFETY: promised by the caller.
    unsafe {
        match part {
            0 => super::set_first(array, first),
            _ => *array.add(first_at(len, planes, part)).cast() = Word::from(first),
        }
    }
}

/// A component of an element, and 0 if it isn't there.
///
/// # Safety
/// `array` is a complete array of reals that has the element.
#[inline]
pub(crate) unsafe fn element(array: Ref, part: usize, index: usize) -> f64 {
    // SAFETY: promised by the caller.
    unsafe { elements(array, part).map_or(0.0, |elements| *elements.add(index)) }
}

/// Where the elements of a component stand, if it is there: one after the other.
///
/// # Safety
/// `array` is a complete array of reals.
#[inline]
pub(crate) unsafe fn elements(array: Ref, part: usize) -> Option<*const f64> {
    // SAFETY: promised by the caller.
    unsafe {
        if part == 0 {
            return Some(super::elements(array).cast());
        }
        if !is_deep(*array) {
            return None;
        }
        let len = *array.add(LEN) as usize;
        let planes = Depth(*array.add(ARRAY_HEADER + len)).planes();
        (part >> planes == 0).then(|| array.add(element_at(len, part, 0)).cast_const().cast())
    }
}

/// Whether an object has the component of a real that would stand at `at`, if the depth word would at `depth_at`.
///
/// # Safety
/// `object` is a complete struct, variant or closure.
#[inline]
pub(crate) unsafe fn has(object: Ref, depth_at: usize, at: usize) -> bool {
    // SAFETY: promised by the caller.
    unsafe { is_deep(*object) && at < Depth(*object.add(depth_at)).size() }
}

/// A component of the n-th real of a struct, a variant or a closure, and 0 if it isn't there.
///
/// # Safety
/// `object` is complete and has these fields.
#[inline]
pub(crate) unsafe fn field(object: Ref, fields: Fields, part: usize, n: usize) -> f64 {
    // SAFETY: promised by the caller.
    unsafe {
        let at = if part == 0 { fields.real_at(n) } else { field_at(fields, part, n) };
        if part == 0 || has(object, fields.size(), at) { *object.add(at).cast() } else { 0.0 }
    }
}

/// How many planes hold something, of components that stand one after the other, `len` of each and 2^`depth` in all.
/// `words` may be null.
///
/// # Safety
/// There are so many numbers, and so many words.
pub(crate) unsafe fn needed(reals: *const f64, words: *const Word, len: usize, depth: u32) -> u32 {
    // SAFETY: promised by the caller.
    unsafe {
        let is_zero = |at: usize| *reals.add(at) == 0.0 && (words.is_null() || (*words.add(at)).is_constant());
        let last = (len..len << depth).rev().find(|&at| !is_zero(at));
        last.map_or(0, |at| (at / len).ilog2() + 1)
    }
}

/// Turns a deep builder of reals into an array of the elements that it has, whose planes stand side by side then.
/// `firsts` are the slots of their first elements, if it has kept words.
///
/// # Safety
/// `builder` is a deep builder, and nobody else uses it meanwhile.
pub(crate) unsafe fn finish_reals(builder: Ref, firsts: Option<&[Slot]>) {
    // SAFETY: promised by the caller. What is moved goes to lower addresses, in order, and an array with all planes
    // takes no more room than its builder.
    unsafe {
        let unit = unit(builder);
        let (len, made) = (*builder.add(LEN) as usize, Depth(*builder.add(ARRAY_HEADER + unit)).planes());
        let first = |part: usize| firsts.map_or(Slot::NONE, |firsts| firsts[part]);
        let at = |part: usize, index: usize| builder.add(element_at(unit, part, index)).cast::<f64>();
        let holds = |part: usize| !first(part).is_none() || (0..len).any(|index| *at(part, index) != 0.0);
        let planes = (1..1usize << made).rev().find(|&part| holds(part)).map_or(0, |part| part.ilog2() + 1);
        super::set_first(builder, first(0));
        if planes == 0 {
            *builder &= !DEEP;
            return;
        }
        for part in 1..1 << planes {
            let (from, to) = (at(part, 0), builder.add(element_at(len, part, 0)).cast::<f64>());
            for index in 0..len {
                *to.add(index) = *from.add(index);
            }
        }
        *builder.add(ARRAY_HEADER + len) = Depth::new(planes, planes, array_size(len, planes)).bits();
        for part in 1..1 << planes {
            set_first(builder, (len, planes), part, first(part));
        }
    }
}

/// How many cells a builder has for the elements' lowest components and their words.
///
/// # Safety
/// `builder` is one.
pub(crate) unsafe fn unit(builder: Ref) -> usize {
    // SAFETY: promised by the caller.
    unsafe {
        debug_assert!(is_builder(*builder));
        (*builder.add(CAPACITY) as usize) << u32::from(has_words(*builder))
    }
}

/// Turns a deep builder of references into an array, before its header does.
///
/// # Safety
/// As [`finish_reals`].
pub(crate) unsafe fn finish_references(builder: Ref) {
    // SAFETY: promised by the caller.
    unsafe {
        let len = *builder.add(LEN) as usize;
        let elements = builder.add(ARRAY_HEADER).cast::<Ref>();
        let reach = (0..len).map(|index| reach(*elements.add(index))).max().unwrap_or(0);
        if reach == 0 {
            *builder &= !DEEP;
        } else {
            *builder.add(ARRAY_HEADER + len) = Depth::new(0, reach, array_size(len, 0)).bits();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Heap, HeapLimits, Roots, build, finished};
    use super::*;
    use crate::bytecode::isa::Bank;
    use crate::memory::pool::SlabPool;
    use crate::running::limits::Limits;
    use crate::running::meter::Account;
    use std::sync::Arc;

    fn heap(account: &mut Account) -> Heap {
        account.begin(&Limits::default(), None);
        let mut heap = Heap::new(Arc::new(SlabPool::default()));
        heap.begin(HeapLimits { allocated_bytes: u64::MAX, live_bytes: u64::MAX }, account);
        heap
    }

    /// A builder for depth 2 with room for `capacity` elements, to which `elements` were pushed.
    ///
    /// # Safety
    /// There is room for them.
    unsafe fn pushed(heap: &mut Heap, capacity: i64, elements: &[[f64; 4]]) -> Ref {
        // SAFETY: there is room for the elements.
        unsafe {
            let builder = build(heap, capacity, (Bank::Real, false, 2), 0, Roots::none()).expect("there is memory");
            for (index, parts) in elements.iter().enumerate() {
                *builder.add(ARRAY_HEADER + index).cast() = parts[0];
                for (part, value) in parts.iter().enumerate().skip(1) {
                    *builder.add(element_at(unit(builder), part, index)).cast() = *value;
                }
                *builder.add(LEN) += 1;
            }
            builder
        }
    }

    /// The components of the elements of the array that a builder becomes, its planes, and its size.
    ///
    /// # Safety
    /// It is a builder for depth 2, which nobody else uses.
    unsafe fn array_of(builder: Ref) -> (Vec<[f64; 4]>, u32, usize) {
        // SAFETY: it is a builder, then an array.
        unsafe {
            finish_reals(builder, None);
            *builder = finished(*builder);
            let len = *builder.add(LEN) as usize;
            let elements = (0..len).map(|index| [0, 1, 2, 3].map(|part| element(builder, part, index))).collect();
            (elements, depth_of(builder).planes(), super::super::object::size_of_object(builder))
        }
    }

    #[test]
    fn a_builder_that_is_not_full_becomes_an_array_whose_planes_stand_side_by_side() {
        let mut account = Account::default();
        let mut heap = heap(&mut account);
        let elements = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 0.0, 0.0, f64::NAN]];
        for capacity in 3..=6 {
            // SAFETY: the heap lives, and nothing is evacuated.
            let (found, planes, size) = unsafe { array_of(pushed(&mut heap, capacity, &elements)) };
            assert_eq!(format!("{found:?}"), format!("{elements:?}"));
            assert_eq!((planes, size), (2, array_size(3, 2)));
        }
    }

    #[test]
    fn planes_that_hold_nothing_are_left_out() {
        let mut account = Account::default();
        let mut heap = heap(&mut account);
        // SAFETY: the heap lives, and nothing is evacuated.
        unsafe {
            let one = [[1.0, 2.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]];
            assert_eq!(array_of(pushed(&mut heap, 4, &one)), (one.to_vec(), 1, array_size(2, 1)));
            let none = [[1.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]];
            let builder = pushed(&mut heap, 4, &none);
            assert_eq!(array_of(builder), (none.to_vec(), 0, ARRAY_HEADER + 2));
            assert!(!is_deep(*builder));
            assert_eq!(array_of(pushed(&mut heap, 0, &[])), (Vec::new(), 0, ARRAY_HEADER));
        }
    }

    #[test]
    fn what_is_needed_is_told_by_the_highest_component_that_is_not_zero() {
        let words = [Word::CONSTANT, Word::CONSTANT, Slot(3).into(), Word::CONSTANT];
        let null = std::ptr::null();
        // SAFETY: there are so many numbers and words.
        unsafe {
            assert_eq!(needed([1.0, 0.0, -0.0, 0.0].as_ptr(), null, 1, 2), 0);
            assert_eq!(needed([1.0, 2.0, 0.0, 0.0].as_ptr(), null, 1, 2), 1);
            assert_eq!(needed([0.0, 0.0, 0.0, f64::NAN].as_ptr(), null, 1, 2), 2);
            // Two reals of one infinitesimal.
            assert_eq!(needed([1.0, 2.0, 0.0, 3.0].as_ptr(), null, 2, 1), 1);
            // A zero that has a slot is something.
            assert_eq!(needed([1.0, 0.0, 0.0, 0.0].as_ptr(), words.as_ptr(), 1, 2), 2);
            assert_eq!(needed(null.cast(), null, 0, 3), 0);
        }
    }
}
