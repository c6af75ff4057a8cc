//! Loop-invariant code motion: pure expressions whose variables are all bound outside of a loop are computed before it.

use super::{CONSTANT_COST, is_pure_node, scalar_cost};
use crate::arena::Table;
use crate::core::{Binding, Body, Expr, ExprId, ExprKind, Function, Iteration, TypeLists, Var};
use crate::limits::Meter;
use crate::list::List;

/// Moves invariant expressions out of a function's loops.
pub(super) fn hoist(function: &mut Function, lists: &mut TypeLists, meter: &Meter) {
    let levels = Table::filled(0, function.body.vars.len());
    let mut hoister = Hoister { body: &mut function.body, lists, meter, levels, before: Vec::new(), defined: 0 };
    hoister.expr(function.root);
}

struct Hoister<'h> {
    body: &'h mut Body,
    lists: &'h mut TypeLists,
    meter: &'h Meter,
    /// How many loops are around a variable's binding.
    levels: Table<Var, usize>,
    /// What is computed before each of the loops around.
    before: Vec<Vec<Binding>>,
    /// How many variables were found to be bound so far that stay where they are.
    defined: usize,
}

/// What is known of an expression: the loops that it is inside of by its variables, and whether it may be moved.
#[derive(Clone, Copy)]
struct Found {
    level: usize,
    pure: bool,
    cost: u32,
}

impl Hoister<'_> {
    /// Walks an expression; once the compilation is stopped, nothing of it moves.
    fn expr(&mut self, expr: ExprId) -> Found {
        if !self.meter.step(self.body.exprs[expr].origin.span) {
            return Found { level: self.before.len(), pure: false, cost: 0 };
        }
        crate::stack::grown(|| self.expr_here(expr))
    }

    /// Walks an expression. A child that can move further out than the node itself is moved there.
    fn expr_here(&mut self, expr: ExprId) -> Found {
        let depth = self.before.len();
        let kind = self.body.exprs[expr].kind.clone();
        match &kind {
            ExprKind::Var(var) => return Found { level: self.levels[*var], pure: true, cost: 0 },
            ExprKind::Real(_) | ExprKind::Int(_) => return Found { level: 0, pure: true, cost: 0 },
            ExprKind::Block(bindings, value) => {
                self.block(expr, bindings, *value);
                return Found { level: depth, pure: false, cost: 0 };
            }
            ExprKind::Loop(_) | ExprKind::Collect(..) | ExprKind::Repeat(_) => {
                self.repeat(expr, kind);
                return Found { level: depth, pure: false, cost: 0 };
            }
            ExprKind::Join(join) => {
                self.visit(join.value);
                for labelled in &join.bodies {
                    self.define(&labelled.params);
                    self.visit(labelled.body);
                }
                return Found { level: depth, pure: false, cost: 0 };
            }
            _ => {}
        }
        let mut children = Vec::new();
        self.body.exprs[expr].for_each_child(|child| children.push(child));
        let found: Vec<Found> = children.iter().map(|&child| self.expr(child)).collect();
        let is_single = self.lists.get(self.body.exprs[expr].types).len() == 1;
        let is_whole = is_single || matches!(kind, ExprKind::Constant { .. });
        // Logic and branches stay where control flow is.
        let is_control = matches!(kind, ExprKind::And(_) | ExprKind::Or(_) | ExprKind::If(_) | ExprKind::Not(_));
        let pure = is_whole && !is_control && is_pure_node(self.body, &kind) && found.iter().all(|found| found.pure);
        let level = found.iter().map(|found| found.level).max().unwrap_or(0);
        let own = match kind {
            ExprKind::Scalar(op, _) => scalar_cost(op),
            ExprKind::Compare(..) | ExprKind::Length(..) | ExprKind::Payload(..) => 1,
            ExprKind::Constant { .. } => CONSTANT_COST,
            _ => 0,
        };
        let whole = Found { level, pure, cost: own + found.iter().map(|found| found.cost).sum::<u32>() };
        if !pure || level == depth {
            for (child, found) in children.into_iter().zip(found) {
                self.move_out(child, found);
            }
        }
        whole
    }

    /// Walks an expression that stays where it is, and moves it out if it can.
    fn visit(&mut self, expr: ExprId) {
        let found = self.expr(expr);
        self.move_out(expr, found);
    }

    /// Computes an expression before the outermost loop in which it doesn't change.
    fn move_out(&mut self, expr: ExprId, found: Found) {
        let is_movable = found.pure && found.cost > 0 && found.level < self.before.len();
        if !is_movable || self.lists.get(self.body.exprs[expr].types).len() != 1 {
            return;
        }
        let node = self.body.exprs[expr].clone();
        let var = self.body.vars.push(self.lists.get(node.types)[0]);
        self.levels.push(found.level);
        let value = self.body.exprs.push(node);
        self.before[found.level].push(Binding { vars: List::from([var]), value });
        self.body.exprs[expr].kind = ExprKind::Var(var);
    }

    fn define(&mut self, vars: &[Var]) {
        let depth = self.before.len();
        vars.iter().for_each(|&var| self.levels[var] = depth);
        self.defined += vars.len();
    }

    /// Bindings that don't change move as they are.
    fn block(&mut self, expr: ExprId, bindings: &[Binding], value: ExprId) {
        let depth = self.before.len();
        let mut kept = Vec::with_capacity(bindings.len());
        for binding in bindings {
            let found = self.expr(binding.value);
            if found.pure && found.level < depth {
                binding.vars.iter().for_each(|&var| self.levels[var] = found.level);
                self.before[found.level].push(binding.clone());
            } else {
                self.define(&binding.vars);
                kept.push(binding.clone());
            }
        }
        self.visit(value);
        self.body.exprs[expr].kind = ExprKind::Block(kept.into(), value);
    }

    fn repeat(&mut self, expr: ExprId, mut kind: ExprKind) {
        let defined = self.defined;
        evaluated_once(&mut kind).into_iter().for_each(|part| self.visit(*part));
        let once_binds = self.defined > defined;
        match &kind {
            ExprKind::Loop(repeat) => {
                self.before.push(Vec::new());
                self.define(&repeat.vars);
                match repeat.iteration {
                    Iteration::While(cond) => self.visit(cond),
                    Iteration::Range(range) => self.define(&[range.index]),
                }
                self.visit(repeat.body);
            }
            ExprKind::Collect(_, collect) => {
                collect.first.into_iter().for_each(|first| self.visit(first));
                self.before.push(Vec::new());
                self.define(&[collect.range.index]);
                self.visit(collect.body);
            }
            ExprKind::Repeat(repeat) => {
                self.before.push(Vec::new());
                self.define(&repeat.params);
                self.visit(repeat.body);
            }
            _ => unreachable!("only loops repeat"),
        }
        let before = self.before.pop().expect("the loop was entered");
        if before.is_empty() {
            return;
        }
        let Expr { types, origin, .. } = self.body.exprs[expr];
        let mut bindings = Vec::new();
        if once_binds {
            // What has left the loop may read what is bound there.
            evaluated_once(&mut kind).into_iter().for_each(|part| *part = self.named(*part, &mut bindings));
        }
        bindings.extend(before);
        let repeat = self.body.exprs.push(Expr { kind, types, origin });
        self.body.exprs[expr].kind = ExprKind::Block(bindings.into(), repeat);
    }

    /// An expression of the variables that an expression's values are bound to, and of those that are atoms.
    fn named(&mut self, part: ExprId, bindings: &mut Vec<Binding>) -> ExprId {
        let named = self.body.named(part, self.lists, bindings);
        while self.levels.len() < self.body.vars.len() {
            self.levels.push(self.before.len());
        }
        named
    }
}

/// The parts of a loop that are evaluated once, before the first iteration, in their order.
fn evaluated_once(kind: &mut ExprKind) -> Vec<&mut ExprId> {
    match kind {
        ExprKind::Loop(repeat) => match &mut repeat.iteration {
            Iteration::While(_) => vec![&mut repeat.init],
            Iteration::Range(range) => vec![&mut repeat.init, &mut range.from, &mut range.to],
        },
        ExprKind::Collect(_, collect) => vec![&mut collect.range.from, &mut collect.range.to],
        ExprKind::Repeat(repeat) => vec![&mut repeat.init],
        _ => unreachable!("only loops repeat"),
    }
}
