//! Integers that a loop carries from round to round as they are: the sizes of a matrix whose elements it changes. They
//! are what they were before the loop, so that is what is read in it and after it. Then tests of indices are known to
//! hold that compare with a size, or are the same from loop to loop.
//!
//! What the loop carries stays as it is: it costs nothing where a round hands it on in its register.

use crate::arena::Table;
use crate::core::{Atom, Binding, Body, ExprId, ExprKind, Function, Loop, TypeLists, Var};
use crate::hash::HashSet;
use crate::limits::Meter;
use crate::list::List;
use dualvm_vm::module::ValueType;

/// So many expressions are looked at to find what one value is.
const STEPS_MAX: usize = 64;

/// Reads what was before a loop in the place of what it carries as it is; whether there was any.
pub(super) fn look_before(function: &mut Function, lists: &mut TypeLists, meter: &Meter) -> bool {
    let order = function.node_ids(meter);
    let body = &mut function.body;
    let carries = |expr: &ExprId| matches!(&body.exprs[*expr].kind, ExprKind::Loop(found) if found.vars.len() > 1);
    if !order.iter().any(carries) || !meter.go_on() {
        return false;
    }
    let mut values = Table::filled(None, body.vars.len());
    for &expr in &order {
        if let ExprKind::Block(bindings, _) = &body.exprs[expr].kind {
            for binding in bindings {
                binding.vars.iter().enumerate().for_each(|(at, &var)| values[var] = Some((binding.value, at)));
            }
        }
    }
    let mut finder = Finder { body, lists, values, carried: Table::filled(false, body.vars.len()) };
    let mut before: Table<Var, Option<Atom>> = Table::filled(None, body.vars.len());
    let mut sizes = Vec::new();
    let mut handed_on = HashSet::default();
    // Inner loops first.
    for &expr in order.iter().rev() {
        let ExprKind::Loop(found) = &finder.body.exprs[expr].kind else { continue };
        for (at, &var) in found.vars.iter().enumerate().filter(|&(_, &var)| body.vars[var] == ValueType::Int) {
            let mut leaves = Vec::new();
            if !meter.steps(STEPS_MAX) {
                return false;
            }
            if found.vars.len() > 1 && finder.is_always(var, (found.body, at), &mut leaves, &mut { STEPS_MAX }) {
                finder.carried[var] = true;
                match finder.first(found, at, &mut { STEPS_MAX }) {
                    Some(First::Atom(atom)) => before[var] = Some(atom),
                    Some(First::Size(size)) => sizes.push((var, size)),
                    None => {}
                }
                handed_on.extend(leaves);
            }
        }
    }
    for (var, size) in sizes {
        before[var] = Some(Atom::Var(name(body, lists, size)));
        before.push(None);
    }
    // What a loop gives, under the names that it has there.
    for &expr in &order {
        let ExprKind::Block(bindings, _) = &body.exprs[expr].kind else { continue };
        for binding in bindings {
            if let ExprKind::Loop(found) = &body.exprs[binding.value].kind {
                for (&name, &var) in binding.vars.iter().zip(&found.vars) {
                    before[name] = before[var];
                }
            }
        }
    }
    let mut any = false;
    for expr in order {
        let ExprKind::Var(var) = body.exprs[expr].kind else { continue };
        if handed_on.contains(&expr) || before[var].is_none() {
            continue;
        }
        let mut atom = Atom::Var(var);
        // Of a loop in a loop it is what was before both.
        while let Atom::Var(var) = atom
            && let Some(known) = before[var]
        {
            atom = known;
        }
        body.exprs[expr].kind = atom.kind();
        any = true;
    }
    any
}

/// Gives a name to an integer where it stands. What is bound in an expression may be read after it.
fn name(body: &mut Body, lists: &mut TypeLists, expr: ExprId) -> Var {
    let value = body.exprs.push(body.exprs[expr].clone());
    let var = body.vars.push(ValueType::Int);
    let named = body.atom(Atom::Var(var), body.exprs[expr].origin, lists);
    let binding = Binding { vars: List::from([var]), value };
    body.exprs[expr].kind = ExprKind::Block(Box::new([binding]), named);
    var
}

/// What a loop begins with.
enum First {
    Atom(Atom),
    /// The size of an array of several dimensions, which has no name as yet.
    Size(ExprId),
}

struct Finder<'f> {
    body: &'f Body,
    lists: &'f TypeLists,
    /// Where variables are bound that are not a loop's: the expression, and which one of its values it is.
    values: Table<Var, Option<(ExprId, usize)>>,
    /// The variables of loops that are known to stay as they are.
    carried: Table<Var, bool>,
}

impl Finder<'_> {
    /// Whether one of an expression's values is a variable's, however it comes about. Adds where that is read.
    fn is_always(&self, var: Var, (expr, at): (ExprId, usize), leaves: &mut Vec<ExprId>, left: &mut usize) -> bool {
        let Some(fewer) = left.checked_sub(1) else { return false };
        *left = fewer;
        match &self.body.exprs[expr].kind {
            ExprKind::Var(found) if *found == var => {
                leaves.push(expr);
                true
            }
            ExprKind::Var(found) => {
                self.values[*found].is_some_and(|value| self.is_always(var, value, &mut Vec::new(), left))
            }
            ExprKind::Values(parts) => {
                let part = self.body.part(self.lists, parts, at);
                part.is_some_and(|part| self.is_always(var, part, leaves, left))
            }
            ExprKind::Block(_, value) => self.is_always(var, (*value, at), leaves, left),
            ExprKind::If([_, then, other]) => {
                [then, other].into_iter().all(|&way| self.is_always(var, (way, at), leaves, left))
            }
            ExprKind::Loop(inner) => {
                self.carried[inner.vars[at]] && self.is_always(var, (inner.init, at), leaves, left)
            }
            ExprKind::Trap(_) => true,
            _ => false,
        }
    }

    /// What a loop begins with, if that is simple.
    fn first(&self, found: &Loop, at: usize, left: &mut usize) -> Option<First> {
        let (mut expr, mut at) = (found.init, at);
        loop {
            *left = left.checked_sub(1)?;
            match &self.body.exprs[expr].kind {
                ExprKind::Var(var) => return Some(First::Atom(Atom::Var(*var))),
                ExprKind::Int(value) => return Some(First::Atom(Atom::Int(*value))),
                ExprKind::Payload(field, _) if field.is_of_shape() => return Some(First::Size(expr)),
                ExprKind::Values(parts) => (expr, at) = self.body.part(self.lists, parts, at)?,
                // What is bound on the way is evaluated before the loop, and may be read in it.
                ExprKind::Block(_, value) => expr = *value,
                ExprKind::Loop(inner) if self.carried[inner.vars[at]] => expr = inner.init,
                _ => return None,
            }
        }
    }
}
