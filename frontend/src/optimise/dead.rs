//! Drops bindings that nobody reads and that do nothing but compute.

use super::is_pure_node;
use crate::arena::Table;
use crate::core::{Body, ExprId, ExprKind, Function, Var};

/// Drops what a function computes in vain.
pub(super) fn drop_unused(function: &mut Function) {
    let mut uses = Table::filled(0u32, function.body.vars.len());
    let mut blocks = Vec::new();
    let mut pending = vec![function.root];
    while let Some(expr) = pending.pop() {
        let node = &function.body.exprs[expr];
        match node.kind {
            ExprKind::Var(var) => uses[var] += 1,
            ExprKind::Block(..) => blocks.push(expr),
            _ => {}
        }
        node.for_each_child(|child| pending.push(child));
    }
    // A block comes after those around it: inner ones first, each from its last binding on.
    for &block in blocks.iter().rev() {
        let ExprKind::Block(bindings, value) = &function.body.exprs[block].kind else { continue };
        let (bindings, value) = (bindings.to_vec(), *value);
        let before = bindings.len();
        let mut kept = Vec::with_capacity(before);
        for binding in bindings.into_iter().rev() {
            let is_unused = binding.vars.iter().all(|&var| uses[var] == 0);
            if is_unused && only_computes(&function.body, binding.value) {
                forget(&function.body, binding.value, &mut uses);
            } else {
                kept.push(binding);
            }
        }
        if kept.len() < before {
            kept.reverse();
            function.body.exprs[block].kind = ExprKind::Block(kept.into(), value);
        }
    }
}

/// Whether evaluating an expression can be told only by its value.
fn only_computes(body: &Body, root: ExprId) -> bool {
    let mut pending = vec![root];
    while let Some(expr) = pending.pop() {
        let kind = &body.exprs[expr].kind;
        let makes = matches!(
            kind,
            ExprKind::Construct(..) | ExprKind::Closure(..) | ExprKind::Pack(..) | ExprKind::Payload(..)
        );
        if !makes && !is_pure_node(kind) {
            return false;
        }
        body.exprs[expr].for_each_child(|child| pending.push(child));
    }
    true
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
