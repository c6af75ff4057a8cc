//! A second opinion: values, fuel, derivatives and traps are those of the reference implementation, so that no wrong
//! expectation is ever taken over from the engines. Reverse and forward mode are both asked.

use super::found::Outcomes;
use super::literal::Call;
use crate::support::engines::{Mode, Outcome};
use crate::support::numbers::{Forward, Taped};
use crate::support::reference::{Number, Object, Stop, Val, run};
use crate::support::{flatten, same};
use dualvm_vm::module::{HostType, Interface, ModuleDef};
use dualvm_vm::trap::TrapKind;
use dualvm_vm::value::Value;
use std::rc::Rc;

/// Steps that the reference takes.
const STEPS_MAX: u64 = 10_000_000;
/// Steps of all runs in forward mode, one for each input, beyond which one of them must do.
const FORWARD_STEPS_MAX: u64 = 100_000;

/// A function that the reference runs.
struct Program<'p> {
    def: &'p ModuleDef,
    interface: &'p Interface,
    call: &'p Call,
}

/// Compares what the engines found with the reference.
pub(crate) fn check(def: &ModuleDef, interface: &Interface, call: &Call, outcomes: &Outcomes) -> Result<(), String> {
    // Arguments of another type are refused before anything runs, and so is what has no gradient.
    let refused = outcomes.0.iter().any(|(_, outcome)| matches!(outcome, Outcome::Other(_)));
    if refused || outcomes.0.iter().all(|(_, outcome)| limited(outcome)) {
        return Ok(());
    }
    let program = Program { def, interface, call };
    let mut inputs = 0;
    let input = |n: usize, x| {
        inputs = n + 1;
        x
    };
    let (values, steps) = match program.run(input) {
        Ok(found) => found,
        Err(Stop::Trap(kind)) => return outcomes.0.iter().try_for_each(|(_, outcome)| traps(&kind, outcome)),
        Err(Stop::TooLong) => {
            return Err(format!("more than {STEPS_MAX} steps: make it shorter, or say `reference: none,` and why"));
        }
    };
    for (mode, outcome) in &outcomes.0 {
        let Outcome::Done { value, stats, .. } = outcome else {
            if limited(outcome) {
                continue;
            }
            return Err(format!("{mode:?}: the reference comes to its end, the engines found {outcome:?}"));
        };
        let found = flatten(std::slice::from_ref(value));
        if found.len() != values.len() || !values.iter().zip(&found).all(|(&a, &b)| same(a, b)) {
            return Err(format!("{mode:?}: the reference gives {values:?}, the engines {found:?}"));
        }
        if *mode == Mode::Call && stats.instructions != steps {
            return Err(format!("the reference takes {steps} steps, the engines {}", stats.instructions));
        }
    }
    let rows = outcomes.0.iter().find_map(|(mode, outcome)| match outcome {
        Outcome::Done { gradients, .. } if *mode != Mode::Call => Some(gradients),
        _ => None,
    });
    let rows: Vec<Vec<f64>> = rows.into_iter().flatten().map(|row| flatten(row)).collect();
    if let Some(row) = rows.iter().find(|row| row.len() != inputs) {
        return Err(format!("expected a derivative for each of {inputs} inputs, found {}", row.len()));
    }
    if inputs == 0 { Ok(()) } else { program.derivatives(&rows, inputs, steps) }
}

/// Whether a limit has stopped the engines. The reference has none.
fn limited(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Trap(trap) if matches!(trap.kind, TrapKind::Limit(_)))
}

/// The engines stop as the reference does, unless a limit has stopped them before.
fn traps(expected: &TrapKind, outcome: &Outcome) -> Result<(), String> {
    match outcome {
        _ if limited(outcome) => Ok(()),
        // NaN in it is no reason to differ.
        Outcome::Trap(trap) if format!("{:?}", trap.kind) == format!("{expected:?}") => Ok(()),
        found => Err(format!("the reference stops with {expected:?}, the engines found {found:?}")),
    }
}

impl Program<'_> {
    /// All reals in the results, and how many steps it took. `make` makes the inputs from their number and value.
    fn run<N: Number>(&self, mut make: impl FnMut(usize, f64) -> N) -> Result<(Vec<N>, u64), Stop> {
        let mut next = 0;
        let mut writer = Writer {
            def: self.def,
            make: &mut |x| {
                next += 1;
                make(next - 1, x)
            },
        };
        let mut args = Vec::new();
        for ((_, ty), arg) in self.interface.params.iter().zip(&self.call.args) {
            writer.write(ty, arg, &mut args);
        }
        let (function, _) = self.def.function(&self.call.function).expect("the engines have called it");
        let (results, steps) = run(self.def, function.index(), args, STEPS_MAX)?;
        let mut reals = Vec::new();
        results.iter().for_each(|result| read(result, &mut reals));
        Ok((reals, steps))
    }

    /// Compares a row of derivatives for each real in the value.
    fn derivatives(&self, rows: &[Vec<f64>], inputs: usize, steps: u64) -> Result<(), String> {
        Taped::begin();
        let (results, _) = self.run(|_, x| Taped::input(x)).map_err(|stop| format!("{stop:?}"))?;
        let expected: Vec<_> = results.iter().map(|result| result.gradient(inputs)).collect();
        // What is infinite, or as large, may come to something else in another order of products.
        if expected.iter().any(|row| row.singular || row.largest > 1e250) {
            return Ok(());
        }
        for (number, (row, expected)) in rows.iter().zip(&expected).enumerate() {
            for (n, &found) in row.iter().enumerate() {
                let scale = expected.magnitude[n];
                compare("reverse mode", (number, n), expected.gradient[n], found, scale)?;
            }
        }
        let chosen = (steps.saturating_mul(inputs as u64) > FORWARD_STEPS_MAX).then(|| steps as usize % inputs);
        for n in (0..inputs).filter(|n| chosen.is_none_or(|chosen| chosen == *n)) {
            let seed = |at: usize, primal| Forward { primal, tangent: f64::from(u8::from(at == n)) };
            let (results, _) = self.run(seed).map_err(|stop| format!("{stop:?}"))?;
            for (number, (result, row)) in results.iter().zip(rows).enumerate() {
                compare("forward mode", (number, n), result.tangent, row[n], expected[number].magnitude[n])?;
            }
        }
        Ok(())
    }
}

/// Equal but for rounding, in proportion to the terms that were added.
fn compare(what: &str, (row, n): (usize, usize), expected: f64, found: f64, scale: f64) -> Result<(), String> {
    if (expected - found).abs() <= 1e-10 * scale + 1e-290 {
        return Ok(());
    }
    Err(format!("derivative {n} of real {row}: {what} gives {expected:?}, the engines {found:?} (terms of {scale:e})"))
}

/// Host values as what the reference computes with.
struct Writer<'w, N> {
    def: &'w ModuleDef,
    make: &'w mut dyn FnMut(f64) -> N,
}

impl<N: Number> Writer<'_, N> {
    /// Writes a value of a type, which the engines have accepted, as the registers that it takes.
    fn write(&mut self, ty: &HostType, value: &Value, out: &mut Vec<Val<N>>) {
        match (ty, value) {
            (HostType::Real, Value::Real(x)) => out.push(Val::Real((self.make)(*x))),
            (HostType::Real, Value::Int(n)) => out.push(Val::Real((self.make)(*n as f64))),
            (HostType::Int, Value::Int(n)) => out.push(Val::Int(*n)),
            (HostType::Bool, Value::Bool(b)) => out.push(Val::Int(i64::from(*b))),
            (HostType::Tuple(types), Value::Tuple(parts)) => {
                types.iter().zip(parts).for_each(|(ty, part)| self.write(ty, part, out));
            }
            (HostType::Record(types), Value::Record(parts)) => {
                for (name, ty) in types {
                    let (_, part) = parts.iter().find(|(known, _)| known == name).expect("the record has all fields");
                    self.write(ty, part, out);
                }
            }
            (HostType::Array { element, .. }, _) => {
                let elements: Vec<Val<N>> = self.elements(element, value).into_iter().flat_map(Val::element).collect();
                out.push(Val::array_of(elements));
            }
            (HostType::List { element, .. }, _) => {
                let end = Val::Ref(Rc::new(Object::Fields(0, Vec::new())));
                out.push(self.elements(element, value).into_iter().rev().fold(end, |rest, mut fields| {
                    fields.push(rest);
                    Val::Ref(Rc::new(Object::Fields(1, fields)))
                }));
            }
            (HostType::Data { data, .. }, Value::Variant(name, payload)) => {
                let variants = &self.def.data[data.index()].variants;
                let tag = variants.iter().position(|(known, _)| known == name).expect("the type has the constructor");
                let mut fields = Vec::new();
                self.write(&variants[tag].1, payload, &mut fields);
                out.push(Val::Ref(Rc::new(Object::Fields(tag as u16, fields))));
            }
            (ty, value) => panic!("no expectation gives {value} for {ty}"),
        }
    }

    /// The registers of each element.
    fn elements(&mut self, element: &HostType, value: &Value) -> Vec<Vec<Val<N>>> {
        let items = match value {
            Value::Reals(xs) => xs.iter().map(|&x| Value::Real(x)).collect(),
            Value::Array(items) => items.clone(),
            other => panic!("no expectation gives {other} for an array"),
        };
        let one = |item| {
            let mut out = Vec::new();
            self.write(element, item, &mut out);
            out
        };
        items.iter().map(one).collect()
    }
}

/// The reals in a result, in the order in which a host sees them.
fn read<N: Number>(value: &Val<N>, out: &mut Vec<N>) {
    match value {
        Val::Real(x) => out.push(x.clone()),
        Val::Int(_) => {}
        Val::Ref(object) => match &**object {
            Object::Fields(_, parts) | Object::Shaped(parts) | Object::Array(parts) => {
                parts.iter().for_each(|part| read(part, out))
            }
            Object::Closure(..) | Object::Builder(_) | Object::Chain(_) => panic!("no host is given such an object"),
        },
    }
}
