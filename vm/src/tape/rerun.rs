//! The record of a derivative operator whose outcome depends on what the tape around it has recorded.
//!
//! No sweep is ever recorded. What such an operator has computed gets slots of the tape around it, and a record that
//! holds what it was given. The sweep of that tape runs the operator once more, at a greater depth
//! ([`crate::sweep::reruns`]).
//!
//! The record begins a stretch, as that of a fork does: a link to a [`RerunNode`] in the slabs.

use super::Tape;
use crate::code::OperatorSite;
use crate::host::{Saved, SavedCell};
use crate::memory::heap::Ref;
use crate::records::{Kind, link};
use crate::trap::Limit;
use crate::word::{Slot, Word};

/// A `vjp` that was recorded.
///
/// Lists are in the order of the operator's registers, captures, arguments, cotangents of the results; reals component
/// by component, as the function got them.
#[derive(Debug)]
pub(crate) struct RerunNode {
    /// Where the records before this one end.
    pub(crate) before: *const u8,
    /// The size of the record with all that belongs to it.
    pub(crate) bytes: u64,
    pub(crate) site: *const OperatorSite,
    /// The depth that the function ran at.
    pub(crate) depth: u32,
    /// Frames that may nest above.
    pub(crate) remaining: usize,
    /// See [`Repeat::digest`].
    pub(crate) digest: u64,
    /// What the operator was given.
    pub(crate) reals: *const f64,
    pub(crate) words: *const Word,
    pub(crate) ints: *const i64,
    pub(crate) refs: *const *const Ref,
    /// The first slot of what it gave: real results, then cotangents of real arguments, component by component.
    pub(crate) outcome: Slot,
    /// What a function of the host's has saved for its derivative; null if nothing.
    pub(crate) saved: *const Saved,
    /// The objects that it gave, in the same order. All of their reals have slots of the tape that this is on.
    pub(crate) given: *const *const Ref,
}

/// What the record has to know of how an operator has run and may run again.
#[derive(Debug)]
pub(crate) struct Repeat {
    /// Frames that may nest above.
    pub(crate) remaining: usize,
    /// About how many instructions it will take.
    pub(crate) work: u64,
    /// What the functions of the host's have given that it has called: a digest, the same when it runs again.
    pub(crate) digest: u64,
    /// What a function of the host's has saved for its derivative.
    pub(crate) saved: Option<SavedCell>,
}

/// Lists of the node of a rerun, to be filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RerunLists {
    pub(crate) reals: *mut f64,
    pub(crate) words: *mut Word,
    pub(crate) ints: *mut i64,
    pub(crate) refs: *mut *const Ref,
    pub(crate) given: *mut *const Ref,
    node: *mut RerunNode,
    before: *const u8,
    bytes: u64,
}

impl Tape {
    /// Begins the record of an operator that was given so many registers, and gave so many objects.
    pub(crate) fn open_rerun(&mut self, [reals, ints, refs, given]: [usize; 4]) -> Result<RerunLists, Limit> {
        let of_reals = reals * (size_of::<f64>() + size_of::<Word>());
        let of_others = ints * size_of::<i64>() + (refs + given) * (size_of::<*const Ref>() + size_of::<Ref>());
        self.slabs.ask_for_time(of_reals)?;
        let before = self.close_stretch();
        Ok(RerunLists {
            node: self.list(1)?,
            reals: self.list(reals)?,
            words: self.list(reals)?,
            ints: self.list(ints)?,
            refs: self.list(refs)?,
            given: self.list(given)?,
            before,
            bytes: (size_of::<RerunNode>() + of_reals + of_others + link::BYTES) as u64,
        })
    }

    /// Ends the record.
    ///
    /// # Safety
    /// The lists are those of the last [`Tape::open_rerun`], nothing was recorded since, and they are complete.
    pub(crate) unsafe fn close_rerun(
        &mut self,
        lists: RerunLists,
        (site, depth): (*const OperatorSite, u32),
        outcome: Slot,
        Repeat { remaining, work, digest, saved }: Repeat,
    ) -> Result<(), Limit> {
        let RerunLists { reals, words, ints, refs, given, node, before, bytes } = lists;
        let saved = saved.map_or(std::ptr::null(), |saved| self.slabs.save(saved));
        // SAFETY: there is room for the node, which nobody else knows.
        unsafe {
            node.write(RerunNode {
                before,
                bytes,
                site,
                depth,
                remaining,
                digest,
                reals,
                words,
                ints,
                refs,
                outcome,
                saved,
                given,
            });
        }
        self.task.records += 1;
        self.task.bytes = self.task.bytes.wrapping_add(bytes);
        self.task.rerun_work = self.task.rerun_work.saturating_add(work.max(1));
        self.open_stretch(node.cast_const().cast(), Kind::Rerun)
    }
}
