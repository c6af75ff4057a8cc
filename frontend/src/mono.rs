//! Concrete types: no variables, interned, of bounded size, with their representation in registers and on the heap.

use crate::arena::{Table, id_types};
use crate::core::{ArrayType, TypeList, TypeLists};
use dualvm_vm::builder::ModuleBuilder;
use dualvm_vm::module::{HostType, TypeDef, ValueType};
use std::collections::HashMap;

/// No type may take more registers than this: tuples of tuples grow exponentially.
pub(crate) const REGISTERS_MAX: usize = 1_000;
/// No type may be nested deeper than this; the verifier's bound for what hosts see is a little higher.
pub(crate) const DEPTH_MAX: u32 = 50;

id_types! {
    /// A concrete type.
    Mono;
}

/// What a concrete type is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum MonoNode {
    /// `Real`
    Real,
    /// `Int`
    Int,
    /// `Bool`
    Bool,
    /// A tuple.
    Tuple(Box<[Mono]>),
    /// An array.
    Array(Mono),
}

/// A type is too large to be compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLarge;

#[derive(Debug)]
struct Entry {
    node: MonoNode,
    flat: TypeList,
    depth: u32,
    array: Option<ArrayType>,
    /// Characters of the type as written, so that nobody writes a huge one.
    chars: usize,
}

/// All concrete types of a program.
#[derive(Debug)]
pub(crate) struct Monos {
    entries: Table<Mono, Entry>,
    ids: HashMap<MonoNode, Mono>,
    /// `Real`
    pub(crate) real: Mono,
    /// `Int`
    pub(crate) int: Mono,
    /// `Bool`
    pub(crate) bool: Mono,
    /// `()`
    pub(crate) unit: Mono,
}

impl Monos {
    /// The basic types.
    pub(crate) fn new(lists: &mut TypeLists) -> Self {
        let mut entries = Table::default();
        let mut ids = HashMap::new();
        let mut basic = |node: MonoNode, flat: &[ValueType]| {
            let entry = Entry { node: node.clone(), flat: lists.intern(flat), depth: 1, array: None, chars: 4 };
            let id = entries.push(entry);
            ids.insert(node, id);
            id
        };
        let real = basic(MonoNode::Real, &[ValueType::Real]);
        let int = basic(MonoNode::Int, &[ValueType::Int]);
        let bool = basic(MonoNode::Bool, &[ValueType::Int]);
        let unit = basic(MonoNode::Tuple(Box::default()), &[]);
        Monos { entries, ids, real, int, bool, unit }
    }

    /// A tuple type.
    pub(crate) fn tuple(&mut self, parts: Vec<Mono>, lists: &mut TypeLists) -> Result<Mono, TooLarge> {
        let node = MonoNode::Tuple(parts.into());
        if let Some(&id) = self.ids.get(&node) {
            return Ok(id);
        }
        let MonoNode::Tuple(parts) = &node else { unreachable!("made a line above") };
        let count: usize = parts.iter().map(|&part| lists.get(self.entries[part].flat).len()).sum();
        if count > REGISTERS_MAX {
            return Err(TooLarge);
        }
        let flat: Vec<ValueType> = parts.iter().flat_map(|&part| lists.get(self.entries[part].flat).to_vec()).collect();
        let depth = parts.iter().map(|&part| self.entries[part].depth).max().unwrap_or(0) + 1;
        let chars = parts.iter().map(|&part| self.entries[part].chars + 2).sum();
        self.add(Entry { flat: lists.intern(&flat), node, depth, array: None, chars })
    }

    /// An array type.
    pub(crate) fn array(
        &mut self,
        element: Mono,
        lists: &mut TypeLists,
        module: &mut ModuleBuilder,
    ) -> Result<Mono, TooLarge> {
        let node = MonoNode::Array(element);
        if let Some(&id) = self.ids.get(&node) {
            return Ok(id);
        }
        let fields = lists.get(self.entries[element].flat);
        let (value, boxed) = match *fields {
            [single] => (single, None),
            _ => {
                let boxed = module.intern_type(TypeDef::Struct(fields.to_vec()));
                (ValueType::Ref(boxed), Some(boxed))
            }
        };
        let array = module.intern_type(TypeDef::Array(value));
        let flat = lists.intern(&[ValueType::Ref(array)]);
        let array = Some(ArrayType { array, element: value, boxed });
        let Entry { depth, chars, .. } = self.entries[element];
        self.add(Entry { node, flat, depth: depth + 1, array, chars: chars + 8 })
    }

    fn add(&mut self, entry: Entry) -> Result<Mono, TooLarge> {
        if entry.depth > DEPTH_MAX || entry.chars > 16 * REGISTERS_MAX {
            return Err(TooLarge);
        }
        let node = entry.node.clone();
        let id = self.entries.push(entry);
        self.ids.insert(node, id);
        Ok(id)
    }

    /// What a type is.
    pub(crate) fn node(&self, ty: Mono) -> &MonoNode {
        &self.entries[ty].node
    }

    /// The registers that a type takes.
    pub(crate) fn flat(&self, ty: Mono) -> TypeList {
        self.entries[ty].flat
    }

    /// How an array type is represented.
    pub(crate) fn array_type(&self, ty: Mono) -> Option<ArrayType> {
        self.entries[ty].array
    }

    /// The type as hosts see it.
    pub(crate) fn host_type(&self, ty: Mono) -> HostType {
        match self.node(ty) {
            MonoNode::Real => HostType::Real,
            MonoNode::Int => HostType::Int,
            MonoNode::Bool => HostType::Bool,
            MonoNode::Tuple(parts) => HostType::Tuple(parts.iter().map(|&part| self.host_type(part)).collect()),
            MonoNode::Array(element) => {
                let array = self.array_type(ty).expect("array types have a representation").array;
                HostType::Array { element: Box::new(self.host_type(*element)), array }
            }
        }
    }
}
