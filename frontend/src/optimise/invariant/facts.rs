//! What loops, calls and what they are made of depend on.

use crate::arena::Table;
use crate::core::{ArrayType, Body, ExprId, ExprKind, Function, FunctionId, Iteration, Range, Var};
use crate::limits::Meter;

/// Deeper loops are not looked at.
pub(super) const DEPTH_MAX: u32 = 62;

/// The functions in whose runs something is shown to the host or done by it, as far as code can tell.
pub(in crate::optimise) fn audible(functions: &Table<FunctionId, Function>, meter: &Meter) -> Table<FunctionId, bool> {
    let mut audible = Table::filled(false, functions.len());
    let mut callers: Table<FunctionId, Vec<FunctionId>> = Table::filled(Vec::new(), functions.len());
    let mut pending = Vec::new();
    for (caller, function) in functions.iter() {
        for (_, node) in function.nodes(meter) {
            match &node.kind {
                ExprKind::Call(callee, _) | ExprKind::ParallelMap(callee, _) => callers[*callee].push(caller),
                ExprKind::Constant { function, .. } => callers[*function].push(caller),
                ExprKind::Derivative(derivative) => callers[derivative.function].push(caller),
                ExprKind::Fork(tasks) => tasks.iter().for_each(|task| callers[task.function].push(caller)),
                ExprKind::CallClosure(..) | ExprKind::CallImport(..) | ExprKind::Trace(_) => pending.push(caller),
                _ => {}
            }
        }
    }
    while let Some(function) = pending.pop() {
        if !std::mem::replace(&mut audible[function], true) {
            pending.append(&mut callers[function]);
        }
    }
    audible
}

/// Whether there may be something in a loop of a function that repeats or calls something.
pub(in crate::optimise) fn is_nested(function: &Function, meter: &Meter) -> bool {
    let (mut loops, mut calls) = (0, 0);
    for (_, node) in function.nodes(meter) {
        loops += usize::from(is_loop(&node.kind));
        calls += usize::from(matches!(node.kind, ExprKind::Call(..) | ExprKind::Derivative(_)));
        if loops > 1 || loops * calls > 0 {
            return true;
        }
    }
    false
}

fn is_loop(kind: &ExprKind) -> bool {
    matches!(kind, ExprKind::Loop(_) | ExprKind::Collect(..) | ExprKind::Repeat(_))
}

/// What is known of a function's expressions and variables.
pub(super) struct Facts {
    /// The loops that an expression's value depends on, by their depth: bit 0 is the outermost one.
    pub(super) depends: Table<ExprId, u64>,
    /// Whether an expression repeats something, or calls a function.
    pub(super) is_heavy: Table<ExprId, bool>,
    /// Whether it matters to others than who reads its value when and how often an expression is evaluated.
    pub(super) is_audible: Table<ExprId, bool>,
    /// How many loops are around where a variable is bound.
    pub(super) position: Table<Var, u32>,
    /// How an array that a variable holds is read, if nothing is done with it but to read its elements and its length.
    pub(super) read: Table<Var, Option<ArrayType>>,
    /// Whether a variable is read by what may be moved.
    pub(super) is_wanted: Table<Var, bool>,
    /// Whether anything in a loop may be moved.
    pub(super) any: bool,
}

impl Facts {
    /// Looks at a function; not at all of it if the compilation is stopped.
    pub(super) fn of(function: &Function, audible: &Table<FunctionId, bool>, meter: &Meter) -> Facts {
        let (exprs, vars) = (function.body.exprs.len(), function.body.vars.len());
        let facts = Facts {
            depends: Table::filled(0, exprs),
            is_heavy: Table::filled(false, exprs),
            is_audible: Table::filled(false, exprs),
            position: Table::filled(0, vars),
            read: Table::filled(None, vars),
            is_wanted: Table::filled(false, vars),
            any: false,
        };
        let mut walker = Walker {
            body: &function.body,
            audible,
            meter,
            facts,
            depth: 0,
            depths: Table::filled(0, exprs),
            depends: Table::filled(0, vars),
            values: Table::filled(None, vars),
            escapes: Table::filled(false, vars),
            heavy: Vec::new(),
        };
        walker.expr(function.root);
        walker.finish()
    }
}

struct Walker<'w> {
    body: &'w Body,
    audible: &'w Table<FunctionId, bool>,
    meter: &'w Meter,
    facts: Facts,
    /// How many loops are around the current place, and around each expression.
    depth: u32,
    depths: Table<ExprId, u32>,
    /// The loops that the value of a variable depends on.
    depends: Table<Var, u64>,
    /// What variables are bound to.
    values: Table<Var, Option<ExprId>>,
    /// The variables whose arrays are not only read.
    escapes: Table<Var, bool>,
    /// Expressions that repeat or call something and don't depend on the loop around them.
    heavy: Vec<ExprId>,
}

/// The bit of the loop that so many loops are around.
fn bit(depth: u32) -> u64 {
    1 << depth.min(u64::BITS - 1)
}

impl Walker<'_> {
    /// Walks an expression, and says what it depends on.
    fn expr(&mut self, expr: ExprId) -> u64 {
        if !self.meter.step(self.body.exprs[expr].origin.span) {
            return u64::MAX;
        }
        let depends = crate::stack::grown(|| self.expr_here(expr));
        let body = self.body;
        let kind = &body.exprs[expr].kind;
        let (mut is_heavy, mut is_audible) = match kind {
            _ if is_loop(kind) => (true, false),
            ExprKind::Call(callee, _) => (true, self.audible[*callee]),
            ExprKind::Derivative(derivative) => (true, self.audible[derivative.function]),
            ExprKind::Constant { function, .. } => (false, self.audible[*function]),
            ExprKind::Fork(_) | ExprKind::ParallelMap(..) => (true, true),
            ExprKind::CallClosure(..) | ExprKind::CallImport(..) | ExprKind::Trace(_) => (false, true),
            _ => (false, false),
        };
        body.exprs[expr].for_each_child(|child| {
            is_heavy |= self.facts.is_heavy[child];
            is_audible |= self.facts.is_audible[child];
        });
        self.facts.depends[expr] = depends;
        self.facts.is_heavy[expr] = is_heavy;
        self.facts.is_audible[expr] = is_audible;
        self.depths[expr] = self.depth;
        if is_heavy && !is_audible && self.is_invariant(expr) {
            self.heavy.push(expr);
        }
        depends
    }

    /// Whether there is a loop around an expression that it doesn't depend on.
    fn is_invariant(&self, expr: ExprId) -> bool {
        let depth = self.depths[expr];
        (1..=DEPTH_MAX).contains(&depth) && self.facts.depends[expr] & bit(depth - 1) == 0
    }

    fn expr_here(&mut self, expr: ExprId) -> u64 {
        let body = self.body;
        match &body.exprs[expr].kind {
            ExprKind::Var(var) => {
                self.escapes[*var] = true;
                self.depends[*var]
            }
            ExprKind::Block(bindings, value) => {
                let mut all = 0;
                for binding in bindings {
                    let depends = self.expr(binding.value);
                    self.define(&binding.vars, depends);
                    binding.vars.iter().for_each(|&var| self.values[var] = Some(binding.value));
                    all |= depends;
                }
                all | self.expr(*value)
            }
            ExprKind::Element(array, [object, index], _) => self.read(*array, *object) | self.expr(*index),
            ExprKind::Length(array, object) => self.read(*array, *object),
            ExprKind::Loop(repeat) => {
                let mut once = self.expr(repeat.init);
                if let Iteration::Range(range) = repeat.iteration {
                    once |= self.range(range);
                }
                once | self.repeated(&repeat.vars, |walker| {
                    let cond = match repeat.iteration {
                        Iteration::While(cond) => walker.expr(cond),
                        Iteration::Range(range) => walker.index(range),
                    };
                    cond | walker.expr(repeat.body)
                })
            }
            ExprKind::Collect(_, collect) => {
                let mut once = self.range(collect.range);
                once |= collect.first.map_or(0, |first| self.expr(first));
                once | self.repeated(&[], |walker| walker.index(collect.range) | walker.expr(collect.body))
            }
            ExprKind::Repeat(repeat) => {
                let init = self.expr(repeat.init);
                init | self.repeated(&repeat.params, |walker| walker.expr(repeat.body))
            }
            ExprKind::Join(join) => {
                let mut all = self.expr(join.value);
                for labelled in &join.bodies {
                    self.define(&labelled.params, all);
                    all |= self.expr(labelled.body);
                }
                all
            }
            _ => {
                let mut all = 0;
                body.exprs[expr].for_each_child(|child| all |= self.expr(child));
                all
            }
        }
    }

    /// Walks an array whose elements or length are read.
    fn read(&mut self, array: ArrayType, object: ExprId) -> u64 {
        let ExprKind::Var(var) = self.body.exprs[object].kind else { return self.expr(object) };
        self.facts.read[var] = Some(array);
        let escapes = self.escapes[var];
        let depends = self.expr(object);
        self.escapes[var] = escapes;
        depends
    }

    fn range(&mut self, range: Range) -> u64 {
        self.expr(range.from) | self.expr(range.to)
    }

    fn index(&mut self, range: Range) -> u64 {
        self.define(&[range.index], bit(self.depth - 1));
        0
    }

    /// Walks what is repeated, and says on what of that which is around it depends.
    fn repeated(&mut self, vars: &[Var], walk: impl FnOnce(&mut Self) -> u64) -> u64 {
        let own = bit(self.depth);
        self.depth += 1;
        self.define(vars, own);
        let depends = walk(self);
        self.depth -= 1;
        if self.depth < DEPTH_MAX { depends & !own } else { depends | own }
    }

    fn define(&mut self, vars: &[Var], depends: u64) {
        for &var in vars {
            self.facts.position[var] = self.depth;
            self.depends[var] = depends;
        }
    }

    /// Finds what those expressions read that may be moved, and what that reads.
    fn finish(mut self) -> Facts {
        self.facts.any = !self.heavy.is_empty();
        let mut visited = Table::filled(false, self.body.exprs.len());
        let mut pending: Vec<ExprId> = std::mem::take(&mut self.heavy);
        while let Some(expr) = pending.pop() {
            if std::mem::replace(&mut visited[expr], true) || !self.meter.step(self.body.exprs[expr].origin.span) {
                continue;
            }
            let node = &self.body.exprs[expr];
            if let ExprKind::Var(var) = node.kind
                && !std::mem::replace(&mut self.facts.is_wanted[var], true)
                && let Some(value) = self.values[var]
                && self.is_invariant(value)
            {
                pending.push(value);
            }
            node.for_each_child(|child| pending.push(child));
        }
        for (var, &escapes) in self.escapes.iter() {
            if escapes {
                self.facts.read[var] = None;
            }
        }
        self.facts
    }
}
