//! What is known of integers and of the lengths of arrays.

use crate::arena::Table;
use crate::core::{ArrayType, Body, ExprId, ExprKind, Function, Iteration, Label, Step, TypeLists, Var};
use crate::hash::{HashMap, HashSet};
use crate::limits::Meter;
use crate::list::List;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;
use smallvec::{SmallVec, smallvec};

/// Functions in which more walks are needed are left as they are.
const WALKS_MAX: usize = 8;
/// Larger expressions are not computed.
const NODES_MAX: u32 = 64;

/// What is known of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fact {
    /// It is never computed, as far as is known so far.
    Never,
    /// It is this integer, or an array of this length.
    Known(i64),
    /// It is an array of this length, whose elements are arrays of that one.
    Rows(i64, i64),
    /// It is a builder with so many elements, more than another one.
    Built(Option<Var>, i64),
    /// Nothing.
    Unknown,
}

impl Fact {
    fn known(self) -> Option<i64> {
        match self {
            Fact::Known(value) | Fact::Rows(value, _) | Fact::Built(None, value) => Some(value),
            Fact::Never | Fact::Built(Some(_), _) | Fact::Unknown => None,
        }
    }

    /// The same without what is known of an array's elements.
    fn without_elements(self) -> Fact {
        match self {
            Fact::Rows(length, _) => Fact::Known(length),
            other => other,
        }
    }

    /// A builder with so many more elements.
    fn with(self, more: i64) -> Fact {
        match self {
            Fact::Built(of, length) => length.checked_add(more).map_or(Fact::Unknown, |length| Fact::Built(of, length)),
            Fact::Never => Fact::Never,
            Fact::Known(_) | Fact::Rows(..) | Fact::Unknown => Fact::Unknown,
        }
    }

    fn join(self, other: Fact) -> Fact {
        match (self, other) {
            (Fact::Never, fact) | (fact, Fact::Never) => fact,
            (one, other) if one == other => one,
            (Fact::Rows(length, _), Fact::Rows(other, _) | Fact::Known(other))
            | (Fact::Known(length), Fact::Rows(other, _))
                if length == other =>
            {
                Fact::Known(length)
            }
            _ => Fact::Unknown,
        }
    }
}

/// The facts of an expression's values.
type Found = SmallVec<[Fact; 2]>;

/// What is known of a function's variables.
pub(super) struct Facts {
    vars: Table<Var, Fact>,
    /// Where arrays get elements that are no arrays of a known length.
    others: HashSet<ExprId>,
}

impl Facts {
    /// Finds what is known of a function's variables, in a few walks over it; `None` if it takes more.
    pub(super) fn of(function: &Function, lists: &TypeLists, meter: &Meter) -> Option<Facts> {
        Facts::assuming(function, lists, HashMap::default(), meter)
    }

    /// The same, if some variables of loops began with arrays of these lengths.
    pub(super) fn assuming(
        function: &Function,
        lists: &TypeLists,
        begins: HashMap<Var, i64>,
        meter: &Meter,
    ) -> Option<Facts> {
        let body = &function.body;
        let facts = Facts { vars: Table::filled(Fact::Never, body.vars.len()), others: HashSet::default() };
        let mut finder = Finder { body, lists, meter, facts, begins, labels: HashMap::default(), changed: false };
        finder.vars(&function.params, &[]);
        for _ in 0..WALKS_MAX {
            finder.changed = false;
            finder.expr(function.root);
            if !meter.go_on() {
                return None;
            }
            if !finder.changed {
                return Some(finder.facts);
            }
        }
        None
    }

    /// The integer that a variable is, or the length of the array.
    pub(super) fn known(&self, var: Var) -> Option<i64> {
        self.vars[var].known()
    }

    /// Whether all elements that an array gets in an expression are arrays of known lengths.
    pub(super) fn has_known_elements(&self, expr: ExprId) -> bool {
        !self.others.contains(&expr)
    }

    /// Whether a variable is a builder of whose elements the number is known, or by how many it grows in a loop.
    pub(super) fn is_builder(&self, var: Var) -> bool {
        matches!(self.vars[var], Fact::Built(..))
    }

    /// The integer that an expression is, if that is known, nothing is bound or done in it, and it is no more than a
    /// few nodes.
    pub(super) fn integer(&self, body: &Body, expr: ExprId) -> Option<i64> {
        self.integer_within(body, expr, &mut { NODES_MAX })
    }

    fn integer_within(&self, body: &Body, expr: ExprId, nodes: &mut u32) -> Option<i64> {
        *nodes = nodes.checked_sub(1)?;
        match &body.exprs[expr].kind {
            ExprKind::Int(value) => Some(*value),
            ExprKind::Var(var) => self.known(*var),
            ExprKind::Length(_, array) => match body.exprs[*array].kind {
                ExprKind::Var(var) => self.known(var),
                _ => None,
            },
            ExprKind::Scalar(op, args) => {
                let args = args.iter().map(|&arg| self.integer_within(body, arg, nodes));
                scalar(*op, &args.collect::<Option<SmallVec<[i64; 2]>>>()?)
            }
            &ExprKind::If([cond, then, other]) => {
                let branch = if self.holds(body, cond, nodes)? { then } else { other };
                self.integer_within(body, branch, nodes)
            }
            _ => None,
        }
    }

    fn holds(&self, body: &Body, cond: ExprId, nodes: &mut u32) -> Option<bool> {
        *nodes = nodes.checked_sub(1)?;
        match body.exprs[cond].kind {
            ExprKind::Compare(comparison, pair) => {
                let [left, right] = pair.map(|part| self.integer_within(body, part, nodes));
                Some(comparison.holds(left?.cmp(&right?)))
            }
            ExprKind::Not(operand) => Some(!self.holds(body, operand, nodes)?),
            ExprKind::And([first, second]) => match self.holds(body, first, nodes)? {
                true => self.holds(body, second, nodes),
                false => Some(false),
            },
            ExprKind::Or([first, second]) => match self.holds(body, first, nodes)? {
                true => Some(true),
                false => self.holds(body, second, nodes),
            },
            _ => self.integer_within(body, cond, nodes).map(|value| value != 0),
        }
    }
}

/// An operation on integers that are known; `None` if it is none that indices and sizes are made of.
pub(super) fn scalar(op: Op, args: &[i64]) -> Option<i64> {
    match (op, args) {
        (Op::IAdd, &[a, b]) => a.checked_add(b),
        (Op::ISub, &[a, b]) => a.checked_sub(b),
        (Op::IMul, &[a, b]) => a.checked_mul(b),
        (Op::IDiv, &[a, b]) => a.checked_div(b),
        (Op::IRem, &[a, b]) => a.checked_rem(b),
        (Op::IMax, &[a, b]) => Some(a.max(b)),
        (Op::IMin, &[a, b]) => Some(a.min(b)),
        (Op::INeg, &[a]) => a.checked_neg(),
        _ => None,
    }
}

/// How often a loop goes round.
pub(super) fn rounds(from: i64, to: i64) -> Option<i64> {
    to.checked_sub(from).map(|count| count.max(0))
}

struct Finder<'f> {
    body: &'f Body,
    lists: &'f TypeLists,
    meter: &'f Meter,
    facts: Facts,
    /// The lengths of arrays that some variables of loops begin with.
    begins: HashMap<Var, i64>,
    labels: HashMap<Label, List<Var>>,
    changed: bool,
}

impl Finder<'_> {
    /// Adds what is known of what some variables may be; nothing is known of those without facts.
    fn vars(&mut self, vars: &[Var], facts: &[Fact]) {
        for (at, &var) in vars.iter().enumerate() {
            let fact = facts.get(at).copied().unwrap_or(Fact::Unknown);
            let joined = self.facts.vars[var].join(fact);
            if joined != self.facts.vars[var] {
                self.facts.vars[var] = joined;
                self.changed = true;
            }
        }
    }

    fn expr(&mut self, expr: ExprId) -> Found {
        if !self.meter.step(self.body.exprs[expr].origin.span) {
            return self.values(expr, Fact::Unknown);
        }
        crate::stack::grown(|| self.expr_here(expr))
    }

    /// What is known of the values of an expression that are those of one of several.
    fn joined(&self, expr: ExprId, found: impl IntoIterator<Item = Found>) -> Found {
        let mut joined = self.values(expr, Fact::Never);
        for one in found {
            joined.iter_mut().zip(one).for_each(|(fact, other)| *fact = fact.join(other));
        }
        joined
    }

    /// The same fact for each of an expression's values.
    fn values(&self, expr: ExprId, fact: Fact) -> Found {
        SmallVec::from_elem(fact, self.lists.get(self.body.exprs[expr].types).len())
    }

    fn all(&mut self, exprs: &[ExprId]) -> Found {
        exprs.iter().flat_map(|&expr| self.expr(expr)).collect()
    }

    fn expr_here(&mut self, expr: ExprId) -> Found {
        let body = self.body;
        match &body.exprs[expr].kind {
            ExprKind::Int(value) => smallvec![Fact::Known(*value)],
            ExprKind::Var(var) => smallvec![self.facts.vars[*var]],
            ExprKind::Values(parts) => self.all(parts),
            ExprKind::Pack(array, elements) => {
                let found = self.all(elements);
                smallvec![self.array(expr, *array, Fact::Known(elements.len() as i64), &found)]
            }
            ExprKind::Collect(array, collect) => {
                let bounds = [collect.range.from, collect.range.to].map(|bound| self.one(bound));
                collect.first.into_iter().for_each(|first| _ = self.expr(first));
                self.vars(&[collect.range.index], &[]);
                let found = self.expr(collect.body);
                let length = match bounds {
                    [Fact::Never, _] | [_, Fact::Never] => Fact::Never,
                    [Fact::Known(from), Fact::Known(to)] if collect.first.is_none() => {
                        rounds(from, to).map_or(Fact::Unknown, Fact::Known)
                    }
                    _ => Fact::Unknown,
                };
                smallvec![self.array(expr, *array, length, &found)]
            }
            ExprKind::Builder(array, step, parts) => {
                let found = self.all(parts);
                if *step == Step::Push {
                    self.array(expr, *array, Fact::Unknown, &found[1..]);
                }
                let builder = found.first().copied().unwrap_or(Fact::Unknown);
                match (step, builder) {
                    (Step::Begin, Fact::Never) => self.values(expr, Fact::Never),
                    (Step::Begin, _) => self.values(expr, Fact::Built(None, 0)),
                    (Step::Reserve, _) => self.values(expr, builder),
                    (Step::Push, _) => self.values(expr, builder.with(1)),
                    (Step::Finish, Fact::Built(None, length)) => self.values(expr, Fact::Known(length)),
                    (Step::Finish, Fact::Never) => self.values(expr, Fact::Never),
                    _ => self.values(expr, Fact::Unknown),
                }
            }
            ExprKind::Length(_, array) => smallvec![self.one(*array).without_elements()],
            ExprKind::Element(_, parts, _) => {
                let found = self.all(parts);
                match found[0] {
                    Fact::Never => self.values(expr, Fact::Never),
                    Fact::Rows(_, length) => self.values(expr, Fact::Known(length)),
                    _ => self.values(expr, Fact::Unknown),
                }
            }
            ExprKind::Replace(_, parts) => {
                let found = self.all(parts);
                smallvec![match found[..] {
                    [Fact::Rows(length, one), _, Fact::Known(other)] if one == other => Fact::Rows(length, one),
                    _ => found[0].without_elements(),
                }]
            }
            ExprKind::Scalar(op, args) => {
                let found = self.all(args);
                let args: SmallVec<[i64; 2]> = found.iter().filter_map(|fact| fact.known()).collect();
                smallvec![match () {
                    () if found.contains(&Fact::Never) => Fact::Never,
                    () if args.len() < found.len() => Fact::Unknown,
                    () => scalar(*op, &args).map_or(Fact::Unknown, Fact::Known),
                }]
            }
            ExprKind::If([cond, then, other]) => {
                self.expr(*cond);
                let branches = [*then, *other].map(|branch| self.expr(branch));
                self.joined(expr, branches)
            }
            ExprKind::Switch(switch) => {
                self.expr(switch.object);
                let arms = switch.arms.iter().map(|arm| arm.1).chain(switch.default);
                let found: Vec<Found> = arms.map(|arm| self.expr(arm)).collect();
                self.joined(expr, found)
            }
            ExprKind::Block(bindings, value) => {
                for binding in bindings {
                    let found = self.expr(binding.value);
                    self.vars(&binding.vars, &found);
                }
                self.expr(*value)
            }
            ExprKind::Loop(repeat) => {
                let mut first = self.expr(repeat.init);
                let mut count = None;
                match repeat.iteration {
                    Iteration::While(_) => {}
                    Iteration::Range(range) => {
                        let bounds = [range.from, range.to].map(|bound| self.one(bound).known());
                        count = bounds[0].zip(bounds[1]).and_then(|(from, to)| rounds(from, to));
                        self.vars(&[range.index], &[]);
                    }
                }
                self.begin(&repeat.vars, &mut first);
                let init = first.clone();
                for (fact, &var) in first.iter_mut().zip(&repeat.vars) {
                    if let Fact::Built(..) = fact {
                        *fact = count.map_or(Fact::Unknown, |_| Fact::Built(Some(var), 0));
                    }
                }
                self.vars(&repeat.vars, &first);
                if let Iteration::While(cond) = repeat.iteration {
                    self.expr(cond);
                }
                let mut next = self.expr(repeat.body);
                let mut results = Found::new();
                for ((fact, &init), &var) in next.iter_mut().zip(&init).zip(&repeat.vars) {
                    // What a builder grows by in each round it grows by in all.
                    let grown = match (*fact, count) {
                        (Fact::Built(Some(of), more), Some(count)) if of == var => {
                            *fact = Fact::Built(Some(var), 0);
                            more.checked_mul(count).map(|more| init.with(more))
                        }
                        (Fact::Built(..), _) => Some(Fact::Unknown),
                        _ => None,
                    };
                    results.extend(grown);
                    if grown.is_none() {
                        self.vars(&[var], &[*fact]);
                        results.push(self.facts.vars[var]);
                    }
                }
                results
            }
            ExprKind::Repeat(repeat) => {
                self.labels.insert(repeat.label, repeat.params.clone());
                let mut init = self.expr(repeat.init);
                self.begin(&repeat.params, &mut init);
                self.vars(&repeat.params, &init);
                let found = self.expr(repeat.body);
                if repeat.builds { self.values(expr, Fact::Unknown) } else { found }
            }
            ExprKind::Join(join) => {
                for labelled in &join.bodies {
                    self.labels.insert(labelled.label, labelled.params.clone());
                }
                let found: Vec<Found> = join.parts().map(|part| self.expr(part)).collect();
                self.joined(expr, found)
            }
            ExprKind::Jump(label, args) => {
                let found = self.all(args);
                if let Some(params) = self.labels.get(label).cloned() {
                    self.vars(&params, &found);
                }
                self.values(expr, Fact::Never)
            }
            ExprKind::Extend(extend) => {
                extend.cells.iter().for_each(|cell| _ = self.all(&cell.fields));
                let found = self.all(&extend.args);
                if let Some(params) = self.labels.get(&extend.label).cloned() {
                    self.vars(&params, &found);
                }
                self.values(expr, Fact::Never)
            }
            ExprKind::Trap(text) => {
                self.all(&text.args);
                self.values(expr, Fact::Never)
            }
            _ => {
                let mut children: SmallVec<[ExprId; 4]> = SmallVec::new();
                body.exprs[expr].for_each_child(|child| children.push(child));
                self.all(&children);
                self.values(expr, Fact::Unknown)
            }
        }
    }

    /// Puts what is assumed of a loop's variables in the place of what they begin with.
    fn begin(&self, vars: &[Var], facts: &mut [Fact]) {
        for (fact, var) in facts.iter_mut().zip(vars) {
            if let Some(&length) = self.begins.get(var) {
                *fact = Fact::Known(length);
            }
        }
    }

    /// What an array with some elements is, whose length is known from elsewhere. Notes what the elements are, if they
    /// are objects.
    fn array(&mut self, expr: ExprId, array: ArrayType, length: Fact, elements: &[Fact]) -> Fact {
        if !matches!(array.holds, ValueType::Ref(_)) {
            return length;
        }
        if elements.contains(&Fact::Never) {
            return Fact::Never;
        }
        let mut known = elements.iter().map(|fact| fact.known());
        match known.clone().all(|known| known.is_some()) {
            true => _ = self.facts.others.remove(&expr),
            false => _ = self.facts.others.insert(expr),
        }
        match (length, known.next()) {
            (Fact::Known(length), Some(Some(first))) if known.all(|other| other == Some(first)) => {
                Fact::Rows(length, first)
            }
            _ => length,
        }
    }

    fn one(&mut self, expr: ExprId) -> Fact {
        self.expr(expr).first().copied().unwrap_or(Fact::Unknown)
    }
}
