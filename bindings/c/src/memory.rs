//! The caller's memory: places for results, arrays and texts, looked at before they are used.
//!
//! What can be told of a pointer is told: that it is null, that it isn't aligned, that so many elements don't fit into
//! memory. That it leads to as many elements as it should, nobody can tell; that is what callers promise.

use crate::error::Report;
use crate::status::Failure;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;

/// In the place of a text's length: the text ends with a null.
///
/// cbindgen:ignore
pub const DUALVM_NUL_TERMINATED: usize = usize::MAX;

/// More bytes than any memory has: addresses have at most 57 bits, and half of them are the system's.
const BYTES_MAX: usize = 1 << 56;

/// A place for a result.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// The place that a pointer leads to, which its caller calls so.
    ///
    /// # Safety
    /// If the pointer is neither null nor misaligned, there is such a place, for as long as this lives.
    pub(crate) unsafe fn new(pointer: *mut T, name: &str) -> Result<Self, Failure> {
        check(pointer, 1, name)?;
        Ok(Out(pointer))
    }

    /// The same, where null says that the result isn't wanted.
    ///
    /// # Safety
    /// As for [`Out::new`].
    #[inline]
    pub(crate) unsafe fn wanted(pointer: *mut T, name: &str) -> Result<Option<Self>, Failure> {
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: promised by the caller.
        unsafe { Out::new(pointer, name) }.map(Some)
    }

    #[inline]
    pub(crate) fn write(self, value: T) {
        // SAFETY: who has made this has promised that there is a place, and it is aligned.
        unsafe { self.0.write(value) };
    }
}

/// A place for a handle. It holds null until there is one.
pub(crate) struct OutHandle<T>(*mut *mut T);

impl<T> OutHandle<T> {
    /// # Safety
    /// As for [`Out::new`].
    pub(crate) unsafe fn new(pointer: *mut *mut T, name: &str) -> Result<Self, Failure> {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::new(pointer, name) }?;
        out.write(std::ptr::null_mut());
        Ok(OutHandle(pointer))
    }

    /// Writes a handle for an object.
    pub(crate) fn write<O: crate::handles::Object<Opaque = T>>(self, object: O) -> Result<(), Failure> {
        let Some(handle) = O::table().insert(object) else {
            return Err(Report::new(crate::status::dualvm_status::Internal, "there are too many handles"));
        };
        // SAFETY: as for `Out::write`.
        unsafe { self.0.write(handle) };
        Ok(())
    }
}

/// Places for several results.
pub(crate) struct OutSlice<T> {
    first: *mut T,
    len: usize,
}

impl<T> OutSlice<T> {
    /// # Safety
    /// If the pointer is neither null nor misaligned, there are so many places, for as long as this lives.
    #[inline]
    pub(crate) unsafe fn new(first: *mut T, len: usize, name: &str) -> Result<Self, Failure> {
        check(first, len, name)?;
        Ok(OutSlice { first, len })
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Writes results from the first place on, as many as there are places at most.
    #[inline]
    pub(crate) fn write_all(self, values: impl Iterator<Item = T>) {
        for (n, value) in values.take(self.len).enumerate() {
            // SAFETY: who has made this has promised that there are so many places, and they are aligned.
            unsafe { self.first.add(n).write(value) };
        }
    }
}

impl<T: Copy> OutSlice<T> {
    /// Copies these to the first places, and returns the others.
    #[inline]
    pub(crate) fn copy(&self, values: &[T]) -> OutSlice<T> {
        let len = values.len().min(self.len);
        if len > 0 {
            // SAFETY: as for `write_all`. The caller's memory may be where the values are.
            unsafe { std::ptr::copy(values.as_ptr(), self.first, len) };
        }
        OutSlice { first: self.first.wrapping_add(len), len: self.len - len }
    }
}

impl<'a> OutSlice<f64> {
    /// Fills all places.
    ///
    /// # Safety
    /// Nobody else uses the places for as long as the slice is used.
    pub(crate) unsafe fn filled(self, x: f64) -> &'a mut [f64] {
        let len = self.len;
        // SAFETY: who has made this has promised that there are so many places, all of which are written then, and the
        // caller that they are nobody else's.
        unsafe {
            (0..len).for_each(|n| self.first.add(n).write(x));
            std::slice::from_raw_parts_mut(self.first, len)
        }
    }
}

/// Whether a pointer may lead to so many elements.
#[inline]
fn check<T>(first: *const T, len: usize, name: &str) -> Result<(), Failure> {
    let bytes = len.checked_mul(size_of::<T>());
    if len > 0 && (first.is_null() || !first.is_aligned() || bytes.is_none_or(|bytes| bytes > BYTES_MAX)) {
        return Err(unusable(first, len, name));
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn unusable<T>(first: *const T, len: usize, name: &str) -> Failure {
    let elements = if len == 1 { String::new() } else { format!(" of {len} elements") };
    if first.is_null() {
        return Report::invalid(format!("`{name}`{elements} is null"));
    }
    if !first.is_aligned() {
        return Report::invalid(format!("`{name}` is not aligned to {} bytes", align_of::<T>()));
    }
    Report::invalid(format!("`{name}`{elements} would be larger than memory can be"))
}

/// An array of the caller's.
///
/// # Safety
/// If the pointer is neither null nor misaligned, it leads to so many elements, which nobody changes for as long as the
/// slice is used.
#[inline]
pub(crate) unsafe fn slice<'a, T>(first: *const T, len: usize, name: &str) -> Result<&'a [T], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    check(first, len, name)?;
    // SAFETY: promised by the caller, and looked at as far as that is possible.
    Ok(unsafe { std::slice::from_raw_parts(first, len) })
}

/// Bytes of the caller's.
///
/// # Safety
/// As for [`slice`]; if the length is [`DUALVM_NUL_TERMINATED`], there is a null somewhere.
unsafe fn bytes<'a>(first: *const c_char, len: usize, name: &str) -> Result<&'a [u8], Failure> {
    if len == DUALVM_NUL_TERMINATED {
        check(first, 1, name)?;
        // SAFETY: promised by the caller.
        return Ok(unsafe { CStr::from_ptr(first) }.to_bytes());
    }
    // SAFETY: promised by the caller.
    unsafe { slice(first.cast(), len, name) }
}

/// A text of the caller's.
///
/// # Safety
/// As for [`slice`]; if the length is [`DUALVM_NUL_TERMINATED`], there is a null somewhere.
pub(crate) unsafe fn text<'a>(first: *const c_char, len: usize, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: promised by the caller.
    let bytes = unsafe { bytes(first, len, name) }?;
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Report::invalid(format!("`{name}` is not UTF-8: byte {at} ({:#04x}) doesn't belong to a character", bytes[at]))
    })
}

/// A text of the caller's that ends with a null.
///
/// # Safety
/// If the pointer isn't null, there is a null somewhere behind it.
pub(crate) unsafe fn name<'a>(first: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: promised by the caller.
    unsafe { text(first, DUALVM_NUL_TERMINATED, name) }
}

/// A text for C, which ends with a null. Nulls in it, which no text in C has, become U+FFFD.
pub(crate) fn c_string(text: impl Display) -> CString {
    let text = text.to_string();
    let text = text.trim_end_matches('\n');
    CString::new(text).unwrap_or_else(|_| CString::new(text.replace('\0', "\u{fffd}")).expect("no null is left"))
}
