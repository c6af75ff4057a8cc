//! Room on the stacks of a worker: made before a frame or what is handed over needs it, and counted as live memory.

use super::interp::Caller;
use super::registers::Registers;
use super::worker::Worker;
use crate::code::{Counts, Stream};
use crate::memory::heap::Ref;
use crate::memory::stack::{self, Extent, Ground, NativeRoom, NativeStack, Room, Stack, stack_pointer};
use crate::trap::Limit;
use crate::word::Word;

/// The stacks of a worker.
#[derive(Debug)]
pub(crate) struct Stacks {
    pub(crate) reals: Stack<f64>,
    pub(crate) words: Stack<Word>,
    pub(crate) ints: Stack<i64>,
    pub(crate) refs: Stack<Ref>,
    pub(crate) native: NativeStack,
    /// What of them counts as live memory of the run.
    pub(crate) bytes: u64,
    /// The end of the room of the references' stack, for native code.
    pub(crate) refs_end: *mut Ref,
    /// The address that native frames have to stay above.
    pub(crate) native_limit: usize,
}

/// The rooms of all stacks of a worker.
pub(super) struct Rooms {
    reals: Room,
    words: Room,
    ints: Room,
    refs: Room,
    native: NativeRoom,
    bytes: u64,
}

// SAFETY: the pointer leads to what is the stacks' own.
unsafe impl Send for Stacks {}

impl Stacks {
    pub(super) fn new(extent: Extent) -> Self {
        Stacks {
            reals: Stack::new(extent),
            words: Stack::new(extent),
            ints: Stack::new(extent),
            refs: Stack::new(extent),
            native: NativeStack::new(extent),
            bytes: 0,
            refs_end: std::ptr::null_mut(),
            native_limit: usize::MAX,
        }
    }

    /// Begins a run whose stacks may hold so many bytes.
    pub(super) fn begin(&mut self, live_bytes_max: u64) {
        let most = self.reals.extent().within(live_bytes_max);
        self.reals.begin(most);
        self.words.begin(most);
        self.ints.begin(most);
        self.refs.begin(most);
        self.native.begin(most);
        (self.bytes, self.refs_end, self.native_limit) = (0, self.refs.end(), usize::MAX);
    }

    /// Whether the system has given all stacks that arguments may be written to.
    pub(crate) fn are_there(&self) -> bool {
        self.reals.is_there() && self.words.is_there() && self.ints.is_there() && self.refs.is_there()
    }

    /// The bottoms of the stacks.
    pub(super) fn bottom(&self) -> Registers {
        Registers {
            reals: self.reals.start(),
            words: self.words.start(),
            ints: self.ints.start(),
            refs: self.refs.start(),
        }
    }

    /// The rooms, to which [`Worker::leave_rooms`] goes back.
    #[inline(always)]
    pub(super) fn rooms(&self) -> Rooms {
        Rooms {
            reals: self.reals.room(),
            words: self.words.room(),
            ints: self.ints.room(),
            refs: self.refs.room(),
            native: self.native.room(),
            bytes: self.bytes,
        }
    }

    /// Gives back what the stacks have grown by. No run stands on them.
    pub(super) fn shrink(&mut self) {
        self.reals.shrink();
        self.words.shrink();
        self.ints.shrink();
        self.refs.shrink();
        self.native.shrink();
    }
}

impl Worker {
    fn measure_stacks(&self) -> u64 {
        let frames = (self.callers.len().next_power_of_two() * size_of::<Caller>()) as u64;
        let banks =
            self.stacks.reals.bytes() + self.stacks.words.bytes() + self.stacks.ints.bytes() + self.stacks.refs.bytes();
        banks + self.stacks.native.bytes() + frames
    }

    /// Makes room for a frame that begins at `base`.
    #[inline(always)]
    pub(super) fn reserve<const RECORD: bool>(&mut self, base: &Registers, stream: &Stream) -> Result<(), Limit> {
        let end = Registers {
            reals: base.reals.wrapping_add(stream.reals),
            words: if RECORD { base.words.wrapping_add(stream.reals) } else { base.words },
            ints: base.ints.wrapping_add(stream.ints),
            refs: base.refs.wrapping_add(stream.refs),
        };
        if end.reals > self.stacks.reals.end()
            || end.ints > self.stacks.ints.end()
            || end.refs > self.stacks.refs.end()
            || (RECORD && end.words > self.stacks.words.end())
        {
            self.grow(&end)?;
        }
        Ok(())
    }

    /// Puts a frame aside while its callee runs.
    #[inline(always)]
    pub(super) fn push_caller(&mut self, caller: Caller) -> Result<(), Limit> {
        let len = self.callers.len();
        if len == self.callers.capacity() {
            stack::grow_vector(&mut self.callers)?;
        }
        // SAFETY: there is room for one more.
        unsafe {
            self.callers.as_mut_ptr().add(len).write(caller);
            self.callers.set_len(len + 1);
        }
        Ok(())
    }

    /// Makes room for the first frame of a run: what [`Worker::reserve`] would make, at once.
    #[inline(always)]
    pub(super) fn reserve_first(&mut self, counts: &Counts, recording: bool) -> Result<(), Limit> {
        let live_bytes = self.exec.live_bytes_max;
        self.stacks.reals.open(counts.reals, live_bytes)?;
        self.stacks.words.open(if recording { counts.reals } else { 0 }, live_bytes)?;
        self.stacks.ints.open(counts.ints, live_bytes)?;
        self.stacks.refs.open(counts.refs, live_bytes)?;
        self.stacks.refs_end = self.stacks.refs.end();
        if counts.reals | counts.ints | counts.refs == 0 { Ok(()) } else { self.check_stacks() }
    }

    /// Makes room for registers up to `end`.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow(&mut self, end: &Registers) -> Result<(), Limit> {
        let live_bytes = self.exec.live_bytes_max;
        if end.reals > self.stacks.reals.end() {
            self.stacks.reals.grow(end.reals, live_bytes)?;
        }
        if end.words > self.stacks.words.end() {
            self.stacks.words.grow(end.words, live_bytes)?;
        }
        if end.ints > self.stacks.ints.end() {
            self.stacks.ints.grow(end.ints, live_bytes)?;
        }
        if end.refs > self.stacks.refs.end() {
            self.stacks.refs.grow(end.refs, live_bytes)?;
            self.stacks.refs_end = self.stacks.refs.end();
        }
        self.check_stacks()
    }

    /// Empties the native stack. Returns where it is.
    pub(super) fn open_native(&mut self) -> Result<Ground, Limit> {
        let ground = self.stacks.native.open()?;
        self.stacks.native_limit = self.stacks.native.limit();
        Ok(ground)
    }

    /// Makes room on the native stack down to `address`.
    #[cold]
    pub(crate) fn grow_native(&mut self, address: usize) -> Result<(), Limit> {
        if address < self.stacks.native.limit() {
            self.stacks.native.grow(address, self.exec.live_bytes_max)?;
            self.stacks.native_limit = self.stacks.native.limit();
        }
        self.check_stacks()
    }

    /// Whether another execution may run on the native stack, where the running function is, while this one waits. If
    /// so, there is room for it as for a fork.
    pub(super) fn has_room_here(&mut self) -> bool {
        let here = stack_pointer();
        self.stacks.native.ground().is_here() && (here >= self.stacks.native_limit || self.grow_native(here).is_ok())
    }

    /// Gives up the room that a task has made, which has ended: what counts of the stacks is the same then, whoever ran
    /// the task.
    #[inline(always)]
    pub(super) fn leave_rooms(&mut self, rooms: &Rooms) {
        if self.stacks.bytes != rooms.bytes {
            self.give_up(rooms);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_up(&mut self, rooms: &Rooms) {
        let stacks = &mut self.stacks;
        stacks.reals.leave(rooms.reals);
        stacks.words.leave(rooms.words);
        stacks.ints.leave(rooms.ints);
        stacks.refs.leave(rooms.refs);
        stacks.native.leave(rooms.native);
        (stacks.refs_end, stacks.native_limit) = (stacks.refs.end(), stacks.native.limit());
        let more = std::mem::replace(&mut stacks.bytes, rooms.bytes);
        self.exec.heap.changed(rooms.bytes.wrapping_sub(more) as i64);
    }

    fn check_stacks(&mut self) -> Result<(), Limit> {
        let bytes = self.measure_stacks();
        let before = std::mem::replace(&mut self.stacks.bytes, bytes);
        self.exec.heap.changed(self.stacks.bytes.wrapping_sub(before) as i64);
        let too_much = self.stacks.bytes > self.exec.live_bytes_max || self.exec.heap.is_too_much_held();
        if too_much { Err(Limit::LiveBytes) } else { Ok(()) }
    }
}
