//! Arrays that are copied to change an element, and why they can't be changed in place.

use crate::arena::{Id, Table};
use crate::core::{CallSite, FunctionId, InlinedCall, Origin};
use crate::kept;
use crate::source::SourceMap;
use dualvm_vm::module::{FuncId, SourcePlace};
use std::fmt;

/// An array that is copied to change elements of it, where this is known to be in the way of changing it in place.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CopiedArray {
    /// The function that copies it.
    pub function: FuncId,
    /// Where the update is; of one in the prelude, the call in the program's text in whose place it stands, if there is
    /// one.
    pub place: Option<SourcePlace>,
    /// Why it is copied.
    pub reason: CopyReason,
    /// What is in the way, if it is another place in the program's text.
    pub cause: Option<SourcePlace>,
}

/// Why an array is copied to change an element. `Display` says it as what follows "because".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CopyReason {
    /// What was in it before is read after the update, or by what is evaluated after it.
    ReadLater,
    /// It is read as a whole, not by index or by length.
    UsedAsWhole,
    /// A round may go on with another array.
    OtherArray,
    /// One of several names stands for it, and only a run knows which.
    SeveralNames,
    /// It isn't what the round before gave.
    NotCarried,
    /// It is made in the same round.
    MadeInRound,
    /// It is an element of another array.
    Row,
    /// It is an element of another array, and there may be few rounds that change it.
    RowOfFewRounds,
    /// It is a part of a value of a data type, such as an element of a list.
    InObject,
    /// It is an argument of a function that calls itself, and not as the last thing that it does.
    Argument,
}

impl fmt::Display for CopyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyReason::ReadLater => "it is read after the change as it was before",
            CopyReason::UsedAsWhole => "it is also used as a whole, not only by index and length",
            CopyReason::OtherArray => "a round may go on with another array",
            CopyReason::SeveralNames => "a `let` names several arrays, and it may be any of them",
            CopyReason::NotCarried => "it is no accumulator of this loop: each round changes the same array",
            CopyReason::MadeInRound => "it is no accumulator of this loop: each round makes another array",
            CopyReason::Row => "it is an element of another array",
            CopyReason::RowOfFewRounds => "it is an element of another array, and the loop has few rounds",
            CopyReason::InObject => "it is in a value of a data type, such as a list",
            CopyReason::Argument => "it is an argument of a function that calls itself, and not only in tail position",
        })
    }
}

/// A copy while there are spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    pub(crate) function: FunctionId,
    pub(crate) origin: Origin,
    pub(crate) reason: CopyReason,
    pub(crate) cause: Option<Origin>,
}

impl Copied {
    /// The copy in terms of the module.
    pub(crate) fn located(&self, sources: &SourceMap, calls: &Table<CallSite, InlinedCall>) -> CopiedArray {
        let place = kept::own_place(self.origin, sources, calls);
        let cause = self.cause.and_then(|cause| kept::own_place(cause, sources, calls));
        let cause = cause.filter(|cause| place.as_ref() != Some(cause));
        CopiedArray { function: FuncId(self.function.index() as u32), place, reason: self.reason, cause }
    }
}
