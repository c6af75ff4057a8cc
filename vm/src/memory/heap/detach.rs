//! Values as constants: a copy of what is not constant, with all that it refers to, that no derivative flows through.
//!
//! What is constant already is shared, and so is in the copy what was shared before. A list is as long as it likes:
//! objects whose references are still those of the original wait in a list of their own. Originals may be in use by
//! other tasks, so nothing is noted in them: a table says which copy is whose. It counts towards the limit on live
//! memory as it grows.

use super::object::{KIND, LARGE, OBJECT, references, size_of_object};
use super::{Heap, OWNER, Ref, Roots, fields_of, owner_of, set_first};
use crate::running::meter::Watch;
use crate::trap::{Limit, TrapKind};
use crate::word::{Slot, Word};
use std::collections::HashMap;

/// Bytes of the table for each copied object.
const ENTRY_BYTES: usize = 32;

impl Heap {
    /// The object in a register as a constant. `reserved` is memory outside of the heap that counts towards the limit.
    ///
    /// # Safety
    /// The register is one of the roots, and holds a complete object.
    pub(crate) unsafe fn detached(
        &mut self,
        register: *const Ref,
        reserved: u64,
        roots: Roots<'_>,
    ) -> Result<Ref, TrapKind> {
        // SAFETY: promised by the caller.
        let object = unsafe { *register };
        // SAFETY: promised by the caller.
        if unsafe { is_constant(object) } {
            return Ok(object);
        }
        // Nothing names the copies while they are made, so what is due is evacuated before.
        let is_due = self.allocated - self.evacuated_at > self.threshold;
        let mut roots = Some(roots);
        if is_due && let Some(roots) = roots.take() {
            self.evacuate(roots)?;
        }
        loop {
            let (paused, allocated) = (std::mem::replace(&mut self.paused, true), self.allocated);
            // SAFETY: promised by the caller; objects move in evacuations only.
            let copied = unsafe { self.copy(*register, reserved) };
            self.paused = paused;
            match (copied, roots.take()) {
                (Err(TrapKind::Limit(Limit::LiveBytes)), Some(roots)) => {
                    // There may be room without what is garbage, as half of a copy is, which nobody has asked for.
                    self.allocated = allocated;
                    self.evacuate(roots)?;
                }
                (copied, _) => return copied,
            }
        }
    }

    /// # Safety
    /// `object` is a complete object.
    unsafe fn copy(&mut self, object: Ref, reserved: u64) -> Result<Ref, TrapKind> {
        // SAFETY: the account lives as long as the run.
        let watch = unsafe { self.account.as_ref() }.map_or(const { Watch::none() }, Watch::later);
        let mut copies: HashMap<Ref, Ref> = HashMap::new();
        let mut pending = Vec::new();
        // SAFETY: promised by the caller; what a complete object refers to is complete.
        unsafe {
            let copy = self.copy_one(object, reserved, &watch)?;
            copies.insert(object, copy);
            pending.push(copy);
            while let Some(copy) = pending.pop() {
                let (first, count) = references(copy);
                for at in first..first + count {
                    watch.tick(1)?;
                    let reference = copy.add(at).cast::<Ref>();
                    let original = *reference;
                    if is_constant(original) {
                        continue;
                    }
                    *reference = match copies.get(&original) {
                        Some(&known) => known,
                        None => {
                            let table = (ENTRY_BYTES * copies.capacity()) as u64;
                            let copy = self.copy_one(original, reserved.saturating_add(table), &watch)?;
                            copies.insert(original, copy);
                            pending.push(copy);
                            copy
                        }
                    };
                }
            }
        }
        Ok(copies[&object])
    }

    /// A copy of an object without words. Its references are those of the original.
    ///
    /// # Safety
    /// `object` is a complete object.
    unsafe fn copy_one(&mut self, object: Ref, reserved: u64, watch: &Watch<'_>) -> Result<Ref, TrapKind> {
        // SAFETY: promised by the caller; nothing is evacuated meanwhile.
        unsafe {
            let (header, size) = (*object & !LARGE, size_of_object(object));
            watch.tick(size)?;
            let copy = self.allocate(header, size, reserved, Roots::none())?;
            // The header says whether the copy is large, and its owner is nobody.
            copy.add(OWNER + 1).copy_from_nonoverlapping(object.add(OWNER + 1), size - OWNER - 1);
            if header & KIND == OBJECT {
                let fields = fields_of(header);
                copy.add(fields.word_at(0)).cast::<Word>().write_bytes(0, fields.reals);
            } else {
                set_first(copy, Slot::NONE);
            }
            Ok(copy)
        }
    }
}

/// Whether no real in an object, or in what it refers to, has a derivative.
///
/// # Safety
/// `object` is null or an object.
unsafe fn is_constant(object: Ref) -> bool {
    // SAFETY: promised by the caller.
    object.is_null() || unsafe { owner_of(object) }.is_nobody()
}
