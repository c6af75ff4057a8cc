//! Rules on texts with values, and on functions that have a traced twin.

use super::operators::refuse_builders;
use super::types::{check_host_type, list};
use super::{Report, Rule, limits};
use crate::bytecode::module::{FuncId, Function, HostType, Piece, Template, ValueType};

/// Checks templates, and notes what registers each takes.
pub(super) fn check(report: &mut Report) {
    let module = report.module;
    for (number, template) in module.templates.iter().enumerate() {
        let shown = if report.is_full() { None } else { taken(number, template, report) };
        report.shown.push(shown);
    }
    check_twins(report);
}

/// The types of the registers that a template takes; `None` if something is wrong with it, which is reported.
fn taken(number: usize, template: &Template, report: &mut Report) -> Option<Vec<ValueType>> {
    let errors = report.errors.len();
    let (count, max) = (template.pieces.len() + template.values().map(parts).sum::<usize>(), limits::PIECES_MAX);
    if count > max {
        report.fail(Rule::TemplateSize, format!("at most {max} pieces and parts in s{number}"), count.to_string());
        return None;
    }
    let mut values = Vec::new();
    for piece in &template.pieces {
        match piece {
            Piece::Text(text) => report.check_string(text),
            Piece::Value(ty) if !check_host_type(ty, limits::HOST_TYPE_DEPTH_MAX, report) => return None,
            Piece::Value(ty) => values.extend(ty.flatten(&report.module.data)),
        }
        if values.len() > limits::PARAMS_MAX {
            let expected = format!("values of at most {} registers in s{number}", limits::PARAMS_MAX);
            report.fail(Rule::TemplateSize, expected, values.len().to_string());
            return None;
        }
    }
    let Some(func) = template.func else { return (report.errors.len() == errors).then_some(values) };
    let function = function(func, &format!("template s{number}"), Rule::TemplateFunction, report)?;
    if function.results != values {
        let expected = format!("results {} in f{}", list(&values), func.0);
        report.fail(Rule::TemplateResults, expected, list(&function.results));
    }
    if let Err(fault) = refuse_builders(function, report) {
        report.fail(Rule::TemplateBuilder, fault.expected, fault.found);
    }
    (report.errors.len() == errors).then(|| function.params.clone())
}

/// How many parts a type has, at any level.
fn parts(ty: &HostType) -> usize {
    let (mut count, mut left) = (0, vec![ty]);
    while let Some(ty) = left.pop() {
        let before = left.len();
        match ty {
            HostType::Tuple(parts) => left.extend(parts),
            HostType::Record(parts) => left.extend(parts.iter().map(|(_, part)| part)),
            HostType::Array { element, .. } | HostType::List { element, .. } => left.push(element),
            HostType::Tensor { slice, .. } => left.push(slice),
            HostType::Real | HostType::Int | HostType::Bool | HostType::Data { .. } => {}
        }
        count += left.len() - before;
    }
    count
}

fn check_twins(report: &mut Report) {
    let mut last = None;
    for &(func, twin) in &report.module.traced {
        if report.is_full() {
            break;
        }
        if last.replace(func) >= Some(func) {
            let expected = "functions in ascending order, each once".to_owned();
            return report.fail(Rule::TracedTwin, expected, format!("f{}", func.0));
        }
        let place = format!("a traced twin of f{}", func.0);
        let Some([function, other]) = function(func, &place, Rule::TracedTwin, report)
            .and_then(|function| Some([function, self::function(twin, &place, Rule::TracedTwin, report)?]))
        else {
            continue;
        };
        if function.interface.is_none() {
            let found = format!("f{}, which hosts can't call", func.0);
            report.fail(Rule::TracedTwin, "a function with an interface".into(), found);
        }
        if other.interface.is_some() {
            report.fail(Rule::TracedTwin, "a twin without an interface".into(), format!("f{}", twin.0));
        }
        if (&function.params, &function.results) != (&other.params, &other.results) {
            let signature = |function: &Function| format!("{} -> {}", list(&function.params), list(&function.results));
            report.fail(Rule::TracedTwin, format!("{} in f{}", signature(function), twin.0), signature(other));
        }
    }
}

/// A function of the module; if there is none, that is reported.
fn function<'m>(func: FuncId, place: &str, rule: Rule, report: &mut Report<'m>) -> Option<&'m Function> {
    let functions = &report.module.functions;
    let found = functions.get(func.index());
    if found.is_none() {
        report.fail(rule, format!("one of {} functions in {place}", functions.len()), format!("f{}", func.0));
    }
    found
}
