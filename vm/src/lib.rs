//! The dualvm virtual machine.

pub mod builder;
pub mod isa;
pub mod math;
pub mod module;
pub mod trap;
