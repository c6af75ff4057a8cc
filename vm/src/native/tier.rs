//! When to compile what: counters, the table of entries, and the code of a module.

use super::{Compiled, FunctionRequest, Generator, Listing, LoopFn, Refusal, SegmentFn, SharedCode, Unit};
use crate::interp::{Interp, Registers};
use crate::loop_record::LoopCode;
use crate::program::Program;
use crate::record::SegmentCode;
use crate::tape::LOOP;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often something runs in the interpreter before it is compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Calls of a function.
    pub calls: u32,
    /// Rounds of a function's loops.
    pub back_edges: u32,
    /// Records of a segment, or iterations of a recorded loop, that are swept.
    pub records: u32,
}

impl Default for Thresholds {
    /// About where compiling, 0.2 ms for a small function, takes as long as interpreting has taken.
    fn default() -> Self {
        Thresholds { calls: 1_000, back_edges: 4_000, records: 2_000 }
    }
}

impl Thresholds {
    /// Everything is compiled before it runs.
    pub(crate) const ALWAYS: Thresholds = Thresholds { calls: 0, back_edges: 1, records: 0 };
}

/// What a function is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// Runs that record nothing.
    Primal,
    /// Runs that record.
    Recording,
    /// The sweep: the code is the adjoint of a segment or of a loop.
    Adjoint,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Primal => "primal",
            Mode::Recording => "recording",
            Mode::Adjoint => "adjoint",
        })
    }
}

/// A piece of native code of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledCode {
    /// The function's name; for an adjoint, which record it is for.
    pub name: String,
    /// What it was compiled for.
    pub mode: Mode,
    /// The loop at whose head the code begins, if it doesn't begin with the function: a stream position.
    pub entry: Option<u32>,
    /// The size of the machine code in bytes.
    pub bytes: usize,
    /// How long compiling took.
    pub time: Duration,
}

/// The entry of native code of the module that a run belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code(NonNull<u8>);

impl Code {
    /// The address, for native code to go on at.
    pub(crate) fn address(self) -> u64 {
        self.0.as_ptr() as u64
    }
}

/// How native code has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Status {
    Returned = 0,
    Trapped = 1,
}

/// The adjoint's native code of a segment, if there is any.
#[derive(Debug, Default)]
pub(crate) struct NativeAdjoint {
    code: AtomicPtr<u8>,
    heat: AtomicU32,
}

/// The counters of what has been refused stand here and don't move.
const REFUSED: u32 = u32::MAX;

/// Functions in one mode.
#[derive(Debug)]
struct Table {
    /// Native code, or null.
    codes: Box<[AtomicPtr<u8>]>,
    /// What native code calls, from the first compilation on: native code, or what calls the interpreter.
    entries: Box<[AtomicPtr<u8>]>,
    calls: Box<[AtomicU32]>,
    back_edges: Box<[AtomicU32]>,
}

impl Table {
    fn new(functions: usize) -> Self {
        let counters = || (0..functions).map(|_| AtomicU32::new(0)).collect();
        let addresses = || (0..functions).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect();
        Table { codes: addresses(), entries: addresses(), calls: counters(), back_edges: counters() }
    }
}

/// What is behind the lock: compiling is rare.
#[derive(Debug)]
struct Compiling {
    generator: Arc<dyn Generator>,
    /// Made for the first compilation; `None` afterwards, too, if this machine has no native code.
    unit: Option<Box<dyn Unit>>,
    /// Code that begins at loops, by function, mode and stream position.
    loops: HashMap<(u32, bool, u32), Option<Code>>,
    log: Vec<CompiledCode>,
    failures: Vec<String>,
    broken: bool,
}

// SAFETY: the addresses lead to code that the unit owns and that does not change.
unsafe impl Send for Compiling {}

/// The native code of a module.
#[derive(Debug)]
pub(crate) struct Tier {
    thresholds: Thresholds,
    /// What the generator shares between functions; set with the first compilation.
    shared: OnceLock<SharedCode>,
    /// For primal runs and for recording ones.
    tables: [Table; 2],
    compiling: Mutex<Compiling>,
}

/// Whose stack it is that something is compiled on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// A thread of the host, whose stack is known.
    Host,
    /// A run, which may have left little of its native stack.
    Run,
}

/// Stack for the code generator.
const COMPILER_STACK: usize = 4 << 20;

impl Tier {
    /// A tier without code. The generator does nothing before something is hot.
    pub(crate) fn new(generator: Arc<dyn Generator>, thresholds: Thresholds, functions: usize) -> Tier {
        Tier {
            thresholds,
            shared: OnceLock::new(),
            tables: [Table::new(functions), Table::new(functions)],
            compiling: Mutex::new(Compiling {
                generator,
                unit: None,
                loops: HashMap::new(),
                log: Vec::new(),
                failures: Vec::new(),
                broken: false,
            }),
        }
    }

    /// Locks what compiles, and makes it if this is the first time.
    fn compiling(&self) -> MutexGuard<'_, Compiling> {
        let mut compiling = self.lock();
        if compiling.unit.is_none() && compiling.failures.is_empty() {
            match stacker::grow(COMPILER_STACK, || compiling.generator.unit()) {
                Ok(unit) => {
                    let shared = *self.shared.get_or_init(|| unit.shared());
                    for entry in self.tables.iter().flat_map(|table| &table.entries) {
                        entry.store(shared.interpret.cast_mut(), Ordering::Relaxed);
                    }
                    compiling.unit = Some(unit);
                }
                Err(cause) => compiling.failures.push(cause),
            }
        }
        compiling
    }

    /// How many rounds of loops an activation of the interpreter counts before it asks [`Tier::looped`].
    pub(crate) fn back_edge_period(&self) -> u32 {
        self.thresholds.back_edges.clamp(1, 512)
    }

    /// Counts a call that the interpreter is about to make. Returns the function's code, if there is any by now.
    #[inline(always)]
    pub(crate) fn called(&self, program: &Program, func: u32, recording: bool) -> Option<Code> {
        let table = &self.tables[usize::from(recording)];
        if let Some(code) = NonNull::new(table.codes[func as usize].load(Ordering::Acquire)) {
            return Some(Code(code));
        }
        let counter = &table.calls[func as usize];
        let calls = counter.load(Ordering::Relaxed);
        if calls == REFUSED {
            return None;
        }
        counter.store(calls + 1, Ordering::Relaxed);
        if calls < self.thresholds.calls { None } else { self.compile(program, func, recording) }
    }

    /// Compiles a function from its beginning.
    #[cold]
    #[inline(never)]
    fn compile(&self, program: &Program, func: u32, recording: bool) -> Option<Code> {
        let table = &self.tables[usize::from(recording)];
        let mut compiling = self.compiling();
        if let Some(code) = NonNull::new(table.codes[func as usize].load(Ordering::Acquire)) {
            // Another thread was faster.
            return Some(Code(code));
        }
        let code = compiling.function(&self.request(program, func, recording, None));
        match code {
            Some(code) => {
                table.entries[func as usize].store(code.0.as_ptr(), Ordering::Release);
                table.codes[func as usize].store(code.0.as_ptr(), Ordering::Release);
            }
            None => table.calls[func as usize].store(REFUSED, Ordering::Relaxed),
        }
        code
    }

    /// Hears of rounds of a function's loops that the interpreter has run, the last of which goes to `header`. Returns
    /// code that begins there, if it is worth it by now.
    #[cold]
    #[inline(never)]
    pub(crate) fn looped(&self, program: &Program, func: u32, recording: bool, header: u32) -> Option<Code> {
        let table = &self.tables[usize::from(recording)];
        let counter = &table.back_edges[func as usize];
        let rounds = counter.load(Ordering::Relaxed).saturating_add(self.back_edge_period());
        counter.store(rounds, Ordering::Relaxed);
        if rounds < self.thresholds.back_edges {
            return None;
        }
        // The next call finds the function worth compiling, too.
        table.calls[func as usize].fetch_max(self.thresholds.calls, Ordering::Relaxed);
        let mut compiling = self.compiling();
        if let Some(&known) = compiling.loops.get(&(func, recording, header)) {
            return known;
        }
        let code = compiling.function(&self.request(program, func, recording, Some(header)));
        compiling.loops.insert((func, recording, header), code);
        code
    }

    fn request<'a>(&self, program: &'a Program, func: u32, recording: bool, entry: Option<u32>) -> FunctionRequest<'a> {
        FunctionRequest {
            func,
            name: &program.def.functions[func as usize].name,
            recording,
            entry,
            stream: program.stream(func, recording),
            entries: self.tables[usize::from(recording)].entries.as_ptr().cast(),
        }
    }

    /// Counts a record of a segment that the sweep has met. Returns the code of its adjoint, if there is any.
    #[inline(always)]
    pub(crate) fn segment(&self, id: u32, segment: &SegmentCode) -> Option<SegmentFn> {
        let code = self.adjoint(&segment.native, 1, |tier| {
            tier.compile_adjoint(&segment.native, || format!("segment {id}"), |unit| unit.segment(segment))
        })?;
        // SAFETY: a segment's code is one of these.
        Some(unsafe { std::mem::transmute::<*mut u8, SegmentFn>(code.0.as_ptr()) })
    }

    /// Counts the iterations of a loop whose record the sweep has met. Returns the code of its adjoint, if there is
    /// any.
    #[inline(always)]
    pub(crate) fn recorded_loop(&self, id: u32, code: &LoopCode, iterations: u64) -> Option<LoopFn> {
        let iterations = u32::try_from(iterations).unwrap_or(u32::MAX);
        let code = self.adjoint(&code.native, iterations, |tier| {
            tier.compile_adjoint(&code.native, || format!("loop {}", id & !LOOP), |unit| unit.recorded_loop(code))
        })?;
        // SAFETY: a loop's code is one of these.
        Some(unsafe { std::mem::transmute::<*mut u8, LoopFn>(code.0.as_ptr()) })
    }

    #[inline(always)]
    fn adjoint(
        &self,
        native: &NativeAdjoint,
        weight: u32,
        compile: impl FnOnce(&Self) -> Option<Code>,
    ) -> Option<Code> {
        if let Some(code) = NonNull::new(native.code.load(Ordering::Acquire)) {
            return Some(Code(code));
        }
        let heat = native.heat.load(Ordering::Relaxed);
        if heat == REFUSED {
            return None;
        }
        let heat = heat.saturating_add(weight).min(REFUSED - 1);
        native.heat.store(heat, Ordering::Relaxed);
        if heat < self.thresholds.records { None } else { compile(self) }
    }

    #[cold]
    #[inline(never)]
    fn compile_adjoint(
        &self,
        native: &NativeAdjoint,
        name: impl FnOnce() -> String,
        ask: impl FnOnce(&mut dyn Unit) -> Result<Compiled, Refusal>,
    ) -> Option<Code> {
        let mut compiling = self.compiling();
        if let Some(code) = NonNull::new(native.code.load(Ordering::Acquire)) {
            return Some(Code(code));
        }
        let began = Instant::now();
        let result = compiling.with_unit(Caller::Host, ask);
        let code = compiling.log(name(), Mode::Adjoint, None, began, result);
        match code {
            Some(code) => native.code.store(code.0.as_ptr(), Ordering::Release),
            None => native.heat.store(REFUSED, Ordering::Relaxed),
        }
        code
    }

    /// Runs native code on the current stack.
    ///
    /// # Safety
    /// `code` is that of a function of this module in the mode of the run, the arguments are the frame's first
    /// registers, or all registers stand in the frame for code that begins at a loop.
    #[inline(always)]
    pub(crate) unsafe fn enter(&self, code: Code, interp: &mut Interp, base: Registers, remaining: usize) -> Status {
        let Registers { reals, words, ints, refs } = base;
        let context = std::ptr::from_mut(interp).cast();
        let shared = self.shared.get().expect("there is code, so something has been compiled");
        // SAFETY: promised by the caller.
        match unsafe { (shared.enter)(code.0.as_ptr(), context, reals, words, ints, refs, remaining) } {
            0 => Status::Returned,
            _ => Status::Trapped,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Compiling> {
        self.compiling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that has been compiled so far.
    pub(crate) fn compiled(&self) -> Vec<CompiledCode> {
        self.lock().log.clone()
    }

    /// What the generator has failed for, and why.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.lock().failures.clone()
    }

    /// What the code of a function looks like.
    pub(crate) fn listing(&self, program: &Program, func: u32, recording: bool) -> Result<Listing, Refusal> {
        let mut compiling = self.compiling();
        let request = self.request(program, func, recording, None);
        compiling.with_unit(Caller::Host, |unit| unit.listing(&request))
    }
}

impl Compiling {
    /// Asks the unit for something, on a stack of its own.
    fn with_unit<T>(
        &mut self,
        caller: Caller,
        ask: impl FnOnce(&mut dyn Unit) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let unit = self.unit.as_deref_mut().filter(|_| !self.broken).ok_or(Refusal::Unsupported)?;
        // A generator that panics is broken, and what it works on may be; the code that it has made is good.
        let ask = || catch_unwind(AssertUnwindSafe(|| ask(unit)));
        let asked = match caller {
            Caller::Host => stacker::maybe_grow(COMPILER_STACK / 4, COMPILER_STACK, ask),
            Caller::Run => stacker::grow(COMPILER_STACK, ask),
        };
        asked.unwrap_or_else(|_| {
            self.broken = true;
            Err(Refusal::Failed("the generator panicked".to_owned()))
        })
    }

    fn function(&mut self, request: &FunctionRequest<'_>) -> Option<Code> {
        let began = Instant::now();
        let result = self.with_unit(Caller::Run, |unit| unit.function(request));
        let mode = if request.recording { Mode::Recording } else { Mode::Primal };
        self.log(request.name.to_owned(), mode, request.entry, began, result)
    }

    fn log(
        &mut self,
        name: String,
        mode: Mode,
        entry: Option<u32>,
        began: Instant,
        result: Result<Compiled, Refusal>,
    ) -> Option<Code> {
        match result {
            Ok(Compiled { code, bytes }) => {
                self.log.push(CompiledCode { name, mode, entry, bytes, time: began.elapsed() });
                NonNull::new(code.cast_mut()).map(Code)
            }
            Err(Refusal::TooLarge | Refusal::Unsupported) => None,
            Err(failed @ Refusal::Failed(_)) => {
                self.failures.push(format!("{mode:?} {name}: {failed}"));
                None
            }
        }
    }
}
