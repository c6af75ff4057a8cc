//! Derivatives that the program gives: what a `primal`, a `custom_vjp` and a `custom_jvp` do.
//!
//! A `custom_vjp` gives a value y that was computed of x, and a function g for its derivative: g (x, ȳ) = x̄, linear
//! in ȳ. Of the levels and infinitesimals that x depends on, the one that was introduced last asks g; captures of g are
//! constants for it. Those introduced before differentiate what g has computed, captures included, as they
//! differentiate everything; what y was computed by they never see. If g isn't the derivative of anything, the order
//! matters, and this one is the same in all mixes of modes.
//!
//! - The level of the tape asks in its sweep: the record is a rerun ([`super::reruns`]) that holds x, and runs g at the
//!   adjoints of y. Nothing of that is recorded, since no sweep is.
//! - An infinitesimal ε asks at once: with x = x₀ + εx₁, the tangent of y is the transpose of g (x₀, ·), applied to x₁:
//!   the `vjp` of that function at 0. That is an operator like any other: what is around it records it.
//!
//! A `custom_jvp` is the same with tangents, g (x, ẋ) = ẏ, and the other way round: an infinitesimal applies g, and the
//! sweep its transpose.
//!
//! Infinitesimals that are older than the level are attached before the record is made, and nothing of that is
//! recorded; those that were introduced inside of it are attached afterwards.

use super::host::OriginalCall;
use super::registers::Registers;
use super::reruns::Again;
use super::reverse::pair_adjoints;
use super::structures::Copied;
use super::worker::Worker;
use crate::code::{Counts, Mode, Operator, OperatorSite};
use crate::host::SavedCell;
use crate::memory::heap::{self, Ref, planes};
use crate::running::meter::Watch;
use crate::sweep::Seed;
use crate::tape::{Repeat, RerunNode, TaskNode};
use crate::trap::TrapKind;
use crate::word::{Owner, Word};

/// About how many instructions a function that is a derivative takes. Nobody has measured it when it is recorded.
const WORK: u64 = 1000;

/// Registers of a function that is about to be called, as they are written: all reals, integers, then references.
struct Frame {
    next: Registers,
    mode: Mode,
}

impl Frame {
    /// Writes a real by components. The words count only where code records.
    ///
    /// # Safety
    /// There is room for it.
    unsafe fn real(&mut self, component: impl Fn(usize) -> (f64, Word)) {
        for part in 0..1usize << self.mode.depth() {
            let (value, word) = component(part);
            // SAFETY: promised by the caller; where code records, there are words.
            unsafe {
                *self.next.reals.add(part) = value;
                if self.mode.is_recording() {
                    *self.next.words.add(part) = word;
                }
            }
        }
        self.next = self.next.after(&at_depth(Counts { reals: 1, ..Counts::default() }, self.mode.depth()));
    }

    /// # Safety
    /// There are so many zeros' room.
    unsafe fn zeros(&mut self, count: usize) {
        for _ in 0..count {
            // SAFETY: promised by the caller.
            unsafe { self.real(|_| (0.0, Word::CONSTANT)) };
        }
    }

    /// # Safety
    /// There is room for them; so many stand at the source.
    unsafe fn ints(&mut self, from: *const i64, count: usize) {
        // SAFETY: promised by the caller.
        unsafe { self.next.ints.copy_from_nonoverlapping(from, count) };
        self.next = self.next.after(&Counts { ints: count, ..Counts::default() });
    }

    /// # Safety
    /// There is room for it.
    unsafe fn reference(&mut self, object: Ref) {
        // SAFETY: promised by the caller.
        unsafe { *self.next.refs = object };
        self.next = self.next.after(&Counts { refs: 1, ..Counts::default() });
    }
}

/// What derivatives flow into a value.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    /// The infinitesimals that it depends on are below this.
    reach: u32,
    /// Those below this are older than the level of the tape.
    older: u32,
    /// Whether it depends on what the tape has recorded.
    pub(super) is_recorded: bool,
}

impl Flow {
    /// Whether there are any.
    pub(super) fn is_any(self) -> bool {
        self.reach > 0 || self.is_recorded
    }
}

/// Numbers of registers with all components.
fn at_depth(counts: Counts, depth: u32) -> Counts {
    Counts { reals: counts.reals << depth, ..counts }
}

impl Worker {
    /// Runs a function for its value alone.
    ///
    /// # Safety
    /// As [`Worker::operate`]; the caller restores the mode.
    pub(super) unsafe fn run_primal(
        &mut self,
        site: &OperatorSite,
        args: Registers,
        remaining: usize,
    ) -> Result<(), TrapKind> {
        let outer = self.exec.mode;
        let (depth, handed) = (outer.depth(), site.handed());
        // SAFETY: promised by the caller.
        unsafe {
            let results = args.after(&site.uses_count);
            let base = results.after(&site.defs_count);
            // What is captured may be a function and can't be cut off. An operator in the function has to know what
            // that reaches, or would take its infinitesimals for its own.
            let captured = || (0..site.captures.refs).map(|n| *args.refs.add(n));
            let inner = captured().map(|object| planes::reach(object)).max().unwrap_or(0);
            self.room_above(base, (handed.reals.max(site.results.reals), inner), false)?;
            for n in 0..site.results.refs {
                *results.refs.add(n) = std::ptr::null_mut();
            }
            let mode = Mode::PRIMAL.at_depth(inner);
            let mut frame = Frame { next: base, mode };
            for n in 0..handed.reals {
                let value = *args.reals.add(n << depth);
                frame.real(|part| (if part == 0 { value } else { 0.0 }, Word::CONSTANT));
            }
            frame.ints(args.ints, handed.ints);
            for n in 0..handed.refs {
                let object = *args.refs.add(n);
                frame.reference(match n < site.captures.refs {
                    true => object,
                    false => self.copy_structure(Copied::Detached { whole: false }, [object; 2], frame.next)?,
                });
            }
            self.exec.mode = mode;
            self.run_callee(site.func, base, remaining)?;
            self.exec.mode = outer;

            for n in 0..site.results.reals {
                for part in 0..1usize << depth {
                    let to = (n << depth) + part;
                    *results.reals.add(to) = if part == 0 { *base.reals.add(n << inner) } else { 0.0 };
                    if outer.is_recording() {
                        *results.words.add(to) = Word::CONSTANT;
                    }
                }
            }
            results.ints.copy_from_nonoverlapping(base.ints, site.results.ints);
            // All that is reachable from a result was captured, is a copy of an argument, or was made.
            let whole = captured().any(|object| !heap::owner_of(object).is_nobody() || planes::reach(object) > 0);
            let above = base.after(&at_depth(site.results, inner));
            for n in 0..site.results.refs {
                let object = *base.refs.add(n);
                *results.refs.add(n) = match whole {
                    true => self.copy_structure(Copied::Detached { whole }, [object; 2], above)?,
                    false => object,
                };
            }
        }
        Ok(())
    }

    /// Gives a value the derivative that the program says.
    ///
    /// # Safety
    /// As [`Worker::operate`]; the caller restores the mode.
    pub(super) unsafe fn attach_derivative(
        &mut self,
        site: &OperatorSite,
        args: Registers,
        remaining: usize,
    ) -> Result<(), TrapKind> {
        let outer = self.exec.mode;
        // SAFETY: promised by the caller.
        unsafe {
            let results = args.after(&site.uses_count);
            let above = results.after(&site.defs_count);
            self.room_above(above, (0, outer.depth()), outer.is_recording())?;
            self.take_value(site, args, results)?;
            let flow = self.flow(site, args, |_| true);
            self.attach(site, flow, (args, results), remaining, None)
        }
    }

    /// What derivatives flow into a value, through its reals and those of its references that are of reals: structures
    /// of integers may belong to a level, too.
    ///
    /// # Safety
    /// As [`Worker::attach_derivative`].
    pub(super) unsafe fn flow(&self, site: &OperatorSite, args: Registers, of_reals: impl Fn(usize) -> bool) -> Flow {
        let (depth, recording) = (self.exec.mode.depth(), self.exec.mode.is_recording());
        // SAFETY: promised by the caller.
        unsafe {
            let (x, counts) = (args.after(&at_depth(site.captures, depth)), at_depth(site.args, depth));
            let objects = || (0..counts.refs).filter(|&n| of_reals(n)).map(|n| *x.refs.add(n));
            let reach = self.reach_of_registers(x, &Counts { refs: 0, ..counts });
            let reach = objects().map(|object| planes::reach(object)).fold(reach, u32::max);
            let older = if recording { self.exec.tape.base().min(depth) } else { depth };
            let is_recorded = recording
                && ((0..counts.reals).any(|n| !(*x.words.add(n)).is_constant())
                    || objects().any(|object| self.exec.tape.is_of_level(heap::owner_of(object))));
            Flow { reach, older, is_recorded }
        }
    }

    /// Gives a value that was taken its derivative. A function of the host's may have `saved` something for it.
    ///
    /// # Safety
    /// As [`Worker::attach_derivative`].
    pub(super) unsafe fn attach(
        &mut self,
        site: &OperatorSite,
        Flow { reach, older, is_recorded }: Flow,
        (args, results): (Registers, Registers),
        remaining: usize,
        saved: Option<SavedCell>,
    ) -> Result<(), TrapKind> {
        let outer = self.exec.mode;
        // SAFETY: promised by the caller.
        unsafe {
            self.exec.mode = Mode::PRIMAL.at_depth(outer.depth());
            for own in 0..reach.min(older) {
                self.attach_tangent(site, own, (args, results), remaining)?;
            }
            self.exec.mode = outer;
            if outer.is_recording() {
                if (0..site.handed().refs).any(|n| !heap::owner_of(*args.refs.add(n)).is_nobody()) {
                    // What it leads to, nobody reads before the sweep, where nobody notes it.
                    self.exec.tape.mark_all();
                }
                if is_recorded {
                    self.record_rule(site, older, (args, results), remaining, saved)?;
                }
            }
            for own in older..reach.max(older) {
                self.attach_tangent(site, own, (args, results), remaining)?;
            }
        }
        Ok(())
    }

    /// Writes the value, a constant as yet.
    ///
    /// # Safety
    /// As what calls it.
    unsafe fn take_value(&mut self, site: &OperatorSite, args: Registers, results: Registers) -> Result<(), TrapKind> {
        let (mode, handed) = (self.exec.mode, site.handed());
        // SAFETY: promised by the caller; the value stands behind the arguments.
        unsafe {
            let value = args.after(&at_depth(handed, mode.depth()));
            let above = results.after(&site.defs_count);
            for n in 0..site.results.refs {
                *results.refs.add(n) = std::ptr::null_mut();
            }
            let mut frame = Frame { next: results, mode };
            for n in 0..site.results.reals {
                let value = *value.reals.add(n << mode.depth());
                frame.real(|part| (if part == 0 { value } else { 0.0 }, Word::CONSTANT));
            }
            frame.ints(value.ints, site.results.ints);
            for n in 0..site.results.refs {
                let object = *value.refs.add(n);
                let copy = self.copy_structure(Copied::Detached { whole: false }, [object; 2], above)?;
                *results.refs.add(n) = copy;
            }
        }
        Ok(())
    }

    /// Computes the components of the value with an infinitesimal, of those with older ones.
    ///
    /// # Safety
    /// As what calls it.
    unsafe fn attach_tangent(
        &mut self,
        site: &OperatorSite,
        own: u32,
        (args, results): (Registers, Registers),
        remaining: usize,
    ) -> Result<(), TrapKind> {
        let mode = self.exec.mode;
        let (depth, shift) = (mode.depth(), 1usize << own);
        let Counts { reals: captured, refs: captured_refs, .. } = site.captures;
        let handed = site.handed();
        // SAFETY: promised by the caller.
        unsafe {
            let base = results.after(&site.defs_count);
            let most = handed.reals + site.args.reals + site.results.reals;
            self.room_above(base, (most, depth), mode.is_recording())?;
            let component = |n: usize, part: usize| {
                let at = (n << depth) + part;
                (*args.reals.add(at), if mode.is_recording() { *args.words.add(at) } else { Word::CONSTANT })
            };
            let none = (0.0, Word::CONSTANT);
            let mut frame = Frame { next: base, mode };
            for n in 0..handed.reals {
                frame.real(|part| if n < captured || part < shift { component(n, part) } else { none });
            }
            if site.operator == Operator::CustomVjp {
                frame.zeros(site.results.reals);
            }
            for n in captured..handed.reals {
                frame.real(|part| if part < shift { component(n, part + shift) } else { none });
            }
            frame.ints(args.ints, handed.ints);
            for n in 0..handed.refs {
                let object = *args.refs.add(n);
                frame.reference(match n < captured_refs {
                    true => object,
                    false => self.copy_structure(Copied::Value { depth: own }, [object; 2], frame.next)?,
                });
            }
            if site.operator == Operator::CustomVjp {
                for n in 0..site.results.refs {
                    let zero = self.zero_of(*results.refs.add(n), frame.next)?;
                    frame.reference(zero);
                }
            }
            for n in captured_refs..handed.refs {
                let object = *args.refs.add(n);
                let tangent = self.copy_structure(Copied::Tangent { depth: own }, [object; 2], frame.next)?;
                frame.reference(tangent);
            }
            let original = OriginalCall { refs: results.refs, saved: None };
            let (tangent, above) = self.apply_rule(site, Operator::CustomJvp, base, remaining, original)?;
            for n in 0..site.results.reals {
                for part in 0..shift {
                    let (to, from) = ((n << depth) + part + shift, (n << depth) + part);
                    *results.reals.add(to) = *tangent.reals.add(from) + 0.0;
                    if mode.is_recording() {
                        *results.words.add(to) = *tangent.words.add(from);
                    }
                }
            }
            for n in 0..site.results.refs {
                let pair = [*results.refs.add(n), *tangent.refs.add(n)];
                *results.refs.add(n) = self.copy_structure(Copied::Paired { depth: own }, pair, above)?;
            }
        }
        Ok(())
    }

    /// A structure of zeros.
    ///
    /// # Safety
    /// As [`Worker::copy_structure`]; it has no components that the running code doesn't have.
    unsafe fn zero_of(&mut self, object: Ref, above: Registers) -> Result<Ref, TrapKind> {
        let none = Copied::Zero { depth: self.exec.mode.depth() };
        // SAFETY: promised by the caller.
        unsafe { self.copy_structure(none, [object; 2], above) }
    }

    /// Applies the function of an operator to what stands at `base`, or its transpose if it is not of the `direct`
    /// kind; of the host's functions, the one of that kind, as a derivative of the `original` call. Returns where the
    /// outcome stands, and what is above it.
    ///
    /// # Safety
    /// As what calls it: captures and arguments stand there, for the transpose zeros in the place of what the function
    /// is linear in, and then what it is applied to.
    unsafe fn apply_rule(
        &mut self,
        site: &OperatorSite,
        direct: Operator,
        base: Registers,
        remaining: usize,
        original: OriginalCall<'_>,
    ) -> Result<(Registers, Registers), TrapKind> {
        let (mode, digest) = (self.exec.mode, self.exec.host_digest);
        // SAFETY: promised by the caller.
        unsafe {
            let outcome = if site.operator == Operator::Host {
                let derivative = site.host_derivative(usize::from(direct == Operator::CustomJvp));
                self.call_host(derivative, base, remaining, Some(original))?;
                let results = base.after(&derivative.uses_count);
                (results, results.after(&derivative.defs_count))
            } else if site.operator == direct {
                self.run_callee(site.func, base, remaining)?;
                let [_, given] = site.linear();
                (base, base.after(&at_depth(given, mode.depth())))
            } else {
                let transposed = site.transposed.as_ref().expect("an operator with a derivative has it");
                self.pull_back(transposed, base, remaining)?;
                let results = base.after(&transposed.uses_count);
                let pulled = results.after(&at_depth(transposed.results, mode.depth()));
                (pulled, results.after(&transposed.defs_count))
            };
            self.exec.mode = mode;
            // How often a rule is applied isn't the same when what is around it runs again.
            self.exec.host_digest = digest;
            Ok(outcome)
        }
    }

    /// Records that the derivative of a value is what its function says.
    ///
    /// # Safety
    /// As what calls it; the code around the operator records.
    unsafe fn record_rule(
        &mut self,
        site: &OperatorSite,
        depth: u32,
        (args, results): (Registers, Registers),
        remaining: usize,
        saved: Option<SavedCell>,
    ) -> Result<(), TrapKind> {
        let outer = self.exec.mode.depth();
        let outcome = self.exec.tape.reserve_slots((site.results.reals as u64) << depth)?;
        // SAFETY: promised by the caller.
        unsafe {
            for n in 0..site.results.reals {
                for part in 0..1usize << depth {
                    *results.words.add((n << outer) + part) = outcome.element((n << depth) + part).into();
                }
            }
            let above = results.after(&site.defs_count);
            for n in 0..site.results.refs {
                let object = *results.refs.add(n);
                *results.refs.add(n) = self.copy_structure(Copied::Opened { depth }, [object; 2], above)?;
            }
            self.record_rerun(site, depth, (args, results), outcome, Repeat { remaining, work: WORK, digest: 0, saved })
        }
    }

    /// Applies the function of a recorded operator to the adjoints of its value, or its transpose. What comes out is
    /// contributed to the adjoints of its arguments.
    ///
    /// # Safety
    /// As [`Worker::run_again`], **Running**.
    pub(super) unsafe fn pull_by_rule(
        &mut self,
        node: &RerunNode,
        task: *const TaskNode,
        adjoints: *const f64,
    ) -> Result<Again, TrapKind> {
        // SAFETY: promised by the caller; the program outlives its runs.
        unsafe {
            let site = &*node.site;
            let (handed, results) = (site.handed(), site.results);
            let (parts, all) = (1usize << node.depth, (1usize << node.depth) - 1);
            let of_refs = |refs| Counts { refs, ..Counts::default() };
            let ground = self.bottom();
            let given = ground.after(&of_refs(handed.refs));
            let pulled = given.after(&of_refs(results.refs));
            let base = pulled.after(&of_refs(results.refs));
            let most = handed.reals + site.args.reals + results.reals;
            self.room_above(base, (most, site.depth), true)?;
            for n in 0..handed.refs {
                *ground.refs.add(n) = **node.refs.add(n);
            }
            for n in 0..results.refs {
                *given.refs.add(n) = **node.given.add(n);
                *pulled.refs.add(n) = std::ptr::null_mut();
            }
            // At the depth that reaches everything: an operator in the function has to know what is taken.
            let mode = Mode::PRIMAL.at_depth(site.depth);
            self.exec.mode = mode;
            for n in 0..results.refs {
                *pulled.refs.add(n) = self.adjoint_of(*given.refs.add(n), (node.depth, adjoints), base)?;
            }
            let mut again = Again::default();
            let level = Owner::of((*task).level);
            let most = self.adjoints_max();
            let adjoint = |n: usize, part: usize| {
                let slot = node.outcome.element((n << node.depth) + (all ^ part));
                *adjoints.add(slot.index())
            };
            let mut flows = (0..results.reals).any(|n| (0..parts).any(|part| adjoint(n, part) != 0.0));
            for n in 0..results.refs {
                let (pair, mut found) = ([*given.refs.add(n), *pulled.refs.add(n)], Vec::new());
                let watch = Watch::later(self.exec.account());
                pair_adjoints(pair, (node.depth, level, all), &watch, (&mut found, most))?;
                flows |= found.iter().any(|seed| seed.adjoint != 0.0);
            }
            if !flows {
                return Ok(again);
            }

            let mut frame = Frame { next: base, mode };
            let low = |part: usize, value: &dyn Fn(usize) -> f64| {
                (if part < parts { value(part) } else { 0.0 }, Word::CONSTANT)
            };
            for n in 0..handed.reals {
                frame.real(|part| low(part, &|part| *node.reals.add((n << node.depth) + part)));
            }
            if site.operator == Operator::CustomJvp {
                frame.zeros(site.args.reals);
            }
            for n in 0..results.reals {
                frame.real(|part| low(part, &|part| adjoint(n, part) + 0.0));
            }
            frame.ints(node.ints, handed.ints);
            for n in 0..handed.refs {
                frame.reference(*ground.refs.add(n));
            }
            if site.operator == Operator::CustomJvp {
                for n in site.captures.refs..handed.refs {
                    let zero = self.zero_of(*ground.refs.add(n), frame.next)?;
                    frame.reference(zero);
                }
            }
            for n in 0..results.refs {
                frame.reference(*pulled.refs.add(n));
            }
            // The tape that is swept has it.
            let saved = node.saved.as_ref().map(|saved| &**saved);
            let original = OriginalCall { refs: ground.refs, saved };
            let (cotangent, _) = self.apply_rule(site, Operator::CustomVjp, base, node.remaining, original)?;

            for n in 0..site.args.reals {
                for part in 0..parts {
                    let slot = (*node.words.add(((site.captures.reals + n) << node.depth) + part)).slot();
                    if !slot.is_none() {
                        let adjoint = *cotangent.reals.add((n << site.depth) + (all ^ part));
                        again.contributions.push(Seed { owner: Owner::of(task), slot, adjoint });
                    }
                }
            }
            let watch = Watch::later(self.exec.account());
            for n in 0..site.args.refs {
                let pair = [*ground.refs.add(site.captures.refs + n), *cotangent.refs.add(n)];
                pair_adjoints(pair, (node.depth, level, all), &watch, (&mut again.contributions, most))?;
            }
            Ok(again)
        }
    }
}
