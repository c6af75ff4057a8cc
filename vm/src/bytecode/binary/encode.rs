//! Writing modules.

use super::wire::Writer;
use super::{END, MAGIC, Section, has_inlined, has_texts, tag, version_of};
use crate::bytecode::isa::{Operand, Reg};
use crate::bytecode::module::{
    Body, DataDef, FuncId, HostType, InlinedCall, Interface, Location, ModuleDef, Piece, TypeDef, ValueType,
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
            Section::Inlined if has_inlined(module) => inlined(module, &mut content),
            Section::Texts if has_texts(module) => texts(module, &mut content),
            Section::Imports if !module.imports.is_empty() => content.list(&module.imports, |writer, import| {
                writer.string(&import.name);
                writer.interface(&import.interface);
            }),
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

/// The sources' names and the functions with locations.
fn debug(module: &ModuleDef, content: &mut Writer) {
    let located =
        sparse(&module.functions, |function| Some(&function.body.locations).filter(|locations| !locations.is_empty()));
    if module.debug.sources.is_empty() && located.is_empty() {
        return;
    }
    content.list(&module.debug.sources, |writer, source| writer.string(&source.name));
    content.list(&located, |writer, (skipped, locations)| {
        writer.unsigned(*skipped);
        writer.locations(locations);
    });
}

/// Which sources are libraries, the digests of sources, the calls in whose place code stands, and what of the locations
/// the section before doesn't say.
fn inlined(module: &ModuleDef, content: &mut Writer) {
    let sources = module.debug.sources.iter().zip(0u64..);
    let libraries: Vec<u64> = sources.filter(|(source, _)| source.is_library).map(|(_, number)| number).collect();
    content.list(&libraries, |writer, number| writer.unsigned(*number));
    let digests = sparse(&module.debug.sources, |source| source.digest.as_ref());
    content.list(&digests, |writer, (skipped, digest)| {
        writer.unsigned(*skipped);
        digest.iter().for_each(|&byte| writer.byte(byte));
    });
    content.list(&module.debug.calls, |writer, call| {
        let InlinedCall { callee, place, within } = call;
        writer.string(callee);
        [place.source, place.line, place.column].into_iter().for_each(|part| writer.unsigned(part.into()));
        writer.unsigned(within.map_or(0, |within| u64::from(within) + 1));
    });
    let is_elsewhere = |location: &Location| location.place.source > 0 || location.call.is_some();
    let located = sparse(&module.functions, |function| {
        Some(&function.body.locations).filter(|locations| locations.iter().any(is_elsewhere))
    });
    content.list(&located, |writer, (skipped, locations)| {
        writer.unsigned(*skipped);
        let mut last = (0, 0);
        for location in locations.iter() {
            let here = (i64::from(location.place.source), location.call.map_or(0, |call| i64::from(call) + 1));
            writer.signed(here.0 - last.0);
            writer.signed(here.1 - last.1);
            last = here;
        }
    });
}

/// Templates, and the functions with traced twins.
fn texts(module: &ModuleDef, content: &mut Writer) {
    content.list(&module.templates, |writer, template| {
        writer.list(&template.pieces, |writer, piece| match piece {
            Piece::Text(text) => {
                writer.byte(tag::TEXT);
                writer.string(text);
            }
            Piece::Value(ty) => {
                writer.byte(tag::VALUE);
                writer.host_type(ty);
            }
        });
        writer.unsigned(template.func.map_or(0, |func| u64::from(func.0) + 1));
    });
    content.list(&module.traced, |writer, (function, twin)| {
        writer.unsigned(function.0.into());
        writer.unsigned(twin.0.into());
    });
}

/// What some items have, each with the number of items without it before.
fn sparse<'m, I, T>(items: &'m [I], property: impl Fn(&'m I) -> Option<T>) -> Vec<(u64, T)> {
    let mut skipped = 0;
    let mut out = Vec::new();
    for item in items {
        match property(item) {
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
            TypeDef::Shaped(fields) => {
                self.byte(tag::SHAPED);
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
            Operand::Target(number) | Operand::Func(number) => self.unsigned((*number).into()),
            Operand::Message(number) | Operand::Template(number) | Operand::Import(number) => {
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
            let Location { inst: at, place, .. } = *location;
            writer.signed(i64::from(at) - inst);
            writer.signed(i64::from(place.line) - line);
            writer.unsigned(place.column.into());
            (inst, line) = (at.into(), place.line.into());
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
            HostType::Tensor { .. } => writer.byte(tag::HOST_TENSOR),
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
        if let HostType::Array { array: id, .. }
        | HostType::List { list: id, .. }
        | HostType::Tensor { tensor: id, .. } = ty
        {
            self.0.unsigned(id.0.into());
        }
        Ok(())
    }
}
