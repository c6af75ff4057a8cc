//! A host that listens to a call.
//!
//! It is told what the first run of the call traces; if there are more, as for the rows of a Jacobian, they evaluate
//! the same again. Where the function has a traced twin ([`ModuleDef::traced`]), the twin runs first, for what it
//! traces alone: in memory of its own, with limits as for the call, but for the time, which is shared. Then the
//! function runs as if nobody had listened. So whatever a compiler had to leave in the twin as it was written, results,
//! derivatives, traps and statistics are those of the function.
//!
//! [`ModuleDef::traced`]: crate::module::ModuleDef::traced

use super::invocation::Handed;
use super::{Invocation, Limits, Module};
use crate::bytecode::module::SourcePlace;
use crate::code::{Counts, Mode};
use crate::memory::heap::HeapLimits;
use crate::running::constants::Constants;
use crate::running::entry::Entry;
use crate::running::lines::{Listener, Listening, TraceLine};
use crate::running::registers::Gathered;
use crate::running::worker::Worker;
use crate::running::workers::RunInfo;
use crate::trap::TrapKind;
use std::panic::resume_unwind;

/// Why a twin's run has ended before its end, and where.
pub(super) struct Ended {
    kind: TrapKind,
    place: Option<SourcePlace>,
}

impl Invocation<'_> {
    /// Runs the traced twin of the function, if it has one, with the arguments that were written. Says whether it has
    /// one.
    ///
    /// # Safety
    /// As [`Invocation::execute`].
    pub(super) unsafe fn run_twin(&mut self, listener: &Listener, gathered: bool) -> Option<Result<(), Ended>> {
        let Module { engine, program, .. } = &self.function.module;
        let twin = program.def.traced_twin(self.function.func)?;
        let listening = Listening::to(listener);
        // SAFETY: promised by the caller.
        let args = unsafe { self.arguments(gathered) };
        let account = self.state.account.beside(self.limits);
        let mut constants = Constants::new(engine.workers().slabs());
        constants.begin(program);
        let Limits { allocated_bytes, live_bytes, depth, .. } = *self.limits;
        let mut worker = engine.workers().take();
        worker.begin(live_bytes, depth);
        worker.exec.heap.begin(HeapLimits { allocated_bytes, live_bytes }, &account);
        worker.exec.tape.release();
        let pool = self.pool_for(twin);
        let mut info = RunInfo::new(engine.workers(), (&account, &constants), program, self.limits, pool.is_some());
        info.listening = Some(&listening);
        let run = |worker: &mut Worker, info: &RunInfo<'_>| {
            // SAFETY: these are the arguments, and the twin takes what the function takes. Their objects stay where
            // they are, in the heap of the worker that made them, which runs nothing meanwhile.
            unsafe { worker.run(program, Entry::Function(twin), Some(&args), Mode::PRIMAL, info) }
        };
        let outcome = match pool {
            None => run(&mut worker, &info),
            Some(pool) => {
                let handed = Handed((&mut *worker, &info, run));
                pool.install(move || {
                    let (worker, info, run) = handed.take();
                    run(worker, info)
                })
            }
        };
        let place = worker.exec.trace.shown().0.next().and_then(|place| program.source_place(place));
        engine.workers().put_back(worker);
        go_on_with_panic(listening);
        Some(outcome.map_err(|kind| Ended { kind, place }))
    }

    /// The arguments that were written, without what else a run takes, such as tangents: that stands behind them.
    ///
    /// # Safety
    /// As [`Invocation::execute`].
    unsafe fn arguments(&self, gathered: bool) -> Gathered {
        let Counts { reals, ints, refs } = Counts::of(&self.function.definition().params);
        if gathered {
            let args = &self.state.args;
            let (reals, ints, refs) = (&args.reals[..reals], &args.ints[..ints], &args.refs[..refs]);
            return Gathered { reals: reals.into(), words: Vec::new(), ints: ints.into(), refs: refs.into() };
        }
        let bottom = self.state.worker.bottom();
        // SAFETY: promised by the caller.
        unsafe {
            Gathered {
                reals: std::slice::from_raw_parts(bottom.reals, reals).into(),
                words: Vec::new(),
                ints: std::slice::from_raw_parts(bottom.ints, ints).into(),
                refs: std::slice::from_raw_parts(bottom.refs, refs).into(),
            }
        }
    }
}

impl Ended {
    /// Tells the listener of a call that has gone on to its end why it hasn't heard of all of it.
    pub(super) fn tell(&self, listener: &Listener) {
        let Ended { kind, place } = self;
        listener.tell(&TraceLine { text: &format!("nothing more is traced: {kind}"), place: place.as_ref() });
    }
}

/// Goes on with what the listener of a run has panicked with, if it has.
pub(super) fn go_on_with_panic(listening: Listening<'_>) {
    if let Some(payload) = listening.into_panic() {
        resume_unwind(payload);
    }
}
