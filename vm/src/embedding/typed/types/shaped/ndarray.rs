//! Arrays of ndarray.

use super::{Element, Extents, OwnedArray, ShapedArray};
use crate::embedding::typed::types::Argument;
use ::ndarray::{
    Array, ArrayBase, ArrayRef, CowRepr, Data, Dimension, Ix1, Ix2, Ix3, Ix4, OwnedArcRepr, OwnedRepr, ViewRepr,
};

/// A number of dimensions that a type of a program may have.
pub trait Rank: Dimension {
    const RANK: usize;
}

macro_rules! ranks {
    ($($rank:literal $dimension:ty),+) => {$(
        impl Rank for $dimension {
            const RANK: usize = $rank;
        }
    )+};
}
ranks!(1 Ix1, 2 Ix2, 3 Ix3, 4 Ix4);

/// How an array has its elements.
pub trait Storage: Data {
    /// The name of such an array, without the number of its dimensions.
    const NAME: &'static str;
}

impl<T> Storage for OwnedRepr<T> {
    const NAME: &'static str = "Array";
}

impl<T> Storage for ViewRepr<&T> {
    const NAME: &'static str = "ArrayView";
}

impl<T> Storage for CowRepr<'_, T> {
    const NAME: &'static str = "CowArray";
}

impl<T> Storage for OwnedArcRepr<T> {
    const NAME: &'static str = "ArcArray";
}

macro_rules! arrays {
    ($([$($generic:tt)*] $rust:ty, $element:ty = $name:expr),+) => {$(
        impl<$($generic)*> ShapedArray for $rust {
            type Element = $element;
            type Reals = Array<f64, D>;
            fn array_name() -> String {
                format!("{}{}<{}>", $name, D::RANK, <$element>::name())
            }
            fn rank() -> usize {
                D::RANK
            }
            fn extents(&self) -> Extents {
                Extents(self.shape().into())
            }
            fn in_order(&self) -> Option<&[$element]> {
                self.as_slice()
            }
            fn elements(&self) -> impl Iterator<Item = $element> {
                self.iter().copied()
            }
        }
    )+};
}
arrays!(
    [S: Storage<Elem: Element>, D: Rank] ArrayBase<S, D>, S::Elem = S::NAME,
    ['a, S: Storage<Elem: Element>, D: Rank] &'a ArrayBase<S, D>, S::Elem = format_args!("&{}", S::NAME),
    ['a, T: Element, D: Rank] &'a ArrayRef<T, D>, T = "&ArrayRef"
);

impl<T: Element, D: Rank> OwnedArray for Array<T, D> {
    fn from_elements(extents: &[usize], elements: Vec<T>) -> Result<Self, String> {
        let mut dimension = D::zeros(D::RANK);
        dimension.slice_mut().copy_from_slice(extents);
        // There are as many elements as the extents say, but without the zeros among these there may be too many.
        Array::from_shape_vec(dimension, elements)
            .map_err(|_| format!("extents other than 0 whose product is at most {}", isize::MAX))
    }
    fn set_derivatives(&mut self, extents: &[usize], elements: &[T]) {
        let (mut memory, _) = std::mem::take(self).into_raw_vec_and_offset();
        elements.clone_into(&mut memory);
        *self = Array::from_elements(extents, memory).expect("an argument has these extents");
    }
    fn nothing() -> Self {
        Array::default(D::zeros(D::RANK))
    }
}
