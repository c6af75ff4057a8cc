//! What a program is before it is verified: types, functions, strings, and how instructions are packed.
//!
//! A [`ModuleDef`] is plain data that anyone may build, decode, print or change. Nothing runs it: the verifier turns
//! it into a [`crate::engine::Module`]. This file knows nothing of the text and binary forms.

mod debug;
mod host_type;
mod template;

pub use debug::{DebugInfo, InlinedCall, Place, SourceFile, SourcePlace};
pub use host_type::HostType;
pub use template::{Piece, Template};

use crate::bytecode::isa::{Bank, Inst, Op, Operand, Reg, Role};
use std::fmt;
use std::ops::Range;

macro_rules! index_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(pub u32);
        impl $name {
            /// The position in the module's table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
index_type!(
    /// A heap type: an index into [`ModuleDef::types`].
    TypeId
);
index_type!(
    /// A function: an index into [`ModuleDef::functions`].
    FuncId
);
index_type!(
    /// A data type of the host's view: an index into [`ModuleDef::data`].
    DataId
);

/// The type of a register, a field or an element.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ValueType {
    /// A dual real.
    Real,
    /// A 64-bit integer.
    Int,
    /// A reference to an object of a heap type. Types are nominal: two entries of the table are two types.
    Ref(TypeId),
}

impl ValueType {
    /// The register bank of values of this type.
    pub const fn bank(self) -> Bank {
        match self {
            ValueType::Real => Bank::Real,
            ValueType::Int => Bank::Int,
            ValueType::Ref(_) => Bank::Ref,
        }
    }
}

/// One alternative of a tagged variant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VariantDef {
    /// The name, for people and for the host.
    pub name: String,
    /// The payload's fields.
    pub fields: Vec<ValueType>,
}

/// A heap type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TypeDef {
    /// A fixed sequence of fields.
    Struct(Vec<ValueType>),
    /// A struct whose integers belong to its shape, as the length of an array does: a tangent or cotangent of such an
    /// object has the same ones.
    Shaped(Vec<ValueType>),
    /// One of several alternatives; the tag is the position in the list.
    Variant(Vec<VariantDef>),
    /// An immutable array.
    Array(ValueType),
    /// An array under construction. Lives in registers, parameters and results only, never in another object: this is
    /// what keeps the heap acyclic.
    Builder(ValueType),
    /// A chain of objects of a variant type under construction: each is the last field of the one before. Lives where
    /// array builders do.
    Chain(TypeId),
    /// A function value: code and captures. The captures are the closure's own business.
    Closure {
        /// Parameter types, without the captures.
        params: Vec<ValueType>,
        /// Result types.
        results: Vec<ValueType>,
    },
}

impl TypeDef {
    /// All types that the definition names.
    pub(crate) fn parts(&self) -> Box<dyn Iterator<Item = ValueType> + '_> {
        match self {
            TypeDef::Struct(fields) | TypeDef::Shaped(fields) => Box::new(fields.iter().copied()),
            TypeDef::Variant(variants) => Box::new(variants.iter().flat_map(|variant| variant.fields.iter().copied())),
            TypeDef::Array(element) | TypeDef::Builder(element) => Box::new(std::iter::once(*element)),
            TypeDef::Chain(variant) => Box::new(std::iter::once(ValueType::Ref(*variant))),
            TypeDef::Closure { params, results } => Box::new(params.iter().chain(results).copied()),
        }
    }
}

/// A data type as the host sees it: named constructors over a variant type of the heap.
///
/// Constructors and variants correspond by position. A type with parameters has one entry for each use with other
/// arguments, as `Tree Real` and `Tree Int`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DataDef {
    /// The type's name as people write it, for example `Tree Real`.
    pub name: String,
    /// The heap type, a variant.
    pub ty: TypeId,
    /// The constructors: name and payload. A payload is a [`HostType::Tuple`], empty for a constant, or a
    /// [`HostType::Record`], and flattens to the variant's fields.
    pub variants: Vec<(String, HostType)>,
}

/// How a host calls an exported function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Name and type of each parameter. Flattened one after the other they are the function's parameters.
    pub params: Vec<(String, HostType)>,
    /// The result. Flattened it is the function's results.
    pub result: HostType,
}

/// A function that somebody else has, who links the module: the host, or another module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// What it goes by there.
    pub name: String,
    /// What it takes and gives. Flattened, that is what [`Op::CallImport`] reads and writes.
    pub interface: Interface,
}

impl Interface {
    /// What the parameters flatten to, and the result.
    pub(crate) fn flatten(&self, data: &[DataDef]) -> [Vec<ValueType>; 2] {
        let params = self.params.iter().flat_map(|(_, ty)| ty.flatten(data)).collect();
        [params, self.result.flatten(data)]
    }
}

/// `(x : Real, n : Int) -> Real`.
impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(")?;
        for (n, (name, ty)) in self.params.iter().enumerate() {
            write!(f, "{}{name} : {ty}", if n == 0 { "" } else { ", " })?;
        }
        write!(f, ") -> {}", self.result)
    }
}

/// Where instructions come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// The first instruction that comes from this place; the next entry says where it ends.
    pub inst: u32,
    /// The place.
    pub place: Place,
    /// The call in whose place this code stands, by its number among [`DebugInfo::calls`]; `None` if it is the
    /// function's own.
    pub call: Option<u32>,
}

/// A function.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// The name, unique in the module.
    pub name: String,
    /// Parameter types. The n-th real parameter arrives in `r{n}`, the n-th integer in `i{n}`, the n-th reference in
    /// `p{n}`.
    pub params: Vec<ValueType>,
    /// Result types.
    pub results: Vec<ValueType>,
    /// How a host calls the function; `None` keeps it private.
    pub interface: Option<Interface>,
    /// The code.
    pub body: Body,
}

impl Function {
    /// The registers that the parameters arrive in, in order.
    pub fn param_regs(&self) -> Vec<Reg> {
        assign_registers(&self.params)
    }
}

/// Numbers registers of each bank in order of appearance.
pub(crate) fn assign_registers(types: &[ValueType]) -> Vec<Reg> {
    let mut next = [0u16; 3];
    types
        .iter()
        .map(|ty| {
            let bank = ty.bank();
            let index = next[bank as usize];
            next[bank as usize] = index.saturating_add(1);
            Reg { bank, index }
        })
        .collect()
}

/// A function's registers, instructions and the pools that variable-length operands live in.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Body {
    /// How many real registers there are, parameters included.
    pub reals: u32,
    /// How many integer registers there are.
    pub ints: u32,
    /// The type of each reference register.
    pub refs: Vec<TypeId>,
    /// The instructions. Execution starts at the first.
    pub code: Vec<Inst>,
    /// Register lists.
    pub regs: Vec<Reg>,
    /// Target lists.
    pub targets: Vec<u32>,
    /// Where instructions come from, sorted by instruction.
    pub locations: Vec<Location>,
}

/// Why an instruction could not be packed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PackError {
    /// The operands don't match the table.
    Operands {
        /// The instruction.
        op: Op,
        /// The position of the first operand that doesn't fit.
        index: usize,
    },
    /// A list or a pool is too long to be encoded.
    TooLong,
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackError::Operands { op, index } => {
                let info = op.info();
                match info.operands.get(*index) {
                    Some(operand) => {
                        write!(
                            f,
                            "`{}` expects {:?} as operand {} ({})",
                            info.mnemonic, operand.role, index, operand.name
                        )
                    }
                    None => write!(f, "`{}` has {} operands", info.mnemonic, info.operands.len()),
                }
            }
            PackError::TooLong => write!(f, "an operand list is too long"),
        }
    }
}

impl std::error::Error for PackError {}

/// The cursor over an instruction's packed fields; packing and unpacking both walk it.
#[derive(Clone, Copy, Default)]
struct Fields {
    narrow: usize,
    half: usize,
    pool: Option<u32>,
}

impl Body {
    /// Appends an instruction.
    ///
    /// # Errors
    /// If the operands don't have the roles that the table declares, or a list has more than 65,535 entries.
    pub fn push(&mut self, op: Op, operands: &[Operand]) -> Result<u32, PackError> {
        let at = u32::try_from(self.code.len()).map_err(|_| PackError::TooLong)?;
        let inst = self.pack(op, operands)?;
        self.code.push(inst);
        Ok(at)
    }

    /// Packs an instruction without appending it. Lists go to the end of the pools.
    ///
    /// # Errors
    /// As [`Body::push`].
    pub fn pack(&mut self, op: Op, operands: &[Operand]) -> Result<Inst, PackError> {
        let roles = op.info().operands;
        if roles.len() != operands.len() {
            return Err(PackError::Operands { op, index: roles.len().min(operands.len()) });
        }
        let mut inst = Inst { op, a: 0, b: 0, c: 0, imm: 0 };
        let mut at = Fields::default();
        for (index, (info, operand)) in roles.iter().zip(operands).enumerate() {
            let mismatch = PackError::Operands { op, index };
            match (info.role, operand) {
                (Role::Def(bank), Operand::Def(reg)) | (Role::Use(bank), Operand::Use(reg)) if reg.bank == bank => {
                    at.put_narrow(&mut inst, reg.index);
                }
                (Role::Field, Operand::Field(n)) | (Role::Tag, Operand::Tag(n)) | (Role::Count, Operand::Count(n)) => {
                    at.put_narrow(&mut inst, *n);
                }
                (Role::Real, Operand::Real(x)) => inst.imm = x.to_bits(),
                (Role::Int, Operand::Int(n)) => inst.imm = *n as u64,
                (Role::Target, Operand::Target(n))
                | (Role::Func, Operand::Func(n))
                | (Role::Message, Operand::Message(n))
                | (Role::Template, Operand::Template(n))
                | (Role::Import, Operand::Import(n)) => at.put_half(&mut inst, *n),
                (Role::Targets, Operand::Targets(list)) => {
                    let start = pool_offset(self.targets.len(), list.len())?;
                    self.targets.extend_from_slice(list);
                    at.put_list(&mut inst, start, list.len())?;
                }
                (Role::Uses, Operand::Uses(list)) | (Role::Defs, Operand::Defs(list)) => {
                    let start = pool_offset(self.regs.len(), list.len())?;
                    self.regs.extend_from_slice(list);
                    at.put_list(&mut inst, start, list.len())?;
                }
                _ => return Err(mismatch),
            }
        }
        Ok(inst)
    }

    /// Unpacks an instruction. A list that reaches outside of its pool is returned as `None`: only unverified code has
    /// one.
    pub fn operands(&self, inst: &Inst) -> Option<Vec<Operand>> {
        let mut at = Fields::default();
        let roles = inst.op.info().operands;
        let mut out = Vec::with_capacity(roles.len());
        for info in roles {
            out.push(match info.role {
                Role::Def(bank) => Operand::Def(Reg { bank, index: at.narrow(inst) }),
                Role::Use(bank) => Operand::Use(Reg { bank, index: at.narrow(inst) }),
                Role::Field => Operand::Field(at.narrow(inst)),
                Role::Tag => Operand::Tag(at.narrow(inst)),
                Role::Count => Operand::Count(at.narrow(inst)),
                Role::Real => Operand::Real(f64::from_bits(inst.imm)),
                Role::Int => Operand::Int(inst.imm as i64),
                Role::Target => Operand::Target(at.half(inst)),
                Role::Func => Operand::Func(at.half(inst)),
                Role::Message => Operand::Message(at.half(inst)),
                Role::Template => Operand::Template(at.half(inst)),
                Role::Import => Operand::Import(at.half(inst)),
                Role::Targets => Operand::Targets(at.list(inst, &self.targets)?.to_vec()),
                Role::Uses => Operand::Uses(at.list(inst, &self.regs)?.to_vec()),
                Role::Defs => Operand::Defs(at.list(inst, &self.regs)?.to_vec()),
            });
        }
        Some(out)
    }

    /// Calls `visit` with every register of an instruction and whether it is written. Lists that reach outside of their
    /// pool are passed over, and so is what an instruction reads for a text only ([`Body::shown`]): what is recorded,
    /// moved or derived doesn't depend on that.
    pub(crate) fn for_each_reg(&self, inst: &Inst, mut visit: impl FnMut(Reg, bool)) {
        if inst.op.shows() {
            return;
        }
        let mut at = Fields::default();
        for info in inst.op.info().operands {
            match info.role {
                Role::Def(bank) => visit(Reg { bank, index: at.narrow(inst) }, true),
                Role::Use(bank) => visit(Reg { bank, index: at.narrow(inst) }, false),
                Role::Field | Role::Tag | Role::Count => _ = at.narrow(inst),
                Role::Target | Role::Func | Role::Message | Role::Template | Role::Import => _ = at.half(inst),
                Role::Real | Role::Int => {}
                Role::Targets => _ = at.list(inst, &self.targets),
                Role::Uses => at.list(inst, &self.regs).unwrap_or(&[]).iter().for_each(|&reg| visit(reg, false)),
                Role::Defs => at.list(inst, &self.regs).unwrap_or(&[]).iter().for_each(|&reg| visit(reg, true)),
            }
        }
    }

    /// How many instructions in a range do more than to show a text.
    pub(crate) fn computing(&self, range: Range<u32>) -> usize {
        let code = &self.code[range.start as usize..range.end as usize];
        code.iter().filter(|inst| inst.op != Op::Trace).count()
    }

    /// The registers that an instruction reads for a text only.
    pub(crate) fn shown(&self, inst: &Inst) -> &[Reg] {
        if inst.op.shows() { self.reg_lists(inst).0 } else { &[] }
    }

    /// Gives an instruction that shows a text other registers, as many as it has.
    pub(crate) fn set_shown(&mut self, at: u32, regs: &[Reg]) {
        let inst = self.code[at as usize];
        debug_assert!(inst.op.shows() && regs.len() == usize::from(inst.a), "as many registers as it has");
        let start = self.regs.len() as u64;
        self.regs.extend_from_slice(regs);
        self.code[at as usize].imm = u64::from(inst.low()) | start << 32;
    }

    /// Replaces the registers that an instruction names directly; `rename` gets the register and whether it is written.
    /// Lists stay as they are.
    pub(crate) fn rename_regs(inst: &mut Inst, mut rename: impl FnMut(Reg, bool) -> u16) {
        let mut at = Fields::default();
        for info in inst.op.info().operands {
            match info.role {
                Role::Def(bank) | Role::Use(bank) => {
                    let mut peek = at;
                    let index = peek.narrow(inst);
                    let index = rename(Reg { bank, index }, matches!(info.role, Role::Def(_)));
                    at.replace_narrow(inst, index);
                }
                Role::Field | Role::Tag | Role::Count => _ = at.narrow(inst),
                Role::Target | Role::Func | Role::Message | Role::Template | Role::Import => _ = at.half(inst),
                Role::Real | Role::Int | Role::Targets | Role::Uses | Role::Defs => {}
            }
        }
    }

    /// Replaces the numbers of what an instruction refers to in the module's tables: functions, messages, templates and
    /// imports.
    pub(crate) fn replace_numbers(inst: &mut Inst, mut replace: impl FnMut(Role, u32) -> u32) {
        let mut at = Fields::default();
        for info in inst.op.info().operands {
            match info.role {
                Role::Func | Role::Message | Role::Template | Role::Import => {
                    let shift = 32 * at.half;
                    let number = replace(info.role, at.half(inst));
                    inst.imm = inst.imm & !(u64::from(u32::MAX) << shift) | u64::from(number) << shift;
                }
                Role::Def(_) | Role::Use(_) | Role::Field | Role::Tag | Role::Count => _ = at.narrow(inst),
                Role::Target => _ = at.half(inst),
                Role::Real | Role::Int => {}
                Role::Targets | Role::Uses | Role::Defs => {
                    _ = at.narrow(inst);
                    if at.pool.replace(0).is_none() {
                        _ = at.half(inst);
                    }
                }
            }
        }
    }

    /// The register lists of an instruction that has them: what it reads, then what it writes.
    pub(crate) fn reg_lists(&self, inst: &Inst) -> (&[Reg], &[Reg]) {
        let mut at = Fields::default();
        let (mut uses, mut defs): (&[Reg], &[Reg]) = (&[], &[]);
        for info in inst.op.info().operands {
            match info.role {
                Role::Uses => uses = at.list(inst, &self.regs).unwrap_or(&[]),
                Role::Defs => defs = at.list(inst, &self.regs).unwrap_or(&[]),
                Role::Func | Role::Template | Role::Import => _ = at.half(inst),
                _ => _ = at.narrow(inst),
            }
        }
        (uses, defs)
    }

    /// The bits of a packed instruction that hold operands: all ones there, zero elsewhere.
    pub fn operand_bits(op: Op) -> Inst {
        let mut bits = Inst { op, a: 0, b: 0, c: 0, imm: 0 };
        let mut at = Fields::default();
        for info in op.info().operands {
            match info.role {
                Role::Def(_) | Role::Use(_) | Role::Field | Role::Tag | Role::Count => {
                    at.put_narrow(&mut bits, u16::MAX);
                }
                Role::Real | Role::Int => bits.imm = u64::MAX,
                Role::Target | Role::Func | Role::Message | Role::Template | Role::Import => {
                    at.put_half(&mut bits, u32::MAX);
                }
                Role::Targets | Role::Uses | Role::Defs => {
                    at.put_narrow(&mut bits, u16::MAX);
                    if at.pool.replace(0).is_none() {
                        at.put_half(&mut bits, u32::MAX);
                    }
                }
            }
        }
        bits
    }

    /// The source place of an instruction, if the function carries one.
    pub fn location(&self, inst: u32) -> Option<Location> {
        let after = self.locations.partition_point(|location| location.inst <= inst);
        after.checked_sub(1).map(|i| self.locations[i])
    }
}

fn pool_offset(pool_len: usize, list_len: usize) -> Result<u32, PackError> {
    match u32::try_from(pool_len + list_len) {
        Ok(_) => Ok(pool_len as u32),
        Err(_) => Err(PackError::TooLong),
    }
}

impl Fields {
    fn put_narrow(&mut self, inst: &mut Inst, value: u16) {
        match self.narrow {
            0 => inst.a = value,
            1 => inst.b = value,
            2 => inst.c = value,
            _ => {
                inst.imm |= u64::from(value);
                self.half += 1;
            }
        }
        self.narrow += 1;
    }

    fn replace_narrow(&mut self, inst: &mut Inst, value: u16) {
        if self.narrow >= 3 {
            inst.imm &= !0xffff;
        }
        self.put_narrow(inst, value);
    }

    fn put_half(&mut self, inst: &mut Inst, value: u32) {
        inst.imm |= u64::from(value) << (32 * self.half);
        self.half += 1;
    }

    fn put_list(&mut self, inst: &mut Inst, start: u32, len: usize) -> Result<(), PackError> {
        self.put_narrow(inst, u16::try_from(len).map_err(|_| PackError::TooLong)?);
        if self.pool.replace(start).is_none() {
            self.put_half(inst, start);
        }
        Ok(())
    }

    fn narrow(&mut self, inst: &Inst) -> u16 {
        let value = match self.narrow {
            0 => inst.a,
            1 => inst.b,
            2 => inst.c,
            _ => {
                self.half += 1;
                inst.imm as u16
            }
        };
        self.narrow += 1;
        value
    }

    fn half(&mut self, inst: &Inst) -> u32 {
        let value = (inst.imm >> (32 * self.half)) as u32;
        self.half += 1;
        value
    }

    fn list<'p, T>(&mut self, inst: &Inst, pool: &'p [T]) -> Option<&'p [T]> {
        let len = usize::from(self.narrow(inst));
        let start = match self.pool {
            Some(next) => next,
            None => self.half(inst),
        };
        let end = (start as usize).checked_add(len)?;
        self.pool = Some(u32::try_from(end).ok()?);
        pool.get(start as usize..end)
    }
}

/// A program before verification.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct ModuleDef {
    /// What messages need to know of the program's text.
    pub debug: DebugInfo,
    /// Heap types. A type may refer to any other and to itself.
    pub types: Vec<TypeDef>,
    /// Data types that interfaces refer to. One may refer to any other and to itself.
    pub data: Vec<DataDef>,
    /// Strings that `trap` shows.
    pub messages: Vec<String>,
    /// Texts with values that `trap_with` and `trace` show.
    pub templates: Vec<Template>,
    /// Functions that are not in the module.
    pub imports: Vec<Import>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Exported functions that have a *traced twin*, each with that: a private function of the same signature, which
    /// gives the same results, and shows what is to be traced on the way. In ascending order.
    ///
    /// A run of the function whose host listens begins with one of the twin, and traces nothing itself. So a compiler
    /// can make the function as if nothing was to be traced, and the twin so that texts come in the right order.
    pub traced: Vec<(FuncId, FuncId)>,
}

impl ModuleDef {
    /// The function with this name.
    pub fn function(&self, name: &str) -> Option<(FuncId, &Function)> {
        let index = self.functions.iter().position(|function| function.name == name)?;
        Some((FuncId(index as u32), &self.functions[index]))
    }

    /// The functions that an instruction of one of the module's functions may call, or makes a closure of.
    pub(crate) fn functions_of<'a>(&'a self, body: &'a Body, inst: &'a Inst) -> impl Iterator<Item = FuncId> + 'a {
        let operands = if inst.op.names_function() { body.operands(inst).unwrap_or_default() } else { Vec::new() };
        let named = operands.into_iter().filter_map(|operand| match operand {
            Operand::Func(func) => Some(FuncId(func)),
            _ => None,
        });
        let template = inst.op.shows().then(|| self.templates.get(inst.low() as usize)).flatten();
        named.chain(template.and_then(|template| template.func))
    }

    /// The traced twin of a function, if it has one.
    pub fn traced_twin(&self, func: FuncId) -> Option<FuncId> {
        let found = self.traced.binary_search_by_key(&func, |&(function, _)| function);
        found.ok().map(|index| self.traced[index].1)
    }
}
