//! Room on the stacks of a strand: made before a frame or what is handed over needs it, and counted as live memory.

use super::{Frame, Interp, Registers};
use crate::code::Stream;
use crate::memory::stack::Ground;
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

    /// Makes room for registers up to `end`.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow(&mut self, end: &Registers) -> Result<(), Limit> {
        if end.reals > self.reals.end() {
            self.reals.grow(end.reals)?;
        }
        if end.words > self.words.end() {
            self.words.grow(end.words)?;
        }
        if end.ints > self.ints.end() {
            self.ints.grow(end.ints)?;
        }
        if end.refs > self.refs.end() {
            self.refs.grow(end.refs)?;
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
            self.native_stack.grow(address)?;
            self.native_limit = self.native_stack.limit();
        }
        self.check_stacks()
    }

    fn check_stacks(&mut self) -> Result<(), Limit> {
        let bytes = self.measure_stacks();
        let before = std::mem::replace(&mut self.stack_bytes, bytes);
        self.heap.changed(self.stack_bytes.wrapping_sub(before) as i64);
        if self.stack_bytes > self.live_bytes_max { Err(Limit::LiveBytes) } else { Ok(()) }
    }
}
