//! The text form of a module: what the assembler reads and the disassembler writes.
//!
//! [`print()`] and [`parse`] are inverse to each other: a printed module parses to the same module, if its pools are
//! in the order of its instructions, as builder, parser and decoder leave them, and instructions have no stray bits;
//! any other comes back equal but for these. Nothing is checked here beyond syntax and names: the verifier says
//! what may run. `docs/bytecode.md` has the grammar. A module in text:
//!
//! ```text
//! ; comments run to the end of the line
//! module source "spring.dual"
//! type t0 = array real
//! type t1 = variant { Nil {}, Cons { real, t1 } }
//! message m0 "the list is empty"
//!
//! func f0 "head" (t1) -> (real)
//!   regs 1 real, 1 int, t1
//! {
//!   @12:3                         ; source line and column of what follows
//!   variant_tag i0, p0
//!   branch i0, cons, nil
//! cons:
//!   payload r0, p0, 1, 0
//!   ret (r0)
//! nil:
//!   trap m0
//! }
//! ```

mod error;
mod grammar;
mod lex;
mod parse;
mod print;

pub use error::TextError;
pub use parse::parse;
pub(crate) use print::synopsis;
pub use print::{print, print_inst};
