//! The types of what hosts can call, as the program writes them.

/// A definition that hosts can call, with its type as people write it: abbreviations stand as they were written, and
/// fields of records in the order of their declaration. Hosts match fields by name, and have them sorted by it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Signature {
    /// The definition's name.
    pub name: String,
    /// Its name and type on one line, as in `f : (x : Real, n : Int) -> Real`.
    pub text: String,
}
