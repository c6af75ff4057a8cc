//! `match`: decision trees to core. A field of an object is read where a test or an arm first needs it; an arm that
//! several leaves choose is a join point whose parameters are its variables.

use super::Elaborator;
use super::branches::Case;
use super::decision::{Chosen, Decider, Literal, Place, PlaceNode, Places, Refused, TESTS_MAX, Tree};
use super::form::{Form, Shaped, Value};
use crate::ast::{self, Arm};
use crate::core::{Atom, Binding, Comparison, ExprId, ExprKind, Join, Label, Labelled, Switch};
use crate::diagnostics::Diagnostic;
use crate::hash::{HashMap, HashSet};
use crate::list::List;
use crate::mono::Mono;
use crate::resolve::LocalId;
use crate::source::Span;

/// So many literals are compared one after the other, and more by halves.
const COMPARED_MAX: usize = 8;

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
        let place = self.program.ast.exprs[value].span;
        let matched = self.type_of(value);
        let value = self.shaped(value);
        let mut bindings = Vec::new();
        let value = self.name_shaped(value, &mut bindings);
        let mut decider = Decider::new(self, arms);
        let tree = match decider.decide(matched) {
            Ok(tree) => tree,
            Err(refused) => return self.refused(refused, place, ty, span),
        };
        let places = decider.places;
        let mut leaves: Vec<Leaves> = arms.iter().map(|_| Leaves::default()).collect();
        count_leaves(&tree, &mut leaves);
        let root = places.nodes.ids().next().expect("the root is the first place");
        let mut emitter = Emitter {
            places: &places,
            arms,
            span,
            values: HashMap::from_iter([(root, value)]),
            read: Vec::new(),
            shared: HashMap::default(),
            failing: Vec::new(),
            leaves: Vec::new(),
        };
        let mut shared: Vec<&Chosen> = Vec::new();
        for first in leaves.iter().filter(|leaves| leaves.count > 1).filter_map(|leaves| leaves.first) {
            let mut locals: Vec<LocalId> = first.binds.iter().map(|bind| bind.0).collect();
            locals.sort_unstable();
            let label = self.body.labels.push(());
            emitter.shared.insert(first.arm, Shared { label, locals });
            shared.push(first);
        }
        let tree = self.tree(&tree, &mut emitter, ty);
        let bodies = shared.into_iter().map(|first| self.shared_arm(first, &mut emitter)).collect();
        let made = self.join(tree, bodies, ty, span);
        // All leaves in one form: their own if they agree.
        let form = self.common_form(&emitter.leaves, ty);
        self.unify_leaves(&emitter.leaves, form);
        let types = self.program.forms.flat(form);
        let leaves: HashSet<ExprId> = emitter.leaves.iter().map(|leaf| leaf.expr).collect();
        self.retype(made, types, &leaves);
        self.block_shaped(bindings, Shaped { expr: made, form })
    }

    fn refused(&mut self, refused: Refused, place: Span, ty: Mono, span: Span) -> Shaped {
        if !std::mem::replace(&mut self.program.gave_up, true) {
            self.program.sink.push(match refused {
                Refused::TooComplicated => {
                    Diagnostic::error(place, "the cases of this `match` are too complicated to be compiled")
                        .help("match one part after the other, with a `match` inside of a case")
                }
                Refused::TooDeep => Diagnostic::error(place, "a pattern of this `match` is too long")
                    .label(format!("more than {TESTS_MAX} tests one after the other"))
                    .help("take long lists apart by a function that calls itself"),
            });
        }
        self.nothing(ty, span)
    }

    /// Makes all leaves plain, in place, if that is the form of the whole.
    pub(super) fn unify_leaves(&mut self, leaves: &[Shaped], form: Form) {
        for leaf in leaves {
            if leaf.form != form && !self.stops(leaf.expr) {
                let old = self.body.exprs[leaf.expr].clone();
                let moved = self.body.exprs.push(old);
                let made = self.materialised(Shaped { expr: moved, form: leaf.form });
                self.body.exprs[leaf.expr] = self.body.exprs[made.expr].clone();
            }
        }
    }

    /// Gives the nodes between a `match` and its leaves the types of the whole. A node that has them already may stand
    /// above others that have those of their own leaves.
    fn retype(&mut self, expr: ExprId, types: crate::core::TypeList, leaves: &HashSet<ExprId>) {
        self.body.exprs[expr].types = types;
        if leaves.contains(&expr) {
            return;
        }
        let children: Vec<ExprId> = match &self.body.exprs[expr].kind {
            ExprKind::Block(_, value) => vec![*value],
            ExprKind::If([_, then, other]) => vec![*then, *other],
            ExprKind::Switch(switch) => switch.arms.iter().map(|arm| arm.1).chain(switch.default).collect(),
            ExprKind::Join(join) => join.parts().collect(),
            _ => Vec::new(),
        };
        crate::stack::grown(|| children.into_iter().for_each(|child| self.retype(child, types, leaves)));
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
                    Some(&label) => ExprKind::Jump(label, List::default()),
                    None => ExprKind::Trap(Box::new("no pattern matches".into())),
                };
                self.make(kind, ty, span)
            }
            Tree::Leaf(chosen) => self.leaf(chosen, emitter, &mut bindings, ty),
            Tree::Guards { guards, otherwise } => {
                let mut cases = Vec::with_capacity(guards.len());
                for chosen in guards {
                    let mut bindings = Vec::new();
                    self.bind_places(chosen, emitter, &mut bindings);
                    let guard = emitter.arms[chosen.arm].guard.expect("only arms with guards are guarded");
                    let cond = self.expr(guard);
                    let then = self.leaf(chosen, emitter, &mut Vec::new(), ty);
                    cases.push(Case { bindings, cond, then, span });
                }
                let other = self.tree(otherwise, emitter, ty);
                self.first_of(cases, other)
            }
            Tree::Switch { place, cases, default } => {
                let object = self.place(*place, emitter, &mut bindings);
                let tags = self.program.fields(emitter.places.nodes[*place].1).len() as u16;
                let mut arms = Vec::new();
                let mut bodies = Vec::new();
                for (case_tags, tree) in cases {
                    let made = self.tree(tree, emitter, ty);
                    if let [tag] = case_tags[..] {
                        arms.push((tag, made));
                        continue;
                    }
                    let label = self.body.labels.push(());
                    for &tag in case_tags {
                        arms.push((tag, self.make(ExprKind::Jump(label, List::default()), ty, span)));
                    }
                    bodies.push(Labelled { label, params: List::default(), body: made });
                }
                let default = default.as_ref().map(|tree| self.tree(tree, emitter, ty));
                let object = self.of_value(&object, span).expr;
                let switch = Switch { object, tags, arms: arms.into(), default };
                let made = self.make(ExprKind::Switch(Box::new(switch)), ty, span);
                self.join(made, bodies, ty, span)
            }
            Tree::Literals { place, cases, default } => {
                let value = self.place(*place, emitter, &mut bindings);
                let atom = value.atoms.first().copied().unwrap_or(Atom::Int(0));
                let cases: Vec<(&[Literal], ExprId)> =
                    cases.iter().map(|(literals, tree)| (&literals[..], self.tree(tree, emitter, ty))).collect();
                let default = self.tree(default, emitter, ty);
                match cases.iter().map(|case| case.0.len()).sum::<usize>() > COMPARED_MAX {
                    true => self.search(atom, cases, default, ty, span),
                    false => self.compare_all(atom, cases, default, span),
                }
            }
            Tree::Else(parts) => {
                let labels: Vec<Label> = parts[1..].iter().map(|_| self.body.labels.push(())).collect();
                let mut made = Vec::with_capacity(parts.len());
                for (at, part) in parts.iter().enumerate() {
                    // The last one fails as the whole does.
                    emitter.failing.extend(labels.get(at));
                    made.push(self.tree(part, emitter, ty));
                    emitter.failing.truncate(emitter.failing.len() - usize::from(at < labels.len()));
                }
                let bodies = made.split_off(1).into_iter().zip(labels);
                let bodies = bodies.map(|(body, label)| Labelled { label, params: List::default(), body }).collect();
                self.join(made[0], bodies, ty, span)
            }
        };
        self.block(bindings, made)
    }

    /// A join point, if there is a label.
    fn join(&mut self, value: ExprId, bodies: Vec<Labelled>, ty: Mono, span: Span) -> ExprId {
        if bodies.is_empty() {
            return value;
        }
        self.make(ExprKind::Join(Box::new(Join { value, bodies: bodies.into() })), ty, span)
    }

    /// A chosen arm: its body, or a jump to it if it is shared.
    fn leaf(&mut self, chosen: &Chosen, emitter: &mut Emitter, bindings: &mut Vec<Binding>, ty: Mono) -> ExprId {
        let Some(Shared { label, locals }) = emitter.shared.get(&chosen.arm) else {
            self.bind_places(chosen, emitter, bindings);
            let made = self.shaped(emitter.arms[chosen.arm].body);
            emitter.leaves.push(made);
            return made.expr;
        };
        let (label, locals) = (*label, locals.clone());
        let places: HashMap<LocalId, Place> = chosen.binds.iter().copied().collect();
        let mut args = Vec::new();
        for local in locals {
            let place = *places.get(&local).expect("alternatives bind the same names");
            let value = self.place(place, emitter, bindings);
            let value = self.of_value(&value, emitter.span);
            args.push(self.materialised(value).expr);
        }
        self.make(ExprKind::Jump(label, args.into()), ty, emitter.span)
    }

    /// The body of a shared arm, behind what jumps to it.
    fn shared_arm(&mut self, first: &Chosen, emitter: &mut Emitter) -> Labelled {
        let Shared { label, locals } = emitter.shared.remove(&first.arm).expect("it was put there before");
        let places: HashMap<LocalId, Place> = first.binds.iter().copied().collect();
        let mut params = Vec::new();
        for local in locals {
            let place = *places.get(&local).expect("it is one of the names");
            let form = self.plain(emitter.places.nodes[place].1);
            let (vars, value) = self.new_value(form);
            params.extend(vars);
            self.locals.insert(local, value);
        }
        let body = self.shaped(emitter.arms[first.arm].body);
        emitter.leaves.push(body);
        Labelled { label, params: params.into(), body: body.expr }
    }

    fn bind_places(&mut self, chosen: &Chosen, emitter: &mut Emitter, bindings: &mut Vec<Binding>) {
        for &(local, place) in &chosen.binds {
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

    /// The case of the literal that a number is equal to, by one comparison after the other.
    fn compare_all(&mut self, atom: Atom, cases: Vec<(&[Literal], ExprId)>, default: ExprId, span: Span) -> ExprId {
        let case = |(literals, then): (&[Literal], ExprId)| {
            let mut equal = literals.iter().map(|&literal| self.compared(atom, Comparison::Equal, literal, span));
            let first = equal.next().expect("a case has a literal");
            let rest: Vec<ExprId> = equal.collect();
            let bool = self.program.monos.bool;
            let cond = rest.into_iter().fold(first, |any, next| self.make(ExprKind::Or([any, next]), bool, span));
            Case { bindings: Vec::new(), cond, then, span }
        };
        let cases = cases.into_iter().map(case).collect();
        self.first_of(cases, default)
    }

    /// The same for many literals, by halves. NaN is not less than anything, and equal to nothing.
    fn search(
        &mut self,
        atom: Atom,
        cases: Vec<(&[Literal], ExprId)>,
        default: ExprId,
        ty: Mono,
        span: Span,
    ) -> ExprId {
        let label = self.body.labels.push(());
        let mut bodies = vec![Labelled { label, params: List::default(), body: default }];
        let mut found: Vec<(Literal, ExprId)> = Vec::new();
        for (literals, body) in cases {
            if let [single] = literals {
                found.push((*single, body));
                continue;
            }
            let label = self.body.labels.push(());
            bodies.push(Labelled { label, params: List::default(), body });
            for &literal in literals {
                found.push((literal, self.make(ExprKind::Jump(label, List::default()), ty, span)));
            }
        }
        found.sort_by(|(a, _), (b, _)| a.order(b));
        let value = self.search_in(atom, &found, label, ty, span);
        self.join(value, bodies, ty, span)
    }

    fn search_in(&mut self, atom: Atom, found: &[(Literal, ExprId)], default: Label, ty: Mono, span: Span) -> ExprId {
        const COMPARED: usize = 4;
        if found.len() > COMPARED {
            let (low, high) = found.split_at(found.len() / 2);
            let cond = self.compared(atom, Comparison::Less, high[0].0, span);
            let [low, high] = [low, high].map(|half| self.search_in(atom, half, default, ty, span));
            return self.make(ExprKind::If([cond, low, high]), ty, span);
        }
        let default = self.make(ExprKind::Jump(default, List::default()), ty, span);
        found.iter().rev().fold(default, |other, &(literal, then)| {
            let cond = self.compared(atom, Comparison::Equal, literal, span);
            self.make(ExprKind::If([cond, then, other]), ty, span)
        })
    }

    fn compared(&mut self, atom: Atom, comparison: Comparison, literal: Literal, span: Span) -> ExprId {
        let literal = match literal {
            Literal::Int(value) => Atom::Int(value),
            Literal::Real(bits) => Atom::Real(f64::from_bits(bits)),
        };
        let pair = [atom, literal].map(|atom| self.atom(atom, span));
        let bool = self.program.monos.bool;
        self.make(ExprKind::Compare(comparison, pair), bool, span)
    }
}

/// The leaves of an arm.
#[derive(Default)]
struct Leaves<'t> {
    count: u32,
    first: Option<&'t Chosen>,
}

impl<'t> Leaves<'t> {
    fn add(&mut self, chosen: &'t Chosen) {
        self.count += 1;
        self.first.get_or_insert(chosen);
    }
}

/// Finds the leaves of every arm.
fn count_leaves<'t>(tree: &'t Tree, leaves: &mut [Leaves<'t>]) {
    crate::stack::grown(|| match tree {
        Tree::Fail => {}
        Tree::Leaf(chosen) => leaves[chosen.arm].add(chosen),
        Tree::Guards { guards, otherwise } => {
            guards.iter().for_each(|chosen| leaves[chosen.arm].add(chosen));
            count_leaves(otherwise, leaves);
        }
        Tree::Switch { cases, default, .. } => {
            cases.iter().for_each(|case| count_leaves(&case.1, leaves));
            default.iter().for_each(|tree| count_leaves(tree, leaves));
        }
        Tree::Literals { cases, default, .. } => {
            cases.iter().for_each(|case| count_leaves(&case.1, leaves));
            count_leaves(default, leaves);
        }
        Tree::Else(parts) => parts.iter().for_each(|part| count_leaves(part, leaves)),
    });
}
