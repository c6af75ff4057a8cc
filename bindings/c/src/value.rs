//! What crosses the border in flat calls: numbers, and arrays where they are.

use crate::error::Report;
use crate::memory::slice;
use crate::status::Failure;
use dualvm::FlatValue;
use smallvec::SmallVec;

/// What a `dualvm_value` is.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dualvm_value_kind {
    /// Nothing: in the place of a derivative, a tangent or a cotangent of what has none.
    Null = 0,
    /// `of.real`.
    Real = 1,
    /// `of.integer`; of a boolean 0 or 1.
    Int = 2,
    /// `len` reals at `of.reals`.
    Reals = 3,
    /// `len` integers at `of.integers`; of booleans each 0 or 1.
    Ints = 4,
}

/// The number of a `dualvm_value`, or where its numbers are.
#[repr(C)]
#[derive(Clone, Copy)]
pub union dualvm_payload {
    /// A real.
    pub real: f64,
    /// An integer or a boolean.
    pub integer: i64,
    /// Reals, one after the other.
    pub reals: *const f64,
    /// Integers or booleans, one after the other.
    pub integers: *const i64,
}

/// An argument, a result, a derivative, a tangent or a cotangent of a flat call. Arrays are neither copied nor owned:
/// as an argument they are the caller's, read during the call only, and nothing may write to them, or free them, or use
/// another frame whose results they are, before it has ended, a host function neither; as a result they are the
/// frame's, until its next call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dualvm_value {
    /// A `dualvm_value_kind`.
    pub kind: u32,
    /// Nothing; may have any value.
    pub reserved: u32,
    /// The number, or where the numbers are: aligned to 8 bytes, or anything at all if there are none.
    pub of: dualvm_payload,
    /// How many numbers there are; of a single one nobody looks at it.
    pub len: usize,
}

impl dualvm_value {
    #[inline]
    pub(crate) fn new(value: FlatValue<'_>) -> Self {
        let one = |kind: dualvm_value_kind, of| dualvm_value { kind: kind as u32, reserved: 0, of, len: 1 };
        match value {
            FlatValue::Null => dualvm_value { len: 0, ..one(dualvm_value_kind::Null, dualvm_payload { integer: 0 }) },
            FlatValue::Real(x) => one(dualvm_value_kind::Real, dualvm_payload { real: x }),
            FlatValue::Int(n) => one(dualvm_value_kind::Int, dualvm_payload { integer: n }),
            FlatValue::Reals(xs) => {
                let of = dualvm_payload { reals: xs.as_ptr() };
                dualvm_value { len: xs.len(), ..one(dualvm_value_kind::Reals, of) }
            }
            FlatValue::Ints(ns) => {
                let of = dualvm_payload { integers: ns.as_ptr() };
                dualvm_value { len: ns.len(), ..one(dualvm_value_kind::Ints, of) }
            }
        }
    }

    /// What C has given as the n-th of these values. `len` says how many numbers an array has.
    ///
    /// # Safety
    /// As for [`slice`], for an array of that length.
    #[inline]
    pub(crate) unsafe fn flat<'a>(
        &self,
        len: impl FnOnce() -> Result<usize, Failure>,
        n: usize,
        name: &str,
    ) -> Result<FlatValue<'a>, Failure> {
        // SAFETY: any bits are a real and an integer, and what is pointed to is promised by the caller.
        unsafe {
            match self.kind {
                kind if kind == dualvm_value_kind::Real as u32 => Ok(FlatValue::Real(self.of.real)),
                kind if kind == dualvm_value_kind::Int as u32 => Ok(FlatValue::Int(self.of.integer)),
                kind if kind == dualvm_value_kind::Reals as u32 => {
                    Ok(FlatValue::Reals(array(self.of.reals, len()?, n, name)?))
                }
                kind if kind == dualvm_value_kind::Ints as u32 => {
                    Ok(FlatValue::Ints(array(self.of.integers, len()?, n, name)?))
                }
                kind if kind == dualvm_value_kind::Null as u32 => Ok(FlatValue::Null),
                kind => Err(Report::invalid(format!("`{name}[{n}]`: {kind} is no dualvm_value_kind"))),
            }
        }
    }
}

/// Memory of a frame that C may still read.
#[derive(Default)]
pub(crate) struct Lent(Vec<[usize; 2]>);

impl Lent {
    /// What has been lent is C's no longer.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.0.clear();
    }

    #[inline]
    pub(crate) fn add(&mut self, value: FlatValue<'_>) {
        match value {
            FlatValue::Reals(xs) => self.add_all(xs),
            FlatValue::Ints(ns) => self.add_all(ns),
            _ => {}
        }
    }

    fn add_all<T>(&mut self, numbers: &[T]) {
        let range = [numbers.as_ptr().addr(), size_of_val(numbers)];
        // One pullback after the other leaves its gradient in the same place.
        if !numbers.is_empty() && !self.0.contains(&range) {
            self.0.push(range);
        }
    }

    fn has_some_of<T>(&self, numbers: &[T]) -> bool {
        let (from, bytes) = (numbers.as_ptr().addr(), size_of_val(numbers));
        self.0.iter().any(|&[lent, lent_bytes]| from < lent + lent_bytes && lent < from + bytes)
    }
}

/// Values that C has given.
pub(crate) struct Given<'a> {
    pub(crate) values: SmallVec<[FlatValue<'a>; 8]>,
    /// What was the frame's own memory, and would go before it is read.
    _copies: Vec<Vec<u64>>,
}

impl Given<'_> {
    /// Values of the caller's, which it calls so.
    ///
    /// # Safety
    /// As for [`slice`], for the values and for all arrays that they point to; nothing of it is used after that.
    #[inline]
    pub(crate) unsafe fn new(
        first: *const dualvm_value,
        len: usize,
        expected: usize,
        name: &str,
        lent: &Lent,
    ) -> Result<Self, Failure> {
        if len != expected {
            return Err(wrong_count(expected, len, name));
        }
        // SAFETY: promised by the caller.
        let given = unsafe { slice(first, len, name) }?;
        let (mut values, mut copies) = (SmallVec::new(), Vec::new());
        for (n, value) in given.iter().enumerate() {
            // SAFETY: what is pointed to is promised by the caller. Copies live as long as the values, and their memory
            // stays where it is.
            values.push(unsafe {
                match value.flat(|| Ok(value.len), n, name)? {
                    FlatValue::Reals(reals) if lent.has_some_of(reals) => FlatValue::Reals(copied(reals, &mut copies)),
                    FlatValue::Ints(ints) if lent.has_some_of(ints) => FlatValue::Ints(copied(ints, &mut copies)),
                    value => value,
                }
            });
        }
        Ok(Given { values, _copies: copies })
    }
}

/// The numbers of the n-th value.
///
/// # Safety
/// As for [`slice`].
unsafe fn array<'a, T: std::fmt::Debug>(first: *const T, len: usize, n: usize, name: &str) -> Result<&'a [T], Failure> {
    // SAFETY: promised by the caller.
    unsafe { slice(first, len, name) }.map_err(|_| {
        // Again with the name of this one, which isn't worth its time where all goes well.
        // SAFETY: as above.
        unsafe { slice(first, len, &format!("{name}[{n}]")) }.expect_err("it was refused before")
    })
}

/// A copy of numbers of 8 bytes.
///
/// # Safety
/// It is used as long as the copies live only.
unsafe fn copied<'a, T: Copy>(numbers: &[T], copies: &mut Vec<Vec<u64>>) -> &'a [T] {
    const { assert!(size_of::<T>() == size_of::<u64>() && align_of::<T>() == align_of::<u64>()) };
    let mut copy = Vec::<u64>::with_capacity(numbers.len());
    // SAFETY: there is room for as many numbers of this size and alignment, and any bits are numbers.
    let kept = unsafe {
        copy.as_mut_ptr().cast::<T>().copy_from_nonoverlapping(numbers.as_ptr(), numbers.len());
        copy.set_len(numbers.len());
        std::slice::from_raw_parts(copy.as_ptr().cast(), numbers.len())
    };
    copies.push(copy);
    kept
}

#[cold]
#[inline(never)]
pub(crate) fn wrong_count(expected: usize, found: usize, name: &str) -> Failure {
    let plural = if expected == 1 { "" } else { "s" };
    Report::invalid(format!("`{name}`: expected {expected} value{plural}, found {found}"))
}
