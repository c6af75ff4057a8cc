//! Ctrl-C. While something runs that can be cancelled, it is: the command then says where it was, and ends. At any
//! other time, and the second time, the process ends at once.

use dualvm::CancelHandle;
use std::process::exit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What shells report of a program that Ctrl-C ended.
pub(crate) const EXIT_CODE: u8 = 130;

static HANDLE: OnceLock<CancelHandle> = OnceLock::new();
/// Whether something runs that looks at the handle.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Does something that ends soon after Ctrl-C cancels the handle.
pub(crate) fn cancellable<T>(run: impl FnOnce(&CancelHandle) -> T) -> T {
    let handle = HANDLE.get_or_init(|| {
        // Where no handler can be installed, Ctrl-C ends the process as it would without one.
        _ = ctrlc::set_handler(interrupted);
        CancelHandle::new()
    });
    RUNNING.store(true, Ordering::SeqCst);
    let result = run(handle);
    RUNNING.store(false, Ordering::SeqCst);
    result
}

/// Runs on a thread of its own.
fn interrupted() {
    match HANDLE.get() {
        Some(handle) if RUNNING.load(Ordering::SeqCst) && !handle.is_cancelled() => handle.cancel(),
        _ => {
            // The only thing left to do: the main thread may be in the middle of reading stdin.
            eprintln!("interrupted");
            exit(i32::from(EXIT_CODE));
        }
    }
}
