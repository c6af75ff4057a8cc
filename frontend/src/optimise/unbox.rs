//! Arrays of several dimensions as accumulators of loops, in parts: the elements are a variable of their own, and the
//! sizes, which mostly don't change, are none. So no round makes an object of them, and elements can be changed in
//! place (`in_place.rs`). So are those that a `let` names between one loop and the next, if they are made there.

use crate::core::{
    Atom, Binding, Body, Expr, ExprId, ExprKind, Field, Function, Iteration, Loop, Origin, Repeat, TypeList, TypeLists,
    Var,
};
use crate::hash::{HashMap, HashSet};
use crate::limits::Meter;
use crate::list::List;
use dualvm_vm::builder::ModuleBuilder;
use dualvm_vm::module::{TypeDef, ValueType};

/// Takes apart the accumulators of a function's loops of which rounds make new ones, and what is named that is made and
/// read in parts.
pub(super) fn unbox(function: &mut Function, lists: &mut TypeLists, module: &ModuleBuilder, meter: &Meter) {
    let mut loops = Vec::new();
    let mut pending = vec![function.root];
    while let Some(expr) = pending.pop() {
        let node = &function.body.exprs[expr];
        if !meter.step(node.origin.span) {
            return;
        }
        if matches!(node.kind, ExprKind::Loop(_) | ExprKind::Repeat(_)) {
            loops.push(expr);
        }
        node.for_each_child(|child| pending.push(child));
    }
    let mut unboxer = Unboxer { body: &mut function.body, lists, module, meter };
    // Inner loops first: what they give is in parts then.
    for expr in loops.into_iter().rev() {
        unboxer.repeat(expr);
    }
    // At last what these begin with.
    unboxer.named(function.root);
}

struct Unboxer<'u> {
    body: &'u mut Body,
    lists: &'u mut TypeLists,
    module: &'u ModuleBuilder,
    meter: &'u Meter,
}

/// An accumulator in parts.
struct Parts {
    /// The accumulator.
    whole: Var,
    /// Its type.
    ty: ValueType,
    /// The types of the parts.
    types: Vec<ValueType>,
    /// The variables of the parts.
    vars: Vec<Var>,
}

impl Unboxer<'_> {
    /// The fields of the objects of a type that has a shape.
    fn fields(&self, ty: ValueType) -> Option<&[ValueType]> {
        match ty {
            ValueType::Ref(ty) => match self.module.type_def(ty) {
                TypeDef::Shaped(fields) => Some(fields),
                _ => None,
            },
            _ => None,
        }
    }

    fn repeat(&mut self, expr: ExprId) {
        match &self.body.exprs[expr].kind {
            ExprKind::Loop(repeat) => {
                let is_made = |at| self.makes(repeat.body, at);
                let found = self.objects(&repeat.vars, is_made);
                if !found.is_empty() {
                    self.accumulators(expr, &found);
                }
            }
            ExprKind::Repeat(repeat) if !repeat.builds => {
                let is_made = |at| self.jumps_make(repeat, at);
                let found = self.objects(&repeat.params, is_made);
                found.into_iter().for_each(|at| self.parameter(expr, at));
            }
            _ => {}
        }
    }

    /// Which variables are objects that have a shape and are made, the last one first.
    fn objects(&self, vars: &[Var], is_made: impl Fn(usize) -> bool) -> Vec<usize> {
        let wanted = |&at: &usize| self.fields(self.body.vars[vars[at]]).is_some() && is_made(at);
        (0..vars.len()).rev().filter(wanted).collect()
    }

    /// Takes apart what is named that is made there, and of which only parts are read.
    fn named(&mut self, root: ExprId) {
        // What is read as a whole, and what names objects: blocks with one of their bindings.
        let (mut whole, mut naming) = (HashSet::default(), Vec::new());
        let mut pending = vec![root];
        while let Some(expr) = pending.pop() {
            let node = &self.body.exprs[expr];
            if !self.meter.step(node.origin.span) {
                return;
            }
            match &node.kind {
                &ExprKind::Payload(_, object) if matches!(self.body.exprs[object].kind, ExprKind::Var(_)) => continue,
                ExprKind::Var(var) => _ = whole.insert(*var),
                ExprKind::Block(bindings, _) => {
                    let is_object =
                        |binding: &Binding| binding.vars.iter().any(|&var| self.fields(self.body.vars[var]).is_some());
                    let objects = bindings.iter().enumerate().filter(|(_, binding)| is_object(binding));
                    naming.extend(objects.map(|(n, _)| (expr, n)));
                }
                _ => {}
            }
            node.for_each_child(|child| pending.push(child));
        }
        let mut apart: HashMap<Var, Parts> = HashMap::default();
        for (expr, n) in naming {
            let ExprKind::Block(bindings, _) = &self.body.exprs[expr].kind else { continue };
            let Binding { vars, value } = bindings[n].clone();
            let mut new_vars = vars.to_vec();
            for at in (0..vars.len()).rev().filter(|&at| !whole.contains(&vars[at])) {
                if self.makes(value, at)
                    && let Some(parts) = self.parts(vars[at])
                {
                    new_vars.splice(at..=at, parts.vars.iter().copied());
                    self.spread(value, at, &parts);
                    apart.insert(parts.whole, parts);
                }
            }
            if let ExprKind::Block(bindings, _) = &mut self.body.exprs[expr].kind {
                bindings[n].vars = new_vars.into();
            }
        }
        if apart.is_empty() {
            return;
        }
        let mut pending = vec![root];
        while let Some(expr) = pending.pop() {
            if let ExprKind::Payload(field, object) = self.body.exprs[expr].kind
                && let ExprKind::Var(var) = self.body.exprs[object].kind
                && let Some(parts) = apart.get(&var)
            {
                self.body.exprs[expr].kind = ExprKind::Var(parts.vars[usize::from(field.index)]);
            }
            self.body.exprs[expr].for_each_child(|child| pending.push(child));
        }
    }

    /// Whether one of an expression's values is made there.
    fn makes(&self, expr: ExprId, at: usize) -> bool {
        self.make_one(vec![(expr, at)], HashMap::default())
    }

    /// Whether a parameter of a repetition is made where that is jumped back to.
    fn jumps_make(&self, repeat: &Repeat, at: usize) -> bool {
        let (mut given, mut bound) = (Vec::new(), HashMap::default());
        for (_, node) in self.body.nodes_of(repeat.body) {
            if !self.meter.step(node.origin.span) {
                return false;
            }
            match &node.kind {
                ExprKind::Jump(label, args) if *label == repeat.label => given.extend(self.part(args, at)),
                ExprKind::Block(bindings, _) => bind(bindings, &mut bound),
                _ => {}
            }
        }
        self.make_one(given, bound)
    }

    /// Whether one of several values is made in the expression that it is one of. Some variables are known already.
    fn make_one(&self, mut pending: Vec<(ExprId, usize)>, mut bound: HashMap<Var, (ExprId, usize)>) -> bool {
        while let Some((expr, at)) = pending.pop() {
            if !self.meter.go_on() {
                return false;
            }
            match &self.body.exprs[expr].kind {
                ExprKind::Construct(..) => return true,
                ExprKind::Var(var) => pending.extend(bound.remove(var)),
                &ExprKind::If([_, then, other]) => pending.extend([(then, at), (other, at)]),
                ExprKind::Block(bindings, value) => {
                    bind(bindings, &mut bound);
                    pending.push((*value, at));
                }
                ExprKind::Values(parts) => pending.extend(self.part(parts, at)),
                ExprKind::Switch(switch) => {
                    pending.extend(switch.arms.iter().map(|arm| (arm.1, at)));
                    pending.extend(switch.default.map(|arm| (arm, at)));
                }
                _ => {}
            }
        }
        false
    }

    /// The part of several that has a value, and which one of its own that is.
    fn part(&self, parts: &[ExprId], at: usize) -> Option<(ExprId, usize)> {
        self.body.part(self.lists, parts, at)
    }

    /// Takes accumulators of a loop apart, the last one first.
    fn accumulators(&mut self, expr: ExprId, found: &[usize]) {
        let node = self.body.exprs[expr].clone();
        let (ExprKind::Loop(repeat), origin) = (node.kind, node.origin) else { return };
        let Loop { vars, init, iteration, body } = *repeat;
        let mut new_vars = vars.to_vec();
        let mut apart: HashMap<usize, Parts> = HashMap::default();
        for &at in found {
            let Some(parts) = self.parts(vars[at]) else { continue };
            self.spread(init, at, &parts);
            self.spread(body, at, &parts);
            // What reads the accumulator as a whole makes it anew.
            self.reads(body, &parts);
            if let Iteration::While(cond) = iteration {
                self.reads(cond, &parts);
            }
            new_vars.splice(at..=at, parts.vars.iter().copied());
            apart.insert(at, parts);
        }
        let new_types: Vec<ValueType> = new_vars.iter().map(|&var| self.body.vars[var]).collect();
        let repeat = Loop { vars: new_vars.into(), init, iteration, body };
        let value = self.make(ExprKind::Loop(Box::new(repeat)), &new_types, origin);
        let results: List<Var> = new_types.iter().map(|&ty| self.body.vars.push(ty)).collect();
        let mut rest = results.iter().map(|&var| self.var(var, origin)).collect::<Vec<_>>().into_iter();
        let mut given = Vec::with_capacity(vars.len());
        for at in 0..vars.len() {
            match apart.get(&at) {
                Some(parts) => {
                    let fields: List<ExprId> = rest.by_ref().take(parts.types.len()).collect();
                    given.push(self.make(ExprKind::Construct(0, fields), &[parts.ty], origin));
                }
                None => given.extend(rest.next()),
            }
        }
        let binding = Binding { vars: results, value };
        let old_types = self.lists.get(node.types).to_vec();
        let value = match given[..] {
            [only] => only,
            _ => self.make(ExprKind::Values(given.into()), &old_types, origin),
        };
        self.body.exprs[expr].kind = ExprKind::Block(Box::new([binding]), value);
    }

    /// Takes a repetition's parameter apart.
    fn parameter(&mut self, expr: ExprId, at: usize) {
        let ExprKind::Repeat(mut repeat) = self.body.exprs[expr].kind.clone() else { return };
        let Some(parts) = self.parts(repeat.params[at]) else { return };
        self.spread(repeat.init, at, &parts);
        let jumps: Vec<ExprId> = self.body.nodes_of(repeat.body).map(|(expr, _)| expr).collect();
        for jump in jumps {
            if let ExprKind::Jump(label, args) = &self.body.exprs[jump].kind
                && *label == repeat.label
                && let Some((part, within)) = self.part(args, at)
            {
                self.spread(part, within, &parts);
            }
        }
        self.reads(repeat.body, &parts);
        let mut params = repeat.params.to_vec();
        params.splice(at..=at, parts.vars);
        repeat.params = params.into();
        self.body.exprs[expr].kind = ExprKind::Repeat(repeat);
    }

    /// Variables for the parts of one.
    fn parts(&mut self, whole: Var) -> Option<Parts> {
        let ty = self.body.vars[whole];
        let types = self.fields(ty)?.to_vec();
        let vars = types.iter().map(|&ty| self.body.vars.push(ty)).collect();
        Some(Parts { whole, ty, types, vars })
    }

    /// Puts the parts of one of an expression's values in the value's place.
    fn spread(&mut self, expr: ExprId, at: usize, parts: &Parts) {
        crate::stack::grown(|| self.spread_here(expr, at, parts));
    }

    fn spread_here(&mut self, expr: ExprId, at: usize, parts: &Parts) {
        let Expr { kind, types, origin } = self.body.exprs[expr].clone();
        let new_types = self.spread_types(types, at, parts);
        let new = match kind {
            ExprKind::Construct(_, fields) => ExprKind::Values(fields),
            ExprKind::Var(var) if var == parts.whole => {
                ExprKind::Values(parts.vars.iter().map(|&var| self.var(var, origin)).collect())
            }
            ExprKind::Var(var) => ExprKind::Values(self.fields_of(var, parts, origin).into()),
            ExprKind::Trap(_) => kind,
            ExprKind::If([_, then, other]) => {
                self.spread(then, at, parts);
                self.spread(other, at, parts);
                kind
            }
            ExprKind::Switch(ref switch) => {
                let arms: Vec<ExprId> = switch.arms.iter().map(|arm| arm.1).chain(switch.default).collect();
                arms.into_iter().for_each(|arm| self.spread(arm, at, parts));
                kind
            }
            ExprKind::Block(_, value) => {
                self.spread(value, at, parts);
                kind
            }
            ExprKind::Values(ref list) => {
                if let Some((part, within)) = self.part(list, at) {
                    self.spread(part, within, parts);
                }
                kind
            }
            other => {
                // Any other expression gets names for its values.
                let old_types = self.lists.get(types).to_vec();
                let value = self.make(other, &old_types, origin);
                let vars: List<Var> = old_types.iter().map(|&ty| self.body.vars.push(ty)).collect();
                let mut values = Vec::new();
                for (n, &var) in vars.iter().enumerate() {
                    if n != at {
                        values.push(self.var(var, origin));
                        continue;
                    }
                    values.extend(self.fields_of(var, parts, origin));
                }
                let value_types: Vec<ValueType> = self.lists.get(new_types).to_vec();
                let values = self.make(ExprKind::Values(values.into()), &value_types, origin);
                ExprKind::Block(Box::new([Binding { vars, value }]), values)
            }
        };
        self.body.exprs[expr].kind = new;
        self.body.exprs[expr].types = new_types;
    }

    /// Reads of an object's parts.
    fn fields_of(&mut self, object: Var, parts: &Parts, origin: Origin) -> Vec<ExprId> {
        let sizes = (0..).map(Field::size);
        let fields = std::iter::once(Field::ELEMENTS).chain(sizes).zip(&parts.types);
        fields
            .map(|(field, &ty)| {
                let object = self.var(object, origin);
                self.make(ExprKind::Payload(field, object), &[ty], origin)
            })
            .collect()
    }

    fn spread_types(&mut self, types: TypeList, at: usize, parts: &Parts) -> TypeList {
        let mut types = self.lists.get(types).to_vec();
        types.splice(at..=at, parts.types.iter().copied());
        self.lists.intern(&types)
    }

    /// Reads of an accumulator's parts become variables, other uses of it an object that is made there.
    fn reads(&mut self, root: ExprId, parts: &Parts) {
        let mut pending = vec![root];
        while let Some(expr) = pending.pop() {
            let Expr { ref kind, origin, .. } = self.body.exprs[expr];
            let new = match *kind {
                ExprKind::Payload(field, object) if self.is(object, parts.whole) => {
                    ExprKind::Var(parts.vars[usize::from(field.index)])
                }
                ExprKind::Var(var) if var == parts.whole => {
                    let fields = parts.vars.iter().map(|&var| self.var(var, origin)).collect();
                    self.body.exprs[expr].types = self.lists.intern(&[parts.ty]);
                    ExprKind::Construct(0, fields)
                }
                _ => {
                    self.body.exprs[expr].for_each_child(|child| pending.push(child));
                    continue;
                }
            };
            self.body.exprs[expr].kind = new;
        }
    }

    fn is(&self, expr: ExprId, var: Var) -> bool {
        matches!(self.body.exprs[expr].kind, ExprKind::Var(found) if found == var)
    }

    fn make(&mut self, kind: ExprKind, types: &[ValueType], origin: Origin) -> ExprId {
        self.body.exprs.push(Expr { kind, types: self.lists.intern(types), origin })
    }

    fn var(&mut self, var: Var, origin: Origin) -> ExprId {
        self.body.atom(Atom::Var(var), origin, self.lists)
    }
}

/// Notes what variables are: values of expressions.
fn bind(bindings: &[Binding], bound: &mut HashMap<Var, (ExprId, usize)>) {
    for Binding { vars, value } in bindings {
        bound.extend(vars.iter().enumerate().map(|(at, &var)| (var, (*value, at))));
    }
}
