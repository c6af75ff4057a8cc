//! An exported function, and calls of it with values.

use super::bind::Bound;
use super::{CallOptions, Engine, Gradient, Invocation, Lease, Module, RunError, Stats};
use crate::bytecode::module::{DataDef, FuncId, Interface, ModuleDef};
use crate::code::Mode;
use crate::embedding::job_graph::JobGraph;
use crate::embedding::kinks::Kinks;
use crate::embedding::profile::Profile;
use crate::embedding::value::Value;
use crate::native::CompiledCode;
use crate::running::kinks::KinkTable;
use std::fmt;
use std::sync::Arc;

/// An exported function of a module. Cheap to clone. `Send` and `Sync`.
#[derive(Clone, Debug)]
pub struct Function {
    pub(super) module: Module,
    pub(super) func: FuncId,
    /// Parameters are those that are left.
    pub(crate) wrt: Wrt,
    pub(crate) bound: Option<Arc<Bound>>,
}

/// The parameters that derivatives are with respect to.
#[derive(Clone, Default, Debug)]
pub struct Wrt(pub(super) Option<Arc<[bool]>>);

impl Wrt {
    /// Whether this parameter is one of them.
    #[inline]
    pub(crate) fn has(&self, parameter: usize) -> bool {
        self.0.as_ref().is_none_or(|parameters| parameters[parameter])
    }

    /// Whether all parameters are.
    #[inline]
    pub(crate) fn is_all(&self) -> bool {
        self.0.is_none()
    }
}

/// A parameter that a function doesn't have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoSuchParameter {
    /// The function.
    pub function: String,
    /// The name asked for.
    pub name: String,
    /// The names of the function's parameters.
    pub parameters: Vec<String>,
}

impl fmt::Display for NoSuchParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoSuchParameter { function, name, parameters } = self;
        write!(f, "`{function}` has no parameter `{name}`")?;
        if parameters.is_empty() {
            write!(f, ", nor any other")
        } else {
            write!(f, "; it has {}", parameters.join(", "))
        }
    }
}

impl std::error::Error for NoSuchParameter {}

impl Function {
    /// The same function, whose derivatives are with respect to these parameters only, in place of those that it was
    /// made with respect to before.
    ///
    /// Reals in other arguments are constants: what depends on nothing else takes no tape and no time in the sweep.
    /// Derivatives with respect to them are [`Value::Null`] in values and [`FlatValue::Null`] in flat calls; in types
    /// of Rust they are 0, and vectors are empty.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, text, value::Value};
    /// # let def = text::parse("func \"f\" (real, real) -> (real)
    /// #     export (x : Real, theta : Real) -> Real
    /// #     regs 2 real
    /// #     { mul r0, r0, r1
    /// #     ret (r0) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (theta : Real) : Real = x * theta
    /// let f = module.function("f").ok_or("no such function")?.wrt(&["theta"])?;
    /// let (value, gradient) = f.value_and_grad(&[Value::Real(3.0), Value::Real(5.0)])?;
    /// assert_eq!((value, &*gradient), (15.0, &[Value::Null, Value::Real(3.0)][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`FlatValue::Null`]: crate::flat::FlatValue::Null
    ///
    /// # Errors
    /// If the function has no parameter of one of these names.
    pub fn wrt<Name: AsRef<str>>(&self, parameters: &[Name]) -> Result<Function, NoSuchParameter> {
        let mut chosen = vec![false; self.interface().params.len()];
        for name in parameters {
            chosen[self.parameter(name.as_ref())?] = true;
        }
        Ok(Function { wrt: Wrt(Some(chosen.into())), ..self.clone() })
    }

    /// Which parameter has this name.
    pub(super) fn parameter(&self, name: &str) -> Result<usize, NoSuchParameter> {
        let params = &self.interface().params;
        params.iter().position(|(known, _)| known == name).ok_or_else(|| {
            let parameters = params.iter().map(|(name, _)| name.clone()).collect();
            NoSuchParameter { function: self.name().to_owned(), name: name.to_owned(), parameters }
        })
    }

    /// Whether derivatives are with respect to the parameter of this number, counted from 0.
    pub fn is_wrt(&self, parameter: usize) -> bool {
        parameter < self.interface().params.len() && self.wrt.has(parameter)
    }

    /// The function's name.
    pub fn name(&self) -> &str {
        &self.definition().name
    }

    /// The module that exports the function.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Parameters and result as the host sees them, without parameters that are [bound](Function::bind).
    pub fn interface(&self) -> &Interface {
        if let Some(bound) = &self.bound {
            return &bound.interface;
        }
        self.definition().interface.as_ref().expect("handles are made for exported functions only")
    }

    /// The data types that the interface's types refer to, by [`crate::module::DataId`].
    pub fn data(&self) -> &[DataDef] {
        &self.module.program.def.data
    }

    /// The native code that the function's module has by now: see [`Module::compiled`].
    pub fn compiled(&self) -> Vec<CompiledCode> {
        self.module.compiled()
    }

    /// What the function's types refer to.
    pub(crate) fn module_def(&self) -> &ModuleDef {
        &self.module.program.def
    }

    pub(super) fn definition(&self) -> &crate::bytecode::module::Function {
        &self.module.program.def.functions[self.func.index()]
    }

    /// Calls the function.
    ///
    /// # Errors
    /// [`RunError::Argument`] if the arguments are not of the parameters' types, [`RunError::Trap`] if the program
    /// traps or reaches a limit, [`RunError::ResultDepth`] if the result nests too deeply for a value.
    pub fn call(&self, args: &[Value]) -> Result<Value, RunError> {
        let (mut lease, options) = (self.lease(), CallOptions::default());
        self.call_in(&mut Invocation::begin(self, &options, &mut lease), args)
    }

    /// Calls the function, with options, and reports what the call used.
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn call_with(&self, args: &[Value], options: &CallOptions) -> Result<(Value, Stats), RunError> {
        let mut lease = self.lease();
        let mut run = Invocation::begin(self, options, &mut lease).timed();
        let value = self.call_in(&mut run, args)?;
        Ok((value, run.state.stats()))
    }

    fn call_in(&self, run: &mut Invocation<'_>, args: &[Value]) -> Result<Value, RunError> {
        run.forward(args, Mode::PRIMAL)?;
        let value = run.reader().result(&self.interface().result, run.results());
        value.map_err(|error| run.unreadable(error))
    }

    /// Memory for a run of the function.
    pub(crate) fn lease(&self) -> Lease<'_> {
        self.module.engine.lease()
    }

    /// The engine that the function runs on.
    pub(crate) fn engine(&self) -> &Engine {
        &self.module.engine
    }

    /// The function's value and its gradient with respect to every real in its arguments, at a small constant factor of
    /// the cost of a call. Discrete parts of the gradient are [`Value::Null`].
    ///
    /// # Errors
    /// As [`Function::call`], and [`RunError::NotScalar`] if the result is not one real.
    pub fn value_and_grad(&self, args: &[Value]) -> Result<(f64, Vec<Value>), RunError> {
        let (mut lease, options) = (self.lease(), CallOptions::default());
        self.grad_in(&mut Invocation::begin(self, &options, &mut lease), args)
    }

    /// [`Function::value_and_grad`], with options, and reports what the call used.
    ///
    /// # Errors
    /// As [`Function::value_and_grad`].
    pub fn value_and_grad_with(&self, args: &[Value], options: &CallOptions) -> Result<Gradient, RunError> {
        let mut lease = self.lease();
        let mut run = Invocation::begin(self, options, &mut lease).timed();
        let (value, gradient) = self.grad_in(&mut run, args)?;
        Ok(Gradient { value, gradient, stats: run.state.stats() })
    }

    /// Whether there is one gradient.
    pub(super) fn check_scalar(&self) -> Result<(), RunError> {
        let result = &self.interface().result;
        if result.is_real() {
            return Ok(());
        }
        Err(RunError::NotScalar { function: self.name().to_owned(), result: result.clone() })
    }

    fn grad_in(&self, run: &mut Invocation<'_>, args: &[Value]) -> Result<(f64, Vec<Value>), RunError> {
        self.check_scalar()?;
        run.forward(args, Mode::RECORDING)?;
        let value = run.sweep_of_scalar()?;
        Ok((value, run.gradient(args)?))
    }

    /// Runs the function as for a gradient, and reports the instructions that were executed near a point where the
    /// derivative changes, or where the result jumps: ties of `min` and `max`, `abs` and `sign` near 0, roundings near
    /// a jump, and comparisons of nearly equal reals. Only what depends on a real that derivatives are with respect to
    /// counts. Near is what is nearer than `epsilon` (see [`KINK_EPSILON`](crate::kinks::KINK_EPSILON)), times the
    /// greater operand if that is greater than 1.
    ///
    /// The run is interpreted, on one thread, with a record for each instruction. It is a forward run only.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{CallOptions, Engine, Module}, kinks::KINK_EPSILON, text};
    /// # let def = text::parse("func \"f\" (real, real) -> (real)
    /// #     export (x : Real, y : Real) -> Real
    /// #     regs 3 real
    /// #     { max r2, r0, r1
    /// #     ret (r2) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (y : Real) : Real = max x y
    /// let f = module.function("f").ok_or("no such function")?;
    /// let kinks = f.kinks(&[3.0.into(), 3.0.into()], KINK_EPSILON, &CallOptions::default())?;
    /// assert_eq!((kinks.sites[0].operation, kinks.sites[0].count, kinks.sites[0].nearest), ("max", 1, 0.0));
    /// let kinks = f.kinks(&[3.0.into(), 4.0.into()], KINK_EPSILON, &CallOptions::default())?;
    /// assert!(kinks.sites.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn kinks(&self, args: &[Value], epsilon: f64, options: &CallOptions) -> Result<Kinks, RunError> {
        let program = self.module.program.watched();
        let function = Function { module: Module { program, ..self.module.clone() }, ..self.clone() };
        let (mut lease, table) = (function.lease(), KinkTable::new(epsilon));
        let mut run = Invocation::begin(&function, options, &mut lease).timed();
        run.kinks = Some(&table);
        run.forward(args, Mode::RECORDING)?;
        let stats = run.state.stats();
        Ok(Kinks::new(&function.module.program, table, stats))
    }

    /// Runs the function as for a gradient, and reports the records that each of its loops and functions has written,
    /// their bytes, and the time that their sweep takes.
    ///
    /// The sweep runs in one thread here and looks at the clock for each record, which makes it longer: by some 50 ns a
    /// record. The forward run is the usual one, and its time is not told apart by loops.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{CallOptions, Engine, Module}, profile::Site, text, value::Value};
    /// let def = text::parse("func \"f\" (real, int) -> (real) export (x : Real, n : Int) -> Real
    ///     regs 1 real, 2 int
    ///     { iconst i1, 1
    ///     again:
    ///     sin r0, r0
    ///     isub i0, i0, i1
    ///     branch i0, again, done
    ///     done:
    ///     ret (r0) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// let f = module.function("f").ok_or("no such function")?;
    /// let profile = f.profile(&[Value::Real(1.0), Value::Int(100)], &CallOptions::default())?;
    /// assert_eq!(profile.sites[0].records, 1);
    /// assert!(matches!(&profile.sites[0].site, Site::Loop { place, .. } if place.inst == 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::value_and_grad`].
    pub fn profile(&self, args: &[Value], options: &CallOptions) -> Result<Profile, RunError> {
        self.check_scalar()?;
        let mut lease = self.lease();
        let mut run = Invocation::begin(self, options, &mut lease).timed();
        run.forward(args, Mode::RECORDING)?;
        let usages = run.usage_of_scalar()?;
        Ok(Profile::of(&self.module.program, usages, run.state.stats()))
    }

    /// Runs the function as for a gradient, and reports the tasks that it forks and what they write to their tapes. The
    /// same on any number of threads. Its size is that of the run's tree of tasks.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{CallOptions, Engine, Module}, text, value::Value};
    /// let def = text::parse("func \"square\" (real) -> (real) regs 1 real { mul r0, r0, r0
    ///     ret (r0) }
    /// func \"both\" (real, real) -> (real) export (x : Real, y : Real) -> Real
    ///     regs 2 real
    ///     { fork 2
    ///     task \"square\" (r0) -> (r0)
    ///     task \"square\" (r1) -> (r1)
    ///     add r0, r0, r1
    ///     ret (r0) }", "both.dvs").map_err(|errors| errors[0].to_string())?;
    /// let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// let both = module.function("both").ok_or("no such function")?;
    /// let graph = both.job_graph(&[Value::Real(1.0), Value::Real(2.0)], &CallOptions::default())?;
    /// assert_eq!(graph.tasks[0].forks, [[1, 2]]);
    /// assert_eq!((&*graph.tasks[0].jobs, &*graph.tasks[1].jobs), (&[0, 1][..], &[1][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn job_graph(&self, args: &[Value], options: &CallOptions) -> Result<JobGraph, RunError> {
        let mut lease = self.lease();
        let mut run = Invocation::begin(self, options, &mut lease);
        run.forward(args, Mode::RECORDING)?;
        let Stats { instructions, span, .. } = run.state.stats();
        // SAFETY: the run has ended, and its tapes are there.
        Ok(unsafe { JobGraph::of(run.state.worker.exec.tape.tree(), instructions, span) })
    }
}
