//! Loops and calls whose values don't change leave the loops around them.
//!
//! `[| x - mean xs for x in xs |]` adds up all of `xs` for each of its elements, as it is written. It becomes
//!
//! ```text
//! let m = if 0 < n then mean xs else 0.0 in [| x - m for x in xs |]
//! ```
//!
//! so that it takes the time that `let m = mean xs in` before it would. What may leave a loop
//! - reads nothing that is bound in the loop, but for what leaves it along with it;
//! - is evaluated in each round of the loop: it is no part of a branch;
//! - can't be heard: nothing in it shows anything to the host, or is done by it;
//! - can't trap and always ends; or else nothing that comes before it in the first round can trap or run for ever. So
//!   a program that traps does so where it did.
//!
//! Where the loop may have no round, it is asked whether there is one, or whether the first round gets to where the
//! value is computed: conditions of a `while` and of branches that end a recursion are asked once more, of what the
//! loop begins with, if they are small (`rounds.rs`). If not, nobody reads what stands in for the value. So only
//! numbers leave such loops, and arrays that are read and nothing else: arrays that others change in place, or hand
//! on, are made anew in each round, as it is written.
//!
//! What leaves a loop is evaluated once, and what flows back to it is added up before it flows on: a derivative's last
//! bit may be another one.

mod facts;
mod rounds;

use super::arrays::{Order, Survey};
use crate::arena::Table;
use crate::core::{
    ArrayType, Atom, Binding, Body, Expr, ExprId, ExprKind, Function, FunctionId, Iteration, Label, Origin, Range,
    TypeList, TypeLists, Var,
};
use crate::hash::{HashMap, HashSet};
use crate::limits::{Count, Meter};
use crate::list::List;
use dualvm_vm::module::ValueType;
use facts::{DEPTH_MAX, Facts};
pub(super) use facts::{audible, is_nested};
use rounds::{Start, TESTS_MAX, Test};
use std::rc::Rc;

/// So many arrays leave a loop: they are there all at once, as long as it goes round.
const ARRAYS_MAX: usize = 4;
/// So many results of tests that are known are compared with others.
const ASKED_MAX: usize = 8;

/// Moves what doesn't change out of a function's loops; whether there was anything.
pub(super) fn move_out(
    function: &mut Function,
    audible: &Table<FunctionId, bool>,
    lists: &mut TypeLists,
    meter: &Meter,
) -> bool {
    let facts = Facts::of(function, audible, meter);
    if !facts.any || !meter.go_on() {
        return false;
    }
    let survey = Survey::of(function, lists, Order::Changed, meter);
    if !meter.go_on() {
        return false;
    }
    let body = &mut function.body;
    let mut mover = Mover { body, lists, meter, facts, survey, loops: Vec::new(), branches: 0, any: false };
    mover.expr(function.root, None);
    mover.any
}

/// A loop around the current place.
struct Around {
    /// What is to be asked to know that it gets here in its first round, if it gets here at all.
    rounds: Rounds,
    /// How much may trap before its first round, and how much of what comes after that has left the loop.
    traps: (u32, u32),
    /// How many branches are around the loop.
    branches: u32,
    /// The names that what it begins with gets if something is computed before it.
    init: Vec<(ExprId, Var)>,
    /// The bounds of its range, where they were given names.
    names: Vec<Binding>,
    /// What is computed before it.
    before: Vec<Binding>,
    /// Several tests of which it is computed before it whether all turn out as they are to be.
    asked: Vec<(Vec<Test>, Var)>,
    /// How many arrays are computed before it.
    arrays: usize,
}

/// What is known of when a loop gets somewhere.
enum Rounds {
    /// It does, in its first round, if these turn out as they are to be.
    If(Vec<Test>),
    /// If its range isn't empty.
    Range(Range),
    /// Nothing.
    Unknown,
}

struct Mover<'m> {
    body: &'m mut Body,
    lists: &'m mut TypeLists,
    meter: &'m Meter,
    facts: Facts,
    survey: Survey,
    loops: Vec<Around>,
    /// How many branches are around the current place, and things that move as they are.
    branches: u32,
    any: bool,
}

/// Where something moves.
struct Destination {
    /// Before which loop, counted from the outermost one.
    level: usize,
    /// What is asked there to know that it is evaluated at all, the innermost loop's first.
    tests: Vec<Test>,
}

impl Mover<'_> {
    /// Walks an expression, and moves it if it can be; `array` is what it is, if all that is done with it is to read
    /// the elements of an array.
    fn expr(&mut self, expr: ExprId, array: Option<ArrayType>) {
        if !self.meter.step(self.body.exprs[expr].origin.span) {
            return;
        }
        let arrays: List<Option<ArrayType>> = self.types(expr).iter().map(|_| array).collect();
        let destination = match self.facts.is_heavy[expr] {
            true => self.destination(expr, &arrays),
            false => None,
        };
        let Some(destination) = destination else {
            crate::stack::grown(|| self.parts(expr));
            return;
        };
        self.parts_of_moved(expr, destination.level);
        let node = self.body.exprs[expr].clone();
        let vars: List<Var> = self.types(expr).iter().map(|&ty| self.variable(ty, destination.level)).collect();
        let parts: List<ExprId> = vars.iter().map(|&var| self.atom(Atom::Var(var), node.origin)).collect();
        self.body.exprs[expr].kind = match parts[..] {
            [only] => self.body.exprs[only].kind.clone(),
            _ => ExprKind::Values(parts),
        };
        let value = self.body.exprs.push(node);
        self.emit(Binding { vars, value }, destination, &arrays);
    }

    fn types(&self, expr: ExprId) -> List<ValueType> {
        self.lists.get(self.body.exprs[expr].types).iter().copied().collect()
    }

    /// Walks what is in something that moves: nothing in it moves further.
    fn parts_of_moved(&mut self, expr: ExprId, level: usize) {
        let traps = self.survey.traps_in(expr);
        self.loops[level..].iter_mut().for_each(|left| left.traps.1 += traps);
        self.branch(|mover| crate::stack::grown(|| mover.parts(expr)));
        self.any = true;
    }

    fn branch(&mut self, walk: impl FnOnce(&mut Self)) {
        self.branches += 1;
        walk(self);
        self.branches -= 1;
    }

    /// Walks the parts of an expression that stays where it is.
    fn parts(&mut self, expr: ExprId) {
        let kind = self.body.exprs[expr].kind.clone();
        match kind {
            ExprKind::Block(bindings, value) => self.block(expr, bindings, value, |mover| mover.expr(value, None)),
            ExprKind::If([cond, then, other]) => {
                self.expr(cond, None);
                self.branch(|mover| [then, other].into_iter().for_each(|arm| mover.expr(arm, None)));
            }
            ExprKind::And([first, second]) | ExprKind::Or([first, second]) => {
                self.expr(first, None);
                self.branch(|mover| mover.expr(second, None));
            }
            ExprKind::Switch(switch) => {
                self.expr(switch.object, None);
                let arms = switch.arms.iter().map(|arm| arm.1).chain(switch.default);
                self.branch(|mover| arms.for_each(|arm| mover.expr(arm, None)));
            }
            ExprKind::Join(join) => {
                self.expr(join.value, None);
                let bodies = join.bodies.iter().map(|labelled| labelled.body);
                self.branch(|mover| bodies.for_each(|body| mover.expr(body, None)));
            }
            ExprKind::Element(array, [object, index], _) => {
                self.expr(object, Some(array));
                self.expr(index, None);
            }
            ExprKind::Length(array, object) => self.expr(object, Some(array)),
            ExprKind::Loop(repeat) => {
                self.expr(repeat.init, None);
                match repeat.iteration {
                    Iteration::While(cond) => {
                        self.enter(Rounds::If(Vec::new()), cond);
                        self.expr(cond, None);
                        self.around().rounds = match rounds::may_be_asked(self.body, cond) {
                            true => {
                                let atoms = self.begin(expr);
                                Rounds::If(vec![Test::Holds { cond, holds: true, atoms }])
                            }
                            false => Rounds::Unknown,
                        };
                        self.expr(repeat.body, None);
                        self.leave(expr);
                    }
                    Iteration::Range(range) => {
                        self.bounds(range);
                        self.enter(Rounds::Range(range), repeat.body);
                        self.expr(repeat.body, None);
                        self.leave(expr);
                    }
                }
            }
            ExprKind::Collect(_, collect) => {
                self.bounds(collect.range);
                collect.first.into_iter().for_each(|first| self.branch(|mover| mover.expr(first, None)));
                // What the first element is made of comes before the other rounds.
                let rounds = if collect.first.is_some() { Rounds::Unknown } else { Rounds::Range(collect.range) };
                self.enter(rounds, collect.body);
                self.expr(collect.body, None);
                self.leave(expr);
            }
            ExprKind::Repeat(repeat) => {
                self.expr(repeat.init, None);
                self.enter(Rounds::If(Vec::new()), repeat.body);
                let atoms = self.begin(expr);
                self.round(repeat.body, repeat.label, &atoms);
                self.leave(expr);
            }
            _ => {
                let mut children = Vec::new();
                self.body.exprs[expr].for_each_child(|child| children.push(child));
                children.into_iter().for_each(|child| self.expr(child, None));
            }
        }
    }

    /// Walks a round of a repetition, or the rest of one.
    fn round(&mut self, expr: ExprId, label: Label, atoms: &Rc<HashMap<Var, Atom>>) {
        let asked = match &self.around().rounds {
            Rounds::If(tests) => tests.len(),
            Rounds::Range(_) | Rounds::Unknown => TESTS_MAX,
        };
        if let ExprKind::Block(bindings, value) = self.body.exprs[expr].kind.clone() {
            self.block(expr, bindings, value, |mover| mover.round(value, label, atoms));
            return;
        }
        let start = Start::of(self.body, expr, label, atoms, self.meter);
        let Some(Start { first, then, ends, test }) = start.filter(|_| asked < TESTS_MAX) else {
            self.expr(expr, None);
            return;
        };
        self.expr(first, None);
        self.branch(|mover| ends.into_iter().for_each(|end| mover.expr(end, None)));
        if let Rounds::If(tests) = &mut self.around().rounds {
            tests.push(test);
        }
        crate::stack::grown(|| self.round(then, label, atoms));
    }

    fn bounds(&mut self, range: Range) {
        [range.from, range.to].into_iter().for_each(|bound| self.expr(bound, None));
    }

    /// Bindings move as they are.
    fn block(&mut self, expr: ExprId, bindings: Box<[Binding]>, value: ExprId, walk: impl FnOnce(&mut Self)) {
        let mut kept = Vec::with_capacity(bindings.len());
        for binding in bindings {
            let is_wanted = binding.vars.iter().any(|&var| self.facts.is_wanted[var]);
            let arrays: List<Option<ArrayType>> = binding.vars.iter().map(|&var| self.facts.read[var]).collect();
            let destination = match is_wanted || self.facts.is_heavy[binding.value] {
                true => self.destination(binding.value, &arrays),
                false => None,
            };
            if let Some(destination) = destination {
                self.parts_of_moved(binding.value, destination.level);
                binding.vars.iter().for_each(|&var| self.facts.position[var] = level(destination.level));
                self.emit(binding, destination, &arrays);
                continue;
            }
            crate::stack::grown(|| self.parts(binding.value));
            kept.push(binding);
        }
        walk(self);
        self.body.exprs[expr].kind = ExprKind::Block(kept.into(), value);
    }

    fn around(&mut self) -> &mut Around {
        self.loops.last_mut().expect("a loop is around")
    }

    fn enter(&mut self, rounds: Rounds, first: ExprId) {
        let rounds = match rounds {
            Rounds::Range(Range { from, to, .. }) => match [from, to].map(|bound| &self.body.exprs[bound].kind) {
                [ExprKind::Int(from), ExprKind::Int(to)] if from < to => Rounds::If(Vec::new()),
                _ => rounds,
            },
            _ => rounds,
        };
        let traps = (self.survey.traps_before(first), 0);
        let (branches, init, names) = (self.branches, Vec::new(), Vec::new());
        let (before, asked) = (Vec::new(), Vec::new());
        self.loops.push(Around { rounds, traps, branches, init, names, before, asked, arrays: 0 });
    }

    /// The atoms that the variables of a loop, which was entered, begin with, if something is computed before it.
    fn begin(&mut self, expr: ExprId) -> Rc<HashMap<Var, Atom>> {
        let (vars, init) = match &self.body.exprs[expr].kind {
            ExprKind::Loop(repeat) => (repeat.vars.clone(), repeat.init),
            ExprKind::Repeat(repeat) => (repeat.params.clone(), repeat.init),
            _ => unreachable!("other loops have no variables"),
        };
        let mut parts = Vec::new();
        self.values(init, &mut parts);
        let mut atoms = HashMap::default();
        for (&var, part) in vars.iter().zip(parts) {
            let Some(part) = part else { continue };
            let atom = match self.body.exprs[part].kind {
                ExprKind::Var(var) => Atom::Var(var),
                ExprKind::Real(real) => Atom::Real(real),
                ExprKind::Int(int) => Atom::Int(int),
                _ => {
                    let name = self.variable(self.body.vars[var], self.loops.len() - 1);
                    self.around().init.push((part, name));
                    Atom::Var(name)
                }
            };
            atoms.insert(var, atom);
        }
        Rc::new(atoms)
    }

    /// The expressions of an expression's values, where each has its own.
    fn values(&self, expr: ExprId, parts: &mut Vec<Option<ExprId>>) {
        match &self.body.exprs[expr].kind {
            ExprKind::Values(list) => crate::stack::grown(|| list.iter().for_each(|&part| self.values(part, parts))),
            ExprKind::Block(_, value) => crate::stack::grown(|| self.values(*value, parts)),
            _ => match self.types(expr).len() {
                1 => parts.push(Some(expr)),
                count => parts.extend((0..count).map(|_| None)),
            },
        }
    }

    /// Puts what has left a loop before it.
    fn leave(&mut self, expr: ExprId) {
        let Around { init, names, before, .. } = self.loops.pop().expect("the loop was entered");
        if before.is_empty() && names.is_empty() {
            return;
        }
        let Expr { mut kind, types, origin } = self.body.exprs[expr].clone();
        let mut bindings = Vec::new();
        // What the loop begins with comes before the first round.
        for (part, var) in init {
            let node = self.body.exprs[part].clone();
            let origin = node.origin;
            let named = Binding { vars: List::from([var]), value: self.body.exprs.push(node) };
            let value = self.atom(Atom::Var(var), origin);
            self.body.exprs[part].kind = ExprKind::Block(Box::new([named]), value);
        }
        if let ExprKind::Loop(repeat) = &mut kind {
            repeat.init = self.body.named(repeat.init, self.lists, &mut bindings);
        } else if let ExprKind::Repeat(repeat) = &mut kind {
            repeat.init = self.body.named(repeat.init, self.lists, &mut bindings);
        }
        bindings.extend(names);
        bindings.extend(before);
        let repeat = self.body.exprs.push(Expr { kind, types, origin });
        self.body.exprs[expr].kind = ExprKind::Block(bindings.into(), repeat);
    }

    fn atom(&mut self, atom: Atom, origin: Origin) -> ExprId {
        self.body.atom(atom, origin, self.lists)
    }

    /// A new variable, which is bound where so many loops are around.
    fn variable(&mut self, ty: ValueType, position: usize) -> Var {
        let var = self.body.vars.push(ty);
        while self.facts.position.len() < self.body.vars.len() {
            self.facts.position.push(level(position));
        }
        var
    }

    /// Where an expression can move to, if it can. Its values are such arrays, or none that are only read.
    fn destination(&mut self, expr: ExprId, arrays: &[Option<ArrayType>]) -> Option<Destination> {
        let depth = self.loops.len();
        let innermost = depth.checked_sub(1).filter(|&depth| depth < DEPTH_MAX as usize)?;
        let is_bound_inside = self.facts.depends[expr] & (1 << innermost) != 0;
        if is_bound_inside || self.facts.is_audible[expr] {
            return None;
        }
        let types = self.types(expr);
        let is_number = |ty: &ValueType| super::is_number(*ty);
        if types.is_empty() || !types.iter().zip(arrays).all(|(ty, array)| is_number(ty) || array.is_some()) {
            return None;
        }
        if !self.may_leave(expr, innermost) {
            return None;
        }
        let position = self.position_of_read(expr)?;
        let (mut tests, mut tests_position) = (Vec::new(), 0);
        let mut level = depth;
        while level > position.max(tests_position) && self.may_leave(expr, level - 1) {
            let around = &self.loops[level - 1];
            let asked = match &around.rounds {
                Rounds::Unknown => break,
                Rounds::If(tests) => tests.clone(),
                &Rounds::Range(Range { from, to, .. }) => {
                    vec![Test::Less([from, to].map(|bound| self.bound(level - 1, bound)))]
                }
            };
            let reads = asked.iter().flat_map(|test| test.reads(self.body));
            let asked_position = reads.map(|var| self.facts.position[var] as usize).max().unwrap_or(0);
            if asked_position >= level {
                break;
            }
            tests_position = tests_position.max(asked_position);
            tests.extend(asked.into_iter().rev());
            level -= 1;
        }
        let arrays = arrays.iter().filter(|array| array.is_some()).count();
        let has_room = arrays == 0 || level == depth || self.loops[level].arrays + arrays <= ARRAYS_MAX;
        (level < depth && has_room).then_some(Destination { level, tests })
    }

    /// Whether an expression is evaluated in each round of a loop, and nothing that stays in the loop can trap before
    /// it in the first one, or it can't trap.
    fn may_leave(&self, expr: ExprId, level: usize) -> bool {
        let Around { ref rounds, traps: (surveyed, moved), branches, .. } = self.loops[level];
        let before = self.survey.traps_before(expr) - surveyed;
        let is_first = before == moved || !self.survey.may_trap(expr);
        branches == self.branches && !matches!(rounds, Rounds::Unknown) && is_first
    }

    /// A bound of a loop's range, which gets a name if it isn't an atom.
    fn bound(&mut self, level: usize, bound: ExprId) -> Atom {
        match self.body.exprs[bound].kind {
            ExprKind::Var(var) => Atom::Var(var),
            ExprKind::Int(int) => Atom::Int(int),
            _ => {
                let node = self.body.exprs[bound].clone();
                let var = self.variable(ValueType::Int, level);
                let value = self.body.exprs.push(node);
                self.body.exprs[bound].kind = ExprKind::Var(var);
                self.loops[level].names.push(Binding { vars: List::from([var]), value });
                Atom::Var(var)
            }
        }
    }

    /// How many loops are around where those variables are bound that an expression reads, and doesn't bind itself.
    /// `None` if it goes to a label outside of it, or binds something that is read outside of it.
    fn position_of_read(&self, expr: ExprId) -> Option<usize> {
        let (mut read, mut bound): (Vec<Var>, HashSet<Var>) = (Vec::new(), HashSet::default());
        let (mut jumps, mut labels): (Vec<Label>, HashSet<Label>) = (Vec::new(), HashSet::default());
        for (_, node) in self.body.nodes_of(expr) {
            if !self.meter.step(node.origin.span) {
                return None;
            }
            match &node.kind {
                ExprKind::Var(var) => read.push(*var),
                ExprKind::Block(bindings, _) => bound.extend(bindings.iter().flat_map(|binding| &binding.vars)),
                ExprKind::Loop(repeat) => {
                    bound.extend(&repeat.vars);
                    if let Iteration::Range(range) = repeat.iteration {
                        bound.insert(range.index);
                    }
                }
                ExprKind::Collect(_, collect) => _ = bound.insert(collect.range.index),
                ExprKind::Repeat(repeat) => {
                    bound.extend(&repeat.params);
                    labels.insert(repeat.label);
                }
                ExprKind::Join(join) => {
                    bound.extend(join.bodies.iter().flat_map(|labelled| &labelled.params));
                    labels.extend(join.bodies.iter().map(|labelled| labelled.label));
                }
                ExprKind::Jump(label, _) => jumps.push(*label),
                ExprKind::Extend(extend) => jumps.push(extend.label),
                _ => {}
            }
        }
        let position = |var: &Var| self.facts.position[*var] as usize;
        let (first, last) = self.survey.extents[expr];
        let is_read_inside = |var: &Var| self.survey.uses[*var].iter().all(|place| (first..=last).contains(place));
        let is_whole = jumps.iter().all(|label| labels.contains(label)) && bound.iter().all(is_read_inside);
        is_whole.then(|| read.iter().filter(|var| !bound.contains(var)).map(position).max().unwrap_or(0))
    }

    /// Computes something at its destination.
    fn emit(&mut self, binding: Binding, destination: Destination, arrays: &[Option<ArrayType>]) {
        let Binding { vars, value } = binding;
        let Expr { types, origin, .. } = self.body.exprs[value];
        let (tests, level) = (destination.tests, destination.level);
        let cells = arrays.iter().filter(|array| array.is_some()).count();
        self.loops[level].arrays += cells;
        let value = match &tests[..] {
            [] => value,
            [only] => {
                let nothing = self.nothing((types, origin), arrays);
                self.choose(only, [value, nothing])
            }
            _ => {
                let gets_there = self.asked(tests, level, origin);
                let (cond, nothing) = (self.atom(Atom::Var(gets_there), origin), self.nothing((types, origin), arrays));
                self.body.exprs.push(Expr { kind: ExprKind::If([cond, value, nothing]), types, origin })
            }
        };
        self.loops[level].before.push(Binding { vars, value });
    }

    fn choose(&mut self, test: &Test, values: [ExprId; 2]) -> ExprId {
        self.meter.nodes(Count::Code, test.nodes(self.body));
        test.choose(values, self.body, self.lists)
    }

    /// The variable that says whether several tests all turn out as they are to be, which is computed before a loop.
    fn asked(&mut self, tests: Vec<Test>, level: usize, origin: Origin) -> Var {
        let is_same = |known: &[Test]| {
            known.len() == tests.len() && known.iter().zip(&tests).all(|(known, test)| known.is_same(test))
        };
        if let Some((_, var)) = self.loops[level].asked.iter().rev().take(ASKED_MAX).find(|(known, _)| is_same(known)) {
            return *var;
        }
        let mut value = self.atom(Atom::Int(1), origin);
        for test in &tests {
            let no = self.atom(Atom::Int(0), origin);
            value = self.choose(test, [value, no]);
        }
        let var = self.variable(ValueType::Int, level);
        self.loops[level].before.push(Binding { vars: List::from([var]), value });
        self.loops[level].asked.push((tests, var));
        var
    }

    /// Values that nobody reads.
    fn nothing(&mut self, (types, origin): (TypeList, Origin), arrays: &[Option<ArrayType>]) -> ExprId {
        let each: List<ValueType> = self.lists.get(types).iter().copied().collect();
        let parts: List<ExprId> = each
            .iter()
            .zip(arrays)
            .map(|(&ty, array)| {
                let kind = match (ty, array) {
                    (ValueType::Real, _) => ExprKind::Real(0.0),
                    (ValueType::Int, _) => ExprKind::Int(0),
                    (ValueType::Ref(_), Some(array)) => ExprKind::Pack(*array, List::default()),
                    (ValueType::Ref(_), None) => unreachable!("it is known what moves"),
                };
                let types = self.lists.intern(&[ty]);
                self.body.exprs.push(Expr { kind, types, origin })
            })
            .collect();
        match parts[..] {
            [only] => only,
            _ => self.body.exprs.push(Expr { kind: ExprKind::Values(parts), types, origin }),
        }
    }
}

fn level(level: usize) -> u32 {
    u32::try_from(level).expect("loops are nested less deep than there are nodes")
}
