//! Hand tracking: the Jacobian in forward mode.
//!
//! An error of a correspondence depends on theta and on the two coordinates in its own triangle. So the coordinates of
//! all correspondences move at once, and there are two directions for them, beside one for each angle.

use super::input::arguments;
use super::prepared::{Prepared, Tape, with_data};
use super::{NoAnswer, Ready};
use dualvm::{Error, Function, Module, Value};

/// Coordinates of a correspondence.
const COORDINATES: usize = 2;

/// The dense Jacobian; in front are the columns of the coordinates, of which each row has its own.
pub(super) fn jacobian(module: &Module, text: &str) -> Ready {
    let function = module.function("objective")?;
    let (args, effort) = arguments(&function, text)?;
    let (function, args) = with_data(&function, args, &["theta", "us"])?;
    let [theta, us] = &args[..] else { return Err(NoAnswer::Input("expected theta and us".to_owned())) };
    let (angles, correspondences) = (length(theta), length(us));
    let coordinates = if correspondences == 0 { 0 } else { COORDINATES };
    let along = |axis: usize| {
        let is_along = |real: usize| match real.checked_sub(angles) {
            None => axis == coordinates + real,
            Some(coordinate) => axis == coordinate % COORDINATES,
        };
        (0..angles + COORDINATES * correspondences).map(|real| if is_along(real) { 1.0 } else { 0.0 }).collect()
    };
    let directions = (0..coordinates + angles).map(along).collect();
    Ok((Box::new(Jacobian { function, args, directions, columns: Vec::new() }), effort))
}

fn length(array: &Value) -> usize {
    match array {
        Value::Array(elements) => elements.len(),
        Value::Reals(elements) => elements.len(),
        _ => 0,
    }
}

struct Jacobian {
    function: Function,
    args: Vec<Value>,
    directions: Vec<Vec<f64>>,
    columns: Vec<Vec<f64>>,
}

impl Prepared for Jacobian {
    fn run(&mut self) -> Result<(), Error> {
        (_, self.columns) = self.function.jvps_of_reals(&self.args, &self.directions)?;
        Ok(())
    }

    fn output(&self) -> Value {
        let rows = self.columns.first().map_or(0, Vec::len);
        let row = |n: usize| self.columns.iter().map(|column| column[n]).collect::<Vec<f64>>();
        Value::Array((0..rows).map(|n| Value::Reals(row(n))).collect())
    }

    /// Forward mode has none.
    fn tape(&self) -> Tape {
        Tape::default()
    }
}
