//! What array fusion has to know of a function: the order of evaluation, what may trap, what derivatives flow to, and
//! the arrays that are made and read.

use super::facts::{Count, Facts};
use crate::arena::Table;
use crate::core::{Body, Comparison, ExprId, ExprKind, Function, Iteration, Range, TypeLists, Var};
use crate::limits::Meter;
use dualvm_vm::module::ValueType;

/// So many conditions joined by `&&` are looked at.
const CONDITIONS_MAX: usize = 16;
/// So many branches around a place are looked at.
const BRANCHES_MAX: usize = 8;
/// A value is looked for behind at most so many blocks and tests.
const WRAPPERS_MAX: usize = 16;

/// A point in the order of evaluation: how many nodes are evaluated before.
pub(super) type Place = usize;

/// What is found in a function.
pub(super) struct Survey {
    /// The nodes in the order of evaluation.
    pub(super) order: Vec<ExprId>,
    /// The first and the last place of each subtree; the last is the node's own.
    pub(super) extents: Table<ExprId, (Place, Place)>,
    /// How many nodes up to each place may trap or not end.
    traps: Vec<u32>,
    /// Where each variable is read.
    pub(super) uses: Table<Var, Vec<Place>>,
    /// Loads of reals, and what may load some, in the order of evaluation.
    pub(super) loads: Vec<(Place, Load)>,
    /// The variables that no derivative flows to.
    pub(super) constant: Table<Var, bool>,
    /// Where variables are bound.
    pub(super) bound: Table<Var, Place>,
    /// What is known of the objects in variables.
    pub(super) origins: Table<Var, Origin>,
    /// The arrays that the objects in variables are elements of, if these were made for the array.
    pub(super) rows: Table<Var, Option<Var>>,
    /// The arrays that may be fused, in the order of evaluation.
    pub(super) made: Vec<Made>,
}

/// What loads reals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Load {
    /// A load from an array whose elements have reals, in objects that no other array has: the array and the index,
    /// where they are variables.
    Cell(Option<Var>, Option<Var>),
    /// A load from another object.
    Field,
    /// Something that may load anything.
    Anything,
}

/// Where an object comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// It was made where the variable is bound.
    Fresh,
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
    /// Whether its count is at least 0.
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
    /// The first one.
    First,
    /// One in each iteration of a loop, in order, from an index.
    Each { repeat: ExprId, index: Var, from: i64 },
}

impl Survey {
    /// Looks at a function; not at all of it if the compilation is stopped.
    pub(super) fn of(function: &Function, lists: &TypeLists, meter: &Meter) -> Survey {
        let (body, vars) = (&function.body, function.body.vars.len());
        let survey = Survey {
            order: Vec::new(),
            extents: Table::filled((0, 0), body.exprs.len()),
            traps: Vec::new(),
            uses: Table::filled(Vec::new(), vars),
            loads: Vec::new(),
            constant: Table::filled(false, vars),
            bound: Table::filled(0, vars),
            origins: Table::filled(Origin::Unknown, vars),
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
            is_length: Table::filled(false, vars),
            loops: Vec::new(),
            branches: Vec::new(),
            branches_so_far: 0,
            traps: 0,
            end_of_range: None,
        };
        for &param in &function.params {
            walker.survey.origins[param] = Origin::Param;
        }
        walker.expr(function.root);
        walker.survey
    }

    /// How many nodes may trap or not end, of those after one place up to another.
    pub(super) fn traps_between(&self, after: Place, to: Place) -> u32 {
        self.traps[to] - self.traps[after]
    }

    /// Whether an expression may trap or not end.
    pub(super) fn may_trap(&self, expr: ExprId) -> bool {
        let (first, last) = self.extents[expr];
        let before = first.checked_sub(1).map_or(0, |before| self.traps[before]);
        self.traps[last] > before
    }

    /// How many nodes an expression has.
    pub(super) fn size(&self, expr: ExprId) -> usize {
        let (first, last) = self.extents[expr];
        last + 1 - first
    }
}

/// The builder that a value is, behind bindings and tests that trap, if it counts from 0.
fn maker(body: &Body, value: ExprId) -> Option<ExprId> {
    let mut expr = value;
    for _ in 0..WRAPPERS_MAX {
        match &body.exprs[expr].kind {
            ExprKind::Block(_, value) => expr = *value,
            ExprKind::If([_, then, other]) if is_trap(body, *other) => expr = *then,
            ExprKind::If([_, then, other]) if is_trap(body, *then) => expr = *other,
            ExprKind::Collect(_, collect) => {
                return matches!(body.exprs[collect.range.from].kind, ExprKind::Int(0)).then_some(expr);
            }
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

pub(super) fn is_trap(body: &Body, expr: ExprId) -> bool {
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

/// A range that an index runs through.
#[derive(Clone, Copy)]
struct Indices {
    /// The first one, if that is known.
    from: Option<i64>,
    to: Option<Count>,
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
}

impl Walker<'_> {
    /// Walks an expression, and says whether no derivative flows to it.
    fn expr(&mut self, expr: ExprId) -> bool {
        if !self.meter.step(self.body.exprs[expr].span) {
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
            ExprKind::Scalar(op, args) => {
                self.traps += u32::from(op.info().traps);
                return self.exprs(args);
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
            ExprKind::Length(array) => {
                let is_end = self.end_of_range == Some(expr);
                match self.made_in(*array) {
                    Some(made) => {
                        self.plain(*array);
                        self.survey.made[made].lengths.push((expr, is_end));
                    }
                    None => _ = self.expr(*array),
                }
            }
            ExprKind::Element(_, [array, index]) => self.element(expr, *array, *index),
            ExprKind::Payload(_, object) => {
                self.expr(*object);
                if self.lists.get(node.types).contains(&ValueType::Real) {
                    self.load(Load::Field);
                }
            }
            ExprKind::Call(..) | ExprKind::CallClosure(..) | ExprKind::Fork(_) | ExprKind::ParallelMap(..) => {
                self.children(expr);
                self.traps += 1;
                self.load(Load::Anything);
            }
            ExprKind::Trap(_) => self.traps += 1,
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
                self.loops.push(expr);
                if let Iteration::While(cond) = repeat.iteration {
                    self.scoped(|walker| walker.expr(cond));
                    self.traps += 1;
                }
                self.scoped(|walker| walker.expr(repeat.body));
                self.loops.pop();
            }
            ExprKind::Collect(_, collect) => {
                self.range(collect.range);
                self.loops.push(expr);
                self.scoped(|walker| walker.expr(collect.body));
                self.loops.pop();
            }
            ExprKind::Repeat(repeat) => {
                self.expr(repeat.init);
                self.define(&repeat.params);
                self.loops.push(expr);
                self.traps += 1;
                self.scoped(|walker| walker.expr(repeat.body));
                self.loops.pop();
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
            if let Some(count) = self.count(value) {
                self.facts.join(own, count);
            }
            return;
        }
        let Some(collect) = maker(self.body, value) else {
            let is_new = matches!(self.body.exprs[value].kind, ExprKind::Pack(..) | ExprKind::ParallelMap(..));
            self.survey.origins[var] = if is_new { Origin::Fresh } else { Origin::Unknown };
            self.survey.rows[var] = self.row_of(value);
            return;
        };
        self.survey.origins[var] = Origin::Fresh;
        let ExprKind::Collect(_, parts) = &self.body.exprs[collect].kind else { return };
        if let Some(count) = self.count(parts.range.to) {
            self.facts.join(own, count);
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
        let ExprKind::Element(_, [array, _]) = self.body.exprs[value].kind else { return None };
        let made = &self.survey.made[self.made_in(array)?];
        let ExprKind::Collect(_, collect) = &self.body.exprs[made.collect].kind else { return None };
        let element = unwrapped(self.body, collect.body);
        let is_new = matches!(self.body.exprs[element].kind, ExprKind::Collect(..) | ExprKind::Pack(..));
        is_new.then_some(made.array)
    }

    /// The count that an integer is, once it was walked.
    fn count(&mut self, expr: ExprId) -> Option<Count> {
        match &self.body.exprs[unwrapped(self.body, expr)].kind {
            ExprKind::Int(value) => Some(self.facts.constant(*value)),
            ExprKind::Var(var) if self.body.vars[*var] == ValueType::Int => Some(self.facts.of_var(*var)),
            ExprKind::Length(array) => self.var(*array).map(|array| self.facts.of_var(array)),
            _ => None,
        }
    }

    /// Whether an integer can't be below 0.
    fn counts(&self, expr: ExprId) -> bool {
        match &self.body.exprs[unwrapped(self.body, expr)].kind {
            ExprKind::Int(value) => *value >= 0,
            ExprKind::Var(var) => self.is_length[*var],
            ExprKind::Length(_) => true,
            _ => false,
        }
    }

    /// Walks the ends of a range, and notes what its index is.
    fn range(&mut self, range: Range) {
        self.expr(range.from);
        let from = match self.body.exprs[range.from].kind {
            ExprKind::Int(from) => Some(from),
            _ => None,
        };
        let end = from.filter(|&from| from >= 0).map(|_| range.to);
        let outer = std::mem::replace(&mut self.end_of_range, end);
        self.expr(range.to);
        self.end_of_range = outer;
        self.define(&[range.index]);
        let to = self.count(range.to);
        self.ranges[range.index] = Some(Indices { from, to });
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

    /// Notes what follows from a condition's being true, or being false.
    fn assume(&mut self, cond: ExprId, holds: bool) {
        let mut pending = vec![(cond, holds)];
        for _ in 0..CONDITIONS_MAX {
            let Some((cond, holds)) = pending.pop() else { return };
            match (&self.body.exprs[cond].kind, holds) {
                (ExprKind::Not(operand), _) => pending.push((*operand, !holds)),
                (ExprKind::Block(_, value), _) => pending.push((*value, holds)),
                (ExprKind::And(pair), true) | (ExprKind::Or(pair), false) => {
                    pending.extend(pair.iter().map(|&part| (part, holds)));
                }
                (ExprKind::Compare(Comparison::Equal, [a, b]), true)
                | (ExprKind::Compare(Comparison::NotEqual, [a, b]), false) => {
                    let (a, b) = (self.count(*a), self.count(*b));
                    if let (Some(a), Some(b)) = (a, b) {
                        self.facts.join(a, b);
                    }
                }
                _ => {}
            }
        }
    }

    /// The count whose being 0 a condition tells, whether that count can't be below 0, and what the condition is then.
    fn emptiness(&mut self, cond: ExprId) -> Option<(Count, bool, bool)> {
        let (mut cond, mut if_empty) = (cond, true);
        for _ in 0..CONDITIONS_MAX {
            match &self.body.exprs[cond].kind {
                ExprKind::Not(operand) => (cond, if_empty) = (*operand, !if_empty),
                ExprKind::Block(_, value) => cond = *value,
                ExprKind::Compare(comparison @ (Comparison::Equal | Comparison::NotEqual), [count, zero]) => {
                    let is_zero = matches!(self.body.exprs[*zero].kind, ExprKind::Int(0));
                    let known = self.count(*count).filter(|_| is_zero)?;
                    return Some((known, self.counts(*count), if_empty == (*comparison == Comparison::Equal)));
                }
                _ => return None,
            }
        }
        None
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
        if is_trap(self.body, other) {
            self.assume(cond, true);
        } else if is_trap(self.body, then) {
            self.assume(cond, false);
        }
        passive && other_passive
    }

    fn element(&mut self, expr: ExprId, array: ExprId, index: ExprId) {
        let made = self.made_in(array);
        match made {
            Some(_) => self.plain(array),
            None => _ = self.expr(array),
        }
        self.expr(index);
        let (var, index_var) = (self.var(array), self.var(index));
        let is_within = var.is_some_and(|var| self.is_within(index, self.facts.of_var(var)));
        self.traps += u32::from(!is_within);
        let types = self.lists.get(self.body.exprs[expr].types);
        if types.contains(&ValueType::Real) {
            self.load(Load::Cell(var, index_var));
        }
        let Some(made) = made else { return };
        match self.read(expr, &self.survey.made[made], index) {
            Some(read) => self.survey.made[made].reads.push(read),
            None => self.survey.made[made].escapes = true,
        }
    }

    /// Whether an index is at least 0 and less than a count.
    fn is_within(&self, index: ExprId, count: Count) -> bool {
        match &self.body.exprs[index].kind {
            ExprKind::Var(index) => self.ranges[*index].is_some_and(|range| {
                range.from.is_some_and(|from| from >= 0) && range.to.is_some_and(|to| self.facts.are_equal(to, count))
            }),
            ExprKind::Int(0) => self.branches.iter().rev().take(BRANCHES_MAX).any(|branch| {
                branch.nonempty.is_some_and(|nonempty| nonempty.is_above && self.facts.are_equal(nonempty.count, count))
            }),
            _ => false,
        }
    }

    /// What a read of an array's elements is, if it is of one of the known kinds.
    fn read(&self, expr: ExprId, made: &Made, index: ExprId) -> Option<Read> {
        let count = self.facts.of_var(made.array);
        let ((depth, around), (branches, branch)) = (made.loops, made.branches);
        // What was around where the array was made must still be around.
        let loop_at = |depth: usize| depth.checked_sub(1).map(|at| self.loops.get(at));
        if loop_at(depth).is_some_and(|found| found.copied() != around) || !self.is_within(index, count) {
            return None;
        }
        let branch_there = branches.checked_sub(1).map(|at| self.branches.get(at).map(|branch| branch.number));
        if branch_there.is_some_and(|found| found != branch) {
            return None;
        }
        let which = match (&self.loops[depth..], &self.body.exprs[index].kind) {
            ([], ExprKind::Int(0)) => Which::First,
            (&[repeat], &ExprKind::Var(index)) => {
                let of_loop = match &self.body.exprs[repeat].kind {
                    ExprKind::Loop(repeat) => match repeat.iteration {
                        Iteration::Range(range) => range.index,
                        Iteration::While(_) => return None,
                    },
                    ExprKind::Collect(_, collect) => collect.range.index,
                    _ => return None,
                };
                let from = self.ranges[index].and_then(|range| range.from).filter(|_| of_loop == index)?;
                Which::Each { repeat, index, from }
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
