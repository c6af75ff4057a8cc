//! Reverse mode as an operator: a `vjp` records its function on a tape of its own, sweeps that, and gives the tape
//! back.
//!
//! The tape opens a *level*. Words belong to the level of the task that owns them: a real of an outer level is a
//! constant for this one, and reading it *marks* that level, so that the operator knows, when it has ended, whether its
//! outcome depends on what is recorded outside. No tape refers to another level's. If it does depend on that, it is
//! recorded there as a whole, to run again in the sweep ([`super::reruns`]).
//!
//! At depth d' all numbers have components, and so have the adjoints of slots: component S of a cotangent belongs to
//! component D∖S of its real, because transposing with respect to the pairing that reads off the coefficient of the
//! product of all infinitesimals commutes with multiplication (`derivation::components` has the same for code).

use super::registers::{Registers, roots};
use super::structures::Copied;
use super::worker::Worker;
use crate::bytecode::isa::Bank;
use crate::code::{Counts, Mode, OperatorSite};
use crate::memory::heap::{self, LEN, Ref, Roots, planes};
use crate::running::meter::Watch;
use crate::sweep::{Seed, Sweep};
use crate::tape::{Repeat, Tape, TaskNode};
use crate::trap::{Limit, TrapKind};
use crate::word::{Owner, Slot, Word};

/// Where an operator has what it works on.
struct Places {
    /// What it takes.
    args: Registers,
    /// What it gives.
    results: Registers,
    /// Its arguments as the function gets them, with slots.
    opened: Registers,
    /// The function's frame.
    base: Registers,
    /// The mode of the code around the operator.
    outer: Mode,
    /// The depth that the function runs at.
    depth: u32,
    /// The first slot of the real arguments, which have theirs one after the other.
    slots: Slot,
    /// What functions of the host's have given to the function: [`Repeat::digest`].
    digest: u64,
}

impl Worker {
    /// Runs a function and pulls cotangents back through it.
    ///
    /// # Safety
    /// As [`Worker::operate`]; the caller restores the mode.
    pub(super) unsafe fn pull_back(
        &mut self,
        site: &OperatorSite,
        args: Registers,
        remaining: usize,
    ) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let depth = self.reach_of_registers(args, &site.uses_count);
            let results = args.after(&site.uses_count);
            let given = site.defs_count;
            let opened = results.after(&given);
            let base = opened.after(&Counts { refs: site.args.refs, ..Counts::default() });
            let most = (site.captures.reals + site.args.reals).max(site.results.reals);
            self.room_above(base, (most, depth), true)?;
            for n in 0..given.refs + site.args.refs {
                *results.refs.add(n) = std::ptr::null_mut();
            }
            let outer = self.exec.mode;
            let mut places = Places { args, results, opened, base, outer, depth, slots: Slot::NONE, digest: 0 };

            let frames = roots(self.exec.roots, opened.refs);
            self.exec.heap.prepare(Roots { frames, kept: Some(self.exec.tape.kept()) })?;
            let tape = self.open_level(depth);
            let floor = self.exec.heap.raise_floor();
            let outer_roots = std::mem::replace(&mut self.exec.roots, opened.refs);
            let outcome = self.record_and_sweep(site, &mut places, remaining);
            self.exec.roots = outer_roots;
            self.exec.heap.restore_floor(floor);
            let (inner, active) = self.close_level(tape);
            let outcome = outcome.map_err(|kind| self.outside_of_level(kind, site, &inner, &places));
            let finished = outcome.and_then(|sweep| {
                self.exec.mode = outer;
                // What isn't recorded may read what is: in a checkpoint.
                let recorded = (active && outer.is_recording()).then_some(remaining);
                let finished = self.take_outcome(site, &places, &inner, sweep.adjoints(), recorded);
                self.sweep = Some(sweep);
                finished
            });
            self.put_tape(inner);
            finished
        }
    }

    /// Begins a level: from here on, an own tape is recorded. Returns the one that was.
    ///
    /// # Safety
    /// As what calls it.
    unsafe fn open_level(&mut self, depth: u32) -> Tape {
        // SAFETY: **Running**.
        let (info, account) = unsafe { (self.exec.info(), self.exec.account()) };
        let mut inner = self.tapes.pop().unwrap_or_else(|| Tape::new(info.workers.slabs().clone()));
        let left = self.exec.tape.left(info.limits.tape_bytes, self.exec.forked);
        inner.begin(left, account);
        inner.open_level(self.exec.forked, depth);
        std::mem::replace(&mut self.exec.tape, inner)
    }

    /// Ends it. Returns its tape, and whether anything was read that the tape outside has recorded.
    fn close_level(&mut self, outer: Tape) -> (Tape, bool) {
        let inner = std::mem::replace(&mut self.exec.tape, outer);
        let active = self.exec.tape.take_marks(&inner);
        (inner, active)
    }

    /// Goes on with what a trap inside of a level says of a number: the level's arguments are numbers outside.
    ///
    /// # Safety
    /// As [`Worker::pull_back`], when the level was closed, whose tape is `inner`.
    #[cold]
    unsafe fn outside_of_level(
        &mut self,
        mut kind: TrapKind,
        site: &OperatorSite,
        inner: &Tape,
        places: &Places,
    ) -> TrapKind {
        let Places { args, opened, outer, depth, slots, .. } = *places;
        if !matches!(kind, TrapKind::NonFinite(_)) || !outer.is_recording() {
            return kind;
        }
        let (own, end) = self.exec.tape.here();
        let level = std::ptr::from_ref(inner.tree());
        let outside = |node: *const TaskNode, slot: Slot| {
            if node != level {
                return None;
            }
            let (n, part) = {
                let at = slot.index().checked_sub(slots.index())?;
                (at >> depth, at & ((1 << depth) - 1))
            };
            // SAFETY: promised by the caller: the arguments stand behind the captures.
            unsafe {
                if !slots.is_none() && n < site.args.reals {
                    let register = ((site.captures.reals + n) << outer.depth()) + part;
                    return (part < 1 << outer.depth()).then(|| (own, (*args.words.add(register)).slot()));
                }
                let pair = |n: usize| [*opened.refs.add(n), *args.refs.add(site.captures.refs + n)];
                (0..site.args.refs).find_map(|n| slot_outside(pair(n), (depth, Owner::of(level)), slot))
            }
        };
        // SAFETY: promised by the caller.
        unsafe { self.follow_outwards(&mut kind, end, outside) };
        kind
    }

    /// Keeps the memory of a tape whose level is closed.
    fn put_tape(&mut self, mut tape: Tape) {
        tape.close_level();
        self.tapes.push(tape);
    }

    /// Runs the function on the new tape, and sweeps that from the cotangents.
    ///
    /// # Safety
    /// As [`Worker::pull_back`], with the level open.
    unsafe fn record_and_sweep(
        &mut self,
        site: &OperatorSite,
        places: &mut Places,
        remaining: usize,
    ) -> Result<Box<Sweep>, TrapKind> {
        let (depth, parts) = (places.depth, 1usize << places.depth);
        let Places { args, opened, base, outer, .. } = *places;
        // SAFETY: promised by the caller.
        unsafe {
            let Counts { reals: captured, refs: captured_refs, .. } = site.captures;
            places.slots = self.exec.tape.reserve_slots((site.args.reals * parts) as u64)?;
            for n in 0..captured + site.args.reals {
                let slot = n.checked_sub(captured).map_or(Slot::NONE, |n| places.slots.element(n * parts));
                for part in 0..parts {
                    let (from, to) = ((n << outer.depth()) + part, (n << depth) + part);
                    *base.reals.add(to) = *args.reals.add(from);
                    *base.words.add(to) = Word::from(slot.element(part));
                }
            }
            if outer.is_recording() {
                self.mark_given(site, args);
            }
            let ints = site.captures.ints + site.args.ints;
            base.ints.copy_from_nonoverlapping(args.ints, ints);
            self.exec.mode = Mode::RECORDING.at_depth(depth);
            let copy_above = base.after(&Counts { reals: (captured + site.args.reals) << depth, ints, refs: 0 });
            for n in 0..site.args.refs {
                let object = *args.refs.add(captured_refs + n);
                let copy = self.copy_structure(Copied::Opened { depth }, [object; 2], copy_above)?;
                *opened.refs.add(n) = copy;
            }
            base.refs.copy_from_nonoverlapping(args.refs, captured_refs);
            base.refs.add(captured_refs).copy_from_nonoverlapping(opened.refs, site.args.refs);

            let before = self.exec.host_digest;
            self.run_callee(site.func, base, remaining)?;
            places.digest = self.exec.host_digest.wrapping_sub(before);

            let tree: *const _ = self.exec.tape.finish();
            let seeds = self.seeds(site, places, Owner::of(tree))?;
            let work = (*tree).totals.sweep_work;
            self.exec.fuel = self.exec.fuel.saturating_sub_unsigned(work);
            if self.exec.fuel < 0 {
                self.exec.fuel = self.refill(self.exec.fuel)?;
            }
            let extent = self.stacks.reals.extent();
            let mut sweep = self.sweep.take().unwrap_or_else(|| Box::new(Sweep::new(extent)));
            let root = self.exec.tape.root();
            self.sweep_tape(&mut sweep, root, &seeds, None)?;
            Ok(sweep)
        }
    }

    /// Marks the level outside if anything that the operator is given is active there; and all levels if that is an
    /// object, which may lead to objects of any. What captured objects hold isn't asked: the function marks what it
    /// reads of it.
    ///
    /// # Safety
    /// As what calls it; the code around the operator records.
    unsafe fn mark_given(&mut self, site: &OperatorSite, args: Registers) {
        // SAFETY: promised by the caller.
        unsafe {
            if (site.captures.refs..site.uses_count.refs).any(|n| !heap::owner_of(*args.refs.add(n)).is_nobody()) {
                self.exec.tape.mark_all();
            }
            if (0..site.uses_count.reals).any(|n| !(*args.words.add(n)).is_constant()) {
                self.exec.tape.mark_outer();
            }
        }
    }

    /// The adjoints that the sweep begins with: the cotangents of the results.
    ///
    /// # Safety
    /// As what calls it.
    unsafe fn seeds(&mut self, site: &OperatorSite, places: &Places, level: Owner) -> Result<Vec<Seed>, TrapKind> {
        let all = (1usize << places.depth) - 1;
        let mut seeds = Vec::new();
        // SAFETY: promised by the caller; cotangents stand behind the arguments.
        unsafe {
            let given = site.captures.reals + site.args.reals;
            for n in 0..site.results.reals {
                for part in 0..=all {
                    let slot = (*places.base.words.add((n << places.depth) + part)).slot();
                    if !slot.is_none() {
                        let adjoint = *places.args.reals.add(((given + n) << places.outer.depth()) + (all ^ part));
                        seeds.push(Seed { owner: Owner::NOBODY, slot, adjoint });
                    }
                }
            }
            let given = site.captures.refs + site.args.refs;
            let watch = Watch::later(self.exec.account());
            let most = self.adjoints_max();
            for n in 0..site.results.refs {
                let pair = [*places.base.refs.add(n), *places.args.refs.add(given + n)];
                pair_adjoints(pair, (places.depth, level, all), &watch, (&mut seeds, most))?;
            }
        }
        Ok(seeds)
    }

    /// How many adjoints a sweep may begin with. They count as those of slots do: read position by position, a
    /// structure may be exponentially larger than its objects.
    ///
    /// # Safety
    /// **Running**.
    pub(super) unsafe fn adjoints_max(&self) -> usize {
        // SAFETY: promised by the caller.
        let limit = unsafe { self.exec.info() }.limits.tape_bytes;
        (self.exec.tape.left(limit, self.exec.forked) / size_of::<Seed>() as u64) as usize
    }

    /// Writes the function's results, cut off from its tape, and the cotangents of the arguments. If the operator is to
    /// be recorded, `recorded` is how many frames may nest above it.
    ///
    /// # Safety
    /// As what calls it.
    unsafe fn take_outcome(
        &mut self,
        site: &OperatorSite,
        places: &Places,
        inner: &Tape,
        adjoints: &[f64],
        recorded: Option<usize>,
    ) -> Result<(), TrapKind> {
        let Places { args, results, opened, base, depth: inner_depth, slots, .. } = *places;
        let depth = self.exec.mode.depth();
        let (recording, all) = (self.exec.mode.is_recording(), (1usize << inner_depth) - 1);
        let given = site.results.reals + site.args.reals;
        let outcome = match recorded {
            None => Slot::NONE,
            Some(_) => self.exec.tape.reserve_slots((given as u64) << inner_depth)?,
        };
        if recorded.is_some() && site.results.refs > 0 {
            // It may be an object of any level, which was captured. It gets slots of this one now.
            self.exec.tape.mark_all();
        }
        // SAFETY: promised by the caller.
        unsafe {
            for n in 0..given {
                for part in 0..1usize << depth {
                    let value = match n.checked_sub(site.results.reals) {
                        _ if part > all => 0.0,
                        None => *base.reals.add((n << inner_depth) + part),
                        Some(n) => adjoints[slots.element((n << inner_depth) + (all ^ part)).index()],
                    };
                    let to = (n << depth) + part;
                    *results.reals.add(to) = if part == 0 { value } else { value + 0.0 };
                    if recording {
                        let slot = if part > all { Slot::NONE } else { outcome.element((n << inner_depth) + part) };
                        *results.words.add(to) = slot.into();
                    }
                }
            }
            results.ints.copy_from_nonoverlapping(base.ints, site.results.ints);
            let left = Counts { reals: site.results.reals << inner_depth, ..site.results };
            let above = base.after(&left);
            let level = Owner::of(inner.tree());
            for n in 0..site.results.refs {
                let object = *base.refs.add(n);
                let copied = match recorded {
                    None => Copied::Closed { depth: inner_depth, level },
                    Some(_) => Copied::Opened { depth: inner_depth },
                };
                *results.refs.add(n) = self.copy_structure(copied, [object; 2], above)?;
            }
            for n in 0..site.args.refs {
                let object = *opened.refs.add(n);
                let adjoint = Copied::Adjoint { depth: inner_depth, adjoints: adjoints.as_ptr() };
                let mut cotangent = self.copy_structure(adjoint, [object; 2], above)?;
                if recorded.is_some() {
                    let opened = Copied::Opened { depth: inner_depth };
                    cotangent = self.copy_structure(opened, [cotangent; 2], above)?;
                }
                *results.refs.add(site.results.refs + n) = cotangent;
            }
            match recorded {
                None => Ok(()),
                Some(remaining) => {
                    // A rerun runs the function with twice as many components, and sweeps what it records.
                    let work = inner.tree().totals.sweep_work.saturating_mul(4);
                    let again = Repeat { remaining, work, digest: places.digest, saved: None };
                    self.record_rerun(site, inner_depth, (args, results), outcome, again)
                }
            }
        }
    }
}

/// The owner and the slot of the number that a slot of a level is a copy of, if it is one of a structure that the level
/// was given: the first of the pair is the level's own.
///
/// # Safety
/// Both are complete and alike; owners are there.
unsafe fn slot_outside(pair: [Ref; 2], (depth, level): (u32, Owner), slot: Slot) -> Option<(*const TaskNode, Slot)> {
    /// Objects that are looked at: read position by position, a structure may be exponentially larger than they are.
    const OBJECTS_MAX: usize = 1 << 20;
    let mut waiting = vec![pair];
    let mut seen = 0;
    // SAFETY: promised by the caller; nothing moves meanwhile.
    unsafe {
        while let Some([copy, given]) = waiting.pop() {
            seen += 1;
            if seen > OBJECTS_MAX || !heap::are_alike(copy, given) {
                return None;
            }
            let owner = heap::owner_of(copy);
            if owner.is_nobody() || owner.level() != level {
                continue;
            }
            let outside = heap::owner_of(given);
            let found = |slot: Slot| Some((outside.task(), if outside.is_nobody() { Slot::NONE } else { slot }));
            match heap::element_bank(*copy) {
                None => {
                    let fields = heap::fields_of(*copy);
                    for n in 0..fields.reals {
                        for part in 0..1usize << depth {
                            let at = if part == 0 { fields.real_at(n) } else { planes::field_at(fields, part, n) };
                            let is_there = |object| part == 0 || planes::has(object, fields.size(), at);
                            let word = |object: Ref| (*object.add(at + fields.reals).cast::<Word>()).slot();
                            if is_there(copy) && word(copy) == slot {
                                return found(if is_there(given) { word(given) } else { Slot::NONE });
                            }
                        }
                    }
                }
                Some(Bank::Real) => {
                    let len = *copy.add(LEN) as usize;
                    for part in 0..1usize << depth {
                        let first = planes::first_of(copy, part);
                        let index = slot.index().checked_sub(first.index()).filter(|&index| index < len);
                        if let Some(index) = index.filter(|_| !first.is_none()) {
                            let first = if outside.is_nobody() { Slot::NONE } else { planes::first_of(given, part) };
                            return found(first.element(index));
                        }
                    }
                }
                Some(_) => {}
            }
            let (first, count) = heap::references(copy);
            for at in (first..first + count).rev() {
                waiting.push([*copy.add(at).cast(), *given.add(at).cast()]);
            }
        }
    }
    None
}

/// Adds the adjoints of the slots of a structure, which are the numbers of another one, position by position. Component
/// S of the first, at a depth, belongs to component `whole`∖S of the other. There may be `most` in all.
///
/// # Safety
/// Both are complete; owners below the level's are there.
pub(super) unsafe fn pair_adjoints(
    pair: [Ref; 2],
    (depth, level, whole): (u32, Owner, usize),
    watch: &Watch<'_>,
    (seeds, most): (&mut Vec<Seed>, usize),
) -> Result<(), TrapKind> {
    let parts = 1usize << depth;
    let mut waiting = vec![pair];
    // SAFETY: promised by the caller; nothing moves meanwhile.
    unsafe {
        while let Some([value, other]) = waiting.pop() {
            watch.tick(8)?;
            if seeds.len() > most {
                return Err(Limit::TapeBytes.into());
            }
            if !heap::are_alike(value, other) {
                return Err(super::structures::other_shape([value, other]));
            }
            let owner = heap::owner_of(value);
            // What this level hasn't made depends on nothing here, and neither does what it refers to.
            if owner.is_nobody() || owner.level() != level {
                continue;
            }
            let mut seed = |slot: Slot, adjoint: f64| {
                if !slot.is_none() {
                    seeds.push(Seed { owner, slot, adjoint });
                }
            };
            match heap::element_bank(*value) {
                None => {
                    let fields = heap::fields_of(*value);
                    for n in 0..fields.reals {
                        for part in 0..parts {
                            let at = match part {
                                0 => fields.real_at(n),
                                _ => planes::field_at(fields, part, n),
                            };
                            if part == 0 || planes::has(value, fields.size(), at) {
                                let word = *value.add(at + fields.reals).cast::<Word>();
                                seed(word.slot(), planes::field(other, fields, whole ^ part, n));
                            }
                        }
                    }
                }
                Some(Bank::Real) => {
                    let len = *value.add(LEN) as usize;
                    watch.tick(len)?;
                    for part in 0..parts {
                        let (first, adjoints) = (planes::first_of(value, part), planes::elements(other, whole ^ part));
                        for index in 0..if first.is_none() { 0 } else { len } {
                            let adjoint = adjoints.map_or(0.0, |adjoints| *adjoints.add(index));
                            seed(first.offset(index as u32), adjoint);
                        }
                    }
                }
                Some(_) => {}
            }
            let (first, count) = heap::references(value);
            for at in (first..first + count).rev() {
                waiting.push([*value.add(at).cast(), *other.add(at).cast()]);
            }
        }
    }
    Ok(())
}
