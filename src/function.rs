//! Functions that a host calls, with values or with its own types.

use crate::CompiledCode;
use crate::vm::engine::{self, CallOptions, Gradient, RunError, Stats};
use crate::vm::flat::FlatFunction;
use crate::vm::job_graph::JobGraph;
use crate::vm::kinks::Kinks;
use crate::vm::module::{DataDef, Interface};
use crate::vm::profile::Profile;
use crate::vm::trap::{Origin, TrapKind};
use crate::vm::typed::{Arguments, Output};
use crate::vm::value::Value;
use crate::{ArgumentsSeed, Error, TypedFunction, de, places, ser};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::Range;

/// An exported function of a [`Module`](crate::Module). Cheap to clone, `Send` and `Sync`; it may be called from any
/// number of threads at a time.
///
/// [`call`](Function::call), [`value_and_grad`](Function::value_and_grad) and other derivatives
/// ([`jvp`](Function::jvp), [`vjp`](Function::vjp), [`hvp`](Function::hvp), [`jacobian`](Function::jacobian),
/// [`hessian`](Function::hessian)) take and give [`Value`]s. To their names is added
///
/// - `_as`, where they take and give the host's own types, through `serde`;
/// - `_into`, where a result is written to memory of the host's ([`TypedFunction`] has these);
/// - `_with`, last, where they take options and report what they used.
///
/// Operations that take something else about how they run, such as [`jacobian_by`](Function::jacobian_by), take options
/// with it. [`batch`](Function::batch) has the same names for many calls at a time.
#[derive(Clone, Debug)]
pub struct Function(pub(crate) engine::Function);

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Function>();
};

impl Function {
    pub(crate) fn new(function: engine::Function) -> Self {
        Function(function)
    }

    /// The function's name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Names and types of the parameters, and the type of the result.
    pub fn interface(&self) -> &Interface {
        self.0.interface()
    }

    /// The data types that the interface's types refer to, by [`DataId`](crate::vm::module::DataId).
    pub fn data(&self) -> &[DataDef] {
        self.0.data()
    }

    /// The same function, whose derivatives are with respect to these parameters only, in place of those that it was
    /// made with respect to before.
    ///
    /// Reals in other arguments are constants: what depends on nothing else takes no tape and no time in the sweep.
    /// Derivatives with respect to them are [`Value::Null`] in values and [`FlatValue::Null`](crate::FlatValue::Null)
    /// in flat calls; in types of Rust they are 0, and vectors are empty.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Value};
    ///
    /// let text = "def model (theta : Array Real) (xs : Array Real) : Real = sum (zip_with (*) theta xs)";
    /// let model = Module::from_source(&Engine::default(), "model.dual", text)?.function("model")?;
    /// let (_, gradient) = model.wrt(&["theta"])?.value_and_grad(&[vec![1.0, 2.0].into(), vec![3.0, 5.0].into()])?;
    /// assert_eq!(gradient, [Value::Reals(vec![3.0, 5.0]), Value::Null]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchParameter`](crate::ErrorKind::NoSuchParameter) if the function has no parameter of one of
    /// these names.
    pub fn wrt<Name: AsRef<str>>(&self, parameters: &[Name]) -> Result<Function, Error> {
        Ok(Function(self.0.wrt(parameters)?))
    }

    /// Whether derivatives are with respect to the parameter of this number, counted from 0.
    pub fn is_wrt(&self, parameter: usize) -> bool {
        self.0.is_wrt(parameter)
    }

    /// The function of the other parameters that there is once one has this argument.
    ///
    /// The argument is converted here, once, and no more in calls: the data that a model is fitted to needn't cross the
    /// border for each step of a fit. It is a constant: no derivative is with respect to it; of the parameters that
    /// derivatives were with respect to, those that are left stay. It is kept as long as the function that this returns
    /// and its clones, in memory of its own, of which it takes 64 KiB at least if it is more than numbers. That isn't
    /// counted in the limits on what a call has in memory.
    ///
    /// What is left may be [flat](Function::flat), or have a [type of Rust](Function::typed), where the whole isn't.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Value};
    ///
    /// let text = "def loss (theta : (Real, Real)) (points : Array (Real, Real)) : Real =
    ///     let (a, b) = theta in sum [| (a + b * x - y) ^ 2 for (x, y) in points |]";
    /// let loss = Module::from_source(&Engine::default(), "loss.dual", text)?.function("loss")?;
    ///
    /// let points = [(0.0, 1.0), (1.0, 3.0)].map(|(x, y): (f64, f64)| Value::Tuple(vec![x.into(), y.into()]));
    /// let loss = loss.bind("points", &Value::Array(points.to_vec()))?.typed::<([f64; 2],), f64>()?;
    /// assert_eq!(loss.value_and_grad(([1.0, 1.0],))?, (1.0, ([-2.0, -2.0],)));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchParameter`](crate::ErrorKind::NoSuchParameter) if the function has no parameter of this name,
    /// [`ErrorKind::Argument`](crate::ErrorKind::Argument) if the argument is not of its type, and
    /// [`ErrorKind::Trap`](crate::ErrorKind::Trap) if it takes more memory or time than a call may in this engine.
    pub fn bind(&self, parameter: &str, argument: &Value) -> Result<Function, Error> {
        Ok(Function(self.0.bind(parameter, argument)?))
    }

    /// Whether arguments are bound to the function.
    pub fn has_bound(&self) -> bool {
        self.0.has_bound()
    }

    /// [`Function::bind`] with an argument of the host's own type.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def total (k : Real) (points : Array { x : Real, n : Int }) : Real =
    ///     sum [| k * p.x * to_real p.n for p in points |]";
    /// #[derive(serde::Serialize)]
    /// struct Point { x: f64, n: i64 }
    ///
    /// let total = Module::from_source(&Engine::default(), "total.dual", text)?.function("total")?;
    /// let total = total.bind_as("points", &[Point { x: 2.0, n: 3 }, Point { x: 5.0, n: 1 }])?;
    /// assert_eq!(total.call_as::<f64>(&(10.0,))?, 110.0);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::bind`]; [`ErrorKind::Serialize`](crate::ErrorKind::Serialize) if the argument holds what no
    /// program takes.
    pub fn bind_as(&self, parameter: &str, argument: &(impl Serialize + ?Sized)) -> Result<Function, Error> {
        let params = self.interface().params.iter().filter(|(name, _)| name == parameter);
        let params: Vec<_> = params.cloned().collect();
        if params.is_empty() {
            return self.bind(parameter, &Value::Null);
        }
        let argument = ser::to_arguments(&params, self.data(), &(argument,))?;
        self.bind(parameter, &argument[0])
    }

    /// Why a call with these arguments has failed. Says which of them a number is made of that isn't finite.
    pub(crate) fn failed(&self, args: &[Value], mut error: RunError) -> Error {
        if let RunError::Trap(trap) = &mut error
            && let TrapKind::NonFinite(found) = &mut trap.kind
            && let Origin::Input { index, place, .. } = &mut found.origin
        {
            *place = self.some_places(args, *index..*index + 1).pop();
        }
        error.into()
    }

    /// Where each real of the arguments stands that derivatives are [with respect to](Function::wrt), in order, as in
    /// `x[3].width`: the names of the columns of a Jacobian. Of arguments that the function doesn't take, there may be
    /// others.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Value};
    ///
    /// let text = "def area (side : { x : Real, y : Real }) (n : Int) (scale : Real) : Real = scale * side.x * side.y";
    /// let area = Module::from_source(&Engine::default(), "area.dual", text)?.function("area")?;
    /// let side = Value::Record(vec![("x".into(), 2.0.into()), ("y".into(), 3.into())]);
    /// assert_eq!(area.places_of_reals(&[side, 1.into(), 5.into()]), ["side.x", "side.y", "scale"]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn places_of_reals(&self, args: &[Value]) -> Vec<String> {
        self.some_places(args, 0..usize::MAX)
    }

    /// The places of some of these reals, by their numbers.
    fn some_places(&self, args: &[Value], wanted: Range<usize>) -> Vec<String> {
        let params = self.interface().params.iter().enumerate().zip(args);
        let varied = params.filter(|((n, _), _)| self.is_wrt(*n));
        let typed = varied.map(|((_, (name, ty)), arg)| (&**name, ty, arg));
        places::places_of_arguments(typed, self.data(), wanted)
    }

    /// The native code that the function's module has by now: see [`Module::compiled`](crate::Module::compiled).
    pub fn compiled(&self) -> Vec<CompiledCode> {
        self.0.compiled()
    }

    /// The function's name and types on one line, as in `f : (x : Real, n : Int) -> Real`.
    pub fn signature(&self) -> String {
        format!("{} : {}", self.name(), self.interface())
    }

    /// Calls the function.
    ///
    /// There is one argument per parameter. Integers are accepted for reals if they are the same number; a record's
    /// fields may come in any order. Time: the program's own, and linear in the size of arguments and result.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](crate::ErrorKind::Argument) if the arguments are not of the parameters' types,
    /// [`ErrorKind::Trap`](crate::ErrorKind::Trap) if the program traps or reaches a limit of the engine.
    pub fn call(&self, args: &[Value]) -> Result<Value, Error> {
        self.0.call(args).map_err(|error| self.failed(args, error))
    }

    /// Calls the function with limits or a cancel handle of this call's own, and reports what the call used.
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn call_with(&self, args: &[Value], options: &CallOptions) -> Result<(Value, Stats), Error> {
        self.0.call_with(args, options).map_err(|error| self.failed(args, error))
    }

    /// The function's value, and its gradient with respect to every real in its arguments.
    ///
    /// The gradient has one entry per parameter, of the argument's shape: the entry of an array of n reals is an array
    /// of n reals. Integers and booleans in it are [`Value::Null`]. All partial derivatives together take a small
    /// constant factor of the time of one call, however many they are, and memory in proportion to the operations on
    /// reals.
    ///
    /// # Errors
    /// As [`Function::call`], and [`ErrorKind::NotScalar`](crate::ErrorKind::NotScalar) if the result is not one real.
    pub fn value_and_grad(&self, args: &[Value]) -> Result<(f64, Vec<Value>), Error> {
        self.0.value_and_grad(args).map_err(|error| self.failed(args, error))
    }

    /// [`Function::value_and_grad`] with limits or a cancel handle of this call's own, and a report on what it used.
    ///
    /// # Errors
    /// As [`Function::value_and_grad`].
    pub fn value_and_grad_with(&self, args: &[Value], options: &CallOptions) -> Result<Gradient, Error> {
        self.0.value_and_grad_with(args, options).map_err(|error| self.failed(args, error))
    }

    /// Runs the function as for a gradient, and reports where it was near a point at which the derivative changes, or
    /// at which the result jumps: ties of `min` and `max`, `abs` near 0, roundings near a jump, comparisons of nearly
    /// equal reals. Only what depends on a real that derivatives are with respect to counts. Near is what is nearer
    /// than `epsilon`, [`KINK_EPSILON`](crate::KINK_EPSILON) say, times the greater operand if that is greater than 1.
    /// At such points a derivative is one of several, and differences tell another one. `dualvm grad --warn-kinks`
    /// prints the report.
    ///
    /// It is about the code as compiled: what isn't asked for isn't computed, and the least or greatest of a loop's
    /// rounds is found by comparing numbers without derivatives, so that its ties don't count.
    /// [`CompileOptions::as_written`](crate::CompileOptions) keeps the compiler from both. The run is interpreted, on
    /// one thread, with a record for each instruction.
    ///
    /// ```
    /// use dualvm::{CallOptions, Engine, Error, KINK_EPSILON, Module};
    ///
    /// let text = "def hinge (xs : Array Real) : Real = sum [| max 0 (1 - x) for x in xs |]";
    /// let hinge = Module::from_source(&Engine::default(), "hinge.dual", text)?.function("hinge")?;
    /// let kinks = hinge.kinks(&[vec![0.5, 1.0, 2.0, 1.0].into()], KINK_EPSILON, &CallOptions::default())?;
    ///
    /// let [max] = &kinks.sites[..] else { panic!("there is one place") };
    /// assert_eq!((max.operation, max.count, max.nearest), ("max", 2, 0.0));
    /// assert_eq!(max.place.as_ref().expect("it is known").to_string(), "hinge.dual:1:45");
    /// println!("{kinks}");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn kinks(&self, args: &[Value], epsilon: f64, options: &CallOptions) -> Result<Kinks, Error> {
        Ok(self.0.kinks(args, epsilon, options)?)
    }

    /// Runs the function as for a gradient, and reports the records that each of its loops and functions has written,
    /// their bytes, and the time that their sweep takes. `dualvm grad --stats` prints it.
    ///
    /// The sweep runs in one thread here and looks at the clock for each record, which makes it longer: by some 50 ns a
    /// record. The forward run is the usual one, and its time is not told apart by loops.
    ///
    /// ```
    /// use dualvm::{CallOptions, Engine, Error, Module, Site};
    ///
    /// let text = "def f (xs : Array Real) : Real =\n  sin (loop s = 0.0 for x in xs do s + x * x)";
    /// let f = Module::from_source(&Engine::default(), "f.dual", text)?.function("f")?;
    /// let profile = f.profile(&[vec![1.0, 2.0].into()], &CallOptions::default())?;
    ///
    /// let [first, second] = &profile.sites[..] else { panic!("the loop, and the sine") };
    /// let Site::Loop { place, .. } = &first.site else { panic!("there is a loop") };
    /// assert_eq!(place.source.as_ref().map(|place| place.line), Some(2));
    /// assert!(matches!(&second.site, Site::Function { function, .. } if function == "f"));
    /// assert_eq!(first.records + second.records, profile.stats.records);
    /// assert_eq!(first.tape_bytes + second.tape_bytes, profile.stats.tape_bytes);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::value_and_grad`].
    pub fn profile(&self, args: &[Value], options: &CallOptions) -> Result<Profile, Error> {
        self.0.profile(args, options).map_err(|error| self.failed(args, error))
    }

    /// Runs the function as for a gradient, and reports the tasks that it forks and how much of the tape each of them
    /// writes. The same on any number of threads.
    ///
    /// ```
    /// use dualvm::{CallOptions, Engine, Error, Module};
    ///
    /// let text = "def both (x : Real) (y : Real) : Real = let (a, b) = sin x |*| cos y in a * b";
    /// let both = Module::from_source(&Engine::default(), "both.dual", text)?.function("both")?;
    /// let graph = both.job_graph(&[1.0.into(), 2.0.into()], &CallOptions::default())?;
    /// assert_eq!(graph.tasks[0].forks, [[1, 2]]);
    /// assert!(graph.work > graph.tasks[0].span);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn job_graph(&self, args: &[Value], options: &CallOptions) -> Result<JobGraph, Error> {
        self.0.job_graph(args, options).map_err(|error| self.failed(args, error))
    }

    /// Calls the function with the host's own types.
    ///
    /// `args` is a tuple, array or sequence with one entry per parameter, or a struct or map with one field per
    /// parameter, found by name. One argument is the tuple `(x,)`, none is `()`. [The crate's
    /// page](crate#your-own-types) says what becomes what.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def scale (k : Real) (v : (Real, Real)) = let (x, y) = v in (k * x, k * y)";
    /// let scale = Module::from_source(&Engine::default(), "scale.dual", text)?.function("scale")?;
    /// let scaled: [f64; 2] = scale.call_as(&(2.0, [3.0, 4.0]))?;
    /// assert_eq!(scaled, [6.0, 8.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`]; [`ErrorKind::Serialize`](crate::ErrorKind::Serialize) if `args` holds what no program
    /// takes, and [`ErrorKind::Deserialize`](crate::ErrorKind::Deserialize) if the result doesn't fit `Out`.
    pub fn call_as<Out: DeserializeOwned>(&self, args: &(impl Serialize + ?Sized)) -> Result<Out, Error> {
        self.call_as_with(args, &CallOptions::default()).map(|(value, _)| value)
    }

    /// [`Function::call_as`] with limits or a cancel handle of this call's own, and a report on what it used.
    ///
    /// # Errors
    /// As [`Function::call_as`].
    pub fn call_as_with<Out: DeserializeOwned>(
        &self,
        args: &(impl Serialize + ?Sized),
        options: &CallOptions,
    ) -> Result<(Out, Stats), Error> {
        let args = ser::to_arguments(&self.interface().params, self.data(), args)?;
        let (value, stats) = self.call_with(&args, options)?;
        Ok((de::from_result(&value)?, stats))
    }

    /// The function's value and its gradient, with the host's own types.
    ///
    /// `args` is as for [`Function::call_as`]. `Grad` is a tuple or sequence with one entry per parameter, or a struct
    /// with fields named like parameters; often it is the type of the arguments. Discrete parts of the gradient are
    /// null, which reads as `None`, `()`, `0` or `false`, whatever the type asks for.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize, PartialEq, Debug)]
    /// struct Spring {
    ///     stiffness: f64,
    ///     rest: f64,
    /// }
    ///
    /// let text = "def energy (s : (Real, Real)) (x : Real) : Real =
    ///               let (stiffness, rest) = s in
    ///               0.5 * stiffness * (x - rest) ^ 2";
    /// let energy = Module::from_source(&Engine::default(), "spring.dual", text)?.function("energy")?;
    /// let spring = Spring { stiffness: 3.0, rest: 1.0 };
    /// let (value, (by_spring, by_x)): (f64, (Spring, f64)) = energy.value_and_grad_as(&(spring, 3.0))?;
    /// assert_eq!(value, 6.0);
    /// assert_eq!(by_spring, Spring { stiffness: 2.0, rest: -6.0 });
    /// assert_eq!(by_x, 6.0);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call_as`], and [`ErrorKind::NotScalar`](crate::ErrorKind::NotScalar) if the result is not one
    /// real.
    pub fn value_and_grad_as<Grad: DeserializeOwned>(
        &self,
        args: &(impl Serialize + ?Sized),
    ) -> Result<(f64, Grad), Error> {
        self.value_and_grad_as_with(args, &CallOptions::default()).map(|(value, gradient, _)| (value, gradient))
    }

    /// [`Function::value_and_grad_as`] with limits or a cancel handle of this call's own, and a report on what it used.
    ///
    /// # Errors
    /// As [`Function::value_and_grad_as`].
    pub fn value_and_grad_as_with<Grad: DeserializeOwned>(
        &self,
        args: &(impl Serialize + ?Sized),
        options: &CallOptions,
    ) -> Result<(f64, Grad, Stats), Error> {
        let params = &self.interface().params;
        let args = ser::to_arguments(params, self.data(), args)?;
        let result = self.value_and_grad_with(&args, options)?;
        Ok((result.value, de::from_gradient(params, &result.gradient)?, result.stats))
    }

    /// The function, to be called with these types, without [`Value`]s and without serde: the cheapest way to call
    /// small functions often, and to hand over large arrays. [`typed`](crate::vm::typed) says which type stands for
    /// what.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def line (xs : Array Real) ((a, b) : (Real, Real)) (n : Int) : Real = a * xs[n] + b";
    /// let line = Module::from_source(&Engine::default(), "line.dual", text)?.function("line")?;
    /// let line = line.typed::<(&[f64], (f64, f64), i64), f64>()?;
    ///
    /// let xs = vec![1.0, 5.0];
    /// assert_eq!(line.call((&xs, (2.0, 3.0), 1))?, 13.0);
    /// let (value, (by_xs, (by_a, by_b), ())) = line.value_and_grad((&xs, (2.0, 3.0), 1))?;
    /// assert_eq!((value, by_xs, by_a, by_b), (13.0, vec![0.0, 2.0], 5.0, 1.0));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TypeMismatch`](crate::ErrorKind::TypeMismatch) if the types are not those of the parameters and of
    /// the result.
    pub fn typed<Args: Arguments, Ret: Output>(&self) -> Result<TypedFunction<Args, Ret>, Error> {
        Ok(TypedFunction::new(self.0.typed()?))
    }

    /// The function, to be called with numbers and slices in a row: the cheapest way to call small functions again and
    /// again, with memory that the caller keeps, and what other languages call through. [`flat`](crate::flat) says
    /// which functions have such calls.
    ///
    /// Errors of these calls are [`RunError`](crate::vm::engine::RunError)s, which become an [`Error`] with `?`.
    ///
    /// ```
    /// use dualvm::{Engine, Error, FlatValue, CallFrame, Module};
    ///
    /// let text = "def scaled (xs : Array Real) (k : Real) = ([| k * x for x in xs |], sum xs)";
    /// let scaled = Module::from_source(&Engine::default(), "scaled.dual", text)?.function("scaled")?.flat()?;
    /// let mut frame = CallFrame::new();
    /// let xs = vec![3.0, 4.0];
    ///
    /// // Results, and how cotangents of them change with the arguments: twice the second element, thrice the sum.
    /// let args = [FlatValue::from(&xs), 10.0.into()];
    /// let (results, gradient) = scaled.vjp(&mut frame, &args, &[(&[0.0, 2.0]).into(), 3.0.into()])?;
    /// assert_eq!(results.get(0), Some(FlatValue::Reals(&[30.0, 40.0])));
    /// assert_eq!(gradient.get(0), Some(FlatValue::Reals(&[3.0, 23.0])));
    /// assert_eq!(gradient.get(1), Some(FlatValue::Real(8.0)));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFlat`](crate::ErrorKind::NotFlat) if a parameter or the result is not flat.
    pub fn flat(&self) -> Result<FlatFunction, Error> {
        Ok(self.0.flat()?)
    }

    /// Reads arguments from any self-describing format, such as JSON, by the parameters' types.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Value};
    /// use serde::de::DeserializeSeed;
    ///
    /// let text = "def product (a : Real) (b : Real) = a * b";
    /// let product = Module::from_source(&Engine::default(), "product.dual", text)?.function("product")?;
    /// let mut json = serde_json::Deserializer::from_str("[6, 0.5]");
    /// let args = product.arguments_seed().deserialize(&mut json).unwrap();
    /// assert_eq!(product.call(&args)?, Value::Real(3.0));
    ///
    /// let mut json = serde_json::Deserializer::from_str("[6, true]");
    /// let error = product.arguments_seed().deserialize(&mut json).unwrap_err();
    /// assert_eq!(error.to_string(), "argument b: expected Real, found boolean `true` at line 1 column 8");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn arguments_seed(&self) -> ArgumentsSeed<'_> {
        ArgumentsSeed::new(&self.interface().params, self.data())
    }
}
