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
mod version;

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
pub use version::*;
