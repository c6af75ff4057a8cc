//! Moving values between frames, objects and lists of registers.

use super::deep::unpack_components;
use super::recording::load_word;
use crate::code::{Counts, RegList};
use crate::memory::heap::{self, Ref};
use crate::tape::Tape;
use crate::trap::Limit;
use crate::word::Word;

/// Pointers to the first registers of a frame, or to the fields of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    pub(crate) reals: *mut f64,
    pub(crate) words: *mut Word,
    pub(crate) ints: *mut i64,
    pub(crate) refs: *mut Ref,
}

impl Registers {
    /// No places.
    pub(super) const NOWHERE: Registers = Registers {
        reals: std::ptr::null_mut(),
        words: std::ptr::null_mut(),
        ints: std::ptr::null_mut(),
        refs: std::ptr::null_mut(),
    };

    /// The fields of an object.
    ///
    /// # Safety
    /// `object` has room for these fields.
    #[inline(always)]
    pub(super) unsafe fn in_object(object: Ref, fields: heap::Fields) -> Registers {
        // SAFETY: promised by the caller.
        unsafe {
            Registers {
                reals: object.add(fields.real_at(0)).cast(),
                words: object.add(fields.word_at(0)).cast(),
                ints: object.add(fields.int_at(0)).cast(),
                refs: object.add(fields.ref_at(0)).cast(),
            }
        }
    }

    /// The places after so many registers.
    pub(crate) fn after(&self, counts: &Counts) -> Registers {
        Registers {
            reals: self.reals.wrapping_add(counts.reals),
            words: self.words.wrapping_add(counts.reals),
            ints: self.ints.wrapping_add(counts.ints),
            refs: self.refs.wrapping_add(counts.refs),
        }
    }

    /// Copies consecutive registers.
    ///
    /// # Safety
    /// There are so many at both places, which don't overlap.
    #[inline]
    pub(super) unsafe fn copy_to(&self, to: &Registers, counts: &Counts, words: bool) {
        // SAFETY: promised by the caller.
        unsafe {
            copy(self.reals, to.reals, counts.reals);
            if words {
                copy(self.words, to.words, counts.reals);
            }
            copy(self.ints, to.ints, counts.ints);
            copy(self.refs, to.refs, counts.refs);
        }
    }
}

/// Copies consecutive registers of a bank. There is mostly none or one, which is no call of a function worth.
///
/// # Safety
/// There are so many at both places, which don't overlap.
#[inline(always)]
unsafe fn copy<T: Copy>(from: *const T, to: *mut T, count: usize) {
    // SAFETY: promised by the caller.
    unsafe {
        match count {
            0 => {}
            1 => *to = *from,
            _ => to.copy_from_nonoverlapping(from, count),
        }
    }
}

/// Registers that are on their way, by bank.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) reals: Vec<f64>,
    pub(crate) words: Vec<Word>,
    pub(crate) ints: Vec<i64>,
    pub(crate) refs: Vec<Ref>,
}

/// Copies the listed registers to consecutive places.
///
/// # Safety
/// `from` is a frame that has the registers, `to` has room for them, and the two don't overlap.
#[inline(always)]
pub(super) unsafe fn copy_registers<const RECORD: bool>(list: &RegList, from: Registers, to: Registers) {
    // SAFETY: promised by the caller.
    unsafe {
        for (n, &reg) in list.reals.iter().enumerate() {
            *to.reals.add(n) = *from.reals.add(usize::from(reg));
            if RECORD {
                *to.words.add(n) = *from.words.add(usize::from(reg));
            }
        }
        for (n, &reg) in list.ints.iter().enumerate() {
            *to.ints.add(n) = *from.ints.add(usize::from(reg));
        }
        for (n, &reg) in list.refs.iter().enumerate() {
            *to.refs.add(n) = *from.refs.add(usize::from(reg));
        }
    }
}

/// Copies results from the callee's registers to the caller's.
///
/// # Safety
/// Both frames have the registers and don't overlap; the lists agree in number by bank.
#[inline(always)]
pub(super) unsafe fn return_registers<const RECORD: bool>(
    results: &RegList,
    from: Registers,
    list: &RegList,
    to: Registers,
) {
    // SAFETY: promised by the caller.
    unsafe {
        for (&src, &dst) in results.reals.iter().zip(&list.reals) {
            *to.reals.add(usize::from(dst)) = *from.reals.add(usize::from(src));
            if RECORD {
                *to.words.add(usize::from(dst)) = *from.words.add(usize::from(src));
            }
        }
        for (&src, &dst) in results.ints.iter().zip(&list.ints) {
            *to.ints.add(usize::from(dst)) = *from.ints.add(usize::from(src));
        }
        for (&src, &dst) in results.refs.iter().zip(&list.refs) {
            *to.refs.add(usize::from(dst)) = *from.refs.add(usize::from(src));
        }
    }
}

/// Copies results from the callee's first registers to the caller's.
///
/// # Safety
/// Both frames have the registers, and the callee's are above the caller's.
#[inline(always)]
pub(super) unsafe fn unpack_results<const RECORD: bool>(from: Registers, list: &RegList, to: Registers) {
    // SAFETY: promised by the caller.
    unsafe {
        for (n, &reg) in list.reals.iter().enumerate() {
            *to.reals.add(usize::from(reg)) = *from.reals.add(n);
            if RECORD {
                *to.words.add(usize::from(reg)) = *from.words.add(n);
            }
        }
        for (n, &reg) in list.ints.iter().enumerate() {
            *to.ints.add(usize::from(reg)) = *from.ints.add(n);
        }
        for (n, &reg) in list.refs.iter().enumerate() {
            *to.refs.add(usize::from(reg)) = *from.refs.add(n);
        }
    }
}

/// Moves the listed registers of a frame to its first ones.
///
/// # Safety
/// The frame has the registers.
#[inline(always)]
pub(super) unsafe fn move_to_front<const RECORD: bool>(list: &RegList, frame: Registers, through: &mut Gathered) {
    // SAFETY: promised by the caller.
    unsafe {
        if list.reals.len() <= 1 && list.ints.len() <= 1 && list.refs.len() <= 1 {
            // No register of a bank is in the way of another one.
            copy_registers::<RECORD>(list, frame, frame);
        } else {
            gather::<RECORD>(list, frame, through);
            scatter::<RECORD>(through, frame);
        }
    }
}

/// Copies the registers that a tail call or a return hands on.
///
/// # Safety
/// `from` is a frame that has the registers.
pub(super) unsafe fn gather<const RECORD: bool>(list: &RegList, from: Registers, to: &mut Gathered) {
    // SAFETY: promised by the caller.
    unsafe {
        to.reals.clear();
        to.reals.extend(list.reals.iter().map(|&reg| *from.reals.add(usize::from(reg))));
        to.words.clear();
        if RECORD {
            to.words.extend(list.reals.iter().map(|&reg| *from.words.add(usize::from(reg))));
        }
        to.ints.clear();
        to.ints.extend(list.ints.iter().map(|&reg| *from.ints.add(usize::from(reg))));
        to.refs.clear();
        to.refs.extend(list.refs.iter().map(|&reg| *from.refs.add(usize::from(reg))));
    }
}

/// Copies gathered values to consecutive registers.
///
/// # Safety
/// `to` has room for them.
pub(super) unsafe fn scatter<const RECORD: bool>(values: &Gathered, to: Registers) {
    // SAFETY: promised by the caller.
    unsafe {
        to.reals.copy_from_nonoverlapping(values.reals.as_ptr(), values.reals.len());
        if RECORD {
            to.words.copy_from_nonoverlapping(values.words.as_ptr(), values.words.len());
        }
        to.ints.copy_from_nonoverlapping(values.ints.as_ptr(), values.ints.len());
        to.refs.copy_from_nonoverlapping(values.refs.as_ptr(), values.refs.len());
    }
}

/// Copies a closure's captures to consecutive registers. Returns where the arguments go. Null is not a closure.
/// Captured reals of other tasks are imported. At a depth, each real has its components.
///
/// # Safety
/// `to` has room for the captures.
#[inline(always)]
pub(crate) unsafe fn unpack_captures<const RECORD: bool>(
    closure: Ref,
    depth: u32,
    to: Registers,
    tape: &mut Tape,
) -> Result<Registers, Limit> {
    if closure.is_null() {
        return Ok(to);
    }
    // SAFETY: a closure's header counts its captures.
    unsafe {
        let fields = heap::fields_of(*closure);
        if depth > 0 {
            unpack_components::<RECORD>(closure, depth, to, tape)?;
        } else {
            to.reals.copy_from_nonoverlapping(closure.add(fields.real_at(0)).cast(), fields.reals);
            if RECORD {
                for n in 0..fields.reals {
                    *to.words.add(n) = load_word(tape, closure, fields.word_at(n))?;
                }
            }
        }
        to.ints.copy_from_nonoverlapping(closure.add(fields.int_at(0)).cast(), fields.ints);
        to.refs.copy_from_nonoverlapping(closure.add(fields.ref_at(0)).cast(), fields.refs);
        Ok(Registers {
            reals: to.reals.add(fields.reals << depth),
            words: if RECORD { to.words.add(fields.reals << depth) } else { to.words },
            ints: to.ints.add(fields.ints),
            refs: to.refs.add(fields.refs),
        })
    }
}

/// The references of all frames between two places of their stack.
///
/// # Safety
/// All of them are initialised, and nothing else accesses them while the slice lives.
pub(crate) unsafe fn roots<'a>(start: *mut Ref, end: *mut Ref) -> &'a mut [Ref] {
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts_mut(start, end.offset_from(start) as usize) }
}
