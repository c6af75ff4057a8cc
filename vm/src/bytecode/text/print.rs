//! Printing modules and single instructions.

use super::grammar;
use crate::bytecode::isa::{Inst, Op, Operand, Role};
use crate::bytecode::module::{
    Body, DataDef, DebugInfo, FuncId, Function, HostType, Interface, Location, ModuleDef, Piece, Place, SourceFile,
    Template, TypeDef, ValueType, VariantDef,
};
use crate::nest::{self, Visit};
use std::fmt::{self, Display, Formatter};

/// A module in text.
///
/// The result depends on the module alone. It is total: an unverified module prints too, and what is printed can be
/// parsed if all operand lists are inside their pools (one that is not prints as `<outside of the pool>`).
///
/// ```
/// use dualvm_vm::text::{parse, print};
///
/// let module = parse("func \"double\" (real) -> (real)\nregs 2 real\n{ add r1, r0, r0\n ret (r1) }", "double.dvs")?;
/// let text = "func f0 \"double\" (real) -> (real)\n  regs 2 real\n{\n  add r1, r0, r0\n  ret (r1)\n}\n";
/// assert_eq!(print(&module), text);
/// assert_eq!(parse(text, "double.dvs")?, module);
/// # Ok::<(), Vec<dualvm_vm::text::TextError>>(())
/// ```
pub fn print(module: &ModuleDef) -> String {
    ModuleText(module).to_string()
}

/// One instruction in text, as it stands in the printed module.
pub fn print_inst(module: &ModuleDef, function: FuncId, inst: u32) -> String {
    let body = module.functions.get(function.index()).map(|function| &function.body);
    match body.and_then(|body| Some((body, body.code.get(inst as usize)?))) {
        Some((body, inst)) => InstText(body, inst).to_string(),
        None => format!("<no instruction {inst} in f{}>", function.0),
    }
}

/// How an instruction is written, with names for operands: `call func (args) -> (results)`.
pub(crate) fn synopsis(op: Op) -> String {
    let info = op.info();
    let mut out = info.mnemonic.to_owned();
    for (index, operand) in info.operands.iter().enumerate() {
        out.push_str(grammar::separator(index, operand.role).text());
        match operand.role {
            Role::Uses | Role::Defs => out.extend(["(", operand.name, ")"]),
            Role::Targets => out.extend(["[", operand.name, "]"]),
            _ => out.push_str(operand.name),
        }
    }
    out
}

struct ModuleText<'a>(&'a ModuleDef);

impl Display for ModuleText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let module = self.0;
        for SourceFile { name, is_library, digest } in &module.debug.sources {
            write!(f, "{} source {}", if *is_library { "library" } else { "module" }, Quoted(name))?;
            if let Some(digest) = digest {
                write!(f, " \"")?;
                digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                write!(f, "\"")?;
            }
            writeln!(f)?;
        }
        for (index, call) in module.debug.calls.iter().enumerate() {
            let callee = Quoted(&call.callee);
            writeln!(f, "inlined n{index} {callee} {}", PlaceText(call.place, call.within))?;
        }
        for (index, def) in module.types.iter().enumerate() {
            writeln!(f, "type t{index} = {}", TypeText(def))?;
        }
        for (index, def) in module.data.iter().enumerate() {
            writeln!(f, "data d{index} {}", DataText(def))?;
        }
        for (index, message) in module.messages.iter().enumerate() {
            writeln!(f, "message m{index} {}", Quoted(message))?;
        }
        for (index, template) in module.templates.iter().enumerate() {
            writeln!(f, "template s{index} {}", TemplateText(template))?;
        }
        for (index, import) in module.imports.iter().enumerate() {
            writeln!(f, "import x{index} {} {}", Quoted(&import.name), InterfaceText(&import.interface))?;
        }
        for (function, twin) in &module.traced {
            writeln!(f, "traced f{} by f{}", function.0, twin.0)?;
        }
        let data = module.types.is_empty() && module.data.is_empty();
        let texts = module.messages.is_empty() && module.templates.is_empty() && module.traced.is_empty();
        let tables = !(data && texts && module.imports.is_empty());
        let mut blank = module.debug != DebugInfo::default() || tables;
        for (index, function) in module.functions.iter().enumerate() {
            if blank {
                writeln!(f)?;
            }
            blank = true;
            FunctionText(index, function).fmt(f)?;
        }
        Ok(())
    }
}

struct FunctionText<'a>(usize, &'a Function);

impl Display for FunctionText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let FunctionText(index, function) = *self;
        let (params, results) = (ValueList(&function.params), ValueList(&function.results));
        writeln!(f, "func f{index} {} {params} -> {results}", Quoted(&function.name))?;
        if let Some(interface) = &function.interface {
            writeln!(f, "  export {}", InterfaceText(interface))?;
        }
        let body = &function.body;
        let mut regs: Vec<String> = Vec::new();
        regs.extend((body.reals > 0).then(|| format!("{} real", body.reals)));
        regs.extend((body.ints > 0).then(|| format!("{} int", body.ints)));
        regs.extend(body.refs.iter().map(|id| format!("t{}", id.0)));
        if !regs.is_empty() {
            writeln!(f, "  regs {}", regs.join(", "))?;
        }
        writeln!(f, "{{")?;
        print_code(body, f)?;
        writeln!(f, "}}")
    }
}

fn print_code(body: &Body, f: &mut Formatter<'_>) -> fmt::Result {
    let mut labels = vec![false; body.code.len()];
    for operand in body.code.iter().filter_map(|inst| body.operands(inst)).flatten() {
        let list = match operand {
            Operand::Target(target) => vec![target],
            Operand::Targets(list) => list,
            _ => continue,
        };
        for target in list {
            if let Some(label) = labels.get_mut(target as usize) {
                *label = true;
            }
        }
    }
    let mut locations: Vec<Location> = body.locations.clone();
    locations.sort_by_key(|location| location.inst);
    let mut locations = locations.into_iter().peekable();
    for (at, inst) in body.code.iter().enumerate() {
        if labels[at] {
            writeln!(f, "L{at}:")?;
        }
        while let Some(location) = locations.next_if(|location| location.inst as usize <= at) {
            writeln!(f, "  {}", PlaceText(location.place, location.call))?;
        }
        writeln!(f, "  {}", InstText(body, inst))?;
    }
    locations.try_for_each(|location| writeln!(f, "  {}", PlaceText(location.place, location.call)))
}

/// A place, and the call that it is within.
struct PlaceText(Place, Option<u32>);

impl Display for PlaceText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let PlaceText(Place { source, line, column }, call) = *self;
        match source {
            0 => write!(f, "@{line}:{column}")?,
            _ => write!(f, "@{source}:{line}:{column}")?,
        }
        call.map_or(Ok(()), |call| write!(f, " in n{call}"))
    }
}

struct InstText<'a>(&'a Body, &'a Inst);

impl Display for InstText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let InstText(body, inst) = *self;
        let info = inst.op.info();
        write!(f, "{}", info.mnemonic)?;
        let Some(operands) = body.operands(inst) else { return write!(f, " <outside of the pool>") };
        for (index, (info, operand)) in info.operands.iter().zip(&operands).enumerate() {
            write!(f, "{}", grammar::separator(index, info.role).text())?;
            print_operand(operand, body, f)?;
        }
        Ok(())
    }
}

fn print_operand(operand: &Operand, body: &Body, f: &mut Formatter<'_>) -> fmt::Result {
    let target = |&target: &u32| match (target as usize) < body.code.len() {
        true => format!("L{target}"),
        false => target.to_string(),
    };
    match operand {
        Operand::Def(reg) | Operand::Use(reg) => write!(f, "{reg}"),
        Operand::Real(value) => RealText(*value).fmt(f),
        Operand::Int(value) => write!(f, "{value}"),
        Operand::Field(number) | Operand::Tag(number) | Operand::Count(number) => write!(f, "{number}"),
        Operand::Target(n) => write!(f, "{}", target(n)),
        Operand::Targets(list) => write!(f, "[{}]", Joined(list.iter().map(target))),
        Operand::Func(number) => write!(f, "f{number}"),
        Operand::Message(number) => write!(f, "m{number}"),
        Operand::Template(number) => write!(f, "s{number}"),
        Operand::Import(number) => write!(f, "x{number}"),
        Operand::Uses(list) | Operand::Defs(list) => write!(f, "({})", Joined(list.iter())),
    }
}

/// A real that reads back to the same bits.
struct RealText(f64);

impl Display for RealText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let value = self.0;
        if value.to_bits() == f64::NAN.to_bits() {
            write!(f, "nan")
        } else if value.is_nan() {
            write!(f, "nan:{:#018x}", value.to_bits())
        } else {
            write!(f, "{value:?}")
        }
    }
}

struct TypeText<'a>(&'a TypeDef);

impl Display for TypeText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            TypeDef::Struct(fields) => write!(f, "struct {}", FieldList(fields)),
            TypeDef::Shaped(fields) => write!(f, "shaped {}", FieldList(fields)),
            TypeDef::Variant(variants) if variants.is_empty() => write!(f, "variant {{}}"),
            TypeDef::Variant(variants) => {
                write!(f, "variant {{ {} }}", Joined(variants.iter().map(VariantText)))
            }
            TypeDef::Array(element) => write!(f, "array {}", ValueText(*element)),
            TypeDef::Builder(element) => write!(f, "builder {}", ValueText(*element)),
            TypeDef::Chain(variant) => write!(f, "chain {}", ValueText(ValueType::Ref(*variant))),
            TypeDef::Closure { params, results } => {
                write!(f, "closure {} -> {}", ValueList(params), ValueList(results))
            }
        }
    }
}

struct VariantText<'a>(&'a VariantDef);

impl Display for VariantText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Name(&self.0.name), FieldList(&self.0.fields))
    }
}

struct DataText<'a>(&'a DataDef);

impl Display for DataText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let DataDef { name, ty, variants } = self.0;
        write!(f, "{} t{}", Quoted(name), ty.0)?;
        for (index, (name, payload)) in variants.iter().enumerate() {
            write!(f, " {} {} {}", if index > 0 { '|' } else { '=' }, Name(name), PayloadText(payload))?;
        }
        Ok(())
    }
}

struct TemplateText<'a>(&'a Template);

impl Display for TemplateText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Template { pieces, func } = self.0;
        write!(f, "({})", Joined(pieces.iter().map(PieceText)))?;
        func.map_or(Ok(()), |func| write!(f, " by f{}", func.0))
    }
}

struct PieceText<'a>(&'a Piece);

impl Display for PieceText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Piece::Text(text) => Quoted(text).fmt(f),
            Piece::Value(ty) => HostText(ty).fmt(f),
        }
    }
}

/// A constructor's payload: as a host type, but that parentheses always mean a tuple.
struct PayloadText<'a>(&'a HostType);

impl Display for PayloadText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            HostType::Tuple(parts) => write!(f, "({})", Joined(parts.iter().map(HostText))),
            other => HostText(other).fmt(f),
        }
    }
}

struct FieldList<'a>(&'a [ValueType]);

impl Display for FieldList<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => write!(f, "{{}}"),
            fields => write!(f, "{{ {} }}", Joined(fields.iter().copied().map(ValueText))),
        }
    }
}

struct ValueList<'a>(&'a [ValueType]);

impl Display for ValueList<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "({})", Joined(self.0.iter().copied().map(ValueText)))
    }
}

struct ValueText(ValueType);

impl Display for ValueText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            ValueType::Real => write!(f, "real"),
            ValueType::Int => write!(f, "int"),
            ValueType::Ref(id) => write!(f, "t{}", id.0),
        }
    }
}

struct InterfaceText<'a>(&'a Interface);

impl Display for InterfaceText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "({}) -> {}", Joined(self.0.params.iter().map(Part)), HostText(&self.0.result))
    }
}

/// A named parameter, or part of a record.
struct Part<'a>(&'a (String, HostType));

impl Display for Part<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} : {}", Name(&self.0.0), HostText(&self.0.1))
    }
}

/// A host type in the language's syntax, with what the language leaves out: heap types of arrays, lists and tensors,
/// numbers and quotes of data types, and a comma in tuples of one.
struct HostText<'a>(&'a HostType);

impl Display for HostText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        nest::walk(self.0, &mut HostWriter(f))
    }
}

struct HostWriter<'f, 'b>(&'f mut Formatter<'b>);

impl Visit<'_, HostType> for HostWriter<'_, '_> {
    type Stop = fmt::Error;

    fn enter(&mut self, ty: &HostType) -> fmt::Result {
        let HostWriter(f) = self;
        match ty {
            HostType::Real => write!(f, "Real"),
            HostType::Int => write!(f, "Int"),
            HostType::Bool => write!(f, "Bool"),
            HostType::Tuple(_) => write!(f, "("),
            HostType::Record(_) => write!(f, "{{"),
            HostType::Array { .. } => write!(f, "Array "),
            HostType::List { .. } => write!(f, "List "),
            HostType::Tensor { .. } => write!(f, "Tensor "),
            HostType::Data { name, data } => write!(f, "Data {} @d{}", Quoted(name), data.0),
        }
    }

    fn before(&mut self, ty: &HostType, n: usize) -> fmt::Result {
        let HostWriter(f) = self;
        match ty {
            HostType::Record(parts) => write!(f, "{}{} : ", if n > 0 { ", " } else { " " }, Name(&parts[n].0)),
            _ if ty.item().is_some_and(is_applied) => write!(f, "("),
            _ => write!(f, "{}", if n > 0 { ", " } else { "" }),
        }
    }

    fn behind(&mut self, ty: &HostType, _: usize) -> fmt::Result {
        let HostWriter(f) = self;
        match ty {
            _ if ty.item().is_some_and(is_applied) => write!(f, ")"),
            _ => Ok(()),
        }
    }

    fn leave(&mut self, ty: &HostType) -> fmt::Result {
        let HostWriter(f) = self;
        match ty {
            HostType::Tuple(parts) => write!(f, "{}", if parts.len() == 1 { ",)" } else { ")" }),
            HostType::Record(parts) => write!(f, "{}", if parts.is_empty() { "}" } else { " }" }),
            HostType::Array { array: id, .. }
            | HostType::List { list: id, .. }
            | HostType::Tensor { tensor: id, .. } => {
                write!(f, " @t{}", id.0)
            }
            _ => Ok(()),
        }
    }
}

/// Whether a type has several words, and so stands in parentheses as the type of elements.
fn is_applied(ty: &HostType) -> bool {
    ty.item().is_some() || matches!(ty, HostType::Data { .. })
}

/// A name: bare if the parser reads it as one word.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if grammar::is_word(self.0) { write!(f, "{}", self.0) } else { Quoted(self.0).fmt(f) }
    }
}

/// A string in quotes, with escapes that [`super::lex`] reads.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\"")?;
        for c in self.0.chars() {
            match c {
                '"' => write!(f, "\\\"")?,
                '\\' => write!(f, "\\\\")?,
                '\n' => write!(f, "\\n")?,
                '\t' => write!(f, "\\t")?,
                '\r' => write!(f, "\\r")?,
                c if c.is_control() => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        write!(f, "\"")
    }
}

/// Items with commas between them.
struct Joined<I>(I);

impl<I> Display for Joined<I>
where
    I: Iterator<Item: Display> + Clone,
{
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.clone().enumerate() {
            write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}
