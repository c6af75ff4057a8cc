//! The tape of a task: a value that is parked while other tasks run, and swept when the run has ended.

use super::tree::{ForkNode, TaskNode, Totals};
use super::{Tape, TaskState};
use crate::memory::kept;
use crate::records::Kind;
use crate::trap::Limit;
use crate::word::{Owner, Slot, Word};

/// A task that is not running: what it goes on with.
#[derive(Debug)]
pub(crate) struct Parked(TaskState);

/// How far a task was when it forked.
#[derive(Debug)]
pub(super) struct Mark {
    next_slot: u64,
    records: u64,
    import_count: u64,
    sweep_cost: u64,
    rerun_work: u64,
    bytes: u64,
    stretch: *mut u8,
    below: Totals,
    last_fork: *const ForkNode,
}

impl TaskState {
    pub(super) fn mark(&self) -> Mark {
        // SAFETY: if there is a node, it is that of the task that runs.
        let last_fork = unsafe { self.node.as_ref() }.map_or(std::ptr::null(), |node| node.last_fork);
        Mark {
            next_slot: self.next_slot,
            records: self.records,
            import_count: self.import_count,
            sweep_cost: self.sweep_cost,
            rerun_work: self.rerun_work,
            bytes: self.bytes,
            stretch: self.stretch,
            below: self.below,
            last_fork,
        }
    }

    /// # Safety
    /// The mark is of this task, which has recorded nothing since but a fork that was given up.
    pub(super) unsafe fn go_back(&mut self, mark: &Mark) {
        (self.next_slot, self.records, self.import_count) = (mark.next_slot, mark.records, mark.import_count);
        (self.sweep_cost, self.rerun_work) = (mark.sweep_cost, mark.rerun_work);
        (self.bytes, self.stretch) = (mark.bytes, mark.stretch);
        self.below = mark.below;
        // SAFETY: if there is a node, it is that of the task that runs.
        if let Some(node) = unsafe { self.node.as_mut() } {
            node.last_fork = mark.last_fork;
        }
    }

    /// A task that has recorded nothing.
    pub(super) fn new(node: *mut TaskNode) -> Self {
        TaskState {
            node,
            owner: Owner::of(node),
            next_slot: 1,
            records: 0,
            import_count: 0,
            sweep_cost: 0,
            rerun_work: 0,
            bytes: 0,
            stretch: std::ptr::null_mut(),
            imports: None,
            below: Totals::default(),
        }
    }

    /// The number of slots and the instructions of a sweep so far, for the task and those below. `open` are the bytes
    /// of the stretch that is being written.
    fn totals(&self, open: u64) -> Totals {
        let mut totals = self.below;
        let slots = self.next_slot - 1;
        totals.add(&Totals {
            tasks: 1,
            imports: self.import_count,
            records: self.records,
            slots,
            bytes: self.bytes.wrapping_add(open),
            sweep_work: self.sweep_cost + slots,
            sweep_span: 0,
            rerun_work: self.rerun_work,
        });
        totals.sweep_span += self.sweep_cost + slots;
        totals
    }
}

impl Tape {
    /// The number of slots and the instructions of a sweep so far, for the task that runs and those below.
    pub(crate) fn totals(&self) -> Totals {
        self.task.totals(self.stretch_bytes())
    }

    /// Parks the task for a fork with `count` tasks. Returns it, and the fork.
    #[inline]
    pub(crate) fn park(&mut self, count: usize) -> Result<(Parked, *mut ForkNode), Limit> {
        let before = self.close_stretch();
        let fork: *mut ForkNode = self.list(1)?;
        let tasks: *mut TaskNode = self.list(count)?;
        let node = self.task.node;
        // SAFETY: the lists have room for the fork and its tasks.
        unsafe {
            let (previous, count) = ((*node).last_fork, count as u32);
            fork.write(ForkNode { before, previous, tasks, count, records_before: self.task.records });
            for n in 0..count as usize {
                tasks.add(n).write(TaskNode::new(node, (*node).level));
            }
        }
        self.slabs.ended_bytes += 8 * self.task.next_slot;
        let parked = Parked(std::mem::replace(&mut self.task, TaskState::new(std::ptr::null_mut())));
        Ok((parked, fork))
    }

    /// Goes on with a parked task.
    #[inline]
    pub(crate) fn resume(&mut self, Parked(task): Parked) {
        self.slabs.ended_bytes = self.slabs.ended_bytes.saturating_sub(8 * task.next_slot);
        self.task = task;
        self.task.stretch = self.slabs.top;
    }

    /// Begins a task. `words` are those of its real arguments, `parents` what they are in its parent: active ones
    /// become the first slots.
    ///
    /// # Safety
    /// Both lists have `count` entries; the node is one of a fork that this run has begun.
    #[inline]
    pub(crate) unsafe fn begin_task(
        &mut self,
        node: *mut TaskNode,
        parents: *const Word,
        words: *mut Word,
        count: usize,
    ) -> Result<(), Limit> {
        self.task = TaskState::new(node);
        // SAFETY: promised by the caller.
        unsafe {
            let parent = |n: usize| (*parents.add(n)).slot();
            let active = (0..count).filter(|&n| !parent(n).is_none()).count();
            if active > 0 {
                let captures: *mut Slot = self.list(active)?;
                let mut next = 0;
                for n in 0..count {
                    let slot = parent(n);
                    if slot.is_none() {
                        *words.add(n) = Word::CONSTANT;
                    } else {
                        *captures.add(next) = slot;
                        next += 1;
                        *words.add(n) = Slot(next as u32).into();
                    }
                }
                ((*node).captures, (*node).captures_len) = (captures, active as u32);
                self.task.next_slot += active as u64;
            } else {
                for n in 0..count {
                    *words.add(n) = Word::CONSTANT;
                }
            }
        }
        self.open_stretch(std::ptr::null(), Kind::Link)
    }

    /// Ends the task.
    #[inline]
    pub(crate) fn end_task(&mut self) {
        self.close_task();
        self.slabs.ended_bytes += 8 * (self.task.next_slot - 1);
    }

    /// Completes the node of the task that runs.
    #[inline]
    pub(super) fn close_task(&mut self) {
        let totals = self.totals();
        let end = self.close_stretch();
        let node = self.task.node;
        // SAFETY: the node is that of the task that runs.
        unsafe {
            (*node).end = end;
            (*node).slots = self.task.next_slot as u32;
            (*node).weight = u32::try_from(totals.sweep_work.saturating_add(totals.rerun_work)).unwrap_or(u32::MAX);
            (*node).totals = totals;
        }
        self.task.imports = None;
    }

    /// Begins a task's part of the references that records hold. Returns what ends it.
    pub(crate) fn raise_floor(&mut self) -> kept::Place {
        self.slabs.kept.raise_floor()
    }

    /// Ends it.
    pub(crate) fn restore_floor(&mut self, floor: kept::Place) {
        self.slabs.kept.restore_floor(floor);
    }

    /// Puts a fork on the tape of the task that ran it, whose results have become slots of it.
    ///
    /// # Safety
    /// All tasks of the fork have ended, and their executions were absorbed.
    #[inline]
    pub(crate) unsafe fn join(&mut self, fork: *mut ForkNode) -> Result<(), Limit> {
        // SAFETY: promised by the caller.
        unsafe {
            let mut longest = 0;
            for task in (*fork).tasks() {
                self.task.below.add(&task.totals);
                longest = longest.max(task.totals.sweep_span);
            }
            self.task.below.sweep_span += longest;
            (*self.task.node).last_fork = fork;
        }
        self.open_stretch(fork.cast_const().cast(), Kind::Fork)
    }

    /// A slot for each active result of a task, whose words are those of the task. Called before the fork is on the
    /// tape.
    ///
    /// # Safety
    /// The task has ended; there are `count` words.
    #[inline]
    pub(crate) unsafe fn take_results(
        &mut self,
        task: *mut TaskNode,
        words: *mut Word,
        count: usize,
    ) -> Result<(), Limit> {
        // SAFETY: promised by the caller.
        unsafe {
            let active = (0..count).filter(|&n| !(*words.add(n)).is_constant()).count();
            if active == 0 {
                return Ok(());
            }
            let results: *mut [Slot; 2] = self.list(active)?;
            let mut next = 0;
            for n in 0..count {
                let word = &mut *words.add(n);
                if !word.is_constant() {
                    let parent = Slot(self.task.next_slot as u32);
                    self.task.next_slot += 1;
                    *results.add(next) = [word.slot(), parent];
                    *word = parent.into();
                    next += 1;
                }
            }
            ((*task).results, (*task).results_len) = (results, active as u32);
        }
        Ok(())
    }
}
