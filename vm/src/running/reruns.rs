//! Derivative operators whose outcome depends on what is recorded around them: how a `vjp` gets on the tape, and how it
//! runs again when that is swept. Why that gives all adjoints is said in [`crate::sweep::reruns`].
//!
//! A rerun is an execution of its own, with a worker of its own. It draws on the run's account like an execution that
//! runs stolen tasks; so while a tape with reruns is swept, executions share the account.

use super::meter::Meter;
use super::registers::Registers;
use super::reverse::{Places, pair_adjoints};
use super::structures::Copied;
use super::worker::Worker;
use super::workers::RunInfo;
use crate::code::{Counts, DEPTH_MAX, Mode, OperatorSite};
use crate::memory::heap::HeapLimits;
use crate::running::meter::Watch;
use crate::sweep::{Seed, Sweep, Sweeps};
use crate::tape::{RerunNode, TaskNode};
use crate::trap::{Limit, TrapKind};
use crate::word::{Owner, Slot, Word};

/// What the sweep of a rerun begins with, and what it doesn't compute.
#[derive(Debug, Default)]
pub(crate) struct Again {
    /// Adjoints of the results.
    pub(crate) seeds: Vec<Seed>,
    /// What belongs to the adjoints of the cotangents that the operator was given.
    pub(crate) contributions: Vec<Seed>,
}

/// Numbers of registers that an operator takes and gives, without components.
#[derive(Clone, Copy)]
struct Taken {
    captures: Counts,
    args: Counts,
    results: Counts,
}

impl Taken {
    fn of(site: &OperatorSite) -> Self {
        Taken { captures: site.captures, args: site.args, results: site.results }
    }

    /// Captures and arguments.
    fn handed(&self) -> Counts {
        let Taken { captures, args, .. } = self;
        Counts { reals: captures.reals + args.reals, ints: captures.ints + args.ints, refs: captures.refs + args.refs }
    }

    /// Reals that are taken: the same, and cotangents of the results.
    fn reals(&self) -> usize {
        self.handed().reals + self.results.reals
    }

    fn refs(&self) -> usize {
        self.handed().refs + self.results.refs
    }

    /// Objects that are given: results, and cotangents of arguments.
    fn given_refs(&self) -> usize {
        self.results.refs + self.args.refs
    }
}

impl Worker {
    /// Records a `vjp` that has ended: all reals that it has given have slots, from `outcome` on those of the
    /// registers.
    ///
    /// # Safety
    /// **Running**, and recording; the operator's places still hold what it was given and has given.
    pub(super) unsafe fn record_rerun(
        &mut self,
        site: &OperatorSite,
        places: &Places,
        outcome: Slot,
        (remaining, work): (usize, u64),
    ) -> Result<(), TrapKind> {
        let (taken, depth, args) = (Taken::of(site), places.depth, &places.args);
        let ints = taken.handed().ints;
        // SAFETY: promised by the caller; the lists have these lengths.
        unsafe {
            let tape = &mut self.exec.tape;
            let lists = tape.open_rerun([taken.reals() << depth, ints, taken.refs(), taken.given_refs()])?;
            for n in 0..taken.reals() {
                let (from, to) = (n << places.outer.depth(), n << depth);
                lists.reals.add(to).copy_from_nonoverlapping(args.reals.add(from), 1 << depth);
                lists.words.add(to).copy_from_nonoverlapping(args.words.add(from), 1 << depth);
            }
            lists.ints.copy_from_nonoverlapping(args.ints, ints);
            for n in 0..taken.refs() {
                *lists.refs.add(n) = tape.keep(*args.refs.add(n))?;
            }
            for n in 0..taken.given_refs() {
                *lists.given.add(n) = tape.keep(*places.results.refs.add(n))?;
            }
            tape.close_rerun(lists, (site, depth, remaining), outcome, work)?;
        }
        Ok(())
    }

    /// Sweeps a tape that may have reruns.
    ///
    /// # Safety
    /// **Running**; as [`Sweep::run`].
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
            if (*root).totals.rerun_work == 0 {
                return sweep.run(root, seeds, info, sweeps);
            }
            let outcome = if self.exec.forked {
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
                // What is left of this execution's slice is for them.
                (*self.exec.meter).settle(self.exec.fuel);
                self.exec.fuel = 0;
                let before = self.open();
                let lent = info.account.allocation_left();
                let outcome = sweep.run(root, seeds, info, sweeps);
                if let Err(kind) = &outcome {
                    info.account.stop_all(kind);
                }
                self.close(&before);
                let used = lent - info.account.allocation_left();
                if !info.account.is_stopped() {
                    self.exec.heap.limits().allocated_bytes -= used;
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
        let work = unsafe { (*root).totals.sweep_work };
        self.exec.fuel = meter.refill_alone(self.exec.fuel.saturating_sub_unsigned(work))?;
        (self.exec.program, self.exec.info) = (info.program, (&raw const *info).cast());
        self.exec.meter = (&raw mut meter).cast();
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
        let ground = self.open_native()?;
        let mut meter = Meter::new(account, None);
        let exec = &mut self.exec;
        (exec.program, exec.info) = (info.program, (&raw const *info).cast());
        (exec.meter, exec.fuel, exec.forked) = ((&raw mut meter).cast(), 0, true);
        // SAFETY: promised by the caller; **Running** until it is detached. The stack is the worker's, which runs
        // nowhere else meanwhile; nothing below unwinds ([`Worker::run_at`]).
        let outcome = unsafe { ground.run(|| self.repeat(node, task, adjoints)) };
        meter.settle(self.exec.fuel);
        let exec = &mut self.exec;
        account.return_allocation(exec.heap.limits().allocated_bytes.saturating_sub(exec.heap.allocated()));
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

    /// Runs the function of an operator, with a further infinitesimal.
    ///
    /// # Safety
    /// **Running**; the rest as [`Worker::run_again`].
    unsafe fn repeat(
        &mut self,
        node: &RerunNode,
        task: *const TaskNode,
        adjoints: *const f64,
    ) -> Result<Again, TrapKind> {
        let depth = node.depth;
        if depth >= DEPTH_MAX {
            return Err(TrapKind::OrderTooHigh);
        }
        let inner = depth + 1;
        // SAFETY: promised by the caller.
        unsafe {
            let site = &*node.site;
            let taken = Taken::of(site);
            let handed = taken.handed();

            // What the operator was given, what it gave, and then the two with a further infinitesimal: arguments with
            // the adjoints of their cotangents, and cotangents of results with the adjoints of these.
            let ground = self.bottom();
            let given = ground.after(&Counts { refs: taken.refs(), ..Counts::default() });
            let paired = given.after(&Counts { refs: taken.given_refs(), ..Counts::default() });
            let base = paired.after(&Counts { refs: taken.given_refs(), ..Counts::default() });
            self.room_above(base, (handed.reals.max(site.results.reals), inner), true)?;
            for n in 0..taken.refs() {
                *ground.refs.add(n) = **node.refs.add(n);
            }
            for n in 0..taken.given_refs() {
                *given.refs.add(n) = **node.given.add(n);
                *paired.refs.add(n) = std::ptr::null_mut();
            }
            let cotangents = paired.refs.add(site.args.refs);
            self.exec.mode = Mode::RECORDING.at_depth(depth);
            for n in 0..site.args.refs {
                let of = (site.captures.refs + n, site.results.refs + n);
                *paired.refs.add(n) = self.pair_with_adjoints(depth, adjoints, (ground, given), of, base)?;
            }
            self.exec.mode = Mode::PRIMAL.at_depth(depth);
            for n in 0..site.results.refs {
                let of = (handed.refs + n, n);
                *cotangents.add(n) = self.pair_with_adjoints(depth, adjoints, (ground, given), of, base)?;
            }

            self.hand_over_again(node, task, adjoints, base)?;
            base.refs.copy_from_nonoverlapping(ground.refs, site.captures.refs);
            base.refs.add(site.captures.refs).copy_from_nonoverlapping(paired.refs, site.args.refs);
            self.exec.mode = Mode::RECORDING.at_depth(inner);
            self.run_callee(site.func, base, node.remaining)?;

            let work = self.exec.tape.finish().totals.sweep_work;
            self.exec.fuel = self.exec.fuel.saturating_sub_unsigned(work);
            if self.exec.fuel < 0 {
                self.exec.fuel = self.refill(self.exec.fuel)?;
            }
            let mut again = Again::default();
            self.outcome_of_reals(node, task, adjoints, base, &mut again);
            let level = Owner::of((*task).level);
            let (own, all) = (1usize << depth, (1usize << depth) - 1);
            let watch = Watch::later(self.exec.account());
            for n in 0..site.results.refs {
                let (result, cotangent) = (*base.refs.add(n), *ground.refs.add(handed.refs + n));
                let whole = (inner, level, own | all);
                pair_adjoints([result, *cotangents.add(n)], whole, &watch, &mut again.seeds)?;
                let tangent = (depth, level, own | all);
                pair_adjoints([cotangent, result], tangent, &watch, &mut again.contributions)?;
            }
            Ok(again)
        }
    }

    /// An object with the adjoints of another one as its tangent. They are numbered by position.
    ///
    /// # Safety
    /// As [`Worker::repeat`]: the other one's reals have slots of the task that is swept.
    unsafe fn pair_with_adjoints(
        &mut self,
        depth: u32,
        adjoints: *const f64,
        (ground, given): (Registers, Registers),
        (object, other): (usize, usize),
        above: Registers,
    ) -> Result<crate::memory::heap::Ref, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let other = *given.refs.add(other);
            let tangent = self.copy_structure(Copied::Adjoint { depth, adjoints }, [other; 2], above)?;
            self.copy_structure(Copied::Paired { depth }, [*ground.refs.add(object), tangent], above)
        }
    }

    /// Writes captures and arguments without objects to the function's frame.
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
            let (handed, captured) = (Taken::of(site).handed(), site.captures.reals);
            let (own, all) = (1usize << node.depth, (1usize << node.depth) - 1);
            // The cotangents of the arguments stand behind the results.
            let cotangent = |n: usize| node.outcome.element((site.results.reals + n) << node.depth);
            for n in 0..handed.reals {
                for part in 0..own {
                    let (from, to) = ((n << node.depth) + part, (n << (node.depth + 1)) + part);
                    *base.reals.add(to) = *node.reals.add(from);
                    let slot = (*node.words.add(from)).slot();
                    *base.words.add(to) = match slot.is_none() {
                        true => Word::CONSTANT,
                        false => self.exec.tape.import(Owner::of(task), slot)?.into(),
                    };
                    *base.reals.add(to + own) = match n.checked_sub(captured) {
                        None => 0.0,
                        Some(n) => *adjoints.add(cotangent(n).element(all ^ part).index()) + 0.0,
                    };
                    *base.words.add(to + own) = Word::CONSTANT;
                }
            }
            base.ints.copy_from_nonoverlapping(node.ints, handed.ints);
        }
        Ok(())
    }

    /// The seeds of real results, and what is contributed to the adjoints of their cotangents.
    ///
    /// # Safety
    /// As [`Worker::repeat`]; the function has returned.
    unsafe fn outcome_of_reals(
        &self,
        node: &RerunNode,
        task: *const TaskNode,
        adjoints: *const f64,
        base: Registers,
        again: &mut Again,
    ) {
        // SAFETY: promised by the caller.
        unsafe {
            let site = &*node.site;
            let handed = Taken::of(site).handed();
            let (own, all) = (1usize << node.depth, (1usize << node.depth) - 1);
            for n in 0..site.results.reals {
                let result = n << (node.depth + 1);
                for part in 0..own {
                    let cotangent = ((handed.reals + n) << node.depth) + part;
                    let adjoint = *adjoints.add(node.outcome.element((n << node.depth) + part).index());
                    let mut seed = |slot: Slot, adjoint: f64| {
                        again.seeds.push(Seed { owner: Owner::NOBODY, slot, adjoint });
                    };
                    seed((*base.words.add(result + part)).slot(), adjoint);
                    seed((*base.words.add(result + (own | (all ^ part)))).slot(), *node.reals.add(cotangent));
                    let slot = (*node.words.add(cotangent)).slot();
                    if !slot.is_none() {
                        let adjoint = *base.reals.add(result + (own | (all ^ part)));
                        again.contributions.push(Seed { owner: Owner::of(task), slot, adjoint });
                    }
                }
            }
        }
    }
}
