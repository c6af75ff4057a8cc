//! Modules: programs that were compiled and verified.

use crate::bytes::{Bytes, dualvm_bytes};
use crate::engine::dualvm_engine;
use crate::error::{Report, dualvm_error};
use crate::function::{Callable, dualvm_function};
use crate::handles::handles;
use crate::memory::{OutHandle, c_string, name, slice, text};
use crate::options::{dualvm_options, given};
use crate::status::{dualvm_status, enter, free, get, share};
use dualvm::{Engine, Module};
use std::ffi::{CString, c_char};

/// A program that was compiled and verified: running it can't do more than compute, stop or reach a limit, whatever it
/// came from. Any number of threads may use it.
pub struct dualvm_module {
    _opaque: (),
}

/// A module with the texts that C asks for.
pub(crate) struct Program {
    pub(crate) module: Module,
    warnings: CString,
    names: Vec<CString>,
    signatures: Vec<CString>,
}

handles! { Program => dualvm_module, 0x31, "dualvm_module"; }

impl Program {
    fn new(module: Module) -> Self {
        Program {
            warnings: c_string(module.warnings()),
            names: module.functions().map(|function| c_string(function.name())).collect(),
            signatures: module.signatures().map(c_string).collect(),
            module,
        }
    }
}

/// Compiles a program in dualvm's language.
///
/// `file` names it in messages; nothing is opened. `len`: bytes of the text, or `DUALVM_NUL_TERMINATED`. `options`:
/// limits of the compilation, who may cancel it, files to import; null: the defaults.
///
/// Errors: `SOURCE` with the places of all mistakes, `LIMIT`, `CANCELLED`; `INVALID_ARGUMENT` for what isn't UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_module_from_source(
    engine: *const dualvm_engine,
    file: *const c_char,
    source: *const c_char,
    len: usize,
    options: *const dualvm_options,
    module: *mut *mut dualvm_module,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let module = OutHandle::new(module, "module")?;
            let (file, source) = (name(file, "file")?, text(source, len, "source")?);
            let (engine, options) = (share::<Engine>(engine)?, given(options)?.for_compiling());
            let compiled = Module::from_source_with(&engine, file, source, &options);
            module.write(Program::new(compiled.map_err(|error| Report::of(&error, None))?))
        })
    }
}

/// Loads a module in binary form, which is verified, whoever wrote it. The bytes are copied.
///
/// Errors: `MODULE` if they are none, or break a rule of the verifier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_module_from_bytes(
    engine: *const dualvm_engine,
    bytes: *const u8,
    len: usize,
    module: *mut *mut dualvm_module,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let (module, bytes) = (OutHandle::new(module, "module")?, slice(bytes, len, "bytes")?);
            let loaded = Module::from_binary(&*share::<Engine>(engine)?, bytes);
            module.write(Program::new(loaded.map_err(|error| Report::of(&error, None))?))
        })
    }
}

/// Frees a module. Null is fine. Functions of it stay good.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_module_free(module: *mut dualvm_module) {
    free::<Program>(module);
}

/// The module in binary form, which `dualvm_module_from_bytes` loads without the compiler. Equal modules have equal
/// bytes. What it calls of other modules is in it, functions of the host's are not. Texts of source files aren't in it:
/// traps still tell places, but don't show lines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_module_to_bytes(
    module: *const dualvm_module,
    bytes: *mut *mut dualvm_bytes,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let bytes = OutHandle::new(bytes, "bytes")?;
            let encoded = share::<Program>(module)?.module.to_linked_binary();
            bytes.write(Bytes::new(encoded.map_err(|error| Report::of(&error, None))?))
        })
    }
}

/// What is probably not what was meant in the program, though it was compiled: for people, with the lines. Empty if
/// there is nothing, for null and for what is no module. Lives as long as the module.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_module_warnings(module: *const dualvm_module) -> *const c_char {
    lent(module, |program| Some(&program.warnings))
}

/// How many functions can be called. 0 for null and for what is no module.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_module_function_count(module: *const dualvm_module) -> usize {
    get(0, || Some(share::<Program>(module).ok()?.names.len()))
}

/// The name of a function, by its number from 0, in the order of the program. Empty if there are not so many. Lives as
/// long as the module.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_module_function_name(module: *const dualvm_module, n: usize) -> *const c_char {
    lent(module, |program| program.names.get(n))
}

/// A function with the types of its parameters and of its result, as the program writes them:
/// "area : (r : Real) -> Real". Empty if there are not so many. Lives as long as the module.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_module_signature(module: *const dualvm_module, n: usize) -> *const c_char {
    lent(module, |program| program.signatures.get(n))
}

fn lent(
    module: *const dualvm_module,
    text: impl FnOnce(&'static Program) -> Option<&'static CString>,
) -> *const c_char {
    get(c"".as_ptr(), || {
        let program = share::<Program>(module).ok()?;
        // SAFETY: the text is C's until the module is freed, and says so.
        Some(text(unsafe { program.lend() })?.as_ptr())
    })
}

/// A function of the module, by its name.
///
/// Errors: `NOT_FOUND`, with names that it may have been meant to be, or why it can't be called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_module_function(
    module: *const dualvm_module,
    name: *const c_char,
    function: *mut *mut dualvm_function,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let (out, name) = (OutHandle::new(function, "function")?, crate::memory::name(name, "name")?);
            let program = share::<Program>(module)?;
            let function = program.module.function(name).map_err(|error| Report::of(&error, None))?;
            out.write(Callable::new(program.module.clone(), function))
        })
    }
}

/// A function of the module, by its number from 0, in the order of the program.
///
/// Errors: `NOT_FOUND` if there are not so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_module_function_at(
    module: *const dualvm_module,
    n: usize,
    function: *mut *mut dualvm_function,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let out = OutHandle::new(function, "function")?;
            let program = share::<Program>(module)?;
            let Some(function) = program.module.functions().nth(n) else {
                let message = format!("there is no function {n}: the module has {}", program.names.len());
                return Err(Report::new(dualvm_status::NotFound, message));
            };
            out.write(Callable::new(program.module.clone(), function))
        })
    }
}
