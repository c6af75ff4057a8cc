//! The handler that the system has for SIGINT. Any thread may ask for it and replace it.

#[cfg(unix)]
pub(super) use posix::{current, replace};
#[cfg(not(unix))]
pub(super) use python::{current, replace};

use std::ffi::c_int;

/// A handler that is given the number of the signal and nothing else.
pub(super) type Handler = unsafe extern "C" fn(c_int);

#[cfg(unix)]
mod posix {
    use super::Handler;
    use crate::interrupt::SIGINT;
    use std::mem::MaybeUninit;
    use std::ptr::{null, null_mut};

    /// The address of the system's handler; 0: none that ours could call. It could not call one that takes more than a
    /// number (SA_SIGINFO).
    pub(crate) fn current() -> usize {
        address(action().as_ref())
    }

    /// Puts another in the place of this one, if that is what the system has: with its flags and its mask.
    pub(crate) fn replace(old: usize, new: Handler) {
        let Some(mut action) = action().filter(|action| address(Some(action)) == old) else { return };
        action.sa_sigaction = new as libc::sighandler_t;
        let mut found = MaybeUninit::uninit();
        // SAFETY: it is a handler of such a number, as the flags say.
        let found = unsafe {
            if libc::sigaction(SIGINT, &action, found.as_mut_ptr()) != 0 {
                return;
            }
            found.assume_init()
        };
        if address(Some(&found)) != old {
            // Somebody has come in between, and is to have the last word.
            // SAFETY: the system has had this a moment ago.
            unsafe { libc::sigaction(SIGINT, &found, null_mut()) };
        }
    }

    fn action() -> Option<libc::sigaction> {
        let mut found = MaybeUninit::uninit();
        // SAFETY: it asks, and changes nothing. It fills all in if it succeeds.
        unsafe { (libc::sigaction(SIGINT, null(), found.as_mut_ptr()) == 0).then(|| found.assume_init()) }
    }

    fn address(action: Option<&libc::sigaction>) -> usize {
        match action {
            Some(action) if action.sa_flags & libc::SA_SIGINFO == 0 => match action.sa_sigaction {
                libc::SIG_DFL | libc::SIG_IGN => 0,
                handler => handler,
            },
            _ => 0,
        }
    }
}

#[cfg(not(unix))]
mod python {
    use super::Handler;
    use crate::interrupt::SIGINT;
    use pyo3::ffi;
    use std::ffi::c_int;

    /// The address of the system's handler; 0: there is none.
    pub(crate) fn current() -> usize {
        type Get = unsafe extern "C" fn(c_int) -> usize;
        // SAFETY: pointers to functions are passed as other words are. None of Rust's may be 0, so it is one of these.
        let found =
            unsafe { std::mem::transmute::<unsafe extern "C" fn(c_int) -> Handler, Get>(ffi::PyOS_getsig)(SIGINT) };
        // 1 stands for a signal that is ignored.
        if found == 1 { 0 } else { found }
    }

    /// Puts another in the place of this one, if that is what the system has.
    pub(crate) fn replace(old: usize, new: Handler) {
        type Set = unsafe extern "C" fn(c_int, Handler) -> usize;
        if current() == old {
            // SAFETY: as above.
            unsafe {
                std::mem::transmute::<unsafe extern "C" fn(c_int, Handler) -> Handler, Set>(ffi::PyOS_setsig)(
                    SIGINT, new,
                );
            }
        }
    }
}
