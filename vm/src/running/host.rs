//! Calls of functions of the host's.
//!
//! Such a call is an operator. It takes numbers and gives constants; then it gets its derivative as a value does to
//! which the program gives one ([`super::custom`]), but from both sides: an infinitesimal asks the jvp, and the level
//! of the tape the vjp. A derivative is a function of the host's, too, called in the same way, so that what is asked
//! of the derivative is a derivative of higher order.
//!
//! The host's code runs on the thread's own stack, with the heap as it is: nothing moves, so that arrays are read where
//! they stand.

use super::alone::Alone;
use super::registers::Registers;
use super::worker::Worker;
use crate::bytecode::isa::Bank;
use crate::code::{Counts, OperatorSite};
use crate::embedding::convert::Maker;
use crate::flat::{FlatValue, LeafKind};
use crate::host::{HostCall, HostError, LinkedHost, Part, Saved, Sink};
use crate::memory::heap::{ARRAY_HEADER, LEN, Ref};
use crate::memory::stack::run_outside;
use crate::trap::TrapKind;
use crate::word::Word;
use smallvec::SmallVec;
use std::any::Any;
use std::hash::Hasher;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call of the function whose derivative is called.
#[derive(Clone, Copy)]
pub(super) struct OriginalCall<'a> {
    /// The references that the derivative's own belong to, one for each in order: in a vjp the arguments of the call, in
    /// a jvp its results.
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
            let flow = self.flow(site, args);
            if flow.is_any() && !host.is_differentiable() {
                return Err(TrapKind::HostDerivative { function: host.name.to_string(), order: host.order + 1 });
            }
            let saved = self.run_host(host, (args, results), flow.is_recorded, original)?;
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
        (args, results): (Registers, Registers),
        saves: bool,
        original: Option<OriginalCall<'_>>,
    ) -> Result<Option<Saved>, TrapKind> {
        let mode = self.exec.mode;
        // SAFETY: promised by the caller; nothing moves while the heap is paused.
        let (shown, account) = unsafe { (shown(&host.args, args, mode.depth()), self.exec.account()) };
        self.exec.heap.pause();
        let mut sink = Registered {
            host,
            maker: Maker::new(&mut self.exec.heap, None, account),
            next: results,
            belongs_to: original.map(|call| call.refs),
            depth: mode.depth(),
            recording: mode.is_recording(),
            part: 0,
            digest: rustc_hash::FxHasher::default(),
        };
        let saved = original.and_then(|call| call.saved);
        let call = || {
            let _alone = Alone::begin();
            let mut call = HostCall::new(&shown, saved, account, (host.function.results(), &mut sink));
            let kept = match saves {
                true => host.function.call_saving(&mut call)?,
                false => host.function.call(&mut call).map(|()| None)?,
            };
            call.end()?;
            Ok(kept)
        };
        // SAFETY: a panic is caught.
        let outcome = unsafe { run_outside(|| catch_unwind(AssertUnwindSafe(call))) };
        let outcome =
            outcome.unwrap_or_else(|panic| Err(HostError::new(format_args!("it panicked: {}", text(&*panic)))));
        let outcome = outcome.and_then(|kept| sink.end().map(|()| kept));
        let digest = sink.digest.finish();
        self.exec.heap.resume();
        let kept = outcome.map_err(|error| error.trap(&host.name))?;
        if host.order == 0 {
            self.exec.host_digest = self.exec.host_digest.wrapping_add(digest);
        }
        // No fuel was paid for it.
        account.poll()?;
        Ok(kept)
    }
}

/// The arguments that the host sees.
///
/// # Safety
/// The registers are there, of that depth, and hold what the parts say. Objects stay where they are.
unsafe fn shown<'a>(parts: &[Part], args: Registers, depth: u32) -> SmallVec<[FlatValue<'a>; 8]> {
    let mut next = Counts::default();
    let mut shown = SmallVec::new();
    for part in parts {
        // SAFETY: promised by the caller.
        let value = unsafe {
            match part.kind {
                LeafKind::Real => {
                    next.reals += 1;
                    FlatValue::Real(*args.reals.add((next.reals - 1) << depth))
                }
                LeafKind::Int | LeafKind::Bool => {
                    next.ints += 1;
                    FlatValue::Int(*args.ints.add(next.ints - 1))
                }
                kind => {
                    next.refs += 1;
                    let array = *args.refs.add(next.refs - 1);
                    let (elements, len) = (array.add(ARRAY_HEADER), *array.add(LEN) as usize);
                    match kind {
                        LeafKind::Reals => FlatValue::Reals(std::slice::from_raw_parts(elements.cast(), len)),
                        _ => FlatValue::Ints(std::slice::from_raw_parts(elements.cast(), len)),
                    }
                }
            }
        };
        if part.is_shown {
            shown.push(value);
        }
    }
    shown
}

/// What a panic says.
fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it says nothing")
}

/// Registers for results.
struct Registered<'a> {
    host: &'a LinkedHost,
    maker: Maker<'a>,
    next: Registers,
    /// In a derivative, what the next reference belongs to.
    belongs_to: Option<*const Ref>,
    depth: u32,
    recording: bool,
    /// The next result.
    part: usize,
    /// Of the results.
    digest: rustc_hash::FxHasher,
}

impl Registered<'_> {
    /// Writes results that the host doesn't give, and returns the one that it gives next.
    fn next_part(&mut self) -> Option<Part> {
        while let Some(&part) = self.host.results.get(self.part) {
            self.part += 1;
            if part.is_shown {
                return Some(part);
            }
            // What says nothing is as what it belongs to, whose integers nobody reads there.
            let original = self.belongs_to.expect("only derivatives have parts that the host doesn't give");
            // SAFETY: the original call has a reference for each of its derivative's.
            self.object(unsafe { *original });
        }
        None
    }

    /// Writes the rest of the results that the host doesn't give.
    fn end(&mut self) -> Result<(), HostError> {
        match self.next_part() {
            None => Ok(()),
            Some(_) => Err(HostError::new("it gives too few results")),
        }
    }

    fn object(&mut self, object: Ref) {
        // SAFETY: there is room for it, and in a derivative it belongs to a reference.
        unsafe {
            *self.next.refs = object;
            self.next.refs = self.next.refs.add(1);
            self.belongs_to = self.belongs_to.map(|original| original.add(1));
        }
    }

    /// Checks that an array has whole elements only.
    fn check_width(&self, part: Option<Part>, len: usize) -> Result<(), HostError> {
        match part {
            Some(Part { width, .. }) if !len.is_multiple_of(width) => {
                Err(HostError::new(format_args!("an array of rows of {width} numbers can't have {len}")))
            }
            _ => Ok(()),
        }
    }
}

impl Sink for Registered<'_> {
    fn real(&mut self, x: f64) {
        self.next_part();
        self.digest.write_u64(x.to_bits());
        // SAFETY: there is room for it, with words where code records.
        unsafe {
            for part in 0..1usize << self.depth {
                *self.next.reals.add(part) = if part == 0 { x } else { 0.0 };
                if self.recording {
                    *self.next.words.add(part) = Word::CONSTANT;
                }
            }
        }
        self.next = self.next.after(&Counts { reals: 1 << self.depth, ..Counts::default() });
    }

    fn int(&mut self, n: i64) {
        self.next_part();
        self.digest.write_i64(n);
        // SAFETY: there is room for it.
        unsafe {
            *self.next.ints = n;
            self.next.ints = self.next.ints.add(1);
        }
    }

    fn reals(&mut self, len: usize, fill: &mut dyn FnMut(&mut [f64])) -> Result<(), HostError> {
        let part = self.next_part();
        self.check_width(part, len)?;
        let array = self.maker.array(Bank::Real, len).map_err(HostError::stop)?;
        // SAFETY: the array has so many elements, which are initialised first.
        unsafe {
            let elements = array.add(ARRAY_HEADER).cast::<f64>();
            elements.write_bytes(0, len);
            let elements = std::slice::from_raw_parts_mut(elements, len);
            fill(elements);
            elements.iter().for_each(|x| self.digest.write_u64(x.to_bits()));
        }
        self.object(array);
        Ok(())
    }

    fn ints(&mut self, ns: &[i64]) -> Result<(), HostError> {
        let part = self.next_part();
        self.check_width(part, ns.len())?;
        let array = self.maker.int_array(ns).map_err(HostError::stop)?;
        ns.iter().for_each(|&n| self.digest.write_i64(n));
        self.object(array);
        Ok(())
    }
}
