//! What array fusion, and moving what doesn't change, have to know of a function: the order of evaluation, what may
//! trap, what derivatives flow to, and the arrays that are made and read.

mod indices;

use super::facts::{Count, Facts};
use crate::arena::Table;
use crate::core::{Body, ExprId, ExprKind, Function, Inside, Iteration, Step, TypeLists, Var};
use crate::limits::Meter;
use dualvm_vm::module::ValueType;
use indices::{Elements, Indices};

/// So many branches around a place are looked at.
const BRANCHES_MAX: usize = 8;
/// A value is looked for behind at most so many blocks and tests.
const WRAPPERS_MAX: usize = 16;

/// A point in the order of evaluation: how many nodes are evaluated before.
pub(super) type Place = usize;

/// What is to be done with what is found to not trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::optimise) enum Order {
    /// It stays behind tests that have trapped if they fail, so that these tell what is known of it.
    Kept,
    /// It may be moved before them.
    Changed,
}

/// What is found in a function.
pub(in crate::optimise) struct Survey {
    /// The nodes in the order of evaluation.
    pub(super) order: Vec<ExprId>,
    /// The first and the last place of each subtree; the last is the node's own.
    pub(in crate::optimise) extents: Table<ExprId, (Place, Place)>,
    /// How many nodes up to each place may trap or not end, the one there included.
    traps: Vec<u32>,
    /// Where each variable is read.
    pub(in crate::optimise) uses: Table<Var, Vec<Place>>,
    /// Loads of reals, and what may load some, in the order of evaluation.
    pub(super) loads: Vec<(Place, Load)>,
    /// The variables that no derivative flows to.
    pub(super) constant: Table<Var, bool>,
    /// Where variables are bound.
    pub(super) bound: Table<Var, Place>,
    /// What is known of the objects in variables.
    pub(super) origins: Table<Var, Provenance>,
    /// The arrays that the objects in variables are elements of, if these were made for the array.
    pub(super) rows: Table<Var, Option<Var>>,
    /// The arrays that may be fused, in the order of evaluation.
    pub(super) made: Vec<Made>,
}

/// What loads reals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Load {
    /// A load from an array whose elements have reals, in objects that no other array has: the array, where it is a
    /// variable, and what is known of the index.
    Cell(Option<Var>, Option<Index>),
    /// A load from another object.
    Field,
    /// Something that may load anything.
    Anything,
}

/// An index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Index {
    /// A variable with something added.
    Shifted(Var, i64),
    /// A place in one of the rows of a matrix, all of so many elements: of two of the same width, those that are equal
    /// are at the same place.
    InRow { width: Var, at: Var },
}

/// Where an object comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Provenance {
    /// It was made where the variable is bound.
    Fresh,
    /// It was made since the function was called.
    Local,
    /// It was there when the function was called.
    Param,
    Unknown,
}

/// An array that a builder makes, and that is only read.
pub(super) struct Made {
    /// The variable that holds it.
    pub(super) array: Var,
    /// The block that binds the variable, to what.
    pub(super) block: ExprId,
    pub(super) value: ExprId,
    /// The builder.
    pub(super) collect: ExprId,
    /// Whether the end of its range is at least 0; the beginning is.
    pub(super) is_counted: bool,
    /// How many loops and branches are around, and which are the innermost ones.
    loops: (usize, Option<ExprId>),
    branches: (usize, Option<usize>),
    /// Where its length is asked for, and whether as the end of a range of indices, for which a count below 0 is 0.
    pub(super) lengths: Vec<(ExprId, bool)>,
    /// Where its elements are read.
    pub(super) reads: Vec<Read>,
    /// Whether it is used in another way.
    pub(super) escapes: bool,
}

/// A place where elements of an array are read.
pub(super) struct Read {
    /// The read.
    pub(super) expr: ExprId,
    /// Which elements.
    pub(super) which: Which,
    /// Whether there may be elements and they are not read.
    pub(super) is_conditional: bool,
    /// How much of what may trap is only evaluated if there are no elements.
    pub(super) exempt: u32,
}

/// Which elements are read at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    /// That at an index.
    At(i64),
    /// One in each iteration of a loop, in order, from one of them: that at the loop's index with something added.
    Each { repeat: ExprId, index: Var, shift: i64, from: i64, is_to_end: bool },
}

impl Survey {
    /// Looks at a function; not at all of it if the compilation is stopped.
    pub(in crate::optimise) fn of(function: &Function, lists: &TypeLists, order: Order, meter: &Meter) -> Survey {
        let (body, vars) = (&function.body, function.body.vars.len());
        let survey = Survey {
            order: Vec::new(),
            extents: Table::filled((0, 0), body.exprs.len()),
            traps: Vec::new(),
            uses: Table::filled(Vec::new(), vars),
            loads: Vec::new(),
            constant: Table::filled(false, vars),
            bound: Table::filled(0, vars),
            origins: Table::filled(Provenance::Unknown, vars),
            rows: Table::filled(None, vars),
            made: Vec::new(),
        };
        let mut walker = Walker {
            body,
            lists,
            meter,
            survey,
            facts: Facts::new(vars),
            made: Table::filled(None, vars),
            ranges: Table::filled(None, vars),
            shifts: Table::filled(None, vars),
            values: values(function, meter),
            is_length: Table::filled(false, vars),
            loops: Vec::new(),
            branches: Vec::new(),
            branches_so_far: 0,
            traps: 0,
            end_of_range: None,
            order,
        };
        for &param in &function.params {
            walker.survey.origins[param] = Provenance::Param;
        }
        walker.expr(function.root);
        walker.survey
    }

    /// How many nodes may trap or not end, of those after one place up to another.
    pub(super) fn traps_between(&self, after: Place, to: Place) -> u32 {
        self.traps[to] - self.traps[after]
    }

    /// Whether an expression may trap or not end.
    pub(in crate::optimise) fn may_trap(&self, expr: ExprId) -> bool {
        self.traps_in(expr) > 0
    }

    /// How many nodes of an expression may trap or not end.
    pub(in crate::optimise) fn traps_in(&self, expr: ExprId) -> u32 {
        self.traps[self.extents[expr].1] - self.traps_before(expr)
    }

    /// How many nodes may trap or not end, of those before an expression.
    pub(in crate::optimise) fn traps_before(&self, expr: ExprId) -> u32 {
        self.extents[expr].0.checked_sub(1).map_or(0, |before| self.traps[before])
    }

    /// How many nodes an expression has.
    pub(super) fn size(&self, expr: ExprId) -> usize {
        let (first, last) = self.extents[expr];
        last + 1 - first
    }
}

/// The builder that a value is, behind bindings and tests that trap.
fn maker(body: &Body, value: ExprId) -> Option<ExprId> {
    let mut expr = value;
    for _ in 0..WRAPPERS_MAX {
        match &body.exprs[expr].kind {
            ExprKind::Block(_, value) => expr = *value,
            ExprKind::If([_, then, other]) if is_trap(body, *other) => expr = *then,
            ExprKind::If([_, then, other]) if is_trap(body, *then) => expr = *other,
            ExprKind::Collect(..) => return Some(expr),
            _ => return None,
        }
    }
    None
}

/// What the value of an expression is, behind bindings.
fn unwrapped(body: &Body, expr: ExprId) -> ExprId {
    let mut expr = expr;
    for _ in 0..WRAPPERS_MAX {
        let ExprKind::Block(_, value) = body.exprs[expr].kind else { break };
        expr = value;
    }
    expr
}

/// One of the values of an expression, where it has a node of its own.
fn part_of(body: &Body, expr: ExprId, at: usize, count: usize) -> Option<ExprId> {
    match &body.exprs[unwrapped(body, expr)].kind {
        _ if count == 1 => Some(expr),
        ExprKind::Values(parts) if parts.len() == count => Some(parts[at]),
        _ => None,
    }
}

/// What variables are bound to, one by one.
fn values(function: &Function, meter: &Meter) -> Table<Var, Option<ExprId>> {
    let mut values = Table::filled(None, function.body.vars.len());
    for (_, node) in function.nodes(meter) {
        if let ExprKind::Block(bindings, _) = &node.kind {
            for binding in bindings {
                if let [var] = *binding.vars {
                    values[var] = Some(binding.value);
                }
            }
        }
    }
    values
}

pub(in crate::optimise) fn is_trap(body: &Body, expr: ExprId) -> bool {
    matches!(body.exprs[expr].kind, ExprKind::Trap(_))
}

/// A branch that control may not take.
#[derive(Clone, Copy)]
struct Branch {
    /// No other branch has it.
    number: usize,
    /// Set if all that it takes to get here is that a count is not 0.
    nonempty: Option<Nonempty>,
}

/// What a branch is only left out for.
#[derive(Clone, Copy)]
struct Nonempty {
    count: Count,
    /// Whether the count is above 0 here; it may be below.
    is_above: bool,
    /// How much in the other branch may trap.
    traps: u32,
}

struct Walker<'w> {
    body: &'w Body,
    lists: &'w TypeLists,
    meter: &'w Meter,
    survey: Survey,
    facts: Facts,
    /// The numbers of the arrays in `survey.made`.
    made: Table<Var, Option<usize>>,
    /// The ranges of indices.
    ranges: Table<Var, Option<Indices>>,
    /// The integers that are another one with a constant added.
    shifts: Table<Var, Option<(Var, i64)>>,
    /// What variables are bound to, one by one.
    values: Table<Var, Option<ExprId>>,
    /// The integers that are lengths.
    is_length: Table<Var, bool>,
    /// What is around the current place, the outermost first.
    loops: Vec<ExprId>,
    branches: Vec<Branch>,
    branches_so_far: usize,
    /// How many nodes so far may trap.
    traps: u32,
    /// The end of a range, while it is walked.
    end_of_range: Option<ExprId>,
    order: Order,
}

impl Walker<'_> {
    /// Walks an expression, and says whether no derivative flows to it.
    fn expr(&mut self, expr: ExprId) -> bool {
        if !self.meter.step(self.body.exprs[expr].origin.span) {
            return false;
        }
        let first = self.survey.order.len();
        let passive = crate::stack::grown(|| self.expr_here(expr));
        let types = self.lists.get(self.body.exprs[expr].types);
        self.survey.extents[expr] = (first, self.survey.order.len());
        self.survey.order.push(expr);
        self.survey.traps.push(self.traps);
        passive || types.iter().all(|&ty| ty == ValueType::Int)
    }

    fn exprs(&mut self, exprs: &[ExprId]) -> bool {
        // All are walked.
        let passive = exprs.iter().filter(|&&expr| self.expr(expr)).count();
        passive == exprs.len()
    }

    fn children(&mut self, expr: ExprId) {
        let body = self.body;
        body.exprs[expr].for_each_child(|child| _ = self.expr(child));
    }

    fn expr_here(&mut self, expr: ExprId) -> bool {
        let body = self.body;
        let node = &body.exprs[expr];
        match &node.kind {
            ExprKind::Var(var) => {
                if let Some(made) = self.made[*var] {
                    self.survey.made[made].escapes = true;
                }
                return self.read_var(*var);
            }
            ExprKind::Real(_) | ExprKind::Int(_) => return true,
            ExprKind::Constant { is_total, .. } => {
                self.traps += u32::from(!is_total);
                return true;
            }
            ExprKind::Scalar(op, args) => {
                let passive = self.exprs(args);
                self.traps += u32::from(op.info().traps);
                return passive;
            }
            ExprKind::Values(parts) => return self.exprs(parts),
            ExprKind::Block(bindings, value) => {
                for binding in bindings {
                    let passive = self.expr(binding.value);
                    self.define(&binding.vars);
                    if let [var] = *binding.vars {
                        self.survey.constant[var] = passive;
                        self.bind(expr, var, binding.value);
                    }
                }
                return self.expr(*value);
            }
            ExprKind::If(parts) => return self.choice(*parts),
            ExprKind::And([first, second]) | ExprKind::Or([first, second]) => {
                self.expr(*first);
                self.branch(None, |walker| walker.expr(*second));
            }
            ExprKind::Length(_, array) => {
                let is_end = self.end_of_range == Some(expr);
                match self.made_in(*array) {
                    Some(made) => {
                        self.plain(*array);
                        self.survey.made[made].lengths.push((expr, is_end));
                    }
                    None => _ = self.expr(*array),
                }
            }
            ExprKind::Element(_, [array, index], inside) => self.element(expr, *array, *index, *inside),
            ExprKind::Detach(object) => _ = self.expr(*object),
            ExprKind::Payload(_, object) => {
                self.expr(*object);
                if self.lists.get(node.types).contains(&ValueType::Real) {
                    self.load(Load::Field);
                }
            }
            ExprKind::Call(..)
            | ExprKind::CallClosure(..)
            | ExprKind::CallImport(..)
            | ExprKind::Fork(_)
            | ExprKind::ParallelMap(..)
            | ExprKind::Derivative(_) => {
                self.children(expr);
                self.traps += 1;
                self.load(Load::Anything);
            }
            ExprKind::Trap(_) | ExprKind::Trace(_) => {
                self.children(expr);
                self.traps += 1;
            }
            ExprKind::Switch(switch) => {
                self.expr(switch.object);
                for arm in switch.arms.iter().map(|arm| arm.1).chain(switch.default) {
                    self.branch(None, |walker| walker.expr(arm));
                }
            }
            ExprKind::Join(join) => {
                self.branch(None, |walker| walker.expr(join.value));
                for labelled in &join.bodies {
                    self.define(&labelled.params);
                    self.branch(None, |walker| walker.expr(labelled.body));
                }
            }
            ExprKind::Loop(repeat) => {
                self.expr(repeat.init);
                if let Iteration::Range(range) = repeat.iteration {
                    self.range(range);
                }
                self.define(&repeat.vars);
                for (at, &var) in repeat.vars.iter().enumerate() {
                    let (count, parts) = (repeat.vars.len(), [repeat.init, repeat.body]);
                    let is_made_here = |&part: &ExprId| {
                        part_of(body, part, at, count).is_some_and(|part| self.is_made_here(part, var))
                    };
                    if parts.iter().all(is_made_here) {
                        self.survey.origins[var] = Provenance::Local;
                    }
                }
                self.loops.push(expr);
                if let Iteration::While(cond) = repeat.iteration {
                    self.scoped(|walker| walker.expr(cond));
                }
                self.scoped(|walker| walker.expr(repeat.body));
                // Whether it ends matters to what comes after it.
                self.traps += u32::from(matches!(repeat.iteration, Iteration::While(_)));
                self.loops.pop();
            }
            ExprKind::Collect(_, collect) => {
                self.range(collect.range);
                if let Some(first) = collect.first {
                    self.first(first, collect.range);
                }
                self.loops.push(expr);
                self.scoped(|walker| walker.expr(collect.body));
                self.loops.pop();
            }
            ExprKind::Repeat(repeat) => {
                self.expr(repeat.init);
                self.define(&repeat.params);
                self.loops.push(expr);
                self.scoped(|walker| walker.expr(repeat.body));
                self.traps += 1;
                self.loops.pop();
            }
            ExprKind::Replace(_, parts) => {
                self.exprs(parts);
                self.traps += 1;
            }
            ExprKind::Builder(_, step, parts) => {
                self.exprs(parts);
                self.traps += u32::from(matches!(step, Step::Begin | Step::Reserve));
            }
            ExprKind::Compare(..)
            | ExprKind::Not(_)
            | ExprKind::Pack(..)
            | ExprKind::Construct(..)
            | ExprKind::Closure(..)
            | ExprKind::Jump(..)
            | ExprKind::Extend(_) => self.children(expr),
        }
        false
    }

    fn read_var(&mut self, var: Var) -> bool {
        let place = self.survey.order.len();
        self.survey.uses[var].push(place);
        self.survey.constant[var]
    }

    /// Walks a variable that holds an array, without another use of it.
    fn plain(&mut self, expr: ExprId) {
        let place = self.survey.order.len();
        if let ExprKind::Var(var) = self.body.exprs[expr].kind {
            self.read_var(var);
        }
        self.survey.extents[expr] = (place, place);
        self.survey.order.push(expr);
        self.survey.traps.push(self.traps);
    }

    fn load(&mut self, load: Load) {
        self.survey.loads.push((self.survey.order.len(), load));
    }

    fn var(&self, expr: ExprId) -> Option<Var> {
        match self.body.exprs[expr].kind {
            ExprKind::Var(var) => Some(var),
            _ => None,
        }
    }

    fn made_in(&self, array: ExprId) -> Option<usize> {
        self.var(array).and_then(|var| self.made[var])
    }

    fn define(&mut self, vars: &[Var]) {
        let place = self.survey.order.len();
        vars.iter().for_each(|&var| self.survey.bound[var] = place);
    }

    /// A variable of a block was bound to one value.
    fn bind(&mut self, block: ExprId, var: Var, value: ExprId) {
        let own = self.facts.of_var(var);
        if self.body.vars[var] == ValueType::Int {
            self.is_length[var] = self.counts(value);
            self.shifts[var] = self.shifted(value);
            if let Some(count) = self.count(value) {
                self.facts.join(own, count);
            }
            return;
        }
        let Some(collect) = maker(self.body, value) else {
            let origins = &self.survey.origins;
            let is_old = |object: ExprId| self.var(object).is_some_and(|var| origins[var] == Provenance::Param);
            self.survey.origins[var] = match self.body.exprs[value].kind {
                ExprKind::Pack(..) | ExprKind::ParallelMap(..) => Provenance::Fresh,
                // What an object holds was there before it.
                ExprKind::Payload(_, object) | ExprKind::Element(_, [object, _], _) if is_old(object) => {
                    Provenance::Param
                }
                _ => Provenance::Unknown,
            };
            self.survey.rows[var] = self.row_of(value);
            return;
        };
        self.survey.origins[var] = Provenance::Fresh;
        let ExprKind::Collect(_, parts) = &self.body.exprs[collect].kind else { return };
        let from_zero = matches!(self.body.exprs[parts.range.from].kind, ExprKind::Int(0));
        if let Some(count) = self.count(parts.range.to).filter(|_| from_zero) {
            self.facts.join(own, count);
        }
        if !from_zero && !self.begins_natural(parts.range.from) {
            return;
        }
        self.made[var] = Some(self.survey.made.len());
        self.survey.made.push(Made {
            array: var,
            block,
            value,
            collect,
            is_counted: self.counts(parts.range.to),
            loops: (self.loops.len(), self.loops.last().copied()),
            branches: (self.branches.len(), self.branches.last().map(|branch| branch.number)),
            lengths: Vec::new(),
            reads: Vec::new(),
            escapes: false,
        });
    }

    /// The array of whose elements a value is one, if each was made by an expression that gives it no name.
    fn row_of(&self, value: ExprId) -> Option<Var> {
        let ExprKind::Element(_, [array, _], _) = self.body.exprs[value].kind else { return None };
        let made = &self.survey.made[self.made_in(array)?];
        let ExprKind::Collect(_, collect) = &self.body.exprs[made.collect].kind else { return None };
        let is_new = |element: ExprId| {
            let element = &self.body.exprs[unwrapped(self.body, element)];
            matches!(element.kind, ExprKind::Collect(..) | ExprKind::Pack(..))
        };
        collect.first.into_iter().chain([collect.body]).all(is_new).then_some(made.array)
    }

    /// Runs something, and forgets what was known only in there.
    fn scoped<T>(&mut self, walk: impl FnOnce(&mut Self) -> T) -> T {
        let mark = self.facts.mark();
        let result = walk(self);
        self.facts.back_to(mark);
        result
    }

    fn branch<T>(&mut self, nonempty: Option<Nonempty>, walk: impl FnOnce(&mut Self) -> T) -> T {
        self.branches.push(Branch { number: self.branches_so_far, nonempty });
        self.branches_so_far += 1;
        let result = self.scoped(walk);
        self.branches.pop();
        result
    }

    fn choice(&mut self, [cond, then, other]: [ExprId; 3]) -> bool {
        self.expr(cond);
        let before = self.traps;
        let emptiness = self.emptiness(cond);
        // Whether there are elements in a branch, and what may have trapped in the other one if that came first.
        let nonempty = |holds: bool, traps: u32| {
            let (count, is_above, if_empty) = emptiness.filter(|emptiness| emptiness.2 != holds)?;
            debug_assert_ne!(if_empty, holds);
            Some(Nonempty { count, is_above, traps })
        };
        let passive = self.branch(nonempty(true, 0), |walker| {
            walker.assume(cond, true);
            walker.expr(then)
        });
        let traps = self.traps - before;
        let other_passive = self.branch(nonempty(false, traps), |walker| {
            walker.assume(cond, false);
            walker.expr(other)
        });
        // What comes after a branch that traps comes after the other one.
        if self.order == Order::Kept && is_trap(self.body, other) {
            self.assume(cond, true);
        } else if self.order == Order::Kept && is_trap(self.body, then) {
            self.assume(cond, false);
        }
        passive && other_passive
    }

    fn element(&mut self, expr: ExprId, array: ExprId, index: ExprId, inside: Inside) {
        let made = self.made_in(array);
        match made {
            Some(_) => self.plain(array),
            None => _ = self.expr(array),
        }
        self.expr(index);
        let var = self.var(array);
        let is_within = var.is_some_and(|var| self.is_within(index, self.facts.of_var(var)));
        let is_there = match inside {
            Inside::Unknown => false,
            // The test stays before it only if the order is kept.
            Inside::Tested => self.order == Order::Kept,
            Inside::Always => true,
        };
        self.traps += u32::from(!is_within && !is_there);
        let types = self.lists.get(self.body.exprs[expr].types);
        if types.contains(&ValueType::Real) {
            let shifted = self.shifted(index).map(|(var, by)| Index::Shifted(var, by));
            self.load(Load::Cell(var, shifted.or_else(|| self.in_row(index))));
        }
        let Some(made) = made else { return };
        match self.read((expr, inside != Inside::Unknown), &self.survey.made[made], index) {
            Some(read) => self.survey.made[made].reads.push(read),
            None => self.survey.made[made].escapes = true,
        }
    }

    /// Whether all arrays that an expression may be were made since the function was called, if that is so of those
    /// that a variable holds.
    fn is_made_here(&self, expr: ExprId, assumed: Var) -> bool {
        let mut pending = vec![expr];
        for _ in 0..WRAPPERS_MAX {
            let Some(expr) = pending.pop() else { return true };
            match self.body.exprs[unwrapped(self.body, expr)].kind {
                ExprKind::Collect(..) | ExprKind::Pack(..) | ExprKind::ParallelMap(..) | ExprKind::Trap(_) => {}
                ExprKind::If([_, then, other]) => pending.extend([then, other]),
                ExprKind::Var(var) if var == assumed => {}
                ExprKind::Var(var) if matches!(self.survey.origins[var], Provenance::Fresh | Provenance::Local) => {}
                ExprKind::Var(var) => match self.values[var] {
                    Some(value) => pending.push(value),
                    None => return false,
                },
                _ => return false,
            }
        }
        pending.is_empty()
    }

    /// What a read of an array's elements is, if it is of one of the known kinds. `is_inside`: whether the index is
    /// certain to be in the array.
    fn read(&self, (expr, is_inside): (ExprId, bool), made: &Made, index: ExprId) -> Option<Read> {
        let count = self.facts.of_var(made.array);
        let ((depth, around), (branches, branch)) = (made.loops, made.branches);
        // What was around where the array was made must still be around.
        let loop_at = |depth: usize| depth.checked_sub(1).map(|at| self.loops.get(at));
        let is_within = is_inside || self.is_within(index, count);
        if loop_at(depth).is_some_and(|found| found.copied() != around) || !is_within {
            return None;
        }
        let branch_there = branches.checked_sub(1).map(|at| self.branches.get(at).map(|branch| branch.number));
        if branch_there.is_some_and(|found| found != branch) {
            return None;
        }
        let which = match (&self.loops[depth..], &self.body.exprs[index].kind) {
            ([], &ExprKind::Int(at)) => Which::At(at),
            (&[repeat], _) => {
                let Elements { index, shift, from, is_to_end } = self.elements(index, count)?;
                let of_loop = match &self.body.exprs[repeat].kind {
                    ExprKind::Loop(repeat) => match repeat.iteration {
                        Iteration::Range(range) => range.index,
                        Iteration::While(_) => return None,
                    },
                    ExprKind::Collect(_, collect) => collect.range.index,
                    _ => return None,
                };
                if of_loop != index {
                    return None;
                }
                Which::Each { repeat, index, shift, from, is_to_end }
            }
            _ => return None,
        };
        let inner = &self.branches[branches..];
        let is_exempt =
            |branch: &Branch| branch.nonempty.is_some_and(|nonempty| self.facts.are_equal(nonempty.count, count));
        let is_conditional = inner.len() > BRANCHES_MAX || !inner.iter().all(is_exempt);
        let exempt =
            inner.iter().take(BRANCHES_MAX).filter_map(|branch| branch.nonempty).map(|other| other.traps).sum();
        Some(Read { expr, which, is_conditional, exempt })
    }
}
