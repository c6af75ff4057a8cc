//! Puts variables in the place of arrays.

use super::Short;
use super::facts::{self, Facts};
use crate::core::{
    Atom, Binding, Expr, ExprId, ExprKind, Function, Inside, Iteration, Label, Labelled, Loop, Origin, Step, TypeList,
    TypeLists, Var,
};
use crate::hash::HashMap;
use crate::limits::{Count, Meter};
use crate::list::List;
use dualvm_vm::module::ValueType;
use smallvec::SmallVec;

/// Puts variables in the place of the arrays that were chosen.
pub(super) fn rewrite(
    function: &mut Function,
    lists: &mut TypeLists,
    facts: &Facts,
    arrays: &HashMap<Var, Short>,
    meter: &Meter,
) {
    let mut apart: Vec<(Var, Short)> = arrays.iter().map(|(&var, &short)| (var, short)).collect();
    apart.sort_unstable_by_key(|&(var, _)| var);
    let parts = |(var, short): (Var, Short)| {
        let vars = short.types().map(|ty| function.body.vars.push(ty)).collect();
        (var, Parts { short, vars })
    };
    let apart = apart.into_iter().map(parts).collect();
    let results = Form::from_elem(None, lists.get(function.results).len());
    let root = function.root;
    let (labels, atoms) = (HashMap::default(), HashMap::default());
    Rewriter { function, lists, facts, meter, apart, labels, atoms }.expr(root, &results);
}

/// An array in parts.
struct Parts {
    short: Short,
    vars: Vec<Var>,
}

/// How values are given, one after the other: as they are, or as the elements of an array.
type Form = SmallVec<[Option<Short>; 4]>;

struct Rewriter<'r> {
    function: &'r mut Function,
    lists: &'r mut TypeLists,
    facts: &'r Facts,
    meter: &'r Meter,
    apart: HashMap<Var, Parts>,
    /// How labels take their parameters.
    labels: HashMap<Label, Form>,
    /// What stands in the place of variables that are names of something else.
    atoms: HashMap<Var, Atom>,
}

impl Rewriter<'_> {
    fn form(&self, vars: &[Var]) -> Form {
        vars.iter().map(|var| self.apart.get(var).map(|parts| parts.short)).collect()
    }

    /// Variables, with the parts of those that are in parts.
    fn spread(&self, vars: &[Var]) -> List<Var> {
        let parts = |var: &Var| self.apart.get(var).map_or_else(|| vec![*var], |parts| parts.vars.clone());
        vars.iter().flat_map(parts).collect()
    }

    fn spread_types(&mut self, types: TypeList, form: &[Option<Short>]) -> TypeList {
        if form.iter().all(Option::is_none) {
            return types;
        }
        let mut spread = Vec::new();
        for (&ty, &short) in self.lists.get(types).iter().zip(form) {
            match short {
                Some(short) => spread.extend(short.types()),
                None => spread.push(ty),
            }
        }
        self.lists.intern(&spread)
    }

    fn count(&self, expr: ExprId) -> usize {
        self.lists.get(self.function.body.exprs[expr].types).len()
    }

    fn make(&mut self, kind: ExprKind, types: &[ValueType], origin: Origin) -> ExprId {
        self.meter.node(Count::Code, origin.span);
        self.function.body.exprs.push(Expr { kind, types: self.lists.intern(types), origin })
    }

    fn atom(&self, var: Var) -> Atom {
        self.atoms.get(&var).copied().unwrap_or(Atom::Var(var))
    }

    fn var(&mut self, var: Var, origin: Origin) -> ExprId {
        self.function.body.atom(self.atom(var), origin, self.lists)
    }

    /// Variables as an expression's values.
    fn values(&mut self, vars: &[Var], origin: Origin) -> ExprKind {
        match vars {
            &[var] => self.atom(var).kind(),
            _ => ExprKind::Values(vars.iter().map(|&var| self.var(var, origin)).collect()),
        }
    }

    /// Makes an array of its parts.
    fn pack(&mut self, short: Short, vars: &[Var], origin: Origin) -> ExprKind {
        let width = usize::from(short.array.width());
        let mut elements = Vec::with_capacity(short.length);
        for element in vars.chunks(width) {
            let kind = self.values(element, origin);
            let types: SmallVec<[ValueType; 4]> = element.iter().map(|_| short.array.holds).collect();
            elements.push(self.make(kind, &types, origin));
        }
        ExprKind::Pack(short.array, elements.into())
    }

    /// Reads the elements of an array that is a variable.
    fn elements(&mut self, short: Short, array: Var, origin: Origin) -> Vec<ExprId> {
        let width = usize::from(short.array.width());
        let types: SmallVec<[ValueType; 4]> = SmallVec::from_elem(short.array.holds, width);
        (0..short.length)
            .map(|at| {
                let index = self.function.body.atom(Atom::Int(at as i64), origin, self.lists);
                let object = self.var(array, origin);
                self.make(ExprKind::Element(short.array, [object, index], Inside::Unknown), &types, origin)
            })
            .collect()
    }

    /// Rewrites an expression so that it gives its values as they are.
    fn whole(&mut self, expr: ExprId) {
        let form = Form::from_elem(None, self.count(expr));
        self.expr(expr, &form);
    }

    /// Rewrites expressions so that they give their values, one after the other, in a form.
    fn all(&mut self, exprs: &[ExprId], mut form: &[Option<Short>]) {
        for &expr in exprs {
            let (own, rest) = form.split_at(self.count(expr).min(form.len()));
            self.expr(expr, own);
            form = rest;
        }
    }

    /// Rewrites an expression so that it gives its values in a form.
    fn expr(&mut self, expr: ExprId, form: &[Option<Short>]) {
        if self.meter.step(self.function.body.exprs[expr].origin.span) {
            crate::stack::grown(|| self.expr_here(expr, form));
        }
    }

    fn expr_here(&mut self, expr: ExprId, form: &[Option<Short>]) {
        let Expr { kind, types, origin } = self.function.body.exprs[expr].clone();
        let wanted = form.first().copied().flatten();
        let new = match kind {
            ExprKind::Var(var) => match (self.apart.get(&var), wanted) {
                (Some(parts), wanted) => {
                    let (short, vars) = (parts.short, parts.vars.clone());
                    match wanted {
                        Some(_) => self.values(&vars, origin),
                        None => self.pack(short, &vars, origin),
                    }
                }
                (None, Some(short)) => ExprKind::Values(self.elements(short, var, origin).into()),
                (None, None) => match self.facts.known(var) {
                    Some(value) if self.lists.get(types) == [ValueType::Int] => ExprKind::Int(value),
                    _ => self.atom(var).kind(),
                },
            },
            ExprKind::Values(ref parts) => {
                self.all(parts, form);
                kind
            }
            ExprKind::Pack(_, ref elements) => {
                elements.iter().for_each(|&element| self.whole(element));
                match wanted {
                    Some(_) => ExprKind::Values(elements.clone()),
                    None => kind,
                }
            }
            ExprKind::Replace(_, [object, index, element])
                if let Some(short) = wanted
                    && let Some(at) = self.index(short, index) =>
            {
                self.expr(object, form);
                self.whole(element);
                self.replaced(short, object, at, element, origin)
            }
            ExprKind::Builder(_, step, ref parts) if let Some(short) = wanted => {
                let shorter = Short { length: short.length.saturating_sub(usize::from(step == Step::Push)), ..short };
                if step != Step::Begin {
                    self.expr(parts[0], &[Some(shorter)]);
                }
                match step {
                    Step::Begin => ExprKind::Values(List::default()),
                    Step::Reserve | Step::Finish => ExprKind::Block(Box::default(), parts[0]),
                    Step::Push => {
                        self.whole(parts[1]);
                        ExprKind::Values(parts.clone())
                    }
                    Step::Extend | Step::Get | Step::Put => unreachable!("such arrays are not chosen"),
                }
            }
            ExprKind::Element(_, [object, index], _)
                if let ExprKind::Var(var) = self.function.body.exprs[object].kind
                    && let Some(parts) = self.apart.get(&var)
                    && let Some(at) = self.index(parts.short, index) =>
            {
                let width = usize::from(parts.short.array.width());
                let element: SmallVec<[Var; 4]> = parts.vars[at * width..][..width].into();
                let kind = self.values(&element, origin);
                return self.adapt(expr, kind, types, form);
            }
            ExprKind::Length(_, object) => match self.function.body.exprs[object].kind {
                ExprKind::Var(var) if let Some(length) = self.facts.known(var) => ExprKind::Int(length),
                _ => {
                    self.whole(object);
                    kind
                }
            },
            ExprKind::Scalar(op, ref args) => {
                args.iter().for_each(|&arg| self.whole(arg));
                let known = args.iter().map(|&arg| self.integer(arg)).collect::<Option<SmallVec<[i64; 2]>>>();
                known.and_then(|args| facts::scalar(op, &args)).map_or(kind, ExprKind::Int)
            }
            ExprKind::Compare(comparison, pair) => {
                pair.into_iter().for_each(|part| self.whole(part));
                match pair.map(|part| self.integer(part)) {
                    [Some(left), Some(right)] => ExprKind::Int(comparison.holds(left.cmp(&right)).into()),
                    _ => kind,
                }
            }
            ExprKind::Not(operand) => {
                self.whole(operand);
                self.integer(operand).map_or(kind, |holds| ExprKind::Int((holds == 0).into()))
            }
            ExprKind::And([first, second]) | ExprKind::Or([first, second]) => {
                self.whole(first);
                let known = self.integer(first).map(|holds| holds != 0);
                let decides = matches!(kind, ExprKind::Or(_));
                match known {
                    Some(holds) if holds == decides => ExprKind::Int(holds.into()),
                    _ => {
                        self.whole(second);
                        known.map_or(kind, |_| ExprKind::Block(Box::default(), second))
                    }
                }
            }
            ExprKind::If([cond, then, other]) => {
                self.whole(cond);
                let known = self.integer(cond).map(|holds| if holds != 0 { (then, other) } else { (other, then) });
                match known {
                    // What is jumped to may read what was bound before.
                    Some((taken, dropped)) if !self.jumps(dropped) => {
                        self.expr(taken, form);
                        ExprKind::Block(Box::default(), taken)
                    }
                    _ => {
                        [then, other].into_iter().for_each(|branch| self.expr(branch, form));
                        kind
                    }
                }
            }
            ExprKind::Switch(ref switch) => {
                self.whole(switch.object);
                let arms = switch.arms.iter().map(|arm| arm.1).chain(switch.default);
                arms.for_each(|arm| self.expr(arm, form));
                kind
            }
            ExprKind::Block(bindings, value) => {
                let bindings = bindings.into_iter().filter_map(|Binding { vars, value }| {
                    let form = self.form(&vars);
                    self.expr(value, &form);
                    let vars = self.spread(&vars);
                    (!self.names(&vars, value)).then_some(Binding { vars, value })
                });
                let bindings: Box<[Binding]> = bindings.collect();
                self.expr(value, form);
                ExprKind::Block(bindings, value)
            }
            ExprKind::Loop(repeat) => return self.repeat(expr, *repeat, types, form),
            ExprKind::Repeat(mut repeat) => {
                let params = self.form(&repeat.params);
                self.expr(repeat.init, &params);
                self.labels.insert(repeat.label, params);
                repeat.params = self.spread(&repeat.params);
                if repeat.builds {
                    self.whole(repeat.body);
                    return self.adapt(expr, ExprKind::Repeat(repeat), types, form);
                }
                self.expr(repeat.body, form);
                ExprKind::Repeat(repeat)
            }
            ExprKind::Join(mut join) => {
                for Labelled { label, params, .. } in &mut join.bodies {
                    let own = self.form(params);
                    self.labels.insert(*label, own);
                    *params = self.spread(params);
                }
                join.parts().for_each(|part| self.expr(part, form));
                ExprKind::Join(join)
            }
            ExprKind::Jump(label, ref args) => {
                let params = self.labels.get(&label).cloned().unwrap_or_default();
                self.all(args, &params);
                kind
            }
            ExprKind::Trap(ref text) => {
                text.args.iter().for_each(|&arg| self.whole(arg));
                kind
            }
            kind => {
                let mut children: SmallVec<[ExprId; 4]> = SmallVec::new();
                self.function.body.exprs[expr].for_each_child(|child| children.push(child));
                children.into_iter().for_each(|child| self.whole(child));
                return self.adapt(expr, kind, types, form);
            }
        };
        let types = self.spread_types(types, form);
        self.function.body.exprs[expr] = Expr { kind: new, types, origin };
    }

    /// Whether variables are nothing but names of atoms, which stand in their place then.
    fn names(&mut self, vars: &[Var], value: ExprId) -> bool {
        let body = &self.function.body;
        let mut atoms: SmallVec<[Atom; 8]> = SmallVec::new();
        let mut pending: SmallVec<[ExprId; 8]> = SmallVec::from_slice(&[value]);
        while let Some(expr) = pending.pop() {
            match &body.exprs[expr].kind {
                ExprKind::Var(var) => atoms.push(Atom::Var(*var)),
                ExprKind::Real(real) => atoms.push(Atom::Real(*real)),
                ExprKind::Int(int) => atoms.push(Atom::Int(*int)),
                ExprKind::Values(parts) => pending.extend(parts.iter().rev().copied()),
                ExprKind::Block(bindings, value) if bindings.is_empty() => pending.push(*value),
                _ => return false,
            }
        }
        self.atoms.extend(vars.iter().copied().zip(atoms));
        true
    }

    fn jumps(&self, expr: ExprId) -> bool {
        let mut nodes = self.function.body.nodes_of(expr);
        nodes.any(|(_, node)| !self.meter.step(node.origin.span) || matches!(node.kind, ExprKind::Jump(..)))
    }

    /// The element that an index is of, if that is known.
    fn index(&self, short: Short, index: ExprId) -> Option<usize> {
        let at = usize::try_from(self.facts.integer(&self.function.body, index)?).ok()?;
        (at < short.length).then_some(at)
    }

    /// The integer that an expression is that was rewritten, if it is known.
    fn integer(&self, mut expr: ExprId) -> Option<i64> {
        loop {
            expr = match &self.function.body.exprs[expr].kind {
                ExprKind::Int(value) => return Some(*value),
                ExprKind::Block(bindings, value) if bindings.is_empty() => *value,
                _ => return None,
            };
        }
    }

    /// The parts of an array with another element.
    fn replaced(&mut self, short: Short, object: ExprId, at: usize, element: ExprId, origin: Origin) -> ExprKind {
        let vars: Vec<Var> = short.types().map(|ty| self.function.body.vars.push(ty)).collect();
        let width = usize::from(short.array.width());
        let elements = vars.chunks(width).enumerate().map(|(n, element_vars)| {
            if n == at {
                return element;
            }
            let kind = self.values(element_vars, origin);
            let types: SmallVec<[ValueType; 4]> = SmallVec::from_elem(short.array.holds, width);
            self.make(kind, &types, origin)
        });
        let elements: List<ExprId> = elements.collect();
        let types: Vec<ValueType> = short.types().collect();
        let values = self.make(ExprKind::Values(elements), &types, origin);
        ExprKind::Block(Box::new([Binding { vars: vars.into(), value: object }]), values)
    }

    fn repeat(&mut self, expr: ExprId, repeat: Loop, types: TypeList, form: &[Option<Short>]) {
        let Loop { vars, init, iteration, body } = repeat;
        let carried = self.form(&vars);
        self.expr(init, &carried);
        match iteration {
            Iteration::While(cond) => self.whole(cond),
            Iteration::Range(range) => [range.from, range.to].into_iter().for_each(|bound| self.whole(bound)),
        }
        self.expr(body, &carried);
        let repeat = Loop { vars: self.spread(&vars), init, iteration, body };
        self.adapt_from(expr, ExprKind::Loop(Box::new(repeat)), types, &carried, form);
    }

    /// Puts an expression that gives its values as they are in the place of another one, in a form.
    fn adapt(&mut self, expr: ExprId, kind: ExprKind, types: TypeList, form: &[Option<Short>]) {
        let given = Form::from_elem(None, form.len());
        self.adapt_from(expr, kind, types, &given, form);
    }

    fn adapt_from(
        &mut self,
        expr: ExprId,
        kind: ExprKind,
        types: TypeList,
        given: &[Option<Short>],
        form: &[Option<Short>],
    ) {
        let origin = self.function.body.exprs[expr].origin;
        let given_types = self.spread_types(types, given);
        let is_same = given.iter().zip(form).all(|(given, wanted)| given.is_some() == wanted.is_some());
        if is_same {
            self.function.body.exprs[expr] = Expr { kind, types: given_types, origin };
            return;
        }
        let value = self.function.body.exprs.push(Expr { kind, types: given_types, origin });
        let names: Vec<Var> = self.lists.get(given_types).iter().map(|&ty| self.function.body.vars.push(ty)).collect();
        let old_types = self.lists.get(types).to_vec();
        let mut rest = &names[..];
        let mut values = Vec::new();
        for ((&given, &wanted), &ty) in given.iter().zip(form).zip(&old_types) {
            let (own, others) = rest.split_at(given.map_or(1, Short::parts));
            rest = others;
            match (given, wanted) {
                (Some(short), None) => {
                    let kind = self.pack(short, own, origin);
                    values.push(self.make(kind, &[ty], origin));
                }
                (None, Some(short)) => values.extend(self.elements(short, own[0], origin)),
                _ => values.extend(own.iter().map(|&var| self.var(var, origin)).collect::<Vec<_>>()),
            }
        }
        let new_types = self.spread_types(types, form);
        let value_kind = ExprKind::Values(values.into());
        let values = self.function.body.exprs.push(Expr { kind: value_kind, types: new_types, origin });
        let kind = ExprKind::Block(Box::new([Binding { vars: names.into(), value }]), values);
        self.function.body.exprs[expr] = Expr { kind, types: new_types, origin };
    }
}
