//! Engines, and how they work.

use crate::error::{Report, dualvm_error};
use crate::handles::handles;
use crate::memory::{OutHandle, text};
use crate::module::{Program, dualvm_module};
use crate::options::{dualvm_options, given};
use crate::status::{Failure, claim, dualvm_status, enter, free, get, share};
use dualvm::{Config, Engine, Jit};
use std::ffi::{c_char, c_int};

/// How an engine works. One thread at a time may change it.
pub struct dualvm_config {
    _opaque: (),
}

/// Runs programs: it owns the memory that runs use again, and the threads of parallel ones. Make one and share it,
/// among any number of threads.
pub struct dualvm_engine {
    _opaque: (),
}

handles! {
    Config => dualvm_config, 0x21, "dualvm_config";
    Engine => dualvm_engine, 0x23, "dualvm_engine";
}

/// When functions are compiled to native code. Results, traps and the use of fuel are the same in any case.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dualvm_native {
    /// When interpreting them has taken about as long as compiling them will; the default.
    Auto = 0,
    /// Never: everything is interpreted.
    Never = 1,
    /// Before they run for the first time.
    Always = 2,
}

/// Makes a configuration of which nothing is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_config_new(
    config: *mut *mut dualvm_config,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe { enter(error, || OutHandle::new(config, "config")?.write(Config::default())) }
}

/// Frees a configuration. Null is fine. Engines that were made with it keep what they need.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_config_free(config: *mut dualvm_config) {
    free::<Config>(config);
}

/// Changes a configuration.
///
/// # Safety
/// As for [`enter`].
unsafe fn change(
    config: *mut dualvm_config,
    error: *mut *mut dualvm_error,
    change: impl FnOnce(&mut Config) -> Result<(), Failure>,
) -> dualvm_status {
    // SAFETY: promised by the caller.
    unsafe { enter(error, || change(&mut *claim::<Config>(config)?)) }
}

/// The limits of calls that bring none of their own: those of these options. Other options don't matter here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_config_set_limits(
    config: *mut dualvm_config,
    limits: *const dualvm_options,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let set = |config: &mut Config| {
        config.limits = given(limits)?.limits(&dualvm::Limits::default());
        Ok(())
    };
    // SAFETY: the interface's promise.
    unsafe { change(config, error, set) }
}

/// How many threads run the tasks of programs that have some, and their sweeps. 0, the default: one per core. 1: the
/// thread that calls. Results are the same bits for any number. At most 65536.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_config_set_threads(
    config: *mut dualvm_config,
    threads: usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    const THREADS_MAX: usize = 1 << 16;
    let set = |config: &mut Config| {
        if threads > THREADS_MAX {
            return Err(Report::invalid(format!("an engine has at most {THREADS_MAX} threads, found {threads}")));
        }
        config.threads = threads;
        Ok(())
    };
    // SAFETY: the interface's promise.
    unsafe { change(config, error, set) }
}

/// When functions are compiled to native code: `native` is a `dualvm_native`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_config_set_native(
    config: *mut dualvm_config,
    native: u32,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let set = |config: &mut Config| {
        config.jit = match native {
            n if n == dualvm_native::Auto as u32 => Jit::Auto,
            n if n == dualvm_native::Never as u32 => Jit::Off,
            n if n == dualvm_native::Always as u32 => Jit::Always,
            n => return Err(Report::invalid(format!("{n} is no dualvm_native"))),
        };
        Ok(())
    };
    // SAFETY: the interface's promise.
    unsafe { change(config, error, set) }
}

/// How far each of the six stacks of a run may grow, in bytes; 0, the default: 16 GiB. Nothing is reserved, only
/// addresses are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_config_set_stack_bytes(
    config: *mut dualvm_config,
    bytes: usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let set = |config: &mut Config| {
        config.stack_bytes = bytes;
        Ok(())
    };
    // SAFETY: the interface's promise.
    unsafe { change(config, error, set) }
}

/// Whether calls stop, as a trap that says how it came about, at the first number that becomes NaN or infinite out of
/// numbers that aren't. For finding mistakes: everything is interpreted, and takes some ten times as long. `stops`: 0,
/// the default, or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_config_set_trap_nan(
    config: *mut dualvm_config,
    stops: c_int,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let set = |config: &mut Config| {
        config.trap_nan = stops != 0;
        Ok(())
    };
    // SAFETY: the interface's promise.
    unsafe { change(config, error, set) }
}

/// Gives programs of engines with this configuration the functions of a module, of whichever engine: what
/// `import host "name.function" : type` means in a program, and an import of that name in bytecode. `len`: bytes of the
/// name, or `DUALVM_NUL_TERMINATED`. It takes the place of the module that had the name before. The module may be freed
/// then. What it imports itself is looked for in the configuration, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_config_define_module(
    config: *mut dualvm_config,
    name: *const c_char,
    len: usize,
    module: *const dualvm_module,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let define = |config: &mut Config| {
        // SAFETY: the interface's promise.
        let name = unsafe { text(name, len, "name") }?;
        config.linker.define_library(name, share::<Program>(module)?.module.library());
        Ok(())
    };
    // SAFETY: the interface's promise.
    unsafe { change(config, error, define) }
}

/// Makes an engine with this configuration; null: with the default one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_engine_new(
    config: *const dualvm_config,
    engine: *mut *mut dualvm_engine,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let engine = OutHandle::new(engine, "engine")?;
            let config = if config.is_null() { Config::default() } else { share::<Config>(config)?.clone() };
            engine.write(Engine::new(config))
        })
    }
}

/// Frees an engine. Null is fine. Modules, functions and frames that were made with it stay good, and keep what they
/// need of it.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_engine_free(engine: *mut dualvm_engine) {
    free::<Engine>(engine);
}

/// How many threads run tasks. 0 for null and for what is no engine.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_engine_threads(engine: *const dualvm_engine) -> usize {
    get(0, || Some(share::<Engine>(engine).ok()?.threads()))
}

/// Bytes of memory that the engine keeps for runs to come, without stacks. 0 for null and for what is no engine.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_engine_kept_bytes(engine: *const dualvm_engine) -> u64 {
    get(0, || Some(share::<Engine>(engine).ok()?.kept_bytes()))
}
