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
//! what comes in between waits until the next signal, or until the call has ended.

use crate::error::Failure;
use crate::module::Module;
use dualvm::CancelHandle;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_ulong};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

const SIGINT: c_int = 2;
/// How often the thread looks at what the main thread does.
const PERIOD: Duration = Duration::from_millis(50);
/// After so many looks at nothing it sleeps until there is a call.
const LOOKS_MAX: u32 = 20;

/// What Python has as its handler; null: it doesn't handle the signal.
static PYTHONS: AtomicPtr<()> = AtomicPtr::new(null_mut());
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

type Handler = unsafe extern "C" fn(c_int);

/// Handles SIGINT, on whichever thread the system chooses, in the middle of anything.
///
/// # Safety
/// None is asked for; handlers have this type.
unsafe extern "C" fn interrupted(signal: c_int) {
    // Python's goes first: when a run ends, its handlers have something to do.
    let pythons = PYTHONS.load(Ordering::Relaxed);
    if !pythons.is_null() {
        // SAFETY: it is a handler, and this is such a signal.
        unsafe { std::mem::transmute::<*mut (), Handler>(pythons)(signal) };
    }
    READERS.fetch_add(1, Ordering::SeqCst);
    let handle = HANDLE.load(Ordering::SeqCst);
    if !handle.is_null() {
        // SAFETY: who takes it away waits for the readers. To cancel takes no lock and no memory.
        unsafe { (*handle).cancel() };
    }
    READERS.fetch_sub(1, Ordering::SeqCst);
}

/// What the system does with SIGINT: a handler, or one of the numbers that stand for none, 0 among them, which no
/// function of Rust's may be.
fn current() -> *mut () {
    type Get = unsafe extern "C" fn(c_int) -> *mut ();
    // SAFETY: pointers to functions are passed as other pointers are. It takes no lock of Python's, and any thread may
    // ask.
    unsafe { std::mem::transmute::<unsafe extern "C" fn(c_int) -> Handler, Get>(ffi::PyOS_getsig)(SIGINT) }
}

/// Puts our handler before Python's, if that is what the system has.
fn install() {
    type Set = unsafe extern "C" fn(c_int, Handler) -> *mut ();
    let pythons = PYTHONS.load(Ordering::Relaxed);
    if pythons.is_null() || current() != pythons {
        return;
    }
    // SAFETY: as above.
    unsafe {
        std::mem::transmute::<unsafe extern "C" fn(c_int, Handler) -> Handler, Set>(ffi::PyOS_setsig)(
            SIGINT,
            interrupted,
        );
    }
}

/// Finds Python's handler and its main thread, once, when the module is loaded.
pub(crate) fn begin(py: Python<'_>) -> PyResult<()> {
    find_main_thread(py)?;
    let handler = py.import("signal")?.call_method1("getsignal", (SIGINT,))?;
    if handler.is_callable() {
        PYTHONS.store(current(), Ordering::Relaxed);
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
    // Whoever held it isn't there any more; then what it guards is left as it is.
    if let Ok(mut watcher) = WATCHER.try_lock() {
        *watcher = None;
    }
    STARTED.store(false, Ordering::SeqCst);
    ASLEEP.store(false, Ordering::SeqCst);
    if !is_main() {
        RUNNING.store(0, Ordering::SeqCst);
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
    let mut watcher = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Runs something that a handle may cancel: the caller's, and on the main thread SIGINT.
pub(crate) fn interruptible<T>(
    py: Python<'_>,
    cancel: Option<&CancelHandle>,
    module: Option<&Module>,
    mut work: impl FnMut(Option<&CancelHandle>) -> Result<T, Failure>,
) -> PyResult<T> {
    if !is_main() {
        return work(cancel).map_err(|failure| failure.raise(py, module));
    }
    loop {
        let outcome = match cancel {
            Some(cancel) => {
                // SIGINT cancels the caller's handle, and so all that was given it.
                let _watch = Watch::begin(Some(cancel));
                // A signal that came before that has cancelled another one.
                py.check_signals()?;
                work(Some(cancel))
            }
            None => {
                let handle = fresh(py)?;
                let _watch = Watch::begin(None);
                work(Some(&handle))
            }
        };
        match outcome {
            Ok(done) => return Ok(done),
            Err(failure) if failure.is_cancelled() => {
                py.check_signals()?;
                if cancel.is_some() {
                    return Err(failure.raise(py, module));
                }
            }
            Err(failure) => return Err(failure.raise(py, module)),
        }
    }
}
