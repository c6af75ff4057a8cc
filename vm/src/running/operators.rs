//! Derivative operators: what a `jvp`, a `vjp` and a checkpoint do when they run.
//!
//! A `jvp` runs its function at a greater depth, where a real has as many components again: those with the operator's
//! own infinitesimal, which begin as the tangents of the arguments and end as those of the results. Which infinitesimal
//! that is, nobody has to keep apart: it is the first one that nothing refers to that the function is given (Siskind
//! and Pearlmutter 2008, "Nesting forward-mode AD", have the tags that this replaces). So the depth is that of what the
//! function reaches, and not of how many operators are open around it.
//!
//! What a `vjp` does is said in [`super::reverse`], what a checkpoint does in [`super::reruns`], and how a program
//! gives derivatives of its own in [`super::custom`].

use super::registers::Registers;
use super::structures::Copied;
use super::worker::Worker;
use crate::code::{Counts, DEPTH_MAX, Operator, OperatorSite};
use crate::memory::heap::{Ref, planes};
use crate::memory::stack::stack_pointer;
use crate::trap::{Limit, TrapKind};
use crate::word::Word;

impl Worker {
    /// Runs a derivative operator. What it takes stands at `args`; what it gives will stand behind that.
    ///
    /// # Safety
    /// **Running**; what the operator takes is of the right types; nothing above it is in use, and references below are
    /// roots. `remaining` is how many frames may nest above.
    #[inline(never)]
    pub(crate) unsafe fn operate(
        &mut self,
        site: &OperatorSite,
        args: Registers,
        remaining: usize,
    ) -> Result<(), TrapKind> {
        let mode = self.exec.mode;
        let outcome = match site.operator {
            // SAFETY: promised by the caller.
            Operator::Jvp => unsafe { self.push_forward(site, args, remaining) },
            // SAFETY: promised by the caller.
            Operator::Vjp => unsafe { self.pull_back(site, args, remaining) },
            // SAFETY: promised by the caller.
            Operator::Checkpoint => unsafe { self.run_unrecorded(site, args, remaining) },
            // SAFETY: promised by the caller.
            Operator::Primal => unsafe { self.run_primal(site, args, remaining) },
            // SAFETY: promised by the caller.
            Operator::Once => unsafe { self.give_constant(site, args) },
            // SAFETY: promised by the caller.
            Operator::Host => unsafe { self.call_host(site, args, remaining, None) },
            // SAFETY: promised by the caller.
            Operator::CustomVjp | Operator::CustomJvp => unsafe { self.attach_derivative(site, args, remaining) },
        };
        self.exec.mode = mode;
        outcome.map_err(|mut kind| {
            // SAFETY: promised by the caller.
            unsafe { self.outside_of_operator(&mut kind, site, args) };
            kind
        })
    }

    /// Runs a derivative operator that is all there is to a run: what it takes stands at `base`, and what it gives will
    /// stand there.
    ///
    /// # Safety
    /// **Running**; there is room for both, and what it takes is of the right types.
    pub(super) unsafe fn operate_at(&mut self, site: &OperatorSite, base: Registers) -> Result<(), TrapKind> {
        let remaining = self.exec.depth_max.checked_sub(1).ok_or(TrapKind::Limit(Limit::Depth))?;
        let ground = self.open_native()?;
        // SAFETY: promised by the caller, as for a function that the run begins with (`Worker::run_at`). The two
        // places may overlap.
        unsafe {
            ground.run(|| self.operate(site, base, remaining))?;
            let (given, counts) = (base.after(&site.uses_count), &site.defs_count);
            base.reals.copy_from(given.reals, counts.reals);
            if self.exec.mode.is_recording() {
                base.words.copy_from(given.words, counts.reals);
            }
            base.ints.copy_from(given.ints, counts.ints);
            base.refs.copy_from(given.refs, counts.refs);
        }
        Ok(())
    }

    /// Runs the function with tangents.
    ///
    /// # Safety
    /// As [`Worker::operate`]; the caller restores the mode.
    unsafe fn push_forward(&mut self, site: &OperatorSite, args: Registers, remaining: usize) -> Result<(), TrapKind> {
        let mode = self.exec.mode;
        let depth = mode.depth();
        // SAFETY: promised by the caller.
        unsafe {
            let own = self.reach_of_registers(args, &site.uses_count);
            if own >= DEPTH_MAX {
                return Err(TrapKind::OrderTooHigh);
            }
            let inner = own + 1;
            let results = args.after(&site.uses_count);
            let given = site.defs_count;
            let base = results.after(&given);
            let most = (site.captures.reals + site.args.reals).max(site.results.reals);
            self.room_above(base, (most, inner), mode.is_recording())?;
            for n in 0..given.refs {
                *results.refs.add(n) = std::ptr::null_mut();
            }

            // Captures have no tangents; behind them stand the arguments and then their tangents.
            let Counts { reals: captured, refs: captured_refs, .. } = site.captures;
            for n in 0..captured + site.args.reals {
                let tangent = n.checked_sub(captured).map(|n| captured + site.args.reals + n);
                for part in 0..1usize << inner {
                    let from = match part.checked_sub(1 << own) {
                        None => Some((n << depth) + part),
                        Some(part) => tangent.map(|tangent| (tangent << depth) + part),
                    };
                    let to = (n << inner) + part;
                    *base.reals.add(to) = from.map_or(0.0, |from| *args.reals.add(from));
                    if mode.is_recording() {
                        *base.words.add(to) = from.map_or(Word::CONSTANT, |from| *args.words.add(from));
                    }
                }
            }
            let ints = site.captures.ints + site.args.ints;
            base.ints.copy_from_nonoverlapping(args.ints, ints);
            let mut handed = base.after(&Counts { reals: (captured + site.args.reals) << inner, ints, refs: 0 });
            for n in 0..captured_refs + site.args.refs {
                let tangent = n.checked_sub(captured_refs).map(|n| captured_refs + site.args.refs + n);
                let object = *args.refs.add(n);
                *handed.refs = match tangent {
                    None => object,
                    Some(tangent) => {
                        let pair = [object, *args.refs.add(tangent)];
                        self.copy_structure(Copied::Paired { depth: own }, pair, handed)?
                    }
                };
                handed.refs = handed.refs.add(1);
            }

            self.exec.mode = mode.at_depth(inner);
            self.run_callee(site.func, base, remaining)?;
            self.exec.mode = mode;

            // Values, then tangents; no component of one is -0.0.
            let left = Counts { reals: site.results.reals << inner, ..site.results };
            for n in 0..site.results.reals {
                for part in 0..1usize << depth {
                    for (to, from) in [(n, part), (site.results.reals + n, part + (1 << own))] {
                        let (to, from) = ((to << depth) + part, (n << inner) + from);
                        let there = part >> own == 0;
                        let value = if there { *base.reals.add(from) } else { 0.0 };
                        let is_component = from & ((1 << inner) - 1) != 0;
                        *results.reals.add(to) = if is_component { value + 0.0 } else { value };
                        if mode.is_recording() {
                            *results.words.add(to) = if there { *base.words.add(from) } else { Word::CONSTANT };
                        }
                    }
                }
            }
            results.ints.copy_from_nonoverlapping(base.ints, site.results.ints);
            let above = base.after(&left);
            for n in 0..site.results.refs {
                let object = *base.refs.add(n);
                let value = self.copy_structure(Copied::Value { depth: own }, [object; 2], above)?;
                *results.refs.add(n) = value;
                let object = *base.refs.add(n);
                let tangent = self.copy_structure(Copied::Tangent { depth: own }, [object; 2], above)?;
                *results.refs.add(site.results.refs + n) = tangent;
            }
        }
        Ok(())
    }

    /// The depth that code needs to read all components of some registers.
    ///
    /// # Safety
    /// The registers are there, of the running depth.
    pub(super) unsafe fn reach_of_registers(&self, registers: Registers, counts: &Counts) -> u32 {
        let mode = self.exec.mode;
        // SAFETY: promised by the caller.
        unsafe {
            let holds = |at: usize| {
                *registers.reals.add(at) != 0.0 || mode.is_recording() && !(*registers.words.add(at)).is_constant()
            };
            let components = (0..counts.reals).filter(|&at| at & ((1 << mode.depth()) - 1) != 0 && holds(at));
            let of_reals = components.map(|at| (at & ((1 << mode.depth()) - 1)).ilog2() + 1).max().unwrap_or(0);
            let of_refs = (0..counts.refs).map(|n| planes::reach(*registers.refs.add(n))).max().unwrap_or(0);
            of_reals.max(of_refs)
        }
    }

    /// Makes room for what is handed over at `base`, on all stacks, with words or without: for so many reals at a
    /// depth, and above them for the fields of an object.
    pub(super) fn room_above(
        &mut self,
        base: Registers,
        (reals, depth): (usize, u32),
        recording: bool,
    ) -> Result<(), TrapKind> {
        const FIELDS: usize = 256;
        let base = base.after(&Counts { reals: (reals + FIELDS) << depth, ..Counts::default() });
        if base.reals > self.stacks.reals.end()
            || base.ints > self.stacks.ints.end()
            || base.refs > self.stacks.refs.end()
            || (recording && base.words > self.stacks.words.end())
        {
            let words = if recording { base.words } else { std::ptr::null_mut() };
            self.grow(&Registers { words, ..base })?;
        }
        let here = stack_pointer();
        if here < self.stacks.native_limit {
            self.grow_native(here)?;
        }
        Ok(())
    }

    /// An object as a constant, with all that it refers to.
    ///
    /// # Safety
    /// **Running**; the references of all frames below `above` are initialised, and nothing from there on is in use.
    #[inline(never)]
    pub(crate) unsafe fn detach(&mut self, object: Ref, above: Registers) -> Result<Ref, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe { self.copy_structure(Copied::Detached { whole: false }, [object; 2], above) }
    }
}
