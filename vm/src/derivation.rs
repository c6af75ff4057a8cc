//! Derivatives of straight-line code: dataflow graphs, the rules of the instruction table, adjoints.

pub(crate) mod assembler;
pub(crate) mod derive;
pub(crate) mod graph;
