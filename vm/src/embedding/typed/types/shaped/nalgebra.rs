//! Vectors and matrices of nalgebra, which has the elements of a matrix column by column.

use super::{Element, Extents, OwnedArray, ShapedArray};
use crate::embedding::typed::tangents::expected_shape;
use ::nalgebra::allocator::Allocator;
use ::nalgebra::storage::RawStorage;
use ::nalgebra::{DefaultAllocator, Dim, Matrix, OMatrix, Scalar};
use smallvec::smallvec;

/// Whether a type is one of vectors: of matrices that have one column.
fn is_vector<C: Dim>() -> bool {
    C::try_to_usize() == Some(1)
}

/// The extents of a matrix of so many rows and columns.
fn extents_of<C: Dim>((rows, columns): (usize, usize)) -> Extents {
    Extents(if is_vector::<C>() { smallvec![rows] } else { smallvec![rows, columns] })
}

/// Rows and columns of a matrix of these extents.
fn shape_of(extents: &[usize]) -> (usize, usize) {
    (extents[0], extents.get(1).copied().unwrap_or(1))
}

macro_rules! matrices {
    ($([$($lifetime:lifetime)?] $rust:ty = $reference:literal),+) => {$(
        impl<$($lifetime,)? T, R, C, S> ShapedArray for $rust
        where
            T: Element + Scalar,
            R: Dim,
            C: Dim,
            S: RawStorage<T, R, C>,
            DefaultAllocator: Allocator<R, C>,
        {
            type Element = T;
            type Reals = OMatrix<f64, R, C>;
            fn array_name() -> String {
                let element = T::name();
                let name = match (R::try_to_usize(), C::try_to_usize()) {
                    (None, Some(1)) => format!("DVector<{element}>"),
                    (Some(len), Some(1)) => format!("SVector<{element}, {len}>"),
                    (None, None) => format!("DMatrix<{element}>"),
                    (Some(rows), Some(columns)) => format!("SMatrix<{element}, {rows}, {columns}>"),
                    (None, Some(columns)) => format!("OMatrix<{element}, Dyn, {columns}>"),
                    (Some(rows), None) => format!("OMatrix<{element}, {rows}, Dyn>"),
                };
                format!("{}{name}", $reference)
            }
            fn rank() -> usize {
                if is_vector::<C>() { 1 } else { 2 }
            }
            fn fixed_len() -> Option<usize> {
                if is_vector::<C>() { R::try_to_usize() } else { None }
            }
            fn extents(&self) -> Extents {
                extents_of::<C>(self.shape())
            }
            fn in_order(&self) -> Option<&[T]> {
                let is_line = self.nrows() <= 1 || self.ncols() <= 1;
                // SAFETY: they are contiguous.
                (is_line && self.data.is_contiguous()).then(|| unsafe { self.data.as_slice_unchecked() })
            }
            fn elements(&self) -> impl Iterator<Item = T> {
                let (rows, columns) = self.shape();
                (0..rows).flat_map(move |row| (0..columns).map(move |column| self[(row, column)]))
            }
        }
    )+};
}
matrices!([] Matrix<T, R, C, S> = "", ['a] &'a Matrix<T, R, C, S> = "&");

impl<T, R, C> OwnedArray for OMatrix<T, R, C>
where
    T: Element + Scalar,
    R: Dim,
    C: Dim,
    DefaultAllocator: Allocator<R, C>,
{
    fn from_elements(extents: &[usize], elements: Vec<T>) -> Result<Self, String> {
        let found = shape_of(extents);
        let shape = (R::try_to_usize().unwrap_or(found.0), C::try_to_usize().unwrap_or(found.1));
        if shape != found {
            return Err(expected_shape(&extents_of::<C>(shape)));
        }
        Ok(Self::from_derivatives(extents, &elements))
    }
    fn from_derivatives(extents: &[usize], elements: &[T]) -> Self {
        let (rows, columns) = shape_of(extents);
        OMatrix::from_row_slice_generic(R::from_usize(rows), C::from_usize(columns), elements)
    }
    fn set_derivatives(&mut self, extents: &[usize], elements: &[T]) {
        let (rows, columns) = shape_of(extents);
        if self.shape() != (rows, columns) {
            *self = Self::from_derivatives(extents, elements);
        } else if columns == 1 {
            self.as_mut_slice().copy_from_slice(elements);
        } else {
            for (column, xs) in self.as_mut_slice().chunks_mut(rows.max(1)).enumerate() {
                xs.iter_mut().enumerate().for_each(|(row, x)| *x = elements[row * columns + column]);
            }
        }
    }
    fn nothing() -> Self {
        let (rows, columns) = (R::try_to_usize().unwrap_or(0), C::try_to_usize().unwrap_or(0));
        OMatrix::from_element_generic(R::from_usize(rows), C::from_usize(columns), T::default())
    }
}
