//! Functions with their arguments, ready to run again and again.
//!
//! Arguments and results cross the border in every run, as they do in use: where they are numbers and arrays of reals,
//! as slices, in memory that is kept from run to run; where they aren't, as values. Data that a derivative is not with
//! respect to is bound to the function once, as in a fit.

use super::Ready;
use super::input::arguments;
use dualvm::{CallFrame, CallOptions, Error, FlatFunction, FlatValue, Function, Stats, Value};

/// A function with its arguments.
pub(crate) trait Prepared {
    /// Runs once.
    fn run(&mut self) -> Result<(), Error>;

    /// What the last run gave, as the suite wants it. There has been one.
    fn output(&self) -> Value;

    /// What the last run wrote to its tapes.
    fn tape(&self) -> Tape;
}

/// What a run writes to its tapes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tape {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Tape {
    /// Adds what another run has written.
    pub(super) fn add(&mut self, stats: Option<Stats>) {
        let Some(stats) = stats else { return };
        self.records += stats.records;
        self.bytes += stats.tape_bytes;
    }
}

impl From<&Stats> for Tape {
    fn from(stats: &Stats) -> Self {
        Tape { records: stats.records, bytes: stats.tape_bytes }
    }
}

/// How a value becomes an output.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    AsItIs,
    /// All of its reals in one list.
    Concatenated,
}

/// What of a gradient is asked for, by the names of parameters.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// The derivative with respect to one parameter.
    Only(&'static str),
    /// An object with these.
    Record(&'static [&'static str]),
    /// All reals of these in one list.
    Concatenated(&'static [&'static str]),
}

impl Wanted {
    fn names(&self) -> &[&'static str] {
        match self {
            Wanted::Only(name) => std::slice::from_ref(name),
            Wanted::Record(names) | Wanted::Concatenated(names) => names,
        }
    }
}

/// A function that is called for its value, with the arguments of an input.
pub(super) fn value(function: Function, input: &str, shape: Shape) -> Ready {
    let (args, effort) = arguments(&function, input)?;
    let prepared: Box<dyn Prepared> = match flat(&function, &args) {
        Some(function) => Box::new(FlatValueCall { function, frame: CallFrame::new(), args }),
        None => Box::new(ValueCall { function, args, shape, value: Value::Null }),
    };
    Ok((prepared, effort))
}

/// A function that is called for its gradient, with the arguments of an input.
pub(super) fn gradient(function: Function, input: &str, wanted: &Wanted) -> Ready {
    let (args, effort) = arguments(&function, input)?;
    let (function, args) = with_data(&function, args, wanted.names())?;
    let parameter = match wanted {
        Wanted::Only(name) => parameter(&function, name),
        _ => None,
    };
    let prepared: Box<dyn Prepared> = match (flat(&function, &args), parameter) {
        (Some(function), Some(parameter)) => {
            Box::new(FlatGradientCall { function, frame: CallFrame::new(), args, parameter })
        }
        _ => {
            let (gradient, tape) = (Vec::new(), Tape::default());
            Box::new(GradientCall { function, args, wanted: *wanted, gradient, tape })
        }
    };
    Ok((prepared, effort))
}

/// The function of these parameters, and derivatives are with respect to them; all else is bound. Gives their
/// arguments, too.
pub(super) fn with_data(
    function: &Function,
    args: Vec<Value>,
    names: &[&str],
) -> Result<(Function, Vec<Value>), Error> {
    let (mut left, mut given) = (function.wrt(names)?, Vec::with_capacity(names.len()));
    for ((name, _), arg) in function.interface().params.iter().zip(args) {
        if names.contains(&name.as_str()) {
            given.push(arg);
        } else {
            left = left.bind(name, &arg)?;
        }
    }
    Ok((left, given))
}

/// Which parameter has this name.
fn parameter(function: &Function, name: &str) -> Option<usize> {
    function.interface().params.iter().position(|(parameter, _)| parameter == name)
}

/// The function, to be called with slices, if its arguments can be.
fn flat(function: &Function, args: &[Value]) -> Option<FlatFunction> {
    args.iter().all(|arg| leaf(arg).is_some()).then(|| function.flat().ok()).flatten()
}

/// A number, or an array of reals.
fn leaf(value: &Value) -> Option<FlatValue<'_>> {
    match value {
        Value::Real(x) => Some(FlatValue::Real(*x)),
        Value::Int(n) => Some(FlatValue::Int(*n)),
        Value::Reals(xs) => Some(FlatValue::Reals(xs)),
        _ => None,
    }
}

fn leaves(args: &[Value]) -> Vec<FlatValue<'_>> {
    args.iter().filter_map(leaf).collect()
}

/// A number, or an array of reals, as a value.
fn unflat(value: Option<FlatValue<'_>>) -> Value {
    match value {
        Some(FlatValue::Real(x)) => Value::Real(x),
        Some(FlatValue::Int(n)) => Value::Int(n),
        Some(FlatValue::Reals(xs)) => Value::Reals(xs.to_vec()),
        _ => Value::Null,
    }
}

/// What the last call with a frame has written.
fn tape(frame: &CallFrame) -> Tape {
    frame.stats().as_ref().map(Tape::from).unwrap_or_default()
}

/// All reals in values, in order.
pub(crate) fn reals<'v>(values: impl IntoIterator<Item = &'v Value>) -> Vec<f64> {
    fn collect(value: &Value, all: &mut Vec<f64>) {
        match value {
            Value::Real(x) => all.push(*x),
            Value::Reals(xs) => all.extend(xs),
            Value::Tuple(parts) | Value::Array(parts) => parts.iter().for_each(|part| collect(part, all)),
            Value::Record(fields) => fields.iter().for_each(|(_, part)| collect(part, all)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    values.into_iter().for_each(|value| collect(value, &mut all));
    all
}

/// A call with slices for the value.
struct FlatValueCall {
    function: FlatFunction,
    frame: CallFrame,
    args: Vec<Value>,
}

impl Prepared for FlatValueCall {
    fn run(&mut self) -> Result<(), Error> {
        self.function.call(&mut self.frame, &leaves(&self.args))?;
        Ok(())
    }

    fn output(&self) -> Value {
        unflat(self.frame.results().and_then(|results| results.get(0)))
    }

    fn tape(&self) -> Tape {
        tape(&self.frame)
    }
}

/// A call with slices for the derivative with respect to one parameter.
struct FlatGradientCall {
    function: FlatFunction,
    frame: CallFrame,
    args: Vec<Value>,
    parameter: usize,
}

impl Prepared for FlatGradientCall {
    fn run(&mut self) -> Result<(), Error> {
        self.function.value_and_grad(&mut self.frame, &leaves(&self.args))?;
        Ok(())
    }

    fn output(&self) -> Value {
        unflat(self.frame.gradient().and_then(|gradient| gradient.get(self.parameter)))
    }

    fn tape(&self) -> Tape {
        tape(&self.frame)
    }
}

/// A call with values for the value.
struct ValueCall {
    function: Function,
    args: Vec<Value>,
    shape: Shape,
    value: Value,
}

impl Prepared for ValueCall {
    fn run(&mut self) -> Result<(), Error> {
        self.value = self.function.call(&self.args)?;
        Ok(())
    }

    fn output(&self) -> Value {
        match self.shape {
            Shape::AsItIs => self.value.clone(),
            Shape::Concatenated => Value::Reals(reals([&self.value])),
        }
    }

    fn tape(&self) -> Tape {
        Tape::default()
    }
}

/// A call with values for the gradient.
struct GradientCall {
    function: Function,
    args: Vec<Value>,
    wanted: Wanted,
    gradient: Vec<Value>,
    tape: Tape,
}

impl GradientCall {
    fn of(&self, name: &str) -> Value {
        parameter(&self.function, name).map_or(Value::Null, |at| self.gradient[at].clone())
    }
}

impl Prepared for GradientCall {
    fn run(&mut self) -> Result<(), Error> {
        let result = self.function.value_and_grad_with(&self.args, &CallOptions::default())?;
        self.tape = Tape::from(&result.stats);
        self.gradient = result.gradient;
        Ok(())
    }

    fn output(&self) -> Value {
        match self.wanted {
            Wanted::Only(name) => self.of(name),
            Wanted::Record(names) => {
                Value::Record(names.iter().map(|&name| (name.to_owned(), self.of(name))).collect())
            }
            Wanted::Concatenated(names) => {
                let parts: Vec<Value> = names.iter().map(|name| self.of(name)).collect();
                Value::Reals(reals(&parts))
            }
        }
    }

    fn tape(&self) -> Tape {
        self.tape
    }
}
