//! Short arrays as variables: an array of a known, small length whose elements are read at indices that are known is
//! never made; each of its elements is a variable.
//!
//! The right-hand side of a differential equation gives `[| y[1], -y[0] |]`, and what integrates it goes over as many
//! elements as its state has. Where it stands in the place of a call, the lengths of all these arrays are known, from
//! the literals on and through elementwise operations, branches and what loops carry. So loops over their elements are
//! written out, and what is left is arithmetic: one record for all steps, which the arrays would end.
//!
//! What is read as a whole once, as a result is, is made there. What is read at an index that isn't known stays an
//! array, and so does what is read as a whole in a loop that it isn't made in.

mod choose;
mod facts;
mod rewrite;
mod tested;
mod unroll;
mod version;

use crate::core::{ArrayType, Atom, Binding, Expr, ExprId, ExprKind, Function, Iteration, Layout, Step, TypeLists};
use crate::limits::Meter;
use crate::list::List;
use choose::Choice;
use dualvm_vm::module::ValueType;
use facts::Facts;

/// An array of more numbers stays one.
const PARTS_MAX: usize = 9;
/// A loop that goes round more often is not written out.
const ROUNDS_MAX: i64 = PARTS_MAX as i64;
/// Arrays of arrays become variables from the outside on, one level each time, and where the lengths of some are known,
/// those of others may be.
const LEVELS_MAX: usize = 4;
/// A length that a test has found may be the one that another test finds, this often.
const TESTED_MAX: usize = 3;
/// All that is written out in a function has at most so many nodes.
const GROWN_NODES_MAX: usize = 8_000;
/// Loops in loops are written out from the outside on where the inner ones' lengths depend on the outer ones' rounds.
const UNROLLINGS_MAX: usize = 3;

/// A short array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Short {
    array: ArrayType,
    /// Counted in elements.
    length: usize,
}

impl Short {
    /// How many values it has.
    fn parts(self) -> usize {
        self.length * usize::from(self.array.width())
    }

    /// The types of its values.
    fn types(self) -> impl Iterator<Item = ValueType> {
        std::iter::repeat_n(self.array.holds, self.parts())
    }
}

/// Puts variables in the place of a function's short arrays.
pub(super) fn replace(function: &mut Function, lists: &mut TypeLists, meter: &Meter) {
    if !makes_short(function, meter) {
        return;
    }
    name_arrays(function, lists, meter);
    let Some(mut facts) = Facts::of(function, lists, meter) else { return };
    for _ in 0..TESTED_MAX {
        if !tested::put_lengths(function, &facts, meter) {
            break;
        }
        let Some(again) = Facts::of(function, lists, meter) else { return };
        facts = again;
    }
    if version::version(function, lists, &facts, meter) {
        let Some(again) = Facts::of(function, lists, meter) else { return };
        facts = again;
    }
    let mut room = GROWN_NODES_MAX;
    for _ in 0..LEVELS_MAX {
        let Some(choice) = choose(function, lists, &mut facts, &mut room, meter) else { return };
        if choice.arrays.is_empty() || !meter.go_on() {
            return;
        }
        rewrite::rewrite(function, lists, &facts, &choice.arrays, meter);
        let Some(again) = Facts::of(function, lists, meter) else { return };
        facts = again;
    }
}

/// Chooses arrays, and writes out the loops that read or make them.
fn choose(
    function: &mut Function,
    lists: &mut TypeLists,
    facts: &mut Facts,
    room: &mut usize,
    meter: &Meter,
) -> Option<Choice> {
    for _ in 0..UNROLLINGS_MAX {
        let choice = Choice::of(function, lists, facts, true, meter);
        if choice.unrolled.is_empty() {
            return Some(choice);
        }
        if !unroll::unroll(function, lists, &choice.unrolled, room, meter) {
            break;
        }
        *facts = Facts::of(function, lists, meter)?;
    }
    Some(Choice::of(function, lists, facts, false, meter))
}

/// Whether there may be arrays whose length is known, if they are looked for.
fn makes_short(function: &Function, meter: &Meter) -> bool {
    let is_short = |end: ExprId| matches!(function.body.exprs[end].kind, ExprKind::Int(..=ROUNDS_MAX));
    let (mut builds, mut counts) = (false, false);
    for (_, node) in function.nodes(meter) {
        match &node.kind {
            ExprKind::Pack(array, elements) if array.layout != Layout::Struct => {
                let parts = elements.len() * usize::from(array.width());
                if (1..=PARTS_MAX).contains(&parts) {
                    return true;
                }
            }
            ExprKind::Collect(_, collect) if is_short(collect.range.to) => return true,
            ExprKind::Builder(_, Step::Finish, _) => builds = true,
            ExprKind::Loop(repeat) => {
                counts |= matches!(repeat.iteration, Iteration::Range(range) if is_short(range.to));
            }
            _ => {}
        }
    }
    builds && counts
}

/// Gives names to arrays that are read where they are made.
fn name_arrays(function: &mut Function, lists: &mut TypeLists, meter: &Meter) {
    for expr in function.node_ids(meter) {
        let body = &mut function.body;
        let Expr { ref kind, types, origin } = body.exprs[expr];
        let (ExprKind::Element(_, [array, _], _) | ExprKind::Length(_, array)) = *kind else { continue };
        let kind = &body.exprs[array].kind;
        let is_made = matches!(kind, ExprKind::Pack(..) | ExprKind::Collect(..) | ExprKind::Replace(..))
            || matches!(kind, ExprKind::Builder(..) | ExprKind::Block(..) | ExprKind::If(_) | ExprKind::Switch(_))
            || matches!(kind, ExprKind::Loop(_) | ExprKind::Repeat(_) | ExprKind::Join(_));
        let &[ty] = lists.get(body.exprs[array].types) else { continue };
        if !is_made {
            continue;
        }
        let var = body.vars.push(ty);
        let named = body.atom(Atom::Var(var), origin, lists);
        let kind = match body.exprs[expr].kind {
            ExprKind::Element(ty, [_, index], inside) => ExprKind::Element(ty, [named, index], inside),
            ExprKind::Length(ty, _) => ExprKind::Length(ty, named),
            _ => unreachable!("only these have an array that was found"),
        };
        let read = body.exprs.push(Expr { kind, types, origin });
        let binding = Binding { vars: List::from([var]), value: array };
        body.exprs[expr].kind = ExprKind::Block(Box::new([binding]), read);
    }
}
