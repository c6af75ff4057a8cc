//! When the variables of a core function are read for the last time, so that lowering can reuse their registers, and
//! whether one is read in a given subtree.
//!
//! A variable from outside of a loop that is read inside of it lives until the loop ends. So does one that the loop
//! computes first and that doesn't change: see [`Liveness::entry_count`].

use crate::arena::Table;
use crate::core::{Binding, Body, ExprId, ExprKind, Function, Iteration, Step, Var};
use crate::hash::HashMap;
use crate::limits::Meter;

/// So many loads are done where a loop is entered: they take registers as long as it goes round.
pub(crate) const ENTRY_MAX: usize = 8;
/// A condition of more nodes than this is not written twice.
const COPIED_CONDITION_MAX: usize = 64;

/// The last time that a variable is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LastUse {
    Never,
    /// At this [`ExprKind::Var`].
    At(ExprId),
    /// In any iteration of this loop.
    Loop(ExprId),
}

/// The uses of a function's variables.
#[derive(Debug)]
pub(crate) struct Liveness {
    last: Table<Var, LastUse>,
    /// The places in the order of evaluation where a variable is read, sorted.
    uses: Table<Var, Vec<u32>>,
    /// The places of an expression's subtree.
    extents: Table<ExprId, (u32, u32)>,
    /// The variables whose last use is in a loop.
    dying: HashMap<ExprId, Vec<Var>>,
    /// How many of the first bindings of a loop's body are computed where the loop is entered.
    entry_counts: HashMap<ExprId, usize>,
}

impl Liveness {
    /// Finds the uses of a function's variables; not all if the compilation is stopped.
    pub(crate) fn of(function: &Function, meter: &Meter) -> Self {
        let vars = function.body.vars.len();
        let mut walker = Walker {
            function,
            meter,
            live: Liveness {
                last: Table::filled(LastUse::Never, vars),
                uses: Table::filled(Vec::new(), vars),
                extents: Table::filled((0, 0), function.body.exprs.len()),
                dying: HashMap::default(),
                entry_counts: HashMap::default(),
            },
            depths: Table::filled(0, vars),
            loops: Vec::new(),
            at: 0,
        };
        walker.expr(function.root);
        let mut live = walker.live;
        for (var, last) in live.last.iter() {
            if let LastUse::Loop(repeat) = *last {
                live.dying.entry(repeat).or_default().push(var);
            }
        }
        live
    }

    /// Whether this use of a variable is the last one.
    pub(crate) fn is_last(&self, var: Var, place: ExprId) -> bool {
        self.last[var] == LastUse::At(place)
    }

    /// Whether a variable is never read.
    pub(crate) fn is_unused(&self, var: Var) -> bool {
        self.last[var] == LastUse::Never
    }

    /// Whether a variable is read in a subtree.
    pub(crate) fn is_used_in(&self, var: Var, expr: ExprId) -> bool {
        let (start, end) = self.extents[expr];
        self.is_used(var, start, end)
    }

    /// Whether a variable is read after an expression was evaluated, in what remains of a subtree around it.
    pub(crate) fn is_used_between(&self, var: Var, after: ExprId, around: ExprId) -> bool {
        self.is_used(var, self.extents[after].1, self.extents[around].1)
    }

    /// Whether a variable is read after an expression was evaluated, wherever that is.
    pub(crate) fn is_used_after(&self, var: Var, expr: ExprId) -> bool {
        self.is_used(var, self.extents[expr].1, u32::MAX)
    }

    fn is_used(&self, var: Var, start: u32, end: u32) -> bool {
        let first = self.uses[var].partition_point(|&at| at < start);
        self.uses[var].get(first).is_some_and(|&at| at < end)
    }

    /// How many of the first bindings of an expression are computed before it, where the loop is entered that it is the
    /// body of: loads that don't change. Where there is no iteration they aren't computed at all.
    pub(crate) fn entry_count(&self, body: ExprId) -> usize {
        self.entry_counts.get(&body).copied().unwrap_or(0)
    }

    /// The variables that are read for the last time in this loop.
    pub(crate) fn dying_in(&self, repeat: ExprId) -> &[Var] {
        self.dying.get(&repeat).map_or(&[], Vec::as_slice)
    }
}

/// Whether the condition of a loop is tested before it and then at its end: it is small and free of loops, whose copies
/// could multiply.
pub(crate) fn is_copied(body: &Body, cond: ExprId) -> bool {
    let mut pending = vec![cond];
    let mut seen = 0;
    while let Some(expr) = pending.pop() {
        seen += 1;
        let node = &body.exprs[expr];
        let repeats = matches!(node.kind, ExprKind::Loop(_) | ExprKind::Collect(..) | ExprKind::Repeat(_));
        if seen > COPIED_CONDITION_MAX || repeats {
            return false;
        }
        node.for_each_child(|child| pending.push(child));
    }
    true
}

/// How many of the first bindings of a loop's body are loads that don't change in the loop. `bound` are the variables
/// that the loop itself binds; nothing of its condition is known in the body.
fn leading_loads(body: &Body, bound: &[Var], expr: ExprId) -> usize {
    let ExprKind::Block(bindings, _) = &body.exprs[expr].kind else { return 0 };
    let is_load = |binding: &&Binding| {
        let mut pending = vec![binding.value];
        while let Some(expr) = pending.pop() {
            match &body.exprs[expr].kind {
                ExprKind::Element(_, parts, _) => pending.extend(parts),
                // A loop that changes a builder carries it, and doesn't read it by the name that it had before.
                ExprKind::Builder(_, Step::Get, parts) => pending.extend(parts),
                &ExprKind::Length(_, array) => pending.push(array),
                ExprKind::Var(var) if !bound.contains(var) => {}
                ExprKind::Int(_) => {}
                _ => return false,
            }
        }
        let kind = &body.exprs[binding.value].kind;
        matches!(kind, ExprKind::Element(..) | ExprKind::Builder(_, Step::Get, _) | ExprKind::Length(..))
    };
    bindings.iter().take(ENTRY_MAX).take_while(is_load).count()
}

struct Walker<'w> {
    function: &'w Function,
    meter: &'w Meter,
    live: Liveness,
    /// How many loops are around a variable's binding.
    depths: Table<Var, usize>,
    /// The loops around the current place, the outermost first.
    loops: Vec<ExprId>,
    at: u32,
}

impl Walker<'_> {
    fn expr(&mut self, expr: ExprId) {
        if !self.meter.step(self.function.body.exprs[expr].origin.span) {
            return;
        }
        let start = self.at;
        self.at += 1;
        crate::stack::grown(|| self.expr_here(expr));
        self.live.extents[expr] = (start, self.at);
    }

    fn expr_here(&mut self, expr: ExprId) {
        let function = self.function;
        let node = &function.body.exprs[expr];
        match &node.kind {
            ExprKind::Var(var) => {
                self.live.uses[*var].push(self.at - 1);
                self.used(*var, expr);
            }
            ExprKind::Block(bindings, value) => {
                self.bindings(&bindings[self.live.entry_count(expr)..]);
                self.expr(*value);
            }
            ExprKind::Loop(repeat) => {
                self.expr(repeat.init);
                match repeat.iteration {
                    Iteration::Range(range) => {
                        self.expr(range.from);
                        self.expr(range.to);
                        self.entry(&[&repeat.vars[..], &[range.index]].concat(), repeat.body);
                    }
                    Iteration::While(cond) if is_copied(&function.body, cond) => {
                        self.entry(&repeat.vars, repeat.body);
                    }
                    Iteration::While(_) => {}
                }
                self.enter(expr);
                self.define(&repeat.vars);
                match repeat.iteration {
                    Iteration::While(cond) => self.expr(cond),
                    Iteration::Range(range) => self.define(&[range.index]),
                }
                self.expr(repeat.body);
                self.leave();
            }
            ExprKind::Collect(_, collect) => {
                self.expr(collect.range.from);
                self.expr(collect.range.to);
                collect.first.into_iter().for_each(|first| self.expr(first));
                self.entry(&[collect.range.index], collect.body);
                self.enter(expr);
                self.define(&[collect.range.index]);
                self.expr(collect.body);
                self.leave();
            }
            ExprKind::Join(join) => {
                self.expr(join.value);
                for labelled in &join.bodies {
                    self.define(&labelled.params);
                    self.expr(labelled.body);
                }
            }
            ExprKind::Repeat(repeat) => {
                self.expr(repeat.init);
                self.enter(expr);
                self.define(&repeat.params);
                self.expr(repeat.body);
                self.leave();
            }
            _ => node.for_each_child(|child| self.expr(child)),
        }
    }

    fn bindings(&mut self, bindings: &[Binding]) {
        for binding in bindings {
            self.expr(binding.value);
            self.define(&binding.vars);
        }
    }

    /// What is computed where a loop is entered.
    fn entry(&mut self, bound: &[Var], body: ExprId) {
        // What is to be as it was written is computed in each round.
        let count = if self.meter.as_written { 0 } else { leading_loads(&self.function.body, bound, body) };
        if let ExprKind::Block(bindings, _) = &self.function.body.exprs[body].kind
            && count > 0
        {
            self.bindings(&bindings[..count]);
            self.live.entry_counts.insert(body, count);
        }
    }

    fn define(&mut self, vars: &[Var]) {
        for &var in vars {
            self.depths[var] = self.loops.len();
        }
    }

    fn enter(&mut self, expr: ExprId) {
        self.loops.push(expr);
    }

    fn leave(&mut self) {
        self.loops.pop();
    }

    /// A variable from outside of a loop is read again in the loop's next iteration: of several loops, in the outermost
    /// one's.
    fn used(&mut self, var: Var, place: ExprId) {
        self.live.last[var] = match self.loops.get(self.depths[var]) {
            Some(&repeat) => LastUse::Loop(repeat),
            None => LastUse::At(place),
        };
    }
}
