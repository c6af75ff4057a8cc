//! Types of Rust that stand for types of programs.
//!
//! The hidden methods name types that nobody outside can name, so that nobody outside can implement the traits; calls
//! rely on `check`.

use super::TypeMismatch;
use crate::bytecode::module::HostType;
use crate::embedding::convert::{Cursor, ReadError, Reader};
use crate::embedding::engine::Wrt;
use crate::embedding::flat::ArgumentWriter;
use crate::trap::Limit;

/// A type that stands for a parameter's type, or for a part of it. [The module's page](super) lists them; there are no
/// others.
pub trait Argument {
    /// What stands in a gradient for an argument of this type.
    type Gradient;
    #[doc(hidden)]
    fn name() -> String;
    #[doc(hidden)]
    fn check(ty: &HostType) -> Result<(), TypeMismatch>;
    #[doc(hidden)]
    fn write(&self, ty: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit>;
    #[doc(hidden)]
    fn gradient(&self, adjoints: &mut Adjoints<'_>) -> Self::Gradient;
    #[doc(hidden)]
    #[inline]
    fn gradient_into(&self, adjoints: &mut Adjoints<'_>, to: &mut Self::Gradient) {
        *to = self.gradient(adjoints);
    }
}

/// A tuple with a type for each parameter, up to 8.
pub trait Arguments {
    /// A tuple with what stands for each argument in a gradient.
    type Gradient;
    #[doc(hidden)]
    fn check(params: &[(String, HostType)]) -> Result<(), TypeMismatch>;
    #[doc(hidden)]
    fn write(&self, params: &[(String, HostType)], wrt: &Wrt, to: &mut ArgumentWriter<'_>) -> Result<(), Limit>;
    #[doc(hidden)]
    fn gradient(&self, adjoints: &mut Adjoints<'_>) -> Self::Gradient;
    #[doc(hidden)]
    fn gradient_into(&self, adjoints: &mut Adjoints<'_>, to: &mut Self::Gradient);
}

/// A type that stands for a result's type, or for a part of it. [The module's page](super) lists them; there are no
/// others.
pub trait Output: Sized {
    #[doc(hidden)]
    fn name() -> String;
    #[doc(hidden)]
    fn check(ty: &HostType) -> Result<(), TypeMismatch>;
    /// # Safety
    /// `from` leads to a value of a type that `check` has accepted.
    #[doc(hidden)]
    unsafe fn read(ty: &HostType, from: &mut Cursor<'_>, reader: &mut Reader<'_>) -> Result<Self, ReadError>;
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
    fn of(&mut self, parameter: usize) -> &mut Self {
        self.active = self.wrt.has(parameter);
        self
    }

    /// So many of them; none if they were not asked for.
    fn take(&mut self, count: usize) -> &'a [f64] {
        let (taken, left) = self.left.split_at(if self.active { count } else { 0 });
        self.left = left;
        taken
    }
}

#[cold]
fn mismatch(expected: &HostType, found: String) -> TypeMismatch {
    TypeMismatch::Type { function: String::new(), place: String::new(), expected: expected.clone(), found }
}

fn check_that(fits: bool, ty: &HostType, name: fn() -> String) -> Result<(), TypeMismatch> {
    if fits { Ok(()) } else { Err(mismatch(ty, name())) }
}

/// The types of the parts of a type that is known to be a tuple.
fn parts(ty: &HostType) -> &[HostType] {
    match ty {
        HostType::Tuple(types) => types,
        _ => unreachable!("the handle has compared the types"),
    }
}

impl Argument for f64 {
    type Gradient = f64;
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
}

impl Output for f64 {
    fn name() -> String {
        "f64".into()
    }
    fn check(ty: &HostType) -> Result<(), TypeMismatch> {
        <f64 as Argument>::check(ty)
    }
    #[inline]
    unsafe fn read(_: &HostType, from: &mut Cursor<'_>, reader: &mut Reader<'_>) -> Result<f64, ReadError> {
        reader.real(from)
    }
}

macro_rules! discrete {
    ($rust:ident, $host:ident, $write:expr, $read:expr) => {
        impl Argument for $rust {
            type Gradient = ();
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
        }

        impl Output for $rust {
            fn name() -> String {
                stringify!($rust).into()
            }
            fn check(ty: &HostType) -> Result<(), TypeMismatch> {
                <$rust as Argument>::check(ty)
            }
            #[inline]
            unsafe fn read(_: &HostType, from: &mut Cursor<'_>, _: &mut Reader<'_>) -> Result<$rust, ReadError> {
                Ok($read(from.int()))
            }
        }
    };
}
discrete!(i64, Int, |n: i64| n, |n: i64| n);
discrete!(bool, Bool, i64::from, |n: i64| n != 0);

/// Arrays and lists of reals.
macro_rules! reals {
    ($([$($lifetime:lifetime)?] $rust:ty = $name:literal),+) => {$(
        impl $(<$lifetime>)? Argument for $rust {
            type Gradient = Vec<f64>;
            fn name() -> String {
                $name.into()
            }
            fn check(ty: &HostType) -> Result<(), TypeMismatch> {
                check_that(is_reals(ty), ty, <$rust as Argument>::name)
            }
            #[inline]
            fn write(&self, ty: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
                match ty {
                    HostType::Array { .. } => to.real_array(self),
                    _ => to.real_list(self),
                }
            }
            #[inline]
            fn gradient(&self, adjoints: &mut Adjoints<'_>) -> Vec<f64> {
                adjoints.take(self.len()).to_vec()
            }
            #[inline]
            fn gradient_into(&self, adjoints: &mut Adjoints<'_>, to: &mut Vec<f64>) {
                adjoints.take(self.len()).clone_into(to);
            }
        }
    )+};
}
reals!(['a] &'a [f64] = "&[f64]", ['a] &'a Vec<f64> = "&Vec<f64>", [] Vec<f64> = "Vec<f64>");

fn is_reals(ty: &HostType) -> bool {
    match ty {
        HostType::Array { element, .. } | HostType::List { element, .. } => element.is_real(),
        _ => false,
    }
}

impl Output for Vec<f64> {
    fn name() -> String {
        "Vec<f64>".into()
    }
    fn check(ty: &HostType) -> Result<(), TypeMismatch> {
        <Vec<f64> as Argument>::check(ty)
    }
    unsafe fn read(ty: &HostType, from: &mut Cursor<'_>, reader: &mut Reader<'_>) -> Result<Vec<f64>, ReadError> {
        let object = from.object();
        // SAFETY: the reference leads to an array or to a list of reals, which the caller promises.
        unsafe {
            match ty {
                HostType::Array { .. } => reader.real_array(object),
                _ => reader.real_list(object),
            }
        }
    }
}

impl<const N: usize> Argument for [f64; N] {
    type Gradient = [f64; N];
    fn name() -> String {
        format!("[f64; {N}]")
    }
    fn check(ty: &HostType) -> Result<(), TypeMismatch> {
        let reals = |types: &Vec<HostType>| types.len() == N && types.iter().all(|ty| ty.is_real());
        check_that(matches!(ty, HostType::Tuple(types) if reals(types)), ty, <[f64; N] as Argument>::name)
    }
    #[inline]
    fn write(&self, _: &HostType, to: &mut ArgumentWriter<'_>) -> Result<(), Limit> {
        self.iter().try_for_each(|&x| to.real(x))
    }
    #[inline]
    fn gradient(&self, adjoints: &mut Adjoints<'_>) -> [f64; N] {
        let reals = adjoints.take(N);
        std::array::from_fn(|n| reals.get(n).map_or(0.0, |&adjoint| adjoint))
    }
}

impl<const N: usize> Output for [f64; N] {
    fn name() -> String {
        <[f64; N] as Argument>::name()
    }
    fn check(ty: &HostType) -> Result<(), TypeMismatch> {
        <[f64; N] as Argument>::check(ty)
    }
    #[inline]
    unsafe fn read(_: &HostType, from: &mut Cursor<'_>, reader: &mut Reader<'_>) -> Result<[f64; N], ReadError> {
        let mut reals = [0.0; N];
        for x in &mut reals {
            *x = reader.real(from)?;
        }
        Ok(reals)
    }
}

/// Tuples as lists of parameters, as parts of arguments, and as results.
macro_rules! tuples {
    ($($count:literal: $($part:ident $n:tt)*;)+) => {$(
        #[allow(unused_variables, clippy::unused_unit, reason = "the empty tuple has no parts")]
        impl<$($part: Argument),*> Arguments for ($($part,)*) {
            type Gradient = ($($part::Gradient,)*);
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
                    to.set_active(wrt.has($n));
                    self.$n.write(&params[$n].1, to)?;
                )*
                Ok(())
            }
            #[inline]
            fn gradient(&self, adjoints: &mut Adjoints<'_>) -> Self::Gradient {
                ($(self.$n.gradient(adjoints.of($n)),)*)
            }
            #[inline]
            fn gradient_into(&self, adjoints: &mut Adjoints<'_>, to: &mut Self::Gradient) {
                $(self.$n.gradient_into(adjoints.of($n), &mut to.$n);)*
            }
        }

        #[allow(unused_variables, clippy::unused_unit, reason = "the empty tuple has no parts")]
        impl<$($part: Argument),*> Argument for ($($part,)*) {
            type Gradient = ($($part::Gradient,)*);
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
        }

        #[allow(unused_variables, unused_unsafe, clippy::unused_unit, reason = "the empty tuple has no parts")]
        impl<$($part: Output),*> Output for ($($part,)*) {
            fn name() -> String {
                tuple_name(&[$($part::name()),*])
            }
            fn check(ty: &HostType) -> Result<(), TypeMismatch> {
                match ty {
                    HostType::Tuple(types) if types.len() == $count => {
                        $($part::check(&types[$n]).map_err(|part| part.at(concat!(".", $n)))?;)*
                        Ok(())
                    }
                    _ => Err(mismatch(ty, <Self as Output>::name())),
                }
            }
            #[inline]
            unsafe fn read(ty: &HostType, from: &mut Cursor<'_>, reader: &mut Reader<'_>) -> Result<Self, ReadError> {
                let types = parts(ty);
                // SAFETY: `check` has compared the parts too, and the caller promises the rest.
                unsafe { Ok(($($part::read(&types[$n], from, reader)?,)*)) }
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
