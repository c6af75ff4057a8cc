//! Derivatives beyond the gradient: in a direction, of any cotangent, of second order, and all of them.
//!
//! Reverse mode is a recording run and a sweep, as for a gradient. Forward mode is a run of a function that gives
//! tangents with its values (`in_place`) in place of the function, on the arguments and their tangents, or of the
//! operator `jvp` (`running::operators`) where there is no such function. A recording run of either has slots for both:
//! a sweep from the tangent of the value, ⟨∇f x, v⟩, gives its derivatives by x, which are the product of the Hessian
//! and v, and by v, which are the gradient.

use super::invocation::KeptArguments;
use super::{
    CallOptions, Function, Hessian, Hvp, Invocation, Jacobian, Jvp, Jvps, JvpsOfReals, Module, RunError, RunState,
    TangentError, Vjp,
};
use crate::bytecode::module::FuncId;
use crate::bytecode::module::HostType;
use crate::code::{Counts, Mode, OperatorSite};
use crate::embedding::convert::{self, FlattenError, Flattener, ResultSlot, Store, WriteError};
use crate::embedding::flat::{ArgumentWriter, CotangentError};
use crate::embedding::value::Value;
use crate::in_place::Directions;
use crate::memory::heap::Fields;
use crate::running::entry::Entry;
use crate::sweep::Seed;
use crate::trap::Limit;
use crate::word::Owner;
use std::borrow::Cow;

/// How a Jacobian is computed. The derivatives are the same up to rounding, unless the program gives derivatives of its
/// own that aren't linear, or that are nobody's: then each way asks for what it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum JacobianMode {
    /// By columns: a run with tangents for each real in the arguments that derivatives are with respect to.
    Forward,
    /// By rows: one recorded run, and a sweep for each real in the value.
    #[default]
    Reverse,
    /// [`JacobianMode::Forward`] if there are fewer reals in the arguments than in the value, and else
    /// [`JacobianMode::Reverse`]. Where arrays, lists or data types make it depend on the run how many reals are in the
    /// value, a recorded run tells, which is of no further use if there turn out to be more.
    Auto,
}

/// In which direction arguments move.
#[derive(Clone, Copy)]
pub(super) enum Direction<'a> {
    /// Those of these tangents, each in a lane of its own. Lanes that are left over don't move.
    Tangents(&'a [&'a [Value]]),
    /// That of the real of this number, among those that derivatives are with respect to. If there are several lanes,
    /// those of the next ones, too.
    Axis(usize),
    /// Those of these reals, one for each that derivatives are with respect to, for each lane.
    Reals(&'a [Vec<f64>]),
}

/// How many directions a run goes in, side by side.
pub(super) const LANES: usize = 4;

impl Function {
    /// The function's value, and how it changes as the arguments move in the direction of the tangents: the product of
    /// the Jacobian and these. It takes about as long as two to three calls, and no tape.
    ///
    /// There is a tangent for each argument, of its shape. [`Value::Null`] may stand for discrete parts, and has to for
    /// arguments that derivatives are not [with respect to](Function::wrt).
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, text, value::Value};
    /// # let def = text::parse("func \"f\" (real, real) -> (real, real)
    /// #     export (x : Real, y : Real) -> (Real, Real)
    /// #     regs 2 real
    /// #     { mul r1, r0, r1
    /// #     ret (r0, r1) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (y : Real) = (x, x * y)
    /// let f = module.function("f").ok_or("no such function")?;
    /// let (value, tangent) = f.jvp(&[3.0.into(), 5.0.into()], &[1.0.into(), 10.0.into()])?;
    /// assert_eq!(value, Value::Tuple(vec![3.0.into(), 15.0.into()]));
    /// assert_eq!(tangent, Value::Tuple(vec![1.0.into(), 35.0.into()]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`], and [`RunError::Tangent`] if the tangents are not those of the arguments.
    pub fn jvp(&self, args: &[Value], tangents: &[Value]) -> Result<(Value, Value), RunError> {
        self.jvp_with(args, tangents, &CallOptions::default()).map(|Jvp { value, tangent, .. }| (value, tangent))
    }

    /// [`Function::jvp`], with options, and reports what the call used.
    ///
    /// # Errors
    /// As [`Function::jvp`].
    pub fn jvp_with(&self, args: &[Value], tangents: &[Value], options: &CallOptions) -> Result<Jvp, RunError> {
        self.check_tangents(tangents)?;
        let (function, mut lease) = (self.with_tangents(), self.lease());
        let mut run = Invocation::begin(&function, options, &mut lease).timed();
        run.forward_with_tangents(args, Direction::Tangents(&[tangents]), Mode::PRIMAL)?;
        let (value, mut tangents) = run.value_and_tangents(None, 1)?;
        let tangent = tangents.pop().expect("there is one direction");
        Ok(Jvp { value, tangent, stats: run.state.stats() })
    }

    /// The function's value, and how it changes in each of several directions: for each list of tangents what
    /// [`Function::jvp`] gives, in the same bits. A run goes in four directions at once, so that what doesn't move is
    /// computed once for these.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, text, value::Value};
    /// # let def = text::parse("func \"f\" (real, real) -> (real)
    /// #     export (x : Real, y : Real) -> Real
    /// #     regs 2 real
    /// #     { mul r1, r0, r1
    /// #     ret (r1) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (y : Real) = x * y
    /// let f = module.function("f").ok_or("no such function")?;
    /// let directions = [[1.0.into(), 0.0.into()], [0.0.into(), 1.0.into()], [1.0.into(), 10.0.into()]];
    /// let (value, tangents) = f.jvps(&[3.0.into(), 5.0.into()], &directions)?;
    /// assert_eq!(value, 15.0.into());
    /// assert_eq!(tangents, [5.0.into(), 3.0.into(), 35.0.into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::jvp`].
    pub fn jvps(&self, args: &[Value], directions: &[impl AsRef<[Value]>]) -> Result<(Value, Vec<Value>), RunError> {
        let outcome = self.jvps_with(args, directions, &CallOptions::default());
        outcome.map(|Jvps { value, tangents, .. }| (value, tangents))
    }

    /// [`Function::jvps`], with options, and reports what the call used. Limits are for all directions together.
    ///
    /// # Errors
    /// As [`Function::jvp`].
    pub fn jvps_with(
        &self,
        args: &[Value],
        directions: &[impl AsRef<[Value]>],
        options: &CallOptions,
    ) -> Result<Jvps, RunError> {
        let directions: Vec<&[Value]> = directions.iter().map(AsRef::as_ref).collect();
        directions.iter().try_for_each(|tangents| self.check_tangents(tangents))?;
        if directions.is_empty() {
            let (value, stats) = self.call_with(args, options)?;
            return Ok(Jvps { value, tangents: Vec::new(), stats });
        }
        let (function, mut lease) = (self.with_lanes_for(directions.len()), self.lease());
        Invocation::begin(&function, options, &mut lease).timed().jvps(args, &directions)
    }

    /// [`Function::jvps`], where directions and tangents are their reals in a row: those of the arguments that
    /// derivatives are [with respect to](Function::wrt), one argument after the other, and those of the value, in the
    /// orders of a [`Jacobian`]'s columns and rows. It is the faster of the two where there are arrays of tuples,
    /// records or data types, for which nothing is made but their numbers.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, text, value::Value};
    /// # let def = text::parse("func \"f\" (real, real) -> (real, real)
    /// #     export (x : Real, y : Real) -> (Real, Real)
    /// #     regs 2 real
    /// #     { mul r1, r0, r1
    /// #     ret (r0, r1) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (y : Real) = (x, x * y)
    /// let f = module.function("f").ok_or("no such function")?;
    /// let (value, tangents) = f.jvps_of_reals(&[3.0.into(), 5.0.into()], &[[1.0, 0.0], [1.0, 10.0]])?;
    /// assert_eq!(value, Value::Tuple(vec![3.0.into(), 15.0.into()]));
    /// assert_eq!(tangents, [[1.0, 5.0], [1.0, 35.0]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`], and [`RunError::Tangent`] if a direction doesn't have as many reals as the arguments.
    pub fn jvps_of_reals(
        &self,
        args: &[Value],
        directions: &[impl AsRef<[f64]>],
    ) -> Result<(Value, Vec<Vec<f64>>), RunError> {
        let outcome = self.jvps_of_reals_with(args, directions, &CallOptions::default());
        outcome.map(|JvpsOfReals { value, tangents, .. }| (value, tangents))
    }

    /// [`Function::jvps_of_reals`], with options, and reports what the call used. Limits are for all directions
    /// together.
    ///
    /// # Errors
    /// As [`Function::jvps_of_reals`].
    pub fn jvps_of_reals_with(
        &self,
        args: &[Value],
        directions: &[impl AsRef<[f64]>],
        options: &CallOptions,
    ) -> Result<JvpsOfReals, RunError> {
        let directions: Vec<&[f64]> = directions.iter().map(AsRef::as_ref).collect();
        if directions.is_empty() {
            let (value, stats) = self.call_with(args, options)?;
            return Ok(JvpsOfReals { value, tangents: Vec::new(), stats });
        }
        let (function, mut lease) = (self.with_lanes_for(directions.len()), self.lease());
        Invocation::begin(&function, options, &mut lease).timed().jvps_of_reals(args, &directions)
    }

    /// The function's value, and the product of a cotangent of it and the Jacobian: the gradient of their inner
    /// product, with one entry per argument. One recorded run and one sweep, as for a gradient.
    ///
    /// The cotangent has the shape of the value; [`Value::Null`] may stand for discrete parts.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, text, value::Value};
    /// # let def = text::parse("func \"f\" (real, real) -> (real, real)
    /// #     export (x : Real, y : Real) -> (Real, Real)
    /// #     regs 2 real
    /// #     { mul r1, r0, r1
    /// #     ret (r0, r1) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (y : Real) = (x, x * y)
    /// let f = module.function("f").ok_or("no such function")?;
    /// let cotangent = Value::Tuple(vec![100.0.into(), 1.0.into()]);
    /// let (_, gradient) = f.vjp(&[3.0.into(), 5.0.into()], &cotangent)?;
    /// assert_eq!(gradient, [105.0.into(), 3.0.into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`], and [`RunError::Cotangent`] if the cotangent is not that of the value.
    pub fn vjp(&self, args: &[Value], cotangent: &Value) -> Result<(Value, Vec<Value>), RunError> {
        self.vjp_with(args, cotangent, &CallOptions::default()).map(|Vjp { value, gradient, .. }| (value, gradient))
    }

    /// [`Function::vjp`], with options, and reports what the call used.
    ///
    /// # Errors
    /// As [`Function::vjp`].
    pub fn vjp_with(&self, args: &[Value], cotangent: &Value, options: &CallOptions) -> Result<Vjp, RunError> {
        let result = &self.interface().result;
        let mut lease = self.lease();
        let mut run = Invocation::begin(self, options, &mut lease).timed();
        run.forward(args, Mode::RECORDING)?;
        let mut reader = run.reader();
        let value = reader.result(result, run.results());
        let slots = reader.into_slots();
        let value = value.map_err(|error| run.unreadable(error))?;
        let adjoints = run.flat(|flattener| flattener.cotangent(result, &value, cotangent))?;
        run.sweep_from(&slots, &adjoints)?;
        let gradient = run.gradient(args)?;
        Ok(Vjp { value, gradient, stats: run.state.stats() })
    }

    /// The function's value, its gradient, and the product of its Hessian and the tangents: how the gradient changes as
    /// the arguments move in their direction. One recorded run with tangents and one sweep: some two to three times the
    /// cost of a gradient, however many arguments there are. Tangents are as for [`Function::jvp`].
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
    /// let f = module.function("f").ok_or("no such function")?;
    /// let (value, gradient, product) = f.hvp(&[3.0.into(), 5.0.into()], &[1.0.into(), 0.0.into()])?;
    /// assert_eq!(value, 45.0);
    /// assert_eq!(gradient, [30.0.into(), 9.0.into()]);
    /// assert_eq!(product, [10.0.into(), 6.0.into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::jvp`], and [`RunError::NotScalar`] if the result is not one real.
    pub fn hvp(&self, args: &[Value], tangents: &[Value]) -> Result<(f64, Vec<Value>, Vec<Value>), RunError> {
        let outcome = self.hvp_with(args, tangents, &CallOptions::default());
        outcome.map(|Hvp { value, gradient, product, .. }| (value, gradient, product))
    }

    /// [`Function::hvp`], with options, and reports what the call used.
    ///
    /// # Errors
    /// As [`Function::hvp`].
    pub fn hvp_with(&self, args: &[Value], tangents: &[Value], options: &CallOptions) -> Result<Hvp, RunError> {
        self.check_scalar()?;
        self.check_tangents(tangents)?;
        let (function, mut lease) = (self.with_tangents(), self.lease());
        let mut run = Invocation::begin(&function, options, &mut lease).timed();
        let (reals, value) = run.hvp(args, Direction::Tangents(&[tangents]))?;
        let (gradient, product) = (run.gradient_behind(args, reals)?, run.gradient(args)?);
        Ok(Hvp { value, gradient, product, stats: run.state.stats() })
    }

    /// The function's value, its gradient and its Hessian: a row for each real in the arguments that derivatives are
    /// [with respect to](Function::wrt), in the order in which they stand there. Each row takes as long as a
    /// [`Function::hvp`], but where some rows have hardly an entry that isn't zero, one more run is asked which
    /// entries can have another value, and rows that have none in common take one product together, with the same bits.
    /// The matrix is symmetric up to rounding, if the gradient is one. It counts towards the limit on live memory, with
    /// 8 bytes for each entry.
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
    /// let f = module.function("f").ok_or("no such function")?;
    /// let hessian = f.hessian(&[3.0.into(), 5.0.into()])?;
    /// assert_eq!(hessian.rows, [[10.0.into(), 6.0.into()], [6.0.into(), 0.0.into()]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::value_and_grad`].
    pub fn hessian(&self, args: &[Value]) -> Result<Hessian, RunError> {
        self.hessian_with(args, &CallOptions::default())
    }

    /// [`Function::hessian`], with options. Limits are for all rows together.
    ///
    /// # Errors
    /// As [`Function::hessian`].
    pub fn hessian_with(&self, args: &[Value], options: &CallOptions) -> Result<Hessian, RunError> {
        self.check_scalar()?;
        let (function, mut lease) = (self.with_tangents(), self.lease());
        Invocation::begin(&function, options, &mut lease).timed().hessian(self, args)
    }

    /// The function's value and its Jacobian: the gradient of every real in the result. The result may be of any type.
    /// One forward run, and one sweep for each real in the result, or for many of them as for [`Function::hessian`]:
    /// [`JacobianMode::Reverse`].
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, text, value::Value};
    /// let def = text::parse("func \"swap\" (real, real) -> (real, real)
    ///     export (x : Real, y : Real) -> (Real, Real)
    ///     regs 2 real
    ///     { ret (r1, r0) }", "swap.dvs").map_err(|errors| errors[0].to_string())?;
    /// let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// let swap = module.function("swap").ok_or("no such function")?;
    /// let jacobian = swap.jacobian(&[Value::Real(1.0), Value::Real(2.0)])?;
    /// assert_eq!(jacobian.rows[0], [Value::Real(0.0), Value::Real(1.0)]);
    /// assert_eq!(jacobian.rows[1], [Value::Real(1.0), Value::Real(0.0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn jacobian(&self, args: &[Value]) -> Result<Jacobian, RunError> {
        self.jacobian_with(args, &CallOptions::default())
    }

    /// [`Function::jacobian`], with options.
    ///
    /// # Errors
    /// As [`Function::jacobian`].
    pub fn jacobian_with(&self, args: &[Value], options: &CallOptions) -> Result<Jacobian, RunError> {
        self.jacobian_by(JacobianMode::Reverse, args, options)
    }

    /// [`Function::jacobian`], by rows or by columns, with options. Limits are for all of them together.
    ///
    /// # Errors
    /// As [`Function::jacobian`].
    pub fn jacobian_by(&self, mode: JacobianMode, args: &[Value], options: &CallOptions) -> Result<Jacobian, RunError> {
        let mut lease = self.lease();
        let mut run = Invocation::begin(self, options, &mut lease).timed();
        if mode == JacobianMode::Forward {
            return run.jacobian_by_columns(args);
        }
        run.write(args, Mode::RECORDING)?;
        // A slot for each real that derivatives are with respect to.
        let slots = run.state.worker.exec.tape.slots();
        let inputs = if mode == JacobianMode::Auto { slots } else { usize::MAX };
        if count_of_reals(&self.interface().result).is_some_and(|outputs| inputs < outputs) {
            return run.jacobian_by_columns(args);
        }
        // SAFETY: the arguments were gathered.
        unsafe { run.execute(Entry::Function(self.func), Mode::RECORDING, true) }?;
        let mut reader = run.reader();
        let value = reader.result(&self.interface().result, run.results());
        let results = reader.into_slots();
        let value = value.map_err(|error| run.unreadable(error))?;
        if inputs < results.len() {
            run.go_on();
            return run.jacobian_by_columns(args);
        }
        run.jacobian_by_rows(args, (value, results), slots)
    }

    /// The same function, with code for tangents if there is some.
    pub(crate) fn with_tangents(&self) -> Function {
        self.with_lanes(1)
    }

    /// The same in so many directions, or else in one.
    pub(super) fn with_lanes(&self, lanes: usize) -> Function {
        let mut varied = Vec::new();
        let mut parameter = |ty, is_varied| {
            let Fields { reals, ints, refs } = convert::registers(ty);
            varied.extend(std::iter::repeat_n(is_varied, reals + ints + refs));
        };
        let params = &self.interface().params;
        for n in 0..=params.len() {
            self.bound_at(n).iter().for_each(|argument| parameter(argument.ty(), false));
            params.get(n).into_iter().for_each(|(_, ty)| parameter(ty, self.wrt.has(n)));
        }
        let directions = Directions { func: self.func, varied: varied.into(), lanes };
        match self.module.program.with_tangents(directions) {
            Some(program) => Function { module: Module { program, ..self.module.clone() }, ..self.clone() },
            None if lanes > 1 => self.with_lanes(1),
            None => self.clone(),
        }
    }

    /// The same function, with code for tangents in so many directions at a time as there are lanes.
    pub(super) fn with_lanes_for(&self, directions: usize) -> Function {
        self.with_lanes(directions.min(LANES))
    }

    /// Whether there are as many tangents as parameters.
    pub(super) fn check_tangents(&self, tangents: &[Value]) -> Result<(), RunError> {
        let params = &self.interface().params;
        if params.len() == tangents.len() {
            return Ok(());
        }
        let expected = params.iter().map(|(name, _)| name.clone()).collect();
        Err(TangentError::Count { expected, found: tangents.len() }.into())
    }
}

/// How many reals values of this type have, if it is always so many.
fn count_of_reals(ty: &HostType) -> Option<usize> {
    match ty {
        HostType::Real => Some(1),
        HostType::Int | HostType::Bool => Some(0),
        HostType::Tuple(types) => types.iter().map(count_of_reals).sum(),
        HostType::Record(types) => types.iter().map(|(_, ty)| count_of_reals(ty)).sum(),
        HostType::Array { .. } | HostType::List { .. } | HostType::Tensor { .. } | HostType::Data { .. } => None,
    }
}

/// What runs on arguments and their tangents, and gives values and theirs.
#[expect(clippy::large_enum_variant, reason = "there is one for a run, on the stack")]
enum WithTangents {
    /// A function that was written for this.
    Function(FuncId),
    /// The operator, applied to the function.
    Operator(OperatorSite),
}

impl WithTangents {
    fn entry(&self) -> Entry<'_> {
        match self {
            WithTangents::Function(func) => Entry::Function(*func),
            WithTangents::Operator(site) => Entry::Operator(site),
        }
    }

    /// Whether tangents of constants are looked at.
    fn looks_at_constants(&self) -> bool {
        matches!(self, WithTangents::Operator(_))
    }
}

/// Tangents in the form that they have in all code.
pub(crate) fn without_negative_zeros(tangents: &mut [f64]) {
    tangents.iter_mut().for_each(|tangent| *tangent += 0.0);
}

/// Why there are no arguments with tangents.
enum Unwritten {
    Argument(WriteError),
    Tangent(FlattenError),
}

impl Invocation<'_> {
    /// Runs the function with tangents. Returns how many reals these have. In a recording run arguments have the first
    /// so many slots, and tangents the next. The results' tangents stand behind the results.
    pub(super) fn forward_with_tangents(
        &mut self,
        args: &[Value],
        direction: Direction<'_>,
        mode: Mode,
    ) -> Result<usize, RunError> {
        let (function, mode) = (self.function, self.mode(mode));
        let (module, wrt, params) = (&function.module.program.def, &function.wrt, &function.interface().params);
        let (lanes, copies) = (self.lanes(), self.copies_arguments);
        let code = self.open_with_tangents(mode);
        let RunState { worker, args: gathered, account, .. } = &mut *self.state;
        let flat;
        // SAFETY: the arguments are lent for the call, and nothing of what it runs is read when it has returned.
        let maker = unsafe { Invocation::maker(copies, &mut worker.exec, mode, account) };
        let (mut store, written) = match &self.kept {
            Some(kept) => (Store::behind(maker, gathered, kept.registers), Ok(())),
            None => {
                let mut store = Store::new(maker, gathered);
                let written = convert::write_arguments(function, args, &mut store);
                if self.keeps_arguments && !mode.is_recording() && written.is_ok() {
                    let (heap, registers) = store.keep();
                    self.kept = Some(KeptArguments { heap, registers });
                }
                (store, written.map_err(Unwritten::Argument))
            }
        };
        let moved = |tangents: Option<&[Value]>| {
            let mut flattener = Flattener::new(&module.data, account);
            let flat = match tangents {
                Some(tangents) => flattener.tangents((params, wrt), args, tangents),
                None => flattener.arguments((params, wrt), args),
            };
            flat.map_err(Unwritten::Tangent)?;
            let mut reals = flattener.into_reals();
            without_negative_zeros(&mut reals);
            Ok(reals)
        };
        let tangents = written.and_then(|()| match direction {
            Direction::Tangents(directions) => {
                let mut flat =
                    directions.iter().map(|tangents| moved(Some(tangents))).collect::<Result<Vec<_>, _>>()?;
                flat.resize(lanes, vec![0.0; flat[0].len()]);
                Ok(Cow::Owned(flat))
            }
            Direction::Axis(axis) => {
                let reals = moved(None)?.len();
                let along = |axis: usize| (0..reals).map(|n| if n == axis { 1.0 } else { 0.0 }).collect();
                Ok(Cow::Owned((axis..axis + lanes).map(along).collect::<Vec<Vec<f64>>>()))
            }
            Direction::Reals(directions) => Ok(Cow::Borrowed(directions)),
        });
        let written = match tangents {
            Err(error) => Err(error),
            Ok(tangents) => {
                flat = tangents;
                let looks = code.looks_at_constants();
                let each = (0..flat.len()).try_for_each(|lane| {
                    store.set_lane(&flat, lane);
                    convert::write_tangents(function, looks, args, &mut store)
                });
                each.map(|()| flat[0].len()).map_err(Unwritten::Argument)
            }
        };
        // Integers have no tangents.
        gathered.ints.truncate(Counts::of(&function.definition().params).ints);
        self.state.worker.exec.heap.resume();
        let reals = written.map_err(|error| match error {
            Unwritten::Argument(error) => self.unwritten(error),
            Unwritten::Tangent(error) => self.without_tangents(error),
        })?;
        // SAFETY: arguments and tangents were gathered, in the order in which the operator takes them.
        unsafe { self.execute(code.entry(), mode, true) }?;
        Ok(reals)
    }

    /// In how many directions a run with tangents goes.
    pub(super) fn lanes(&self) -> usize {
        self.function.module.program.tangents().map_or(1, |tangents| tangents.lanes)
    }

    /// Begins a run with tangents in place of the function, and says of what.
    fn open_with_tangents(&mut self, mode: Mode) -> WithTangents {
        let mode = self.mode(mode);
        if mode.is_recording() {
            self.kept = None;
        }
        self.open_again(mode);
        if let Some(tangents) = self.function.module.program.tangents() {
            return WithTangents::Function(tangents.func);
        }
        if mode.is_recording() {
            // The tape opens inside of the derivative by the tangents: what is recorded is a gradient that moves.
            self.state.worker.exec.tape.begin_at(1);
        }
        WithTangents::Operator(OperatorSite::jvp_of(self.function.func, self.function.definition()))
    }

    /// [`Invocation::run`] with tangents, which are as many as the reals that `write` writes and derivatives are with
    /// respect to. Slots and results are as for arguments that are values.
    ///
    /// # Safety
    /// `write` writes all arguments, all are of the parameters' types, and all are the same each time. Their arrays are
    /// there, and nobody writes to them, until the run and its sweeps have ended, but for runs that copy them.
    pub(crate) unsafe fn run_with_tangents(
        &mut self,
        mode: Mode,
        tangents: &[f64],
        write: impl Fn(&mut ArgumentWriter<'_>) -> Result<(), WriteError>,
    ) -> Result<(), RunError> {
        let code = self.open_with_tangents(mode);
        // SAFETY: promised by the caller.
        let mut writer = unsafe { self.argument_writer(mode)? };
        let written = write(&mut writer).and_then(|()| {
            writer.set_tangents(tangents, code.looks_at_constants());
            write(&mut writer)
        });
        self.state.worker.exec.heap.resume();
        written.map_err(|error| self.unwritten(error))?;
        // SAFETY: arguments and tangents were written, in the order in which the operator takes them.
        unsafe { self.execute(code.entry(), mode, false) }
    }

    #[cold]
    pub(crate) fn without_tangents(&self, error: FlattenError) -> RunError {
        match error {
            FlattenError::Misshapen(misshapen) => TangentError::from(*misshapen).into(),
            FlattenError::Limit(limit) => self.stopped(limit),
        }
    }

    /// What takes the reals of tangents and cotangents.
    pub(crate) fn flattener(&self) -> Flattener<'_> {
        Flattener::new(self.function.data(), &self.state.account)
    }

    /// Reals that the flattener takes, of what the run has given.
    pub(super) fn flat(
        &self,
        take: impl FnOnce(&mut Flattener<'_>) -> Result<(), FlattenError>,
    ) -> Result<Vec<f64>, RunError> {
        let mut flattener = self.flattener();
        match take(&mut flattener) {
            Ok(()) => Ok(flattener.into_reals()),
            Err(error) => Err(self.without_cotangent(error)),
        }
    }

    #[cold]
    pub(crate) fn without_cotangent(&self, error: FlattenError) -> RunError {
        match error {
            FlattenError::Misshapen(misshapen) => CotangentError::from(*misshapen).into(),
            FlattenError::Limit(limit) => self.stopped(limit),
        }
    }

    /// Sweeps the tape from adjoints of the reals of the result, which have these slots.
    pub(crate) fn sweep_from(&mut self, slots: &[ResultSlot], adjoints: &[f64]) -> Result<(), RunError> {
        self.time_to_fill(adjoints.len() * size_of::<Seed>())?;
        let seed = |(&(owner, slot), &adjoint): (&ResultSlot, &f64)| Seed { owner, slot, adjoint };
        let seeds: Vec<Seed> = slots.iter().zip(adjoints).map(seed).collect();
        self.sweep(&seeds)
    }

    /// Whether a matrix with so many rows and columns is within the limit on live memory. One row always is.
    pub(super) fn room_for_matrix(&self, rows: usize, columns: usize) -> Result<(), RunError> {
        if rows <= 1 {
            return Ok(());
        }
        let bytes = (rows as u64).saturating_mul(columns as u64).saturating_mul(8);
        if bytes > self.limits.live_bytes { Err(self.stopped(Limit::LiveBytes)) } else { Ok(()) }
    }

    /// What has been read, the value of the run unless it is there, and its tangents in the first so many directions,
    /// which together are as large as may live.
    pub(super) fn value_and_tangents(
        &self,
        value: Option<Value>,
        directions: usize,
    ) -> Result<(Value, Vec<Value>), RunError> {
        let result = &self.function.interface().result;
        let mut reader = self.reader();
        let value = value.map_or_else(|| reader.result(result, self.results()), Ok);
        let value = value.map_err(|error| self.unreadable(error))?;
        let tangents = (0..directions).map(|lane| {
            reader.set_lane(lane, self.lanes());
            reader.tangent(result, self.tangents(lane))
        });
        let tangents = tangents.collect::<Result<_, _>>().map_err(|error| self.unreadable(error))?;
        Ok((value, tangents))
    }

    /// What has been read, or else the value of the run.
    pub(super) fn value_or(&self, known: Option<Value>) -> Result<Value, RunError> {
        let read = || self.reader().result(&self.function.interface().result, self.results());
        known.map_or_else(read, Ok).map_err(|error| self.unreadable(error))
    }

    /// The reals of the value's tangent in one direction, which are so many if that is known: a host's function may
    /// make each run end with something else.
    pub(super) fn reals_of_tangent(&self, lane: usize, expected: Option<usize>) -> Result<Vec<f64>, RunError> {
        let result = &self.function.interface().result;
        let mut reader = self.reader();
        reader.set_lane(lane, self.lanes());
        let reals = reader.reals_of_tangent(result, self.tangents(lane));
        let reals = reals.map_err(|error| self.unreadable(error))?;
        self.check_reals(reals.len(), expected)?;
        Ok(reals)
    }

    /// Whether the result has as many reals as that of an earlier run, if that is known.
    pub(super) fn check_reals(&self, found: usize, expected: Option<usize>) -> Result<(), RunError> {
        match expected.filter(|&expected| expected != found) {
            None => Ok(()),
            Some(expected) => {
                let error = FlattenError::misshapen(convert::counted(expected, "real"), found.to_string());
                Err(self.without_cotangent(error.inside("result")))
            }
        }
    }

    /// The value and its tangents in these directions; there is one.
    fn jvps(mut self, args: &[Value], directions: &[&[Value]]) -> Result<Jvps, RunError> {
        let lanes = self.lanes();
        self.keep_arguments_if(directions.len() > lanes);
        let (mut value, mut tangents) = (None, Vec::with_capacity(directions.len()));
        for directions in directions.chunks(lanes) {
            if value.is_some() {
                self.go_on();
            }
            self.forward_with_tangents(args, Direction::Tangents(directions), Mode::PRIMAL)?;
            let (of_all, of_run) = self.value_and_tangents(value, directions.len())?;
            value = Some(of_all);
            tangents.extend(of_run);
        }
        let value = value.expect("there is a direction");
        Ok(Jvps { value, tangents, stats: self.state.stats() })
    }

    /// The value and the reals of its tangents in these directions; there is one.
    fn jvps_of_reals(mut self, args: &[Value], directions: &[&[f64]]) -> Result<JvpsOfReals, RunError> {
        self.check_directions(args, directions)?;
        let lanes = self.lanes();
        self.keep_arguments_if(directions.len() > lanes);
        let (mut value, mut tangents) = (None, Vec::<Vec<f64>>::with_capacity(directions.len()));
        for of_run in directions.chunks(lanes) {
            if value.is_some() {
                self.go_on();
            }
            let mut moved: Vec<Vec<f64>> = of_run.iter().map(|reals| reals.to_vec()).collect();
            moved.iter_mut().for_each(|reals| without_negative_zeros(reals));
            moved.resize(lanes, vec![0.0; of_run[0].len()]);
            self.forward_with_tangents(args, Direction::Reals(&moved), Mode::PRIMAL)?;
            value = Some(self.value_or(value)?);
            for lane in 0..of_run.len() {
                tangents.push(self.reals_of_tangent(lane, tangents.first().map(Vec::len))?);
                if tangents.len() == 1 {
                    self.room_for_matrix(tangents[0].len(), directions.len())?;
                }
            }
        }
        let value = value.expect("there is a direction");
        Ok(JvpsOfReals { value, tangents, stats: self.state.stats() })
    }

    /// Whether each direction has as many reals as derivatives are with respect to.
    fn check_directions(&self, args: &[Value], directions: &[&[f64]]) -> Result<(), RunError> {
        let Some(reals) = self.inputs(args)? else { return Ok(()) };
        match directions.iter().enumerate().find(|(_, direction)| direction.len() != reals) {
            None => Ok(()),
            Some((n, direction)) => {
                let error = FlattenError::misshapen(convert::counted(reals, "real"), direction.len().to_string());
                Err(self.without_tangents(error.inside(&format!("direction {n}"))))
            }
        }
    }

    /// How many reals derivatives are with respect to. `None` if something is wrong with the arguments, which is said
    /// where they are written.
    pub(super) fn inputs(&self, args: &[Value]) -> Result<Option<usize>, RunError> {
        let params = &self.function.interface().params;
        if args.len() != params.len() {
            return Ok(None);
        }
        let mut flattener = self.flattener();
        match flattener.arguments((params, &self.function.wrt), args) {
            Ok(()) => Ok(Some(flattener.into_reals().len())),
            Err(FlattenError::Limit(limit)) => Err(self.stopped(limit)),
            Err(FlattenError::Misshapen(_)) => Ok(None),
        }
    }

    /// Sweeps from the tangent of the value, which is one real. Returns how many reals the tangents have, and the
    /// value.
    pub(super) fn hvp(&mut self, args: &[Value], direction: Direction<'_>) -> Result<(usize, f64), RunError> {
        let reals = self.forward_with_tangents(args, direction, Mode::RECORDING)?;
        Ok((reals, self.sweep_of_tangent()?))
    }

    /// Sweeps the tape from the tangent of the result, which is one real. Returns the result.
    pub(crate) fn sweep_of_tangent(&mut self) -> Result<f64, RunError> {
        let bottom = self.state.worker.bottom();
        // SAFETY: the run has ended, and its result is the first real register; the second one is its tangent.
        let (value, word) = unsafe { (*bottom.reals, *bottom.words.add(1)) };
        self.sweep_of((Owner::NOBODY, word.slot()))?;
        Ok(value)
    }

    /// The adjoints of slots behind the first so many, in the shape of the arguments.
    pub(super) fn gradient_behind(&self, args: &[Value], slots: usize) -> Result<Vec<Value>, RunError> {
        self.shaped(args, &self.state.sweep.adjoints()[slots..])
    }
}
