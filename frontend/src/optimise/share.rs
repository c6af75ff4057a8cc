//! Common subexpressions: what was computed already, or loaded from an array or an object, is not computed again.
//!
//! Values are numbered in the order of evaluation: two expressions have the same number if they are the same operation
//! on the same numbers. Arrays and objects never change, so loads are operations, too. Where an expression is evaluated
//! whose number is *available*, i.e. that of one that was evaluated on every way here, it becomes a variable that holds
//! the first one's value. So of two operations that trap alike only the first is left, which is the one that traps. The
//! same table knows which tag an object has, and so which arm of a choice is taken. An object without payload is as
//! good as any other of its tag: where a list was found to be empty, it is the empty list that is asked for.
//!
//! Where an object is taken apart that was made on the way here, what it was made of gets names: nobody may read the
//! object itself then, so that it isn't made (`dead.rs`).
//!
//! A shared value has to be kept from its first use to its last, and there is a point where that costs more than to
//! compute it again. Across calls, registers go to memory and come back: cheap operations and loads don't cross them.
//! Across control flow, a real that is kept gets a slot and a record of its own: cheap operations on reals don't leave
//! their straight line.

mod known;

use super::arrays::is_trap;
use super::{keep_bindings, scalar_cost};
use crate::arena::Table;
use crate::core::{
    Binding, Body, Comparison, Expr, ExprId, ExprKind, Field, Function, FunctionId, Iteration, Join, Label, Labelled,
    Loop, Origin, Range, Switch, TypeList, TypeLists, Var,
};
use crate::hash::{HashMap, HashSet};
use crate::limits::{Count, Meter};
use crate::list::List;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;

use known::Bounds;

/// The nodes that naming an expression adds: the expression itself, and a use.
const NAMING_NODES: usize = 2;

/// Computes each value of a function once.
pub(super) fn share(function: &mut Function, lists: &mut TypeLists, meter: &Meter) {
    let mut sharer = Sharer {
        values: Table::filled(None, function.body.vars.len()),
        aliases: Table::filled(None, function.body.vars.len()),
        body: &mut function.body,
        lists,
        meter,
        numbers: HashMap::default(),
        available: Table::default(),
        shapes: HashMap::default(),
        changes: Vec::new(),
        jumped_to: HashSet::default(),
        constants: HashMap::default(),
        bounds: HashMap::default(),
        compared: HashMap::default(),
        equal: HashMap::default(),
        line: 0,
        lines: 1,
        calls: 0,
    };
    sharer.expr(function.root);
}

crate::arena::id_types! {
    /// What an expression computes: equal numbers, equal values.
    Number;
}

/// An operation, and the numbers of its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Operation {
    Real(u64),
    Int(i64),
    Scalar(Op, [Option<Number>; 3]),
    Compare(Comparison, [Number; 2]),
    /// Of an array whose elements take so much of it.
    Length(u16, Number),
    Element(u16, [Number; 2]),
    Payload(Field, Number),
    /// What the function of a constant gives.
    Constant(FunctionId),
    /// An object of a type with a tag and no payload.
    Empty(u16, TypeList),
    /// One of the values of an operation that has several.
    Part(u32, Number),
}

/// Where a value was computed.
#[derive(Clone, Debug)]
struct Place {
    /// The expression.
    site: ExprId,
    /// The variables that hold its values, if they have names.
    vars: Option<List<Var>>,
    /// The straight line that the expression is on.
    line: u32,
    /// How many calls there were before.
    calls: u32,
    /// How many changes there were before.
    since: usize,
}

/// What is known of an object.
#[derive(Clone, Debug)]
struct Shape {
    tag: u16,
    /// What its payload is made of, where that is known, with what the expressions compute.
    parts: List<(ExprId, Number)>,
    /// Whether all of these have names, one for each field.
    named: bool,
}

/// How far a value may be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    /// To the end of the straight line.
    Line,
    /// To the next call.
    Call,
    /// As long as there is use for it.
    Everywhere,
}

/// What is to be taken back at the end of a scope.
#[derive(Debug)]
enum Change {
    Available(Number, Option<Place>),
    Shape(Number, Option<Shape>),
    Equal(Number),
}

struct Sharer<'s> {
    body: &'s mut Body,
    lists: &'s mut TypeLists,
    meter: &'s Meter,
    /// The numbers of the variables.
    values: Table<Var, Option<Number>>,
    /// The variables that others are the same as.
    aliases: Table<Var, Option<Var>>,
    numbers: HashMap<Operation, Number>,
    /// Where each number was computed on every way here.
    available: Table<Number, Option<Place>>,
    /// What is known of objects here.
    shapes: HashMap<Number, Shape>,
    changes: Vec<Change>,
    /// The labels that there are jumps to so far.
    jumped_to: HashSet<Label>,
    /// The integers that are constants.
    constants: HashMap<Number, i64>,
    /// What the indices of the loops around run over.
    bounds: HashMap<Number, Bounds>,
    /// The integers that are asked whether they are equal, by the number of the answer.
    compared: HashMap<Number, [Number; 2]>,
    /// Integers that were found to be equal to others here: from each a way leads to one that stands for all.
    equal: HashMap<Number, Number>,
    line: u32,
    lines: u32,
    calls: u32,
}

impl Sharer<'_> {
    fn new_number(&mut self) -> Number {
        self.available.push(None)
    }

    fn number(&mut self, operation: Operation) -> Number {
        if let Some(&number) = self.numbers.get(&operation) {
            return number;
        }
        let number = self.new_number();
        self.numbers.insert(operation, number);
        number
    }

    /// Gives variables numbers that nothing else has.
    fn define(&mut self, vars: &[Var]) {
        for &var in vars {
            self.values[var] = Some(self.new_number());
        }
    }

    /// Runs something and takes back what it has made available.
    fn scoped<T>(&mut self, inside: impl FnOnce(&mut Self) -> T) -> T {
        let mark = self.changes.len();
        let made = inside(self);
        self.back_to(mark);
        made
    }

    fn back_to(&mut self, mark: usize) {
        for change in self.changes.drain(mark..).rev() {
            match change {
                Change::Available(number, old) => self.available[number] = old,
                Change::Shape(number, Some(old)) => {
                    self.shapes.insert(number, old);
                }
                Change::Shape(number, None) => {
                    self.shapes.remove(&number);
                }
                Change::Equal(number) => _ = self.equal.remove(&number),
            }
        }
    }

    /// What was computed since a mark is dropped, but for what has names.
    fn forget_unnamed(&mut self, mark: usize) {
        let mut kept = Vec::new();
        for change in self.changes.drain(mark..).rev() {
            match change {
                Change::Available(number, old)
                    if self.available[number].as_ref().is_some_and(|at| at.vars.is_none()) =>
                {
                    self.available[number] = old;
                }
                Change::Equal(number) => _ = self.equal.remove(&number),
                change => kept.push(change),
            }
        }
        self.changes.extend(kept.into_iter().rev());
    }

    fn make_available(&mut self, number: Number, place: Place) {
        let old = self.available[number].replace(place);
        self.changes.push(Change::Available(number, old));
    }

    fn note_shape(&mut self, number: Number, shape: Shape) {
        let old = self.shapes.insert(number, shape);
        self.changes.push(Change::Shape(number, old));
    }

    fn new_line(&mut self) {
        self.line = self.lines;
        self.lines += 1;
    }

    /// Something that may or may not be evaluated, or repeatedly.
    fn branch(&mut self, expr: ExprId) -> Number {
        self.new_line();
        let number = self.scoped(|sharer| sharer.expr(expr));
        self.new_line();
        number
    }

    /// What is evaluated only where a condition holds.
    fn branch_where(&mut self, condition: Number, expr: ExprId) {
        self.new_line();
        self.scoped(|sharer| {
            sharer.note_holds(condition);
            sharer.expr(expr)
        });
        self.new_line();
    }

    /// Walks an expression, and says what it computes. Once the compilation is stopped, nothing changes any more.
    fn expr(&mut self, expr: ExprId) -> Number {
        if !self.meter.step(self.body.exprs[expr].origin.span) {
            return self.new_number();
        }
        crate::stack::grown(|| self.expr_here(expr))
    }

    fn exprs(&mut self, exprs: &[ExprId]) {
        for &expr in exprs {
            self.expr(expr);
        }
    }

    fn expr_here(&mut self, expr: ExprId) -> Number {
        // A node changes only when it has been walked, so that its own kind can be elsewhere meanwhile.
        let mut kind = std::mem::replace(&mut self.body.exprs[expr].kind, ExprKind::Int(0));
        let mark = self.changes.len();
        let operation = match &mut kind {
            ExprKind::Var(var) => {
                *var = self.aliases[*var].unwrap_or(*var);
                let number = self.values[*var];
                let number = number.unwrap_or_else(|| self.new_number());
                self.values[*var] = Some(number);
                self.body.exprs[expr].kind = match self.constants.get(&number) {
                    Some(&value) => ExprKind::Int(value),
                    None => kind,
                };
                return number;
            }
            ExprKind::Real(value) => {
                let number = self.number(Operation::Real(value.to_bits()));
                self.body.exprs[expr].kind = kind;
                return number;
            }
            ExprKind::Int(value) => {
                let number = self.integer(*value);
                self.body.exprs[expr].kind = kind;
                return number;
            }
            ExprKind::Scalar(op, args) => {
                let mut numbers = [None; 3];
                for (number, &arg) in numbers.iter_mut().zip(&*args) {
                    *number = Some(self.expr(arg));
                }
                if matches!(op, Op::Add | Op::Mul | Op::IAdd | Op::IMul) {
                    numbers[..2].sort_unstable();
                }
                Some(Operation::Scalar(*op, numbers))
            }
            ExprKind::Compare(comparison, pair) => {
                let numbers = pair.map(|part| self.expr(part));
                if let Some(outcome) = self.known(*comparison, numbers) {
                    self.forget_unnamed(mark);
                    self.body.exprs[expr].kind = ExprKind::Int(outcome.into());
                    pair.iter().rev().for_each(|&part| keep_bindings(self.body, part, expr));
                    return self.integer(outcome.into());
                }
                let operation = Operation::Compare(*comparison, numbers);
                let [first, _] = pair.map(|part| self.body.exprs[part].types);
                if *comparison == Comparison::Equal && self.lists.get(first) == [ValueType::Int] {
                    let answer = self.number(operation);
                    self.compared.insert(answer, numbers);
                }
                Some(operation)
            }
            ExprKind::Length(ty, array) => Some(Operation::Length(ty.width(), self.expr(*array))),
            ExprKind::Element(ty, pair, _) => Some(Operation::Element(ty.width(), pair.map(|part| self.expr(part)))),
            ExprKind::Payload(field, object) => {
                let dropped = *object;
                let object = self.expr(dropped);
                if let Some(known) = self.field(object, field.index) {
                    self.forget_unnamed(mark);
                    // A variable or a constant.
                    self.body.exprs[expr].kind = self.body.exprs[known].kind.clone();
                    let number = self.expr_here(expr);
                    keep_bindings(self.body, dropped, expr);
                    return number;
                }
                Some(Operation::Payload(*field, object))
            }
            ExprKind::Constant { function, .. } => Some(Operation::Constant(*function)),
            ExprKind::Construct(tag, parts) if parts.is_empty() => {
                Some(Operation::Empty(*tag, self.body.exprs[expr].types))
            }
            _ => None,
        };
        match operation {
            Some(operation) => {
                self.body.exprs[expr].kind = kind;
                let number = self.number(operation);
                self.computed(expr, number, mark);
                if let Operation::Empty(tag, _) = operation {
                    self.note_shape(number, Shape { tag, parts: List::default(), named: true });
                }
                number
            }
            None => self.compound(expr, kind),
        }
    }

    /// An operation was met: its value is taken from where it was computed before, or is available from here on.
    fn computed(&mut self, expr: ExprId, number: Number, mark: usize) {
        let reach = self.reach(expr);
        let is_in_reach = |place: &Place| match reach {
            Reach::Line => place.line == self.line && place.calls == self.calls,
            Reach::Call => place.calls == self.calls,
            Reach::Everywhere => true,
        };
        let since = self.changes.len();
        let Some(place) = self.available[number].as_ref().filter(|place| is_in_reach(place)) else {
            let place = Place { site: expr, vars: None, line: self.line, calls: self.calls, since };
            return self.make_available(number, place);
        };
        // A block in the expression may have the same in it.
        if place.since >= mark {
            return;
        }
        // What was available only within the expression goes with it.
        self.back_to(mark);
        let Expr { types, origin, .. } = self.body.exprs[expr];
        let vars = self.name(number);
        let uses: List<ExprId> = vars.iter().map(|&var| self.variable(var, origin)).collect();
        let value = match uses[..] {
            [only] => self.body.exprs[only].clone(),
            _ => Expr { kind: ExprKind::Values(uses), types, origin },
        };
        let dropped = std::mem::replace(&mut self.body.exprs[expr], value);
        let dropped = self.body.exprs.push(dropped);
        keep_bindings(self.body, dropped, expr);
    }

    /// The variables that hold an available value.
    fn name(&mut self, number: Number) -> List<Var> {
        let place = self.available[number].as_ref().expect("the caller has looked");
        let site = place.site;
        if let Some(vars) = &place.vars {
            return vars.clone();
        }
        let vars = self.bind(site, number);
        self.available[number].as_mut().expect("it is still there").vars = Some(vars.clone());
        vars
    }

    /// Binds the values of an expression, which has been walked, to variables where it stands.
    fn bind(&mut self, site: ExprId, number: Number) -> List<Var> {
        self.meter.nodes(Count::Code, NAMING_NODES);
        let Expr { types, origin, .. } = self.body.exprs[site];
        let vars: List<Var> = self.lists.get(types).iter().map(|&ty| self.body.vars.push(ty)).collect();
        for at in 0..vars.len() {
            let value = match vars.len() {
                1 => number,
                _ => self.number(Operation::Part(at as u32, number)),
            };
            self.values.push(Some(value));
            self.aliases.push(None);
        }
        let value = self.body.exprs[site].clone();
        let value = self.body.exprs.push(value);
        let uses: List<ExprId> = vars.iter().map(|&var| self.variable(var, origin)).collect();
        let result = match uses[..] {
            [only] => only,
            _ => self.body.exprs.push(Expr { kind: ExprKind::Values(uses), types, origin }),
        };
        let binding = Binding { vars: vars.clone(), value };
        self.body.exprs[site].kind = ExprKind::Block(Box::new([binding]), result);
        vars
    }

    /// A field of an object, as a variable or a constant, if it is known what the object is made of. All of that gets
    /// names then: it stays where the object isn't made.
    fn field(&mut self, object: Number, at: u16) -> Option<ExprId> {
        let shape = self.shapes.get(&object)?;
        if !shape.named {
            let parts = shape.parts.clone();
            let mut fields = Vec::with_capacity(parts.len());
            for (part, number) in parts {
                self.atoms(part, number, &mut fields);
            }
            let shape = self.shapes.get_mut(&object)?;
            (shape.parts, shape.named) = (fields.into(), true);
        }
        let (field, _) = self.shapes[&object].parts.get(usize::from(at))?;
        Some(*field)
    }

    /// Turns an expression, which has been walked, into variables and constants, one for each of its values.
    fn atoms(&mut self, mut expr: ExprId, number: Number, atoms: &mut Vec<(ExprId, Number)>) {
        while let ExprKind::Block(_, value) = self.body.exprs[expr].kind {
            expr = value;
        }
        match &self.body.exprs[expr].kind {
            ExprKind::Var(_) | ExprKind::Real(_) | ExprKind::Int(_) => atoms.push((expr, number)),
            ExprKind::Values(parts) => {
                for part in parts.clone() {
                    let number = self.new_number();
                    crate::stack::grown(|| self.atoms(part, number, atoms));
                }
            }
            _ => {
                let origin = self.body.exprs[expr].origin;
                let vars = self.bind(expr, number);
                if let Some(place) = self.available[number].as_mut().filter(|place| place.site == expr) {
                    place.vars = Some(vars.clone());
                }
                for &var in &vars {
                    atoms.push((self.variable(var, origin), number));
                }
            }
        }
    }

    fn variable(&mut self, var: Var, origin: Origin) -> ExprId {
        let types = self.lists.intern(&[self.body.vars[var]]);
        self.body.exprs.push(Expr { kind: ExprKind::Var(var), types, origin })
    }

    fn reach(&self, expr: ExprId) -> Reach {
        let node = &self.body.exprs[expr];
        match &node.kind {
            ExprKind::Scalar(op, _) if scalar_cost(*op) > 1 => Reach::Everywhere,
            ExprKind::Construct(..) | ExprKind::Constant { .. } => Reach::Everywhere,
            ExprKind::Scalar(..) if self.lists.get(node.types) == [ValueType::Real] => Reach::Line,
            _ => Reach::Call,
        }
    }

    /// Walks an expression that isn't looked up.
    fn compound(&mut self, expr: ExprId, kind: ExprKind) -> Number {
        let mark = self.changes.len();
        let mut number = None;
        let kind = match kind {
            ExprKind::Block(bindings, value) => {
                let bindings = self.bindings(bindings);
                number = Some(self.expr(value));
                ExprKind::Block(bindings, value)
            }
            ExprKind::Values(parts) => {
                for &part in &parts {
                    number = Some(self.expr(part));
                }
                number = number.filter(|_| parts.len() == 1);
                ExprKind::Values(parts)
            }
            ExprKind::And([first, second]) | ExprKind::Or([first, second]) => {
                let decides = matches!(kind, ExprKind::Or(_));
                let outcome = self.expr(first);
                match self.truth(outcome) {
                    Some(known) if known == decides => return self.becomes(expr, &[], first, outcome),
                    Some(_) => {
                        self.forget_unnamed(mark);
                        let outcome = self.expr(second);
                        return self.becomes(expr, &[first], second, outcome);
                    }
                    None => {
                        let neutral = self.branch(second);
                        match self.truth(neutral) {
                            Some(known) if known != decides => return self.becomes(expr, &[], first, outcome),
                            _ => kind,
                        }
                    }
                }
            }
            ExprKind::Not(operand) => {
                let outcome = self.expr(operand);
                match self.truth(outcome) {
                    Some(known) => {
                        self.forget_unnamed(mark);
                        self.body.exprs[expr].kind = ExprKind::Int(i64::from(!known));
                        keep_bindings(self.body, operand, expr);
                        return self.integer(i64::from(!known));
                    }
                    None => kind,
                }
            }
            ExprKind::If([cond, then, other]) => {
                let outcome = self.expr(cond);
                if let Some(known) = self.truth(outcome) {
                    self.forget_unnamed(mark);
                    let chosen = if known { then } else { other };
                    let number = self.expr(chosen);
                    return self.becomes(expr, &[cond], chosen, number);
                }
                self.branch_where(outcome, then);
                self.branch(other);
                // Where it doesn't hold, nothing comes after it.
                if is_trap(self.body, other) {
                    self.note_holds(outcome);
                }
                kind
            }
            ExprKind::Construct(tag, parts) => {
                let numbered = parts.iter().map(|&part| (part, self.expr(part))).collect();
                let made = self.new_number();
                self.note_shape(made, Shape { tag, parts: numbered, named: false });
                number = Some(made);
                ExprKind::Construct(tag, parts)
            }
            ExprKind::Switch(switch) => return self.switch(expr, *switch),
            ExprKind::Join(join) => return self.join(expr, *join),
            ExprKind::Jump(label, args) => {
                self.jumped_to.insert(label);
                self.exprs(&args);
                ExprKind::Jump(label, args)
            }
            ExprKind::Extend(extend) => {
                extend.cells.iter().for_each(|cell| self.exprs(&cell.fields));
                self.exprs(&extend.args);
                ExprKind::Extend(extend)
            }
            ExprKind::Loop(_) | ExprKind::Collect(..) | ExprKind::Repeat(_) => {
                self.repetition(&kind);
                kind
            }
            ExprKind::Fork(_) | ExprKind::ParallelMap(..) | ExprKind::Derivative(_) => {
                // An argument that the task doesn't read is dropped later, with all that is named in it.
                self.body.exprs[expr].kind = kind;
                let mut args = Vec::new();
                self.body.exprs[expr].for_each_child(|child| args.push(child));
                for arg in args {
                    self.scoped(|sharer| sharer.expr(arg));
                }
                self.calls += 1;
                return self.new_number();
            }
            ExprKind::Call(..) | ExprKind::CallClosure(..) | ExprKind::CallImport(..) => {
                self.body.exprs[expr].kind = kind;
                self.children(expr);
                self.calls += 1;
                return self.new_number();
            }
            kind => {
                self.body.exprs[expr].kind = kind;
                self.children(expr);
                return self.new_number();
            }
        };
        self.body.exprs[expr].kind = kind;
        number.unwrap_or_else(|| self.new_number())
    }

    /// The truth that a value is, if that is known.
    fn truth(&self, value: Number) -> Option<bool> {
        self.constants.get(&value).map(|&value| value != 0)
    }

    /// The number of a constant.
    fn integer(&mut self, value: i64) -> Number {
        let number = self.number(Operation::Int(value));
        self.constants.insert(number, value);
        number
    }

    /// Puts a part of an expression in its place, after what is bound in parts that are dropped. The part stays a node
    /// of its own: it may be named later.
    fn becomes(&mut self, expr: ExprId, dropped: &[ExprId], part: ExprId, number: Number) -> Number {
        self.body.exprs[expr].kind = ExprKind::Block(Box::default(), part);
        dropped.iter().rev().for_each(|&dropped| keep_bindings(self.body, dropped, expr));
        number
    }

    fn children(&mut self, expr: ExprId) {
        let mut children = Vec::new();
        self.body.exprs[expr].for_each_child(|child| children.push(child));
        self.exprs(&children);
    }

    /// Bindings without those whose values are variables already.
    fn bindings(&mut self, bindings: Box<[Binding]>) -> Box<[Binding]> {
        let mut kept = Vec::with_capacity(bindings.len());
        for binding in bindings {
            let number = self.expr(binding.value);
            if let Some(known) = self.variables(binding.value, binding.vars.len()) {
                for (&var, known) in binding.vars.iter().zip(known) {
                    self.aliases[var] = Some(known);
                    self.values[var] = self.values[known];
                }
                continue;
            }
            match *binding.vars {
                [var] => self.values[var] = Some(number),
                _ => {
                    let mut atoms = Vec::new();
                    self.known_values(binding.value, &mut atoms);
                    for (at, &var) in binding.vars.iter().enumerate() {
                        let known = atoms.get(at).copied().flatten();
                        self.values[var] = known.or_else(|| Some(self.number(Operation::Part(at as u32, number))));
                    }
                }
            }
            if let Some(place) = &mut self.available[number]
                && place.site == binding.value
                && place.vars.is_none()
            {
                place.vars = Some(binding.vars.clone());
            }
            kept.push(binding);
        }
        kept.into()
    }

    /// The numbers of an expression's values, of those that are variables or integers in any case.
    fn known_values(&mut self, expr: ExprId, atoms: &mut Vec<Option<Number>>) {
        let kind = match &self.body.exprs[expr].kind {
            ExprKind::Values(parts) => {
                let parts = parts.clone();
                return crate::stack::grown(|| parts.iter().for_each(|&part| self.known_values(part, atoms)));
            }
            &ExprKind::Block(_, value) => return crate::stack::grown(|| self.known_values(value, atoms)),
            kind => kind,
        };
        match *kind {
            ExprKind::Var(var) => atoms.push(self.values[var]),
            ExprKind::Int(value) => atoms.push(Some(self.integer(value))),
            _ => {
                let count = self.lists.get(self.body.exprs[expr].types).len();
                atoms.extend((0..count).map(|_| None));
            }
        }
    }

    /// The variables that an expression is, if it is nothing else.
    fn variables(&self, expr: ExprId, count: usize) -> Option<Vec<Var>> {
        let var = |&part: &ExprId| match self.body.exprs[part].kind {
            ExprKind::Var(var) => Some(var),
            _ => None,
        };
        match &self.body.exprs[expr].kind {
            ExprKind::Values(parts) if parts.len() == count => parts.iter().map(var).collect(),
            _ => var(&expr).map(|var| vec![var]),
        }
    }

    fn repetition(&mut self, kind: &ExprKind) {
        match kind {
            ExprKind::Loop(repeat) => {
                let Loop { vars, init, iteration, body } = &**repeat;
                self.expr(*init);
                let index = match iteration {
                    Iteration::Range(range) => Some(self.range(*range)),
                    Iteration::While(_) => None,
                };
                self.define(vars);
                if let Iteration::While(cond) = iteration {
                    // The condition may be written twice: nothing of it is known in the body.
                    self.branch(*cond);
                }
                self.branch(*body);
                index.map(|index| self.bounds.remove(&index));
            }
            ExprKind::Collect(_, collect) => {
                let index = self.range(collect.range);
                if let Some(first) = collect.first {
                    self.branch(first);
                }
                self.branch(collect.body);
                self.bounds.remove(&index);
            }
            ExprKind::Repeat(repeat) => {
                self.expr(repeat.init);
                self.define(&repeat.params);
                self.branch(repeat.body);
            }
            _ => unreachable!("only loops repeat"),
        }
    }

    /// The number of an index, whose bounds are known from now on.
    fn range(&mut self, range: Range) -> Number {
        let bounds = Bounds { from: self.expr(range.from), to: self.expr(range.to) };
        let index = self.new_number();
        self.values[range.index] = Some(index);
        self.bounds.insert(index, bounds);
        index
    }

    /// A choice, or the arm of the tag that the object is known to have.
    fn switch(&mut self, expr: ExprId, switch: Switch) -> Number {
        let object = self.expr(switch.object);
        if let Some(shape) = self.shapes.get(&object) {
            let arm = switch.arms.iter().find(|arm| arm.0 == shape.tag).map(|arm| arm.1).or(switch.default);
            let arm = arm.expect("a choice has an arm for every tag");
            // The object itself may have to be evaluated.
            let number = self.expr(arm);
            let bindings: Box<[Binding]> = match self.body.exprs[switch.object].kind {
                ExprKind::Var(_) => Box::default(),
                _ => {
                    let var = self.body.vars.push(self.lists.get(self.body.exprs[switch.object].types)[0]);
                    self.values.push(Some(object));
                    self.aliases.push(None);
                    Box::new([Binding { vars: List::from([var]), value: switch.object }])
                }
            };
            // The arm stays a node of its own: it may be named later.
            self.body.exprs[expr].kind = ExprKind::Block(bindings, arm);
            return number;
        }
        for &(tag, arm) in &switch.arms {
            self.arm(arm, switch.object, object, Some(tag));
        }
        if let Some(default) = switch.default {
            // The one that no arm is for, if it is only one.
            let named: u32 = switch.arms.iter().map(|arm| u32::from(arm.0)).sum();
            let only = (switch.arms.len() + 1 == usize::from(switch.tags))
                .then(|| ((0..u32::from(switch.tags)).sum::<u32>() - named) as u16);
            self.arm(default, switch.object, object, only);
        }
        self.new_line();
        self.body.exprs[expr].kind = ExprKind::Switch(Box::new(switch));
        self.new_number()
    }

    /// What is evaluated for an object that has a tag, if only one leads here.
    fn arm(&mut self, arm: ExprId, switched: ExprId, object: Number, tag: Option<u16>) {
        self.new_line();
        self.scoped(|sharer| {
            if let Some(tag) = tag {
                sharer.note_shape(object, Shape { tag, parts: List::default(), named: true });
                let Expr { ref kind, types, .. } = sharer.body.exprs[switched];
                if let ExprKind::Var(var) = *kind {
                    let since = sharer.changes.len();
                    let (line, calls) = (sharer.line, sharer.calls);
                    let place = Place { site: switched, vars: Some(List::from([var])), line, calls, since };
                    let empty = sharer.number(Operation::Empty(tag, types));
                    sharer.make_available(empty, place);
                }
            }
            sharer.expr(arm);
        });
    }

    /// A join without the bodies that nobody jumps to any more: they may read what is not bound any more.
    fn join(&mut self, expr: ExprId, join: Join) -> Number {
        self.branch(join.value);
        let mut bodies: Vec<Labelled> = Vec::with_capacity(join.bodies.len());
        for labelled in join.bodies {
            if self.jumped_to.contains(&labelled.label) {
                self.define(&labelled.params);
                self.branch(labelled.body);
                bodies.push(labelled);
            }
        }
        self.body.exprs[expr].kind = match bodies.is_empty() {
            true => ExprKind::Block(Box::default(), join.value),
            false => ExprKind::Join(Box::new(Join { value: join.value, bodies: bodies.into() })),
        };
        self.new_number()
    }
}
