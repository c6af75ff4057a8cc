//! Tail recursion modulo constructors (Friedman and Wise 1975; Leijen and Lorenzen 2023): a function whose value is an
//! object, the last field of which is a call of the function itself, is a loop that appends to a chain of such objects.
//!
//! `map f xs` makes a cell of `f x` and of what `map f rest` gives: in place of a frame per element there is an
//! iteration per element, and the cell is made before the rest of the list, with its last field open. Fields are
//! evaluated in the order of the source, those of a cell before the arguments of the call, as before.
//!
//! What is a tail call of another function would be one no more, because the chain is to be finished after it. So
//! functions are left alone where such a call may come back to them, and need stack then that they didn't need before.

use crate::core::{Cell, ExprId, ExprKind, Function, FunctionId, TypeLists, Var};
use crate::hash::HashSet;
use crate::tail::{ResultPlace, SelfCall, flat, is_self_call, repeat_calls, results};

/// Turns the self calls of a function that are last fields of its value into jumps, if it has any, and with them its
/// tail calls. Returns how many calls became jumps. `comes_back` says of a function whether it may call this one.
pub(crate) fn repeat_calls_in_cells(
    function: &mut Function,
    comes_back: impl Fn(FunctionId) -> bool,
    lists: &mut TypeLists,
) -> u32 {
    let mut calls = Vec::new();
    // Blocks, and how many of their bindings are left.
    let mut shortened = Vec::new();
    for place in results(function) {
        if is_self_call(function, place.value) {
            calls.push(SelfCall::last(place.value));
        } else if may_come_back(function, place.value, &comes_back) {
            return 0;
        } else if let Some((call, left)) = call_in_cells(function, place) {
            shortened.extend(place.block.map(|block| (block, left)));
            calls.push(call);
        }
    }
    if calls.iter().all(|call| call.cells.is_empty()) {
        return 0;
    }
    for (block, left) in shortened {
        let ExprKind::Block(bindings, _) = &mut function.body.exprs[block].kind else { unreachable!("it is a block") };
        let mut kept = std::mem::take(bindings).into_vec();
        kept.truncate(left);
        *bindings = kept.into();
    }
    repeat_calls(function, calls, lists)
}

/// Whether a value is that of a call that may lead back to the function.
fn may_come_back(function: &Function, value: ExprId, comes_back: impl Fn(FunctionId) -> bool) -> bool {
    match function.body.exprs[value].kind {
        ExprKind::Call(callee, _) => comes_back(callee),
        ExprKind::CallClosure(..) => true,
        _ => false,
    }
}

/// The self call that is the last field of a value, or of its last field, and so on, and how many bindings of the
/// value's block are left: objects and the call may be bound one by one right before the value. Then no other field may
/// need to be evaluated, because the fields come before the call from now on.
fn call_in_cells(function: &Function, place: ResultPlace) -> Option<(SelfCall, usize)> {
    let kind = |expr: ExprId| &function.body.exprs[expr].kind;
    let bindings = match place.block.map(kind) {
        Some(ExprKind::Block(bindings, _)) => &bindings[..],
        _ => &[],
    };
    let (mut cells, mut left, mut at) = (Vec::new(), bindings.len(), place.value);
    let call = loop {
        match kind(at) {
            ExprKind::Construct(tag, fields) if function.body.exprs[at].types == function.results => {
                let mut fields = flat(function, fields);
                at = fields.pop()?;
                cells.push(Cell { tag: *tag, fields: fields.into() });
            }
            ExprKind::Var(var) if left > 0 && *bindings[left - 1].vars == [*var] => {
                left -= 1;
                at = bindings[left].value;
            }
            _ if is_self_call(function, at) => break at,
            _ => return None,
        }
    };
    let moved: HashSet<Var> = bindings[left..].iter().flat_map(|binding| &binding.vars).copied().collect();
    let is_known = |&field: &ExprId| match kind(field) {
        ExprKind::Var(var) => !moved.contains(var),
        kind => matches!(kind, ExprKind::Real(_) | ExprKind::Int(_)),
    };
    if left < bindings.len() && !cells.iter().flat_map(|cell| &cell.fields).all(is_known) {
        return None;
    }
    (!cells.is_empty()).then_some((SelfCall { call, cells, value: place.value }, left))
}
