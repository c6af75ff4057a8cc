//! Batches of flat calls: columns in, columns or rows out.

mod columns;
mod places;

pub use columns::{Column, ColumnError};
pub use places::{ColumnMut, Places};

use super::call_frame::CallFrame;
use super::signature::Leaf;
use super::{FlatFunction, FlatValue};
use crate::embedding::engine::{Batch, CallOptions, Function, Plan, RunError};
use columns::Source;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// What went wrong in an item of a batch.
#[derive(Clone, PartialEq, Debug)]
pub struct ItemError {
    /// The number of the item, from 0.
    pub item: usize,
    /// Why it gave no result.
    pub error: RunError,
}

impl fmt::Display for ItemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {}: {}", self.item, self.error)
    }
}

impl std::error::Error for ItemError {}

impl FlatFunction {
    /// Many calls of the function at a time, over the engine's threads: [`Batch`] says how they run.
    ///
    /// Arguments come as a [`Column`] for each of [`FlatFunction::params`], and everything that is given goes to
    /// [`Places`] of the caller's: a column for each leaf, or a row for each item. For an item that doesn't fail,
    /// nothing is allocated; sharing items out may allocate a little for every 64 of them.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, flat::{Column, FlatValue}, text};
    /// # let def = text::parse("func \"f\" (real, real) -> (real)
    /// #     export (x : Real, k : Real) -> Real
    /// #     regs 2 real
    /// #     { mul r1, r0, r1
    /// #     mul r1, r0, r1
    /// #     ret (r1) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (k : Real) : Real = k * x * x
    /// let f = module.function("f").ok_or("no such function")?.flat()?;
    /// let (mut values, mut gradient) = ([0.0; 3], [0.0; 6]);
    /// let args = [Column::from(&[1.0, 2.0, 3.0]), Column::Same(10.0.into())];
    /// let failed = f.batch().value_and_grad(3, &args, &mut values, &mut gradient)?;
    /// assert!(failed.is_empty());
    /// assert_eq!(values, [10.0, 40.0, 90.0]);
    /// // A row for each item: by x, by k.
    /// assert_eq!(gradient, [20.0, 1.0, 40.0, 4.0, 60.0, 9.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch(&self) -> Batch<'_, FlatFunction> {
        self.batch_with(&CallOptions::default())
    }

    /// [`FlatFunction::batch`], with options: see [`Function::batch_with`].
    pub fn batch_with(&self, options: &CallOptions) -> Batch<'_, FlatFunction> {
        Batch::new(self, options.clone())
    }
}

/// Everything that one operation gives, for a run of items.
struct Piece<'p> {
    first: usize,
    items: usize,
    outs: [Places<'p>; 3],
}

impl<'p> Piece<'p> {
    /// The first so many items, and the others.
    fn split(self, at: usize) -> (Piece<'p>, Piece<'p>) {
        let Piece { first, items, outs } = self;
        let (mut left, mut right) = ([const { Places::none() }; 3], [const { Places::none() }; 3]);
        for ((out, left), right) in outs.into_iter().zip(&mut left).zip(&mut right) {
            (*left, *right) = out.split(at);
        }
        (Piece { first, items: at, outs: left }, Piece { first: first + at, items: items - at, outs: right })
    }
}

/// What a thread keeps from item to item.
#[derive(Default)]
struct Kept<'a> {
    frame: CallFrame,
    args: Vec<FlatValue<'a>>,
    more: Vec<FlatValue<'a>>,
}

/// A batch that is known to be well-formed.
struct Run<'r, 'a> {
    function: &'r FlatFunction,
    plan: Plan<'r>,
    /// Items that are run without sharing them.
    piece: usize,
    args: Vec<Source<'a>>,
    /// Tangents or cotangents.
    more: Vec<Source<'a>>,
    kept: Mutex<Vec<Kept<'a>>>,
}

impl<'a> Run<'_, 'a> {
    /// Runs a piece, with the help of others if it is long. Returns what has failed, in order.
    fn share(&self, piece: Piece<'_>, each: &Each<'_>) -> Vec<ItemError> {
        if piece.items <= self.piece {
            return self.run(piece, each);
        }
        let half = piece.items / 2;
        let (left, right) = piece.split(half);
        let (mut failed, more) = rayon::join(|| self.share(left, each), || self.share(right, each));
        failed.extend(more);
        failed
    }

    fn run(&self, Piece { first, items, mut outs }: Piece<'_>, each: &Each<'_>) -> Vec<ItemError> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let one = kept().pop();
        let mut mine = one
            .unwrap_or_else(|| Kept { frame: CallFrame::with_options(self.plan.options.clone()), ..Kept::default() });
        let mut failed = Vec::new();
        let _alone = self.plan.begin();
        for n in 0..items {
            let item = first + n;
            let outcome = match self.plan.ended() {
                Some(error) => Err(error),
                None => {
                    let Kept { frame, args, more } = &mut mine;
                    args.clear();
                    args.extend(self.args.iter().map(|source| source.at(item)));
                    more.clear();
                    more.extend(self.more.iter().map(|source| source.at(item)));
                    each(self.function, frame, (args, more), &mut Outs { outs: &mut outs, item: n })
                }
            };
            if let Err(error) = outcome {
                failed.push(ItemError { item, error });
            }
        }
        kept().push(mine);
        failed
    }
}

/// An operation on one item.
type Each<'e> = dyn Fn(&FlatFunction, &mut CallFrame, Given<'_>, &mut Outs<'_, '_>) -> Result<(), RunError> + Sync + 'e;

/// Arguments of an item, and its tangents or cotangents.
type Given<'g> = (&'g [FlatValue<'g>], &'g [FlatValue<'g>]);

/// The places of one item.
struct Outs<'o, 'p> {
    outs: &'o mut [Places<'p>; 3],
    /// Its number in the piece.
    item: usize,
}

impl Outs<'_, '_> {
    /// Sees that what an item gives has its places in this one of the outputs.
    fn fit<'f>(
        &self,
        out: usize,
        (function, leaves): (&FlatFunction, &[Leaf]),
        values: impl Iterator<Item = FlatValue<'f>>,
    ) -> Result<(), RunError> {
        self.outs[out].fit(values).map_err(|misfit| misfit.of(function, leaves).into())
    }

    /// Writes what an item gives, which fits.
    fn write<'f>(&mut self, out: usize, values: impl Iterator<Item = FlatValue<'f>>) {
        self.outs[out].write(self.item, values);
    }
}

impl Batch<'_, FlatFunction> {
    /// [`FlatFunction::call`] for each of so many items.
    ///
    /// Returns what went wrong in items, in their order; their places stay as they were.
    ///
    /// # Errors
    /// [`RunError::Column`] if the columns are not those of the function's leaves or not of so many items, and
    /// [`RunError::Argument`] if what all items have is not of its leaf's kind, before anything runs.
    pub fn call<'p>(
        &self,
        items: usize,
        args: &[Column<'_>],
        results: impl Into<Places<'p>>,
    ) -> Result<Vec<ItemError>, RunError> {
        let args = Source::of_arguments(self.function, items, args)?;
        let results = results.into().of_results(self.function, items, "results")?;
        let outs = [results, Places::none(), Places::none()];
        self.run(items, args, Vec::new(), outs, &|function, frame, (args, _), outs| {
            let results = function.call(frame, args)?;
            outs.fit(0, (function, function.results()), results.iter())?;
            outs.write(0, results.iter());
            Ok(())
        })
    }

    /// [`FlatFunction::value_and_grad`] for each of so many items. There is a value for each; the gradient has a column
    /// for each of [`FlatFunction::params`], or a row for each item with all derivatives that are asked for.
    ///
    /// # Errors
    /// As [`Batch::<FlatFunction>::call`], and [`RunError::NotScalar`] if the result is not one real.
    pub fn value_and_grad<'p>(
        &self,
        items: usize,
        args: &[Column<'_>],
        values: impl Into<Places<'p>>,
        gradient: impl Into<Places<'p>>,
    ) -> Result<Vec<ItemError>, RunError> {
        self.function.check_scalar()?;
        let values = values.into().of_values(self.function, items)?;
        let args = Source::of_arguments(self.function, items, args)?;
        let gradient = gradient.into().of_params(self.function, items, "gradient", &args)?;
        self.run(items, args, Vec::new(), [values, gradient, Places::none()], &|function, frame, (args, _), outs| {
            let (value, gradient) = function.value_and_grad(frame, args)?;
            outs.fit(1, (function, function.params()), gradient.iter())?;
            outs.write(0, std::iter::once(FlatValue::Real(value)));
            outs.write(1, gradient.iter());
            Ok(())
        })
    }

    /// [`FlatFunction::vjp`] for each of so many items: a column of cotangents for each of [`FlatFunction::results`],
    /// [`FlatValue::Null`] for all items where that is discrete.
    ///
    /// # Errors
    /// As [`Batch::<FlatFunction>::call`].
    pub fn vjp<'p>(
        &self,
        items: usize,
        args: &[Column<'_>],
        cotangents: &[Column<'_>],
        results: impl Into<Places<'p>>,
        gradient: impl Into<Places<'p>>,
    ) -> Result<Vec<ItemError>, RunError> {
        let function = self.function;
        let args = Source::of_arguments(function, items, args)?;
        let cotangents = Source::of_cotangents(function, items, cotangents)?;
        let results = results.into().of_results(function, items, "results")?;
        let gradient = gradient.into().of_params(function, items, "gradient", &args)?;
        self.run(items, args, cotangents, [results, gradient, Places::none()], &|function, frame, (args, w), outs| {
            let (results, gradient) = function.vjp(frame, args, w)?;
            outs.fit(0, (function, function.results()), results.iter())?;
            outs.fit(1, (function, function.params()), gradient.iter())?;
            outs.write(0, results.iter());
            outs.write(1, gradient.iter());
            Ok(())
        })
    }

    /// [`FlatFunction::jvp`] for each of so many items: a column of tangents for each of [`FlatFunction::params`],
    /// [`FlatValue::Null`] for all items where that [has no derivative](Leaf::has_derivative).
    ///
    /// # Errors
    /// As [`Batch::<FlatFunction>::call`].
    pub fn jvp<'p>(
        &self,
        items: usize,
        args: &[Column<'_>],
        tangents: &[Column<'_>],
        results: impl Into<Places<'p>>,
        tangents_of_results: impl Into<Places<'p>>,
    ) -> Result<Vec<ItemError>, RunError> {
        let function = self.function;
        let args = Source::of_arguments(function, items, args)?;
        let tangents = Source::of_tangents(function, items, tangents)?;
        let results = results.into().of_results(function, items, "results")?;
        let moved = tangents_of_results.into().of_tangents(function, items)?;
        self.run(items, args, tangents, [results, moved, Places::none()], &|function, frame, (args, moved), outs| {
            let (results, tangents) = function.jvp(frame, args, moved)?;
            outs.fit(0, (function, function.results()), results.iter())?;
            outs.fit(1, (function, function.results()), tangents.iter())?;
            outs.write(0, results.iter());
            outs.write(1, tangents.iter());
            Ok(())
        })
    }

    /// [`FlatFunction::hvp`] for each of so many items: tangents are as for `jvp`.
    ///
    /// # Errors
    /// As [`Batch::<FlatFunction>::value_and_grad`].
    pub fn hvp<'p>(
        &self,
        items: usize,
        args: &[Column<'_>],
        tangents: &[Column<'_>],
        values: impl Into<Places<'p>>,
        gradient: impl Into<Places<'p>>,
        product: impl Into<Places<'p>>,
    ) -> Result<Vec<ItemError>, RunError> {
        let function = self.function;
        function.check_scalar()?;
        let args = Source::of_arguments(function, items, args)?;
        let tangents = Source::of_tangents(function, items, tangents)?;
        let values = values.into().of_values(function, items)?;
        let gradient = gradient.into().of_params(function, items, "gradient", &args)?;
        let product = product.into().of_params(function, items, "product", &args)?;
        self.run(items, args, tangents, [values, gradient, product], &|function, frame, (args, moved), outs| {
            let (value, gradient, product) = function.hvp(frame, args, moved)?;
            outs.fit(1, (function, function.params()), gradient.iter())?;
            outs.fit(2, (function, function.params()), product.iter())?;
            outs.write(0, std::iter::once(FlatValue::Real(value)));
            outs.write(1, gradient.iter());
            outs.write(2, product.iter());
            Ok(())
        })
    }

    fn run(
        &self,
        items: usize,
        args: Vec<Source<'_>>,
        more: Vec<Source<'_>>,
        outs: [Places<'_>; 3],
        each: &Each<'_>,
    ) -> Result<Vec<ItemError>, RunError> {
        let function: &Function = self.function.function();
        let plan = Plan::of(function, &self.options, items);
        let piece = plan.piece(items);
        let run = Run { function: self.function, plan, piece, args, more, kept: Mutex::default() };
        Ok(run.plan.enter(|| run.share(Piece { first: 0, items, outs }, each)))
    }
}
