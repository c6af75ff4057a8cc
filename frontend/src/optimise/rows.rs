//! Rows that a loop changes: `{ t with [i] = { t[i] with [j] = e } }` makes a row and puts it in the place of the one
//! before. In a loop over `j` that is the same row in each round, so the loop carries the row, and it is put into the
//! array once, behind the loop:
//!
//! ```text
//! loop t = t for j < n do { t with [i] = { t[i] with [j] = e } }
//! ```
//!
//! becomes
//!
//! ```text
//! let row = loop row = t[i] for j < n do { row with [j] = e } in { t with [i] = row }
//! ```
//!
//! and `row` is changed where it is (`in_place.rs`). Without that each round copies a row.
//!
//! An element of `t` that is read in the loop is one of the row if its index is `i`. If it is another one for sure, it
//! is one of `t` as it was before the loop. If nobody knows, the program asks in each round: `t[k][j]` becomes
//! `if k == i then row[j] else t[k][j]`.
//!
//! The loop that there was stays beside the new one, for when `i` isn't in `t`, and for when there are few rounds, so
//! that to copy the row once could take longer than the rounds do. So what traps, traps where and when it did. Loops
//! inside of it may carry the row.

mod rewriter;

use super::in_place;
use crate::core::{ArrayType, Body, ExprId, ExprKind, Function, Iteration, Loop, Range, TypeLists, Var};
use crate::hash::{HashMap, HashSet};
use crate::limits::{Count, Meter};
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;
use rewriter::Rewriter;

/// A row is carried if it has no more than so many elements for each round: to copy it takes no longer than these.
const ELEMENTS_PER_ROUND: i64 = 8;
/// A loop of at most so many nodes is copied.
const COPIED_NODES_MAX: usize = 1024;
/// So many times the nodes of a function are copied in it.
const COPIES_MAX: usize = 4;
/// Of an index so many nodes are looked at.
const INDEX_NODES_MAX: usize = 32;

/// Has loops of a function carry rows in place of the arrays that these stand in; whether there were any.
pub(super) fn carry(function: &mut Function, lists: &mut TypeLists, meter: &Meter) -> bool {
    let (mut nodes, mut changes) = (0, false);
    for (_, node) in function.nodes(meter) {
        nodes += 1;
        changes |= is_of_rows(&node.kind);
    }
    if !changes || !meter.go_on() {
        return false;
    }
    let mut left = nodes * COPIES_MAX;
    let mut names = Names::of(function, meter);
    let mut as_they_were: HashSet<ExprId> = HashSet::default();
    let mut any = false;
    // Loops before those inside of them: these are carried where there are few rounds around them. Of several arrays of
    // a loop, or of rows that are arrays of rows, one is carried after the other.
    let mut pending = vec![function.root];
    while let Some(expr) = pending.pop() {
        if !meter.step(function.body.exprs[expr].origin.span) {
            return any;
        }
        if !as_they_were.contains(&expr)
            && let Some(found) = Found::of(&function.body, &names, expr, lists, meter)
            && found.size <= left
        {
            left -= found.size;
            if !meter.nodes(Count::Code, found.size) {
                return any;
            }
            any = true;
            let copies = Rewriter { body: &mut function.body, lists, found: &found }.carry(expr);
            as_they_were.extend(copies.last());
            copies.iter().for_each(|&copy| names.add(&function.body.exprs[copy].kind));
        }
        function.body.exprs[expr].for_each_child(|child| pending.push(child));
    }
    any
}

/// Whether an array of references is given another one.
fn is_of_rows(kind: &ExprKind) -> bool {
    matches!(kind, ExprKind::Replace(array, _) if holds_references(*array))
}

fn holds_references(array: ArrayType) -> bool {
    array.is_plain() && matches!(array.holds, ValueType::Ref(_))
}

fn is_var(body: &Body, expr: ExprId) -> bool {
    matches!(body.exprs[expr].kind, ExprKind::Var(_))
}

/// What variables of a function stand for.
struct Names {
    /// The values of those that are bound alone.
    values: HashMap<Var, ExprId>,
    /// The ranges of indices.
    ranges: HashMap<Var, Range>,
}

impl Names {
    fn of(function: &Function, meter: &Meter) -> Names {
        let mut names = Names { values: HashMap::default(), ranges: HashMap::default() };
        function.nodes(meter).for_each(|(_, node)| names.add(&node.kind));
        names
    }

    /// Adds what an expression binds.
    fn add(&mut self, kind: &ExprKind) {
        match kind {
            ExprKind::Block(bindings, _) => {
                let single = bindings.iter().filter(|binding| binding.vars.len() == 1);
                self.values.extend(single.map(|binding| (binding.vars[0], binding.value)));
            }
            ExprKind::Loop(repeat) => {
                if let Iteration::Range(range) = repeat.iteration {
                    self.ranges.insert(range.index, range);
                }
            }
            ExprKind::Collect(_, collect) => _ = self.ranges.insert(collect.range.index, collect.range),
            _ => {}
        }
    }
}

/// An index: a variable, if there is one, and a number that is added to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Index {
    var: Option<Var>,
    offset: i64,
}

/// A load of a row in the loop.
#[derive(Clone, Copy, Debug)]
struct Load {
    node: ExprId,
    /// The version of the array that it is from.
    version: Var,
    /// What it is bound to, if that is all that its binding does.
    bound: Option<Var>,
    row: Row,
}

/// Which row that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Row {
    /// The one that is changed.
    Changed,
    /// Another one.
    Other,
    Unknown,
}

/// A loop that changes a row of an array, and no other.
struct Found {
    /// Which of the loop's accumulators the array is.
    at: usize,
    /// How many nodes the loop has.
    size: usize,
    /// The variables that hold it.
    versions: HashSet<Var>,
    array: ArrayType,
    row: ArrayType,
    /// The index of the row.
    index: Index,
    /// What gives the array another row.
    changes: Vec<ExprId>,
    loads: Vec<Load>,
    /// What reads its length.
    lengths: Vec<ExprId>,
    /// What reads elements of rows of which it isn't known which they are, with the load.
    asks: Vec<(ExprId, usize)>,
    /// Variables that are read and hold the changed row, with what holds it then.
    uses: Vec<(ExprId, Var)>,
    /// What reads the changed row, or changes it, as the value of a block.
    of_blocks: Vec<ExprId>,
}

impl Found {
    /// What a loop over a range does with the first of its accumulators of which it changes one row.
    fn of(body: &Body, names: &Names, expr: ExprId, lists: &TypeLists, meter: &Meter) -> Option<Found> {
        let ExprKind::Loop(repeat) = &body.exprs[expr].kind else { return None };
        let Iteration::Range(_) = repeat.iteration else { return None };
        let holds_refs = |var: &Var| matches!(body.vars[*var], ValueType::Ref(_));
        if !repeat.vars.iter().any(holds_refs) {
            return None;
        }
        let (mut nodes, mut changes) = (0, false);
        for (_, node) in body.nodes_of(expr) {
            nodes += 1;
            changes |= is_of_rows(&node.kind);
            if nodes > COPIED_NODES_MAX || !meter.step(node.origin.span) {
                return None;
            }
        }
        if !changes {
            return None;
        }
        let survey = Survey::of(body, names, repeat);
        (0..repeat.vars.len()).filter(|&at| holds_refs(&repeat.vars[at])).find_map(|at| {
            let (versions, array) = in_place::versions(body, lists, meter, (expr, at))?;
            if holds_references(array) { survey.found((at, nodes), versions, array) } else { None }
        })
    }
}

/// What is known of a loop.
struct Survey<'s> {
    body: &'s Body,
    names: &'s Names,
    /// The nodes of its body.
    nodes: Vec<ExprId>,
    /// Where these stand.
    parents: HashMap<ExprId, ExprId>,
    /// What the loop binds.
    own: HashSet<Var>,
}

impl<'s> Survey<'s> {
    fn of(body: &'s Body, names: &'s Names, repeat: &Loop) -> Self {
        let mut own: HashSet<Var> = repeat.vars.iter().copied().collect();
        if let Iteration::Range(range) = repeat.iteration {
            own.insert(range.index);
        }
        let (mut nodes, mut parents) = (Vec::new(), HashMap::default());
        for (expr, node) in body.nodes_of(repeat.body) {
            nodes.push(expr);
            node.for_each_child(|child| _ = parents.insert(child, expr));
            node.kind.for_each_bound(|var| _ = own.insert(var));
        }
        Survey { body, names, nodes, parents, own }
    }

    /// What the loop does with an array whose versions are known.
    fn found(&self, (at, size): (usize, usize), versions: HashSet<Var>, array: ArrayType) -> Option<Found> {
        let version = |expr: ExprId| match self.body.exprs[expr].kind {
            ExprKind::Var(var) => Some(var).filter(|var| versions.contains(var)),
            _ => None,
        };
        let (mut index, mut changes, mut lengths, mut loaded) = (None, Vec::new(), Vec::new(), Vec::new());
        for &expr in &self.nodes {
            match &self.body.exprs[expr].kind {
                &ExprKind::Replace(of, [source, place, _]) if of == array => match version(source) {
                    Some(_) => {
                        let found = self.index(place).filter(|index| self.is_unchanged(*index))?;
                        if *index.get_or_insert(found) != found {
                            return None;
                        }
                        changes.push(expr);
                    }
                    // Of several changes in one.
                    None if !is_var(self.body, source) => return None,
                    None => {}
                },
                &ExprKind::Element(_, [source, place], _) => {
                    loaded.extend(version(source).map(|version| (expr, version, place)));
                }
                &ExprKind::Length(_, source) => lengths.extend(version(source).map(|_| expr)),
                // A text that shows the array.
                ExprKind::Trap(_) | ExprKind::Construct(..) => {
                    let mut shows = false;
                    self.body.exprs[expr].for_each_child(|child| shows |= version(child).is_some());
                    if shows {
                        return None;
                    }
                }
                _ => {}
            }
        }
        let index = index?;
        let loads: Vec<Load> = loaded
            .into_iter()
            .map(|(node, version, place)| {
                let row = self.row(index, self.index(place));
                Load { node, version, bound: self.bound(node), row }
            })
            .collect();
        let mut rows = Rows { survey: self, loads: &loads, row: None };
        if !changes.iter().all(|&change| rows.is_changed(change)) {
            return None;
        }
        let row = rows.row?;
        let (mut asks, mut row_uses, mut of_blocks) = (Vec::new(), Vec::new(), Vec::new());
        let mut uses: HashMap<Var, Vec<ExprId>> = HashMap::default();
        for &expr in &self.nodes {
            if let ExprKind::Var(var) = self.body.exprs[expr].kind {
                uses.entry(var).or_default().push(expr);
            }
        }
        for (number, load) in loads.iter().enumerate() {
            // Where the row itself is used.
            let places = match load.bound {
                Some(var) => uses.remove(&var).unwrap_or_default(),
                None => vec![load.node],
            };
            for place in places {
                let (reader, source) = self.reader(place);
                match (load.row, &self.body.exprs[reader].kind) {
                    (Row::Other, _) => {}
                    (_, &ExprKind::Element(of, [array, _], _)) if of == row && array == source => {
                        if load.row == Row::Unknown {
                            asks.push((reader, number));
                        }
                    }
                    // As many elements as before.
                    (_, &ExprKind::Length(..)) => {}
                    (Row::Changed, &ExprKind::Replace(of, [array, ..])) if of == row && array == source => {}
                    _ => return None,
                }
                if load.row == Row::Changed {
                    row_uses.extend(load.bound.map(|_| (place, load.version)));
                    of_blocks.extend(Some(reader).filter(|_| source != place));
                }
            }
        }
        Some(Found { at, size, versions, array, row, index, changes, loads, lengths, asks, uses: row_uses, of_blocks })
    }

    /// What an index is made of.
    fn index(&self, mut expr: ExprId) -> Option<Index> {
        let int = |expr: ExprId| match self.body.exprs[expr].kind {
            ExprKind::Int(value) => Some(value),
            _ => None,
        };
        let (mut var, mut offset, mut known) = (None, 0i64, 0i64);
        for _ in 0..INDEX_NODES_MAX {
            match &self.body.exprs[expr].kind {
                ExprKind::Int(value) => return Some(Index { var: None, offset: offset.wrapping_add(*value) }),
                ExprKind::Var(found) => {
                    (var, known) = (Some(*found), offset);
                    let Some(&value) = self.names.values.get(found) else { break };
                    expr = value;
                }
                ExprKind::Scalar(Op::IAdd, args) if let Some(by) = int(args[1]) => {
                    (expr, offset) = (args[0], offset.wrapping_add(by));
                }
                ExprKind::Scalar(Op::IAdd, args) if let Some(by) = int(args[0]) => {
                    (expr, offset) = (args[1], offset.wrapping_add(by));
                }
                ExprKind::Scalar(Op::ISub, args) if let Some(by) = int(args[1]) => {
                    (expr, offset) = (args[0], offset.wrapping_sub(by));
                }
                _ => break,
            }
        }
        var.map(|var| Index { var: Some(var), offset: known })
    }

    /// Whether an index is the same in all rounds.
    fn is_unchanged(&self, index: Index) -> bool {
        index.var.is_none_or(|var| !self.own.contains(&var))
    }

    /// Which row stands at an index.
    fn row(&self, changed: Index, index: Option<Index>) -> Row {
        let Some(index) = index else { return Row::Unknown };
        match index.var == changed.var {
            true if index.offset == changed.offset => Row::Changed,
            true => Row::Other,
            false if self.is_less(index, changed) || self.is_less(changed, index) => Row::Other,
            false => Row::Unknown,
        }
    }

    /// Whether an index is less than another one, because one of them begins behind the other or ends before it.
    fn is_less(&self, low: Index, high: Index) -> bool {
        let (Index { var: Some(below), offset: 0 }, Index { var: Some(above), offset: 0 }) = (low, high) else {
            return false;
        };
        let ends = self.names.ranges.get(&below).is_some_and(|range| self.index(range.to) == Some(high));
        // The next number exists, because something is greater than the index.
        let next = Index { var: Some(below), offset: 1 };
        let is_index = self.names.ranges.contains_key(&below);
        ends || is_index && self.names.ranges.get(&above).is_some_and(|range| self.index(range.from) == Some(next))
    }

    /// What reads an expression, past blocks that it is the value of, and as what.
    fn reader(&self, mut expr: ExprId) -> (ExprId, ExprId) {
        loop {
            let parent = self.parents[&expr];
            match self.body.exprs[parent].kind {
                ExprKind::Block(_, value) if value == expr && self.parents.contains_key(&parent) => expr = parent,
                _ => return (parent, expr),
            }
        }
    }

    /// The variable to which an expression is bound.
    fn bound(&self, expr: ExprId) -> Option<Var> {
        let ExprKind::Block(bindings, _) = &self.body.exprs[*self.parents.get(&expr)?].kind else { return None };
        bindings.iter().find(|binding| binding.value == expr).map(|binding| binding.vars[0])
    }
}

/// Follows what the array is given.
struct Rows<'r> {
    survey: &'r Survey<'r>,
    loads: &'r [Load],
    /// How rows hold elements.
    row: Option<ArrayType>,
}

impl Rows<'_> {
    /// Whether a change gives the array the row that stands there, with other elements.
    fn is_changed(&mut self, change: ExprId) -> bool {
        let body = self.survey.body;
        let ExprKind::Replace(_, [_, _, mut expr]) = body.exprs[change].kind else { return false };
        let mut replaces = false;
        loop {
            let loaded = |load: &&Load| load.node == expr;
            if self.loads.iter().find(loaded).is_some_and(|load| load.row == Row::Changed) {
                return replaces;
            }
            expr = match &body.exprs[expr].kind {
                &ExprKind::Replace(of, [source, ..]) if *self.row.get_or_insert(of) == of => {
                    replaces = true;
                    source
                }
                ExprKind::Var(var) if let Some(&value) = self.survey.names.values.get(var) => value,
                ExprKind::Block(_, value) => *value,
                _ => return false,
            };
        }
    }
}
