//! The stacks of a run: address space that is reserved once and never moves, so that native code may keep pointers into
//! it, and that the system backs with memory only where it is touched. At both ends of each there are pages that nobody
//! may touch: what goes too far ends the process and doesn't write to what is not its own.
//!
//! What a run may use of a stack is its *room*, which starts at nothing and grows by doubling, so that limits don't
//! depend on what ran before. Beyond the room of a bank there is a margin for what frames hand to each other: native
//! frames keep reals and integers in machine registers and pass arguments and results through the first cells above
//! their base. Below the room of a native stack there is some for calls out of native code, and then some for the host:
//! a thread that waits in a fork may take up jobs of the host's own, which then stand on the stack of the run.
//!
//! `system` is what the machine and the system do for stacks; `plain`, in its place with `--cfg dualvm_plain_stacks`
//! and under Miri, needs nothing of them: banks are ordinary memory, and native stacks are the thread's own.

#[cfg(any(miri, dualvm_plain_stacks))]
mod plain;
#[cfg(not(any(miri, dualvm_plain_stacks)))]
mod system;

#[cfg(any(miri, dualvm_plain_stacks))]
use plain as system;

use crate::trap::Limit;
use std::marker::PhantomData;
use system::Region;

pub(crate) use system::stack_pointer;

/// What a job of the host's own has of the stack of a run that waits on the same thread, in bytes: as much as a thread
/// gets if nobody says how much. See [`Config::pool`](crate::engine::Config::pool).
pub const HOST_JOB_STACK_BYTES: usize = 2 << 20;

/// Address space of a stack, if neither host nor system say otherwise. Only touched pages take memory.
const RESERVED_BYTES: usize = 16 << 30;
/// The least that a stack may have to be of any use.
const RESERVED_BYTES_MIN: usize = 16 << 20;
/// More than a host may ask for: no system has it.
const RESERVED_BYTES_MAX: usize = 1 << 46;
const RESERVED_BYTES_STEP: usize = 2 << 20;
/// Cells of the room of a bank that has any.
const ROOM_MIN: usize = 256;
/// Cells beyond the room: as many as an instruction can name registers.
const MARGIN: usize = 1 << 16;
/// The part of a native stack that is left to calls out of native code: the heap's evacuation, the interpreter, a fork
/// down to where its thread waits.
pub(crate) const RED_ZONE: usize = 256 << 10;

/// The part of a native stack that doesn't count towards the limit on live memory.
const FREE_BYTES: usize = 256 << 10;

/// Where a stack begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Upwards,
    Downwards,
}

/// How much address space the stacks of an engine's runs reserve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserve(usize);

impl Reserve {
    /// As a host asks for: 0 is the default.
    pub(crate) fn of(stack_bytes: usize) -> Self {
        let bytes = if stack_bytes == 0 { RESERVED_BYTES } else { stack_bytes };
        Reserve(bytes.clamp(RESERVED_BYTES_MIN, RESERVED_BYTES_MAX))
    }

    /// Reserves address space, half as much as before while the system refuses.
    fn take(self, direction: Direction) -> Option<Region> {
        let mut bytes = self.0;
        while bytes >= RESERVED_BYTES_MIN {
            // In whole pages, large ones too.
            if let Some(region) = Region::reserve(bytes & !(RESERVED_BYTES_STEP - 1), direction) {
                return Some(region);
            }
            bytes /= 2;
        }
        None
    }
}

/// The stack of a bank: cells that hold any bit pattern.
#[derive(Debug)]
pub(crate) struct Stack<T> {
    reserve: Reserve,
    region: Option<Region>,
    /// The first cell; dangling before the first run.
    start: *mut T,
    /// How many of the cells this run may use.
    room: usize,
    cells: PhantomData<T>,
}

impl<T: Copy> Stack<T> {
    pub(crate) fn new(reserve: Reserve) -> Self {
        let start = std::ptr::NonNull::dangling().as_ptr();
        Stack { reserve, region: None, start, room: 0, cells: PhantomData }
    }

    /// Begins a run. If the system gives no address space, the stack stays without room.
    pub(crate) fn begin(&mut self) {
        self.room = 0;
        if self.region.is_none() {
            self.region = self.reserve.take(Direction::Upwards);
            if let Some(region) = &self.region {
                self.start = region.start().cast();
            }
        }
    }

    /// Whether the system has given address space.
    pub(crate) fn is_there(&self) -> bool {
        self.region.is_some()
    }

    pub(crate) fn start(&self) -> *mut T {
        self.start
    }

    /// The end of the room.
    pub(crate) fn end(&self) -> *mut T {
        self.start.wrapping_add(self.room)
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.room * size_of::<T>()) as u64
    }

    /// Makes room for the first cells of a run, as [`Stack::grow`] does.
    #[inline]
    pub(crate) fn open(&mut self, cells: usize) -> Result<(), Limit> {
        debug_assert_eq!(self.room, 0, "the run begins");
        if cells == 0 {
            return Ok(());
        }
        if cells <= ROOM_MIN && self.region.is_some() {
            self.room = ROOM_MIN;
            return Ok(());
        }
        self.grow(self.start.wrapping_add(cells))
    }

    /// Makes room for cells up to `end`, which is in or above the stack.
    #[cold]
    pub(crate) fn grow(&mut self, end: *mut T) -> Result<(), Limit> {
        let len = end.addr().saturating_sub(self.start.addr()).div_ceil(size_of::<T>());
        let reserved = self.region.as_ref().ok_or(Limit::LiveBytes)?.bytes();
        let cells = reserved / size_of::<T>() - MARGIN;
        if len > cells {
            return Err(Limit::LiveBytes);
        }
        self.room = len.max(2 * self.room).max(ROOM_MIN).min(cells);
        Ok(())
    }
}

/// The stack that native code runs on. It grows downwards.
#[derive(Debug)]
pub(crate) struct NativeStack {
    reserve: Reserve,
    region: Option<Region>,
    /// Below this address a run may not go; grows downwards in steps.
    limit: usize,
}

impl NativeStack {
    pub(crate) fn new(reserve: Reserve) -> Self {
        NativeStack { reserve, region: None, limit: usize::MAX }
    }

    /// Begins a run.
    pub(crate) fn begin(&mut self) {
        self.limit = self.top();
    }

    fn top(&self) -> usize {
        self.region.as_ref().map_or(usize::MAX, |region| region.start().addr() + region.bytes())
    }

    /// What counts of the room as memory of the run: the first part is there whether a program recurses or not.
    pub(crate) fn bytes(&self) -> u64 {
        (self.top() - self.limit).saturating_sub(FREE_BYTES) as u64
    }

    /// The address that native frames have to stay above.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// The address that no frame may go below, however much room there is.
    fn lowest(&self) -> usize {
        let below = HOST_JOB_STACK_BYTES + RED_ZONE;
        self.region.as_ref().map_or(usize::MAX, |region| region.start().addr() + below)
    }

    /// Makes room down to `address`.
    #[cold]
    pub(crate) fn grow(&mut self, address: usize) -> Result<(), Limit> {
        let lowest = self.lowest();
        if address < lowest {
            return Err(Limit::LiveBytes);
        }
        let used = self.top() - address;
        let room = used.max(2 * (self.top() - self.limit)).max(FREE_BYTES);
        self.limit = self.top().saturating_sub(room).max(lowest);
        Ok(())
    }

    /// Reserves the address space, the first time, and makes the stack empty. Returns where it is.
    ///
    /// # Errors
    /// If the system gives no address space.
    pub(crate) fn open(&mut self) -> Result<Ground, Limit> {
        if self.region.is_none() {
            self.region = Some(self.reserve.take(Direction::Downwards).ok_or(Limit::LiveBytes)?);
        }
        // The room that is free is there from the beginning, so that small runs need not ask for it.
        self.limit = self.top().saturating_sub(FREE_BYTES).max(self.lowest());
        let region = self.region.as_ref().ok_or(Limit::LiveBytes)?;
        Ok(Ground { start: region.start(), bytes: region.bytes(), lowest: self.lowest() })
    }

    /// Where the stack is; nowhere before it was opened.
    pub(crate) fn ground(&self) -> Ground {
        self.region.as_ref().map_or(Ground::NOWHERE, |region| Ground {
            start: region.start(),
            bytes: region.bytes(),
            lowest: self.lowest(),
        })
    }
}

/// Where a native stack is. To run on a stack takes no more, so that whoever runs may use the [`NativeStack`]
/// meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground {
    start: *mut u8,
    bytes: usize,
    /// The address that no frame of a run may go below.
    lowest: usize,
}

impl Ground {
    /// No stack: no frame stands there.
    pub(crate) const NOWHERE: Ground = Ground { start: std::ptr::null_mut(), bytes: 0, lowest: 0 };

    /// Whether the running function stands here, where frames of runs may.
    pub(crate) fn is_here(self) -> bool {
        let top = self.start.addr() + self.bytes;
        (self.lowest..top).contains(&stack_pointer())
    }

    /// Whether the running function, which stands here, leaves frames of runs no room.
    pub(crate) fn is_used_up(self) -> bool {
        stack_pointer() < self.lowest
    }

    /// How much of the stack is in use; nothing if the running function stands elsewhere.
    pub(crate) fn bytes_in_use(self) -> usize {
        if self.is_here() { self.start.addr() + self.bytes - stack_pointer() } else { 0 }
    }

    /// Runs `body` here, from the top. Native code checks its room against [`NativeStack::limit`].
    ///
    /// # Safety
    /// The [`NativeStack`] is not dropped before `run` returns, and nobody else runs on it; `body` doesn't unwind.
    pub(crate) unsafe fn run<R>(self, body: impl FnOnce() -> R) -> R {
        // SAFETY: promised by the caller; the region is aligned to pages.
        unsafe { system::run_on(self.start, self.bytes, body) }
    }
}

#[cfg(all(test, unix, not(any(loom, miri, dualvm_plain_stacks))))]
mod tests;
