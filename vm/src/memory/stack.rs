//! The stacks of a run: address space that never moves, so that native code and the executions that nest on a stack may
//! keep pointers into it, and that grows where it is. The system backs it with memory where it is touched. At both ends
//! of each there are pages that nobody may touch: what goes too far ends the process and doesn't write to what is not
//! its own.
//!
//! What a run may use of a stack is its *room*, which starts at nothing and grows by doubling, so that limits don't
//! depend on what ran before. Beyond the room of a bank there is a margin for what frames hand to each other: native
//! frames keep reals and integers in machine registers and pass arguments and results through the first cells above
//! their base. Below the room of a native stack there is some for calls out of native code, and then some for the host:
//! a thread that waits in a fork may take up jobs of the host's own, which then stand on the stack of the run.
//!
//! A stack has a *place*, as many addresses as limits let it use, with nothing else behind it (`places`), and takes
//! address space there when its room does. What the first run took is there for the next one. So a process has as much
//! address space as its runs have needed, whatever they may use, and where the system refuses more, only the run ends
//! that needs it. To ask for all that limits allow at once would be simpler: 28 GiB for a run with the default limits,
//! whether it takes a few hundred bytes or not. To move to a larger stack would leave pointers behind.
//!
//! `system` is what the machine and the system do for stacks; `plain`, in its place with `--cfg dualvm_plain_stacks`
//! and under Miri, needs nothing of them: banks are ordinary memory, and native stacks are the thread's own.

#[cfg(not(any(miri, dualvm_plain_stacks)))]
mod places;
#[cfg(any(miri, dualvm_plain_stacks))]
mod plain;
#[cfg(not(any(miri, dualvm_plain_stacks)))]
mod system;

#[cfg(any(miri, dualvm_plain_stacks))]
use plain as system;

use crate::trap::Limit;
use std::marker::PhantomData;
use system::Region;

pub(crate) use system::{own_stack, run_outside, stack_pointer};

/// The stack that the system has given the thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnStack {
    pub(crate) bytes: usize,
    /// How much is left of it below the running function.
    pub(crate) left: usize,
}

/// What a job of the host's own has of the stack of a run that waits on the same thread, in bytes: as much as a thread
/// gets if nobody says how much. See [`Config::pool`](crate::engine::Config::pool).
pub const HOST_JOB_STACK_BYTES: usize = 2 << 20;

/// How far a stack may grow if the host says nothing else.
const EXTENT: usize = 16 << 30;
/// The least that a stack may have to be of any use.
const EXTENT_MIN: usize = 16 << 20;
const EXTENT_STEP: usize = 2 << 20;
/// Cells of the room of a bank that has any.
const ROOM_MIN: usize = 256;
/// Cells beyond the room: as many as an instruction can name registers.
const MARGIN: usize = 1 << 16;
/// The part of a native stack that is left to calls out of native code: the heap's evacuation, the interpreter, a fork
/// down to where its thread waits.
pub(crate) const RED_ZONE: usize = 256 << 10;
/// What there is of a native stack below its room.
const BELOW: usize = HOST_JOB_STACK_BYTES + RED_ZONE;

/// The part of a native stack that doesn't count towards the limit on live memory.
const FREE_BYTES: usize = 256 << 10;

/// Where a stack begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Upwards,
    Downwards,
}

/// How far the stacks of an engine's runs may grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent(usize);

impl Extent {
    /// As a host asks for: 0 is the default.
    pub(crate) fn of(stack_bytes: usize) -> Self {
        let bytes = if stack_bytes == 0 { EXTENT } else { stack_bytes };
        // In whole pages, large ones too.
        Extent(bytes.clamp(EXTENT_MIN, Region::BYTES_MAX) & !(EXTENT_STEP - 1))
    }

    /// How far the stacks of a run can grow that may hold so many bytes.
    pub(crate) fn within(self, live_bytes: u64) -> Extent {
        /// More than the margin of a bank, and than what doesn't count of a native stack.
        const UNCOUNTED: usize = 3 * EXTENT_STEP;
        let live_bytes = usize::try_from(live_bytes).unwrap_or(usize::MAX);
        Extent(self.0.min(live_bytes.saturating_add(UNCOUNTED).max(EXTENT_MIN) & !(EXTENT_STEP - 1)))
    }
}

/// Whether stacks are to be given [`Stack::shrink`] when their run has ended.
pub(crate) fn is_much_kept() -> bool {
    system::is_much_kept()
}

/// Runs what takes much memory from the system and may be refused, so that it doesn't take the last that there is:
/// where others get none, the process ends.
pub(crate) fn leaving_some<R>(take: impl FnOnce() -> Option<R>) -> Option<R> {
    system::leaving_some(take)
}

/// Makes room for one more in a stack that is a vector.
#[cold]
#[inline(never)]
pub(crate) fn grow_vector<T>(stack: &mut Vec<T>) -> Result<(), Limit> {
    leaving_some(|| stack.try_reserve(1).ok()).ok_or(Limit::AddressSpace)
}

/// Whether the system has refused something in this process. Then nothing is kept from run to run that isn't used.
pub(crate) fn is_scarce() -> bool {
    system::is_scarce()
}

/// How much of a bank's stack a run may use, and what of it counts: in cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    room: usize,
    counted: usize,
}

/// How far down a run may use a native stack, and what of that counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NativeRoom {
    limit: usize,
    counted: usize,
}

/// The stack of a bank: cells that hold any bit pattern.
#[derive(Debug)]
pub(crate) struct Stack<T> {
    extent: Extent,
    region: Option<Region>,
    /// How far the region was to be able to grow; 0 if there is none, or if another one might do better.
    asked: usize,
    /// The first cell; dangling before the first run.
    start: *mut T,
    /// How many cells there are for runs.
    present: usize,
    /// How many of the cells this run may use.
    room: usize,
    /// How many count as memory of the run: the room, if the system had refused nothing.
    counted: usize,
    cells: PhantomData<T>,
}

impl<T: Copy> Stack<T> {
    pub(crate) fn new(extent: Extent) -> Self {
        let start = std::ptr::NonNull::dangling().as_ptr();
        Stack { extent, region: None, asked: 0, start, present: 0, room: 0, counted: 0, cells: PhantomData }
    }

    /// Begins a run in which the stack may have to grow so far. If the system gives no address space, it stays without
    /// room.
    #[inline]
    pub(crate) fn begin(&mut self, most: Extent) {
        (self.room, self.counted) = (0, 0);
        if most.0 > self.asked {
            self.take_place(most.0);
        }
    }

    #[cold]
    fn take_place(&mut self, most: usize) {
        (self.region, self.present) = (None, 0);
        self.region = Region::open(most, Direction::Upwards);
        if let Some(region) = &self.region {
            (self.start, self.asked) = (region.start().cast(), most);
            self.present = region.bytes() / size_of::<T>() - MARGIN;
        }
    }

    pub(crate) fn extent(&self) -> Extent {
        self.extent
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
        (self.counted * size_of::<T>()) as u64
    }

    /// The room, to which [`Stack::leave`] goes back.
    #[inline(always)]
    pub(crate) fn room(&self) -> Room {
        Room { room: self.room, counted: self.counted }
    }

    /// Gives up the room that was made since.
    pub(crate) fn leave(&mut self, Room { room, counted }: Room) {
        (self.room, self.counted) = (room, counted);
    }

    /// Makes room for the first cells of a run, as [`Stack::grow`] does.
    #[inline]
    pub(crate) fn open(&mut self, cells: usize, live_bytes: u64) -> Result<(), Limit> {
        debug_assert_eq!(self.room, 0, "the run begins");
        if cells == 0 {
            return Ok(());
        }
        if cells <= ROOM_MIN && self.present >= ROOM_MIN {
            (self.room, self.counted) = (ROOM_MIN, ROOM_MIN);
            return Ok(());
        }
        self.grow(self.start.wrapping_add(cells), live_bytes)
    }

    /// Makes room for cells up to `end`, which is in or above the stack, in a run whose stacks may hold so many bytes.
    #[cold]
    pub(crate) fn grow(&mut self, end: *mut T, live_bytes: u64) -> Result<(), Limit> {
        let len = end.addr().saturating_sub(self.start.addr()).div_ceil(size_of::<T>());
        let cells = self.extent.0 / size_of::<T>() - MARGIN;
        if len > cells {
            return Err(if (len * size_of::<T>()) as u64 > live_bytes { Limit::LiveBytes } else { Limit::StackBytes });
        }
        if len > self.counted {
            self.counted = len.max(2 * self.counted).max(ROOM_MIN).min(cells);
        }
        if self.bytes() > live_bytes {
            return Err(Limit::LiveBytes);
        }
        if self.counted > self.present {
            self.extend(len)?;
        }
        self.room = self.counted.min(self.present);
        Ok(())
    }

    /// Takes address space for what is counted, if the system gives so much, at least for `len` cells.
    #[cold]
    fn extend(&mut self, len: usize) -> Result<(), Limit> {
        let bytes = |cells: usize| (cells + MARGIN) * size_of::<T>();
        let region = self.region.as_mut().ok_or(Limit::AddressSpace)?;
        if !region.grow(bytes(len), bytes(self.counted)) {
            self.asked = 0;
            return Err(Limit::AddressSpace);
        }
        self.present = region.bytes() / size_of::<T>() - MARGIN;
        Ok(())
    }

    /// Gives back what the stack didn't have before its first run. Nothing may be on it.
    pub(crate) fn shrink(&mut self) {
        (self.room, self.counted) = (0, 0);
        if let Some(region) = &mut self.region {
            region.shrink();
            self.present = region.bytes() / size_of::<T>() - MARGIN;
        }
    }
}

/// The stack that native code runs on. It grows downwards.
#[derive(Debug)]
pub(crate) struct NativeStack {
    extent: Extent,
    region: Option<Region>,
    /// How far the region was to be able to grow; 0 if there is none, or if another one might do better.
    asked: usize,
    /// How far it may have to grow in this run.
    most: Extent,
    /// Below this address a run may not go; grows downwards in steps.
    limit: usize,
    /// What this run has used of the stack or may use, if the system had refused nothing.
    counted: usize,
}

impl NativeStack {
    pub(crate) fn new(extent: Extent) -> Self {
        NativeStack { extent, region: None, asked: 0, most: extent, limit: usize::MAX, counted: 0 }
    }

    /// Begins a run in which it may have to grow so far.
    pub(crate) fn begin(&mut self, most: Extent) {
        self.most = most;
        self.empty();
    }

    fn empty(&mut self) {
        (self.limit, self.counted) = (self.top(), 0);
    }

    fn top(&self) -> usize {
        self.region.as_ref().map_or(usize::MAX, |region| region.start().addr() + region.bytes())
    }

    /// What counts of the room as memory of the run: the first part is there whether a program recurses or not.
    pub(crate) fn bytes(&self) -> u64 {
        self.counted.saturating_sub(FREE_BYTES) as u64
    }

    /// The address that native frames have to stay above.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Makes room down to `address`, in a run whose stacks may hold so many bytes.
    #[cold]
    pub(crate) fn grow(&mut self, address: usize, live_bytes: u64) -> Result<(), Limit> {
        let top = self.top();
        let (used, room) = (top - address, self.extent.0 - BELOW);
        if used > room {
            return Err(if used as u64 > live_bytes { Limit::LiveBytes } else { Limit::StackBytes });
        }
        if used > self.counted {
            self.counted = used.max(2 * self.counted).max(FREE_BYTES).min(room);
        }
        if self.bytes() > live_bytes {
            return Err(Limit::LiveBytes);
        }
        let region = self.region.as_mut().ok_or(Limit::AddressSpace)?;
        if self.counted + BELOW > region.bytes() && !region.grow(used + BELOW, self.counted + BELOW) {
            self.asked = 0;
            return Err(Limit::AddressSpace);
        }
        self.limit = top - self.counted.min(region.bytes() - BELOW);
        Ok(())
    }

    /// As [`Stack::room`].
    #[inline(always)]
    pub(crate) fn room(&self) -> NativeRoom {
        NativeRoom { limit: self.limit, counted: self.counted }
    }

    /// As [`Stack::leave`].
    pub(crate) fn leave(&mut self, NativeRoom { limit, counted }: NativeRoom) {
        (self.limit, self.counted) = (limit, counted);
    }

    /// Takes a place and address space, the first time, and makes the stack empty. Returns where it is.
    ///
    /// # Errors
    /// If the system gives no address space.
    pub(crate) fn open(&mut self) -> Result<Ground, Limit> {
        if self.most.0 > self.asked {
            self.take_place();
        }
        // The room that is free is there from the beginning, so that small runs need not ask for it.
        (self.limit, self.counted) = (self.top() - FREE_BYTES, FREE_BYTES);
        if self.region.is_some() { Ok(self.ground()) } else { Err(Limit::AddressSpace) }
    }

    #[cold]
    fn take_place(&mut self) {
        self.region = None;
        self.region = Region::open(self.most.0, Direction::Downwards);
        self.asked = if self.region.is_some() { self.most.0 } else { 0 };
    }

    /// Where the stack is; nowhere before it was opened.
    pub(crate) fn ground(&self) -> Ground {
        self.region.as_ref().map_or(Ground::NOWHERE, |region| Ground {
            start: region.start(),
            bytes: region.bytes(),
            lowest: self.top() - self.extent.0.min(region.bytes_max()) + BELOW,
        })
    }

    /// As [`Stack::shrink`].
    pub(crate) fn shrink(&mut self) {
        self.region.iter_mut().for_each(Region::shrink);
        self.empty();
    }
}

/// Where a native stack is. To run on a stack takes no more, so that whoever runs may use the [`NativeStack`]
/// meanwhile, and let it grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground {
    /// What there was of it when this was asked for.
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

    /// How much of the stack is in use; nothing if the running function stands elsewhere.
    pub(crate) fn bytes_in_use(self) -> usize {
        if self.is_here() { self.start.addr() + self.bytes - stack_pointer() } else { 0 }
    }

    /// Runs `body` here, from the top. Native code checks its room against [`NativeStack::limit`].
    ///
    /// # Safety
    /// The [`NativeStack`] is not dropped before `run` returns, and nobody else runs on it; `body` doesn't unwind.
    #[inline(always)]
    pub(crate) unsafe fn run<R>(self, body: impl FnOnce() -> R) -> R {
        // SAFETY: promised by the caller; the region is aligned to pages.
        unsafe { system::run_on(self.start, self.bytes, body) }
    }
}

#[cfg(all(test, unix, not(any(loom, miri, dualvm_plain_stacks))))]
mod tests;
