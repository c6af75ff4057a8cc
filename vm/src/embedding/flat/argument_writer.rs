//! Arguments straight into the registers that they are the content of.

use crate::embedding::convert::Maker;
use crate::memory::heap::Ref;
use crate::running::registers::Registers;
use crate::trap::Limit;
use crate::word::Slot;

/// Writes the arguments of a run, in the order of the parameters.
///
/// They stand at the bottoms of the stacks, before there is any room for a frame: all that an instruction can name fits
/// into the margin above the room.
pub struct ArgumentWriter<'a> {
    maker: Maker<'a>,
    next: Registers,
    /// Whether reals have words.
    recording: bool,
}

impl<'a> ArgumentWriter<'a> {
    /// # Safety
    /// There are stacks, `bottom` is where they begin, and nothing is in use there. No more is written than a function
    /// has parameters.
    #[inline]
    pub(crate) unsafe fn new(maker: Maker<'a>, bottom: Registers, recording: bool) -> Self {
        ArgumentWriter { maker, next: bottom, recording }
    }

    /// See [`Maker::set_active`].
    #[inline]
    pub(crate) fn set_active(&mut self, active: bool) {
        self.maker.set_active(active);
    }

    #[inline]
    pub(crate) fn real(&mut self, x: f64) -> Result<(), Limit> {
        self.reals([Ok(x)].into_iter())
    }

    /// Reals that follow each other: nothing but copies, as long as nothing goes wrong.
    #[inline]
    pub(crate) fn reals<E: From<Limit>>(&mut self, xs: impl ExactSizeIterator<Item = Result<f64, E>>) -> Result<(), E> {
        let (mut next, mut slot) = (self.next, Slot::NONE);
        if self.recording {
            slot = self.maker.slots(xs.len())?;
        }
        // Constants stay at slot 0.
        let step = u32::from(!slot.is_none());
        for x in xs {
            // SAFETY: there is a place for each argument, with a word in a recording run.
            unsafe {
                *next.reals = x?;
                next.reals = next.reals.add(1);
                if self.recording {
                    *next.words = slot.into();
                    next.words = next.words.add(1);
                    slot = slot.offset(step);
                }
            }
        }
        self.next = next;
        Ok(())
    }

    #[inline]
    pub(crate) fn int(&mut self, n: i64) {
        // SAFETY: there is a place for each argument.
        unsafe {
            *self.next.ints = n;
            self.next.ints = self.next.ints.add(1);
        }
    }

    pub(crate) fn real_array(&mut self, xs: &[f64]) -> Result<(), Limit> {
        let array = self.maker.real_array(xs)?;
        self.object(array);
        Ok(())
    }

    pub(crate) fn int_array(&mut self, ns: &[i64]) -> Result<(), Limit> {
        let array = self.maker.int_array(ns)?;
        self.object(array);
        Ok(())
    }

    pub(crate) fn real_list(&mut self, xs: &[f64]) -> Result<(), Limit> {
        let list = self.maker.real_list::<Limit>(xs.len(), |n| Ok(xs[n]))?;
        self.object(list);
        Ok(())
    }

    pub(crate) fn int_list(&mut self, ns: &[i64]) -> Result<(), Limit> {
        let list = self.maker.int_list(ns)?;
        self.object(list);
        Ok(())
    }

    fn object(&mut self, object: Ref) {
        // SAFETY: there is a place for each argument.
        unsafe {
            *self.next.refs = object;
            self.next.refs = self.next.refs.add(1);
        }
    }
}
