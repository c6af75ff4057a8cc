//! Calls of functions of the host's.
//!
//! Such a call is an operator. It takes numbers and gives constants; then it gets its derivative as a value does to
//! which the program gives one ([`super::custom`]), but from both sides: an infinitesimal asks the jvp, and the level
//! of the tape the vjp. A derivative is a function of the host's, too, called in the same way, so that what is asked
//! of the derivative is a derivative of higher order.
//!
//! The host's code runs on the thread's own stack, with the heap as it is: nothing moves, so that arrays are read where
//! they stand (`host/arguments.rs`), and made where the run will read them (`host/results.rs`).

mod arguments;
mod results;

use super::registers::{Registers, roots};
use super::worker::Worker;
use crate::code::OperatorSite;
use crate::embedding::convert::Maker;
use crate::host::{CallingRun, HostCall, HostError, LinkedHost, Panic, SavedCell, run_guarded};
use crate::memory::heap::{Ref, Roots};
use crate::trap::TrapKind;
use arguments::shown;
use results::Results;
use std::any::Any;
use std::cell::Cell;

/// A call of the function whose derivative is called.
#[derive(Clone, Copy)]
pub(super) struct OriginalCall<'a> {
    /// The references that the derivative's own belong to, one for each in order: in a vjp the arguments of the call,
    /// in a jvp its results.
    pub(super) refs: *const Ref,
    /// What it has left for the derivative, if it was recorded.
    pub(super) saved: Option<&'a (dyn Any + Send + Sync)>,
}

impl Worker {
    /// Calls a function of the host's; a derivative as one of the `original` call.
    ///
    /// # Safety
    /// As [`Worker::operate`]; the caller restores the mode. The references of the original call stand where
    /// evacuations find them.
    pub(super) unsafe fn call_host(
        &mut self,
        site: &OperatorSite,
        args: Registers,
        remaining: usize,
        original: Option<OriginalCall<'_>>,
    ) -> Result<(), TrapKind> {
        let mode = self.exec.mode;
        // SAFETY: promised by the caller; the program outlives its runs, and results stand behind the arguments.
        unsafe {
            let host = (*self.exec.program).host(site.host.as_ref().expect("it calls a function of the host's"));
            let results = args.after(&site.uses_count);
            let above = results.after(&site.defs_count);
            self.room_above(above, (0, mode.depth()), mode.is_recording())?;
            for n in 0..site.results.refs {
                *results.refs.add(n) = std::ptr::null_mut();
            }
            let frames = roots(self.exec.roots, above.refs);
            self.exec.heap.prepare(Roots { frames, kept: Some(self.exec.tape.kept()) })?;
            let flow = self.flow(site, args, |n| host.has_tangents(n));
            if flow.is_any() && !host.is_differentiable() {
                return Err(TrapKind::HostDerivative { function: host.name.to_string(), order: host.order + 1 });
            }
            let saved = self.run_host(host, (args, results), remaining, flow.is_recorded, original)?;
            if flow.is_any() {
                self.attach(site, flow, (args, results), remaining, saved)?;
            }
        }
        Ok(())
    }

    /// Runs the host's code, and writes what it gives, constants as yet.
    ///
    /// # Safety
    /// As [`Worker::call_host`]; there is room for the results.
    unsafe fn run_host(
        &mut self,
        host: &LinkedHost,
        registers: (Registers, Registers),
        remaining: usize,
        saves: bool,
        original: Option<OriginalCall<'_>>,
    ) -> Result<Option<SavedCell>, TrapKind> {
        self.exec.heap.pause();
        let (charged, is_shared) = (Cell::new(0), Cell::new(false));
        // SAFETY: promised by the caller; **Running**, so account and limits outlive the call.
        let outcome = unsafe {
            let (account, limits) = (self.exec.account(), self.exec.info().limits);
            let fuel = account.fuel_left(self.exec.fuel);
            let run = CallingRun { account, limits, fuel, depth: remaining, charged: &charged, is_shared: &is_shared };
            self.run_paused(host, registers, run, saves, original)
        };
        self.exec.heap.resume();
        self.exec.fuel = self.exec.fuel.saturating_sub_unsigned(charged.get());
        let (kept, digest) = match outcome {
            Ok(given) => given,
            Err(error) => {
                // A call of the host's that was stopped because this run has to stop is no error of the host's. Any
                // other one is, even if it is what has stopped the run.
                if is_shared.get() {
                    // SAFETY: **Running**.
                    unsafe { self.exec.account() }.poll()?;
                }
                return Err(error.trap(&host.name));
            }
        };
        if host.order == 0 {
            self.exec.host_digest = self.exec.host_digest.wrapping_add(digest);
        }
        // SAFETY: **Running**.
        unsafe {
            if self.exec.fuel < 0 {
                self.exec.fuel = self.refill(self.exec.fuel)?;
            }
            // Its time cost no fuel.
            self.exec.account().poll()?;
        }
        Ok(kept)
    }

    /// The same while the heap is paused. Returns what was saved, and the digest of what the host has given.
    ///
    /// # Safety
    /// As [`Worker::run_host`].
    unsafe fn run_paused(
        &mut self,
        host: &LinkedHost,
        (args, results): (Registers, Registers),
        run: CallingRun<'_>,
        saves: bool,
        original: Option<OriginalCall<'_>>,
    ) -> Result<(Option<SavedCell>, u64), HostError> {
        let mode = self.exec.mode;
        // SAFETY: promised by the caller; nothing moves.
        let (shown, mut results) = unsafe {
            let mut maker = Maker::new(&mut self.exec.heap, None, run.account);
            let shown = shown(&host.args, args, mode.depth(), &mut maker)?;
            let depth = (mode.depth(), mode.is_recording());
            (shown, Results::new(host, maker, results, depth, original))
        };
        let saved = original.and_then(|call| call.saved);
        let call = || {
            let mut call = HostCall::new(&shown, saved, run, (host.function.results(), &mut results));
            let kept = match saves {
                true => host.function.call_saving(&mut call)?.map(SavedCell::new),
                false => host.function.call(&mut call).map(|()| None)?,
            };
            call.end()?;
            Ok(kept)
        };
        let panicked = |panic: Panic| Err(HostError::new(format_args!("it panicked: {}", panic.text())));
        let kept = run_guarded(call).unwrap_or_else(panicked)?;
        Ok((kept, results.end()?))
    }
}
