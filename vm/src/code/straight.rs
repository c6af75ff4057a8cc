//! Running pure instructions: what derived code consists of.

use super::inst::for_each_inst;
use super::{Inst, Position};
use crate::math;
use crate::memory::kept;
use crate::trap::TrapKind;

/// The place of a register.
macro_rules! cell {
    ($reals:expr, $ints:expr, real, $register:expr) => {
        *$reals.add($register.index())
    };
    ($reals:expr, $ints:expr, int, $register:expr) => {
        *$ints.add($register.index())
    };
}
pub(crate) use cell;

/// The value of an operand of a pure instruction.
macro_rules! value_of {
    ($reals:expr, $ints:expr, $operand:ident, use $bank:tt) => {
        $crate::code::cell!($reals, $ints, $bank, $operand)
    };
    ($reals:expr, $ints:expr, $operand:ident, $($constant:tt)+) => {
        $operand
    };
}
pub(crate) use value_of;

/// Derived code has a scalar that can trap only if the run has computed it, from the same numbers, and gone on.
macro_rules! without_trap {
    (() $body:block) => {
        $body
    };
    ((try) $body:block) => {{
        let result: Result<_, TrapKind> = $body;
        match result {
            Ok(value) => value,
            Err(_) => unreachable!("what derived code computes again has not trapped"),
        }
    }};
}

/// Keeps a dispatch, some fifteen bytes that all instructions come back to, inside a block of 32 bytes. Padding is
/// executed with every instruction of the program: it is one that does nothing, or none where the dispatch fits into
/// the first half of the block with what stands before it. Two were 6 to 10 % of what small instructions take.
#[inline(always)]
pub(crate) fn align_dispatch() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: it says where the next instruction stands, and does nothing.
    unsafe {
        std::arch::asm!(".p2align 5, , 15", options(nomem, nostack, preserves_flags));
    }
}

/// One of two positions, both loaded before it is known which. The compiler would load the one that is asked for: then
/// the next instruction waits for the condition and for that, which made short branches a tenth slower.
#[inline(always)]
pub(crate) fn choose(condition: bool, then: Position, other: Position) -> Position {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let other = {
        let mut loaded = other.0;
        // SAFETY: it leaves the number as it is, and does nothing.
        unsafe {
            std::arch::asm!("/* {0:e} */", inout(reg) loaded, options(pure, nomem, nostack, preserves_flags));
        }
        Position(loaded)
    };
    if condition { then } else { other }
}

/// Where each instruction's code stands in the lines of the cache decides how well jumps are predicted, by a factor of
/// up to 2 for the same code. This aligns the function that it is called in, once, so that it depends on the function
/// alone and not on the linker.
#[inline(always)]
pub(crate) fn align_function() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: it says where the next instruction stands, and does nothing.
    unsafe {
        std::arch::asm!(".p2align 6", options(nomem, nostack, preserves_flags));
    }
}

macro_rules! define_run_straight {
    (
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            ($($arg:ident : $bank:ident),+) -> $rbank:ident $($try:ident)? $body:block
            $(diff |$r:ident| [$($partial:expr),+])? $(passive)? $(@ $mark:ident)* ; )* }
        structural $structural:tt
        pure { $( $(#[doc = $pdoc:literal])+ $pname:ident
            ($($poperand:ident ($($prole:tt)+)),*) -> $pbank:ident $pbody:block ; )* }
        effects { $( $(#[doc = $doc:literal])+ $name:ident $operands:tt $flags:tt ; )* }
    ) => {
        /// Runs derived code.
        ///
        /// # Safety
        /// The frames have the registers that the code names, and cells that it reads are there.
        pub(crate) unsafe fn run_straight(code: &[Inst], reals: *mut f64, ints: *mut i64) {
            align_function();
            for inst in code {
                align_dispatch();
                // SAFETY: promised by the caller.
                unsafe {
                    match *inst {
                        $( Inst::$sname { dst, $($arg),+ } => {
                            $( let $arg = cell!(reals, ints, $bank, $arg); )+
                            let result = without_trap!(($($try)?) $body);
                            cell!(reals, ints, $rbank, dst) = result;
                        } )*
                        $( Inst::$pname { dst, $($poperand),* } => {
                            $( let $poperand = value_of!(reals, ints, $poperand, $($prole)+); )*
                            cell!(reals, ints, $pbank, dst) = $pbody;
                        } )*
                        $( Inst::$name { .. } => unreachable!("derived code is pure"), )*
                    }
                }
            }
        }
    };
}
for_each_inst!(define_run_straight);
