//! How a real depends on what was recorded: its word, the slot that the word is, and the task whose slot that is.
//!
//! While recording, every real has a *word*: the slot under which its adjoint is collected, or the word of a constant.
//! A word doesn't say on whose tape: in a register it is the running task's, in an object it is that of the object's
//! *owner*, who is asked first. It is a slot and nothing else. Should several levels be open at once, the owner says
//! which one it is, too (`docs/objects.md`).
//!
//! All three are plain numbers in memory, which native code reads and writes: words and owners take 8 bytes, slots 4.

use crate::tape::TaskNode;

/// A derivative word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Word(u64);

impl Word {
    /// The word of a constant.
    pub(crate) const CONSTANT: Word = Word(0);

    /// Whether it is that of a constant.
    #[inline(always)]
    pub(crate) const fn is_constant(self) -> bool {
        self.0 == 0
    }

    /// The slot that it is; [`Slot::NONE`] for constants.
    #[inline(always)]
    pub(crate) const fn slot(self) -> Slot {
        debug_assert!(self.0 >> 32 == 0, "a word is a slot");
        Slot(self.0 as u32)
    }

    /// The number that native code knows it by.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }
}

impl From<Slot> for Word {
    #[inline(always)]
    fn from(slot: Slot) -> Self {
        Word(slot.0 as u64)
    }
}

/// Whether these words are slots that follow one another.
pub(crate) fn are_consecutive(words: &[Word]) -> bool {
    // Many are looked at before it is decided, so that several are looked at together.
    const TOGETHER: usize = 64;
    let Some(&first) = words.first() else { return true };
    (first.0..).step_by(TOGETHER).zip(words.chunks(TOGETHER)).all(|(first, words)| {
        let expected = |n: usize| first + n as u64;
        words.iter().enumerate().fold(0, |differing, (n, word)| differing | (word.0 ^ expected(n))) == 0
    })
}

/// A place among the adjoints of a tape. The first one belongs to constants: whatever is added there is never read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    /// That of constants, which is nobody's.
    pub(crate) const NONE: Slot = Slot(0);

    /// Whether it is that of constants.
    #[inline(always)]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The place in the list of adjoints.
    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The slot so many places further.
    #[inline(always)]
    pub(crate) const fn offset(self, n: u32) -> Slot {
        Slot(self.0 + n)
    }

    /// The slot so many places further, modulo 2³²: where a part of an array was imported, its first slot is counted
    /// from that part, and may be below 0.
    #[inline(always)]
    pub(crate) const fn wrapping_offset(self, n: i64) -> Slot {
        Slot(self.0.wrapping_add(n as u32))
    }

    /// The slot of the n-th of consecutive reals of which this is the first one's: all are constants if that one is.
    #[inline(always)]
    pub(crate) const fn element(self, n: usize) -> Slot {
        if self.is_none() { Slot::NONE } else { self.offset(n as u32) }
    }

    /// This slot and those after it.
    #[inline]
    pub(crate) fn onwards(self) -> impl Iterator<Item = Slot> {
        (self.0..).map(Slot)
    }
}

/// The task whose slots an object's words are: the address of its [`TaskNode`], which outlives the object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Owner(u64);

impl Owner {
    /// The owner of an object that is constant, with all that it refers to.
    pub(crate) const NOBODY: Owner = Owner(0);

    /// A task as an owner; null is nobody.
    #[inline(always)]
    pub(crate) fn of(task: *const TaskNode) -> Owner {
        Owner(task.expose_provenance() as u64)
    }

    /// Whether it is the owner of what is constant.
    #[inline(always)]
    pub(crate) const fn is_nobody(self) -> bool {
        self.0 == 0
    }

    /// The level that it belongs to: the first task of it, as an owner. It isn't nobody.
    ///
    /// # Safety
    /// The task is there.
    #[inline]
    pub(crate) unsafe fn level(self) -> Owner {
        // SAFETY: promised by the caller.
        Owner::of(unsafe { (*self.task()).level })
    }

    /// The task; null for nobody.
    #[inline(always)]
    pub(crate) fn task(self) -> *const TaskNode {
        std::ptr::with_exposed_provenance(self.0 as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_are_consecutive_if_none_is_out_of_line() {
        for len in [0, 1, 2, 63, 64, 65, 129] {
            let words: Vec<Word> = (7..7 + len as u64).map(Word).collect();
            assert!(are_consecutive(&words), "{len}");
            for place in 1..len {
                let mut words = words.clone();
                words[place] = Word::CONSTANT;
                assert!(!are_consecutive(&words), "{len}, {place}");
            }
        }
    }
}
