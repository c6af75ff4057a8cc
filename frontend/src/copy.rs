//! Copying trees of the core from one function's tables into another's, simplified on the way.
//!
//! Variables that turn out to be atoms vanish, operations on constants are done, branches on constants taken, and calls
//! of known closures are calls. With a function to inline for a call, this is the inliner.

use crate::arena::{Id, Table};
use crate::core::{
    Atom, Binding, Body, CallSite, Cell, Collect, Derivative, Expr, ExprId, ExprKind, Extend, Function, FunctionId,
    InlinedCall, Iteration, Join, Label, Labelled, Loop, Origin, Range, Repeat, Switch, Task, Text, TypeList,
    TypeLists, Var,
};
use crate::hash::{HashMap, HashSet};
use crate::kept::{Kept, KeptReason};
use crate::limits::{Count, Meter};
use crate::list::List;
use crate::source::Span;
use dualvm_vm::isa::{Op, Scalar, evaluate};

/// Says which function takes the origin of a call: its body is copied there.
pub(crate) trait Chooser {
    /// The function to inline for a call of `callee`, or why there is none.
    fn choose(&self, callee: FunctionId, around: Surroundings) -> Result<&Function, KeptReason>;
    /// What stands in the copy where a constant is mentioned, of which so much is known.
    fn constant(&self, function: FunctionId, is_total: bool) -> InPlace<'_>;
    /// A task's function, if all that it does is a call whose arguments take no time: the task can be that call.
    fn forwards(&self, task: FunctionId) -> Option<&Function>;
}

/// What stands in the place of a constant.
pub(crate) enum InPlace<'f> {
    /// The body of its function.
    Copy(&'f Function),
    /// A call of it.
    Call,
    /// What it is: one whose function is total, or not.
    Constant { is_total: bool },
}

/// Where a call stands in a copy.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings {
    /// How many loops are around it.
    pub(crate) loops: u32,
    /// How many inlined functions are around it.
    pub(crate) depth: u32,
    /// How many nodes the copy has so far.
    pub(crate) grown: usize,
}

/// Copies a function, inlining what the chooser says. The calls that stay are added to `kept`. Each node of the copy is
/// counted. What is inlined says in `calls` where it was called. `spare` are empty tables, whose room is used.
pub(crate) fn copy_function(
    old: &Function,
    chooser: &dyn Chooser,
    lists: &mut TypeLists,
    calls: &mut Table<CallSite, InlinedCall>,
    kept: &mut Vec<Kept>,
    spare: &mut Body,
    meter: &Meter,
) -> Function {
    let mut copier = Copier {
        chooser,
        lists,
        calls,
        meter,
        body: std::mem::take(spare),
        from: old,
        atoms: vec![None; old.body.vars.len()],
        labels: vec![None; old.body.labels.len()],
        jumped_to: HashSet::default(),
        closures: HashMap::default(),
        loops: 0,
        depth: 0,
        inlined_at: None,
        sites: HashMap::default(),
        caller: old.id,
        kept,
    };
    let params = old.params.iter().map(|&var| copier.bind(var)).collect();
    let root = copier.expr(old.root);
    *spare = copier.body;
    let body = spare.drain();
    let (name, written, interface) = (old.name.clone(), old.written.clone(), old.interface.clone());
    let twin_of = old.twin_of;
    Function { id: old.id, name, written, interface, twin_of, params, results: old.results, body, root }
}

struct Copier<'c> {
    chooser: &'c dyn Chooser,
    lists: &'c mut TypeLists,
    calls: &'c mut Table<CallSite, InlinedCall>,
    meter: &'c Meter,
    body: Body,
    /// The function that is copied from.
    from: &'c Function,
    /// What its variables are in the copy.
    atoms: Vec<Option<Atom>>,
    /// What its labels are in the copy.
    labels: Vec<Option<Label>>,
    /// The new labels that there are jumps to so far.
    jumped_to: HashSet<Label>,
    /// The new variables that hold closures known here.
    closures: HashMap<Var, (FunctionId, Vec<Atom>)>,
    /// How many loops are around the copy.
    loops: u32,
    /// How many inlined functions are around it.
    depth: u32,
    /// The origin of the innermost call that is inlined around it, and the call site of what stands there; that is the
    /// one of the origin if nobody has written the function.
    inlined_at: Option<(Origin, Option<CallSite>)>,
    /// What the call sites of the function that is copied from are in the copy.
    sites: HashMap<CallSite, CallSite>,
    /// The function that is copied.
    caller: FunctionId,
    /// The calls that stay.
    kept: &'c mut Vec<Kept>,
}

impl<'c> Copier<'c> {
    fn bind(&mut self, var: Var) -> Var {
        let new = self.body.vars.push(self.from.body.vars[var]);
        self.atoms[var.index()] = Some(Atom::Var(new));
        new
    }

    fn bind_all(&mut self, vars: &[Var]) -> List<Var> {
        vars.iter().map(|&var| self.bind(var)).collect()
    }

    fn bind_label(&mut self, label: Label) -> Label {
        let new = self.body.labels.push(());
        self.labels[label.index()] = Some(new);
        new
    }

    /// Copies an expression; once the compilation is stopped, what comes is empty.
    fn expr(&mut self, expr: ExprId) -> ExprId {
        let node = &self.from.body.exprs[expr];
        if !self.meter.node(Count::Code, node.origin.span) {
            return self.make(ExprKind::Values(List::default()), node.types, node.origin);
        }
        crate::stack::grown(|| self.expr_here(expr))
    }

    fn list(&mut self, list: &[ExprId]) -> List<ExprId> {
        list.iter().map(|&expr| self.expr(expr)).collect()
    }

    fn make(&mut self, kind: ExprKind, types: TypeList, origin: Origin) -> ExprId {
        self.body.exprs.push(Expr { kind, types, origin })
    }

    /// What a origin of the function that is copied from is in the copy. What comes from nowhere is where it is called.
    fn placed(&mut self, origin: Origin) -> Origin {
        let Some((called, site)) = self.inlined_at else { return origin };
        if origin.span == Span::default() {
            return called;
        }
        Origin { span: origin.span, call: self.site(origin.call, site) }
    }

    /// What a call site of the function that is copied from is in the copy, where `outermost` is around it.
    fn site(&mut self, site: Option<CallSite>, outermost: Option<CallSite>) -> Option<CallSite> {
        let mut unknown = Vec::new();
        let mut next = site;
        let known = loop {
            match next {
                None => break outermost,
                Some(site) if let Some(&known) = self.sites.get(&site) => break Some(known),
                Some(site) => {
                    unknown.push(site);
                    next = self.calls[site].origin.call;
                }
            }
        };
        unknown.into_iter().rev().fold(known, |around, site| {
            let InlinedCall { callee, origin } = self.calls[site].clone();
            let copied = self.calls.push(InlinedCall { callee, origin: Origin { call: around, ..origin } });
            self.sites.insert(site, copied);
            Some(copied)
        })
    }

    fn expr_here(&mut self, expr: ExprId) -> ExprId {
        let from: &'c Function = self.from;
        let node = &from.body.exprs[expr];
        let origin = self.placed(node.origin);
        let kind = match &node.kind {
            ExprKind::Var(var) => {
                let atom = self.atoms[var.index()].expect("variables are bound before they are used");
                return self.body.atom(atom, origin, self.lists);
            }
            ExprKind::Call(callee, args) => {
                let args = self.list(args);
                return self.call(*callee, args, node.types, origin);
            }
            ExprKind::Constant { function, is_total } => {
                return self.constant((*function, *is_total), node.types, origin);
            }
            ExprKind::CallClosure(callee, args) => {
                let callee = self.expr(*callee);
                let args = self.list(args);
                if let ExprKind::Var(var) = self.body.exprs[callee].kind
                    && let Some((function, captures)) = self.closures.get(&var).cloned()
                {
                    let captures = captures.iter().map(|&atom| self.body.atom(atom, origin, self.lists));
                    let args = captures.chain(args).collect();
                    return self.call(function, args, node.types, origin);
                }
                ExprKind::CallClosure(callee, args)
            }
            ExprKind::CallImport(import, args) => {
                let args = self.list(args);
                ExprKind::CallImport(*import, self.flat(&args))
            }
            ExprKind::Fork(tasks) => return self.fork(tasks, node.types, origin),
            ExprKind::Derivative(derivative) => {
                let [captures, args, directions] =
                    [&derivative.captures, &derivative.args, &derivative.directions].map(|list| self.list(list));
                let function = self.forwarded(derivative.function);
                let copied = Derivative { function, captures, args, directions, ..**derivative };
                ExprKind::Derivative(Box::new(copied))
            }
            ExprKind::Detach(operand) => ExprKind::Detach(self.expr(*operand)),
            ExprKind::ParallelMap(function, args) => {
                let args = self.list(args);
                ExprKind::ParallelMap(*function, self.flat(&args))
            }
            ExprKind::Real(value) => ExprKind::Real(*value),
            ExprKind::Int(value) => ExprKind::Int(*value),
            ExprKind::Trap(text) => ExprKind::Trap(self.text(text)),
            ExprKind::Trace(text) => ExprKind::Trace(self.text(text)),
            ExprKind::Values(parts) => ExprKind::Values(self.list(parts)),
            ExprKind::Scalar(op, args) => {
                let args = self.list(args);
                if let Some(kept) = self.neutral(*op, &args) {
                    return kept;
                }
                self.scalar(*op, args)
            }
            ExprKind::Pack(array, parts) => ExprKind::Pack(*array, self.list(parts)),
            ExprKind::Builder(array, step, parts) => ExprKind::Builder(*array, *step, self.list(parts)),
            ExprKind::Construct(tag, parts) => ExprKind::Construct(*tag, self.list(parts)),
            ExprKind::Closure(function, parts) => ExprKind::Closure(*function, self.list(parts)),
            ExprKind::Jump(label, args) => {
                let label = self.labels[label.index()].expect("labels are bound before they are jumped to");
                self.jumped_to.insert(label);
                ExprKind::Jump(label, self.list(args))
            }
            ExprKind::Extend(extend) => {
                let label = self.labels[extend.label.index()].expect("labels are bound before they are jumped to");
                let cells = extend.cells.iter().map(|cell| Cell { tag: cell.tag, fields: self.list(&cell.fields) });
                let cells = cells.collect();
                ExprKind::Extend(Box::new(Extend { label, cells, args: self.list(&extend.args) }))
            }
            ExprKind::Compare(comparison, pair) => ExprKind::Compare(*comparison, pair.map(|part| self.expr(part))),
            ExprKind::And(pair) => ExprKind::And(pair.map(|part| self.expr(part))),
            ExprKind::Or(pair) => ExprKind::Or(pair.map(|part| self.expr(part))),
            ExprKind::Replace(array, parts) => ExprKind::Replace(*array, parts.map(|part| self.expr(part))),
            ExprKind::Element(array, pair, inside) => {
                ExprKind::Element(*array, pair.map(|part| self.expr(part)), *inside)
            }
            ExprKind::Not(operand) => ExprKind::Not(self.expr(*operand)),
            ExprKind::Length(ty, array) => ExprKind::Length(*ty, self.expr(*array)),
            ExprKind::Payload(field, object) => ExprKind::Payload(*field, self.expr(*object)),
            ExprKind::If([cond, then, other]) => {
                let cond = self.expr(*cond);
                if let ExprKind::Int(value) = self.body.exprs[cond].kind {
                    return self.expr(if value != 0 { *then } else { *other });
                }
                ExprKind::If([cond, self.expr(*then), self.expr(*other)])
            }
            ExprKind::Switch(switch) => {
                let object = self.expr(switch.object);
                let arms = switch.arms.iter().map(|&(tag, arm)| (tag, self.expr(arm))).collect();
                let default = switch.default.map(|arm| self.expr(arm));
                ExprKind::Switch(Box::new(Switch { object, tags: switch.tags, arms, default }))
            }
            ExprKind::Block(bindings, value) => {
                let bindings = self.bindings(bindings);
                let value = self.expr(*value);
                return self.block(bindings, value);
            }
            ExprKind::Loop(repeat) => ExprKind::Loop(Box::new(self.repeat(repeat))),
            ExprKind::Collect(array, collect) => {
                let range = self.range(collect.range);
                let first = collect.first.map(|first| self.expr(first));
                self.loops += 1;
                let body = self.expr(collect.body);
                self.loops -= 1;
                ExprKind::Collect(*array, Box::new(Collect { range, first, body }))
            }
            ExprKind::Join(join) => {
                let labels: Vec<Label> = join.bodies.iter().map(|labelled| self.bind_label(labelled.label)).collect();
                let value = self.expr(join.value);
                let mut bodies = Vec::with_capacity(labels.len());
                for (labelled, label) in join.bodies.iter().zip(labels) {
                    // What nobody jumps to any more may read what is not bound any more.
                    if self.jumped_to.contains(&label) {
                        let params = self.bind_all(&labelled.params);
                        bodies.push(Labelled { label, params, body: self.expr(labelled.body) });
                    }
                }
                if bodies.is_empty() {
                    return value;
                }
                ExprKind::Join(Box::new(Join { value, bodies: bodies.into() }))
            }
            ExprKind::Repeat(repeat) => {
                let init = self.expr(repeat.init);
                let label = self.bind_label(repeat.label);
                let params = self.bind_all(&repeat.params);
                self.loops += 1;
                let body = self.expr(repeat.body);
                self.loops -= 1;
                ExprKind::Repeat(Box::new(Repeat { label, params, init, body, builds: repeat.builds }))
            }
        };
        self.make(kind, node.types, origin)
    }

    fn text(&mut self, text: &Text) -> Box<Text> {
        Box::new(Text { pieces: text.pieces.clone(), function: text.function, args: self.list(&text.args) })
    }

    /// The operand that an instruction with 1 hands on as it is, to the last bit.
    fn neutral(&self, op: Op, args: &[ExprId]) -> Option<ExprId> {
        let is_one = |arg: ExprId| match self.body.exprs[arg].kind {
            ExprKind::Real(value) => value == 1.0,
            ExprKind::Int(value) => value == 1,
            _ => false,
        };
        match (op, args) {
            (Op::Mul | Op::IMul | Op::Div | Op::IDiv, &[kept, one]) if is_one(one) => Some(kept),
            (Op::Mul | Op::IMul, &[one, kept]) if is_one(one) => Some(kept),
            _ => None,
        }
    }

    /// An instruction, or the constant that it computes.
    fn scalar(&self, op: Op, args: List<ExprId>) -> ExprKind {
        let constant = |&arg: &ExprId| match self.body.exprs[arg].kind {
            ExprKind::Real(value) => Some(Scalar::Real(value)),
            ExprKind::Int(value) => Some(Scalar::Int(value)),
            _ => None,
        };
        let constants: Option<Vec<Scalar>> = args.iter().map(constant).collect();
        match constants.and_then(|constants| evaluate(op, &constants)) {
            // Somebody looks for the instruction that makes it. A quotient is how infinity is written.
            Some(Scalar::Real(value))
                if self.meter.as_written && !value.is_finite() && !(op == Op::Div && value.is_infinite()) =>
            {
                ExprKind::Scalar(op, args)
            }
            Some(Scalar::Real(value)) => ExprKind::Real(value),
            Some(Scalar::Int(value)) => ExprKind::Int(value),
            None => ExprKind::Scalar(op, args),
        }
    }

    /// Copies bindings; where a value has become an atom or a block, its parts take the origin of the variables.
    fn bindings(&mut self, bindings: &[Binding]) -> Vec<Binding> {
        let mut copied = Vec::with_capacity(bindings.len());
        for binding in bindings {
            let value = self.expr(binding.value);
            let mut atoms = Vec::new();
            self.body.name_values(value, self.lists, &mut copied, &mut atoms);
            self.note_closure(&mut copied);
            for (var, atom) in binding.vars.iter().zip(atoms) {
                self.atoms[var.index()] = Some(atom);
            }
        }
        copied
    }

    /// Remembers the closure that the last binding makes.
    fn note_closure(&mut self, bindings: &mut Vec<Binding>) {
        let Some(last) = bindings.last() else { return };
        let ExprKind::Closure(function, captures) = &self.body.exprs[last.value].kind else { return };
        let (function, captures, var, origin) =
            (*function, captures.clone(), last.vars[0], self.body.exprs[last.value].origin);
        let made = bindings.pop().expect("it was there a moment ago");
        let mut atoms = Vec::new();
        for &capture in &captures {
            self.body.name_values(capture, self.lists, bindings, &mut atoms);
        }
        let parts = atoms.iter().map(|&atom| self.body.atom(atom, origin, self.lists)).collect();
        self.body.exprs[made.value].kind = ExprKind::Closure(function, parts);
        bindings.push(made);
        self.closures.insert(var, (function, atoms));
    }

    fn block(&mut self, bindings: Vec<Binding>, value: ExprId) -> ExprId {
        if bindings.is_empty() {
            return value;
        }
        let Expr { types, origin, .. } = self.body.exprs[value];
        self.make(ExprKind::Block(bindings.into(), value), types, origin)
    }

    fn fork(&mut self, tasks: &[Task], types: TypeList, origin: Origin) -> ExprId {
        let chooser: &'c dyn Chooser = self.chooser;
        let mut bindings = Vec::new();
        let mut copied = Vec::with_capacity(tasks.len());
        for task in tasks {
            let args = self.list(&task.args);
            if let Some(function) = chooser.forwards(task.function)
                && let ExprKind::Call(callee, inner) = &function.body.exprs[function.root].kind
            {
                let mut values = Vec::new();
                args.iter().for_each(|&arg| self.body.name_values(arg, self.lists, &mut bindings, &mut values));
                let origin = self.placed(task.origin);
                let args = self.inside(function, &values, origin, |copier| copier.list(inner));
                copied.push(Task { function: *callee, args: self.flat(&args), origin, ..*task });
            } else {
                copied.push(Task { args: self.flat(&args), origin: self.placed(task.origin), ..*task });
            }
        }
        let fork = self.make(ExprKind::Fork(copied.into()), types, origin);
        self.block(bindings, fork)
    }

    /// The function that a function calls with its own parameters, if it does nothing else.
    fn forwarded(&self, function: FunctionId) -> FunctionId {
        let chooser: &'c dyn Chooser = self.chooser;
        let Some(found) = chooser.forwards(function) else { return function };
        match &found.body.exprs[found.root].kind {
            ExprKind::Call(callee, args) if is_handed_on(found, args) => *callee,
            _ => function,
        }
    }

    /// Expressions with what stands side by side in them one by one.
    fn flat(&self, exprs: &[ExprId]) -> List<ExprId> {
        let mut flat = Vec::with_capacity(exprs.len());
        let mut pending: Vec<ExprId> = exprs.iter().rev().copied().collect();
        while let Some(expr) = pending.pop() {
            match &self.body.exprs[expr].kind {
                ExprKind::Values(parts) => pending.extend(parts.iter().rev()),
                _ => flat.push(expr),
            }
        }
        flat.into()
    }

    fn repeat(&mut self, repeat: &Loop) -> Loop {
        let init = self.expr(repeat.init);
        let range = match repeat.iteration {
            Iteration::Range(range) => Some(self.range(range)),
            Iteration::While(_) => None,
        };
        let vars = self.bind_all(&repeat.vars);
        self.loops += 1;
        let iteration = match (range, repeat.iteration) {
            (None, Iteration::While(cond)) => Iteration::While(self.expr(cond)),
            (Some(range), _) | (None, Iteration::Range(range)) => Iteration::Range(range),
        };
        let body = self.expr(repeat.body);
        self.loops -= 1;
        Loop { vars, init, iteration, body }
    }

    fn range(&mut self, range: Range) -> Range {
        let (from, to) = (self.expr(range.from), self.expr(range.to));
        Range { index: self.bind(range.index), from, to }
    }

    /// A call, or the body of the function in its origin.
    fn call(&mut self, callee: FunctionId, args: List<ExprId>, types: TypeList, origin: Origin) -> ExprId {
        let chooser: &'c dyn Chooser = self.chooser;
        let around = Surroundings { loops: self.loops, depth: self.depth, grown: self.body.exprs.len() };
        let callee = match chooser.choose(callee, around) {
            Ok(function) => function,
            Err(reason) => {
                self.kept.push(Kept { caller: self.caller, callee, origin, reason });
                return self.make(ExprKind::Call(callee, args), types, origin);
            }
        };
        let (mut bindings, mut values) = (Vec::new(), Vec::new());
        for &arg in &args {
            self.body.name_values(arg, self.lists, &mut bindings, &mut values);
            self.note_closure(&mut bindings);
        }
        let value = self.inside(callee, &values, origin, |copier| copier.expr(callee.root));
        self.block(bindings, value)
    }

    /// A constant, or what stands in its place.
    fn constant(&mut self, (function, is_total): (FunctionId, bool), types: TypeList, origin: Origin) -> ExprId {
        let chooser: &'c dyn Chooser = self.chooser;
        match chooser.constant(function, is_total) {
            InPlace::Copy(body) => self.inside(body, &[], origin, |copier| copier.expr(body.root)),
            InPlace::Call => self.call(function, List::default(), types, origin),
            InPlace::Constant { is_total } => {
                self.kept.push(Kept { caller: self.caller, callee: function, origin, reason: KeptReason::Constant });
                self.make(ExprKind::Constant { function, is_total }, types, origin)
            }
        }
    }

    /// Copies something of another function, which is called at a origin of the copy, and whose parameters have these
    /// values.
    fn inside<T>(
        &mut self,
        callee: &'c Function,
        values: &[Atom],
        origin: Origin,
        copy: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let site = match &callee.written {
            Some(name) => Some(self.calls.push(InlinedCall { callee: name.clone(), origin })),
            None => origin.call,
        };
        let inlined_at = self.inlined_at.replace((origin, site));
        let sites = std::mem::take(&mut self.sites);
        let mut atoms = vec![None; callee.body.vars.len()];
        for (param, &value) in callee.params.iter().zip(values) {
            atoms[param.index()] = Some(value);
        }
        let labels = vec![None; callee.body.labels.len()];
        let caller = std::mem::replace(&mut self.from, callee);
        let caller_atoms = std::mem::replace(&mut self.atoms, atoms);
        let caller_labels = std::mem::replace(&mut self.labels, labels);
        self.depth += 1;
        let copied = copy(self);
        self.depth -= 1;
        self.from = caller;
        self.atoms = caller_atoms;
        self.labels = caller_labels;
        self.sites = sites;
        self.inlined_at = inlined_at;
        copied
    }
}

/// Whether arguments of a function's only call are its own parameters.
fn is_handed_on(function: &Function, args: &[ExprId]) -> bool {
    let mut params = function.params.iter();
    let mut pending: Vec<ExprId> = args.iter().rev().copied().collect();
    while let Some(arg) = pending.pop() {
        match &function.body.exprs[arg].kind {
            ExprKind::Values(parts) => pending.extend(parts.iter().rev()),
            ExprKind::Var(var) if params.next() == Some(var) => {}
            _ => return false,
        }
    }
    params.next().is_none()
}
