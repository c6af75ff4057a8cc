//! Room on the stacks of a strand: made before a frame or what is handed over needs it, and counted as live memory.

use super::{Frame, Interp, Registers};
use crate::code::Stream;
use crate::memory::stack::{self, Ground, stack_pointer};
use crate::trap::Limit;

impl Interp {
    fn measure_stacks(&self) -> u64 {
        let frames = (self.frames.len().next_power_of_two() * size_of::<Frame>()) as u64;
        let banks = self.reals.bytes() + self.words.bytes() + self.ints.bytes() + self.refs.bytes();
        banks + self.native_stack.bytes() + frames
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
        if end.reals > self.reals.end()
            || end.ints > self.ints.end()
            || end.refs > self.refs.end()
            || (RECORD && end.words > self.words.end())
        {
            self.grow(&end)?;
        }
        Ok(())
    }

    /// Leaves a frame while its callee runs.
    #[inline(always)]
    pub(super) fn leave(&mut self, frame: Frame) -> Result<(), Limit> {
        let len = self.frames.len();
        if len == self.frames.capacity() {
            stack::grow_vector(&mut self.frames)?;
        }
        // SAFETY: there is room for one more.
        unsafe {
            self.frames.as_mut_ptr().add(len).write(frame);
            self.frames.set_len(len + 1);
        }
        Ok(())
    }

    /// Makes room for the first frame of a run: what [`Interp::reserve`] would make, at once.
    #[inline]
    pub(super) fn reserve_first(&mut self, stream: &Stream, recording: bool) -> Result<(), Limit> {
        let live_bytes = self.live_bytes_max;
        self.reals.open(stream.reals, live_bytes)?;
        self.words.open(if recording { stream.reals } else { 0 }, live_bytes)?;
        self.ints.open(stream.ints, live_bytes)?;
        self.refs.open(stream.refs, live_bytes)?;
        self.refs_end = self.refs.end();
        if stream.reals | stream.ints | stream.refs == 0 { Ok(()) } else { self.check_stacks() }
    }

    /// Makes room for registers up to `end`.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow(&mut self, end: &Registers) -> Result<(), Limit> {
        let live_bytes = self.live_bytes_max;
        if end.reals > self.reals.end() {
            self.reals.grow(end.reals, live_bytes)?;
        }
        if end.words > self.words.end() {
            self.words.grow(end.words, live_bytes)?;
        }
        if end.ints > self.ints.end() {
            self.ints.grow(end.ints, live_bytes)?;
        }
        if end.refs > self.refs.end() {
            self.refs.grow(end.refs, live_bytes)?;
            self.refs_end = self.refs.end();
        }
        self.check_stacks()
    }

    /// Empties the native stack. Returns where it is.
    pub(super) fn open_native(&mut self) -> Result<Ground, Limit> {
        let ground = self.native_stack.open()?;
        self.native_limit = self.native_stack.limit();
        Ok(ground)
    }

    /// Makes room on the native stack down to `address`.
    #[cold]
    pub(crate) fn grow_native(&mut self, address: usize) -> Result<(), Limit> {
        if address < self.native_stack.limit() {
            self.native_stack.grow(address, self.live_bytes_max)?;
            self.native_limit = self.native_stack.limit();
        }
        self.check_stacks()
    }

    /// Whether another strand may run on the native stack, where the running function is, while this one waits. If so,
    /// there is room for it as for a fork.
    pub(super) fn has_room_here(&mut self) -> bool {
        let here = stack_pointer();
        self.native_stack.ground().is_here() && (here >= self.native_limit || self.grow_native(here).is_ok())
    }

    /// Gives back what the stacks have grown by. No run stands on them.
    pub(crate) fn shrink_stacks(&mut self) {
        self.reals.shrink();
        self.words.shrink();
        self.ints.shrink();
        self.refs.shrink();
        self.native_stack.shrink();
        self.frames = Vec::new();
    }

    fn check_stacks(&mut self) -> Result<(), Limit> {
        let bytes = self.measure_stacks();
        let before = std::mem::replace(&mut self.stack_bytes, bytes);
        self.heap.changed(self.stack_bytes.wrapping_sub(before) as i64);
        if self.stack_bytes > self.live_bytes_max { Err(Limit::LiveBytes) } else { Ok(()) }
    }
}
