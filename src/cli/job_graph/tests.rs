//! Which parts of graphs are drawn, and that both forms of drawings are well-formed.

use super::{DRAWN_MAX, Outline, Part, Summary, dot, svg};
use dualvm::vm::job_graph::{JobGraph, Task};
use std::time::Instant;

/// Adds a fork of a task: tasks with a job each.
fn fork(graph: &mut JobGraph, parent: usize, records: &[u64]) -> Vec<usize> {
    let first = graph.tasks.len();
    for &records in records {
        let mut task = Task::default();
        (task.parent, task.jobs, task.slots, task.imports, task.span) = (Some(parent), vec![records], 3, 1, 10);
        graph.tasks.push(task);
    }
    let tasks: Vec<usize> = (first..graph.tasks.len()).collect();
    graph.tasks[parent].forks.push(tasks.clone());
    graph.tasks[parent].jobs.push(1);
    tasks
}

/// A call that has forked nothing yet.
fn call() -> JobGraph {
    let mut task = Task::default();
    (task.jobs, task.span) = (vec![7], 50);
    let mut graph = JobGraph::default();
    (graph.tasks, graph.work) = (vec![task], 100);
    graph
}

/// Boxes and forks.
fn count(parts: &[Part]) -> (usize, usize) {
    parts.iter().fold((0, 0), |(boxes, forks), part| match part {
        Part::Box(_) => (boxes + 1, forks),
        Part::Fork(branches) => {
            let inner: Vec<(usize, usize)> = branches.iter().map(|branch| count(branch)).collect();
            (inner.iter().fold(boxes, |sum, n| sum + n.0), inner.iter().fold(forks + 1, |sum, n| sum + n.1))
        }
    })
}

/// The lines of all boxes; those of folded ones.
fn labels(parts: &[Part], folded: bool) -> Vec<String> {
    let label = |part: &Part| match part {
        Part::Box(labelled) if labelled.folded || !folded => vec![labelled.lines.join("; ")],
        Part::Box(_) => Vec::new(),
        Part::Fork(branches) => branches.iter().flat_map(|branch| labels(branch, folded)).collect(),
    };
    parts.iter().flat_map(label).collect()
}

/// Draws the graph in both forms, and looks at the structure.
fn drawings(graph: &JobGraph) -> Outline {
    let outline = Outline::of(graph, "f");
    let (boxes, forks) = count(&outline.parts);
    let picture = svg::draw(&outline, "f & <g>");
    assert_eq!(picture.matches("<rect ").count(), boxes);
    assert_eq!(picture.matches("class=\"mark\"").count(), 2 * forks);
    assert_well_formed(&picture);
    let text = dot::draw(&outline, "f \"g\"");
    assert!(text.starts_with("digraph jobs {\n") && text.ends_with("}\n"), "{text}");
    assert!(text.contains("label=\"f \\\"g\\\"\";"), "{text}");
    assert_eq!(text.matches("shape=diamond").count(), 2 * forks);
    let nodes = text.lines().filter(|line| line.starts_with("  n") && line.contains("[label=")).count();
    assert_eq!(nodes, boxes + 2 * forks);
    assert!(text.lines().skip(1).all(|line| line == "}" || line.ends_with(';')), "{text}");
    outline
}

/// Elements are closed in the right order, and there is one root.
fn assert_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in xml.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').unwrap_or_else(|| panic!("not closed: {tag}"));
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).expect("tags have names");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else {
            assert!(!open.is_empty() || name == "svg", "{name}");
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        let entities = text
            .split('&')
            .skip(1)
            .all(|rest| rest.starts_with("amp;") || rest.starts_with("lt;") || rest.starts_with("gt;"));
        assert!(entities && (!open.is_empty() || text.trim().is_empty()), "{text}");
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_small_graph_is_drawn_as_it_is() {
    let mut graph = call();
    let tasks = fork(&mut graph, 0, &[100, 1]);
    fork(&mut graph, tasks[1], &[5, 0, 2]);
    fork(&mut graph, 0, &[]);
    let outline = drawings(&graph);
    let expected = [
        "f; 7 records; 0 slots, 0 imports",
        "task 1; 100 records; 3 slots, 1 import",
        "task 2; 1 record; 3 slots, 1 import",
        "task 3; 5 records; 3 slots, 1 import",
        "task 4; 0 records; 3 slots, 1 import",
        "task 5; 2 records; 3 slots, 1 import",
        "1 record",
        "1 record",
        "1 record",
    ];
    assert_eq!(labels(&outline.parts, false), expected);
    let expected = Summary { tasks: 6, forks: 3, depth: 2, records: 118, slots: 15, imports: 5, work: 100, span: 50 };
    assert_eq!(Summary::of(&graph), expected);
    let text = dot::draw(&outline, "f");
    for edge in ["n0 -> n1;", "n1 -> n3;", "n3 -> n2;", "n1 -> n4;", "n4 -> n5;", "n5 -> n7;", "n7 -> n6;"] {
        assert!(text.contains(edge), "{edge} in {text}");
    }
}

#[test]
fn boxes_grow_with_the_logarithm_of_their_records() {
    let heights = [0, 1_000, 1_000_000].map(|records| {
        let mut graph = call();
        graph.tasks[0].jobs[0] = records;
        let picture = svg::draw(&Outline::of(&graph, "f"), "");
        let rest = picture.split("<rect ").nth(1).and_then(|rest| rest.split(" height=\"").nth(1));
        rest.and_then(|rest| rest.split('"').next()?.parse::<f64>().ok()).expect("the box has a height")
    });
    let [small, middle, large] = heights;
    assert!(middle - small > 20.0 && (large - middle - (middle - small)).abs() < 0.2, "{heights:?}");
}

#[test]
fn wide_forks_show_their_first_and_last_tasks() {
    let mut graph = call();
    let tasks = fork(&mut graph, 0, &vec![2; 300]);
    let outline = drawings(&graph);
    assert_eq!(labels(&outline.parts, true), ["… 295 more tasks; 590 records"]);
    assert_eq!(count(&outline.parts), (8, 1));
    fork(&mut graph, tasks[100], &[5; 4]);
    assert_eq!(labels(&drawings(&graph).parts, true), ["… 295 more tasks; 299 with those that they fork; 611 records"]);
}

#[test]
fn tasks_of_many_forks_show_the_first_and_the_last() {
    let mut graph = call();
    for _ in 0..1_000 {
        fork(&mut graph, 0, &[2, 2]);
    }
    let outline = drawings(&graph);
    assert_eq!(labels(&outline.parts, true), ["… 995 more forks; 1990 tasks, 4975 records"]);
    assert_eq!(count(&outline.parts), (17, 5));
}

/// Trees of 10⁵ tasks that are balanced, as deep as they can be, and as wide.
#[test]
fn graphs_of_many_tasks_are_folded_in_linear_time() {
    const TASKS: usize = 100_000;
    let mut balanced = call();
    let mut next = 0;
    while balanced.tasks.len() < TASKS {
        fork(&mut balanced, next, &[1, 1]);
        next += 1;
    }
    let mut deep = call();
    let mut last = 0;
    while deep.tasks.len() < TASKS {
        last = fork(&mut deep, last, &[1, 1])[1];
    }
    let mut wide = call();
    fork(&mut wide, 0, &vec![1; TASKS]);
    for (graph, depth, folded) in [(balanced, 16, 32), (deep, 50_000, 1), (wide, 1, 1)] {
        let began = Instant::now();
        let outline = drawings(&graph);
        // A few milliseconds; quadratic time would be minutes.
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
        let (boxes, _) = count(&outline.parts);
        assert!(boxes <= 2 * DRAWN_MAX, "{boxes}");
        let labels = labels(&outline.parts, true);
        assert_eq!(labels.len(), folded, "{labels:?}");
        assert_eq!(Summary::of(&graph).depth, depth);
        // Nothing is lost: what is folded and what is drawn has all records.
        assert_eq!(records(&outline.parts), Summary::of(&graph).records);
    }
}

fn records(parts: &[Part]) -> u64 {
    let of = |part: &Part| match part {
        Part::Box(labelled) => labelled.records,
        Part::Fork(branches) => branches.iter().map(|branch| records(branch)).sum(),
    };
    parts.iter().map(of).sum()
}
