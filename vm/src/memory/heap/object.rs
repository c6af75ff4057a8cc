//! Objects as words: their layout, and what their headers say.
//!
//! Objects are immutable once made (builders until they are finished) and acyclic. All are sequences of 8-byte words:
//! - word 0: kind and flags (8 bits); of what has fields their counts, reals, integers and references (8 bits each),
//!   and the tag or the function (32);
//! - word 1: the owner, the context that made it; 0: it and all that it refers to are constant;
//! - fields: primals of reals, words of reals, integers, references;
//! - arrays and builders: word 2 is the length, word 3 an array's first slot or a builder's capacity, then elements.
//!   The words of a real builder follow its elements;
//! - arrays that are borrowed of the host end there: the elements are where the host has them, and bits 16 to 63 of
//!   word 0 say how far from where they would stand else, in words. In all other arrays these bits are 0;
//! - of what reaches components of reals above the lowest: a word that says so, and the components ([`super::planes`]).
//!
//! The layout is the same in all modes. Who makes objects, and who moves them, goes by this file.

use super::planes;
use crate::bytecode::isa::Bank;
use crate::bytecode::module::ValueType;
use crate::memory::pool::SLAB_BYTES;
use crate::word::{Owner, Slot, Word};

/// A reference register's content: an object, or null before the first assignment. Fields and elements that are
/// references hold it as such, not as a number.
pub(crate) type Ref = *mut u64;

/// Words before an object's fields.
pub const OBJECT_HEADER: usize = 2;
/// Words before an array's elements.
pub const ARRAY_HEADER: usize = 4;
/// Index of the owner word.
pub const OWNER: usize = 1;
/// Index of an array's length.
pub const LEN: usize = 2;
/// Index of an array's first slot.
pub const FIRST: usize = 3;
/// Index of a builder's capacity.
pub const CAPACITY: usize = 3;

pub(crate) const KIND: u64 = 0x07;
const OBJECT: u64 = 1;
pub(crate) const ARRAY: u64 = 2;
pub(crate) const BUILDER: u64 = 5;
/// An object that reaches components of reals above the lowest: a depth word and planes follow it ([`super::planes`]).
pub(super) const DEEP: u64 = 0x08;
/// A real builder that keeps the words of its elements.
const WITH_WORDS: u64 = 0x10;
/// An object whose integers belong to its shape.
const SHAPED: u64 = 0x10;
pub(super) const MARKED: u64 = 0x20;
pub(super) const LARGE: u64 = 0x40;
pub(super) const FORWARDED: u64 = 0x80;

/// From this bit on, word 0 of an array says how far away its elements are, in words.
pub const AWAY_SHIFT: u32 = 16;
/// Nothing is borrowed that is not below, by an object that isn't: distances, in words, fit into the bits from
/// [`AWAY_SHIFT`] on then. That objects stay below when they move is what platforms do.
const ADDRESS_MAX: u64 = 1 << 50;

/// Objects of more words than this get memory of their own.
pub const LARGE_WORDS: usize = SLAB_BYTES / 8 / 4;

/// How many fields of each bank an object has, and where they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fields {
    pub(crate) reals: usize,
    pub(crate) ints: usize,
    pub(crate) refs: usize,
}

impl Fields {
    pub(crate) fn of(types: &[ValueType]) -> Self {
        let count = |bank| types.iter().filter(|ty| ty.bank() == bank).count();
        Fields { reals: count(Bank::Real), ints: count(Bank::Int), refs: count(Bank::Ref) }
    }

    fn of_header(header: u64) -> Self {
        let byte = |n: u32| (header >> (8 * n) & 0xff) as usize;
        Fields { reals: byte(1), ints: byte(2), refs: byte(3) }
    }

    /// How an array holds elements with these registers: the bank of its elements and how many of them one takes, if
    /// no structs are needed ([`HostType::Array`](crate::module::HostType::Array)).
    pub(crate) fn row(&self) -> Option<(Bank, usize)> {
        match (self.reals, self.ints, self.refs) {
            (1.., 0, 0) => Some((Bank::Real, self.reals)),
            (0, 1.., 0) => Some((Bank::Int, self.ints)),
            (0, 0, 1) => Some((Bank::Ref, 1)),
            _ => None,
        }
    }

    /// The index of the n-th real's primal.
    pub(crate) fn real_at(&self, n: usize) -> usize {
        OBJECT_HEADER + n
    }
    /// The index of the n-th real's word.
    pub(crate) fn word_at(&self, n: usize) -> usize {
        OBJECT_HEADER + self.reals + n
    }
    /// The index of the n-th integer.
    pub(crate) fn int_at(&self, n: usize) -> usize {
        OBJECT_HEADER + 2 * self.reals + n
    }
    /// The index of the n-th reference.
    pub(crate) fn ref_at(&self, n: usize) -> usize {
        OBJECT_HEADER + 2 * self.reals + self.ints + n
    }
    /// The object's size in words.
    pub(crate) const fn size(&self) -> usize {
        OBJECT_HEADER + 2 * self.reals + self.ints + self.refs
    }
}

/// Word 0 of a struct, a variant (with its tag) or a closure (with its function).
pub(crate) fn object_header(fields: Fields, tag: u32) -> u64 {
    debug_assert!(fields.reals < 256 && fields.ints < 256 && fields.refs < 256, "the verifier bounds fields");
    OBJECT | (fields.reals as u64) << 8 | (fields.ints as u64) << 16 | (fields.refs as u64) << 24 | u64::from(tag) << 32
}

/// Word 0 of a struct whose integers belong to its shape.
pub(crate) fn shaped_header(fields: Fields) -> u64 {
    object_header(fields, 0) | SHAPED
}

/// Word 0 of an array.
pub fn array_header(element: Bank) -> u64 {
    ARRAY + element as u64
}

/// Word 0 of a builder.
pub(super) fn builder_header(element: Bank, with_words: bool) -> u64 {
    let words = if with_words { WITH_WORDS } else { 0 };
    (BUILDER + element as u64) | words
}

/// A variant's tag or a closure's function.
pub(crate) fn tag_of(header: u64) -> u32 {
    (header >> 32) as u32
}

/// The bank of the elements of an array or a builder.
pub(crate) fn element_bank(header: u64) -> Option<Bank> {
    let banks = [Bank::Real, Bank::Int, Bank::Ref];
    match header & KIND {
        OBJECT => None,
        kind => Some(banks[(kind - ARRAY) as usize % banks.len()]),
    }
}

/// Word 0 of a complete object without what differs between objects of the same kind, fields and tag. It is that of an
/// object whose elements follow it.
pub(crate) fn bare(header: u64) -> u64 {
    match header & KIND {
        OBJECT => header & !(0xff & !(KIND | SHAPED)),
        kind => kind,
    }
}

/// How far from where they would stand in the object the elements of an array are, in words; 0 if it isn't borrowed.
#[inline(always)]
fn away(header: u64) -> i64 {
    header.cast_signed() >> AWAY_SHIFT
}

/// Makes an array without room for elements one with those that stand at an address. Says whether that can be: else it
/// stays as it is.
///
/// # Safety
/// `array` is an array of numbers that nobody else uses yet. As many numbers of its kind as it is long stand at
/// `elements`, aligned, and nobody writes to them as long as the array is used.
pub(crate) unsafe fn borrow(array: Ref, elements: *const u64) -> bool {
    let at = elements.expose_provenance();
    let away = words_between(array.wrapping_add(ARRAY_HEADER).addr(), at);
    if at.max(array.addr()) as u64 >= ADDRESS_MAX || away == 0 {
        return false;
    }
    // SAFETY: promised by the caller.
    unsafe { set_away(array, away) };
    true
}

/// How many words an address is behind another one, if both are aligned alike.
fn words_between(from: usize, to: usize) -> i64 {
    debug_assert_eq!(from % size_of::<u64>(), to % size_of::<u64>());
    (to.cast_signed() - from.cast_signed()) as i64 / size_of::<u64>() as i64
}

/// Says how far away the elements of an array are.
///
/// # Safety
/// They are there, and nobody else uses the array yet.
unsafe fn set_away(array: Ref, away: i64) {
    debug_assert!(away != 0 && away << AWAY_SHIFT >> AWAY_SHIFT == away);
    // SAFETY: promised by the caller.
    unsafe { *array = *array & ((1 << AWAY_SHIFT) - 1) | (away as u64) << AWAY_SHIFT };
}

/// Corrects the distance of what a copy of an array has borrowed.
///
/// # Safety
/// `copy` is a copy of `object`, word by word, that nobody uses yet, and doesn't end where its slab does: what is
/// borrowed may begin there.
#[inline(always)]
pub(super) unsafe fn keep_borrowed(copy: Ref, object: Ref) {
    // SAFETY: promised by the caller.
    unsafe {
        if is_borrowed(*copy) {
            set_away(copy, away(*copy) + words_between(copy.addr(), object.addr()));
        }
    }
}

/// Whether word 0 is that of an array whose elements are the host's.
#[inline(always)]
pub(crate) fn is_borrowed(header: u64) -> bool {
    header & KIND != OBJECT && away(header) != 0
}

/// Where an array's elements stand, of reals the primals.
///
/// # Safety
/// `array` is a complete array.
#[inline(always)]
pub(crate) unsafe fn elements(array: Ref) -> *mut u64 {
    // SAFETY: promised by the caller.
    unsafe {
        debug_assert!(*array & KIND != OBJECT && !is_builder(*array));
        match away(*array) {
            0 => array.add(ARRAY_HEADER),
            away => std::ptr::with_exposed_provenance_mut(
                array.wrapping_add(ARRAY_HEADER).wrapping_offset(away as isize).addr(),
            ),
        }
    }
}

/// Where an array would have to begin for its elements to stand behind its header: for one that isn't borrowed, where
/// it does.
///
/// # Safety
/// `array` is a complete array.
#[inline(always)]
pub(crate) unsafe fn base_of(array: Ref) -> Ref {
    // SAFETY: promised by the caller.
    unsafe { elements(array).wrapping_sub(ARRAY_HEADER) }
}

/// Whether the integers of a complete object belong to its shape.
pub(crate) const fn is_shaped(header: u64) -> bool {
    header & (KIND | SHAPED) == OBJECT | SHAPED
}

/// Whether two objects are of the same kind, with the same fields and tag, and the same integers if these belong to
/// their shape, or arrays of the same length.
///
/// # Safety
/// Both are complete objects.
pub(crate) unsafe fn are_alike(a: Ref, b: Ref) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        bare(*a) == bare(*b)
            && match *a & KIND {
                OBJECT => !is_shaped(*a) || integers(a) == integers(b),
                _ => *a.add(LEN) == *b.add(LEN),
            }
    }
}

/// The integers of a struct or a variant.
///
/// # Safety
/// It is a complete one, and stays where it is while the slice is in use.
pub(crate) unsafe fn integers<'a>(object: Ref) -> &'a [i64] {
    // SAFETY: promised by the caller; the header says how many fields there are.
    unsafe {
        let fields = Fields::of_header(*object);
        std::slice::from_raw_parts(object.add(fields.int_at(0)).cast(), fields.ints)
    }
}

/// Whether word 0 is that of a builder that is not finished.
pub(crate) const fn is_builder(header: u64) -> bool {
    header & KIND >= BUILDER
}

/// Whether a builder keeps words.
pub(crate) const fn has_words(header: u64) -> bool {
    header & WITH_WORDS != 0
}

/// Whether an array or a builder is one of reals.
pub(crate) const fn holds_reals(header: u64) -> bool {
    matches!(header & KIND, ARRAY | BUILDER)
}

/// Word 0 of the array that a builder becomes.
pub(crate) fn finished(header: u64) -> u64 {
    (header & !WITH_WORDS) - (BUILDER - ARRAY)
}

/// The number of fields by bank of an object of this header.
pub(crate) fn fields_of(header: u64) -> Fields {
    Fields::of_header(header)
}

/// An object's size in words.
///
/// # Safety
/// `object` must be an object that has not moved.
#[inline]
pub(super) unsafe fn size_of_object(object: Ref) -> usize {
    // SAFETY: the header tells which words there are.
    unsafe {
        let shallow = shallow_size(object);
        if *object & DEEP == 0 { shallow } else { planes::size(object, shallow) }
    }
}

/// An object's size in words without what follows it if it is deep.
///
/// # Safety
/// As [`size_of_object`].
#[inline]
pub(super) unsafe fn shallow_size(object: Ref) -> usize {
    // SAFETY: the header tells which words there are.
    unsafe {
        let header = *object;
        match header & KIND {
            OBJECT => Fields::of_header(header).size(),
            kind if kind < BUILDER => ARRAY_HEADER + if away(header) == 0 { *object.add(LEN) as usize } else { 0 },
            _ => {
                let capacity = *object.add(CAPACITY) as usize;
                ARRAY_HEADER + if header & WITH_WORDS != 0 { 2 * capacity } else { capacity }
            }
        }
    }
}

/// Where an object's references are: the first index and their number.
///
/// # Safety
/// `object` must be an object that has not moved.
#[inline]
pub(crate) unsafe fn references(object: Ref) -> (usize, usize) {
    // SAFETY: the header tells which words there are.
    unsafe {
        let header = *object;
        let kind = header & KIND;
        if kind == OBJECT {
            let fields = Fields::of_header(header);
            (fields.ref_at(0), fields.refs)
        } else if kind == ARRAY + Bank::Ref as u64 || kind == BUILDER + Bank::Ref as u64 {
            (ARRAY_HEADER, *object.add(LEN) as usize)
        } else {
            (ARRAY_HEADER, 0)
        }
    }
}

/// The task whose slots the words of an object are.
///
/// # Safety
/// `object` is an object.
#[inline(always)]
pub(crate) unsafe fn owner_of(object: Ref) -> Owner {
    // SAFETY: promised by the caller: every object has an owner word.
    unsafe { *object.add(OWNER).cast() }
}

/// Gives an object an owner.
///
/// # Safety
/// `object` is an object, and nobody else uses it meanwhile.
#[inline(always)]
pub(crate) unsafe fn set_owner(object: Ref, owner: Owner) {
    // SAFETY: promised by the caller: every object has an owner word.
    unsafe { *object.add(OWNER).cast() = owner };
}

/// The slot of an array's first element; none if all elements are constants.
///
/// # Safety
/// `array` is an array, not a builder.
#[inline(always)]
pub(crate) unsafe fn first_of(array: Ref) -> Slot {
    // SAFETY: promised by the caller; a first slot takes as much room as a word.
    unsafe { (*array.add(FIRST).cast::<Word>()).slot() }
}

/// Says which slot an array's first element has.
///
/// # Safety
/// `array` is an array or becomes one, and nobody else uses it meanwhile.
#[inline(always)]
pub(crate) unsafe fn set_first(array: Ref, first: Slot) {
    // SAFETY: promised by the caller; a first slot takes as much room as a word.
    unsafe { *array.add(FIRST).cast() = Word::from(first) };
}
