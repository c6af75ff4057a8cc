//! Batches: many calls of one function at a time.

use crate::vm::engine::{self, CallOptions};
use crate::vm::typed::{Arguments, Output};
use crate::vm::value::Value;
use crate::{Error, Function, TypedFunction};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Many calls of one function at a time, over the engine's threads. [`Function::batch`] and [`TypedFunction::batch`]
/// make it; [`FlatFunction::batch`](crate::FlatFunction::batch) makes a [batch of its own](engine::Batch), which is the
/// same for numbers in columns.
///
/// Each item is a call like any other: it has the limits of a call, and what goes wrong in it is the outcome of this
/// item only. Outcomes come in the order of the items, with the same bits whatever the threads, because an item runs as
/// it would by itself. [The machine's page](engine::Batch) says where items run, and what becomes of their own tasks
/// and of what they trace.
///
/// Operations have the names that they have for one call, and take items in place of arguments. An item for a product
/// is a pair: the arguments, and the tangents or the cotangent. [`Batch::map`] is for everything else.
///
/// ```
/// use dualvm::{Engine, Error, Module, Value};
///
/// let text = "def third (xs : Array Real) : Real = xs[2] ^ 2";
/// let third = Module::from_source(&Engine::default(), "third.dual", text)?.function("third")?;
/// let items: Vec<[Value; 1]> = (0..5).map(|n| [vec![1.0; n].into()]).collect();
/// let outcomes = third.batch().value_and_grad(&items);
/// assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), 3);
/// assert_eq!(outcomes[3].as_ref().unwrap(), &(1.0, vec![vec![0.0, 0.0, 2.0].into()]));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batch<'a, F> {
    function: &'a F,
    options: CallOptions,
}

impl Function {
    /// Many calls of the function at a time: [`Batch`].
    pub fn batch(&self) -> Batch<'_, Function> {
        self.batch_with(&CallOptions::default())
    }

    /// Many calls of the function at a time, with options.
    ///
    /// Limits are those of each item, whose time begins with it. [`CallOptions::ends_at`] and [`CallOptions::cancel`]
    /// are for all items together: those that run then stop, and those that haven't begun don't run.
    ///
    /// ```
    /// use dualvm::{CallOptions, Engine, Error, Module};
    /// use std::time::{Duration, Instant};
    ///
    /// let text = "def count (n : Real) : Real = loop x = 0.0 while x < n do x + 1";
    /// let count = Module::from_source(&Engine::default(), "count.dual", text)?.function("count")?;
    /// let options = CallOptions::default().ending_at(Instant::now() + Duration::from_millis(100));
    /// let outcomes = count.batch_with(&options).call([[10.0.into()], [1e100.into()], [2e100.into()]]);
    /// assert_eq!(outcomes[0].as_ref().unwrap(), &10.0.into());
    /// assert!(outcomes[1].as_ref().unwrap_err().is_limit());
    /// assert!(outcomes[2].as_ref().unwrap_err().is_limit());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn batch_with(&self, options: &CallOptions) -> Batch<'_, Function> {
        Batch { function: self, options: options.clone() }
    }
}

impl Batch<'_, Function> {
    /// Does something for each item and gives the outcomes in their order: any operation on the function, or several of
    /// them.
    ///
    /// `each` makes calls with the options that it is given. Threads of the engine call it; for items that the end of
    /// the batch comes before, nobody does. If it panics, so does this, when items that were begun have ended.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def f (x : Real) (y : Real) : Real = x * x * y";
    /// let f = Module::from_source(&Engine::default(), "f.dual", text)?.function("f")?;
    /// let hessians = f.batch().map([1.0, 2.0], |f, x, options| f.hessian_with(&[x.into(), 3.0.into()], options));
    /// assert_eq!(hessians[1].as_ref().unwrap().rows[0], [6.0.into(), 4.0.into()]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn map<Item: Send, T: Send>(
        &self,
        items: impl IntoIterator<Item = Item>,
        each: impl Fn(&Function, Item, &CallOptions) -> Result<T, Error> + Send + Sync,
    ) -> Vec<Result<T, Error>> {
        let batch = self.function.0.batch_with(&self.options);
        batch.map(items, |_, item, options| each(self.function, item, options))
    }

    /// [`Function::call`] for each item.
    pub fn call<Args: AsRef<[Value]> + Send>(
        &self,
        items: impl IntoIterator<Item = Args>,
    ) -> Vec<Result<Value, Error>> {
        self.map(items, |function, args, options| Ok(function.call_with(args.as_ref(), options)?.0))
    }

    /// [`Function::value_and_grad`] for each item.
    pub fn value_and_grad<Args: AsRef<[Value]> + Send>(
        &self,
        items: impl IntoIterator<Item = Args>,
    ) -> Vec<Result<(f64, Vec<Value>), Error>> {
        self.map(items, |function, args, options| {
            let found = function.value_and_grad_with(args.as_ref(), options)?;
            Ok((found.value, found.gradient))
        })
    }

    /// [`Function::jvp`] for each item: arguments, and their tangents.
    pub fn jvp<Args: AsRef<[Value]> + Send, Tangents: AsRef<[Value]> + Send>(
        &self,
        items: impl IntoIterator<Item = (Args, Tangents)>,
    ) -> Vec<Result<(Value, Value), Error>> {
        self.map(items, |function, (args, tangents), options| {
            let found = function.jvp_with(args.as_ref(), tangents.as_ref(), options)?;
            Ok((found.value, found.tangent))
        })
    }

    /// [`Function::vjp`] for each item: arguments, and the cotangent of the value.
    pub fn vjp<Args: AsRef<[Value]> + Send>(
        &self,
        items: impl IntoIterator<Item = (Args, Value)>,
    ) -> Vec<Result<(Value, Vec<Value>), Error>> {
        self.map(items, |function, (args, cotangent), options| {
            let found = function.vjp_with(args.as_ref(), &cotangent, options)?;
            Ok((found.value, found.gradient))
        })
    }

    /// [`Function::hvp`] for each item: arguments, and their tangents.
    #[expect(clippy::type_complexity, reason = "what the method of the function gives, for each item")]
    pub fn hvp<Args: AsRef<[Value]> + Send, Tangents: AsRef<[Value]> + Send>(
        &self,
        items: impl IntoIterator<Item = (Args, Tangents)>,
    ) -> Vec<Result<(f64, Vec<Value>, Vec<Value>), Error>> {
        self.map(items, |function, (args, tangents), options| {
            let found = function.hvp_with(args.as_ref(), tangents.as_ref(), options)?;
            Ok((found.value, found.gradient, found.product))
        })
    }

    /// [`Function::call_as`] for each item.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def sum (xs : Array Real) (k : Int) : Real = loop s = 0.0 for x in xs do s + x * to_real k";
    /// let sum = Module::from_source(&Engine::default(), "sum.dual", text)?.function("sum")?;
    /// let outcomes = sum.batch().call_as::<f64>([(vec![1.0], 1), (vec![2.0, 3.0], 10)]);
    /// assert_eq!(outcomes.into_iter().collect::<Result<Vec<_>, _>>()?, [1.0, 50.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn call_as<Out: DeserializeOwned + Send>(
        &self,
        items: impl IntoIterator<Item = impl Serialize + Send>,
    ) -> Vec<Result<Out, Error>> {
        self.map(items, |function, args, options| Ok(function.call_as_with(&args, options)?.0))
    }

    /// [`Function::value_and_grad_as`] for each item.
    pub fn value_and_grad_as<Grad: DeserializeOwned + Send>(
        &self,
        items: impl IntoIterator<Item = impl Serialize + Send>,
    ) -> Vec<Result<(f64, Grad), Error>> {
        self.map(items, |function, args, options| {
            let (value, gradient, _) = function.value_and_grad_as_with(&args, options)?;
            Ok((value, gradient))
        })
    }
}

impl<Args: Arguments, Ret: Output> TypedFunction<Args, Ret> {
    /// Many calls of the function at a time: [`Batch`]. What stands in the outcomes is all that is allocated for an
    /// item.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def dot (xs : Array Real) (ys : Array Real) : Real =
    ///               loop sum = 0.0 for i < length xs do sum + xs[i] * ys[i]";
    /// let dot = Module::from_source(&Engine::default(), "dot.dual", text)?.function("dot")?;
    /// let dot = dot.typed::<(&[f64], &[f64]), f64>()?;
    /// let (rows, w) = ([1.0, 2.0, 3.0, 4.0], [10.0, 1.0]);
    /// let outcomes = dot.batch().call(rows.chunks(2).map(|row| (row, &w[..])));
    /// assert_eq!(outcomes.into_iter().collect::<Result<Vec<_>, _>>()?, [12.0, 34.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn batch(&self) -> Batch<'_, TypedFunction<Args, Ret>> {
        self.batch_with(&CallOptions::default())
    }

    /// Many calls of the function at a time, with options, which are as for [`Function::batch_with`].
    pub fn batch_with(&self, options: &CallOptions) -> Batch<'_, TypedFunction<Args, Ret>> {
        Batch { function: self, options: options.clone() }
    }
}

impl<Args: Arguments, Ret: Output> Batch<'_, TypedFunction<Args, Ret>> {
    /// [`TypedFunction::call`] for each item.
    pub fn call(&self, items: impl IntoIterator<Item = Args>) -> Vec<Result<Ret, Error>>
    where
        Args: Send,
        Ret: Send,
    {
        all(self.function.machine().batch_with(&self.options).call(items))
    }

    /// [`TypedFunction::jvp`] for each item: arguments, and their tangents.
    pub fn jvp(&self, items: impl IntoIterator<Item = (Args, Args::Tangent)>) -> Vec<Result<(Ret, Ret::Tangent), Error>>
    where
        Args: Arguments<Tangent: Send> + Send,
        Ret: Output<Tangent: Send> + Send,
    {
        all(self.function.machine().batch_with(&self.options).jvp(items))
    }

    /// [`TypedFunction::vjp`] for each item: arguments, and the cotangent of the value.
    pub fn vjp(
        &self,
        items: impl IntoIterator<Item = (Args, Ret::Tangent)>,
    ) -> Vec<Result<(Ret, Args::Gradient), Error>>
    where
        Args: Arguments<Gradient: Send> + Send,
        Ret: Output<Tangent: Send> + Send,
    {
        all(self.function.machine().batch_with(&self.options).vjp(items))
    }
}

impl<Args: Arguments> Batch<'_, TypedFunction<Args, f64>> {
    /// [`TypedFunction::value_and_grad`] for each item.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def mult (x : Real) (y : Real) : Real = x * y";
    /// let mult = Module::from_source(&Engine::default(), "mult.dual", text)?.function("mult")?;
    /// let mult = mult.typed::<(f64, f64), f64>()?;
    /// let outcomes = mult.batch().value_and_grad([(1.0, 2.0), (3.0, 4.0)]);
    /// assert_eq!(outcomes.into_iter().collect::<Result<Vec<_>, _>>()?, [(2.0, (2.0, 1.0)), (12.0, (4.0, 3.0))]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn value_and_grad(&self, items: impl IntoIterator<Item = Args>) -> Vec<Result<(f64, Args::Gradient), Error>>
    where
        Args: Arguments<Gradient: Send> + Send,
    {
        all(self.function.machine().batch_with(&self.options).value_and_grad(items))
    }

    /// [`TypedFunction::hvp`] for each item: arguments, and their tangents.
    #[expect(clippy::type_complexity, reason = "what the method of the function gives, for each item")]
    pub fn hvp(
        &self,
        items: impl IntoIterator<Item = (Args, Args::Tangent)>,
    ) -> Vec<Result<(f64, Args::Gradient, Args::Gradient), Error>>
    where
        Args: Arguments<Gradient: Send, Tangent: Send> + Send,
    {
        all(self.function.machine().batch_with(&self.options).hvp(items))
    }
}

/// The outcomes, with the facade's errors.
fn all<T>(outcomes: Vec<Result<T, engine::RunError>>) -> Vec<Result<T, Error>> {
    outcomes.into_iter().map(|outcome| outcome.map_err(Error::from)).collect()
}
