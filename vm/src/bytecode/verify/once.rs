//! Rules on constants: what a function must be like that runs once, and that no constant leads back to itself.
//!
//! Whoever asks for a constant that another thread computes waits for it. Since no constant leads to a function that
//! asks for it, those that wait for each other are never a circle, whatever the calls between them do.

use super::operators::refuse_builders;
use super::{Fault, Report, Rule};
use crate::bytecode::isa::Op;
use crate::bytecode::module::{FuncId, Function, ModuleDef};

/// What a function must be like whose results are a constant.
pub(super) fn check(callee: &Function, report: &Report) -> Result<(), Fault> {
    if !callee.params.is_empty() {
        let found = format!("{} parameters", callee.params.len());
        return Err(Fault::new(Rule::OnceParams, "a function without parameters", found));
    }
    refuse_builders(callee, report)
}

/// Checks a module in which all else is as it should be.
pub(super) fn check_cycles(report: &mut Report) {
    let module = report.module;
    if !module.functions.iter().any(|function| function.body.code.iter().any(|inst| inst.op == Op::Once)) {
        return;
    }
    let circle_of = circles(module);
    for (index, function) in module.functions.iter().enumerate() {
        for (at, inst) in function.body.code.iter().enumerate().filter(|(_, inst)| inst.op == Op::Once) {
            let callee = FuncId(inst.low());
            if circle_of[index] == circle_of[callee.index()] && !report.is_full() {
                report.function = Some(FuncId(index as u32));
                let found = format!("f{}, which leads to f{index}", callee.0);
                report.fail_at(at, Fault::new(Rule::OnceCycle, "a constant that doesn't lead here", found));
            }
        }
    }
}

/// A function that is looked into: its number, and where its callees that haven't been looked at begin and end.
struct Open {
    function: usize,
    next: usize,
    end: usize,
}

/// For each function the number of its strongly connected component in the graph of what functions lead to (Tarjan
/// 1972, "Depth-first search and linear graph algorithms").
fn circles(module: &ModuleDef) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let count = module.functions.len();
    let (mut edges, mut starts) = (Vec::new(), Vec::with_capacity(count + 1));
    for function in &module.functions {
        starts.push(edges.len());
        let body = &function.body;
        edges.extend(body.code.iter().flat_map(|inst| module.functions_of(body, inst)));
    }
    starts.push(edges.len());

    let mut circle_of = vec![UNSEEN; count];
    let mut found = 0;
    // In the order in which functions are come to: their numbers, and the lowest one that each leads to.
    let (mut numbers, mut lowest, mut next_number) = (vec![UNSEEN; count], vec![UNSEEN; count], 0);
    let (mut open, mut waiting): (Vec<Open>, Vec<usize>) = (Vec::new(), Vec::new());
    for root in 0..count {
        let mut entered = (numbers[root] == UNSEEN).then_some(root);
        loop {
            if let Some(function) = entered.take() {
                (numbers[function], lowest[function]) = (next_number, next_number);
                next_number += 1;
                waiting.push(function);
                open.push(Open { function, next: starts[function], end: starts[function + 1] });
            }
            let Some(last) = open.last_mut() else { break };
            let function = last.function;
            if last.next < last.end {
                let callee = edges[last.next].index();
                last.next += 1;
                if numbers[callee] == UNSEEN {
                    entered = Some(callee);
                } else if circle_of[callee] == UNSEEN {
                    lowest[function] = lowest[function].min(numbers[callee]);
                }
                continue;
            }
            open.pop();
            if let Some(caller) = open.last() {
                lowest[caller.function] = lowest[caller.function].min(lowest[function]);
            }
            if lowest[function] == numbers[function] {
                while let Some(member) = waiting.pop() {
                    circle_of[member] = found;
                    if member == function {
                        break;
                    }
                }
                found += 1;
            }
        }
    }
    circle_of
}
