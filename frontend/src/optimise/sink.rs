//! What is computed before a call and read after it is computed after it (code sinking): in `x * x + 0.9 * f rest` the
//! square waits for what the call gives. The recorder cuts its segments at calls, so that an element of such a
//! recursion has one record and not two.
//!
//! What waits is arithmetic on reals, which can't trap, so that nobody can tell when it was done. It reads at most two
//! variables, which live on in its place.

use crate::arena::{Id, Table};
use crate::core::{Binding, Body, Expr, ExprId, ExprKind, Function, TypeLists, Var};
use crate::limits::Meter;
use crate::optimise::is_pure_node;
use dualvm_vm::module::ValueType;
use smallvec::SmallVec;

/// What has more nodes than this is computed where it stands.
const NODES_MAX: usize = 40;
/// How many variables it may read.
const VARIABLES_MAX: usize = 2;
/// What is read so deep in an expression stays before it.
const DEPTH_MAX: usize = 32;

/// Moves arithmetic of a function past its calls.
pub(super) fn sink(function: &mut Function, lists: &mut TypeLists, meter: &Meter) {
    let is_call = |node: &Expr| matches!(node.kind, ExprKind::Call(..) | ExprKind::CallClosure(..));
    let order = function.node_ids(meter);
    let body = &mut function.body;
    if !order.iter().any(|&expr| is_call(&body.exprs[expr])) || !meter.steps(order.len()) {
        return;
    }
    let mut sinker = Sinker {
        places: Table::filled(0, body.exprs.len()),
        has_moved: Table::filled(false, body.exprs.len()),
        parents: Table::filled(function.root, body.exprs.len()),
        has_call: Table::filled(false, body.exprs.len()),
        uses: Table::filled(SmallVec::new(), body.vars.len()),
        body,
        lists,
    };
    for (place, &expr) in order.iter().enumerate().rev() {
        let node = &sinker.body.exprs[expr];
        let mut found = is_call(node);
        node.for_each_child(|child| {
            found |= sinker.has_call[child];
            sinker.parents[child] = expr;
        });
        (sinker.has_call[expr], sinker.places[expr]) = (found, place);
        if let ExprKind::Var(var) = node.kind {
            sinker.uses[var].push(expr);
        }
    }
    for &expr in order.iter().filter(|_| meter.steps(1)) {
        sinker.bindings(expr);
    }
    // Inner operands first: what has a call in it is named as a whole.
    for &expr in order.iter().rev().filter(|_| meter.steps(1)) {
        sinker.operands(expr);
    }
}

struct Sinker<'s> {
    body: &'s mut Body,
    lists: &'s mut TypeLists,
    /// The place of each expression among all: parents before children, and of these the last one first. What has
    /// moved, and is read by what has moved, has the place that it is read from now.
    places: Table<ExprId, usize>,
    /// Whether a variable is read by what waits.
    has_moved: Table<ExprId, bool>,
    /// What each expression is a part of.
    parents: Table<ExprId, ExprId>,
    /// Whether there is a call in an expression.
    has_call: Table<ExprId, bool>,
    /// Where each variable is read.
    uses: Table<Var, SmallVec<[ExprId; 2]>>,
}

impl Sinker<'_> {
    /// Whether an expression may wait.
    fn may_wait(&self, root: ExprId) -> bool {
        self.may_wait_for(root, VARIABLES_MAX)
    }

    /// Whether an expression may wait if it may read so many variables.
    fn may_wait_for(&self, root: ExprId, variables: usize) -> bool {
        let node = &self.body.exprs[root];
        let is_arithmetic = matches!(node.kind, ExprKind::Scalar(..));
        if !is_arithmetic || self.lists.get(node.types) != [ValueType::Real] {
            return false;
        }
        let mut read: SmallVec<[Var; VARIABLES_MAX]> = SmallVec::new();
        for (n, (_, node)) in self.body.nodes_of(root).enumerate() {
            match node.kind {
                ExprKind::Var(var) if !read.contains(&var) => read.push(var),
                ExprKind::Var(_) | ExprKind::Real(_) | ExprKind::Int(_) => {}
                ExprKind::Scalar(..) if is_pure_node(self.body, &node.kind) => {}
                _ => return false,
            }
            if read.len() > variables || n >= NODES_MAX {
                return false;
            }
        }
        true
    }

    /// Moves bindings of a block that may wait for a call behind it to where they are read first.
    fn bindings(&mut self, block: ExprId) {
        let ExprKind::Block(bindings, value) = &self.body.exprs[block].kind else { return };
        if !self.has_call[block] {
            return;
        }
        let bindings = bindings.clone();
        let parts: Vec<ExprId> = bindings.iter().map(|binding| binding.value).chain([*value]).collect();
        // The part before which each binding comes; none: it has moved into a part.
        let mut before: Vec<Option<usize>> = (0..bindings.len()).map(Some).collect();
        let mut calls = vec![0; parts.len() + 1];
        for (at, &part) in parts.iter().enumerate() {
            calls[at + 1] = calls[at] + usize::from(self.has_call[part]);
        }
        for at in (0..bindings.len()).rev() {
            let &[var] = &*bindings[at].vars else { continue };
            let value = bindings[at].value;
            let Some(&first_use) = self.uses[var].iter().max_by_key(|&&read| self.places[read]) else { continue };
            let place = self.places[first_use];
            // What is read by what waits is one of the variables that live on already.
            let variables = if self.has_moved[first_use] { 1 } else { VARIABLES_MAX };
            // A variable may be read behind the block only.
            if calls[at + 1] == *calls.last().expect("there is a value")
                || place < self.places[block]
                || !self.may_wait_for(value, variables)
            {
                continue;
            }
            let first = parts.partition_point(|&part| self.places[part] > place);
            if self.uses[var].len() == 1 && self.has_call[parts[first]] && self.is_straight(parts[first], first_use) {
                // Its operands are shared with the binding's value, which nobody looks at any more.
                self.body.exprs[first_use] = self.body.exprs[value].clone();
                self.move_uses(value, first_use);
                before[at] = None;
            } else if calls[first] > calls[at + 1] {
                self.move_uses(value, parts[first]);
                before[at] = Some(first);
            }
        }
        if (0..bindings.len()).all(|at| before[at] == Some(at)) {
            return;
        }
        // What has moved to a binding comes from before it.
        let mut moved: Vec<Vec<Binding>> = vec![Vec::new(); parts.len()];
        for (binding, before) in bindings.into_iter().zip(before) {
            if let Some(before) = before {
                moved[before].push(binding);
            }
        }
        let value = parts[parts.len() - 1];
        self.body.exprs[block].kind = ExprKind::Block(moved.into_iter().flatten().collect(), value);
    }

    /// What an expression that waits reads is read in another place.
    fn move_uses(&mut self, value: ExprId, place: ExprId) {
        let mut moved = Vec::new();
        for (expr, node) in self.body.nodes_of(value) {
            if let ExprKind::Var(_) = node.kind {
                moved.push(expr);
            }
            node.for_each_child(|child| {
                if expr == value {
                    self.parents[child] = place;
                }
            });
        }
        for expr in moved {
            self.places[expr] = self.places[place];
            self.has_moved[expr] = true;
        }
    }

    /// Whether an expression is read once wherever the one around it is evaluated, if at all.
    fn is_straight(&self, around: ExprId, mut expr: ExprId) -> bool {
        for _ in 0..DEPTH_MAX {
            if expr == around {
                return true;
            }
            expr = self.parents[expr];
            let is_straight = matches!(
                self.body.exprs[expr].kind,
                ExprKind::Scalar(..)
                    | ExprKind::Compare(..)
                    | ExprKind::Values(_)
                    | ExprKind::Construct(..)
                    | ExprKind::Call(..)
                    | ExprKind::Block(..)
                    | ExprKind::If(_)
                    | ExprKind::Switch(_)
            );
            if !is_straight {
                return false;
            }
        }
        false
    }

    /// Whether an expression may wait, but for the calls in it.
    fn may_wait_in_part(&self, mut expr: ExprId) -> bool {
        while let ExprKind::Block(_, value) = self.body.exprs[expr].kind {
            expr = value;
        }
        self.may_wait(expr) || self.is_made_of_calls(expr)
    }

    /// Whether an expression is arithmetic on what calls give.
    fn is_made_of_calls(&self, expr: ExprId) -> bool {
        let kind = &self.body.exprs[expr].kind;
        // What was made here has no calls.
        let has_call = expr.index() < self.has_call.len() && self.has_call[expr];
        has_call && matches!(kind, ExprKind::Scalar(..)) && is_pure_node(self.body, kind)
    }

    /// What of an expression may wait. Calls in it, and what else may not, become bindings, in their order.
    fn without_calls(&mut self, mut expr: ExprId, bindings: &mut Vec<Binding>) -> ExprId {
        while let ExprKind::Block(inner, value) = &mut self.body.exprs[expr].kind {
            bindings.extend(std::mem::take(inner));
            expr = *value;
        }
        if self.is_made_of_calls(expr)
            && let ExprKind::Scalar(op, mut operands) = self.body.exprs[expr].kind.clone()
        {
            let parts = operands.iter_mut();
            crate::stack::grown(|| parts.for_each(|part| *part = self.without_calls(*part, bindings)));
            self.body.exprs[expr].kind = ExprKind::Scalar(op, operands);
        }
        if self.may_wait(expr) { expr } else { self.body.named(expr, self.lists, bindings) }
    }

    /// Lets operands wait for the calls in those after them.
    fn operands(&mut self, expr: ExprId) {
        if !self.has_call[expr] {
            return;
        }
        let Expr { kind, types, origin } = &self.body.exprs[expr];
        let (mut kind, types, origin) = (kind.clone(), *types, *origin);
        let operands: &mut [ExprId] = match &mut kind {
            ExprKind::Scalar(_, operands)
            | ExprKind::Values(operands)
            | ExprKind::Construct(_, operands)
            | ExprKind::Call(_, operands)
            | ExprKind::Jump(_, operands) => operands,
            ExprKind::Compare(_, operands) => operands,
            _ => return,
        };
        let Some(last) = operands.iter().rposition(|&operand| self.has_call[operand]) else { return };
        let (until, _) = operands.split_at_mut(last + 1);
        if !until[..last].iter().any(|&operand| self.may_wait_in_part(operand)) {
            return;
        }
        let mut bindings = Vec::new();
        for operand in until {
            *operand = self.without_calls(*operand, &mut bindings);
        }
        let value = self.body.exprs.push(Expr { kind, types, origin });
        self.body.exprs[expr].kind = ExprKind::Block(bindings.into(), value);
    }
}
