//! Functions that don't recurse are copied into their callers where that pays: the recorder cuts its segments at calls,
//! so that a call in a loop costs far more than its own time.
//!
//! Works from callees to callers, so that what is copied has been inlined into already. In a group of functions that
//! call each other, those with a single call are copied into their callers, too; the others are the *loop breakers*
//! (Peyton Jones and Marlow 2002, section 4), which no function of the group takes in. So a recursion through helpers
//! becomes one of a function to itself, and a loop where it was by tail calls. What is still recursive and small is
//! copied into itself a few times. Functions that are not called any more, and that hosts can't call, are dropped.

mod constants;
mod recursion;

use crate::arena::{Id, Table};
use crate::chain::repeat_calls_in_cells;
use crate::copy::{Chooser, InPlace, Surroundings, copy_function};
use crate::core::{Body, ExprId, ExprKind, Function, FunctionId, Program};
use crate::fuse::{fuse, sink_calls};
use crate::graph;
use crate::kept::KeptReason;
use crate::limits::Meter;
use crate::optimise::pure_cost;
use crate::tail::repeat_tail_calls;
use constants::Constants;
use recursion::{copying_order, unroll};
use smallvec::{SmallVec, smallvec};

/// Functions of at most this many nodes are inlined everywhere.
const SMALL_NODES_MAX: usize = 40;
/// Functions of at most this many nodes are inlined in loops, and where they have a single call.
const LOOPED_NODES_MAX: usize = 400;
/// Functions of at most this many nodes are inlined where they have a single call: nothing is there twice then, and
/// what is known of the arguments is known inside.
const ONLY_NODES_MAX: usize = 1_000;
/// So many nodes that each text shows don't count.
const SHOWN_NODES_FREE: usize = 8;
/// A function grows by inlining small functions up to this size.
const GROWN_NODES_MAX: usize = 20_000;
/// A function grows by inlining other functions up to this size.
const LOOPED_GROWN_NODES_MAX: usize = 4_000;

/// What costs more than this, in additions, is computed in the task that needs it.
const TASK_ARGUMENT_COST_MAX: u32 = 4;

/// Inlines functions. If the compilation is stopped, what comes of the program has no meaning.
pub(crate) fn inline(mut program: Program, meter: &Meter) -> Program {
    for id in program.functions.ids() {
        if !meter.step(program.functions[id].place()) {
            return program;
        }
        repeat_tail_calls(&mut program.functions[id], &mut program.lists);
        sink_calls(&mut program.functions[id], meter);
    }
    let mut leads_to: Table<FunctionId, Callees> = Table::default();
    fuse(&mut program, meter, |function| _ = leads_to.push(Callees::of(function, meter)));
    if !meter.go_on() {
        return program;
    }
    // What is only called by what was fused, or by nobody, makes room now, and counts for nothing.
    let used = used(&program, &leads_to);
    for id in used.ids().filter(|&id| !used[id]) {
        leads_to[id] = Callees::default();
        program.functions[id].body = Body::default();
    }
    let mut constants = Constants::new(&leads_to, meter);
    let mut graph = Table::default();
    let mut calls = Table::filled(Calls::default(), program.functions.len());
    // Whether a function calls function values, which may be any function, or what does.
    let mut calls_any = Table::default();
    for (id, Callees { called, mentioned, is_any, .. }) in leads_to.iter() {
        calls_any.push(*is_any);
        for &callee in called {
            calls[callee].count += 1;
            calls[callee].caller = Some(id);
        }
        mentioned.iter().for_each(|&mention| calls[mention].count += 2);
        let mut called = called.clone();
        called.sort_unstable();
        called.dedup();
        graph.push(called);
    }
    let mut spare = Body::default();
    let mut sizes: Table<FunctionId, Result<usize, KeptReason>> =
        Table::filled(Err(KeptReason::Recursive), graph.len());
    for group in graph::groups(&graph, meter) {
        if !meter.steps(group.len()) {
            return program;
        }
        if group.iter().any(|&id| !used[id]) {
            continue;
        }
        let any = group.iter().any(|&id| calls_any[id] || graph[id].iter().any(|&callee| calls_any[callee]));
        group.iter().for_each(|&id| calls_any[id] = any);
        let may_come_back = |callee: FunctionId| calls_any[callee] || group.binary_search(&callee).is_ok();
        let is_mutual = group.len() > 1;
        let into = |id: FunctionId| calls[id].caller.filter(|_| is_mutual && calls[id].count == 1);
        for (id, is_breaker) in copying_order(&group, into) {
            let known = program.kept.len();
            let Program { functions, lists, calls: sites, kept, .. } = &mut program;
            let policy = Policy { functions, sizes: &sizes, calls: &calls, constants: &constants };
            let mut function = copy_function(&functions[id], &policy, lists, sites, kept, &mut spare, meter);
            if is_mutual && is_breaker {
                // Tail calls of helpers may be its own now.
                calls[id].became_jumps(repeat_tail_calls(&mut function, &mut program.lists));
            }
            if !meter.go_on() {
                return program;
            }
            let mut is_recursive = graph[id].contains(&id);
            if is_breaker && (is_recursive || is_mutual) {
                calls[id].became_jumps(repeat_calls_in_cells(&mut function, may_come_back, &mut program.lists));
                let mut called = Callees::of(&function, meter).called;
                is_recursive = called.iter().any(|callee| group.binary_search(callee).is_ok());
                called.retain(|&callee| callee == id);
                if called.is_empty() {
                    let own = program.kept.split_off(known);
                    program.kept.extend(own.into_iter().filter(|kept| kept.callee != id));
                }
                let Program { lists, calls: sites, .. } = &mut program;
                function = unroll(function, called.len(), lists, sites, &mut spare, meter);
            }
            if !is_recursive {
                let is_only = calls[id].count == 1 && !function.is_entry();
                sizes[id] = size(&function, if is_only { ONLY_NODES_MAX } else { LOOPED_NODES_MAX });
            }
            leads_to[id] = Callees::of(&function, meter);
            // A task that only calls a function has become that function.
            leads_to[id].mentioned.iter().for_each(|&mention| calls[mention].count += 2);
            constants.note(id, &function);
            program.functions[id] = function;
            // What was called here only, and isn't any more, makes room.
            for &callee in &graph[id] {
                let is_gone = calls[callee].count == 1 && !leads_to[id].called.contains(&callee);
                if is_gone && !program.functions[callee].is_entry() && group.binary_search(&callee).is_err() {
                    program.functions[callee].body = Body::default();
                }
            }
        }
    }
    drop_unused(program, &leads_to, meter)
}

/// The calls of a function, as they were at first.
#[derive(Clone, Copy, Default)]
struct Calls {
    /// How many there are. What is made a closure or a task of counts as several.
    count: u32,
    /// Where one of them is.
    caller: Option<FunctionId>,
}

impl Calls {
    /// So many of them are calls no more. Each was counted, in this function or in one that was copied into it and is
    /// called nowhere else. Only how much is inlined depends on the count.
    fn became_jumps(&mut self, gone: u32) {
        debug_assert!(gone <= self.count, "{gone} calls of {} became jumps", self.count);
        self.count = self.count.saturating_sub(gone);
    }
}

/// Which calls are inlined.
struct Policy<'p> {
    functions: &'p Table<FunctionId, Function>,
    /// The sizes of functions that may be inlined; of the others, why they may not.
    sizes: &'p Table<FunctionId, Result<usize, KeptReason>>,
    /// The calls of each function.
    calls: &'p Table<FunctionId, Calls>,
    constants: &'p Constants,
}

impl Chooser for Policy<'_> {
    fn choose(
        &self,
        callee: FunctionId,
        Surroundings { loops, grown, .. }: Surroundings,
    ) -> Result<&Function, KeptReason> {
        let size = self.sizes[callee]?;
        let is_only = self.calls[callee].count == 1 && !self.functions[callee].is_entry();
        let limit = if size <= SMALL_NODES_MAX { GROWN_NODES_MAX } else { LOOPED_GROWN_NODES_MAX };
        let pays = size <= SMALL_NODES_MAX || loops > 0 || is_only;
        if !pays {
            return Err(KeptReason::OutsideOfLoops { nodes: size, max: SMALL_NODES_MAX });
        }
        if grown >= limit {
            return Err(KeptReason::CallerTooLarge { max: limit });
        }
        Ok(&self.functions[callee])
    }

    fn constant(&self, function: FunctionId, _: bool) -> InPlace<'_> {
        self.constants.in_place(function, self.functions)
    }

    fn forwards(&self, task: FunctionId) -> Option<&Function> {
        let function = &self.functions[task];
        let ExprKind::Call(_, args) = &function.body.exprs[function.root].kind else { return None };
        let is_cheap = |&arg: &ExprId| pure_cost(&function.body, arg, TASK_ARGUMENT_COST_MAX).is_some();
        args.iter().all(is_cheap).then_some(function)
    }
}

/// How many nodes a function's tree has, if no more than can be inlined. What a few texts show doesn't count, so that
/// messages don't decide what is inlined.
fn size(function: &Function, max: usize) -> Result<usize, KeptReason> {
    let (mut found, mut shown, mut free) = (0, 0, 0);
    let mut pending: SmallVec<[(ExprId, bool); 32]> = smallvec![(function.root, false)];
    while let Some((expr, is_shown)) = pending.pop() {
        *(if is_shown { &mut shown } else { &mut found }) += 1;
        let node = &function.body.exprs[expr];
        let is_text = matches!(node.kind, ExprKind::Trap(_));
        free += if is_text { SHOWN_NODES_FREE } else { 0 };
        node.for_each_child(|child| pending.push((child, is_shown || is_text)));
    }
    found += usize::saturating_sub(shown, free);
    if found > max {
        return Err(KeptReason::TooLarge { nodes: found, max });
    }
    Ok(found)
}

/// The functions that a function leads to.
#[derive(Default)]
struct Callees {
    /// Those that it calls, once for each call, and the constants that it mentions.
    called: Vec<FunctionId>,
    /// These.
    constants: Vec<FunctionId>,
    /// Those that it makes closures or tasks of.
    mentioned: Vec<FunctionId>,
    /// Whether it calls function values, too, which may be any.
    is_any: bool,
}

impl Callees {
    fn of(function: &Function, meter: &Meter) -> Callees {
        let mut callees = Callees::default();
        for (_, node) in function.nodes(meter) {
            match &node.kind {
                ExprKind::Call(callee, _) => callees.called.push(*callee),
                ExprKind::Constant { function, .. } => {
                    callees.called.push(*function);
                    callees.constants.push(*function);
                }
                ExprKind::Closure(mentioned, _) | ExprKind::ParallelMap(mentioned, _) => {
                    callees.mentioned.push(*mentioned);
                }
                ExprKind::Fork(tasks) => callees.mentioned.extend(tasks.iter().map(|task| task.function)),
                ExprKind::Derivative(derivative) => callees.mentioned.push(derivative.function),
                ExprKind::Trap(text) | ExprKind::Trace(text) => callees.mentioned.extend(text.function),
                ExprKind::CallClosure(..) => callees.is_any = true,
                _ => {}
            }
        }
        callees
    }
}

/// Which functions hosts or other functions lead to.
fn used(program: &Program, leads_to: &Table<FunctionId, Callees>) -> Table<FunctionId, bool> {
    let mut used = Table::filled(false, program.functions.len());
    add_used(program, leads_to, Function::is_entry, &mut used);
    used
}

/// Adds the functions that some functions lead to.
fn add_used(
    program: &Program,
    leads_to: &Table<FunctionId, Callees>,
    is_root: impl Fn(&Function) -> bool,
    used: &mut Table<FunctionId, bool>,
) {
    let roots = program.functions.iter().filter(|(_, function)| is_root(function));
    let mut pending: Vec<FunctionId> = roots.map(|(id, _)| id).collect();
    while let Some(id) = pending.pop() {
        if !std::mem::replace(&mut used[id], true) {
            pending.extend(leads_to[id].called.iter().chain(&leads_to[id].mentioned));
        }
    }
}

/// Removes what neither hosts nor other functions call.
fn drop_unused(mut program: Program, leads_to: &Table<FunctionId, Callees>, meter: &Meter) -> Program {
    let mut used = Table::filled(false, program.functions.len());
    add_used(&program, leads_to, |function| function.interface.is_some(), &mut used);
    // The calls of traced twins are those of their functions.
    program.kept.retain(|kept| used[kept.caller]);
    add_used(&program, leads_to, |function| function.twin_of.is_some(), &mut used);
    let mut renumbered: Table<FunctionId, FunctionId> = Table::default();
    let mut next = 0;
    for id in used.ids() {
        renumbered.push(FunctionId::from_index(next));
        next += usize::from(used[id]);
    }
    for kept in &mut program.kept {
        (kept.caller, kept.callee) = (renumbered[kept.caller], renumbered[kept.callee]);
    }
    let functions = std::mem::take(&mut program.functions);
    for (id, mut function) in functions.into_entries() {
        if !used[id] {
            continue;
        }
        function.id = renumbered[id];
        function.twin_of = function.twin_of.map(|function| renumbered[function]);
        if !meter.steps(function.body.exprs.len()) {
            break;
        }
        // What is no part of the tree may name functions that are gone.
        for node in function.body.exprs.entries_mut() {
            match &mut node.kind {
                ExprKind::Call(callee, _)
                | ExprKind::Constant { function: callee, .. }
                | ExprKind::Closure(callee, _)
                | ExprKind::ParallelMap(callee, _) => *callee = renumbered[*callee],
                ExprKind::Fork(tasks) => {
                    tasks.iter_mut().for_each(|task| task.function = renumbered[task.function]);
                }
                ExprKind::Derivative(derivative) => derivative.function = renumbered[derivative.function],
                ExprKind::Trap(text) | ExprKind::Trace(text) => {
                    text.function = text.function.map(|function| renumbered[function]);
                }
                _ => {}
            }
        }
        program.functions.push(function);
    }
    program
}
