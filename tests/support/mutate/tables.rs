//! Mutations of everything that isn't code: types, registers, interfaces, data types, names, locations.

use super::{Dice, Mutator};
use dualvm_vm::module::{
    DataId, HostType, InlinedCall, Interface, Location, Place, SourceFile, TypeDef, TypeId, ValueType, VariantDef,
};

/// Names that are hard to print, to quote or to tell apart.
const NAMES: [&str; 14] = [
    "",
    "main",
    "\"",
    "\\",
    "a\nb",
    "\u{0}",
    "\u{7f}\u{80}",
    "é λ \u{1f600}",
    "\u{202e}reversed",
    "}",
    "L0",
    "f0",
    "; no comment",
    "x y",
];

impl Mutator<'_> {
    /// A name, one of them as long as a name may be and one too long.
    fn name(&mut self) -> String {
        if self.dice.one_in(8) {
            return "n".repeat(self.dice.pick(&[255, 256, 65_535, 65_536]));
        }
        self.dice.pick(&NAMES).to_owned()
    }

    /// The number of a type: one that is there, as a rule.
    fn type_id(&mut self) -> TypeId {
        let count = self.def.types.len() as u32;
        TypeId(if count == 0 || self.dice.one_in(20) {
            self.dice.pick(&[count, u32::MAX])
        } else {
            self.dice.u32(..count)
        })
    }

    fn value_type(&mut self) -> ValueType {
        match self.dice.u8(..4) {
            0 | 1 => ValueType::Real,
            2 => ValueType::Int,
            _ => ValueType::Ref(self.type_id()),
        }
    }

    fn value_types(&mut self) -> Vec<ValueType> {
        let count = if self.dice.one_in(12) { self.dice.pick(&[254, 255, 256]) } else { self.dice.usize(..5) };
        let ty = self.value_type();
        (0..count).map(|at| if at > 6 { ty } else { self.value_type() }).collect()
    }

    fn type_def(&mut self) -> TypeDef {
        match self.dice.u8(..7) {
            0 => TypeDef::Struct(self.value_types()),
            1 => TypeDef::Variant(
                (0..self.dice.usize(..4))
                    .map(|n| VariantDef { name: format!("V{n}"), fields: self.value_types() })
                    .collect(),
            ),
            2 => TypeDef::Array(self.value_type()),
            3 => TypeDef::Builder(self.value_type()),
            4 => TypeDef::Chain(self.type_id()),
            5 => TypeDef::Shaped(self.value_types()),
            _ => TypeDef::Closure { params: self.value_types(), results: self.value_types() },
        }
    }
}

/// A type gets, loses or changes a part, or becomes something else.
pub(super) fn type_changed(this: &mut Mutator<'_>) -> Option<()> {
    if this.def.types.is_empty() {
        return None;
    }
    let which = this.dice.usize(..this.def.types.len());
    let (part, id, whole) = (this.value_type(), this.type_id(), this.type_def());
    let replace = this.dice.one_in(4);
    let name = this.name();
    let change = |dice: &mut Dice, list: &mut Vec<ValueType>| match dice.u8(..4) {
        0 => drop(list.pop()),
        1 if !list.is_empty() => {
            let at = dice.usize(..list.len());
            list[at] = part;
        }
        2 => list.insert(dice.usize(..=list.len()), part),
        _ => list.push(part),
    };
    match &mut this.def.types[which] {
        def if replace => *def = whole,
        TypeDef::Struct(fields) | TypeDef::Shaped(fields) => change(this.dice, fields),
        TypeDef::Closure { params, results } => {
            change(this.dice, params);
            change(this.dice, results);
        }
        TypeDef::Array(element) | TypeDef::Builder(element) => *element = part,
        TypeDef::Chain(of) => *of = id,
        TypeDef::Variant(variants) => match this.dice.u8(..4) {
            0 => drop(variants.pop()),
            1 => variants.push(VariantDef { name, fields: vec![part] }),
            _ => change(this.dice, &mut variants.last_mut()?.fields),
        },
        _ => return None,
    }
    Some(())
}

pub(super) fn type_more(this: &mut Mutator<'_>) -> Option<()> {
    let def = this.type_def();
    this.def.types.push(def);
    Some(())
}

/// A reference register becomes one of another type.
pub(super) fn register_type_changed(this: &mut Mutator<'_>) -> Option<()> {
    let function = this.function()?;
    let id = this.type_id();
    let refs = &mut this.def.functions[function].body.refs;
    if refs.is_empty() || this.dice.one_in(4) {
        refs.push(id);
    } else {
        let which = this.dice.usize(..refs.len());
        refs[which] = id;
    }
    Some(())
}

/// A bank gets more registers, up to as many as there may be and beyond, or loses some.
pub(super) fn register_count_changed(this: &mut Mutator<'_>) -> Option<()> {
    let function = this.function()?;
    let id = this.type_id();
    let body = &mut this.def.functions[function].body;
    let more = if this.dice.one_in(4) { this.dice.pick(&[255, 256, 4096, 64_999]) } else { this.dice.u32(1..70) };
    match this.dice.u8(..8) {
        0 => body.reals = body.reals.saturating_sub(1),
        1 => body.ints = body.ints.saturating_sub(1),
        2 => drop(body.refs.pop()),
        3 => body.reals = this.dice.pick(&[0, 65_000, 65_001, 65_536, u32::MAX]),
        4 => body.ints = this.dice.pick(&[0, 65_000, 65_001, 65_536, u32::MAX]),
        5 => body.refs.extend(std::iter::repeat_n(id, more.min(4096) as usize)),
        6 => body.reals = body.reals.saturating_add(more),
        _ => body.ints = body.ints.saturating_add(more),
    }
    Some(())
}

/// A host sees a function otherwise: other types of the same registers, another name, or something wrong.
pub(super) fn interface_changed(this: &mut Mutator<'_>) -> Option<()> {
    let function = this.function()?;
    let exported = this.def.functions[function].interface.is_some();
    let name = this.name();
    let deep = this.dice.pick(&[1, 2, 62, 63, 64, 65]);
    let id = this.type_id();
    let data = this.def.data.first().map_or(String::new(), |data| data.name.clone());
    let dice = &mut *this.dice;
    let interface = &mut this.def.functions[function].interface;
    if !exported {
        *interface = Some(Interface { params: Vec::new(), result: HostType::Tuple(Vec::new()) });
        return Some(());
    }
    if dice.one_in(12) {
        *interface = None;
        return Some(());
    }
    let Interface { params, result } = interface.as_mut()?;
    let which = dice.usize(..=params.len());
    if which < params.len() && dice.one_in(4) {
        params[which].0 = name;
        return Some(());
    }
    let ty = if which < params.len() { &mut params[which].1 } else { result };
    // Of a type with parts, one of them may change.
    let ty = match ty {
        HostType::Tuple(parts) if !parts.is_empty() && dice.bool() => {
            let part = dice.usize(..parts.len());
            &mut parts[part]
        }
        HostType::Array { element, .. } | HostType::List { element, .. } | HostType::Tensor { slice: element, .. }
            if dice.bool() =>
        {
            &mut **element
        }
        ty => ty,
    };
    // A type can't be taken apart; it hands its parts on.
    let mut old = ty.clone();
    *ty = match (dice.u8(..8), &mut old) {
        (0..3, HostType::Int) => HostType::Bool,
        (0..3, HostType::Bool) => HostType::Int,
        (0, HostType::Array { element, array }) => HostType::List { element: element.clone(), list: *array },
        (0, HostType::List { element, list }) => HostType::Array { element: element.clone(), array: *list },
        (1, HostType::Tuple(parts)) => {
            let parts = std::mem::take(parts).into_iter().enumerate();
            HostType::Record(parts.map(|(n, part)| (format!("p{n}"), part)).collect())
        }
        (1, HostType::Record(parts)) => {
            HostType::Tuple(std::mem::take(parts).into_iter().map(|(_, part)| part).collect())
        }
        (2, HostType::Record(parts)) => {
            let mut parts = std::mem::take(parts);
            if let Some((first, _)) = parts.first_mut() {
                *first = name;
            }
            HostType::Record(parts)
        }
        (3, _) => HostType::Record(vec![(name, old)]),
        (4, _) => HostType::Array { element: Box::new(HostType::Real), array: id },
        (5, _) => HostType::Data { name: data, data: DataId(id.0) },
        (6, _) => HostType::Tensor { slice: Box::new(old), tensor: id },
        (_, _) => (0..deep).fold(old, |inner, _| HostType::Tuple(vec![inner])),
    };
    Some(())
}

/// A data type gets, loses or swaps constructors, another name, or another heap type.
pub(super) fn data_changed(this: &mut Mutator<'_>) -> Option<()> {
    if this.def.data.is_empty() {
        return None;
    }
    let which = this.dice.usize(..this.def.data.len());
    let (name, id) = (this.name(), this.type_id());
    let dice = &mut *this.dice;
    let data = &mut this.def.data[which];
    let count = data.variants.len();
    match dice.u8(..6) {
        0 => data.name = name,
        1 => data.ty = id,
        2 => drop(data.variants.pop()),
        3 => data.variants.push((name, HostType::Tuple(vec![HostType::Real]))),
        4 if count > 0 => {
            let (a, b) = (dice.usize(..count), dice.usize(..count));
            data.variants.swap(a, b);
        }
        _ => data.variants.last_mut()?.0 = name,
    }
    Some(())
}

/// A function, a message, the source or a variant has another name.
pub(super) fn name_changed(this: &mut Mutator<'_>) -> Option<()> {
    let name = this.name();
    match this.dice.u8(..4) {
        0 => match this.dice.u8(..4) {
            0 => this.def.debug.sources.clear(),
            1 => {
                let digest = this.dice.one_in(2).then_some([1; 32]);
                this.def.debug.sources.push(SourceFile { name, is_library: this.dice.one_in(2), digest });
            }
            2 => this.def.debug.calls.push(inlined_call(this.dice, name)),
            _ => this.def.debug.sources.first_mut()?.name = name,
        },
        1 => {
            let which = this.dice.usize(..=this.def.messages.len());
            match this.def.messages.get_mut(which) {
                Some(message) => *message = name,
                None => this.def.messages.push(name),
            }
        }
        2 => {
            let mut names: Vec<&mut String> = Vec::new();
            for ty in &mut this.def.types {
                if let TypeDef::Variant(variants) = ty {
                    names.extend(variants.iter_mut().map(|variant| &mut variant.name));
                }
            }
            let which = this.dice.usize(..names.len().max(1));
            *names.into_iter().nth(which)? = name;
        }
        _ => {
            let function = this.function()?;
            this.def.functions[function].name = name;
        }
    }
    Some(())
}

fn source_place(dice: &mut Dice) -> Place {
    let number = |dice: &mut Dice| dice.pick(&[1, 2, 80, 1 << 16, u32::MAX]);
    let source = if dice.one_in(4) { dice.pick(&[1, 2, u32::MAX]) } else { 0 };
    Place { source, line: number(dice), column: number(dice) }
}

fn inlined_call(dice: &mut Dice, callee: String) -> InlinedCall {
    let within = dice.one_in(2).then(|| dice.pick(&[0, 1, u32::MAX]));
    InlinedCall { callee: callee.into(), place: source_place(dice), within }
}

/// Instructions come from other places of the source.
pub(super) fn locations_changed(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place()?;
    let locations = &mut this.def.functions[function].body.locations;
    let call = this.dice.one_in(4).then(|| this.dice.pick(&[0, 1, u32::MAX]));
    let new = Location { inst: at as u32, place: source_place(this.dice), call };
    match this.dice.u8(..8) {
        0 => locations.clear(),
        1 => drop(locations.pop()),
        2 => locations.push(new),
        3 => locations.last_mut()?.place.line = this.dice.pick(&[0, 1, 2, 80, 1 << 16, u32::MAX]),
        4 if locations.len() > 1 => locations.swap(0, 1),
        _ => {
            let after = locations.partition_point(|location| location.inst < new.inst);
            locations.retain(|location| location.inst != new.inst);
            locations.insert(after.min(locations.len()), new);
        }
    }
    Some(())
}
