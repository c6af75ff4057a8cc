//! The dualvm virtual machine.

pub mod builder;
mod convert;
mod derive;
pub mod engine;
mod graph;
mod heap;
mod interp;
pub mod isa;
mod liveness;
pub mod math;
mod meter;
pub mod module;
mod pool;
mod prepare;
mod program;
mod segment;
mod sweep;
mod tape;
pub mod trap;
pub mod value;
pub mod verify;
mod word;
