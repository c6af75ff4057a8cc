//! Self tail calls become repetitions: a function that calls itself last is a loop, which can be inlined like any other
//! code. Parameters that every such call hands on unchanged stay outside of the loop.

use crate::core::{Atom, Cell, Expr, ExprId, ExprKind, Extend, Function, Label, Repeat, TypeLists, Var};
use crate::list::List;

/// A call of a function to itself that becomes a jump.
pub(crate) struct SelfCall {
    /// The call.
    pub(crate) call: ExprId,
    /// What its value is a part of, where that is the function's value: objects around the call; none in a tail call.
    pub(crate) cells: Vec<Cell>,
    /// What the function's value is there: the outermost object, or the call.
    pub(crate) value: ExprId,
}

impl SelfCall {
    /// A tail call.
    pub(crate) fn last(call: ExprId) -> Self {
        SelfCall { call, cells: Vec::new(), value: call }
    }
}

/// Turns the self tail calls of a function into jumps, if it has any. Returns how many there were.
pub(crate) fn repeat_tail_calls(function: &mut Function, lists: &mut TypeLists) -> u32 {
    let calls = results(function).into_iter().filter(|result| is_self_call(function, result.value));
    let calls: Vec<SelfCall> = calls.map(|result| SelfCall::last(result.value)).collect();
    if calls.is_empty() {
        return 0;
    }
    repeat_calls(function, calls, lists)
}

/// Turns calls of a function to itself into jumps, and returns how many there were.
pub(crate) fn repeat_calls(function: &mut Function, calls: Vec<SelfCall>, lists: &mut TypeLists) -> u32 {
    let count = u32::try_from(calls.len()).expect("a function has far fewer nodes");
    let builds = calls.iter().any(|call| !call.cells.is_empty());
    // Without knowing which argument is whose, nothing is handed on as it is.
    let mut changes = vec![false; function.params.len()];
    let mut flat: Vec<Option<Vec<ExprId>>> = Vec::with_capacity(calls.len());
    for call in &calls {
        let args = flat_args(function, call.call);
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
    // The label is the function's first one to come.
    let label = function.body.labels.push(());
    for (SelfCall { call, cells, value }, flat) in calls.into_iter().zip(flat) {
        let ExprKind::Call(_, args) = &function.body.exprs[call].kind else { unreachable!("found as a call") };
        let args: List<ExprId> = match flat {
            Some(args) => args.into_iter().zip(&changes).filter(|(_, changes)| **changes).map(|(arg, _)| arg).collect(),
            None => args.clone(),
        };
        function.body.exprs[value].kind = match cells.is_empty() {
            true => ExprKind::Jump(label, args),
            false => ExprKind::Extend(Box::new(Extend { label, cells: cells.into(), args })),
        };
    }
    wrap(function, label, &changes, builds, lists);
    count
}

/// Makes a function's body that of a repetition, of the parameters that change.
fn wrap(function: &mut Function, label: Label, changes: &[bool], builds: bool, lists: &mut TypeLists) {
    let origin = function.body.exprs[function.root].origin;
    let mut params: Vec<Var> = Vec::new();
    let mut init: Vec<ExprId> = Vec::new();
    for (at, _) in changes.iter().enumerate().filter(|(_, changes)| **changes) {
        let inner = function.params[at];
        let outer = function.body.vars.push(function.body.vars[inner]);
        function.params[at] = outer;
        params.push(inner);
        init.push(function.body.atom(Atom::Var(outer), origin, lists));
    }
    let types: Vec<_> = params.iter().map(|&var| function.body.vars[var]).collect();
    let init = Expr { kind: ExprKind::Values(init.into()), types: lists.intern(&types), origin };
    let init = function.body.exprs.push(init);
    let repeat = Repeat { label, params: params.into(), init, body: function.root, builds };
    let types = function.results;
    function.root = function.body.exprs.push(Expr { kind: ExprKind::Repeat(Box::new(repeat)), types, origin });
}

/// Where a function's value comes from.
#[derive(Clone, Copy)]
pub(crate) struct ResultPlace {
    /// The value.
    pub(crate) value: ExprId,
    /// The block that it is the value of, if it is one's.
    pub(crate) block: Option<ExprId>,
}

/// Where a function's value comes from, through branches and labels: each of them is evaluated last, or stops. What is
/// built there already is left as it is.
pub(crate) fn results(function: &Function) -> Vec<ResultPlace> {
    let mut found = Vec::new();
    let other = |value: ExprId| ResultPlace { value, block: None };
    let mut pending = vec![other(function.root)];
    while let Some(place) = pending.pop() {
        match &function.body.exprs[place.value].kind {
            ExprKind::Block(_, value) => pending.push(ResultPlace { value: *value, block: Some(place.value) }),
            ExprKind::If([_, then, otherwise]) => pending.extend([*then, *otherwise].map(other)),
            ExprKind::Switch(switch) => {
                pending.extend(switch.arms.iter().map(|arm| arm.1).chain(switch.default).map(other));
            }
            ExprKind::Join(join) => pending.extend(join.parts().map(other)),
            ExprKind::Repeat(repeat) if !repeat.builds => pending.push(other(repeat.body)),
            _ => found.push(place),
        }
    }
    found
}

/// Whether an expression is a call of the function that it is in.
pub(crate) fn is_self_call(function: &Function, expr: ExprId) -> bool {
    matches!(&function.body.exprs[expr].kind, ExprKind::Call(callee, _) if *callee == function.id)
}

/// One argument expression for each parameter of a self call, if they can be told apart.
fn flat_args(function: &Function, call: ExprId) -> Option<Vec<ExprId>> {
    let ExprKind::Call(_, args) = &function.body.exprs[call].kind else { return None };
    let flat = flat(function, args);
    (flat.len() == function.params.len()).then_some(flat)
}

/// Expressions with what stands side by side in them one by one.
pub(crate) fn flat(function: &Function, exprs: &[ExprId]) -> Vec<ExprId> {
    let mut flat = Vec::new();
    let mut pending: Vec<ExprId> = exprs.iter().rev().copied().collect();
    while let Some(expr) = pending.pop() {
        match &function.body.exprs[expr].kind {
            ExprKind::Values(parts) => pending.extend(parts.iter().rev()),
            _ => flat.push(expr),
        }
    }
    flat
}
