//! A function of a few reals: a program's result, of whatever type, as one number, and how it changes around a point.

use super::ladder::Ladder;
use super::random::Random;
use super::reals::{Reals, flattened, replaced};
use crate::vm::module::HostType;
use crate::{CallOptions, Error, Function, Value};
use std::cell::RefCell;

/// The levels after which a value that hasn't changed at all is taken for a constant, if its derivative is 0.
const CONSTANT_AFTER: usize = 4;

/// What the result is multiplied by to be one number: its cotangent.
pub(super) struct Weights {
    /// One for each real of the result.
    factors: Vec<f64>,
    /// How many reals are not finite, and left out if others are.
    pub(super) not_finite: usize,
}

impl Weights {
    /// 1 if the result is one real, else random numbers, so that all reals count, and none cancels another.
    pub(super) fn new(result: &HostType, value: &Value, mut random: Random) -> Self {
        let ys = flattened(std::slice::from_ref(value));
        let mut factors: Vec<f64> = match result {
            HostType::Real => vec![1.0],
            _ => ys.iter().map(|_| random.factor()).collect(),
        };
        let not_finite = ys.iter().filter(|y| !y.is_finite()).count();
        if not_finite < ys.len() {
            factors.iter_mut().zip(&ys).filter(|(_, y)| !y.is_finite()).for_each(|(factor, _)| *factor = 0.0);
        }
        Weights { factors, not_finite }
    }

    /// The cotangent of a value.
    pub(super) fn cotangent(&self, value: &Value) -> Value {
        replaced(value, &mut self.factors.iter())
    }

    /// The inner product with a value or its tangent. NaN if it has another number of reals.
    pub(super) fn product(&self, value: &Value) -> f64 {
        let ys = flattened(std::slice::from_ref(value));
        if ys.len() != self.factors.len() {
            return f64::NAN;
        }
        let terms = self.factors.iter().zip(&ys).filter(|(factor, _)| **factor != 0.0);
        // The sum of nothing is -0 by itself.
        terms.fold(0.0, |sum, (factor, y)| sum + factor * y)
    }
}

/// Calls at and around a point.
pub(super) struct Probe<'a> {
    pub(super) function: &'a Function,
    pub(super) options: &'a CallOptions,
    pub(super) reals: &'a Reals,
    /// The first trap since it was asked for.
    trap: RefCell<Option<String>>,
}

impl<'a> Probe<'a> {
    pub(super) fn new(function: &'a Function, options: &'a CallOptions, reals: &'a Reals) -> Self {
        Probe { function, options, reals, trap: RefCell::new(None) }
    }

    /// The trap that calls have met, in one line.
    pub(super) fn take_trap(&self) -> Option<String> {
        self.trap.borrow_mut().take()
    }

    /// The result at other reals; `None` if the program traps there. Limits are errors, and not something about the
    /// function.
    pub(super) fn call(&self, xs: &[f64]) -> Result<Option<Value>, Error> {
        let called = self.function.call_with(&self.reals.args_at(xs), self.options);
        self.unless_trapped(called.map(|(value, _)| value))
    }

    /// The gradient of a function with one real as its result.
    pub(super) fn gradient(&self, xs: &[f64]) -> Result<Option<Vec<f64>>, Error> {
        let called = self.function.value_and_grad_with(&self.reals.args_at(xs), self.options);
        self.unless_trapped(called.map(|called| flattened(&called.gradient)))
    }

    fn unless_trapped<T>(&self, called: Result<T, Error>) -> Result<Option<T>, Error> {
        match called {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_passable(&error) => {
                self.trap.borrow_mut().get_or_insert_with(|| first_line(&error));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether an error says something of the function at the arguments, and not of what calls may take.
pub(super) fn is_passable(error: &Error) -> bool {
    error.is_trap() && !error.is_limit() && !error.is_cancelled()
}

pub(super) fn first_line(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Reals that move together.
pub(super) struct Line<'a> {
    pub(super) origin: &'a [f64],
    /// By how much each moves for a step of 1; none moves that isn't here.
    pub(super) direction: Direction<'a>,
}

/// How the reals of a line move.
pub(super) enum Direction<'a> {
    /// One of them, by the step.
    One(usize),
    /// All of them.
    All(&'a [f64]),
}

impl Line<'_> {
    /// The reals a step away.
    pub(super) fn at(&self, step: f64) -> Vec<f64> {
        let mut xs = self.origin.to_vec();
        match self.direction {
            Direction::One(n) => xs[n] += step,
            Direction::All(direction) => xs.iter_mut().zip(direction).for_each(|(x, by)| *x += step * by),
        }
        xs
    }
}

/// Takes differences until all ladders confirm their derivatives, or there is no smaller step.
pub(super) fn climb(
    ladders: &mut [Ladder],
    derivatives: &[f64],
    steps: impl Iterator<Item = f64>,
    mut values: impl FnMut(f64) -> Result<Vec<f64>, Error>,
) -> Result<(), Error> {
    let mut open: Vec<usize> = (0..ladders.len()).filter(|&n| ladders[n].base().is_finite()).collect();
    for (level, step) in steps.enumerate() {
        if open.is_empty() {
            return Ok(());
        }
        let (below, above) = (values(-step)?, values(step)?);
        open.retain(|&n| {
            let (ladder, derivative) = (&mut ladders[n], derivatives[n]);
            ladder.push(step, [below[n], above[n]]);
            let is_constant = derivative == 0.0 && level >= CONSTANT_AFTER && ladder.is_constant();
            !is_constant && !ladder.confirms(derivative)
        });
    }
    // The same nearby, where the derivative says that it changes: only larger steps tell a wrong derivative from
    // rounding.
    open.retain(|&n| ladders[n].is_flat() && derivatives[n] != 0.0);
    let Some(&first) = open.first() else { return Ok(()) };
    for step in ladders[first].wide_steps() {
        let (below, above) = (values(-step)?, values(step)?);
        open.iter().for_each(|&n| ladders[n].push_secant(step, [below[n], above[n]]));
    }
    Ok(())
}
