//! Types of Rust that stand for types of programs: what each has to do, and numbers. Tuples are in `parts`, arrays and
//! lists in `sequences`, matrices in `matrix`, arrays with a shape of their own, also of other crates, in `shaped`.
//!
//! The hidden methods name types that nobody outside can name, so that nobody outside can implement the traits; calls
//! rely on `check`.

mod matrix;
mod parts;
mod sequences;
mod shaped;

pub use matrix::{Matrix, ShapeMismatch};
pub use shaped::{Element, OwnedArray, ShapedArray, Tensor};

use super::TypeMismatch;
use super::tangents::{Several, Tangents};
use crate::bytecode::module::HostType;
use crate::embedding::convert::{Cursor, FlattenError, ReadError, Reader};
use crate::embedding::engine::Wrt;
use crate::embedding::flat::ArgumentWriter;
use crate::memory::heap::Ref;
use crate::trap::Limit;
use sequences::vectors;

/// A type that stands for a parameter's type, or for a part of it. [The module's page](super) lists them; there are no
/// others.
pub trait Argument: Sized {
    /// What stands in a gradient for an argument of this type.
    type Gradient;
    /// What stands in a gradient for an array or a list of these: a vector, or nothing if they are discrete.
    type Gradients;
    /// What the tangent of an argument of this type is: the same with `()` in the place of what is discrete.
    type Tangent;
    /// What the tangent of a slice of these is: a slice of tangents, or nothing if they are discrete.
    type TangentSlice<'t>: Several<Self::Tangent>
    where
        Self: 't;
    /// The same of a vector.
    type TangentVec: Several<Self::Tangent>;
    /// The same of a matrix.
    type TangentMatrix<'t>: Several<Self::Tangent>
    where
        Self: 't;
    #[doc(hidden)]
    fn name() -> String;
    #[doc(hidden)]
    fn check(ty: &HostType) -> Result<(), TypeMismatch>;
    /// Writes the argument. `check` has accepted the type: a handle sees to that. Slices that are written are parts of
    /// the argument and nothing made for the occasion: they may be read until the call has ended.
    #[doc(hidden)]
    fn write(&self, ty: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit>;
    #[doc(hidden)]
    fn gradient(&self, adjoints: &mut Adjoints<'_>) -> Self::Gradient;
    #[doc(hidden)]
    #[inline]
    fn gradient_into(&self, adjoints: &mut Adjoints<'_>, to: &mut Self::Gradient) {
        *to = self.gradient(adjoints);
    }
    #[doc(hidden)]
    fn extent(&self) -> Extent;

    /// Writes an array of these, which are of the type `element`.
    #[doc(hidden)]
    #[inline]
    fn write_array(items: &[Self], element: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        // SAFETY: `check` has accepted the element's type.
        unsafe { to.array(element, items.len(), |n, to| items[n].write(element, to)) }
    }
    /// The same as a list.
    #[doc(hidden)]
    #[inline]
    fn write_list(items: &[Self], element: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        // SAFETY: `check` has accepted the element's type.
        unsafe { to.list(element, items.len(), |n, to| items[n].write(element, to)) }
    }
    #[doc(hidden)]
    fn gradients(items: &[Self], adjoints: &mut Adjoints<'_>) -> Self::Gradients;
    #[doc(hidden)]
    fn gradients_into(items: &[Self], adjoints: &mut Adjoints<'_>, to: &mut Self::Gradients);
    #[doc(hidden)]
    fn extent_of(items: &[Self]) -> Extent {
        // Nothing in what takes no memory has a derivative, however many they are.
        let items = if size_of::<Self>() == 0 { &[] } else { items };
        items.iter().fold(Extent::VECTOR, |sum, item| sum.and(item.extent()))
    }

    /// Takes the reals of a tangent of the argument, if it is of the argument's shape.
    #[doc(hidden)]
    fn tangent(&self, tangent: &Self::Tangent, to: &mut Tangents<'_>) -> Result<(), FlattenError>;
    /// The same for an array or a list of these, of which there are as many as tangents.
    #[doc(hidden)]
    fn tangents(items: &[Self], tangents: &[Self::Tangent], to: &mut Tangents<'_>) -> Result<(), FlattenError> {
        to.elements(items, tangents)
    }
}

/// A tuple with a type for each parameter, up to 8.
pub trait Arguments {
    /// A tuple with what stands for each argument in a gradient.
    type Gradient;
    /// A tuple with the tangent of each argument.
    type Tangent;
    /// A slice for each argument's gradient: `[&mut [f64]; N]`.
    type Slices<'g>: AsMut<[&'g mut [f64]]>;
    #[doc(hidden)]
    fn check(params: &[(String, HostType)]) -> Result<(), TypeMismatch>;
    #[doc(hidden)]
    fn write(&self, params: &[(String, HostType)], wrt: &Wrt, to: &mut ArgumentWriter<'_>) -> Result<(), Limit>;
    #[doc(hidden)]
    fn gradient(&self, adjoints: &mut Adjoints<'_>) -> Self::Gradient;
    #[doc(hidden)]
    fn gradient_into(&self, adjoints: &mut Adjoints<'_>, to: &mut Self::Gradient);
    /// That of the argument of this number.
    #[doc(hidden)]
    fn extent(&self, parameter: usize) -> Extent;
    /// That of the gradient with respect to these parameters.
    #[doc(hidden)]
    fn extent_of_gradient(&self, wrt: &Wrt) -> Extent;
    /// Takes the reals of tangents of the arguments.
    #[doc(hidden)]
    fn tangents(
        &self,
        params: &[(String, HostType)],
        wrt: &Wrt,
        tangents: &Self::Tangent,
        to: &mut Tangents<'_>,
    ) -> Result<(), FlattenError>;
}

/// A type that stands for a result's type, or for a part of it. [The module's page](super) lists them; there are no
/// others.
pub trait Output: Argument {
    /// # Safety
    /// `from` leads to a value of a type that `check` has accepted.
    #[doc(hidden)]
    unsafe fn read(ty: &HostType, from: &mut Cursor<'_>, reader: &mut Reader<'_>) -> Result<Self, ReadError>;
    /// Reads an array of these.
    ///
    /// # Safety
    /// `array` is a complete array of elements of the type `element`, which `check` has accepted.
    #[doc(hidden)]
    unsafe fn read_array(element: &HostType, array: Ref, reader: &mut Reader<'_>) -> Result<Vec<Self>, ReadError> {
        // SAFETY: promised by the caller.
        unsafe { reader.array_of(element, array, |from, reader| Self::read(element, from, reader)) }
    }
    /// Reads a list of these.
    ///
    /// # Safety
    /// `list` is a complete list of elements of the type `element`, which `check` has accepted.
    #[doc(hidden)]
    unsafe fn read_list(element: &HostType, list: Ref, reader: &mut Reader<'_>) -> Result<Vec<Self>, ReadError> {
        // SAFETY: promised by the caller.
        unsafe { reader.list_of(list, |from, reader| Self::read(element, from, reader)) }
    }
    /// The tangent that was read as a value of this type.
    #[doc(hidden)]
    fn into_tangent(self) -> Self::Tangent;
    /// The same for an array or a list of these.
    #[doc(hidden)]
    fn into_tangents(items: Vec<Self>) -> Self::TangentVec;
}

/// The adjoints of the arguments' reals, in the order in which they were written.
#[derive(Debug)]
pub struct Adjoints<'a> {
    left: &'a [f64],
    wrt: &'a Wrt,
    /// Whether the derivatives that are read now were asked for.
    active: bool,
}

impl<'a> Adjoints<'a> {
    /// `adjoints` are those of all slots; slot 0 is that of constants.
    pub(super) fn new(adjoints: &'a [f64], wrt: &'a Wrt) -> Self {
        Adjoints { left: &adjoints[1..], wrt, active: true }
    }

    /// Goes on with those of this parameter.
    #[inline]
    pub(super) fn of(&mut self, parameter: usize) -> &mut Self {
        self.active = self.wrt.has(parameter);
        self
    }

    /// So many of them; none if they were not asked for.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> &'a [f64] {
        let (taken, left) = self.left.split_at(if self.active { count } else { 0 });
        self.left = left;
        taken
    }
}

/// How large a gradient is.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Reals in it.
    pub(super) reals: usize,
    /// Vectors in it, inner ones included.
    vectors: usize,
}

impl Extent {
    const NOTHING: Extent = Extent { reals: 0, vectors: 0 };
    const REAL: Extent = Extent::reals(1);
    /// A vector with nothing in it.
    const VECTOR: Extent = Extent { reals: 0, vectors: 1 };

    const fn reals(reals: usize) -> Extent {
        Extent { reals, vectors: 0 }
    }

    /// Both together.
    #[inline]
    const fn and(self, other: Extent) -> Extent {
        Extent { reals: self.reals.saturating_add(other.reals), vectors: self.vectors.saturating_add(other.vectors) }
    }

    /// What it takes in memory.
    pub(super) const fn bytes(self) -> usize {
        /// A vector, and what an allocation takes besides its content.
        const VECTOR_BYTES: usize = size_of::<Vec<f64>>() + 32;
        let vectors = self.vectors.saturating_mul(VECTOR_BYTES);
        self.reals.saturating_mul(size_of::<f64>()).saturating_add(vectors)
    }
}

#[cold]
fn mismatch(expected: &HostType, found: String) -> TypeMismatch {
    TypeMismatch::Type { function: String::new(), place: String::new(), expected: expected.clone(), found }
}

fn check_that(fits: bool, ty: &HostType, name: fn() -> String) -> Result<(), TypeMismatch> {
    if fits { Ok(()) } else { Err(mismatch(ty, name())) }
}

/// The tangents of several arguments: what all types have in common that have a tangent.
macro_rules! tangents {
    () => {
        type TangentSlice<'t>
            = &'t [Self::Tangent]
        where
            Self: 't;
        type TangentVec = Vec<Self::Tangent>;
        type TangentMatrix<'t>
            = crate::embedding::typed::types::Matrix<'t, Self::Tangent>
        where
            Self: 't;
    };
}
use tangents;

impl Argument for f64 {
    type Gradient = f64;
    type Gradients = Vec<f64>;
    type Tangent = f64;
    tangents!();
    fn name() -> String {
        "f64".into()
    }
    fn check(ty: &HostType) -> Result<(), TypeMismatch> {
        check_that(ty.is_real(), ty, <f64 as Argument>::name)
    }
    #[inline]
    fn write(&self, _: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        to.real(*self)
    }
    #[inline]
    fn gradient(&self, adjoints: &mut Adjoints<'_>) -> f64 {
        adjoints.take(1).first().map_or(0.0, |&adjoint| adjoint)
    }
    #[inline]
    fn extent(&self) -> Extent {
        Extent::REAL
    }

    #[inline]
    fn write_array(items: &[f64], _: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        to.real_array(items)
    }
    #[inline]
    fn write_list(items: &[f64], _: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        to.real_list(items)
    }
    #[inline]
    fn gradients(items: &[f64], adjoints: &mut Adjoints<'_>) -> Vec<f64> {
        adjoints.take(items.len()).to_vec()
    }
    #[inline]
    fn gradients_into(items: &[f64], adjoints: &mut Adjoints<'_>, to: &mut Vec<f64>) {
        adjoints.take(items.len()).clone_into(to);
    }
    #[inline]
    fn extent_of(items: &[f64]) -> Extent {
        Extent::VECTOR.and(Extent::reals(items.len()))
    }
    #[inline]
    fn tangent(&self, tangent: &f64, to: &mut Tangents<'_>) -> Result<(), FlattenError> {
        to.real(*tangent)
    }
    fn tangents(_: &[f64], tangents: &[f64], to: &mut Tangents<'_>) -> Result<(), FlattenError> {
        to.reals(tangents)
    }
}

impl Output for f64 {
    #[inline]
    unsafe fn read(_: &HostType, from: &mut Cursor<'_>, reader: &mut Reader<'_>) -> Result<f64, ReadError> {
        reader.real(from)
    }
    unsafe fn read_array(_: &HostType, array: Ref, reader: &mut Reader<'_>) -> Result<Vec<f64>, ReadError> {
        // SAFETY: promised by the caller.
        unsafe { reader.real_array(array) }
    }
    unsafe fn read_list(_: &HostType, list: Ref, reader: &mut Reader<'_>) -> Result<Vec<f64>, ReadError> {
        // SAFETY: promised by the caller.
        unsafe { reader.real_list(list) }
    }
    fn into_tangent(self) -> f64 {
        self
    }
    fn into_tangents(items: Vec<f64>) -> Vec<f64> {
        items
    }
}

/// What all that is discrete has in common as an argument.
macro_rules! discrete {
    ($rust:ident, $host:ident, $write:expr) => {
        type Gradient = ();
        type Gradients = ();
        type Tangent = ();
        type TangentSlice<'t> = ();
        type TangentVec = ();
        type TangentMatrix<'t> = ();
        fn name() -> String {
            stringify!($rust).into()
        }
        fn check(ty: &HostType) -> Result<(), TypeMismatch> {
            check_that(matches!(ty, HostType::$host), ty, <$rust as Argument>::name)
        }
        #[inline]
        fn write(&self, _: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
            to.int($write(*self));
            Ok(())
        }
        #[inline]
        fn gradient(&self, _: &mut Adjoints<'_>) {}
        #[inline]
        fn extent(&self) -> Extent {
            Extent::NOTHING
        }
        #[inline]
        fn gradients(_: &[Self], _: &mut Adjoints<'_>) {}
        #[inline]
        fn gradients_into(_: &[Self], _: &mut Adjoints<'_>, _: &mut ()) {}
        #[inline]
        fn extent_of(_: &[Self]) -> Extent {
            Extent::NOTHING
        }
        #[inline]
        fn tangent(&self, (): &(), _: &mut Tangents<'_>) -> Result<(), FlattenError> {
            Ok(())
        }
    };
}

impl Argument for i64 {
    discrete!(i64, Int, |n: i64| n);
    #[inline]
    fn write_array(items: &[i64], _: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        to.int_array(items)
    }
    #[inline]
    fn write_list(items: &[i64], _: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        to.int_list(items)
    }
}

impl Argument for bool {
    discrete!(bool, Bool, i64::from);
}

impl Output for i64 {
    #[inline]
    unsafe fn read(_: &HostType, from: &mut Cursor<'_>, _: &mut Reader<'_>) -> Result<i64, ReadError> {
        Ok(from.int())
    }
    unsafe fn read_array(_: &HostType, array: Ref, reader: &mut Reader<'_>) -> Result<Vec<i64>, ReadError> {
        // SAFETY: promised by the caller.
        unsafe { reader.int_array(array) }
    }
    unsafe fn read_list(_: &HostType, list: Ref, reader: &mut Reader<'_>) -> Result<Vec<i64>, ReadError> {
        let mut ints = Vec::new();
        // SAFETY: promised by the caller.
        unsafe { reader.int_list_into(list, &mut ints) }?;
        Ok(ints)
    }
    fn into_tangent(self) {}
    fn into_tangents(_: Vec<i64>) {}
}

impl Output for bool {
    #[inline]
    unsafe fn read(_: &HostType, from: &mut Cursor<'_>, _: &mut Reader<'_>) -> Result<bool, ReadError> {
        Ok(from.int() != 0)
    }
    fn into_tangent(self) {}
    fn into_tangents(_: Vec<bool>) {}
}
