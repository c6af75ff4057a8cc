//! Self tail calls become repetitions: a function that calls itself last is a loop, which can be inlined like any other
//! code. Parameters that every such call hands on unchanged stay outside of the loop.

use crate::core::{Atom, Expr, ExprId, ExprKind, Function, Repeat, TypeLists, Var};

/// Turns the self tail calls of a function into jumps, if it has any. Returns how many there were.
pub(crate) fn repeat_tail_calls(function: &mut Function, lists: &mut TypeLists) -> u32 {
    let calls = self_tail_calls(function);
    if calls.is_empty() {
        return 0;
    }
    let count = u32::try_from(calls.len()).expect("a function has far fewer nodes");
    // Without knowing which argument is whose, nothing is handed on as it is.
    let mut changes = vec![false; function.params.len()];
    let mut flat: Vec<Option<Vec<ExprId>>> = Vec::with_capacity(calls.len());
    for &call in &calls {
        let ExprKind::Call(_, args) = &function.body.exprs[call].kind else { unreachable!("found as a call") };
        let args = flat_args(function, args);
        match &args {
            Some(args) => {
                for ((changes, &param), &arg) in changes.iter_mut().zip(&function.params).zip(args) {
                    *changes |= !matches!(function.body.exprs[arg].kind, ExprKind::Var(var) if var == param);
                }
            }
            None => changes.fill(true),
        }
        flat.push(args);
    }
    for (&call, flat) in calls.iter().zip(flat) {
        let ExprKind::Call(_, args) = &function.body.exprs[call].kind else { unreachable!("found as a call") };
        let kept: Box<[ExprId]> = match flat {
            Some(args) => args.into_iter().zip(&changes).filter(|(_, changes)| **changes).map(|(arg, _)| arg).collect(),
            None => args.clone(),
        };
        // The label is the function's first one to come.
        let label = crate::arena::Id::from_index(function.body.labels.len());
        function.body.exprs[call].kind = ExprKind::Jump(label, kept);
    }
    let label = function.body.labels.push(());
    let span = function.body.exprs[function.root].span;
    let mut params: Vec<Var> = Vec::new();
    let mut init: Vec<ExprId> = Vec::new();
    for (at, _) in changes.iter().enumerate().filter(|(_, changes)| **changes) {
        let inner = function.params[at];
        let outer = function.body.vars.push(function.body.vars[inner]);
        function.params[at] = outer;
        params.push(inner);
        init.push(function.body.atom(Atom::Var(outer), span, lists));
    }
    let types: Vec<_> = params.iter().map(|&var| function.body.vars[var]).collect();
    let init = Expr { kind: ExprKind::Values(init.into()), types: lists.intern(&types), span };
    let init = function.body.exprs.push(init);
    let repeat = Repeat { label, params: params.into(), init, body: function.root };
    let types = function.results;
    function.root = function.body.exprs.push(Expr { kind: ExprKind::Repeat(Box::new(repeat)), types, span });
    count
}

/// The calls of a function to itself whose values are its own.
fn self_tail_calls(function: &Function) -> Vec<ExprId> {
    let mut found = Vec::new();
    let mut pending = vec![function.root];
    while let Some(expr) = pending.pop() {
        match &function.body.exprs[expr].kind {
            ExprKind::Call(callee, _) if *callee == function.id => found.push(expr),
            ExprKind::Block(_, value) => pending.push(*value),
            ExprKind::If([_, then, other]) => pending.extend([*then, *other]),
            ExprKind::Switch(switch) => pending.extend(switch.arms.iter().map(|arm| arm.1).chain(switch.default)),
            ExprKind::Join(join) => pending.extend(join.parts()),
            ExprKind::Repeat(repeat) => pending.push(repeat.body),
            _ => {}
        }
    }
    found
}

/// One argument expression for each parameter, if they can be told apart.
fn flat_args(function: &Function, args: &[ExprId]) -> Option<Vec<ExprId>> {
    let mut flat = Vec::new();
    let mut pending: Vec<ExprId> = args.iter().rev().copied().collect();
    while let Some(arg) = pending.pop() {
        match &function.body.exprs[arg].kind {
            ExprKind::Values(parts) => pending.extend(parts.iter().rev()),
            _ => flat.push(arg),
        }
    }
    (flat.len() == function.params.len()).then_some(flat)
}
