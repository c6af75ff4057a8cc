//! What a call gives on the engines, written as an expectation is.

use super::literal::{self, Call};
use super::read::{Header, Kind};
use super::second;
use crate::support::engines::{Loaded, Mode, Outcome};
use dualvm_vm::engine::Stats;
use dualvm_vm::module::{HostType, ModuleDef};
use dualvm_vm::value::Value;

/// What was found, and whether it is what was expected.
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) holds: bool,
}

impl Found {
    fn value(value: &Value, expected: &str) -> Found {
        let holds = literal::value(expected).is_ok_and(|expected| literal::matches(&expected, value));
        Found { text: value.to_string(), holds }
    }

    /// Text is the same wherever its lines break.
    pub(crate) fn text(text: String, expected: &str) -> Found {
        let holds = text.split_whitespace().eq(expected.split_whitespace());
        Found { text, holds }
    }
}

/// The outcomes of one call.
pub(crate) struct Outcomes(pub(crate) Vec<(Mode, Outcome)>);

impl Outcomes {
    fn get(&self, wanted: Mode) -> Result<&Outcome, String> {
        let found = self.0.iter().find(|(mode, _)| *mode == wanted);
        found.map(|(_, outcome)| outcome).ok_or_else(|| format!("the header leaves out the mode {wanted:?}"))
    }

    /// The value, which is the same whether derivatives are asked for or not.
    fn value(&self) -> Result<&Value, String> {
        let mut values = self.0.iter().map(|(mode, outcome)| done(outcome).map(|(value, ..)| (mode, value)));
        let (_, first) = values.next().ok_or("the header leaves out every mode")??;
        for other in values {
            let (mode, value) = other?;
            if !literal::matches(first, value) {
                return Err(format!("the value is {first}, and {value} in mode {mode:?}"));
            }
        }
        Ok(first)
    }

    /// The derivatives of the value's only real, which are the same in a Jacobian.
    fn gradient(&self) -> Result<&[Value], String> {
        let (_, rows, _) = done(self.get(Mode::Gradient)?)?;
        if let Ok(jacobian) = self.get(Mode::Jacobian) {
            let (_, others, _) = done(jacobian)?;
            let same = |(row, other): (&Vec<Value>, &Vec<Value>)| {
                row.len() == other.len() && row.iter().zip(other).all(|(row, other)| literal::matches(row, other))
            };
            if rows.len() != others.len() || !rows.iter().zip(others).all(same) {
                return Err(format!("the gradient is {rows:?}, and {others:?} as a Jacobian"));
            }
        }
        Ok(&rows[0])
    }

    /// The trap, which is the same in all modes.
    fn trap(&self) -> Result<String, String> {
        let mut traps = self.0.iter().map(|(mode, outcome)| match outcome {
            Outcome::Trap(trap) => Ok((mode, trap)),
            Outcome::Done { value, .. } => Err(format!("expected a trap in mode {mode:?}, found {value}")),
            Outcome::Other(error) => Err(format!("expected a trap in mode {mode:?}, found {error}")),
        });
        let (_, first) = traps.next().ok_or("the header leaves out every mode")??;
        for other in traps {
            let (mode, trap) = other?;
            if first.to_string() != trap.to_string() {
                return Err(format!("the trap is {first}\nand in mode {mode:?} {trap}"));
            }
        }
        Ok(first.to_string())
    }
}

fn done(outcome: &Outcome) -> Result<(&Value, &[Vec<Value>], &Stats), String> {
    match outcome {
        Outcome::Done { value, gradients, stats } => Ok((value, gradients, stats)),
        Outcome::Trap(trap) => Err(format!("it traps: {trap}")),
        Outcome::Other(error) => Err(error.to_string()),
    }
}

/// Makes a call on all engines, in all modes that the expectation is about. `Err` is what no other expectation puts
/// right.
pub(crate) fn found(
    header: &Header,
    def: &ModuleDef,
    loaded: &Loaded,
    kind: Kind,
    call: &Call,
    expected: &str,
) -> Result<Found, String> {
    let Call { function, args } = call;
    let interface = def.functions.iter().find(|known| known.name == *function).map(|known| &known.interface);
    let interface = interface.ok_or_else(|| format!("there is no function `{function}`"))?.as_ref();
    let interface = interface.ok_or_else(|| format!("`{function}` takes or gives what no host has"))?;
    let modes: &[Mode] = match kind {
        Kind::Run | Kind::Jacobian => &[Mode::Call, Mode::Jacobian],
        _ if kind == Kind::Grad || interface.result == HostType::Real => &[Mode::Call, Mode::Gradient, Mode::Jacobian],
        _ => &[Mode::Call, Mode::Jacobian],
    };
    let mut outcomes = Outcomes(Vec::new());
    for &mode in modes.iter().filter(|mode| header.modes.contains(mode)) {
        outcomes.0.push((mode, loaded.run(function, args, mode, &header.limits)?));
    }
    if header.reference {
        second::check(def, interface, call, &outcomes)?;
    }
    let pair = |value: &Value, derivatives| Value::Tuple(vec![value.clone(), Value::Array(derivatives)]);
    Ok(match kind {
        Kind::Run => Found::value(outcomes.value()?, expected),
        Kind::Grad => Found::value(&pair(outcomes.value()?, outcomes.gradient()?.to_vec()), expected),
        Kind::Jacobian => {
            let (_, rows, _) = done(outcomes.get(Mode::Jacobian)?)?;
            let rows = rows.iter().map(|row| Value::Array(row.clone())).collect();
            Found::value(&pair(outcomes.value()?, rows), expected)
        }
        Kind::Tape => {
            let recorded = outcomes.get(Mode::Gradient).or_else(|_| outcomes.get(Mode::Jacobian))?;
            let (_, _, Stats { records, slots, tape_bytes, .. }) = done(recorded)?;
            Found::text(format!("records {records}, slots {slots}, bytes {tape_bytes}"), expected)
        }
        Kind::Trap => Found::text(outcomes.trap()?, expected),
        Kind::Error => return Err("only lines of code can be refused".into()),
    })
}
