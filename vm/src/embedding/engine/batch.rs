//! Batches: many calls of one function, over the engine's threads.

use super::error::outside_of_code;
use super::{CallOptions, CancelHandle, Function, RunError};
use crate::running::alone::{Alone, is_alone};
use crate::trap::{Limit, TrapKind};
use rayon::ThreadPool;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use std::time::Instant;

/// Items that a thread takes at a time, at most: little time even if each of them takes long, and more than what it
/// takes to hand them over if each of them takes 100 ns.
const PIECE_MAX: usize = 64;
/// Pieces for each thread, so that all of them end at about the same time, as long as there are so many items.
const PIECES_PER_THREAD: usize = 32;

/// Many calls of one function at a time, over the engine's threads. The functions' methods `batch` and `batch_with`
/// make it.
///
/// Each item is a call like any other: it has the limits of a call, and what goes wrong in it is the outcome of this
/// item only. Outcomes come in the order of the items, with the same bits whatever the threads, because an item runs as
/// it would by itself.
///
/// | | items run | forks in an item |
/// |---|---|---|
/// | at least half as many as threads, or of a function that doesn't fork | side by side | stay on the item's thread |
/// | fewer | one after the other | run on all threads |
/// | a host listens to a program that traces | one after the other | run on all threads |
/// | [`Config::trap_nan`](super::Config::trap_nan) | one after the other | stay on the thread that calls |
/// | in another batch's item or a [host function](crate::host), on a pool's thread | one after the other | stay there |
///
/// So no thread that is in the middle of an item takes up another one, and what programs trace comes in order. Threads
/// of the engine's pool run the items, and a thread of the pool that begins a batch works for it: batches may be begun
/// by any number of threads, also by jobs in the pool.
#[derive(Clone, Debug)]
pub struct Batch<'a, F> {
    pub(crate) function: &'a F,
    pub(crate) options: CallOptions,
}

impl<'a, F> Batch<'a, F> {
    #[inline]
    pub(crate) fn new(function: &'a F, options: CallOptions) -> Self {
        Batch { function, options }
    }
}

/// Where items run, and how.
pub(crate) struct Plan<'a> {
    /// The threads that they run on, if not on the one that calls.
    pool: Option<&'a ThreadPool>,
    /// Those of each item.
    pub(crate) options: &'a CallOptions,
}

impl<'a> Plan<'a> {
    /// For so many items.
    pub(crate) fn of(function: &'a Function, options: &'a CallOptions, items: usize) -> Self {
        let (engine, program) = (&function.module.engine, &function.module.program);
        let is_heard = || {
            let listens = options.trace.is_some() || engine.config().trace.is_some();
            listens && program.shows(function.func)
        };
        let side_by_side = items > 1
            && !is_alone()
            && !program.is_checked()
            && (2 * items >= engine.threads() || !program.forks(function.func))
            && !is_heard();
        let pool = side_by_side.then(|| engine.pool()).flatten();
        Plan { pool, options }
    }

    /// Begins an item, which has its thread to itself if others run beside it.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Alone> {
        self.pool.map(|_| Alone::begin())
    }

    /// Why no more items begin, if so: the host has cancelled the batch, or its time is up.
    #[inline]
    pub(crate) fn ended(&self) -> Option<RunError> {
        let CallOptions { cancel, ends_at, .. } = self.options;
        if cancel.as_ref().is_some_and(CancelHandle::is_cancelled) {
            return Some(outside_of_code(TrapKind::Cancelled));
        }
        let is_late = ends_at.is_some_and(|end| Instant::now() >= end);
        is_late.then(|| outside_of_code(Limit::Deadline.into()))
    }

    /// How many of so many items are handed to a thread at a time.
    pub(crate) fn piece(&self, items: usize) -> usize {
        match self.pool {
            None => items.max(1),
            Some(pool) => (items / (pool.current_num_threads() * PIECES_PER_THREAD)).clamp(1, PIECE_MAX),
        }
    }

    /// Does something on the threads of the batch, which may be shared with `rayon::join`.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match self.pool {
            None => work(),
            Some(pool) => pool.install(work),
        }
    }

    /// The outcome of each item, in order. `make` makes what a thread keeps from item to item.
    pub(crate) fn map<Item: Send, S, T: Send, E: From<RunError> + Send>(
        &self,
        items: Vec<Item>,
        make: impl Fn() -> S + Send + Sync,
        each: impl Fn(&mut S, Item, &CallOptions) -> Result<T, E> + Send + Sync,
    ) -> Vec<Result<T, E>> {
        let run = |kept: &mut S, item| {
            let _alone = self.begin();
            match self.ended() {
                None => each(kept, item, self.options),
                Some(error) => Err(error.into()),
            }
        };
        if self.pool.is_none() {
            let mut kept = make();
            return items.into_iter().map(|item| run(&mut kept, item)).collect();
        }
        let piece = self.piece(items.len());
        self.enter(|| items.into_par_iter().with_max_len(piece).map_init(&make, run).collect())
    }
}

impl Function {
    /// Many calls of the function at a time, over the engine's threads: [`Batch`] says how they run.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module, RunError}, text, value::Value};
    /// # let def = text::parse("func \"half\" (int) -> (int) export (n : Int) -> Int
    /// #     regs 2 int
    /// #     { iconst i1, 2
    /// #     idiv i1, i1, i0
    /// #     ret (i1) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (n : Int) : Int = 2 / n
    /// let f = module.function("half").ok_or("no such function")?;
    /// let outcomes = f.batch().map([1, 0, 2], |f, n, options| f.call_with(&[Value::Int(n)], options));
    /// let values: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().ok().map(|(value, _)| value)).collect();
    /// assert_eq!(values, [Some(&Value::Int(2)), None, Some(&Value::Int(1))]);
    /// assert!(matches!(&outcomes[1], Err(RunError::Trap(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch(&self) -> Batch<'_, Function> {
        self.batch_with(&CallOptions::default())
    }

    /// [`Function::batch`], with options. Limits are those of each item, with the time from its beginning;
    /// [`CallOptions::ends_at`] and [`CallOptions::cancel`] are for all of them together: items that run then stop, and
    /// those that haven't begun don't run. Their outcome is [`Limit::Deadline`] or [`TrapKind::Cancelled`].
    pub fn batch_with(&self, options: &CallOptions) -> Batch<'_, Function> {
        Batch::new(self, options.clone())
    }
}

impl Batch<'_, Function> {
    /// Does something for each item, and gives the outcomes in their order. `each` makes calls of the function, with
    /// the options that it is given; it is called by any thread of the engine, and not at all for items that the end of
    /// the batch comes before. If it panics, so does this, when items that were begun have ended.
    pub fn map<Item: Send, T: Send, E: From<RunError> + Send>(
        &self,
        items: impl IntoIterator<Item = Item>,
        each: impl Fn(&Function, Item, &CallOptions) -> Result<T, E> + Send + Sync,
    ) -> Vec<Result<T, E>> {
        let items: Vec<Item> = items.into_iter().collect();
        let plan = Plan::of(self.function, &self.options, items.len());
        plan.map(items, || (), |(), item, options| each(self.function, item, options))
    }
}
