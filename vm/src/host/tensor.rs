//! Matrices and tensors that closures of the host's take and give.

use super::{HostCall, HostError, HostValue};
use crate::flat::LeafKind;
use crate::memory::heap::{elements_of_shape, shape_text};

/// A matrix that a closure takes or gives: a [`HostTensor`] of two dimensions.
pub type HostMatrix<T = f64> = HostTensor<2, T>;

/// A tensor of so many dimensions that a closure takes or gives, a `Matrix Real`, a `Tensor3 Real` or a `Tensor4 Real`,
/// or one of `i64` or `bool`. Its tangents and cotangents are tensors of the same shape.
///
/// ```
/// use dualvm_vm::host::{HostFunction, HostMatrix};
///
/// // The transpose, which is linear.
/// fn transposed(m: HostMatrix) -> HostMatrix {
///     let [rows, columns] = m.shape();
///     let element = |n: usize| m.elements()[n % rows * columns + n / rows];
///     HostMatrix::new([columns, rows], (0..rows * columns).map(element).collect()).expect("as many as before")
/// }
/// let transpose = HostFunction::of(transposed).with_vjp(|_: HostMatrix, t_adj: HostMatrix| transposed(t_adj));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct HostTensor<const RANK: usize, T = f64> {
    shape: [usize; RANK],
    elements: Vec<T>,
}

impl<const RANK: usize, T> HostTensor<RANK, T> {
    /// A tensor of these extents, from the first dimension on, with its elements, the last index running fastest: a
    /// matrix of `[rows, columns]`, row by row.
    ///
    /// # Errors
    /// If there are more or fewer elements.
    pub fn new(shape: [usize; RANK], elements: Vec<T>) -> Result<Self, HostError> {
        let extents = shape.map(signed);
        if elements_of_shape(&extents) != Some(elements.len()) {
            let (shape, len) = (shape_text(&extents), elements.len());
            return Err(HostError::new(format_args!("a tensor of shape {shape} can't have {len} elements")));
        }
        Ok(HostTensor { shape, elements })
    }

    /// The extents, from the first dimension on.
    pub fn shape(&self) -> [usize; RANK] {
        self.shape
    }

    /// The elements, the last index running fastest.
    pub fn elements(&self) -> &[T] {
        &self.elements
    }

    /// The elements, to be changed.
    pub fn elements_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }

    /// The elements alone.
    pub fn into_elements(self) -> Vec<T> {
        self.elements
    }
}

/// Defines how tensors of numbers are read and given: as the vectors of their elements, behind their shapes.
macro_rules! tensors {
    ($( $number:ty, $tangent:ty; )*) => { $(
        impl<const RANK: usize> HostValue for HostTensor<RANK, $number> {
            type Tangent = $tangent;

            fn kinds(out: &mut Vec<LeafKind>) {
                out.push(LeafKind::Shape);
                Vec::<$number>::kinds(out);
            }

            fn read(call: &HostCall<'_>, next: &mut usize) -> Result<Self, HostError> {
                let shape = read_shape(call.ints(*next))?;
                *next += 1;
                HostTensor::new(shape, Vec::read(call, next)?)
            }

            fn give(self, call: &mut HostCall<'_>) -> Result<(), HostError> {
                call.give(&self.shape.map(signed))?;
                self.elements.give(call)
            }
        }
    )* };
}
tensors! {
    f64, Self;
    i64, ();
    bool, ();
}

/// An extent as the machine has it. One that is larger than any becomes negative, which none is.
fn signed(extent: usize) -> i64 {
    extent as i64
}

/// The extents of so many dimensions.
fn read_shape<const RANK: usize>(extents: &[i64]) -> Result<[usize; RANK], HostError> {
    let shape: Option<Vec<usize>> = extents.iter().map(|&extent| usize::try_from(extent).ok()).collect();
    shape.and_then(|shape| shape.try_into().ok()).ok_or_else(|| {
        let shape = shape_text(extents);
        HostError::new(format_args!("it takes a tensor of {RANK} dimensions, not one of shape {shape}"))
    })
}
