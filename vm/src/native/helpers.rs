//! What native code calls: the slow paths. One table says which function that is, what it takes and gives, and what it
//! is called among symbols.
//!
//! All are `extern "C"`. A *status* is 0, or 1 if the run has to stop: then the cause stands in the context, and the
//! caller adds its place to the backtrace with [`Helper::Unwind`] and returns 1. None of these functions unwinds.
//!
//! What makes it sound to call them is one rule, which the comments below name:
//!
//! **Context**: `context` is a `Worker` with the run's program, that native code was entered
//! with, on this thread. Neither that code nor anybody else touches the state until the helper returns, so the one
//! reference that a helper makes to it is the only one.

mod deep;
mod texts;

use crate::bytecode::isa::Bank;
use crate::bytecode::module::FuncId;
use crate::code::{Mode, Position, Site, run_straight};
use crate::memory::heap::{self, LEN, Ref, Roots};
use crate::memory::stack::stack_pointer;
use crate::native::Code;
use crate::running::recording::{self, element_word, load_word};
use crate::running::recording_loops::{give_pushed_words, import_arrays};
use crate::running::recording_regions::{self, array_base, complete_region};
use crate::running::registers::{Registers, roots, unpack_captures};
use crate::running::structures::other_shape;
use crate::running::trace::Place;
use crate::running::worker::Worker;
use crate::trap::{Limit, TrapKind};
use crate::word::{Owner, Slot, Word};
use deep::{chain_push_deep, component_word_of, new_deep, pack_deep};
use texts::{trace, trap_with};

pub(super) const OK: u64 = 0;
const STOP: u64 = 1;

/// The type of a parameter or a result in native code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MachineType {
    /// An integer of 32 bits.
    I32,
    /// An integer of 64 bits, or an address.
    I64,
}

/// What native code may hand over.
trait Native {
    const TYPE: MachineType;
}
macro_rules! narrow {
    ($($ty:ty),*) => {
        $(impl Native for $ty {
            const TYPE: MachineType = MachineType::I32;
        })*
    };
}
narrow!(u32, FuncId, Position);
macro_rules! wide {
    ($($ty:ty),*) => {
        $(impl Native for $ty {
            const TYPE: MachineType = MachineType::I64;
        })*
    };
}
wide!(u64, i64, usize, Context, *mut f64, *mut i64, Ref, *mut Ref, *const Ref, *mut Word, *const Word, *const u64);

/// The context that native code gets.
type Context = *mut u8;

/// A helper as native code sees it.
#[derive(Clone, Copy, Debug)]
pub struct HelperInfo {
    /// Its name among symbols.
    pub symbol: &'static str,
    /// Where it is: an `extern "C"` function.
    pub address: *const u8,
    /// What it takes.
    pub params: &'static [MachineType],
    /// What it returns, if anything.
    pub result: Option<MachineType>,
    /// Whether it is called rarely, in the middle of code that runs often. It should then be called in a way that
    /// preserves all registers, so that the rest doesn't pay for it.
    pub rare: bool,
}

/// Declares the helpers: a name for native code, the function below, what it takes and gives, and whether it is rare.
macro_rules! helpers {
    ($(
        $(#[doc = $doc:literal])+ $name:ident = $function:ident($($param:ident : $ty:ty),*)
            $(-> $result:ty)? $(, $rare:ident)?;
    )*) => {
        /// What native code calls, but for scalar instructions.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Helper {
            $($(#[doc = $doc])+ #[doc = ""] #[doc = concat!("Takes: ", $(stringify!($param), ", "),*)] $name,)*
        }

        impl Helper {
            /// All helpers.
            pub const ALL: &'static [Helper] = &[$(Helper::$name,)*];

            /// How to call it.
            pub fn info(self) -> HelperInfo {
                match self {
                    $(Helper::$name => {
                        // The function has this signature, or it doesn't compile.
                        let function: unsafe extern "C" fn($($ty),*) $(-> $result)? = $function;
                        HelperInfo {
                            symbol: concat!("dualvm_", stringify!($function)),
                            address: function as *const u8,
                            params: const { &[$(<$ty as Native>::TYPE),*] },
                            result: None $(.or(Some(<$result as Native>::TYPE)))?,
                            rare: false $(|| stringify!($rare) == "rare")?,
                        }
                    })*
                }
            }
        }
    };
}
helpers! {
    /// Interprets the function [`crate::native::layout::CALLEE`]: a status, or where to go on.
    Interpret = interpret(context: Context, reals: *mut f64, words: *mut Word, ints: *mut i64, refs: *mut Ref,
        remaining: usize) -> u64;
    /// Gets a new slice of fuel: a status.
    Refill = refill(context: Context) -> u64, rare;
    /// Adds a frame to the backtrace.
    Unwind = unwind(context: Context, func: FuncId, position: Position);
    /// Makes room for references and native frames: a status.
    Grow = grow(context: Context, refs_end: *mut Ref, address: usize) -> u64;
    /// Makes an object: null if the run has to stop.
    Allocate = allocate(context: Context, header: u64, words: usize, refs_end: *mut Ref) -> Ref, rare;
    /// Copies a closure's captures to registers: a status.
    Unpack = unpack(context: Context, closure: Ref, reals: *mut f64, words: *mut Word, ints: *mut i64, refs: *mut Ref)
        -> u64;
    /// The word here of a real of another task, whose word stands in an object at an index: [`NO_WORD`] if the run has
    /// to stop.
    Import = import(context: Context, object: Ref, at: u64) -> u64, rare;
    /// The same of an element of an array.
    ImportElement = import_element(context: Context, array: Ref, index: u64) -> u64, rare;
    /// Imports what a recorded loop has read: a status.
    ImportLoop = import_loop(context: Context, refs: *const Ref, func: FuncId, number: u32) -> u64, rare;
    /// Runs a fork: a status.
    Fork = fork(context: Context, reals: *mut f64, words: *mut Word, ints: *mut i64, refs: *mut Ref, remaining: usize,
        func: FuncId, number: u32) -> u64;
    /// Runs a parallel map: null if the run has to stop.
    ParallelMap = parallel_map(context: Context, reals: *mut f64, words: *mut Word, ints: *mut i64, refs: *mut Ref,
        remaining: usize, func: FuncId, number: u32, count: i64) -> Ref;
    /// Takes the derivative of a call: a status.
    Operate = operate(context: Context, reals: *mut f64, words: *mut Word, ints: *mut i64, refs: *mut Ref,
        remaining: usize, func: FuncId, number: u32) -> u64;
    /// The object in a reference register as a constant: null if the run has to stop.
    Detach = detach(context: Context, object: Ref, reals: *mut f64, words: *mut Word, ints: *mut i64, refs: *mut Ref)
        -> Ref;
    /// Begins a new slab of tape: a status.
    OpenChunk = open_chunk(context: Context) -> u64, rare;
    /// Ends a strip of the open loop and begins a new slab of tape: a status.
    NextStrip = next_strip(context: Context) -> u64, rare;
    /// Goes on with the trail of the open region in a new slab of tape: a status.
    NextTrail = next_trail(context: Context) -> u64, rare;
    /// What an array of another task is called in the trail of the open region; `i64::MIN` if the run has to stop.
    ForeignBase = foreign_base(context: Context, array: Ref) -> i64, rare;
    /// Makes room for references that records keep: a status.
    KeepRoom = keep_room(context: Context) -> u64, rare;
    /// Completes the record of a region and gives outputs and what was pushed their words: a status.
    EndRegion = end_region(context: Context, words: *mut Word, refs: *const Ref, len_before: i64, func: FuncId,
        number: u32) -> u64, rare;
    /// Gives out consecutive slots: the first one, or 0 if the run has to stop.
    ReserveSlots = reserve_slots(context: Context, count: u64) -> u64;
    /// Gives what was pushed consecutive slots.
    Pushed = pushed(context: Context, builder: Ref, first: u64, count: u64);
    /// Gives the elements of a new array their slots: a status.
    Pack = pack(context: Context, array: Ref, words: *const Word) -> u64;
    /// Makes a builder: null if the run has to stop.
    Build = build(context: Context, capacity: i64, element: u64, words: u64, depth: u64, refs_end: *mut Ref) -> Ref;
    /// Makes a struct, a variant or a closure at a depth: null if the run has to stop.
    NewDeep = new_deep(context: Context, header: u64, reals: *mut f64, words: *mut Word, ints: *mut i64, refs: *mut Ref)
        -> Ref;
    /// Makes an array at a depth: null if the run has to stop.
    PackDeep = pack_deep(context: Context, element: u64, len: usize, reals: *mut f64, words: *mut Word, ints: *mut i64,
        refs: *mut Ref) -> Ref;
    /// Appends a cell to a chain at a depth, whose reference stands behind those of the fields. The chain, or null if
    /// the run has to stop.
    ChainPushDeep = chain_push_deep(context: Context, header: u64, reals: *mut f64, words: *mut Word, ints: *mut i64,
        refs: *mut Ref) -> Ref;
    /// The word here of a component of an element: [`NO_WORD`] if the run has to stop.
    ComponentWord = component_word_of(context: Context, array: Ref, part: u64, index: u64) -> u64, rare;
    /// Turns a builder that the open region has begun into an array: its first slot, or -1 if the run has to stop.
    RegionFinish = region_finish(context: Context, builder: Ref, active: u64) -> i64, rare;
    /// The slot of a real field whose word stands at this place of an object, as the trail of the open region tells it;
    /// `i64::MIN` if the run has to stop.
    FieldSlot = field_slot(context: Context, object: Ref, word: u64) -> i64, rare;
    /// Gives the elements of a builder consecutive slots, if they haven't: the first one, 0 if they are constants, or
    /// -1 if the run has to stop.
    BuilderPack = builder_pack(context: Context, builder: Ref) -> i64;
    /// Slots for the elements of a builder while the open region changes them: the first one, 0 if it gets no record,
    /// or -1 if the run has to stop.
    BuilderSlots = builder_slots(context: Context, builder: Ref) -> i64;
    /// A cell with a copy of an array in the trail of the open region, or with the array; `i64::MIN` if the run has to
    /// stop.
    ArrayCopy = array_copy(context: Context, array: Ref) -> i64, rare;
    /// Gives the cells of what a chain has become their owner, up to its tail.
    ChainSettle = chain_settle(context: Context, first: Ref, tail: Ref);
    /// Turns a builder into an array: a status.
    Finish = finish(context: Context, builder: Ref) -> u64;
    /// Appends a range of an array to a builder: a status.
    Extend = extend(context: Context, builder: Ref, array: Ref, from: i64, to: i64, words: u64) -> u64;
    /// The builder in a reference register with room for more elements, or what takes its place: null if the run has to
    /// stop.
    MakeRoom = make_room(context: Context, place: *const Ref, count: i64, refs_end: *mut Ref) -> Ref, rare;
    /// Computes instructions of a function, which are pure and don't trap: those among so many from a position on whose
    /// bits are set, from the lowest one on. Registers stand at these places. Returns a status that is always 0.
    Compute = compute(context: Context, reals: *mut f64, ints: *mut i64, func: FuncId, first: Position, count: u32,
        bits: *const u64) -> u64, rare;
    /// Notes that calls are nested too deeply.
    TrapDepth = trap_depth(context: Context);
    /// Notes that an index is out of bounds.
    TrapIndex = trap_index(context: Context, index: i64, len: u64), rare;
    /// Notes that an object has another shape than what it belongs to.
    TrapShape = trap_shape(context: Context, object: Ref, other: Ref), rare;
    /// Notes that an object has another tag.
    TrapTag = trap_tag(context: Context, expected: u64, found: u64), rare;
    /// Notes that a builder is full.
    TrapFull = trap_full(context: Context, capacity: u64), rare;
    /// Notes that a builder is finished.
    TrapFinished = trap_finished(context: Context);
    /// Notes the text of a trap.
    TrapWith = trap_with(context: Context, reals: *mut f64, words: *mut Word, ints: *mut i64, refs: *mut Ref,
        remaining: usize, func: FuncId, number: u32);
    /// Shows a text to the host, which listens: a status.
    Trace = trace(context: Context, reals: *mut f64, words: *mut Word, ints: *mut i64, refs: *mut Ref,
        remaining: usize, func: FuncId, number: u32, position: Position) -> u64;
    /// Notes the message of a trap, by its number.
    TrapMessage = trap_message(context: Context, number: u64);
}

/// Notes why the run stops.
#[cold]
pub(super) fn stop(worker: &mut Worker, kind: TrapKind) -> u64 {
    worker.exec.trap = Some(kind);
    STOP
}

fn status<E: Into<TrapKind>>(worker: &mut Worker, result: Result<(), E>) -> u64 {
    match result {
        Ok(()) => OK,
        Err(kind) => stop(worker, kind.into()),
    }
}

/// Runs the function [`crate::native::layout::CALLEE`], for which there is no code yet. Returns a status, or the
/// address of code that does the rest: the caller is to jump there, with the same parameters.
///
/// # Safety
/// **Context**; the rest is as for a function's native code ([`crate::native::FunctionCode`]).
unsafe extern "C" fn interpret(
    context: Context,
    reals: *mut f64,
    words: *mut Word,
    ints: *mut i64,
    refs: *mut Ref,
    remaining: usize,
) -> u64 {
    // SAFETY: **Context**; the base is that of the function's frame, as the caller promises.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let base = Registers { reals, words, ints, refs };
        let sp = stack_pointer();
        if sp < worker.stacks.native_limit
            && let Err(limit) = worker.grow_native(sp)
        {
            return stop(worker, limit.into());
        }
        let program = &*worker.exec.program;
        let account = worker.exec.account();
        let tier = program.tier.as_ref();
        let code = tier.and_then(|tier| tier.called(program, worker.exec.callee, worker.exec.mode, account));
        if let Some(code) = code {
            return code.address();
        }
        match worker.activate(worker.exec.callee, base, remaining) {
            Ok(rest) => rest.map_or(OK, Code::address),
            Err(kind) => stop(worker, kind),
        }
    }
}

/// A new slice of fuel. Returns a status.
///
/// # Safety
/// **Context**.
unsafe extern "C" fn refill(context: Context) -> u64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        match worker.refill(worker.exec.fuel) {
            Ok(slice) => {
                worker.exec.fuel = slice;
                OK
            }
            Err(kind) => stop(worker, kind),
        }
    }
}

/// Adds a frame to the backtrace: function and stream position.
///
/// # Safety
/// **Context**.
unsafe extern "C" fn unwind(context: Context, func: FuncId, position: Position) {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        worker.exec.trace.push(Place { func, mode: worker.exec.mode, position });
    }
}

/// Makes room for references up to `refs_end` and for native frames down to `address`. Returns a status.
///
/// # Safety
/// **Context**.
unsafe extern "C" fn grow(context: Context, refs_end: *mut Ref, address: usize) -> u64 {
    // SAFETY: **Context**.
    let worker = unsafe { &mut *context.cast::<Worker>() };
    let end = Registers {
        reals: std::ptr::null_mut(),
        words: std::ptr::null_mut(),
        ints: std::ptr::null_mut(),
        refs: refs_end,
    };
    let grown = worker.grow(&end).and_then(|()| worker.grow_native(address));
    status(worker, grown)
}

/// The object, or null after the cause is noted.
fn object_or_stop<E: Into<TrapKind>>(worker: &mut Worker, made: Result<Ref, E>) -> Ref {
    made.unwrap_or_else(|kind| {
        stop(worker, kind.into());
        std::ptr::null_mut()
    })
}

/// Makes an object; references up to `refs_end` are roots. Returns null if the run has to stop.
///
/// # Safety
/// **Context**; the roots are initialised.
unsafe extern "C" fn allocate(context: Context, header: u64, words: usize, refs_end: *mut Ref) -> Ref {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let roots = Roots { frames: roots(worker.exec.roots, refs_end), kept: Some(worker.exec.tape.kept()) };
        let made = worker.exec.heap.allocate(header, words, worker.stacks.bytes, roots);
        object_or_stop(worker, made)
    }
}

/// Copies a closure's captures to the given registers. Returns a status.
///
/// # Safety
/// **Context**; `closure` is a complete closure, and there is room for its captures.
unsafe extern "C" fn unpack(
    context: Context,
    closure: Ref,
    reals: *mut f64,
    words: *mut Word,
    ints: *mut i64,
    refs: *mut Ref,
) -> u64 {
    // SAFETY: **Context**; the rest is promised by the caller.
    unsafe {
        let to = Registers { reals, words, ints, refs };
        let worker = &mut *context.cast::<Worker>();
        let depth = worker.exec.mode.depth();
        let unpacked = if worker.exec.mode.is_recording() {
            unpack_captures::<true>(closure, depth, to, &mut worker.exec.tape)
        } else {
            unpack_captures::<false>(closure, depth, to, &mut worker.exec.tape)
        };
        status(worker, unpacked.map(|_| ()))
    }
}

/// The word in the running task of a real whose word stands in an object of another task at this index. Returns it, or
/// [`NO_WORD`] if the run has to stop.
///
/// # Safety
/// **Context**; `object` is a complete object.
unsafe extern "C" fn import(context: Context, object: Ref, at: u64) -> u64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let word = load_word(&mut worker.exec.tape, object, at as usize);
        word_or_stop(worker, word)
    }
}

/// The word in the running task of an element of an array of another task. Returns as [`import`].
///
/// # Safety
/// **Context**; `array` is a complete array of reals and has the element.
unsafe extern "C" fn import_element(context: Context, array: Ref, index: u64) -> u64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let word = element_word(&mut worker.exec.tape, array, index);
        word_or_stop(worker, word)
    }
}

/// What stands for no word.
pub const NO_WORD: u64 = u64::MAX;

fn word_or_stop(worker: &mut Worker, word: Result<Word, Limit>) -> u64 {
    word.map_or_else(
        |limit| {
            stop(worker, limit.into());
            NO_WORD
        },
        Word::bits,
    )
}

/// Imports what a recorded loop, the one of this number in the function, has read of other tasks' arrays. Its record is
/// complete and was the last to be written, with the arrays' own slots. Returns a status.
///
/// # Safety
/// **Context**; `refs` is the function's frame.
unsafe extern "C" fn import_loop(context: Context, refs: *const Ref, func: FuncId, number: u32) -> u64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let program = &*worker.exec.program;
        let site = &program.stream(func, Mode::RECORDING).loops[Site::new(number)];
        let imported = import_arrays(program, site, &mut worker.exec.tape, refs);
        status(worker, imported)
    }
}

/// Runs the fork of this number in the function. The arguments of its tasks stand at the given places, side by side;
/// the results will stand behind them. Returns a status.
///
/// # Safety
/// **Context**; the rest is as for a function's native code, and nothing above the arguments is still in use.
unsafe extern "C" fn fork(
    context: Context,
    reals: *mut f64,
    words: *mut Word,
    ints: *mut i64,
    refs: *mut Ref,
    remaining: usize,
    func: FuncId,
    number: u32,
) -> u64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let site = &(*worker.exec.program).stream(func, worker.exec.mode).forks[Site::new(number)];
        let outcome = worker.fork(site, Registers { reals, words, ints, refs }, remaining);
        status(worker, outcome)
    }
}

/// Runs the parallel map of this number in the function over the numbers below `count`. The arguments that all tasks
/// get stand at the given places; references below them are roots. Returns null if the run has to stop.
///
/// # Safety
/// As [`fork`].
unsafe extern "C" fn parallel_map(
    context: Context,
    reals: *mut f64,
    words: *mut Word,
    ints: *mut i64,
    refs: *mut Ref,
    remaining: usize,
    func: FuncId,
    number: u32,
    count: i64,
) -> Ref {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let site = &(*worker.exec.program).stream(func, worker.exec.mode).maps[Site::new(number)];
        let made = worker.parallel_map(site, count, Registers { reals, words, ints, refs }, remaining);
        object_or_stop(worker, made)
    }
}

/// Runs the derivative operator of this number in the function. What it takes stands at the given places; what it gives
/// will stand behind that. Returns a status.
///
/// # Safety
/// As [`fork`]; references below the arguments are roots.
unsafe extern "C" fn operate(
    context: Context,
    reals: *mut f64,
    words: *mut Word,
    ints: *mut i64,
    refs: *mut Ref,
    remaining: usize,
    func: FuncId,
    number: u32,
) -> u64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let site = &(*worker.exec.program).stream(func, worker.exec.mode).operators[Site::new(number)];
        let outcome = worker.operate(site, Registers { reals, words, ints, refs }, remaining);
        status(worker, outcome)
    }
}

/// An object as a constant, with all that it refers to. Returns null if the run has to stop.
///
/// # Safety
/// **Context**; nothing at the given places is in use, and references below are roots.
unsafe extern "C" fn detach(
    context: Context,
    object: Ref,
    reals: *mut f64,
    words: *mut Word,
    ints: *mut i64,
    refs: *mut Ref,
) -> Ref {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let made = worker.detach(object, Registers { reals, words, ints, refs });
        object_or_stop(worker, made)
    }
}

/// Begins a new slab of tape. Returns a status.
///
/// # Safety
/// **Context**.
unsafe extern "C" fn open_chunk(context: Context) -> u64 {
    // SAFETY: **Context**.
    let worker = unsafe { &mut *context.cast::<Worker>() };
    let opened = worker.exec.tape.open_chunk();
    status(worker, opened)
}

/// Ends a strip of the open loop, and begins a new slab of tape. Returns a status.
///
/// # Safety
/// **Context**; the tape's top and the number of entries stand in the context.
unsafe extern "C" fn next_strip(context: Context) -> u64 {
    // SAFETY: **Context**.
    let worker = unsafe { &mut *context.cast::<Worker>() };
    let opened = worker.exec.tape.next_strip();
    status(worker, opened)
}

/// Goes on with the trail of the open region in a new slab. Returns a status.
///
/// # Safety
/// **Context**; the tape's top stands in the context.
unsafe extern "C" fn next_trail(context: Context) -> u64 {
    // SAFETY: **Context**.
    let worker = unsafe { &mut *context.cast::<Worker>() };
    let opened = worker.exec.tape.next_trail();
    status(worker, opened)
}

/// What the trail of the open region is told, or `i64::MIN` if the run has to stop.
fn told(worker: &mut Worker, number: Result<i64, Limit>) -> i64 {
    number.unwrap_or_else(|limit| {
        stop(worker, limit.into());
        i64::MIN
    })
}

/// What an array, which has an owner, is called in the trail of the open region. `i64::MIN` if the run has to stop.
///
/// # Safety
/// **Context**; it is a complete array of reals.
unsafe extern "C" fn foreign_base(context: Context, array: Ref) -> i64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let base = array_base(&mut worker.exec.tape, array);
        told(worker, base)
    }
}

/// The slot of a real field, as the trail of the open region tells it. `i64::MIN` if the run has to stop.
///
/// # Safety
/// **Context**; it is a complete object, and the word of a real field stands there.
unsafe extern "C" fn field_slot(context: Context, object: Ref, word: u64) -> i64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let slot = recording_regions::field_slot(&mut worker.exec.tape, object, word as u32);
        told(worker, slot)
    }
}

/// Makes room for references that records keep. Returns a status.
///
/// # Safety
/// **Context**.
unsafe extern "C" fn keep_room(context: Context) -> u64 {
    // SAFETY: **Context**.
    let worker = unsafe { &mut *context.cast::<Worker>() };
    let made = worker.exec.tape.make_room_to_keep();
    status(worker, made)
}

/// Completes the record of the region of this number in the function. The words of its inputs stand one after the other
/// at `words`; those of its outputs will. Returns a status.
///
/// # Safety
/// **Context**; `refs` is the function's frame, `len_before` the length that a builder had to which the region pushes.
unsafe extern "C" fn end_region(
    context: Context,
    words: *mut Word,
    refs: *const Ref,
    len_before: i64,
    func: FuncId,
    number: u32,
) -> u64 {
    // SAFETY: **Context**; there are cells for all words.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let site = &(*worker.exec.program).stream(func, Mode::RECORDING).regions[Site::new(number)];
        let input = |n: usize| *words.add(n);
        let ended = complete_region(site, &mut worker.exec.tape, &input, refs, len_before);
        let ended = ended.map(|word| {
            site.outputs.iter().enumerate().for_each(|(n, &(_, output))| *words.add(n) = word(output));
        });
        status(worker, ended)
    }
}

/// Turns a builder that the open region has begun into an array. Returns its first slot; -1 if the run has to stop.
///
/// # Safety
/// **Context**; it is a builder of reals or was one.
unsafe extern "C" fn region_finish(context: Context, builder: Ref, active: u64) -> i64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let slot = recording_regions::region_finish(builder, &mut worker.exec.tape, active != 0);
        first_slot(worker, slot)
    }
}

/// A first slot, or -1 if the run has to stop.
fn first_slot(worker: &mut Worker, slot: Result<Slot, impl Into<TrapKind>>) -> i64 {
    match slot {
        Ok(first) => first.index() as i64,
        Err(kind) => {
            stop(worker, kind.into());
            -1
        }
    }
}

/// Gives the elements of a builder consecutive slots, if they haven't. Returns the first one, 0 if they are constants;
/// -1 if the run has to stop.
///
/// # Safety
/// **Context**; it is a builder of reals or was one.
unsafe extern "C" fn builder_pack(context: Context, builder: Ref) -> i64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let slot = recording_regions::builder_pack(builder, &mut worker.exec.tape);
        first_slot(worker, slot)
    }
}

/// Slots for the elements of a builder while the open region changes them. Returns the first one, 0 if it gets no
/// record; -1 if the run has to stop.
///
/// # Safety
/// **Context**; it is a builder of reals or was one.
unsafe extern "C" fn builder_slots(context: Context, builder: Ref) -> i64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let slot = recording_regions::builder_slots(builder, &mut worker.exec.tape);
        first_slot(worker, slot)
    }
}

/// A cell with a copy of an array in the trail of the open region, or with the array. `i64::MIN` if the run has to
/// stop.
///
/// # Safety
/// **Context**; the tape's top stands in the context; it is a complete array of reals.
unsafe extern "C" fn array_copy(context: Context, array: Ref) -> i64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let cell = recording_regions::array_copy(&mut worker.exec.tape, array);
        told(worker, cell)
    }
}

/// Gives the cells of what a chain has become their owner, up to its tail.
///
/// # Safety
/// **Context**; they are such cells.
unsafe extern "C" fn chain_settle(context: Context, first: Ref, tail: Ref) {
    // SAFETY: **Context**.
    unsafe { heap::chain::settle(first, tail, (*context.cast::<Worker>()).exec.tape.owner()) }
}

/// Gives out consecutive slots. Returns the first; 0 if the run has to stop.
///
/// # Safety
/// **Context**.
unsafe extern "C" fn reserve_slots(context: Context, count: u64) -> u64 {
    // SAFETY: **Context**.
    let worker = unsafe { &mut *context.cast::<Worker>() };
    match worker.exec.tape.reserve_slots(count) {
        Ok(first) => u64::from(first.0),
        Err(limit) => {
            stop(worker, limit.into());
            0
        }
    }
}

/// Gives the last `count` elements of a builder consecutive slots from `first` on; 0: they are constants.
///
/// # Safety
/// **Context**; the builder has so many elements and keeps their words.
unsafe extern "C" fn pushed(_context: Context, builder: Ref, first: u64, count: u64) {
    // SAFETY: promised by the caller.
    unsafe { give_pushed_words(builder, Slot(first as u32), count as usize) }
}

/// Gives the elements of a new array of reals their slots. Returns a status.
///
/// # Safety
/// **Context**; `words` are the elements' words.
unsafe extern "C" fn pack(context: Context, array: Ref, words: *const Word) -> u64 {
    // SAFETY: **Context**; the array knows its length.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let words = std::slice::from_raw_parts(words, *array.add(LEN) as usize);
        match worker.exec.tape.pack(words) {
            Ok(first) => {
                heap::set_first(array, first);
                heap::set_owner(array, if first.is_none() { Owner::NOBODY } else { worker.exec.tape.owner() });
                OK
            }
            Err(limit) => stop(worker, limit.into()),
        }
    }
}

/// Makes a builder for elements of bank 0, 1 or 2. Returns null if the run has to stop.
///
/// # Safety
/// **Context**; the roots are initialised.
unsafe extern "C" fn build(
    context: Context,
    capacity: i64,
    element: u64,
    words: u64,
    depth: u64,
    refs_end: *mut Ref,
) -> Ref {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let roots = Roots { frames: roots(worker.exec.roots, refs_end), kept: Some(worker.exec.tape.kept()) };
        let element = [Bank::Real, Bank::Int, Bank::Ref][element as usize];
        let kind = (element, words != 0, depth as u32);
        let made = heap::build(&mut worker.exec.heap, capacity, kind, worker.stacks.bytes, roots);
        object_or_stop(worker, made)
    }
}

/// Turns a builder into an array. Returns a status.
///
/// # Safety
/// **Context**; `builder` is or was a builder.
unsafe extern "C" fn finish(context: Context, builder: Ref) -> u64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let finished = recording::finish(builder, &mut worker.exec.tape);
        status(worker, finished)
    }
}

/// Appends the elements of an array from `from` on and before `to` to a builder. Returns a status.
///
/// # Safety
/// **Context**; `builder` is or was a builder, `array` is a complete array of the same elements.
unsafe extern "C" fn extend(context: Context, builder: Ref, array: Ref, from: i64, to: i64, words: u64) -> u64 {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let extended = worker.extend(builder, array, (from, to), words != 0);
        status(worker, extended)
    }
}

/// The builder at a place if it has room for `count` elements more, or what takes its place; references up to
/// `refs_end` are roots. Returns null if the run has to stop.
///
/// # Safety
/// **Context**; the roots are initialised, and the place is one of them, with what is or was a builder.
unsafe extern "C" fn make_room(context: Context, place: *const Ref, count: i64, refs_end: *mut Ref) -> Ref {
    // SAFETY: **Context**.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let made = worker.make_room(place, count, refs_end);
        object_or_stop(worker, made)
    }
}

/// Computes those of a function's instructions, `count` from `first` on, whose bits are set. Returns [`OK`].
///
/// # Safety
/// **Context**; these instructions are pure and none traps; there are cells for the registers that they name, and a bit
/// for each of all instructions.
unsafe extern "C" fn compute(
    context: Context,
    reals: *mut f64,
    ints: *mut i64,
    func: FuncId,
    first: Position,
    count: u32,
    bits: *const u64,
) -> u64 {
    // SAFETY: **Context**; the rest is promised by the caller.
    unsafe {
        let worker = &mut *context.cast::<Worker>();
        let code = &(*worker.exec.program).stream(func, worker.exec.mode).code[first.index()..][..count as usize];
        for (n, inst) in code.iter().enumerate() {
            if *bits.add(n / 64) >> (n % 64) & 1 != 0 {
                run_straight(std::slice::from_ref(inst), reals, ints);
            }
        }
        OK
    }
}

/// # Safety
/// **Context**.
unsafe extern "C" fn trap_depth(context: Context) {
    // SAFETY: **Context**.
    stop(unsafe { &mut *context.cast() }, TrapKind::Limit(Limit::Depth));
}

/// # Safety
/// **Context**.
unsafe extern "C" fn trap_index(context: Context, index: i64, len: u64) {
    // SAFETY: **Context**.
    stop(unsafe { &mut *context.cast() }, TrapKind::IndexOutOfBounds { index, len });
}

/// # Safety
/// **Context**; both are complete objects.
unsafe extern "C" fn trap_shape(context: Context, object: Ref, other: Ref) {
    // SAFETY: promised by the caller.
    unsafe { stop(&mut *context.cast(), other_shape([object, other])) };
}

/// # Safety
/// **Context**.
unsafe extern "C" fn trap_tag(context: Context, expected: u64, found: u64) {
    let (expected, found) = (expected as u16, found as u16);
    // SAFETY: **Context**.
    stop(unsafe { &mut *context.cast() }, TrapKind::WrongTag { expected, found });
}

/// # Safety
/// **Context**.
unsafe extern "C" fn trap_full(context: Context, capacity: u64) {
    // SAFETY: **Context**.
    stop(unsafe { &mut *context.cast() }, TrapKind::BuilderFull { capacity });
}

/// # Safety
/// **Context**.
unsafe extern "C" fn trap_finished(context: Context) {
    // SAFETY: **Context**.
    stop(unsafe { &mut *context.cast() }, TrapKind::BuilderFinished);
}

/// # Safety
/// **Context**.
unsafe extern "C" fn trap_message(context: Context, number: u64) {
    // SAFETY: **Context**.
    unsafe {
        let worker: &mut Worker = &mut *context.cast();
        let message = (*worker.exec.program).message(number as u32).to_owned();
        stop(worker, TrapKind::Message(message));
    }
}
