//! What every function of the interface returns, and the one way into the library: panics end here.

use crate::error::{Report, dualvm_error};
use crate::handles::{Claimed, Object, Refusal, Shared};
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a function returns: `DUALVM_STATUS_OK`, or what kind of error there was. Later versions may have more kinds;
/// treat those that you don't know as errors.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dualvm_status {
    /// It was done.
    Ok = 0,
    /// A mistake in the call itself: a pointer that is null or not aligned, a text that isn't UTF-8, a wrong number of
    /// values or places for them, a number that is out of range. Nothing has happened.
    InvalidArgument = 1,
    /// A handle was freed before, is one of another kind, or never was one. Nothing has happened.
    InvalidHandle = 2,
    /// What the handle stands for is in use: by another thread, or further up in the same one. Nothing has happened.
    /// After `INTERNAL` it stays so, because nobody knows what state it is in.
    Busy = 3,
    /// A program's text has errors. Show the message to who wrote it.
    Source = 4,
    /// Bytes are no module in binary form, or break rules of the verifier. Refuse them.
    Module = 5,
    /// There is no function or parameter of this name, or it can't be used so.
    NotFound = 6,
    /// The function has no flat calls, because of the type of a parameter or of its result. Call it with JSON.
    NotFlat = 7,
    /// Arguments, tangents or cotangents are not those of the function.
    Argument = 8,
    /// A gradient was asked of a function whose result is not one real.
    NotScalar = 9,
    /// The program has run, and its result can't be handed over: it nests too deep, say.
    Result = 10,
    /// The program stopped itself, or did what can't be done: a division of integers by zero, an index out of bounds.
    /// The places of the error are the calls that led there, the innermost first.
    Trap = 11,
    /// The program, or its compilation, has reached a limit: `dualvm_error_limit` says which.
    Limit = 12,
    /// The program, or its compilation, was cancelled.
    Cancelled = 13,
    /// A mistake of the library. Please report it.
    Internal = 14,
}

impl dualvm_status {
    /// With a null at the end.
    fn name(self) -> &'static str {
        match self {
            dualvm_status::Ok => "ok\0",
            dualvm_status::InvalidArgument => "invalid argument\0",
            dualvm_status::InvalidHandle => "invalid handle\0",
            dualvm_status::Busy => "busy\0",
            dualvm_status::Source => "source\0",
            dualvm_status::Module => "module\0",
            dualvm_status::NotFound => "not found\0",
            dualvm_status::NotFlat => "not flat\0",
            dualvm_status::Argument => "argument\0",
            dualvm_status::NotScalar => "not scalar\0",
            dualvm_status::Result => "result\0",
            dualvm_status::Trap => "trap\0",
            dualvm_status::Limit => "limit\0",
            dualvm_status::Cancelled => "cancelled\0",
            dualvm_status::Internal => "internal\0",
        }
    }

    const ALL: [dualvm_status; 15] = [
        dualvm_status::Ok,
        dualvm_status::InvalidArgument,
        dualvm_status::InvalidHandle,
        dualvm_status::Busy,
        dualvm_status::Source,
        dualvm_status::Module,
        dualvm_status::NotFound,
        dualvm_status::NotFlat,
        dualvm_status::Argument,
        dualvm_status::NotScalar,
        dualvm_status::Result,
        dualvm_status::Trap,
        dualvm_status::Limit,
        dualvm_status::Cancelled,
        dualvm_status::Internal,
    ];
}

/// A word or two for a status, for logs: "limit", "invalid handle". Never null; lives forever. `status` is a
/// `dualvm_status`; of other numbers it says "unknown status".
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_status_name(status: i32) -> *const c_char {
    let known = usize::try_from(status).ok().and_then(|n| dualvm_status::ALL.get(n));
    known.map_or("unknown status\0", |known| known.name()).as_ptr().cast()
}

/// Why a function of the interface has failed.
pub(crate) type Failure = Box<Report>;

/// What a function of the interface does: `work`, with panics caught. `error` is where C wants the error: null once it
/// is done, or a new one.
///
/// # Safety
/// `error` is null, or points to a place for a pointer, or isn't aligned.
#[inline]
pub(crate) unsafe fn enter(error: *mut *mut dualvm_error, work: impl FnOnce() -> Result<(), Failure>) -> dualvm_status {
    if !error.is_aligned() {
        return dualvm_status::InvalidArgument;
    }
    let (status, report) = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => (dualvm_status::Ok, std::ptr::null_mut()),
        Ok(Err(failure)) => failed(*failure, error.is_null()),
        Err(panic) => panicked(panic, error.is_null()),
    };
    if !error.is_null() {
        // SAFETY: promised by the caller, and it is aligned.
        unsafe { error.write(report) };
    }
    status
}

#[cold]
#[inline(never)]
fn failed(report: Report, unwanted: bool) -> (dualvm_status, *mut dualvm_error) {
    let status = report.status;
    let handle = if unwanted { None } else { Report::table().insert(report) };
    (status, handle.unwrap_or(std::ptr::null_mut()))
}

#[cold]
#[inline(never)]
fn panicked(panic: Box<dyn std::any::Any + Send>, unwanted: bool) -> (dualvm_status, *mut dualvm_error) {
    let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!("a mistake in the library: {}", said.unwrap_or("it panicked without a message"));
    // What it says may have a destructor that panics, too.
    std::mem::forget(panic);
    failed(*Report::new(dualvm_status::Internal, message), unwanted)
}

/// What a getter does, which has no way to say what went wrong: `other` is what it gives then.
pub(crate) fn get<T>(other: T, work: impl FnOnce() -> Option<T>) -> T {
    catch_unwind(AssertUnwindSafe(work)).ok().flatten().unwrap_or(other)
}

/// Frees what a handle stands for.
pub(crate) fn free<T: Object>(handle: *mut T::Opaque) {
    // A destructor that panics leaves the rest of the object as it is; there is nobody to tell.
    _ = catch_unwind(AssertUnwindSafe(|| T::table().remove(handle)));
}

/// The object of a handle, for what only looks at it.
pub(crate) fn share<T: Object + Sync>(handle: *const T::Opaque) -> Result<Shared<T>, Failure> {
    T::table().share(handle).map_err(|refusal| refused::<T>(refusal))
}

/// The object of a handle, for what changes it.
#[inline]
pub(crate) fn claim<T: Object>(handle: *const T::Opaque) -> Result<Claimed<T>, Failure> {
    T::table().claim(handle).map_err(|refusal| refused::<T>(refusal))
}

#[cold]
#[inline(never)]
fn refused<T: Object>(refusal: Refusal) -> Failure {
    let name = T::NAME;
    match refusal {
        Refusal::Null => Report::new(dualvm_status::InvalidHandle, format!("expected a {name}, found null")),
        Refusal::Stale => {
            let message = format!("expected a {name}, found something else, or one that was freed");
            Report::new(dualvm_status::InvalidHandle, message)
        }
        Refusal::Busy => {
            let message = format!("the {name} is in use, by another thread or further up in this one");
            Report::new(dualvm_status::Busy, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{dualvm_error_free, dualvm_error_message};
    use std::ffi::CStr;

    #[test]
    fn panics_end_as_errors() {
        let mut error = std::ptr::null_mut();
        // SAFETY: there is a place for the error.
        let status = unsafe { enter(&raw mut error, || panic!("on purpose")) };
        assert_eq!(status, dualvm_status::Internal);
        // SAFETY: messages live as long as their errors.
        let message = unsafe { CStr::from_ptr(dualvm_error_message(error)) };
        assert_eq!(message.to_str(), Ok("a mistake in the library: on purpose"));
        dualvm_error_free(error);
        assert_eq!(get(7, || panic!("on purpose")), 7);
    }

    #[test]
    fn every_status_has_a_name() {
        for (n, status) in dualvm_status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, n);
            assert!(status.name().ends_with('\0'));
        }
        // SAFETY: names live forever.
        let name = |n| unsafe { CStr::from_ptr(dualvm_status_name(n)) };
        assert_eq!(name(12), c"limit");
        assert_eq!([name(15), name(-1), name(i32::MIN)], [c"unknown status"; 3]);
    }
}
