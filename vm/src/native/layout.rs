//! Where native code finds things: offsets in bytes from the context, and inside of objects.

use crate::memory::heap::{self, Heap, planes};
use crate::memory::kept;
use crate::running::worker::Worker;
use crate::tape::Tape;
use std::mem::offset_of;

pub use crate::memory::heap::chain::{CHAIN_FIRST, CHAIN_LAST, CHAIN_OPEN, CHAIN_WORDS, chain_header};
pub use crate::memory::heap::{ARRAY_HEADER, AWAY_SHIFT, CAPACITY, FIRST, LARGE_WORDS, LEN, OBJECT_HEADER, OWNER};
pub use crate::records::TRAILER_BYTES;
pub use crate::records::strip::TAIL_BYTES as STRIP_BYTES;
/// Where the address stands that leads back from a part of a region's trail to the strip before it, from the part's
/// start.
pub const PART_LINK: i32 = -(crate::records::link::BYTES as i32);

pub use crate::tape::STRIP_MAX as TRAIL_END_BYTES;
pub use crate::tape::UNCHECKED_MAX;

/// What is left of the current slice of fuel (`i64`).
pub const FUEL: i32 = offset_of!(Worker, exec.fuel) as i32;
/// Whether the host listens to what is traced (`u8`, 0 or 1).
pub const LISTENS: i32 = offset_of!(Worker, exec.listens) as i32;
/// The function that is called (`u32`): to be stored before a call through the table of entries.
pub const CALLEE: i32 = offset_of!(Worker, exec.callee) as i32;
/// Where native code may leave a word for itself (`u64`).
pub const RESULT: i32 = offset_of!(Worker, exec.result) as i32;
/// Where native code may leave what a helper takes, for itself (8 bytes each).
pub const OPERANDS: i32 = offset_of!(Worker, exec.operands) as i32;
/// How many operands there is room for.
pub const OPERANDS_MAX: usize = 8;
/// The end of the room for references (address).
pub const REFS_END: i32 = offset_of!(Worker, stacks.refs_end) as i32;
/// The address that native frames have to stay above.
pub const NATIVE_LIMIT: i32 = offset_of!(Worker, stacks.native_limit) as i32;
/// Where the next object begins (address).
pub const HEAP_TOP: i32 = (offset_of!(Worker, exec.heap) + Heap::TOP) as i32;
/// How far objects may reach: to the end of their slab, or less far if no more may be allocated (address).
pub const HEAP_END: i32 = (offset_of!(Worker, exec.heap) + Heap::END) as i32;
/// Where the next record begins (address).
pub const TAPE_TOP: i32 = (offset_of!(Worker, exec.tape) + Tape::TOP) as i32;
/// The end of the slab that records are written to (address).
pub const TAPE_END: i32 = (offset_of!(Worker, exec.tape) + Tape::END) as i32;
/// The next slot (`u64`).
pub const TAPE_NEXT_SLOT: i32 = (offset_of!(Worker, exec.tape) + Tape::NEXT_SLOT) as i32;
/// Records written (`u64`).
pub const TAPE_RECORDS: i32 = (offset_of!(Worker, exec.tape) + Tape::RECORDS) as i32;
/// Instructions of the sweep (`u64`).
pub const TAPE_SWEEP_COST: i32 = (offset_of!(Worker, exec.tape) + Tape::SWEEP_COST) as i32;
/// Bytes of the tape that were written before, less those that don't count (`u64`).
pub const TAPE_BYTES: i32 = (offset_of!(Worker, exec.tape) + Tape::BYTES) as i32;
/// Where the next reference goes that a record keeps (address).
pub const KEPT_TOP: i32 = (offset_of!(Worker, exec.tape) + Tape::KEPT_TOP) as i32;
/// The end of the room for such references (address).
pub const KEPT_END: i32 = (offset_of!(Worker, exec.tape) + Tape::KEPT_END) as i32;

/// Whether the loop that is being recorded gets a record (`u8`, 0 or 1).
pub const LOOP_ACTIVE: i32 = (offset_of!(Worker, exec.tape) + Tape::LOOP_ACTIVE) as i32;
/// Iterations of that loop so far (`u64`).
pub const LOOP_ITERATIONS: i32 = (offset_of!(Worker, exec.tape) + Tape::LOOP_ITERATIONS) as i32;
/// Entries of that loop in the current slab (`u32`).
pub const LOOP_ENTRIES: i32 = (offset_of!(Worker, exec.tape) + Tape::LOOP_ENTRIES) as i32;

/// Whether the region that is being recorded gets a record (`u8`, 0 or 1).
pub const REGION_ACTIVE: i32 = (offset_of!(Worker, exec.tape) + Tape::REGION_ACTIVE) as i32;
/// Where the trail of that region begins in the current slab (address).
pub const REGION_START: i32 = (offset_of!(Worker, exec.tape) + Tape::REGION_START) as i32;
/// Instructions that the sweep of that region runs, as far as it is known (`u64`).
pub const REGION_COST: i32 = (offset_of!(Worker, exec.tape) + Tape::REGION_COST) as i32;
/// The slots of arrays that it has made: 8 bytes, 0 if there are none.
pub const REGION_MADE: i32 = (offset_of!(Worker, exec.tape) + Tape::REGION_MADE) as i32;
/// Whether that region has read arrays of other tasks (`u8`, 0 or 1).
pub const REGION_READS_FOREIGN: i32 = (offset_of!(Worker, exec.tape) + Tape::REGION_READS_FOREIGN) as i32;

/// The bit of what a record's cell holds that says that it is no object.
pub const NO_OBJECT: u32 = kept::NO_OBJECT;
/// The bit of word 0 that says that an object is deep.
pub const DEEP: u64 = planes::deep(0);
/// The bits of word 0 that say what an object is.
pub const KIND: u64 = heap::KIND;
/// Objects of this kind and above are builders that are not finished.
pub const BUILDER: u64 = heap::BUILDER;
/// So much less is word 0 of the array that a builder without words becomes.
pub const BUILDER_LESS_ARRAY: u64 = heap::BUILDER - heap::ARRAY;
/// The owner of objects that are not constant and that the task makes (`u64`).
pub const TASK: i32 = (offset_of!(Worker, exec.tape) + Tape::OWNER) as i32;
