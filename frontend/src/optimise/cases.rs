//! A choice by the tag of what another choice has made (case of case; Peyton Jones and Santos 1998, section 5): in
//! `match (if x > 0 then Just x else Nothing) with | Just y -> f y | Nothing -> z`, each branch knows its arm, and no
//! object is made. What several branches come to stands behind a label.

use crate::arena::{Id, Table};
use crate::core::{
    Atom, Binding, Body, Expr, ExprId, ExprKind, Field, Function, Join, Labelled, Switch, TypeList, TypeLists, Var,
};
use crate::limits::Meter;
use crate::list::List;

/// Chooses arms where objects would be made, everywhere in a function.
pub(super) fn choose(function: &mut Function, lists: &mut TypeLists, meter: &Meter) {
    let order = function.node_ids(meter);
    let body = &mut function.body;
    if !order.iter().any(|&expr| matches!(body.exprs[expr].kind, ExprKind::Switch(_))) || !meter.steps(order.len()) {
        return;
    }
    let mut uses = Table::filled(0usize, body.vars.len());
    for &expr in &order {
        if let ExprKind::Var(var) = body.exprs[expr].kind {
            uses[var] += 1;
        }
    }
    let mut chooser = Chooser { body, lists, uses, meter };
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
    meter: &'c Meter,
}

/// Where an expression gets its value.
#[derive(Default)]
struct Leaves {
    /// The nodes whose values are those of others.
    spine: Vec<ExprId>,
    /// The objects that are made, with their tags.
    made: Vec<(ExprId, u16)>,
}

/// An arm of a choice.
struct Arm {
    body: ExprId,
    /// The objects that come to it.
    made: Vec<ExprId>,
}

impl Chooser<'_> {
    /// Looks for an object among the bindings of a block that is made right before a choice by its tag.
    fn block(&mut self, block: ExprId) {
        let ExprKind::Block(bindings, value) = &self.body.exprs[block].kind else { return };
        let (mut at, value) = (bindings.len(), *value);
        while at > 0 {
            at -= 1;
            let ExprKind::Block(bindings, _) = &self.body.exprs[block].kind else { return };
            let &[object] = &*bindings[at].vars else { continue };
            let made = bindings[at].value;
            let choice = bindings.get(at + 1).map_or(value, |next| next.value);
            let ExprKind::Switch(switch) = &self.body.exprs[choice].kind else { continue };
            let chosen_by = |expr: ExprId| matches!(self.body.exprs[expr].kind, ExprKind::Var(var) if var == object);
            if chosen_by(switch.object) && self.replace(choice, made, Some(object)) {
                let ExprKind::Block(bindings, _) = &mut self.body.exprs[block].kind else { return };
                let mut left = std::mem::take(bindings).into_vec();
                left.remove(at);
                *bindings = left.into();
            }
        }
    }

    /// Puts what makes an object in the place of a choice by its tag if all branches make one. Returns whether it did.
    fn replace(&mut self, choice: ExprId, made: ExprId, object: Option<Var>) -> bool {
        let Some(leaves) = self.leaves(made) else { return false };
        let Expr { kind: ExprKind::Switch(switch), types, .. } = self.body.exprs[choice].clone() else { return false };
        let Some(fields) = self.fields_read(&switch, object) else { return false };
        let Some(arms) = arms_of(&switch, &leaves) else { return false };
        let mut behind = Vec::new();
        for arm in &arms {
            let loads: Vec<(ExprId, usize)> =
                fields.iter().filter(|load| load.0 == arm.body).map(|&(_, load, index)| (load, index)).collect();
            match arm.made[..] {
                [only] => {
                    let (bindings, vars) = self.taken_apart(only);
                    self.name_fields(&loads, &vars);
                    self.body.exprs[only].kind = ExprKind::Block(bindings.into(), arm.body);
                }
                _ => behind.push(self.label(arm, &loads, types)),
            }
        }
        for expr in leaves.spine.into_iter().chain(leaves.made.into_iter().map(|made| made.0)) {
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
                    leaves.made.push((expr, *tag));
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
        }
        (!leaves.made.is_empty()).then_some(leaves)
    }

    /// The loads of the object's fields, with the arm that each stands in and the field's number, if nothing else is
    /// done with the object.
    fn fields_read(&self, switch: &Switch, object: Option<Var>) -> Option<Vec<(ExprId, ExprId, usize)>> {
        let mut fields = Vec::new();
        let Some(object) = object else { return Some(fields) };
        for arm in switch.arms.iter().map(|arm| arm.1).chain(switch.default) {
            for (expr, node) in self.body.nodes_of(arm) {
                if !self.meter.step(node.origin.span) {
                    return None;
                }
                if let ExprKind::Payload(Field { index, .. }, from) = node.kind
                    && matches!(self.body.exprs[from].kind, ExprKind::Var(var) if var == object)
                {
                    fields.push((arm, expr, usize::from(index)));
                }
            }
        }
        // What is left is the choice itself.
        (object.index() < self.uses.len() && self.uses[object] == fields.len() + 1).then_some(fields)
    }

    /// Bindings of an object's fields, and the variables.
    fn taken_apart(&mut self, object: ExprId) -> (Vec<Binding>, Vec<Var>) {
        let ExprKind::Construct(_, parts) = self.body.exprs[object].kind.clone() else { return Default::default() };
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
    fn label(&mut self, arm: &Arm, loads: &[(ExprId, usize)], types: TypeList) -> Labelled {
        let label = self.body.labels.push(());
        let mut params: Option<List<Var>> = None;
        for &object in &arm.made {
            let origin = self.body.exprs[object].origin;
            let (bindings, vars) = self.taken_apart(object);
            let mut args: List<ExprId> = List::default();
            if !loads.is_empty() {
                args = vars.iter().map(|&var| self.body.atom(Atom::Var(var), origin, self.lists)).collect();
                if params.is_none() {
                    let own: Vec<Var> = vars.iter().map(|&var| self.body.vars.push(self.body.vars[var])).collect();
                    self.name_fields(loads, &own);
                    params = Some(own.into());
                }
            }
            let jump = self.body.exprs.push(Expr { kind: ExprKind::Jump(label, args), types, origin });
            self.body.exprs[object].kind = ExprKind::Block(bindings.into(), jump);
        }
        Labelled { label, params: params.unwrap_or_default(), body: arm.body }
    }
}

/// The arms that objects come to; `None` if one comes to none.
fn arms_of(switch: &Switch, leaves: &Leaves) -> Option<Vec<Arm>> {
    let mut arms: Vec<Arm> = Vec::new();
    for &(object, tag) in &leaves.made {
        let own = switch.arms.iter().find(|arm| arm.0 == tag).map(|arm| arm.1);
        let body = own.or(switch.default)?;
        match arms.iter_mut().find(|arm| arm.body == body) {
            Some(arm) => arm.made.push(object),
            None => arms.push(Arm { body, made: vec![object] }),
        }
    }
    Some(arms)
}
