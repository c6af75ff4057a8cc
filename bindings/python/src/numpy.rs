//! NumPy, if it is there: it is imported when an array is to be made for the first time. What it says of numbers of its
//! own is asked for without it.

use crate::error::{Kind, fail};
use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyModuleNotFoundError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyList, PyString, PyTuple};
use pyo3::{ffi, intern};

/// What is used of NumPy.
pub(crate) struct NumPy {
    empty: Py<PyAny>,
    asarray: Py<PyAny>,
    int64: Py<PyAny>,
    bool: Py<PyAny>,
}

/// NumPy; `None` where it isn't installed.
pub(crate) fn get(py: Python<'_>) -> PyResult<Option<&NumPy>> {
    static NUMPY: PyOnceLock<Option<NumPy>> = PyOnceLock::new();
    let import = || match py.import("numpy") {
        Ok(numpy) => {
            let part = |name: &str| numpy.getattr(name).map(Bound::unbind);
            let bool = numpy.call_method1("dtype", ("bool",))?.unbind();
            Ok(Some(NumPy { empty: part("empty")?, asarray: part("asarray")?, int64: part("int64")?, bool }))
        }
        // An installation that is broken is no reason to do without.
        Err(error) if error.is_instance_of::<PyModuleNotFoundError>(py) => {
            if error.value(py).getattr("name")?.eq("numpy")? { Ok(None) } else { Err(error) }
        }
        Err(error) => Err(error),
    };
    Ok(NUMPY.get_or_try_init(py, import)?.as_ref())
}

/// Whether an object says that it has memory to share.
pub(crate) fn exports_buffer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: it is an object.
    unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) == 1 }
}

/// What converts itself to an array of NumPy's, as tensors of other libraries do, as that array.
pub(crate) fn as_array<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let plain = exports_buffer(object) || object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
    if plain || !object.get_type().hasattr(intern!(py, "__array__"))? {
        return Ok(object.clone());
    }
    match get(py)? {
        Some(numpy) => numpy.asarray.bind(py).call1((object,)),
        None => Ok(object.clone()),
    }
}

/// A number, as NumPy describes its own.
pub(crate) struct Scalar {
    /// What kind of number: `f`, `i`, `u`, `b` and others.
    pub(crate) kind: u8,
    pub(crate) dimensions: usize,
}

impl Scalar {
    /// What NumPy says of a scalar or an array of its; `None`: it is none.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
        let py = object.py();
        let Some(dtype) = object.getattr_opt(intern!(py, "dtype"))? else { return Ok(None) };
        let Some(kind) = dtype.getattr_opt(intern!(py, "kind"))? else { return Ok(None) };
        let Some(dimensions) = object.getattr_opt(intern!(py, "ndim"))? else { return Ok(None) };
        let (Ok(kind), true) = (kind.cast::<PyString>(), dimensions.is_instance_of::<PyInt>()) else { return Ok(None) };
        let kind = kind.to_cow()?.bytes().next().unwrap_or_default();
        Ok(Some(Scalar { kind, dimensions: dimensions.extract()? }))
    }
}

impl NumPy {
    /// A new array of this shape and type of elements, which are copied from numbers of the same size.
    fn filled<'py, T: Copy>(
        &self,
        py: Python<'py>,
        shape: &[usize],
        dtype: Option<&Py<PyAny>>,
        numbers: &[T],
    ) -> PyResult<Bound<'py, PyAny>> {
        let empty = self.empty.bind(py);
        let array = match (shape, dtype) {
            (&[len], None) => empty.call1((len,))?,
            (shape, None) => empty.call1((PyTuple::new(py, shape)?,))?,
            (shape, Some(dtype)) => empty.call1((PyTuple::new(py, shape)?, dtype))?,
        };
        let buffer = PyUntypedBuffer::get(&array)?;
        let fits = buffer.len_bytes() == size_of_val(numbers) && buffer.is_c_contiguous() && !buffer.readonly();
        if !fits {
            return Err(fail(py, Kind::Internal, "numpy.empty has made another array than it was asked for"));
        }
        // SAFETY: the array is new, so nobody else has it, and it has as many bytes.
        unsafe {
            buffer.buf_ptr().cast::<u8>().copy_from_nonoverlapping(numbers.as_ptr().cast(), size_of_val(numbers));
        }
        buffer.release(py);
        Ok(array)
    }
}

/// An array of float64 of this shape; a list, or a list of lists, where there is no NumPy.
pub(crate) fn reals<'py>(py: Python<'py>, shape: &[usize], numbers: &[f64]) -> PyResult<Bound<'py, PyAny>> {
    match get(py)? {
        Some(numpy) => numpy.filled(py, shape, None, numbers),
        None => nested(py, shape, &mut numbers.iter().copied()),
    }
}

/// An array of int64.
pub(crate) fn ints<'py>(py: Python<'py>, shape: &[usize], numbers: &[i64]) -> PyResult<Bound<'py, PyAny>> {
    match get(py)? {
        Some(numpy) => numpy.filled(py, shape, Some(&numpy.int64), numbers),
        None => nested(py, shape, &mut numbers.iter().copied()),
    }
}

/// An array of truth values.
pub(crate) fn truths<'py>(py: Python<'py>, shape: &[usize], numbers: &[i64]) -> PyResult<Bound<'py, PyAny>> {
    match get(py)? {
        Some(numpy) => {
            let truths: Vec<bool> = numbers.iter().map(|&n| n != 0).collect();
            numpy.filled(py, shape, Some(&numpy.bool), &truths)
        }
        None => nested(py, shape, &mut numbers.iter().map(|&n| n != 0)),
    }
}

/// Lists of lists.
fn nested<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    shape: &[usize],
    numbers: &mut dyn Iterator<Item = T>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some((&len, inner)) = shape.split_first() else {
        let number = numbers.next().expect("there are as many numbers as the shape says");
        return number.into_bound_py_any(py);
    };
    let list = PyList::empty(py);
    for _ in 0..len {
        list.append(nested(py, inner, numbers)?)?;
    }
    Ok(list.into_any())
}
