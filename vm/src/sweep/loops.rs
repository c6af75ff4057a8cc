//! The sweep of a loop's record: its iterations from the last to the first, strip by strip.
//!
//! The adjoints of the loop's state stay in registers throughout. In each iteration, contributions to elements of
//! arrays are added to their slots in the order in which the loop loads them; contributions to reals that the loop
//! doesn't change add up in registers, from the last iteration to the first. In the end the contributions to all inputs
//! are added to their slots, one after the other: two of them may be one slot.

use super::tasks::SweepRun;
use super::{OpenTask, Sweep, are_zero};
use crate::code::run_straight;
use crate::native::{LoopFn, LoopRun};
use crate::records::import::Import;
use crate::records::recorded_loop::{LoopCode, LoopTail};
use crate::records::strip;
use crate::trap::TrapKind;
use crate::word::Slot;

/// Iterations between two looks at the clock.
const BATCH: u64 = 1 << 14;

/// The first slot of what a loop pushed; none if it is constant or there is nothing.
///
/// # Safety
/// `slots` are those of a record of this loop.
unsafe fn pushed_slots(code: &LoopCode, slots: *const Slot) -> Slot {
    // SAFETY: promised by the caller.
    code.layout.pushed().map_or(Slot::NONE, |n| unsafe { slots.add(n).read_unaligned() })
}

/// A loop of which strips are left.
#[derive(Debug)]
pub(super) struct OpenLoop<'a> {
    code: &'a LoopCode,
    /// Iterations that are left.
    left: u64,
    /// Where the slots stand in the record: inputs, then arrays.
    slots: *const Slot,
    /// Whether nothing flows back.
    idle: bool,
    native: Option<LoopFn>,
    /// Arrays of other tasks that it reads here and there.
    scattered: Vec<Import>,
}

impl Sweep {
    /// Begins the sweep of a loop with the record at its end. Returns the record's start.
    ///
    /// # Safety
    /// `trailer` is that of a record of the loop of this number, whose outputs have slots from `first` on.
    #[inline(never)]
    pub(super) unsafe fn recorded_loop<'a>(
        &mut self,
        run: &SweepRun<'a>,
        frame: &mut OpenTask<'a>,
        (id, first): (u32, Slot),
        trailer: *const u32,
        open: &mut Option<OpenLoop<'a>>,
    ) -> Result<*const u8, TrapKind> {
        let program = run.program;
        let code = program.recorded_loop(id);
        // SAFETY: promised by the caller.
        let LoopTail { iterations: left, entries, once, slots } = unsafe { LoopTail::read(code, trailer) };
        let scattered = std::mem::take(&mut self.scattered);
        let adjoints = frame.adjoints();
        let outputs = &adjoints[first.index()..first.index() + code.slots()];
        // As for segments: all zero means that nothing flows back.
        // SAFETY: the record says where the slots of what was pushed begin, and so many were given out.
        let pushed = unsafe { pushed_slots(code, slots) };
        let pushed = if pushed.is_none() { &[] } else { &adjoints[pushed.index()..][..left as usize] };
        let idle = are_zero(outputs) && are_zero(pushed);
        if !idle {
            if self.reals.len() < code.reals {
                self.reals.resize(code.reals, 0.0);
            }
            if self.ints.len() < code.ints {
                self.ints.resize(code.ints, 0);
            }
            self.reals[..code.frame.cleared].fill(0.0);
            for (&register, &adjoint) in code.outputs.iter().zip(outputs) {
                self.reals[usize::from(register)] = adjoint;
            }
            let [real, int] = code.frame.once();
            let (reals, ints) = (self.reals.as_mut_ptr(), self.ints.as_mut_ptr());
            // SAFETY: promised by the caller; the frame is large enough, and derived code stays in it.
            unsafe {
                code.layout.once.load(once, reals.add(real), ints.add(int));
                run_straight(&code.prologue, reals, ints);
            }
        }
        let tier = program.tier.as_ref().filter(|_| scattered.is_empty());
        let native = tier.and_then(|tier| tier.recorded_loop(program, id, left, run.account));
        let found = OpenLoop { code, left, slots, idle, native, scattered };
        // SAFETY: promised by the caller: the record's entries and what it saved stand where its trailer says.
        unsafe { self.iterations(run, frame, found, (once, entries), open) }
    }

    /// Sweeps a strip of the open loop. Returns its start.
    ///
    /// # Safety
    /// `trailer` is that of a strip, `open` the loop that it belongs to.
    #[cold]
    pub(super) unsafe fn strip<'a>(
        &mut self,
        run: &SweepRun<'a>,
        frame: &mut OpenTask<'a>,
        trailer: *const u32,
        open: &mut Option<OpenLoop<'a>>,
    ) -> Result<*const u8, TrapKind> {
        let found = open.take().expect("a strip is followed by more of its loop");
        // SAFETY: promised by the caller.
        unsafe {
            let (entries, end) = strip::read(trailer);
            self.iterations(run, frame, found, (end, entries), open)
        }
    }

    /// Sweeps the iterations whose entries end at `end`. If these are the first ones of the loop, its inputs get their
    /// contributions, else it stays open. Returns where the entries start.
    ///
    /// # Safety
    /// So many entries stand there; the frame is that of the loop.
    unsafe fn iterations<'a>(
        &mut self,
        run: &SweepRun<'a>,
        frame: &mut OpenTask<'a>,
        mut found: OpenLoop<'a>,
        (end, entries): (*const u8, u32),
        open: &mut Option<OpenLoop<'a>>,
    ) -> Result<*const u8, TrapKind> {
        let code = found.code;
        let count = if code.entry_bytes() == 0 { found.left } else { u64::from(entries) };
        // SAFETY: the entries stand before `end`.
        let start = unsafe { end.sub(code.entry_bytes() * entries as usize) };
        if !found.idle {
            let mut at = end;
            let mut left = count;
            while left > 0 {
                let batch = left.min(BATCH);
                let last = found.left - (count - left);
                // SAFETY: the frame has room for the code; so many entries are left.
                let done = match found.native {
                    Some(native) => self.native_batch(frame, &found, native, at, last, batch),
                    None => 0,
                };
                // SAFETY: the frame has room for the code; so many entries are left.
                at = unsafe {
                    let at = at.sub(code.entry_bytes() * done as usize);
                    self.batch(run, frame, &found, at, last - done, batch - done)
                };
                left -= batch;
                if left > 0 {
                    self.poll(run)?;
                }
            }
        }
        found.left -= count;
        if found.left > 0 {
            *open = Some(found);
            return Ok(start);
        }
        if !found.idle {
            for (n, &register) in code.contributions.iter().enumerate() {
                // SAFETY: the record holds the slots of its inputs first.
                let slot = unsafe { found.slots.add(n).read_unaligned() };
                frame.add(slot, self.reals[usize::from(register)]);
            }
        }
        // SAFETY: they were imported for this loop.
        unsafe { self.pay_loop_imports(run, frame) }?;
        Ok(start)
    }

    /// Runs up to `count` iterations natively, as [`Sweep::batch`]. Returns how many.
    fn native_batch(
        &mut self,
        frame: &mut OpenTask<'_>,
        found: &OpenLoop<'_>,
        native: LoopFn,
        at: *const u8,
        last: u64,
        count: u64,
    ) -> u64 {
        let run = LoopRun {
            reals: self.reals.as_mut_ptr(),
            ints: self.ints.as_mut_ptr(),
            slots: found.slots.cast(),
            adjoints: frame.adjoints,
            entries_end: at,
            last,
            count,
        };
        // SAFETY: the frame has room for the loop's code; so many entries are left.
        unsafe { native(&run) }
    }

    /// Runs `count` iterations backwards, from the `last`, counted from 1. Returns where their entries start.
    ///
    /// # Safety
    /// As [`Sweep::iterations`].
    unsafe fn batch<'a>(
        &mut self,
        run: &SweepRun<'a>,
        frame: &mut OpenTask<'a>,
        found: &OpenLoop<'_>,
        mut at: *const u8,
        last: u64,
        count: u64,
    ) -> *const u8 {
        let OpenLoop { code, slots, ref scattered, .. } = *found;
        let (entry, entry_bytes) = (code.layout.entry, code.entry_bytes());
        let (reals, ints) = (self.reals.as_mut_ptr(), self.ints.as_mut_ptr());
        let [real, int] = code.frame.entry();
        // SAFETY: registers that the code names are in the frame; the record holds what is read from it.
        unsafe {
            let (saved_reals, saved_ints) = (reals.add(real), ints.add(int));
            let firsts = slots.add(code.layout.array(0));
            let pushed = pushed_slots(code, slots);
            for n in 0..count {
                if let Some(register) = code.pushed {
                    let slot = pushed.index() + (last - 1 - n) as usize;
                    let adjoint = if pushed.is_none() { 0.0 } else { frame.adjoints()[slot] };
                    *reals.add(usize::from(register)) = adjoint;
                }
                at = at.sub(entry_bytes);
                entry.load(at, saved_reals, saved_ints);
                run_straight(&code.body, reals, ints);
                for element in &code.elements {
                    let first = firsts.add(usize::from(element.array)).read_unaligned();
                    let (index, value) =
                        (*ints.add(usize::from(element.index)), *reals.add(usize::from(element.contribution)));
                    if !first.is_none() {
                        frame.add(first.wrapping_offset(index), value);
                    } else if let Some(found) = scattered.iter().find(|found| found.number == u32::from(element.array))
                        && value != 0.0
                    {
                        let slot = found.slot.offset(index as u32);
                        frame.debts.owe(frame.node, found.owner.task(), slot, value, &run.inboxes);
                    }
                }
                run_straight(&code.moves, reals, ints);
            }
        }
        at
    }
}
