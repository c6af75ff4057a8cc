//! The code of one module: its memory, and what compiling a request takes.

use crate::emit::Emit;
use crate::shared::{Shared, function_signature, signature};
use crate::{function, loop_adjoint, region_adjoint, segment};
use cranelift_codegen::Context;
use cranelift_codegen::ir::Signature;
use cranelift_codegen::ir::types::I64;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITModule;
use cranelift_module::{Module, ModuleError};
use dualvm_vm::native::{Compiled, FunctionRequest, Listing, Refusal, Request, SharedCode, Unit};
use std::fmt;

/// The native code of a module.
pub(crate) struct CodeUnit {
    shared: &'static Shared,
    /// Made when the first function is compiled. `None` afterwards only while the unit is dropped.
    module: Option<JITModule>,
    context: Context,
    builders: FunctionBuilderContext,
}

// SAFETY: the module's pointers lead to memory that it owns.
unsafe impl Send for CodeUnit {}

impl fmt::Debug for CodeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeUnit").finish_non_exhaustive()
    }
}

impl CodeUnit {
    pub(crate) fn new() -> Result<CodeUnit, String> {
        let shared = Shared::get()?;
        Ok(CodeUnit { shared, module: None, context: Context::new(), builders: FunctionBuilderContext::new() })
    }

    /// How many instructions of Cranelift's the last piece took.
    #[cfg(test)]
    pub(crate) fn instructions(&self) -> u64 {
        self.context.func.dfg.num_insts() as u64
    }

    /// Writes a function's representation into the context.
    fn write(&mut self, signature: Signature, write: impl FnOnce(&mut Emit<'_>)) -> Result<(), Refusal> {
        let module = self.module.get_or_insert_with(|| self.shared.module());
        module.clear_context(&mut self.context);
        self.context.func.signature = signature;
        let builder = FunctionBuilder::new(&mut self.context.func, &mut self.builders);
        let mut emit = Emit::new(builder, module);
        write(&mut emit);
        let Emit { mut b, error, .. } = emit;
        b.seal_all_blocks();
        b.finalize(self.shared.isa.frontend_config());
        error.map_or(Ok(()), |error| Err(failed(&error)))
    }

    /// Compiles what stands in the context.
    fn define(&mut self) -> Result<Compiled, Refusal> {
        let module = self.module.get_or_insert_with(|| self.shared.module());
        let failed = |error: ModuleError| failed(&error);
        let id = module.declare_anonymous_function(&self.context.func.signature).map_err(failed)?;
        module.define_function(id, &mut self.context).map_err(failed)?;
        module.finalize_definitions().map_err(failed)?;
        let code = module.get_finalized_function(id);
        let bytes = self.context.compiled_code().map_or(0, |compiled| compiled.code_info().total_size as usize);
        Ok(Compiled { code, bytes })
    }

    /// Compiles the function in the context, if its frame fits into the room that it makes sure of.
    fn define_function(&mut self, request: &FunctionRequest<'_>) -> Result<Compiled, Refusal> {
        let compiled = self.define()?;
        let layout = self.context.compiled_code().and_then(|code| code.buffer.frame_layout());
        let frame = layout.map_or(0, |layout| layout.frame_to_fp_offset as usize);
        if frame > function::frame_bytes(request.stream) { Err(Refusal::TooLarge) } else { Ok(compiled) }
    }

    fn write_function(&mut self, request: &FunctionRequest<'_>) -> Result<(), Refusal> {
        self.write(function_signature(), |emit| function::write(emit, request))
    }
}

fn failed(error: &ModuleError) -> Refusal {
    match error {
        ModuleError::Compilation(error) => Refusal::Failed(format!("{error:?}")),
        error => Refusal::Failed(error.to_string()),
    }
}

// SAFETY: `function`, `segment` and `loop_adjoint` write code of the types that are asked for, which doesn't unwind:
// Rust functions that it calls are `extern "C"`. The memory of the code is the module's, that of shared code is never
// freed.
unsafe impl Unit for CodeUnit {
    fn shared(&self) -> SharedCode {
        self.shared.code()
    }

    fn compile(&mut self, request: &Request<'_>) -> Result<Compiled, Refusal> {
        let host = self.shared.isa.default_call_conv();
        match request {
            Request::Function(request) => {
                self.write_function(request)?;
                return self.define_function(request);
            }
            Request::Segment(code) => {
                self.write(signature(host, &[I64, I64], Some(I64)), |emit| segment::write(emit, code))?;
            }
            Request::Loop(code) => {
                self.write(signature(host, &[I64], Some(I64)), |emit| loop_adjoint::write(emit, code))?;
            }
            Request::Region(code) => {
                self.write(signature(host, &[I64], Some(I64)), |emit| region_adjoint::write(emit, code))?;
            }
        }
        self.define()
    }

    fn listing(&mut self, request: &FunctionRequest<'_>) -> Result<Listing, Refusal> {
        self.write_function(request)?;
        let representation = self.context.func.display().to_string();
        self.context.set_disasm(true);
        let compiled = self
            .context
            .compile(&*self.shared.isa, &mut Default::default())
            .map_err(|error| Refusal::Failed(error.inner.to_string()))?;
        let assembly = compiled.vcode.clone().unwrap_or_default();
        Ok(Listing { representation, assembly })
    }
}

impl Drop for CodeUnit {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: the virtual machine drops a unit when nothing runs its code any more.
            unsafe { module.free_memory() };
        }
    }
}
