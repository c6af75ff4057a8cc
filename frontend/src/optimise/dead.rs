//! Drops bindings that nobody reads and that do nothing but compute.

use super::{is_pure_node, take_bindings};
use crate::arena::Table;
use crate::core::{Binding, Body, ExprId, ExprKind, Function, Var};
use crate::limits::Meter;

/// Drops what a function computes in vain.
pub(super) fn drop_unused(function: &mut Function, meter: &Meter) {
    let mut uses = Table::filled(0u32, function.body.vars.len());
    // The places in `order` of the first and the last use of each variable.
    let mut places = Table::filled(Extent::NONE, function.body.vars.len());
    // Parents before children; a subtree stands together.
    let mut order = Vec::new();
    let mut pending = vec![function.root];
    while let Some(expr) = pending.pop() {
        let node = &function.body.exprs[expr];
        if !meter.step(node.origin.span) {
            return;
        }
        if let ExprKind::Var(var) = node.kind {
            uses[var] += 1;
            places[var].extend(Extent { first: order.len(), last: order.len() });
        }
        order.push(expr);
        node.for_each_child(|child| pending.push(child));
    }
    // Inner blocks first, each from its last binding on. What is dropped only computes, so that it makes no difference
    // for what is around it.
    let mut only_computes = Table::filled(false, function.body.exprs.len());
    // What is bound in an expression may be used after it, which is then needed, too: where, and the subtree's end.
    let mut is_free = Table::filled(false, function.body.exprs.len());
    // Whether nothing but what is bound in an expression is needed, and evaluated whenever the expression is.
    let mut only_binds = Table::filled(false, function.body.exprs.len());
    let mut needed = Table::filled(Extent::NONE, function.body.exprs.len());
    let mut ends = Table::filled(0, function.body.exprs.len());
    for (at, &expr) in order.iter().enumerate().rev() {
        if !meter.steps(1) {
            return;
        }
        let node = &function.body.exprs[expr];
        let (mut computes, mut within, mut end) =
            (only_computes_node(&function.body, &node.kind), Extent::NONE, at + 1);
        node.for_each_child(|child| {
            computes &= only_computes[child];
            within.extend(needed[child]);
            end = end.max(ends[child]);
        });
        if let ExprKind::Block(bindings, _) = &node.kind {
            bindings.iter().flat_map(|binding| &binding.vars).for_each(|&var| within.extend(places[var]));
        }
        (needed[expr], ends[expr]) = (within, end);
        only_computes[expr] = computes;
        is_free[expr] = computes && within.first >= at && within.last < end;
        only_binds[expr] = match &node.kind {
            ExprKind::Block(_, value) => only_binds[*value],
            ExprKind::And(_) | ExprKind::Or(_) | ExprKind::If(_) => false,
            kind => {
                let mut binds = only_computes_node(&function.body, kind);
                node.for_each_child(|child| binds &= only_binds[child]);
                binds
            }
        };
        let ExprKind::Block(bindings, value) = &node.kind else { continue };
        let is_unread = |binding: &Binding, uses: &Table<Var, u32>| binding.vars.iter().all(|&var| uses[var] == 0);
        let is_dropped = |value: ExprId| is_free[value] || only_binds[value];
        if !bindings.iter().any(|binding| is_dropped(binding.value) && is_unread(binding, &uses)) {
            continue;
        }
        let (mut pending, value) = (bindings.to_vec(), *value);
        let mut kept = Vec::with_capacity(pending.len());
        while let Some(binding) = pending.pop() {
            if !is_dropped(binding.value) || !is_unread(&binding, &uses) {
                kept.push(binding);
                continue;
            }
            if !is_free[binding.value] {
                take_bindings(&mut function.body, binding.value, &mut pending);
            }
            forget(&function.body, binding.value, &mut uses);
        }
        kept.reverse();
        function.body.exprs[expr].kind = ExprKind::Block(kept.into(), value);
    }
}

/// A range of places, both ends included.
#[derive(Clone, Copy, Debug)]
struct Extent {
    first: usize,
    last: usize,
}

impl Extent {
    /// Starts after everything and ends before it.
    const NONE: Extent = Extent { first: usize::MAX, last: 0 };

    fn extend(&mut self, other: Extent) {
        *self = Extent { first: self.first.min(other.first), last: self.last.max(other.last) };
    }
}

/// Whether evaluating a node can be told only by its value, if so can its children.
fn only_computes_node(body: &Body, kind: &ExprKind) -> bool {
    let makes =
        matches!(kind, ExprKind::Construct(..) | ExprKind::Closure(..) | ExprKind::Pack(..) | ExprKind::Payload(..));
    let makes = makes || matches!(kind, ExprKind::Detach(_));
    makes || is_pure_node(body, kind)
}

fn forget(body: &Body, root: ExprId, uses: &mut Table<Var, u32>) {
    let mut pending = vec![root];
    while let Some(expr) = pending.pop() {
        if let ExprKind::Var(var) = body.exprs[expr].kind {
            uses[var] -= 1;
        }
        body.exprs[expr].for_each_child(|child| pending.push(child));
    }
}
