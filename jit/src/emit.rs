//! Writing Cranelift's representation: memory, calls out of native code, cold paths.

use crate::shared::{
    RARELY_CALLED, REGION_BUDGET, REGION_POLL_STUB, SCALAR_BYTES, scalar_signature, scalar_stub_symbol, scalar_symbol,
    signature, stub_signature,
};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, F64X2, I32, I64};
use cranelift_codegen::ir::{
    Block, BlockArg, FuncRef, InstBuilder, InstructionData, MemFlagsData, Opcode, Signature, StackSlot, StackSlotData,
    StackSlotKind, Type, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Variable};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Linkage, Module, ModuleError};
use dualvm_vm::isa::Op;
use dualvm_vm::native::helpers::{Helper, HelperInfo, MachineType};
use dualvm_vm::native::layout;
use std::collections::HashMap;

/// Memory that is there and aligned.
pub(crate) const TRUSTED: MemFlagsData = MemFlagsData::trusted();
/// Memory that is there and aligned, and holds what it will always hold: it may be read earlier, and once for all.
const LASTING: MemFlagsData = TRUSTED.with_readonly().with_can_move();
/// Memory that is there.
pub(crate) const UNALIGNED: MemFlagsData = MemFlagsData::new().with_notrap();

/// Elements that are further away in words are found from an index of their own.
const OFFSET_MAX: u64 = 1 << 16;

/// The symbol of the stub through which a rare helper is called: it preserves all registers, so that no register has to
/// be saved around such a call elsewhere. What the helper returns goes through the context.
pub(crate) fn stub_symbol(helper: &HelperInfo) -> String {
    format!("{}_preserving", helper.symbol)
}

/// The signature of a helper.
pub(crate) fn helper_signature(conv: CallConv, helper: &HelperInfo) -> Signature {
    let machine = |ty: MachineType| match ty {
        MachineType::I32 => I32,
        MachineType::I64 => I64,
    };
    let params: Vec<Type> = helper.params.iter().copied().map(machine).collect();
    signature(conv, &params, helper.result.map(machine))
}

/// Declares a function of the virtual machine in a module.
pub(crate) fn import(module: &mut JITModule, symbol: &str, signature: &Signature) -> Result<FuncId, Box<ModuleError>> {
    module.declare_function(symbol, Linkage::Import, signature).map_err(Box::new)
}

/// A function under construction.
pub(crate) struct Emit<'a> {
    pub(crate) b: FunctionBuilder<'a>,
    module: &'a mut JITModule,
    helpers: HashMap<Helper, FuncRef>,
    stubs: HashMap<Helper, FuncRef>,
    scalars: HashMap<Op, FuncRef>,
    scalar_stubs: HashMap<Op, FuncRef>,
    region_poll: Option<FuncRef>,
    /// Where the stubs of scalar instructions leave their results.
    scalar_slot: Option<StackSlot>,
    /// The first thing that went wrong in the module's bookkeeping.
    pub(crate) error: Option<Box<ModuleError>>,
}

impl<'a> Emit<'a> {
    pub(crate) fn new(b: FunctionBuilder<'a>, module: &'a mut JITModule) -> Self {
        Emit {
            b,
            module,
            helpers: HashMap::new(),
            stubs: HashMap::new(),
            scalars: HashMap::new(),
            scalar_stubs: HashMap::new(),
            region_poll: None,
            scalar_slot: None,
            error: None,
        }
    }

    pub(crate) fn load(&mut self, ty: Type, base: Value, offset: i32) -> Value {
        self.b.ins().load(ty, TRUSTED, base, offset)
    }

    pub(crate) fn store(&mut self, value: Value, base: Value, offset: i32) {
        self.b.ins().store(TRUSTED, value, base, offset);
    }

    pub(crate) fn int(&mut self, value: i64) -> Value {
        self.b.ins().iconst(I64, value)
    }

    /// A real, or a vector with it in both lanes.
    pub(crate) fn real_constant(&mut self, ty: Type, value: f64) -> Value {
        if ty == F64 {
            return self.b.ins().f64const(value);
        }
        let bytes: Vec<u8> = [value.to_bits().to_le_bytes(); 2].concat();
        let constant = self.b.func.dfg.constants.insert(bytes.into());
        self.b.ins().vconst(ty, constant)
    }

    /// A vector of two reals.
    pub(crate) fn vector(&mut self, [low, high]: [Value; 2]) -> Value {
        // To clear the high lane, as for a vector of one number, would be an instruction more.
        let vector = self.b.ins().splat(F64X2, low);
        self.b.ins().insertlane(vector, high, 1)
    }

    /// A variable that begins with a value.
    pub(crate) fn variable(&mut self, value: Value) -> Variable {
        let ty = self.b.func.dfg.value_type(value);
        let variable = self.b.declare_var(ty);
        self.b.def_var(variable, value);
        variable
    }

    /// A new block that is rarely run.
    pub(crate) fn cold_block(&mut self) -> Block {
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        block
    }

    /// Goes on with a block to which nothing leads that is written later. What is known of its predecessors makes sure
    /// that it takes no parameters for what is the same in all of them.
    pub(crate) fn enter(&mut self, block: Block) {
        self.b.switch_to_block(block);
        self.b.seal_block(block);
    }

    /// A block to go on in, as rare as the one that is being written.
    pub(crate) fn next_block(&mut self) -> Block {
        let is_cold = self.b.current_block().is_some_and(|block| self.b.func.layout.is_cold(block));
        if is_cold { self.cold_block() } else { self.b.create_block() }
    }

    /// Goes to `target` if `condition` is not 0, and on in a new block otherwise.
    pub(crate) fn branch_away(&mut self, condition: Value, target: Block) {
        let next = self.next_block();
        self.branch(condition, target, &[], next, &[]);
        self.enter(next);
    }

    /// Where the adjoints of an array's elements begin whose first slot this is; 0 if that is 0: they have none.
    pub(crate) fn adjoints_from(&mut self, adjoints: Value, first: Value) -> Value {
        let start = self.adjoints_at(adjoints, first);
        let active = self.is_nonzero(first);
        self.select(active, start, first)
    }

    /// Where the adjoint of a slot stands, and those of the slots behind it.
    pub(crate) fn adjoints_at(&mut self, adjoints: Value, slot: Value) -> Value {
        let offset = self.b.ins().ishl_imm_u(slot, 3);
        self.b.ins().iadd(adjoints, offset)
    }

    /// Adds to the adjoint of a slot.
    pub(crate) fn add_to_slot(&mut self, adjoints: Value, slot: Value, contribution: Value) {
        let address = self.adjoints_at(adjoints, slot);
        let sum = self.load(F64, address, 0);
        let sum = self.b.ins().fadd(sum, contribution);
        self.store(sum, address, 0);
    }

    /// Adds to the adjoints of an array's elements, given by index and contribution, one after the other. A vector is
    /// for elements side by side. A constant array has none: they begin at 0.
    pub(crate) fn add_to_elements(&mut self, start: Value, contributions: &[(Value, Value)]) {
        let constant = self.is_zero(start);
        let (add, done) = (self.b.create_block(), self.b.create_block());
        self.branch(constant, done, &[], add, &[]);
        self.enter(add);
        for &(index, contribution) in contributions {
            let (address, at) = self.element_at(start, index, 0);
            let ty = self.b.func.dfg.value_type(contribution);
            let flags = if ty == F64 { TRUSTED } else { UNALIGNED };
            let sum = self.b.ins().load(ty, flags, address, at);
            let sum = self.b.ins().fadd(sum, contribution);
            self.b.ins().store(flags, sum, address, at);
        }
        self.b.ins().jump(done, &[]);
        self.enter(done);
    }

    /// Truth values are integers in the virtual machine.
    pub(crate) fn truth(&mut self, condition: Value) -> Value {
        self.b.ins().uextend(I64, condition)
    }

    // Comparisons with 0 name their operand twice in machine code, so that it is loaded twice where it isn't in a
    // register. Those with 1 and -1 name it once.

    pub(crate) fn is_zero(&mut self, value: Value) -> Value {
        self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, value, 1)
    }

    pub(crate) fn is_nonzero(&mut self, value: Value) -> Value {
        self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, value, 1)
    }

    pub(crate) fn is_nonnegative(&mut self, value: Value) -> Value {
        self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, value, -1)
    }

    pub(crate) fn is_negative(&mut self, value: Value) -> Value {
        self.b.ins().icmp_imm_s(IntCC::SignedLessThanOrEqual, value, -1)
    }

    /// Goes to `then` if `condition` is not 0, and to `other` otherwise.
    pub(crate) fn branch(
        &mut self,
        condition: Value,
        then: Block,
        then_args: &[BlockArg],
        other: Block,
        other_args: &[BlockArg],
    ) {
        let dfg = &self.b.func.dfg;
        let opcode = dfg.value_def(condition).inst().map(|inst| dfg.insts[inst].opcode());
        // These are one with the branch.
        let compares = matches!(opcode, Some(Opcode::Icmp | Opcode::Fcmp | Opcode::Uextend | Opcode::Band));
        let condition = if compares { condition } else { self.is_nonzero(condition) };
        self.b.ins().brif(condition, then, then_args, other, other_args);
    }

    /// Goes to `then` if none of the conditions is 0, and to `other` otherwise. They are tested one by one: a branch
    /// that goes one way is cheaper than a value.
    pub(crate) fn branch_if_all(&mut self, conditions: &[Value], then: Block, other: Block) {
        for (n, &condition) in conditions.iter().enumerate() {
            let next = if n + 1 == conditions.len() { then } else { self.b.create_block() };
            self.branch(condition, next, &[], other, &[]);
            if next != then {
                self.enter(next);
            }
        }
    }

    /// Goes to `then` if none of the conditions is 0, and to `other` otherwise, by one branch: less code, for what
    /// is run rarely.
    pub(crate) fn branch_if_all_hold(&mut self, conditions: Vec<Value>, then: Block, other: Block) {
        let all = conditions.into_iter().reduce(|all, condition| self.b.ins().band(all, condition));
        match all {
            Some(all) => self.branch(all, then, &[], other, &[]),
            None => _ = self.b.ins().jump(then, &[]),
        }
    }

    /// What a value is the sum of, if it is one of another value and a number; else itself and 0.
    fn sum_of(&self, value: Value) -> (Value, i64) {
        let dfg = &self.b.func.dfg;
        let inst = dfg.value_def(value).inst();
        if let Some(InstructionData::Binary { opcode: Opcode::Iadd, args: [a, b] }) = inst.map(|inst| dfg.insts[inst])
            && let Some(more) = self.constant(b)
        {
            return (a, more);
        }
        (value, 0)
    }

    /// The sum of an integer and a number, modulo 2⁶⁴. That of a sum with a number is no sum of sums.
    pub(crate) fn plus(&mut self, value: Value, more: i64) -> Value {
        let (first, before) = self.sum_of(value);
        match before.wrapping_add(more) {
            0 => first,
            more => self.b.ins().iadd_imm_s(first, more),
        }
    }

    /// Where one of the numbers stands that begin so many words behind an address: address and offset. A number in the
    /// sum that is its index goes to the offset, so that those of several rounds are found from one register.
    pub(crate) fn element_at(&mut self, start: Value, index: Value, words: i64) -> (Value, i32) {
        let (index, offset) = match self.sum_of(index) {
            (first, more) if more.unsigned_abs() <= OFFSET_MAX => (first, 8 * (words + more)),
            _ => (index, 8 * words),
        };
        let bytes = self.b.ins().ishl_imm_u(index, 3);
        (self.b.ins().iadd(start, bytes), offset as i32)
    }

    fn import(&mut self, symbol: &str, signature: &Signature) -> FuncRef {
        // A failed import leaves any function in its place: the code is thrown away.
        let id = import(self.module, symbol, signature).unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            FuncId::from_u32(0)
        });
        self.module.declare_func_in_func(id, self.b.func)
    }

    /// The object in a cell that a record refers to.
    pub(crate) fn kept_object(&mut self, cell: Value) -> Value {
        let content = self.b.ins().load(I64, UNALIGNED, cell, 0);
        // Without the bit that says that there is none, only elements.
        let address = self.b.ins().ishl_imm_u(content, i64::from(64 - layout::NO_OBJECT));
        self.b.ins().ushr_imm_u(address, i64::from(64 - layout::NO_OBJECT))
    }

    /// How far from where they would stand behind its header the elements of an array of numbers are, in words. Nothing
    /// changes that part of word 0 once there is one.
    pub(crate) fn away(&mut self, array: Value) -> Value {
        let header = self.b.ins().load(I64, LASTING, array, 0);
        self.b.ins().sshr_imm_u(header, i64::from(layout::AWAY_SHIFT))
    }

    /// Where an array of numbers would have to begin for its elements to stand behind its header.
    pub(crate) fn base_of(&mut self, array: Value) -> Value {
        let away = self.away(array);
        let bytes = self.b.ins().ishl_imm_u(away, 3);
        self.b.ins().iadd(array, bytes)
    }

    /// An element of the array of reals or of integers at an address: of a real the primal. A vector is of two
    /// elements.
    pub(crate) fn kept_element(&mut self, ty: Type, object: Value, index: Value) -> Value {
        let (place, at) = self.element_at(object, index, layout::ARRAY_HEADER as i64);
        self.b.ins().load(ty, UNALIGNED, place, at)
    }

    /// Calls a helper; its result, if it has one.
    pub(crate) fn call(&mut self, helper: Helper, args: &[Value]) -> Option<Value> {
        let function = match self.helpers.get(&helper) {
            Some(&function) => function,
            None => {
                let info = helper.info();
                let conv = self.module.isa().default_call_conv();
                let function = self.import(info.symbol, &helper_signature(conv, &info));
                self.helpers.insert(helper, function);
                function
            }
        };
        let call = self.b.ins().call(function, args);
        self.b.inst_results(call).first().copied()
    }

    /// Calls a rare helper, whose first argument is the context; its result, which is nothing if it has none. The other
    /// arguments are handed over in memory: they would ask for the registers of arguments as long as they live, which
    /// may be a loop.
    pub(crate) fn call_cold(&mut self, helper: Helper, args: &[Value]) -> Value {
        let function = match self.stubs.get(&helper) {
            Some(&function) => function,
            None => {
                let info = helper.info();
                debug_assert!(info.rare);
                let function = self.import(&stub_symbol(&info), &stub_signature());
                self.stubs.insert(helper, function);
                function
            }
        };
        for (n, &arg) in args[1..].iter().enumerate() {
            self.store(arg, args[0], layout::OPERANDS + 8 * n as i32);
        }
        self.b.ins().call(function, &args[..1]);
        self.load(I64, args[0], layout::RESULT)
    }

    /// Asks whether a region's adjoint is to go on: a new budget, or 0 if it isn't.
    pub(crate) fn poll_region(&mut self, run: Value) -> Value {
        let function = match self.region_poll {
            Some(function) => function,
            None => {
                let function = self.import(REGION_POLL_STUB, &stub_signature());
                *self.region_poll.insert(function)
            }
        };
        self.b.ins().call(function, &[run]);
        self.load(I64, run, REGION_BUDGET)
    }

    /// Calls a helper that has a result.
    pub(crate) fn value_of(&mut self, helper: Helper, args: &[Value]) -> Value {
        self.call(helper, args).expect("the helper's declaration has a result")
    }

    /// Calls the function of a scalar instruction; `args` are as [`ScalarFn::address`] says.
    pub(crate) fn call_scalar(&mut self, op: Op, args: &[Value]) -> Value {
        let function = match self.scalars.get(&op) {
            Some(&function) => function,
            None => {
                let conv = self.module.isa().default_call_conv();
                let function = self.import(&scalar_symbol(op), &scalar_signature(conv, op));
                self.scalars.insert(op, function);
                function
            }
        };
        let call = self.b.ins().call(function, args);
        self.b.inst_results(call)[0]
    }

    /// The same for rare operands of what is written out else, one of [`RARELY_CALLED`]: no register has to be saved.
    pub(crate) fn call_scalar_rarely(&mut self, op: Op, args: &[Value]) -> Value {
        debug_assert!(RARELY_CALLED.contains(&op), "{op:?} has no stub");
        let function = match self.scalar_stubs.get(&op) {
            Some(&function) => function,
            None => {
                let function = self.import(&scalar_stub_symbol(op), &stub_signature());
                self.scalar_stubs.insert(op, function);
                function
            }
        };
        let slot = match self.scalar_slot {
            Some(slot) => slot,
            None => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, SCALAR_BYTES, 3);
                *self.scalar_slot.insert(self.b.create_sized_stack_slot(data))
            }
        };
        let place = self.b.ins().stack_addr(I64, slot, 0);
        for (n, &arg) in args.iter().enumerate() {
            self.store(arg, place, 8 * n as i32);
        }
        self.b.ins().call(function, &[place]);
        self.load(F64, place, 0)
    }
}
