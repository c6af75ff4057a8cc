//! A choice by the tag of what another choice has made (case of case; Peyton Jones and Santos 1998, section 5): in
//! `match (if x > 0 then Just x else Nothing) with | Just y -> f y | Nothing -> z`, each branch knows its arm, and no
//! object is made. What several branches come to stands behind a label.

use crate::arena::{Id, Table};
use crate::core::{
    Atom, Binding, Body, Expr, ExprId, ExprKind, Field, Function, Join, Labelled, Switch, TypeList, TypeLists, Var,
};
use crate::limits::Meter;
use crate::list::List;

/// A choice with more branches and blocks than this isn't followed: else, each of many choices by what the one before
/// has made would go through all of them.
const SPINE_MAX: usize = 200;

/// Chooses arms where objects would be made, everywhere in a function.
pub(super) fn choose(function: &mut Function, lists: &mut TypeLists, meter: &Meter) {
    let order = function.node_ids(meter);
    let body = &mut function.body;
    if !order.iter().any(|&expr| matches!(body.exprs[expr].kind, ExprKind::Switch(_))) || !meter.steps(order.len()) {
        return;
    }
    let mut uses = Table::filled(0usize, body.vars.len());
    let mut loads: Table<Var, Vec<(ExprId, Field)>> = Table::filled(Vec::new(), body.vars.len());
    for &expr in &order {
        match body.exprs[expr].kind {
            ExprKind::Var(var) => uses[var] += 1,
            ExprKind::Payload(field, object) => {
                if let ExprKind::Var(object) = body.exprs[object].kind {
                    loads[object].push((expr, field));
                }
            }
            _ => {}
        }
    }
    let mut chooser = Chooser { body, lists, uses, loads, meter };
    // Inner choices first: what comes of one may be what the next chooses by.
    for &expr in order.iter().rev().filter(|_| meter.steps(1)) {
        match &chooser.body.exprs[expr].kind {
            ExprKind::Block(..) => chooser.block(expr),
            ExprKind::Switch(switch) if !matches!(chooser.body.exprs[switch.object].kind, ExprKind::Var(_)) => {
                let made = switch.object;
                chooser.replace(expr, made, None);
            }
            _ => {}
        }
    }
}

struct Chooser<'c> {
    body: &'c mut Body,
    lists: &'c mut TypeLists,
    /// How often each variable is read; those that were made here aren't known.
    uses: Table<Var, usize>,
    /// Where fields of it are loaded.
    loads: Table<Var, Vec<(ExprId, Field)>>,
    meter: &'c Meter,
}

/// Where an expression gets its value.
#[derive(Default)]
struct Leaves {
    /// The nodes whose values are those of others.
    spine: Vec<ExprId>,
    /// The objects that are made, with their tags.
    objects: Vec<(ExprId, u16)>,
}

/// An arm of a choice.
struct Arm {
    body: ExprId,
    /// The objects that come to it.
    objects: Vec<ExprId>,
    /// The tag that they have, if it is one.
    tag: Option<u16>,
    /// The loads of their fields, and the fields' numbers.
    loads: Vec<(ExprId, usize)>,
}

impl Chooser<'_> {
    /// Looks for an object among the bindings of a block that is made right before a choice by its tag.
    fn block(&mut self, block: ExprId) {
        let ExprKind::Block(_, value) = self.body.exprs[block].kind else { return };
        let mut at = 0;
        loop {
            let ExprKind::Block(bindings, _) = &self.body.exprs[block].kind else { return };
            let Some(binding) = bindings.get(at) else { return };
            let choice = bindings.get(at + 1).map_or(value, |next| next.value);
            let (vars, made) = (binding.vars.clone(), binding.value);
            if let (&[object], ExprKind::Switch(switch)) = (&*vars, &self.body.exprs[choice].kind)
                && matches!(self.body.exprs[switch.object].kind, ExprKind::Var(var) if var == object)
                && self.replace(choice, made, Some(object))
                && let ExprKind::Block(bindings, _) = &mut self.body.exprs[block].kind
            {
                // What comes of the choice may be what the next one chooses by.
                let mut left = std::mem::take(bindings).into_vec();
                left.remove(at);
                *bindings = left.into();
            } else {
                at += 1;
            }
        }
    }

    /// Puts what makes an object in the place of a choice by its tag if all branches make one. Returns whether it did:
    /// then the choice is a copy of the node that made the object, which nobody else refers to any more.
    fn replace(&mut self, choice: ExprId, made: ExprId, object: Option<Var>) -> bool {
        let Some(leaves) = self.leaves(made) else { return false };
        let Expr { kind: ExprKind::Switch(switch), types, .. } = self.body.exprs[choice].clone() else { return false };
        let Some(arms) = self.arms(&switch, &leaves, object) else { return false };
        let mut behind = Vec::new();
        for arm in &arms {
            match arm.objects[..] {
                [only] => {
                    let (bindings, vars) = self.taken_apart(only);
                    self.name_fields(&arm.loads, &vars);
                    self.body.exprs[only].kind = ExprKind::Block(bindings.into(), arm.body);
                }
                _ => behind.push(self.label(arm, types)),
            }
        }
        for expr in leaves.spine.into_iter().chain(leaves.objects.into_iter().map(|object| object.0)) {
            self.body.exprs[expr].types = types;
        }
        // Each join has one label: arms may read what was bound on the way to the object.
        let mut node = self.body.exprs[made].clone();
        for labelled in behind {
            let origin = node.origin;
            let join = Join { value: self.body.exprs.push(node), bodies: [labelled].into() };
            node = Expr { kind: ExprKind::Join(Box::new(join)), types, origin };
        }
        self.body.exprs[choice] = node;
        true
    }

    /// Where an expression gets its value, if that is always a new object.
    fn leaves(&self, root: ExprId) -> Option<Leaves> {
        let mut leaves = Leaves::default();
        let mut pending = vec![root];
        while let Some(expr) = pending.pop() {
            let node = &self.body.exprs[expr];
            if !self.meter.step(node.origin.span) {
                return None;
            }
            match &node.kind {
                ExprKind::Construct(tag, _) => {
                    leaves.objects.push((expr, *tag));
                    continue;
                }
                ExprKind::Block(_, value) => pending.push(*value),
                ExprKind::If([_, then, other]) => pending.extend([*other, *then]),
                ExprKind::Switch(switch) => pending.extend(switch.arms.iter().map(|arm| arm.1).chain(switch.default)),
                ExprKind::Join(join) => pending.extend(join.parts()),
                ExprKind::Jump(..) | ExprKind::Trap(_) => {}
                _ => return None,
            }
            leaves.spine.push(expr);
            if leaves.spine.len() > SPINE_MAX {
                return None;
            }
        }
        (!leaves.objects.is_empty()).then_some(leaves)
    }

    /// The arms that objects come to, if each comes to one, and if nothing else is done with the object than to choose
    /// by it and to load its fields. Loads stand in the arm of the field's tag, which may be the one for all other
    /// tags: then no other objects come to it.
    fn arms(&self, switch: &Switch, leaves: &Leaves, object: Option<Var>) -> Option<Vec<Arm>> {
        let loads: &[(ExprId, Field)] = match object {
            None => &[],
            Some(object) if object.index() < self.uses.len() => {
                let loads = &self.loads[object];
                (self.uses[object] == loads.len() + 1).then_some(loads)?
            }
            Some(_) => return None,
        };
        let mut arms: Vec<Arm> = Vec::new();
        for &(object, tag) in &leaves.objects {
            let own = switch.arms.iter().find(|arm| arm.0 == tag).map(|arm| arm.1);
            let body = own.or(switch.default)?;
            if let Some(arm) = arms.iter_mut().find(|arm| arm.body == body) {
                arm.objects.push(object);
                arm.tag = arm.tag.filter(|&known| known == tag);
                if arm.tag.is_none() && !arm.loads.is_empty() {
                    return None;
                }
                continue;
            }
            let of_tag = loads.iter().filter(|(_, field)| field.tag == tag);
            let loads = of_tag.map(|&(load, field)| (load, usize::from(field.index))).collect();
            arms.push(Arm { body, objects: vec![object], tag: Some(tag), loads });
        }
        Some(arms)
    }

    /// Bindings of an object's fields, and the variables.
    fn taken_apart(&mut self, object: ExprId) -> (Vec<Binding>, Vec<Var>) {
        let ExprKind::Construct(_, parts) = self.body.exprs[object].kind.clone() else {
            unreachable!("an object is made by a constructor")
        };
        let mut all = Vec::new();
        let bindings = parts.into_iter().map(|value| {
            let types = self.lists.get(self.body.exprs[value].types).to_vec();
            let vars: List<Var> = types.iter().map(|&ty| self.body.vars.push(ty)).collect();
            all.extend(&vars);
            Binding { vars, value }
        });
        (bindings.collect(), all)
    }

    /// Loads of fields are variables now.
    fn name_fields(&mut self, loads: &[(ExprId, usize)], vars: &[Var]) {
        for &(load, index) in loads {
            self.body.exprs[load].kind = ExprKind::Var(vars[index]);
        }
    }

    /// Puts an arm behind a label to which several objects jump in its place. Its parameters are the fields, if it
    /// reads any: then they have one tag.
    fn label(&mut self, arm: &Arm, types: TypeList) -> Labelled {
        let label = self.body.labels.push(());
        let mut params: Option<List<Var>> = None;
        for &object in &arm.objects {
            let origin = self.body.exprs[object].origin;
            let (bindings, vars) = self.taken_apart(object);
            let mut args: List<ExprId> = List::default();
            if !arm.loads.is_empty() {
                args = vars.iter().map(|&var| self.body.atom(Atom::Var(var), origin, self.lists)).collect();
                if params.is_none() {
                    let own: Vec<Var> = vars.iter().map(|&var| self.body.vars.push(self.body.vars[var])).collect();
                    self.name_fields(&arm.loads, &own);
                    params = Some(own.into());
                }
            }
            let jump = self.body.exprs.push(Expr { kind: ExprKind::Jump(label, args), types, origin });
            self.body.exprs[object].kind = ExprKind::Block(bindings.into(), jump);
        }
        Labelled { label, params: params.unwrap_or_default(), body: arm.body }
    }
}
