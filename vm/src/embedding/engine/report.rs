//! What calls report besides a value: what they used, gradients and Jacobians.

use crate::embedding::value::Value;
use std::time::Duration;

/// What a call used.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Fuel used: instructions of the forward run and of the sweep.
    pub instructions: u64,
    /// Tape records written.
    pub records: u64,
    /// Slots given out: inputs, segment outputs, elements of packed arrays.
    pub slots: u64,
    /// Bytes of tape records.
    pub tape_bytes: u64,
    /// Bytes of heap objects allocated, in reruns too.
    pub allocated_bytes: u64,
    /// The most memory that heap and frames held at one time, in bytes.
    pub heap_peak_bytes: u64,
    /// Tasks: the call itself, and what its forks ran.
    pub tasks: u64,
    /// Reals and ranges of reals that tasks took over from other tasks' tapes. What is handed to a task as an argument,
    /// and what it hands back, doesn't count.
    pub imports: u64,
    /// Instructions along the longest way through the forks, which no number of threads can run side by side.
    /// [`Stats::instructions`] by this is the number of threads that the program can keep busy. Constants that tasks
    /// compute are on no way: which task does, depends on the schedule.
    pub span: u64,
    /// The most memory that arrays of adjoints held at one time, in bytes: those of tasks that were being swept or
    /// waited for tasks of theirs, and those of ranges on their way to another task. Small ones don't count.
    pub sweep_peak_bytes: u64,
    /// Time of the forward run, without the conversion of arguments and results.
    pub forward: Duration,
    /// Time of the sweep, without the conversion of the gradient.
    pub sweep: Duration,
}

impl Stats {
    /// What a call has used of which these are the parts: instructions are counted through.
    #[cold]
    #[inline(never)]
    pub(super) fn followed_by(&self, next: &Stats) -> Stats {
        Stats {
            instructions: next.instructions,
            records: self.records + next.records,
            slots: self.slots + next.slots,
            tape_bytes: self.tape_bytes + next.tape_bytes,
            allocated_bytes: self.allocated_bytes + next.allocated_bytes,
            heap_peak_bytes: self.heap_peak_bytes.max(next.heap_peak_bytes),
            // The call itself counts once.
            tasks: self.tasks + next.tasks - 1,
            imports: self.imports + next.imports,
            span: self.span + next.span,
            sweep_peak_bytes: self.sweep_peak_bytes.max(next.sweep_peak_bytes),
            forward: self.forward + next.forward,
            sweep: self.sweep + next.sweep,
        }
    }
}

/// A gradient and what it took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Gradient {
    /// The function's value.
    pub value: f64,
    /// One entry per argument, of its shape; discrete parts are [`Value::Null`].
    pub gradient: Vec<Value>,
    /// What the call used.
    pub stats: Stats,
}

/// A Jacobian and what it took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Jacobian {
    /// The function's value.
    pub value: Value,
    /// For each real in the value, in the order in which it stands there, the gradient: one entry per argument.
    pub rows: Vec<Vec<Value>>,
    /// What the call used; the time of the sweep is that of all sweeps.
    pub stats: Stats,
}

/// A directional derivative and what it took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Jvp {
    /// The function's value.
    pub value: Value,
    /// How the value changes as the arguments move in the direction of their tangents: of the value's shape; discrete
    /// parts are [`Value::Null`].
    pub tangent: Value,
    /// What the call used.
    pub stats: Stats,
}

/// Directional derivatives and what they took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Jvps {
    /// The function's value.
    pub value: Value,
    /// For each direction, how the value changes in it, as in [`Jvp::tangent`].
    pub tangents: Vec<Value>,
    /// What the call used.
    pub stats: Stats,
}

/// Directional derivatives as reals in a row, and what they took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct JvpsOfReals {
    /// The function's value.
    pub value: Value,
    /// For each direction, how the reals in the value change in it.
    pub tangents: Vec<Vec<f64>>,
    /// What the call used.
    pub stats: Stats,
}

/// A cotangent that was pulled back, and what it took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Vjp {
    /// The function's value.
    pub value: Value,
    /// The gradient of the inner product of cotangent and value: one entry per argument, of its shape; discrete parts
    /// are [`Value::Null`].
    pub gradient: Vec<Value>,
    /// What the call used.
    pub stats: Stats,
}

/// A product of the Hessian, and what it took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Hvp {
    /// The function's value.
    pub value: f64,
    /// Its gradient: one entry per argument, of its shape; discrete parts are [`Value::Null`].
    pub gradient: Vec<Value>,
    /// How the gradient changes as the arguments move in the direction of their tangents: the product of the Hessian
    /// and these, of the gradient's shape.
    pub product: Vec<Value>,
    /// What the call used.
    pub stats: Stats,
}

/// A Hessian and what it took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Hessian {
    /// The function's value.
    pub value: f64,
    /// Its gradient: one entry per argument, of its shape; discrete parts are [`Value::Null`].
    pub gradient: Vec<Value>,
    /// For each real in the arguments that derivatives are with respect to, in the order in which it stands there, the
    /// gradient of the partial derivative by it: one entry per argument.
    pub rows: Vec<Vec<Value>>,
    /// What the call used.
    pub stats: Stats,
}
