//! Where everything stands: the parts of a loop's record, and what of them is in which register when its adjoint runs.

use super::LoopCode;
use crate::records::{Numbers, TRAILER_BYTES};
use crate::word::Slot;

/// Where the parts of a loop's record stand that follow the entries in its last slab, in bytes from the first of them:
///
/// ```text
/// entries of the iterations │ saved reals (8 bytes each) │ saved integers, cells of kept arrays (8)
///     │ slots of the inputs (4) │ first slots of the arrays (4) │ first slot of what was pushed (4)
///     │ iterations in all (8) │ entries here (4) │ trailer
/// ```
///
/// An entry is what is saved of one iteration; all entries of a loop have one size, which may be 0, and then there are
/// none. The first slot of what was pushed is there if the loop pushes anything that can be active, and 0 if it isn't.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LoopLayout {
    /// What is saved of an iteration.
    pub entry: Numbers,
    /// What is saved once.
    pub once: Numbers,
    /// How many inputs there are.
    pub inputs: usize,
    /// How many arrays there are.
    pub arrays: usize,
    /// Whether there is a first slot of what was pushed.
    pub pushed: bool,
}

impl LoopLayout {
    /// Where the n-th slot stands: those of inputs, first ones of arrays, that of what was pushed.
    pub const fn slot(self, n: usize) -> usize {
        self.once.bytes() + 4 * n
    }

    /// Which of the slots is the first one of the n-th array.
    pub const fn array(self, n: usize) -> usize {
        self.inputs + n
    }

    /// Which of the slots is the first one of what was pushed.
    pub const fn pushed(self) -> Option<usize> {
        if self.pushed { Some(self.inputs + self.arrays) } else { None }
    }

    /// Where the number of iterations stands.
    pub const fn iterations(self) -> usize {
        self.slot(self.inputs + self.arrays + self.pushed as usize)
    }

    /// Where the number of entries in this slab stands.
    pub const fn entries(self) -> usize {
        self.iterations() + 8
    }

    /// Where the trailer stands.
    pub const fn trailer(self) -> usize {
        self.entries() + 4
    }

    /// The size of it all.
    pub const fn tail_bytes(self) -> usize {
        self.trailer() + TRAILER_BYTES
    }
}

/// The parts of a loop's record but its entries, found from its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopTail {
    pub(crate) iterations: u64,
    /// Entries in the same slab.
    pub(crate) entries: u32,
    /// What was saved once. The entries end here.
    pub(crate) once: *const u8,
    /// Slots of inputs, first slots of arrays, first slot of what was pushed. Nothing of this is aligned.
    pub(crate) slots: *const Slot,
}

impl LoopTail {
    /// # Safety
    /// `trailer` is that of a record of this loop.
    pub(crate) unsafe fn read(code: &LoopCode, trailer: *const u32) -> LoopTail {
        let layout = code.layout;
        // SAFETY: promised by the caller: the record's parts stand where the layout says.
        unsafe {
            let once = trailer.cast::<u8>().sub(layout.trailer());
            let iterations = once.add(layout.iterations()).cast::<u64>().read_unaligned();
            let entries = once.add(layout.entries()).cast::<u32>().read_unaligned();
            LoopTail { iterations, entries, once, slots: once.add(layout.slot(0)).cast() }
        }
    }

    /// Where the entries start that stand in the same slab.
    ///
    /// # Safety
    /// The tail is that of a record of this loop.
    pub(crate) unsafe fn start(&self, code: &LoopCode) -> *const u8 {
        // SAFETY: promised by the caller: so many stand there.
        unsafe { self.once.sub(code.entry_bytes() * self.entries as usize) }
    }
}

/// The frame that a loop's adjoint runs on. Its real registers are, in this order: adjoints of the state; sums of the
/// contributions to inputs that the loop doesn't change; reals saved once; reals saved per iteration; what the code
/// computes. Integer registers: integers saved once, induction registers first; cells of kept arrays; integers saved
/// per iteration; what the code computes. The first two groups of reals, and what was saved once and computed by the
/// prologue, last from one iteration to the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LoopFrame {
    /// How many real registers begin at zero: the first two groups.
    pub cleared: usize,
    /// What is saved once.
    pub(super) once: Numbers,
}

impl LoopFrame {
    /// Where what was saved once begins: real and integer register.
    pub const fn once(self) -> [usize; 2] {
        [self.cleared, 0]
    }

    /// Where what was saved of an iteration begins: real and integer register.
    pub const fn entry(self) -> [usize; 2] {
        [self.cleared + self.once.reals, self.once.ints]
    }
}
