//! Helpers for code at a depth.

use super::{Context, object_or_stop, word_or_stop};
use crate::bytecode::isa::Bank;
use crate::memory::heap::Ref;
use crate::running::deep::component_word;
use crate::running::registers::Registers;
use crate::running::worker::Worker;
use crate::word::Word;

/// Makes a struct, a variant or a closure of consecutive registers. Returns null if the run has to stop.
///
/// # Safety
/// **Context**; the registers are there, component by component, and references up to them are initialised.
pub(super) unsafe extern "C" fn new_deep(
    context: Context,
    header: u64,
    reals: *mut f64,
    words: *mut Word,
    ints: *mut i64,
    refs: *mut Ref,
) -> Ref {
    // SAFETY: **Context**; the rest is promised by the caller.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let made = worker.new_deep(header, Registers { reals, words, ints, refs });
        object_or_stop(worker, made)
    }
}

/// Makes an array of `len` elements of bank 0, 1 or 2. Returns null if the run has to stop.
///
/// # Safety
/// As [`new_deep`].
pub(super) unsafe extern "C" fn pack_deep(
    context: Context,
    element: u64,
    len: usize,
    reals: *mut f64,
    words: *mut Word,
    ints: *mut i64,
    refs: *mut Ref,
) -> Ref {
    // SAFETY: **Context**; the rest is promised by the caller.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let element = [Bank::Real, Bank::Int, Bank::Ref][element as usize];
        let made = worker.pack_deep(element, len, Registers { reals, words, ints, refs });
        object_or_stop(worker, made)
    }
}

/// Appends a cell to a chain. Returns null if the run has to stop.
///
/// # Safety
/// As [`new_deep`]; the chain stands behind the references of the fields.
pub(super) unsafe extern "C" fn chain_push_deep(
    context: Context,
    header: u64,
    reals: *mut f64,
    words: *mut Word,
    ints: *mut i64,
    refs: *mut Ref,
) -> Ref {
    // SAFETY: **Context**; the rest is promised by the caller.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let made = worker.chain_push_deep(header, Registers { reals, words, ints, refs });
        object_or_stop(worker, made)
    }
}

/// The word of a component of an element. Returns it, or [`super::NO_WORD`] if the run has to stop.
///
/// # Safety
/// **Context**; `array` is a complete array of reals and has the element.
pub(super) unsafe extern "C" fn component_word_of(context: Context, array: Ref, part: u64, index: u64) -> u64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let word = component_word(&mut worker.exec.tape, array, part as usize, index as usize);
        word_or_stop(worker, word)
    }
}
