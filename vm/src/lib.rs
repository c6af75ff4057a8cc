//! The dualvm virtual machine.

pub mod binary;
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
pub mod reference;
mod segment;
mod sweep;
mod tape;
pub mod text;
pub mod trap;
pub mod value;
pub mod verify;
mod word;
