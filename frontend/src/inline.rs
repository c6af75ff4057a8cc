//! Small functions that don't recurse are copied into their callers: the recorder cuts its segments at calls, so that a
//! call in a loop costs far more than its own time.
//!
//! Works from callees to callers, so that what is copied has been inlined into already. Functions that are not called
//! any more, and that hosts can't call, are dropped.

use crate::arena::{Id, Table};
use crate::core::{
    Atom, Binding, Body, Collect, Expr, ExprId, ExprKind, Function, FunctionId, Iteration, Loop, Program, Range,
    TypeLists, Var,
};
use crate::graph;

/// Functions of more nodes than this are called.
const INLINED_NODES_MAX: usize = 40;
/// A function grows by inlining up to this size.
const GROWN_NODES_MAX: usize = 20_000;

/// Inlines small functions.
pub(crate) fn inline(mut program: Program) -> Program {
    let calls = program.functions.ids().map(|id| callees(&program.functions[id]));
    let mut graph = Table::default();
    calls.for_each(|list| {
        graph.push(list);
    });
    let mut small: Table<FunctionId, bool> = Table::filled(false, graph.len());
    for group in graph::groups(&graph) {
        for &id in &group {
            if graph[id].iter().any(|&callee| small[callee]) {
                let function = copy_function(&program.functions, id, &small, &mut program.lists);
                program.functions[id] = function;
            }
        }
        if let [single] = group[..]
            && !graph[single].contains(&single)
        {
            let function = &program.functions[single];
            small[single] = nodes(function, INLINED_NODES_MAX + 1).len() <= INLINED_NODES_MAX;
        }
    }
    drop_unused(program)
}

/// The nodes of a function's tree, parents before children, at most `limit`.
fn nodes(function: &Function, limit: usize) -> Vec<ExprId> {
    let mut found = Vec::new();
    let mut pending = vec![function.root];
    while let Some(expr) = pending.pop() {
        if found.len() >= limit {
            break;
        }
        found.push(expr);
        function.body.exprs[expr].for_each_child(|child| pending.push(child));
    }
    found
}

fn callees(function: &Function) -> Vec<FunctionId> {
    let mut callees: Vec<FunctionId> = Vec::new();
    for expr in nodes(function, usize::MAX) {
        if let ExprKind::Call(callee, _) = function.body.exprs[expr].kind {
            callees.push(callee);
        }
    }
    callees.sort_unstable();
    callees.dedup();
    callees
}

/// Removes what neither hosts nor other functions call.
fn drop_unused(mut program: Program) -> Program {
    let mut used = Table::filled(false, program.functions.len());
    let exported = program.functions.iter().filter(|(_, function)| function.interface.is_some());
    let mut pending: Vec<FunctionId> = exported.map(|(id, _)| id).collect();
    while let Some(id) = pending.pop() {
        if !std::mem::replace(&mut used[id], true) {
            pending.extend(callees(&program.functions[id]));
        }
    }
    let mut renumbered: Table<FunctionId, FunctionId> = Table::default();
    let mut next = 0;
    for id in used.ids() {
        renumbered.push(FunctionId::from_index(next));
        next += usize::from(used[id]);
    }
    let functions = std::mem::take(&mut program.functions);
    for (id, mut function) in functions.into_entries() {
        if !used[id] {
            continue;
        }
        function.id = renumbered[id];
        for expr in nodes(&function, usize::MAX) {
            if let ExprKind::Call(callee, _) = &mut function.body.exprs[expr].kind {
                *callee = renumbered[*callee];
            }
        }
        program.functions.push(function);
    }
    program
}

fn copy_function(
    functions: &Table<FunctionId, Function>,
    id: FunctionId,
    small: &Table<FunctionId, bool>,
    lists: &mut TypeLists,
) -> Function {
    let old = &functions[id];
    let mut copier = Copier { functions, small, lists, body: Body::default(), from: old, atoms: Vec::new() };
    copier.atoms = vec![None; old.body.vars.len()];
    let params = old.params.iter().map(|&var| copier.bind(var)).collect();
    let root = copier.expr(old.root);
    let body = copier.body;
    Function { id, name: old.name.clone(), interface: old.interface.clone(), params, results: old.results, body, root }
}

/// Copies a function's tree into a new body.
struct Copier<'c> {
    functions: &'c Table<FunctionId, Function>,
    small: &'c Table<FunctionId, bool>,
    lists: &'c mut TypeLists,
    body: Body,
    /// The function that is copied from.
    from: &'c Function,
    /// What its variables are in the copy.
    atoms: Vec<Option<Atom>>,
}

impl Copier<'_> {
    fn bind(&mut self, var: Var) -> Var {
        let new = self.body.vars.push(self.from.body.vars[var]);
        self.atoms[var.index()] = Some(Atom::Var(new));
        new
    }

    fn expr(&mut self, expr: ExprId) -> ExprId {
        crate::stack::grown(|| self.expr_here(expr))
    }

    fn list(&mut self, list: &[ExprId]) -> Box<[ExprId]> {
        list.iter().map(|&expr| self.expr(expr)).collect()
    }

    fn expr_here(&mut self, expr: ExprId) -> ExprId {
        let node = &self.from.body.exprs[expr];
        let kind = match &node.kind {
            ExprKind::Var(var) => {
                let atom = self.atoms[var.index()].expect("variables are bound before they are used");
                return self.body.atom(atom, node.span, self.lists);
            }
            ExprKind::Call(callee, args) => {
                let args = self.list(args);
                if self.small[*callee] && self.body.exprs.len() < GROWN_NODES_MAX {
                    return self.call(*callee, &args);
                }
                ExprKind::Call(*callee, args)
            }
            ExprKind::Real(value) => ExprKind::Real(*value),
            ExprKind::Int(value) => ExprKind::Int(*value),
            ExprKind::Trap(message) => ExprKind::Trap(message),
            ExprKind::Values(parts) => ExprKind::Values(self.list(parts)),
            ExprKind::Scalar(op, args) => ExprKind::Scalar(*op, self.list(args)),
            ExprKind::Pack(array, parts) => ExprKind::Pack(*array, self.list(parts)),
            ExprKind::Compare(comparison, pair) => ExprKind::Compare(*comparison, pair.map(|part| self.expr(part))),
            ExprKind::And(pair) => ExprKind::And(pair.map(|part| self.expr(part))),
            ExprKind::Or(pair) => ExprKind::Or(pair.map(|part| self.expr(part))),
            ExprKind::Element(array, pair) => ExprKind::Element(*array, pair.map(|part| self.expr(part))),
            ExprKind::Not(operand) => ExprKind::Not(self.expr(*operand)),
            ExprKind::Length(array) => ExprKind::Length(self.expr(*array)),
            ExprKind::If(parts) => ExprKind::If(parts.map(|part| self.expr(part))),
            ExprKind::Block(bindings, value) => {
                let bindings = self.bindings(bindings);
                let value = self.expr(*value);
                return self.block(bindings, value);
            }
            ExprKind::Loop(repeat) => ExprKind::Loop(Box::new(self.repeat(repeat))),
            ExprKind::Collect(array, collect) => {
                let range = self.range(collect.range);
                ExprKind::Collect(*array, Box::new(Collect { range, body: self.expr(collect.body) }))
            }
        };
        self.body.exprs.push(Expr { kind, types: node.types, span: node.span })
    }

    /// Copies bindings; where a value has become an atom or a block, its parts take the place of the variables.
    fn bindings(&mut self, bindings: &[Binding]) -> Vec<Binding> {
        let mut copied = Vec::with_capacity(bindings.len());
        for binding in bindings {
            let value = self.expr(binding.value);
            let mut atoms = Vec::new();
            self.body.name_values(value, self.lists, &mut copied, &mut atoms);
            for (var, atom) in binding.vars.iter().zip(atoms) {
                self.atoms[var.index()] = Some(atom);
            }
        }
        copied
    }

    fn block(&mut self, bindings: Vec<Binding>, value: ExprId) -> ExprId {
        if bindings.is_empty() {
            return value;
        }
        let (types, span) = (self.body.exprs[value].types, self.body.exprs[value].span);
        self.body.exprs.push(Expr { kind: ExprKind::Block(bindings.into(), value), types, span })
    }

    fn repeat(&mut self, repeat: &Loop) -> Loop {
        let init = self.expr(repeat.init);
        let range = match repeat.iteration {
            Iteration::Range(range) => Some(self.range(range)),
            Iteration::While(_) => None,
        };
        let vars = repeat.vars.iter().map(|&var| self.bind(var)).collect();
        let iteration = match (range, repeat.iteration) {
            (None, Iteration::While(cond)) => Iteration::While(self.expr(cond)),
            (Some(range), _) | (None, Iteration::Range(range)) => Iteration::Range(range),
        };
        Loop { vars, init, iteration, body: self.expr(repeat.body) }
    }

    fn range(&mut self, range: Range) -> Range {
        let (from, to) = (self.expr(range.from), self.expr(range.to));
        Range { index: self.bind(range.index), from, to }
    }

    /// The body of a small function in place of a call.
    fn call(&mut self, callee: FunctionId, args: &[ExprId]) -> ExprId {
        let callee = &self.functions[callee];
        let (mut bindings, mut values) = (Vec::new(), Vec::new());
        for &arg in args {
            self.body.name_values(arg, self.lists, &mut bindings, &mut values);
        }
        let mut atoms = vec![None; callee.body.vars.len()];
        for (param, value) in callee.params.iter().zip(values) {
            atoms[param.index()] = Some(value);
        }
        let caller = std::mem::replace(&mut self.from, callee);
        let caller_atoms = std::mem::replace(&mut self.atoms, atoms);
        let value = self.expr(callee.root);
        self.from = caller;
        self.atoms = caller_atoms;
        self.block(bindings, value)
    }
}
