//! Programs that compile, for tests that look at their code.

use dualvm_frontend::compile;
use dualvm_vm::module::ModuleDef;

/// What the compiler makes of a text, which the verifier takes.
pub(crate) fn compiled(text: &str) -> ModuleDef {
    let module = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(dualvm_vm::verify::verify(&module).is_ok());
    module
}
