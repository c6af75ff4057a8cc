//! Fusion: a list that one function makes and the next one takes apart at once is never made.
//!
//! `sum (zip_with (*) xs ys)` calls a *producer*, whose results are an empty list, or elements before a list that a
//! call of itself makes; and a *consumer*, which begins with a choice by the list's tag, and hands the rest on to a
//! call of itself or to its next iteration, on each of its ways at most once. Both together are one function, which is
//! the producer with the consumer's arms in the place of its results (deforestation, Wadler 1990). That function may be
//! a producer or a consumer in turn. What stands in between doesn't matter: a function that hands its list on to a
//! consumer before it does anything that may trap is one, and so is one that returns a producer's list a producer.
//!
//! The elements are combined in the order in which they were before. What changes is when: the producer's work for an
//! element comes after the consumer's for the one before it. Nobody can tell if what the consumer does before it goes
//! on can't trap, or if nothing of the producer can. Nor may the consumer stop before the producer would have trapped,
//! or run for ever where the producer would have run out of stack.
//!
//! Runs before functions are inlined, where each function is still by itself.

mod analysis;
mod graft;

use crate::arena::Id;
use crate::core::{Body, ExprId, ExprKind, Function, FunctionId, Program, TypeLists};
use crate::hash::HashMap;
use crate::limits::{Count, Meter};
use analysis::{Consumer, Producer, first_call};

pub(crate) use analysis::sink_calls;

/// Functions of more nodes than this are not fused.
const NODES_MAX: usize = 400;
/// How many functions may be fused into one.
const DEPTH_MAX: u32 = 8;

/// The tags of lists.
const EMPTY: u16 = 0;
const CONS: u16 = 1;

/// Fuses calls of functions, whose calls were sunk before; `done` is told each function that doesn't change any more,
/// in order. If the compilation is stopped, what comes of the program has no meaning.
pub(crate) fn fuse(program: &mut Program, meter: &Meter, mut done: impl FnMut(&Function)) {
    let count = program.functions.len();
    let mut fuser = Fuser {
        program,
        meter,
        fused: HashMap::default(),
        depths: HashMap::default(),
        traps: HashMap::default(),
        left: count,
    };
    let mut at = 0;
    while at < fuser.program.functions.len() && meter.go_on() {
        let id = FunctionId::from_index(at);
        fuser.function(id);
        done(&fuser.program.functions[id]);
        at += 1;
    }
}

struct Fuser<'f> {
    program: &'f mut Program,
    meter: &'f Meter,
    /// What a consumer, by its function and the parameter that is the list, and a producer are together.
    fused: HashMap<(FunctionId, usize, FunctionId), Option<FunctionId>>,
    /// How many functions are in one.
    depths: HashMap<FunctionId, u32>,
    /// Which functions may trap or run for ever.
    traps: HashMap<FunctionId, bool>,
    /// How many functions may still be made.
    left: usize,
}

impl Fuser<'_> {
    /// Fuses the calls in a function, the inner ones first.
    fn function(&mut self, id: FunctionId) {
        let nodes = self.program.functions[id].nodes(self.meter);
        let calls: Vec<ExprId> =
            nodes.filter(|(_, node)| matches!(node.kind, ExprKind::Call(..))).map(|at| at.0).collect();
        for expr in calls.into_iter().rev() {
            if let ExprKind::Call(consumer, _) = self.program.functions[id].body.exprs[expr].kind {
                self.call(id, expr, consumer);
            }
        }
    }

    /// Fuses a call with those in its arguments.
    fn call(&mut self, caller: FunctionId, expr: ExprId, mut consumer: FunctionId) {
        while let Some(both) = self.with_an_argument(caller, expr, consumer) {
            consumer = both;
        }
    }

    /// Fuses a call with one in its arguments, if there is one. Returns what is called then.
    fn with_an_argument(&mut self, caller: FunctionId, expr: ExprId, consumer: FunctionId) -> Option<FunctionId> {
        let body = &self.program.functions[caller].body;
        let ExprKind::Call(_, args) = &body.exprs[expr].kind else { return None };
        let args = flat_args(body, &self.program.lists, args, self.program.functions[consumer].params.len())?;
        for (at, &arg) in args.iter().enumerate() {
            let body = &self.program.functions[caller].body;
            let ExprKind::Call(producer, made_of) = &body.exprs[arg].kind else { continue };
            let (producer, made_of) = (*producer, made_of.clone());
            let is_other = |&(other, _): &(usize, &ExprId)| other != at;
            let mut others = args.iter().enumerate().filter(is_other);
            if !others.all(|(_, &other)| !self.may_trap_in(caller, other)) {
                continue;
            }
            let Some(both) = self.together(consumer, at, producer) else { continue };
            let others: Vec<ExprId> = args.iter().enumerate().filter(is_other).map(|(_, &other)| other).collect();
            let all = made_of.iter().copied().chain(others).collect();
            self.program.functions[caller].body.exprs[expr].kind = ExprKind::Call(both, all);
            return Some(both);
        }
        None
    }

    /// The function that a consumer and a producer are together. Its parameters are the producer's, and then the
    /// consumer's others.
    fn together(&mut self, consumer: FunctionId, at: usize, producer: FunctionId) -> Option<FunctionId> {
        let key = (consumer, at, producer);
        if let Some(&known) = self.fused.get(&key) {
            return known;
        }
        // Whoever asks meanwhile, because functions call each other in circles, hears that they don't become one.
        self.fused.insert(key, None);
        let made = self.make(consumer, at, producer);
        let made = made.or_else(|| self.inside(consumer, at, producer));
        let made = made.or_else(|| self.around(consumer, at, producer));
        self.fused.insert(key, made);
        if let Some(made) = made {
            // Its calls of itself are still calls of both.
            crate::stack::grown(|| self.function(made));
        }
        made
    }

    fn add(&mut self, mut function: Function, name: String) -> FunctionId {
        function.id = self.program.functions.next_id();
        function.name = name;
        (function.interface, function.twin_of) = (None, None);
        self.meter.nodes(Count::Code, function.body.exprs.len());
        self.program.functions.push(function)
    }

    /// How many functions a consumer and a producer are together, if they may become one.
    fn depth(&self, consumer: FunctionId, producer: FunctionId) -> Option<u32> {
        let depth = |id| self.depths.get(&id).copied().unwrap_or(1);
        let is_small = |id: FunctionId| self.program.functions[id].body.exprs.len() <= NODES_MAX;
        let depth = depth(consumer) + depth(producer);
        let is_allowed = self.left > 0 && depth <= DEPTH_MAX && consumer != producer;
        (is_allowed && is_small(consumer) && is_small(producer)).then_some(depth)
    }

    /// Both together, where the consumer takes the list apart itself, and the producer makes it.
    fn make(&mut self, consumer: FunctionId, at: usize, producer: FunctionId) -> Option<FunctionId> {
        let depth = self.depth(consumer, producer)?;
        let makes = Producer::of(&self.program.functions[producer], &self.program.lists)?;
        let takes = Consumer::of(&self.program.functions[consumer], at, &self.program.lists)?;
        if makes.rest_index != usize::from(takes.rest_index) {
            return None;
        }
        // What comes before the rest is taken can't trap, and the rest is always taken.
        let is_quiet = takes.is_strict && takes.before.iter().all(|&before| !self.may_trap_in(consumer, before));
        let keeps_order = is_quiet && (makes.ends || !takes.repeats);
        if !(keeps_order || makes.ends && self.is_harmless(producer)) {
            return None;
        }
        let functions = [consumer, producer].map(|id| &self.program.functions[id]);
        let function = graft::together(functions, at, &makes, &takes, &mut self.program.lists);
        Some(self.add_both(consumer, producer, depth, function))
    }

    /// Both together, where the consumer hands the list on before it does anything that may trap: the producer is
    /// called there.
    fn inside(&mut self, consumer: FunctionId, at: usize, producer: FunctionId) -> Option<FunctionId> {
        let depth = self.depth(consumer, producer)?;
        let function = &self.program.functions[consumer];
        let ExprKind::Call(taker, args) = &function.body.exprs[first_call(function)?].kind else { return None };
        let taker = *taker;
        let args = flat_args(&function.body, &self.program.lists, args, self.program.functions[taker].params.len())?;
        let is_list =
            |expr: ExprId| matches!(function.body.exprs[expr].kind, ExprKind::Var(var) if var == function.params[at]);
        let taken_at = args.iter().position(|&arg| is_list(arg))?;
        if function.nodes(self.meter).filter(|&(expr, _)| is_list(expr)).count() != 1 {
            return None;
        }
        self.together(taker, taken_at, producer)?;
        let [consumed, produced] = [consumer, producer].map(|id| &self.program.functions[id]);
        let function = graft::inside([consumed, produced], at, args[taken_at], &mut self.program.lists);
        Some(self.add_both(consumer, producer, depth, function))
    }

    /// Both together, where the producer returns what another one makes: the consumer is called there.
    fn around(&mut self, consumer: FunctionId, at: usize, producer: FunctionId) -> Option<FunctionId> {
        let depth = self.depth(consumer, producer)?;
        let function = &self.program.functions[producer];
        let (mut spine, mut result) = (Vec::new(), function.root);
        while let ExprKind::Block(_, value) = &function.body.exprs[result].kind {
            spine.push(result);
            result = *value;
        }
        let ExprKind::Call(maker, _) = function.body.exprs[result].kind else { return None };
        self.together(consumer, at, maker)?;
        let functions = [consumer, producer].map(|id| &self.program.functions[id]);
        let function = graft::around(functions, at, (&spine, result), &mut self.program.lists);
        Some(self.add_both(consumer, producer, depth, function))
    }

    fn add_both(&mut self, consumer: FunctionId, producer: FunctionId, depth: u32, function: Function) -> FunctionId {
        self.left = self.left.saturating_sub(1);
        let [consumed, produced] = [consumer, producer].map(|id| &self.program.functions[id].name);
        let name = format!("{consumed} after {produced}");
        let made = self.add(function, name);
        self.depths.insert(made, depth);
        made
    }
}

/// The only expression for each parameter of a call, if they can be told apart.
fn flat_args(body: &Body, lists: &TypeLists, args: &[ExprId], count: usize) -> Option<Vec<ExprId>> {
    let mut flat = Vec::new();
    let mut pending: Vec<ExprId> = args.iter().rev().copied().collect();
    while let Some(arg) = pending.pop() {
        match &body.exprs[arg].kind {
            ExprKind::Values(parts) => pending.extend(parts.iter().rev()),
            _ if lists.get(body.exprs[arg].types).len() == 1 => flat.push(arg),
            _ => return None,
        }
    }
    (flat.len() == count).then_some(flat)
}
