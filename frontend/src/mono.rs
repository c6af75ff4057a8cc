//! Concrete types: no variables, interned, of bounded size, with their representation in registers and on the heap.

use crate::arena::{Table, id_types};
use crate::ast::{DataId, LIST};
use crate::core::{ArrayType, Layout, TypeList, TypeLists};
use crate::hash::HashMap;
use crate::types::{Kind, Shape};
use dualvm_vm::builder::ModuleBuilder;
use dualvm_vm::isa::Bank;
use dualvm_vm::module::{TypeDef, TypeId, ValueType};

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
    /// A record: its fields' types in the order of their names.
    Record(Shape, Box<[Mono]>),
    /// A kind of collection: what a type variable may stand for. It has no values.
    Kind(Kind),
    /// An array.
    Array(Mono),
    /// An array of so many dimensions.
    Tensor(u8, Mono),
    /// A data type.
    Data(DataId, Box<[Mono]>),
    /// A function of one parameter; its result may be a function.
    Function(Mono, Mono),
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
    /// Whether values have parts that may be functions known at compile time.
    open: bool,
    /// Characters of the type as written, so that nobody writes a huge one.
    chars: usize,
    /// The first register of each part of a tuple or record.
    firsts: Box<[u32]>,
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
    /// In the order of [`Kind::ALL`].
    kinds: [Mono; Kind::ALL.len()],
}

impl Monos {
    /// The basic types.
    pub(crate) fn new(lists: &mut TypeLists) -> Self {
        let mut entries = Table::default();
        let mut ids = HashMap::default();
        let mut basic = |node: MonoNode, flat: &[ValueType]| {
            let flat = lists.intern(flat);
            let firsts = Box::default();
            let entry = Entry { node: node.clone(), flat, depth: 1, array: None, open: false, chars: 4, firsts };
            let id = entries.push(entry);
            ids.insert(node, id);
            id
        };
        let real = basic(MonoNode::Real, &[ValueType::Real]);
        let int = basic(MonoNode::Int, &[ValueType::Int]);
        let bool = basic(MonoNode::Bool, &[ValueType::Int]);
        let unit = basic(MonoNode::Tuple(Box::default()), &[]);
        let kinds = Kind::ALL.map(|kind| basic(MonoNode::Kind(kind), &[]));
        Monos { entries, ids, real, int, bool, unit, kinds }
    }

    /// A kind of collection.
    pub(crate) fn kind(&self, kind: Kind) -> Mono {
        self.kinds[kind.index()]
    }

    /// A tuple type.
    pub(crate) fn tuple(&mut self, parts: Vec<Mono>, lists: &mut TypeLists) -> Result<Mono, TooLarge> {
        self.product(MonoNode::Tuple(parts.into()), lists)
    }

    /// A tuple or record type.
    pub(crate) fn product(&mut self, node: MonoNode, lists: &mut TypeLists) -> Result<Mono, TooLarge> {
        if let Some(&id) = self.ids.get(&node) {
            return Ok(id);
        }
        let (MonoNode::Tuple(parts) | MonoNode::Record(_, parts)) = &node else { unreachable!("of products only") };
        let mut flat: Vec<ValueType> = Vec::new();
        let mut firsts = Vec::with_capacity(parts.len());
        for &part in parts {
            firsts.push(flat.len() as u32);
            flat.extend_from_slice(lists.get(self.entries[part].flat));
            if flat.len() > REGISTERS_MAX {
                return Err(TooLarge);
            }
        }
        let depth = parts.iter().map(|&part| self.entries[part].depth).max().unwrap_or(0) + 1;
        let chars = parts.iter().map(|&part| self.entries[part].chars + 2).sum();
        let open = parts.iter().any(|&part| self.entries[part].open);
        let firsts = firsts.into();
        self.add(Entry { flat: lists.intern(&flat), node, depth, array: None, open, chars, firsts })
    }

    /// A function type. Its values take all arguments that the type allows at once.
    pub(crate) fn function(
        &mut self,
        param: Mono,
        result: Mono,
        lists: &mut TypeLists,
        module: &mut ModuleBuilder,
    ) -> Result<Mono, TooLarge> {
        let node = MonoNode::Function(param, result);
        if let Some(&id) = self.ids.get(&node) {
            return Ok(id);
        }
        let (mut params, mut last) = (lists.get(self.flat(param)).to_vec(), result);
        while let MonoNode::Function(param, result) = *self.node(last) {
            params.extend(lists.get(self.flat(param)));
            last = result;
        }
        let results = lists.get(self.flat(last)).to_vec();
        let closure = module.intern_type(TypeDef::Closure { params, results });
        let flat = lists.intern(&[ValueType::Ref(closure)]);
        let (left, right) = (&self.entries[param], &self.entries[result]);
        let (depth, chars) = (left.depth.max(right.depth) + 1, left.chars + right.chars + 4);
        self.add(Entry { node, flat, depth, array: None, open: true, chars, firsts: Box::default() })
    }

    /// A data type; whether it is new. Its heap type is declared, for the caller to define.
    pub(crate) fn data(
        &mut self,
        data: DataId,
        args: Vec<Mono>,
        lists: &mut TypeLists,
        module: &mut ModuleBuilder,
    ) -> Result<(Mono, bool), TooLarge> {
        let node = MonoNode::Data(data, args.into());
        if let Some(&id) = self.ids.get(&node) {
            return Ok((id, false));
        }
        let MonoNode::Data(_, args) = &node else { unreachable!("made a line above") };
        let depth = args.iter().map(|&arg| self.entries[arg].depth).max().unwrap_or(0) + 1;
        let chars = args.iter().map(|&arg| self.entries[arg].chars + 2).sum::<usize>() + 8;
        let heap = module.declare_type(TypeDef::Variant(Vec::new()));
        let flat = lists.intern(&[ValueType::Ref(heap)]);
        let firsts = Box::default();
        Ok((self.add(Entry { node, flat, depth, array: None, open: false, chars, firsts })?, true))
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
        let (holds, layout) = match *fields {
            [single] => (single, Layout::Row(1)),
            [first, ..] if fields.iter().all(|&ty| ty == first) && first.bank() != Bank::Ref => {
                let width = u16::try_from(fields.len()).map_err(|_| TooLarge)?;
                (first, Layout::Row(width))
            }
            _ => (ValueType::Ref(module.intern_type(TypeDef::Struct(fields.to_vec()))), Layout::Struct),
        };
        let array = module.intern_type(TypeDef::Array(holds));
        let flat = lists.intern(&[ValueType::Ref(array)]);
        let array = Some(ArrayType { array, holds, layout });
        let Entry { depth, chars, .. } = self.entries[element];
        let firsts = Box::default();
        self.add(Entry { node, flat, depth: depth + 1, array, open: false, chars: chars + 8, firsts })
    }

    /// A type of arrays of several dimensions: an object of the elements, row by row, and the sizes.
    pub(crate) fn tensor(
        &mut self,
        rank: u8,
        element: Mono,
        lists: &mut TypeLists,
        module: &mut ModuleBuilder,
    ) -> Result<Mono, TooLarge> {
        let node = MonoNode::Tensor(rank, element);
        if let Some(&id) = self.ids.get(&node) {
            return Ok(id);
        }
        let elements = self.array(element, lists, module)?;
        let mut fields = lists.get(self.flat(elements)).to_vec();
        fields.extend(std::iter::repeat_n(ValueType::Int, usize::from(rank)));
        let heap = module.intern_type(TypeDef::Shaped(fields));
        let flat = lists.intern(&[ValueType::Ref(heap)]);
        let Entry { depth, chars, array, .. } = self.entries[elements];
        self.add(Entry { node, flat, depth, array, open: false, chars, firsts: Box::default() })
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

    /// How an array type is represented; of several dimensions, how its elements are.
    pub(crate) fn array_type(&self, ty: Mono) -> Option<ArrayType> {
        self.entries[ty].array
    }

    /// Whether values have parts that may be functions known at compile time.
    pub(crate) fn is_open(&self, ty: Mono) -> bool {
        self.entries[ty].open
    }

    /// Whether a type is that of lists.
    pub(crate) fn is_list(&self, ty: Mono) -> bool {
        matches!(self.node(ty), MonoNode::Data(LIST, _))
    }

    /// The type of a collection's elements. After a type was reported as too large, what should be one may not be one.
    pub(crate) fn element(&self, ty: Mono) -> Mono {
        match self.node(ty) {
            MonoNode::Data(LIST, args) => args[0],
            MonoNode::Array(element) | MonoNode::Tensor(_, element) => *element,
            _ => self.unit,
        }
    }

    /// The heap type of a type's only register.
    pub(crate) fn heap_type(&self, ty: Mono, lists: &TypeLists) -> Option<TypeId> {
        match *lists.get(self.flat(ty)) {
            [ValueType::Ref(heap)] => Some(heap),
            _ => None,
        }
    }

    /// The parts of a tuple or record.
    pub(crate) fn parts(&self, ty: Mono) -> &[Mono] {
        match self.node(ty) {
            MonoNode::Tuple(parts) | MonoNode::Record(_, parts) => parts,
            _ => &[],
        }
    }

    /// The first register of a part of a tuple or record, counted from that of the whole.
    pub(crate) fn first_register(&self, ty: Mono, part: usize) -> usize {
        self.entries[ty].firsts[part] as usize
    }

    /// All parameters of a function type, and its result.
    pub(crate) fn uncurried(&self, ty: Mono) -> (Vec<Mono>, Mono) {
        let (mut params, mut last) = (Vec::new(), ty);
        while let MonoNode::Function(param, result) = *self.node(last) {
            params.push(param);
            last = result;
        }
        (params, last)
    }

    /// What a function gives for some arguments.
    pub(crate) fn result_of(&self, mut ty: Mono, args: usize) -> Mono {
        for _ in 0..args {
            match *self.node(ty) {
                MonoNode::Function(_, result) => ty = result,
                _ => break,
            }
        }
        ty
    }
}
