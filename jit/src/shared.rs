//! The target, calling conventions, and the code that exists once in a process: how Rust enters native functions, and
//! how these call the interpreter.

use crate::emit::{TRUSTED, helper_signature, import, stub_symbol};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, Type};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module};
use dualvm_vm::isa::{Bank, Op};
use dualvm_vm::native::helpers::{Helper, HelperInfo};
use dualvm_vm::native::layout::{self, OPERANDS_MAX};
use dualvm_vm::native::scalars::{ScalarFn, scalar};
use dualvm_vm::native::{EnterFn, REGION_POLL, RegionRun, SharedCode};
use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::OnceLock;

/// What all units share.
pub(crate) struct Shared {
    pub(crate) isa: OwnedTargetIsa,
    /// Addresses of what native code calls, by symbol.
    symbols: HashMap<String, usize>,
    code: SharedCode,
}

// SAFETY: the addresses in it lead to code that is never freed.
unsafe impl Send for Shared {}
// SAFETY: the addresses in it lead to code that is never freed, and nothing else in it changes.
unsafe impl Sync for Shared {}

static SHARED: OnceLock<Result<Shared, String>> = OnceLock::new();

impl Shared {
    /// Whether something in this process has used it.
    pub(crate) fn is_made() -> bool {
        SHARED.get().is_some()
    }

    /// The shared code; made on first use.
    pub(crate) fn get() -> Result<&'static Shared, String> {
        SHARED.get_or_init(Shared::new).as_ref().map_err(Clone::clone)
    }

    pub(crate) fn code(&self) -> SharedCode {
        self.code
    }

    fn new() -> Result<Shared, String> {
        let isa = target()?;
        let mut symbols: HashMap<String, usize> = Helper::ALL
            .iter()
            .map(|helper| helper.info())
            .map(|info| (info.symbol.to_owned(), info.address as usize))
            .collect();
        for &op in Op::ALL {
            if let Some(function) = scalar(op) {
                symbols.insert(scalar_symbol(op), function.address as usize);
            }
        }
        symbols.insert(REGION_POLL_SYMBOL.to_owned(), REGION_POLL as usize);
        // Never freed: this is one page for the whole process.
        let mut module = JITModule::new(builder(&isa, symbols.clone()));
        let code = shared_code(&mut module).map_err(|error| error.to_string())?;
        for helper in Helper::ALL.iter().map(|helper| helper.info()).filter(|info| info.rare) {
            let stub = preserving_stub(&mut module, &helper).map_err(|error| error.to_string())?;
            symbols.insert(stub_symbol(&helper), stub as usize);
        }
        for op in RARELY_CALLED {
            let stub = preserving_scalar_stub(&mut module, op).map_err(|error| error.to_string())?;
            symbols.insert(scalar_stub_symbol(op), stub as usize);
        }
        let stub = preserving_poll_stub(&mut module).map_err(|error| error.to_string())?;
        symbols.insert(REGION_POLL_STUB.to_owned(), stub as usize);
        std::mem::forget(module);
        Ok(Shared { isa, symbols, code })
    }

    /// A module that knows what native code calls.
    pub(crate) fn module(&'static self) -> JITModule {
        let mut builder = JITBuilder::with_isa(self.isa.clone(), cranelift_module::default_libcall_names());
        builder.symbol_lookup_fn(Box::new(|name| self.symbols.get(name).map(|&address| address as *const u8)));
        JITModule::new(builder)
    }
}

fn target() -> Result<OwnedTargetIsa, String> {
    let mut flags = settings::builder();
    // Cranelift's own check of what it is given: in tests and fuzzers, with debug assertions or without.
    let verify = if cfg!(any(debug_assertions, fuzzing)) { "true" } else { "false" };
    let choices = [
        // What its optimiser does, the frontend has done, but for what `function/tight.rs` does for loops. It would
        // place a value anew in each branch that uses it, which makes long chains quadratic, and takes longer in deep
        // nests.
        ("opt_level", "none"),
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        ("enable_verifier", verify),
        // Tail calls need them.
        ("preserve_frame_pointers", "true"),
    ];
    for (name, value) in choices {
        flags.set(name, value).map_err(|error| error.to_string())?;
    }
    let builder = cranelift_native::builder()?;
    builder.finish(settings::Flags::new(flags)).map_err(|error| error.to_string())
}

fn builder(isa: &OwnedTargetIsa, symbols: HashMap<String, usize>) -> JITBuilder {
    let mut builder = JITBuilder::with_isa(isa.clone(), cranelift_module::default_libcall_names());
    builder.symbols(symbols.into_iter().map(|(name, address)| (name, address as *const u8)));
    builder
}

/// The symbol of a scalar instruction's function.
pub(crate) fn scalar_symbol(op: Op) -> String {
    format!("dualvm_scalar_{}", op.info().mnemonic)
}

/// Scalar instructions that are written out but for rare operands; then their functions are called through stubs that
/// preserve all registers.
pub(crate) const RARELY_CALLED: [Op; 5] = [Op::Exp, Op::Tanh, Op::TanhSlope, Op::Sigmoid, Op::SigmoidSlope];

pub(crate) fn scalar_stub_symbol(op: Op) -> String {
    format!("{}_preserving", scalar_symbol(op))
}

/// The signature of a scalar instruction's function: see [`ScalarFn::address`].
pub(crate) fn scalar_signature(conv: CallConv, op: Op) -> Signature {
    let ScalarFn { traps, operands, result, .. } = scalar(op).expect("the instruction is a scalar one");
    let mut params: Vec<Type> = if traps { vec![I64, I64] } else { Vec::new() };
    params.extend(operands.iter().map(|&bank| type_of(bank)));
    signature(conv, &params, Some(if traps { I64 } else { type_of(result) }))
}

const REGION_POLL_SYMBOL: &str = "dualvm_region_poll";
pub(crate) const REGION_POLL_STUB: &str = "dualvm_region_poll_preserving";
/// Where a [`RegionRun`] has its budget.
pub(crate) const REGION_BUDGET: i32 = offset_of!(RegionRun, budget) as i32;

/// So many bytes are handed to its stub: arguments, and then the result in their place.
pub(crate) const SCALAR_BYTES: u32 = 16;

/// The signature of a stub, which preserves all registers: it takes the place of what else it takes.
pub(crate) fn stub_signature() -> Signature {
    signature(CallConv::PreserveAll, &[I64], None)
}

/// The type of a bank's values in registers.
pub(crate) fn type_of(bank: Bank) -> Type {
    match bank {
        Bank::Real => F64,
        Bank::Int | Bank::Ref => I64,
    }
}

/// A signature with one result at most.
pub(crate) fn signature(conv: CallConv, params: &[Type], result: Option<Type>) -> Signature {
    let mut signature = Signature::new(conv);
    signature.params.extend(params.iter().map(|&ty| AbiParam::new(ty)));
    signature.returns.extend(result.map(AbiParam::new));
    signature
}

/// The signature of a function's native code: context, bases of reals, words, integers and references, nested calls
/// that are left. Its calling convention allows tail calls.
pub(crate) fn function_signature() -> Signature {
    signature(CallConv::Tail, &[I64; 6], Some(I64))
}

fn shared_code(module: &mut JITModule) -> Result<SharedCode, Box<cranelift_module::ModuleError>> {
    let host = module.isa().default_call_conv();
    let mut context = module.make_context();
    let mut builders = FunctionBuilderContext::new();

    // From Rust: the code comes first, the rest goes to it.
    let enter_signature = signature(host, &[I64; 7], Some(I64));
    let enter = module.declare_function("enter", Linkage::Local, &enter_signature)?;
    context.func.signature = enter_signature;
    let mut b = FunctionBuilder::new(&mut context.func, &mut builders);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let params = b.block_params(entry).to_vec();
    let callee = b.import_signature(function_signature());
    let call = b.ins().call_indirect(callee, params[0], &params[1..]);
    let status = b.inst_results(call)[0];
    b.ins().return_(&[status]);
    b.seal_all_blocks();
    b.finalize(module.target_config());
    module.define_function(enter, &mut context)?;

    // To the interpreter: the same parameters under the other convention. It may say where to go on.
    module.clear_context(&mut context);
    let interpret = module.declare_function("interpret", Linkage::Local, &function_signature())?;
    let helper = Helper::Interpret.info();
    let helper = import(module, helper.symbol, &helper_signature(host, &helper))?;
    context.func.signature = function_signature();
    let helper = module.declare_func_in_func(helper, &mut context.func);
    let mut b = FunctionBuilder::new(&mut context.func, &mut builders);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let params = b.block_params(entry).to_vec();
    let call = b.ins().call(helper, &params);
    let status = b.inst_results(call)[0];
    let (end, rest) = (b.create_block(), b.create_block());
    let ended = b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, status, 1);
    b.ins().brif(ended, end, &[], rest, &[]);
    b.switch_to_block(end);
    b.ins().return_(&[status]);
    b.switch_to_block(rest);
    let callee = b.import_signature(function_signature());
    b.ins().return_call_indirect(callee, status, &params);
    b.seal_all_blocks();
    b.finalize(module.target_config());
    module.define_function(interpret, &mut context)?;

    module.finalize_definitions()?;
    let enter = module.get_finalized_function(enter);
    // SAFETY: the code was made with the signature of an `EnterFn`.
    let enter = unsafe { std::mem::transmute::<*const u8, EnterFn>(enter) };
    Ok(SharedCode { enter, interpret: module.get_finalized_function(interpret) })
}

/// Calls a helper with what stands in the context, and leaves the result there.
fn preserving_stub(
    module: &mut JITModule,
    helper: &HelperInfo,
) -> Result<*const u8, Box<cranelift_module::ModuleError>> {
    debug_assert!(helper.params.len() <= 1 + OPERANDS_MAX, "{helper:?} takes too much");
    let called = helper_signature(module.isa().default_call_conv(), helper);
    let places = Places { first_is_place: true, operands: layout::OPERANDS, result: layout::RESULT };
    preserving(module, &stub_symbol(helper), (helper.symbol, called), places)
}

/// Calls the function of a scalar instruction with what stands in the caller's place, and leaves the result there.
fn preserving_scalar_stub(module: &mut JITModule, op: Op) -> Result<*const u8, Box<cranelift_module::ModuleError>> {
    let called = scalar_signature(module.isa().default_call_conv(), op);
    debug_assert!(8 * called.params.len() <= SCALAR_BYTES as usize, "{op:?} takes too much");
    let places = Places { first_is_place: false, operands: 0, result: 0 };
    preserving(module, &scalar_stub_symbol(op), (&scalar_symbol(op), called), places)
}

/// Asks whether a region's adjoint is to go on, and leaves the answer where the budget was.
fn preserving_poll_stub(module: &mut JITModule) -> Result<*const u8, Box<cranelift_module::ModuleError>> {
    let called = signature(module.isa().default_call_conv(), &[I64], Some(I64));
    let places = Places { first_is_place: true, operands: 0, result: REGION_BUDGET };
    preserving(module, REGION_POLL_STUB, (REGION_POLL_SYMBOL, called), places)
}

/// Where a stub has what it passes on, from the place that it is called with.
struct Places {
    /// Whether the place itself is the first argument.
    first_is_place: bool,
    operands: i32,
    result: i32,
}

/// A function that calls another one with arguments from memory, and stores what it gives. It preserves all registers.
fn preserving(
    module: &mut JITModule,
    symbol: &str,
    (called_symbol, called): (&str, Signature),
    Places { first_is_place, operands, result }: Places,
) -> Result<*const u8, Box<cranelift_module::ModuleError>> {
    let mut context = module.make_context();
    let mut builders = FunctionBuilderContext::new();
    let stub = module.declare_function(symbol, Linkage::Local, &stub_signature())?;
    let params: Vec<Type> = called.params.iter().map(|param| param.value_type).collect();
    let called = import(module, called_symbol, &called)?;
    context.func.signature = stub_signature();
    let called = module.declare_func_in_func(called, &mut context.func);
    let mut b = FunctionBuilder::new(&mut context.func, &mut builders);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let place = b.block_params(entry)[0];
    let first = usize::from(first_is_place);
    let mut args = vec![place; first];
    for (n, &ty) in params[first..].iter().enumerate() {
        args.push(b.ins().load(ty, TRUSTED, place, operands + 8 * n as i32));
    }
    let call = b.ins().call(called, &args);
    if let Some(&found) = b.inst_results(call).first() {
        b.ins().store(TRUSTED, found, place, result);
    }
    b.ins().return_(&[]);
    b.seal_all_blocks();
    b.finalize(module.target_config());
    module.define_function(stub, &mut context)?;
    module.finalize_definitions()?;
    Ok(module.get_finalized_function(stub))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(not(debug_assertions), ignore = "Cranelift checks what it is given with debug assertions only")]
    fn tests_check_what_cranelift_is_given() {
        assert!(target().expect("this machine has native code").flags().enable_verifier());
    }
}
