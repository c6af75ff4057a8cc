//! What fusion has to know of functions: which are producers and consumers of lists, and what may trap.

use super::{CONS, EMPTY, Fuser, NODES_MAX, flat_args};
use crate::arena::Table;
use crate::core::{
    Binding, Expr, ExprId, ExprKind, Field, Function, FunctionId, Iteration, Label, Repeat, TypeLists, Var,
};
use crate::hash::{HashMap, HashSet};
use crate::limits::Meter;

/// A producer has at most so many results.
const RESULTS_MAX: usize = 6;
/// So many nodes are looked at to find what is evaluated first.
const FIRST_MAX: usize = 200;

/// A function that makes a list.
pub(super) struct Producer {
    /// Where its results are, and what they are.
    pub(super) results: Vec<(ExprId, Made)>,
    /// The nodes whose values are its result's, but for the results themselves.
    pub(super) spine: Vec<ExprId>,
    /// The number of the field with the rest, counted in registers; of a function that only makes the empty list, none.
    pub(super) rest_index: Option<usize>,
    /// Whether it hands itself less and less of a list.
    pub(super) ends: bool,
    /// Whether it makes the list of its parameters, or something of that.
    pub(super) is_literal: bool,
}

/// A result of a producer.
pub(super) enum Made {
    /// The empty list.
    Empty,
    /// Elements, and the call of itself that makes the rest, with one argument for each parameter; or the call of the
    /// function for lists that are shorter by one.
    Element { heads: Vec<ExprId>, call: ExprId, args: Vec<ExprId> },
    /// Any list.
    Other,
}

impl Producer {
    pub(super) fn of(
        function: &Function,
        lists: &TypeLists,
        literals: &HashMap<FunctionId, usize>,
    ) -> Option<Producer> {
        let is_literal = literals.contains_key(&function.id);
        let body = &function.body;
        let (mut results, mut spine) = (Vec::new(), Vec::new());
        let mut pending = vec![function.root];
        while let Some(expr) = pending.pop() {
            let made = match &body.exprs[expr].kind {
                ExprKind::Block(_, value) => {
                    pending.push(*value);
                    None
                }
                ExprKind::If([_, then, other]) => {
                    pending.extend([*other, *then]);
                    None
                }
                ExprKind::Switch(switch) => {
                    pending.extend(switch.arms.iter().map(|arm| arm.1).chain(switch.default));
                    None
                }
                ExprKind::Join(join) => {
                    pending.extend(join.parts());
                    None
                }
                ExprKind::Repeat(repeat) => {
                    pending.push(repeat.body);
                    None
                }
                ExprKind::Jump(..) | ExprKind::Trap(_) => None,
                ExprKind::Construct(EMPTY, parts) if parts.is_empty() => Some(Made::Empty),
                ExprKind::Construct(CONS, parts) => {
                    let (&last, heads) = parts.split_last()?;
                    match &body.exprs[last].kind {
                        ExprKind::Call(callee, args) if *callee == function.id => {
                            let args = flat_args(body, lists, args, function.params.len())?;
                            Some(Made::Element { heads: heads.to_vec(), call: last, args })
                        }
                        ExprKind::Call(shorter, args) if is_literal && literals.contains_key(shorter) => {
                            Some(Made::Element { heads: heads.to_vec(), call: last, args: args.to_vec() })
                        }
                        _ => Some(Made::Other),
                    }
                }
                _ => Some(Made::Other),
            };
            match made {
                Some(made) => results.push((expr, made)),
                None => spine.push(expr),
            }
        }
        let registers = results.iter().filter_map(|(_, made)| match made {
            Made::Element { heads, .. } => {
                Some(heads.iter().map(|&head| lists.get(body.exprs[head].types).len()).sum())
            }
            _ => None,
        });
        let rests: Vec<usize> = registers.collect();
        let rest_index = rests.first().copied();
        let is_one = rests.iter().all(|&index| Some(index) == rest_index) && (rest_index.is_some() || is_literal);
        if !is_one || results.len() > RESULTS_MAX {
            return None;
        }
        let ends = is_literal || (0..function.params.len()).any(|at| hands_on_less(function, at, &results));
        Some(Producer { results, spine, rest_index, ends, is_literal })
    }
}

/// Whether a producer's parameter is a list of which each call of itself gets a part.
fn hands_on_less(function: &Function, at: usize, results: &[(ExprId, Made)]) -> bool {
    let mut jumps: HashMap<Label, Vec<&[ExprId]>> = HashMap::default();
    let mut objects: HashMap<Var, Var> = HashMap::default();
    let mut repeats: Vec<&Repeat> = Vec::new();
    let mut pending = vec![function.root];
    while let Some(expr) = pending.pop() {
        let node = &function.body.exprs[expr];
        match &node.kind {
            ExprKind::Block(bindings, _) => {
                for binding in bindings {
                    if let ([var], ExprKind::Payload(_, object)) =
                        (&*binding.vars, &function.body.exprs[binding.value].kind)
                        && let ExprKind::Var(object) = function.body.exprs[*object].kind
                    {
                        objects.insert(*var, object);
                    }
                }
            }
            ExprKind::Jump(label, args) => jumps.entry(*label).or_default().push(args),
            ExprKind::Repeat(repeat) => repeats.push(repeat),
            _ => {}
        }
        node.for_each_child(|child| pending.push(child));
    }
    let var = |expr: ExprId| match function.body.exprs[expr].kind {
        ExprKind::Var(var) => Some(var),
        _ => None,
    };
    // The parameter, and those of repetitions that begin with it and go on with parts of it.
    let mut whole = HashSet::from_iter([function.params[at]]);
    let is_part = |var: Var, whole: &HashSet<Var>| {
        let mut object = var;
        while let Some(&around) = objects.get(&object) {
            if whole.contains(&around) {
                return true;
            }
            object = around;
        }
        false
    };
    let mut carried = Vec::new();
    for repeat in repeats {
        let ExprKind::Values(init) = &function.body.exprs[repeat.init].kind else { continue };
        if init.len() != repeat.params.len() {
            continue;
        }
        for (place, (&param, &init)) in repeat.params.iter().zip(init).enumerate() {
            if let Some(init) = var(init).filter(|init| whole.contains(init)) {
                whole.insert(param);
                carried.push((repeat, place, init));
            }
        }
    }
    // A repetition may hand on a part of what another one in it carries: all of them do, or some are left out.
    loop {
        let before = whole.len();
        for &(repeat, place, init) in &carried {
            let goes_on = |args: &&[ExprId]| {
                args.len() == repeat.params.len() && var(args[place]).is_some_and(|var| is_part(var, &whole))
            };
            let all_go_on = jumps.get(&repeat.label).is_none_or(|jumps| jumps.iter().all(goes_on));
            if !all_go_on || !whole.contains(&init) {
                whole.remove(&repeat.params[place]);
            }
        }
        if whole.len() == before {
            break;
        }
    }
    results.iter().all(|(_, made)| match made {
        Made::Element { args, .. } => var(args[at]).is_some_and(|var| is_part(var, &whole)),
        _ => true,
    })
}

/// A function that takes a list apart.
pub(super) struct Consumer {
    /// The variable that holds the list.
    pub(super) list: Var,
    /// The variable for the rest.
    pub(super) rest: Var,
    /// Where it is handed on to calls of the function itself.
    pub(super) rest_uses: Vec<ExprId>,
    /// At how many places it is handed on, to calls and to next iterations.
    pub(super) places: usize,
    /// The number of its field, counted in registers.
    pub(super) rest_index: u16,
    /// What to do with the empty list, and with another one.
    pub(super) arms: [ExprId; 2],
    /// Whether the rest is always handed on.
    pub(super) is_strict: bool,
    /// What is evaluated before that.
    pub(super) before: Vec<ExprId>,
    /// Whether it is a repetition.
    pub(super) repeats: bool,
}

impl Consumer {
    /// What a function does with the list that is its parameter `at`, if it is a consumer of that.
    pub(super) fn of(function: &Function, at: usize, lists: &TypeLists) -> Option<Consumer> {
        let body = &function.body;
        let (root, list, repeat) = match &body.exprs[function.root].kind {
            ExprKind::Repeat(repeat) => {
                let ExprKind::Values(init) = &body.exprs[repeat.init].kind else { return None };
                let is_list =
                    |&init: &ExprId| matches!(body.exprs[init].kind, ExprKind::Var(var) if var == function.params[at]);
                let place = init.iter().position(is_list).filter(|_| init.len() == repeat.params.len())?;
                (repeat.body, repeat.params[place], Some((&**repeat, place)))
            }
            _ => (function.root, function.params[at], None),
        };
        let ExprKind::Switch(switch) = &body.exprs[root].kind else { return None };
        if !matches!(body.exprs[switch.object].kind, ExprKind::Var(var) if var == list) || switch.tags != 2 {
            return None;
        }
        let arm = |tag: u16| switch.arms.iter().find(|arm| arm.0 == tag).map(|arm| arm.1).or(switch.default);
        let [empty, cons] = [arm(EMPTY)?, arm(CONS)?];
        if empty == cons {
            return None;
        }
        let (mut uses, mut rests, mut payloads) = (HashMap::<Var, Vec<ExprId>>::default(), Vec::new(), 0);
        // Where the function goes on, and with which list: calls of itself, and jumps to the next iteration.
        let (mut calls, mut jumps): (Vec<[ExprId; 2]>, Vec<[ExprId; 2]>) = (Vec::new(), Vec::new());
        let mut pending = vec![function.root];
        while let Some(expr) = pending.pop() {
            let node = &body.exprs[expr];
            match &node.kind {
                ExprKind::Var(var) => uses.entry(*var).or_default().push(expr),
                ExprKind::Block(bindings, _) => {
                    for binding in bindings {
                        if let ExprKind::Payload(field, object) = &body.exprs[binding.value].kind
                            && let ([var], ExprKind::Var(object)) = (&*binding.vars, &body.exprs[*object].kind)
                            && *object == list
                        {
                            rests.push((*var, *field));
                        }
                    }
                }
                ExprKind::Payload(_, object) => {
                    payloads += u32::from(matches!(body.exprs[*object].kind, ExprKind::Var(var) if var == list));
                }
                ExprKind::Call(callee, args) if *callee == function.id => {
                    let args = flat_args(body, lists, args, function.params.len())?;
                    calls.push([expr, args[at]]);
                }
                ExprKind::Jump(label, args) => {
                    if let Some((repeat, place)) = repeat
                        && repeat.label == *label
                    {
                        let args = flat_args(body, lists, args, repeat.params.len())?;
                        jumps.push([expr, args[place]]);
                    }
                }
                _ => {}
            }
            node.for_each_child(|child| pending.push(child));
        }
        // The list itself is only asked for its tag once, and for its fields, each of which has a name.
        let list_uses = uses.get(&list).map_or(0, Vec::len);
        if list_uses != 1 + payloads as usize || payloads as usize != rests.len() {
            return None;
        }
        let last = Field { tag: CONS, index: rests.iter().map(|rest| rest.1.index).max()? };
        let rest_of = |&[_, list]: &[ExprId; 2]| match body.exprs[list].kind {
            ExprKind::Var(var) => Some(var),
            _ => None,
        };
        let goes_on: Vec<[ExprId; 2]> = calls.iter().chain(&jumps).copied().collect();
        let rest = rest_of(goes_on.first()?)?;
        let of_rest: Vec<Field> = rests.iter().filter(|(var, _)| *var == rest).map(|rest| rest.1).collect();
        let is_only_handed_on =
            goes_on.iter().all(|on| rest_of(on) == Some(rest)) && uses[&rest].len() == goes_on.len();
        if of_rest != [last] || !is_only_handed_on {
            return None;
        }
        let places: Vec<ExprId> = goes_on.iter().map(|on| on[0]).collect();
        if most_on_a_way(function, cons, &places) > 1 {
            return None;
        }
        if repeat.is_some() && function.params[at] != list && uses.get(&function.params[at]).map_or(0, Vec::len) != 1 {
            return None;
        }
        let first = first_evaluated(function, cons, &places);
        let (is_strict, before) = first.map_or((false, Vec::new()), |before| (true, before));
        let arms = [empty, cons];
        Some(Consumer {
            list,
            rest,
            rest_uses: calls.iter().map(|call| call[1]).collect(),
            places: places.len(),
            rest_index: last.index,
            arms,
            is_strict,
            before,
            repeats: repeat.is_some(),
        })
    }
}

/// How many of some nodes are evaluated on one way through a tree, at most. What is evaluated again and again counts
/// twice.
fn most_on_a_way(function: &Function, expr: ExprId, wanted: &[ExprId]) -> usize {
    let node = &function.body.exprs[expr];
    let most = |child: ExprId| most_on_a_way(function, child, wanted);
    let within = match &node.kind {
        ExprKind::If([condition, then, other]) => most(*condition) + most(*then).max(most(*other)),
        ExprKind::Switch(switch) => {
            let arms = switch.arms.iter().map(|arm| arm.1).chain(switch.default);
            most(switch.object) + arms.map(most).max().unwrap_or(0)
        }
        ExprKind::Loop(_) | ExprKind::Collect(..) | ExprKind::Repeat(_) => {
            let mut sum = 0;
            node.for_each_child(|child| sum += 2 * most(child));
            sum
        }
        _ => {
            let mut sum = 0;
            node.for_each_child(|child| sum += most(child));
            sum
        }
    };
    within + usize::from(wanted.contains(&expr))
}

/// What is evaluated in a tree before one of some nodes, if one of them is always evaluated.
fn first_evaluated(function: &Function, root: ExprId, wanted: &[ExprId]) -> Option<Vec<ExprId>> {
    let (mut before, mut steps) = (Vec::new(), 0);
    evaluated(function, root, wanted, &mut before, &mut steps)?.then_some(before)
}

/// Goes through a tree in the order of evaluation up to one of some nodes. Returns whether it is always evaluated;
/// `None` if only some ways lead there.
fn evaluated(
    function: &Function,
    expr: ExprId,
    wanted: &[ExprId],
    before: &mut Vec<ExprId>,
    steps: &mut usize,
) -> Option<bool> {
    *steps += 1;
    if *steps > FIRST_MAX {
        return None;
    }
    let node = &function.body.exprs[expr];
    let is_straight = matches!(
        node.kind,
        ExprKind::Values(_)
            | ExprKind::Block(..)
            | ExprKind::Scalar(..)
            | ExprKind::Compare(..)
            | ExprKind::Call(..)
            | ExprKind::Construct(..)
            | ExprKind::Jump(..)
            | ExprKind::Payload(..)
            | ExprKind::Length(..)
    );
    if let ExprKind::If([condition, then, other]) = node.kind {
        if evaluated(function, condition, wanted, before, steps)? {
            return Some(true);
        }
        let [then, other] = [then, other].map(|arm| evaluated(function, arm, wanted, before, steps));
        return if then? == other? { then } else { None };
    }
    if is_straight {
        let mut children = Vec::new();
        node.for_each_child(|child| children.push(child));
        for child in children {
            if evaluated(function, child, wanted, before, steps)? {
                return Some(true);
            }
        }
        if wanted.contains(&expr) {
            return Some(true);
        }
    } else {
        // If one of the nodes is in here it may be left out.
        let mut pending = vec![expr];
        while let Some(inner) = pending.pop() {
            *steps += 1;
            if wanted.contains(&inner) || *steps > FIRST_MAX {
                return None;
            }
            function.body.exprs[inner].for_each_child(|child| pending.push(child));
        }
    }
    before.push(expr);
    Some(false)
}

impl Fuser<'_> {
    /// Whether evaluating an expression of a function may trap or not end.
    pub(super) fn may_trap_in(&mut self, function: FunctionId, root: ExprId) -> bool {
        self.may_trap_but(function, root, None)
    }

    /// Whether nothing that a function does may trap, but for the depth of its calls of itself, which end.
    pub(super) fn is_harmless(&mut self, function: FunctionId) -> bool {
        !self.may_trap_but(function, self.program.functions[function].root, Some(function))
    }

    fn may_trap_but(&mut self, function: FunctionId, root: ExprId, itself: Option<FunctionId>) -> bool {
        let mut called = Vec::new();
        let mut pending = vec![root];
        let body = &self.program.functions[function].body;
        let mut seen = 0;
        while let Some(expr) = pending.pop() {
            let node = &body.exprs[expr];
            seen += 1;
            if !self.meter.step(node.origin.span) || seen > NODES_MAX {
                return true;
            }
            match &node.kind {
                ExprKind::Scalar(op, _) if op.info().traps => return true,
                ExprKind::Call(callee, _) if Some(*callee) == itself => {}
                ExprKind::Call(callee, _) => called.push(*callee),
                ExprKind::Constant { function, .. } => called.push(*function),
                ExprKind::Loop(repeat) if matches!(repeat.iteration, Iteration::Range(_)) => {}
                ExprKind::Loop(_)
                | ExprKind::Repeat(_)
                | ExprKind::Collect(..)
                | ExprKind::Element(..)
                | ExprKind::CallClosure(..)
                | ExprKind::CallImport(..)
                | ExprKind::Fork(_)
                | ExprKind::ParallelMap(..)
                | ExprKind::Derivative(_)
                | ExprKind::Trap(_)
                | ExprKind::Trace(_) => return true,
                _ => {}
            }
            node.for_each_child(|child| pending.push(child));
        }
        called.into_iter().any(|callee| crate::stack::grown(|| self.may_trap(callee)))
    }

    /// Whether a function may trap or not end.
    fn may_trap(&mut self, function: FunctionId) -> bool {
        if let Some(&known) = self.traps.get(&function) {
            return known;
        }
        // What calls itself may run out of stack.
        self.traps.insert(function, true);
        let traps = self.may_trap_but(function, self.program.functions[function].root, None);
        self.traps.insert(function, traps);
        traps
    }
}

/// The call that a function evaluates first of all that may trap, if nothing before it is a branch.
pub(super) fn first_call(function: &Function) -> Option<ExprId> {
    first_call_in(function, std::iter::once(function.root))
}

/// The same of some expressions, one after the other.
fn first_call_in(function: &Function, roots: impl Iterator<Item = ExprId>) -> Option<ExprId> {
    let mut steps = 0;
    for root in roots {
        match first_effect(function, root, &mut steps) {
            Effect::None => {}
            Effect::Call(call) => return Some(call),
            Effect::Other => return None,
        }
    }
    None
}

enum Effect {
    None,
    Call(ExprId),
    Other,
}

fn first_effect(function: &Function, expr: ExprId, steps: &mut usize) -> Effect {
    *steps += 1;
    if *steps > FIRST_MAX {
        return Effect::Other;
    }
    let node = &function.body.exprs[expr];
    let mut children = Vec::new();
    node.for_each_child(|child| children.push(child));
    let straight = match &node.kind {
        ExprKind::Scalar(op, _) if op.info().traps => Effect::Other,
        ExprKind::Var(_)
        | ExprKind::Real(_)
        | ExprKind::Int(_)
        | ExprKind::Values(_)
        | ExprKind::Scalar(..)
        | ExprKind::Compare(..)
        | ExprKind::Length(..)
        | ExprKind::Construct(..)
        | ExprKind::Payload(..)
        | ExprKind::Block(..) => Effect::None,
        ExprKind::Call(..) => Effect::Call(expr),
        _ => return Effect::Other,
    };
    for child in children {
        match first_effect(function, child, steps) {
            Effect::None => {}
            effect => return effect,
        }
    }
    straight
}

/// The uses of a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Uses {
    None,
    One(ExprId),
    More,
}

/// Moves calls whose only use is as an argument of the next call, or as the rest of a list, to where they are used.
pub(crate) fn sink_calls(function: &mut Function, meter: &Meter) {
    let is_call = |binding: &Binding| {
        binding.vars.len() == 1 && matches!(function.body.exprs[binding.value].kind, ExprKind::Call(..))
    };
    let names_calls = |node: &Expr| match &node.kind {
        ExprKind::Block(bindings, _) => bindings.iter().any(is_call),
        _ => false,
    };
    let blocks: Vec<ExprId> =
        function.nodes(meter).filter(|(_, node)| names_calls(node)).map(|(expr, _)| expr).collect();
    if blocks.is_empty() {
        return;
    }
    let mut uses = Table::filled(Uses::None, function.body.vars.len());
    for (expr, node) in function.nodes(meter) {
        if let ExprKind::Var(var) = node.kind {
            uses[var] = if uses[var] == Uses::None { Uses::One(expr) } else { Uses::More };
        }
    }
    for expr in blocks.into_iter().rev() {
        let ExprKind::Block(bindings, value) = &function.body.exprs[expr].kind else { continue };
        let value = *value;
        let mut kept = Vec::with_capacity(bindings.len());
        let mut moves = Vec::new();
        for (at, binding) in bindings.iter().enumerate() {
            let [var] = *binding.vars else {
                kept.push(binding.clone());
                continue;
            };
            let is_call = matches!(function.body.exprs[binding.value].kind, ExprKind::Call(..));
            let place = match uses[var] {
                Uses::One(place) if is_call => Some(place),
                _ => None,
            };
            let after = || bindings[at + 1..].iter().map(|binding| binding.value).chain([value]);
            let is_argument = |place: ExprId| {
                first_call_in(function, after()).is_some_and(|call| match &function.body.exprs[call].kind {
                    ExprKind::Call(_, args) => args.contains(&place),
                    _ => false,
                })
            };
            let is_rest = |place: ExprId| match &function.body.exprs[value].kind {
                ExprKind::Construct(CONS, parts) => at + 1 == bindings.len() && parts.last() == Some(&place),
                _ => false,
            };
            match place.filter(|&place| is_rest(place) || is_argument(place)) {
                Some(place) => moves.push((place, binding.value)),
                None => kept.push(binding.clone()),
            }
        }
        if moves.is_empty() {
            continue;
        }
        function.body.exprs[expr].kind = ExprKind::Block(kept.into(), value);
        for (place, value) in moves {
            // A node stays where what looks at it expects it.
            function.body.exprs[place] = function.body.exprs[value].clone();
        }
    }
}
