//! `match`: decision trees to core. A field of an object is read where a test or an arm first needs it; an arm that
//! several leaves choose is a join point whose parameters are its variables.

use super::Elaborator;
use super::decision::{Binds, Decider, Literal, Place, PlaceNode, Places, Tree};
use super::form::{Form, Shaped, Value};
use crate::ast::{self, Arm, Comparison};
use crate::core::{Atom, Binding, ExprId, ExprKind, Join, Label, Switch, Var};
use crate::mono::Mono;
use crate::resolve::LocalId;
use crate::source::Span;
use std::collections::HashMap;

/// An arm that several leaves share.
struct Shared {
    label: Label,
    /// Its variables in the order of the parameters.
    locals: Vec<LocalId>,
}

/// What is known while a tree is turned into core.
struct Emitter<'m> {
    places: &'m Places,
    arms: &'m [Arm],
    span: Span,
    /// The values of places read so far.
    values: HashMap<Place, Value>,
    /// The places read since the outermost tree began, to be forgotten where a branch ends.
    read: Vec<Place>,
    shared: HashMap<usize, Shared>,
    /// Where a failing row of [`Tree::Else`] goes.
    failing: Vec<Label>,
    /// The leaves, to be put into one form at the end.
    leaves: Vec<Shaped>,
}

impl Elaborator<'_, '_> {
    pub(super) fn matching(&mut self, value: ast::ExprId, arms: &[Arm], ty: Mono, span: Span) -> Shaped {
        let matched = self.type_of(value);
        let value = self.shaped(value);
        let mut bindings = Vec::new();
        let value = self.name_shaped(value, &mut bindings);
        let mut decider = Decider::new(self, arms);
        let tree = decider.decide(matched);
        let places = decider.places;
        let mut uses = vec![0u32; arms.len()];
        let mut first_binds: Vec<Option<&Binds>> = vec![None; arms.len()];
        count_leaves(&tree, &mut uses, &mut first_binds);
        let root = places.nodes.ids().next().expect("the root is the first place");
        let mut emitter = Emitter {
            places: &places,
            arms,
            span,
            values: HashMap::from([(root, value)]),
            read: Vec::new(),
            shared: HashMap::new(),
            failing: Vec::new(),
            leaves: Vec::new(),
        };
        let mut joins = Vec::new();
        for (arm, binds) in first_binds.iter().enumerate().filter(|&(arm, _)| uses[arm] > 1) {
            let mut locals: Vec<LocalId> = binds.expect("it has leaves").iter().map(|bind| bind.0).collect();
            locals.sort_unstable();
            let label = self.body.labels.push(());
            emitter.shared.insert(arm, Shared { label, locals });
            joins.push((arm, binds.expect("it has leaves")));
        }
        let tree = self.tree(&tree, &mut emitter, ty);
        let mut made = tree;
        for (arm, binds) in joins {
            made = self.shared_arm(arm, binds, made, &mut emitter, ty);
        }
        // All leaves in one form: their own if they agree.
        let form = self.common_form(&emitter.leaves, ty);
        self.unify_leaves(&emitter.leaves, form);
        let types = self.program.forms.flat(form);
        self.retype(made, types);
        self.block_shaped(bindings, Shaped { expr: made, form })
    }

    /// Makes all leaves plain, in place, if that is the form of the whole.
    fn unify_leaves(&mut self, leaves: &[Shaped], form: Form) {
        for leaf in leaves {
            if leaf.form != form && !self.stops(leaf.expr) {
                let old = self.body.exprs[leaf.expr].clone();
                let moved = self.body.exprs.push(old);
                let made = self.materialised(Shaped { expr: moved, form: leaf.form });
                self.body.exprs[leaf.expr] = self.body.exprs[made.expr].clone();
            }
        }
    }

    /// Gives the nodes between a `match` and its leaves the types of the whole.
    fn retype(&mut self, expr: ExprId, types: crate::core::TypeList) {
        if self.body.exprs[expr].types == types {
            return;
        }
        self.body.exprs[expr].types = types;
        let children: Vec<ExprId> = match &self.body.exprs[expr].kind {
            ExprKind::Block(_, value) => vec![*value],
            ExprKind::If([_, then, other]) => vec![*then, *other],
            ExprKind::Switch(switch) => switch.arms.iter().map(|arm| arm.1).chain(switch.default).collect(),
            ExprKind::Join(join) => vec![join.value, join.body],
            _ => Vec::new(),
        };
        crate::stack::grown(|| children.into_iter().for_each(|child| self.retype(child, types)));
    }

    fn tree(&mut self, tree: &Tree, emitter: &mut Emitter, ty: Mono) -> ExprId {
        crate::stack::grown(|| {
            let mark = emitter.read.len();
            let made = self.tree_here(tree, emitter, ty);
            for place in emitter.read.drain(mark..) {
                emitter.values.remove(&place);
            }
            made
        })
    }

    fn tree_here(&mut self, tree: &Tree, emitter: &mut Emitter, ty: Mono) -> ExprId {
        let span = emitter.span;
        let mut bindings = Vec::new();
        let made = match tree {
            Tree::Fail => {
                let kind = match emitter.failing.last() {
                    Some(&label) => ExprKind::Jump(label, Box::default()),
                    None => ExprKind::Trap("no pattern matches".into()),
                };
                self.make(kind, ty, span)
            }
            Tree::Leaf { arm, binds } => self.leaf(*arm, binds, emitter, &mut bindings, ty),
            Tree::Guard { arm, binds, otherwise } => {
                self.bind_places(binds, emitter, &mut bindings);
                let guard = emitter.arms[*arm].guard.expect("only arms with guards are guarded");
                let cond = self.expr(guard);
                let then = self.leaf(*arm, binds, emitter, &mut Vec::new(), ty);
                let other = self.tree(otherwise, emitter, ty);
                self.make(ExprKind::If([cond, then, other]), ty, span)
            }
            Tree::Switch { place, cases, default } => {
                let object = self.place(*place, emitter, &mut bindings);
                let tags = self.program.fields(emitter.places.nodes[*place].1).len() as u16;
                let mut arms = Vec::new();
                let mut joins = Vec::new();
                for (case_tags, tree) in cases {
                    let made = self.tree(tree, emitter, ty);
                    if let [tag] = case_tags[..] {
                        arms.push((tag, made));
                        continue;
                    }
                    let label = self.body.labels.push(());
                    for &tag in case_tags {
                        arms.push((tag, self.make(ExprKind::Jump(label, Box::default()), ty, span)));
                    }
                    joins.push((label, made));
                }
                let default = default.as_ref().map(|tree| self.tree(tree, emitter, ty));
                let object = self.of_value(&object, span).expr;
                let switch = Switch { object, tags, arms: arms.into(), default };
                let made = self.make(ExprKind::Switch(Box::new(switch)), ty, span);
                joins.into_iter().fold(made, |made, (label, body)| self.join(label, &[], made, body, ty, span))
            }
            Tree::Literals { place, cases, default } => {
                let value = self.place(*place, emitter, &mut bindings);
                let atom = value.atoms.first().copied().unwrap_or(Atom::Int(0));
                let cases: Vec<(ExprId, ExprId)> = cases
                    .iter()
                    .map(|(literals, tree)| {
                        let cond = self.is_one_of(atom, literals, span);
                        (cond, self.tree(tree, emitter, ty))
                    })
                    .collect();
                let default = self.tree(default, emitter, ty);
                let choose = |other, (cond, then)| self.make(ExprKind::If([cond, then, other]), ty, span);
                cases.into_iter().rev().fold(default, choose)
            }
            Tree::Else(first, second) => {
                let label = self.body.labels.push(());
                emitter.failing.push(label);
                let value = self.tree(first, emitter, ty);
                emitter.failing.pop();
                let body = self.tree(second, emitter, ty);
                self.join(label, &[], value, body, ty, span)
            }
        };
        self.block(bindings, made)
    }

    fn join(&mut self, label: Label, params: &[Var], value: ExprId, body: ExprId, ty: Mono, span: Span) -> ExprId {
        let join = Join { label, params: params.into(), value, body };
        self.make(ExprKind::Join(Box::new(join)), ty, span)
    }

    /// A chosen arm: its body, or a jump to it if it is shared.
    fn leaf(
        &mut self,
        arm: usize,
        binds: &Binds,
        emitter: &mut Emitter,
        bindings: &mut Vec<Binding>,
        ty: Mono,
    ) -> ExprId {
        let Some(Shared { label, locals }) = emitter.shared.get(&arm) else {
            self.bind_places(binds, emitter, bindings);
            let made = self.shaped(emitter.arms[arm].body);
            emitter.leaves.push(made);
            return made.expr;
        };
        let (label, locals) = (*label, locals.clone());
        let mut args = Vec::new();
        for local in locals {
            let place = binds.iter().find(|bind| bind.0 == local).expect("alternatives bind the same names").1;
            let value = self.place(place, emitter, bindings);
            let value = self.of_value(&value, emitter.span);
            args.push(self.materialised(value).expr);
        }
        self.make(ExprKind::Jump(label, args.into()), ty, emitter.span)
    }

    /// Puts the body of a shared arm behind what jumps to it.
    fn shared_arm(&mut self, arm: usize, binds: &Binds, value: ExprId, emitter: &mut Emitter, ty: Mono) -> ExprId {
        let Shared { label, locals } = emitter.shared.remove(&arm).expect("it was put there before");
        let mut params = Vec::new();
        for local in locals {
            let place = binds.iter().find(|bind| bind.0 == local).expect("it is one of the names").1;
            let form = self.plain(emitter.places.nodes[place].1);
            let (vars, value) = self.new_value(form);
            params.extend(vars);
            self.locals.insert(local, value);
        }
        let body = self.shaped(emitter.arms[arm].body);
        emitter.leaves.push(body);
        self.join(label, &params, value, body.expr, ty, emitter.span)
    }

    fn bind_places(&mut self, binds: &Binds, emitter: &mut Emitter, bindings: &mut Vec<Binding>) {
        for &(local, place) in binds {
            let value = self.place(place, emitter, bindings);
            self.locals.insert(local, value);
        }
    }

    /// The value of a place, read now if it wasn't before.
    fn place(&mut self, place: Place, emitter: &mut Emitter, bindings: &mut Vec<Binding>) -> Value {
        if let Some(value) = emitter.values.get(&place) {
            return value.clone();
        }
        let value = match emitter.places.nodes[place].0 {
            PlaceNode::Root => unreachable!("the root is known from the start"),
            PlaceNode::Part(whole, at) => {
                let whole = crate::stack::grown(|| self.place(whole, emitter, bindings));
                self.parts_of(&whole)[at].clone()
            }
            PlaceNode::Field(object, tag, at) => {
                let ty = emitter.places.nodes[object].1;
                let object = crate::stack::grown(|| self.place(object, emitter, bindings));
                self.field(&object, ty, tag, at, bindings, emitter.span)
            }
        };
        emitter.values.insert(place, value.clone());
        emitter.read.push(place);
        value
    }

    /// Whether a number is one of some literals.
    fn is_one_of(&mut self, atom: Atom, literals: &[Literal], span: Span) -> ExprId {
        let bool = self.program.monos.bool;
        let mut tests = literals.iter().map(|literal| match *literal {
            Literal::Int(value) => Atom::Int(value),
            Literal::Real(bits) => Atom::Real(f64::from_bits(bits)),
        });
        let test = |elaborator: &mut Self, literal| {
            let pair = [atom, literal].map(|atom| elaborator.atom(atom, span));
            elaborator.make(ExprKind::Compare(Comparison::Equal, pair), bool, span)
        };
        let first = tests.next().expect("a case has a literal");
        let mut any = test(self, first);
        for literal in tests {
            let next = test(self, literal);
            any = self.make(ExprKind::Or([any, next]), bool, span);
        }
        any
    }
}

/// Counts the leaves of every arm, and finds the places of its variables in one of them.
fn count_leaves<'t>(tree: &'t Tree, uses: &mut [u32], first_binds: &mut [Option<&'t Binds>]) {
    crate::stack::grown(|| match tree {
        Tree::Fail => {}
        Tree::Leaf { arm, binds } => {
            uses[*arm] += 1;
            first_binds[*arm].get_or_insert(binds);
        }
        Tree::Guard { arm, binds, otherwise } => {
            uses[*arm] += 1;
            first_binds[*arm].get_or_insert(binds);
            count_leaves(otherwise, uses, first_binds);
        }
        Tree::Switch { cases, default, .. } => {
            cases.iter().for_each(|case| count_leaves(&case.1, uses, first_binds));
            default.iter().for_each(|tree| count_leaves(tree, uses, first_binds));
        }
        Tree::Literals { cases, default, .. } => {
            cases.iter().for_each(|case| count_leaves(&case.1, uses, first_binds));
            count_leaves(default, uses, first_binds);
        }
        Tree::Else(first, second) => {
            count_leaves(first, uses, first_binds);
            count_leaves(second, uses, first_binds);
        }
    });
}
