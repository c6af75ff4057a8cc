//! Host values to registers and heap objects, and back.
//!
//! `write` turns arguments into registers and objects, `read` turns results into values, `gradient` gives adjoints the
//! arguments' shape. All three follow the host type, which the verifier has matched with the heap types.
//!
//! Lists are followed in loops. Other nesting is followed by recursion, at most [`crate::value::VALUE_DEPTH_MAX`] parts
//! deep; functions on that path are kept small, and errors are boxed, so that frames of builds without optimisation
//! are small as well.

mod gradient;
mod read;
mod write;

pub(crate) use gradient::read_gradient;
pub(crate) use read::{ReadError, read_recorded, read_result};
pub(crate) use write::{WriteError, write_arguments};
