//! The protocol of the sweep under loom: trees of tasks whose debts go through the real [`Debts`] and [`Inboxes`], with
//! a thread for every half of a fork that may be another thread's.
//!
//! Nothing but forks and joins orders what the halves do, so loom, which keeps track of what is ordered before what,
//! finds a concurrent use in whichever order it comes.

use super::debts::{Debts, Inboxes, Pending};
use super::{Buffers, OpenTask};
use crate::tape::{ForkNode, TaskNode, number};
use crate::word::Slot;
use loom::cell::UnsafeCell;
use loom::thread;
use std::ptr;

/// Slots of every task but slot 0. Of a task's results, only its parent knows the last one: they are made when a fork
/// has ended, so the tasks of the fork don't see them.
const SLOTS: u32 = 3;
/// Slots that other tasks use.
const SHARED: usize = 2;
/// Threads that loom has beside the first: it counts those that have ended, too.
const THREADS_MAX: usize = 4;

/// What a task does, in the order of the program.
#[derive(Clone, Debug)]
enum Step {
    /// Uses a slot of another task.
    Import {
        owner: usize,
        slot: u32,
        value: f64,
    },
    /// Uses all slots of another task.
    ImportAll {
        owner: usize,
        value: f64,
    },
    Fork {
        tasks: Vec<usize>,
    },
}

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// The steps of each task. A task comes before the tasks below it.
fn program(dice: &mut Dice) -> Vec<Vec<Step>> {
    let mut tasks = vec![Vec::new()];
    // What a task sees: tasks that have ended before it began, its ancestors, and those that its forks have run.
    grow(dice, &mut tasks, 0, &[], 0);
    tasks
}

/// Writes the steps of a task. Returns it and the tasks below it.
fn grow(dice: &mut Dice, tasks: &mut Vec<Vec<Step>>, task: usize, visible: &[usize], depth: u32) -> Vec<usize> {
    let (mut seen, mut below) = (visible.to_vec(), vec![task]);
    for _ in 0..1 + dice.below(4) {
        if dice.below(3) > 0 && !seen.is_empty() {
            let (owner, value) = (seen[dice.below(seen.len())], (1 + dice.below(9)) as f64 / 7.0);
            let slot = 1 + dice.below(SHARED) as u32;
            let all = dice.below(3) == 0;
            tasks[task].push(if all { Step::ImportAll { owner, value } } else { Step::Import { owner, slot, value } });
        } else if depth < 3 && tasks.len() < 14 {
            let forked: Vec<usize> = (0..1 + dice.below(3)).map(|n| tasks.len() + n).collect();
            tasks.resize(tasks.len() + forked.len(), Vec::new());
            let mut inner = seen.clone();
            inner.push(task);
            let grown: Vec<usize> =
                forked.iter().flat_map(|&child| grow(dice, tasks, child, &inner, depth + 1)).collect();
            tasks[task].push(Step::Fork { tasks: forked });
            seen.extend(&grown);
            below.extend(grown);
        }
    }
    below
}

/// A program's tree of tapes, and what its sweep shares.
struct Model {
    steps: Vec<Vec<Step>>,
    nodes: Vec<*const TaskNode>,
    inboxes: Inboxes<'static>,
    buffers: &'static Buffers,
    /// Adjoints of each task, which its children read while it is suspended.
    adjoints: Vec<UnsafeCell<Vec<f64>>>,
    /// Where the tasks of the tree stay.
    _forks: Vec<(Box<[TaskNode]>, Box<ForkNode>)>,
    _root: Box<TaskNode>,
}

// SAFETY: nodes don't change any more; loom checks what does.
unsafe impl Send for Model {}
// SAFETY: nodes don't change any more; loom checks what does.
unsafe impl Sync for Model {}

impl Model {
    fn new(steps: Vec<Vec<Step>>, buffers: &'static Buffers) -> Model {
        let mut root = Box::new(TaskNode::new(ptr::null(), ptr::null()));
        let mut nodes = vec![ptr::null_mut::<TaskNode>(); steps.len()];
        nodes[0] = &raw mut *root;
        let mut forks = Vec::new();
        for (task, steps) in steps.iter().enumerate() {
            for step in steps {
                let Step::Fork { tasks } = step else { continue };
                let mut list: Box<[TaskNode]> = tasks.iter().map(|_| TaskNode::new(nodes[task], nodes[0])).collect();
                for (child, node) in tasks.iter().zip(list.iter_mut()) {
                    nodes[*child] = node;
                }
                // SAFETY: the parent's node was made before.
                let previous = unsafe { (*nodes[task]).last_fork };
                let (tasks, count) = (list.as_mut_ptr(), list.len() as u32);
                let fork = Box::new(ForkNode { before: ptr::null(), previous, tasks, count, records_before: 0 });
                // SAFETY: the parent's node was made before, and nobody refers to it yet.
                unsafe { (*nodes[task]).last_fork = &raw const *fork };
                forks.push((list, fork));
            }
        }
        for node in nodes.iter().rev() {
            // SAFETY: tasks come after their parents, so this one has its total.
            unsafe {
                (**node).totals.tasks += 1;
                if let Some(parent) = (**node).parent.cast_mut().as_mut() {
                    parent.totals.tasks += (**node).totals.tasks;
                }
            }
        }
        // SAFETY: the tree is complete.
        unsafe { number(nodes[0], 0) };
        let adjoints = steps.iter().map(|_| UnsafeCell::new(vec![0.0; SLOTS as usize + 1])).collect();
        let inboxes = Inboxes::new(0, steps.len());
        let nodes = nodes.into_iter().map(<*mut TaskNode>::cast_const).collect();
        Model { steps, nodes, inboxes, buffers, adjoints, _forks: forks, _root: root }
    }

    fn node(&self, task: usize) -> &'static TaskNode {
        // SAFETY: the model outlives its sweep.
        unsafe { &*self.nodes[task] }
    }

    /// The sweep of a task, as [`super::Sweep`] does it.
    fn task(&'static self, task: usize, parent: Option<usize>, plan: Plan) -> Pending<'static> {
        let node = self.node(task);
        self.inboxes.stages.begin(node);
        let mut adjoints = vec![0.0; SLOTS as usize + 1];
        let mut frame =
            OpenTask { node, adjoints: adjoints.as_mut_ptr(), len: adjoints.len(), debts: Debts::default() };
        if let Some(parent) = parent {
            // SAFETY: the parent is suspended, which loom checks. Slot 1 of every task is the last one of its parent.
            frame.add(Slot(1), self.adjoints[parent].with(|adjoints| unsafe { (&*adjoints)[SLOTS as usize] }));
        }
        frame.add(Slot(SLOTS), 0.5 + task as f64);
        // SAFETY: the task's sweep begins.
        if let Some(inbox) = unsafe { self.inboxes.take(node.index) } {
            inbox.empty(&mut frame);
        }
        for step in self.steps[task].iter().rev() {
            match step {
                // SAFETY: the owner is another task, and this one is in control.
                Step::Import { owner, slot, value } => unsafe {
                    if plan.wrong {
                        self.inboxes.leave(self.node(*owner).index, Slot(*slot), *value);
                    } else {
                        frame.debts.owe(node, self.nodes[*owner], Slot(*slot), *value, &self.inboxes);
                    }
                },
                // SAFETY: the owner is another task, and this one is in control.
                Step::ImportAll { owner, value } => unsafe {
                    let values = [*value; SHARED];
                    frame.debts.owe_range(node, self.nodes[*owner], Slot(1), &values, &self.inboxes, self.buffers);
                },
                Step::Fork { tasks } => {
                    // SAFETY: the cell is as long as the frame.
                    self.adjoints[task].with_mut(|all| unsafe { (*all).copy_from_slice(frame.adjoints()) });
                    self.inboxes.stages.suspend(node);
                    let mut below = self.halves(tasks, task, plan.at(task));
                    let forked: Vec<&TaskNode> = tasks.iter().map(|&task| self.node(task)).collect();
                    // SAFETY: the tasks of a fork stand side by side.
                    let forked = unsafe { std::slice::from_raw_parts(forked[0], forked.len()) };
                    self.inboxes.stages.resume(node, forked);
                    if !below.is_empty() {
                        // SAFETY: the task is in control again.
                        unsafe { below.settle(&mut frame, &self.inboxes) };
                        let mine = std::mem::take(&mut frame.debts.pending);
                        frame.debts.pending = mine.merge(below);
                    }
                }
            }
        }
        // SAFETY: the cell is as long as the frame.
        self.adjoints[task].with_mut(|all| unsafe { (*all).copy_from_slice(frame.adjoints()) });
        self.inboxes.stages.end(node);
        frame.debts.pending
    }

    /// The sweep of some tasks of a fork, as [`super::Sweep`] does it.
    fn halves(&'static self, tasks: &'static [usize], parent: usize, plan: Plan) -> Pending<'static> {
        if let &[task] = tasks {
            return self.task(task, Some(parent), plan);
        }
        let (left, right) = tasks.split_at(tasks.len() / 2);
        let left_first = plan.seed & 1 == 0;
        let (first, second) = if left_first { (left, right) } else { (right, left) };
        let plan = Plan { seed: plan.seed / 2, ..plan };
        let second = thread::spawn(move || Sent(self.halves(second, parent, plan)));
        let (first, second) = (self.halves(first, parent, plan), second.join().unwrap().0);
        if left_first { first.merge(second) } else { second.merge(first) }
    }
}

/// How a sweep goes.
#[derive(Clone, Copy)]
struct Plan {
    /// Says which halves go first.
    seed: usize,
    /// Whether debtors pay by themselves, which is wrong.
    wrong: bool,
}

impl Plan {
    /// That of the forks of a task.
    fn at(&self, task: usize) -> Plan {
        Plan { seed: self.seed / 2 + 5 * task, ..*self }
    }
}

struct Sent(Pending<'static>);

// SAFETY: what is pending is handed over by the join.
unsafe impl Send for Sent {}

/// Sweeps a program; returns the adjoints of all its tasks.
fn sweep(steps: &[Vec<Step>], plan: Plan) -> Vec<Vec<f64>> {
    let buffers: &'static Buffers = Box::leak(Box::default());
    let model: &'static Model = Box::leak(Box::new(Model::new(steps.to_vec(), buffers)));
    assert!(model.task(0, None, plan).is_empty(), "nobody is above the run");
    // SAFETY: all threads have ended.
    model.adjoints.iter().map(|adjoints| adjoints.with(|adjoints| unsafe { (*adjoints).clone() })).collect()
}

/// The same with a walk over the program in reverse.
fn expected(steps: &[Vec<Step>]) -> Vec<Vec<f64>> {
    fn walk(steps: &[Vec<Step>], task: usize, parent: Option<usize>, sums: &mut Vec<Vec<f64>>) {
        let result = parent.map_or(0.0, |parent| sums[parent][SLOTS as usize]);
        sums[task][1] += result;
        sums[task][SLOTS as usize] += 0.5 + task as f64;
        for step in steps[task].iter().rev() {
            match step {
                Step::Import { owner, slot, value } => sums[*owner][*slot as usize] += value,
                Step::ImportAll { owner, value } => sums[*owner][1..=SHARED].iter_mut().for_each(|sum| *sum += value),
                Step::Fork { tasks } => tasks.iter().rev().for_each(|&child| walk(steps, child, Some(task), sums)),
            }
        }
    }
    let mut sums = vec![vec![0.0; SLOTS as usize + 1]; steps.len()];
    walk(steps, 0, None, &mut sums);
    sums
}

/// How many threads a program starts.
fn threads(steps: &[Vec<Step>]) -> usize {
    let forks =
        steps.iter().flatten().filter_map(|step| if let Step::Fork { tasks } = step { Some(tasks) } else { None });
    forks.map(|tasks| tasks.len() - 1).sum()
}

/// Checks `count` programs with parallel forks, each in four orders of halves. Returns how many imports they have.
fn check(first: u64, count: usize, wrong: bool) -> usize {
    let (mut done, mut imports) = (0, 0);
    for seed in first.. {
        let mut dice = Dice(seed);
        let steps = program(&mut dice);
        let plan = Plan { seed: dice.below(1 << 20), wrong };
        if !(1..=THREADS_MAX).contains(&threads(&steps)) {
            continue;
        }
        done += 1;
        imports += steps.iter().flatten().filter(|step| !matches!(step, Step::Fork { .. })).count();
        let whole = expected(&steps);
        let bits = std::sync::Mutex::new(None);
        let bits: &'static std::sync::Mutex<Option<Vec<Vec<f64>>>> = Box::leak(Box::new(bits));
        for flip in 0..4 {
            let (steps, whole) = (steps.clone(), whole.clone());
            loom::model(move || {
                let found = sweep(&steps, Plan { seed: plan.seed ^ (flip * 0x5_5555), ..plan });
                for (found, expected) in found.iter().flatten().zip(whole.iter().flatten()) {
                    assert!((found - expected).abs() <= 1e-9, "seed {seed}: expected {expected}, found {found}");
                }
                let mut bits = bits.lock().unwrap();
                assert_eq!(*bits.get_or_insert_with(|| found.clone()), found, "seed {seed}: bits depend on the order");
            });
        }
        if done == count {
            return imports;
        }
    }
    unreachable!("there are more seeds than programs are wanted")
}

#[test]
fn loom_every_adjoint_is_paid_once_by_one_task_at_a_time() {
    let imports = check(1, 300, false);
    assert!(imports > 600, "{imports}");
}

/// Two tasks of a fork that pay into one inbox by themselves are found out.
#[test]
#[should_panic]
fn loom_debtors_that_pay_by_themselves_are_found_out() {
    check(1, 300, true);
}
