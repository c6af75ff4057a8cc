//! Bytes and texts that the library has made, and their caller frees.

use crate::handles::handles;
use crate::status::{free, get, share};
use std::ffi::{CString, c_char};

/// Bytes that the library has made: a module in binary form, a text in JSON. Freed by who was given them. Any number of
/// threads may read them.
pub struct dualvm_bytes {
    _opaque: (),
}

/// With a null behind them.
pub(crate) struct Bytes(Vec<u8>);

handles! { Bytes => dualvm_bytes, 0x13, "dualvm_bytes"; }

impl Bytes {
    pub(crate) fn new(mut bytes: Vec<u8>) -> Self {
        bytes.push(0);
        Bytes(bytes)
    }
}

impl From<CString> for Bytes {
    fn from(text: CString) -> Self {
        Bytes(text.into_bytes_with_nul())
    }
}

/// Frees bytes. Null is fine.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_bytes_free(bytes: *mut dualvm_bytes) {
    free::<Bytes>(bytes);
}

/// The first byte. Behind the last one there is a null, so that a text is one for C. Lives as long as the handle; an
/// empty text for null and for what is no handle.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_bytes_data(bytes: *const dualvm_bytes) -> *const c_char {
    get(c"".as_ptr(), || {
        let bytes = share::<Bytes>(bytes).ok()?;
        // SAFETY: they are C's until the handle is freed.
        Some(unsafe { bytes.lend() }.0.as_ptr().cast())
    })
}

/// How many bytes there are, without the null behind them. 0 for null and for what is no handle.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_bytes_len(bytes: *const dualvm_bytes) -> usize {
    get(0, || Some(share::<Bytes>(bytes).ok()?.0.len() - 1))
}
