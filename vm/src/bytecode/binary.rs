//! The binary form of a module: a versioned container of sections.
//!
//! This file owns the order of things in a file; how numbers and strings are written is `wire`'s, and what an
//! instruction's operands are is the table's. Nothing is checked but syntax: the verifier says what may run. There is
//! one way to write each module, and the decoder accepts no other, so that equal modules have equal bytes.
//! `docs/bytecode.md` describes the format for other implementations.

use crate::bytecode::module::{Location, ModuleDef, TypeDef};

mod decode;
mod encode;
mod wire;

pub use decode::{DecodeError, decode};
pub use encode::{EncodeError, encode};

/// The first bytes of every file.
pub const MAGIC: [u8; 4] = *b"DVBC";

/// The last format version: [`encode()`] writes, and [`decode()`] reads, each from 1 to this.
pub const VERSION: u16 = 10;

/// The version of a module's file: the first one that has all of its instructions and types.
fn version_of(module: &ModuleDef) -> u16 {
    let third = |is_new: bool| if is_new { 3 } else { 1 };
    let code = module.functions.iter().flat_map(|function| &function.body.code).map(|inst| inst.op.info().since);
    let types = module.types.iter().map(|def| match def {
        TypeDef::Shaped(_) => 6,
        TypeDef::Chain(_) => 3,
        _ => 1,
    });
    let imported = module.imports.iter().map(|import| &import.interface);
    let interfaces = module.functions.iter().filter_map(|function| function.interface.as_ref()).chain(imported);
    let seen = interfaces.flat_map(|interface| interface.params.iter().map(|(_, ty)| ty).chain([&interface.result]));
    let texts = [if has_texts(module) { 6 } else { 1 }, if module.imports.is_empty() { 1 } else { 8 }];
    let kept = module.data.iter().flat_map(|data| &data.variants).map(|(_, payload)| payload);
    let seen = seen.chain(kept).map(|ty| third(ty.has_rows()));
    let debug = [if has_inlined(module) || module.debug.sources.len() > 1 { 5 } else { 1 }];
    code.chain(types).chain(seen).chain(debug).chain(texts).max().unwrap_or(1)
}

/// Whether the file has a section on code that stands in the place of calls, or is from other files than the first, or
/// on what these files are.
fn has_inlined(module: &ModuleDef) -> bool {
    let is_elsewhere = |location: &Location| location.place.source > 0 || location.call.is_some();
    !module.debug.calls.is_empty()
        || module.debug.sources.iter().any(|source| source.is_library || source.digest.is_some())
        || module.functions.iter().any(|function| function.body.locations.iter().any(is_elsewhere))
}

/// Whether the file has a section on texts with values, and on functions that have a traced twin.
fn has_texts(module: &ModuleDef) -> bool {
    !module.templates.is_empty() || !module.traced.is_empty()
}

/// Stands after the last section, so that a file that was cut short is found out.
const END: u8 = 0;

/// Whether bytes start like a module in binary form, of any version.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// A part of the file. The number is its code; sections stand in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
enum Section {
    Types = 1,
    Data = 2,
    Messages = 3,
    Functions = 4,
    Interfaces = 5,
    Debug = 6,
    Inlined = 7,
    Texts = 8,
    Imports = 9,
}

impl Section {
    const ALL: [Section; 9] = [
        Section::Types,
        Section::Data,
        Section::Messages,
        Section::Functions,
        Section::Interfaces,
        Section::Debug,
        Section::Inlined,
        Section::Texts,
        Section::Imports,
    ];

    const fn name(self) -> &'static str {
        match self {
            Section::Types => "types",
            Section::Data => "data",
            Section::Messages => "messages",
            Section::Functions => "functions",
            Section::Interfaces => "interfaces",
            Section::Debug => "debug",
            Section::Inlined => "inlined code",
            Section::Texts => "texts",
            Section::Imports => "imports",
        }
    }
}

/// First bytes of values with several forms.
mod tag {
    /// Value types. A reference is `REF` plus the type's number.
    pub(super) const REAL: u64 = 0;
    pub(super) const INT: u64 = 1;
    pub(super) const REF: u64 = 2;

    /// Type definitions.
    pub(super) const STRUCT: u8 = 0;
    pub(super) const VARIANT: u8 = 1;
    pub(super) const ARRAY: u8 = 2;
    pub(super) const BUILDER: u8 = 3;
    pub(super) const CLOSURE: u8 = 4;
    pub(super) const CHAIN: u8 = 5;
    pub(super) const SHAPED: u8 = 6;

    /// Pieces of templates.
    pub(super) const TEXT: u8 = 0;
    pub(super) const VALUE: u8 = 1;

    /// Host types.
    pub(super) const HOST_REAL: u8 = 0;
    pub(super) const HOST_INT: u8 = 1;
    pub(super) const HOST_BOOL: u8 = 2;
    pub(super) const HOST_TUPLE: u8 = 3;
    pub(super) const HOST_RECORD: u8 = 4;
    pub(super) const HOST_ARRAY: u8 = 5;
    pub(super) const HOST_LIST: u8 = 6;
    pub(super) const HOST_DATA: u8 = 7;
    pub(super) const HOST_TENSOR: u8 = 8;
}
