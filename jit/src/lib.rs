//! Native code for dualvm, by Cranelift.
//!
//! The virtual machine hands over what its interpreter runs, the stream of a function in one mode or the adjoint of a
//! segment or a loop, and this crate makes machine code of it that has the same meaning to the last bit. When to do
//! that is decided by the machine ([`dualvm_vm::native`]); a host installs a [`Cranelift`] into the engine's
//! configuration:
//!
//! ```
//! use dualvm_jit::Cranelift;
//! use dualvm_vm::{engine::{Config, Engine, Jit, Module}, text, value::Value};
//! use std::sync::Arc;
//!
//! let mut config = Config::default();
//! config.generator = Some(Arc::new(Cranelift));
//! config.jit = Jit::Always;
//! let engine = Engine::new(config);
//! let def = text::parse("func \"square\" (real) -> (real) export (x : Real) -> Real
//!     regs 1 real
//!     { mul r0, r0, r0
//!       ret (r0) }", "square.dvs").map_err(|errors| errors[0].to_string())?;
//! let module = Module::new(&engine, def).map_err(|errors| errors[0].to_string())?;
//! let square = module.function("square").ok_or("no such function")?;
//! assert_eq!(square.value_and_grad(&[Value::Real(3.0)])?, (9.0, vec![Value::Real(6.0)]));
//! assert!(!module.compiled().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - `shared`: target, calling conventions, and the code that exists once in a process.
//! - `unit`: the code of one module: memory, symbols, compiling.
//! - `emit`: writing Cranelift's representation, with the calls out of native code.
//! - `cost`: what compiling will cost, before it is done.
//! - `scalar`: scalar instructions. `function`: everything else of a function. `segment`, `loop_adjoint` and
//!   `region_adjoint`: adjoints, with what `deferred` leaves for rare ways.
//! - `vectors`: two rounds of a loop at a time. `adjoint_pairs`: those of adjoints, with what `linear` knows of
//!   indices.
//!
//! Memory that holds code is never writable and executable at once, and goes back with the module.

mod adjoint_pairs;
mod bit_set;
mod cost;
mod deferred;
mod emit;
mod function;
mod lenient;
mod linear;
mod loop_adjoint;
mod region_adjoint;
mod scalar;
mod segment;
mod shared;
mod unit;
mod vectors;
mod wide;

use dualvm_vm::native::{Generator, Request, Unit};
use std::time::Duration;

/// Generates native code for the machine that it runs on.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cranelift;

impl Generator for Cranelift {
    fn unit(&self) -> Result<Box<dyn Unit>, String> {
        Ok(Box::new(unit::CodeUnit::new()?))
    }

    fn estimate(&self, request: &Request<'_>, most: Duration) -> Duration {
        cost::estimate(request, most)
    }

    fn opening(&self) -> Duration {
        if shared::Shared::is_made() { cost::MODULE } else { cost::FIRST_MODULE }
    }
}
