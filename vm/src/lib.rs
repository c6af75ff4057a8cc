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
//! The crate knows neither the language nor a code generator ([`native`] is where one is installed). Its folders, in
//! the order in which a gradient passes through them:
//!
//! - `bytecode`: the instruction table, modules, text and binary form, the verifier;
//! - `in_place`: derivatives of small functions, written out in the place of operators;
//! - `code`: the instructions that run;
//! - `preparation`: from verified bytecode to streams, and what of them is recorded as one;
//! - `derivation`: tangents and adjoints of straight-line code;
//! - `records`: what a record holds, and the code that sweeps it;
//! - `running`: the interpreter, fuel and clock; `memory`: its stacks, heap and slabs; `native`: when to compile;
//! - `tape` and `sweep`; `sparsity`: what a tape says of the pattern of derivatives;
//! - `embedding`: engines, functions, values, and the border between these and registers.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("dualvm needs a machine with addresses of 64 bits: objects hold them in words of their own");

mod bytecode;
mod code;
mod derivation;
mod embedding;
pub mod excerpt;
pub mod host;
mod in_place;
pub mod math;
mod memory;
pub mod native;
mod nest;
mod preparation;
mod records;
mod running;
mod similar;
mod sparsity;
mod sweep;
mod sync;
mod tape;
pub mod trap;
mod word;

pub use bytecode::{binary, builder, isa, module, reference, text, verify};
pub use embedding::{engine, explain, flat, formulas, job_graph, kinks, linker, profile, sparse, typed, value};
