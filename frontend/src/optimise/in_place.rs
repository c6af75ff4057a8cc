//! Arrays that are changed where they are: a loop's accumulator that is replaced, element by element, and that nothing
//! else refers to is a builder from the first round to the last. To change an element takes constant time then, in
//! place of a copy.
//!
//! Such a *version* of the array is read by index and by length, and ends in one way: a changed element makes the next
//! version of it, or the round ends with it. So what an element is read from is always the newest version, and nobody
//! can tell. Loops inside may hand a version on. The walk goes through a round in the order of evaluation; what it
//! doesn't know is no use of a version.
//!
//! The parameters of a repetition, which a tail call or a list makes, are such accumulators, and a jump back ends the
//! round. Without a jump, what the repetition ends with may do anything with the array, which is finished before it.

use crate::copied::CopyReason;
use crate::core::{
    ArrayType, Atom, Binding, Body, Expr, ExprId, ExprKind, Function, Iteration, Label, Loop, Origin, Step, Switch,
    Text, TypeLists, Var,
};
use crate::hash::{HashMap, HashSet};
use crate::limits::Meter;
use crate::list::List;
use dualvm_vm::builder::ModuleBuilder;
use dualvm_vm::module::{TypeDef, ValueType};

/// Changes a function's arrays where they are. Says of the others that loops carry what is in the way; `None` if the
/// function changes no array.
pub(super) fn change(
    function: &mut Function,
    lists: &mut TypeLists,
    module: &mut ModuleBuilder,
    meter: &Meter,
) -> Option<HashMap<Var, Refusal>> {
    // Loops before those inside of them, which may be part of what is done for the outer ones.
    let mut loops = Vec::new();
    let mut pending = vec![function.root];
    let mut replaces = false;
    while let Some(expr) = pending.pop() {
        let node = &function.body.exprs[expr];
        if !meter.step(node.origin.span) {
            return None;
        }
        replaces |= matches!(node.kind, ExprKind::Replace(..));
        if matches!(node.kind, ExprKind::Loop(_) | ExprKind::Repeat(_)) {
            loops.push(expr);
        }
        node.for_each_child(|child| pending.push(child));
    }
    if !replaces {
        return None;
    }
    let mut refusals = HashMap::default();
    for mut expr in loops {
        let mut at = 0;
        while let Some(&var) = carried(&function.body, expr).get(at) {
            if let ValueType::Ref(_) = function.body.vars[var] {
                match Walker::new(&function.body, lists, meter).accumulator(expr, at) {
                    Ok(Some(found)) => {
                        let mut rewriter = Rewriter { body: &mut function.body, lists, module, found: &found };
                        expr = rewriter.accumulator(expr, at);
                    }
                    Ok(None) => {}
                    Err(Refused { reason, at }) => {
                        let cause = function.body.exprs[at].origin;
                        refusals.extend(reason.map(|reason| (var, Refusal { reason, cause })));
                    }
                }
            }
            at += 1;
        }
    }
    Some(refusals)
}

/// Why an array that a loop carries can't be changed in place.
#[derive(Clone, Copy)]
pub(super) struct Refusal {
    pub(super) reason: CopyReason,
    /// What is in the way.
    pub(super) cause: Origin,
}

/// The variables that hold the versions of an accumulator of a loop, and how these hold their elements, if it can be
/// changed in place.
pub(super) fn versions(
    body: &Body,
    lists: &TypeLists,
    meter: &Meter,
    (expr, at): (ExprId, usize),
) -> Option<(HashSet<Var>, ArrayType)> {
    let found = Walker::new(body, lists, meter).accumulator(expr, at).ok()??;
    Some((found.versions, found.array))
}

/// What a loop carries from one round to the next.
fn carried(body: &Body, expr: ExprId) -> &[Var] {
    match &body.exprs[expr].kind {
        ExprKind::Loop(repeat) => &repeat.vars,
        ExprKind::Repeat(repeat) => &repeat.params,
        _ => &[],
    }
}

/// What an accumulator's versions are.
struct Found {
    /// The variables that hold them.
    versions: HashSet<Var>,
    /// What reads the last version as it is where a repetition ends, with the variable.
    ends: Vec<(ExprId, Var)>,
    /// How the array holds its elements.
    array: ArrayType,
}

/// Looks whether an array can be changed in place.
struct Walker<'w> {
    body: &'w Body,
    lists: &'w TypeLists,
    meter: &'w Meter,
    versions: HashSet<Var>,
    /// The newest version; `None` where it has become part of an expression that is still to be named.
    newest: Option<Var>,
    ends: Vec<(ExprId, Var)>,
    array: Option<ArrayType>,
    /// Whether a version has another element than the one before.
    changes: bool,
}

/// The array can't be changed in place.
struct Refused {
    /// Why, if there are words for it.
    reason: Option<CopyReason>,
    /// The expression that is in the way.
    at: ExprId,
}

type Walk = Result<(), Refused>;

/// There are no words for it.
fn refused(at: ExprId) -> Refused {
    Refused { reason: None, at }
}

impl<'w> Walker<'w> {
    fn new(body: &'w Body, lists: &'w TypeLists, meter: &'w Meter) -> Self {
        let (versions, ends) = (HashSet::default(), Vec::new());
        Walker { body, lists, meter, versions, newest: None, ends, array: None, changes: false }
    }

    /// The versions of an accumulator of a loop, if one of its rounds changes it and all may.
    fn accumulator(mut self, expr: ExprId, at: usize) -> Result<Option<Found>, Refused> {
        match &self.body.exprs[expr].kind {
            ExprKind::Loop(repeat) => self.rounds(repeat, at)?,
            ExprKind::Repeat(repeat) if !repeat.builds => {
                let var = repeat.params[at];
                self.versions.insert(var);
                self.newest = Some(var);
                self.goes_on(repeat.body, repeat.label, at)?;
            }
            _ => return Err(refused(expr)),
        }
        let array = self.array.filter(|_| self.changes);
        Ok(array.map(|array| Found { versions: self.versions, ends: self.ends, array }))
    }

    /// The rounds of a loop that begins with the newest version in a variable.
    fn rounds(&mut self, repeat: &Loop, at: usize) -> Walk {
        let var = repeat.vars[at];
        self.versions.insert(var);
        self.newest = Some(var);
        if let Iteration::While(cond) = repeat.iteration {
            self.reads(cond)?;
        }
        self.hands_on(repeat.body, at)
    }

    /// What a repetition does with the newest version: it hands it on where it jumps back, or ends with it.
    fn goes_on(&mut self, expr: ExprId, back: Label, at: usize) -> Walk {
        if !self.meter.step(self.body.exprs[expr].origin.span) {
            return Err(refused(expr));
        }
        crate::stack::grown(|| self.goes_on_here(expr, back, at))
    }

    fn goes_on_here(&mut self, expr: ExprId, back: Label, at: usize) -> Walk {
        let body = self.body;
        match &body.exprs[expr].kind {
            ExprKind::Block(bindings, value) => {
                bindings.iter().try_for_each(|binding| self.binding(binding))?;
                self.goes_on(*value, back, at)
            }
            &ExprKind::If([cond, then, other]) => {
                self.reads(cond)?;
                self.either(&[then, other], |walker, arm| walker.goes_on(arm, back, at))
            }
            ExprKind::Switch(switch) => {
                self.reads(switch.object)?;
                self.either(&arms(switch), |walker, arm| walker.goes_on(arm, back, at))
            }
            ExprKind::Jump(label, args) if *label == back => self.hands_on_one(expr, args, at),
            _ => self.ends(expr, back),
        }
    }

    /// An expression that a repetition ends with has the newest version as an array, if any.
    fn ends(&mut self, expr: ExprId, back: Label) -> Walk {
        let mut reads = false;
        for (part, node) in self.body.nodes_of(expr) {
            if !self.meter.step(node.origin.span) {
                return Err(refused(part));
            }
            match &node.kind {
                ExprKind::Var(var) if Some(*var) == self.newest => reads = true,
                ExprKind::Var(var) if self.versions.contains(var) => return Err(self.is_read(part, *var)),
                ExprKind::Jump(label, _) if *label == back => return Err(refused(part)),
                _ => {}
            }
        }
        self.ends.extend(self.newest.filter(|_| reads).map(|newest| (expr, newest)));
        Ok(())
    }

    /// An expression that isn't one of a version, but may read it.
    fn reads(&mut self, expr: ExprId) -> Walk {
        if !self.meter.step(self.body.exprs[expr].origin.span) {
            return Err(refused(expr));
        }
        crate::stack::grown(|| self.reads_here(expr))
    }

    fn reads_here(&mut self, expr: ExprId) -> Walk {
        let body = self.body;
        let node = &body.exprs[expr];
        match &node.kind {
            ExprKind::Var(var) if self.versions.contains(var) => Err(self.is_read(expr, *var)),
            &ExprKind::Element(array, [source, index], _) if self.is_version(source) => {
                self.reads_newest(source)?;
                self.reads(index)?;
                self.reads_newest(source)?;
                self.is_of(expr, array)
            }
            &ExprKind::Length(array, source) if self.is_version(source) => {
                self.reads_newest(source)?;
                self.is_of(expr, array)
            }
            ExprKind::Block(bindings, value) => {
                bindings.iter().try_for_each(|binding| self.binding(binding))?;
                self.reads(*value)
            }
            ExprKind::Trap(text) => self.shows(text),
            _ => {
                let mut children = Vec::new();
                node.for_each_child(|child| children.push(child));
                let before = self.newest;
                for child in children {
                    self.reads(child)?;
                    // What may or may not be evaluated, or often, hands nothing on that it doesn't bind itself.
                    if self.newest != before {
                        return Err(refused(child));
                    }
                }
                Ok(())
            }
        }
    }

    /// A text that the program stops with may show the newest version, once: nothing reads that afterwards.
    fn shows(&mut self, text: &Text) -> Walk {
        let parts = parts_shown(self.body, text);
        let shown = parts.iter().filter(|&&part| self.is_version(part)).count();
        for part in parts {
            let is_atom = matches!(self.body.exprs[part].kind, ExprKind::Var(_) | ExprKind::Int(_) | ExprKind::Real(_));
            match (self.is_version(part), shown) {
                (true, 1) => self.reads_newest(part)?,
                (true, _) => return Err(refused(part)),
                // What is computed may read what is shown before it.
                (false, 1) if !is_atom => return Err(refused(part)),
                (false, _) => self.reads(part)?,
            }
        }
        Ok(())
    }

    fn is_version(&self, expr: ExprId) -> bool {
        matches!(&self.body.exprs[expr].kind, ExprKind::Var(var) if self.versions.contains(var))
    }

    fn reads_newest(&self, expr: ExprId) -> Walk {
        match self.body.exprs[expr].kind {
            ExprKind::Var(var) if Some(var) == self.newest => Ok(()),
            ExprKind::Var(var) if self.versions.contains(&var) => Err(self.is_read(expr, var)),
            _ => Err(Refused { reason: Some(CopyReason::OtherArray), at: expr }),
        }
    }

    /// A version is read in a way that a builder isn't.
    fn is_read(&self, at: ExprId, var: Var) -> Refused {
        let is_newest = self.newest == Some(var);
        Refused { reason: Some(if is_newest { CopyReason::UsedAsWhole } else { CopyReason::ReadLater }), at }
    }

    /// All versions hold elements in one way.
    fn is_of(&mut self, expr: ExprId, array: ArrayType) -> Walk {
        let known = *self.array.get_or_insert(array);
        if known == array { Ok(()) } else { Err(refused(expr)) }
    }

    /// A binding may name the next version.
    fn binding(&mut self, binding: &Binding) -> Walk {
        let handed: Vec<usize> = (0..binding.vars.len()).filter(|&at| self.is_handed(binding.value, at)).collect();
        match handed[..] {
            [] => self.reads(binding.value),
            [at] => {
                self.hands_on(binding.value, at)?;
                self.versions.insert(binding.vars[at]);
                self.newest = Some(binding.vars[at]);
                Ok(())
            }
            _ => Err(Refused { reason: Some(CopyReason::SeveralNames), at: binding.value }),
        }
    }

    /// Whether one of an expression's values looks like a version: where it goes on leads to one.
    fn is_handed(&self, expr: ExprId, at: usize) -> bool {
        let mut pending = vec![(expr, at)];
        // What is bound on the way.
        let mut bound: HashMap<Var, (ExprId, usize)> = HashMap::default();
        while let Some((expr, at)) = pending.pop() {
            if !self.meter.step(self.body.exprs[expr].origin.span) {
                return false;
            }
            match &self.body.exprs[expr].kind {
                ExprKind::Var(var) if self.versions.contains(var) => return true,
                ExprKind::Var(var) => pending.extend(bound.remove(var)),
                &ExprKind::Replace(_, [array, ..]) => pending.push((array, 0)),
                &ExprKind::If([_, then, other]) => pending.extend([(then, at), (other, at)]),
                ExprKind::Block(bindings, value) => {
                    for Binding { vars, value } in bindings {
                        bound.extend(vars.iter().enumerate().map(|(at, &var)| (var, (*value, at))));
                    }
                    pending.push((*value, at));
                }
                ExprKind::Values(parts) => pending.extend(self.part(parts, at)),
                ExprKind::Switch(switch) => {
                    pending.extend(switch.arms.iter().map(|arm| (arm.1, at)));
                    pending.extend(switch.default.map(|arm| (arm, at)));
                }
                ExprKind::Loop(repeat) => pending.push((repeat.init, at)),
                _ => {}
            }
        }
        false
    }

    /// The part of several that has a value, and which one of its own that is.
    fn part(&self, parts: &[ExprId], at: usize) -> Option<(ExprId, usize)> {
        self.body.part(self.lists, parts, at)
    }

    /// An expression one of whose values is the next version.
    fn hands_on(&mut self, expr: ExprId, at: usize) -> Walk {
        if !self.meter.step(self.body.exprs[expr].origin.span) {
            return Err(refused(expr));
        }
        crate::stack::grown(|| self.hands_on_here(expr, at))
    }

    fn hands_on_here(&mut self, expr: ExprId, at: usize) -> Walk {
        let body = self.body;
        match &body.exprs[expr].kind {
            ExprKind::Var(_) => {
                self.reads_newest(expr)?;
                self.newest = None;
                Ok(())
            }
            &ExprKind::Replace(array, [source, index, element]) => {
                // The version is named by what is evaluated first, and still the newest when that has been read.
                match self.is_version(source) {
                    true => self.reads_newest(source)?,
                    false => self.hands_on(source, 0)?,
                }
                self.reads(index)?;
                self.reads(element)?;
                if self.is_version(source) {
                    self.reads_newest(source)?;
                }
                self.newest = None;
                self.changes = true;
                self.is_of(expr, array)
            }
            ExprKind::Trap(text) => {
                self.shows(text)?;
                self.newest = None;
                Ok(())
            }
            &ExprKind::If([cond, then, other]) => {
                self.reads(cond)?;
                self.either(&[then, other], |walker, arm| walker.hands_on(arm, at))
            }
            ExprKind::Switch(switch) => {
                self.reads(switch.object)?;
                self.either(&arms(switch), |walker, arm| walker.hands_on(arm, at))
            }
            ExprKind::Block(bindings, value) => {
                bindings.iter().try_for_each(|binding| self.binding(binding))?;
                self.hands_on(*value, at)
            }
            ExprKind::Values(parts) => self.hands_on_one(expr, parts, at),
            ExprKind::Loop(repeat) => {
                self.hands_on(repeat.init, at)?;
                if let Iteration::Range(range) = repeat.iteration {
                    self.reads(range.from)?;
                    self.reads(range.to)?;
                }
                self.rounds(repeat, at)
            }
            _ => Err(Refused { reason: Some(CopyReason::OtherArray), at: expr }),
        }
    }

    /// Several expressions, one of whose values is the next version.
    fn hands_on_one(&mut self, expr: ExprId, parts: &[ExprId], at: usize) -> Walk {
        let (threaded, within) = self.part(parts, at).ok_or(refused(expr))?;
        // A name is nothing that is evaluated: what stands behind it may still read the version.
        let is_name = self.names(threaded);
        for &part in parts {
            match part == threaded {
                true if is_name => {}
                true => self.hands_on(part, within)?,
                false => self.reads(part)?,
            }
        }
        if is_name { self.hands_on(threaded, within) } else { Ok(()) }
    }

    /// Whether an expression names values, such as the parts of a matrix, and computes none.
    fn names(&self, expr: ExprId) -> bool {
        let is_atom = |expr: ExprId| {
            matches!(self.body.exprs[expr].kind, ExprKind::Var(_) | ExprKind::Int(_) | ExprKind::Real(_))
        };
        match &self.body.exprs[expr].kind {
            ExprKind::Values(parts) => parts.iter().all(|&part| is_atom(part)),
            _ => is_atom(expr),
        }
    }

    /// One of several, to each of which the newest version comes.
    fn either(&mut self, arms: &[ExprId], mut walk: impl FnMut(&mut Self, ExprId) -> Walk) -> Walk {
        let newest = self.newest;
        for &arm in arms {
            self.newest = newest;
            walk(self, arm)?;
        }
        Ok(())
    }
}

/// What is evaluated for the tags of a choice.
fn arms(switch: &Switch) -> Vec<ExprId> {
    switch.arms.iter().map(|arm| arm.1).chain(switch.default).collect()
}

/// What a text takes, in the order of evaluation: of an object that is made for it, the fields.
fn parts_shown(body: &Body, text: &Text) -> Vec<ExprId> {
    let mut parts = Vec::new();
    for &arg in &text.args {
        match &body.exprs[arg].kind {
            ExprKind::Construct(_, fields) => parts.extend(fields),
            _ => parts.push(arg),
        }
    }
    parts
}

/// Makes builders of versions.
struct Rewriter<'r> {
    body: &'r mut Body,
    lists: &'r mut TypeLists,
    module: &'r mut ModuleBuilder,
    found: &'r Found,
}

/// What the array was before the first round.
#[derive(Clone, Copy)]
struct Before {
    array: Var,
    length: Var,
}

impl Rewriter<'_> {
    /// Makes a builder of an accumulator of a loop. Returns where the loop is then.
    fn accumulator(&mut self, expr: ExprId, at: usize) -> ExprId {
        let builder = ValueType::Ref(self.module.intern_type(TypeDef::Builder(self.found.array.holds)));
        for &version in &self.found.versions {
            self.body.vars[version] = builder;
        }
        let Expr { kind, types, origin } = self.body.exprs[expr].clone();
        let mut bindings = Vec::new();
        let (repeat, value) = match kind {
            ExprKind::Loop(mut repeat) => {
                let before = self.begin(&mut repeat.init, at, &mut bindings);
                if let Iteration::While(cond) = repeat.iteration {
                    self.expr(cond, before);
                }
                self.expr(repeat.body, before);
                let old_types = self.lists.get(types).to_vec();
                let mut new_types = old_types.clone();
                new_types[at] = builder;
                let repeat = self.make(ExprKind::Loop(repeat), &new_types, origin);
                let results: List<Var> = new_types.iter().map(|&ty| self.body.vars.push(ty)).collect();
                let mut parts: Vec<ExprId> = results.iter().map(|&var| self.var(var, origin)).collect();
                parts[at] = self.step(Step::Finish, vec![parts[at]], old_types[at], origin);
                bindings.push(Binding { vars: results, value: repeat });
                (repeat, self.make(ExprKind::Values(parts.into()), &old_types, origin))
            }
            ExprKind::Repeat(mut repeat) => {
                let before = self.begin(&mut repeat.init, at, &mut bindings);
                for &(end, version) in &self.found.ends {
                    self.end(end, version, before);
                }
                self.expr(repeat.body, before);
                let repeat = self.body.exprs.push(Expr { kind: ExprKind::Repeat(repeat), types, origin });
                (repeat, repeat)
            }
            _ => return expr,
        };
        self.body.exprs[expr].kind = ExprKind::Block(bindings.into(), value);
        repeat
    }

    /// The first values get names, and the array becomes a builder.
    fn begin(&mut self, init: &mut ExprId, at: usize, bindings: &mut Vec<Binding>) -> Before {
        let Expr { types, origin, .. } = self.body.exprs[*init];
        let mut types = self.lists.get(types).to_vec();
        let mut atoms = Vec::new();
        self.body.name_values(*init, self.lists, bindings, &mut atoms);
        let array = self.named(atoms[at], types[at], origin, bindings);
        let length = self.body.vars.push(ValueType::Int);
        let source = self.var(array, origin);
        let value = self.make(ExprKind::Length(self.found.array, source), &[ValueType::Int], origin);
        bindings.push(Binding { vars: List::from([length]), value });
        types[at] = ValueType::Ref(self.module.intern_type(TypeDef::Builder(self.found.array.holds)));
        let room = self.var(length, origin);
        let empty = self.step(Step::Begin, vec![room], types[at], origin);
        let source = self.var(array, origin);
        let first = self.step(Step::Extend, vec![empty, source], types[at], origin);
        let values: List<ExprId> = (0..)
            .zip(atoms)
            .map(|(n, atom)| if n == at { first } else { self.body.atom(atom, origin, self.lists) })
            .collect();
        *init = self.make(ExprKind::Values(values), &types, origin);
        Before { array, length }
    }

    /// Finishes the last version before an expression that reads it as an array.
    fn end(&mut self, expr: ExprId, version: Var, before: Before) {
        let ty = self.body.vars[before.array];
        let array = self.body.vars.push(ty);
        let nodes: Vec<ExprId> = self.body.nodes_of(expr).map(|(node, _)| node).collect();
        for node in nodes {
            if matches!(self.body.exprs[node].kind, ExprKind::Var(var) if var == version) {
                self.body.exprs[node].kind = ExprKind::Var(array);
            }
        }
        let Expr { kind, types, origin } = self.body.exprs[expr].clone();
        let builder = self.var(version, origin);
        let value = self.step(Step::Finish, vec![builder], ty, origin);
        let last = self.body.exprs.push(Expr { kind, types, origin });
        let binding = Binding { vars: List::from([array]), value };
        self.body.exprs[expr].kind = ExprKind::Block(Box::new([binding]), last);
    }

    /// A variable that holds an atom.
    fn named(&mut self, atom: Atom, ty: ValueType, origin: Origin, bindings: &mut Vec<Binding>) -> Var {
        if let Atom::Var(var) = atom {
            return var;
        }
        let (var, value) = (self.body.vars.push(ty), self.body.atom(atom, origin, self.lists));
        bindings.push(Binding { vars: List::from([var]), value });
        var
    }

    fn make(&mut self, kind: ExprKind, types: &[ValueType], origin: Origin) -> ExprId {
        self.body.exprs.push(Expr { kind, types: self.lists.intern(types), origin })
    }

    fn step(&mut self, step: Step, parts: Vec<ExprId>, ty: ValueType, origin: Origin) -> ExprId {
        self.make(ExprKind::Builder(self.found.array, step, parts.into()), &[ty], origin)
    }

    fn var(&mut self, var: Var, origin: Origin) -> ExprId {
        self.body.atom(Atom::Var(var), origin, self.lists)
    }

    /// Puts steps of the builder in the place of what is done with versions, and the builder's type where a version is
    /// handed on.
    fn expr(&mut self, root: ExprId, before: Before) {
        // Children after parents.
        let mut order = Vec::new();
        let mut pending = vec![root];
        while let Some(expr) = pending.pop() {
            order.push(expr);
            self.body.exprs[expr].for_each_child(|child| pending.push(child));
        }
        let mut retyping = Retyping::default();
        for &expr in order.iter().rev() {
            let Expr { kind, origin, .. } = self.body.exprs[expr].clone();
            let bounds = |rewriter: &mut Self, parts: &mut Vec<ExprId>| {
                // An index of elements that take several places is checked by the array that there was before.
                if rewriter.found.array.width() > 1 {
                    parts.push(rewriter.var(before.array, origin));
                }
            };
            let new = match kind {
                ExprKind::Element(array, pair, _) if self.is_builder(pair[0]) => {
                    let mut parts = pair.to_vec();
                    bounds(self, &mut parts);
                    ExprKind::Builder(array, Step::Get, parts.into())
                }
                ExprKind::Length(_, source) if self.is_builder(source) => ExprKind::Var(before.length),
                ExprKind::Replace(array, parts) if self.is_builder(parts[0]) => {
                    let mut parts = parts.to_vec();
                    bounds(self, &mut parts);
                    ExprKind::Builder(array, Step::Put, parts.into())
                }
                ExprKind::Trap(text) => {
                    for part in parts_shown(self.body, &text) {
                        if self.is_builder(part) {
                            self.finish(part, before, origin);
                        }
                    }
                    ExprKind::Trap(text)
                }
                other => other,
            };
            self.body.exprs[expr].kind = new;
            retyping.expr(self.body, self.lists, expr);
        }
    }

    /// Puts the finished array in the place of a version.
    fn finish(&mut self, version: ExprId, before: Before, origin: Origin) {
        let Expr { kind, types, .. } = self.body.exprs[version].clone();
        let builder = self.body.exprs.push(Expr { kind, types, origin });
        let array = self.body.vars[before.array];
        self.body.exprs[version].kind = ExprKind::Builder(self.found.array, Step::Finish, List::from([builder]));
        self.body.exprs[version].types = self.lists.intern(&[array]);
    }

    /// Whether the only value of an expression is a version, as a builder.
    fn is_builder(&self, expr: ExprId) -> bool {
        match self.lists.get(self.body.exprs[expr].types) {
            [ValueType::Ref(ty)] => matches!(self.module.type_def(*ty), TypeDef::Builder(_)),
            _ => false,
        }
    }
}

/// Gives expressions their types after those of their parts have changed, parts first.
#[derive(Default)]
pub(super) struct Retyping {
    /// Those out of which control doesn't come: texts that stop the program, in all branches. They have no value, and
    /// their types stay what they were.
    endless: HashSet<ExprId>,
}

impl Retyping {
    pub(super) fn expr(&mut self, body: &mut Body, lists: &mut TypeLists, expr: ExprId) {
        let of = |part: ExprId| body.exprs[part].types;
        let ends = |part: &ExprId| !self.endless.contains(part);
        let (mut types, mut is_endless) = (of(expr), false);
        match &body.exprs[expr].kind {
            ExprKind::Trap(_) => is_endless = true,
            ExprKind::Var(var) => types = lists.intern(&[body.vars[*var]]),
            ExprKind::Builder(_, Step::Put, parts) => types = of(parts[0]),
            ExprKind::Block(_, value) => (types, is_endless) = (of(*value), !ends(value)),
            ExprKind::If([_, then, other]) => match [then, other].into_iter().copied().find(ends) {
                Some(arm) => types = of(arm),
                None => is_endless = true,
            },
            ExprKind::Switch(switch) => match arms(switch).into_iter().find(ends) {
                Some(arm) => types = of(arm),
                None => is_endless = true,
            },
            ExprKind::Values(parts) => {
                let all: Vec<ValueType> = parts.iter().flat_map(|&part| lists.get(of(part)).to_vec()).collect();
                types = lists.intern(&all);
            }
            ExprKind::Loop(repeat) => {
                let vars: Vec<ValueType> = repeat.vars.iter().map(|&var| body.vars[var]).collect();
                types = lists.intern(&vars);
            }
            _ => {}
        }
        if is_endless {
            self.endless.insert(expr);
        }
        body.exprs[expr].types = types;
    }
}
