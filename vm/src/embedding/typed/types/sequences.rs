//! Slices and vectors, which stand for arrays and lists.

use super::{Adjoints, Argument, Extent, Output, check_that, tangents};
use crate::bytecode::module::HostType;
use crate::embedding::convert::{Cursor, FlattenError, ReadError, Reader};
use crate::embedding::flat::ArgumentWriter;
use crate::embedding::typed::TypeMismatch;
use crate::embedding::typed::tangents::{Several, Tangents};
use crate::trap::Limit;

/// The gradients of several arguments as a vector: what all types have in common that have a gradient.
macro_rules! vectors {
    () => {
        type Gradients = Vec<Self::Gradient>;
        fn gradients(items: &[Self], adjoints: &mut Adjoints<'_>) -> Vec<Self::Gradient> {
            $crate::embedding::typed::types::sequences::vector(items, adjoints)
        }
        fn gradients_into(items: &[Self], adjoints: &mut Adjoints<'_>, to: &mut Vec<Self::Gradient>) {
            $crate::embedding::typed::types::sequences::vector_into(items, adjoints, to);
        }
    };
}
pub(super) use vectors;

/// Their gradients.
pub(super) fn vector<T: Argument>(items: &[T], adjoints: &mut Adjoints<'_>) -> Vec<T::Gradient> {
    asked_for(items, adjoints).iter().map(|item| item.gradient(adjoints)).collect()
}

/// The same over earlier ones, whose memory is kept.
pub(super) fn vector_into<T: Argument>(items: &[T], adjoints: &mut Adjoints<'_>, to: &mut Vec<T::Gradient>) {
    let items = asked_for(items, adjoints);
    to.truncate(items.len());
    let (before, new) = items.split_at(to.len());
    before.iter().zip(to.iter_mut()).for_each(|(item, to)| item.gradient_into(adjoints, to));
    to.extend(new.iter().map(|item| item.gradient(adjoints)));
}

/// Those whose gradient was asked for: vectors of others are empty.
fn asked_for<'a, T>(items: &'a [T], adjoints: &Adjoints<'_>) -> &'a [T] {
    if adjoints.active { items } else { &[] }
}

/// The type of an array's or a list's elements.
fn element_of(ty: &HostType) -> Option<&HostType> {
    match ty {
        HostType::Array { element, .. } | HostType::List { element, .. } => Some(element),
        _ => None,
    }
}

macro_rules! sequences {
    ($([$($lifetime:lifetime)?] $rust:ty, $tangent:ty = $name:literal),+) => {$(
        impl<$($lifetime,)? T: Argument> Argument for $rust {
            type Gradient = T::Gradients;
            vectors!();
            type Tangent = $tangent;
            tangents!();
            fn name() -> String {
                format!($name, T::name())
            }
            fn check(ty: &HostType) -> Result<(), TypeMismatch> {
                let fits = element_of(ty).is_some_and(|element| T::check(element).is_ok());
                check_that(fits, ty, <$rust as Argument>::name)
            }
            #[inline]
            fn write(&self, ty: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
                match ty {
                    HostType::Array { element, .. } => T::write_array(self, element, to),
                    HostType::List { element, .. } => T::write_list(self, element, to),
                    _ => unreachable!("the handle has compared the types"),
                }
            }
            #[inline]
            fn gradient(&self, adjoints: &mut Adjoints<'_>) -> T::Gradients {
                T::gradients(self, adjoints)
            }
            #[inline]
            fn gradient_into(&self, adjoints: &mut Adjoints<'_>, to: &mut T::Gradients) {
                T::gradients_into(self, adjoints, to);
            }
            #[inline]
            fn extent(&self) -> Extent {
                T::extent_of(self)
            }
            fn tangent(&self, tangent: &Self::Tangent, to: &mut Tangents<'_>) -> Result<(), FlattenError> {
                match tangent.several() {
                    Some((tangents, _)) => to.sequence(self, tangents),
                    None => Ok(()),
                }
            }
        }
    )+};
}
sequences!(
    ['a] &'a [T], T::TangentSlice<'a> = "&[{}]",
    ['a] &'a Vec<T>, T::TangentSlice<'a> = "&Vec<{}>",
    [] Vec<T>, T::TangentVec = "Vec<{}>"
);

impl<T: Output> Output for Vec<T> {
    unsafe fn read(ty: &HostType, from: &mut Cursor<'_>, reader: &mut Reader<'_>) -> Result<Vec<T>, ReadError> {
        let object = from.object();
        // SAFETY: the reference leads to an array or to a list of elements of this type, which the caller promises.
        unsafe {
            match ty {
                HostType::Array { element, .. } => T::read_array(element, object, reader),
                HostType::List { element, .. } => T::read_list(element, object, reader),
                _ => unreachable!("the handle has compared the types"),
            }
        }
    }
    fn into_tangent(self) -> T::TangentVec {
        T::into_tangents(self)
    }
    fn into_tangents(items: Vec<Vec<T>>) -> Vec<T::TangentVec> {
        items.into_iter().map(T::into_tangents).collect()
    }
}
