//! Functions that are called with types of Rust, with the facade's errors.

use crate::Error;
use crate::vm::engine::{CallOptions, Stats};
use crate::vm::typed::{self, Arguments, Output};
use std::fmt;

/// A function whose parameters and result are of these types; [`Function::typed`](crate::Function::typed) makes it.
/// Cheap to clone, `Send` and `Sync`; it may be called from any number of threads at a time.
///
/// `Args` is a tuple with a type for each parameter: `(f64,)` for one, `()` for none. References in it may live as long
/// or as short as each call needs. [`typed`] says which type stands for what.
pub struct TypedFunction<Args, Ret>(typed::TypedFunction<Args, Ret>);

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<TypedFunction<(f64, &[f64]), f64>>();
};

impl<Args, Ret> Clone for TypedFunction<Args, Ret> {
    fn clone(&self) -> Self {
        TypedFunction(self.0.clone())
    }
}

impl<Args, Ret> fmt::Debug for TypedFunction<Args, Ret> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<Args, Ret> TypedFunction<Args, Ret> {
    pub(crate) fn new(function: typed::TypedFunction<Args, Ret>) -> Self {
        TypedFunction(function)
    }

    /// The function as the machine has it.
    pub(crate) fn machine(&self) -> &typed::TypedFunction<Args, Ret> {
        &self.0
    }
}

impl<Args: Arguments, Ret: Output> TypedFunction<Args, Ret> {
    /// Calls the function. Nothing is allocated but vectors in the result.
    ///
    /// # Errors
    /// [`ErrorKind::Trap`](crate::ErrorKind::Trap) if the program traps or reaches a limit of the engine.
    pub fn call(&self, args: Args) -> Result<Ret, Error> {
        Ok(self.0.call(args)?)
    }

    /// Calls the function with limits or a cancel handle of this call's own, and reports what the call used.
    ///
    /// # Errors
    /// As [`TypedFunction::call`].
    pub fn call_with(&self, args: Args, options: &CallOptions) -> Result<(Ret, Stats), Error> {
        Ok(self.0.call_with(args, options)?)
    }

    /// The function's value, and how it changes as the arguments move in the direction of the tangents: the product of
    /// the Jacobian and these. Forward mode: it takes about as long as two to three calls, and no tape.
    ///
    /// Tangents are of the arguments' types, with `()` for what is discrete, and of their lengths. An argument that
    /// derivatives are not [with respect to](crate::Function::wrt) doesn't move: its tangent is 0, and where it is an
    /// array or a list it may be empty.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def scaled (xs : Array Real) (k : Real) (n : Int) = ([| k * x for x in xs |], n + 1)";
    /// let scaled = Module::from_source(&Engine::default(), "scaled.dual", text)?.function("scaled")?;
    /// let scaled = scaled.typed::<(&[f64], f64, i64), (Vec<f64>, i64)>()?;
    /// let (value, tangent) = scaled.jvp((&[3.0, 4.0], 10.0, 7), (&[1.0, 0.0], 1.0, ()))?;
    /// assert_eq!(value, (vec![30.0, 40.0], 8));
    /// assert_eq!(tangent, (vec![13.0, 4.0], ()));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Tangent`](crate::ErrorKind::Tangent) if the tangents are not those of the arguments, before
    /// anything runs; else as [`TypedFunction::call`].
    pub fn jvp(&self, args: Args, tangents: Args::Tangent) -> Result<(Ret, Ret::Tangent), Error> {
        Ok(self.0.jvp(args, tangents)?)
    }

    /// [`TypedFunction::jvp`] with limits or a cancel handle of this call's own, and a report on what it used.
    ///
    /// # Errors
    /// As [`TypedFunction::jvp`].
    pub fn jvp_with(
        &self,
        args: Args,
        tangents: Args::Tangent,
        options: &CallOptions,
    ) -> Result<(Ret, Ret::Tangent, Stats), Error> {
        Ok(self.0.jvp_with(args, tangents, options)?)
    }

    /// The function's value, and the product of a cotangent of it and the Jacobian: the gradient of the inner product
    /// of the two. Reverse mode: one recorded run and one sweep, as for [`TypedFunction::value_and_grad`], which is
    /// this with the cotangent 1.
    ///
    /// The cotangent is of the result's type, with `()` for what is discrete, and of its lengths.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def scaled (xs : Array Real) (k : Real) (n : Int) = ([| k * x for x in xs |], n + 1)";
    /// let scaled = Module::from_source(&Engine::default(), "scaled.dual", text)?.function("scaled")?;
    /// let scaled = scaled.typed::<(&[f64], f64, i64), (Vec<f64>, i64)>()?;
    /// let (_, gradient) = scaled.vjp((&[3.0, 4.0], 10.0, 7), &(vec![1.0, 2.0], ()))?;
    /// assert_eq!(gradient, (vec![10.0, 20.0], 11.0, ()));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`TypedFunction::call`], and [`ErrorKind::Cotangent`](crate::ErrorKind::Cotangent) if the cotangent is not
    /// that of the value.
    pub fn vjp(&self, args: Args, cotangent: &Ret::Tangent) -> Result<(Ret, Args::Gradient), Error> {
        Ok(self.0.vjp(args, cotangent)?)
    }

    /// [`TypedFunction::vjp`] with limits or a cancel handle of this call's own, and a report on what it used.
    ///
    /// # Errors
    /// As [`TypedFunction::vjp`].
    pub fn vjp_with(
        &self,
        args: Args,
        cotangent: &Ret::Tangent,
        options: &CallOptions,
    ) -> Result<(Ret, Args::Gradient, Stats), Error> {
        Ok(self.0.vjp_with(args, cotangent, options)?)
    }

    /// The function's value, and the gradient of every real in it: a row each, in the order in which they stand in the
    /// value. One forward run, and one sweep per row.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def turn ((x, y) : (Real, Real)) (n : Int) = (to_real n * y, x)";
    /// let turn = Module::from_source(&Engine::default(), "turn.dual", text)?.function("turn")?;
    /// let turn = turn.typed::<([f64; 2], i64), [f64; 2]>()?;
    /// let (value, rows) = turn.jacobian(([1.0, 2.0], 3))?;
    /// assert_eq!((value, rows), ([6.0, 1.0], vec![([0.0, 3.0], ()), ([1.0, 0.0], ())]));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`TypedFunction::call`].
    pub fn jacobian(&self, args: Args) -> Result<(Ret, Vec<Args::Gradient>), Error> {
        Ok(self.0.jacobian(args)?)
    }

    /// [`TypedFunction::jacobian`] with limits or a cancel handle of this call's own, and a report on what it used.
    ///
    /// # Errors
    /// As [`TypedFunction::call`].
    pub fn jacobian_with(&self, args: Args, options: &CallOptions) -> Result<(Ret, Vec<Args::Gradient>, Stats), Error> {
        Ok(self.0.jacobian_with(args, options)?)
    }
}

impl<Args: Arguments> TypedFunction<Args, f64> {
    /// The function's value, and its gradient with respect to every real in its arguments. Nothing is allocated but
    /// vectors in the gradient.
    ///
    /// # Errors
    /// As [`TypedFunction::call`].
    pub fn value_and_grad(&self, args: Args) -> Result<(f64, Args::Gradient), Error> {
        Ok(self.0.value_and_grad(args)?)
    }

    /// [`TypedFunction::value_and_grad`] with limits or a cancel handle of this call's own, and a report on what it
    /// used.
    ///
    /// # Errors
    /// As [`TypedFunction::call`].
    pub fn value_and_grad_with(
        &self,
        args: Args,
        options: &CallOptions,
    ) -> Result<(f64, Args::Gradient, Stats), Error> {
        Ok(self.0.value_and_grad_with(args, options)?)
    }

    /// Writes the gradient over an earlier one and returns the function's value. The vectors in `gradient` keep their
    /// memory, so that repeated calls with arrays allocate nothing either: new vectors of a million reals take longer
    /// to get from the system than to fill. On an error `gradient` stays as it was.
    ///
    /// # Errors
    /// As [`TypedFunction::call`].
    pub fn value_and_grad_into(&self, args: Args, gradient: &mut Args::Gradient) -> Result<f64, Error> {
        Ok(self.0.value_and_grad_into(args, gradient)?)
    }

    /// [`TypedFunction::value_and_grad_into`] with limits or a cancel handle of this call's own, and a report on what
    /// it used.
    ///
    /// # Errors
    /// As [`TypedFunction::call`].
    pub fn value_and_grad_into_with(
        &self,
        args: Args,
        gradient: &mut Args::Gradient,
        options: &CallOptions,
    ) -> Result<(f64, Stats), Error> {
        Ok(self.0.value_and_grad_into_with(args, gradient, options)?)
    }

    /// Writes the gradient to the host's slices and returns the function's value: one slice for each argument, whatever
    /// its type. It takes the derivatives of the argument's reals in the order in which they stand in it, those of an
    /// array of triples three by three, those of nested arrays row by row, and has as many places as the argument has
    /// reals: none if it is discrete, or if the function's gradients are not
    /// [with respect to](crate::Function::wrt) it.
    ///
    /// Each slice is one copy from where the sweep has left them, and nothing is allocated from the second call on. On
    /// an error the slices stay as they were.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def total (ps : Array (Real, Real)) (weights : Array Int) (k : Real) : Real =
    ///               loop sum = 0.0 for i < length ps do
    ///                 let (x, y) = ps[i] in sum + k * to_real weights[i] * x * y";
    /// let total = Module::from_source(&Engine::default(), "total.dual", text)?.function("total")?;
    /// let total = total.typed::<(&[(f64, f64)], &[i64], f64), f64>()?;
    ///
    /// let (mut by_ps, mut by_k) = ([0.0; 4], [0.0]);
    /// let args = (&[(1.0, 2.0), (3.0, 4.0)][..], &[1, 10][..], 0.5);
    /// let value = total.value_and_grad_into_slices(args, [&mut by_ps, &mut [], &mut by_k])?;
    /// assert_eq!((value, by_ps, by_k), (61.0, [1.0, 0.5, 20.0, 15.0], [122.0]));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::GradientLength`](crate::ErrorKind::GradientLength) if a slice has another number of places, before
    /// anything runs; else as [`TypedFunction::call`].
    pub fn value_and_grad_into_slices(&self, args: Args, gradient: Args::Slices<'_>) -> Result<f64, Error> {
        Ok(self.0.value_and_grad_into_slices(args, gradient)?)
    }

    /// [`TypedFunction::value_and_grad_into_slices`] with limits or a cancel handle of this call's own, and a report on
    /// what it used.
    ///
    /// # Errors
    /// As [`TypedFunction::value_and_grad_into_slices`].
    pub fn value_and_grad_into_slices_with(
        &self,
        args: Args,
        gradient: Args::Slices<'_>,
        options: &CallOptions,
    ) -> Result<(f64, Stats), Error> {
        Ok(self.0.value_and_grad_into_slices_with(args, gradient, options)?)
    }

    /// The function's value, its gradient, and the product of its Hessian and the tangents: how the gradient changes as
    /// the arguments move in their direction. Forward over reverse: one recorded run with tangents and one sweep,
    /// however many arguments there are. Tangents are as for [`TypedFunction::jvp`].
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def f (xs : Array Real) (k : Real) : Real = k * xs[0] ^ 2 * xs[1]";
    /// let f = Module::from_source(&Engine::default(), "f.dual", text)?.function("f")?;
    /// let f = f.typed::<(&[f64], f64), f64>()?;
    /// let (value, gradient, product) = f.hvp((&[3.0, 5.0], 1.0), (&[1.0, 0.0], 0.0))?;
    /// assert_eq!((value, gradient), (45.0, (vec![30.0, 9.0], 45.0)));
    /// assert_eq!(product, (vec![10.0, 6.0], 30.0));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`TypedFunction::jvp`].
    pub fn hvp(&self, args: Args, tangents: Args::Tangent) -> Result<(f64, Args::Gradient, Args::Gradient), Error> {
        Ok(self.0.hvp(args, tangents)?)
    }

    /// [`TypedFunction::hvp`] with limits or a cancel handle of this call's own, and a report on what it used.
    ///
    /// # Errors
    /// As [`TypedFunction::jvp`].
    pub fn hvp_with(
        &self,
        args: Args,
        tangents: Args::Tangent,
        options: &CallOptions,
    ) -> Result<(f64, Args::Gradient, Args::Gradient, Stats), Error> {
        Ok(self.0.hvp_with(args, tangents, options)?)
    }
}
