//! The sweep of a loop's record: its iterations from the last to the first, strip by strip.
//!
//! The adjoints of the loop's state stay in registers throughout. In each iteration, contributions to elements of
//! arrays are added to their slots in the order in which the loop loads them; contributions to reals that the loop
//! doesn't change add up in registers, from the last iteration to the first. In the end the contributions to all inputs
//! are added to their slots, one after the other: two of them may be one slot. Native code does all of this from what
//! the record holds; the frame has a part in it only where a strip ends or the interpreter takes over.

use super::tasks::SweepRun;
use super::{OpenTask, Sweep, are_zero};
use crate::code::run_straight;
use crate::native::{LOOP_UNBEGUN, LOOP_WHOLE_MAX, LoopFn, LoopRun};
use crate::records::import::Import;
use crate::records::recorded_loop::{LoopCode, LoopTail};
use crate::records::strip;
use crate::trap::TrapKind;
use crate::word::Slot;
use std::ptr;

/// Iterations between two looks at the clock.
const BATCH: u64 = LOOP_WHOLE_MAX;

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
    /// The trailer of its record.
    trailer: *const u32,
    /// Iterations that are left.
    left: u64,
    /// Whether nothing flows back.
    idle: bool,
    native: Option<LoopFn>,
    /// Whether iterations have been swept.
    resumed: bool,
    /// Arrays of other tasks that it reads here and there.
    scattered: Vec<Import>,
}

impl OpenLoop<'_> {
    fn tail(&self) -> LoopTail {
        // SAFETY: it has such a record.
        unsafe { LoopTail::read(self.code, self.trailer) }
    }
}

impl Sweep {
    /// Sweeps a loop's record that native code runs at one go. Returns the record's start; `None` if it is no such
    /// record.
    ///
    /// # Safety
    /// `trailer` is that of a record of the loop, which reads no array of another task here and there.
    #[inline(always)]
    pub(super) unsafe fn whole_loop<'a>(
        &mut self,
        run: &SweepRun<'a>,
        frame: &mut OpenTask<'a>,
        (code, native): (&'a LoopCode, LoopFn),
        trailer: *const u32,
    ) -> Result<Option<*const u8>, TrapKind> {
        self.make_registers(code.reals, code.ints);
        let whole = LoopRun {
            trailer,
            adjoints: frame.adjoints,
            reals: self.reals.as_mut_ptr(),
            ints: self.ints.as_mut_ptr(),
            entries_end: ptr::null(),
            last: 0,
            count: 0,
            resumed: 0,
        };
        // SAFETY: promised by the caller; the frame has room for the loop's code.
        unsafe {
            let left = native(&whole);
            if left == LOOP_UNBEGUN {
                return Ok(None);
            }
            if left > 0 {
                self.interpret_rest(run, frame, code, trailer, left);
            }
            if !self.loop_imports.is_empty() {
                self.pay_loop_imports(run, frame)?;
            }
            Ok(Some(LoopTail::read(code, trailer).start(code)))
        }
    }

    /// Sweeps the first iterations of a loop's record, which native code has left.
    ///
    /// # Safety
    /// As [`Sweep::whole_loop`]; so many are left.
    #[cold]
    unsafe fn interpret_rest<'a>(
        &mut self,
        run: &SweepRun<'a>,
        frame: &mut OpenTask<'a>,
        code: &'a LoopCode,
        trailer: *const u32,
        left: u64,
    ) {
        let found = OpenLoop { code, trailer, left, idle: false, native: None, resumed: true, scattered: Vec::new() };
        // SAFETY: promised by the caller: the entries of those that are left come first.
        unsafe {
            self.take_over(&found);
            let end = found.tail().start(code).add(code.entry_bytes() * left as usize);
            self.batch(run, frame, &found, end, left, left);
            self.contribute(frame, &found);
        }
    }

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
        let tier = program.tier.as_ref().filter(|_| !idle && left > 0 && scattered.is_empty());
        let native = tier.and_then(|tier| tier.recorded_loop(program, (id, code), left, run.account));
        let found = OpenLoop { code, trailer, left, idle, native, resumed: false, scattered };
        if !idle {
            self.make_registers(code.reals, code.ints);
        }
        // SAFETY: promised by the caller: the record's entries and what it saved stand where its trailer says.
        unsafe {
            if !idle && native.is_none() {
                self.begin(&found, frame, first);
            }
            self.iterations(run, frame, found, (once, entries), open)
        }
    }

    /// Gives all registers that last their values after the last iteration. The outputs have slots from `first` on.
    ///
    /// # Safety
    /// The frame is the code's.
    unsafe fn begin(&mut self, found: &OpenLoop<'_>, frame: &OpenTask<'_>, first: Slot) {
        let code = found.code;
        self.reals[..code.frame.cleared].fill(0.0);
        for (&register, &adjoint) in code.outputs.iter().zip(&frame.adjoints()[first.index()..]) {
            self.reals[usize::from(register)] = adjoint;
        }
        // SAFETY: promised by the caller.
        unsafe { self.load_once(found) };
    }

    /// Gives those their values that no iteration changes, and induction registers theirs after the last one.
    ///
    /// # Safety
    /// As [`Sweep::begin`].
    unsafe fn load_once(&mut self, found: &OpenLoop<'_>) {
        let code = found.code;
        let [real, int] = code.frame.once();
        let (reals, ints) = (self.reals.as_mut_ptr(), self.ints.as_mut_ptr());
        // SAFETY: promised by the caller; derived code stays in its frame.
        unsafe {
            code.layout.once.load(found.tail().once, reals.add(real), ints.add(int));
            run_straight(&code.prologue, reals, ints);
        }
    }

    /// Takes over from native code, which has put into the frame what changes from iteration to iteration, and no more.
    ///
    /// # Safety
    /// As [`Sweep::begin`].
    #[cold]
    unsafe fn take_over(&mut self, found: &OpenLoop<'_>) {
        let stepped = found.code.stepped().map(usize::from);
        let stepped: Vec<(usize, i64)> = stepped.map(|register| (register, self.ints[register])).collect();
        // SAFETY: promised by the caller.
        unsafe { self.load_once(found) };
        for (register, value) in stepped {
            self.ints[register] = value;
        }
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
        // Whether the native code has added the contributions, if it has run the first iteration.
        let mut natively = false;
        if !found.idle {
            let mut at = end;
            let mut left = count;
            while left > 0 {
                let batch = left.min(BATCH);
                let last = found.left - (count - left);
                // SAFETY: the frame has room for the code; so many entries are left.
                unsafe {
                    let done = match found.native {
                        Some(native) => self.native_batch(frame, &found, native, at, last, batch),
                        None => 0,
                    };
                    found.resumed = true;
                    natively = done == batch;
                    at = at.sub(code.entry_bytes() * done as usize);
                    if !natively {
                        if found.native.is_some() {
                            self.take_over(&found);
                        }
                        at = self.batch(run, frame, &found, at, last - done, batch - done);
                    }
                }
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
        if !found.idle && !natively {
            // SAFETY: promised by the caller.
            unsafe { self.contribute(frame, &found) };
        }
        // SAFETY: they were imported for this loop.
        unsafe { self.pay_loop_imports(run, frame) }?;
        Ok(start)
    }

    /// Adds the contributions to the inputs, when all iterations have run.
    ///
    /// # Safety
    /// As [`Sweep::iterations`].
    unsafe fn contribute(&self, frame: &mut OpenTask<'_>, found: &OpenLoop<'_>) {
        let slots = found.tail().slots;
        for (n, &register) in found.code.contributions.iter().enumerate() {
            // SAFETY: the record holds the slots of its inputs first.
            let slot = unsafe { slots.add(n).read_unaligned() };
            frame.add(slot, self.reals[usize::from(register)]);
        }
    }

    /// Runs up to `count` iterations natively, as [`Sweep::batch`]. Returns how many. With the first one of the loop,
    /// its inputs get their contributions.
    ///
    /// # Safety
    /// As [`Sweep::iterations`].
    unsafe fn native_batch(
        &mut self,
        frame: &mut OpenTask<'_>,
        found: &OpenLoop<'_>,
        native: LoopFn,
        at: *const u8,
        last: u64,
        count: u64,
    ) -> u64 {
        let run = LoopRun {
            trailer: found.trailer,
            adjoints: frame.adjoints,
            reals: self.reals.as_mut_ptr(),
            ints: self.ints.as_mut_ptr(),
            entries_end: at,
            last,
            count,
            resumed: u64::from(found.resumed),
        };
        // SAFETY: promised by the caller.
        count - unsafe { native(&run) }
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
        let OpenLoop { code, ref scattered, .. } = *found;
        let slots = found.tail().slots;
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
