//! What native code calls: the slow paths, and every scalar instruction as a function.
//!
//! All are `extern "C"`. A *status* is 0, or 1 if the run has to stop: then the cause stands in the context, and the
//! caller adds its place to the backtrace with [`unwind`] and returns 1. None of these functions unwinds.

use crate::bytecode::isa::{Bank, Op, for_each_instruction};
use crate::code::Site;
use crate::math;
use crate::memory::heap::{self, FIRST, LEN, OWNER, Ref};
use crate::memory::stack::stack_pointer;
use crate::native::Code;
use crate::running::interp::{Interp, Registers, element_word, import_arrays, load_word, roots, unpack_captures};
use crate::trap::{Limit, TrapKind};

const OK: u64 = 0;
const STOP: u64 = 1;

/// Names and addresses of all helpers but the scalar instructions.
pub fn helpers() -> Vec<(&'static str, *const u8)> {
    macro_rules! list {
        ($($name:ident),* $(,)?) => { vec![$((concat!("dualvm_", stringify!($name)), $name as *const u8)),*] };
    }
    list![
        interpret,
        refill,
        unwind,
        grow,
        allocate,
        unpack,
        import,
        import_element,
        import_loop,
        fork,
        parallel_map,
        open_chunk,
        next_strip,
        reserve_slots,
        pushed,
        pack,
        build,
        finish,
        trap_depth,
        trap_index,
        trap_tag,
        trap_full,
        trap_finished,
        trap_message,
    ]
}

/// Notes why the run stops.
#[cold]
fn stop(interp: &mut Interp, kind: TrapKind) -> u64 {
    interp.trap = Some(kind);
    STOP
}

fn status<E: Into<TrapKind>>(interp: &mut Interp, result: Result<(), E>) -> u64 {
    match result {
        Ok(()) => OK,
        Err(kind) => stop(interp, kind.into()),
    }
}

/// Runs the function [`crate::native::layout::CALLEE`], for which there is no code yet. Returns a status, or the
/// address of code that does the rest: the caller is to jump there, with the same parameters.
///
/// # Safety
/// As for a function's native code.
pub unsafe extern "C" fn interpret(
    context: *mut u8,
    reals: *mut f64,
    words: *mut u64,
    ints: *mut i64,
    refs: *mut Ref,
    remaining: usize,
) -> u64 {
    // SAFETY: the context is the state of the run, and native code doesn't touch it while this function runs.
    unsafe {
        let interp = &mut *context.cast::<Interp>();
        let base = Registers { reals, words, ints, refs };
        let sp = stack_pointer();
        if sp < interp.native_limit
            && let Err(limit) = interp.grow_native(sp)
        {
            return stop(interp, limit.into());
        }
        let program = &*interp.program;
        let account = interp.account();
        let tier = program.tier.as_ref();
        let code = tier.and_then(|tier| tier.called(program, interp.callee, interp.recording, account));
        if let Some(code) = code {
            return code.address();
        }
        match interp.activate(interp.callee, base, remaining) {
            Ok(rest) => rest.map_or(OK, Code::address),
            Err(kind) => stop(interp, kind),
        }
    }
}

/// A new slice of fuel. Returns a status.
///
/// # Safety
/// `context` is that of the run.
pub unsafe extern "C" fn refill(context: *mut u8) -> u64 {
    // SAFETY: as in `interpret`.
    unsafe {
        let interp = &mut *context.cast::<Interp>();
        match interp.refill(interp.fuel) {
            Ok(slice) => {
                interp.fuel = slice;
                OK
            }
            Err(kind) => stop(interp, kind),
        }
    }
}

/// Adds a frame to the backtrace: function and stream position.
///
/// # Safety
/// As [`refill`].
pub unsafe extern "C" fn unwind(context: *mut u8, func: u32, position: u32) {
    // SAFETY: as in `interpret`.
    unsafe { (*context.cast::<Interp>()).trace.push((func, position)) }
}

/// Makes room for references up to `refs_end` and for native frames down to `address`. Returns a status.
///
/// # Safety
/// As [`refill`].
pub unsafe extern "C" fn grow(context: *mut u8, refs_end: *mut Ref, address: usize) -> u64 {
    // SAFETY: as in `interpret`.
    let interp = unsafe { &mut *context.cast::<Interp>() };
    let end = Registers {
        reals: std::ptr::null_mut(),
        words: std::ptr::null_mut(),
        ints: std::ptr::null_mut(),
        refs: refs_end,
    };
    let grown = interp.grow(&end).and_then(|()| interp.grow_native(address));
    status(interp, grown)
}

/// Makes an object; references up to `refs_end` are roots. Returns null if the run has to stop.
///
/// # Safety
/// As [`refill`]; the roots are initialised.
pub unsafe extern "C" fn allocate(context: *mut u8, header: u64, words: usize, refs_end: *mut Ref) -> Ref {
    // SAFETY: as in `interpret`.
    unsafe {
        let interp = &mut *context.cast::<Interp>();
        let roots = roots(interp.roots, refs_end);
        match interp.heap.allocate(header, words, interp.stack_bytes, roots) {
            Ok(object) => object,
            Err(limit) => {
                stop(interp, limit.into());
                std::ptr::null_mut()
            }
        }
    }
}

/// Copies a closure's captures to the given registers. Returns a status.
///
/// # Safety
/// There is room for them.
pub unsafe extern "C" fn unpack(
    context: *mut u8,
    closure: Ref,
    reals: *mut f64,
    words: *mut u64,
    ints: *mut i64,
    refs: *mut Ref,
) -> u64 {
    // SAFETY: promised by the caller.
    unsafe {
        let to = Registers { reals, words, ints, refs };
        let interp = &mut *context.cast::<Interp>();
        let unpacked = if interp.recording {
            unpack_captures::<true>(closure, to, &mut interp.tape)
        } else {
            unpack_captures::<false>(closure, to, &mut interp.tape)
        };
        status(interp, unpacked.map(|_| ()))
    }
}

/// The word in the running task of a real that an object of another task holds with this word. Returns it, or
/// [`NO_WORD`] if the run has to stop.
///
/// # Safety
/// As [`refill`]; `object` is a complete object.
pub unsafe extern "C" fn import(context: *mut u8, object: Ref, word: u64) -> u64 {
    // SAFETY: as in `interpret`.
    unsafe {
        let interp = &mut *context.cast::<Interp>();
        let word = load_word(&mut interp.tape, object, word);
        word_or_stop(interp, word)
    }
}

/// The word in the running task of an element of an array of another task. Returns as [`import`].
///
/// # Safety
/// As [`refill`]; `array` is a complete array of reals and has the element.
pub unsafe extern "C" fn import_element(context: *mut u8, array: Ref, index: u64) -> u64 {
    // SAFETY: as in `interpret`.
    unsafe {
        let interp = &mut *context.cast::<Interp>();
        let word = element_word(&mut interp.tape, array, index);
        word_or_stop(interp, word)
    }
}

/// What stands for no word.
pub const NO_WORD: u64 = u64::MAX;

fn word_or_stop(interp: &mut Interp, word: Result<u64, Limit>) -> u64 {
    word.unwrap_or_else(|limit| {
        stop(interp, limit.into());
        NO_WORD
    })
}

/// Imports what a recorded loop, the one of this number in the function, has read of other tasks' arrays. Its record is
/// complete and was the last to be written, with the arrays' own slots. Returns a status.
///
/// # Safety
/// As [`refill`]; `refs` is the function's frame.
pub unsafe extern "C" fn import_loop(context: *mut u8, refs: *const Ref, func: u32, number: u32) -> u64 {
    // SAFETY: as in `interpret`.
    unsafe {
        let interp = &mut *context.cast::<Interp>();
        let program = &*interp.program;
        let site = &program.stream(func, true).loops[Site::new(number)];
        let imported = import_arrays(program, site, &mut interp.tape, refs);
        status(interp, imported)
    }
}

/// Runs the fork of this number in the function. The arguments of its tasks stand at the given places, side by side;
/// the results will stand behind them. Returns a status.
///
/// # Safety
/// As for a function's native code; there is nothing above the arguments that is still in use.
pub unsafe extern "C" fn fork(
    context: *mut u8,
    reals: *mut f64,
    words: *mut u64,
    ints: *mut i64,
    refs: *mut Ref,
    remaining: usize,
    func: u32,
    number: u32,
) -> u64 {
    // SAFETY: as in `interpret`.
    unsafe {
        let interp = &mut *context.cast::<Interp>();
        let site = &(*interp.program).stream(func, interp.recording).forks[Site::new(number)];
        let outcome = interp.fork(site, Registers { reals, words, ints, refs }, remaining);
        status(interp, outcome)
    }
}

/// Runs the parallel map of this number in the function over the numbers below `count`. The arguments that all tasks
/// get stand at the given places; references below them are roots. Returns null if the run has to stop.
///
/// # Safety
/// As [`fork`].
pub unsafe extern "C" fn parallel_map(
    context: *mut u8,
    reals: *mut f64,
    words: *mut u64,
    ints: *mut i64,
    refs: *mut Ref,
    remaining: usize,
    func: u32,
    number: u32,
    count: i64,
) -> Ref {
    // SAFETY: as in `interpret`.
    unsafe {
        let interp = &mut *context.cast::<Interp>();
        let site = &(*interp.program).stream(func, interp.recording).maps[Site::new(number)];
        match interp.parallel_map(site, count, Registers { reals, words, ints, refs }, remaining) {
            Ok(array) => array,
            Err(kind) => {
                stop(interp, kind);
                std::ptr::null_mut()
            }
        }
    }
}

/// Begins a new slab of tape. Returns a status.
///
/// # Safety
/// As [`refill`].
pub unsafe extern "C" fn open_chunk(context: *mut u8) -> u64 {
    // SAFETY: as in `interpret`.
    let interp = unsafe { &mut *context.cast::<Interp>() };
    let opened = interp.tape.open_chunk();
    status(interp, opened)
}

/// Ends a strip of the open loop, and begins a new slab of tape. Returns a status.
///
/// # Safety
/// As [`refill`]; the tape's top and the number of entries stand in the context.
pub unsafe extern "C" fn next_strip(context: *mut u8) -> u64 {
    // SAFETY: as in `interpret`.
    let interp = unsafe { &mut *context.cast::<Interp>() };
    let opened = interp.tape.next_strip();
    status(interp, opened)
}

/// Gives out consecutive slots. Returns the first; 0 if the run has to stop.
///
/// # Safety
/// As [`refill`].
pub unsafe extern "C" fn reserve_slots(context: *mut u8, count: u64) -> u64 {
    // SAFETY: as in `interpret`.
    let interp = unsafe { &mut *context.cast::<Interp>() };
    match interp.tape.reserve_slots(count) {
        Ok(first) => u64::from(first),
        Err(limit) => {
            stop(interp, limit.into());
            0
        }
    }
}

/// Gives the last `count` elements of a builder consecutive slots from `first` on; 0: they are constants.
///
/// # Safety
/// As [`refill`]; the builder has so many elements and keeps their words.
pub unsafe extern "C" fn pushed(_context: *mut u8, builder: Ref, first: u64, count: u64) {
    // SAFETY: promised by the caller.
    unsafe { crate::running::interp::give_pushed_words(builder, first, count as usize) }
}

/// Gives the elements of a new array of reals their slots. Returns a status.
///
/// # Safety
/// As [`refill`]; `words` are the elements' words.
pub unsafe extern "C" fn pack(context: *mut u8, array: Ref, words: *const u64) -> u64 {
    // SAFETY: as in `interpret`; the array knows its length.
    unsafe {
        let interp = &mut *context.cast::<Interp>();
        let words = std::slice::from_raw_parts(words, *array.add(LEN) as usize);
        match interp.tape.pack(words) {
            Ok(first) => {
                *array.add(FIRST) = u64::from(first);
                *array.add(OWNER) = if first == 0 { 0 } else { interp.tape.owner };
                OK
            }
            Err(limit) => stop(interp, limit.into()),
        }
    }
}

/// Makes a builder for elements of bank 0, 1 or 2. Returns null if the run has to stop.
///
/// # Safety
/// As [`allocate`].
pub unsafe extern "C" fn build(context: *mut u8, capacity: i64, element: u64, refs_end: *mut Ref) -> Ref {
    // SAFETY: as in `interpret`.
    unsafe {
        let interp = &mut *context.cast::<Interp>();
        let roots = roots(interp.roots, refs_end);
        let element = [Bank::Real, Bank::Int, Bank::Ref][element as usize];
        match heap::build(&mut interp.heap, capacity, element, interp.recording, interp.stack_bytes, roots) {
            Ok(builder) => builder,
            Err(kind) => {
                stop(interp, kind);
                std::ptr::null_mut()
            }
        }
    }
}

/// Turns a builder into an array. Returns a status.
///
/// # Safety
/// As [`refill`]; `builder` is or was a builder.
pub unsafe extern "C" fn finish(context: *mut u8, builder: Ref) -> u64 {
    // SAFETY: as in `interpret`.
    unsafe {
        let interp = &mut *context.cast::<Interp>();
        let finished = heap::finish(builder, &mut interp.tape);
        status(interp, finished)
    }
}

/// # Safety
/// As [`refill`].
unsafe extern "C" fn trap_depth(context: *mut u8) {
    // SAFETY: as in `interpret`.
    stop(unsafe { &mut *context.cast() }, TrapKind::Limit(Limit::Depth));
}

/// # Safety
/// As [`refill`].
unsafe extern "C" fn trap_index(context: *mut u8, index: i64, len: u64) {
    // SAFETY: as in `interpret`.
    stop(unsafe { &mut *context.cast() }, TrapKind::IndexOutOfBounds { index, len });
}

/// # Safety
/// As [`refill`].
unsafe extern "C" fn trap_tag(context: *mut u8, expected: u64, found: u64) {
    let (expected, found) = (expected as u16, found as u16);
    // SAFETY: as in `interpret`.
    stop(unsafe { &mut *context.cast() }, TrapKind::WrongTag { expected, found });
}

/// # Safety
/// As [`refill`].
unsafe extern "C" fn trap_full(context: *mut u8, capacity: u64) {
    // SAFETY: as in `interpret`.
    stop(unsafe { &mut *context.cast() }, TrapKind::BuilderFull { capacity });
}

/// # Safety
/// As [`refill`].
unsafe extern "C" fn trap_finished(context: *mut u8) {
    // SAFETY: as in `interpret`.
    stop(unsafe { &mut *context.cast() }, TrapKind::BuilderFinished);
}

/// # Safety
/// As [`refill`].
unsafe extern "C" fn trap_message(context: *mut u8, number: u64) {
    // SAFETY: as in `interpret`.
    unsafe {
        let interp: &mut Interp = &mut *context.cast();
        let message = (*interp.program).message(number as u32).to_owned();
        stop(interp, TrapKind::Message(message));
    }
}

/// A scalar instruction as an `extern "C"` function.
#[derive(Clone, Copy, Debug)]
pub struct ScalarFn {
    /// The function: operands to result; for one that [may trap](ScalarFn::traps), the context and a place for the
    /// result come first, and it returns a status.
    pub address: *const u8,
    /// Whether it may trap.
    pub traps: bool,
    /// The operands' banks.
    pub operands: &'static [Bank],
    /// The result's bank.
    pub result: Bank,
}

macro_rules! scalar_type {
    (real) => {
        f64
    };
    (int) => {
        i64
    };
}
macro_rules! scalar_bank {
    (real) => {
        Bank::Real
    };
    (int) => {
        Bank::Int
    };
}
macro_rules! scalar_function {
    (() ($($arg:ident : $bank:ident),+) -> $result:ident $body:block) => {{
        extern "C" fn scalar($($arg: scalar_type!($bank)),+) -> scalar_type!($result) $body
        ScalarFn {
            address: scalar as *const u8,
            traps: false,
            operands: &[$(scalar_bank!($bank)),+],
            result: scalar_bank!($result),
        }
    }};
    ((try) ($($arg:ident : $bank:ident),+) -> $result:ident $body:block) => {{
        unsafe extern "C" fn scalar(
            context: *mut u8,
            result: *mut scalar_type!($result),
            $($arg: scalar_type!($bank)),+
        ) -> u64 {
            let value: Result<scalar_type!($result), TrapKind> = $body;
            // SAFETY: as in `interpret`; `result` is a place of the caller.
            unsafe {
                match value {
                    Ok(value) => {
                        *result = value;
                        OK
                    }
                    Err(kind) => stop(&mut *context.cast(), kind),
                }
            }
        }
        ScalarFn {
            address: scalar as *const u8,
            traps: true,
            operands: &[$(scalar_bank!($bank)),+],
            result: scalar_bank!($result),
        }
    }};
}
macro_rules! define_scalar_functions {
    (
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            $args:tt -> $rbank:ident $($try:ident)? $body:block
            $(diff |$r:ident| [$($partial:expr),+])? $(passive)? $(@ $costly:ident)? ; )* }
        structural $structural:tt
    ) => {
        /// The function of a scalar instruction, with the interpreter's meaning. `None` for other instructions.
        pub fn scalar(op: Op) -> Option<ScalarFn> {
            Some(match op {
                $( Op::$sname => scalar_function!(($($try)?) $args -> $rbank $body), )*
                _ => return None,
            })
        }
    };
}
for_each_instruction!(define_scalar_functions);
