//! Matrices: slices with a shape, which stand for matrices and for arrays of rows.

use super::{Adjoints, Argument, Extent, check_that, tangents, vectors};
use crate::bytecode::module::HostType;
use crate::embedding::convert::FlattenError;
use crate::embedding::flat::ArgumentWriter;
use crate::embedding::typed::TypeMismatch;
use crate::embedding::typed::tangents::{Several, Tangents};
use crate::memory::heap::shape_text;
use crate::trap::Limit;
use std::fmt;

/// A matrix of the host's: its elements row by row in one slice. It stands for a `Matrix Real`, or for an
/// `Array (Array Real)` whose rows are of one length, or for one of other elements. What stands for it in a gradient is
/// a vector of as many derivatives, in the same order.
///
/// ```
/// # use dualvm_vm::{engine::{Engine, Module}, text, typed::Matrix};
/// # let def = text::parse("type t0 = array real
/// # type t1 = array t0
/// # func \"element\" (t1, int, int) -> (real)
/// #     export (m : Array (Array Real @t0) @t1, row : Int, column : Int) -> Real
/// #     regs 1 real, 2 int, t1, t0
/// #     {
/// #     pelem p1, p0, i0
/// #     elem r0, p1, i1
/// #     ret (r0) }", "element.dvs").map_err(|errors| errors[0].to_string())?;
/// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
/// // def element (m : Array (Array Real)) (row : Int) (column : Int) : Real = m[row][column]
/// let element = module.function("element").ok_or("no such function")?.typed::<(Matrix, i64, i64), f64>()?;
/// let m = Matrix::new(&[1.0, 2.0, 3.0,
///                       4.0, 5.0, 6.0], [2, 3])?;
/// let (value, (by_m, (), ())) = element.value_and_grad((m, 1, 0))?;
/// assert_eq!(value, 4.0);
/// assert_eq!(by_m, [0.0, 0.0, 0.0,
///                   1.0, 0.0, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Matrix<'a, T = f64> {
    elements: &'a [T],
    rows: usize,
    columns: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// A matrix of `[rows, columns]`. Nothing is copied.
    ///
    /// # Errors
    /// If there are not rows × columns elements, or more rows or columns than a program can count, as there may be of
    /// a matrix without elements.
    pub fn new(elements: &'a [T], [rows, columns]: [usize; 2]) -> Result<Self, ShapeMismatch> {
        ShapeMismatch::check(&[rows, columns], elements.len())?;
        Ok(Matrix { elements, rows, columns })
    }

    /// The elements, row by row.
    pub fn elements(&self) -> &'a [T] {
        self.elements
    }

    /// How many rows and how many columns there are.
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.columns]
    }

    /// The n-th row, counted from 0; the caller knows that there is one.
    fn row(&self, n: usize) -> &'a [T] {
        &self.elements[n * self.columns..][..self.columns]
    }
}

/// The types of rows and of elements, if a type is a matrix or an array of arrays.
fn row_and_element(ty: &HostType) -> Option<(&HostType, &HostType)> {
    match ty {
        HostType::Array { element: row, .. } | HostType::Tensor { slice: row, .. } => match &**row {
            HostType::Array { element, .. } => Some((row, element)),
            _ => None,
        },
        _ => None,
    }
}

/// An extent as programs have it: an integer, of which there are fewer than a matrix without elements may have rows.
pub(super) fn program_extent(extent: usize) -> Result<i64, Limit> {
    i64::try_from(extent).map_err(|_| Limit::LiveBytes)
}

impl<'a, T: Argument> Argument for Matrix<'a, T> {
    type Gradient = T::Gradients;
    type Tangent = T::TangentMatrix<'a>;
    tangents!();
    vectors!();
    fn name() -> String {
        format!("Matrix<{}>", T::name())
    }
    fn check(ty: &HostType) -> Result<(), TypeMismatch> {
        let fits = row_and_element(ty).is_some_and(|(_, element)| T::check(element).is_ok());
        check_that(fits, ty, <Self as Argument>::name)
    }
    fn write(&self, ty: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        let (row, element) = row_and_element(ty).expect("the handle has compared the types");
        if let HostType::Tensor { .. } = ty {
            let extents = [program_extent(self.rows)?, program_extent(self.columns)?];
            // SAFETY: `check` has accepted the element's type.
            return unsafe { to.tensor(extents.into_iter(), |to| T::write_array(self.elements, element, to)) };
        }
        // SAFETY: `check` has accepted the element's type.
        unsafe { to.array(row, self.rows, |n, to| T::write_array(self.row(n), element, to)) }
    }
    #[inline]
    fn gradient(&self, adjoints: &mut Adjoints<'_>) -> T::Gradients {
        T::gradients(self.elements, adjoints)
    }
    #[inline]
    fn gradient_into(&self, adjoints: &mut Adjoints<'_>, to: &mut T::Gradients) {
        T::gradients_into(self.elements, adjoints, to);
    }
    #[inline]
    fn extent(&self) -> Extent {
        T::extent_of(self.elements)
    }
    fn tangent(&self, tangent: &T::TangentMatrix<'a>, to: &mut Tangents<'_>) -> Result<(), FlattenError> {
        match tangent.several() {
            Some((tangents, shape)) => to.matrix(self, tangents, shape),
            None => Ok(()),
        }
    }
}

/// There is another number of elements than a matrix or a tensor of the shape has, or a program can't have the shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShapeMismatch {
    shape: Box<[usize]>,
    found: usize,
}

impl ShapeMismatch {
    /// An array of this shape may have so many elements.
    pub(super) fn check(shape: &[usize], found: usize) -> Result<(), ShapeMismatch> {
        let count = shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent));
        let fits = count == Some(found) && shape.iter().all(|&extent| program_extent(extent).is_ok());
        fits.then_some(()).ok_or_else(|| ShapeMismatch { shape: shape.into(), found })
    }

    /// How many rows and how many columns there should be, or slices along each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many elements there are.
    pub fn found(&self) -> usize {
        self.found
    }
}

impl fmt::Display for ShapeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShapeMismatch { shape, found } = self;
        let elements = shape.iter().fold(1u128, |count, &extent| count.saturating_mul(extent as u128));
        let what = if shape.len() == 2 { "matrix" } else { "tensor" };
        if elements == *found as u128 {
            return write!(f, "a {what} of {}: no extent can be more than {}", shape_text(shape), i64::MAX);
        }
        let plural = if elements == 1 { "" } else { "s" };
        write!(f, "a {what} of {}: expected {elements} element{plural}, found {found}", shape_text(shape))
    }
}

impl std::error::Error for ShapeMismatch {}
