//! Puts a consumer's arms in the place of a producer's results, or a call of one into the other.

use super::analysis::{Consumer, Made, Producer};
use super::{CONS, EMPTY, flat_args};
use crate::arena::Id;
use crate::core::{
    Atom, Binding, Body, Expr, ExprId, ExprKind, Field, Function, FunctionId, Label, Origin, Repeat, TypeList,
    TypeLists, Var,
};
use crate::list::List;
use crate::renumber::Renumber;
use dualvm_vm::module::ValueType;

/// A consumer and a producer in one function, whose parameters are the producer's and the consumer's others. Its name
/// is the producer's.
pub(super) fn together(
    [consumer, producer]: [&Function; 2],
    at: usize,
    makes: &Producer,
    takes: &Consumer,
    lists: &mut TypeLists,
) -> Function {
    let mut function = producer.clone();
    function.results = consumer.results;
    for &expr in &makes.spine {
        function.body.exprs[expr].types = consumer.results;
    }
    let mut grafter = Grafter { consumer, at, takes, body: function.body, lists, others: Vec::new(), head: None };
    let others = consumer.params.iter().enumerate().filter(|&(other, _)| other != at);
    let others: Vec<(Var, Var)> =
        others.map(|(_, &var)| (var, grafter.body.vars.push(consumer.body.vars[var]))).collect();
    let outer: Vec<Var> = others.iter().map(|other| other.1).collect();
    let root = match &consumer.body.exprs[consumer.root].kind {
        ExprKind::Repeat(repeat) if !makes.is_literal => {
            grafter.repetition(&mut function.params, function.root, makes, repeat, others)
        }
        ExprKind::Repeat(repeat) => {
            // What the repetition carries in its first round.
            let firsts = grafter.first_values(repeat, &others);
            grafter.others = others;
            grafter.others.extend(firsts);
            grafter.results(makes);
            function.root
        }
        _ => {
            grafter.others = others;
            grafter.results(makes);
            function.root
        }
    };
    function.params.extend(outer);
    function.body = grafter.body.drain();
    if makes.is_literal {
        // Nobody has written what makes the list.
        function.written.clone_from(&consumer.written);
    }
    function.root = root;
    function
}

/// A consumer that calls a producer in the place of its list, with the same parameters as [`together`].
pub(super) fn inside(
    [consumer, producer]: [&Function; 2],
    at: usize,
    place: ExprId,
    lists: &mut TypeLists,
) -> Function {
    let mut function = consumer.clone();
    let body = &mut function.body;
    let origin = body.exprs[place].origin;
    let params: Vec<Var> = producer.params.iter().map(|&param| body.vars.push(producer.body.vars[param])).collect();
    let args = params.iter().map(|&param| body.atom(Atom::Var(param), origin, lists)).collect();
    body.exprs[place].kind = ExprKind::Call(producer.id, args);
    function.params.remove(at);
    function.params.splice(0..0, params);
    function
}

/// A producer that calls a consumer with what was its result, that of these blocks, with the same parameters as
/// [`together`].
pub(super) fn around(
    [consumer, producer]: [&Function; 2],
    at: usize,
    (blocks, result): (&[ExprId], ExprId),
    lists: &mut TypeLists,
) -> Function {
    let mut function = producer.clone();
    let body = &mut function.body;
    let origin = body.exprs[result].origin;
    let mut args: Vec<ExprId> = Vec::with_capacity(consumer.params.len());
    for (place, &param) in consumer.params.iter().enumerate() {
        if place == at {
            let list = body.exprs[result].clone();
            args.push(body.exprs.push(list));
        } else {
            let other = body.vars.push(consumer.body.vars[param]);
            function.params.push(other);
            args.push(body.atom(Atom::Var(other), origin, lists));
        }
    }
    body.exprs[result].kind = ExprKind::Call(consumer.id, args.into());
    for &expr in blocks.iter().chain([&result]) {
        body.exprs[expr].types = consumer.results;
    }
    function.results = consumer.results;
    function
}

/// A function that makes the list of so many elements, which are its parameters; `shorter` makes the one of all but the
/// first.
pub(super) fn maker(
    (list, element): (TypeList, &[ValueType]),
    len: usize,
    shorter: Option<FunctionId>,
    lists: &mut TypeLists,
) -> Function {
    let mut body = Body::default();
    let origin = Origin::default();
    let params: Vec<Var> = (0..len).flat_map(|_| element).map(|&ty| body.vars.push(ty)).collect();
    let mut parts: Vec<ExprId> = params.iter().map(|&param| body.atom(Atom::Var(param), origin, lists)).collect();
    let kind = match shorter {
        None => ExprKind::Construct(EMPTY, List::default()),
        Some(shorter) => {
            let rest = parts.split_off(element.len());
            parts.push(body.exprs.push(Expr { kind: ExprKind::Call(shorter, rest.into()), types: list, origin }));
            ExprKind::Construct(CONS, parts.into())
        }
    };
    let root = body.exprs.push(Expr { kind, types: list, origin });
    let (id, name) = (FunctionId::from_index(0), String::new());
    Function { id, name, written: None, interface: None, twin_of: None, params, results: list, body, root }
}

/// The repetition that both together are.
struct Head {
    label: Label,
    /// Which of the producer's parameters it carries, by their places.
    carried: Vec<usize>,
    /// The place of the list among the parameters of the consumer's repetition.
    list: usize,
}

struct Grafter<'g> {
    consumer: &'g Function,
    at: usize,
    takes: &'g Consumer,
    body: Body,
    lists: &'g mut TypeLists,
    /// The consumer's variables that are known where its arms begin, and what they are.
    others: Vec<(Var, Var)>,
    head: Option<Head>,
}

impl Grafter<'_> {
    fn make(&mut self, kind: ExprKind, types: TypeList, origin: Origin) -> ExprId {
        self.body.exprs.push(Expr { kind, types, origin })
    }

    fn variable(&mut self, var: Var, origin: Origin) -> ExprId {
        self.body.atom(Atom::Var(var), origin, self.lists)
    }

    fn variables(&mut self, vars: &[Var], origin: Origin) -> ExprId {
        let uses: List<ExprId> = vars.iter().map(|&var| self.variable(var, origin)).collect();
        let types: Vec<ValueType> = vars.iter().map(|&var| self.body.vars[var]).collect();
        let types = self.lists.intern(&types);
        self.make(ExprKind::Values(uses), types, origin)
    }

    /// Makes a repetition of the producer's body. What each of its calls of itself hands on as it is stays outside.
    fn repetition(
        &mut self,
        params: &mut [Var],
        root: ExprId,
        makes: &Producer,
        repeat: &Repeat,
        others: Vec<(Var, Var)>,
    ) -> ExprId {
        let origin = self.body.exprs[root].origin;
        let changes = |&at: &usize| {
            makes.results.iter().any(|(_, made)| match made {
                Made::Element { args, .. } => {
                    !matches!(self.body.exprs[args[at]].kind, ExprKind::Var(var) if var == params[at])
                }
                _ => false,
            })
        };
        let carried: Vec<usize> = (0..params.len()).filter(changes).collect();
        let (mut inner, mut init) = (Vec::new(), Vec::new());
        for &at in &carried {
            inner.push(params[at]);
            params[at] = self.body.vars.push(self.body.vars[params[at]]);
            init.push(params[at]);
        }
        for (param, first) in self.first_values(repeat, &others) {
            let carried = self.body.vars.push(self.body.vars[first]);
            self.others.push((param, carried));
            inner.push(carried);
            init.push(first);
        }
        let list = repeat.params.iter().position(|&param| param == self.takes.list).expect("it carries the list");
        self.others.splice(0..0, others);
        let label = self.body.labels.push(());
        self.head = Some(Head { label, carried, list });
        self.results(makes);
        let init = self.variables(&init, origin);
        let repeat = Repeat { label, params: inner.into(), init, body: root, builds: false };
        self.make(ExprKind::Repeat(Box::new(repeat)), self.consumer.results, origin)
    }

    /// What the consumer's repetition carries besides the list, and what that is at first: others of its parameters.
    fn first_values(&self, repeat: &Repeat, others: &[(Var, Var)]) -> Vec<(Var, Var)> {
        let ExprKind::Values(firsts) = &self.consumer.body.exprs[repeat.init].kind else {
            unreachable!("the consumer was looked at")
        };
        let carried = repeat.params.iter().zip(firsts).filter(|&(&param, _)| param != self.takes.list);
        let first = |(&param, &first): (&Var, &ExprId)| {
            let ExprKind::Var(first) = self.consumer.body.exprs[first].kind else {
                unreachable!("self tail calls become repetitions that begin with parameters")
            };
            (param, others.iter().find(|other| other.0 == first).expect("it is a parameter").1)
        };
        carried.map(first).collect()
    }

    /// Replaces all results.
    fn results(&mut self, makes: &Producer) {
        for (expr, made) in &makes.results {
            let origin = self.body.exprs[*expr].origin;
            let kind = match made {
                Made::Empty => {
                    let shift = self.append();
                    let arm = shift.expr(self.takes.arms[0]);
                    let bindings = self.known(shift, origin);
                    ExprKind::Block(bindings.into(), arm)
                }
                Made::Element { heads, call, args } => self.element(heads, *call, args, origin),
                Made::Other => {
                    let node = self.body.exprs[*expr].clone();
                    let list = self.body.exprs.push(node);
                    self.call(list, origin)
                }
            };
            self.body.exprs[*expr] = Expr { kind, types: self.consumer.results, origin };
        }
    }

    /// Appends the consumer's expressions.
    fn append(&mut self) -> Shift {
        let shift = Shift { exprs: self.body.exprs.len(), vars: self.body.vars.len(), labels: self.body.labels.len() };
        let Body { exprs, vars, labels } = &self.consumer.body;
        for (_, expr) in exprs.iter() {
            let mut expr = expr.clone();
            shift.kind(&mut expr.kind);
            self.body.exprs.push(expr);
        }
        vars.iter().for_each(|(_, &ty)| {
            self.body.vars.push(ty);
        });
        labels.ids().for_each(|_| {
            self.body.labels.push(());
        });
        shift
    }

    /// Bindings of what an appended arm knows.
    fn known(&mut self, shift: Shift, origin: Origin) -> Vec<Binding> {
        let others = self.others.clone();
        let known = others
            .into_iter()
            .map(|(var, is)| Binding { vars: List::from([shift.var(var)]), value: self.variable(is, origin) });
        known.collect()
    }

    /// Elements before a list: the consumer's arm, which goes on with the producer's call.
    fn element(&mut self, heads: &[ExprId], call: ExprId, args: &[ExprId], origin: Origin) -> ExprKind {
        let shift = self.append();
        let mut bindings = Vec::new();
        let mut fields: Vec<Var> = Vec::new();
        for &head in heads {
            let types = self.lists.get(self.body.exprs[head].types).to_vec();
            let vars: List<Var> = types.iter().map(|&ty| self.body.vars.push(ty)).collect();
            fields.extend(&vars);
            bindings.push(Binding { vars, value: head });
        }
        // What stands at several places has names.
        let names = (self.takes.places > 1).then(|| self.named(args, &mut bindings));
        let known = self.known(shift, origin);
        bindings.extend(known);
        let (list, rest) = (shift.var(self.takes.list), shift.var(self.takes.rest));
        for at in shift.exprs..shift.exprs + self.consumer.body.exprs.len() {
            let expr = ExprId::from_index(at);
            match &mut self.body.exprs[expr].kind {
                ExprKind::Block(inner, _) if inner.iter().any(|binding| *binding.vars == [rest]) => {
                    *inner = inner.iter().filter(|binding| *binding.vars != [rest]).cloned().collect();
                }
                ExprKind::Payload(Field { tag: CONS, index }, object) => {
                    let (object, index) = (*object, usize::from(*index));
                    if matches!(self.body.exprs[object].kind, ExprKind::Var(var) if var == list)
                        && let Some(&field) = fields.get(index)
                    {
                        self.body.exprs[expr].kind = ExprKind::Var(field);
                    }
                }
                _ => {}
            }
        }
        for &rest_use in &self.takes.rest_uses {
            let node = self.rest(call, names.as_deref());
            self.body.exprs[shift.expr(rest_use)] = node;
        }
        match &self.head {
            Some(head) => {
                let head = (head.label, head.list, head.carried.clone());
                self.jump_on(shift, (args, names.as_deref()), head);
            }
            None => self.begin_anew(shift, call, names.as_deref()),
        }
        ExprKind::Block(bindings.into(), shift.expr(self.takes.arms[1]))
    }

    /// The producer's call for the rest, whose arguments may have names.
    fn rest(&mut self, call: ExprId, names: Option<&[Var]>) -> Expr {
        let mut node = self.body.exprs[call].clone();
        if let (ExprKind::Call(_, args), Some(names)) = (&mut node.kind, names) {
            *args = names.iter().map(|&name| self.variable(name, node.origin)).collect();
        }
        node
    }

    /// The appended jumps to the consumer's next iteration, with their arguments.
    fn appended_jumps(&self, shift: Shift, repeat: &Repeat) -> Vec<(ExprId, Vec<ExprId>)> {
        let label = shift.label(repeat.label);
        let appended = (shift.exprs..shift.exprs + self.consumer.body.exprs.len()).map(ExprId::from_index);
        let jump = |expr: ExprId| match &self.body.exprs[expr].kind {
            ExprKind::Jump(to, args) if *to == label => {
                let args = flat_args(&self.body, self.lists, args, repeat.params.len());
                Some((expr, args.expect("the consumer was looked at")))
            }
            _ => None,
        };
        appended.filter_map(jump).collect()
    }

    /// Makes the appended jumps to the consumer's next iteration calls of the consumer with the rest.
    fn begin_anew(&mut self, shift: Shift, call: ExprId, names: Option<&[Var]>) {
        let consumer = self.consumer;
        let ExprKind::Repeat(repeat) = &consumer.body.exprs[consumer.root].kind else { return };
        for (expr, own) in self.appended_jumps(shift, repeat) {
            let origin = self.body.exprs[expr].origin;
            let mut args = Vec::with_capacity(consumer.params.len());
            for (at, &param) in consumer.params.iter().enumerate() {
                args.push(match self.place_carried(repeat, param) {
                    _ if at == self.at => {
                        let rest = self.rest(call, names);
                        self.body.exprs.push(rest)
                    }
                    Some(place) => own[place],
                    None => {
                        let known = self.others.iter().find(|other| other.0 == param);
                        self.variable(known.expect("all other parameters are known").1, origin)
                    }
                });
            }
            let kind = ExprKind::Call(consumer.id, args.into());
            self.body.exprs[expr] = Expr { kind, types: consumer.results, origin };
        }
    }

    /// Variables for the values of expressions, one of each.
    fn named(&mut self, values: &[ExprId], bindings: &mut Vec<Binding>) -> Vec<Var> {
        let name = |&value: &ExprId| {
            if let ExprKind::Var(var) = self.body.exprs[value].kind {
                return var;
            }
            let var = self.body.vars.push(self.lists.get(self.body.exprs[value].types)[0]);
            bindings.push(Binding { vars: List::from([var]), value });
            var
        };
        values.iter().map(name).collect()
    }

    /// Makes the appended jumps to the consumer's next iteration some to the next iteration of both, with these
    /// arguments of the producer, which may have names.
    fn jump_on(
        &mut self,
        shift: Shift,
        (args, names): (&[ExprId], Option<&[Var]>),
        (label, list, carried): (Label, usize, Vec<usize>),
    ) {
        let ExprKind::Repeat(repeat) = &self.consumer.body.exprs[self.consumer.root].kind else {
            unreachable!("only repetitions have a head")
        };
        for (expr, own) in self.appended_jumps(shift, repeat) {
            let others = own.iter().enumerate().filter(|&(place, _)| place != list).map(|(_, &arg)| arg);
            let origin = self.body.exprs[expr].origin;
            let handed = carried.iter().map(|&at| match names {
                Some(names) => self.body.atom(Atom::Var(names[at]), origin, self.lists),
                None => args[at],
            });
            let all = handed.chain(others).collect();
            self.body.exprs[expr].kind = ExprKind::Jump(label, all);
        }
    }

    /// A call of the consumer.
    fn call(&mut self, list: ExprId, origin: Origin) -> ExprKind {
        let mut args = Vec::new();
        for (at, param) in self.consumer.params.iter().enumerate() {
            if at == self.at {
                args.push(list);
                continue;
            }
            // What a repetition carries has the values of this iteration.
            let carried = match &self.consumer.body.exprs[self.consumer.root].kind {
                ExprKind::Repeat(repeat) => self.carries(repeat, *param),
                _ => *param,
            };
            let known = self.others.iter().rev().find(|other| other.0 == carried);
            let var = known.expect("all other parameters are known").1;
            args.push(self.variable(var, origin));
        }
        ExprKind::Call(self.consumer.id, args.into())
    }

    /// The variable of a repetition that begins with a parameter, or else the parameter.
    fn carries(&self, repeat: &Repeat, param: Var) -> Var {
        self.place_carried(repeat, param).map_or(param, |place| repeat.params[place])
    }

    /// The place of that variable among those of the repetition, if there is one.
    fn place_carried(&self, repeat: &Repeat, param: Var) -> Option<usize> {
        let ExprKind::Values(init) = &self.consumer.body.exprs[repeat.init].kind else { return None };
        let begins = |init: &ExprId| matches!(self.consumer.body.exprs[*init].kind, ExprKind::Var(var) if var == param);
        init.iter().position(begins)
    }
}

/// Where something was appended.
#[derive(Clone, Copy)]
struct Shift {
    exprs: usize,
    vars: usize,
    labels: usize,
}

impl Renumber for Shift {
    fn expr(&self, expr: ExprId) -> ExprId {
        ExprId::from_index(expr.index() + self.exprs)
    }

    fn var(&self, var: Var) -> Var {
        Var::from_index(var.index() + self.vars)
    }

    fn label(&self, label: Label) -> Label {
        Label::from_index(label.index() + self.labels)
    }
}
