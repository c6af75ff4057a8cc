//! Hand tracking: the Jacobian in forward mode.
//!
//! An error of a correspondence depends on theta and on the two coordinates in its own triangle. So the coordinates of
//! all correspondences move at once, and there are two directions for them, beside one for each angle.

use super::input::arguments;
use super::prepared::{Prepared, Tape, reals};
use super::{NoAnswer, Ready};
use dualvm::{Error, Function, Module, Value};

/// Coordinates of a correspondence.
const COORDINATES: usize = 2;

/// The dense Jacobian; in front are the columns of the coordinates, of which each row has its own.
pub(super) fn jacobian(module: &Module, text: &str) -> Ready {
    let function = module.function("objective")?.wrt(&["theta", "us"])?;
    let (args, effort) = arguments(&function, text)?;
    let [theta, us, _] = &args[..] else { return Err(NoAnswer::Input("expected theta, us and data".to_owned())) };
    let (angles, correspondences) = (length(theta), length(us));
    let along = |axis: usize, count: usize| (0..count).map(|n| if n == axis { 1.0 } else { 0.0 }).collect::<Vec<f64>>();
    let direction = |theta: Vec<f64>, of_each: Vec<f64>| {
        let of_each = Value::Tuple(of_each.into_iter().map(Value::Real).collect());
        [Value::Reals(theta), Value::Array(vec![of_each; correspondences]), Value::Null]
    };
    let coordinates = if correspondences == 0 { 0 } else { COORDINATES };
    let of_coordinates = (0..coordinates).map(|n| direction(vec![0.0; angles], along(n, COORDINATES)));
    let of_angles = (0..angles).map(|n| direction(along(n, angles), vec![0.0; COORDINATES]));
    let directions = of_coordinates.chain(of_angles).collect();
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
    directions: Vec<[Value; 3]>,
    columns: Vec<Vec<f64>>,
}

impl Prepared for Jacobian {
    fn run(&mut self) -> Result<(), Error> {
        let (_, tangents) = self.function.jvps(&self.args, &self.directions)?;
        self.columns = tangents.iter().map(|tangent| reals([tangent])).collect();
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
