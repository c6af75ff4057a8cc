//! Functions of the host's that programs call.

use crate::engine::dualvm_config;
use crate::error::{Report, dualvm_error};
use crate::handles::handles;
use crate::memory::{OutHandle, slice, text};
use crate::status::{Failure, claim, dualvm_status, enter, free, share};
use crate::value::{Given, Lent, dualvm_value};
use dualvm::flat::LeafKind;
use dualvm::{Config, HostCall, HostError, HostFunction, TrapKind};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};

/// A function of yours that programs call, with its derivatives. One thread at a time may change it; engines that were
/// made with it keep it as it was then.
pub struct dualvm_host {
    _opaque: (),
}

handles! { HostFunction => dualvm_host, 0x41, "dualvm_host"; }

/// A call of a function of yours, while it runs.
pub struct dualvm_host_call {
    _opaque: (),
}

/// A function of yours. `data` is what was given with it. `args` are its arguments, `args_len` of them, which live
/// until it returns. It gives its results, in order, by `dualvm_host_call_give`, and returns 0; or anything else, and
/// then the program stops with what `dualvm_host_call_fail` has said. It is called by any thread, by several at a time,
/// and gives the same results for the same arguments. It may use the library, but neither `longjmp` nor throw out of
/// itself.
pub type dualvm_host_function = Option<
    unsafe extern "C" fn(
        data: *mut c_void,
        call: *mut dualvm_host_call,
        args: *const dualvm_value,
        args_len: usize,
    ) -> c_int,
>;

/// Frees what was given with a function: called once, by any thread, when nothing needs it any more.
pub type dualvm_host_drop = Option<unsafe extern "C" fn(data: *mut c_void)>;

/// What C has given with a function.
struct Data {
    data: *mut c_void,
    drop: dualvm_host_drop,
}

// SAFETY: the interface's promise: the function is called, and its data freed, by any thread.
unsafe impl Send for Data {}
// SAFETY: the same.
unsafe impl Sync for Data {}

impl Drop for Data {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: the interface's promise; it is called once.
            unsafe { drop(self.data) };
        }
    }
}

/// A call that runs: what it is given back by, and what it has said.
struct Open {
    /// Of the thread, so that no other one's is used; the pointer lives while this is in the list.
    call: *mut HostCall<'static>,
    said: Option<String>,
    /// Why the run ends, if it does.
    stop: Option<HostError>,
}

thread_local! {
    /// The calls that run on this thread, one inside of the other. A `dualvm_host_call` is the number of one, from 1.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

/// The innermost call, which is the one that C has.
fn with_open<T>(
    call: *const dualvm_host_call,
    work: impl FnOnce(&mut Open) -> Result<T, Failure>,
) -> Result<T, Failure> {
    OPEN.with_borrow_mut(|open| {
        let innermost = open.len();
        match open.last_mut() {
            Some(last) if call.addr() == innermost => work(last),
            _ => Err(no_call()),
        }
    })
}

#[cold]
fn no_call() -> Failure {
    let message = "expected the dualvm_host_call that runs on this thread, found something else, or one that has ended";
    Report::new(dualvm_status::InvalidHandle, message)
}

/// Makes a function of the host's: what it takes and gives, as the leaves of its parameters and of its result, each a
/// `dualvm_leaf_kind`. A matrix or a tensor is two leaves, its shape and its elements; one function may serve tensors
/// of any number of dimensions. `drop` may be null; it is called for `data` in any case, also if this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_host_new(
    params: *const u32,
    params_len: usize,
    results: *const u32,
    results_len: usize,
    function: dualvm_host_function,
    data: *mut c_void,
    drop: dualvm_host_drop,
    host: *mut *mut dualvm_host,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let data = Data { data, drop };
    let make = || {
        // SAFETY: the interface's promise.
        let host = unsafe { OutHandle::new(host, "host") }?;
        let Some(function) = function else { return Err(Report::invalid("`function` is null")) };
        // SAFETY: the interface's promise.
        let (params, results) =
            unsafe { (slice(params, params_len, "params")?, slice(results, results_len, "results")?) };
        let (params, results) = (kinds(params, "params")?, kinds(results, "results")?);
        let data = data;
        let called = HostFunction::flat(&params, &results, move |call| {
            let data: &Data = &data;
            run(call, |number, args| {
                // SAFETY: the interface's promise.
                unsafe { function(data.data, std::ptr::without_provenance_mut(number), args.as_ptr(), args.len()) }
            })
        });
        host.write(called)
    };
    // SAFETY: the interface's promise.
    unsafe { enter(error, make) }
}

fn kinds(given: &[u32], name: &str) -> Result<Vec<LeafKind>, Failure> {
    let kind = |(n, &kind): (usize, &u32)| {
        Ok(match kind {
            1 => LeafKind::Real,
            2 => LeafKind::Int,
            3 => LeafKind::Bool,
            4 => LeafKind::Reals,
            5 => LeafKind::Ints,
            6 => LeafKind::Bools,
            7 => LeafKind::Shape,
            other => {
                let message = format!("`{name}[{n}]`: {other} is no dualvm_leaf_kind");
                return Err(Report::invalid(message));
            }
        })
    };
    given.iter().enumerate().map(kind).collect()
}

/// Runs C's code for a call.
fn run(call: &mut HostCall<'_>, code: impl FnOnce(usize, &[dualvm_value]) -> c_int) -> Result<(), HostError> {
    let args: Vec<dualvm_value> = call.args().iter().map(|&arg| dualvm_value::new(arg)).collect();
    let call: *mut HostCall<'_> = call;
    let number = OPEN.with_borrow_mut(|open| {
        open.push(Open { call: call.cast(), said: None, stop: None });
        open.len()
    });
    let returned = code(number, &args);
    let Open { said, stop, .. } = OPEN.with_borrow_mut(|open| {
        // What C has begun inside has ended: it has returned.
        open.truncate(number);
        open.pop().expect("it was pushed")
    });
    match (returned, stop, said) {
        (0, None, _) => Ok(()),
        (_, Some(stop), _) => Err(stop),
        (_, None, Some(said)) => Err(HostError::new(said)),
        (code, None, None) => Err(HostError::new(format_args!("it returned {code}"))),
    }
}

/// Frees a function of the host's. Null is fine. Engines that know it keep it.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_host_free(host: *mut dualvm_host) {
    free::<HostFunction>(host);
}

/// Gives a function its vjp, another such function, which may have derivatives of its own: it takes what the function
/// takes, then a cotangent for each result that is of reals, and gives one for each parameter that is. That of a tensor
/// is a tensor, its shape and its elements, and has to be of the same shape. It is linear in them. A function that has
/// one of vjp and jvp has both: the other one is made of it, with a call for each real that comes out. The vjp is
/// copied as it is now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_host_set_vjp(
    host: *mut dualvm_host,
    vjp: *const dualvm_host,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let set = |host: HostFunction, vjp| host.with_vjp(vjp);
    // SAFETY: the interface's promise.
    unsafe { enter(error, || change(host, vjp, set)) }
}

/// Gives a function its jvp: it takes what the function takes, then a tangent for each parameter that is of reals, and
/// gives one for each result that is; of a tensor, a tensor. All else is as for `dualvm_host_set_vjp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_host_set_jvp(
    host: *mut dualvm_host,
    jvp: *const dualvm_host,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let set = |host: HostFunction, jvp| host.with_jvp(jvp);
    // SAFETY: the interface's promise.
    unsafe { enter(error, || change(host, jvp, set)) }
}

fn change(
    host: *mut dualvm_host,
    derivative: *const dualvm_host,
    set: impl FnOnce(HostFunction, HostFunction) -> Result<HostFunction, dualvm::vm::host::NotDerivative>,
) -> Result<(), Failure> {
    let derivative = share::<HostFunction>(derivative)?.clone();
    let mut host = claim::<HostFunction>(host)?;
    *host = set(host.clone(), derivative).map_err(|error| Report::invalid(error.to_string()))?;
    Ok(())
}

/// Gives programs of engines with this configuration a function of the host's: what `import host "name" : type` means
/// in a program. `len`: bytes of the name, or `DUALVM_NUL_TERMINATED`. It takes the place of what had the name before.
/// The function is copied as it is now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_config_define(
    config: *mut dualvm_config,
    name: *const c_char,
    len: usize,
    host: *const dualvm_host,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let define = || {
        // SAFETY: the interface's promise.
        let name = unsafe { text(name, len, "name") }?;
        let function = share::<HostFunction>(host)?.clone();
        claim::<Config>(config)?.linker.define(name, function);
        Ok(())
    };
    // SAFETY: the interface's promise.
    unsafe { enter(error, define) }
}

/// Gives the next result of a call: of a tensor its shape, as integers, and then its elements, row by row. What it
/// points to is copied. Errors are mistakes of the function: a result that is not of its kind, one too many, a tensor
/// with another number of elements than its shape says, or a derivative of another shape than what it belongs to; or
/// the limit of the run's memory. After one, return something else than 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_host_call_give(
    call: *mut dualvm_host_call,
    value: *const dualvm_value,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let give = || {
        with_open(call, |open| {
            // SAFETY: the interface's promise, and calls are in the list as long as they are there.
            let (given, call) = unsafe { (Given::new(value, 1, 1, "value", &Lent::default())?, &mut *open.call) };
            call.give(given.values[0]).map_err(|error| stopped(open, error))
        })
    };
    // SAFETY: the interface's promise.
    unsafe { enter(error, give) }
}

/// Whether the run may go on: for functions that take more than a few milliseconds. If not, return something else than
/// 0, and the run ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_host_call_check(
    call: *mut dualvm_host_call,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let check = || {
        with_open(call, |open| {
            // SAFETY: calls are in the list as long as they are there.
            unsafe { &*open.call }.check().map_err(|error| stopped(open, error))
        })
    };
    // SAFETY: the interface's promise.
    unsafe { enter(error, check) }
}

/// Keeps what has gone wrong for when C returns, and tells C.
fn stopped(open: &mut Open, error: HostError) -> Failure {
    let status = match error.stop_kind() {
        Some(TrapKind::Cancelled) => dualvm_status::Cancelled,
        Some(TrapKind::Limit(_)) => dualvm_status::Limit,
        _ => dualvm_status::Argument,
    };
    let message = error.to_string();
    open.stop = Some(error);
    Report::new(status, message)
}

/// Says why a call gives no results: the text of the trap. `len`: its bytes, or `DUALVM_NUL_TERMINATED`. Return
/// something else than 0 after that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_host_call_fail(
    call: *mut dualvm_host_call,
    message: *const c_char,
    len: usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let fail = || {
        with_open(call, |open| {
            // SAFETY: the interface's promise.
            open.said = Some(unsafe { text(message, len, "message") }?.to_owned());
            Ok(())
        })
    };
    // SAFETY: the interface's promise.
    unsafe { enter(error, fail) }
}
