//! Running modules that are hard to compile and to run: alike on all engines, and within the limits for strangers.

use super::{ALL, sources};
use crate::support::bytes;
use crate::support::dice::{Dice, number};
use crate::support::engines::{Clock, Engines, Loaded, Mode, Outcome};
use dualvm_vm::engine::Limits;
use dualvm_vm::module::ModuleDef;
use dualvm_vm::value::Value;
use std::time::Duration;

/// How much later than its deadline a call may end.
const GRACE: Duration = Duration::from_secs(5);
/// Texts and modules are made, compiled and verified in this time.
const LOADING: Duration = Duration::from_secs(10);

/// Runs `main` for a few arguments, its value and its gradient, on all engines. `Err` says how they differ, or what
/// else is wrong.
pub(crate) fn alike(def: &ModuleDef, engines: &mut Engines) -> Result<(), String> {
    let loaded = engines.load(def, 0).map_err(|errors| format!("the verifier refuses: {}", errors[0]))?;
    for n in [0, 1, 3] {
        for mode in [Mode::Call, Mode::Gradient] {
            let outcome = loaded.run("main", &[Value::Real(0.75), Value::Int(n)], mode, &bytes::limits());
            match outcome.map_err(|error| format!("n = {n}: {error}"))? {
                Outcome::Other(error) => return Err(format!("n = {n}: {error}")),
                Outcome::Trap(trap) if n == 0 => return Err(format!("n = {n}: {trap}")),
                Outcome::Done { .. } | Outcome::Trap(_) => {}
            }
        }
    }
    Ok(())
}

/// A family and a size of these choices: the module, or what its text compiles to, with its name. `None` if the
/// compiler refuses, as it may for texts that mean more than they say.
fn choose(dice: &mut Dice) -> (String, Option<ModuleDef>) {
    let families = ALL.len() + sources::ALL.len();
    let family = dice.usize(..families);
    // Mostly sizes at which a run takes milliseconds.
    let times = match dice.u8(..16) {
        0 => 8,
        1 | 2 => 2,
        _ => 1,
    };
    match ALL.get(family) {
        Some(family) => {
            let size = dice.usize(1..=times * family.small);
            (format!("{} of size {size}", family.name), Some((family.make)(size)))
        }
        None => {
            let family = &sources::ALL[family - ALL.len()];
            let size = dice.usize(1..=family.small);
            let text = (family.write)(size);
            let def = dualvm_frontend::compile("hostile.dual", &text);
            (format!("text: {} of size {size}", family.name), def.ok())
        }
    }
}

/// A module of these choices: it ends soon after the deadline of a call with the limits for strangers, and afterwards
/// runs alike on the same engines. Says whether it could be run.
pub(crate) fn from_bytes(bytes: &[u8], engines: &mut Engines) -> Result<bool, String> {
    let mut dice = Dice::with_bytes(bytes);
    let clock = Clock::start();
    let (name, def) = choose(&mut dice);
    let Some(def) = def else { return Ok(false) };
    let loaded = engines.load(&def, number(bytes)).map_err(|errors| format!("{name}: refused: {}", errors[0]))?;
    if clock.elapsed() > LOADING {
        return Err(format!("{name}: loading takes {:?}", clock.elapsed()));
    }
    within_limits(&loaded, &mut dice).map_err(|error| format!("{name}: {error}"))?;
    let args = [Value::Real(0.75), Value::Int(dice.pick(&[0, 1, 3, 12]))];
    for mode in [Mode::Call, Mode::Gradient] {
        loaded.run("main", &args, mode, &bytes::limits()).map_err(|error| format!("{name}, {args:?}: {error}"))?;
    }
    Ok(true)
}

/// Calls `main` on each engine with the limits for strangers, and a deadline that they let nothing come near.
fn within_limits(loaded: &Loaded, dice: &mut Dice) -> Result<(), String> {
    let deadline = Duration::from_micros(dice.pick(&[0, 100, 300, 300, 1_000, 10_000]));
    let limits = Limits { deadline: Some(deadline), ..Limits::untrusted() };
    let mode = dice.pick(&[Mode::Call, Mode::Gradient, Mode::Jacobian]);
    let n = dice.pick(&[0, 1, 7, 1_000, 1 << 40, i64::MAX, -1]);
    let took = loaded.time("main", &[Value::Real(0.75), Value::Int(n)], mode, &limits);
    for (engine, took) in took {
        if took > deadline + GRACE {
            return Err(format!("{mode:?} with n = {n} on `{engine}` takes {took:?}, {limits:?}"));
        }
    }
    Ok(())
}
