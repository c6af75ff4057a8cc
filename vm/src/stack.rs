//! The stacks of a run: address space that is reserved once and never moves, so that native code may keep pointers into
//! it, and that the system backs with memory only where it is touched.
//!
//! What a run may use of a stack is its *room*, which starts at nothing and grows by doubling, so that limits don't
//! depend on what ran before. Beyond the room there is a margin for what frames hand to each other: native frames keep
//! reals and integers in machine registers and pass arguments and results through the first cells above their base.

use crate::trap::Limit;
use memmap2::{MmapMut, MmapOptions};
use std::marker::PhantomData;
use std::ops::Range;

/// Address space of a stack, if the system grants it. Only touched pages take memory.
const RESERVED_BYTES: usize = 16 << 30;
/// The least that a stack may have to be of any use.
const RESERVED_BYTES_MIN: usize = 16 << 20;
/// Cells beyond the room: as many as an instruction can name registers.
const MARGIN: usize = 1 << 16;
/// The part of a native stack that is left to calls out of native code: the heap's evacuation, the interpreter.
pub(crate) const RED_ZONE: usize = 256 << 10;

/// The part of a native stack that doesn't count towards the limit on live memory.
const FREE_BYTES: usize = 256 << 10;
/// What is used of a stack first, in pages of the usual size.
const SMALL_PAGES_BYTES: usize = 2 << 20;

/// Where a stack begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Upwards,
    Downwards,
}

/// Reserves address space, half as much as before while the system refuses.
fn reserve(direction: Direction) -> Option<MmapMut> {
    let mut bytes = RESERVED_BYTES;
    while bytes >= RESERVED_BYTES_MIN {
        if let Ok(map) = MmapOptions::new().len(bytes).no_reserve_swap().map_anon() {
            prefer_large_pages(&map, direction);
            return Some(map);
        }
        bytes /= 2;
    }
    None
}

/// Deep recursions take large pages, if the system has any: they touch so much memory that most of the time would go
/// into finding its pages. The beginning of a stack doesn't, because small runs would pay for clearing it.
#[cfg(target_os = "linux")]
fn prefer_large_pages(map: &MmapMut, direction: Direction) {
    let offset = if direction == Direction::Upwards { SMALL_PAGES_BYTES } else { 0 };
    // It is advice: a refusal changes nothing.
    _ = map.advise_range(memmap2::Advice::HugePage, offset, map.len() - SMALL_PAGES_BYTES);
}

#[cfg(not(target_os = "linux"))]
fn prefer_large_pages(_: &MmapMut, _: Direction) {}

/// The stack of a bank: cells that hold any bit pattern.
#[derive(Debug)]
pub(crate) struct Stack<T> {
    map: Option<MmapMut>,
    /// The first cell; dangling before the first run.
    start: *mut T,
    /// How many of the cells this run may use.
    room: usize,
    cells: PhantomData<T>,
}

impl<T: Copy> Stack<T> {
    pub(crate) fn new() -> Self {
        Stack { map: None, start: std::ptr::NonNull::dangling().as_ptr(), room: 0, cells: PhantomData }
    }

    /// Begins a run. If the system gives no address space, the stack stays without room.
    pub(crate) fn begin(&mut self) {
        self.room = 0;
        if self.map.is_none() {
            self.map = reserve(Direction::Upwards);
            if let Some(map) = &mut self.map {
                self.start = map.as_mut_ptr().cast();
            }
        }
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

    /// Makes room for cells up to `end`, which is in or above the stack.
    #[cold]
    pub(crate) fn grow(&mut self, end: *mut T) -> Result<(), Limit> {
        let len = (end as usize).saturating_sub(self.start as usize).div_ceil(size_of::<T>());
        let reserved = self.map.as_ref().ok_or(Limit::LiveBytes)?.len();
        let cells = reserved / size_of::<T>() - MARGIN;
        if len > cells {
            return Err(Limit::LiveBytes);
        }
        self.room = len.max(2 * self.room).max(256).min(cells);
        Ok(())
    }
}

/// The stack that native code runs on. It grows downwards.
#[derive(Debug)]
pub(crate) struct NativeStack {
    map: Option<MmapMut>,
    /// Below this address a run may not go; grows downwards in steps.
    limit: usize,
}

impl NativeStack {
    pub(crate) fn new() -> Self {
        NativeStack { map: None, limit: usize::MAX }
    }

    /// Begins a run.
    pub(crate) fn begin(&mut self) {
        self.limit = self.top();
    }

    fn top(&self) -> usize {
        self.map.as_ref().map_or(usize::MAX, |map| map.as_ptr() as usize + map.len())
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
        self.map.as_ref().map_or(usize::MAX, |map| map.as_ptr() as usize + RED_ZONE)
    }

    /// The addresses where frames may stand.
    pub(crate) fn range(&self) -> Range<usize> {
        self.lowest()..self.top()
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

    /// Reserves the address space, the first time.
    ///
    /// # Errors
    /// If the system gives none.
    pub(crate) fn open(&mut self) -> Result<(), Limit> {
        if self.map.is_none() {
            self.map = Some(reserve(Direction::Downwards).ok_or(Limit::LiveBytes)?);
        }
        Ok(())
    }

    /// Runs `body` on this stack, from its top. Native code checks its room against [`NativeStack::limit`].
    ///
    /// # Errors
    /// If the system gives no address space.
    pub(crate) fn enter<R>(&mut self, body: impl FnOnce() -> R) -> Result<R, Limit> {
        self.open()?;
        self.limit = self.top();
        let map = self.map.as_mut().ok_or(Limit::LiveBytes)?;
        // SAFETY: the mapping is aligned to pages, is used by nothing else, and outlives the call; `body` doesn't
        // unwind: what may panic below it is caught before it comes here.
        Ok(unsafe { psm::on_stack(map.as_mut_ptr(), map.len(), body) })
    }
}
