//! Functions of the host's that programs call.
//!
//! A module declares what it imports, names with types ([`ModuleDef::imports`](crate::module::ModuleDef::imports)), and
//! the engine's [`Linker`](crate::linker::Linker) has a [`HostFunction`] for each. A host function is a closure, with
//! derivatives if the host has some: a *vjp*, which takes the arguments and a cotangent of the result to those of the
//! arguments, a *jvp*, which takes the arguments and a tangent of them to that of the result, or both. If one of them
//! is there the other one is made of it, by one call for each real that comes out; what is asked for more often should
//! be given. Derivatives are functions themselves and may have derivatives in turn, for higher orders in all mixes of
//! modes. Where a program asks for a derivative that nobody has given, the call traps and names the function.
//!
//! ```
//! use dualvm_vm::engine::{Config, Engine, Module};
//! use dualvm_vm::host::HostFunction;
//! use dualvm_vm::text;
//!
//! // import host "gain" : Real -> Real
//! // def main (x : Real) = x * gain x
//! let def = text::parse("import x0 \"gain\" (x : Real) -> Real
//! func \"main\" (real) -> (real) export (x : Real) -> Real
//!     regs 2 real
//!     { call_import x0 (r0) -> (r1)
//!     mul r1, r0, r1
//!     ret (r1) }", "main.dvs").map_err(|errors| errors[0].to_string())?;
//!
//! let mut config = Config::default();
//! let gain = HostFunction::of(|x: f64| x.sin()).with_vjp(|x: f64, y_adj: f64| y_adj * x.cos());
//! config.linker.define("gain", gain);
//! let module = Module::new(&Engine::new(config), def).map_err(|errors| errors[0].to_string())?;
//! let main = module.function("main").ok_or("no such function")?.typed::<(f64,), f64>()?;
//! let (value, (derivative,)) = main.value_and_grad((2.0,))?;
//! assert_eq!(value, 2.0 * 2f64.sin());
//! assert_eq!(derivative, 2f64.sin() + 2.0 * 2f64.cos());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is asked of a host function
//! - It is called from any thread, at any time, by several at once: `Send` and `Sync`.
//! - It is *pure*: the same arguments give the same results. How often it is called is the machine's to decide; results
//!   of a call may be needed again when derivatives are computed, and it is called again then. Where that gives other
//!   results, the run ends with [`TrapKind::ImpureHost`](crate::trap::TrapKind::ImpureHost).
//! - It runs on the stack of the thread that it is called on, not on one of the machine's, and may use the machine
//!   itself; what it calls stays on that thread, if it is one of a pool, and nests up to 64 deep there, beyond which it
//!   ends with [`Limit::Depth`](crate::trap::Limit::Depth). Its time counts towards the deadline, and if
//!   it takes long it should look at that: [`HostCall::check`]. Other limits of the run are not those of what it calls,
//!   unless it hands them on: [`HostCall::nested_options`].
//! - Its errors, and panics if those unwind, are traps of the program with its text:
//!   [`TrapKind::Host`](crate::trap::TrapKind::Host). What it saves for a derivative, and the causes of its errors, may
//!   be dropped in the middle of a run, on the stack of the thread as well. Nobody hears of a panic there.

mod call;
mod guard;
mod linked;
mod saved;
mod tensor;
mod transpose;
mod typed;

pub(crate) use call::{CallingRun, Sink};
pub use call::{HostCall, HostError};
pub(crate) use guard::{Owned, Panic, drop_guarded, run_guarded};
pub(crate) use linked::{Form, LinkedHost, Misfit, Part};
pub(crate) use saved::SavedCell;
pub use typed::{HostFn, HostParams, HostResult, HostValue, TypedHostFunction};

use crate::flat::LeafKind;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, LazyLock};

/// What a host function keeps of a call for the derivative.
pub(crate) type Saved = Box<dyn Any + Send + Sync>;

type Call = Box<dyn Fn(&mut HostCall<'_>) -> Result<(), HostError> + Send + Sync>;
type SavingCall = Box<dyn Fn(&mut HostCall<'_>) -> Result<Saved, HostError> + Send + Sync>;

/// A function of the host's. Cheap to clone.
///
/// [`HostFunction::of`] makes one of a closure with types of Rust, [`HostFunction::flat`] of one that takes numbers and
/// slices as they stand in the machine, which copies no arrays, and what other languages have.
#[derive(Clone)]
pub struct HostFunction(Arc<Inner>);

struct Inner {
    params: Vec<LeafKind>,
    results: Vec<LeafKind>,
    call: Call,
    /// The same with what the vjp wants to have of it.
    saving: Option<SavingCall>,
    vjp: Option<Derivative>,
    jvp: Option<Derivative>,
    /// How often it may be differentiated.
    order: u32,
}

/// A derivative that the host has given, or that is made of those, when it is first asked for.
#[derive(Clone)]
enum Derivative {
    Given(HostFunction),
    Made(Arc<LazyLock<HostFunction, Box<dyn FnOnce() -> HostFunction + Send>>>),
}

impl Derivative {
    fn made(make: impl FnOnce() -> HostFunction + Send + 'static) -> Self {
        Derivative::Made(Arc::new(LazyLock::new(Box::new(make))))
    }

    fn get(&self) -> &HostFunction {
        match self {
            Derivative::Given(function) => function,
            Derivative::Made(made) => made,
        }
    }
}

/// Why a function is not the derivative of another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotDerivative {
    what: &'static str,
    expected: Vec<LeafKind>,
    found: Vec<LeafKind>,
}

impl fmt::Display for NotDerivative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotDerivative { what, expected, found } = self;
        write!(f, "{what}: expected {}, found {}", Kinds(expected), Kinds(found))
    }
}

impl std::error::Error for NotDerivative {}

/// Kinds in text: `(a real, reals)`.
pub(crate) struct Kinds<'a>(pub(crate) &'a [LeafKind]);

impl fmt::Display for Kinds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(")?;
        for (n, kind) in self.0.iter().enumerate() {
            let name = match kind {
                LeafKind::Real => "a real",
                LeafKind::Int => "an integer",
                LeafKind::Bool => "a boolean",
                LeafKind::Reals => "reals",
                LeafKind::Ints => "integers",
                LeafKind::Bools => "booleans",
                LeafKind::Shape => "a shape",
            };
            write!(f, "{}{name}", if n == 0 { "" } else { ", " })?;
        }
        write!(f, ")")
    }
}

/// Those that have tangents and cotangents, with their numbers: what is of reals, and the shapes of tensors of reals.
fn differentiable(kinds: &[LeafKind]) -> impl Iterator<Item = (usize, LeafKind)> + '_ {
    let has_tangents = |&(n, kind): &(usize, LeafKind)| match kind {
        LeafKind::Shape => kinds.get(n + 1) == Some(&LeafKind::Reals),
        kind => kind.is_real(),
    };
    kinds.iter().copied().enumerate().filter(has_tangents)
}

/// The tangents and cotangents of such leaves, which are of the same kinds.
fn tangents(kinds: &[LeafKind]) -> impl Iterator<Item = LeafKind> + '_ {
    differentiable(kinds).map(|(_, kind)| kind)
}

impl HostFunction {
    /// A function of a closure that takes and gives [`HostValue`]s: `f64`, `i64`, `bool`, vectors and tensors of these,
    /// and tuples of such. It takes up to six, and may give a `Result`, whose error is a trap's text. What it takes has
    /// to be said where the closure is written. Arrays and lists come as vectors of their own, matrices and tensors as
    /// [`Tensor`](crate::typed::Tensor)s. It doesn't see the call: one that asks for its limits is made by
    /// [`HostFunction::flat`].
    ///
    /// ```
    /// use dualvm_vm::host::HostFunction;
    /// use dualvm_vm::typed::Tensor;
    ///
    /// // The transpose, which is linear.
    /// fn transposed(m: Tensor<f64, 2>) -> Tensor<f64, 2> {
    ///     let [rows, columns] = m.shape();
    ///     let element = |n: usize| m.elements()[n % rows * columns + n / rows];
    ///     Tensor::new((0..rows * columns).map(element).collect(), [columns, rows]).expect("as many as before")
    /// }
    /// let transpose = HostFunction::of(transposed).with_vjp(|_: Tensor<f64, 2>, t_adj| transposed(t_adj));
    /// ```
    pub fn of<P: HostParams, R: HostResult, F: HostFn<P, R>>(call: F) -> TypedHostFunction<P, R> {
        TypedHostFunction::new(call)
    }

    /// A function that takes and gives numbers and slices: the leaves of parameters and result in order, as
    /// [`crate::flat`] says. Tuples and records are not seen. A matrix or a tensor is two leaves, its shape and its
    /// elements; as shapes don't say of how many dimensions they are, one function may serve tensors of any number. The
    /// numbers of a list are copied out of it and into it.
    ///
    /// ```
    /// use dualvm_vm::flat::LeafKind;
    /// use dualvm_vm::host::HostFunction;
    ///
    /// let sum = HostFunction::flat(&[LeafKind::Reals], &[LeafKind::Real], |call| {
    ///     let sum: f64 = call.reals(0).iter().sum();
    ///     call.give(sum)
    /// });
    /// let sum = sum.with_vjp(HostFunction::flat(&[LeafKind::Reals, LeafKind::Real], &[LeafKind::Reals], |call| {
    ///     let (len, y_adj) = (call.reals(0).len(), call.real(1));
    ///     call.give_reals(len, |x_adj| x_adj.fill(y_adj))
    /// }))?;
    /// # Ok::<(), dualvm_vm::host::NotDerivative>(())
    /// ```
    pub fn flat(
        params: &[LeafKind],
        results: &[LeafKind],
        call: impl Fn(&mut HostCall<'_>) -> Result<(), HostError> + Send + Sync + 'static,
    ) -> HostFunction {
        HostFunction(Arc::new(Inner {
            params: params.to_vec(),
            results: results.to_vec(),
            call: Box::new(call),
            saving: None,
            vjp: None,
            jvp: None,
            order: 0,
        }))
    }

    /// The function with this one as its vjp, which may have derivatives of its own: it takes what the function takes,
    /// then a cotangent for each result that is real, and gives a cotangent for each parameter that is real. That of a
    /// tensor is a tensor, with its shape, which has to be the same. It is linear in the cotangents.
    ///
    /// # Errors
    /// If its types are others.
    pub fn with_vjp(self, vjp: HostFunction) -> Result<HostFunction, NotDerivative> {
        vjp.check("what the vjp takes", self.vjp_leaves())?;
        Ok(self.change(|inner| {
            inner.order = inner.order.max(1 + vjp.order());
            inner.vjp = Some(Derivative::Given(vjp));
            // What was saved was for another one.
            inner.saving = None;
        }))
    }

    /// The function with a vjp that wants something of the call itself: where the call is recorded, `call` runs in the
    /// place of the function, and what it returns is there for the vjp, as [`HostCall::saved`]. The tape has it, and
    /// drops it when it goes, whatever the run has come to.
    ///
    /// # Errors
    /// As [`HostFunction::with_vjp`].
    pub fn with_saving_vjp<S: Any + Send + Sync>(
        self,
        call: impl Fn(&mut HostCall<'_>) -> Result<S, HostError> + Send + Sync + 'static,
        vjp: HostFunction,
    ) -> Result<HostFunction, NotDerivative> {
        let saving: SavingCall = Box::new(move |to| call(to).map(|saved| Box::new(saved) as Saved));
        Ok(self.with_vjp(vjp)?.change(|inner| inner.saving = Some(saving)))
    }

    /// The function with this one as its jvp, which may have derivatives of its own: it takes what the function takes,
    /// then a tangent for each parameter that is real, and gives a tangent for each result that is real; of a tensor, a
    /// tensor. It is linear in the tangents.
    ///
    /// # Errors
    /// If its types are others.
    pub fn with_jvp(self, jvp: HostFunction) -> Result<HostFunction, NotDerivative> {
        jvp.check("what the jvp takes", self.jvp_leaves())?;
        Ok(self.change(|inner| {
            inner.order = inner.order.max(1 + jvp.order());
            inner.jvp = Some(Derivative::Given(jvp));
        }))
    }

    fn check(
        &self,
        takes: &'static str,
        (params, results): (Vec<LeafKind>, Vec<LeafKind>),
    ) -> Result<(), NotDerivative> {
        for (what, expected, found) in [(takes, params, &self.0.params), ("what it gives", results, &self.0.results)] {
            if expected != *found {
                return Err(NotDerivative { what, expected, found: found.clone() });
            }
        }
        Ok(())
    }

    /// The function with something else. It is nobody else's yet, or a copy that calls it.
    fn change(self, change: impl FnOnce(&mut Inner)) -> HostFunction {
        let mut inner = match Arc::try_unwrap(self.0) {
            Ok(inner) => inner,
            Err(shared) => {
                let (called, saved) = (shared.clone(), shared.clone());
                let saving = shared.saving.is_some().then(|| -> SavingCall {
                    Box::new(move |call| saved.saving.as_ref().expect("it was there")(call))
                });
                Inner {
                    params: shared.params.clone(),
                    results: shared.results.clone(),
                    call: Box::new(move |call| (called.call)(call)),
                    saving,
                    vjp: shared.vjp.clone(),
                    jvp: shared.jvp.clone(),
                    order: shared.order,
                }
            }
        };
        change(&mut inner);
        HostFunction(Arc::new(inner))
    }

    /// What it takes: the leaves of all parameters.
    pub fn params(&self) -> &[LeafKind] {
        &self.0.params
    }

    /// What it gives: the leaves of the result.
    pub fn results(&self) -> &[LeafKind] {
        &self.0.results
    }

    /// What its vjp takes and gives: see [`HostFunction::with_vjp`].
    pub fn vjp_leaves(&self) -> (Vec<LeafKind>, Vec<LeafKind>) {
        let Inner { params, results, .. } = &*self.0;
        (params.iter().copied().chain(tangents(results)).collect(), tangents(params).collect())
    }

    /// What its jvp takes and gives: see [`HostFunction::with_jvp`].
    pub fn jvp_leaves(&self) -> (Vec<LeafKind>, Vec<LeafKind>) {
        let Inner { params, results, .. } = &*self.0;
        (params.iter().copied().chain(tangents(params)).collect(), tangents(results).collect())
    }

    /// Whether it has a derivative.
    pub fn is_differentiable(&self) -> bool {
        self.0.vjp.is_some() || self.0.jvp.is_some()
    }

    /// Calls it.
    pub(crate) fn call(&self, call: &mut HostCall<'_>) -> Result<(), HostError> {
        (self.0.call)(call)
    }

    /// Calls it in a recording run.
    pub(crate) fn call_saving(&self, call: &mut HostCall<'_>) -> Result<Option<Saved>, HostError> {
        match &self.0.saving {
            Some(saving) => saving(call).map(Some),
            None => self.call(call).map(|()| None),
        }
    }

    /// The function with a jvp that is made when it is asked for, and derivatives up to an order.
    fn with_made_jvp(self, order: u32, make: impl FnOnce() -> HostFunction + Send + 'static) -> HostFunction {
        self.change(|inner| {
            inner.order = order;
            inner.jvp = Some(Derivative::made(make));
        })
    }

    fn order(&self) -> u32 {
        self.0.order
    }

    /// Its vjp and its jvp: both if it has one of them.
    pub(crate) fn derivatives(&self) -> Option<[HostFunction; 2]> {
        let [vjp, jvp] = [&self.0.vjp, &self.0.jvp].map(|derivative| derivative.as_ref().map(|d| d.get().clone()));
        match (vjp, jvp) {
            (Some(vjp), Some(jvp)) => Some([vjp, jvp]),
            (Some(vjp), None) => {
                let jvp = transpose::jvp_of_vjp(self, &vjp);
                Some([vjp, jvp])
            }
            (None, Some(jvp)) => Some([transpose::vjp_of_jvp(self, &jvp), jvp]),
            (None, None) => None,
        }
    }
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { params, results, vjp, jvp, .. } = &*self.0;
        let mut out = f.debug_struct("HostFunction");
        out.field("params", params).field("results", results);
        out.field("vjp", &vjp.is_some()).field("jvp", &jvp.is_some()).finish_non_exhaustive()
    }
}
