//! Derivatives of straight-line code: dataflow graphs, the rules of the instruction table, tangents and adjoints.

pub(crate) mod adjoint;
pub(crate) mod assembler;
pub(crate) mod components;
pub(crate) mod dependence;
pub(crate) mod graph;
pub(crate) mod piece;
pub(crate) mod plan;
pub(crate) mod tangent;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod modes;
#[cfg(test)]
mod oracle;
#[cfg(test)]
pub(crate) mod random_pieces;
#[cfg(test)]
mod singular;
