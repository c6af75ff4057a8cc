//! Reading modules.

use super::wire::{Decoded, Reader};
use super::{END, MAGIC, Section, VERSION, tag, version_of};
use crate::bytecode::isa::{Bank, Op, Operand, Reg, Role};
use crate::bytecode::module::{
    Body, DataDef, DataId, FuncId, Function, HostType, Import, InlinedCall, Interface, Location, ModuleDef, Piece,
    Place, SourceFile, Template, TypeDef, TypeId, ValueType, VariantDef,
};
use crate::bytecode::verify::limits;
use std::fmt;

/// Why bytes are not a module.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DecodeError {
    /// The byte where it shows, from 0.
    pub offset: usize,
    /// What was being read.
    pub what: &'static str,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecodeError { offset, what, expected, found } = self;
        write!(f, "byte {offset} ({what}): expected {expected}, found {found}")
    }
}

impl std::error::Error for DecodeError {}

/// Reads a module that [`super::encode()`] or another compiler wrote. Whether it may run is the verifier's to say.
///
/// Takes time and memory in proportion to the number of bytes, whatever they are.
///
/// ```
/// let error = dualvm_vm::binary::decode(b"DVBC\x63\x00").unwrap_err();
/// assert_eq!(error.to_string(), "byte 4 (format version): expected version 1 to 10, found version 99");
/// ```
///
/// # Errors
/// The first thing that is not as `docs/bytecode.md` says.
pub fn decode(bytes: &[u8]) -> Result<ModuleDef, DecodeError> {
    let mut file = Reader::new(bytes);
    let version = header(&mut file)?;
    let mut module = ModuleDef::default();
    let mut last = None;
    while let Some((section, mut content)) = section(&mut file, last)? {
        last = Some(section);
        match section {
            Section::Types => module.types = non_empty(&mut content, section, Reader::type_def)?,
            Section::Data => module.data = non_empty(&mut content, section, Reader::data_def)?,
            Section::Messages => module.messages = non_empty(&mut content, section, |r| r.string("message"))?,
            Section::Functions => module.functions = non_empty(&mut content, section, Reader::function)?,
            Section::Interfaces => interfaces(&mut content, &mut module.functions)?,
            Section::Debug => debug(&mut content, &mut module)?,
            Section::Inlined => inlined(&mut content, &mut module)?,
            Section::Texts => texts(&mut content, &mut module)?,
            Section::Imports => {
                let import = |reader: &mut Reader| {
                    Ok(Import { name: reader.string("name of an import")?, interface: reader.interface()? })
                };
                module.imports = non_empty(&mut content, section, import)?;
            }
        }
        if content.remaining() > 0 {
            let found = format!("{} bytes more", content.remaining());
            return Err(content.error(content.offset(), section.name(), "the end of the section", found));
        }
    }
    let expected = version_of(&module);
    if version != expected {
        let expected = format!("version {expected}, the first with all instructions of the module");
        return Err(file.error(MAGIC.len(), "format version", expected, format!("version {version}")));
    }
    Ok(module)
}

/// Reads the bytes before the sections. Returns the format version.
fn header(file: &mut Reader) -> Decoded<u16> {
    let magic = file.take(MAGIC.len(), "magic number")?;
    if magic != MAGIC {
        return Err(file.error(0, "magic number", "`DVBC`", format!("`{}`", magic.escape_ascii())));
    }
    let at = file.offset();
    let version = u16::from_le_bytes(file.take(2, "format version")?.try_into().expect("two bytes were taken"));
    if !(1..=VERSION).contains(&version) {
        let (expected, found) = (format!("version 1 to {VERSION}"), format!("version {version}"));
        return Err(file.error(at, "format version", expected, found));
    }
    Ok(version)
}

/// The next section, which must come after `last` in the order of sections; none at the end mark, where the file ends.
fn section<'b>(file: &mut Reader<'b>, last: Option<Section>) -> Decoded<Option<(Section, Reader<'b>)>> {
    let at = file.offset();
    let code = file.byte("section")?;
    if code == END {
        return match file.remaining() {
            0 => Ok(None),
            more => Err(file.error(file.offset(), "end mark", "the end of the file", format!("{more} bytes more"))),
        };
    }
    let known = Section::ALL.into_iter().find(|&section| section as u8 == code && Some(section) > last);
    let Some(section) = known else {
        let last = last.map_or("the header", Section::name);
        return Err(file.error(at, "section", format!("one that comes after {last}"), format!("code {code}")));
    };
    let len = file.count(section.name())?;
    Ok(Some((section, file.part(len))))
}

/// A list that is the content of a section; a section with nothing in it is left out.
fn non_empty<'b, T>(
    content: &mut Reader<'b>,
    section: Section,
    item: impl FnMut(&mut Reader<'b>) -> Decoded<T>,
) -> Decoded<Vec<T>> {
    let at = content.offset();
    let list = content.list(section.name(), item)?;
    if list.is_empty() {
        return Err(content.error(at, section.name(), "at least one entry", "none"));
    }
    Ok(list)
}

fn interfaces(content: &mut Reader, functions: &mut [Function]) -> Decoded<()> {
    let mut next = 0;
    let entry = |reader: &mut Reader| {
        let function = sparse(reader, &mut next, functions.len())?;
        functions[function].interface = Some(reader.interface()?);
        Ok(())
    };
    non_empty(content, Section::Interfaces, entry).map(|_| ())
}

fn debug(content: &mut Reader, module: &mut ModuleDef) -> Decoded<()> {
    let at = content.offset();
    module.debug.sources = content
        .list("sources", |reader| Ok(SourceFile { name: reader.string("source")?, is_library: false, digest: None }))?;
    let mut next = 0;
    let functions = &mut module.functions;
    let located = content.list("functions with locations", |reader| {
        let function = sparse(reader, &mut next, functions.len())?;
        let at = reader.offset();
        functions[function].body.locations = reader.locations()?;
        if functions[function].body.locations.is_empty() {
            return Err(reader.error(at, "locations", "at least one entry", "none"));
        }
        Ok(())
    })?;
    if module.debug.sources.is_empty() && located.is_empty() {
        return Err(content.error(at, "debug", "a source or locations", "neither"));
    }
    Ok(())
}

fn inlined(content: &mut Reader, module: &mut ModuleDef) -> Decoded<()> {
    let start = content.offset();
    let sources = &mut module.debug.sources;
    let mut last = None;
    let libraries = content.list("libraries", |reader| {
        let at = reader.offset();
        let number = reader.u32("number of a source")?;
        if last.replace(number) >= Some(number) || number as usize >= sources.len() {
            let expected = format!("ascending numbers of {} sources", sources.len());
            return Err(reader.error(at, "number of a source", expected, number.to_string()));
        }
        sources[number as usize].is_library = true;
        Ok(())
    })?;
    let (mut next, count) = (0, sources.len());
    let digests = content.list("digests", |reader| {
        let source = sparse(reader, &mut next, count)?;
        sources[source].digest = Some(reader.take(32, "digest")?.try_into().expect("so many bytes were taken"));
        Ok(())
    })?;
    module.debug.calls = content.list("inlined calls", |reader| {
        let callee = reader.string("name of a function")?.into();
        let (source, line) = (reader.u32("source of a call")?, reader.u32("line of a call")?);
        let place = Place { source, line, column: reader.u32("column of a call")? };
        let within = reader.unsigned("call around a call", u64::from(u32::MAX) + 1)?;
        Ok(InlinedCall { callee, place, within: within.checked_sub(1).map(|within| within as u32) })
    })?;
    let mut next = 0;
    let functions = &mut module.functions;
    let located = content.list("functions with inlined code", |reader| {
        let at = reader.offset();
        let function = sparse(reader, &mut next, functions.len())?;
        let (mut source, mut call, mut any) = (0, 0, false);
        for location in &mut functions[function].body.locations {
            source = reader.moved(source, "source of a location")?;
            call = reader.moved_below(call, (1 << 32) + 1, "call around a location")?;
            (location.place.source, location.call) = (source, call.checked_sub(1).map(|call| call as u32));
            any |= source > 0 || call > 0;
        }
        match any {
            true => Ok(()),
            false => Err(reader.error(at, "locations", "one that is elsewhere", "none")),
        }
    })?;
    if libraries.is_empty() && digests.is_empty() && module.debug.calls.is_empty() && located.is_empty() {
        return Err(content.error(start, Section::Inlined.name(), "at least one entry", "none"));
    }
    Ok(())
}

fn texts(content: &mut Reader, module: &mut ModuleDef) -> Decoded<()> {
    let start = content.offset();
    module.templates = content.list("templates", |reader| {
        let pieces = reader.list("pieces of a template", Reader::piece)?;
        let func = reader.unsigned("function of a template", u64::from(u32::MAX) + 1)?;
        Ok(Template { pieces, func: func.checked_sub(1).map(|func| FuncId(func as u32)) })
    })?;
    module.traced = content.list("traced twins", |reader| {
        Ok((FuncId(reader.u32("function with a twin")?), FuncId(reader.u32("traced twin")?)))
    })?;
    if module.templates.is_empty() && module.traced.is_empty() {
        return Err(content.error(start, Section::Texts.name(), "at least one entry", "none"));
    }
    Ok(())
}

/// An item's number, written as the number of items skipped since the last one: of functions, or of sources.
fn sparse(reader: &mut Reader, next: &mut usize, count: usize) -> Decoded<usize> {
    let at = reader.offset();
    let skipped = reader.u32("function number")? as usize;
    match next.checked_add(skipped).filter(|&function| function < count) {
        Some(function) => {
            *next = function + 1;
            Ok(function)
        }
        None => {
            let found = format!("{skipped} functions skipped after {next}");
            Err(reader.error(at, "function number", format!("a function below {count}"), found))
        }
    }
}

impl Reader<'_> {
    fn unknown<T>(&self, at: usize, what: &'static str, code: u8) -> Decoded<T> {
        Err(self.error(at, what, "a code of this version", code.to_string()))
    }

    fn value_type(&mut self) -> Decoded<ValueType> {
        Ok(match self.unsigned("type of a value", tag::REF + u64::from(u32::MAX))? {
            tag::REAL => ValueType::Real,
            tag::INT => ValueType::Int,
            number => ValueType::Ref(TypeId((number - tag::REF) as u32)),
        })
    }

    fn value_types(&mut self, what: &'static str) -> Decoded<Vec<ValueType>> {
        self.list(what, Self::value_type)
    }

    fn type_def(&mut self) -> Decoded<TypeDef> {
        let at = self.offset();
        Ok(match self.byte("type definition")? {
            tag::STRUCT => TypeDef::Struct(self.value_types("fields")?),
            tag::SHAPED => TypeDef::Shaped(self.value_types("fields")?),
            tag::VARIANT => TypeDef::Variant(self.list("variants", |reader| {
                Ok(VariantDef { name: reader.string("variant name")?, fields: reader.value_types("fields")? })
            })?),
            tag::ARRAY => TypeDef::Array(self.value_type()?),
            tag::BUILDER => TypeDef::Builder(self.value_type()?),
            tag::CLOSURE => TypeDef::Closure {
                params: self.value_types("closure parameters")?,
                results: self.value_types("closure results")?,
            },
            tag::CHAIN => TypeDef::Chain(TypeId(self.u32("type of a chain's objects")?)),
            code => return self.unknown(at, "type definition", code),
        })
    }

    fn data_def(&mut self) -> Decoded<DataDef> {
        Ok(DataDef {
            name: self.string("name of a data type")?,
            ty: TypeId(self.u32("heap type of a data type")?),
            variants: self.list("constructors", |reader| reader.named(limits::HOST_TYPE_DEPTH_MAX))?,
        })
    }

    fn function(&mut self) -> Decoded<Function> {
        let name = self.string("function name")?;
        let params = self.value_types("parameters")?;
        let results = self.value_types("results")?;
        let mut body =
            Body { reals: self.u32("real registers")?, ints: self.u32("integer registers")?, ..Body::default() };
        body.refs = self.list("reference registers", |reader| reader.u32("type of a register").map(TypeId))?;
        for _ in 0..self.count("instructions")? {
            self.inst(&mut body)?;
        }
        Ok(Function { name, params, results, interface: None, body })
    }

    fn inst(&mut self, body: &mut Body) -> Decoded<()> {
        let at = self.offset();
        let code = self.byte("opcode")?;
        let Some(op) = Op::from_code(code) else { return self.unknown(at, "opcode", code) };
        let mut operands = Vec::with_capacity(op.info().operands.len());
        for info in op.info().operands {
            operands.push(self.operand(info.role)?);
        }
        match body.push(op, &operands) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.error(at, "instruction", "lists of at most 65535 entries", error.to_string())),
        }
    }

    fn operand(&mut self, role: Role) -> Decoded<Operand> {
        let mut reg = |bank| self.u16("register").map(|index| Reg { bank, index });
        Ok(match role {
            Role::Def(bank) => Operand::Def(reg(bank)?),
            Role::Use(bank) => Operand::Use(reg(bank)?),
            Role::Real => Operand::Real(f64::from_bits(self.bits("real")?)),
            Role::Int => Operand::Int(self.signed("integer")?),
            Role::Field => Operand::Field(self.u16("field number")?),
            Role::Tag => Operand::Tag(self.u16("tag")?),
            Role::Count => Operand::Count(self.u16("number of registers")?),
            Role::Target => Operand::Target(self.u32("target")?),
            Role::Targets => Operand::Targets(self.list("targets", |reader| reader.u32("target"))?),
            Role::Func => Operand::Func(self.u32("function number")?),
            Role::Message => Operand::Message(self.u32("message number")?),
            Role::Template => Operand::Template(self.u32("template number")?),
            Role::Import => Operand::Import(self.u32("import number")?),
            Role::Uses => Operand::Uses(self.list("registers", Self::reg)?),
            Role::Defs => Operand::Defs(self.list("registers", Self::reg)?),
        })
    }

    /// A register of any bank.
    fn reg(&mut self) -> Decoded<Reg> {
        let at = self.offset();
        let value = self.unsigned("register", u64::from(u16::MAX) << 2 | 3)?;
        let bank = [Bank::Real, Bank::Int, Bank::Ref].into_iter().find(|&bank| bank as u64 == value & 3);
        match bank {
            Some(bank) => Ok(Reg { bank, index: (value >> 2) as u16 }),
            None => self.unknown(at, "bank of a register", (value & 3) as u8),
        }
    }

    fn interface(&mut self) -> Decoded<Interface> {
        let params = self.list("parameters of an interface", |reader| reader.named(limits::HOST_TYPE_DEPTH_MAX))?;
        Ok(Interface { params, result: self.host_type(limits::HOST_TYPE_DEPTH_MAX)? })
    }

    fn piece(&mut self) -> Decoded<Piece> {
        let at = self.offset();
        match self.byte("piece of a template")? {
            tag::TEXT => self.string("text of a template").map(Piece::Text),
            tag::VALUE => self.host_type(limits::HOST_TYPE_DEPTH_MAX).map(Piece::Value),
            code => self.unknown(at, "piece of a template", code),
        }
    }

    /// A host type of at most `depth` levels.
    fn host_type(&mut self, depth: usize) -> Decoded<HostType> {
        let at = self.offset();
        let Some(inside) = depth.checked_sub(1) else {
            let expected = format!("at most {} levels", limits::HOST_TYPE_DEPTH_MAX);
            return Err(self.error(at, "host type", expected, "more"));
        };
        Ok(match self.byte("host type")? {
            tag::HOST_REAL => HostType::Real,
            tag::HOST_INT => HostType::Int,
            tag::HOST_BOOL => HostType::Bool,
            tag::HOST_TUPLE => HostType::Tuple(self.list("tuple", |reader| reader.host_type(inside))?),
            tag::HOST_RECORD => HostType::Record(self.list("record", |reader| reader.named(inside))?),
            tag::HOST_ARRAY => HostType::Array {
                element: Box::new(self.host_type(inside)?),
                array: TypeId(self.u32("type of an array")?),
            },
            tag::HOST_LIST => {
                HostType::List { element: Box::new(self.host_type(inside)?), list: TypeId(self.u32("type of a list")?) }
            }
            tag::HOST_TENSOR => HostType::Tensor {
                slice: Box::new(self.host_type(inside)?),
                tensor: TypeId(self.u32("type of a tensor")?),
            },
            tag::HOST_DATA => {
                HostType::Data { name: self.string("name of a data type")?, data: DataId(self.u32("data type")?) }
            }
            code => return self.unknown(at, "host type", code),
        })
    }

    fn named(&mut self, depth: usize) -> Decoded<(String, HostType)> {
        Ok((self.string("name in an interface")?, self.host_type(depth)?))
    }

    fn locations(&mut self) -> Decoded<Vec<Location>> {
        let (mut inst, mut line) = (0, 0);
        self.list("locations", |reader| {
            inst = reader.moved(inst, "instruction of a location")?;
            line = reader.moved(line, "line")?;
            Ok(Location { inst, place: Place { source: 0, line, column: reader.u32("column")? }, call: None })
        })
    }

    /// `from` plus a difference, if that is a number of 32 bits.
    fn moved(&mut self, from: u32, what: &'static str) -> Decoded<u32> {
        Ok(self.moved_below(from.into(), 1 << 32, what)? as u32)
    }

    /// `from` plus a difference, if that is at least 0 and below `end`.
    fn moved_below(&mut self, from: u64, end: u64, what: &'static str) -> Decoded<u64> {
        let at = self.offset();
        let by = self.signed(what)?;
        let sum = from.checked_add_signed(by).filter(|&sum| sum < end);
        sum.ok_or_else(|| self.error(at, what, format!("a number below {end}"), format!("{from} moved by {by}")))
    }
}
