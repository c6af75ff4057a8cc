//! What a module of bytecode exports, as a text in the language: so that programs import it as they import a file.
//!
//! The text has imports of functions and the data types that their types mention. Bytecode knows a type with parameters
//! by its uses only: what was `Tree Real` is a type of its own here, `TreeReal`. `Maybe` is the prelude's. What the
//! language has no words for is left out, with a reason, and so is what mentions it. The text itself is right, whoever
//! made the module.
//!
//! Types of two modules that have the same name and are made of the same are one type, so that what one module gives
//! another one can take: the second interface doesn't declare it but has it of the first.

use crate::hash::{HashMap, HashSet};
use crate::imports::is_name;
use crate::lexer::{NAME_BYTES_MAX, is_name_part};
use crate::limits::Meter;
use crate::source::Span;
use crate::token::TokenKind;
use dualvm_vm::linker::Library;
use dualvm_vm::module::{DataDef, DataId, HostType, Interface};
use std::fmt::Write;
use std::rc::Rc;

/// A type is written with so many bytes at most.
const TYPE_BYTES_MAX: usize = 4096;
/// The names of types are no longer than this, so that there is room for numbers behind them.
const TYPE_NAME_BYTES: usize = 100;
/// So many `Maybe`s stand in each other at most.
const MAYBES_MAX: usize = 32;

/// The text that stands for a module where a program imports it.
pub(crate) struct InterfaceText {
    pub(crate) text: String,
    /// The exported functions that aren't in it, and why.
    pub(crate) left_out: Vec<(String, String)>,
    /// The types that it has of other interfaces, under the names that they have there, and the numbers of these files.
    pub(crate) shared: Vec<(String, usize)>,
}

/// The types of the interfaces so far, which others may have: for each interface, by their names there.
#[derive(Default)]
pub(crate) struct SharedTypes(Vec<HashMap<String, SharedType>>);

struct SharedType {
    /// The file that declares it: the first interface that has it.
    file: usize,
    declaration: Rc<str>,
}

/// Whether a module can be linked under a name.
pub(crate) fn can_be_named(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_control() || "\"\\{}".contains(c))
}

/// Writes the interface of a module that is linked under a name, which will be the file of a number. `span` is where it
/// is imported.
pub(crate) fn interface_text(
    (name, library): (&str, &Library),
    (known, file): (&mut SharedTypes, usize),
    meter: &Meter,
    span: Span,
) -> InterfaceText {
    let exports = library.def().functions.iter();
    let exports: Vec<(&str, &Interface)> =
        exports.filter_map(|function| Some((&*function.name, function.interface.as_ref()?))).collect();
    let mut types = Types::of(&library.def().data, &exports, meter, span);
    types.check();
    types.name_all();
    let (mut text, mut left_out) = (String::new(), Vec::new());
    for (function, interface) in exports {
        if !meter.step(span) {
            break;
        }
        let shown = match is_name(function) && function.len() <= NAME_BYTES_MAX {
            true => types.function(interface),
            false => Err("that is no name in the language".to_owned()),
        };
        match shown {
            Ok(ty) => {
                let written = writeln!(text, "import host \"{name}.{function}\" as {function} : {ty}");
                written.expect("a string takes everything");
            }
            Err(why) => left_out.push((function.to_owned(), why)),
        }
    }
    let shared = types.declare_all(&mut text, known, file);
    InterfaceText { text, left_out, shared }
}

struct Types<'d> {
    data: &'d [DataDef],
    /// The data types that exported functions lead to, in the order in which they are first mentioned.
    order: Vec<DataId>,
    /// What mentions each of them.
    users: HashMap<DataId, Vec<DataId>>,
    /// Why some can't be written.
    refused: HashMap<DataId, String>,
    /// What the others are called; those that are the prelude's `Maybe` are written out.
    names: HashMap<DataId, String>,
    /// The names of types, and the last number that was tried for one.
    taken: HashMap<String, u32>,
    meter: &'d Meter,
    span: Span,
}

impl<'d> Types<'d> {
    fn of(data: &'d [DataDef], exports: &[(&str, &'d Interface)], meter: &'d Meter, span: Span) -> Self {
        let taken = BUILT_IN.iter().map(|&name| (name.to_owned(), 1)).collect();
        let (order, users, refused, names) = Default::default();
        let mut types = Types { data, order, users, refused, names, taken, meter, span };
        let mut seen = HashSet::default();
        for (_, interface) in exports {
            for ty in interface.params.iter().map(|(_, ty)| ty).chain([&interface.result]) {
                types.mentioned(ty, None, &mut seen);
            }
        }
        let mut next = 0;
        while let Some(&id) = types.order.get(next) {
            for (_, payload) in &data[id.index()].variants {
                types.mentioned(payload, Some(id), &mut seen);
            }
            next += 1;
        }
        types
    }

    /// Notes the data types that a type mentions, which may be part of another one.
    fn mentioned(&mut self, ty: &HostType, user: Option<DataId>, seen: &mut HashSet<DataId>) {
        if !self.meter.step(self.span) {
            return;
        }
        match ty {
            HostType::Tuple(parts) => parts.iter().for_each(|part| self.mentioned(part, user, seen)),
            HostType::Record(parts) => parts.iter().for_each(|(_, part)| self.mentioned(part, user, seen)),
            HostType::Array { element: part, .. }
            | HostType::List { element: part, .. }
            | HostType::Tensor { slice: part, .. } => self.mentioned(part, user, seen),
            HostType::Data { data, .. } => {
                if seen.insert(*data) {
                    self.order.push(*data);
                }
                if let Some(user) = user {
                    self.users.entry(*data).or_default().push(user);
                }
            }
            _ => {}
        }
    }

    /// Finds the data types that can't be written, by themselves or because of others.
    fn check(&mut self) {
        for id in self.order.clone() {
            let variants = &self.data[id.index()].variants;
            let wrong = if variants.is_empty() {
                Some("it has a type without constructors".to_owned())
            } else {
                variants.iter().find_map(|(constructor, payload)| match is_type_name(constructor) {
                    true => payload_problem(payload),
                    false => Some(format!("the constructor {constructor:?} has no name of the language")),
                })
            };
            if let Some(why) = wrong {
                self.refuse(id, &why);
            }
        }
        let mut constructors = HashSet::default();
        for id in self.order.clone() {
            let def = &self.data[id.index()];
            if self.refused.contains_key(&id) || maybe(def).is_some() {
                continue;
            }
            match def.variants.iter().find(|(name, _)| constructors.contains(name.as_str())) {
                Some((name, _)) => {
                    self.refuse(id, &format!("two of the module's data types have a constructor `{name}`"))
                }
                None => constructors.extend(def.variants.iter().map(|(name, _)| name.as_str())),
            }
        }
        // After all that, for these are written with what is in them.
        for id in self.order.clone() {
            if maybe(&self.data[id.index()]).is_some() && !self.refused.contains_key(&id) && self.meter.go_on() {
                self.check_maybe(id);
            }
        }
    }

    /// Refuses a `Maybe` that holds itself, or more of them than are worth writing.
    fn check_maybe(&mut self, id: DataId) {
        let (mut left, mut budget) = (vec![(id, 0)], TYPE_BYTES_MAX);
        while let Some((id, depth)) = left.pop() {
            let Some(content) = maybe(&self.data[id.index()]) else { continue };
            if depth > MAYBES_MAX || budget == 0 || !self.meter.step(self.span) {
                return self.refuse(id, "it has a `Maybe` that can't be written out");
            }
            budget -= 1;
            for_each_data(content, &mut |part| left.push((part, depth + 1)));
        }
    }

    /// Refuses a data type with all that mention it.
    fn refuse(&mut self, id: DataId, why: &str) {
        let mut left = vec![id];
        while let Some(id) = left.pop() {
            if self.refused.contains_key(&id) {
                continue;
            }
            self.refused.insert(id, why.to_owned());
            left.extend(self.users.get(&id).into_iter().flatten());
        }
    }

    fn name_all(&mut self) {
        for id in self.order.clone() {
            let def = &self.data[id.index()];
            if !self.refused.contains_key(&id) && maybe(def).is_none() {
                let name = self.unique(&def.name);
                self.names.insert(id, name);
            }
        }
    }

    /// A name of a type like this one that no other type has.
    fn unique(&mut self, like: &str) -> String {
        let letters: String = like.chars().filter(|&c| is_name_part(c) && c != '\'').collect();
        let letters = &letters[..letters.floor_char_boundary(TYPE_NAME_BYTES)];
        let base = if is_type_name(letters) { letters.to_owned() } else { format!("T{letters}") };
        let Some(mut number) = self.taken.get(&base).copied() else {
            self.taken.insert(base.clone(), 1);
            return base;
        };
        let name = loop {
            number += 1;
            let name = format!("{base}{number}");
            if !self.taken.contains_key(&name) {
                break name;
            }
        };
        self.taken.insert(base, number);
        self.taken.insert(name.clone(), 1);
        name
    }

    /// The type of a function.
    fn function(&self, interface: &Interface) -> Result<String, String> {
        let mut parts = Vec::new();
        for ty in interface.params.iter().map(|(_, ty)| ty).chain([&interface.result]) {
            if let Some(why) = type_problem(ty) {
                return Err(why);
            }
            let mut refused = None;
            for_each_data(ty, &mut |data| refused = refused.or(self.refused.get(&data)));
            if let Some(why) = refused {
                return Err(why.clone());
            }
            parts.push(self.shown(ty)?);
        }
        Ok(parts.join(" -> "))
    }

    /// Declares the types, but for those that other interfaces declare, which are returned: those that have the same
    /// name and the same declaration in one of them, as has all that they lead to.
    fn declare_all(&mut self, text: &mut String, known: &mut SharedTypes, file: usize) -> Vec<(String, usize)> {
        let mut declarations: Vec<(DataId, String, Rc<str>)> = Vec::new();
        for id in self.order.clone() {
            if let Some(name) = self.names.get(&id).cloned() {
                let declaration = self.declaration(id, &name).into();
                declarations.push((id, name, declaration));
            }
        }
        let mut owners: HashMap<DataId, usize> = HashMap::default();
        for interface in &known.0 {
            if !self.meter.steps(1 + declarations.len()) {
                break;
            }
            // The first interface that has a type has also what it leads to, or shares that with an earlier one.
            let mut others = HashSet::default();
            for (id, name, declaration) in &declarations {
                if interface.get(name).is_none_or(|known| known.declaration != *declaration) {
                    self.reach_users(*id, &mut others);
                }
            }
            for (id, name, _) in declarations.iter().filter(|(id, ..)| !others.contains(id)) {
                owners.entry(*id).or_insert(interface[name].file);
            }
        }
        let (mut shared, mut interface) = (Vec::new(), HashMap::default());
        for (id, name, declaration) in declarations {
            let owner = owners.get(&id).copied();
            match owner {
                Some(owner) => shared.push((name.clone(), owner)),
                None => text.push_str(&declaration),
            }
            interface.insert(name, SharedType { file: owner.unwrap_or(file), declaration });
        }
        known.0.push(interface);
        shared
    }

    /// Adds a data type and all that mention it.
    fn reach_users(&self, id: DataId, reached: &mut HashSet<DataId>) {
        let mut left = vec![id];
        while let Some(id) = left.pop() {
            if reached.insert(id) {
                left.extend(self.users.get(&id).into_iter().flatten());
            }
        }
    }

    fn declaration(&mut self, id: DataId, name: &str) -> String {
        let (mut variants, mut aliases) = (Vec::new(), String::new());
        for (constructor, payload) in &self.data[id.index()].variants {
            let fields = match payload {
                HostType::Tuple(parts) => match &parts[..] {
                    // A record alone would name the constructor's fields.
                    [record @ HostType::Record(_)] => {
                        let alias = self.unique(&format!("{constructor}Record"));
                        let shown = self.shown(record).unwrap_or_default();
                        writeln!(aliases, "private alias {alias} = {shown}").expect("a string takes everything");
                        alias
                    }
                    parts => {
                        let parts: Vec<String> = parts.iter().map(|part| self.atom(part).unwrap_or_default()).collect();
                        parts.join(" ")
                    }
                },
                record => self.shown(record).unwrap_or_default(),
            };
            variants.push(format!("{constructor} {fields}").trim_end().to_owned());
        }
        format!("{aliases}type {name} = {}\n", variants.join(" | "))
    }

    /// A type as the argument of another one.
    fn atom(&self, ty: &HostType) -> Result<String, String> {
        let shown = self.shown(ty)?;
        let is_atom = !shown.contains(' ') || shown.starts_with(['(', '{']);
        Ok(if is_atom { shown } else { format!("({shown})") })
    }

    /// A type that has nothing in it that can't be written, but it may be too long.
    fn shown(&self, ty: &HostType) -> Result<String, String> {
        let shown = match ty {
            HostType::Int => "Int".to_owned(),
            HostType::Bool => "Bool".to_owned(),
            HostType::Tuple(parts) => {
                let parts: Result<Vec<String>, String> = parts.iter().map(|part| self.shown(part)).collect();
                format!("({})", parts?.join(", "))
            }
            HostType::Record(parts) => {
                let part = |(name, ty): &(String, HostType)| Ok(format!("{name} : {}", self.shown(ty)?));
                let parts: Result<Vec<String>, String> = parts.iter().map(part).collect();
                format!("{{ {} }}", parts?.join(", "))
            }
            HostType::Array { element, .. } => format!("Array {}", self.atom(element)?),
            HostType::List { element, .. } => format!("List {}", self.atom(element)?),
            HostType::Tensor { slice, .. } => {
                let kind = ["Matrix", "Tensor3", "Tensor4"].get(ty.rank().saturating_sub(2)).copied();
                let element = ty.element().unwrap_or(slice);
                format!("{} {}", kind.unwrap_or_default(), self.atom(element)?)
            }
            HostType::Data { data, .. } => match maybe(&self.data[data.index()]) {
                Some(content) => format!("Maybe {}", self.atom(content)?),
                None => self.names.get(data).cloned().unwrap_or_default(),
            },
            _ => "Real".to_owned(),
        };
        if shown.len() > TYPE_BYTES_MAX { Err("its type is too long".to_owned()) } else { Ok(shown) }
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

fn for_each_data(ty: &HostType, visit: &mut impl FnMut(DataId)) {
    match ty {
        HostType::Tuple(parts) => parts.iter().for_each(|part| for_each_data(part, visit)),
        HostType::Record(parts) => parts.iter().for_each(|(_, part)| for_each_data(part, visit)),
        HostType::Array { element: part, .. }
        | HostType::List { element: part, .. }
        | HostType::Tensor { slice: part, .. } => for_each_data(part, visit),
        HostType::Data { data, .. } => visit(*data),
        _ => {}
    }
}

/// Why the payload of a constructor can't be written, if it can't, but for data types in it.
fn payload_problem(payload: &HostType) -> Option<String> {
    match payload {
        HostType::Tuple(parts) => parts.iter().find_map(type_problem),
        // The fields of a constructor have an order of their own.
        HostType::Record(parts) => fields_problem(parts),
        other => type_problem(other),
    }
}

fn fields_problem(fields: &[(String, HostType)]) -> Option<String> {
    if fields.is_empty() {
        return Some("it has a record without fields".to_owned());
    }
    fields.iter().find_map(|(name, ty)| match is_name(name) && name.len() <= NAME_BYTES_MAX {
        true => type_problem(ty),
        false => Some(format!("the field {name:?} has no name of the language")),
    })
}

/// Why a type can't be written, if it can't, but for data types in it.
fn type_problem(ty: &HostType) -> Option<String> {
    match ty {
        HostType::Real | HostType::Int | HostType::Bool | HostType::Data { .. } => None,
        HostType::Tuple(parts) if parts.len() == 1 => Some("it has a tuple of one part".to_owned()),
        HostType::Tuple(parts) => parts.iter().find_map(type_problem),
        // That of a record is the alphabet's, whatever the program writes.
        HostType::Record(fields) if !fields.is_sorted_by(|(a, _), (b, _)| a < b) => {
            Some("it has a record whose fields aren't in the order of the alphabet".to_owned())
        }
        HostType::Record(fields) => fields_problem(fields),
        HostType::Array { element, .. } | HostType::List { element, .. } => type_problem(element),
        HostType::Tensor { .. } if ty.rank() > 4 => Some(format!("it has a tensor of {} dimensions", ty.rank())),
        HostType::Tensor { .. } => ty.element().and_then(type_problem),
        _ => Some("it has a type that the language has no name for".to_owned()),
    }
}

/// Whether a text is a name of a type or a constructor.
fn is_type_name(text: &str) -> bool {
    text.starts_with(char::is_uppercase)
        && text.chars().all(is_name_part)
        && text.len() <= NAME_BYTES_MAX
        && TokenKind::from_fixed(text).is_none()
}
