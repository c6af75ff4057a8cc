//! The fork-join graph of a recorded run, for drawing and for counting.
//!
//! It says what ran, not how: which tasks there were, what each job of a task wrote to its tape, and where jobs wait
//! for tasks. It is the same on any number of threads.

use crate::tape::TaskNode;

/// The jobs of a recorded run: see [`crate::engine::Function::job_graph`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct JobGraph {
    /// The tasks in the order of the program: each before those that it forks. The first is the call itself.
    pub tasks: Vec<Task>,
    /// Instructions of the run, without a sweep. By the span of the first task, it is the number of threads that the
    /// run can keep busy.
    pub work: u64,
}

/// A task: jobs, with a fork between each two of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Task {
    /// The task that forked this one; `None` for the call itself.
    pub parent: Option<usize>,
    /// Records that each job wrote to the task's tape. One more than there are forks.
    pub jobs: Vec<u64>,
    /// The tasks of each fork, from left to right.
    pub forks: Vec<Vec<usize>>,
    /// Slots that the task gave out.
    pub slots: u64,
    /// Reals and ranges of reals that it took over from other tasks.
    pub imports: u64,
    /// Instructions along the longest way through the task's forks.
    pub span: u64,
}

/// Where a task stands: its parent, the fork, its number there.
type Place = (usize, usize, usize);

impl JobGraph {
    /// # Safety
    /// The run has ended, and its tapes are there.
    pub(crate) unsafe fn of(root: &TaskNode, work: u64, span: u64) -> JobGraph {
        let mut graph = JobGraph { tasks: Vec::new(), work };
        // A task's place is taken by its parent, so that places are in the order of the program.
        let mut waiting: Vec<(&TaskNode, Option<Place>)> = vec![(root, None)];
        while let Some((node, place)) = waiting.pop() {
            let index = graph.tasks.len();
            if let Some((parent, fork, n)) = place {
                graph.tasks[parent].forks[fork][n] = index;
            }
            // SAFETY: promised by the caller.
            let mut forks: Vec<_> = unsafe { node.forks() }.collect();
            forks.reverse();
            // SAFETY: the run has ended, which the caller promises, so the nodes of all tasks are there.
            let tasks = |n: usize| unsafe { forks[n].tasks() };
            let below = |count: &dyn Fn(&TaskNode) -> u64| -> u64 { (0..forks.len()).flat_map(tasks).map(count).sum() };
            let records = node.totals.records - below(&|task| task.totals.records);
            let ends = forks.iter().map(|fork| fork.records_before).chain([records]);
            let mut before = 0;
            let jobs = ends.map(|end| end - std::mem::replace(&mut before, end)).collect();
            graph.tasks.push(Task {
                parent: place.map(|(parent, ..)| parent),
                jobs,
                forks: (0..forks.len()).map(|n| vec![0; tasks(n).len()]).collect(),
                slots: node.totals.slots - below(&|task| task.totals.slots),
                imports: node.totals.imports - below(&|task| task.totals.imports),
                span: if place.is_none() { span } else { node.span },
            });
            let children = (0..forks.len())
                .flat_map(|fork| tasks(fork).iter().enumerate().map(move |(n, task)| (task, Some((index, fork, n)))));
            let at = waiting.len();
            waiting.extend(children);
            waiting[at..].reverse();
        }
        graph
    }
}
