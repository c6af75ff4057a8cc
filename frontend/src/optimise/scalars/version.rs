//! Loops that carry an array whose length nobody knows, for the length that it is likely to have.
//!
//! The state that `ode.rk4` begins with may come from the host. But where the right-hand side gives two numbers, no
//! state of another length gets through the first step. So there is another loop for states of two numbers, in which
//! they are variables.

use super::super::copies;
use super::PARTS_MAX;
use super::choose::Choice;
use super::facts::Facts;
use crate::core::{
    ArrayType, Atom, Binding, Comparison, Expr, ExprId, ExprKind, Function, Inside, Layout, TypeLists, Var,
};
use crate::hash::HashMap;
use crate::limits::{Count, Meter};
use crate::list::List;
use dualvm_vm::module::ValueType;
use smallvec::{SmallVec, smallvec};

/// A loop of more nodes is not copied.
const VERSIONED_NODES_MAX: usize = 2_000;
/// So many loops of a function are looked at, and so many lengths for each of them, which takes some walks over the
/// function; none in a larger one than this.
const LOOPS_MAX: usize = 4;
const LENGTHS_MAX: usize = 2;
const FUNCTION_NODES_MAX: usize = 8_000;

/// Makes copies of a function's loops, for arrays of likely lengths, where these become variables; whether there are
/// any.
pub(super) fn version(function: &mut Function, lists: &mut TypeLists, facts: &Facts, meter: &Meter) -> bool {
    let Some(arrays) = arrays_read(function, meter) else { return false };
    let (mut tried, mut any) = (0, false);
    let mut pending = vec![function.root];
    while let Some(expr) = pending.pop() {
        if !meter.step(function.body.exprs[expr].origin.span) {
            return any;
        }
        let unknown = unknown_arrays(function, expr, &arrays, facts);
        if !unknown.is_empty() && tried < LOOPS_MAX {
            tried += 1;
            if let Some(length) = likely_length(function, lists, expr, &unknown, meter) {
                copy(function, lists, expr, &unknown, length, meter);
                any = true;
                continue;
            }
        }
        function.body.exprs[expr].for_each_child(|child| pending.push(child));
    }
    any
}

/// The variables whose elements or length are read, and what arrays they are; `None` if the function is too large.
/// Arrays of kinds that are changed somewhere don't count: they may be changed in place (`in_place.rs`), as long as
/// nothing else has them.
fn arrays_read(function: &Function, meter: &Meter) -> Option<HashMap<Var, ArrayType>> {
    let (mut arrays, mut changed) = (HashMap::default(), Vec::new());
    for (nodes, (_, node)) in function.nodes(meter).enumerate() {
        if nodes > FUNCTION_NODES_MAX {
            return None;
        }
        match node.kind {
            ExprKind::Element(array, [object, _], _) | ExprKind::Length(array, object) => {
                if array.layout != Layout::Struct
                    && !matches!(array.holds, ValueType::Ref(_))
                    && let ExprKind::Var(var) = function.body.exprs[object].kind
                {
                    arrays.insert(var, array);
                }
            }
            ExprKind::Replace(array, _) if !changed.contains(&array) => changed.push(array),
            _ => {}
        }
    }
    arrays.retain(|_, array| !changed.contains(array));
    Some(arrays)
}

/// An array of unknown length that a loop carries.
#[derive(Clone, Copy)]
struct Carried {
    var: Var,
    /// Which of the loop's variables it is.
    at: usize,
    array: ArrayType,
}

fn unknown_arrays(
    function: &Function,
    expr: ExprId,
    arrays: &HashMap<Var, ArrayType>,
    facts: &Facts,
) -> SmallVec<[Carried; 2]> {
    let vars = match &function.body.exprs[expr].kind {
        ExprKind::Loop(repeat) => &repeat.vars,
        ExprKind::Repeat(repeat) if !repeat.builds => &repeat.params,
        _ => return smallvec![],
    };
    let carried = |(at, &var): (usize, &Var)| Some(Carried { var, at, array: *arrays.get(&var)? });
    vars.iter().enumerate().filter_map(carried).filter(|carried| facts.known(carried.var).is_none()).collect()
}

/// A length of a loop's arrays for which they become variables.
fn likely_length(
    function: &Function,
    lists: &TypeLists,
    expr: ExprId,
    unknown: &[Carried],
    meter: &Meter,
) -> Option<i64> {
    let mut lengths: SmallVec<[i64; LENGTHS_MAX]> = smallvec![];
    for (nodes, (_, node)) in function.body.nodes_of(expr).enumerate() {
        if nodes > VERSIONED_NODES_MAX || !meter.step(node.origin.span) {
            return None;
        }
        if let ExprKind::Pack(array, elements) = &node.kind
            && unknown.iter().any(|carried| carried.array == *array)
            && (1..=PARTS_MAX).contains(&elements.len())
            && !lengths.contains(&(elements.len() as i64))
            && lengths.len() < LENGTHS_MAX
        {
            lengths.push(elements.len() as i64);
        }
    }
    lengths.into_iter().find(|&length| {
        let begins = unknown.iter().map(|carried| (carried.var, length)).collect();
        let facts = Facts::assuming(function, lists, begins, meter);
        facts.is_some_and(|facts| {
            let choice = Choice::of(function, lists, &facts, true, meter);
            unknown.iter().any(|carried| choice.arrays.contains_key(&carried.var))
        })
    })
}

/// Chooses between a copy of a loop, which begins with arrays of a length that is known, and the loop.
fn copy(function: &mut Function, lists: &mut TypeLists, expr: ExprId, unknown: &[Carried], length: i64, meter: &Meter) {
    let body = &mut function.body;
    let Expr { mut kind, types, origin } = body.exprs[expr].clone();
    let init = match &mut kind {
        ExprKind::Loop(repeat) => &mut repeat.init,
        ExprKind::Repeat(repeat) => &mut repeat.init,
        _ => unreachable!("only loops carry anything"),
    };
    let init_types = body.exprs[*init].types;
    let (mut bindings, mut atoms) = (Vec::new(), Vec::new());
    body.name_values(*init, lists, &mut bindings, &mut atoms);
    let values: List<ExprId> = atoms.iter().map(|&atom| body.atom(atom, origin, lists)).collect();
    *init = body.exprs.push(Expr { kind: ExprKind::Values(values), types: init_types, origin });
    let general = body.exprs.push(Expr { kind, types, origin });
    let bool_types = lists.intern(&[ValueType::Int]);
    let (mut packed, mut renamed, mut cond) = (Vec::new(), HashMap::default(), None);
    for carried in unknown {
        let Atom::Var(first) = atoms[carried.at] else { continue };
        if renamed.contains_key(&first) {
            continue;
        }
        let object = body.atom(Atom::Var(first), origin, lists);
        let found = ExprKind::Length(carried.array, object);
        let found = body.exprs.push(Expr { kind: found, types: bool_types, origin });
        let wanted = body.atom(Atom::Int(length), origin, lists);
        let is_so = ExprKind::Compare(Comparison::Equal, [found, wanted]);
        let is_so = body.exprs.push(Expr { kind: is_so, types: bool_types, origin });
        cond = Some(match cond {
            None => is_so,
            Some(before) => body.exprs.push(Expr { kind: ExprKind::And([before, is_so]), types: bool_types, origin }),
        });
        let width = usize::from(carried.array.width());
        let element_types = lists.intern(&vec![carried.array.holds; width]);
        let mut elements = Vec::with_capacity(length as usize);
        for at in 0..length {
            let [object, index] = [Atom::Var(first), Atom::Int(at)].map(|atom| body.atom(atom, origin, lists));
            let kind = ExprKind::Element(carried.array, [object, index], Inside::Unknown);
            elements.push(body.exprs.push(Expr { kind, types: element_types, origin }));
        }
        let array_types = lists.intern(&[body.vars[first]]);
        let kind = ExprKind::Pack(carried.array, elements.into());
        let value = body.exprs.push(Expr { kind, types: array_types, origin });
        let var = body.vars.push(body.vars[first]);
        packed.push(Binding { vars: List::from([var]), value });
        renamed.insert(first, Atom::Var(var));
    }
    let Some(cond) = cond else { unreachable!("what has no length that is known is a variable") };
    // In the order of evaluation.
    let mut nodes: Vec<ExprId> = body.nodes_of(general).map(|(expr, _)| expr).collect();
    nodes.reverse();
    meter.nodes(Count::Code, nodes.len());
    let special = *copies::copy(body, &nodes, &renamed).last().expect("a loop has nodes");
    let special = body.exprs.push(Expr { kind: ExprKind::Block(packed.into(), special), types, origin });
    let value = body.exprs.push(Expr { kind: ExprKind::If([cond, special, general]), types, origin });
    body.exprs[expr].kind = ExprKind::Block(bindings.into(), value);
}
