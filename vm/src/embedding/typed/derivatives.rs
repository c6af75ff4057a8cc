//! Derivatives in directions and of cotangents that are types of Rust. Runs and sweeps are those of
//! [`Function::jvp`](crate::engine::Function::jvp), [`vjp`](crate::engine::Function::vjp) and
//! [`hvp`](crate::engine::Function::hvp).

use super::TypedFunction;
use super::tangents::Tangents;
use super::types::{Adjoints, Arguments, Output};
use crate::code::Mode;
use crate::embedding::engine::{CallOptions, Invocation, RunError, Stats, without_negative_zeros};

impl<Args: Arguments, Ret: Output> TypedFunction<Args, Ret> {
    /// The function's value, and how it changes as the arguments move in the direction of the tangents: the product of
    /// the Jacobian and these. It takes about as long as two to three calls, and no tape.
    ///
    /// Tangents are of the arguments' types, with `()` for what is discrete, and of their lengths. An argument that
    /// derivatives are not [with respect to](crate::engine::Function::wrt) doesn't move: its tangent is 0, and where it
    /// is an array or a list it may be empty.
    ///
    /// ```
    /// # use dualvm_vm::engine::{Engine, Module};
    /// # use dualvm_vm::text;
    /// # let def = text::parse("type t0 = array real
    /// # func \"f\" (t0, int) -> (real, int)
    /// #     export (xs : Array Real @t0, n : Int) -> (Real, Int)
    /// #     regs 1 real, 1 int, t0
    /// #     {
    /// #     elem r0, p0, i0
    /// #     mul r0, r0, r0
    /// #     ret (r0, i0) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (xs : Array Real) (n : Int) = (xs[n] ^ 2, n)
    /// let f = module.function("f").ok_or("no such function")?.typed::<(&[f64], i64), (f64, i64)>()?;
    /// let (value, tangent) = f.jvp((&[3.0, 5.0], 1), (&[0.0, 1.0], ()))?;
    /// assert_eq!((value, tangent), ((25.0, 1), (10.0, ())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RunError::Tangent`] if the tangents are not those of the arguments, before anything runs; else as
    /// [`TypedFunction::call`].
    pub fn jvp(&self, args: Args, tangents: Args::Tangent) -> Result<(Ret, Ret::Tangent), RunError> {
        let (function, options) = (self.function.with_tangents(), CallOptions::default());
        let mut lease = self.function.lease();
        let mut run = Invocation::begin(&function, &options, &mut lease);
        self.jvp_in(&mut run, &args, &tangents)
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
    ) -> Result<(Ret, Ret::Tangent, Stats), RunError> {
        let (function, mut lease) = (self.function.with_tangents(), self.function.lease());
        let mut run = Invocation::begin(&function, options, &mut lease).timed();
        let (value, tangent) = self.jvp_in(&mut run, &args, &tangents)?;
        Ok((value, tangent, run.state.stats()))
    }

    pub(super) fn jvp_in(
        &self,
        run: &mut Invocation<'_>,
        args: &Args,
        tangents: &Args::Tangent,
    ) -> Result<(Ret, Ret::Tangent), RunError> {
        self.run_with_tangents(run, args, tangents, Mode::PRIMAL)?;
        let (ty, mut reader) = (&self.function.interface().result, run.reader());
        let mut read = |mut from| {
            // SAFETY: value and tangent are of the function's result type, which the handle has compared with `Ret`.
            unsafe { Ret::read(ty, &mut from, &mut reader) }.map_err(|error| run.unreadable(error))
        };
        let (value, tangent) = (read(run.results())?, read(run.tangents(0))?);
        Ok((value, tangent.into_tangent()))
    }

    /// The function's value, and the product of a cotangent of it and the Jacobian: the gradient of their inner
    /// product. One recorded run and one sweep, as for a gradient.
    ///
    /// The cotangent is of the result's type, with `()` for what is discrete, and of its lengths.
    ///
    /// ```
    /// # use dualvm_vm::engine::{Engine, Module};
    /// # use dualvm_vm::text;
    /// # let def = text::parse("func \"f\" (real, real) -> (real, real)
    /// #     export (x : Real, y : Real) -> (Real, Real)
    /// #     regs 2 real
    /// #     { mul r1, r0, r1
    /// #     ret (r0, r1) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (y : Real) = (x, x * y)
    /// let f = module.function("f").ok_or("no such function")?.typed::<(f64, f64), [f64; 2]>()?;
    /// let (value, gradient) = f.vjp((3.0, 5.0), &[100.0, 1.0])?;
    /// assert_eq!((value, gradient), ([3.0, 15.0], (105.0, 3.0)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`TypedFunction::call`], and [`RunError::Cotangent`] if the cotangent is not that of the value.
    pub fn vjp(&self, args: Args, cotangent: &Ret::Tangent) -> Result<(Ret, Args::Gradient), RunError> {
        let (mut lease, options) = (self.function.lease(), CallOptions::default());
        let mut run = Invocation::begin(&self.function, &options, &mut lease);
        self.vjp_in(&mut run, &args, cotangent)
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
    ) -> Result<(Ret, Args::Gradient, Stats), RunError> {
        let mut lease = self.function.lease();
        let mut run = Invocation::begin(&self.function, options, &mut lease).timed();
        let (value, gradient) = self.vjp_in(&mut run, &args, cotangent)?;
        Ok((value, gradient, run.state.stats()))
    }

    pub(super) fn vjp_in(
        &self,
        run: &mut Invocation<'_>,
        args: &Args,
        cotangent: &Ret::Tangent,
    ) -> Result<(Ret, Args::Gradient), RunError> {
        self.run(run, args, Mode::RECORDING)?;
        let (value, slots) = self.read_result(run)?;
        let mut adjoints = Tangents::new(run.flattener());
        let taken = adjoints.argument(("result", true), &value, cotangent);
        let adjoints = adjoints.into_reals();
        taken.map_err(|error| run.without_cotangent(error))?;
        run.sweep_from(&slots, &adjoints)?;
        let gradient = self.gradient(run, args, 0)?;
        Ok((value, gradient))
    }

    /// Runs the function with tangents. Returns how many reals these have.
    fn run_with_tangents(
        &self,
        run: &mut Invocation<'_>,
        args: &Args,
        tangents: &Args::Tangent,
        mode: Mode,
    ) -> Result<usize, RunError> {
        let (params, wrt) = (&self.function.interface().params, &self.function.wrt);
        let mut reals = Tangents::new(run.flattener());
        let taken = args.tangents(params, wrt, tangents, &mut reals);
        let mut reals = reals.into_reals();
        without_negative_zeros(&mut reals);
        taken.map_err(|error| run.without_tangents(error))?;
        // SAFETY: the handle has compared the types of all arguments, which are the caller's until sweeps have ended.
        unsafe { run.run_with_tangents(mode, &reals, |to| Ok(args.write(params, wrt, to)?)) }?;
        Ok(reals.len())
    }

    /// The derivatives by the arguments, which the last sweep has left behind those of so many slots.
    fn gradient(&self, run: &Invocation<'_>, args: &Args, behind: usize) -> Result<Args::Gradient, RunError> {
        run.time_to_read_gradient(args.extent_of_gradient(&self.function.wrt).bytes())?;
        Ok(args.gradient(&mut Adjoints::new(&run.state.sweep.adjoints()[behind..], &self.function.wrt)))
    }
}

impl<Args: Arguments> TypedFunction<Args, f64> {
    /// The function's value, its gradient, and the product of its Hessian and the tangents: how the gradient changes as
    /// the arguments move in their direction. One recorded run with tangents and one sweep, however many arguments
    /// there are. Tangents are as for [`TypedFunction::jvp`].
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, text};
    /// # let def = text::parse("func \"f\" (real, real) -> (real)
    /// #     export (x : Real, y : Real) -> Real
    /// #     regs 2 real
    /// #     { mul r1, r0, r1
    /// #     mul r1, r0, r1
    /// #     ret (r1) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (y : Real) : Real = x * x * y
    /// let f = module.function("f").ok_or("no such function")?.typed::<(f64, f64), f64>()?;
    /// let (value, gradient, product) = f.hvp((3.0, 5.0), (1.0, 0.0))?;
    /// assert_eq!((value, gradient, product), (45.0, (30.0, 9.0), (10.0, 6.0)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`TypedFunction::jvp`].
    pub fn hvp(&self, args: Args, tangents: Args::Tangent) -> Result<(f64, Args::Gradient, Args::Gradient), RunError> {
        let (function, options) = (self.function.with_tangents(), CallOptions::default());
        let mut lease = self.function.lease();
        let mut run = Invocation::begin(&function, &options, &mut lease);
        self.hvp_in(&mut run, &args, &tangents)
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
    ) -> Result<(f64, Args::Gradient, Args::Gradient, Stats), RunError> {
        let (function, mut lease) = (self.function.with_tangents(), self.function.lease());
        let mut run = Invocation::begin(&function, options, &mut lease).timed();
        let (value, gradient, product) = self.hvp_in(&mut run, &args, &tangents)?;
        Ok((value, gradient, product, run.state.stats()))
    }

    pub(super) fn hvp_in(
        &self,
        run: &mut Invocation<'_>,
        args: &Args,
        tangents: &Args::Tangent,
    ) -> Result<(f64, Args::Gradient, Args::Gradient), RunError> {
        let reals = self.run_with_tangents(run, args, tangents, Mode::RECORDING)?;
        let value = run.sweep_of_tangent()?;
        Ok((value, self.gradient(run, args, reals)?, self.gradient(run, args, 0)?))
    }
}
