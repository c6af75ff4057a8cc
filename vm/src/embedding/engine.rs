//! What an embedder holds: [`Engine`] → [`Module`] → [`Function`], limits, and what a run reports.
//!
//! An engine owns the memory that runs reuse. A module is verified code; a function of it can be called from any number
//! of threads at a time. Nothing that a program does panics or aborts the host: every failure is a [`RunError`].

use crate::bytecode::module::{DataDef, FuncId, HostType, Interface, ModuleDef};
use crate::bytecode::verify::{VerifyError, verify};
use crate::code::Mode;
use crate::embedding::convert::{self, ReadError, Reader, Seed, Store};
use crate::embedding::job_graph::JobGraph;
use crate::embedding::value::{ArgumentError, VALUE_DEPTH_MAX, Value};
use crate::memory::heap::{Heap, HeapLimits};
use crate::memory::idle::Idle;
use crate::memory::pool::SlabPool;
use crate::memory::stack::Reserve;
use crate::native::{CompiledCode, Generator, Listing, Refusal, Thresholds, Tier};
use crate::running::interp::{Arguments, Crew, Interp, Place};
use crate::running::meter::{Account, Meter};
use crate::running::program::Program;
use crate::sweep::Sweep;
use crate::tape::Tape;
use crate::trap::{Limit, TraceFrame, Trap, TrapKind};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub use crate::memory::stack::HOST_JOB_STACK_BYTES;
pub use crate::running::limits::Limits;
pub use crate::running::meter::CancelHandle;

/// How an engine works.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Config {
    /// Limits of calls that bring none of their own.
    pub limits: Limits,
    /// When code is compiled. Without a generator everything is interpreted.
    pub jit: Jit,
    /// What makes native code. The crate `dualvm` brings one where there is none here.
    pub generator: Option<Arc<dyn Generator>>,
    /// How many threads run the tasks of forks and their sweeps; 0, the default: one per core. 1: the thread that
    /// calls. Results are the same bits for any number. The threads are started by the first call of a function that
    /// forks.
    pub threads: usize,
    /// The threads to use, in place of threads of the engine's own.
    ///
    /// A thread that waits for a task may take up a job of the host's own from the same pool, as any thread of it does
    /// that waits. The job then stands on the stack of the run, not on the thread's. It has at least
    /// [`HOST_JOB_STACK_BYTES`] of stack there, 2 MiB, however deep the run has recursed, whatever the threads of the
    /// pool have; a job that needs more should grow its stack itself or run elsewhere. What goes beyond meets a guard
    /// page and ends the process, as on a thread's own stack. Jobs that wait in turn, and take up others, share the
    /// room.
    ///
    /// Time that a call waits for threads of the pool counts against its deadline, and a call whose deadline passes
    /// meanwhile ends as soon as it gets one. How late that is depends on the other jobs: a call that forks enters the
    /// pool, and a thread of it that waits for a half of a fork may take up another job and go back when that has
    /// ended. The bound of [`Limits::deadline`] holds for calls that have the pool to themselves, and for those that
    /// don't fork, which run on the thread that calls. Calls side by side share the engine's own threads in the same
    /// way.
    pub pool: Option<Arc<rayon::ThreadPool>>,
    /// Address space of each stack of a run, in bytes: four for the banks of registers, one for calls, one for the
    /// sweep's adjoints. 0, the default: 16 GiB, or the largest part of that which the system grants; at least 16 MiB.
    /// Only what is touched takes memory. Where the address space is limited, as by a quota, less lets more runs go on
    /// at a time; a run that needs more of a stack ends with [`Limit::LiveBytes`] or [`Limit::TapeBytes`].
    pub stack_bytes: usize,
}

/// When functions are compiled to native code. Results, traps and fuel are the same in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Jit {
    /// Never: everything is interpreted.
    Off,
    /// When they have run often enough; the default.
    #[default]
    Auto,
    /// As `Auto`, with thresholds of the host's own.
    After(Thresholds),
    /// Before they run for the first time.
    Always,
}

impl Jit {
    fn thresholds(self) -> Option<Thresholds> {
        match self {
            Jit::Off => None,
            Jit::Auto => Some(Thresholds::default()),
            Jit::After(thresholds) => Some(thresholds),
            Jit::Always => Some(Thresholds::ALWAYS),
        }
    }
}

/// How one call runs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// Limits of this call; `None` takes the engine's.
    pub limits: Option<Limits>,
    /// Lets another thread stop the call.
    pub cancel: Option<CancelHandle>,
}

impl CallOptions {
    /// Options with these limits.
    pub fn with_limits(limits: Limits) -> Self {
        CallOptions { limits: Some(limits), cancel: None }
    }

    /// The same options, with a handle that cancels the call.
    pub fn cancelled_by(mut self, handle: &CancelHandle) -> Self {
        self.cancel = Some(handle.clone());
        self
    }
}

/// What a call used.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Fuel used: instructions of the forward run and of the sweep.
    pub instructions: u64,
    /// Tape records written.
    pub records: u64,
    /// Slots given out: inputs, segment outputs, elements of packed arrays.
    pub slots: u64,
    /// Bytes of tape records.
    pub tape_bytes: u64,
    /// Bytes of heap objects allocated.
    pub allocated_bytes: u64,
    /// The most memory that heap and frames held at one time, in bytes.
    pub heap_peak_bytes: u64,
    /// Tasks: the call itself, and what its forks ran.
    pub tasks: u64,
    /// Reals and ranges of reals that tasks took over from other tasks' tapes. What is handed to a task as an argument,
    /// and what it hands back, doesn't count.
    pub imports: u64,
    /// Instructions along the longest way through the forks, which no number of threads can run side by side.
    /// [`Stats::instructions`] by this is the number of threads that the program can keep busy.
    pub span: u64,
    /// The most memory that arrays of adjoints held at one time, in bytes: those of tasks that were being swept or
    /// waited for tasks of theirs, and those of ranges on their way to another task. Small ones don't count.
    pub sweep_peak_bytes: u64,
    /// Time of the forward run, without the conversion of arguments and results.
    pub forward: Duration,
    /// Time of the sweep, without the conversion of the gradient.
    pub sweep: Duration,
}

/// A gradient and what it took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Gradient {
    /// The function's value.
    pub value: f64,
    /// One entry per argument, of its shape; discrete parts are [`Value::Null`].
    pub gradient: Vec<Value>,
    /// What the call used.
    pub stats: Stats,
}

/// A Jacobian and what it took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Jacobian {
    /// The function's value.
    pub value: Value,
    /// For each real in the value, in the order in which it stands there, the gradient: one entry per argument.
    pub rows: Vec<Vec<Value>>,
    /// What the call used; the time of the sweep is that of all sweeps.
    pub stats: Stats,
}

/// Why a call gave no result.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The arguments are not the function's.
    Argument(ArgumentError),
    /// The program trapped, or reached a limit.
    Trap(Box<Trap>),
    /// A gradient was asked of a function whose result is not one real.
    NotScalar {
        /// The function.
        function: String,
        /// Its result type.
        result: HostType,
    },
    /// The result nests deeper than [`VALUE_DEPTH_MAX`], so no value can be made of it.
    ResultDepth {
        /// The function.
        function: String,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Argument(error) => error.fmt(f),
            RunError::Trap(trap) => trap.fmt(f),
            RunError::NotScalar { function, result } => write!(
                f,
                "`{function}` returns {result}; a gradient needs a function that returns one Real \
                 (define one that picks or sums a part of the result)"
            ),
            RunError::ResultDepth { function } => write!(
                f,
                "the result of `{function}` nests more than {VALUE_DEPTH_MAX} levels deep, the most that a host value \
                 may (a list is one level, however long it is)"
            ),
        }
    }
}

impl std::error::Error for RunError {}

impl From<ArgumentError> for RunError {
    fn from(error: ArgumentError) -> Self {
        RunError::Argument(error)
    }
}

/// The memory of one run, kept for the next.
#[derive(Debug)]
pub(crate) struct RunState {
    pub(crate) interp: Interp,
    pub(crate) sweep: Sweep,
    args: Arguments,
    account: Account,
}

// SAFETY: it is used by one thread at a time, and what its pointers lead to is its own: stacks, and the objects and
// records of its heap and its tape. Those to what others own are set for the time of a run only.
unsafe impl Send for RunState {}

#[derive(Debug)]
struct EngineInner {
    config: Config,
    // Declared before the pool: states give their slabs back when they are dropped.
    idle: Idle<RunState>,
    pool: Arc<SlabPool>,
    /// The threads of parallel runs; `None` if there is only the calling one.
    threads: OnceLock<Option<Arc<rayon::ThreadPool>>>,
}

/// Runs programs. Cheap to clone; clones share memory and configuration. `Send` and `Sync`.
#[derive(Clone, Debug)]
pub struct Engine(Arc<EngineInner>);

/// Verified code. Cheap to clone. `Send` and `Sync`.
#[derive(Clone, Debug)]
pub struct Module {
    engine: Engine,
    program: Arc<Program>,
}

/// An exported function of a module. Cheap to clone. `Send` and `Sync`.
#[derive(Clone, Debug)]
pub struct Function {
    module: Module,
    func: FuncId,
}

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Engine>();
    is_send_and_sync::<Module>();
    is_send_and_sync::<Function>();
};

impl Default for Engine {
    fn default() -> Self {
        Engine::new(Config::default())
    }
}

impl Engine {
    /// An engine with this configuration.
    pub fn new(config: Config) -> Self {
        let inner = EngineInner { config, idle: Idle::default(), pool: Arc::default(), threads: OnceLock::new() };
        Engine(Arc::new(inner))
    }

    /// The limits of calls that bring none of their own.
    pub fn limits(&self) -> &Limits {
        &self.0.config.limits
    }

    /// Bytes of heap and tape that the engine keeps for runs to come. It keeps what its runs held at one time: slabs of
    /// 64 KiB until it is dropped, and blocks for single objects of more than 16 KiB up to 256 MiB together. Not
    /// counted are stacks and adjoints, and two slabs for each run that there was at one time.
    ///
    /// ```
    /// # use dualvm_vm::engine::Engine;
    /// assert_eq!(Engine::default().kept_bytes(), 0);
    /// ```
    pub fn kept_bytes(&self) -> u64 {
        self.0.pool.free_bytes()
    }

    /// How many threads run the tasks of forks.
    ///
    /// ```
    /// # use dualvm_vm::engine::{Config, Engine};
    /// let mut config = Config::default();
    /// config.threads = 3;
    /// assert_eq!(Engine::new(config).threads(), 3);
    /// ```
    pub fn threads(&self) -> usize {
        let config = &self.0.config;
        match &config.pool {
            Some(pool) => pool.current_num_threads(),
            None if config.threads == 0 => std::thread::available_parallelism().map_or(1, usize::from),
            None => config.threads,
        }
    }

    /// Processor time that each thread which runs tasks has used since it was started: take the times before and after
    /// a call to see how busy each one was. A thread that looks for work counts as busy for a moment before it sleeps.
    ///
    /// With one thread that is the calling one. Empty as long as the engine has not started its threads, and where the
    /// system doesn't tell: on all but Linux. Waits until every thread has answered; a pool that is shared with other
    /// calls answers when it is done with what it has begun. Not to be called from several threads of one pool.
    ///
    /// ```
    /// # use dualvm_vm::engine::{Config, Engine};
    /// let mut config = Config::default();
    /// config.threads = 1;
    /// let engine = Engine::new(config);
    /// assert_eq!(engine.thread_times().len(), if cfg!(target_os = "linux") { 1 } else { 0 });
    /// ```
    pub fn thread_times(&self) -> Vec<Duration> {
        let times: Option<Vec<Duration>> = match self.0.threads.get() {
            Some(Some(pool)) => pool.broadcast(|_| thread_time()).into_iter().collect(),
            None if self.threads() > 1 => None,
            _ => thread_time().map(|time| vec![time]),
        };
        times.unwrap_or_default()
    }

    /// The threads that run tasks, if there are several. Those of the engine's own are started on first use; if the
    /// system gives none, the calling thread does everything.
    fn pool(&self) -> Option<&rayon::ThreadPool> {
        let make = || {
            let config = &self.0.config;
            let own = || {
                let builder = rayon::ThreadPoolBuilder::new().num_threads(self.threads());
                builder.thread_name(|n| format!("dualvm-{n}")).build().ok().map(Arc::new)
            };
            (self.threads() > 1).then(|| config.pool.clone().or_else(own)).flatten()
        };
        self.0.threads.get_or_init(make).as_deref()
    }

    /// Where heaps and tapes get their memory from.
    pub(crate) fn slabs(&self) -> Arc<SlabPool> {
        self.0.pool.clone()
    }

    pub(crate) fn state(&self) -> Box<RunState> {
        self.0.idle.take().unwrap_or_else(|| {
            let pool = &self.0.pool;
            let stacks = Reserve::of(self.0.config.stack_bytes);
            let interp = Interp::new(Heap::new(pool.clone()), Tape::new(pool.clone()), stacks);
            Box::new(RunState {
                interp,
                sweep: Sweep::new(stacks),
                args: Arguments::default(),
                account: Account::default(),
            })
        })
    }

    pub(crate) fn put_back(&self, mut state: Box<RunState>) {
        state.interp.heap.release();
        state.interp.tape.release();
        self.0.idle.put(state);
    }
}

impl Module {
    /// Verifies a module. Linear in its size.
    ///
    /// # Errors
    /// Everything that the verifier finds wrong, up to 100 errors.
    pub fn new(engine: &Engine, def: ModuleDef) -> Result<Module, Vec<VerifyError>> {
        Module::with_generator(engine, def, None)
    }

    /// [`Module::new`], with a generator of native code for engines that have none of their own.
    ///
    /// # Errors
    /// As [`Module::new`].
    pub fn with_generator(
        engine: &Engine,
        def: ModuleDef,
        generator: Option<Arc<dyn Generator>>,
    ) -> Result<Module, Vec<VerifyError>> {
        verify(&def)?;
        let config = &engine.0.config;
        let tier = config
            .generator
            .clone()
            .or(generator)
            .zip(config.jit.thresholds())
            .map(|(generator, thresholds)| Tier::new(generator, thresholds, def.functions.len()));
        Ok(Module { engine: engine.clone(), program: Arc::new(Program::new(def, tier)) })
    }

    /// The exported function of this name.
    pub fn function(&self, name: &str) -> Option<Function> {
        let (func, function) = self.program.def.function(name)?;
        function.interface.is_some().then(|| Function { module: self.clone(), func })
    }

    /// All exported functions, in the module's order.
    pub fn functions(&self) -> impl Iterator<Item = Function> + '_ {
        let functions = self.program.def.functions.iter().enumerate();
        functions
            .filter(|(_, function)| function.interface.is_some())
            .map(|(index, _)| Function { module: self.clone(), func: FuncId(index as u32) })
    }

    /// The code, for printing and encoding.
    pub fn def(&self) -> &ModuleDef {
        &self.program.def
    }

    /// The native code that the module has by now, in the order of its compilation.
    pub fn compiled(&self) -> Vec<CompiledCode> {
        self.program.tier.as_ref().map_or_else(Vec::new, |tier| tier.compiled(&self.program))
    }

    /// What the generator of native code has failed for, and why: nothing, as far as anyone knows. It stays
    /// interpreted.
    pub fn compile_failures(&self) -> Vec<String> {
        self.program.tier.as_ref().map_or_else(Vec::new, Tier::failures)
    }

    /// What the native code of a function looks like in a mode. `None` if the module has no
    /// native code.
    pub fn native_listing(&self, func: FuncId, mode: Mode) -> Option<Result<Listing, Refusal>> {
        let tier = self.program.tier.as_ref()?;
        Some(tier.listing(&self.program, func, mode))
    }

    /// The engine that the module belongs to.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl Function {
    /// The function's name.
    pub fn name(&self) -> &str {
        &self.definition().name
    }

    /// Parameters and result as the host sees them.
    pub fn interface(&self) -> &Interface {
        self.definition().interface.as_ref().expect("handles are made for exported functions only")
    }

    /// The data types that the interface's types refer to, by [`crate::module::DataId`].
    pub fn data(&self) -> &[DataDef] {
        &self.module.program.def.data
    }

    /// The native code that the function's module has by now: see [`Module::compiled`].
    pub fn compiled(&self) -> Vec<CompiledCode> {
        self.module.compiled()
    }

    fn definition(&self) -> &crate::bytecode::module::Function {
        &self.module.program.def.functions[self.func.index()]
    }

    /// Calls the function.
    ///
    /// # Errors
    /// [`RunError::Argument`] if the arguments are not of the parameters' types, [`RunError::Trap`] if the program
    /// traps or reaches a limit, [`RunError::ResultDepth`] if the result nests too deeply for a value.
    pub fn call(&self, args: &[Value]) -> Result<Value, RunError> {
        self.call_in(Run::begin(self, &CallOptions::default()), args).map(|(value, _)| value)
    }

    /// Calls the function, with options, and reports what the call used.
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn call_with(&self, args: &[Value], options: &CallOptions) -> Result<(Value, Stats), RunError> {
        self.call_in(Run::begin(self, options).timed(), args)
    }

    fn call_in(&self, mut run: Run<'_>, args: &[Value]) -> Result<(Value, Stats), RunError> {
        run.forward(args, Mode::PRIMAL)?;
        let (ty, results) = (&self.interface().result, &run.state.interp.results);
        let value = run.reader(false).result(ty, results).map_err(|error| run.unreadable(error))?;
        Ok((value, run.stats))
    }

    /// The function's value and its gradient with respect to every real in its arguments, at a small constant factor of
    /// the cost of a call. Discrete parts of the gradient are [`Value::Null`].
    ///
    /// # Errors
    /// As [`Function::call`], and [`RunError::NotScalar`] if the result is not one real.
    pub fn value_and_grad(&self, args: &[Value]) -> Result<(f64, Vec<Value>), RunError> {
        self.grad_in(args, &CallOptions::default(), false).map(|result| (result.value, result.gradient))
    }

    /// [`Function::value_and_grad`], with options, and reports what the call used.
    ///
    /// # Errors
    /// As [`Function::value_and_grad`].
    pub fn grad_with(&self, args: &[Value], options: &CallOptions) -> Result<Gradient, RunError> {
        self.grad_in(args, options, true)
    }

    fn grad_in(&self, args: &[Value], options: &CallOptions, timed: bool) -> Result<Gradient, RunError> {
        let interface = self.interface();
        if !interface.result.is_real() {
            let result = interface.result.clone();
            return Err(RunError::NotScalar { function: self.name().to_owned(), result });
        }
        let mut run = Run::begin(self, options);
        run.timed = timed;
        run.forward(args, Mode::RECORDING)?;
        let value = run.sweep_of_scalar()?;
        let gradient = run.gradient(args)?;
        Ok(Gradient { value, gradient, stats: run.stats })
    }

    /// Runs the function as for a gradient, and reports the tasks that it forks and what they write to their tapes. The
    /// same on any number of threads. Its size is that of the run's tree of tasks.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{CallOptions, Engine, Module}, text, value::Value};
    /// let def = text::parse("func \"square\" (real) -> (real) regs 1 real { mul r0, r0, r0
    ///     ret (r0) }
    /// func \"both\" (real, real) -> (real) export (x : Real, y : Real) -> Real
    ///     regs 2 real
    ///     { fork 2
    ///     task \"square\" (r0) -> (r0)
    ///     task \"square\" (r1) -> (r1)
    ///     add r0, r0, r1
    ///     ret (r0) }", "both.dvs").map_err(|errors| errors[0].to_string())?;
    /// let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// let both = module.function("both").ok_or("no such function")?;
    /// let graph = both.job_graph(&[Value::Real(1.0), Value::Real(2.0)], &CallOptions::default())?;
    /// assert_eq!(graph.tasks[0].forks, [[1, 2]]);
    /// assert_eq!((&*graph.tasks[0].jobs, &*graph.tasks[1].jobs), (&[0, 1][..], &[1][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn job_graph(&self, args: &[Value], options: &CallOptions) -> Result<JobGraph, RunError> {
        let mut run = Run::begin(self, options);
        run.forward(args, Mode::RECORDING)?;
        let Stats { instructions, span, .. } = run.stats;
        // SAFETY: the run has ended, and its tapes are there.
        Ok(unsafe { JobGraph::of(&*run.state.interp.tape.root(), instructions, span) })
    }

    /// The function's value and its Jacobian: the gradient of every real in the result. The result may be of any type.
    /// One forward run, and one sweep for each real in the result.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, text, value::Value};
    /// let def = text::parse("func \"swap\" (real, real) -> (real, real)
    ///     export (x : Real, y : Real) -> (Real, Real)
    ///     regs 2 real
    ///     { ret (r1, r0) }", "swap.dvs").map_err(|errors| errors[0].to_string())?;
    /// let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// let swap = module.function("swap").ok_or("no such function")?;
    /// let jacobian = swap.jacobian(&[Value::Real(1.0), Value::Real(2.0)])?;
    /// assert_eq!(jacobian.rows[0], [Value::Real(0.0), Value::Real(1.0)]);
    /// assert_eq!(jacobian.rows[1], [Value::Real(1.0), Value::Real(0.0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn jacobian(&self, args: &[Value]) -> Result<Jacobian, RunError> {
        self.jacobian_with(args, &CallOptions::default())
    }

    /// [`Function::jacobian`], with options.
    ///
    /// # Errors
    /// As [`Function::jacobian`].
    pub fn jacobian_with(&self, args: &[Value], options: &CallOptions) -> Result<Jacobian, RunError> {
        let interface = self.interface();
        let mut run = Run::begin(self, options).timed();
        run.forward(args, Mode::RECORDING)?;
        let mut reader = run.reader(true);
        let value = reader.result(&interface.result, &run.state.interp.results);
        let slots = reader.into_slots();
        let value = value.map_err(|error| run.unreadable(error))?;
        let mut rows = Vec::with_capacity(slots.len());
        for slot in slots {
            run.sweep(slot)?;
            rows.push(run.gradient(args)?);
        }
        Ok(Jacobian { value, rows, stats: run.stats })
    }
}

/// A call in progress.
pub(crate) struct Run<'a> {
    function: &'a Function,
    pub(crate) limits: &'a Limits,
    pub(crate) state: std::mem::ManuallyDrop<Box<RunState>>,
    /// Whether the times in the statistics are asked for: a look at the clock takes as long as a small program.
    timed: bool,
    pub(crate) stats: Stats,
}

impl<'a> Run<'a> {
    pub(crate) fn begin(function: &'a Function, options: &'a CallOptions) -> Self {
        let engine = &function.module.engine;
        let limits = options.limits.as_ref().unwrap_or(engine.limits());
        let mut state = engine.state();
        state.account.begin(limits, options.cancel.clone());
        Run { function, limits, state: std::mem::ManuallyDrop::new(state), timed: false, stats: Stats::default() }
    }

    /// The same run, whose parts are timed.
    pub(crate) fn timed(mut self) -> Self {
        self.timed = true;
        self
    }

    fn clock(&self) -> Option<Instant> {
        self.timed.then(Instant::now)
    }

    fn forward(&mut self, args: &[Value], mode: Mode) -> Result<(), RunError> {
        let function = self.function;
        let params = &function.interface().params;
        let written =
            self.write(mode, |store| convert::write_arguments(&function.module.program.def, params, args, store));
        written.map_err(|error| match error {
            convert::WriteError::Argument(error) => RunError::Argument(*error),
            convert::WriteError::Limit(limit) => self.stopped(limit),
        })?;
        self.execute(mode)
    }

    /// Forgets the last run and lets `write` write the arguments.
    #[inline]
    pub(crate) fn write<E>(
        &mut self,
        mode: Mode,
        write: impl FnOnce(&mut Store<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let RunState { interp, args, account, .. } = &mut **self.state;
        let Limits { allocated_bytes, live_bytes, tape_bytes, depth, .. } = *self.limits;
        interp.begin(live_bytes, depth);
        let Interp { heap, tape, .. } = interp;
        heap.begin(HeapLimits { allocated_bytes, live_bytes }, account);
        tape.begin(tape_bytes, account);
        heap.pause();
        let written = write(&mut Store::new(heap, mode.is_recording().then_some(tape), args, account));
        heap.resume();
        written
    }

    /// The threads that run tasks, if the function has any and there are several.
    fn pool(&self) -> Option<&'a rayon::ThreadPool> {
        let Module { engine, program } = &self.function.module;
        program.forks(self.function.func).then(|| engine.pool()).flatten()
    }

    /// Runs the function with the arguments that were written.
    pub(crate) fn execute(&mut self, mode: Mode) -> Result<(), RunError> {
        let began = self.clock();
        let pool = self.pool();
        let RunState { interp, args: arguments, account, .. } = &mut **self.state;
        let Module { engine, program } = &self.function.module;
        let func = self.function.func;
        let crew = Crew::new(engine, account, program, self.limits, pool.is_some());
        let outcome = match pool {
            None => interp.run(program, func, arguments, mode, &crew),
            Some(pool) => {
                let handed = Handed((&mut *interp, &*arguments, &crew));
                pool.install(move || {
                    let (interp, arguments, crew) = handed.take();
                    interp.run(program, func, arguments, mode, crew)
                })
            }
        };
        let totals = interp.tape.finish().totals;
        self.stats.instructions = account.used(interp.fuel);
        self.stats.records = totals.records;
        self.stats.slots = totals.slots;
        self.stats.tape_bytes = totals.bytes;
        self.stats.imports = totals.imports;
        self.stats.tasks = interp.tasks + 1;
        self.stats.span = interp.whole_span;
        self.stats.allocated_bytes = interp.heap.allocated();
        self.stats.heap_peak_bytes = interp.heap.peak() + interp.stack_bytes();
        self.stats.forward = began.map_or(Duration::ZERO, |began| began.elapsed());
        outcome.map_err(|kind| RunError::Trap(Box::new(self.trap(kind))))
    }

    /// Sweeps the tape from the result, which is one real. Returns the result.
    pub(crate) fn sweep_of_scalar(&mut self) -> Result<f64, RunError> {
        let results = &self.state.interp.results;
        let (value, slot) = (results.reals[0], crate::word::slot(results.words[0]));
        self.sweep((0, slot))?;
        Ok(value)
    }

    /// Sweeps the tape from a real of the result.
    pub(crate) fn sweep(&mut self, seed: Seed) -> Result<(), RunError> {
        /// Instructions of a sweep that other threads are asked to help with.
        const SHARED_MIN: u64 = 50_000;
        let began = self.clock();
        let pool = self.pool();
        let RunState { interp, sweep, account, .. } = &mut **self.state;
        let account = &*account;
        let Module { engine, program } = &self.function.module;
        let root = interp.tape.root();
        // SAFETY: the run has ended, and its tapes are there.
        let totals = unsafe { (*root).totals };
        let left = interp.fuel.saturating_sub_unsigned(totals.sweep_work);
        self.stats.instructions = account.used(left);
        interp.fuel = Meter::new(account, None).refill(left, Duration::ZERO).map_err(outside_of_code)?;
        let swept = match pool {
            Some(pool) if totals.tasks > 1 && totals.sweep_work >= SHARED_MIN => {
                interp.native_stack.open().map_err(TrapKind::from).and_then(|ground| {
                    let handed = Handed((root, ground));
                    pool.install(move || {
                        let (root, ground) = handed.take();
                        // SAFETY: the run has ended, so its tapes are there, and its stack is free.
                        unsafe { sweep.on(ground, |sweep| sweep.run(root, seed, program, account, Some(engine))) }
                    })
                })
            }
            _ if totals.tasks > 1 => interp.native_stack.open().map_err(TrapKind::from).and_then(|ground| {
                // SAFETY: as on the pool.
                unsafe { sweep.on(ground, |sweep| sweep.run(root, seed, program, account, None)) }
            }),
            // SAFETY: the run has ended, and its tapes are there.
            _ => unsafe { sweep.run(root, seed, program, account, None) },
        };
        let peak = swept.map_err(|kind| outside_of_code(account.verdict(kind)))?;
        self.stats.sweep_peak_bytes = self.stats.sweep_peak_bytes.max(peak);
        self.stats.span += totals.sweep_span;
        self.stats.sweep += began.map_or(Duration::ZERO, |began| began.elapsed());
        Ok(())
    }

    /// The run has ended outside of the program's code.
    pub(crate) fn stopped(&self, limit: Limit) -> RunError {
        outside_of_code(self.state.account.verdict(limit.into()))
    }

    /// Reads the results of the run. `recorded`: and the slots of their reals.
    pub(crate) fn reader(&self, recorded: bool) -> Reader<'_> {
        Reader::new(self.function.data(), self.limits.live_bytes, recorded, &self.state.account)
    }

    pub(crate) fn unreadable(&self, error: ReadError) -> RunError {
        match error {
            ReadError::Depth => RunError::ResultDepth { function: self.function.name().to_owned() },
            ReadError::Limit(limit) => self.stopped(limit),
        }
    }

    /// Whether there is time to copy the adjoints of the arguments, which may be as many as those of the whole run.
    #[inline]
    pub(crate) fn time_to_read_adjoints(&self) -> Result<(), RunError> {
        let RunState { sweep, account, .. } = &**self.state;
        account.time_to_fill(size_of_val(sweep.adjoints())).map_err(|limit| self.stopped(limit))
    }

    /// The adjoints of the arguments' reals, in the shape of the arguments.
    fn gradient(&self, args: &[Value]) -> Result<Vec<Value>, RunError> {
        let RunState { sweep, account, .. } = &**self.state;
        let params = &self.function.interface().params;
        let gradient = convert::read_gradient(self.function.data(), params, args, sweep.adjoints(), account);
        gradient.map_err(|limit| self.stopped(limit))
    }

    fn trap(&self, kind: TrapKind) -> Trap {
        let program = &self.function.module.program;
        let frame = |Place { func, mode, position }: Place| {
            let inst = program.origin(func, mode, position);
            let function = &program.def.functions[func.index()];
            let place = function.body.location(inst).map(|location| (location.line, location.column));
            TraceFrame { function: function.name.clone(), mode, inst, place }
        };
        let kind = self.state.account.verdict(kind);
        let (innermost, omitted, outermost) = self.state.interp.trace.shown();
        let (innermost, outermost) = (innermost.map(frame).collect(), outermost.map(frame).collect());
        Trap { kind, source: program.def.source.clone(), innermost, omitted, outermost }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // SAFETY: the state is taken here only, and the run is not used afterwards.
        let state = unsafe { std::mem::ManuallyDrop::take(&mut self.state) };
        self.function.module.engine.put_back(state);
    }
}

/// Processor time that this thread has used.
#[cfg(all(target_os = "linux", not(miri)))]
fn thread_time() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to the structure that it is given, which outlives the call.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    (outcome == 0).then(|| Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32))
}

#[cfg(any(not(target_os = "linux"), miri))]
fn thread_time() -> Option<Duration> {
    None
}

/// What is handed to a thread of the pool while this one waits.
struct Handed<T>(T);

// SAFETY: who hands it on waits until the other thread is done.
unsafe impl<T> Send for Handed<T> {}

impl<T> Handed<T> {
    fn take(self) -> T {
        self.0
    }
}

/// A trap that no instruction of the program caused.
fn outside_of_code(kind: TrapKind) -> RunError {
    let trap = Trap { kind, source: None, innermost: Vec::new(), omitted: 0, outermost: Vec::new() };
    RunError::Trap(Box::new(trap))
}

impl From<Limit> for TrapKind {
    fn from(limit: Limit) -> Self {
        TrapKind::Limit(limit)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn strands_that_have_ended_give_their_stacks_back_before_the_fork_ends() {
        // The short task of each fork is taken by another thread, and waits for the long one.
        let source = r#"
            func "leaf" (int) -> (int) regs 3 int {
             iconst i1, 1
            head:
             isub i0, i0, i1
             branch i0, head, end
            end:
             ret (i1) }
            func "down" (int, int) -> (int) export (n : Int, m : Int) -> Int regs 4 int {
             iconst i2, 1
             branch i0, more, end
            more:
             isub i0, i0, i2
             fork 2
             task "down" (i0, i1) -> (i2)
             task "leaf" (i1) -> (i3)
             iadd i2, i2, i3
             ret (i2)
            end:
             ret (i2) }"#;
        let mut config = Config::default();
        (config.jit, config.threads) = (Jit::Off, 3);
        let engine = Engine::new(config);
        let def = crate::bytecode::text::parse(source, "down.dvs").unwrap_or_else(|errors| panic!("{}", errors[0]));
        let module = Module::new(&engine, def).unwrap_or_else(|errors| panic!("{}", errors[0]));
        let down = module.function("down").expect("it is exported");
        // Miri takes a million times as long for an instruction as native code, and hours for this.
        let (calls, forks, leaf) = if cfg!(miri) { (2, 40, 5) } else { (10, 2000, 100) };
        for _ in 0..calls {
            assert_eq!(down.call(&[Value::Int(forks), Value::Int(leaf)]), Ok(Value::Int(forks + 1)));
        }
        let states = std::iter::from_fn(|| engine.0.idle.take()).count();
        assert!(states <= 4, "{states} strands on 3 threads");
    }
}
