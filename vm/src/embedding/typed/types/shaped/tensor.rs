//! Arrays of several dimensions that are the host's own.

use super::{Element, Extents, OwnedArray, ShapedArray};
use crate::embedding::typed::types::ShapeMismatch;
use std::ops::{Index, IndexMut};

/// An array of `RANK` dimensions that owns its elements, row by row: what a matrix or a tensor is as a result. It
/// stands for a `Matrix`, a `Tensor3` or a `Tensor4` of as many dimensions, for arrays of arrays whose rows are of one
/// length, and for an array or a list if `RANK` is 1.
///
/// ```
/// # use dualvm_vm::{engine::{Engine, Module}, text, typed::Tensor};
/// # let def = text::parse("type t0 = array real
/// # type t1 = shaped { t0, int, int }
/// # func \"scaled\" (t1, real) -> (t1)
/// #     export (m : Tensor (Array Real @t0) @t1, k : Real) -> Tensor (Array Real @t0) @t1
/// #     regs 1 real, t1 { ret (p0) }", "scaled.dvs").map_err(|errors| errors[0].to_string())?;
/// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
/// // def same (m : Matrix Real) (k : Real) : Matrix Real = m
/// let same = module.function("scaled").ok_or("no such function")?.typed::<(Tensor<f64, 2>, f64), Tensor<f64, 2>>()?;
/// let m = Tensor::new(vec![1.0, 2.0, 3.0,
///                          4.0, 5.0, 6.0], [2, 3])?;
/// let result = same.call((m.clone(), 1.0))?;
/// assert_eq!(result.shape(), [2, 3]);
/// assert_eq!(result[[1, 0]], 4.0);
/// assert_eq!(result, m);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor<T, const RANK: usize> {
    elements: Vec<T>,
    shape: [usize; RANK],
}

impl<T, const RANK: usize> Tensor<T, RANK> {
    /// A tensor of so many slices along each dimension. Nothing is copied.
    ///
    /// # Errors
    /// If the product of these numbers is not the number of elements, or one of them is more than a program can count,
    /// as it may be in a tensor without elements.
    pub fn new(elements: Vec<T>, shape: [usize; RANK]) -> Result<Self, ShapeMismatch> {
        ShapeMismatch::check(&shape, elements.len())?;
        Ok(Tensor { elements, shape })
    }

    /// How many slices there are along each dimension.
    pub fn shape(&self) -> [usize; RANK] {
        self.shape
    }

    /// The elements, row by row.
    pub fn elements(&self) -> &[T] {
        &self.elements
    }

    /// The elements, to be changed.
    pub fn elements_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }

    /// The vector of the elements.
    pub fn into_elements(self) -> Vec<T> {
        self.elements
    }

    /// Where the element at some indices is, if it is there.
    fn position(&self, at: [usize; RANK]) -> Option<usize> {
        let mut position = 0;
        for (index, extent) in at.into_iter().zip(self.shape) {
            if index >= extent {
                return None;
            }
            position = position * extent + index;
        }
        Some(position)
    }

    /// The element at these indices, one for each dimension; `None` if there is none.
    pub fn get(&self, at: [usize; RANK]) -> Option<&T> {
        self.elements.get(self.position(at)?)
    }
}

/// # Panics
/// If there is no such element, as indexing of slices does.
impl<T, const RANK: usize> Index<[usize; RANK]> for Tensor<T, RANK> {
    type Output = T;
    fn index(&self, at: [usize; RANK]) -> &T {
        self.get(at).unwrap_or_else(|| panic!("index {at:?} is out of bounds of a tensor of shape {:?}", self.shape))
    }
}

impl<T, const RANK: usize> IndexMut<[usize; RANK]> for Tensor<T, RANK> {
    fn index_mut(&mut self, at: [usize; RANK]) -> &mut T {
        match self.position(at) {
            Some(position) => &mut self.elements[position],
            None => panic!("index {at:?} is out of bounds of a tensor of shape {:?}", self.shape),
        }
    }
}

macro_rules! tensors {
    ($([$($lifetime:lifetime)?] $rust:ty = $reference:literal),+) => {$(
        impl<$($lifetime,)? T: Element, const RANK: usize> ShapedArray for $rust {
            type Element = T;
            type Reals = Tensor<f64, RANK>;
            fn array_name() -> String {
                format!("{}Tensor<{}, {RANK}>", $reference, T::name())
            }
            fn rank() -> usize {
                const { assert!(RANK > 0, "a tensor has a dimension") };
                RANK
            }
            fn extents(&self) -> Extents {
                Extents(self.shape[..].into())
            }
            fn in_order(&self) -> Option<&[T]> {
                Some(&self.elements)
            }
            fn elements(&self) -> impl Iterator<Item = T> {
                self.elements.iter().copied()
            }
        }
    )+};
}
tensors!([] Tensor<T, RANK> = "", ['a] &'a Tensor<T, RANK> = "&");

impl<T: Element, const RANK: usize> OwnedArray for Tensor<T, RANK> {
    fn from_elements(extents: &[usize], elements: Vec<T>) -> Result<Self, String> {
        let mut shape = [0; RANK];
        shape.copy_from_slice(extents);
        Ok(Tensor { elements, shape })
    }
    fn set_derivatives(&mut self, extents: &[usize], elements: &[T]) {
        elements.clone_into(&mut self.elements);
        self.shape.copy_from_slice(extents);
    }
    fn nothing() -> Self {
        Tensor { elements: Vec::new(), shape: [0; RANK] }
    }
}
