//! Every scalar instruction as a function that native code can call.

use super::helpers::{OK, stop};
use crate::bytecode::isa::{Bank, Op, for_each_instruction};
use crate::math;
use crate::trap::TrapKind;

/// A scalar instruction as an `extern "C"` function.
#[derive(Clone, Copy, Debug)]
pub struct ScalarFn {
    /// The function: operands to result; for one that [may trap](ScalarFn::traps), the context and a place for the
    /// result come first, and it returns a status.
    pub address: *const u8,
    /// Whether it may trap.
    pub traps: bool,
    /// The operands' banks.
    pub operands: &'static [Bank],
    /// The result's bank.
    pub result: Bank,
}

macro_rules! scalar_type {
    (real) => {
        f64
    };
    (int) => {
        i64
    };
}
macro_rules! scalar_bank {
    (real) => {
        Bank::Real
    };
    (int) => {
        Bank::Int
    };
}
macro_rules! scalar_function {
    (() ($($arg:ident : $bank:ident),+) -> $result:ident $body:block) => {{
        extern "C" fn scalar($($arg: scalar_type!($bank)),+) -> scalar_type!($result) $body
        ScalarFn {
            address: scalar as *const u8,
            traps: false,
            operands: &[$(scalar_bank!($bank)),+],
            result: scalar_bank!($result),
        }
    }};
    ((try) ($($arg:ident : $bank:ident),+) -> $result:ident $body:block) => {{
        /// # Safety
        /// **Context**, the rule of [`super::helpers`]; `result` is a place of the caller.
        unsafe extern "C" fn scalar(
            context: *mut u8,
            result: *mut scalar_type!($result),
            $($arg: scalar_type!($bank)),+
        ) -> u64 {
            let value: Result<scalar_type!($result), TrapKind> = $body;
            // SAFETY: promised by the caller.
            unsafe {
                match value {
                    Ok(value) => {
                        *result = value;
                        OK
                    }
                    Err(kind) => stop(&mut *context.cast(), kind),
                }
            }
        }
        ScalarFn {
            address: scalar as *const u8,
            traps: true,
            operands: &[$(scalar_bank!($bank)),+],
            result: scalar_bank!($result),
        }
    }};
}
macro_rules! define_scalar_functions {
    (
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            $args:tt -> $rbank:ident $($try:ident)? $body:block
            $(diff |$r:ident| [$($partial:expr),+])? $(passive)? $(@ $mark:ident)* ; )* }
        structural $structural:tt
    ) => {
        /// The function of a scalar instruction, with the interpreter's meaning. `None` for other instructions.
        pub fn scalar(op: Op) -> Option<ScalarFn> {
            Some(match op {
                $( Op::$sname => scalar_function!(($($try)?) $args -> $rbank $body), )*
                _ => return None,
            })
        }
    };
}
for_each_instruction!(define_scalar_functions);
