//! Definitions that stay inside of a program, and why.

use std::fmt;

/// A definition that hosts can't call: there is a function in its type.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Unexported {
    /// The definition's name.
    pub name: String,
    /// Its type, in the language's syntax.
    pub ty: String,
    /// What in its type hosts can't give or take, as in ``takes a function (`f : Real -> Real`)``.
    pub reason: String,
}

impl fmt::Display for Unexported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unexported { name, ty, reason } = self;
        write!(f, "`{name}` {reason}, which can't cross the border between host and program; its type is `{ty}`")
    }
}
