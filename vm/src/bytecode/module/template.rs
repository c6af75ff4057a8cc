//! Texts with values in them.

use super::{FuncId, HostType};

/// A text with values in it, which `trap_with` and `trace` show.
///
/// What an instruction gives it are the values themselves: their types, flattened one after the other, are those of its
/// registers. Or there is a function that makes the values of the registers: then its parameters are of the registers'
/// types, and its results are the values. It is called where the text is shown, and nowhere else; nothing of the call
/// is recorded.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Template {
    /// What the text is made of, from left to right.
    pub pieces: Vec<Piece>,
    /// What makes the values.
    pub func: Option<FuncId>,
}

/// A piece of a [`Template`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Piece {
    /// A text that is always the same.
    Text(String),
    /// A value of this type, in the notation in which hosts print it.
    Value(HostType),
}

impl Template {
    /// The types of the values, from left to right.
    pub fn values(&self) -> impl Iterator<Item = &HostType> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value(ty) => Some(ty),
            Piece::Text(_) => None,
        })
    }
}
