//! The sweep of a loop's record: its iterations from the last to the first, strip by strip.
//!
//! The adjoints of the loop's state stay in registers throughout. In each iteration, contributions to elements of
//! arrays are added to their slots in the order in which the loop loads them; contributions to reals that the loop
//! doesn't change add up in registers, from the last iteration to the first. In the end the contributions to all inputs
//! are added to their slots, one after the other: two of them may be one slot.

use super::{Sweep, run_straight};
use crate::loop_record::LoopCode;
use crate::meter::Meter;
use crate::native::{LoopFn, LoopRun};
use crate::program::Program;
use crate::tape::STRIP_BYTES;
use crate::trap::TrapKind;

/// Iterations between two looks at the clock.
const BATCH: u64 = 1 << 14;

/// The first slot of what a loop pushed; 0 if it is constant or there is nothing.
///
/// # Safety
/// `slots` are those of a record of this loop.
unsafe fn pushed_slots(code: &LoopCode, slots: *const u32) -> u32 {
    if code.pushed.is_none() {
        return 0;
    }
    // SAFETY: it stands behind the slots of inputs and arrays.
    unsafe { slots.add(code.contributions.len() + code.arrays as usize).read_unaligned() }
}

/// A loop of which strips are left.
#[derive(Debug)]
pub(super) struct OpenLoop<'a> {
    code: &'a LoopCode,
    /// Iterations that are left.
    left: u64,
    /// Where the slots stand in the record: inputs, then arrays.
    slots: *const u32,
    /// Whether nothing flows back.
    idle: bool,
    native: Option<LoopFn>,
}

impl Sweep {
    /// Begins the sweep of a loop with the record at its end. Returns the record's start.
    ///
    /// # Safety
    /// `trailer` is that of a record of this loop.
    #[inline(never)]
    pub(super) unsafe fn recorded_loop<'a>(
        &mut self,
        trailer: *const u32,
        program: &'a Program,
        open: &mut Option<OpenLoop<'a>>,
        meter: &Meter,
    ) -> Result<*const u8, TrapKind> {
        // SAFETY: promised by the caller.
        let (id, first) = unsafe { (trailer.read_unaligned(), trailer.add(1).read_unaligned()) };
        let code = program.recorded_loop(id);
        let (once_reals, once_ints) = (code.once_reals as usize, code.once_ints as usize);
        // SAFETY: the record's parts stand in this order before the trailer.
        let (left, entries, slots, ints, reals) = unsafe {
            let counts = trailer.sub(3);
            let [low, high, entries] = [0, 1, 2].map(|n| counts.add(n).read_unaligned());
            let pushed = usize::from(code.pushed.is_some());
            let slots = counts.sub(code.contributions.len() + code.arrays as usize + pushed);
            let ints = slots.cast::<i64>().sub(once_ints);
            (u64::from(low) | u64::from(high) << 32, entries, slots, ints, ints.cast::<f64>().sub(once_reals))
        };
        let outputs = &self.adjoints[first as usize..first as usize + code.slots()];
        // As for segments: all zero means that nothing flows back.
        // SAFETY: the record says where the slots of what was pushed begin, and so many were given out.
        let pushed = unsafe { pushed_slots(code, slots) };
        let pushed = if pushed == 0 { &[] } else { &self.adjoints[pushed as usize..][..left as usize] };
        let idle = outputs.iter().chain(pushed).all(|&adjoint| adjoint == 0.0);
        if !idle {
            if self.reals.len() < code.reals {
                self.reals.resize(code.reals, 0.0);
            }
            if self.ints.len() < code.ints {
                self.ints.resize(code.ints, 0);
            }
            let cleared = code.cleared as usize;
            self.reals[..cleared].fill(0.0);
            for (&register, &adjoint) in code.outputs.iter().zip(outputs) {
                self.reals[usize::from(register)] = adjoint;
            }
            // SAFETY: the record holds these numbers, unaligned; derived code stays in the frame.
            unsafe {
                for (n, register) in self.reals[cleared..cleared + once_reals].iter_mut().enumerate() {
                    *register = reals.add(n).read_unaligned();
                }
                for (n, register) in self.ints[..once_ints].iter_mut().enumerate() {
                    *register = ints.add(n).read_unaligned();
                }
                run_straight(&code.prologue, self.reals.as_mut_ptr(), self.ints.as_mut_ptr());
            }
        }
        let native = program.tier.as_ref().and_then(|tier| tier.recorded_loop(id, code, left));
        // SAFETY: the entries stand before the record's numbers.
        unsafe { self.iterations(OpenLoop { code, left, slots, idle, native }, reals.cast(), entries, open, meter) }
    }

    /// Sweeps a strip of the open loop. Returns its start.
    ///
    /// # Safety
    /// `trailer` is that of a strip, `open` the loop that it belongs to.
    #[cold]
    pub(super) unsafe fn strip(
        &mut self,
        trailer: *const u32,
        open: &mut Option<OpenLoop<'_>>,
        meter: &Meter,
    ) -> Result<*const u8, TrapKind> {
        let found = open.take().expect("a strip is followed by more of its loop");
        // SAFETY: the number of entries stands before the trailer, the entries before that.
        unsafe {
            let entries = trailer.sub(1).read_unaligned();
            let end = trailer.cast::<u8>().add(super::TRAILER_BYTES).sub(STRIP_BYTES);
            self.iterations(found, end, entries, open, meter)
        }
    }

    /// Sweeps the iterations whose entries end at `end`. If these are the first ones of the loop, its inputs get their
    /// contributions, else it stays open. Returns where the entries start.
    ///
    /// # Safety
    /// So many entries stand there; the frame is that of the loop.
    unsafe fn iterations<'a>(
        &mut self,
        mut found: OpenLoop<'a>,
        end: *const u8,
        entries: u32,
        open: &mut Option<OpenLoop<'a>>,
        meter: &Meter,
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
                    Some(native) => self.native_batch(&found, native, at, last, batch),
                    None => 0,
                };
                // SAFETY: the frame has room for the code; so many entries are left.
                at = unsafe {
                    let at = at.sub(code.entry_bytes() * done as usize);
                    self.batch(&found, at, last - done, batch - done)
                };
                left -= batch;
                if left > 0 {
                    meter.poll()?;
                }
            }
        }
        found.left -= count;
        if found.left > 0 {
            *open = Some(found);
        } else if !found.idle {
            for (n, &register) in code.contributions.iter().enumerate() {
                // SAFETY: the record holds the slots of its inputs first.
                let slot = unsafe { found.slots.add(n).read_unaligned() };
                self.adjoints[slot as usize] += self.reals[usize::from(register)];
            }
        }
        Ok(start)
    }

    /// Runs up to `count` iterations natively, as [`Sweep::batch`]. Returns how many.
    fn native_batch(&mut self, found: &OpenLoop<'_>, native: LoopFn, at: *const u8, last: u64, count: u64) -> u64 {
        let run = LoopRun {
            reals: self.reals.as_mut_ptr(),
            ints: self.ints.as_mut_ptr(),
            slots: found.slots,
            adjoints: self.adjoints.as_mut_ptr(),
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
    unsafe fn batch(&mut self, found: &OpenLoop<'_>, mut at: *const u8, last: u64, count: u64) -> *const u8 {
        let OpenLoop { code, slots, .. } = *found;
        let (entry_reals, entry_ints) = (code.entry_reals as usize, code.entry_ints as usize);
        let entry_bytes = code.entry_bytes();
        let (reals, ints) = (self.reals.as_mut_ptr(), self.ints.as_mut_ptr());
        // SAFETY: registers that the code names are in the frame; the record holds what is read from it.
        unsafe {
            let saved_reals = reals.add((code.cleared + code.once_reals) as usize);
            let saved_ints = ints.add(code.once_ints as usize);
            let firsts = slots.add(code.contributions.len());
            let pushed = pushed_slots(code, slots);
            for n in 0..count {
                if let Some(register) = code.pushed {
                    let slot = pushed as usize + (last - 1 - n) as usize;
                    let adjoint = if pushed == 0 { 0.0 } else { self.adjoints[slot] };
                    *reals.add(usize::from(register)) = adjoint;
                }
                at = at.sub(entry_bytes);
                let entry = at.cast::<f64>();
                for n in 0..entry_reals {
                    *saved_reals.add(n) = entry.add(n).read_unaligned();
                }
                let entry = entry.add(entry_reals).cast::<i64>();
                for n in 0..entry_ints {
                    *saved_ints.add(n) = entry.add(n).read_unaligned();
                }
                run_straight(&code.body, reals, ints);
                for element in &code.elements {
                    let first = firsts.add(usize::from(element.array)).read_unaligned();
                    if first != 0 {
                        let index = *ints.add(usize::from(element.index)) as usize;
                        self.adjoints[first as usize + index] += *reals.add(usize::from(element.contribution));
                    }
                }
                run_straight(&code.moves, reals, ints);
            }
        }
        at
    }
}
