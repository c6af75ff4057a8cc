//! Runs: programs with their streams, what runs them, and what a run may use.
//!
//! - `program`: verified code with its streams;
//! - `worker`, `workers`: stacks, and the state of what runs on them; `stacks`, `registers`, `trace`: parts of it;
//! - `entry`: how a run begins, and how functions are entered;
//! - `interp`: the dispatch loop; `recording`, `recording_loops`: what it does besides computing while a run records;
//! - `tasks`: forks and parallel maps; `operators`, `reverse`, `reruns`: derivatives of calls; `custom`: those that the
//!   program gives;
//! - `builders`: arrays under construction that get ranges of others, and more room;
//! - `deep`, `structures`: objects with components, and copies of them;
//! - `checks`, `kinks`: looking for numbers that aren't finite, and for ties and jumps;
//! - `limits`, `meter`: what a run may use, and what it has used.

pub(crate) mod alone;
pub(crate) mod builders;
pub(crate) mod checks;
pub(crate) mod constants;
mod custom;
pub(crate) mod deep;
pub(crate) mod entry;
mod host;
pub(crate) mod interp;
pub(crate) mod kinks;
pub(crate) mod limits;
pub(crate) mod lines;
pub(crate) mod meter;
pub(crate) mod nesting;
mod once;
mod operators;
pub(crate) mod program;
pub(crate) mod recording;
pub(crate) mod recording_loops;
pub(crate) mod recording_regions;
pub(crate) mod registers;
pub(crate) mod reruns;
mod reverse;
pub(crate) mod stacks;
pub(crate) mod structures;
pub(crate) mod tasks;
mod texts;
pub(crate) mod trace;
pub(crate) mod worker;
pub(crate) mod workers;
