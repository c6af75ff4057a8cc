//! The C interface of dualvm. `include/dualvm.h` is made of this crate's declarations and of their comments, which are
//! therefore about C; `README.md` says how to build, link and use it.
//!
//! Every function that C calls looks at what it is given before it does anything (`memory`, `handles`), does its work
//! with panics caught (`status`), and reports what has gone wrong as an object (`error`).
//!
//! # Safety
//! What callers in C promise is the same for all functions, so that it is said once, here: a pointer that is neither
//! null nor misaligned leads to memory of its type, as many elements as the length beside it says, which no other
//! thread changes during the call; a text without a length ends with a null. Handles need no promise: what is none is
//! found out. `SAFETY` comments that speak of the interface's promise mean this.

#![allow(non_camel_case_types, reason = "names are those of C")]
#![allow(clippy::missing_safety_doc, reason = "said once, on the crate's page")]

mod batch;
mod bytes;
mod engine;
mod error;
mod frame;
mod function;
mod handles;
mod host;
mod json;
mod memory;
mod module;
mod options;
mod status;
mod types;
mod value;

pub use batch::*;
pub use bytes::*;
pub use engine::*;
pub use error::*;
pub use frame::*;
pub use function::*;
pub use host::*;
pub use json::*;
pub use memory::DUALVM_NUL_TERMINATED;
pub use module::*;
pub use options::*;
pub use status::*;
pub use types::*;
pub use value::*;

use std::ffi::c_char;

/// The version of this interface: what it promises to programs that were built against a header. It grows when one of
/// these has to be built again; what is added doesn't count.
pub const DUALVM_ABI_VERSION: u32 = 1;

/// `DUALVM_ABI_VERSION` of the library that is running. A program that loads the library at run time compares it with
/// its header's.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_abi_version() -> u32 {
    DUALVM_ABI_VERSION
}

/// The version of the library, as in "0.1.0". Lives forever.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// How many handles there are that weren't freed, of all kinds: a test of a program ends with none. Tools that look for
/// lost memory don't see them.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_handle_count() -> usize {
    handles::count()
}
