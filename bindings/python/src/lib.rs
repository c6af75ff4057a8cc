//! The extension module `dualvm._dualvm`, of which the Python package `dualvm` is made.
//!
//! Programs are compiled, run and differentiated by the crate `dualvm`; here objects are taken apart into what it
//! takes, and results become objects. Functions whose parameters and results are numbers and arrays are called flat,
//! all others with values.

use pyo3::prelude::*;

mod arguments;
mod batch;
mod engine;
mod error;
mod flatten;
mod frames;
mod function;
mod host;
mod interrupt;
mod module;
mod numbers;
mod numpy;
mod options;
mod output;
mod parts;
mod place;
mod pullback;
mod selection;
mod values;

#[pymodule]
fn _dualvm(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<engine::Engine>()?;
    m.add_class::<function::Function>()?;
    m.add_class::<host::HostFunction>()?;
    m.add_class::<module::Module>()?;
    m.add_class::<options::CancelHandle>()?;
    m.add_class::<options::Limits>()?;
    m.add_class::<pullback::Pullback>()?;
    m.add_function(wrap_pyfunction!(module::compile, m)?)?;
    m.add_function(wrap_pyfunction!(module::load, m)?)?;
    m.add_function(wrap_pyfunction!(function::_function, m)?)?;
    m.add_function(wrap_pyfunction!(module::_module, m)?)?;
    m.add_function(wrap_pyfunction!(interrupt::_after_fork, m)?)?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    interrupt::begin(m.py())
}
