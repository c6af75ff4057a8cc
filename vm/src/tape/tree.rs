//! The tree of tapes of a recording run: one for each task, hung up at the fork that ran it.
//!
//! A task has a numbering of slots of its own and writes its own records, whether it runs in parallel or not, so that
//! the tree depends on the program alone. What a tape says about others, it says with pointers to their [`TaskNode`]s:
//! these outlive the objects that name them as their owner. Nodes live in the slabs of tapes and are written by the
//! execution that runs the task or, before and after, by the one that runs the fork.
//!
//! This is the job graph of Smeding and Vákár (2024, section 12), with the jobs of a task that follow each other on one
//! tape: they are totally ordered, so they can share a numbering.

use crate::word::Slot;
use std::ptr;

/// What a task and all tasks below it amount to.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Totals {
    /// Tasks, this one included.
    pub(crate) tasks: u64,
    /// Imports of single reals and of ranges.
    pub(crate) imports: u64,
    pub(crate) records: u64,
    pub(crate) slots: u64,
    pub(crate) bytes: u64,
    /// Instructions that a sweep runs, a slot counted as one.
    pub(crate) sweep_work: u64,
    /// The same along the longest way through the forks.
    pub(crate) sweep_span: u64,
    /// About how many instructions reruns take; 0 if there are none.
    pub(crate) rerun_work: u64,
}

impl Totals {
    /// Adds those of a task below; the span is the caller's to add.
    pub(crate) fn add(&mut self, other: &Totals) {
        self.tasks += other.tasks;
        self.imports += other.imports;
        self.records += other.records;
        self.slots += other.slots;
        self.bytes += other.bytes;
        self.sweep_work += other.sweep_work;
        self.rerun_work = self.rerun_work.saturating_add(other.rerun_work);
    }
}

/// Slots of a child that become slots of its parent when the task ends: a range of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResultRange {
    pub(crate) child: Slot,
    pub(crate) parent: Slot,
    pub(crate) len: u32,
}

/// A task's tape. What a sweep reads of every task stands in one line of the cache, what numbering needs in the next:
/// trees of tiny tasks are larger than any cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct TaskNode {
    /// The end of the records, which lead back to their beginning.
    pub(crate) end: *const u8,
    /// Slots of the parent that are the first slots of this task, from 1 on.
    pub(crate) captures: *const Slot,
    /// Pairs of slots, of this task and of its parent: single results.
    pub(crate) results: *const [Slot; 2],
    pub(crate) captures_len: u32,
    pub(crate) results_len: u32,
    /// The next slot to be given out, when the task has ended.
    pub(crate) slots: u32,
    /// The number of the task in preorder. Set by [`number`].
    pub(crate) index: u32,
    /// The elements of an array that is a part of the parent's.
    pub(crate) range: ResultRange,
    /// Instructions of a sweep of this task and those below, to compare them.
    pub(crate) weight: u32,

    /// The task that forked this one; null for the run itself.
    pub(crate) parent: *const TaskNode,
    /// The first task of the level that this one belongs to: a run, or a derivative operator that was opened in one.
    pub(crate) level: *const TaskNode,
    /// The depth that the level was opened at, in its first task.
    pub(crate) base: u32,
    /// The last fork of this task.
    pub(crate) last_fork: *const ForkNode,
    /// A proper ancestor, or the node itself if it has none: jumps of skew-binary lengths. Set by [`number`].
    jump: *const TaskNode,
    /// Tasks below have the numbers up to this one, which is not included. Set by [`number`].
    pub(crate) below: u32,
    /// Set by [`number`].
    pub(crate) depth: u32,
    /// What the task and those below amount to: the number of tasks comes first.
    pub(crate) totals: Totals,
    /// Instructions along the longest way through the task.
    pub(crate) span: u64,
}

impl TaskNode {
    pub(crate) fn new(parent: *const TaskNode, level: *const TaskNode) -> Self {
        TaskNode {
            end: ptr::null(),
            captures: ptr::null(),
            results: ptr::null(),
            captures_len: 0,
            results_len: 0,
            slots: 1,
            index: 0,
            range: ResultRange::default(),
            weight: 0,
            parent,
            level,
            base: 0,
            last_fork: ptr::null(),
            jump: ptr::null(),
            below: 0,
            depth: 0,
            totals: Totals::default(),
            span: 0,
        }
    }

    /// # Safety
    /// The task has ended, and the slabs of its tape are there.
    pub(crate) unsafe fn captures(&self) -> &[Slot] {
        if self.captures_len == 0 {
            return &[];
        }
        // SAFETY: promised by the caller; the list has this length.
        unsafe { std::slice::from_raw_parts(self.captures, self.captures_len as usize) }
    }

    /// # Safety
    /// As [`TaskNode::captures`]; the task's fork has ended.
    pub(crate) unsafe fn results(&self) -> &[[Slot; 2]] {
        if self.results_len == 0 {
            return &[];
        }
        // SAFETY: promised by the caller; the list has this length.
        unsafe { std::slice::from_raw_parts(self.results, self.results_len as usize) }
    }

    /// The forks of the task, the last one first.
    ///
    /// # Safety
    /// As [`TaskNode::captures`].
    pub(crate) unsafe fn forks<'a>(&self) -> impl Iterator<Item = &'a ForkNode> + use<'a> {
        // SAFETY: promised by the caller.
        std::iter::successors(unsafe { self.last_fork.as_ref() }, |fork| unsafe { fork.previous.as_ref() })
    }
}

/// A fork on the tape of the task that ran it.
#[derive(Debug)]
pub(crate) struct ForkNode {
    /// Where the records before the fork end.
    pub(crate) before: *const u8,
    /// The fork before this one on the same tape.
    pub(crate) previous: *const ForkNode,
    pub(crate) tasks: *mut TaskNode,
    pub(crate) count: u32,
    /// Records of the same tape before the fork.
    pub(crate) records_before: u64,
}

impl ForkNode {
    /// # Safety
    /// The fork has ended, and the slabs of its tasks' tapes are there.
    pub(crate) unsafe fn tasks<'a>(&self) -> &'a [TaskNode] {
        // SAFETY: promised by the caller.
        unsafe { std::slice::from_raw_parts(self.tasks, self.count as usize) }
    }
}

/// Numbers the tasks in preorder, from `first` on, and gives them depths and jumps. Linear in the number of tasks.
///
/// The root may be that of a rerun, below a task of another tree. The numbers of that tree don't enclose those of this
/// one, so no jump leaves a tree but that of its root, which leads to the parent.
///
/// # Safety
/// The run has ended; nobody else reads or writes the nodes. If the root has a parent, that has its number, which is
/// below `first`.
pub(crate) unsafe fn number(root: *mut TaskNode, first: u32) {
    // SAFETY: promised by the caller; forks and tasks of a run that has ended are complete.
    unsafe {
        (*root).index = first;
        (*root).below = first + (*root).totals.tasks as u32;
        ((*root).depth, (*root).jump) = match (*root).parent.as_ref() {
            None => (0, root.cast_const()),
            Some(parent) => (parent.depth + 1, std::ptr::from_ref(parent)),
        };
        let mut waiting = vec![root];
        while let Some(node) = waiting.pop() {
            // From the last fork to the first, so numbers are given from the end.
            let mut next = (*node).below;
            let mut fork = (*node).last_fork;
            while let Some(found) = fork.as_ref() {
                for n in (0..found.count as usize).rev() {
                    let task = found.tasks.add(n);
                    (*task).below = next;
                    next -= (*task).totals.tasks as u32;
                    (*task).index = next;
                    ((*task).depth, (*task).jump) = place_below(&*node, first);
                    if !(*task).last_fork.is_null() {
                        waiting.push(task);
                    }
                }
                fork = found.previous;
            }
            debug_assert_eq!(next, (*node).index + 1);
        }
    }
}

/// The depth and the jump of a task that this one has forked, in a tree whose root has the number `first`.
///
/// # Safety
/// The node is numbered.
unsafe fn place_below(node: &TaskNode, first: u32) -> (u32, *const TaskNode) {
    // SAFETY: promised by the caller: jumps lead to ancestors.
    unsafe {
        let (jump, far) = (&*node.jump, &*(*node.jump).jump);
        let equal = node.depth - jump.depth == jump.depth - far.depth;
        (node.depth + 1, if equal && far.index >= first && node.depth > 0 { far } else { node })
    }
}

/// Who hands a debt on to its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Payer {
    /// The debtor itself: the owner is a task below it.
    Debtor,
    /// The nearest ancestor that debtor and owner have in common, named by its depth.
    Ancestor(u32),
}

/// Who hands the debts of `debtor` on to `owner`, which is another task. Logarithmic in the debtor's depth, in each
/// tree on the way.
///
/// # Safety
/// Both nodes are numbered.
pub(crate) unsafe fn payer(debtor: &TaskNode, owner: &TaskNode) -> Payer {
    let holds = |node: &TaskNode| node.index <= owner.index && owner.index < node.below;
    if holds(debtor) {
        return Payer::Debtor;
    }
    // SAFETY: promised by the caller. The root of the owner's tree holds it, and no jump passes a tree over, so the
    // search ends there at the latest.
    unsafe {
        let mut at = &*debtor.parent;
        while !holds(at) {
            let jump = &*at.jump;
            at = if holds(jump) { &*at.parent } else { jump };
        }
        Payer::Ancestor(at.depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes by the numbers of their parents, numbered. Every task is the only one of its fork.
    #[expect(clippy::vec_box, reason = "nodes point to forks, which must stay where they are")]
    fn tree(parents: &[usize], forks: &mut Vec<Box<ForkNode>>) -> Vec<TaskNode> {
        let mut nodes: Vec<TaskNode> = parents.iter().map(|_| TaskNode::new(ptr::null(), ptr::null())).collect();
        let base = nodes.as_mut_ptr();
        for n in (0..parents.len()).rev() {
            // SAFETY: all of them are nodes of the vector, which isn't used otherwise meanwhile.
            unsafe {
                let (node, parent) = (base.add(n), base.add(parents[n]));
                (*node).totals.tasks += 1;
                if n == 0 {
                    continue;
                }
                (*node).parent = parent;
                (*parent).totals.tasks += (*node).totals.tasks;
                let previous = (*parent).last_fork;
                forks.push(Box::new(ForkNode {
                    before: ptr::null(),
                    previous,
                    tasks: node,
                    count: 1,
                    records_before: 0,
                }));
                (*parent).last_fork = forks.last().map_or(ptr::null(), |fork| &raw const **fork);
            }
        }
        // SAFETY: the tree is complete.
        unsafe { number(base, 0) };
        nodes
    }

    #[test]
    fn payers_are_the_nearest_common_ancestors() {
        let mut dice = 1u64;
        let (rounds, sizes) = if cfg!(miri) { (8, 8) } else { (200, 60) };
        for round in 0..rounds {
            let size = 2 + round % sizes;
            let mut parents = vec![0];
            for n in 1..size {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Deep trees and flat ones.
                let span = if round % 2 == 0 { n } else { n.min(3) };
                parents.push(n - 1 - (dice >> 33) as usize % span);
            }
            let mut forks = Vec::new();
            let nodes = tree(&parents, &mut forks);
            let path = |mut n: usize| {
                let mut path = vec![n];
                while n > 0 {
                    n = parents[n];
                    path.push(n);
                }
                path.reverse();
                path
            };
            for debtor in 0..size {
                for owner in (0..size).filter(|&owner| owner != debtor) {
                    let (a, b) = (path(debtor), path(owner));
                    let common = a.iter().zip(&b).take_while(|(x, y)| x == y).count() - 1;
                    let expected = if common + 1 == a.len() { Payer::Debtor } else { Payer::Ancestor(common as u32) };
                    // SAFETY: the nodes are numbered.
                    assert_eq!(unsafe { payer(&nodes[debtor], &nodes[owner]) }, expected);
                }
            }
        }
    }
}
