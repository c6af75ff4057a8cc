//! What a module of bytecode exports, as a text in the language: so that programs import it as they import a file.
//!
//! The text has imports of functions and the data types that their types mention. Bytecode knows a type with parameters
//! by its uses only: what was `Tree Real` is a type of its own here, `TreeReal`. `Maybe` is the prelude's.

use crate::hash::{HashMap, HashSet};
use crate::imports::is_name;
use crate::lexer::is_name_part;
use crate::token::TokenKind;
use dualvm_vm::linker::Library;
use dualvm_vm::module::{DataDef, DataId, HostType, Interface};
use std::fmt::Write;

/// The text that stands for a module of bytecode where a program imports it under a name. What the language has no
/// words for is left out, with a comment that says why.
pub(crate) fn interface_text(name: &str, library: &Library) -> String {
    let mut writer = Writer { data: &library.def().data, types: HashMap::default(), taken: HashSet::default() };
    let mut declared = String::new();
    let mut text = format!("-- The interface of the bytecode module `{name}`.\n");
    for function in &library.def().functions {
        let Some(interface) = &function.interface else { continue };
        let of = match is_name(&function.name) {
            true => writer.function(interface, &mut declared),
            false => Err("that is no name in the language".to_owned()),
        };
        let written = match of {
            Ok(ty) => writeln!(text, "import host \"{name}.{0}\" as {0} : {ty}", function.name),
            // A name of somebody else's may have line ends.
            Err(why) => writeln!(text, "-- {:?} is left out: {why}", function.name),
        };
        written.expect("a string takes everything");
    }
    text + &declared
}

struct Writer<'d> {
    data: &'d [DataDef],
    /// What data types are called here, or why they can't be declared.
    types: HashMap<DataId, Result<String, String>>,
    /// The names of types and constructors that are taken.
    taken: HashSet<String>,
}

impl Writer<'_> {
    /// The type of a function. Adds the data types that it mentions.
    fn function(&mut self, interface: &Interface, declared: &mut String) -> Result<String, String> {
        let mut parts = Vec::new();
        for ty in interface.params.iter().map(|(_, ty)| ty).chain([&interface.result]) {
            self.declare(ty, declared)?;
            parts.push(self.shown(ty)?);
        }
        Ok(parts.join(" -> "))
    }

    /// Declares the data types that a type mentions, and those that these mention. Either all of them can be declared,
    /// or none of them is.
    fn declare(&mut self, ty: &HostType, declared: &mut String) -> Result<(), String> {
        let mut found = Vec::new();
        self.collect(ty, &mut found);
        let mut at = 0;
        while let Some(&data) = found.get(at) {
            let def = &self.data[data.index()];
            def.variants.iter().for_each(|(_, payload)| self.collect(payload, &mut found));
            at += 1;
        }
        let taken = self.taken.clone();
        let names = self.name_all(&found);
        let written: Result<Vec<String>, String> = match names {
            Ok(()) => {
                let own = found.iter().filter(|data| maybe(&self.data[data.index()]).is_none());
                own.map(|&data| self.declaration(data)).collect()
            }
            Err(why) => Err(why),
        };
        match written {
            Ok(lines) => {
                declared.extend(lines);
                Ok(())
            }
            Err(why) => {
                self.taken = taken;
                self.types.extend(found.iter().map(|&data| (data, Err(why.clone()))));
                Err(why)
            }
        }
    }

    /// Adds the data types in a type that have no name yet.
    fn collect(&self, ty: &HostType, found: &mut Vec<DataId>) {
        match ty {
            HostType::Tuple(parts) => parts.iter().for_each(|part| self.collect(part, found)),
            HostType::Record(parts) => parts.iter().for_each(|(_, part)| self.collect(part, found)),
            HostType::Array { element, .. } | HostType::List { element, .. } => self.collect(element, found),
            HostType::Tensor { slice, .. } => self.collect(slice, found),
            HostType::Data { data, .. } if !self.types.contains_key(data) && !found.contains(data) => found.push(*data),
            _ => {}
        }
    }

    fn name_all(&mut self, found: &[DataId]) -> Result<(), String> {
        for &id in found {
            let def = &self.data[id.index()];
            if maybe(def).is_some() {
                self.types.insert(id, Ok(String::new()));
                continue;
            }
            for (constructor, _) in &def.variants {
                if !is_type_name(constructor) {
                    return Err(format!("the constructor {constructor:?} has no name of the language"));
                }
                if !self.taken.insert(format!("{constructor} of")) {
                    return Err(format!("two of its data types have a constructor `{constructor}`"));
                }
            }
            let letters: String = def.name.chars().filter(|&c| is_name_part(c)).collect();
            let base = if is_type_name(&letters) { letters } else { format!("T{letters}") };
            let numbered = (2..).map(|n| format!("{base}{n}"));
            let free = |name: &String| !BUILT_IN.contains(&name.as_str()) && !self.taken.contains(name);
            let name = std::iter::once(base.clone()).chain(numbered).find(free).expect("there are always more numbers");
            self.taken.insert(name.clone());
            self.types.insert(id, Ok(name));
        }
        Ok(())
    }

    fn declaration(&self, id: DataId) -> Result<String, String> {
        let mut variants = Vec::new();
        for (constructor, payload) in &self.data[id.index()].variants {
            let fields = match payload {
                HostType::Tuple(parts) => {
                    let parts: Result<Vec<String>, String> = parts.iter().map(|part| self.atom(part)).collect();
                    parts?.join(" ")
                }
                record => self.shown(record)?,
            };
            variants.push(format!("{constructor} {fields}").trim_end().to_owned());
        }
        let name = self.name(id)?;
        Ok(format!("type {name} = {}\n", variants.join(" | ")))
    }

    fn name(&self, id: DataId) -> Result<&str, String> {
        match &self.types[&id] {
            Ok(name) => Ok(name),
            Err(why) => Err(why.clone()),
        }
    }

    /// A type as the argument of another one.
    fn atom(&self, ty: &HostType) -> Result<String, String> {
        let shown = self.shown(ty)?;
        let is_atom = !shown.contains(' ') || shown.starts_with(['(', '{']);
        Ok(if is_atom { shown } else { format!("({shown})") })
    }

    fn shown(&self, ty: &HostType) -> Result<String, String> {
        Ok(match ty {
            HostType::Real => "Real".to_owned(),
            HostType::Int => "Int".to_owned(),
            HostType::Bool => "Bool".to_owned(),
            HostType::Tuple(parts) if parts.len() == 1 => return Err("it has a tuple of one part".to_owned()),
            HostType::Tuple(parts) => {
                let parts: Result<Vec<String>, String> = parts.iter().map(|part| self.shown(part)).collect();
                format!("({})", parts?.join(", "))
            }
            HostType::Record(parts) => {
                let part = |(name, ty): &(String, HostType)| match is_name(name) {
                    true => Ok(format!("{name} : {}", self.shown(ty)?)),
                    false => Err(format!("the field {name:?} has no name of the language")),
                };
                let parts: Result<Vec<String>, String> = parts.iter().map(part).collect();
                format!("{{ {} }}", parts?.join(", "))
            }
            HostType::Array { element, .. } => format!("Array {}", self.atom(element)?),
            HostType::List { element, .. } => format!("List {}", self.atom(element)?),
            HostType::Tensor { .. } => {
                let kind = match ty.rank() {
                    2 => "Matrix",
                    3 => "Tensor3",
                    4 => "Tensor4",
                    rank => return Err(format!("it has a tensor of {rank} dimensions")),
                };
                format!("{kind} {}", self.atom(ty.element().expect("a tensor has elements"))?)
            }
            HostType::Data { data, .. } => match maybe(&self.data[data.index()]) {
                Some(content) => format!("Maybe {}", self.atom(content)?),
                None => self.name(*data)?.to_owned(),
            },
            _ => return Err("it has a type that the language has no name for".to_owned()),
        })
    }
}

/// The names of types that every program knows.
const BUILT_IN: [&str; 9] = ["Real", "Int", "Bool", "Array", "List", "Matrix", "Tensor3", "Tensor4", "Maybe"];

/// What a `Maybe` of the prelude's may hold, if a data type is one.
fn maybe(def: &DataDef) -> Option<&HostType> {
    match def.variants.as_slice() {
        [(nothing, HostType::Tuple(none)), (just, HostType::Tuple(one))] => {
            let is_maybe = nothing == "Nothing" && none.is_empty() && just == "Just" && def.name.starts_with("Maybe ");
            one.first().filter(|_| is_maybe && one.len() == 1)
        }
        _ => None,
    }
}

/// Whether a text is a name of a type or a constructor.
fn is_type_name(text: &str) -> bool {
    text.starts_with(char::is_uppercase) && text.chars().all(is_name_part) && TokenKind::from_fixed(text).is_none()
}
