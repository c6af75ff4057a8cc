//! Fusion: a list that one function makes and the next one takes apart at once is never made.
//!
//! `sum (zip_with (*) xs ys)` calls a *producer*, whose results are an empty list, or elements before a list that a
//! call of itself makes; and a *consumer*, which begins with a choice by the list's tag, and hands the rest on to a
//! call of itself or to its next iteration, on each of its ways at most once. Both together are one function, which is
//! the producer with the consumer's arms in the place of its results (deforestation, Wadler 1990). That function may be
//! a producer or a consumer in turn. What stands in between doesn't matter: a function that hands its list on to a
//! consumer before it does anything that may trap is one, and so is one that returns a producer's list a producer.
//!
//! The elements of a list that stands in the program, as in `fold step x [a, b, c]`, are handed over one by one: such a
//! list is what a function for lists of its length makes, of its elements, with the help of that for the next shorter
//! ones. There is one function of a consumer and each of those, and no loop.
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
use crate::core::{Body, Expr, ExprId, ExprKind, Function, FunctionId, Program, TypeList, TypeLists, Var};
use crate::hash::HashMap;
use crate::limits::{Count, Meter};
use analysis::{Consumer, Producer, first_call};
use dualvm_vm::module::ValueType;

pub(crate) use analysis::sink_calls;

/// Functions of more nodes than this are not fused.
const NODES_MAX: usize = 400;
/// How many functions may be fused into one.
const DEPTH_MAX: u32 = 8;
/// Longer lists in the program are made, and those whose elements are more values together.
const LITERAL_MAX: usize = 16;
const LITERAL_VALUES_MAX: usize = 64;
/// So many nodes may be written for the elements of such a list.
const LITERAL_NODES_MAX: usize = 1_200;
/// So many nodes may be written for those of all lists in a program.
const ALL_LITERAL_NODES_MAX: usize = 8_000;

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
        literals: HashMap::default(),
        makers: HashMap::default(),
        constants: HashMap::default(),
        left: count,
        literal_nodes_left: ALL_LITERAL_NODES_MAX,
    };
    let mut at = 0;
    while at < fuser.program.functions.len() && meter.go_on() {
        let id = FunctionId::from_index(at);
        fuser.function(id);
        done(&fuser.program.functions[id]);
        at += 1;
    }
}

/// What a list is made of.
enum Parts {
    /// Arguments of the function that makes it.
    Args(Vec<ExprId>),
    /// Atoms, which it has as its elements.
    Elements(Vec<ExprId>),
    /// Numbers that a constant of the program has as its elements.
    Numbers(Vec<ExprKind>),
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
    /// The functions that make lists of their parameters, or take the place of one in a consumer, and how many elements
    /// the lists have.
    literals: HashMap<FunctionId, usize>,
    /// The same by the lists' type and that of the elements, and by length.
    makers: HashMap<[TypeList; 2], Vec<FunctionId>>,
    /// The lists of numbers that constants of the program are: what makes such lists, and the elements.
    constants: HashMap<FunctionId, Option<(FunctionId, Vec<ExprKind>)>>,
    /// How many functions may still be made.
    left: usize,
    /// How many nodes may still be written for the elements of lists in the program.
    literal_nodes_left: usize,
}

impl Fuser<'_> {
    /// Fuses the calls in a function, the inner ones first.
    fn function(&mut self, id: FunctionId) {
        let nodes = self.program.functions[id].nodes(self.meter);
        let calls: Vec<ExprId> =
            nodes.filter(|(_, node)| matches!(node.kind, ExprKind::Call(..))).map(|(expr, _)| expr).collect();
        let objects = self.objects(id);
        for mut expr in calls.into_iter().rev() {
            while let Some(both) = self.with_an_argument((id, &objects), expr) {
                expr = both;
            }
        }
    }

    /// What variables of a function are bound to, where that is an object which is made there.
    fn objects(&self, id: FunctionId) -> HashMap<Var, ExprId> {
        let function = &self.program.functions[id];
        let is_made = |value: ExprId| matches!(function.body.exprs[value].kind, ExprKind::Construct(..));
        let mut objects = HashMap::default();
        for (_, node) in function.nodes(self.meter) {
            if let ExprKind::Block(bindings, _) = &node.kind {
                let made = bindings.iter().filter_map(|binding| match (&*binding.vars, binding.value) {
                    (&[var], value) if is_made(value) => Some((var, value)),
                    _ => None,
                });
                objects.extend(made);
            }
        }
        objects
    }

    /// Fuses a call with one in its arguments, or with a list there, if there is one. Returns the call of both.
    fn with_an_argument(
        &mut self,
        (caller, objects): (FunctionId, &HashMap<Var, ExprId>),
        expr: ExprId,
    ) -> Option<ExprId> {
        let body = &self.program.functions[caller].body;
        let &ExprKind::Call(consumer, ref args) = &body.exprs[expr].kind else { return None };
        let args = flat_args(body, &self.program.lists, args, self.program.functions[consumer].params.len())?;
        for (at, &arg) in args.iter().enumerate() {
            let is_other = |&(other, _): &(usize, &ExprId)| other != at;
            let mut others = args.iter().enumerate().filter(is_other);
            if !others.all(|(_, &other)| !self.may_trap_in(caller, other)) {
                continue;
            }
            let body = &self.program.functions[caller].body;
            let value = match body.exprs[arg].kind {
                ExprKind::Block(_, value) => value,
                _ => arg,
            };
            let made = match &body.exprs[value].kind {
                ExprKind::Call(producer, made_of) => Some((*producer, Parts::Args(made_of.to_vec()))),
                ExprKind::Construct(..) | ExprKind::Var(_) => self.literal(caller, objects, value),
                &ExprKind::Constant { function, .. } => self.constant(function),
                _ => None,
            };
            let Some((producer, parts)) = made else { continue };
            let Some(both) = self.together(consumer, at, producer) else { continue };
            let made_of = self.written(caller, value, parts);
            let exprs = &mut self.program.functions[caller].body.exprs;
            let others = args.iter().enumerate().filter(is_other).map(|(_, &other)| other);
            let call = ExprKind::Call(both, made_of.into_iter().chain(others).collect());
            let ExprKind::Block(bindings, _) = exprs[arg].kind.clone() else {
                exprs[expr].kind = call;
                return Some(expr);
            };
            let Expr { types, origin, .. } = exprs[expr];
            let call = exprs.push(Expr { kind: call, types, origin });
            exprs[expr].kind = ExprKind::Block(bindings, call);
            return Some(call);
        }
        None
    }

    /// A list that a function makes of atoms, found by the names of its parts: what makes lists of that length, and the
    /// elements. The list itself is left to whoever drops what nobody reads.
    fn literal(
        &mut self,
        function: FunctionId,
        objects: &HashMap<Var, ExprId>,
        list: ExprId,
    ) -> Option<(FunctionId, Parts)> {
        let exprs = &self.program.functions[function].body.exprs;
        let types = exprs[list].types;
        let (mut elements, mut element, mut len, mut rest) = (Vec::new(), None, 0, list);
        loop {
            let object = match exprs[rest].kind {
                ExprKind::Var(var) => *objects.get(&var)?,
                _ => rest,
            };
            match &exprs[object].kind {
                ExprKind::Construct(EMPTY, parts) if parts.is_empty() && exprs[object].types == types => break,
                ExprKind::Construct(CONS, parts) if exprs[object].types == types && len < LITERAL_MAX => {
                    let (&next, heads) = parts.split_last()?;
                    elements.extend(heads);
                    element.get_or_insert(heads.len());
                    (rest, len) = (next, len + 1);
                }
                _ => return None,
            }
        }
        let is_atom =
            |&head: &ExprId| matches!(exprs[head].kind, ExprKind::Var(_) | ExprKind::Real(_) | ExprKind::Int(_));
        if elements.len() > LITERAL_VALUES_MAX || !elements.iter().all(is_atom) {
            return None;
        }
        let of_element = elements.iter().take(element.unwrap_or(0));
        let of_element: Vec<ValueType> = of_element.map(|&head| self.program.lists.get(exprs[head].types)[0]).collect();
        let element = self.program.lists.intern(&of_element);
        Some((self.maker(types, element, len), Parts::Elements(elements)))
    }

    /// The list of numbers that a constant of the program is, if it is one that could stand in its place.
    fn constant(&mut self, constant: FunctionId) -> Option<(FunctionId, Parts)> {
        if let Some(known) = self.constants.get(&constant) {
            return known.as_ref().map(|(maker, numbers)| (*maker, Parts::Numbers(numbers.clone())));
        }
        let objects = self.objects(constant);
        let exprs = &self.program.functions[constant].body.exprs;
        let mut value = self.program.functions[constant].root;
        while let ExprKind::Block(_, inner) = exprs[value].kind {
            value = inner;
        }
        let found = self.literal(constant, &objects, value).and_then(|(maker, parts)| {
            let Parts::Elements(elements) = parts else { return None };
            let exprs = &self.program.functions[constant].body.exprs;
            let number = |&element: &ExprId| match exprs[element].kind {
                ExprKind::Real(_) | ExprKind::Int(_) => Some(exprs[element].kind.clone()),
                _ => None,
            };
            Some((maker, elements.iter().map(number).collect::<Option<Vec<ExprKind>>>()?))
        });
        self.constants.insert(constant, found);
        self.constant(constant)
    }

    /// What a list is made of, as expressions of a function in which the list stands.
    fn written(&mut self, function: FunctionId, list: ExprId, parts: Parts) -> Vec<ExprId> {
        let Program { functions, lists, .. } = &mut *self.program;
        let exprs = &mut functions[function].body.exprs;
        let origin = exprs[list].origin;
        match parts {
            Parts::Args(args) => args,
            // The list has its elements still.
            Parts::Elements(elements) => elements.iter().map(|&element| exprs.push(exprs[element].clone())).collect(),
            Parts::Numbers(numbers) => {
                let types = [ValueType::Real, ValueType::Int].map(|ty| lists.intern(&[ty]));
                let write = |kind: ExprKind| {
                    let types = types[usize::from(matches!(kind, ExprKind::Int(_)))];
                    exprs.push(Expr { kind, types, origin })
                };
                numbers.into_iter().map(write).collect()
            }
        }
    }

    /// The function that makes lists of so many elements.
    fn maker(&mut self, list: TypeList, element: TypeList, len: usize) -> FunctionId {
        let mut known = self.makers.remove(&[list, element]).unwrap_or_default();
        while known.len() <= len {
            let types = self.program.lists.get(element).to_vec();
            let function = graft::maker((list, &types), known.len(), known.last().copied(), &mut self.program.lists);
            let id = self.add(function, format!("list {} of {}", self.program.functions.len(), known.len()));
            self.literals.insert(id, known.len());
            known.push(id);
        }
        let maker = known[len];
        self.makers.insert([list, element], known);
        maker
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
        let is_left = match self.literals.get(&producer) {
            None => self.left > 0,
            Some(len) => {
                let nodes = self.program.functions[consumer].body.exprs.len();
                nodes <= self.literal_nodes_left && nodes * len <= LITERAL_NODES_MAX
            }
        };
        let is_allowed = is_left && depth <= DEPTH_MAX && consumer != producer;
        (is_allowed && is_small(consumer) && is_small(producer)).then_some(depth)
    }

    /// Both together, where the consumer takes the list apart itself, and the producer makes it.
    fn make(&mut self, consumer: FunctionId, at: usize, producer: FunctionId) -> Option<FunctionId> {
        let depth = self.depth(consumer, producer)?;
        let makes = Producer::of(&self.program.functions[producer], &self.program.lists, &self.literals)?;
        let takes = Consumer::of(&self.program.functions[consumer], at, &self.program.lists)?;
        if makes.rest_index.is_some_and(|index| index != usize::from(takes.rest_index)) {
            return None;
        }
        // Each place would have what follows written out.
        if makes.is_literal && takes.places > 1 {
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
        let made = self.add_both(consumer, producer, depth, function);
        if let Some(&len) = self.literals.get(&producer) {
            self.literals.insert(made, len);
        }
        Some(made)
    }

    /// Both together, where the consumer hands the list on before it does anything that may trap: the producer is
    /// called there. A list of atoms may be handed on anywhere.
    fn inside(&mut self, consumer: FunctionId, at: usize, producer: FunctionId) -> Option<FunctionId> {
        let depth = self.depth(consumer, producer)?;
        let function = &self.program.functions[consumer];
        let is_list =
            |expr: ExprId| matches!(function.body.exprs[expr].kind, ExprKind::Var(var) if var == function.params[at]);
        if function.nodes(self.meter).filter(|&(expr, _)| is_list(expr)).count() != 1 {
            return None;
        }
        let taken = |call: ExprId| {
            let ExprKind::Call(taker, args) = &function.body.exprs[call].kind else { return None };
            let params = self.program.functions[*taker].params.len();
            let args = flat_args(&function.body, &self.program.lists, args, params)?;
            Some((*taker, args.iter().position(|&arg| is_list(arg))?, args))
        };
        let (taker, taken_at, args) = match self.literals.contains_key(&producer) {
            true => function.nodes(self.meter).find_map(|(expr, _)| taken(expr))?,
            false => taken(first_call(function)?)?,
        };
        if args.iter().enumerate().any(|(other, &arg)| other != taken_at && self.may_trap_in(consumer, arg)) {
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
        match self.literals.contains_key(&producer) {
            true => self.literal_nodes_left = self.literal_nodes_left.saturating_sub(function.body.exprs.len()),
            false => self.left = self.left.saturating_sub(1),
        }
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
