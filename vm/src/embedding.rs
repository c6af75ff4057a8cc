//! What an embedder holds, and the border between its values and those of a run.

pub(crate) mod convert;
pub mod engine;
pub mod explain;
pub mod flat;
pub mod formulas;
pub mod job_graph;
pub mod kinks;
pub mod linker;
pub mod profile;
pub mod sparse;
pub mod typed;
pub mod value;
