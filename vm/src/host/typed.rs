//! Host functions of closures with types of Rust.

use super::{HostCall, HostError, HostFunction};
use crate::flat::LeafKind;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

/// What a closure may take and give: `f64`, `i64`, `bool`, a vector or a [`Tensor`](crate::typed::Tensor) of one of
/// these, `()`, and tuples of such.
pub trait HostValue: Sized + 'static {
    /// Its tangents and cotangents: of the same type if it is real, `()` if it is discrete, and a tuple of those of its
    /// parts.
    type Tangent: HostValue;

    #[doc(hidden)]
    fn kinds(out: &mut Vec<LeafKind>);
    #[doc(hidden)]
    fn read(call: &HostCall<'_>, next: &mut usize) -> Result<Self, HostError>;
    #[doc(hidden)]
    fn give(self, call: &mut HostCall<'_>) -> Result<(), HostError>;
}

/// Defines how numbers and vectors of numbers are read and given.
macro_rules! leaves {
    ($( $ty:ty, $tangent:ty, $kind:ident, |$call:ident, $n:ident| $read:expr, |$value:ident| $give:expr; )*) => { $(
        impl HostValue for $ty {
            type Tangent = $tangent;

            fn kinds(out: &mut Vec<LeafKind>) {
                out.push(LeafKind::$kind);
            }

            fn read($call: &HostCall<'_>, next: &mut usize) -> Result<Self, HostError> {
                let $n = *next;
                *next += 1;
                Ok($read)
            }

            fn give(self, call: &mut HostCall<'_>) -> Result<(), HostError> {
                let $value = self;
                call.give($give)
            }
        }
    )* };
}
leaves! {
    f64, f64, Real, |call, n| call.real(n), |x| x;
    i64, (), Int, |call, n| call.int(n), |n| n;
    bool, (), Bool, |call, n| call.int(n) != 0, |b| b;
    Vec<f64>, Vec<f64>, Reals, |call, n| call.reals(n).to_vec(), |xs| &xs;
    Vec<i64>, (), Ints, |call, n| call.ints(n).to_vec(), |ns| &ns;
    Vec<bool>, (), Bools, |call, n| call.ints(n).iter().map(|&n| n != 0).collect(),
        |bs| &bs.iter().map(|&b| i64::from(b)).collect::<Vec<i64>>();
}

impl HostValue for () {
    type Tangent = ();

    fn kinds(_: &mut Vec<LeafKind>) {}

    fn read(_: &HostCall<'_>, _: &mut usize) -> Result<Self, HostError> {
        Ok(())
    }

    fn give(self, _: &mut HostCall<'_>) -> Result<(), HostError> {
        Ok(())
    }
}

/// What a closure gives: a value, or a `Result` of one with an error that can be shown.
pub trait HostResult {
    /// The value.
    type Value: HostValue;

    #[doc(hidden)]
    fn into_result(self) -> Result<Self::Value, HostError>;
}

impl<V: HostValue> HostResult for V {
    type Value = V;

    fn into_result(self) -> Result<V, HostError> {
        Ok(self)
    }
}

impl<V: HostValue, E: fmt::Display> HostResult for Result<V, E> {
    type Value = V;

    fn into_result(self) -> Result<V, HostError> {
        self.map_err(HostError::new)
    }
}

/// A closure with these parameters.
pub trait HostFn<P, R>: Send + Sync + 'static {
    #[doc(hidden)]
    fn call(&self, params: P) -> R;
}

/// The parameters of a closure, as a tuple.
pub trait HostParams: HostValue {
    /// What a vjp gives: the cotangent of the only parameter, or a tuple of those of all.
    type Gradient: HostValue;
    /// What a vjp takes: these, and a cotangent.
    type WithCotangent<T: HostValue>;
    /// What a jvp takes: these, and the tangents of all.
    type WithTangents;
}

/// Tuples of values.
macro_rules! tuples {
    ($( ($($name:ident),+) )*) => { $(
        impl<$($name: HostValue),+> HostValue for ($($name,)+) {
            type Tangent = ($($name::Tangent,)+);

            fn kinds(out: &mut Vec<LeafKind>) {
                $( $name::kinds(out); )+
            }

            fn read(call: &HostCall<'_>, next: &mut usize) -> Result<Self, HostError> {
                Ok(($($name::read(call, next)?,)+))
            }

            #[allow(non_snake_case, reason = "values are named by their types")]
            fn give(self, call: &mut HostCall<'_>) -> Result<(), HostError> {
                let ($($name,)+) = self;
                $( $name.give(call)?; )+
                Ok(())
            }
        }

        impl<FF, RR, $($name),+> HostFn<($($name,)+), RR> for FF
        where
            FF: Fn($($name),+) -> RR + Send + Sync + 'static,
        {
            #[allow(non_snake_case, reason = "values are named by their types")]
            fn call(&self, ($($name,)+): ($($name,)+)) -> RR {
                self($($name),+)
            }
        }
    )* };
}
tuples! {
    (A)
    (A, B)
    (A, B, C)
    (A, B, C, D)
    (A, B, C, D, E)
    (A, B, C, D, E, F)
    (A, B, C, D, E, F, G)
    (A, B, C, D, E, F, G, H)
    (A, B, C, D, E, F, G, H, I)
    (A, B, C, D, E, F, G, H, I, J)
    (A, B, C, D, E, F, G, H, I, J, K)
    (A, B, C, D, E, F, G, H, I, J, K, L)
}

/// Tuples of parameters.
macro_rules! params {
    ($( ($($name:ident),+) )*) => { $(
        impl<$($name: HostValue),+> HostParams for ($($name,)+) {
            type Gradient = params!(@gradient $($name),+);
            type WithCotangent<T: HostValue> = ($($name,)+ T);
            type WithTangents = ($($name,)+ $($name::Tangent,)+);
        }
    )* };
    (@gradient $only:ident) => { $only::Tangent };
    (@gradient $($name:ident),+) => { ($($name::Tangent,)+) };
}
params! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

fn kinds<V: HostValue>() -> Vec<LeafKind> {
    let mut kinds = Vec::new();
    V::kinds(&mut kinds);
    kinds
}

/// A function of closures with types of Rust: what [`HostFunction::of`] makes.
#[derive(Clone, Debug)]
pub struct TypedHostFunction<P, R> {
    function: HostFunction,
    types: PhantomData<fn(P) -> R>,
}

impl<P: HostParams, R: HostResult> TypedHostFunction<P, R> {
    pub(super) fn new<F: HostFn<P, R>>(call: F) -> Self {
        TypedHostFunction::of(function(call))
    }

    fn of(function: HostFunction) -> Self {
        TypedHostFunction { function, types: PhantomData }
    }

    /// The function with a vjp: a closure that takes what the function takes and a cotangent of the result, and gives
    /// the cotangent of the parameter, or a tuple of those of all parameters. Where something is discrete, its
    /// cotangent is `()`.
    ///
    /// ```
    /// use dualvm_vm::host::HostFunction;
    ///
    /// let power = HostFunction::of(|x: f64, n: i64| x.powi(n as i32))
    ///     .with_vjp(|x: f64, n: i64, y_adj: f64| (y_adj * n as f64 * x.powi(n as i32 - 1), ()));
    /// ```
    pub fn with_vjp<G, F>(self, vjp: F) -> Self
    where
        F: HostFn<P::WithCotangent<<R::Value as HostValue>::Tangent>, G>,
        P::WithCotangent<<R::Value as HostValue>::Tangent>: HostValue,
        G: HostResult<Value = P::Gradient>,
    {
        let vjp = function(vjp);
        TypedHostFunction::of(self.function.with_vjp(vjp).expect("the types are those of the derivative"))
    }

    /// The function with a jvp: a closure that takes what the function takes and the tangents of all that, and gives
    /// the tangent of the result. The tangent of what is discrete is `()`.
    ///
    /// ```
    /// use dualvm_vm::host::HostFunction;
    ///
    /// let product = HostFunction::of(|x: f64, y: f64| x * y)
    ///     .with_jvp(|x: f64, y: f64, x_tan: f64, y_tan: f64| x_tan * y + x * y_tan);
    /// ```
    pub fn with_jvp<G, F>(self, jvp: F) -> Self
    where
        F: HostFn<P::WithTangents, G>,
        P::WithTangents: HostValue,
        G: HostResult<Value = <R::Value as HostValue>::Tangent>,
    {
        let jvp = function(jvp);
        TypedHostFunction::of(self.function.with_jvp(jvp).expect("the types are those of the derivative"))
    }

    /// The function with a vjp that wants something of the call itself, an `S`: where the call is recorded, `call` runs
    /// in the place of the function and gives the result and that; the vjp takes it and a cotangent of the result. The
    /// tape has what was saved, and drops it when it goes, whatever the run has come to.
    ///
    /// ```
    /// use dualvm_vm::host::HostFunction;
    ///
    /// // The derivative of an exponential is its value.
    /// let exp = HostFunction::of(|x: f64| x.exp())
    ///     .with_saving_vjp(|x: f64| Ok((x.exp(), x.exp())), |y: &f64, y_adj: f64| Ok(y_adj * y));
    /// ```
    pub fn with_saving_vjp<S, F, G>(self, call: F, vjp: G) -> Self
    where
        S: Any + Send + Sync,
        F: HostFn<P, Result<(R::Value, S), HostError>> + Clone,
        G: Fn(&S, <R::Value as HostValue>::Tangent) -> Result<P::Gradient, HostError> + Send + Sync + 'static,
    {
        let mut params = kinds::<P>();
        params.extend(kinds::<<R::Value as HostValue>::Tangent>());
        let again = call.clone();
        let vjp = HostFunction::flat(&params, &kinds::<P::Gradient>(), move |to| {
            let mut next = 0;
            let args = P::read(to, &mut next)?;
            let cotangent = <R::Value as HostValue>::Tangent::read(to, &mut next)?;
            let gradient = match to.saved::<S>() {
                Some(saved) => vjp(saved, cotangent)?,
                None => vjp(&again.call(args)?.1, cotangent)?,
            };
            gradient.give(to)
        });
        let saving = move |to: &mut HostCall<'_>| {
            let (value, saved) = call.call(P::read(to, &mut 0)?)?;
            value.give(to)?;
            Ok(saved)
        };
        let function = self.function.with_saving_vjp(saving, vjp);
        TypedHostFunction::of(function.expect("the types are those of the derivative"))
    }
}

/// A closure as a host function.
fn function<P: HostValue, R: HostResult, F: HostFn<P, R>>(call: F) -> HostFunction {
    HostFunction::flat(&kinds::<P>(), &kinds::<R::Value>(), move |to| {
        call.call(P::read(to, &mut 0)?).into_result()?.give(to)
    })
}

impl<P, R> From<TypedHostFunction<P, R>> for HostFunction {
    fn from(typed: TypedHostFunction<P, R>) -> Self {
        typed.function
    }
}
