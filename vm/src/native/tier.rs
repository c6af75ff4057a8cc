//! When to compile what: counters, the table of entries, and the code of a module.

use super::{
    Compiled, FunctionRequest, Generator, Listing, LoopFn, Refusal, RegionFn, Request, SegmentFn, SharedCode, Unit,
};
use crate::bytecode::module::FuncId;
use crate::code::{ByMode, Mode, Position};
use crate::host::Panic;
use crate::records::adjoints::Adjoint;
use crate::records::recorded_loop::LoopCode;
use crate::records::region::RegionCode;
use crate::records::segment::SegmentCode;
use crate::running::meter::{Account, PIECE_MAX};
use crate::running::program::Program;
use crate::running::registers::Registers;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How often something runs in the interpreter before it is compiled, whatever that costs.
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
    /// Some thousands of each.
    fn default() -> Self {
        Thresholds { calls: 1_000, back_edges: 4_000, records: 2_000 }
    }
}

/// When something is compiled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Policy {
    /// When it has run so often.
    After(Thresholds),
    /// When interpreting it has taken as long as compiling it will take. Whatever it does from then on, both together
    /// have taken twice as long as the better one alone.
    Weighed,
}

impl Policy {
    /// Everything is compiled before it runs.
    pub(crate) const ALWAYS: Policy = Policy::After(Thresholds { calls: 0, back_edges: 1, records: 0 });
}

/// What is counted under [`Policy::Weighed`], in instructions: below this, nobody asks what compiling costs.
const COOL: u32 = 4_000;
/// Nanoseconds that an instruction takes longer in the interpreter, with its part of records and allocations; at each
/// depth twice as many as at the one below, because reals have twice as many components.
const PRIMAL_NS: u64 = 2;
const RECORDING_NS: u64 = 3;
/// The same of derived code, and of what surrounds it in a sweep.
const DERIVED_NS: u64 = 1;
/// What a sweep does for a record or an iteration besides its derived code, in instructions.
const RECORD_WEIGHT: usize = 12;
/// What a call takes besides, in instructions.
const CALL_WEIGHT: u32 = 12;
/// After so many calls of a function its code begins where calls do, and not at a loop: a call takes little of what the
/// code has to save, and what is before the loop would have to be compiled, too, later.
const MANY_CALLS: u32 = 8;

/// What a piece of native code is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum CodeKind {
    /// A function, for runs in this mode.
    Function(Mode),
    /// The adjoint of a segment or of a loop, for sweeps.
    Adjoint,
}

impl fmt::Display for CodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeKind::Function(mode) => mode.fmt(f),
            CodeKind::Adjoint => f.pad("adjoint"),
        }
    }
}

/// A piece of native code of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CompiledCode {
    /// The function's name; for an adjoint, which record it is for.
    pub name: String,
    /// What it is for.
    pub kind: CodeKind,
    /// The loop at whose head the code begins, if it doesn't begin with the function: a stream position.
    pub entry: Option<Position>,
    /// The size of the machine code in bytes.
    pub bytes: usize,
    /// How long compiling was expected to take, on an idle core.
    pub estimate: Duration,
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

    /// # Safety
    /// It is the code of a loop's adjoint.
    unsafe fn of_loop(self) -> LoopFn {
        // SAFETY: promised by the caller: such code is one of these, as `Unit` promises.
        unsafe { std::mem::transmute::<*mut u8, LoopFn>(self.0.as_ptr()) }
    }
}

/// How native code has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Status {
    Returned = 0,
    Trapped = 1,
}

/// Something that may have native code: a function in one mode, or the adjoint of a segment or a loop.
#[derive(Debug, Default)]
pub(crate) struct Candidate {
    code: AtomicPtr<u8>,
    /// How much of it has run in the interpreter: runs, or instructions if they are weighed.
    heat: AtomicU32,
    /// How much that has to be; 0 before anyone has weighed it, [`REFUSED`] from then on that it is refused.
    threshold: AtomicU32,
    /// Microseconds that compiling it will take; 0 before anyone has asked.
    estimate: AtomicU32,
}

/// The threshold of what has been refused, which nothing reaches. Its counter stands here, too, and doesn't move: but
/// for a thread that was about to count while another one refused it, and then until the count is asked about.
const REFUSED: u32 = u32::MAX;

impl Candidate {
    fn code(&self) -> Option<Code> {
        NonNull::new(self.code.load(Ordering::Acquire)).map(Code)
    }

    /// Counts so many runs of it. Says whether it has run often enough to be compiled. The count may lose some of those
    /// of other threads.
    fn warm(&self, runs: u32, threshold: u32) -> bool {
        let heat = self.heat.load(Ordering::Relaxed);
        if heat == REFUSED {
            return false;
        }
        let heat = heat.saturating_add(runs).min(REFUSED - 1);
        self.heat.store(heat, Ordering::Relaxed);
        heat > threshold && self.is_worth_it(heat)
    }

    /// Whether it has run often enough for what compiling it costs.
    fn is_worth_it(&self, heat: u32) -> bool {
        match self.threshold.load(Ordering::Relaxed) {
            REFUSED => {
                self.heat.store(REFUSED, Ordering::Relaxed);
                false
            }
            threshold => heat >= threshold,
        }
    }

    /// Counts so many runs that were not asked about.
    fn heat_up(&self, runs: u32) {
        let heat = self.heat.load(Ordering::Relaxed);
        if heat != REFUSED {
            self.heat.store(heat.saturating_add(runs).min(REFUSED - 1), Ordering::Relaxed);
        }
    }

    /// It is not to be compiled before it has run so often.
    fn wait_for(&self, threshold: u32) {
        let change = |old| (old != REFUSED).then_some(threshold.min(REFUSED - 1));
        // It fails for what was refused meanwhile.
        _ = self.threshold.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }

    /// It is never to be compiled.
    fn refuse(&self) {
        self.threshold.store(REFUSED, Ordering::Relaxed);
        self.heat.store(REFUSED, Ordering::Relaxed);
    }

    fn is_refused(&self) -> bool {
        self.threshold.load(Ordering::Relaxed) == REFUSED
    }
}

/// Functions in one mode.
#[derive(Debug)]
struct Table {
    functions: Box<[Candidate]>,
    /// What native code calls, from the first compilation in this mode on: native code, or what calls the interpreter.
    entries: Box<[AtomicPtr<u8>]>,
    /// Whether there is something in all of them.
    opened: AtomicBool,
    /// Rounds of loops in the interpreter, by function; instructions if they are weighed.
    back_edges: Box<[AtomicU32]>,
    /// Calls that the interpreter has made, by function, if they are weighed.
    calls: Box<[AtomicU32]>,
    /// Whether there is code that begins at a loop of the function.
    entered: Box<[AtomicBool]>,
}

impl Table {
    fn new(functions: usize) -> Self {
        Table {
            functions: (0..functions).map(|_| Candidate::default()).collect(),
            entries: (0..functions).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect(),
            opened: AtomicBool::new(false),
            back_edges: (0..functions).map(|_| AtomicU32::new(0)).collect(),
            calls: (0..functions).map(|_| AtomicU32::new(0)).collect(),
            entered: (0..functions).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Makes the entries something to call, before there is code that does. Only who may compile comes here.
    fn open(&self, shared: &SharedCode) {
        if !self.opened.swap(true, Ordering::Relaxed) {
            for entry in &self.entries {
                entry.store(shared.interpret.cast_mut(), Ordering::Relaxed);
            }
        }
    }
}

/// A loop at whose head native code may begin.
#[derive(Debug)]
struct LoopEntry {
    candidate: Candidate,
    /// The instructions of a round, at most.
    len: u32,
}

/// What a piece of code is for.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Function {
        func: FuncId,
        mode: Mode,
        entry: Option<Position>,
    },
    Segment(u32),
    Loop(u32),
    /// The adjoint of a region.
    Region(u32),
}

/// A line of the log: what [`CompiledCode`] says, without the name.
#[derive(Debug)]
struct Entry {
    subject: Subject,
    bytes: usize,
    estimate: Duration,
    time: Duration,
}

/// What is behind the lock: compiling is rare.
#[derive(Debug, Default)]
struct Compiling {
    /// Made for the first compilation; `None` afterwards, too, if this machine has no native code.
    unit: Option<Box<dyn Unit>>,
    /// Memory that the unit's code takes, about.
    code_bytes: u64,
    log: Vec<Entry>,
    failures: Vec<String>,
    broken: bool,
}

/// The native code of a module.
#[derive(Debug)]
pub(crate) struct Tier {
    policy: Policy,
    /// What has to run before anyone asks: `After`'s thresholds, or instructions.
    thresholds: Thresholds,
    /// How many functions there are.
    functions: usize,
    /// Nanoseconds of interpreting that would have been worth compiling, but for what the first compilation costs.
    waiting: AtomicU64,
    generator: Arc<dyn Generator>,
    /// What the generator shares between functions; set with the first compilation.
    shared: OnceLock<SharedCode>,
    tables: ByMode<Table>,
    /// Code that begins at loops, by function, mode and stream position.
    loops: Mutex<HashMap<(FuncId, Mode, Position), Arc<LoopEntry>>>,
    compiling: Mutex<Compiling>,
}

/// Stack for the code generator.
const COMPILER_STACK: usize = 4 << 20;
/// Failures that are remembered.
const FAILURES_MAX: usize = 100;

/// Memory that a piece of code takes, about: pages of its own, and what the generator remembers of it.
fn memory_of(bytes: usize) -> u64 {
    const PAGE: u64 = 4096;
    (bytes as u64).next_multiple_of(PAGE) + bytes as u64 / 2 + 1024
}

/// Locks what is right whatever happened to the thread that had it last.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tier {
    /// A tier without code. The generator does nothing before something is hot.
    pub(crate) fn new(generator: Arc<dyn Generator>, policy: Policy, functions: usize) -> Tier {
        let thresholds = match policy {
            Policy::After(thresholds) => thresholds,
            Policy::Weighed => Thresholds { calls: COOL, back_edges: COOL, records: COOL },
        };
        Tier {
            policy,
            thresholds,
            functions,
            waiting: AtomicU64::new(0),
            generator,
            shared: OnceLock::new(),
            tables: ByMode::new(|| Table::new(functions)),
            loops: Mutex::default(),
            compiling: Mutex::default(),
        }
    }

    /// The same for another program, of so many functions.
    pub(crate) fn of_functions(&self, functions: usize) -> Tier {
        Tier::new(self.generator.clone(), self.policy, functions)
    }

    #[inline(always)]
    fn table(&self, mode: Mode) -> &Table {
        self.tables.get(mode, || Table::new(self.functions))
    }

    /// How many rounds of loops an activation of the interpreter counts before it asks [`Tier::looped`].
    pub(crate) fn back_edge_period(&self) -> u32 {
        match self.policy {
            Policy::After(thresholds) => thresholds.back_edges.clamp(1, 512),
            Policy::Weighed => 512,
        }
    }

    /// Whether native code may begin at a loop of this function.
    #[inline(always)]
    pub(crate) fn is_entered(&self, func: FuncId, mode: Mode) -> bool {
        self.table(mode).entered[func.index()].load(Ordering::Relaxed)
    }

    /// Counts so many instructions of a function that the interpreter has run, not counting those of its callees.
    #[inline(always)]
    pub(crate) fn ran(&self, func: FuncId, mode: Mode, instructions: i64) {
        if matches!(self.policy, Policy::Weighed) {
            self.table(mode).functions[func.index()].heat_up(u32::try_from(instructions).unwrap_or(u32::MAX));
        }
    }

    /// Counts a call that the interpreter is about to make. Returns the function's code, if there is any by now.
    #[inline(always)]
    pub(crate) fn called(&self, program: &Program, func: FuncId, mode: Mode, account: &Account) -> Option<Code> {
        let table = self.table(mode);
        let candidate = &table.functions[func.index()];
        candidate.code().or_else(|| {
            let is_weighed = matches!(self.policy, Policy::Weighed);
            if is_weighed {
                let calls = &table.calls[func.index()];
                calls.store(calls.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
            }
            let call = if is_weighed { CALL_WEIGHT } else { 1 };
            let hot = candidate.warm(call, self.thresholds.calls) && account.compiles();
            if hot { self.compile_function(program, func, mode, candidate, account) } else { None }
        })
    }

    /// Compiles a function from its beginning, if what pays for that has run often enough.
    #[cold]
    #[inline(never)]
    fn compile_function(
        &self,
        program: &Program,
        func: FuncId,
        mode: Mode,
        payer: &Candidate,
        account: &Account,
    ) -> Option<Code> {
        let table = self.table(mode);
        let subject = Subject::Function { func, mode, entry: None };
        let code = self.compile(program, payer, (subject, &table.functions[func.index()]), account)?;
        table.entries[func.index()].store(code.0.as_ptr(), Ordering::Release);
        Some(code)
    }

    /// Hears of so many rounds of a function's loops that the interpreter has run, the last of which goes to `header`.
    /// Returns code that begins there, if it is worth it by now.
    #[cold]
    #[inline(never)]
    pub(crate) fn looped(
        &self,
        program: &Program,
        (func, mode): (FuncId, Mode),
        header: Position,
        rounds: u32,
        account: &Account,
    ) -> Option<Code> {
        let table = self.table(mode);
        let whole = &table.functions[func.index()];
        if !account.compiles() || whole.is_refused() {
            return None;
        }
        let place = (func, mode, header);
        let at_header = match self.policy {
            Policy::Weighed => Some(self.loop_entry(program, place)),
            Policy::After(_) => None,
        };
        let run = at_header.as_ref().map_or(rounds, |entry| rounds.saturating_mul(entry.len));
        let counter = &table.back_edges[func.index()];
        let all = counter.load(Ordering::Relaxed).saturating_add(run);
        counter.store(all, Ordering::Relaxed);
        if matches!(self.policy, Policy::After(_)) {
            if all < self.thresholds.back_edges {
                return None;
            }
            // The next call finds the function worth compiling, too.
            whole.heat.fetch_max(self.thresholds.calls, Ordering::Relaxed);
        }
        let entry = at_header.unwrap_or_else(|| self.loop_entry(program, place));
        if let Some(code) = entry.candidate.code() {
            return Some(code);
        }
        // Code that begins here runs the rest of the function, so all of its loops count.
        entry.candidate.heat.fetch_max(all.min(REFUSED - 1), Ordering::Relaxed);
        if !entry.candidate.warm(0, self.thresholds.back_edges.saturating_sub(1)) {
            return None;
        }
        let calls = table.calls[func.index()].load(Ordering::Relaxed);
        let code = if calls >= MANY_CALLS && whole.code().is_none() {
            // The loop pays for all of it, and this call goes on as it is.
            self.compile_function(program, func, mode, &entry.candidate, account)?;
            entry.candidate.heat.store(0, Ordering::Relaxed);
            None
        } else {
            let subject = Subject::Function { func, mode, entry: Some(header) };
            let code = self.compile(program, &entry.candidate, (subject, &entry.candidate), account)?;
            table.entered[func.index()].store(true, Ordering::Relaxed);
            Some(code)
        };
        if matches!(self.policy, Policy::Weighed) {
            // What was interpreted so far has paid for this code. The next has to be earned anew.
            whole.heat.store(0, Ordering::Relaxed);
            counter.store(0, Ordering::Relaxed);
        }
        code
    }

    fn loop_entry(&self, program: &Program, place: (FuncId, Mode, Position)) -> Arc<LoopEntry> {
        let (func, mode, header) = place;
        let entry = || {
            let len = program.stream(func, mode).round(header);
            Arc::new(LoopEntry { candidate: Candidate::default(), len })
        };
        lock(&self.loops).entry(place).or_insert_with(entry).clone()
    }

    /// Counts a record of a segment that the sweep has met. Returns the code of its adjoint, if there is any.
    #[inline(always)]
    pub(crate) fn segment(
        &self,
        program: &Program,
        (id, code): (u32, &Adjoint<SegmentCode>),
        account: &Account,
    ) -> Option<SegmentFn> {
        let len = code.adjoint.code.len();
        let code = self.adjoint(program, &code.native, Subject::Segment(id), (1, len), account)?;
        // SAFETY: a segment's code is one of these, as `Unit` promises.
        Some(unsafe { std::mem::transmute::<*mut u8, SegmentFn>(code.0.as_ptr()) })
    }

    /// Counts the iterations of a loop whose record the sweep has met. Returns the code of its adjoint, if there is
    /// any.
    #[inline(always)]
    pub(crate) fn recorded_loop(
        &self,
        program: &Program,
        (id, code): (u32, &Adjoint<LoopCode>),
        iterations: u64,
        account: &Account,
    ) -> Option<LoopFn> {
        let iterations = u32::try_from(iterations).unwrap_or(u32::MAX);
        let len = code.body.len();
        let code = self.adjoint(program, &code.native, Subject::Loop(id), (iterations, len), account)?;
        // SAFETY: it is a loop's.
        Some(unsafe { code.of_loop() })
    }

    /// The code of a loop's adjoint, if there is any.
    #[inline(always)]
    pub(crate) fn compiled_loop(code: &Adjoint<LoopCode>) -> Option<LoopFn> {
        // SAFETY: it is a loop's.
        code.native.code().map(|code| unsafe { code.of_loop() })
    }

    /// Counts the instructions of a region's adjoint whose record the sweep has met. Returns its code, if there is any.
    #[inline(always)]
    pub(crate) fn region(
        &self,
        program: &Program,
        (id, code): (u32, &Adjoint<RegionCode>),
        cost: u32,
        account: &Account,
    ) -> Option<RegionFn> {
        let code = code.native.code().or_else(|| {
            // A round of one of its loops is about what one of a recorded loop is.
            let round = (code.len() / code.blocks.len()).max(1);
            self.adjoint(program, &code.native, Subject::Region(id), (cost / round as u32, round), account)
        })?;
        // SAFETY: a region's code is one of these, as `Unit` promises.
        Some(unsafe { std::mem::transmute::<*mut u8, RegionFn>(code.0.as_ptr()) })
    }

    #[inline(always)]
    fn adjoint(
        &self,
        program: &Program,
        candidate: &Candidate,
        subject: Subject,
        (runs, len): (u32, usize),
        account: &Account,
    ) -> Option<Code> {
        candidate.code().or_else(|| {
            let runs = match self.policy {
                Policy::After(_) => runs,
                Policy::Weighed => runs.saturating_mul((RECORD_WEIGHT + len) as u32),
            };
            let hot = candidate.warm(runs, self.thresholds.records) && account.compiles();
            if hot { self.compile(program, candidate, (subject, candidate), account) } else { None }
        })
    }

    /// Compiles a candidate, if what pays for it has run often enough, if that doesn't take too long, if the run can
    /// afford it, and if no other thread compiles something for this module: then there is something better to do than
    /// to wait.
    #[cold]
    #[inline(never)]
    fn compile(
        &self,
        program: &Program,
        payer: &Candidate,
        (subject, candidate): (Subject, &Candidate),
        account: &Account,
    ) -> Option<Code> {
        if let Subject::Function { func, mode, .. } = subject {
            // Whoever stops this stops the run, too.
            program.prepare(func, mode, account).ok()?;
        }
        let request = self.request(program, subject);
        // Code that begins at a loop is about as long as that of the whole function.
        let whole = match subject {
            Subject::Function { func, mode, .. } => &self.table(mode).functions[func.index()],
            Subject::Segment(_) | Subject::Loop(_) | Subject::Region(_) => candidate,
        };
        // What takes longer stays interpreted: nobody can stop the generator in the middle.
        let estimate = self.estimate(whole, &request, account.piece_max());
        if estimate > account.piece_max() {
            whole.refuse();
            return None;
        }
        // A round of a loop counts what the mode has made of it.
        let is_function = matches!(subject, Subject::Function { entry: None, .. }) && std::ptr::eq(payer, candidate);
        if matches!(self.policy, Policy::Weighed) && !self.pays(payer, (subject, is_function), estimate) {
            return None;
        }
        if !account.affords(estimate) {
            return None;
        }
        let mut compiling = match self.compiling.try_lock() {
            Ok(compiling) => compiling,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if let Some(code) = candidate.code() {
            // Another thread was faster.
            return Some(code);
        }
        if compiling.code_bytes >= account.code_bytes_max {
            account.compile_no_more();
            return None;
        }
        let began = Instant::now();
        self.open(&mut compiling);
        if let (Subject::Function { mode, .. }, Some(shared)) = (subject, self.shared.get()) {
            self.table(mode).open(shared);
        }
        let result = compiling.with_unit(|unit| unit.compile(&request));
        let time = began.elapsed();
        account.spent_compiling(time);
        let code = match result {
            Ok(Compiled { code, bytes }) => {
                compiling.code_bytes += memory_of(bytes);
                compiling.log.push(Entry { subject, bytes, estimate, time });
                NonNull::new(code.cast_mut()).map(Code)
            }
            Err(Refusal::TooLarge | Refusal::Unsupported) => None,
            Err(failed @ Refusal::Failed(_)) => {
                let (name, kind) = describe(program, subject);
                compiling.fail(format!("{kind} {name}: {failed}"));
                None
            }
        };
        match code {
            Some(code) => candidate.code.store(code.0.as_ptr(), Ordering::Release),
            None => candidate.refuse(),
        }
        code
    }

    /// Whether interpreting a candidate has taken as long as compiling the subject will. If not, it says when to ask
    /// again. Instructions of functions are those of bytecode, whatever the mode makes of them.
    fn pays(&self, candidate: &Candidate, (subject, is_function): (Subject, bool), estimate: Duration) -> bool {
        let instruction = match subject {
            Subject::Function { mode, .. } => {
                let instruction = if mode.is_recording() { RECORDING_NS } else { PRIMAL_NS };
                if is_function { instruction << mode.depth() } else { instruction }
            }
            Subject::Segment(_) | Subject::Loop(_) | Subject::Region(_) => DERIVED_NS,
        };
        let estimate = estimate.as_nanos() as u64;
        let price = u32::try_from(estimate / instruction).unwrap_or(REFUSED - 1);
        let heat = candidate.heat.load(Ordering::Relaxed);
        if heat < price {
            candidate.wait_for(price);
            return false;
        }
        if self.shared.get().is_some() {
            return true;
        }
        // The first compilation costs more. It pays when all that would have been compiled without that has taken as
        // long. What was counted for this candidate before is what it had then.
        let counted = candidate.threshold.load(Ordering::Relaxed).saturating_sub(price);
        let spent = u64::from(heat.saturating_sub(counted)) * instruction;
        let all = self.waiting.fetch_add(spent, Ordering::Relaxed) + spent;
        let opening = self.generator.opening().as_nanos() as u64;
        if all < estimate + opening {
            candidate.wait_for(heat.saturating_add(price));
            return false;
        }
        true
    }

    /// How long compiling a candidate takes; the generator is asked once.
    fn estimate(&self, candidate: &Candidate, request: &Request<'_>, max: Duration) -> Duration {
        let known = candidate.estimate.load(Ordering::Relaxed);
        if known > 0 {
            return Duration::from_micros(known.into());
        }
        // One that panics is never to compile this.
        let estimate = guarded(|| self.generator.estimate(request, max)).unwrap_or(Duration::MAX);
        let micros = u32::try_from(estimate.as_micros()).unwrap_or(u32::MAX).max(1);
        candidate.estimate.store(micros, Ordering::Relaxed);
        Duration::from_micros(micros.into())
    }

    /// Makes the unit if this is the first time.
    fn open(&self, compiling: &mut Compiling) {
        if compiling.unit.is_none() && compiling.failures.is_empty() {
            let open = || {
                let unit = self.generator.unit()?;
                let shared = unit.shared();
                Ok((unit, shared))
            };
            let opened = stacker::grow(COMPILER_STACK, || guarded(open));
            match opened.unwrap_or_else(|| Err(PANICKED.to_owned())) {
                Ok((unit, shared)) => {
                    _ = self.shared.set(shared);
                    compiling.unit = Some(unit);
                }
                Err(cause) => compiling.fail(cause),
            }
        }
    }

    fn request<'a>(&self, program: &'a Program, subject: Subject) -> Request<'a> {
        match subject {
            Subject::Function { func, mode, entry } => {
                Request::Function(self.function_request(program, func, mode, entry))
            }
            Subject::Segment(id) => Request::Segment(program.segment(id)),
            Subject::Loop(id) => Request::Loop(program.recorded_loop(id)),
            Subject::Region(id) => Request::Region(program.region(id)),
        }
    }

    fn function_request<'a>(
        &self,
        program: &'a Program,
        func: FuncId,
        mode: Mode,
        entry: Option<Position>,
    ) -> FunctionRequest<'a> {
        let function = &program.def.functions[func.index()];
        FunctionRequest {
            func,
            name: &function.name,
            mode,
            entry,
            stream: program.stream(func, mode),
            entries: self.table(mode).entries.as_ptr().cast(),
            body: &function.body,
        }
    }

    /// Runs native code on the current stack.
    ///
    /// # Safety
    /// `code` is that of a function of this module in the mode of the run, the arguments are the frame's first
    /// registers, or all registers stand in the frame for code that begins at a loop.
    #[inline(always)]
    pub(crate) unsafe fn enter(&self, code: Code, worker: *mut u8, base: Registers, remaining: usize) -> Status {
        let Registers { reals, words, ints, refs } = base;
        let shared = self.shared.get().expect("there is code, so something has been compiled");
        // SAFETY: promised by the caller.
        match unsafe { (shared.enter)(code.0.as_ptr(), worker, reals, words.cast(), ints, refs, remaining) } {
            0 => Status::Returned,
            _ => Status::Trapped,
        }
    }

    /// Everything that has been compiled so far.
    pub(crate) fn compiled(&self, program: &Program) -> Vec<CompiledCode> {
        let line = |&Entry { subject, bytes, estimate, time }: &Entry| {
            let (name, kind) = describe(program, subject);
            let entry = if let Subject::Function { entry, .. } = subject { entry } else { None };
            CompiledCode { name, kind, entry, bytes, estimate, time }
        };
        lock(&self.compiling).log.iter().map(line).collect()
    }

    /// What the generator has failed for, and why.
    pub(crate) fn failures(&self) -> Vec<String> {
        lock(&self.compiling).failures.clone()
    }

    /// What the code of a function looks like.
    pub(crate) fn listing(&self, program: &Program, func: FuncId, mode: Mode) -> Result<Listing, Refusal> {
        program.prepare_at_leisure(func, mode);
        let request = self.function_request(program, func, mode, None);
        let estimate = guarded(|| self.generator.estimate(&Request::Function(request), PIECE_MAX));
        if estimate.is_none_or(|estimate| estimate > PIECE_MAX) {
            return Err(Refusal::TooLarge);
        }
        let mut compiling = lock(&self.compiling);
        self.open(&mut compiling);
        compiling.with_unit(|unit| unit.listing(&request))
    }
}

/// A candidate's name, and what it is for.
fn describe(program: &Program, subject: Subject) -> (String, CodeKind) {
    match subject {
        Subject::Function { func, mode, .. } => {
            (program.def.functions[func.index()].name.clone(), CodeKind::Function(mode))
        }
        Subject::Segment(id) => (format!("segment {id}"), CodeKind::Adjoint),
        Subject::Loop(id) => (format!("loop {id}"), CodeKind::Adjoint),
        Subject::Region(id) => (format!("region {id}"), CodeKind::Adjoint),
    }
}

const PANICKED: &str = "the generator panicked";

/// Asks a generator for something; `None` if it panics. Nothing may unwind from here: the frames of native code and the
/// ground of its stack are below.
fn guarded<R>(ask: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(ask)).map_err(Panic::new).ok()
}

impl Compiling {
    /// Asks the unit for something, on a stack of its own: whose stack it would be else, and how much of it is left,
    /// isn't known.
    fn with_unit<T>(&mut self, ask: impl FnOnce(&mut dyn Unit) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let unit = self.unit.as_deref_mut().filter(|_| !self.broken).ok_or(Refusal::Unsupported)?;
        // A generator that panics is broken, and what it works on may be; the code that it has made is good.
        stacker::grow(COMPILER_STACK, || guarded(|| ask(unit))).unwrap_or_else(|| {
            self.broken = true;
            Err(Refusal::Failed(PANICKED.to_owned()))
        })
    }

    fn fail(&mut self, failure: String) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(failure);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_count_undoes_a_refusal() {
        let candidate = Candidate::default();
        candidate.wait_for(100);
        assert!(!candidate.warm(99, 10) && candidate.warm(1, 10));
        candidate.refuse();
        // A thread that had loaded the count before, one that begins anew, and one that says when to ask again.
        for late in [0, 500, REFUSED - 1] {
            candidate.heat.store(late, Ordering::Relaxed);
            candidate.wait_for(50);
            candidate.heat_up(7);
            assert!(candidate.is_refused() && !candidate.warm(1000, 10));
            assert_eq!(candidate.heat.load(Ordering::Relaxed), REFUSED);
        }
    }
}
