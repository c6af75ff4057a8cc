//! The sweep of a region's record: its blocks backwards, in the order in which they have run, along its trail.
//!
//! The adjoints of the region's real registers stay in registers throughout. In each block, the adjoints of ranges that
//! it has appended are first added to those of the arrays that they come from, the last range first, each from its
//! first element on. After all that the block computes, contributions to elements of arrays are added to their slots in
//! the order in which the block loads them; the adjoints of registers that it reads become what they were plus what it
//! adds to them. In the end the contributions to the inputs are added
//! to their slots, one after the other: two of them may be one slot. Then those to elements of arrays that the region
//! has changed in place, in the order of the elements.

use super::tasks::SweepRun;
use super::{Met, OpenTask, Sweep, are_zero};
use crate::code::run_straight;
use crate::native::{REGION_DONE, REGION_STOPPED, RegionFn, RegionRun};
use crate::records::import::Import;
use crate::records::region::{
    BlockAdjoint, BuilderAdjoint, ChangedArray, Edge, RegionCode, RegionTail, Trail, copy_bytes, is_copied,
};
use crate::records::{Trailer, link, strip};
use crate::trap::TrapKind;
use crate::word::Slot;

/// Blocks between two looks at the clock; long ones count several times.
const BATCH: u64 = 1 << 14;

/// How far the sweep of a region is.
struct Walk<'a> {
    code: &'a RegionCode,
    reals: *mut f64,
    ints: *mut i64,
    /// What is left of the trail in this slab.
    trail: Trail,
    /// How many elements were pushed, and their first slot.
    pushed: (u64, Slot),
    /// Slots of the inputs.
    slots: *const Slot,
    /// The adjoints of the outputs.
    outputs: *const f64,
    /// First slots of arrays of other tasks.
    foreign: Vec<i64>,
    /// Those of which elements are owed one by one.
    scattered: Vec<Import>,
    /// To how many elements it has added of which copies were appended.
    copied: u64,
}

/// The part of a trail before the one that starts here, in another slab.
///
/// # Safety
/// There is one.
pub(crate) unsafe fn part_before(start: *const u8) -> Trail {
    // SAFETY: promised by the caller: a part that goes on begins a slab, behind a link that leads to the strip before.
    unsafe {
        let end = link::read::<u8>(Trailer::before(start).at);
        let (bytes, end) = strip::read(Trailer::before(end).at);
        Trail::before(end, bytes as usize)
    }
}

impl<'a> Walk<'a> {
    /// Goes back by so many bytes. They are in one part.
    ///
    /// # Safety
    /// So many are left.
    #[inline(always)]
    unsafe fn back(&mut self, bytes: usize) -> *const u8 {
        // SAFETY: promised by the caller.
        unsafe {
            if self.trail.end == self.trail.start && bytes > 0 {
                self.trail = part_before(self.trail.start);
            }
            self.trail.end = self.trail.end.sub(bytes);
            self.trail.end
        }
    }

    /// Goes back along one of these edges. Returns the block where it comes from.
    ///
    /// # Safety
    /// One of them was taken, and the trail says which.
    #[inline(always)]
    unsafe fn edge(&mut self, edges: &'a [Edge]) -> Option<u16> {
        match edges {
            // Another round: most edges are.
            [edge] if edge.reals.is_empty() && edge.ints.is_empty() && !edge.leaves => edge.from,
            // SAFETY: promised by the caller.
            _ => unsafe { self.loading_edge(edges) },
        }
    }

    /// [`Walk::edge`], where something is loaded from the trail.
    ///
    /// # Safety
    /// As there.
    unsafe fn loading_edge(&mut self, edges: &'a [Edge]) -> Option<u16> {
        // SAFETY: promised by the caller.
        unsafe {
            let edge = self.taken(edges);
            self.along(edge)
        }
    }

    /// Which of these edges was taken, as the trail says if there are several.
    ///
    /// # Safety
    /// As [`Walk::edge`].
    unsafe fn taken(&mut self, edges: &'a [Edge]) -> &'a Edge {
        // SAFETY: promised by the caller.
        let number = if edges.len() > 1 { unsafe { usize::from(*self.back(1)) } } else { 0 };
        &edges[number]
    }

    /// Goes back along the edges that lead to a block. Returns the block where it comes from.
    ///
    /// # Safety
    /// One of them was taken, and the trail or the block says which.
    #[inline(always)]
    unsafe fn before(&mut self, block: &'a BlockAdjoint) -> Option<u16> {
        // SAFETY: promised by the caller; derived code stays in its frame.
        unsafe {
            let Some(way) = &block.way_back else { return self.edge(&block.before) };
            run_straight(&way.code, self.reals, self.ints);
            let rounds = *self.ints.add(usize::from(way.rounds));
            self.along(&block.before[way.edge(rounds)])
        }
    }

    /// Goes back along this edge. Returns the block where it comes from.
    ///
    /// # Safety
    /// It was taken.
    unsafe fn along(&mut self, mut edge: &'a Edge) -> Option<u16> {
        loop {
            // SAFETY: promised by the caller; the frame has the registers.
            unsafe {
                let numbers = edge.numbers();
                let from = self.back(numbers.bytes());
                for (n, &register) in edge.reals.iter().enumerate() {
                    *self.reals.add(usize::from(register)) = from.add(numbers.real(n)).cast::<f64>().read_unaligned();
                }
                for (n, &register) in edge.ints.iter().enumerate() {
                    *self.ints.add(usize::from(register)) = from.add(numbers.int(n)).cast::<i64>().read_unaligned();
                }
                let block = &self.code.blocks[usize::from(edge.from?)];
                if !(edge.leaves && self.skips(block)) {
                    return edge.from;
                }
                edge = self.taken(&block.before);
            }
        }
    }

    /// Skips the rounds of the loop that a block is, if nothing flows back into them.
    ///
    /// # Safety
    /// The trail ends with them.
    unsafe fn skips(&mut self, block: &BlockAdjoint) -> bool {
        let (Some(guard), Some(rounds)) = (&block.guard, block.rounds) else { return false };
        // SAFETY: promised by the caller; the frame has the registers.
        unsafe {
            let bytes = *self.ints.add(usize::from(rounds.register)) as usize * guard.bytes;
            let idle = guard.adjoints.iter().all(|&adjoint| *self.reals.add(usize::from(adjoint)) == 0.0);
            let skips = idle && bytes <= self.trail.end.addr() - self.trail.start.addr();
            if skips {
                self.trail.end = self.trail.end.sub(bytes);
            }
            skips
        }
    }

    /// Runs the adjoint of a block. Returns the block before it.
    ///
    /// # Safety
    /// It is the one that the trail ends with; the frame is that of the record's task.
    #[inline(always)]
    unsafe fn block<'t>(
        &mut self,
        run: &SweepRun<'t>,
        task: &mut OpenTask<'t>,
        block: &'a BlockAdjoint,
    ) -> Option<u16> {
        let (reals, ints) = (self.reals, self.ints);
        // SAFETY: promised by the caller; derived code stays in its frame.
        unsafe {
            let saved = self.back(block.saved.bytes());
            let [real, int] = block.saved_at.map(usize::from);
            block.saved.load(saved, reals.add(real), ints.add(int));
            let (before_steps, behind) = block.code.split_at(block.before_steps);
            run_straight(before_steps, reals, ints);
            for step in &block.builders {
                self.builder(run, task, step);
            }
            for put in &block.puts {
                let (base, index) = (*ints.add(usize::from(put.base)), *ints.add(usize::from(put.index)));
                debug_assert!(base > 0, "what is changed has slots");
                *reals.add(usize::from(put.adjoint)) = task.take(Slot((base + index) as u32));
            }
            run_straight(behind, reals, ints);
            for element in &block.elements {
                let (base, index) = (*ints.add(usize::from(element.base)), *ints.add(usize::from(element.index)));
                let value = *reals.add(usize::from(element.contribution));
                self.add(run, task, (base, index), value);
            }
            run_straight(&block.moves, reals, ints);
            if let Some(rounds) = block.rounds {
                let left = ints.add(usize::from(rounds.register));
                *left -= i64::from(!rounds.stepped);
                if *left != 0 {
                    return self.edge(&block.again);
                }
            }
            self.before(block)
        }
    }

    /// Goes back over what a block did with a builder.
    ///
    /// # Safety
    /// The frame is that of the record's task.
    #[inline(always)]
    unsafe fn builder<'t>(&mut self, run: &SweepRun<'t>, task: &mut OpenTask<'t>, step: &BuilderAdjoint) {
        let (reals, ints) = (self.reals, self.ints);
        // SAFETY: promised by the caller; what a builder became has as many slots as elements.
        unsafe {
            let int = |register: u16| ints.add(usize::from(register));
            match step {
                BuilderAdjoint::Finish { builder, first, len, copied } => {
                    let (first, len) = (*int(*first), *int(*len));
                    if *copied && is_copied(len as u64) {
                        self.back(copy_bytes(len as u64));
                    }
                    (*int(builder.first), *int(builder.left)) = (first, len);
                }
                BuilderAdjoint::Push { builder, adjoints } => {
                    let first = *int(builder.first);
                    let left = int(builder.left);
                    for &register in adjoints {
                        *left -= 1;
                        let adjoint = if first == 0 { 0.0 } else { task.adjoints()[(first + *left) as usize] };
                        *reals.add(usize::from(register)) = adjoint;
                    }
                }
                BuilderAdjoint::Extend { builder, base, from, count } => {
                    let (first, left) = (*int(builder.first), int(builder.left));
                    let (base, from, count) = (*int(*base), *int(*from), *int(*count));
                    *left -= count;
                    if first != 0 && base != 0 {
                        self.copied += count as u64;
                        for n in 0..count {
                            let adjoint = task.adjoints()[(first + *left + n) as usize];
                            self.add(run, task, (base, from + n), adjoint);
                        }
                    }
                }
                BuilderAdjoint::Begin(builder) => *int(builder.first) = 0,
            }
        }
    }

    /// Adds to an element's adjoint.
    ///
    /// # Safety
    /// The frame is that of the record's task, and the trail has told the base.
    #[inline(always)]
    unsafe fn add<'t>(&self, run: &SweepRun<'t>, task: &mut OpenTask<'t>, (base, index): (i64, i64), value: f64) {
        let number = match base {
            1.. => return task.add(Slot((base + index) as u32), value),
            0 => return,
            // Places count from -1.
            _ => !base as usize,
        };
        match self.foreign[number] {
            0 => {
                let found = self.scattered.iter().find(|found| found.number as usize == number);
                if let Some(found) = found.filter(|_| value != 0.0) {
                    let slot = found.slot.offset(index as u32);
                    // SAFETY: promised by the caller: the owner's task is one of the run.
                    unsafe { task.debts.owe(task.node, found.owner.task(), slot, value, &run.inboxes) };
                }
            }
            base => task.add(Slot((base + index) as u32), value),
        }
    }

    /// Gives all registers that last the values that they have at the region's end, but for what the trail holds.
    /// Returns the block that it ends with.
    ///
    /// # Safety
    /// The frame is the code's; the trail is whole.
    unsafe fn begin(&mut self) -> Option<u16> {
        // SAFETY: promised by the caller; each output has a slot.
        unsafe {
            for register in 0..self.code.cleared {
                *self.reals.add(register) = 0.0;
            }
            for (n, &register) in self.code.outputs.iter().enumerate() {
                *self.reals.add(usize::from(register)) = *self.outputs.add(n);
            }
            for made in &self.code.made {
                *self.ints.add(usize::from(made.first)) = 0;
                *self.ints.add(usize::from(made.left)) = 0;
            }
            if let Some(to) = self.code.pushed {
                let (count, first) = self.pushed;
                *self.ints.add(usize::from(to.first)) = first.index() as i64;
                *self.ints.add(usize::from(to.left)) = count as i64;
            }
            self.edge(&self.code.exits)
        }
    }

    /// Adds the contributions to the inputs, when all blocks have run.
    ///
    /// # Safety
    /// As [`Walk::begin`].
    unsafe fn end(&self, task: &mut OpenTask<'_>) {
        for (n, &register) in self.code.contributions.iter().enumerate() {
            // SAFETY: promised by the caller; each contribution has a slot.
            unsafe { task.add(self.slots.add(n).read_unaligned(), *self.reals.add(usize::from(register))) };
        }
    }

    /// Adds what elements of a builder have in the end that the region has changed to what they had before, from one
    /// on. Returns where it goes on, if there are many.
    ///
    /// # Safety
    /// As [`Walk::begin`]; all blocks have run.
    unsafe fn give_back(&self, task: &mut OpenTask<'_>, changed: &ChangedArray, next: usize) -> Option<usize> {
        // SAFETY: the frame has the registers, and they last.
        let [before, first, len] = [changed.before, changed.first, changed.len]
            .map(|register| unsafe { *self.ints.add(usize::from(register)) } as usize);
        if before == 0 || first == 0 {
            return None;
        }
        let end = len.min(next + BATCH as usize);
        for n in next..end {
            task.add(Slot((before + n) as u32), task.adjoints()[first + n]);
        }
        Some(end).filter(|&end| end < len)
    }

    /// Runs natively. Returns the block to go on with in the interpreter, if the region isn't done.
    ///
    /// # Errors
    /// What the sweep says when it is asked whether to stop.
    fn native(
        &mut self,
        native: RegionFn,
        task: &mut OpenTask<'_>,
        (sweep, run): (&Sweep, &SweepRun<'_>),
    ) -> Result<Option<u16>, TrapKind> {
        let (count, pushed) = self.pushed;
        let begun = RegionRun {
            reals: self.reals,
            ints: self.ints,
            adjoints: task.adjoints,
            at: self.trail.end,
            start: self.trail.start,
            foreign: self.foreign.as_ptr(),
            pushed: [pushed.index() as i64, count as i64],
            outputs: self.outputs,
            slots: self.slots.cast(),
            block: 0,
            budget: BATCH,
        };
        let mut polled = Polled { region: begun, sweep, run, stopped: None };
        // SAFETY: the frame has room for the region's code; the trail ends with the region's last block.
        let status = unsafe { native((&raw mut polled).cast()) };
        let Polled { region, stopped, .. } = polled;
        self.trail = Trail { start: region.start, end: region.at };
        match (status, stopped) {
            (REGION_STOPPED, Some(kind)) => Err(kind),
            (REGION_DONE, _) => Ok(None),
            _ => Ok(Some(region.block as u16)),
        }
    }
}

/// A region that runs natively, with whom to ask whether it goes on.
#[repr(C)]
struct Polled<'s, 'r> {
    region: RegionRun,
    sweep: &'s Sweep,
    run: &'s SweepRun<'r>,
    stopped: Option<TrapKind>,
}

/// See [`crate::native::REGION_POLL`].
///
/// # Safety
/// As it says.
pub(crate) unsafe extern "C" fn poll_region(run: *mut RegionRun) -> u64 {
    // SAFETY: what native code is given is the first part of this, which nobody else uses while it runs.
    let polled = unsafe { &mut *run.cast::<Polled<'_, '_>>() };
    match polled.sweep.poll(polled.run) {
        Ok(()) => BATCH,
        Err(kind) => {
            polled.stopped = Some(kind);
            0
        }
    }
}

impl Sweep {
    /// Sweeps the record of this region, whose outputs have slots from `first` on. Returns where it starts, or where
    /// the strips before it end if nothing flows back.
    ///
    /// # Safety
    /// `trailer` is that of such a record.
    #[inline(never)]
    pub(super) unsafe fn region<'a>(
        &mut self,
        run: &SweepRun<'a>,
        frame: &mut OpenTask<'a>,
        (met, first): (&mut Met<'a, RegionCode, RegionFn>, Slot),
        trailer: *const u32,
    ) -> Result<*const u8, TrapKind> {
        let code = met.code;
        // SAFETY: promised by the caller.
        let tail = unsafe { RegionTail::read(code.layout, trailer) };
        let scattered = std::mem::take(&mut self.scattered);
        let adjoints = frame.adjoints();
        let outputs = &adjoints[first.index()..first.index() + code.outputs.len()];
        let (count, pushed) = tail.pushed;
        let elements = if pushed.is_none() { &[] } else { &adjoints[pushed.index()..][..count as usize] };
        let made = &adjoints[tail.made_slots[0].index()..tail.made_slots[1].index()];
        // As for segments: all zero means that nothing flows back.
        let mut start = tail.trail.start;
        if ![outputs, elements, made].into_iter().all(are_zero) {
            self.make_registers(code.reals, code.ints);
            // SAFETY: the record has so many.
            let foreign = (0..tail.foreign_count).map(|n| unsafe { tail.foreign.add(n).read_unaligned() });
            let foreign = foreign.map(|slot| i64::from(slot.0 as i32));
            let mut walk = Walk {
                code,
                reals: self.reals.as_mut_ptr(),
                ints: self.ints.as_mut_ptr(),
                trail: tail.trail,
                pushed: tail.pushed,
                slots: tail.slots,
                outputs: outputs.as_ptr(),
                // Nearly always there are none.
                foreign: if tail.foreign_count == 0 { Vec::new() } else { foreign.collect() },
                scattered,
                copied: 0,
            };
            let native = if walk.scattered.is_empty() {
                let tier = run.program.tier.as_ref();
                let find = || tier?.region(run.program, (met.id, code), tail.cost, run.account);
                met.native = met.native.or_else(find);
                met.native
            } else {
                None
            };
            // SAFETY: promised by the caller.
            unsafe {
                let mut next = match native {
                    Some(native) => walk.native(native, frame, (self, run))?,
                    None => walk.begin(),
                };
                let done_natively = native.is_some() && next.is_none();
                let mut steps = 0u64;
                while let Some(number) = next {
                    let adjoint = &code.blocks[usize::from(number)];
                    next = walk.block(run, frame, adjoint);
                    steps += 1 + adjoint.code.len() as u64 / 16 + std::mem::take(&mut walk.copied) / 16;
                    if steps >= BATCH && next.is_some() {
                        steps = 0;
                        self.poll(run)?;
                    }
                }
                if !done_natively {
                    walk.end(frame);
                }
                for changed in &code.changed {
                    let mut next = 0;
                    while let Some(after) = walk.give_back(frame, changed, next) {
                        self.poll(run)?;
                        next = after;
                    }
                }
                start = walk.trail.start;
                debug_assert_eq!(start, walk.trail.end, "all of the trail is read");
            }
        }
        if !self.loop_imports.is_empty() {
            // SAFETY: they were imported for this region.
            unsafe { self.pay_loop_imports(run, frame) }?;
        }
        Ok(start)
    }

    /// Skips the strip of a region of which nothing flows back. Returns its start.
    ///
    /// # Safety
    /// `trailer` is that of such a strip.
    #[cold]
    pub(super) unsafe fn skip_strip(&self, trailer: *const u32) -> *const u8 {
        // SAFETY: promised by the caller.
        unsafe {
            let (bytes, end) = strip::read(trailer);
            Trail::before(end, bytes as usize).start
        }
    }
}
