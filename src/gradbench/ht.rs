//! Hand tracking: the Jacobian by reverse sweeps, one per row.
//!
//! An error of a correspondence depends on theta and on the two coordinates in its own triangle, so a row is a gradient
//! of which 28 numbers are kept. Gradients of all arguments would fill memory if they were taken all at once:
//! correspondences are taken in blocks, each with a forward run of its own.

use super::input::arguments;
use super::prepared::{Prepared, Tape, reals};
use super::{NoAnswer, Ready};
use dualvm::{CallOptions, Error, Function, Module, Value};

/// Correspondences that share a forward run.
const BLOCK: usize = 16;

/// Reals of an error, and of a correspondence's coordinates.
const ERROR: usize = 3;

/// The dense Jacobian; in front are the columns of the coordinates, of which each row has its own.
pub(super) fn jacobian(module: &Module, text: &str) -> Ready {
    let function = module.function("objective")?.wrt(&["theta", "us"])?;
    let (args, effort) = arguments(&function, text)?;
    let blocks = blocks(args).ok_or_else(|| NoAnswer::Input("there is nothing to track".to_owned()))?;
    Ok((Box::new(Jacobian { function, blocks, rows: Vec::new(), tape: Tape::default() }), effort))
}

struct Jacobian {
    function: Function,
    /// The arguments of each block.
    blocks: Vec<Vec<Value>>,
    rows: Vec<Vec<f64>>,
    tape: Tape,
}

/// The arguments with parts of the correspondences in place of all.
fn blocks(args: Vec<Value>) -> Option<Vec<Vec<Value>>> {
    let [theta, us, Value::Record(data)] = &args[..] else { return None };
    let field = |wanted: &str| data.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let (model, correspondences, points) = (field("model")?, field("correspondences")?, field("points")?);
    let count = elements(correspondences);
    let block = |from: usize| {
        let part = |all: &Value| slice(all, from, (from + BLOCK).min(count));
        let data = [("model", model.clone()), ("correspondences", part(correspondences)), ("points", part(points))];
        let data = data.map(|(name, value)| (name.to_owned(), value));
        vec![theta.clone(), part(us), Value::Record(data.into())]
    };
    Some((0..count).step_by(BLOCK).map(block).collect())
}

fn elements(array: &Value) -> usize {
    if let Value::Array(elements) = array { elements.len() } else { 0 }
}

/// Some elements of an array; where there are fewer, those that there are.
fn slice(array: &Value, from: usize, to: usize) -> Value {
    let Value::Array(elements) = array else { return array.clone() };
    let to = to.min(elements.len());
    Value::Array(elements[from.min(to)..to].to_vec())
}

impl Prepared for Jacobian {
    fn run(&mut self) -> Result<(), Error> {
        self.rows.clear();
        self.tape = Tape::default();
        for args in &self.blocks {
            let jacobian = self.function.jacobian_with(args, &CallOptions::default())?;
            let Tape { records, bytes } = Tape::from(&jacobian.stats);
            self.tape.records += records;
            self.tape.bytes += bytes;
            for (n, gradient) in jacobian.rows.iter().enumerate() {
                let own = match &gradient[1] {
                    Value::Array(us) => us.get(n / ERROR),
                    _ => None,
                };
                self.rows.push(reals(own.into_iter().chain([&gradient[0]])));
            }
        }
        Ok(())
    }

    fn output(&self) -> Value {
        Value::Array(self.rows.iter().map(|row| row.as_slice().into()).collect())
    }

    fn tape(&self) -> Tape {
        self.tape
    }
}
