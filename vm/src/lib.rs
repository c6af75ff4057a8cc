//! The dualvm virtual machine: bytecode in which every real number can be differentiated.
//!
//! A program is a [`module::ModuleDef`]: made with the [`builder`], read from [`text`] or from [`binary`], and refused
//! by the [`verify`]er unless it is safe to run. An [`engine::Module`] is verified code. Calling a function runs it in
//! the interpreter, or as native code where a host has installed a generator; asking for a gradient runs it while
//! recording, one tape record per straight-line segment of real arithmetic or innermost loop, and then sweeps the tape
//! backwards with code that was derived from the segments.
//!
//! ```
//! use dualvm_vm::builder::{FunctionBuilder, ModuleBuilder};
//! use dualvm_vm::engine::{Engine, Module};
//! use dualvm_vm::module::{HostType, Interface, ValueType::Real};
//! use dualvm_vm::value::Value;
//!
//! // f x y = x · y + sin x
//! let mut f = FunctionBuilder::new("f", &[Real, Real], &[Real]);
//! let (x, y) = (f.real_param(0), f.real_param(1));
//! let (product, sine) = (f.mul(x, y), f.sin(x));
//! let sum = f.add(product, sine);
//! f.ret(&[sum.into()]);
//! f.export(Interface {
//!     params: vec![("x".into(), HostType::Real), ("y".into(), HostType::Real)],
//!     result: HostType::Real,
//! });
//! let mut builder = ModuleBuilder::new();
//! builder.define(f.finish()?);
//!
//! let module = Module::new(&Engine::default(), builder.finish()).map_err(|errors| errors[0].to_string())?;
//! let f = module.function("f").ok_or("no such function")?;
//! let (value, gradient) = f.value_and_grad(&[Value::Real(2.0), Value::Real(3.0)])?;
//! assert_eq!(value, 6.0 + 2.0_f64.sin());
//! assert_eq!(gradient, [Value::Real(3.0 + 2.0_f64.cos()), Value::Real(2.0)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate knows neither the language nor a code generator ([`native`] is where one is installed). `isa` holds the
//! one declaration of every instruction; the files behind it, in the order in which a gradient passes through them:
//! `prepare` (streams for the interpreter), `flow`, `rename`, `liveness`, `loops` and `segment` (what is recorded as
//! one),
//! `graph` and `derive` (adjoints), `record` and `loop_record`, `interp`, `heap`, `tape`, `sweep`, `convert`.

pub mod binary;
pub mod builder;
mod convert;
mod derive;
pub mod engine;
mod flow;
mod graph;
mod heap;
mod idle;
mod interp;
pub mod isa;
pub mod job_graph;
mod limits;
mod liveness;
mod loop_record;
mod loops;
pub mod math;
mod meter;
pub mod module;
pub mod native;
mod nest;
mod pool;
mod prepare;
mod pressure;
mod program;
mod record;
pub mod reference;
mod rename;
mod segment;
mod similar;
mod stack;
mod sweep;
mod sync;
mod tape;
pub mod text;
pub mod trap;
pub mod typed;
pub mod value;
pub mod verify;
mod word;
