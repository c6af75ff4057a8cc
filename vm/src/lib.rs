//! The dualvm virtual machine.

pub mod builder;
pub mod isa;
pub mod module;
pub mod text;
pub mod trap;
pub mod verify;
