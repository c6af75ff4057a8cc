//! Copies of expressions within a function.

use crate::core::{Atom, Body, ExprId, ExprKind, Label, Var};
use crate::hash::HashMap;
use crate::renumber::Renumber;

/// New numbers for all that an expression binds.
#[derive(Default)]
struct Copies {
    exprs: HashMap<ExprId, ExprId>,
    vars: HashMap<Var, Var>,
    labels: HashMap<Label, Label>,
}

impl Renumber for Copies {
    fn expr(&self, expr: ExprId) -> ExprId {
        self.exprs[&expr]
    }

    fn var(&self, var: Var) -> Var {
        self.vars.get(&var).copied().unwrap_or(var)
    }

    fn label(&self, label: Label) -> Label {
        self.labels.get(&label).copied().unwrap_or(label)
    }
}

/// Copies an expression with atoms in the place of variables that are bound outside of it. Its nodes are given in the
/// order of evaluation; so are the copies.
pub(super) fn copy(body: &mut Body, nodes: &[ExprId], atoms: &HashMap<Var, Atom>) -> Vec<ExprId> {
    let mut copies = Copies::default();
    for &node in nodes {
        let (mut vars, mut labels) = (Vec::new(), Vec::new());
        let kind = &body.exprs[node].kind;
        kind.for_each_bound(|var| vars.push(var));
        match kind {
            ExprKind::Join(join) => labels.extend(join.bodies.iter().map(|labelled| labelled.label)),
            ExprKind::Repeat(repeat) => labels.push(repeat.label),
            _ => {}
        }
        labels.into_iter().for_each(|label| copies.bind_label(body, label));
        copies.bind(body, &vars);
    }
    let mut made = Vec::with_capacity(nodes.len());
    for &node in nodes {
        let mut expr = body.exprs[node].clone();
        match expr.kind {
            ExprKind::Var(var) if let Some(&atom) = atoms.get(&var) => expr.kind = atom.kind(),
            _ => copies.kind(&mut expr.kind),
        }
        let copy = body.exprs.push(expr);
        copies.exprs.insert(node, copy);
        made.push(copy);
    }
    made
}

impl Copies {
    fn bind(&mut self, body: &mut Body, vars: &[Var]) {
        for &var in vars {
            let copy = body.vars.push(body.vars[var]);
            self.vars.insert(var, copy);
        }
    }

    fn bind_label(&mut self, body: &mut Body, label: Label) {
        let copy = body.labels.push(());
        self.labels.insert(label, copy);
    }
}
