//! dualvm: an embeddable virtual machine in which every real number can be differentiated.
//!
//! A host lets its users supply programs at run time, runs them, and gets exact gradients at a small constant factor of
//! a program's own cost, with limits on time and memory and with errors that a user can act on.
//!
//! ```
//! use dualvm::{Engine, Error, Module, Value};
//!
//! let engine = Engine::default();
//! let module = Module::from_source(&engine, "area.dual", "def area (w : Real) (h : Real) : Real = w * h")?;
//! let area = module.function("area")?;
//!
//! assert_eq!(area.call(&[3.0.into(), 4.0.into()])?, Value::Real(12.0));
//!
//! let (value, gradient) = area.value_and_grad(&[3.0.into(), 4.0.into()])?;
//! assert_eq!(value, 12.0);
//! assert_eq!(gradient, [Value::Real(4.0), Value::Real(3.0)]);
//! # Ok::<(), Error>(())
//! ```
//!
//! An [`Engine`] owns the memory that runs reuse and the limits that they have. A [`Module`] is verified code, made
//! from source, from assembly, from bytecode, or from what your own compiler emits. A [`Function`] is what you call.
//! All three are cheap to clone, `Send` and `Sync`: make one engine and share it.
//!
//! # Values
//! [`Value`] is a tree of reals, integers, booleans, tuples, records, arrays, lists and values of data types.
//! [`Function::interface`] says what a function takes. A gradient has one entry per parameter, of the argument's shape;
//! integers and booleans have no derivative, so in their place stands [`Value::Null`].
//!
//! ```
//! # use dualvm::{Engine, Error, Module, Value};
//! let text = "
//!     def sum_of_powers (xs : Array Real) (n : Int) : Real =
//!       loop acc = 0.0 for i < length xs do acc + xs[i] ^ n";
//! let module = Module::from_source(&Engine::default(), "powers.dual", text)?;
//! let powers = module.function("sum_of_powers")?;
//! assert_eq!(powers.signature(), "sum_of_powers : (xs : Array Real, n : Int) -> Real");
//!
//! let (value, gradient) = powers.value_and_grad(&[vec![1.0, 2.0, 3.0].into(), Value::Int(3)])?;
//! assert_eq!(value, 36.0);
//! assert_eq!(gradient, [Value::Reals(vec![3.0, 12.0, 27.0]), Value::Null]);
//! # Ok::<(), Error>(())
//! ```
//!
//! Derivatives beyond the gradient are [`Function::jvp`] and [`Function::vjp`], the products of the Jacobian and a
//! tangent or a cotangent; [`Function::hvp`], that of the Hessian and a tangent; [`Function::jacobian`] and
//! [`Function::hessian`], row by row. [`Function::check_gradient`] says whether they are right.
//!
//! # Your own types
//! [`Function::call_as`] and [`Function::value_and_grad_as`] take and give types of your own, through `serde`:
//!
//! ```
//! # use dualvm::{Engine, Error, Module};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, PartialEq, Debug)]
//! struct Model {
//!     growth: f64,
//!     years: i64,
//!     start: f64,
//! }
//!
//! let text = "
//!     def population (growth : Real) (years : Int) (start : Real) : Real =
//!       loop p = start for i < years do p * growth";
//! let module = Module::from_source(&Engine::default(), "population.dual", text)?;
//! let population = module.function("population")?;
//!
//! // A struct with a field per parameter gives all arguments by name; a tuple gives them by position.
//! let model = Model { growth: 2.0, years: 3, start: 5.0 };
//! let (value, gradient): (f64, Model) = population.value_and_grad_as(&model)?;
//! assert_eq!(value, 40.0);
//! assert_eq!(gradient, Model { growth: 60.0, years: 0, start: 8.0 });
//!
//! let (_, (by_growth, (), _)) = population.value_and_grad_as::<(f64, (), f64)>(&(2.0, 3, 5.0))?;
//! assert_eq!(by_growth, 60.0);
//! # Ok::<(), Error>(())
//! ```
//!
//! | a parameter or result | in Rust | in a gradient |
//! |---|---|---|
//! | `Real` | `f64`, `f32`; as an argument also an integer that is the same number | the same |
//! | `Int` | `i64` and all other integers that fit | 0, or `()`, or `None` |
//! | `Bool` | `bool` | `false`, or `()`, or `None` |
//! | `(A, B)` | tuple, fixed array, sequence, or struct, by position | the same |
//! | `{ x : A, y : B }` | struct, or map with string keys, by name | the same |
//! | `Array A`, `List A` | `Vec`, slice, fixed array, any sequence | the same |
//! | a data type | enum with the constructors' names: fields by position or by name | the same |
//!
//! What doesn't fit is an error with its place, as in `argument x[3].1: expected Int, found a real (3.5)`.
//!
//! Enums may be recursive, and one enum may be argument and gradient:
//!
//! ```
//! # use dualvm::{Engine, Error, Module};
//! # use serde::{Deserialize, Serialize};
//! #[derive(Serialize, Deserialize, PartialEq, Debug)]
//! enum Shape {
//!     Circle(f64),
//!     Rect { width: f64, height: f64 },
//!     Nothing,
//! }
//! # use Shape::*;
//!
//! let text = "
//!     type Shape = Circle Real | Rect { width : Real, height : Real } | Nothing
//!     def area (shape : Shape) : Real =
//!       match shape with
//!       | Circle r -> 3 * r * r
//!       | Rect { width, height } -> width * height
//!       | Nothing -> 0";
//! let area = Module::from_source(&Engine::default(), "area.dual", text)?.function("area")?;
//! let (value, (gradient,)): (f64, (Shape,)) = area.value_and_grad_as(&(Rect { width: 2.0, height: 5.0 },))?;
//! assert_eq!((value, gradient), (10.0, Rect { width: 5.0, height: 2.0 }));
//! # Ok::<(), Error>(())
//! ```
//!
//! # Often, and with much data
//! [`Function::typed`] compares types of Rust with the function's once. Calls of what it returns neither look at types
//! nor allocate: a small function takes some 50 ns, and long arrays of numbers are read where they are.
//!
//! ```
//! # use dualvm::{Engine, Error, Module};
//! let text = "
//!     def dot (xs : Array Real) (ys : Array Real) : Real =
//!       loop sum = 0.0 for i < length xs do sum + xs[i] * ys[i]";
//! let dot = Module::from_source(&Engine::default(), "dot.dual", text)?.function("dot")?;
//! let dot = dot.typed::<(&[f64], &[f64]), f64>()?;
//!
//! let (xs, ys) = (vec![1.0, 2.0], vec![5.0, 6.0]);
//! assert_eq!(dot.call((&xs, &ys))?, 17.0);
//!
//! // The vectors of the gradient are used again and again.
//! let mut gradient = (Vec::new(), Vec::new());
//! for _ in 0..3 {
//!     assert_eq!(dot.value_and_grad_into((&xs, &ys), &mut gradient)?, 17.0);
//!     assert_eq!(gradient, (vec![5.0, 6.0], vec![1.0, 2.0]));
//! }
//!
//! // Or it is written to slices, which may be parts of anything.
//! let mut gradient = [0.0; 4];
//! let (by_xs, by_ys) = gradient.split_at_mut(2);
//! assert_eq!(dot.value_and_grad_into_slices((&xs, &ys), [by_xs, by_ys])?, 17.0);
//! assert_eq!(gradient, [5.0, 6.0, 1.0, 2.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! Arrays may be of integers, of tuples and of arrays, and a [`Matrix`] is a slice with a shape:
//!
//! ```
//! # use dualvm::{Engine, Error, Matrix, Module};
//! let text = "
//!     def pull (springs : Array (Int, Int, Real)) (at : Array (Array Real)) : Real =
//!       loop sum = 0.0 for k < length springs do
//!         let (i, j, stiffness) = springs[k] in
//!         loop sum = sum for c < length at[i] do sum + stiffness * (at[i][c] - at[j][c]) ^ 2";
//! let pull = Module::from_source(&Engine::default(), "pull.dual", text)?.function("pull")?;
//! let pull = pull.typed::<(&[(i64, i64, f64)], Matrix), f64>()?;
//!
//! let at = Matrix::new(&[0.0, 0.0,
//!                        3.0, 4.0], [2, 2])?;
//! let (energy, (by_springs, by_at)) = pull.value_and_grad((&[(0, 1, 0.5)], at))?;
//! assert_eq!((energy, by_springs), (12.5, vec![((), (), 25.0)]));
//! assert_eq!(by_at, [-3.0, -4.0, 3.0, 4.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! [`Function::flat`] does without types, too: numbers and slices go in and come out in a row, memory is kept in a
//! [`CallFrame`] from call to call, and any cotangents are pulled back. It is the cheapest call that there is.
//!
//! ```
//! # use dualvm::{CallFrame, Engine, Error, FlatValue, Module};
//! let text = "def polar (r : Real) (phi : Real) = (r * cos phi, r * sin phi)";
//! let polar = Module::from_source(&Engine::default(), "polar.dual", text)?.function("polar")?.flat()?;
//! let mut frame = CallFrame::new();
//!
//! let results = polar.call(&mut frame, &[2.0.into(), 0.0.into()])?;
//! assert_eq!(results.get(0), Some(FlatValue::Real(2.0)));
//!
//! // Cotangents of x and y, one after the other, of one recorded run.
//! let mut recorded = polar.record(&mut frame, &[2.0.into(), 0.0.into()])?;
//! assert_eq!(recorded.pullback(&[1.0.into(), 0.0.into()])?.reals(), [1.0, 0.0]);
//! assert_eq!(recorded.pullback(&[0.0.into(), 1.0.into()])?.reals(), [0.0, 2.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Native code
//! What runs often is compiled while the program runs, unless [`Config::jit`] says otherwise. It changes the time that
//! calls take and nothing else: values, derivatives, traps and the use of fuel and tape are the same to the last bit,
//! and all limits hold.
//!
//! ```
//! # use dualvm::{Config, Engine, Error, CodeKind, Jit, Mode, Module};
//! let engine = Engine::new(Config::default().with_jit(Jit::Always));
//! let module = Module::from_source(&engine, "sq.dual", "def sq (x : Real) : Real = x * x")?;
//! assert_eq!(module.function("sq")?.call(&[3.0.into()])?, 9.0.into());
//! let compiled = module.compiled();
//! assert_eq!((compiled[0].name.as_str(), compiled[0].kind), ("sq", CodeKind::Function(Mode::PRIMAL)));
//! # Ok::<(), Error>(())
//! ```
//!
//! # Limits and cancellation
//! Every run has limits on fuel, time, memory and depth of calls. [`Config::limits`] are those of an engine,
//! [`CallOptions`] those of one call. A limit is an error like any other; the engine, the module and the function stay
//! good.
//!
//! ```
//! # use dualvm::{CallOptions, CancelHandle, Engine, Error, Limits, Module, Value};
//! # use std::time::Duration;
//! let text = "def forever (x : Real) : Real = loop y = x while y < 1e300 do (y + x) / 2";
//! let module = Module::from_source(&Engine::default(), "forever.dual", text)?;
//! let forever = module.function("forever")?;
//!
//! let limits = Limits { fuel: 1_000_000, deadline: Some(Duration::from_secs(1)), ..Limits::default() };
//! let error = forever.call_with(&[1.0.into()], &CallOptions::with_limits(limits)).unwrap_err();
//! assert!(error.is_limit());
//! assert!(error.to_string().starts_with("out of fuel"));
//!
//! // Another thread stops a run through a handle.
//! let handle = CancelHandle::new();
//! let options = CallOptions::default().cancelled_by(&handle);
//! let error = std::thread::scope(|scope| {
//!     let run = scope.spawn(|| forever.call_with(&[1.0.into()], &options).unwrap_err());
//!     handle.cancel();
//!     run.join().expect("runs don't panic")
//! });
//! assert!(error.is_cancelled());
//! # Ok::<(), Error>(())
//! ```
//!
//! Compiling has [`CompileLimits`]: on bytes of source, time, nodes and memory. [`Module::from_source_with`] takes
//! them, and the same [`CancelHandle`]. `untrusted()` of both are a start for programs from strangers.
//!
//! ```
//! # use dualvm::{CompileLimits, CompileOptions, Config, Engine, Error, Limits, Module};
//! let config = Config::default().with_limits(Limits::untrusted());
//! let options = CompileOptions::with_limits(CompileLimits::untrusted());
//! let module = Module::from_source_with(&Engine::new(config), "f.dual", "def f (x : Real) = x ^ 3", &options)?;
//! # assert_eq!(module.functions().count(), 1);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Errors
//! There is one [`Error`] type. Its `Display` is for your users: a source error shows the line and points at the place,
//! a trap ends with the program's backtrace. [`Error::kind`] is for your code, [`Error::is_trap`] for the commonest
//! question. Nothing that a program, a module or an argument does panics or aborts the host.
//!
//! ```
//! # use dualvm::{Engine, Error, Module, Value};
//! let text = "def third (xs : Array Real) : Real =\n  xs[2]";
//! let module = Module::from_source(&Engine::default(), "third.dual", text)?;
//! let error = module.function("third")?.call(&[vec![1.0].into()]).unwrap_err();
//! assert!(error.is_trap());
//! assert_eq!(
//!     error.to_string(),
//!     "index 2 is out of bounds of an array of length 1\n  in third at third.dual:2:3",
//! );
//!
//! let error = module.function("thrid").unwrap_err();
//! assert_eq!(error.to_string(), "there is no function `thrid`; did you mean `third`?");
//! # Ok::<(), Error>(())
//! ```
//!
//! # Compilers
//! Bytecode is a public contract: [`vm::builder`] makes modules, [`vm::isa`] is the table of instructions,
//! [`Module::new`] verifies and loads. Whatever the verifier accepts runs without undefined behaviour, and is
//! differentiated like any other program.
//!
//! `docs/embedding.md` in the repository goes through all this in the order in which a host needs it.
//!
//! # Features
//! The first two are on by default; hosts say `default-features = false`, and `features = ["native"]` if they want
//! that.
//!
//! - `native` compiles what runs often to native code, by Cranelift. Without it there is no Cranelift in the host, and
//!   everything is interpreted: results, traps and fuel are the same to the last bit, and loops of arithmetic take some
//!   times as long.
//! - `cli` builds the `dualvm` program, with an argument parser and what else only that needs.
//! - `ndarray` and `nalgebra` make arrays of these crates arguments, tangents, gradients and results of
//!   [`Function::typed`]: [`vm::typed`] has a table of them.

pub use dualvm_frontend as frontend;
pub use dualvm_vm as vm;

mod batch;
mod check;
mod de;
mod derivatives;
mod error;
mod expected;
mod function;
mod import;
mod json;
mod kind;
mod link;
mod module;
mod places;
mod seed;
mod ser;
mod sparse;
mod summary;
mod typed;

pub use batch::Batch;
pub use check::{
    CheckOptions, Comparison, Counts, Engines, Estimate, GradientCheck, PointCheck, Quantity, Reason, Side, Verdict,
};
pub use error::{Error, ErrorKind};
pub use frontend::{
    CompileLimits, CompileOptions, ImportRequest, ImportedContent, ImportedFile, ImportedLibrary, Importer,
    MemoryImporter,
};
pub use function::Function;
pub use import::FolderImporter;
pub use json::{Json, JsonReal};
pub use kind::FileKind;
pub use module::{Module, read_def, read_def_with};
pub use places::places_of_reals;
pub use seed::{ArgumentsSeed, ValueSeed};
pub use summary::{Shape, Summary};
pub use typed::TypedFunction;
pub use vm::engine::{
    CallOptions, CancelHandle, Config, Engine, Gradient, Hessian, Hvp, Jacobian, JacobianMode, Jit, Jvp, Jvps,
    JvpsOfReals, Limits, Listener, NoSuchParameter, Stats, TangentError, TraceLine, Vjp,
};
pub use vm::explain::{
    CallExplanation, CallKind, CopyExplanation, Explanation, FunctionExplanation, LoopExplanation, Obstacle, Place,
    Recording,
};
pub use vm::flat::{
    self, CallFrame, Column, ColumnError, ColumnMut, FlatFunction, FlatValue, ItemError, NotFlat, Places,
};
pub use vm::formulas::{Formula, Formulas, PieceFormulas};
pub use vm::host::{HostCall, HostError, HostFunction, HostParams, HostResult, HostValue, TypedHostFunction};
pub use vm::kinks::{KINK_EPSILON, Kink, Kinks};
pub use vm::linker::{Library, Linker};
pub use vm::module::{DataDef, HostType, Interface};
pub use vm::native::{CodeKind, CompiledCode, Listing, Mode, Refusal, Thresholds};
pub use vm::profile::{Profile, Site, SiteUsage};
pub use vm::sparse::{
    CompressedColumns, Coordinates, GaussNewton, HessianSparsity, JacobianSparsity, LagrangianHvp, Pattern,
    SparseHessian, SparseJacobian, SparseLagrangian, SparseMatrix, SparsityError,
};
pub use vm::trap::{HostCause, HostFailure, Limit, NonFinite, OtherShape, TraceFrame, Trap, TrapKind};
pub use vm::typed::{Matrix, ShapeMismatch, Tensor, TypeMismatch};
pub use vm::value::{ArgumentError, Value};

/// The README's examples, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Those of the page on embedding.
#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
struct Embedding;

/// Those of the page on debugging.
#[cfg(doctest)]
#[doc = include_str!("../docs/debugging.md")]
struct Debugging;
