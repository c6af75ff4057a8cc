//! How an engine works, and how one call of it runs.

use super::{CancelHandle, Limits, Listener};
use crate::embedding::linker::{Library, Linker};
use crate::host::HostFunction;
use crate::native::{Generator, Policy, Thresholds};
use std::sync::Arc;
use std::time::Instant;

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
    /// Functions of the host's that modules may import: see [`crate::host`]. None by default.
    pub linker: Linker,
    /// How many threads run the tasks of forks and their sweeps; 0, the default: one per core. 1: the thread that
    /// calls. Results are the same bits for any number. The threads are started by the first call of a function that
    /// forks, or of a batch.
    pub threads: usize,
    /// The threads to use, in place of threads of the engine's own.
    ///
    /// A thread that waits for a task may take up a job of the host's own from the same pool, as any thread of it does
    /// that waits. The job then stands on the stack of the run, not on the thread's. It has at least
    /// [`HOST_JOB_STACK_BYTES`](super::HOST_JOB_STACK_BYTES) of stack there, 2 MiB, however deep the run has recursed,
    /// whatever the threads of the pool have; a job that needs more should grow its stack itself or run elsewhere. What
    /// goes beyond meets a guard page and ends the process, as on a thread's own stack. Jobs that wait in turn, and
    /// take up others, share the room.
    ///
    /// Time that a call waits for threads of the pool counts against its deadline, and a call whose deadline passes
    /// meanwhile ends as soon as it gets one. How late that is depends on the other jobs: a call that forks enters the
    /// pool, and a thread of it that waits for a half of a fork may take up another job and go back when that has
    /// ended. The bound of [`Limits::deadline`] holds for calls that have the pool to themselves, and for those that
    /// don't fork, which run on the thread that calls. Calls side by side share the engine's own threads in the same
    /// way.
    pub pool: Option<Arc<rayon::ThreadPool>>,
    /// How far each stack of a run may grow, in bytes: four for the banks of registers, one for calls, one for the
    /// sweep's adjoints. 0, the default: 16 GiB; at least 16 MiB. A run that needs more of one, and may by its limits
    /// on memory, ends with [`Limit::StackBytes`].
    ///
    /// This reserves nothing. Stacks take address space as runs need it, and memory where they are touched: 2 MiB each,
    /// 4 MiB for calls, then about twice what is in use. Engines keep what their runs took for the next ones, up to
    /// 4 GiB in a process beyond the beginnings, or an eighth of what the process may have. Where the system refuses
    /// more, as by a quota or `ulimit -v`, the run that asks ends with [`Limit::AddressSpace`].
    ///
    /// [`Limit::StackBytes`]: crate::trap::Limit::StackBytes
    /// [`Limit::AddressSpace`]: crate::trap::Limit::AddressSpace
    pub stack_bytes: usize,
    /// Who is told what calls trace that bring no listener of their own: see [`CallOptions::trace`]. None by default.
    pub trace: Option<Listener>,
    /// Whether calls stop at the first number that becomes NaN or infinite out of numbers that aren't:
    /// [`TrapKind::NonFinite`](crate::trap::TrapKind::NonFinite) says which instruction that was, what it was given,
    /// and how that came about. Off by default, and then it costs nothing.
    ///
    /// In the forward run that is a value, or a tangent. In the sweep it is the adjoint of an operand that is made of a
    /// finite adjoint other than 0: a partial derivative that is infinite and that nobody asks for is none, so that
    /// `if x > 0 then sqrt x else 0` passes at 0. What is NaN or infinite from the beginning, as an argument or a
    /// constant, is none either, and neither is what is made of it, but for a NaN that is made of infinite numbers.
    ///
    /// Everything is interpreted, on one thread, in the order of the program, and every call is recorded, one record
    /// for each instruction: it takes some ten times as long, and some 50 bytes of tape for each instruction. Code that
    /// an optimiser has made may compute what is not asked for; the crate `dualvm` compiles source for such an engine
    /// as it was written. Fuel is that of code whose derivative operators aren't written out.
    pub trap_nan: bool,
}

impl Config {
    /// The same with these limits of calls that bring none of their own.
    ///
    /// ```
    /// # use dualvm_vm::engine::{Config, Engine, Jit, Limits};
    /// let engine = Engine::new(Config::default().with_limits(Limits::untrusted()).with_jit(Jit::Off).with_threads(2));
    /// assert_eq!(engine.limits(), &Limits::untrusted());
    /// ```
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same, where code is compiled [at this time](Config::jit).
    pub fn with_jit(mut self, jit: Jit) -> Self {
        self.jit = jit;
        self
    }

    /// The same, where this makes native code.
    pub fn with_generator(mut self, generator: Arc<dyn Generator>) -> Self {
        self.generator = Some(generator);
        self
    }

    /// The same, with a function that programs import by this name, in place of what had it before: see
    /// [`crate::host`].
    pub fn with_host_function(mut self, name: impl Into<String>, function: impl Into<HostFunction>) -> Self {
        self.linker.define(name, function);
        self
    }

    /// The same, with a module whose functions programs import by this name, a dot and their own, in place of what had
    /// the name before: see [`crate::linker`].
    pub fn with_library(mut self, name: impl Into<String>, library: Library) -> Self {
        self.linker.define_library(name, library);
        self
    }

    /// The same with [so many threads](Config::threads).
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The same with [these threads](Config::pool).
    pub fn with_pool(mut self, pool: Arc<rayon::ThreadPool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// The same with [so many bytes](Config::stack_bytes) for each stack.
    pub fn with_stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }

    /// The same with a listener that is told what calls trace which bring none of their own.
    pub fn traced_to(mut self, listener: &Listener) -> Self {
        self.trace = Some(listener.clone());
        self
    }

    /// The same, where calls stop at [numbers that aren't finite](Config::trap_nan), or not.
    pub fn trapping_nan(mut self, trap_nan: bool) -> Self {
        self.trap_nan = trap_nan;
        self
    }
}

/// When functions are compiled to native code. Results, traps and fuel are the same in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Jit {
    /// Never: everything is interpreted.
    Off,
    /// When interpreting them has taken about as long as compiling them will; the default. So a program takes hardly
    /// more than twice as long as with the better one of `Off` and `Always`.
    #[default]
    Auto,
    /// When they have run so often.
    After(Thresholds),
    /// Before they run for the first time.
    Always,
}

impl Jit {
    pub(super) fn policy(self) -> Option<Policy> {
        match self {
            Jit::Off => None,
            Jit::Auto => Some(Policy::Weighed),
            Jit::After(thresholds) => Some(Policy::After(thresholds)),
            Jit::Always => Some(Policy::ALWAYS),
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
    /// Who is told what the program traces in this call; `None` takes the engine's listener, if there is one.
    ///
    /// Lines come in the order of the run from left to right, whatever the threads, each once: derivatives that run
    /// code again don't show it again, and of a call that has several runs only the first is heard. A call that traps
    /// has told what came before. Nothing of the call's outcome depends on whether anyone listens, but its time: the
    /// language's compiler makes functions of their own for that, and a call whose host listens runs these first.
    /// Without a listener, traces cost nothing there, and in other modules a test where they stand.
    pub trace: Option<Listener>,
    /// When the call has to have ended, whatever time its limits leave it: several calls, one after the other or side
    /// by side, may have one end. A call that goes on then stops as at a deadline, with
    /// [`Limit::Deadline`](crate::trap::Limit::Deadline), and as promptly as [`Limits::deadline`] says. None by
    /// default.
    pub ends_at: Option<Instant>,
    /// Whether long arrays of numbers are copied before the run, in place of being read where they are. For hosts that
    /// can't promise that nobody writes to arguments before the call has ended, neither other threads nor host
    /// functions: what is read again to differentiate must be what was read the first time. References of Rust promise
    /// it, so this is off by default.
    pub copy_arguments: bool,
}

impl CallOptions {
    /// Options with these limits.
    pub fn with_limits(limits: Limits) -> Self {
        CallOptions { limits: Some(limits), ..CallOptions::default() }
    }

    /// The same options, with a handle that cancels the call.
    pub fn cancelled_by(mut self, handle: &CancelHandle) -> Self {
        self.cancel = Some(handle.clone());
        self
    }

    /// The same options, with a listener that is told what the program traces.
    pub fn traced_to(mut self, listener: &Listener) -> Self {
        self.trace = Some(listener.clone());
        self
    }

    /// The same options, with arguments that are copied.
    pub fn copying_arguments(mut self) -> Self {
        self.copy_arguments = true;
        self
    }

    /// The same options, with a time at which the call has to have ended.
    ///
    /// ```
    /// # use dualvm_vm::engine::CallOptions;
    /// use std::time::{Duration, Instant};
    ///
    /// let options = CallOptions::default().ending_at(Instant::now() + Duration::from_millis(200));
    /// assert!(options.ends_at.is_some());
    /// ```
    pub fn ending_at(mut self, end: Instant) -> Self {
        self.ends_at = Some(end);
        self
    }
}
