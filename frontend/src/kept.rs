//! Calls that are left when functions have been copied into their callers, and why.

use crate::arena::{Id, Table};
use crate::core::{CallSite, FunctionId, InlinedCall, Origin};
use crate::source::{SourceMap, Span};
use dualvm_vm::module::{FuncId, SourcePlace};
use std::fmt;

/// A call of a function that was not copied into its caller.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KeptCall {
    /// The function that calls.
    pub caller: FuncId,
    /// The function that is called.
    pub callee: FuncId,
    /// Where the call is; of one in the prelude, the call in the program's text in whose place it stands, if there is
    /// one.
    pub place: Option<SourcePlace>,
    /// Why it was not copied.
    pub reason: KeptReason,
}

/// Why a function was not copied into its caller. `Display` says it as what follows "which".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeptReason {
    /// It is a constant, which runs once in a call of the host's.
    Constant,
    /// It may call itself, directly or through others.
    Recursive,
    /// It is too large.
    TooLarge {
        /// How many nodes its code has.
        nodes: usize,
        /// The limit.
        max: usize,
    },
    /// It is copied into loops only, or where nobody else calls it.
    OutsideOfLoops {
        /// How many nodes its code has.
        nodes: usize,
        /// So many are copied everywhere.
        max: usize,
    },
    /// The caller has become too large.
    CallerTooLarge {
        /// The limit of its nodes.
        max: usize,
    },
}

impl fmt::Display for KeptReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeptReason::Constant => write!(f, "is a constant, computed once where it is first needed"),
            KeptReason::Recursive => write!(f, "may call itself"),
            KeptReason::TooLarge { nodes, max } => {
                write!(f, "is too large to be copied here ({nodes} nodes; at most {max})")
            }
            KeptReason::OutsideOfLoops { nodes, max } => {
                write!(f, "is too large to be copied where there is no loop ({nodes} nodes; at most {max})")
            }
            KeptReason::CallerTooLarge { max } => {
                write!(f, "is not copied here any more: this function has reached {max} nodes")
            }
        }
    }
}

/// The place of an expression in the program's text; of one in the prelude, the call in whose place it stands, if there
/// is one.
pub(crate) fn own_place(
    origin: Origin,
    sources: &SourceMap,
    calls: &Table<CallSite, InlinedCall>,
) -> Option<SourcePlace> {
    let mut around = std::iter::successors(Some(origin), |origin| Some(calls[origin.call?].origin));
    let own = around.find(|origin| origin.span != Span::default() && sources.is_own(origin.span))?;
    Some(sources.source_place(own.span))
}

/// A call that was kept, while there are spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) caller: FunctionId,
    pub(crate) callee: FunctionId,
    pub(crate) origin: Origin,
    pub(crate) reason: KeptReason,
}

impl Kept {
    /// The call in terms of the module.
    pub(crate) fn located(&self, sources: &SourceMap, calls: &Table<CallSite, InlinedCall>) -> KeptCall {
        let func = |id: FunctionId| FuncId(id.index() as u32);
        let place = own_place(self.origin, sources, calls);
        KeptCall { caller: func(self.caller), callee: func(self.callee), place, reason: self.reason }
    }
}
