//! Runs: programs with their streams, the interpreter, and what a run may use.

pub(crate) mod interp;
pub(crate) mod limits;
pub(crate) mod meter;
pub(crate) mod program;
