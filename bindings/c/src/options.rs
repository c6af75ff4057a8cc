//! What calls and compilations may use, and what stops them.

use crate::error::{Report, dualvm_error};
use crate::handles::handles;
use crate::memory::{Out, OutHandle, name, text};
use crate::module::{Program, dualvm_module};
use crate::status::{Failure, claim, dualvm_status, enter, free, get, share};
use dualvm::{CallOptions, CancelHandle, CompileLimits, CompileOptions, Limits, MemoryImporter};
use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::time::Duration;

/// Lets another thread, or a signal handler, stop calls and compilations that were given it. It can't be taken back;
/// make a new one for the next. Any number of threads may use it.
pub struct dualvm_cancel {
    _opaque: (),
}

handles! { CancelHandle => dualvm_cancel, 0x15, "dualvm_cancel"; }

/// What a call or a compilation may use, who may cancel it, and which files a program may import. What isn't set is
/// the engine's, or the default. One thread at a time may change it; calls copy what they need of it.
pub struct dualvm_options {
    _opaque: (),
}

/// A limit of a call or of a compilation. Counts are numbers, times are nanoseconds, sizes are bytes.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dualvm_limit {
    /// No limit, in `dualvm_error_limit`.
    None = 0,
    /// Instructions of a call, in the forward run and in the sweep together. Default 10^15, untrusted 10^10.
    Fuel = 1,
    /// Wall-clock time of a call; 0: none. It ends at most 10 ms and a twentieth of this time later. Default none,
    /// untrusted 5 s.
    DeadlineNs = 2,
    /// Bytes that a call may allocate for its objects, whether they stay in use or not. Default 2^63, untrusted 16 GiB.
    AllocatedBytes = 3,
    /// Bytes that its objects and frames may hold at one time. Default 4 GiB, untrusted 64 MiB.
    LiveBytes = 4,
    /// Bytes that tape and adjoints may hold. Default 8 GiB, untrusted 64 MiB.
    TapeBytes = 5,
    /// Calls of functions of the program that have not returned. Default 2,000,000, untrusted 100,000.
    Depth = 6,
    /// Time that a call may spend on compiling to native code. What would take longer stays interpreted; that is no
    /// error. Default one minute, untrusted 0.5 s.
    NativeTimeNs = 7,
    /// Bytes that the module's native code may take for a call to add to it. Beyond, code stays interpreted. Default
    /// 256 MiB, untrusted 16 MiB.
    NativeBytes = 8,
    /// Bytes of a program's text, with the files that it imports. Default 16 MiB, untrusted 256 KiB.
    SourceBytes = 9,
    /// Wall-clock time of a compilation from text; 0: none. Default none, untrusted 1 s.
    SourceDeadlineNs = 10,
    /// Tokens and nodes of the syntax tree. Default 50,000,000, untrusted 300,000.
    SyntaxNodes = 11,
    /// Nodes of inferred types. Default 100,000,000, untrusted 1,000,000.
    TypeNodes = 12,
    /// Expressions and instructions that definitions become. Default 100,000,000, untrusted 500,000.
    CodeNodes = 13,
    /// Bytes that a compilation may hold at one time, by a cautious estimate. Default 4 GiB, untrusted 128 MiB.
    SourceMemoryBytes = 14,
}

impl dualvm_limit {
    const ALL: [dualvm_limit; 14] = [
        dualvm_limit::Fuel,
        dualvm_limit::DeadlineNs,
        dualvm_limit::AllocatedBytes,
        dualvm_limit::LiveBytes,
        dualvm_limit::TapeBytes,
        dualvm_limit::Depth,
        dualvm_limit::NativeTimeNs,
        dualvm_limit::NativeBytes,
        dualvm_limit::SourceBytes,
        dualvm_limit::SourceDeadlineNs,
        dualvm_limit::SyntaxNodes,
        dualvm_limit::TypeNodes,
        dualvm_limit::CodeNodes,
        dualvm_limit::SourceMemoryBytes,
    ];

    fn of(number: u32) -> Result<dualvm_limit, Failure> {
        let known = dualvm_limit::ALL.into_iter().find(|limit| *limit as u32 == number);
        known.ok_or_else(|| Report::invalid(format!("{number} is no dualvm_limit")))
    }
}

/// What is set.
#[derive(Clone, Default)]
pub(crate) struct Options {
    untrusted: bool,
    /// The last one of each limit counts.
    limits: Vec<(dualvm_limit, u64)>,
    pub(crate) cancel: Option<CancelHandle>,
    pub(crate) timed: bool,
    copy_arguments: bool,
    files: Option<MemoryImporter>,
}

handles! { Options => dualvm_options, 0x17, "dualvm_options"; }

impl Options {
    fn says_limits(&self) -> bool {
        self.untrusted || !self.limits.is_empty()
    }

    /// The limits of a call, given those of its engine.
    pub(crate) fn limits(&self, engine: &Limits) -> Limits {
        let mut limits = if self.untrusted { Limits::untrusted() } else { engine.clone() };
        for &(limit, value) in &self.limits {
            match limit {
                dualvm_limit::Fuel => limits.fuel = value,
                dualvm_limit::DeadlineNs => limits.deadline = time(value),
                dualvm_limit::AllocatedBytes => limits.allocated_bytes = value,
                dualvm_limit::LiveBytes => limits.live_bytes = value,
                dualvm_limit::TapeBytes => limits.tape_bytes = value,
                dualvm_limit::Depth => limits.depth = value as usize,
                dualvm_limit::NativeTimeNs => limits.compile_time = Duration::from_nanos(value),
                dualvm_limit::NativeBytes => limits.code_bytes = value,
                _ => {}
            }
        }
        limits
    }

    fn compile_limits(&self) -> CompileLimits {
        let mut limits = if self.untrusted { CompileLimits::untrusted() } else { CompileLimits::default() };
        for &(limit, value) in &self.limits {
            match limit {
                dualvm_limit::SourceBytes => limits.source_bytes = value as usize,
                dualvm_limit::SourceDeadlineNs => limits.deadline = time(value),
                dualvm_limit::SyntaxNodes => limits.syntax_nodes = value,
                dualvm_limit::TypeNodes => limits.type_nodes = value,
                dualvm_limit::CodeNodes => limits.code_nodes = value,
                dualvm_limit::SourceMemoryBytes => limits.memory_bytes = value,
                _ => {}
            }
        }
        limits
    }

    /// How a call runs on an engine with these limits.
    pub(crate) fn for_call(&self, engine: &Limits) -> CallOptions {
        let mut options = CallOptions::default();
        options.limits = self.says_limits().then(|| self.limits(engine));
        options.cancel = self.cancel.clone();
        options.copy_arguments = self.copy_arguments;
        options
    }

    /// How a program is compiled.
    pub(crate) fn for_compiling(&self) -> CompileOptions {
        let mut options = CompileOptions::with_limits(self.compile_limits());
        options.cancel = self.cancel.clone();
        match &self.files {
            Some(files) => options.importing(Arc::new(files.clone())),
            None => options,
        }
    }
}

fn time(nanoseconds: u64) -> Option<Duration> {
    (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
}

/// The options of a handle that may be null.
pub(crate) fn given(options: *const dualvm_options) -> Result<Options, Failure> {
    if options.is_null() { Ok(Options::default()) } else { Ok(share::<Options>(options)?.clone()) }
}

/// Makes a handle that cancels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_cancel_new(
    cancel: *mut *mut dualvm_cancel,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe { enter(error, || OutHandle::new(cancel, "cancel")?.write(CancelHandle::new())) }
}

/// Frees a handle that cancels. Null is fine. Calls that were given it go on, and can't be cancelled any more.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_cancel_free(cancel: *mut dualvm_cancel) {
    free::<CancelHandle>(cancel);
}

/// Stops every call and every compilation that was given this handle, now and later; they end with
/// `DUALVM_STATUS_CANCELLED`, within a millisecond or so. May be called from any thread and from a signal handler: it
/// takes no lock and allocates nothing, and so it makes no error object.
///
/// Errors: `INVALID_HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_cancel_request(cancel: *const dualvm_cancel) -> dualvm_status {
    get(dualvm_status::InvalidHandle, || {
        share_quietly(cancel)?.cancel();
        Some(dualvm_status::Ok)
    })
}

/// Whether it was requested. False for null and for what is no handle.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_cancel_is_requested(cancel: *const dualvm_cancel) -> bool {
    get(false, || Some(share_quietly(cancel)?.is_cancelled()))
}

/// Without a report of what is wrong with the handle.
fn share_quietly(cancel: *const dualvm_cancel) -> Option<crate::handles::Shared<CancelHandle>> {
    <CancelHandle as crate::handles::Object>::table().share(cancel).ok()
}

/// Makes options of which nothing is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_options_new(
    options: *mut *mut dualvm_options,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe { enter(error, || OutHandle::new(options, "options")?.write(Options::default())) }
}

/// Frees options. Null is fine. What was made with them keeps what it needs.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_options_free(options: *mut dualvm_options) {
    free::<Options>(options);
}

/// Changes options.
///
/// # Safety
/// As for [`enter`].
unsafe fn change(
    options: *mut dualvm_options,
    error: *mut *mut dualvm_error,
    change: impl FnOnce(&mut Options) -> Result<(), Failure>,
) -> dualvm_status {
    // SAFETY: promised by the caller.
    unsafe { enter(error, || change(&mut *claim::<Options>(options)?)) }
}

/// From now on limits that aren't set are those for programs from strangers: seconds of time, tens of megabytes of
/// memory. `dualvm_limit` has them. Limits that were set stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_options_set_untrusted(
    options: *mut dualvm_options,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let set = |options: &mut Options| {
        options.untrusted = true;
        Ok(())
    };
    // SAFETY: the interface's promise.
    unsafe { change(options, error, set) }
}

/// Sets a limit. `limit` is a `dualvm_limit`.
///
/// Errors: `INVALID_ARGUMENT` if `limit` is none of these.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_options_set_limit(
    options: *mut dualvm_options,
    limit: u32,
    value: u64,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let set = |options: &mut Options| {
        let limit = dualvm_limit::of(limit)?;
        options.limits.retain(|(set, _)| *set != limit);
        options.limits.push((limit, value));
        Ok(())
    };
    // SAFETY: the interface's promise.
    unsafe { change(options, error, set) }
}

/// Says what a limit is in these options, on an engine with default limits.
///
/// Errors: `INVALID_ARGUMENT` if `limit` is no `dualvm_limit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_options_limit(
    options: *const dualvm_options,
    limit: u32,
    value: *mut u64,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let (limit, value) = (dualvm_limit::of(limit)?, Out::new(value, "value")?);
            let options = share::<Options>(options)?;
            let (call, compile) = (options.limits(&Limits::default()), options.compile_limits());
            let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            value.write(match limit {
                dualvm_limit::None => 0,
                dualvm_limit::Fuel => call.fuel,
                dualvm_limit::DeadlineNs => call.deadline.map_or(0, nanoseconds),
                dualvm_limit::AllocatedBytes => call.allocated_bytes,
                dualvm_limit::LiveBytes => call.live_bytes,
                dualvm_limit::TapeBytes => call.tape_bytes,
                dualvm_limit::Depth => call.depth as u64,
                dualvm_limit::NativeTimeNs => nanoseconds(call.compile_time),
                dualvm_limit::NativeBytes => call.code_bytes,
                dualvm_limit::SourceBytes => compile.source_bytes as u64,
                dualvm_limit::SourceDeadlineNs => compile.deadline.map_or(0, nanoseconds),
                dualvm_limit::SyntaxNodes => compile.syntax_nodes,
                dualvm_limit::TypeNodes => compile.type_nodes,
                dualvm_limit::CodeNodes => compile.code_nodes,
                dualvm_limit::SourceMemoryBytes => compile.memory_bytes,
            });
            Ok(())
        })
    }
}

/// Lets `cancel` stop calls and compilations with these options; null: nothing stops them. `cancel` may be freed
/// before the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_options_set_cancel(
    options: *mut dualvm_options,
    cancel: *const dualvm_cancel,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let set = |options: &mut Options| {
        options.cancel = if cancel.is_null() { None } else { Some(share::<CancelHandle>(cancel)?.clone()) };
        Ok(())
    };
    // SAFETY: the interface's promise.
    unsafe { change(options, error, set) }
}

/// Whether flat calls with these options look at the clock, so that `dualvm_frame_stats` has times: not, unless this is
/// set, because that takes as long as a small program. `timed`: 0 or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_options_set_timed(
    options: *mut dualvm_options,
    timed: c_int,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let set = |options: &mut Options| {
        options.timed = timed != 0;
        Ok(())
    };
    // SAFETY: the interface's promise.
    unsafe { change(options, error, set) }
}

/// Whether calls with these options copy the arrays that they are given before the program runs, so that a host
/// function may write to them: not, unless this is set, because long ones needn't be copied otherwise. `copy`: 0 or
/// not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_options_set_copy_arguments(
    options: *mut dualvm_options,
    copy: c_int,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let set = |options: &mut Options| {
        options.copy_arguments = copy != 0;
        Ok(())
    };
    // SAFETY: the interface's promise.
    unsafe { change(options, error, set) }
}

/// Gives programs a file that they may import by this name, as in `import shapes`. The text is copied; what had the
/// name is replaced. Programs import nothing else but modules that they are given and the language's library: no file
/// is ever opened.
///
/// `len`: bytes of the text, or `DUALVM_NUL_TERMINATED`. Errors: `INVALID_ARGUMENT` for what isn't UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_options_add_file(
    options: *mut dualvm_options,
    file: *const c_char,
    source: *const c_char,
    len: usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        change(options, error, |options| {
            let (file, source) = (name(file, "file")?, text(source, len, "source")?);
            options.files.get_or_insert_default().insert(file, source);
            Ok(())
        })
    }
}

/// Gives programs a module, of whichever engine, that they may import by this name, as in `import shapes`: it isn't
/// compiled again. What had the name is replaced. The module may be freed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_options_add_module(
    options: *mut dualvm_options,
    file: *const c_char,
    module: *const dualvm_module,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        change(options, error, |options| {
            let library = share::<Program>(module)?.module.library();
            options.files.get_or_insert_default().insert_bytecode(name(file, "file")?, library);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_copy_arguments_if_that_is_set() {
        let mut options = std::ptr::null_mut();
        let none = std::ptr::null_mut();
        // SAFETY: the pointers are to what they say, or null where that is allowed.
        unsafe {
            assert_eq!(dualvm_options_new(&raw mut options, none), dualvm_status::Ok);
            let copies = || given(options).ok().expect("it is a handle").for_call(&Limits::default()).copy_arguments;
            assert!(!copies());
            assert_eq!(dualvm_options_set_copy_arguments(options, 2, none), dualvm_status::Ok);
            assert!(copies());
            assert_eq!(dualvm_options_set_copy_arguments(options, 0, none), dualvm_status::Ok);
            assert!(!copies());
        }
        dualvm_options_free(options);
    }
}
