//! Ctrl-C in the middle of a run.
//!
//! Python runs handlers of signals on its main thread only, between two instructions of bytecode. A run on that thread
//! is one long instruction. So there is a handler before Python's own for SIGINT: it calls Python's, and cancels what
//! the main thread runs. The run ends within a millisecond or so, and then Python's handlers are asked what to do: what
//! they raise, `KeyboardInterrupt` say, is what the call raises. If they raise nothing, the call begins anew, as system
//! calls do (PEP 475): programs have no effects. Runs on other threads aren't concerned; Python's handlers don't run
//! there.
//!
//! Short calls pay for none of this: they are given a handle that exists already. Whoever calls `signal.signal` puts
//! Python's handler in the place of ours. A thread looks after runs of more than 50 ms, and puts ours before it again;
//! what comes in between waits until the next signal, or until the call has ended. Where something else handles SIGINT
//! when the module is loaded, in a way that ours could not call on, it is left alone, and Ctrl-C waits, too.

mod handler;

use crate::error::Failure;
use crate::module::Module;
use dualvm::CancelHandle;
use handler::Handler;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_ulong};
use std::ptr::{null_mut, with_exposed_provenance};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

const SIGINT: c_int = 2;
/// How often the thread looks at what the main thread does.
const PERIOD: Duration = Duration::from_millis(50);
/// After so many looks at nothing it sleeps until there is a call.
const LOOKS_MAX: u32 = 20;

/// The address of what Python has as its handler; 0: it doesn't handle the signal.
static PYTHONS: AtomicUsize = AtomicUsize::new(0);
/// What Python calls its main thread.
static MAIN: AtomicU64 = AtomicU64::new(0);
/// What stops the run on the main thread. Only that thread changes it.
static HANDLE: AtomicPtr<CancelHandle> = AtomicPtr::new(null_mut());
/// How many handlers are reading that.
static READERS: AtomicUsize = AtomicUsize::new(0);
/// Counts beginnings and ends of runs on the main thread.
static EPOCH: AtomicU64 = AtomicU64::new(0);
/// How many runs there are in each other on the main thread.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// The thread that looks after them, whether it was started, and whether it sleeps.
static WATCHER: Mutex<Option<Thread>> = Mutex::new(None);
static STARTED: AtomicBool = AtomicBool::new(false);
static ASLEEP: AtomicBool = AtomicBool::new(false);

/// Handles SIGINT, on whichever thread the system chooses, in the middle of anything.
///
/// # Safety
/// None is asked for; handlers have this type.
unsafe extern "C" fn interrupted(signal: c_int) {
    // Python's goes first: when a run ends, its handlers have something to do.
    let pythons = PYTHONS.load(Ordering::Relaxed);
    if pythons != 0 {
        // SAFETY: it is a handler that takes the signal's number and nothing else, and this is such a signal.
        unsafe { std::mem::transmute::<*const (), Handler>(with_exposed_provenance(pythons))(signal) };
    }
    READERS.fetch_add(1, Ordering::SeqCst);
    let handle = HANDLE.load(Ordering::SeqCst);
    if !handle.is_null() {
        // SAFETY: who takes it away waits for the readers. To cancel takes no lock and no memory.
        unsafe { (*handle).cancel() };
    }
    READERS.fetch_sub(1, Ordering::SeqCst);
}

/// Puts our handler before Python's, if that is what the system has.
fn install() {
    let pythons = PYTHONS.load(Ordering::Relaxed);
    if pythons != 0 {
        handler::replace(pythons, interrupted);
    }
}

/// Finds Python's handler and its main thread, once, when the module is loaded.
pub(crate) fn begin(py: Python<'_>) -> PyResult<()> {
    find_main_thread(py)?;
    let handler = py.import("signal")?.call_method1("getsignal", (SIGINT,))?;
    if handler.is_callable() {
        PYTHONS.store(handler::current(), Ordering::Relaxed);
        install();
    }
    Ok(())
}

fn find_main_thread(py: Python<'_>) -> PyResult<()> {
    let main = py.import("threading")?.call_method0("main_thread")?.getattr("ident")?;
    MAIN.store(main.extract()?, Ordering::Relaxed);
    Ok(())
}

/// In the child of a fork: the thread that forked is the main one, and there is no other.
#[pyfunction]
pub(crate) fn _after_fork(py: Python<'_>) -> PyResult<()> {
    // Whoever held it isn't there any more; then it stays locked, and there is no other thread.
    if let Ok(mut watcher) = WATCHER.try_lock() {
        *watcher = None;
    }
    STARTED.store(false, Ordering::SeqCst);
    ASLEEP.store(false, Ordering::SeqCst);
    // Nor are threads that were in the middle of a handler: nobody waits for them.
    READERS.store(0, Ordering::SeqCst);
    if !is_main() {
        // What the main thread ran doesn't run here, and what was to stop it is no affair of this thread.
        RUNNING.store(0, Ordering::SeqCst);
        free(exchange(null_mut()));
    }
    find_main_thread(py)
}

#[inline]
fn is_main() -> bool {
    // SAFETY: any thread may ask who it is.
    let this: c_ulong = unsafe { ffi::PyThread_get_thread_ident() };
    #[allow(clippy::useless_conversion, reason = "it has 32 bits on some systems")]
    let this = u64::from(this);
    this == MAIN.load(Ordering::Relaxed)
}

/// Puts a handle in the place of the one that SIGINT cancels, whose box is the caller's then.
fn exchange(new: *mut CancelHandle) -> *mut CancelHandle {
    let old = HANDLE.swap(new, Ordering::SeqCst);
    while READERS.load(Ordering::SeqCst) != 0 {
        std::hint::spin_loop();
    }
    old
}

/// A handle that [`exchange`] takes.
fn boxed(handle: &CancelHandle) -> *mut CancelHandle {
    Box::into_raw(Box::new(handle.clone()))
}

/// Frees what [`exchange`] has given.
fn free(handle: *mut CancelHandle) {
    if !handle.is_null() {
        // SAFETY: all handles there were made by `boxed`, and nobody reads this one any more.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// The handle of the main thread's runs, which isn't cancelled.
fn fresh(py: Python<'_>) -> PyResult<CancelHandle> {
    let handle = HANDLE.load(Ordering::Relaxed);
    // SAFETY: only this thread takes it away.
    if let Some(handle) = unsafe { handle.as_ref() }.filter(|handle| !handle.is_cancelled()) {
        return Ok(handle.clone());
    }
    let new = CancelHandle::new();
    free(exchange(boxed(&new)));
    // There was perhaps a signal outside of runs, and Python's handlers haven't run yet. Those that come from now on
    // cancel the new one.
    py.check_signals()?;
    Ok(new)
}

/// A run of the main thread.
struct Watch {
    /// What is given back when the run has a handle of its own.
    outer: Option<*mut CancelHandle>,
}

impl Watch {
    fn begin(own: Option<&CancelHandle>) -> Watch {
        let outer = own.map(|own| exchange(boxed(own)));
        RUNNING.fetch_add(1, Ordering::SeqCst);
        EPOCH.fetch_add(1, Ordering::SeqCst);
        wake();
        Watch { outer }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        EPOCH.fetch_add(1, Ordering::SeqCst);
        if let Some(outer) = self.outer {
            // What is there now is this run's, or what a run in it has put there.
            free(exchange(outer));
        }
    }
}

/// Sees to it that there is a thread, and that it is awake.
#[inline]
fn wake() {
    if !STARTED.load(Ordering::Relaxed) || ASLEEP.load(Ordering::SeqCst) {
        start_or_wake();
        STARTED.store(true, Ordering::Relaxed);
    }
}

#[cold]
fn start_or_wake() {
    // Only the main thread comes here, so it is free, but perhaps in the child of a fork.
    let Ok(mut watcher) = WATCHER.try_lock() else { return };
    match &*watcher {
        Some(thread) => thread.unpark(),
        // Without a thread, a handler that was replaced stays so.
        None => {
            let named = thread::Builder::new().name("dualvm-signals".to_owned());
            *watcher = named.spawn(watch).ok().map(|handle| handle.thread().clone());
        }
    }
}

fn watch() {
    let (mut seen, mut looks) = (EPOCH.load(Ordering::SeqCst), 0);
    loop {
        thread::park_timeout(PERIOD);
        let now = EPOCH.load(Ordering::SeqCst);
        if now != seen {
            (seen, looks) = (now, 0);
        } else if RUNNING.load(Ordering::SeqCst) > 0 {
            install();
        } else if looks < LOOKS_MAX {
            looks += 1;
        } else {
            ASLEEP.store(true, Ordering::SeqCst);
            if EPOCH.load(Ordering::SeqCst) == seen {
                thread::park();
            }
            ASLEEP.store(false, Ordering::SeqCst);
            looks = 0;
        }
    }
}

/// What stops a run, besides SIGINT on the main thread.
#[derive(Clone, Copy)]
pub(crate) enum Stop<'a> {
    /// Nothing.
    Nothing,
    /// A handle of the caller's. SIGINT cancels it, too, and so all that was given it.
    Handle(&'a CancelHandle),
    /// Nothing, but the run has a handle that is its alone, and outlives it.
    Own,
}

impl<'a> Stop<'a> {
    /// A handle, if the caller has one.
    pub(crate) fn by(handle: Option<&'a CancelHandle>) -> Self {
        handle.map_or(Stop::Nothing, Stop::Handle)
    }
}

/// Runs something that can be stopped. What SIGINT has stopped begins anew if Python's handlers raise nothing, unless
/// that was by a handle of the caller's. Only the machine can say so: an exception of a callback is the end, whatever
/// its class.
pub(crate) fn interruptible<T>(
    py: Python<'_>,
    stop: Stop<'_>,
    module: Option<&Module>,
    mut work: impl FnMut(Option<&CancelHandle>) -> Result<T, Failure>,
) -> PyResult<T> {
    if !is_main() {
        let outcome = match stop {
            Stop::Nothing => work(None),
            Stop::Handle(handle) => work(Some(handle)),
            Stop::Own => work(Some(&CancelHandle::new())),
        };
        return outcome.map_err(|failure| failure.raise(py, module));
    }
    loop {
        let outcome = match stop {
            Stop::Nothing => {
                let handle = fresh(py)?;
                let _watch = Watch::begin(None);
                work(Some(&handle))
            }
            Stop::Handle(handle) => watched(py, handle, &mut work),
            Stop::Own => watched(py, &CancelHandle::new(), &mut work),
        };
        match outcome {
            Ok(done) => return Ok(done),
            Err(failure) if failure.is_cancelled() => {
                py.check_signals()?;
                if let Stop::Handle(_) = stop {
                    return Err(failure.raise(py, module));
                }
            }
            Err(failure) => return Err(failure.raise(py, module)),
        }
    }
}

/// A run of the main thread that SIGINT stops by this handle.
fn watched<T>(
    py: Python<'_>,
    handle: &CancelHandle,
    work: &mut impl FnMut(Option<&CancelHandle>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let _watch = Watch::begin(Some(handle));
    // A signal that came before that has cancelled another one.
    py.check_signals()?;
    work(Some(handle))
}
