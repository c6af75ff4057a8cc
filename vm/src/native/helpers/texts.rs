//! Helpers for texts that are shown.

use super::{Context, OK, Registers, Worker, stop};
use crate::bytecode::module::FuncId;
use crate::code::{Position, Site};
use crate::memory::heap::Ref;
use crate::running::trace::Place;
use crate::word::Word;

/// Notes why a run stops that stops itself with the text of this number in the function. What the template takes stands
/// at the given places.
///
/// # Safety
/// **Context**; nothing above what stands there is in use, and references below it are roots.
pub(super) unsafe extern "C" fn trap_with(
    context: Context,
    reals: *mut f64,
    words: *mut Word,
    ints: *mut i64,
    refs: *mut Ref,
    remaining: usize,
    func: FuncId,
    number: u32,
) {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let site = &(*worker.exec.program).stream(func, worker.exec.mode).texts[Site::new(number)];
        let kind = worker.trap_with(site, Registers { reals, words, ints, refs }, remaining);
        stop(worker, kind);
    }
}

/// Shows the text of this number in the function to the host, which listens. Returns a status.
///
/// # Safety
/// As [`trap_with`].
pub(super) unsafe extern "C" fn trace(
    context: Context,
    reals: *mut f64,
    words: *mut Word,
    ints: *mut i64,
    refs: *mut Ref,
    remaining: usize,
    func: FuncId,
    number: u32,
    position: Position,
) -> u64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let mode = worker.exec.mode;
        let site = &(*worker.exec.program).stream(func, mode).texts[Site::new(number)];
        let place = Place { func, mode, position };
        match worker.trace(site, Registers { reals, words, ints, refs }, place, remaining) {
            Ok(()) => OK,
            Err(kind) => stop(worker, kind),
        }
    }
}
