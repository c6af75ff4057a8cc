//! The records of a run in the order of a sweep, all tasks in one list.

use crate::records::{Kind, Trailer, import::Import, link, pack::Pack};
use crate::running::meter::Watch;
use crate::running::program::Program;
use crate::tape::{ForkNode, RerunNode, TaskNode, number};
use crate::trap::{Limit, TrapKind};
use crate::word::{Owner, Slot};

/// What happens to the slots of a run.
#[derive(Debug)]
pub(super) enum Event<'a> {
    /// A record of a task whose slots begin here.
    Record { base: usize, kind: Kind, first: Slot, trailer: *const u32 },
    /// A task begins: it takes slots of its parent.
    Begin(&'a TaskNode),
    /// A task has ended: its parent takes slots of it.
    End(&'a TaskNode),
}

/// The events of a run, the last one first.
#[derive(Debug)]
pub(super) struct Events<'a> {
    pub(super) list: Vec<Event<'a>>,
    /// The cell of each task's slot 0, by the tasks' numbers. The other slots have the next cells.
    pub(super) bases: Vec<usize>,
    /// How many cells there are.
    pub(super) cells: usize,
}

/// What is left to list.
enum Step<'a> {
    /// A task.
    Task(&'a TaskNode),
    /// The records of a task that end here.
    Records(&'a TaskNode, *const u8),
    /// The beginning of a task.
    Begin(&'a TaskNode),
}

impl<'a> Events<'a> {
    /// # Errors
    /// What the watch says, and [`Limit::LiveBytes`] if they take more than so many bytes.
    ///
    /// # Safety
    /// `root` is the tree of a run of the program that has ended, with its tapes, which nobody else reads or numbers.
    /// The program is a structured one.
    pub(super) unsafe fn of(
        program: &Program,
        root: *mut TaskNode,
        bytes_max: u64,
        watch: &Watch<'_>,
    ) -> Result<Events<'a>, TrapKind> {
        // SAFETY: promised by the caller.
        let root: &'a TaskNode = unsafe {
            watch.tick(8 * (*root).totals.tasks as usize)?;
            number(root, 0);
            &*root
        };
        let mut events = Events { list: Vec::new(), bases: vec![0; root.totals.tasks as usize], cells: 0 };
        events.open(root);
        let mut waiting = vec![Step::Records(root, root.end)];
        while let Some(step) = waiting.pop() {
            match step {
                Step::Task(task) => {
                    events.open(task);
                    events.fit(bytes_max)?;
                    events.list.push(Event::End(task));
                    waiting.extend([Step::Begin(task), Step::Records(task, task.end)]);
                }
                Step::Begin(task) => events.list.push(Event::Begin(task)),
                // SAFETY: promised by the caller: a record ends there.
                Step::Records(task, at) => unsafe {
                    events.records(program, task, at, &mut waiting, (bytes_max, watch))?;
                },
            }
        }
        Ok(events)
    }

    /// What the events take, and what is known of slots.
    pub(super) fn bytes(&self) -> usize {
        /// What the inputs of a slot are, and flags.
        const CELL: usize = 5;
        self.list.len() * size_of::<Event<'_>>() + self.cells * CELL
    }

    fn fit(&self, bytes_max: u64) -> Result<(), TrapKind> {
        if self.bytes() as u64 > bytes_max { Err(Limit::LiveBytes.into()) } else { Ok(()) }
    }

    /// Gives cells to a task's slots.
    fn open(&mut self, task: &TaskNode) {
        self.bases[task.index as usize] = self.cells;
        self.cells += task.slots as usize;
    }

    /// Lists the records of a task that end here, up to a fork, whose tasks come next.
    ///
    /// # Safety
    /// As [`Events::of`].
    unsafe fn records(
        &mut self,
        program: &Program,
        task: &'a TaskNode,
        mut at: *const u8,
        waiting: &mut Vec<Step<'a>>,
        (bytes_max, watch): (u64, &Watch<'_>),
    ) -> Result<(), TrapKind> {
        let base = self.bases[task.index as usize];
        while !at.is_null() {
            watch.tick(2)?;
            // SAFETY: promised by the caller: `at` is the end of a record, of which each part stands where its kind
            // says.
            unsafe {
                let Trailer { kind, first, at: trailer } = Trailer::before(at);
                at = match kind {
                    Kind::Segment(id) => program.segment(id).start(trailer),
                    Kind::Pack => Pack::read(trailer).slots.cast(),
                    Kind::Import => Import::read_single(trailer).start,
                    Kind::ImportRange => Import::read_range(trailer).start,
                    Kind::Link => {
                        self.fit(bytes_max)?;
                        at = link::read(trailer);
                        continue;
                    }
                    Kind::Fork => {
                        let fork = &*link::read::<ForkNode>(trailer);
                        waiting.push(Step::Records(task, fork.before));
                        waiting.extend(fork.tasks().iter().map(Step::Task));
                        return Ok(());
                    }
                    Kind::Rerun => {
                        // Nothing is known of what it gives.
                        at = (*link::read::<RerunNode>(trailer)).before;
                        continue;
                    }
                    Kind::Loop(_) | Kind::Region(_) | Kind::Strip | Kind::LoopImport | Kind::LoopScatter => {
                        unreachable!("records of a structured program are segments, found {kind:?}")
                    }
                    #[cfg(all(test, not(loom)))]
                    Kind::Scale => unreachable!("no program writes such records"),
                };
                self.list.push(Event::Record { base, kind, first, trailer });
            }
        }
        Ok(())
    }

    /// The cell of a slot. Slots of nobody are the run's own.
    pub(super) fn cell(&self, owner: Owner, slot: Slot) -> usize {
        // SAFETY: owners are tasks of the run, whose nodes are there.
        let task = if owner.is_nobody() { 0 } else { unsafe { (*owner.task()).index } };
        self.bases[task as usize] + slot.index()
    }

    /// Calls `copy` with the cells of each slot that an event gives, and of the slot that it is a copy of.
    ///
    /// # Errors
    /// What the watch says.
    ///
    /// # Safety
    /// The event is one of these, and no segment's record.
    pub(super) unsafe fn each_copy(
        &self,
        event: &Event<'a>,
        watch: &Watch<'_>,
        mut copy: impl FnMut(usize, usize),
    ) -> Result<(), TrapKind> {
        let base_of = |task: *const TaskNode| {
            // SAFETY: a task's parent is a task of the run.
            self.bases[unsafe { (*task).index } as usize]
        };
        // SAFETY: promised by the caller; the run has ended.
        unsafe {
            match *event {
                Event::Begin(task) => {
                    let (to, from) = (base_of(task) + 1, base_of(task.parent));
                    let captures = task.captures();
                    watch.tick(captures.len())?;
                    captures.iter().enumerate().for_each(|(n, slot)| copy(to + n, from + slot.index()));
                }
                Event::End(task) => {
                    let (to, from, range) = (base_of(task.parent), base_of(task), task.range);
                    let results = task.results();
                    watch.tick(results.len() + range.len as usize)?;
                    results.iter().for_each(|[child, slot]| copy(to + slot.index(), from + child.index()));
                    if !range.child.is_none() {
                        let (to, from) = (to + range.parent.index(), from + range.child.index());
                        (0..range.len as usize).for_each(|n| copy(to + n, from + n));
                    }
                }
                Event::Record { base, kind, first, trailer } => {
                    let to = base + first.index();
                    match kind {
                        Kind::Pack => {
                            let Pack { count, slots } = Pack::read(trailer);
                            watch.tick(count)?;
                            (0..count).for_each(|n| copy(to + n, base + slots.add(n).read_unaligned().index()));
                        }
                        Kind::Import => {
                            let import = Import::read_single(trailer);
                            copy(to, self.cell(import.owner, import.slot));
                        }
                        Kind::ImportRange => {
                            let import = Import::read_range(trailer);
                            let from = self.cell(import.owner, import.slot);
                            watch.tick(import.number as usize)?;
                            (0..import.number as usize).for_each(|n| copy(to + n, from + n));
                        }
                        kind => unreachable!("no record of slots that have others: {kind:?}"),
                    }
                }
            }
        }
        Ok(())
    }
}
