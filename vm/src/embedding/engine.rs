//! What an embedder holds: [`Engine`] → [`Module`] → [`Function`], limits, and what a run reports.
//!
//! An engine owns the memory that runs reuse. A module is verified code; a function of it can be called from any number
//! of threads at a time. Nothing that a program does panics or aborts the host: every failure is a [`RunError`].

mod batch;
mod bind;
mod config;
mod derivatives;
mod error;
mod function;
mod invocation;
mod listening;
mod matrices;
mod report;
mod sparse;
mod state;

pub use crate::memory::stack::HOST_JOB_STACK_BYTES;
pub use crate::running::limits::Limits;
pub use crate::running::lines::{Listener, TraceLine};
pub use crate::running::meter::CancelHandle;
pub use batch::Batch;
pub(crate) use batch::Plan;
pub use bind::BindError;
pub(crate) use bind::{Bound, BoundArgument};
pub use config::{CallOptions, Config, Jit};
pub use derivatives::JacobianMode;
pub(crate) use derivatives::without_negative_zeros;
pub use error::{RunError, TangentError};
pub(crate) use function::Wrt;
pub use function::{Function, NoSuchParameter};
pub(crate) use invocation::Invocation;
pub use report::{Gradient, Hessian, Hvp, Jacobian, Jvp, Jvps, JvpsOfReals, Stats, Vjp};
pub(crate) use state::{Lease, RunState};

use crate::bytecode::module::{FuncId, ModuleDef};
use crate::bytecode::verify::{VerifyError, verify};
use crate::code::Mode;
use crate::embedding::explain::Explanation;
use crate::embedding::formulas::Formulas;
use crate::embedding::linker::{Library, Linked, Linker};
use crate::memory::idle::Idle;
use crate::memory::stack::Extent;
use crate::native::{CompiledCode, Generator, Listing, Refusal, Tier};
use crate::running::program::Program;
use crate::running::workers::Workers;
use crate::sweep::Sweeps;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[derive(Debug)]
struct EngineInner {
    config: Config,
    // Declared before the workers, which have the pool of slabs: states give theirs back when they are dropped.
    idle: Idle<RunState>,
    workers: Workers,
    sweeps: Sweeps,
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
    /// What has given its imports.
    linker: Linker,
    /// The module without the libraries that it was linked with, if there are any.
    own: Option<Library>,
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
        let extent = Extent::of(config.stack_bytes);
        let (workers, sweeps) = (Workers::new(Arc::default(), extent), Sweeps::new(extent));
        let inner = EngineInner { config, idle: Idle::default(), workers, sweeps, threads: OnceLock::new() };
        Engine(Arc::new(inner))
    }

    /// How the engine works, for one that is to work like it.
    pub fn config(&self) -> &Config {
        &self.0.config
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
        self.0.workers.slabs().free_bytes()
    }

    /// How many threads run the tasks of forks and the items of batches.
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

    /// What runs parts of runs.
    fn workers(&self) -> &Workers {
        &self.0.workers
    }

    /// Memory for parts of sweeps.
    fn sweeps(&self) -> &Sweeps {
        &self.0.sweeps
    }

    /// Memory for a run, which goes back with [`Engine::put_back`].
    pub(crate) fn state(&self) -> Box<RunState> {
        self.0.idle.take().unwrap_or_else(|| Box::new(RunState::new(&self.0.workers)))
    }

    /// The same, which goes back by itself.
    pub(crate) fn lease(&self) -> Lease<'_> {
        Lease::of(self)
    }

    /// Whether this is the same engine.
    pub(crate) fn is(&self, other: &Engine) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Keeps the memory of a run for the next.
    pub(crate) fn put_back(&self, mut state: Box<RunState>) {
        state.release(&self.0.workers);
        self.0.idle.put(state);
    }
}

impl Module {
    /// Verifies a module, and links what it imports. Linear in its size.
    ///
    /// # Errors
    /// Imports that the engine's linker doesn't give, or before that everything that the verifier finds wrong, up to
    /// 100 errors.
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
        Module::linked(engine, def, &engine.config().linker, generator)
    }

    /// [`Module::with_generator`] with another linker than the engine's.
    ///
    /// # Errors
    /// As [`Module::new`].
    pub fn linked(
        engine: &Engine,
        def: ModuleDef,
        linker: &Linker,
        generator: Option<Arc<dyn Generator>>,
    ) -> Result<Module, Vec<VerifyError>> {
        verify(&def)?;
        let Linked { def, hosts, own } = linker.link(def)?;
        let config = &engine.0.config;
        let program = if config.trap_nan {
            Program::looked_at(def, hosts)
        } else {
            let generator = config.generator.clone().or(generator).zip(config.jit.policy());
            let tier = |functions| generator.map(|(generator, policy)| Tier::new(generator, policy, functions));
            Program::new(def, hosts, tier)
        };
        Ok(Module { engine: engine.clone(), program: Arc::new(program), linker: linker.clone(), own })
    }

    /// The code with that of the libraries that it calls. It imports nothing but functions of the host's, so who has
    /// this needs no libraries.
    pub fn linked_def(&self) -> &ModuleDef {
        self.program.given()
    }

    /// Who has given what the module imports.
    pub fn linker(&self) -> &Linker {
        &self.linker
    }

    /// The module for others to call, by any engine: see [`crate::linker`].
    pub fn library(&self) -> Library {
        self.own.clone().unwrap_or_else(|| Library::verified(self.def().clone()))
    }

    /// A module that is interpreted, and whose operators aren't written out.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn with_operators(engine: &Engine, def: ModuleDef) -> Module {
        let program = Arc::new(Program::with_operators(def));
        Module { engine: engine.clone(), program, linker: Linker::new(), own: None }
    }

    /// The exported function of this name.
    pub fn function(&self, name: &str) -> Option<Function> {
        let (func, function) = self.program.def.function(name)?;
        function.interface.is_some().then(|| self.exported(func))
    }

    /// All exported functions, in the module's order.
    pub fn functions(&self) -> impl Iterator<Item = Function> + '_ {
        let functions = self.program.def.functions.iter().enumerate();
        let exported = functions.filter(|(_, function)| function.interface.is_some());
        exported.map(|(index, _)| self.exported(FuncId(index as u32)))
    }

    fn exported(&self, func: FuncId) -> Function {
        Function { module: self.clone(), func, wrt: Wrt::default(), bound: None }
    }

    /// The code, for printing and encoding: the module's own, as it was given.
    pub fn def(&self) -> &ModuleDef {
        self.own.as_ref().map_or_else(|| self.program.given(), Library::def)
    }

    /// The native code that the module has by now, in the order of its compilation.
    pub fn compiled(&self) -> Vec<CompiledCode> {
        let of = |program: &Program| program.tier.as_ref().map_or_else(Vec::new, |tier| tier.compiled(program));
        let tangents = self.program.all_made();
        of(&self.program).into_iter().chain(tangents.iter().flat_map(|program| of(program))).collect()
    }

    /// What the generator of native code has failed for, and why: nothing, as far as anyone knows. It stays
    /// interpreted.
    pub fn compile_failures(&self) -> Vec<String> {
        let of = |program: &Program| program.tier.as_ref().map_or_else(Vec::new, Tier::failures);
        let tangents = self.program.all_made();
        of(&self.program).into_iter().chain(tangents.iter().flat_map(|program| of(program))).collect()
    }

    /// What becomes of the loops and calls of a function, exported or not, and of those that it reaches. `None` if
    /// there is no function of this name.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, explain::Recording, text};
    /// # let def = text::parse("func \"f\" (real, int) -> (real) export (x : Real, n : Int) -> Real
    /// #     regs 1 real, 2 int
    /// #     { iconst i1, 1
    /// #     again:
    /// #     sin r0, r0
    /// #     isub i0, i0, i1
    /// #     branch i0, again, done
    /// #     done:
    /// #     ret (r0) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (n : Int) : Real = loop y = x for i < n do sin y
    /// let explanation = module.explain("f").ok_or("no such function")?;
    /// let loops = explanation.functions[0].loops.as_ref().ok_or("the function is small")?;
    /// assert_eq!(loops[0].recording, Recording::Straight);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self, name: &str) -> Option<Explanation> {
        let (func, _) = self.program.def.function(name)?;
        let mut explanation = Explanation::of(&self.program.def, func);
        explanation.renumber(|func, inst| self.program.given_place(func, inst).1);
        Some(explanation)
    }

    /// The derivatives of a function's straight-line code as formulas, by the rules that derived code is made by.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, module::FuncId, text};
    /// # let def = text::parse("func \"f\" (real, real) -> (real) export (x : Real, y : Real) -> Real
    /// #     regs 3 real
    /// #     { mul r2, r0, r1
    /// #     ret (r2) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (y : Real) : Real = x * y
    /// let formulas = module.formulas(FuncId(0));
    /// assert_eq!(formulas.pieces[0].tangent[0].to_string(), "r2_tan = x_tan · y + y_tan · x");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the module has no such function.
    pub fn formulas(&self, func: FuncId) -> Formulas {
        Formulas::of(self.program.given(), func)
    }

    /// What the native code of a function looks like in a mode. `None` if the module has no
    /// native code, or no such function.
    pub fn native_listing(&self, func: FuncId, mode: Mode) -> Option<Result<Listing, Refusal>> {
        let tier = self.program.tier.as_ref()?;
        self.program.def.functions.get(func.index())?;
        Some(tier.listing(&self.program, func, mode))
    }

    /// The engine that the module belongs to.
    pub fn engine(&self) -> &Engine {
        &self.engine
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::embedding::value::Value;

    #[test]
    fn executions_that_have_ended_give_their_stacks_back_before_the_fork_ends() {
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
        let workers = std::iter::from_fn(|| engine.0.workers.take_idle()).count();
        assert!(workers <= 3, "{workers} workers beside the run's own on 3 threads");
    }
}
