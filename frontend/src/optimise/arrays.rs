//! Fusion of arrays: an array that a builder makes, and that one loop reads in order, is never made. Nor is one of
//! which several loops read elements that take little, or of which single elements are read.
//!
//! `sum_array (zip_array (*) xs ys)` is, once it was inlined, a builder that counts from 0 and a loop that counts up to
//! the array's length and reads one element per iteration. The expression for the element takes the place of the read,
//! and the builder's count that of the length. A builder may count from another integer, if that is known to be at
//! least 0, so that no count is too large for an integer. A loop that begins with the first element and counts from 1,
//! as that of `minimum_array` does, gets a copy of a small expression before it. A builder of which the first round was
//! taken out (`peel.rs`) has an expression for the first element, which goes there instead. A loop may also read at a
//! constant distance from its index, if that is always inside of the array: there, the builder's index is bound to the
//! loop's with the distance added.
//!
//! The elements are computed and combined in the order in which they were before. What changes is when: the expression
//! for an element comes after what stands between builder and loop, and after what the loop did with the elements
//! before it. Nobody can tell if
//! - each element was read at most once, or it takes so little that to compute it again is no more work than to load
//!   it, and it can't trap;
//! - the expression can't trap and always ends; or else all elements are read whatever happens, and nothing that the
//!   expression comes after can trap or run for ever. What is only evaluated for an empty array counts as nothing;
//! - no derivative flows from both to the same place: the contributions to it would be added in another order. Of
//!   arrays both may read the same element in an iteration.
//!
//! An array that is read by a loop that changes another one, which the elements are made of, is made: else the loop
//! would need a copy, since the elements are of the array as it was.
//!
//! An element that is not read is not computed, which nobody can tell if that can't trap. Which contributions a record
//! sums before it adds them to an adjoint follows from the code, here as in all that is optimised: where a loop that
//! made arrays becomes one that doesn't, there are fewer records, and a derivative's last bit may be another one.
//!
//! Chains are fused in rounds: in one round a builder either takes elements in or is taken in, so that each round
//! halves them.

mod facts;
mod survey;

use super::{copies, scalar_cost};
use crate::core::{Atom, Binding, Body, Collect, Expr, ExprId, ExprKind, Function, Origin, Range, TypeLists, Var};
use crate::hash::{HashMap, HashSet};
use crate::limits::{Count, Meter};
use crate::list::List;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;
use std::collections::BTreeSet;
use survey::{Index, Load, Made, Place, Provenance, Read, Which};
pub(super) use survey::{Order, Survey, is_trap};

/// An element and the loop that it moves into have at most so many nodes together.
const NODES_MAX: usize = 400;
/// An element of at most so many nodes is copied: for a loop that begins with the first one, and for several reads.
const COPIED_NODES_MAX: usize = 64;
/// An element of at most so many nodes, which loads at most so many numbers, is computed again for up to so many reads.
const CHEAP_NODES_MAX: usize = 12;
const CHEAP_LOADS_MAX: usize = 2;
const READS_MAX: usize = 9;
/// So many loads are compared with others.
const ELEMENT_LOADS_MAX: usize = 32;
const LOADS_MAX: usize = 256;
/// Chains of 2 to the power of this many arrays are fused to one.
const ROUNDS_MAX: usize = 8;

/// Fuses the arrays of a function; whether there were any.
pub(super) fn fuse(function: &mut Function, lists: &mut TypeLists, meter: &Meter) -> bool {
    if !has_builders(function, meter) {
        return false;
    }
    let mut any = false;
    for _ in 0..ROUNDS_MAX {
        let survey = Survey::of(function, lists, Order::Kept, meter);
        if !meter.go_on() {
            return any;
        }
        let chosen = choose(&survey, &function.body, meter);
        if chosen.is_empty() || !meter.go_on() {
            return any;
        }
        any = true;
        Fuser { body: &mut function.body, lists, meter, survey: &survey }.all(&chosen);
    }
    any
}

/// Whether anything is built and bound to a variable.
fn has_builders(function: &Function, meter: &Meter) -> bool {
    function.nodes(meter).any(|(_, node)| matches!(node.kind, ExprKind::Collect(..)))
}

/// An array that is to be fused.
struct Fusion<'s> {
    made: &'s Made,
    /// Where single elements are read, and which.
    single: Vec<(&'s Read, i64)>,
    /// Where its elements are read in a loop, and the loop and its index.
    each: Vec<(&'s Read, ExprId, Var)>,
}

impl<'s> Fusion<'s> {
    fn new(made: &'s Made) -> Self {
        Fusion { made, single: Vec::new(), each: Vec::new() }
    }
}

/// The arrays that are fused in this round.
fn choose<'s>(survey: &'s Survey, body: &Body, meter: &Meter) -> Vec<Fusion<'s>> {
    let mut chosen = Vec::new();
    let (mut makers, mut takers) = (HashSet::default(), HashSet::default());
    let mut places = BTreeSet::new();
    for made in &survey.made {
        let Some(fusion) = fusion(survey, body, made, meter) else { continue };
        let loops = || fusion.each.iter().map(|&(_, repeat, _)| repeat);
        // What is in an element that is copied is fused first.
        let (first, last) = survey.extents[made.collect];
        let is_copied = !fusion.single.is_empty() || fusion.each.len() > 1;
        let is_busy = is_copied && places.range(first..=last).next().is_some();
        if is_busy || takers.contains(&made.collect) || loops().any(|repeat| makers.contains(&repeat)) {
            continue;
        }
        makers.insert(made.collect);
        takers.extend(loops());
        places.insert(survey.extents[made.collect].1);
        chosen.push(fusion);
    }
    chosen
}

/// How an array can be fused, if nobody can tell.
fn fusion<'s>(survey: &'s Survey, body: &Body, made: &'s Made, meter: &Meter) -> Option<Fusion<'s>> {
    let ExprKind::Collect(_, collect) = &body.exprs[made.collect].kind else { return None };
    let elements = || collect.first.into_iter().chain([collect.body]);
    let size = elements().map(|element| survey.size(element)).sum();
    if made.escapes || size > NODES_MAX || !meter.steps(size) {
        return None;
    }
    let is_harmless = !elements().any(|element| survey.may_trap(element));
    // A first element that has an expression of its own isn't copied.
    let (first, each) = match &made.reads[..] {
        [] => return is_harmless.then(|| Fusion::new(made)),
        [each] if matches!(each.which, Which::Each { .. }) => (None, each),
        [first, each] if is_rest(first, each) => {
            if collect.first.is_none() && size > COPIED_NODES_MAX {
                return None;
            }
            (Some(first), each)
        }
        _ if is_harmless && collect.first.is_none() => return several(survey, body, made, collect, meter),
        _ => return None,
    };
    let Which::Each { repeat, index, from, is_to_end, .. } = each.which else { return None };
    let is_whole = match first {
        // The expression that is left isn't that of the first element.
        None if from == 0 && collect.first.is_some() => return None,
        None => from == 0 && is_to_end,
        Some(_) => is_to_end,
    };
    let after = survey.extents[made.value].1;
    let to = survey.extents[repeat].1;
    if survey.size(repeat) + size > NODES_MAX {
        return None;
    }
    if !is_harmless {
        let is_conditional = each.is_conditional || first.is_some_and(|first| first.is_conditional);
        if !is_whole || is_conditional || survey.traps_between(after, to) > each.exempt {
            return None;
        }
    }
    let keeps_sums = |element| Moved::new(survey, body, made, (collect, element), each, meter).keeps_sums();
    if elements().any(|element| keeps_changed(survey, body, element, repeat)) {
        return None;
    }
    let single = first.map(|first| (first, 0)).into_iter().collect();
    elements().all(keeps_sums).then(|| Fusion { made, single, each: vec![(each, repeat, index)] })
}

/// Whether a loop reads the elements behind the first one, which is read before.
fn is_rest(first: &Read, each: &Read) -> bool {
    first.which == Which::At(0) && matches!(each.which, Which::Each { from: 1, .. })
}

/// How an array can be fused of which elements are read at several places, and none can trap: if they take little, or
/// if they are single ones, each of which is read once.
fn several<'s>(
    survey: &'s Survey,
    body: &Body,
    made: &'s Made,
    collect: &Collect,
    meter: &Meter,
) -> Option<Fusion<'s>> {
    let element = collect.body;
    let size = survey.size(element);
    if made.reads.len() > READS_MAX || size > COPIED_NODES_MAX {
        return None;
    }
    let mut fusion = Fusion::new(made);
    for read in &made.reads {
        match read.which {
            Which::At(at) => fusion.single.push((read, at)),
            Which::Each { repeat, index, .. } => fusion.each.push((read, repeat, index)),
        }
    }
    let mut known = BTreeSet::new();
    let is_once = fusion.each.is_empty() && fusion.single.iter().all(|&(_, at)| known.insert(at));
    if !is_once && !is_cheap(survey, body, element) {
        return None;
    }
    let is_small = fusion.each.iter().all(|&(_, repeat, _)| {
        survey.size(repeat) + size <= NODES_MAX && !keeps_changed(survey, body, element, repeat)
    });
    let keeps_sums = |read: &Read| Moved::new(survey, body, made, (collect, element), read, meter).keeps_sums();
    (is_small && made.reads.iter().all(keeps_sums)).then_some(fusion)
}

/// Whether an element reads what a loop carries first and changes: it would have to be there as it was, and so what the
/// loop changes would be a copy.
fn keeps_changed(survey: &Survey, body: &Body, element: ExprId, repeat: ExprId) -> bool {
    let nodes = |expr: ExprId| {
        let (first, last) = survey.extents[expr];
        survey.order[first..=last].iter().map(|&node| &body.exprs[node].kind)
    };
    let ExprKind::Loop(carried) = &body.exprs[repeat].kind else { return false };
    let arrays = |kind: &ExprKind| match *kind {
        ExprKind::Var(var) if matches!(body.vars[var], ValueType::Ref(_)) => Some(var),
        _ => None,
    };
    let first: BTreeSet<Var> = nodes(carried.init).filter_map(arrays).collect();
    !first.is_empty()
        && nodes(element).filter_map(arrays).any(|var| first.contains(&var))
        && nodes(carried.body).any(|kind| matches!(kind, ExprKind::Replace(..)))
}

/// Whether to compute an element again is no more work than to load it.
fn is_cheap(survey: &Survey, body: &Body, element: ExprId) -> bool {
    let (first, last) = survey.extents[element];
    // What was taken in before stands in blocks.
    let is_block = |node: &ExprId| matches!(body.exprs[*node].kind, ExprKind::Block(..));
    let nodes = || survey.order[first..=last].iter().filter(|node| !is_block(node));
    let is_load = |node: &&ExprId| matches!(body.exprs[**node].kind, ExprKind::Element(..));
    nodes().count() <= CHEAP_NODES_MAX
        && nodes().filter(is_load).count() <= CHEAP_LOADS_MAX
        && nodes().all(|&node| match &body.exprs[node].kind {
            ExprKind::Var(_) | ExprKind::Real(_) | ExprKind::Int(_) | ExprKind::Element(..) => true,
            ExprKind::Scalar(op, _) => scalar_cost(*op) == 1,
            _ => false,
        })
}

/// An element that is to be moved to where it is read.
struct Moved<'m> {
    survey: &'m Survey,
    body: &'m Body,
    element: ExprId,
    /// The builder's index.
    at: Var,
    /// The array, and where it is there.
    array: Var,
    made: Place,
    /// Where what it is moved past ends.
    to: Place,
    /// The index of the loop that reads it, and what is added to that for the builder's, if it is known.
    index: Option<(Var, i64)>,
    /// Whether that loop has as many iterations as the array has elements.
    is_whole: bool,
    meter: &'m Meter,
}

impl<'m> Moved<'m> {
    fn new(
        survey: &'m Survey,
        body: &'m Body,
        made: &Made,
        (collect, element): (&Collect, ExprId),
        read: &Read,
        meter: &'m Meter,
    ) -> Self {
        let (to, index) = match (read.which, &body.exprs[collect.range.from].kind) {
            (Which::At(_), _) => (read.expr, None),
            (Which::Each { repeat, index, shift, .. }, ExprKind::Int(from)) => {
                (repeat, shift.checked_add(*from).map(|shift| (index, shift)))
            }
            (Which::Each { repeat, .. }, _) => (repeat, None),
        };
        let [made_at, to] = [made.value, to].map(|expr| survey.extents[expr].1);
        let is_whole = matches!(read.which, Which::Each { shift: 0, is_to_end: true, .. });
        let (at, array) = (collect.range.index, made.array);
        Moved { survey, body, element, at, array, made: made_at, to, index, is_whole, meter }
    }

    /// Whether no derivative flows to the same place from the element and from what it is moved past.
    fn keeps_sums(&self) -> bool {
        let (first, last) = self.survey.extents[self.element];
        for &expr in &self.survey.order[first..=last] {
            if let ExprKind::Var(var) = self.body.exprs[expr].kind
                && self.body.vars[var] == ValueType::Real
                && !self.survey.constant[var]
            {
                let uses = &self.survey.uses[var];
                let next = uses.partition_point(|&at| at <= self.made);
                if uses.get(next).is_some_and(|&at| at <= self.to) {
                    return false;
                }
            }
        }
        let loads = &self.survey.loads;
        let from = |place: Place| loads.partition_point(|&(at, _)| at < place);
        let own = &loads[from(first)..from(last + 1)];
        let others = &loads[from(self.made + 1)..from(self.to + 1)];
        if own.is_empty() || others.is_empty() {
            return true;
        }
        if own.len() > ELEMENT_LOADS_MAX || others.len() > LOADS_MAX || !self.meter.steps(others.len()) {
            return false;
        }
        own.iter().all(|own| others.iter().all(|other| self.are_apart(own.1, other.1)))
    }

    /// Whether a load in the element and another one are never of the same number, or only in the same iteration.
    fn are_apart(&self, own: Load, other: Load) -> bool {
        match (own, other) {
            // What only the array has, or one that was made since, the element can't load.
            (_, Load::Cell(Some(array), _)) if self.is_made_since(array) => true,
            (Load::Cell(..), Load::Field) | (Load::Field, Load::Cell(..)) => true,
            (Load::Cell(a, i), Load::Cell(b, j)) => {
                let is_same_place = i.zip(j).zip(self.index).is_some_and(|((i, j), (index, shift))| match (i, j) {
                    (Index::Shifted(i, by), Index::Shifted(j, other_by)) => {
                        i == self.at && j == index && by.checked_add(shift) == Some(other_by)
                    }
                    (Index::InRow { width, at: i }, Index::InRow { width: other_width, at: j }) => {
                        // Each loop goes up to a width.
                        let is_same_width = width == other_width || self.is_whole;
                        is_same_width && i == self.at && j == index && shift == 0
                    }
                    // Both are below the width: what is in another row than the first one is behind all of that.
                    (Index::InRow { at: i, .. }, Index::Shifted(j, 0))
                    | (Index::Shifted(i, 0), Index::InRow { at: j, .. }) => {
                        self.is_whole && i == self.at && j == index && shift == 0
                    }
                    _ => false,
                });
                is_same_place || a.zip(b).is_some_and(|(a, b)| self.are_different(a, b))
            }
            _ => false,
        }
    }

    fn is_made_since(&self, array: Var) -> bool {
        self.survey.rows[array] == Some(self.array)
            || self.survey.origins[array] == Provenance::Fresh && self.survey.bound[array] > self.made
    }

    /// Whether two variables hold different arrays: that of the element, and another one.
    fn are_different(&self, own: Var, other: Var) -> bool {
        let [own_origin, other_origin] = [own, other].map(|var| self.survey.origins[var]);
        let [own_place, other_place] = [own, other].map(|var| self.survey.bound[var]);
        match (own_origin, other_origin) {
            _ if own == other => false,
            (Provenance::Fresh, Provenance::Fresh) => true,
            (Provenance::Fresh | Provenance::Local, Provenance::Param)
            | (Provenance::Param, Provenance::Fresh | Provenance::Local) => true,
            // What was there before an array was made is another one.
            (Provenance::Fresh, _) => other_place < own_place,
            (_, Provenance::Fresh) => own_place < other_place,
            _ => false,
        }
    }
}

/// Fuses what was chosen.
struct Fuser<'f> {
    body: &'f mut Body,
    lists: &'f mut TypeLists,
    meter: &'f Meter,
    survey: &'f Survey,
}

impl Fuser<'_> {
    fn all(&mut self, chosen: &[Fusion]) {
        // Lengths first: elements that are copied may ask for them.
        let mut counts: HashMap<ExprId, Vec<Binding>> = HashMap::default();
        let mut starts = Vec::with_capacity(chosen.len());
        for fusion in chosen {
            let mut bindings = Vec::new();
            starts.push(self.count(fusion.made, &mut bindings));
            counts.insert(fusion.made.value, bindings);
        }
        // What is inside of a block comes before it: `around` takes out of it what it has then.
        let mut blocks: Vec<ExprId> = chosen.iter().map(|fusion| fusion.made.block).collect();
        blocks.sort_unstable_by_key(|&block| self.survey.extents[block].1);
        blocks.dedup();
        for block in blocks {
            self.block(block, &mut counts);
        }
        debug_assert!(counts.is_empty(), "a length has been named that nothing binds");
        // What is inside of an element comes before it.
        for (fusion, start) in chosen.iter().zip(starts) {
            self.element(fusion, start);
        }
    }

    fn make(&mut self, kind: ExprKind, types: &[ValueType], origin: Origin) -> ExprId {
        self.meter.node(Count::Code, origin.span);
        self.body.exprs.push(Expr { kind, types: self.lists.intern(types), origin })
    }

    /// Puts the count in the place of an array's length. Says where it is counted from, and adds what gives names to
    /// that and to the count, where they need some.
    fn count(&mut self, made: &Made, bindings: &mut Vec<Binding>) -> Atom {
        let ExprKind::Collect(_, collect) = &self.body.exprs[made.collect].kind else {
            unreachable!("builders make arrays")
        };
        let Range { from, mut to, .. } = collect.range;
        let origin = self.body.exprs[made.collect].origin;
        let is_end = made.lengths.iter().all(|&(_, is_end)| is_end);
        let start = match self.body.exprs[from].kind {
            ExprKind::Int(start) => Atom::Int(start),
            ExprKind::Var(var) => Atom::Var(var),
            _ => Atom::Var(self.name(from, bindings)),
        };
        let int = |fuser: &mut Self, kind| fuser.make(kind, &[ValueType::Int], origin);
        let from_zero = matches!(start, Atom::Int(0));
        if !from_zero {
            // Neither is below 0.
            if !(is_end && made.is_counted) {
                let least = int(self, start.kind());
                to = int(self, ExprKind::Scalar(Op::IMax, List::from([to, least])));
            }
            let less = int(self, start.kind());
            to = int(self, ExprKind::Scalar(Op::ISub, List::from([to, less])));
        }
        let is_plain = made.is_counted || is_end || !from_zero;
        let atom = match self.body.exprs[to].kind {
            ExprKind::Int(count) => Atom::Int(count.max(0)),
            ExprKind::Var(var) if is_plain => Atom::Var(var),
            _ => {
                if !is_plain {
                    let zero = int(self, ExprKind::Int(0));
                    to = int(self, ExprKind::Scalar(Op::IMax, List::from([to, zero])));
                }
                Atom::Var(self.name(to, bindings))
            }
        };
        for &(length, _) in &made.lengths {
            self.body.exprs[length].kind = atom.kind();
        }
        start
    }

    /// Binds an integer to a variable.
    fn name(&mut self, value: ExprId, bindings: &mut Vec<Binding>) -> Var {
        let var = self.body.vars.push(ValueType::Int);
        bindings.push(Binding { vars: List::from([var]), value });
        var
    }

    /// Puts the element in the place of where it is read. The builder counts from `start`.
    fn element(&mut self, fusion: &Fusion, start: Atom) {
        let ExprKind::Collect(_, collect) = &self.body.exprs[fusion.made.collect].kind else { return };
        let (own_first, element, at) = (collect.first, collect.body, collect.range.index);
        for &(read, place) in &fusion.single {
            let (bindings, copy) = match own_first {
                Some(first) => (Vec::new(), first),
                None => {
                    let mut bindings = Vec::new();
                    let index = self.index(read, (start, place), &mut bindings);
                    (bindings, self.copy(element, HashMap::from_iter([(at, index)])))
                }
            };
            self.body.exprs[read.expr].kind = ExprKind::Block(bindings.into(), copy);
        }
        let Some(((last, _, index), others)) = fusion.each.split_last() else { return };
        for &(read, _, index) in others {
            let mut bindings = Vec::new();
            let own = match self.index_in(read, index, start) {
                None => index,
                Some(value) => self.name(value, &mut bindings),
            };
            let copy = self.copy(element, HashMap::from_iter([(at, Atom::Var(own))]));
            self.body.exprs[read.expr].kind = ExprKind::Block(bindings.into(), copy);
        }
        let mut bindings = Vec::new();
        match self.index_in(last, *index, start) {
            None => self.rename(element, at, *index),
            Some(value) => bindings.push(Binding { vars: List::from([at]), value }),
        }
        self.body.exprs[last.expr].kind = ExprKind::Block(bindings.into(), element);
    }

    /// A copy of an element, with atoms in the place of variables.
    fn copy(&mut self, element: ExprId, atoms: HashMap<Var, Atom>) -> ExprId {
        let (from, to) = self.survey.extents[element];
        let nodes = &self.survey.order[from..=to];
        self.meter.nodes(Count::Code, nodes.len());
        *copies::copy(self.body, nodes, &atoms).last().expect("an expression has nodes")
    }

    /// The builder's index for an element that is read alone.
    fn index(&mut self, read: &Read, (start, place): (Atom, i64), bindings: &mut Vec<Binding>) -> Atom {
        match start {
            Atom::Int(start) => Atom::Int(start.wrapping_add(place)),
            _ if place == 0 => start,
            _ => {
                let origin = self.body.exprs[read.expr].origin;
                let args = [start, Atom::Int(place)].map(|atom| self.make(atom.kind(), &[ValueType::Int], origin));
                let sum = self.make(ExprKind::Scalar(Op::IAdd, List::from(args)), &[ValueType::Int], origin);
                Atom::Var(self.name(sum, bindings))
            }
        }
    }

    /// The builder's index for the element that is read in a round of a loop; `None` if it is the loop's.
    fn index_in(&mut self, read: &Read, index: Var, start: Atom) -> Option<ExprId> {
        let ExprKind::Element(_, [_, read_at], _) = self.body.exprs[read.expr].kind else { return None };
        if !matches!(start, Atom::Int(0)) {
            let origin = self.body.exprs[read.expr].origin;
            let start = self.make(start.kind(), &[ValueType::Int], origin);
            let sum = ExprKind::Scalar(Op::IAdd, List::from([read_at, start]));
            return Some(self.make(sum, &[ValueType::Int], origin));
        }
        let is_plain = matches!(self.body.exprs[read_at].kind, ExprKind::Var(var) if var == index);
        (!is_plain).then_some(read_at)
    }

    /// Gives a variable another name in an expression. There are nodes by now of which the survey knows nothing.
    fn rename(&mut self, expr: ExprId, from: Var, to: Var) {
        let mut pending = vec![expr];
        while let Some(expr) = pending.pop() {
            if !self.meter.step(self.body.exprs[expr].origin.span) {
                return;
            }
            let node = &mut self.body.exprs[expr];
            if matches!(node.kind, ExprKind::Var(var) if var == from) {
                node.kind = ExprKind::Var(to);
            }
            node.for_each_child(|child| pending.push(child));
        }
    }

    /// Takes builders that were fused out of a block; the tests that were around them stay.
    fn block(&mut self, block: ExprId, counts: &mut HashMap<ExprId, Vec<Binding>>) {
        let ExprKind::Block(bindings, _) = &mut self.body.exprs[block].kind else { return };
        let old = std::mem::take(bindings);
        let mut new = Vec::with_capacity(old.len());
        for binding in old {
            match counts.remove(&binding.value) {
                Some(count) => {
                    self.around(binding.value, &mut new);
                    new.extend(count);
                }
                None => new.push(binding),
            }
        }
        if let ExprKind::Block(bindings, _) = &mut self.body.exprs[block].kind {
            *bindings = new.into();
        }
    }

    /// What is evaluated before a builder in the value that it is.
    fn around(&mut self, value: ExprId, bindings: &mut Vec<Binding>) {
        let mut expr = value;
        loop {
            match &mut self.body.exprs[expr].kind {
                ExprKind::Block(inner, value) => {
                    bindings.extend(std::mem::take(inner));
                    expr = *value;
                }
                &mut ExprKind::If([cond, then, other]) => {
                    let origin = self.body.exprs[expr].origin;
                    let (mut trap, mut rest, mut fails) = (then, other, cond);
                    if is_trap(self.body, other) {
                        (trap, rest) = (other, then);
                        fails = self.make(ExprKind::Not(cond), &[ValueType::Int], origin);
                    }
                    let nothing = self.make(ExprKind::Values(List::default()), &[], origin);
                    self.body.exprs[trap].types = self.lists.intern(&[]);
                    let value = self.make(ExprKind::If([fails, trap, nothing]), &[], origin);
                    bindings.push(Binding { vars: List::default(), value });
                    expr = rest;
                }
                _ => return,
            }
        }
    }
}
