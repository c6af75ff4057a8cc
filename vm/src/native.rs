//! The seam between the virtual machine and a generator of native code.
//!
//! The machine knows no code generator. A host installs one into an engine ([`crate::engine::Config::generator`]); it
//! is given what the interpreter runs, a function's stream in one mode or the adjoint of a segment or a loop, and
//! gives back code. When to compile is decided here: functions count their calls, loops their rounds.
//!
//! **What native code must keep.** It has the interpreter's meaning to the last bit: values, words, traps, fuel,
//! records, addresses of roots. A function's code gets the context and the first registers of its frame in each bank,
//! with the arguments in them, and leaves its results in the first registers of the same banks ([`FunctionCode`]).
//! What lives in machine registers in between is its own business, except references: they stand in the frame
//! whenever something may allocate, because the heap is evacuated with the frames as roots. Frames of reals and
//! integers take no room while native code runs; what is handed to a callee is written above the caller's base and
//! may be overwritten by it.
//!
//! **Who may call what.** A [`Unit`] hands out addresses that the machine calls: making one is `unsafe`.
//!
//! This module is for code generators. Unlike the rest of the crate it follows the virtual machine's inside, and
//! changes with it.

pub mod helpers;
pub mod layout;
pub mod scalars;
mod tier;

pub(crate) use tier::{Candidate, Code, Policy, Status, Tier};
pub use tier::{CodeKind, CompiledCode, Thresholds};

pub use crate::code::{
    CallSite, CheckSite, CheckedOperand, CheckedRecord, CountedBlock, CountedLoop, Counts, DEPTH_MAX, ForkSite, Form,
    Inst, IntReg, MapSite, Mode, ObjectSite, Operator, OperatorSite, Position, Pure, RealReg, RefReg, RegList,
    ScalarInst, Site, Sites, Stream, SwitchSite, TaskSite, TextSite,
};
pub use crate::derivation::assembler::StraightCode;
pub use crate::memory::heap::{OBJECT_HEADER, array_header};
pub use crate::preparation::pressure::BlockPressure;
pub use crate::records::Numbers;
pub use crate::records::recorded_loop::{ElementCode, LoopCode, LoopFrame, LoopLayout, LoopSite, PushSite};
pub use crate::records::region::{
    BlockAdjoint, BuilderAdjoint, COPIED_MAX, ChangedArray, ChangedBuilder, Edge, ElementAdjoint, Guard, PushedTo,
    PutAdjoint, RegionCode, RegionLayout, RegionPush, RegionSite, RoundsLeft, SaveSite, WayBack,
};
pub use crate::records::segment::{OutputWord, SegmentCode, SegmentLayout, SegmentSite};

use crate::bytecode::module::{Body, FuncId};
use crate::preparation::pressure::pressure;
use std::fmt;
use std::time::Duration;

/// Makes units of code. Shared by all modules of the engines that it is installed in.
pub trait Generator: Send + Sync + fmt::Debug {
    /// A unit for the code of one module.
    ///
    /// # Errors
    /// Why there can be no native code on this machine.
    fn unit(&self) -> Result<Box<dyn Unit>, String>;

    /// About how long [`Unit::compile`] takes for this request, on one core of its own. Asked before anything is
    /// compiled, so it should take a small part of that time itself, whatever the code is. What takes more than `most`
    /// won't be compiled, so nothing beyond it has to be exact. For a function it is the same wherever the code begins:
    /// it is asked for once.
    fn estimate(&self, request: &Request<'_>, most: Duration) -> Duration;

    /// About how much longer the first compilation of a module takes than the estimate says.
    fn opening(&self) -> Duration;
}

/// The native code of one module. Dropping it frees the code.
///
/// # Safety
/// The virtual machine calls the addresses that it is given: those of [`Unit::shared`] and of [`Unit::compile`]. The
/// code there must be of the type that its request asks for, stay where it is until the unit is dropped (shared code:
/// for ever), and keep what this module's documentation says of native code. No call may unwind.
pub unsafe trait Unit: Send + fmt::Debug {
    /// The addresses of the code that all functions share.
    fn shared(&self) -> SharedCode;

    /// Compiles one piece of code.
    ///
    /// # Errors
    /// See [`Refusal`]. What was asked for stays interpreted.
    fn compile(&mut self, request: &Request<'_>) -> Result<Compiled, Refusal>;

    /// Intermediate representation and machine code of a function, for people.
    ///
    /// # Errors
    /// As [`Unit::compile`].
    fn listing(&mut self, request: &FunctionRequest<'_>) -> Result<Listing, Refusal>;
}

/// A piece of code that shall be compiled.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// A function's stream: see [`FunctionCode`].
    Function(FunctionRequest<'a>),
    /// The adjoint of a segment: a [`SegmentFn`].
    Segment(&'a SegmentCode),
    /// The adjoint of a loop: a [`LoopFn`].
    Loop(&'a LoopCode),
    /// The adjoint of a region: a [`RegionFn`].
    Region(&'a RegionCode),
}

/// Code that a generator makes once.
#[derive(Clone, Copy, Debug)]
pub struct SharedCode {
    /// Enters a function's code from Rust: an `extern "C"` function ([`EnterFn`]).
    pub enter: EnterFn,
    /// What stands in the table of entries for a function without code: calls [`helpers::Helper::Interpret`], with the
    /// calling convention of a function's code, and goes on where that says.
    pub interpret: *const u8,
}

// SAFETY: what it leads to is code, which doesn't change.
unsafe impl Send for SharedCode {}
// SAFETY: what it leads to is code, which doesn't change.
unsafe impl Sync for SharedCode {}

/// Enters a function's code: the code, then what it takes. Returns 0, or 1 after a trap.
pub type EnterFn = unsafe extern "C" fn(
    code: *const u8,
    context: *mut u8,
    reals: *mut f64,
    words: *mut u64,
    ints: *mut i64,
    refs: *mut *mut u64,
    remaining: usize,
) -> u64;

/// What a function's code is: context, bases of the banks, calls that may still be nested; 0, or 1 after a trap. The
/// calling convention is the generator's own.
#[derive(Clone, Copy, Debug)]
pub struct FunctionCode;

/// The adjoint of a segment: the record's trailer and the adjoints of the tape. It may go on to the records before, as
/// long as they are of the same segment. Returns the end of the record that it has come to and not swept. If that is
/// the one it was called for, a product was NaN, and the strong product may say otherwise: its derived code is
/// interpreted.
pub type SegmentFn = unsafe extern "C" fn(trailer: *const u32, adjoints: *mut f64) -> *const u8;

/// Runs iterations of a loop's adjoint, from the last one backwards, and adds the contributions to its inputs when it
/// has run the first one. Returns how many are left of those that it was asked for: more than 0 if in the next one a
/// product was NaN, and the strong product may say otherwise; these are interpreted. Then, and where iterations are
/// left that it wasn't asked for, the frame holds what changes from one to the next.
pub type LoopFn = unsafe extern "C" fn(run: *const LoopRun) -> u64;

/// A [`LoopFn`] that was asked for a whole record has done nothing: the entries are in several slabs, or there are no
/// iterations, or more than [`LOOP_WHOLE_MAX`].
pub const LOOP_UNBEGUN: u64 = u64::MAX;

/// A loop of more iterations isn't swept at one go, so that the clock is looked at.
pub const LOOP_WHOLE_MAX: u64 = 1 << 14;

/// What a [`LoopFn`] works on.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LoopRun {
    /// The trailer of the loop's record.
    pub trailer: *const u32,
    /// The adjoints of the tape.
    pub adjoints: *mut f64,
    /// The frame's real registers.
    pub reals: *mut f64,
    /// The frame's integer registers.
    pub ints: *mut i64,
    /// The end of the entries of the iterations that are to run. Null asks for the whole record: then they are left out
    /// if nothing flows back into them, and what follows says nothing.
    pub entries_end: *const u8,
    /// The number of the last iteration, counted from 1.
    pub last: u64,
    /// How many iterations to run.
    pub count: u64,
    /// Whether iterations have run before, 1 or 0: then the frame's registers that change from one to the next hold
    /// their values.
    pub resumed: u64,
}

/// Runs the adjoint of a region, and adds the contributions to its inputs. Returns [`REGION_DONE`],
/// [`REGION_STOPPED`], or another number if in the block that it has come to a product was NaN, and the strong product
/// may say otherwise: that block is interpreted, and what is left of the region. Then the frame holds what is read
/// there, and only then.
pub type RegionFn = unsafe extern "C" fn(run: *mut RegionRun) -> u64;

/// All of a region's adjoint has run.
pub const REGION_DONE: u64 = 0;
/// [`REGION_POLL`] has said that it is to stop.
pub const REGION_STOPPED: u64 = 1;

/// Called when the budget is used up. Returns a new one, or 0 if the code is to stop. It doesn't unwind.
///
/// # Safety
/// It is given what the [`RegionFn`] that calls it was given.
pub const REGION_POLL: unsafe extern "C" fn(run: *mut RegionRun) -> u64 = crate::sweep::regions::poll_region;

/// What a [`RegionFn`] works on.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RegionRun {
    /// The frame's real registers, of which those that last hold their values and get new ones.
    pub reals: *mut f64,
    /// The frame's integer registers, likewise.
    pub ints: *mut i64,
    /// The adjoints of the tape.
    pub adjoints: *mut f64,
    /// Where the trail ends as yet.
    pub at: *const u8,
    /// Where the part of the trail begins that stands in this slab.
    pub start: *const u8,
    /// First slots of arrays of other tasks.
    pub foreign: *const i64,
    /// The first slot of what was pushed to the builder that was begun before the region, and the number of elements.
    pub pushed: [i64; 2],
    /// The adjoints of the outputs.
    pub outputs: *const f64,
    /// The slots of the inputs, not aligned.
    pub slots: *const u32,
    /// In the end, the block that is to be interpreted first, if any is.
    pub block: u64,
    /// How many times loops may go round before [`REGION_POLL`] is called.
    pub budget: u64,
}

/// A function that shall be compiled.
#[derive(Clone, Copy, Debug)]
pub struct FunctionRequest<'a> {
    /// The function's number in the module.
    pub func: FuncId,
    /// The function's name.
    pub name: &'a str,
    /// How the function runs.
    pub mode: Mode,
    /// `None` is the function's beginning. A stream position is a loop's head: the code begins there, with all
    /// registers in the frame.
    pub entry: Option<Position>,
    /// What is to be compiled.
    pub stream: &'a Stream,
    /// The entries of all functions in this mode, by function number: loads from it may give new values at any time.
    pub entries: *const u8,
    /// The bytecode that the stream was made of.
    pub(crate) body: &'a Body,
}

impl FunctionRequest<'_> {
    /// How many registers are live in each block of the bytecode, in the order of the code. [`Stream::origin`] says
    /// which block an instruction of the stream is from. `None` if finding out takes more than `steps_max` steps, each
    /// of a few nanoseconds.
    pub fn pressure(&self, steps_max: u64) -> Option<Vec<BlockPressure>> {
        pressure(self.body, steps_max)
    }
}

/// Code that a unit has made.
#[derive(Clone, Copy, Debug)]
pub struct Compiled {
    /// The entry.
    pub code: *const u8,
    /// The size of the machine code.
    pub bytes: usize,
}

/// Code for people to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// The generator's intermediate representation.
    pub representation: String,
    /// The machine code.
    pub assembly: String,
}

/// Why there is no native code for something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It is so large that compiling it would take longer than it is worth.
    TooLarge,
    /// This machine has no native code.
    Unsupported,
    /// The generator failed. Counted, because it should never happen.
    Failed(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TooLarge => write!(f, "too large to be compiled"),
            Refusal::Unsupported => write!(f, "this machine is not supported"),
            Refusal::Failed(cause) => write!(f, "code generation failed: {cause}"),
        }
    }
}
