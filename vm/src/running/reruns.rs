//! What is recorded as a whole, and runs again when the tape is swept: a `vjp` whose outcome depends on what is
//! recorded around it, and a checkpoint. Why that gives all adjoints is said in [`crate::sweep::reruns`].
//!
//! A rerun is an execution of its own, with a worker of its own. It draws on the run's account like an execution that
//! runs stolen tasks; so while a tape with reruns is swept, executions share the account.

use super::meter::Meter;
use super::registers::Registers;
use super::reverse::pair_adjoints;
use super::structures::Copied;
use super::worker::{Execution, Worker};
use super::workers::RunInfo;
use crate::code::{Counts, DEPTH_MAX, Mode, Operator, OperatorSite};
use crate::memory::heap::{self, HeapLimits, Ref};
use crate::running::meter::Watch;
use crate::sweep::{Seed, Sweep, Sweeps};
use crate::tape::{Repeat, RerunNode, TaskNode};
use crate::trap::{Limit, TrapKind};
use crate::word::{Owner, Slot, Word};
use std::sync::atomic::Ordering;

/// What the sweep of a rerun begins with, and what it doesn't compute.
#[derive(Debug, Default)]
pub(crate) struct Again {
    /// Adjoints of the results.
    pub(crate) seeds: Vec<Seed>,
    /// What belongs to the adjoints of the cotangents that the operator was given.
    pub(crate) contributions: Vec<Seed>,
}

/// Numbers of registers, without components.
#[derive(Clone, Copy)]
struct Taken {
    /// Captures and arguments: what the function is given.
    handed: Counts,
    /// All that the operator takes: the same, and cotangents of the results.
    all: Counts,
    /// Objects that it gives: results, and cotangents of arguments.
    given_refs: usize,
    /// How many more infinitesimals there are when it runs again.
    deeper: u32,
}

impl Taken {
    fn of(site: &OperatorSite) -> Self {
        let handed = site.handed();
        match site.operator {
            Operator::Vjp => {
                let mut all = handed;
                all.add(Counts { ints: 0, ..site.results });
                Taken { handed, all, given_refs: site.results.refs + site.args.refs, deeper: 1 }
            }
            _ => Taken { handed, all: handed, given_refs: site.results.refs, deeper: 0 },
        }
    }
}

impl Worker {
    /// Runs a function without recording it, as a whole if anything that it is given is active.
    ///
    /// # Safety
    /// As [`Worker::operate`]; the caller restores the mode.
    pub(super) unsafe fn run_unrecorded(
        &mut self,
        site: &OperatorSite,
        args: Registers,
        remaining: usize,
    ) -> Result<(), TrapKind> {
        let outer = self.exec.mode;
        let depth = outer.depth();
        // SAFETY: promised by the caller.
        unsafe {
            let results = args.after(&site.uses_count);
            let base = results.after(&site.defs_count);
            self.room_above(base, (site.captures.reals.max(site.results.reals), depth), outer.is_recording())?;
            for n in 0..site.results.refs {
                *results.refs.add(n) = std::ptr::null_mut();
            }
            args.copy_to(&base, &site.uses_count, false);
            self.exec.mode = Mode::PRIMAL.at_depth(depth);
            // Constants are there when it runs again.
            let used = |exec: &Execution| exec.meter().used(exec.fuel).wrapping_sub(exec.constant_work);
            let (before, digest) = (used(&self.exec), self.exec.host_digest);
            self.run_callee(site.func, base, remaining)?;
            let work = used(&self.exec).wrapping_sub(before);
            let digest = self.exec.host_digest.wrapping_sub(digest);
            self.exec.mode = outer;

            let left = Counts { reals: site.results.reals << depth, ..site.results };
            let has_reals = || (0..site.uses_count.reals).any(|n| !(*args.words.add(n)).is_constant());
            let has_refs = (0..site.uses_count.refs).any(|n| !heap::owner_of(*args.refs.add(n)).is_nobody());
            let recorded = outer.is_recording() && (has_refs || has_reals());
            if recorded && has_refs {
                self.exec.tape.mark_all();
            }
            let outcome = match recorded {
                true => self.exec.tape.reserve_slots(left.reals as u64)?,
                false => Slot::NONE,
            };
            results.reals.copy_from_nonoverlapping(base.reals, left.reals);
            if outer.is_recording() {
                for n in 0..left.reals {
                    *results.words.add(n) = outcome.element(n).into();
                }
            }
            results.ints.copy_from_nonoverlapping(base.ints, left.ints);
            for n in 0..left.refs {
                let object = *base.refs.add(n);
                *results.refs.add(n) = match recorded {
                    true => self.copy_structure(Copied::Opened { depth }, [object; 2], base.after(&left))?,
                    false => object,
                };
            }
            match recorded {
                true => {
                    let again = Repeat { remaining, work: 2 * work, digest, saved: None };
                    self.record_rerun(site, depth, (args, results), outcome, again)
                }
                false => Ok(()),
            }
        }
    }

    /// Records an operator that has ended: all reals that it has given have slots, from `outcome` on those of the
    /// registers. Its function ran at a depth.
    ///
    /// # Safety
    /// **Running**, and recording; what the operator was given and has given is still there.
    pub(super) unsafe fn record_rerun(
        &mut self,
        site: &OperatorSite,
        depth: u32,
        (args, results): (Registers, Registers),
        outcome: Slot,
        again: Repeat,
    ) -> Result<(), TrapKind> {
        let outer = self.exec.mode.depth();
        let Taken { handed, all, given_refs, .. } = Taken::of(site);
        // SAFETY: promised by the caller; the lists have these lengths.
        unsafe {
            let tape = &mut self.exec.tape;
            let lists = tape.open_rerun([all.reals << depth, handed.ints, all.refs, given_refs])?;
            for n in 0..all.reals {
                let (from, to) = (n << outer, n << depth);
                lists.reals.add(to).copy_from_nonoverlapping(args.reals.add(from), 1 << depth);
                lists.words.add(to).copy_from_nonoverlapping(args.words.add(from), 1 << depth);
            }
            lists.ints.copy_from_nonoverlapping(args.ints, handed.ints);
            for n in 0..all.refs {
                *lists.refs.add(n) = tape.keep(*args.refs.add(n))?;
            }
            for n in 0..given_refs {
                *lists.given.add(n) = tape.keep(*results.refs.add(n))?;
            }
            tape.close_rerun(lists, (site, depth), outcome, again)?;
        }
        Ok(())
    }

    /// Sweeps a tape that may have reruns.
    ///
    /// # Safety
    /// **Running**; as [`Sweep::run`].
    #[inline]
    pub(super) unsafe fn sweep_tape(
        &mut self,
        sweep: &mut Sweep,
        root: *mut TaskNode,
        seeds: &[Seed],
        sweeps: Option<&Sweeps>,
    ) -> Result<u64, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let info = self.exec.info();
            let plain = (*root).totals.rerun_work == 0;
            if plain && !info.program.is_checked() {
                return sweep.run(root, seeds, info, sweeps);
            }
            let outcome = if plain {
                sweep.run(root, seeds, info, sweeps)
            } else if self.exec.forked {
                self.give_slices_back();
                sweep.run(root, seeds, info, sweeps)
            } else {
                self.sweep_with_others(sweep, root, seeds, sweeps)
            };
            if outcome.is_err() && self.exec.trace.is_empty() {
                self.exec.trace = std::mem::take(&mut sweep.trace);
            }
            outcome
        }
    }

    /// Leaves what this execution has drawn and not used to those that run while it waits.
    ///
    /// # Safety
    /// **Running**, while executions share the account.
    unsafe fn give_slices_back(&mut self) {
        // SAFETY: promised by the caller; no other reference to the meter lives.
        unsafe {
            (*self.exec.meter).settle(self.exec.fuel);
            self.exec.fuel = 0;
            let allocated = self.exec.heap.allocated();
            let drawn = self.exec.heap.allocated_max();
            self.exec.heap.set_allocated_max(allocated);
            self.exec.account().return_allocation(drawn.saturating_sub(allocated));
        }
    }

    /// Sweeps a tape with reruns while other executions draw on the account, and once more with one of them at a time
    /// if a limit was reached.
    ///
    /// # Safety
    /// As [`Worker::sweep_tape`].
    unsafe fn sweep_with_others(
        &mut self,
        sweep: &mut Sweep,
        root: *mut TaskNode,
        seeds: &[Seed],
        sweeps: Option<&Sweeps>,
    ) -> Result<u64, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let info = self.exec.info();
            let mut sweeps = sweeps;
            loop {
                (*self.exec.meter).settle(self.exec.fuel);
                self.exec.fuel = 0;
                let before = self.open();
                // Reruns may take what is left by this tape and by those of the levels around it.
                let outside = self.exec.tape.held_outside(info.limits.tape_bytes);
                info.account.tape_bytes.fetch_add(outside, Ordering::Relaxed);
                let outcome = sweep.run(root, seeds, info, sweeps);
                if let Err(kind) = &outcome {
                    info.account.stop_all(kind);
                }
                self.close(&before);
                if !info.account.is_stopped() {
                    return outcome;
                }
                if let Some(kind) = info.account.abandoned() {
                    return Err(kind);
                }
                let alone = sweeps.is_none() && !info.is_parallel();
                self.start_over(&before);
                if alone {
                    return outcome;
                }
                sweeps = None;
            }
        }
    }

    /// Sweeps the tape of a run that has ended here.
    ///
    /// # Safety
    /// As [`Sweep::run`]; the worker's execution is that of the run.
    #[inline(always)]
    pub(crate) unsafe fn sweep_run(
        &mut self,
        sweep: &mut Sweep,
        seeds: &[Seed],
        info: &RunInfo<'_>,
        sweeps: Option<&Sweeps>,
    ) -> Result<u64, TrapKind> {
        self.exec.trace.clear();
        let mut meter = Meter::new(info.account, None);
        let root = self.exec.tape.root();
        // SAFETY: promised by the caller: the run has ended.
        unsafe {
            let work = (*root).totals.sweep_work;
            self.exec.fuel = meter.refill_alone(self.exec.fuel.saturating_sub_unsigned(work))?;
            if (*root).totals.rerun_work == 0 && !info.program.is_checked() {
                return sweep.run(root, seeds, info, sweeps);
            }
            self.sweep_run_with_reruns(sweep, seeds, (info, &mut meter), sweeps)
        }
    }

    /// The same of a tape with reruns, whose fuel comes from this meter.
    ///
    /// # Safety
    /// As [`Worker::sweep_run`].
    #[cold]
    #[inline(never)]
    unsafe fn sweep_run_with_reruns(
        &mut self,
        sweep: &mut Sweep,
        seeds: &[Seed],
        (info, meter): (&RunInfo<'_>, &mut Meter<'_>),
        sweeps: Option<&Sweeps>,
    ) -> Result<u64, TrapKind> {
        let root = self.exec.tape.root();
        (self.exec.program, self.exec.info) = (info.program, (&raw const *info).cast());
        self.exec.meter = (&raw mut *meter).cast();
        self.exec.heap.attach(info.account);
        self.exec.tape.attach(info.account);
        // SAFETY: promised by the caller; **Running** until it is detached.
        let swept = unsafe { self.sweep_tape(sweep, root, seeds, sweeps) };
        self.exec.detach();
        swept
    }

    /// Runs a recorded operator once more, with the adjoints of what it gave. The tape is complete then, and stays with
    /// all that it refers to until [`Worker::end_again`].
    ///
    /// # Safety
    /// The worker runs nothing. The node is on the tape of `task`, which is swept; `adjoints` are those of its slots.
    /// Executions share the account.
    pub(crate) unsafe fn run_again(
        &mut self,
        info: &RunInfo<'_>,
        node: &RerunNode,
        task: *const TaskNode,
        adjoints: *const f64,
    ) -> Result<Again, TrapKind> {
        let (account, limits) = (info.account, info.limits);
        self.begin(limits.live_bytes, limits.depth);
        let exec = &mut self.exec;
        exec.heap.begin(HeapLimits { allocated_bytes: 0, live_bytes: limits.live_bytes }, account);
        exec.heap.share(true);
        // SAFETY: promised by the caller: the task has ended.
        unsafe { exec.tape.begin_rerun(limits.tape_bytes, account, task) };
        if !self.stacks.are_there() {
            return Err(Limit::AddressSpace.into());
        }
        let rooms = self.stacks.rooms();
        let ground = self.open_native()?;
        let mut meter = Meter::new(account, None);
        let exec = &mut self.exec;
        (exec.program, exec.info) = (info.program, (&raw const *info).cast());
        (exec.meter, exec.fuel, exec.forked) = ((&raw mut meter).cast(), 0, true);
        // What it traces was shown when it ran first.
        debug_assert!(!exec.listens, "a worker that begins doesn't listen");
        // SAFETY: promised by the caller; **Running** until it is detached. The stack is the worker's, which runs
        // nowhere else meanwhile; nothing below unwinds ([`Worker::run_at`]).
        let outcome = unsafe { ground.run(|| self.begin_again(node, task, adjoints)) };
        meter.settle(self.exec.fuel);
        // The function has returned: what is needed of it is the tape. In the sweep of that there may be other reruns,
        // one in the other, which run on these stacks.
        self.leave_rooms(&rooms);
        info.workers.take_stacks(self);
        let exec = &mut self.exec;
        let drawn = exec.heap.allocated_max();
        account.rerun_ended(exec.heap.allocated(), drawn);
        exec.detach();
        outcome
    }

    /// Gives back what a rerun has taken.
    pub(crate) fn end_again(&mut self) {
        let held = self.exec.heap.held() + self.stacks.bytes;
        self.exec.heap.changed((held as i64).wrapping_neg());
        self.exec.heap.release();
        self.exec.tape.close_level();
    }

    /// # Safety
    /// **Running**; the rest as [`Worker::run_again`].
    unsafe fn begin_again(
        &mut self,
        node: &RerunNode,
        task: *const TaskNode,
        adjoints: *const f64,
    ) -> Result<Again, TrapKind> {
        // SAFETY: promised by the caller; the program outlives its runs.
        unsafe {
            match (*node.site).operator {
                Operator::CustomVjp | Operator::CustomJvp | Operator::Host => {
                    let again = self.pull_by_rule(node, task, adjoints).map_err(|mut kind| {
                        self.outside_of_rule(&mut kind, node, task);
                        // The host has no frame of its own, in which it could have stopped.
                        if (*node.site).operator == Operator::Host {
                            self.stopped_at(&*node.site);
                        }
                        kind
                    })?;
                    self.exec.tape.finish();
                    Ok(again)
                }
                _ => self.repeat(node, task, adjoints).inspect_err(|kind| {
                    if matches!(kind, TrapKind::OrderTooHigh) {
                        self.stopped_at(&*node.site);
                    }
                }),
            }
        }
    }

    /// A trap has no frame of its own: its place is that of the operator.
    fn stopped_at(&mut self, site: &OperatorSite) {
        // SAFETY: the program outlives its runs.
        let place = unsafe { (*self.exec.program).place_of(site) };
        if self.exec.trace.is_empty()
            && let Some(place) = place
        {
            self.exec.trace.push(place);
        }
    }

    /// Runs the function of an operator; that of a `vjp` with a further infinitesimal.
    ///
    /// # Safety
    /// **Running**; the rest as [`Worker::run_again`].
    unsafe fn repeat(
        &mut self,
        node: &RerunNode,
        task: *const TaskNode,
        adjoints: *const f64,
    ) -> Result<Again, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let site = &*node.site;
            let Taken { handed, all, given_refs, deeper } = Taken::of(site);
            let (depth, inner) = (node.depth, node.depth + deeper);
            if inner > DEPTH_MAX {
                return Err(TrapKind::OrderTooHigh);
            }

            // What the operator was given, what it gave, and then what comes of the two: arguments with the adjoints of
            // their cotangents, and cotangents of results with the adjoints of these.
            let ground = self.bottom();
            let given = ground.after(&Counts { refs: all.refs, ..Counts::default() });
            let paired = given.after(&Counts { refs: given_refs, ..Counts::default() });
            let base = paired.after(&Counts { refs: given_refs, ..Counts::default() });
            self.room_above(base, (handed.reals.max(site.results.reals), inner), true)?;
            for n in 0..all.refs {
                *ground.refs.add(n) = **node.refs.add(n);
            }
            for n in 0..given_refs {
                *given.refs.add(n) = **node.given.add(n);
                *paired.refs.add(n) = std::ptr::null_mut();
            }
            let cotangents = paired.refs.add(site.args.refs);
            self.exec.mode = Mode::RECORDING.at_depth(depth);
            for n in 0..site.args.refs {
                let adjoint = self.adjoint_of(*given.refs.add(site.results.refs + n), (depth, adjoints), base)?;
                let pair = [*ground.refs.add(site.captures.refs + n), adjoint];
                *paired.refs.add(n) = self.copy_structure(Copied::Paired { depth }, pair, base)?;
            }
            self.exec.mode = Mode::PRIMAL.at_depth(depth);
            for n in 0..site.results.refs {
                let adjoint = self.adjoint_of(*given.refs.add(n), (depth, adjoints), base)?;
                *cotangents.add(n) = match deeper {
                    0 => adjoint,
                    _ => {
                        let pair = [*ground.refs.add(handed.refs + n), adjoint];
                        self.copy_structure(Copied::Paired { depth }, pair, base)?
                    }
                };
            }

            self.exec.mode = Mode::RECORDING.at_depth(inner);
            self.hand_over_again(node, task, adjoints, base)?;
            base.refs.copy_from_nonoverlapping(ground.refs, site.captures.refs);
            base.refs.add(site.captures.refs).copy_from_nonoverlapping(paired.refs, site.args.refs);
            let before = self.exec.host_digest;
            self.run_callee(site.func, base, node.remaining)?;
            if self.exec.host_digest.wrapping_sub(before) != node.digest {
                return Err(TrapKind::ImpureHost);
            }

            let work = self.exec.tape.finish().totals.sweep_work;
            self.exec.fuel = self.exec.fuel.saturating_sub_unsigned(work);
            if self.exec.fuel < 0 {
                self.exec.fuel = self.refill(self.exec.fuel)?;
            }
            let mut again = Again::default();
            outcome_of_reals(node, task, adjoints, base, &mut again);
            let (level, whole) = (Owner::of((*task).level), (1usize << inner) - 1);
            let watch = Watch::later(self.exec.account());
            let most = self.adjoints_max();
            for n in 0..site.results.refs {
                let result = *base.refs.add(n);
                pair_adjoints([result, *cotangents.add(n)], (inner, level, whole), &watch, (&mut again.seeds, most))?;
                if deeper > 0 {
                    let pair = [*ground.refs.add(handed.refs + n), result];
                    pair_adjoints(pair, (depth, level, whole), &watch, (&mut again.contributions, most))?;
                }
            }
            Ok(again)
        }
    }

    /// The adjoints of an object of the task that is swept.
    ///
    /// # Safety
    /// As [`Worker::repeat`]: its reals have slots of that task.
    pub(super) unsafe fn adjoint_of(
        &mut self,
        object: Ref,
        (depth, adjoints): (u32, *const f64),
        above: Registers,
    ) -> Result<Ref, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe { self.copy_structure(Copied::Adjoint { depth, adjoints }, [object; 2], above) }
    }

    /// Writes captures and arguments that are no objects to the function's frame.
    ///
    /// # Safety
    /// As [`Worker::repeat`].
    unsafe fn hand_over_again(
        &mut self,
        node: &RerunNode,
        task: *const TaskNode,
        adjoints: *const f64,
        base: Registers,
    ) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let site = &*node.site;
            let (Taken { handed, deeper, .. }, captured) = (Taken::of(site), site.captures.reals);
            let (own, all) = (1usize << node.depth, (1usize << node.depth) - 1);
            // The cotangents of the arguments stand behind the results.
            let cotangent = |n: usize| node.outcome.element((site.results.reals + n) << node.depth);
            for n in 0..handed.reals {
                for part in 0..own {
                    let (from, to) = ((n << node.depth) + part, (n << (node.depth + deeper)) + part);
                    *base.reals.add(to) = *node.reals.add(from);
                    let slot = (*node.words.add(from)).slot();
                    *base.words.add(to) = match slot.is_none() {
                        true => Word::CONSTANT,
                        false => self.exec.tape.import(Owner::of(task), slot)?.into(),
                    };
                    if deeper > 0 {
                        *base.reals.add(to + own) = match n.checked_sub(captured) {
                            None => 0.0,
                            Some(n) => *adjoints.add(cotangent(n).element(all ^ part).index()) + 0.0,
                        };
                        *base.words.add(to + own) = Word::CONSTANT;
                    }
                }
            }
            base.ints.copy_from_nonoverlapping(node.ints, handed.ints);
        }
        Ok(())
    }
}

/// The seeds of real results, and what is contributed to the adjoints of their cotangents.
///
/// # Safety
/// The function of a rerun has returned to `base`; the rest as [`Worker::repeat`].
unsafe fn outcome_of_reals(
    node: &RerunNode,
    task: *const TaskNode,
    adjoints: *const f64,
    base: Registers,
    again: &mut Again,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let site = &*node.site;
        let Taken { handed, deeper, .. } = Taken::of(site);
        let (own, all) = (1usize << node.depth, (1usize << node.depth) - 1);
        for n in 0..site.results.reals {
            let result = n << (node.depth + deeper);
            for part in 0..own {
                let mut seed = |slot: Slot, adjoint: f64| {
                    again.seeds.push(Seed { owner: Owner::NOBODY, slot, adjoint });
                };
                let adjoint = *adjoints.add(node.outcome.element((n << node.depth) + part).index());
                seed((*base.words.add(result + part)).slot(), adjoint);
                if deeper > 0 {
                    let cotangent = ((handed.reals + n) << node.depth) + part;
                    let tangent = result + (own | (all ^ part));
                    seed((*base.words.add(tangent)).slot(), *node.reals.add(cotangent));
                    let slot = (*node.words.add(cotangent)).slot();
                    if !slot.is_none() {
                        let adjoint = *base.reals.add(tangent);
                        again.contributions.push(Seed { owner: Owner::of(task), slot, adjoint });
                    }
                }
            }
        }
    }
}
