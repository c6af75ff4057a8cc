//! Functions that are called with types of Rust, without a [`Value`] in between.
//!
//! [`Function::typed`] compares the types once; a call then moves numbers and arrays straight to registers and objects,
//! and a gradient straight back. Calls with scalars allocate nothing, and long arrays of numbers are read where they
//! are.
//!
//! ```
//! # use dualvm_vm::engine::{Engine, Module};
//! # use dualvm_vm::text;
//! # let def = text::parse("func \"mult\" (real, real) -> (real)
//! #     export (x : Real, y : Real) -> Real
//! #     regs 3 real
//! #     {
//! #     mul r2, r0, r1
//! #     ret (r2) }", "mult.dvs").map_err(|errors| errors[0].to_string())?;
//! # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
//! // def mult (x : Real) (y : Real) : Real = x * y
//! let mult = module.function("mult").ok_or("no such function")?.typed::<(f64, f64), f64>()?;
//! assert_eq!(mult.call((3.0, 4.0))?, 12.0);
//! assert_eq!(mult.value_and_grad((3.0, 4.0))?, (12.0, (4.0, 3.0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | a parameter or result | in Rust | its tangent | in a gradient |
//! |---|---|---|---|
//! | `Real` | `f64` | `f64` | `f64` |
//! | `Int` | `i64` | `()` | `()` |
//! | `Bool` | `bool` | `()` | `()` |
//! | `(A, B)`, up to 8 parts | a tuple of their types | a tuple | a tuple |
//! | `(A, A, …)`, any number | `[T; N]` of A's type | `[…; N]` | `[…; N]` |
//! | `Array Real`, `List Real` | `Vec<f64>` | `Vec<f64>` | `Vec<f64>` |
//! | the same as a parameter | `&[f64]`, `&Vec<f64>` | `&[f64]` | `Vec<f64>` |
//! | `Array Int`, `List Int`, the same of `Bool` | `Vec<i64>`, `Vec<bool>`; `&[i64]`, … | `()` | `()` |
//! | `Array A`, `List A` | `Vec<T>` of A's type | `Vec<…>` | `Vec<…>` |
//! | the same as a parameter | `&[T]`, `&Vec<T>` | `&[…]` | `Vec<…>` |
//! | `Matrix A`, a parameter | [`Matrix<T>`](Matrix) | `Matrix<…>` | `Vec<…>`, row by row |
//! | `Array (Array A)`, rows of one length, a parameter | [`Matrix<T>`](Matrix) | `Matrix<…>` | `Vec<…>`, row by row |
//! | `Matrix Real`, `Tensor3 Real`, … | [`Tensor<f64, N>`](Tensor) | `Tensor<f64, N>` | `Tensor<f64, N>` |
//! | `Array (Array Real)`, …, rows of one length | [`Tensor<f64, N>`](Tensor) | `Tensor<f64, N>` | `Tensor<f64, N>` |
//! | the same of `Int` or `Bool` | `Tensor<i64, N>`, `Tensor<bool, N>` | `()` | `()` |
//!
//! All of these nest: `&[(f64, [f64; 3], i64)]` is an `Array (Real, (Real, Real, Real), Int)`, `&[&[f64]]` and
//! `&[Vec<f64>]` are an `Array (Array Real)`, and in a gradient stand `Vec<(f64, [f64; 3], ())>` and `Vec<Vec<f64>>`.
//! Tangents are `&[(f64, [f64; 3], ())]`, `&[&[f64]]` and `&[Vec<f64>]`, and those of results, which cotangents are,
//! too, own their vectors.
//! An array of reals or of integers stays where it is during the call if it has 32 elements or more, and is copied as a
//! whole if it is shorter; the same goes for each row. Results and gradients are copied. An element that is a tuple
//! becomes an object of its own, as it is in the program, and is written field by field.
//!
//! # Arrays of other crates
//! Under the features `ndarray` and `nalgebra`, arrays of these crates are arguments and results, too:
//!
//! | a parameter or result | of ndarray | of nalgebra |
//! |---|---|---|
//! | `Array Real`, `List Real` | `Array1<f64>` | `DVector<f64>`, `SVector<f64, N>` |
//! | `Matrix Real` | `Array2<f64>` | `DMatrix<f64>`, `SMatrix<f64, R, C>` |
//! | `Tensor3 Real`, `Tensor4 Real` | `Array3<f64>`, `Array4<f64>` | |
//! | `Array (Array Real)`, …, rows of one length | `Array2<f64>`, … | `DMatrix<f64>`, `SMatrix<f64, R, C>` |
//! | `(Real, Real, …)`, N of them | | `SVector<f64, N>` |
//! | the same as a parameter | views, `&Array…`, `&ArrayRef…` | views, `&DVector<f64>`, … |
//!
//! The tangent of each is of its own type. In a gradient stands the array that owns its elements, `Array…`, `DVector`,
//! `DMatrix`, `SVector` or `SMatrix`, with the extents of the argument. Elements may be `i64` and `bool`, too; then
//! tangent and gradient are `()`. Strides are any, also negative ones and 0. What stands in memory row by row is copied
//! as a whole, other arrays element by element; no array is made in between. Wherever reals are in a row, as for
//! [`TypedFunction::value_and_grad_into_slices`], they are row by row, those of nalgebra's matrices, too.
//!
//! Other types take [`Value`]s.
//!
//! [`Value`]: crate::value::Value

mod batch;
mod derivatives;
mod tangents;
mod types;

pub use tangents::Several;
pub use types::{Argument, Arguments, Element, Matrix, Output, OwnedArray, ShapeMismatch, ShapedArray, Tensor};

use crate::bytecode::module::HostType;
use crate::code::Mode;
use crate::embedding::convert::ResultSlot;
use crate::embedding::engine::{CallOptions, Function, Invocation, RunError, Stats};
use std::fmt;
use std::marker::PhantomData;
use types::Adjoints;

/// An exported function whose parameters and result are of these types. Cheap to clone, `Send` and `Sync`; it may be
/// called from any number of threads at a time.
///
/// `Args` is a tuple with a type for each parameter: `(f64,)` for one, `()` for none. References in it may live as long
/// or as short as each call needs.
pub struct TypedFunction<Args, Ret> {
    function: Function,
    /// Arguments and results are never kept.
    types: PhantomData<fn() -> (Args, Ret)>,
}

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<TypedFunction<(f64, &[f64]), f64>>();
};

impl<Args, Ret> Clone for TypedFunction<Args, Ret> {
    fn clone(&self) -> Self {
        TypedFunction { function: self.function.clone(), types: PhantomData }
    }
}

impl<Args, Ret> fmt::Debug for TypedFunction<Args, Ret> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedFunction").field(&self.function).finish()
    }
}

impl Function {
    /// The function, to be called with these types. Done once, it spares every call the look at the types.
    ///
    /// # Errors
    /// If the types are not those of the parameters and of the result.
    ///
    /// ```
    /// # use dualvm_vm::engine::{Engine, Module};
    /// # use dualvm_vm::text;
    /// # let def = text::parse("func \"f\" (real, int) -> (real)
    /// #     export (x : Real, n : Int) -> Real
    /// #     regs 1 real, 1 int
    /// #     { ret (r0) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// # let f = module.function("f").ok_or("no such function")?;
    /// // f : (x : Real, n : Int) -> Real
    /// let error = f.typed::<(f64, f64), f64>().unwrap_err();
    /// assert_eq!(error.to_string(), "parameter n of `f`: expected Int, found f64");
    /// let error = f.typed::<(f64, i64), Vec<f64>>().unwrap_err();
    /// assert_eq!(error.to_string(), "result of `f`: expected Real, found Vec<f64>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn typed<Args: Arguments, Ret: Output>(&self) -> Result<TypedFunction<Args, Ret>, TypeMismatch> {
        let interface = self.interface();
        Args::check(&interface.params).map_err(|part| part.of_function(self.name()))?;
        Ret::check(&interface.result).map_err(|part| part.at("result").of_function(self.name()))?;
        Ok(TypedFunction { function: self.clone(), types: PhantomData })
    }
}

impl<Args: Arguments, Ret: Output> TypedFunction<Args, Ret> {
    /// The function, to be called with values.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Calls the function.
    ///
    /// # Errors
    /// [`RunError::Trap`] if the program traps or reaches a limit of the engine.
    pub fn call(&self, args: Args) -> Result<Ret, RunError> {
        let (mut lease, options) = (self.function.lease(), CallOptions::default());
        let mut run = Invocation::begin(&self.function, &options, &mut lease);
        self.call_in(&mut run, &args)
    }

    /// Calls the function with limits or a cancel handle of this call's own, and reports what the call used.
    ///
    /// # Errors
    /// As [`TypedFunction::call`].
    pub fn call_with(&self, args: Args, options: &CallOptions) -> Result<(Ret, Stats), RunError> {
        let mut lease = self.function.lease();
        let mut run = Invocation::begin(&self.function, options, &mut lease).timed();
        let result = self.call_in(&mut run, &args)?;
        Ok((result, run.state.stats()))
    }

    fn call_in(&self, run: &mut Invocation<'_>, args: &Args) -> Result<Ret, RunError> {
        self.run(run, args, Mode::PRIMAL)?;
        Ok(self.read_result(run)?.0)
    }

    /// The function's value, and the gradient of every real in it: a row each, in the order in which they stand in the
    /// value. One forward run, and one sweep per row.
    ///
    /// ```
    /// # use dualvm_vm::engine::{Engine, Module};
    /// # use dualvm_vm::text;
    /// # let def = text::parse("func \"swap\" (real, real) -> (real, real)
    /// #     export (x : Real, y : Real) -> (Real, Real)
    /// #     regs 2 real
    /// #     { ret (r1, r0) }", "swap.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def swap (x : Real) (y : Real) = (y, x)
    /// let swap = module.function("swap").ok_or("no such function")?.typed::<(f64, f64), [f64; 2]>()?;
    /// assert_eq!(swap.jacobian((1.0, 2.0))?, ([2.0, 1.0], vec![(0.0, 1.0), (1.0, 0.0)]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`TypedFunction::call`].
    pub fn jacobian(&self, args: Args) -> Result<(Ret, Vec<Args::Gradient>), RunError> {
        let (mut lease, options) = (self.function.lease(), CallOptions::default());
        let mut run = Invocation::begin(&self.function, &options, &mut lease);
        self.jacobian_in(&mut run, &args)
    }

    /// [`TypedFunction::jacobian`] with limits or a cancel handle of this call's own, and a report on what it used.
    ///
    /// # Errors
    /// As [`TypedFunction::call`].
    pub fn jacobian_with(
        &self,
        args: Args,
        options: &CallOptions,
    ) -> Result<(Ret, Vec<Args::Gradient>, Stats), RunError> {
        let mut lease = self.function.lease();
        let mut run = Invocation::begin(&self.function, options, &mut lease).timed();
        let (value, rows) = self.jacobian_in(&mut run, &args)?;
        Ok((value, rows, run.state.stats()))
    }

    fn jacobian_in(&self, run: &mut Invocation<'_>, args: &Args) -> Result<(Ret, Vec<Args::Gradient>), RunError> {
        self.run(run, args, Mode::RECORDING)?;
        let (value, slots) = self.read_result(run)?;
        let mut rows = Vec::with_capacity(slots.len());
        for slot in slots {
            run.sweep_of(slot)?;
            run.time_to_read_gradient(args.extent_of_gradient(&self.function.wrt).bytes())?;
            rows.push(args.gradient(&mut Adjoints::new(run.state.sweep.adjoints(), &self.function.wrt)));
        }
        Ok((value, rows))
    }

    fn run(&self, run: &mut Invocation<'_>, args: &Args, mode: Mode) -> Result<(), RunError> {
        let params = &self.function.interface().params;
        // SAFETY: the handle has compared the types of all arguments, which are the caller's until sweeps have ended.
        unsafe { run.run(mode, |to| Ok(args.write(params, &self.function.wrt, to)?)) }
    }

    /// The result, and the slots of its reals after a recording run.
    fn read_result(&self, run: &Invocation<'_>) -> Result<(Ret, Vec<ResultSlot>), RunError> {
        let (mut reader, mut results) = (run.reader(), run.results());
        // SAFETY: the results are of the function's result type, which the handle has compared with `Ret`.
        let result = unsafe { Ret::read(&self.function.interface().result, &mut results, &mut reader) };
        let result = result.map_err(|error| run.unreadable(error))?;
        Ok((result, reader.into_slots()))
    }
}

impl<Args: Arguments> TypedFunction<Args, f64> {
    /// The function's value, and its gradient with respect to every real in its arguments.
    ///
    /// ```
    /// # use dualvm_vm::engine::{Engine, Module};
    /// # use dualvm_vm::text;
    /// # let def = text::parse("type t0 = array real
    /// # func \"second\" (t0, int) -> (real)
    /// #     export (xs : Array Real @t0, n : Int) -> Real
    /// #     regs 1 real, 2 int, t0
    /// #     {
    /// #     iconst i1, 1
    /// #     elem r0, p0, i1
    /// #     ret (r0) }", "second.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def second (xs : Array Real) (n : Int) : Real = xs[1]
    /// let second = module.function("second").ok_or("no such function")?.typed::<(&[f64], i64), f64>()?;
    /// let (value, (by_xs, ())) = second.value_and_grad((&[5.0, 6.0, 7.0], 1))?;
    /// assert_eq!((value, by_xs), (6.0, vec![0.0, 1.0, 0.0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`TypedFunction::call`].
    pub fn value_and_grad(&self, args: Args) -> Result<(f64, Args::Gradient), RunError> {
        let (mut lease, options) = (self.function.lease(), CallOptions::default());
        let mut run = Invocation::begin(&self.function, &options, &mut lease);
        self.grad_in(&mut run, &args)
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
    ) -> Result<(f64, Args::Gradient, Stats), RunError> {
        let mut lease = self.function.lease();
        let mut run = Invocation::begin(&self.function, options, &mut lease).timed();
        let (value, gradient) = self.grad_in(&mut run, &args)?;
        Ok((value, gradient, run.state.stats()))
    }

    fn grad_in(&self, run: &mut Invocation<'_>, args: &Args) -> Result<(f64, Args::Gradient), RunError> {
        self.run(run, args, Mode::RECORDING)?;
        let value = run.sweep_of_scalar()?;
        run.time_to_read_gradient(args.extent_of_gradient(&self.function.wrt).bytes())?;
        Ok((value, args.gradient(&mut Adjoints::new(run.state.sweep.adjoints(), &self.function.wrt))))
    }

    /// Writes the gradient over an earlier one and returns the function's value. The vectors in `gradient` keep their
    /// memory, so that repeated calls with arrays allocate nothing either. On an error `gradient` stays as it was.
    ///
    /// # Errors
    /// As [`TypedFunction::call`].
    pub fn value_and_grad_into(&self, args: Args, gradient: &mut Args::Gradient) -> Result<f64, RunError> {
        let (mut lease, options) = (self.function.lease(), CallOptions::default());
        self.grad_into_in(&mut Invocation::begin(&self.function, &options, &mut lease), &args, gradient)
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
    ) -> Result<(f64, Stats), RunError> {
        let mut lease = self.function.lease();
        let mut run = Invocation::begin(&self.function, options, &mut lease).timed();
        let value = self.grad_into_in(&mut run, &args, gradient)?;
        Ok((value, run.state.stats()))
    }

    fn grad_into_in(
        &self,
        run: &mut Invocation<'_>,
        args: &Args,
        gradient: &mut Args::Gradient,
    ) -> Result<f64, RunError> {
        self.run(run, args, Mode::RECORDING)?;
        let value = run.sweep_of_scalar()?;
        run.time_to_read_gradient(args.extent_of_gradient(&self.function.wrt).bytes())?;
        args.gradient_into(&mut Adjoints::new(run.state.sweep.adjoints(), &self.function.wrt), gradient);
        Ok(value)
    }

    /// Writes the gradient to the host's slices and returns the function's value: one slice for each argument, whatever
    /// its type. It takes the derivatives of the argument's reals in the order in which they stand in it, those of an
    /// array of triples three by three, those of nested arrays row by row, and has as many places as the argument has
    /// reals: none if it is discrete, or if the function's gradients are not [with respect to](Function::wrt) it.
    ///
    /// Each slice is one copy from where the sweep has left them, and nothing is allocated: that is, from the second
    /// call on. On an error the slices stay as they were.
    ///
    /// ```
    /// # use dualvm_vm::engine::{Engine, Module};
    /// # use dualvm_vm::text;
    /// # let def = text::parse("type t0 = struct { real, int }
    /// # type t1 = array t0
    /// # func \"first\" (t1, int, real) -> (real)
    /// #     export (xs : Array (Real, Int) @t1, n : Int, k : Real) -> Real
    /// #     regs 2 real, 1 int, t1, t0
    /// #     {
    /// #     pelem p1, p0, i0
    /// #     field r1, p1, 0
    /// #     mul r0, r0, r1
    /// #     ret (r0) }", "first.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def first (xs : Array (Real, Int)) (n : Int) (k : Real) : Real = let (x, _) = xs[n] in k * x
    /// let first = module.function("first").ok_or("no such function")?.typed::<(&[(f64, i64)], i64, f64), f64>()?;
    /// let (mut by_xs, mut by_k) = ([0.0; 3], 0.0);
    /// let slices = [&mut by_xs[..], &mut [], std::slice::from_mut(&mut by_k)];
    /// let value = first.value_and_grad_into_slices((&[(5.0, 1), (6.0, 2), (7.0, 3)], 1, 10.0), slices)?;
    /// assert_eq!((value, by_xs, by_k), (60.0, [0.0, 10.0, 0.0], 6.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RunError::GradientLength`] if a slice has another number of places, before anything runs; else as
    /// [`TypedFunction::call`].
    pub fn value_and_grad_into_slices(&self, args: Args, mut gradient: Args::Slices<'_>) -> Result<f64, RunError> {
        let (mut lease, options) = (self.function.lease(), CallOptions::default());
        let mut run = Invocation::begin(&self.function, &options, &mut lease);
        self.grad_into_slices_in(&mut run, &args, gradient.as_mut())
    }

    /// [`TypedFunction::value_and_grad_into_slices`] with limits or a cancel handle of this call's own, and a report on
    /// what it used.
    ///
    /// # Errors
    /// As [`TypedFunction::value_and_grad_into_slices`].
    pub fn value_and_grad_into_slices_with(
        &self,
        args: Args,
        mut gradient: Args::Slices<'_>,
        options: &CallOptions,
    ) -> Result<(f64, Stats), RunError> {
        let mut lease = self.function.lease();
        let mut run = Invocation::begin(&self.function, options, &mut lease).timed();
        let value = self.grad_into_slices_in(&mut run, &args, gradient.as_mut())?;
        Ok((value, run.state.stats()))
    }

    fn grad_into_slices_in(
        &self,
        run: &mut Invocation<'_>,
        args: &Args,
        slices: &mut [&mut [f64]],
    ) -> Result<f64, RunError> {
        let wrt = &self.function.wrt;
        for (n, slice) in slices.iter().enumerate() {
            let expected = if wrt.has(n) { args.extent(n).reals } else { 0 };
            if slice.len() != expected {
                return Err(self.wrong_length(n, expected, slice.len()));
            }
        }
        self.run(run, args, Mode::RECORDING)?;
        let value = run.sweep_of_scalar()?;
        run.time_to_read_gradient(0)?;
        let mut adjoints = Adjoints::new(run.state.sweep.adjoints(), wrt);
        slices.iter_mut().for_each(|slice| slice.copy_from_slice(adjoints.take(slice.len())));
        Ok(value)
    }

    #[cold]
    fn wrong_length(&self, parameter: usize, expected: usize, found: usize) -> RunError {
        let parameter = self.function.interface().params[parameter].0.clone();
        RunError::GradientLength { parameter, expected, found }
    }
}

/// Why a function can't be called with types of Rust.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum TypeMismatch {
    /// The number of types is not the number of parameters.
    Count {
        /// The function.
        function: String,
        /// Names and types of its parameters.
        expected: Vec<(String, HostType)>,
        /// How many types were given.
        found: usize,
    },
    /// A type doesn't stand for that of the parameter or result.
    Type {
        /// The function.
        function: String,
        /// Where: `result`, or `parameter` and its name, then numbers of parts, as in `parameter p.1`.
        place: String,
        /// The type in the program.
        expected: HostType,
        /// The type in Rust.
        found: String,
    },
}

impl TypeMismatch {
    /// The same in a part of a larger type, or in a parameter or result.
    fn at(mut self, outer: &str) -> Self {
        if let TypeMismatch::Type { place, .. } = &mut self {
            place.insert_str(0, outer);
        }
        self
    }

    fn of_function(mut self, name: &str) -> Self {
        let (TypeMismatch::Count { function, .. } | TypeMismatch::Type { function, .. }) = &mut self;
        name.clone_into(function);
        self
    }
}

impl fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypeMismatch::Count { function, expected, found } => {
                write!(f, "`{function}` has {} parameter", expected.len())?;
                write!(f, "{}", if expected.len() == 1 { "" } else { "s" })?;
                for (i, (name, ty)) in expected.iter().enumerate() {
                    write!(f, "{}{name} : {ty}", if i == 0 { " (" } else { ", " })?;
                }
                let close = if expected.is_empty() { "" } else { ")" };
                write!(f, "{close}, found {found} type{}", if *found == 1 { "" } else { "s" })
            }
            TypeMismatch::Type { function, place, expected, found } => {
                write!(f, "{place} of `{function}`: expected {expected}, found {found}")
            }
        }
    }
}

impl std::error::Error for TypeMismatch {}
