//! The dualvm virtual machine.

pub mod binary;
pub mod builder;
pub mod isa;
pub mod module;
pub mod reference;
pub mod text;
pub mod trap;
pub mod verify;
