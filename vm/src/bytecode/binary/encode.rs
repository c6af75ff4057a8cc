//! Writing modules.

use super::wire::Writer;
use super::{END, MAGIC, Section, tag, version_of};
use crate::bytecode::isa::{Operand, Reg};
use crate::bytecode::module::{
    Body, DataDef, FuncId, Function, HostType, Interface, Location, ModuleDef, TypeDef, ValueType,
};
use crate::nest::{self, Visit};
use std::convert::Infallible;
use std::fmt;

/// Why a module could not be written: an instruction's operand list reaches outside of its pool. The verifier refuses
/// such a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncodeError {
    /// The function.
    pub function: FuncId,
    /// The instruction.
    pub inst: u32,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EncodeError { function, inst } = self;
        write!(f, "function f{}, instruction {inst}: an operand list is outside of its pool", function.0)
    }
}

impl std::error::Error for EncodeError {}

/// A module in binary form.
///
/// [`super::decode()`] gives the module back, with pools in the order of the instructions.
///
/// ```
/// use dualvm_vm::{binary, text};
///
/// let module = text::parse("func \"id\" (real) -> (real)\nregs 1 real\n{\n ret (r0)\n}", "id.dvs").unwrap();
/// let bytes = binary::encode(&module)?;
/// assert_eq!(bytes.len(), 24);
/// assert_eq!(binary::decode(&bytes), Ok(module));
/// # Ok::<(), binary::EncodeError>(())
/// ```
///
/// # Errors
/// If an operand list is outside of its pool; never for a verified module.
pub fn encode(module: &ModuleDef) -> Result<Vec<u8>, EncodeError> {
    let mut file = Writer::default();
    file.bytes.extend_from_slice(&MAGIC);
    file.bytes.extend_from_slice(&version_of(module).to_le_bytes());
    for section in Section::ALL {
        let mut content = Writer::default();
        match section {
            Section::Types if !module.types.is_empty() => content.list(&module.types, Writer::type_def),
            Section::Data if !module.data.is_empty() => content.list(&module.data, Writer::data_def),
            Section::Messages if !module.messages.is_empty() => {
                content.list(&module.messages, |writer, message| writer.string(message));
            }
            Section::Functions if !module.functions.is_empty() => functions(module, &mut content)?,
            Section::Interfaces => interfaces(module, &mut content),
            Section::Debug => debug(module, &mut content),
            _ => {}
        }
        if !content.bytes.is_empty() {
            file.byte(section as u8);
            file.unsigned(content.bytes.len() as u64);
            file.bytes.append(&mut content.bytes);
        }
    }
    file.byte(END);
    Ok(file.bytes)
}

fn functions(module: &ModuleDef, content: &mut Writer) -> Result<(), EncodeError> {
    content.unsigned(module.functions.len() as u64);
    for (index, function) in module.functions.iter().enumerate() {
        content.string(&function.name);
        content.list(&function.params, Writer::value_type);
        content.list(&function.results, Writer::value_type);
        content.unsigned(function.body.reals.into());
        content.unsigned(function.body.ints.into());
        content.list(&function.body.refs, |writer, id| writer.unsigned(id.0.into()));
        let at = |inst| EncodeError { function: FuncId(index as u32), inst };
        content.code(&function.body).map_err(at)?;
    }
    Ok(())
}

/// The exported functions: by how much each one's number exceeds the least possible, and the interface.
fn interfaces(module: &ModuleDef, content: &mut Writer) {
    let exported = sparse(&module.functions, |function| function.interface.as_ref());
    if !exported.is_empty() {
        content.list(&exported, |writer, (skipped, interface)| {
            writer.unsigned(*skipped);
            writer.interface(interface);
        });
    }
}

/// The source's name and the functions with locations.
fn debug(module: &ModuleDef, content: &mut Writer) {
    let located =
        sparse(&module.functions, |function| Some(&function.body.locations).filter(|locations| !locations.is_empty()));
    if module.source.is_none() && located.is_empty() {
        return;
    }
    content.list(module.source.as_slice(), |writer, source| writer.string(source));
    content.list(&located, |writer, (skipped, locations)| {
        writer.unsigned(*skipped);
        writer.locations(locations);
    });
}

/// What some functions have, each with the number of functions without it before.
fn sparse<'m, T>(functions: &'m [Function], property: impl Fn(&'m Function) -> Option<T>) -> Vec<(u64, T)> {
    let mut skipped = 0;
    let mut out = Vec::new();
    for function in functions {
        match property(function) {
            Some(value) => out.push((std::mem::take(&mut skipped), value)),
            None => skipped += 1,
        }
    }
    out
}

impl Writer {
    fn value_type(&mut self, ty: &ValueType) {
        self.unsigned(match *ty {
            ValueType::Real => tag::REAL,
            ValueType::Int => tag::INT,
            ValueType::Ref(id) => tag::REF + u64::from(id.0),
        });
    }

    fn type_def(&mut self, def: &TypeDef) {
        match def {
            TypeDef::Struct(fields) => {
                self.byte(tag::STRUCT);
                self.list(fields, Self::value_type);
            }
            TypeDef::Variant(variants) => {
                self.byte(tag::VARIANT);
                self.list(variants, |writer, variant| {
                    writer.string(&variant.name);
                    writer.list(&variant.fields, Self::value_type);
                });
            }
            TypeDef::Array(element) => {
                self.byte(tag::ARRAY);
                self.value_type(element);
            }
            TypeDef::Builder(element) => {
                self.byte(tag::BUILDER);
                self.value_type(element);
            }
            TypeDef::Closure { params, results } => {
                self.byte(tag::CLOSURE);
                self.list(params, Self::value_type);
                self.list(results, Self::value_type);
            }
            TypeDef::Chain(variant) => {
                self.byte(tag::CHAIN);
                self.unsigned(variant.0.into());
            }
        }
    }

    fn data_def(&mut self, def: &DataDef) {
        self.string(&def.name);
        self.unsigned(def.ty.0.into());
        self.list(&def.variants, Self::part);
    }

    /// Writes instructions; the error is the number of one with a bad list.
    fn code(&mut self, body: &Body) -> Result<(), u32> {
        self.unsigned(body.code.len() as u64);
        for (at, inst) in body.code.iter().enumerate() {
            self.byte(inst.op.code());
            for operand in body.operands(inst).ok_or(at as u32)? {
                self.operand(&operand);
            }
        }
        Ok(())
    }

    fn operand(&mut self, operand: &Operand) {
        match operand {
            Operand::Def(reg) | Operand::Use(reg) => self.unsigned(reg.index.into()),
            Operand::Real(value) => self.bits(value.to_bits()),
            Operand::Int(value) => self.signed(*value),
            Operand::Field(number) | Operand::Tag(number) | Operand::Count(number) => self.unsigned((*number).into()),
            Operand::Target(number) | Operand::Func(number) | Operand::Message(number) => {
                self.unsigned((*number).into());
            }
            Operand::Targets(list) => self.list(list, |writer, &target| writer.unsigned(target.into())),
            Operand::Uses(list) | Operand::Defs(list) => self.list(list, Self::reg),
        }
    }

    /// A register of any bank.
    fn reg(&mut self, reg: &Reg) {
        self.unsigned(u64::from(reg.index) << 2 | reg.bank as u64);
    }

    fn interface(&mut self, interface: &Interface) {
        self.list(&interface.params, Self::part);
        self.host_type(&interface.result);
    }

    fn part(&mut self, (name, ty): &(String, HostType)) {
        self.string(name);
        self.host_type(ty);
    }

    fn host_type(&mut self, ty: &HostType) {
        let Ok(()) = nest::walk(ty, &mut HostWriter(self));
    }

    /// Instructions and lines as differences to the entry before.
    fn locations(&mut self, locations: &[Location]) {
        let (mut inst, mut line) = (0, 0);
        self.list(locations, |writer, location| {
            writer.signed(i64::from(location.inst) - inst);
            writer.signed(i64::from(location.line) - line);
            writer.unsigned(location.column.into());
            (inst, line) = (location.inst.into(), location.line.into());
        });
    }
}

/// Writes host types: what parts a type has, then the parts.
struct HostWriter<'w>(&'w mut Writer);

impl Visit<'_, HostType> for HostWriter<'_> {
    type Stop = Infallible;

    fn enter(&mut self, ty: &HostType) -> Result<(), Infallible> {
        let HostWriter(writer) = self;
        match ty {
            HostType::Real => writer.byte(tag::HOST_REAL),
            HostType::Int => writer.byte(tag::HOST_INT),
            HostType::Bool => writer.byte(tag::HOST_BOOL),
            HostType::Tuple(parts) => {
                writer.byte(tag::HOST_TUPLE);
                writer.unsigned(parts.len() as u64);
            }
            HostType::Record(parts) => {
                writer.byte(tag::HOST_RECORD);
                writer.unsigned(parts.len() as u64);
            }
            HostType::Array { .. } => writer.byte(tag::HOST_ARRAY),
            HostType::List { .. } => writer.byte(tag::HOST_LIST),
            HostType::Data { name, data } => {
                writer.byte(tag::HOST_DATA);
                writer.string(name);
                writer.unsigned(data.0.into());
            }
        }
        Ok(())
    }

    fn before(&mut self, ty: &HostType, n: usize) -> Result<(), Infallible> {
        if let HostType::Record(parts) = ty {
            self.0.string(&parts[n].0);
        }
        Ok(())
    }

    fn leave(&mut self, ty: &HostType) -> Result<(), Infallible> {
        if let HostType::Array { array: id, .. } | HostType::List { list: id, .. } = ty {
            self.0.unsigned(id.0.into());
        }
        Ok(())
    }
}
