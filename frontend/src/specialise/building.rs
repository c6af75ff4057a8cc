//! Arrays that are made element by element: comprehensions with several clauses, and tables of several dimensions.

use super::Elaborator;
use super::form::Value;
use crate::ast::{self, Clause, Comprehension, Generator, Iteration as Surface, PatternId};
use crate::core::{ArrayType, Atom, Binding, Collect, ExprId, ExprKind, Iteration, Loop, Range, Step, Var};
use crate::list::List;
use crate::mono::Mono;
use crate::prelude::Implied;
use crate::source::Span;
use dualvm_vm::isa::Op;
use dualvm_vm::module::{TypeDef, ValueType};

/// An array under construction: how it holds its elements, and what an element is.
#[derive(Clone, Copy)]
struct Making {
    array: ArrayType,
    element: ast::ExprId,
    span: Span,
}

/// `loop p = init for … do next` in a comprehension.
#[derive(Clone, Copy)]
struct Accumulation {
    pattern: PatternId,
    init: ast::ExprId,
    iteration: Surface,
    next: ast::ExprId,
}

impl Elaborator<'_, '_> {
    /// The array that a comprehension is.
    pub(super) fn array_of_clauses(&mut self, comprehension: &Comprehension, ty: Mono, span: Span) -> ExprId {
        let array = self.array_type(ty);
        if let [Clause::For(generator)] = comprehension.clauses[..] {
            let (mut before, mut inside) = (Vec::new(), Vec::new());
            let range = self.range(generator, &mut before, &mut inside, span);
            let body = self.expr(comprehension.element);
            let body = self.block(inside, body);
            let collect = Box::new(Collect { range, first: None, body });
            let value = self.make(ExprKind::Collect(array, collect), ty, span);
            return self.block(before, value);
        }
        let making = Making { array, element: comprehension.element, span };
        let mut bindings = Vec::new();
        let none = self.atom(Atom::Int(0), span);
        let builder = self.begin(array, none, &mut bindings, span);
        let ended = self.clauses(making, &comprehension.clauses, builder);
        let value = self.make(ExprKind::Builder(array, Step::Finish, List::from([ended])), ty, span);
        self.block(bindings, value)
    }

    /// `[| e for i < n, j < m |]`.
    pub(super) fn table(&mut self, element: ast::ExprId, generators: &[Generator], ty: Mono, span: Span) -> ExprId {
        let (mut before, mut inside) = (Vec::new(), Vec::new());
        let mut ranges = Vec::with_capacity(generators.len());
        for &generator in generators {
            let Range { index, from, to } = self.range(generator, &mut before, &mut inside, span);
            let [from, to] = [from, to].map(|end| self.name_value(end, &mut before));
            ranges.push((index, [from, to]));
        }
        let made = self.filled(&ranges, ty, span, |elaborator| {
            let value = elaborator.expr(element);
            elaborator.block(inside, value)
        });
        self.block(before, made)
    }

    /// An array of several dimensions that has an element for each of some indices in each of them.
    pub(super) fn filled(
        &mut self,
        ranges: &[(Var, [Atom; 2])],
        ty: Mono,
        span: Span,
        element: impl FnOnce(&mut Self) -> ExprId,
    ) -> ExprId {
        let array = self.array_type(ty);
        let mut bindings = Vec::new();
        let mut sizes = Vec::with_capacity(ranges.len());
        for &(_, [from, to]) in ranges {
            let count = self.size_between(from, to, span);
            sizes.push(self.name_value(count, &mut bindings));
        }
        let room = self.room(&sizes, span);
        let builder = self.begin(array, room, &mut bindings, span);
        let builders: Vec<Var> = ranges.iter().map(|_| self.builder_var(array)).collect();
        let innermost = builders.last().map_or(builder, |&var| Atom::Var(var));
        let value = element(self);
        let parts = vec![self.atom(innermost, span), value];
        let mut body = self.step(array, Step::Push, parts, span);
        for (at, &(index, ends)) in ranges.iter().enumerate().rev() {
            let outer = at.checked_sub(1).map_or(builder, |at| Atom::Var(builders[at]));
            let [from, to] = ends.map(|end| self.atom(end, span));
            let range = Range { index, from, to };
            body = self.builder_loop(builders[at], outer, Iteration::Range(range), body, span);
        }
        let elements = ExprKind::Builder(array, Step::Finish, List::from([body]));
        let elements = self.make_elements(elements, ty, span);
        let value = self.shaped_array(elements, &sizes, ty, span);
        self.block(bindings, value)
    }

    /// How many elements an array of these sizes has.
    fn room(&mut self, sizes: &[Atom], span: Span) -> ExprId {
        let int = self.program.monos.int;
        let whole = self.function_type(&[int, int], int);
        let mut room = self.atom(sizes[0], span);
        for &size in &sizes[1..] {
            let times = self.implied(Implied::Room, &[], whole, span);
            let parts = [room, self.atom(size, span)].map(|expr| self.plain_shaped(expr, int));
            room = self.apply(times, parts.into(), int, span).expr;
        }
        room
    }

    /// How many integers there are from one to another, at least 0.
    fn size_between(&mut self, from: Atom, to: Atom, span: Span) -> ExprId {
        let int = self.program.monos.int;
        let [first, last, zero] = [from, to, Atom::Int(0)].map(|atom| self.atom(atom, span));
        let count = match from {
            Atom::Int(0) => last,
            _ => self.make(ExprKind::Scalar(Op::ISub, List::from([last, first])), int, span),
        };
        self.make(ExprKind::Scalar(Op::IMax, List::from([count, zero])), int, span)
    }

    fn builder_type(&mut self, array: ArrayType) -> ValueType {
        ValueType::Ref(self.program.program.module.intern_type(TypeDef::Builder(array.holds)))
    }

    fn builder_var(&mut self, array: ArrayType) -> Var {
        let ty = self.builder_type(array);
        self.body.vars.push(ty)
    }

    /// A step that gives a builder.
    fn step(&mut self, array: ArrayType, step: Step, parts: Vec<ExprId>, span: Span) -> ExprId {
        let ty = self.builder_type(array);
        self.make_typed(ExprKind::Builder(array, step, parts.into()), &[ty], span)
    }

    fn begin(&mut self, array: ArrayType, room: ExprId, bindings: &mut Vec<Binding>, span: Span) -> Atom {
        let builder = self.step(array, Step::Begin, vec![room], span);
        self.name_value(builder, bindings)
    }

    /// A loop whose body gives the next builder.
    fn builder_loop(&mut self, var: Var, first: Atom, iteration: Iteration, body: ExprId, span: Span) -> ExprId {
        let ty = self.body.vars[var];
        let init = self.atom(first, span);
        let repeat = Loop { vars: List::from([var]), init, iteration, body };
        self.make_typed(ExprKind::Loop(Box::new(repeat)), &[ty], span)
    }

    /// What is left of a comprehension's clauses: the builder after all elements that are made there.
    fn clauses(&mut self, making: Making, clauses: &[Clause], builder: Atom) -> ExprId {
        crate::stack::grown(|| self.clauses_here(making, clauses, builder))
    }

    fn clauses_here(&mut self, making: Making, clauses: &[Clause], builder: Atom) -> ExprId {
        let span = making.span;
        let Some((&first, rest)) = clauses.split_first() else {
            let parts = vec![self.atom(builder, span), self.expr(making.element)];
            return self.step(making.array, Step::Push, parts, span);
        };
        match first {
            Clause::If(condition) => {
                let condition = self.expr(condition);
                let then = self.clauses(making, rest, builder);
                let other = self.atom(builder, span);
                let ty = self.builder_type(making.array);
                self.make_typed(ExprKind::If([condition, then, other]), &[ty], span)
            }
            Clause::For(generator) => {
                let (mut before, mut inside) = (Vec::new(), Vec::new());
                let range = self.range(generator, &mut before, &mut inside, span);
                let (range, builder) = self.with_room(making, rest, range, builder, &mut before);
                let var = self.builder_var(making.array);
                let body = self.clauses(making, rest, Atom::Var(var));
                let body = self.block(inside, body);
                let value = self.builder_loop(var, builder, Iteration::Range(range), body, span);
                self.block(before, value)
            }
            Clause::Loop { pattern, init, iteration, next } => {
                self.accumulated(making, Accumulation { pattern, init, iteration, next }, rest, builder)
            }
        }
    }

    /// A loop that has an accumulator besides the builder.
    fn accumulated(&mut self, making: Making, clause: Accumulation, rest: &[Clause], builder: Atom) -> ExprId {
        let (span, array) = (making.span, making.array);
        let (mut before, mut inside) = (Vec::new(), Vec::new());
        let init = self.expr(clause.init);
        let mut first = Vec::new();
        self.body.name_values(init, &self.program.program.lists, &mut before, &mut first);
        let var = self.builder_var(array);
        let (iteration, vars, builder, room) = match clause.iteration {
            Surface::For(generator) => {
                let range = self.range(generator, &mut before, &mut inside, span);
                let (range, builder) = self.with_room(making, rest, range, builder, &mut before);
                let vars = self.loop_vars(clause.pattern, &mut inside);
                (Iteration::Range(range), vars, builder, Atom::Var(var))
            }
            Surface::While(condition) => {
                let (vars, condition) = self.while_condition(clause.pattern, condition, &mut inside);
                // Nobody knows how often it goes round: there is room for one element more in each round.
                let room = match ends_in_push(rest) {
                    true => {
                        let parts = vec![self.atom(Atom::Var(var), span), self.atom(Atom::Int(1), span)];
                        let builder = self.step(array, Step::Reserve, parts, span);
                        self.name_value(builder, &mut inside)
                    }
                    false => Atom::Var(var),
                };
                (Iteration::While(condition), vars, builder, room)
            }
        };
        let next = self.expr(clause.next);
        let mut atoms = Vec::new();
        self.body.name_values(next, &self.program.program.lists, &mut inside, &mut atoms);
        // What is inside sees the new value.
        let pattern_type = self.program.inferred.patterns[clause.pattern];
        let ty = self.mono(pattern_type, span);
        let form = self.plain(ty);
        self.bind_value(clause.pattern, &Value { form, atoms: atoms.clone().into() }, &mut inside);
        let ended = self.clauses(making, rest, room);
        let [mut firsts, mut nexts] = [&first, &atoms].map(|atoms| {
            let parts = atoms.iter().map(|&atom| self.atom(atom, span));
            parts.collect::<Vec<ExprId>>()
        });
        firsts.push(self.atom(builder, span));
        nexts.push(ended);
        let mut types: Vec<ValueType> = vars.iter().map(|&var| self.body.vars[var]).collect();
        types.push(self.builder_type(array));
        let [init, next] = [firsts, nexts].map(|parts| self.make_typed(ExprKind::Values(parts.into()), &types, span));
        let body = self.block(inside, next);
        let results: List<Var> = types.iter().map(|&ty| self.body.vars.push(ty)).collect();
        let last = results[results.len() - 1];
        let vars = vars.iter().copied().chain([var]).collect();
        let repeat = Loop { vars, init, iteration, body };
        let value = self.make_typed(ExprKind::Loop(Box::new(repeat)), &types, span);
        before.push(Binding { vars: results, value });
        let value = self.atom(Atom::Var(last), span);
        self.block(before, value)
    }

    /// Room for all elements of a loop of which each round makes at most one. Its bounds get names.
    fn with_room(
        &mut self,
        making: Making,
        rest: &[Clause],
        range: Range,
        builder: Atom,
        bindings: &mut Vec<Binding>,
    ) -> (Range, Atom) {
        if !ends_in_push(rest) {
            return (range, builder);
        }
        let span = making.span;
        let [from, to] = [range.from, range.to].map(|end| self.name_value(end, bindings));
        let count = self.size_between(from, to, span);
        let parts = vec![self.atom(builder, span), count];
        let builder = self.step(making.array, Step::Reserve, parts, span);
        let builder = self.name_value(builder, bindings);
        let [from, to] = [from, to].map(|end| self.atom(end, span));
        (Range { index: range.index, from, to }, builder)
    }
}

/// Whether no further loop is among the clauses that are left: then an element is made at most once.
fn ends_in_push(rest: &[Clause]) -> bool {
    rest.iter().all(|clause| matches!(clause, Clause::If(_)))
}
