//! The graph of a run's jobs, made ready to be drawn: what there is in all, and which parts of a large graph are drawn
//! and which are only counted. [`svg`] and [`dot`] draw it.
//!
//! A graph may have as many tasks as a run, and as deep: everything here takes time in proportion to the number of
//! tasks, and only what is drawn, which has a bound, is gone through recursively.

pub(crate) mod dot;
pub(crate) mod svg;

use dualvm::vm::job_graph::{JobGraph, Task};
use std::ops::Range;

/// Graphs of more tasks than this are folded: those of a parallel map, which has up to 256, are.
const TASKS_MAX: usize = 100;
/// Tasks that are drawn of a folded graph, at most.
const DRAWN_MAX: usize = 80;
/// How many forks in each other are drawn of a folded graph, at most.
const DEPTH_MAX: usize = 10;
/// The tasks of a fork, or the forks of a task, that are drawn before and after those that are not.
const FIRST: usize = 3;
const LAST: usize = 2;

/// What a graph has in all.
#[derive(PartialEq, Debug)]
pub(crate) struct Summary {
    pub(crate) tasks: usize,
    pub(crate) forks: usize,
    /// The most forks that stand in each other.
    pub(crate) depth: usize,
    pub(crate) records: u64,
    pub(crate) slots: u64,
    pub(crate) imports: u64,
    pub(crate) work: u64,
    pub(crate) span: u64,
}

impl Summary {
    pub(crate) fn of(graph: &JobGraph) -> Summary {
        let tasks = &graph.tasks;
        let mut depths = vec![0; tasks.len()];
        for (n, task) in tasks.iter().enumerate() {
            depths[n] = task.parent.map_or(0, |parent| depths[parent] + 1);
        }
        Summary {
            tasks: tasks.len(),
            forks: tasks.iter().map(|task| task.forks.len()).sum(),
            depth: depths.into_iter().max().unwrap_or(0),
            records: tasks.iter().flat_map(|task| &task.jobs).sum(),
            slots: tasks.iter().map(|task| task.slots).sum(),
            imports: tasks.iter().map(|task| task.imports).sum(),
            work: graph.work,
            span: tasks.first().map_or(0, |task| task.span),
        }
    }
}

/// What is drawn of a graph: one after the other.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug)]
pub(crate) enum Part {
    Box(Labelled),
    /// What is side by side, between a fork and a join.
    Fork(Vec<Vec<Part>>),
}

/// A box.
#[derive(Debug)]
pub(crate) struct Labelled {
    pub(crate) lines: Vec<String>,
    pub(crate) records: u64,
    /// Whether it stands for what isn't drawn; else it is a job.
    pub(crate) folded: bool,
}

impl Labelled {
    /// How large the box is drawn: 0 without records, and 1 more whenever they double.
    pub(crate) fn size(&self) -> f64 {
        (self.records as f64 + 1.0).log2()
    }
}

/// Tasks and records of something with all that is forked in it.
#[derive(Clone, Copy, Default)]
struct Total {
    tasks: usize,
    records: u64,
}

impl std::iter::Sum for Total {
    fn sum<I: Iterator<Item = Total>>(all: I) -> Total {
        let add = |a: Total, b: Total| Total { tasks: a.tasks + b.tasks, records: a.records + b.records };
        all.fold(Total::default(), add)
    }
}

struct Folding<'a> {
    graph: &'a JobGraph,
    function: &'a str,
    /// Of each task.
    totals: Vec<Total>,
    /// Whether there is too much to draw it all.
    is_large: bool,
    /// The depth to which tasks are drawn.
    depth_max: usize,
}

impl Outline {
    /// What is drawn of the run of a function.
    pub(crate) fn of(graph: &JobGraph, function: &str) -> Outline {
        let mut folding = Folding {
            graph,
            function,
            totals: totals(&graph.tasks),
            is_large: graph.tasks.len() > TASKS_MAX,
            depth_max: usize::MAX,
        };
        if folding.is_large {
            folding.depth_max = folding.depth_that_fits();
        }
        Outline { parts: if graph.tasks.is_empty() { Vec::new() } else { folding.task(0, 0) } }
    }
}

fn totals(tasks: &[Task]) -> Vec<Total> {
    let own = |task: &Task| Total { tasks: 1, records: task.jobs.iter().sum() };
    let mut totals: Vec<Total> = tasks.iter().map(own).collect();
    // Tasks come before those that they fork.
    for (n, task) in tasks.iter().enumerate().rev() {
        if let Some(parent) = task.parent {
            totals[parent] = [totals[parent], totals[n]].into_iter().sum();
        }
    }
    totals
}

impl Folding<'_> {
    /// Which of a number of things are only counted.
    fn folded(&self, count: usize) -> Range<usize> {
        if self.is_large && count > FIRST + LAST + 1 { FIRST..count - LAST } else { 0..0 }
    }

    /// The things that are drawn.
    fn drawn<'t, T>(&self, things: &'t [T]) -> impl Iterator<Item = &'t T> + use<'t, T> {
        let folded = self.folded(things.len());
        things.iter().enumerate().filter(move |(n, _)| !folded.contains(n)).map(|(_, thing)| thing)
    }

    /// The most levels that have not too many tasks together, with those below, of which each is a box at least.
    fn depth_that_fits(&self) -> usize {
        let (mut level, mut count) = (vec![0], 1);
        for depth in 0..DEPTH_MAX {
            let forks = level.iter().flat_map(|&task: &usize| self.drawn(&self.graph.tasks[task].forks));
            level = forks.flat_map(|fork| self.drawn(fork)).copied().collect();
            count += level.len();
            if count > DRAWN_MAX {
                return depth.saturating_sub(1);
            }
            if level.is_empty() {
                return depth;
            }
        }
        DEPTH_MAX
    }

    fn total(&self, tasks: &[usize]) -> Total {
        tasks.iter().map(|&task| self.totals[task]).sum()
    }

    /// A task and what it forks. The depth of the recursion is that of what is drawn.
    fn task(&self, index: usize, depth: usize) -> Vec<Part> {
        let task = &self.graph.tasks[index];
        if depth > self.depth_max && !task.forks.is_empty() {
            let Total { tasks, records } = self.totals[index];
            return vec![folded(vec![format!("subtree: {tasks} tasks"), counted(records, "record")], records)];
        }
        let name = if index == 0 { self.function.to_owned() } else { format!("task {index}") };
        let rest = format!("{}, {}", counted(task.slots, "slot"), counted(task.imports, "import"));
        let job = |lines, records| Part::Box(Labelled { lines, records, folded: false });
        let mut parts = vec![job(vec![name, counted(task.jobs[0], "record"), rest], task.jobs[0])];
        let skipped = self.folded(task.forks.len());
        for (n, (fork, &records)) in task.forks.iter().zip(&task.jobs[1..]).enumerate() {
            if n == skipped.start && !skipped.is_empty() {
                let forks = &task.forks[skipped.clone()];
                let below: Total = forks.iter().map(|fork| self.total(fork)).sum();
                let own: u64 = task.jobs[skipped.start + 1..=skipped.end].iter().sum();
                let records = own + below.records;
                let lines = vec![
                    format!("… {} more forks", forks.len()),
                    format!("{}, {}", counted(below.tasks as u64, "task"), counted(records, "record")),
                ];
                parts.push(folded(lines, records));
            }
            if !skipped.contains(&n) {
                parts.extend([self.fork(fork, depth + 1), job(vec![counted(records, "record")], records)]);
            }
        }
        parts
    }

    /// The tasks of a fork.
    fn fork(&self, tasks: &[usize], depth: usize) -> Part {
        let skipped = self.folded(tasks.len());
        let mut branches = Vec::new();
        for (n, &task) in tasks.iter().enumerate() {
            if n == skipped.start && !skipped.is_empty() {
                let all = self.total(&tasks[skipped.clone()]);
                let mut lines = vec![format!("… {} more tasks", skipped.len())];
                if all.tasks > skipped.len() {
                    lines.push(format!("{} with those that they fork", all.tasks));
                }
                lines.push(counted(all.records, "record"));
                branches.push(vec![folded(lines, all.records)]);
            }
            if !skipped.contains(&n) {
                branches.push(self.task(task, depth));
            }
        }
        Part::Fork(branches)
    }
}

fn folded(lines: Vec<String>, records: u64) -> Part {
    Part::Box(Labelled { lines, records, folded: true })
}

fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests;
