//! Constants: which of them are copied to where they are mentioned, and which are computed once.
//!
//! A constant that is a literal, or little more, is known to the code that mentions it when it stands there. All others
//! are computed where they are first needed in a call of the host's, and never again ([`ExprKind::Constant`]). One that
//! leads back to itself is called, as a function would be: the virtual machine has no order to compute such constants
//! in.

use super::Callees;
use crate::arena::Table;
use crate::copy::InPlace;
use crate::core::{ExprId, ExprKind, Function, FunctionId, Iteration, Range, Var};
use crate::graph;
use crate::hash::HashMap;
use crate::limits::Meter;
use crate::optimise::{is_pure_node, scalar_cost};

/// What is copied has at most so many nodes,
const COPIED_NODES_MAX: usize = 16;
/// and costs no more than this, in additions.
const COPIED_COST_MAX: u32 = 8;
/// An array or a loop of at most so many elements or rounds is known to end soon.
const ROUNDS_MAX: i64 = 1 << 20;

/// What is known of functions that are mentioned as constants; of the others nothing.
pub(super) struct Constants(Table<FunctionId, Option<Known>>);

/// What becomes of the mentions of a constant.
#[derive(Clone, Copy)]
enum Known {
    /// Its code has not been seen yet, or it leads back to itself.
    Called,
    Copied,
    Kept {
        is_total: bool,
    },
}

impl Constants {
    /// The constants of a program, by what its functions lead to.
    pub(super) fn new(leads_to: &Table<FunctionId, Callees>, meter: &Meter) -> Self {
        let mut known = Table::filled(None, leads_to.len());
        let mentioned = || leads_to.iter().flat_map(|(_, callees)| &callees.constants);
        if mentioned().next().is_none() {
            return Constants(known);
        }
        let mut graph = Table::default();
        for (_, Callees { called, mentioned, .. }) in leads_to.iter() {
            graph.push(called.iter().chain(mentioned).copied().collect());
        }
        mentioned().for_each(|&constant| known[constant] = Some(Known::Kept { is_total: false }));
        for group in graph::groups(&graph, meter) {
            if group.len() > 1 || graph[group[0]].contains(&group[0]) {
                group.iter().for_each(|&id| known[id] = known[id].map(|_| Known::Called));
            }
        }
        Constants(known)
    }

    /// A function is what it will be.
    pub(super) fn note(&mut self, id: FunctionId, function: &Function) {
        if let Some(known @ Known::Kept { .. }) = &mut self.0[id] {
            *known = if is_small(function) { Known::Copied } else { Known::Kept { is_total: is_total(function) } };
        }
    }

    /// What stands where a constant is mentioned.
    pub(super) fn in_place<'f>(&self, id: FunctionId, functions: &'f Table<FunctionId, Function>) -> InPlace<'f> {
        match self.0[id] {
            Some(Known::Copied) => InPlace::Copy(&functions[id]),
            Some(Known::Kept { is_total }) => InPlace::Constant { is_total },
            Some(Known::Called) | None => InPlace::Call,
        }
    }
}

/// Whether a constant is a literal, or little more.
fn is_small(function: &Function) -> bool {
    let mut cost = 0;
    let nodes = function.body.nodes_of(function.root).take(COPIED_NODES_MAX + 1);
    let mut count = 0;
    let all = nodes.into_iter().all(|(_, node)| {
        count += 1;
        match &node.kind {
            ExprKind::Scalar(op, _) => cost += scalar_cost(*op),
            ExprKind::Construct(..) | ExprKind::Closure(..) | ExprKind::Constant { .. } => return true,
            _ => {}
        }
        is_pure_node(&function.body, &node.kind)
    });
    all && count <= COPIED_NODES_MAX && cost <= COPIED_COST_MAX
}

/// Whether it is known that a constant's function ends soon, and neither traps nor traces.
fn is_total(function: &Function) -> bool {
    let body = &function.body;
    let variable = |expr: ExprId| match body.exprs[expr].kind {
        ExprKind::Var(var) => Some(var),
        _ => None,
    };
    // For indices that run over an array, the array.
    let mut indices: HashMap<Var, Var> = HashMap::default();
    let is_short = |Range { from, to, .. }: Range| match (&body.exprs[from].kind, &body.exprs[to].kind) {
        (ExprKind::Int(from), ExprKind::Int(to)) => to.saturating_sub(*from) <= ROUNDS_MAX,
        (ExprKind::Int(0), ExprKind::Length(..)) => true,
        _ => false,
    };
    let mut repeats = 0;
    // Loops come before what is in them.
    for (_, node) in body.nodes_of(function.root) {
        let range = match &node.kind {
            ExprKind::Loop(repeat) => match repeat.iteration {
                Iteration::Range(range) => Some(range),
                Iteration::While(_) => return false,
            },
            ExprKind::Collect(_, collect) => Some(collect.range),
            _ => None,
        };
        if let Some(range) = range {
            repeats += 1;
            if !is_short(range) {
                return false;
            }
            if let ExprKind::Length(_, array) = body.exprs[range.to].kind {
                indices.extend(variable(array).map(|array| (range.index, array)));
            }
            continue;
        }
        let is_harmless = match &node.kind {
            ExprKind::Element(_, [array, index], _) => {
                let array_of = variable(*index).and_then(|index| indices.get(&index));
                array_of.is_some_and(|&of| variable(*array) == Some(of))
            }
            ExprKind::Construct(..) | ExprKind::Closure(..) | ExprKind::Pack(..) => true,
            kind => is_pure_node(body, kind),
        };
        if !is_harmless {
            return false;
        }
    }
    repeats <= 1
}
