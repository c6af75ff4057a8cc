//! Objects that code at a depth makes and reads: real fields and elements with all of their components.

use super::recording::load_word;
use super::registers::{Registers, roots};
use super::worker::Worker;
use crate::bytecode::isa::Bank;
use crate::memory::heap::planes::{self, Depth};
use crate::memory::heap::{self, ARRAY_HEADER, Fields, LEN, Ref, Roots, chain};
use crate::tape::{ForeignArray, Tape};
use crate::trap::{Limit, TrapKind};
use crate::word::{Owner, Slot, Word};

/// What an object is made of: the registers of its real fields or elements, component by component, its integers and
/// its references, each in a row. The references are roots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) from: Registers,
    pub(crate) reals: usize,
    pub(crate) refs: usize,
}

impl Worker {
    /// Makes a struct, a variant or a closure.
    ///
    /// # Safety
    /// **Running**; `args` are fields of these numbers by bank, and what stands below them on the stack of references
    /// is initialised.
    #[inline(never)]
    pub(crate) unsafe fn new_deep(&mut self, header: u64, args: Registers) -> Result<Ref, Limit> {
        let fields = heap::fields_of(header);
        // SAFETY: promised by the caller.
        unsafe {
            let parts = Parts { from: args, reals: fields.reals, refs: fields.refs };
            let planes = self.planes_of(&parts);
            let reach = planes.max(reach_of(&parts));
            let object = self.allocate_object(header, fields, (planes, reach), &parts)?;
            if self.exec.mode.is_recording() && is_active(&parts, planes) {
                heap::set_owner(object, self.exec.tape.owner());
            }
            Ok(object)
        }
    }

    /// Appends a cell to a chain, whose reference stands behind those of the fields, and returns the chain.
    ///
    /// # Safety
    /// As [`Worker::new_deep`], but for the last reference, which the cell has and `args` don't.
    #[inline(never)]
    pub(crate) unsafe fn chain_push_deep(&mut self, header: u64, args: Registers) -> Result<Ref, TrapKind> {
        let fields = heap::fields_of(header);
        // SAFETY: promised by the caller.
        unsafe {
            let place = args.refs.add(fields.refs - 1);
            if chain::is_finished(*place) {
                return Err(TrapKind::BuilderFinished);
            }
            let is_first = (*place).is_null();
            let parts = Parts { from: args, reals: fields.reals, refs: fields.refs };
            if is_first {
                let new = self.allocate(chain::chain_header(), chain::CHAIN_WORDS, &parts)?;
                chain::prepare(new);
                *place = new;
            }
            let planes = self.planes_of(&parts);
            // What will be appended is not known yet.
            let reach = self.exec.mode.depth();
            let cell = self.allocate_object(header, fields, (planes, reach), &parts)?;
            if self.exec.mode.is_recording() {
                heap::set_owner(cell, self.exec.tape.owner());
            }
            chain::link(*place, cell, fields.ref_at(fields.refs - 1), is_first);
            Ok(*place)
        }
    }

    /// Makes an array of registers.
    ///
    /// # Safety
    /// As [`Worker::new_deep`]; so many elements of that bank are there.
    #[inline(never)]
    pub(crate) unsafe fn pack_deep(&mut self, element: Bank, len: usize, args: Registers) -> Result<Ref, Limit> {
        let count = |bank| if element == bank { len } else { 0 };
        let parts = Parts { from: args, reals: count(Bank::Real), refs: count(Bank::Ref) };
        let header = heap::array_header(element);
        // SAFETY: promised by the caller.
        unsafe {
            let planes = self.planes_of(&parts);
            let reach = planes.max(reach_of(&parts));
            let array = self.allocate_array(header, len, (planes, reach), &parts)?;
            let elements = array.add(ARRAY_HEADER);
            match element {
                Bank::Int => elements.cast::<i64>().copy_from_nonoverlapping(args.ints, len),
                Bank::Ref => elements.cast::<Ref>().copy_from_nonoverlapping(args.refs, len),
                Bank::Real => elements.cast::<f64>().copy_from_nonoverlapping(args.reals, len),
            }
            for part in 1..1 << planes {
                let to = array.add(planes::element_at(len, part, 0)).cast::<f64>();
                copy_component(args.reals.add(part * len), to, parts.reals);
            }
            if self.exec.mode.is_recording() {
                let mut active = element == Bank::Ref && is_active(&parts, 0);
                if element == Bank::Real {
                    for part in 0..1 << planes {
                        let words = std::slice::from_raw_parts(args.words.add(part * len), len);
                        let first = self.exec.tape.pack(words)?;
                        planes::set_first(array, (len, planes), part, first);
                        active |= !first.is_none();
                    }
                }
                heap::set_owner(array, if active { self.exec.tape.owner() } else { Owner::NOBODY });
            }
            Ok(array)
        }
    }

    /// Joins arrays that tasks have made.
    ///
    /// # Safety
    /// **Running**; so many arrays of that bank are there, and what stands below them on the stack of references is
    /// initialised.
    pub(super) unsafe fn join_deep(&mut self, element: Bank, arrays: *mut Ref, count: usize) -> Result<Ref, Limit> {
        // SAFETY: promised by the caller.
        unsafe {
            let parts = || (0..count).map(|n| *arrays.add(n));
            let len_of = |array: Ref| *array.add(LEN) as usize;
            let len = parts().map(len_of).sum::<usize>();
            let planes = parts().map(|array| planes::depth_of(array).planes()).max().unwrap_or(0);
            let reach = parts().map(|array| planes::reach(array)).max().unwrap_or(0);
            let from = Registers { refs: arrays, ..Registers::NOWHERE };
            let roots = Parts { from, reals: 0, refs: count };
            let joined = self.allocate_array(heap::array_header(element), len, (planes, reach), &roots)?;
            let mut at = 0;
            for array in parts() {
                let len_of = len_of(array);
                let (from, to) = (heap::elements(array), joined.add(ARRAY_HEADER + at));
                to.copy_from_nonoverlapping(from, len_of);
                for part in 1..1 << planes {
                    let to = joined.add(planes::element_at(len, part, at)).cast::<f64>();
                    for index in 0..len_of {
                        *to.add(index) = planes::element(array, part, index);
                    }
                }
                at += len_of;
            }
            if self.exec.mode.is_recording() {
                let mut active = element == Bank::Ref && parts().any(|array| !heap::owner_of(array).is_nobody());
                if element == Bank::Real {
                    for part in 0..1 << planes {
                        let mut words = Vec::with_capacity(len);
                        for array in parts() {
                            for index in 0..len_of(array) {
                                words.push(component_word(&mut self.exec.tape, array, part, index)?);
                            }
                        }
                        let first = self.exec.tape.pack(&words)?;
                        planes::set_first(joined, (len, planes), part, first);
                        active |= !first.is_none();
                    }
                }
                heap::set_owner(joined, if active { self.exec.tape.owner() } else { Owner::NOBODY });
            }
            Ok(joined)
        }
    }

    /// Memory for a deep array, or one that isn't if it has no reach, with first slots that say that it is constant.
    /// Its elements are arbitrary.
    ///
    /// # Safety
    /// As [`Worker::new_deep`].
    pub(super) unsafe fn allocate_array(
        &mut self,
        header: u64,
        len: usize,
        (planes, reach): (u32, u32),
        parts: &Parts,
    ) -> Result<Ref, Limit> {
        let (header, size) = match reach {
            0 => (header, ARRAY_HEADER + len),
            _ => (planes::deep(header), planes::array_size(len, planes)),
        };
        // SAFETY: promised by the caller; the array has the size of its parts.
        unsafe {
            let array = self.allocate(header, size, parts)?;
            *array.add(LEN) = len as u64;
            if reach > 0 {
                *array.add(ARRAY_HEADER + len) = Depth::new(planes, reach, size).bits();
            }
            for part in 0..1 << planes {
                planes::set_first(array, (len, planes), part, Slot::NONE);
            }
            Ok(array)
        }
    }

    /// Memory for a struct, a variant or a closure with its fields. One without reach isn't deep.
    ///
    /// # Safety
    /// As [`Worker::new_deep`].
    pub(super) unsafe fn allocate_object(
        &mut self,
        header: u64,
        fields: Fields,
        (planes, reach): (u32, u32),
        parts: &Parts,
    ) -> Result<Ref, Limit> {
        let (header, size) = match reach {
            0 => (header, fields.size()),
            _ => (planes::deep(header), planes::object_size(fields, planes)),
        };
        // SAFETY: promised by the caller; the object has the size of its parts.
        unsafe {
            let object = self.allocate(header, size, parts)?;
            let to = Registers::in_object(object, fields);
            let Registers { reals, words, ints, refs } = parts.from;
            let recording = self.exec.mode.is_recording();
            to.reals.copy_from_nonoverlapping(reals, fields.reals);
            if recording {
                to.words.copy_from_nonoverlapping(words, fields.reals);
            }
            to.ints.copy_from_nonoverlapping(ints, fields.ints);
            to.refs.copy_from_nonoverlapping(refs, fields.refs);
            if reach > 0 {
                *object.add(fields.size()) = Depth::new(planes, reach, size).bits();
            }
            for part in 1..1 << planes {
                let at = planes::field_at(fields, part, 0);
                copy_component(reals.add(part * fields.reals), object.add(at).cast(), fields.reals);
                if recording {
                    let words = words.add(part * fields.reals);
                    object.add(at + fields.reals).cast::<Word>().copy_from_nonoverlapping(words, fields.reals);
                }
            }
            Ok(object)
        }
    }

    /// # Safety
    /// As what calls it.
    #[inline]
    pub(super) unsafe fn allocate(&mut self, header: u64, words: usize, parts: &Parts) -> Result<Ref, Limit> {
        // SAFETY: promised by the caller.
        let frames = unsafe { roots(self.exec.roots, parts.from.refs.add(parts.refs)) };
        let roots = Roots { frames, kept: Some(self.exec.tape.kept()) };
        self.exec.heap.allocate(header, words, self.stacks.bytes, roots)
    }

    /// How many planes hold what an object is made of.
    ///
    /// # Safety
    /// As what calls it.
    unsafe fn planes_of(&self, parts: &Parts) -> u32 {
        let mode = self.exec.mode;
        let words = if mode.is_recording() { parts.from.words } else { std::ptr::null_mut() };
        // SAFETY: promised by the caller.
        unsafe { planes::needed(parts.from.reals, words, parts.reals, mode.depth()) }
    }
}

/// Copies numbers that are components above the lowest: none of them becomes -0.0.
///
/// # Safety
/// There are so many at both places.
pub(super) unsafe fn copy_component(from: *const f64, to: *mut f64, count: usize) {
    for n in 0..count {
        // SAFETY: promised by the caller.
        unsafe { *to.add(n) = *from.add(n) + 0.0 };
    }
}

/// The reach of what an object refers to.
///
/// # Safety
/// As what calls it.
unsafe fn reach_of(parts: &Parts) -> u32 {
    // SAFETY: promised by the caller.
    (0..parts.refs).map(|n| unsafe { planes::reach(*parts.from.refs.add(n)) }).max().unwrap_or(0)
}

/// Whether anything that an object is made of isn't constant.
///
/// # Safety
/// As what calls it.
unsafe fn is_active(parts: &Parts, planes: u32) -> bool {
    // SAFETY: promised by the caller; references that an object is made of are not null.
    unsafe {
        (0..parts.reals << planes).any(|n| !(*parts.from.words.add(n)).is_constant())
            || (0..parts.refs).any(|n| !heap::owner_of(*parts.from.refs.add(n)).is_nobody())
    }
}

/// The word in the current task of a component of an element of an array of reals.
///
/// # Safety
/// `array` is a complete array that has the element.
pub(crate) unsafe fn component_word(tape: &mut Tape, array: Ref, part: usize, index: usize) -> Result<Word, Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        let owner = heap::owner_of(array);
        let first = if owner.is_nobody() { Slot::NONE } else { planes::first_of(array, part) };
        if first.is_none() {
            return Ok(Word::CONSTANT);
        }
        if owner == tape.owner() {
            return Ok(first.offset(index as u32).into());
        }
        let array = ForeignArray { owner, first, len: *array.add(LEN) as u32 };
        tape.import_element(array, index as u32).map(Word::from)
    }
}

/// Copies the captures of a closure to consecutive registers, each real with all of its components.
///
/// # Safety
/// As [`super::registers::unpack_captures`]; the closure is not null.
#[cold]
pub(super) unsafe fn unpack_components<const RECORD: bool>(
    closure: Ref,
    depth: u32,
    to: Registers,
    tape: &mut Tape,
) -> Result<(), Limit> {
    // SAFETY: promised by the caller.
    unsafe {
        let fields = heap::fields_of(*closure);
        for n in 0..fields.reals {
            for part in 0..1 << depth {
                let register = (n << depth) + part;
                *to.reals.add(register) = planes::field(closure, fields, part, n);
                if RECORD {
                    let (at, there) = match part {
                        0 => (fields.word_at(n), true),
                        _ => {
                            let at = planes::field_at(fields, part, n);
                            (at + fields.reals, planes::has(closure, fields.size(), at))
                        }
                    };
                    *to.words.add(register) = if there { load_word(tape, closure, at)? } else { Word::CONSTANT };
                }
            }
        }
        Ok(())
    }
}
