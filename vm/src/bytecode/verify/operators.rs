//! Rules on derivative operators: what a `jvp` and a `vjp` of a function take and give, and what a function that is a
//! derivative.

use super::{Fault, Report, Rule, name};
use crate::bytecode::isa::Op;
use crate::bytecode::module::{Function, ValueType};

/// The types of an operator's registers.
pub(super) struct Signature {
    pub(super) uses: Vec<ValueType>,
    pub(super) defs: Vec<ValueType>,
}

/// What an operator takes and gives whose function is `callee`, with so many captures.
pub(super) fn signature(op: Op, callee: &Function, captures: usize, report: &Report) -> Result<Signature, Fault> {
    let Some((_, args)) = callee.params.split_at_checked(captures) else {
        let expected = format!("at most {} captures", callee.params.len());
        return Err(Fault::new(Rule::CaptureCount, expected, captures.to_string()));
    };
    refuse_builders(callee, report)?;
    refuse_functions("parameters behind the captures", args, report)?;
    refuse_functions("results", &callee.results, report)?;
    let (mut uses, mut defs) = (callee.params.clone(), callee.results.clone());
    if op == Op::Primal {
        return Ok(Signature { uses, defs });
    }
    if op == Op::Jvp {
        uses.extend(differentiable(args));
        defs.extend(differentiable(&callee.results));
    } else {
        uses.extend(differentiable(&callee.results));
        defs.extend(differentiable(args));
    }
    Ok(Signature { uses, defs })
}

/// What a function takes and gives that is the derivative of a value, if the instruction reads and writes registers of
/// these types.
pub(super) fn rule_signature(
    op: Op,
    captures: usize,
    uses: &[ValueType],
    value: &[ValueType],
    report: &Report,
) -> Result<(Vec<ValueType>, Vec<ValueType>), Fault> {
    let Some(taken) = uses.len().checked_sub(value.len()) else {
        let expected = format!("{} registers of the value behind the arguments", value.len());
        return Err(Fault::new(Rule::Arguments, expected, format!("{} registers in all", uses.len())));
    };
    let Some((_, args)) = uses[..taken].split_at_checked(captures) else {
        let expected = format!("at most {taken} captures");
        return Err(Fault::new(Rule::CaptureCount, expected, captures.to_string()));
    };
    refuse_functions("arguments behind the captures", args, report)?;
    refuse_functions("results", value, report)?;
    let (given, wanted) = if op == Op::CustomVjp { (value, args) } else { (args, value) };
    let params = uses[..taken].iter().copied().chain(differentiable(given)).collect();
    Ok((params, differentiable(wanted).collect()))
}

/// What a function must be like for its calls not to be recorded.
pub(super) fn check_checkpoint(callee: &Function, report: &Report) -> Result<(), Fault> {
    refuse_builders(callee, report)?;
    refuse_functions("results", &callee.results, report)
}

pub(super) fn refuse_builders(callee: &Function, report: &Report) -> Result<(), Fault> {
    let mut all = callee.params.iter().chain(&callee.results);
    all.find(|&&ty| report.is_builder(ty)).map_or(Ok(()), |&builder| {
        let found = format!("{}, a builder", name(builder));
        Err(Fault::new(Rule::OperatorBuilder, "no builder among parameters and results", found))
    })
}

fn refuse_functions(what: &str, types: &[ValueType], report: &Report) -> Result<(), Fault> {
    types.iter().find(|&&ty| report.leads_to_function(ty)).map_or(Ok(()), |&found| {
        let found = format!("{}, which is or leads to one", name(found));
        Err(Fault::new(Rule::OperatorFunction, format!("no functions among {what}"), found))
    })
}

/// The types of tangents and cotangents: integers have none.
fn differentiable(types: &[ValueType]) -> impl Iterator<Item = ValueType> + '_ {
    types.iter().copied().filter(|&ty| ty != ValueType::Int)
}
