//! Into a run and into functions: what a host asks for is taken, and each function that something outside of code calls
//! is entered natively or interpreted.
//!
//! A run begins on the host's stack and, if the program has native code or runs functions inside of instructions, goes
//! on on a native stack of its worker's ([`Worker::run`]). There, tasks, operators and native code that calls a
//! function which has none enter functions with [`Worker::run_callee`] and [`Worker::activate`]. Calls among
//! interpreted functions never come here: the dispatch loop of [`super::interp`] pushes a frame.

use super::meter::Meter;
use super::nesting;
use super::program::Program;
use super::registers::{Gathered, Registers, scatter};
use super::trace::Place;
use super::worker::Worker;
use super::workers::RunInfo;
use crate::bytecode::module::FuncId;
use crate::code::{Counts, Mode, OperatorSite, Position};
use crate::native::{Code, Status, Tier};
use crate::trap::{Limit, TrapKind};

/// What a run of the host's begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry<'a> {
    /// A function: its arguments are taken.
    Function(FuncId),
    /// A derivative of one, as if code around it had asked for that. No frame is around the function's.
    Operator(&'a OperatorSite),
}

impl Entry<'_> {
    /// The function that runs.
    fn func(self) -> FuncId {
        match self {
            Entry::Function(func) => func,
            Entry::Operator(site) => site.func,
        }
    }
}

impl Worker {
    /// Runs a function to its end. Its results are the first registers afterwards, with words in a recording run.
    ///
    /// # Safety
    /// `args`, or else the first registers, are what is taken. They are written between [`Worker::begin`] and here.
    pub(crate) unsafe fn run(
        &mut self,
        program: &Program,
        entry: Entry<'_>,
        args: Option<&Gathered>,
        mode: Mode,
        info: &RunInfo<'_>,
    ) -> Result<(), TrapKind> {
        let mut meter = Meter::new(info.account, None);
        let begins = nesting::check().map_err(TrapKind::from).and_then(|()| meter.refill_alone(0));
        let outcome = begins.and_then(|slice| {
            (self.exec.fuel, self.exec.program, self.exec.mode) = (slice, program, mode);
            (self.exec.meter, self.exec.info) = ((&raw mut meter).cast(), (&raw const *info).cast());
            self.exec.listens = info.listening.is_some();
            self.exec.heap.attach(info.account);
            self.exec.heap.set_beside(info.constants.held());
            if mode.is_recording() {
                self.exec.tape.attach(info.account);
            }
            // SAFETY: promised by the caller; **Running** from here on.
            let outcome = unsafe { self.run_entry(program, entry, args, mode) };
            // SAFETY: **Running** until it is detached.
            self.exec.whole_span = unsafe { self.exec.span() } as u64;
            self.exec.detach();
            outcome
        });
        if outcome.is_err() && self.exec.trace.is_empty() {
            // Not even the first frame had room, or no fuel, or too many runs are in the middle of each other.
            self.exec.trace.push(Place { func: entry.func(), mode, position: Position(0) });
        }
        outcome
    }

    /// # Safety
    /// As [`Worker::run`], and **Running**.
    unsafe fn run_entry(
        &mut self,
        program: &Program,
        entry: Entry<'_>,
        args: Option<&Gathered>,
        mode: Mode,
    ) -> Result<(), TrapKind> {
        let func = match entry {
            Entry::Function(func) => func,
            // SAFETY: promised by the caller.
            Entry::Operator(site) => return unsafe { self.run_operator(site, args, mode) },
        };
        // SAFETY: **Running**.
        let stream = program.prepare(func, mode, unsafe { self.exec.account() })?;
        let room = Counts { reals: stream.reals, ints: stream.ints, refs: stream.refs };
        // SAFETY: promised by the caller: what is taken are the first registers of a frame.
        unsafe {
            let base = self.take(&room, args, mode)?;
            self.run_at(program, func, base)
        }
    }

    /// # Safety
    /// As [`Worker::run_entry`].
    #[inline(never)]
    unsafe fn run_operator(
        &mut self,
        site: &OperatorSite,
        args: Option<&Gathered>,
        mode: Mode,
    ) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller: what is taken is what the operator works on.
        unsafe {
            let base = self.take(&site.counts(), args, mode)?;
            self.operate_at(site, base)
        }
    }

    /// Makes room for so many registers, the first ones, and writes what was gathered to them.
    ///
    /// # Safety
    /// There is room among them for what was gathered.
    #[inline(always)]
    unsafe fn take(&mut self, room: &Counts, args: Option<&Gathered>, mode: Mode) -> Result<Registers, TrapKind> {
        let base = self.bottom();
        self.reserve_first(room, mode.is_recording())?;
        if let Some(args) = args {
            // SAFETY: promised by the caller.
            unsafe { if mode.is_recording() { scatter::<true>(args, base) } else { scatter::<false>(args, base) } }
        }
        Ok(base)
    }

    /// Runs a function whose arguments are its first registers, natively or interpreted. Its results are the first
    /// registers afterwards.
    ///
    /// # Safety
    /// **Running**; there is room for the frame, and the arguments are of the parameters' types.
    unsafe fn run_at(&mut self, program: &Program, func: FuncId, base: Registers) -> Result<(), TrapKind> {
        let remaining = self.exec.depth_max.checked_sub(1).ok_or(TrapKind::Limit(Limit::Depth))?;
        if program.tier.is_none() && !program.nests(func) {
            // SAFETY: promised by the caller.
            return unsafe { self.activate(func, base, remaining) }.map(|_| ());
        }
        let ground = self.open_native()?;
        // SAFETY: promised by the caller. The stack is this worker's, which runs nowhere else meanwhile. Nothing
        // below unwinds: a generator's panics and those of the host's jobs are caught where these are called.
        unsafe { ground.run(|| self.run_callee(func, base, remaining)) }
    }

    /// Runs a function whose arguments are its first registers, natively or interpreted, on the stack that the
    /// execution runs on.
    ///
    /// # Safety
    /// **Running**; the function is one of the program, the arguments stand at `base` and are of the parameters' types,
    /// and nothing above them is in use. If the program has native code, the execution runs on its native stack.
    pub(super) unsafe fn run_callee(
        &mut self,
        func: FuncId,
        base: Registers,
        remaining: usize,
    ) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller; **Running**, so the pointer leads to the program.
        unsafe {
            let program = &*self.exec.program;
            let Some(tier) = &program.tier else { return self.activate(func, base, remaining).map(|_| ()) };
            let code = match tier.called(program, func, self.exec.mode, self.exec.account()) {
                Some(code) => Some(code),
                None => self.activate(func, base, remaining)?,
            };
            code.map_or(Ok(()), |code| self.enter(tier, code, base, remaining))
        }
    }

    /// Runs native code.
    ///
    /// # Safety
    /// As [`Worker::run_at`]; the run is on the native stack.
    pub(super) unsafe fn enter(
        &mut self,
        tier: &Tier,
        code: Code,
        base: Registers,
        remaining: usize,
    ) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller; the code belongs to the program that runs.
        match unsafe { tier.enter(code, std::ptr::from_mut(self).cast(), base, remaining) } {
            Status::Returned => Ok(()),
            Status::Trapped => Err(self.exec.trap.take().expect("native code that stops says why")),
        }
    }

    /// Interprets a function whose arguments are its first registers, until it returns; or until native code can do the
    /// rest, which the caller is to enter with the same registers. If it were entered from here, functions that call
    /// each other in tail position, some native and some not, would nest.
    ///
    /// # Safety
    /// **Running**; the arguments are of the parameters' types, and there is room for them.
    pub(crate) unsafe fn activate(
        &mut self,
        func: FuncId,
        base: Registers,
        remaining: usize,
    ) -> Result<Option<Code>, TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let mode = self.exec.mode;
            match (mode.is_recording(), mode.depth() > 0) {
                (false, false) => self.execute::<false, false>(func, base, remaining),
                (true, false) => self.execute::<true, false>(func, base, remaining),
                (false, true) => self.execute::<false, true>(func, base, remaining),
                (true, true) => self.execute::<true, true>(func, base, remaining),
            }
        }
    }
}
