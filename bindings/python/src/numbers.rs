//! Numbers of Python's: single ones, and the elements of buffers.
//!
//! A buffer of float64 that is contiguous and aligned is lent: the machine copies it once, into its own memory. All
//! other numbers are converted here.

use crate::numpy::{Scalar, as_array, exports_buffer};
use crate::place::{Place, article, type_name};
use dualvm::HostType;
use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyComplex, PyFloat, PyInt, PyString};
use pyo3::{ffi, intern};
use smallvec::SmallVec;

/// Numbers of a row, an array or a tensor.
pub(crate) enum Numbers<T> {
    Own(Vec<T>),
    /// The buffer of an object, which keeps its memory where it is.
    Lent(PyUntypedBuffer),
}

/// The extents of a buffer.
pub(crate) type Shape = SmallVec<[usize; 4]>;

impl Numbers<f64> {
    /// All of them, for the machine to copy.
    ///
    /// That nobody writes to a lent buffer meanwhile is the caller's duty, as it is with NumPy's own functions that
    /// release the interpreter's lock: Python has no way to see to it. A copy here would cost large arrays as much
    /// time again as the machine's, and read the same memory. If somebody does write, that is a data race, which the
    /// language promises nothing about. What protects the process is how the machine uses the slice: its length is a
    /// copy of the buffer's, made once; its elements go to the heap and nowhere else, none decides on an address, a
    /// length or a branch of the machine's, and all bits are a real. So the program sees old and new numbers mixed,
    /// perhaps others in a second run of the same call.
    pub(crate) fn as_slice(&self) -> &[f64] {
        match self {
            Numbers::Own(numbers) => numbers,
            Numbers::Lent(buffer) if buffer.item_count() == 0 => &[],
            // SAFETY: only buffers of aligned, contiguous float64 are lent; the exporter keeps the memory where it is
            // until the buffer is released. That it doesn't change is the duty of the caller's, see above.
            Numbers::Lent(buffer) => unsafe {
                std::slice::from_raw_parts(buffer.buf_ptr().cast_const().cast(), buffer.item_count())
            },
        }
    }

    pub(crate) fn into_vec(self) -> PyResult<Vec<f64>> {
        match self {
            Numbers::Own(numbers) => Ok(numbers),
            Numbers::Lent(buffer) => {
                let count = buffer.item_count();
                let mut numbers = room(count)?;
                // SAFETY: as above, but that it may change: there is no slice of it.
                unsafe {
                    buffer.buf_ptr().cast_const().cast::<f64>().copy_to_nonoverlapping(numbers.as_mut_ptr(), count);
                    numbers.set_len(count);
                }
                Ok(numbers)
            }
        }
    }
}

/// An array of room for so many numbers, or Python's error that there is none.
pub(crate) fn room<T>(len: usize) -> PyResult<Vec<T>> {
    let mut numbers = Vec::new();
    match numbers.try_reserve_exact(len) {
        Ok(()) => Ok(numbers),
        Err(_) => Err(PyMemoryError::new_err(format!("there is no room for {len} elements"))),
    }
}

/// A real: a float, an integer that is the same number, or what can be converted to a float.
#[inline]
pub(crate) fn real(object: &Bound<'_, PyAny>, place: Place<'_>) -> PyResult<f64> {
    match object.cast_exact::<PyFloat>() {
        Ok(float) => Ok(float.value()),
        Err(_) => other_real(object, place),
    }
}

#[inline(never)]
fn other_real(object: &Bound<'_, PyAny>, place: Place<'_>) -> PyResult<f64> {
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(float.value());
    }
    let mismatch = || Err(place.mismatch(HostType::Real, object));
    if object.is_instance_of::<PyBool>() {
        return mismatch();
    }
    if object.is_instance_of::<PyInt>() {
        return exact(object, place);
    }
    if object.is_instance_of::<PyComplex>() || object.is_instance_of::<PyString>() {
        return mismatch();
    }
    let (number, scalar) = &scalar(object)?;
    let class = number.get_type();
    match scalar {
        Some(Scalar { kind: b'f', dimensions: 0 }) => {}
        Some(Scalar { kind: b'i' | b'u', dimensions: 0 }) => return exact(&index(number)?, place),
        Some(_) => return mismatch(),
        None if has_dimensions(number)? => return mismatch(),
        None if class.hasattr(intern!(class.py(), "__float__"))? => {}
        None if class.hasattr(intern!(class.py(), "__index__"))? => return exact(&index(number)?, place),
        None => return mismatch(),
    }
    // What the object's own code raises is the caller's.
    // SAFETY: it is an object, and the result is a number, or -1 with an error.
    let x = unsafe { ffi::PyFloat_AsDouble(number.as_ptr()) };
    match PyErr::take(object.py()).filter(|_| x == -1.0) {
        Some(error) => Err(error),
        None => Ok(x),
    }
}

/// The real that an int is equal to.
fn exact(int: &Bound<'_, PyAny>, place: Place<'_>) -> PyResult<f64> {
    let py = int.py();
    let refuse = || Err(place.refuse(py, HostType::Real, "an int that no real is equal to"));
    if let Ok(n) = int.extract::<i64>() {
        return if (n as f64) as i128 == i128::from(n) { Ok(n as f64) } else { refuse() };
    }
    // One of more than 64 bits.
    match int.extract::<f64>() {
        Ok(x) if int.eq(x)? => Ok(x),
        Ok(_) => refuse(),
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => refuse(),
        Err(error) => Err(error),
    }
}

/// What an object gives as an int.
fn index<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: it is an object, and the result is an object that is ours, or null with an error.
    unsafe { Bound::from_owned_ptr_or_err(object.py(), ffi::PyNumber_Index(object.as_ptr())) }
}

/// What NumPy says of a number, and that number: what converts itself to an array, as tensors of other libraries do, is
/// one of its numbers then.
fn scalar<'py>(object: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Option<Scalar>)> {
    if let Some(found) = Scalar::of(object)? {
        return Ok((object.clone(), Some(found)));
    }
    let number = as_array(object)?;
    let found = if number.is(object) { None } else { Scalar::of(&number)? };
    Ok((number, found))
}

/// Whether an object is an array, whatever number of elements it has.
fn has_dimensions(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(exports_buffer(object) && PyUntypedBuffer::get(object)?.dimensions() > 0)
}

/// An integer: an int, or what can stand in its place, as those of NumPy.
pub(crate) fn int(object: &Bound<'_, PyAny>, place: Place<'_>) -> PyResult<i64> {
    let py = object.py();
    let mismatch = || Err(place.mismatch(HostType::Int, object));
    if object.is_instance_of::<PyBool>() {
        return mismatch();
    }
    let (mut number, mut is_int) = (object.clone(), object.is_instance_of::<PyInt>());
    if !is_int {
        let (found, scalar) = scalar(object)?;
        is_int = match scalar {
            Some(Scalar { kind, dimensions }) => dimensions == 0 && matches!(kind, b'i' | b'u'),
            None => found.get_type().hasattr(intern!(py, "__index__"))? && !has_dimensions(&found)?,
        };
        number = found;
    }
    if !is_int {
        return mismatch();
    }
    match number.extract() {
        Ok(n) => Ok(n),
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => {
            Err(place.refuse(py, HostType::Int, "an int of more than 64 bits"))
        }
        Err(error) => Err(error),
    }
}

/// A truth value: a bool, or one of NumPy's.
pub(crate) fn truth(object: &Bound<'_, PyAny>, place: Place<'_>) -> PyResult<bool> {
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(truth.is_true());
    }
    match scalar(object)? {
        (number, Some(Scalar { kind: b'b', dimensions: 0 })) => number.is_truthy(),
        _ => Err(place.mismatch(HostType::Bool, object)),
    }
}

/// The buffer of an array, if it is one: an array of NumPy, an `array.array`, a `memoryview` and the like. Texts and
/// bytes are none.
fn buffer_of(object: &Bound<'_, PyAny>, ty: &HostType, place: Place<'_>) -> PyResult<Option<PyUntypedBuffer>> {
    if !exports_buffer(object) || object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyByteArray>() {
        return Ok(None);
    }
    let py = object.py();
    PyUntypedBuffer::get(object).map(Some).map_err(|error| {
        // Without dimensions, of dates, or released. What else it raises is its own.
        let refused = error.is_instance_of::<PyBufferError>(py)
            || error.is_instance_of::<PyValueError>(py)
            || error.is_instance_of::<PyTypeError>(py);
        if !refused {
            return error;
        }
        let (class, said) = (article(&type_name(object)), error.value(py).to_string());
        let refusal = place.refuse(py, ty, format!("{class} without an array of numbers: {said}"));
        refusal.set_cause(py, Some(error));
        refusal
    })
}

/// The type of a buffer's elements, if these are numbers in the machine's order of bytes.
fn code(buffer: &PyUntypedBuffer) -> Option<ElementType> {
    let format = buffer.format();
    let swapped = if cfg!(target_endian = "little") { [b'>', b'!'] } else { [b'<', b'<'] };
    if format.to_bytes().len() > 1 && swapped.contains(&format.to_bytes()[0]) {
        return None;
    }
    let code = ElementType::from_format(format);
    let bytes = match code {
        ElementType::SignedInteger { bytes } | ElementType::UnsignedInteger { bytes } => bytes,
        ElementType::Float { bytes } => bytes,
        ElementType::Bool => 1,
        ElementType::Unknown => return None,
    };
    (bytes == buffer.item_size() && buffer.suboffsets().is_none()).then_some(code)
}

/// What an array is, for messages.
fn describe(object: &Bound<'_, PyAny>, buffer: &PyUntypedBuffer) -> String {
    let shape: Vec<String> = buffer.shape().iter().map(usize::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let format = buffer.format().to_string_lossy();
    format!("{} of shape ({}{comma}) and format {format:?}", article(&type_name(object)), shape.join(", "))
}

/// The elements of a buffer, row by row, each converted. `read` reads one of so many bytes, at any address.
///
/// # Safety
/// `read` reads no more than the elements have bytes.
unsafe fn elements<T>(
    buffer: &PyUntypedBuffer,
    mut read: impl FnMut(*const u8, usize) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    let (shape, strides) = (buffer.shape(), buffer.strides());
    let count = buffer.item_count();
    let mut numbers = room(count)?;
    let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, shape.len());
    let mut at = buffer.buf_ptr().cast_const().cast::<u8>();
    for n in 0..count {
        numbers.push(read(at, n)?);
        // The next index, from the last dimension on, and its address.
        for dimension in (0..shape.len()).rev() {
            index[dimension] += 1;
            at = at.wrapping_offset(strides[dimension]);
            if index[dimension] < shape[dimension] {
                break;
            }
            at = at.wrapping_offset(-strides[dimension] * shape[dimension] as isize);
            index[dimension] = 0;
        }
    }
    Ok(numbers)
}

/// Reads elements of a type at any address.
macro_rules! reader {
    ($buffer:expr, $ty:ty, $convert:expr) => {{
        let convert = $convert;
        // SAFETY: elements have this size, and any bits are such a number.
        unsafe { elements($buffer, |at, n| convert(at.cast::<$ty>().read_unaligned(), n)) }
    }};
}

/// Why a buffer's elements aren't taken.
const HINT_REALS: &str = "; convert it, as with .astype(float)";
const HINT_INTS: &str = "; convert it, as with .astype(int)";

/// The reals of an array of so many dimensions, and its shape; `None` if the object is no array.
pub(crate) fn reals(
    object: &Bound<'_, PyAny>,
    dimensions: usize,
    ty: &HostType,
    place: Place<'_>,
) -> PyResult<Option<(Numbers<f64>, Shape)>> {
    let Some(buffer) = buffer_of(object, ty, place)? else { return Ok(None) };
    let py = object.py();
    if buffer.dimensions() != dimensions {
        return Err(place.refuse(py, ty, describe(object, &buffer)));
    }
    let shape = Shape::from_slice(buffer.shape());
    let inexact = |n: usize| Err(place.refuse(py, ty, format!("an int that no real is equal to, at {n}")));
    let signed = |n: i64, at: usize| if (n as f64) as i128 == i128::from(n) { Ok(n as f64) } else { inexact(at) };
    let unsigned = |n: u64, at: usize| if (n as f64) as u128 == u128::from(n) { Ok(n as f64) } else { inexact(at) };
    let numbers = match code(&buffer) {
        Some(ElementType::Float { bytes: 8 }) => {
            let aligned = buffer.buf_ptr().cast::<f64>().is_aligned() || buffer.item_count() == 0;
            if aligned && buffer.is_c_contiguous() {
                return Ok(Some((Numbers::Lent(buffer), shape)));
            }
            reader!(&buffer, f64, |x, _| Ok(x))
        }
        Some(ElementType::Float { bytes: 4 }) => reader!(&buffer, f32, |x, _| Ok(f64::from(x))),
        Some(ElementType::SignedInteger { bytes: 1 }) => reader!(&buffer, i8, |n, _| Ok(f64::from(n))),
        Some(ElementType::SignedInteger { bytes: 2 }) => reader!(&buffer, i16, |n, _| Ok(f64::from(n))),
        Some(ElementType::SignedInteger { bytes: 4 }) => reader!(&buffer, i32, |n, _| Ok(f64::from(n))),
        Some(ElementType::SignedInteger { bytes: 8 }) => reader!(&buffer, i64, signed),
        Some(ElementType::UnsignedInteger { bytes: 1 }) => reader!(&buffer, u8, |n, _| Ok(f64::from(n))),
        Some(ElementType::UnsignedInteger { bytes: 2 }) => reader!(&buffer, u16, |n, _| Ok(f64::from(n))),
        Some(ElementType::UnsignedInteger { bytes: 4 }) => reader!(&buffer, u32, |n, _| Ok(f64::from(n))),
        Some(ElementType::UnsignedInteger { bytes: 8 }) => reader!(&buffer, u64, unsigned),
        None if buffer.format().to_bytes() == b"O" => return Ok(None),
        _ => return Err(place.refuse(py, ty, describe(object, &buffer) + HINT_REALS)),
    }?;
    Ok(Some((Numbers::Own(numbers), shape)))
}

/// The integers of an array of so many dimensions, or its truth values if these are wanted; `None` if it is no array.
/// They are always a copy: truth values were looked at, and don't change any more.
pub(crate) fn ints(
    object: &Bound<'_, PyAny>,
    dimensions: usize,
    truths: bool,
    ty: &HostType,
    place: Place<'_>,
) -> PyResult<Option<(Vec<i64>, Shape)>> {
    let Some(buffer) = buffer_of(object, ty, place)? else { return Ok(None) };
    let py = object.py();
    if buffer.dimensions() != dimensions {
        return Err(place.refuse(py, ty, describe(object, &buffer)));
    }
    let shape = Shape::from_slice(buffer.shape());
    let large = |n: usize| place.refuse(py, ty, format!("an int of more than 64 bits, at {n}"));
    let numbers = match code(&buffer) {
        Some(ElementType::Bool) if truths => reader!(&buffer, u8, |n, _| Ok(i64::from(n != 0))),
        Some(ElementType::SignedInteger { bytes: 1 }) if !truths => reader!(&buffer, i8, |n, _| Ok(i64::from(n))),
        Some(ElementType::SignedInteger { bytes: 2 }) if !truths => reader!(&buffer, i16, |n, _| Ok(i64::from(n))),
        Some(ElementType::SignedInteger { bytes: 4 }) if !truths => reader!(&buffer, i32, |n, _| Ok(i64::from(n))),
        Some(ElementType::SignedInteger { bytes: 8 }) if !truths => reader!(&buffer, i64, |n, _| Ok(n)),
        Some(ElementType::UnsignedInteger { bytes: 1 }) if !truths => reader!(&buffer, u8, |n, _| Ok(i64::from(n))),
        Some(ElementType::UnsignedInteger { bytes: 2 }) if !truths => reader!(&buffer, u16, |n, _| Ok(i64::from(n))),
        Some(ElementType::UnsignedInteger { bytes: 4 }) if !truths => reader!(&buffer, u32, |n, _| Ok(i64::from(n))),
        Some(ElementType::UnsignedInteger { bytes: 8 }) if !truths => {
            reader!(&buffer, u64, |n, at| i64::try_from(n).map_err(|_| large(at)))
        }
        None if buffer.format().to_bytes() == b"O" => return Ok(None),
        _ if truths => return Err(place.refuse(py, ty, describe(object, &buffer))),
        _ => return Err(place.refuse(py, ty, describe(object, &buffer) + HINT_INTS)),
    }?;
    Ok(Some((numbers, shape)))
}
