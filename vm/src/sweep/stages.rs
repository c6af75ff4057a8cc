//! Where the sweep of each task is, kept in debug builds only: whoever uses what belongs to another task asserts that
//! it may. So a breach of the protocol ([`super::debts`]) shows in every schedule, not just in the one that it harms.
//!
//! A task is new, then it runs; it is suspended while its forks are swept, and runs again; at last it is done. Its
//! results are read from a suspended parent; a running task pays into inboxes of new tasks below it.

use crate::tape::TaskNode;

#[cfg(debug_assertions)]
pub(super) use checked::Stages;
#[cfg(not(debug_assertions))]
pub(super) use unchecked::Stages;

#[cfg(debug_assertions)]
mod checked {
    use super::TaskNode;
    use crate::sync::atomic::{AtomicU8, Ordering};

    const NEW: u8 = 0;
    const RUNNING: u8 = 1;
    const SUSPENDED: u8 = 2;
    const DONE: u8 = 3;

    /// The stage of each task of a tree, by its number. Relaxed, so that they order nothing that would else be
    /// unordered.
    #[derive(Debug, Default)]
    pub(in super::super) struct Stages {
        first: u32,
        stages: Box<[AtomicU8]>,
    }

    impl Stages {
        pub(in super::super) fn new(first: u32, tasks: usize) -> Self {
            // Alone, a task uses nothing of others.
            let tasks = if tasks > 1 { tasks } else { 0 };
            Stages { first, stages: (0..tasks).map(|_| AtomicU8::new(NEW)).collect() }
        }

        #[track_caller]
        fn is(&self, task: u32, stage: u8) {
            if self.stages.is_empty() {
                return;
            }
            let found = self.stages[(task - self.first) as usize].load(Ordering::Relaxed);
            assert_eq!(found, stage, "the stage of task {task} of the sweep");
        }

        #[track_caller]
        fn step(&self, task: u32, from: u8, to: u8) {
            if self.stages.is_empty() {
                return;
            }
            let found = self.stages[(task - self.first) as usize].swap(to, Ordering::Relaxed);
            assert_eq!(found, from, "the stage of task {task} of the sweep, which is to be {to}");
        }

        /// The task's sweep begins.
        #[track_caller]
        pub(in super::super) fn begin(&self, node: &TaskNode) {
            // SAFETY: nodes of a run that has ended stay, and don't change.
            if let Some(parent) = unsafe { node.parent.as_ref() }
                && parent.index >= self.first
            {
                self.is(parent.index, SUSPENDED);
            }
            self.step(node.index, NEW, RUNNING);
        }

        /// The task's fork is swept.
        #[track_caller]
        pub(in super::super) fn suspend(&self, node: &TaskNode) {
            self.step(node.index, RUNNING, SUSPENDED);
        }

        /// The task goes on: the tasks of its fork have been swept.
        #[track_caller]
        pub(in super::super) fn resume(&self, node: &TaskNode, tasks: &[TaskNode]) {
            tasks.iter().for_each(|task| self.is(task.index, DONE));
            self.step(node.index, SUSPENDED, RUNNING);
        }

        #[track_caller]
        pub(in super::super) fn end(&self, node: &TaskNode) {
            self.step(node.index, RUNNING, DONE);
        }

        /// The task pays into the inbox of another one.
        #[track_caller]
        pub(in super::super) fn may_pay(&self, payer: &TaskNode, owner: u32) {
            assert!(payer.index < owner && owner < payer.below, "task {} pays to {owner}", payer.index);
            self.is(payer.index, RUNNING);
            self.is(owner, NEW);
        }
    }
}

#[cfg(not(debug_assertions))]
mod unchecked {
    use super::TaskNode;

    /// Nothing is known and nothing asserted.
    #[derive(Debug, Default)]
    pub(in super::super) struct Stages;

    impl Stages {
        pub(in super::super) fn new(_: u32, _: usize) -> Self {
            Stages
        }
        pub(in super::super) fn begin(&self, _: &TaskNode) {}
        pub(in super::super) fn suspend(&self, _: &TaskNode) {}
        pub(in super::super) fn resume(&self, _: &TaskNode, _: &[TaskNode]) {}
        pub(in super::super) fn end(&self, _: &TaskNode) {}
        pub(in super::super) fn may_pay(&self, _: &TaskNode, _: u32) {}
    }
}
