//! Which arrays become variables.

use super::facts::{Facts, rounds};
use super::{PARTS_MAX, ROUNDS_MAX, Short};
use crate::core::{ArrayType, Body, ExprId, ExprKind, Function, Iteration, Label, Layout, Range, Step, TypeLists, Var};
use crate::hash::{HashMap, HashSet};
use crate::limits::Meter;
use crate::list::List;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;
use smallvec::{SmallVec, smallvec};

/// A loop that weighs more is not written out. Integers weigh less: most of them are indices, which will be known.
const UNROLLED_WEIGHT_MAX: usize = 4 * 1_200;
const INTEGER_WEIGHT: usize = 1;
const NODE_WEIGHT: usize = 4;
/// So many nodes of an index are looked at, through the names of integers.
const INDEX_NODES_MAX: usize = 64;

/// What is to be done in a function.
pub(super) struct Choice {
    /// The arrays that become variables.
    pub(super) arrays: HashMap<Var, Short>,
    /// The loops that are written out for them, outer ones first.
    pub(super) unrolled: Vec<Unrolled>,
}

/// A loop that is written out.
pub(super) struct Unrolled {
    pub(super) expr: ExprId,
    /// The first index.
    pub(super) from: i64,
    pub(super) rounds: i64,
}

/// Where a value goes.
#[derive(Clone, Copy)]
enum Sink {
    /// Anywhere.
    Whole,
    /// It is a variable's only value, or one of several.
    Into(Var),
    /// It is what a loop begins with.
    Start(Var),
}

/// An array that may become variables.
#[derive(Default)]
struct Candidate {
    /// What it is; `None` as long as that isn't known.
    array: Option<ArrayType>,
    /// In how many loops it is bound.
    depth: usize,
    /// Whether it is one that isn't ready yet: a builder.
    is_builder: bool,
    /// Whether it can't be, or should better not.
    refused: bool,
    /// Whether it has elements that are no short arrays.
    holds_others: bool,
    /// Whether it is made here, at least sometimes.
    is_made: bool,
    /// How often it is read as a whole, and whether that is as often as it is bound.
    wholes: usize,
    is_read_where_bound: bool,
    /// Whether it may be what it was in the round before.
    stays: bool,
    /// The loops whose indices its elements are read at, for each element that is read.
    reads: Vec<SmallVec<[ExprId; 2]>>,
    /// The loops that make it.
    makers: Vec<ExprId>,
    /// Other variables that get it, and in how many loops.
    into: Vec<(Var, usize)>,
    /// Other variables that it gets its array from, but for those that a loop begins with. A builder's beginning is
    /// among them: it has to be in parts, too.
    from: Vec<Var>,
    starts: Vec<Var>,
}

impl Choice {
    /// What there is in a function. If no loops are to be written out, the indices of all of them are unknown.
    pub(super) fn of(function: &Function, lists: &TypeLists, facts: &Facts, unrolls: bool, meter: &Meter) -> Choice {
        let mut walk = Walk {
            body: &function.body,
            lists,
            facts,
            meter,
            unrolls,
            candidates: HashMap::default(),
            order: Vec::new(),
            labels: HashMap::default(),
            indices: HashMap::default(),
            names: HashMap::default(),
            loops: HashMap::default(),
            loop_order: Vec::new(),
            depth: 0,
        };
        let sinks: Sinks = SmallVec::from_elem(Sink::Whole, lists.get(function.results).len());
        walk.expr(function.root, &sinks);
        walk.finish()
    }
}

type Sinks = SmallVec<[Sink; 4]>;

struct Walk<'w> {
    body: &'w Body,
    lists: &'w TypeLists,
    facts: &'w Facts,
    meter: &'w Meter,
    unrolls: bool,
    candidates: HashMap<Var, Candidate>,
    /// The candidates in the order in which they were found.
    order: Vec<Var>,
    labels: HashMap<Label, List<Var>>,
    /// The loops that may be written out, by their indices.
    indices: HashMap<Var, ExprId>,
    /// What integers are names of.
    names: HashMap<Var, ExprId>,
    /// The loops that may be written out, with the first index and the number of rounds; `None` for those that are too
    /// large.
    loops: HashMap<ExprId, Option<(i64, i64)>>,
    loop_order: Vec<ExprId>,
    depth: usize,
}

impl Walk<'_> {
    fn finish(mut self) -> Choice {
        // Objects and long arrays gain nothing by names of their own, and where they are read one after the other, they
        // may not have to be made (`arrays.rs`).
        for candidate in self.candidates.values_mut().filter(|candidate| candidate.holds_others) {
            candidate.refused = true;
            candidate.reads.iter().flatten().for_each(|read| _ = self.loops.insert(*read, None));
        }
        // Each refusal may lead to others among those that are the same array.
        let mut pending = std::mem::take(&mut self.order);
        while let Some(var) = pending.pop()
            && self.meter.steps(1)
        {
            if self.candidates.get(&var).is_some_and(|candidate| !self.can_be(candidate, var) || !self.pays(candidate))
                && let Some(Candidate { into, from, starts, .. }) = self.candidates.remove(&var)
            {
                pending.extend(into.into_iter().map(|(var, _)| var).chain(from).chain(starts));
            }
        }
        if !self.meter.go_on() {
            return Choice { arrays: HashMap::default(), unrolled: Vec::new() };
        }
        let mut wanted = HashSet::default();
        let mut arrays = HashMap::default();
        for (&var, candidate) in &self.candidates {
            wanted.extend(candidate.reads.iter().flatten().chain(&candidate.makers).copied());
            if let Some(short) = self.short(var, candidate) {
                arrays.insert(var, short);
            }
        }
        let unrolled = self.loop_order.iter().filter(|expr| wanted.contains(expr)).filter_map(|&expr| {
            let (from, rounds) = self.loops[&expr]?;
            Some(Unrolled { expr, from, rounds })
        });
        Choice { arrays, unrolled: unrolled.collect() }
    }

    fn is_left(&self, var: &Var) -> bool {
        self.candidates.contains_key(var)
    }

    /// Whether variables can be put in an array's place, if they are in that of all others that are left.
    fn can_be(&self, candidate: &Candidate, var: Var) -> bool {
        // How long a builder is in a loop is known when that is written out.
        let is_short = candidate.is_builder && self.unrolls || self.short(var, candidate).is_some();
        let is_fine = |loops: &ExprId| self.loops.get(loops).is_some_and(Option::is_some);
        is_short
            && !candidate.refused
            && candidate.from.iter().all(|var| self.is_left(var))
            && candidate.reads.iter().flatten().chain(&candidate.makers).all(is_fine)
    }

    /// Whether that takes no more arrays than there were, and makes reads of elements cheaper.
    fn pays(&self, candidate: &Candidate) -> bool {
        // Those that get it as an array.
        let mut others = candidate.into.iter().filter(|(var, _)| !self.is_left(var));
        let wholes = candidate.wholes + others.clone().count();
        if others.clone().any(|&(_, depth)| depth > candidate.depth) {
            return false;
        }
        // What is handed on, and was made outside of a loop, is made anew where it is read as a whole inside.
        let is_inside = |var: &Var, depth: usize| self.candidates.get(var).is_none_or(|other| other.depth >= depth);
        let begins_inside =
            |candidate: &Candidate, depth: usize| candidate.starts.iter().all(|var| is_inside(var, depth));
        let is_made_inside = |var: &Var| {
            is_inside(var, candidate.depth)
                && self.candidates.get(var).is_none_or(|other| begins_inside(other, candidate.depth))
        };
        let is_read_where_bound = candidate.is_read_where_bound || others.any(|&(_, depth)| depth == candidate.depth);
        let is_made_as_often = !(candidate.stays && is_read_where_bound)
            && begins_inside(candidate, candidate.depth.saturating_sub(1))
            && candidate.from.iter().all(is_made_inside);
        let may_be_read = match wholes {
            0 => true,
            1 => !candidate.is_builder && is_made_as_often,
            _ => false,
        };
        may_be_read
            && (candidate.is_made || !candidate.from.is_empty())
            && (!candidate.reads.is_empty() || candidate.into.iter().any(|(var, _)| self.is_left(var)))
    }

    fn short(&self, var: Var, candidate: &Candidate) -> Option<Short> {
        let length = usize::try_from(self.facts.known(var)?).ok()?;
        let short = Short { array: candidate.array?, length };
        let is_row = match short.array.layout {
            // Elements that are objects are values, too.
            Layout::Row(width) => width == 1 || !matches!(short.array.holds, ValueType::Ref(_)),
            Layout::Struct => false,
        };
        let fewest = usize::from(!candidate.is_builder);
        (is_row && (fewest..=PARTS_MAX).contains(&short.parts())).then_some(short)
    }

    /// Notes variables that are bound.
    fn bind(&mut self, vars: &[Var]) {
        for &var in vars {
            let is_short = self.facts.known(var).is_some_and(|length| (1..=PARTS_MAX as i64).contains(&length));
            let is_builder = self.facts.is_builder(var);
            if (is_short || is_builder) && matches!(self.body.vars[var], ValueType::Ref(_)) {
                let candidate = Candidate { depth: self.depth, is_builder, ..Candidate::default() };
                self.candidates.insert(var, candidate);
                self.order.push(var);
            }
        }
    }

    fn is_array(&mut self, var: Var, array: ArrayType) {
        if let Some(candidate) = self.candidates.get_mut(&var) {
            candidate.refused |= *candidate.array.get_or_insert(array) != array;
        }
    }

    /// A read of an array as a whole.
    fn whole(&mut self, var: Var) {
        if let Some(candidate) = self.candidates.get_mut(&var) {
            candidate.wholes += 1;
            candidate.refused |= self.depth > candidate.depth;
            candidate.is_read_where_bound |= self.depth == candidate.depth;
        }
    }

    /// An array that an expression makes goes somewhere.
    fn made(&mut self, expr: ExprId, sink: Sink, array: ArrayType, maker: Option<ExprId>) {
        let (Sink::Into(var) | Sink::Start(var)) = sink else { return };
        self.is_array(var, array);
        let holds_others = matches!(array.holds, ValueType::Ref(_)) && !self.facts.has_known_elements(expr);
        if let Some(candidate) = self.candidates.get_mut(&var) {
            candidate.is_made = true;
            candidate.holds_others |= holds_others;
            candidate.makers.extend(maker);
        }
    }

    /// Something that isn't made here goes somewhere. Loops may begin with it.
    fn other(&mut self, sink: Sink) {
        if let Sink::Into(var) = sink
            && let Some(candidate) = self.candidates.get_mut(&var)
        {
            candidate.refused = true;
        }
    }

    /// A variable's value goes somewhere.
    fn variable(&mut self, var: Var, sink: Sink) {
        if !self.candidates.contains_key(&var) {
            self.other(sink);
            return;
        }
        match sink {
            Sink::Into(to) | Sink::Start(to) if to != var && self.candidates.contains_key(&to) => {
                let arrays = [var, to].map(|var| self.candidates[&var].array);
                arrays
                    .into_iter()
                    .flatten()
                    .for_each(|array| [var, to].into_iter().for_each(|var| self.is_array(var, array)));
                if let Some(candidate) = self.candidates.get_mut(&var) {
                    candidate.into.push((to, self.depth));
                }
                if let Some(candidate) = self.candidates.get_mut(&to) {
                    match sink {
                        Sink::Start(_) if !candidate.is_builder => candidate.starts.push(var),
                        _ => candidate.from.push(var),
                    }
                }
            }
            Sink::Into(to) | Sink::Start(to) if to == var => {
                if let Some(candidate) = self.candidates.get_mut(&var) {
                    candidate.stays = true;
                }
            }
            _ => self.whole(var),
        }
    }

    fn count(&self, expr: ExprId) -> usize {
        self.lists.get(self.body.exprs[expr].types).len()
    }

    /// Walks an expression whose values go nowhere in particular. Returns its nodes, as all functions that walk do:
    /// with loops written out that may be.
    fn whole_expr(&mut self, expr: ExprId) -> usize {
        let sinks: Sinks = SmallVec::from_elem(Sink::Whole, self.count(expr));
        self.expr(expr, &sinks)
    }

    /// Walks expressions whose values one after the other go somewhere.
    fn all(&mut self, exprs: &[ExprId], mut sinks: &[Sink]) -> usize {
        let mut nodes = 0;
        for &expr in exprs {
            let (own, rest) = sinks.split_at(self.count(expr).min(sinks.len()));
            nodes += self.expr(expr, own);
            sinks = rest;
        }
        nodes
    }

    fn expr(&mut self, expr: ExprId, sinks: &[Sink]) -> usize {
        if !self.meter.step(self.body.exprs[expr].origin.span) {
            return 0;
        }
        let weight = crate::stack::grown(|| self.expr_here(expr, sinks));
        let is_integer = self.lists.get(self.body.exprs[expr].types) == [ValueType::Int];
        weight + if is_integer { INTEGER_WEIGHT } else { NODE_WEIGHT }
    }

    fn expr_here(&mut self, expr: ExprId, sinks: &[Sink]) -> usize {
        let body = self.body;
        let sink = sinks.first().copied().unwrap_or(Sink::Whole);
        match &body.exprs[expr].kind {
            ExprKind::Var(var) => {
                self.variable(*var, sink);
                0
            }
            ExprKind::Values(parts) => self.all(parts, sinks),
            ExprKind::Pack(array, elements) => {
                self.made(expr, sink, *array, None);
                elements.iter().map(|&element| self.whole_expr(element)).sum()
            }
            ExprKind::Collect(array, collect) => {
                let around = self.whole_expr(collect.range.from) + self.whole_expr(collect.range.to);
                let first = collect.first.map_or(0, |first| self.whole_expr(first));
                let is_short = self.enter(expr, collect.range, collect.first.is_none());
                match is_short {
                    true => self.made(expr, sink, *array, Some(expr)),
                    false => self.other(sink),
                }
                self.depth += 1;
                let nodes = self.whole_expr(collect.body);
                self.depth -= 1;
                around + first + self.leave(expr, nodes)
            }
            ExprKind::Builder(array, step, parts) => {
                let is_dropped = |part: ExprId| self.facts.integer(body, part).is_some();
                let target = match sink {
                    Sink::Into(var) | Sink::Start(var) if self.candidates.contains_key(&var) => Some(var),
                    _ => None,
                };
                match (step, target) {
                    (Step::Begin, Some(_)) if is_dropped(parts[0]) => {
                        self.made(expr, sink, *array, None);
                        self.whole_expr(parts[0])
                    }
                    (Step::Reserve | Step::Push | Step::Finish, Some(var))
                        if *step != Step::Reserve || is_dropped(parts[1]) =>
                    {
                        self.made(expr, sink, *array, None);
                        let nodes = self.expr(parts[0], &[Sink::Into(var)]);
                        nodes + parts[1..].iter().map(|&part| self.whole_expr(part)).sum::<usize>()
                    }
                    _ => {
                        self.other(sink);
                        parts.iter().map(|&part| self.whole_expr(part)).sum()
                    }
                }
            }
            &ExprKind::Element(array, [object, index], _) => {
                self.other(sink);
                let ExprKind::Var(var) = body.exprs[object].kind else {
                    return self.whole_expr(object) + self.whole_expr(index);
                };
                self.is_array(var, array);
                let loops = self.static_index(index, &mut { INDEX_NODES_MAX }).filter(|loops| {
                    let length = self.facts.known(var).unwrap_or(0);
                    // An index that is known is in the array, or traps.
                    !loops.is_empty() || self.facts.integer(body, index).is_some_and(|at| (0..length).contains(&at))
                });
                let nodes = self.whole_expr(index);
                if let Some(candidate) = self.candidates.get_mut(&var) {
                    match loops {
                        Some(loops) => candidate.reads.push(loops),
                        None => candidate.refused = true,
                    }
                }
                1 + nodes
            }
            &ExprKind::Length(array, object) => match body.exprs[object].kind {
                ExprKind::Var(var) => {
                    self.is_array(var, array);
                    1
                }
                _ => self.whole_expr(object),
            },
            &ExprKind::Replace(array, [object, index, element]) => {
                let loops = self.static_index(index, &mut { INDEX_NODES_MAX });
                let nodes = match (sink, loops) {
                    (Sink::Into(var) | Sink::Start(var), Some(loops)) if self.candidates.contains_key(&var) => {
                        self.made(expr, sink, array, None);
                        if let Some(candidate) = self.candidates.get_mut(&var) {
                            candidate.reads.push(loops);
                        }
                        self.expr(object, &[Sink::Into(var)])
                    }
                    _ => {
                        self.other(sink);
                        self.whole_expr(object)
                    }
                };
                nodes + self.whole_expr(index) + self.whole_expr(element)
            }
            &ExprKind::If([cond, then, other]) => {
                self.whole_expr(cond) + self.expr(then, sinks) + self.expr(other, sinks)
            }
            ExprKind::Switch(switch) => {
                let nodes = self.whole_expr(switch.object);
                let arms = switch.arms.iter().map(|arm| arm.1).chain(switch.default);
                nodes + arms.map(|arm| self.expr(arm, sinks)).sum::<usize>()
            }
            ExprKind::Block(bindings, value) => {
                let mut nodes = 0;
                for binding in bindings {
                    if let [var] = binding.vars[..]
                        && body.vars[var] == ValueType::Int
                    {
                        self.names.insert(var, binding.value);
                    }
                    self.bind(&binding.vars);
                    nodes += self.expr(binding.value, &into(&binding.vars));
                }
                nodes + self.expr(*value, sinks)
            }
            ExprKind::Loop(repeat) => {
                self.depth += 1;
                self.bind(&repeat.vars);
                self.depth -= 1;
                let is_static = |range: Range| self.rounds_of(range, true).is_some();
                let is_short = matches!(repeat.iteration, Iteration::Range(range) if is_static(range));
                for var in &repeat.vars {
                    // A builder grows by rounds that are written out.
                    if let Some(candidate) = self.candidates.get_mut(var)
                        && candidate.is_builder
                    {
                        candidate.refused |= !is_short;
                        candidate.makers.push(expr);
                    }
                }
                let starts: Sinks = repeat.vars.iter().map(|&var| Sink::Start(var)).collect();
                let mut around = self.expr(repeat.init, &starts);
                if let Iteration::Range(range) = repeat.iteration {
                    around += self.whole_expr(range.from) + self.whole_expr(range.to);
                    self.enter(expr, range, true);
                }
                self.depth += 1;
                let mut nodes = self.expr(repeat.body, &into(&repeat.vars));
                if let Iteration::While(cond) = repeat.iteration {
                    nodes += self.whole_expr(cond);
                }
                self.depth -= 1;
                for (&var, &sink) in repeat.vars.iter().zip(sinks) {
                    self.variable(var, sink);
                }
                around + self.leave(expr, nodes)
            }
            ExprKind::Repeat(repeat) => {
                self.labels.insert(repeat.label, repeat.params.clone());
                if !repeat.builds {
                    self.depth += 1;
                    self.bind(&repeat.params);
                    self.depth -= 1;
                }
                let starts: Sinks = repeat.params.iter().map(|&var| Sink::Start(var)).collect();
                let nodes = self.expr(repeat.init, &starts);
                self.depth += 1;
                let nodes = nodes
                    + match repeat.builds {
                        true => {
                            sinks.iter().for_each(|&sink| self.other(sink));
                            self.whole_expr(repeat.body)
                        }
                        false => self.expr(repeat.body, sinks),
                    };
                self.depth -= 1;
                nodes
            }
            ExprKind::Join(join) => {
                for labelled in &join.bodies {
                    self.labels.insert(labelled.label, labelled.params.clone());
                    self.bind(&labelled.params);
                }
                join.parts().map(|part| self.expr(part, sinks)).sum()
            }
            ExprKind::Jump(label, args) => {
                let params = self.labels.get(label).cloned().unwrap_or_default();
                self.all(args, &into(&params))
            }
            ExprKind::Trap(text) => {
                // Most tests of indices vanish, with what they would say.
                text.args.iter().for_each(|&arg| _ = self.whole_expr(arg));
                0
            }
            _ => {
                sinks.iter().for_each(|&sink| self.other(sink));
                let mut children: SmallVec<[ExprId; 4]> = smallvec![];
                body.exprs[expr].for_each_child(|child| children.push(child));
                children.into_iter().map(|child| self.whole_expr(child)).sum()
            }
        }
    }

    /// Notes a loop over a range that may be written out; whether it may.
    fn enter(&mut self, expr: ExprId, range: Range, is_plain: bool) -> bool {
        let Some(rounds) = self.rounds_of(range, is_plain) else { return false };
        self.indices.insert(range.index, expr);
        self.loops.insert(expr, Some(rounds));
        self.loop_order.push(expr);
        true
    }

    /// The first index of a loop that may be written out, and the number of its rounds.
    fn rounds_of(&self, range: Range, is_plain: bool) -> Option<(i64, i64)> {
        let [from, to] = [range.from, range.to].map(|bound| self.facts.integer(self.body, bound));
        let (from, to) = (from?, to?);
        let rounds = rounds(from, to).filter(|&rounds| rounds <= ROUNDS_MAX && is_plain && self.unrolls)?;
        Some((from, rounds))
    }

    /// Ends what was begun with a loop whose body has so many nodes. Returns its nodes.
    fn leave(&mut self, expr: ExprId, nodes: usize) -> usize {
        let Some(found) = self.loops.get_mut(&expr) else { return nodes };
        let Some((_, rounds)) = *found else { return nodes };
        let all = nodes.saturating_mul(rounds as usize);
        if all > UNROLLED_WEIGHT_MAX {
            *found = None;
            return nodes;
        }
        all
    }

    /// The loops on whose rounds an index depends, if on nothing else, as far as so many nodes tell.
    fn static_index(&self, index: ExprId, nodes: &mut usize) -> Option<SmallVec<[ExprId; 2]>> {
        *nodes = nodes.checked_sub(1)?;
        if self.facts.integer(self.body, index).is_some() {
            return Some(SmallVec::new());
        }
        match &self.body.exprs[index].kind {
            ExprKind::Var(var) => {
                if let Some(&expr) = self.indices.get(var) {
                    return Some(smallvec![expr]);
                }
                self.static_index(*self.names.get(var)?, nodes)
            }
            ExprKind::Scalar(Op::IAdd | Op::ISub | Op::IMul | Op::IDiv | Op::IRem, args) => {
                let mut loops: SmallVec<[ExprId; 2]> = smallvec![];
                for &arg in args {
                    loops.extend(self.static_index(arg, nodes)?);
                }
                Some(loops)
            }
            _ => None,
        }
    }
}

/// Where the values of some variables go.
fn into(vars: &[Var]) -> Sinks {
    vars.iter().map(|&var| Sink::Into(var)).collect()
}
