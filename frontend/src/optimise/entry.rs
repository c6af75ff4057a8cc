//! Loads that don't change are done where a loop is entered.
//!
//! In `sum [| (x[i] - x[j]) ^ 2 for j < n |]` inside of a loop over `i`, `x[i]` is loaded in each round, and in the
//! sweep each round adds to its adjoint in memory; of `a[i][j]` the row is looked up each time. Such loads become the
//! first bindings of the loop's body, and lowering computes these once, behind the test of whether there is a round at
//! all ([`crate::liveness::Liveness::entry_count`]). So nothing is loaded that wasn't, and what fails fails as it did:
//! a load that may trap moves only if nothing that stands before it in the first round may trap or run for ever.
//!
//! Code that is to be as it was written keeps its loads where they are. A loop of one or two rounds beside a call takes
//! up to a tenth more tape: what is loaded stands on it before the loop's record.
//!
//! What flows back to such an element is added up in the loop before it flows on: a derivative's last bit may be
//! another one.

use super::arrays::{Order, Survey};
use crate::arena::Table;
use crate::core::{Binding, Body, Expr, ExprId, ExprKind, Function, Iteration, TypeLists, Var};
use crate::limits::Meter;
use crate::list::List;
use crate::liveness::{ENTRY_MAX, is_copied};

/// Of an index that is itself an element, and so on, so many nodes are looked at.
const NODES_MAX: usize = 16;

/// Moves loads of a function to the beginning of the bodies of the loops in which they don't change.
pub(super) fn load_first(function: &mut Function, lists: &TypeLists, meter: &Meter) {
    if !has_candidates(function, meter) || !meter.go_on() {
        return;
    }
    let survey = Survey::of(function, lists, Order::Changed, meter);
    if !meter.go_on() {
        return;
    }
    let depths = Table::filled(0, function.body.vars.len());
    Mover { body: &mut function.body, lists, meter, survey, depths, depth: 0 }.expr(function.root);
}

/// Whether there is a loop, and a load from an array.
fn has_candidates(function: &Function, meter: &Meter) -> bool {
    let (mut repeats, mut loads) = (false, false);
    for (_, node) in function.nodes(meter) {
        repeats |= matches!(node.kind, ExprKind::Loop(_) | ExprKind::Collect(..));
        loads |= matches!(node.kind, ExprKind::Element(..));
    }
    repeats && loads
}

struct Mover<'m> {
    body: &'m mut Body,
    lists: &'m TypeLists,
    meter: &'m Meter,
    survey: Survey,
    /// How many loops are around a variable's binding.
    depths: Table<Var, usize>,
    /// How many are around the current place.
    depth: usize,
}

/// What a loop's body is searched for.
struct Search {
    /// How much may trap before its first round begins.
    before: u32,
    /// How much of what moves may trap.
    moved: u32,
    entry: Vec<Binding>,
}

impl Mover<'_> {
    fn expr(&mut self, expr: ExprId) {
        if self.meter.step(self.body.exprs[expr].origin.span) {
            crate::stack::grown(|| self.expr_here(expr));
        }
    }

    fn expr_here(&mut self, expr: ExprId) {
        match self.body.exprs[expr].kind.clone() {
            ExprKind::Block(bindings, value) => {
                for binding in &bindings {
                    self.expr(binding.value);
                    self.define(&binding.vars);
                }
                self.expr(value);
            }
            ExprKind::Loop(repeat) => {
                self.expr(repeat.init);
                if let Iteration::Range(range) = repeat.iteration {
                    self.expr(range.from);
                    self.expr(range.to);
                }
                self.depth += 1;
                self.define(&repeat.vars);
                match repeat.iteration {
                    Iteration::While(cond) => {
                        self.expr(cond);
                        if is_copied(self.body, cond) {
                            self.search(repeat.body);
                        }
                    }
                    Iteration::Range(range) => {
                        self.define(&[range.index]);
                        self.search(repeat.body);
                    }
                }
                self.expr(repeat.body);
                self.depth -= 1;
            }
            ExprKind::Collect(_, collect) => {
                self.expr(collect.range.from);
                self.expr(collect.range.to);
                collect.first.into_iter().for_each(|first| self.expr(first));
                self.depth += 1;
                self.define(&[collect.range.index]);
                self.search(collect.body);
                self.expr(collect.body);
                self.depth -= 1;
            }
            ExprKind::Repeat(repeat) => {
                self.expr(repeat.init);
                self.depth += 1;
                self.define(&repeat.params);
                self.expr(repeat.body);
                self.depth -= 1;
            }
            ExprKind::Join(join) => {
                self.expr(join.value);
                for labelled in &join.bodies {
                    self.define(&labelled.params);
                    self.expr(labelled.body);
                }
            }
            _ => self.children(expr).into_iter().for_each(|child| self.expr(child)),
        }
    }

    fn children(&self, expr: ExprId) -> Vec<ExprId> {
        let mut children = Vec::new();
        self.body.exprs[expr].for_each_child(|child| children.push(child));
        children
    }

    fn define(&mut self, vars: &[Var]) {
        vars.iter().for_each(|&var| self.depths[var] = self.depth);
    }

    /// Puts what doesn't change in a loop before the rest of its body.
    fn search(&mut self, body: ExprId) {
        let before = self.survey.traps_before(body);
        let mut search = Search { before, moved: 0, entry: Vec::new() };
        self.first(body, &mut search);
        if search.entry.is_empty() {
            return;
        }
        let Expr { kind, types, origin } = self.body.exprs[body].clone();
        let (bindings, value) = match kind {
            ExprKind::Block(bindings, value) => (bindings.into_vec(), value),
            kind => (Vec::new(), self.body.exprs.push(Expr { kind, types, origin })),
        };
        let all = search.entry.into_iter().chain(bindings).collect();
        self.body.exprs[body].kind = ExprKind::Block(all, value);
    }

    /// Walks what is evaluated in each round, in order.
    fn first(&mut self, expr: ExprId, search: &mut Search) {
        if search.entry.len() < ENTRY_MAX && self.meter.step(self.body.exprs[expr].origin.span) {
            crate::stack::grown(|| self.first_here(expr, search));
        }
    }

    fn first_here(&mut self, expr: ExprId, search: &mut Search) {
        if let &[ty] = self.lists.get(self.body.exprs[expr].types)
            && self.moves(expr, search)
        {
            let node = self.body.exprs[expr].clone();
            let var = self.body.vars.push(ty);
            self.depths.push(self.depth - 1);
            let value = self.body.exprs.push(node);
            self.body.exprs[expr].kind = ExprKind::Var(var);
            search.entry.push(Binding { vars: List::from([var]), value });
            return;
        }
        match self.body.exprs[expr].kind.clone() {
            ExprKind::Block(bindings, value) => {
                let mut kept = Vec::with_capacity(bindings.len());
                for binding in bindings {
                    if search.entry.len() < ENTRY_MAX && self.moves(binding.value, search) {
                        binding.vars.iter().for_each(|&var| self.depths[var] = self.depth - 1);
                        search.entry.push(binding);
                    } else {
                        self.first(binding.value, search);
                        self.define(&binding.vars);
                        kept.push(binding);
                    }
                }
                self.body.exprs[expr].kind = ExprKind::Block(kept.into(), value);
                self.first(value, search);
            }
            ExprKind::If([cond, ..]) => self.first(cond, search),
            ExprKind::And([part, _]) | ExprKind::Or([part, _]) => self.first(part, search),
            ExprKind::Switch(switch) => self.first(switch.object, search),
            ExprKind::Loop(repeat) => {
                self.first(repeat.init, search);
                if let Iteration::Range(range) = repeat.iteration {
                    self.first(range.from, search);
                    self.first(range.to, search);
                }
            }
            ExprKind::Collect(_, collect) => {
                self.first(collect.range.from, search);
                self.first(collect.range.to, search);
            }
            ExprKind::Repeat(repeat) => self.first(repeat.init, search),
            ExprKind::Join(_) | ExprKind::Fork(_) | ExprKind::ParallelMap(..) | ExprKind::Derivative(_) => {}
            _ => self.children(expr).into_iter().for_each(|child| self.first(child, search)),
        }
    }

    /// Whether an expression is a load that may be done before the first round, and if so counts what of it may trap.
    fn moves(&self, expr: ExprId, search: &mut Search) -> bool {
        let is_load = matches!(self.body.exprs[expr].kind, ExprKind::Element(..));
        if !is_load || !self.is_unchanged(expr) {
            return false;
        }
        let traps = self.survey.traps_in(expr);
        let is_first = self.survey.traps_before(expr) - search.before == search.moved;
        if traps > 0 && !is_first {
            return false;
        }
        search.moved += traps;
        true
    }

    fn is_unchanged(&self, expr: ExprId) -> bool {
        let mut pending = vec![expr];
        for _ in 0..NODES_MAX {
            let Some(expr) = pending.pop() else { return true };
            match self.body.exprs[expr].kind {
                ExprKind::Int(_) => {}
                ExprKind::Var(var) if self.depths[var] < self.depth => {}
                ExprKind::Element(_, parts, _) => pending.extend(parts),
                _ => return false,
            }
        }
        pending.is_empty()
    }
}
