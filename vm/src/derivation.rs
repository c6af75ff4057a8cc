//! Derivatives of straight-line code: dataflow graphs, the rules of the instruction table, adjoints.

pub(crate) mod adjoint;
pub(crate) mod dependence;
pub(crate) mod derive;
pub(crate) mod graph;
pub(crate) mod plan;
