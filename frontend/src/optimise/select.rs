//! If-conversion in loops: where both branches are cheap and pure, both are computed and one is selected, so that the
//! loop's body stays one segment.

use super::{is_number, pure_cost};
use crate::core::{Atom, Binding, Body, Expr, ExprId, ExprKind, Function, Origin, TypeLists};
use crate::limits::Meter;
use crate::list::List;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;

/// The condition and both branches may cost this much together.
const COST_MAX: u32 = 12;

/// Converts the cheap branches in a function's loops.
pub(super) fn select(function: &mut Function, lists: &mut TypeLists, meter: &Meter) {
    // Children after parents, with whether they are in a loop.
    let mut order: Vec<ExprId> = Vec::new();
    let mut pending = vec![(function.root, false)];
    while let Some((expr, in_loop)) = pending.pop() {
        let node = &function.body.exprs[expr];
        if !meter.step(node.origin.span) {
            return;
        }
        if in_loop && matches!(node.kind, ExprKind::If(_)) {
            order.push(expr);
        }
        let inside = in_loop || matches!(node.kind, ExprKind::Loop(_) | ExprKind::Repeat(_) | ExprKind::Collect(..));
        node.for_each_child(|child| pending.push((child, inside)));
    }
    for &expr in order.iter().rev() {
        if !meter.steps(1) {
            return;
        }
        convert(&mut function.body, expr, lists);
    }
}

fn convert(body: &mut Body, expr: ExprId, lists: &mut TypeLists) {
    let Expr { kind: ExprKind::If([cond, then, other]), types, origin } = body.exprs[expr].clone() else { return };
    let types = lists.get(types).to_vec();
    let costs = [cond, then, other].map(|part| pure_cost(body, part, COST_MAX));
    let [Some(a), Some(b), Some(c)] = costs else { return };
    if a + b + c > COST_MAX || !types.iter().all(|&ty| is_number(ty)) {
        return;
    }
    let (mut first, mut second, mut bindings) = (Vec::new(), Vec::new(), Vec::new());
    if !flatten(body, then, &mut Vec::new(), &mut first) || !flatten(body, other, &mut Vec::new(), &mut second) {
        return;
    }
    (first, second) = (Vec::new(), Vec::new());
    number(body, cond, lists);
    let mut atoms = Vec::new();
    body.name_values(cond, lists, &mut bindings, &mut atoms);
    flatten(body, then, &mut bindings, &mut first);
    flatten(body, other, &mut bindings, &mut second);
    let mut selected = Vec::with_capacity(types.len());
    for ((&ty, then), other) in types.iter().zip(first).zip(second) {
        if let (ExprKind::Var(a), ExprKind::Var(b)) = (&body.exprs[then].kind, &body.exprs[other].kind)
            && a == b
        {
            selected.push(then);
            continue;
        }
        for part in [then, other] {
            number(body, part, lists);
        }
        let cond = body.atom(atoms[0], origin, lists);
        let op = if ty == ValueType::Real { Op::Select } else { Op::ISelect };
        selected.push(make(body, ExprKind::Scalar(op, List::from([cond, then, other])), &[ty], origin, lists));
    }
    let value = match selected[..] {
        [single] => single,
        _ => make(body, ExprKind::Values(selected.into()), &types, origin, lists),
    };
    body.exprs[expr].kind = match bindings.is_empty() {
        true => body.exprs[value].kind.clone(),
        false => ExprKind::Block(bindings.into(), value),
    };
}

fn make(body: &mut Body, kind: ExprKind, types: &[ValueType], origin: Origin, lists: &mut TypeLists) -> ExprId {
    body.exprs.push(Expr { kind, types: lists.intern(types), origin })
}

/// The expressions of a branch's values, one each, after its bindings; `false` if they can't be told apart.
fn flatten(body: &Body, expr: ExprId, bindings: &mut Vec<Binding>, flat: &mut Vec<ExprId>) -> bool {
    match &body.exprs[expr].kind {
        ExprKind::Values(parts) => {
            crate::stack::grown(|| parts.iter().all(|&part| flatten(body, part, bindings, flat)))
        }
        ExprKind::Block(inner, value) => {
            bindings.extend(inner.iter().cloned());
            crate::stack::grown(|| flatten(body, *value, bindings, flat))
        }
        // A branch that was not converted itself.
        ExprKind::If(_) => false,
        _ => {
            flat.push(expr);
            true
        }
    }
}

/// Turns logic, which would be branches, into arithmetic on 0 and 1. Its operands are pure.
fn number(body: &mut Body, expr: ExprId, lists: &mut TypeLists) {
    let origin = body.exprs[expr].origin;
    match body.exprs[expr].kind.clone() {
        ExprKind::And(pair) | ExprKind::Or(pair) => {
            let op = if matches!(body.exprs[expr].kind, ExprKind::And(_)) { Op::IAnd } else { Op::IOr };
            pair.into_iter().for_each(|part| number(body, part, lists));
            body.exprs[expr].kind = ExprKind::Scalar(op, pair.into());
        }
        ExprKind::Not(operand) => {
            number(body, operand, lists);
            let one = body.atom(Atom::Int(1), origin, lists);
            body.exprs[expr].kind = ExprKind::Scalar(Op::IXor, List::from([operand, one]));
        }
        _ => {}
    }
}
