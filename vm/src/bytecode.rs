//! Programs as data: the instruction table, modules, the ways to make and to write them, and the verifier.

pub mod binary;
pub mod builder;
mod evaluate;
pub mod isa;
pub mod module;
pub mod reference;
pub mod text;
pub mod verify;
