//! When to compile what: counters, the table of entries, and the code of a module.

use super::{Compiled, EnterFn, FunctionRequest, Generator, Listing, Refusal, SegmentFn, SegmentRequest, Unit};
use crate::interp::{Interp, Registers};
use crate::program::Program;
use crate::record::SegmentCode;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often something runs in the interpreter before it is compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Calls of a function.
    pub calls: u32,
    /// Rounds of a function's loops.
    pub back_edges: u32,
    /// Records of a segment that are swept.
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
    /// Plain runs.
    Primal,
    /// Runs that record.
    Recording,
    /// The sweep: the code is that of a segment of the function.
    Adjoint,
}

/// A piece of native code of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledCode {
    /// The function's number; for an adjoint the segment's.
    pub func: u32,
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
    /// Native code, or what calls the interpreter. Native code reads this table.
    entries: Box<[AtomicPtr<u8>]>,
    calls: Box<[AtomicU32]>,
    back_edges: Box<[AtomicU32]>,
}

impl Table {
    fn new(functions: usize, interpret: *const u8) -> Self {
        let counters = || (0..functions).map(|_| AtomicU32::new(0)).collect();
        Table {
            entries: (0..functions).map(|_| AtomicPtr::new(interpret.cast_mut())).collect(),
            calls: counters(),
            back_edges: counters(),
        }
    }
}

/// What is behind the lock: compiling is rare.
#[derive(Debug)]
struct Compiling {
    unit: Box<dyn Unit>,
    /// Code that begins at loops, by function, mode and stream position.
    loops: HashMap<(u32, bool, u32), Option<Code>>,
    log: Vec<CompiledCode>,
    failures: Vec<String>,
}

// SAFETY: the addresses lead to code that the unit owns and that does not change.
unsafe impl Send for Compiling {}

/// The native code of a module.
#[derive(Debug)]
pub(crate) struct Tier {
    thresholds: Thresholds,
    enter: EnterFn,
    interpret: *const u8,
    /// For primal runs and for recording ones.
    tables: [Table; 2],
    compiling: Mutex<Compiling>,
}

// SAFETY: `interpret` is the address of code that lives as long as the unit.
unsafe impl Send for Tier {}
// SAFETY: as above; everything else is atomic or behind the lock.
unsafe impl Sync for Tier {}

/// Stack for the code generator: native stacks of a run may have little room left.
const COMPILER_STACK: usize = 4 << 20;

impl Tier {
    /// A tier without code, or `None` if the generator can't make any on this machine.
    pub(crate) fn new(generator: &dyn Generator, thresholds: Thresholds, functions: usize) -> Option<Tier> {
        let unit = generator.unit().ok()?;
        let shared = unit.shared();
        Some(Tier {
            thresholds,
            enter: shared.enter,
            interpret: shared.interpret,
            tables: [Table::new(functions, shared.interpret), Table::new(functions, shared.interpret)],
            compiling: Mutex::new(Compiling { unit, loops: HashMap::new(), log: Vec::new(), failures: Vec::new() }),
        })
    }

    /// How many rounds of loops an activation of the interpreter counts before it asks [`Tier::looped`].
    pub(crate) fn back_edge_period(&self) -> u32 {
        self.thresholds.back_edges.clamp(1, 512)
    }

    /// Counts a call that the interpreter is about to make. Returns the function's code, if there is any by now.
    #[inline(always)]
    pub(crate) fn called(&self, program: &Program, func: u32, recording: bool) -> Option<Code> {
        let table = &self.tables[usize::from(recording)];
        let entry = table.entries[func as usize].load(Ordering::Acquire);
        if !std::ptr::eq(entry, self.interpret) {
            return NonNull::new(entry).map(Code);
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
        let mut compiling = self.lock();
        let entry = table.entries[func as usize].load(Ordering::Acquire);
        if !std::ptr::eq(entry, self.interpret) {
            // Another thread was faster.
            return NonNull::new(entry).map(Code);
        }
        let code = compiling.function(&self.request(program, func, recording, None));
        match code {
            Some(code) => table.entries[func as usize].store(code.0.as_ptr(), Ordering::Release),
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
        let mut compiling = self.lock();
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

    /// Counts `records` records of a segment that the sweep has met. Returns the code of its adjoint, if there is any.
    #[inline(always)]
    pub(crate) fn segment(&self, id: u32, segment: &SegmentCode, records: u32) -> Option<SegmentFn> {
        let native = &segment.native;
        let code = native.code.load(Ordering::Acquire);
        if !code.is_null() {
            // SAFETY: what stands here is the entry of a segment's code.
            return Some(unsafe { std::mem::transmute::<*mut u8, SegmentFn>(code) });
        }
        let heat = native.heat.load(Ordering::Relaxed);
        if heat == REFUSED {
            return None;
        }
        native.heat.store(heat.saturating_add(records).min(REFUSED - 1), Ordering::Relaxed);
        if heat < self.thresholds.records { None } else { self.compile_segment(id, segment) }
    }

    #[cold]
    #[inline(never)]
    fn compile_segment(&self, id: u32, segment: &SegmentCode) -> Option<SegmentFn> {
        let mut compiling = self.lock();
        let native = &segment.native;
        if native.code.load(Ordering::Acquire).is_null() {
            let began = Instant::now();
            let request = SegmentRequest { id, segment };
            let result = stacker::grow(COMPILER_STACK, || compiling.unit.segment(&request));
            match compiling.log(id, Mode::Adjoint, None, began, result) {
                Some(code) => native.code.store(code.0.as_ptr(), Ordering::Release),
                None => {
                    native.heat.store(REFUSED, Ordering::Relaxed);
                    return None;
                }
            }
        }
        // SAFETY: as in `segment`.
        Some(unsafe { std::mem::transmute::<*mut u8, SegmentFn>(native.code.load(Ordering::Acquire)) })
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
        // SAFETY: promised by the caller.
        match unsafe { (self.enter)(code.0.as_ptr(), context, reals, words, ints, refs, remaining) } {
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
        let request = self.request(program, func, recording, None);
        if !request.stream.loops.is_empty() {
            return Err(Refusal::Failed("it has a loop that is recorded as one".into()));
        }
        self.lock().unit.listing(&request)
    }
}

impl Compiling {
    fn function(&mut self, request: &FunctionRequest<'_>) -> Option<Code> {
        // Generators don't know loops that are recorded as one.
        if !request.stream.loops.is_empty() {
            return None;
        }
        let began = Instant::now();
        let result = stacker::grow(COMPILER_STACK, || self.unit.function(request));
        let mode = if request.recording { Mode::Recording } else { Mode::Primal };
        self.log(request.func, mode, request.entry, began, result)
    }

    fn log(
        &mut self,
        func: u32,
        mode: Mode,
        entry: Option<u32>,
        began: Instant,
        result: Result<Compiled, Refusal>,
    ) -> Option<Code> {
        match result {
            Ok(Compiled { code, bytes }) => {
                self.log.push(CompiledCode { func, mode, entry, bytes, time: began.elapsed() });
                NonNull::new(code.cast_mut()).map(Code)
            }
            Err(Refusal::TooLarge) => None,
            Err(failed @ Refusal::Failed(_)) => {
                self.failures.push(format!("{mode:?} {func}: {failed}"));
                None
            }
        }
    }
}
