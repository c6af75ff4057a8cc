//! Batches of calls with types of Rust.

use super::TypedFunction;
use super::types::{Arguments, Output};
use crate::embedding::engine::{Batch, CallOptions, Function, Invocation, Lease, Plan, RunError};

impl<Args: Arguments, Ret: Output> TypedFunction<Args, Ret> {
    /// Many calls of the function at a time, over the engine's threads: [`Batch`] says how they run.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, text};
    /// # let def = text::parse("func \"f\" (real, real) -> (real)
    /// #     export (x : Real, y : Real) -> Real
    /// #     regs 2 real
    /// #     { mul r0, r0, r1
    /// #     ret (r0) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (y : Real) : Real = x * y
    /// let f = module.function("f").ok_or("no such function")?.typed::<(f64, f64), f64>()?;
    /// let gradients = f.batch().value_and_grad([(1.0, 2.0), (3.0, 4.0)]);
    /// assert_eq!(gradients, [Ok((2.0, (2.0, 1.0))), Ok((12.0, (4.0, 3.0)))]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch(&self) -> Batch<'_, TypedFunction<Args, Ret>> {
        self.batch_with(&CallOptions::default())
    }

    /// [`TypedFunction::batch`], with options: see [`Function::batch_with`].
    pub fn batch_with(&self, options: &CallOptions) -> Batch<'_, TypedFunction<Args, Ret>> {
        Batch::new(self, options.clone())
    }
}

impl<Args: Arguments, Ret: Output> Batch<'_, TypedFunction<Args, Ret>> {
    /// Runs `each` for every item, in a run of `function` that was begun.
    fn run<Item: Send, T: Send>(
        &self,
        function: &Function,
        items: impl IntoIterator<Item = Item>,
        each: impl Fn(&TypedFunction<Args, Ret>, &mut Invocation<'_>, Item) -> Result<T, RunError> + Send + Sync,
    ) -> Vec<Result<T, RunError>> {
        let items: Vec<Item> = items.into_iter().collect();
        let plan = Plan::of(&self.function.function, &self.options, items.len());
        let lease = || self.function.function.lease();
        plan.map(items, lease, |lease: &mut Lease<'_>, item, options| {
            each(self.function, &mut Invocation::begin(function, options, lease), item)
        })
    }

    /// [`TypedFunction::call`] for each item.
    pub fn call(&self, items: impl IntoIterator<Item = Args>) -> Vec<Result<Ret, RunError>>
    where
        Args: Send,
        Ret: Send,
    {
        self.run(&self.function.function, items, |function, run, args| function.call_in(run, &args))
    }

    /// [`TypedFunction::jvp`] for each item: arguments, and their tangents.
    pub fn jvp(
        &self,
        items: impl IntoIterator<Item = (Args, Args::Tangent)>,
    ) -> Vec<Result<(Ret, Ret::Tangent), RunError>>
    where
        Args: Arguments<Tangent: Send> + Send,
        Ret: Output<Tangent: Send> + Send,
    {
        let function = self.function.function.with_tangents();
        self.run(&function, items, |function, run, (args, tangents)| function.jvp_in(run, &args, &tangents))
    }

    /// [`TypedFunction::vjp`] for each item: arguments, and the cotangent of the value.
    pub fn vjp(
        &self,
        items: impl IntoIterator<Item = (Args, Ret::Tangent)>,
    ) -> Vec<Result<(Ret, Args::Gradient), RunError>>
    where
        Args: Arguments<Gradient: Send> + Send,
        Ret: Output<Tangent: Send> + Send,
    {
        let function = &self.function.function;
        self.run(function, items, |function, run, (args, cotangent)| function.vjp_in(run, &args, &cotangent))
    }
}

impl<Args: Arguments> Batch<'_, TypedFunction<Args, f64>> {
    /// [`TypedFunction::value_and_grad`] for each item.
    pub fn value_and_grad(&self, items: impl IntoIterator<Item = Args>) -> Vec<Result<(f64, Args::Gradient), RunError>>
    where
        Args: Arguments<Gradient: Send> + Send,
    {
        self.run(&self.function.function, items, |function, run, args| function.grad_in(run, &args))
    }

    /// [`TypedFunction::hvp`] for each item: arguments, and their tangents.
    #[expect(clippy::type_complexity, reason = "what the method of the function gives, for each item")]
    pub fn hvp(
        &self,
        items: impl IntoIterator<Item = (Args, Args::Tangent)>,
    ) -> Vec<Result<(f64, Args::Gradient, Args::Gradient), RunError>>
    where
        Args: Arguments<Gradient: Send, Tangent: Send> + Send,
    {
        let function = self.function.function.with_tangents();
        self.run(&function, items, |function, run, (args, tangents)| function.hvp_in(run, &args, &tangents))
    }
}
