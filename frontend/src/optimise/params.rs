//! Drops the parameters that a task's function never reads. A task is handed all registers of what its text mentions,
//! and may need a few of them: a field of a record, or what is left after inlining. The same goes for what the function
//! of a derivative captures; its other parameters stay, because their tangents or cotangents do. Functions that make
//! the values of texts are tasks, too, here.

use crate::arena::Table;
use crate::core::{ExprId, ExprKind, Function, FunctionId, Program, Var};
use crate::hash::HashMap;
use crate::limits::Meter;

/// Drops unread parameters of functions that are nothing but tasks and operands of derivative operators; whether there
/// are any. Arguments of tasks and captures are pure, so that they go too.
pub(super) fn drop_unread(program: &mut Program, meter: &Meter) -> bool {
    if !program.functions.iter().any(|(_, function)| has_tasks(function, meter)) {
        return false;
    }
    let read = params_read(program, meter);
    for id in program.functions.ids() {
        let function = &mut program.functions[id];
        if let Some(read) = &read[id] {
            function.params = kept(&function.params, read).collect();
        }
        for expr in function.node_ids(meter) {
            match &mut function.body.exprs[expr].kind {
                ExprKind::Fork(tasks) => {
                    for task in tasks {
                        if let Some(read) = &read[task.function] {
                            task.args = kept(&task.args, read).collect();
                        }
                    }
                }
                ExprKind::ParallelMap(callee, args) => {
                    if let Some(read) = &read[*callee] {
                        *args = kept(args, &read[1..]).collect();
                    }
                }
                ExprKind::Derivative(derivative) => {
                    if let Some(read) = &read[derivative.function] {
                        derivative.captures = kept(&derivative.captures, read).collect();
                    }
                }
                ExprKind::Trap(text) | ExprKind::Trace(text) => {
                    if let Some(read) = text.function.and_then(|function| read[function].as_ref()) {
                        text.args = kept(&text.args, read).collect();
                    }
                }
                _ => {}
            }
        }
    }
    true
}

fn has_tasks(function: &Function, meter: &Meter) -> bool {
    let is_task = |kind: &ExprKind| match kind {
        ExprKind::Fork(_) | ExprKind::ParallelMap(..) | ExprKind::Derivative(_) => true,
        ExprKind::Trap(text) | ExprKind::Trace(text) => text.function.is_some(),
        _ => false,
    };
    function.nodes(meter).any(|(_, node)| is_task(&node.kind))
}

fn kept<'a, T: Copy>(all: &'a [T], read: &'a [bool]) -> impl Iterator<Item = T> + 'a {
    all.iter().zip(read).filter(|(_, read)| **read).map(|(one, _)| *one)
}

/// A parameter of a function, by its place.
type Param = (FunctionId, usize);

/// Which parameters must stay, for each function that may lose some.
fn params_read(program: &Program, meter: &Meter) -> Table<FunctionId, Option<Vec<bool>>> {
    let mut read: Table<FunctionId, Option<Vec<bool>>> = Table::default();
    for (_, function) in program.functions.iter() {
        read.push((!function.is_entry()).then(|| vec![false; function.params.len()]));
    }
    for (_, function) in program.functions.iter() {
        keep_what_is_called(program, function, &mut read, meter);
    }
    // What a function only hands on to a task is read if the task reads it.
    let mut handed_on: HashMap<Param, Vec<Param>> = HashMap::default();
    let mut pending: Vec<Param> = Vec::new();
    for (id, function) in program.functions.iter() {
        for (from, to) in uses(id, function, meter) {
            match to {
                Some(to) if read[to.0].is_some() => handed_on.entry(to).or_default().push(from),
                _ => pending.push(from),
            }
        }
    }
    for id in read.ids() {
        let kept = read[id].iter().flat_map(|read| read.iter().enumerate().filter(|(_, read)| **read));
        pending.extend(kept.map(|(at, _)| (id, at)));
    }
    while let Some(param) = pending.pop() {
        if let Some(read) = &mut read[param.0] {
            read[param.1] = true;
        }
        pending.extend(handed_on.remove(&param).unwrap_or_default());
    }
    read
}

/// Finds the functions that are more than tasks, and what every task must have.
fn keep_what_is_called(
    program: &Program,
    function: &Function,
    read: &mut Table<FunctionId, Option<Vec<bool>>>,
    meter: &Meter,
) {
    // Which argument is whose is known where each is one value.
    let fits = |params: usize, args: &[ExprId]| {
        let is_single = |&arg: &ExprId| program.lists.get(function.body.exprs[arg].types).len() == 1;
        params == args.len() && args.iter().all(is_single)
    };
    for (_, node) in function.nodes(meter) {
        match &node.kind {
            ExprKind::Call(callee, _) | ExprKind::Closure(callee, _) => read[*callee] = None,
            ExprKind::Fork(tasks) => {
                for task in tasks {
                    read[task.function].take_if(|read| !fits(read.len(), &task.args));
                }
            }
            ExprKind::ParallelMap(callee, args) => {
                // The function is given the ends of a range in place of the number of elements.
                read[*callee].take_if(|read| !fits(read.len() - 1, args));
                read[*callee].iter_mut().for_each(|read| read[..2].fill(true));
            }
            ExprKind::Derivative(derivative) => {
                let captures = derivative.captures.len();
                read[derivative.function].iter_mut().for_each(|read| read[captures..].fill(true));
            }
            ExprKind::Trap(text) | ExprKind::Trace(text) => {
                if let Some(function) = text.function {
                    read[function].take_if(|read| !fits(read.len(), &text.args));
                }
            }
            _ => {}
        }
    }
}

/// The uses of a function's parameters, and of those as arguments of tasks, which parameters of the tasks they are.
fn uses(id: FunctionId, function: &Function, meter: &Meter) -> Vec<(Param, Option<Param>)> {
    let places: HashMap<Var, usize> = function.params.iter().enumerate().map(|(at, &var)| (var, at)).collect();
    let nodes = function.node_ids(meter);
    let mut handed: HashMap<ExprId, Param> = HashMap::default();
    for &expr in &nodes {
        match &function.body.exprs[expr].kind {
            ExprKind::Fork(tasks) => {
                for task in tasks {
                    handed.extend(task.args.iter().enumerate().map(|(at, &arg)| (arg, (task.function, at))));
                }
            }
            ExprKind::ParallelMap(callee, args) => {
                handed.extend(args.iter().enumerate().map(|(at, &arg)| (arg, (*callee, at + 1))));
            }
            ExprKind::Derivative(derivative) => {
                let captures = derivative.captures.iter().enumerate();
                handed.extend(captures.map(|(at, &arg)| (arg, (derivative.function, at))));
            }
            ExprKind::Trap(text) | ExprKind::Trace(text) => {
                if let Some(function) = text.function {
                    handed.extend(text.args.iter().enumerate().map(|(at, &arg)| (arg, (function, at))));
                }
            }
            _ => {}
        }
    }
    let used = nodes.iter().filter_map(|expr| match function.body.exprs[*expr].kind {
        ExprKind::Var(var) => Some(((id, *places.get(&var)?), handed.get(expr).copied())),
        _ => None,
    });
    used.collect()
}
