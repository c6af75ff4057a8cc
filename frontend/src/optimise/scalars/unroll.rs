//! Loops of a few rounds, written out.

use super::super::copies;
use super::choose::Unrolled;
use crate::core::{Atom, Binding, Expr, ExprId, ExprKind, Function, Iteration, Loop, TypeLists, Var};
use crate::hash::HashMap;
use crate::limits::{Count, Meter};
use crate::list::List;
use dualvm_vm::module::ValueType;

/// Writes out a function's loops, inner ones first, as far as there is room for so many nodes; whether any was.
pub(super) fn unroll(
    function: &mut Function,
    lists: &mut TypeLists,
    loops: &[Unrolled],
    left: &mut usize,
    meter: &Meter,
) -> bool {
    let mut any = false;
    for unrolled in loops.iter().rev() {
        let body = match &function.body.exprs[unrolled.expr].kind {
            ExprKind::Loop(repeat) => repeat.body,
            ExprKind::Collect(_, collect) => collect.body,
            _ => continue,
        };
        // In the order of evaluation.
        let mut nodes: Vec<ExprId> = function.body.nodes_of(body).map(|(expr, _)| expr).collect();
        nodes.reverse();
        let grown = nodes.len() * unrolled.rounds as usize;
        if grown > *left || !meter.steps(nodes.len()) || !meter.nodes(Count::Code, grown) {
            continue;
        }
        *left -= grown;
        any = true;
        write_out(function, lists, unrolled, &nodes);
    }
    any
}

fn write_out(function: &mut Function, lists: &mut TypeLists, unrolled: &Unrolled, nodes: &[ExprId]) {
    let body = &mut function.body;
    let indices = (unrolled.from..).take(unrolled.rounds as usize);
    let Expr { kind, types, origin } = body.exprs[unrolled.expr].clone();
    match kind {
        ExprKind::Collect(array, collect) => {
            let element = |at| {
                let atoms = HashMap::from_iter([(collect.range.index, Atom::Int(at))]);
                *copies::copy(body, nodes, &atoms).last().expect("an expression has nodes")
            };
            let elements: Vec<ExprId> = indices.map(element).collect();
            body.exprs[unrolled.expr].kind = ExprKind::Pack(array, elements.into());
        }
        ExprKind::Loop(repeat) => {
            let Loop { vars, init, iteration, .. } = *repeat;
            let Iteration::Range(range) = iteration else { return };
            let carried: Vec<ValueType> = vars.iter().map(|&var| body.vars[var]).collect();
            let mut bindings = Vec::with_capacity(1 + unrolled.rounds as usize);
            let mut round = |body: &mut crate::core::Body, value| {
                let names: List<Var> = carried.iter().map(|&ty| body.vars.push(ty)).collect();
                bindings.push(Binding { vars: names.clone(), value });
                names
            };
            let mut last = round(body, init);
            for at in indices {
                let mut atoms: HashMap<Var, Atom> =
                    vars.iter().copied().zip(last.iter().map(|&var| Atom::Var(var))).collect();
                atoms.insert(range.index, Atom::Int(at));
                let value = *copies::copy(body, nodes, &atoms).last().expect("an expression has nodes");
                last = round(body, value);
            }
            let values: List<ExprId> = last.iter().map(|&var| body.atom(Atom::Var(var), origin, lists)).collect();
            let value = match values[..] {
                [only] => only,
                _ => body.exprs.push(Expr { kind: ExprKind::Values(values), types, origin }),
            };
            body.exprs[unrolled.expr].kind = ExprKind::Block(bindings.into(), value);
        }
        _ => unreachable!("only loops are written out"),
    }
}
