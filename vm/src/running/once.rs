//! What a `once` does when it runs: the constant is there, or is computed now.
//!
//! The function of a constant runs above whatever asks for it, as a call would, but in the same way whoever that is:
//! with all the depth that calls may have, without anything around it being recorded, and, where other executions run,
//! without offering them a part of it. So who waits for it waits for one execution that goes on.
//!
//! What it costs is paid once, by who computes it. If that is a task, it counts neither to the longest way through the
//! forks nor to what a checkpoint's sweep will take: so neither depends on the schedule.

use super::constants::Constant;
use super::registers::{Gathered, Registers};
use super::worker::Worker;
use crate::code::{Counts, Mode, OperatorSite};
use crate::memory::stack::stack_pointer;
use crate::trap::{Limit, TrapKind};
use crate::word::Word;
use std::sync::atomic::AtomicBool;

impl Worker {
    /// Gives a constant.
    ///
    /// # Safety
    /// As [`Worker::operate`]; the caller restores the mode.
    pub(super) unsafe fn give_constant(&mut self, site: &OperatorSite, args: Registers) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller; **Running**, so the pointer leads to the program.
        unsafe {
            let (info, number) = (self.exec.info(), (*self.exec.program).constant(site.func));
            let constant = match info.constants.get(number) {
                Some(constant) => constant,
                None => self.constant(site, number, args)?,
            };
            if self.exec.listens && !constant.lines.is_empty() {
                self.show_of_constant(number, constant)?;
            }
            if let Some((kind, trace)) = &constant.trapped {
                self.exec.trace.clone_from(trace);
                return Err(kind.clone());
            }
            let (results, depth) = (args.after(&site.uses_count), self.exec.mode.depth());
            let Gathered { reals, ints, refs, .. } = &constant.values;
            for (n, &value) in reals.iter().enumerate() {
                for part in 0..1usize << depth {
                    let at = (n << depth) + part;
                    *results.reals.add(at) = if part == 0 { value } else { 0.0 };
                    if self.exec.mode.is_recording() {
                        *results.words.add(at) = Word::CONSTANT;
                    }
                }
            }
            results.ints.copy_from_nonoverlapping(ints.as_ptr(), ints.len());
            results.refs.copy_from_nonoverlapping(refs.as_ptr(), refs.len());
        }
        Ok(())
    }

    /// A constant that was not there a moment ago.
    ///
    /// # Safety
    /// As [`Worker::give_constant`].
    #[cold]
    #[inline(never)]
    unsafe fn constant(
        &mut self,
        site: &OperatorSite,
        number: usize,
        base: Registers,
    ) -> Result<&'static Constant, TrapKind> {
        // SAFETY: promised by the caller.
        let constants = unsafe { self.exec.info() }.constants;
        if let Some(constant) = constants.claim(number) {
            return Ok(constant);
        }
        // SAFETY: promised by the caller.
        match unsafe { self.compute(site, number, base) } {
            Ok(()) => Ok(constants.get(number).expect("it was kept")),
            Err(kind) => {
                constants.give_up(number);
                Err(kind)
            }
        }
    }

    /// Computes a constant that this execution has claimed.
    ///
    /// # Safety
    /// As [`Worker::give_constant`].
    unsafe fn compute(&mut self, site: &OperatorSite, number: usize, base: Registers) -> Result<(), TrapKind> {
        let here = stack_pointer();
        if here < self.stacks.native_limit {
            self.grow_native(here)?;
        }
        // SAFETY: promised by the caller.
        unsafe {
            self.room_above(base, (site.results.reals, 0), false)?;
            let info = self.exec.info();
            let (rooms, recording) = (self.stacks.rooms(), self.exec.mode.is_recording());
            let (used, span) = (self.exec.meter().used(self.exec.fuel), self.exec.span());
            let lines = std::mem::take(&mut self.exec.lines);
            let exec = &mut self.exec;
            let outside = (exec.mode, exec.computes, exec.alone, exec.listens, exec.roots);
            let floor = self.exec.heap.raise_floor();
            let kept = recording.then(|| self.exec.tape.raise_floor());
            (self.exec.mode, self.exec.computes, self.exec.roots) = (Mode::PRIMAL, true, base.refs);
            self.exec.alone |= self.exec.forked;
            // Who asks for it next may listen.
            self.exec.listens = info.listening.is_some();
            let digest = self.exec.host_digest;
            let outcome = self.run_callee(site.func, base, self.exec.depth_max.saturating_sub(1));
            // It doesn't run again.
            self.exec.host_digest = digest;

            let traced = std::mem::replace(&mut self.exec.lines, lines);
            let exec = &mut self.exec;
            (exec.mode, exec.computes, exec.alone, exec.listens, exec.roots) = outside;
            let now = self.exec.meter().used(self.exec.fuel);
            if self.exec.in_task {
                self.exec.span_start = now as i64 - span;
            }
            self.exec.constant_work += now - used;
            let outcome = match outcome {
                // It is the run that has come to its end, and not the constant.
                Err(kind @ (TrapKind::Limit(_) | TrapKind::Cancelled)) => self.show_all(traced).and(Err(kind)),
                outcome => {
                    let values = match outcome {
                        Ok(()) => results(base, &site.results),
                        Err(_) => Gathered::default(),
                    };
                    let trapped = outcome.err().map(|kind| (kind, std::mem::take(&mut self.exec.trace)));
                    let constant = Constant { values, trapped, lines: traced, is_told: AtomicBool::new(false) };
                    self.keep(number, constant, info.constants)
                }
            };
            self.leave_rooms(&rooms);
            self.exec.heap.restore_floor(floor);
            if let Some(kept) = kept {
                self.exec.tape.restore_floor(kept);
            }
            outcome
        }
    }

    /// Keeps a constant that was computed.
    fn keep(
        &mut self,
        number: usize,
        constant: Constant,
        constants: &super::constants::Constants,
    ) -> Result<(), TrapKind> {
        // What it has traced is counted already.
        let lines = constant.lines.bytes();
        let more = constants.keep(number, constant, &mut self.exec.heap)?;
        self.exec.heap.hold(more.saturating_sub(lines));
        if self.exec.heap.is_too_much_held() { Err(Limit::LiveBytes.into()) } else { Ok(()) }
    }
}

/// The results of a function, which has returned to `base`.
///
/// # Safety
/// There are so many.
unsafe fn results(base: Registers, counts: &Counts) -> Gathered {
    // SAFETY: promised by the caller.
    unsafe {
        Gathered {
            reals: std::slice::from_raw_parts(base.reals, counts.reals).into(),
            words: Vec::new(),
            ints: std::slice::from_raw_parts(base.ints, counts.ints).into(),
            refs: std::slice::from_raw_parts(base.refs, counts.refs).into(),
        }
    }
}
