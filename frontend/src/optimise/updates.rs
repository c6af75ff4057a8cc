//! Updates one after the other, of which each changes what the one before gives: `{ a with [0] = x, [1] = y }`. Where
//! nothing else reads what is between them they become one expression, for which one copy is made with all changes.

use super::pure_cost;
use crate::core::{Body, ExprId, ExprKind, Function, Var};
use crate::hash::HashMap;
use crate::limits::Meter;

/// What is computed between two updates, and for the second one, costs no more than this.
const COST_MAX: u32 = 100;

/// Puts updates that are left into those after them.
pub(super) fn chain(function: &mut Function, meter: &Meter) {
    let is_update = |kind: &ExprKind| matches!(kind, ExprKind::Replace(..));
    let (mut updates, mut blocks) = (0, Vec::new());
    let mut uses: HashMap<Var, Option<ExprId>> = HashMap::default();
    for (expr, node) in function.nodes(meter) {
        match &node.kind {
            // The only use, or none of several.
            &ExprKind::Var(var) => _ = uses.entry(var).and_modify(|only| *only = None).or_insert(Some(expr)),
            ExprKind::Block(..) => blocks.push(expr),
            kind => updates += usize::from(is_update(kind)),
        }
    }
    if updates < 2 || !meter.go_on() {
        return;
    }
    let body = &mut function.body;
    for block in blocks {
        let ExprKind::Block(bindings, value) = &body.exprs[block].kind else { continue };
        let (mut bindings, value) = (bindings.to_vec(), *value);
        let before = bindings.len();
        let mut at = 0;
        while at < bindings.len() {
            let parts = || bindings[at + 1..].iter().map(|binding| binding.value).chain([value]);
            let only = match *bindings[at].vars {
                [var] if is_update(&body.exprs[bindings[at].value].kind) => uses.get(&var).copied().flatten(),
                _ => None,
            };
            match only.filter(|&place| is_source_of_next(body, place, parts(), meter)) {
                Some(place) => {
                    body.exprs[place] = body.exprs[bindings[at].value].clone();
                    bindings.remove(at);
                }
                None => at += 1,
            }
        }
        if bindings.len() < before {
            body.exprs[block].kind = ExprKind::Block(bindings.into(), value);
        }
    }
}

/// Whether the first of some expressions that does more than to compute is an update of what a place reads, and only
/// computes what it puts there. Then nobody can tell whether what is read is made before all of them or there.
fn is_source_of_next(body: &Body, place: ExprId, parts: impl Iterator<Item = ExprId>, meter: &Meter) -> bool {
    let is_pure = |expr: ExprId| meter.step(body.exprs[expr].origin.span) && pure_cost(body, expr, COST_MAX).is_some();
    for part in parts {
        match body.exprs[part].kind {
            ExprKind::Replace(_, [source, index, element]) if source == place => {
                return is_pure(index) && is_pure(element);
            }
            _ if is_pure(part) => {}
            _ => return false,
        }
    }
    false
}
