//! Which version this is, and what of it is in use.

use crate::handles;
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
