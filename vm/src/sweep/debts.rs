//! What a sweep owes: adjoints of imports, on their way to the tapes that they were imported from.
//!
//! Only the sweep of a tape adds to the adjoints of that tape. A task that meets the record of an import knows the
//! import's whole adjoint, because a slot has no use before its creation, and owes it to the owner. Where the owner is
//! a task below, whose sweep has not begun, the debtor puts the debt into the owner's [`Inbox`]. Any other debt
//! travels upwards, as the sweep leaves one task after the other, to the nearest common ancestor of debtor and owner
//! ([`crate::tape::payer`]). If that is the owner, it adds the debt; if not, the owner is below an earlier fork of it,
//! and gets it in its inbox. An inbox is emptied when its owner's sweep begins.
//!
//! Why this is right: a task's slot is visible to the task itself, to tasks that it forks later, and to what follows
//! its end in its ancestors and in tasks that these fork. All of them come after the slot in the order of the program,
//! and none runs in parallel to it. The sweep is the same graph reversed, so all of them are swept before it: every
//! adjoint is complete when it is read, and an inbox has one writer at a time, an ancestor in control, below which
//! nothing runs.
//!
//! Why the bits don't depend on the schedule: debts of one task are listed in the order of its sweep; lists and ranges
//! of two halves of a fork are merged left before right, whichever was swept first; and inboxes are filled by tasks
//! that come one after the other on one way to the root.
//!
//! What it costs: a debt of one slot is 16 bytes; where two lists meet, the shorter one is copied to an end of the
//! longer one, so that it is moved a logarithmic number of times at most, and only where halves are alike. A range
//! travels as a buffer, and where two of the same meet, they become one, so that there are as many buffers as there are
//! halves of forks that are being swept or wait for their other half: with the heavier half first, the number of
//! threads times the logarithm of the number of tasks. Finding the ancestor is logarithmic in the depth and done once
//! for a row of imports with one owner.

use super::stages::Stages;
use super::{Buffers, OpenTask};
use crate::sync::UnsafeCell;
use crate::tape::{Payer, TaskNode, payer};
use crate::word::Slot;
use std::collections::{BTreeMap, VecDeque};

/// An adjoint that is owed to a slot of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Debt {
    /// The owner's number in preorder.
    owner: u32,
    pub(super) slot: Slot,
    pub(super) value: f64,
}

/// Adjoints of a range of slots. Counted while it lives.
#[derive(Debug)]
pub(super) struct Buffer<'a> {
    pub(super) values: Box<[f64]>,
    buffers: &'a Buffers,
}

impl<'a> Buffer<'a> {
    fn new(values: &[f64], buffers: &'a Buffers) -> Self {
        buffers.opened(values.len());
        Buffer { values: values.into(), buffers }
    }

    fn add(&mut self, other: &[f64]) {
        for (sum, value) in self.values.iter_mut().zip(other) {
            *sum += value;
        }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        self.buffers.closed(self.values.len());
    }
}

/// What others owe to a task that waits for its sweep.
#[derive(Debug, Default)]
pub(super) struct Inbox<'a> {
    debts: Vec<(Slot, f64)>,
    /// By first slot and length.
    ranges: BTreeMap<(Slot, u32), Buffer<'a>>,
}

impl<'a> Inbox<'a> {
    fn take_range(&mut self, first: Slot, buffer: Buffer<'a>) {
        let key = (first, buffer.values.len() as u32);
        if let Some(known) = self.ranges.get_mut(&key) {
            known.add(&buffer.values);
        } else {
            self.ranges.insert(key, buffer);
        }
    }

    /// Adds everything to the adjoints of the owner.
    pub(super) fn empty(self, frame: &mut OpenTask<'_>) {
        for (slot, value) in self.debts {
            frame.add(slot, value);
        }
        for ((first, _), buffer) in self.ranges {
            frame.add_range(first, &buffer.values);
        }
    }
}

/// The inboxes of all tasks of a tree, by their numbers in preorder. None if nothing was imported.
#[derive(Debug, Default)]
pub(super) struct Inboxes<'a> {
    /// The number of the tree's own task.
    first: u32,
    boxes: Box<[UnsafeCell<Option<Box<Inbox<'a>>>>]>,
    pub(super) stages: Stages,
}

// SAFETY: an inbox has one user at a time, and forks and joins order them.
unsafe impl Sync for Inboxes<'_> {}
// SAFETY: what is in the boxes may go to any thread.
unsafe impl Send for Inboxes<'_> {}

impl<'a> Inboxes<'a> {
    pub(super) fn new(first: u32, tasks: usize) -> Self {
        let boxes = (0..tasks).map(|_| UnsafeCell::default()).collect();
        Inboxes { first, boxes, stages: Stages::new(first, tasks) }
    }

    /// For a run in which nothing was imported.
    pub(super) fn none(tasks: usize) -> Self {
        Inboxes { first: 0, boxes: Box::default(), stages: Stages::new(0, tasks) }
    }

    /// The first number that no task of the tree has.
    pub(super) fn end(&self) -> u32 {
        self.first + self.boxes.len() as u32
    }

    /// Whether they are those of a tree with a task of this number.
    pub(super) fn has(&self, task: u32) -> bool {
        (self.first..self.end()).contains(&task)
    }

    fn inbox(&self, task: u32) -> &UnsafeCell<Option<Box<Inbox<'a>>>> {
        &self.boxes[(task - self.first) as usize]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.boxes.is_empty()
    }

    /// Takes what others owe to a task.
    ///
    /// # Safety
    /// The caller is the task itself, whose sweep begins.
    pub(super) unsafe fn take(&self, task: u32) -> Option<Box<Inbox<'a>>> {
        // SAFETY: promised by the caller.
        self.inbox(task).with_mut(|inbox| unsafe { (*inbox).take() })
    }

    /// Lets `body` use the inbox of a task.
    ///
    /// # Safety
    /// The caller is an ancestor of the task, in control: nothing is swept below it.
    #[inline]
    pub(super) unsafe fn with<R>(&self, task: u32, body: impl FnOnce(&mut Inbox<'a>) -> R) -> R {
        // SAFETY: promised by the caller.
        self.inbox(task).with_mut(|inbox| body(unsafe { (*inbox).get_or_insert_default() }))
    }

    /// Leaves an adjoint to a task.
    ///
    /// # Safety
    /// As [`Inboxes::with`].
    pub(super) unsafe fn leave(&self, task: u32, slot: Slot, value: f64) {
        // SAFETY: promised by the caller.
        unsafe { self.with(task, |inbox| inbox.debts.push((slot, value))) };
    }
}

/// A range of slots that adjoints are owed to. Ordered by the payer's depth first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct RangeKey {
    depth: u32,
    owner: u32,
    first: Slot,
    len: u32,
}

/// Debts on their way up. Most sweeps have none, and hand that on: so it is small.
#[derive(Debug, Default)]
pub(super) struct Pending<'a>(Option<Box<Lists<'a>>>);

/// Debts by the depth of the ancestor that hands them on.
#[derive(Debug, Default)]
struct Lists<'a> {
    /// Those for one depth; most tasks owe to one.
    depth: u32,
    debts: VecDeque<Debt>,
    /// Those for other depths.
    others: BTreeMap<u32, VecDeque<Debt>>,
    ranges: BTreeMap<RangeKey, Buffer<'a>>,
}

/// Puts one list behind another.
fn append(mut first: VecDeque<Debt>, mut second: VecDeque<Debt>) -> VecDeque<Debt> {
    if first.len() >= second.len() {
        first.extend(second);
        return first;
    }
    second.reserve(first.len());
    first.into_iter().rev().for_each(|debt| second.push_front(debt));
    second
}

impl<'a> Lists<'a> {
    fn is_empty(&self) -> bool {
        self.debts.is_empty() && self.others.is_empty() && self.ranges.is_empty()
    }

    /// The list for a depth.
    fn list(&mut self, depth: u32) -> &mut VecDeque<Debt> {
        if self.debts.is_empty() && self.others.is_empty() {
            self.depth = depth;
        }
        if self.depth == depth { &mut self.debts } else { self.others.entry(depth).or_default() }
    }

    /// Out of line, because forks nest and their frames are many.
    #[inline(never)]
    fn merge(self, later: Lists<'a>) -> Lists<'a> {
        // The smaller map goes into the larger one; lists keep their order.
        let in_order = self.others.len() >= later.others.len();
        let (mut all, few) = if in_order { (self, later) } else { (later, self) };
        let mut take = |depth: u32, debts: VecDeque<Debt>| {
            if !debts.is_empty() {
                let list = all.list(depth);
                let known = std::mem::take(list);
                *list = if in_order { append(known, debts) } else { append(debts, known) };
            }
        };
        take(few.depth, few.debts);
        few.others.into_iter().for_each(|(depth, debts)| take(depth, debts));
        // Sums of two don't depend on their order.
        let (mut ranges, others) =
            if all.ranges.len() >= few.ranges.len() { (all.ranges, few.ranges) } else { (few.ranges, all.ranges) };
        for (key, buffer) in others {
            if let Some(known) = ranges.get_mut(&key) {
                known.add(&buffer.values);
            } else {
                ranges.insert(key, buffer);
            }
        }
        Lists { ranges, ..all }
    }
}

impl<'a> Pending<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|lists| lists.is_empty())
    }

    fn lists(&mut self) -> &mut Lists<'a> {
        self.0.get_or_insert_default()
    }

    /// Puts `later` behind these.
    #[inline]
    pub(super) fn merge(self, later: Pending<'a>) -> Pending<'a> {
        // What a task has handed on leaves empty lists.
        if self.is_empty() {
            return later;
        }
        match (self.0, later.0) {
            (Some(mut all), Some(later)) if !later.is_empty() => {
                *all = std::mem::take(&mut *all).merge(*later);
                Pending(Some(all))
            }
            (known, _) => Pending(known),
        }
    }

    /// Hands on what a task has to: to itself or to tasks below its earlier forks.
    ///
    /// # Safety
    /// The frame's task is in control, nothing below it is swept.
    #[inline(never)]
    pub(super) unsafe fn settle(&mut self, frame: &mut OpenTask<'_>, inboxes: &Inboxes<'a>) {
        let Some(lists) = &mut self.0 else { return };
        let (me, depth) = (frame.node.index, frame.node.depth);
        let due = if lists.depth == depth {
            std::mem::take(&mut lists.debts)
        } else {
            lists.others.remove(&depth).unwrap_or_default()
        };
        for debt in due {
            if debt.owner == me {
                frame.add(debt.slot, debt.value);
            } else {
                inboxes.stages.may_pay(frame.node, debt.owner);
                // SAFETY: promised by the caller.
                unsafe { inboxes.leave(debt.owner, debt.slot, debt.value) };
            }
        }
        if lists.ranges.is_empty() {
            return;
        }
        for (key, buffer) in lists.ranges.split_off(&RangeKey { depth, owner: 0, first: Slot::NONE, len: 0 }) {
            if key.owner == me {
                frame.add_range(key.first, &buffer.values);
            } else {
                inboxes.stages.may_pay(frame.node, key.owner);
                // SAFETY: promised by the caller.
                unsafe { inboxes.with(key.owner, |inbox| inbox.take_range(key.first, buffer)) };
            }
        }
    }
}

/// What the task that is swept owes so far, and to whom it owed last.
#[derive(Debug, Default)]
pub(super) struct Debts<'a> {
    pub(super) pending: Pending<'a>,
    last: Option<(*const TaskNode, u32, Payer)>,
}

impl<'a> Debts<'a> {
    /// Who pays for a debt of `debtor` to `owner`, and the owner's number.
    ///
    /// # Safety
    /// The owner is a task of the run other than the debtor, and tasks are numbered.
    unsafe fn payer(&mut self, debtor: &TaskNode, owner: *const TaskNode) -> (u32, Payer) {
        match self.last {
            Some((last, number, payer)) if last == owner => (number, payer),
            _ => {
                // SAFETY: promised by the caller.
                let (number, payer) = unsafe { ((*owner).index, payer(debtor, &*owner)) };
                self.last = Some((owner, number, payer));
                (number, payer)
            }
        }
    }

    /// Owes an adjoint.
    ///
    /// # Safety
    /// As [`Debts::payer`]; the debtor is in control.
    pub(super) unsafe fn owe(
        &mut self,
        debtor: &TaskNode,
        owner: *const TaskNode,
        slot: Slot,
        value: f64,
        inboxes: &Inboxes<'a>,
    ) {
        // SAFETY: promised by the caller.
        unsafe {
            match self.payer(debtor, owner) {
                (owner, Payer::Debtor) => {
                    inboxes.stages.may_pay(debtor, owner);
                    inboxes.leave(owner, slot, value);
                }
                (owner, Payer::Ancestor(depth)) => {
                    self.pending.lists().list(depth).push_back(Debt { owner, slot, value })
                }
            }
        }
    }

    /// Owes the adjoints of a range.
    ///
    /// # Safety
    /// As [`Debts::owe`].
    pub(super) unsafe fn owe_range(
        &mut self,
        debtor: &TaskNode,
        owner: *const TaskNode,
        first: Slot,
        values: &[f64],
        inboxes: &Inboxes<'a>,
        buffers: &'a Buffers,
    ) {
        // SAFETY: promised by the caller.
        unsafe {
            match self.payer(debtor, owner) {
                (owner, Payer::Debtor) => {
                    inboxes.stages.may_pay(debtor, owner);
                    inboxes.with(owner, |inbox| inbox.take_range(first, Buffer::new(values, buffers)));
                }
                (owner, Payer::Ancestor(depth)) => {
                    let key = RangeKey { depth, owner, first, len: values.len() as u32 };
                    let ranges = &mut self.pending.lists().ranges;
                    if let Some(known) = ranges.get_mut(&key) {
                        known.add(values);
                    } else {
                        ranges.insert(key, Buffer::new(values, buffers));
                    }
                }
            }
        }
    }
}
