//! Declarations: definitions, data types and abbreviations.

use super::{ConstructorId, DataId, ExprId, PatternId, TypeExprId};
use crate::imports::Import;
use crate::names::Name;
use crate::source::Span;

/// A file of the program.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// The module's own name; the main file is no module.
    pub(crate) module: Option<Name>,
    /// What it has beside its declarations if it is the interface of a module of bytecode.
    pub(crate) interface: Interface,
    /// What it imports, and the numbers of these files.
    pub(crate) imports: Vec<(Import, usize)>,
    /// What it would import, but what isn't there, so that names from there are unknown.
    pub(crate) missing: Vec<Import>,
    /// How many entries of each table there are up to its end; it begins where the file before ends.
    pub(crate) end: Counts,
}

/// What the interface of a module of bytecode has beside its declarations.
#[derive(Clone, Default, Debug)]
pub(crate) struct Interface {
    /// The functions that it would have if the language had words for them, and why it hasn't.
    pub(crate) left_out: Vec<(String, String)>,
    /// The types that it has of other interfaces, which are files of smaller numbers.
    pub(crate) shared: Vec<(Name, usize)>,
}

/// How many entries of each table there are.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    /// Definitions.
    pub(crate) defs: usize,
    /// Data types.
    pub(crate) datas: usize,
    /// Abbreviations.
    pub(crate) aliases: usize,
}

/// `type Name a b = C A B | D { x : A }`.
#[derive(Debug)]
pub(crate) struct Data {
    /// The name.
    pub(crate) name: Name,
    /// Where the name stands.
    pub(crate) name_span: Span,
    /// Whether other files can't mention it.
    pub(crate) is_private: bool,
    /// The parameters.
    pub(crate) params: Vec<(Name, Span)>,
    /// The constructors, in the order of the text.
    pub(crate) constructors: Vec<ConstructorId>,
}

/// A constructor of a data type.
#[derive(Debug)]
pub(crate) struct Constructor {
    /// The name.
    pub(crate) name: Name,
    /// Where the name stands.
    pub(crate) name_span: Span,
    /// The type that it makes.
    pub(crate) data: DataId,
    /// Its position among the type's constructors.
    pub(crate) index: u32,
    /// The types of its fields, in the order of the text.
    pub(crate) fields: Vec<TypeExprId>,
    /// The names of its fields, if it was declared with a record: one for each.
    pub(crate) field_names: Option<Vec<(Name, Span)>>,
}

/// `alias Name a b = T`.
#[derive(Debug)]
pub(crate) struct Alias {
    /// The name.
    pub(crate) name: Name,
    /// Where the name stands.
    pub(crate) name_span: Span,
    /// Whether other files can't mention it.
    pub(crate) is_private: bool,
    /// The parameters.
    pub(crate) params: Vec<(Name, Span)>,
    /// What it stands for.
    pub(crate) ty: TypeExprId,
}

/// `def name param … : result = body`.
#[derive(Debug)]
pub(crate) struct Def {
    /// The name.
    pub(crate) name: Name,
    /// Where the name stands.
    pub(crate) name_span: Span,
    /// Whether other files can't mention it.
    pub(crate) is_private: bool,
    /// The parameters.
    pub(crate) params: Vec<PatternId>,
    /// The declared result type.
    pub(crate) result: Option<TypeExprId>,
    /// The body.
    pub(crate) body: ExprId,
    /// Whether there is a trace in it.
    pub(crate) has_trace: bool,
}
