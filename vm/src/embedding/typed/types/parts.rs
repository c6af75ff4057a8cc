//! Tuples, as lists of parameters, as parts of arguments, and as results; arrays of Rust, which stand for tuples whose
//! parts are alike.

use super::{Adjoints, Argument, Arguments, Extent, Output, check_that, mismatch, tangents, vectors};
use crate::bytecode::module::HostType;
use crate::embedding::convert::{Cursor, FlattenError, ReadError, Reader};
use crate::embedding::engine::Wrt;
use crate::embedding::flat::ArgumentWriter;
use crate::embedding::typed::TypeMismatch;
use crate::embedding::typed::tangents::Tangents;
use crate::trap::Limit;

/// The types of the parts of a type that is known to be a tuple.
fn parts(ty: &HostType) -> &[HostType] {
    match ty {
        HostType::Tuple(types) => types,
        _ => unreachable!("the handle has compared the types"),
    }
}

/// Whether a type is a tuple of so many parts, all of which are accepted.
fn are_parts(ty: &HostType, count: usize, check: fn(&HostType) -> Result<(), TypeMismatch>) -> bool {
    matches!(ty, HostType::Tuple(types) if types.len() == count && types.iter().all(|ty| check(ty).is_ok()))
}

impl<T: Argument, const N: usize> Argument for [T; N] {
    type Gradient = [T::Gradient; N];
    vectors!();
    type Tangent = [T::Tangent; N];
    tangents!();
    fn name() -> String {
        format!("[{}; {N}]", T::name())
    }
    fn check(ty: &HostType) -> Result<(), TypeMismatch> {
        check_that(are_parts(ty, N, T::check), ty, <[T; N] as Argument>::name)
    }
    #[inline]
    fn write(&self, ty: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        self.iter().zip(parts(ty)).try_for_each(|(part, ty)| part.write(ty, to))
    }
    #[inline]
    fn gradient(&self, adjoints: &mut Adjoints<'_>) -> [T::Gradient; N] {
        std::array::from_fn(|n| self[n].gradient(adjoints))
    }
    #[inline]
    fn gradient_into(&self, adjoints: &mut Adjoints<'_>, to: &mut [T::Gradient; N]) {
        self.iter().zip(to).for_each(|(part, to)| part.gradient_into(adjoints, to));
    }
    #[inline]
    fn extent(&self) -> Extent {
        self.iter().fold(Extent::NOTHING, |sum, part| sum.and(part.extent()))
    }
    fn tangent(&self, tangent: &[T::Tangent; N], to: &mut Tangents<'_>) -> Result<(), FlattenError> {
        (0..N).try_for_each(|n| to.part(n, &self[n], &tangent[n]))
    }
}

impl<T: Output, const N: usize> Output for [T; N] {
    #[inline]
    unsafe fn read(ty: &HostType, from: &mut Cursor<'_>, reader: &mut Reader<'_>) -> Result<[T; N], ReadError> {
        let (types, mut failed) = (parts(ty), None);
        let read: [Option<T>; N] = std::array::from_fn(|n| {
            // After an error the cursor may stand in the middle of a part.
            if failed.is_some() {
                return None;
            }
            // SAFETY: `check` has compared the parts too, and the caller promises the rest.
            let part = unsafe { T::read(&types[n], from, reader) };
            part.map_err(|error| failed = Some(error.inside(&format!(".{n}")))).ok()
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(read.map(|part| part.expect("nothing has failed"))),
        }
    }
    fn into_tangent(self) -> [T::Tangent; N] {
        self.map(T::into_tangent)
    }
    fn into_tangents(items: Vec<[T; N]>) -> Vec<[T::Tangent; N]> {
        items.into_iter().map(Output::into_tangent).collect()
    }
}

macro_rules! tuples {
    ($($count:literal: $($part:ident $n:tt)*;)+) => {$(
        #[allow(unused_variables, clippy::unused_unit, reason = "the empty tuple has no parts")]
        impl<$($part: Argument),*> Arguments for ($($part,)*) {
            type Gradient = ($($part::Gradient,)*);
            type Tangent = ($($part::Tangent,)*);
            type Slices<'g> = [&'g mut [f64]; $count];
            fn check(params: &[(String, HostType)]) -> Result<(), TypeMismatch> {
                if params.len() != $count {
                    let expected = params.to_vec();
                    return Err(TypeMismatch::Count { function: String::new(), expected, found: $count });
                }
                $($part::check(&params[$n].1).map_err(|part| part.at(&format!("parameter {}", params[$n].0)))?;)*
                Ok(())
            }
            #[inline]
            fn write(
                &self,
                params: &[(String, HostType)],
                wrt: &Wrt,
                to: &mut ArgumentWriter<'_>,
            ) -> Result<(), Limit> {
                $(
                    to.begin($n, wrt.has($n))?;
                    self.$n.write(&params[$n].1, to)?;
                )*
                to.end($count)
            }
            #[inline]
            fn gradient(&self, adjoints: &mut Adjoints<'_>) -> Self::Gradient {
                ($(self.$n.gradient(adjoints.of($n)),)*)
            }
            #[inline]
            fn gradient_into(&self, adjoints: &mut Adjoints<'_>, to: &mut Self::Gradient) {
                $(self.$n.gradient_into(adjoints.of($n), &mut to.$n);)*
            }
            fn extent(&self, parameter: usize) -> Extent {
                match parameter {
                    $($n => self.$n.extent(),)*
                    _ => Extent::NOTHING,
                }
            }
            #[inline]
            fn extent_of_gradient(&self, wrt: &Wrt) -> Extent {
                Extent::NOTHING$(.and(if wrt.has($n) { self.$n.extent() } else { Extent::NOTHING }))*
            }
            fn tangents(
                &self,
                params: &[(String, HostType)],
                wrt: &Wrt,
                tangents: &Self::Tangent,
                to: &mut Tangents<'_>,
            ) -> Result<(), FlattenError> {
                $(to.argument((&params[$n].0, wrt.has($n)), &self.$n, &tangents.$n)?;)*
                Ok(())
            }
        }

        #[allow(unused_variables, clippy::unused_unit, reason = "the empty tuple has no parts")]
        impl<$($part: Argument),*> Argument for ($($part,)*) {
            type Gradient = ($($part::Gradient,)*);
            vectors!();
            type Tangent = ($($part::Tangent,)*);
            tangents!();
            fn name() -> String {
                tuple_name(&[$($part::name()),*])
            }
            fn check(ty: &HostType) -> Result<(), TypeMismatch> {
                match ty {
                    HostType::Tuple(types) if types.len() == $count => {
                        $($part::check(&types[$n]).map_err(|part| part.at(concat!(".", $n)))?;)*
                        Ok(())
                    }
                    _ => Err(mismatch(ty, <Self as Argument>::name())),
                }
            }
            #[inline]
            fn write(&self, ty: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
                let types = parts(ty);
                $(self.$n.write(&types[$n], to)?;)*
                Ok(())
            }
            #[inline]
            fn gradient(&self, adjoints: &mut Adjoints<'_>) -> Self::Gradient {
                ($(self.$n.gradient(adjoints),)*)
            }
            #[inline]
            fn gradient_into(&self, adjoints: &mut Adjoints<'_>, to: &mut Self::Gradient) {
                $(self.$n.gradient_into(adjoints, &mut to.$n);)*
            }
            #[inline]
            fn extent(&self) -> Extent {
                Extent::NOTHING$(.and(self.$n.extent()))*
            }
            fn tangent(&self, tangent: &Self::Tangent, to: &mut Tangents<'_>) -> Result<(), FlattenError> {
                $(to.part($n, &self.$n, &tangent.$n)?;)*
                Ok(())
            }
        }

        #[allow(unused_variables, clippy::unused_unit, reason = "the empty tuple has no parts")]
        impl<$($part: Output),*> Output for ($($part,)*) {
            #[inline]
            unsafe fn read(ty: &HostType, from: &mut Cursor<'_>, reader: &mut Reader<'_>) -> Result<Self, ReadError> {
                let types = parts(ty);
                Ok(($(
                    // SAFETY: `check` has compared the parts too, and the caller promises the rest.
                    unsafe { $part::read(&types[$n], from, reader) }
                        .map_err(|error| error.inside(concat!(".", $n)))?,
                )*))
            }
            fn into_tangent(self) -> Self::Tangent {
                ($(self.$n.into_tangent(),)*)
            }
            fn into_tangents(items: Vec<Self>) -> Vec<Self::Tangent> {
                items.into_iter().map(Output::into_tangent).collect()
            }
        }
    )+};
}
tuples! {
    0: ;
    1: A 0;
    2: A 0 B 1;
    3: A 0 B 1 C 2;
    4: A 0 B 1 C 2 D 3;
    5: A 0 B 1 C 2 D 3 E 4;
    6: A 0 B 1 C 2 D 3 E 4 F 5;
    7: A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    8: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

fn tuple_name(parts: &[String]) -> String {
    let comma = if parts.len() == 1 { "," } else { "" };
    format!("({}{comma})", parts.join(", "))
}
