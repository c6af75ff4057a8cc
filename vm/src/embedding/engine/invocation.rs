//! A call in progress: arguments in, code, sweeps, and what went wrong.

use super::error::outside_of_code;
use super::listening::go_on_with_panic;
use super::state::{Progress, RunState};
use super::{CallOptions, Function, Limits, Listener, Module, RunError};
use crate::bytecode::module::FuncId;
use crate::code::{Counts, Mode, Position};
use crate::embedding::convert::{self, Cursor, Maker, Misshapen, ReadError, Reader, ResultSlot, Store, WriteError};
use crate::embedding::flat::ArgumentWriter;
use crate::embedding::value::Value;
use crate::memory::heap::{Fields, HeapLimits, Mark};
use crate::running::alone::is_alone;
use crate::running::entry::Entry;
use crate::running::kinks::KinkTable;
use crate::running::lines::Listening;
use crate::running::meter::Account;
use crate::running::program::Program;
use crate::running::trace::Place;
use crate::running::worker::Execution;
use crate::running::workers::RunInfo;
use crate::sweep::Seed;
use crate::sweep::usage::{self, Clock, Usages};
use crate::trap::{Limit, NonFinite, Origin, TraceFrame, Trap, TrapKind};
use crate::word::Owner;
use std::time::Instant;

/// A call in progress.
pub(crate) struct Invocation<'a> {
    pub(super) function: &'a Function,
    pub(super) limits: &'a Limits,
    pub(crate) state: &'a mut RunState,
    /// Whether the times in the statistics are asked for: a look at the clock takes as long as a small program.
    pub(super) timed: bool,
    /// Whether there were earlier runs of this call.
    pub(super) goes_on: bool,
    /// Whether the arguments are to be kept for later runs with tangents, and then, once they are written, where they
    /// stand.
    pub(super) keeps_arguments: bool,
    pub(super) kept: Option<KeptArguments>,
    /// Where forward runs count ties and jumps.
    pub(super) kinks: Option<&'a KinkTable>,
    /// Whether arguments are copied that could be borrowed.
    pub(super) copies_arguments: bool,
    /// Who listens to the next run, the first one of the call.
    pub(super) listener: Option<&'a Listener>,
}

/// Arguments that several runs of a call have in common. They are at the bottom of the heap and don't move.
pub(super) struct KeptArguments {
    /// The heap with nothing else.
    pub(super) heap: Mark,
    /// How many registers they are.
    pub(super) registers: Fields,
}

impl<'a> Invocation<'a> {
    #[inline]
    fn new(function: &'a Function, limits: &'a Limits, state: &'a mut RunState) -> Self {
        Invocation {
            function,
            limits,
            state,
            timed: false,
            goes_on: false,
            keeps_arguments: false,
            kept: None,
            kinks: None,
            copies_arguments: false,
            listener: None,
        }
    }

    #[inline]
    pub(crate) fn begin(function: &'a Function, options: &'a CallOptions, state: &'a mut RunState) -> Self {
        let limits = options.limits.as_ref().unwrap_or(function.module.engine.limits());
        state.account.begin(limits, options.cancel.as_ref());
        if let Some(end) = options.ends_at {
            state.account.end_by(end);
        }
        state.constants.clear();
        let listener = options.trace.as_ref().or(function.module.engine.config().trace.as_ref());
        let copies_arguments = options.copy_arguments;
        Invocation { listener, copies_arguments, ..Invocation::new(function, limits, state) }
    }

    /// A run that was begun with these options.
    #[inline]
    pub(crate) fn of(function: &'a Function, options: &'a CallOptions, state: &'a mut RunState) -> Self {
        let limits = options.limits.as_ref().unwrap_or(function.module.engine.limits());
        Invocation::new(function, limits, state)
    }

    /// Goes on with such a run in another call, which has the time of a call. All other limits are for both together.
    pub(crate) fn resume(function: &'a Function, options: &'a CallOptions, state: &'a mut RunState) -> Self {
        let run = Invocation::of(function, options, state);
        run.state.account.start_clock(run.limits.deadline);
        if let Some(end) = options.ends_at {
            run.state.account.end_by(end);
        }
        run
    }

    /// The same call, whose next runs are of another function.
    pub(super) fn of_function<'b>(self, function: &'b Function) -> Invocation<'b>
    where
        'a: 'b,
    {
        let run: Invocation<'b> = self;
        Invocation { function, kept: None, ..run }
    }

    /// The same run, whose parts are timed.
    pub(crate) fn timed(mut self) -> Self {
        self.timed = true;
        self
    }

    /// [`Invocation::timed`], if so said.
    #[inline]
    pub(crate) fn timed_if(mut self, timed: bool) -> Self {
        self.timed = timed;
        self
    }

    /// How a run goes that is asked for in a mode: one that is looked at is recorded, so that it can be traced.
    #[inline]
    pub(super) fn mode(&self, mode: Mode) -> Mode {
        if self.function.module.program.is_checked() { Mode::RECORDING.at_depth(mode.depth()) } else { mode }
    }

    /// Has runs with tangents keep their arguments for the next one, if so said.
    pub(super) fn keep_arguments_if(&mut self, several: bool) {
        self.keeps_arguments = several;
    }

    /// Has runs copy what they could borrow of the host, because a sweep is to read it when the call has ended.
    #[inline]
    pub(crate) fn copy_arguments(&mut self) {
        self.copies_arguments = true;
    }

    /// What writes objects for the arguments of a run.
    ///
    /// # Safety
    /// Arrays that are written are there, and nobody writes to them, until the run and its sweeps have ended, but for
    /// runs that copy them.
    #[inline]
    pub(super) unsafe fn maker<'m>(
        copies_arguments: bool,
        exec: &'m mut Execution,
        mode: Mode,
        account: &'m Account,
    ) -> Maker<'m> {
        let mut maker = Maker::new(&mut exec.heap, mode.is_recording().then_some(&mut exec.tape), account);
        if !copies_arguments {
            // SAFETY: promised by the caller.
            unsafe { maker.borrow() };
        }
        maker
    }

    fn clock(&self) -> Option<Instant> {
        self.timed.then(Instant::now)
    }

    pub(super) fn forward(&mut self, args: &[Value], mode: Mode) -> Result<(), RunError> {
        self.write(args, mode)?;
        // SAFETY: the arguments were gathered.
        unsafe { self.execute(Entry::Function(self.function.func), mode, true) }
    }

    /// Begins a run and gathers its arguments.
    pub(super) fn write(&mut self, args: &[Value], mode: Mode) -> Result<(), RunError> {
        let (function, mode) = (self.function, self.mode(mode));
        self.open(mode);
        let RunState { worker, args: gathered, account, .. } = &mut *self.state;
        // SAFETY: the arguments are lent for the call, and nothing of what it runs is read when it has returned.
        let maker = unsafe { Invocation::maker(self.copies_arguments, &mut worker.exec, mode, account) };
        let mut store = Store::new(maker, gathered);
        let written = convert::write_arguments(function, args, &mut store);
        self.state.worker.exec.heap.resume();
        written.map_err(|error| self.unwritten(error))
    }

    /// Ends a run of a call that has several. The next one has what is left of fuel, time and allocated bytes.
    pub(super) fn go_on(&mut self) {
        self.state.earlier = self.state.stats();
        self.goes_on = true;
        let RunState { worker, account, .. } = &mut *self.state;
        match self.kept {
            Some(_) => worker.exec.tape.release(),
            None => worker.release(),
        }
        account.go_on(worker.exec.fuel);
    }

    /// Forgets the last run and begins this one. What is made on the heap from now on are arguments.
    #[inline]
    pub(super) fn open(&mut self, mode: Mode) {
        self.kept = None;
        self.open_again(mode);
    }

    /// The same, with the arguments of the last run, if they were kept.
    #[inline]
    pub(super) fn open_again(&mut self, mode: Mode) {
        let mode = self.mode(mode);
        let RunState { worker, account, progress, earlier, .. } = &mut *self.state;
        let Limits { mut allocated_bytes, live_bytes, tape_bytes, depth, .. } = *self.limits;
        if self.goes_on {
            allocated_bytes = allocated_bytes.saturating_sub(earlier.allocated_bytes);
        }
        *progress = Progress { recorded: mode.is_recording(), goes_on: self.goes_on, ..Progress::default() };
        worker.begin(live_bytes, depth);
        let Execution { heap, tape, .. } = &mut worker.exec;
        match &self.kept {
            Some(kept) => {
                heap.cut(&kept.heap);
                heap.set_allocated_max(allocated_bytes);
            }
            None => heap.begin(HeapLimits { allocated_bytes, live_bytes }, account),
        }
        heap.pause();
        if mode.is_recording() {
            tape.begin(tape_bytes, account);
        } else {
            tape.release();
        }
    }

    /// Runs the function with arguments that `write` writes to its registers.
    ///
    /// # Safety
    /// `write` writes all arguments, and all are of the parameters' types. Their arrays are there, and nobody writes to
    /// them, until the run and its sweeps have ended, but for runs that copy them.
    #[inline]
    pub(crate) unsafe fn run(
        &mut self,
        mode: Mode,
        write: impl FnOnce(&mut ArgumentWriter<'_>) -> Result<(), WriteError>,
    ) -> Result<(), RunError> {
        self.open(mode);
        // SAFETY: promised by the caller.
        let written = write(&mut unsafe { self.argument_writer(mode) }?);
        self.state.worker.exec.heap.resume();
        written.map_err(|error| self.unwritten(error))?;
        // SAFETY: promised by the caller.
        unsafe { self.execute(Entry::Function(self.function.func), mode, false) }
    }

    /// What writes the arguments of a run, which has been opened, to the first registers.
    ///
    /// # Safety
    /// As [`Invocation::run`].
    #[inline]
    pub(super) unsafe fn argument_writer(&mut self, mode: Mode) -> Result<ArgumentWriter<'_>, RunError> {
        let mode = self.mode(mode);
        if !self.state.worker.stacks.are_there() {
            let place = Place { func: self.function.func, mode, position: Position(0) };
            self.state.worker.exec.trace.push(place);
            return Err(RunError::Trap(Box::new(self.trap(Limit::AddressSpace.into()))));
        }
        let RunState { worker, account, .. } = &mut *self.state;
        let bottom = worker.bottom();
        // SAFETY: promised by the caller.
        let maker = unsafe { Invocation::maker(self.copies_arguments, &mut worker.exec, mode, account) };
        let bound = self.function.bound.as_deref();
        // SAFETY: there are stacks, and all arguments have a place there.
        Ok(unsafe { ArgumentWriter::new(maker, bottom, mode.is_recording(), bound) })
    }

    /// The threads that run tasks, if the function has any and there are several.
    #[inline]
    fn pool(&self) -> Option<&'a rayon::ThreadPool> {
        self.pool_for(self.function.func)
    }

    /// The same for another function of the program.
    #[inline]
    pub(super) fn pool_for(&self, func: FuncId) -> Option<&'a rayon::ThreadPool> {
        let Module { engine, program, .. } = &self.function.module;
        // What is looked at is looked at in the program's order.
        let may_share = program.forks(func) && !program.is_checked() && !is_alone();
        may_share.then(|| engine.pool()).flatten()
    }

    /// Runs the function, or a derivative of it, with the arguments that were written: they were gathered, or else
    /// stand in their registers.
    ///
    /// # Safety
    /// They are what is taken.
    #[inline]
    pub(super) unsafe fn execute(&mut self, entry: Entry<'_>, mode: Mode, gathered: bool) -> Result<(), RunError> {
        match self.listener.take() {
            // SAFETY: promised by the caller.
            None => unsafe { self.execute_heard(entry, mode, gathered, None) },
            // SAFETY: promised by the caller.
            Some(listener) => unsafe { self.execute_and_tell(entry, mode, gathered, listener) },
        }
    }

    /// [`Invocation::execute`], with a host that listens.
    ///
    /// # Safety
    /// As [`Invocation::execute`].
    #[cold]
    #[inline(never)]
    unsafe fn execute_and_tell(
        &mut self,
        entry: Entry<'_>,
        mode: Mode,
        gathered: bool,
        listener: &Listener,
    ) -> Result<(), RunError> {
        // SAFETY: promised by the caller.
        unsafe {
            if let Some(twin) = self.run_twin(listener, gathered) {
                let outcome = self.execute_heard(entry, mode, gathered, None);
                if let (Ok(()), Err(ended)) = (&outcome, twin) {
                    ended.tell(listener);
                }
                return outcome;
            }
            let listening = Listening::to(listener);
            let outcome = self.execute_heard(entry, mode, gathered, Some(&listening));
            go_on_with_panic(listening);
            outcome
        }
    }

    /// [`Invocation::execute`], heard by whoever listens.
    ///
    /// # Safety
    /// As [`Invocation::execute`].
    unsafe fn execute_heard(
        &mut self,
        entry: Entry<'_>,
        mode: Mode,
        gathered: bool,
        listening: Option<&Listening<'_>>,
    ) -> Result<(), RunError> {
        let (began, mode) = (self.clock(), self.mode(mode));
        let pool = self.pool();
        let RunState { worker, args, account, constants, progress, .. } = &mut *self.state;
        if self.function.module.program.is_checked() {
            progress.inputs = worker.exec.tape.slots();
            progress.has_tangents = matches!(entry, Entry::Operator(_));
        }
        let Module { engine, program, .. } = &self.function.module;
        let args = gathered.then_some(&*args);
        constants.begin(program);
        let shared = (&*account, &*constants);
        let mut info = RunInfo::new(engine.workers(), shared, program, self.limits, pool.is_some());
        info.kinks = self.kinks;
        info.listening = listening;
        let outcome = match pool {
            // SAFETY: promised by the caller.
            None => unsafe { worker.run(program, entry, args, mode, &info) },
            Some(pool) => {
                let handed = Handed((&mut *worker, args, &info));
                pool.install(move || {
                    let (worker, args, info) = handed.take();
                    // SAFETY: promised by the caller.
                    unsafe { worker.run(program, entry, args, mode, info) }
                })
            }
        };
        if mode.is_recording() {
            worker.exec.tape.finish();
        }
        if let Some(began) = began {
            self.state.progress.forward = began.elapsed();
        }
        outcome.map_err(|kind| RunError::Trap(Box::new(self.trap(kind))))
    }

    /// Sweeps the tape from the result, which is one real. Returns the result.
    pub(crate) fn sweep_of_scalar(&mut self) -> Result<f64, RunError> {
        let registers = self.state.worker.bottom();
        // SAFETY: the run has ended, and its result is the first real register.
        let (value, word) = unsafe { (*registers.reals, *registers.words) };
        self.sweep_of((Owner::NOBODY, word.slot()))?;
        Ok(value)
    }

    /// [`Invocation::sweep_of_scalar`], in one thread, with the time of each record taken. Returns what the records of
    /// each site amount to.
    pub(super) fn usage_of_scalar(&mut self) -> Result<Usages, RunError> {
        self.state.sweep.clock = Some(Clock::start());
        let swept = self.sweep_of_scalar();
        let clock = self.state.sweep.clock.take().expect("nobody else takes it");
        swept?;
        // SAFETY: the run has ended, and its tapes are there.
        Ok(unsafe { usage::of(self.state.worker.exec.tape.tree(), &self.function.module.program, clock) })
    }

    /// Sweeps the tape from the adjoint 1 of a real of the result.
    pub(crate) fn sweep_of(&mut self, (owner, slot): ResultSlot) -> Result<(), RunError> {
        self.sweep(&[Seed { owner, slot, adjoint: 1.0 }])
    }

    /// Sweeps the tape from reals of the result.
    pub(crate) fn sweep(&mut self, seeds: &[Seed]) -> Result<(), RunError> {
        /// Instructions of a sweep that other threads are asked to help with.
        const SHARED_MIN: u64 = 50_000;
        let began = self.clock();
        let pool = self.pool().filter(|_| self.state.sweep.clock.is_none());
        let RunState { worker, sweep, account, constants, progress, .. } = &mut *self.state;
        let account = &*account;
        let Module { engine, program, .. } = &self.function.module;
        let totals = &worker.exec.tape.tree().totals;
        constants.begin(program);
        let shared = (account, &*constants);
        let info = RunInfo::new(engine.workers(), shared, program, self.limits, pool.is_some());
        let work = totals.sweep_work.saturating_add(totals.rerun_work);
        let is_shared = totals.tasks > 1 && work >= SHARED_MIN;
        let swept = match pool {
            // Reruns fork.
            Some(pool) if is_shared || totals.rerun_work > 0 => {
                let handed = Handed((&mut *worker, &mut *sweep, &info));
                let sweeps = is_shared.then(|| engine.sweeps());
                pool.install(move || {
                    let (worker, sweep, info) = handed.take();
                    // SAFETY: the run has ended, so its tapes are there.
                    unsafe { worker.sweep_run(sweep, seeds, info, sweeps) }
                })
            }
            // SAFETY: as on the pool.
            _ => unsafe { worker.sweep_run(sweep, seeds, &info, None) },
        };
        let peak = match swept {
            Ok(peak) => peak,
            Err(kind) if worker.exec.trace.is_empty() => return Err(outside_of_code(account.verdict(kind))),
            Err(kind) => return Err(RunError::Trap(Box::new(self.trap(kind)))),
        };
        progress.sweep_peak_bytes = progress.sweep_peak_bytes.max(peak);
        progress.sweeps += 1;
        if let Some(began) = began {
            progress.sweep += began.elapsed();
        }
        Ok(())
    }

    /// Why there are no arguments.
    #[cold]
    pub(super) fn unwritten(&self, error: WriteError) -> RunError {
        match error {
            WriteError::Argument(error) => RunError::Argument(*error),
            WriteError::Limit(limit) => self.stopped(limit),
        }
    }

    /// The run has ended outside of the program's code.
    pub(crate) fn stopped(&self, limit: Limit) -> RunError {
        outside_of_code(self.state.account.verdict(limit.into()))
    }

    /// The registers of the results of the run, which has ended.
    pub(crate) fn results(&self) -> Cursor<'_> {
        let (results, recorded) = (convert::registers(&self.function.interface().result), self.state.progress.recorded);
        // SAFETY: the registers of the result's type are the first ones, and nothing runs while the cursor lives.
        unsafe { Cursor::of_results(self.state.worker.bottom(), results, recorded) }
    }

    /// The registers of the tangents of the results in one direction, which stand behind these if the run had tangents.
    /// Integers have none; where one is read it is the result's own.
    pub(crate) fn tangents(&self, lane: usize) -> Cursor<'_> {
        let results = convert::registers(&self.function.interface().result);
        let Fields { reals, refs, .. } = results;
        let mut bottom = self.state.worker.bottom();
        (0..=lane).for_each(|_| bottom = bottom.after(&Counts { reals, ints: 0, refs }));
        // SAFETY: as in `results`.
        unsafe { Cursor::of_results(bottom, results, self.state.progress.recorded) }
    }

    /// Reads the results of the run, and the slots of their reals if it was recorded.
    pub(crate) fn reader(&self) -> Reader<'_> {
        let RunState { account, progress, .. } = &*self.state;
        Reader::new(self.function.data(), self.limits.live_bytes, progress.recorded, account)
    }

    pub(crate) fn unreadable(&self, error: ReadError) -> RunError {
        match error {
            ReadError::Depth => RunError::ResultDepth { function: self.function.name().to_owned() },
            ReadError::Shape { shape, elements } => {
                RunError::ResultShape { function: self.function.name().to_owned(), shape, elements }
            }
            ReadError::Misshapen(misshapen) => {
                let Misshapen { place, expected, found } = *misshapen;
                RunError::ResultMismatch { function: self.function.name().to_owned(), place, expected, found }
            }
            ReadError::Limit(limit) => self.stopped(limit),
        }
    }

    /// Whether there is time to copy the adjoints of the arguments, which may be as many as those of the whole run, or
    /// to make a gradient of so many bytes of them.
    #[inline]
    pub(crate) fn time_to_read_gradient(&self, bytes: usize) -> Result<(), RunError> {
        self.time_to_fill(bytes.max(size_of_val(self.state.sweep.adjoints())))
    }

    /// Whether there is time to fill so many bytes.
    #[inline]
    pub(crate) fn time_to_fill(&self, bytes: usize) -> Result<(), RunError> {
        self.state.account.time_to_fill(bytes).map_err(|limit| self.stopped(limit))
    }

    /// The adjoints of the arguments' reals, in the shape of the arguments.
    pub(super) fn gradient(&self, args: &[Value]) -> Result<Vec<Value>, RunError> {
        self.shaped(args, self.state.sweep.adjoints())
    }

    /// Derivatives by the arguments' reals, behind what stands for constants, in the shape of the arguments.
    pub(super) fn shaped(&self, args: &[Value], derivatives: &[f64]) -> Result<Vec<Value>, RunError> {
        let Function { wrt, .. } = self.function;
        let params = &self.function.interface().params;
        let (data, account) = (self.function.data(), &self.state.account);
        let shaped = convert::read_gradient(data, (params, wrt), args, derivatives, account);
        shaped.map_err(|limit| self.stopped(limit))
    }

    #[cold]
    fn trap(&self, kind: TrapKind) -> Trap {
        let program = &self.function.module.program;
        let mut kind = self.state.account.verdict(kind);
        if let TrapKind::NonFinite(found) = &mut kind {
            self.name_origin(found);
        }
        let (innermost, omitted, outermost) = self.state.worker.exec.trace.shown();
        let frames = |place| frames_at(program, place);
        Trap::new(kind, innermost.flat_map(frames).collect(), omitted, outermost.flat_map(frames).collect())
    }
}

/// The frame of an activation, behind those of the calls in whose place its code stands there.
fn frames_at(program: &Program, Place { func, mode, position }: Place) -> Vec<TraceFrame> {
    let debug = &program.def.debug;
    let inst = program.origin(func, mode, position);
    let location = program.def.functions[func.index()].body.location(inst);
    let (given, inst) = program.given_place(func, inst);
    let mut place = location.map(|location| debug.named(location.place));
    let mut frames = Vec::new();
    for call in location.into_iter().flat_map(|location| debug.calls_around(location)) {
        let around = Some(debug.named(call.place));
        let place = std::mem::replace(&mut place, around);
        frames.push(TraceFrame { function: call.callee.to_string(), mode, inst, place, is_inlined: true });
    }
    let function = program.def.functions[given.index()].name.clone();
    frames.push(TraceFrame { function, mode, inst, place, is_inlined: false });
    frames
}

impl Invocation<'_> {
    /// Says of which argument a number is made whose chain leads to the run's beginning.
    fn name_origin(&self, found: &mut NonFinite) {
        let Progress { inputs, has_tangents, .. } = self.state.progress;
        let Some(pending) = found.pending.take().filter(|pending| pending.from_start) else { return };
        let root = std::ptr::from_ref(self.state.worker.exec.tape.tree());
        let index = (pending.slot as usize).checked_sub(1).filter(|&index| index < inputs);
        if let Some(index) = index.filter(|_| pending.node == root.addr()) {
            let reals = if has_tangents { inputs / 2 } else { inputs };
            let (index, is_tangent) = (index % reals, index >= reals);
            found.origin = Origin::Input { index, is_tangent, place: None };
        }
    }
}

/// What is handed to a thread of the pool while this one waits.
pub(super) struct Handed<T>(pub(super) T);

// SAFETY: who hands it on waits until the other thread is done.
unsafe impl<T> Send for Handed<T> {}

impl<T> Handed<T> {
    pub(super) fn take(self) -> T {
        self.0
    }
}
