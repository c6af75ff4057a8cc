//! Copies of whole structures: what derivative operators make of their arguments and results.
//!
//! An operator pairs arguments with tangents, position by position, and takes results apart into values and tangents. A
//! structure is read as a tree; an object that occurs twice is copied once all the same where that can be told cheaply,
//! because a tree may be exponentially larger than the objects that it is made of.
//!
//! The walk keeps its place on the stack of references, above all frames, where evacuations find it. A list takes one
//! place however long it is: what is copied last of an object needs nothing of it any more.

use super::deep::{Parts, component_word, copy_component};
use super::recording::load_word;
use super::registers::Registers;
use super::worker::Worker;
use crate::bytecode::isa::Bank;
use crate::memory::heap::{self, ARRAY_HEADER, Fields, LEN, Ref, planes};
use crate::running::meter::Watch;
use crate::trap::{OtherShape, TrapKind};
use crate::word::{Owner, Slot, Word};
use rustc_hash::FxHashMap;

/// What a copy is of its originals. Components below 2^`depth` are those of the code around an operator, those from
/// there on have its own infinitesimal.
#[derive(Clone, Copy, Debug)]
pub(super) enum Copied {
    /// The first original with the second one as its tangent.
    Paired { depth: u32 },
    /// The value of what an operator has computed.
    Value { depth: u32 },
    /// Its tangent.
    Tangent { depth: u32 },
    /// A structure of zeros, constants: the components with an infinitesimal of code of this depth that nobody has
    /// introduced.
    Zero { depth: u32 },
    /// The argument of a function that is recorded: every position has slots of its own on the running tape.
    Opened { depth: u32 },
    /// The cotangent of such an argument: the adjoints of its slots.
    Adjoint { depth: u32, adjoints: *const f64 },
    /// What such a function gives, constant from here on: what it has made itself, on the tape of this level, is
    /// copied.
    Closed { depth: u32, level: Owner },
    /// The same as a constant, without components above the lowest. What has no derivative is left as it is, unless the
    /// `whole` is wanted: code that doesn't record makes objects that say nothing of those that they refer to.
    Detached { whole: bool },
}

impl Copied {
    /// The depth of the copy.
    fn depth(self) -> u32 {
        match self {
            Copied::Paired { depth } => depth + 1,
            Copied::Value { depth }
            | Copied::Tangent { depth }
            | Copied::Opened { depth }
            | Copied::Adjoint { depth, .. }
            | Copied::Closed { depth, .. } => depth,
            Copied::Zero { .. } | Copied::Detached { .. } => 0,
        }
    }

    /// Which original has a component, and as which one. Components of adjoints are in complement order.
    fn source(self, pair: [Ref; 2], part: usize) -> (Ref, usize) {
        match self {
            Copied::Paired { depth } if part >> depth != 0 => (pair[1], part - (1 << depth)),
            Copied::Tangent { depth } | Copied::Zero { depth } => (pair[0], part + (1 << depth)),
            Copied::Adjoint { depth, .. } => (pair[0], ((1 << depth) - 1) ^ part),
            Copied::Paired { .. }
            | Copied::Value { .. }
            | Copied::Opened { .. }
            | Copied::Closed { .. }
            | Copied::Detached { .. } => (pair[0], part),
        }
    }

    /// Whether an object needs a copy. One of integers has no tangents; what reaches no component of an operator's own
    /// is its value already.
    ///
    /// # Safety
    /// As what calls it.
    #[inline]
    unsafe fn copies(self, object: Ref) -> bool {
        // SAFETY: promised by the caller.
        unsafe {
            match self {
                Copied::Paired { .. } | Copied::Opened { .. } | Copied::Detached { whole: true } => {
                    heap::element_bank(*object) != Some(Bank::Int)
                }
                Copied::Value { depth } => planes::reach(object) > depth,
                Copied::Tangent { .. } | Copied::Zero { .. } | Copied::Adjoint { .. } => true,
                Copied::Closed { level, .. } => {
                    let owner = heap::owner_of(object);
                    !owner.is_nobody() && owner.level() == level
                }
                Copied::Detached { whole: false } => !heap::owner_of(object).is_nobody() || planes::reach(object) > 0,
            }
        }
    }

    /// Whether integers become 0, in objects of this header: those of a shape are the same in what belongs to it.
    fn clears_integers(self, header: u64) -> bool {
        matches!(self, Copied::Tangent { .. } | Copied::Zero { .. } | Copied::Adjoint { .. })
            && !heap::is_shaped(header)
    }

    /// Whether an object that occurs twice has one copy. What was opened is a tree, and what comes of it is one.
    fn shares(self) -> bool {
        !matches!(self, Copied::Opened { .. } | Copied::Adjoint { .. })
    }
}

/// Cells of the stack of references that a place of the walk takes: the originals, and the copy of what they belong to.
const PLACE: usize = 3;
/// Copies that are remembered at one time.
const REMEMBERED_MAX: usize = 1 << 16;

/// The references of an object that are still to be copied.
struct Rest {
    next: usize,
    end: usize,
}

impl Worker {
    /// Copies a structure. The second original is there for pairs; otherwise it is the first one.
    ///
    /// # Safety
    /// **Running**; the originals are complete, hold no functions, and stand where evacuations find them or are handed
    /// over for good. Nothing from `above` on is in use, and references below are initialised.
    pub(super) unsafe fn copy_structure(
        &mut self,
        copied: Copied,
        pair: [Ref; 2],
        above: Registers,
    ) -> Result<Ref, TrapKind> {
        // SAFETY: promised by the caller; places are written before they are read, and there is room for each.
        unsafe {
            let watch = Watch::later(self.exec.account());
            let mut remembered: FxHashMap<[Ref; 2], Ref> = FxHashMap::default();
            let mut moves = self.exec.heap.moves();
            // The copy of the whole, then the places.
            let ground = above.refs;
            let place = move |n: usize| ground.add(1 + PLACE * n);
            self.room_for_references(place(1))?;
            *ground = std::ptr::null_mut();
            self.enter_place(place(0), pair, std::ptr::null_mut());
            let mut rests: Vec<Rest> = Vec::new();
            // Where the copy goes: into the last place's object.
            let mut target = 0;
            loop {
                // The last place holds originals to be copied, and the object that the copy goes into.
                let here = place(rests.len());
                let pair = [*here, *here.add(1)];
                let known = remembered.get(&pair).copied();
                let copy = match known {
                    Some(copy) => copy,
                    None => {
                        watch.tick(8)?;
                        let above = Registers { refs: here.add(PLACE), ..above };
                        let copy = self.copy_object(copied, pair, &watch, above)?;
                        if moves != self.exec.heap.moves() || remembered.len() >= REMEMBERED_MAX {
                            moves = self.exec.heap.moves();
                            remembered.clear();
                        }
                        if copied.shares() && is_worth_remembering(*here) {
                            // They may have moved.
                            remembered.insert([*here, *here.add(1)], copy);
                        }
                        copy
                    }
                };
                let into = *here.add(2);
                if into.is_null() {
                    *ground = copy
                } else {
                    *into.add(target).cast() = copy
                }
                let (first, count) = if copied.copies(*here) { heap::references(*here) } else { (0, 0) };
                if known.is_none() && count > 0 {
                    *here.add(2) = copy;
                    rests.push(Rest { next: first, end: first + count });
                    self.room_for_references(place(rests.len() + 1))?;
                }
                // The next reference: of the object just copied, or of one that it belongs to.
                let Some(rest) = rests.last_mut() else { return Ok(*ground) };
                let at = rest.next;
                rest.next += 1;
                let is_last = rest.next == rest.end;
                let from = place(rests.len() - 1);
                let into = *from.add(2);
                let child = [*(*from).add(at).cast::<Ref>(), *(*from.add(1)).add(at).cast::<Ref>()];
                target = at;
                if is_last {
                    rests.pop();
                }
                self.enter_place(place(rests.len()), child, into);
            }
        }
    }

    /// # Safety
    /// As what calls it.
    unsafe fn enter_place(&mut self, place: *mut Ref, pair: [Ref; 2], into: Ref) {
        // SAFETY: promised by the caller: there is room for it.
        unsafe {
            *place = pair[0];
            *place.add(1) = pair[1];
            *place.add(2) = into;
        }
    }

    /// Makes room for references up to `end`.
    fn room_for_references(&mut self, end: *mut Ref) -> Result<(), TrapKind> {
        if end > self.stacks.refs.end() {
            let null = Registers::NOWHERE;
            self.grow(&Registers { refs: end, ..null })?;
        }
        Ok(())
    }

    /// Copies an object; its references are null as yet. What needs no copy is returned as it is.
    ///
    /// # Safety
    /// As [`Worker::copy_structure`].
    unsafe fn copy_object(
        &mut self,
        copied: Copied,
        pair: [Ref; 2],
        watch: &Watch<'_>,
        above: Registers,
    ) -> Result<Ref, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let header = *pair[0];
            if matches!(copied, Copied::Paired { .. }) && !heap::are_alike(pair[0], pair[1]) {
                return Err(other_shape(pair));
            }
            if !copied.copies(pair[0]) {
                return Ok(pair[0]);
            }
            let bare = heap::bare(header);
            match heap::element_bank(header) {
                None => self.copy_fields(copied, bare, pair, above),
                Some(bank) => {
                    let len = *pair[0].add(LEN) as usize;
                    watch.tick(len)?;
                    self.copy_elements(copied, (bare, bank), pair, len, above)
                }
            }
        }
    }

    /// Copies a struct or a variant.
    ///
    /// # Safety
    /// As what calls it.
    unsafe fn copy_fields(
        &mut self,
        copied: Copied,
        header: u64,
        pair: [Ref; 2],
        above: Registers,
    ) -> Result<Ref, TrapKind> {
        let (fields, depth) = (heap::fields_of(header), copied.depth());
        // SAFETY: promised by the caller; what is handed over fits in the margin above the room.
        unsafe {
            if depth == 0 {
                return self.copy_shallow(copied, (header, fields), above);
            }
            let recording = self.exec.mode.is_recording();
            let slots = match copied {
                Copied::Opened { .. } => self.exec.tape.reserve_slots((fields.reals as u64) << depth)?,
                _ => Slot::NONE,
            };
            for part in 0..1usize << depth {
                let (object, from) = copied.source(pair, part);
                for n in 0..fields.reals {
                    let at = part * fields.reals + n;
                    *above.reals.add(at) = match copied {
                        Copied::Adjoint { adjoints, .. } => *adjoints.add(own_slot(object, fields, from, n).index()),
                        _ => planes::field(object, fields, from, n),
                    };
                    if recording {
                        *above.words.add(at) = match copied {
                            Copied::Opened { .. } => slots.element(at).into(),
                            Copied::Adjoint { .. }
                            | Copied::Zero { .. }
                            | Copied::Closed { .. }
                            | Copied::Detached { .. } => Word::CONSTANT,
                            _ => self.field_word(object, fields, from, n)?,
                        };
                    }
                }
            }
            let (ints, clears) = (pair[0].add(fields.int_at(0)).cast::<i64>(), copied.clears_integers(header));
            for n in 0..fields.ints {
                *above.ints.add(n) = if clears { 0 } else { *ints.add(n) };
            }
            for n in 0..fields.refs {
                *above.refs.add(n) = std::ptr::null_mut();
            }
            let parts = Parts { from: above, reals: fields.reals, refs: fields.refs };
            let words = if recording { above.words } else { std::ptr::null_mut() };
            let planes = planes::needed(above.reals, words, fields.reals, depth);
            let reach = if fields.refs > 0 { depth } else { planes };
            let active = recording && (0..fields.reals << planes).any(|n| !(*above.words.add(n)).is_constant());
            let copy = self.allocate_object(header, fields, (planes, reach), &parts)?;
            if active
                || recording && fields.refs > 0 && !matches!(copied, Copied::Zero { .. } | Copied::Detached { .. })
            {
                heap::set_owner(copy, self.exec.tape.owner());
            }
            Ok(copy)
        }
    }

    /// [`Worker::copy_fields`] where the copy has no components but the lowest: its size is known beforehand.
    ///
    /// # Safety
    /// As what calls it, from the place of the walk that is below.
    unsafe fn copy_shallow(
        &mut self,
        copied: Copied,
        (header, fields): (u64, Fields),
        above: Registers,
    ) -> Result<Ref, TrapKind> {
        // SAFETY: promised by the caller. The originals are read where evacuations have left them.
        unsafe {
            let recording = self.exec.mode.is_recording();
            let copy = self.allocate(header, fields.size(), &Parts { from: above, reals: 0, refs: 0 })?;
            let place = above.refs.sub(PLACE);
            let (object, part) = copied.source([*place, *place.add(1)], 0);
            let to = Registers::in_object(copy, fields);
            for n in 0..fields.reals {
                *to.reals.add(n) = match copied {
                    Copied::Adjoint { adjoints, .. } => *adjoints.add(own_slot(object, fields, part, n).index()),
                    _ => planes::field(object, fields, part, n),
                };
            }
            let (ints, clears) = (object.add(fields.int_at(0)).cast::<i64>(), copied.clears_integers(header));
            for n in 0..fields.ints {
                *to.ints.add(n) = if clears { 0 } else { *ints.add(n) };
            }
            for n in 0..fields.refs {
                *to.refs.add(n) = std::ptr::null_mut();
            }
            if !recording {
                return Ok(copy);
            }
            let mut active = false;
            match copied {
                Copied::Opened { .. } => {
                    let slots = self.exec.tape.reserve_slots(fields.reals as u64)?;
                    for n in 0..fields.reals {
                        *to.words.add(n) = slots.element(n).into();
                    }
                    active = fields.reals > 0;
                }
                Copied::Adjoint { .. } | Copied::Zero { .. } | Copied::Closed { .. } | Copied::Detached { .. } => {
                    for n in 0..fields.reals {
                        *to.words.add(n) = Word::CONSTANT;
                    }
                }
                Copied::Paired { .. } | Copied::Value { .. } | Copied::Tangent { .. } => {
                    for n in 0..fields.reals {
                        let word = self.field_word(object, fields, part, n)?;
                        active |= !word.is_constant();
                        *to.words.add(n) = word;
                    }
                }
            }
            if active || fields.refs > 0 && !matches!(copied, Copied::Zero { .. } | Copied::Detached { .. }) {
                heap::set_owner(copy, self.exec.tape.owner());
            }
            Ok(copy)
        }
    }

    /// The word of a component of a field.
    ///
    /// # Safety
    /// As what calls it.
    unsafe fn field_word(&mut self, object: Ref, fields: Fields, part: usize, n: usize) -> Result<Word, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let at = match part {
                0 => fields.word_at(n),
                _ => {
                    let at = planes::field_at(fields, part, n);
                    if !planes::has(object, fields.size(), at) {
                        return Ok(Word::CONSTANT);
                    }
                    at + fields.reals
                }
            };
            Ok(load_word(&mut self.exec.tape, object, at)?)
        }
    }

    /// Copies an array.
    ///
    /// # Safety
    /// As what calls it.
    unsafe fn copy_elements(
        &mut self,
        copied: Copied,
        (header, bank): (u64, Bank),
        pair: [Ref; 2],
        len: usize,
        above: Registers,
    ) -> Result<Ref, TrapKind> {
        let depth = copied.depth();
        // SAFETY: promised by the caller. The originals are read where evacuations have left them, in the place below.
        unsafe {
            let planes = match bank {
                Bank::Real => self.planes_of_elements(copied, pair, len),
                Bank::Int | Bank::Ref => 0,
            };
            let reach = if bank == Bank::Ref { depth } else { planes };
            let parts = Parts { from: above, reals: 0, refs: 0 };
            let copy = self.allocate_array(header, len, (planes, reach), &parts)?;
            let place = above.refs.sub(PLACE);
            let pair = [*place, *place.add(1)];
            let elements = copy.add(ARRAY_HEADER);
            match bank {
                // A copy of integers is a derivative.
                Bank::Int if copied.clears_integers(header) => elements.write_bytes(0, len),
                Bank::Int => elements.copy_from_nonoverlapping(heap::elements(pair[0]), len),
                Bank::Ref => {
                    elements.write_bytes(0, len);
                    if self.exec.mode.is_recording() && !matches!(copied, Copied::Zero { .. } | Copied::Detached { .. })
                    {
                        heap::set_owner(copy, self.exec.tape.owner());
                    }
                }
                Bank::Real => {
                    for part in 0..1 << planes {
                        let (array, from) = copied.source(pair, part);
                        let to = match part {
                            0 => elements.cast::<f64>(),
                            _ => copy.add(planes::element_at(len, part, 0)).cast::<f64>(),
                        };
                        let elements = match copied {
                            Copied::Adjoint { adjoints, .. } => match planes::first_of(array, from) {
                                Slot::NONE => None,
                                first => Some(adjoints.add(first.index())),
                            },
                            _ => planes::elements(array, from),
                        };
                        match elements {
                            None => to.write_bytes(0, len),
                            Some(elements) if part == 0 => to.copy_from_nonoverlapping(elements, len),
                            Some(elements) => copy_component(elements, to, len),
                        }
                    }
                    match copied {
                        Copied::Opened { .. } => {
                            let first = self.exec.tape.reserve_slots((len as u64) << depth)?;
                            for part in 0..1 << planes {
                                planes::set_first(copy, (len, planes), part, first.offset((part * len) as u32));
                            }
                            heap::set_owner(copy, self.exec.tape.owner());
                        }
                        Copied::Adjoint { .. }
                        | Copied::Zero { .. }
                        | Copied::Closed { .. }
                        | Copied::Detached { .. } => {}
                        _ if self.exec.mode.is_recording() => self.take_slots(copied, pair, (copy, len, planes))?,
                        _ => {}
                    }
                }
            }
            Ok(copy)
        }
    }

    /// How many planes the copy of an array of reals needs.
    ///
    /// # Safety
    /// As what calls it.
    unsafe fn planes_of_elements(&self, copied: Copied, pair: [Ref; 2], len: usize) -> u32 {
        if matches!(
            copied,
            Copied::Opened { .. } | Copied::Zero { .. } | Copied::Adjoint { .. } | Copied::Detached { .. }
        ) {
            return if len == 0 { 0 } else { copied.depth() };
        }
        let recording = self.exec.mode.is_recording();
        // SAFETY: promised by the caller.
        let holds = |part: &usize| unsafe {
            let (array, from) = copied.source(pair, *part);
            let active = recording && !heap::owner_of(array).is_nobody() && !planes::first_of(array, from).is_none();
            let elements = || planes::elements(array, from).map(|elements| std::slice::from_raw_parts(elements, len));
            active || elements().is_some_and(|elements| elements.iter().any(|&element| element != 0.0))
        };
        (1..1usize << copied.depth()).rev().find(holds).map_or(0, |part| part.ilog2() + 1)
    }

    /// Gives the elements of a copy the slots of the originals.
    ///
    /// # Safety
    /// As what calls it.
    unsafe fn take_slots(
        &mut self,
        copied: Copied,
        pair: [Ref; 2],
        (copy, len, planes): (Ref, usize, u32),
    ) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let mut active = false;
            for part in 0..1 << planes {
                let (array, from) = copied.source(pair, part);
                let (owner, tape) = (heap::owner_of(array), &mut self.exec.tape);
                let first = if owner.is_nobody() || owner == tape.owner() {
                    // As they stand: slots of an array follow each other.
                    if owner.is_nobody() || len == 0 { Slot::NONE } else { planes::first_of(array, from) }
                } else {
                    let words: Result<Vec<Word>, _> =
                        (0..len).map(|index| component_word(tape, array, from, index)).collect();
                    tape.pack(&words?)?
                };
                planes::set_first(copy, (len, planes), part, first);
                active |= !first.is_none();
            }
            heap::set_owner(copy, if active { self.exec.tape.owner() } else { Owner::NOBODY });
            Ok(())
        }
    }
}

/// The slot of a component of a real of an object that the running operator has opened.
///
/// # Safety
/// As what calls it.
unsafe fn own_slot(object: Ref, fields: Fields, part: usize, n: usize) -> Slot {
    // SAFETY: promised by the caller: it has all planes.
    unsafe {
        let at = if part == 0 { fields.real_at(n) } else { planes::field_at(fields, part, n) };
        (*object.add(at + fields.reals).cast::<Word>()).slot()
    }
}

/// Whether copying an object again would cost more than looking it up, or lead to further objects.
///
/// # Safety
/// It is a complete object.
unsafe fn is_worth_remembering(object: Ref) -> bool {
    const SHORT: u64 = 64;
    // SAFETY: promised by the caller.
    unsafe {
        match heap::element_bank(*object) {
            None => heap::fields_of(*object).refs > 0,
            Some(_) => *object.add(LEN) > SHORT || heap::references(object).1 > 0,
        }
    }
}

/// That a tangent or a cotangent is not of the shape of what it belongs to.
///
/// # Safety
/// Both are complete objects.
pub(crate) unsafe fn other_shape(pair: [Ref; 2]) -> TrapKind {
    // SAFETY: promised by the caller.
    unsafe { OtherShape::trap(describe(pair[0]), describe(pair[1])) }
}

/// What an object is, for people.
///
/// # Safety
/// As what calls it.
unsafe fn describe(object: Ref) -> String {
    // SAFETY: promised by the caller.
    unsafe {
        let header = *object;
        match heap::element_bank(header) {
            Some(_) => format!("an array of length {}", *object.add(LEN)),
            None if heap::is_shaped(header) => format!("of shape {}", heap::shape_text(heap::integers(object))),
            None => format!("of variant {}", heap::tag_of(header)),
        }
    }
}
