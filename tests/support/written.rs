//! Functions of source texts, improved as they always are or as they are written.

use dualvm::{CompileOptions, Config, Engine, Function, Jit, Module};

/// The module of a text that compiles, for an engine of its own with one thread.
pub(crate) fn module(text: &str, jit: Jit, as_written: bool) -> Module {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, 1);
    let mut options = CompileOptions::default();
    options.as_written = as_written;
    let module = Module::from_source_with(&Engine::new(config), "test.dual", text, &options);
    module.unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// A function of it.
pub(crate) fn function(text: &str, name: &str, jit: Jit, as_written: bool) -> Function {
    module(text, jit, as_written).function(name).expect("it is there")
}
