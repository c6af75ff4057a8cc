//! The builder that frontends use to make modules.
//!
//! It packs instructions, allocates registers and resolves labels. It checks only what it needs for that; types,
//! assignment before use and everything else is the verifier's, so that a frontend gets one kind of message.

use crate::bytecode::isa::{Bank, Op, Operand, Reg, Role, for_each_instruction};
use crate::bytecode::module::{
    Body, DataDef, DataId, FuncId, Function, Import, InlinedCall, Interface, Location, ModuleDef, PackError, Place,
    SourceFile, Template, TypeDef, TypeId, ValueType, assign_registers,
};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

macro_rules! typed_register {
    ($(#[$doc:meta])* $name:ident, $bank:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name(pub u16);
        impl From<$name> for Reg {
            fn from(reg: $name) -> Reg {
                Reg { bank: Bank::$bank, index: reg.0 }
            }
        }
    };
}
typed_register!(
    /// A real register.
    RealReg, Real
);
typed_register!(
    /// An integer register.
    IntReg, Int
);
typed_register!(
    /// A reference register.
    RefReg, Ref
);

/// A place in a function that jumps can name before it is known. It is for the builder that made it: another one takes
/// it for its own label of the same number, or says [`BuildError::UnknownLabel`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Label(u32);

/// Why a function could not be finished.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// An instruction's operands don't match the table, or a list is too long.
    Pack(PackError),
    /// A bank has more than 65,536 registers.
    TooManyRegisters(Bank),
    /// A label that a jump names was never bound.
    UnboundLabel,
    /// A jump names a label that this builder has not made, or one is bound.
    UnknownLabel,
    /// A label was bound to a second place.
    LabelBoundTwice,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Pack(error) => error.fmt(f),
            BuildError::TooManyRegisters(bank) => write!(f, "more than 65536 {bank:?} registers in one function"),
            BuildError::UnboundLabel => write!(f, "a jump names a label that was never bound"),
            BuildError::UnknownLabel => write!(f, "a label is used that this builder has not made"),
            BuildError::LabelBoundTwice => write!(f, "a label is bound to two places"),
        }
    }
}

impl std::error::Error for BuildError {}

impl From<PackError> for BuildError {
    fn from(error: PackError) -> Self {
        BuildError::Pack(error)
    }
}

/// Collects types, strings and functions into a [`ModuleDef`].
///
/// ```
/// use dualvm_vm::builder::{FunctionBuilder, ModuleBuilder};
/// use dualvm_vm::module::ValueType::Real;
///
/// let mut module = ModuleBuilder::new();
/// let mut f = FunctionBuilder::new("hypotenuse_squared", &[Real, Real], &[Real]);
/// let (x, y) = (f.real_param(0), f.real_param(1));
/// let (xx, yy) = (f.mul(x, x), f.mul(y, y));
/// let sum = f.add(xx, yy);
/// f.ret(&[sum.into()]);
/// module.define(f.finish()?);
/// assert_eq!(module.finish().functions.len(), 1);
/// # Ok::<(), dualvm_vm::builder::BuildError>(())
/// ```
#[derive(Default, Debug)]
pub struct ModuleBuilder {
    module: ModuleDef,
    types: HashMap<TypeDef, TypeId>,
    messages: HashMap<String, u32>,
    templates: HashMap<Template, u32>,
}

impl ModuleBuilder {
    /// An empty module.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source file, to which places refer by the number that this gives. Places without one are in the first.
    pub fn source_file(&mut self, source: SourceFile) -> u32 {
        let sources = &mut self.module.debug.sources;
        sources.push(source);
        sources.len() as u32 - 1
    }

    /// Names the source file of a module that was made from one.
    pub fn source(&mut self, name: impl Into<String>) {
        self.source_file(SourceFile { name: name.into(), is_library: false, digest: None });
    }

    /// Adds a call in whose place code of the function that it calls stands, and gives its number; `within` is the
    /// number of the call in whose place this one stands.
    pub fn inlined_call(&mut self, callee: Arc<str>, place: Place, within: Option<u32>) -> u32 {
        let calls = &mut self.module.debug.calls;
        calls.push(InlinedCall { callee, place, within });
        calls.len() as u32 - 1
    }

    /// The type with this definition: equal definitions give the same type.
    pub fn intern_type(&mut self, def: TypeDef) -> TypeId {
        if let Some(&id) = self.types.get(&def) {
            return id;
        }
        let id = self.declare_type(def.clone());
        self.types.insert(def, id);
        id
    }

    /// A new type, different from all others. A type that refers to itself is declared with a placeholder first and set
    /// with [`ModuleBuilder::set_type`].
    pub fn declare_type(&mut self, def: TypeDef) -> TypeId {
        self.module.types.push(def);
        TypeId(self.module.types.len() as u32 - 1)
    }

    /// The definition of a type so far.
    pub fn type_def(&self, id: TypeId) -> &TypeDef {
        &self.module.types[id.0 as usize]
    }

    /// Replaces a type's definition. [`ModuleBuilder::intern_type`] no longer gives this type for the definition that
    /// it had, nor for the new one.
    ///
    /// # Panics
    /// If the module has no such type.
    pub fn set_type(&mut self, id: TypeId, def: TypeDef) {
        let before = std::mem::replace(&mut self.module.types[id.index()], def);
        if self.types.get(&before) == Some(&id) {
            self.types.remove(&before);
        }
    }

    /// A new data type for interfaces. One that refers to itself is declared without constructors first and set with
    /// [`ModuleBuilder::set_data`].
    pub fn declare_data(&mut self, def: DataDef) -> DataId {
        self.module.data.push(def);
        DataId(self.module.data.len() as u32 - 1)
    }

    /// Replaces a declared data type's definition.
    pub fn set_data(&mut self, id: DataId, def: DataDef) {
        self.module.data[id.index()] = def;
    }

    /// The number of a string.
    pub fn message(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.messages.get(text) {
            return id;
        }
        let id = self.module.messages.len() as u32;
        self.module.messages.push(text.to_owned());
        self.messages.insert(text.to_owned(), id);
        id
    }

    /// The number of a text with values, for [`FunctionBuilder::trap_with`] and [`FunctionBuilder::trace`].
    pub fn template(&mut self, template: Template) -> u32 {
        if let Some(&id) = self.templates.get(&template) {
            return id;
        }
        let id = self.module.templates.len() as u32;
        self.module.templates.push(template.clone());
        self.templates.insert(template, id);
        id
    }

    /// The number of a function that the module imports, for [`FunctionBuilder::call_import`].
    pub fn import(&mut self, import: Import) -> u32 {
        self.module.imports.push(import);
        self.module.imports.len() as u32 - 1
    }

    /// Says which function, a private one, is the traced twin of an exported one: [`ModuleDef::traced`].
    pub fn traced_twin(&mut self, function: FuncId, twin: FuncId) {
        let traced = &mut self.module.traced;
        let at = traced.partition_point(|&(other, _)| other < function);
        traced.insert(at, (function, twin));
    }

    /// Reserves a function's number, so that others can call it before it is defined with
    /// [`ModuleBuilder::set_function`].
    pub fn declare(&mut self, name: &str, params: &[ValueType], results: &[ValueType]) -> FuncId {
        self.define(Function {
            name: name.to_owned(),
            params: params.to_vec(),
            results: results.to_vec(),
            interface: None,
            body: Body::default(),
        })
    }

    /// Adds a function.
    pub fn define(&mut self, function: Function) -> FuncId {
        self.module.functions.push(function);
        FuncId(self.module.functions.len() as u32 - 1)
    }

    /// Defines a declared function.
    pub fn set_function(&mut self, id: FuncId, function: Function) {
        self.module.functions[id.index()] = function;
    }

    /// The finished module.
    pub fn finish(self) -> ModuleDef {
        self.module
    }
}

/// Builds one function.
#[derive(Debug)]
pub struct FunctionBuilder {
    function: Function,
    params: Vec<Reg>,
    counts: [u32; 3],
    labels: Vec<Option<u32>>,
    location: Option<(Place, Option<u32>)>,
    error: Option<BuildError>,
}

impl FunctionBuilder {
    /// A function without code. Its parameters take the first registers of each bank.
    pub fn new(name: &str, params: &[ValueType], results: &[ValueType]) -> Self {
        let regs = assign_registers(params);
        let mut counts = [0; 3];
        let mut refs = Vec::new();
        for ty in params {
            counts[ty.bank() as usize] += 1;
            if let ValueType::Ref(id) = ty {
                refs.push(*id);
            }
        }
        FunctionBuilder {
            function: Function {
                name: name.to_owned(),
                params: params.to_vec(),
                results: results.to_vec(),
                interface: None,
                body: Body { refs, ..Body::default() },
            },
            params: regs,
            counts,
            labels: Vec::new(),
            location: None,
            error: None,
        }
    }

    /// Lets hosts call the function, with these names and types.
    pub fn export(&mut self, interface: Interface) {
        self.function.interface = Some(interface);
    }

    /// The register of the n-th parameter.
    ///
    /// # Panics
    /// If there is no such parameter.
    pub fn param(&self, n: usize) -> Reg {
        self.params[n]
    }

    /// The register of the n-th parameter, a real.
    ///
    /// # Panics
    /// If there is no such parameter, or it is not a real.
    pub fn real_param(&self, n: usize) -> RealReg {
        assert_eq!(self.params[n].bank, Bank::Real, "parameter {n} is not a real");
        RealReg(self.params[n].index)
    }

    /// The register of the n-th parameter, an integer.
    ///
    /// # Panics
    /// If there is no such parameter, or it is not an integer.
    pub fn int_param(&self, n: usize) -> IntReg {
        assert_eq!(self.params[n].bank, Bank::Int, "parameter {n} is not an integer");
        IntReg(self.params[n].index)
    }

    /// The register of the n-th parameter, a reference.
    ///
    /// # Panics
    /// If there is no such parameter, or it is not a reference.
    pub fn ref_param(&self, n: usize) -> RefReg {
        assert_eq!(self.params[n].bank, Bank::Ref, "parameter {n} is not a reference");
        RefReg(self.params[n].index)
    }

    /// A new real register.
    pub fn new_real(&mut self) -> RealReg {
        RealReg(self.allocate(Bank::Real))
    }

    /// A new integer register.
    pub fn new_int(&mut self) -> IntReg {
        IntReg(self.allocate(Bank::Int))
    }

    /// A new reference register for objects of a type.
    pub fn new_ref(&mut self, ty: TypeId) -> RefReg {
        self.function.body.refs.push(ty);
        RefReg(self.allocate(Bank::Ref))
    }

    /// A new register for values of a type.
    pub fn new_reg(&mut self, ty: ValueType) -> Reg {
        match ty {
            ValueType::Real => self.new_real().into(),
            ValueType::Int => self.new_int().into(),
            ValueType::Ref(id) => self.new_ref(id).into(),
        }
    }

    fn allocate(&mut self, bank: Bank) -> u16 {
        let count = &mut self.counts[bank as usize];
        let index = *count;
        *count += 1;
        u16::try_from(index).unwrap_or_else(|_| {
            self.error.get_or_insert(BuildError::TooManyRegisters(bank));
            0
        })
    }

    /// The place of the instructions that follow, in the module's first source; line and column count from 1.
    pub fn at(&mut self, line: u32, column: u32) {
        self.at_place(Place { source: 0, line, column }, None);
    }

    /// The place of the instructions that follow, in any source, and the call in whose place they stand:
    /// [`ModuleBuilder::inlined_call`].
    pub fn at_place(&mut self, place: Place, call: Option<u32>) {
        self.location = Some((place, call));
    }

    /// The number of the next instruction.
    pub fn position(&self) -> u32 {
        self.function.body.code.len() as u32
    }

    /// Appends an instruction. An [`Operand::Target`] is the number of a label here, counted from 0 in the order in
    /// which [`FunctionBuilder::new_label`] made them, and becomes that of an instruction in
    /// [`FunctionBuilder::finish`].
    pub fn emit(&mut self, op: Op, operands: &[Operand]) {
        let inst = self.position();
        let last = self.function.body.locations.last().map(|last| (last.place, last.call));
        if let Some((place, call)) = self.location.filter(|&here| last != Some(here)) {
            self.function.body.locations.push(Location { inst, place, call });
        }
        if let Err(error) = self.function.body.push(op, operands) {
            self.error.get_or_insert(error.into());
        }
    }

    /// Appends a scalar instruction, or any other whose operands are registers only: the first is the result.
    pub fn emit_regs(&mut self, op: Op, regs: &[Reg]) {
        let operands: Vec<Operand> = op
            .info()
            .operands
            .iter()
            .zip(regs)
            .map(|(info, &reg)| if matches!(info.role, Role::Def(_)) { Operand::Def(reg) } else { Operand::Use(reg) })
            .collect();
        self.emit(op, &operands);
    }

    /// A label that is not bound yet.
    pub fn new_label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Binds a label to the next instruction, once.
    pub fn bind(&mut self, label: Label) {
        let here = self.position();
        let error = match self.labels.get_mut(label.0 as usize) {
            Some(place @ None) => {
                *place = Some(here);
                return;
            }
            Some(Some(_)) => BuildError::LabelBoundTwice,
            None => BuildError::UnknownLabel,
        };
        self.error.get_or_insert(error);
    }

    /// A real constant in a new register.
    pub fn real_const(&mut self, value: f64) -> RealReg {
        let dst = self.new_real();
        self.emit(Op::Const, &[Operand::Def(dst.into()), Operand::Real(value)]);
        dst
    }

    /// An integer constant in a new register.
    pub fn int_const(&mut self, value: i64) -> IntReg {
        let dst = self.new_int();
        self.emit(Op::IConst, &[Operand::Def(dst.into()), Operand::Int(value)]);
        dst
    }

    /// Copies `src` to `dst`, registers of one bank.
    pub fn mov(&mut self, dst: impl Into<Reg>, src: impl Into<Reg>) {
        let (dst, src) = (dst.into(), src.into());
        let op = match dst.bank {
            Bank::Real => Op::Mov,
            Bank::Int => Op::IMov,
            Bank::Ref => Op::PMov,
        };
        self.emit(op, &[Operand::Def(dst), Operand::Use(src)]);
    }

    /// Continues at a label.
    pub fn jump(&mut self, target: Label) {
        self.emit(Op::Jump, &[Operand::Target(target.0)]);
    }

    /// Continues at `then` if `cond` is not zero, else at `other`.
    pub fn branch(&mut self, cond: IntReg, then: Label, other: Label) {
        self.emit(Op::Branch, &[Operand::Use(cond.into()), Operand::Target(then.0), Operand::Target(other.0)]);
    }

    /// Continues at `targets[index]`, or at `default` if there is no such target.
    pub fn switch(&mut self, index: IntReg, targets: &[Label], default: Label) {
        let targets = targets.iter().map(|label| label.0).collect();
        self.emit(Op::Switch, &[Operand::Use(index.into()), Operand::Targets(targets), Operand::Target(default.0)]);
    }

    /// Calls a function; `results` are the registers that take its results.
    pub fn call(&mut self, func: FuncId, args: &[Reg], results: &[Reg]) {
        self.emit(Op::Call, &[Operand::Func(func.0), Operand::Uses(args.to_vec()), Operand::Defs(results.to_vec())]);
    }

    /// Calls functions as tasks that may run at the same time: a function, its arguments and the registers for its
    /// results for each, 1 to 256 of them. All arguments are read before any task begins; no task can take what another
    /// one of the same fork returns, and each result has a register of its own.
    ///
    /// ```
    /// use dualvm_vm::builder::{FunctionBuilder, ModuleBuilder};
    /// use dualvm_vm::engine::{Engine, Module};
    /// use dualvm_vm::module::{HostType, Interface, ValueType::Real};
    /// use dualvm_vm::value::Value;
    ///
    /// let mut module = ModuleBuilder::new();
    /// let mut square = FunctionBuilder::new("square", &[Real], &[Real]);
    /// let x = square.real_param(0);
    /// let xx = square.mul(x, x);
    /// square.ret(&[xx.into()]);
    /// let square = module.define(square.finish()?);
    ///
    /// let mut f = FunctionBuilder::new("squares", &[Real, Real], &[Real]);
    /// let (x, y) = (f.param(0), f.param(1));
    /// let (xx, yy) = (f.new_real(), f.new_real());
    /// f.fork(&[(square, &[x], &[xx.into()]), (square, &[y], &[yy.into()])]);
    /// let sum = f.add(xx, yy);
    /// f.ret(&[sum.into()]);
    /// let params = vec![("x".to_owned(), HostType::Real), ("y".to_owned(), HostType::Real)];
    /// f.export(Interface { params, result: HostType::Real });
    /// module.define(f.finish()?);
    ///
    /// let module = Module::new(&Engine::default(), module.finish()).expect("the verifier accepts it");
    /// let squares = module.function("squares").expect("it is exported");
    /// let (sum, gradient) = squares.value_and_grad(&[Value::Real(3.0), Value::Real(4.0)])?;
    /// assert_eq!((sum, gradient), (25.0, vec![Value::Real(6.0), Value::Real(8.0)]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fork(&mut self, tasks: &[(FuncId, &[Reg], &[Reg])]) {
        self.emit(Op::Fork, &[Operand::Int(tasks.len() as i64)]);
        for (func, args, results) in tasks {
            let (args, results) = (Operand::Uses(args.to_vec()), Operand::Defs(results.to_vec()));
            self.emit(Op::Task, &[Operand::Func(func.0), args, results]);
        }
    }

    /// Builds an array of `dst`'s type in parallel. The function is called once for each of at most 256 ranges of
    /// the numbers from 0 below `count`: it takes the range's start, its end (which is not part of it) and then `args`,
    /// and returns an array; what the calls return stands in `dst` one after the other.
    ///
    /// ```
    /// use dualvm_vm::builder::{FunctionBuilder, ModuleBuilder};
    /// use dualvm_vm::engine::{Engine, Module};
    /// use dualvm_vm::isa::Op;
    /// use dualvm_vm::module::ValueType::{Int, Real, Ref};
    /// use dualvm_vm::module::{HostType, Interface, TypeDef};
    /// use dualvm_vm::value::Value;
    ///
    /// let mut module = ModuleBuilder::new();
    /// let array = module.intern_type(TypeDef::Array(Real));
    /// let builder = module.intern_type(TypeDef::Builder(Real));
    ///
    /// // The multiples of `step` by the numbers from `low` below `high`.
    /// let mut range = FunctionBuilder::new("range", &[Int, Int, Real], &[Ref(array)]);
    /// let (low, high, step) = (range.int_param(0), range.int_param(1), range.real_param(2));
    /// let (out, one) = (range.new_ref(builder), range.int_const(1));
    /// // No range is empty.
    /// let len = range.isub(high, low);
    /// range.emit_regs(Op::Build, &[out.into(), len.into()]);
    /// let (next, end) = (range.new_label(), range.new_label());
    /// range.bind(next);
    /// let x = range.to_real(low);
    /// let x = range.mul(x, step);
    /// range.emit_regs(Op::Push, &[out.into(), x.into()]);
    /// range.emit_regs(Op::IAdd, &[low.into(), low.into(), one.into()]);
    /// let more = range.ilt(low, high);
    /// range.branch(more, next, end);
    /// range.bind(end);
    /// let done = range.new_ref(array);
    /// range.emit_regs(Op::Finish, &[done.into(), out.into()]);
    /// range.ret(&[done.into()]);
    /// let range = module.define(range.finish()?);
    ///
    /// let mut f = FunctionBuilder::new("multiples", &[Int, Real], &[Ref(array)]);
    /// let dst = f.new_ref(array);
    /// f.pmap(dst, range, f.int_param(0), &[f.param(1)]);
    /// f.ret(&[dst.into()]);
    /// let params = vec![("count".to_owned(), HostType::Int), ("step".to_owned(), HostType::Real)];
    /// f.export(Interface { params, result: HostType::Array { element: Box::new(HostType::Real), array } });
    /// module.define(f.finish()?);
    ///
    /// let module = Module::new(&Engine::default(), module.finish()).expect("the verifier accepts it");
    /// let multiples = module.function("multiples").expect("it is exported");
    /// let found = multiples.call(&[Value::Int(4), Value::Real(0.5)])?;
    /// assert_eq!(found, Value::Reals(vec![0.0, 0.5, 1.0, 1.5]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pmap(&mut self, dst: RefReg, func: FuncId, count: IntReg, args: &[Reg]) {
        let args = Operand::Uses(args.to_vec());
        self.emit(
            Op::ParallelMap,
            &[Operand::Def(dst.into()), Operand::Func(func.0), Operand::Use(count.into()), args],
        );
    }

    /// Takes the forward derivative of a call: `args` are those of the call, the first `captures` of which count as
    /// constants, and then a tangent for each other one that is a real or a reference; `results` are the registers for
    /// the call's results, and then for a tangent of each that is a real or a reference.
    pub fn jvp(&mut self, func: FuncId, captures: u16, args: &[Reg], results: &[Reg]) {
        self.operator(Op::Jvp, func, captures, args, results);
    }

    /// Takes the reverse derivative of a call: `args` are those of the call, the first `captures` of which count as
    /// constants, and then a cotangent for each result that is a real or a reference; `results` are the registers for
    /// the call's results, and then for a cotangent of each argument but the captures that is a real or a reference.
    pub fn vjp(&mut self, func: FuncId, captures: u16, args: &[Reg], results: &[Reg]) {
        self.operator(Op::Vjp, func, captures, args, results);
    }

    /// Calls a function without recording what it does. Where derivatives are computed, the call runs again.
    pub fn checkpoint(&mut self, func: FuncId, args: &[Reg], results: &[Reg]) {
        let (args, results) = (Operand::Uses(args.to_vec()), Operand::Defs(results.to_vec()));
        self.emit(Op::Checkpoint, &[Operand::Func(func.0), args, results]);
    }

    /// Calls a function for its value alone, a constant for all derivatives.
    pub fn primal(&mut self, func: FuncId, captures: u16, args: &[Reg], results: &[Reg]) {
        self.operator(Op::Primal, func, captures, args, results);
    }

    /// The results of a function without parameters, which runs once in a call of the host's: constants for all
    /// derivatives. It may not lead back to this function.
    pub fn once(&mut self, func: FuncId, results: &[Reg]) {
        self.emit(Op::Once, &[Operand::Func(func.0), Operand::Defs(results.to_vec())]);
    }

    /// Gives a value a derivative: `args` are `captures` of the function, then what the value was computed of, then the
    /// value; `results` are registers for the value. The function takes the captures, the arguments and a cotangent for
    /// each register of the value that is a real or a reference, and gives a cotangent for each such argument.
    pub fn custom_vjp(&mut self, func: FuncId, captures: u16, args: &[Reg], results: &[Reg]) {
        self.operator(Op::CustomVjp, func, captures, args, results);
    }

    /// Gives a value a derivative: as [`FunctionBuilder::custom_vjp`], but the function takes a tangent for each
    /// argument that is a real or a reference, and gives a tangent for each such register of the value.
    pub fn custom_jvp(&mut self, func: FuncId, captures: u16, args: &[Reg], results: &[Reg]) {
        self.operator(Op::CustomJvp, func, captures, args, results);
    }

    /// Calls a function that the module imports, a number from [`ModuleBuilder::import`].
    pub fn call_import(&mut self, import: u32, args: &[Reg], results: &[Reg]) {
        let (args, results) = (Operand::Uses(args.to_vec()), Operand::Defs(results.to_vec()));
        self.emit(Op::CallImport, &[Operand::Import(import), args, results]);
    }

    fn operator(&mut self, op: Op, func: FuncId, captures: u16, args: &[Reg], results: &[Reg]) {
        let (args, results) = (Operand::Uses(args.to_vec()), Operand::Defs(results.to_vec()));
        self.emit(op, &[Operand::Func(func.0), Operand::Count(captures), args, results]);
    }

    /// Calls a function and returns its results.
    pub fn tail_call(&mut self, func: FuncId, args: &[Reg]) {
        self.emit(Op::TailCall, &[Operand::Func(func.0), Operand::Uses(args.to_vec())]);
    }

    /// Returns.
    pub fn ret(&mut self, results: &[Reg]) {
        self.emit(Op::Ret, &[Operand::Uses(results.to_vec())]);
    }

    /// Stops the program with a message, a number from [`ModuleBuilder::message`].
    pub fn trap(&mut self, message: u32) {
        self.emit(Op::Trap, &[Operand::Message(message)]);
    }

    /// Stops the program with a text, a number from [`ModuleBuilder::template`], and values of these registers.
    pub fn trap_with(&mut self, template: u32, values: &[Reg]) {
        self.emit(Op::TrapWith, &[Operand::Template(template), Operand::Uses(values.to_vec())]);
    }

    /// Shows the host a text, a number from [`ModuleBuilder::template`], and values of these registers, if it wants to
    /// know.
    pub fn trace(&mut self, template: u32, values: &[Reg]) {
        self.emit(Op::Trace, &[Operand::Template(template), Operand::Uses(values.to_vec())]);
    }

    /// The finished function, labels resolved.
    ///
    /// # Errors
    /// The first [`BuildError`] met.
    pub fn finish(mut self) -> Result<Function, BuildError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        for bank in [Bank::Real, Bank::Int, Bank::Ref] {
            if self.counts[bank as usize] > 1 << 16 {
                return Err(BuildError::TooManyRegisters(bank));
            }
        }
        let labels = self.labels;
        let resolve = |label: u32| match labels.get(label as usize) {
            Some(place) => place.ok_or(BuildError::UnboundLabel),
            None => Err(BuildError::UnknownLabel),
        };
        let body = &mut self.function.body;
        for target in &mut body.targets {
            *target = resolve(*target)?;
        }
        for inst in &mut body.code {
            let (mut low, mut high) = (inst.low(), inst.high());
            match inst.op {
                Op::Jump => low = resolve(low)?,
                Op::Branch => (low, high) = (resolve(low)?, resolve(high)?),
                Op::Switch => high = resolve(high)?,
                op => {
                    debug_assert!(!op.has_targets(), "{op:?} has labels to be resolved");
                    continue;
                }
            }
            inst.imm = u64::from(low) | u64::from(high) << 32;
        }
        body.reals = self.counts[Bank::Real as usize];
        body.ints = self.counts[Bank::Int as usize];
        Ok(self.function)
    }
}

/// The typed register of a scalar operand's bank.
macro_rules! register {
    (real) => {
        RealReg
    };
    (int) => {
        IntReg
    };
}
macro_rules! fresh {
    ($builder:ident, real) => {
        $builder.new_real()
    };
    ($builder:ident, int) => {
        $builder.new_int()
    };
}
macro_rules! define_scalar_methods {
    (
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            ($($arg:ident : $bank:ident),+) -> $rbank:ident $($try:ident)? $body:block
            $(diff |$r:ident| [$($partial:expr),+])? $(passive)? $(@ $mark:ident)* ; )* }
        structural $structural:tt
    ) => {
        /// One method per scalar instruction: the result goes to a new register.
        impl FunctionBuilder {
            $(
                $(#[doc = $sdoc])+
                pub fn $smnem(&mut self, $($arg: register!($bank)),+) -> register!($rbank) {
                    let dst = fresh!(self, $rbank);
                    self.emit_regs(Op::$sname, &[dst.into(), $($arg.into()),+]);
                    dst
                }
            )*
        }
    };
}
for_each_instruction!(define_scalar_methods);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::bytecode::module::ValueType::Real;

    fn built(build: impl FnOnce(&mut FunctionBuilder)) -> Result<Function, BuildError> {
        let mut f = FunctionBuilder::new("f", &[], &[]);
        build(&mut f);
        f.finish()
    }

    #[test]
    fn labels_are_bound_once_and_by_their_builder() {
        let good = built(|f| {
            let end = f.new_label();
            f.emit(Op::Jump, &[Operand::Target(0)]);
            f.bind(end);
            f.ret(&[]);
        });
        assert_eq!(good.expect("the label is number 0").body.code[0].low(), 1);
        let unknown = |build: &dyn Fn(&mut FunctionBuilder)| {
            assert_eq!(built(|f| build(f)), Err(BuildError::UnknownLabel));
        };
        unknown(&|f| f.emit(Op::Jump, &[Operand::Target(0)]));
        let index = |f: &mut FunctionBuilder| f.int_const(0);
        unknown(&|f| {
            let (index, label) = (index(f), f.new_label());
            f.bind(label);
            f.emit(Op::Branch, &[Operand::Use(index.into()), Operand::Target(0), Operand::Target(u32::MAX)]);
        });
        let foreign = Label(7);
        unknown(&|f| f.jump(foreign));
        unknown(&|f| f.bind(foreign));
        unknown(&|f| {
            let (index, label) = (index(f), f.new_label());
            f.bind(label);
            f.switch(index, &[label, foreign], label);
        });
        let twice = built(|f| {
            let label = f.new_label();
            f.bind(label);
            f.jump(label);
            f.bind(label);
        });
        assert_eq!(twice, Err(BuildError::LabelBoundTwice));
        let never = built(|f| {
            let label = f.new_label();
            f.jump(label);
        });
        assert_eq!(never, Err(BuildError::UnboundLabel));
    }

    #[test]
    fn a_type_that_was_replaced_is_not_given_for_what_it_was() {
        let mut module = ModuleBuilder::new();
        let reals = TypeDef::Array(Real);
        let first = module.intern_type(reals.clone());
        module.set_type(first, TypeDef::Array(ValueType::Int));
        let second = module.intern_type(reals.clone());
        assert_ne!(first, second);
        assert_eq!(module.intern_type(reals.clone()), second);
        assert_eq!(module.type_def(second), &reals);
        // One that was never given for its definition leaves the one that is.
        let declared = module.declare_type(reals.clone());
        module.set_type(declared, TypeDef::Array(ValueType::Int));
        assert_eq!(module.intern_type(reals), second);
    }
}
