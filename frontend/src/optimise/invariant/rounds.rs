//! Whether a loop has a round that gets to a certain place, asked before it begins.

use super::super::{copies, pure_cost};
use crate::core::{Atom, Body, Comparison, Expr, ExprId, ExprKind, Label, Switch, TypeLists, Var};
use crate::hash::HashMap;
use crate::limits::Meter;
use dualvm_vm::module::ValueType;
use std::rc::Rc;

/// A condition that costs more than so many additions isn't asked once more.
const COST_MAX: u32 = 16;
/// So many nodes of it are copied.
const NODES_MAX: usize = 32;
/// So many tests are asked for one loop.
pub(super) const TESTS_MAX: usize = 4;

/// What is asked.
#[derive(Clone)]
pub(super) enum Test {
    /// Whether the first is less than the second.
    Less([Atom; 2]),
    /// Whether a condition holds, or doesn't, with other atoms in the place of some variables.
    Holds { cond: ExprId, holds: bool, atoms: Rc<HashMap<Var, Atom>> },
    /// Whether an object of a type with so many tags has this one.
    HasTag { object: Atom, tags: u16, tag: u16 },
}

impl Test {
    /// Whether it asks the same, in the same loop.
    pub(super) fn is_same(&self, other: &Test) -> bool {
        match (self, other) {
            (Test::Less(bounds), Test::Less(others)) => bounds == others,
            (Test::Holds { cond, holds, .. }, Test::Holds { cond: other, holds: others, .. }) => {
                cond == other && holds == others
            }
            (Test::HasTag { object, tag, .. }, Test::HasTag { object: other, tag: others, .. }) => {
                object == other && tag == others
            }
            _ => false,
        }
    }

    /// How many nodes it adds.
    pub(super) fn nodes(&self, body: &Body) -> usize {
        4 + match self {
            Test::Less(_) | Test::HasTag { .. } => 4,
            Test::Holds { cond, .. } => body.nodes_of(*cond).take(NODES_MAX).count(),
        }
    }

    /// The variables that it reads, but for those that it binds itself.
    pub(super) fn reads(&self, body: &Body) -> Vec<Var> {
        let of = |atom: &Atom| match atom {
            Atom::Var(var) => Some(*var),
            Atom::Real(_) | Atom::Int(_) => None,
        };
        match self {
            Test::Less(bounds) => bounds.iter().filter_map(of).collect(),
            Test::HasTag { object, .. } => of(object).into_iter().collect(),
            Test::Holds { cond, atoms, .. } => {
                let (mut read, mut bound) = (Vec::new(), Vec::new());
                for (_, node) in body.nodes_of(*cond) {
                    match &node.kind {
                        ExprKind::Var(var) => read.extend(atoms.get(var).map_or(Some(*var), of)),
                        ExprKind::Block(bindings, _) => {
                            bound.extend(bindings.iter().flat_map(|binding| &binding.vars).copied());
                        }
                        _ => {}
                    }
                }
                read.retain(|var| !bound.contains(var));
                read
            }
        }
    }

    /// One value if it turns out as it is to be, and another if not.
    pub(super) fn choose(&self, [value, nothing]: [ExprId; 2], body: &mut Body, lists: &mut TypeLists) -> ExprId {
        let Expr { types, origin, .. } = body.exprs[value];
        let truth = lists.intern(&[ValueType::Int]);
        let kind = match self {
            Test::Less(bounds) => {
                let kind = ExprKind::Compare(Comparison::Less, bounds.map(|bound| body.atom(bound, origin, lists)));
                let cond = body.exprs.push(Expr { kind, types: truth, origin });
                ExprKind::If([cond, value, nothing])
            }
            Test::Holds { cond, holds, atoms } => {
                let mut nodes: Vec<ExprId> = body.nodes_of(*cond).map(|(node, _)| node).collect();
                nodes.reverse();
                let copied = copies::copy(body, &nodes, atoms);
                let cond = copied[copied.len() - 1];
                if *holds { ExprKind::If([cond, value, nothing]) } else { ExprKind::If([cond, nothing, value]) }
            }
            Test::HasTag { object, tags, tag } => {
                let object = body.atom(*object, origin, lists);
                let (arms, default) = (Box::new([(*tag, value)]), (*tags > 1).then_some(nothing));
                ExprKind::Switch(Box::new(Switch { object, tags: *tags, arms, default }))
            }
        };
        body.exprs.push(Expr { kind, types, origin })
    }
}

/// Whether a condition may be asked once more.
pub(super) fn may_be_asked(body: &Body, cond: ExprId) -> bool {
    pure_cost(body, cond, COST_MAX).is_some() && body.nodes_of(cond).take(NODES_MAX + 1).count() <= NODES_MAX
}

/// A branch at the beginning of a round of a repetition, of whose arms one goes on with the round, and the others end
/// the repetition.
pub(super) struct Start {
    /// What is evaluated first.
    pub(super) first: ExprId,
    /// The arm that goes on.
    pub(super) then: ExprId,
    /// The others.
    pub(super) ends: Vec<ExprId>,
    /// What is asked, of the repetition's parameters.
    pub(super) test: Test,
}

impl Start {
    /// The branch at an expression with which a round, or the rest of it, begins.
    pub(super) fn of(
        body: &Body,
        expr: ExprId,
        label: Label,
        atoms: &Rc<HashMap<Var, Atom>>,
        meter: &Meter,
    ) -> Option<Start> {
        match &body.exprs[expr].kind {
            &ExprKind::If([cond, then, other]) if may_be_asked(body, cond) => {
                let (then, end, holds) = match [then, other].map(|arm| goes_on(body, arm, label, meter)) {
                    [true, false] => (then, other, true),
                    [false, true] => (other, then, false),
                    _ => return None,
                };
                let test = Test::Holds { cond, holds, atoms: atoms.clone() };
                Some(Start { first: cond, then, ends: vec![end], test })
            }
            ExprKind::Switch(switch) => {
                let ExprKind::Var(var) = body.exprs[switch.object].kind else { return None };
                let object = atoms.get(&var).copied().unwrap_or(Atom::Var(var));
                let arms = || switch.arms.iter().map(|&(tag, arm)| (Some(tag), arm));
                let all: Vec<(Option<u16>, ExprId)> =
                    arms().chain(switch.default.map(|default| (None, default))).collect();
                let (going, ends): (Vec<_>, Vec<_>) =
                    all.into_iter().partition(|&(_, arm)| goes_on(body, arm, label, meter));
                let [(tag, then)] = going[..] else { return None };
                let tag = match tag {
                    Some(tag) => tag,
                    // That of the others that is left.
                    None if switch.arms.len() + 1 == usize::from(switch.tags) => {
                        (0..switch.tags).find(|tag| switch.arms.iter().all(|arm| arm.0 != *tag))?
                    }
                    None => return None,
                };
                let test = Test::HasTag { object, tags: switch.tags, tag };
                Some(Start { first: switch.object, then, ends: ends.into_iter().map(|end| end.1).collect(), test })
            }
            _ => None,
        }
    }
}

/// Whether an expression may go to a label.
fn goes_on(body: &Body, expr: ExprId, label: Label, meter: &Meter) -> bool {
    body.nodes_of(expr).any(|(_, node)| match &node.kind {
        _ if !meter.step(node.origin.span) => true,
        ExprKind::Jump(to, _) => *to == label,
        ExprKind::Extend(extend) => extend.label == label,
        _ => false,
    })
}
