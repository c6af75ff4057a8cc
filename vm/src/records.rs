//! What is recorded as one: what a record of each kind holds, and the code that sweeps it.

pub(crate) mod recorded_loop;
pub(crate) mod segment;
