//! `run` and `grad`.

use super::Call;
use super::failure::{Failure, Outcome};
use super::input::{function_and_arguments, shown};
use super::json::Report;
use super::output;
use dualvm::{CallOptions, Value};

pub(crate) fn run(call: &Call) -> Outcome {
    let (function, args) = function_and_arguments(call)?;
    let (value, stats) = function
        .call_with(&args, &CallOptions::default())
        .map_err(|error| Failure::call(&shown(&call.file), &function, &error))?;
    let compiled = function.compiled();
    let report = Report { value: &value, gradient: None, stats: call.stats.then_some((&stats, &compiled)) };
    output::report(&function, &report, call.format)
}

pub(crate) fn grad(call: &Call) -> Outcome {
    let (function, args) = function_and_arguments(call)?;
    let result = function
        .grad_with(&args, &CallOptions::default())
        .map_err(|error| Failure::call(&shown(&call.file), &function, &error))?;
    let compiled = function.compiled();
    let report = Report {
        value: &Value::Real(result.value),
        gradient: Some(&result.gradient),
        stats: call.stats.then_some((&result.stats, &compiled)),
    };
    output::report(&function, &report, call.format)
}
