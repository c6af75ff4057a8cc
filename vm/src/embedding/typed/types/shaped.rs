//! Arrays with a shape of their own, which stand for arrays, lists, matrices and tensors, and for arrays of arrays.
//!
//! What such an array has to say of itself is in [`ShapedArray`]: its extents, and its elements in the order of the
//! rows, that is, with the last index changing first. All else is here. `tensor` says it for the machine's own type,
//! `ndarray` and `nalgebra` for the types of these crates, each under the feature of its name.

#[cfg(feature = "nalgebra")]
mod nalgebra;
#[cfg(feature = "ndarray")]
mod ndarray;
mod tensor;

pub use tensor::Tensor;

use super::matrix::program_extent;
use super::{Adjoints, Argument, Extent, Output, check_that, tangents, vectors};
use crate::bytecode::module::HostType;
use crate::embedding::convert::{Cursor, FlattenError, ReadError, Reader, counted};
use crate::embedding::flat::ArgumentWriter;
use crate::embedding::typed::TypeMismatch;
use crate::embedding::typed::tangents::{Tangents, found_shape};
use crate::memory::heap::Ref;
use crate::trap::Limit;
use smallvec::SmallVec;
use std::ops::Deref;

/// An array with a shape of its own, which is an [`Argument`]: a [`Tensor`] or a reference to one. Under the feature
/// `ndarray`, so are arrays and views of ndarray of 1 to 4 dimensions and references to them; under the feature
/// `nalgebra`, its vectors and matrices, their views and references to them. Elements are reals, integers or booleans,
/// with any strides.
///
/// An array of one dimension stands for an array or a list, one of n dimensions for a matrix or a tensor of as many, or
/// for arrays of arrays. A vector whose length is a part of its type also stands for a tuple of as many parts.
///
/// The tangent of an array of reals is of its own type, and of its extents. What stands for it in a gradient is an
/// array of its extents that owns its elements; if the gradient is not with respect to it, one without elements or,
/// where the type says how many there are, of zeros. An array of integers or of booleans has `()` in both places.
pub trait ShapedArray: Sized {
    /// What it is an array of.
    type Element: Element;
    /// The same array of reals that owns them.
    type Reals: OwnedArray<Element = f64>;
    #[doc(hidden)]
    fn array_name() -> String;
    /// How many dimensions it has.
    #[doc(hidden)]
    fn rank() -> usize;
    /// How many elements it has, if it has one dimension and its type says so.
    #[doc(hidden)]
    fn fixed_len() -> Option<usize> {
        None
    }
    #[doc(hidden)]
    fn extents(&self) -> Extents;
    /// All elements, if they stand side by side in the order of the rows.
    #[doc(hidden)]
    fn in_order(&self) -> Option<&[Self::Element]>;
    /// The elements in the order of the rows.
    #[doc(hidden)]
    fn elements(&self) -> impl Iterator<Item = Self::Element>;
}

/// A [`ShapedArray`] that owns its elements: an [`Output`], and what stands in a gradient.
pub trait OwnedArray: ShapedArray {
    /// The array of these elements, which are in the order of the rows and as many as the extents say.
    ///
    /// # Errors
    /// What is expected, if it can't have these extents.
    #[doc(hidden)]
    fn from_elements(extents: &[usize], elements: Vec<Self::Element>) -> Result<Self, String>;
    /// The array that stands for one of these extents in a gradient.
    #[doc(hidden)]
    fn from_derivatives(extents: &[usize], elements: &[Self::Element]) -> Self {
        Self::from_elements(extents, elements.to_vec()).expect("an argument has these extents")
    }
    /// The same over an earlier one, whose memory is kept.
    #[doc(hidden)]
    fn set_derivatives(&mut self, extents: &[usize], elements: &[Self::Element]);
    /// What stands in a gradient for an array that it is not with respect to.
    #[doc(hidden)]
    fn nothing() -> Self;
}

/// An element of a [`ShapedArray`]: `f64`, `i64` or `bool`.
pub trait Element: Output + Copy + Default {
    /// What stands for an array of these in a gradient, or as its tangent, if that is an `A` for reals: nothing if
    /// they are discrete.
    type Derivative<A>;
    #[doc(hidden)]
    fn derivative<A>(make: impl FnOnce() -> A) -> Self::Derivative<A>;
    #[doc(hidden)]
    fn set_derivative<A>(to: &mut Self::Derivative<A>, set: impl FnOnce(&mut A));
    /// The extent of an array of so many of these.
    #[doc(hidden)]
    fn extent_of_array(count: usize) -> Extent;
    /// Takes the reals of a tangent of an array of these.
    #[doc(hidden)]
    fn tangent_of_array<A: ShapedArray<Element = Self>>(
        array: &A,
        tangent: &Self::Derivative<A>,
        to: &mut Tangents<'_>,
    ) -> Result<(), FlattenError>;
}

impl Element for f64 {
    type Derivative<A> = A;
    fn derivative<A>(make: impl FnOnce() -> A) -> A {
        make()
    }
    fn set_derivative<A>(to: &mut A, set: impl FnOnce(&mut A)) {
        set(to);
    }
    fn extent_of_array(count: usize) -> Extent {
        Extent::VECTOR.and(Extent::reals(count))
    }
    fn tangent_of_array<A: ShapedArray<Element = f64>>(
        array: &A,
        tangent: &A,
        to: &mut Tangents<'_>,
    ) -> Result<(), FlattenError> {
        let extents = tangent.extents();
        if !to.takes(&array.extents(), &extents)? {
            return Ok(());
        }
        match tangent.in_order() {
            Some(reals) => to.reals(reals),
            None => to.reals_one_by_one(extents.count(), tangent.elements()),
        }
    }
}

macro_rules! discrete_elements {
    ($($rust:ty),+) => {$(
        impl Element for $rust {
            type Derivative<A> = ();
            fn derivative<A>(_: impl FnOnce() -> A) {}
            fn set_derivative<A>((): &mut (), _: impl FnOnce(&mut A)) {}
            fn extent_of_array(_: usize) -> Extent {
                Extent::NOTHING
            }
            fn tangent_of_array<A: ShapedArray<Element = $rust>>(
                _: &A,
                (): &(),
                _: &mut Tangents<'_>,
            ) -> Result<(), FlattenError> {
                Ok(())
            }
        }
    )+};
}
discrete_elements!(i64, bool);

/// How many slices there are along each dimension.
#[derive(Clone, PartialEq, Debug)]
pub struct Extents(SmallVec<[usize; 4]>);

impl Extents {
    /// How many elements there are. Views whose elements are one and the same may have more than can be counted; then
    /// it is a number for which there is no memory.
    fn count(&self) -> usize {
        self.iter().fold(1, |count, &extent| count.saturating_mul(extent))
    }
}

impl Deref for Extents {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

/// The elements of an array that are still to be written, in the order of the rows.
enum Elements<'a, T, I> {
    InOrder(&'a [T]),
    OneByOne(I),
}

impl<T: Element, I: Iterator<Item = T>> Elements<'_, T, I> {
    fn next(&mut self) -> T {
        let next = match self {
            Elements::InOrder(left) => left.split_off_first().copied(),
            Elements::OneByOne(left) => left.next(),
        };
        next.expect("there are as many as the extents say")
    }

    /// Writes the next `count` as an array.
    fn write_array(&mut self, count: usize, element: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        match self {
            Elements::InOrder(left) => {
                let (items, rest) = left.split_at(count);
                *left = rest;
                T::write_array(items, element, to)
            }
            // SAFETY: `check` has accepted the element's type.
            Elements::OneByOne(_) => unsafe { to.array(element, count, |_, to| self.next().write(element, to)) },
        }
    }

    /// Writes all `count` as a list.
    fn write_list(&mut self, count: usize, element: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        match self {
            Elements::InOrder(items) => T::write_list(items, element, to),
            // SAFETY: `check` has accepted the element's type.
            Elements::OneByOne(_) => unsafe { to.list(element, count, |_, to| self.next().write(element, to)) },
        }
    }

    /// Writes the next as an array of arrays, as many as the extents say.
    fn write_rows(&mut self, extents: &[usize], ty: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        let item = ty.item().expect("the handle has compared the types");
        match extents {
            [] => unreachable!("an array has a dimension"),
            [count] => self.write_array(*count, item, to),
            // SAFETY: `check` has accepted the type of the inner arrays.
            [rows, inner @ ..] => unsafe { to.array(item, *rows, |_, to| self.write_rows(inner, item, to)) },
        }
    }
}

/// The type of the elements, if a type is one that an array of so many dimensions stands for.
fn element_of(ty: &HostType, rank: usize) -> Option<&HostType> {
    match ty {
        HostType::Tensor { .. } if ty.rank() == rank => ty.element(),
        HostType::List { element, .. } if rank == 1 => Some(element),
        _ => (0..rank).try_fold(ty, |ty, _| match ty {
            HostType::Array { element, .. } => Some(&**element),
            _ => None,
        }),
    }
}

impl<A: ShapedArray> Argument for A {
    type Gradient = <A::Element as Element>::Derivative<A::Reals>;
    vectors!();
    type Tangent = <A::Element as Element>::Derivative<A>;
    tangents!();
    fn name() -> String {
        A::array_name()
    }
    fn check(ty: &HostType) -> Result<(), TypeMismatch> {
        let fits = match ty {
            HostType::Tuple(parts) => {
                A::fixed_len() == Some(parts.len()) && parts.iter().all(|part| A::Element::check(part).is_ok())
            }
            _ => element_of(ty, A::rank()).is_some_and(|element| A::Element::check(element).is_ok()),
        };
        check_that(fits, ty, A::array_name)
    }
    fn write(&self, ty: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        let extents = self.extents();
        let mut elements = match self.in_order() {
            Some(elements) => Elements::InOrder(elements),
            None => Elements::OneByOne(self.elements()),
        };
        match ty {
            HostType::Tuple(parts) => parts.iter().try_for_each(|part| elements.next().write(part, to)),
            HostType::List { element, .. } => elements.write_list(extents.count(), element, to),
            HostType::Tensor { .. } => {
                let element = ty.element().expect("a tensor has elements");
                let shape: Result<SmallVec<[i64; 4]>, Limit> = extents.iter().map(|&n| program_extent(n)).collect();
                // SAFETY: `check` has accepted the type.
                unsafe { to.tensor(shape?.into_iter(), |to| elements.write_array(extents.count(), element, to)) }
            }
            _ => elements.write_rows(&extents, ty, to),
        }
    }
    fn gradient(&self, adjoints: &mut Adjoints<'_>) -> Self::Gradient {
        A::Element::derivative(|| {
            if !adjoints.active {
                return A::Reals::nothing();
            }
            let extents = self.extents();
            A::Reals::from_derivatives(&extents, adjoints.take(extents.count()))
        })
    }
    fn gradient_into(&self, adjoints: &mut Adjoints<'_>, to: &mut Self::Gradient) {
        A::Element::set_derivative(to, |to| {
            if !adjoints.active {
                *to = A::Reals::nothing();
                return;
            }
            let extents = self.extents();
            to.set_derivatives(&extents, adjoints.take(extents.count()));
        });
    }
    fn extent(&self) -> Extent {
        A::Element::extent_of_array(self.extents().count())
    }
    fn tangent(&self, tangent: &Self::Tangent, to: &mut Tangents<'_>) -> Result<(), FlattenError> {
        A::Element::tangent_of_array(self, tangent, to)
    }
}

impl<A: OwnedArray> Output for A {
    unsafe fn read(ty: &HostType, from: &mut Cursor<'_>, reader: &mut Reader<'_>) -> Result<A, ReadError> {
        let (mut extents, mut elements) = (Extents(SmallVec::new()), Vec::new());
        // SAFETY: the registers, and the object that a reference leads to, are of this type, as the caller promises.
        unsafe {
            match ty {
                HostType::Tuple(parts) => {
                    extents.0.push(parts.len());
                    for part in parts {
                        elements.push(A::Element::read(part, from, reader)?);
                    }
                }
                HostType::List { element, .. } => {
                    elements = A::Element::read_list(element, from.object(), reader)?;
                    extents.0.push(elements.len());
                }
                HostType::Tensor { .. } => {
                    let (shape, array) = reader.tensor_parts(ty, from.object())?;
                    extents.0.extend(shape.iter().map(|&extent| extent as usize));
                    elements = A::Element::read_array(ty.element().expect("a tensor has elements"), array, reader)?;
                }
                _ => {
                    let mut found: SmallVec<[Option<usize>; 4]> = SmallVec::from_elem(None, A::rank());
                    read_rows(ty, from.object(), &mut found, reader, &mut elements)?;
                    // Of rows that there are none of, nobody knows how long they are.
                    extents.0.extend(found.iter().map(|extent| extent.unwrap_or(0)));
                }
            }
        }
        A::from_elements(&extents, elements).map_err(|expected| ReadError::misshapen(expected, found_shape(&extents)))
    }
    fn into_tangent(self) -> Self::Tangent {
        A::Element::derivative(|| self)
    }
    fn into_tangents(items: Vec<A>) -> Vec<Self::Tangent> {
        items.into_iter().map(Output::into_tangent).collect()
    }
}

/// Reads an array of arrays, whose extents become known as they are met, and appends its elements.
///
/// # Safety
/// `array` is a complete array of this type, which has as many dimensions as there are extents.
unsafe fn read_rows<T: Element>(
    ty: &HostType,
    array: Ref,
    extents: &mut [Option<usize>],
    reader: &mut Reader<'_>,
    to: &mut Vec<T>,
) -> Result<(), ReadError> {
    let item = ty.item().expect("the handle has compared the types");
    let (extent, inner) = extents.split_first_mut().expect("an array has a dimension");
    // SAFETY: promised by the caller.
    let found = unsafe {
        if inner.is_empty() {
            let mut elements = T::read_array(item, array, reader)?;
            let found = elements.len();
            if to.is_empty() {
                *to = elements
            } else {
                to.append(&mut elements)
            }
            found
        } else {
            reader.array_of(item, array, |from, reader| read_rows(item, from.object(), inner, reader, to))?.len()
        }
    };
    match extent.replace(found) {
        Some(expected) if expected != found => {
            Err(ReadError::misshapen(counted(expected, "element"), found.to_string()))
        }
        _ => Ok(()),
    }
}
