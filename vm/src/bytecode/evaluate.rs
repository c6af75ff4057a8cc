//! The value of a scalar instruction, outside of a run.

use crate::bytecode::isa::{Op, for_each_instruction};
use crate::math;
use crate::trap::TrapKind;

/// A scalar value, for evaluation outside of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// A real, or its primal.
    Real(f64),
    /// An integer.
    Int(i64),
}

/// Reads a scalar of the bank that the table names.
macro_rules! scalar_as {
    ($value:expr, real) => {
        match $value {
            Scalar::Real(x) => x,
            Scalar::Int(_) => return None,
        }
    };
    ($value:expr, int) => {
        match $value {
            Scalar::Int(n) => n,
            Scalar::Real(_) => return None,
        }
    };
}
macro_rules! scalar_from {
    (real, $value:expr) => {
        Scalar::Real($value)
    };
    (int, $value:expr) => {
        Scalar::Int($value)
    };
}

/// Evaluates the primal semantics of the table.
macro_rules! define_evaluate {
    (
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            ($($arg:ident : $bank:ident),+) -> $rbank:ident $($try:ident)? $body:block
            $(diff |$r:ident| [$($partial:expr),+])? $(passive)? $(@ $mark:ident)* ; )* }
        structural $structural:tt
    ) => {
        /// The result of a scalar instruction, or `None` if it traps or is not a scalar one.
        pub fn evaluate(op: Op, args: &[Scalar]) -> Option<Scalar> {
            let mut args = args.iter().copied();
            match op {
                $( Op::$sname => {
                    $( let $arg = scalar_as!(args.next()?, $bank); )+
                    Some(scalar_from!($rbank, trapping!(($($try)?) $body)))
                } )*
                _ => None,
            }
        }
    };
}
macro_rules! trapping {
    (() $body:block) => {
        $body
    };
    ((try) $body:block) => {{
        let result: Result<_, TrapKind> = $body;
        result.ok()?
    }};
}
for_each_instruction!(define_evaluate);
