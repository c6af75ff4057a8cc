//! Improves functions after inlining, each by itself: equal expressions are computed once, what loops carry as it is is
//! read before them, tests that are known to hold are dropped, arrays that are read at once are not made, branches in
//! loops become selections, indices are computed in fewer steps, loops carry rows that they change, first rounds that
//! differ are done before the others, what doesn't change leaves loops, loads move to where they are entered,
//! arithmetic waits for calls, and what nobody reads is dropped. At last tasks lose the parameters that they don't
//! read.
//!
//! But for the elements of arrays (`arrays.rs`), loops in loops (`invariant.rs`) and loads (`entry.rs`), all of them
//! move or remove only what is *pure*: it has no effect, always ends, and can't trap. So nothing that a program does is
//! moved, and the zero rule of derivatives makes a value that is computed but not chosen harmless. Where code is to be
//! as it was written, nothing is computed that may not be needed: branches stay branches, and loops keep what is in
//! them.

mod arrays;
mod carried;
mod cases;
mod copies;
mod copy_reasons;
mod dead;
mod entry;
mod extremes;
mod hoist;
mod in_place;
mod integers;
mod invariant;
mod params;
mod peel;
mod rows;
mod scalars;
mod select;
mod share;
mod sink;
mod tested;
mod unbox;
mod updates;

use crate::core::{Binding, Body, ExprId, ExprKind, Program};
use crate::limits::Meter;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;

/// What it costs to ask for a constant that was computed, in additions.
const CONSTANT_COST: u32 = 20;

/// Improves all functions. If the compilation is stopped, what comes of the program has no meaning.
pub(crate) fn optimise(mut program: Program, meter: &Meter) -> Program {
    let Program { functions, lists, module, copied, .. } = &mut program;
    let mut audible = None;
    for id in functions.ids() {
        let function = &mut functions[id];
        if meter.as_written {
            share::share(function, lists, meter);
            dead::drop_unused(function, meter);
            if let Some(refusals) = in_place::change(function, lists, module, meter) {
                copied.extend(copy_reasons::find(function, lists, &refusals, meter));
            }
            continue;
        }
        cases::choose(function, lists, meter);
        unbox::unbox(function, lists, module, meter);
        scalars::replace(function, lists, meter);
        select::select(function, lists, meter);
        integers::simplify(function, lists, meter);
        hoist::hoist(function, lists, meter);
        share::share(function, lists, meter);
        // What a loop begins with has names now.
        if carried::look_before(function, lists, meter) {
            integers::simplify(function, lists, meter);
            hoist::hoist(function, lists, meter);
            share::share(function, lists, meter);
        }
        // Equal tests have one name.
        tested::drop_known(function, meter);
        // What is read twice has been read once since equal loads are shared. In the loops that take them in, elements
        // may have parts that don't change, or that were there before.
        if arrays::fuse(function, lists, meter) {
            cases::choose(function, lists, meter);
            integers::simplify(function, lists, meter);
            hoist::hoist(function, lists, meter);
            share::share(function, lists, meter);
        }
        if rows::carry(function, lists, meter) {
            hoist::hoist(function, lists, meter);
            share::share(function, lists, meter);
        }
        // Loops leave loops as a whole, so those that take in what others read in them come first.
        if invariant::is_nested(function, meter) {
            let audible = audible.get_or_insert_with(|| invariant::audible(functions, meter));
            let function = &mut functions[id];
            if invariant::move_out(function, audible, lists, meter) {
                hoist::hoist(function, lists, meter);
                share::share(function, lists, meter);
            }
        }
        let function = &mut functions[id];
        // A loop whose first round is done alone reads some arrays twice, and others along with its index at last.
        if peel::peel(function, lists, meter) {
            arrays::fuse(function, lists, meter);
            integers::simplify(function, lists, meter);
            hoist::hoist(function, lists, meter);
            share::share(function, lists, meter);
        }
        tested::drop_known(function, meter);
        // Loads that were shared are out of branches now.
        select::select(function, lists, meter);
        extremes::find_by_index(function, lists, meter);
        entry::load_first(function, lists, meter);
        sink::sink(function, lists, meter);
        dead::drop_unused(function, meter);
        let refusals = in_place::change(function, lists, module, meter);
        updates::chain(function, meter);
        if let Some(refusals) = refusals {
            copied.extend(copy_reasons::find(function, lists, &refusals, meter));
        }
    }
    if meter.go_on() && params::drop_unread(&mut program, meter) {
        // What was computed for them goes too.
        program.functions.ids().for_each(|id| dead::drop_unused(&mut program.functions[id], meter));
    }
    program
}

/// Whether a node is pure if its children are.
pub(crate) fn is_pure_node(body: &Body, kind: &ExprKind) -> bool {
    match kind {
        ExprKind::Var(_) | ExprKind::Real(_) | ExprKind::Int(_) | ExprKind::Values(_) | ExprKind::Block(..) => true,
        ExprKind::Compare(..) | ExprKind::And(_) | ExprKind::Or(_) | ExprKind::Not(_) | ExprKind::If(_) => true,
        ExprKind::Scalar(Op::IDiv | Op::IRem, args) => {
            // Others trap for some dividends.
            matches!(body.exprs[args[1]].kind, ExprKind::Int(divisor) if divisor != 0 && divisor != -1)
        }
        ExprKind::Scalar(op, _) => !op.info().traps,
        ExprKind::Length(..) => true,
        ExprKind::Payload(field, _) => field.is_of_shape(),
        ExprKind::Constant { is_total, .. } => *is_total,
        _ => false,
    }
}

/// What computing a tree of pure nodes costs, in additions; `None` if it is not pure or costs more than `limit`.
pub(crate) fn pure_cost(body: &Body, root: ExprId, limit: u32) -> Option<u32> {
    let mut cost = 0;
    let mut pending = vec![root];
    while let Some(expr) = pending.pop() {
        let kind = &body.exprs[expr].kind;
        cost += match kind {
            ExprKind::Scalar(op, _) => scalar_cost(*op),
            ExprKind::Compare(..) | ExprKind::And(_) | ExprKind::Or(_) | ExprKind::Not(_) | ExprKind::Length(..) => 1,
            ExprKind::Payload(..) => 1,
            ExprKind::If(_) => 4,
            ExprKind::Constant { .. } => CONSTANT_COST,
            _ => 0,
        };
        if cost > limit || !is_pure_node(body, kind) {
            return None;
        }
        body.exprs[expr].for_each_child(|child| pending.push(child));
    }
    Some(cost)
}

/// Puts the bindings of an expression that is dropped before what stands in its place: what is bound in a part of an
/// expression may be read after it. All of the expression's parts are evaluated, but for those of bindings.
fn keep_bindings(body: &mut Body, dropped: ExprId, place: ExprId) {
    let mut kept = Vec::new();
    take_bindings(body, dropped, &mut kept);
    if !kept.is_empty() {
        let value = body.exprs[place].clone();
        let value = body.exprs.push(value);
        body.exprs[place].kind = ExprKind::Block(kept.into(), value);
    }
}

/// Takes the bindings out of an expression, in the order of evaluation.
fn take_bindings(body: &mut Body, expr: ExprId, kept: &mut Vec<Binding>) {
    if let ExprKind::Block(bindings, _) = &mut body.exprs[expr].kind {
        kept.extend(std::mem::take(bindings));
    }
    let mut children = Vec::new();
    body.exprs[expr].for_each_child(|child| children.push(child));
    crate::stack::grown(|| children.into_iter().for_each(|child| take_bindings(body, child, kept)));
}

pub(crate) fn scalar_cost(op: Op) -> u32 {
    if op.info().costly { 6 } else { 1 }
}

/// Whether a register holds a number.
fn is_number(ty: ValueType) -> bool {
    !matches!(ty, ValueType::Ref(_))
}
