//! `run` and `grad`.

use super::batch::{self, Batch};
use super::failure::{Failure, Outcome};
use super::input::{Prepared, prepare_call, shown, unheard};
use super::interrupt::cancellable;
use super::json::Report;
use super::output::{self, Used};
use super::threads::Clock;
use super::{Call, Gradient};
use dualvm::{CallOptions, Value};

pub(crate) fn run(call: &Call) -> Outcome {
    if let Some(batch) = Batch::of(call, Ok)? {
        return batch.answer(|function, args, options| {
            let (value, _) = function.call_with(args, options)?;
            Ok(batch::line(&value, &[]))
        });
    }
    let prepared = prepare_call(call)?;
    let Prepared { engine, function, args, .. } = &prepared;
    let clock = Clock::start(engine);
    let (value, stats) = cancellable(|handle| function.call_with(args, &CallOptions::default().cancelled_by(handle)))
        .map_err(|error| Failure::call(&shown(&call.target.program.file), function, &error))?;
    prepared.warn_of_kinks(&call.target.program.file, Ok)?;
    let used =
        call.stats.then(|| Used { stats: &stats, busy: clock.stop(), compiled: function.compiled(), profile: None });
    output::report(function, &Report { value: &value, derivatives: &[], used }, call)
}

pub(crate) fn grad(Gradient { call, wrt, table }: &Gradient) -> Outcome {
    if let Some(batch) = Batch::of(call, |function| wrt.of(&call.target, function))? {
        return batch.answer(|function, args, options| {
            let found = function.value_and_grad_with(args, options)?;
            let gradient = output::gradient(function, &found.gradient, *table);
            Ok(batch::line(&Value::Real(found.value), &[("gradient", gradient)]))
        });
    }
    let prepared = prepare_call(call)?;
    let Prepared { engine, function, args, .. } = &prepared;
    let function = wrt.of(&call.target, function.clone())?;
    let clock = Clock::start(engine);
    let failed = |error| Failure::call(&shown(&call.target.program.file), &function, &error);
    let result = cancellable(|handle| function.value_and_grad_with(args, &CallOptions::default().cancelled_by(handle)));
    let result = result.map_err(&failed)?;
    prepared.warn_of_kinks(&call.target.program.file, |function| wrt.of(&call.target, function))?;
    let mut used = call.stats.then(|| Used {
        stats: &result.stats,
        busy: clock.stop(),
        compiled: function.compiled(),
        profile: None,
    });
    if let Some(used) = &mut used {
        // A run of its own, so that the other figures are those of a usual one.
        let profile = cancellable(|handle| function.profile(args, &unheard().cancelled_by(handle)));
        used.profile = Some(profile.map_err(failed)?);
    }
    let derivatives = [("gradient", output::gradient(&function, &result.gradient, *table))];
    let report = Report { value: &Value::Real(result.value), derivatives: &derivatives, used };
    output::report(&function, &report, call)
}
